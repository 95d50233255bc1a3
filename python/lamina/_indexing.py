"""Indexing as NumPy's: ``x[key]``, ``x[key] = v`` and the functional ``x.at[key].set(v)``.

A key is made of integers, slices, ``...``, ``None``, integer arrays or lists, boolean masks and integer
Tensors, with
NumPy's meaning. Indices known when the op is recorded (Python integers, lists, NumPy arrays) are checked and
raise
IndexError. Indices in a Tensor are only known when the program runs: negative ones count from the end; outside the
range they raise IndexError at the next read, and inside a trace a read takes the nearest element and a write is left
out. Boolean masks need their values, so they are
refused
inside a jit or vmap, except for writing a scalar, or elements of the same mask, through a mask. Indexing never
returns a view.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _bounds, _core, dtypes
from lamina._core import Tensor
from lamina._results import recorded
from lamina._tensor import as_type, astype, describe, to_tensor

# What one dimension of the array is indexed by, once a key has been read: a slice as (start, step, length),
# or an
# array of indices (wrapped, integer), where `static` says that all are known to lie inside.
Slice = tuple[int, int, int]


class Indices:
    """Integer indices along one dimension: `array`, a Tensor of any shape, or `number`, a Python integer."""

    __slots__ = ("array", "number", "shape")

    def __init__(self, array: Tensor | None, number: int | None, shape: tuple[int, ...]) -> None:
        self.array, self.number, self.shape = array, number, shape

    def tensor(self) -> Tensor:
        return _core.asarray(self.number) if self.array is None else self.array


def _op(name: str, operands: Sequence[Any], **attrs: Any) -> Tensor:
    return _core.op(name, operands, **attrs)[0]


def reshape(x: Tensor, shape: Sequence[int]) -> Tensor:
    """`x` with the given sizes, all known; no op where nothing changes."""
    return (
        x if tuple(shape) == x.shape else _core.set_weak(_op("reshape", [x], shape=list(shape)), x.weak_type)
    )


def broadcast(x: Tensor, shape: Sequence[int]) -> Tensor:
    """`x` broadcast to `shape` by NumPy's rule. ValueError where that cannot be."""
    shape = tuple(shape)
    if x.shape == shape:
        return x
    lead = len(shape) - x.ndim
    if lead < 0 or any(n not in (1, m) for n, m in zip(x.shape, shape[lead:], strict=False)):
        raise ValueError(f"a value of shape {x.shape} cannot be broadcast to {shape}")
    kept = [d for d in range(x.ndim) if x.shape[d] == shape[lead + d]]
    inner = reshape(x, [x.shape[d] for d in kept])
    out = _op("broadcast_in_dim", [inner], shape=list(shape), broadcast_dimensions=[lead + d for d in kept])
    return _core.set_weak(out, x.weak_type)


def scalar(value: Any, dtype: str) -> Tensor:
    """A 0-d Tensor of exactly `value`, in a trace a constant. OverflowError where an integer type does not hold it."""
    return to_tensor(bool(value)) if dtype == "bool" else _core.number(value, dtype)


