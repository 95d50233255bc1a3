"""Sets: the different elements of arrays, and what two arrays have in common.

Their sizes depend on values. With `size`, results have that many elements, cut or filled with `fill_value` (the least of
them where it is None; 0 for setdiff1d), which also works inside a trace; without it TypeError there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from lamina import _core
from lamina._core import Tensor
from lamina._indexing import getitem, reshape
from lamina._tensor import as_type, astype, to_tensor
from lamina.numpy import _elementwise as e
from lamina.numpy._common import (
    canonical_axis,
    compare,
    ew,
    full_of,
    host,
    iota,
    promote,
    select,
    with_values,
)
from lamina.numpy._positions import argmax
from lamina.numpy._reductions import any as any_of
from lamina.numpy._reductions import cumsum
from lamina.numpy._shape import concatenate, moveaxis, ravel
from lamina.numpy._sorting import _sorted, argsort, lexsort, nonzero, searchsorted, sort

__all__ = [
    "intersect1d",
    "isin",
    "setdiff1d",
    "setxor1d",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
    sorted: bool = True,
) -> Any:
    """The different elements, sorted (without `sorted` in any order, which is the same), with the positions asked for.

    The positions are int32.

    With `size` that many of them, cut or filled with `fill_value` (the least element where it is None), which also
    works inside a trace; without it TypeError there. With `axis`, slices take the place of elements.
    """
    import numpy as np

    if size is not None:
        out = _unique_of_size(to_tensor(ar), size, fill_value, equal_nan, axis)
        wanted = (True, return_index, return_inverse, return_counts)
        chosen = tuple(o for o, w in zip(out, wanted) if w)
        return chosen if len(chosen) > 1 else chosen[0]
    t = with_values(ar, "unique")
    axis = None if axis is None else canonical_axis(axis, t.ndim)
    computed = _core.value_of(t)
    if not (return_index or return_inverse) and (t.dtype.kind not in "fc" or not _core.differentiated(t)):
        # Elements without a derivative need not be taken from their places.
        if axis is None and t.dtype.kind != "c":
            found, counts = _values_and_counts(computed, equal_nan)
        else:
            arrays = np.unique(computed.numpy(), return_counts=True, axis=axis, equal_nan=equal_nan)
            found, counts = (to_tensor(a) for a in arrays)
        return (found, astype(counts, "int32")) if return_counts else found
    values = computed.numpy()
    if axis is None and t.dtype.kind in "fiu":
        found = _places(values, return_inverse, equal_nan)
        wanted = (True, return_inverse, return_counts)
        out = [values, *(o for o, w in zip(found, wanted) if w)]
    else:
        out = np.unique(values, True, return_inverse, return_counts, axis, equal_nan=equal_nan)
    places = [to_tensor(o.astype(np.int32)) for o in out[1:]]
    # The elements are taken where they stand, so that they keep their derivative.
    elements = getitem(ravel(t) if axis is None else t, (*(slice(None),) * (axis or 0), places[0]))
    found = (elements, *(places if return_index else places[1:]))
    return found if len(found) > 1 else elements


def _in_order(values: Any) -> tuple[Any, Any]:
    """The elements of a NumPy vector in ascending order, equal ones in theirs, NaN last, and their places."""
    import numpy as np

    if values.dtype.kind == "c":
        order = np.argsort(values, kind="stable")
        return values[order], order
    ordered, order = _sorted([to_tensor(values), iota("int32", values.shape, 0)], 0)
    return ordered.numpy(), order.numpy()


def _differs(ordered: Tensor, equal_nan: bool) -> Tensor:
    """Which elements differ from those one before along the first axis; the first have none."""
    after, before = getitem(ordered, slice(1, None)), getitem(ordered, slice(None, -1))
    differs = compare(after, before, "NE")
    if equal_nan and ordered.dtype.kind in "fc":
        both = ew("and", compare(after, after, "NE"), compare(before, before, "NE"))
        differs = ew("and", differs, ew("not", both))
    return differs


def _values_and_counts(t: Tensor, equal_nan: bool) -> tuple[Tensor, Tensor]:
    """The different ones of real elements in order, NaN last, the first of those equal; how often each occurs."""
    if t.size == 0:
        return ravel(t), full_of(0, "int32", [0])
    ordered = sort(t, None)
    starts = _core.true_places(concatenate([full_of(True, "bool", [1]), _differs(ordered, equal_nan)]))
    found = getitem(ordered, starts)
    if t.dtype.kind == "f" and bool(any_of(compare(found, 0, "EQ"))):
        # Zeros of both signs are equal, and the sort of values alone tells nothing of which came first.
        flat = ravel(t)
        first = getitem(flat, argmax(compare(flat, 0, "EQ")))
        found = select(compare(found, 0, "EQ"), first, found)
    return found, concatenate([getitem(starts, slice(1, None)), full_of(t.size, "int32", [1])]) - starts


def _places(values: Any, inverse: bool, equal_nan: bool) -> tuple[Any, ...]:
    """Of the different ones of a NumPy array, in order, NaN last: first places, (inverse,) numbers."""
    import numpy as np

    ordered, order = _in_order(values.ravel())
    new = np.ones(len(order), bool)
    new[1:] = ordered[1:] != ordered[:-1]
    if equal_nan and len(order):
        nan = ordered != ordered
        new[1:] &= ~(nan[1:] & nan[:-1])
    starts = np.flatnonzero(new)
    among = np.empty(len(order) if inverse else 0, np.int64)
    if inverse:
        among[order] = np.cumsum(new) - 1
        among = among.reshape(values.shape)
    return order[starts], among, np.diff(starts, append=len(order))


def _unique_of_size(
    t: Tensor, size: int, fill_value: Any, equal_nan: bool, axis: int | None
) -> tuple[Tensor, ...]:
    """(elements, first positions, inverse, counts); places beyond the last have the first's position and count 0."""
    items = ravel(t) if axis is None else moveaxis(t, axis, 0)
    n, rest_shape = items.shape[0], items.shape[1:]
    if n == 0:
        raise ValueError("unique with size needs at least one element to fill with")
    rows = reshape(items, (n, math.prod(rest_shape)))
    # The first column is the first to decide.
    columns = [getitem(rows, (slice(None), i)) for i in range(rows.shape[1])]
    order = lexsort(columns[::-1]) if columns else iota("int32", [n], 0)
    ordered = getitem(rows, order)
    differs = any_of(_differs(ordered, equal_nan), axis=1)
    new = concatenate([full_of(True, "bool", [1]), differs])
    group = cumsum(astype(new, "int32")) - 1
    bounds = nonzero(new, size=size + 1, fill_value=n)[0]
    starts, ends = getitem(bounds, slice(None, -1)), getitem(bounds, slice(1, None))
    inside = compare(starts, n, "LT")
    at = e.clip(starts, 0, n - 1)
    ordered = reshape(ordered, items.shape)
    rest = getitem(ordered, 0) if fill_value is None else as_type(fill_value, t.dtype)
    found = select(reshape(inside, (size, *(1 for _ in rest_shape))), getitem(ordered, at), rest)
    return (
        found if axis is None else moveaxis(found, 0, axis),
        getitem(order, select(inside, at, 0)),
        reshape(getitem(group, argsort(order)), t.shape if axis is None else (n,)),
        ends - starts,
    )


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Tensor
    inverse_indices: Tensor


