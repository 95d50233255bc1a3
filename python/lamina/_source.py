"""The user's source: the frame, line and expression that an error is about, and errors told in those terms."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from lamina import _core
from lamina._core import Tensor
from lamina._functions import _name
from lamina._later import ast, inspect, linecache, tokenize

PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


_PARSE_ATTEMPTS = 8


def parse(text: str, mode: str = "exec") -> Any:
    """ast.parse, while other threads parse too.

    CPython 3.11 counts the depth of what it parses in one place for all threads, and raises SystemError in both when
    they change over in its midst.
    """
    for _ in range(_PARSE_ATTEMPTS):
        try:
            return ast.parse(text, mode=mode)
        except SystemError:
            continue
    return ast.parse(text, mode=mode)


def user_frame() -> types.FrameType | None:
    """The innermost frame that is neither the library's own nor NumPy's."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and (
        frame.f_code.co_filename.startswith(PACKAGE)
        or frame.f_globals.get("__name__", "").startswith("numpy.")
    ):
        frame = frame.f_back
    return frame


def line_of(f: Callable[..., Any]) -> str:
    """``train.py:12``, where a function begins; "" if it is none of Python's."""
    code = getattr(inspect.unwrap(f), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else ""


def named(f: Callable[..., Any]) -> str:
    """``step (train.py:12)``, or the name alone where no line is known."""
    line = line_of(f)
    return f"{_name(f)} ({line})" if line else _name(f)


class Place(NamedTuple):
    """What a frame is evaluating: file, line, the expression, the line's text and the expression's columns in it."""

    file: str
    line: int
    expression: str
    text: str
    begin: int
    end: int

    def shown(self) -> str:
        """Two lines: the place and its source, and a mark under the expression."""
        head = f"  {self.file}:{self.line}: "
        if not self.text:
            return head.rstrip()
        stripped = self.text.lstrip()
        indent = len(self.text) - len(stripped)
        if self.end <= self.begin or (self.begin <= indent and self.end >= len(self.text.rstrip())):
            return head + stripped.rstrip()
        marks = " " * (len(head) + self.begin - indent) + "^" * (self.end - self.begin)
        return head + stripped.rstrip() + "\n" + marks


class Spot(NamedTuple):
    """Where a frame stood, without the frame and what it holds; looked up when somebody asks for the place."""

    f_code: types.CodeType
    f_lasti: int
    f_lineno: int

    def shown(self) -> str:
        return place_of(self).shown()


def user_spot() -> Spot | None:
    """Where the innermost frame stands that is neither the library's own nor NumPy's."""
    frame = user_frame()
    return Spot(frame.f_code, frame.f_lasti, frame.f_lineno) if frame else None


def _positions(frame: types.FrameType | Spot) -> tuple[int, int, int, int] | None:
    """First and last line and, in bytes, first and last column of what the frame is evaluating."""
    positions = list(frame.f_code.co_positions())
    at = frame.f_lasti // 2
    known = positions[at] if at < len(positions) else (None,)
    return None if None in known else known  # type: ignore[return-value]


def place_of(frame: types.FrameType | Spot) -> Place:
    """What the frame is evaluating; the whole line where Python does not know it better."""
    file, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(file, line)
    if known := _positions(frame):
        first, last, begin, end = known
        lines = [linecache.getline(file, n) for n in range(first, last + 1)]
        if all(lines):
            data = [source.encode() for source in lines]  # columns count bytes
            left = len(data[0][:begin].decode(errors="replace"))
            right = len(data[0][:end].decode(errors="replace")) if first == last else len(lines[0].rstrip())
            data[-1] = data[-1][:end]
            data[0] = data[0][begin:]
            source = " ".join(b"".join(data).decode(errors="replace").split())
            return Place(file, first, _condition(source), lines[0].rstrip("\n"), left, right)
    return Place(file, line, _condition(text.strip()), text.rstrip("\n"), 0, 0)


def filters_a_comprehension(frame: types.FrameType) -> bool:
    """Whether the frame is evaluating a condition of a comprehension; from Python 3.12 on most have no frame."""
    if frame.f_code.co_name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"):
        return True
    known = _positions(frame)
    if known is None:
        return False
    tree, before = _tree_around(frame.f_code)
    begin, end = (known[0] - before, known[2]), (known[1] - before, known[3])
    return any(
        (test.lineno, test.col_offset) <= begin and end <= (test.end_lineno, test.end_col_offset)
        for node in ast.walk(tree)
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp))
        for generator in node.generators
        for test in generator.ifs
    )


