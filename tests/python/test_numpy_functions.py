"""lamina.numpy against NumPy, over element types and shapes."""

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

SHAPES = [(), (0,), (3,), (2, 3), (2, 3, 4)]
FLOATS = ["float32", "float64"]
INTS = ["int8", "int32", "int64", "uint8"]


def make(shape, dtype, seed=0, low=-3.0, high=3.0):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return np.asarray(rng.integers(0, 2, shape).astype(bool))
    if np.dtype(dtype).kind in "iu":
        return np.asarray(rng.integers(0 if np.dtype(dtype).kind == "u" else -5, 6, shape).astype(dtype))
    if np.dtype(dtype).kind == "c":
        return np.asarray((rng.uniform(low, high, shape) + 1j * rng.uniform(low, high, shape)).astype(dtype))
    return np.asarray(rng.uniform(low, high, shape).astype(dtype))


def check(got, want, dtype=None, rtol=None):
    got = np.asarray(got)
    want = np.asarray(want)
    assert got.shape == want.shape
    if dtype is not None:
        assert got.dtype == dtype
    if rtol is None:
        rtol = 1e-12 if got.dtype in (np.float64, np.complex128) else 2e-5
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol, equal_nan=True)


UNARY = [
    "abs",
    "arcsinh",
    "arctan",
    "cbrt",
    "ceil",
    "cos",
    "cosh",
    "deg2rad",
    "degrees",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "floor",
    "isfinite",
    "isinf",
    "isnan",
    "logical_not",
    "negative",
    "positive",
    "rad2deg",
    "radians",
    "real",
    "imag",
    "conj",
    "rint",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinc",
    "sinh",
    "square",
    "tan",
    "tanh",
    "trunc",
    "nan_to_num",
    "angle",
    "isneginf",
    "isposinf",
    "iscomplex",
    "isreal",
    "fix",
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, shape):
    for dtype in FLOATS:
        x = make(shape, dtype)
        want = getattr(np, name)(x)
        check(getattr(lnp, name)(x), want, want.dtype)


@pytest.mark.parametrize("name", ["arccos", "arcsin", "arctanh", "log1p"])
def test_unary_inside_one(name):
    x = make((7,), "float64", low=-0.99, high=0.99)
    check(getattr(lnp, name)(x), getattr(np, name)(x))


@pytest.mark.parametrize("name", ["log", "log2", "log10", "sqrt", "reciprocal", "arccosh"])
def test_unary_positive(name):
    x = make((7,), "float64", low=1.01, high=9)
    check(getattr(lnp, name)(x), getattr(np, name)(x))


@pytest.mark.parametrize("name", ["sin", "exp", "sqrt", "log", "tanh"])
def test_integers_become_floats(name):
    x = np.array([1, 2, 3])
    check(getattr(lnp, name)(x.astype("int32")), getattr(np, name)(x), np.float32)
    check(getattr(lnp, name)(x), getattr(np, name)(x), np.float64)  # 64 bits are never cut


BINARY = [
    "add",
    "subtract",
    "multiply",
    "true_divide",
    "floor_divide",
    "remainder",
    "fmod",
    "maximum",
    "minimum",
    "fmax",
    "fmin",
    "arctan2",
    "hypot",
    "logaddexp",
    "logaddexp2",
    "copysign",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
    "nextafter",
    "heaviside",
]


@pytest.mark.parametrize("shapes", [((), ()), ((0,), (1,)), ((3,), ()), ((2, 3), (3,)), ((2, 1, 4), (3, 1))])
@pytest.mark.parametrize("name", BINARY)
def test_binary(name, shapes):
    for dtype in FLOATS:
        a, b = make(shapes[0], dtype, 1), make(shapes[1], dtype, 2)
        want = getattr(np, name)(a, b)
        check(getattr(lnp, name)(a, b), want, want.dtype)


