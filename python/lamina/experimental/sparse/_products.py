"""Sums and products of BCOO arrays with each other and with dense ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from lamina import lax
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina.experimental.sparse._base import SparseArray, common_type, taking
from lamina.experimental.sparse._bcoo import (
    BCOO,
    bcoo_fromdense,
    bcoo_sum_duplicates,
    extract,
    inside,
    over_batch,
    sparse_shape,
    whole,
)
from lamina.experimental.sparse._structure import (
    bcoo_broadcast_in_dim,
    bcoo_transpose,
    bcoo_update_layout,
)

_Numbers = tuple[Sequence[int], Sequence[int]]
_DotNumbers = tuple[_Numbers, _Numbers]


def of_elements(f: Callable[[Tensor], Tensor], m: BCOO) -> BCOO:
    """A function that is 0 at 0, of an array in which each place is stored once."""
    unique = m if m.unique_indices else bcoo_sum_duplicates(m, m.nse, remove_zeros=False)
    return unique.with_data(f(unique.data))


# --- element by element ---


@taking(BCOO)
def bcoo_multiply_dense(sp_mat: BCOO, v: Any) -> Tensor:
    """The data of the product of a sparse array and a dense one, which is broadcast to its shape."""
    return sp_mat.data * _beside(sp_mat, v, 0)


def _beside(sp_mat: BCOO, v: Any, rest: int) -> Tensor:
    """What stands in a dense array in the places of a sparse one, to whose shape it is broadcast; `rest` in padding."""
    v = to_tensor(v)
    if v.ndim == 0:
        return v
    if v.ndim > sp_mat.ndim or lnp.broadcast_shapes(sp_mat.shape, v.shape) != sp_mat.shape:
        raise ValueError(f"an array of shape {v.shape} does not broadcast to {sp_mat.shape}")
    m, v = sp_mat, v.reshape((*[1] * (sp_mat.ndim - v.ndim), *v.shape))
    b, s = m.n_batch, m.n_batch + m.n_sparse
    # A dimension of size 1 is not looked up.
    sizes = v.shape[b:s]
    wide = [k for k, n in enumerate(sizes) if n != 1 or m.shape[b + k] == 1]
    v = v.reshape((*v.shape[:b], *(sizes[k] for k in wide), *v.shape[s:]))
    there = inside(m.indices, sparse_shape(m))
    found = extract(m.indices[..., lnp.asarray(wide, "int32")], v)
    # Nothing stands in the places of padding, NaN neither.
    return lnp.where(there.reshape((*there.shape, *[1] * (found.ndim - there.ndim))), found, rest)


@taking(BCOO)
def bcoo_multiply_sparse(lhs: BCOO, rhs: BCOO) -> BCOO:
    """The product of two sparse arrays of the same number of dimensions, which broadcast to one shape."""
    if lhs.ndim != rhs.ndim:
        raise ValueError(f"bcoo_multiply_sparse: {lhs} and {rhs} have another number of dimensions")
    shape = lnp.broadcast_shapes(lhs.shape, rhs.shape)
    b, d = min(lhs.n_batch, rhs.n_batch), min(lhs.n_dense, rhs.n_dense)
    x, y = (bcoo_update_layout(m, n_batch=b, n_dense=d, on_inefficient=None) for m in (lhs, rhs))
    n = x.n_sparse
    shared = [k for k in range(n) if x.shape[b + k] == y.shape[b + k]]
    sizes = shape[b : b + n]
    from_x = [k for k in range(n) if x.shape[b + k] == sizes[k]]

    def one(xd: Tensor, xi: Tensor, yd: Tensor, yi: Tensor) -> tuple[Tensor, Tensor]:
        meet = inside(xi, sparse_shape(x))[:, None] & inside(yi, sparse_shape(y))[None]
        for k in shared:
            meet = meet & (xi[:, None, k] == yi[None, :, k])
        shown = meet.reshape((*meet.shape, *[1] * d))
        data = lnp.where(shown, xd[:, None] * yd[None], 0)
        columns = [
            lnp.where(meet, xi[:, None, k] if k in from_x else yi[None, :, k], sizes[k]) for k in range(n)
        ]
        count = meet.size
        indices = lnp.stack(columns, -1) if columns else lnp.zeros((*meet.shape, 0), xi.dtype)
        return data.reshape((count, *data.shape[2:])), indices.reshape((count, n)).astype(xi.dtype)

    parts = [lnp.broadcast_to(p, (*shape[:b], *p.shape[b:])) for m in (x, y) for p in whole(m)]
    return BCOO(over_batch(one, b)(*parts), shape=shape)


def _alike(m: BCOO, other: BCOO) -> bool:
    """Whether the elements of both stand in the same places, one beside the other."""
    return m.indices is other.indices and m.shape == other.shape and m.data.shape == other.data.shape


def divide(m: BCOO, other: Any) -> BCOO:
    """``m / other``, which is dense and is broadcast to m's shape."""
    return m.with_data(m.data / _beside(m, other, 1))


