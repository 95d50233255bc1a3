"""Quantized arrays: every operation that the specification lets take or give them, and every constraint."""

from __future__ import annotations

import re

import lamina as lm
import numpy as np
import pytest
from lamina import stablehlo
from quantized import Quantized
from spec_elements import BY_TEXT
from spec_program import function, ints, one_op, run
from spec_quantized import QUANTIZED
from spec_table import OPS

# Operations of the specification that take no quantized tensors.
NUMBERS_ONLY = {
    "after_all",
    "and",
    "complex",
    "convert",
    "count_leading_zeros",
    "fft",
    "imag",
    "infeed",
    "not",
    "or",
    "outfeed",
    "partition_id",
    "popcnt",
    "real",
    "recv",
    "replica_id",
    "rng",
    "rng_bit_generator",
    "send",
    "shift_left",
    "shift_right_arithmetic",
    "shift_right_logical",
    "xor",
}


@pytest.mark.parametrize("op", QUANTIZED)
def test_programs(op):
    faults = []
    with np.errstate(all="ignore"):
        for program in QUANTIZED[op]():
            try:
                found, _ = run(program)
            except Exception as e:
                found = [f"{type(e).__name__}: {e}"]
            faults += [f"{op} {program.note}: {f}" for f in found]
    assert not faults, "\n".join(faults[:20])


def test_every_operation_is_settled():
    assert set(OPS) == set(QUANTIZED) | NUMBERS_ONLY
    assert not set(QUANTIZED) & NUMBERS_ONLY


# --- constraints: what breaks each, and what is said ---

TYPES = [
    ("C1", "i9:f32, 0.5", "numbers are stored in integers of up to 32 bits, not in i9"),
    ("storage", "f32:f32, 0.5", "numbers are stored in integers of up to 32 bits, not in f32"),
    ("storage", "i64:f64, 0.5", "numbers are stored in integers of up to 32 bits, not in i64"),
    ("C3", "i8<-129:5>:f32, 0.5", "the bounds <-129:5> must ascend within -128:127, the range of i8"),
    ("C3", "u8<0:256>:f32, 0.5", "the bounds <0:256> must ascend within 0:255, the range of u8"),
    ("C3", "i8<5:5>:f32, 0.5", "the bounds <5:5> must ascend within -128:127"),
    ("expressed", "i8:i32, 0.5", "the expressed type is a float, not i32"),
    ("C5", "i8:f32, 0.0", "a scale must be a finite positive number of type f32"),
    ("C5", "i8:f32, -0.5", "a scale must be a finite positive number of type f32"),
    ("C5", "i8:f16, 1e-30", "a scale must be a finite positive number of type f16"),
    ("C6", "i8:f32, 1e60", "a scale must be a finite positive number of type f32"),
    ("C7", "i8:f32, 0.5:128", "the zero point 128 lies outside of the stored integers -128:127"),
    ("C7", "i8<-8:7>:f32, 0.5:8", "the zero point 8 lies outside of the stored integers -8:7"),
    ("C10", "i8:f32, {0.5, 0.25}", "one scale is given where there is no quantized dimension"),
    ("C10", "i8:f32:0, 0.5", "a quantized dimension has a list of scales in braces"),
    ("C11", "i8:f32:-1, {0.5}", "the quantized dimension is not negative"),
    ("C12", "i8:f32:2, {0.5, 0.5}", "there is no dimension 2 to quantize along among 2"),
    ("C13", "i8:f32:1, {0.5, 0.5}", "there are 2 scales for the 3 indices of dimension 1"),
    ("blocks", "i8:f32:{0:1, 1:3}, {{0.5}, {0.5}}", "quantization by blocks is not supported"),
    ("syntax", "i8:f32", "expected ','"),
    ("syntax", "i8:f32, x", "expected a scale"),
    ("syntax", "i8:f32, 0.5:", "expected a zero point"),
    ("syntax", "i8:f32, 0.5", ""),
]


