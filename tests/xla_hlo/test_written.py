"""What is written passes XLA's parser, reads back equal, and XLA computes the same from it."""

from __future__ import annotations

import functools

import export_from_jax
import jax
import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from jax_support import run_by_xla
from lamina import lax, stablehlo, xla_hlo
from test_exported import assert_agrees, results
from test_round_trip import CAPTURED, TRACED
from xla_support import full, optimized, parsed, short, stablehlo_of, unoptimized

CASES = export_from_jax.all_cases()
NAMES = list(CASES)


@functools.cache
def lowered(name):
    f, args, _ = CASES[name]
    return jax.jit(f).lower(*args)


def survives(text):
    loaded = xla_hlo.loads(text)
    written = xla_hlo.dumps(loaded)
    canonical = loaded.as_text("canonical")
    # Factorizations are made of scans, which are written as loops; transforms of columns as those of lines.
    if " scan(" in canonical or "fft_columns" in canonical:
        canonical = xla_hlo.loads(written).as_text("canonical")
    module = parsed(written)
    for form in (written, full(module), short(module)):
        assert xla_hlo.loads(form).as_text("canonical") == canonical


@pytest.mark.parametrize("name", NAMES)
def test_dumped_programs_survive(name):
    survives(unoptimized(lowered(name)))


@pytest.mark.parametrize("name", NAMES[::12])
def test_optimized_programs_survive(name):
    survives(optimized(lowered(name)))


# As in tests/stablehlo, and what XLA has no opcode for.
WRITTEN = TRACED | {
    "no_opcode": lambda x: (lax.erf_inv(x * 0.2), lax.digamma(x * x), lax.erfc(x), lnp.arctan(x)),
    "complex": lambda x: lnp.tanh(lax.complex(x, 0.5 * x)).real,
    "barrier": lambda x: lm.checkpoint(lnp.sin)(x),
    "window": lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "SAME"),
    "convolution": lambda x: lax.conv(x[None, None], x[None, None, :2, :2], (1, 1), "SAME"),
    "stretched": lambda x: x[:, :1] + lnp.broadcast_to(x[:1, :1], (3, 4)),
    "long_splat": lambda x: x[0, 0] + lnp.full((9, 9), 2.5),
    "dynamic": lambda x: lax.dynamic_slice(x, (x[0, 0].astype("int32"), 1), (2, 2)),
    "sorted": lambda x: lnp.sort(x, 1) + lnp.cumsum(x, 1),
    "nothing": lambda x: (),
    "argument": lambda x: x,
}


@pytest.mark.parametrize("name", WRITTEN)
def test_traced_functions_run_on_xla(name):
    x = np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32)
    program = lm.jit(WRITTEN[name]).lower(x)
    text = xla_hlo.dumps(program)
    want = [np.asarray(v) for v in lm.tree.tree_leaves(lm.jit(WRITTEN[name])(x))]
    if want:
        assert_agrees(run_by_xla(stablehlo_of(text), [x]), want, 2e-5)
    assert_agrees(results(xla_hlo.loads(text)(x)), want, 2e-5)
    survives(text)


SPECIAL = {
    "float32": ["nan", "-nan", "inf", "-inf", "-0.0", "1e-45", "3.4028235e38"],
    "float64": ["nan", "inf", "-0.0", "5e-324", "1.7976931348623157e308", "0.1"],
    "float16": ["nan", "-inf", "65504", "6e-8", "-0.0"],
    "bfloat16": ["nan", "inf", "3.39e38", "-0.0"],
    "int8": [-128, 127],
    "uint64": [0, 2**64 - 1],
    "bool": [True, False],
}