def _select(mask: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return _op("select", [mask, a, b])


# --- reading a key ---


def _is_array_like(k: Any) -> bool:
    return isinstance(k, (Tensor, list, tuple)) or (hasattr(k, "__array__") and hasattr(k, "dtype"))


def _wrong_key(k: Any) -> IndexError:
    return IndexError(
        "an index is an integer, a slice, ..., None, or an integer or boolean array, not "
        f"{type(k).__name__}: {k!r:.60}"
    )


def _entries(key: Any) -> list[Any]:
    """The parts of a key, arrays as Tensors (values unknown) or NumPy arrays (values known)."""
    out: list[Any] = []
    for k in key if isinstance(key, tuple) else (key,):
        if k is None or k is Ellipsis or isinstance(k, (slice, bool)) or type(k) is int:
            out.append(k)
        elif _is_array_like(k):
            if isinstance(k, (list, tuple)):
                if len(k) == 0:
                    import numpy as np

                    k = np.zeros(0, np.int32)
                elif _holds_tensor(k):
                    k = to_tensor(k)
                else:
                    k = to_tensor(k).numpy()
                    k = k if k.size else k.astype("int32")  # lists of nothing choose nothing
            elif not isinstance(k, Tensor):
                import numpy as np

                k = np.asarray(k)
            kind = k.dtype.kind
            if kind not in "biu":
                raise IndexError(f"arrays used as indices must be integer or boolean, not {k.dtype.name}")
            if not isinstance(k, Tensor) and k.ndim == 0:
                k = bool(k) if kind == "b" else int(k)
            out.append(k)
        elif isinstance(k, (float, complex, str)):
            raise _wrong_key(k)
        else:
            try:
                out.append(operator.index(k))
            except TypeError:
                raise _wrong_key(k) from None
    return out


def _holds_tensor(key: Any) -> bool:
    if isinstance(key, Tensor):
        return True
    return isinstance(key, (list, tuple)) and any(_holds_tensor(k) for k in key)


def _known_mask(mask: Any) -> Tensor:
    """A boolean mask whose values can be had; TypeError with the remedy inside a trace."""
    mask = to_tensor(mask)
    if not _core.forceable(mask):
        from lamina._masked import unknown_mask

        raise unknown_mask(mask)
    return mask


def true_places(mask: Tensor) -> list[Tensor]:
    """Where a mask of one or more dimensions is true, in row-major order: an integer array per dimension."""
    rest = _core.true_places(mask)
    places = []
    for n in mask.shape[:0:-1]:
        whole = _core.elementwise("divide", rest, builtins.max(n, 1))
        places.append(_core.elementwise("subtract", rest, _core.elementwise("multiply", whole, n)))
        rest = whole
    return [rest, *places[::-1]]


def _bounded(index: int, size: int, axis: int) -> int:
    if not -size <= index < size:
        raise IndexError(f"index {index} is out of bounds for axis {axis} with size {size}")
    return index + size if index < 0 else index


def _slice_of(k: slice, size: int, axis: int) -> Slice:
    try:
        parts = [None if p is None else operator.index(p) for p in (k.start, k.stop, k.step)]
    except TypeError as e:
        if any(isinstance(p, Tensor) for p in (k.start, k.stop, k.step)):
            raise TypeError(
                f"{e}\n  The length of a slice must be known: for a start in a Tensor use lax.dynamic_slice"
            ) from None
        raise TypeError(f"slice bounds along axis {axis} must be integers or None, not {k!r}") from None
    if parts[2] == 0:
        raise ValueError("slice step cannot be zero")
    r = range(*slice(*parts).indices(size))
    return (r.start, r.step, len(r))


def _array_index(
    k: Any,
    size: int,
    axis: int,
    checked: bool = False,
    free: bool = False,
    wrap: bool = True,
    shape: tuple[int, ...] | None = None,
) -> Indices:
    """An integer array (or number) along one axis; known values are checked, others wrapped by a select.

    With `checked`, a Tensor's values are checked too, when they are known; with `free` no values are. Without `wrap`
    negative ones are out of range.
    """
    if isinstance(k, int) and not -size <= k < size and wrap and size and _bounds.recording():
        k, checked = scalar(k, "int32"), True
    if isinstance(k, int):
        if 0 <= k < size or (wrap and not free):
            return Indices(None, _bounded(k, size, axis), ())
        k = k + size if wrap and k < 0 else k
        return Indices(_core.asarray(builtins.min(builtins.max(k, -1), size)), None, ())
    if free and not isinstance(k, Tensor):
        k = to_tensor(k)
    if isinstance(k, Tensor):
        if checked:
            k = _bounds.checked(k, size, axis, shape=shape)
        if k.dtype.kind == "u":
            if k.dtype == "uint64":  # what int64 has no number for is out of range as well
                k = _op("minimum", [k, broadcast(scalar(size, "uint64"), k.shape)])
            return Indices(astype(k, "int64" if k.dtype.itemsize >= 4 else "int32"), None, k.shape)
        wide = astype(k, "int32") if k.dtype.itemsize < 4 else k
        if not wrap:
            return Indices(_core.set_weak(wide, False), None, k.shape)
        n = broadcast(scalar(size, wide.dtype), k.shape)
        negative = _core.elementwise("compare", wide, 0, direction="LT")
        return Indices(_select(negative, _op("add", [wide, n]), _core.set_weak(wide, False)), None, k.shape)
    import numpy as np

    k = k.astype(np.int64)
    outside = (k < (-size if wrap else 0)) | (k >= size)
    if outside.any():
        raise IndexError(f"index {int(k[outside][0])} is out of bounds for axis {axis} with size {size}")
    k = np.where(k < 0, k + size, k)
    return Indices(_core.asarray(k.astype(np.int32) if size < 2**31 else k), None, k.shape)


class Plan:
    """A key read against a shape: `shape` has the None dimensions put in; one entry per dimension of it.

    `checked`, `free` and `wrap` are those of `_array_index`.
    """

    def __init__(
        self, shape: Sequence[int], key: Any, checked: bool = False, free: bool = False, wrap: bool = True
    ) -> None:
        entries = _entries(key)
        used = 0
        for k in entries:
            if k is None or k is Ellipsis or isinstance(k, bool):
                continue
            used += k.ndim if not isinstance(k, (int, slice)) and k.dtype.kind == "b" else 1
        if sum(k is Ellipsis for k in entries) > 1:
            raise IndexError("an index can only have a single ellipsis ('...')")
        if used > len(shape):
            raise IndexError(
                f"too many indices: the array has {len(shape)} dimensions, but {used} were indexed"
            )
        if not any(k is Ellipsis for k in entries):
            entries.append(Ellipsis)
        self.shape: list[int] = []
        self.dims: list[Slice | Indices] = []
        groups: list[int] = []  # position in the key of each array index, to see whether they stand together
        has_array = False
        axis = 0
        for position, k in enumerate(entries):
            if k is None:
                self._add(1, (0, 1, 1))
            elif k is Ellipsis:
                for _ in range(len(shape) - used):
                    self._add(shape[axis], (0, 1, shape[axis]))
                    axis += 1
            elif isinstance(k, bool):
                # A 0-d mask: a new dimension with one element or none.
                import numpy as np

                self._add(1, _array_index(np.zeros(int(k), np.int32), 1, axis))
                groups.append(position)
                has_array = True
            elif isinstance(k, slice):
                self._add(shape[axis], _slice_of(k, shape[axis], axis))
                axis += 1
            elif isinstance(k, int):
                self._add(shape[axis], _array_index(k, shape[axis], axis, False, free, wrap, shape))
                groups.append(position)
                axis += 1
            elif k.dtype.kind == "b":
                mask = _known_mask(k)
                # As in NumPy, a mask of no elements chooses none along any axis.
                covered = shape[axis : axis + mask.ndim]
                if len(covered) < mask.ndim or any(n not in (0, d) for n, d in zip(mask.shape, covered)):
                    raise IndexError(
                        f"a boolean mask of shape {tuple(mask.shape)} does not match the array's shape "
                        f"{tuple(shape)} at axis {axis}"
                    )
                if mask.ndim == 0:
                    import numpy as np

                    self._add(1, _array_index(np.zeros(int(mask), np.int32), 1, axis))
                for index in true_places(mask) if mask.ndim else ():
                    self._add(shape[axis], Indices(index, None, index.shape))
                    axis += 1
                groups.append(position)
                has_array = True
            else:
                if shape[axis] == 0 and math.prod(k.shape) > 0 and not free:
                    raise IndexError(f"an index is out of bounds for axis {axis} with size 0")
                self._add(shape[axis], _array_index(k, shape[axis], axis, checked, free, wrap, shape))
                groups.append(position)
                has_array |= k.ndim > 0
                axis += 1
        self.indexed = [d for d, k in enumerate(self.dims) if isinstance(k, Indices)]
        together = not groups or groups[-1] - groups[0] == len(groups) - 1
        self.has_array = has_array
        try:
            self.batch = broadcast_shapes(*[self.dims[d].shape for d in self.indexed])
        except ValueError as e:
            raise IndexError(f"index arrays of different shapes cannot be used together: {e}") from None
        kept = [d for d in range(len(self.dims)) if d not in self.indexed]
        # Where the dimensions of the index arrays go among the kept ones.
        self.at = (
            sum(d < self.indexed[0] for d in kept) if self.indexed and (together or not has_array) else 0
        )
        self.window = [self.dims[d][2] for d in kept]
        self.result = (*self.window[: self.at], *self.batch, *self.window[self.at :])

    def _add(self, size: int, k: Slice | Indices) -> None:
        self.shape.append(size)
        self.dims.append(k)

    @property
    def basic(self) -> bool:
        """Whether the key has numbers and slices only."""
        return all(self.dims[d].array is None for d in self.indexed) and not self.has_array

    def ranges(self) -> list[Slice]:
        """The slices to take before the array indices are applied; a number counts when the key is basic."""
        basic = self.basic
        return [
            k if not isinstance(k, Indices) else (k.number, 1, 1) if basic else (0, 1, n)
            for k, n in zip(self.dims, self.shape, strict=False)
        ]

    def start_indices(self) -> Tensor:
        """The index vectors: batch dimensions, then one entry per indexed dimension."""
        dtype = "int32"
        arrays = [self.dims[d].tensor() for d in self.indexed]
        for a in arrays:
            if a.dtype == "int64":
                dtype = "int64"
        parts = [reshape(broadcast(astype(a, dtype), self.batch), (*self.batch, 1)) for a in arrays]
        return parts[0] if len(parts) == 1 else _op("concatenate", parts, dimension=len(self.batch))


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """The shape that all of `shapes` broadcast to. ValueError where they do not."""
    rank = max((len(s) for s in shapes), default=0)
    out = [1] * rank
    for s in shapes:
        for i, n in enumerate(s, rank - len(s)):
            if n != 1 and out[i] not in (1, n):
                raise ValueError(
                    f"shapes {', '.join(str(tuple(q)) for q in shapes)} do not broadcast together: axis {i - rank}"
                )
            out[i] = n if out[i] == 1 else out[i]
    return tuple(out)


# --- reading elements ---


def take_ranges(x: Tensor, ranges: Sequence[Slice]) -> Tensor:
    """The elements at (start, step, length) along each dimension."""
    return _core.take_ranges(x, ranges)


def _gather(x: Tensor, plan: Plan) -> Tensor:
    b = len(plan.batch)
    kept = [d for d in range(x.ndim) if d not in plan.indexed]
    if math.prod(plan.batch) == 0 or any(x.shape[d] == 0 for d in plan.indexed):
        return broadcast(scalar(0, x.dtype), plan.result)
    sizes = [1 if d in plan.indexed else x.shape[d] for d in range(x.ndim)]
    return _op(
        "gather",
        [x, plan.start_indices()],
        index_vector_dim=b,
        slice_sizes=sizes,
        start_index_map=plan.indexed,
        collapsed_slice_dims=plan.indexed,
        offset_dims=[i if i < plan.at else i + b for i in range(len(kept))],
    )


def getitem(x: Tensor, key: Any, checked: bool = False) -> Any:
    """``x[key]``: a new Tensor. IndexError for known indices out of range or too many of them.

    For a mask that is not known, the MaskedElements. With `checked`, Tensor indices among it are checked when they are
    known.
    """
    out = _core.read_basic(x, key)
    if out is not None:
        return out
    if isinstance(key, Tensor) and key.dtype.kind == "b" and key.ndim > 0 and not _core.forceable(key):
        from lamina._masked import MaskedElements

        return MaskedElements(_whole_mask(x, key), x)
    if type(key) is Tensor and key.dtype.kind in "iu" and x.ndim and x.shape[0]:
        return _rows(x, _bounds.checked(key, x.shape[0], 0, shape=x.shape) if checked else key)
    mask = not isinstance(key, (tuple, list)) and _is_array_like(key) and key.dtype.kind == "b"
    if mask and key.ndim > 1 and key.shape == x.shape[: key.ndim]:
        # One place among all is quicker to take from than one along each dimension.
        size = math.prod(key.shape)
        return getitem(reshape(x, (size, *x.shape[key.ndim :])), key.reshape(size))
    return _read(x, Plan(x.shape, key, checked))


@recorded
def _rows(x: Tensor, index: Tensor) -> Tensor:
    return _read(x, Plan(x.shape, index))


def _read(x: Tensor, plan: Plan) -> Tensor:
    weak = x.weak_type
    x = take_ranges(reshape(x, plan.shape), plan.ranges())
    if not plan.basic:
        if not plan.has_array and len(plan.batch) == 0:
            return _core.set_weak(_dynamic_read(x, plan), weak)
        return _core.set_weak(_gather(x, plan), weak)
    return _core.set_weak(reshape(x, plan.result), weak)


def _starts(plan: Plan) -> list[Tensor]:
    """Start indices of one block, where every index is a number or a 0-d Tensor."""
    return [
        astype(k.tensor(), "int64" if k.tensor().dtype == "int64" else "int32")
        if isinstance(k, Indices)
        else _core.asarray(0)
        for k in plan.dims
    ]


def _dynamic_read(x: Tensor, plan: Plan) -> Tensor:
    if any(x.shape[d] == 0 for d in plan.indexed):
        raise IndexError(f"an array of shape {x.shape} has no element to take along axis {plan.indexed[0]}")
    sizes = [1 if isinstance(k, Indices) else x.shape[d] for d, k in enumerate(plan.dims)]
    return reshape(_op("dynamic_slice", [x, *_starts(plan)], slice_sizes=sizes), plan.result)


# --- writing elements ---

_COMBINE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "set": lambda old, new: new,
    "add": lambda old, new: _core.elementwise("or" if old.dtype == "bool" else "add", old, new),
    "multiply": lambda old, new: _core.elementwise("and" if old.dtype == "bool" else "multiply", old, new),
    "minimum": lambda old, new: _core.elementwise("minimum", old, new),
    "maximum": lambda old, new: _core.elementwise("maximum", old, new),
}


