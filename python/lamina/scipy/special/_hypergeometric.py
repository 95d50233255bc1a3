"""Hypergeometric functions, Owen's T function and spherical harmonics.

Sources: NIST DLMF 13.2, 13.7 (asymptotic series), 15.2, 15.8 (linear transformations), 14.30 and the recurrences 14.10;
D. B. Owen, Tables for computing bivariate normal probabilities, Ann. Math. Statist. 27, 1956.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

from lamina import _core
from lamina._core import Tensor
from lamina._tensor import astype, numpy, to_tensor
from lamina.numpy._common import broadcast_all, compare, iterate, promote_inexact, select
from lamina.scipy.special._common import differentiable, ew, in_float64, number, safe
from lamina.scipy.special._gamma import gamma as _gamma

_EPS = 2.0**-54
_MOST = 200_000


def _and(*conditions: Tensor) -> Tensor:
    return functools.reduce(lambda a, b: ew("and", a, b), conditions)


def _natural(x: Tensor) -> Tensor:
    """Whether -x is 0, 1, 2, ..."""
    return _and(compare(x, 0.0, "LE"), compare(x, ew("floor", x), "EQ"))


def _sum(above: Sequence[Tensor], below: Sequence[Tensor], x: Tensor, by: int | None = None) -> Tensor:
    """The sum of x^n / n! times rising factorials; with `by`, its derivative by that one of above and below.

    NaN where `_MOST` terms are not enough, or are so much larger than their sum that it has no four digits.
    """
    parameters = [*above, *below]
    wanted = number(0, x) if by is None else parameters[by]
    sign = -1.0 if by is not None and by >= len(above) else 1.0

    def step(
        n: Tensor,
        term: Tensor,
        slope: Tensor,
        total: Tensor,
        last: Tensor,
        largest: Tensor,
        x: Tensor,
        *p: Tensor,
    ) -> Any:
        ratio = x / (n + 1.0)
        for v in p[: len(above)]:
            ratio = ratio * (v + n)
        for v in p[len(above) : -1]:
            ratio = ratio / (v + n)
        if by is not None:
            # The derivative of a rising factorial that meets zero is the product of its other factors.
            factor = p[-1] + n
            rest = ratio / safe(factor, compare(factor, 0.0, "NE"), 1.0) if sign > 0 else -ratio / factor
            slope = slope * ratio + term * rest
        term = term * ratio
        added = term if by is None else slope
        last = ew("maximum", ew("abs", added), ew("abs", term))
        return [n + 1.0, term, slope, total + added, last, ew("maximum", largest, ew("abs", added)), x, *p]

    one, zero = number(1, x), number(0, x)
    state = [zero, one, zero, one if by is None else zero, one, one, x, *parameters, wanted]
    least = functools.reduce(lambda a, b: ew("maximum", a, b), [ew("abs", v) for v in parameters])

    def go_on(n: Tensor, term: Tensor, slope: Tensor, total: Tensor, last: Tensor, *rest: Tensor) -> Tensor:
        small = compare(last, _EPS * ew("abs", total), "GT")
        return ew("or", small, _and(compare(n, least, "LT"), compare(term, 0.0, "NE")))

    found = iterate(state, go_on, step, _MOST)
    total, largest = found[3], found[5]
    lost = _and(compare(largest * 2.0**-53, 1e-3, "GT"), compare(largest * 2.0**-40, ew("abs", total), "GT"))
    wrong = ew("or", go_on(*found), lost)
    return select(wrong, math.nan, total)


# --- 1F1 ---


def _kummer(a: Tensor, b: Tensor, x: Tensor, by: int | None = None) -> Tensor:
    """1F1 by its series, of exp(x) 1F1(b - a, b, -x) where x < 0; or its derivative by a or b."""
    down = compare(x, 0.0, "LT")
    turned = select(down, b - a, a)
    size = ew("abs", x)
    if by is None:
        value = _sum([turned], [b], size)
    else:
        first = _sum([turned], [b], size, 0)
        value = select(down, -first, first)
        if by == 1:
            value = _sum([turned], [b], size, 1)
            value = value + select(down, first, 0.0)
    return select(down, ew("exponential", ew("minimum", x, 0.0)) * value, value)


def _far(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """1F1 by its asymptotic series, for |x| far above the parameters."""
    down = compare(x, 0.0, "LT")
    first, size = select(down, b - a, a), ew("abs", x)
    term = total = number(1, x)
    for n in range(30):
        ratio = (b - first + float(n)) * (1.0 - first + float(n)) / ((n + 1.0) * size)
        term = select(compare(ew("abs", ratio), 1.0, "LT"), term * ratio, 0.0)
        total = total + term
    return (
        _gamma(b) / _gamma(first) * ew("exponential", select(down, 0.0, size)) * ew("power", size, first - b)
    ) * total


def _hyp1f1_forward(a: Tensor, b: Tensor, x: Tensor) -> Tensor:
    far = _and(
        compare(ew("abs", x), 100.0, "GT"),
        compare(ew("abs", (b - a) * (1.0 - a)), 0.5 * ew("abs", x), "LT"),
        compare(ew("abs", a * (a - b + 1.0)), 0.5 * ew("abs", x), "LT"),
        ew("not", _natural(a)),
        ew("not", _natural(b - a)),
    )
    pole = _and(_natural(b), ew("not", _and(_natural(a), compare(a, b, "GT"))))
    near = ew("not", ew("or", far, pole))
    value = _kummer(safe(a, near, 1.0), safe(b, near, 1.0), safe(x, near, 0.5))
    value = select(far, _far(safe(a, far, 1.5), safe(b, far, 1.25), safe(x, far, 200.0)), value)
    return select(pole, select(compare(a, 0.0, "EQ"), 1.0, math.inf), value)


_hyp1f1 = differentiable(
    lambda a, b, x: _kummer(a, b, x, 0),
    lambda a, b, x: _kummer(a, b, x, 1),
    lambda a, b, x: a / b * _hyp1f1(a + 1.0, b + 1.0, x),
)(_hyp1f1_forward)


@in_float64
def hyp1f1(a: Any, b: Any, x: Any) -> Tensor:
    """Kummer's confluent hypergeometric function 1F1(a, b, x); NaN where its series loses all digits."""
    return _hyp1f1(a, b, x)


