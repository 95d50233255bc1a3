"""What the converted functions of one trace share: errors that the program may raise, reasons, and traced blocks."""

from __future__ import annotations

import functools
import re
import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from lamina import _core
from lamina._convert.errors import ConversionError, Raised, another, refusal, without_frames
from lamina._convert.merging import MOST_DEEP, frozen, parts_of
from lamina._convert.recursion import Recursions
from lamina._convert.signals import MISSING, NORMAL, RETURN, Signal
from lamina._convert.state import Heap, Place, State
from lamina._core import Tensor
from lamina._objects import PLAIN
from lamina._source import user_frame

# Nested traced branches at one place of the source, as a recursion on traced values makes them without end.
MOST_NESTED = 16


def is_traced(x: Any) -> bool:
    """Whether a value is only known when the program runs."""
    return type(x) is Tensor and not _core.forceable(x)


class _Nested(threading.local):
    """How often each place is being traced on a thread, in traces inside each other too."""

    def __init__(self) -> None:
        self.count: dict[Any, int] = {}


_nested = _Nested()


class Side:
    """A block traced as a region: what it changed, and how control left it."""

    def __init__(self) -> None:
        self.region: Any = None
        self.dead = False  # it raises
        self.signal: Signal | None = None
        self.value: Any = MISSING  # a template of what the signal, or the block, gives
        self.given: Any = None  # the value itself
        self.left: dict[Any, Any] = {}  # what stands at the places that it changed
        self.kind: Any = NORMAL
        self.changes: dict[Any, tuple[Place, Any, Any]] = {}  # place, before, template of now
        self.offset = 0  # of the outs of these templates among the region's results

    def type_of(self, index: int) -> tuple[str, list[int], bool]:
        dtype, shape = self.region.result_types[index]
        return str(dtype), list(shape), self.region.result_weak[index]


class Finally:
    """A `finally` block: what it raises takes the place of what its `try` raised.

    Made where the `try` begins, entered where the block does.
    """

    def __init__(self, staging: Staging) -> None:
        self._box = staging.box
        self._earlier = self._box["error"]

    def __enter__(self) -> None:
        self._tried, self._box["error"] = self._box["error"], 0

    def left(self) -> None:
        """The block is left early, which drops what its `try` raised: refused where the program would raise it."""
        if self._tried is not self._earlier:
            raise refusal(
                "a `return`, `break` or `continue` in `finally` drops what is raised under a traced test in its `try`",
                "Leave after the `finally`.",
            )

    def __exit__(self, *_: Any) -> None:
        own = self._box["error"]
        later = _first_of(_is_error(own), own, self._tried)
        self._box["error"] = _first_of(_is_error(self._earlier), self._earlier, later)


def _is_error(code: Any) -> Any:
    return code != 0 if type(code) is Tensor else False


def _first_of(holds: Any, a: Any, b: Any) -> Any:
    """`a` if it holds, else `b`, which are numbers of errors, known or traced."""
    if a is b:
        return a
    if type(holds) is bool:
        return a if holds else b
    from lamina import numpy as lnp

    return lnp.where(holds, lnp.asarray(a, lnp.int32), lnp.asarray(b, lnp.int32))


