"""Corners of NumPy's functions where a number, an element type or a parameter was wrong: against NumPy's values."""

from __future__ import annotations

import array
import functools
import itertools
from typing import NamedTuple

import jax.numpy as jnp
import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax

X = np.array([1.0, 2.0, 4.0], np.float32)
Y = np.arange(24, dtype=np.float32).reshape(2, 3, 4) ** 2
NAN = np.array([[1.0, np.nan, 3.0, 2.0], [4.0, 5.0, 0.5, 7.0]], np.float32)


# --- reductions ---


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["var", "std"])
@pytest.mark.parametrize("axis", [None, 1])
def test_what_is_left_out_does_not_reach_the_derivative(name, axis, bad):
    x = np.where(np.isnan(NAN), bad, NAN).astype(np.float32)
    there = np.isfinite(x)
    slope = lm.grad(lambda x: getattr(lnp, name)(x, axis=axis, where=there).sum())(x).numpy()
    assert np.isfinite(slope).all() and (slope[~there] == 0).all()
    row = lm.grad(lambda x: getattr(lnp, name)(x))(x[1]).numpy()
    if axis == 1:
        np.testing.assert_allclose(slope[1], row, rtol=1e-5)
    if np.isnan(bad):
        other = lm.grad(lambda x: getattr(lnp, "nan" + name)(x, axis=axis).sum())(x).numpy()
        np.testing.assert_array_equal(other, slope)


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_no_degrees_of_freedom_are_nan(name):
    f = getattr(lnp, name)
    assert np.isnan(f(X, ddof=3).item()) and np.isnan(f(X, ddof=5).item())
    assert np.isnan(f(X, ddof=2, where=X > 1).item()) and np.isfinite(f(X, ddof=2).item())


def test_results_are_of_the_type_that_was_asked_for():
    assert lnp.mean(np.array([1.5, 2.5, 4.0], np.float32), dtype="int16").dtype == "int16"
    assert lnp.nanmean(NAN, dtype="int32").dtype == "int32"
    assert (
        lnp.var(X, dtype="complex64").dtype == "complex64" and lnp.var(X, dtype="float16").dtype == "float16"
    )
    with pytest.raises(ValueError, match="imaginary"):
        lnp.var(X * 1j, dtype="float32")


def test_integers_of_a_sum_may_keep_their_type():
    x = np.array([100, 100], np.int8)
    kept, wide = lnp.sum(x, promote_integers=False), lnp.sum(x)
    assert (kept.dtype, kept.item()) == ("int8", -56) and (wide.dtype, wide.item()) == ("int64", 200)
    assert lnp.prod(x, promote_integers=False).dtype == "int8"


@pytest.mark.parametrize(
    "axis, shape", [((0, 1), (2, 3)), ((2, 0), (4, 2)), (1, (3,)), ((2, 0, 1), (4, 2, 3))]
)
def test_average_with_weights_of_some_axes(axis, shape):
    w = np.arange(1, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    np.testing.assert_allclose(lnp.average(Y, axis, w).numpy(), np.average(Y, axis, w), rtol=1e-6)
    with pytest.raises(ValueError, match="do not fit"):
        lnp.average(Y, axis, np.ones((5,) * len(shape)))


DISTANCES = [
    ({"dx": np.array([1.0, 2.0, 3.0])}, -1),
    ({"dx": np.array([[1.0], [2.0]])}, 1),
    ({"dx": np.full((2, 3, 3), 2.0)}, 2),
    ({"x": np.array([1.0, 2.0, 4.0, 8.0])}, 2),
    ({"x": np.array([1.0, 2.0, 4.0])}, 1),
    ({"x": Y * Y}, 0),
    ({"dx": 0.5}, 1),
]


@pytest.mark.parametrize("distances, axis", DISTANCES)
def test_trapezoid_of_distances(distances, axis):
    distances = {k: np.float32(v) for k, v in distances.items()}
    want = np.trapezoid(Y, **distances, axis=axis)
    np.testing.assert_allclose(lnp.trapezoid(Y, **distances, axis=axis).numpy(), want, rtol=1e-5)


# --- elements ---


def test_ldexp_rounds_once_and_knows_zeros_and_infinities():
    for dtype in (np.float16, np.float32, np.float64):
        x = np.array([0, -0.0, 1, np.inf, -np.inf, np.nan, 3, 1.5, 1e-7, 1.9999], dtype)
        tiny = np.finfo(dtype).smallest_subnormal
        x = np.concatenate(
            [x, [tiny, 3 * tiny, np.finfo(dtype).max, np.finfo(dtype).tiny * dtype(1.25)]]
        ).astype(dtype)
        n = np.array(
            [
                -(2**31),
                -2098,
                -1074,
                -1000,
                -149,
                -127,
                -28,
                -24,
                -11,
                -1,
                0,
                3,
                40,
                300,
                1100,
                2098,
                2**31 - 1,
            ]
        )
        with np.errstate(over="ignore", under="ignore"):
            want = np.ldexp(x[:, None], n.astype(np.int32))
        np.testing.assert_array_equal(lnp.ldexp(x[:, None], n.astype(np.int32)).numpy(), want)
    assert lm.grad(lambda x: lnp.ldexp(x, 3))(2.0).item() == 8.0


def test_logaddexp_of_complex_numbers():
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=40) * 3 + 1j * rng.normal(size=40) * 3 for _ in range(2))
    got = lnp.logaddexp(a, b).numpy()
    np.testing.assert_allclose(got, np.log(np.exp(a) + np.exp(b)), rtol=1e-10)
    np.testing.assert_allclose(lnp.logaddexp2(a, b).numpy(), np.log2(2**a + 2**b), rtol=1e-9)
    big = lnp.logaddexp(np.complex64([800 + 1j, -np.inf, 3]), np.complex64([799, 2, -np.inf])).numpy()
    np.testing.assert_allclose(big, [800.25 + 0.7473j, 2, 3], rtol=1e-3)


