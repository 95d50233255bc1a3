"""Quantiles and medians."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lamina._core import Tensor
from lamina._indexing import broadcast, getitem, reshape
from lamina._tensor import as_type, astype
from lamina.numpy import _elementwise as e
from lamina.numpy._common import canonical_axes, compare, ew, floating, known, select
from lamina.numpy._reductions import any, cumsum, sum
from lamina.numpy._shape import moveaxis
from lamina.numpy._sorting import argsort, sort, take_along_axis

__all__ = ["median", "nanmedian", "nanpercentile", "nanquantile", "percentile", "quantile"]

# Where the q-quantile of n elements in order lies between two of them: at n q + alpha + q (1 - alpha - beta), counted
# from 1 (Hyndman, Fan, "Sample quantiles in statistical packages", Am. Stat. 50, 1996).
_CONTINUOUS = {
    "interpolated_inverted_cdf": (0.0, 1.0),
    "hazen": (0.5, 0.5),
    "weibull": (0.0, 0.0),
    "linear": (1.0, 1.0),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}
_STEPS = ("inverted_cdf", "averaged_inverted_cdf", "closest_observation")
_METHODS = (*_CONTINUOUS, *_STEPS, "lower", "higher", "midpoint", "nearest")


def quantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Tensor:
    """The q-quantiles (q in 0..1, any shape, dimensions of q first) over axes; NaN where a NaN is among the
    elements.

    `method` is one of NumPy's thirteen. With inverted_cdf elements may have `weights`, of the shape of `a` or of the
    axes.
    """
    return _quantile(a, q, axis, method, keepdims, False, weights=weights)


def nanquantile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Tensor:
    """The q-quantiles of the elements that are not NaN."""
    return _quantile(a, q, axis, method, keepdims, True, weights=weights)


def percentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Tensor:
    """`quantile` with q in 0..100."""
    return _quantile(a, q, axis, method, keepdims, False, 100, weights)


def nanpercentile(
    a: Any,
    q: Any,
    axis: Any = None,
    out: Any = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Tensor:
    """`nanquantile` with q in 0..100."""
    return _quantile(a, q, axis, method, keepdims, True, 100, weights)


def median(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Tensor:
    """The middle element over axes, or the mean of the two middle ones."""
    return _quantile(a, 0.5, axis, "midpoint", keepdims, False)


def nanmedian(
    a: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, keepdims: bool = False
) -> Tensor:
    """The median of the elements that are not NaN."""
    return _quantile(a, 0.5, axis, "midpoint", keepdims, True)


def _quantile(
    a: Any,
    q: Any,
    axis: Any,
    method: str,
    keepdims: bool,
    skip_nan: bool,
    whole: int = 1,
    weights: Any = None,
) -> Tensor:
    if method not in _METHODS:
        raise ValueError(f"method must be {', '.join(_METHODS[:-1])} or {_METHODS[-1]}, not {method!r}")
    if weights is not None and method != "inverted_cdf":
        raise ValueError(f"weights need the method 'inverted_cdf', not {method!r}")
    given = known(q)
    if given is not None and not (bool((given >= 0).all()) and bool((given <= whole).all())):
        raise ValueError(f"quantiles lie between 0 and {whole}, not {q!r:.60}")
    x = floating(a, "quantile")
    axes = canonical_axes(axis, x.ndim)
    shape = x.shape
    q = ew("divide", as_type(q, x.dtype), whole) if whole != 1 else as_type(q, x.dtype)
    rest = [d for d in range(x.ndim) if d not in axes]
    n = math.prod(shape[d] for d in axes)
    if n == 0:
        raise ValueError(f"a quantile of no elements (shape {shape}) does not exist")

    def columns(t: Tensor) -> Tensor:
        t = moveaxis(t, tuple(axes), tuple(range(len(axes)))) if axes else t
        return reshape(t, (n, *[shape[d] for d in rest]))

    x = columns(x)
    order = None if weights is None else argsort(x, axis=0)
    x = sort(x, axis=0) if order is None else take_along_axis(x, order, 0)
    nans = e.isnan(x)
    flat_q = reshape(q, (q.size, *[1] * len(rest)))
    if skip_nan:
        count = sum(ew("not", nans), 0, dtype=x.dtype, keepdims=True)
        place = flat_q * e.maximum(count - 1, 0)
    else:
        count = None
        place = broadcast(flat_q * float(n - 1), (q.size, *x.shape[1:]))
    share_of = flat_q * (float(n) if count is None else count)
    if method in _CONTINUOUS and method != "linear":
        alpha, beta = _CONTINUOUS[method]
        last = float(n - 1) if count is None else e.maximum(count - 1, 0)
        place = e.clip(share_of + (alpha - 1.0 + flat_q * (1.0 - alpha - beta)), 0.0, last)
        place = broadcast(place, (q.size, *x.shape[1:]))
    low, high = ew("floor", place), ew("ceil", place)
    at = lambda p: take_along_axis(x, astype(e.clip(p, 0, float(n - 1)), "int32"), 0)  # noqa: E731
    if order is not None:
        w = take_along_axis(columns(_weights_like(weights, x.dtype, shape, axes)), order, 0)
        share = cumsum(select(nans, 0.0, w) if skip_nan else w, 0)
        wanted = flat_q * getitem(share, slice(-1, None))
        before = ew("or", compare(share[None], wanted[:, None], "LT"), compare(share, 0, "EQ")[None])
        r = at(sum(astype(before, x.dtype), 1))
    elif method == "inverted_cdf":
        r = at(ew("ceil", share_of) - 1)
    elif method == "closest_observation":
        r = at(ew("round_nearest_even", share_of) - 1)
    elif method == "averaged_inverted_cdf":
        last = float(n - 1) if count is None else e.maximum(count - 1, 0)
        r = 0.5 * (at(ew("ceil", share_of) - 1) + at(e.minimum(ew("floor", share_of), last)))
    elif method == "nearest":
        r = at(ew("round_nearest_even", place))
    elif method == "lower":
        r = at(low)
    elif method == "higher":
        r = at(high)
    else:
        a_low, a_high = at(low), at(high)
        between = 0.5 * astype(compare(place, low, "NE"), x.dtype) if method == "midpoint" else place - low
        mixed = a_low * (1 - between) + a_high * between
        # Equal ends are taken as they are, so that infinities do not become NaN; they share the derivative.
        equal = compare(a_low, a_high, "EQ")
        gap = select(ew("and", equal, e.isfinite(a_low)), a_high - a_low, 0.0)
        r = select(compare(between, 0, "EQ"), a_low, select(equal, a_low + between * gap, mixed))
    bad = compare(count, 0, "EQ") if skip_nan else any(nans, 0, keepdims=True)
    r = select(bad, math.nan, r)
    kept = [1 if d in axes else m for d, m in enumerate(shape)] if keepdims else [shape[d] for d in rest]
    return reshape(r, (*q.shape, *kept))


def _weights_like(weights: Any, dtype: Any, shape: tuple[int, ...], axes: Sequence[int]) -> Tensor:
    """Weights of elements, or of places along the axes, for every element."""
    w = as_type(weights, dtype)
    if w.shape == shape:
        return w
    along = tuple(shape[d] for d in axes)
    if w.shape != along:
        raise ValueError(f"weights have shape {w.shape}; elements have {shape}, and {along} along the axes")
    return broadcast(reshape(w, [n if d in axes else 1 for d, n in enumerate(shape)]), shape)