class Staging:
    """One per trace."""

    def __init__(self) -> None:
        self.box: dict[str, Any] = {"error": 0}  # which of `errors` the program raises, counted from 1
        self.errors: list[BaseException] = []
        self.raised: list[BaseException] = []  # by `raise` in converted code
        self.reasons: dict[str, str] = {}  # why variables have no value
        self.chosen: dict[int, list[Any]] = {}  # by id, an object and those that it may be in Python
        self.trying = 0  # `try` statements with handlers that are open
        self.recursions = Recursions(self)

    # --- errors of the program ---

    def note_raise(self, error: BaseException) -> int:
        """The program raises `error` if it comes here; the number it has."""
        if self.trying:
            raise refusal(
                f"`raise {type(error).__name__}` under a traced test inside `try`: the handler cannot run when the "
                "program does",
                "Test before the `try`, or give the result of the handler by lamina.numpy.where.",
            ) from error
        frame = user_frame()
        if frame is not None and hasattr(error, "add_note"):  # Python 3.11
            error.add_note(f"raised by the compiled program for {frame.f_code.co_filename}:{frame.f_lineno}")
        self.errors.append(without_frames(error))
        return len(self.errors)

    def dead(self, error: BaseException) -> None:
        if type(error) is not Raised:
            self.fails(True, self.note_raise(error))

    def fails(self, when: Any, code: int) -> None:
        from lamina import numpy as lnp

        now = self.box["error"]
        if when is not True:
            code = lnp.where(when, lnp.int32(code), lnp.int32(0))
        if type(now) is Tensor:
            self.box["error"] = lnp.where(now == 0, lnp.asarray(code, lnp.int32), now)
        elif now == 0:
            self.box["error"] = code if type(code) is Tensor else lnp.int32(code)

    def tied(self, result: Any) -> Any:
        """`result`, which the program gives only if none of the errors so far has come."""
        code, self.box["error"] = self.box["error"], 0
        if type(code) is not Tensor:
            return result
        from lamina import numpy as lnp
        from lamina._callback import pure_callback
        from lamina.lax import optimization_barrier
        from lamina.tree import tree_flatten, tree_unflatten

        errors = list(self.errors)

        def look(value: Any) -> Any:
            if int(value):
                raise another(errors[int(value) - 1])
            return value

        leaves, structure = tree_flatten(result)
        held = [i for i, x in enumerate(leaves) if isinstance(x, Tensor) and x.size]
        if not held:
            held = [i for i, x in enumerate(leaves) if isinstance(x, (bool, int, float, complex))][:1]
            if not held:
                raise refusal(
                    "a function whose `raise` or `assert` depends on traced values, or that calls itself as they "
                    "say, returns no array that the check could go with",
                    "Return an array.",
                )
            leaves[held[0]] = lnp.asarray(leaves[held[0]])
        code = _core.set_weak(code, False)
        _core.note_check()
        checked = pure_callback(look, code, code)
        for i in held:  # each waits for the check, and so does what transforms make of it
            x, _ = optimization_barrier((leaves[i], checked))
            leaves[i] = _core.set_weak(x, leaves[i].weak_type)
        return tree_unflatten(structure, leaves)

    def result(self, f: Callable[[], Any]) -> Any:
        """The result of a function that is traced, tied to what the program raises."""
        try:
            out = f()
        except Raised:
            pass
        except Exception as e:
            if type(e) in (NameError, UnboundLocalError) and not self.is_raised(e):
                self._explain(e)
            if type(self.box["error"]) is not Tensor or not self.is_raised(e):
                raise
            self.dead(e)  # unless the program has raised before
        else:
            return self.tied(out)
        from lamina import numpy as lnp

        return self.tied(lnp.float32(0))

    def _explain(self, error: Exception) -> None:
        """Raises why a name has no value, where it was taken away."""
        found = re.search(r"'(\w+)'", str(error))
        if found and found[1] in self.reasons:
            raise ConversionError(self.reasons[found[1]]).with_traceback(error.__traceback__) from None

    def is_raised(self, error: BaseException) -> bool:
        """Whether a `raise` of the user raised it."""
        return any(error is r for r in self.raised)

    def framed(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """`f` for a transform of the library: what it raises is tied to its own result, inside the transform."""

        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            outer, self.box["error"] = self.box["error"], 0
            try:
                return self.result(lambda: f(*args, **kwargs))
            finally:
                self.box["error"] = outer

        return call

    # --- objects that tests chose among ---

    def choice(self, made: Any, among: Iterable[Any], heap: Heap) -> None:
        """Notes that `made` is one of `among` in Python, and a new object here: a write to one would miss the other."""
        if type(made) in PLAIN - {Tensor}:
            return
        for x in among:
            if x is not made and (id(x) in heap.tensors or id(x) in heap.holders):
                self.chosen.setdefault(id(made), [made]).append(x)
                self.chosen.setdefault(id(x), [x]).append(made)

    def choices(self, found: list[tuple[Any, list[Any]]], heap: Heap) -> None:
        """Notes of objects that were made, and of their parts, what they are on each side, where several may be one."""
        became: dict[tuple[int, int], list[Any]] = {}
        # No function that calls itself: what it holds would count as in use until it is collected.
        stack = [(made, left, side, 0) for made, lefts in found for side, left in enumerate(lefts)]
        while stack:
            made, left, side, depth = stack.pop()
            if made is left or type(made) is not type(left) or type(made) in PLAIN - {Tensor}:
                continue
            self.choice(made, [left], heap)
            others = became.setdefault((side, id(left)), [])
            for other in others:
                if other is not made:
                    self.chosen.setdefault(id(made), [made]).append(other)
                    self.chosen.setdefault(id(other), [other]).append(made)
            others.append(made)
            if depth < MOST_DEEP and type(made) is not Tensor:
                stack.extend((a, b, side, depth + 1) for a, b in zip(parts_of(made), parts_of(left)))

    def written(self, x: Any, kept: list[Any]) -> None:
        """Refuses a write to an object that a traced test chose, or chose among, while the other one is in use.

        `kept` is held besides by the watch of the trace.
        """
        for key in [id(other) for other in self.chosen.get(id(x), ())[1:]]:
            if self._in_use(key, kept, frozenset()):
                raise refusal(
                    "a write to an array or container that a traced test or loop chose: the ones it chose among are "
                    "still in use, and would not be written",
                    "Take a copy first (x = x.copy(), dict(d), list(l)), or write before the choice.",
                )

    def _in_use(self, key: int, kept: list[Any], seen: frozenset[int]) -> bool:
        """Whether one of the `chosen` is held by others than these lists, and containers that only these lists hold."""
        x = self.chosen[key][0]
        # Held by this name, the call below, its own list and by one for each partner.
        more = sys.getrefcount(x) - 2 - len(self.chosen[key]) - sum(k is x for k in kept)
        for other in self.chosen:
            if more <= 0:
                break
            holder = self.chosen[other][0]
            times = 0 if type(holder) is Tensor else sum(p is x for p in parts_of(holder))
            del holder
            if times and other not in seen and not self._in_use(other, kept, seen | {key}):
                more -= times
        return more > 0

    # --- variables without a value ---

    def unbind(self, place: Place, why: str, remedy: str) -> None:
        """Takes a variable's value away; using it tells why."""
        if place.kind != "cell":
            raise refusal(f"`{place.name}` cannot be one value: {why}", remedy)
        self.explain(place.name, why, remedy)
        place.write(MISSING)

    def explain(self, name: str, why: str, remedy: str) -> None:
        """Keeps why a variable has no value, for who uses it."""
        frame = user_frame()
        at = f"\n  {frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""
        self.reasons[name] = f"`{name}` has no one value here: {why}{at}\n  {remedy}"

    # --- traced blocks ---

    def enter(self, site: Any) -> None:
        """Notes that the branch at `site` is being traced; refuses one that is nested in itself without end."""
        depth = _nested.count.get(site, 0)
        if depth >= MOST_NESTED:
            raise refusal(
                f"a recursion whose depth depends on traced values ({MOST_NESTED} calls inside each other were "
                "traced)",
                'Write it as a loop; or use jit(..., branches="specialize"), which follows the values.',
            )
        _nested.count[site] = depth + 1

    def leave(self, site: Any) -> None:
        _nested.count[site] -= 1
        if not _nested.count[site]:
            del _nested.count[site]

    def heap(self, *functions: Any) -> Heap:
        heap = Heap(functions)
        heap.holders[id(self.box)] = self.box
        heap.names[id(self.box)] = "error"
        return heap

    def traced(
        self,
        f: Callable[[], Any],
        heap: Heap,
        state: State,
        as_value: bool = False,
    ) -> Side:
        """A block as a region without parameters."""
        side = Side()

        def flat(_: list[Tensor]) -> list[Tensor]:
            return self.run(side, f, heap, state, as_value)

        side.region = _core.region(flat, [], carriers=True)
        return side

    def run(self, side: Side, f: Callable[[], Any], heap: Heap, state: State, as_value: bool) -> list[Tensor]:
        """Runs a block in an open region, and puts the heap back; the arrays it gives."""
        outs: list[Tensor] = []
        tensors = list(heap.tensors.values())
        loan = _core.Loan(tensors)
        self.recursions.blocks += 1
        try:
            given = None
            try:
                given = f()
            except Raised:
                side.dead = True
            except Exception as e:
                if not self.is_raised(e):
                    raise
                side.dead = True
                self.dead(e)
            for place, before, now in state.changes():
                side.changes[place.at()] = place, before, frozen(now, outs)
                side.left[place.at()] = now
            for i in loan.written():
                place = Place("tensor", tensors[i], None, heap.names[id(tensors[i])])
                side.changes[place.at()] = place, None, frozen(place.read(), outs)
            if as_value and not side.dead:
                side.value, side.given = frozen(given, outs), given
            elif given is not None:
                side.signal = given
                side.kind = frozen(given.kind, outs)
                if RETURN in given.possible:
                    side.value, side.given = frozen(given.value, outs), given.value
            return outs
        finally:
            self.recursions.blocks -= 1
            loan.end()
            state.put_back()
