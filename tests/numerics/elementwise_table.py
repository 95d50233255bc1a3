"""One row per elementwise op: how to call it, on what, what it should give, how near, and how it differentiates.

Oracles take wide values: longdouble or clongdouble for floats, the type itself for integers and bool. Where the
StableHLO specification leaves a point open the row states JAX's choice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import mpmath
import numpy as np
from lamina import lax
from ulps import KINDS, numpy_dtype

# Bounds in ulps. 16-bit results are the nearest ones; f32 may be 1.0 off where the result is subnormal; c64 and
# c128 are measured against the modulus.
DEFAULT = {
    "float16": 0.5,
    "bfloat16": 0.5,
    "float32": 0.75,
    "float64": 1.0,
    "complex64": 1.0,
    "complex128": 4.0,
}
EXACT = {name: 0.5 for name in DEFAULT}
EXACT_REAL = DEFAULT | {"float32": 0.5, "float64": 0.5}
# exp(b log a) in c128 multiplies the rounding of its argument by the argument's size, here up to 24.
POWER = DEFAULT | {"complex128": 48.0}


@dataclass(frozen=True, eq=False)
class Row:
    """`op` names the op of the op table; `case` tells apart several rows of one op."""

    op: str
    call: Callable[..., Any]
    kinds: str  # letters of ulps.KINDS
    oracle: Callable[..., Any]
    arity: int = 1
    case: str = ""
    low: float = -10.0
    high: float = 10.0
    bounds: dict[str, float] = field(default_factory=lambda: DEFAULT)
    cancels: float = (
        0.0  # absolute error of f64 for negative x: two terms of the reflection cancel near zeros
    )
    mpmath: bool = False  # the oracle takes and returns one mpmath number
    grad: tuple[float, float] | None = None  # where the derivative is compared with differences
    grad_kinds: str = "f"
    result: str = ""  # the result's element type, where it is not the operands'
    native: bool = False  # the oracle takes the element type itself
    total: bool = True  # complex special values too

    @property
    def name(self) -> str:
        return self.op + ("-" + self.case if self.case else "")

    @property
    def dtypes(self) -> list[str]:
        return [d for k in self.kinds for d in KINDS[k]]


def _atan2(y, x):
    """-i log((x + i y) / sqrt(x^2 + y^2)), near 0 as atan; NaN on the root's branch cut, where zeros' signs choose."""
    small = np.arctan(y / np.where(x == 0, 1, x))
    square = (x + 1j * y) * (x - 1j * y)
    whole = -1j * np.log((x + 1j * y) / np.sqrt(square))
    whole = np.where((square.imag == 0) & (square.real <= 0), np.nan, whole)
    return np.where(np.abs(whole) < 0.1, small, whole)


def _is_bool(x: np.ndarray) -> bool:
    return x.dtype == bool


def _add(a, b):
    return a | b if _is_bool(a) else a + b


def _multiply(a, b):
    return a & b if _is_bool(a) else a * b


def _divide(a, b):
    """Integers towards zero; a zero divisor gives all bits set; the smallest number by -1 is itself."""
    if a.dtype.kind not in "iu":
        return a / b
    safe = np.where(b == 0, 1, b)
    if a.dtype.kind == "u":
        return np.where(b == 0, np.iinfo(a.dtype).max, a // safe).astype(a.dtype)
    overflow = (a == np.iinfo(a.dtype).min) & (b == -1)
    safe = np.where(overflow, 1, safe).astype(a.dtype)
    q = a // safe
    q = q + ((q < 0) & (q * safe != a)).astype(a.dtype)
    return np.where(b == 0, -1, q).astype(a.dtype)


def _remainder(a, b):
    """With the dividend's sign; a zero divisor gives the dividend (NaN for floats)."""
    if a.dtype.kind not in "iu":
        return np.fmod(a, b)
    odd = (b == 0) | ((b == -1) if a.dtype.kind == "i" else False)
    r = np.fmod(a, np.where(odd, 1, b).astype(a.dtype))
    return np.where(b == 0, a, r).astype(a.dtype)


