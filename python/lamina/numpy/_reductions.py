"""Reductions and cumulative functions.

Sums and products of signed integers are int64 and of unsigned ones uint64, as in NumPy, so that they do not wrap;
those of booleans, which are counts, int32. Means of 64-bit integers are float64, of others float32. Half types are
added up in float32.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Sequence
from typing import Any

from lamina import _core, dtypes
from lamina._core import Tensor
from lamina._indexing import broadcast, getitem, reshape, scalar
from lamina._running import running, running_sum
from lamina._tensor import as_type, astype, describe, to_tensor
from lamina.numpy import _elementwise as e
from lamina.numpy._common import (
    along,
    broadcast_shapes,
    canonical_axes,
    canonical_axis,
    ew,
    full_of,
    highest,
    in_type,
    inexact,
    items_of,
    keep,
    lowest,
    op,
    promote,
    promote_inexact,
    reduce_op,
    select,
)
from lamina.numpy._dtypes import can_cast


def _mask(where: Any) -> Tensor:
    """The argument `where` of a reduction; TypeError where it is not boolean, as in NumPy: numbers would be counted."""
    mask = to_tensor(where)
    if mask.dtype.kind != "b":
        raise TypeError(f"`where` is a boolean mask, not {describe(mask)}: compare it with 0")
    return mask


def _start(initial: Any, dtype: Any) -> Tensor:
    """The argument `initial` of a reduction; ValueError where it is no scalar, as in NumPy."""
    value = as_type(initial, dtype)
    if value.ndim:
        raise ValueError(f"`initial` is a scalar, not of shape {value.shape}")
    return value


def _masked(x: Tensor, where: Any, fill: Any) -> Tensor:
    """`x` with `fill` where the mask is False."""
    if where is None:
        return x
    mask = _mask(where)
    shape = broadcast_shapes(x.shape, mask.shape)
    return select(mask, broadcast(x, shape), scalar(fill, x.dtype.name))


def _reduce(x: Tensor, name: str, init: Any, axis: Any, keepdims: bool) -> Tensor:
    axes = canonical_axes(axis, x.ndim)
    out = reduce_op(x, name, init, axes)
    return keep(out, x.shape, axes) if keepdims else out


def _accumulated(
    x: Tensor, name: str, init: Any, axis: Any, keepdims: bool, dtype: Any, promote_integers: bool
) -> Tensor:
    """A sum or product in a type wide enough, then in the wanted type."""
    axes = canonical_axes(axis, x.ndim)
    if dtype is None and not promote_integers:
        dtype = x.dtype
    result = (
        dtypes.name_of(dtype)
        if dtype is not None
        else _core.sum_type(x.dtype.name, math.prod(x.shape[d] for d in axes))
    )
    x = astype(x, result)
    if dtypes.sums_in_float32(result):
        return astype(_reduce(astype(x, "float32"), name, init, axis, keepdims), result)
    return _reduce(x, name, init, axis, keepdims)


def sum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Tensor:
    """The sum over some or all axes. Integers give int64 (unsigned ones uint64), booleans int32.

    Without `promote_integers` they keep their type, in which the sum may wrap.
    """
    r = _accumulated(_masked(in_type(a, dtype), where, 0), "add", 0, axis, keepdims, dtype, promote_integers)
    return r if initial is None else r + _start(initial, r.dtype)


def prod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
    promote_integers: bool = True,
) -> Tensor:
    """The product over some or all axes, in the element type of `sum`."""
    r = _accumulated(
        _masked(in_type(a, dtype), where, 1), "multiply", 1, axis, keepdims, dtype, promote_integers
    )
    return r if initial is None else r * _start(initial, r.dtype)


def _extremum(a: Any, axis: Any, keepdims: bool, initial: Any, where: Any, largest: bool) -> Tensor:
    x = to_tensor(a)
    name, worst = ("maximum", lowest) if largest else ("minimum", highest)
    axes = canonical_axes(axis, x.ndim)
    if initial is None and math.prod(x.shape[d] for d in axes) == 0:
        raise ValueError(
            f"the {name} of no elements (axes {axes} of shape {x.shape}) does not exist; give `initial`"
        )
    if x.dtype.kind == "b":
        r = _reduce(_masked(x, where, not largest), "or" if largest else "and", not largest, axis, keepdims)
    else:
        fill = worst(x.dtype.name)
        r = _reduce(_masked(x, where, fill), name, fill, axis, keepdims)
    return r if initial is None else getattr(e, name)(r, _start(initial, r.dtype))


def _needs_initial(name: str, initial: Any, where: Any) -> None:
    if initial is None and where is not None:
        raise ValueError(
            f"the {name} of no elements, which `where` may leave, does not exist; give `initial`"
        )


def max(
    a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Tensor:
    """The largest element over axes; NaN if any is. Complex elements are ordered by their real parts, then by the
    imaginary ones. ValueError without `initial` for no elements, and for `where`, which may leave none."""
    _needs_initial("maximum", initial, where)
    return _extremum(a, axis, keepdims, initial, where, True)


def min(
    a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = None
) -> Tensor:
    """The smallest element over axes, with the order and the errors of `max`."""
    _needs_initial("minimum", initial, where)
    return _extremum(a, axis, keepdims, initial, where, False)


amax, amin = max, min


def any(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = None) -> Tensor:
    """Whether any element is non-zero."""
    return _reduce(_masked(e.logical_or(a, False), where, False), "or", False, axis, keepdims)


def all(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = None) -> Tensor:
    """Whether all elements are non-zero."""
    return _reduce(_masked(e.logical_or(a, False), where, True), "and", True, axis, keepdims)


def count_nonzero(a: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """How many elements are non-zero, int32 (as the sum of booleans)."""
    return sum(e.logical_or(a, False), axis, keepdims=keepdims)


def _count(x: Tensor, axis: Any, where: Any, keepdims: bool) -> Any:
    if where is None:
        return math.prod(x.shape[d] for d in canonical_axes(axis, x.ndim))
    dtype = "float64" if x.dtype.name in ("float64", "complex128") else "float32"
    return sum(broadcast(_mask(where), x.shape), axis, dtype=dtype, keepdims=keepdims)


def _widened(a: Any) -> tuple[Tensor, str]:
    """Inexact elements, half types as float32, and the type of the result."""
    x = inexact(a)
    return (astype(x, "float32") if dtypes.sums_in_float32(x.dtype) else x), x.dtype.name


def _divided(total: Tensor, count: Any) -> Tensor:
    """total / count, NaN for nothing."""
    if isinstance(count, Tensor):
        return ew("divide", total, astype(count, total.dtype))
    return ew("divide", total, scalar(float(count), total.dtype.name))


def mean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    *,
    where: Any = None,
) -> Tensor:
    """The mean over axes; 64-bit integers give float64, others and booleans float32; half types are added up in
    float32.
    """
    x, result = _widened(in_type(a, dtype))
    total = sum(x, axis, keepdims=keepdims, where=where)
    return astype(_divided(total, _count(x, axis, where, keepdims)), result if dtype is None else dtype)


_mean = mean


def var(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    correction: float | None = None,
    mean: Any = None,
) -> Tensor:
    """The mean squared distance to the mean, with count - ddof as divisor; real for complex elements.

    NaN where count - ddof is not positive. `mean` is that mean where it is known, with the reduced axes kept as
    size 1. ValueError for a real `dtype` of complex elements, and for both `ddof` and its other name `correction`.
    """
    if correction is not None and ddof != 0:
        raise ValueError(f"ddof ({ddof}) and correction ({correction}) say the same: give one of them")
    ddof = ddof if correction is None else correction
    if dtype is not None and to_tensor(a).dtype.kind == "c" and dtypes.canonical(dtype).kind != "c":
        raise ValueError(f"var in {dtypes.name_of(dtype)} would drop the imaginary parts of complex elements")
    x, result = _widened(in_type(a, dtype))
    result = {"complex64": "float32", "complex128": "float64"}.get(result, result) if dtype is None else dtype
    centred = x - (_mean(x, axis, keepdims=True, where=where) if mean is None else to_tensor(mean))
    centred = _masked(centred, where, 0)  # before squaring: a derivative must not see what is left out
    squares = (
        e.square(centred) if x.dtype.kind != "c" else e.square(e.real(centred)) + e.square(e.imag(centred))
    )
    count = _count(x, axis, where, keepdims)
    divisor = select(count > ddof, count - ddof, math.nan) if isinstance(count, Tensor) else count - ddof
    if not isinstance(divisor, Tensor) and divisor <= 0:
        divisor = math.nan
    return astype(_divided(sum(squares, axis, keepdims=keepdims), divisor), result)


def std(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = None,
    correction: float | None = None,
    mean: Any = None,
) -> Tensor:
    """The square root of `var`."""
    return ew(
        "sqrt", var(a, axis, dtype, None, ddof, keepdims, where=where, correction=correction, mean=mean)
    )


def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Tensor:
    """max - min."""
    return ew("subtract", max(a, axis, keepdims=keepdims), min(a, axis, keepdims=keepdims))


def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False
) -> Any:
    """The mean weighted by `weights`: of a's shape, or of the sizes of the axes, in their order."""
    if weights is None:
        r = mean(a, axis, keepdims=keepdims)
        x = to_tensor(a)
        return (r, full_of(_count(x, axis, None, keepdims), r.dtype.name, r.shape)) if returned else r
    x, w = promote_inexact(a, weights)
    if w.shape != x.shape:
        if axis is None:
            raise TypeError(
                f"weights of shape {w.shape} for an array of shape {x.shape} need the axis they lie along"
            )
        axes = [canonical_axis(d, x.ndim) for d in items_of(axis)]
        if w.shape != tuple(x.shape[d] for d in axes):
            raise ValueError(
                f"weights of shape {w.shape} do not fit axis {axis} of an array of shape {x.shape}"
            )
        from lamina.numpy._shape import transpose

        w = transpose(w, sorted(range(len(axes)), key=axes.__getitem__))
        w = broadcast(reshape(w, [n if d in axes else 1 for d, n in enumerate(x.shape)]), x.shape)
    total = sum(w, axis, keepdims=keepdims)
    r = sum(x * w, axis, keepdims=keepdims) / total
    return (r, total) if returned else r


