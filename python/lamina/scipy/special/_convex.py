"""Products with logarithms, divergences, logistic functions and softmaxes."""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Sequence
from typing import Any

from lamina import nn
from lamina._core import Tensor
from lamina.nn import logsumexp
from lamina.numpy import _elementwise as np_
from lamina.numpy._common import compare, floating, inexact, promote_inexact, select
from lamina.scipy.special._common import differentiable, ew, in_float64, safe


def _log_product(log: str, slope: Any) -> Any:
    def forward(x: Tensor, y: Tensor) -> Tensor:
        none = ew("and", compare(x, 0.0, "EQ"), compare(y, y, "EQ"))
        return select(none, 0.0, x * ew(log, y))

    def by_y(x: Tensor, y: Tensor) -> Tensor:
        # Only 0 / 0 is left out: elsewhere the quotient has its own derivative by x at 0.
        steep = slope(y)
        none = ew("and", compare(x, 0.0, "EQ"), compare(steep, 0.0, "EQ"))
        return select(none, 0.0, x / safe(steep, ew("not", none), 1.0))

    return differentiable(lambda x, y: ew(log, y), by_y)(forward)


_xlogy = _log_product("log", lambda y: y)
_xlog1py = _log_product("log_plus_one", lambda y: 1.0 + y)


@functools.partial(in_float64, complex_too=True)
def xlogy(x: Any, y: Any) -> Tensor:
    """x log(y), and 0 where x is 0."""
    return _xlogy(x, y)


@functools.partial(in_float64, complex_too=True)
def xlog1py(x: Any, y: Any) -> Tensor:
    """x log(1 + y), and 0 where x is 0."""
    return _xlog1py(x, y)


@in_float64
def entr(x: Any) -> Tensor:
    """-x log(x), 0 at 0 and -inf below."""
    return select(compare(x, 0.0, "LT"), -math.inf, 0.0 - _xlogy(x, x))


@in_float64
def rel_entr(p: Any, q: Any) -> Tensor:
    """p log(p / q) for p, q > 0; 0 where p is 0 and q >= 0; else inf."""
    both = ew("and", compare(p, 0.0, "GT"), compare(q, 0.0, "GT"))
    none = ew("and", compare(p, 0.0, "EQ"), compare(q, 0.0, "GE"))
    a, b = safe(p, both, 1.0), safe(q, both, 1.0)
    out = select(both, a * ew("log", a / b), select(none, 0.0, math.inf))
    return select(ew("or", compare(p, p, "NE"), compare(q, q, "NE")), math.nan, out)


@in_float64
def kl_div(p: Any, q: Any) -> Tensor:
    """p log(p / q) - p + q for p, q > 0; q where p is 0 and q >= 0; else inf."""
    entropy = rel_entr(p, q)
    return select(compare(entropy, math.inf, "EQ"), math.inf, entropy - p + q)


def expit(x: Any) -> Tensor:
    """The logistic function 1 / (1 + exp(-x))."""
    return ew("logistic", inexact(x))


_with_slope_of_logit = differentiable(lambda x: 1.0 / (x * (1.0 - x)))


@_with_slope_of_logit
def _logit(x: Tensor) -> Tensor:
    # The odds of the likelier side less 1: not negative, and exact near 1/2, so that one logarithm does for every x.
    low = compare(x, 0.5, "LT")
    rarer = select(low, x, 1.0 - x)
    # Of 0 the sign does not count, and a subnormal number is scaled, as its inverse overflows.
    tiny = compare(ew("abs", rarer), sys.float_info.min, "LT")
    scaled = select(compare(rarer, 0.0, "EQ"), 0.0, select(tiny, rarer * 2.0**64, rarer))
    y = ew("log_plus_one", select(low, 1.0 - 2.0 * x, 2.0 * x - 1.0) / scaled)
    y = select(tiny, y + 64 * math.log(2), y)
    return select(low, -y, y)


@_with_slope_of_logit
def _log_odds(x: Tensor) -> Tensor:
    return ew("log", x / (1.0 - x))


_logit_of_wide = in_float64(lambda x: _logit(x))
# Of narrower numbers the odds have digits enough: next to 1/2 they are off 1 by 2^-24 or more.
_logit_of_narrow = in_float64(lambda x: _log_odds(x), complex_too=True)


def logit(x: Any) -> Tensor:
    """log(p / (1 - p)), the inverse of expit."""
    (t,) = promote_inexact(x)
    return _logit_of_wide(t) if t.dtype.name == "float64" else _logit_of_narrow(t)


_log_expit = differentiable(lambda x: ew("logistic", -x))(
    lambda x: ew("minimum", x, 0.0) - ew("log_plus_one", ew("exponential", -ew("abs", x)))
)


@in_float64
def log_expit(x: Any) -> Tensor:
    """log(expit(x)), without overflow."""
    return _log_expit(x)


@in_float64
def boxcox(x: Any, lmbda: Any) -> Tensor:
    """(x^lmbda - 1) / lmbda, and log(x) where lmbda is 0."""
    return _boxcox(ew("log", x), lmbda)


@in_float64
def boxcox1p(x: Any, lmbda: Any) -> Tensor:
    """((1 + x)^lmbda - 1) / lmbda, and log(1 + x) where lmbda is 0."""
    return _boxcox(ew("log_plus_one", x), lmbda)


def _boxcox(logarithm: Tensor, power: Tensor) -> Tensor:
    flat = compare(ew("abs", power), 1e-12, "LT")
    p = safe(power, ew("not", flat), 1.0)
    # Near 0, the first terms of the series, which have its derivatives by lmbda.
    finite = compare(ew("abs", logarithm), math.inf, "LT")
    small = logarithm * (1.0 + 0.5 * power * safe(logarithm, finite, 0.0))
    return select(flat, small, ew("exponential_minus_one", p * logarithm) / p)


@in_float64
def huber(delta: Any, r: Any) -> Tensor:
    """r^2 / 2 where |r| <= delta, else delta (|r| - delta / 2); inf for a negative delta."""
    size = ew("abs", r)
    out = select(compare(size, delta, "LE"), 0.5 * r * r, delta * (size - 0.5 * delta))
    return select(compare(delta, 0.0, "LT"), math.inf, out)


@in_float64
def exprel(x: Any) -> Tensor:
    """(exp(x) - 1) / x, and 1 at 0."""
    from lamina.scipy.special._common import polynomial

    near = compare(ew("abs", x), 0.3, "LT")
    series = polynomial(safe(x, near, 0.0), [1.0 / math.factorial(k + 1) for k in range(14, -1, -1)])
    y = safe(x, ew("not", near), 1.0)
    out = select(near, series, ew("exponential_minus_one", y) / y)
    return select(compare(x, math.inf, "EQ"), math.inf, out)


def softmax(x: Any, axis: int | Sequence[int] | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along axes, by default all."""
    return nn.softmax(x, axis)


def log_softmax(x: Any, axis: int | Sequence[int] | None = None) -> Tensor:
    """log(softmax(x)) along axes, by default all, without cancellation."""
    return nn.log_softmax(x, axis)


def sinc(x: Any) -> Tensor:
    """sin(pi x) / (pi x), and 1 at 0."""
    return np_.sinc(floating(x, "sinc"))


__all__ = [
    "boxcox",
    "boxcox1p",
    "entr",
    "expit",
    "exprel",
    "huber",
    "kl_div",
    "log_expit",
    "log_softmax",
    "logit",
    "logsumexp",
    "rel_entr",
    "sinc",
    "softmax",
    "xlog1py",
    "xlogy",
]
