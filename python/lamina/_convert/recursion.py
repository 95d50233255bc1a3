"""Functions that call themselves as deep as traced values say, as one loop with a stack (trace/recursion.h).

A call of a function is noted while it is traced. One that comes inside of it, under a traced test, with arguments of the
same structure and types starts the outer call again, as a recursion: its body becomes a region, and calls of it in there
are nodes of their own. What they give is found in rounds: at first nothing is, and the paths that end without a call
say what the function returns. A function inside that calls back to the outer one is one more of the same loop.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lamina import _core
from lamina._convert.errors import Raised, refusal, shown
from lamina._convert.merging import (
    Node,
    Out,
    alike,
    as_tensor,
    as_wanted,
    frozen,
    is_numeric,
    thawed,
    type_of,
)
from lamina._convert.signals import MISSING
from lamina._convert.state import Heap, Place, contents, holds
from lamina._core import Tensor
from lamina._objects import FUNCTION, METHOD, is_users

if TYPE_CHECKING:
    from lamina._convert.staging import Side, Staging

# Calls of one function inside each other whose arguments differ in numbers that are known: after so many, these become
# arrays.
MOST_NESTED = 16
_ROUNDS = 12
_Type = tuple[str, list[int], bool]


class _Again(BaseException):
    """The call is traced again, as a recursion or with other types."""

    def __init__(self, call: Call) -> None:
        self.call = call


def _leaves(template: Any) -> list[Any]:
    """The outs and numbers of a template, in order."""
    if type(template) is Node:
        return [x for p in template.parts for x in _leaves(p)]
    return [template] if type(template) is Out or is_numeric(template) else []


def _values(x: Any) -> list[Any]:
    """The arrays and numbers in a value."""
    outs: list[Any] = []
    return [outs[leaf.index] if type(leaf) is Out else leaf for leaf in _leaves(frozen(x, outs))]


def _numbered(template: Any) -> Any:
    """The template with its outs and numbers as outs, in order."""
    count = itertools.count()

    def walk(t: Any) -> Any:
        if type(t) is Node:
            return Node(t.original, t.keys, [walk(p) for p in t.parts])
        return Out(next(count)) if type(t) is Out or is_numeric(t) else t

    return walk(template)


def _unlike(a: Any, b: Any) -> str:
    """Why two templates have no one structure, where numbers are arrays; "" if they have."""
    return alike(_numbered(a), _numbered(b))


def _shapes(a: list[_Type], b: list[_Type]) -> str:
    return next((f"{x[0]}{x[1]} and {y[0]}{y[1]}" for x, y in zip(a, b) if x[1] != y[1]), "")


def _promoted(a: list[_Type], b: list[_Type]) -> list[_Type]:
    joined = [(x[1], *_core.promote(x[0], x[2], y[0], y[2])) for x, y in zip(a, b)]
    return [(dtype, shape, weak) for shape, dtype, weak in joined]


class _Argument:
    """One argument of the outer call: itself, or what stands for it where calls inside give others."""

    def __init__(self, given: Any) -> None:
        self.given = given
        self.template = frozen(given, [])
        self.is_known = not any(type(x) is Out for x in _leaves(self.template))
        self.types: list[_Type] | None = None  # of its leaves, where it is a parameter

    def promote_numbers(self) -> bool:
        """Makes a parameter of it although it holds nothing traced."""
        if self.types is not None or not _leaves(self.template):
            return False
        self.types = [type_of(x) for x in _values(self.given)]
        return True

    def take(self, given: Any) -> str | bool:
        """Whether a call inside may give this: True as it is, False with other types, which are taken; or why not."""
        if given is self.given and self.types is None:
            return True
        template = frozen(given, [])
        if self.types is None:
            if self.is_known:
                same = type(given) is type(self.given) and not any(type(x) is Out for x in _leaves(template))
                why = alike(self.template, template) if same else ""
                return (same and not why) or f"{shown(self.given)} and {shown(given)}"
            numbers = [x for x in zip(_leaves(self.template), _leaves(template)) if type(x[0]) is not Out]
            if any(type(y) is Out or alike(x, y) for x, y in numbers):
                return f"{shown(self.given)} and {shown(given)}"
        why = _unlike(self.template, template)
        if why:
            return why
        now = self.types or [type_of(x) for x in _values(self.given)]
        types = [type_of(x) for x in _values(given)]
        why = _shapes(now, types)
        if why:
            return why
        before, self.types = self.types, _promoted(now, types)
        return before == self.types

    def operands(self, given: Any) -> list[Tensor]:
        """The leaves of what a call gives for it, in the types of the parameter."""
        return [as_wanted(x, t) for x, t in zip(_values(given), self.types or ())]


class _Changed:
    """A place outside of a recursion that its function changes: one more argument and result of each call."""

    def __init__(self, place: Place, value: Any) -> None:
        self.place, self.given = place, value
        self.template: Any = frozen(value, [])
        self.types = [type_of(x) for x in _values(value)]

    def fits(self, now: Any, types: list[_Type]) -> bool:
        """Takes the types that the body leaves; whether they were these."""
        why = _unlike(self.template, now) or _shapes(self.types, types)
        if why:
            raise refusal(
                f"`{self.place.name}` is {why.replace(' and ', ' before a call of a recursion and ', 1)} after it",
                _REMEDY,
            )
        before, self.types = self.types, _promoted(self.types, types)
        return before == self.types

    def operands(self) -> list[Tensor]:
        now = self.place.read()
        why = _unlike(self.template, frozen(now, []))
        if why:
            raise refusal(
                f"`{self.place.name}` is {why.replace(' and ', ' in one call of a recursion and ', 1)} in another",
                _REMEDY,
            )
        return [as_wanted(x, t) for x, t in zip(_values(now), self.types)]

    def take(self, results: list[Tensor]) -> Any:
        mine, results[:] = results[: len(self.types)], results[len(self.types) :]
        value = thawed(_numbered(self.template), mine)
        self.place.write(value)
        return value


class Call:
    """A call of one of the user's functions that is being traced."""

    def __init__(
        self, f: Any, plain: Callable[..., Any], names: list[Any], given: list[Any], blocks: int
    ) -> None:
        self.f, self.plain, self.names, self.blocks = f, plain, names, blocks
        self.arguments = [_Argument(x) for x in given]
        self.number = 0  # of a recursion; 0: it is an ordinary call
        self.changed: list[_Changed] = []
        self.results: list[_Type] | None = None  # known from an earlier round
        self.template: Any = MISSING
        self.waits = False  # a call inside had no result in this round
        self.outer: set[Call] = set()  # those that are called from inside
        self.found: list[tuple[Place, Any, Any]] = []  # changed in this round, and not known before
        self.is_new = False  # the types of what is changed were others in this round
        self.members: list[tuple[int, Any, int]] = []  # functions of the same loop
        self.too_deep = 0

    def all_results(self) -> list[_Type]:
        return [*(self.results or ()), *(t for c in self.changed for t in c.types)]

    def num_arguments(self) -> int:
        return sum(len(x.types or ()) for x in (*self.arguments, *self.changed))

    def takes(self, given: list[Any]) -> str:
        """Why a call inside, with these arguments, is no call of the same recursion; "" if it is.

        _Again, where the types of arguments have to be others.
        """
        before = [a.types for a in self.arguments]
        found = [a.take(x) for a, x in zip(self.arguments, given)]
        for name, why in zip(self.names, found):
            if isinstance(why, str):
                for a, t in zip(self.arguments, before):
                    a.types = t
                return f"`{name}` is {why}"
        if self.number == 0 or not all(found):
            raise _Again(self)
        return ""