def test_spacing_of_half_types_is_numpys():
    for dtype in (np.float16, np.float32):
        x = np.array([1.0, -2.0, 0.0, -3.5, 60000, 1e-7], dtype)
        np.testing.assert_array_equal(lnp.spacing(x).numpy(), np.spacing(x))


# --- places ---

INDICES = {
    "array": np.array([0, 2, 2, -1]),
    "one place": np.array([1, 1, 1]),
    "beyond": np.array([0, 7, -9]),
    "a number beyond": 9,
    "a number before": -9,
    "slice": slice(1, 3),
    "number": -1,
}
UPDATES = ["set", "add", "multiply", "divide", "power", "min", "max"]


@pytest.mark.parametrize("mode", ["drop", "fill", "clip"])
@pytest.mark.parametrize("wrap", [True, False])
@pytest.mark.parametrize("name", INDICES)
def test_updates_and_reads_at_any_place(name, wrap, mode):
    x, at = np.array([1.0, 2.0, 3.0, 4.0], np.float32), INDICES[name]
    options = {
        "mode": mode,
        "wrap_negative_indices": wrap,
        "indices_are_sorted": False,
        "unique_indices": False,
    }
    for kind in UPDATES:
        want = getattr(jnp.asarray(x).at[at], kind)(2.0, **options)
        for run in (lambda f: f, lm.jit) if kind in ("set", "divide") else (lambda f: f,):
            got = run(lambda x, kind=kind: getattr(lnp.asarray(x).at[at], kind)(2.0, **options))(x)
            np.testing.assert_array_equal(got.numpy(), np.asarray(want), err_msg=kind)
    for extra in ({}, {"fill_value": 7}):
        want = jnp.asarray(x).at[at].get(**options, **extra)
        np.testing.assert_array_equal(lnp.asarray(x).at[at].get(**options, **extra).numpy(), np.asarray(want))
    want = jnp.asarray(x).at[at].apply(jnp.sin, **options)
    np.testing.assert_allclose(
        lnp.asarray(x).at[at].apply(lnp.sin, **options).numpy(), np.asarray(want), rtol=1e-5
    )


def test_functions_apply_as_often_as_an_index_stands_there():
    x, at = np.array([4.0, 6.0], np.float32), np.array([0, 0])
    assert lnp.asarray(x).at[at].divide(2).tolist() == [1, 6] and lnp.asarray(x).at[at].power(2).tolist() == [
        256,
        6,
    ]
    assert lnp.asarray(x).at[at].apply(lnp.sqrt).tolist() == [np.sqrt(np.float32(2)), 6]
    integers = lnp.array([4, 6]).at[at].power(2)
    assert (integers.dtype, integers.tolist()) == ("int32", [256, 6])
    slope = lm.grad(lambda x: x.at[at].apply(lnp.sin).sum())(x).numpy()
    np.testing.assert_allclose(slope, [np.cos(4) * np.cos(np.sin(4)), 1], rtol=1e-5)


def test_without_a_mode_known_indices_still_raise():
    for at in (9, np.array([9]), lnp.array([9])):
        with pytest.raises(IndexError):
            lnp.zeros(4).at[at].set(1).tolist()
    with pytest.raises(ValueError, match="mode is"):
        lnp.zeros(4).at[0].set(1, mode="raise")


