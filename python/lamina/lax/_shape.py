"""Ops of `lamina.lax` that make arrays and move their elements."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from lamina import _core, _indexing, dtypes
from lamina._core import Tensor
from lamina.lax._base import axes_of, axis_of, const, describe, ints, joined, op, to_tensor

_PySlice = slice


def broadcast_in_dim(operand: Any, shape: Sequence[int], broadcast_dimensions: Sequence[int]) -> Tensor:
    """Dimension i of the operand becomes dimension broadcast_dimensions[i] of `shape`.

    Repeated if of size 1.
    """
    return op(
        "broadcast_in_dim",
        to_tensor(operand),
        shape=ints(shape),
        broadcast_dimensions=ints(broadcast_dimensions),
    )


def broadcast(operand: Any, sizes: Sequence[int]) -> Tensor:
    """The operand repeated along new leading dimensions."""
    t, lead = to_tensor(operand), ints(sizes)
    return broadcast_in_dim(t, [*lead, *t.shape], range(len(lead), len(lead) + t.ndim))


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that arrays of these shapes broadcast to.

    ValueError where they do not, TypeError for what is no shape.
    """
    given = [tuple(ints(s)) for s in shapes]
    for s in given:
        if any(n < 0 for n in s):
            raise TypeError(f"lax.broadcast_shapes: a shape has no negative sizes, as {s} has")
    return _indexing.broadcast_shapes(*given)


def collapse(operand: Any, start_dimension: int, stop_dimension: int | None = None) -> Tensor:
    """Dimensions start..stop-1 joined to one."""
    t = to_tensor(operand)
    start, stop, _ = slice_of(start_dimension, stop_dimension, t.ndim)
    return reshape(t, [*t.shape[:start], math.prod(t.shape[start:stop]), *t.shape[stop:]])


def slice_of(start: int | None, stop: int | None, size: int) -> tuple[int, int, int]:
    """Start, stop and step of a Python slice on a dimension of `size`."""
    return _PySlice(start, stop).indices(size)


def concatenate(operands: Sequence[Any], dimension: int) -> Tensor:
    """Arrays joined along one dimension; the other sizes and the element types are equal."""
    tensors = [to_tensor(x) for x in operands]
    if not tensors:
        raise ValueError("lax.concatenate needs at least one array")
    if len(tensors) == 1:
        return tensors[0]
    return op("concatenate", *tensors, dimension=axis_of(dimension, tensors[0].ndim, "dimension"))


def expand_dims(array: Any, dimensions: Sequence[int]) -> Tensor:
    """New dimensions of size 1 at these places of the result."""
    t = to_tensor(array)
    places = axes_of(dimensions, t.ndim + len(ints(dimensions)), "dimensions")
    sizes = iter(t.shape)
    return reshape(t, [1 if i in places else next(sizes) for i in range(t.ndim + len(places))])


def full(shape: Sequence[int], fill_value: Any, dtype: Any = None) -> Tensor:
    """An array of one value; its own element type, weak if it is, or `dtype`."""
    if _core.is_number(fill_value) and dtype is not None:
        value = const(fill_value, dtype)
    else:
        value = to_tensor(fill_value, dtype)
    if value.ndim:
        raise TypeError(f"lax.full needs a scalar, not {describe(value)}")
    weak = dtype is None and value.weak_type
    return _core.set_weak(op("broadcast_in_dim", _core.set_weak(value, False), shape=ints(shape)), weak)


def full_like(x: Any, fill_value: Any, dtype: Any = None, shape: Sequence[int] | None = None) -> Tensor:
    """An array of one value with the shape and element type of x, unless given."""
    t = x if hasattr(x, "shape") and hasattr(x, "dtype") else to_tensor(x)
    return full(t.shape if shape is None else shape, fill_value, t.dtype if dtype is None else dtype)


def iota(dtype: Any, size: int) -> Tensor:
    """0, 1, ..., size - 1."""
    return op("iota", dtype=dtypes.name_of(dtype), shape=ints(size), iota_dimension=0)


def broadcasted_iota(dtype: Any, shape: Sequence[int], dimension: int) -> Tensor:
    """An array of `shape` whose elements are their index along `dimension`."""
    dims = ints(shape)
    return op(
        "iota",
        dtype=dtypes.name_of(dtype),
        shape=dims,
        iota_dimension=axis_of(dimension, len(dims), "dimension"),
    )


