"""How many elements there are of each kind: integers, and numbers in bins of one or more dimensions."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from lamina import _core
from lamina._core import Tensor
from lamina._indexing import At, getitem, scalar
from lamina._tensor import as_type, astype, to_tensor
from lamina.numpy import _elementwise as e
from lamina.numpy._common import (
    compare,
    default_int,
    full_of,
    host,
    inexact,
    known,
    places,
    promote_inexact,
    select,
)
from lamina.numpy._creation import linspace
from lamina.numpy._reductions import diff
from lamina.numpy._reductions import max as max_
from lamina.numpy._reductions import min as min_
from lamina.numpy._reductions import sum as sum_
from lamina.numpy._shape import concatenate, expand_dims, ravel, reshape, stack
from lamina.numpy._sorting import searchsorted

__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]

# Half the distance of 1 from the next number, of types whose numbers are enough to divide a range.
_ROUNDING = {"float32": 2.0**-24, "float64": 2.0**-53}


def bincount(x: Any, weights: Any = None, minlength: int = 0, *, length: int | None = None) -> Tensor:
    """How often each non-negative integer occurs (or the sum of weights). Inside a trace give `length`."""
    t = to_tensor(places(x))
    if operator.index(minlength) < 0:
        raise ValueError(f"bincount: minlength cannot be negative: {minlength}")
    if t.ndim != 1 or t.dtype.kind not in "biu":
        raise TypeError(f"bincount needs 1-d integers, not {t.dtype.name} of shape {t.shape}")
    if length is None:
        values = host(t, "bincount")
        if values.size and values.min() < 0:
            raise ValueError("bincount needs non-negative integers")
        length = max(operator.index(minlength), int(values.max()) + 1 if values.size else 0)
    w = full_of(1, default_int(), t.shape) if weights is None else _core.set_weak(inexact(weights), False)
    if w.shape != t.shape:
        raise ValueError(
            f"bincount needs one weight for each integer: {w.shape[0] if w.ndim else 1} for {t.size}"
        )
    index = astype(e.clip(t, 0, None), "int32")
    if t.size == 0 or length == 0:
        return full_of(0, w.dtype.name, [length])
    return At(full_of(0, w.dtype.name, [length]))[index].add(w)


def _known_ends(range: Any) -> tuple[float, float] | None:
    """The ends of a range, if both are known while tracing."""
    low, high = (known(v) for v in range)
    return None if low is None or high is None else (float(low), float(high))


def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Tensor:
    """The edges of `histogram`: `bins` equal parts of the range, or the given edges.

    ValueError where they are known not to increase.
    """
    if isinstance(bins, str):
        raise NotImplementedError("histogram needs a number of bins or their edges, not a rule's name")
    b = to_tensor(bins)
    if b.ndim == 1:
        edges = known(bins)
        if edges is not None and (edges[1:] < edges[:-1]).any():
            raise ValueError(f"the edges of bins must increase, unlike {bins!r:.60}")
        return promote_inexact(a, bins)[1] if isinstance(bins, (list, tuple)) else inexact(b)
    t = inexact(ravel(a))
    try:
        bins = operator.index(bins)
    except TypeError:
        raise TypeError(f"histogram needs an integer number of bins or their edges, not {bins!r}") from None
    if bins < 1:
        raise ValueError(f"histogram needs at least 1 bin, not {bins}")
    if range is not None:
        ends = _known_ends(range)
        if ends is not None and not ends[0] <= ends[1]:
            raise ValueError(f"the range of a histogram must increase, unlike {tuple(range)!r:.60}")
        low, high = (as_type(v, t.dtype) for v in range)
    elif t.size == 0:
        low, high = scalar(0, t.dtype.name), scalar(1, t.dtype.name)
    else:
        low, high = min_(t), max_(t)
    flat = compare(low, high, "EQ")
    return linspace(select(flat, low - 0.5, low), select(flat, high + 0.5, high), int(bins) + 1)


def _equal_parts(bins: Any, range: Any, dtype: str) -> tuple[float, float] | None:
    """The lower end of equal bins and how many are one unit, where these tell to a bin where elements lie."""
    if range is None or dtype not in _ROUNDING or getattr(bins, "ndim", 0) or isinstance(bins, (list, tuple)):
        return None
    ends = _known_ends(range)
    if ends is None:
        return None
    low, high = ends
    size, count = high - low, operator.index(bins)
    # Numbers far from the limits of the type, and edges many roundings apart.
    if not 1e-30 < size < 1e30 or size / count < 128 * _ROUNDING[dtype] * max(abs(low), abs(high)):
        return None
    return low, count / size


def _bins_of(t: Tensor, edges: Tensor, bins: Any, range: Any) -> Tensor:
    """The bin of each element, the last one closed; for what lies outside how many there are. `edges` are those of
    `bins` and `range`, two at least."""
    n = edges.size - 1
    parts = _equal_parts(bins, range, t.dtype.name)
    if parts is None:
        place = searchsorted(edges, t, "right") - 1
        last = compare(t, getitem(edges, -1), "EQ")
        return select(last, n - 1, select(compare(place, 0, "LT"), n, place))
    low, per_unit = parts
    # The bin that division says, or one beside it.
    place = e.clip(astype(e.clip((t - low) * per_unit, 0, n - 1), "int32"), 0, n - 1)
    place = place - astype(compare(t, getitem(edges, place), "LT"), "int32")
    place = place + astype(compare(t, getitem(edges, place + 1), "GE"), "int32")
    inside = e.logical_and(compare(t, getitem(edges, 0), "GE"), compare(t, getitem(edges, -1), "LE"))
    return select(inside, e.clip(place, 0, n - 1), n)


def histogram(
    a: Any, bins: Any = 10, range: Any = None, density: bool = False, weights: Any = None
) -> tuple[Tensor, Tensor]:
    """(counts, edges): how many elements (or what weight) lie in each bin, the last one closed; counts are
    floats.
    """
    edges = histogram_bin_edges(a, bins, range)
    t, edges = promote_inexact(a, edges)
    t = ravel(t)
    # Counted in integers: a float32 stays what it is at 2^24.
    w = full_of(1, "int32", t.shape) if weights is None else inexact(ravel(weights))
    n = max(edges.size - 1, 0)
    counts = full_of(0, w.dtype.name, [n])
    if t.size != 0 and n != 0:
        counts = At(counts)[_bins_of(t, edges, bins, range)].add(w)
    counts = astype(counts, edges.real.dtype) if weights is None else counts
    return (counts / diff(edges) / sum_(counts) if density else counts), edges


def histogramdd(
    sample: Any,
    bins: Any = 10,
    range: Sequence[Any] | None = None,
    density: bool = False,
    weights: Any = None,
) -> tuple[Tensor, list[Tensor]]:
    """(counts, edges per dimension) of points [n, d]: how many, or what weight, lie in each box; counts are floats.

    `bins`: a number, or per dimension a number or its edges. `range`: (low, high) or None per dimension.
    """
    points = (
        stack([to_tensor(s) for s in sample], -1) if isinstance(sample, (list, tuple)) else to_tensor(sample)
    )
    if points.ndim != 2:
        raise ValueError(f"histogramdd needs points of shape [n, d], not {points.shape}")
    points, dims = inexact(points), points.shape[1]
    per = list(bins) if isinstance(bins, (list, tuple)) or getattr(bins, "ndim", 0) else [bins] * dims
    if len(per) != dims:
        raise ValueError(f"histogramdd: bins for {len(per)} of {dims} dimensions")
    limits = [None] * dims if range is None else list(range)
    edges, place, inside = [], None, None
    for d, (b, limit) in enumerate(zip(per, limits)):
        x = points[:, d]
        of_x = astype(histogram_bin_edges(x, b, limit), points.dtype)
        n = of_x.size - 1
        at = _bins_of(x, of_x, b, limit)
        ok = compare(at, n, "LT")
        inside = ok if inside is None else e.logical_and(inside, ok)
        place = at if place is None else place * n + at
        edges.append(of_x)
    shape = [of_x.size - 1 for of_x in edges]
    w = full_of(1, "int32", [points.shape[0]]) if weights is None else inexact(ravel(weights))
    cells = math.prod(shape)
    counts = At(full_of(0, w.dtype.name, [cells]))[select(inside, place, cells)].add(w, mode="drop")
    counts = reshape(counts if weights is not None else astype(counts, points.real.dtype), shape)
    if density:
        total = counts.sum()
        for d, of_x in enumerate(edges):
            counts = counts / reshape(diff(of_x), [-1 if k == d else 1 for k, _ in enumerate(shape)])
        counts = counts / total
    return counts, edges


def histogram2d(
    x: Any, y: Any, bins: Any = 10, range: Any = None, density: bool = False, weights: Any = None
) -> tuple[Tensor, Tensor, Tensor]:
    """(counts, x edges, y edges) of points (x, y); see `histogramdd`. Of 3 or more numbers, `bins` is both edges."""
    if getattr(bins, "ndim", 0) or isinstance(bins, (list, tuple)):
        bins = list(bins) if len(bins) in (1, 2) else [bins, bins]  # else the edges of both
        bins = bins * 2 if len(bins) == 1 else bins
    points = concatenate([expand_dims(ravel(x), 1), expand_dims(ravel(y), 1)], 1)
    counts, (first, second) = histogramdd(points, bins, range, density, weights)
    return counts, first, second
