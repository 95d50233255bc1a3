"""Indices out of range that are only known when a program runs.

Outside `jit`, an index in a Tensor is checked when it is known: at once where it is computed, else at the next read of
any value on this thread. Inside `jit`, `vmap` and loop bodies it is not, but under ``lamina.checks(index=...)``: then
the program looks at it while it runs.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from lamina import _checks, _core, _source
from lamina._core import Tensor

# Indices that wait for the next read; more are computed at once.
_MAX_PENDING = 64


class _Range(NamedTuple):
    """The indices that are allowed, and what is said of others."""

    low: int
    size: int
    of: str
    error: type[Exception]
    shape: tuple[int, ...] | None = None  # of the array

    def check(self, low: int, high: int, spot: _source.Spot | None) -> None:
        """Raises where the least or the greatest index lies outside: the user used them at `spot`."""
        if low < self.low or high >= self.size:
            wrong = high if high >= self.size else low
            raise self.error(
                f"index {wrong} is out of bounds for {self.of} with size {self.size}"
                + (f"\n{spot.shown()}" if spot else "")
            )


class _Pending(threading.local):
    def __init__(self) -> None:
        self.checks: list[tuple[Tensor, _Range, _source.Spot | None]] = []
        # What the first of them raised, which a caller may have hidden.
        self.failed: BaseException | None = None


pending = _Pending()


def checked(
    index: Any,
    size: int,
    axis: int | str,
    negative: bool = True,
    error: type[Exception] = IndexError,
    shape: tuple[int, ...] | None = None,
) -> Any:
    """`index` (a Tensor of integers), which must be inside -size..size-1, or 0..size-1 without `negative`.

    Raises `error` (IndexError) where it is known and is not, now or when it is read. Inside `jit`, and for what depends
    on an argument of a trace, it is given back as it is, or under `lamina.checks` tied to a check that the program
    makes. `axis` is a number, or what the range is that of; `shape` is the array's.
    """
    if not isinstance(index, Tensor) or index.dtype.kind not in "iu" or index.size == 0:
        return index
    allowed = _Range(
        -size if negative else 0, size, f"axis {axis}" if isinstance(axis, int) else axis, error, shape
    )
    if _core.inside_jit() or not _core.forceable(index):
        return _watched(index, allowed) if _checks.index_mode() != "off" else index
    computed = _core.is_computed(index)
    check = (_core.set_weak(index, False), allowed, None if computed else _source.user_spot())
    if computed:
        _run(check)
    elif not any(c[1] == allowed and _core.same_value(c[0], index) for c in pending.checks):
        # x[i] += v looks twice.
        pending.checks.append(check)
        _core.note_checks(True)
        if len(pending.checks) > _MAX_PENDING:
            run_pending()
    return index


def recording() -> bool:
    """Whether `checkify` looks at indices."""
    return _checks.index_mode() == "record"


def recorded(start: Tensor, taken: int, shape: tuple[int, ...], axis: int) -> None:
    """That `taken` elements from a slice's start are within the array becomes part of the result of `checkify`."""
    from lamina.experimental.checkify import index_check

    last = shape[axis] - taken
    index_check(start, 0, last, shape[axis], f"axis {axis}", shape, _shown(_source.user_spot()))


def _shown(spot: _source.Spot | None) -> str:
    return spot.shown() if spot else ""


def _watched(index: Tensor, allowed: _Range) -> Tensor:
    """`index`, at which the program looks each time it has computed it."""
    from lamina._callback import pure_callback

    spot, mode = _source.user_spot(), _checks.index_mode()
    if mode == "record":
        from lamina.experimental.checkify import index_check

        size = allowed.size
        index_check(index, allowed.low, size - 1, size, allowed.of, allowed.shape, _shown(spot))
        return index

    def look(values: Any) -> Any:
        try:
            allowed.check(int(values.min()), int(values.max()), spot)
        except allowed.error as e:
            if mode == "raise":
                raise
            _checks.warn(str(e))
        return values

    return pure_callback(look, index, index)


def run_pending(keep: bool = False) -> None:
    """Checks what waits. With `keep` a check that fails is made again: the caller of a buffer may hide its error."""
    checks, pending.checks = pending.checks, []
    _core.note_checks(False)
    for i, check in enumerate(checks):
        try:
            _run(check)
        except BaseException as e:
            pending.checks = checks[i if keep else i + 1 :]
            pending.failed = e if keep and isinstance(e, check[1].error) else None
            _core.note_checks(bool(pending.checks))
            raise


def told(e: BaseException) -> None:
    """Forgets the check that raised `e`, or the same at another look, which the user gets to see now."""
    failed, pending.failed = pending.failed, None
    if type(e) is type(failed) and e.args == failed.args:
        del pending.checks[:1]
        _core.note_checks(bool(pending.checks))


def _run(check: tuple[Tensor, _Range, _source.Spot | None]) -> None:
    index, allowed, spot = check
    allowed.check(*_core.integer_range(index), spot)
