"""Initial parameters: functions (key, shape, dtype) -> array; also `lamina.nn.initializers`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _missing, dtypes, lax, random
from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina.lax._base import axis_of, const

Initializer = Callable[..., Tensor]

# Standard deviation of the normal distribution cut at -2 and 2.
_CUT_STDDEV = 0.87962566103423978
# Root mean square of the complex normal distribution cut at modulus 2.
_CUT_COMPLEX = 0.95311164380491208


def zeros(key: Any, shape: Sequence[int], dtype: Any = float) -> Tensor:
    """Zeros."""
    return lax.full(shape, 0, dtype)


def ones(key: Any, shape: Sequence[int], dtype: Any = float) -> Tensor:
    """Ones."""
    return lax.full(shape, 1, dtype)


def constant(value: Any, dtype: Any = float) -> Initializer:
    """One value everywhere."""

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Tensor:
        t = to_tensor(value, dtype)
        return lax.broadcast_in_dim(t, shape, range(len(shape) - t.ndim, len(shape)))

    return init


def uniform(scale: float = 1e-2, dtype: Any = float) -> Initializer:
    """Uniform in [0, scale)."""

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Tensor:
        return random.uniform(key, shape, dtype) * to_tensor(scale, dtype)

    return init


def normal(stddev: float = 1e-2, dtype: Any = float) -> Initializer:
    """Normal with this standard deviation."""

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Tensor:
        return random.normal(key, shape, dtype) * to_tensor(stddev, dtype)

    return init


def truncated_normal(
    stddev: float = 1e-2, dtype: Any = float, lower: float = -2.0, upper: float = 2.0
) -> Initializer:
    """Normal cut at lower and upper, times stddev."""

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Tensor:
        return random.truncated_normal(key, lower, upper, shape, dtype) * to_tensor(stddev, dtype)

    return init


def _fans(shape: Sequence[int], in_axis: Any, out_axis: Any, batch_axis: Any) -> tuple[float, float]:
    """Numbers of inputs and outputs of a layer with this kernel shape."""
    rank = len(shape)
    if rank < 2 and in_axis == -2:
        raise ValueError(
            f"fan-in and fan-out of a kernel of shape {tuple(shape)} need in_axis and out_axis, or rank at least 2"
        )

    def size(a: Any) -> int:
        return math.prod(shape[axis_of(i, rank)] for i in ((a,) if isinstance(a, int) else a))

    ins, outs = size(in_axis), size(out_axis)
    field = math.prod(shape) / (ins * outs * size(batch_axis)) if math.prod(shape) else 0.0
    return ins * field, outs * field


def _in_disc(key: Any, shape: Sequence[int], dtype: Any, radius: Callable[[Tensor], Tensor]) -> Tensor:
    """Complex numbers of any angle, their moduli by `radius` from uniform numbers."""
    real = "float32" if dtypes.canonical(dtype) == "complex64" else "float64"
    first, second = random.split(key)
    r, turn = radius(random.uniform(first, shape, real)), random.uniform(second, shape, real)
    angle = turn * const(2 * math.pi, real)
    return lax.complex(r * lax.cos(angle), r * lax.sin(angle))


def _uniform_radius(u: Tensor) -> Tensor:
    return lax.sqrt(u * const(2.0, u.dtype))


def _cut_radius(u: Tensor) -> Tensor:
    return lax.sqrt(-lax.log1p(u * const(math.expm1(-4.0), u.dtype)))


def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: Any = -2,
    out_axis: Any = -1,
    batch_axis: Any = (),
    dtype: Any = float,
) -> Initializer:
    """Values of variance scale / n, where n is the number of inputs, outputs, or their mean; complex ones of any angle.

    `mode`: fan_in, fan_out, fan_avg or fan_geo_avg; `distribution`: truncated_normal, normal or uniform.
    """
    means = {
        "fan_in": lambda i, o: i,
        "fan_out": lambda i, o: o,
        "fan_avg": lambda i, o: (i + o) / 2,
        "fan_geo_avg": lambda i, o: math.sqrt(i * o),
    }
    if mode not in means:
        raise ValueError(f"mode {mode!r} is not one of {', '.join(means)}")
    if distribution not in ("truncated_normal", "normal", "uniform"):
        raise ValueError(f"distribution {distribution!r} is not truncated_normal, normal or uniform")

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Tensor:
        variance = scale / max(means[mode](*_fans(shape, in_axis, out_axis, batch_axis)), 1e-300)
        if distribution == "uniform":
            if dtypes.canonical(dtype).kind == "c":
                return _in_disc(key, shape, dtype, _uniform_radius) * const(math.sqrt(variance), dtype)
            return random.uniform(key, shape, dtype, -1.0, 1.0) * const(math.sqrt(3 * variance), dtype)
        if distribution == "normal":
            return random.normal(key, shape, dtype) * const(math.sqrt(variance), dtype)
        if dtypes.canonical(dtype).kind == "c":
            return _in_disc(key, shape, dtype, _cut_radius) * const(math.sqrt(variance) / _CUT_COMPLEX, dtype)
        cut = random.truncated_normal(key, -2.0, 2.0, shape, dtype)
        return cut * const(math.sqrt(variance) / _CUT_STDDEV, dtype)

    return init


def _scaled(name: str, scale: float, mode: str, distribution: str, doc: str) -> Callable[..., Initializer]:
    def make(in_axis: Any = -2, out_axis: Any = -1, batch_axis: Any = (), dtype: Any = float) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = doc
    return make


glorot_uniform = _scaled(
    "glorot_uniform", 1.0, "fan_avg", "uniform", "Uniform of variance 2 / (inputs + outputs)."
)
glorot_normal = _scaled(
    "glorot_normal", 1.0, "fan_avg", "truncated_normal", "Variance 2 / (inputs + outputs)."
)
lecun_uniform = _scaled("lecun_uniform", 1.0, "fan_in", "uniform", "Uniform of variance 1 / inputs.")
lecun_normal = _scaled("lecun_normal", 1.0, "fan_in", "truncated_normal", "Variance 1 / inputs.")
he_uniform = _scaled("he_uniform", 2.0, "fan_in", "uniform", "Uniform of variance 2 / inputs.")
he_normal = _scaled("he_normal", 2.0, "fan_in", "truncated_normal", "Variance 2 / inputs.")


def orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = float) -> Initializer:
    """Matrices with orthonormal rows or columns, times `scale`; other dimensions than `column_axis` count as rows.

    The initializer raises ValueError for less than 2 dimensions.
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Tensor:
        shape = tuple(shape)
        if len(shape) < 2:
            raise ValueError(f"an orthogonal initializer needs at least 2 dimensions, not shape {shape}")
        if 0 in shape:
            return lax.full(shape, 0, dtype)
        axis = column_axis % len(shape)
        columns = shape[axis]
        rest = shape[:axis] + shape[axis + 1 :]
        q = random.orthogonal(key, math.prod(rest), (), dtype, columns)
        order = list(range(len(rest)))
        order.insert(axis, len(rest))
        return lax.transpose(lax.reshape(q, (*rest, columns)), order) * to_tensor(scale, dtype)

    return init


def delta_orthogonal(scale: float = 1.0, column_axis: int = -1, dtype: Any = float) -> Initializer:
    """Kernels of convolutions [spatial..., inputs, outputs] that are orthogonal in the middle and 0 elsewhere.

    Xiao et al., "Dynamical isometry and a mean field theory of CNNs" (ICML 2018). The initializer raises ValueError
    for other than 3 to 5 dimensions, and for more inputs than outputs.
    """

    def init(key: Any, shape: Sequence[int], dtype: Any = dtype) -> Tensor:
        shape = tuple(shape)
        if not 3 <= len(shape) <= 5:
            raise ValueError(f"delta_orthogonal needs 3 to 5 dimensions, not shape {shape}")
        if shape[-1] < shape[-2]:
            raise ValueError(f"delta_orthogonal needs at least as many outputs as inputs, not {shape[-2:]}")
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:])
        middle = tuple((n - 1) // 2 for n in shape[:-2])
        return lax.full(shape, 0, dtype).at[middle].set(matrix)

    return init


xavier_uniform, xavier_normal = glorot_uniform, glorot_normal
kaiming_uniform, kaiming_normal = he_uniform, he_normal
__getattr__ = _missing.attributes("lamina.initializers")
