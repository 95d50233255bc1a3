"""Values of two sides of a branch as one: containers by their parts, arrays and numbers by a common type."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from lamina import _core
from lamina._convert.errors import shown
from lamina._convert.signals import MISSING, UNBOUND, Maybe
from lamina._core import Tensor
from lamina._objects import is_users_type
from lamina._observed import Observed
from lamina._tensor import astype, to_tensor

_NUMBERS = (bool, int, float, complex)
MOST_DEEP = 32  # containers inside each other that are looked into


class Out:
    """The number `index` among the results of a traced block."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class Node:
    """A container or object: its parts by key, and how one like it is made. `original` is itself."""

    __slots__ = ("keys", "original", "parts")

    def __init__(self, original: Any, keys: list[Any], parts: list[Any]) -> None:
        self.original, self.keys, self.parts = original, keys, parts

    def made(self, parts: list[Any]) -> Any:
        x = self.original
        t = type(x)
        if t is Maybe:
            return Maybe(*parts)
        if isinstance(x, tuple):
            return t(*parts) if hasattr(x, "_fields") else t(parts)
        if isinstance(x, list):
            return t(parts)
        if isinstance(x, dict):
            new = copy.copy(x)
            new.update(zip(self.keys, parts))
            return new
        new = copy.copy(x)
        for k, v in zip(self.keys, parts):
            object.__setattr__(new, k, v)
        return new


class Conflict:
    """Two values that cannot be one, and why."""

    def __init__(self, why: str) -> None:
        self.why = why


_MAYBE: list[Any] = ["value", "flag"]


def maybe(template: Any) -> Any:
    """The template of a variable that may have no value on another side."""
    if template is UNBOUND:
        return Node(Maybe(None, False), _MAYBE, [MISSING, False])
    return template if is_maybe(template) else Node(Maybe(None, True), _MAYBE, [template, True])


def is_maybe(template: Any) -> bool:
    return type(template) is Node and type(template.original) is Maybe


def is_numeric(x: Any) -> bool:
    return type(x) in (Tensor, Observed) or isinstance(x, _NUMBERS) or _is_array(x)


def _is_array(x: Any) -> bool:
    return type(x).__module__ == "numpy" and hasattr(x, "dtype") and x.dtype.kind in "biufc"


def frozen(x: Any, outs: list[Any] | None, numbers: bool = False, depth: int = 0) -> Any:
    """A template of `x`: its Tensors, and with `numbers` its numbers too, are put into `outs`, if that is given."""
    t = type(x)
    if outs is not None and (t is Tensor or _is_array(x) or (numbers and is_numeric(x))):
        outs.append(as_tensor(x))
        return Out(len(outs) - 1)
    if t is Maybe:
        return Node(x, _MAYBE, [frozen(v, outs, numbers, depth + 1) for v in (x.value, x.flag)])
    if depth > MOST_DEEP:
        return x
    if isinstance(x, (list, tuple)):
        return Node(x, list(range(len(x))), [frozen(v, outs, numbers, depth + 1) for v in x])
    if isinstance(x, dict):
        return Node(x, list(x), [frozen(v, outs, numbers, depth + 1) for v in x.values()])
    if is_users_type(t) and not isinstance(x, type) and hasattr(x, "__dict__") and not callable(x):
        return Node(x, list(x.__dict__), [frozen(v, outs, numbers, depth + 1) for v in x.__dict__.values()])
    return x


def parts_of(x: Any) -> list[Any]:
    """What the parts of the template of a container or object are made of."""
    if type(x) is Maybe:
        return [x.value, x.flag]
    if isinstance(x, (list, tuple)):
        return list(x)
    return list((x if isinstance(x, dict) else getattr(x, "__dict__", {})).values())


def thawed(template: Any, results: list[Any]) -> Any:
    """The value of a template whose outs are `results`."""
    if type(template) is Out:
        return results[template.index]
    if type(template) is Node:
        return template.made([thawed(p, results) for p in template.parts])
    return template


def alike(a: Any, b: Any) -> str:
    """Why two templates have no one structure, or "" if they have."""
    if type(a) is Out and type(b) is Out:
        return ""
    if type(a) is Node and type(b) is Node:
        if type(a.original) is not type(b.original) or a.keys != b.keys:
            return f"{shown(a.original)} and {shown(b.original)}"
        return next(filter(None, map(alike, a.parts, b.parts)), "")
    if type(a) in (Out, Node) or type(b) in (Out, Node):
        return f"{_told(a)} and {_told(b)}"
    return "" if a is b or _equal(a, b) else f"{shown(a)} and {shown(b)}"


