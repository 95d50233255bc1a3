"""Activations, softmaxes and initializers; names and meanings as in jax.nn.

Activations take arrays of any shape with float elements (integers become floats) and keep shape and element
type.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from lamina import _core, _missing, _results, initializers, lax
from lamina._core import Tensor
from lamina._indexing import broadcast, broadcast_shapes
from lamina._smooth import log_one_plus_exp
from lamina._tensor import describe, to_tensor
from lamina.lax._base import axes_of, axis_of, const, like

__all__ = [
    "celu",
    "dot_product_attention",
    "elu",
    "gelu",
    "glu",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "identity",
    "initializers",
    "leaky_relu",
    "log1mexp",
    "log_sigmoid",
    "log_softmax",
    "logmeanexp",
    "logsumexp",
    "mish",
    "one_hot",
    "relu",
    "relu6",
    "scaled_matmul",
    "selu",
    "sigmoid",
    "silu",
    "soft_sign",
    "softmax",
    "softplus",
    "sparse_plus",
    "sparse_sigmoid",
    "squareplus",
    "standardize",
    "swish",
    "tanh",
]

sys.modules["lamina.nn.initializers"] = initializers  # `import lamina.nn.initializers` finds it

_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def _float(x: Any) -> Tensor:
    t = to_tensor(x)
    return t if t.dtype.kind in "fc" else _core.recast(t, _core.inexact_type(t.dtype.name))


def _where(condition: Tensor, x: Any, y: Any) -> Tensor:
    return _core.elementwise("select", condition, x, y)


def _divide(x: Tensor, y: Tensor) -> Tensor:
    return _core.elementwise("divide", x, y)


def identity(x: Any) -> Tensor:
    """x."""
    return to_tensor(x)


def relu(x: Any) -> Tensor:
    """max(x, 0); its derivative at 0 and NaN is 0. Bools become integers."""
    t = to_tensor(x)
    if t.dtype == "bool":
        t = lax.convert_element_type(t, "int32")
    positive = _core.elementwise("compare", t, like(t, 0), direction="GT")
    below = like(t, 0)
    if t.dtype.kind == "f":
        below = _where(lax.is_nan(t), lax.stop_gradient(t), below)
    return _where(positive, t, below)


def relu6(x: Any) -> Tensor:
    """min(max(x, 0), 6), a float."""
    t = relu(_float(x))
    return _where(_core.elementwise("compare", t, like(t, 6), direction="GE"), like(t, 6), t)


def sigmoid(x: Any) -> Tensor:
    """1 / (1 + exp(-x))."""
    return lax.logistic(_float(x))


def log_sigmoid(x: Any) -> Tensor:
    """log(sigmoid(x)), without overflow."""
    return -softplus(-_float(x))


def softplus(x: Any) -> Tensor:
    """log(1 + exp(x)), without overflow."""
    return log_one_plus_exp(_float(x))


def log1mexp(x: Any) -> Tensor:
    """log(1 - exp(-x)) for x > 0, exact at both ends (Maechler, "Accurately computing log(1 - exp(-|a|))", 2012)."""
    t = _float(x)
    small = t < math.log(2)
    near = lax.log(-lax.expm1(-_where(small, t, like(t, 0.5))))
    far = lax.log1p(-lax.exp(-_where(small, like(t, 1.0), t)))
    return _where(small, near, far)


def sparse_plus(x: Any) -> Tensor:
    """0 below -1, x above 1, (x + 1)^2 / 4 between."""
    t = _float(x)
    low, high = t <= -1.0, t >= 1.0
    # The square is taken of what it is used for only: infinities have no derivative there.
    middle = lax.square(_where(low | high, like(t, 0), t) + 1) * 0.25
    return _where(low, like(t, 0), _where(high, t, middle))


def sparse_sigmoid(x: Any) -> Tensor:
    """Derivative of sparse_plus: (x + 1) / 2 limited to 0..1."""
    t = _float(x)
    return lax.min(lax.max(t + 1, like(t, 0)), like(t, 2)) * 0.5


def soft_sign(x: Any) -> Tensor:
    """x / (1 + |x|)."""
    t = _float(x)
    return _divide(t, lax.abs(t) + 1)


def silu(x: Any) -> Tensor:
    """x * sigmoid(x)."""
    t = _float(x)
    return t * lax.logistic(t)


swish = silu


def mish(x: Any) -> Tensor:
    """x * tanh(softplus(x))."""
    t = _float(x)
    return t * lax.tanh(softplus(t))


def tanh(x: Any) -> Tensor:
    """Hyperbolic tangent."""
    return lax.tanh(_float(x))


def hard_tanh(x: Any) -> Tensor:
    """x limited to -1..1."""
    t = to_tensor(x)
    return _where(t > 1, like(t, 1), _where(t < -1, like(t, -1), t))


def hard_sigmoid(x: Any) -> Tensor:
    """relu6(x + 3) / 6."""
    t = _float(x)
    return _divide(relu6(t + 3), like(t, 6))


def hard_silu(x: Any) -> Tensor:
    """x * hard_sigmoid(x)."""
    t = _float(x)
    return t * hard_sigmoid(t)


hard_swish = hard_silu


def _negative_part(t: Tensor) -> Tensor:
    """t where it is not positive, else 0: what functions that overflow for large t are given."""
    return _where(t > 0, like(t, 0), t)


def elu(x: Any, alpha: Any = 1.0) -> Tensor:
    """x where positive, else alpha * (exp(x) - 1)."""
    t = _float(x)
    return _where(t > 0, t, lax.expm1(_negative_part(t)) * alpha)


def celu(x: Any, alpha: Any = 1.0) -> Tensor:
    """x where positive, else alpha * (exp(x / alpha) - 1)."""
    t = _float(x)
    a = like(t, alpha) if _core.is_number(alpha) else to_tensor(alpha)
    return _where(t > 0, t, a * lax.expm1(_divide(_negative_part(t), a)))


def selu(x: Any) -> Tensor:
    """Scaled elu that keeps mean 0 and variance 1."""
    return elu(x, _SELU_ALPHA) * _SELU_SCALE


def leaky_relu(x: Any, negative_slope: Any = 1e-2) -> Tensor:
    """x where it is at least 0, else negative_slope * x."""
    t = _float(x)
    return _where(t >= 0, t, t * negative_slope)


def squareplus(x: Any, b: Any = 4.0) -> Tensor:
    """(x + sqrt(x^2 + b)) / 2."""
    t = _float(x)
    return (t + lax.sqrt(lax.square(t) + b)) * 0.5


def gelu(x: Any, approximate: bool = True) -> Tensor:
    """x times the normal distribution function of x; by tanh, or exactly by erfc."""
    t = _float(x)
    if approximate:
        inner = (t + lax.integer_pow(t, 3) * 0.044715) * math.sqrt(2 / math.pi)
        return t * ((lax.tanh(inner) + 1) * 0.5)
    return t * 0.5 * lax.erfc(t * -math.sqrt(0.5))


def glu(x: Any, axis: int = -1) -> Tensor:
    """The first half along an axis times the sigmoid of the second. ValueError if the size is odd."""
    t = _float(x)
    axis = axis_of(axis, t.ndim)
    size = t.shape[axis]
    if size % 2:
        raise ValueError(f"glu halves axis {axis}, whose size {size} is odd (shape {t.shape})")
    a, b = lax.split(t, (size // 2, size // 2), axis)
    return a * lax.logistic(b)


def _expanded(reduced: Tensor, shape: Sequence[int], axes: Sequence[int]) -> Tensor:
    """A reduced array with the reduced axes again, of size 1."""
    return lax.reshape(reduced, [1 if i in axes else n for i, n in enumerate(shape)])


def _masked(t: Tensor, where: Any, fill: float) -> Tensor:
    return t if where is None else _where(to_tensor(where), t, like(t, fill))


def _top(t: Tensor, axes: list[int]) -> Tensor:
    """Largest elements (of complex ones, real parts) with the axes kept; 0 where infinite: no difference is NaN."""
    t = lax.real(t) if t.dtype.kind == "c" else t
    top = _expanded(lax.reduce_max(lax.stop_gradient(t), axes), t.shape, axes)
    return lax.stop_gradient(_where(lax.is_finite(top), top, like(t, 0)))


def logsumexp(
    a: Any,
    axis: int | Sequence[int] | None = None,
    b: Any = None,
    keepdims: bool = False,
    return_sign: bool = False,
    where: Any = None,
) -> Any:
    """log(sum(b * exp(a))) along axes, without overflow.

    With `return_sign`, (log of the absolute sum, its sign). Complex elements give complex logarithms.
    """
    from lamina.numpy._dtypes import finfo

    t, weights = _float(a), None
    if b is not None:
        weights = to_tensor(b)
        shape = broadcast_shapes(t.shape, weights.shape)
        t, weights = broadcast(t, shape), broadcast(weights, shape)
    axes = axes_of(axis, t.ndim)
    t = _masked(t, where, float("-inf"))
    if weights is None:
        top = _top(t, axes)
        terms = lax.exp(t - top)
    else:
        # What has no weight does not count for the largest, and its exponential stays finite: 0 times it is 0.
        none = weights == 0
        top = _top(_where(none, like(t, float("-inf")), t), axes)
        above = t - top
        most = like(t, math.log(float(finfo(t.dtype).max)) - 1)
        terms = lax.exp(_where(none & (lax.real(above) > lax.real(most)), most, above)) * weights
    total = lax.reduce_sum(terms, axes)
    sign = lax.sign(total)
    plain = not return_sign if t.dtype.kind == "c" else b is None
    result = lax.log(total if plain else lax.abs(total)) + lax.reshape(top, total.shape)
    if not plain and not return_sign:
        result = _where(sign < 0, like(t, float("nan")), result)
    if keepdims:
        result, sign = _expanded(result, t.shape, axes), _expanded(sign, t.shape, axes)
    return (result, sign) if return_sign else result


def logmeanexp(
    x: Any, axis: int | Sequence[int] | None = None, where: Any = None, keepdims: bool = False
) -> Tensor:
    """log(mean(exp(x))) along axes, without overflow."""
    t = _float(x)
    axes = axes_of(axis, t.ndim)
    total = logsumexp(t, axes, keepdims=keepdims, where=where)
    if where is None:
        return total - like(t, math.log(math.prod(t.shape[a] for a in axes)))
    inside = lax.convert_element_type(_core.elementwise("and", to_tensor(where), t == t), t.dtype)
    count = lax.reduce_sum(inside, axes)
    return total - lax.log(_expanded(count, t.shape, axes) if keepdims else count)


def softmax(x: Any, axis: int | Sequence[int] | None = -1, where: Any = None) -> Tensor:
    """exp(x) / sum(exp(x)) along axes; 0 where `where` is false."""
    t = _float(x)
    axes = axes_of(axis, t.ndim)
    t = _masked(t, where, float("-inf"))
    top = lax.stop_gradient(_expanded(lax.reduce_max(lax.stop_gradient(t), axes), t.shape, axes))
    terms = lax.exp(t - top)
    result = _divide(terms, _expanded(lax.reduce_sum(terms, axes), t.shape, axes))
    return _masked(result, where, 0.0)


def log_softmax(x: Any, axis: int | Sequence[int] | None = -1, where: Any = None) -> Tensor:
    """log(softmax(x)), without cancellation; minus infinity where `where` is false."""
    t = _float(x)
    axes = axes_of(axis, t.ndim)
    t = _masked(t, where, float("-inf"))
    top = lax.stop_gradient(_expanded(lax.reduce_max(lax.stop_gradient(t), axes), t.shape, axes))
    shifted = t - top
    result = shifted - lax.log(_expanded(lax.reduce_sum(lax.exp(shifted), axes), t.shape, axes))
    return _masked(result, where, float("-inf"))


def standardize(
    x: Any,
    axis: int | Sequence[int] | None = -1,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 1e-5,
    where: Any = None,
    *,
    algorithm: str = "fast",
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon), with mean and variance along axes unless given.

    The variance is the mean of (x - mean)^2 by either `algorithm`, "fast" or "stable": that of the squares minus the
    square of the mean would lose the digits that the two share. ValueError for any other name.
    """
    if algorithm not in ("fast", "stable"):
        raise ValueError(f"standardize: algorithm is 'fast' or 'stable', not {algorithm!r}")
    t = _float(x)
    axes = axes_of(axis, t.ndim)
    if where is None:
        count: Any = const(math.prod(t.shape[a] for a in axes), t.dtype)
    else:
        inside = _core.elementwise("and", to_tensor(where), t == t)
        count = _expanded(lax.reduce_sum(lax.convert_element_type(inside, t.dtype), axes), t.shape, axes)

    def mean_of(v: Tensor) -> Tensor:
        return _divide(_expanded(lax.reduce_sum(_masked(v, where, 0.0), axes), t.shape, axes), count)

    m = mean_of(t) if mean is None else to_tensor(mean)
    centered = t - m
    v = mean_of(lax.square(centered)) if variance is None else to_tensor(variance)
    return centered * lax.rsqrt(v + epsilon)


