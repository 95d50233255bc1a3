"""Special functions and small names of jax.lax: igamma, betainc, zeta, Bessel functions, stack, approx_max_k, Precision.

Operands of one function have one shape (or are scalars) and one float type, as those of other ops of lax.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina import dtypes
from lamina._core import Tensor
from lamina.lax import _elementwise as ew
from lamina.lax._base import axis_of, to_tensor
from lamina.lax._indexing import ScatterDimensionNumbers, scatter_add
from lamina.lax._reduce import top_k
from lamina.lax._shape import concatenate, expand_dims, full, index_in_dim, reshape

__all__ = [
    "approx_max_k",
    "approx_min_k",
    "bessel_i0e",
    "bessel_i1e",
    "betainc",
    "broadcast_to_rank",
    "dtype",
    "empty",
    "igamma",
    "igamma_grad_a",
    "igammac",
    "polygamma",
    "random_gamma_grad",
    "scatter_sub",
    "stack",
    "unstack",
    "with_sharding_constraint",
    "zeta",
]


def _special(name: str, operands: tuple[Any, ...]) -> Tensor:
    from lamina.scipy import special

    return getattr(special, name)(*ew._checked(name, operands))


def igamma(a: Any, x: Any) -> Tensor:
    """The regularized lower incomplete gamma function."""
    return _special("gammainc", (a, x))


def igammac(a: Any, x: Any) -> Tensor:
    """The regularized upper incomplete gamma function."""
    return _special("gammaincc", (a, x))


def igamma_grad_a(a: Any, x: Any) -> Tensor:
    """The derivative of igamma(a, x) by a."""
    from lamina.scipy.special._gamma import gammainc_slope

    return gammainc_slope(*ew._checked("igamma_grad_a", (a, x)))


def random_gamma_grad(a: Any, x: Any) -> Tensor:
    """How a gamma variate x moves with its parameter a at a fixed probability."""
    from lamina.scipy.special._gamma import random_gamma_slope

    return random_gamma_slope(*ew._checked("random_gamma_grad", (a, x)))


def betainc(a: Any, b: Any, x: Any) -> Tensor:
    """The regularized incomplete beta function."""
    return _special("betainc", (a, b, x))


def polygamma(m: Any, x: Any) -> Tensor:
    """The m-th derivative of digamma at x."""
    return _special("polygamma", (m, x))


def zeta(x: Any, q: Any) -> Tensor:
    """Hurwitz' zeta function."""
    return _special("zeta", (x, q))


def bessel_i0e(x: Any) -> Tensor:
    """exp(-|x|) times the modified Bessel function of order 0."""
    return _special("i0e", (x,))


def bessel_i1e(x: Any) -> Tensor:
    """exp(-|x|) times the modified Bessel function of order 1."""
    return _special("i1e", (x,))


def stack(operands: Sequence[Any], axis: int = 0) -> Tensor:
    """Arrays of one shape along a new axis."""
    ts = [to_tensor(a) for a in operands]
    if not ts:
        raise ValueError("lax.stack needs at least one array")
    at = axis_of(axis, ts[0].ndim + 1)
    return concatenate([expand_dims(t, (at,)) for t in ts], at)


def unstack(x: Any, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, without it."""
    t = to_tensor(x)
    d = axis_of(axis, t.ndim)
    return tuple(index_in_dim(t, i, d, False) for i in range(t.shape[d]))


def broadcast_to_rank(x: Any, rank: int) -> Tensor:
    """x with dimensions of size 1 put in front, `rank` in all."""
    t = to_tensor(x)
    if rank < t.ndim:
        raise ValueError(f"lax.broadcast_to_rank: an array of rank {t.ndim} has no rank {rank}")
    return reshape(t, (*[1] * (rank - t.ndim), *t.shape))


def dtype(x: Any) -> dtypes.DType:
    """The element type of an array or number."""
    return to_tensor(x).dtype


def empty(shape: Sequence[int], dtype: Any) -> Tensor:
    """An array of zeros: there are no uninitialized ones."""
    return full(shape, 0, dtype)


def scatter_sub(
    operand: Any,
    scatter_indices: Any,
    updates: Any,
    dimension_numbers: ScatterDimensionNumbers,
    **options: Any,
) -> Tensor:
    """As scatter_add, with the updates subtracted."""
    return scatter_add(operand, scatter_indices, ew.neg(updates), dimension_numbers, **options)


def approx_max_k(operand: Any, k: int, reduction_dimension: int = -1, **hints: Any) -> tuple[Tensor, Tensor]:
    """The k largest elements along an axis and their indices; exact, so that JAX's hints have no effect."""
    return top_k(operand, k, axis=reduction_dimension)


def approx_min_k(operand: Any, k: int, reduction_dimension: int = -1, **hints: Any) -> tuple[Tensor, Tensor]:
    """The k smallest elements along an axis and their indices, exact."""
    values, index = top_k(ew.neg(operand), k, axis=reduction_dimension)
    return ew.neg(values), index


def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    """x: there is one device."""
    return x