@pytest.mark.parametrize("rule, inside, message", TYPES)
def test_types_keep_their_constraints(rule, inside, message):
    text = f"func.func @main(%a: tensor<2x3x!quant.uniform<{inside}>>) -> tensor<2x3x!quant.uniform<{inside}>> {{\n"
    text += f"  return %a : tensor<2x3x!quant.uniform<{inside}>>\n}}"
    if not message:
        stablehlo.loads(text)
        return
    with pytest.raises(ValueError, match=r"^1:\d+: " + re.escape(message)):
        stablehlo.loads(text)


I16, F16 = BY_TEXT["i16"], BY_TEXT["f16"]
T = Quantized(scales=(0.5,))
OTHER = Quantized(scales=(0.25,))
BOUNDED = Quantized(scales=(0.5,), bounds=(-127, 127))
WIDE = Quantized(I16, scales=(0.5,))
HALF = Quantized(expressed=F16, scales=(0.5,))
SHIFTED = Quantized(scales=(0.5,), zero_points=(4,))
ROWS_ = Quantized(scales=(0.5, 0.25), zero_points=(0, 0), dimension=0)
COLUMNS = Quantized(scales=(0.5, 0.25), zero_points=(0, 0), dimension=1)
OTHERS = Quantized(scales=(0.5, 0.75), zero_points=(0, 0), dimension=0)
F = "tensor<2x2xf32>"


def t(q: Quantized | str, shape: tuple[int, ...] = (2, 2)) -> str:
    return q if isinstance(q, str) else q.tensor(shape)


def add_region(q: Quantized) -> str:
    s = q.tensor(())
    return f'^b(%x: {s}, %y: {s}): %z = "stablehlo.add"(%x, %y) : ({s}, {s}) -> {s} "stablehlo.return"(%z) : ({s}) -> ()'


