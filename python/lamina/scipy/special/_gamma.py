"""Gamma, beta and zeta functions and their incomplete forms.

Sources: Stirling's series (NIST DLMF 5.11), the incomplete gamma function by series, continued fraction and, for
large parameters, quadrature around the maximum of the integrand (DLMF 8.7, 8.9; Press et al., Numerical Recipes, 6.2);
the incomplete beta function by continued fraction (DLMF 8.17.22, Lentz's method); Hurwitz' zeta function by Euler's
and Maclaurin's formula (DLMF 25.11.5).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

from lamina._core import Tensor
from lamina._tensor import astype, to_tensor
from lamina.numpy import _elementwise as np_
from lamina.numpy._common import compare, default_float, iterate, select
from lamina.scipy.special import _complex
from lamina.scipy.special._common import (
    TOGETHER,
    Differentiable,
    differentiable,
    ew,
    in_float64,
    in_own_type,
    is_short,
    least_change,
    number,
    of_order,
    polynomial,
    safe,
    short_results,
)
from lamina.scipy.special._complex import of_complex

_HALF_LOG_TWO_PI = 0.9189385332046727
# B_2k / (2k (2k - 1)), k = 10 ... 1
_STIRLING = [-174611 / 125400, 43867 / 244188, -3617 / 122400, 1 / 156, -691 / 360360, 1 / 1188]
_STIRLING += [-1 / 1680, 1 / 1260, -1 / 360, 1 / 12]
_EPS = 2.0**-53


def _gammaln(x: Tensor) -> Tensor:
    return ew("lgamma", x)


def _correction(x: Tensor) -> Tensor:
    """lgamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2), for x >= 10."""
    return polynomial(1.0 / (x * x), _STIRLING[4:] if is_short() else _STIRLING) / x


def _is_pole(x: Tensor) -> Tensor:
    return ew("and", compare(x, 0.0, "LE"), compare(x, ew("floor", x), "EQ"))


def _is_odd(whole: Tensor) -> Tensor:
    return compare(ew("remainder", whole, 2.0), 0.0, "NE")


def _gamma_positive(y: Tensor, low: Tensor) -> Tensor:
    """Gamma(y + low) for y >= 10, low far below y: x^(x - 1/2) in two halves, so that it overflows as late as it may."""
    half = ew("power", y, y * 0.5 - 0.25)
    out = half * ew("exponential", -y) * half * math.sqrt(2 * math.pi)
    shift = low * (ew("log", y) - 0.5 / y)
    return out * ew("exponential", _correction(y)) * (1.0 + shift)


def _gamma_forward(x: Tensor) -> Tensor:
    negative = compare(x, 0.5, "LT")
    # Gamma(x) = pi / (sin(pi x) Gamma(1 - x)); the rounding of 1 - x and of x + 10 is carried along.
    z = select(negative, 1.0 - x, x)
    low = select(negative, (1.0 - z) - x, 0.0)
    small = compare(z, 10.0, "LT")
    y = select(small, z + 10.0, z)
    low = low + select(small, z - (y - 10.0), 0.0)
    product = number(1, x)
    for k in range(10):
        product = product * (z + float(k))
    g = _gamma_positive(safe(y, compare(y, 1e4, "LT"), 1e4), low)
    g = select(small, g / safe(product, small, 1.0), g)
    whole = ew("round_nearest_even", x)
    odd = _is_odd(whole)
    g = select(compare(x, whole, "EQ"), ew("round_nearest_even", g), g)  # a factorial
    reflected = math.pi / (ew("sine", (x - whole) * math.pi) * g)
    out = select(negative, select(odd, -reflected, reflected), g)
    floor_odd = _is_odd(ew("floor", x))
    out = select(compare(x, -190.0, "LT"), select(floor_odd, -0.0, 0.0), out)
    out = select(_is_pole(x), math.nan, out)
    out = select(compare(x, 0.0, "EQ"), np_.copysign(math.inf, x), out)
    out = select(compare(x, 172.0, "GT"), math.inf, out)
    return select(compare(x, x, "NE"), x, out)


_gamma = differentiable(lambda x: _gamma(x) * ew("digamma", x))(_gamma_forward)


@in_own_type
def gammaln(x: Any) -> Tensor:
    """log |Gamma(x)|."""
    return _gammaln(x)


@functools.partial(of_complex, complex_=_complex.gamma)
@in_float64
def gamma(x: Any) -> Tensor:
    """Gamma(x): NaN at negative integers, infinite at 0 with its sign. Of complex x: NaN at every pole."""
    return _gamma(x)


@in_float64
def gammasgn(x: Any) -> Tensor:
    """The sign of Gamma(x): 1 or -1; NaN at negative integers, the sign of x at 0."""
    whole = ew("floor", x)
    out = select(ew("and", compare(x, 0.0, "LT"), _is_odd(whole)), -1.0, number(1, x))
    out = select(ew("and", compare(x, 0.0, "LT"), compare(whole, x, "EQ")), math.nan, out)
    return select(compare(x, 0.0, "EQ"), np_.copysign(1.0, x), select(compare(x, x, "NE"), x, out))


@in_own_type
def digamma(x: Any) -> Tensor:
    """The derivative of log Gamma(x)."""
    return ew("digamma", x)


psi = digamma


def _rgamma(x: Tensor) -> Tensor:
    near = ew("and", compare(x, 0.5, "LT"), compare(x, -170.0, "GT"))
    pole = ew("and", _is_pole(x), ew("not", near))
    far = select(pole, 0.0, 1.0 / _gamma(safe(x, ew("not", ew("or", near, pole)), 1.0)))
    # sin(pi x) Gamma(1 - x) / pi, which is smooth at the zeros.
    y = safe(x, near, 0.0)
    whole = ew("round_nearest_even", y)
    reflected = ew("sine", (y - whole) * math.pi) * _gamma(1.0 - y) / math.pi
    return select(near, select(_is_odd(whole), 0.0 - reflected, reflected), far)


@in_float64
def rgamma(x: Any) -> Tensor:
    """1 / Gamma(x): 0 at 0 and the negative integers."""
    return _rgamma(x)


@functools.partial(of_complex, complex_=_complex.loggamma)
@in_float64
def loggamma(x: Any) -> Tensor:
    """log Gamma(x) for x >= 0; NaN below, where it is complex. Of complex x: analytic but on the negative real axis."""
    return select(compare(x, 0.0, "LT"), math.nan, _gammaln(x))


def factorial(n: Any, exact: bool = False) -> Tensor:
    """n! = Gamma(n + 1), a float; 0 for negative n. NotImplementedError for `exact`."""
    if exact:
        raise NotImplementedError("factorial gives floats; use math.factorial for exact integers")
    return _factorial(n)


@in_float64
def _factorial(n: Any) -> Tensor:
    negative = compare(n, 0.0, "LT")
    # Not the maximum of both, which has half the derivative at 0.
    return select(negative, 0.0, _gamma(select(negative, 0.0, n) + 1.0))


def multigammaln(a: Any, d: Any) -> Tensor:
    """log of the multivariate gamma function of dimension d, a Python integer.

    ValueError for d < 1, above a million, or between two integers.
    """
    if d != d or not 1 <= d <= 10**6 or d != int(d):
        raise ValueError(f"multigammaln needs a dimension of at least 1 and at most a million, not {d}")
    return _multigammaln(a, d=int(d))


@in_float64
def _multigammaln(a: Any, *, d: int) -> Tensor:
    total = number(d * (d - 1) / 4 * math.log(math.pi), a)
    for j in range(d):
        total = total + _gammaln(a - j / 2)
    return total


# --- beta ---


def _log1p_minus(u: Tensor) -> Tensor:
    """log(1 + u) - u without cancellation: a series in u / (2 + u) near 0."""
    near = compare(ew("abs", u), 0.4, "LT")
    v = safe(u, near, 0.0)
    s = v / (2.0 + v)
    square = s * s
    # log(1 + u) = 2 (s + s^3/3 + ...) and 2 s - u = -u s.
    tail = polynomial(square, [2.0 / (2 * k + 1) for k in range(11 if is_short() else 20, 0, -1)])
    close = s * square * tail - v * s
    return select(near, close, ew("log_plus_one", u) - u)


def _log_shape(t: Tensor, m: Tensor) -> Tensor:
    """log(t / m) - (t - m) / m, exact near t = m."""
    u = (t - m) / m
    near = compare(ew("abs", u), 0.5, "LT")
    far = ew("log", safe(t, ew("not", near), 1.0) / m) - u
    return select(near, _log1p_minus(safe(u, near, 0.0)), far)


def _betaln_forward(a: Tensor, b: Tensor) -> Tensor:
    p, q = ew("minimum", a, b), ew("maximum", a, b)
    large_q, large_p = compare(q, 10.0, "GE"), compare(p, 10.0, "GE")
    far = ew("and", ew("not", _is_pole(p)), compare(p + q, 10.0, "GE"))
    pf = safe(p, ew("and", far, compare(p, math.inf, "LT")), 1.0)
    qf = safe(q, ew("and", large_q, compare(q, math.inf, "LT")), 10.0)
    gammaln_p, sum_ = _gammaln(p), pf + qf
    part = pf / sum_
    rest, corrections = ew("log_plus_one", -part), _correction(qf) - _correction(sum_)
    both = (
        _HALF_LOG_TWO_PI
        - 0.5 * ew("log", qf)
        + _correction(safe(p, large_p, 10.0))
        + corrections
        + (pf - 0.5) * ew("log", part)
        + qf * rest
    )
    one = gammaln_p + corrections + pf - pf * ew("log", sum_) + (qf - 0.5) * rest
    none = gammaln_p + _gammaln(q) - _gammaln(p + q)
    out = select(large_q, select(large_p, both, select(far, one, none)), none)
    limit = select(compare(p, 0.0, "GT"), -math.inf, math.inf)
    return select(ew("and", compare(q, math.inf, "EQ"), far), limit, out)


_betaln = differentiable(
    lambda a, b: ew("digamma", a) - ew("digamma", a + b), lambda a, b: ew("digamma", b) - ew("digamma", a + b)
)(_betaln_forward)


def _beyond_poles(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(a, b, odd, infinite): arguments that are no poles and give the size of B, a sign where `odd`, and the poles.

    At a non-positive integer B has a limit where the other one is an integer and their sum is a pole, too:
    (-1)^b B(1 - a - b, b).
    """
    first = _is_pole(a)
    pole, other = select(first, a, b), select(first, b, a)
    some = ew("or", first, _is_pole(b))
    whole = ew("and", compare(other, 0.0, "GT"), compare(other, ew("floor", other), "EQ"))
    limit = ew("and", some, ew("and", whole, compare(pole + other, 0.0, "LE")))
    infinite = ew("and", some, ew("not", limit))
    a = select(limit, 1.0 - pole - other, safe(a, ew("not", infinite), 1.0))
    b = select(limit, other, safe(b, ew("not", infinite), 1.0))
    return a, b, ew("and", limit, _is_odd(other)), infinite


