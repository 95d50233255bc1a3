"""Indices of parts of arrays, and functions over several axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina.numpy._common import sizes_of
from lamina.numpy._creation import diag_indices, ones, tril_indices, triu_indices
from lamina.numpy._sorting import nonzero

__all__ = [
    "apply_over_axes",
    "diag_indices_from",
    "iterable",
    "mask_indices",
    "tril_indices_from",
    "triu_indices_from",
]


def _matrix(arr: Any, what: str) -> Tensor:
    t = to_tensor(arr)
    if t.ndim != 2:
        raise ValueError(f"{what} needs 2 dimensions, not shape {t.shape}")
    return t


def diag_indices_from(arr: Any) -> tuple[Tensor, ...]:
    """The indices of the main diagonal of an array of at least two dimensions of one size."""
    t = to_tensor(arr)
    if t.ndim < 2 or len(set(t.shape)) > 1:
        raise ValueError(f"diag_indices_from needs at least 2 dimensions of one size, not shape {t.shape}")
    return diag_indices(t.shape[0], t.ndim)


def tril_indices_from(arr: Any, k: int = 0) -> tuple[Tensor, Tensor]:
    """The indices of the lower triangle of a matrix, up to the k-th diagonal."""
    t = _matrix(arr, "tril_indices_from")
    return tril_indices(t.shape[0], k, t.shape[1])


def triu_indices_from(arr: Any, k: int = 0) -> tuple[Tensor, Tensor]:
    """The indices of the upper triangle of a matrix, from the k-th diagonal on."""
    t = _matrix(arr, "triu_indices_from")
    return triu_indices(t.shape[0], k, t.shape[1])


def mask_indices(
    n: int, mask_func: Callable[..., Any], k: Any = 0, *, size: int | None = None
) -> tuple[Tensor, ...]:
    """Where ``mask_func(ones((n, n)), k)`` is not zero; `size` as in `nonzero`."""
    return nonzero(mask_func(ones((n, n)), k), size=size)


def apply_over_axes(func: Callable[..., Any], a: Any, axes: int | Iterable[int]) -> Tensor:
    """``func(a, axis)`` along each axis in turn, with reduced axes kept as size 1."""
    t = to_tensor(a)
    for axis in sizes_of(axes):
        out = to_tensor(func(t, axis))
        if out.ndim == t.ndim - 1:
            out = out.reshape((*t.shape[: axis % t.ndim], 1, *t.shape[axis % t.ndim + 1 :]))
        if out.ndim != t.ndim:
            raise ValueError(
                f"apply_over_axes: the function gave shape {out.shape} of an array of shape {t.shape}"
            )
        t = out
    return t


def iterable(y: Any) -> bool:
    """Whether `y` can be iterated over."""
    try:
        iter(y)
    except TypeError:
        return False
    return True
