"""Names of the axes that open vmaps have."""

from __future__ import annotations

from typing import Any

from lamina import _core
from lamina._core import Tensor
from lamina._source import user_frame


def key(name: Any) -> str:
    """What stands for a name in recorded programs: itself for text. TypeError for what is not hashable."""
    try:
        hash(name)
    except TypeError:
        raise TypeError(f"an axis name is hashable, as text is, not {name!r:.60}") from None
    if isinstance(name, str):
        if not name:
            raise ValueError("an axis name is not empty")
        return name
    return f"<{type(name).__name__}> {name!r}"


def names(axis_name: Any) -> tuple[Any, ...]:
    """One name, or several as a tuple or list."""
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def bound(name: Any) -> tuple[int, Tensor]:
    """(size, this lane's number) of the innermost axis of that name. NameError if there is none."""
    found = _core.lane(key(name))
    if found is None:
        frame = user_frame()
        at = f" at {frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
        known = ", ".join(f"{n!r} of size {size}" for n, size in _core.bound_axes())
        raise NameError(
            f"unbound axis name: {name}{at}; "
            + (f"bound here: {known}" if known else "no vmap with an axis_name is open here")
        )
    return found
