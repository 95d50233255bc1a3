"""Ops of `lamina.lax` that move elements by run-time indices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from lamina import _bounds, _core, dtypes
from lamina._core import Tensor
from lamina.lax import _elementwise as ew
from lamina.lax._base import axis_of, const, describe, ints, limit, monoid, op, replacing, to_tensor
from lamina.lax._reduce import scalar_region
from lamina.lax._shape import (
    concatenate,
    expand_dims,
    full,
    index_in_dim,
    pad,
    reshape,
    slice_in_dim,
    squeeze,
)


class GatherDimensionNumbers(NamedTuple):
    """How gather reads: see StableHLO; index vectors are along the last dimension of the indices."""

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """How scatter writes: see StableHLO; index vectors are along the last dimension of the indices."""

    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


class GatherScatterMode:
    """What happens to indices out of range."""

    CLIP = "clip"
    FILL_OR_DROP = "fill"
    PROMISE_IN_BOUNDS = "promise_in_bounds"


def _mode(mode: str | None) -> str:
    if mode is None or mode in ("fill", "drop"):
        return "fill"
    if mode in ("clip", "promise_in_bounds"):
        return mode
    raise ValueError(f"mode {mode!r} is not clip, fill, drop or promise_in_bounds")


def _start(index: Any, size: int, from_end: bool) -> Tensor:
    """A start index as an integer scalar, where negative numbers count from the end if `from_end` says so."""
    if isinstance(index, int):
        if index < 0 and not from_end:
            raise ValueError(
                f"the start index {index} is out of bounds for a dimension of size {size}, as allow_negative_indices is "
                "False for it"
            )
        return const(index + size if index < 0 else index, "int32" if abs(index) + size < 2**31 else "int64")
    i = to_tensor(index)
    if i.shape != () or i.dtype.kind not in "iu":
        raise TypeError(f"start indices are integer scalars, not {describe(i)}")
    if i.dtype.kind == "u" or not from_end:
        return i
    return _core.elementwise("select", ew.lt(i, const(0, i.dtype)), i + const(size, i.dtype), i)


def _starts(indices: Any, t: Tensor, from_end: bool | Sequence[bool]) -> list[Tensor]:
    parts = indices
    if isinstance(indices, Tensor) and indices.ndim == 1:
        parts = [index_in_dim(indices, i, 0, False) for i in range(indices.shape[0])]
    if len(parts) != t.ndim:
        raise ValueError(f"{describe(t)} needs {t.ndim} start indices, not {len(parts)}")
    ends = [from_end] * t.ndim if isinstance(from_end, bool) else list(from_end)
    if len(ends) != t.ndim:
        raise ValueError(
            f"allow_negative_indices has {len(ends)} entries, but {describe(t)} has {t.ndim} dimensions"
        )
    starts = [_start(i, n, e) for i, n, e in zip(parts, t.shape, ends, strict=True)]
    kinds = {str(s.dtype) for s in starts}
    return starts if len(kinds) <= 1 else [ew.convert_element_type(s, "int64") for s in starts]


def dynamic_slice(
    operand: Any,
    start_indices: Any,
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool | Sequence[bool] = True,
) -> Tensor:
    """The part of these sizes at run-time start indices, moved to fit.

    Negative indices count from the end, unless allow_negative_indices is False (for all dimensions, or for each): they
    are moved to 0 then.
    """
    t, sizes = to_tensor(operand), ints(slice_sizes)
    starts = _starts(start_indices, t, allow_negative_indices)
    _recorded(starts, t.shape, sizes)
    return op("dynamic_slice", t, *starts, slice_sizes=sizes)


def _recorded(starts: Sequence[Tensor], shape: Sequence[int], sizes: Sequence[int]) -> None:
    if _bounds.recording():
        for axis, (start, taken) in enumerate(zip(starts, sizes)):
            _bounds.recorded(start, taken, tuple(shape), axis)


def dynamic_slice_in_dim(
    operand: Any, start_index: Any, slice_size: int, axis: int = 0, *, allow_negative_indices: bool = True
) -> Tensor:
    """dynamic_slice along one dimension."""
    t = to_tensor(operand)
    axis = axis_of(axis, t.ndim)
    starts: list[Any] = [0] * t.ndim
    starts[axis] = start_index
    sizes = list(t.shape)
    sizes[axis] = slice_size
    return dynamic_slice(t, starts, sizes, allow_negative_indices=allow_negative_indices)


def dynamic_index_in_dim(
    operand: Any, index: Any, axis: int = 0, keepdims: bool = True, *, allow_negative_indices: bool = True
) -> Tensor:
    """One element along a dimension."""
    part = dynamic_slice_in_dim(operand, index, 1, axis, allow_negative_indices=allow_negative_indices)
    return part if keepdims else squeeze(part, (axis,))


def dynamic_update_slice(
    operand: Any, update: Any, start_indices: Any, *, allow_negative_indices: bool | Sequence[bool] = True
) -> Tensor:
    """The operand with `update` written at run-time start indices, moved to fit, as in dynamic_slice."""
    t, u = to_tensor(operand), to_tensor(update)
    if u.weak_type and u.dtype != t.dtype:
        u = ew.convert_element_type(u, t.dtype)
    starts = _starts(start_indices, t, allow_negative_indices)
    _recorded(starts, t.shape, u.shape)
    return op("dynamic_update_slice", t, u, *starts)


def dynamic_update_slice_in_dim(
    operand: Any, update: Any, start_index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Tensor:
    """dynamic_update_slice along one dimension."""
    t = to_tensor(operand)
    starts: list[Any] = [0] * t.ndim
    starts[axis_of(axis, t.ndim)] = start_index
    return dynamic_update_slice(t, update, starts, allow_negative_indices=allow_negative_indices)


def dynamic_update_index_in_dim(
    operand: Any, update: Any, index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Tensor:
    """One element along a dimension replaced; the update has that dimension of size 1 or lacks it."""
    t, u = to_tensor(operand), to_tensor(update)
    axis = axis_of(axis, t.ndim)
    part = expand_dims(u, (axis,)) if u.ndim == t.ndim - 1 else u
    return dynamic_update_slice_in_dim(t, part, index, axis, allow_negative_indices=allow_negative_indices)


def _fill_value(t: Tensor, fill_value: Any) -> Tensor:
    if fill_value is not None:
        return const(fill_value, t.dtype)
    if t.dtype.kind in "fc":
        return const(float("nan"), t.dtype)
    return limit(t.dtype, 1 if t.dtype.kind in "ub" else -1)


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | None = None,
    fill_value: Any = None,
) -> Tensor:
    """Slices of the operand at index vectors.

    `mode`: "clip" moves slices to fit, "fill" (the default) gives `fill_value` (NaN, or the smallest integer,
    the largest unsigned one) for slices not wholly inside, "promise_in_bounds" does not check. Where there are no
    index vectors, slices need not fit, as in JAX.
    """
    t, idx, kind = to_tensor(operand), to_tensor(start_indices), _mode(mode)
    n, sizes = GatherDimensionNumbers(*dimension_numbers), ints(slice_sizes)
    if 0 in idx.shape[:-1] and any(s > m for s, m in zip(sizes, t.shape)):
        more = [(0, max(s - m, 0), 0) for s, m in zip(sizes, t.shape)]
        t = pad(t, const(0, t.dtype), more) if len(sizes) == t.ndim else t
    result = op(
        "gather",
        t,
        idx,
        offset_dims=list(n.offset_dims),
        collapsed_slice_dims=list(n.collapsed_slice_dims),
        operand_batching_dims=list(n.operand_batching_dims),
        start_index_map=list(n.start_index_map),
        start_indices_batching_dims=list(n.start_indices_batching_dims),
        index_vector_dim=idx.ndim - 1,
        slice_sizes=sizes,
        indices_are_sorted=indices_are_sorted,
    )
    if kind != "fill" or not n.start_index_map:
        return result
    inside = None
    for k, d in enumerate(n.start_index_map):
        entry = slice_in_dim(idx, k, k + 1, 1, idx.ndim - 1)
        top = t.shape[d] - sizes[d]
        ok = ew.le(entry, const(top, entry.dtype))
        if entry.dtype.kind == "i":
            ok = ok & ew.ge(entry, const(0, entry.dtype))
        inside = ok if inside is None else inside & ok
    inside = reshape(inside, idx.shape[:-1])
    batch = [d for d in range(result.ndim) if d not in n.offset_dims]
    mask = op("broadcast_in_dim", inside, shape=list(result.shape), broadcast_dimensions=batch)
    return _core.elementwise("select", mask, result, _fill_value(t, fill_value))


def _window(t: Tensor, u: Tensor, n: ScatterDimensionNumbers) -> list[int]:
    """The sizes of the update windows along the dimensions that index vectors choose."""
    kept = [d for d in range(t.ndim) if d not in n.inserted_window_dims and d not in n.operand_batching_dims]
    window = dict(zip(kept, (u.shape[d] for d in n.update_window_dims), strict=True))
    return [window.get(d, 1) for d in n.scatter_dims_to_operand_dims]


def _moved_out(idx: Tensor, t: Tensor, u: Tensor, n: ScatterDimensionNumbers) -> Tensor:
    """Index vectors of which those of windows that stick out lead wholly outside: the op drops single elements."""
    windows = _window(t, u, n)
    if all(w <= 1 for w in windows):
        return idx
    idx = ew.convert_element_type(idx, "int64" if idx.dtype in ("uint32", "int64", "uint64") else "int32")
    inside = None
    for k, (d, w) in enumerate(zip(n.scatter_dims_to_operand_dims, windows, strict=True)):
        entry = slice_in_dim(idx, k, k + 1, 1, idx.ndim - 1)
        ok = ew.ge(entry, const(0, entry.dtype)) & ew.le(entry, const(t.shape[d] - w, entry.dtype))
        inside = ok if inside is None else inside & ok
    mask = op("broadcast_in_dim", inside, shape=list(idx.shape), broadcast_dimensions=list(range(idx.ndim)))
    outside = const(max(t.shape[d] for d in n.scatter_dims_to_operand_dims), idx.dtype)
    return _core.elementwise("select", mask, idx, outside)


def _clipped(idx: Tensor, t: Tensor, u: Tensor, n: ScatterDimensionNumbers) -> Tensor:
    """Index vectors moved so that the update windows fit."""
    dims = n.scatter_dims_to_operand_dims
    tops = [t.shape[d] - w for d, w in zip(dims, _window(t, u, n), strict=True)]
    top = concatenate([reshape(const(v, idx.dtype), (1,)) for v in tops], 0)
    top = op("broadcast_in_dim", top, shape=list(idx.shape), broadcast_dimensions=[idx.ndim - 1])
    return _core.elementwise("clamp", const(0, idx.dtype), idx, top)


def _scatter(
    body: Any,
    operand: Any,
    indices: Any,
    updates: Any,
    dimension_numbers: Any,
    indices_are_sorted: bool,
    unique_indices: bool,
    mode: str | None,
) -> Tensor:
    t, idx, u = to_tensor(operand), to_tensor(indices), to_tensor(updates)
    n = ScatterDimensionNumbers(*dimension_numbers)
    if u.weak_type and u.dtype != t.dtype:
        u = ew.convert_element_type(u, t.dtype)
    if n.scatter_dims_to_operand_dims and _mode(mode) != "promise_in_bounds":
        idx = (_clipped if _mode(mode) == "clip" else _moved_out)(idx, t, u, n)
    return op(
        "scatter",
        t,
        idx,
        u,
        update_window_dims=list(n.update_window_dims),
        inserted_window_dims=list(n.inserted_window_dims),
        input_batching_dims=list(n.operand_batching_dims),
        scatter_indices_batching_dims=list(n.scatter_indices_batching_dims),
        scatter_dims_to_operand_dims=list(n.scatter_dims_to_operand_dims),
        index_vector_dim=idx.ndim - 1,
        indices_are_sorted=indices_are_sorted,
        unique_indices=unique_indices,
        body=body(str(t.dtype)),
    )


def _scatter_function(name: str, body: Callable[[str], Any], doc: str) -> Callable[..., Tensor]:
    def f(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | None = None,
    ) -> Tensor:
        return _scatter(
            body,
            operand,
            scatter_indices,
            updates,
            dimension_numbers,
            indices_are_sorted,
            unique_indices,
            mode,
        )

    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc + ' Updates not wholly in range are dropped; with mode "clip" they are moved to fit.'
    return f


scatter = _scatter_function("scatter", replacing, "The operand with updates written at index vectors.")
scatter_add = _scatter_function("scatter_add", lambda d: monoid("add", d), "Updates added at index vectors.")
scatter_mul = _scatter_function("scatter_mul", lambda d: monoid("multiply", d), "Updates multiplied in.")
scatter_min = _scatter_function(
    "scatter_min", lambda d: monoid("minimum", d), "The smaller of element and update."
)
scatter_max = _scatter_function(
    "scatter_max", lambda d: monoid("maximum", d), "The larger of element and update."
)


def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | None = None,
) -> Tensor:
    """`func` of the elements at index vectors in place of them."""

    t = to_tensor(operand)

    def body(dtype: str) -> Any:
        return scalar_region("scatter_apply", lambda p: func(p[0]), [(dtype, [], False)] * 2, 1)

    return _scatter(
        body,
        t,
        scatter_indices,
        full(update_shape, 0, t.dtype),
        dimension_numbers,
        indices_are_sorted,
        unique_indices,
        mode,
    )


def rng_bit_generator(
    key: Any, shape: Sequence[int], dtype: Any = "uint32", algorithm: str = "THREE_FRY"
) -> tuple[Tensor, Tensor]:
    """(new state, random bits) from the Threefry state uint64[2] (key, counter), or its halves uint32[4]."""
    given = to_tensor(key)
    halves = given.dtype == "uint32"
    if halves and given.shape != (4,):
        raise ValueError(f"a state is uint32[4] or uint64[2], not {describe(given)}")
    state, bits = _core.op(
        "rng_bit_generator",
        [ew.bitcast_convert_type(reshape(given, (2, 2)), "uint64") if halves else given],
        rng_algorithm=algorithm,
        dtype=dtypes.name_of(dtype),
        shape=ints(shape),
    )
    return reshape(ew.bitcast_convert_type(state, "uint32"), (4,)) if halves else state, bits
