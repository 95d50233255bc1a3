"""Opcodes with their attributes, one program each: XLA computes the same from the text."""

from __future__ import annotations

import numpy as np
import pytest
from jax_support import run_by_xla
from lamina import xla_hlo
from test_exported import assert_agrees, results
from xla_support import stablehlo_of

HELPERS = """
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
mul { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] multiply(a, b) }
max { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] maximum(a, b) }
ge { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }
second { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(b, b) }
add2 { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)
  e = f32[] add(a, c) f = f32[] maximum(b, d) ROOT g = (f32[], f32[]) tuple(e, f) }
less2 { a = f32[] parameter(0) b = f32[] parameter(1) c = s32[] parameter(2) d = s32[] parameter(3)
  ROOT e = pred[] compare(a, b), direction=LT, type=TOTALORDER }
left { p = (f32[4,6], s32[]) parameter(0) x = f32[4,6] get-tuple-element(p), index=0 ROOT y = f32[4,6] negate(x) }
right { p = f32[4,6] parameter(0) ROOT y = f32[4,6] add(p, p) }
"""

# x: f32[4,6], s: positive definite f32[4,4], i: s32[3], z: f32[] 0, o: f32[] 1, n: s32[] 2.
PROGRAMS = {
    # Moving elements.
    "broadcast": "ROOT r = f32[6,5,4] broadcast(t), dimensions={0,2}",
    "slice": "ROOT r = f32[2,2] slice(x), slice={[1:4:2], [0:5:3]}",
    "pad": "ROOT r = f32[8,6] pad(x, o), padding=-1_2_1x1_-1",
    "reverse": "ROOT r = f32[4,6] reverse(x), dimensions={1}",
    "concatenate": "ROOT r = f32[4,12] concatenate(x, x), dimensions={1}",
    "reshape": "ROOT r = f32[3,8] reshape(x)",
    "iota": "ROOT r = s32[3,4] iota(), iota_dimension=1",
    "dynamic_slice": "ROOT r = f32[2,3] dynamic-slice(x, n, n), dynamic_slice_sizes={2,3}",
    "dynamic_slice_outside": "m = s32[] constant(99) k = s32[] constant(-9) "
    "ROOT r = f32[2,3] dynamic-slice(x, m, k), dynamic_slice_sizes={2,3}",
    "dynamic_update_slice": "u = f32[2,2] slice(x), slice={[0:2], [0:2]} "
    "ROOT r = f32[4,6] dynamic-update-slice(x, u, n, n)",
    "gather": "j = s32[3,1] reshape(i) ROOT r = f32[3,6] gather(x, j), offset_dims={1}, "
    "collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,6}",
    "gather_batched": "j = s32[4,1] constant({{0},{5},{2},{1}}) ROOT r = f32[4,1] gather(x, j), offset_dims={1}, "
    "collapsed_slice_dims={}, operand_batching_dims={0}, start_indices_batching_dims={0}, start_index_map={1}, "
    "index_vector_dim=1, slice_sizes={1,1}",
    "scatter": "u = f32[3,6] slice(x), slice={[0:3], [0:6]} ROOT r = f32[4,6] scatter(x, i, u), "
    "update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1, "
    "to_apply=add",
    "scatter_two": "u = f32[3,6] slice(x), slice={[0:3], [0:6]} ROOT r = (f32[4,6], f32[4,6]) "
    "scatter(x, x, i, u, u), update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, "
    "index_vector_dim=1, to_apply=add2",
    "dimension_size": "ROOT r = s32[] get-dimension-size(x), dimensions={1}",
    # Elementwise.
    "compare": "ROOT r = pred[4,6] compare(x, x), direction=GE",
    "total_order": "ROOT r = pred[5] compare(c, d), direction=LT, type=TOTALORDER",
    "clamp": "ROOT r = f32[4,6] clamp(z, x, o)",
    "convert": "b = f32[4,6] broadcast(h), dimensions={} y = f32[4,6] multiply(x, b) ROOT r = s8[4,6] convert(y)",
    "convert_specials": "ROOT r = s32[5] convert(c)",
    "bitcast_convert": "ROOT r = u16[4,6,2] bitcast-convert(x)",
    "bitcast_wider": "b = u16[4,6,2] bitcast-convert(x) ROOT r = f32[4,6] bitcast-convert(b)",
    "reduce_precision": "ROOT r = f32[4,6] reduce-precision(x), exponent_bits=4, mantissa_bits=3",
    "shifts": "k = s32[3] broadcast(n), dimensions={} a = s32[3] shift-left(i, k) "
    "b = s32[3] shift-right-logical(a, i) ROOT r = s32[3] shift-right-arithmetic(b, k)",
    "bits": "a = s32[3] popcnt(i) b = s32[3] count-leading-zeros(i) c1 = s32[3] xor(a, b) ROOT r = s32[3] not(c1)",
    "rounding": "b = f32[4,6] broadcast(h), dimensions={} y = f32[4,6] divide(x, b) a = f32[4,6] round-nearest-afz(y) "
    "e = f32[4,6] round-nearest-even(y) ROOT r = f32[4,6] add(a, e)",
    "functions": "a = f32[4,6] tanh(x) b = f32[4,6] log-plus-one(a) e = f32[4,6] exponential-minus-one(b) "
    "f = f32[4,6] logistic(e) g = f32[4,6] cbrt(f) k = f32[4,6] erf(g) l = f32[4,6] tan(k) ROOT r = f32[4,6] rsqrt(l)",
    "two_operands": "e = f32[4,6] exponential(x) a = f32[4,6] atan2(x, e) k = f32[4,6] power(e, a) "
    "m = f32[4,6] remainder(k, e) ROOT r = f32[4,6] sign(m)",
    "complex": "a = c64[4,6] complex(x, x) b = c64[4,6] sine(a) k = f32[4,6] real(b) q = f32[4,6] imag(b) "
    "ROOT r = f32[4,6] add(k, q)",
    # Reductions.
    "reduce": "ROOT r = f32[6] reduce(x, z), dimensions={0}, to_apply=add",
    "reduce_two": "ROOT r = (f32[4], f32[4]) reduce(x, x, z, z), dimensions={1}, to_apply=add2",
    "reduce_window": "ROOT r = f32[4,3] reduce-window(x, o), window={size=2x3 stride=1x2 pad=0_1x1_0}, to_apply=mul",
    "reduce_window_dilated": "ROOT r = f32[2,7] reduce-window(x, z), "
    "window={size=2x3 pad=1_0x0_0 stride=2x1 lhs_dilate=1x2 rhs_dilate=2x2}, to_apply=add",
    "select_and_scatter": "u = f32[2,3] slice(x), slice={[0:2], [0:3]} ROOT r = f32[4,6] "
    "select-and-scatter(x, u, z), window={size=2x2 stride=2x2}, select=ge, scatter=add",
    "select_and_scatter_padded": "u = f32[3,3] slice(x), slice={[0:3], [0:3]} ROOT r = f32[4,6] "
    "select-and-scatter(x, u, z), window={size=2x2 stride=2x2 pad=1_1x0_0}, select=ge, scatter=add",
    "sort": "j = s32[4,6] iota(), iota_dimension=0 ROOT r = (f32[4,6], s32[4,6]) sort(x, j), dimensions={0}, "
    "is_stable=true, to_apply=less2",
    "map": "ROOT r = f32[4,6] map(x, x), dimensions={0,1}, to_apply=mul",
    "reduce_order": "k = f32[4] slice(v), slice={[0:4]} ROOT r = f32[] reduce(k, z), dimensions={0}, to_apply=max",
    # Linear algebra.
    "dot": "ROOT r = f32[6,6] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "dot_outer": "ROOT r = f32[4,6,4,6] dot(x, x), lhs_contracting_dims={}, rhs_contracting_dims={}",
    "dot_batch": "ROOT r = f32[6,4,4] dot(x3, x3), lhs_batch_dims={2}, rhs_batch_dims={2}, lhs_contracting_dims={1}, "
    "rhs_contracting_dims={1}",
    "dot_wider": "b = bf16[4,6] convert(x) ROOT r = f32[4,4] dot(b, b), lhs_contracting_dims={1}, "
    "rhs_contracting_dims={1}",
    "dot_integers": "ROOT r = s32[] dot(i, i), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "convolution": "a = f32[1,4,6,1] reshape(x) k = f32[2,3,1,1] slice(a4), slice={[0:2], [0:3], [0:1], [0:1]} "
    "ROOT r = f32[1,3,3,1] convolution(a, k), window={size=2x3 stride=2x2 pad=2_0x1_1 rhs_reversal=1x1}, "
    "dim_labels=b01f_01io->b01f",
    "convolution_dilated": "a = f32[1,4,6,1] reshape(x) k = f32[2,2,1,1] slice(a4), "
    "slice={[0:2], [0:2], [0:1], [0:1]} ROOT r = f32[1,5,9,1] convolution(a, k), "
    "window={size=2x2 lhs_dilate=2x2 rhs_dilate=2x2}, dim_labels=b01f_01io->b01f",
    "convolution_groups": "a = f32[2,2,6] reshape(x) k = f32[2,1,4] reshape(w8) "
    "ROOT r = f32[2,4,5] convolution(a, k), window={size=2}, dim_labels=bf0_0io->bf0, feature_group_count=2",
    "convolution_batch_groups": "a = f32[4,2,3] reshape(x) k = f32[2,2,2] reshape(w8) "
    "ROOT r = f32[2,2,2] convolution(a, k), window={size=2}, dim_labels=bf0_0io->0bf, batch_group_count=2",
    "convolution_no_window": "k = f32[6,4] slice(t), slice={[0:6], [0:4]} ROOT r = f32[4,4] convolution(x, k), "
    "dim_labels=bf_io->bf",
    "cholesky": "ROOT r = f32[4,4] cholesky(s), lower=true",
    "triangular_solve": "ROOT r = f32[4,6] triangular-solve(s, x), left_side=true, lower=true, unit_diagonal=false, "
    "transpose_a=TRANSPOSE",
    "triangular_solve_right": "ROOT r = f32[6,4] triangular-solve(s, t), left_side=false, lower=false, "
    "unit_diagonal=true, transpose_a=NO_TRANSPOSE",
    "fft": "a = c64[4,6] complex(x, x) ROOT r = c64[4,6] fft(a), fft_type=FFT, fft_length={4,6}",
    "ifft": "a = c64[4,6] complex(x, x) ROOT r = c64[4,6] fft(a), fft_type=IFFT, fft_length={6}",
    "rfft": "ROOT r = c64[4,4] fft(x), fft_type=RFFT, fft_length={6}",
    "irfft": "a = c64[4,6] complex(x, x) ROOT r = f32[4,10] fft(a), fft_type=IRFFT, fft_length={10}",
    "batch_norm_inference": "ROOT r = f32[4,6] batch-norm-inference(x, v, v, v, vv), epsilon=0.001, feature_index=1",
    "batch_norm_training": "ROOT r = (f32[4,6], f32[6], f32[6]) batch-norm-training(x, v, v), epsilon=1e-3, "
    "feature_index=1",
    "batch_norm_grad": "ROOT r = (f32[4,6], f32[6], f32[6]) batch-norm-grad(x, v, v, vv, x), epsilon=0.001, "
    "feature_index=1",
    # Control.
    "conditional": "a = (f32[4,6], s32[]) tuple(x, n) q = pred[] compare(z, o), direction=LT "
    "ROOT r = f32[4,6] conditional(q, a, x), true_computation=left, false_computation=right",
    "conditional_outside": "a = (f32[4,6], s32[]) tuple(x, n) "
    "ROOT r = f32[4,6] conditional(n, a, x), branch_computations={left, right}",
    "call": "ROOT r = f32[4,6] call(x), to_apply=right",
    "barrier": "ROOT r = (f32[4,6], f32[]) opt-barrier(p)",
    "token": "k = token[] after-all() ROOT r = f32[4,6] add-dependency(x, k)",
    "permute": "ROOT r = f32[4,6] collective-permute(x), source_target_pairs={{0,0}}, channel_id=1",
    "all_reduce": "ROOT r = f32[4,6] all-reduce(x), replica_groups={{0}}, to_apply=add",
    "all_gather": "ROOT r = f32[4,6] all-gather(x), dimensions={0}, replica_groups={{0}}",
    "replica": "ROOT r = u32[] replica-id()",
}


