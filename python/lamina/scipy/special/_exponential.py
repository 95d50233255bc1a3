"""Exponential, sine, cosine and logarithmic integrals, and Spence's function.

Sources: power series and continued fractions of NIST DLMF 6.6, 6.9 and 8.19; the series of the dilogarithm in
Bernoulli numbers (DLMF 25.12; Lewin, Polylogarithms and Associated Functions).
"""

from __future__ import annotations

import math
from typing import Any

from lamina._core import Tensor
from lamina._tensor import astype
from lamina.numpy._common import compare, iterate, select
from lamina.scipy.special._common import (
    TOGETHER,
    differentiable,
    ew,
    in_float64,
    least_change,
    number,
    of_order,
    polynomial,
    safe,
)

_EULER = 0.57721566490153286
_EPS = 2.0**-54


def _expn_fraction(n: Tensor, x: Tensor) -> Tensor:
    """exp(x) E_n(x) for x > 1 by continued fraction."""
    first, eps = 1.0 / (x + n), least_change(_EPS)

    def step(i: Tensor, b: Tensor, c: Tensor, d: Tensor, h: Tensor, change: Tensor) -> list[Tensor]:
        i = i + 1.0
        an = -i * (n - 1.0 + i)
        b = b + 2.0
        d = 1.0 / (an * d + b)
        c = b + an / c
        return [i, b, c, d, h * (c * d), ew("abs", c * d - 1.0)]

    return iterate(
        [number(0, x), x + n, number(1e300, x), first, first, number(1, x)],
        lambda i, b, c, d, h, change: compare(change, eps, "GT"),
        step,
        2000,
        TOGETHER,
    )[4]


def _ein(x: Tensor) -> Tensor:
    """The sum of x^k / (k k!) over k = 1, 2, ..."""
    eps = least_change(_EPS)

    def step(k: Tensor, power: Tensor, total: Tensor) -> list[Tensor]:
        k = k + 1.0
        power = power * x / k
        return [k, power, total + power / k]

    return iterate(
        [number(1, x), x, x],
        lambda k, power, total: compare(ew("abs", power), ew("abs", total) * eps, "GT"),
        step,
        400,
        TOGETHER,
    )[2]


def _exp1_forward(x: Tensor) -> Tensor:
    small = ew("and", compare(x, 1.0, "LE"), compare(x, 0.0, "GT"))
    y = safe(x, small, 0.5)
    low = -_ein(-y) - ew("log", y) - _EULER
    large = ew("and", compare(x, 1.0, "GT"), compare(x, math.inf, "LT"))
    z = safe(x, large, 2.0)
    high = _expn_fraction(number(1, z), z) * ew("exponential", -z)
    edge = select(compare(x, 0.0, "EQ"), math.inf, select(compare(x, math.inf, "EQ"), 0.0, math.nan))
    return select(small, low, select(large, high, edge))


def _expi_forward(x: Tensor) -> Tensor:
    middle = ew("and", compare(x, 0.0, "GT"), compare(x, 40.0, "LT"))
    y = safe(x, middle, 1.0)
    inner = _ein(y) + ew("log", y) + _EULER
    far = ew("and", compare(x, 40.0, "GE"), compare(x, math.inf, "LT"))
    z = 1.0 / safe(x, far, 50.0)
    outer = polynomial(z, [float(math.factorial(k)) for k in range(30, -1, -1)]) * z
    half = ew("exponential", 0.5 * safe(x, far, 50.0))
    negative = compare(x, 0.0, "LT")
    mirrored = -_exp1_forward(safe(-x, negative, 1.0))
    out = select(negative, mirrored, select(middle, inner, select(far, outer * half * half, math.nan)))
    out = select(compare(x, 0.0, "EQ"), -math.inf, out)
    return select(compare(x, math.inf, "EQ"), math.inf, out)


_exp1 = differentiable(lambda x: -ew("exponential", -x) / x)(_exp1_forward)
_expi = differentiable(lambda x: ew("exponential", x) / x)(_expi_forward)


@in_float64
def exp1(x: Any) -> Tensor:
    """The exponential integral E1(x): NaN for x < 0, infinite at 0."""
    return _exp1(x)


