"""Statistics of samples: ranks, the most frequent value, the standard error of the mean."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from lamina import lax
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina.numpy._common import canonical_axis, default_float, inexact

__all__ = ["mode", "rankdata", "sem"]

_POLICY = (
    "nan_policy is {}: a value cannot be left out or refused where it is not known; mask or test it before"
)


class ModeResult(NamedTuple):
    """The most frequent values, and how often each occurs."""

    mode: Tensor
    count: Tensor


def _propagates(nan_policy: str, others: tuple[str, ...] = ()) -> None:
    if nan_policy in ("propagate", *others):
        return
    if nan_policy in ("omit", "raise"):
        raise NotImplementedError(_POLICY.format(repr(nan_policy)))
    raise ValueError(f"nan_policy is 'propagate', 'omit' or 'raise', not {nan_policy!r}")


def _rows(a: Any, axis: int | None) -> tuple[Tensor, int]:
    """`a` with the axis last, flat for None, and where it was."""
    t = lnp.atleast_1d(to_tensor(a))
    if axis is None:
        return lnp.ravel(t), 0
    axis = canonical_axis(axis, t.ndim)
    return lnp.moveaxis(t, axis, -1), axis


def _starts(rows: Tensor) -> Tensor:
    """Where a new value begins in sorted rows; NaNs are one value."""
    same = (rows[..., 1:] == rows[..., :-1]) | ((rows != rows)[..., 1:] & (rows != rows)[..., :-1])
    return lnp.concatenate([lnp.ones((*rows.shape[:-1], 1), bool), ~same], axis=-1)


def rankdata(
    a: Any, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Tensor:
    """The ranks of the elements along an axis (None: of all, flat), from 1, of the default float.

    Equal elements share the `method` of their places: "average", "min" or "max"; "dense" counts values instead of
    places; "ordinal" keeps their order. All ranks beside a NaN are NaN. ValueError for another method.
    """
    _propagates(nan_policy)
    if method not in ("average", "min", "max", "dense", "ordinal"):
        raise ValueError(f"rankdata: method is 'average', 'min', 'max', 'dense' or 'ordinal', not {method!r}")
    rows, axis_was = _rows(a, axis)
    n, last = rows.shape[-1], rows.ndim - 1
    order = lnp.argsort(rows, axis=-1, stable=True)
    places = lax.broadcasted_iota("int32", rows.shape, last)
    if n == 0 or method == "ordinal":
        ranks = places + 1
    else:
        new = _starts(lnp.take_along_axis(rows, order, -1))
        ends = lnp.concatenate([new[..., 1:], lnp.ones_like(new[..., :1])], axis=-1)
        low = lax.cummax(lnp.where(new, places + 1, 0), last)
        high = lax.cummin(lnp.where(ends, places + 1, n), last, reverse=True)
        ranks = {
            "min": low,
            "max": high,
            "average": 0.5 * lnp.astype(low + high, default_float()),
            "dense": lnp.cumsum(new, -1),
        }[method]
    ranks = lnp.astype(lnp.take_along_axis(ranks, lnp.argsort(order, axis=-1), -1), default_float())
    ranks = lnp.where(lnp.any(rows != rows, axis=-1, keepdims=True), math.nan, ranks)
    return lnp.moveaxis(ranks, -1, axis_was)


def mode(a: Any, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False) -> ModeResult:
    """The most frequent value along an axis (None: of all), the least of several, and how often it occurs.

    NaNs count as one value; along an empty axis it is NaN, 0 times.
    """
    _propagates(nan_policy)
    rows, axis_was = _rows(a, axis)
    kept = [1] * lnp.ndim(a) if axis is None else [*rows.shape[:axis_was], 1, *rows.shape[axis_was:-1]]
    shape = kept if keepdims else list(rows.shape[:-1])
    if rows.shape[-1] == 0:
        return ModeResult(lnp.full(shape, math.nan), lnp.zeros(shape, "int32"))
    rows = lnp.sort(rows, axis=-1)
    places = lax.broadcasted_iota("int32", rows.shape, rows.ndim - 1)
    lengths = places - lax.cummax(lnp.where(_starts(rows), places, 0), rows.ndim - 1) + 1
    most = lnp.argmax(lengths, axis=-1, keepdims=True)
    found = [lnp.reshape(lnp.take_along_axis(x, most, -1), shape) for x in (rows, lengths)]
    return ModeResult(*found)


def sem(
    a: Any, axis: int | None = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Tensor:
    """The standard error of the mean along an axis (None: of all): the deviation over the root of the count.

    With nan_policy="omit" without the NaNs.
    """
    _propagates(nan_policy, ("omit",))
    t = inexact(a)
    if nan_policy == "omit":
        count = lnp.sum(~lnp.isnan(t), axis, keepdims=keepdims)
        return lnp.nanstd(t, axis, ddof=ddof, keepdims=keepdims) / lnp.sqrt(lnp.astype(count, t.dtype))
    size = t.size if axis is None else t.shape[canonical_axis(axis, t.ndim)]
    return lnp.std(t, axis, ddof=ddof, keepdims=keepdims) / math.sqrt(size)