def scattered(x, s, i):
    one, two = x.copy(), x.copy()
    np.add.at(one, i, x[:3])
    np.maximum.at(two, i, x[:3])
    return [one, two]


# Where XLA's translator to StableHLO leaves something out (a dependency, the total order), or XLA's CPU compiler errs
# (a scatter of two arrays): NumPy says what is right.
BY_NUMPY = {
    "token": lambda x, s, i: [x],
    # One NaN above infinity, where XLA has -NaN below all.
    "total_order": lambda x, s, i: [np.array([False, False, True, True, True])],
    "scatter_two": scattered,
}

ENTRY = """
ENTRY e {
  x = f32[4,6] parameter(0)
  s = f32[4,4] parameter(1)
  i = s32[3] parameter(2)
  z = f32[] constant(0)
  o = f32[] constant(1)
  h = f32[] constant(0.01)
  n = s32[] constant(2)
  c = f32[5] constant({nan, -nan, -0, inf, -1e20})
  d = f32[5] constant({inf, nan, 0, nan, 1})
  t = f32[6,4] transpose(x), dimensions={1,0}
  x3 = f32[4,1,6] reshape(x)
  a4 = f32[4,6,1,1] reshape(x)
  w = f32[8,3] reshape(x)
  w1 = f32[8,1] slice(w), slice={[0:8], [0:1]}
  w8 = f32[8] reshape(w1)
  v1 = f32[1,6] slice(x), slice={[1:2], [0:6]}
  v = f32[6] reshape(v1)
  vv = f32[6] multiply(v, v)
  p = (f32[4,6], f32[]) tuple(x, z)
"""


