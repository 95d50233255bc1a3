"""Element types: string-like objects that compare equal to NumPy's."""

from __future__ import annotations

_KINDS = {
    "bool": ("b", 1),
    "int8": ("i", 1),
    "int16": ("i", 2),
    "int32": ("i", 4),
    "int64": ("i", 8),
    "uint8": ("u", 1),
    "uint16": ("u", 2),
    "uint32": ("u", 4),
    "uint64": ("u", 8),
    "float16": ("f", 2),
    "bfloat16": ("f", 2),
    "float32": ("f", 4),
    "float64": ("f", 8),
    "complex64": ("c", 8),
    "complex128": ("c", 16),
}


class DType(str):
    """An element type. Equals its name, and NumPy's dtype and scalar type of that name.

    Attributes: ``name``; ``kind``: one of ``b i u f c``; ``itemsize``: bytes per element.
    """

    __slots__ = ("itemsize", "kind")

    def __new__(cls, name: str) -> DType:
        self = super().__new__(cls, name)
        self.kind, self.itemsize = _KINDS[name]
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

    def __call__(self, value: object) -> object:
        """A Tensor of `value` with this element type."""
        from lamina import numpy as lnp

        return lnp.asarray(value, dtype=self)


TABLE = {name: DType(name) for name in _KINDS}


def name_of(dtype: object) -> str:
    """The name of anything that names an element type: a string, NumPy dtype or scalar type, Python type.

    Raises TypeError for anything else.
    """
    if isinstance(dtype, str):
        name = str.__str__(dtype)
        name = {"bool_": "bool", "float": "float32", "int": "int32", "complex": "complex64"}.get(name, name)
        if name in _KINDS:
            return name
    elif isinstance(dtype, type):
        if dtype in (bool, int, float, complex):
            return {bool: "bool", int: "int32", float: "float32", complex: "complex64"}[dtype]
        name = dtype.__name__.rstrip("_")
        if name in _KINDS:
            return name
    else:
        name = getattr(dtype, "name", None)
        if isinstance(name, str) and name in _KINDS:
            return name
    raise TypeError(f"{dtype!r} is not an element type; use one of {', '.join(_KINDS)}")


def canonical(dtype: object) -> DType:
    """The DType of anything `name_of` takes."""
    return TABLE[name_of(dtype)]