def test_take_and_put_with_modes():
    i = np.array([0, 9, -9])
    assert lnp.take(X, i, mode="fill", fill_value=7).tolist() == [1, 7, 7]
    np.testing.assert_array_equal(
        lnp.take(X, i, mode="fill", unique_indices=True).numpy(), [1, np.nan, np.nan]
    )
    at = np.array([[[0, 9, -1, -9]]])
    for options in ({"mode": "fill"}, {"mode": "fill", "fill_value": 5.0}, {"mode": "clip"}):
        for wrap in (True, False):
            want = jnp.take_along_axis(Y, at, 2, wrap_negative_indices=wrap, **options)
            got = lnp.take_along_axis(Y, at, 2, wrap_negative_indices=wrap, **options)
            np.testing.assert_array_equal(got.numpy(), np.asarray(want))
    a = lnp.arange(4.0)
    lnp.put_along_axis(a, np.array([1, 9]), np.float32([7, 8]), 0, mode="drop")
    lnp.put(a, np.array([0, 1]), [])
    assert a.tolist() == [0, 7, 2, 3]


# --- functions of sequences ---


def test_interp_along_the_outermost_lines_and_of_complex_values():
    xp, fp, x = np.float32([0, 1, 2]), np.float32([5, 6, 8]), np.float32([-1, 0.5, 3])
    assert lnp.interp(x, xp, fp, left="extrapolate", right="extrapolate").tolist() == [4, 5.5, 10]
    assert lnp.interp(x, xp, fp, right="extrapolate").tolist() == [5, 5.5, 10]
    z = np.complex64([5, 6j, 8])
    for options in ({}, {"period": 3.0}, {"left": 1j}):
        np.testing.assert_allclose(
            lnp.interp(x, xp, z, **options).numpy(), np.interp(x, xp, z, **options), rtol=1e-6
        )
    with pytest.raises(ValueError, match="extrapolate"):
        lnp.interp(x, xp, fp, left="line")


def test_polynomials():
    a, b = np.float32([0, 0, 1, 2]), np.float32([0, 3, 4])
    np.testing.assert_array_equal(lnp.polymul(a, b, trim_leading_zeros=True).numpy(), np.polymul(a, b))
    quotient, rest = lnp.polydiv(np.float32([1, 3, 2]), np.float32([1, 1]), trim_leading_zeros=True)
    assert quotient.tolist() == [1, 2] and rest.size == 0
    p = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_allclose(lnp.polyval(p, np.float32(2)).numpy(), np.polyval(p, np.float32(2)))


# --- products ---

PRODUCTS = {
    "matmul": (lnp.matmul, np.matmul),
    "dot": (lnp.dot, np.dot),
    "inner": (lnp.inner, np.inner),
    "vdot": (lnp.vdot, np.vdot),
    "tensordot": (lnp.tensordot, np.tensordot),
    "vecdot": (lnp.vecdot, np.vecdot),
    "einsum": (
        lambda a, b, **k: lnp.einsum("ij,jk,kl", a, b, b, **k),
        lambda a, b: np.einsum("ij,jk,kl", a, b, b),
    ),
    "convolve": (lambda a, b, **k: lnp.convolve(a[0], b[0], **k), lambda a, b: np.convolve(a[0], b[0])),
    "correlate": (lambda a, b, **k: lnp.correlate(a[0], b[0], **k), lambda a, b: np.correlate(a[0], b[0])),
    "lax.dot": (lax.dot, np.dot),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_in_a_preferred_type(name):
    ours, numpys = PRODUCTS[name]
    a = np.array([[100, 100], [90, 3]], np.int8)
    got = ours(a, a, preferred_element_type="int32", precision="highest")
    assert got.dtype == "int32"
    np.testing.assert_array_equal(got.numpy(), numpys(a.astype(np.int32), a.astype(np.int32)))
    f = np.array([[1 + 2**-10, 1], [3, 2**-12]], np.float32)  # rounded in the end only: bfloat16 has 8 bits
    narrow = ours(f, f, preferred_element_type="bfloat16")
    assert narrow.dtype == "bfloat16"
    np.testing.assert_array_equal(narrow.numpy(), numpys(f, f).astype(jnp.bfloat16))
    with pytest.raises(TypeError, match="imaginary"):
        ours(f * 1j, f * 1j, preferred_element_type="float32")


def test_derivatives_of_functions_applied_at_traced_places():
    at = np.array([0, 0, 1])
    slope = lm.grad(lm.jit(lambda x, at: x.at[at].apply(lnp.sin).sum()))(X, at).numpy()
    np.testing.assert_allclose(slope, [np.cos(1) * np.cos(np.sin(1)), np.cos(2), 1], rtol=1e-5)
    many = np.arange(200) % 3
    got = lm.jit(lambda x, at: x.at[at].apply(lambda e: e / 2))(X, many)
    np.testing.assert_allclose(got.numpy(), X / 2.0 ** np.bincount(many), rtol=1e-6)


# --- places, masks and lists of nothing ---

ROWS = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    "name, args",
    [
        ("insert", ([1, 2, 3], [2, 0], [8, 9])),
        ("insert", ([1, 2, 3], [-1, 1, 0], [7, 8, 9])),
        ("insert", (ROWS, [3, 0], np.arange(6.0).reshape(3, 2), 1)),
        ("insert", (ROWS, slice(None, None, -2), [[5], [6], [7]], 1)),
        ("insert", (ROWS, np.array([True, False, True]), 7, 0)),
        ("insert", ([1, 2, 3], [], 9)),
        ("delete", (ROWS, [], 1)),
        ("take", (ROWS, [])),
        ("take", (ROWS, [[]], 1)),
        ("take", (ROWS, True)),
        ("take", (ROWS, [True, False], 0)),
        ("take", (ROWS, np.array([True, False]), 0)),
        ("bincount", ([], None, 3)),
        ("extract", ([1, 0, 1], ROWS)),
        ("repeat", (2.5, 3, 0)),
        ("polyadd", ([1, 2], 3)),
        ("gcd", (np.array([5, -(2**31)], np.int32), np.array([-(2**31), 3], np.int32))),
        ("gcd", (np.array([5]), np.array([-(2**63)]))),
    ],
)
def test_places_and_parameters_are_numpys(name, args):
    want = getattr(np, name)(*args)
    got = getattr(lnp, name)(*args).numpy()
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


