"""checkpoint: functions whose intermediate values reverse mode computes again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _core, ref
from lamina._functions import _name, need_function
from lamina._marked import places
from lamina._transforms import _Flat, _flatten_arguments
from lamina.tree import dict_keys, tree_children, tree_leaves, tree_unflatten


def _guards(flags: Any, tree: Any, path: str = "prevent_cse") -> list[bool]:
    """One for each leaf of `tree`, of a prefix of its structure. ValueError, with the path, where it does not fit."""
    if isinstance(flags, bool):
        return [flags] * len(tree_leaves(tree))
    mine, theirs = tree_children(flags), tree_children(tree)
    sequences = isinstance(flags, (tuple, list)) and isinstance(tree, (tuple, list))
    keys = tree if isinstance(tree, dict) and isinstance(flags, dict) else None
    if (
        mine is None
        or theirs is None
        or not (sequences or type(flags) is type(tree))
        or len(mine[0]) != len(theirs[0])
        or (keys is not None and flags.keys() != keys.keys())
    ):
        raise ValueError(
            f"{path} is {flags!r:.60}, which does not fit the structure of its value, a {type(tree).__name__} of "
            f"{len(theirs[0]) if theirs else 1}: it is True, False, or a container of those like the value's"
        )
    names = range(len(theirs[0])) if keys is None else dict_keys(tree, theirs[1])
    parts = zip(names, mine[0] if keys is None else [flags[k] for k in names], theirs[0])
    return [guard for k, f, t in parts for guard in _guards(f, t, f"{path}[{k!r}]")]


def checkpoint(
    fun: Callable[..., Any],
    *,
    prevent_cse: bool | Sequence[Any] = True,
    policy: Callable[..., Any] | None = None,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> Any:
    """`fun` whose intermediate values reverse mode computes again instead of keeping.

    `static_argnums` and `static_argnames` are arguments that are no arrays and choose what is computed. `policy` says
    which values may be kept (`lamina.checkpoint_policies`, or a function of the same arguments); without one none are.
    `prevent_cse`, a tuple with an entry for each argument (True, False, or a container of those like the argument),
    names arrays that what is computed again need not wait for: False for weights, of which nothing alone is made that
    would be kept. A single True or False changes nothing. ValueError where it does not fit the arguments.
    """
    from lamina.checkpoint_policies import everything_saveable, nothing_saveable, of_primitives

    need_function(fun, "checkpoint")
    if not isinstance(prevent_cse, (bool, tuple, list)):
        raise TypeError(f"prevent_cse is True, False or a tuple of those, not {prevent_cse!r:.60}")
    numbers = static_argnums if isinstance(static_argnums, int) else tuple(static_argnums) or None
    nums, names = places(fun, numbers, static_argnames or None, "static")
    keeps = None if policy in (None, nothing_saveable, everything_saveable) else of_primitives(policy)

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        guards = prevent_cse
        if not isinstance(guards, bool) and len(guards) != len(args):
            raise ValueError(
                f"prevent_cse has {len(guards)} entries, but {_name(fun)} was called with {len(args)} arguments by place"
            )
        fixed = {n % len(args): args[n] for n in nums if -len(args) <= n < len(args)}
        named = {k: kwargs[k] for k in names & kwargs.keys()}
        if fixed or named:
            others = [a for i, a in enumerate(args) if i not in fixed]
            if not isinstance(guards, bool):
                guards = tuple(g for i, g in enumerate(guards) if i not in fixed)

            def of_others(*given: Any, **further: Any) -> Any:
                full = list(given)
                for n in sorted(fixed):
                    full.insert(n, fixed[n])
                return fun(*full, **further, **named)

            inner = checkpoint(functools.wraps(fun)(of_others), policy=policy, prevent_cse=guards)
            return inner(*others, **{k: v for k, v in kwargs.items() if k not in named})
        leaves, treedef = _flatten_arguments(fun, args, kwargs)
        if policy is everything_saveable:
            given, further = tree_unflatten(treedef, leaves)
            return fun(*given, **further)
        shared = [] if isinstance(guards, bool) else [not g for g in _guards(tuple(guards), args)]
        flat = _Flat(fun, treedef, given=leaves, refs=ref.lent())
        made = _core.checkpoint(flat, leaves, keeps, shared)
        return tree_unflatten(flat.out_tree, flat.settled(args, kwargs, made))

    return wrapped
