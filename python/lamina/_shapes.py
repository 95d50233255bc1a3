"""Shapes and element types without values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from lamina._core import Tensor
from lamina._tensor import describe, to_tensor


class ShapeDtype:
    """Shape and element type without a value.

    `weak_type` says that it stands for a number of no decided type. `sharding` is for devices and changes nothing.
    """

    def __init__(
        self, shape: Sequence[int], dtype: Any, *, sharding: Any = None, weak_type: bool = False
    ) -> None:
        from lamina import dtypes

        if dtype is None:
            raise ValueError("ShapeDtype: dtype must be specified, as an element type, and is None")
        self.shape, self.dtype = tuple(shape), dtypes.canonical(dtype)
        self.sharding, self.weak_type = sharding, bool(weak_type)

    @classmethod
    def like(cls, x: Any) -> ShapeDtype:
        """That of an array or number, or of anything with shape and dtype."""
        t = shaped(x)
        return cls(t.shape, t.dtype, weak_type=getattr(t, "weak_type", False))

    def update(self, **changed: Any) -> ShapeDtype:
        """The same with other `shape`, `dtype`, `sharding` or `weak_type`."""
        mine = {"shape": self.shape, "dtype": self.dtype, "sharding": self.sharding}
        return type(self)(**{**mine, "weak_type": self.weak_type, **changed})

    def __repr__(self) -> str:
        return f"ShapeDtype({describe(self)}{', weak' * self.weak_type})"

    def __eq__(self, other: object) -> bool:
        mine = (self.shape, self.dtype, self.weak_type)
        return isinstance(other, ShapeDtype) and mine == (other.shape, other.dtype, other.weak_type)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.weak_type))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object: a ShapeDtype without dimensions")
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def str_short(self, short_dtypes: bool = False) -> str:
        """The type in few letters, as ``float32[3,4]``."""
        return describe(self)


def is_shape_only(x: Any) -> bool:
    """Whether it has shape and element type, but no value: a ShapeDtype, or anything else with these attributes."""
    if isinstance(x, Tensor) or hasattr(x, "__array__"):
        return False
    return isinstance(x, ShapeDtype) or (hasattr(x, "shape") and hasattr(x, "dtype"))


def shaped(x: Any) -> Any:
    """A Tensor of an array or number; a ShapeDtype of what has no value."""
    if not is_shape_only(x):
        return to_tensor(x)
    if isinstance(x, ShapeDtype):
        return x
    return ShapeDtype(x.shape, x.dtype, weak_type=getattr(x, "weak_type", False))


def typeof(x: Any) -> ShapeDtype:
    """Shape and element type of an array or number, traced or not."""
    return ShapeDtype.like(x)