CONTRACT = "dot_dimension_numbers = #stablehlo.dot<lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0]>"
LAYOUT = (
    "window_strides = array<i64>, padding = dense<> : tensor<0x2xi64>, lhs_dilation = array<i64>, "
    "rhs_dilation = array<i64>, dimension_numbers = #stablehlo.conv<[b, f]x[i, o]->[b, f]>, "
    "feature_group_count = 1 : i64, batch_group_count = 1 : i64"
)
SAME = "its types must have the same storage, bounds and expressed type"
USES = [
    # operation, rule, operands, results, attributes, message
    ("multiply", "C1", [T, WIDE], [T], "", SAME),
    ("multiply", "C1", [T, BOUNDED], [T], "", SAME),
    ("multiply", "C1", [T, T], [HALF], "", SAME),
    (
        "multiply",
        "C1",
        [T, F],
        [T],
        "",
        SAME + ", and are quantized<s8<-128:127>:f32, 0.5:0> and not quantized",
    ),
    ("multiply", "C1", [T, T], [F], "", SAME),
    ("multiply", "I1", [ROWS_, ROWS_], [ROWS_], "", "takes and gives arrays with one scale"),
    ("abs", "C1", [T], [WIDE], "", SAME),
    (
        "and",
        "I1",
        [T, T],
        [T],
        "",
        "is not defined on quantized arrays; uniform_dequantize gives the numbers",
    ),
    ("convert", "I1", [T], [F], "", "is not defined on quantized arrays"),
    ("add", "C2", [T, F], [T], "", "its types must have the same storage and expressed type"),
    ("add", "C2", [T, T], [F], "", "its types must have the same storage and expressed type"),
    ("add", "C3", [T, WIDE], [T], "", "its types must have the same storage and expressed type"),
    ("add", "C4", [T, HALF], [T], "", "its types must have the same storage and expressed type"),
    ("add", "C5", [ROWS_, T], [T], "", "its result is quantized along a dimension just where an operand is"),
    ("add", "C6", [ROWS_, T], [COLUMNS], "", "an operand is quantized along dimension 0, the result along 1"),
    (
        "add",
        "C7",
        [COLUMNS, ROWS_],
        [COLUMNS],
        "",
        "an operand is quantized along dimension 0, the result along 1",
    ),
    (
        "compare",
        "C1",
        [T, WIDE],
        ["tensor<2x2xi1>"],
        "comparison_direction = #stablehlo<comparison_direction LT>",
        SAME,
    ),
    ("uniform_quantize", "O1", [F], [F], "", "its result, or its operand, must have a quantized type"),
    ("uniform_quantize", "O1", [T], [F], "", "its result must be quantized"),
    ("uniform_quantize", "C2", [F], [HALF], "", "its result expresses f16, its operand is f32"),
    ("uniform_quantize", "C2", [T], [HALF], "", "its result expresses f16, its operand is f32"),
    ("uniform_quantize", "C1", ["tensor<4xf32>"], [T], "", "gives s8[4], not quantized"),
    ("uniform_dequantize", "I1", [F], [T], "", "its operand must be quantized"),
    (
        "uniform_dequantize",
        "C2",
        [T],
        ["tensor<2x2xf64>"],
        "",
        "its result must be f32, which its operand expresses",
    ),
    ("dot_general", "C14", [T, F], [T], CONTRACT, "its right operand must be quantized"),
    (
        "dot_general",
        "C14",
        [F, T],
        [T],
        CONTRACT,
        "its left operand and its result must both be quantized, or neither",
    ),
    ("dot_general", "C15", [T, SHIFTED], [T], CONTRACT, "the zero points of its right operand must be 0"),
    (
        "dot_general",
        "C16",
        [T, ROWS_],
        [T],
        CONTRACT,
        "its right operand must not be quantized along a contracted",
    ),
    ("dot_general", "C17", [T, WIDE], [T], CONTRACT, "its operands must have the same storage type"),
    (
        "dot_general",
        "C18",
        [T, HALF],
        [T],
        CONTRACT,
        "its operands and its result must have the same expressed type",
    ),
    (
        "dot_general",
        "C19",
        [T, T],
        [COLUMNS],
        CONTRACT,
        "its result is quantized along a dimension only where",
    ),
    (
        "dot_general",
        "C20",
        ["tensor<2x2xf64>", T],
        ["tensor<2x2xf64>"],
        CONTRACT,
        "its left operand and its result must be f32",
    ),
    ("dot_general", "I1", [ROWS_, T], [T], CONTRACT, "its left operand must have one scale"),
    (
        "convolution",
        "C28",
        [F, T],
        [T],
        LAYOUT,
        "its left operand and its result must both be quantized, or neither",
    ),
    (
        "convolution",
        "C29",
        [T, ROWS_],
        [T],
        LAYOUT,
        "its right operand is quantized along the kernel's output features",
    ),
    (
        "convolution",
        "C30",
        [T, COLUMNS],
        [ROWS_],
        LAYOUT,
        "its result is quantized along the output features only",
    ),
    ("convolution", "C31", [T, WIDE], [T], LAYOUT, "its operands must have the same storage type"),
    ("convolution", "C33", [T, T], [COLUMNS], LAYOUT, "its result is quantized along a dimension only where"),
    ("reverse", "C1", [T], [OTHER], ints("dimensions", [0]), "its types must be quantized in the same way"),
    ("reverse", "I1", [ROWS_], [ROWS_], ints("dimensions", [0]), "takes and gives arrays with one scale"),
    (
        "reverse",
        "C1",
        [T],
        ["tensor<2x2xi8>"],
        ints("dimensions", [0]),
        "its types must be quantized in the same way",
    ),
    (
        "transpose",
        "C1",
        [T],
        [OTHER],
        ints("permutation", [1, 0]),
        "its types must be quantized in the same way",
    ),
    (
        "transpose",
        "C4",
        [ROWS_],
        [ROWS_],
        ints("permutation", [1, 0]),
        "its result, quantized<s8<-128:127>:f32:0, 2 scales>",
    ),
    ("reshape", "C3", [ROWS_], [COLUMNS], "", "is not the operand"),
    ("broadcast_in_dim", "C6", [ROWS_], [OTHERS], ints("broadcast_dimensions", [0, 1]), "is not the operand"),
    (
        "broadcast_in_dim",
        "C6",
        [ROWS_],
        [COLUMNS],
        ints("broadcast_dimensions", [0, 1]),
        "is not the operand",
    ),
]


