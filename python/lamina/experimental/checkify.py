"""Checks in traced programs, as jax.experimental.checkify's: `checkify(f)` gives (error, result) instead of raising.

`check` states what must hold. In `checkify(f, errors=user_checks)` it becomes part of the result, at compiled speed and
under every transform; elsewhere the program raises JaxRuntimeError where it does not hold. `nan_checks`, `div_checks`
and `index_checks` look at every NaN, division by zero and index out of range in what `f` records, loops, branches and
derivatives that it takes included. The first failure is the one that is told, with its line.
"""

from __future__ import annotations

import collections
import enum
import functools
import itertools
import threading
from collections.abc import Callable, Collection
from typing import Any

from lamina import _callback, _checks, _core, _source, _traces, ref
from lamina._core import Tensor
from lamina._tensor import describe, numpy, to_tensor
from lamina._transforms import _Flat, _flatten_arguments, _name, _passed_by
from lamina.tree import register, tree_flatten, tree_unflatten


class ErrorCategory(enum.Enum):
    """Kinds of checks."""

    user = "user"
    nan = "nan"
    index = "index"
    division = "division"


user_checks = frozenset({ErrorCategory.user})
nan_checks = frozenset({ErrorCategory.nan})
index_checks = frozenset({ErrorCategory.index})
div_checks = frozenset({ErrorCategory.division})
float_checks = nan_checks | div_checks
automatic_checks = float_checks | index_checks
all_checks = automatic_checks | user_checks


class JaxRuntimeError(ValueError):
    """A check that did not hold."""


class _Messages:
    """What failed, by number. Those with values are kept for the last `_KEPT` failures."""

    _KEPT = 4096

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)
        self.known: dict[str, int] = {}
        self.texts: dict[int, str] = {}
        self.with_values: collections.deque[int] = collections.deque()

    def number(self, text: str) -> int:
        """Of a message without values: always the same."""
        with self.lock:
            if text not in self.known:
                self.known[text] = next(self.numbers)
                self.texts[self.known[text]] = text
            return self.known[text]

    def failed(self, text: str) -> int:
        """Of a failure with its values."""
        with self.lock:
            n = next(self.numbers)
            self.texts[n] = text
            self.with_values.append(n)
            if len(self.with_values) > self._KEPT:
                self.texts.pop(self.with_values.popleft())
            return n

    def text(self, number: int) -> str:
        return self.texts.get(number, "a check failed, too long ago for its message to be kept")


_messages = _Messages()


class Error:
    """What `checkify` found: `get()` is a message or None, `throw()` raises it. A container of one array."""

    def __init__(self, code: Any) -> None:
        self._code = code

    def get(self) -> str | None:
        """The message of the first check that failed, under `vmap` of each lane's; None if all held."""
        codes = numpy(to_tensor(self._code))
        if codes.ndim == 0:
            return _messages.text(int(codes)) if codes else None
        import numpy as np

        found = [
            f"at mapped index {', '.join(map(str, at))}: {_messages.text(int(codes[tuple(at)]))}"
            for at in np.argwhere(codes).tolist()
        ]
        return "\n".join(found) or None

    def get_exception(self) -> JaxRuntimeError | None:
        """What `throw` raises; None if all held."""
        text = self.get()
        return None if text is None else JaxRuntimeError(text)

    def throw(self) -> None:
        """Raises JaxRuntimeError if a check failed."""
        check_error(self)

    def __repr__(self) -> str:
        if not isinstance(self._code, Tensor):
            return f"Error({self._code!r})"
        return f"Error({self.get() if _core.forceable(self._code) else describe(self._code)})"


register(Error, lambda e: ((e._code,), None), lambda _, children: Error(*children))


def init_error() -> Error:
    """The error of a program in which nothing failed."""
    return Error(to_tensor(0).astype("int32"))


def _place() -> str:
    frame = _source.user_frame()
    return f" at {frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""


def _told(text: str, place: str) -> str:
    """What failed, and where."""
    return text + place


