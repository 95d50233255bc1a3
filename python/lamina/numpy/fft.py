"""NumPy's Fourier transforms on Tensors, of any length, with derivatives, through vmap and jit.

Elements are complex64, or complex128 for float64 and complex128 arrays; integers and narrow floats become float32
first. `norm` is "backward" (or None: the inverse is divided by the length), "ortho" (both by its root) or "forward"
(the transform is divided).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from lamina import _core, _devices, _results
from lamina._core import Tensor
from lamina._indexing import getitem
from lamina._tensor import astype, describe, to_tensor
from lamina.numpy._common import canonical_axis, default_float, inexact, iota, sizes_of
from lamina.numpy._elementwise import conj
from lamina.numpy._padding import pad
from lamina.numpy._shape import concatenate, roll


def _numbers(x: Any, real: bool, what: str) -> Tensor:
    t = _core.set_weak(inexact(x), False)
    if t.dtype.kind == "f" and t.dtype.itemsize < 4:
        t = astype(t, "float32")
    if real:
        if t.dtype.kind == "c":
            raise TypeError(
                f"{what} transforms real arrays, not {describe(t)}; use {what[1:]} or take the real part"
            )
        return t
    return t if t.dtype.kind == "c" else astype(t, "complex64" if t.dtype.name == "float32" else "complex128")


def _fitted(x: Tensor, axis: int, n: int) -> Tensor:
    """`x` cut or filled with zeros to n elements along `axis`."""
    have = x.shape[axis]
    if have > n:
        return getitem(x, tuple(slice(0, n) if d == axis else slice(None) for d in range(x.ndim)))
    if have < n:
        return pad(x, [(0, n - have) if d == axis else (0, 0) for d in range(x.ndim)])
    return x


def _scaled(x: Tensor, kind: str, count: int, norm: str | None, what: str) -> Tensor:
    """What the core's transforms, whose inverses are divided by `count`, lack to `norm`."""
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f"{what}: norm is 'backward', 'ortho' or 'forward', not {norm!r}")
    inverse = kind.startswith("I")
    if norm in (None, "backward"):
        return x
    if norm == "ortho":
        return x * math.sqrt(count) if inverse else x / math.sqrt(count)
    return x * count if inverse else x / count


