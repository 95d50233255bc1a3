"""Reductions of data into segments; names and meanings as in jax.ops."""

from __future__ import annotations

import functools
from typing import Any

from lamina import _core, _missing, _results, lax
from lamina._core import Tensor
from lamina._custom import custom_jvp
from lamina._tensor import describe, to_tensor
from lamina.lax._base import const, limit

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]


def _segments(
    what: str,
    scatter: Any,
    start: Tensor,
    data: Tensor,
    segment_ids: Any,
    num_segments: int | None,
    mode: Any,
) -> Tensor:
    ids = to_tensor(segment_ids)
    if ids.dtype.kind not in "iu":
        raise TypeError(f"{what} needs integer segment_ids, not {describe(ids)}")
    if ids.shape != data.shape[: ids.ndim]:
        raise ValueError(f"{what}: segment_ids of shape {ids.shape} do not fit data of shape {data.shape}")
    if num_segments is None:
        if not _core.forceable(ids):
            raise TypeError(
                f"{what} needs num_segments: the greatest of {describe(ids)} is not known inside a jit or vmap"
            )
        values = ids.numpy()
        num_segments = int(values.max()) + 1 if values.size else 0
    if num_segments < 0:
        raise ValueError(f"{what} needs a number of segments that is not negative, not {num_segments}")
    # The scatter drops what is out of range on either side.
    rest = data.shape[ids.ndim :]
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(range(ids.ndim, data.ndim)),
        inserted_window_dims=(0,),
        scatter_dims_to_operand_dims=(0,),
    )
    out = lax.broadcast(start, (num_segments, *rest))
    return scatter(out, lax.expand_dims(ids, (ids.ndim,)), data, numbers, mode=mode or "drop")


def segment_sum(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
) -> Tensor:
    """Sums of the entries of `data` with equal ids: [num_segments, *data.shape[segment_ids.ndim:]].

    `segment_ids`: integers of the leading dimensions of `data`; entries whose id is not in 0 ... num_segments - 1 are
    left out. `num_segments`: default the greatest id + 1, which must then be known (TypeError inside a jit or vmap).
    Entries are added in their order, in data's element type. The other arguments are JAX's hints and change nothing.
    """
    t = to_tensor(data)
    return _segments("segment_sum", lax.scatter_add, const(0, t.dtype), t, segment_ids, num_segments, mode)


def segment_prod(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
) -> Tensor:
    """As `segment_sum`, the products; 1 for an empty segment. The derivative by one is the product of the others."""
    t, ids = to_tensor(data), to_tensor(segment_ids)
    if t.dtype.kind in "fc" and _core.any_open_scope() and ids.dtype.kind in "iu":
        return _product(num_segments, mode, t, ids)
    return _products(num_segments, mode, t, ids)


def _products(num_segments: int | None, mode: Any, data: Any, ids: Any) -> Tensor:
    one = const(1, data.dtype)
    return _segments("segment_prod", lax.scatter_mul, one, data, ids, num_segments, mode)


@functools.partial(custom_jvp, nondiff_argnums=(0, 1))
def _product(num_segments: int | None, mode: Any, data: Any, ids: Any) -> Tensor:
    return _products(num_segments, mode, data, ids)


@_product.defjvp
def _product_jvp(num_segments: int | None, mode: Any, primals: Any, tangents: Any) -> tuple[Tensor, Tensor]:
    data, ids = primals
    out = _product(num_segments, mode, data, ids)
    kept = lax.clamp(const(0, ids.dtype), ids, const(out.shape[0] - 1, ids.dtype)) if mode == "clip" else ids
    terms = tangents[0] * _of_others(data, kept)
    return out, segment_sum(terms, ids, out.shape[0], mode=mode)


def _of_others(data: Any, ids: Any) -> Any:
    """For each entry the product of the others of its segment, without a division, which a zero would not stand."""
    from lamina import numpy as lnp

    n, rest = ids.size, data.shape[ids.ndim :]
    if n == 0:
        return data
    order = lnp.argsort(ids.ravel(), stable=True)
    x, runs = data.reshape(n, *rest)[order], ids.ravel()[order]
    goes_on = lnp.concatenate([lnp.zeros(1, bool), runs[1:] == runs[:-1]])

    def before(x: Any, goes_on: Any) -> Any:
        """The products of the entries before each one in its run."""
        on = goes_on.reshape(n, *[1] * len(rest))
        last = lnp.where(on, lnp.roll(x, 1, 0), lnp.ones_like(x))

        def join(a: Any, b: Any) -> Any:
            return a[0] & b[0], lnp.where(b[0], a[1] * b[1], b[1])

        return lax.associative_scan(join, (on, last))[1]

    stops = lnp.concatenate([goes_on[1:], lnp.zeros(1, bool)])
    others = before(x, goes_on) * before(x[::-1], stops[::-1])[::-1]
    return others[lnp.argsort(order)].reshape(data.shape)


def segment_max(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
) -> Tensor:
    """As `segment_sum`, the greatest; the least value of the element type (-inf) for an empty segment."""
    t = to_tensor(data)
    return _segments("segment_max", lax.scatter_max, limit(t.dtype, -1), t, segment_ids, num_segments, mode)


def segment_min(
    data: Any,
    segment_ids: Any,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
) -> Tensor:
    """As `segment_sum`, the least; the greatest value of the element type (inf) for an empty segment."""
    t = to_tensor(data)
    return _segments("segment_min", lax.scatter_min, limit(t.dtype, 1), t, segment_ids, num_segments, mode)


_results.own(globals())
__getattr__ = _missing.attributes("lamina.ops")