def _power(a, b):
    """Integers wrap; a negative exponent gives 0 except for 1 and -1."""
    if a.dtype.kind not in "iu":
        return np.power(a, b)
    bits = 8 * a.dtype.itemsize
    out = []
    for x, y in zip(a.ravel().tolist(), b.ravel().tolist()):
        if y >= 0:
            out.append(pow(x, y, 1 << bits))
        else:
            out.append(x ** (y % 2) if x in (1, -1) else 0)
    wrapped = np.array([v % (1 << bits) for v in out], np.dtype(f"u{a.dtype.itemsize}"))
    return wrapped.view(a.dtype).reshape(a.shape)


def _maximum(a, b):
    """NaN wins, +0 is above -0."""
    if a.dtype.kind != "f":
        return a | b if _is_bool(a) else np.maximum(a, b)
    return np.where((a == 0) & (b == 0), np.where(np.signbit(a), b, a), np.maximum(a, b))


def _minimum(a, b):
    if a.dtype.kind != "f":
        return a & b if _is_bool(a) else np.minimum(a, b)
    return np.where((a == 0) & (b == 0), np.where(np.signbit(a), a, b), np.minimum(a, b))


def _clamp(low, x, high):
    return _minimum(_maximum(low, x), high)


def _abs(x):
    return np.hypot(x.real, x.imag) if x.dtype.kind == "c" else np.abs(x)


def _sign(x):
    """Signed zeros and NaN stay; of a complex number z / |z|."""
    if x.dtype.kind == "c":
        size = np.hypot(x.real, x.imag)
        return np.where(size == 0, 0, x / np.where(size == 0, 1, size))
    return np.where(x == 0, x, np.sign(x)) if x.dtype.kind == "f" else np.sign(x)


def _round_away(x):
    whole = np.trunc(x)
    return np.copysign(whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1, x), 0), x)


def _shifted(shift):
    """Shifts by the width or more (also negative amounts, read as unsigned) shift everything out."""

    def f(a, b):
        bits = 8 * a.dtype.itemsize
        amount = b.view(np.dtype(f"u{b.dtype.itemsize}"))
        return shift(a, np.minimum(amount, bits - 1).astype(a.dtype), amount >= bits)

    return f


def _unsigned(a):
    return a.view(np.dtype(f"u{a.dtype.itemsize}"))


_shift_left = _shifted(lambda a, n, out: np.where(out, 0, a << n).astype(a.dtype))
_shift_logical = _shifted(
    lambda a, n, out: np.where(out, 0, _unsigned(a) >> _unsigned(n)).astype(_unsigned(a).dtype).view(a.dtype)
)
_SIGNED_VIEW = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
_shift_arithmetic = _shifted(
    lambda a, n, out: (a.view(_SIGNED_VIEW[a.dtype.itemsize]) >> n.view(_SIGNED_VIEW[a.dtype.itemsize])).view(
        a.dtype
    )
)


def _leading_zeros(x):
    bits = 8 * x.dtype.itemsize
    return np.array([bits - int(v).bit_length() for v in _unsigned(x).ravel()], x.dtype).reshape(x.shape)


def _logistic(x):
    return np.longdouble(1) / (1 + np.exp(-x)) if x.dtype.kind == "f" else 1 / (1 + np.exp(-x))


def _gamma_log(x):
    if mpmath.isinf(x) or (x == int(x) and x <= 0):
        return mpmath.inf
    # log |gamma| with digits to spare near its zeros
    with mpmath.workprec(400):
        return mpmath.log(abs(mpmath.gamma(x))) if abs(x) < 1e5 else _stirling(x)


def _stirling(x):
    if x < 0:
        return mpmath.log(mpmath.pi / abs(mpmath.sin(mpmath.pi * x))) - mpmath.loggamma(1 - x)
    return mpmath.loggamma(x)


def _digamma(x):
    """Poles give NaN; see `ODD_AT_ZERO` for zero."""
    if mpmath.isinf(x):
        return mpmath.inf if x > 0 else mpmath.nan
    if x == int(x) and x <= 0:
        return mpmath.nan
    with mpmath.workprec(400):
        return mpmath.digamma(x)


