"""Elementwise functions: NumPy's ufuncs. Operands broadcast and promote; where a float is needed, 64-bit integers
become float64 and others float32.
"""

from __future__ import annotations

import builtins
import math
import operator
from typing import Any

from lamina import _core, dtypes
from lamina._core import Tensor
from lamina._observed import plain
from lamina._smooth import log_add_exp
from lamina._tensor import as_type, astype, recording, to_tensor
from lamina.numpy._common import (
    as_operands,
    broadcast_all,
    compare,
    default_int,
    ew,
    floating,
    floats,
    full_of,
    highest,
    in_place,
    inexact,
    lowest,
    promote,
    promote_inexact,
    reduce_op,
    select,
)

# --- from op rows: (name, op, doc) ---


def _float_function(name: str, op_name: str, doc: str, complex_too: bool = False) -> Any:
    def f(x: Any) -> Tensor:
        return ew(op_name, inexact(x) if complex_too else floating(x, name))

    f.__name__ = f.__qualname__ = name
    f.__doc__ = f"{doc} Elementwise; integers and booleans give floats. TypeError where it has no meaning."
    return recording(op_name, "fc" if complex_too else "f")(f)


arccos = acos = _float_function("arccos", "acos", "Inverse cosine.", True)
arccosh = acosh = _float_function("arccosh", "acosh", "Inverse hyperbolic cosine.", True)
arcsin = asin = _float_function("arcsin", "asin", "Inverse sine.", True)
arcsinh = asinh = _float_function("arcsinh", "asinh", "Inverse hyperbolic sine.", True)
arctan = atan = _float_function("arctan", "atan", "Inverse tangent.", True)
arctanh = atanh = _float_function("arctanh", "atanh", "Inverse hyperbolic tangent.", True)
cbrt = _float_function("cbrt", "cbrt", "Cube root.")
cos = _float_function("cos", "cosine", "Cosine.", True)
cosh = _float_function("cosh", "cosh", "Hyperbolic cosine.", True)
exp = _float_function("exp", "exponential", "e to the power of x.", True)
expm1 = _float_function("expm1", "exponential_minus_one", "exp(x) - 1, exact near 0.", True)
log = _float_function("log", "log", "Natural logarithm.", True)
log1p = _float_function("log1p", "log_plus_one", "log(1 + x), exact near 0.", True)
sin = _float_function("sin", "sine", "Sine.", True)
sinh = _float_function("sinh", "sinh", "Hyperbolic sine.", True)
sqrt = _float_function("sqrt", "sqrt", "Square root.", True)
tan = _float_function("tan", "tan", "Tangent.", True)
tanh = _float_function("tanh", "tanh", "Hyperbolic tangent.", True)


_BITWISE = ("and", "or", "xor", "shift_left")


def _binary(name: str, op_name: str, doc: str, boolean: str = "") -> Any:
    def f(x1: Any, x2: Any) -> Tensor:
        a, b = as_operands(x1, x2)
        if boolean and _is_bool(a) and _is_bool(b):
            return ew(boolean, a, b)
        return ew(op_name, a, b)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = f"{doc} Elementwise, with broadcasting and promotion."
    return recording(op_name, "iu" if op_name in _BITWISE else "iufc")(f)


def _is_bool(x: Any) -> bool:
    return x.dtype == "bool" if hasattr(x, "dtype") else type(x) is bool


add = _binary("add", "add", "The sum (of booleans: or).", "or")
multiply = _binary("multiply", "multiply", "The product (of booleans: and).", "and")
bitwise_and = _binary("bitwise_and", "and", "Bitwise and of integers, logical and of booleans.")
bitwise_or = _binary("bitwise_or", "or", "Bitwise or of integers, logical or of booleans.")
bitwise_xor = _binary("bitwise_xor", "xor", "Bitwise exclusive or of integers or booleans.")
left_shift = bitwise_left_shift = _binary("left_shift", "shift_left", "x1 shifted left by x2 bits.")
maximum = _binary("maximum", "maximum", "The larger one; NaN where either is NaN.", "or")
minimum = _binary("minimum", "minimum", "The smaller one; NaN where either is NaN.", "and")


