"""Arrays large enough for the CPU's tiles: convolutions with their gradients, and transposes read by other ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax

RNG = np.random.default_rng(5)


class Convolution:
    """The sum over window positions written out, and its gradients; images [n, y, x, c], filters [y, x, c, o]."""

    def __init__(self, stride: int, low: int, high: int, dilation: int, groups: int):
        self.stride, self.pad, self.dilation, self.groups = stride, (low, high), dilation, groups

    def _patches(self, x: Any, w: Any) -> Any:
        padded = np.pad(x, [(0, 0), self.pad, self.pad, (0, 0)])
        reach = (w.shape[0] - 1) * self.dilation
        out = [(padded.shape[a] - reach - 1) // self.stride + 1 for a in (1, 2)]
        for ky in range(w.shape[0]):
            for kx in range(w.shape[1]):
                at = [
                    slice(k * self.dilation, k * self.dilation + (n - 1) * self.stride + 1, self.stride)
                    for k, n in zip((ky, kx), out, strict=True)
                ]
                for g in range(self.groups):
                    c, o = w.shape[2], w.shape[3] // self.groups
                    where = (slice(None), *at, slice(g * c, (g + 1) * c))
                    yield padded, where, (ky, kx, slice(None), slice(g * o, (g + 1) * o))

    def __call__(self, x: Any, w: Any) -> Any:
        result: Any = 0
        for padded, where, of in self._patches(x, w):
            part = padded[where] @ w[of]
            if not isinstance(result, np.ndarray):
                result = np.zeros((*part.shape[:3], w.shape[3]))
            result[..., of[3]] += part
        return result

    def gradients(self, x: Any, w: Any, slope: Any) -> tuple[Any, Any]:
        dx, dw = np.zeros_like(np.pad(x, [(0, 0), self.pad, self.pad, (0, 0)])), np.zeros_like(w)
        for padded, where, of in self._patches(x, w):
            dx[where] += slope[..., of[3]] @ w[of].T
            dw[of] = np.einsum("nyxc,nyxo->co", padded[where], slope[..., of[3]])
        low, high = self.pad
        return dx[:, low : dx.shape[1] - high, low : dx.shape[2] - high], dw


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize(
    ("shape", "filters", "stride", "low", "high", "dilation", "groups"),
    [
        ((3, 19, 19, 24), (3, 3, 24, 40), 1, 1, 1, 1, 1),
        ((2, 17, 17, 16), (3, 3, 16, 32), 2, 1, 0, 1, 1),
        ((2, 20, 20, 8), (3, 3, 8, 17), 1, 2, 2, 2, 1),
        ((2, 15, 15, 40), (5, 5, 20, 64), 1, 0, 3, 1, 2),
        ((5, 30, 30, 48), (1, 1, 48, 33), 1, 0, 0, 1, 1),
        ((9, 28, 28, 3), (7, 7, 3, 20), 2, 3, 3, 1, 1),
    ],
)
def test_convolutions_and_gradients_are_sums_over_the_window(
    dtype: str,
    layout: str,
    shape: tuple[int, ...],
    filters: tuple[int, ...],
    stride: int,
    low: int,
    high: int,
    dilation: int,
    groups: int,
):
    oracle = Convolution(stride, low, high, dilation, groups)
    x, w = RNG.standard_normal(shape), RNG.standard_normal(filters)
    expected = oracle(x, w)
    slope = RNG.standard_normal(expected.shape)
    dx, dw = oracle.gradients(x, w, slope)
    images = (0, 1, 2, 3) if layout == "NHWC" else (0, 3, 1, 2)
    weights = (0, 1, 2, 3) if layout == "NHWC" else (3, 2, 0, 1)

    def place(a: Any, order: tuple[int, ...]) -> Any:
        return lnp.asarray(np.ascontiguousarray(a.transpose(order)).astype(dtype))

    def convolve(a: Any, b: Any) -> Any:
        return lax.conv_general_dilated(
            a,
            b,
            (stride, stride),
            [(low, high), (low, high)],
            rhs_dilation=(dilation, dilation),
            dimension_numbers=(layout, "HWIO" if layout == "NHWC" else "OIHW", layout),
            feature_group_count=groups,
        )

    def all_three(a: Any, b: Any, s: Any) -> Any:
        value, pull = lm.vjp(convolve, a, b)
        return value, *pull(s)

    args = place(x, images), place(w, weights), place(slope, images)
    results = lm.jit(all_three)(*args)
    with lm.cache.threads(1):
        alone = lm.jit(all_three)(*args)
    scale = 1e-5 if dtype == "float32" else 1e-13
    wanted = (expected, images), (dx, images), (dw, weights)
    for got, same, (value, order) in zip(results, alone, wanted, strict=True):
        value = value.transpose(order)
        assert got.shape == value.shape
        np.testing.assert_allclose(np.asarray(got), value, rtol=0, atol=scale * 30 * np.abs(value).max())
        np.testing.assert_array_equal(np.asarray(got), np.asarray(same))


X = RNG.integers(-9, 9, (300, 210)).astype(np.float32)
Y = RNG.integers(-9, 9, (210, 300)).astype(np.float32)
CUBE = RNG.integers(-9, 9, (40, 30, 50)).astype(np.float32)


# Small whole numbers: every order of a sum gives the same.
@pytest.mark.parametrize(
    "f",
    [
        lambda np, x, y, c: np.sum(x + y.T),
        lambda np, x, y, c: np.sum(x + y.T, axis=0),
        lambda np, x, y, c: np.sum(x * y.T - 1, axis=1),
        lambda np, x, y, c: np.max(np.maximum(x, y.T), axis=1),
        lambda np, x, y, c: np.argmax(x + y.T, axis=0),
        lambda np, x, y, c: np.concatenate([x.T, y]),
        lambda np, x, y, c: np.concatenate([x.T, y, x.T + 1], axis=1),
        lambda np, x, y, c: np.pad(x.T, ((1, 2), (3, 0))) * 2,
        lambda np, x, y, c: np.rot90(x),
        lambda np, x, y, c: np.rot90(x, -1),
        lambda np, x, y, c: np.rot90(c, 1, (0, 2)),
        lambda np, x, y, c: np.rot90(c, 3, (2, 1)) + 1,
        lambda np, x, y, c: x[:, ::-1].T,
        lambda np, x, y, c: x.T[::-1, ::-1],
        lambda np, x, y, c: np.transpose(c[::-1, :, ::-1], (2, 0, 1)),
        lambda np, x, y, c: np.sum(c[:, :, :40] + np.transpose(c[:, :, :40], (2, 1, 0)), axis=(0, 2)),
        lambda np, x, y, c: np.sum(np.transpose(c, (2, 0, 1)) - c[:, :1, :].transpose(2, 0, 1), axis=2),
    ],
)
def test_what_reads_large_transposes_has_the_values_of_numpy(f: Callable[..., Any]):
    got = lm.jit(lambda x, y, c: f(lnp, x, y, c))(*map(lnp.asarray, (X, Y, CUBE)))
    wanted = f(np, X, Y, CUBE)
    assert got.shape == wanted.shape
    np.testing.assert_array_equal(np.asarray(got), wanted)
