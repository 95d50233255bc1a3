"""The largest eigenvalues of symmetric operators by blocks of vectors.

A. V. Knyazev, Toward the optimal preconditioned eigensolver: locally optimal block preconditioned conjugate gradient
method, SIAM J. Sci. Comput. 23, 2001. Here the basis of every step is made orthonormal as a whole, by Householder's QR,
which fills up what has become dependent with other directions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina import lax
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina._tensor import describe, to_tensor

__all__ = ["lobpcg_standard"]


def _scaled(v: Tensor) -> Tensor:
    """Columns of length one, or zero."""
    lengths = lnp.linalg.norm(v, axis=0, keepdims=True)
    return v / lnp.where(lengths > 0, lengths, 1)


def _checked(A: Any, X: Any) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """The operator as a function, and the first block. ValueError where they do not fit each other."""
    x = to_tensor(X)
    if x.ndim != 2 or x.dtype.kind != "f":
        raise ValueError(f"lobpcg_standard needs a block X of floats [n, k], not {describe(x)}")
    n, k = x.shape
    if k == 0:
        raise ValueError(f"lobpcg_standard needs a search dim > 0: X has shape {x.shape}")
    apply = A if callable(A) and not hasattr(A, "shape") else None
    if apply is None:
        matrix = to_tensor(A)
        if matrix.shape != (n, n):
            raise ValueError(f"A must be ({n}, {n}) for X of shape {x.shape}, not {matrix.shape}")
        apply = lambda v: matrix @ v  # noqa: E731
    if 5 * k >= n:
        raise ValueError(f"lobpcg_standard needs search dim * 5 < matrix dim, not {k} * 5 and {n}")
    made = to_tensor(apply(lnp.zeros((n, 1), x.dtype)))
    if made.shape != (n, 1):
        raise ValueError(f"A must be ({n}, {n}), and gives shape {made.shape} of ({n}, 1)")
    if made.dtype != x.dtype:
        raise ValueError(f"A, X must have same dtypes, not {made.dtype.name} and {x.dtype.name}")
    return apply, x


def lobpcg_standard(A: Any, X: Any, m: int = 100, tol: float | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """(eigenvalues [k], eigenvectors [n, k], number of steps) of the k largest eigenvalues, the largest first.

    `A` is a symmetric matrix [n, n] or a function that applies one to blocks [n, j]; `X` [n, k] is a first guess of
    independent columns, with 5 k < n. It ends after `m` steps, or when every residual norm |A v - w v| is below
    10 n `tol` (|w| + |A v|), `tol` being the type's epsilon unless told. No derivatives through the iteration.
    ValueError where shapes or types do not fit.
    """
    apply, x = _checked(A, X)
    n, k = x.shape
    bound = float(lnp.finfo(x.dtype.name).eps) if tol is None else tol

    def residuals(x: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """The residuals, and how many of them are small."""
        ax = apply(x)
        rest = ax - values * x
        size = lnp.linalg.norm(ax, axis=0) + lnp.abs(values)
        return rest, lnp.sum(lnp.linalg.norm(rest, axis=0) < 10 * n * bound * size)

    def step(state: Any) -> Any:
        count, x, p, r, _, _ = state
        basis = lnp.linalg.qr(lnp.concatenate([x, _scaled(p), _scaled(r)], 1))[0]
        projected = basis.T @ apply(basis)
        values, vectors = lnp.linalg.eigh((projected + projected.T) / 2)
        values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
        new = _scaled(basis @ vectors)
        # The part of the new vectors that the old ones do not span: where the search goes on.
        moved = basis[:, k:] @ vectors[k:]
        rest, done = residuals(new, values)
        return count + 1, new, moved, rest, done, values

    start = lnp.linalg.qr(x)[0]
    values = lnp.sum(start * apply(start), 0)
    rest, done = residuals(start, values)
    state = (lnp.zeros((), "int32"), start, apply(rest), rest, done * 0, values)
    count, x, _, _, _, values = lax.while_loop(lambda s: (s[0] < m) & (s[4] < k), step, state)
    return values, x, count
