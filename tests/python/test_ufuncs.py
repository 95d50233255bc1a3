"""Methods of elementwise functions and `frompyfunc`, against NumPy's; derivatives of check_grads' own kind."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax
from lamina.nn import initializers
from lamina.numpy._ufuncs import _ROWS
from lamina.test_util import check_grads, check_jvp, check_vjp

X = np.arange(12, dtype=np.float32).reshape(3, 4) + 1
INTEGERS = np.arange(12).reshape(3, 4) % 5
PAIRS = [n for n, row in _ROWS.items() if row[0] == 2]


def both(name):
    values = INTEGERS if "bitwise" in name else INTEGERS > 2 if "logical" in name else X
    return getattr(lnp, name), getattr(np, name), values


@pytest.mark.parametrize("name", PAIRS)
def test_methods_are_numpys(name):
    ours, numpys, x = both(name)
    assert isinstance(ours, lnp.ufunc) and (ours.nin, ours.nout, ours.nargs) == (2, 1, 3)
    close = lambda got, want: np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)  # noqa: E731
    for axis in (0, 1, -1, None) if name != "subtract" else (0, 1):
        close(ours.reduce(x, axis), numpys.reduce(x, axis))
    close(ours.reduce(x, 1, keepdims=True), numpys.reduce(x, 1, keepdims=True))
    close(ours.reduce(x, 0, initial=x[0, 2]), numpys.reduce(x, 0, initial=x[0, 2]))
    mask = INTEGERS % 2 == 0
    close(ours.reduce(x, 1, initial=x[0, 0], where=mask), numpys.reduce(x, 1, initial=x[0, 0], where=mask))
    close(ours.accumulate(x, 1), numpys.accumulate(x, 1))
    close(ours.outer(x, x[0]), numpys.outer(x, x[0]))
    close(ours.reduceat(x, [0, 2, 1, 1, 3], 1), numpys.reduceat(x, [0, 2, 1, 1, 3], 1))
    places, want = np.array([0, 2, 2, 0]), x.copy()
    numpys.at(want, places, x[0])
    close(ours.at(x, places, x[0], inplace=False), want)


def test_at_writes_in_place_and_repeats():
    a = lnp.array([1.0, 2.0, 3.0])
    lnp.add.at(a, [0, 0], 2.0)
    lnp.negative.at(a, [1, 1, 2])
    assert a.tolist() == [5, 2, -3]
    with pytest.raises(TypeError, match="takes 1 values"):
        lnp.add.at(a, [0])


def test_functions_of_single_elements():
    f = lambda x, y: x * 2 + y  # noqa: E731
    ours, numpys = lnp.frompyfunc(f, 2, 1, identity=0), np.frompyfunc(f, 2, 1, identity=0)
    assert (ours.nin, ours.identity, ours(1, 2).item()) == (2, 0, 4)
    for axis in (0, 1):
        np.testing.assert_allclose(ours.reduce(X, axis).numpy(), numpys.reduce(X, axis).astype(float))
        np.testing.assert_allclose(ours.accumulate(X, axis).numpy(), numpys.accumulate(X, axis).astype(float))
    assert ours.reduce(np.zeros((0, 2), np.float32)).tolist() == [0, 0]
    with pytest.raises(ValueError, match="no elements"):
        lnp.frompyfunc(f, 2, 1).reduce(np.zeros((0,), np.float32))
    first, second = lnp.frompyfunc(lambda x: (x + 1, x * x), 1, 2)(X)
    np.testing.assert_array_equal(second.numpy(), X * X)
    np.testing.assert_array_equal(first.numpy(), X + 1)
    slope = lm.grad(lambda x: ours.reduce(x, 0).sum())(X).numpy()
    np.testing.assert_array_equal(slope, np.float32([[4] * 4, [2] * 4, [1] * 4]))
    inside = lm.jit(lambda x, i: lnp.add.reduceat(x, i))(X, np.array([0, 1]))
    np.testing.assert_array_equal(inside.numpy(), np.add.reduceat(X, [0, 1]))


def test_derivatives_are_checked():
    check_grads(lnp.sin, (X[0] / 9,), 3)
    check_grads(lambda x, y: {"a": x * y, "b": (lnp.sum(x), y)}, (np.float64([1, 2]), np.float64(2)), 2)
    check_grads(lambda z: z * z * (1 + 2j), (np.complex64([1 + 1j, 2]),), 2)
    check_grads(lambda x, n: x * n, (X[0], np.int32(3)), 2)
    wrong = lm.custom_jvp(lambda x: lnp.sin(x))
    wrong.defjvp(lambda p, t: (lnp.sin(p[0]), t[0]))
    for mode in ("fwd", "rev"):
        with pytest.raises(AssertionError, match=r"jvp|vjp"):
            check_grads(wrong, (X[0],), 1, modes=[mode])
        loose = {np.float32: 10.0, np.float64: 1e-9, np.int32: 0.0}  # that of X's type holds
        check_grads(wrong, (X[0],), 1, [mode], loose, loose)
        with pytest.raises(AssertionError, match=r"jvp|vjp"):
            check_grads(wrong, (X[0],), 1, [mode], {np.float64: 10.0}, {np.float64: 10.0})
    with pytest.raises(AssertionError):
        check_jvp(lnp.sin, lambda p, t: (lnp.cos(p[0]), t[0]), (X[0],))
    with pytest.raises(AssertionError):
        check_vjp(lnp.sin, lambda x: (lnp.sin(x), lambda c: (c,)), (X[0],))
    with pytest.raises(ValueError, match="modes"):
        check_grads(lnp.sin, (X,), 1, modes=["lin"])


def test_operands_of_lax_of_size_one():
    row, column = X[:1], X[:, :1]
    for f in (lax.add, lax.pow, lax.complex, lax.nextafter, lax.atan2, lax.igamma, lax.rem):
        whole = f(np.broadcast_to(column, (3, 4)).copy(), np.broadcast_to(row, (3, 4)).copy())
        np.testing.assert_array_equal(f(column, row).numpy(), whole.numpy())
    with pytest.raises(TypeError, match="one rank"):
        lax.add(X, X[0])


def test_products_of_lax_promote():
    a, b = X.astype(np.float16), X.T.copy()
    assert lax.dot(a, b).dtype == "float32"
    truth = np.array([[True, False], [False, False]])
    got = lax.dot_general(truth, truth, (((1,), (0,)), ((), ())))
    assert got.dtype == "bool" and got.tolist() == (truth @ truth).tolist()


@pytest.mark.parametrize("distribution", ["uniform", "normal", "truncated_normal"])
def test_complex_parameters(distribution):
    import jax

    key = [0, 7]
    ours = initializers.variance_scaling(2.0, "fan_in", distribution, dtype="complex64")
    theirs = jax.nn.initializers.variance_scaling(2.0, "fan_in", distribution, dtype="complex64")
    want = np.asarray(theirs(np.array(key, np.uint32), (50, 40)))
    np.testing.assert_allclose(ours(np.array(key, np.uint32), (50, 40)).numpy(), want, rtol=1e-4, atol=1e-5)


def test_parameters_of_one_dimension():
    init = initializers.variance_scaling(1.0, "fan_in", "normal", in_axis=0, out_axis=0)
    assert init(lm.random.PRNGKey(0), (5,)).shape == (5,)
    with pytest.raises(ValueError, match="in_axis"):
        initializers.glorot_normal()(lm.random.PRNGKey(0), (5,))


@pytest.mark.parametrize("name", ["add", "multiply"])
def test_truth_values_are_counted(name):
    ours, numpys = getattr(lnp, name), getattr(np, name)
    x = np.array([[True, True, False], [True, True, True]])
    for method, *args in (("accumulate", 1), ("reduceat", [0, 2, 1], 1), ("reduce", 1)):
        got, want = getattr(ours, method)(x, *args), getattr(numpys, method)(x, *args)
        assert got.dtype.kind == want.dtype.kind == "i"
        np.testing.assert_array_equal(got, want)
    assert ours.accumulate(x, 1, dtype=bool).dtype == bool


def test_functions_made_of_the_same_are_equal():
    def joined(x, y):
        return x + y

    first, again = (lnp.frompyfunc(joined, 2, 1, identity=0) for _ in range(2))
    assert first == again and hash(first) == hash(again)
    assert first != lnp.frompyfunc(joined, 2, 1) and first != lnp.frompyfunc(max, 2, 1, identity=0)


def test_running_sums_and_products_of_narrow_integers_do_not_wrap():
    for x in (
        np.array([100, -128, 127, 3], np.int8),
        np.array([250, 3, 0, 255], np.uint8),
        np.int32([2**30] * 4),
    ):
        for name in ("add", "multiply"):
            ours, numpys = getattr(lnp, name), getattr(np, name)
            for got, want in (
                (ours.accumulate(x), numpys.accumulate(x)),
                (ours.reduceat(x, [0, 2]), numpys.reduceat(x, [0, 2])),
                (ours.accumulate(x, dtype=x.dtype), numpys.accumulate(x, dtype=x.dtype)),
            ):
                assert got.dtype == want.dtype and np.array_equal(got, want)
        assert lnp.maximum.accumulate(x).dtype == lnp.subtract.accumulate(x).dtype == x.dtype
