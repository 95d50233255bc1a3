"""Elementwise ops of `lamina.lax`.

Operands of one op have equal shapes or are scalars, and equal element types (Python numbers take the other
operand's); otherwise TypeError. The results have the broadcast shape.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina import _core, dtypes
from lamina._core import Tensor
from lamina._tensor import recording
from lamina.lax._base import const, describe, like, op, to_tensor

_Unary = Callable[[Any], Tensor]
_Binary = Callable[[Any, Any], Tensor]


def _checked(name: str, operands: tuple[Any, ...]) -> list[Tensor]:
    """Tensors of one element type, of one rank with sizes that are equal or 1, or scalar.

    Numbers are rounded to the type once.
    """
    tensors = [to_tensor(x) for x in operands]
    strong = [t for t in tensors if not t.weak_type]
    for i, x in enumerate(operands):
        # Numbers take the others' type, where they have one that can hold them.
        if strong and tensors[i].weak_type and _core.is_number(x):
            mine, other = ("biufc".index(t.dtype.kind) for t in (tensors[i], strong[0]))
            if mine <= other:
                tensors[i] = const(x, strong[0].dtype)
    for t in strong[1:]:
        if t.dtype != strong[0].dtype:
            raise TypeError(
                f"lax.{name} needs operands of one element type, "
                f"not {describe(strong[0])} and {describe(t)}; "
                "convert one with lax.convert_element_type"
            )
    shaped = [t for t in tensors if t.ndim > 0]
    for t in shaped[1:]:
        if t.ndim != shaped[0].ndim or any(1 != n != m != 1 for n, m in zip(t.shape, shaped[0].shape)):
            raise TypeError(
                f"lax.{name} needs operands of one rank (or scalars) whose sizes are equal or 1, "
                f"not {describe(shaped[0])} and {describe(t)}"
            )
    return tensors


def _unary(name: str, core: str, doc: str) -> _Unary:
    def f(x: Any) -> Tensor:
        return _core.elementwise(core, to_tensor(x))

    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return recording(core, "biufc")(f)


def _binary(name: str, core: str, doc: str, **attrs: Any) -> _Binary:
    def f(x: Any, y: Any) -> Tensor:
        return _core.elementwise(core, *_checked(name, (x, y)), **attrs)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = doc
    return f


def _order(name: str, doc: str, direction: str) -> _Binary:
    def f(x: Any, y: Any) -> Tensor:
        a, b = _checked(name, (x, y))
        for t in (a, b):
            if t.dtype.kind == "c":
                raise TypeError(
                    f"lax.{name} does not accept dtype {t.dtype.name} ({describe(t)}), which has no order; "
                    "compare real parts or moduli, or take the function of lamina.numpy, which compares as NumPy does"
                )
        return _core.elementwise("compare", a, b, direction=direction)

    f.__name__ = f.__qualname__ = name
    f.__doc__ = f"{doc} TypeError for complex numbers."
    return f


abs = _unary("abs", "abs", "|x|; of a complex number its real modulus.")
acos = _unary("acos", "acos", "Inverse cosine.")
acosh = _unary("acosh", "acosh", "Inverse hyperbolic cosine.")
asin = _unary("asin", "asin", "Inverse sine.")
asinh = _unary("asinh", "asinh", "Inverse hyperbolic sine.")
atan = _unary("atan", "atan", "Inverse tangent.")
atanh = _unary("atanh", "atanh", "Inverse hyperbolic tangent.")
bitwise_not = _unary("bitwise_not", "not", "Bits inverted; of a bool the negation.")
cbrt = _unary("cbrt", "cbrt", "Cube root.")
ceil = _unary("ceil", "ceil", "Rounded up.")
clz = _unary("clz", "count_leading_zeros", "Number of leading zero bits.")
cos = _unary("cos", "cosine", "Cosine.")
cosh = _unary("cosh", "cosh", "Hyperbolic cosine.")
digamma = _unary("digamma", "digamma", "Derivative of lgamma.")
erf = _unary("erf", "erf", "Error function.")
erf_inv = _unary("erf_inv", "erf_inv", "Inverse error function.")
erfc = _unary("erfc", "erfc", "1 - erf(x), without cancellation.")
exp = _unary("exp", "exponential", "e to the x.")
expm1 = _unary("expm1", "exponential_minus_one", "e to the x, minus 1, without cancellation.")
floor = _unary("floor", "floor", "Rounded down.")
imag = _unary("imag", "imag", "Imaginary part.")
is_finite = _unary("is_finite", "is_finite", "Whether x is neither infinite nor NaN.")
lgamma = _unary("lgamma", "lgamma", "Log of |Gamma(x)|.")
log = _unary("log", "log", "Natural logarithm.")
log1p = _unary("log1p", "log_plus_one", "log(1 + x), without cancellation.")
logistic = _unary("logistic", "logistic", "1 / (1 + exp(-x)).")
neg = _unary("neg", "negate", "-x.")
population_count = _unary("population_count", "popcnt", "Number of one bits.")
real = _unary("real", "real", "Real part.")
rsqrt = _unary("rsqrt", "rsqrt", "1 / sqrt(x).")
sign = _unary("sign", "sign", "-1, 0 or 1; of a complex number x / |x|.")
sin = _unary("sin", "sine", "Sine.")
sinh = _unary("sinh", "sinh", "Hyperbolic sine.")
sqrt = _unary("sqrt", "sqrt", "Square root.")
tan = _unary("tan", "tan", "Tangent.")
tanh = _unary("tanh", "tanh", "Hyperbolic tangent.")

add = _binary("add", "add", "x + y.")
atan2 = _binary("atan2", "atan2", "Angle of the point (y=x, x=y).")
bitwise_and = _binary("bitwise_and", "and", "Bits of both.")
bitwise_or = _binary("bitwise_or", "or", "Bits of either.")
bitwise_xor = _binary("bitwise_xor", "xor", "Bits of exactly one.")
complex = _binary("complex", "complex", "x + iy.")
div = _binary("div", "divide", "x / y; integers are rounded towards zero.")
max = _binary("max", "maximum", "The larger; NaN if either is.")
min = _binary("min", "minimum", "The smaller; NaN if either is.")
_mul = _binary("mul", "multiply", "x * y.")
nextafter = _binary("nextafter", "next_after", "The float next to x towards y.")
rem = _binary("rem", "remainder", "x - y * trunc(x / y), with x's sign.")
shift_left = _binary("shift_left", "shift_left", "x << y; 0 where y is not below the width.")
shift_right_arithmetic = _binary(
    "shift_right_arithmetic", "shift_right_arithmetic", "x >> y, copying the sign."
)
shift_right_logical = _binary("shift_right_logical", "shift_right_logical", "x >> y, filling with zeros.")
sub = _binary("sub", "subtract", "x - y.")
eq = _binary("eq", "compare", "x == y.", direction="EQ")
ne = _binary("ne", "compare", "x != y.", direction="NE")
ge = _order("ge", "x >= y.", "GE")
gt = _order("gt", "x > y.", "GT")
le = _order("le", "x <= y.", "LE")
lt = _order("lt", "x < y.", "LT")


def conj(x: Any) -> Tensor:
    """Complex conjugate; a real x gives a complex result, as in JAX."""
    t = to_tensor(x)
    if t.dtype.kind != "c":
        return complex(t, like(t, 0))
    return complex(real(t), neg(imag(t)))


def convert_element_type(operand: Any, new_dtype: Any) -> Tensor:
    """The operand with another element type; floats to integers round towards zero."""
    name = dtypes.name_of(new_dtype)
    if type(operand) is int and dtypes.canonical(name).kind in "fc":  # of any size
        from lamina import numpy as lnp

        return lnp.asarray(operand, name)
    t = to_tensor(operand)
    if t.dtype == name:
        return _core.set_weak(t, False) if t.weak_type else t
    if t.dtype.kind == "c" and dtypes.canonical(name).kind not in "cb":
        t = real(t)
    return _core.set_weak(_core.elementwise("convert", t, dtype=name), False)


def mul(x: Any, y: Any, *, out_dtype: Any = None) -> Tensor:
    """x * y; with `out_dtype`, of both as that type."""
    if out_dtype is None:
        return _mul(x, y)
    target = dtypes.name_of(out_dtype)
    return _mul(*(_core.elementwise("convert", to_tensor(v), dtype=target) for v in (x, y)))


def mulhi(x: Any, y: Any) -> Tensor:
    """The upper half of the bits of the product of two integers of N bits, which has 2N."""
    a, b = (to_tensor(v) for v in (x, y))
    if a.dtype != b.dtype or a.dtype.kind not in "iu":
        raise TypeError(f"mulhi needs two integers of one type, not {describe(a)} and {describe(b)}")
    width, kind = a.dtype.bits, "int" if a.dtype.kind == "i" else "uint"
    shift = shift_right_arithmetic if kind == "int" else shift_right_logical
    if width < 64:
        wide = [_core.elementwise("convert", v, dtype=f"{kind}64") for v in (a, b)]
        high = shift(_mul(*wide), const(width, f"{kind}64"))
        return _core.elementwise("convert", high, dtype=a.dtype.name)
    half = const(32, a.dtype.name)
    low_bits = const(2**32 - 1, a.dtype.name)
    (a1, a0), (b1, b0) = ((shift(v, half), bitwise_and(v, low_bits)) for v in (a, b))
    middle = add(_mul(a1, b0), shift_right_logical(_mul(a0, b0), half))
    other = add(_mul(a0, b1), bitwise_and(middle, low_bits))
    return add(add(_mul(a1, b1), shift(middle, half)), shift(other, half))


def bitcast_convert_type(operand: Any, new_dtype: Any) -> Tensor:
    """The bits of the operand as another element type.

    A type n times as wide takes a trailing dimension of n elements, one n times as narrow adds it. Every NaN shows the
    bits of the quiet positive one without a payload, since which NaN an operation gives differs between machines.
    """
    t, target = to_tensor(operand), dtypes.canonical(new_dtype)
    have, want = t.dtype.bits, target.bits
    if have == want:
        return op("bitcast_convert", t, dtype=str(target))
    if 6 in (have, want) or "c" in (t.dtype.kind, target.kind) or "b" in (t.dtype.kind, target.kind):
        raise TypeError(f"cannot see the bits of {t.dtype.name} elements as {target.name}")
    unsigned = {n: f"uint{n}" for n in (have, want)}
    source = op("bitcast_convert", t, dtype=unsigned[have])
    if have > want:
        n = have // want
        shape = [*t.shape, n]
        wide = op("broadcast_in_dim", source, shape=shape, broadcast_dimensions=list(range(t.ndim)))
        place = op("iota", dtype=unsigned[have], shape=shape, iota_dimension=t.ndim) * want
        parts = _core.elementwise("convert", shift_right_logical(wide, place), dtype=unsigned[want])
        return op("bitcast_convert", parts, dtype=str(target))
    n = want // have
    if t.ndim == 0 or t.shape[-1] != n:
        raise ValueError(f"{describe(t)} as {target.name} needs a last dimension of size {n}")
    wide = _core.elementwise("convert", source, dtype=unsigned[want])
    place = op("iota", dtype=unsigned[want], shape=list(t.shape), iota_dimension=t.ndim - 1) * have
    from lamina.lax._base import monoid

    bits = op(
        "reduce",
        shift_left(wide, place),
        const(0, unsigned[want]),
        dimensions=[t.ndim - 1],
        body=monoid("or", unsigned[want]),
    )
    return op("bitcast_convert", bits, dtype=str(target))


def clamp(min: Any, x: Any, max: Any) -> Tensor:
    """x limited to min..max; the bounds have x's shape or are scalars."""
    return _core.elementwise("clamp", *_checked("clamp", (min, x, max)))