@functools.cache
def scatter_region(kind: str, dtype: str) -> Any:
    """The body of a scatter: how an update joins the element it meets."""
    return _core.region(lambda p: [_COMBINE[kind](p[0], p[1])], [(dtype, [], False)] * 2)


def setitem_value(x: Tensor, key: Any, value: Any) -> Tensor:
    """A new Tensor like `x` with the elements at `key` replaced by `value`, broadcast and converted to x's
    type.
    """
    if isinstance(key, Tensor) and not isinstance(value, (Tensor, int, float)):
        from lamina._masked import MaskedElements

        if isinstance(value, MaskedElements):
            mask = _whole_mask(x, key)
            if mask is not None:
                return value.written_to(x, mask)
    written = _core.write_basic(x, key, value, "")
    return update(x, key, value, "set", checked=True) if written is None else written


def update(
    x: Tensor,
    key: Any,
    value: Any,
    kind: str,
    mode: str | None = None,
    checked: bool = False,
    wrap: bool = True,
    unique: bool = False,
) -> Tensor:
    """A new Tensor like `x`, with `value` joined by `kind` (a name in _COMBINE) to the elements at `key`.

    Where indices repeat, updates are applied in their order; `unique` promises that none does. ValueError when the
    value does not broadcast.
    """
    v = as_type(value, x.dtype)
    mask = _whole_mask(x, key)
    if mask is not None and v.ndim == 0:
        v = broadcast(v, x.shape)
        mask = broadcast(reshape(mask, (*mask.shape, *[1] * (x.ndim - mask.ndim))), x.shape)
        return _select(mask, _COMBINE[kind](x, v), x)
    plan = Plan(x.shape, key, checked and mode is None, mode in FREE, wrap)
    try:
        v = broadcast(_drop_leading_ones(v, len(plan.result)), plan.result)
    except ValueError:
        raise ValueError(
            f"a value of shape {v.shape} cannot be broadcast to the indexed elements' shape {plan.result} "
            f"of an array {describe(x)}"
        ) from None
    if 0 in plan.result or 0 in x.shape:
        return x
    whole = reshape(x, plan.shape)
    return reshape(_write(whole, plan, v, kind, mode, unique), x.shape)


