"""What statements bind, and how control may leave them."""

from __future__ import annotations

import ast
import collections
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
SCOPES = (*FUNCTIONS, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LOOPS = (ast.For, ast.While)


def own(body: Iterable[ast.AST]) -> Iterator[tuple[ast.AST, bool]]:
    """The nodes of one scope, definitions inside without what they hold; and whether each is in a comprehension."""
    stack = [(n, False) for n in body]
    while stack:
        n, inside = stack.pop()
        yield n, inside
        if isinstance(n, SCOPES):
            continue
        stack.extend((c, inside or isinstance(n, COMPREHENSIONS)) for c in ast.iter_child_nodes(n))


def bound(body: Iterable[ast.AST]) -> set[str]:
    """The names that statements bind in their own scope, declared elsewhere or not."""
    out: set[str] = set()
    walrus: set[int] = set()
    nodes = list(own(body))
    walrus = {id(n.target) for n, _ in nodes if isinstance(n, ast.NamedExpr)}
    for n, inside in nodes:
        if isinstance(n, ast.Name):
            if not isinstance(n.ctx, ast.Load) and (not inside or id(n) in walrus):
                out.add(n.id)
        elif isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            out.add(n.name)
        elif isinstance(n, (ast.Import, ast.ImportFrom)):
            out |= {(a.asname or a.name).split(".")[0] for a in n.names}
        elif isinstance(n, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and n.name:
            out.add(n.name)
        elif isinstance(n, ast.MatchMapping) and n.rest:
            out.add(n.rest)
    return out


def declared(body: Iterable[ast.AST], kind: type) -> set[str]:
    """The names that `global` or `nonlocal` statements (`kind`) of a scope declare."""
    return {name for n, _ in own(body) if isinstance(n, kind) for name in n.names}  # type: ignore[attr-defined]


def suspends(body: Iterable[ast.AST]) -> bool:
    """Whether a scope is a generator's or a coroutine's."""
    kinds = (ast.Yield, ast.YieldFrom, ast.Await, ast.AsyncFor, ast.AsyncWith)
    return any(isinstance(n, kinds) for n, _ in own(body))


def holds(node: ast.AST, *kinds: type) -> bool:
    """Whether an expression has such a node in its own scope or a comprehension."""
    return any(isinstance(n, kinds) for n, _ in own([node]))


def parameters(a: ast.arguments) -> list[str]:
    args = (*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg)
    return [x.arg for x in args if x is not None]


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


def reads(body: Iterable[ast.AST]) -> collections.Counter[str]:
    """How often each name is read, functions inside included."""
    found: collections.Counter[str] = collections.Counter()
    for n in (n for statement in body for n in ast.walk(statement)):
        if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store):
            found[n.id] += 1
        elif isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name):
            found[n.target.id] += 1
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
        out |= bound([n]) - read
    return out


def unsure(body: list[Any]) -> set[str]:
    """The names that a function binds and that may have no value where they are read."""
    start = list(itertools.takewhile(lambda n: not blocks(n), body))
    gone = {
        t.id for n, _ in own(body) if isinstance(n, ast.Delete) for t in n.targets if isinstance(t, ast.Name)
    }
    return bound(body) - (first_bound(start) - gone)