@pytest.mark.parametrize("op, rule, operands, results, attributes, message", USES)
def test_operations_keep_their_constraints(op, rule, operands, results, attributes, message):
    text = one_op(op, [t(x) for x in operands], [t(x) for x in results], attributes)
    with pytest.raises(ValueError, match=rf"^2:8: stablehlo.{op}: .*" + re.escape(message)):
        stablehlo.loads(text)


def test_regions_keep_their_constraints():
    """Blocks take and return what the operation has."""
    reduce = one_op(
        "reduce", [t(T), T.tensor(())], [t(T, (2,))], ints("dimensions", [1]), [add_region(OTHER)]
    )
    with pytest.raises(
        ValueError, match=r"^2:8: stablehlo.reduce: argument 0 of its region is quantized<.*0.25:0>"
    ):
        stablehlo.loads(reduce)
    taken = one_op("reduce", [t(T), OTHER.tensor(())], [t(T, (2,))], ints("dimensions", [1]), [add_region(T)])
    with pytest.raises(
        ValueError, match=r"^2:8: stablehlo.reduce: its types must be quantized in the same way"
    ):
        stablehlo.loads(taken)
    branch = f'"stablehlo.return"(%a1) : ({t(T)}) -> ()'
    with pytest.raises(
        ValueError, match=r"^2:8: stablehlo.if: result 0 of its region is quantized<.*0.5:0>, not "
    ):
        text = f'  %r = "stablehlo.if"(%a0) ({{{branch}}}, {{{branch}}}) : (tensor<i1>) -> {t(OTHER)}'
        stablehlo.loads(function(["tensor<i1>", t(T)], [t(OTHER)], text))
    with pytest.raises(
        ValueError, match=r"^3:3: result 0 of @main is quantized<.*0.5:0>, not quantized<.*0.25:0>"
    ):
        stablehlo.loads(f"func.func @main(%a: {t(T)}) -> {t(OTHER)} {{\n\n  return %a : {t(T)}\n}}")
    with pytest.raises(
        ValueError, match=r"^2:8: stablehlo.abs: operand 0 is quantized<.*0.5:0>, and is called "
    ):
        stablehlo.loads(function([t(T)], [t(OTHER)], f"  %r = stablehlo.abs %a0 : {t(OTHER)}"))


def test_calls_pass_what_the_function_takes():
    def module(given: str, taken: Quantized, returned: Quantized, made: str) -> str:
        text = function([given], [made], f"  %r = call @f(%a0) : ({given}) -> {made}")
        return text + (
            f"func.func private @f(%x: {t(taken)}) -> {t(returned)} {{\n"
            f"  %y = stablehlo.uniform_quantize %x : ({t(taken)}) -> {t(returned)}\n  return %y : {t(returned)}\n}}\n"
        )

    x = np.array([[4, -8], [0, 99]], np.int8)
    got = stablehlo.loads(module(t(T), T, OTHER, t(OTHER)), "main")(x)
    assert got.numpy().tolist() == [[8, -16], [0, 127]]
    with pytest.raises(
        ValueError, match=r"^2:8: call: argument 0 of @f is quantized<.*0.25:0>, and is given quan"
    ):
        stablehlo.loads(module(t(T), OTHER, OTHER, t(OTHER)), "main")
    with pytest.raises(
        ValueError, match=r"^2:8: call: argument 0 of @f is quantized<.*0.5:0>, and is given not quan"
    ):
        stablehlo.loads(module("tensor<2x2xi8>", T, OTHER, t(OTHER)), "main")
    with pytest.raises(
        ValueError, match=r"^2:8: call: result 0 of @f is quantized<.*0.25:0>, and is called not"
    ):
        stablehlo.loads(module(t(T), T, OTHER, "tensor<2x2xi8>"), "main")