def _told(x: Any) -> str:
    return "an array" if type(x) is Out else shown(x.original if type(x) is Node else x)


def _equal(a: Any, b: Any) -> bool:
    if type(a) is not type(b) or type(a) is Observed:  # whose value would be guarded
        return False
    if isinstance(a, float):
        return repr(a) == repr(b)
    plain = (*_NUMBERS, str, bytes, type(None), range, slice, frozenset)
    return isinstance(a, plain) and bool(a == b)


class Join:
    """Pairs of numeric values that become one result each; `types` gives the type of a side's out."""

    def __init__(self, *types: Callable[[int], tuple[str, list[int], bool]]) -> None:
        self.types = types
        self.pairs: list[tuple[Any, Any]] = []
        self.wanted: list[tuple[str, list[int], bool]] = []

    def joined(self, a: Any, b: Any) -> Any:
        """A template over the pairs for the templates of the two sides, or a Conflict."""
        if a is b and (a is MISSING or a is UNBOUND):
            return a
        if a is MISSING or b is MISSING:
            return self._one_side(a, b)
        if a is UNBOUND or b is UNBOUND or is_maybe(a) != is_maybe(b):
            a, b = maybe(a), maybe(b)
        if type(a) is Node and type(b) is Node:
            if a.original is b.original:
                return a.original  # whose content is joined where it stands
            if type(a.original) is not type(b.original) or a.keys != b.keys:
                return Conflict(f"it is {shown(a.original)} on one side and {shown(b.original)} on the other")
            parts = [self.joined(x, y) for x, y in zip(a.parts, b.parts)]
            return next((p for p in parts if type(p) is Conflict), Node(a.original, a.keys, parts))
        if type(a) is not Node and type(b) is not Node:
            if self._numeric(a) and self._numeric(b):
                return self._pair(a, b)
            if a is b or _equal(a, b):
                return a
        return Conflict(f"it is {_told(a)} on one side and {_told(b)} on the other")

    @staticmethod
    def _numeric(x: Any) -> bool:
        return type(x) is Out or is_numeric(x)

    def _pair(self, a: Any, b: Any) -> Any:
        if a is b or (type(a) is not Out and type(b) is not Out and _equal(a, b)):
            return a if type(a) is not Out else self._added(a, b, self._type(0, a))
        ta, tb = self._type(0, a), self._type(1, b)
        if ta[1] != tb[1]:
            return Conflict(f"it is {ta[0]}{ta[1]} on one side and {tb[0]}{tb[1]} on the other")
        dtype, weak = _core.promote(ta[0], ta[2], tb[0], tb[2])
        return self._added(a, b, (dtype, ta[1], weak))

    def _added(self, a: Any, b: Any, wanted: tuple[str, list[int], bool]) -> Out:
        self.pairs.append((a, b))
        self.wanted.append(wanted)
        return Out(len(self.pairs) - 1)

    def _type(self, side: int, x: Any) -> tuple[str, list[int], bool]:
        return self.types[side](x.index) if type(x) is Out else type_of(x)

    def _one_side(self, a: Any, b: Any) -> Any:
        """A template for a value that only one side has: the other gives zeros, which nobody reads."""
        present, side = (b, 1) if a is MISSING else (a, 0)
        if present is UNBOUND:
            return UNBOUND
        if type(present) is Node:
            parts = [
                self._one_side(MISSING, p) if side else self._one_side(p, MISSING) for p in present.parts
            ]
            return Node(present.original, present.keys, parts)
        if type(present) is not Out:
            return present
        return self._added(a, b, self._type(side, present))


def type_of(x: Any) -> tuple[str, list[int], bool]:
    t = as_tensor(x)
    return t.dtype.name, list(t.shape), t.weak_type


def as_tensor(x: Any) -> Tensor:
    return x if type(x) is Tensor else to_tensor(x)


def as_wanted(x: Any, wanted: tuple[str, list[int], bool]) -> Tensor:
    """`x` as a Tensor of this type; zeros where there is none."""
    dtype, shape, weak = wanted
    if x is MISSING:
        from lamina import numpy as lnp  # not at import

        return _core.set_weak(lnp.zeros(shape, dtype), weak)
    t = as_tensor(x)
    if weak:
        return t if t.dtype.name == dtype and t.weak_type else _core.set_weak(_core.recast(t, dtype), True)
    return _core.set_weak(astype(t, dtype) if t.dtype.name != dtype or t.weak_type else t, False)
