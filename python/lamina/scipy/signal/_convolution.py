"""Convolution and correlation of arrays of any number of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina import lax
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina.numpy._common import canonical_axes, promote_inexact

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "fftconvolve"]

_PADS = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}


def _operands(in1: Any, in2: Any, mode: str, what: str) -> tuple[Tensor, Tensor]:
    a, b = promote_inexact(in1, in2)
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"{what}: mode is 'full', 'same' or 'valid', not {mode!r}")
    if a.ndim != b.ndim:
        raise ValueError(
            f"{what}: arrays of shapes {a.shape} and {b.shape} have different numbers of dimensions"
        )
    return a, b


def _covers(a: Tensor, b: Tensor, axes: Sequence[int], what: str) -> bool:
    """Whether `a` is at least as large as `b` along the axes. ValueError if neither is as large as the other."""
    if all(a.shape[d] >= b.shape[d] for d in axes):
        return True
    if all(b.shape[d] >= a.shape[d] for d in axes):
        return False
    raise ValueError(
        f"{what}: for mode 'valid' one of {a.shape} and {b.shape} must be as large as the other everywhere"
    )


def _centre(x: Tensor, sizes: Sequence[int]) -> Tensor:
    starts = [(n - m) // 2 for n, m in zip(x.shape, sizes, strict=True)]
    return x[tuple(slice(s, s + m) for s, m in zip(starts, sizes, strict=True))]


def _direct(a: Tensor, b: Tensor, full: bool) -> Tensor:
    """The convolution where all of `b` is used, or where any is."""
    if a.size == 0 or b.size == 0:
        raise ValueError(f"a convolution of shapes {a.shape} and {b.shape} has no elements to add")
    pads = [(n - 1, n - 1) if full else (0, 0) for n in b.shape]
    turned = lnp.flip(b)
    return lax.conv_general_dilated(a[None, None], turned[None, None], (1,) * a.ndim, pads)[0, 0]


def _convolved(a: Tensor, b: Tensor, mode: str, what: str) -> Tensor:
    if a.ndim == 0:
        return a * b
    if mode == "valid":
        return _direct(a, b, False) if _covers(a, b, range(a.ndim), what) else _direct(b, a, False)
    full = _direct(a, b, True) if a.size >= b.size else _direct(b, a, True)
    return full if mode == "full" else _centre(full, a.shape)


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None) -> Tensor:
    """The convolution of two arrays: sums of products with the second array reversed.

    `mode` "full" is every place where they overlap, "same" the middle part of the first array's shape, "valid" where one
    covers the other. `method` is "direct" (and "auto") or "fft". ValueError for arrays of different dimensions.
    """
    if method == "fft":
        return fftconvolve(in1, in2, mode)
    if method not in ("auto", "direct"):
        raise ValueError(f"convolve: method is 'auto', 'direct' or 'fft', not {method!r}")
    return _convolved(*_operands(in1, in2, mode, "convolve"), mode, "convolve")


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto", precision: Any = None) -> Tensor:
    """The cross-correlation of two arrays: the convolution with the second one reversed and conjugated."""
    a, b = _operands(in1, in2, mode, "correlate")
    if mode == "valid" and not _covers(a, b, range(a.ndim), "correlate"):
        return lnp.flip(lnp.conj(correlate(b, a, mode, method)))
    return convolve(a, lnp.flip(lnp.conj(b)), mode, method)


def _fast_size(least: int) -> int:
    """The smallest even size of at least `least` that has no factors but 2, 3 and 5: others are slow to transform."""
    half = (least + 1) // 2
    best = 1 << (half - 1).bit_length()
    fives = 1
    while fives < best:
        odd = fives
        while odd < best:
            best = min(best, odd << (-(-half // odd) - 1).bit_length())
            odd *= 3
        fives *= 5
    return 2 * best


def fftconvolve(in1: Any, in2: Any, mode: str = "full", axes: int | Sequence[int] | None = None) -> Tensor:
    """`convolve` along axes (all unless told) by Fourier transforms; other axes broadcast."""
    a, b = _operands(in1, in2, mode, "fftconvolve")
    where = canonical_axes(axes, a.ndim)
    for d in range(a.ndim):
        if d not in where and a.shape[d] != b.shape[d] and 1 not in (a.shape[d], b.shape[d]):
            raise ValueError(f"fftconvolve: shapes {a.shape} and {b.shape} do not broadcast along axis {d}")
    if mode == "valid" and not _covers(a, b, where, "fftconvolve"):
        a, b = b, a
    if a.size == 0 or b.size == 0:
        return lnp.zeros((0,), a.dtype)  # of one dimension, as SciPy's
    if not where:
        return a * b
    whole = [a.shape[d] + b.shape[d] - 1 for d in where]
    sizes = [_fast_size(n) for n in whole]
    if a.dtype.kind == "c":
        full = lnp.fft.ifftn(lnp.fft.fftn(a, sizes, where) * lnp.fft.fftn(b, sizes, where), sizes, where)
    else:
        full = lnp.fft.irfftn(lnp.fft.rfftn(a, sizes, where) * lnp.fft.rfftn(b, sizes, where), sizes, where)
    ends = dict(zip(where, whole, strict=True))
    full = lnp.astype(full[tuple(slice(ends.get(d)) for d in range(a.ndim))], a.dtype)
    kept = list(full.shape)
    for d in where:
        kept[d] = {"full": full.shape[d], "same": a.shape[d], "valid": a.shape[d] - b.shape[d] + 1}[mode]
    return _centre(full, kept)


def _planes(a: Tensor, b: Tensor, mode: str, boundary: str, fillvalue: Any, what: str) -> Tensor:
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(f"{what} takes 2-d arrays, not shapes {a.shape} and {b.shape}")
    if boundary not in _PADS:
        raise ValueError(f"{what}: boundary is {', '.join(map(repr, _PADS))}, not {boundary!r}")
    if mode == "valid":
        return _convolved(a, b, mode, what)
    options = {"constant_values": fillvalue} if boundary == "fill" else {}
    padded = lnp.pad(a, [(n - 1, n - 1) for n in b.shape], mode=_PADS[boundary], **options)
    full = _direct(padded, b, False)
    return full if mode == "full" else _centre(full, a.shape)


def convolve2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Any = 0,
    precision: Any = None,
) -> Tensor:
    """`convolve` of 2-d arrays, where the first goes on beyond its border as `fillvalue`, "wrap" or "symm"."""
    return _planes(*_operands(in1, in2, mode, "convolve2d"), mode, boundary, fillvalue, "convolve2d")


def correlate2d(
    in1: Any,
    in2: Any,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: Any = 0,
    precision: Any = None,
) -> Tensor:
    """`correlate` of 2-d arrays, with borders as in `convolve2d`."""
    a, b = _operands(in1, in2, mode, "correlate2d")
    if mode == "valid" and a.ndim == b.ndim == 2 and not _covers(a, b, (0, 1), "correlate2d"):
        return lnp.flip(lnp.conj(correlate2d(b, a, mode, boundary, fillvalue)))
    turned = lnp.flip(lnp.conj(b))
    out = _planes(a, turned, mode, boundary, fillvalue, "correlate2d")
    if mode != "same":
        return out
    # The middle of a correlation lies one further where the second array has even sizes.
    full = _planes(a, turned, "full", boundary, fillvalue, "correlate2d")
    starts = [n // 2 for n in b.shape]
    return full[tuple(slice(s, s + m) for s, m in zip(starts, a.shape, strict=True))]
