"""Derivatives by sparse arrays: by their stored elements, in the places of these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina import _jacobian, _transforms
from lamina.experimental.sparse._base import SparseArray
from lamina.experimental.sparse._bcoo import BCOO
from lamina.tree import tree_flatten, tree_unflatten


def _is_sparse(x: Any) -> bool:
    return isinstance(x, SparseArray)


class _Parts:
    """Arguments whose sparse arrays are told by their data."""

    def __init__(self, args: Sequence[Any], argnums: Sequence[int]) -> None:
        self.args, self.argnums = args, [n % len(args) if -len(args) <= n < len(args) else n for n in argnums]
        if any(not 0 <= n < len(args) for n in self.argnums):
            raise ValueError(f"argnums {tuple(argnums)} of a function called with {len(args)} arguments")
        found = [tree_flatten(args[n], is_leaf=_is_sparse) for n in self.argnums]
        self.leaves, self.trees = [f[0] for f in found], [f[1] for f in found]
        self.data = [[x.data if _is_sparse(x) else x for x in part] for part in self.leaves]

    def arguments(self, data: Sequence[Any]) -> list[Any]:
        """The arguments with other data."""
        full = list(self.args)
        for n, part in zip(self.argnums, self.joined(data, _with_data), strict=True):
            full[n] = part
        return full

    def joined(self, data: Sequence[Any], join: Callable[[Any, Any], Any]) -> list[Any]:
        """Containers like the arguments, their leaves those of data or joined with the sparse array there."""
        return [
            tree_unflatten(t, [join(x, d) if _is_sparse(x) else d for x, d in zip(leaves, part, strict=True)])
            for t, leaves, part in zip(self.trees, self.leaves, data, strict=True)
        ]


def _with_data(m: Any, data: Any) -> Any:
    leaves, tree = tree_flatten(m)
    return tree_unflatten(tree, [data, *leaves[1:]])


def _spread(m: Any, data: Any) -> BCOO:
    """Derivatives of several results, whose dimensions stand in front."""
    if not isinstance(m, BCOO):
        raise NotImplementedError(
            f"the derivatives of several results by a {type(m).__name__}: make it a BCOO"
        )
    extra = data.ndim - m.data.ndim
    indices = m.indices[(None,) * extra]
    return BCOO((data, indices), shape=(*data.shape[:extra], *m.shape))


def value_and_grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """`lamina.value_and_grad` of a function of sparse arrays, whose gradients are sparse in the same places."""
    nums = [argnums] if isinstance(argnums, int) else list(argnums)

    def call(*args: Any, **named: Any) -> Any:
        parts = _Parts(args, nums)

        def of_data(data: Any) -> Any:
            return fun(*parts.arguments(data), **named)

        value, slopes = _transforms.value_and_grad(of_data, has_aux=has_aux, **kwargs)(parts.data)
        found = parts.joined(slopes, _with_data)
        return value, found[0] if isinstance(argnums, int) else tuple(found)

    return call


def grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Callable[..., Any]:
    """`lamina.grad` of a function of sparse arrays, whose gradients are sparse in the same places."""
    both = value_and_grad(fun, argnums, has_aux, **kwargs)

    def call(*args: Any, **named: Any) -> Any:
        value, slopes = both(*args, **named)
        return (slopes, value[1]) if has_aux else slopes

    return call


def _jacobian_by(jacobian: Callable[..., Any], what: str) -> Callable[..., Any]:
    def transform(
        fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
    ) -> Callable[..., Any]:
        nums = [argnums] if isinstance(argnums, int) else list(argnums)

        def call(*args: Any, **named: Any) -> Any:
            parts, trees = _Parts(args, nums), []

            def of_data(data: Any) -> Any:
                out = fun(*parts.arguments(data), **named)
                out, aux = out if has_aux else (out, None)
                leaves, tree = tree_flatten(out)
                trees[:] = [tree]
                return (leaves, aux) if has_aux else leaves

            found = jacobian(of_data, has_aux=has_aux, **kwargs)(parts.data)
            found, aux = found if has_aux else (found, None)
            rows = [parts.joined(row, _spread) for row in found]
            out = tree_unflatten(trees[0], [r[0] if isinstance(argnums, int) else tuple(r) for r in rows])
            return (out, aux) if has_aux else out

        return call

    transform.__name__ = transform.__qualname__ = what
    transform.__doc__ = (
        f"`lamina.{what}` of a function of sparse arrays: BCOO, with the dimensions of the result as a batch."
    )
    return transform


jacfwd = _jacobian_by(_jacobian.jacfwd, "jacfwd")
jacrev = _jacobian_by(_jacobian.jacrev, "jacrev")
jacobian = jacrev
