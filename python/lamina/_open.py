"""The traces of jitted functions that are under way on a thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from lamina._core import Tensor

if TYPE_CHECKING:
    from lamina._watch import Watch


class _Open(threading.local):
    """The watches of a thread, innermost last."""

    def __init__(self) -> None:
        self.watches: list[Watch] = []


open_here = _Open()


def innermost() -> Watch | None:
    return open_here.watches[-1] if open_here.watches else None


def entered(f: Any) -> Any:
    """`f`, or the copy of it that is watched if a jitted function is being traced on this thread."""
    return open_here.watches[-1].entered(f) if open_here.watches else f


def staged(f: Any) -> Any:
    """As `entered`, of a function that is traced into a body of its own: what it raises goes with its own result."""
    watch = innermost()
    if watch is None:
        return f
    inner = watch.entered(f)
    return inner if watch.staging is None else watch.staging.framed(inner)


def taken(x: Tensor) -> None:
    """Notes that Python took the value of `x`: what it was made of is guarded by value in the trace under way."""
    watch = innermost()
    if watch is not None:
        watch.reads.taken(x)