def unique_values(x: Any, *, size: int | None = None, fill_value: Any = None) -> Tensor:
    """The different elements, sorted."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def unique_all(x: Any, *, size: int | None = None, fill_value: Any = None) -> UniqueAll:
    """The different elements, sorted, their first places, the place of each element among them, and their numbers."""
    t = to_tensor(x)
    values, indices, inverse, counts = unique(
        t, True, True, True, equal_nan=False, size=size, fill_value=fill_value
    )
    return UniqueAll(values, indices, inverse.reshape(t.shape), counts)


def unique_counts(x: Any, *, size: int | None = None, fill_value: Any = None) -> UniqueCounts:
    """The different elements, sorted, and how often each occurs."""
    return UniqueCounts(*unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value))


def unique_inverse(x: Any, *, size: int | None = None, fill_value: Any = None) -> UniqueInverse:
    """The different elements, sorted, and the place of each element among them."""
    t = to_tensor(x)
    values, inverse = unique(t, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueInverse(values, inverse.reshape(t.shape))


def _wanted(name: str, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Elements among which those of the set are, and which of them are."""
    if name in ("intersect1d", "setdiff1d"):
        return a, isin(a, b, invert=name == "setdiff1d")
    both = concatenate([a, b])
    if name == "union1d":
        return both, full_of(True, "bool", both.shape)
    return both, ew("xor", isin(both, a), isin(both, b))


def _set_of_size(name: str, a: Tensor, b: Tensor, size: int, fill_value: Any, assume_unique: bool) -> Tensor:
    elements, wanted = _wanted(name, a, b)
    n = elements.size
    if n == 0:
        return full_of(0 if fill_value is None else fill_value, elements.dtype.name, [size])
    if assume_unique and name == "setdiff1d":  # in its order, as in NumPy
        ordered, first = elements, wanted
    else:
        order = argsort(elements)
        ordered, wanted = getitem(elements, order), getitem(wanted, order)
        differs = compare(getitem(ordered, slice(1, None)), getitem(ordered, slice(None, -1)), "NE")
        end = full_of(True, "bool", [1])
        first = ew("and", wanted, concatenate([end, differs]))
        if (
            assume_unique and name == "setxor1d"
        ):  # once in all, so that what is there twice is dropped as in NumPy
            first = ew("and", concatenate([end, differs]), concatenate([differs, end]))
    (at,) = nonzero(first, size=size, fill_value=n)
    found = getitem(ordered, e.clip(at, 0, n - 1))
    # The least of the set, or of all where the set is empty; 0 for a difference, as in JAX.
    least: Tensor = (
        full_of(0, elements.dtype.name, [])
        if name == "setdiff1d"
        else getitem(ordered, e.clip(getitem(nonzero(first, size=1, fill_value=0)[0], 0), 0, n - 1))
    )
    rest = least if fill_value is None else as_type(fill_value, elements.dtype)
    return select(compare(at, n, "LT"), found, rest)


