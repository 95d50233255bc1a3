"""Loops whose end is only known when the program runs, as one `while`, and loops over many elements as one `scan`.

The body is traced on parameters in the places that it changes, until these places and their types are settled: numbers
take the type that the body gives them. Whether the loop goes on is computed at the end of the body.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina import _core
from lamina._convert.errors import Raised, refusal, shown
from lamina._convert.merging import Node, Out, alike, as_wanted, frozen, maybe, thawed, type_of
from lamina._convert.signals import MISSING, Maybe
from lamina._convert.staging import Side, Staging
from lamina._convert.state import Place, State, contents, holds
from lamina._core import Tensor

_ROUNDS = 12
_Type = tuple[str, list[int], bool]


class _Carried:
    """A place that the loop changes: where its leaves stand among the carry, and their types."""

    def __init__(self, place: Place, value: Any) -> None:
        self.place, self.leaves = place, list[Any]()
        self.template = frozen(value, self.leaves, numbers=True)
        self.types: list[_Type] = [type_of(x) for x in self.leaves]
        self.given = value


def _is_carried(template: Any) -> bool:
    """Whether a value is made of arrays and numbers."""
    if type(template) is Node:
        return all(map(_is_carried, template.parts))
    return type(template) is Out or template is None or isinstance(template, str)


class Loop:
    """One loop while it is traced. `step` runs the body once, on the rows of a scan; `box` is the loop's own state."""

    def __init__(
        self,
        staging: Staging,
        step: Callable[[list[Tensor]], None],
        reach: tuple[Any, ...],
        box: dict[str, Any],
        names: str,
        temporary: str,
        runs: bool,
    ) -> None:
        self.staging, self.step, self.box, self.runs = staging, step, box, runs
        self.heap = staging.heap(*reach)
        self.heap.holders[id(box)] = box
        self.heap.names[id(box)] = "loop"
        self.state: State = self.heap.state()
        self.carried: dict[Any, _Carried] = {}
        self.left: list[Any] = []  # what the body leaves in the places, when it was traced last
        self.emptied: dict[Any, tuple[Place, str]] = {}  # variables that cannot be carried, and why
        self.temporary = set(temporary.split())  # variables that no iteration and nothing after them reads
        wanted = set(names.split())
        for cell, name in self.heap.cells.values():
            if name in wanted:
                self._carry(Place("cell", cell, None, name))
        for key in box:
            self._carry(Place("item", box, key, f"loop[{key!r}]"))

    # --- what is carried ---

    def _carry(self, place: Place) -> bool:
        value = place.read()
        if value is MISSING:
            return False
        new = _Carried(place, value)
        if not _is_carried(new.template):
            return False
        self.carried[place.at()] = new
        return True

    def _leaves(self) -> list[Tensor]:
        return [as_wanted(x, t) for c in self.carried.values() for x, t in zip(c.leaves, c.types)]

    def _types(self) -> list[_Type]:
        return [t for c in self.carried.values() for t in c.types]

    def _install(self, parameters: list[Tensor]) -> list[tuple[Place, Any, Any]]:
        """Puts the parameters into their places; what stands there now that could be written in place."""
        at, given = 0, []
        for c in self.carried.values():
            value = thawed(c.template, parameters[at : at + len(c.leaves)])
            c.place.write(value)
            at += len(c.leaves)
            if c.place.kind != "tensor" and (type(value) is Tensor or type(c.template) is Node):
                whole = type(value) in (Tensor, Maybe) or isinstance(value, tuple)
                given.append((c.place, value, None if whole else contents(value)))
        for place, _ in self.emptied.values():
            place.write(MISSING)
        return given

    @staticmethod
    def _refuse_writes(given: list[tuple[Place, Any, Any]]) -> None:
        """Refuses a body that both writes to what a variable holds and gives it another value: what it held before
        the loop would not be written."""
        for place, value, before in given:
            if _core.written(value) if type(value) is Tensor else before and not holds(value, before):
                raise refusal(
                    f"`{place.name}` is written in place and given another value in one loop on traced values",
                    f"Write to a copy ({place.name} = {place.name}.copy()), or give it no other value in the loop.",
                )

    # --- tracing the body ---

    def _traced(self, items: list[_Type]) -> tuple[Side, list[Any]]:
        """The body's region, and templates of what is carried after it."""
        side = Side()
        after: list[Any] = []
        outs: list[Tensor] = []
        n = len(self._types())

        def flat(parameters: list[Tensor]) -> list[Tensor]:
            outs.clear()
            after.clear()
            self.left.clear()

            def run() -> Any:
                given = self._install(parameters[:n])
                self.step(parameters[n:])
                self._refuse_writes(given)
                for c in self.carried.values():
                    now = c.place.read()
                    self.left.append(now)
                    if type(c.given) is Maybe and type(now) is not Maybe and now is not MISSING:
                        now = Maybe(now, True)
                    after.append(frozen(now, outs, numbers=True))

            more = self.staging.run(side, run, self.heap, self.state, False)
            side.offset = len(outs)
            return [*outs, *more]

        side.region = _core.region(flat, [*self._types(), *items], carriers=True)
        if side.dead:
            raise Raised
        return side, after

    def _settled(self, side: Side, after: list[Any]) -> bool:
        """Whether all that the body changed is carried with the types that it has; takes what was missing."""
        before = len(self.carried), len(self.emptied), self._types()
        for c, now in zip(list(self.carried.values()), after):
            self._fit(c, now, side)
        for at, (place, was, now) in side.changes.items():
            if at in self.carried or at in self.emptied:
                continue
            if place.holder is self.box:
                self._start(place, now, side)
            elif place.kind == "tensor":
                self._carry(place)
            elif was is MISSING:
                if place.kind != "cell":
                    raise refusal(
                        f"`{place.name}` is added in a loop whose length is only known when the program runs: a "
                        "container cannot grow in it",
                        "Make an array of the largest size before the loop and write to it (x[i] = v), or use a loop "
                        "of known length.",
                    )
                if place.name in self.temporary:
                    self._empty(place, "it is made in a loop on traced values")
                else:
                    self._start(place, maybe(now), side)
            elif now is MISSING or not self._carry(place):
                self._empty(
                    place, f"a loop on traced values changes it, and it is {shown(was)} before the loop"
                )
        return before == (len(self.carried), len(self.emptied), self._types())

    def _start(self, place: Place, now: Any, side: Side) -> None:
        """Carries what only the body gives a value: a variable, or a signal's kind or value. It starts as zeros."""
        types = [side.type_of(side.offset + i) for i in _outs(now)]
        nothing = thawed(_renumbered(now), [as_wanted(MISSING, t) for t in types])
        if type(nothing) is Maybe:
            nothing.flag = False
        place.write(0 if place.key == "kind" else nothing)
        self.state = self.heap.state()
        if not self._carry(place):
            self._empty(
                place, f"a loop on traced values gives it {shown(getattr(nothing, 'value', nothing))}"
            )

    def _fit(self, c: _Carried, now: Any, side: Side) -> None:
        """Promotes the types of a place to hold what the body leaves there."""
        why = alike(c.template, now)
        if not why:
            for i, (t, out) in enumerate(zip(list(c.types), _outs(now))):
                new = side.type_of(out)
                if new[1] != t[1]:
                    why = f"{t[0]}{t[1]} and {new[0]}{new[1]}"
                    break
                dtype, weak = _core.promote(t[0], t[2], new[0], new[2])
                c.types[i] = dtype, t[1], weak
        if why:
            what = f"it is {why.replace(' and ', ' before the body of a loop on traced values and ', 1)} after it"
            if c.place.kind != "cell":
                raise refusal(f"`{c.place.name}` cannot be one value: {what}", _REMEDY)
            del self.carried[c.place.at()]
            self._empty(c.place, what)

    def _empty(self, place: Place, why: str) -> None:
        if place.kind != "cell":
            raise refusal(f"`{place.name}` cannot be one value: {why}", _REMEDY)
        self.emptied[place.at()] = place, why
        self.staging.explain(place.name, why, _REMEDY)

    def body(self, items: list[_Type]) -> tuple[Side, list[Any]]:
        for _ in range(_ROUNDS):
            side, after = self._traced(items)
            if self._settled(side, after):
                return side, after
        raise refusal("the types of a loop's variables change in every round", _REMEDY)

    # --- recording ---

    def _stepped(self, side: Side, after: list[Any]) -> Callable[[list[Tensor]], list[Tensor]]:
        """The body on flat lists of what is carried."""
        types = self._types()
        order = [out for now in after for out in _outs(now)]

        def flat(p: list[Tensor]) -> list[Tensor]:
            out = _core.inlined(side.region, [*p, *side.region.captured])
            return [as_wanted(out[i], t) for i, t in zip(order, types)]

        return flat

    def _after(self, results: list[Tensor]) -> None:
        at, found = 0, []
        for c, left in zip(self.carried.values(), self.left, strict=True):
            value = thawed(c.template, results[at : at + len(c.leaves)])
            value = value.value if type(value) is Maybe and self.runs else value
            c.place.write(value)
            if c.place.kind != "tensor":
                found.append((value, [c.given, left]))
            at += len(c.leaves)
        self.left.clear()
        self.staging.choices(found, self.heap)
        for place, why in self.emptied.values():
            self.staging.unbind(place, why, _REMEDY)

    def while_(self) -> None:
        """Runs the body while `box["go"]`."""
        side, after = self.body([])
        where = list(self.carried)
        number = sum(len(self.carried[k].leaves) for k in where[: where.index(("item", id(self.box), "go"))])
        results = _core.while_loop(
            "while",
            (lambda p: [p[number]], "the test"),
            (self._stepped(side, after), "the body"),
            self._leaves(),
            self._leaf_name(),
            None,
        )
        self._after(results)

    def scan(self, length: int, items: list[Tensor]) -> None:
        """Runs the body `length` times, for the rows of `items`."""
        side, after = self.body([(t.dtype.name, list(t.shape[1:]), t.weak_type) for t in items])
        name = self._leaf_name()
        results = _core.scan(
            "for", (self._stepped(side, after), "the body"), self._leaves(), items, length, False, name, name
        )
        self._after(results)

    def _leaf_name(self) -> Callable[[int], str]:
        names = [c.place.name for c in self.carried.values() for _ in c.leaves]
        return lambda k: f" `{names[k]}`" if k < len(names) else ""


_REMEDY = (
    "Give it a value of the type and shape it has in the loop before the loop, or use another name inside."
)


def _outs(template: Any) -> list[int]:
    if type(template) is Out:
        return [template.index]
    return [i for p in template.parts for i in _outs(p)] if type(template) is Node else []


def _renumbered(template: Any) -> Any:
    """The template with its outs counted from 0, in their order."""
    count = iter(range(1 << 30))

    def walk(t: Any) -> Any:
        if type(t) is Out:
            return Out(next(count))
        return Node(t.original, t.keys, [walk(p) for p in t.parts]) if type(t) is Node else t

    return walk(template)