@pytest.mark.parametrize("dtype", INTS)
@pytest.mark.parametrize(
    "name",
    [
        "add",
        "subtract",
        "multiply",
        "maximum",
        "minimum",
        "floor_divide",
        "remainder",
        "fmod",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "left_shift",
        "right_shift",
        "equal",
        "less",
        "gcd",
        "lcm",
    ],
)
def test_binary_integers(name, dtype):
    a, b = make((4, 5), dtype, 1), make((5,), dtype, 2)
    if name in ("floor_divide", "remainder", "fmod"):
        b = np.where(b == 0, 1, b).astype(dtype)
    if "shift" in name:
        b = np.abs(b).astype(dtype)
    want = getattr(np, name)(a, b)
    np.testing.assert_array_equal(np.asarray(getattr(lnp, name)(a, b)), want)


def test_division_special_values():
    a = np.array([1, -1, 0, np.inf, -np.inf, np.nan, 5, -5, 7.5], np.float32)
    b = np.array([np.inf, 2, 0, 3, 3, 1, -3, 3, -2.5], np.float32)
    with np.errstate(all="ignore"):
        check(lnp.remainder(a[6:], b[6:]), np.remainder(a[6:], b[6:]))
        check(lnp.floor_divide(a[6:], b[6:]), np.floor_divide(a[6:], b[6:]))
        check(lnp.true_divide(a, b), np.true_divide(a, b))
        check(lnp.floor_divide(1.0, 0.0), np.inf)


def test_power():
    x = make((2, 3), "float64", low=0.1)
    for n in (0, 1, 2, 3, -1, -2, 7, 0.5, -1.5):
        check(lnp.power(x, n), x**n)
    i = np.array([-2, 0, 3])
    check(lnp.power(i, 5), i**5, i.dtype)
    check(lnp.power(np.array([2, 3, 4]), np.array([3, 2, 1])), [8, 9, 4])
    check(lnp.float_power(np.array([2, 3]), -1), [0.5, 1 / 3])
    with pytest.raises(ValueError, match="negative integer powers"):
        lnp.power(i, -1)


def test_frexp_ldexp_modf():
    x = np.array([0.0, 1.0, -3.5, 1e-40, 6e30, np.inf, 0.5, -1e-3], np.float32)
    m, e = lnp.frexp(x)
    wm, we = np.frexp(x)
    np.testing.assert_array_equal(np.asarray(m), wm)
    np.testing.assert_array_equal(np.asarray(e), we)
    np.testing.assert_array_equal(np.asarray(lnp.ldexp(wm[:5], we[:5])), x[:5])
    fraction, whole = lnp.modf(x)
    np.testing.assert_array_equal(np.asarray(fraction), np.modf(x)[0])
    np.testing.assert_array_equal(np.asarray(whole), np.modf(x)[1])


def test_complex():
    z = make((3, 4), "complex64")
    for name in ("exp", "log", "sqrt", "sin", "cos", "abs", "angle", "conj", "real", "imag", "square"):
        check(getattr(lnp, name)(z), getattr(np, name)(z), rtol=1e-4)
    check(lnp.power(z, 3), z**3, rtol=1e-4)
    check(lnp.var(z), np.var(z), np.float32, rtol=1e-4)
    check(lnp.sum(z, 0), z.sum(0), rtol=1e-4)


