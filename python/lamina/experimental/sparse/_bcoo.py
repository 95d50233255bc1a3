"""BCOO: arrays in coordinate form, with batch dimensions in front and dense ones at the end.

An array of shape ``(*batch, *sparse, *dense)`` is ``data`` of shape ``(*batch, nse, *dense)`` and ``indices``,
integers of shape ``(*batch, nse, n_sparse)``, which tell where in the sparse dimensions each part of data stands. A
batch dimension may have size 1 in either, where it is the same for all. Indices beyond the shape are padding: what
stands there counts as zero. Elements that stand in the same place are added up.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lamina import _core, tree_util
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina._transforms import vmap
from lamina.experimental.sparse._base import SparseArray, needs_index, taking


@tree_util.register_pytree_node_class
class BCOO(SparseArray):
    """``BCOO((data, indices), shape=shape)``, a container of both: see the module.

    `indices_sorted` and `unique_indices` are promises of the caller. ValueError where shapes do not fit each other,
    TypeError for indices that are no integers.
    """

    indices: Tensor

    def __init__(
        self,
        args: tuple[Any, Any],
        *,
        shape: Sequence[int],
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> None:
        data, indices = args
        self.data, self.indices = to_tensor(data), needs_index(indices, "BCOO")
        self.shape = tuple(int(n) for n in shape)
        self.indices_sorted, self.unique_indices = indices_sorted, unique_indices
        _check(self.data.shape, self.indices.shape, self.shape)
        batch, self._sizes = self.shape[: self.n_batch], self.shape[self.n_batch :]
        if _batch(self.data, self.indices) != batch:  # one of both tells the sizes of a batch
            self.indices = lnp.broadcast_to(self.indices, (*batch, *self.indices.shape[-2:]))

    n_batch = property(lambda self: self.indices.ndim - 2)
    n_sparse = property(lambda self: self.indices.shape[-1])
    n_dense = property(lambda self: self.data.ndim - 1 - self.n_batch)
    nse = property(lambda self: self.indices.shape[-2])

    def _layout(self) -> str:
        shown = ((f", {n}={getattr(self, n)}") for n in ("n_batch", "n_dense") if getattr(self, n))
        return "".join(shown)

    # --- as a container ---

    def tree_flatten(self) -> tuple[Any, Any]:
        # Sizes of a batch are those of the parts, so that vmap may take them away.
        meta = (self._sizes, self.indices_sorted, self.unique_indices)
        return (self.data, self.indices), meta

    @classmethod
    def tree_unflatten(cls, meta: Any, children: Any) -> BCOO:
        new = object.__new__(cls)
        new.data, new.indices = children
        new._sizes, new.indices_sorted, new.unique_indices = meta
        new.shape = (*_batch(new.data, new.indices), *new._sizes)
        return new

    # --- made of other arrays ---

    @classmethod
    def fromdense(
        cls,
        mat: Any,
        *,
        nse: int | None = None,
        index_dtype: Any = "int32",
        n_dense: int = 0,
        n_batch: int = 0,
    ) -> BCOO:
        """The sparse form of a dense array: see `bcoo_fromdense`."""
        return bcoo_fromdense(mat, nse=nse, index_dtype=index_dtype, n_dense=n_dense, n_batch=n_batch)

    @classmethod
    def from_scipy_sparse(
        cls, mat: Any, *, index_dtype: Any = None, n_dense: int = 0, n_batch: int = 0
    ) -> BCOO:
        """A SciPy matrix in coordinate form. NotImplementedError for batch or dense dimensions."""
        if n_dense or n_batch:
            raise NotImplementedError("a SciPy matrix has sparse dimensions only")
        import numpy as np

        coo = mat.tocoo()
        indices = np.stack([coo.row, coo.col], -1).astype(str(index_dtype or "int32"))
        return cls((coo.data, indices), shape=mat.shape)

    # --- structure ---

    def todense(self) -> Tensor:
        """The array with all its elements."""
        return bcoo_todense(self)

    def sort_indices(self) -> BCOO:
        """The same with indices in their order."""
        return bcoo_sort_indices(self)

    def sum_duplicates(self, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
        """The same with one element at most for each place: see `bcoo_sum_duplicates`."""
        return bcoo_sum_duplicates(self, nse, remove_zeros)

    def transpose(self, axes: Sequence[int] | None = None) -> BCOO:
        """The dimensions in another order, which keeps batch, sparse and dense ones together."""
        from lamina.experimental.sparse._structure import bcoo_transpose

        if axes is None:
            b, s = self.n_batch, self.n_batch + self.n_sparse
            axes = [*range(b)][::-1] + [*range(b, s)][::-1] + [*range(s, self.ndim)][::-1]
            if axes != [*range(self.ndim)][::-1] and (b or self.n_dense):
                raise NotImplementedError("transpose of batch or dense dimensions needs to be told the axes")
        return bcoo_transpose(self, permutation=axes)

    def reshape(self, *args: Any, dimensions: Sequence[int] | None = None) -> BCOO:
        """Another shape of as many elements: see `bcoo_reshape`."""
        from lamina.experimental.sparse._structure import bcoo_reshape

        sizes = list(args[0]) if len(args) == 1 and isinstance(args[0], (tuple, list)) else list(args)
        if sizes.count(-1) == 1:
            rest = -math.prod(sizes)
            sizes[sizes.index(-1)] = self.size // rest if rest else 0
        return bcoo_reshape(self, new_sizes=sizes, dimensions=dimensions)

    def update_layout(
        self, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str | None = "error"
    ) -> BCOO:
        """The same with another number of batch or dense dimensions: see `bcoo_update_layout`."""
        from lamina.experimental.sparse._structure import bcoo_update_layout

        return bcoo_update_layout(self, n_batch=n_batch, n_dense=n_dense, on_inefficient=on_inefficient)

    def astype(self, dtype: Any) -> BCOO:
        """The same in another element type."""
        return self.with_data(lnp.astype(self.data, dtype))

    def sum(self, axis: Any = None) -> Any:
        """Sums along axes: sparse; a Tensor of all."""
        from lamina.experimental.sparse._structure import bcoo_reduce_sum

        axes = range(self.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
        out = bcoo_reduce_sum(self, axes=tuple(axes))
        return out if out.ndim else out.todense()

    def __getitem__(self, index: Any) -> BCOO:
        from lamina.experimental.sparse._structure import indexed

        return indexed(self, index)

    def __iter__(self) -> Iterator[BCOO]:
        if not self.shape:
            raise TypeError("iteration over a sparse array of no dimensions")
        return (self[i] for i in range(self.shape[0]))

    def with_data(self, data: Tensor) -> BCOO:
        """Other elements in the same places."""
        return BCOO(
            (data, self.indices),
            shape=self.shape,
            indices_sorted=self.indices_sorted,
            unique_indices=self.unique_indices,
        )

    # --- numbers ---

    def __neg__(self) -> BCOO:
        return self.with_data(-self.data)

    def __pos__(self) -> BCOO:
        return self

    def __abs__(self) -> BCOO:
        from lamina.experimental.sparse._products import of_elements

        return of_elements(lnp.abs, self)

    def __mul__(self, other: Any) -> Any:
        from lamina.experimental.sparse._products import multiply

        return multiply(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> BCOO:
        from lamina.experimental.sparse._products import divide

        return NotImplemented if isinstance(other, SparseArray) else divide(self, other)  # zeros by zeros

    def __pow__(self, exponent: Any) -> BCOO:
        from lamina.experimental.sparse._products import of_elements

        if not isinstance(exponent, (int, float)) or exponent <= 0:
            raise NotImplementedError(
                f"a sparse array to the power {exponent!r}: only positive numbers keep 0"
            )
        return of_elements(lambda x: x**exponent, self)

    def __add__(self, other: Any) -> Any:
        from lamina.experimental.sparse._products import add

        return add(self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        from lamina.experimental.sparse._products import add

        return add(self, -other)

    def __rsub__(self, other: Any) -> Any:
        from lamina.experimental.sparse._products import add

        return add(-self, other)

    def __matmul__(self, other: Any) -> Any:
        from lamina.experimental.sparse._products import matmul

        return matmul(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        from lamina.experimental.sparse._products import matmul

        return matmul(other, self)


def _batch(data: Any, indices: Any) -> tuple[int, ...]:
    """The sizes of a batch; none of what is no array and stands in the place of one in a container."""
    if not (hasattr(data, "shape") and hasattr(indices, "shape")):
        return ()
    pairs = zip(data.shape, indices.shape[:-2])
    return tuple(b if a == 1 else a for a, b in pairs)


def _check(data: tuple[int, ...], indices: tuple[int, ...], shape: tuple[int, ...]) -> None:
    if len(indices) < 2:
        raise ValueError(f"BCOO needs indices of shape (*batch, nse, n_sparse), not {indices}")
    n_batch, n_sparse, nse = len(indices) - 2, indices[-1], indices[-2]
    n_dense = len(shape) - n_batch - n_sparse
    fits = n_dense >= 0 and len(data) == n_batch + 1 + n_dense and data[n_batch] == nse
    batches = (*zip(data[:n_batch], shape), *zip(indices[:n_batch], shape))
    fits = fits and all(have in (1, size) for have, size in batches)
    if not fits or data[n_batch + 1 :] != shape[n_batch + n_sparse :]:
        raise ValueError(
            f"BCOO: data of shape {data} and indices of shape {indices} ({n_batch} batch and {n_sparse} sparse "
            f"dimensions, nse={nse}) do not make an array of shape {shape}"
        )


# --- what functions of one part of a batch are made of ---


def sparse_shape(m: BCOO) -> tuple[int, ...]:
    """The sizes of the sparse dimensions."""
    return m.shape[m.n_batch : m.n_batch + m.n_sparse]


def whole(m: BCOO) -> tuple[Tensor, Tensor]:
    """data and indices with the batch dimensions of the shape."""
    b = m.n_batch
    data = lnp.broadcast_to(m.data, (*m.shape[:b], *m.data.shape[b:]))
    return data, lnp.broadcast_to(m.indices, (*m.shape[:b], *m.indices.shape[b:]))


def over_batch(f: Callable[..., Any], n_batch: int) -> Callable[..., Any]:
    """A function of one part of a batch, of all."""
    return functools.reduce(lambda g, _: vmap(g), range(n_batch), f)


def inside(indices: Tensor, sizes: Sequence[int]) -> Tensor:
    """Which indices (..., n_sparse) are not padding."""
    return lnp.all(indices < lnp.asarray(sizes, indices.dtype), -1)


def spread(mask: Tensor, data: Tensor) -> Tensor:
    """A mask of elements with as many dimensions at the end as data has more."""
    return mask.reshape((*mask.shape, *[1] * (data.ndim - mask.ndim)))


def linear(indices: Tensor, sizes: Sequence[int]) -> Tensor:
    """The number of each place in row-major order; that of all places for padding."""
    total = math.prod(sizes)
    wide = "int64" if total >= 2**31 else "int32"
    number = lnp.zeros(indices.shape[:-1], wide)
    for k, size in enumerate(sizes):
        number = number * size + indices[..., k].astype(wide)
    return lnp.where(inside(indices, sizes), number, total)


def places(numbers: Tensor, sizes: Sequence[int], dtype: Any) -> Tensor:
    """The indices of numbers by `linear`."""
    rest, columns = numbers, []
    for size in reversed(sizes):
        columns.append(rest % max(size, 1))
        rest = rest // max(size, 1)
    padding = numbers >= math.prod(sizes)
    columns = [lnp.where(padding, size, c) for size, c in zip(sizes, reversed(columns), strict=True)]
    if not columns:
        return lnp.zeros((*numbers.shape, 0), dtype)
    return lnp.astype(lnp.stack(columns, -1), dtype)


def _most(there: Tensor, what: str) -> int:
    """How many are True of each row of a mask, at most. TypeError where its values are not known."""
    if not _core.forceable(there):
        raise TypeError(
            f"{what} gives as many elements as are not zero, which is not known in a trace: give nse"
        )
    return int(lnp.max(lnp.sum(there, -1), initial=0))


def _at(m_indices: Tensor) -> tuple[Any, ...]:
    return tuple(m_indices[..., k] for k in range(m_indices.shape[-1]))


# --- dense and sparse ---


def bcoo_fromdense(
    mat: Any, *, nse: int | None = None, n_batch: int = 0, n_dense: int = 0, index_dtype: Any = "int32"
) -> BCOO:
    """The sparse form of a dense array, of which the first `n_batch` and last `n_dense` dimensions are not sparse.

    `nse` elements of each part are kept, the first ones that are not zero; without it as many as there are, which
    needs values that are known (TypeError inside a trace).
    """
    mat = to_tensor(mat)
    n_sparse = mat.ndim - n_batch - n_dense
    if n_sparse < 0 or n_batch < 0 or n_dense < 0:
        raise ValueError(f"{n_batch} batch and {n_dense} dense dimensions are more than those of {mat.shape}")
    sizes = mat.shape[n_batch : n_batch + n_sparse]
    there = lnp.any(mat != 0, tuple(range(mat.ndim - n_dense, mat.ndim)))
    there = there.reshape((*mat.shape[:n_batch], math.prod(sizes)))
    if nse is None:
        nse = _most(there, "bcoo_fromdense") if n_sparse else 1

    def chosen(t: Tensor) -> Tensor:
        return lnp.nonzero(t, size=nse, fill_value=math.prod(sizes))[0]

    indices = places(over_batch(chosen, n_batch)(there), sizes, index_dtype)
    return BCOO((extract(indices, mat), indices), shape=mat.shape, indices_sorted=True, unique_indices=True)


def extract(indices: Tensor, mat: Tensor) -> Tensor:
    """The elements of a dense array at indices, zero where those are padding."""
    n_batch = indices.ndim - 2
    batch = tuple(max(a, b) for a, b in zip(indices.shape[:n_batch], mat.shape[:n_batch], strict=True))
    indices = lnp.broadcast_to(indices, (*batch, *indices.shape[n_batch:]))
    mat = lnp.broadcast_to(mat, (*batch, *mat.shape[n_batch:]))

    def one(i: Tensor, m: Tensor) -> Tensor:
        if not i.shape[-1]:
            return lnp.broadcast_to(m, (i.shape[0], *m.shape))
        return m.at[_at(i)].get(mode="fill", fill_value=0)

    return over_batch(one, n_batch)(indices, mat)


@taking(BCOO)
def bcoo_extract(sparr: BCOO, arr: Any, *, assume_unique: bool | None = None) -> BCOO:
    """The elements of a dense array `arr` that stand where `sparr` has some.

    Places that `sparr` has twice get the element once, unless `assume_unique`. ValueError for another shape.
    """
    arr = to_tensor(arr)
    if arr.shape != sparr.shape:
        raise ValueError(f"bcoo_extract: arrays of shapes {sparr.shape} and {arr.shape}")
    unique = sparr.unique_indices if assume_unique is None else assume_unique
    if not unique:
        sparr = bcoo_sum_duplicates(sparr, sparr.nse, remove_zeros=False)
    return sparr.with_data(extract(sparr.indices, arr))


@taking(BCOO)
def bcoo_todense(mat: BCOO) -> Tensor:
    """The array with all its elements."""
    data, indices = whole(mat)
    shape = mat.shape[mat.n_batch :]
    boolean = data.dtype.kind == "b"

    def one(d: Tensor, i: Tensor) -> Tensor:
        if not i.shape[-1]:
            return lnp.sum(d, 0, dtype=d.dtype.name)
        return lnp.zeros(shape, d.dtype).at[_at(i)].add(d, mode="drop")

    out = over_batch(one, mat.n_batch)(lnp.astype(data, "int32") if boolean else data, indices)
    return out != 0 if boolean else out


@taking(BCOO)
def bcoo_sort_indices(mat: BCOO) -> BCOO:
    """The same with the indices of each part in row-major order."""
    if not mat.n_sparse:
        return mat
    data, indices = whole(mat)
    sizes = sparse_shape(mat)

    def one(d: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        order = lnp.argsort(linear(i, sizes), stable=True)
        return d[order], i[order]

    parts = over_batch(one, mat.n_batch)(data, indices)
    return BCOO(parts, shape=mat.shape, indices_sorted=True, unique_indices=mat.unique_indices)


@taking(BCOO)
def bcoo_sum_duplicates(mat: BCOO, nse: int | None = None, remove_zeros: bool = True) -> BCOO:
    """The same with one element at most for each place, in order, and without zeros where `remove_zeros`.

    `nse` elements are kept, or padded to; without it as many as there are, which needs values that are known
    (TypeError inside a trace).
    """
    data, indices = whole(mat)
    sizes, dtype = sparse_shape(mat), mat.indices.dtype
    total = math.prod(sizes)

    def ordered(d: Tensor, i: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        number = linear(i, sizes)
        if remove_zeros:
            number = lnp.where(lnp.any(d != 0, tuple(range(1, d.ndim))), number, total)
        order = lnp.argsort(number, stable=True)
        number = number[order]
        before = lnp.concatenate([lnp.full(1, -1, number.dtype), number[:-1]])
        return order, number, (number != before) & (number < total)

    order, number, first = over_batch(ordered, mat.n_batch)(data, indices)
    if nse is None:
        nse = _most(first, "bcoo_sum_duplicates")
    boolean = data.dtype.kind == "b"

    def joined(d: Tensor, order: Tensor, number: Tensor, first: Tensor) -> tuple[Tensor, Tensor]:
        group = lnp.where(number < total, lnp.cumsum(first) - 1, nse)
        sums = lnp.zeros((nse, *d.shape[1:]), d.dtype).at[group].add(d[order], mode="drop")
        return sums, lnp.full(nse, total, number.dtype).at[group].set(number, mode="drop")

    given = lnp.astype(data, "int32") if boolean else data
    sums, numbers = over_batch(joined, mat.n_batch)(given, order, number, first)
    made = (sums != 0 if boolean else sums, places(numbers, sizes, dtype))
    return BCOO(made, shape=mat.shape, indices_sorted=True, unique_indices=True)