def _drop_leading_ones(v: Tensor, rank: int) -> Tensor:
    lead = 0
    while v.ndim - lead > rank and v.shape[lead] == 1:
        lead += 1
    return reshape(v, v.shape[lead:])


def _whole_mask(x: Tensor, key: Any) -> Tensor | None:
    """The key as a boolean mask over the leading dimensions, if it is one."""
    if isinstance(key, tuple) and len(key) == 1:
        key = key[0]
    if not _is_array_like(key) or isinstance(key, (list, tuple)) or key.dtype.kind != "b" or key.ndim == 0:
        return None
    mask = to_tensor(key)
    if mask.shape != x.shape[: mask.ndim]:
        raise IndexError(f"a boolean mask of shape {mask.shape} does not match the array's shape {x.shape}")
    return mask


def _write(x: Tensor, plan: Plan, v: Tensor, kind: str, mode: str | None, unique: bool) -> Tensor:
    ranges = plan.ranges()
    if plan.basic:
        return put_ranges(x, ranges, reshape(v, [r[2] for r in ranges]), kind)
    if any(r != (0, 1, n) for r, n in zip(ranges, x.shape, strict=False)):
        part = take_ranges(x, ranges)
        return put_ranges(x, ranges, _scatter(part, plan, v, kind, mode, unique), "set")
    return _scatter(x, plan, v, kind, mode, unique)


