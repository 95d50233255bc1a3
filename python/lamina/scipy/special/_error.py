"""The error function and its kin: the normal distribution, Dawson's integral, Fresnel's integrals.

Sources: NIST DLMF 7.12 (asymptotic series), 7.6 (power series); Rybicki's sum for Dawson's integral (Computers in
Physics 3, 1989).
"""

from __future__ import annotations

import functools
import math
from typing import Any

from lamina._core import Tensor
from lamina.numpy._common import compare, select
from lamina.scipy.special import _complex
from lamina.scipy.special._common import differentiable, ew, in_float64, in_own_type, number, polynomial, safe
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


def _erfc_series(t: Tensor) -> Tensor:
    """exp(t^2) erfc(t) for t > 10, by the asymptotic series."""
    square = 0.5 / (t * t)
    terms = [float((-1) ** k * math.prod(range(1, 2 * k, 2))) for k in range(15, -1, -1)]
    return polynomial(square, terms) / (t * _ROOT_PI)


def _erfcx_forward(x: Tensor) -> Tensor:
    far, big = compare(x, 10.0, "GT"), compare(x, -26.7, "LT")
    near = safe(x, ew("not", ew("or", far, big)), 1.0)
    # Of negative numbers too: erfc has no cancellation there, it lies between 1 and 2.
    direct = _square_exp(near) * ew("erfc", near)
    return select(far, _erfc_series(safe(x, far, 11.0)), select(big, math.inf, direct))


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
    # One erfc does for both sides of -1: of the probability itself below, of its complement above.
    low = compare(x, -1.0, "LT")
    t = select(low, -x, x) * (1.0 / _ROOT_2)
    far = ew("and", low, compare(t, 10.0, "GT"))
    half = 0.5 * ew("erfc", safe(t, ew("not", far), 1.0))
    # Farther out, where the probability underflows in the end, exp(-t^2) is left out of the logarithm.
    rest = select(far, 0.5 * _erfc_series(safe(t, far, 11.0)), safe(half, low, 0.25))
    tail = ew("log", rest) - select(far, 0.5 * x * x, 0.0)
    return select(low, tail, ew("log_plus_one", -safe(half, ew("not", low), 0.25)))


def _hazard(x: Tensor) -> Tensor:
    """The normal density over the distribution function."""
    high = compare(x, 6.0, "GT")
    low_part = math.sqrt(2 / math.pi) / _erfcx(safe(x, ew("not", high), 0.0) * (-1.0 / _ROOT_2))
    y = safe(x, high, 7.0)
    return select(high, ew("exponential", -0.5 * y * y) / math.sqrt(2 * math.pi), low_part)


_log_ndtr = differentiable(_hazard)(_log_ndtr_forward)


def log_ndtr(x: Any, series_order: int = 3) -> Tensor:
    """log(ndtr(x)), without underflow and to the last digit, whatever order is asked for of a series for it."""
    if type(series_order) is not int:
        raise TypeError(f"log_ndtr: series_order is an integer, not {series_order!r}")
    if not 0 <= series_order <= 30:
        raise ValueError(f"log_ndtr: series_order is from 0 to 30, not {series_order}")
    return _log_ndtr_of(x)


@in_float64
def _log_ndtr_of(x: Any) -> Tensor:
    return _log_ndtr(x)


# M. J. Wichura, "Algorithm AS 241: the percentage points of the normal distribution", 1988, PPND16: numerators and
# denominators, the highest power first, in 0.425^2 - (p - 1/2)^2, and for both parts of the tails in the root of
# -log(p), less 1.6 and 5.
_NDTRI_MIDDLE = (
    [2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.3871328727963666080],
    [5226.4952788528545610, 28729.085735721942674, 39307.895800092710610, 21213.794301586595867,
     5394.1960214247511077, 687.18700749205790830, 42.313330701600911252, 1.0],
)  # fmt: skip
_NDTRI_TAIL = (
    [7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258,
     3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734],
    [1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
     6.89767334985100004550e-1, 1.67638483018380384940, 2.05319162663775882187, 1.0],
)  # fmt: skip
_NDTRI_FAR = (
    [2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
     2.96560571828504891230e-1, 1.78482653991729133580, 5.46378491116411436990, 6.65790464350110377720],
    [2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0],
)  # fmt: skip


def _ndtri_forward(p: Tensor) -> Tensor:
    from_middle = p - 0.5
    middle = compare(ew("abs", from_middle), 0.425, "LE")
    tail = ew("minimum", p, 1.0 - p)
    root = ew("sqrt", -ew("log", safe(tail, ew("and", ew("not", middle), compare(tail, 0.0, "GT")), 0.05)))
    far = compare(root, 5.0, "GT")

    def ratio(parts: tuple[list[float], list[float]], x: Tensor) -> Tensor:
        return polynomial(x, parts[0]) / polynomial(x, parts[1])

    size = select(
        far,
        ratio(_NDTRI_FAR, safe(root, far, 5.0) - 5.0),
        ratio(_NDTRI_TAIL, safe(root, ew("not", far), 5.0) - 1.6),
    )
    x = select(compare(from_middle, 0.0, "LT"), -size, size)
    q = safe(from_middle, middle, 0.0)
    x = select(middle, q * ratio(_NDTRI_MIDDLE, 0.180625 - q * q), x)
    # The ends are infinite, and what is no probability has no quantile.
    x = select(compare(tail, 0.0, "EQ"), from_middle * math.inf, x)
    return select(compare(tail, 0.0, "GE"), x, math.nan)


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
