"""Functions of BCOO arrays that move elements about: every one keeps or drops elements, none makes dense ones."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from lamina import lax
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina._transforms import vmap
from lamina.experimental.sparse._base import SparseEfficiencyError, SparseEfficiencyWarning, taking
from lamina.experimental.sparse._bcoo import (
    BCOO,
    bcoo_sum_duplicates,
    inside,
    linear,
    over_batch,
    places,
    sparse_shape,
    spread,
    whole,
)
from lamina.numpy._common import canonical_axis


def _masked(m: BCOO) -> tuple[Tensor, Tensor, Tensor]:
    """data, zero where indices are padding; indices; and where they are not."""
    data, indices = whole(m)
    there = inside(indices, sparse_shape(m))
    return lnp.where(spread(there, data), data, 0), indices, there


def _shorter(m: BCOO) -> BCOO:
    """The same with as few stored elements as its shape has places, where it has more."""
    most = math.prod(sparse_shape(m))
    return bcoo_sum_duplicates(m, most, remove_zeros=False) if most < m.nse else m


@taking(BCOO)
def bcoo_transpose(mat: BCOO, *, permutation: Sequence[int]) -> BCOO:
    """The dimensions in the order of `permutation`.

    TypeError where that is no permutation, NotImplementedError where it mixes batch, sparse and dense ones.
    """
    order = [int(p) for p in permutation]
    if sorted(order) != list(range(mat.ndim)):
        raise TypeError(f"{tuple(order)} is no permutation of the {mat.ndim} dimensions of shape {mat.shape}")
    b, s = mat.n_batch, mat.n_batch + mat.n_sparse
    batch, sparse, dense = order[:b], order[b:s], order[s:]
    if any(p >= b for p in batch) or any(p < s for p in dense):
        raise NotImplementedError(
            f"transpose by {tuple(order)} mixes batch, sparse and dense dimensions of {mat}"
        )
    data = lnp.transpose(mat.data, (*batch, b, *(p - s + b + 1 for p in dense)))
    indices = lnp.transpose(mat.indices, (*batch, b, b + 1))
    if mat.n_sparse:
        indices = indices[..., lnp.asarray([p - b for p in sparse], "int32")]
    return BCOO(
        (data, indices),
        shape=[mat.shape[p] for p in order],
        indices_sorted=mat.indices_sorted and sparse == sorted(sparse),
        unique_indices=mat.unique_indices,
    )


def _leading(sizes: Sequence[int], wanted: Sequence[int]) -> int | None:
    """How many of the sizes are as many parts as the wanted ones."""
    if list(sizes[: len(wanted)]) == list(wanted):
        return len(wanted)
    fits = (k for k in range(len(sizes) + 1) if math.prod(sizes[:k]) == math.prod(wanted))
    return next(fits, None)


@taking(BCOO)
def bcoo_reshape(
    mat: BCOO, *, new_sizes: Sequence[int], dimensions: Sequence[int] | None = None, sharding: Any = None
) -> BCOO:
    """Another shape of as many elements, the dimensions taken in the order of `dimensions`.

    ValueError for another number of elements, and where elements would change between batch, sparse and dense
    dimensions.
    """
    if dimensions is not None:
        mat = bcoo_transpose(mat, permutation=dimensions)
    new, b, s = [int(n) for n in new_sizes], mat.n_batch, mat.n_batch + mat.n_sparse
    kept = _leading(new, mat.shape[:b])
    tail = _leading(new[::-1], mat.shape[s:][::-1])
    fits = kept is not None and tail is not None and kept + tail <= len(new)
    middle = new[kept : len(new) - tail] if fits else []
    if not fits or math.prod(middle) != math.prod(sparse_shape(mat)):
        raise ValueError(
            f"cannot reshape {mat} to {tuple(new)}: batch, sparse and dense parts keep their sizes"
        )
    batch, dense = new[:kept], new[len(new) - tail :]
    data, indices = whole(mat)
    number = linear(indices, sparse_shape(mat))
    if not mat.n_sparse and middle:
        number = lnp.zeros_like(number)
    indices = places(number, middle, indices.dtype)
    return BCOO(
        (data.reshape((*batch, mat.nse, *dense)), indices.reshape((*batch, mat.nse, len(middle)))),
        shape=new,
        indices_sorted=mat.indices_sorted,
        unique_indices=mat.unique_indices,
    )


@taking(BCOO)
def bcoo_reduce_sum(mat: BCOO, *, axes: Sequence[int]) -> BCOO:
    """Sums along axes: of sparse and batch ones, elements stand in the same place afterwards."""
    axes = sorted({canonical_axis(a, mat.ndim) for a in axes})
    b, s = mat.n_batch, mat.n_batch + mat.n_sparse
    batch, dense = [a for a in axes if a < b], [a - s + b + 1 for a in axes if a >= s]
    data, indices, there = _masked(mat)
    # Padding of a dropped dimension is none of those that are left.
    indices = lnp.where(there[..., None], indices, lnp.asarray(sparse_shape(mat), indices.dtype))
    if dense:
        data = lnp.sum(data, tuple(dense), dtype=None)
    if batch:
        kept = [a for a in range(b) if a not in batch]
        data = lnp.transpose(data, (*kept, *batch, *range(b, data.ndim)))
        indices = lnp.transpose(indices, (*kept, *batch, b, b + 1))
        lead, nse = data.shape[: len(kept)], math.prod(data.shape[len(kept) : b + 1])
        data = data.reshape((*lead, nse, *data.shape[b + 1 :]))
        indices = indices.reshape((*lead, nse, mat.n_sparse))
    left = [k for k in range(mat.n_sparse) if k + b not in axes]
    indices = indices[..., lnp.asarray(left, "int32")]
    shape = [n for a, n in enumerate(mat.shape) if a not in axes]
    return BCOO((data, indices), shape=shape)


@taking(BCOO)
def bcoo_broadcast_in_dim(
    mat: BCOO, *, shape: Sequence[int], broadcast_dimensions: Sequence[int], sharding: Any = None
) -> BCOO:
    """An array of `shape` whose dimension ``broadcast_dimensions[i]`` is dimension i of `mat`, of size 1 or the same.

    New dimensions in front are batch ones, those behind dense ones dense, others sparse.
    """
    shape, place = [int(n) for n in shape], [int(d) for d in broadcast_dimensions]
    fits = len(place) == mat.ndim and place == sorted(set(place)) and (not place or place[-1] < len(shape))
    if not fits or any(n not in (1, shape[d]) for n, d in zip(mat.shape, place)):
        raise ValueError(
            f"bcoo_broadcast_in_dim: dimensions {tuple(place)} of {tuple(shape)} are none that shape {mat.shape} has"
        )
    b, s = mat.n_batch, mat.n_batch + mat.n_sparse
    first = place[b] if b < mat.ndim else len(shape)  # of those that are not of a batch
    last = place[s] if s < mat.ndim else len(shape)
    data, indices, there = _masked(mat)
    indices = lnp.where(there[..., None], indices, lnp.asarray(sparse_shape(mat), indices.dtype))
    of_batch = {d: i for i, d in enumerate(place[:b])}
    lead = [data.shape[of_batch[d]] if d in of_batch else 1 for d in range(first)]
    behind = {d: i for i, d in enumerate(place[s:])}
    dense = [mat.shape[s + behind[d]] if d in behind else 1 for d in range(last, len(shape))]
    data = data.reshape((*lead, mat.nse, *dense))
    data = lnp.broadcast_to(data, (*lead, mat.nse, *shape[last:]))
    indices = indices.reshape((*lead, mat.nse, mat.n_sparse))
    there = there.reshape((*lead, mat.nse))
    own = {d: i for i, d in enumerate(place[b:s])}
    columns, where = [indices[..., own[d]] if d in own else None for d in range(first, last)], len(lead)
    for k, d in enumerate(range(first, last)):
        n = shape[d]
        if columns[k] is not None and mat.shape[b + own[d]] == n:
            continue
        count = there.shape[-1]
        data, there = lnp.repeat(data, n, where), lnp.repeat(there, n, where)
        columns = [None if c is None else lnp.repeat(c, n, where) for c in columns]
        number = lnp.tile(lnp.arange(n, dtype=indices.dtype), count)
        columns[k] = lnp.where(there, number, lnp.asarray(n, indices.dtype))
    empty = lnp.zeros((*there.shape, 0), indices.dtype)
    return BCOO((data, lnp.stack(columns, -1) if columns else empty), shape=shape)


def _same_layout(operands: Sequence[BCOO], what: str) -> list[BCOO]:
    found = list(operands)
    if not found:
        raise ValueError(f"{what} needs at least one array")
    if len({(m.n_batch, m.n_dense, m.ndim) for m in found}) > 1:
        raise ValueError(f"{what} needs arrays of the same layout, not {', '.join(map(repr, found))}")
    return found


def bcoo_concatenate(operands: Sequence[BCOO], *, dimension: int) -> BCOO:
    """Arrays of the same layout one behind the other along a dimension."""
    found = _same_layout(operands, "bcoo_concatenate")
    d, head = canonical_axis(dimension, found[0].ndim), found[0]
    others = [[n for i, n in enumerate(m.shape) if i != d] for m in found]
    if any(o != others[0] for o in others):
        raise ValueError(f"shapes {', '.join(str(m.shape) for m in found)} cannot be concatenated along {d}")
    shape = list(head.shape)
    shape[d] = sum(m.shape[d] for m in found)
    b, s = head.n_batch, head.n_batch + head.n_sparse
    sizes = shape[b:s]
    parts, before = [], 0
    most = max(m.nse for m in found)
    for m in found:
        data, indices, there = _masked(m)
        if b <= d < s:
            indices = indices + lnp.asarray([before * (k == d - b) for k in range(s - b)], indices.dtype)
        indices = lnp.where(there[..., None], indices, lnp.asarray(sizes, indices.dtype))
        if d >= s:
            width = [(0, 0)] * data.ndim
            width[d - s + b + 1] = (before, shape[d] - before - m.shape[d])
            data = lnp.pad(data, width)
        if d < b:  # batches of the same number of elements
            more = most - m.nse
            data = lnp.pad(data, [(0, more * (k == b)) for k in range(data.ndim)])
            rest = lnp.broadcast_to(lnp.asarray(sizes, indices.dtype), (*indices.shape[:b], more, s - b))
            indices = lnp.concatenate([indices, rest], b)
        parts.append((data, indices))
        before += m.shape[d]
    axis = d if d < b else b
    made = tuple(lnp.concatenate(p, axis) for p in zip(*parts, strict=True))
    return BCOO(made, shape=shape, unique_indices=d < s and all(m.unique_indices for m in found))


@taking(BCOO)
def bcoo_slice(
    mat: BCOO,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> BCOO:
    """The elements from `start_indices` to `limit_indices` by steps of `strides`. ValueError out of range."""
    starts, limits = [int(i) for i in start_indices], [int(i) for i in limit_indices]
    steps = [1] * mat.ndim if strides is None else [int(i) for i in strides]
    if not len(starts) == len(limits) == len(steps) == mat.ndim:
        raise ValueError(f"bcoo_slice of shape {mat.shape} from {starts} to {limits} by {steps}")
    for lo, hi, step, n in zip(starts, limits, steps, mat.shape, strict=True):
        if not 0 <= lo <= hi <= n or step < 1:
            raise ValueError(f"the range {lo}:{hi}:{step} is not within the size {n} of shape {mat.shape}")
    b, s = mat.n_batch, mat.n_batch + mat.n_sparse
    parts = [slice(*p) for p in zip(starts, limits, steps, strict=True)]
    shape = [len(range(n)[p]) for n, p in zip(mat.shape, parts, strict=True)]
    batch = [
        tuple(
            p if x.shape[k] == mat.shape[k] else slice(None, 1 if shape[k] else 0)
            for k, p in enumerate(parts[:b])
        )
        for x in (mat.data, mat.indices)
    ]
    data, indices = mat.data[(*batch[0], slice(None), *parts[s:])], mat.indices[batch[1]]
    if any(p != slice(0, n, 1) for p, n in zip(parts[b:s], mat.shape[b:s])):
        at, step, size = (lnp.asarray(v[b:s], indices.dtype) for v in (starts, steps, shape))
        moved = indices - at
        there = (
            inside(indices, sparse_shape(mat))
            & lnp.all((moved >= 0) & (moved % step == 0), -1)
            & inside(moved // step, shape[b:s])
        )
        indices = lnp.where(there[..., None], moved // step, size)
        lead = [max(m, n) for m, n in zip(data.shape[:b], there.shape[:b])]
        data = lnp.where(spread(there, data), lnp.broadcast_to(data, (*lead, *data.shape[b:])), 0)
    out = BCOO((data, indices), shape=shape, indices_sorted=False, unique_indices=mat.unique_indices)
    return _shorter(out)


@taking(BCOO)
def bcoo_dynamic_slice(mat: BCOO, start_indices: Sequence[Any], slice_sizes: Sequence[int]) -> BCOO:
    """A part of known sizes from indices that need not be known, moved so that it lies inside."""
    sizes = [int(n) for n in slice_sizes]
    if (
        len(start_indices) != mat.ndim
        or len(sizes) != mat.ndim
        or any(n > m for n, m in zip(sizes, mat.shape))
    ):
        raise ValueError(
            f"bcoo_dynamic_slice of shape {mat.shape}: {len(start_indices)} starts, sizes {sizes}"
        )
    starts = [
        lnp.clip(to_tensor(i).astype("int32"), 0, n - m)
        for i, n, m in zip(start_indices, mat.shape, sizes, strict=True)
    ]
    b, s = mat.n_batch, mat.n_batch + mat.n_sparse
    data, indices = whole(mat)
    none = lnp.zeros((), "int32")
    data = lax.dynamic_slice(data, (*starts[:b], none, *starts[s:]), (*sizes[:b], mat.nse, *sizes[s:]))
    indices = lax.dynamic_slice(indices, (*starts[:b], none, none), (*sizes[:b], *indices.shape[b:]))
    if mat.n_sparse:
        moved = indices - lnp.stack(starts[b:s]).astype(indices.dtype)
        there = inside(indices, sparse_shape(mat)) & lnp.all(moved >= 0, -1) & inside(moved, sizes[b:s])
        indices = lnp.where(there[..., None], moved, lnp.asarray(sizes[b:s], indices.dtype))
        data = lnp.where(spread(there, data), data, 0)
    out = BCOO((data, indices), shape=sizes, unique_indices=mat.unique_indices)
    return _shorter(out)


@taking(BCOO)
def bcoo_rev(operand: BCOO, dimensions: Sequence[int]) -> BCOO:
    """The order of the elements along dimensions turned round."""
    axes = {canonical_axis(d, operand.ndim) for d in dimensions}
    b, s = operand.n_batch, operand.n_batch + operand.n_sparse
    data, indices = whole(operand)
    batch = [a for a in axes if a < b]
    data = lnp.flip(data, (*batch, *(a - s + b + 1 for a in axes if a >= s)))
    indices = lnp.flip(indices, tuple(batch))
    if any(b <= a < s for a in axes):
        sizes = sparse_shape(operand)
        turned = lnp.asarray([b + k in axes for k in range(s - b)], "bool")
        last = lnp.asarray([n - 1 for n in sizes], indices.dtype)
        there = inside(indices, sizes)[..., None]
        indices = lnp.where(there & turned, last - indices, indices)
    return BCOO((data, indices), shape=operand.shape, unique_indices=operand.unique_indices)


@taking(BCOO)
def bcoo_squeeze(arr: BCOO, *, dimensions: Sequence[int]) -> BCOO:
    """The array without dimensions of size 1. ValueError for others."""
    axes = sorted({canonical_axis(d, arr.ndim) for d in dimensions})
    if any(arr.shape[a] != 1 for a in axes):
        raise ValueError(
            f"bcoo_squeeze of dimensions {tuple(axes)} of shape {arr.shape}, which are not all 1"
        )
    b, s = arr.n_batch, arr.n_batch + arr.n_sparse
    data, indices = arr.data, arr.indices
    left = [k for k in range(s - b) if k + b not in axes]
    if len(left) < s - b:
        data, indices, _ = _masked(arr)
        indices = indices[..., lnp.asarray(left, "int32")]
    batch = tuple(a for a in axes if a < b)
    data = lnp.squeeze(data, (*batch, *(a - s + b + 1 for a in axes if a >= s)))
    return BCOO(
        (data, lnp.squeeze(indices, batch)),
        shape=[n for a, n in enumerate(arr.shape) if a not in axes],
        indices_sorted=arr.indices_sorted,
        unique_indices=arr.unique_indices,
    )


def _stored(m: BCOO, n_batch: int, n_dense: int, nse: int) -> int:
    return math.prod(m.shape[:n_batch]) * nse * math.prod(m.shape[m.ndim - n_dense :])


@taking(BCOO)
def bcoo_update_layout(
    mat: BCOO, *, n_batch: int | None = None, n_dense: int | None = None, on_inefficient: str | None = "error"
) -> BCOO:
    """The same array with another number of batch or dense dimensions.

    `on_inefficient`: where that stores more elements, "error" raises SparseEfficiencyError, "warn" warns, None does
    neither. ValueError for numbers that the array has not.
    """
    b = mat.n_batch if n_batch is None else int(n_batch)
    d = mat.n_dense if n_dense is None else int(n_dense)
    if b < 0 or d < 0 or b + d > mat.ndim:
        raise ValueError(f"{b} batch and {d} dense dimensions are more than those of shape {mat.shape}")
    if on_inefficient not in ("error", "warn", None):
        raise ValueError(f"on_inefficient is 'error', 'warn' or None, not {on_inefficient!r}")
    if _stored(mat, b, d, mat.nse) > _stored(mat, mat.n_batch, mat.n_dense, mat.nse):
        text = f"{mat} with n_batch={b}, n_dense={d} stores zeros beside its elements"
        if on_inefficient == "error":
            raise SparseEfficiencyError(text + "; on_inefficient=None allows it")
        if on_inefficient == "warn":
            warnings.warn(text, SparseEfficiencyWarning, stacklevel=2)
    while mat.n_dense > d:
        mat = _dense_to_sparse(mat)
    while mat.n_batch > b:
        mat = _batch_to_sparse(mat)
    while mat.n_batch < b:
        mat = _sparse_to_batch(mat)
    while mat.n_dense < d:
        mat = _sparse_to_dense(mat)
    return mat


def _dense_to_sparse(m: BCOO) -> BCOO:
    b, n = m.n_batch, m.shape[m.n_batch + m.n_sparse]
    data, indices, there = _masked(m)
    data = data.reshape((*data.shape[:b], m.nse * n, *data.shape[b + 2 :]))
    indices, there = lnp.repeat(indices, n, b), lnp.repeat(there, n, b)
    column = lnp.where(there, lnp.tile(lnp.arange(n, dtype=indices.dtype), m.nse), n)
    indices = lnp.concatenate([indices, column.astype(indices.dtype)[..., None]], -1)
    return BCOO((data, indices), shape=m.shape, unique_indices=m.unique_indices)


def _batch_to_sparse(m: BCOO) -> BCOO:
    """The last batch dimension is the first sparse one."""
    b = m.n_batch - 1
    n, (data, indices, there) = m.shape[b], _masked(m)
    number = lnp.arange(n, dtype=indices.dtype)[:, None]
    column = lnp.where(there, number, n).astype(indices.dtype)
    indices = lnp.concatenate([column[..., None], indices], -1)
    merged = (*data.shape[:b], n * m.nse)
    return BCOO(
        (data.reshape((*merged, *data.shape[b + 2 :])), indices.reshape((*merged, m.n_sparse + 1))),
        shape=m.shape,
        unique_indices=m.unique_indices,
    )


def _sparse_to_batch(m: BCOO) -> BCOO:
    """The first sparse dimension is the last batch one: each part keeps the elements that stand in it."""
    b, n = m.n_batch, m.shape[m.n_batch]
    data, indices, _ = _masked(m)
    rest = lnp.asarray(sparse_shape(m)[1:], indices.dtype)

    def part(d: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        mine = i[:, 0] == lnp.arange(n, dtype=i.dtype)[:, None]
        kept = lnp.where(mine.reshape((*mine.shape, *[1] * (d.ndim - 1))), d, 0)
        return kept, lnp.where(mine[..., None], i[:, 1:], rest)

    made = over_batch(part, b)(data, indices)
    out = BCOO(made, shape=m.shape, unique_indices=m.unique_indices)
    return _shorter(out)


def _sparse_to_dense(m: BCOO) -> BCOO:
    """The last sparse dimension is the first dense one."""
    b, n = m.n_batch, m.shape[m.n_batch + m.n_sparse - 1]
    data, indices, _ = _masked(m)
    mine = indices[..., -1:] == lnp.arange(n, dtype=indices.dtype)
    shown = mine.reshape((*mine.shape, *[1] * m.n_dense))
    out = BCOO((lnp.where(shown, lnp.expand_dims(data, b + 1), 0), indices[..., :-1]), shape=m.shape)
    return bcoo_sum_duplicates(out, min(m.nse, math.prod(sparse_shape(out))), remove_zeros=False)


def indexed(m: BCOO, index: Any) -> BCOO:
    """``m[index]`` for integers, slices, None and ``...``, or one array of integers in front.

    IndexError for too many indices or a known one out of range.
    """
    parts = list(index) if isinstance(index, tuple) else [index]
    if len(parts) == 1 and getattr(parts[0], "ndim", 0) and to_tensor(parts[0]).dtype.kind in "iu":
        return _rows(m, to_tensor(parts[0]))
    given = sum(p is not None and p is not Ellipsis for p in parts)
    if given > m.ndim:
        raise IndexError(f"{given} indices for the {m.ndim} dimensions of {m}")
    if Ellipsis not in parts:
        parts.append(Ellipsis)
    at = parts.index(Ellipsis)
    parts[at : at + 1] = [slice(None)] * (m.ndim - given)
    starts, limits, steps, turned, dropped, kept = [], [], [], [], [], []
    for p in parts:
        if p is None:
            kept.append(None)
            continue
        d = len(starts)
        n = m.shape[d]
        if isinstance(p, slice):
            r = range(n)[p]
            lo, hi, step = (r.start, r.stop, r.step) if len(r) else (0, 0, 1)
            if step < 0:
                turned.append(d)
                lo, hi, step = r[-1], r[0] + 1, -step
            kept.append(d)
        else:
            try:
                i = int(p.__index__())
            except (AttributeError, TypeError):
                raise NotImplementedError(
                    f"sparse arrays take integers and slices as indices, not {p!r}"
                ) from None
            if not -n <= i < n:
                raise IndexError(f"index {i} is out of range for dimension {d} of shape {m.shape}")
            lo, hi, step = i % n, i % n + 1, 1
            dropped.append(d)
        starts.append(lo)
        limits.append(max(hi, lo))
        steps.append(step)
    out = bcoo_slice(m, start_indices=starts, limit_indices=limits, strides=steps)
    if turned:
        out = bcoo_rev(out, turned)
    if dropped:
        out = bcoo_squeeze(out, dimensions=dropped)
    if None in kept:
        shape = iter(out.shape)
        sizes = [1 if k is None else next(shape) for k in kept]
        where = [i for i, k in enumerate(kept) if k is not None]
        out = bcoo_broadcast_in_dim(out, shape=sizes, broadcast_dimensions=where)
    return out


def _rows(m: BCOO, rows: Tensor) -> BCOO:
    """The parts along the first dimension that an array of integers names, as a batch."""
    if not m.ndim:
        raise IndexError(f"an index for {m}, which has no dimensions")
    n = m.shape[0]

    def row(i: Tensor) -> BCOO:
        i = lnp.where(i < 0, i + n, i)
        starts = [i] + [0] * (m.ndim - 1)
        return bcoo_squeeze(bcoo_dynamic_slice(m, starts, (1, *m.shape[1:])), dimensions=(0,))

    for _ in range(rows.ndim):
        row = vmap(row)
    return row(rows)