def _tree_around(code: types.CodeType) -> tuple[Any, int]:
    """The syntax of a function, and how many lines stand before it; that of the file where it is no block of lines."""
    lines, before = linecache.getlines(code.co_filename), 0
    if code.co_name not in ("<module>", "<lambda>"):
        before = code.co_firstlineno - 1
        try:
            lines = inspect.getblock(lines[before:])
        except (SyntaxError, tokenize.TokenError):
            return ast.Module([], []), 0
        if lines and lines[0][:1].isspace():
            lines, before = ["if 1:\n", *lines], before - 1
    try:
        return parse("".join(lines)), before
    except SyntaxError:
        return ast.Module([], []), 0


def expression_at(frame: types.FrameType) -> str:
    """The expression that the frame is evaluating, as written."""
    return place_of(frame).expression


def _condition(text: str) -> str:
    """Of a statement that branches, its condition."""
    for form in (text, text + " pass", text + "\n  pass"):
        try:
            body = parse(form).body
        except SyntaxError:
            continue
        if body and isinstance(body[0], (ast.If, ast.While, ast.Assert)):
            return ast.unparse(body[0].test)
        return text
    return text


def _parts(expression: str) -> list[str]:
    """The operands or arguments of an expression, as written."""
    try:
        top = parse(expression, "eval").body
    except SyntaxError:
        return []
    if isinstance(top, ast.BinOp):
        return [ast.unparse(top.left), ast.unparse(top.right)]
    if isinstance(top, ast.Compare):
        return [ast.unparse(top.left), ast.unparse(top.comparators[0])]
    if isinstance(top, ast.Subscript):
        return [ast.unparse(top.value)]
    if isinstance(top, ast.Call):
        return [ast.unparse(a) for a in top.args]
    return []


def counterpart(frame: types.FrameType, expression: str) -> str:
    """What to call here instead of the function of Python's math or of NumPy that the expression calls; "" if none."""
    from lamina._interop import find

    try:
        top = parse(expression, "eval").body
    except SyntaxError:
        return ""
    names = ast.unparse(top.func).split(".") if isinstance(top, ast.Call) else []
    if not names or not all(n.isidentifier() for n in names):
        return ""
    value = frame.f_locals.get(names[0], frame.f_globals.get(names[0]))
    module = names[0]
    for n in names[1:]:
        module = getattr(value, "__name__", "") if isinstance(value, types.ModuleType) else module
        value = getattr(value, n, None)
    module = getattr(value, "__module__", None) or module
    if module.split(".")[0] not in ("math", "cmath", "numpy") or not callable(value):
        return ""
    name = getattr(value, "__name__", names[-1])
    inside = module if module.startswith("numpy.") and not module.startswith("numpy.core") else "numpy"
    return f"lamina.{inside}.{name} instead of {'.'.join(names)}" if find(name, inside) else ""


def argument_texts() -> list[str]:
    """The positional arguments of the call into the library that is under way, as written; empty if not known."""
    frame = user_frame()
    return _parts(place_of(frame).expression) if frame else []


def argument_of(x: Tensor) -> str:
    """``argument params['w'] of the jitted function step``, or "" if `x` is not an argument of an open trace."""
    from lamina import _jit

    for context in reversed(_jit.tracing.open):
        for given, path in zip(context.inputs, context.paths):
            if _core.same_value(x, given):
                return f"argument {path} of the {context.kind} {context.name}"
    return ""


def origin(x: Tensor) -> str:
    """Where `x` comes from: ``made at train.py:12`` or the argument that it is; "" if not known."""
    found = argument_of(x)
    if found:
        return found
    file, line, _ = _core.where_made(x)
    return f"made at {file}:{line}" if file else ""


def describe(x: Any) -> str:
    return f"{x.dtype.name}[{','.join(map(str, x.shape))}]"


def _fits(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b)))


def _near_miss(names: list[str], shapes: list[tuple[int, ...]]) -> str:
    """An edit of one operand that would make the shapes fit."""
    for this, other in ((1, 0), (0, 1)):
        name, mine, its = names[this], shapes[this], shapes[other]
        if len(mine) == 2 and mine[0] != mine[1] and _fits(mine[::-1], its):
            return f"{name}.T?"
        if len(mine) == 1 and len(its) > 1 and mine[0] in its[:-1]:
            tail = ", None" * (len(its) - 1 - max(i for i, n in enumerate(its[:-1]) if n == mine[0]))
            return f"{name}[:{tail}]?"
    for this, other in ((1, 0), (0, 1)):
        name, mine, its = names[this], shapes[this], shapes[other]
        if len(mine) == len(its) == 1 and mine[0] > its[0]:
            return f"{name}[:{its[0]}]?"
    return ""


