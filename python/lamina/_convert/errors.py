"""What is said where control flow cannot be converted."""

from __future__ import annotations

import inspect
from typing import Any

from lamina._core import Tensor
from lamina._source import describe, filters_a_comprehension, place_of, user_frame


class ConversionError(TypeError):
    """Control flow on traced values that has no counterpart in a compiled program: what, where, and what to do."""


class Raised(Exception):
    """Every way through a traced block raises; what was raised is noted."""


def without_frames(error: BaseException) -> BaseException:
    """The exception, when it and those that it came from have let go of the frames they were raised in."""
    left, seen = [error], set()
    while left:
        e = left.pop()
        if e is not None and id(e) not in seen:
            seen.add(id(e))
            left += [e.with_traceback(None).__cause__, e.__context__]
    return error


def another(error: BaseException) -> BaseException:
    """An exception like this one, to be raised in its place, which would hold the frames that it goes through.

    Its class is not called, since what that makes of arguments is its own; where it has to be, the exception itself.
    """
    kind = type(error)
    own = next(k for k in kind.__mro__ if k.__module__ == "builtins")
    try:
        _, args, *state = own.__reduce__(error)
        made = kind.__new__(kind, *args)
        own.__init__(made, *args)
        if state:
            made.__setstate__(state[0])
    except Exception:
        return error.with_traceback(None)
    made.__cause__, made.__context__ = error.__cause__, error.__context__
    made.__suppress_context__ = error.__suppress_context__
    return made


def refusal(what: str, remedy: str, line: int = 0) -> ConversionError:
    """An error about the statement at `line` of the user's function that is running, or the line it runs."""
    frame = user_frame()
    at = ""
    if frame is not None and line:
        at = f"\n  {frame.f_code.co_filename}:{line}"
    elif frame is not None:
        at = "\n" + place_of(frame).shown()
    return ConversionError(f"{what}{at}\n  {remedy}")


def shown(x: Any) -> str:
    """A value in words."""
    if isinstance(x, Tensor):
        return describe(x)
    if isinstance(x, (bool, int, float, complex, str, type(None))):
        return repr(x) if not isinstance(x, str) else f"{x!r:.40}"
    if isinstance(x, (list, tuple)):
        return f"a {type(x).__name__} of {len(x)}"
    if isinstance(x, dict):
        return f"a dict with the keys {list(x)!r:.60}"
    return f"a {type(x).__name__}"


def not_converted(shown: str, on: str, f: str, at: str, frame: Any) -> ConversionError:
    """A test on traced values in code that stayed as it was."""
    code = frame.f_code if frame is not None else None
    why, remedy = "it stands where no block can be made of it", "Write it as a statement: if, while or for."
    if code is not None and filters_a_comprehension(frame):
        why = "as the condition of a comprehension it would decide how many elements there are"
        remedy = (
            "Use lamina.numpy.where for the elements, or a `for` that writes to an array of known length."
        )
    elif code is not None and code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE):
        why, remedy = (
            f"{code.co_name} is a generator or a coroutine",
            "Write it as a plain function with a loop.",
        )
    elif code is not None and "__lamina__" not in code.co_freevars:
        why = f"the source of {code.co_name} is not to be had"
        remedy = "Define it in a file, without tools that change its code."
    return ConversionError(f"{shown} depends on {on} of {f}, and was not converted: {why}{at}\n  {remedy}")
