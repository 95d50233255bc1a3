"""Programs of the elementwise operations: special values against each other and random ones, in four shapes.

Oracles of values are those of the table in tests/numerics, which NumPy and mpmath compute; what that table does not
hold (orders and some functions of complex numbers, conversions of bits) is written here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np
from elementwise_table import ROWS, Row, convert_oracle
from spec_elements import BY_TEXT, ELEMENTS, Element
from spec_program import Program, exact, function, near, programs, tensor, within

ROW_OF = {row.op: row for row in reversed(ROWS)}
BOOL = BY_TEXT["i1"]
NAMES = [
    "abs",
    "add",
    "and",
    "atan2",
    "cbrt",
    "ceil",
    "complex",
    "cosine",
    "count_leading_zeros",
    "divide",
    "exponential",
    "exponential_minus_one",
    "floor",
    "is_finite",
    "log",
    "log_plus_one",
    "logistic",
    "maximum",
    "minimum",
    "multiply",
    "negate",
    "not",
    "or",
    "popcnt",
    "power",
    "remainder",
    "round_nearest_afz",
    "round_nearest_even",
    "rsqrt",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "sign",
    "sine",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "xor",
]


def wide(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "c":
        return x.astype(np.clongdouble)
    return x.astype(np.longdouble) if x.dtype.kind not in "biu" else x


def operands(element: Element, arity: int, low: float, high: float, seed: int = 1) -> list[np.ndarray]:
    """All tuples of special values, then random ones."""
    given = [element.samples(low, high, 60, seed + i) for i in range(arity)]
    special = element.specials()
    if arity == 1:
        return given
    if element.narrow:
        given = [np.random.default_rng(seed + i).permutation(g) for i, g in enumerate(given)]
    special = special[:: max(1, len(special) // 12)]
    picks = np.array(list(itertools.product(range(len(special)), repeat=arity)))
    return [np.concatenate([special[picks[:, i]], given[i]]) for i in range(arity)]


def shapes(
    op: str,
    columns: list[np.ndarray],
    elements: list[Element],
    result: Element,
    value: Callable[..., Any],
    judge: Any = None,
    attributes: str = "",
) -> Program:
    """One module: the operation on a list, in pretty form on a matrix, on scalars, and on nothing."""
    n = len(columns[0]) // 6 * 6
    views = [[c, c[:n].reshape(6, -1), c[1].reshape(()), c[:0].reshape(0, 3)] for c in columns]
    arguments, lines, results, inputs, want = [], [], [], [], []
    for k in range(4):
        given = [v[k] for v in views]
        names = [f"%a{len(arguments) + i}" for i in range(len(given))]
        types = [tensor(g.shape, e) for g, e in zip(given, elements)]
        out = tensor(given[0].shape, result)
        same_type = len(set(types)) == 1 and types[0] == out
        if k == 1 and not attributes and (same_type or len(types) == 1):
            types_text = out if same_type else f"({', '.join(types)}) -> {out}"
            lines.append(f"  %r{k} = stablehlo.{op} {', '.join(names)} : {types_text}")
        else:
            held = f" {{{attributes}}}" if attributes else ""
            lines.append(
                f'  %r{k} = "stablehlo.{op}"({", ".join(names)}){held} : ({", ".join(types)}) -> {out}'
            )
        arguments += types
        results.append(out)
        inputs += given
        want.append(value(*given))
    text = function(arguments, results, "\n".join(lines), ", ".join(f"%r{k}" for k in range(4)))
    return Program(text, inputs, want, judge)


def complex_judge(name: str, bound: float, given: list[np.ndarray]) -> Any:
    """Normwise where the operands and the exact value are finite and far from the ends of the range."""
    part = np.finfo("float32" if name == "complex64" else "float64")
    tame = np.logical_and.reduce([np.isfinite(g) for g in given])

    def judge(got: np.ndarray, want: np.ndarray) -> str:
        take = (tame[1:2] if want.ndim == 0 else tame[: want.size]).reshape(want.shape) & np.isfinite(want)
        size = np.abs(np.where(take, want, 1))
        take = take & (size < part.max / 4) & (size > part.tiny)
        unit = size * part.eps / 2
        off = np.where(take, np.abs(got.astype(np.clongdouble) - np.where(take, want, 0)) / unit, 0)
        off = np.where(np.isnan(off), np.inf, off)
        worst = int(np.argmax(off)) if off.size else 0
        if off.size == 0 or off.flat[worst] <= 2 * bound:
            return ""
        return (
            f"[{worst}] is {got.flat[worst]!r}, exactly {want.flat[worst]!r}, {off.flat[worst]:.2f} half ulps"
        )

    return judge


def result_of(row: Row, element: Element) -> Element:
    if row.result == "part":
        return element.part
    if row.result == "complex":
        return BY_TEXT[f"complex<{element.text}>"]
    return BOOL if row.result == "bool" else element


@programs(*NAMES)
def elementwise(op: str, element: Element) -> Iterator[Program]:
    row = ROW_OF[op]
    if element.kind == "c" and op in COMPLEX:
        yield from COMPLEX[op](element)
        return
    given = operands(element, row.arity, row.low, row.high)
    result = result_of(row, element)
    if element.narrow:
        yield shapes(op, given, [element] * row.arity, result, narrow_oracle(op, element, result))
        return
    integral = result.kind in "biu" or row.native
    if integral:
        yield shapes(op, given, [element] * row.arity, result, row.oracle)
        return
    judge = (
        complex_judge(result.name, row.bounds[result.name], given)
        if result.kind == "c"
        else within(result.name, row.bounds[result.name])
    )
    yield shapes(op, given, [element] * row.arity, result, lambda *xs: row.oracle(*map(wide, xs)), judge)


# --- element types of a byte or less: computed in 64 bits, then made elements ---


def narrow_oracle(op: str, element: Element, result: Element) -> Callable[..., np.ndarray]:
    bits, mask = element.bits, (1 << element.bits) - 1
    by_width: dict[str, Callable[..., Any]] = {
        "count_leading_zeros": lambda x: bits - int(x & mask).bit_length(),
        "popcnt": lambda x: int(x & mask).bit_count(),
        "shift_left": lambda x, n: x << (n & mask) if n & mask < bits else 0,
        "shift_right_logical": lambda x, n: (x & mask) >> (n & mask) if n & mask < bits else 0,
        "shift_right_arithmetic": lambda x, n: (
            ((x & mask) - ((x & mask) >> (bits - 1) << bits)) >> min(n & mask, bits - 1)
        ),
    }

    def value(*columns: np.ndarray) -> np.ndarray:
        wide_columns = [element.wide(c) for c in columns]
        if op in by_width:
            each = [by_width[op](*map(int, v)) for v in zip(*(c.ravel() for c in wide_columns))]
            return element.cast(np.array(each, np.int64).reshape(columns[0].shape))
        out = np.asarray(ROW_OF[op].oracle(*(wide(c) for c in wide_columns)))
        if result.kind == "f" and op != "power":  # computed in f32; powers in f64
            out = out.astype(np.float32)
        return out if result.kind == "b" else result.cast(out)

    return value


# --- complex numbers where the table has reals only ---


def by_mpmath(f: Callable[..., Any]) -> Callable[..., np.ndarray]:
    """`f` on complex mpmath numbers, element by element, at 40 digits; rounded to longdouble."""

    def real(x: Any) -> np.longdouble:
        return np.longdouble(mpmath.nstr(x, 25))

    def value(*columns: np.ndarray) -> np.ndarray:
        out = np.empty(columns[0].shape, np.clongdouble)
        with mpmath.workdps(40):
            for i in np.ndindex(out.shape):
                z = f(*(mpmath.mpc(float(c[i].real), float(c[i].imag)) for c in columns))
                z = mpmath.mpc(z)
                out[i] = real(z.real) + 1j * real(z.imag)
        return out

    return value


def finite_operands(element: Element, arity: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [
        (rng.uniform(-4, 4, 60) + 1j * rng.uniform(-4, 4, 60)).astype(element.dtype) for _ in range(arity)
    ]


def mp_atan2(y: Any, x: Any) -> Any:
    """-i log((x + iy) / sqrt(x^2 + y^2))"""
    return -1j * mpmath.log((x + 1j * y) / mpmath.sqrt(x * x + y * y))


def atan2(element: Element) -> Iterator[Program]:
    given = finite_operands(element, 2, 3)
    yield shapes("atan2", given, [element] * 2, element, by_mpmath(mp_atan2), near(40 * element.eps))


def cbrt(element: Element) -> Iterator[Program]:
    """The principal root."""
    (given,) = finite_operands(element, 1, 4)
    yield shapes(
        "cbrt",
        [given],
        [element],
        element,
        by_mpmath(lambda z: z ** (mpmath.mpf(1) / 3)),
        near(8 * element.eps),
    )


def ordered(element: Element) -> list[np.ndarray]:
    """Complex numbers many of whose parts are equal."""
    rng = np.random.default_rng(5)
    parts = np.array([-2, -1, 0, 1, 2, np.inf, -np.inf])
    pick = lambda: rng.choice(parts, 60)  # noqa: E731
    out = []
    for _ in range(3):
        z = np.empty(60, element.dtype)
        z.real, z.imag = pick(), pick()
        out.append(z)
    return out


def less(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """By real parts, then by imaginary ones."""
    return (a.real < b.real) | ((a.real == b.real) & (a.imag < b.imag))


def greatest(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(less(a, b), b, a)


def least(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.where(less(b, a), b, a)


def maximum(element: Element) -> Iterator[Program]:
    yield shapes("maximum", ordered(element)[:2], [element] * 2, element, greatest)


def minimum(element: Element) -> Iterator[Program]:
    yield shapes("minimum", ordered(element)[:2], [element] * 2, element, least)


COMPLEX = {"atan2": atan2, "cbrt": cbrt, "maximum": maximum, "minimum": minimum}


# --- operations with attributes or types of their own ---


@programs("real", "imag")
def parts(op: str, element: Element) -> Iterator[Program]:
    """Of a float: itself and zero."""
    given = element.samples(-9, 9, 60)
    if element.kind == "c":
        value = np.real if op == "real" else np.imag
    else:
        value = (lambda x: x) if op == "real" else (lambda x: element.cast(np.zeros(x.shape)))
    yield shapes(op, [given], [element], element.part, value)


COMPARISONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}


def canonical_nans(x: np.ndarray) -> np.ndarray:
    """`x` with the NaN that shows here for every NaN: quiet, positive, without a payload."""
    if x.dtype.kind in "biu" or not np.isnan(x.astype(np.float64)).any():
        return x
    return np.where(np.isnan(x.astype(np.float64)), np.array(np.nan).astype(x.dtype), x).astype(x.dtype)


def total_order(x: np.ndarray) -> np.ndarray:
    """-inf, ..., -0, 0, ..., inf, NaN as integers."""
    bits = canonical_nans(x).view(f"i{x.dtype.itemsize}").astype(object)
    return (
        np.vectorize(
            lambda b: b if b >= 0 else -(b & ((1 << (8 * x.dtype.itemsize - 1)) - 1)) - 1, otypes=[object]
        )(bits)
        if x.size
        else bits
    )


@programs("compare")
def compare(element: Element) -> Iterator[Program]:
    types = {
        "b": ["UNSIGNED"],
        "i": ["SIGNED"],
        "u": ["UNSIGNED"],
        "f": ["FLOAT", "TOTALORDER"],
        "c": ["FLOAT"],
    }
    if element.narrow:
        types["f"] = ["FLOAT"]
    given = operands(element, 2, -9, 9)
    if element.kind == "c":
        given = ordered(element)[:2]
    for direction, compares in COMPARISONS.items():
        for kind in types[element.kind]:
            if kind == "TOTALORDER":
                value = lambda a, b, f=compares: np.asarray(f(total_order(a), total_order(b)), bool)  # noqa: E731
            elif element.kind == "c":
                value = complex_comparison(direction)
            else:
                value = lambda a, b, f=compares: f(element.wide(a), element.wide(b))  # noqa: E731
            attributes = (
                f"comparison_direction = #stablehlo<comparison_direction {direction}>, "
                f"compare_type = #stablehlo<comparison_type {kind}>"
            )
            yield shapes("compare", given, [element] * 2, BOOL, value, attributes=attributes)


def complex_comparison(direction: str) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return {
        "EQ": np.equal,
        "NE": np.not_equal,
        "LT": less,
        "LE": lambda a, b: ~less(b, a),
        "GT": lambda a, b: less(b, a),
        "GE": lambda a, b: ~less(a, b),
    }[direction]


@programs("select")
def select(element: Element) -> Iterator[Program]:
    """By an array, and by one scalar."""
    a, b = operands(element, 2, -9, 9)
    p = np.random.default_rng(2).integers(0, 2, a.shape).astype(bool)
    yield shapes("select", [p, a, b], [BOOL, element, element], element, np.where)
    t = tensor(a.shape, element)
    for chosen in (True, False):
        text = function(
            ["tensor<i1>", t, t],
            [t],
            f"  %r = stablehlo.select %a0, %a1, %a2 : (tensor<i1>, {t}, {t}) -> {t}",
        )
        yield Program(text, [np.array(chosen), a, b], [a if chosen else b])


@programs("clamp")
def clamp(element: Element) -> Iterator[Program]:
    if element.kind == "c":
        given = ordered(element)
        value = lambda low, x, high: least(greatest(x, low), high)  # noqa: E731
    else:
        given = operands(element, 3, -9, 9)
        oracle = ROW_OF["clamp"].oracle

        def value(low: np.ndarray, x: np.ndarray, high: np.ndarray) -> np.ndarray:
            return element.cast(oracle(*(wide(element.wide(v)) for v in (low, x, high))))

    yield shapes("clamp", given, [element] * 3, element, value)
    t, s = tensor(given[1].shape, element), tensor((), element)
    text = function([s, t, s], [t], f'  %r = "stablehlo.clamp"(%a0, %a1, %a2) : ({s}, {t}, {s}) -> {t}')
    low, high = np.asarray(given[0][3]), np.asarray(given[2][5])
    yield Program(text, [low, given[1], high], [np.asarray(value(low, given[1], high))])


def converted(x: np.ndarray, element: Element, to: Element) -> np.ndarray:
    x = element.wide(x)
    if not to.narrow:
        return convert_oracle(x, to.name)
    if x.dtype.kind == "c":
        x = x.real
    if to.kind == "f" or x.dtype.kind in "biu":
        return to.cast(x.astype(np.float64 if to.kind == "f" else np.int64))
    least = -(1 << (to.bits - 1)) if to.kind == "i" else 0
    whole = np.trunc(np.nan_to_num(x.astype(np.float64), nan=0.0))
    return to.cast(np.clip(whole, least, least + (1 << to.bits) - 1).astype(np.int64))


@programs("convert")
def convert(element: Element) -> Iterator[Program]:
    """To every element type."""
    given = element.samples(-300, 300, 60)
    if element.kind == "c":
        given = given[np.isfinite(given)]
    for to in ELEMENTS:
        value = lambda v, to=to: converted(v.ravel(), element, to).reshape(v.shape)  # noqa: E731
        yield shapes("convert", [given], [element], to, value)


@programs("bitcast_convert")
def bitcast_convert(element: Element) -> Iterator[Program]:
    """Among types of as many bits elementwise; among others along a last dimension, in little-endian order."""
    rng = np.random.default_rng(9)
    for to in ELEMENTS:
        if element.kind in "bc" or to.kind in "bc":
            if to != element:
                continue
            x = element.samples(-5, 5, 20)
            yield Program(
                function(
                    *[[tensor(x.shape, element)]] * 2,
                    f"  %r = stablehlo.bitcast_convert %a0 : ({tensor(x.shape, element)}) -> {tensor(x.shape, element)}",
                ),
                [x],
                [x],
            )
            continue
        if min(element.bits, to.bits) < 8:
            if element.bits == to.bits:
                x = element.samples(0, 0, 0)
                bits = x.view(np.uint8) & ((1 << element.bits) - 1)
                want = to.cast(bits) if to.kind in "iu" else bits.view(to.dtype)
                a, b = tensor(x.shape, element), tensor(x.shape, to)
                text = function([a], [b], f"  %r = stablehlo.bitcast_convert %a0 : ({a}) -> {b}")
                yield Program(text, [x], [want], exact)
            continue
        size, wanted = element.dtype.itemsize, to.dtype.itemsize
        shape = (5, wanted // size) if wanted > size else (5,)
        x = np.frombuffer(rng.bytes(int(np.prod(shape)) * size), element.dtype).reshape(shape)
        out = (5,) if wanted >= size else (5, size // wanted)
        want = np.frombuffer(canonical_nans(x).tobytes(), to.dtype).reshape(out)
        a, b = tensor(shape, element), tensor(out, to)
        yield Program(
            function([a], [b], f"  %r = stablehlo.bitcast_convert %a0 : ({a}) -> {b}"), [x], [want], exact
        )


def rounded(x: np.ndarray, exponent_bits: int, mantissa_bits: int) -> np.ndarray:
    """That many stored bits of the fraction, nearest even; beyond the format's range infinity, below it zero."""
    bias = (1 << (exponent_bits - 1)) - 1
    low = {"float16": -14, "float64": -1022}.get(x.dtype.name, -126)
    value = np.where(np.isfinite(x), x, 0).astype(np.longdouble)
    unit = np.ldexp(np.ones_like(value), np.maximum(np.frexp(value)[1] - 1, low) - mantissa_bits)
    y = np.rint(value / unit) * unit
    if 1 - bias > low:  # else the type's own subnormals stay
        y = np.where(np.abs(y) < np.ldexp(np.longdouble(1), 1 - bias), np.copysign(0, value), y)
    y = np.where(np.abs(y) >= np.ldexp(np.longdouble(1), bias + 1), np.copysign(np.inf, value), y)
    return np.where(np.isfinite(x), y.astype(x.dtype), x)


@programs("reduce_precision")
def reduce_precision(element: Element) -> Iterator[Program]:
    for exponent_bits, mantissa_bits in ((5, 10), (4, 3), (5, 2), (8, 7)):
        given = element.samples(-50, 50, 60)
        yield shapes(
            "reduce_precision",
            [given],
            [element],
            element,
            lambda x, e=exponent_bits, m=mantissa_bits: (
                element.cast(rounded(x.astype(np.float32), e, m)) if element.narrow else rounded(x, e, m)
            ),
            attributes=f"exponent_bits = {exponent_bits} : i32, mantissa_bits = {mantissa_bits} : i32",
        )
