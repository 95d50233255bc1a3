"""Elements added around an array: `pad` in NumPy's modes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina import _core
from lamina._core import Tensor
from lamina._indexing import broadcast, getitem
from lamina._tensor import as_type, describe, to_tensor
from lamina.numpy import _elementwise as e
from lamina.numpy import _quantiles, _reductions
from lamina.numpy._common import canonical_axis, op
from lamina.numpy._shape import concatenate, flip, squeeze, take_along

_STATISTICS: dict[str, Callable[..., Tensor]] = {
    "maximum": _reductions.max,
    "minimum": _reductions.min,
    "mean": _reductions.mean,
    "median": _quantiles.median,
}
# The modes, and the keyword that each takes.
_KEYWORDS = {
    "constant": "constant_values",
    "empty": "",
    "edge": "",
    "reflect": "reflect_type",
    "symmetric": "reflect_type",
    "wrap": "",
    "linear_ramp": "end_values",
    **dict.fromkeys(_STATISTICS, "stat_length"),
}


def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Tensor:
    """Elements added around an array.

    Modes: "constant" (`constant_values=0`), "empty", "edge", "reflect" and "symmetric" (of `reflect_type` "even", or
    "odd": about the outermost element), "wrap", "linear_ramp" (to `end_values=0`), "maximum", "minimum", "mean" and
    "median" (of the outermost `stat_length` elements, all without it; integers are rounded), or a function (vector,
    widths, axis, kwargs) that returns each padded vector. Widths and values are one, a pair, or a pair per axis.
    ValueError for negative widths, for empty axes that have nothing to repeat and for keywords of other modes;
    NotImplementedError for other modes.
    """
    t = to_tensor(array)
    widths = _pairs(pad_width, t.ndim, "pad_width")
    if any(w < 0 for pair in widths for w in pair):
        raise ValueError(f"pad_width cannot be negative: {pad_width}")
    if callable(mode):
        return _by_function(_constant(t, widths, 0), widths, mode, kwargs)
    if mode not in _KEYWORDS:
        raise NotImplementedError(f"pad mode {mode!r}; use {', '.join(_KEYWORDS)}, or a function")
    _check_keywords(mode, kwargs)
    if mode in ("constant", "empty"):
        return _constant(t, widths, kwargs.get("constant_values", 0))
    reflect_type = kwargs.get("reflect_type", "even")
    if reflect_type not in ("even", "odd"):
        raise ValueError(f"reflect_type is 'even' or 'odd', not {reflect_type!r}")
    ends = _pairs_of_values(kwargs.get("end_values", 0), t.ndim)
    lengths = _pairs_of_values(kwargs.get("stat_length"), t.ndim)
    for d, (before, after) in enumerate(widths):
        if not (before or after):
            continue
        if t.shape[d] == 0:
            raise ValueError(f"cannot pad the empty axis {d} of {describe(t)} in mode {mode!r}")
        if mode == "linear_ramp":
            t = _ramp(t, d, before, after, ends[d])
        elif mode in _STATISTICS:
            t = _statistic(t, d, before, after, _STATISTICS[mode], lengths[d])
        elif reflect_type == "odd" and mode in ("reflect", "symmetric"):
            t = _odd(t, d, before, after, mode == "symmetric")
        else:
            t = _indexed(t, d, before, after, mode)
    return t


def _check_keywords(mode: str, kwargs: dict[str, Any]) -> None:
    """TypeError for keywords that no mode has, ValueError for those of other modes."""
    for name in kwargs:
        if name not in _KEYWORDS.values():
            raise TypeError(f"pad has no argument {name!r}")
        if name != _KEYWORDS[mode]:
            takers = " and ".join(repr(m) for m, taken in _KEYWORDS.items() if taken == name)
            raise ValueError(f"pad in mode {mode!r} has no use for {name}, which is an argument of {takers}")


def _part(t: Tensor, d: int, start: int | None, stop: int | None) -> Tensor:
    return getitem(t, (*(slice(None),) * d, slice(start, stop)))


def _constant(t: Tensor, widths: list[tuple[int, int]], constant_values: Any) -> Tensor:
    values = _pairs_of_values(constant_values, t.ndim)
    zeros = [0] * t.ndim
    for d, (before, after) in enumerate(widths):
        for n, value, low in ((before, values[d][0], True), (after, values[d][1], False)):
            if n:
                edge = [n if i == d else 0 for i in range(t.ndim)]
                t = op(
                    "pad",
                    [t, as_type(value, t.dtype)],
                    edge_padding_low=edge if low else zeros,
                    edge_padding_high=zeros if low else edge,
                    interior_padding=zeros,
                )
    return t


def _indexed(t: Tensor, d: int, before: int, after: int, mode: str) -> Tensor:
    import numpy as np

    index = np.pad(np.arange(t.shape[d], dtype=np.int32), (before, after), mode)
    return take_along(t, to_tensor(index), d)


def _ramp(t: Tensor, d: int, before: int, after: int, ends: tuple[Any, Any]) -> Tensor:
    from lamina.numpy._creation import linspace

    def ramp(end: Any, edge: Tensor, n: int) -> Tensor:
        return linspace(as_type(end, t.dtype), squeeze(edge, d), n, endpoint=False, dtype=t.dtype, axis=d)

    first, last = _part(t, d, 0, 1), _part(t, d, -1, None)
    return concatenate([ramp(ends[0], first, before), t, flip(ramp(ends[1], last, after), d)], d)


def _statistic(
    t: Tensor, d: int, before: int, after: int, of: Callable[..., Tensor], lengths: tuple[Any, Any]
) -> Tensor:
    n = t.shape[d]

    def value(part: Tensor, count: int) -> Tensor:
        v = of(as_type(part, "float64") if t.dtype.kind in "iu" else part, axis=d, keepdims=True)
        v = v if v.dtype == t.dtype else as_type(e.round(v) if t.dtype.kind in "iu" else v, t.dtype)
        return broadcast(v, [count if i == d else m for i, m in enumerate(t.shape)])

    low, high = (n if k is None else min(int(k), n) for k in lengths)
    return concatenate([value(_part(t, d, 0, low), before), t, value(_part(t, d, n - high, None), after)], d)


def _odd(t: Tensor, d: int, before: int, after: int, symmetric: bool) -> Tensor:
    """Reflected through the outermost element, as often as needed."""
    period = t.shape[d] - (not symmetric)
    if period == 0:
        return _indexed(t, d, before, after, "edge")
    skip = int(not symmetric)
    while before > 0:
        n = min(before, period)
        image = 2 * _part(t, d, 0, 1) - flip(_part(t, d, skip, skip + n), d)
        t, before = concatenate([image, t], d), before - n
    while after > 0:
        n, size = min(after, period), t.shape[d]
        image = 2 * _part(t, d, -1, None) - flip(_part(t, d, size - skip - n, size - skip), d)
        t, after = concatenate([t, image], d), after - n
    return t


def _by_function(
    t: Tensor, widths: list[tuple[int, int]], f: Callable[..., Any], kwargs: dict[str, Any]
) -> Tensor:
    from lamina.numpy._sorting import apply_along_axis

    for d, pair in enumerate(widths):

        def padded(vector: Tensor, d: int = d, pair: tuple[int, int] = pair) -> Tensor:
            out = f(vector, pair, d, kwargs)
            return vector if out is None else out

        t = apply_along_axis(padded, d, t)
    return t


def _pairs(widths: Any, ndim: int, name: str) -> list[tuple[int, int]]:
    import numpy as np

    if isinstance(widths, dict):
        by_axis = {canonical_axis(k, ndim): v for k, v in widths.items()}
        widths = [by_axis.get(d, (0, 0)) for d in range(ndim)]
        widths = [w if isinstance(w, (tuple, list)) else (w, w) for w in widths]
    try:
        given = np.asarray(widths)
        if given.dtype.kind == "O" and all(isinstance(w, int) for w in given.flat):
            raise OverflowError(f"{name} does not fit 64 bits: {widths!r}")
        if given.size and given.dtype.kind not in "biu":
            raise TypeError(f"{name} is an integer, a pair or {ndim} pairs of integers, not {widths!r}")
        return [(int(a), int(b)) for a, b in np.broadcast_to(given, (ndim, 2))]
    except ValueError:
        raise ValueError(f"{name} is an integer, a pair or {ndim} pairs, not {widths!r}") from None


def _pairs_of_values(values: Any, ndim: int) -> list[tuple[Any, Any]]:
    if values is None or _core.is_number(values) or getattr(values, "ndim", None) == 0:
        return [(values, values)] * ndim
    items = list(values)
    if items and (isinstance(items[0], (list, tuple)) or getattr(items[0], "ndim", 0) == 1):
        pairs = [(i[0], i[-1]) for i in items]
        return pairs * (ndim if len(pairs) == 1 else 1)
    return [(items[0], items[-1])] * ndim


__all__ = ["pad"]
