"""How JAX tells that two containers have different structures: of carries of loops, and of results of branches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from lamina.lax import _control
from lamina.tree import dict_keys, tree_children

_Difference = tuple[str, str, str, str]  # path, what stands there in one and the other, what does not match


class _Last(threading.local):
    """What Lamina compared last, and found to differ; and the name of the carry among a body's parameters."""

    pair: tuple[Any, Any] = (None, None)
    carry = ""


_last = _Last()


def _number(children: list[Any]) -> str:
    return f"{len(children)} child{'ren' * (len(children) != 1)}"


def _differences(a: Any, b: Any, path: str = "") -> Iterator[_Difference]:
    """The outermost places where two containers differ."""
    mine, its = tree_children(a), tree_children(b)
    if mine is None and its is None:
        return
    kind = type(a)
    if mine is None or its is None or kind is not type(b):
        told = ["a pytree leaf" if c is None else f"a {type(x)}" for x, c in ((a, mine), (b, its))]
        yield path, *told, "their Python types differ"
    elif len(mine[0]) != len(its[0]):
        if kind in (list, tuple):
            told = [f"a {kind.__name__} of length {len(c[0])}" for c in (mine, its)]
            yield path, *told, "the lengths do not match"
        else:
            told = [f"a {kind} with {_number(c[0])}" for c in (mine, its)]
            keys = f", with the symmetric difference of key sets: {set(a) ^ set(b)}" if kind is dict else ""
            yield path, *told, f"the numbers of children do not match{keys}"
    elif mine[1] != its[1]:
        told = [f"a {kind} with pytree metadata {c[1]}" for c in (mine, its)]
        yield path, *told, "the pytree node metadata does not match"
    else:
        names = dict_keys(a, mine[1]) if isinstance(a, dict) else range(len(mine[0]))
        for name, x, y in zip(names, mine[0], its[0]):
            yield from _differences(x, y, f"{path}[{name!r}]")


def _lines(sentences: list[str]) -> str:
    if len(sentences) == 1:
        return f"{sentences[0][0].upper()}{sentences[0][1:]}."
    return ";\n".join(f"  * {s}" for s in sentences) + "."


def of_carry() -> str:
    """Of the carry that a loop's body took and the one that it gave."""
    return _lines(
        [
            f"the input carry {'component ' * bool(path)}{_last.carry}{path} is {given} but the corresponding component "
            f"of the carry output is {returned}, so {why}"
            for path, given, returned, why in _differences(*_last.pair)
        ]
    )


def of_branches(first: str, second: str, turned: bool) -> str:
    """Of results of two branches; `turned`: the first named is the one that ran second."""
    sentences = []
    for path, a, b, why in _differences(*_last.pair):
        at = f" at path {path}" if path else ""
        mine, its = (b, a) if turned else (a, b)
        sentences.append(f"{first} output{at} is {mine} but {second} output{at} is {its}, so {why}")
    text = ";\n".join(f"  * {s}" for s in sentences) if len(sentences) > 1 else sentences[0]
    return f"{text}."


def install() -> None:
    """Has what Lamina's loops and branches compare remembered."""
    explain, carry_leaves = _control.explain_difference, _control._carry_leaves

    def explained(a: Any, b: Any, *names: str) -> str:
        _last.pair = a, b
        return explain(a, b, *names)

    def of_body(what: str, f: Callable[..., Any], init: Any, treedef: Any) -> Callable[[Any], list[Any]]:
        inner = carry_leaves(what, f, init, treedef)

        def leaves_of(out: Any) -> list[Any]:
            _last.carry = _control._carry_name(0, f, int(what == "lax.fori_loop"))(0).strip()
            return inner(out)

        return leaves_of

    _control.explain_difference, _control._carry_leaves = explained, of_body
