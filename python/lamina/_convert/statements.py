"""Statements of control flow as functions of their blocks and calls of the hooks.

A block becomes a function inside the user's, whose names it shares (`nonlocal`), with the user's lines and columns. What
may leave a block early is given to its caller as a signal; the statements after it are then a block of their own, so
that they can run on one side of a branch only::

    if t:                   def __lamina_1():
        return a                return __lamina__.returned(a)
    b                       def __lamina_2(): ...
                            return __lamina__.result(__lamina__.if_then(t, __lamina_1, None, __lamina_2, ...))
"""

from __future__ import annotations

import ast
from typing import Any

from lamina._convert import names
from lamina._convert.expressions import Expressions, call, later, placed
from lamina._syntax import bound, declared, own, parameters

PREFIX = "__lamina_"


def converted(node: Any) -> Any:
    """A function's definition, converted in place."""
    _Converter([]).function(node)
    return node


class _Function:
    """One function of the user while it is converted."""

    def __init__(self, node: Any) -> None:
        body = node.body
        scope = own(body)
        self.globals = declared(scope, ast.Global)
        self.nonlocals = declared(scope, ast.Nonlocal)
        self.parameters = parameters(node.args)
        self.locals = bound(scope) | set(self.parameters)
        self.locals -= self.globals | self.nonlocals
        self.reads = names.reads(body)
        self.shared: set[str] = set()  # locals that blocks bind
        self.unsure = names.unsure(body, scope) & self.locals - set(self.parameters)