def _told(message: str, place: Place, operands: tuple[Any, ...]) -> tuple[str, str, str]:
    """First line, what the operands are, and a remedy."""
    names = _parts(place.expression)
    if len(operands) != 2 or len(names) != 2 or not all(hasattr(x, "shape") for x in operands):
        about = [
            f"{n}: {describe(x)} {origin(x)}".rstrip()
            for n, x in zip(names, operands)
            if isinstance(x, Tensor)
        ]
        return f"`{place.expression}`: {message}", "; ".join(about), ""
    shapes: list[tuple[int, ...]] = [tuple(x.shape) for x in operands]
    types_ = [describe(x) if isinstance(x, Tensor) else f"{x.dtype}{list(x.shape)}" for x in operands]
    about = [f"{n}: {origin(x)}" for n, x in zip(names, operands) if isinstance(x, Tensor) and origin(x)]
    remedy = ""
    if "cannot be broadcast" in message:
        axis = next(i for i in range(1, 64) if not _fits(shapes[0][-i:], shapes[1][-i:]))
        first = f"{' and '.join(types_)} do not broadcast: axis -{axis} is {shapes[0][-axis]} against {shapes[1][-axis]}"
        remedy = _near_miss(names, shapes)
    elif message.startswith("matmul") and all(shapes):
        inner = shapes[1][-2] if len(shapes[1]) > 1 else shapes[1][0]
        first = f"{types_[0]} @ {types_[1]}: {shapes[0][-1]} != {inner}"
        if len(shapes[1]) > 1 and shapes[1][-1] == shapes[0][-1]:
            remedy = f"{names[1]}.T?"
        elif len(shapes[0]) == 2 and shapes[0][0] == inner:
            remedy = f"{names[0]}.T?"
    else:
        first = message
    return f"`{place.expression}`: {first}", "; ".join(about), remedy


def explain(message: str, *operands: Any) -> str:
    """An error of the library in the user's terms: expression, shapes, origins, place, remedy."""
    first, *rest = message.split("\n")
    if any("`" in line or "^^" in line for line in (first, *rest)):
        return message  # told already
    frame = user_frame()
    if frame is None:
        return message
    place = place_of(frame)
    if not place.text:
        return message
    first, about, remedy = _told(first, place, operands)
    rest = [line for line in rest if not line.startswith(f"  {place.file}:")]
    return "\n".join(
        x for x in (first, about and "  " + about, *rest, place.shown(), remedy and "  " + remedy) if x
    )


def holders(x: Tensor) -> str:
    """The user's variables that hold `x`, in words; "" if none is found."""
    frame = user_frame()
    if frame is None:
        return ""
    out = []
    for names in (frame.f_locals, frame.f_globals):
        for name, value in names.items():
            if value is x:
                out.append(f"`{name}`")
            elif isinstance(value, (list, tuple, set)) and any(item is x for item in value):
                out.append(f"`{name}` ({type(value).__name__})")
            elif (
                isinstance(value, dict) and not name.startswith("__") and any(v is x for v in value.values())
            ):
                out.append(f"`{name}` (dict)")
    return " and ".join(dict.fromkeys(out))


def without_internal_frames(trace: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback's frames that are the user's."""
    kept: list[types.TracebackType] = []
    while trace is not None:
        if not trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
            kept.append(trace)
        trace = trace.tb_next
    out: types.TracebackType | None = None
    for t in reversed(kept):
        out = types.TracebackType(out, t.tb_frame, t.tb_lasti, t.tb_lineno)
    return out


def install_hook() -> None:
    """Tracebacks that Python prints leave this library's frames out; LAMINA_TRACEBACK=full keeps them."""
    if os.environ.get("LAMINA_TRACEBACK") == "full":
        return
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: types.TracebackType | None) -> None:
        if not issubclass(kind, SystemExit):
            cut = without_internal_frames(trace)
            trace = cut if cut is not None else trace
            error.__traceback__ = trace
        before(kind, error, trace)

    sys.excepthook = hook
