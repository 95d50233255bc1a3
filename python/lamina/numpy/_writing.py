"""NumPy's functions that write to their first argument: place, putmask, copyto."""

from __future__ import annotations

from typing import Any

from lamina._core import Tensor
from lamina._indexing import broadcast, setitem_value
from lamina._tensor import as_type, to_tensor
from lamina.numpy._common import in_place, select
from lamina.numpy._elementwise import not_equal, remainder
from lamina.numpy._reductions import cumsum
from lamina.numpy._shape import ravel, reshape, resize
from lamina.numpy._sorting import take

__all__ = ["copyto", "place", "putmask"]


def _mask_of(mask: Any, t: Tensor, what: str) -> Tensor:
    m = not_equal(mask, 0)
    if m.size != t.size:
        raise ValueError(f"{what}: a mask of shape {m.shape} for an array of shape {t.shape}")
    return reshape(m, t.shape)


def place(arr: Any, mask: Any, vals: Any, *, inplace: bool = True) -> Tensor | None:
    """Writes the first values of `vals`, repeated as needed, where `mask` is set.

    With ``inplace=False`` gives a new array instead. The k-th place that is set gets the k-th value.
    ValueError for no values.
    """
    if inplace:
        return in_place(arr, place(arr, mask, vals, inplace=False), "place")
    t = to_tensor(arr)
    values = ravel(as_type(vals, t.dtype))
    if values.size == 0:
        raise ValueError("place: there are no values to place")
    m = _mask_of(mask, t, "place")
    before = ravel(cumsum(ravel(m))) - 1
    chosen = take(values, remainder(before, values.size))
    return select(m, setitem_value(t, ..., reshape(chosen, t.shape)), t)


def putmask(a: Any, mask: Any, values: Any, *, inplace: bool = True) -> Tensor | None:
    """Writes ``values[i]``, repeated to the size of `a`, at flat places i that are set.

    With ``inplace=False`` gives a new array instead.
    """
    if inplace:
        return in_place(a, putmask(a, mask, values, inplace=False), "putmask")
    t = to_tensor(a)
    return select(
        _mask_of(mask, t, "putmask"), setitem_value(t, ..., resize(as_type(values, t.dtype), t.shape)), t
    )


def copyto(
    dst: Any, src: Any, casting: str = "same_kind", where: Any = True, *, inplace: bool = True
) -> Tensor | None:
    """Writes `src`, broadcast, to `dst` where `where` is set; with ``inplace=False`` gives a new array.

    TypeError where `casting` does not let src's element type become dst's.
    """
    from lamina.numpy._dtypes import can_cast

    if inplace:
        return in_place(dst, copyto(dst, src, casting, where, inplace=False), "copyto")
    t, s = to_tensor(dst), to_tensor(src)
    if not s.weak_type and not can_cast(s.dtype, t.dtype, casting):
        raise TypeError(f"copyto cannot cast {s.dtype.name} to {t.dtype.name} by the rule {casting!r}")
    written = setitem_value(t, ..., src)
    return select(broadcast(not_equal(where, 0), t.shape), written, t)