AXES = {
    (): [None],
    (0,): [None, 0],
    (3,): [None, 0, -1],
    (2, 3): [None, 0, -1, (0, 1)],
    (2, 3, 4): [None, 1, (0, 2), (-1, 0)],
}
REDUCTIONS = [
    "sum",
    "prod",
    "mean",
    "var",
    "std",
    "any",
    "all",
    "nansum",
    "nanprod",
    "count_nonzero",
    "max",
    "min",
    "ptp",
    "nanmax",
    "nanmin",
    "nanmean",
    "nanvar",
    "nanstd",
    "median",
    "nanmedian",
]
NEEDS_ELEMENTS = {"max", "min", "ptp", "nanmax", "nanmin", "median", "nanmedian"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, shape):
    for dtype in FLOATS:
        x = make(shape, dtype)
        if name.startswith("nan") and x.size > 2:
            x.reshape(-1)[1] = np.nan
        for axis in AXES[shape]:
            if 0 in shape and name in NEEDS_ELEMENTS:
                with pytest.raises(ValueError, match="no elements"):
                    getattr(lnp, name)(x, axis)
                continue
            for keepdims in (False, True):
                check(
                    getattr(lnp, name)(x, axis=axis, keepdims=keepdims),
                    getattr(np, name)(x, axis=axis, keepdims=keepdims),
                    rtol=2e-5 if dtype == "float32" else 1e-12,
                )


def test_reduction_types():
    assert lnp.sum(np.ones(3, bool)).dtype == "int32"
    assert lnp.sum(np.ones(3, np.int8)).dtype == "int64"  # as in NumPy, so that sums do not wrap
    assert lnp.sum(np.ones(3, np.uint8)).dtype == "uint64"
    assert lnp.sum(np.ones(3, np.int64)).dtype == "int64"
    assert (
        lnp.mean(np.ones(3, np.int64)).dtype == "float64"
        and lnp.mean(np.ones(3, np.int32)).dtype == "float32"
    )
    assert lnp.sum(np.ones(5000, np.float16)).item() == 5000
    assert lnp.mean(lnp.ones(3, "bfloat16")).dtype == "bfloat16"
    check(lnp.max(np.array([1, 5, 2], np.int8)), 5, np.int8)
    check(lnp.max(np.array([True, False])), True)
    check(lnp.sum(np.arange(4.0), where=np.array([True, False, True, True]), initial=10), 15)
    check(
        lnp.average(np.arange(6.0).reshape(2, 3), 1, np.array([1.0, 2, 3])),
        np.average(np.arange(6.0).reshape(2, 3), 1, [1, 2, 3]),
    )


@pytest.mark.parametrize("name", ["argmax", "argmin", "nanargmax", "nanargmin"])
def test_arg_extrema(name):
    x = make((3, 4, 5), "float32").round()
    for axis in (None, 0, 1, -1):
        np.testing.assert_array_equal(np.asarray(getattr(lnp, name)(x, axis)), getattr(np, name)(x, axis))
    x[1, 2] = np.nan
    x[1, 3, 1:3] = np.nan
    if not name.startswith("nan"):
        for axis in (None, 0, -1):
            np.testing.assert_array_equal(np.asarray(getattr(lnp, name)(x, axis)), getattr(np, name)(x, axis))
    for v in ([-np.inf, -np.inf], [np.inf, np.inf], [0.0, -0.0]):
        assert getattr(lnp, name)(np.array(v)).item() == getattr(np, name)(v)
    assert lnp.argmax(np.array([-128, -128], np.int8)).item() == 0
    assert lnp.argmax(np.array([False, True])).item() == 1
    with pytest.raises(ValueError, match="no elements"):
        getattr(lnp, name)(np.zeros((0, 2), np.float32), 0)


@pytest.mark.parametrize("shape", [(0,), (1,), (3,), (2, 3), (2, 3, 4), (37,)])
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "nancumsum", "nancumprod"])
def test_cumulative(name, shape):
    for dtype in ("float64", "int32", "bool"):
        x = make(shape, dtype, low=0.5, high=1.5)
        for axis in (None, 0, -1):
            check(getattr(lnp, name)(x, axis), getattr(np, name)(x, axis))


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_cumulative_rounds_as_numpy(name):
    """Products always, sums of up to 64 elements (of more: tests/numerics/test_running_sums.py)."""
    length, axes = (60, (0, 1)) if name == "cumsum" else (700, (None, 0, 1))
    x = np.random.default_rng(3).standard_normal((length, 30)).astype(np.float32)
    x[:, 0] = -0.0
    x[5, 1] = np.nan
    for axis in axes:
        got, want = np.asarray(getattr(lnp, name)(x, axis)), getattr(np, name)(x, axis)
        np.testing.assert_array_equal(got, want)
        assert np.array_equal(np.signbit(got[got == 0]), np.signbit(want[want == 0]))


