"""What a caller allows the compilers that programs are exported to: Precision and DotAlgorithm.

Products here have all bits of their element type, whatever is allowed. Traces and exported programs say it.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

from lamina import dtypes


class Precision(enum.Enum):
    """How exact a product of float32 must at least be: DEFAULT is what is fastest, HIGHEST every bit."""

    DEFAULT = 0
    HIGH = 1
    HIGHEST = 2

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Precision.{self.name}"

    @classmethod
    def _missing_(cls, value: object) -> Precision | None:
        return _WORDS.get(value) if isinstance(value, str) else None


_WORDS = {
    "default": Precision.DEFAULT,
    "bfloat16": Precision.DEFAULT,
    "fastest": Precision.DEFAULT,
    "high": Precision.HIGH,
    "bfloat16_3x": Precision.HIGH,
    "tensorfloat32": Precision.HIGH,
    "highest": Precision.HIGHEST,
    "float32": Precision.HIGHEST,
}


class DotAlgorithm(NamedTuple):
    """The types that operands are rounded to and sums are in, and how many parts and products each product has."""

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Algorithms that some device has, by the types of both operands and of the sums, and the number of products.

    ANY stands for the types of the operands.
    """

    DEFAULT = 0
    ANY_F8_ANY_F8_F32 = 1
    ANY_F8_ANY_F8_F32_FAST_ACCUM = 2
    ANY_F8_ANY_F8_ANY = 3
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = 4
    F16_F16_F16 = 5
    F16_F16_F32 = 6
    BF16_BF16_BF16 = 7
    BF16_BF16_F32 = 8
    BF16_BF16_F32_X3 = 9
    BF16_BF16_F32_X6 = 10
    BF16_BF16_F32_X9 = 11
    TF32_TF32_F32 = 12
    TF32_TF32_F32_X3 = 13
    F32_F32_F32 = 14
    F64_F64_F64 = 15

    def __str__(self) -> str:
        return self.name


_FIELDS = DotAlgorithm._fields


def _type(x: Any) -> str:
    """An element type as StableHLO writes it."""
    if isinstance(x, str) and x in ("f16", "bf16", "f32", "f64", "tf32"):
        return x
    name = dtypes.name_of(x)
    return "bf16" if name == "bfloat16" else "f" + name.removeprefix("float").replace("_", "").upper()


def _preset(preset: DotAlgorithmPreset, operands: tuple[Any, Any]) -> str:
    name = preset.name
    fast = name.endswith("_FAST_ACCUM")
    words = name.removesuffix("_FAST_ACCUM").replace("ANY_F8", "ANY").split("_")
    count = int(words.pop()[1:]) if words[-1].startswith("X") else 1
    types = [d if w == "ANY" else w.lower() for w, d in zip(words, (*operands, operands[0]))]
    return _algorithm(DotAlgorithm(*types, num_primitive_operations=count, allow_imprecise_accumulation=fast))


def _algorithm(a: DotAlgorithm) -> str:
    values = [*map(_type, a[:3]), *a[3:6], "true" if a.allow_imprecise_accumulation else "false"]
    return ", ".join(f"{name} = {value}" for name, value in zip(_FIELDS, values, strict=True))


def written(precision: Any, lhs: Any, rhs: Any) -> str:
    """A caller's `precision` as the attribute of a product of these element types; "" for None.

    ValueError for what is none of its forms: a Precision or its name, a pair of those, a DotAlgorithm, a
    DotAlgorithmPreset or its name.
    """
    if precision is None or precision is DotAlgorithmPreset.DEFAULT:
        return ""
    if isinstance(precision, str) and precision in DotAlgorithmPreset.__members__:
        return written(DotAlgorithmPreset[precision], lhs, rhs)
    if isinstance(precision, DotAlgorithmPreset):
        return _preset(precision, (lhs, rhs))
    if isinstance(precision, DotAlgorithm):
        return _algorithm(precision)
    both = (
        precision if isinstance(precision, (tuple, list)) and len(precision) == 2 else (precision, precision)
    )
    if all(p is None for p in both):
        return ""
    try:
        return ", ".join(Precision(Precision.DEFAULT if p is None else p).name for p in both)
    except ValueError:
        raise ValueError(
            f"precision is {precision!r:.80}: give None, a lax.Precision or one of {', '.join(_WORDS)}, a pair of those "
            "(of both operands), a lax.DotAlgorithm, or a lax.DotAlgorithmPreset or its name"
        ) from None


def read(text: str | None) -> Any:
    """What `written` made an attribute of: a pair of Precision, a DotAlgorithm, None."""
    if not text:
        return None
    if "=" not in text:
        return tuple(Precision[p] for p in text.split(", "))
    given = dict(field.split(" = ") for field in text.split(", "))
    return DotAlgorithm(
        *(given[n] for n in _FIELDS[:3]),
        *(int(given[n]) for n in _FIELDS[3:6]),
        given[_FIELDS[6]] == "true",
    )
