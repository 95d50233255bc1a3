"""Operators that ask for a truth become calls of the hooks: `and`, `or`, `not`, `in`, `a if t else b`, ``a < b < c``.

Operands that Python may leave out are given as lambdas. One that binds a name by ``:=`` cannot be, and its operator
stays as it is.
"""

from __future__ import annotations

import ast
from typing import Any

from lamina._convert.names import holds
from lamina._syntax import SCOPES, children

HOOKS = "__lamina__"
_OPERATORS = {
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}
_COSTLY = (ast.Call, ast.Subscript, ast.BinOp, ast.BoolOp, ast.IfExp, ast.Attribute, *SCOPES)


def call(name: str, at: Any, *args: Any) -> ast.Call:
    """A call of a hook with nodes or constants."""
    nodes = [a if isinstance(a, ast.AST) else ast.Constant(a) for a in args]
    hook = ast.Attribute(ast.Name(HOOKS, ast.Load()), name, ast.Load())
    made = placed(ast.Call(hook, nodes, []), at)
    # Python gives a call of a method the line where the method's name ends.
    hook.end_lineno, hook.end_col_offset = hook.lineno, hook.col_offset + 1
    return made


def placed(node: Any, at: Any) -> Any:
    """`node` with the place of `at` where it has none; what a node with a place holds has places, too."""
    stack = [node]
    while stack:
        n = stack.pop()
        if hasattr(n, "lineno"):
            continue
        if "lineno" in n._attributes:
            ast.copy_location(n, at)
        stack += children(n)
    return node


def later(node: Any) -> ast.Lambda:
    """An expression as a function of nothing."""
    nothing = ast.arguments([], [], None, [], [], None, [])
    return placed(ast.Lambda(nothing, node), node)


class Expressions(ast.NodeTransformer):
    """Converts the expressions of one function."""

    def _binds(self, *nodes: Any) -> bool:
        return any(holds(n, ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom) for n in nodes)

    def test(self, node: Any) -> Any:
        """An expression of which only the truth is asked."""
        if isinstance(node, ast.BoolOp) and not self._binds(*node.values[1:]):
            name = "both" if isinstance(node.op, ast.And) else "either"
            return self._chain(name, node, [self.test(v) for v in node.values])
        return self.visit(node)

    def _chain(self, name: str, node: Any, values: list[Any]) -> Any:
        out = values[-1]
        for value in reversed(values[:-1]):
            out = call(name, node, not holds(out, *_COSTLY), value, later(out))
        return out

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        if self._binds(*node.values[1:]):
            return self.generic_visit(node)
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return self._chain(name, node, [self.visit(v) for v in node.values])

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            return call("not_", node, self.test(node.operand))
        return self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        if self._binds(node.body, node.orelse):
            return self.generic_visit(node)
        yes, no = self.visit(node.body), self.visit(node.orelse)
        return call("choose", node, self.test(node.test), later(yes), later(no))

    def visit_Compare(self, node: ast.Compare) -> Any:
        ops = [type(op) for op in node.ops]
        if ops in ([ast.In], [ast.NotIn]):
            found = call("in_", node, self.visit(node.left), self.visit(node.comparators[0]))
            return found if ops == [ast.In] else call("not_", node, found)
        if len(ops) == 1 or self._binds(*node.comparators) or not all(op in _OPERATORS for op in ops):
            return self.generic_visit(node)
        rest = [self.visit(c) for c in node.comparators]
        names = " ".join(_OPERATORS[op] for op in ops)
        cheap = not any(holds(c, *_COSTLY) for c in rest)
        return call("compare", node, names, cheap, self.visit(node.left), *map(later, rest))
