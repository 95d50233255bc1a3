"""Functions whose reads are seen: a copy of their code in which each read of what is not local goes through a hook.

The copy is made from the source, by Python's own parser and compiler, and keeps every line and column. Source that does
not compile to the very code of the function (edited since, changed by an import hook) is not used. What the hooks do is
told in `_watch.Hooks`; the code finds them in the free variable ``__lamina__``.
"""

from __future__ import annotations
import __future__ as future

import ast
import collections
import functools
import linecache
import operator
import types
from collections.abc import Iterator
from typing import Any

from lamina._objects import names_of
from lamina._source import parse
from lamina._syntax import (
    FUNCTIONS,
    bound,
    children,
    copied,
    declared,
    located,
    own,
    parameters,
    place,
    shallow,
)

HOOKS = "__lamina__"
_FLAGS = functools.reduce(operator.or_, (getattr(future, n).compiler_flag for n in future.all_feature_names))
_LOAD = ast.Load()
_MAX_CODES, _MAX_FILES = 4096, 64
# Pieces of a statement that begin at the margin, before it is looked for in the whole file.
_MOST_PIECES = 8

# By id: code objects compare by content, which is slow. The value holds the code, so that an id stays its own.
_codes: collections.OrderedDict[tuple[int, bool], tuple[types.CodeType, types.CodeType | None]] = (
    collections.OrderedDict()
)


# By name and first line: definitions, each with the class whose private names it uses.
_Functions = dict[tuple[str, int], list[tuple[Any, str]]]


def _functions(tree: ast.AST) -> _Functions:
    found: _Functions = {}
    stack: list[tuple[ast.AST, str]] = [(tree, "")]
    while stack:
        node, inside = stack.pop()
        if isinstance(node, ast.ClassDef):
            inside = node.name
        elif isinstance(node, FUNCTIONS):
            line = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", []))])
            found.setdefault((getattr(node, "name", "<lambda>"), line), []).append((node, inside))
        stack.extend((child, inside) for child in children(node))
    return found


def _imports(tree: ast.Module) -> list[Any]:
    """What a module imports. The compiler calls methods of such names in another way, so it must know them."""
    found: list[Any] = [n for n, _ in own(tree.body) if isinstance(n, (ast.Import, ast.ImportFrom))]
    return [n for n in found if getattr(n, "module", "") != "__future__" and n.names[0].name != "*"]


class _File:
    """The functions that a file defines, and what it imports.

    Parsing a file takes as long as it is: milliseconds for some hundred lines. So the statement of the module that holds
    a function is parsed by itself, found by its indentation; the whole file only if that was not it.
    """

    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        # Lines that look like the beginning of a statement.
        self.starts = [i for i, line in enumerate(lines) if line[:1].isalpha() or line[:1] in "@_"]
        self.statements: dict[int, _Functions] = {}
        self._whole: tuple[_Functions, list[Any]] | None = None
        words = ("import ", "from ")
        self.imports = [at for at, i in enumerate(self.starts) if lines[i].startswith(words)]

    def candidates(self, code: types.CodeType) -> Iterator[tuple[_Functions, list[Any]]]:
        """Functions among which is that of the code, with what it may use of what is imported; the likeliest first."""
        at = sum([start < code.co_firstlineno for start in self.starts]) - 1
        if at >= 0:
            if at not in self.statements:
                self.statements[at] = self._statement(at)
            yield self.statements[at], self._imports_of(names_of(code))
        yield self.whole

    def _statement(self, at: int) -> _Functions:
        """Those of the statement that begins with a start; none if that is no statement."""
        for end in range(at + 1, min(at + 1 + _MOST_PIECES, len(self.starts) + 1)):
            tree = self._parsed(at, end)
            # Decorators, or a text or brackets that go on at the margin, have no end there.
            if tree is not None:
                return _functions(tree)
        return {}

    def _text(self, at: int, end: int) -> str:
        last = self.starts[end] if end < len(self.starts) else len(self.lines)
        return "".join(self.lines[self.starts[at] : last])

    def _parsed(self, at: int, end: int) -> ast.Module | None:
        try:
            return parse("\n" * self.starts[at] + self._text(at, end))
        except SyntaxError:
            return None

    def _imports_of(self, names: set[str]) -> list[Any]:
        """The imports with one of these names in their text."""
        found: list[Any] = []
        for at in self.imports:
            text = self._text(at, at + 1)
            if any([name in text for name in names]):
                tree = self._parsed(at, at + 1)
                found += _imports(tree) if tree is not None else []
        return found

    @property
    def whole(self) -> tuple[_Functions, list[Any]]:
        # Not functools.cached_property: before Python 3.12 that has a lock, which a fork may leave locked.
        if self._whole is None:
            tree = parse("".join(self.lines))
            self._whole = _functions(tree), _imports(tree)
        return self._whole