def put_ranges(x: Tensor, ranges: Sequence[Slice], v: Tensor, kind: str) -> Tensor:
    """`x` with `v` joined to the elements at (start, step, length) along each dimension; lengths are
    positive.
    """
    if all(step == 1 or n == 1 for _, step, n in ranges):
        if kind != "set":
            v = _COMBINE[kind](take_ranges(x, ranges), v)
        if v.shape == x.shape:
            return v
        return _op("dynamic_update_slice", [x, v, *[_core.asarray(r[0]) for r in ranges]])
    # Steps: spread the value by padding, and choose between it and the array by a mask spread likewise.
    turned = [d for d, (_, step, n) in enumerate(ranges) if step < 0 and n > 1]
    if turned:
        v = _op("reverse", [v], dimensions=turned)
    low, high, between = [], [], []
    for (start, step, n), size in zip(ranges, x.shape, strict=False):
        first = start if step > 0 else start + (n - 1) * step
        gap = abs(step) - 1 if n > 1 else 0
        low.append(first)
        between.append(gap)
        high.append(size - first - n - (n - 1) * gap)
    pads = {"edge_padding_low": low, "edge_padding_high": high, "interior_padding": between}
    mask = _op("pad", [broadcast(scalar(True, "bool"), v.shape), scalar(False, "bool")], **pads)
    spread = _op("pad", [v, scalar(0, x.dtype)], **pads)
    return _select(mask, _COMBINE[kind](x, spread), x)


