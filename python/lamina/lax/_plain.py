"""Loops and branches as Python runs them: what those of lamina.lax are inside `disable_jit`.

Each gives NotImplemented where a value that decides what runs is not known, as in a lane of vmap.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina import _core
from lamina import numpy as lnp
from lamina._tensor import to_tensor
from lamina.tree import tree_flatten, tree_map, tree_unflatten


def _decided(x: Any) -> bool:
    """Whether the value of what a branch or loop depends on is known."""
    return not isinstance(x, _core.Tensor) or (x.ndim == 0 and _core.forceable(x))


def _arrays(tree: Any) -> Any:
    return tree_map(to_tensor, tree)


def switch(index: Any, branches: Sequence[Callable[..., Any]], operands: Sequence[Any]) -> Any:
    """The branch of the index, limited to those there are."""
    if not _decided(index):
        return NotImplemented
    return _arrays(branches[min(max(int(index), 0), len(branches) - 1)](*_arrays(tuple(operands))))


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """body_fun of the carry while cond_fun of it is true."""
    carry = _arrays(init_val)
    going_on = cond_fun(carry)
    if not _decided(going_on):
        return NotImplemented
    while bool(going_on):
        carry = _arrays(body_fun(carry))
        going_on = cond_fun(carry)
    return carry


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init_val: Any) -> Any:
    """body_fun of the numbers from lower to upper and the carry."""
    if not (_decided(lower) and _decided(upper)):
        return NotImplemented
    carry, i = _arrays(init_val), to_tensor(lower)
    while bool(i < upper):
        carry = _arrays(body_fun(i, carry))
        i = i + 1
    return carry


def scan(f: Callable[[Any, Any], Any], init: Any, xs: Any, length: int | None, reverse: bool) -> Any:
    """f of the carry and the rows of xs, and what it gives for each, stacked. NotImplemented without a step."""
    rows, structure = tree_flatten(_arrays(xs))
    if any(x.ndim == 0 for x in rows):
        return NotImplemented  # an error, which that of the loop tells
    lengths = {x.shape[0] for x in rows} | ({int(length)} if length is not None else set())
    if len(lengths) != 1 or lengths == {0}:
        return NotImplemented
    carry, ys, steps = _arrays(init), [], range(lengths.pop())
    for n in reversed(steps) if reverse else steps:
        carry, y = f(carry, tree_unflatten(structure, [x[n] for x in rows]))
        carry = _arrays(carry)
        ys.append(_arrays(y))
    return carry, tree_map(lambda *parts: lnp.stack(parts), *(ys[::-1] if reverse else ys))
