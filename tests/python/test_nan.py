"""A NaN has no sign and no payload: whatever shows them sees the one canonical NaN, on every path."""

import jax
import lamina as lm
import lamina.numpy as lnp
import ml_dtypes
import numpy as np
import pytest
from lamina import lax

FLOATS = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}
NANS = {
    "float16": [0x7E00, 0xFE00, 0x7FFF, 0xFC01],
    "bfloat16": [0x7FC0, 0xFFC0, 0x7FFF, 0xFF81],
    "float32": [0x7FC00000, 0xFFC00000, 0x7FFFFFFF, 0xFF800001],
    "float64": [0x7FF8000000000000, 0xFFF8000000000000, 0x7FFFFFFFFFFFFFFF, 0xFFF0000000000001],
}


def bits_type(name):
    return f"uint{8 * np.dtype(FLOATS[name]).itemsize}"


def with_nans(name):
    """Numbers of both signs, infinities, and NaNs of both signs, with and without a payload."""
    numbers = np.array([0.0, -0.0, 1.5, -1.5, np.inf, -np.inf], FLOATS[name])
    nans = np.array(NANS[name], bits_type(name)).view(FLOATS[name])
    return np.concatenate([numbers, nans])


# What makes NaNs (the machine's, negative on x86) or passes them on with whatever sign they have.
MAKERS = {
    "given": lambda x, y: x,
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "negate": lambda x, y: -x,
    "negated sum": lambda x, y: -(x + y),
    "abs": lambda x, y: lnp.abs(x + y),
    "maximum": lambda x, y: lnp.maximum(x, y),
    "sqrt": lambda x, y: lnp.sqrt(x + y),
    "log": lambda x, y: lnp.log(x * y),
    "sine": lambda x, y: lnp.sin(x * y),
    "power": lambda x, y: x**y,
    "where": lambda x, y: lnp.where(x > 0, x, x - y),
    "sum": lambda x, y: lnp.broadcast_to(lnp.sum(x - y), x.shape),
    "matmul": lambda x, y: lnp.broadcast_to(x @ y, x.shape),
    "cumsum": lambda x, y: lnp.cumsum(x - y),
    "through half": lambda x, y: (x - y).astype("float16").astype(x.dtype),
    "through double": lambda x, y: (x - y).astype("float64").astype(x.dtype),
}
SHOWS = {
    "signbit": lambda z: lnp.signbit(z),
    "copysign": lambda z: lnp.copysign(lnp.ones_like(z), z),
    "bitcast": lambda z: lax.bitcast_convert_type(z, bits_type(str(z.dtype))),
    "bytes": lambda z: lax.bitcast_convert_type(z, "uint8"),
    "sorted bits": lambda z: lax.bitcast_convert_type(lnp.sort(z), bits_type(str(z.dtype))),
    "argsort": lambda z: lnp.argsort(z),
}


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("maker", MAKERS)
def test_paths_show_the_same_bits_of_nans(name, maker):
    make, x = MAKERS[maker], with_nans(name)
    a, b = (lnp.asarray(v.ravel()) for v in np.meshgrid(x, x))

    def shown(p, q):
        z = make(p, q)
        return {n: show(z) for n, show in SHOWS.items()}

    def stepwise(p, q):
        z = lnp.asarray(np.asarray(make(p, q)))  # each operation forced by itself
        return {n: show(z) for n, show in SHOWS.items()}

    want = {n: np.asarray(v) for n, v in shown(a, b).items()}
    paths = {"jit": lm.jit(shown)(a, b), "forced": stepwise(a, b)}
    if maker not in ("sum", "matmul", "cumsum"):
        lanes = lm.vmap(lambda p, q: {n: SHOWS[n](make(p, q)) for n in ("signbit", "copysign", "bitcast")})(
            a, b
        )
        paths["vmap"] = lanes
        paths["one by one"] = {
            n: lnp.stack([SHOWS[n](make(a[i], b[i])) for i in range(0, len(a), 7)])
            for n in ("signbit", "copysign", "bitcast")
        }
    for path, got in paths.items():
        for n, value in got.items():
            expected = want[n][::7] if path == "one by one" else want[n]
            np.testing.assert_array_equal(np.asarray(value), expected, err_msg=f"{path}: {n}")
    nan = np.isnan(np.asarray(make(a, b)).astype(np.float64))
    assert not want["signbit"][nan].any()
    assert (want["copysign"][nan] == 1).all()
    assert (want["bitcast"][nan] == NANS[name][0]).all()