@recording("subtract", "iufc")
def subtract(x1: Any, x2: Any) -> Tensor:
    """The difference, elementwise. TypeError for two booleans, as in NumPy: use logical_xor."""
    a, b = as_operands(x1, x2)
    if _is_bool(a) and _is_bool(b):
        raise TypeError("subtract is not defined for booleans; use logical_xor")
    return ew("subtract", a, b)


def right_shift(x1: Any, x2: Any) -> Tensor:
    """x1 shifted right by x2 bits: the sign is kept for signed integers."""
    a, b = promote(x1, x2)
    return ew("shift_right_logical" if a.dtype.kind == "u" else "shift_right_arithmetic", a, b)


bitwise_right_shift = right_shift


def _comparison(name: str, direction: str, doc: str) -> Any:
    def f(x1: Any, x2: Any) -> Tensor:
        return ew("compare", *as_operands(x1, x2), direction=direction)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = f"Whether x1 {doc} x2, elementwise; bool."
    return recording("compare", "biuf", direction)(f)


equal = _comparison("equal", "EQ", "equals")
not_equal = _comparison("not_equal", "NE", "differs from")
less = _comparison("less", "LT", "is less than")
less_equal = _comparison("less_equal", "LE", "is at most")
greater = _comparison("greater", "GT", "is greater than")
greater_equal = _comparison("greater_equal", "GE", "is at least")

# --- written here ---


@recording("negate", "iufc")
def negative(x: Any) -> Tensor:
    """-x, elementwise. TypeError for booleans: use logical_not."""
    return ew("negate", to_tensor(x))


def positive(x: Any) -> Tensor:
    """+x: x itself."""
    return to_tensor(x)


@recording("abs", "ifc")
def absolute(x: Any) -> Tensor:
    """Absolute value; the modulus (a float) of complex elements."""
    t = to_tensor(x)
    return t if t.dtype.kind in "bu" else ew("abs", t)


abs = absolute


@recording("abs", "f")
def fabs(x: Any) -> Tensor:
    """Absolute value as a float."""
    return ew("abs", floating(x, "fabs"))


@recording("sign", "iufc")
def sign(x: Any) -> Tensor:
    """-1, 0 or 1 (NaN stays); z / |z| of complex elements."""
    return ew("sign", to_tensor(x))


def _rounding(name: str, op_name: str, doc: str) -> Any:
    def f(x: Any) -> Tensor:
        t = to_tensor(x)
        if t.dtype.kind in "biu":
            return t
        return ew(op_name, floating(t, name))

    f.__name__ = f.__qualname__ = name
    f.__doc__ = f"{doc} Integers stay what they are."
    return recording(op_name, "f")(f)


floor = _rounding("floor", "floor", "The largest integer not above x.")
ceil = _rounding("ceil", "ceil", "The smallest integer not below x.")


def trunc(x: Any) -> Tensor:
    """x without its fraction."""
    t = to_tensor(x)
    if t.dtype.kind in "biu":
        return t
    return select(compare(t, 0, "LT"), ew("ceil", t), ew("floor", t))


fix = trunc


def round(a: Any, decimals: int = 0, out: Any = None) -> Tensor:
    """a rounded to `decimals` digits, ties to even."""
    t, decimals = to_tensor(a), operator.index(decimals)
    if t.dtype.kind in "biu":
        if decimals < 0:
            raise NotImplementedError("integers cannot be rounded to negative decimals")
        return t
    if t.dtype.kind == "c":
        return ew("complex", round(real(t), decimals), round(imag(t), decimals))
    if decimals == 0:
        return ew("round_nearest_even", t)
    # Every float has fewer digits before and behind the point.
    factor = 10.0 ** builtins.min(builtins.abs(decimals), 300)
    if decimals < 0:
        tens = ew("round_nearest_even", t / factor)
        return select(compare(tens, 0, "EQ"), tens, tens * factor)
    scaled = t * factor
    # What is too large for that has no digits behind the point.
    return select(ew("is_finite", scaled), ew("round_nearest_even", scaled) / factor, ew("stop_gradient", t))


around = round


@recording("round_nearest_even", "f")
def rint(x: Any) -> Tensor:
    """The nearest integer as a float, ties to even; part by part of complex elements."""
    return round(inexact(x))


def exp2(x: Any) -> Tensor:
    """2 to the power of x."""
    t = inexact(x)
    return ew("power", 2.0, t)


