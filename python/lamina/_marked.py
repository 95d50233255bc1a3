"""Which arguments of a function are marked, as static or donated, by position and by name."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterable
from typing import Any

from lamina._functions import _name
from lamina._later import inspect


def _numbers(value: Any, what: str) -> tuple[int, ...]:
    with contextlib.suppress(TypeError):
        return (operator.index(value),)
    try:
        return tuple(map(operator.index, value))
    except TypeError:
        raise TypeError(f"{what} is {value!r:.60}: it is the number of a parameter, or several") from None


def _strings(value: Any, what: str) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, Iterable) or any(not isinstance(n, str) for n in names):
        raise TypeError(f"{what} is {value!r:.60}: it is the name of a parameter, or several")
    return tuple(names)


def places(f: Callable[..., Any], nums: Any, names: Any, what: str) -> tuple[frozenset[int], frozenset[str]]:
    """The arguments that are marked so, by position and by name: whatever marks one does so however it is passed.

    ValueError for those that `f` cannot have.
    """
    if nums is None and names is None:
        return frozenset(), frozenset()
    by_number, by_name = set(), set(() if names is None else _strings(names, f"{what}_argnames"))
    kinds, kind = _parameter_kinds(f), inspect.Parameter
    if by_name and what == "donate" and not _has_signature(f):
        raise ValueError(
            f"the parameters of {_name(f)} are not known, so what donate_argnames names has no place among them: use "
            "donate_argnums"
        )
    positional = [n for n, k in kinds.items() if k in (kind.POSITIONAL_ONLY, kind.POSITIONAL_OR_KEYWORD)]
    named = [n for n, k in kinds.items() if k in (kind.POSITIONAL_OR_KEYWORD, kind.KEYWORD_ONLY)]
    for n in () if nums is None else _numbers(nums, f"{what}_argnums"):
        outside = not -len(positional) <= n < len(positional)
        if kinds and outside and kind.VAR_POSITIONAL not in kinds.values():
            raise ValueError(
                f"{what}_argnums {n} is out of range: {_name(f)} has {len(positional)} positional parameters"
            )
        by_number.add(n % len(positional) if n < 0 and positional else n)
    for n in by_name:
        if kinds and n not in named and (n in kinds or kind.VAR_KEYWORD not in kinds.values()):
            raise ValueError(
                f"{what}_argnames {n!r} is no parameter of {_name(f)} that takes a name: {named}"
            )
    by_number |= {positional.index(n) for n in by_name if n in positional}
    by_name |= {positional[n] for n in by_number if n < len(positional)}
    return frozenset(by_number), frozenset(by_name)


def _parameter_kinds(f: Callable[..., Any]) -> dict[str, Any]:
    """The kinds of the parameters by their names; none where they are not known."""
    try:
        return {p.name: p.kind for p in inspect.signature(f).parameters.values()}
    except (TypeError, ValueError):
        return {}


def _has_signature(f: Callable[..., Any]) -> bool:
    try:
        inspect.signature(f)
    except (TypeError, ValueError):
        return False
    return True