def pad(operand: Any, padding_value: Any, padding_config: Sequence[tuple[int, int, int]]) -> Tensor:
    """Elements added before, after and between, per dimension (low, high, interior); negative ones cut."""
    t = to_tensor(operand)
    value = joined(padding_value, t.dtype)
    config = [ints(c, "padding_config") for c in padding_config]
    if len(config) != t.ndim or any(len(c) != 3 for c in config):
        raise ValueError(
            f"lax.pad of {describe(t)} needs {t.ndim} triples (low, high, interior), not {padding_config}"
        )
    if value.weak_type and value.dtype != t.dtype:
        value = _core.elementwise("convert", value, dtype=str(t.dtype))
    return op(
        "pad",
        t,
        value,
        edge_padding_low=[c[0] for c in config],
        edge_padding_high=[c[1] for c in config],
        interior_padding=[c[2] for c in config],
    )


def reshape(operand: Any, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None) -> Tensor:
    """The elements in row-major order (of the dimensions in the order given) in another shape."""
    t = to_tensor(operand)
    if dimensions is not None and list(dimensions) != list(range(t.ndim)):
        t = transpose(t, dimensions)
    sizes = ints(new_sizes)
    if tuple(sizes) == t.shape:
        return t
    return op("reshape", t, shape=sizes)


def rev(operand: Any, dimensions: Sequence[int]) -> Tensor:
    """The order along these dimensions reversed."""
    t = to_tensor(operand)
    return op("reverse", t, dimensions=axes_of(dimensions, t.ndim, "dimensions"))


def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Tensor:
    """The part start..limit-1 of every dimension, each `strides`-th element."""
    t = to_tensor(operand)
    return op(
        "slice",
        t,
        start_indices=ints(start_indices),
        limit_indices=ints(limit_indices),
        strides=[1] * t.ndim if strides is None else ints(strides),
    )


def slice_in_dim(
    operand: Any, start_index: int | None, limit_index: int | None, stride: int = 1, axis: int = 0
) -> Tensor:
    """A slice along one dimension; indices count from the end if negative."""
    t = to_tensor(operand)
    axis = axis_of(axis, t.ndim)
    size = t.shape[axis]
    start = 0 if start_index is None else operator.index(start_index)
    limit = size if limit_index is None else operator.index(limit_index)
    starts, limits, strides = [0] * t.ndim, list(t.shape), [1] * t.ndim
    starts[axis] = start + size if start < 0 else start
    limits[axis] = limit + size if limit < 0 else limit
    strides[axis] = stride
    return slice(t, starts, limits, strides)


def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Tensor:
    """Element `index` along one dimension. IndexError if it is out of range."""
    t = to_tensor(operand)
    axis = axis_of(axis, t.ndim)
    if not -t.shape[axis] <= index < t.shape[axis]:
        raise IndexError(f"index {index} is out of range for axis {axis} of {describe(t)}")
    index %= t.shape[axis]
    part = slice_in_dim(t, index, index + 1, 1, axis)
    return part if keepdims else squeeze(part, (axis,))


def split(operand: Any, sizes: Sequence[int], axis: int = 0) -> list[Tensor]:
    """Consecutive parts of these sizes along one dimension."""
    t, parts, at = to_tensor(operand), [], 0
    axis = axis_of(axis, t.ndim)
    if sum(sizes) != t.shape[axis]:
        raise ValueError(f"sizes {tuple(sizes)} do not add up to the size {t.shape[axis]} of axis {axis}")
    for n in sizes:
        parts.append(slice_in_dim(t, at, at + n, 1, axis))
        at += n
    return parts


def squeeze(array: Any, dimensions: Sequence[int]) -> Tensor:
    """Without these dimensions, which are of size 1."""
    t = to_tensor(array)
    gone = axes_of(dimensions, t.ndim, "dimensions")
    for d in gone:
        if t.shape[d] != 1:
            raise ValueError(
                f"cannot squeeze dimension {d} of {describe(t)}: its size is {t.shape[d]}, not 1"
            )
    return reshape(t, [n for i, n in enumerate(t.shape) if i not in gone])


def tile(operand: Any, reps: Sequence[int]) -> Tensor:
    """The array repeated reps[i] times along dimension i."""
    t, reps = to_tensor(operand), ints(reps)
    if len(reps) != t.ndim:
        raise ValueError(f"lax.tile of {describe(t)} needs {t.ndim} repetitions, not {len(reps)}")
    shape = [n for r, s in zip(reps, t.shape, strict=True) for n in (r, s)]
    wide = op("broadcast_in_dim", t, shape=shape, broadcast_dimensions=[2 * i + 1 for i in range(t.ndim)])
    return reshape(wide, [r * s for r, s in zip(reps, t.shape, strict=True)])


def transpose(operand: Any, permutation: Sequence[int]) -> Tensor:
    """Dimension permutation[i] becomes dimension i."""
    t, order = to_tensor(operand), ints(permutation, "a permutation")
    if sorted(order) != list(range(t.ndim)):
        raise ValueError(f"{tuple(order)} is not a permutation of the {t.ndim} dimensions of {describe(t)}")
    return t if order == list(range(t.ndim)) else op("transpose", t, permutation=order)