class _Converter(Expressions):
    def __init__(self, functions: list[_Function]) -> None:
        self.functions = functions
        self.count = 0
        self.depth = 0  # of blocks that became functions

    # --- functions ---

    def function(self, node: Any) -> Any:
        if isinstance(node, ast.Lambda):
            node.body = self.visit(node.body)
            return node
        if isinstance(node, ast.AsyncFunctionDef) or names.suspends(node.body):
            return node  # a generator's blocks cannot be functions
        self.functions.append(_Function(node))
        depth, self.depth = self.depth, 0
        f = self.functions[-1]
        doc = [node.body.pop(0)] if ast.get_docstring(node, clean=False) is not None else []
        at = node.body[0] if node.body else doc[0]
        body = self.block(node.body, top=True)
        head: list[Any] = []
        if f.globals:
            head.append(ast.Global(sorted(f.globals)))
        if f.nonlocals:
            head.append(ast.Nonlocal(sorted(f.nonlocals)))
        for name in sorted(f.shared - set(f.parameters)):
            # Makes the name the function's own, and no code.
            head.append(ast.AnnAssign(ast.Name(name, ast.Store()), ast.Constant(None), None, 1))
        node.body = [*doc, *(placed(h, at) for h in head), *body] or [placed(ast.Pass(), at)]
        self.functions.pop()
        self.depth = depth
        return node

    def _definition(self, node: Any) -> Any:
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.args.kw_defaults = [d and self.visit(d) for d in node.args.kw_defaults]
        node.decorator_list = [self.visit(d) for d in getattr(node, "decorator_list", [])]
        return self.function(node)

    visit_FunctionDef = visit_AsyncFunctionDef = _definition

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        node.args.defaults = [self.visit(d) for d in node.args.defaults]
        node.args.kw_defaults = [d and self.visit(d) for d in node.args.kw_defaults]
        return self.function(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        node.body = [
            self.visit(n) if isinstance(n, (ast.FunctionDef, ast.ClassDef)) else n for n in node.body
        ]
        return node

    # --- blocks ---

    def block(self, body: list[Any], top: bool = False) -> list[Any]:
        """The statements of a block; where it is not a function's own, signals are returned."""
        out: list[Any] = []
        for i, n in enumerate(body):
            if isinstance(n, (ast.Global, ast.Nonlocal)):
                continue
            method = getattr(self, f"_{type(n).__name__.lower()}", None)
            if method is None:
                made = self.visit(n)
                out += made if isinstance(made, list) else [made]
            elif isinstance(n, (ast.Return, ast.Break, ast.Continue)):
                out.append(method(n, top))
                break
            else:
                early = names.leaves([n])
                rest = body[i + 1 :] if early else []
                made, signal = method(n, rest, early)
                out += made
                if early:
                    if top:
                        signal = call("result", n, signal)
                    out.append(placed(ast.Return(signal), n))
                    break
        return out

    def thunk(
        self, body: list[Any], at: Any, argument: str = "", prefix: list[Any] | None = None
    ) -> tuple[Any, Any]:
        """A function of a block, and its name; None where there is no block."""
        if not body and not prefix:
            return [], ast.Constant(None)
        f = self.functions[-1]
        given = [*(prefix or []), *body]
        binds = bound(own(given))
        self.count += 1
        name = f"{PREFIX}{self.count}"
        self.depth += 1
        inner = [*(self.visit(p) for p in prefix or []), *self.block(body)]
        self.depth -= 1
        outer = binds & (f.locals | f.nonlocals)
        f.shared |= binds & f.locals
        head: list[Any] = []
        if outer:
            head.append(ast.Nonlocal(sorted(outer)))
        if binds & f.globals:
            head.append(ast.Global(sorted(binds & f.globals)))
        args = [ast.arg(argument)] if argument else []
        arguments = ast.arguments([], args, None, [], [], None, [])
        made = ast.FunctionDef(name, arguments, [*head, *(inner or [ast.Pass()])], [], None)
        if "type_params" in made._fields:
            made.type_params = []
        return [placed(made, (body or prefix)[0] if at is None else at)], ast.Name(name, ast.Load())

    def _names(self, *bodies: list[Any]) -> ast.Constant:
        """The user's names that these blocks bind."""
        f = self.functions[-1]
        found: set[str] = set()
        for b in bodies:
            found |= bound(own(b))
        return ast.Constant(" ".join(sorted(found & (f.locals | f.nonlocals))))

    def _temporary(self, test: list[Any], body: list[Any]) -> ast.Constant:
        """The names that each iteration binds before it reads them, and that nothing else in the function reads."""
        f = self.functions[-1]
        found, inside = names.first_bound(body) & f.locals, names.reads(body)
        tested = names.reads(test)
        return ast.Constant(" ".join(sorted(n for n in found if f.reads[n] == inside[n] and not tested[n])))

    def _test_function(self, node: Any) -> tuple[list[Any], Any]:
        """A test that is asked again and again, as a function."""
        if not names.holds(node, ast.NamedExpr):
            arguments = ast.arguments([], [], None, [], [], None, [])
            return [], placed(ast.Lambda(arguments, self.test(node)), node)
        made, name = self.thunk([], node, prefix=[ast.copy_location(ast.Return(node), node)])
        return made, name

    # --- statements ---

    def _return(self, node: ast.Return, top: bool) -> Any:
        value = node.value and self.visit(node.value)
        if top:
            node.value = value
            return node
        return placed(ast.Return(call("returned", node, value or ast.Constant(None))), node)

    def _break(self, node: ast.Break, top: bool) -> Any:
        return placed(ast.Return(call("broken", node)), node)

    def _continue(self, node: ast.Continue, top: bool) -> Any:
        return placed(ast.Return(call("continued", node)), node)

    def _if(self, node: ast.If, rest: list[Any], early: bool) -> tuple[list[Any], Any]:
        ends = (1 if names.never_ends(node.body) else 0) + (2 if names.never_ends(node.orelse) else 0)
        yes, yes_name = self.thunk(node.body, node)
        no, no_name = self.thunk(node.orelse, node)
        test = self.test(node.test)
        if not early:
            return [*yes, *no, self._statement(call("if_", node.test, test, yes_name, no_name), node)], None
        after, after_name = self.thunk(rest, None)
        return [*yes, *no, *after], call("if_then", node.test, test, yes_name, no_name, after_name, ends)

    def _statement(self, expression: Any, at: Any) -> Any:
        return placed(ast.Expr(expression), at)

    def _then(
        self, made: list[Any], signal: Any, node: Any, rest: list[Any], early: bool
    ) -> tuple[list[Any], Any]:
        """A statement's signal, with what follows the statement."""
        if not early:
            return [*made, self._statement(signal, node)], None
        if not rest:
            return made, signal
        after, after_name = self.thunk(rest, None)
        return [*made, *after], call("then", node, signal, after_name)

    def _while(self, node: ast.While, rest: list[Any], early: bool) -> tuple[list[Any], Any]:
        binds, temporary = self._names([node.test, *node.body]), self._temporary([node.test], node.body)
        test, test_name = self._test_function(node.test)
        body, body_name = self.thunk(node.body, node)
        no, no_name = self.thunk(node.orelse, node)
        signal = call("while_", node.test, test_name, body_name, no_name, binds, temporary)
        return self._then([*test, *body, *no], signal, node, rest, early)

    def _for(self, node: ast.For, rest: list[Any], early: bool) -> tuple[list[Any], Any]:
        item = f"{PREFIX}item"
        target = ast.Assign([node.target], ast.Name(item, ast.Load()))
        placed(target, node.target)
        binds = self._names([target, *node.body])
        temporary = self._temporary([], [target, *node.body])
        iterable = self.visit(node.iter)
        leaves = names.leaves(node.body)
        body, body_name = self.thunk(node.body, node, item, [target])
        no, no_name = self.thunk(node.orelse, node)
        signal = call("for_", node.iter, iterable, body_name, no_name, binds, temporary, leaves)
        return self._then([*body, *no], signal, node, rest, early)

    def _with(self, node: ast.With, rest: list[Any], early: bool) -> tuple[list[Any], Any]:
        for item in node.items:
            item.context_expr = self.visit(item.context_expr)
        return self._around(node, rest, early, ["body"])

    def _around(self, node: Any, rest: list[Any], early: bool, fields: list[str]) -> tuple[list[Any], Any]:
        """A statement that stays, around blocks whose signals are kept in a name."""
        if not early:
            for field in fields:
                setattr(node, field, self.block(getattr(node, field)))
            return [node], None
        self.count += 1
        kept = f"{PREFIX}signal_{self.count}"
        made: list[Any] = [placed(ast.Assign([ast.Name(kept, ast.Store())], ast.Constant(None)), node)]
        signals = {field: self._kept(getattr(node, field), kept, field) for field in fields}
        for field, (functions, body) in signals.items():
            made += functions
            setattr(node, field, body)
        made.append(node)
        if not rest:
            return made, placed(ast.Name(kept, ast.Load()), node)
        after, after_name = self.thunk(rest, None)
        return [*made, *after], call("then", node, placed(ast.Name(kept, ast.Load()), node), after_name)

    def _kept(self, body: list[Any], kept: str, field: str) -> tuple[list[Any], list[Any]]:
        """The function of a block, and a block that keeps its signal."""
        if not body:
            return [], []
        functions, name = self.thunk(body, body[0])
        run: Any = ast.Call(name, [], [])
        if field == "finalbody":
            run = call(
                "last", body[0], ast.Name(kept, ast.Load()), name, ast.Name(_finally(kept), ast.Load())
            )
        elif field == "orelse":
            run = call("then", body[0], ast.Name(kept, ast.Load()), name)
        store = placed(ast.Assign([ast.Name(kept, ast.Store())], run), body[0])
        return functions, [store]

    def _try(self, node: ast.Try, rest: list[Any], early: bool) -> tuple[list[Any], Any]:
        handlers = [h.body for h in node.handlers]
        self.count += not early
        number = self.count
        made, signal = self._around(node, rest, early, ["body", "orelse", "finalbody"])
        at = made.index(node)
        kept = made[0].targets[0].id if early else f"{PREFIX}signal_{number}"
        if node.finalbody:
            raising = _finally(kept)
            target = ast.Name(raising, ast.Store())
            made.insert(at, placed(ast.Assign([target], call("finishing", node)), node))
            at += 1
            item = ast.withitem(ast.Name(raising, ast.Load()), None)
            node.finalbody = [placed(ast.With([item], node.finalbody), node.finalbody[0])]
        for h, body in zip(node.handlers, handlers):
            h.type = h.type and self.visit(h.type)
            if early:
                functions, h.body = self._kept(body, kept, "body")
                made[at:at] = functions
                at += len(functions)
            else:
                h.body = self.block(body)
        if node.handlers:
            # What is raised under a traced test cannot come here.
            item = ast.withitem(call("trying", node), None)
            node.body = [placed(ast.With([item], node.body), node.body[0])]
        return made, signal

    _trystar = _try

    def _match(self, node: ast.Match, rest: list[Any], early: bool) -> tuple[list[Any], Any]:
        if all(_is_simple(c.pattern) for c in node.cases):
            return self._as_ifs(node, rest, early)
        node.subject = self.visit(node.subject)
        for c in node.cases:
            c.guard = c.guard and self.test(c.guard)
        if not early:
            for c in node.cases:
                c.body = self.block(c.body)
            return [node], None
        self.count += 1
        kept = f"{PREFIX}signal_{self.count}"
        made: list[Any] = [placed(ast.Assign([ast.Name(kept, ast.Store())], ast.Constant(None)), node)]
        for c in node.cases:
            functions, c.body = self._kept(c.body, kept, "body")
            made += functions
        signal = placed(ast.Name(kept, ast.Load()), node)
        after, after_name = self.thunk(rest, None)
        return [*made, node, *after], call("then", node, signal, after_name)

    def _as_ifs(self, node: ast.Match, rest: list[Any], early: bool) -> tuple[list[Any], Any]:
        """A match over values, as tests from the first to the last."""
        self.count += 1
        subject = f"{PREFIX}subject_{self.count}"
        keep = placed(ast.Assign([ast.Name(subject, ast.Store())], self.visit(node.subject)), node)
        chain: list[Any] = []
        for c in reversed(node.cases):
            test, capture = _pattern(c.pattern, subject)
            if c.guard is not None:
                test = c.guard if test is None else ast.BoolOp(ast.And(), [test, c.guard])
            body = c.body if test is None else [ast.If(test, c.body, chain)]
            chain = [placed(n, c.pattern) for n in [*capture, *body]]
        if len(chain) != 1 or not isinstance(chain[0], ast.If):
            chain = [placed(ast.If(ast.Constant(True), chain, []), node)]
        made, signal = self._if(chain[0], rest, early)
        return [keep, *made], signal

    # --- single statements ---

    def visit_Name(self, node: ast.Name) -> Any:
        if isinstance(node.ctx, ast.Load) and any(node.id in f.unsure for f in self._seen(node.id)):
            return call("local", node, node.id, later(node))
        return node

    def _seen(self, name: str) -> list[_Function]:
        """The function whose variable a name is, if it is one's."""
        found = [f for f in reversed(self.functions) if name in f.locals]
        return found[:1]

    def visit_Assign(self, node: ast.Assign) -> Any:
        self.generic_visit(node)
        alone = len(node.targets) == 1 and isinstance(node.targets[0], (ast.Attribute, ast.Subscript))
        for target in node.targets:
            self._tell(target, alone)
        return node

    def _tell(self, target: Any, alone: bool) -> None:
        """Lets the program know what is written to; that which a plain name alone holds, it is told with the value."""
        if isinstance(target, (ast.Tuple, ast.List)):
            for t in target.elts:
                self._tell(t, False)
        elif isinstance(target, ast.Starred):
            self._tell(target.value, False)
        elif isinstance(target, (ast.Attribute, ast.Subscript)) and not (
            alone and isinstance(target.value, ast.Name)
        ):
            target.value = call("target", target, target.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        target = node.target
        node.value = self.visit(node.value)
        if not isinstance(target, ast.Name):
            node.target = self.visit(target)
            return node
        now = self.visit(ast.copy_location(ast.Name(target.id, ast.Load()), target))
        if not isinstance(now, ast.Call):
            return node
        return [placed(ast.Assign([ast.Name(target.id, ast.Store())], now), node), node]

    def visit_Raise(self, node: ast.Raise) -> Any:
        if node.exc is not None:
            node.exc = call("raised", node, self.visit(node.exc))
        node.cause = node.cause and self.visit(node.cause)
        return node

    def visit_Assert(self, node: ast.Assert) -> Any:
        message = self.visit(node.msg) if node.msg is not None else None
        arguments = ast.arguments([], [], None, [], [], None, [])
        told = placed(ast.Lambda(arguments, message or ast.Constant(None)), node)
        return self._statement(
            call("assert_", node.test, self.test(node.test), told, message is not None), node
        )

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if not isinstance(node.target, ast.Name) or not node.simple:
            return self.generic_visit(node)
        if node.value is None:
            return placed(ast.Pass(), node)
        return placed(ast.Assign([node.target], self.visit(node.value)), node)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and self.depth:
            first = next(iter(self.functions[-1].parameters), None)
            if first is not None:  # which a block's own frame does not have
                node.args = [ast.Name("__class__", ast.Load()), ast.Name(first, ast.Load())]
                placed(node, node)
        return node


def _finally(kept: str) -> str:
    """The name of what stands for a `finally`, by that of the signal of its `try`."""
    return kept.replace("signal", "finally")


def _is_simple(p: Any) -> bool:
    """Whether a pattern compares the subject with values, or takes it as it is."""
    if isinstance(p, ast.MatchOr):
        return all(_is_simple(q) and not isinstance(q, ast.MatchAs) for q in p.patterns)
    if isinstance(p, ast.MatchAs):
        return p.pattern is None
    return isinstance(p, (ast.MatchValue, ast.MatchSingleton))


def _pattern(p: Any, subject: str) -> tuple[Any, list[Any]]:
    """The test of a simple pattern, None if it always holds, and what it binds."""
    name = ast.Name(subject, ast.Load())
    if isinstance(p, ast.MatchValue):
        return ast.Compare(name, [ast.Eq()], [p.value]), []
    if isinstance(p, ast.MatchSingleton):
        return ast.Compare(name, [ast.Is()], [ast.Constant(p.value)]), []
    if isinstance(p, ast.MatchOr):
        return ast.BoolOp(ast.Or(), [_pattern(q, subject)[0] for q in p.patterns]), []
    return None, [ast.Assign([ast.Name(p.name, ast.Store())], name)] if p.name else []
