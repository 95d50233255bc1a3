"""Element types: names, promotion, limits."""

from __future__ import annotations

import math
import numbers
from typing import Any

from lamina import _core, _devices, dtypes
from lamina._core import Tensor
from lamina._shapes import ShapeDtype, shaped
from lamina._tensor import to_tensor

dtype = dtypes.canonical
bool_ = dtypes.TABLE["bool"]
int8, int16, int32, int64 = (dtypes.TABLE[n] for n in ("int8", "int16", "int32", "int64"))
uint8, uint16, uint32, uint64 = (dtypes.TABLE[n] for n in ("uint8", "uint16", "uint32", "uint64"))
float16, bfloat16, float32, float64 = (dtypes.TABLE[n] for n in ("float16", "bfloat16", "float32", "float64"))
int2, int4, uint2, uint4 = (dtypes.TABLE[n] for n in ("int2", "int4", "uint2", "uint4"))
float4_e2m1fn, float6_e2m3fn, float6_e3m2fn, float8_e3m4 = (
    dtypes.TABLE[n] for n in ("float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn", "float8_e3m4")
)
float8_e4m3, float8_e4m3fn, float8_e4m3fnuz, float8_e4m3b11fnuz = (
    dtypes.TABLE[n] for n in ("float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz")
)
float8_e5m2, float8_e5m2fnuz, float8_e8m0fnu = (
    dtypes.TABLE[n] for n in ("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
)
complex64, complex128 = dtypes.TABLE["complex64"], dtypes.TABLE["complex128"]
int_, float_, complex_, uint = int32, float32, complex64, uint32
half, single, double, csingle, cdouble = float16, float32, float64, complex64, complex128

# The kinds of element types, for issubdtype.
_CATEGORIES = {
    "generic": "biufc",
    "number": "iufc",
    "integer": "iu",
    "signedinteger": "i",
    "unsignedinteger": "u",
    "inexact": "fc",
    "floating": "f",
    "complexfloating": "c",
    "bool": "b",
    "bool_": "b",
}


class _Category:
    """An abstract kind of element type, as in issubdtype(x.dtype, floating)."""

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __repr__(self) -> str:
        return f"lamina.numpy.{self.__name__}"


generic, number, integer, signedinteger, unsignedinteger, inexact, floating, complexfloating = (
    _Category(n)
    for n in (
        "generic",
        "number",
        "integer",
        "signedinteger",
        "unsignedinteger",
        "inexact",
        "floating",
        "complexfloating",
    )
)


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether element type `arg1` is `arg2` or of that kind (``floating``, ``integer``, NumPy's too)."""
    mine = dtypes.canonical(arg1)
    kinds = _CATEGORIES.get(arg2 if isinstance(arg2, str) else getattr(arg2, "__name__", ""))
    if kinds is not None:
        return mine.kind in kinds
    return mine == dtypes.canonical(arg2)


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """`x` with another element type (None: the default float), a copy; `copy` is the array API's and changes nothing.

    Floats become integers towards zero; those beyond the integers' range its nearest end, NaN 0, on every machine (what
    NumPy gives there depends on the processor). Integers beyond it wrap.
    """
    return _devices.placed(to_tensor(x, float if dtype is None else dtype), device)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether `dtype` is of `kind`: a type, a name of the array API (``"real floating"``, ...), or a tuple of
    those.
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    names = {
        "bool": "b",
        "signed integer": "i",
        "unsigned integer": "u",
        "integral": "iu",
        "real floating": "f",
        "complex floating": "c",
        "numeric": "iufc",
    }
    mine = dtypes.canonical(dtype)
    return (
        mine.kind in names[kind]
        if isinstance(kind, str) and kind in names
        else mine == dtypes.canonical(kind)
    )


def promote_types(a: Any, b: Any) -> dtypes.DType:
    """The element type that two operands of these types give; Python's types of numbers yield, as numbers do."""
    weak = [t in (int, float, complex) for t in (a, b)]
    return dtypes.TABLE[_core.promote(dtypes.name_of(a), weak[0], dtypes.name_of(b), weak[1])[0]]


def result_type(*args: Any) -> dtypes.DType:
    """The element type of an operation on arrays, numbers and types; Python numbers yield to the others.

    None is the default float, as in NumPy.
    """
    if not args:
        raise ValueError("result_type needs at least one argument")
    name, weak = _type_of(args[0])
    for x in args[1:]:
        name, weak = _core.promote(name, weak, *_type_of(x))
    return dtypes.TABLE[name]


def _type_of(x: Any) -> tuple[str, bool]:
    if x is None:
        return _core.default_types()[0], False
    if isinstance(x, ShapeDtype):
        return x.dtype.name, x.weak_type
    number_or_list = isinstance(x, (Tensor, bool, int, float, complex, list, tuple))
    if not (number_or_list or hasattr(x, "__array__") or hasattr(x, "__jax_array__")):
        return dtypes.name_of(x), False
    if isinstance(x, type):
        return dtypes.name_of(x), False
    t = to_tensor(x)
    return t.dtype.name, t.weak_type


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Whether NumPy's rule `casting` lets one element type be converted to another."""
    import numpy as np

    a, b = dtypes.canonical(from_), dtypes.canonical(to)
    if casting not in ("no", "equiv", "safe", "same_kind", "unsafe"):
        raise ValueError(f"casting must be 'no', 'equiv', 'safe', 'same_kind' or 'unsafe', not {casting!r}")
    if not (dtypes.is_foreign(a) or dtypes.is_foreign(b)):
        return bool(np.can_cast(a.name, b.name, casting))
    if casting == "unsafe" or a == b:
        return True
    if casting in ("no", "equiv"):
        return False
    return _holds(b, a) or (casting == "same_kind" and "buifc".index(a.kind) <= "buifc".index(b.kind))


def _digits(t: dtypes.DType) -> int:
    """Binary digits of an integer, or of a float's significand."""
    return t.layout[1] + 1 if t.layout else t.bits - (t.kind == "i")


# What each kind of float holds beyond numbers; -0 aside.
_BEYOND = {"none": set(), "nan": {"nan"}, "nan_minus_zero": {"nan"}, "scale": {"nan"}, "ieee": {"nan", "inf"}}


def _holds(to: dtypes.DType, t: dtypes.DType) -> bool:
    """Whether every value of `t` is one of `to`, of which NumPy lacks one."""
    if to.kind == "c":
        return t.kind != "c" and _holds(TABLE_OF_PARTS[to.name], t)
    if t.kind == "b":
        return True
    if t.kind == "c" or to.kind == "b" or _digits(to) < _digits(t):
        return False
    if to.layout is None:
        return t.layout is None and not (to.kind == "u" and t.kind == "i")
    if t.layout is None:
        return finfo(to).max >= 2 ** _digits(t) - 1 and to.layout[3] != "scale"
    mine, other = finfo(to), finfo(t)
    wide = mine.max >= other.max and mine.smallest_subnormal <= other.smallest_subnormal
    return wide and mine.min <= other.min and _BEYOND[t.layout[3]] <= _BEYOND[to.layout[3]]


TABLE_OF_PARTS = {"complex64": float32, "complex128": float64}


class finfo:
    """Limits of a float type: bits, eps, epsneg, max, min, tiny (= smallest_normal), smallest_subnormal,
    nmant, ...
    """

    def __init__(self, dtype: Any) -> None:
        t = dtype.dtype if isinstance(dtype, Tensor) else dtypes.canonical(dtype)
        self.dtype = TABLE_OF_PARTS.get(t.name, t)
        if self.dtype.layout is None:
            raise ValueError(f"finfo is for float types, not {t.name}; use iinfo")
        self.nexp, self.nmant, bias, specials = self.dtype.layout
        self.bits = self.dtype.bits
        # The largest exponent holds numbers where infinity and NaNs do not take it; NaN may take its last place.
        self.maxexp = 2**self.nexp - bias - (specials in ("ieee", "scale"))
        self.minexp = 1 - bias if specials != "scale" else -bias
        self.eps, self.epsneg = 2.0**-self.nmant, 2.0 ** (-self.nmant - 1)
        self.max = math.ldexp(2.0 - self.eps * (2 if specials == "nan" else 1), self.maxexp - 1)
        self.tiny = self.smallest_normal = math.ldexp(1.0, self.minexp)
        self.min = -self.max if specials != "scale" else self.tiny
        self.smallest_subnormal = math.ldexp(1.0, self.minexp - self.nmant)
        self.precision = int(self.nmant * math.log10(2))
        self.resolution = 10.0**-self.precision

    def __repr__(self) -> str:
        return f"finfo(min={self.min}, max={self.max}, eps={self.eps}, dtype={self.dtype.name})"


class iinfo:
    """Limits of an integer type: bits, min, max; its kind, "i" or "u"."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype.dtype if isinstance(dtype, Tensor) else dtypes.canonical(dtype)
        if self.dtype.kind not in "iu":
            raise ValueError(f"iinfo is for integer types, not {self.dtype.name}; use finfo")
        self.bits, self.kind = self.dtype.bits, self.dtype.kind
        signed = self.kind == "i"
        self.min = -(2 ** (self.bits - 1)) if signed else 0
        self.max = 2 ** (self.bits - signed) - 1

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype.name})"


def iscomplexobj(x: Any) -> bool:
    """Whether the element type, of an array or given itself, is complex; None has none, and is not."""
    if x is None:
        return False
    try:
        return shaped(x).dtype.kind == "c"
    except TypeError:
        return dtypes.canonical(x).kind == "c"


def isrealobj(x: Any) -> bool:
    """Whether the element type is not complex."""
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Whether `element` is a number, a 0-d array, or a string, as in NumPy."""
    if hasattr(element, "__jax_array__"):
        element = element.__jax_array__()
    return isinstance(element, (numbers.Number, str, bytes)) or getattr(element, "shape", None) == ()


def ndim(a: Any) -> int:
    """Number of dimensions."""
    return shaped(a).ndim


def shape(a: Any) -> tuple[int, ...]:
    """Sizes of the dimensions."""
    return shaped(a).shape


def size(a: Any, axis: int | tuple[int, ...] | None = None) -> int:
    """Number of elements, or the size along `axis`, or along several together."""
    from lamina.numpy._common import canonical_axes

    t = shaped(a)
    return math.prod(t.shape[d] for d in canonical_axes(axis, t.ndim))


__all__ = [
    "astype",
    "bfloat16",
    "bool_",
    "can_cast",
    "cdouble",
    "complex64",
    "complex128",
    "complex_",
    "complexfloating",
    "csingle",
    "double",
    "dtype",
    "finfo",
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float16",
    "float32",
    "float64",
    "float_",
    "floating",
    "generic",
    "half",
    "iinfo",
    "inexact",
    "int2",
    "int4",
    "int8",
    "int16",
    "int32",
    "int64",
    "int_",
    "integer",
    "iscomplexobj",
    "isdtype",
    "isrealobj",
    "isscalar",
    "issubdtype",
    "ndim",
    "number",
    "promote_types",
    "result_type",
    "shape",
    "signedinteger",
    "single",
    "size",
    "uint",
    "uint2",
    "uint4",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unsignedinteger",
]
