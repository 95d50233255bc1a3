"""What the functions of lamina.numpy share: conversion, promotion, axes, reductions."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _core, dtypes
from lamina._core import Tensor
from lamina._indexing import broadcast, broadcast_shapes, reshape, scalar
from lamina._tensor import as_type, astype, is_several, to_tensor


def ew(name: str, *operands: Any, **attrs: Any) -> Tensor:
    """An elementwise op with broadcasting and promotion."""
    return _core.elementwise(name, *operands, **attrs)


def op(name: str, operands: Sequence[Any], **attrs: Any) -> Tensor:
    """The only result of one op on operands of exactly matching types."""
    return _core.op(name, operands, **attrs)[0]


def number_or_tensor(x: Any) -> Any:
    """`x` itself when it is a number, else as a Tensor."""
    return x if isinstance(x, Tensor) or _core.is_number(x) else to_tensor(x)


def as_operands(*xs: Any) -> list[Any]:
    """Operands of one op, which promotes them; beside a list, whose numbers have no type yet, promoted here."""
    return (
        promote(*xs) if any(isinstance(x, (list, tuple)) for x in xs) else [number_or_tensor(x) for x in xs]
    )


def in_type(x: Any, dtype: Any) -> Tensor:
    """`x` in a type that the user names (None: its own): numbers and lists go to it directly, arrays are converted."""
    if dtype is None:
        return to_tensor(x)
    return as_type(x, dtype) if _core.is_number(x) or isinstance(x, (list, tuple)) else to_tensor(x, dtype)


def inexact(x: Any) -> Tensor:
    """`x` as a Tensor of float or complex elements: 64-bit integers become float64, others the default float."""
    t = to_tensor(x)
    return t if t.dtype.kind in "fc" else _core.recast(t, _core.inexact_type(t.dtype.name))


def floating(x: Any, name: str) -> Tensor:
    """As `inexact`, but TypeError for complex elements."""
    t = inexact(x)
    if t.dtype.kind == "c":
        raise TypeError(f"{name} is not defined for {t.dtype.name} elements")
    return t


def promote(*xs: Any) -> list[Tensor]:
    """Tensors of one element type, by promotion; shapes stay. Numbers and lists of them are rounded once, to it.

    OverflowError for an integer that does not fit it.
    """
    ts = _core.promoted(*[number_or_tensor(x) for x in xs])
    return [as_type(x, t.dtype) if isinstance(x, (list, tuple)) else t for x, t in zip(xs, ts, strict=True)]


def promote_inexact(*xs: Any) -> list[Tensor]:
    """As `promote`, with integers and booleans becoming floats as in `inexact`."""
    ts = promote(*xs)
    if ts[0].dtype.kind in "fc":
        return ts
    dtype = _core.inexact_type(ts[0].dtype.name)
    return [
        as_type(x, dtype) if isinstance(x, (list, tuple)) else _core.recast(t, dtype)
        for x, t in zip(xs, ts, strict=True)
    ]


def floats(name: str, *xs: Any) -> list[Tensor]:
    """As `promote_inexact`, but TypeError for complex elements."""
    ts = promote_inexact(*xs)
    if ts[0].dtype.kind == "c":
        raise TypeError(f"{name} is not defined for {ts[0].dtype.name} elements")
    return ts


def broadcast_all(*xs: Tensor) -> list[Tensor]:
    shape = broadcast_shapes(*[x.shape for x in xs])
    return [broadcast(x, shape) for x in xs]


def items_of(x: Any) -> list[Any]:
    """What is in a sequence or an array of one dimension; `x` alone, where it is none."""
    return list(x) if is_several(x) and getattr(x, "ndim", 1) == 1 else [x]


# So many arrays, recorded one by one, fill any memory.
MOST_ARRAYS = 2**24


class AxisError(ValueError, IndexError):
    """An axis that an array has not: an IndexError too, as in NumPy and the array API."""


def canonical_axis(axis: Any, ndim: int) -> int:
    """`axis` counted from the front. AxisError outside the range, TypeError for a non-integer."""
    try:
        a = operator.index(axis)
    except TypeError:
        raise TypeError(f"an axis is an integer, not {type(axis).__name__}") from None
    if not -ndim <= a < ndim:
        raise AxisError(f"axis {a} is out of bounds for an array of {ndim} dimensions")
    return a % ndim


def canonical_axes(axis: Any, ndim: int) -> list[int]:
    """Axes counted from the front, sorted; None means all. ValueError for repeated axes."""
    if axis is None:
        return list(range(ndim))
    axes = [canonical_axis(a, ndim) for a in items_of(axis)]
    if len(set(axes)) != len(axes):
        raise ValueError(f"an axis is repeated in {axis}")
    return sorted(axes)


def sizes_of(shape: Any) -> list[int]:
    """Integers given as one or as a sequence or 1-d array. TypeError for anything else."""
    items = items_of(shape)
    try:
        return [operator.index(n) for n in items]
    except TypeError:
        traced = [n for n in items if isinstance(n, Tensor) and not _core.forceable(n)]
        if traced:
            from lamina._source import argument_of

            raise TypeError(
                f"a shape cannot depend on {argument_of(traced[0]) or 'an argument'}, whose value is not known while "
                "it is traced\n  Mark that argument static (static_argnums or static_argnames), or use a fixed upper "
                "size and a mask (lamina.numpy.where)."
            ) from None
        raise TypeError(f"a shape is an integer or a sequence of integers, not {shape!r}") from None


def shape_of(shape: Any) -> list[int]:
    """As sizes_of, and ValueError for negative ones."""
    sizes = sizes_of(shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"a shape has no negative sizes: {tuple(sizes)}")
    return sizes


def default_float() -> str:
    """The element type of floats that nothing else decides: float32, or that of `lamina.default_dtypes`."""
    return _core.default_types()[0]


def default_int() -> str:
    """The same for integers: int32 unless told."""
    return _core.default_types()[1]


def full_of(value: Any, dtype: str, shape: Sequence[int]) -> Tensor:
    """`value` everywhere."""
    return broadcast(scalar(value, dtype), shape)


def iota(dtype: str, shape: Sequence[int], axis: int) -> Tensor:
    """Indices along `axis`."""
    if dtype == "bool":
        return ew("compare", iota("int32", shape, axis), 0, direction="NE")
    return op("iota", [], dtype=str(dtypes.name_of(dtype)), shape=list(shape), iota_dimension=axis)


def along(v: Tensor, axis: int, ndim: int) -> Tensor:
    """A 1-d Tensor laid along `axis` of an array of `ndim` dimensions."""
    return reshape(v, [v.size if d == axis else 1 for d in range(ndim)])


def select(mask: Any, a: Any, b: Any) -> Tensor:
    """a where mask else b; promotes and broadcasts."""
    a, b = promote(a, b)
    return ew("select", *broadcast_all(to_tensor(mask), a, b))


def compare(a: Any, b: Any, direction: str) -> Tensor:
    """The comparison LT, LE, EQ, NE, GT or GE."""
    return ew("compare", a, b, direction=direction)


@functools.cache
def region2(name: str, dtype: str) -> Any:
    """The region that joins two elements by an elementwise op."""
    return _core.region(lambda p: [ew(name, p[0], p[1])], [(dtype, [], False)] * 2)


def reduce_op(x: Tensor, name: str, init: Any, axes: Sequence[int]) -> Tensor:
    """Reduces `axes` by an elementwise op."""
    x = _core.set_weak(x, False)
    dtype = x.dtype.name
    return op("reduce", [x, scalar(init, dtype)], dimensions=list(axes), body=region2(name, dtype))


def keep(x: Tensor, shape: Sequence[int], axes: Sequence[int]) -> Tensor:
    """A reduced Tensor with the reduced axes put back with size 1."""
    return reshape(x, [1 if d in axes else n for d, n in enumerate(shape)])


def lowest(dtype: str) -> Any:
    """The least value of an element type: the identity of maximum."""
    return _extreme(dtype, 0)


def highest(dtype: str) -> Any:
    """The greatest value of an element type: the identity of minimum."""
    return _extreme(dtype, 1)


def _extreme(dtype: str, which: int) -> Any:
    part = dtypes.extremes(dtype)[which]
    return complex(part, part) if dtypes.TABLE[dtype].kind == "c" else part


def host(x: Any, what: str, places: bool = False) -> Any:
    """The values of `x` as a NumPy array. TypeError inside a trace, naming the function.

    With `places` they only choose which elements are taken, so that a derivative may depend on them.
    """
    t = with_values(x, what)
    return (_core.value_of(t) if places else t).numpy()


def with_values(x: Any, what: str) -> Tensor:
    """`x` as a Tensor whose values can be had. TypeError inside a trace, naming the function."""
    from lamina._tensor import describe

    t = to_tensor(x)
    if not _core.forceable(t):
        raise TypeError(
            f"{what} gives a result whose shape depends on values, and those of {describe(t)} are not known "
            "inside a jit or vmap; give `size`, or call it outside"
        )
    return t


def places(x: Any) -> Any:
    """Indices, of which a list of nothing holds integers, as in NumPy."""
    first = x
    while isinstance(first, (list, tuple)):
        if not first:
            return astype(to_tensor(x), "int32")
        first = first[0]
    return x


def known(x: Any) -> Any:
    """The values of numbers, lists and arrays as a NumPy array; None of a Tensor that is not computed, or is traced."""
    import numpy as np

    if not isinstance(x, Tensor):
        return np.asarray(x)
    if not _core.is_computed(x) or not _core.forceable(x) or _core.inside_jit():
        return None
    return x.numpy()


def in_place(x: Any, value: Tensor, what: str) -> None:
    """Gives a Tensor or NumPy array a new value, for functions that NumPy has for writing. TypeError for others."""
    import numpy as np

    from lamina._tensor import write

    if isinstance(x, Tensor):
        write(x, value)
    elif isinstance(x, np.ndarray):
        np.copyto(x, np.asarray(value))
    else:
        raise TypeError(f"{what} writes to a Tensor, not to {type(x).__name__}")


def iterate(
    state: Sequence[Tensor],
    go_on: Callable[..., Tensor],
    step: Callable[..., Sequence[Tensor]],
    most: int,
    together: int = 1,
) -> list[Tensor]:
    """`step` applied to the state, element by element, until `go_on` is false everywhere or `most` times.

    An element whose `go_on` is false keeps its state. It is asked for every `together` steps. Each element stops by
    itself: a kernel makes all its steps with the state in registers (LaneLoop in cluster/repeat.h).
    """
    from lamina import lax

    def condition(carry: Any) -> Tensor:
        return carry[0].any()

    def body(carry: Any) -> Any:
        active, steps, parts = carry
        stepped, steps_then = parts, steps + together
        for _ in range(together):
            stepped = step(*stepped)
        goes_on = ew("and", go_on(*stepped), compare(steps_then, most, "LT"))
        chosen = [select(active, new, old) for new, old in zip(stepped, parts)]
        return ew("and", active, goes_on), select(active, steps_then, steps), chosen

    first = go_on(*state)
    return lax.while_loop(condition, body, (first, full_of(0, "int32", first.shape), list(state)))[2]