def multiply(m: BCOO, other: Any) -> Any:
    """``m * other``."""
    if isinstance(other, SparseArray):
        other = as_bcoo(other)
        if _alike(m, other) and m.unique_indices:
            return m.with_data(m.data * other.data)
        if other.ndim == m.ndim:
            return bcoo_multiply_sparse(m, other)
        small, large = sorted((m, other), key=lambda x: x.ndim)
        return bcoo_multiply_sparse(_with_dims(small, large.ndim), large)
    v = to_tensor(other)
    shape = lnp.broadcast_shapes(m.shape, v.shape)
    if shape != m.shape:
        where = range(len(shape) - m.ndim, len(shape))
        m = bcoo_broadcast_in_dim(m, shape=shape, broadcast_dimensions=tuple(where))
    return m.with_data(bcoo_multiply_dense(m, v))


def _with_dims(m: BCOO, ndim: int) -> BCOO:
    new = ndim - m.ndim
    m = bcoo_update_layout(m, n_batch=0, n_dense=0, on_inefficient=None)
    shape = (*[1] * new, *m.shape)
    out = bcoo_broadcast_in_dim(m, shape=shape, broadcast_dimensions=tuple(range(new, ndim)))
    return bcoo_update_layout(out, n_batch=0, on_inefficient=None)


def add(m: BCOO, other: Any) -> Any:
    """``m + other``: sparse beside a sparse array, dense beside one of m's shape.

    NotImplementedError for a dense array that would be broadcast, so that nothing becomes dense unasked.
    """
    if isinstance(other, SparseArray):
        other = as_bcoo(other)
        if other.shape != m.shape:
            raise NotImplementedError(f"a sum of sparse arrays of shapes {m.shape} and {other.shape}")
        if _alike(m, other):
            return m.with_data(m.data + other.data)
        b, d = min(m.n_batch, other.n_batch), min(m.n_dense, other.n_dense)
        kind = common_type(m, other)
        x, y = (
            bcoo_update_layout(a, n_batch=b, n_dense=d, on_inefficient=None).astype(kind) for a in (m, other)
        )
        if b == 0 or x.n_batch == b:
            return _joined(x, y)
    v = to_tensor(other)
    if lnp.broadcast_shapes(m.shape, v.shape) != v.shape:
        raise NotImplementedError(
            f"a sum of {m} and a dense array of shape {v.shape} is dense: add them with todense()"
        )
    return m.todense() + v


def _joined(x: BCOO, y: BCOO) -> BCOO:
    """The stored elements of two arrays of one shape and layout."""
    parts = [lnp.concatenate(p, x.n_batch) for p in zip(whole(x), whole(y), strict=True)]
    return BCOO((parts[0], parts[1]), shape=x.shape)


def as_bcoo(m: Any) -> BCOO:
    """A sparse array in coordinate form."""
    return m if isinstance(m, BCOO) else m.to_bcoo()


# --- products along dimensions ---


def matmul(a: Any, b: Any) -> Any:
    """``a @ b``, one of them sparse, as `lamina.numpy.matmul` of dense ones."""
    x, y = (v if isinstance(v, SparseArray) else to_tensor(v) for v in (a, b))
    if not x.ndim or not y.ndim:
        raise ValueError(f"matmul takes arrays of at least one dimension, not shapes {x.shape} and {y.shape}")
    if x.shape[-1] != y.shape[max(y.ndim - 2, 0)]:
        raise ValueError(f"matmul of shapes {x.shape} and {y.shape}: {x.shape[-1]} columns need as many rows")
    if x.ndim <= 2 and y.ndim <= 2:
        return bcoo_dot_general(x, y, dimension_numbers=(((x.ndim - 1,), (max(y.ndim - 2, 0),)), ((), ())))
    if y.ndim <= 2 or x.ndim == 1:
        return bcoo_dot_general(x, y, dimension_numbers=(((x.ndim - 1,), (max(y.ndim - 2, 0),)), ((), ())))
    if x.ndim == 2:  # a matrix for all: its rows come first
        rows_first = bcoo_dot_general(x, y, dimension_numbers=(((1,), (y.ndim - 2,)), ((), ())))
        return rows_first.transpose((*range(1, y.ndim - 1), 0, y.ndim - 1))
    shape = lnp.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x, y = (_widened(v, (*shape, *v.shape[-2:])) for v in (x, y))
    batch = tuple(range(x.ndim - 2))
    return bcoo_dot_general(x, y, dimension_numbers=(((x.ndim - 1,), (x.ndim - 2,)), (batch, batch)))


