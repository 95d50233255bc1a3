"""Checks of what compiled programs take for granted."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from lamina._read_set import Unseen

_MODES = ("off", "warn", "raise")


class _Modes(threading.local):
    reads = "off"


_modes = _Modes()
open_scopes = 0  # in the whole process, so that a call outside of any asks for one number only


@contextlib.contextmanager
def checks(reads: str = "raise") -> Iterator[None]:
    """Calls of jitted functions inside the block, or inside a function it decorates, are checked.

    `reads`: what a jitted function uses besides its arguments is seen anew at each call, except for some things that
    no guard can ask for: the content of large NumPy arrays, clocks and random numbers of other libraries, and what the
    function writes, which it writes only when it is traced. A call that a finished trace serves while one of these
    has changed, or would have happened again, raises RuntimeError (``"raise"``) or warns (``"warn"``), with its name
    and the line that uses it. ``"off"`` checks nothing. Blocks nest; other threads are not concerned. ValueError for
    any other mode.

    >>> with lm.checks():
    ...     trainer.step(batch)
    """
    if reads not in _MODES:
        raise ValueError(f"reads must be 'off', 'warn' or 'raise', not {reads!r}")
    global open_scopes
    saved, _modes.reads = _modes.reads, reads
    open_scopes += 1
    try:
        yield
    finally:
        open_scopes -= 1
        _modes.reads = saved


def report(name: str, unseen: Iterable[Unseen]) -> None:
    """Raises or warns of what changed without being seen since the function `name` was traced."""
    mode = _modes.reads
    if mode == "off":
        return
    told: list[Any] = [u.told(name) for u in unseen if u.has_changed()]
    if not told:
        return
    if mode == "raise":
        raise RuntimeError("\n".join(told))
    for text in told:
        warnings.warn(text, stacklevel=3)
