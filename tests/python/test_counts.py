"""Sizes and counts that no array can have, or that are no integers, are refused at once, in words."""

from __future__ import annotations

import math
import time

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import random
from lamina.scipy import fft, linalg, signal, special

X, M = lnp.arange(4.0), lnp.ones((2, 2))

# What takes a size, whose result is as large or is made step by step.
SIZES = {
    "array_split": lambda n: lnp.array_split(X, n),
    "bernoulli": special.bernoulli,
    "convolution_matrix": lambda n: linalg.convolution_matrix(X, n),
    "dct": lambda n: fft.dct(X, n=n),
    "dft": linalg.dft,
    "eye": lnp.eye,
    "fft": lambda n: lnp.fft.fft(X, n),
    "hadamard": linalg.hadamard,
    "hamming": lnp.hamming,
    "helmert": linalg.helmert,
    "hilbert": linalg.hilbert,
    "hsplit": lambda n: lnp.hsplit(X, n),
    "invhilbert": linalg.invhilbert,
    "invpascal": linalg.invpascal,
    "linspace": lambda n: lnp.linspace(0, 1, n),
    "pascal": linalg.pascal,
    "polyfit": lambda n: lnp.polyfit(X, X, n),
    "polyint": lambda n: lnp.polyint(X, n),
    "random.split": lambda n: random.split(random.PRNGKey(0), n),
    "repeat": lambda n: lnp.repeat(X, n),
    "split": lambda n: lnp.split(lnp.zeros(0), n),
    "stft": lambda n: signal.stft(X, nperseg=2, nfft=n),
    "tile": lambda n: lnp.tile(X, n),
    "tri": lnp.tri,
    "vander": lambda n: lnp.vander(X, n),
    "zeros": lnp.zeros,
}
REFUSALS = (ValueError, OverflowError, MemoryError)


@pytest.mark.parametrize("name", SIZES)
def test_no_size_takes_long_to_be_refused(name):
    for n in (10**30, 2**63):
        start = time.perf_counter()
        with pytest.raises(REFUSALS):
            np.asarray(SIZES[name](n))
        assert time.perf_counter() - start < 2, n


@pytest.mark.parametrize("name", SIZES)
def test_sizes_are_integers(name):
    for n in (2.5, float("nan"), float("inf"), "2", 1j, np.float64(2.0)):
        with pytest.raises((TypeError, ValueError)):
            SIZES[name](n)


@pytest.mark.parametrize("name", sorted(SIZES.keys() - {"hamming"}))  # of no points, as NumPy's
def test_sizes_are_not_negative(name):
    for n in (-1, -(10**30)):
        with pytest.raises((*REFUSALS, TypeError)):
            SIZES[name](n)


def test_what_is_repeated_ends_where_nothing_is_left():
    for n in (4, 10**12, 10**30):
        assert lnp.diff(X, n=n).shape == lnp.polyder(X, n).shape == (0,)
        assert lm.jit(lambda x, n=n: lnp.diff(x, n=n))(X).shape == (0,)
    with pytest.raises(TypeError):
        lnp.diff(X, n=1.5)


def test_integrals_of_high_order_are_divided_one_by_one():
    x, constants = np.array([2.0, -3.0, 0.5]), np.arange(1.0, 31.0)
    for m in (1, 2, 30):
        np.testing.assert_allclose(lnp.polyint(x, m), np.polyint(x, m), rtol=1e-15)
        got = lnp.polyint(x, m, k=constants[:m])
        np.testing.assert_allclose(got, np.polyint(x, m, k=constants[:m]), rtol=1e-15)
    wide = lnp.polyint(np.float32([1e30]), 36)  # 1e30 / 36!, whose factorial no float32 holds
    np.testing.assert_allclose(wide[0], 1e30 / 3.719933267899012e41, rtol=1e-5)


def test_matrices_of_numbers_beyond_floats_are_infinite():
    with lm.default_dtypes(float="float64"):
        p = linalg.pascal(600).numpy()
    assert p[1].tolist() == list(range(1, 601)) and p[599, 599] == np.inf
    assert p[300, 200] == math.comb(500, 300) and np.array_equal(p, p.T)
    with pytest.raises(ValueError, match="at most 1000 rows, not 1001"):
        linalg.pascal(1001)


def test_arguments_that_count_are_whole():
    with pytest.raises(TypeError, match="a shape is an integer"):
        lnp.ravel_multi_index((1, 1), (2, 2.5))
    with pytest.raises(ValueError, match=r"at most a million, not 2\.5"):
        special.multigammaln(5.0, 2.5)
    with pytest.raises(TypeError, match="n is an integer"):
        special.sph_harm_y(2.5, 1, 0.5, 0.5)
    with pytest.raises(ValueError, match="100000 at most"):
        special.sph_harm_y(2**31 - 1, 1, 0.5, 0.5)
    with pytest.raises(ValueError, match=r"cov: ddof is an integer, not 1\.5"):
        lnp.cov(X, ddof=1.5)
    with pytest.raises(TypeError, match="fweights are integers, not float32"):
        lnp.cov(X, fweights=X)
