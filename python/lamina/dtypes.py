"""Element types: string-like objects that compare equal to NumPy's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from lamina import _core

# Name to (kind, bytes per element, bits of its value, layout of a float).
_TYPES: dict[str, tuple[str, int, int, tuple[int, int, int, str] | None]] = _core.element_types


# Those of NumPy's dtypes that say nothing of Lamina's own.
_NUMPY_ATTRIBUTES = frozenset(
    (
        "alignment",
        "byteorder",
        "char",
        "descr",
        "fields",
        "hasobject",
        "isnative",
        "names",
        "newbyteorder",
        "num",
    )
)


class DType(str):
    """An element type. Equals its name, and NumPy's dtype and scalar type of that name.

    Attributes: ``name``; ``kind``: one of ``b i u f c``; ``itemsize``: bytes per element; ``bits``: of its value
    (int4 takes a byte and has 4); ``layout``: of a float (exponent bits, mantissa bits, bias, what its patterns
    hold beyond numbers), else None. ``type``, ``char``, ``num``, ``byteorder`` and their like are NumPy's.
    """

    __slots__ = ("bits", "itemsize", "kind", "layout")

    def __new__(cls, name: str) -> DType:
        self = super().__new__(cls, name)
        self.kind, self.itemsize, self.bits, self.layout = _TYPES[name]
        return self

    @property
    def name(self) -> str:
        return str.__str__(self)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return str.__eq__(self, other)
        try:
            return str.__eq__(self, name_of(other))
        except TypeError:
            return False

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __repr__(self) -> str:
        return f"dtype({str.__str__(self)!r})"

    @property
    def type(self) -> Any:
        """NumPy's scalar type; that of the package ml_dtypes for the types that NumPy lacks (is_foreign)."""
        import numpy as np

        if is_foreign(self):
            import ml_dtypes

            return getattr(ml_dtypes, self.name)
        return np.dtype(self.name).type

    def __getattr__(self, name: str) -> Any:
        if name in _NUMPY_ATTRIBUTES:
            import numpy as np

            return getattr(np.dtype(self.type), name)
        raise AttributeError(f"an element type has no attribute {name!r}", name=name)

    def __call__(self, value: object) -> object:
        """A Tensor of `value` with this element type."""
        from lamina import numpy as lnp

        return lnp.array(value, dtype=self)


def sums_in_float32(dtype: object) -> bool:
    """Whether arithmetic of this type is float32 arithmetic, rounded: floats below 32 bits."""
    t = canonical(dtype)
    return t.kind == "f" and t.itemsize < 4


def extremes(dtype: object) -> tuple[float, float]:
    """The least and the greatest value of a type: infinities where it has them.

    Booleans for bool. Of a complex type, those of its parts.
    """
    t = canonical(dtype)
    if t.kind == "b":
        return False, True
    if t.kind in "iu":
        return -(2 ** (t.bits - 1)) if t.kind == "i" else 0, 2 ** (t.bits - (t.kind == "i")) - 1
    if t.kind == "c" or (t.layout and t.layout[3] == "ieee"):
        return -float("inf"), float("inf")
    from lamina.numpy._dtypes import finfo

    limits = finfo(t)
    return limits.min, limits.max


def is_foreign(dtype: object) -> bool:
    """Whether NumPy lacks this type without the package ml_dtypes: bfloat16, floats of one byte, int4, ..."""
    t = canonical(dtype)
    return t == "bfloat16" or (t.kind in "iuf" and (t.bits < 8 or (t.kind == "f" and t.bits == 8)))


TABLE = {name: DType(name) for name in _TYPES}
_PYTHON = {"float": 0, "int": 1, "complex": 2}  # places in _core.default_types()


def _numpy_names() -> dict[str, str]:
    """NumPy's other names of these types: "f4", "d", "double", ..."""
    names = {"?": "bool", "b1": "bool", "bool_": "bool"}
    for letters, words, name in (
        ("b", "byte", "int8"),
        ("h", "short", "int16"),
        ("i", "intc", "int32"),
        ("lqp", "long longlong intp int_", "int64"),
        ("B", "ubyte", "uint8"),
        ("H", "ushort", "uint16"),
        ("I", "uintc", "uint32"),
        ("LQP", "ulong ulonglong uintp", "uint64"),
        ("e", "half", "float16"),
        ("f", "single", "float32"),
        ("d", "double", "float64"),
        ("F", "csingle", "complex64"),
        ("D", "cdouble", "complex128"),
    ):
        kind, itemsize, _, _ = _TYPES[name]
        names.update(dict.fromkeys((*letters, *words.split(), f"{kind}{itemsize}"), name))
    return names


_NUMPY_NAMES = _numpy_names()


def name_of(dtype: object) -> str:
    """The name of anything that names an element type: a string, NumPy dtype or scalar type, Python type.

    Strings are ours and NumPy's ("f4", "double") of the machine's own byte order. Python's float, int and complex, and
    their names, are the default types (see `lamina.default_dtypes`). Raises TypeError for anything else.
    """
    if isinstance(dtype, str):
        name = str.__str__(dtype)
        if name in _TYPES:
            return name
        if name in _PYTHON:
            return _core.default_types()[_PYTHON[name]]
        if (code := name.lstrip("=<|")) in _NUMPY_NAMES:
            return _NUMPY_NAMES[code]
    elif isinstance(dtype, type):
        if dtype is bool:
            return "bool"
        if dtype in (int, float, complex):
            return _core.default_types()[_PYTHON[dtype.__name__]]
        name = dtype.__name__.rstrip("_")
        if name in _TYPES:
            return name
        if dtype.__module__ == "numpy" and name in _NUMPY_NAMES:
            return _NUMPY_NAMES[name]
    else:
        name = getattr(dtype, "name", None)
        if isinstance(name, str) and name in _TYPES:
            return name
    raise TypeError(f"{dtype!r} is not an element type; use one of {', '.join(_TYPES)}")


def canonical(dtype: object) -> DType:
    """The DType of anything `name_of` takes."""
    return TABLE[name_of(dtype)]


@contextlib.contextmanager
def default_dtypes(*, float: object = None, int: object = None) -> Iterator[None]:
    """Element types that nothing else decides, inside the block or a function it decorates.

    `float` (float32 unless told; the complex one follows it) and `int` (int32): of Python's numbers on their own, of
    lists of them, of creation and random functions, of quotients and means of integers. Arrays keep their types, and
    numbers beside them take those. A jitted function is traced once for each pair it is called under. Blocks nest;
    other threads are not concerned. TypeError for types of another kind, or a float below 16 bits.

    >>> with lm.default_dtypes(float="float64", int="int64"):
    ...     lnp.linspace(0, 1, 3).dtype
    dtype('float64')
    """
    saved = _core.default_types()[:2]
    wanted = [saved[i] if t is None else name_of(t) for i, t in enumerate((float, int))]
    for name, kind, what in zip(wanted, "fi", ("float", "int"), strict=True):
        t = TABLE[name]
        if t.kind != kind or t.bits < (16 if kind == "f" else 8):
            raise TypeError(f"{name} cannot be the default {what}")
    _core.set_default_types(*wanted)
    try:
        yield
    finally:
        _core.set_default_types(*saved)