_files: collections.OrderedDict[str, _File] = collections.OrderedDict()


def rewritten(code: types.CodeType, convert: bool = False) -> types.CodeType | None:
    """The code with hooks, and with `convert` for its control flow too; None if its source is not to be had."""
    found = _codes.get((id(code), convert))
    if found is None:
        try:
            made = _rewrite(code, convert)
        except (SyntaxError, ValueError, RecursionError):
            made = None
        found = _codes[id(code), convert] = (code, made)
        if len(_codes) > _MAX_CODES:
            _codes.popitem(last=False)
    return found[1]


def has_hooks(code: types.CodeType) -> bool:
    """Whether the code was made here, or lies inside such code."""
    return HOOKS in code.co_freevars


def _file(name: str) -> _File:
    lines = linecache.getlines(name)
    known = _files.get(name)
    if known is None or known.lines != lines:
        known = _files[name] = _File(lines)
        if len(_files) > _MAX_FILES:
            _files.popitem(last=False)
    return known


def _rewrite(code: types.CodeType, convert: bool) -> types.CodeType | None:
    for functions, imported in _file(code.co_filename).candidates(code):
        for node, inside in functions.get((code.co_name, code.co_firstlineno), ()):
            bare = _without_surroundings(node)
            # Import hooks put other statements in the place of imports (lazy imports do).
            forms = (imported, []) if imported else ([],)
            if not any(_same(_compiled(bare, inside, code, code.co_freevars, f), code) for f in forms):
                continue
            changed = copied(bare)
            if convert:
                from lamina._convert.statements import converted  # which few functions need

                changed = converted(changed)
            changed = located(_Rewriter(code, inside).outermost(changed))
            return _compiled(changed, inside, code, (*code.co_freevars, HOOKS), [])
    return None


def _without_surroundings(node: Any) -> Any:
    """A definition without what is evaluated around it; the number of defaults stays."""
    node = shallow(node)
    if not isinstance(node, ast.Lambda):
        # The first decorator's line is the function's.
        node.decorator_list = [ast.copy_location(ast.Constant(None), d) for d in node.decorator_list]
        node.returns = None
        if hasattr(node, "type_params"):
            node.type_params = []
    none = ast.copy_location(ast.Constant(None), node)
    args = node.args = copied(node.args)
    args.defaults = [none for _ in args.defaults]
    args.kw_defaults = [d and none for d in args.kw_defaults]
    for a in (*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg):
        if a is not None:
            a.annotation = None
    return node


def _compiled(
    node: Any, inside: str, like: types.CodeType, free: tuple[str, ...], imports: list[Any]
) -> types.CodeType | None:
    # In a class, whose names functions do not see; "_" makes no private names. Underscores before its name change
    # nothing about those, and keep it apart from the names that the code uses: its own class may be one.
    body = ast.Expr(node) if isinstance(node, ast.Lambda) else node
    holder_name, used = inside or "_", names_of(like)
    while holder_name in used:
        holder_name = "_" + holder_name
    holder = ast.ClassDef(holder_name, [], [], [body], [])
    names = [ast.arg(n) for n in free]
    factory = ast.FunctionDef("factory", ast.arguments([], names, None, [], [], None, []), [holder], [])
    for made in (holder, factory):
        if "type_params" in made._fields:
            made.type_params = []
    for made in (holder, factory, body, *names):
        if not hasattr(made, "lineno"):
            made.lineno = made.end_lineno = 1
            made.col_offset = made.end_col_offset = 0
    module = ast.Module([*imports, factory], [])
    found: Any = compile(module, like.co_filename, "exec", like.co_flags & _FLAGS, dont_inherit=True)
    for _ in range(3):
        inner = [c for c in found.co_consts if isinstance(c, types.CodeType)]
        if len(inner) != 1:
            return None
        found = inner[0]
    name = getattr(like, "co_qualname", like.co_name)
    return _renamed(found, f"factory.<locals>.{holder.name}.", name[: len(name) - len(like.co_name)])