def test_lists_of_nothing_are_indices():
    rows = lnp.asarray(ROWS)
    assert rows[[[]]].shape == (1, 0, 4) and rows[lnp.ix_([], [1])].shape == (0, 1)
    assert lnp.broadcast_shapes(4, (3, 1)) == (3, 4)


@pytest.mark.parametrize(
    "call, error, match",
    [
        (
            lambda: lnp.insert(ROWS, 5, 0, axis=1),
            IndexError,
            "index 5 is out of bounds for axis 1 with size 4",
        ),
        (lambda: lnp.delete(ROWS, [0, -5], axis=1), IndexError, "index -5 is out of bounds for axis 1"),
        (lambda: lnp.compress([True] * 5, ROWS, axis=0), IndexError, "index 4 is out of bounds for axis 0"),
        (lambda: lnp.bincount([0, 1], [1.0]), ValueError, "one weight for each"),
        (lambda: lnp.bincount([0, 1], minlength=-1), ValueError, "minlength"),
        (lambda: lnp.polyder([1, 2], -1), ValueError, "not -1"),
        (lambda: lnp.broadcast_shapes((-1,), (1,)), ValueError, "negative"),
        (lambda: pow(lnp.asarray([1, 2]), 2, 5), TypeError, "unsupported operand"),
        (
            lambda: [1, 2] * lnp.asarray(2),
            TypeError,
            r"not multiplied by a list: use lamina.numpy.asarray\(\[",
        ),
        (lambda: lnp.asarray(2) * (1, 2), TypeError, "not multiplied by a tuple"),
    ],
)
def test_what_no_array_is_made_of_is_refused(call, error, match):
    with pytest.raises(error, match=match):
        call()


# --- numbers ---


def test_bounds_of_integers_may_be_numpys_floats():
    x = np.array([3, 0, -1, 5], np.int32)
    for low in (0.5, np.float32(0.5), np.float64(0.5)):
        got = lnp.clip(x, low, 2)
        assert got.dtype == "float32" and got.tolist() == [2, 0.5, 0.5, 2]
        assert lm.jit(lambda x, low: lnp.clip(x, low, 2))(x, low).tolist() == [2, 0.5, 0.5, 2]
    assert lnp.clip(np.array([3, 250], np.uint8), np.int64(-1), np.int64(300)).tolist() == [3, 250]


@pytest.mark.parametrize("exponent", [-1, -2.5, 1j, 1 - 1j, -1 + 1j])
def test_complex_zero_to_a_power_that_is_not_positive(exponent):
    zero = np.array([0j, 0j])
    exponents = np.array([exponent, exponent], complex)
    want = [exponent.real > 0] * 2
    for got in (lnp.power(zero, exponents), lnp.asarray(zero) ** exponents, lax.pow(zero, exponents)):
        assert (np.isfinite(got.numpy()) == want).all()
        np.testing.assert_array_equal(got.numpy()[want], 0)


