"""Grids of coordinates, joined rows and columns, and indices turned flat and back: against NumPy's values."""

from __future__ import annotations

import warnings

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest


def test_rows_and_columns_of_two_dimensions():
    a = np.arange(6).reshape(2, 3)
    for name in ("r_", "c_"):
        for directive in ("r", "c"):
            for parts in (([1, 2, 3], [4, 5, 6]), (a, a), ([1, 2],), (1, 2), (a,)):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # NumPy gives matrices, of which it warns
                    want = getattr(np, name)[(directive, *parts)]
                got = getattr(lnp, name)[(directive, *parts)]
                assert got.shape == want.shape and got.tolist() == want.tolist()


def test_grids_of_no_numbers():
    for got in (lnp.mgrid[:], lnp.ogrid[:], lnp.mgrid[()]):
        assert got.shape == (0,) and got.dtype == np.int32
    with pytest.raises(ValueError, match="a slice needs its end"):
        lnp.mgrid[2:]


def test_open_grids_have_one_type():
    for key in (np.s_[0:3, 1:2:3j], np.s_[0:2, 0:1:0.5], np.s_[0:2, 0:3]):
        want, got = np.ogrid[key], lnp.ogrid[key]
        assert [g.dtype.kind for g in got] == [w.dtype.kind for w in want]
        assert [g.tolist() for g in got] == [w.tolist() for w in want]


@pytest.mark.parametrize("dtype", ["u1", "i1", "i2", "u4", "i8"])
def test_unravelled_indices_have_the_type_of_the_flat_ones(dtype):
    flat = np.array([0, 5, 100], dtype)
    got = lnp.unravel_index(flat, (300, 2))
    assert [g.tolist() for g in got] == [w.tolist() for w in np.unravel_index(flat, (300, 2))]
    assert all(g.dtype == np.dtype(dtype) for g in got)


def test_flat_indices_that_are_not_looked_at():
    index = (np.array([1, 5]), np.array([2, -1]))
    for f in (lnp.ravel_multi_index, lm.jit(lnp.ravel_multi_index, static_argnames=("dims", "mode"))):
        assert f(index, dims=(2, 3), mode="ignore").tolist() == [1 * 3 + 2, 5 * 3 - 1]
