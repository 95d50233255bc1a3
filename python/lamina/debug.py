"""Looking at values while programs run: `print` and `callback`, as jax.debug's.

They run once each time the program passes there, in program order, under every transform: `vmap` calls lane after
lane, a derivative in its forward pass.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import string
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lamina import _callback
from lamina._core import Tensor
from lamina._functions import need_function
from lamina._tensor import numpy, to_tensor
from lamina.tree import tree_flatten, tree_unflatten

__all__ = ["callback", "print"]


def callback(
    callback: Callable[..., Any] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls callback(*args, **kwargs) with NumPy arrays for the arrays among them; what it returns is dropped.

    It runs on the thread that runs the program, and what it raises reaches that program's caller. All are in order, so
    `ordered` changes nothing, as does `partitioned`. Without a function: what takes it with its arguments, all of which
    are the function's then, ``callback(ordered=True)(f, x)``; TypeError for arguments without a function.

    >>> lm.jit(lambda x: (lm.debug.callback(log.append, x), x + 1)[1])(lnp.ones(3))
    """
    if callback is None:
        return _later("callback", _call, args, kwargs)
    _call(callback, *args, **kwargs)
    return None


def _call(callback: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
    need_function(callback, "debug.callback")
    _record(callback, args, kwargs)


def _later(name: str, f: Callable[..., None], args: Any, kwargs: Any) -> Callable[..., None]:
    """`f`, as what a call without a function or a format gives; TypeError where arguments come too early."""
    if args or kwargs:
        raise TypeError(
            f"debug.{name} without its first argument takes options only: give the others in the second call, "
            f"debug.{name}(ordered=True)(first, x)"
        )
    return f


def _record(f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    leaves, treedef = tree_flatten((tuple(args), dict(kwargs)))
    arrays = [i for i, x in enumerate(leaves) if isinstance(x, Tensor) or type(x).__module__ == "numpy"]
    fixed = [None if i in arrays else x for i, x in enumerate(leaves)]

    def run(operands: list[Any], _: list[Any]) -> list[Any]:
        values = list(fixed)
        for i, x in zip(arrays, operands):
            values[i] = numpy(x)
        given, named = tree_unflatten(treedef, values)
        f(*given, **named)
        return []

    _callback.effect(run, [to_tensor(leaves[i]) for i in arrays], [])


class _Format(string.Formatter):
    """str.format that refuses arguments that no field shows."""

    def check_unused_args(self, used_args: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        idle = [repr(i) for i in range(len(args)) if i not in used_args]
        idle += [repr(k) for k in kwargs if k not in used_args]
        if idle:
            raise ValueError(
                f"debug.print: no field of the format shows the argument {', '.join(idle)}; write {{}} or {{name}} for "
                "each (an f-string shows values before they are known)"
            )


_format = _Format()


class _Anything:
    """Stands for a value that is not known yet in the check of a format."""

    def __format__(self, spec: str) -> str:
        return ""

    def __getattr__(self, name: str) -> _Anything:
        return self

    def __getitem__(self, item: Any) -> _Anything:
        return self

    def __repr__(self) -> str:
        return ""


def print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """Prints fmt.format(*args, **kwargs) when the arrays among them are known, once each time the program passes here.

    ValueError for arguments that `fmt` does not show, IndexError and KeyError for fields without one, where it is
    recorded. NumPy's print options are those in force there. All are in order, so `ordered` changes nothing, as does
    `partitioned`. Without a format: what takes it with its arguments, ``print(ordered=True)("x: {}", x)``; TypeError for
    arguments without a format.

    >>> lm.debug.print("loss {} after {n} steps", loss, n=n)
    """
    write = functools.partial(_print, not skip_format_check, builtins.print)
    if fmt is None:
        return _later("print", write, args, kwargs)
    write(fmt, *args, **kwargs)
    return None


def _print(check: bool, write: Callable[[str], Any], fmt: str, /, *args: Any, **kwargs: Any) -> None:
    if not isinstance(fmt, str):
        raise TypeError(f"debug.print needs a format string first, not {fmt!r:.60}")
    if check:
        unknown = _Anything()
        _format.vformat(fmt, [unknown] * len(args), dict.fromkeys(kwargs, unknown))
    np = sys.modules.get("numpy")  # whose options cannot have been set where it is not loaded
    options = np.get_printoptions() if np else {}

    def show(*given: Any, **named: Any) -> None:
        with np.printoptions(**options) if np else contextlib.nullcontext():
            text = _format.vformat(fmt, given, named)
        write(text)

    _record(show, args, kwargs)
