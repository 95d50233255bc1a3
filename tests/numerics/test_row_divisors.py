"""Quotients by a divisor that is one for a whole row: products may stand in for them, the bits may not tell."""

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import _core


@pytest.fixture(autouse=True)
def compiled():
    _core.set_eager_compile(True)
    lm.cache.clear()
    yield
    _core.set_eager_compile(False)


def numbers(rng, count, dtype, most):
    """Of all exponents up to that; significands at random, some that few bits tell from a power of two."""
    bits = 8 * np.dtype(dtype).itemsize
    digits = np.finfo(dtype).nmant
    near = rng.integers(0, 64, count, dtype=np.uint64)
    kind = rng.integers(0, 8, count)
    random = rng.integers(0, 1 << digits, count, dtype=np.uint64)
    significand = np.select([kind == 0, kind == 1], [near, np.uint64((1 << digits) - 1) - near], random)
    exponent = (rng.integers(-most, most + 1, count) + np.finfo(dtype).maxexp - 1).astype(np.uint64)
    sign = rng.integers(0, 2, count, dtype=np.uint64) << np.uint64(bits - 1)
    made = sign | exponent << np.uint64(digits) | significand
    return made.astype(f"uint{bits}").view(dtype)


@pytest.mark.parametrize("spread", ["one", "some", "all"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_quotients_by_one_divisor_have_the_bits_of_divisions(dtype, spread):
    rng = np.random.default_rng(0)
    finfo = np.finfo(dtype)
    most = {"one": 1, "some": finfo.maxexp // 3, "all": finfo.maxexp - 2}[spread]
    rows, length = 300, 1003
    x = numbers(rng, rows * length, dtype, most).reshape(rows, length)
    y = numbers(rng, rows, dtype, most)
    with np.errstate(all="ignore"):
        # Quotients that are exact, or nearly half of a unit from it.
        products = (numbers(rng, x.size, dtype, 1).reshape(x.shape) * y[:, None]).astype(dtype)
    x = np.where(rng.random(x.shape) < 0.2, products, x)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, finfo.smallest_subnormal, 3, finfo.max], dtype)
    x[::3, : special.size] = special
    x[1::3] = np.where(rng.random(x[1::3].shape) < 0.3, np.array(0, dtype), x[1::3])
    y[: special.size] = special
    with np.errstate(all="ignore"):
        want = x / y[:, None]
    got = np.asarray(lm.jit(lambda x, y: x / y[:, None])(lnp.asarray(x), lnp.asarray(y)))
    of_numbers = ~np.isnan(want)
    assert got[of_numbers].tobytes() == want[of_numbers].tobytes()
    assert np.isnan(got[~of_numbers]).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("divisor", [3.0, -255.0, 8.0, 1e-20, 0.0, np.inf, np.nan])
def test_a_constant_divisor(dtype, divisor):
    x = numbers(np.random.default_rng(1), 5000, dtype, np.finfo(dtype).maxexp - 2)
    x[:3] = [0, -0.0, np.inf]
    with np.errstate(all="ignore"):
        want = x / np.array(divisor, dtype)
    got = np.asarray(lm.jit(lambda x: x / divisor)(lnp.asarray(x)))
    of_numbers = ~np.isnan(want)
    assert got[of_numbers].tobytes() == want[of_numbers].tobytes()
    assert np.isnan(got[~of_numbers]).all()