def test_norms_of_nothing_are_zero():
    nothing = np.zeros((0, 3), np.float32)
    for order in (1, 2, np.inf, "fro", "nuc"):
        assert lnp.linalg.norm(nothing, order).item() == 0
    assert lnp.linalg.norm(nothing[:, 0], np.inf).item() == 0
    assert lnp.linalg.norm(nothing, np.inf, axis=0).tolist() == [0, 0, 0]
    with pytest.raises(ValueError, match="minimum of no elements"):
        lnp.linalg.norm(nothing, -np.inf)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8", "bool", "complex64"])
@pytest.mark.parametrize("shape", [(0,), (1,), (50,), (5, 7)])
def test_unique_is_numpys_with_every_choice_of_results(dtype, shape):
    x = np.random.default_rng(0).integers(0, 6, shape).astype(dtype)
    if x.dtype.kind in "fc" and x.size > 6:
        x.flat[[0, 1, 2, -1]], x.flat[[3, 4]], x.flat[-2] = np.nan, [-0.0, 0.0], np.inf
    for index, inverse, counts, equal_nan in itertools.product((False, True), repeat=4):
        # Only with its index does NumPy sort stably: of equal ones the first.
        want = list(np.unique(x, True, inverse, counts, equal_nan=equal_nan))
        if not index:
            del want[1]
        got = lnp.unique(x, index, inverse, counts, equal_nan=equal_nan)
        for g, w in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
            np.testing.assert_array_equal(np.asarray(g), w, strict=w.dtype != np.int64)
            if w.dtype.kind == "f":
                same = ~np.isnan(w)
                np.testing.assert_array_equal(np.signbit(np.asarray(g))[same], np.signbit(w)[same])


@pytest.mark.parametrize("name", ["arctan2", "copysign", "heaviside", "hypot", "nextafter"])
def test_functions_of_two_real_numbers_take_no_complex_ones(name):
    z = X * 1j
    for pair in ((z, z), (z, X), (X, z), (2.0, z), (X, 1j)):
        with pytest.raises(TypeError):
            getattr(np, name)(*pair)
        with pytest.raises(TypeError, match=f"{name} is not defined for complex"):
            getattr(lnp, name)(*pair)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "uint32", "int8"])