# --- without NaN ---


def _no_nan(a: Any, fill: Any) -> Tensor:
    x = to_tensor(a)
    return x if x.dtype.kind in "biu" else select(e.isnan(x), scalar(fill, x.dtype.name), x)


def nansum(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """The sum with NaN as 0."""
    return sum(_no_nan(a, 0), axis, dtype, keepdims=keepdims, initial=initial, where=where)


def nanprod(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """The product with NaN as 1."""
    return prod(_no_nan(a, 1), axis, dtype, keepdims=keepdims, initial=initial, where=where)


def _nan_extreme(a: Any, axis: Any, keepdims: bool, initial: Any, where: Any, largest: bool) -> Tensor:
    x = to_tensor(a)
    numbers = _no_nan(x, (lowest if largest else highest)(x.dtype))
    r = _extremum(numbers, axis, keepdims, initial, where, largest)
    if x.dtype.kind in "biu" or initial is not None:
        return r
    none = e.isnan(x) if where is None else ew("or", e.isnan(x), ew("not", _mask(where)))
    return select(all(none, axis, keepdims=keepdims), math.nan, r)


def nanmax(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """The largest element that is not NaN; NaN where all are, unless there is an `initial`."""
    return _nan_extreme(a, axis, keepdims, initial, where, True)


def nanmin(
    a: Any,
    axis: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = None,
) -> Tensor:
    """The smallest element that is not NaN; NaN where all are, unless there is an `initial`."""
    return _nan_extreme(a, axis, keepdims, initial, where, False)


def _numbers(a: Any, where: Any) -> Tensor:
    """Which elements are asked for and no NaN."""
    numbers = ew("not", e.isnan(a))
    return numbers if where is None else ew("and", numbers, _mask(where))


def nanmean(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    where: Any = None,
) -> Tensor:
    """The mean of the elements that are not NaN."""
    return mean(a, axis, dtype, keepdims=keepdims, where=_numbers(a, where))


def nanvar(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Tensor:
    """The variance of the elements that are not NaN, around `mean` where that is known (with the axes kept)."""
    return var(a, axis, dtype, ddof=ddof, keepdims=keepdims, where=_numbers(a, where), mean=mean)


def nanstd(
    a: Any,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: bool = False,
    where: Any = None,
    mean: Any = None,
) -> Tensor:
    """The square root of `nanvar`."""
    return ew("sqrt", nanvar(a, axis, dtype, None, ddof, keepdims, where, mean))


# --- cumulative ---


def _cumulative(a: Any, axis: int | None, dtype: Any, name: str, init: Any) -> Tensor:
    x = in_type(a, dtype)
    if axis is None:
        x, axis = reshape(x, (x.size,)), 0
    d = canonical_axis(axis, x.ndim)
    result = dtypes.name_of(dtype) if dtype is not None else _core.sum_type(x.dtype.name, x.shape[d])
    x = astype(x, "float32" if dtypes.sums_in_float32(result) else result)
    if result == "bool":
        name = {"add": "or", "multiply": "and"}[name]
    if name == "add":
        return astype(running_sum(x, d), result)
    return astype(running(name, x, scalar(init, x.dtype.name), d), result)


def cumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Tensor:
    """Running sums along an axis (flattened without one), in the element type of `sum`."""
    return _cumulative(a, axis, dtype, "add", 0)


def cumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Tensor:
    """Running products along an axis (flattened without one), in the element type of `sum`."""
    return _cumulative(a, axis, dtype, "multiply", 1)


def nancumsum(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Tensor:
    """Running sums with NaN as 0."""
    return cumsum(_no_nan(a, 0), axis, dtype)


def nancumprod(a: Any, axis: int | None = None, dtype: Any = None, out: Any = None) -> Tensor:
    """Running products with NaN as 1."""
    return cumprod(_no_nan(a, 1), axis, dtype)


def cumulative_sum(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """`cumsum` of the array API; `include_initial` puts a 0 in front. An axis is needed unless 1-d."""
    return _with_initial(x, axis, dtype, include_initial, cumsum, 0)


def cumulative_prod(
    x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """`cumprod` of the array API; `include_initial` puts a 1 in front. An axis is needed unless 1-d."""
    return _with_initial(x, axis, dtype, include_initial, cumprod, 1)


def _with_initial(x: Any, axis: int | None, dtype: Any, include: bool, f: Any, init: int) -> Tensor:
    t = to_tensor(x)
    if axis is None and t.ndim != 1:
        raise ValueError(f"cumulative sums and products of an array of shape {t.shape} need an axis")
    d = canonical_axis(axis or 0, t.ndim)
    r = f(t, d, dtype)
    if not include:
        return r
    first = full_of(init, r.dtype.name, [1 if i == d else n for i, n in enumerate(r.shape)])
    return op("concatenate", [first, r], dimension=d)


# --- differences ---


def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Tensor:
    """The n-th difference of neighbours along an axis (of booleans: whether they differ)."""
    from lamina.numpy._shape import concatenate

    x, n = to_tensor(a), operator.index(n)
    if n < 0:
        raise ValueError(f"diff needs n >= 0, not {n}")
    if n == 0:
        return x
    if x.ndim == 0:
        raise ValueError("diff needs at least one dimension")
    d = canonical_axis(axis, x.ndim)
    if prepend is not None or append is not None:
        parts = promote(*[v for v in (prepend, x, append) if v is not None])
        flat = [1 if i == d else m for i, m in enumerate(x.shape)]
        x = concatenate([v if v.ndim else broadcast(v, flat) for v in parts], d)
    key = (slice(None),) * d
    for _ in range(builtins.min(n, x.shape[d])):
        later, earlier = getitem(x, (*key, slice(1, None))), getitem(x, (*key, slice(None, -1)))
        x = ew("xor" if x.dtype.kind == "b" else "subtract", later, earlier)
    return x


def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Tensor:
    """Differences of neighbours of the flattened array, with values put before and after.

    TypeError for values of another kind: floats beside integers.
    """
    from lamina.numpy._shape import concatenate, ravel

    x = diff(ravel(ary))
    for name, v in (("to_begin", to_begin), ("to_end", to_end)):
        if v is not None and not can_cast(to_tensor(v).dtype, x.dtype, "same_kind"):
            raise TypeError(
                f"ediff1d: {name} is {describe(to_tensor(v))}, which {x.dtype.name} does not hold"
            )
    parts = [None if v is None else ravel(as_type(v, x.dtype)) for v in (to_begin, to_end)]
    return concatenate([v for v in (parts[0], x, parts[1]) if v is not None])


def _end_slope(f0: Any, f1: Any, f2: Any, d1: Any, d2: Any) -> Any:
    """The slope at the first of three places, d1 and d2 apart, of the parabola through them."""
    both = d1 + d2
    return f1 * (both / (d1 * d2)) - f0 * ((d1 + both) / (d1 * both)) - f2 * (d1 / (d2 * both))


def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Central differences per axis; at the ends one-sided ones, or with `edge_order` 2 the slopes of parabolas.

    Spacings are numbers or 1-d coordinates. ValueError for fewer than edge_order + 1 elements along an axis, TypeError
    for another number of spacings than none, one, or one per axis.
    """
    from lamina.numpy._shape import concatenate

    if edge_order not in (1, 2):
        raise ValueError(f"gradient has the edge_order 1 or 2, not {edge_order!r}")
    if isinstance(f, (list, tuple)):  # whose numbers take the type of the spacings
        f = promote(f, *varargs)[0]
    x = inexact(f)
    axes = list(range(x.ndim)) if axis is None else [canonical_axis(d, x.ndim) for d in items_of(axis)]
    spacing: Sequence[Any] = varargs if len(varargs) > 1 else list(varargs or (1.0,)) * len(axes)
    if len(spacing) != len(axes):
        raise TypeError(f"gradient needs no spacing, one, or {len(axes)}, not {len(varargs)}")
    out = []
    for d, h in zip(axes, spacing, strict=False):
        if x.shape[d] <= edge_order:
            raise ValueError(
                f"gradient needs at least {edge_order + 1} elements along axis {d}, not {x.shape[d]}"
            )

        def cut(v: Tensor, first: int | None, stop: int | None, d: int = d) -> Tensor:
            return getitem(v, (*(slice(None),) * d, slice(first, stop)))

        h = as_type(h, x.dtype) if isinstance(h, (list, tuple)) else to_tensor(h)
        n = x.shape[d]
        if h.ndim == 0 and edge_order == 1:  # one kernel, which divides each rise once
            rises = [
                cut(x, 1, 2) - cut(x, 0, 1),
                cut(x, 2, None) - cut(x, None, -2),
                cut(x, -1, None) - cut(x, -2, -1),
            ]
            widths = [
                broadcast(w, [r.shape[d] if i == d else 1 for i in range(x.ndim)])
                for w, r in zip((h, 2.0 * h, h), rises, strict=True)
            ]
            out.append(concatenate(rises, d) / concatenate(widths, d))
            continue
        if h.ndim == 0:
            inside = (cut(x, 2, None) - cut(x, None, -2)) / (2.0 * h)
            steps = broadcast(h, [n - 1 if i == d else 1 for i in range(x.ndim)])
        else:
            if h.shape != (n,):
                raise ValueError(f"coordinates of shape {h.shape} do not fit axis {d} of size {n}")
            steps = along(diff(inexact(h)), d, x.ndim)
            rises = diff(x, axis=d) / steps
            before, after = cut(steps, None, -1), cut(steps, 1, None)
            inside = (cut(rises, None, -1) * after + cut(rises, 1, None) * before) / (before + after)
            first, last = cut(rises, 0, 1), cut(rises, -1, None)
        if edge_order == 2:
            ends = [cut(x, i, i + 1 or None) for i in (0, 1, 2, -1, -2, -3)]
            first = _end_slope(*ends[:3], cut(steps, 0, 1), cut(steps, 1, 2))
            last = -_end_slope(*ends[3:], cut(steps, -1, None), cut(steps, -2, -1))
        out.append(concatenate([first, inside, last], d))
    return out[0] if len(out) == 1 else out


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Tensor:
    """The integral by the trapezoid rule along an axis, of samples at `x` (1-d, or of y's rank) or `dx` apart.

    An array of distances is broadcast against the n - 1 intervals.
    """
    t, other = promote_inexact(y, dx if x is None else x)
    d = canonical_axis(axis, t.ndim)
    key = (slice(None),) * d
    pairs = getitem(t, (*key, slice(1, None))) + getitem(t, (*key, slice(None, -1)))
    if x is not None:
        other = along(diff(other, axis=0), d, t.ndim) if other.ndim == 1 else diff(other, axis=axis)
    return sum(pairs * other * 0.5, axis)


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Tensor:
    """Covariances between the rows (or columns) of up to 2 dimensions.

    Each observation may have a number of times that it counts (`fweights`) and a weight (`aweights`).
    """
    from lamina.numpy._linear import matmul
    from lamina.numpy._shape import atleast_2d, concatenate, squeeze, transpose

    if dtype is not None and dtypes.canonical(dtype).kind not in "fc":
        raise ValueError(f"cov and corrcoef compute in a float or complex type, not {dtypes.name_of(dtype)}")

    def variables(v: Any) -> Tensor:
        t = inexact(in_type(v, dtype))
        if t.ndim > 2:
            raise ValueError(f"cov needs at most 2 dimensions, not shape {t.shape}")
        rows = atleast_2d(t)
        return rows if rowvar or t.ndim < 2 else transpose(rows)

    x = variables(m)
    if y is not None:
        x = concatenate([x, variables(y)], 0)
    if aweights is not None and dtype is None:
        x = astype(x, promote(x, aweights)[0].dtype)
    if ddof is not None and ddof != int(ddof):
        raise ValueError(f"cov: ddof is an integer, not {ddof}")
    if fweights is not None and to_tensor(fweights).dtype.kind not in "iu":
        raise TypeError(f"cov: fweights are integers, not {describe(to_tensor(fweights))}")
    less = ddof if ddof is not None else 0 if bias else 1
    weights = None
    for name, w in (("fweights", fweights), ("aweights", aweights)):
        if w is not None:
            w = astype(to_tensor(w), x.dtype if x.dtype.kind == "f" else e.real(x).dtype)
            if w.shape != (x.shape[1],):
                raise ValueError(f"cov: {name} have shape {w.shape} for {x.shape[1]} observations")
            weights = w if weights is None else weights * w
    if weights is None:
        divisor: Any = builtins.max(x.shape[1] - less, 0)
        centred = x - mean(x, 1, keepdims=True)
        return squeeze(_divided(matmul(centred, e.conj(transpose(centred))), divisor))
    total = sum(weights)
    own = 1.0 if aweights is None else sum(weights * astype(to_tensor(aweights), weights.dtype)) / total
    centred = x - sum(x * weights, 1, keepdims=True) / total
    return squeeze(matmul(centred, e.conj(transpose(centred * weights))) / e.maximum(total - less * own, 0))


def corrcoef(x: Any, y: Any = None, rowvar: bool = True, dtype: Any = None) -> Tensor:
    """Correlations between the rows (or columns)."""
    c = cov(x, y, rowvar, dtype=dtype)
    if c.ndim == 0:
        return c / c
    from lamina.numpy._shape import diagonal

    scale = ew("sqrt", e.real(diagonal(c)))
    return c / reshape(scale, (scale.size, 1)) / reshape(scale, (1, scale.size))


__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "average",
    "corrcoef",
    "count_nonzero",
    "cov",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "ediff1d",
    "gradient",
    "max",
    "mean",
    "min",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
    "prod",
    "ptp",
    "std",
    "sum",
    "trapezoid",
    "var",
]
