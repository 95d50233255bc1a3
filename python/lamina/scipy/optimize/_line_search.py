"""A step along a direction that meets the strong Wolfe conditions.

Nocedal, Wright, "Numerical optimization" (2006), algorithms 3.5 (steps grow until an interval holds a good one) and 3.6
(the interval shrinks), as one loop; trial points by cubic interpolation (equation 3.59), kept off the ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from lamina import lax
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina.tree import tree_map

_ENOUGH, _FLAT = 1e-4, 0.9  # of the first slope: the least descent, the greatest slope at the end
_SHRINKING = 30
_MARGIN = 0.1  # of the interval: how near its ends a trial point may lie


class _Point(NamedTuple):
    """A step, and the function, its slope along the direction and its gradient there."""

    step: Tensor
    value: Tensor
    slope: Tensor
    gradient: Tensor


class Found(NamedTuple):
    step: Tensor
    value: Tensor
    gradient: Tensor
    failed: Tensor
    calls: Tensor


def _choose(condition: Tensor, a: Any, b: Any) -> Any:
    return tree_map(lambda p, q: lnp.where(condition, p, q), a, b)


def _between(low: _Point, high: _Point) -> Tensor:
    """The least place of the cubic through both points, limited to the inside of their interval; else its middle."""
    width = high.step - low.step
    secant = lnp.where(width == 0, 0.0, (low.value - high.value) / lnp.where(width == 0, 1.0, -width))
    d1 = low.slope + high.slope - 3 * secant
    square = d1 * d1 - low.slope * high.slope
    d2 = lnp.sign(width) * lnp.sqrt(lnp.maximum(square, 0.0))
    below = high.slope - low.slope + 2 * d2
    place = high.step - width * (high.slope + d2 - d1) / lnp.where(below == 0, 1.0, below)
    ends = low.step + _MARGIN * width, high.step - _MARGIN * width
    inside = (place > lnp.minimum(*ends)) & (place < lnp.maximum(*ends)) & (square >= 0) & (below != 0)
    return lnp.where(inside, place, low.step + 0.5 * width)


def search(
    both: Callable[[Tensor], tuple[Tensor, Tensor]],
    x: Tensor,
    direction: Tensor,
    value: Tensor,
    gradient: Tensor,
    before: Tensor,
    most: int,
) -> Found:
    """A good step from `x` along `direction`; the best one seen, marked failed, after `most` trials in search of an
    interval, or `_SHRINKING` more in it.

    `both` gives value and gradient; `value` and `gradient` are those at `x`, `before` the value one iteration ago.
    """
    slope = lnp.vdot(gradient, direction)
    # What rounding adds to the value near a minimum (Hager, Zhang, "A new conjugate gradient method with guaranteed
    # descent and an efficient line search", 2005, the approximate condition).
    noise = 4 * lnp.finfo(value.dtype).eps * lnp.abs(value)
    origin = _Point(lnp.zeros_like(value), value, slope, gradient)

    def at(step: Tensor) -> _Point:
        f, g = both(x + step * direction)
        return _Point(step, f, lnp.vdot(g, direction), g)

    def trial(state: Any) -> Any:
        low, high, last, step, bracketed, k = state[:6]
        p = at(step)
        too_high = ~(p.value <= value + _ENOUGH * step * slope + noise)
        good = ~too_high & (lnp.abs(p.slope) <= -_FLAT * slope)
        # Growing: the interval is (last, p) where p is too high, (p, last) where p climbs.
        over = too_high | ((p.value > last.value + noise) & (k > 0))
        grown = (_choose(over, last, p), _choose(over, p, last))
        # Shrinking: p takes the place of the end that it betters.
        worse = too_high | (p.value > low.value + noise)
        turns = ~worse & (p.slope * (high.step - low.step) >= 0)
        shrunk = (_choose(worse, low, p), _choose(worse, p, _choose(turns, low, high)))
        low, high = _choose(bracketed, shrunk, _choose(over | (p.slope >= 0), grown, (p, p)))
        bracketed = bracketed | over | (p.slope >= 0)
        step = lnp.where(bracketed, _between(low, high), 2 * step)
        return low, high, p, step, bracketed, k + 1, good, _choose(good, p, low)

    guess = 2.02 * (value - before) / lnp.where(slope == 0, 1.0, slope)
    first = lnp.where((guess > 0) & (guess < 1), guess, 1.0)
    no = lnp.array(False)
    start = (origin, origin, origin, lnp.astype(first, value.dtype), no, 0, no, origin)
    *_, calls, good, best = lax.while_loop(
        lambda s: ~s[6] & (s[5] < lnp.where(s[4], most + _SHRINKING, most)), trial, start
    )
    return Found(best.step, best.value, best.gradient, ~good, calls)
