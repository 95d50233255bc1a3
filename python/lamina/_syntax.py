"""Syntax trees of Python: what nodes hold, what scopes bind."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable
from typing import Any

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
SCOPES = (*FUNCTIONS, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_PLACE = ("lineno", "col_offset", "end_lineno", "end_col_offset")
# Fields with names or operators, which hold nothing themselves: there are as many of those as of other nodes.
_NOTHING_INSIDE = {"arg", "asname", "attr", "ctx", "id", "kind", "module", "op", "ops", "type_comment"}


@functools.cache
def _holding(kind: type) -> tuple[str, ...]:
    """The fields in which a node of this kind may hold others."""
    return tuple(f for f in kind._fields if f not in _NOTHING_INSIDE)  # type: ignore[attr-defined]


def children(node: ast.AST) -> list[Any]:
    """The nodes right inside, but for operators and contexts."""
    out: list[Any] = []
    for name in _holding(node.__class__):
        held = getattr(node, name, None)
        if held.__class__ is list:
            out += [x for x in held if isinstance(x, ast.AST)]  # type: ignore[union-attr]
        elif isinstance(held, ast.AST):
            out.append(held)
    return out


def shallow(node: Any) -> Any:
    """Another node of the same children, as `copy.copy` makes it."""
    out = node.__class__.__new__(node.__class__)
    out.__dict__.update(node.__dict__)
    return out


def copied(node: Any) -> Any:
    """A copy with all that it holds, without the memo of `copy.deepcopy`; operators and contexts are the same."""
    if not node._fields:
        return node
    out = node.__class__.__new__(node.__class__)
    held = out.__dict__
    for name, x in node.__dict__.items():
        if isinstance(x, ast.AST):
            x = copied(x)
        elif x.__class__ is list:
            x = [copied(y) if isinstance(y, ast.AST) else y for y in x]
        held[name] = x
    return out


def place(node: Any) -> dict[str, int]:
    """Lines and columns of a node as its constructor takes them; none where it has none."""
    held = node.__dict__
    return {name: held[name] for name in _PLACE if name in held}


def located(node: Any) -> Any:
    """`node`, in which nodes without a place have that of the one around them."""
    stack = [(node, node)]
    while stack:
        n, at = stack.pop()
        if n._attributes:
            if "lineno" not in n.__dict__:
                n.__dict__.update(place(at))
            at = n
        stack += [(c, at) for c in children(n)]
    return node


Scope = list[tuple[Any, bool]]


def own(body: Iterable[ast.AST]) -> Scope:
    """The nodes of one scope, definitions inside without what they hold; and whether each is in a comprehension."""
    out = []
    stack = [(n, False) for n in body]
    while stack:
        n, inside = item = stack.pop()
        out.append(item)
        if isinstance(n, SCOPES):
            continue
        inside = inside or isinstance(n, COMPREHENSIONS)
        stack += [(c, inside) for c in children(n)]
    return out


def bound(scope: Scope) -> set[str]:
    """The names that a scope binds, declared elsewhere or not."""
    out: set[str] = set()
    for n, inside in scope:
        kind = n.__class__
        if kind is ast.Name:
            if not inside and n.ctx.__class__ is not ast.Load:
                out.add(n.id)
        elif kind is ast.NamedExpr:
            out.add(n.target.id)
        elif kind in (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef):
            out.add(n.name)
        elif kind in (ast.Import, ast.ImportFrom):
            out |= {(a.asname or a.name).split(".")[0] for a in n.names}
        elif kind in (ast.ExceptHandler, ast.MatchAs, ast.MatchStar):
            if n.name:
                out.add(n.name)
        elif kind is ast.MatchMapping and n.rest:
            out.add(n.rest)
    return out


def declared(scope: Scope, *kinds: type) -> set[str]:
    """The names that `global` or `nonlocal` statements (`kinds`) of a scope declare."""
    return {name for n, _ in scope if isinstance(n, kinds) for name in n.names}


def parameters(a: ast.arguments) -> list[str]:
    """The names of a function's parameters."""
    args = (*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg)
    return [x.arg for x in args if x is not None]