@in_float64
def betaln(a: Any, b: Any) -> Tensor:
    """log |B(a, b)|."""
    a, b, _, infinite = _beyond_poles(a, b)
    return select(infinite, math.inf, _betaln(a, b))


@in_float64
def beta(a: Any, b: Any) -> Tensor:
    """B(a, b) = Gamma(a) Gamma(b) / Gamma(a + b); at poles its limit, inf where there is none."""
    a, b, odd, infinite = _beyond_poles(a, b)
    small = ew("and", compare(ew("abs", a), 10.0, "LT"), compare(ew("abs", b), 10.0, "LT"))
    x, y = safe(a, small, 1.0), safe(b, small, 1.0)
    direct = _gamma(x) * _rgamma(x + y) * _gamma(y) + 0.0  # a zero without a sign
    zero = _is_pole(a + b)
    sign = gammasgn(a) * gammasgn(b) * gammasgn(safe(a + b, ew("not", zero), 1.0))
    far = select(zero, 0.0, sign * ew("exponential", _betaln(a, b)))
    value = select(small, direct, far)
    return select(infinite, math.inf, select(odd, -value, value))


@in_float64
def poch(z: Any, m: Any) -> Tensor:
    """Pochhammer's symbol Gamma(z + m) / Gamma(z); where both are infinite its limit as z moves, and inf where the
    first alone is."""
    end = z + m
    both = ew("and", _is_pole(z), _is_pole(end))
    # Between two poles Gamma(1 - z) / Gamma(1 - end), but for a sign.
    start, stop = select(both, 1.0 - end, z), select(both, 1.0 - z, end)
    none, over = _is_pole(start), ew("and", _is_pole(stop), ew("not", _is_pole(start)))
    value = _gamma_ratio(safe(start, ew("not", over), 1.0), safe(stop, ew("not", over), 1.0), m, none)
    value = select(ew("and", both, _is_odd(m)), -value, value)
    value = select(over, math.inf, value)
    # Of no factors 1, to the last bit, with the derivatives of the ratio.
    one = select(np_.isfinite(value), value + ew("stop_gradient", 1.0 - value), 1.0)
    value = select(compare(z, math.inf, "EQ"), select(compare(m, 0.0, "GT"), math.inf, 0.0 * m), value)
    return select(compare(m, 0.0, "EQ"), one, value)


