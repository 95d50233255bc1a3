"""What converted code calls: Python's control flow on plain values, branches and loops of the program on traced ones."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any

from lamina import _core
from lamina._calls import WRITES
from lamina._convert import functions
from lamina._convert.branch import branch, choose
from lamina._convert.errors import ConversionError, Raised, refusal, shown
from lamina._convert.loop import Loop
from lamina._convert.recursion import unjitted
from lamina._convert.signals import (
    BREAK,
    BREAKS,
    CONTINUE,
    CONTINUES,
    EARLY,
    ENDED,
    MISSING,
    NORMAL,
    RETURN,
    Maybe,
    Signal,
)
from lamina._convert.staging import Finally, Staging, is_traced
from lamina._core import Tensor
from lamina._hooks import Hooks
from lamina._objects import FUNCTION, METHOD

Block = Callable[[], Any]
_Names = tuple[str, str]  # that a loop binds; and those that no iteration reads of another, nor what follows
# Fewer elements than this are taken one by one, each under the test whether the loop still goes on.
_FEW, _MANY = 4, 16


def _run(block: Block | None) -> Signal | None:
    return None if block is None else block()


def asked(x: Any) -> Any:
    """The truth of `x`: a plain bool, or a traced bool scalar."""
    if not is_traced(x):
        return bool(x)
    if x.size != 1:
        return bool(x)  # which raises
    x = x.reshape(()) if x.ndim else x
    return _core.set_weak(x if x.dtype.kind == "b" else x != 0, False)


class Converted(Hooks):
    """The hooks of a function whose control flow is converted."""

    __slots__ = ("staging",)

    def __init__(self, watch: Any, names: Any, cells: Any, staging: Staging) -> None:
        super().__init__(watch, names, cells)
        self.staging = staging

    def _asked(self, x: Any) -> Any:
        return asked(self.truth(x))

    # --- signals ---

    returned = staticmethod(lambda value: Signal(RETURN, value))
    broken = staticmethod(lambda: BREAKS)
    continued = staticmethod(lambda: CONTINUES)

    def then(self, signal: Signal | None, rest: Block | None) -> Signal | None:
        """What follows a statement, where control reached its end."""
        if signal is None:
            return _run(rest)
        if rest is None or NORMAL not in signal.possible:
            return signal
        return branch(self.staging, asked(signal.kind == NORMAL), rest, lambda: signal.only(EARLY), rest)

    def finishing(self) -> Finally:
        return Finally(self.staging)

    def last(self, signal: Signal | None, block: Block, raising: Finally) -> Signal | None:
        """A `finally` after a block that ended with `signal`."""
        own = block()
        if own is None:
            return signal
        raising.left()
        if NORMAL not in own.possible:
            return own
        return branch(self.staging, asked(own.kind == NORMAL), lambda: signal, lambda: own.only(EARLY))

    def result(self, signal: Signal | None) -> Any:
        """What a function returns that ended with `signal`."""
        if signal is None:
            return None
        if NORMAL in signal.possible and signal.value is not None:
            raise refusal(
                f"the function returns {shown(signal.value)} on one path and nothing on another, as traced values "
                "choose",
                "Return an array on every path: add a `return` at the end.",
            )
        return signal.value

    # --- branches ---

    def if_(self, test: Any, yes: Block, no: Block | None) -> None:
        holds = self._asked(test)
        if type(holds) is bool:
            _run(yes if holds else no)
        else:
            branch(self.staging, holds, yes, lambda: _run(no), yes, no)

    def if_then(
        self, test: Any, yes: Block, no: Block | None, rest: Block | None, ends: int
    ) -> Signal | None:
        """An `if` that control may leave, and what follows it. `ends`: 1 if `yes` never reaches its end, 2 if `no`."""
        holds = self._asked(test)
        if type(holds) is bool:
            return self.then(_run(yes if holds else no), rest)
        reach = yes, no, rest
        if ends & 1:
            return branch(self.staging, holds, yes, lambda: self.then(_run(no), rest), *reach)
        if ends & 2:
            return branch(self.staging, holds, lambda: self.then(yes(), rest), lambda: _run(no), *reach)
        return self.then(branch(self.staging, holds, yes, lambda: _run(no), yes, no), rest)

    def choose(self, test: Any, yes: Block, no: Block) -> Any:
        holds = self._asked(test)
        if type(holds) is bool:
            return yes() if holds else no()
        return choose(self.staging, holds, yes, no)

    def and_(self, cheap: bool, first: Any, rest: Block) -> Any:
        holds = self._asked(first)
        if type(holds) is bool:
            return rest() if holds else first
        return choose(self.staging, holds, rest, lambda: first, rest)

    def or_(self, cheap: bool, first: Any, rest: Block) -> Any:
        holds = self._asked(first)
        if type(holds) is bool:
            return first if holds else rest()
        return choose(self.staging, holds, lambda: first, rest, rest)

    def both(self, cheap: bool, first: Any, rest: Block) -> Any:
        """`and` of which only the truth is asked; the second operand may be computed anyway if it is `cheap`."""
        holds = self._asked(first)
        if type(holds) is bool:
            return rest() if holds else False
        return self._both(cheap, holds, rest, (rest,))

    def _both(self, cheap: bool, holds: Tensor, rest: Block, reach: tuple[Block, ...]) -> Any:
        if cheap:
            return holds & self._asked(rest())
        return choose(self.staging, holds, lambda: self._asked(rest()), lambda: False, *reach)

    def either(self, cheap: bool, first: Any, rest: Block) -> Any:
        holds = self._asked(first)
        if type(holds) is bool:
            return True if holds else rest()
        if cheap:
            return holds | self._asked(rest())
        return choose(self.staging, holds, lambda: True, lambda: self._asked(rest()), rest)

    def not_(self, x: Any) -> Any:
        holds = self._asked(x)
        return not holds if type(holds) is bool else ~holds

    def compare(self, names: str, cheap: bool, left: Any, *operands: Block) -> Any:
        """``a < b < c``."""
        name, _, more = names.partition(" ")
        right = operands[0]()
        found = getattr(operator, name)(self.noted(left), self.noted(right))
        if not more:
            return found
        holds = asked(found)
        if holds is False:
            return found

        def rest() -> Any:
            return self.compare(more, cheap, right, *operands[1:])

        if holds is True:
            return rest()
        return self._both(cheap, holds, rest, operands)

    def in_(self, x: Any, container: Any) -> Any:
        return functions.contained(x, container, lambda: x in self.keyed(container, x))

    # --- loops ---

    def while_(self, test: Block, body: Block, no: Block | None, names: str, temporary: str) -> Signal | None:
        names = names, temporary
        while True:
            holds = self._asked(test())
            if type(holds) is not bool:
                return self._loop(None, holds, test, body, (test, body), no, names, [])
            if not holds:
                return _run(no)
            signal = _next(body())
            if signal is None:
                continue
            if signal.is_known:
                return self._left(signal, no)
            again: list[Any] = []

            def go_on(again: list[Any] = again) -> Any:
                again.append(self._asked(test()))
                return again[0]

            fine = asked(signal.kind == NORMAL)
            holds = choose(self.staging, fine, go_on, lambda: False, test)
            return self._loop(signal, holds, test, body, (test, body), no, names, again)

    def _loop(
        self,
        signal: Signal | None,
        holds: Any,
        test: Block,
        body: Block,
        reach: tuple[Any, ...],
        no: Block | None,
        names: _Names,
        before: list[Any],
        counter: dict[str, Any] | None = None,
        runs: bool = False,
    ) -> Signal | None:
        """A loop that goes on while `test`, as `holds` says at first; `signal` is how an iteration before it ended.

        `before` is what `test` gave until now.
        """
        box = {} if counter is None else counter
        seen = {NORMAL}
        tests = [*before, *([holds] if signal is None else [])]

        def go_on() -> Any:
            tests.append(self._asked(test()))
            return tests[-1]

        box["go"] = holds
        if signal is not None:
            box["kind"] = signal.kind
            seen |= signal.possible
            if RETURN in signal.possible:
                box["value"] = signal.value

        def step(_: list[Tensor]) -> None:
            end = _next(body())
            if end is None:
                go = go_on()
            else:
                seen.update(end.possible)
                box["kind"] = end.kind
                if RETURN in end.possible:
                    box["value"] = end.value
                go = False
                if NORMAL in end.possible:
                    fine = asked(end.kind == NORMAL)
                    go = choose(self.staging, fine, go_on, lambda: False, test)
            error = self.staging.box["error"]
            box["go"] = go & (error == 0) if type(error) is Tensor else go

        try:
            Loop(self.staging, step, reach, box, *names, runs).while_()
        except Raised:  # by every way through the body
            branch(self.staging, asked(holds), body, lambda: None, *reach)
        if "kind" not in box:
            return self._left(None, no)
        end: Signal | None = Signal(box["kind"], box.get("value", MISSING), frozenset(seen))
        if all(t is True for t in tests):  # `while True` ends by a signal only
            end = end.only(EARLY)
        return self._left(end, no)

    def _left(self, signal: Signal | None, no: Block | None) -> Signal | None:
        """After a loop that ended with `signal`: its `else`, and its own `break` is over."""
        if no is not None:
            signal = self.then(signal and signal.with_kind(BREAK, ENDED), no)
            return signal and signal.with_kind(ENDED, NORMAL)
        return signal and signal.with_kind(BREAK, NORMAL)

    def for_(
        self,
        items: Any,
        body: Callable[[Any], Any],
        no: Block | None,
        names: str,
        temporary: str,
        early: bool,
    ) -> Signal | None:
        names = names, temporary
        if type(items) is functions.TracedRange:
            return self._counted(None, items.item, items.length, body, no, names, False)
        if type(items) is Tensor and items.ndim and items.shape[0] > _MANY and not early:
            with contextlib.suppress(Exception):  # which taking one row after the other tells better
                self._rows(items, body, names)
                return _run(no)
        items = self.iterated(items)
        left = items if isinstance(items, range) else None
        iterator = iter(items)
        for n, item in enumerate(iterator):
            signal = _next(body(item))
            if signal is None:
                continue
            if signal.is_known:
                return self._left(signal, no)
            return self._remaining(signal, left[n + 1 :] if left is not None else iterator, body, no, names)
        return _run(no)

    def _rows(self, x: Tensor, body: Callable[[Any], Any], names: _Names) -> None:
        loop = Loop(self.staging, lambda rows: _run(lambda: body(rows[0])), (body,), {}, *names, True)
        loop.scan(x.shape[0], [x])

    def _remaining(
        self, signal: Signal, items: Any, body: Callable[[Any], Any], no: Block | None, names: _Names
    ) -> Signal | None:
        """The iterations that may not come, after the first one that a traced test may leave the loop in."""
        if isinstance(items, range) and len(items) > _FEW:
            start, step, n = items.start, items.step, len(items)
            before = self.staging.heap(body).state()
            try:
                return self._counted(signal, lambda k: k * step + start, n, body, no, names, True)
            except Exception:
                before.put_back()
        now: Signal | None = signal
        for item in items:
            if now is None:
                now = _next(body(item))
            elif NORMAL not in now.possible:
                break
            else:
                now = self._guarded(now, body, item)
        return self._left(now, no)

    def _guarded(self, signal: Signal, body: Callable[[Any], Any], item: Any) -> Signal | None:
        on = asked(signal.kind == NORMAL)
        return branch(self.staging, on, lambda: _next(body(item)), lambda: signal.only(EARLY), body)

    def _counted(
        self,
        signal: Signal | None,
        item: Callable[[Any], Any],
        length: Any,
        body: Callable[[Any], Any],
        no: Block | None,
        names: _Names,
        runs: bool,
    ) -> Signal | None:
        """A loop over the items of 0, 1 ... length - 1."""
        box: dict[str, Any] = {"count": 0}

        def one() -> Signal | None:
            signal = body(item(box["count"]))
            box["count"] = box["count"] + 1
            return signal

        on: Any = asked(length > 0)
        if signal is not None:
            on = asked(signal.kind == NORMAL)
        return self._loop(
            signal,
            on,
            lambda: box["count"] < length,
            one,
            (body, one),
            no,
            names,
            [False],
            box,
            runs and signal is None,
        )

    # --- variables ---

    def local(self, name: str, read: Block) -> Any:
        """A variable that a block gives its value: the program raises where it has none."""
        error = UnboundLocalError(
            f"cannot access local variable '{name}' where it is not associated with a value"
        )
        try:
            value = read()
        except NameError:
            reason = self.staging.reasons.get(name)
            if reason is not None:
                raise ConversionError(reason) from None
            raise self.raised(error) from None
        if type(value) is not Maybe:
            return value
        if not is_traced(value.flag):
            raise self.raised(error)
        self.staging.fails(~value.flag, self.staging.note_raise(error))
        return value.value

    # --- errors ---

    def raised(self, error: Any) -> Any:
        """What is about to be raised by a `raise` of the user."""
        if isinstance(error, type) and issubclass(error, BaseException):
            error = error()
        if not self.watch.closed:
            self.staging.raised.append(error)
        return error

    def assert_(self, test: Any, message: Block, told: bool) -> None:
        holds = self._asked(test)
        if holds is True:
            return
        error = AssertionError(message()) if told else AssertionError()
        if holds is False:
            raise self.raised(error)
        self.staging.fails(~holds, self.staging.note_raise(error))

    @contextlib.contextmanager
    def trying(self) -> Iterator[None]:
        self.staging.trying += 1
        try:
            yield
        finally:
            self.staging.trying -= 1

    # --- reads ---

    def item(self, x: Any, key: Any) -> Any:
        if is_traced(key) and isinstance(x, (list, tuple)):
            return functions.element(self.iterated(x), key)
        return super().item(x, key)

    # --- writes ---

    def _written(self, x: Any) -> None:
        if id(x) in self.staging.chosen and not self.watch.closed:
            self.staging.written(x, self.watch.kept)

    def target(self, x: Any) -> Any:
        self._written(x)
        return x

    def stored(self, value: Any, target: Any, text: str) -> Any:
        self._written(target)
        return super().stored(value, target, text)

    def updated(self, x: Any, name: str) -> Any:
        self._written(x)
        return super().updated(x, name)

    def updated_item(self, x: Any, *key: Any) -> Any:
        self._written(x)
        return super().updated_item(x, *key)

    # --- calls ---

    def callee(self, f: Any) -> Any:
        owner = getattr(f, "__self__", None)
        if owner is not None and f.__name__ in WRITES:
            self._written(owner)
        f = unjitted(f)
        plain = super().callee(f)
        if not self.watch.closed and type(f) in (FUNCTION, METHOD):
            return self.staging.recursions.watched(f, plain)
        if f is map:
            return lambda g, *xs: plain(self.callee(g) if functions.replacement(g) else g, *xs)
        other = functions.replacement(f)
        return plain if other is None else functions.replacing(f, plain, other, self.callee)


def _next(signal: Signal | None) -> Signal | None:
    """After one iteration: a `continue` is its end."""
    return signal and signal.with_kind(CONTINUE, NORMAL)
