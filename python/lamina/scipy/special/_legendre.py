"""Associated Legendre functions of the first kind, of all degrees and orders up to one: lpmn and lpmn_values.

By the recurrence over the degree, of normalized functions so that nothing overflows where they are asked for: Holmes,
Featherstone, "A unified approach to the Clenshaw summation" (2002), section 2.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from lamina import _core
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina._tensor import astype, describe
from lamina._transforms import jvp
from lamina.numpy._common import floating

__all__ = ["lpmn", "lpmn_values"]


def _points(m: Any, n: Any, z: Any, what: str) -> tuple[int, Tensor]:
    top, degree, t = operator.index(m), operator.index(n), floating(z, what)
    if top != degree:
        raise NotImplementedError(
            f"{what} takes the same greatest order and degree, not m={top} and n={degree}"
        )
    if top < 0:
        raise ValueError(f"{what} takes degrees from 0 on, not {top}")
    if t.ndim != 1:
        raise ValueError(f"{what} takes a 1-d array of places, not {describe(t)}")
    return top, t


def _table(top: int, z: Tensor, normalized: bool) -> Tensor:
    """[order, degree, place] of float64 places."""
    outside = 1.0 - z * z
    rows, peak = [], math.sqrt(0.25 / math.pi) if normalized else 1.0
    for m in range(top + 1):
        if m:
            peak *= -math.sqrt((2 * m + 1) / (2 * m)) if normalized else -(2 * m - 1)
        # A power, whose derivative at the ends is that of the function.
        value = peak * outside ** (m / 2) if m else lnp.full_like(z, peak)
        before, row = lnp.zeros_like(z), [lnp.zeros_like(z)] * m + [value]
        for n in range(m + 1, top + 1):
            if normalized:
                up = math.sqrt((4 * n * n - 1) / (n * n - m * m))
                back = math.sqrt(((n - 1) ** 2 - m * m) / (4 * (n - 1) ** 2 - 1))
                value, before = up * (z * value - back * before), value
            else:
                value, before = ((2 * n - 1) * z * value - (n + m - 1) * before) / (n - m), value
            row.append(value)
        rows.append(lnp.stack(row))
    return lnp.stack(rows)


def lpmn_values(m: int, n: int, z: Any, is_normalized: bool) -> Tensor:
    """The associated Legendre functions at places ``z [k]``: [m + 1, n + 1, k], order by degree; m is n.

    With the phase (-1)^order. `is_normalized`: times sqrt((2 l + 1) (l - m)! / (4 pi (l + m)!)), the factor of spherical
    harmonics. ValueError for places that are not 1-d, TypeError for complex ones, NotImplementedError where m is not n.
    """
    top, t = _points(m, n, z, "lpmn_values")
    out = _table(top, astype(t, "float64"), bool(is_normalized))
    return _core.set_weak(astype(out, t.dtype.name), t.weak_type)


def lpmn(m: int, n: int, z: Any) -> tuple[Tensor, Tensor]:
    """(values, derivatives) of the associated Legendre functions, of which see `lpmn_values`."""
    top, t = _points(m, n, z, "lpmn")
    wide = astype(t, "float64")
    found = jvp(lambda x: _table(top, x, False), (wide,), (lnp.ones_like(wide),))
    values, slopes = (_core.set_weak(astype(v, t.dtype.name), t.weak_type) for v in found)
    return values, slopes
