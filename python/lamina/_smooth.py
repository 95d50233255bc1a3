"""Functions that are smooth where the pieces they are computed from are not.

A piece is chosen with `select`, never with maximum or abs, whose derivative rules share a tie or take a side: since
both branches are the same function of the operands, derivatives of every order are right at the tie too.
"""

from __future__ import annotations

import math

from lamina import _core
from lamina._core import Tensor

_ew = _core.elementwise


def log_add_exp(x: Tensor, y: Tensor) -> Tensor:
    """log(exp(x) + exp(y)) of Tensors of one float or complex type, without overflow.

    Equal infinities give themselves, and the derivative 1/2 by each; of complex numbers it is the principal value.
    """
    if x.dtype.kind == "c":
        return _log_add_exp_complex(x, y)
    first = x >= y
    large, small = _ew("select", first, x, y), _ew("select", first, y, x)
    infinite = (x == y) & ~_ew("is_finite", x)
    gap = _ew("select", infinite, -1.0, small - large)
    smooth = large + _ew("log_plus_one", _ew("exponential", gap))
    return _ew("select", infinite, _ew("maximum", x, y), smooth)


def _log_add_exp_complex(x: Tensor, y: Tensor) -> Tensor:
    first = _ew("real", x) >= _ew("real", y)
    large, other = _ew("select", first, x, y), _ew("select", first, y, x)
    # Equal numbers may be infinities, which have no difference.
    apart = _ew("select", x == y, 0.0, other - large)
    out = large + _ew("log_plus_one", _ew("exponential", apart))
    nothing = _ew("real", large) == -math.inf
    return principal_log(_ew("select", nothing, large, out))


def principal_log(x: Tensor) -> Tensor:
    """The logarithm of exp(x), of complex numbers, whose angle is in [-pi, pi)."""
    angle = _ew("imag", x)
    turns = _ew("floor", (angle + math.pi) / (2 * math.pi))
    wrapped = _ew("complex", _ew("real", x), angle - turns * (2 * math.pi))
    return _ew("select", turns == 0.0, x, wrapped)


def log_one_plus_exp(x: Tensor) -> Tensor:
    """log(1 + exp(x)), without overflow."""
    positive = x > 0
    return _ew("select", positive, x, 0.0) + _ew(
        "log_plus_one", _ew("exponential", _ew("select", positive, -x, x))
    )