def exp2(x: Any) -> Tensor:
    """2 to the x."""
    return _core.elementwise("power", 2, to_tensor(x))


def integer_pow(x: Any, y: int) -> Tensor:
    """x to a fixed integer power, by repeated squaring."""
    t = to_tensor(x)
    if y == 0:
        return _core.op("broadcast_in_dim", [like(t, 1)], shape=list(t.shape))[0]
    power, result, n = t, None, y if y > 0 else -y
    while n:
        if n & 1:
            result = power if result is None else mul(result, power)
        n >>= 1
        if n:
            power = mul(power, power)
    return reciprocal(result) if y < 0 else result


def is_nan(x: Any) -> Tensor:
    """Whether x is not a number."""
    t = to_tensor(x)
    return ne(t, t)


def pow(x: Any, y: Any) -> Tensor:
    """x to the y; y may be an integer where x is a float."""
    a, b = to_tensor(x), to_tensor(y)
    if a.dtype.kind in "fc" and b.dtype.kind in "iu":
        b = _core.elementwise("convert", b, dtype=str(a.dtype))
        return _core.elementwise("power", a, b)
    return _core.elementwise("power", *_checked("pow", (x, y)))


def reciprocal(x: Any) -> Tensor:
    """1 / x."""
    return _core.elementwise("divide", 1, to_tensor(x))


