"""Helpers shared by the ops: constants, axes, monoid regions."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

from lamina import _core, dtypes
from lamina._core import Tensor
from lamina._indexing import scalar
from lamina._tensor import astype, describe, is_several, to_tensor

__all__ = ["Tensor", "describe", "to_tensor"]


def op(name: str, *operands: Any, **attrs: Any) -> Tensor:
    """The single result of one recorded op."""
    return _core.op(name, operands, **attrs)[0]


def const(value: Any, dtype: Any) -> Tensor:
    """A Python number as a scalar of `dtype`, rounded once."""
    return scalar(value, dtypes.name_of(dtype))


def like(x: Tensor, value: Any) -> Tensor:
    """A Python number as a scalar of x's element type, weak if x is."""
    number = const(value, x.dtype)
    return _core.set_weak(number, True) if x.weak_type else number


def joined(value: Any, dtype: Any) -> Tensor:
    """An initial or padding value beside elements of `dtype`, which a number takes, inside a trace too."""
    if _core.is_number(value):
        return const(value, dtype)
    t = to_tensor(value)
    return _core.set_weak(astype(t, dtypes.name_of(dtype)), False) if t.weak_type else t


def ints(x: Any, what: str = "a shape") -> list[int]:
    """Python ints from an integer of any kind or a sequence of them; TypeError in words otherwise."""
    try:
        one = not is_several(x) and hasattr(x, "__index__")
        return [operator.index(i) for i in ((x,) if one else x)]
    except TypeError:
        raise TypeError(f"{what} needs integers known when the program is recorded, not {x!r:.80}") from None


def axis_of(axis: int, rank: int, what: str = "axis") -> int:
    """`axis` counted from the front; ValueError if it is out of range."""
    axis = operator.index(axis)
    if not -rank <= axis < rank:
        raise ValueError(f"{what} {axis} is out of range for an array of rank {rank}")
    return axis % rank


def axes_of(axes: int | Sequence[int] | None, rank: int, what: str = "axes") -> list[int]:
    """Distinct axes counted from the front; None is all of them."""
    if axes is None:
        return list(range(rank))
    out = [axis_of(a, rank, what) for a in ints(axes, what)]
    if len(set(out)) != len(out):
        raise ValueError(f"{what} {tuple(axes)} names an axis twice")
    return out


def is_float(x: Tensor) -> bool:
    return x.dtype.kind == "f"


def largest(dtype: Any) -> Any:
    """The largest value of an element type, infinity for floats that have it."""
    return dtypes.extremes(dtype)[1]


def smallest(dtype: Any) -> Any:
    """The smallest value of an element type, minus infinity for floats that have it."""
    return dtypes.extremes(dtype)[0]


def limit(dtype: Any, sign: int) -> Tensor:
    """The largest (sign 1) or smallest (sign -1) value as a scalar."""
    value = largest(dtype) if sign > 0 else smallest(dtype)
    if dtypes.canonical(dtype) == "uint64" and sign > 0:
        return op("not", const(0, dtype))
    return const(value, dtype)


@functools.lru_cache(maxsize=512)
def monoid(name: str, dtype: str) -> Any:
    """The region (a, b) -> op(a, b) on scalars of `dtype`."""
    return _core.region(lambda p: [_core.op(name, p)[0]], [(dtype, [], False)] * 2)


@functools.lru_cache(maxsize=64)
def replacing(dtype: str) -> Any:
    """The region (old, new) -> new."""
    return _core.region(lambda p: [p[1]], [(dtype, [], False)] * 2)
