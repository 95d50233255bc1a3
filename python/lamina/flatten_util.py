"""Containers of arrays as one vector, and back; names and meanings as in jax.flatten_util."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lamina import tree
from lamina._core import Tensor
from lamina._tensor import describe, to_tensor
from lamina.tree import TreeDef


class _Unravel:
    """Makes the container of a vector; equal to another of the same container and types, as a static argument is."""

    __slots__ = ("_dtype", "_kinds", "_treedef")

    def __init__(self, treedef: TreeDef, kinds: tuple[tuple[tuple[int, ...], str], ...], dtype: str) -> None:
        self._treedef, self._kinds, self._dtype = treedef, kinds, dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Unravel) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self._treedef, self._kinds, self._dtype

    def __call__(self, vector: Any) -> Any:
        from lamina import numpy as lnp

        v = to_tensor(vector)
        size = sum(math.prod(shape) for shape, _ in self._kinds)
        same = len({kind for _, kind in self._kinds}) <= 1
        if v.shape != (size,):
            raise ValueError(f"unravel takes a vector of {size} elements, not {describe(v)}")
        if v.dtype != self._dtype and not same:
            raise TypeError(f"unravel takes {self._dtype}, as ravel_pytree gave it, not {describe(v)}")
        out, at = [], 0
        for shape, kind in self._kinds:
            n = math.prod(shape)
            out.append(lnp.reshape(v[at : at + n], shape).astype(v.dtype if same else kind))
            at += n
        return tree.unflatten(self._treedef, out)


def ravel_pytree(pytree: Any) -> tuple[Tensor, Callable[[Any], Any]]:
    """All leaves of a container as one vector, and the function that makes the container of such a vector again.

    The leaves are numbers and arrays; the vector has the type that all of them promote to, and the leaves of what is
    made of it have their own shapes again, and their own types; where all have one type, the type of the vector that
    it is given. No leaves make an empty float32 vector. The function raises ValueError for a vector of another shape,
    and TypeError for one of another type where the leaves have several. Functions of equal containers and types are
    equal: as a static argument of a jitted function they trace once.

    >>> flat, unravel = ravel_pytree(params)
    >>> better = unravel(flat - 0.1 * ravel_pytree(grads)[0])
    """
    from lamina import numpy as lnp

    leaves, treedef = tree.flatten(pytree)
    tensors = [to_tensor(leaf) for leaf in leaves]
    dtype = lnp.result_type(*tensors) if tensors else lnp.float32
    parts = [lnp.reshape(t, (-1,)).astype(dtype) for t in tensors]
    flat = lnp.concatenate(parts) if parts else lnp.zeros((0,), dtype)
    kinds = tuple((t.shape, t.dtype.name) for t in tensors)
    return flat, _Unravel(treedef, kinds, flat.dtype.name)
