"""Of scipy.integrate: the rules for sampled values, trapezoid, its running form and simpson."""

from __future__ import annotations

from typing import Any

from lamina import _missing, _results
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina.lax import slice_in_dim
from lamina.numpy._common import along, canonical_axis, promote_inexact

__all__ = ["cumulative_trapezoid", "simpson", "trapezoid"]


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """The integral along an axis of values at places `x`, or `dx` apart, by the trapezoidal rule."""
    return lnp.trapezoid(y, x, dx, axis)


def _samples(y: Any, x: Any, dx: Any, axis: int, what: str) -> tuple[Tensor, Tensor, int]:
    """Values, the distances between their places, of as many dimensions, and the axis counted from the front."""
    t, places = promote_inexact(y, dx if x is None else x)
    axis = canonical_axis(axis, t.ndim)
    n = t.shape[axis]
    if n == 0:
        raise ValueError(f"{what} needs at least one value along axis {axis}, not shape {t.shape}")
    if x is None:
        if places.ndim:
            raise ValueError(f"{what}: dx is a number, not of shape {places.shape}; places are given as x")
        return t, lnp.broadcast_to(places, [n - 1 if d == axis else 1 for d in range(t.ndim)]), axis
    if places.shape not in ((n,), t.shape):
        raise ValueError(
            f"{what}: places of shape {places.shape} do not fit values of shape {t.shape}, axis {axis}"
        )
    places = along(places, axis, t.ndim) if places.ndim == 1 else places
    return t, lnp.diff(places, axis=axis), axis


def cumulative_trapezoid(
    y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: float | None = None
) -> Tensor:
    """The integrals up to each place but the first, by the trapezoidal rule; with `initial`, which is 0, from the first.

    ValueError for places that do not fit and for another `initial`.
    """
    t, steps, axis = _samples(y, x, dx, axis, "cumulative_trapezoid")
    if initial not in (None, 0):
        raise ValueError(f"cumulative_trapezoid: initial is None or 0, not {initial!r}")
    pieces = steps * (slice_in_dim(t, 1, None, axis=axis) + slice_in_dim(t, None, -1, axis=axis)) * 0.5
    out = lnp.cumsum(pieces, axis)
    return (
        out
        if initial is None
        else lnp.concatenate([lnp.zeros_like(slice_in_dim(t, 0, 1, axis=axis)), out], axis)
    )


def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """The integral along an axis of values at places `x`, or `dx` apart, by Simpson's rule.

    Of an even number of values the last piece is the integral of the parabola through the last three (Cartwright,
    "Simpson's rule cumulative integration with MS Excel and irregularly-spaced data", J. Math. Sci. Math. Educ. 12,
    2017); two values give the trapezoid. ValueError for places that do not fit.
    """
    t, steps, axis = _samples(y, x, dx, axis, "simpson")
    n = t.shape[axis]
    if n <= 2:
        return lnp.trapezoid(y, x, dx, axis)
    odd = n - 1 + n % 2  # values that pairs of intervals join
    f0, f1, f2 = (slice_in_dim(t, i, odd - 2 + i, 2, axis) for i in range(3))
    h0, h1 = (slice_in_dim(steps, i, odd - 1, 2, axis) for i in range(2))
    both = h0 + h1
    pairs = both / 6 * (f0 * (2 - h1 / h0) + f1 * (both * both / (h0 * h1)) + f2 * (2 - h0 / h1))
    total = lnp.sum(pairs, axis, keepdims=True)
    if n % 2 == 0:
        f0, f1, f2 = (slice_in_dim(t, n - 3 + i, n - 2 + i, axis=axis) for i in range(3))
        h0, h1 = (slice_in_dim(steps, n - 3 + i, n - 2 + i, axis=axis) for i in range(2))
        last = f2 * (2 * h1 * h1 + 3 * h0 * h1) / (6 * (h0 + h1)) + f1 * (h1 * h1 + 3 * h0 * h1) / (6 * h0)
        total = total + last - f0 * h1 * h1 * h1 / (6 * h0 * (h0 + h1))
    return lnp.squeeze(total, axis)


_results.own(globals())
__getattr__ = _missing.attributes("lamina.scipy.integrate")
