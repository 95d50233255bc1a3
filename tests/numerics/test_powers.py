"""Powers of halves: short code where the exponent is known, and the bits of any other way to the same power."""

import math

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import _core

EXPONENTS = [-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0]


def arguments(dtype):
    """Bases of every size, near 1, negative ones, and all that is special."""
    rng = np.random.default_rng(3)
    info = np.finfo(dtype)
    any_size = np.exp2(rng.uniform(info.minexp - info.nmant, info.maxexp - 0.01, 3000))
    near = 1 + 0.3 * rng.standard_normal(1000)
    edges = [2.0**n * f for n in (-300, -64, -50, 62, 80, 300) for f in (1, 1 - 2**-20, 1 + 2**-20)]
    special = [0.0, 1.0, np.inf, np.nan, info.tiny, info.smallest_subnormal, info.max, 3.0]
    with np.errstate(over="ignore", under="ignore"):
        positive = np.concatenate([any_size, near, edges, special]).astype(dtype)
    return np.concatenate([positive, -positive[::3], -np.asarray(special, dtype)])


def same_bits(a, b):
    assert a.dtype == b.dtype
    both_nan = np.isnan(a) & np.isnan(b)
    bits = f"u{a.dtype.itemsize}"
    np.testing.assert_array_equal(a.view(bits)[~both_nan], b.view(bits)[~both_nan])
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))


@pytest.fixture
def tier(request):
    compiling = request.param == "compiled"
    _core.set_compiling(compiling)
    _core.set_eager_compile(compiling)
    lm.cache.clear()
    yield
    _core.set_compiling(True)
    _core.set_eager_compile(False)


@pytest.mark.parametrize("tier", ["compiled", "interpreted"], indirect=True)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("y", EXPONENTS)
@pytest.mark.usefixtures("tier")
def test_one_power_however_its_exponent_comes(y, dtype):
    x = lnp.asarray(arguments(dtype))
    number = np.asarray(lm.jit(eval(f"lambda x: x ** {y}"))(x))
    plain = np.asarray(x**y)
    free = np.asarray(lm.jit(lambda x: x**y)(x))
    argument = np.asarray(lm.jit(lambda x, y: x**y)(x, np.asarray(y, dtype)))
    exponents = np.where(np.arange(x.size) % 3 == 1, 2.2, y).astype(dtype)
    among_others = np.asarray(lm.jit(lnp.power)(x, exponents))[np.arange(x.size) % 3 != 1]
    one_by_one = np.asarray(lm.jit(lm.vmap(lambda x: x**y))(x))
    for other in (plain, free, argument, one_by_one):
        same_bits(number, other)
    same_bits(number[np.arange(x.size) % 3 != 1], among_others)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("y", EXPONENTS)
def test_to_half_a_unit_and_as_the_standard_says(y, dtype):
    x = arguments(dtype)
    got = np.asarray(lm.jit(eval(f"lambda x: x ** {y}"))(lnp.asarray(x)))
    info = np.finfo(dtype)
    wide = np.float64 if dtype == "float32" else np.longdouble
    size = np.abs(x)
    usual = (size >= 2.0**-50) & (size <= 2.0**60) & ((x > 0) | (y == int(y)))
    exact = x[usual].astype(wide) ** wide(y)
    ulp = np.spacing(np.abs(exact).astype(dtype)).astype(wide)
    assert (np.abs(got[usual].astype(wide) - exact) / ulp).max() <= 0.5005
    for base, power in zip(x[~usual], got[~usual], strict=True):
        infinity = math.copysign(math.inf, base) if y == -1.0 else math.inf
        try:
            want = math.pow(base, y)
        except ValueError:  # of a negative number; and 0 to a negative one
            want = infinity if base == 0 else math.nan
        except OverflowError:
            want = infinity
        with np.errstate(over="ignore", under="ignore"):
            want = np.asarray(want, dtype)
        np.testing.assert_allclose(power, want, rtol=4 * info.eps, atol=info.smallest_subnormal)
        if not np.isnan(want):
            assert np.signbit(power) == np.signbit(want), (base, y)


@pytest.mark.parametrize("y", [-1.5, -0.5, 0.5, 1.5, 2.0])
def test_derivatives(y):
    x = np.linspace(0.1, 3, 50)
    f = eval(f"lambda x: x ** {y}")
    first = np.asarray(lm.vmap(lm.grad(f))(lnp.asarray(x)))
    second = np.asarray(lm.vmap(lm.grad(lm.grad(f)))(lnp.asarray(x)))
    np.testing.assert_allclose(first, y * x ** (y - 1), rtol=1e-14)
    np.testing.assert_allclose(second, y * (y - 1) * x ** (y - 2), rtol=1e-14)