@pytest.mark.parametrize("method", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles(method):
    x = make((5, 6), "float64")
    for q in (0.0, 0.3, 1.0, [0.1, 0.5]):
        for axis in (None, 0, (0, 1)):
            check(lnp.quantile(x, q, axis, method=method), np.quantile(x, q, axis, method=method))
            check(
                lnp.percentile(x, np.multiply(q, 100), axis, method=method),
                np.percentile(x, np.multiply(q, 100), axis, method=method),
            )
    x[0, 1] = np.nan
    check(lnp.quantile(x, 0.3, 0), np.quantile(x, 0.3, 0))
    check(lnp.nanquantile(x, 0.3, 0), np.nanquantile(x, 0.3, 0))


def test_differences():
    x = make((4, 5), "float64")
    for axis in (0, 1):
        check(lnp.diff(x, axis=axis), np.diff(x, axis=axis))
        check(lnp.diff(x, 2, axis, prepend=0), np.diff(x, 2, axis, prepend=0))
        check(lnp.trapezoid(x, axis=axis), np.trapezoid(x, axis=axis))
    for got, want in zip(lnp.gradient(x), np.gradient(x), strict=False):
        check(got, want)
    at = np.array([0.0, 1, 3, 4])
    check(lnp.gradient(x, at, axis=0), np.gradient(x, at, axis=0))
    check(lnp.ediff1d(x, to_begin=0.0), np.ediff1d(x, to_begin=0.0))
    check(lnp.cov(x), np.cov(x))
    check(lnp.corrcoef(x), np.corrcoef(x))


def test_logic_of_arrays():
    a = np.array([1.0, np.inf, -np.inf, np.nan, 1 + 1e-9, 2])
    b = np.array([1.0, np.inf, np.inf, np.nan, 1, np.inf])
    np.testing.assert_array_equal(np.asarray(lnp.isclose(a, b)), np.isclose(a, b))
    np.testing.assert_array_equal(
        np.asarray(lnp.isclose(a, b, equal_nan=True)), np.isclose(a, b, equal_nan=True)
    )
    assert lnp.allclose(a[:2], b[:2]) and not lnp.allclose(a, b)
    assert (
        lnp.array_equal(a[:2], b[:2])
        and not lnp.array_equal(a, b[:2])
        and lnp.array_equiv(np.ones((2, 3)), 1.0)
    )
    check(lnp.where(a > 1, a, 0.0), np.where(a > 1, a, 0.0))
    check(lnp.select([a > 1, a < 1], [1, 2], 3), np.select([a > 1, a < 1], [1, 2], 3))
    check(lnp.clip(a, 0.0, 1.5), np.clip(a, 0.0, 1.5))


def test_dtypes():
    for a in ("bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64"):
        assert lnp.promote_types(a, a) == a
        assert lnp.can_cast(a, a)
    assert lnp.promote_types("int64", "float32") == "float32"
    assert lnp.promote_types("uint8", "int8") == "int16"
    assert lnp.result_type(lnp.ones(2), 3) == "float32" and lnp.result_type(np.ones(1, np.int8), 2) == "int8"
    assert lnp.issubdtype("float32", lnp.floating) and lnp.issubdtype(np.int8, np.integer)
    assert not lnp.issubdtype("int8", lnp.floating)
    for d in ("float16", "float32", "float64"):
        for k in ("eps", "max", "min", "tiny", "bits", "nmant", "smallest_subnormal", "maxexp", "minexp"):
            assert getattr(lnp.finfo(d), k) == getattr(np.finfo(d), k), (d, k)
    assert lnp.finfo("bfloat16").eps == 2**-7
    for d in ("int8", "uint8", "int64", "uint64"):
        assert (lnp.iinfo(d).min, lnp.iinfo(d).max) == (np.iinfo(d).min, np.iinfo(d).max)


@pytest.mark.parametrize("name", ["max", "min", "ptp", "rint", "exp2", "sinc", "arcsinh", "arccos", "cosh"])
def test_complex_elements(name):
    z = make((3, 4), "complex128", low=-2)
    z[1, :] = z[0, :].real + 1j * z[1, :].imag  # ties of real parts
    check(getattr(lnp, name)(z), getattr(np, name)(z), "complex128")


def test_extremum_of_complex_elements_with_nan():
    z = np.array([1 + 2j, complex(np.nan, 1), 3 + 0j])
    assert np.isnan(np.asarray(lnp.max(z))) and np.isnan(np.asarray(lnp.min(z)))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("bins", [[0.25, 0.5], [0.5, 0.25], [1.0, 1.0]])
def test_digitize_at_the_edges(bins, right):
    x = np.array([0.1, 0.25, 0.3, 0.5, 1.0])
    check(lnp.digitize(x, bins, right), np.digitize(x, bins, right))


def test_shapes_given_as_arrays():
    for shape in (np.array([2, 3]), lnp.array([2, 3])):
        assert lnp.zeros(shape).shape == lnp.reshape(lnp.arange(6), shape).shape == (2, 3)
    with pytest.raises(TypeError, match="a shape is an integer"):
        lnp.zeros(np.array([[2, 3]]))


def test_errors_in_words():
    with pytest.raises(ValueError, match=r"\(2, 3\).*\(4,\)|do not broadcast"):
        lnp.floor_divide(np.ones((2, 3)), np.ones(4))
    with pytest.raises(ValueError, match="axis 5 is out of bounds"):
        lnp.sum(np.ones(3), axis=5)
    with pytest.raises(ValueError, match="repeated"):
        lnp.sum(np.ones((3, 3)), axis=(0, 0))
    with pytest.raises(TypeError, match="complex"):
        lnp.cbrt(np.ones(2, np.complex64))
    with pytest.raises(TypeError, match="not an element type"):
        lnp.zeros(3, dtype="float31")
    with pytest.raises(ValueError, match="both x and y"):
        lnp.where(True, 1)


def test_every_name_is_documented():
    for name in lnp.__all__:
        value = getattr(lnp, name)
        if callable(value) and not isinstance(value, str):
            assert value.__doc__, name
    assert len(lnp.__all__) >= 300


def test_arrays_like_what_has_a_shape_and_an_element_type():
    for described in (lm.ShapeDtype((2, 3), "float16"), lm.eval_shape(lambda: lnp.ones((2, 3), "float16"))):
        for f, value in ((lnp.zeros_like, 0), (lnp.ones_like, 1), (lnp.empty_like, 0)):
            got = f(described)
            assert got.shape == (2, 3) and got.dtype == "float16" and (np.asarray(got) == value).all()
        got = lnp.full_like(described, 7, dtype="int8", shape=(4,))
        assert got.tolist() == [7, 7, 7, 7] and got.dtype == "int8"
    assert lm.tree.tree_map(lnp.zeros_like, {"w": lm.ShapeDtype((1,), "int32")})["w"].tolist() == [0]


@pytest.mark.parametrize("item", [1, 5, 2.0, None, "abc", "", np.array([1, 9]), True], ids=repr)
def test_what_an_array_contains_is_numpys(item):
    for values in (np.arange(4), np.array([[1, 2], [3, 4]]), np.zeros(0), np.array([True])):
        try:
            want = item in values
        except ValueError:
            continue
        assert (item in lnp.asarray(values)) is bool(want), values


@pytest.mark.parametrize("kind", ["c8", "c16"])
def test_products_of_complex_numbers_begin_with_the_first(kind):
    z = np.array([[complex(np.inf, 2), 1], [1 + 2j, complex(0, -np.inf)], [3, -1j]], kind)
    with np.errstate(invalid="ignore"):
        for axis in (0, 1, None):
            np.testing.assert_array_equal(lnp.cumprod(z, axis), np.cumprod(z, axis))
        np.testing.assert_array_equal(
            lm.lax.cumprod(lnp.asarray(z), 0, reverse=True), np.cumprod(z[::-1], 0)[::-1]
        )
        np.testing.assert_array_equal(
            lnp.cumulative_prod(z[0], include_initial=True), np.concatenate([[1], z[0].cumprod()])
        )
    assert lnp.cumprod(z[:0], 0).shape == (0, 2)
    w = np.array([1 + 2j, 2 - 1j, 0.5j], kind)
    for f in (lm.jit(lnp.cumprod), lambda x: lm.vmap(lnp.cumprod)(x[None])[0]):
        np.testing.assert_allclose(f(w), w.cumprod(), rtol=1e-6)
    slope = lm.grad(lambda x: lnp.sum(lnp.abs(lnp.cumprod(x)) ** 2))(lnp.asarray(w))
    sizes = np.cumprod(np.abs(w.astype("c16")) ** 2)
    parts = [2 * sum(sizes[k:]) / abs(w[k]) ** 2 * w[k].conj() for k in range(3)]
    np.testing.assert_allclose(slope, parts, rtol=1e-5)


def test_counts_of_complex_numbers_are_real():
    z = np.array([1 + 1j, 2, 3, 3])
    counts, edges = lnp.histogram(z, bins=3)
    assert counts.dtype == np.float64 and counts.tolist() == [1, 1, 2] and edges.dtype == np.complex128
    assert lnp.histogramdd(z[:, None], bins=3)[0].tolist() == [1, 1, 2]
    assert lnp.histogram(np.arange(4.0), 2, weights=z)[0].tolist() == [3 + 1j, 6]


def test_the_polynomial_without_zeros_is_one():
    for empty in ([], np.zeros(0, "f4"), np.zeros(0, complex)):
        got, want = lnp.poly(empty), np.poly(empty)
        assert got.shape == np.shape(want) == () and got == want


def test_choices_that_are_not_there():
    for f in (np.choose, lnp.choose):
        with pytest.raises(ValueError, match="entry"):
            f(np.array([0, 2]), [np.arange(2), np.arange(2)])


def test_windows_move_on():
    x, w = np.ones((1, 1, 3, 3), "f4"), np.ones((1, 1, 2, 2), "f4")
    for padding in ("SAME", "VALID", [(0, 0), (0, 0)]):
        with pytest.raises(ValueError, match="stride"):
            lm.lax.conv_general_dilated(x, w, (0, 1), padding)
        with pytest.raises(ValueError, match="stride"):
            lm.lax.reduce_window(x[0, 0], 0.0, lm.lax.add, (2, 2), (1, 0), padding)


@pytest.mark.parametrize("kind", ["f2", "f4", "f8"])
def test_rounding_to_more_digits_than_there_are(kind):
    most = np.finfo(kind).max
    x = np.array([1.5, -0.0, 0.1234, most, -most, 3e4, np.inf, np.nan], kind)
    for decimals in (2, 5, 40, 310, 10**30):
        got = lnp.round(x, decimals)
        want = np.array([round(float(v), min(decimals, 400)) if np.isfinite(v) else v for v in x])
        np.testing.assert_allclose(got, want.astype(kind), rtol=2 * np.finfo(kind).eps)
        if decimals != 5:  # of which a float16 has no power of ten
            np.testing.assert_array_equal(np.signbit(got.numpy()[:2]), [False, True])
    for decimals in (-5, -50, -(10**30)):
        np.testing.assert_array_equal(lnp.round(np.array([1.5, -3.0], kind), decimals), [0, 0])
    assert lm.grad(lambda v: lnp.round(v, 3))(float(np.finfo("f4").max)) == 0


@pytest.mark.parametrize(
    ("f", "kind"),
    [
        (lambda: lnp.linalg.eigh(np.eye(2), UPLO=1), ValueError),
        (lambda: lnp.trim_zeros(np.zeros(2), 3), ValueError),
        (lambda: lnp.trim_zeros(np.zeros(2), "x"), ValueError),
        (lambda: lm.lax.fft(np.ones(3), 0, (3,)), TypeError),
        (lambda: lm.lax.padtype_to_pads((3,), (2,), (1,), 2.5), ValueError),
        (lambda: lm.scipy.special.multigammaln(3.0, 10**30), ValueError),
        (lambda: lm.tree_util.tree_unflatten([], []), TypeError),
        (lambda: lm.tree_util.treedef_children(3), TypeError),
        (lambda: lm.tree_util.treedef_is_leaf(()), TypeError),
        (lambda: lm.tree_util.treedef_tuple([1]), TypeError),
        (lambda: lm.tree_util.tree_transpose(1, None, [1]), TypeError),
    ],
)
def test_arguments_of_another_kind(f, kind):
    with pytest.raises(kind):
        f()


@pytest.mark.machine_code
def test_slopes_are_one_kernel_for_each_axis():
    x = make((40, 30), "float32")
    f = lm.jit(lambda x: lnp.gradient(x, 0.7, 3))
    for got, want in zip(f(x), np.gradient(x, np.float32(0.7), np.float32(3)), strict=True):
        np.testing.assert_array_equal(got, want)
    assert f.lower(x).compile().as_text("kernels").count("kernel 1 ") == 2
    np.testing.assert_array_equal(lnp.gradient(x[:2], axis=0), np.gradient(x[:2], axis=0))


@pytest.mark.parametrize("bitorder", ["big", "little"])
def test_bits_of_bytes(bitorder):
    for x in (make((3, 801), "bool"), make((24, 5), "int64"), make((0, 3), "bool")):
        for axis in (None, 0, 1):
            want = np.packbits(x, axis, bitorder)
            for pack in (lnp.packbits, lm.jit(lnp.packbits, static_argnums=(1, 2))):
                got = np.asarray(pack(x, axis, bitorder))
                assert got.dtype == np.uint8
                np.testing.assert_array_equal(got, want)
            for count in (None, want.shape[axis or 0], 0):
                bits = np.unpackbits(want, axis, count, bitorder)
                for unpack in (lnp.unpackbits, lm.jit(lnp.unpackbits, static_argnums=(1, 2, 3))):
                    got = np.asarray(unpack(want, axis, count, bitorder))
                    assert got.dtype == np.uint8
                    np.testing.assert_array_equal(got, bits)


@pytest.mark.parametrize("places", [1, 0.5, [0.0, 1.0, 3.0, 3.5, 7.0]])
def test_slopes_at_the_ends_may_be_those_of_parabolas(places):
    x = np.array([[1.0, 2.0, 4.5, 8.0, -3.0], [0.5, 0.0, 1.0, 7.0, 2.0]])
    for edge_order in (1, 2):
        f = lambda x: lnp.gradient(x, places, axis=1, edge_order=edge_order)  # noqa: E731, B023
        want = np.gradient(x, places, axis=1, edge_order=edge_order)
        for g in (f, lm.jit(f)):
            np.testing.assert_allclose(g(x), want, rtol=1e-14)
        np.testing.assert_allclose(lm.jvp(f, (x,), (x,))[1], want, rtol=1e-14)  # it is linear
    for bad, error in ((3, ValueError), ("2", ValueError)):
        with pytest.raises(error, match="edge_order 1 or 2"):
            lnp.gradient(x, edge_order=bad)
    with pytest.raises(ValueError, match="at least 3 elements along axis 0, not 2"):
        lnp.gradient(x, edge_order=2)
    with pytest.raises(TypeError, match="no spacing, one, or 2, not 3"):
        lnp.gradient(x, 1.0, 2.0, 3.0)