def _scatter(x: Tensor, plan: Plan, v: Tensor, kind: str, mode: str | None, unique: bool) -> Tensor:
    b = len(plan.batch)
    starts = plan.start_indices()
    if mode == "clip":
        last = [x.shape[d] - 1 for d in plan.indexed]
        high = broadcast(astype(to_tensor(last), starts.dtype), starts.shape)
        low = broadcast(scalar(0, starts.dtype), starts.shape)
        starts = _op("clamp", [low, starts, high])
    window = [i if i < plan.at else i + b for i in range(x.ndim - len(plan.indexed))]
    return _op(
        "scatter",
        [_core.set_weak(x, False), starts, v],
        index_vector_dim=b,
        update_window_dims=window,
        inserted_window_dims=plan.indexed,
        scatter_dims_to_operand_dims=plan.indexed,
        unique_indices=unique and mode != "clip",
        body=scatter_region(kind, x.dtype.name),
    )


def missing(dtype: Any) -> Any:
    """What stands for an element out of range: NaN, the least signed or greatest unsigned integer, True."""
    if dtype.kind in "fc":
        return math.nan
    if dtype.kind == "b":
        return True
    low, high = dtypes.extremes(dtype)
    return high if dtype.kind == "u" else low


FREE = ("drop", "fill", "clip")  # modes that say what becomes of indices out of range


