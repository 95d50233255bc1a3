"""A branch on a traced test: both sides traced, joined in one `cond`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina import _core
from lamina._convert.errors import Raised, refusal
from lamina._convert.merging import (
    MOST_DEEP,
    Conflict,
    Join,
    Node,
    Out,
    as_wanted,
    frozen,
    is_maybe,
    parts_of,
    thawed,
)
from lamina._convert.signals import MISSING, NORMAL, RETURN, UNBOUND, Maybe, Signal, possible
from lamina._convert.staging import Side, Staging
from lamina._core import Tensor


def branch(
    staging: Staging, test: Tensor, yes: Callable[[], Any], no: Callable[[], Any], *reach: Any
) -> Signal | None:
    """The signal of `yes` or `no`, whichever a traced bool scalar chooses; what they change is changed by the one.

    `reach` are the user's functions among them, whose variables are looked at.
    """
    joined, sides = _join(staging, test, yes, no, reach, as_value=False)
    return _signal(joined, sides)


def choose(staging: Staging, test: Tensor, yes: Callable[[], Any], no: Callable[[], Any], *reach: Any) -> Any:
    """The value of `yes` or `no`, whichever a traced bool scalar chooses."""
    joined, _ = _join(staging, test, yes, no, reach, as_value=True)
    return joined[1]


def _join(
    staging: Staging, test: Tensor, yes: Any, no: Any, reach: tuple[Any, ...], as_value: bool
) -> tuple[tuple[Any, Any], list[Side]]:
    """(kind, value) of the chosen side; the heap is as that side leaves it."""
    functions = [f for f in (reach or (yes, no)) if f is not None]
    site = tuple(getattr(f, "__code__", f) for f in functions)
    staging.enter(site)
    try:
        heap = staging.heap(*functions)
        state = heap.state()
        sides = [staging.traced(f, heap, state, as_value) for f in (yes, no)]
    finally:
        staging.leave(site)
    join = Join(sides[0].type_of, sides[1].type_of)
    a, b = sides
    places = {at: side.changes[at][0] for side in sides for at in side.changes}
    templates = {at: join.joined(_now(staging, a, b, at), _now(staging, b, a, at)) for at in places}
    kind = join.joined(*(MISSING if s.dead else s.kind for s in sides))
    value = join.joined(*(s.value for s in sides))
    results = _recorded(test, sides, join)
    found = []
    for at, template in templates.items():
        _settle(staging, places[at], template, results)
        if type(template) in (Out, Node) and places[at].kind != "tensor":
            left = [s.left[at] if at in s.left else t.changes[at][1] for s, t in ((a, b), (b, a))]
            found.append((places[at].read(), left))
    if a.dead and b.dead:
        raise Raised
    if type(value) is Conflict:
        what = "the two values" if as_value else "what the function returns"
        raise refusal(
            f"{what} cannot be chosen by a traced test: {value.why}",
            "Give both sides arrays or numbers of one shape, in one structure.",
        )
    chosen = thawed(value, results)
    if type(value) in (Out, Node):
        found.append((chosen, [s.given for s in sides]))
    staging.choices(found, heap)
    return (thawed(kind, results), chosen), sides


def _now(staging: Staging, side: Side, other: Side, at: Any) -> Any:
    """A template of what stands at a place after a side; MISSING where that side raises and nobody will look."""
    place, before, now = side.changes.get(at) or other.changes[at]
    if side.dead and place.holder is not staging.box:
        return MISSING
    if at not in side.changes:
        now = place.read() if place.kind == "tensor" else _left(side, before)
    return UNBOUND if now is MISSING else now


def _left(side: Side, x: Any, depth: int = 0) -> Any:
    """A template of what a side leaves where it stood, with what the side writes to it."""
    if type(x) is Tensor:
        written = side.changes.get(("tensor", id(x), None))
        return x if written is None else written[2]
    template = frozen(x, None)
    if type(template) is not Node or depth > MOST_DEEP:
        return template
    parts = {k: _left(side, v, depth + 1) for k, v in zip(template.keys, parts_of(x))}
    if not isinstance(x, (tuple, Maybe)):
        for (kind, holder, key), (_, _, now) in side.changes.items():
            if kind == "item" and holder == id(x):
                parts[key] = now
    parts = {k: v for k, v in parts.items() if v is not MISSING}
    return Node(x, list(parts), list(parts.values()))


def _recorded(test: Tensor, sides: list[Side], join: Join) -> list[Tensor]:
    """A result for each pair: those that a side computes by one `cond`, others by a select."""
    pairs = list(zip(join.pairs, join.wanted))
    computed = [i for i, (pair, _) in enumerate(pairs) if any(type(x) is Out for x in pair)]

    def flat(which: int) -> Callable[[list[Tensor]], list[Tensor]]:
        region = sides[which].region

        def run(_: list[Tensor]) -> list[Tensor]:
            outs = _core.inlined(region, region.captured)
            given = [(pairs[i][0][which], pairs[i][1]) for i in computed]
            return [as_wanted(outs[x.index] if type(x) is Out else x, w) for x, w in given]

        return run

    branches = [(flat(1), "the other side"), (flat(0), "one side")]
    found = iter(_core.cond("if", test, branches, [], lambda k: f"[{k}]") if computed else [])
    return [
        next(found) if i in computed else _selected(test, *(as_wanted(x, w) for x in pair))
        for i, (pair, w) in enumerate(pairs)
    ]


def _selected(test: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    from lamina import numpy as lnp

    return _core.set_weak(lnp.where(test, yes, no), yes.weak_type)


def _settle(staging: Staging, place: Any, template: Any, results: list[Tensor]) -> None:
    if type(template) is Conflict:
        staging.unbind(place, f"after a branch on a traced test {template.why}", _REMEDY)
    elif template is UNBOUND:
        if place.read() is not MISSING:
            place.write(MISSING)
    elif is_maybe(template) and place.kind != "cell":
        raise refusal(
            f"`{place.name}` is there after one side of a branch on a traced test only: a container cannot have an "
            "item in one case and not in the other",
            "Add it before the branch, or on both sides.",
        )
    else:
        place.write(thawed(template, results))


_REMEDY = "Give it a value of one type and shape before the branch, or on both sides."


def _signal(joined: tuple[Any, Any], sides: list[Side]) -> Signal | None:
    living = [s for s in sides if not s.dead]
    kinds = frozenset().union(*(possible(s.signal) for s in living))
    kind, value = joined
    if kinds == {NORMAL}:
        return None
    if len(kinds) == 1:
        (kind,) = kinds
    return Signal(kind, value if RETURN in kinds else MISSING, kinds)