def test_large_integers_that_differ_by_one_are_not_close(dtype):
    top = np.iinfo(dtype).max
    x = np.array([top, top - 1, top // 2 + 2, np.iinfo(dtype).min], dtype)
    y = np.array([top - 1, top - 1, top // 2 + 1, top], dtype)
    assert lnp.isclose(x, y, 0, 0).tolist() == [False, True, False, False]
    assert lnp.isclose(y, x, 0, 1).tolist() == [True, True, True, False]
    assert not lnp.allclose(x[:1], y[:1], rtol=0, atol=0.5) and not lnp.array_equal(x[:1], y[:1])
    assert lm.jit(lambda x, y: lnp.isclose(x, y))(x, y).tolist() == np.isclose(x, y).tolist()


def test_histograms_without_a_bin_have_no_counts():
    for bins in ([1.0], np.array([2.0]), []):
        for options in ({}, {"weights": X}, {"density": True}):
            counts, edges = lnp.histogram(X, bins, **options)
            assert counts.shape == np.histogram(X, bins, **options)[0].shape == (0,)
            assert edges.tolist() == list(bins)


def test_errors_name_the_type_that_a_number_has():
    for call in (lambda: ~lnp.asarray(2.5), lambda: lnp.asarray(2.5) & lnp.asarray(1.5)):
        with pytest.raises(TypeError, match="not f32"):
            call()
    with pytest.raises(TypeError, match="not c64"):
        ~lnp.asarray(1j)


REDUCING = ["sum", "mean", "max", "argmax", "median", "any", "count_nonzero"]


@pytest.mark.parametrize(
    "name", [*REDUCING, "expand_dims", "squeeze", "flip", "sort", "argsort", "cumsum", "diff"]
)
@pytest.mark.parametrize("error", [ValueError, IndexError])
def test_an_axis_that_is_not_there_is_an_error_of_both_kinds(name, error):
    with pytest.raises(error):
        getattr(np, name)(Y, axis=5)
    with pytest.raises(error, match="axis 5 is out of bounds"):
        getattr(lnp, name)(Y, axis=5)


def test_no_differences_are_the_array_itself():
    for x in (X, np.float32(3.0), Y):
        np.testing.assert_array_equal(
            lnp.diff(x, 0, prepend=1, append=2).numpy(), np.diff(x, 0, prepend=1, append=2)
        )


def test_the_last_bin_may_have_no_end():
    for bins in ([-np.inf, 0.5, 1.0, np.nan], [2.0, 1.0, 1.0]):
        x = np.array([1.0, -1.0, 0.0, np.inf, 2.0], np.float32)
        for right in (False, True):
            want = np.digitize(x, bins, right)
            np.testing.assert_array_equal(lnp.digitize(x, np.float32(bins), right).numpy(), want)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "float16"])
@pytest.mark.parametrize(
    "start, stop, num, endpoint",
    [
        (-2, 3, 11, True),
        (3, -2, 5, False),
        (0, 1, 11, True),
        (-1.5, 10, 24, True),
        (5, 5, 3, True),
        (0, 7, 7, False),
    ],
)
def test_linspace_has_numpys_values_to_the_last_bit(start, stop, num, endpoint, dtype):
    want, step = np.linspace(start, stop, num, endpoint, retstep=True, dtype=dtype)
    got = lnp.linspace(start, stop, num, endpoint, dtype=dtype)
    np.testing.assert_array_equal(got.numpy(), want)
    inside = lm.jit(lambda a, b: lnp.linspace(a, b, num, endpoint, retstep=True))(
        lnp.float64(start), lnp.float64(stop)
    )
    np.testing.assert_array_equal(inside[0].numpy(), np.linspace(start, stop, num, endpoint))
    assert inside[1].item() == step
    slopes = lm.jacfwd(lambda a: lnp.linspace(a, float(stop), num, endpoint))(float(start)).numpy()
    np.testing.assert_allclose(slopes, 1 - np.arange(num) / (num - endpoint), rtol=1e-6, atol=1e-7)


def test_linspace_between_the_largest_numbers():
    top = np.finfo(np.float64).max
    assert lnp.linspace(-top, lnp.float64(top), 3).tolist() == [-top, 0, top]


def test_a_number_on_an_edge_is_in_the_bin_above():
    for dtype in (np.float32, np.float64):
        x = np.arange(-2, 3.5, 0.5, dtype=dtype)
        for range_ in ((-2, 3), (-5, 5), (-2, 2)):
            want = np.histogram(x, 10, range_)[0]
            np.testing.assert_array_equal(lnp.histogram(x, 10, range_)[0].numpy(), want)


def test_large_integers_keep_their_digits_in_padding():
    x = np.array([2147483647, 1, 4294967294], np.uint32)
    for mode in ("mean", "median", "minimum"):
        np.testing.assert_array_equal(lnp.pad(x, 2, mode).numpy(), np.pad(x, 2, mode))


def test_parts_of_complex_logarithms_stay_apart():
    z = np.array([0j, complex(-0.0, 0.0), complex(-np.inf, -1), 2j, 1000 - 1j])
    for name in ("log2", "log10"):
        with np.errstate(all="ignore"):
            want = getattr(np, name)(z)
        got = getattr(lnp, name)(z).numpy()
        np.testing.assert_allclose(got.real, want.real, rtol=1e-14)
        np.testing.assert_allclose(got.imag, want.imag, rtol=1e-14)


def test_every_complex_number_to_no_power_is_one():
    z = np.array([0, np.nan, np.inf, complex(np.nan, 1), complex(1, -np.inf), 2 - 1j])
    none = np.zeros(6, np.int8)
    assert (lnp.power(z, none).numpy() == 1).all() and (lnp.power(z, 0).numpy() == 1).all()
    slope = lm.grad(lambda b: lnp.power(2 + 0j, b).real)(0.0)
    assert slope.item() == pytest.approx(np.log(2), rel=1e-6)


@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
@pytest.mark.parametrize("dtype", ["int64", "int32", "int8"])
def test_unsigned_integers_beside_signed_ones_are_compared_exactly(name, dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    signed = np.array([low, -1, 0, high, min(high, 2**53 + 1), min(high, 2**53)], dtype)
    unsigned = np.array([0, 2**64 - 1, 2**63, high, 2**53, 2**53 + 1], np.uint64)
    for a, b in ((signed[:, None], unsigned), (unsigned, signed[:, None])):
        want = getattr(np, name)(a, b)
        np.testing.assert_array_equal(getattr(lnp, name)(a, b).numpy(), want)
        np.testing.assert_array_equal(lm.jit(getattr(lnp, name))(a, b).numpy(), want)
    assert lnp.array_equal(signed[4:], unsigned[4:]).item() == np.array_equal(signed[4:], unsigned[4:])


# --- complex elements, truth values, diagonals that are traced ---


@pytest.mark.parametrize("name", ["hypot", "arctan2", "atan2", "heaviside"])
def test_functions_of_real_numbers_refuse_complex_ones(name):
    x = np.ones(2, np.complex64)
    with pytest.raises(TypeError):
        getattr(np, name)(x, x)
    with pytest.raises(TypeError, match=r"is not defined for complex64 elements"):
        getattr(lnp, name)(x, x)
    with pytest.raises(TypeError, match=r"is not defined for complex64 elements"):
        getattr(lnp, name)(X[:2], x)


@pytest.mark.parametrize("name", ["log2", "log10"])
def test_logarithms_of_complex_zeros_and_infinities(name):
    x = np.array([0, -0.0, complex(-0.0, -0.0), np.inf, complex(0, np.inf), 2 + 1j], np.complex64)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(getattr(lnp, name)(x), getattr(np, name)(x), rtol=1e-6)


def test_bits_of_truth_values_are_counted():
    got = lnp.bitwise_count(np.array([True, False]))
    assert got.dtype == np.uint8 and got.tolist() == [1, 0]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64])
@pytest.mark.parametrize("k", [0, 2, 5, 100, -1, -4, -128])
def test_the_number_of_a_diagonal_may_be_traced(k, dtype):
    if k < np.iinfo(dtype).min:
        return
    x = np.arange(20.0).reshape(4, 5)
    for name, args in (("eye", (4, 5)), ("tri", (4, 5)), ("tril", (x,)), ("triu", (x,))):
        got = lm.jit(functools.partial(getattr(lnp, name), *args))(k=np.array(k, dtype))
        np.testing.assert_array_equal(got, getattr(np, name)(*args, k=k))


@pytest.mark.parametrize("args", [(3j,), (0, 3 + 0j), (0, 3, 1j)])
def test_arange_counts_along_the_real_numbers(args):
    with pytest.raises(ValueError, match="arange counts along the real numbers"):
        lnp.arange(*args)


# --- elements ---


def test_item_takes_a_place():
    x = np.arange(6).reshape(2, 3)
    t = lnp.asarray(x)
    for at in ((1, 2), (4,), (-1,), ((0, 1),), (np.int64(3),)):
        got = t.item(*at)
        assert type(got) is int and got == x.item(*at)
    assert lnp.array(3).item(()) == 3
    for at in ((7,), (2, 0), (1, 2, 3), (1.5,)):
        with pytest.raises((IndexError, ValueError, TypeError)) as wanted:
            x.item(*at)
        with pytest.raises(wanted.type):
            t.item(*at)


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "u8", "f4", "f8", "c8", "c16", "?"])
def test_byteswap_is_numpys(dtype):
    x = np.arange(1, 7).astype(dtype).reshape(2, 3)
    assert lnp.asarray(x).byteswap().numpy().tobytes() == x.byteswap().tobytes()
    t = lnp.asarray(x)
    t.byteswap(inplace=True)
    assert t.numpy().tobytes() == x.byteswap().tobytes() and t.byteswap().tolist() == x.tolist()