def _renamed(code: types.CodeType, old: str, new: str, inside: str = "") -> types.CodeType:
    """The code with qualified names that begin with `new` in the place of `old`, in all code inside too.

    A block of the function `inside` that became a function has its name: to whoever looks it is still a part of it.
    """
    block = code.co_name.startswith(HOOKS[:-1]) and inside
    own = inside if block else code.co_name

    def changed(x: Any) -> Any:
        if isinstance(x, types.CodeType):
            return _renamed(x, old, new, own)
        return new + x[len(old) :] if isinstance(x, str) and x.startswith(old) else x

    names = {"co_qualname": changed(code.co_qualname)} if hasattr(code, "co_qualname") else {}
    if block:
        names = {n: new + own for n in names}
    return code.replace(co_consts=tuple(map(changed, code.co_consts)), co_name=own, **names)


def _same(a: types.CodeType | None, b: types.CodeType) -> bool:
    if a is None:
        return False
    for name in ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount"):
        if getattr(a, name) != getattr(b, name):
            return False
    if hasattr(a, "co_positions") and list(a.co_positions()) != list(b.co_positions()):
        return False
    if len(a.co_consts) != len(b.co_consts):
        return False
    for x, y in zip(a.co_consts, b.co_consts):
        if isinstance(x, types.CodeType) and isinstance(y, types.CodeType):
            if not _same(x, y):
                return False
        elif type(x) is not type(y) or repr(x) != repr(y):
            return False
    return True


class _Scope:
    """The names that a function or class binds itself."""

    def __init__(self, node: Any) -> None:
        self.is_class = isinstance(node, ast.ClassDef)
        body: Any = node.body if isinstance(node.body, list) else [node.body]
        scope = own(body)
        self.outer = declared(scope, ast.Global, ast.Nonlocal)
        self.bound = bound(scope) - self.outer
        if isinstance(node, FUNCTIONS):
            self.bound |= set(parameters(node.args))


