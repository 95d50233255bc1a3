"""COO, CSR and CSC: sparse matrices without batch or dense dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lamina import numpy as lnp
from lamina import tree_util
from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina.experimental.sparse import _products
from lamina.experimental.sparse._base import SparseArray, needs_index, taking
from lamina.experimental.sparse._bcoo import BCOO, bcoo_fromdense
from lamina.experimental.sparse._bcsr import BCSR


class _Matrix(SparseArray):
    """A matrix of three arrays, `data` [nse] and two of integers, which subclasses name."""

    _names: tuple[str, str]

    def __init__(self, args: tuple[Any, Any, Any], *, shape: Sequence[int]) -> None:
        self.data = to_tensor(args[0])
        for name, part in zip(self._names, args[1:], strict=True):
            setattr(self, name, needs_index(part, type(self).__name__))
        self.shape = tuple(int(n) for n in shape)
        if len(self.shape) != 2 or self.data.ndim != 1:
            raise ValueError(
                f"{type(self).__name__} makes a matrix of 1-d data, not {self.shape} of data of shape {self.data.shape}"
            )

    nse = property(lambda self: self.data.shape[0])

    def tree_flatten(self) -> tuple[Any, Any]:
        return (self.data, *(getattr(self, n) for n in self._names)), self.shape

    @classmethod
    def tree_unflatten(cls, meta: Any, children: Any) -> Any:
        new = object.__new__(cls)
        new.data = children[0]
        for name, part in zip(cls._names, children[1:], strict=True):
            setattr(new, name, part)
        new.shape = meta
        return new

    @classmethod
    def fromdense(cls, mat: Any, *, nse: int | None = None, index_dtype: Any = "int32") -> Any:
        """The sparse form of a dense matrix: `nse` elements of it, or as many as are not zero."""
        mat = to_tensor(mat)
        if mat.ndim != 2:
            raise ValueError(f"{cls.__name__} makes a matrix, not an array of shape {mat.shape}")
        return cls.from_bcoo(bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype))

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> Any:
        """The same matrix in this form."""
        raise NotImplementedError

    def to_bcoo(self) -> BCOO:
        """The same in coordinate form."""
        raise NotImplementedError

    def todense(self) -> Tensor:
        """The matrix with all its elements."""
        return self.to_bcoo().todense()

    def _transposed(self, axes: Sequence[int] | None) -> bool:
        """Whether the dimensions change places."""
        order = (1, 0) if axes is None else tuple(axes)
        if sorted(order) != [0, 1]:
            raise ValueError(f"{order} is no permutation of the 2 dimensions of a matrix")
        return order == (1, 0)

    def sum(self, axis: Any = None) -> Any:
        """Sums along axes: sparse, in coordinate form; a Tensor of all."""
        return self.to_bcoo().sum(axis)

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, SparseArray) and not to_tensor(other).ndim:
            parts = (self.data * other, *(getattr(self, n) for n in self._names))
            return type(self)(parts, shape=self.shape)
        return self.to_bcoo() * other

    __rmul__ = __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __add__(self, other: Any) -> Any:
        return self.to_bcoo() + other

    __radd__ = __add__

    def __matmul__(self, other: Any) -> Any:
        return _products.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _products.matmul(other, self)


@tree_util.register_pytree_node_class
class COO(_Matrix):
    """``COO((data, row, col), shape=shape)``: element k stands at ``row[k], col[k]``."""

    row: Tensor
    col: Tensor
    _names = ("row", "col")

    def __init__(
        self,
        args: tuple[Any, Any, Any],
        *,
        shape: Sequence[int],
        rows_sorted: bool = False,
        cols_sorted: bool = False,
    ) -> None:
        super().__init__(args, shape=shape)

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> COO:
        return cls((arr.data, arr.indices[:, 0], arr.indices[:, 1]), shape=arr.shape)

    def to_bcoo(self) -> BCOO:
        return BCOO((self.data, lnp.stack([self.row, self.col], -1)), shape=self.shape)

    def transpose(self, axes: Sequence[int] | None = None) -> COO:
        """The matrix with rows and columns in each other's place."""
        if not self._transposed(axes):
            return self
        return COO((self.data, self.col, self.row), shape=self.shape[::-1])


@tree_util.register_pytree_node_class
class CSR(_Matrix):
    """``CSR((data, indices, indptr), shape=shape)``: the rows one behind the other, as in BCSR."""

    indices: Tensor
    indptr: Tensor
    _names = ("indices", "indptr")

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> CSR:
        rows = BCSR.from_bcoo(arr)
        return cls((rows.data, rows.indices, rows.indptr), shape=arr.shape)

    def to_bcoo(self) -> BCOO:
        return BCSR((self.data, self.indices, self.indptr), shape=self.shape).to_bcoo()

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """The columns of the transposed matrix."""
        if not self._transposed(axes):
            return self
        return CSC((self.data, self.indices, self.indptr), shape=self.shape[::-1])


@tree_util.register_pytree_node_class
class CSC(_Matrix):
    """``CSC((data, indices, indptr), shape=shape)``: the columns one behind the other."""

    indices: Tensor
    indptr: Tensor
    _names = ("indices", "indptr")

    @classmethod
    def from_bcoo(cls, arr: BCOO) -> CSC:
        return CSR.from_bcoo(arr.transpose()).transpose()

    def to_bcoo(self) -> BCOO:
        return self.transpose().to_bcoo().transpose()

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """The rows of the transposed matrix."""
        if not self._transposed(axes):
            return self
        return CSR((self.data, self.indices, self.indptr), shape=self.shape[::-1])


def coo_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = "int32") -> COO:
    """The coordinate form of a dense matrix."""
    return COO.fromdense(mat, nse=nse, index_dtype=index_dtype)


def csr_fromdense(mat: Any, *, nse: int | None = None, index_dtype: Any = "int32") -> CSR:
    """The compressed rows of a dense matrix."""
    return CSR.fromdense(mat, nse=nse, index_dtype=index_dtype)


@taking(COO)
def coo_todense(mat: COO) -> Tensor:
    """The matrix with all its elements."""
    return mat.todense()


@taking(CSR)
def csr_todense(mat: CSR) -> Tensor:
    """The matrix with all its elements."""
    return mat.todense()


@taking(COO)
def coo_matvec(mat: COO, v: Any, transpose: bool = False) -> Tensor:
    """The product with a vector ``v [n]``, of the transposed matrix if asked for."""
    return _of_rank(mat, v, transpose, 1, "coo_matvec")


@taking(COO)
def coo_matmat(mat: COO, B: Any, *, transpose: bool = False) -> Tensor:
    """The product with a dense matrix ``B [n, k]``, of the transposed matrix if asked for."""
    return _of_rank(mat, B, transpose, 2, "coo_matmat")


@taking(CSR)
def csr_matvec(mat: CSR, v: Any, transpose: bool = False) -> Tensor:
    """The product with a vector ``v [n]``, of the transposed matrix if asked for."""
    return _of_rank(mat, v, transpose, 1, "csr_matvec")


@taking(CSR)
def csr_matmat(mat: CSR, B: Any, *, transpose: bool = False) -> Tensor:
    """The product with a dense matrix ``B [n, k]``, of the transposed matrix if asked for."""
    return _of_rank(mat, B, transpose, 2, "csr_matmat")


def _of_rank(mat: Any, other: Any, transpose: bool, ndim: int, what: str) -> Tensor:
    other = to_tensor(other)
    if other.ndim != ndim:
        raise ValueError(f"{what} multiplies by an array of {ndim} dimensions, not by shape {other.shape}")
    return (mat.transpose() if transpose else mat) @ other