def test_elements_of_four_bits_are_seen_as_wider_ones_and_back():
    x = np.arange(-8, 8, dtype=np.int8).reshape(2, 8)
    narrow = lnp.asarray(x).astype("int4")
    j = jnp.asarray(x).astype("int4")
    for dtype in ("int8", "uint16", "uint32"):
        assert narrow.view(dtype).tolist() == j.view(dtype).tolist()
        assert narrow.view(dtype).view("int4").tolist() == x.tolist()


def test_lists_of_arrays_and_numbers_have_the_arrays_type():
    short, half, double = (lnp.ones(1, dtype=d)[0] for d in ("int16", "float16", "float64"))
    for given, dtype in (
        ([0, short], "int16"),
        ([True, short], "int16"),
        ([0.0, half], "float16"),
        ([[0, short], [short, 2.5]], "float32"),
        ([0.1, double], "float64"),
        ([lnp.array(1.0), 2], "float32"),
    ):
        got = lnp.array(given)
        assert got.dtype == dtype and not got.weak_type
    assert lnp.array([0.1, double])[0].item() == 0.1


def test_memory_of_buffers_becomes_tensors():
    assert lnp.array(bytearray(b"\x2a\xf3"), ndmin=2).tolist() == [[42, 243]]
    assert lnp.array(bytearray(b"\x2a")).dtype == np.uint8
    numbers = array.array("l", [0, 1, 2])
    assert lnp.asarray(numbers, copy=False).tolist() == lnp.asarray(numbers).tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="list cannot become a Tensor without a copy"):
        lnp.asarray([0, 1], copy=False)


