"""Where the largest and the smallest elements are.

Complex numbers are ordered by their real parts, then by their imaginary parts, as in NumPy. NaN, in either part, counts
as largest and as smallest; of equal elements the first one counts. Positions are int32.
"""

from __future__ import annotations

import functools
from typing import Any

from lamina import _core, dtypes
from lamina._core import Tensor
from lamina._indexing import reshape, scalar
from lamina._tensor import astype, to_tensor
from lamina.numpy import _elementwise as e
from lamina.numpy._common import canonical_axis, compare, ew, highest, iota, lowest, op
from lamina.numpy._reductions import _no_nan, all, any

__all__ = ["argmax", "argmin", "nanargmax", "nanargmin"]


def _all_of(op_name: str, flags: list[Tensor]) -> Tensor:
    return functools.reduce(functools.partial(ew, op_name), flags)


@functools.cache
def _region(parts: int, dtype: str, index: str, largest: bool) -> Any:
    """The better of two elements, given as so many parts each, the weightiest first, and an index."""

    def body(p: list[Tensor]) -> list[Tensor]:
        (*a, i), (*b, j) = p[: parts + 1], p[parts + 1 :]
        better, same = [], []
        for x, y in reversed(list(zip(a, b))):
            equal = compare(y, x, "EQ")
            better = [_all_of("and", [equal, *better])] if better else []
            better = [_all_of("or", [compare(y, x, "GT" if largest else "LT"), *better])]
            same.append(equal)
        better, same = better[0], _all_of("and", same)
        if dtypes.TABLE[dtype].kind == "f":
            a_nan = _all_of("or", [compare(x, x, "NE") for x in a])
            b_nan = _all_of("or", [compare(x, x, "NE") for x in b])
            better = ew("and", ew("or", better, b_nan), ew("not", a_nan))
            same = ew("or", same, ew("and", a_nan, b_nan))
        take = ew("or", better, ew("and", same, compare(j, i, "LT")))
        return [op("select", [take, y, x]) for x, y in zip([*a, i], [*b, j])]

    return _core.region(body, [*[(dtype, [], False)] * parts, (index, [], False)] * 2)


def _position(a: Any, axis: Any, keepdims: bool, largest: bool) -> Tensor:
    x = to_tensor(a)
    shape = x.shape
    if axis is None:
        x, d = reshape(x, (x.size,)), 0
    else:
        d = canonical_axis(axis, x.ndim)
    if x.shape[d] == 0:
        raise ValueError(f"{'argmax' if largest else 'argmin'} of no elements (shape {shape}) does not exist")
    if x.dtype.kind == "b":
        x = astype(x, "uint8")
    x = op("stop_gradient", [_core.set_weak(x, False)])
    parts = [x.real, x.imag] if x.dtype.kind == "c" else [x]
    dtype, index = parts[0].dtype.name, "int32" if x.shape[d] < 2**31 else "int64"
    worst = scalar((lowest if largest else highest)(dtype), dtype)
    out = _core.op(
        "reduce",
        [*parts, iota(index, x.shape, d), *[worst] * len(parts), scalar(highest(index), index)],
        dimensions=[d],
        body=_region(len(parts), dtype, index, largest),
    )[-1]
    if keepdims:
        out = reshape(
            out, [1] * len(shape) if axis is None else [1 if i == d else n for i, n in enumerate(shape)]
        )
    return out


def argmax(a: Any, axis: int | None = None, out: Any = None, keepdims: bool = False) -> Tensor:
    """The first position of the largest element (NaN counts as largest), int32. ValueError for none."""
    return _position(a, axis, keepdims, True)


def argmin(a: Any, axis: int | None = None, out: Any = None, keepdims: bool = False) -> Tensor:
    """The first position of the smallest element (a NaN counts as smallest), int32. ValueError for no
    elements.
    """
    return _position(a, axis, keepdims, False)


def _all_nan_refused(x: Tensor, axis: Any, name: str) -> None:
    if x.size and _core.forceable(x) and bool(any(all(e.isnan(x), axis))):
        raise ValueError(f"{name}: a slice of shape {x.shape} holds NaN only")


def nanargmax(a: Any, axis: int | None = None, out: Any = None, keepdims: bool = False) -> Tensor:
    """`argmax` of the elements that are not NaN. ValueError, where values are known, if all are."""
    _all_nan_refused(to_tensor(a), axis, "nanargmax")
    return argmax(_no_nan(a, lowest(to_tensor(a).dtype)), axis, keepdims=keepdims)


def nanargmin(a: Any, axis: int | None = None, out: Any = None, keepdims: bool = False) -> Tensor:
    """`argmin` of the elements that are not NaN. ValueError, where values are known, if all are."""
    _all_nan_refused(to_tensor(a), axis, "nanargmin")
    return argmin(_no_nan(a, highest(to_tensor(a).dtype)), axis, keepdims=keepdims)