def _gamma_ratio(start: Tensor, stop: Tensor, m: Tensor, none: Tensor) -> Tensor:
    """Gamma(stop) / Gamma(start), `stop`, which is start + m, no pole; `none` says where `start` is one."""
    small = ew("and", compare(ew("abs", start), 100.0, "LT"), compare(ew("abs", stop), 100.0, "LT"))
    direct = _gamma(safe(stop, small, 1.0)) * _rgamma(safe(start, small, 1.0)) + 0.0  # a zero without a sign
    large = ew("and", ew("not", small), ew("and", compare(start, 10.0, "GE"), compare(stop, 10.0, "GE")))
    a, b = safe(start, large, 10.0), safe(stop, large, 10.0)
    m = safe(m, large, 0.0)
    steps = (a - 0.5) * ew("log_plus_one", m / a) - m + m * ew("log", b)
    near = ew("exponential", steps + _correction(b) - _correction(a))
    rest = ew("not", ew("or", small, ew("or", large, none)))
    a, b = safe(start, rest, 1.0), safe(stop, rest, 1.0)
    sign = gammasgn(a) * gammasgn(b)
    far = select(none, 0.0, sign * ew("exponential", _gammaln(b) - _gammaln(a)))
    return select(small, direct, select(large, near, far))


def comb(N: Any, k: Any, exact: bool = False, repetition: bool = False) -> Tensor:
    """The number of ways to choose k of N, as a float. NotImplementedError for `exact`: use math.comb."""
    if exact:
        raise NotImplementedError("comb gives floats; use math.comb for exact integers")
    if not repetition:
        return _comb(N, k)
    some = compare(to_tensor(k), 0, "NE")  # there is one way to take nothing, of nothing too
    return _comb(select(some, to_tensor(N) + k - 1, N), k)


