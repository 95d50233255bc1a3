"""Recomputing in place of keeping, in reverse mode: `checkpoint`, its policies, and what a derivative keeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina import _core, _missing, checkpoint_policies
from lamina._checkpoint import checkpoint
from lamina._core import Tensor
from lamina._functions import _name, need_function
from lamina._shapes import ShapeDtype
from lamina._tensor import describe
from lamina._transforms import _argument_path, eval_shape, vjp
from lamina.checkpoint_policies import checkpoint_name
from lamina.tree import tree_leaves, tree_paths

__all__ = [
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "print_saved_residuals",
    "remat",
    "saved_residuals",
]

remat = checkpoint


def saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[tuple[ShapeDtype, str]]:
    """What reverse mode of ``f(*args, **kwargs)`` keeps from its forward pass: shape and element type, and where from.

    `args` are arrays, numbers, ShapeDtype, or containers of them. Nothing is computed.
    """
    need_function(f, "saved_residuals")
    found: list[tuple[ShapeDtype, str]] = []

    def forward(*given: Any) -> Any:
        arguments: list[tuple[str, Any]] = []

        def named(*xs: Any) -> Any:
            arguments.extend(
                (_argument_path(f, f"[0]{path}"), x) for path, x in zip(tree_paths(xs), tree_leaves(xs))
            )
            return f(*xs, **kwargs)

        value, pull = vjp(named, *given)
        for x in tree_leaves(pull):
            if isinstance(x, Tensor):
                found.append((ShapeDtype(x.shape, x.dtype), _origin(x, arguments)))
        return value

    eval_shape(forward, *args)
    return found


def _origin(x: Tensor, arguments: list[tuple[str, Any]]) -> str:
    for name, given in arguments:
        if isinstance(given, Tensor) and _core.is_one_value(x, given):
            return f"the argument {name}"
    file, line, function = _core.where_made(x)
    return f"made at {file}:{line} ({function})" if file else "a value of the program"


def print_saved_residuals(f: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Prints `saved_residuals`, a line each.

    >>> lm.ad_checkpoint.print_saved_residuals(lambda x: lnp.sin(lnp.sin(x)), 1.0)
    """
    kept = saved_residuals(f, *args, **kwargs)
    for described, origin in kept:
        print(f"{describe(described)}: {origin}")
    if not kept:
        print(f"the derivative of {_name(f)} keeps nothing")


__getattr__ = _missing.attributes("lamina.ad_checkpoint")