def test_nothing_is_real():
    assert lnp.isrealobj(None) and not lnp.iscomplexobj(None) and lnp.iscomplexobj([1, 1j])


# --- operators, padding, covariances ---


def test_tuples_that_say_what_their_products_are():
    class Scaled(NamedTuple):
        x: object

        def __mul__(self, other):
            return Scaled(self.x * other)

        def __rmul__(self, other):
            return Scaled(other * self.x)

        def __eq__(self, other):
            return "asked"

    a, b = Scaled(lnp.ones(2)), lnp.arange(2.0)
    for product in (a * b, b * a, lm.jit(lambda a, b: b * a)(a, b)):
        assert type(product) is Scaled and product.x.tolist() == [0.0, 1.0]
    assert (b == a) == (a == b) == "asked"
    for f in (lambda: b * (1, 2), lambda: b == [1], lambda: [1] * b):
        with pytest.raises(TypeError, match="use lamina"):
            f()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16])
@pytest.mark.parametrize("name", ["gcd", "lcm"])
def test_multiples_that_do_not_fit_wrap_as_numpys(name, dtype):
    x = np.arange(256).astype(np.int8).astype(dtype)
    got = getattr(lnp, name)(x[:, None], x[None])
    np.testing.assert_array_equal(got, getattr(np, name)(x[:, None], x[None]))


def test_a_tuple_of_one_index_counts_the_elements():
    x = np.arange(8).reshape(2, 1, 4)
    assert lnp.asarray(x).item((5,)) == x.item((5,)) == 5


def test_no_element_type_is_the_default_float():
    for got in (lnp.arange(3).astype(None), lnp.astype(np.arange(3), None)):
        assert got.dtype == np.float32 and got.tolist() == [0.0, 1.0, 2.0]


def test_rounding_a_traced_number_gives_an_integer():
    for x in (2.5, 3.5, -1.234):
        got = lm.jit(round)(np.float32(x))
        assert got.dtype == np.int32 and got.item() == round(np.float32(x))
    assert type(round(lnp.asarray(2.6))) is int
    assert lm.jit(lambda x: round(x, 1))(np.float32(1.26)).item() == pytest.approx(1.3)


PADDING = {
    "constant": {"constant_values": 5},
    "edge": {},
    "linear_ramp": {"end_values": 5},
    "maximum": {"stat_length": 1},
    "mean": {"stat_length": 2},
    "median": {"stat_length": None},
    "minimum": {"stat_length": 1},
    "reflect": {"reflect_type": "odd"},
    "symmetric": {"reflect_type": "odd"},
    "wrap": {},
    "empty": {},
}


@pytest.mark.parametrize("mode", PADDING)
def test_padding_takes_the_options_of_its_mode_only(mode):
    x = np.array([3.0, 1.0, 2.0])
    got, want = lnp.pad(x, 2, mode, **PADDING[mode]), np.pad(x, 2, mode, **PADDING[mode])
    np.testing.assert_allclose(got[2:5] if mode == "empty" else got, want[2:5] if mode == "empty" else want)
    for name, value in {
        k: v for o in PADDING.values() for k, v in o.items() if k not in PADDING[mode]
    }.items():
        for f in (np.pad, lnp.pad):
            with pytest.raises(ValueError, match=name):
                f(x, 2, mode, **{name: value})


def test_covariances_are_no_integers():
    for f in (lnp.cov, lnp.corrcoef):
        with pytest.raises(ValueError, match="a float or complex type, not int32"):
            f(X, X**2, dtype="int32")
        assert f(X, X**2, dtype="float64").dtype == np.float64


def test_weights_of_a_covariance_take_part_in_its_type():
    wide = np.array([0.5, 0.25, 1.0])
    for m in (X, np.stack([X, X[::-1]])):
        got = lnp.cov(m, aweights=wide)
        assert got.dtype == "float64"
        np.testing.assert_allclose(got, np.cov(m, aweights=wide), rtol=1e-13)
        assert (
            lnp.cov(m, aweights=wide.astype("f4")).dtype
            == lnp.cov(m, aweights=wide.tolist()).dtype
            == "float32"
        )
        assert lnp.cov(m, aweights=wide, dtype="float32").dtype == "float32"
        assert lnp.cov(m * 1j, aweights=wide).dtype == "complex128"


def test_a_quarter_turn_needs_a_plane():
    with pytest.raises(ValueError, match=r"rot90 turns a plane, of which an array of shape \(3,\) has none"):
        lnp.rot90(X)
