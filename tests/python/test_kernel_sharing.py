"""What keeps compiles few and short: numbers are arguments of kernels, rare code stands once in each."""

import platform
import re

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from device_support import ON_CUDA


def kernels():
    return lm.cache.stats()["kernels"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_formulas_that_differ_in_numbers_share_a_kernel(dtype):
    x = np.linspace(0.5, 2, 7, dtype=dtype)

    def formula(a, b):
        return lm.jit(lambda v: (v * a + b) / (v - a * b) + v * v)

    want = lambda a, b: (x * x.dtype.type(a) + x.dtype.type(b)) / (x - x.dtype.type(a * b)) + x * x  # noqa: E731
    np.testing.assert_allclose(formula(1.25, 0.3)(x), want(1.25, 0.3), rtol=1e-6)
    before = kernels()
    for a, b in [(7.5, -0.2), (3e-5, 12.0), (-9.25, 1e10)]:
        np.testing.assert_allclose(formula(a, b)(x), want(a, b), rtol=1e-6)
    assert kernels() == before


def test_a_chain_of_equal_links_compiles_a_few_kernels_whatever_its_numbers():
    def chain(v):
        for i in range(400):
            v = lnp.exp(v * (0.01 * i)) * 0.3 + (0.5 + i)
        return v

    before = kernels()
    x = np.linspace(-1e-3, 1e-3, 11, dtype=np.float32)
    got = np.asarray(lm.jit(chain)(x))
    assert kernels() - before <= 8  # each a piece of the chain: 13 when numbers were part of a kernel
    assert np.array_equal(got, np.asarray(chain(lnp.asarray(x))), equal_nan=True)


def test_numbers_that_shape_the_code_stay_in_it():
    text = lm.jit(lambda v: lnp.maximum(v, 0.0) * 1.0 + 0.75).lower(lnp.ones(3)).compile().as_text("kernels")
    assert "f32 constant 0x0" in text
    assert "f32 arg a" in text


@pytest.mark.machine_code
def test_the_rare_part_of_a_function_stands_once_in_a_kernel():
    def waves(v):
        return lnp.sin(v) + lnp.sin(v * 1.5) * lnp.sin(v + 0.25) - lnp.sin(v * v)

    x = np.array([0.1, 1e30, 2.5, -3e38, np.inf, 1e8, np.nan, 7], np.float32)
    wave = lm.jit(waves)
    compiled = wave.lower(x).compile()
    if ON_CUDA:
        code, made, called = compiled.as_text("assembly"), r"\.func .* rare\(", r"call.uni .*\n\s*rare"
    else:
        code, made, called = compiled.as_text("ir"), r"define internal .*@rare", r"call .*@rare"
    assert len(re.findall(made, code)) == 1
    assert len(re.findall(called, code)) >= 4
    if not ON_CUDA and platform.machine() == "x86_64":  # so that it leaves some vectors in registers
        assert len(re.findall(r"call win64cc .*@rare", code)) == len(re.findall(called, code))
    # Twice as many runs as bring the machine's code about: both tiers, large arguments among them.
    many = np.tile(x, 4096)
    jitted = lm.jit(waves)
    first = np.asarray(jitted(many))
    for _ in range(40):
        assert np.array_equal(np.asarray(jitted(many)), first, equal_nan=True)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        half, quarter, square = x * np.float32(1.5), x + np.float32(0.25), x * x
        want = (
            np.sin(wide)
            + np.sin(half.astype(float)) * np.sin(quarter.astype(float))
            - np.sin(square.astype(float))
        )
    np.testing.assert_allclose(first[:8], want, rtol=3e-6, atol=3e-7)