def _set_places(name: str, values: Any, n: int, assume_unique: bool) -> Any:
    """Where the elements of a set of values[:n] and values[n:], a NumPy array, stand first, in the set's order.

    What `assume_unique` makes of elements that occur more than once is JAX's.
    """
    import numpy as np

    ordered, order = _in_order(values)
    if not order.size:
        return order
    first = order < n
    same = ordered[1:] == ordered[:-1]
    starts = np.flatnonzero(np.append(True, ~same))
    if assume_unique and name == "intersect1d":
        return order[:-1][same]
    if assume_unique and name == "setxor1d":
        return order[np.append(True, ~same) & np.append(~same, True)]
    in_first, in_second = (np.logical_or.reduceat(mask, starts) for mask in (first, ~first))
    if assume_unique and name == "setdiff1d":
        sizes = np.diff(starts, append=order.size)
        return np.sort(order[first & ~np.repeat(in_second, sizes)])
    wanted = {
        "union1d": in_first | in_second,
        "intersect1d": in_first & in_second,
        "setdiff1d": in_first & ~in_second,
        "setxor1d": in_first != in_second,
    }[name]
    # NaN, none of which equals another here, are one element of each array, or of the union.
    nan = np.flatnonzero(ordered[starts] != ordered[starts])
    of_each = [nan[:1]] if name == "union1d" else [nan[mask[nan]][:1] for mask in (in_first, in_second)]
    wanted[np.setdiff1d(nan, np.concatenate(of_each))] = False
    return order[starts[wanted]]


def _set_function(name: str, doc: str) -> Callable[..., Tensor]:
    def f(
        ar1: Any,
        ar2: Any,
        assume_unique: bool = False,
        *,
        size: int | None = None,
        fill_value: Any = None,
    ) -> Tensor:
        a, b = (ravel(t) for t in promote(ar1, ar2))
        # Lists of numbers have no type of their own.
        own = ravel(to_tensor(ar1)) if name == "setdiff1d" and hasattr(ar1, "dtype") else None
        if size is not None:
            chosen = _set_of_size(name, a, b, size, fill_value, assume_unique)
            return chosen if own is None else astype(chosen, own.dtype)
        both = concatenate([a, b])
        # The elements are taken where they stand first, so that they keep their derivative.
        places = _set_places(name, host(both, name, places=True), a.size, assume_unique)
        return getitem(both if own is None else own, to_tensor(places.astype("int32")))

    f.__name__ = f.__qualname__ = name
    f.__doc__ = f"{doc}, sorted. TypeError inside a trace, unless `size` is given."
    return f


_intersect = _set_function("intersect1d", "The elements in both arrays")
setdiff1d = _set_function("setdiff1d", "The elements of the first array that are not in the second")
setxor1d = _set_function("setxor1d", "The elements in exactly one of two arrays")
union1d = _set_function("union1d", "The elements in either array")


def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The elements in both arrays, sorted. TypeError inside a trace, unless `size` is given.

    With `return_indices` also where each stands first in either array, flattened; filled places have its size.
    """
    found = _intersect(ar1, ar2, assume_unique, size=size, fill_value=fill_value)
    if not return_indices:
        return found
    a, b = (ravel(t) for t in promote(ar1, ar2))
    count = found.size if size is None else ew("minimum", _count_of_both(a, b), size)
    there = compare(iota("int32", [found.size], 0), count, "LT")
    out = [found]
    for t in (a, b):
        order = argsort(t)
        at = e.clip(searchsorted(getitem(t, order), found), 0, t.size - 1)
        out.append(select(there, getitem(order, at), t.size))
    return tuple(out)


def _count_of_both(a: Tensor, b: Tensor) -> Tensor:
    ordered = sort(a)
    differs = compare(getitem(ordered, slice(1, None)), getitem(ordered, slice(None, -1)), "NE")
    first = concatenate([full_of(True, "bool", [1]), differs])
    return astype(getitem(cumsum(astype(ew("and", first, isin(ordered, b)), "int32")), -1), "int32")


def isin(
    element: Any,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str | None = None,
) -> Tensor:
    """Whether each element is among `test_elements`."""
    t, pool = promote(element, test_elements)
    pool = ravel(pool)
    if pool.size == 0:
        return full_of(invert, "bool", t.shape)
    pool = sort(pool)
    found = getitem(pool, e.clip(searchsorted(pool, t), 0, pool.size - 1))
    return compare(found, t, "NE" if invert else "EQ")