# --- 2F1 ---


def _gauss(a: Tensor, b: Tensor, c: Tensor, x: Tensor, by: int | None = None) -> Tensor:
    """2F1 by its series for 0 <= x < 1, after Pfaff's transformation for x < 0; or its derivative by a, b or c."""
    down = compare(x, 0.0, "LT")
    place = select(down, x / (x - 1.0), x)
    second = select(down, c - b, b)
    front = ew("power", 1.0 - ew("minimum", x, 0.0), -a)
    value = _sum([a, second], [c], place, by)
    if by == 0:
        value = value - ew("log_plus_one", -ew("minimum", x, 0.0)) * _sum([a, second], [c], place)
    elif by == 1:
        value = select(down, -value, value)
    elif by == 2:
        value = value + select(down, _sum([a, second], [c], place, 1), 0.0)
    return select(down, front * value, value)


def _hyp2f1_forward(a: Tensor, b: Tensor, c: Tensor, x: Tensor) -> Tensor:
    ends = ew("or", _natural(a), _natural(b))
    least = select(_natural(a), select(_natural(b), ew("maximum", a, b), a), b)
    pole = _and(_natural(c), ew("not", _and(ends, compare(least, c, "GT"))))
    trivial = functools.reduce(lambda p, q: ew("or", p, q), [compare(v, 0.0, "EQ") for v in (a, b, x)])
    rest = c - a - b
    at_one = _and(compare(x, 1.0, "EQ"), ew("not", ends))
    beyond = _and(compare(x, 1.0, "GT"), ew("not", ends))
    special = functools.reduce(lambda p, q: ew("or", p, q), [pole, trivial, at_one, beyond])
    ok = ew("not", special)
    # Near one the series of Euler's transformation converges sooner where c - a - b < 0.
    euler = _and(ok, compare(x, 0.5, "GT"), compare(x, 1.0, "LT"), compare(rest, 0.0, "LT"), ew("not", ends))
    a_, b_, c_, x_ = safe(a, ok, 1.0), safe(b, ok, 1.0), safe(c, ok, 2.0), safe(x, ok, 0.25)
    value = _gauss(select(euler, c_ - a_, a_), select(euler, c_ - b_, b_), c_, x_)
    grown = ew("power", 1.0 - safe(x, euler, 0.5), safe(rest, euler, -1.0))
    value = select(euler, value * grown, value)
    sure = _and(at_one, compare(rest, 0.0, "GT"))
    c1, r1, a1, b1 = safe(c, sure, 3.0), safe(rest, sure, 1.0), safe(a, sure, 1.0), safe(b, sure, 1.0)
    summed = _gamma(c1) * _gamma(r1) / (_gamma(c1 - a1) * _gamma(c1 - b1))
    value = select(at_one, select(sure, summed, math.inf), value)
    value = select(beyond, math.inf, value)
    return select(trivial, 1.0, select(pole, math.inf, value))


