"""Functions that move, join, split and repeat elements."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any

from lamina import _core
from lamina._core import Tensor
from lamina._indexing import broadcast, getitem, scalar
from lamina._indexing import reshape as reshape_to
from lamina._tensor import as_type, describe, is_several, to_tensor
from lamina.numpy import _common
from lamina.numpy._common import (
    MOST_ARRAYS,
    canonical_axes,
    canonical_axis,
    items_of,
    op,
    promote,
    shape_of,
    sizes_of,
)


def _kept(x: Tensor, out: Tensor) -> Tensor:
    return _core.set_weak(out, x.weak_type) if x.weak_type else out


def reshape(a: Any, shape: Any, order: str = "C", *, copy: bool | None = None) -> Tensor:
    """The elements in another shape; one size may be -1. ValueError where the counts differ.

    With ``copy=True`` the result may be written while `a` lives, which otherwise raises, since NumPy's would be a view.
    """
    t = to_tensor(a)
    dims = sizes_of(shape)
    if order == "F":
        return transpose(reshape(transpose(t), dims[::-1]))
    if order != "C":
        raise ValueError(f"order must be 'C' or 'F', not {order!r}")
    if dims.count(-1) > 1 or any(n < -1 for n in dims):
        raise ValueError(f"cannot reshape {describe(t)} to {tuple(dims)}: only one size may be -1")
    if -1 in dims:
        rest = math.prod(n for n in dims if n != -1)
        if rest == 0 or t.size % rest:
            raise ValueError(
                f"cannot reshape {describe(t)} to {tuple(dims)}: {t.size} elements do not divide"
            )
        dims[dims.index(-1)] = t.size // rest
    if math.prod(dims) != t.size:
        raise ValueError(f"cannot reshape {describe(t)} with {t.size} elements to {tuple(dims)}")
    return reshape_to(t, dims)


def ravel(a: Any, order: str = "C") -> Tensor:
    """The elements in one dimension."""
    return reshape(a, -1 if to_tensor(a).size else 0, order)


def transpose(a: Any, axes: Any = None) -> Tensor:
    """Dimensions in the order `axes`, by default reversed."""
    t = to_tensor(a)
    if axes is None:
        order = list(range(t.ndim))[::-1]
    else:
        order = [canonical_axis(d, t.ndim) for d in axes]
        if sorted(order) != list(range(t.ndim)):
            raise ValueError(
                f"axes {tuple(axes)} are not a permutation of the {t.ndim} dimensions of {describe(t)}"
            )
    if order == list(range(t.ndim)):
        return t
    return _kept(t, op("transpose", [t], permutation=order))


permute_dims = transpose


def matrix_transpose(x: Any) -> Tensor:
    """The last two dimensions exchanged."""
    t = to_tensor(x)
    if t.ndim < 2:
        raise ValueError(f"matrix_transpose needs at least 2 dimensions, not shape {t.shape}")
    return swapaxes(t, -1, -2)


def swapaxes(a: Any, axis1: int, axis2: int) -> Tensor:
    """Two dimensions exchanged."""
    t = to_tensor(a)
    i, j = canonical_axis(axis1, t.ndim), canonical_axis(axis2, t.ndim)
    order = list(range(t.ndim))
    order[i], order[j] = j, i
    return transpose(t, order)


def moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    """Dimensions moved to other places; the rest keep their order."""
    t = to_tensor(a)
    src = [
        canonical_axis(d, t.ndim) for d in (source if isinstance(source, (tuple, list, range)) else (source,))
    ]
    dst = [
        canonical_axis(d, t.ndim)
        for d in (destination if isinstance(destination, (tuple, list, range)) else (destination,))
    ]
    if len(src) != len(dst) or len(set(src)) != len(src) or len(set(dst)) != len(dst):
        raise ValueError(
            f"moveaxis needs as many different destinations as sources, not {source} and {destination}"
        )
    order = [d for d in range(t.ndim) if d not in src]
    for d, s in sorted(zip(dst, src, strict=False)):
        order.insert(d, s)
    return transpose(t, order)


def rollaxis(a: Any, axis: int, start: int = 0) -> Tensor:
    """Dimension `axis` moved before position `start`."""
    t = to_tensor(a)
    axis = canonical_axis(axis, t.ndim)
    start = start + t.ndim if start < 0 else start
    return moveaxis(t, axis, start - 1 if start > axis else start)


def expand_dims(a: Any, axis: Any) -> Tensor:
    """New dimensions of size 1 at the places `axis` of the result."""
    t = to_tensor(a)
    places = items_of(axis)
    new = canonical_axes(places, t.ndim + len(places))
    rest = iter(t.shape)
    return reshape_to(t, [1 if d in new else next(rest) for d in range(t.ndim + len(places))])


def squeeze(a: Any, axis: Any = None) -> Tensor:
    """Dimensions of size 1 left out: all, or those named. ValueError for one of another size."""
    t = to_tensor(a)
    if axis is None:
        return reshape_to(t, [n for n in t.shape if n != 1])
    axes = canonical_axes(axis, t.ndim)
    for d in axes:
        if t.shape[d] != 1:
            raise ValueError(f"cannot squeeze axis {d} of size {t.shape[d]} out of {describe(t)}")
    return reshape_to(t, [n for d, n in enumerate(t.shape) if d not in axes])


def broadcast_to(array: Any, shape: Any) -> Tensor:
    """`array` repeated to `shape` by the broadcasting rule."""
    return broadcast(to_tensor(array), shape_of(shape))


def broadcast_arrays(*args: Any) -> list[Tensor]:
    """The arrays in their common shape."""
    return _common.broadcast_all(*[to_tensor(a) for a in args])


def broadcast_shapes(*shapes: int | Sequence[int]) -> tuple[int, ...]:
    """The shape that all of `shapes` (a number is one of one dimension) broadcast to. ValueError where they do not."""
    given = [tuple(map(operator.index, _common.items_of(s))) for s in shapes]
    if negative := [s for s in given if any(n < 0 for n in s)]:
        raise ValueError(f"a shape has no negative sizes, as {negative[0]} has")
    return _common.broadcast_shapes(*given)


def atleast_1d(*arys: Any) -> Any:
    """Arrays with at least 1 dimension."""
    return _each(arys, lambda t: reshape_to(t, (1,)) if t.ndim == 0 else t)


def atleast_2d(*arys: Any) -> Any:
    """Arrays with at least 2 dimensions, new ones in front."""
    return _each(arys, lambda t: reshape_to(t, (1,) * (2 - t.ndim) + t.shape) if t.ndim < 2 else t)


def atleast_3d(*arys: Any) -> Any:
    """Arrays with at least 3 dimensions: (n,) becomes (1, n, 1) and (m, n) becomes (m, n, 1)."""

    def grow(t: Tensor) -> Tensor:
        if t.ndim == 2:
            return reshape_to(t, (*t.shape, 1))
        return t if t.ndim > 2 else reshape_to(t, (1, t.size, 1))

    return _each(arys, grow)


def _each(arys: Sequence[Any], f: Any) -> Any:
    out = [f(to_tensor(a)) for a in arys]
    return out[0] if len(out) == 1 else out


# --- joining and splitting ---


def _sequence(arrays: Any, name: str, dtype: Any = None, casting: str = "unsafe") -> list[Tensor]:
    if isinstance(arrays, Tensor):
        if arrays.ndim == 0:
            raise ValueError(f"{name} needs a sequence of arrays, not a 0-d Tensor")
        arrays = list(arrays)
    out = list(arrays)
    if not out:
        raise ValueError(f"{name} needs at least one array")
    if dtype is None:
        return promote(*out)
    if casting != "unsafe":
        from lamina.numpy._dtypes import can_cast

        for t in map(to_tensor, out):
            if not t.weak_type and not can_cast(t.dtype, dtype, casting):
                raise TypeError(f"{name} cannot cast {t.dtype.name} to {dtype} by the rule {casting!r}")
    return [as_type(x, dtype) for x in out]


def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None, *, casting: str = "unsafe") -> Tensor:
    """Arrays joined along an axis; None joins them flattened. ValueError where other sizes differ.

    TypeError where NumPy's rule `casting` does not let an array become `dtype`.
    """
    ts = _sequence(arrays, "concatenate", dtype, casting)
    if axis is None:
        ts, axis = [ravel(t) for t in ts], 0
    if ts[0].ndim == 0:
        raise ValueError("0-d arrays cannot be concatenated; use stack")
    axis = canonical_axis(axis, ts[0].ndim)
    for t in ts[1:]:
        if t.ndim != ts[0].ndim or any(
            n != m for d, (n, m) in enumerate(zip(t.shape, ts[0].shape, strict=False)) if d != axis
        ):
            raise ValueError(f"shapes {ts[0].shape} and {t.shape} cannot be concatenated along axis {axis}")
    out = ts[0] if len(ts) == 1 else op("concatenate", ts, dimension=axis)
    return _core.set_weak(out, out.weak_type and dtype is None)


concat = concatenate


def stack(
    arrays: Any, axis: int = 0, out: Any = None, dtype: Any = None, *, casting: str = "unsafe"
) -> Tensor:
    """Arrays of one shape joined along a new axis."""
    ts = _sequence(arrays, "stack", dtype, casting)
    for t in ts:
        if t.shape != ts[0].shape:
            raise ValueError(f"stack needs arrays of one shape, not {ts[0].shape} and {t.shape}")
    axis = canonical_axis(axis, ts[0].ndim + 1)
    return concatenate([expand_dims(t, axis) for t in ts], axis, dtype)


def vstack(tup: Any, dtype: Any = None, *, casting: str = "unsafe") -> Tensor:
    """Arrays joined along the first of at least 2 dimensions."""
    return concatenate([atleast_2d(t) for t in _sequence(tup, "vstack", dtype, casting)], 0, dtype)


def hstack(tup: Any, dtype: Any = None, *, casting: str = "unsafe") -> Tensor:
    """Arrays joined along the second dimension (the first of 1-d arrays)."""
    ts = [atleast_1d(t) for t in _sequence(tup, "hstack", dtype, casting)]
    return concatenate(ts, 0 if ts[0].ndim == 1 else 1, dtype)


def dstack(tup: Any, dtype: Any = None) -> Tensor:
    """Arrays joined along the third of at least 3 dimensions."""
    return concatenate([atleast_3d(t) for t in _sequence(tup, "dstack", dtype)], 2, dtype)


def column_stack(tup: Any) -> Tensor:
    """1-d arrays as columns, 2-d ones as they are, joined along the second dimension."""
    ts = _sequence(tup, "column_stack")
    return concatenate([reshape_to(t, (t.size, 1)) if t.ndim < 2 else t for t in ts], 1)


def block(arrays: Any) -> Tensor:
    """An array of nested lists of blocks: the innermost lists are joined along the last axis."""

    def depth(x: Any) -> int:
        return 1 + max(depth(i) for i in x) if isinstance(x, list) else 0

    levels = depth(arrays)

    def rank(x: Any) -> int:
        return max(rank(i) for i in x) if isinstance(x, list) else to_tensor(x).ndim

    ndim = max(levels, rank(arrays))

    def join(x: Any, level: int) -> Tensor:
        if not isinstance(x, list):
            t = to_tensor(x)
            return reshape_to(t, (1,) * (ndim - t.ndim) + t.shape)
        return concatenate([join(i, level + 1) for i in x], ndim - levels + level)

    return join(arrays, 0)


def append(arr: Any, values: Any, axis: int | None = None) -> Tensor:
    """`values` joined to the end of `arr`; both flattened without an axis."""
    return concatenate([arr, values], axis)


def _number_of_parts(indices_or_sections: Any) -> int | None:
    """None where it is the indices to cut at. MemoryError for more parts than a list of arrays can have."""
    parts = None if is_several(indices_or_sections) else operator.index(indices_or_sections)
    if parts is not None and parts > MOST_ARRAYS:
        raise MemoryError(f"{parts} parts of an array do not fit in memory: {MOST_ARRAYS} at most")
    return parts


def array_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Parts along an axis: so many of nearly equal size, or cut at the given indices."""
    t = to_tensor(ary)
    axis = canonical_axis(axis, t.ndim)
    n = t.shape[axis]
    parts = _number_of_parts(indices_or_sections)
    if parts is None:
        cuts = [0, *[operator.index(i) for i in indices_or_sections], n]
    else:
        if parts <= 0:
            raise ValueError(f"an array is split into at least one part, not {parts}")
        small, extra = divmod(n, parts)
        cuts = [i * small + min(i, extra) for i in range(parts + 1)]
    key = (slice(None),) * axis
    return [getitem(t, (*key, slice(a, b))) for a, b in itertools.pairwise(cuts)]


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """As `array_split`. ValueError where so many equal parts cannot be."""
    t = to_tensor(ary)
    d = canonical_axis(axis, t.ndim)
    parts = _number_of_parts(indices_or_sections)
    if parts and parts > 0 and t.shape[d] % parts:
        raise ValueError(f"axis {d} of size {t.shape[d]} does not divide into {parts} equal parts")
    return array_split(t, indices_or_sections, d)


def vsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    """As `split` along axis 0."""
    return split(ary, indices_or_sections, 0)


def hsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    """As `split` along axis 1 (0 of a 1-d array)."""
    return split(ary, indices_or_sections, 0 if to_tensor(ary).ndim == 1 else 1)


def dsplit(ary: Any, indices_or_sections: Any) -> list[Tensor]:
    """As `split` along axis 2."""
    return split(ary, indices_or_sections, 2)


def unstack(x: Any, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis."""
    t = moveaxis(x, axis, 0)
    return tuple(getitem(t, i) for i in range(t.shape[0]))


# --- repeating and reordering ---


def tile(A: Any, reps: Any) -> Tensor:
    """`A` repeated so many times along each dimension."""
    t = to_tensor(A)
    times = shape_of(reps)
    ndim = max(t.ndim, len(times))
    dims = [1] * (ndim - t.ndim) + list(t.shape)
    times = [1] * (ndim - len(times)) + times
    spread = [n for pair in zip([1] * ndim, dims, strict=False) for n in pair]
    wide = [n for pair in zip(times, dims, strict=False) for n in pair]
    repeated = broadcast(reshape_to(t, spread), wide)
    return reshape_to(repeated, [r * n for r, n in zip(times, dims, strict=True)])


def repeat(
    a: Any, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None
) -> Tensor:
    """Each element (along `axis`, or flattened) repeated. Counts per element must be known, or the total
    given.
    """
    t = to_tensor(a)
    if axis is None:
        t, axis = ravel(t), 0
    if t.ndim == 0:
        t = ravel(t)
    axis = canonical_axis(axis, t.ndim)
    if isinstance(repeats, int) and total_repeat_length is None:
        if repeats < 0:
            raise ValueError(f"repeats cannot be negative: {repeats}")
        spread = [*t.shape[: axis + 1], 1, *t.shape[axis + 1 :]]
        wide = [*t.shape[: axis + 1], repeats, *t.shape[axis + 1 :]]
        out = broadcast(reshape_to(t, spread), wide)
        return reshape_to(out, [*t.shape[:axis], t.shape[axis] * repeats, *t.shape[axis + 1 :]])
    counts = to_tensor(repeats)
    if total_repeat_length is None:
        import numpy as np

        values = _common.host(counts, "repeat")
        return take_along(t, to_tensor(np.repeat(np.arange(t.shape[axis], dtype=np.int32), values)), axis)
    from lamina.numpy._reductions import cumsum
    from lamina.numpy._sorting import searchsorted

    ends = cumsum(broadcast(counts, (t.shape[axis],)))
    where_from = searchsorted(ends, _common.iota("int32", [total_repeat_length], 0), side="right")
    return take_along(t, where_from, axis)


def take_along(t: Tensor, index: Tensor, axis: int) -> Tensor:
    """The slices of `t` at a 1-d index along one axis."""
    return getitem(t, (*(slice(None),) * axis, index))


def flip(m: Any, axis: Any = None) -> Tensor:
    """The order of elements turned round along all or some axes."""
    t = to_tensor(m)
    axes = canonical_axes(axis, t.ndim)
    return t if not axes else _kept(t, op("reverse", [t], dimensions=axes))


def flipud(m: Any) -> Tensor:
    """`flip` along axis 0."""
    return flip(m, 0)


def fliplr(m: Any) -> Tensor:
    """`flip` along axis 1."""
    return flip(m, 1)


def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Tensor:
    """A quarter turn, k times, in the plane of two axes."""
    t = to_tensor(m)
    if t.ndim < 2:
        raise ValueError(f"rot90 turns a plane, of which an array of shape {t.shape} has none")
    i, j = (canonical_axis(a, t.ndim) for a in axes)
    if i == j:
        raise ValueError(f"rot90 needs two different axes, not {axes}")
    k = operator.index(k) % 4
    if k == 0:
        return t
    if k == 2:
        return flip(t, (i, j))
    return swapaxes(flip(t, j), i, j) if k == 1 else flip(swapaxes(t, i, j), j)


def _listed(x: Any) -> list[Any]:
    """Shifts or axes given as one, a sequence or a 1-d array. ValueError for more dimensions."""
    ndim = getattr(x, "ndim", int(is_several(x)))
    if ndim > 1:
        raise ValueError(f"shifts and axes are numbers or 1-d arrays, not of shape {x.shape}")
    return items_of(x)


def roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    """Elements shifted along axes, coming in again at the other end.

    Shifts are integers, which may be Tensors; one for all axes, one per axis, or several for one axis.
    """
    t = to_tensor(a)
    if axis is None:
        return reshape_to(roll(ravel(t), shift, 0), t.shape)
    axes, shifts = _listed(axis), _listed(shift)
    if len(shifts) == 1:
        shifts = shifts * len(axes)
    if len(axes) == 1:
        axes = axes * len(shifts)
    if len(shifts) != len(axes):
        raise ValueError(f"roll needs one shift per axis: {len(shifts)} shifts, {len(axes)} axes")
    for s, d in zip(shifts, axes, strict=False):
        d = canonical_axis(d, t.ndim)
        n = t.shape[d]
        if n == 0:
            continue
        key = (slice(None),) * d
        if isinstance(s, Tensor):
            from lamina.numpy._elementwise import remainder

            t = getitem(t, (*key, remainder(_common.iota("int32", [n], 0) - s, n)))
        elif operator.index(s) % n:
            cut = n - operator.index(s) % n
            t = concatenate([getitem(t, (*key, slice(cut, None))), getitem(t, (*key, slice(None, cut)))], d)
    return t


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The elements where index axis2 - index axis1 is `offset`, as the last dimension."""
    t, offset = to_tensor(a), operator.index(offset)
    if t.ndim < 2:
        raise ValueError(f"diagonal needs at least 2 dimensions, not shape {t.shape}")
    i, j = canonical_axis(axis1, t.ndim), canonical_axis(axis2, t.ndim)
    if i == j:
        raise ValueError("diagonal needs two different axes")
    t = moveaxis(t, (i, j), (-2, -1))
    row, column = max(-offset, 0), max(offset, 0)
    n = max(0, min(t.shape[-2] - row, t.shape[-1] - column))
    index = _common.iota("int32", [n], 0)
    return getitem(t, (Ellipsis, index + row, index + column))


def resize(a: Any, new_shape: Any) -> Tensor:
    """The elements in another shape, repeated from the start or cut as needed."""
    t = ravel(a)
    dims = shape_of(new_shape)
    total = math.prod(dims)
    if t.size == 0 or total == 0:
        return broadcast(scalar(0, t.dtype.name), dims)
    return reshape_to(getitem(tile(t, -(-total // t.size)), slice(0, total)), dims)


def delete(arr: Any, obj: Any, axis: int | None = None, *, assume_unique_indices: bool = False) -> Tensor:
    """`arr` without the slices at known indices `obj`; integers with `assume_unique_indices` may be traced."""
    import numpy as np

    t = to_tensor(arr)
    if axis is None:
        t, axis = ravel(t), 0
    axis = canonical_axis(axis, t.ndim)
    if (
        assume_unique_indices
        and isinstance(obj, Tensor)
        and obj.dtype.kind in "iu"
        and not _core.forceable(obj)
    ):
        from lamina.numpy._sorting import argsort

        n, at = t.shape[axis], ravel(obj)
        if at.size > n:
            raise ValueError(f"delete: {at.size} different indices for {n} slices")
        gone = broadcast(scalar(0, "int32"), (n,)).at[at].set(1)
        return take_along(t, getitem(argsort(gone), slice(0, n - at.size)), axis)
    where = _places(obj, "delete", axis, t.shape[axis], t.shape[axis] - 1)
    left = np.delete(np.arange(t.shape[axis], dtype=np.int32), where)
    return take_along(t, to_tensor(left), axis)


def _places(obj: Any, what: str, axis: int, size: int, last: int) -> Any:
    """Known places along an axis: an integer, a slice, or an array. IndexError for one beyond `last`."""
    import numpy as np

    if isinstance(obj, slice):
        return obj
    where = np.asarray(obj) if isinstance(obj, int) else _common.host(_common.places(obj), what)
    if where.dtype.kind in "iu" and (beyond := where[(where < -size) | (where > last)]).size:
        raise IndexError(f"index {beyond[0]} is out of bounds for axis {axis} with size {size}")
    return where


def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Tensor:
    """`arr` with `values` put in before the indices `obj`: a slice, integers (which may be traced), or a known mask."""
    import numpy as np

    t = to_tensor(arr)
    v = as_type(values, t.dtype)
    if axis is None:
        t, axis = ravel(t), 0
    axis = canonical_axis(axis, t.ndim)
    if isinstance(obj, Tensor) and obj.dtype.kind in "iu" and obj.ndim < 2 and not _core.forceable(obj):
        return _insert_traced(t, obj, v, axis)
    n = t.shape[axis]
    where = _places(obj, "insert", axis, n, n)
    count = int((np.insert(np.arange(n), where, -1) < 0).sum())
    if not isinstance(where, slice) and np.ndim(where) == 0:
        # One place: the values' first dimension lies along the axis.
        v = moveaxis(reshape_to(v, (1,) * (t.ndim - v.ndim) + v.shape), 0, axis)
        count = v.shape[axis]
        where = [int(where)] * count
    fresh = broadcast(v, [count if d == axis else m for d, m in enumerate(t.shape)])
    # The values are in the order of the given places, which need not be that of the result.
    marks = np.insert(np.arange(n), where, n + np.arange(count))
    return take_along(concatenate([t, fresh], axis), to_tensor(marks.astype(np.int32)), axis)


def _insert_traced(t: Tensor, at: Tensor, v: Tensor, axis: int) -> Tensor:
    """`insert` where the places are not known: of the joined array, slices ordered by twice the place they have."""
    from lamina.numpy._sorting import argsort

    n = t.shape[axis]
    if at.ndim == 0:
        v = moveaxis(reshape_to(v, (1,) * (t.ndim - v.ndim) + v.shape), 0, axis)
    count = v.shape[axis] if at.ndim == 0 else at.shape[0]
    fresh = broadcast(v, [count if d == axis else m for d, m in enumerate(t.shape)])
    at = broadcast(_common.select(_common.compare(at, 0, "LT"), at + n, at), (count,))
    own = _common.iota("int32", (n,), 0)
    order = argsort(concatenate([own * 2 + 1, as_type(at, "int32") * 2]))
    return take_along(concatenate([t, fresh], axis), order, axis)


def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Tensor:
    """A known array without the slices of zeros at the front ("f") and back ("b") of the axes, of all without one."""
    import numpy as np

    if not isinstance(trim, str) or set(trim.lower()) - {"f", "b"}:
        raise ValueError(f"trim_zeros: trim is made of 'f' and 'b', not {trim!r}")
    t = to_tensor(filt)
    places = np.nonzero(_common.host(t, "trim_zeros", places=True))
    key = [slice(None)] * t.ndim
    for d in canonical_axes(axis, t.ndim):
        first, last = (int(places[d].min()), int(places[d].max()) + 1) if places[d].size else (t.shape[d], 0)
        key[d] = slice(first if "f" in trim.lower() else 0, last if "b" in trim.lower() else t.shape[d])
    return getitem(t, tuple(key))


__all__ = [
    "append",
    "array_split",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "block",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "column_stack",
    "concat",
    "concatenate",
    "delete",
    "diagonal",
    "dsplit",
    "dstack",
    "expand_dims",
    "flip",
    "fliplr",
    "flipud",
    "hsplit",
    "hstack",
    "insert",
    "matrix_transpose",
    "moveaxis",
    "permute_dims",
    "ravel",
    "repeat",
    "reshape",
    "resize",
    "roll",
    "rollaxis",
    "rot90",
    "split",
    "squeeze",
    "stack",
    "swapaxes",
    "tile",
    "transpose",
    "trim_zeros",
    "unstack",
    "vsplit",
    "vstack",
]
