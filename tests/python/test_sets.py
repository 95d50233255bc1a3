"""Sets of two arrays against NumPy's: NaN, zeros of both signs, repeated elements, types, places and derivatives."""

from __future__ import annotations

import itertools

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

NAMES = ["union1d", "intersect1d", "setdiff1d", "setxor1d"]
NAN, INF = np.nan, np.inf
RNG = np.random.default_rng(5)
FLOATS = [
    np.array([]),
    np.array([NAN, 1.0, NAN, 0.0, 2.0, 1.0]),
    np.array([2.0, NAN, -0.0, 3.0, 3.0, -INF]),
    np.array([[INF, 1.0], [5.0, NAN]]),
    np.array([NAN, NAN]),
    RNG.integers(0, 40, 100).astype(float),
]
INTEGERS = [np.array([], int), np.array([3, 1, 1, 2]), np.array([[2, 5], [5, -7]]), RNG.integers(0, 30, 80)]
COMPLEX = [
    np.array([1 + 1j, 1 - 1j, complex(NAN, 1), complex(1, NAN)]),
    np.array([1 + 1j, 2, complex(NAN, 2)]),
]
BOOLS = [np.array([True, True]), np.array([False, True])]
PAIRS = [pair for kind in (FLOATS, INTEGERS, COMPLEX, BOOLS) for pair in itertools.product(kind, kind)]


@pytest.mark.parametrize("name", NAMES)
def test_elements_and_their_order_are_numpys(name):
    for a, b in PAIRS:
        for options in ({}, {"assume_unique": True}) if name != "union1d" else ({},):
            got = np.asarray(getattr(lnp, name)(lnp.array(a), lnp.array(b), **options))
            want = getattr(np, name)(a, b, **options)
            if options and name == "setdiff1d":  # where NumPy drops some of what is there twice
                want = a.ravel()[~np.isin(a.ravel(), b)]
            assert got.shape == want.shape and np.array_equal(got, want, equal_nan=a.dtype.kind in "fc"), (
                a,
                b,
            )


@pytest.mark.parametrize("name", NAMES)
def test_elements_of_narrow_types_keep_them(name):
    for dtype in ("float16", "bfloat16", "float32", "int8", "uint64"):
        a, b = lnp.array([3, 1, 1, 2], dtype), lnp.array([2, 5, 5], dtype)
        got = getattr(lnp, name)(a, b)
        want = getattr(np, name)([3, 1, 1, 2], [2, 5, 5])
        assert got.dtype == dtype and got.astype("int32").tolist() == want.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_derivatives_go_to_where_an_element_stands_first(name):
    a, b = np.array([4.0, 1.0, 1.0, 9.0]), np.array([1.0, 7.0, 4.0, 7.0])
    found, f = getattr(np, name)(a, b), getattr(lnp, name)
    weights = np.arange(1.0, 1 + found.size)
    da, db = lm.grad(lambda a, b: (f(a, b) * weights).sum(), (0, 1))(a, b)
    both = np.concatenate([a, b])
    want = np.zeros(8)
    for weight, element in zip(weights, found):
        want[np.flatnonzero(both == element)[0]] += weight
    np.testing.assert_array_equal(np.concatenate([da, db]), want)
