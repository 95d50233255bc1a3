"""How control left a block: what the functions that blocks become return."""

from __future__ import annotations

from typing import Any

NORMAL, CONTINUE, BREAK, RETURN, ENDED = range(
    5
)  # ENDED: a loop by its own `break`, while its `else` is looked at


class Missing:
    """A value that there is not: of a variable that is not bound, of a block that did not return."""

    def __repr__(self) -> str:
        return "<missing>"


MISSING = Missing()
UNBOUND = Missing()  # of a variable, where having none says something: a program may come here


class Maybe:
    """What stands in a variable that has a value only if `flag`, a traced bool scalar, holds."""

    __slots__ = ("flag", "value")

    def __init__(self, value: Any, flag: Any) -> None:
        self.value, self.flag = value, flag


class Signal:
    """One of the kinds of `possible`: which, says `kind`, a number or a traced scalar. `value` is what a RETURN gives.

    Control that reached the end of a block is None instead.
    """

    __slots__ = ("kind", "possible", "value")

    def __init__(self, kind: Any, value: Any = MISSING, possible: frozenset[int] | None = None) -> None:
        self.kind, self.value = kind, value
        self.possible = frozenset((kind,)) if possible is None else possible

    @property
    def is_known(self) -> bool:
        return len(self.possible) == 1

    def only(self, kinds: frozenset[int]) -> Signal | None:
        """It, where it is known to be of these kinds."""
        possible = self.possible & kinds
        value = self.value if RETURN in possible else MISSING
        if len(possible) == 1:
            (kind,) = possible
            return Signal(kind, value) if kind != NORMAL else None
        return Signal(self.kind, value, possible)

    def with_kind(self, old: int, new: int) -> Signal | None:
        """It, with one kind in the place of another."""
        if old not in self.possible:
            return self
        kinds = (self.possible - {old}) | {new}
        if kinds == {NORMAL}:
            return None
        if len(kinds) == 1:
            return Signal(new, self.value)
        from lamina import numpy as lnp

        return Signal(lnp.where(self.kind == old, new, self.kind), self.value, kinds)


def possible(signal: Signal | None) -> frozenset[int]:
    return frozenset((NORMAL,)) if signal is None else signal.possible


EARLY = frozenset((CONTINUE, BREAK, RETURN, ENDED))
BREAKS, CONTINUES = Signal(BREAK), Signal(CONTINUE)
