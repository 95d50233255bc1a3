"""Windows: reduce_window, select_and_scatter, pooling, and the padding they share with convolutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina import _core
from lamina._core import Tensor
from lamina.lax import _elementwise as ew
from lamina.lax._base import const, describe, ints, joined, limit, monoid, op, to_tensor
from lamina.lax._reduce import combining, operands_and_inits, scalar_region
from lamina.tree import tree_unflatten

Padding = str | Sequence[tuple[int, int]]


def dilate(size: int, dilation: int) -> int:
    """Extent of `size` elements `dilation` apart."""
    return 0 if size == 0 else 1 + dilation * (size - 1)


def padtype_to_pads(
    in_shape: Sequence[int], window_shape: Sequence[int], window_strides: Sequence[int], padding: str
) -> list[tuple[int, int]]:
    """(low, high) per dimension for "SAME", "SAME_LOWER" or "VALID"."""
    name = padding.upper() if isinstance(padding, str) else padding
    if name == "VALID":
        return [(0, 0)] * len(in_shape)
    if name not in ("SAME", "SAME_LOWER"):
        raise ValueError(f"padding {padding!r} is not SAME, SAME_LOWER, VALID or (low, high) pairs")
    pads = []
    if any(s < 1 for s in window_strides):
        raise ValueError(f"window_strides {tuple(window_strides)} are not all positive")
    sizes = (ints(x, "sizes of windows") for x in (in_shape, window_shape, window_strides))
    for n, w, s in zip(*sizes, strict=True):
        total = max((-(-n // s) - 1) * s + w - n, 0)
        small, big = total // 2, total - total // 2
        pads.append((small, big) if name == "SAME" else (big, small))
    return pads


def pads_of(
    padding: Padding, in_shape: Sequence[int], window: Sequence[int], strides: Sequence[int]
) -> list[int]:
    """Padding of any kind as a flat list low, high, low, high, ..."""
    pairs = padtype_to_pads(in_shape, window, strides, padding) if isinstance(padding, str) else padding
    flat = [n for pair in pairs for n in ints(pair, "padding")]
    if len(flat) != 2 * len(in_shape):
        raise ValueError(f"padding {padding!r} is not {len(in_shape)} pairs (low, high)")
    return flat


def _list(value: Sequence[int] | None, rank: int, what: str) -> list[int]:
    out = [1] * rank if value is None else ints(value, what)
    if len(out) != rank:
        raise ValueError(f"{what} {tuple(out)} needs one entry for each of {rank} dimensions")
    return out


def _window(
    t: Tensor,
    size: Sequence[int],
    strides: Sequence[int] | None,
    padding: Padding,
    base: Sequence[int] | None,
    hole: Sequence[int] | None,
) -> dict[str, list[int]]:
    n = t.ndim
    w, s = _list(size, n, "window_dimensions"), _list(strides, n, "window_strides")
    b, h = _list(base, n, "base_dilation"), _list(hole, n, "window_dilation")
    extent = [dilate(a, c) for a, c in zip(w, h, strict=True)]
    pads = pads_of(padding, [dilate(a, c) for a, c in zip(t.shape, b, strict=True)], extent, s)
    return {
        "window_dimensions": w,
        "window_strides": s,
        "base_dilations": b,
        "window_dilations": h,
        "padding": pads,
    }


def reduce_window(
    operand: Any,
    init_value: Any,
    computation: Callable[[Any, Any], Any] | str,
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> Any:
    """Every window of the operand combined to one element by an associative computation on scalars.

    Of a container of arrays of one shape, whose initial values have its structure, `computation(a, b)` takes and
    returns that structure.
    """
    arrays, starts, treedef = operands_and_inits("reduce_window", operand, init_value)
    first = arrays[0]
    named = computation if isinstance(computation, str) else _NAMES.get(computation)
    if named is not None and len(arrays) == 1:
        body = monoid(named, str(first.dtype))
    else:
        body = combining("reduce_window", computation, arrays, treedef)
    window = _window(first, window_dimensions, window_strides, padding, base_dilation, window_dilation)
    return tree_unflatten(treedef, _core.op("reduce_window", [*arrays, *starts], body=body, **window))


_NAMES = {
    ew.add: "add",
    ew.mul: "multiply",
    ew.max: "maximum",
    ew.min: "minimum",
    ew.bitwise_or: "or",
    ew.bitwise_and: "and",
}


def select_and_scatter(
    operand: Any,
    select: Callable[[Any, Any], Any],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int] | None,
    padding: Padding,
    source: Any,
    init_value: Any,
    scatter: Callable[[Any, Any], Any],
) -> Tensor:
    """For every window the element that `select` keeps gets the window's source element.

    Combined by `scatter`.
    """
    t = to_tensor(operand)
    types = [(str(t.dtype), [], False)] * 2
    window = _window(t, window_dimensions, window_strides, padding, None, None)
    start = joined(init_value, t.dtype)
    return op(
        "select_and_scatter",
        t,
        to_tensor(source),
        start,
        select=scalar_region("select_and_scatter", lambda p: select(p[0], p[1]), types, 1),
        scatter=scalar_region("select_and_scatter", lambda p: scatter(p[0], p[1]), types, 1),
        **{k: window[k] for k in ("window_dimensions", "window_strides", "padding")},
    )


def _spatial(
    t: Tensor, window: Sequence[int], strides: Sequence[int] | None, padding: Padding, channel_last: bool
) -> tuple[list[int], list[int], Padding]:
    """Window, strides and padding of all dimensions from those of the spatial ones."""
    w = ints(window, "window_shape")
    s = list(w) if strides is None else ints(strides, "strides")
    if t.ndim != len(w) + 2 or len(s) != len(w):
        raise ValueError(
            f"pooling {describe(t)} needs {t.ndim - 2} window sizes and strides, not {w} and {s}"
        )

    def around(xs: list[Any], fill: Any) -> list[Any]:
        return [fill, *xs, fill] if channel_last else [fill, fill, *xs]

    pads = padding if isinstance(padding, str) else around(list(padding), (0, 0))
    return around(w, 1), around(s, 1), pads


def max_pool(
    x: Any,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    channel_last: bool = False,
) -> Tensor:
    """Maxima of windows of [batch, channel, spatial...] (or channel last).

    Strides are the window's by default.
    """
    t = to_tensor(x)
    w, s, pads = _spatial(t, window_shape, strides, padding, channel_last)
    window = _window(t, w, s, pads, None, None)
    return op("reduce_window", t, limit(t.dtype, -1), body=monoid("maximum", str(t.dtype)), **window)


def avg_pool(
    x: Any,
    window_shape: Sequence[int],
    strides: Sequence[int] | None = None,
    padding: Padding = "VALID",
    channel_last: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Means of windows of [batch, channel, spatial...] (or channel last).

    Strides are the window's by default.
    """
    t = to_tensor(x)
    w, s, pads = _spatial(t, window_shape, strides, padding, channel_last)
    window, body = _window(t, w, s, pads, None, None), monoid("add", str(t.dtype))
    total = op("reduce_window", t, const(0, t.dtype), body=body, **window)
    if count_include_pad:
        size = 1
        for n in w:
            size *= n
        return _core.elementwise("divide", total, const(size, t.dtype))
    ones = op("broadcast_in_dim", const(1, t.dtype), shape=list(t.shape))
    count = op("reduce_window", ones, const(0, t.dtype), body=body, **window)
    return _core.elementwise("divide", total, count)