@in_float64
def _comb(n: Any, k: Any) -> Tensor:
    ok = ew("and", ew("and", compare(k, 0.0, "GE"), compare(n, 0.0, "GE")), compare(k, n, "LE"))
    m, j = safe(n, ok, 2.0), safe(k, ok, 1.0)
    value = ew("exponential", -_betaln(m - j + 1.0, j + 1.0)) / (m + 1.0)
    whole = ew("and", compare(m, ew("floor", m), "EQ"), compare(j, ew("floor", j), "EQ"))
    rounded = value + ew("stop_gradient", ew("round_nearest_even", value) - value)
    value = select(ew("and", whole, compare(value, 1e12, "LT")), rounded, value)
    return select(ok, value, 0.0)


# --- zeta ---

# B_2j / (2j)!, j = 1 ... 10
_MACLAURIN = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
    43867 / 5109094217170944000,
    -174611 / 802857662698291200000,
)


def _zeta_forward(s: Tensor, q: Tensor) -> Tensor:
    """Of s >= -1/8: below 1 it is the continuation."""
    minus = -s
    whole_s = compare(s, ew("floor", s), "EQ")
    below = ew("and", compare(q, 0.0, "LT"), compare(q, -1e4, "GT"))

    def term(at: Tensor) -> Tensor:
        """at^-s, of negative bases too where s is an integer."""
        size = ew("power", ew("abs", at), minus)
        return select(ew("and", compare(at, 0.0, "LT"), _is_odd(s)), -size, size)

    at, total = iterate(
        [q, number(0, q)],
        lambda at, total: ew("and", below, compare(at, 0.0, "LT")),
        lambda at, total: [at + 1.0, total + term(at)],
        20000,
    )
    for k in range(12):
        total = total + ew("power", at + float(k), minus)
    end = at + 12.0
    last = ew("power", end, minus)
    total = total + end * last / (s - 1.0) + last * 0.5
    square, factor = end * end, s * last / end
    for j, c in enumerate(_MACLAURIN):
        total = total + factor * c
        factor = factor * ((s + (2.0 * j + 1)) * (s + (2.0 * j + 2))) / square
    pole = ew("and", compare(q, 0.0, "LE"), compare(q, ew("floor", q), "EQ"))
    total = select(ew("and", compare(q, 0.0, "LT"), ew("not", whole_s)), math.nan, total)
    total = select(compare(q, -1e4, "LE"), math.nan, total)
    total = select(pole, math.inf, total)
    total = select(compare(q, math.inf, "EQ"), 0.0, total)
    at_infinity = select(compare(q, 1.0, "EQ"), 1.0, select(compare(q, 1.0, "GT"), 0.0, math.inf))
    total = select(compare(s, math.inf, "EQ"), at_infinity, total)
    total = select(compare(s, 1.0, "EQ"), math.inf, total)
    return select(ew("or", compare(s, s, "NE"), compare(q, q, "NE")), math.nan, total)


def _slope(f: Callable[..., Tensor], which: int, times: int) -> Callable[..., Tensor]:
    """The derivative of an elementwise function by one argument, `times` times, by forward mode."""
    if times == 0:
        return f

    def derivative(*args: Tensor) -> Tensor:
        from lamina._transforms import jvp

        below = _slope(f, which, times - 1)

        def along(v: Tensor) -> Tensor:
            return below(*args[:which], v, *args[which + 1 :])

        with short_results(False):  # loops end when the value is there, which is before its slope
            return jvp(along, (args[which],), (number(1, args[which]),))[1]

    return derivative


