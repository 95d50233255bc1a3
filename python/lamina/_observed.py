"""Numbers that a traced function reads from outside: parameters for Tensors, values for Python."""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable
from typing import Any, Protocol

from lamina import _core
from lamina._core import Tensor


class Record(Protocol):
    """Keeps what was computed of observed numbers (`_read_set.ReadSet`)."""

    def derived(self, f: Callable[..., Any], operands: tuple[Any, ...], plain: bool) -> Any: ...

    def hide(self, number: Observed) -> None: ...


class Observed:
    """Stands for a free number while a function is traced.

    Used with a Tensor it is a parameter. Python's arithmetic on it gives another such number, computed again by Python
    when a free number changes. Any other use (a branch, a loop's length, text) is noted, and what it gave is guarded.
    """

    __slots__ = ("_tensor", "fetched", "of", "record", "used", "value")

    def __init__(
        self, value: Any, record: Record, of: tuple[Callable[..., Any], tuple[Any, ...]] | None = None
    ):
        self.value, self.record, self.of = value, record, of
        self._tensor: Tensor | None = None
        self.used = self.fetched = False

    @property
    def tensor(self) -> Tensor:
        if not self.fetched:
            self.fetched = True
            self.record.hide(self)
        return self.leaf()

    def leaf(self) -> Tensor:
        if self._tensor is None:
            self._tensor = leaf_of(self.value)
        return self._tensor

    def become(self, value: Any) -> None:
        """Takes another value of the same type."""
        self.value, self._tensor = value, None

    def use(self) -> Any:
        self.used = True
        return self.value

    @property
    def __class__(self) -> type:
        return type(self.value)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.use(), name)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        import numpy as np

        return np.asarray(self.use(), dtype)

    def __reduce__(self) -> Any:
        return type(self.value), (self.use(),)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


_NUMBERS = (int, float, bool, complex, Observed)


def derived(f: Callable[..., Any], *operands: Any, plain: bool = False) -> Any:
    """`f` of operands of which one at least is observed; with `plain` the result is guarded, and a plain object."""
    if any(type(x) not in _NUMBERS for x in operands):
        return f(*[x.use() if type(x) is Observed else x for x in operands])
    (first, *_) = (x for x in operands if type(x) is Observed)
    return first.record.derived(f, operands, plain)


def _binary(f: Callable[..., Any], reflected: bool, plain: bool = False) -> Any:
    def method(self: Observed, other: Any, *rest: Any) -> Any:
        if isinstance(other, Tensor):
            return NotImplemented  # the Tensor's own operator takes it as a parameter
        operands = (other, self, *rest) if reflected else (self, other, *rest)
        return derived(f, *operands, plain=plain)

    return method


def _unary(f: Callable[..., Any], plain: bool) -> Any:
    return lambda self, *rest: derived(f, self, *rest, plain=plain)


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
    setattr(Observed, f"__{_name}__", _binary(getattr(operator, _name), False, True))
for _name, _f in {
    "neg": operator.neg,
    "pos": operator.pos,
    "invert": operator.invert,
    "abs": abs,
    "round": round,
    "trunc": math.trunc,
    "floor": math.floor,
    "ceil": math.ceil,
}.items():
    setattr(Observed, f"__{_name}__", _unary(_f, False))
for _name, _f in {
    "index": operator.index,
    "bool": bool,
    "float": float,
    "int": int,
    "complex": complex,
    "hash": hash,
    "repr": repr,
    "str": str,
    "format": format,
}.items():
    setattr(Observed, f"__{_name}__", _unary(_f, True))


def plain(x: Any, kind: type | None = None) -> Any:
    """A number that Python code needs the value of: an observed one (of this kind) is then guarded by it."""
    return x.use() if type(x) is Observed and (kind is None or type(x.value) is kind) else x


def leaf_of(value: Any) -> Tensor:
    """A number as an exact array."""
    if type(value) is float:
        return _core.with_dtype_bits(struct.pack("=d", value), "float64", [])
    return _core.with_dtype_bits(struct.pack("=i", value), "int32", [])


def is_number(value: Any) -> bool:
    """Whether a free number can be a parameter."""
    return type(value) is float or (type(value) is int and -(2**31) <= value < 2**31)
