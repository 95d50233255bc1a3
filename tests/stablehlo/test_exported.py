"""Functions exported by JAX run here and agree with JAX."""

from __future__ import annotations

import functools

import export_from_jax
import jax
import numpy as np
import pytest
from lamina import stablehlo

CASES = export_from_jax.all_cases()


@functools.cache
def exported(name):
    f, args, _ = CASES[name]
    return export_from_jax.export(f, args)


def results(out):
    return [np.asarray(x) for x in (out if isinstance(out, tuple) else (out,))]


def assert_agrees(got, want, tolerance):
    """Shapes and types equal; values within `tolerance` of the largest value and of each value."""
    assert len(got) == len(want)
    for g, w in zip(got, want):
        assert (g.shape, str(g.dtype)) == (w.shape, str(w.dtype))
        if g.dtype.kind in "biu":
            np.testing.assert_array_equal(g, w)
            continue
        g, w = g.astype(np.complex128), w.astype(np.complex128)
        scale = np.abs(w[np.isfinite(w)]).max(initial=0.0)
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=tolerance * scale)


def test_there_are_enough_cases():
    assert len(CASES) > 350


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_jax(name):
    f, args, tolerance = CASES[name]
    lowered = jax.jit(f).lower(*args)
    flat = [np.asarray(a) for a in jax.tree.leaves(args)]
    want = [np.asarray(x) for x in jax.tree.leaves(lowered.compile()(*args))]
    # Exported, CHLO is expanded by JAX; lowered, it is there to be read.
    for text in (exported(name), lowered.as_text()):
        assert_agrees(results(stablehlo.loads(text)(*flat)), want, tolerance)


DOUBLE = [
    "exp",
    "power",
    "c64_sqrt",
    "c64_arctan",
    "lgamma",
    "special_zeta",
    "special_i1e",
    "var_1",
    "lax_cumlogsumexp",
    "sort",
    "matmul",
    "conv",
    "qr_tall",
    "solve",
    "cholesky",
    "eigh",
    "svd",
    "fft_long",
    "fft_prime",
    "irfft",
    "scan_grad",
    "while",
    "attention_grad",
    "random_uniform",
    "random_normal",
    "bitcast",
]


@pytest.mark.parametrize("name", DOUBLE)
def test_agrees_with_jax_in_double_precision(name):
    f, args, tolerance = CASES[name]
    wide = {"float32": np.float64, "complex64": np.complex128}
    args = tuple(a.astype(wide[str(a.dtype)]) if str(a.dtype) in wide else a for a in args)
    with jax.enable_x64(True):
        lowered = jax.jit(f).lower(*args)
        want = [np.asarray(x) for x in jax.tree.leaves(lowered.compile()(*args))]
        text = lowered.as_text()
    assert_agrees(results(stablehlo.loads(text)(*args)), want, min(tolerance, 1e-10))


@pytest.mark.parametrize("module", [5, None, b"module {}"], ids=["number", "none", "bytes"])
def test_a_module_is_text(module):
    with pytest.raises(
        TypeError, match=r"not bytes; of bytecode give the text, in JAX exported.mlir_module\(\)"
    ):
        stablehlo.loads(b"ML\xefR")
    with pytest.raises(TypeError, match="a module is StableHLO text, a str, not"):
        stablehlo.loads(module)