def _erf_inv(x):
    if abs(x) > 1:
        return mpmath.nan
    if abs(x) == 1:
        return mpmath.inf * x
    with mpmath.workprec(160):
        return mpmath.erfinv(x)


def _erfc(x):
    """Beyond 60 the value is 0 or 2 in every element type; mpmath does not take the largest arguments."""
    return mpmath.erfc(x) if abs(x) < 60 else mpmath.mpf(0 if x > 0 else 2)


def _rsqrt(x):
    return 1 / np.sqrt(x)


def _bfloat_precision(x):
    """f32 or f64 rounded to 8 exponent and 7 mantissa bits, nearest even; f64's own subnormals of that format
    become 0, f32's stay, since it has the same exponents.
    """
    low = -126
    finite = np.isfinite(x)
    safe = np.where(finite, x, 0).astype(np.longdouble)
    exponent = np.maximum(np.frexp(safe)[1] - 1, low)
    unit = np.ldexp(np.ones_like(safe), exponent - 7)
    y = np.rint(safe / unit) * unit
    if x.dtype == np.float64:
        y = np.where(np.abs(y) < np.ldexp(np.longdouble(1), low), np.copysign(0, safe), y)
    y = np.where(np.abs(y) >= np.longdouble(2) ** 128, np.copysign(np.inf, safe), y)
    return np.where(finite, y, x).astype(x.dtype)


def convert_oracle(x: np.ndarray, to: str) -> np.ndarray:
    """Floats to integers truncate and saturate, NaN gives 0; integers wrap; complex to real drops the
    imaginary part; anything to bool is `x != 0`.
    """
    target = numpy_dtype(to)
    if to == "bool":
        return x != 0
    if x.dtype.kind == "c" and target.kind != "c":
        x = x.real
    if target.kind in "iu" and x.dtype.kind not in "biu":
        ends = np.iinfo(target)
        wide = np.nan_to_num(x.astype(np.longdouble), nan=0.0, posinf=np.inf, neginf=-np.inf)
        out = [
            min(max(int(v), ends.min), ends.max) if np.isfinite(v) else (ends.max if v > 0 else ends.min)
            for v in wide
        ]
        return np.array(out, target)
    if target.name == "bfloat16":
        # through f32 rounded to odd, so that the second rounding is the only one that counts
        wide = x.astype(np.longdouble)
        near = wide.astype(np.float32)
        back = near.astype(np.longdouble)
        towards = np.where(np.abs(back) > np.abs(wide), np.nextafter(near, np.float32(0)), near)
        bits = towards.view(np.uint32) | ((back != wide) & np.isfinite(wide)).astype(np.uint32)
        return np.where(np.isinf(wide), near, bits.view(np.float32)).astype(target)
    if target.name == "float16" and x.dtype.kind in "iu":
        return x.astype(np.longdouble).astype(target)
    return x.astype(target)


def _converting(to):
    return Row("convert", lambda x: lax.convert_element_type(x, to), "biufc", lambda x: x, case=to, result=to)


def _compare(name, ufunc, kinds):
    return Row("compare", getattr(lax, name), kinds, ufunc, 2, case=name, result="bool")


def _next_after(a, b):
    """In the type itself: one step of the bit pattern, seen as sign and magnitude."""
    integers = np.dtype(f"i{a.dtype.itemsize}")
    top = np.iinfo(integers).min

    def ordered(x):
        bits = x.view(integers)
        return np.where(bits < 0, top - bits, bits).astype(integers)

    key = ordered(a) + np.where(b > a, 1, -1).astype(integers)
    moved = np.where(key < 0, top - key, key).astype(integers).view(a.dtype)
    moved = np.where((moved == 0) & (a < 0), np.copysign(moved, -1).astype(a.dtype), moved)  # -0 from below
    return np.where(np.isnan(a) | np.isnan(b), a + b, np.where(a == b, b, moved)).astype(a.dtype)


