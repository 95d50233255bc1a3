"""Checks of what compiled programs take for granted."""

from __future__ import annotations

import collections
import contextlib
import math
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from lamina import _core, _leaks, dtypes
from lamina._read_set import Unseen
from lamina._source import describe, user_frame

_MODES = ("off", "warn", "raise")


class _Modes(threading.local):
    reads = "off"
    index = "off"
    tracing = True


_modes = _Modes()


def is_open() -> bool:
    """Whether any scope is open, in the whole process: a call outside of any asks for one number only."""
    return _core.add_check_scopes(0) > 0


@contextlib.contextmanager
def checks(
    reads: str = "raise", index: str = "raise", nan: str = "off", leaks: str = "off"
) -> Iterator[None]:
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

    `leaks`: a value of a traced function (jitted, mapped, the body of a loop or a branch) that something still holds
    when its trace has ended raises RuntimeError with its type and line, and with what holds it. Where such a value is
    used later is an error without that. All objects of the process are looked at after each trace, which takes time;
    those that ``gc.freeze()`` took out of the collector's sight are not.

    Each is ``"raise"``, ``"warn"`` (a warning instead; not of `nan` and `leaks`) or ``"off"``; ValueError for any other.
    Blocks nest; other threads are not concerned.

    >>> with lm.checks():
    ...     trainer.step(batch)
    """
    for name, mode in (("reads", reads), ("index", index)):
        if mode not in _MODES:
            raise ValueError(f"{name} must be 'off', 'warn' or 'raise', not {mode!r}")
    for name, mode in (("nan", nan), ("leaks", leaks)):
        if mode not in ("off", "raise"):
            raise ValueError(f"{name} must be 'off' or 'raise', not {mode!r}")
    saved = _modes.reads, _modes.index
    _modes.reads, _modes.index = reads, index
    looked = _core.set_nan_checks(nan == "raise")
    leaked = _leaks.looked_for(leaks == "raise")
    _core.add_check_scopes(1)
    try:
        yield
    finally:
        _core.add_check_scopes(-1)
        _core.set_nan_checks(looked)
        _leaks.looked_for(leaked)
        _modes.reads, _modes.index = saved


def debug_nans(on: bool = True) -> contextlib.AbstractContextManager[None]:
    """``checks(nan="raise")`` and nothing else, inside the block; with False, not."""
    return checks(_modes.reads, _modes.index, "raise" if on else "off", _leaks.mode())


def checking_leaks(on: bool = True) -> contextlib.AbstractContextManager[None]:
    """``checks(leaks="raise")`` and nothing else, inside the block; with False, not."""
    nan = _core.set_nan_checks(False)
    _core.set_nan_checks(nan)
    return checks(_modes.reads, _modes.index, "raise" if nan else "off", "raise" if on else "off")


@contextlib.contextmanager
def no_tracing(on: bool = True) -> Iterator[None]:
    """A jitted function that would be traced inside the block raises RuntimeError, with what it was traced for before.

    For loops that are to run compiled from some step on. Blocks nest, with False tracing again; other threads are not
    concerned.

    >>> with lm.no_tracing():
    ...     for batch in batches:
    ...         state = step(state, batch)
    """
    saved, _modes.tracing = _modes.tracing, not on
    try:
        yield
    finally:
        _modes.tracing = saved


def may_trace(name: str, leaves: Iterable[Any], known: Iterable[Any]) -> None:
    """RuntimeError inside `no_tracing`; `known`: the types that the function `name` was traced for."""
    if _modes.tracing:
        return
    from lamina._shapes import ShapeDtype
    from lamina._tensor import describe

    def text(types: Iterable[Any]) -> str:
        return "(" + ", ".join(describe(ShapeDtype(shape, dtype)) for shape, dtype, *_ in types) + ")"

    now = text((x.shape, x.dtype) for x in leaves)
    before = sorted({text(types) for types in known})
    if now in before:
        reason = (
            "it was, for these types, but with another structure, static value, branch or thing that it reads"
        )
    else:
        reason = "so far it was for " + ", ".join(before) if before else "it has not been so far"
    raise RuntimeError(
        f"{name}{now} would be traced inside no_tracing: {reason}\n"
        "  Call it once before the block, with arguments like these."
    )


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


def tell_of_unused(name: str, donated: Iterable[Any], results: Iterable[tuple[Any, Any, Any]]) -> None:
    """Warns of Tensors donated to the function `name` in whose memory none of the results can be written.

    `results`: element type, shape and weakness of each.
    """
    sizes = collections.Counter(
        math.prod(shape) * dtypes.TABLE[str(dtype)].itemsize for dtype, shape, _ in results
    )
    unused = []
    for x in donated:
        if sizes[x.nbytes]:
            sizes[x.nbytes] -= 1
        else:
            unused.append(describe(x))
    if unused:
        warn(
            f"donated to {name} in vain: {', '.join(unused)}. No result has the size of such an array, so none is "
            "written in its place: donate what results replace"
        )


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