def _widened(m: Any, shape: tuple[int, ...]) -> Any:
    """An array broadcast to a shape."""
    if m.shape == shape:
        return m
    if not isinstance(m, SparseArray):
        return lnp.broadcast_to(m, shape)
    return bcoo_broadcast_in_dim(
        as_bcoo(m), shape=shape, broadcast_dimensions=range(len(shape) - m.ndim, len(shape))
    )


def _dims(numbers: _DotNumbers, lhs: Any, rhs: Any) -> tuple[list[int], list[int], list[int], list[int]]:
    (lc, rc), (lb, rb) = numbers
    found = [[int(d) for d in part] for part in (lc, rc, lb, rb)]
    for own, m in ((found[0] + found[2], lhs), (found[1] + found[3], rhs)):
        if len(set(own)) != len(own) or any(not 0 <= d < m.ndim for d in own):
            raise ValueError(
                f"dot_general dimension numbers {numbers} for shapes {lhs.shape} and {rhs.shape}"
            )
    pairs = [*zip(found[0], found[1], strict=True), *zip(found[2], found[3], strict=True)]
    if any(lhs.shape[i] != rhs.shape[j] for i, j in pairs):
        raise ValueError(
            f"dot_general of shapes {lhs.shape} and {rhs.shape} by {numbers}: sizes of pairs are not the same"
        )
    return found[0], found[1], found[2], found[3]