_hyp2f1 = differentiable(
    lambda a, b, c, x: _gauss(a, b, c, x, 0),
    lambda a, b, c, x: _gauss(a, b, c, x, 1),
    lambda a, b, c, x: _gauss(a, b, c, x, 2),
    lambda a, b, c, x: a * b / c * _hyp2f1(a + 1.0, b + 1.0, c + 1.0, x),
)(_hyp2f1_forward)


@in_float64
def hyp2f1(a: Any, b: Any, c: Any, x: Any) -> Tensor:
    """Gauss' hypergeometric function 2F1(a, b, c, x) of real x <= 1; infinite beyond, where it does not end.

    NaN next to 1 and far below 0, where its series does not end in time, and where it loses all digits.
    """
    return _hyp2f1(a, b, c, x)


# --- Owen's T ---


@functools.cache
def _nodes() -> tuple[list[float], list[float]]:
    """Gauss' quadrature of [0, 1]."""
    import numpy as np

    x, w = np.polynomial.legendre.leggauss(48)
    return (0.5 * (x + 1)).tolist(), (0.5 * w).tolist()


def _owens_t_forward(h: Tensor, a: Tensor) -> Tensor:
    size, slope = ew("abs", h), ew("abs", a)
    steep = compare(slope, 1.0, "GT")
    h_ = select(steep, ew("minimum", size * ew("minimum", slope, 1e300), 1e300), size)
    a_ = select(steep, 1.0 / safe(slope, steep, 1.0), slope)
    # Beyond nine standard deviations nothing is left of the integrand.
    end = ew("minimum", a_, 9.0 / ew("maximum", h_, 1.0))
    total = number(0, h)
    for x, w in zip(*_nodes(), strict=True):
        place = 1.0 + (end * x) * (end * x)
        total = total + w * ew("exponential", -0.5 * h_ * h_ * place) / place
    total = total * end / (2 * math.pi)
    near, far = (0.5 * ew("erfc", v / math.sqrt(2)) for v in (size, size * slope))
    far = select(compare(size, 0.0, "EQ"), 0.5, far)
    value = select(steep, 0.5 * (near + far) - near * far - total, total)
    value = select(compare(slope, math.inf, "EQ"), 0.5 * near, value)
    value = select(compare(a, 0.0, "LT"), -value, value)
    return select(ew("or", compare(h, h, "NE"), compare(a, a, "NE")), math.nan, value)


