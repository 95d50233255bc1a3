"""What sparse arrays have in common, and how dimensions are counted."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from lamina import numpy as lnp
from lamina._core import Tensor
from lamina._tensor import to_tensor


class SparseEfficiencyError(ValueError):
    """A layout was asked for in which an array takes more memory than it does."""


class SparseEfficiencyWarning(UserWarning):
    """As the error, for those who asked to be warned."""


class SparseArray:
    """An array of which some elements are stored; the others are zero."""

    data: Tensor
    shape: tuple[int, ...]
    # Operators of Tensors and of NumPy's arrays leave the operation to this class.
    __array_ufunc__ = None
    __array_priority__ = 100

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: math.prod(self.shape))
    dtype = property(lambda self: self.data.dtype)

    @property
    def T(self) -> Any:
        """The array with its dimensions in the other order."""
        return self.transpose()

    @property
    def nse(self) -> int:
        """How many elements are stored (of each part of a batch)."""
        raise NotImplementedError

    def transpose(self, axes: Sequence[int] | None = None) -> Any:
        """The array with its dimensions in another order."""
        raise NotImplementedError(f"{type(self).__name__}.transpose: make it a BCOO first")

    def todense(self) -> Tensor:
        """The array with all its elements."""
        raise NotImplementedError

    def block_until_ready(self) -> Any:
        """The array itself, once it is computed."""
        self.data.block_until_ready()
        return self

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a sparse array of no dimensions has no length")
        return self.shape[0]

    def __eq__(self, other: object) -> Any:
        raise NotImplementedError(
            "where sparse arrays are equal is a dense array: compare them with todense()"
        )

    __ne__ = __eq__
    __hash__ = None  # type: ignore[assignment]

    def _layout(self) -> str:
        """What its repr tells beside shape and number."""
        return ""

    def __repr__(self) -> str:
        try:
            dims = ", ".join(map(str, self.shape))
            return f"{type(self).__name__}({self.dtype.name}[{dims}], nse={self.nse}{self._layout()})"
        except AttributeError:  # a container of something else than arrays, inside a transform
            return f"{type(self).__name__}(<{type(self.data).__name__}>)"


def taking(kind: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator for functions whose first argument is a sparse array of a kind; TypeError for other objects."""

    def decorate(f: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            first = args[0] if args else next(iter(kwargs.values()), None)
            if not isinstance(first, kind):
                raise TypeError(f"{f.__name__} takes a {kind.__name__}, not a {type(first).__name__}")
            return f(*args, **kwargs)

        return call

    return decorate


def common_type(*arrays: Any) -> str:
    """The element type that arrays, sparse or not, are promoted to."""
    kinds = [a.data[:0] if isinstance(a, SparseArray) else a for a in arrays]
    return str(lnp.result_type(*kinds))


def needs_index(indices: Any, what: str) -> Tensor:
    """Indices as a Tensor. TypeError for another kind than integers."""
    t = to_tensor(indices)
    if t.dtype.kind not in "iu":
        raise TypeError(f"{what} needs integers as indices, not {t.dtype.name}")
    return t


def zero_like(data: Tensor) -> Any:
    """The zero of an array's type."""
    return False if data.dtype.kind == "b" else 0
