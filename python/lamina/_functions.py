"""What transforms are given: functions, and the numbers of their arguments."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any


def _name(f: Callable[..., Any]) -> str:
    """The name of a function for messages; a partial one is called as what it is of."""
    while isinstance(f, functools.partial) and not hasattr(f, "__name__"):
        f = f.func
    return getattr(f, "__name__", type(f).__name__)


def need_function(f: Any, what: str) -> None:
    """TypeError naming `what` was called where `f` cannot be called."""
    if not callable(f):
        raise TypeError(f"{what} needs a function, and {type(f).__name__} is not callable: {f!r:.60}")


def checked_argnums(argnums: Any) -> int | tuple[int, ...]:
    """`argnums` as an int or a tuple of ints; TypeError for what is neither an integer nor a sequence of them."""
    try:
        if isinstance(argnums, (tuple, list)):
            return tuple(operator.index(n) for n in argnums)
        return operator.index(argnums)
    except TypeError:
        raise TypeError(
            f"argnums is {argnums!r:.60}: it is the number of an argument, or a tuple of such numbers"
        ) from None


def places_of(argnums: int | tuple[int, ...], args: Sequence[Any], f: Callable[..., Any]) -> tuple[int, ...]:
    """The arguments of a call that `argnums` names, counted from 0.

    TypeError where there is none, ValueError where one is named twice.
    """
    nums = (argnums,) if isinstance(argnums, int) else argnums
    for n in nums:
        if not -len(args) <= n < len(args):
            raise TypeError(
                f"argnums {n} is out of range: {_name(f)} was called with {len(args)} positional arguments, and what "
                "is differentiated is one of them"
            )
    places = tuple(n % len(args) for n in nums)
    if len(set(places)) != len(places):
        raise ValueError(f"argnums {nums} names an argument of {_name(f)} twice")
    return places