class Recursions:
    """The calls that are being traced, from the outermost to the innermost."""

    def __init__(self, staging: Staging) -> None:
        self.staging = staging
        self.calls: list[Call] = []
        self.blocks = 0  # traced blocks that are open
        self.numbers = itertools.count(1)

    def watched(self, f: Any, plain: Callable[..., Any]) -> Callable[..., Any]:
        """`plain`, which runs in the place of the user's function `f`, as calls that are noted."""
        inner = f.__func__ if type(f) is METHOD else f
        if type(inner) is not FUNCTION or not is_users(inner.__code__.co_filename):
            return plain
        if inner.__code__.co_flags & _SUSPENDS:
            return plain
        return functools.wraps(plain)(lambda *args, **kwargs: self._called(f, plain, args, kwargs))

    def _called(
        self, f: Any, plain: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        bound = _bound(f, args, kwargs)
        if bound is None:
            return plain(*args, **kwargs)
        names, given = list(bound.arguments), list(bound.arguments.values())
        inside, why = 0, ""
        for call in reversed(self.calls):
            if not _is_same(call.f, f) or call.names != names:
                continue
            if call.blocks < self.blocks:
                why = call.takes(given)
                if not why:
                    return self._inner(call, given)
                inside += 1
        if inside >= MOST_NESTED:
            self._with_arrays(f, names, why)
        call = Call(f, plain, names, given, self.blocks)
        state = self._heap(call).state() if _may_recur(f) else None
        self.calls.append(call)
        try:
            try:
                return plain(*args, **kwargs)
            except _Again as e:
                if e.call is not call:
                    raise
            if state is not None:
                state.put_back()
            return self._recursion(call, bound)
        finally:
            self.calls.pop()

    def _heap(self, call: Call) -> Heap:
        return self.staging.heap(functools.partial(call.plain, *(a.given for a in call.arguments)))

    def _with_arrays(self, f: Any, names: list[Any], why: str) -> None:
        """Starts the outermost call again with arrays for its known numbers, which differ from call to call."""
        for call in self.calls:
            if _is_same(call.f, f) and call.names == names and call.number == 0:
                if any([a.promote_numbers() for a in call.arguments]):
                    raise _Again(call)
                break
        raise refusal(
            f"a recursion whose depth depends on traced values, and whose arguments cannot be one in all calls "
            f"({MOST_NESTED} calls of {f.__name__} inside each other were traced): {why}",
            "Give the function arguments of the same structure, types and shapes in each call; or write it as a loop.",
        )

    # --- calls inside ---

    def _inner(self, call: Call, given: list[Any]) -> Any:
        """The result of a call of a recursion inside itself."""
        for other in self.calls[self.calls.index(call) + 1 :]:
            if other.number:
                other.outer.add(call)
        if call.results is None:
            for other in self.calls[self.calls.index(call) :]:
                other.waits = True
            raise Raised
        operands = [x for a, v in zip(call.arguments, given) for x in a.operands(v)]
        return self._recorded(call, operands, [])

    def _recorded(self, call: Call, operands: list[Tensor], captured: list[Tensor]) -> Any:
        """What a call of a function of a loop gives, within the loop."""
        box = self.staging.box
        error = as_wanted(box["error"], _ERROR)
        operands = [*operands, *(x for c in call.changed for x in c.operands()), error, *captured]
        results = _core.recursive_call(call.number, operands, [*call.all_results(), _ERROR])
        box["error"] = results.pop()
        return self._taken(call, results)

    @staticmethod
    def _taken(call: Call, results: list[Tensor]) -> Any:
        n = len(call.results or ())
        rest = results[n:]
        for c in call.changed:
            c.take(rest)
        return thawed(call.template, results[:n])

    # --- the call that becomes a recursion ---

    def _recursion(self, call: Call, bound: inspect.BoundArguments) -> Any:
        call.number = next(self.numbers)
        staging = self.staging
        for _ in range(_ROUNDS):
            call.outer, call.members, call.waits = set(), [], False
            call.found, call.is_new = [], False
            try:
                region, side = self._body(call, bound)
            except _Again as e:
                if e.call is not call:
                    raise
                call.results = None
                continue
            if side.dead:
                self._refuse_endless(call)
                raise Raised
            if self._settled(call, side, region):
                break
        else:
            raise refusal(
                f"the types of what {call.f.__name__} takes and gives change in every round", _REMEDY
            )
        operands = [x for a in call.arguments for x in a.operands(a.given)]
        if call.outer:
            # It calls back to a recursion that it is in: a function of the same loop.
            outer = next(c for c in reversed(self.calls[:-1]) if c.number)
            outer.outer |= call.outer - {outer}
            outer.members += [(call.number, region, call.num_arguments()), *call.members]
            return self._recorded(call, operands, region.captured)
        if not call.too_deep:
            staging.errors.append(_too_deep(call.f))
            call.too_deep = len(staging.errors)
        functions = [(call.number, region, call.num_arguments()), *call.members]
        operands += [x for c in call.changed for x in c.operands()]
        results = _core.recursion(
            functions, [*operands, *region.captured], sys.getrecursionlimit(), call.too_deep
        )
        staging.fails(True, results.pop())
        made = self._taken(call, results)
        heap = self._heap(call)
        for x in (a.given for a in call.arguments if a.types is None):
            if x is side.given or any(k is x for k in staging.chosen.get(id(side.given), ())):
                staging.choice(made, [x], heap)
        for c in call.changed:
            if c.place.kind != "tensor":
                staging.choice(c.place.read(), [c.given], heap)
        return made

    def _refuse_endless(self, call: Call) -> None:
        if call.waits and not call.outer:
            raise refusal(
                f"{call.f.__name__} calls itself on every path: there is none on which it returns without",
                "Return a value on some path before the call, under a test.",
            )

    def _body(self, call: Call, bound: inspect.BoundArguments) -> tuple[Any, Side]:
        """The function's body as a region, and what it gives."""
        from lamina._convert.staging import Side

        staging, side = self.staging, Side()
        types = [t for x in (*call.arguments, *call.changed) for t in x.types or ()]
        heap = self._heap(call)
        state = heap.state()

        def flat(parameters: list[Tensor]) -> list[Tensor]:
            rest = list(parameters)

            def run() -> Any:
                given = [(name, self._parameter(a, rest)) for name, a in zip(call.names, call.arguments)]
                for c in call.changed:
                    c.take(rest)
                bound.arguments.update(given)
                before = [(name, x, contents(x) if _is_holder(x) else None) for name, x in given]
                out = call.plain(*bound.args, **bound.kwargs)
                for (name, x, held), a in zip(before, call.arguments):
                    if a.types is not None:
                        _refuse_write(call, name, x, held)
                return out

            outer, staging.box["error"] = staging.box["error"], 0
            try:
                outs = staging.run(side, run, heap, state, True)
            finally:
                staging.box["error"] = outer
            if side.dead:
                return []
            error = self._take_changes(call, side, outs)
            values = [outs[x.index] if type(x) is Out else as_tensor(x) for x in _leaves(side.value)]
            side.value = _numbered(side.value)
            if call.results is not None and not _shapes(call.results, [type_of(x) for x in values]):
                wanted = _promoted(call.results, [type_of(x) for x in values])
                values = [*map(as_wanted, values, wanted), *values[len(wanted) :]]
            for c in call.changed:
                _, _, now = side.changes[c.place.at()]
                parts = [outs[x.index] if type(x) is Out else x for x in _leaves(now)]
                fit = len(parts) == len(c.types)
                values += [as_wanted(x, t) if fit else as_tensor(x) for x, t in zip(parts, c.types)]
            return [*values, as_wanted(error, _ERROR)]

        return _core.region(flat, types, carriers=True), side

    @staticmethod
    def _parameter(a: _Argument, rest: list[Tensor]) -> Any:
        if a.types is None:
            return a.given
        values, rest[:] = rest[: len(a.types)], rest[len(a.types) :]
        return thawed(_numbered(a.template), values)

    def _take_changes(self, call: Call, side: Side, outs: list[Tensor]) -> Any:
        """The error that the body leaves; what else it changes is carried from now on."""
        error: Any = 0
        known = {c.place.at(): c for c in call.changed}
        for at, (place, before, now) in side.changes.items():
            if place.holder is self.staging.box:
                error = outs[now.index] if type(now) is Out else now
            elif at in known:
                parts = [outs[x.index] if type(x) is Out else x for x in _leaves(now)]
                call.is_new |= not known[at].fits(now, [type_of(x) for x in parts])
            else:
                call.found.append((place, before, now))
        return error

    def _settled(self, call: Call, side: Side, region: Any) -> bool:
        """Whether the calls inside gave what the body gives; takes what it gives."""
        for place, before, now in call.found:
            value = place.read() if place.kind == "tensor" else before
            if value is MISSING or now is MISSING or not _is_carried(frozen(value, [])):
                raise refusal(
                    f"`{place.name}`, {shown(None if value is MISSING else value)} before, is changed by a function "
                    "that calls itself as traced values say",
                    "Give it an array or number before the first call, or return it and give it to the calls.",
                )
            call.changed.append(_Changed(place, value))
        n = len(_leaves(side.value))
        types = [_type_in(region, i) for i in range(n)]
        before = call.results
        if before is not None:
            why = alike(call.template, side.value) or _shapes(before, types)
            if why:
                raise refusal(
                    f"{call.f.__name__} returns {why.replace(' and ', ' on one path and ', 1)} on another",
                    _REMEDY,
                )
        call.template, call.results = side.value, types
        return before == types and not call.found and not call.is_new


def _type_in(region: Any, index: int) -> _Type:
    dtype, shape = region.result_types[index]
    return str(dtype), list(shape), region.result_weak[index]


def _is_holder(x: Any) -> bool:
    return type(x) is not Tensor and not isinstance(x, tuple) and type(frozen(x, [])) is Node


def _is_carried(template: Any) -> bool:
    """Whether a value is made of arrays and numbers."""
    if type(template) is Node:
        return all(map(_is_carried, template.parts))
    return type(template) is Out or is_numeric(template)


def _refuse_write(call: Call, name: str, x: Any, held: Any) -> None:
    if _core.written(x) if type(x) is Tensor else held is not None and not holds(x, held):
        raise refusal(
            f"{call.f.__name__} writes to its argument `{name}`, for which the calls in it give something else than "
            "it was given: the caller's would not be written",
            f"Write to a copy ({name} = {name}.copy()), and return it; or give all calls the same one.",
        )


def _bound(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments | None:
    try:
        bound = inspect.signature(f).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None  # which the call tells
    bound.apply_defaults()
    return bound


def unjitted(f: Any) -> Any:
    """The function of a converted one that is called inside another: part of the same trace, where it may recur."""
    from lamina._jit import Jitted

    return f.converted() or f if type(f) is Jitted else f


def _is_same(f: Any, g: Any, depth: int = 4) -> bool:
    """Whether two functions are one, or one code around the same values."""
    if f is g or type(f) is not type(g) or depth == 0:
        return f is g
    if type(f) is METHOD:
        return f.__func__ is g.__func__ and f.__self__ is g.__self__
    if type(f) is not FUNCTION or f.__code__ is not g.__code__ or f.__defaults__ or f.__kwdefaults__:
        return False
    values = [[_content(c) for c in h.__closure__ or ()] for h in (f, g)]
    return all(_is_same(x, y, depth - 1) for x, y in zip(*values))


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _may_recur(f: Any) -> bool:
    """Whether a function's code may come back to it: it, or one that it names, names it."""
    inner = f.__func__ if type(f) is METHOD else f
    seen: set[int] = set()
    stack = [inner]
    while stack:
        g = stack.pop()
        if id(g) in seen:
            continue
        seen.add(id(g))
        for name, x in _named(g):
            if x is inner or name == inner.__name__:
                return True
            if type(x) is FUNCTION and len(seen) < 256:
                stack.append(x)
    return False


def _named(f: types.FunctionType) -> list[tuple[str, Any]]:
    codes, names = [f.__code__], []
    while codes:
        code = codes.pop()
        names += [*code.co_names, *code.co_freevars]
        codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    cells = dict(zip(f.__code__.co_freevars, f.__closure__ or ()))
    out = []
    for name in names:
        cell = cells.get(name)
        out.append((name, _content(cell) if cell is not None else f.__globals__.get(name)))
    return out


def _too_deep(f: Any) -> RecursionError:
    code = (f.__func__ if type(f) is METHOD else f).__code__
    return RecursionError(
        f"{f.__name__} ({code.co_filename}:{code.co_firstlineno}) calls itself deeper than sys.getrecursionlimit() or "
        "256 MiB of frames allow"
    )


_SUSPENDS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_ERROR: _Type = ("int32", [], False)
_REMEDY = "Give it arrays or numbers of one structure, type and shape on every path and in every call."