@pytest.mark.parametrize("dtype", SPECIAL)
def test_constants_keep_their_bits(dtype):
    values = lnp.asarray(np.array(SPECIAL[dtype], dtype=np.float64 if dtype.endswith("16") else dtype))
    values = np.asarray(values.astype(dtype) if dtype.endswith("16") else values)
    written = xla_hlo.dumps(lm.jit(lambda: lnp.asarray(values)).lower())
    for form in (written, full(parsed(written))):
        got = np.asarray(xla_hlo.loads(form)())
        assert got.dtype == values.dtype
        assert got.tobytes() == values.tobytes()


def test_payloads_and_complex_specials_keep_their_bits():
    nans = np.array([0x7F800001, 0x7FC00007, 0xFFFFFFFF], np.uint32).view(np.float32)
    pairs = np.array([complex(np.nan, -np.inf), complex(-0.0, 1), complex(np.inf, 0)], np.complex64)
    for values in (nans, pairs):
        written = xla_hlo.dumps(lm.jit(lambda values=values: lnp.asarray(values)).lower())
        for form in (written, full(parsed(written))):
            assert np.asarray(xla_hlo.loads(form)()).tobytes() == values.tobytes()


def test_locations_survive_xla():
    lowered = lm.jit(lambda x: lnp.sin(x) * 0.4375 + 78.0).lower(CAPTURED)  # like no other program
    text = xla_hlo.dumps(lowered, locations=True)
    assert "test_written.py" in full(parsed(text))
    assert "test_written.py" in xla_hlo.loads(full(parsed(text))).as_text("full")
    assert "test_written.py" not in xla_hlo.dumps(lowered)


def test_stack_frames_of_jax_become_locations():
    def traced(x):
        return jax.numpy.sin(x) * 0.28125

    text = optimized(jax.jit(traced).lower(CAPTURED))
    assert "StackFrames" in text
    assert "test_written.py" in xla_hlo.loads(text).as_text("full")


def test_stablehlo_becomes_hlo():
    f = stablehlo.loads(lowered("while").as_text())
    assert xla_hlo.loads(xla_hlo.dumps(f)).as_text("canonical") == f.as_text("canonical")


def test_a_loaded_program_is_transformed():
    f = xla_hlo.loads(xla_hlo.dumps(lm.jit(lambda x: lnp.sum(lnp.sin(x) ** 2)).lower(CAPTURED)))
    got = np.asarray(lm.grad(f)(lnp.asarray(CAPTURED)))
    np.testing.assert_allclose(got, np.sin(2 * CAPTURED), rtol=1e-5, atol=1e-6)
    stacked = np.stack([CAPTURED, 2 * CAPTURED])
    np.testing.assert_array_equal(np.asarray(lm.vmap(f)(stacked)), [np.asarray(f(c)) for c in stacked])


def test_mistakes_raise():
    with pytest.raises(ValueError, match=r"^1:1: expected 'HloModule'"):
        xla_hlo.loads("hello")
    with pytest.raises(TypeError, match="a module is HLO text, a str, not bytes"):
        xla_hlo.loads(b"HloModule m")
    infeed = "HloModule m\nENTRY e {\n  t = token[] after-all()\n  ROOT i = (f32[], token[]) infeed(t)\n}"
    with pytest.raises(NotImplementedError, match=r"^4:8: infeed: one process runs this program"):
        xla_hlo.loads(infeed)
    wrong = "HloModule m\nENTRY e {\n  x = f32[2] parameter(0)\n  ROOT y = f32[3] negate(x)\n}"
    with pytest.raises(ValueError, match=r"^4:8: negate: gives f32\[2\], not f32\[3\]"):
        xla_hlo.loads(wrong)
    elided = "HloModule m\nENTRY e {\n  ROOT x = f32[20] constant({...})\n}"
    with pytest.raises(ValueError, match="3:30: the elements were left out"):
        xla_hlo.loads(elided)
    with pytest.raises(NotImplementedError, match="belongs to this process"):
        xla_hlo.dumps(lm.jit(lambda x: lm.pure_callback(np.sin, x, x)).lower(CAPTURED))
