"""Windows, phases and bits."""

from __future__ import annotations

import math
import operator
from typing import Any

from lamina._core import Tensor
from lamina._indexing import scalar
from lamina._tensor import astype, to_tensor
from lamina.numpy._common import (
    canonical_axis,
    compare,
    default_float,
    ew,
    floating,
    full_of,
    inexact,
    reduce_op,
    select,
)
from lamina.numpy._creation import arange, ones
from lamina.numpy._elementwise import absolute, logical_and, nextafter
from lamina.numpy._padding import pad
from lamina.numpy._reductions import cumsum, diff
from lamina.numpy._shape import moveaxis, ravel, reshape

__all__ = [
    "bartlett",
    "i0",
    "kaiser",
    "packbits",
    "spacing",
    "unpackbits",
    "unwrap",
]


def i0(x: Any) -> Tensor:
    """The modified Bessel function of order 0."""
    from lamina.scipy.special import i0 as bessel

    return bessel(x)


def bartlett(M: int) -> Tensor:
    """The triangular window with M points, of the default float."""
    M = operator.index(M)
    if M <= 1:
        return ones((max(M, 0),))
    return 1.0 - absolute(2.0 * arange(M, dtype=default_float()) / (M - 1) - 1.0)


def kaiser(M: int, beta: Any) -> Tensor:
    """Kaiser's window with M points and this shape, of the default float."""
    M = operator.index(M)
    if M <= 1:
        return ones((max(M, 0),))
    x = 2.0 * arange(M, dtype=default_float()) / (M - 1) - 1.0
    return i0(beta * ew("sqrt", 1.0 - x * x)) / i0(beta)


def spacing(x: Any) -> Tensor:
    """The distance to the next float away from zero, with the sign of x; of float16, as NumPy's, to the next above."""
    t = floating(x, "spacing")
    if t.dtype == "float16":
        return nextafter(t, scalar(math.inf, "float16")) - t
    away = select(compare(t, 0.0, "LT"), -math.inf, math.inf)
    return nextafter(t, astype(away, t.dtype)) - t


def unwrap(p: Any, discont: Any = None, axis: int = -1, period: float = 2 * math.pi) -> Tensor:
    """`p` with multiples of `period` added along an axis where it jumps by more than `discont` (default half of it)."""
    t = to_tensor(p)
    t = t if t.dtype.kind == "f" or isinstance(period, int) else inexact(t)
    d = canonical_axis(axis, t.ndim)
    step = diff(t, axis=d)
    half = period / 2
    folded = (step + half) % period - half
    folded = select(logical_and(compare(folded, -half, "EQ"), compare(step, 0, "GT")), half, folded)
    limit = half if discont is None else max(half, discont)
    correction = select(compare(absolute(step), limit, "LT"), 0, folded - step)
    lead = [(0, 0)] * d + [(1, 0)] + [(0, 0)] * (t.ndim - d - 1)
    return t + astype(pad(cumsum(correction, axis=d), lead), t.dtype)


def packbits(a: Any, axis: int | None = None, bitorder: str = "big") -> Tensor:
    """Groups of eight elements, each set where it is not zero, as the bits of uint8; the last group is filled with 0."""
    t = to_tensor(a)
    if t.dtype.kind not in "biu":
        raise TypeError(f"packbits needs integers or bools, not {t.dtype.name}")
    t = t if t.dtype.kind == "b" else compare(t, 0, "NE")
    if bitorder not in ("big", "little"):
        raise ValueError(f"bitorder is 'big' or 'little', not {bitorder!r}")
    t, d = (ravel(t), 0) if axis is None else (t, canonical_axis(axis, t.ndim))
    t = moveaxis(t, d, -1)
    rest = -t.shape[-1] % 8
    t = pad(t, [(0, 0)] * (t.ndim - 1) + [(0, rest)])
    t = reshape(t, (*t.shape[:-1], t.shape[-1] // 8, 8))
    places = arange(8, dtype="uint8")
    bits = ew("shift_left", full_of(1, "uint8", (8,)), places if bitorder == "little" else 7 - places)
    return moveaxis(reduce_op(select(t, bits, 0), "or", 0, [t.ndim - 1]), -1, d)


def unpackbits(a: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Tensor:
    """The bits of uint8 elements as uint8 zeros and ones, `count` of them along the axis. TypeError for other types."""
    t = to_tensor(a)
    if t.dtype != "uint8":
        raise TypeError(f"unpackbits needs uint8 elements, not {t.dtype.name}")
    if bitorder not in ("big", "little"):
        raise ValueError(f"bitorder is 'big' or 'little', not {bitorder!r}")
    t, d = (ravel(t), 0) if axis is None else (t, canonical_axis(axis, t.ndim))
    t = moveaxis(t, d, -1)
    out = t
    for parts, width in ((2, 4), (4, 1)):  # vectors go across a last dimension of up to four elements
        places = width * arange(parts, dtype="uint8")
        fields = out[..., None] >> (places if bitorder == "little" else places[::-1])
        out = reshape(fields & (2**width - 1), (*t.shape[:-1], parts * out.shape[-1]))
    if count is not None:
        size = out.shape[-1]
        out = out[..., :count] if count <= size else pad(out, [(0, 0)] * (t.ndim - 1) + [(0, count - size)])
    return moveaxis(out, -1, d)
