"""Values of a trace that are still held when it has ended: looked for under `checks(leaks="raise")`."""

from __future__ import annotations

import contextlib
import gc
import threading
import types
from collections.abc import Iterator
from typing import Any

from lamina import _core
from lamina._core import Tensor
from lamina._open import open_here

_INSIDE = (tuple, dict)  # containers that the collector does not always list


class _State(threading.local):
    on = False

    def __init__(self) -> None:
        self.stamps: list[int | None] = []  # of the traces that are looked at, innermost last


_state = _State()


def looked_for(on: bool) -> bool:
    """Sets whether leaks are looked for on this thread; returns whether they were."""
    before, _state.on = _state.on, on
    return before


def mode() -> str:
    """As `checks` takes it."""
    return "raise" if _state.on else "off"


def entered() -> None:
    """The function under trace begins: what is made from here on is its own."""
    if _state.stamps and _state.stamps[-1] is None:
        _state.stamps[-1] = _core.innermost_stamp()


@contextlib.contextmanager
def _looking(name: str) -> Iterator[None]:
    _state.stamps.append(None)
    try:
        yield
        stamp = _state.stamps[-1]
    finally:
        _state.stamps.pop()
    if stamp is not None:
        _raise_for(name, stamp)


def looking(name: str) -> contextlib.AbstractContextManager[None]:
    """Around the trace of `name`: RuntimeError at its end for the first of its values that is still held."""
    return _looking(name) if _state.on else contextlib.nullcontext()


def _raise_for(name: str, stamp: int) -> None:
    from lamina._tensor import describe

    gc.collect()  # what only cycles hold is about to go
    # A trace around this one keeps the objects that it has met until it ends.
    kept = {id(w.kept) for w in open_here.watches}
    holders: list[Any] = gc.get_objects()
    while holders:
        held = gc.get_referents(*holders)
        leaked = {id(x) for x in held if _is_of(x, stamp)}
        found = [(h, x) for h in holders for x in gc.get_referents(h) if id(x) in leaked] if leaked else []
        ours = {id(holders), id(held), id(found), *map(id, found)}
        for holder, x in found:
            if _is_kept(holder, kept, ours, 4):
                continue
            file, line, _ = _core.where_made(x)
            made = f", made at {file}:{line}," if file else ""
            raise RuntimeError(
                f"Leaked out of {name}: its value {describe(x)}{made} is still held {_place(holder, x)} although its "
                "trace has ended, so it has no value there\n"
                "  Return it from the function and keep what the call gives, or drop it before the function ends."
            )
        holders = [x for x in held if type(x) in _INSIDE and not gc.is_tracked(x)]


def _is_kept(holder: Any, kept: set[int], ours: set[int], depth: int) -> bool:
    """Whether only objects that an open trace keeps hold `holder`."""
    if id(holder) in kept:
        return True
    around = [h for h in gc.get_referrers(holder) if id(h) not in ours and type(h) is not types.FrameType]
    return bool(depth and around) and all(_is_kept(h, kept, ours | {id(around)}, depth - 1) for h in around)


def _is_of(x: Any, stamp: int) -> bool:
    return type(x) is Tensor and _core.made_in(x) >= stamp and not _core.forceable(x)


def _place(holder: Any, x: Tensor) -> str:
    if isinstance(holder, (list, tuple)):
        return f"as item {next(i for i, v in enumerate(holder) if v is x)} of a {type(holder).__name__}"
    if isinstance(holder, dict):
        key = next(k for k, v in holder.items() if v is x)
        return f"under {key!r:.40}" + (" of a module" if "__builtins__" in holder else " of a dict")
    if isinstance(holder, types.CellType):
        return "by a variable of a function around it"
    name = next((k for k, v in getattr(holder, "__dict__", {}).items() if v is x), None)
    return f"by a {type(holder).__name__}" if name is None else f"as .{name} of a {type(holder).__name__}"
