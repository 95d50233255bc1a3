"""Of scipy.ndimage: map_coordinates, with the meaning that jax.scipy gives it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _missing, _results, lax
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina._tensor import to_tensor

__all__ = ["map_coordinates"]


def _mirrored(i: Tensor, size: int) -> Tensor:
    period = max(2 * (size - 1), 1)
    i = i % period
    return lnp.minimum(i, period - i)


def _reflected(i: Tensor, size: int) -> Tensor:
    i = i % (2 * size)
    return lnp.minimum(i, 2 * size - 1 - i)


# Where an index outside the array leads; `constant` leaves it there.
_MODES: dict[str, Callable[[Tensor, int], Tensor]] = {
    "constant": lambda i, size: lnp.clip(i, 0, size - 1),
    "nearest": lambda i, size: lnp.clip(i, 0, size - 1),
    "wrap": lambda i, size: i % size,
    "mirror": _mirrored,
    "reflect": _reflected,
}


def map_coordinates(
    input: Any, coordinates: Sequence[Any], order: int, mode: str = "constant", cval: Any = 0.0
) -> Tensor:
    """The values of an array at fractional indices, one array of them per dimension, in the array's type.

    `order`: 0 takes the nearest element, 1 interpolates linearly. Beyond the ends, by `mode`: "constant" is `cval` (as
    SciPy's "grid-constant"), "nearest" the last element, "wrap" starts again (SciPy's "grid-wrap"), "mirror" turns back
    at the last element, "reflect" behind it. Differentiable by the array and, for order 1, by the coordinates.
    NotImplementedError for another order or mode, ValueError for another number of coordinates.
    """
    x = to_tensor(input)
    places = [to_tensor(c) for c in coordinates]
    if len(places) != x.ndim:
        raise ValueError(
            f"map_coordinates needs {x.ndim} arrays of coordinates, one per dimension, not {len(places)}"
        )
    if mode not in _MODES:
        raise NotImplementedError(f"map_coordinates has the modes {', '.join(_MODES)}, not {mode!r}")
    if order not in (0, 1):
        raise NotImplementedError(f"map_coordinates has the orders 0 and 1, not {order!r}")

    def nodes(c: Tensor, size: int) -> list[tuple[Tensor, Any, Any]]:
        """Indices near a coordinate, whether each is in the array, and its weight."""
        if order == 0:
            # Halves are rounded away from zero, as C does.
            near = [(c if c.dtype.kind in "iu" else lax.round(c), 1.0)]
        else:
            low = lnp.floor(c)
            near = [(low, 1 - (c - low)), (low + 1, c - low)]
        out = []
        for i, weight in near:
            i = lnp.astype(i, "int32")
            inside = (i >= 0) & (i < size) if mode == "constant" else True
            out.append((_MODES[mode](i, size), inside, weight))
        return out

    outside, total = lnp.asarray(cval, x.dtype), None
    for corner in itertools.product(*[nodes(c, n) for c, n in zip(places, x.shape, strict=True)]):
        value = x[tuple(i for i, _, _ in corner)]
        for _, inside, _ in corner:
            if inside is not True:
                value = lnp.where(inside, value, outside)
        for _, _, weight in corner:
            value = value * weight
        total = value if total is None else total + value
    if total is None:
        return x + 0
    if x.dtype.kind in "iu" and total.dtype.kind == "f":
        total = lax.round(total)
    return lnp.astype(total, x.dtype)


_results.own(globals())
__getattr__ = _missing.attributes("lamina.scipy.ndimage")
