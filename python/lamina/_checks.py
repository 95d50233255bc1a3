"""Checks of what compiled programs take for granted."""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from lamina import _core
from lamina._read_set import Unseen
from lamina._source import user_frame

_MODES = ("off", "warn", "raise")


class _Modes(threading.local):
    reads = "off"
    index = "off"


_modes = _Modes()


def is_open() -> bool:
    """Whether any scope is open, in the whole process: a call outside of any asks for one number only."""
    return _core.add_check_scopes(0) > 0


@contextlib.contextmanager
def checks(reads: str = "raise", index: str = "raise", nan: str = "off") -> Iterator[None]:
    """What is traced and called inside the block, or inside a function it decorates, is checked.

    `reads`: what a jitted function uses besides its arguments is seen anew at each call, except for some things that
    no guard can ask for: clocks, files, random numbers and settings of other libraries, the state of the process
    (``np.geterr``, the decimal context, whether a logger is enabled), attributes whose names special methods make, and
    what the function writes, which it writes only when it is traced. A call that a finished trace serves while one of
    these has changed, or would have happened again, raises RuntimeError, with its name and the line that uses it.

    `index`: an index out of range in an array (``x[i]``, ``take``, ``put``, ...), which inside `jit`, `vmap` and loops
    silently means the nearest element or none, raises IndexError when the program runs, with its value, the axis, its
    size and the line. Functions are traced once more for this, and run slower.

    `nan`: a NaN that an operation made among the results of what runs (a jitted call, or what is computed at once)
    raises FloatingPointError with the first such operation and its line, forward and backward. Only then is the program
    run once more, step by step; otherwise it has its usual speed.

    Each is ``"raise"``, ``"warn"`` (a warning instead; not of `nan`) or ``"off"``; ValueError for any other. Blocks
    nest; other threads are not concerned.

    >>> with lm.checks():
    ...     trainer.step(batch)
    """
    for name, mode in (("reads", reads), ("index", index)):
        if mode not in _MODES:
            raise ValueError(f"{name} must be 'off', 'warn' or 'raise', not {mode!r}")
    if nan not in ("off", "raise"):
        raise ValueError(f"nan must be 'off' or 'raise', not {nan!r}")
    saved = _modes.reads, _modes.index
    _modes.reads, _modes.index = reads, index
    looked = _core.set_nan_checks(nan == "raise")
    _core.add_check_scopes(1)
    try:
        yield
    finally:
        _core.add_check_scopes(-1)
        _core.set_nan_checks(looked)
        _modes.reads, _modes.index = saved


def debug_nans(on: bool = True) -> contextlib.AbstractContextManager[None]:
    """``checks(nan="raise")`` and nothing else, inside the block; with False, not."""
    return checks(_modes.reads, _modes.index, "raise" if on else "off")


@contextlib.contextmanager
def recording_indices(on: bool) -> Iterator[None]:
    """Has indices checked as part of a result (lamina.experimental.checkify), or as they were around it."""
    saved = _modes.index
    _modes.index = "record" if on else saved
    _core.add_check_scopes(1)
    try:
        yield
    finally:
        _core.add_check_scopes(-1)
        _modes.index = saved


def index_mode() -> str:
    """How indices that a program computes are checked on this thread."""
    return _modes.index if is_open() else "off"


def warn(text: str) -> None:
    """Warns at the user's line, if one is running."""
    frame, level = user_frame(), 2
    here = sys._getframe(1)
    while frame is not None and here is not None and here is not frame:
        here, level = here.f_back, level + 1
    warnings.warn(text, stacklevel=level)


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
        warn(text)
