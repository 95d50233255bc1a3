"""The error function and its kin: the normal distribution, Dawson's integral, Fresnel's integrals.

Sources: NIST DLMF 7.12 (asymptotic series), 7.6 (power series); Rybicki's sum for Dawson's integral (Computers in
Physics 3, 1989).
"""

from __future__ import annotations

import functools
import math
from typing import Any

from lamina._core import Tensor
from lamina.numpy._common import compare, ew, select
from lamina.scipy.special import _complex
from lamina.scipy.special._common import differentiable, in_float64, in_own_type, number, polynomial, safe
from lamina.scipy.special._complex import of_complex

_ROOT_PI = math.sqrt(math.pi)
_ROOT_2 = math.sqrt(2)


@in_own_type
def erf(x: Any) -> Tensor:
    """The error function."""
    return ew("erf", x)


@in_own_type
def erfc(x: Any) -> Tensor:
    """1 - erf(x), without cancellation."""
    return ew("erfc", x)


@in_own_type
def erfinv(y: Any) -> Tensor:
    """The inverse of erf: infinite at -1 and 1, NaN beyond."""
    return ew("erf_inv", y)


def _square_exp(x: Tensor) -> Tensor:
    """exp(x^2), with the rounding of the square carried along (Dekker's product)."""
    split = x * 134217729.0
    high = split - (split - x)
    low = x - high
    square = x * x
    rest = ((high * high - square) + 2.0 * high * low) + low * low
    return ew("exponential", square) * (1.0 + rest)


def _erfcx_forward(x: Tensor) -> Tensor:
    size = ew("abs", x)
    far = compare(size, 10.0, "GT")
    near = safe(size, ew("not", far), 1.0)
    direct = _square_exp(near) * ew("erfc", near)
    t = safe(size, far, 11.0)
    square = 0.5 / (t * t)
    terms = [float((-1) ** k * math.prod(range(1, 2 * k, 2))) for k in range(15, -1, -1)]
    positive = select(far, polynomial(square, terms) / (t * _ROOT_PI), direct)
    big = compare(x, -26.7, "LT")
    mirrored = 2.0 * _square_exp(safe(x, ew("and", compare(x, 0.0, "LT"), ew("not", big)), 0.0)) - positive
    out = select(compare(x, 0.0, "LT"), select(big, math.inf, mirrored), positive)
    return select(compare(x, x, "NE"), x, out)


_erfcx = differentiable(lambda x: 2.0 * x * _erfcx(x) - 2.0 / _ROOT_PI)(_erfcx_forward)


@functools.partial(of_complex, complex_=_complex.erfcx)
@in_float64
def erfcx(x: Any) -> Tensor:
    """exp(x^2) erfc(x), which neither underflows nor, for x > -26, overflows; of complex numbers too."""
    return _erfcx(x)


@in_float64
def ndtr(x: Any) -> Tensor:
    """The normal distribution function: the probability that a standard normal number is at most x."""
    return 0.5 * ew("erfc", x * (-1.0 / _ROOT_2))


def _log_ndtr_forward(x: Tensor) -> Tensor:
    low = compare(x, -1.0, "LT")
    y = safe(x, low, -2.0)
    tail = -0.5 * y * y + ew("log", 0.5 * _erfcx_forward(y * (-1.0 / _ROOT_2)))
    z = safe(x, ew("not", low), 0.0)
    return select(low, tail, ew("log_plus_one", -0.5 * ew("erfc", z * (1.0 / _ROOT_2))))


def _hazard(x: Tensor) -> Tensor:
    """The normal density over the distribution function."""
    high = compare(x, 6.0, "GT")
    low_part = math.sqrt(2 / math.pi) / _erfcx(safe(x, ew("not", high), 0.0) * (-1.0 / _ROOT_2))
    y = safe(x, high, 7.0)
    return select(high, ew("exponential", -0.5 * y * y) / math.sqrt(2 * math.pi), low_part)


_log_ndtr = differentiable(_hazard)(_log_ndtr_forward)


@in_float64
def log_ndtr(x: Any) -> Tensor:
    """log(ndtr(x)), without underflow."""
    return _log_ndtr(x)


def _ndtri_forward(p: Tensor) -> Tensor:
    tail = ew("minimum", p, 1.0 - p)
    small = ew("and", compare(tail, 0.1, "LT"), compare(tail, 0.0, "GT"))
    t = safe(tail, small, 0.05)
    target = ew("log", t)
    x = -ew("sqrt", -2.0 * target - ew("log", ew("maximum", -4.0 * math.pi * target, 1.0)))
    for _ in range(6):
        value = _log_ndtr_forward(x)
        slope = math.sqrt(2 / math.pi) / _erfcx_forward(x * (-1.0 / _ROOT_2))
        x = x - (value - target) / slope
    x = select(compare(p, 0.5, "GT"), -x, x)
    inner = _ROOT_2 * ew("erf_inv", 2.0 * safe(p, ew("not", small), 0.5) - 1.0)
    return select(small, x, inner)


_ndtri = differentiable(lambda p: _inverse_density(_ndtri(p)))(_ndtri_forward)


def _inverse_density(x: Tensor) -> Tensor:
    return math.sqrt(2 * math.pi) * ew("exponential", 0.5 * x * x)


@in_float64
def ndtri(p: Any) -> Tensor:
    """The inverse of ndtr, exact in the lower tail too; NaN outside 0 ... 1."""
    return _ndtri(p)


@in_float64
def erfcinv(y: Any) -> Tensor:
    """The inverse of erfc."""
    return _ndtri(y * 0.5) * (-1.0 / _ROOT_2)


def _dawsn_forward(x: Tensor) -> Tensor:
    size = ew("abs", x)
    # Near 0 the power series, whose terms alternate; else a sum of Gaussians around x.
    square = size * size
    near = compare(size, 0.5, "LT")
    terms = [1.0]
    for k in range(1, 16):
        terms.append(terms[-1] * -2.0 / (2 * k + 1))
    series = size * polynomial(safe(square, near, 0.0), terms[::-1])
    far = compare(size, 50.0, "GT")
    h = 0.25  # the error of the sum is exp(-(pi / 2h)^2)
    y = safe(size, ew("not", far), 1.0)
    n0 = 2.0 * ew("round_nearest_even", y * (0.5 / h))
    offset = y - n0 * h
    total = number(0, x)
    for j in range(-25, 26, 2):
        d = offset - j * h
        total = total + ew("exponential", -d * d) / (n0 + float(j))
    z = safe(size, far, 60.0)
    inverse = 0.5 / (z * z)
    asymptotic = polynomial(inverse, [105.0, 15.0, 3.0, 1.0, 1.0]) / (2.0 * z)
    out = select(far, asymptotic, select(near, series, total / _ROOT_PI))
    out = select(compare(size, math.inf, "EQ"), 0.0, out)
    return select(compare(x, 0.0, "EQ"), x, select(compare(x, 0.0, "LT"), -out, out))


_dawsn = differentiable(lambda x: 1.0 - 2.0 * x * _dawsn(x))(_dawsn_forward)


@in_float64
def dawsn(x: Any) -> Tensor:
    """Dawson's integral exp(-x^2) times the integral of exp(t^2) from 0 to x."""
    return _dawsn(x)


__all__ = ["dawsn", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "log_ndtr", "ndtr", "ndtri"]
