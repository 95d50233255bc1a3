"""Of scipy.interpolate: RegularGridInterpolator, with the meaning that jax.scipy gives it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lamina import _missing
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina.numpy._common import inexact

__all__ = ["RegularGridInterpolator"]


def _known(method: str) -> str:
    if method not in ("linear", "nearest"):
        raise ValueError(f"RegularGridInterpolator has the methods 'linear' and 'nearest', not {method!r}")
    return method


@dataclass(init=False)
class RegularGridInterpolator:
    """Values on a grid as a function of points between, differentiable by the points and the values.

    `points`: a rising or falling 1-d array of two places or more per dimension of the grid; `values` [grid, ...];
    `method` is "linear" or "nearest". Outside the grid it is `fill_value` (NaN), or goes on as at the border where that
    is None. It is a container of its arrays, so that it passes through transforms. ValueError where shapes do not fit;
    NotImplementedError for `bounds_error`, since points may be unknown.

    >>> f = RegularGridInterpolator((x, y), values)
    >>> f(lnp.array([[0.5, 1.5], [2.0, 0.0]]))
    """

    grid: tuple[Tensor, ...]
    values: Tensor
    fill_value: Any
    method: str = field(metadata={"static": True})

    def __init__(
        self,
        points: Sequence[Any],
        values: Any,
        method: str = "linear",
        bounds_error: bool = False,
        fill_value: Any = math.nan,
    ) -> None:
        if bounds_error:
            raise NotImplementedError(
                "bounds_error: points may be unknown; test for NaN, or compare them with the grid"
            )
        self.method = _known(method)
        self.grid, self.values = tuple(to_tensor(p) for p in points), inexact(values)
        self.fill_value = None if fill_value is None else lnp.asarray(fill_value, self.values.dtype)
        sizes = self.values.shape[: len(self.grid)]
        for d, p in enumerate(self.grid):
            if p.ndim != 1 or p.size < 2 or d >= len(sizes) or p.size != sizes[d]:
                raise ValueError(
                    f"axis {d} of the grid has shape {p.shape}, which does not fit values of shape {self.values.shape}"
                )

    def __call__(self, xi: Any, method: str | None = None) -> Tensor:
        """The values at points [..., dimensions], or at a tuple of that many arrays that broadcast."""
        method, n = self.method if method is None else _known(method), len(self.grid)
        if isinstance(xi, tuple):
            x = lnp.stack(lnp.broadcast_arrays(*[to_tensor(v) for v in xi]), -1)
        else:
            x = to_tensor(xi)
            x = x[:, None] if x.ndim == 1 and n == 1 else x
        if x.ndim == 0 or x.shape[-1] != n:
            raise ValueError(f"points of shape {x.shape} for a grid of {n} dimensions")
        near, outside = [], lnp.zeros(x.shape[:-1], bool)
        for d, g in enumerate(self.grid):
            up = lnp.where(g[0] <= g[-1], 1, -1)  # a falling grid is a rising one of the other sign
            c, g = x[..., d] * up, inexact(g) * up
            i = lnp.clip(lnp.searchsorted(g, c) - 1, 0, g.size - 2)
            part = (c - g[i]) / (g[i + 1] - g[i])
            outside = outside | (c < g[0]) | (c > g[-1])
            near.append(
                [(i, 1 - part), (i + 1, part)]
                if method == "linear"
                else [(lnp.where((part < 0.5) | ((part == 0.5) & (up > 0)), i, i + 1), 1.0)]
            )
        rest = (None,) * (self.values.ndim - n)
        total = None
        for corner in itertools.product(*near):
            weight: Any = math.prod(w for _, w in corner)
            value = self.values[tuple(i for i, _ in corner)]
            value = value * (weight[(..., *rest)] if isinstance(weight, Tensor) else weight)
            total = value if total is None else total + value
        if self.fill_value is not None:
            total = lnp.where(outside[(..., *rest)], self.fill_value, total)
        if x.dtype.kind == "f":  # what is NaN is neither near a place nor outside
            total = lnp.where(lnp.any(lnp.isnan(x), -1)[(..., *rest)], math.nan, total)
        return total


__getattr__ = _missing.attributes("lamina.scipy.interpolate")
