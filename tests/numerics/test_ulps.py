"""The measures themselves: neighbours are one ulp apart, and what is wrong is seen to be."""

from __future__ import annotations

import numpy as np
import pytest
from elementwise_table import convert_oracle
from ulps import FLOATS, error, everything, largest, numpy_dtype, same, specials


@pytest.mark.parametrize("name", FLOATS)
def test_neighbours_are_one_ulp_apart(name):
    x = specials(name)
    x = x[np.isfinite(x) & (np.abs(x).astype(np.longdouble) < largest(name) / 2) & (x > 0)]
    bits = np.dtype(f"u{x.dtype.itemsize}")
    above = (x.view(bits) + np.ones(1, bits)).view(x.dtype)
    assert np.all(error(x, x.astype(np.longdouble), name) == 0)
    assert np.all(error(above, x.astype(np.longdouble), name) == 1)
    between = (x.astype(np.longdouble) + above.astype(np.longdouble)) / 2
    assert np.all(error(x, between, name) == 0.5)


@pytest.mark.parametrize("name", FLOATS)
def test_wrong_signs_infinities_and_nans_are_infinitely_wrong(name):
    got = np.array([0.0, np.nan, 1.0, np.inf, 1.0, np.inf, np.inf]).astype(numpy_dtype(name))
    exact = np.array([-0.0, 1.0, np.nan, -np.inf, np.inf, np.nan, -1.0], np.longdouble)
    assert np.all(np.isinf(error(got, exact, name)))


def test_overflow_is_right_from_half_an_ulp_beyond_the_largest_value():
    top = largest("float16")
    exact = np.array([top + 16, top + 15, np.longdouble(1e30)])
    assert error(np.full(3, np.inf, np.float16), exact, "float16").tolist() == [0.5, 17 / 32, 0]


def test_bits_tell_zeros_apart_and_take_any_nan():
    assert not same(np.array([0.0]), np.array([-0.0]))
    assert same(np.array([np.nan]), np.array([-np.nan]))
    assert not same(np.array([1 + 0j]), np.array([complex(1, -0.0)]))
    assert not same(np.zeros(2, np.float32), np.zeros(2))


def test_the_oracle_rounds_to_bfloat16_once():
    """1 + 2^-8 + 2^-40 is above a tie that rounding to f32 first would make exact."""
    x = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8 - 2.0**-40, 1 + 2.0**-8])
    assert convert_oracle(x, "bfloat16").astype(np.float64).tolist() == [1 + 2.0**-7, 1.0, 1.0]
    assert same(convert_oracle(everything("bfloat16"), "bfloat16"), everything("bfloat16"))
