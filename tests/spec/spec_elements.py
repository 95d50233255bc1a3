"""The element types of the specification's programs: one line each, which every table expands over."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Element:
    """``text`` is the type's name in StableHLO text; ``kind`` one letter of b, i, u, f, c."""

    text: str
    name: str  # NumPy's, or ml_dtypes'
    kind: str
    exact: int  # integers of this size and all smaller ones are numbers of the type

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(getattr(ml_dtypes, self.name, self.name))

    @property
    def bits(self) -> int:
        return 1 if self.kind == "b" else 8 * self.dtype.itemsize

    @property
    def eps(self) -> float:
        """The distance from 1 to the next number of the type, or of its parts."""
        return float(ml_dtypes.finfo(self.part.dtype).eps)

    @property
    def part(self) -> Element:
        """The type of a complex number's parts; any other type itself."""
        return {"complex64": F32, "complex128": F64}.get(self.name, self)


F32 = Element("f32", "float32", "f", 1 << 24)
F64 = Element("f64", "float64", "f", 1 << 53)
ELEMENTS = (
    Element("i1", "bool", "b", 1),
    Element("i8", "int8", "i", 127),
    Element("i16", "int16", "i", 1 << 14),
    Element("i32", "int32", "i", 1 << 30),
    Element("i64", "int64", "i", 1 << 62),
    Element("ui8", "uint8", "u", 255),
    Element("ui16", "uint16", "u", 1 << 15),
    Element("ui32", "uint32", "u", 1 << 31),
    Element("ui64", "uint64", "u", 1 << 63),
    Element("bf16", "bfloat16", "f", 1 << 8),
    Element("f16", "float16", "f", 1 << 11),
    F32,
    F64,
    Element("complex<f32>", "complex64", "c", 1 << 24),
    Element("complex<f64>", "complex128", "c", 1 << 53),
)
BY_TEXT = {e.text: e for e in ELEMENTS}


def of_kinds(kinds: str) -> list[Element]:
    """The elements of these kinds; w stands for the two that complex numbers are made of."""
    return [e for e in ELEMENTS if e.kind in kinds or ("w" in kinds and e in (F32, F64))]
