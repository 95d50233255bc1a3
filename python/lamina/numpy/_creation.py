"""Functions that make arrays. The default element types are float32 and int32 (see `lamina.default_dtypes`).

`device` is where the array shall be: ValueError for a device that is not there.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _core, _devices, _exchange, dtypes
from lamina._core import Tensor
from lamina._exchange import from_dlpack
from lamina._indexing import broadcast, reshape, scalar, setitem_value
from lamina._tensor import as_type, astype, to_tensor
from lamina.numpy._common import (
    MOST_ARRAYS,
    along,
    broadcast_shapes,
    canonical_axis,
    compare,
    default_float,
    default_int,
    ew,
    full_of,
    in_place,
    in_type,
    iota,
    op,
    places,
    promote_inexact,
    select,
    shape_of,
)
from lamina.numpy._elementwise import isfinite


def _check_order(order: str | None, what: str) -> None:
    if order not in ("K", "A", "C", None):
        raise NotImplementedError(
            f"{what}: the order is 'C' (or 'K', 'A' or None), not {order!r}: arrays lie by rows"
        )


def array(
    object: Any,
    dtype: Any = None,
    copy: bool | None = True,
    order: str | None = "K",
    ndmin: int = 0,
    *,
    device: Any = None,
) -> Tensor:
    """A Tensor of a number, nested list, array or Tensor, with at least `ndmin` dimensions.

    Python floats and integers give float32 and int32 (see `lamina.default_dtypes`); a number alone is weak; NumPy
    arrays keep their type. TypeError for anything else, OverflowError for numbers that `dtype` does not hold, ValueError
    for ``copy=False`` where a copy is needed. Arrays lie by rows: an `order` of columns is not supported.
    """
    t = asarray(object, dtype, order, copy=copy, device=device)
    if t.ndim < ndmin:
        t = reshape(t, (1,) * (ndmin - t.ndim) + t.shape)
    return _core.set_weak(t, t.weak_type and dtype is None)


def asarray(
    a: Any, dtype: Any = None, order: str | None = None, *, copy: bool | None = None, device: Any = None
) -> Tensor:
    """As `array`; a Tensor of the wanted type is returned as it is, unless ``copy=True``.

    With ``copy=False`` arrays of other libraries are taken over as in `from_dlpack`. ValueError where that takes a copy,
    as it does where they are to be on another device.
    """
    _check_order(order, "asarray")
    is_tensor = isinstance(a, Tensor)
    if copy is False and is_tensor and device is not None and _devices.of(a) != _devices.find(device):
        raise ValueError(
            f"an array on {_devices.of(a)} comes to {_devices.find(device)} as a copy; leave copy out"
        )
    if copy is False and not is_tensor:
        try:
            t = from_dlpack(_as_exporter(a), device=device, copy=False)
        except (TypeError, BufferError) as e:
            raise ValueError(
                f"{type(a).__name__} cannot become a Tensor without a copy ({e}); leave copy out"
            ) from None
    else:
        t = in_type(a, dtype)
    if copy is False and dtype is not None and a.dtype != dtypes.canonical(dtype):
        raise ValueError(
            f"{a.dtype} elements cannot become {dtypes.name_of(dtype)} without a copy; leave copy out"
        )
    return _devices.placed(_core.copy(t) if copy else t, device)


def _as_exporter(a: Any) -> Any:
    """What has memory that Python's buffers show, as an object that hands it on; others as they are."""
    if hasattr(a, "__dlpack__") or _exchange.is_on_cuda(a):
        return a
    import numpy as np

    try:
        return np.asarray(memoryview(a))
    except TypeError:
        return a


def copy(a: Any, order: str | None = "K") -> Tensor:
    """A Tensor with its own value."""
    _check_order(order, "copy")
    return _core.copy(to_tensor(a))


asanyarray = ascontiguousarray = asarray


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Tensor:
    """A 1-d Tensor of the bytes of `buffer`, copied."""
    import numpy as np

    t = dtypes.canonical(dtype)
    if isinstance(dtype, np.dtype) and not dtype.isnative:
        return to_tensor(np.frombuffer(buffer, dtype, count, offset))
    if dtypes.is_foreign(t):
        bits = np.frombuffer(buffer, f"u{t.itemsize}", count, offset)
        return _core.with_dtype_bits(bits, t.name, list(bits.shape))
    return to_tensor(np.frombuffer(buffer, t.name, count, offset))


