"""BCSR: arrays in compressed row form, with batch dimensions in front and dense ones at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina import numpy as lnp
from lamina import tree_util
from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina.experimental.sparse import _products
from lamina.experimental.sparse._base import SparseArray, needs_index, taking
from lamina.experimental.sparse._bcoo import (
    BCOO,
    bcoo_fromdense,
    bcoo_sort_indices,
    bcoo_sum_duplicates,
    bcoo_todense,
    extract,
    over_batch,
    whole,
)
from lamina.experimental.sparse._structure import bcoo_broadcast_in_dim, bcoo_concatenate


@tree_util.register_pytree_node_class
class BCSR(SparseArray):
    """``BCSR((data, indices, indptr), shape=shape)`` of shape ``(*batch, rows, columns, *dense)``.

    The elements of row i are those from ``indptr[i]`` to ``indptr[i + 1]`` of ``data [*batch, nse, *dense]``, in the
    columns ``indices [*batch, nse]``; those behind ``indptr[rows]`` are padding. ValueError where shapes do not fit each
    other, TypeError for indices that are no integers.
    """

    indices: Tensor
    indptr: Tensor

    def __init__(
        self,
        args: tuple[Any, Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        data, indices, indptr = args
        self.data = to_tensor(data)
        self.indices, self.indptr = needs_index(indices, "BCSR"), needs_index(indptr, "BCSR")
        self.shape = tuple(int(n) for n in shape)
        self.indices_sorted, self.unique_indices = indices_sorted, unique_indices
        b, have = self.n_batch, self.data.shape
        self._sizes = self.shape[b:]
        fits = (
            b >= 0 and self.n_dense >= 0 and self.ndim == b + 2 + self.n_dense and self.indptr.ndim == b + 1
        )
        fits = fits and have[b] == self.nse and have[b + 1 :] == self.shape[b + 2 :]
        parts = (have, self.indices.shape, self.indptr.shape)
        fits = fits and all(p[:b] == self.shape[:b] for p in parts)
        if not fits or self.indptr.shape[-1] != self.shape[b] + 1:
            raise ValueError(
                f"BCSR: data of shape {have}, indices of shape {self.indices.shape} and indptr of shape "
                f"{self.indptr.shape} do not make an array of shape {self.shape}"
            )

    n_batch = property(lambda self: self.indices.ndim - 1)
    n_sparse = property(lambda self: 2)
    n_dense = property(lambda self: self.data.ndim - self.indices.ndim)
    nse = property(lambda self: self.indices.shape[-1])
    _layout = BCOO._layout

    def tree_flatten(self) -> tuple[Any, Any]:
        # Sizes of a batch are those of the parts, so that vmap may take them away.
        meta = (self._sizes, self.indices_sorted, self.unique_indices)
        return (self.data, self.indices, self.indptr), meta

    @classmethod
    def tree_unflatten(cls, meta: Any, children: Any) -> BCSR:
        new = object.__new__(cls)
        new.data, new.indices, new.indptr = children
        new._sizes, new.indices_sorted, new.unique_indices = meta
        new.shape = (*(new.indices.shape[:-1] if hasattr(new.indices, "shape") else ()), *new._sizes)
        return new

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = "int32",
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCSR:
        """The sparse form of a dense array: see `bcsr_fromdense`."""
        return bcsr_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCSR:
        """A SciPy matrix in compressed row form. NotImplementedError for batch or dense dimensions."""
        return cls.from_bcoo(
            BCOO.from_scipy_sparse(mat, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)
        )

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> BCSR:
        """The compressed rows of an array with two sparse dimensions. NotImplementedError for others."""
        if arr.n_sparse != 2:
            raise NotImplementedError(f"BCSR has two sparse dimensions, and {arr} {arr.n_sparse}")
        arr = arr if arr.indices_sorted else bcoo_sort_indices(arr)
        rows = arr.shape[arr.n_batch]
        data, indices = whole(arr)

        def bounds(row: Tensor) -> Tensor:
            return lnp.searchsorted(row, lnp.arange(rows + 1, dtype=row.dtype)).astype(row.dtype)

        # Padding, whose row is past the last one, stands at the end.
        indptr = over_batch(bounds, arr.n_batch)(indices[..., 0])
        return cls(
            (data, indices[..., 1], indptr),
            shape=arr.shape,
            indices_sorted=True,
            unique_indices=arr.unique_indices,
        )

    def to_bcoo(self) -> BCOO:
        """The same in coordinate form."""
        numbers = lnp.arange(self.nse, dtype=self.indptr.dtype)

        def rows(indptr: Tensor) -> Tensor:
            return lnp.searchsorted(indptr, numbers, side="right") - 1

        row = over_batch(rows, self.n_batch)(self.indptr).astype(self.indices.dtype)
        column = lnp.where(row < self.shape[self.n_batch], self.indices, self.shape[self.n_batch + 1])
        return BCOO(
            (self.data, lnp.stack([row, column.astype(row.dtype)], -1)),
            shape=self.shape,
            indices_sorted=self.indices_sorted,
            unique_indices=self.unique_indices,
        )

    def todense(self) -> Tensor:
        """The array with all its elements."""
        return bcoo_todense(self.to_bcoo())

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCSR:
        """The same with one element at most for each place: see `bcoo_sum_duplicates`."""
        return BCSR.from_bcoo(bcoo_sum_duplicates(self.to_bcoo(), nse, remove_zeros))

    def with_data(self, data: Tensor) -> BCSR:
        """Other elements in the same places."""
        return BCSR(
            (data, self.indices, self.indptr),
            shape=self.shape,
            indices_sorted=self.indices_sorted,
            unique_indices=self.unique_indices,
        )

    def astype(self, dtype: Any) -> BCSR:
        """The same in another element type."""
        return self.with_data(lnp.astype(self.data, dtype))

    def sum(self, axis: Any = None) -> Any:
        """Sums along axes: sparse, in coordinate form; a Tensor of all."""
        return self.to_bcoo().sum(axis)

    def __getitem__(self, index: Any) -> BCOO:
        return self.to_bcoo()[index]

    def __neg__(self) -> BCSR:
        return self.with_data(-self.data)

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, SparseArray) and not to_tensor(other).ndim:
            return self.with_data(self.data * other)
        return self.to_bcoo() * other

    __rmul__ = __mul__

    def __add__(self, other: Any) -> Any:
        return self.to_bcoo() + other

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self.to_bcoo() - other

    def __matmul__(self, other: Any) -> Any:
        return _products.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _products.matmul(other, self)


def bcsr_fromdense(
    mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = "int32"
) -> BCSR:
    """The compressed rows of a dense array: see `bcoo_fromdense`. ValueError unless two dimensions are sparse."""
    mat = to_tensor(mat)
    if mat.ndim - n_batch - n_dense != 2:
        raise ValueError(
            f"bcsr_fromdense: must have 2 sparse dimensions, but shape {mat.shape} with n_batch={n_batch} and "
            f"n_dense={n_dense} has {mat.ndim - n_batch - n_dense}"
        )
    return BCSR.from_bcoo(
        bcoo_fromdense(mat, nse=nse, n_batch=n_batch, n_dense=n_dense, index_dtype=index_dtype)
    )


@taking(BCSR)
def bcsr_todense(mat: BCSR) -> Tensor:
    """The array with all its elements."""
    return mat.todense()


@taking(BCSR)
def bcsr_sum_duplicates(mat: BCSR, nse: int | None = None) -> BCSR:
    """The same with one element at most for each place."""
    return mat.sum_duplicates(nse)


def bcsr_extract(indices: Any, indptr: Any, mat: Any) -> Tensor:
    """The elements of a dense array in the places of compressed rows, zero where those are padding."""
    mat, at = to_tensor(mat), to_tensor(indices)
    none = BCSR((lnp.zeros((*at.shape, *mat.shape[at.ndim + 1 :])), at, indptr), shape=mat.shape)
    return extract(none.to_bcoo().indices, mat)


def bcsr_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`lax.dot_general` of compressed rows and a dense array: see `bcoo_dot_general`."""
    return _products.bcoo_dot_general(
        lhs, rhs, dimension_numbers=dimension_numbers, preferred_element_type=preferred_element_type
    )


@taking(BCSR)
def bcsr_broadcast_in_dim(
    mat: BCSR, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCSR:
    """See `bcoo_broadcast_in_dim`."""
    out = bcoo_broadcast_in_dim(mat.to_bcoo(), shape=shape, broadcast_dimensions=broadcast_dimensions)
    return BCSR.from_bcoo(out)


def bcsr_concatenate(operands: Sequence[BCSR], *, dimension: int) -> BCSR:
    """See `bcoo_concatenate`."""
    return BCSR.from_bcoo(bcoo_concatenate([m.to_bcoo() for m in operands], dimension=dimension))
