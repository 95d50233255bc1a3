"""Whole Jacobians: jacfwd, jacrev, hessian, over containers and several arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _core
from lamina._aux import Pair
from lamina._core import Tensor
from lamina._functions import checked_argnums, need_function, places_of
from lamina._tensor import to_tensor
from lamina._transforms import _check_dtypes, jvp, vjp, vmap
from lamina.tree import tree_flatten, tree_map, tree_unflatten


def _basis(leaves: Sequence[Tensor]) -> list[Tensor]:
    """For each leaf, its part of the unit vectors of all: [number of elements in all, *its shape]."""
    from lamina import numpy as lnp

    total, before, out = sum(x.size for x in leaves), 0, []
    for x in leaves:
        part = lnp.reshape(lnp.eye(total, x.size, -before, dtype=x.dtype), (total, *x.shape))
        out.append(_core.set_weak(part, x.weak_type))
        before += x.size
    return out


def _split(rows: Tensor, leaves: Sequence[Tensor]) -> list[Tensor]:
    """The first axis of `rows`, over the elements of all leaves, as one array per leaf: [its size, ...]."""
    at, out = 0, []
    for x in leaves:
        out.append(rows[at : at + x.size])
        at += x.size
    return out


def _arguments(
    f: Callable[..., Any],
    args: Sequence[Any],
    argnums: int | Sequence[int],
    what: str,
    holomorphic: bool,
    allow_int: bool = False,
) -> tuple[list[Tensor], Any, Callable[..., Any]]:
    """Leaves and structure of the arguments to differentiate by, and `f` as a function of the leaves."""
    nums = places_of(argnums, args, f)
    _check_dtypes(f, args, nums, what, holomorphic, allow_int)
    leaves, treedef = tree_flatten(tuple(args[n] for n in nums))

    def of_leaves(*inputs: Any) -> Any:
        full = list(args)
        for n, value in zip(nums, tree_unflatten(treedef, inputs)):
            full[n] = value
        return f(*full)

    return [to_tensor(x) for x in leaves], treedef, of_leaves


def jacfwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Any:
    """The Jacobian function of `fun`, column by column with forward mode: for few inputs and many outputs.

    `fun` maps containers of float arrays to containers of arrays. The result has the structure of f's output; in the
    place of each array stands the structure of the argument (a tuple of them for a sequence `argnums`), whose arrays
    have the output's shape followed by the input's. With `has_aux`, `fun` returns (value, aux) and the result is
    (Jacobian, aux). With `holomorphic`, the inputs are complex.
    """
    need_function(fun, "jacfwd")
    argnums = checked_argnums(argnums)

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        from lamina import numpy as lnp

        function = functools.partial(fun, **kwargs) if kwargs else fun
        leaves, treedef, of_leaves = _arguments(function, args, argnums, "jacfwd", holomorphic)
        paired = Pair(of_leaves if has_aux else lambda *xs: (of_leaves(*xs), ()))

        def along(*directions: Tensor) -> Any:
            _, derivative, aux = jvp(paired, leaves, directions, has_aux=True)
            return derivative, aux

        columns, aux = vmap(along, out_axes=(0, None))(*_basis(leaves))

        def blocks(c: Tensor) -> Any:
            parts = [
                lnp.reshape(lnp.moveaxis(part, 0, -1), (*c.shape[1:], *x.shape))
                for part, x in zip(_split(c, leaves), leaves)
            ]
            by_argument = tree_unflatten(treedef, parts)
            return by_argument[0] if isinstance(argnums, int) else by_argument

        jacobian = tree_map(blocks, columns)
        return (jacobian, paired.aux(aux)) if has_aux else jacobian

    return wrapped


def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Any:
    """The Jacobian function of `fun`, row by row with reverse mode: for few outputs and many inputs.

    Structure and shapes as `jacfwd`. With `allow_int`, an integer argument may be named; its place holds None.
    """
    need_function(fun, "jacrev")
    argnums = checked_argnums(argnums)

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        from lamina import numpy as lnp

        function = functools.partial(fun, **kwargs) if kwargs else fun
        leaves, treedef, of_leaves = _arguments(function, args, argnums, "jacrev", holomorphic, allow_int)
        paired = of_leaves if has_aux else lambda *xs: (of_leaves(*xs), ())
        value, pull_back, aux = vjp(paired, *leaves, has_aux=True)
        outputs, out_tree = tree_flatten(value)
        for y in outputs:
            if y.dtype.kind != ("c" if holomorphic else "f"):
                raise TypeError(
                    f"jacrev of {getattr(fun, '__name__', 'the function')} needs "
                    f"{'complex' if holomorphic else 'float'} results, not {y.dtype.name}"
                    + ("; pass holomorphic=True if it is holomorphic" if y.dtype.kind == "c" else "")
                )
        rows = vmap(lambda *cotangents: list(pull_back(tree_unflatten(out_tree, cotangents))))(
            *_basis(outputs)
        )
        per_output = []
        split_rows = [None if r is None else _split(r, outputs) for r in rows]
        for i, y in enumerate(outputs):
            parts = [
                None if r is None else lnp.reshape(r[i], (*y.shape, *x.shape))
                for r, x in zip(split_rows, leaves)
            ]
            by_argument = tree_unflatten(treedef, parts)
            per_output.append(by_argument[0] if isinstance(argnums, int) else by_argument)
        jacobian = tree_unflatten(out_tree, per_output)
        return (jacobian, aux) if has_aux else jacobian

    return wrapped


def hessian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Any:
    """Second derivatives: the forward Jacobian of the reverse one.

    The result has the structure of f's output, then that of the argument, then that of the argument again; arrays
    have the output's shape followed by both inputs' shapes.
    """
    need_function(fun, "hessian")
    return jacfwd(jacrev(fun, argnums, has_aux, holomorphic), argnums, has_aux, holomorphic)
