"""Containers of arrays as one vector, and back; names and meanings as in jax.flatten_util."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lamina import tree
from lamina._core import Tensor
from lamina._tensor import describe, to_tensor


def ravel_pytree(pytree: Any) -> tuple[Tensor, Callable[[Any], Any]]:
    """All leaves of a container as one vector, and the function that makes the container of such a vector again.

    The leaves are numbers and arrays; the vector has the type that all of them promote to, and the leaves of what is
    made of it have their own shapes again, and their own types; where all have one type, the type of the vector that
    it is given. No leaves make an empty float32 vector. The function raises ValueError for a vector of another shape,
    and TypeError for one of another type where the leaves have several.

    >>> flat, unravel = ravel_pytree(params)
    >>> better = unravel(flat - 0.1 * ravel_pytree(grads)[0])
    """
    from lamina import numpy as lnp

    leaves, treedef = tree.flatten(pytree)
    tensors = [to_tensor(leaf) for leaf in leaves]
    kinds = [(t.shape, t.dtype) for t in tensors]
    dtype = lnp.result_type(*tensors) if tensors else lnp.float32
    parts = [lnp.reshape(t, (-1,)).astype(dtype) for t in tensors]
    flat = lnp.concatenate(parts) if parts else lnp.zeros((0,), dtype)
    same = len({kind for _, kind in kinds}) <= 1
    size = sum(math.prod(shape) for shape, _ in kinds)

    def unravel(vector: Any) -> Any:
        v = to_tensor(vector)
        if v.shape != (size,):
            raise ValueError(f"unravel takes a vector of {size} elements, not {describe(v)}")
        if v.dtype != flat.dtype and not same:
            raise TypeError(f"unravel takes {flat.dtype.name}, as ravel_pytree gave it, not {describe(v)}")
        out, at = [], 0
        for shape, kind in kinds:
            n = math.prod(shape)
            out.append(lnp.reshape(v[at : at + n], shape).astype(v.dtype if same else kind))
            at += n
        return tree.unflatten(treedef, out)

    return flat, unravel