@pytest.mark.parametrize("name", FLOATS)
def test_numbers_keep_their_signs_and_bits(name):
    x = with_nans(name)[:6]
    t = lnp.asarray(x)
    np.testing.assert_array_equal(np.asarray(lnp.signbit(t)), np.signbit(x))
    np.testing.assert_array_equal(
        np.asarray(lax.bitcast_convert_type(t, bits_type(name))), x.view(bits_type(name))
    )
    back = lax.bitcast_convert_type(lax.bitcast_convert_type(t, bits_type(name)), name)
    np.testing.assert_array_equal(np.asarray(back).view(bits_type(name)), x.view(bits_type(name)))


@pytest.mark.parametrize(
    "name", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3", "float8_e3m4", "float8_e4m3fnuz"]
)
def test_narrow_floats_show_one_nan(name):
    codes = np.arange(256, dtype=np.uint8)
    t = lax.bitcast_convert_type(lnp.asarray(codes), name)
    got = np.asarray(lm.jit(lambda x: lax.bitcast_convert_type(x, "uint8"))(t))
    nan = np.isnan(codes.view(getattr(ml_dtypes, name)).astype(np.float32))
    np.testing.assert_array_equal(got[~nan], codes[~nan])
    assert len(set(got[nan].tolist())) == 1 and nan[got[nan][0]]


def test_nans_sort_last_and_stay_in_order_whatever_their_signs():
    x = np.array([np.nan, 2, -np.nan, 1, np.nan, -np.inf], np.float32)
    assert np.asarray(lnp.argsort(lnp.asarray(x))).tolist() == [5, 3, 1, 0, 2, 4]
    assert np.asarray(lnp.argsort(lnp.asarray(-x))).tolist() == [1, 3, 5, 0, 2, 4]


def test_the_total_order_has_one_nan_above_infinity():
    text = """module { func.func public @main(%a: tensor<5xf32>) -> tensor<5xf32> {
      %r = "stablehlo.sort"(%a) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %p = stablehlo.compare LT, %x, %y, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1> }) {dimension = 0 : i64, is_stable = true} : (tensor<5xf32>) -> tensor<5xf32>
      return %r : tensor<5xf32> } }"""
    x = np.array([-np.nan, np.inf, 0.0, -0.0, -np.inf], np.float32)
    got = np.asarray(lm.stablehlo.loads(text)(lnp.asarray(x)))
    assert got[:4].tolist() == [-np.inf, 0, 0, np.inf] and np.isnan(got[4])
    assert np.signbit(got[1]) and not np.signbit(got[2])


def test_complex_functions_beside_a_nan_do_not_see_its_sign():
    for part in (np.nan, -np.nan):
        z = lnp.asarray(
            np.array([complex(np.inf, part), complex(-np.inf, part), complex(0, part)], np.complex64)
        )
        for f in (lnp.sqrt, lnp.cos, lnp.cosh, lnp.arcsin, lnp.arctan, lnp.arccosh):
            first = np.asarray(f(z)).view(np.float32)
            other = np.asarray(f(lnp.conj(z))).view(np.float32)
            number = ~np.isnan(first)
            np.testing.assert_array_equal(first[number], other[number])
            np.testing.assert_array_equal(np.signbit(first[number]), np.signbit(other[number]))


def test_arrays_that_leave_hold_nans_where_jax_has_them():
    """The exception: what leaves has a NaN in the right places, with any sign."""
    x, y = (v.ravel() for v in np.meshgrid(with_nans("float32"), with_nans("float32")))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(
            np.asarray(lnp.asarray(x) - lnp.asarray(y)), np.asarray(jax.numpy.subtract(x, y))
        )
