"""The array API: what the namespace says of itself, devices, copies, and the signs of zeros and infinities that the
standard and NumPy ask for.
"""

from __future__ import annotations

import cmath
import contextlib
import math

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest


def test_the_namespace_says_what_it_can_do():
    info = lnp.ones(2).__array_namespace__().__array_namespace_info__()
    assert info.capabilities() == {
        "boolean indexing": True,
        "data-dependent shapes": True,
        "max dimensions": None,
    }
    assert lnp.zeros((1,) * 70).ndim == 70
    assert info.default_device() in info.devices() == lm.devices() and lnp.ones(2).device in info.devices()
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert set(info.dtypes(kind=("bool", "unsigned integer"))) == {
        "bool",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
    }
    assert set(info.dtypes()) == set(np.__array_namespace_info__().dtypes())
    defaults = info.default_dtypes()
    assert defaults["real floating"] == lnp.array(1.0).dtype and defaults["integral"] == lnp.array(1).dtype
    assert defaults["indexing"] == lnp.argmax(lnp.ones(2)).dtype
    with lm.default_dtypes(float="float64", int="int64"):
        inside = info.default_dtypes()
    assert [inside[k] for k in ("real floating", "complex floating", "integral")] == [
        "float64",
        "complex128",
        "int64",
    ]


X = np.arange(4.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda d: lnp.array(X, device=d),
        lambda d: lnp.asarray(X, device=d),
        lambda d: lnp.zeros(2, device=d),
        lambda d: lnp.ones(2, device=d),
        lambda d: lnp.empty(2, device=d),
        lambda d: lnp.full(2, 3.0, device=d),
        lambda d: lnp.zeros_like(X, device=d),
        lambda d: lnp.ones_like(X, device=d),
        lambda d: lnp.empty_like(X, device=d),
        lambda d: lnp.full_like(X, 2, device=d),
        lambda d: lnp.arange(3, device=d),
        lambda d: lnp.linspace(0, 1, 3, device=d),
        lambda d: lnp.eye(3, device=d),
        lambda d: lnp.astype(lnp.ones(2), "int32", device=d),
        lambda d: lnp.fft.fftfreq(4, device=d),
        lambda d: lnp.fft.rfftfreq(4, device=d),
        lambda d: lnp.from_dlpack(X, device=d),
        lambda d: lnp.ones(2).to_device(d),
    ],
)
def test_arrays_are_made_on_a_device(make):
    assert make(lnp.ones(2).device).device == lnp.ones(2).device
    with pytest.raises(ValueError, match="there is no device 'moon'"):
        make("moon")


@pytest.mark.parametrize("name", ["asarray", "asanyarray", "ascontiguousarray"])
def test_a_copy_that_is_asked_for_is_one(name):
    f = getattr(lnp, name)
    x = lnp.arange(3.0)
    y = f(x, copy=True)
    y[0] = 9
    assert x[0].item() == 0
    assert f(x) is x and f(x, copy=False) is x and f(x, copy=None) is x


def test_a_copy_that_is_refused_is_an_error():
    x = np.arange(3.0)
    assert lnp.asarray(x, copy=False).dtype == "float64"
    for make in (
        lambda: lnp.asarray(lnp.arange(3.0), "float64", copy=False),
        lambda: lnp.asarray(x, "float32", copy=False),
        lambda: lnp.asarray([1.0, 2.0], copy=False),
        lambda: lnp.asarray(2.0, copy=False),
    ):
        with pytest.raises(ValueError, match="without a copy"):
            make()


def test_a_reshaped_copy_can_be_written():
    x = lnp.arange(4.0)
    for y in (lnp.reshape(x, (2, 2), copy=True), x.reshape(2, 2, copy=True)):
        y[0, 0] = 9
        assert x[0].item() == 0
    for copy in (None, False):
        y = lnp.reshape(x, (2, 2), copy=copy)
        with pytest.raises(TypeError):  # NumPy would change x
            y[0, 0] = 9


@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64", "bool"])
def test_abs_of_what_has_no_sign(dtype):
    x = np.array([0, 1, 1], dtype)
    y = lnp.array(x)
    z = abs(y)
    assert z.dtype == dtype and z is not y
    np.testing.assert_array_equal(np.asarray(z), x)
    z[0] = 1
    assert not y[0].item()


SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.3, -0.3, 6.0, -7.0, 3.0, 1e-30, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_division_of_special_values_is_that_of_numpy(name, dtype):
    a, b = (v.ravel().astype(dtype) for v in np.meshgrid(SPECIAL, SPECIAL))
    f = getattr(lnp, name)
    with np.errstate(all="ignore"):
        want = getattr(np, name)(a, b)
    for g in (f, lm.jit(f), lm.vmap(f)):
        got = np.asarray(g(lnp.array(a), lnp.array(b)))
        np.testing.assert_array_equal(got, want)
        numbers = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(want)[numbers])


@pytest.mark.parametrize(("a", "b"), [(6.0, 3.0), (-6.0, 3.0), (6.0, -3.0), (7.5, -2.0), (0.0, 2.0)])
def test_the_rest_has_its_derivative_at_whole_quotients_too(a, b):
    by_a, by_b = lm.grad(lnp.remainder, (0, 1))(a, b)
    assert (by_a.item(), by_b.item()) == (1.0, -math.floor(a / b))
    assert [g.item() for g in lm.grad(lnp.floor_divide, (0, 1))(a, b)] == [0.0, 0.0]


def test_the_sign_of_a_complex_zero_is_zero():
    zeros = np.array([complex(a, b) for a in (0.0, -0.0) for b in (0.0, -0.0)])
    for f in (lnp.sign, lm.jit(lnp.sign)):
        got = np.asarray(f(zeros))
        assert not got.any() and not np.signbit(got.real).any() and not np.signbit(got.imag).any()


@pytest.mark.parametrize("part", [1.0, 30.0, 800.0, 1e150])
@pytest.mark.parametrize("name", ["tanh", "tan", "sinh", "cosh", "exp", "sin", "cos"])
def test_complex_functions_of_infinities_are_those_of_annex_g(name, part):
    """What C's Annex G asks for, as Python's cmath has it; where that raises, NaN, or an infinity of any sign."""
    values = [complex(s * part, t) for s in (1, -1) for t in (math.inf, -math.inf, math.nan)]
    values += [complex(z.imag, z.real) for z in values]
    got = np.asarray(getattr(lnp, name)(np.array(values)))
    with np.errstate(all="ignore"):
        want = getattr(np, name)(np.array(values))
    for z, g, w in zip(values, got, want):
        with contextlib.suppress(ValueError, OverflowError):
            w = getattr(cmath, name)(z)
        for p, q in ((g.real, w.real), (g.imag, w.imag)):
            assert abs(p) == abs(q) or (math.isnan(p) and math.isnan(q)), (z, g, w)
