"""Sorting, searching, counting, comparisons of whole arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _core
from lamina._bounds import checked
from lamina._core import Tensor
from lamina._indexing import At, broadcast, getitem, missing, reshape, scalar, true_places
from lamina._results import recorded
from lamina._tensor import as_type, astype, to_tensor
from lamina.numpy import _elementwise as e
from lamina.numpy._common import (
    as_operands,
    broadcast_shapes,
    canonical_axis,
    compare,
    default_int,
    ew,
    full_of,
    in_place,
    iota,
    items_of,
    op,
    places,
    promote,
    promote_inexact,
    select,
    shape_of,
    with_values,
)
from lamina.numpy._reductions import all as all_
from lamina.numpy._reductions import cumsum
from lamina.numpy._shape import concatenate, flip, moveaxis, ravel, stack

# --- sorting ---


def _before(a: Tensor, b: Tensor) -> Tensor:
    """Whether a sorts before b: NaN last; complex elements by real, then imaginary part."""
    if a.dtype.kind == "c":
        ra, rb = ew("real", a), ew("real", b)
        same = ew("and", ew("not", _before(ra, rb)), ew("not", _before(rb, ra)))
        return ew("or", _before(ra, rb), ew("and", same, _before(ew("imag", a), ew("imag", b))))
    less = compare(a, b, "LT")
    if a.dtype.kind == "f":
        less = ew("or", less, ew("and", compare(b, b, "NE"), compare(a, a, "EQ")))
    return less


@functools.cache
def _sort_region(kinds: tuple[str, ...], keys: int, descending: bool) -> Any:
    """The comparator of rows by the first `keys` operands, in order."""

    def body(p: list[Tensor]) -> list[Tensor]:
        if descending:
            p = [p[i ^ 1] for i in range(len(p))]
        out = _before(p[2 * keys - 2], p[2 * keys - 1])
        for k in range(keys - 2, -1, -1):
            a, b = p[2 * k], p[2 * k + 1]
            tie = ew("and", ew("not", _before(b, a)), out)
            out = ew("or", _before(a, b), tie)
        return [out]

    return _core.region(body, [(d, [], False) for d in kinds for _ in range(2)])


def _sorted(operands: Sequence[Tensor], axis: int, keys: int = 1, descending: bool = False) -> list[Tensor]:
    operands = [_core.set_weak(t, False) for t in operands]
    region = _sort_region(tuple(t.dtype.name for t in operands), keys, descending)
    return _core.op("sort", operands, dimension=axis, is_stable=True, body=region)


def _axis_of(a: Any, axis: int | None) -> tuple[Tensor, int]:
    t = to_tensor(a)
    return (ravel(t), 0) if axis is None else (t, canonical_axis(axis, t.ndim))


def _check_kind(kind: str | None) -> None:
    if kind not in (None, "quicksort", "heapsort", "mergesort", "stable"):
        raise ValueError(f"sort kind is 'quicksort', 'heapsort', 'mergesort' or 'stable', not {kind!r}")


def sort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool = True,
    descending: bool = False,
) -> Tensor:
    """The elements in order along an axis (flattened for None); NaN last. Always stable, whatever the `kind`."""
    _check_kind(kind)
    t, d = _axis_of(a, axis)
    return _core.set_weak(_sorted([t], d, descending=descending)[0], t.weak_type)


def argsort(
    a: Any,
    axis: int | None = -1,
    kind: str | None = None,
    order: None = None,
    *,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Tensor:
    """The positions that sort the elements, int32 (or of `dtype`). Always stable, whatever the `kind`."""
    _check_kind(kind)
    t, d = _axis_of(a, axis)
    return _sorted([t, iota("int32" if dtype is None else dtype, t.shape, d)], d, descending=descending)[1]


def lexsort(keys: Any, axis: int = -1) -> Tensor:
    """The positions that sort by several keys, the last one first in rank."""
    ts = list(keys) if not isinstance(keys, Tensor) else [getitem(keys, i) for i in range(keys.shape[0])]
    ts = [to_tensor(k) for k in ts]
    if not ts:
        raise TypeError("lexsort needs at least one key")
    if any(t.shape != ts[0].shape for t in ts):
        raise ValueError(f"lexsort needs keys of one shape, not {[t.shape for t in ts]}")
    if ts[0].ndim == 0:
        return scalar(0, "int32")
    d = canonical_axis(axis, ts[0].ndim)
    return _sorted([*ts[::-1], iota("int32", ts[0].shape, d)], d, len(ts))[-1]


def partition(a: Any, kth: int, axis: int = -1) -> Tensor:
    """An order with element kth where sorting puts it (the whole is sorted)."""
    t = to_tensor(a)
    canonical_axis(kth, t.shape[canonical_axis(axis, t.ndim)])
    return sort(t, axis)


def argpartition(a: Any, kth: int, axis: int = -1) -> Tensor:
    """The positions of `partition`."""
    t = to_tensor(a)
    canonical_axis(kth, t.shape[canonical_axis(axis, t.ndim)])
    return argsort(t, axis)


def sort_complex(a: Any) -> Tensor:
    """Sorted along the last axis by real, then imaginary part; complex."""
    t = sort(a)
    return (
        t
        if t.dtype.kind == "c"
        else astype(t, "complex128" if t.dtype in ("float64", "int64") else "complex64")
    )


def searchsorted(
    a: Any, v: Any, side: str = "left", sorter: Any = None, *, method: str | None = None
) -> Tensor:
    """Where elements of `v` go into sorted 1-d `a` to keep it sorted, int32; NaN last.

    A binary search in log2(n) steps, each one gather, for every `method` of JAX.
    """
    if side not in ("left", "right"):
        raise ValueError(f"side must be 'left' or 'right', not {side!r}")
    t, v = promote(a, v)
    if t.ndim != 1:
        raise ValueError(f"searchsorted needs a 1-d array to search, not shape {t.shape}")
    if sorter is not None:
        t = getitem(t, to_tensor(sorter))
    n = t.shape[0]
    t, v = _core.set_weak(t, False), _core.set_weak(v, False)
    place = full_of(0, "int32", v.shape)
    if n == 0:
        return place
    step = 1 << (n.bit_length() - 1)
    while step:
        candidate = place + step
        seen = getitem(t, e.clip(candidate - 1, 0, n - 1))
        goes_on = _before(seen, v) if side == "left" else ew("not", _before(v, seen))
        place = select(ew("and", compare(candidate, n, "LE"), goes_on), candidate, place)
        step >>= 1
    return _core.set_weak(place, False)


def digitize(x: Any, bins: Any, right: bool = False, *, method: str | None = None) -> Tensor:
    """The number of the bin each element lies in; `bins` increases or decreases."""
    t, b = promote(x, bins)
    if b.ndim != 1:
        raise ValueError(f"digitize needs 1-d bins, not shape {b.shape}")
    if b.size == 0:
        return full_of(0, "int32", t.shape)
    side = "left" if right else "right"
    up, down = searchsorted(b, t, side), b.size - searchsorted(flip(b), t, side)
    return select(compare(getitem(b, -1), getitem(b, 0), "LT"), down, up)


# --- searching ---


def nonzero(a: Any, *, size: int | None = None, fill_value: Any = 0) -> tuple[Tensor, ...]:
    """Indices of the non-zero elements, one int32 array per dimension.

    With `size` that many (cut, or filled with `fill_value`, a tuple of which has one for each dimension), which also
    works inside a trace; else TypeError there.
    """
    t = to_tensor(a)
    if t.ndim == 0:
        raise ValueError("nonzero needs at least one dimension; use atleast_1d")
    if size is None:
        values = _core.value_of(with_values(t, "nonzero"))
        return tuple(astype(i, "int32") for i in true_places(compare(values, 0, "NE")))
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value,) * t.ndim
    if len(fills) != t.ndim:
        raise ValueError(f"nonzero: fill_value has {len(fills)} entries for {t.ndim} dimensions")
    mask = ravel(e.logical_or(t, False))
    counts = cumsum(mask)
    flat = searchsorted(counts, iota("int32", [size], 0) + 1)
    inside = compare(flat, t.size, "LT")
    out, rest = [], flat
    for n, fill in zip(t.shape[::-1], fills[::-1]):
        rest, index = ew("divide", rest, max(n, 1)), ew("remainder", rest, max(n, 1))
        out.append(select(inside, index, 0 if fill is None else fill))
    return tuple(out[::-1])


def flatnonzero(a: Any, *, size: int | None = None, fill_value: int | None = 0) -> Tensor:
    """Indices of the non-zero elements of the flattened array."""
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(a: Any, *, size: int | None = None, fill_value: int | None = 0) -> Tensor:
    """Indices of the non-zero elements as rows."""
    t = to_tensor(a)
    if t.ndim == 0:
        t = reshape(t, (1,))
        return getitem(stack(nonzero(t, size=size, fill_value=fill_value), 1), (slice(None), slice(0, 0)))
    return stack(nonzero(t, size=size, fill_value=fill_value), 1)


def extract(condition: Any, arr: Any, *, size: int | None = None, fill_value: Any = 0) -> Tensor:
    """The elements where the condition is non-zero, flattened. With `size` as `compress`."""
    return compress(condition, ravel(arr), size=size, fill_value=fill_value)


def compress(
    condition: Any,
    a: Any,
    axis: int | None = None,
    out: Any = None,
    *,
    size: int | None = None,
    fill_value: Any = 0,
) -> Tensor:
    """The slices along an axis where the 1-d condition is non-zero.

    With `size` that many, cut or filled with `fill_value`, which also works inside a trace; else TypeError there.
    """
    t, d = _axis_of(a, axis)
    if size is None:
        (index,) = nonzero(ravel(condition))
        if index.size and int(index[-1]) >= t.shape[d]:
            raise IndexError(f"index {int(index[-1])} is out of bounds for axis {d} with size {t.shape[d]}")
        return getitem(t, (*(slice(None),) * d, index))
    n = t.shape[d]
    (index,) = nonzero(ravel(condition), size=size, fill_value=n)
    there = compare(index, n, "LT")
    found = getitem(t, (*(slice(None),) * d, select(there, index, 0)))
    return select(reshape(there, [size, *[1] * (t.ndim - d - 1)]), found, as_type(fill_value, t.dtype))


def take(
    a: Any,
    indices: Any,
    axis: int | None = None,
    out: Any = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Any = None,
) -> Tensor:
    """Slices at `indices` along an axis (flattened without one).

    IndexError for indices out of range that are known; inside `jit` and `vmap` they give `fill_value` (NaN, or the
    least integer). `mode` "fill" gives it everywhere, "clip" and "wrap" take another element. `unique_indices` and
    `indices_are_sorted` change no result.
    """
    t, d = _axis_of(a, axis)
    indices = places(indices)
    if e._is_bool(indices) or (isinstance(indices, (list, tuple)) and to_tensor(indices).dtype == "bool"):
        indices = astype(to_tensor(indices), "int32")  # numbers, and no mask
    key: tuple[Any, ...] = (slice(None),) * d
    if mode not in (None, "fill", "clip", "wrap", "raise"):
        raise ValueError(f"mode must be 'fill', 'clip', 'wrap' or 'raise', not {mode!r}")
    if mode == "wrap":
        return getitem(t, (*key, e.remainder(indices, t.shape[d])))
    if mode == "clip":
        return getitem(t, (*key, e.clip(to_tensor(indices), 0, t.shape[d] - 1)))
    if mode == "fill":
        return At(t)[(*key, indices)].get(mode="fill", fill_value=fill_value)
    if not isinstance(indices, Tensor):
        import numpy as np

        if hasattr(indices, "__jax_array__"):
            return take(t, to_tensor(indices), d, mode=mode, fill_value=fill_value)
        return getitem(t, (*key, np.asarray(indices) if not isinstance(indices, int) else indices))
    return _taken(t, checked(indices, t.shape[d], d, shape=t.shape), d, fill_value)


@recorded
def _taken(x: Tensor, indices: Tensor, axis: int, fill_value: Any) -> Tensor:
    return At(x)[(*(slice(None),) * axis, indices)].get(mode="fill", fill_value=fill_value)


def take_along_axis(
    arr: Any,
    indices: Any,
    axis: int | None = -1,
    mode: str | None = None,
    fill_value: Any = None,
    wrap_negative_indices: bool | None = None,
) -> Tensor:
    """For each position of `indices`, the element of `arr` at that index along an axis; other dimensions
    broadcast.

    IndexError for indices out of range that are known; inside `jit` and with mode "fill" they give `fill_value` (NaN,
    or the least integer), with mode "clip" the nearest element. With ``wrap_negative_indices=False`` negative ones are
    out of range.
    """
    t, i = to_tensor(arr), to_tensor(indices)
    if i.dtype.kind not in "iu":
        raise TypeError(f"take_along_axis needs integer indices, not {i.dtype.name}")
    if axis is None:
        t, axis = ravel(t), 0
    d = canonical_axis(axis, t.ndim)
    if i.ndim != t.ndim:
        raise ValueError(f"take_along_axis needs indices with {t.ndim} dimensions, not shape {i.shape}")
    n = t.shape[d]
    wrap = wrap_negative_indices is not False
    if mode is None and wrap:
        i = checked(i, n, d, shape=t.shape)
    others = [k for k in range(t.ndim) if k != d]
    lead = broadcast_shapes([t.shape[k] for k in others], [i.shape[k] for k in others])
    sized = lambda m: [*lead[:d], m, *lead[d:]]  # noqa: E731
    t, i = broadcast(t, sized(n)), broadcast(i, sized(i.shape[d]))
    if 0 in i.shape or n == 0:
        if 0 not in i.shape:
            raise IndexError(f"take_along_axis: axis {d} has no elements")
        return full_of(0, t.dtype.name, i.shape)
    i = astype(i, "int64" if i.dtype in ("int64", "uint64", "uint32") else "int32")
    if wrap:
        i = select(compare(i, 0, "LT"), i + n, i)
    out = op(
        "gather",
        [_core.set_weak(t, False), i],
        index_vector_dim=t.ndim,
        slice_sizes=[1] * t.ndim,
        start_index_map=[d],
        collapsed_slice_dims=[d],
        operand_batching_dims=others,
        start_indices_batching_dims=others,
        offset_dims=[],
    )
    if mode == "clip":
        return out
    inside = ew("and", compare(i, 0, "GE"), compare(i, n, "LT"))
    return select(inside, out, as_type(missing(t.dtype) if fill_value is None else fill_value, t.dtype))


def put_along_axis(
    arr: Any, indices: Any, values: Any, axis: int | None, inplace: bool = True, *, mode: str | None = None
) -> Tensor | None:
    """Writes `values` at `indices` along an axis of `arr`; with ``inplace=False`` gives a new array instead.

    IndexError for indices out of range that are known (inside `jit`, they are left out), unless a `mode` as of
    ``at[].set`` says what becomes of them.
    """
    if inplace:
        done = put_along_axis(arr, indices, values, axis, inplace=False, mode=mode)
        return in_place(arr, done, "put_along_axis")
    t, i = to_tensor(arr), to_tensor(indices)
    if axis is None:
        return reshape(put_along_axis(ravel(t), i, values, 0, inplace=False, mode=mode), t.shape)
    d = canonical_axis(axis, t.ndim)
    if mode is None:
        i = checked(i, t.shape[d], d, shape=t.shape)
    shape = [i.shape[k] if k == d else t.shape[k] for k in range(t.ndim)]
    i = broadcast(i, shape)
    grid = [i if k == d else iota("int32", shape, k) for k in range(t.ndim)]
    return At(t)[tuple(grid)].set(values, mode=mode)


def put(a: Any, ind: Any, v: Any, mode: str | None = None, *, inplace: bool = True) -> Tensor | None:
    """Writes `v`, repeated as needed, at flat indices of `a`; with ``inplace=False`` gives a new array instead.

    `mode` says what becomes of indices out of range: "clip", "wrap", or (by default, "raise") IndexError where they
    are known, and inside `jit` they are left out.
    """
    if inplace:
        return in_place(a, put(a, ind, v, mode, inplace=False), "put")
    if mode not in (None, "raise", "clip", "wrap"):
        raise ValueError(f"mode is 'raise', 'clip' or 'wrap', not {mode!r}")
    t, i = to_tensor(a), ravel(ind)
    values = ravel(as_type(v, t.dtype))
    if values.size == 0:
        return t
    from lamina.numpy._shape import resize

    if mode == "wrap":
        i = e.remainder(i, max(t.size, 1))
    elif mode == "clip":
        i = e.clip(i, 0, max(t.size - 1, 0))
    else:
        i = checked(i, t.size, 0, shape=t.shape)
    return reshape(At(ravel(t))[i].set(resize(values, i.shape)), t.shape)


def select_function(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    """The choice of the first condition that holds, elementwise; else the default."""
    if len(condlist) != len(choicelist) or not condlist:
        raise ValueError(
            f"select needs as many choices as conditions, at least one: {len(condlist)}, {len(choicelist)}"
        )
    out: Any = default
    for c, v in zip(reversed(condlist), reversed(choicelist), strict=False):
        out = e.where(c, v, out)
    return out


def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Tensor:
    """Elements of choices[a], elementwise; `mode` "clip" or "wrap" for indices out of range.

    By default ("raise") ValueError where they are known, and inside `jit` the nearest choice.
    """
    index = to_tensor(a)
    if index.dtype.kind not in "biu":
        raise TypeError(f"choose needs integers that say which, not {index.dtype.name}")
    ts = promote(*choices)
    n = len(ts)
    if mode == "raise":
        try:
            index = checked(index, n, 0, negative=False)
        except IndexError:
            raise ValueError(
                f"choose: an entry of the first array is none of 0..{n - 1}, the {n} choices"
            ) from None
    index = e.remainder(index, n) if mode == "wrap" else e.clip(index, 0, n - 1)
    result = ts[0]
    for k in range(1, n):
        result = select(compare(index, k, "EQ"), ts[k], result)
    return broadcast(result, broadcast_shapes(result.shape, index.shape))


def piecewise(x: Any, condlist: Sequence[Any], funclist: Sequence[Any], *args: Any, **kw: Any) -> Tensor:
    """Functions (or values) of x, each where its condition holds; one more than conditions is the default."""
    t = to_tensor(x)
    funcs = list(funclist)
    if len(funcs) not in (len(condlist), len(condlist) + 1):
        raise ValueError(
            f"piecewise needs {len(condlist)} or {len(condlist) + 1} functions, not {len(funcs)}"
        )
    value = lambda f: f(t, *args, **kw) if callable(f) else f  # noqa: E731
    out: Any = value(funcs.pop()) if len(funcs) > len(condlist) else 0
    out = broadcast(as_type(out, t.dtype), t.shape)
    for c, f in zip(condlist, funcs, strict=False):
        out = select(to_tensor(c), broadcast(as_type(value(f), t.dtype), t.shape), out)
    return out


def _sizes_of(shape: Any) -> tuple[int, ...] | None:
    """The sizes, None where one of a sequence is a number that is being traced."""
    if isinstance(shape, (tuple, list)) and any(
        isinstance(n, Tensor) and n.ndim == 0 and n.dtype.kind in "iu" and not _core.forceable(n)
        for n in shape
    ):
        return None
    return tuple(shape_of(shape))


def unravel_index(indices: Any, shape: Any, order: str = "C") -> tuple[Tensor, ...]:
    """Flat indices as one index per dimension, of which the last runs fastest (`order` "F": the first).

    ValueError for indices out of range that are known; inside `jit` negative ones count from the end, and those outside
    give the first or last element. Sizes may be traced there, one by one. The result has the type of `indices`, of
    which numbers make the default one.
    """
    if order not in ("C", "F"):
        raise ValueError(f"order must be 'C' or 'F', not {order!r}")
    if order == "F":
        return unravel_index(indices, tuple(reversed(items_of(shape))))[::-1]
    given = _integers(indices, "unravel_index")
    flat = astype(given, "int32") if given.dtype.itemsize < 4 else given
    dims = _sizes_of(shape)
    if dims is None:
        dims = tuple(astype(to_tensor(n), flat.dtype) for n in shape)
        rest = flat
    else:
        rest = checked(flat, math.prod(dims), f"an array of shape {dims}", negative=False, error=ValueError)
    out = []
    for n in reversed(dims):
        out.append(e.remainder(rest, n))
        rest = e.floor_divide(rest, n)
    below = rest < -1 if given.dtype.kind == "i" else False
    return tuple(
        astype(e.where(rest > 0, n - 1, e.where(below, 0, i)), given.dtype) for n, i in zip(dims, out[::-1])
    )


def ravel_multi_index(
    multi_index: Sequence[Any],
    dims: Sequence[int],
    mode: str | Sequence[str] = "raise",
    order: str = "C",
    *,
    dtype: Any = None,
) -> Tensor:
    """One index per dimension as flat indices, the last dimension running fastest (`order` "F": the first).

    `mode`, one for all dimensions or one for each, says what becomes of indices out of range: "clip", "wrap", "ignore"
    (they are taken as they are), or ("raise") ValueError where they are known, and inside `jit` the nearest. ValueError
    for another number of indices.
    The result has the element type `dtype`, int32 or int64 by the number of elements without it.
    """
    modes = [mode] * len(dims) if isinstance(mode, str) else list(mode)
    if wrong := [m for m in modes if m not in ("raise", "clip", "wrap", "ignore")]:
        raise ValueError(f"mode must be 'raise', 'clip', 'wrap' or 'ignore', not {wrong[0]!r}")
    if order not in ("C", "F"):
        raise ValueError(f"order must be 'C' or 'F', not {order!r}")
    if not len(multi_index) == len(dims) == len(modes):
        raise ValueError(
            f"ravel_multi_index needs one index and one mode per dimension: {len(multi_index)} indices and "
            f"{len(modes)} modes for {len(dims)} dimensions"
        )
    dims = shape_of(dims)
    given = [_integers(i, "ravel_multi_index") for i in multi_index]
    small = math.prod(dims) < 2**31 and all(i.dtype.itemsize < 4 or i.dtype == "int32" for i in given)
    parts = []
    for k, (i, n, m) in enumerate(zip(given, dims, modes)):
        if m == "raise":
            i = checked(i, n, f"dimension {k}", negative=False, error=ValueError)
        i = astype(i, default_int() if small else "int64")
        parts.append((i if m == "ignore" else e.remainder(i, n) if m == "wrap" else e.clip(i, 0, n - 1), n))
    out: Any = 0
    for i, n in parts if order == "C" else parts[::-1]:
        out = i + out * n
    return out if dtype is None else astype(to_tensor(out), dtype)


def _integers(x: Any, what: str) -> Tensor:
    t = to_tensor(x)
    if t.dtype.kind not in "iu":
        raise TypeError(f"{what} needs integer indices, not {t.dtype.name}")
    return t


def interp(
    x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: float | None = None
) -> Tensor:
    """Linear interpolation of (xp, fp), xp increasing, at x.

    Outside `left` and `right`, without them the outermost values; "extrapolate" goes on along the outermost lines.
    """
    if hasattr(fp, "dtype"):  # integers become floats of the default type, whatever the points are
        (fp,) = promote_inexact(fp)
    x, xp, fp = promote_inexact(x, xp, fp)
    if fp.dtype.kind == "c":
        x, xp = e.real(x), e.real(xp)
    if xp.ndim != 1 or xp.shape != fp.shape or xp.size == 0:
        raise ValueError(f"interp needs 1-d xp and fp of one size, not shapes {xp.shape} and {fp.shape}")
    for side in (left, right):
        if isinstance(side, str) and side != "extrapolate":
            raise ValueError(f"outside, interp gives a value or the line: 'extrapolate', not {side!r}")
    if period is not None:
        if period == 0:
            raise ValueError("period must not be 0")
        period = abs(period)
        x, xp = e.remainder(x, period), e.remainder(xp, period)
        order = argsort(xp)
        xp, fp = getitem(xp, order), getitem(fp, order)
        xp = concatenate([getitem(xp, slice(-1, None)) - period, xp, getitem(xp, slice(0, 1)) + period])
        fp = concatenate([getitem(fp, slice(-1, None)), fp, getitem(fp, slice(0, 1))])
    i = e.clip(searchsorted(xp, x, "right"), 1, max(xp.size - 1, 1))
    at = lambda t, k: getitem(t, e.clip(k, 0, t.size - 1))  # noqa: E731
    x0, f0, f1 = at(xp, i - 1), at(fp, i - 1), at(fp, i)
    step = at(xp, i) - x0
    flat = compare(step, 0, "EQ")
    out = select(flat, f0, f0 + (x - x0) / select(flat, 1.0, step) * (f1 - f0))
    for k, side, beyond in ((0, left, "LT"), (-1, right, "GT")):
        if period is None and not isinstance(side, str):
            value = getitem(fp, k) if side is None else as_type(side, out.dtype)
            out = select(compare(x, getitem(xp, k), beyond), value, out)
    return out


# --- whole arrays ---


def isclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """|a - b| <= atol + rtol * |b|, elementwise; infinities are close to themselves."""
    x, y = promote(a, b)
    if x.dtype.kind in "iu":
        return compare(_distance(x, y), atol + rtol * ew("abs", astype(y, "float64")), "LE")
    if x.dtype.kind == "b":
        x, y = promote_inexact(x, y)
    # A NaN on either side makes the comparison false; an infinite bound must not make it true.
    near = compare(ew("abs", x - y), atol + rtol * ew("abs", y), "LE")
    out = ew("or", compare(x, y, "EQ"), ew("and", near, e.isfinite(y)))
    return ew("or", out, ew("and", e.isnan(x), e.isnan(y))) if equal_nan else out


def _distance(x: Tensor, y: Tensor) -> Tensor:
    """|x - y| of integers, rounded once."""
    if x.dtype.itemsize < 8:
        x, y = astype(x, "int64"), astype(y, "int64")
    gap = select(compare(x, y, "LT"), y - x, x - y)
    return astype(astype(gap, "uint64"), "float64")  # it may have wrapped around in signed integers


def allclose(a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Tensor:
    """Whether all elements are close."""
    return all_(isclose(a, b, rtol, atol, equal_nan))


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Tensor:
    """Whether two arrays have one shape and equal elements."""
    a, b = map(to_tensor, as_operands(a1, a2))
    if a.shape != b.shape:
        return scalar(False, "bool")
    same = e.equal(a, b)
    return all_(ew("or", same, ew("and", e.isnan(a), e.isnan(b))) if equal_nan else same)


def array_equiv(a1: Any, a2: Any) -> Tensor:
    """Whether two arrays broadcast together and are equal then."""
    a, b = map(to_tensor, as_operands(a1, a2))
    try:
        broadcast_shapes(a.shape, b.shape)
    except ValueError:
        return scalar(False, "bool")
    return all_(e.equal(a, b))


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Tensor:
    """func1d of each 1-d slice along an axis; its result's dimensions take the axis's place."""
    t = to_tensor(arr)
    d = canonical_axis(axis, t.ndim)
    t = moveaxis(t, d, -1)
    lead = t.shape[:-1]
    n = math.prod(lead)
    if n == 0:
        raise ValueError(f"apply_along_axis of no slices (shape {to_tensor(arr).shape})")
    flat = reshape(t, (n, t.shape[-1]))
    r = _core.vmap(lambda p: [to_tensor(func1d(p[0], *args, **kwargs))], [flat], [True], n, "")[0][0]
    inner = r.shape[1:]
    r = reshape(r, (*lead, *inner))
    return moveaxis(r, tuple(range(len(lead), r.ndim)), tuple(range(d, d + len(inner)))) if inner else r


__all__ = [
    "allclose",
    "apply_along_axis",
    "argpartition",
    "argsort",
    "argwhere",
    "array_equal",
    "array_equiv",
    "choose",
    "compress",
    "digitize",
    "extract",
    "flatnonzero",
    "interp",
    "isclose",
    "lexsort",
    "nonzero",
    "partition",
    "piecewise",
    "put",
    "put_along_axis",
    "ravel_multi_index",
    "searchsorted",
    "sort",
    "sort_complex",
    "take",
    "take_along_axis",
    "unravel_index",
]