def bcoo_dot_general(
    lhs: Any,
    rhs: Any,
    *,
    dimension_numbers: _DotNumbers,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Any:
    """`lax.dot_general` of a sparse array and a dense one (dense), or of two sparse ones (sparse).

    Dimensions of the batch that are batch ones of a sparse operand, and products along its sparse dimensions, take
    time by its stored elements; others are made of the dense form. ValueError where shapes do not fit.
    """
    sparse = [isinstance(m, SparseArray) for m in (lhs, rhs)]
    x, y = (as_bcoo(m) if s else to_tensor(m) for m, s in zip((lhs, rhs), sparse, strict=True))
    kind = str(preferred_element_type or common_type(x, y))
    x, y = (m.astype(kind) for m in (x, y))
    if not any(sparse):
        return lax.dot_general(x, y, dimension_numbers)
    lc, rc, lb, rb = _dims(dimension_numbers, x, y)
    if all(sparse):
        return _sparse_product(x, y, lc, rc, lb, rb)
    if sparse[0]:
        return _product(x, y, lc, rc, lb, rb)
    out = _product(y, x, rc, lc, rb, lb)
    batch, rest = len(lb), y.ndim - len(rb) - len(rc)
    order = (*range(batch), *range(batch + rest, out.ndim), *range(batch, batch + rest))
    return lnp.transpose(out, order)


def _product(x: BCOO, y: Tensor, xc: list[int], yc: list[int], xb: list[int], yb: list[int]) -> Tensor:
    b, s = x.n_batch, x.n_batch + x.n_sparse
    direct = sorted(xb) == list(range(b)) and all(b <= d < s for d in xc)
    if not direct:
        return lax.dot_general(x.todense(), y, ((tuple(xc), tuple(yc)), (tuple(xb), tuple(yb))))
    if xb != list(range(b)):  # the batch in the order that is asked for
        x = bcoo_transpose(x, permutation=(*xb, *range(b, x.ndim)))
    free = [d for d in range(y.ndim) if d not in yc and d not in yb]
    y = lnp.transpose(y, (*yb, *yc, *free))
    along = [d - b for d in xc]
    left = [k for k in range(x.n_sparse) if k not in along]
    sizes, dense = sparse_shape(x), x.shape[s:]
    shape = (*(sizes[k] for k in left), *dense, *y.shape[len(yb) + len(yc) :])
    data, indices = whole(x)

    def one(d: Tensor, i: Tensor, v: Tensor) -> Tensor:
        at = tuple(i[:, k] for k in along)
        there = inside(i, sizes)
        d = lnp.where(there.reshape((-1, *[1] * (d.ndim - 1))), d, 0)
        rows = v.at[at].get(mode="clip") if at else lnp.broadcast_to(v, (i.shape[0], *v.shape))
        terms = d.reshape((*d.shape, *[1] * (rows.ndim - 1))) * rows.reshape(
            (rows.shape[0], *[1] * (d.ndim - 1), *rows.shape[1:])
        )
        # Nothing times what is not finite is no number; padding is not there at all.
        terms = lnp.where(there.reshape((-1, *[1] * (terms.ndim - 1))), terms, 0)
        if not left:
            return lnp.sum(terms, 0, dtype=terms.dtype.name)
        target = tuple(lnp.where(there, i[:, k], sizes[k]) for k in left)
        return lnp.zeros(shape, terms.dtype).at[target].add(terms, mode="drop")

    return over_batch(one, b)(data, indices, y)


def _sparse_product(x: BCOO, y: BCOO, xc: list[int], yc: list[int], xb: list[int], yb: list[int]) -> BCOO:
    n = len(xb)
    x, y = (bcoo_update_layout(m, n_batch=0, n_dense=0, on_inefficient=None) for m in (x, y))
    x_free = [d for d in range(x.ndim) if d not in xc and d not in xb]
    y_free = [d for d in range(y.ndim) if d not in yc and d not in yb]
    shape = [*(x.shape[d] for d in (*xb, *x_free)), *(y.shape[d] for d in y_free)]
    there = inside(x.indices, x.shape)[:, None] & inside(y.indices, y.shape)[None]
    for i, j in zip((*xc, *xb), (*yc, *yb), strict=True):
        there = there & (x.indices[:, None, i] == y.indices[None, :, j])
    data = lnp.where(there, x.data[:, None] * y.data[None], 0).reshape(-1)
    columns = [x.indices[:, None, d] for d in (*xb, *x_free)] + [y.indices[None, :, d] for d in y_free]
    columns = [lnp.where(there, c, size).reshape(-1) for c, size in zip(columns, shape, strict=True)]
    dtype = x.indices.dtype
    indices = lnp.stack(columns, -1).astype(dtype) if columns else lnp.zeros((data.size, 0), dtype)
    out = BCOO((data, indices), shape=shape)
    out = bcoo_sum_duplicates(out, min(data.size, math.prod(shape)), remove_zeros=False)
    return bcoo_update_layout(out, n_batch=n, on_inefficient=None) if n else out


def bcoo_dot_general_sampled(A: Any, B: Any, indices: Any, *, dimension_numbers: _DotNumbers) -> Tensor:
    """The elements of the product of two dense arrays at ``indices [*batch, nse, n_sparse]``, and no others."""
    a, b, at = to_tensor(A), to_tensor(B), to_tensor(indices)
    ac, bc, ab, bb = _dims(dimension_numbers, a, b)
    a_free = [d for d in range(a.ndim) if d not in ac and d not in ab]
    b_free = [d for d in range(b.ndim) if d not in bc and d not in bb]
    n, n_sparse = at.ndim - 2, at.shape[-1]
    a, b = lnp.transpose(a, (*ab, *a_free, *ac)), lnp.transpose(b, (*bb, *b_free, *bc))
    plain = n == len(ab) and n_sparse == len(a_free) + len(b_free)
    if not plain:
        full = lax.dot_general(A, B, dimension_numbers)
        return extract(at, full)
    count = math.prod(a.shape[len(ab) + len(a_free) :])
    sizes = (*a.shape[n : n + len(a_free)], *b.shape[n : n + len(b_free)])

    def one(x: Tensor, y: Tensor, i: Tensor) -> Tensor:
        left = x.reshape((*x.shape[: len(a_free)], count))
        left = left.at[tuple(i[:, k] for k in range(len(a_free)))].get(mode="clip")
        right = y.reshape((*y.shape[: len(b_free)], count))
        right = right.at[tuple(i[:, k] for k in range(len(a_free), n_sparse))].get(mode="clip")
        return lnp.where(inside(i, sizes), lnp.sum(left * right, -1), 0)

    at = lnp.broadcast_to(at, (*a.shape[:n], *at.shape[n:]))
    return over_batch(one, n)(a, b, at)


def bcoo_conv_general_dilated(lhs: Any, rhs: Any, **options: Any) -> BCOO:
    """`lax.conv_general_dilated` of sparse arrays, computed of their dense forms; sparse."""
    dense = [m.todense() if isinstance(m, SparseArray) else to_tensor(m) for m in (lhs, rhs)]
    options.pop("out_sharding", None)
    out = lax.conv_general_dilated(*dense, **options)
    return bcoo_fromdense(out, nse=out.size)
