"""Fourier transforms, those of lamina.numpy.fft, and discrete cosine transforms along axes, of complex arrays part by
part; names and meanings as in scipy.fft.

Cosine transforms: type 2 is y[k] = 2 sum_n x[n] cos(pi k (2n + 1) / (2N)), type 3 its inverse times 2N. `norm` is
"backward" (or None), where the inverses divide by 2N, or "ortho", where the transforms are orthogonal. They are computed
by a Fourier transform of twice the length (Oppenheim, Schafer, "Discrete-time signal processing", 2010, section 8.8),
with derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _missing, _results
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina.lax import complex as complex_of
from lamina.numpy import fft as _numpys
from lamina.numpy._common import along, canonical_axis, inexact
from lamina.numpy.fft import fftfreq, fftshift, ifftshift, rfftfreq

_LINES = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
_PLANES = ("fft2", "ifft2", "rfft2", "irfft2")
_SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn")


def _along_one(name: str) -> Callable[..., Tensor]:
    transform = getattr(_numpys, name)

    def f(x: Any, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
        return transform(x, n, axis, norm)

    return _named(f, name, transform)


def _along_many(name: str, default: tuple[int, ...] | None) -> Callable[..., Tensor]:
    transform = getattr(_numpys, name)

    def f(
        x: Any,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = default,
        norm: str | None = None,
    ) -> Tensor:
        return transform(x, s, axes, norm)

    return _named(f, name, transform)


def _named(f: Callable[..., Tensor], name: str, like: Callable[..., Tensor]) -> Callable[..., Tensor]:
    f.__name__ = f.__qualname__ = name
    f.__doc__ = like.__doc__
    return f


globals().update({name: _along_one(name) for name in _LINES})
globals().update({name: _along_many(name, (-2, -1)) for name in _PLANES})
globals().update({name: _along_many(name, None) for name in _SEVERAL})

__all__ = [
    "dct",
    "dctn",
    "fftfreq",
    "fftshift",
    "idct",
    "idctn",
    "ifftshift",
    "rfftfreq",
    *_LINES,
    *_PLANES,
    *_SEVERAL,
]


def _resized(x: Tensor, n: int | None, axis: int) -> Tensor:
    """`x` cut, or filled with zeros, to n elements along an axis."""
    size = x.shape[axis]
    if n is None or n == size:
        return x
    if n < 1:
        raise ValueError(f"a cosine transform needs at least one point, not n={n}")
    if n < size:
        return x[(*[slice(None)] * axis, slice(n))]
    return lnp.pad(x, [(0, n - size if d == axis else 0) for d in range(x.ndim)])


def _transform(x: Tensor, type: int, axis: int, ortho: bool) -> Tensor:
    n = x.shape[axis]
    k = lnp.arange(n, dtype=x.dtype)
    turn = lnp.exp(-0.5j * math.pi / n * k)
    first = math.sqrt(0.5) if ortho else 1.0
    ends = along(lnp.where(k == 0, first, 1.0), axis, x.ndim)
    scale = math.sqrt(0.5 / n) if ortho else 1.0
    turn = along(turn, axis, x.ndim)
    front = (*[slice(None)] * axis, slice(n))
    if type == 2:
        return 2 * scale * ends * lnp.real(lnp.fft.fft(x, 2 * n, axis)[front] * turn)
    # The first term counts half, of what an orthogonal transform weighs by the root of 2.
    halved = x * along(lnp.where(k == 0, 0.5 / first, 1.0), axis, x.ndim)
    return 2 * scale * lnp.real(lnp.fft.fft(halved * turn, 2 * n, axis)[front])


def _dct(x: Any, type: int, n: int | None, axis: int, norm: str | None, inverse: bool, what: str) -> Tensor:
    if type not in (2, 3):
        raise NotImplementedError(f"{what} has the types 2 and 3, not {type!r}")
    if norm not in (None, "backward", "ortho"):
        raise ValueError(f"{what}: norm is 'backward' or 'ortho', not {norm!r}")
    t = inexact(x)
    axis = canonical_axis(axis, t.ndim)
    if t.dtype.kind == "c":
        parts = (_dct(f(t), type, n, axis, norm, inverse, what) for f in (lnp.real, lnp.imag))
        return complex_of(*parts)
    t = _resized(t, n, axis)
    if t.shape[axis] == 0:
        raise ValueError(f"{what} of no elements (shape {t.shape}, axis {axis})")
    ortho = norm == "ortho"
    out = _transform(t, 5 - type if inverse else type, axis, ortho)
    return out / (2 * t.shape[axis]) if inverse and not ortho else out


def dct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The cosine transform of type 2 or 3 along an axis, cut or filled with zeros to `n` elements."""
    return _dct(x, type, n, axis, norm, False, "dct")


def idct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `dct` of that type."""
    return _dct(x, type, n, axis, norm, True, "idct")


def _several(
    f: Any,
    x: Any,
    type: int,
    s: int | Sequence[int] | None,
    axes: int | Sequence[int] | None,
    norm: str | None,
) -> Tensor:
    t = inexact(x)
    s, axes = ([v] if isinstance(v, int) else v for v in (s, axes))
    if s is not None and axes is None and len(s) > t.ndim:
        raise ValueError(
            f"{f.__name__}: when s is given and axes are not, s has at most one size per dimension, not {len(s)} for "
            f"shape {t.shape}"
        )
    if axes is None:
        axes = range(t.ndim) if s is None else range(t.ndim - len(s), t.ndim)
    sizes = [None] * len(axes) if s is None else list(s)
    if len(sizes) != len(axes):
        raise ValueError(f"{f.__name__}: {len(sizes)} sizes for {len(axes)} axes")
    for axis, n in zip(axes, sizes, strict=True):
        t = f(t, type, n, axis, norm)
    return t


def dctn(
    x: Any,
    type: int = 2,
    s: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
    norm: str | None = None,
) -> Tensor:
    """`dct` along several axes (all unless told), cut or filled with zeros to the sizes `s`."""
    return _several(dct, x, type, s, axes, norm)


def idctn(
    x: Any,
    type: int = 2,
    s: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
    norm: str | None = None,
) -> Tensor:
    """The inverse of `dctn`."""
    return _several(idct, x, type, s, axes, norm)


_results.own(globals())
__getattr__ = _missing.attributes("lamina.scipy.fft")