def reduce_precision(operand: Any, exponent_bits: int, mantissa_bits: int) -> Tensor:
    """The operand rounded to a float format of these widths."""
    return _core.elementwise(
        "reduce_precision", to_tensor(operand), exponent_bits=exponent_bits, mantissa_bits=mantissa_bits
    )


class RoundingMethod:
    """How `round` treats halves."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def round(x: Any, rounding_method: int = RoundingMethod.AWAY_FROM_ZERO) -> Tensor:
    """The nearest integer; halves away from zero, or to even."""
    name = "round_nearest_even" if rounding_method == RoundingMethod.TO_NEAREST_EVEN else "round_nearest_afz"
    return _core.elementwise(name, to_tensor(x))


def select(pred: Any, on_true: Any, on_false: Any) -> Tensor:
    """on_true where pred, else on_false; pred (bools, or the integers 0 and 1) has their shape or is a scalar."""
    p = to_tensor(pred)
    if p.dtype.kind in "iu":
        return select_n(p, on_false, on_true)
    a, b = _checked("select", (on_true, on_false))
    if p.dtype != "bool":
        raise TypeError(f"lax.select needs a condition of bools or integers, not {describe(p)}")
    if p.ndim and (a.ndim or b.ndim) and p.shape != (a.shape if a.ndim else b.shape):
        raise TypeError(f"lax.select: the condition {describe(p)} does not have the shape of {describe(a)}")
    return _core.elementwise("select", p, a, b)


def select_n(which: Any, *cases: Any) -> Tensor:
    """Element by element, cases[which]; `which` is bool (two cases) or int32, clamped to the cases."""
    w = to_tensor(which)
    if not cases:
        raise ValueError("lax.select_n needs at least one case")
    if w.dtype == "bool":
        if len(cases) > 2:
            raise TypeError(f"lax.select_n with a bool takes at most two cases, not {len(cases)}")
        return select(w, cases[-1], cases[0])
    result = to_tensor(cases[0])
    for i in range(1, len(cases)):
        result = select(ge(w, like(w, i)), cases[i], result)
    return result


def square(x: Any) -> Tensor:
    """x * x."""
    t = to_tensor(x)
    return mul(t, t)


def stop_gradient(x: Any) -> Any:
    """x, which derivatives take for a constant; any container of arrays."""
    from lamina.tree import tree_map

    return tree_map(lambda leaf: op("stop_gradient", to_tensor(leaf)), x)


def optimization_barrier(x: Any) -> Any:
    """x, computed as a whole before anything that uses a part of it; any container of arrays."""
    from lamina.tree import tree_flatten, tree_unflatten

    leaves, treedef = tree_flatten(x)
    arrays = [to_tensor(leaf) for leaf in leaves]
    out = _core.op("optimization_barrier", arrays)
    return tree_unflatten(treedef, [_core.set_weak(y, x.weak_type) for x, y in zip(arrays, out, strict=True)])