_owens_t = differentiable(
    lambda h, a: (
        -0.5 * ew("exponential", -0.5 * h * h) / math.sqrt(2 * math.pi) * ew("erf", a * h / math.sqrt(2))
    ),
    lambda h, a: ew("exponential", -0.5 * h * h * (1.0 + a * a)) / (2 * math.pi * (1.0 + a * a)),
)(_owens_t_forward)


@in_float64
def owens_t(h: Any, a: Any) -> Tensor:
    """Owen's T function: the probability of X > h and 0 < Y < a X for independent standard normal X and Y."""
    return _owens_t(h, a)


# --- spherical harmonics ---


_MOST_DEGREES = 10**5


def sph_harm_y(
    n: Any, m: Any, theta: Any, phi: Any, diff_n: int | None = None, n_max: int | None = None
) -> Tensor:
    """The spherical harmonic of degree n >= 0 and order m at the polar angle theta and the azimuth phi, complex.

    `n` and `m` are integers; `n_max` is the greatest degree, which may be left out where `n` is known. Zero for |m| > n.
    Differentiable by the angles. NotImplementedError for `diff_n`: take derivatives by `lamina.jvp`.
    """
    if diff_n is not None:
        raise NotImplementedError("sph_harm_y has no diff_n: take derivatives by lamina.jvp or lamina.grad")
    for name, v in (("n", to_tensor(n)), ("m", to_tensor(m))):
        if v.dtype.kind == "c" or (v.dtype.kind == "f" and _core.forceable(v) and (numpy(v) % 1 != 0).any()):
            raise TypeError(f"sph_harm_y: {name} is an integer, not {v}")
    degree, order = (astype(to_tensor(v), "int32") for v in (n, m))
    beside = [v for v in (n, m) if to_tensor(v).dtype.kind == "f"]
    x, turn, *_ = promote_inexact(theta, phi, *beside)
    own = "float64" if "float64" in (x.dtype, turn.dtype) else "float32"
    degree, order, x, turn = broadcast_all(degree, order, astype(x, "float64"), astype(turn, "float64"))
    if n_max is None:
        if not _core.forceable(degree):
            raise TypeError("sph_harm_y needs n_max where the degrees n are not known: the greatest of them")
        n_max = int(numpy(degree).max(initial=0))
    if operator.index(n_max) > _MOST_DEGREES:
        raise ValueError(f"sph_harm_y goes up degree by degree, to {_MOST_DEGREES} at most, not {n_max}")
    size = ew("abs", order)
    sine, cosine = ew("abs", ew("sine", x)), ew("cosine", x)
    top = number(0.5 / math.sqrt(math.pi), x)
    for k in range(1, int(n_max) + 1):
        top = select(compare(size, k, "GE"), -math.sqrt((2 * k + 1) / (2 * k)) * sine * top, top)
    value, before = top, number(0, x)
    square = astype(size, "float64") * astype(size, "float64")
    for k in range(1, int(n_max) + 1):
        going = _and(compare(size, k, "LT"), compare(degree, k, "GE"))
        room = safe(k * k - square, going, 1.0)
        last = ew("maximum", (k - 1) ** 2 - square, 0.0)
        up = ew("sqrt", (4.0 * k * k - 1) / room) * (
            cosine * value - ew("sqrt", last / abs(4.0 * (k - 1) ** 2 - 1)) * before
        )
        value, before = select(going, up, value), select(going, value, before)
    odd = compare(ew("remainder", order, 2), 0, "NE")
    value = select(_and(compare(order, 0, "LT"), odd), -value, value)
    value = select(compare(size, degree, "GT"), 0.0, value)
    angle = astype(order, "float64") * turn
    out = ew("complex", value * ew("cosine", angle), value * ew("sine", angle))
    return astype(out, "complex128" if own == "float64" else "complex64")


__all__ = ["hyp1f1", "hyp2f1", "owens_t", "sph_harm_y"]
