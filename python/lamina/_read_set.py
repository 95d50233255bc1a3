"""What a function reads besides its arguments: globals and closure cells of its code and of functions it calls.

Numbers and Tensors are read anew at each call of a jitted function; anything else is guarded by identity. Names in the
user's modules count as globals; attributes of other objects and items of containers are not observed: they are fixed
when the function is traced.
"""

from __future__ import annotations

import dis
import functools
import inspect
import math
import operator
import os
import struct
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator
from typing import Any

from lamina import _core
from lamina._core import Tensor

_LIBRARY = (
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    sysconfig.get_paths()["stdlib"] + os.sep,
)


class Observed:
    """Stands for a free number while a function is traced.

    Used with a Tensor it is a parameter; any other use is noted, and the number is then guarded by its value.
    """

    __slots__ = ("_tensor", "fetched", "used", "value")

    def __init__(self, value: Any, tensor: Tensor) -> None:
        self.value, self._tensor, self.used, self.fetched = value, tensor, False, False

    @property
    def tensor(self) -> Tensor:
        self.fetched = True
        return self._tensor

    def _use(self) -> Any:
        self.used = True
        return self.value

    @property
    def __class__(self) -> type:
        return type(self.value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._use(), name)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy as np

        return np.asarray(self._use(), dtype)


def _binary(f: Callable[[Any, Any], Any], reflected: bool) -> Any:
    def method(self: Observed, other: Any, *rest: Any) -> Any:
        if isinstance(other, Tensor):
            return NotImplemented  # the Tensor's own operator takes it as a parameter
        mine, other = self._use(), plain(other)
        return f(other, mine, *rest) if reflected else f(mine, other, *rest)

    return method


def _unary(f: Callable[..., Any]) -> Any:
    return lambda self, *rest: f(self._use(), *map(plain, rest))


for _name in [
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
    "pow",
    "divmod",
]:
    _f = {"divmod": divmod, "pow": pow}.get(_name) or getattr(operator, f"__{_name}__")
    setattr(Observed, f"__{_name}__", _binary(_f, False))
    setattr(Observed, f"__r{_name}__", _binary(_f, True))
for _name in ("lt", "le", "eq", "ne", "gt", "ge"):
    setattr(Observed, f"__{_name}__", _binary(getattr(operator, _name), False))
for _name, _f in {
    "neg": operator.neg,
    "pos": operator.pos,
    "invert": operator.invert,
    "index": operator.index,
    "abs": abs,
    "bool": bool,
    "float": float,
    "int": int,
    "complex": complex,
    "hash": hash,
    "repr": repr,
    "str": str,
    "format": format,
    "round": round,
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
}.items():
    setattr(Observed, f"__{_name}__", _unary(_f))


def plain(x: Any, kind: type | None = None) -> Any:
    """A number that Python code needs the value of: an observed one (of this kind) is then guarded by it."""
    return x._use() if type(x) is Observed and (kind is None or type(x.value) is kind) else x


def leaf_of(value: Any) -> Tensor:
    """A number as an exact array."""
    if type(value) is float:
        return _core.with_dtype_bits(struct.pack("=d", value), "float64", [])
    return _core.with_dtype_bits(struct.pack("=i", value), "int32", [])


def is_number(value: Any) -> bool:
    return type(value) is float or (type(value) is int and -(2**31) <= value < 2**31)


def _names(code: types.CodeType) -> Iterator[tuple[str, str | None]]:
    """Global names that the code and the functions inside it read, each with the attribute that is read of it."""
    stack = [code]
    while stack:
        c = stack.pop()
        name = None
        for i in dis.get_instructions(c):
            if i.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                name = i.argval
                yield name, None
            elif i.opname in ("LOAD_ATTR", "LOAD_METHOD") and name is not None:
                yield name, i.argval
                name = None
            elif i.opname != "CACHE":
                name = None
        stack.extend(k for k in c.co_consts if isinstance(k, types.CodeType))


def _is_users(path: str | None) -> bool:
    return path is not None and not path.startswith(_LIBRARY) and "site-packages" not in path


def _functions_beneath(f: Any) -> list[types.FunctionType]:
    """The user's plain functions under partials, methods, wrappers, callable objects and what this library made."""
    out = []
    stack = [f]
    for _ in range(64):
        if not stack:
            break
        f = stack.pop()
        stack.extend(getattr(f, "_rule_functions", ()))
        if type(f) is functools.partial:
            stack.append(f.func)
            continue
        if type(f) is types.MethodType:
            f = f.__func__
        wrapped = getattr(f, "__wrapped__", None)
        if wrapped is not None:
            stack.append(wrapped)
        elif type(f) is not types.FunctionType:
            f = inspect.getattr_static(type(f), "__call__", None)  # of a user's class
            f = getattr(f, "__wrapped__", f)
        if type(f) is types.FunctionType and _is_users(f.__code__.co_filename):
            out.append(f)
    return out


