"""`out`: the result is written to the given array, which is returned, as in NumPy; and copies that were asked for."""

from __future__ import annotations

import inspect

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

X = np.array([[1.5, 2.5, 4.0], [0.5, 3.0, 1.0]])
CALLS = {
    "around": (X, 1),
    "round": (X, 1),
    "choose": (np.array([0, 1, 0]), [X[0], X[1]]),
    "cumsum": (X, 1),
    "cumprod": (X, 1),
    "nancumsum": (X, 1),
    "nancumprod": (X, 1),
    "einsum": ("ij,kj->ik", X, X),
    "nanpercentile": (X, 30, 0),
    "nanquantile": (X, 0.3, 0),
    "percentile": (X, 30, 0),
    "quantile": (X, 0.3, 0),
    "compress": (np.array([True, False, True]), X, 1),
    "outer": (X, X),
    "stack": ([X, X], 1),
    "take": (X, [0, 2], 1),
    "trace": (X,),
}
REDUCTIONS = {
    *[
        "sum",
        "prod",
        "max",
        "min",
        "amax",
        "amin",
        "any",
        "all",
        "mean",
        "var",
        "std",
        "ptp",
        "argmax",
        "argmin",
    ],
    *["nansum", "nanprod", "nanmax", "nanmin", "nanmean", "nanvar", "nanstd", "nanargmax", "nanargmin"],
    *["median", "nanmedian"],
}
CALLS |= {name: (X, 1) for name in REDUCTIONS}


def _tensors(args):
    return [
        lnp.array(x) if isinstance(x, np.ndarray) else [lnp.array(v) for v in x] if _arrays(x) else x
        for x in args
    ]


def _arrays(x):
    return isinstance(x, list) and isinstance(x[0], np.ndarray)


def test_every_function_with_out_is_called():
    named = [
        n for n in lnp.__all__
        if inspect.isroutine(getattr(lnp, n)) or hasattr(getattr(lnp, n), "__wrapped__")
        if "out" in inspect.signature(getattr(lnp, n)).parameters
    ]  # fmt: skip
    assert sorted(named) == sorted(CALLS)


@pytest.mark.parametrize("name", sorted(CALLS))
def test_out_is_written_and_returned(name):
    args, f, g = CALLS[name], getattr(lnp, name), getattr(np, name)
    plain = f(*_tensors(args))
    want = np.zeros(plain.shape, plain.dtype.name)
    for given in (lnp.zeros(plain.shape, plain.dtype), np.zeros(plain.shape, plain.dtype.name)):
        assert f(*_tensors(args), out=given) is given
        np.testing.assert_array_equal(np.asarray(given), np.asarray(plain))
    if plain.dtype.kind != "i":  # NumPy's positions are int64
        assert g(*args, out=want) is want
        np.testing.assert_allclose(np.asarray(plain), want, rtol=1e-14)

    def inside():
        y = lnp.zeros(plain.shape, plain.dtype)
        f(*_tensors(args), out=y)
        return y

    np.testing.assert_array_equal(np.asarray(lm.jit(inside)()), np.asarray(plain))
    with pytest.raises(ValueError, match="out has shape"):
        f(*_tensors(args), out=lnp.zeros((7, *plain.shape), plain.dtype))
    with pytest.raises(TypeError, match="out must be an array"):
        f(*_tensors(args), out=3.0)
    if plain.dtype.kind == "f":
        with pytest.raises(TypeError, match="cannot be written"):
            f(*_tensors(args), out=lnp.zeros(plain.shape, "int32"))


def test_out_by_place_by_method_and_of_a_wider_type():
    x = lnp.array([[1.0, 2.0], [3.0, 4.0]])
    y = lnp.zeros(2)
    assert lnp.sum(x, 0, None, y) is y and y.tolist() == [4, 6]
    assert x.sum(axis=1, out=y) is y and y.tolist() == [3, 7]
    tenths = lnp.full(1000, 0.1, "float32")
    wide = lnp.zeros((), "float64")
    lnp.sum(tenths, out=wide)
    np.testing.assert_allclose(wide.item(), np.sum(np.full(1000, 0.1, "f4"), out=np.zeros(())), rtol=1e-12)


def test_out_inside_transforms_reaches_the_caller():
    y = lnp.zeros(())

    @lm.jit
    def f(x, y):
        lnp.sum(x, out=y)
        return x * 2

    f(lnp.ones(3), y)
    assert y.item() == 3
    total = lm.grad(lambda x: lnp.sum(x * x, out=lnp.zeros(())))(lnp.array([1.0, 2.0]))
    assert total.tolist() == [2, 4]


def test_copies_that_are_asked_for():
    a = lnp.array([1.0, 2.0])
    b = lnp.asarray(a, copy=True)
    b[0] = 9.0
    assert a.tolist() == [1, 2] and lnp.asarray(a) is a and lnp.asarray(a, copy=False) is a
    for f in (lnp.asarray, lnp.array):
        for x in ([1.0], 1.0):
            with pytest.raises(ValueError, match="without a copy"):
                f(x, copy=False)
        with pytest.raises(ValueError, match="without a copy"):
            f(a, "float64", copy=False)


def test_integers_take_no_fractions_in_arithmetic():
    n = lnp.array([1, 2])
    for change in ("add", "subtract", "multiply", "min", "max"):
        with pytest.raises(TypeError, match="losing its fraction"):
            getattr(n.at[0], change)(1.5)
    quotient = n.at[0].divide(1.5)
    assert quotient.dtype.kind == "f" and quotient.tolist() == pytest.approx([1 / 1.5, 2])
    assert n.at[0].add(2).tolist() == [3, 2] and n.at[0].set(1.5).tolist() == [1, 2]
    assert n.at[0].power(3).tolist() == [1, 2] and n.at[0].add(np.int32(4)).tolist() == [5, 2]


def test_counts_beyond_the_whole_numbers_of_float32():
    n = (1 << 24) + 8
    counts, _ = lnp.histogram(lnp.zeros(n), bins=1, range=(-1, 1))
    assert counts.tolist() == [n]
