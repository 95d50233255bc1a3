"""Arguments of NumPy's functions that were taken for others, or for nothing: they are met, or refused in words."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

X = np.array([0.3, 1.7, 2.2, 0.9])
M = np.arange(6.0).reshape(2, 3)


def test_widths_of_an_axis_that_is_not_there_are_refused():
    for axis in (2, -3, 5):
        with pytest.raises(IndexError, match=f"axis {axis} is out of bounds"):
            lnp.pad(M, {axis: 1})
    np.testing.assert_array_equal(lnp.pad(M, {-1: (1, 2)}), np.pad(M, {-1: (1, 2)}))


def test_a_transform_has_no_negative_length():
    for name in ("fft", "ifft", "rfft", "irfft", "hfft"):
        for n in (-1, 0):
            with pytest.raises(ValueError, match=f"at least 1, not {n}"):
                getattr(lnp.fft, name)(X, n)
    got = lnp.fft.fftn(M, s=(-1, 2), axes=(0, 1))  # there -1 is the axis' own size, as in NumPy
    np.testing.assert_allclose(got, np.fft.fftn(M, s=(-1, 2), axes=(0, 1)), atol=1e-12)


def test_flat_indices_in_fortrans_order():
    flat = np.array([0, 1, 5, 23])
    for shape in ((2, 3, 4), np.array([2, 3, 4]), 24):
        got, want = (f.unravel_index(flat, shape, order="F") for f in (lnp, np))
        assert [g.tolist() for g in got] == [w.tolist() for w in want]
    with pytest.raises(ValueError, match="order must be 'C' or 'F'"):
        lnp.unravel_index(flat, (24,), order="A")


def test_what_is_said_twice_is_refused():
    for f in (lnp.var, lnp.std):
        with pytest.raises(ValueError, match="say the same"):
            f(X, ddof=1, correction=1)
        assert f(X, correction=1).item() == f(X, ddof=1).item()


def test_an_extremum_of_some_elements_needs_a_start():
    some = X > 1
    for name in ("max", "min", "amax", "amin"):
        with pytest.raises(ValueError, match="`where` may leave"):
            getattr(lnp, name)(X, where=some)
        got, want = (getattr(f, name)(X, where=some, initial=1.8) for f in (lnp, np))
        assert got.item() == want
    assert lnp.nanmax(X, where=some).item() == 2.2 and np.isnan(lnp.nanmin(X, where=X > 9))


def test_ends_of_differences_keep_their_fractions():
    whole = np.array([3, -1, 4])
    for end in (1.5, [2.5], 1j):
        for name in ("to_begin", "to_end"):
            with pytest.raises(TypeError, match=f"ediff1d: {name} is"):
                lnp.ediff1d(whole, **{name: end})
    np.testing.assert_array_equal(lnp.ediff1d(whole, [7], 5), np.ediff1d(whole, [7], 5))
    np.testing.assert_array_equal(lnp.ediff1d(X, 1, 2.5), np.ediff1d(X, 1, 2.5))


def test_kinds_of_sorts_have_names():
    for f in (lnp.sort, lnp.argsort):
        with pytest.raises(ValueError, match="not 'bubble'"):
            f(X, kind="bubble")
        assert f(X, kind="heapsort").tolist() == f(X).tolist()


def test_roots_have_derivatives():
    """With zeros in front, which are dropped by their values."""
    p, tangent = np.array([0.0, 1.0, -3.5, 0.5, 2.0]), np.array([0.0, 0.3, 1.0, -0.2, 0.7])
    got = lm.jvp(lnp.roots, (p,), (tangent,))[1]
    with jax.enable_x64(True):
        want = jax.jvp(lambda q: jnp.roots(q, strip_zeros=False), (p[1:],), (tangent[1:],))[1]
    np.testing.assert_allclose(np.sort_complex(got), np.sort_complex(want), rtol=1e-10)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_slopes_of_arcsinh_and_arctan_do_not_vanish_where_a_square_overflows(dtype):
    most = float(lnp.finfo(dtype).max)
    x = lnp.array([0.0, 0.5, -1.0, 3.0, 300.0, -6e4, most / 2, np.inf], dtype)
    wide = np.asarray(x.astype("float64"))
    with np.errstate(over="ignore"):
        want = {"arcsinh": 1 / np.hypot(1, wide), "arctan": (1 / np.hypot(1, wide)) ** 2}
    for name, slopes in want.items():
        f = getattr(lnp, name)
        for g in (lm.grad(f), lm.jit(lm.grad(f)), lambda v, f=f: lm.jvp(f, (v,), (lnp.ones_like(v),))[1]):
            got = np.asarray(lm.vmap(g)(x).astype("float64"))
            tiny = float(lnp.finfo(dtype).smallest_subnormal)
            np.testing.assert_allclose(got, slopes, rtol=8 * float(lnp.finfo(dtype).eps), atol=2 * tiny)
    if dtype == "float64":  # 3 x^2 / (1 + x^2)^(5/2) - 1 / (1 + x^2)^(3/2)
        third = lm.vmap(lm.grad(lm.grad(lm.grad(lnp.arcsinh))))(x[:5])
        square = wide[:5] ** 2
        want3 = 3 * square / (1 + square) ** 2.5 - 1 / (1 + square) ** 1.5
        np.testing.assert_allclose(third, want3, rtol=1e-13)


@pytest.mark.parametrize("part", ["start", "stop", "step"])
def test_lengths_that_depend_on_a_traced_number_name_it(part):
    bounds = {"start": 1, "stop": 5, "step": 2}

    def of_arange(v):
        return lnp.arange(**{**bounds, part: v})

    def of_grid(v):
        return lnp.mgrid[slice(*{**bounds, part: v}.values())]

    def of_row(v):
        return lnp.r_[slice(*{**bounds, part: v}.values())]

    for f, words in (
        (of_arange, f"depends on its {part}"),
        (of_grid, f"mgrid: the {part}"),
        (of_row, f"r_: the {part}"),
    ):
        with pytest.raises(TypeError, match=words):
            lm.jit(f)(2)


def test_tensordot_says_what_is_wrong_with_its_axes():
    x, y = lnp.ones((3, 2, 2)), lnp.ones(2)
    for axes, kind, words in (
        ("ab", TypeError, "axes is an integer or a pair"),
        (([0], [0], [0]), TypeError, "axes is an integer or a pair"),
        (("ab", "c"), TypeError, "each of the two axes"),
        (([0], [0, 1]), ValueError, "1 axes of a and 2 of b"),
    ):
        with pytest.raises(kind, match=words):
            lnp.tensordot(x, y, axes)


def test_result_type_of_none_is_the_default_float():
    assert lnp.result_type(None) == "float32" and lnp.result_type("int32", None) == "float32"
    with lm.default_dtypes(float="float64"):
        assert lnp.result_type(None) == "float64"
