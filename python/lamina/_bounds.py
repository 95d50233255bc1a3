"""Indices out of range that are only known when a program runs.

Outside `jit`, an index in a Tensor is checked when it is known: at once where it is computed, else at the next read of
any value on this thread.
"""

from __future__ import annotations

import threading
from typing import Any

from lamina import _core, _source
from lamina._core import Tensor

# Indices that wait for the next read; more are computed at once.
_MAX_PENDING = 64


class _Pending(threading.local):
    def __init__(self) -> None:
        self.checks: list[tuple[Tensor, int, int, bool, str]] = []


pending = _Pending()


def check_known(index: Any, size: int, axis: int, negative: bool = True) -> None:
    """Raises IndexError where `index` (a Tensor of integers) is known and outside -size..size-1, now or when it is read.

    Nothing inside `jit`, nor for what depends on an argument of a trace. Without `negative`, the range is 0..size-1.
    """
    if not isinstance(index, Tensor) or index.dtype.kind not in "iu" or index.size == 0:
        return
    if _core.inside_jit() or not _core.forceable(index):
        return
    frame = _source.user_frame()
    place = _source.place_of(frame).shown() if frame and not _core.is_computed(index) else ""
    check = (_core.set_weak(index, False), size, axis, negative, place)
    if _core.is_computed(index):
        _run(check)
        return
    if any(c[1:4] == check[1:4] and _core.same_value(c[0], index) for c in pending.checks):
        return  # x[i] += v looks twice
    pending.checks.append(check)
    _core.note_checks(True)
    if len(pending.checks) > _MAX_PENDING:
        run_pending()


def run_pending(keep: bool = False) -> None:
    """Checks what waits. With `keep` a check that fails is made again: the caller of a buffer may hide its error."""
    checks, pending.checks = pending.checks, []
    _core.note_checks(False)
    for i, check in enumerate(checks):
        try:
            _run(check)
        except BaseException:
            pending.checks = checks[i if keep else i + 1 :]
            _core.note_checks(bool(pending.checks))
            raise


def _run(check: tuple[Tensor, int, int, bool, str]) -> None:
    import numpy as np

    index, size, axis, negative, place = check
    values = np.asarray(_core.raw_bits(_core.value_of(index))).view(index.dtype.name)
    low, high = int(values.min()), int(values.max())
    least = -size if negative else 0
    if low < least or high >= size:
        wrong = high if high >= size else low
        raise IndexError(
            f"index {wrong} is out of bounds for axis {axis} with size {size}"
            + (f"\n{place}" if place else "")
        )
