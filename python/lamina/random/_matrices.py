"""Random vectors and matrices that need factorizations: multivariate normal numbers, orthogonal matrices."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from lamina import lax
from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina.numpy._common import promote_inexact
from lamina.random._streams import _float_name, _shape, normal

__all__ = ["multivariate_normal", "orthogonal"]

_METHODS = ("cholesky", "eigh", "svd")


def multivariate_normal(
    key: Any,
    mean: Any,
    cov: Any,
    shape: Sequence[int] | None = None,
    dtype: Any = None,
    method: str = "cholesky",
) -> Tensor:
    """Normal vectors [*shape, n] of mean [..., n] and covariance [..., n, n], differentiable by both.

    `shape`: of what is in front, default the parameters' common one. `method`: the factorization of the covariance,
    "cholesky", "eigh" or "svd". ValueError where shapes do not fit.
    """
    from lamina import numpy as lnp

    if method not in _METHODS:
        raise ValueError(
            f"random.multivariate_normal: method is one of {', '.join(_METHODS)}, not {method!r}"
        )
    mean, cov = promote_inexact(mean, cov)
    name = _float_name("multivariate_normal", mean.dtype if dtype is None else dtype)
    if mean.ndim < 1 or cov.ndim < 2 or cov.shape[-2:] != (mean.shape[-1],) * 2:
        raise ValueError(
            f"random.multivariate_normal needs a mean [..., n] and a covariance [..., n, n], not {mean.shape} and "
            f"{cov.shape}"
        )
    batch = lax.broadcast_shapes(mean.shape[:-1], cov.shape[:-2])
    shape = batch if shape is None else _shape(shape)
    if lax.broadcast_shapes(shape, batch) != shape:
        raise ValueError(
            f"random.multivariate_normal: parameters of batch {batch} do not broadcast to the shape {shape}"
        )
    if method == "cholesky":
        factor = lnp.linalg.cholesky(cov)
    elif method == "eigh":
        values, vectors = lnp.linalg.eigh(cov)
        factor = vectors * lnp.sqrt(values[..., None, :])
    else:
        vectors, values, _ = lnp.linalg.svd(cov)
        factor = vectors * lnp.sqrt(values[..., None, :])
    drawn = normal(key, (*shape, mean.shape[-1]), name)
    return mean + lnp.einsum("...ij,...j->...i", factor, drawn)


def orthogonal(
    key: Any, n: int, shape: Sequence[int] = (), dtype: Any = float, m: int | None = None
) -> Tensor:
    """Uniform (Haar) orthogonal matrices [*shape, n, n], or [*shape, n, m] with orthonormal rows or columns.

    Complex types give unitary ones. Mezzadri, "How to generate random matrices from the classical compact groups"
    (2007).
    """
    from lamina import numpy as lnp

    rows = operator.index(n)
    columns = rows if m is None else operator.index(m)
    z = normal(key, (*_shape(shape), max(rows, columns), min(rows, columns)), dtype)
    q, r = lnp.linalg.qr(z)
    signs = lax.sign(lnp.diagonal(r, axis1=-2, axis2=-1))
    out = q * lnp.expand_dims(signs, -2)
    return to_tensor(lnp.matrix_transpose(out)) if rows < columns else out