def log2(x: Any) -> Tensor:
    """Logarithm to base 2."""
    return _by_parts(log(x), math.log(2))


def log10(x: Any) -> Tensor:
    """Logarithm to base 10."""
    return _by_parts(log(x), math.log(10))


def _by_parts(t: Tensor, divisor: float) -> Tensor:
    """`t` over a real number: of complex elements each part, as an infinite one leaves the other what it is."""
    if t.dtype.kind != "c":
        return ew("divide", t, divisor)
    return ew("complex", ew("divide", real(t), divisor), ew("divide", imag(t), divisor))


def square(x: Any) -> Tensor:
    """x * x."""
    t = to_tensor(x)
    return multiply(t, t)


def reciprocal(x: Any) -> Tensor:
    """1 / x, a float."""
    return ew("divide", 1.0, inexact(x))


def degrees(x: Any) -> Tensor:
    """Radians as degrees."""
    return floating(x, "degrees") * (180 / math.pi)


def radians(x: Any) -> Tensor:
    """Degrees as radians."""
    return floating(x, "radians") * (math.pi / 180)


rad2deg, deg2rad = degrees, radians


def sinc(x: Any) -> Tensor:
    """sin(pi x) / (pi x), and 1 at 0. Near 0 it is its power series, so that no derivative cancels."""
    t = inexact(x)
    px = t * math.pi
    near = compare(ew("abs", px), 1, "LT")
    z = square(select(near, px, 0.0))
    series: Any = 0.0
    for n in range(11, -1, -1):
        series = series * z + (-1) ** n / math.factorial(2 * n + 1)
    away = select(near, 1.0, px)
    return select(near, series, ew("sine", away) / away)


@recording("divide", "fc")
def true_divide(x1: Any, x2: Any) -> Tensor:
    """The quotient as a float, elementwise: 64-bit integers give float64, other integers and booleans float32."""
    a, b = as_operands(x1, x2)
    return ew("divide", *promote_inexact(a, b))


divide = true_divide


def floor_divide(x1: Any, x2: Any) -> Tensor:
    """The quotient rounded towards minus infinity; integers stay integers, and give 0 when divided by 0."""
    a, b = broadcast_all(*_numbers(x1, x2, "floor_divide"))
    if a.dtype.kind == "u":
        return _unless_by_zero(ew("divide", a, b), b, x2)
    rest = ew("remainder", a, b)
    crosses = ew("and", compare(rest, 0, "NE"), ew("xor", compare(rest, 0, "LT"), compare(b, 0, "LT")))
    if a.dtype.kind == "i":
        q = ew("divide", a, b)
        return _unless_by_zero(select(crosses, q - 1, q), b, x2)
    # As Python: from the remainder, so that q * b + rest gives a back; a division by 0 stays what division
    # gives.
    q = ew("divide", a - rest, b)
    q = ew("round_nearest_even", select(crosses, q - 1, q))
    exact = ew("divide", a, b)
    q = select(compare(q, 0, "EQ"), ew("floor", exact), q)  # a zero has the quotient's sign
    return select(compare(b, 0, "EQ"), exact, q)


def remainder(x1: Any, x2: Any) -> Tensor:
    """The rest of `floor_divide`: it has the sign of x2, as a zero too. Of integers 0 when divided by 0."""
    a, b = broadcast_all(*_numbers(x1, x2, "remainder"))
    rest = ew("remainder", a, b)
    if a.dtype.kind == "u":
        return _unless_by_zero(rest, b, x2)
    crosses = ew("and", compare(rest, 0, "NE"), ew("xor", compare(rest, 0, "LT"), compare(b, 0, "LT")))
    rest = select(crosses, rest + b, rest)
    if a.dtype.kind == "i":
        return _unless_by_zero(rest, b, x2)
    # Sums, not constants, give zeros their sign: they have the derivative of the rest.
    return select(compare(b, 0, "LT"), -(0 - rest), rest + 0)


def _unless_by_zero(result: Tensor, divisor: Tensor, given: Any) -> Tensor:
    """Of integers 0 where the divisor is, as in NumPy; `given` is what the user gave for it."""
    if result.dtype.kind == "f" or (isinstance(given, int) and given != 0):
        return result
    return select(compare(divisor, 0, "EQ"), 0, result)