# Results at zeros of either sign, which mpmath does not tell apart: the zero or the other sign's infinity.
ODD_AT_ZERO = {
    "erf": lambda x: x,
    "erf_inv": lambda x: x,
    "digamma": lambda x: np.copysign(np.longdouble(np.inf), -x),
}
F, B = "f", EXACT_REAL
ROWS: list[Row] = [
    Row("abs", lax.abs, "ifc", _abs, bounds=B, result="part", grad=(0.5, 2), grad_kinds="fc"),
    Row("acos", lax.acos, "fc", np.arccos, low=-1, high=1, grad=(-0.8, 0.8), grad_kinds="fc"),
    Row("acosh", lax.acosh, "fc", np.arccosh, low=1, grad=(1.5, 4), grad_kinds="fc"),
    Row("asin", lax.asin, "fc", np.arcsin, low=-1, high=1, grad=(-0.8, 0.8), grad_kinds="fc"),
    Row("asinh", lax.asinh, "fc", np.arcsinh, grad=(-3, 3), grad_kinds="fc"),
    Row("atan", lax.atan, "fc", np.arctan, grad=(-3, 3), grad_kinds="fc"),
    Row("atanh", lax.atanh, "fc", np.arctanh, low=-1, high=1, grad=(-0.8, 0.8), grad_kinds="fc"),
    Row("cbrt", lax.cbrt, F, np.cbrt, grad=(0.5, 3)),
    Row("ceil", lax.ceil, F, np.ceil, bounds=EXACT, grad=(0.1, 0.9)),
    Row("cosh", lax.cosh, "fc", np.cosh, low=-100, high=100, grad=(-2, 2), grad_kinds="fc"),
    Row("cosine", lax.cos, "fc", np.cos, grad=(-3, 3), grad_kinds="fc"),
    Row("count_leading_zeros", lax.clz, "iu", _leading_zeros),
    Row("digamma", lax.digamma, F, _digamma, mpmath=True, cancels=2.0**-53, grad=(0.5, 4)),
    Row("erf", lax.erf, F, mpmath.erf, mpmath=True, grad=(-2, 2)),
    Row("erf_inv", lax.erf_inv, F, _erf_inv, low=-1, high=1, mpmath=True, grad=(-0.8, 0.8)),
    Row("erfc", lax.erfc, F, _erfc, mpmath=True, grad=(-2, 2)),
    Row("exponential", lax.exp, "fc", np.exp, low=-100, high=100, grad=(-2, 2), grad_kinds="fc"),
    Row("exponential_minus_one", lax.expm1, "fc", np.expm1, low=-20, high=20, grad=(-2, 2), grad_kinds="fc"),
    Row("floor", lax.floor, F, np.floor, bounds=EXACT, grad=(0.1, 0.9)),
    Row("imag", lax.imag, "c", np.imag, bounds=EXACT, result="part", grad=(-2, 2), grad_kinds="c"),
    Row("is_finite", lax.is_finite, F, np.isfinite, result="bool"),
    Row("lgamma", lax.lgamma, F, _gamma_log, mpmath=True, cancels=2.0**-55, grad=(0.5, 4)),
    Row("log", lax.log, "fc", np.log, low=0, grad=(0.5, 3), grad_kinds="fc"),
    Row("log_plus_one", lax.log1p, "fc", np.log1p, low=-1, grad=(-0.5, 3), grad_kinds="fc"),
    Row("logistic", lax.logistic, "fc", _logistic, low=-50, high=50, grad=(-3, 3), grad_kinds="fc"),
    Row("negate", lax.neg, "iufc", np.negative, bounds=EXACT, grad=(-2, 2), grad_kinds="fc"),
    Row("not", lax.bitwise_not, "biu", np.invert),
    Row("popcnt", lax.population_count, "iu", lambda x: np.bitwise_count(_unsigned(x)).astype(x.dtype)),
    Row("real", lax.real, "c", np.real, bounds=EXACT, result="part", grad=(-2, 2), grad_kinds="c"),
    Row("reduce_precision", lambda x: lax.reduce_precision(x, 8, 7), "w", _bfloat_precision, native=True),
    Row("round_nearest_afz", lambda x: lax.round(x, 0), F, _round_away, bounds=EXACT, grad=(0.1, 0.4)),
    Row("round_nearest_even", lambda x: lax.round(x, 1), F, np.rint, bounds=EXACT, grad=(0.1, 0.4)),
    Row("rsqrt", lax.rsqrt, "fc", _rsqrt, low=0, grad=(0.5, 3), grad_kinds="fc"),
    Row("sign", lax.sign, "iufc", _sign, grad=(0.5, 3)),
    Row("sine", lax.sin, "fc", np.sin, grad=(-3, 3), grad_kinds="fc"),
    Row("sinh", lax.sinh, "fc", np.sinh, low=-100, high=100, grad=(-2, 2), grad_kinds="fc"),
    Row("sqrt", lax.sqrt, "fc", np.sqrt, low=0, bounds=B, grad=(0.5, 3), grad_kinds="fc"),
    Row("tan", lax.tan, "fc", np.tan, grad=(-1, 1), grad_kinds="fc"),
    Row("tanh", lax.tanh, "fc", np.tanh, grad=(-2, 2), grad_kinds="fc"),
    Row("add", lax.add, "biufc", _add, 2, bounds=B, grad=(-2, 2), grad_kinds="fc"),
    Row("and", lax.bitwise_and, "biu", np.bitwise_and, 2),
    Row("atan2", lax.atan2, F, np.arctan2, 2, grad=(0.5, 2)),
    Row("atan2", lax.atan2, "c", _atan2, 2, "complex", grad=(0.5, 2), grad_kinds="c", total=False),
    _compare("eq", np.equal, "biufc"),
    _compare("ne", np.not_equal, "biufc"),
    _compare("lt", np.less, "biuf"),
    _compare("le", np.less_equal, "biuf"),
    _compare("gt", np.greater, "biuf"),
    _compare("ge", np.greater_equal, "biuf"),
    Row("complex", lax.complex, "w", lambda a, b: a + 1j * b, 2, result="complex", total=False, grad=(-2, 2)),
    Row("divide", lax.div, "iufc", _divide, 2, bounds=B, grad=(0.5, 2), grad_kinds="fc"),
    Row("maximum", lax.max, "biuf", _maximum, 2, bounds=EXACT, grad=(-2, 2)),
    Row("minimum", lax.min, "biuf", _minimum, 2, bounds=EXACT, grad=(-2, 2)),
    Row("multiply", lax.mul, "biufc", _multiply, 2, bounds=B, grad=(-2, 2), grad_kinds="fc"),
    Row("next_after", lax.nextafter, F, _next_after, 2, native=True),
    Row("or", lax.bitwise_or, "biu", np.bitwise_or, 2),
    Row("power", lax.pow, "iufc", _power, 2, low=0, high=6, bounds=POWER, grad=(0.5, 2), grad_kinds="fc"),
    Row("remainder", lax.rem, "iuf", _remainder, 2, bounds=EXACT, grad=(0.6, 0.9)),
    Row("shift_left", lax.shift_left, "iu", _shift_left, 2),
    Row("shift_right_arithmetic", lax.shift_right_arithmetic, "iu", _shift_arithmetic, 2),
    Row("shift_right_logical", lax.shift_right_logical, "iu", _shift_logical, 2),
    Row("subtract", lax.sub, "iufc", np.subtract, 2, bounds=B, grad=(-2, 2), grad_kinds="fc"),
    Row("xor", lax.bitwise_xor, "biu", np.bitwise_xor, 2),
    Row("clamp", lax.clamp, "biuf", _clamp, 3, bounds=EXACT, grad=(-2, 2)),
    Row(
        "select",
        lambda a, b: lax.select(lax.ne(a, a * 0), a, b),
        "iufc",
        lambda a, b: np.where(a != 0, a, b),
        2,
        bounds=EXACT,
        total=False,
        grad=(0.5, 2),
        grad_kinds="fc",
    ),
    *[_converting(d) for k in "biufc" for d in KINDS[k]],
]
