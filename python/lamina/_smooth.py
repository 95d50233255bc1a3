"""Functions that are smooth where the pieces they are computed from are not.

A piece is chosen with `select`, never with maximum or abs, whose derivative rules share a tie or take a side: since
both branches are the same function of the operands, derivatives of every order are right at the tie too.
"""

from __future__ import annotations

from lamina import _core
from lamina._core import Tensor

_ew = _core.elementwise


def log_add_exp(x: Tensor, y: Tensor) -> Tensor:
    """log(exp(x) + exp(y)) of Tensors of one float type, without overflow.

    Equal infinities give themselves, and the derivative 1/2 by each.
    """
    first = x >= y
    large, small = _ew("select", first, x, y), _ew("select", first, y, x)
    infinite = (x == y) & ~_ew("is_finite", x)
    gap = _ew("select", infinite, -1.0, small - large)
    smooth = large + _ew("log_plus_one", _ew("exponential", gap))
    return _ew("select", infinite, _ew("maximum", x, y), smooth)


def log_one_plus_exp(x: Tensor) -> Tensor:
    """log(1 + exp(x)), without overflow."""
    positive = x > 0
    return _ew("select", positive, x, 0.0) + _ew(
        "log_plus_one", _ew("exponential", _ew("select", positive, -x, x))
    )
