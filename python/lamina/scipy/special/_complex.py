"""Special functions of complex arguments, in complex128: the gamma function, its logarithm, Faddeeva's function.

Sources: Stirling's series (NIST DLMF 5.11), reflection and recurrence with the branch of D. E. G. Hare, Computing the
principal branch of log-Gamma, J. Algorithms 25, 1997; J. A. C. Weideman, Computation of the complex error function, SIAM
J. Numer. Anal. 31, 1994.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from lamina import _core
from lamina._core import Tensor
from lamina._tensor import astype
from lamina.numpy import _elementwise as np_
from lamina.numpy._common import compare, ew, promote_inexact, select
from lamina.scipy.special._common import differentiable

# B_2k / (2k (2k - 1)), and B_2k / 2k, k = 1 ... 10
_STIRLING = (
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400, 43867 / 244188,
    -174611 / 125400,
)  # fmt: skip
_SLOPES = (
    1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160, 43867 / 14364,
    -174611 / 6600,
)  # fmt: skip
_SHIFT = 10  # the least modulus for the series
_TERMS = 64


def in_complex128(f: Callable[[Tensor], Tensor]) -> Callable[[Any], Tensor]:
    """Decorator: `f` on the argument as complex128, the result in the complex type of the argument's own float type."""

    @functools.wraps(f)
    def wrapped(x: Any) -> Tensor:
        (t,) = promote_inexact(x)
        own = t.dtype.name
        if t.dtype.kind != "c":
            own = "complex128" if own == "float64" else "complex64"
        return _core.set_weak(astype(f(astype(t, "complex128")), own), t.weak_type)

    return wrapped


def _real(z: Tensor) -> Tensor:
    return ew("real", z)


def _imag(z: Tensor) -> Tensor:
    return ew("imag", z)


def _safe(z: Tensor, ok: Tensor, instead: complex) -> Tensor:
    """z where `ok`, else a harmless number."""
    return select(ok, z, np_.where(ok, 0.0, instead) + 0j)


def _series(w: Tensor, coefficients: tuple[float, ...]) -> Tensor:
    """The sum of c_k w^-2k, k = 0, 1, ..."""
    square, total = 1.0 / (w * w), coefficients[-1] + 0j
    for c in reversed(coefficients[:-1]):
        total = total * square + c
    return total


def _sin_pi(z: Tensor) -> tuple[Tensor, Tensor]:
    """sin(pi z) and cos(pi z), divided by exp(pi |Im z|) / 2 each."""
    x, y = _real(z), _imag(z)
    x = math.pi * (x - 2.0 * ew("round_nearest_even", 0.5 * x))
    small = ew("exponential", -2.0 * math.pi * ew("abs", y))
    cosh, sinh = 1.0 + small, (1.0 - small) * np_.where(compare(y, 0.0, "LT"), -1.0, 1.0)
    sine, cosine = ew("sine", x), ew("cosine", x)
    return ew("complex", sine * cosh, cosine * sinh), ew("complex", cosine * cosh, -sine * sinh)


def _right(z: Tensor) -> Tensor:
    """log Gamma(z), Re z >= 1/2."""
    near = compare(ew("abs", z), float(_SHIFT), "LT")
    w = select(near, z + float(_SHIFT), z)
    out = (w - 0.5) * ew("log", w) - w + 0.5 * math.log(2 * math.pi) + _series(w, _STIRLING) / w
    low = _safe(z, near, 1.0)
    total = ew("log", low)
    for k in range(1, _SHIFT):
        total = total + ew("log", low + float(k))
    return select(near, out - total, out)


def _loggamma_forward(z: Tensor) -> Tensor:
    left = compare(_real(z), 0.5, "LT")
    right = _right(select(left, 1.0 - z, z))
    inner = _safe(z, left, 0.25)
    sine, _ = _sin_pi(inner)
    turns = np_.copysign(2 * math.pi, _imag(inner)) * ew("floor", 0.5 * _real(inner) + 0.25)
    reflected = math.log(2 * math.pi) - math.pi * ew("abs", _imag(inner)) - ew("log", sine)
    return select(left, reflected + ew("complex", 0.0 * turns, turns) - right, right)