@in_float64
def expi(x: Any) -> Tensor:
    """The exponential integral Ei(x)."""
    return _expi(x)


def _expn_forward(order: Tensor, x: Tensor) -> Tensor:
    n = astype(order, "float64")
    natural = compare(n, 0.0, "GE")
    small = ew("and", compare(x, 1.0, "LE"), compare(x, 0.0, "GT"))
    m = safe(n, ew("and", natural, compare(n, 1.0, "GE")), 1.0)
    y = safe(x, small, 0.5)
    # E_n is (-x)^(n-1)/(n-1)! (digamma(n) - log x) minus the sum of (-x)^k / ((k - n + 1) k!) without k = n - 1.

    def step(k: Tensor, power: Tensor, total: Tensor) -> list[Tensor]:
        gap = k - m + 1.0
        skip = compare(gap, 0.0, "EQ")
        added = select(skip, 0.0, power / safe(gap, ew("not", skip), 1.0))
        return [k + 1.0, power * -y / (k + 1.0), total + added]

    # The terms fall faster than 1 / k! for x <= 1.
    total = iterate(
        [number(0, y), number(1, y), number(0, y)],
        lambda k, power, total: compare(k, 22.0, "LT"),
        step,
        22,
    )[2]
    odd = compare(ew("remainder", m - 1.0, 2.0), 0.0, "NE")
    size = ew("exponential", (m - 1.0) * ew("log", y) - ew("lgamma", m))
    lead = select(odd, -size, size)
    low = lead * (ew("digamma", m) - ew("log", y)) - total
    large = ew("and", compare(x, 1.0, "GT"), compare(x, math.inf, "LT"))
    z = safe(x, large, 2.0)
    high = _expn_fraction(m, z) * ew("exponential", -z)
    at_zero = select(compare(n, 1.0, "GT"), 1.0 / safe(n - 1.0, compare(n, 1.0, "GT"), 1.0), math.inf)
    edge = select(compare(x, math.inf, "EQ"), 0.0, math.nan)
    out = select(small, low, select(large, high, select(compare(x, 0.0, "EQ"), at_zero, edge)))
    none = ew("exponential", -x) / safe(x, compare(x, 0.0, "NE"), 1.0)
    none = select(compare(x, 0.0, "GT"), none, select(compare(x, 0.0, "EQ"), math.inf, math.nan))
    return select(natural, select(compare(n, 0.0, "EQ"), none, out), math.nan)


def _expn_slope(n: Tensor, x: Tensor) -> Tensor:
    last = compare(n, 0, "EQ")
    below = _expn(ew("maximum", n - 1, 0), x)
    return select(last, -ew("exponential", -x) * (1.0 / x + 1.0 / (x * x)), -below)


_expn = differentiable(None, _expn_slope)(_expn_forward)


@of_order
def expn(n: Any, x: Any) -> Tensor:
    """The generalized exponential integral E_n(x), n a natural number, x >= 0."""
    return _expn(n, x)


def _auxiliary(x: Tensor) -> tuple[Tensor, Tensor]:
    """f and g of DLMF 6.2 (si = pi/2 - f cos - g sin, ci = f sin - g cos) for x >= 2: E1(ix) by its fraction."""
    # exp(ix) E1(ix) = 1 / (1 + ix - 1 / (3 + ix - 4 / (5 + ix - ...))), from the innermost of 120 outwards.
    real, imaginary = number(2 * 120 + 1, x), x
    for k in range(120, 0, -1):
        square = real * real + imaginary * imaginary
        scale = float(k * k) / square
        real, imaginary = (2.0 * k - 1.0) - scale * real, x + scale * imaginary
    square = real * real + imaginary * imaginary
    return imaginary / square, real / square


def _sine_series(x: Tensor) -> Tensor:
    terms = [(-1) ** k / ((2 * k + 1) * math.factorial(2 * k + 1)) for k in range(20, -1, -1)]
    return x * polynomial(x * x, terms)


def _cosine_series(x: Tensor) -> Tensor:
    terms = [(-1) ** k / (2 * k * math.factorial(2 * k)) for k in range(20, 0, -1)]
    return x * x * polynomial(x * x, terms)