class _Rewriter(ast.NodeTransformer):
    def __init__(self, code: types.CodeType, inside: str) -> None:
        self.free, self.inside = frozenset(code.co_freevars), inside
        self.scopes: list[Any] = []

    def outermost(self, node: Any) -> Any:
        self.scopes.append(_Scope(node))
        node.body = self._visited(node.body) if isinstance(node.body, list) else self.visit(node.body)
        return node

    def _visited(self, body: list[Any]) -> list[Any]:
        out = []
        for n in body:
            v = self.visit(n)
            out += v if isinstance(v, list) else [v]
        return out

    # --- names ---

    def _is_local(self, name: str) -> bool:
        for i, scope in enumerate(reversed(self.scopes)):
            if isinstance(scope, _Scope):
                if scope.is_class and i:
                    continue
                if name in scope.outer:
                    return name not in self.free and self._outer_is_local(name)
                if name in scope.bound:
                    return True
            elif name in scope:
                return True
        return False

    def _outer_is_local(self, name: str) -> bool:
        """Of a name declared nonlocal or global inside: whether the function itself binds it."""
        return any(isinstance(s, _Scope) and not s.is_class and name in s.bound for s in self.scopes)

    def _mangled(self, name: str) -> str:
        stripped = self.inside.lstrip("_")
        private = name.startswith("__") and not name.endswith("__") and stripped
        return f"_{stripped}{name}" if private else name

    def _hook(self, name: str, at: Any, *args: Any) -> ast.Call:
        here = place(at)
        nodes = []
        for a in args:
            if not isinstance(a, ast.AST):
                a = ast.Constant(a, **here)
            elif "lineno" not in a.__dict__:
                a.__dict__.update(here)
            nodes.append(a)
        hook = ast.Attribute(ast.Name(HOOKS, _LOAD, **here), name, _LOAD, **here)
        return ast.Call(hook, nodes, [], **here)

    def visit_Name(self, node: ast.Name) -> Any:
        if not isinstance(node.ctx, ast.Load) or node.id == HOOKS or self._is_local(node.id):
            return node
        name = self._mangled(node.id)
        return self._hook("free" if name in self.free else "global_", node, name, node)

    # --- reads ---

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        node.value = self.visit(node.value)
        if not isinstance(node.ctx, ast.Load):
            return node
        return self._hook("attribute", node, node.value, self._mangled(node.attr))

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        node.value, node.slice = self.visit(node.value), self.visit(node.slice)
        if not isinstance(node.ctx, ast.Load):
            return node
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if any(isinstance(p, (ast.Slice, ast.Starred)) for p in parts):
            node.value = self._hook("noted", node.value, node.value)
            for p in parts:
                for name in ("lower", "upper", "step"):
                    bound = getattr(p, name, None)
                    if bound is not None and not isinstance(bound, ast.Constant):
                        setattr(p, name, self._hook("noted", bound, bound))
            return node
        return self._hook("item", node, node.value, node.slice)

    def visit_Call(self, node: ast.Call) -> Any:
        hook = getattr(node.func, "value", None)
        if isinstance(hook, ast.Name) and hook.id == HOOKS:
            node.args = [self.visit(a) for a in node.args]
            return node
        self.generic_visit(node)
        node.func = self._hook("callee", node.func, node.func)
        for k in node.keywords:
            if k.arg is None:
                k.value = self._hook("mapping", k.value, k.value)
        return node

    def visit_Starred(self, node: ast.Starred) -> Any:
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = self._hook("unpacked", node.value, node.value)
        return node

    # --- whole values ---

    def _whole(self, hook: str, node: Any) -> Any:
        """A visited operand whose content is used."""
        out = self.visit(node)
        if isinstance(node, (ast.Constant, ast.Compare, ast.BinOp, ast.BoolOp, ast.UnaryOp, ast.JoinedStr)):
            return out
        return self._hook(hook, node, out)

    def visit_BinOp(self, node: ast.BinOp) -> Any:
        node.left = self._whole("noted", node.left)
        node.right = self._whole("shown" if isinstance(node.op, ast.Mod) else "noted", node.right)
        return node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        node.operand = self._whole("truth" if isinstance(node.op, ast.Not) else "noted", node.operand)
        return node

    def visit_Compare(self, node: ast.Compare) -> Any:
        operands = [node.left, *node.comparators]
        hooks: list[str | None] = [None] * len(operands)
        for i, op in enumerate(node.ops):
            if isinstance(op, (ast.In, ast.NotIn)):
                hooks[i + 1] = "keyed"
            else:
                hook = "noted"
                if isinstance(op, (ast.Is, ast.IsNot)):
                    constant = any(isinstance(n, ast.Constant) for n in operands[i : i + 2])
                    hook = "same" if constant else "itself"
                hooks[i], hooks[i + 1] = hooks[i] or hook, hook
        # A key that takes nothing to evaluate once more: only its entry is asked for.
        parts = node.left.elts if isinstance(node.left, ast.Tuple) else [node.left]
        plain = all(isinstance(n, (ast.Name, ast.Constant)) for n in parts)
        out = [self._whole(h, n) if h else self.visit(n) for h, n in zip(hooks, operands)]
        node.left, node.comparators = out[0], out[1:]
        if hooks[1] == "keyed" and isinstance(out[1], ast.Call) and plain:
            out[1].args.append(copied(out[0]))
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        node.values = [self._whole("truth", v) for v in node.values]
        return node

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Any:
        node.value = self._whole("shown", node.value)
        if node.format_spec is not None:
            node.format_spec = self.visit(node.format_spec)
        return node

    def _tested(self, node: Any) -> Any:
        test, node.test = node.test, ast.Constant(None)
        node.test = self._whole("truth", test)
        kept, node.test = node.test, ast.Constant(None)
        self.generic_visit(node)
        node.test = kept
        return node

    def visit_withitem(self, node: ast.withitem) -> Any:
        self.generic_visit(node)
        node.context_expr = self._hook("noted", node.context_expr, node.context_expr)
        return node

    visit_If = visit_While = visit_IfExp = visit_Assert = _tested

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        node.iter = self._hook("iterated", node.iter, node.iter)
        return node

    def visit_Match(self, node: ast.Match) -> Any:
        node.subject = self._hook("noted", node.subject, self.visit(node.subject))
        for case in node.cases:  # patterns hold names and attributes only
            case.guard = case.guard and self.visit(case.guard)
            case.body = self._visited(case.body)
        return node

    # --- objects made here ---

    def _display(self, node: Any) -> Any:
        self.generic_visit(node)
        return (
            self._hook("fresh", node, node)
            if isinstance(getattr(node, "ctx", ast.Load()), ast.Load)
            else node
        )

    visit_List = visit_Set = _display

    def visit_Dict(self, node: ast.Dict) -> Any:
        self.generic_visit(node)
        node.values = [
            v if k is not None else self._hook("mapping", v, v) for k, v in zip(node.keys, node.values)
        ]
        return self._hook("fresh", node, node)

    def _comprehension(self, node: Any) -> Any:
        # The first iterable belongs to the scope around; the rest sees the targets.
        names: set[str] = set()
        first = node.generators[0]
        first_iter = self.visit(first.iter)
        for g in node.generators:
            names |= {
                n.id for n in ast.walk(g.target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
        first.iter = ast.Constant(None)
        self.scopes.append(names)
        self.generic_visit(node)
        self.scopes.pop()
        first.iter = first_iter
        for g in node.generators:
            g.iter = self._hook("iterated", g.iter, g.iter)
            g.ifs = [self._hook("truth", i, i) for i in g.ifs]
        return node if isinstance(node, ast.GeneratorExp) else self._hook("fresh", node, node)

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    # --- writes ---

    def _leaves_function(self, target: ast.AST) -> bool:
        """Whether an assignment to the target reaches something outside the function's locals."""
        if isinstance(target, (ast.Attribute, ast.Subscript)):
            return True
        if isinstance(target, ast.Name):
            return not self._is_local(target.id)
        if isinstance(target, (ast.Tuple, ast.List)):
            return any(self._leaves_function(t) for t in target.elts)
        return isinstance(target, ast.Starred) and self._leaves_function(target.value)

    def visit_Assign(self, node: ast.Assign) -> Any:
        leaves = any(self._leaves_function(t) for t in node.targets)
        unpacks = any(isinstance(t, (ast.Tuple, ast.List)) for t in node.targets)
        literal = isinstance(node.value, ast.Tuple)
        text = ", ".join(ast.unparse(t) for t in node.targets if self._leaves_function(t))
        self.generic_visit(node)
        if unpacks and not literal:
            node.value = self._hook("unpacked", node.value, node.value)
        if leaves:
            node.value = self._hook("stored", node.value, node.value, self._first_base(node.targets), text)
        return node

    @staticmethod
    def _first_base(targets: list[Any]) -> Any:
        """What is written to where it is a plain local name: it may be an object made in the trace."""
        target = targets[0]
        if len(targets) == 1 and isinstance(target, (ast.Attribute, ast.Subscript)):
            base = target.value
            if isinstance(base, ast.Name):
                return ast.Name(base.id, ast.Load())
        return None

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        leaves = self._leaves_function(node.target)
        node.target = self.visit(node.target)
        if node.value is not None:
            node.value = self.visit(node.value)
            if leaves:
                node.value = self._hook("stored", node.value, node.value, None, ast.unparse(node.target))
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        target = node.target
        read: list[Any] = []
        if isinstance(target, ast.Name) and not self._is_local(target.id):
            name = ast.copy_location(ast.Name(target.id, ast.Load()), target)
            seen = self._hook("counted", target, self._mangled(target.id), name)
            read = [ast.copy_location(ast.Expr(seen), node)]
        leaves, text = self._leaves_function(target), ast.unparse(target)
        self.generic_visit(node)
        node.value = self._hook("noted", node.value, node.value)
        if isinstance(target, ast.Attribute):
            target.value = self._hook("updated", target.value, target.value, self._mangled(target.attr))
        elif isinstance(target, ast.Subscript):
            key = target.slice if isinstance(target.slice, ast.Constant) else None
            target.value = self._hook(
                "updated_item", target.value, target.value, *([shallow(key)] if key else [])
            )
        if leaves:
            node.value = self._hook("stored", node.value, node.value, None, text)
        return [*read, node]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        out: list[Any] = [node]
        for a in node.names:
            name = a.asname or a.name
            if self._is_local(name):
                seen = self._hook(
                    "imported", node, node.module or "", node.level, a.name, ast.Name(name, ast.Load())
                )
                out.append(ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], seen), node))
        return out

    # --- definitions inside ---

    def _function(self, node: Any) -> Any:
        a = node.args
        a.defaults = [self.visit(d) for d in a.defaults]
        a.kw_defaults = [d and self.visit(d) for d in a.kw_defaults]
        if not isinstance(node, ast.Lambda):
            node.decorator_list = [self._hook("callee", d, self.visit(d)) for d in node.decorator_list]
        self.scopes.append(_Scope(node))
        node.body = self._visited(node.body) if isinstance(node.body, list) else self.visit(node.body)
        self.scopes.pop()
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _function

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        node.bases = [self.visit(b) for b in node.bases]
        node.keywords = [self.visit(k) for k in node.keywords]
        node.decorator_list = [self._hook("callee", d, self.visit(d)) for d in node.decorator_list]
        outer, self.inside = self.inside, node.name
        self.scopes.append(_Scope(node))
        node.body = self._visited(node.body)
        self.scopes.pop()
        self.inside = outer
        return node