def _digamma_right(z: Tensor) -> Tensor:
    near = compare(ew("abs", z), float(_SHIFT), "LT")
    w = select(near, z + float(_SHIFT), z)
    out = ew("log", w) - 0.5 / w - _series(w, _SLOPES) / (w * w)
    low, total = _safe(z, near, 1.0), 0.0
    for k in range(_SHIFT):
        total = total + 1.0 / (low + float(k))
    return select(near, out - total, out)


def _digamma(z: Tensor) -> Tensor:
    left = compare(_real(z), 0.5, "LT")
    right = _digamma_right(select(left, 1.0 - z, z))
    sine, cosine = _sin_pi(_safe(z, left, 0.25))
    return select(left, right - math.pi * cosine / sine, right)


_loggamma = differentiable(_digamma)(_loggamma_forward)


@in_complex128
def loggamma(z: Tensor) -> Tensor:
    """log Gamma(z), analytic but on the negative real axis."""
    return _loggamma(z)


@in_complex128
def gamma(z: Tensor) -> Tensor:
    """Gamma(z), NaN at the poles."""
    x = _real(z)
    pole = ew("and", compare(x, 0.0, "LE"), compare(x, ew("floor", x), "EQ"))
    pole = ew("and", pole, compare(_imag(z), 0.0, "EQ"))
    value = ew("exponential", _loggamma(_safe(z, ew("not", pole), 1.0)))
    return select(pole, complex(math.nan, math.nan) + 0.0 * value, value)


@functools.cache
def _weideman() -> tuple[float, list[float]]:
    """The scale and the coefficients, the highest power first."""
    import numpy as np

    n = _TERMS
    scale = math.sqrt(n / math.sqrt(2))
    angle = np.arange(-2 * n + 1, 2 * n) * math.pi / (2 * n)
    t = scale * np.tan(angle / 2)
    f = np.concatenate([[0.0], np.exp(-(t**2)) * (scale**2 + t**2)])
    powers = np.real(np.fft.fft(np.fft.fftshift(f))) / (4 * n)
    return scale, powers[1 : n + 1][::-1].tolist()


def _upper(z: Tensor) -> Tensor:
    """w(z), Im z >= 0."""
    scale, coefficients = _weideman()
    turned = z * 1j
    below = scale - turned
    place, total = (scale + turned) / below, coefficients[0] + 0j
    for c in coefficients[1:]:
        total = total * place + c
    near = 2.0 * total / (below * below) + (1 / math.sqrt(math.pi)) / below
    # Far away the continued fraction (DLMF 7.9.3): the real part of the above is a difference there.
    far = compare(ew("abs", z), 8.0, "GT")
    w = _safe(z, far, 9j)
    rest = w
    for k in range(20, 0, -1):
        rest = w - (0.5 * k) / rest
    return select(far, 1j / math.sqrt(math.pi) / rest, near)


def _wofz_forward(z: Tensor) -> Tensor:
    down = compare(_imag(z), 0.0, "LT")
    above = _upper(select(down, -z, z))
    grown = ew("exponential", -(_safe(z, down, 0.0) * _safe(z, down, 0.0)))
    return select(down, 2.0 * grown - above, above)


_wofz = differentiable(lambda z: -2.0 * z * _wofz(z) + 2j / math.sqrt(math.pi))(_wofz_forward)


@in_complex128
def wofz(z: Tensor) -> Tensor:
    """Faddeeva's function exp(-z^2) erfc(-i z), complex."""
    return _wofz(z)


@in_complex128
def erfcx(z: Tensor) -> Tensor:
    """exp(z^2) erfc(z) of complex numbers."""
    return _wofz(z * 1j)


def of_complex(real: Callable[[Any], Tensor], complex_: Callable[[Any], Tensor]) -> Callable[[Any], Tensor]:
    """A function of real arguments, and of complex ones."""

    @functools.wraps(real)
    def f(x: Any) -> Tensor:
        (t,) = promote_inexact(x)
        return complex_(t) if t.dtype.kind == "c" else real(x)

    return f


__all__ = ["wofz"]