def _sine_forward(x: Tensor) -> Tensor:
    size = ew("abs", x)
    near = compare(size, 4.0, "LE")
    y = safe(size, ew("not", near), 5.0)
    y = safe(y, ew("not", compare(y, 1e300, "GT")), 1e300)
    f, g = _auxiliary(y)
    far = math.pi / 2 - f * ew("cosine", y) - g * ew("sine", y)
    out = select(near, _sine_series(safe(size, near, 0.0)), far)
    return select(compare(x, 0.0, "LT"), -out, out)


def _cosine_forward(x: Tensor) -> Tensor:
    size = ew("abs", x)
    near = ew("and", compare(size, 4.0, "LE"), compare(size, 0.0, "GT"))
    y = safe(size, near, 1.0)
    low = _EULER + ew("log", y) + _cosine_series(y)
    above = ew("and", compare(size, 4.0, "GT"), compare(x, -math.inf, "GT"))
    z = safe(size, ew("and", above, compare(size, 1e300, "LT")), 1e300)
    f, g = _auxiliary(z)
    out = select(near, low, select(above, f * ew("sine", z) - g * ew("cosine", z), math.nan))
    return select(compare(x, 0.0, "EQ"), -math.inf, out)


def _sinc(x: Tensor) -> Tensor:
    """sin(x) / x with its derivatives at 0."""
    from lamina import numpy as lnp

    return lnp.sinc(x / math.pi)


_si = differentiable(_sinc)(_sine_forward)
_ci = differentiable(lambda x: ew("cosine", x) / x)(_cosine_forward)


@in_float64
def sici(x: Any) -> tuple[Tensor, Tensor]:
    """The sine integral Si(x) and the cosine integral Ci(|x|), the real part of Ci(x); Ci(-inf) is NaN."""
    return _si(x), _ci(x)


# B_2k / (2k + 1)!, k = 1 ... 12
_DEBYE = [
    1 / 36,
    -1 / 3600,
    1 / 211680,
    -1 / 10886400,
    5 / 66 / math.factorial(11),
    -691 / 2730 / math.factorial(13),
    7 / 6 / math.factorial(15),
    -3617 / 510 / math.factorial(17),
    43867 / 798 / math.factorial(19),
    -174611 / 330 / math.factorial(21),
]


def _spence_forward(x: Tensor) -> Tensor:
    # spence(x) is the dilogarithm of 1 - x. By its reflections the argument comes into [0.5, 2), and the
    # series is in log(x).
    inside = ew("and", compare(x, 0.0, "GT"), compare(x, math.inf, "LT"))
    t = safe(x, inside, 1.0)
    high = compare(t, 2.0, "GT")
    w = select(high, 1.0 / t, t)
    low = compare(w, 0.5, "LT")
    u = 0.0 - ew("log", select(low, 1.0 - w, w))  # Li2(1 - exp(-u))
    square = u * u
    base = u - square * 0.25 + u * square * polynomial(square, _DEBYE[::-1])
    product = ew("log", w) * ew("log_plus_one", -safe(w, low, 0.25))
    out = select(low, math.pi**2 / 6 - product - base, base)
    logarithm = ew("log", t)
    out = select(high, -out - 0.5 * logarithm * logarithm, out)
    edge = select(
        compare(x, 0.0, "EQ"), number(math.pi**2 / 6, x), select(compare(x, 0.0, "GT"), -math.inf, math.nan)
    )
    return select(inside, out, edge)


def _spence_slope(x: Tensor) -> Tensor:
    """log(x) / (1 - x), by its series near 1."""
    d = x - 1.0
    near = compare(ew("abs", d), 0.05, "LT")
    series = -polynomial(safe(d, near, 0.0), [(-1.0) ** k / (k + 1) for k in range(14, -1, -1)])
    y = safe(x, ew("not", near), 2.0)
    return select(near, series, ew("log", y) / (1.0 - y))


_spence = differentiable(_spence_slope)(_spence_forward)


@in_float64
def spence(x: Any) -> Tensor:
    """Spence's function: the integral of log(t) / (1 - t) from 1 to x; NaN for x < 0."""
    return _spence(x)


__all__ = ["exp1", "expi", "expn", "sici", "spence"]