def _transform(
    what: str, kind: str, a: Any, sizes: Sequence[int] | None, axes: Sequence[int], norm: str | None
) -> Tensor:
    x = _numbers(a, kind == "RFFT", what)
    if x.ndim == 0:
        raise ValueError(f"{what} needs at least one dimension, not {describe(x)}")
    places = [canonical_axis(d, x.ndim) for d in axes]
    if sizes is None:
        lengths = [x.shape[d] for d in places]
        if kind == "IRFFT" and places:
            lengths[-1] = 2 * (lengths[-1] - 1)
    else:
        lengths = [operator.index(n) for n in sizes]
        if len(lengths) != len(places):
            raise ValueError(f"{what}: {len(lengths)} sizes for {len(places)} axes")
        lengths = [x.shape[d] if n == -1 else n for n, d in zip(lengths, places)]
    if any(n < 1 for n in lengths):
        raise ValueError(f"{what} needs lengths of at least 1, not {tuple(lengths)}, for {describe(x)}")
    if not places:
        return x
    # The real side belongs to the last axis: it is the first one of a transform and the last one of an inverse.
    one_by_one = list(zip(places, lengths))
    last = one_by_one.pop()
    other = {"RFFT": "FFT", "IRFFT": "IFFT"}.get(kind, kind)
    steps = [(d, n, other) for d, n in one_by_one]
    steps = [*steps, (*last, kind)] if kind == "IRFFT" else [(*last, kind), *reversed(steps)]
    for d, n, step in steps:
        x = _fitted(x, d, n // 2 + 1 if step == "IRFFT" else n)
        x = _core.fft_along([x], step, n, d)[0]
    return _scaled(x, kind, math.prod(lengths), norm, what)


def _along_one(what: str, kind: str, a: Any, n: int | None, axis: int, norm: str | None) -> Tensor:
    if isinstance(axis, (list, tuple)):
        raise ValueError(f"{what} needs one axis, not {axis}: {what}n transforms along several")
    if n is not None and operator.index(n) < 1:
        raise ValueError(f"{what} needs a length of at least 1, not {n}")
    return _transform(what, kind, a, None if n is None else [n], [operator.index(axis)], norm)


def _along_many(
    what: str, kind: str, a: Any, s: Sequence[int] | None, axes: Sequence[int] | None, norm: str | None
) -> Tensor:
    if axes is None:
        ndim = to_tensor(a).ndim
        if s is not None and len(s) > ndim:
            raise ValueError(f"{what}: {len(s)} sizes for {ndim} dimensions")
        axes = range(ndim) if s is None else range(ndim - len(s), ndim)
    return _transform(what, kind, a, s, list(axes), norm)


def fft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The Fourier transform along an axis, cut or filled with zeros to n elements."""
    return _along_one("fft", "FFT", a, n, axis, norm)


def ifft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `fft`."""
    return _along_one("ifft", "IFFT", a, n, axis, norm)


def rfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The first n // 2 + 1 elements of the transform of a real array."""
    return _along_one("rfft", "RFFT", a, n, axis, norm)


def irfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `rfft`: n real elements, 2 (m - 1) if not given."""
    return _along_one("irfft", "IRFFT", a, n, axis, norm)


def _swapped(norm: str | None) -> str | None:
    return {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)


def hfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The transform, real, of an array with Hermitian symmetry, of which the first half is given."""
    return _along_one("hfft", "IRFFT", conj(a), n, axis, _swapped(norm))


def ihfft(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft`."""
    return conj(_along_one("ihfft", "RFFT", a, n, axis, _swapped(norm)))


def fft2(a: Any, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Tensor:
    """The Fourier transform along two axes."""
    return _along_many("fft2", "FFT", a, s, axes, norm)


def ifft2(a: Any, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of `fft2`."""
    return _along_many("ifft2", "IFFT", a, s, axes, norm)


def rfft2(a: Any, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Tensor:
    """The transform of a real array along two axes; the last of them is halved as by `rfft`."""
    return _along_many("rfft2", "RFFT", a, s, axes, norm)


def irfft2(a: Any, s: Any = None, axes: Sequence[int] = (-2, -1), norm: str | None = None) -> Tensor:
    """The inverse of `rfft2`."""
    return _along_many("irfft2", "IRFFT", a, s, axes, norm)


def fftn(a: Any, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Tensor:
    """The Fourier transform along several axes, or all."""
    return _along_many("fftn", "FFT", a, s, axes, norm)


def ifftn(a: Any, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Tensor:
    """The inverse of `fftn`."""
    return _along_many("ifftn", "IFFT", a, s, axes, norm)


def rfftn(a: Any, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Tensor:
    """The transform of a real array along several axes; the last of them is halved as by `rfft`."""
    return _along_many("rfftn", "RFFT", a, s, axes, norm)


def irfftn(a: Any, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Tensor:
    """The inverse of `rfftn`."""
    return _along_many("irfftn", "IRFFT", a, s, axes, norm)


def fftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies that the elements of `fft` belong to: 0, 1, ..., -2, -1 over n d."""
    n, d = _length(n, "fftfreq"), _spacing(d, "fftfreq")
    half = (n - 1) // 2 + 1
    k = concatenate([iota("int32", [half], 0), iota("int32", [n - half], 0) - n // 2])
    return _devices.placed(_frequencies(k, n, d, dtype), device)


def rfftfreq(n: int, d: Any = 1.0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The frequencies that the elements of `rfft` belong to: 0, 1, ..., n // 2 over n d."""
    n, d = _length(n, "rfftfreq"), _spacing(d, "rfftfreq")
    return _devices.placed(_frequencies(iota("int32", [n // 2 + 1], 0), n, d, dtype), device)


def _length(n: int, what: str) -> int:
    if isinstance(n, (list, tuple)):
        raise ValueError(f"{what}: n is an integer, not {n}")
    n = operator.index(n)
    if n < 1:
        raise ValueError(f"{what} needs a length of at least 1, not {n}")
    return n


def _spacing(d: Any, what: str) -> Any:
    if isinstance(d, (list, tuple)):
        raise ValueError(f"{what}: d is a number, not {d}")
    return d


def _frequencies(k: Tensor, n: int, d: Any, dtype: Any) -> Tensor:
    return astype(k, default_float() if dtype is None else dtype) / (n * d)


def _shifted(x: Any, axes: Any, sign: int) -> Tensor:
    t = to_tensor(x)
    places = [canonical_axis(d, t.ndim) for d in (range(t.ndim) if axes is None else sizes_of(axes))]
    moves = [t.shape[d] // 2 if sign > 0 else -(t.shape[d] // 2) for d in places]
    return roll(t, moves, places) if places else roll(t, 0)


def fftshift(x: Any, axes: Any = None) -> Tensor:
    """`x` with the zero frequency in the middle of the axes, or of all."""
    return _shifted(x, axes, 1)


def ifftshift(x: Any, axes: Any = None) -> Tensor:
    """The inverse of `fftshift`."""
    return _shifted(x, axes, -1)


__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]
_results.own(globals())