# Functions whose loops only forward mode can go through have their derivatives by parameters, of every order, as
# functions with rules of their own.


@functools.cache
def _zeta_slope(k: int) -> Differentiable:
    """The k-th derivative of zeta(s, q) by s."""

    def by_q(s: Tensor, q: Tensor) -> Tensor:
        out = -s * _zeta_slope(k)(s + 1.0, q)
        return out - float(k) * _zeta_slope(k - 1)(s + 1.0, q) if k else out

    return differentiable(lambda s, q: _zeta_slope(k + 1)(s, q), by_q)(_slope(_zeta_forward, 0, k))


def _zeta(s: Tensor, q: Tensor) -> Tensor:
    return _zeta_slope(0)(s, q)


@in_float64
def _hurwitz(x: Any, q: Any) -> Tensor:
    return _zeta(x, q) * select(compare(x, 1.0, "LT"), math.nan, number(1, x))


def _sine_of_quarters(s: Tensor) -> Tensor:
    """sin(pi s / 2), exactly 0 at the even numbers."""
    r = s - 4.0 * ew("round_nearest_even", 0.25 * s)
    r = select(compare(r, 1.0, "GT"), 2.0 - r, select(compare(r, -1.0, "LT"), -2.0 - r, r))
    return ew("sine", (0.5 * math.pi) * r)


@in_float64
def _riemann(x: Any) -> Tensor:
    """By the functional equation where x < -1/8 (DLMF 25.4.2, with the gamma function's duplication 5.5.5)."""
    left = compare(x, -0.125, "LT")
    s = safe(x, left, -1.0)
    sine, other = _sine_of_quarters(s), 1.0 - s
    half = ew("minimum", 0.5 * other, 500.0)  # beyond 130 the product is infinite
    scale = ew("power", number(math.pi, s), -half)
    size = (_gamma(half) * scale) * (_gamma(half + 0.5) * scale) / math.sqrt(math.pi)
    zero = ew("and", compare(sine, 0.0, "EQ"), compare(size, math.inf, "EQ"))
    reflected = select(zero, 0.0, sine * size * _zeta(other, number(1, s)))
    return select(left, reflected, _zeta(safe(x, ew("not", left), 2.0), number(1, s)))


def zeta(x: Any, q: Any = None) -> Tensor:
    """Riemann's zeta function, continued to x < 1; with `q` that of Hurwitz, the sum of (k + q)^-x over
    k = 0, 1, ..., NaN for x < 1."""
    return _riemann(x) if q is None else _hurwitz(x, q)


def _polygamma_forward(order: Tensor, x: Tensor) -> Tensor:
    n = astype(order, "float64")
    size = _gamma(n + 1.0) * _zeta_forward(ew("maximum", n, 1.0) + 1.0, x)
    out = select(compare(n, 0.0, "GE"), select(_is_odd(n), size, -size), math.nan)
    return select(compare(n, 0.0, "EQ"), ew("digamma", x), out)


_polygamma = differentiable(None, lambda n, x: _polygamma(n + 1, x))(_polygamma_forward)


@of_order
def polygamma(n: Any, x: Any) -> Tensor:
    """The n-th derivative of digamma at x, n a natural number (NaN for others)."""
    return _polygamma(n, x)


# --- incomplete gamma ---