def _record(holds: Tensor, text: Callable[..., str], static_text: str, values: list[Tensor]) -> None:
    """A check whose message is text(*values as NumPy arrays)."""
    count = len(values)

    def run(operands: list[Any], _: list[Any]) -> list[Any]:
        if len(operands) == count:  # as part of a result
            return [to_tensor(_messages.failed(text(*map(numpy, operands)))).astype("int32")]
        token, held, *given = operands
        if not bool(held):
            raise JaxRuntimeError(text(*map(numpy, given)))
        return [token]

    number = _messages.number(static_text)
    _core.effect([_callback.operand(run), holds, *values], [], number)


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    """States that the scalar `pred` holds; else the error says msg.format(*fmt_args, **fmt_kwargs).

    Inside `checkify` it is part of the result, elsewhere the program raises JaxRuntimeError where it does not hold.
    With `debug` it is left out unless `checkify` looks at it. TypeError for a `pred` that is no scalar.
    """
    holds = to_tensor(pred)
    if holds.shape != ():
        raise TypeError(f"check takes a scalar pred, not {describe(holds)}; use .all() of it")
    if debug and not _looking.depth:
        return
    holds = holds != 0 if holds.dtype.kind != "b" else holds
    place = _place()
    leaves, treedef = tree_flatten((fmt_args, fmt_kwargs))
    arrays = [i for i, x in enumerate(leaves) if isinstance(x, Tensor) or type(x).__module__ == "numpy"]

    values = [to_tensor(leaves[i]) for i in arrays]
    for i in arrays:
        leaves[i] = None  # the check outlives the trace, and keeps nothing of it

    def text(*values: Any) -> str:
        filled = list(leaves)
        for i, x in zip(arrays, values):
            filled[i] = x
        given, named = tree_unflatten(treedef, filled)
        return _told(f"{msg.format(*given, **named)} (`check` failed)", place)

    _record(holds, text, _told(f"{msg} (`check` failed)", place) if arrays else text(), values)


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    """A `check` that is left out unless `checkify` looks at it."""
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


def check_error(error: Error) -> None:
    """States that nothing failed: raises the error's message, or passes it on inside `checkify`."""
    if not isinstance(error, Error):
        raise TypeError(f"check_error takes an Error, as checkify gives it, not {error!r:.60}")
    from lamina import numpy as lnp

    code = to_tensor(error._code)
    _record(lnp.all(code == 0), lambda c: Error(c).get() or "", "an error was passed on", [code])


def index_check(
    index: Tensor, low: int, last: int, size: int, of: str, shape: tuple[int, ...] | None, place: str
) -> None:
    """That indices are within low..last, in `of` of this size of an array of this shape, where that is known."""
    from lamina import numpy as lnp

    def text(values: Any) -> str:
        outside = values[(values < low) | (values > last)].ravel()
        wrong = outside[0] if outside.size else "?"  # of a lane in which the check holds: nobody reads it
        array = "" if shape is None else f" for array of shape {tuple(shape)}"
        what = f"out-of-bounds indexing{array}: index {wrong} is out of bounds for {of} with size {size}"
        return _told(what, f"\n{place}" if place else "")

    _record(lnp.all((index >= low) & (index <= last)), text, "out-of-bounds indexing", [index])


class _Looking(threading.local):
    depth = 0  # of checkify's functions that are being traced for user checks


_looking = _Looking()


def checkify(f: Callable[..., Any], errors: Collection[ErrorCategory] = user_checks) -> Callable[..., Any]:
    """A function giving (Error, result of f), for the kinds of checks in `errors`.

    `f` is traced, as by `jit`, on arrays in containers; bools of Python and what is no array it gets as they are. NaN,
    division and indices are not looked at without their kind; `check` raises without user_checks and index_checks.
    """
    errors = frozenset(errors)
    unknown = [e for e in errors if not isinstance(e, ErrorCategory)]
    if unknown:
        raise TypeError(
            f"checkify: errors are sets of this module such as user_checks, not {unknown[0]!r:.60}"
        )

    @functools.wraps(f)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given, structure = tree_flatten((args, kwargs), is_leaf=ref.is_ref)
        passed = {i for i, x in enumerate(given) if type(x) is bool}
        passed |= _passed_by([None] * len(given), [to_tensor(0) if ref.is_ref(x) else x for x in given])
        if passed:

            def of_arrays(*arrays: Any) -> Any:
                rest = iter(arrays)
                full = [x if i in passed else next(rest) for i, x in enumerate(given)]
                own, named = tree_unflatten(structure, full)
                return f(*own, **named)

            of_arrays.__name__ = _name(f)
            return checkify(of_arrays, errors)(*(x for i, x in enumerate(given) if i not in passed))
        leaves, treedef = _flatten_arguments(f, args, kwargs)
        flat = _Flat(f, treedef, given=leaves, refs=ref.lent())

        def of_leaves(given: list[Tensor]) -> list[Tensor]:
            user = ErrorCategory.user in errors
            with _checks.recording_indices(ErrorCategory.index in errors):
                _looking.depth += user
                try:
                    return flat(given)
                finally:
                    _looking.depth -= user

        outputs, code = _core.checked(
            of_leaves,
            leaves,
            bool({ErrorCategory.user, ErrorCategory.index} & errors),
            ErrorCategory.nan in errors,
            ErrorCategory.division in errors,
            _number,
        )
        return Error(code), tree_unflatten(flat.out_tree, flat.settled(args, kwargs, outputs))

    return checked


def _number(what: str, place: str) -> int:
    op, space, at = place.partition(" ")
    kind, _, of = op.partition(".")
    name = f"{kind}_{_traces._REDUCTIONS[of]}" if of else _traces._NAMES.get(op, op)
    text = f"nan generated by primitive: {name}" if what == "nan" else "division by zero"
    return _messages.number(_told(text, (space + at).rstrip()))