def fromfunction(function: Callable[..., Any], shape: Sequence[int], dtype: Any = None) -> Any:
    """function(*indices), with one array of indices per dimension (floats unless told)."""
    return function(*indices(shape, dtype=dtype or default_float()))


def full(shape: Any, fill_value: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """An array of `fill_value`, which is broadcast to `shape`. Of a number without `dtype` its type is weak."""
    v = in_type(fill_value, dtype)
    made = _core.set_weak(broadcast(v, shape_of(shape)), False)
    return _devices.placed(_core.set_weak(made, v.weak_type), device)


def zeros(shape: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """An array of zeros (float32 unless told)."""
    made = full_of(0, dtypes.name_of(dtype or default_float()), shape_of(shape))
    return _devices.placed(made, device)


def ones(shape: Any, dtype: Any = None, *, device: Any = None) -> Tensor:
    """An array of ones (float32 unless told)."""
    made = full_of(1, dtypes.name_of(dtype or default_float()), shape_of(shape))
    return _devices.placed(made, device)


empty = zeros


def _like(a: Any, dtype: Any, shape: Any) -> tuple[str, list[int], bool]:
    """The element type, the shape, and whether the type is weak. A ShapeDtype, which has no elements, serves as well."""
    described = hasattr(a, "shape") and hasattr(a, "dtype") and not hasattr(a, "__array__")
    t = a if described else to_tensor(a)
    name = dtypes.name_of(t.dtype if dtype is None else dtype)
    weak = dtype is None and getattr(t, "weak_type", False)
    return name, list(t.shape) if shape is None else shape_of(shape), weak


def _filled_like(value: Any, a: Any, dtype: Any, shape: Any, device: Any) -> Tensor:
    name, dims, weak = _like(a, dtype, shape)
    return _devices.placed(_core.set_weak(full_of(value, name, dims), weak), device)


def zeros_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Tensor:
    """Zeros of a's shape and type, unless told otherwise."""
    return _filled_like(0, a, dtype, shape, device)


def ones_like(a: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Tensor:
    """Ones of a's shape and type, unless told otherwise."""
    return _filled_like(1, a, dtype, shape, device)


def empty_like(prototype: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Tensor:
    """`zeros_like`: nothing is left unwritten."""
    return zeros_like(prototype, dtype, shape, device=device)


def full_like(a: Any, fill_value: Any, dtype: Any = None, shape: Any = None, *, device: Any = None) -> Tensor:
    """`fill_value` in a's shape and type, unless told otherwise."""
    name, dims, weak = _like(a, dtype, shape)
    return _core.set_weak(full(dims, fill_value, name, device=device), weak)


def arange(
    start: Any, stop: Any = None, step: Any = None, dtype: Any = None, *, device: Any = None
) -> Tensor:
    """start, start + step, ... below stop. The numbers must be known, since they give the length."""
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    for name, v in (("start", start), ("stop", stop), ("step", step)):
        if isinstance(v, Tensor) and not _core.forceable(v):
            raise TypeError(f"arange needs known numbers: the length of the result depends on its {name}")
    wide = [
        v.dtype.name for v in (start, stop, step) if getattr(v, "ndim", None) == 0 and not _core.is_number(v)
    ]
    start, stop, step = (v.item() if hasattr(v, "item") else v for v in (start, stop, step))
    if any(isinstance(v, complex) for v in (start, stop, step)):
        raise ValueError(f"arange counts along the real numbers, not from {start} to {stop} by {step}")
    if step == 0:
        raise ValueError("arange needs a step other than 0")
    n = max(0, math.ceil((stop - start) / step))
    whole = all(isinstance(v, int) for v in (start, stop, step))
    if dtype is not None:
        name = dtypes.name_of(dtype)
    elif whole:
        low, high = dtypes.extremes(default_int())
        fits = n == 0 or (low <= start <= high and low <= start + (n - 1) * step <= high)
        name = default_int() if fits and "int64" not in wide else "int64"
    else:
        name = "float64" if "float64" in wide else default_float()
    if name == "bool":
        return _devices.placed(astype(arange(start, stop, step, "int32"), "bool"), device)
    kind = dtypes.TABLE[name].kind
    if kind in "iu" and not whole:
        # As NumPy: the first two numbers, made integers, give the step.
        start, step = int(start), int(start + step) - int(start)
    # Floats are reckoned in float64, so that none is more than one rounding from the number it stands for.
    low, high = dtypes.extremes(name) if kind in "iu" else (start, step)
    reckoned = name if kind in "iu" and low <= min(start, step) and max(start, step) <= high else "int64"
    out = iota(reckoned if kind in "iu" else "float64", [n], 0)
    if step != 1:
        out = ew("multiply", out, broadcast(scalar(step, out.dtype.name), [n]))
    if start != 0:
        out = ew("add", out, broadcast(scalar(start, out.dtype.name), [n]))
    return _devices.placed(astype(out, name), device)


def linspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """`num` values at equal distances from start to stop (may be arrays); the last one is exactly stop.

    Computed with 64 bits and rounded once; those of an integer type are rounded down.
    """
    num = operator.index(num)
    if num < 0:
        raise ValueError(f"linspace needs num >= 0, not {num}")
    a, b = (_core.set_weak(t, False) for t in _ends(start, stop, dtype))
    own = a.dtype.name
    shape = broadcast_shapes(a.shape, b.shape)
    a, b = (broadcast(astype(v, "complex128" if v.dtype.kind == "c" else "float64"), shape) for v in (a, b))
    parts = num - 1 if endpoint else num
    t = along(iota("float64", [num], 0), 0, len(shape) + 1)
    step = (b - a) / parts if parts > 0 else full_of(math.nan, a.dtype.name, ())
    first, last = reshape(a, (1, *shape)), reshape(b, (1, *shape))
    out = broadcast(first, (num, *shape))
    if parts > 0:
        fraction = t / float(parts)
        # Whole multiples of the step are exact; where it overflows the ends are joined in proportion.
        joined = first * (1 - fraction) + last * fraction
        out = select(isfinite(step), first + t * step, joined)
        if endpoint:
            out = select(compare(t, float(parts), "EQ"), last, out)
    from lamina.numpy._shape import moveaxis

    out = moveaxis(out, 0, canonical_axis(axis, len(shape) + 1))
    if dtype is not None and dtypes.canonical(dtype).kind in "iu":
        out = ew("floor", out)
    out = _devices.placed(astype(out, own if dtype is None else dtype), device)
    return (out, astype(step, own)) if retstep else out


def _ends(start: Any, stop: Any, dtype: Any) -> list[Tensor]:
    """Both ends in the type that is computed in: at least as wide as the wanted one."""
    a, b = promote_inexact(start, stop)
    if dtype is None or dtypes.canonical(dtype).itemsize < 8:
        return [a, b]
    wide = "complex128" if "c" in (a.dtype.kind, dtypes.canonical(dtype).kind) else "float64"
    return [as_type(start, wide), as_type(stop, wide)]


def logspace(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: float = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Tensor:
    """base ** linspace(start, stop)."""
    t = linspace(*_ends(start, stop, dtype), num, endpoint, axis=axis)
    out = ew("power", broadcast(as_type(base, t.dtype), t.shape), t)
    return out if dtype is None else astype(out, dtype)


def geomspace(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Tensor:
    """`num` values from start to stop with a constant ratio; the ends are exact.

    Negative numbers need two negative ends; complex ones go round zero along a spiral. ValueError for an end that is
    the number 0.
    """
    if any(isinstance(end, (int, float, complex)) and end == 0 for end in (start, stop)):
        raise ValueError("geomspace cannot include 0: no ratio leads there")
    a, b = _ends(start, stop, dtype)
    sign = ew("sign", a)
    out = sign * ew("exponential", linspace(ew("log", a / sign), ew("log", b / sign), num, endpoint))
    n = along(iota("int32", [num], 0), 0, out.ndim)
    out = select(compare(n, 0, "EQ"), a, out)
    if endpoint and num > 1:
        out = select(compare(n, num - 1, "EQ"), b, out)
    from lamina.numpy._shape import moveaxis

    out = moveaxis(out, 0, canonical_axis(axis, out.ndim))
    return out if dtype is None else astype(out, dtype)


def _diagonal_mask(shape: Sequence[int], k: Any, direction: str) -> Tensor:
    """How the column of the k-th diagonal compares with each column. A traced `k` is part of the program."""
    if isinstance(k, Tensor) and k.ndim == 0 and k.dtype.kind in "iu" and not _core.forceable(k):
        k = ew("minimum", ew("maximum", astype(k, "int64"), -shape[0]), shape[1])
        k = astype(k, "int32")
    else:
        k = min(max(operator.index(k), -shape[0]), shape[1])  # beyond, there is no diagonal
    return ew("compare", iota("int32", shape, 0) + k, iota("int32", shape, 1), direction=direction)


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = None, *, device: Any = None) -> Tensor:
    """Ones on the k-th diagonal of an N x M array of zeros; `k` may be traced."""
    mask = _diagonal_mask(shape_of((N, N if M is None else M)), k, "EQ")
    return _devices.placed(astype(mask, dtype or default_float()), device)


def identity(n: int, dtype: Any = None) -> Tensor:
    """The n x n identity."""
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:
    """Ones at and below the k-th diagonal; `k` may be traced."""
    mask = _diagonal_mask(shape_of((N, N if M is None else M)), k, "GE")
    return astype(mask, dtype or default_float())


def _triangle(m: Any, k: int, lower: bool, name: str) -> Tensor:
    t = to_tensor(m)
    if t.ndim < 2:
        raise ValueError(f"{name} needs at least 2 dimensions, not shape {t.shape}")
    mask = _diagonal_mask(t.shape[-2:], k, "GE" if lower else "GT")
    zero = full_of(0, t.dtype.name, t.shape)
    return select(mask, t, zero) if lower else select(mask, zero, t)


def tril(m: Any, k: int = 0) -> Tensor:
    """`m` with zeros above the k-th diagonal of its last two dimensions."""
    return _triangle(m, k, True, "tril")


def triu(m: Any, k: int = 0) -> Tensor:
    """`m` with zeros below the k-th diagonal of its last two dimensions."""
    return _triangle(m, k, False, "triu")


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, Tensor]:
    """Row and column indices of the lower triangle of an n x m array."""
    import numpy as np

    return tuple(to_tensor(i.astype(np.int32)) for i in np.tril_indices(n, k, m))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, Tensor]:
    """Row and column indices of the upper triangle of an n x m array."""
    import numpy as np

    return tuple(to_tensor(i.astype(np.int32)) for i in np.triu_indices(n, k, m))


def diag_indices(n: int, ndim: int = 2) -> tuple[Tensor, ...]:
    """Indices of the main diagonal of an array of `ndim` dimensions of size n."""
    return (arange(n),) * ndim


def diag(v: Any, k: int = 0) -> Tensor:
    """The k-th diagonal of a 2-d array; a 2-d array with a 1-d one on its k-th diagonal."""
    t, k = to_tensor(v), operator.index(k)
    if t.ndim == 2:
        from lamina.numpy._shape import diagonal

        return diagonal(t, k)
    if t.ndim != 1:
        raise ValueError(f"diag needs 1 or 2 dimensions, not shape {t.shape}")
    n = t.size + abs(k)
    padded = op(
        "pad",
        [t, scalar(0, t.dtype.name)],
        edge_padding_low=[max(k, 0)],
        edge_padding_high=[max(-k, 0)],
        interior_padding=[0],
    )
    rows = broadcast(reshape(padded, (1, n)), (n, n))
    return select(eye(n, k=k, dtype="bool"), rows, full_of(0, t.dtype.name, (n, n)))


def diagflat(v: Any, k: int = 0) -> Tensor:
    """A 2-d array with the elements of `v` on its k-th diagonal."""
    t = to_tensor(v)
    return diag(reshape(t, (t.size,)), k)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of a 1-d array as columns. ValueError for a negative number of them."""
    t = to_tensor(x)
    if t.ndim != 1:
        raise ValueError(f"vander needs one dimension, not shape {t.shape}")
    n = t.size if N is None else shape_of(N)[0]
    if n > MOST_ARRAYS:
        raise MemoryError(
            f"vander: {n} columns, made one by one, do not fit in memory: {MOST_ARRAYS} at most"
        )
    from lamina.numpy._elementwise import power
    from lamina.numpy._shape import stack

    columns = [power(t, i) for i in (range(n) if increasing else range(n - 1, -1, -1))]
    return stack(columns, 1) if columns else zeros((t.size, 0), t.dtype)


def meshgrid(*xi: Any, indexing: str = "xy", sparse: bool = False, copy: bool = True) -> list[Tensor]:
    """Coordinate arrays of a grid over 1-d coordinates."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"indexing must be 'xy' or 'ij', not {indexing!r}")
    ts = [to_tensor(x) for x in xi]
    if any(t.ndim > 1 for t in ts):
        raise ValueError(f"meshgrid needs 1-d arrays, not shapes {[t.shape for t in ts]}")
    order = list(range(len(ts)))
    if indexing == "xy" and len(ts) > 1:
        order[0], order[1] = 1, 0
    out = [along(t, d, len(ts)) for t, d in zip(ts, order, strict=False)]
    if sparse:
        return out
    shape = broadcast_shapes(*[t.shape for t in out])
    return [broadcast(t, shape) for t in out]


def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    """The indices of a grid: stacked, or as a tuple of arrays that broadcast."""
    dims = shape_of(dimensions)
    name = dtypes.name_of(dtype or default_int())
    if sparse:
        return tuple(along(iota(name, [n], 0), d, len(dims)) for d, n in enumerate(dims))
    if not dims:
        return zeros((0,), name)
    return op(
        "concatenate", [reshape(iota(name, dims, d), (1, *dims)) for d in range(len(dims))], dimension=0
    )


def ix_(*args: Any) -> tuple[Tensor, ...]:
    """Index arrays that pick the grid of 1-d index arrays."""
    out = []
    for d, a in enumerate(args):
        t = to_tensor(places(a))
        if t.ndim != 1:
            raise ValueError(f"ix_ needs 1-d arrays, not shape {t.shape}")
        if t.dtype.kind == "b":
            from lamina.numpy._sorting import nonzero

            (t,) = nonzero(t)
        out.append(along(t, d, len(args)))
    return tuple(out)


def fill_diagonal(a: Any, val: Any, wrap: bool = False, *, inplace: bool = True) -> Tensor | None:
    """Writes `val`, repeated as needed, on the main diagonal of `a`; with ``inplace=False`` gives a new array instead.

    `wrap` goes on below the square part of a tall matrix. ValueError for one dimension, or more than two that differ.
    """
    if inplace:
        return in_place(a, fill_diagonal(a, val, wrap, inplace=False), "fill_diagonal")
    t = to_tensor(a)
    if t.ndim < 2 or (t.ndim > 2 and len(set(t.shape)) > 1):
        raise ValueError(f"fill_diagonal needs 2 dimensions, or more of one size, not shape {t.shape}")
    import numpy as np

    from lamina.numpy._shape import ravel, resize

    step = 1 + sum(math.prod(t.shape[k:]) for k in range(1, t.ndim))
    end = t.size if wrap or t.ndim > 2 else min(t.size, t.shape[1] * t.shape[1])
    places = np.arange(0, end, step)
    if not places.size:
        return t
    return reshape(
        setitem_value(ravel(t), places, resize(ravel(as_type(val, t.dtype)), places.shape)), t.shape
    )


def _windows(name: str, terms: Sequence[float]) -> Callable[[int], Tensor]:
    def window(M: int) -> Tensor:
        M = operator.index(M)
        if M <= 1:
            return ones((max(M, 0),))
        dtype = default_float()
        angle = iota(dtype, [M], 0) * (2 * math.pi / (M - 1))
        out = full_of(terms[0], dtype, [M])
        for i, c in enumerate(terms[1:], 1):
            out = out + c * ew("cosine", angle * i)
        return out

    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"The {name} window of M points, of the default float."
    return window


hamming = _windows("hamming", [0.54, -0.46])
hanning = _windows("hanning", [0.5, -0.5])
blackman = _windows("blackman", [0.42, -0.5, 0.08])

__all__ = [
    "arange",
    "array",
    "asanyarray",
    "asarray",
    "ascontiguousarray",
    "blackman",
    "copy",
    "diag",
    "diag_indices",
    "diagflat",
    "empty",
    "empty_like",
    "eye",
    "fill_diagonal",
    "frombuffer",
    "fromfunction",
    "full",
    "full_like",
    "geomspace",
    "hamming",
    "hanning",
    "identity",
    "indices",
    "ix_",
    "linspace",
    "logspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tri",
    "tril",
    "tril_indices",
    "triu",
    "triu_indices",
    "vander",
    "zeros",
    "zeros_like",
]