# Nodes and weights of Gauss and Legendre's rule with 32 points on [-1, 1]: the positive half.
def _legendre() -> tuple[list[float], list[float]]:
    n, nodes, weights = 32, [], []
    for i in range(n // 2):
        x = math.cos(math.pi * (i + 0.75) / (n + 0.5))
        for _ in range(8):
            before, here = 1.0, x
            for k in range(2, n + 1):
                before, here = here, ((2 * k - 1) * x * here - (k - 1) * before) / k
            slope = n * (before - x * here) / (1 - x * x)
            x -= here / slope
        nodes.append(x)
        weights.append(2 / ((1 - x * x) * slope * slope))
    return nodes, weights


def _density(a: Tensor, x: Tensor) -> Tensor:
    """x^a exp(-x) / Gamma(a + 1), for a, x > 0."""
    large = compare(a, 10.0, "GE")
    b = safe(a, large, 10.0)
    exact = b * _log_shape(x, b) - _correction(b) - 0.5 * ew("log", b) - _HALF_LOG_TWO_PI
    c = safe(a, ew("not", large), 1.0)
    direct = c * ew("log", x) - x - _gammaln(c + 1.0)
    return ew("exponential", select(large, exact, direct))


def _gamma_series(some: Tensor, a: Tensor, x: Tensor) -> Tensor:
    """P(a, x) over the density by its power series, where `some`."""
    least = least_change(_EPS) * 2.0**-6

    def step(n: Tensor, term: Tensor, total: Tensor) -> list[Tensor]:
        term = term * x / (n + 1.0)
        return [n + 1.0, term, total + term]

    _, _, total = iterate(
        [a, select(some, number(1, a), 0.0), number(1, a)],
        lambda n, term, total: compare(term, total * least, "GT"),
        step,
        5000,
        TOGETHER,
    )
    return total


def _gamma_fraction(some: Tensor, a: Tensor, x: Tensor) -> Tensor:
    """Q(a, x) over a times the density by Legendre's continued fraction, with Lentz's method, where `some`."""
    b = x + 1.0 - a
    # At an integer a the fraction ends early, but its derivative by a does not.
    least = number(0, a) if is_short() else select(some, 100.0 / x + 3.0 * ew("sqrt", a) + 20.0, 0.0)
    eps = least_change(_EPS)
    tiny = 1e-300
    start = 1.0 / b

    def step(i: Tensor, b: Tensor, c: Tensor, d: Tensor, h: Tensor, change: Tensor) -> list[Tensor]:
        i = i + 1.0
        an = -i * (i - a)
        b = b + 2.0
        d = an * d + b
        d = 1.0 / safe(d, compare(ew("abs", d), tiny, "GE"), tiny)
        c = b + an / c
        c = safe(c, compare(ew("abs", c), tiny, "GE"), tiny)
        return [i, b, c, d, h * (d * c), ew("abs", d * c - 1.0)]

    state = iterate(
        [number(0, a), b, number(1 / tiny, a), start, start, select(some, number(1, a), 0.0)],
        lambda i, b, c, d, h, change: ew("or", compare(change, eps, "GT"), compare(i, least, "LT")),
        step,
        5000,
        TOGETHER,
    )
    return state[4]


def _gamma_quadrature(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """(P, Q) for large a: the smaller one is the integral of the density beyond x."""
    mode = a - 1.0
    root = ew("sqrt", mode)
    above = compare(x, mode, "GT")
    # Far from the maximum the integrand falls exponentially.
    steep = 40.0 / ew("maximum", ew("abs", mode / x - 1.0), 2.0 / root)
    far_up = ew("maximum", mode + 12.0 * root, x + 7.0 * root)
    far_down = ew("minimum", mode - 9.0 * root, x - 7.0 * root)
    far_up = ew("minimum", far_up, x + steep)
    far_down = ew("maximum", 0.0, ew("maximum", far_down, x - steep))
    end = select(above, far_up, far_down)
    middle, half = 0.5 * (x + end), 0.5 * (end - x)
    total = number(0, a)
    for node, weight in zip(*_legendre()):
        for side in (node, -node):
            t = middle + half * side
            total = total + weight * ew("exponential", mode * _log_shape(t, mode))
    scale = ew("exponential", -_correction(mode) - _HALF_LOG_TWO_PI) / root
    tail = ew("abs", total * half) * scale
    return select(above, 1.0 - tail, tail), select(above, tail, 1.0 - tail)


def _both_gammainc(a: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    ok = ew("and", ew("and", compare(a, 0.0, "GT"), compare(x, 0.0, "GT")), compare(x, math.inf, "LT"))
    ok = ew("and", ok, compare(a, math.inf, "LT"))
    large = ew("and", ok, compare(a, 1000.0, "GT"))
    # In short the series has digits enough for a complement of some hundredths, too.
    bound = a + 1.0 + 2.0 * ew("minimum", a, 2.0) if is_short() else a + 1.0
    below = ew("or", compare(x, bound, "LT"), compare(x, 1.0, "LT"))
    plain = ew("and", ok, ew("not", large))
    lower, upper = ew("and", plain, below), ew("and", plain, ew("not", below))
    density = _density(safe(a, plain, 1.0), safe(x, plain, 0.5))
    p = density * _gamma_series(lower, safe(a, lower, 1.0), safe(x, lower, 0.5))
    a_ = safe(a, upper, 1.0)
    q = density * a_ * _gamma_fraction(upper, a_, safe(x, upper, 3.0))
    # A loop of one step at most: the quadrature is dear, and seldom needed. What depends on `done` stays in it.
    al, xl = safe(a, large, 1e4), safe(x, large, 1e4)
    lp, lq, _ = iterate(
        [number(0, a)] * 3,
        lambda p, q, done: ew("and", large, compare(done, 0.0, "EQ")),
        lambda p, q, done: [*_gamma_quadrature(al + done, xl + done), number(1, a)],
        1,
    )
    p_out = select(large, lp, select(lower, p, 1.0 - q))
    q_out = select(large, lq, select(lower, 1.0 - p, q))
    zero_a = ew("and", compare(a, 0.0, "EQ"), compare(x, 0.0, "GT"))
    infinite_a = ew("and", compare(a, math.inf, "EQ"), compare(x, math.inf, "LT"))
    zero_x = ew("and", compare(x, 0.0, "EQ"), compare(a, 0.0, "GT"))
    infinite_x = ew("and", compare(x, math.inf, "EQ"), compare(a, math.inf, "LT"))
    one = ew("or", zero_a, ew("and", infinite_x, compare(a, 0.0, "GE")))
    none = ew("or", zero_x, ew("and", infinite_a, compare(x, 0.0, "GE")))

    def finish(value: Tensor, at_one: float) -> Tensor:
        edge = select(one, at_one, select(none, 1.0 - at_one, math.nan))
        return select(ok, value, edge)

    return finish(p_out, 1.0), finish(q_out, 0.0)


def _lower(a: Tensor, x: Tensor) -> Tensor:
    return _both_gammainc(a, x)[0]


def _upper(a: Tensor, x: Tensor) -> Tensor:
    return _both_gammainc(a, x)[1]


def _gamma_pdf(a: Tensor, x: Tensor) -> Tensor:
    """The derivative of P(a, x) by x: x^(a - 1) exp(-x) / Gamma(a); for x < 0 NaN, as P."""
    endless = compare(x, math.inf, "EQ")
    inside = ew("and", compare(x, 0.0, "GT"), ew("not", endless))
    y = safe(x, inside, 1.0)
    at_zero = select(compare(a, 1.0, "LT"), math.inf, select(compare(a, 1.0, "EQ"), 1.0, 0.0))
    value = ew("exponential", (a - 1.0) * ew("log", y) - y - _gammaln(a))
    return select(inside, value, select(compare(x, 0.0, "EQ"), at_zero, select(endless, 0.0, math.nan)))


@functools.cache
def _gamma_slope(k: int) -> Differentiable:
    """The k-th derivative of P(a, x) by a, k > 0."""

    def forward(a: Tensor, x: Tensor) -> Tensor:
        # Beyond a the complement is the small one, and its derivative the exact one.
        return select(compare(x, a, "LT"), _slope(_lower, 0, k)(a, x), -_slope(_upper, 0, k)(a, x))

    return differentiable(lambda a, x: _gamma_slope(k + 1)(a, x), _slope(_gamma_pdf, 0, k))(forward)


_gammainc = differentiable(lambda a, x: _gamma_slope(1)(a, x), lambda a, x: _gamma_pdf(a, x))(_lower)
_gammaincc = differentiable(lambda a, x: -_gamma_slope(1)(a, x), lambda a, x: -_gamma_pdf(a, x))(_upper)


@in_float64
def gammainc(a: Any, x: Any) -> Tensor:
    """The regularized lower incomplete gamma function P(a, x); NaN for negative arguments."""
    return _gammainc(a, x)


@in_float64
def gammaincc(a: Any, x: Any) -> Tensor:
    """The regularized upper incomplete gamma function Q(a, x) = 1 - P(a, x), without cancellation."""
    return _gammaincc(a, x)


@in_float64
def random_gamma_slope(a: Any, x: Any) -> Tensor:
    """How a gamma variate x moves with its parameter a at a fixed probability: -dP/da / dP/dx."""
    return -_gamma_slope(1)(a, x) / _gamma_pdf(a, x)


@in_float64
def gammainc_slope(a: Any, x: Any) -> Tensor:
    """The derivative of P(a, x) by a."""
    return _gamma_slope(1)(a, x)


# --- incomplete beta ---


def _beta_fraction(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    tiny = 1e-300

    def nonzero(v: Tensor) -> Tensor:
        return safe(v, compare(ew("abs", v), tiny, "GE"), tiny)

    first = 1.0 / nonzero(1.0 - (a + b) * x / (a + 1.0))
    # At an integer b the fraction ends early, but its derivatives do not.
    least = number(0, a) if is_short() else 30.0 + 4.0 * ew("sqrt", ew("maximum", a, b))
    eps = least_change(_EPS)

    def step(m: Tensor, c: Tensor, d: Tensor, h: Tensor, change: Tensor) -> list[Tensor]:
        m = m + 1.0
        two = 2.0 * m
        even = m * (b - m) * x / ((a + two - 1.0) * (a + two))
        d = 1.0 / nonzero(1.0 + even * d)
        c = nonzero(1.0 + even / c)
        h = h * d * c
        odd = -(a + m) * (a + b + m) * x / ((a + two) * (a + two + 1.0))
        d = 1.0 / nonzero(1.0 + odd * d)
        c = nonzero(1.0 + odd / c)
        return [m, c, d, h * (d * c), ew("abs", d * c - 1.0)]

    state = iterate(
        [number(0, x), number(1, x), first, first, number(1, x)],
        lambda m, c, d, h, change: ew("or", compare(change, eps, "GT"), compare(m, least, "LT")),
        step,
        10000,
        TOGETHER // 2,
    )
    front = a * ew("log", x) + b * ew("log_plus_one", -x) - _betaln(a, b)
    return ew("exponential", front) * state[3] / a


def _betainc_forward(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    ok = ew("and", compare(a, 0.0, "GT"), compare(b, 0.0, "GT"))
    finite = ew("and", compare(a, math.inf, "LT"), compare(b, math.inf, "LT"))
    inside = ew("and", ew("and", ok, finite), ew("and", compare(x, 0.0, "GT"), compare(x, 1.0, "LT")))
    a_, b_, x_ = safe(a, inside, 1.0), safe(b, inside, 1.0), safe(x, inside, 0.25)
    turned = compare(x_, (a_ + 1.0) / (a_ + b_ + 2.0), "GT")
    value = _beta_fraction(select(turned, b_, a_), select(turned, a_, b_), select(turned, 1.0 - x_, x_))
    value = select(turned, 1.0 - value, value)
    edge = select(compare(x, 0.0, "EQ"), 0.0, select(compare(x, 1.0, "EQ"), 1.0, math.nan))
    # All weight is at 0 where a is 0 or b infinite, and at 1 the other way round.
    least, most = (ew("or", compare(p, 0.0, "EQ"), compare(q, math.inf, "EQ")) for p, q in ((a, b), (b, a)))
    inner = ew("and", compare(x, 0.0, "GE"), compare(x, 1.0, "LE"))
    real = ew("and", compare(a, 0.0, "GE"), compare(b, 0.0, "GE"))
    limit = ew("and", ew("and", inner, real), ew("xor", least, most))
    value = select(inside, value, select(ok, edge, math.nan))
    whole = select(least, select(compare(x, 0.0, "GT"), 1.0, 0.0), select(compare(x, 1.0, "LT"), 0.0, 1.0))
    return select(limit, whole, select(ew("and", least, most), math.nan, value))


def _beta_pdf(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    return ew(
        "exponential",
        (a - 1.0) * ew("log", x) + (b - 1.0) * ew("log_plus_one", -x) - _betaln(a, b),
    )


@functools.cache
def _betainc_slope(i: int, j: int) -> Differentiable:
    """The derivative of I_x(a, b), i times by a and j times by b."""
    return differentiable(
        lambda a, b, x: _betainc_slope(i + 1, j)(a, b, x),
        lambda a, b, x: _betainc_slope(i, j + 1)(a, b, x),
        _slope(_slope(_beta_pdf, 0, i), 1, j),
    )(_slope(_slope(_betainc_forward, 0, i), 1, j))


@in_float64
def betainc(a: Any, b: Any, x: Any) -> Tensor:
    """The regularized incomplete beta function I_x(a, b), 0 <= x <= 1, a, b > 0; else NaN."""
    return _betainc_slope(0, 0)(a, b, x)


# The last Bernoulli number that float64 holds.
_LAST_BERNOULLI = 258


@functools.cache
def _bernoulli_numbers() -> list[float]:
    """B_0 ... B_258, rounded once, by their recurrence (DLMF 24.5.3)."""
    from fractions import Fraction

    numbers = [Fraction(1)]
    for m in range(1, _LAST_BERNOULLI + 1):
        terms = (math.comb(m + 1, k) * numbers[k] for k in range(m) if numbers[k])
        numbers.append(Fraction(0) if m % 2 and m > 1 else -sum(terms, Fraction(0)) / (m + 1))
    return [float(b) for b in numbers]


def bernoulli(n: int) -> Tensor:
    """The Bernoulli numbers B_0 ... B_n (B_1 = -1/2), float32[n + 1], infinite where they are too large.

    n is a Python integer; ValueError for a negative one.
    """
    import numpy as np

    n = operator.index(n)
    if n < 0:
        raise ValueError(f"bernoulli needs n >= 0, not {n}")
    known = np.array(_bernoulli_numbers()[: n + 1])
    more = max(n - _LAST_BERNOULLI, 0)
    beyond = np.tile([0.0, -math.inf, 0.0, math.inf], -(-more // 4))[:more]
    with np.errstate(over="ignore"):
        return to_tensor(np.concatenate([known, beyond]).astype(default_float()))


__all__ = [
    "bernoulli",
    "beta",
    "betainc",
    "betaln",
    "comb",
    "digamma",
    "factorial",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "gammasgn",
    "loggamma",
    "multigammaln",
    "poch",
    "polygamma",
    "psi",
    "rgamma",
    "zeta",
]
