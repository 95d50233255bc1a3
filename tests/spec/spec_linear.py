"""Programs of dots, convolutions, Fourier transforms and factorizations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.linalg
from spec_elements import BY_TEXT, Element
from spec_movement import padded
from spec_program import Program, equal, function, ints, near, one_op, programs, small, tensor, type_of
from spec_reductions import add, multiply

DOTS = (
    # shapes, batching, contracting
    ((2, 3), (3, 4), [], [], [1], [0]),
    ((2, 3, 2), (2, 2, 3), [0], [0], [2], [1]),
    ((3, 2, 4), (4, 3, 2), [], [], [2, 0], [0, 1]),
    ((4,), (4,), [], [], [0], [0]),
    ((2,), (3,), [], [], [], []),
    ((2, 0), (0, 3), [], [], [1], [0]),
)


def dot(x: np.ndarray, y: np.ndarray, lb: Any, rb: Any, lc: Any, rc: Any) -> np.ndarray:
    """Batch dimensions, then what is left of each side; products added from zero."""
    left = [d for d in range(x.ndim) if d not in lb + lc]
    right = [d for d in range(y.ndim) if d not in rb + rc]
    batch = [x.shape[d] for d in lb]
    X = x.transpose(lb + left + lc).reshape(
        [*batch, int(np.prod([x.shape[d] for d in left])), -1]
        if x.size
        else [*batch, int(np.prod([x.shape[d] for d in left])), int(np.prod([x.shape[d] for d in lc]))]
    )
    Y = y.transpose(rb + right + rc).reshape(
        [*batch, int(np.prod([y.shape[d] for d in right])), int(np.prod([y.shape[d] for d in rc]))]
    )
    out = np.zeros([*batch, X.shape[-2], Y.shape[-2]], x.dtype)
    for k in range(X.shape[-1]):
        out = np.asarray(add(out, multiply(X[..., :, None, k], Y[..., None, :, k])), x.dtype)
    return out.reshape(batch + [x.shape[d] for d in left] + [y.shape[d] for d in right])


@programs("dot_general")
def dot_general(element: Element) -> Iterator[Program]:
    rng = np.random.default_rng(41)
    for a, b, lb, rb, lc, rc in DOTS:
        x, y = small(rng, a, element), small(rng, b, element)
        want = element.cast(dot(element.wide(x), element.wide(y), lb, rb, lc, rc))
        types, out = [type_of(x, element), type_of(y, element)], type_of(want, element)
        numbers = (
            f"dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = {lb}, rhs_batching_dimensions = {rb}, "
            f"lhs_contracting_dimensions = {lc}, rhs_contracting_dimensions = {rc}>"
        )
        yield Program(one_op("dot_general", types, [out], numbers), [x, y], [want], equal, f"{a} {b}")
        batching = f"batching_dims = {lb} x {rb}, " if lb else ""
        pretty = (
            f"  %r = stablehlo.dot_general %a0, %a1, {batching}contracting_dims = {lc} x {rc}, "
            f"precision = [HIGHEST, HIGHEST] : ({', '.join(types)}) -> {out}"
        )
        yield Program(function(types, [out], pretty), [x, y], [want], equal)


def convolved(x: np.ndarray, w: np.ndarray, c: dict[str, Any]) -> np.ndarray:
    """[b, 0, 1, f] x [0, 1, i, o] -> [b, 0, 1, f], as the specification's windows."""
    groups, batches = c["feature_group_count"], c["batch_group_count"]
    if groups > 1:
        parts = zip(np.split(x, groups, 3), np.split(w, groups, 3))
        return np.concatenate([convolved(p, q, c | {"feature_group_count": 1}) for p, q in parts], 3)
    if batches > 1:
        parts = zip(np.split(x, batches, 0), np.split(w, batches, 3))
        return np.concatenate([convolved(p, q, c | {"batch_group_count": 1}) for p, q in parts], 3)
    pads = np.array([[0, 0], *c["padding"], [0, 0]])
    whole = padded(x, 0, pads[:, 0], pads[:, 1], [0, *[d - 1 for d in c["lhs_dilation"]], 0])
    if any(c["window_reversal"]):
        w = np.flip(w, [d for d in (0, 1) if c["window_reversal"][d]])
    extent = [(n - 1) * d + 1 for n, d in zip(w.shape, c["rhs_dilation"])]
    size = [max((n - e) // s + 1, 0) for n, e, s in zip(whole.shape[1:3], extent, c["window_strides"])]
    out = np.zeros((x.shape[0], *size, w.shape[3]), x.dtype)
    for i in np.ndindex(out.shape):
        for k in np.ndindex(w.shape[:3]):
            at = [i[d + 1] * c["window_strides"][d] + k[d] * c["rhs_dilation"][d] for d in (0, 1)]
            out[i] = add(out[i], multiply(whole[i[0], at[0], at[1], k[2]], w[(*k, i[3])]))
    return out


PLAIN: dict[str, Any] = dict(
    window_strides=[1, 1],
    padding=[[0, 0], [0, 0]],
    lhs_dilation=[1, 1],
    rhs_dilation=[1, 1],
    window_reversal=[False, False],
    feature_group_count=1,
    batch_group_count=1,
)
CONVOLUTIONS: tuple[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ((1, 3, 4, 2), (2, 2, 2, 3), {}),
    ((1, 4, 4, 1), (2, 3, 1, 2), dict(window_strides=[2, 1], padding=[[1, 0], [2, 1]])),
    ((1, 3, 3, 1), (2, 2, 1, 1), dict(lhs_dilation=[2, 1], rhs_dilation=[1, 2], padding=[[0, 1], [1, 0]])),
    ((2, 3, 3, 2), (2, 1, 1, 4), dict(feature_group_count=2)),
    ((2, 3, 3, 1), (1, 2, 1, 2), dict(batch_group_count=2)),
    ((1, 3, 3, 1), (2, 2, 1, 1), dict(window_reversal=[True, False])),
)


@programs("convolution", "dynamic_conv")
def convolution(op: str, element: Element) -> Iterator[Program]:
    rng = np.random.default_rng(42)
    for shape, kernel, some in CONVOLUTIONS:
        c = PLAIN | some
        x, w = small(rng, shape, element, 2), small(rng, kernel, element, 2)
        want = element.cast(convolved(element.wide(x), element.wide(w), c))
        names = ["window_strides", "lhs_dilation", "rhs_dilation"]
        listed = ", ".join(ints(n, c[n]) for n in names)
        reversal = ", ".join(str(r).lower() for r in c["window_reversal"])
        listed += (
            f", window_reversal = array<i1: {reversal}>, "
            "dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, "
            f"feature_group_count = {c['feature_group_count']} : i64, "
            f"batch_group_count = {c['batch_group_count']} : i64"
        )
        types, out = [type_of(x, element), type_of(w, element)], type_of(want, element)
        if op == "convolution":
            text = one_op(op, types, [out], listed + ", " + ints("padding", c["padding"]))
        else:
            body = f"  %p = stablehlo.constant dense<{c['padding']}> : tensor<2x2xi64>\n"
            body += f'  %r = "stablehlo.dynamic_conv"(%a0, %a1, %p) {{{listed}}} : '
            body += f"({', '.join(types)}, tensor<2x2xi64>) -> {out}"
            text = function(types, [out], body)
        yield Program(text, [x, w], [want], equal, str(some))


@programs("fft")
def fft(element: Element) -> Iterator[Program]:
    """All four kinds along one to three dimensions, of composite, prime and odd lengths."""
    rng = np.random.default_rng(43)
    real = element.part
    complex_ = BY_TEXT[f"complex<{real.text}>"]
    tolerance = 8 * element.eps
    kinds = ("RFFT",) if element.kind == "f" else ("FFT", "IFFT", "IRFFT")
    for kind in kinds:
        for shape, n in (((8,), 1), ((2, 7), 1), ((3, 4, 6), 2), ((2, 3, 5), 3), ((2, 12), 1)):
            axes = tuple(range(len(shape) - n, len(shape)))
            half = (*shape[:-1], shape[-1] // 2 + 1)
            given = half if kind == "IRFFT" else shape
            x = rng.standard_normal(given)
            if element.kind == "c":
                x = x + 1j * rng.standard_normal(given)
            if kind == "IRFFT":
                x = np.fft.rfftn(rng.standard_normal(shape), axes=axes)
            x = x.astype(element.dtype)
            double = x.astype(np.complex128 if element.kind == "c" else np.float64)
            if kind == "IRFFT":
                want = np.fft.irfftn(double, shape[len(shape) - n :], axes)
            else:
                want = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn}[kind](
                    double, axes=axes
                )
            result = real if kind == "IRFFT" else complex_
            attributes = f"fft_type = #stablehlo<fft_type {kind}>, " + ints(
                "fft_length", list(shape[len(shape) - n :])
            )
            text = one_op("fft", [type_of(x, element)], [tensor(want.shape, result)], attributes)
            yield Program(text, [x], [want], near(tolerance), note=f"{kind} {shape} {n}")


def matrices(element: Element, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    a = rng.uniform(-1, 1, shape)
    if element.kind == "c":
        a = a + 1j * rng.uniform(-1, 1, shape)
    return a


@programs("cholesky")
def cholesky(element: Element) -> Iterator[Program]:
    """Of the lower and the upper half; the other half of the result is undefined and zeroed before comparing."""
    rng = np.random.default_rng(44)
    for shape in ((3, 3), (2, 4, 4), (1, 1)):
        a = matrices(element, shape, rng)
        a = (a @ a.conj().swapaxes(-1, -2) + shape[-1] * np.eye(shape[-1])).astype(element.dtype)
        wide = a.astype(np.complex128 if element.kind == "c" else np.float64)
        wide = (wide + wide.conj().swapaxes(-1, -2)) / 2
        low = np.linalg.cholesky(wide)
        for lower in (True, False):
            want = low if lower else low.conj().swapaxes(-1, -2)
            cut = np.tril if lower else np.triu
            judged = near((1 if element.narrow else 20) * element.eps)
            t = type_of(a, element)
            text = one_op("cholesky", [t], [t], f"lower = {str(lower).lower()}")
            wide_type = wide.dtype
            yield Program(
                text,
                [a],
                [want],
                lambda got, w, cut=cut, judged=judged, k=wide_type: judged(cut(got.astype(k)), w),
            )


@programs("triangular_solve")
def triangular_solve(element: Element) -> Iterator[Program]:
    """op(a) x = b or x op(a) = b for every choice of side, half, diagonal and transposition."""
    rng = np.random.default_rng(45)
    transposes = {"NO_TRANSPOSE": lambda m: m, "TRANSPOSE": np.transpose, "ADJOINT": lambda m: m.conj().T}
    n = 3
    for left in (True, False):
        for lower in (True, False):
            for unit_diagonal in (True, False):
                for name, turn in transposes.items():
                    a = (matrices(element, (n, n), rng) + 3 * np.eye(n)).astype(element.dtype)
                    b = matrices(element, (n, 2) if left else (2, n), rng).astype(element.dtype)
                    kind = np.complex128 if element.kind == "c" else np.float64
                    half = (np.tril if lower else np.triu)(a.astype(kind))
                    if unit_diagonal:
                        np.fill_diagonal(half, 1)
                    m, wide = turn(half), b.astype(kind)
                    want = scipy.linalg.solve(m, wide) if left else scipy.linalg.solve(m.T, wide.T).T
                    attributes = (
                        f"left_side = {str(left).lower()}, lower = {str(lower).lower()}, "
                        f"unit_diagonal = {str(unit_diagonal).lower()}, transpose_a = #stablehlo<transpose {name}>"
                    )
                    text = one_op(
                        "triangular_solve",
                        [type_of(a, element), type_of(b, element)],
                        [type_of(b, element)],
                        attributes,
                    )
                    if element.narrow:  # computed in f32 and rounded once
                        yield Program(text, [a, b], [element.cast(want)], equal)
                    else:
                        yield Program(text, [a, b], [want], near(40 * element.eps))