def one_hot(x: Any, num_classes: int, *, dtype: Any = float, axis: int = -1) -> Tensor:
    """A new axis with 1 at place x of num_classes and 0 elsewhere; all 0 for x out of range."""
    t = to_tensor(x)
    axis = axis_of(axis, t.ndim + 1)
    shape = [*t.shape[:axis], num_classes, *t.shape[axis:]]
    kept = [d for d in range(t.ndim + 1) if d != axis]
    wide = lax.broadcast_in_dim(t, shape, kept)
    place = lax.broadcasted_iota(t.dtype if t.dtype.kind in "iu" else "int32", shape, axis)
    return lax.convert_element_type(_core.elementwise("compare", wide, place, direction="EQ"), dtype)


def scaled_matmul(
    lhs: Any, rhs: Any, lhs_scales: Any, rhs_scales: Any, preferred_element_type: Any = "float32"
) -> Tensor:
    """Products of the rows of `lhs` (B, M, K) and of `rhs` (B, N, K), times their scales, as (B, M, N).

    Scales are (B, M, K / block) and (B, N, K / block'), one for each block of a row; elements and scales may be of
    8 bits or less. `preferred_element_type` is the type of the products and sums. TypeError for other shapes.
    """
    a, b = to_tensor(lhs), to_tensor(rhs)
    if a.ndim != 3 or b.ndim != 3:
        raise TypeError(
            f"scaled_matmul takes arrays (B, M, K) and (B, N, K), not {describe(a)} and {describe(b)}"
        )
    return lax.scaled_dot(
        a,
        b,
        lhs_scale=lhs_scales,
        rhs_scale=rhs_scales,
        dimension_numbers=(((2,), (2,)), ((0,), (0,))),
        preferred_element_type=preferred_element_type,
    )


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
) -> Any:
    """softmax(query keyᵀ * scale + bias) value, per batch and head.

    Shapes: query [batch, q, heads, depth], key and value [batch, k, key heads, depth], where key heads divide
    heads, or all three without batch; bias and bool mask broadcast to [batch, heads, q, k]. The result has the query's
    shape. Softmax is in float32 for narrower types. A query attends to keys that the mask allows, and before
    `key_value_seq_lengths` [batch], none after it (`is_causal`), and at most (left, right) away
    (`local_window_size`); results from `query_seq_lengths` [batch] on are 0. With `return_residual` also the logsumexp
    of the logits, [batch, q, heads], a constant to derivatives. The names of `implementation` choose nothing: there is
    one.
    """
    q, k, v = _float(query), _float(key), _float(value)
    if implementation not in (None, "xla", "cudnn"):
        raise ValueError(f"attention has the implementations 'xla', 'cudnn' and None, not {implementation!r}")
    if not q.dtype == k.dtype == v.dtype:
        raise ValueError(
            f"attention needs one element type, not those of query {q.dtype}, key {k.dtype} and value {v.dtype}"
        )
    if mask is not None and to_tensor(mask).dtype != "bool":
        raise ValueError(f"the mask of attention is of bools, not {describe(to_tensor(mask))}")
    if q.ndim == 3:
        q, k, v = (lax.expand_dims(x, (0,)) for x in (q, k, v))
        single = True
    else:
        single = False
    if (
        q.ndim != 4
        or k.ndim != 4
        or k.shape != v.shape
        or q.shape[3] != k.shape[3]
        or q.shape[2] % k.shape[2]
    ):
        raise ValueError(f"attention shapes do not fit: query {q.shape}, key {k.shape}, value {v.shape}")
    for name, lengths in (("query", query_seq_lengths), ("key_value", key_value_seq_lengths)):
        if lengths is not None and (given := to_tensor(lengths).shape) != q.shape[:1]:
            raise ValueError(
                f"{name}_seq_lengths has one length for each of {q.shape[0]} batches, not shape {given}"
            )
    groups = q.shape[2] // k.shape[2]
    if groups > 1:
        b, n, h, d = k.shape
        k, v = (
            lax.reshape(lax.broadcast_in_dim(x, (b, n, h, groups, d), (0, 1, 2, 4)), (b, n, h * groups, d))
            for x in (k, v)
        )
    wide = "float32" if q.dtype.itemsize < 4 else q.dtype
    logits = lax.dot_general(q, k, (((3,), (3,)), ((0, 2), (0, 2))), preferred_element_type=wide)
    logits = logits * (q.shape[3] ** -0.5 if scale is None else scale)
    if bias is not None:
        logits = logits + lax.convert_element_type(to_tensor(bias), wide)
    row, column = (lax.broadcasted_iota("int32", logits.shape, axis) for axis in (2, 3))
    allowed = [] if mask is None else [to_tensor(mask)]
    if is_causal:
        allowed.append(row >= column)
    if local_window_size is not None:
        left, right = (
            (local_window_size, local_window_size)
            if isinstance(local_window_size, int)
            else local_window_size
        )
        allowed += [column >= row - left, column <= row + right]
    if key_value_seq_lengths is not None:
        allowed.append(column < lax.expand_dims(to_tensor(key_value_seq_lengths), (1, 2, 3)))
    low = const(-0.7 * 3.4028234663852886e38, wide)
    for condition in allowed:
        logits = _where(condition, logits, low)
    weights = lax.convert_element_type(softmax(logits), q.dtype)
    out = lax.transpose(lax.dot_general(weights, v, (((3,), (1,)), ((0, 1), (0, 2)))), (0, 2, 1, 3))
    if query_seq_lengths is not None:
        place = lax.broadcasted_iota("int32", out.shape, 1)
        out = _where(place < lax.expand_dims(to_tensor(query_seq_lengths), (1, 2, 3)), out, like(out, 0))
    if single:
        out = lax.squeeze(out, (0,))
    if not return_residual:
        return out
    sums = lax.stop_gradient(logsumexp(logits, -1))
    residual = lax.convert_element_type(lax.transpose(sums, (0, 2, 1)), q.dtype)
    return out, lax.squeeze(residual, (0,)) if single else residual


_results.own(globals())
__getattr__ = _missing.attributes("lamina.nn")