def text_of(name: str) -> str:
    return f"HloModule {name}\n{HELPERS}{ENTRY}  {PROGRAMS[name]}\n}}\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_xla_computes_the_same(name):
    random = np.random.default_rng(5)
    x = random.standard_normal((4, 6)).astype(np.float32)
    half = random.standard_normal((4, 4)).astype(np.float32)
    args = [x, half @ half.T + 4 * np.eye(4, dtype=np.float32), np.array([2, 0, 3], np.int32)]
    got = results(xla_hlo.loads(text_of(name))(*args))
    want = BY_NUMPY[name](*args) if name in BY_NUMPY else run_by_xla(stablehlo_of(text_of(name)), args)
    assert_agrees(got, want, 2e-5)
    loaded = xla_hlo.loads(text_of(name))
    assert_agrees(results(xla_hlo.loads(xla_hlo.dumps(loaded))(*args)), got, 0.0)


# As XLA writes the same since 2026; older versions cannot read it, so that they are no oracle.
@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("ROOT r = pred[5] compare(c, d), direction=LT, order=TOTAL", PROGRAMS["total_order"]),
        (
            "ROOT r = pred[5] compare(c, d), direction=LT, order=PARTIAL",
            "ROOT r = pred[5] compare(c, d), direction=LT",
        ),
        (
            "ROOT r = pred[3] compare(i, i), direction=LE, order=TOTAL",
            "ROOT r = pred[3] compare(i, i), direction=LE",
        ),
        (
            "ROOT r = (f32[4,2], s32[4,2]) topk(x), k=2, largest=true, is_stable=true",
            "ROOT r = (f32[4,2], s32[4,2]) topk(x), k=2, largest=true",
        ),
    ],
)
def test_newer_spellings_read_as_the_older(newer, older):
    new, old = (xla_hlo.loads(f"HloModule m\n{HELPERS}{ENTRY}  {text}\n}}\n") for text in (newer, older))
    assert xla_hlo.dumps(new) == xla_hlo.dumps(old)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ("order=SOME", "order is TOTAL or PARTIAL, not SOME"),
        ("type=FLOAT, order=TOTAL", "order and type say the same"),
    ],
)
def test_orders_that_are_none(attributes, message):
    text = f"HloModule m\n{HELPERS}{ENTRY}  ROOT r = pred[5] compare(c, d), direction=LT, {attributes}\n}}\n"
    with pytest.raises(ValueError, match=message):
        xla_hlo.loads(text)