def test_arguments_and_results_are_the_stored_integers():
    loaded = stablehlo.loads(one_op("abs", [t(T)], [t(T)]))
    with pytest.raises(TypeError, match=r"argument 0 of @main must be int8\[2,2\], not float32\[2,2\]"):
        loaded(np.zeros((2, 2), np.float32))
    assert loaded(np.array([[-3, 2], [0, -128]], np.int8)).numpy().tolist() == [[3, 2], [0, 127]]


def test_types_have_other_names():
    """An alias of an element type, and of a tensor of it; signs and zero points left out."""
    text = (
        "!q = !quant.uniform<i8:f32, 5.000000e-01>\n!t = tensor<3x!q>\n"
        "func.func @main(%a: !t) -> tensor<3x!quant.uniform<si8<-128:127>:f32, 0.5:0>> {\n"
        "  %r = stablehlo.negate %a : tensor<3x!q>\n  return %r : !t\n}"
    )
    assert stablehlo.loads(text)(np.array([1, -2, -128], np.int8)).numpy().tolist() == [-1, 2, 127]


def test_dynamic_dimensions_are_those_of_the_arguments():
    q = Quantized(scales=(0.5, 0.25, 2.0), zero_points=(0, 1, 2), dimension=1)
    text = f"func.func @main(%a: tensor<?x?x{q.text}>) -> tensor<?x?xf32> {{\n"
    text += f"  %r = stablehlo.uniform_dequantize %a : (tensor<?x?x{q.text}>) -> tensor<?x?xf32>\n"
    text += "  return %r : tensor<?x?xf32>\n}"
    loaded = stablehlo.loads(text)
    x = np.arange(6, dtype=np.int8).reshape(2, 3)
    np.testing.assert_array_equal(loaded(x).numpy(), q.numbers(x))
    with pytest.raises(
        ValueError, match=r"^2:8: .*s32\[2,2\] is not quantized along dimension 1 by 3 scales"
    ):
        loaded(x[:, :2])


def test_what_is_written_works_on_the_integers():
    """The written module has no quantized types and gives the same integers."""
    loaded = stablehlo.loads(one_op("multiply", [t(SHIFTED), t(SHIFTED)], [t(SHIFTED)]))
    text = stablehlo.dumps(loaded)
    assert "quant" not in text
    x = np.array([[-128, 127], [5, -9]], np.int8)
    again = stablehlo.loads(text)
    np.testing.assert_array_equal(again(x, x).numpy(), loaded(x, x).numpy())
    assert again.as_text("canonical") == loaded.as_text("canonical")


def test_numbers_of_a_chain_stay_in_one_kernel():
    """The integers of an elementwise chain are read and written once."""
    q = t(T, (64,))
    body = "\n".join(f"  %{k + 1} = stablehlo.tanh %{k} : {q}" for k in range(3))
    text = f"func.func @main(%0: {q}) -> {q} {{\n{body}\n  return %3 : {q}\n}}"
    loaded = stablehlo.loads(text)
    before = lm.cache.stats()["kernels"]
    loaded(np.arange(64, dtype=np.int8)).numpy()
    assert lm.cache.stats()["kernels"] == before + 1


def test_every_beginning_of_a_module_is_refused():
    module = one_op("add", [t(ROWS_), t(ROWS_)], [t(ROWS_)])
    stablehlo.loads(module)
    for end in range(1, len(module) - 2):
        with pytest.raises(ValueError, match=r"^\d+:\d+: "):
            stablehlo.loads(module[:end])
