"""What statements bind and read for sure, and how control may leave them."""

from __future__ import annotations

import ast
import collections
import itertools
from collections.abc import Iterable
from typing import Any

from lamina._syntax import SCOPES, Scope, bound, children, own

LOOPS = (ast.For, ast.While)


def suspends(body: Iterable[ast.AST]) -> bool:
    """Whether a scope is a generator's or a coroutine's."""
    kinds = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
    return any(isinstance(n, kinds) for n, _ in own(body))


def holds(node: ast.AST, *kinds: type) -> bool:
    """Whether an expression has such a node in its own scope or a comprehension."""
    return any(isinstance(n, kinds) for n, _ in own([node]))


def leaves(body: list[Any], in_loop: bool = False) -> bool:
    """Whether control may leave a block by `return`, or by a `break` or `continue` of a loop around it."""
    for n in body:
        if isinstance(n, ast.Return) or (not in_loop and isinstance(n, (ast.Break, ast.Continue))):
            return True
        if isinstance(n, LOOPS):
            if leaves(n.body, True) or leaves(n.orelse, in_loop):
                return True
        elif any(leaves(b, in_loop) for b in blocks(n)):
            return True
    return False


def blocks(n: ast.AST) -> list[list[Any]]:
    """The blocks of statements that a statement holds."""
    if isinstance(n, SCOPES):
        return []
    out = [getattr(n, name, []) for name in ("body", "orelse", "finalbody")]
    out += [h.body for h in getattr(n, "handlers", [])]
    out += [c.body for c in getattr(n, "cases", [])]
    return [b for b in out if b]


def never_ends(body: list[Any]) -> bool:
    """Whether control always leaves a block before its end."""
    for n in body:
        if isinstance(n, (ast.Return, ast.Break, ast.Continue, ast.Raise)):
            return True
        if isinstance(n, ast.If) and n.orelse and never_ends(n.body) and never_ends(n.orelse):
            return True
        if isinstance(n, (ast.With,)) and never_ends(n.body):
            return True
    return False


def reads(body: Iterable[Any]) -> collections.Counter[str]:
    """How often each name is read, functions inside included."""
    found: collections.Counter[str] = collections.Counter()
    stack = list(body)
    while stack:
        n = stack.pop()
        if n.__class__ is ast.Name:
            if n.ctx.__class__ is not ast.Store:
                found[n.id] += 1
            continue
        if n.__class__ is ast.AugAssign and n.target.__class__ is ast.Name:
            found[n.target.id] += 1
        stack += children(n)
    return found


def first_bound(body: list[Any]) -> set[str]:
    """The names that a block surely binds before it reads them."""
    out: set[str] = set()
    read: set[str] = set()
    for n in body:
        if isinstance(n, (*LOOPS, ast.If, ast.Try, ast.With, ast.Match, *SCOPES)):
            read |= set(reads([n]))
            continue
        read |= set(reads([n])) - out
        if isinstance(n, (ast.Return, ast.Break, ast.Continue, ast.Raise)):
            break
        out |= bound(own([n])) - read
    return out


def unsure(body: list[Any], scope: Scope) -> set[str]:
    """The names that a function binds and that may have no value where they are read."""
    start = list(itertools.takewhile(lambda n: not blocks(n), body))
    gone = {t.id for n, _ in scope if isinstance(n, ast.Delete) for t in n.targets if isinstance(t, ast.Name)}
    return bound(scope) - (first_bound(start) - gone)