_FEW = 64  # repeated applications that are a loop of known length even where most of them will do nothing


def _ones(x: Tensor, inexact: bool = False) -> Tensor:
    dtype = _core.inexact_type(x.dtype.name) if inexact and x.dtype.kind in "biu" else x.dtype.name
    return broadcast(scalar(1, dtype), x.shape)


class At:
    """``x.at``: updates that give a new Tensor: ``x.at[key].set(v)``, ``.add(v)``, ``.max(v)``, ..."""

    __slots__ = ("_checked", "_x")

    def __init__(self, x: Tensor, checked: bool = False) -> None:
        self._x, self._checked = x, checked

    def __getitem__(self, key: Any) -> AtKey:
        return AtKey(self._x, key, self._checked)


class AtKey:
    """The elements of a Tensor at a key.

    `mode` says what happens to indices out of range: for updates ``"drop"`` or ``"clip"``; for `get` ``"clip"`` or
    ``"fill"``. By default they raise IndexError where they are known; inside a trace updates drop them and `get`
    clips them. Without `wrap_negative_indices` negative ones are out of range. `indices_are_sorted` and
    `unique_indices` change no result; `multiply` has a derivative by its value only with the latter.
    """

    __slots__ = ("_checked", "_key", "_x")

    def __init__(self, x: Tensor, key: Any, checked: bool = False) -> None:
        self._x, self._key, self._checked = x, key, checked

    def _update(self, value: Any, kind: str, options: dict[str, Any], arithmetic: bool = True) -> Tensor:
        if not options:
            written = _core.write_basic(self._x, self._key, value, "" if kind == "set" else kind)
            if written is not None:
                return self._own(written)
        mode, wrap = self._options(**options)
        unique = options.get("unique_indices", False)
        if arithmetic:
            value = self._kept_whole(value)
        return self._own(update(self._x, self._key, value, kind, mode, self._checked, wrap, unique))

    def _options(
        self,
        mode: Any = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        wrap_negative_indices: bool = True,
    ) -> tuple[str | None, bool]:
        if mode not in (None, *FREE, "promise_in_bounds"):
            raise ValueError(f"mode is 'drop', 'fill', 'clip' or 'promise_in_bounds', not {mode!r}")
        return mode, wrap_negative_indices

    def _kept_whole(self, value: Any) -> Any:
        """`value` of which integers of the array keep all; TypeError for fractions, which they would drop."""
        if self._x.dtype.kind in "biu":
            value = value if isinstance(value, int) else to_tensor(value)
            if not isinstance(value, int) and value.dtype.kind in "fc":
                raise TypeError(
                    f"{self._x.dtype.name} elements cannot take a {value.dtype.name} value in arithmetic without losing "
                    "its fraction: convert the array first, x.astype(...).at[...], or the value"
                )
        return value

    def _own(self, result: Tensor) -> Tensor:
        return _core.set_weak(result, self._x.weak_type)  # another one: `update` may give its operands back

    def get(self, mode: Any = None, fill_value: Any = None, **options: bool) -> Tensor:
        """``x[key]``; with mode ``"fill"``, `fill_value` (see `missing`) where an index is out of range."""
        mode, wrap = self._options(mode, **options)
        plan = Plan(self._x.shape, self._key, self._checked and mode is None, mode in FREE, wrap)
        if mode in ("fill", "drop") and any(plan.shape[d] == 0 for d in plan.indexed):
            value = missing(self._x.dtype) if fill_value is None else fill_value
            return broadcast(as_type(value, self._x.dtype), plan.result)
        out = _read(self._x, plan)
        if mode not in ("fill", "drop") or plan.basic:
            return out
        inside = None
        for d in plan.indexed:
            index = plan.dims[d].tensor()
            ok = _core.elementwise(
                "and",
                _core.elementwise("compare", index, 0, direction="GE"),
                _core.elementwise("compare", index, plan.shape[d], direction="LT"),
            )
            inside = ok if inside is None else _core.elementwise("and", inside, ok)
        if fill_value is None:
            fill_value = missing(out.dtype)
        ones = [1] * (len(plan.window) - plan.at)
        inside = broadcast(reshape(broadcast(inside, plan.batch), (*plan.batch, *ones)), plan.result)
        return _select(inside, out, broadcast(as_type(fill_value, out.dtype), out.shape))

    def set(self, value: Any, **options: Any) -> Tensor:
        """A Tensor with the elements replaced by `value`."""
        return self._update(value, "set", options, arithmetic=False)

    def add(self, value: Any, **options: Any) -> Tensor:
        """A Tensor with `value` added to the elements; repeated indices add up."""
        return self._update(value, "add", options)

    def subtract(self, value: Any, **options: Any) -> Tensor:
        """A Tensor with `value` subtracted from the elements."""
        written = None if options else _core.write_basic(self._x, self._key, value, "subtract")
        if written is not None:
            return self._own(written)
        return self._update(-as_type(self._kept_whole(value), self._x.dtype), "add", options)

    def multiply(self, value: Any, **options: Any) -> Tensor:
        """A Tensor with the elements multiplied by `value`."""
        return self._update(value, "multiply", options)

    def divide(self, value: Any, **options: Any) -> Tensor:
        """A Tensor of floats with the elements divided by `value`, as often as an index stands there."""
        return self._x / AtKey(_ones(self._x, True), self._key, self._checked).multiply(value, **options)

    def power(self, value: Any, **options: Any) -> Tensor:
        """A Tensor with the elements raised to `value`, as often as an index stands there."""
        return self._x ** AtKey(_ones(self._x), self._key, self._checked).multiply(value, **options)

    def min(self, value: Any, **options: Any) -> Tensor:
        """A Tensor with the elements replaced by the smaller of them and `value`."""
        return self._update(value, "minimum", options)

    def max(self, value: Any, **options: Any) -> Tensor:
        """A Tensor with the elements replaced by the larger of them and `value`."""
        return self._update(value, "maximum", options)

    def apply(self, f: Callable[[Tensor], Any], **options: Any) -> Tensor:
        """A Tensor with f applied to the elements, as often as an index stands there; f works element by element.

        With `unique_indices` once. Inside `jit` many traced indices that may repeat have a forward derivative only.
        """
        mode, wrap = self._options(**options)
        unique = options.get("unique_indices", False)
        plan = Plan(self._x.shape, self._key, self._checked and mode is None, mode in FREE, wrap)
        if plan.basic:
            return self._update(f(_read(self._x, plan)), "set", options)
        from lamina import lax

        times = AtKey(broadcast(scalar(0, "int32"), self._x.shape), self._key, self._checked).add(
            1, **options
        )

        def again(n: Any, x: Tensor) -> Tensor:
            new = as_type(f(x), x.dtype)
            return _select(_core.elementwise("compare", times, n, direction="GT"), new, x)

        most = self._most(times, math.prod(plan.batch), unique)
        if most is not None:
            return self._own(lax.fori_loop(0, most, again, self._x))
        top = times.max()
        start = (_core.asarray(0), self._x)
        return self._own(lax.while_loop(lambda s: s[0] < top, lambda s: (s[0] + 1, again(*s)), start)[1])

    def _most(self, times: Tensor, count: int, unique: bool) -> int | None:
        """How often an element is met at most, where that is known; a loop of known length has a derivative."""
        if unique or count < 2:
            return 1
        if _core.forceable(times) and not _core.inside_jit():
            return int(_core.value_of(times).max())
        keys = self._key if isinstance(self._key, tuple) else (self._key,)
        if not any(map(_holds_tensor, keys)):
            import numpy as np

            met = np.zeros(self._x.shape, np.int32)
            try:
                np.add.at(met, self._key, 1)
                return int(met.max(initial=0))
            except IndexError:  # beyond the array, as `mode` allows
                return count
        return count if count <= _FEW else None

    mul = multiply
    sub = subtract
    div = divide
