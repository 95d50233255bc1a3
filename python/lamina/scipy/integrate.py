"""Of scipy.integrate: trapezoid."""

from __future__ import annotations

from typing import Any

from lamina import _missing, _results
from lamina import numpy as lnp
from lamina._core import Tensor

__all__ = ["trapezoid"]


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """The integral along an axis of values at places `x`, or `dx` apart, by the trapezoidal rule."""
    return lnp.trapezoid(y, x, dx, axis)


_results.own(globals())
__getattr__ = _missing.attributes("lamina.scipy.integrate")
