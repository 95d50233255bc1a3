"""What gather and scatter ask of their dimension numbers, in JAX's words and order: TypeErrors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import lamina as lm
import numpy as np

from lamina_as_jax import strictness
from lamina_as_jax.types64 import wrapped


class _Dims:
    """Lists of dimensions of one call of `op`."""

    def __init__(self, op: str) -> None:
        self._op = op

    def ascend(self, name: str, dims: Sequence[int]) -> None:
        if list(dims) != sorted(dims):
            raise TypeError(f"{name} in {self._op} op must be sorted; got {tuple(dims)}")
        self.differ(name, dims)

    def differ(self, name: str, dims: Sequence[int]) -> None:
        if len(set(dims)) != len(dims):
            raise TypeError(f"{name} in {self._op} op must not repeat; got {tuple(dims)}")

    def lie_within(
        self, name: str, dims: Sequence[int], rank: int, what: str = " set in {op} op; valid range is"
    ) -> None:
        if wrong := [d for d in dims if not 0 <= d < rank]:
            told = what.format(op=self._op)
            raise TypeError(f"Invalid {name}{told} [0, {rank}), got {wrong[0]}")

    def share_nothing(self, name: str, dims: Sequence[int], other: str, others: Sequence[int]) -> None:
        if set(dims) & set(others):
            raise TypeError(f"{name} and {other} in {self._op} op must be disjoint")

    def indexed(self, name: str, dims: Sequence[int], indices: Sequence[int], rank: int, what: str) -> None:
        """Of the operand those that index vectors are of."""
        if len(dims) != indices[-1]:
            raise TypeError(
                f"{self._op.capitalize()} op has {len(dims)} elements in {name} and the bound of dimension "
                f"index_vector_dim={len(indices) - 1} of indices is {indices[-1]}. These two numbers must be equal."
            )
        self.lie_within(name, dims, rank, what)
        self.differ(name, dims)

    def batched(
        self,
        operand: Sequence[int],
        dims: Sequence[int],
        indices: Sequence[int],
        name: str,
        others: Sequence[int],
    ) -> None:
        """Those of the operand and of the indices that go together."""
        op = self._op.capitalize()
        self.differ(name, others)
        self.lie_within(name, others, len(indices))
        if len(indices) - 1 in others:
            raise TypeError(f"{op} op cannot have the index vector dimension as a batching dimension")
        if len(dims) != len(others):
            raise TypeError(f"{op} op requires equal numbers of operand_batching_dims and {name}")
        if [operand[d] for d in dims] != [indices[d] for d in others]:
            raise TypeError(
                f"{op} op requires operand batching dimensions and indices batching dimensions to have the same shape"
            )


def _check_gather(operand: Sequence[int], indices: Sequence[int], n: Any, sizes: Sequence[int]) -> None:
    dims, rank = _Dims("gather"), len(operand)
    dims.ascend("offset_dims", n.offset_dims)
    result = len(n.offset_dims) + len(indices) - 1
    for place, d in enumerate(n.offset_dims):
        if not 0 <= d < result:
            raise TypeError(
                f"Offset dimension {place} in gather op is out of bounds; got {d}, but must have been < {result}"
            )
    dims.indexed("start_index_map", n.start_index_map, indices, rank, "; domain is")
    batching = n.operand_batching_dims
    for name, given in (
        ("collapsed_slice_dims", n.collapsed_slice_dims),
        ("operand_batching_dims", batching),
    ):
        dims.ascend(name, given)
        dims.lie_within(name, given, rank)
    for name, given in (
        ("collapsed_slice_dims", n.collapsed_slice_dims),
        ("start_index_map", n.start_index_map),
    ):
        dims.share_nothing(name, given, "operand_batching_dims", batching)
    dims.batched(operand, batching, indices, "start_indices_batching_dims", n.start_indices_batching_dims)
    if len(sizes) != rank:
        raise TypeError(f"Gather op must have one slice size for every input dimension; got {sizes}")
    if len(sizes) != len(n.offset_dims) + len(n.collapsed_slice_dims) + len(batching):
        raise TypeError(
            "All components of the offset index in a gather op must either be a offset dimension or explicitly "
            "collapsed/batching"
        )
    for d, (size, whole) in enumerate(zip(sizes, operand)):
        if not 0 <= size <= max(whole, 1):
            raise TypeError(f"Slice size at index {d} in gather op is out of range, within [0, {whole}]")
    for place, d in enumerate(n.collapsed_slice_dims):
        if sizes[d] != 1:
            raise TypeError(
                f"Gather op can only collapse slice dims with bound 1, but bound is {sizes[d]} for index {d} at "
                f"position {place}."
            )
    for place, d in enumerate(batching):
        if sizes[d] > 1:
            raise TypeError(
                f"Gather op can only have operand batching dims with bound 0/1, but bound is {sizes[d]} for index "
                f"{d} at position {place}."
            )


def _check_scatter(operand: Sequence[int], indices: Sequence[int], updates: Sequence[int], n: Any) -> None:
    dims, rank = _Dims("scatter"), len(operand)
    expected = len(indices) - 1 + len(n.update_window_dims)
    if len(updates) != expected:
        raise TypeError(f"Updates tensor must be of rank {expected}; got {len(updates)}.")
    dims.ascend("update_window_dims", n.update_window_dims)
    dims.lie_within("update_window_dims", n.update_window_dims, len(updates))
    batching = n.operand_batching_dims
    for name, given in (
        ("inserted_window_dims", n.inserted_window_dims),
        ("operand_batching_dims", batching),
    ):
        dims.ascend(name, given)
        dims.lie_within(name, given, rank)
    mapped = n.scatter_dims_to_operand_dims
    dims.share_nothing("inserted_window_dims", n.inserted_window_dims, "operand_batching_dims", batching)
    dims.share_nothing("scatter_dims_to_operand_dims", mapped, "operand_batching_dims", batching)
    name, given = "scatter_indices_batching_dims", n.scatter_indices_batching_dims
    dims.batched(operand, batching, indices, name, given)
    window = len(n.update_window_dims) + len(n.inserted_window_dims) + len(batching)
    if window != rank:
        raise TypeError(f"Scatter op has window of size {window}; doesn't match operand of rank {rank}.")
    dims.indexed("scatter_dims_to_operand_dims", mapped, indices, rank, " mapping; domain is")
    kept = [d for d in range(rank) if d not in n.inserted_window_dims and d not in batching]
    if any(updates[u] > operand[d] for u, d in zip(n.update_window_dims, kept)):
        raise TypeError("Bounds of the window dimensions of updates must not exceed those of the operand.")
    if [updates[d] for d in range(len(updates)) if d not in n.update_window_dims] != list(indices[:-1]):
        raise TypeError("Bounds of the scatter dimensions of updates must be those of the indices.")


@functools.wraps(lm.lax.gather)
def gather(operand: Any, start_indices: Any, dimension_numbers: Any, slice_sizes: Any, **options: Any) -> Any:
    _check_gather(np.shape(operand), np.shape(start_indices), dimension_numbers, slice_sizes)
    options["mode"] = options.get("mode") or "promise_in_bounds"  # which moves slices to fit on a CPU
    return wrapped(lm.lax.gather)(operand, start_indices, dimension_numbers, slice_sizes, **options)


def _scattering(name: str) -> Callable[..., Any]:
    inner = wrapped(getattr(lm.lax, name))

    @functools.wraps(inner)
    def scatter(
        operand: Any, scatter_indices: Any, updates: Any, dimension_numbers: Any, **options: Any
    ) -> Any:
        strictness.check_types("scatter", operand, updates)
        _check_scatter(*map(np.shape, (operand, scatter_indices, updates)), dimension_numbers)
        return inner(operand, scatter_indices, updates, dimension_numbers, **options)

    return scatter


_SCATTERS = ("scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max")
NAMES: dict[str, Any] = {
    "gather": gather,
    **{n: _scattering(n) for n in _SCATTERS if hasattr(lm.lax, n)},
}
