"""Gathers of single elements are part of the kernels that use them: x[i] at computed places."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

RNG = np.random.default_rng(5)


def steps(f: Callable[..., Any], *args: Any) -> int:
    """How many steps the program of jitted `f` has."""
    lm.cache.clear()
    f(*args)
    return int(lm.cache.entries()[-1]["steps"])


def in_each_tier(f: Callable[..., Any], *args: Any) -> list[np.ndarray]:
    """The result interpreted, compiled and on one thread."""
    jitted = lm.jit(f)
    results = [np.asarray(jitted(*args))]
    for _ in range(3):
        jitted(*args).block_until_ready()
    lm.cache.wait()
    results.append(np.asarray(jitted(*args)))
    with lm.threads(1):
        results.append(np.asarray(jitted(*args)))
    return results


@pytest.mark.parametrize(
    "f",
    [
        lambda np, x, i: x[i] * 2 + 1,
        lambda np, x, i: x[i] + x[i // 2],
        lambda np, x, i: x[i].sum(),
        lambda np, x, i: (x * 3)[i] - 1,
        lambda np, x, i: x[::-1][i] * x[i],
        lambda np, x, i: np.where(i % 2 == 0, x[i], -x[-1 - i]),
    ],
    ids=["arithmetic", "two", "sum", "of a product", "backwards", "where"],
)
def test_one_kernel_does_it(f: Callable[..., Any]) -> None:
    x, i = RNG.standard_normal(1000).astype("f4"), RNG.integers(-1000, 1000, 70_000).astype("i4")
    i = np.abs(i) % 1000
    ours = lnp.asarray(x), lnp.asarray(i)
    assert steps(lm.jit(lambda x, i: f(lnp, x, i)), *ours) == 1
    for got in in_each_tier(lambda x, i: f(lnp, x, i), *ours):
        np.testing.assert_allclose(got, f(np, x, i), rtol=2e-5)


@pytest.mark.parametrize("index", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "float32", "float64", "complex64"])
def test_types_of_elements_and_indices(dtype: str, index: str) -> None:
    x = RNG.integers(0, 5, 100).astype(dtype)
    i = RNG.integers(0, 100, (40, 3)).astype(index)
    if np.dtype(index).kind == "i":
        i -= 50
    for got in in_each_tier(lambda x, i: lnp.concatenate([x[i], x[i]]), lnp.asarray(x), lnp.asarray(i)):
        np.testing.assert_array_equal(got, np.concatenate([x[i], x[i]]))


@pytest.mark.parametrize("mode", ["clip", "wrap", "fill"])
@pytest.mark.parametrize("index", ["int8", "int32", "int64"])
def test_indices_outside(mode: str, index: str) -> None:
    x = RNG.standard_normal(9).astype("f4")
    i = np.array([0, 8, 9, 100, 127, -1, -9, -10, -128]).astype(index)
    if mode == "fill":
        want = np.where((i >= -9) & (i < 9), x[i.astype(int) % 9], 7) * 2
        options = {"mode": "fill", "fill_value": 7}
    else:
        want = np.take(x, i, mode=mode) * 2
        options = {"mode": mode}
    for got in in_each_tier(lambda x, i: lnp.take(x, i, **options) * 2, lnp.asarray(x), lnp.asarray(i)):
        np.testing.assert_array_equal(got, want.astype("f4"))


def test_indices_of_several_dimensions() -> None:
    x = RNG.standard_normal((7, 11, 5))
    i, j, k = RNG.integers(0, 7, (300, 1)), RNG.integers(-11, 11, (1, 40)), RNG.integers(0, 5, (300, 40))

    def f(x: Any, i: Any, j: Any, k: Any) -> Any:
        return x[i, j, k] * 2

    ours = [lnp.asarray(v) for v in (x, i, j, k)]
    for got in in_each_tier(f, *ours):
        np.testing.assert_array_equal(got, f(x, i, j, k))


def test_along_an_axis_and_under_vmap() -> None:
    x, i = RNG.standard_normal((60, 33)), RNG.integers(0, 33, (60, 9))
    want = np.take_along_axis(x, i, 1) + 1
    ours = lnp.asarray(x), lnp.asarray(i)
    for f in (lambda x, i: lnp.take_along_axis(x, i, 1) + 1, lm.vmap(lambda x, i: x[i] + 1)):
        for got in in_each_tier(f, *ours):
            np.testing.assert_array_equal(got, want)
    shared = lm.vmap(lambda x, i: x[i] + 1, in_axes=(None, 0))
    np.testing.assert_array_equal(np.asarray(shared(ours[0][0], ours[1])), x[0][i] + 1)


def test_places_computed_by_gathers() -> None:
    nexts, x = RNG.permutation(5000), RNG.standard_normal(5000)

    def follow(np: Any, nexts: Any, x: Any) -> Any:
        at = nexts[nexts[nexts]]
        return x[at] * (at + 1)

    ours = lnp.asarray(nexts), lnp.asarray(x)
    assert steps(lm.jit(lambda *a: follow(lnp, *a)), *ours) == 1
    for got in in_each_tier(lambda *a: follow(lnp, *a), *ours):
        np.testing.assert_array_equal(got, follow(np, nexts, x))


def test_searches_are_one_kernel() -> None:
    edges, x = np.sort(RNG.standard_normal(100)), RNG.standard_normal(20_000)
    ours = lnp.asarray(edges), lnp.asarray(x)
    for side in ("left", "right"):
        search = partial(lnp.searchsorted, side=side)
        assert steps(lm.jit(search), *ours) == 1
        for got in in_each_tier(search, *ours):
            np.testing.assert_array_equal(got, np.searchsorted(edges, x, side=side))
    for got in in_each_tier(lambda e, x: lnp.interp(x, e, e**2), *ours):
        np.testing.assert_allclose(got, np.interp(x, edges, edges**2), rtol=1e-12)


def test_indices_that_are_results_in_another_shape() -> None:
    x, i = RNG.standard_normal(30), RNG.integers(0, 20, 700)
    numbers = lm.lax.GatherDimensionNumbers(offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,))

    def f(x: Any, i: Any) -> Any:
        column = i[:, None] % 7
        picked = lm.lax.gather(x, column + 1, numbers, (1,))
        return column, picked * 2, picked + i

    want = (i[:, None] % 7, x[i % 7 + 1] * 2, x[i % 7 + 1] + i)
    jitted = lm.jit(f)
    for _ in range(3):
        for got, expected in zip(jitted(lnp.asarray(x), lnp.asarray(i)), want, strict=True):
            np.testing.assert_array_equal(np.asarray(got), expected)
        lm.cache.wait()


def test_second_order_through_a_sort() -> None:
    def f(v: Any) -> Any:
        return (lnp.sort(v * v) * lnp.cumsum(lnp.sin(v))).sum() + lnp.prod(lm.nn.softmax(v))

    x = lnp.linspace(0.5, 2, 5, dtype="float64")
    batch = lnp.stack([x, x * 2])
    each = np.stack([np.asarray(lm.grad(f)(row)) for row in batch])
    np.testing.assert_allclose(np.asarray(lm.vmap(lm.grad(f))(batch)), each, rtol=1e-13)
    step = 1e-6

    def slope(v: Any) -> Any:
        return (lm.grad(f)(v) * v).sum()

    want = [
        (float(slope(x.at[k].add(step))) - float(slope(x.at[k].add(-step)))) / (2 * step) for k in range(5)
    ]
    np.testing.assert_allclose(np.asarray(lm.grad(slope)(x)), want, rtol=1e-6)


def test_what_is_dear_is_computed_once_per_element() -> None:
    x, i = lnp.asarray(RNG.standard_normal(300)), lnp.asarray(RNG.integers(0, 300, 50_000))
    assert steps(lm.jit(lambda x, i: lnp.sin(x)[i] * 2), x, i) == 2
    assert steps(lm.jit(lambda x, i: lnp.sin(x)[i[:20]] * 2), x, i) == 1


def test_rows_are_copied() -> None:
    x, i = RNG.standard_normal((50, 64)), RNG.integers(0, 50, 900)
    for got in in_each_tier(lambda x, i: x[i] * 2, lnp.asarray(x), lnp.asarray(i)):
        np.testing.assert_array_equal(got, x[i] * 2)


def test_derivatives() -> None:
    x, i = RNG.standard_normal(30), RNG.integers(0, 30, 200)
    w = RNG.standard_normal(200)

    def loss(x: Any) -> Any:
        return (lnp.asarray(w) * x[lnp.asarray(i)] ** 2).sum()

    want = np.bincount(i, w * 2 * x[i], 30)
    np.testing.assert_allclose(np.asarray(lm.grad(loss)(lnp.asarray(x))), want, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        np.asarray(lm.jit(lm.grad(loss))(lnp.asarray(x))), want, rtol=1e-12, atol=1e-12
    )
    hessian = np.asarray(lm.hessian(loss)(lnp.asarray(x)))
    np.testing.assert_allclose(hessian, np.diag(np.bincount(i, w * 2, 30)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_no_places_and_no_elements(shape: tuple[int, ...]) -> None:
    x, i = lnp.arange(5.0), lnp.zeros(shape, "int32")
    assert np.asarray(lm.jit(lambda x, i: x[i] * 2)(x, i)).shape == shape
    none = lm.jit(lambda x, i: x[i] + 1)(lnp.zeros((0,)), lnp.zeros((0,), "int32"))
    assert none.shape == (0,)


def test_an_operand_is_not_written_over_while_it_is_read() -> None:
    i = np.arange(40_000)[::-1].copy()
    f = lm.jit(lambda x, i: x[i] + x, donate_argnums=0)
    for _ in range(4):
        x = np.arange(40_000.0)
        np.testing.assert_array_equal(np.asarray(f(lnp.array(x), lnp.asarray(i))), x[i] + x)
        lm.cache.wait()


@pytest.mark.parametrize("seed", range(12))
def test_random_index_expressions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(int(rng.integers(1, 400))).astype("f4") for _ in range(3)]
    index = rng.integers(0, 2**20, int(rng.integers(1, 5000)))

    def program(np: Any, arrays: Any, index: Any) -> Any:
        choices = numpy_rng = __import__("numpy").random.default_rng(seed)
        at, value = index, (index * 0.5).astype("float32")
        for _ in range(4):
            a = arrays[int(choices.integers(0, 3))]
            picked = a[at % a.shape[0]]
            value = value + picked if numpy_rng.integers(0, 2) else np.where(picked > 0, value, picked)
            at = np.abs(at // 3 + (picked > 0) * 7)
        return value

    want = program(np, arrays, index)
    ours = [lnp.asarray(a) for a in arrays], lnp.asarray(index)
    for got in in_each_tier(lambda a, i: program(lnp, a, i), *ours):
        np.testing.assert_allclose(got, want, rtol=1e-5)