mod = remainder


def fmod(x1: Any, x2: Any) -> Tensor:
    """The rest of division towards zero: it has the sign of x1. Of integers 0 when divided by 0."""
    a, b = broadcast_all(*_numbers(x1, x2, "fmod"))
    return _unless_by_zero(ew("remainder", a, b), b, x2)


def divmod(x1: Any, x2: Any) -> tuple[Tensor, Tensor]:
    """(floor_divide, remainder)."""
    return floor_divide(x1, x2), remainder(x1, x2)


def _numbers(x1: Any, x2: Any, name: str) -> list[Tensor]:
    a, b = promote(x1, x2)
    if a.dtype.kind == "c":
        raise TypeError(f"{name} is not defined for complex elements")
    return [astype(a, default_int()), astype(b, default_int())] if a.dtype.kind == "b" else [a, b]


def modf(x: Any) -> tuple[Tensor, Tensor]:
    """(fraction, whole part), both with the sign of x. The fraction has the derivative 1, at whole numbers too."""
    t = floating(x, "modf")
    whole = trunc(t)
    infinite = isinf(t)
    finite, part = select(infinite, 0.0, t), select(infinite, 0.0, whole)
    return select(signbit(t), -(part - finite), finite - part), whole


def power(x1: Any, x2: Any) -> Tensor:
    """x1 to the power of x2. A Python integer exponent is done by multiplications, exactly for integers.

    ValueError for an integer x1 with a negative Python integer as exponent.
    """
    x2 = plain(x2, int)
    if not isinstance(x2, Tensor) and getattr(x2, "shape", None) == () and _core.is_number(x2):
        x2 = x2.item()  # a NumPy scalar
    if type(x2) is int and not _is_bool(x1):
        t = to_tensor(x1)
        if t.dtype.kind in "iu" and x2 < 0:
            raise ValueError("integers to negative integer powers are not allowed; convert to float first")
        if -1024 <= x2 <= 1024 and t.dtype.kind != "b":
            return t**x2
    a, b = promote(x1, x2)
    if a.dtype.kind == "b":
        a, b = astype(a, default_int()), astype(b, default_int())
    if a.dtype.kind == "c":
        zero = compare(a, 0, "EQ")
        safe = select(zero, 1.0, a)
        out = ew("exponential", ew("multiply", b, ew("log", safe)))
        # As lax.pow has it: nothing but a positive exponent makes it zero.
        pole = select(compare(ew("real", b), 0, "GT"), 0.0, complex(math.inf, math.nan))
        one = ew("and", compare(b, 0, "EQ"), ew("or", zero, ew("not", isfinite(a))))
        return select(one, 1.0, select(zero, pole, out))
    return ew("power", a, b)


pow = power


def float_power(x1: Any, x2: Any) -> Tensor:
    """x1 to the power of x2 in floating point."""
    return power(*promote_inexact(x1, x2))


def arctan2(x1: Any, x2: Any) -> Tensor:
    """The angle of the point (x2, x1)."""
    return ew("atan2", *floats("arctan2", x1, x2))


atan2 = arctan2


def hypot(x1: Any, x2: Any) -> Tensor:
    """sqrt(x1² + x2²) without overflow between. Of zeros and infinities the derivative is that of the larger one's
    absolute value, which two zeros share."""
    x, y = floats("hypot", x1, x2)
    a, b = ew("abs", x), ew("abs", y)
    first = compare(a, b, "GE")
    big, small = select(first, x, y), select(first, y, x)
    top = ew("maximum", a, b)
    easy = ew("or", compare(top, 0, "EQ"), ew("not", isfinite(top)))
    # Between the pieces the function is smooth: the signs are kept, and both choices of `big` are one function.
    ratio = select(easy, 1.0, small) / select(easy, 1.0, big)
    out = select(easy, top, ew("abs", big) * ew("sqrt", 1.0 + ratio * ratio))
    return select(compare(a, math.inf, "EQ"), a, select(compare(b, math.inf, "EQ"), b, out))


def logaddexp(x1: Any, x2: Any) -> Tensor:
    """log(exp(x1) + exp(x2)) without overflow; of complex numbers the principal value."""
    return log_add_exp(*promote_inexact(x1, x2))


