"""Python's own functions on traced values, where Python would need their values: range, min, max, int, sorted, ..."""

from __future__ import annotations

import builtins
import functools
import types
from collections.abc import Callable, Iterator, MappingView
from typing import Any

from lamina import _core
from lamina._convert.errors import refusal, shown
from lamina._convert.merging import as_tensor, is_numeric
from lamina._convert.staging import is_traced
from lamina._core import Tensor
from lamina._interop import as_integer
from lamina.numpy._common import default_float, promote_inexact


class TracedRange:
    """A range of which a bound is traced."""

    def __init__(self, *bounds: Any) -> None:
        start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        for x in (start, stop, step):
            if type(x) is Tensor and (x.ndim or x.dtype.kind not in "iu"):
                raise TypeError(f"range needs integers, not {x.dtype.name}{list(x.shape)}")
        if is_traced(step):
            raise refusal(
                "a range whose step is only known when the program runs",
                "Make the step a plain integer, or write the loop with `while`.",
            )
        step = int(step)
        if step == 0:
            raise ValueError("range() arg 3 must not be zero")
        self.start, self.step = start, step
        gap = (stop - start) if step > 0 else (start - stop)
        self.length = (gap + (abs(step) - 1)) // abs(step)

    def item(self, k: Any) -> Any:
        return self.start + k * self.step

    def __iter__(self) -> Any:
        raise refusal(
            "a comprehension or a call over a range whose length is only known when the program runs: its result has "
            "no length",
            "Write a `for` over it, or make the bound a plain integer (static_argnums).",
        )


def _extreme(name: str) -> Callable[..., Any]:
    def extreme(*args: Any, key: Any = None, **default: Any) -> Any:
        from lamina import numpy as lnp

        items = args if len(args) > 1 else list(args[0])
        if not items:
            return getattr(builtins, name)(items, **default)
        if key is None:
            return functools.reduce(getattr(lnp, f"{name}imum"), items)
        before = lnp.less if name == "min" else lnp.greater
        best, rank = items[0], key(items[0])
        for x in items[1:]:
            now = key(x)
            better = before(now, rank)
            best, rank = lnp.where(better, x, best), lnp.where(better, now, rank)
        return best

    return extreme


def _sorted(items: Any, *, key: Any = None, reverse: bool = False) -> Any:
    from lamina import numpy as lnp

    values = lnp.stack([lnp.asarray(x) for x in items])
    keys = values if key is None else lnp.stack([lnp.asarray(key(x)) for x in items])
    if keys.ndim != 1:
        raise refusal(
            f"`sorted` of traced values by arrays of shape {list(keys.shape[1:])}, which have no order",
            "Sort by one number of each: sorted(items, key=...).",
        )
    return list(values[lnp.argsort(keys, descending=bool(reverse))])


def _joined(name: str) -> Callable[..., Any]:
    def joined(items: Any) -> Any:
        from lamina import numpy as lnp

        return getattr(lnp, name)(lnp.stack([lnp.asarray(x) != 0 for x in items]))

    return joined


def _converted(kind: str) -> Callable[..., Any]:
    def convert(x: Any) -> Any:
        from lamina import numpy as lnp

        if x.size != 1:
            raise TypeError(f"only an array of one element can become a number, not shape {list(x.shape)}")
        x = x.reshape(())
        if kind == "bool":
            return x != 0
        if x.dtype.kind == "c":
            raise TypeError(f"{kind}() takes real numbers, not {x.dtype.name}: take x.real")
        if kind == "int":
            return as_integer(lnp.trunc(x))
        return _core.set_weak(x.astype("float64" if x.dtype.itemsize == 8 else default_float()), True)

    return convert


def _complex(real: Any, imag: Any = 0) -> Any:
    parts = promote_inexact(real, imag)
    if parts[0].dtype.kind == "c":
        raise TypeError(f"complex() takes real parts, not {parts[0].dtype.name}")
    if parts[0].dtype.itemsize < 4:
        parts = [p.astype(default_float()) for p in parts]
    return _core.set_weak(_core.elementwise("complex", *parts), True)


REPLACED: dict[Any, Callable[..., Any]] = {
    range: TracedRange,
    min: _extreme("min"),
    max: _extreme("max"),
    sorted: _sorted,
    any: _joined("any"),
    all: _joined("all"),
    int: _converted("int"),
    float: _converted("float"),
    complex: _complex,
    bool: _converted("bool"),
}


def replacement(f: Any) -> Callable[..., Any] | None:
    """What stands for a function of Python where an argument is traced."""
    return REPLACED.get(f) if isinstance(f, (type, types.BuiltinFunctionType)) else None


def _holds_traced(x: Any) -> bool:
    return is_traced(x) or (type(x) in (list, tuple) and builtins.any(map(is_traced, x)))


def replacing(
    f: Any, plain: Any, other: Callable[..., Any], watched: Callable[[Any], Any]
) -> Callable[..., Any]:
    """`plain`, or `other` where an argument is traced; what `other` calls is `watched`."""
    if f in (any, all, min, max, sorted):

        def over(*args: Any, **kwargs: Any) -> Any:
            if len(args) == 1 and isinstance(args[0], (Iterator, MappingView)):
                args = (list(args[0]),)
            if not builtins.any(map(_holds_traced, args)):
                return plain(*args, **kwargs)
            if kwargs.get("key") is not None:
                kwargs["key"] = watched(kwargs["key"])
            return other(*args, **kwargs)

        return over

    def call(*args: Any, **kwargs: Any) -> Any:
        return (other if builtins.any(map(is_traced, args)) else plain)(*args, **kwargs)

    return call


def contained(x: Any, container: Any, plain: Callable[[], bool]) -> Any:
    """``x in container``."""
    if type(container) is Tensor and (is_traced(container) or is_traced(x)):
        return (container == x).any()
    if isinstance(container, range) and is_traced(x):
        inside = (x >= container.start) & (x < container.stop)
        if container.step < 0:
            inside = (x <= container.start) & (x > container.stop)
        return inside & ((x - container.start) % abs(container.step) == 0)
    if isinstance(container, (list, tuple, set, frozenset, dict)):
        items = list(container)
        if is_traced(x) or builtins.any(map(is_traced, items)):
            numeric = (Tensor, bool, int, float, complex)
            found = [x == e for e in items if isinstance(e, numeric) and isinstance(x, numeric)]
            return functools.reduce(lambda a, b: a | b, found, False)
    return plain()


def element(items: Any, index: Tensor) -> Any:
    """The element of a list or tuple of arrays and numbers at a traced index, which is limited as in an array."""
    from lamina import numpy as lnp

    values = [as_tensor(x) for x in items if is_numeric(x)]
    if not values or len(values) < len(items) or len({v.shape for v in values}) > 1:
        raise refusal(
            f"an index that is only known when the program runs, of {shown(items)} that holds other things than "
            "arrays or numbers of one shape",
            "Make the index a plain integer, or the container an array.",
        )
    return _core.set_weak(lnp.stack(values)[index], builtins.all(v.weak_type for v in values))
