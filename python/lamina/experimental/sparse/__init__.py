"""Sparse arrays, with the meaning that jax.experimental.sparse gives them: BCOO, BCSR and sparse matrices.

They are containers of their stored elements and indices, and go through `jit`, `grad` and `vmap` as such. Operators and
methods keep them sparse; `sparsify` makes a function of dense arrays one of sparse ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lamina import numpy as lnp
from lamina import random as draws
from lamina._transforms import vmap
from lamina.experimental.sparse import linalg as linalg
from lamina.experimental.sparse._base import (
    SparseArray,
    SparseEfficiencyError,
    SparseEfficiencyWarning,
)
from lamina.experimental.sparse._bcoo import (
    BCOO,
    bcoo_extract,
    bcoo_fromdense,
    bcoo_sort_indices,
    bcoo_sum_duplicates,
    bcoo_todense,
    places,
)
from lamina.experimental.sparse._bcsr import (
    BCSR,
    bcsr_broadcast_in_dim,
    bcsr_concatenate,
    bcsr_dot_general,
    bcsr_extract,
    bcsr_fromdense,
    bcsr_sum_duplicates,
    bcsr_todense,
)
from lamina.experimental.sparse._derivatives import grad, jacfwd, jacobian, jacrev, value_and_grad
from lamina.experimental.sparse._matrices import (
    COO,
    CSC,
    CSR,
    coo_fromdense,
    coo_matmat,
    coo_matvec,
    coo_todense,
    csr_fromdense,
    csr_matmat,
    csr_matvec,
    csr_todense,
)
from lamina.experimental.sparse._products import (
    bcoo_conv_general_dilated,
    bcoo_dot_general,
    bcoo_dot_general_sampled,
    bcoo_multiply_dense,
    bcoo_multiply_sparse,
)
from lamina.experimental.sparse._sparsify import sparsify, todense
from lamina.experimental.sparse._structure import (
    bcoo_broadcast_in_dim,
    bcoo_concatenate,
    bcoo_dynamic_slice,
    bcoo_reduce_sum,
    bcoo_reshape,
    bcoo_rev,
    bcoo_slice,
    bcoo_squeeze,
    bcoo_transpose,
    bcoo_update_layout,
)

__all__ = [
    "BCOO",
    "BCSR",
    "COO",
    "CSC",
    "CSR",
    "SparseArray",
    "SparseEfficiencyError",
    "SparseEfficiencyWarning",
    "bcoo_broadcast_in_dim",
    "bcoo_concatenate",
    "bcoo_conv_general_dilated",
    "bcoo_dot_general",
    "bcoo_dot_general_sampled",
    "bcoo_dynamic_slice",
    "bcoo_extract",
    "bcoo_fromdense",
    "bcoo_multiply_dense",
    "bcoo_multiply_sparse",
    "bcoo_reduce_sum",
    "bcoo_reshape",
    "bcoo_rev",
    "bcoo_slice",
    "bcoo_sort_indices",
    "bcoo_squeeze",
    "bcoo_sum_duplicates",
    "bcoo_todense",
    "bcoo_transpose",
    "bcoo_update_layout",
    "bcsr_broadcast_in_dim",
    "bcsr_concatenate",
    "bcsr_dot_general",
    "bcsr_extract",
    "bcsr_fromdense",
    "bcsr_sum_duplicates",
    "bcsr_todense",
    "coo_fromdense",
    "coo_matmat",
    "coo_matvec",
    "coo_todense",
    "csr_fromdense",
    "csr_matmat",
    "csr_matvec",
    "csr_todense",
    "empty",
    "eye",
    "grad",
    "jacfwd",
    "jacobian",
    "jacrev",
    "random_bcoo",
    "sparsify",
    "todense",
    "value_and_grad",
]

_FORMATS: dict[str, Any] = {"bcoo": BCOO, "bcsr": BCSR, "coo": COO, "csr": CSR, "csc": CSC}


def _format(name: str) -> Any:
    if name not in _FORMATS:
        raise ValueError(f"sparse_format is one of {', '.join(_FORMATS)}, not {name!r}")
    return _FORMATS[name]


def empty(
    shape: Sequence[int],
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    *,
    n_batch: int = 0,
    n_dense: int = 0,
    nse: int = 0,
) -> Any:
    """An array of zeros, with room for `nse` elements (of each part of a batch), in the form that is named."""
    form, b = _format(sparse_format), n_batch
    sizes = tuple(shape)[b : len(shape) - n_dense]
    data = lnp.zeros((*shape[:b], nse, *shape[len(shape) - n_dense :]), dtype or "float32")
    numbers = lnp.full((*shape[:b], nse), math.prod(sizes), "int64")
    made = BCOO(
        (data, places(numbers, sizes, index_dtype)), shape=shape, indices_sorted=True, unique_indices=True
    )
    return made if form is BCOO else form.from_bcoo(made)


def eye(
    N: int,
    M: int | None = None,
    k: int = 0,
    dtype: Any = None,
    index_dtype: Any = "int32",
    sparse_format: str = "bcoo",
    *,
    n_batch: int = 0,
    n_dense: int = 0,
) -> Any:
    """The matrix [N, M] of ones on its k-th diagonal, in the form that is named."""
    form, M = _format(sparse_format), N if M is None else M
    count = max(min(N + min(k, 0), M - max(k, 0)), 0)
    steps = lnp.arange(count, dtype=index_dtype)
    indices = lnp.stack([steps - min(k, 0), steps + max(k, 0)], -1)
    made = BCOO(
        (lnp.ones(count, dtype or "float32"), indices), shape=(N, M), indices_sorted=True, unique_indices=True
    )
    if form is not BCOO:
        return form.from_bcoo(made)
    made = bcoo_update_layout(made, n_batch=n_batch, n_dense=n_dense, on_inefficient=None)
    return made.sum_duplicates(min(count, 1), remove_zeros=False) if n_batch else made


def random_bcoo(
    key: Any,
    shape: Sequence[int],
    *,
    dtype: Any = "float32",
    indices_dtype: Any = None,
    nse: int | float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Any = draws.uniform,
    **kwds: Any,
) -> BCOO:
    """An array with `nse` elements (below 1: that part of all) in random places, by ``generator(key, shape, dtype)``.

    The same as JAX's, bit for bit. ValueError for more elements than places if they are `unique_indices`.
    """
    shape = tuple(int(n) for n in shape)
    if not 0 <= n_batch <= len(shape) - n_dense or n_dense < 0:
        raise ValueError(
            f"{n_batch} batch and {n_dense} dense dimensions are more than those of shape {shape}"
        )
    batch, dense = shape[:n_batch], shape[len(shape) - n_dense :]
    sizes = shape[n_batch : len(shape) - n_dense]
    total = math.prod(sizes)
    count = math.ceil(nse * total) if 0 <= nse < 1 else int(nse)
    if unique_indices and count > total:
        raise ValueError(f"{count} elements do not find different places in shape {shape}")
    keys = draws.split(key, math.prod(batch) + 1)
    data = generator(keys[0], shape=(*batch, count, *dense), dtype=dtype, **kwds)
    numbers = lnp.zeros((*batch, count), "int32")
    if sizes and math.prod(batch):
        each = vmap(lambda k: draws.choice(k, total, (count,), replace=not unique_indices))(keys[1:])
        numbers = each.reshape(*batch, count)
    indices = places(numbers, sizes, indices_dtype or "int32")
    made = BCOO((data, indices), shape=shape, unique_indices=unique_indices)
    return made.sort_indices() if sorted_indices else made