def logaddexp2(x1: Any, x2: Any) -> Tensor:
    """log2(2**x1 + 2**x2) without overflow."""
    a, b = promote_inexact(x1, x2)
    return logaddexp(a * math.log(2), b * math.log(2)) / math.log(2)


def fmax(x1: Any, x2: Any) -> Tensor:
    """The larger one, ignoring NaN where the other is a number."""
    a, b = promote(x1, x2)
    return maximum(a, b) if a.dtype.kind in "biu" else select(isnan(a), b, select(isnan(b), a, maximum(a, b)))


def fmin(x1: Any, x2: Any) -> Tensor:
    """The smaller one, ignoring NaN where the other is a number."""
    a, b = promote(x1, x2)
    return minimum(a, b) if a.dtype.kind in "biu" else select(isnan(a), b, select(isnan(b), a, minimum(a, b)))


def clip(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """x held between `min` and `max`, either of which may be absent."""
    t = to_tensor(x)
    min, max = (None if v is None else _bound(v, t) for v in (min, max))
    if min is not None:
        t = maximum(t, min)
    return t if max is None else minimum(t, max)


def _bound(value: Any, x: Tensor) -> Any:
    """A bound of `clip`; a Python integer beyond the type of integers `x` as their extreme, as in the array API."""
    if not (_core.is_number(value) and x.dtype.kind in "iu") or to_tensor(value).dtype.kind not in "iu":
        return value
    return builtins.min(builtins.max(int(value), lowest(x.dtype)), highest(x.dtype))


def nextafter(x1: Any, x2: Any) -> Tensor:
    """The next float after x1 towards x2."""
    return ew("next_after", *floats("nextafter", x1, x2))


def signbit(x: Any) -> Tensor:
    """Whether the sign bit is set (also of -0.0). A NaN has no sign: False, where NumPy shows the machine's."""
    t = to_tensor(x)
    if t.dtype.kind in "bu":
        return full_of(False, "bool", t.shape)
    if t.dtype.kind == "i":
        return compare(t, 0, "LT")
    t = _wide(floating(t, "signbit"))
    bits = ew("bitcast_convert", t, dtype=f"int{8 * t.dtype.itemsize}")
    return compare(bits, 0, "LT")


def copysign(x1: Any, x2: Any) -> Tensor:
    """|x1| with the sign of x2; a NaN has none and counts as positive."""
    a, b = floats("copysign", x1, x2)
    size = ew("abs", a)
    return select(signbit(b), -size, size)


def heaviside(x1: Any, x2: Any) -> Tensor:
    """0 below 0, 1 above, x2 at 0."""
    a, b = floats("heaviside", x1, x2)
    step = select(compare(a, 0, "EQ"), b, select(isnan(a), a, astype(compare(a, 0, "GT"), a.dtype)))
    return _core.set_weak(step, a.weak_type)


def frexp(x: Any) -> tuple[Tensor, Tensor]:
    """(m, e) with x = m * 2**e and 0.5 <= |m| < 1; e is int32."""
    t = floating(x, "frexp")
    if t.dtype.layout[2] <= 1:
        raise TypeError(
            f"frexp: {t.dtype.name} does not hold every fraction from 0.5 to 1; convert it to float32"
        )
    if t.dtype.itemsize == 1:
        m, e = frexp(astype(t, "float32"))
        return astype(m, t.dtype), e
    wide, mantissa_bits, bias = _float_layout(t.dtype.name)
    # Subnormals are scaled into the normal range first.
    tiny = compare(ew("abs", t), 2.0 ** (2 - bias), "LT")
    scaled = select(tiny, t * 2.0**mantissa_bits, t)
    bits = ew("bitcast_convert", scaled, dtype=f"int{8 * t.dtype.itemsize}")
    raw = ew("and", ew("shift_right_logical", bits, mantissa_bits), (1 << wide) - 1)
    odd = ew("or", compare(t, 0, "EQ"), ew("not", isfinite(t)))
    e = select(odd, 0, astype(raw, "int32") - (bias - 1))
    # A product, exact, so that the fraction has the derivative 2**-e.
    m = ldexp(scaled, -e)
    return select(odd, t, m), select(odd, 0, select(tiny, e - mantissa_bits, e))


def _float_layout(dtype: str) -> tuple[int, int, int]:
    """(exponent bits, mantissa bits, bias)."""
    return dtypes.TABLE[dtype].layout[:3]


def ldexp(x1: Any, x2: Any) -> Tensor:
    """x1 * 2**x2, rounded once.

    Narrower floats are scaled in float64. There the factor is applied in parts that neither overflow nor round before
    the last one does (as in musl's scalbn). TypeError for complex x1 or x2 of floats.
    """
    a, n = floating(x1, "ldexp"), to_tensor(x2)
    if n.dtype.kind not in "biu":
        raise TypeError(f"ldexp needs an integer exponent, not {n.dtype.name}")
    n = _core.recast(n, "float64")
    if a.dtype != "float64":
        return astype(astype(a, "float64") * ew("power", 2.0, clip(n, -400.0, 400.0)), a.dtype)
    for _ in range(2):
        large, small = compare(n, 1023.0, "GT"), compare(n, -1022.0, "LT")
        part = select(large, 1023.0, select(small, -969.0, 0.0 * n))
        a, n = a * ew("power", 2.0, part), n - part
    return a * ew("power", 2.0, clip(n, -1022.0, 1023.0))


# --- logic ---


def _truth(x: Any) -> Tensor:
    t = to_tensor(x)
    return t if t.dtype.kind == "b" else compare(t, 0, "NE")


def logical_and(x1: Any, x2: Any) -> Tensor:
    """Whether both are non-zero."""
    return ew("and", _truth(x1), _truth(x2))


def logical_or(x1: Any, x2: Any) -> Tensor:
    """Whether either is non-zero."""
    return ew("or", _truth(x1), _truth(x2))


def logical_xor(x1: Any, x2: Any) -> Tensor:
    """Whether exactly one is non-zero."""
    return ew("xor", _truth(x1), _truth(x2))


def logical_not(x: Any) -> Tensor:
    """Whether x is zero."""
    return ew("not", _truth(x))


def invert(x: Any) -> Tensor:
    """Every bit turned over; logical not of booleans."""
    return ew("not", to_tensor(x))


bitwise_not = bitwise_invert = invert


def bitwise_count(x: Any) -> Tensor:
    """Number of one bits of |x|, uint8."""
    t = to_tensor(x)
    return astype(t if t.dtype == "bool" else ew("popcnt", absolute(t)), "uint8")


def isnan(x: Any) -> Tensor:
    """Whether x is NaN; for complex elements, whether either part is."""
    t = to_tensor(x)
    return full_of(False, "bool", t.shape) if t.dtype.kind in "biu" else compare(t, t, "NE")


def isfinite(x: Any) -> Tensor:
    """Whether x is neither NaN nor infinite."""
    t = to_tensor(x)
    if t.dtype.kind in "biu":
        return full_of(True, "bool", t.shape)
    if t.dtype.kind == "c":
        return ew("and", isfinite(real(t)), isfinite(imag(t)))
    return ew("is_finite", t)


def isinf(x: Any) -> Tensor:
    """Whether x is infinite of either sign."""
    t = to_tensor(x)
    if t.dtype.kind in "biu":
        return full_of(False, "bool", t.shape)
    if t.dtype.kind == "c":
        return ew("or", isinf(real(t)), isinf(imag(t)))
    return compare(ew("abs", _wide(t)), math.inf, "EQ")


def _wide(x: Tensor) -> Tensor:
    """Floats of one byte, some of which have no infinity to compare with, as float32."""
    return astype(x, "float32") if x.dtype.kind == "f" and x.dtype.itemsize == 1 else x


def isposinf(x: Any) -> Tensor:
    """Whether x is plus infinity."""
    return compare(_wide(floating(x, "isposinf")), math.inf, "EQ")


def isneginf(x: Any) -> Tensor:
    """Whether x is minus infinity."""
    return compare(_wide(floating(x, "isneginf")), -math.inf, "EQ")


def isreal(x: Any) -> Tensor:
    """Whether the imaginary part is zero."""
    t = to_tensor(x)
    return compare(imag(t), 0, "EQ")


def iscomplex(x: Any) -> Tensor:
    """Whether the imaginary part is not zero."""
    return ew("not", isreal(x))


# --- complex ---


def real(x: Any) -> Tensor:
    """The real part."""
    t = to_tensor(x)
    return ew("real", t) if t.dtype.kind == "c" else t


def imag(x: Any) -> Tensor:
    """The imaginary part; zeros for real elements."""
    t = to_tensor(x)
    return ew("imag", t) if t.dtype.kind == "c" else full_of(0, t.dtype.name, t.shape)


def conjugate(x: Any) -> Tensor:
    """The complex conjugate; real elements stay."""
    t = to_tensor(x)
    return ew("complex", ew("real", t), -ew("imag", t)) if t.dtype.kind == "c" else t


conj = conjugate


def angle(z: Any, deg: bool = False) -> Tensor:
    """The argument of complex elements; 0 or pi of real ones."""
    t = inexact(z)
    out = ew("atan2", imag(t), real(t))
    return degrees(out) if deg else out


def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Tensor:
    """NaN replaced by `nan`, infinities by `posinf` and `neginf` (default: the largest finite values).

    Without `copy`, `x` itself is written.
    """
    t = _finite(to_tensor(x), nan, posinf, neginf)
    if not copy and not isinstance(x, (int, float, complex, list, tuple)):
        in_place(x, t, "nan_to_num(copy=False)")
    return t


def _finite(t: Tensor, nan: Any, posinf: Any, neginf: Any) -> Tensor:
    from lamina.numpy._dtypes import finfo

    if t.dtype.kind in "biu":
        return t
    if t.dtype.kind == "c":
        return ew("complex", _finite(real(t), nan, posinf, neginf), _finite(imag(t), nan, posinf, neginf))
    limits = finfo(t.dtype)
    t = select(isnan(t), _as(nan, t), t)
    t = select(isposinf(t), _as(limits.max if posinf is None else posinf, t), t)
    return select(isneginf(t), _as(limits.min if neginf is None else neginf, t), t)


def _as(value: Any, like: Tensor) -> Tensor:
    return as_type(value, like.dtype)


@recording("select", "biufc")
def where(
    condition: Any,
    x: Any = None,
    y: Any = None,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """x where the condition is non-zero, else y; with the condition alone, its `nonzero` with size and fill_value."""
    if x is None and y is None:
        from lamina.numpy._sorting import nonzero

        return nonzero(condition, size=size, fill_value=fill_value)
    if x is None or y is None:
        raise ValueError("where needs both x and y, or neither")
    return select(_truth(condition), x, y)


def gcd(x1: Any, x2: Any) -> Tensor:
    """Greatest common divisor of integers."""
    a, b = _integers(x1, x2, "gcd")
    a, b = broadcast_all(absolute(a), absolute(b))
    spec = (a.dtype.name, list(a.shape), False)

    def condition(p: list[Tensor]) -> list[Tensor]:
        return [reduce_op(compare(p[1], 0, "NE"), "or", False, range(p[1].ndim))]

    def body(p: list[Tensor]) -> list[Tensor]:
        done = compare(p[1], 0, "EQ")
        rest = ew("remainder", p[0], select(done, 1, p[1]))
        return [select(done, p[0], p[1]), select(done, p[1], rest)]

    cond_region, body_region = _core.region(condition, [spec, spec]), _core.region(body, [spec, spec])
    # Where one is the least integer, which has no absolute value, a remainder may be negative.
    return absolute(_core.op("while", [a, b], cond=cond_region, body=body_region)[0])


def lcm(x1: Any, x2: Any) -> Tensor:
    """Least common multiple of integers; one that does not fit the type wraps around."""
    a, b = (absolute(t) for t in _integers(x1, x2, "lcm"))
    divisor = gcd(a, b)
    none = compare(divisor, 0, "EQ")
    return select(none, 0, ew("multiply", ew("divide", a, select(none, 1, divisor)), b))


def _integers(x1: Any, x2: Any, name: str) -> list[Tensor]:
    a, b = promote(x1, x2)
    if a.dtype.kind not in "iu":
        raise TypeError(f"{name} is defined for integers, not {a.dtype.name}")
    return [_core.set_weak(a, False), _core.set_weak(b, False)]


__all__ = [
    n
    for n, v in list(globals().items())
    if not n.startswith("_") and callable(v) and getattr(v, "__module__", "") == __name__
]
