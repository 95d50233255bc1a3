"""The element types of the specification's programs: one line each, which every table expands over."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
from test_narrow import patterns, rounded, wrap
from ulps import samples, specials


@dataclass(frozen=True)
class Element:
    """``text`` is the type's name in StableHLO text; ``kind`` one letter of b, i, u, f, c."""

    text: str
    name: str  # NumPy's, or ml_dtypes'
    kind: str
    exact: int  # integers of this size and all smaller ones are numbers of the type
    width: int = 0  # bits of a narrow element: a float of at most 8, an integer of fewer

    @property
    def dtype(self) -> np.dtype:
        return np.dtype(getattr(ml_dtypes, self.name, self.name))

    @property
    def bits(self) -> int:
        return self.width or (1 if self.kind == "b" else 8 * self.dtype.itemsize)

    @property
    def narrow(self) -> bool:
        return self.width > 0

    def specials(self) -> np.ndarray:
        """Zeros, infinities, NaN, both ends of the range; of a narrow element patterns all over it."""
        if not self.narrow:
            return specials(self.name)
        every = patterns(self.name)
        return every if len(every) <= 16 else every[:: len(every) // 16]

    def samples(self, low: float, high: float, n: int, seed: int = 7) -> np.ndarray:
        """Special values and random ones; of a narrow element all there are."""
        return patterns(self.name) if self.narrow else samples(self.name, low, high, n, seed)

    def wide(self, x: np.ndarray) -> np.ndarray:
        """A narrow element's values in a type that NumPy computes in."""
        if not self.narrow:
            return x
        return np.asarray(x).astype(np.int64 if self.kind in "iu" else np.float64)

    def cast(self, x: np.ndarray) -> np.ndarray:
        """Numbers of `wide` as elements: integers modulo their width, floats rounded once."""
        x = np.asarray(x)
        if not self.narrow:
            return x.astype(self.dtype)
        if self.kind == "f":
            return rounded(x.astype(np.float64), self.name)
        return (
            np.array([wrap(int(v), self.name) for v in x.ravel()], np.int64)
            .reshape(x.shape)
            .astype(self.dtype)
        )

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
    Element("i2", "int2", "i", 1, 2),
    Element("i4", "int4", "i", 7, 4),
    Element("ui2", "uint2", "u", 3, 2),
    Element("ui4", "uint4", "u", 15, 4),
    Element("f4E2M1FN", "float4_e2m1fn", "f", 4, 4),
    Element("f6E2M3FN", "float6_e2m3fn", "f", 7, 6),
    Element("f6E3M2FN", "float6_e3m2fn", "f", 8, 6),
    Element("f8E3M4", "float8_e3m4", "f", 15, 8),
    Element("f8E4M3", "float8_e4m3", "f", 16, 8),
    Element("f8E4M3FN", "float8_e4m3fn", "f", 16, 8),
    Element("f8E4M3FNUZ", "float8_e4m3fnuz", "f", 16, 8),
    Element("f8E4M3B11FNUZ", "float8_e4m3b11fnuz", "f", 16, 8),
    Element("f8E5M2", "float8_e5m2", "f", 8, 8),
    Element("f8E5M2FNUZ", "float8_e5m2fnuz", "f", 8, 8),
    Element("f8E8M0FNU", "float8_e8m0fnu", "f", 2, 8),
)
BY_TEXT = {e.text: e for e in ELEMENTS}


def of_kinds(kinds: str) -> list[Element]:
    """The elements of these kinds; w stands for the two that complex numbers are made of."""
    return [e for e in ELEMENTS if e.kind in kinds or ("w" in kinds and e in (F32, F64))]
