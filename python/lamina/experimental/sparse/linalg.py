"""Solvers of sparse systems and eigenvalues: `spsolve` and `lobpcg_standard`."""

from __future__ import annotations

from typing import Any

from lamina import numpy as lnp
from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina.experimental.sparse._bcsr import BCSR
from lamina.scipy.sparse.linalg import lobpcg_standard

__all__ = ["lobpcg_standard", "spsolve"]


def spsolve(data: Any, indices: Any, indptr: Any, b: Any, tol: float = 1e-6, reorder: int = 1) -> Tensor:
    """The solution x of A x = b [n], A [n, n] by compressed rows as in `BCSR`.

    By an LU factorization of the dense matrix, which takes n^2 numbers; `tol` and `reorder` change nothing.
    """
    b = to_tensor(b)
    matrix = BCSR((data, indices, indptr), shape=(b.shape[0],) * 2)
    return lnp.linalg.solve(matrix.todense(), b)
