"""Entries that a trace found missing or None and filled itself, as a table of what was made before is filled.

What the function does with such an entry is taken to be what it did after filling it: a call is served while the entry
holds what the trace left. Traced again is what may go on from call to call: numbers and arrays, which counts and states
are, and what was written where a default stood in for nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lamina import _core
from lamina._core import Tensor
from lamina._objects import PLAIN
from lamina._read_set import ABSENT, EQUAL, ITEM, KEYS, Read

if TYPE_CHECKING:
    from lamina._watch import Watch


def take(watch: Watch) -> None:
    """Guards what such entries hold now, in the place of that they were not there."""
    found, failed = watch.reads.failing()
    for at in failed:
        read = watch.reads.reads[at]
        if read.test == KEYS and read.parent is not None:
            _grown(watch, read, found[read.parent.at])
        elif (read.test == ABSENT or (read.test == EQUAL and read.expected is None)) and _is_kept(
            watch, read, found[at]
        ):
            _take(watch, read, found[at])


def _grown(watch: Watch, keys: Read, now: Any) -> None:
    """Takes the entries that the trace added to a dict whose keys it had asked for."""
    if not isinstance(now, dict) or keys.parent is None:  # it went away in the trace
        return
    before, after = keys.expected, tuple(now)
    added = after[len(before) :]
    if after[: len(before)] != before:
        return
    reads = [watch.reads.below(keys.parent, ITEM, k) for k in added]
    if all(_is_kept(watch, r, now[k]) for r, k in zip(reads, added)):
        for read, k in zip(reads, added):
            if not _take(watch, read, now[k]):
                return
        keys.expected = after


def _is_kept(watch: Watch, read: Read, value: Any) -> bool:
    """Whether the trace wrote this value, and it is none that may go on from call to call."""
    t = type(value)
    if id(value) not in watch.written or read.at in watch.stood_in:
        return False
    if t in PLAIN:
        return t in (str, bytes, range, slice)
    return not (_core.content_of(value) is not None or hasattr(t, "__array__") or watch.holds_traced(value))


def _take(watch: Watch, read: Read, value: Any) -> bool:
    """Guards the value and all that it holds; False, as before, if arrays are among it."""
    before = read.test, read.expected
    known = len(watch.reads.reads)
    watch.now_outside(read, value)
    if any(type(r.expected) is Tensor for r in watch.reads.reads[known:]):
        read.test, read.expected = before
        return False
    return True
