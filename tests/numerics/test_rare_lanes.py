"""Arguments that take the rare path of a function, at any place of rows of any length, in both tiers."""

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import _core


@pytest.fixture
def tiers():
    """Runs a function compiled and interpreted; the results."""

    def run(f, x):
        results = []
        for compiling in (True, False):
            _core.set_compiling(compiling)
            _core.set_eager_compile(compiling)
            lm.cache.clear()
            results.append(np.asarray(lm.jit(f)(x)))
        return results

    yield run
    _core.set_compiling(True)
    _core.set_eager_compile(False)


FUNCTIONS = {
    "sin": lambda x: lnp.sin(x),
    "tan": lambda x: lnp.tan(x),
    "chain": lambda x: lnp.sin(lnp.cos(lnp.sin(x) * 1e10) * x) + lnp.tan(x),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_rare_arguments_at_any_place(tiers, name, dtype):
    rng = np.random.default_rng(7)
    most = 6e4 if dtype == "float16" else 1e30
    for length in [*range(1, 20), 31, 32, 33, 63, 64, 65, 130]:
        x = rng.normal(size=(3, length)).astype(dtype)
        rare = rng.random(x.shape) < 0.3
        x[rare] = np.array([most, -most, np.inf, np.nan])[rng.integers(0, 4, rare.sum())]
        compiled, interpreted = tiers(FUNCTIONS[name], lnp.asarray(x))
        np.testing.assert_array_equal(compiled, interpreted)
        if name == "sin":
            ordinary = np.isfinite(x) & (np.abs(x) < 10)
            want = np.sin(x[ordinary].astype(np.float64))
            np.testing.assert_allclose(compiled[ordinary], want, rtol=2e-3 if dtype == "float16" else 1e-6)
            assert np.isnan(compiled[~np.isfinite(x)]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["log", "log1p", "log2"])
def test_logarithms_of_unusual_numbers_at_any_place(tiers, name, dtype):
    rng = np.random.default_rng(8)
    least, most = np.finfo(dtype).tiny, np.finfo(dtype).max
    unusual = np.array(
        [0, -0.0, -1, -least, least, least / 2, least / 512, most, -most, np.inf, -np.inf, np.nan]
    )
    for length in (1, 7, 16, 33, 65, 130):
        x = rng.uniform(0.1, 9, (3, length)).astype(dtype)
        chosen = rng.random(x.shape) < 0.3
        x[chosen] = unusual[rng.integers(0, len(unusual), chosen.sum())]
        compiled, interpreted = tiers(getattr(lnp, name), lnp.asarray(x))
        np.testing.assert_array_equal(compiled, interpreted)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(compiled, getattr(np, name)(x), rtol=4 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["exp", "exp2", "sinh", "cosh"])
def test_powers_from_subnormal_to_infinite(tiers, name, dtype):
    end = 1100 if dtype == "float64" else 160
    x = np.concatenate([np.linspace(-end, end, 20_011), [0, -0.0, np.inf, -np.inf, np.nan]]).astype(dtype)
    compiled, interpreted = tiers(getattr(lnp, name), lnp.asarray(x))
    np.testing.assert_array_equal(compiled, interpreted)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x.astype(np.longdouble)).astype(dtype)
    least = np.finfo(dtype).smallest_subnormal
    np.testing.assert_allclose(compiled, want, rtol=2 * np.finfo(dtype).eps, atol=least)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])
def test_large_and_negative_integer_exponents_at_any_place(tiers, dtype):
    rng = np.random.default_rng(9)
    bits = 8 * np.dtype(dtype).itemsize
    for length in (1, 7, 8, 33, 130):
        x = rng.integers(-5, 6, (2, 3, length)).astype(dtype)
        y = rng.integers(0, 64, x.shape).astype(dtype)
        y[0][:, rng.random(length) < 0.2] = np.array(-1).astype(dtype)
        rare = rng.random(y.shape) < 0.2
        y[rare] = np.array([64, 65, 100, 127, -2, -7]).astype(dtype)[rng.integers(0, 6, rare.sum())]

        def power(base: int, exponent: int) -> int:
            if exponent < 0:
                return {1: 1, -1: 1 if exponent % 2 == 0 else -1}.get(base, 0)
            value = pow(base, exponent, 1 << bits)
            return value - (1 << bits) if np.dtype(dtype).kind == "i" and value >> (bits - 1) else value

        want = np.array([power(int(a), int(b)) for a, b in zip(x.flat, y.flat)], dtype).reshape(x.shape)
        for got in tiers(lambda z: z[0] ** z[1], np.stack([x, y])):
            np.testing.assert_array_equal(got, want)


def test_strided_and_broadcast_rows(tiers):
    rng = np.random.default_rng(8)
    x = rng.normal(size=(37, 5)).astype(np.float32)
    x[rng.random(x.shape) < 0.2] = 1e20

    def f(x):
        column = lnp.sin(x[:, 1:2])
        return lnp.transpose(lnp.sin(lnp.sin(x) * column), (1, 0)), lnp.cos(x[::2, ::-2]) + 1.0

    for pick in (0, 1):
        compiled, interpreted = tiers(lambda x, pick=pick: f(x)[pick], lnp.asarray(x))
        np.testing.assert_array_equal(compiled, interpreted)