def find(f: Callable[..., Any]) -> list[tuple[Any, Any, Any]]:
    """(dict or cell, name, object) for each free variable of `f` and of the functions it reaches by them."""
    out: list[tuple[Any, Any, Any]] = []
    seen: set[Any] = set()
    stack = _functions_beneath(f)
    while stack:
        g = stack.pop()
        if g in seen:
            continue
        seen.add(g)
        found: list[tuple[Any, Any, Any]] = []
        names = g.__globals__
        for name, attribute in _names(g.__code__):
            value = names.get(name, current)
            if value is current:
                continue  # a builtin
            if attribute is None:
                found.append((names, name, value))
            elif type(value) is types.ModuleType and _is_users(getattr(value, "__file__", None)):
                inside = vars(value)
                if attribute in inside:
                    found.append((inside, attribute, inside[attribute]))
        for name, cell in zip(g.__code__.co_freevars, g.__closure__ or ()):
            try:
                found.append((cell, name, cell.cell_contents))
            except ValueError:
                continue  # not assigned yet
        for place, name, value in found:
            if (id(place), name) in seen:
                continue
            seen.add((id(place), name))
            out.append((place, sys.intern(name), value))
            if callable(value) and not isinstance(value, type):
                stack.extend(_functions_beneath(value))
    return out


def current(place: Any, name: Any) -> Any:
    """What the name names now; `current` itself if nothing."""
    if isinstance(place, types.CellType):
        try:
            return place.cell_contents
        except ValueError:
            return current
    return place.get(name, current)


def assign(place: Any, name: Any, value: Any) -> None:
    if isinstance(place, types.CellType):
        place.cell_contents = value
    else:
        place[name] = value


def _type_of(t: Tensor) -> tuple[Any, ...]:
    return t.shape, t.dtype, t.weak_type


class ReadSet:
    """The free variables of one trace, as they were then and as they are now."""

    def __init__(self, f: Callable[..., Any]) -> None:
        self.places = [(place, name) for place, name, _ in find(f)]
        self.values = [current(place, name) for place, name in self.places]
        self.hidden: list[Tensor | None] = []
        for v in self.values:
            if type(v) is Observed:  # an outer function is being traced
                self.hidden.append(v._tensor)
            elif is_number(v):
                self.hidden.append(leaf_of(v))
            else:
                self.hidden.append(v if isinstance(v, Tensor) else None)
        self.observed: list[Observed | None] = [
            Observed(v, h) if is_number(v) else None for v, h in zip(self.values, self.hidden)
        ]
        self.captured = [False] * len(self.values)
        self._saved: list[list[tuple[Any, Any, Observed, Any]]] = []
        self._settle()

    def _settle(self) -> None:
        self.guards = tuple([x for (p, n), v in zip(self.places, self.values) for x in (p, n, v)])
        self.tensors = tuple([h for h in self.hidden if h is not None])

    def __enter__(self) -> ReadSet:
        """Puts the observed numbers in their places. A place that has changed hands is left alone."""
        saved = []
        for (place, name), o, v, h in zip(self.places, self.observed, self.values, self.hidden):
            if o is not None and current(place, name) is v and type(v) is not Observed:
                o.value, o._tensor = v, h
                assign(place, name, o)
                saved.append((place, name, o, v))
        self._saved.append(saved)
        return self

    def __exit__(self, *_: Any) -> None:
        for place, name, o, v in self._saved.pop():
            if current(place, name) is o:
                assign(place, name, v)

    def bind(self, program: Any) -> None:
        """Makes `program` take these Tensors at each call."""
        found = iter(program.bind_hidden(self.tensors))
        for i, h in enumerate(self.hidden):
            if h is not None and next(found):
                self.captured[i] = True

    def traced(self) -> None:
        """After a trace: a number that went into it otherwise than as a parameter is guarded by its value."""
        for o, captured in zip(self.observed, self.captured):
            if o is not None and o.fetched and not captured:
                o.used = True

    def refresh(self) -> bool:
        """Takes the names' present values; False if the trace does not serve them."""
        values, hidden = list(self.values), list(self.hidden)
        for i, (place, name) in enumerate(self.places):
            old, now = self.values[i], current(place, name)
            if now is old:
                continue
            o = old if type(old) is Observed else self.observed[i]
            if o is not None:
                value = now.value if type(now) is Observed else now
                if type(value) is not type(o.value) or not is_number(value):
                    return False
                if o.used and (now._use() if type(now) is Observed else now) != o.value:
                    return False
                hidden[i] = now._tensor if type(now) is Observed else leaf_of(now)
            elif isinstance(old, Tensor):
                if not isinstance(now, Tensor) or not self.captured[i] or _type_of(now) != _type_of(old):
                    return False
                hidden[i] = now
            else:
                return False
            values[i] = now
        self.values, self.hidden = values, hidden
        self._settle()
        return True
