"""Programs on quantized arrays, for every operation that the specification lets take or give them.

Scales are powers of two where results must be exact; elsewhere a result may be one step off only next to a tie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.linalg
from elementwise_table import ROWS
from quantized import Quantized
from spec_elements import BY_TEXT
from spec_linear import PLAIN, convolved, dot
from spec_movement import GATHERS, PADS, gather_attributes, gathered, padded, shape_operand
from spec_program import Program, function, ints, one_op

I8, U8, I16, I32 = (BY_TEXT[t] for t in ("i8", "ui8", "i16", "i32"))
BF16, F16, F32, F64 = (BY_TEXT[t] for t in ("bf16", "f16", "f32", "f64"))
Q = Quantized
PLAIN_TYPES = (
    Q(),
    Q(I8, F32, (0.0625,), (3,)),
    Q(U8, F32, (0.25,), (128,)),
    Q(I8, F32, (0.1,), (-5,), bounds=(-127, 127)),
    Q(I16, F32, (0.001,), (12,)),
    Q(I32, F64, (1e-6,), (-7,)),
    Q(I8, F16, (0.03,), (1,)),
    Q(U8, BF16, (0.5,), (7,)),
    Q(I32, F32, (0.5,), (1000,), bounds=(5, 2000000001)),
    Q(BY_TEXT["i4"], F32, (0.5,), (-2,)),
    Q(BY_TEXT["ui4"], F16, (0.25,), (3,), bounds=(1, 14)),
    Q(BY_TEXT["i2"], F32, (1.5,)),
)
PER_AXIS = Q(I8, F32, (0.5, 0.25, 2.0), (0, -3, 7), dimension=1)
RNG = np.random.default_rng(61)
QuantizedMaker = Callable[[], Iterator[Program]]
QUANTIZED: dict[str, QuantizedMaker] = {}


def quantized(*ops: str) -> Callable[[Callable[..., Iterator[Program]]], Any]:
    def register(make: Callable[..., Iterator[Program]]) -> Any:
        for op in ops:
            QUANTIZED[op] = make if len(ops) == 1 else (lambda op=op: make(op))
        return make

    return register


# --- between numbers and stored integers ---


def awkward(q: Quantized) -> np.ndarray:
    """Ties, both ends and beyond, infinities, NaN and zeros, as numbers of the expressed type."""
    steps = np.array([0, 0.5, 1.5, 2.5, -0.5, -1.5, 0.49, 1e9, -1e9, q.least, q.greatest, q.greatest + 0.5])
    numbers = np.concatenate(
        [steps * q.scales[0], [np.inf, -np.inf, np.nan, 0.0, -0.0], RNG.uniform(-40, 40, 40)]
    )
    return numbers.astype(q.expressed.dtype)


@quantized("uniform_quantize")
def uniform_quantize() -> Iterator[Program]:
    """Of numbers, and from one quantized type to another."""
    for q in PLAIN_TYPES:
        x = awkward(q)
        given, made = f"tensor<{x.size}x{q.expressed.text}>", q.tensor(x.shape)
        yield Program(one_op("uniform_quantize", [given], [made]), [x], [q.stored(x)], note=q.text)
        pretty = f"  %r = stablehlo.uniform_quantize %a0 : ({given}) -> {made}"
        yield Program(function([given], [made], pretty), [x], [q.stored(x)])
    x = RNG.uniform(-99, 99, (4, 3)).astype(np.float32)
    text = one_op("uniform_quantize", ["tensor<4x3xf32>"], [PER_AXIS.tensor((4, 3))])
    yield Program(text, [x], [PER_AXIS.stored(x)])
    for q, to in ((PLAIN_TYPES[0], PLAIN_TYPES[1]), (PER_AXIS, PLAIN_TYPES[2]), (PLAIN_TYPES[4], PER_AXIS)):
        x = q.random(RNG, (4, 3))
        text = one_op("uniform_quantize", [q.tensor((4, 3))], [to.tensor((4, 3))])
        yield Program(text, [x], [to.stored(q.numbers(x))])


@quantized("uniform_dequantize")
def uniform_dequantize() -> Iterator[Program]:
    for q in (*PLAIN_TYPES, PER_AXIS):
        for shape in ((5, 3), (0, 3)) if q.dimension is not None else ((7,), (), (2, 0)):
            x = q.random(RNG, shape)
            out = f"tensor<{''.join(f'{d}x' for d in shape)}{q.expressed.text}>"
            yield Program(
                one_op("uniform_dequantize", [q.tensor(shape)], [out]), [x], [q.numbers(x)], note=q.text
            )


# --- on the numbers ---


def beside_ties(q: Quantized, eps: float) -> Callable[[np.ndarray, np.ndarray], str]:
    """The stored integer of the exact number, or its neighbour where that lies next to a tie."""

    def judge(got: np.ndarray, want: np.ndarray) -> str:
        place = want.astype(np.float64) / q.scales[0] + q.zero_points[0]
        place = np.nan_to_num(np.clip(place, q.least, q.greatest), nan=np.clip(0, q.least, q.greatest))
        off = np.abs(got.astype(np.float64) - place) - 0.5 - 8 * eps * np.maximum(np.abs(place), 1)
        worst = int(np.argmax(off)) if off.size else 0
        if got.dtype != q.dtype or got.shape != want.shape:
            return f"{got.dtype}{list(got.shape)}"
        return (
            ""
            if off.size == 0 or off.flat[worst] <= 0
            else f"[{worst}] is {got.flat[worst]}, not {place.flat[worst]}"
        )

    return judge


UNARY = [
    *[
        "abs",
        "cbrt",
        "ceil",
        "cosine",
        "exponential",
        "exponential_minus_one",
        "floor",
        "log",
        "log_plus_one",
    ],
    *[
        "logistic",
        "negate",
        "round_nearest_afz",
        "round_nearest_even",
        "rsqrt",
        "sign",
        "sine",
        "sqrt",
        "tan",
        "tanh",
    ],
]
ORACLE = {row.op: row.oracle for row in reversed(ROWS)}


@quantized(*UNARY)
def unary(op: str) -> Iterator[Program]:
    """Of every stored integer of 8 bits."""
    for q, to in (
        (PLAIN_TYPES[1], PLAIN_TYPES[1]),
        (Q(I8, F32, (0.0625,), (3,)), Q(I8, F32, (0.02,), (-9,))),
    ):
        x = np.arange(-128, 128).astype(np.int8)
        text = one_op(op, [q.tensor(x.shape)], [to.tensor(x.shape)])
        want = ORACLE[op](q.numbers(x).astype(np.longdouble))
        yield Program(text, [x], [want], beside_ties(to, to.expressed.eps))
    q = PLAIN_TYPES[6]
    x = q.random(RNG, (9,))
    text = function([q.tensor((9,))], [q.tensor((9,))], f"  %r = stablehlo.{op} %a0 : {q.tensor((9,))}")
    yield Program(
        text, [x], [ORACLE[op](q.numbers(x).astype(np.longdouble))], beside_ties(q, q.expressed.eps)
    )


BINARY = ["add", "atan2", "divide", "maximum", "minimum", "multiply", "power", "remainder", "subtract"]


@quantized(*BINARY)
def binary(op: str) -> Iterator[Program]:
    for q in PLAIN_TYPES:
        x, y = q.random(RNG, (40,)), q.random(RNG, (40,))
        t = q.tensor((40,))
        text = function([t, t], [t], f"  %r = stablehlo.{op} %a0, %a1 : {t}")
        f = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide}.get(op)
        if f:  # rounded once in the expressed type
            yield Program(text, [x, y], [q.stored(f(q.numbers(x), q.numbers(y)))], note=q.text)
        else:
            a, b = (q.numbers(v).astype(np.longdouble) for v in (x, y))
            yield Program(text, [x, y], [ORACLE[op](a, b)], beside_ties(q, q.expressed.eps), q.text)
    a, b, c = Q(scales=(0.5,), zero_points=(3,)), Q(scales=(2.0,)), Q(scales=(0.125,), zero_points=(-100,))
    x, y = a.random(RNG, (50,)), b.random(RNG, (50,))
    f = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum}.get(op)
    if f:
        text = one_op(op, [a.tensor((50,)), b.tensor((50,))], [c.tensor((50,))])
        yield Program(text, [x, y], [c.stored(f(a.numbers(x), b.numbers(y)))])
    if op == "add":  # the one that takes dimensions
        q = PER_AXIS
        x, y = q.random(RNG, (4, 3)), q.random(RNG, (4, 3))
        text = one_op(op, [q.tensor((4, 3))] * 2, [q.tensor((4, 3))])
        yield Program(text, [x, y], [q.stored(q.numbers(x) + q.numbers(y))])


@quantized("clamp")
def clamp() -> Iterator[Program]:
    a, b = PLAIN_TYPES[1], Q(I8, F32, (0.25,), (9,))
    x = a.random(RNG, (30,))
    low, high = np.int8(-20), np.int8(35)
    s, t = a.tensor(()), a.tensor((30,))
    want = b.stored(np.clip(a.numbers(x), a.numbers(np.asarray(low)), a.numbers(np.asarray(high))))
    yield Program(one_op("clamp", [s, t, s], [b.tensor((30,))]), [low, x, high], [want])


@quantized("compare")
def compare() -> Iterator[Program]:
    """Of numbers, whatever their scales."""
    a, b = Q(scales=(0.5,), zero_points=(3,)), Q(scales=(0.25,), zero_points=(-8,))
    x, y = a.random(RNG, (60,)), b.random(RNG, (60,))
    for name, f in (("LT", np.less), ("EQ", np.equal), ("GE", np.greater_equal)):
        attributes = f"comparison_direction = #stablehlo<comparison_direction {name}>"
        text = one_op("compare", [a.tensor((60,)), b.tensor((60,))], ["tensor<60xi1>"], attributes)
        yield Program(text, [x, y], [f(a.numbers(x), b.numbers(y))])


@quantized("is_finite")
def is_finite() -> Iterator[Program]:
    q = PLAIN_TYPES[0]
    yield Program(
        one_op("is_finite", [q.tensor((4,))], ["tensor<4xi1>"]), [q.random(RNG, (4,))], [np.ones(4, bool)]
    )


@quantized("select")
def select() -> Iterator[Program]:
    a, b, c = Q(scales=(0.5,)), Q(scales=(0.25,), zero_points=(4,)), Q(scales=(0.75,))
    p, x, y = RNG.integers(0, 2, 30).astype(bool), a.random(RNG, (30,)), b.random(RNG, (30,))
    text = one_op("select", ["tensor<30xi1>", a.tensor((30,)), b.tensor((30,))], [c.tensor((30,))])
    yield Program(text, [p, x, y], [c.stored(np.where(p, a.numbers(x), b.numbers(y)))])


@quantized("reduce_precision")
def reduce_precision() -> Iterator[Program]:
    """Two bits of fraction are left of the numbers."""
    q = Q(scales=(1.0,))
    x = np.arange(-128, 128).astype(np.int8)
    value = x.astype(np.float64)
    unit = 2.0 ** (np.frexp(value)[1] - 3)
    text = one_op(
        "reduce_precision",
        [q.tensor((256,))],
        [q.tensor((256,))],
        "exponent_bits = 5 : i32, mantissa_bits = 2 : i32",
    )
    yield Program(text, [x], [q.stored(np.rint(value / unit) * unit)])


@quantized("iota", "dynamic_iota")
def iota(op: str) -> Iterator[Program]:
    q = Q(scales=(0.5,), zero_points=(-10,))
    t, want = q.tensor((3, 90)), q.stored(np.indices((3, 90))[1])
    if op == "iota":
        yield Program(one_op(op, [], [t], "iota_dimension = 1 : i64"), [], [want])
        return
    body = (
        shape_operand((3, 90), "%s") + f"  %r = stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi64>) -> {t}"
    )
    yield Program(function([], [t], body), [], [want])


DOT = "dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>"


@quantized("dot_general")
def dot_general() -> Iterator[Program]:
    """Of two quantized operands, per tensor and per axis, and of numbers with quantized weights."""
    a, b, c = Q(scales=(0.5,), zero_points=(3,)), Q(scales=(0.25,)), Q(scales=(4.0,), zero_points=(-2,))
    axis = Q(scales=(0.5, 0.25, 2.0, 1.0), zero_points=(0,) * 4, dimension=1)
    out = Q(scales=(4.0, 8.0, 2.0, 16.0), zero_points=(1, -2, 3, 4), dimension=1)
    x = a.random(RNG, (5, 6))
    for weights, result in ((b, c), (axis, c), (axis, out)):
        w = weights.random(RNG, (6, 4))
        want = result.stored(dot(a.numbers(x), weights.numbers(w), [], [], [1], [0]))
        text = one_op("dot_general", [a.tensor((5, 6)), weights.tensor((6, 4))], [result.tensor((5, 4))], DOT)
        yield Program(text, [x, w], [want])
    numbers = RNG.integers(-8, 8, (5, 6)).astype(np.float32)
    for weights in (b, axis):
        w = weights.random(RNG, (6, 4))
        text = one_op("dot_general", ["tensor<5x6xf32>", weights.tensor((6, 4))], ["tensor<5x4xf32>"], DOT)
        yield Program(text, [numbers, w], [numbers @ weights.numbers(w)])


CONV = (
    "window_strides = array<i64: 1, 1>, padding = dense<[[1, 0], [0, 1]]> : tensor<2x2xi64>, "
    "lhs_dilation = array<i64: 1, 1>, rhs_dilation = array<i64: 1, 1>, "
    "dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, "
    "feature_group_count = 1 : i64, batch_group_count = 1 : i64"
)


@quantized("convolution", "dynamic_conv")
def convolution(op: str) -> Iterator[Program]:
    """The padding is the number zero."""
    a, b, c = Q(scales=(0.5,), zero_points=(3,)), Q(scales=(0.25,), zero_points=(5,)), Q(scales=(16.0,))
    axis = Q(scales=(0.5, 0.25, 2.0), zero_points=(1, 0, -4), dimension=3)
    out = Q(scales=(8.0, 4.0, 32.0), zero_points=(0, 1, 2), dimension=3)
    c_attributes = PLAIN | {"padding": [[1, 0], [0, 1]]}
    cases: Sequence[tuple[Any, Any, Any]] = (
        (a, b, c),
        (a, axis, c),
        (a, axis, out),
        (None, b, None),
        (None, axis, None),
    )
    for left, weights, result in cases:
        shape, kernel = (1, 3, 4, 2), (2, 2, 2, 3)
        x = left.random(RNG, shape) if left else RNG.integers(-8, 8, shape).astype(np.float32)
        w = weights.random(RNG, kernel)
        numbers = convolved(left.numbers(x) if left else x, weights.numbers(w), c_attributes)
        want = result.stored(numbers) if result else numbers
        types = [left.tensor(shape) if left else "tensor<1x3x4x2xf32>", weights.tensor(kernel)]
        made = result.tensor(want.shape) if result else "tensor<1x3x4x3xf32>"
        if op == "convolution":
            yield Program(one_op(op, types, [made], CONV), [x, w], [want])
            continue
        body = "  %p = stablehlo.constant dense<[[1, 0], [0, 1]]> : tensor<2x2xi64>\n"
        rest = CONV.replace("padding = dense<[[1, 0], [0, 1]]> : tensor<2x2xi64>, ", "")
        body += f'  %r = "stablehlo.dynamic_conv"(%a0, %a1, %p) {{{rest}}} : '
        body += f"({', '.join(types)}, tensor<2x2xi64>) -> {made}"
        yield Program(function(types, [made], body), [x, w], [want])


@quantized("cholesky")
def cholesky() -> Iterator[Program]:
    q = Q(I16, F32, (0.001,))
    a = np.array([[4, 1, 2], [1, 5, 3], [2, 3, 6]], np.float32)
    low = np.linalg.cholesky(a.astype(np.float64))
    text = one_op("cholesky", [q.tensor((3, 3))], [q.tensor((3, 3))], "lower = true")
    yield Program(text, [q.stored(a)], [low], lambda got, want: beside_ties(q, 1e-4)(np.tril(got), want))


@quantized("triangular_solve")
def triangular_solve() -> Iterator[Program]:
    q = Q(I16, F32, (0.0009765625,))
    a, b = np.array([[2.0, 0], [1, 4]], np.float32), np.array([[3.0, 1], [5, 7]], np.float32)
    want = scipy.linalg.solve_triangular(a.astype(np.float64), b.astype(np.float64), lower=True)
    attributes = "left_side = true, lower = true, unit_diagonal = false, "
    attributes += "transpose_a = #stablehlo<transpose NO_TRANSPOSE>"
    text = one_op("triangular_solve", [q.tensor((2, 2))] * 2, [q.tensor((2, 2))], attributes)
    yield Program(text, [q.stored(a), q.stored(b)], [want], beside_ties(q, 1e-5))


@quantized("batch_norm_inference", "batch_norm_training", "batch_norm_grad")
def batch_norm(op: str) -> Iterator[Program]:
    """Each operand and result with its own scale."""
    q, one = Q(I16, F32, (0.001,), (5,)), Q(I16, F32, (0.0005,))
    n = 3
    x, bar = (q.stored(RNG.uniform(-2, 2, (4, n))) for _ in range(2))
    scale, offset, mean = (one.stored(RNG.uniform(-1, 1, n)) for _ in range(3))
    variance = one.stored(RNG.uniform(0.5, 2, n))
    X, B = (q.numbers(v).astype(np.float64) for v in (x, bar))
    S, O, M, V = (one.numbers(v).astype(np.float64) for v in (scale, offset, mean, variance))  # noqa: E741
    big, small = q.tensor((4, n)), one.tensor((n,))
    judges = [beside_ties(k, 1e-5) for k in (q, one, one)]
    if op == "batch_norm_inference":
        inputs, types, out = [x, scale, offset, mean, variance], [big] + [small] * 4, [big]
        want = [(X - M) / np.sqrt(V + 0.015625) * S + O]
    elif op == "batch_norm_training":
        inputs, types, out = [x, scale, offset], [big, small, small], [big, small, small]
        m, v = X.mean(0), X.var(0)
        want = [(X - m) / np.sqrt(v + 0.015625) * S + O, m, v]
    else:
        inputs, types, out = (
            [x, scale, mean, variance, bar],
            [big, small, small, small, big],
            [big, small, small],
        )
        normal = (X - M) / np.sqrt(V + 0.015625)
        grad = S / np.sqrt(V + 0.015625) / 4
        along = (B * (X - M)).sum(0)
        want = [
            grad * (4 * B - B.sum(0) - along * (X - M) / (V + 0.015625)),
            (B * normal).sum(0),
            B.sum(0),
        ]
    text = one_op(op, types, out, "epsilon = 0.015625 : f32, feature_index = 1 : i64")
    pairs = [(w, j) for w, j in zip(want, judges)]
    yield Program(text, inputs, pairs, lambda got, pair: pair[1](got, pair[0]))


# --- on the integers ---

MOVED = Q(scales=(0.3,), zero_points=(7,))


def moved(op: str, xs: Sequence[np.ndarray], want: np.ndarray, attributes: str = "") -> Program:
    text = one_op(op, [MOVED.tensor(x.shape) for x in xs], [MOVED.tensor(want.shape)], attributes)
    return Program(text, xs, [want])


@quantized(
    "concatenate",
    "slice",
    "reverse",
    "pad",
    "dynamic_slice",
    "dynamic_update_slice",
    "gather",
    "set_dimension_size",
)
def movement(op: str) -> Iterator[Program]:
    x, y = MOVED.random(RNG, (3, 5)), MOVED.random(RNG, (2, 5))
    if op == "concatenate":
        yield moved(op, [x, y], np.concatenate([x, y]), "dimension = 0 : i64")
    elif op == "slice":
        listed = [ints("start_indices", [1, 0]), ints("limit_indices", [3, 5]), ints("strides", [1, 2])]
        yield moved(op, [x], x[1:3, 0:5:2], ", ".join(listed))
    elif op == "reverse":
        yield moved(op, [x], x[:, ::-1], ints("dimensions", [1]))
    elif op == "pad":
        shape, low, high, interior = PADS[0]
        z = MOVED.random(RNG, shape)
        lists = zip(("edge_padding_low", "edge_padding_high", "interior_padding"), (low, high, interior))
        value = np.asarray(np.int8(-9))
        yield moved(
            op,
            [z, value],
            padded(z, value, low, high, interior),
            ", ".join(ints(n, list(v)) for n, v in lists),
        )
    elif op == "gather":
        case = GATHERS[0]
        z, index = MOVED.random(RNG, case[0]), np.array(case[1], np.int32)
        d, attributes = gather_attributes(case)
        want = gathered(z, index, d, case[8])
        attributes += ", " + ints("slice_sizes", case[8])
        text = one_op(op, [MOVED.tensor(z.shape), "tensor<4x1xi32>"], [MOVED.tensor(want.shape)], attributes)
        yield Program(text, [z, index], [want])
    elif op == "set_dimension_size":
        a, b = MOVED.tensor((3, 5)), MOVED.tensor((3, 2))
        body = "  %s = stablehlo.constant dense<2> : tensor<i32>\n"
        body += f'  %r = "stablehlo.{op}"(%a0, %s) {{dimension = 1 : i64}} : ({a}, tensor<i32>) -> {b}'
        yield Program(function([a], [b], body), [x], [x[:, :2]])
    else:
        i, scalar, a = np.int64(1), "tensor<i64>", MOVED.tensor((3, 5))
        b = MOVED.tensor((2, 2))
        if op == "dynamic_slice":
            text = one_op(op, [a, scalar, scalar], [b], ints("slice_sizes", [2, 2]))
            yield Program(text, [x, i, i], [x[1:3, 1:3]])
        else:
            update, want = MOVED.random(RNG, (2, 2)), x.copy()
            want[1:3, 1:3] = update
            yield Program(one_op(op, [a, b, scalar, scalar], [a]), [x, update, i, i], [want])


@quantized(
    "dynamic_pad", "dynamic_gather", "real_dynamic_slice", "dynamic_reshape", "dynamic_broadcast_in_dim"
)
def by_shapes(op: str) -> Iterator[Program]:
    x = MOVED.random(RNG, (4, 5))
    a, two = MOVED.tensor((4, 5)), "tensor<2xi64>"
    if op == "dynamic_pad":
        lists = ((1, 0), (0, 2), (0, 1))
        want = padded(x, np.int8(3), *lists)
        body = "".join(shape_operand(v, f"%p{i}") for i, v in enumerate(lists))
        types = f"({a}, {MOVED.tensor(())}, {two}, {two}, {two}) -> {MOVED.tensor(want.shape)}"
        body += f"  %r = stablehlo.dynamic_pad %a0, %a1, %p0, %p1, %p2 : {types}"
        text = function([a, MOVED.tensor(())], [MOVED.tensor(want.shape)], body)
        yield Program(text, [x, np.int8(3)], [want])
    elif op == "dynamic_gather":
        case = GATHERS[0]
        index = np.array(case[1], np.int32)
        d, attributes = gather_attributes(case)
        want = gathered(x, index, d, case[8])
        out = MOVED.tensor(want.shape)
        body = shape_operand(case[8], "%s")
        body += (
            f'  %r = "stablehlo.{op}"(%a0, %a1, %s) {{{attributes}}} : ({a}, tensor<4x1xi32>, {two}) -> {out}'
        )
        yield Program(function([a, "tensor<4x1xi32>"], [out], body), [x, index], [want])
    elif op == "real_dynamic_slice":
        out = MOVED.tensor((2, 2))
        body = shape_operand((1, 0), "%s") + shape_operand((3, 4), "%l") + shape_operand((1, 2), "%d")
        body += f'  %r = "stablehlo.{op}"(%a0, %s, %l, %d) : ({a}, {two}, {two}, {two}) -> {out}'
        yield Program(function([a], [out], body), [x], [x[1:3, 0:4:2]])
    elif op == "dynamic_reshape":
        out = MOVED.tensor((10, 2))
        body = shape_operand((10, 2), "%s") + f"  %r = stablehlo.{op} %a0, %s : ({a}, {two}) -> {out}"
        yield Program(function([a], [out], body), [x], [x.reshape(10, 2)])
    else:
        out = MOVED.tensor((2, 4, 5))
        body = shape_operand((2, 4, 5), "%s")
        listed = ints("broadcast_dimensions", [1, 2])
        body += f'  %r = "stablehlo.{op}"(%a0, %s) {{{listed}}} : ({a}, tensor<3xi64>) -> {out}'
        yield Program(function([a], [out], body), [x], [np.broadcast_to(x, (2, 4, 5))])


@quantized("transpose", "reshape", "broadcast_in_dim")
def along_a_dimension(op: str) -> Iterator[Program]:
    """With one scale, and with a dimension that moves."""
    x = MOVED.random(RNG, (2, 3))
    p = PER_AXIS
    one = Q(scales=(0.5,), zero_points=(2,), dimension=0)
    many = Q(scales=(0.5,) * 4, zero_points=(2,) * 4, dimension=1)
    if op == "transpose":
        yield moved(op, [x], x.T, ints("permutation", [1, 0]))
        turned = Q(p.storage, p.expressed, p.scales, p.zero_points, 2)
        y = p.random(RNG, (2, 3, 4))
        text = one_op(op, [p.tensor((2, 3, 4))], [turned.tensor((4, 2, 3))], ints("permutation", [2, 0, 1]))
        yield Program(text, [y], [y.transpose(2, 0, 1)])
    elif op == "reshape":
        yield moved(op, [x], x.reshape(3, 2))
        turned = Q(p.storage, p.expressed, p.scales, p.zero_points, 2)
        y = p.random(RNG, (4, 3, 5))
        yield Program(
            one_op(op, [p.tensor((4, 3, 5))], [turned.tensor((2, 2, 3, 5))]), [y], [y.reshape(2, 2, 3, 5)]
        )
    else:
        yield moved(op, [x], np.broadcast_to(x, (4, 2, 3)), ints("broadcast_dimensions", [1, 2]))
        turned = Q(p.storage, p.expressed, p.scales, p.zero_points, 0)
        y = turned.random(RNG, (3,))
        text = one_op(op, [turned.tensor((3,))], [p.tensor((2, 3))], ints("broadcast_dimensions", [1]))
        yield Program(text, [y], [np.broadcast_to(y, (2, 3))])
        z = one.random(RNG, (1, 2))
        text = one_op(op, [one.tensor((1, 2))], [many.tensor((2, 4))], ints("broadcast_dimensions", [1, 0]))
        yield Program(text, [z], [np.broadcast_to(z.T, (2, 4))])


@quantized(
    "get_dimension_size", "bitcast_convert", "constant", "optimization_barrier", "tuple", "get_tuple_element"
)
def kept(op: str) -> Iterator[Program]:
    x = MOVED.random(RNG, (2, 3))
    t = MOVED.tensor((2, 3))
    if op == "get_dimension_size":
        yield Program(one_op(op, [t], ["tensor<i32>"], "dimension = 1 : i64"), [x], [np.int32(3)])
    elif op == "bitcast_convert":
        yield Program(one_op(op, [t], ["tensor<2x3xui8>"]), [x], [x.view(np.uint8)])
        yield Program(one_op(op, ["tensor<2x3xi8>"], [t]), [x], [x])
    elif op == "constant":
        body = f'  %r = "stablehlo.constant"() {{value = dense<{x.tolist()}> : tensor<2x3xi8>}} : () -> {t}'
        yield Program(function([], [t], body), [], [x])
    elif op == "optimization_barrier":
        yield Program(one_op(op, [t], [t]), [x], [x])
    else:
        held = f"tuple<{t}, tensor<i1>>"
        body = f'  %t = "stablehlo.tuple"(%a0, %a1) : ({t}, tensor<i1>) -> {held}\n'
        body += f'  %u = "stablehlo.get_tuple_element"(%t) {{index = 0 : i32}} : ({held}) -> {t}\n'
        body += f"  %r = stablehlo.add %u, %a0 : {t}"
        want = MOVED.stored(MOVED.numbers(x) + MOVED.numbers(x))
        yield Program(function([t, "tensor<i1>"], [t], body), [x, np.array(True)], [want])


ALONE = "replica_groups = dense<[[0]]> : tensor<1x1xi64>"


def added(q: Quantized) -> str:
    """A region that adds two scalars of the type."""
    t = q.tensor(())
    return f'^b(%x: {t}, %y: {t}): %z = "stablehlo.add"(%x, %y) : ({t}, {t}) -> {t} "stablehlo.return"(%z) : ({t}) -> ()'


@quantized(
    "all_gather", "all_reduce", "all_to_all", "reduce_scatter", "collective_broadcast", "collective_permute"
)
def collective(op: str) -> Iterator[Program]:
    x = MOVED.random(RNG, (2, 4))
    attributes = {
        "all_gather": f"all_gather_dim = 1 : i64, {ALONE}",
        "all_to_all": f"split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 1 : i64, {ALONE}",
        "reduce_scatter": f"scatter_dimension = 1 : i64, {ALONE}",
        "collective_permute": "source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>",
    }.get(op, ALONE)
    regions = [added(MOVED)] if op in ("all_reduce", "reduce_scatter") else []
    t = MOVED.tensor((2, 4))
    yield Program(one_op(op, [t], [t], attributes, regions), [x], [x])


# --- with regions ---

SUMMED = Q(scales=(0.5,), zero_points=(3,))


def summed(stored: np.ndarray, axis: Any, init: int) -> np.ndarray:
    """In any order as long as nothing reaches a bound."""
    return SUMMED.stored(SUMMED.numbers(stored).sum(axis) + SUMMED.numbers(np.asarray(np.int8(init))))


@quantized("reduce", "reduce_window", "scatter", "select_and_scatter", "sort", "map")
def with_regions(op: str) -> Iterator[Program]:
    q = SUMMED
    x = RNG.integers(-4, 10, (4, 6)).astype(np.int8)
    init, t, s = np.int8(5), q.tensor((4, 6)), q.tensor(())
    if op == "reduce":
        yield Program(
            one_op(op, [t, s], [q.tensor((4,))], ints("dimensions", [1]), [added(q)]),
            [x, init],
            [summed(x, 1, 5)],
        )
        pretty = f"  %r = stablehlo.reduce(%a0 init: %a1) applies stablehlo.add across dimensions = [0] : ({t}, {s}) -> "
        text = function([t, s], [q.tensor((6,))], pretty + q.tensor((6,)))
        yield Program(text, [x, init], [summed(x, 0, 5)])
    elif op == "reduce_window":
        listed = [ints("window_dimensions", [2, 3]), ints("window_strides", [2, 3])]
        text = one_op(op, [t, s], [q.tensor((2, 2))], ", ".join(listed), [added(q)])
        yield Program(text, [x, init], [summed(x.reshape(2, 2, 2, 3), (1, 3), 5)])
    elif op == "scatter":
        index, updates = np.array([[1], [3], [1]], np.int32), RNG.integers(0, 9, (3, 6)).astype(np.int8)
        numbers = q.numbers(x)
        for i, row in zip(index[:, 0], updates):
            numbers[i] += q.numbers(row)
        attributes = (
            "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
            "scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"
        )
        text = one_op(op, [t, "tensor<3x1xi32>", q.tensor((3, 6))], [t], attributes, [added(q)])
        yield Program(text, [x, index, updates], [q.stored(numbers)])
    elif op == "select_and_scatter":
        source = RNG.integers(3, 9, (2, 6)).astype(np.int8)
        numbers = np.full((4, 6), q.numbers(np.asarray(init)))
        for i in np.ndindex(2, 6):
            best = 2 * i[0] + int(x[2 * i[0] + 1, i[1]] > x[2 * i[0], i[1]])
            numbers[best, i[1]] += q.numbers(source[i])
        larger = (
            f'^b(%x: {s}, %y: {s}): %z = "stablehlo.compare"(%x, %y) '
            f"{{comparison_direction = #stablehlo<comparison_direction GE>}} : ({s}, {s}) -> tensor<i1> "
            '"stablehlo.return"(%z) : (tensor<i1>) -> ()'
        )
        listed = ", ".join([ints("window_dimensions", [2, 1]), ints("window_strides", [2, 1])])
        text = one_op(op, [t, q.tensor((2, 6)), s], [t], listed, [larger, added(q)])
        yield Program(text, [x, source, init], [q.stored(numbers)])
    elif op == "sort":
        less = (
            f'^b(%x: {s}, %y: {s}): %z = "stablehlo.compare"(%x, %y) '
            f"{{comparison_direction = #stablehlo<comparison_direction LT>}} : ({s}, {s}) -> tensor<i1> "
            '"stablehlo.return"(%z) : (tensor<i1>) -> ()'
        )
        text = one_op(op, [t], [t], "dimension = 1 : i64, is_stable = true", [less])
        yield Program(text, [x], [np.sort(x, 1)])
    else:
        text = one_op(op, [t, t], [t], ints("dimensions", [0, 1]), [added(q)])
        yield Program(text, [x, x], [q.stored(q.numbers(x) + q.numbers(x))])


@quantized("if", "case", "while", "composite", "custom_call")
def control(op: str) -> Iterator[Program]:
    q = SUMMED
    x, y = q.random(RNG, (5,)), q.random(RNG, (5,))
    t = q.tensor((5,))
    if op in ("if", "case"):
        index = "tensor<i1>" if op == "if" else "tensor<i32>"
        regions = ", ".join(f'{{"stablehlo.return"(%a{k}) : ({t}) -> ()}}' for k in (1, 2))
        text = function([index, t, t], [t], f'  %r = "stablehlo.{op}"(%a0) ({regions}) : ({index}) -> {t}')
        chosen = np.array(False) if op == "if" else np.array(1, np.int32)
        yield Program(text, [chosen, x, y], [y])
    elif op == "while":
        body = (
            "  %n = stablehlo.constant dense<0> : tensor<i32>\n"
            f"  %r:2 = stablehlo.while(%k = %n, %s = %a0) : tensor<i32>, {t}\n"
            "  cond {\n    %three = stablehlo.constant dense<3> : tensor<i32>\n"
            "    %c = stablehlo.compare LT, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
            "    stablehlo.return %c : tensor<i1>\n  } do {\n"
            "    %one = stablehlo.constant dense<1> : tensor<i32>\n    %m = stablehlo.add %k, %one : tensor<i32>\n"
            f"    %u = stablehlo.add %s, %a1 : {t}\n    stablehlo.return %m, %u : tensor<i32>, {t}\n  }}"
        )
        want = x
        for _ in range(3):
            want = q.stored(q.numbers(want) + q.numbers(y))
        yield Program(function([t, t], [t], body, "%r#1"), [x, y], [want])
    elif op == "custom_call":
        yield Program(one_op(op, [t], [t], 'call_target_name = "Sharding"'), [x], [x])
    else:
        call = f'  %r = stablehlo.composite "test.sum" %a0, %a1 {{decomposition = @sum}} : ({t}, {t}) -> {t}'
        inner = f"func.func private @sum(%x: {t}, %y: {t}) -> {t} {{\n  %z = stablehlo.add %x, %y : {t}\n"
        inner += f"  return %z : {t}\n}}\n"
        yield Program(function([t, t], [t], call) + inner, [x, y], [q.stored(q.numbers(x) + q.numbers(y))])
