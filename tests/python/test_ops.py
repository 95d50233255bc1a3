"""lamina.ops against jax.ops."""

from __future__ import annotations

import functools

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina.test_util import check_grads


@pytest.fixture(scope="module")
def jax():
    return pytest.importorskip("jax")


NAMES = ["segment_sum", "segment_prod", "segment_max", "segment_min"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("dtype", ["float32", "int32", "int8", "float16", "uint8"])
def test_segments(jax, name, dtype):
    rng = np.random.default_rng(0)
    data, ids = rng.integers(0, 5, (12, 3)).astype(dtype), rng.integers(-2, 6, 12)
    f, want = getattr(lm.ops, name), getattr(jax.ops, name)(data, ids, 5)
    for got in (f(data, ids, 5), lm.jit(lambda d, i: f(d, i, 5))(data, ids)):
        assert got.dtype == want.dtype.name
        np.testing.assert_array_equal(got.numpy(), want)
    lanes = lm.vmap(lambda d: f(d, ids, 5), in_axes=1, out_axes=1)(data)
    np.testing.assert_array_equal(lanes.numpy(), want)
    known = np.abs(ids)
    np.testing.assert_array_equal(f(data, known).numpy(), getattr(jax.ops, name)(data, known))


def test_ids_of_two_dimensions_and_gradient(jax):
    data, ids = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([[0, 1, 1], [3, 0, 1]])
    want = jax.ops.segment_sum(data.reshape(-1), ids.reshape(-1))
    np.testing.assert_array_equal(lm.ops.segment_sum(data, ids).numpy(), want)
    got = lm.grad(lambda x: (lm.ops.segment_sum(x, ids) ** 2).sum())(lnp.array(data))
    np.testing.assert_array_equal(got.numpy(), 2 * np.asarray(want)[ids])


@pytest.mark.parametrize("name", ["segment_max", "segment_min"])
def test_gradients_of_extrema(jax, name):
    """Also where two are equal, and in an empty segment."""
    data, ids = np.array([2.0, 5.0, 5.0, 1.0, -3.0], np.float32), np.array([0, 0, 0, 1, 3])
    weights = np.arange(1.0, 5.0, dtype=np.float32)

    def loss(f, where):
        return lambda x: (where.where(where.isfinite(s := f(x, ids, 4)), s, 0.0) * weights).sum()

    want = jax.grad(loss(getattr(jax.ops, name), jax.numpy))(data)
    f = loss(getattr(lm.ops, name), lnp)
    for transform in (lm.grad(f), lm.jit(lm.grad(f)), lm.jacfwd(f)):
        np.testing.assert_array_equal(transform(lnp.array(data)).numpy(), want)


@pytest.mark.parametrize("how", ["max", "min", "multiply"])
@pytest.mark.parametrize("argument", [0, 1])
def test_gradients_of_updates_in_place(jax, how, argument):
    x, v = np.array([3.0, 1.0, 4.0, 1.0], np.float32), np.array([2.0, 7.0, 1.0], np.float32)

    def loss(a, b):
        return (getattr(a.at[np.array([0, 2, 3])], how)(b, unique_indices=True) * np.arange(1.0, 5.0)).sum()

    want = jax.grad(loss, argument)(jax.numpy.array(x), jax.numpy.array(v))
    got = lm.grad(loss, argument)(lnp.array(x), lnp.array(v))
    np.testing.assert_array_equal(got.numpy(), want)


def test_a_product_of_several_factors():
    """Each element by all of its factors: its own derivative is there, theirs is refused with the remedy."""
    ids = lnp.array([0, 0, 1])

    def product(a, b):
        return a.at[ids].multiply(b).sum()

    factors = lnp.array([2.0, 3.0, 4.0])
    np.testing.assert_array_equal(lm.grad(product)(lnp.ones(3), factors).numpy(), [6.0, 4.0, 1.0])
    with pytest.raises(NotImplementedError, match="unique_indices=True"):
        lm.grad(product, 1)(lnp.ones(3), factors)


def test_errors():
    with pytest.raises(TypeError, match="needs num_segments"):
        lm.jit(lambda i: lm.ops.segment_sum(i, i))(np.arange(3))
    with pytest.raises(TypeError, match="integer segment_ids"):
        lm.ops.segment_sum(lnp.ones(3), lnp.ones(3), 2)
    with pytest.raises(ValueError, match="do not fit"):
        lm.ops.segment_sum(lnp.ones(3), lnp.arange(4), 2)


@pytest.mark.parametrize("name", ["less", "less_equal", "greater", "greater_equal"])
def test_complex_numbers_are_ordered_as_in_numpy(name):
    parts = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf]
    x = np.array([complex(a, b) for a in parts for b in parts], np.complex64)
    with np.errstate(invalid="ignore"):
        want = getattr(np, name)(x[:, None], x)
        beside_numbers = getattr(np, name)(x, 0.0), getattr(np, name)(1j, x)
    f = getattr(lnp, name)
    for g in (f, lm.jit(f), lm.vmap(f, in_axes=(0, None))):
        np.testing.assert_array_equal(np.asarray(g(lnp.array(x)[:, None], lnp.array(x))), want)
    np.testing.assert_array_equal(np.asarray(f(lnp.array(x), 0.0)), beside_numbers[0])
    np.testing.assert_array_equal(np.asarray(f(1j, lnp.array(x))), beside_numbers[1])


@pytest.mark.parametrize("name", ["argmax", "argmin", "nanargmax", "nanargmin"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_positions_of_extreme_complex_numbers_are_those_of_numpy(name, dtype):
    draws = np.random.default_rng(0)
    for shape in [(1,), (7,), (3, 4), (2, 3, 40)]:
        for special in [None, np.nan, complex(0, np.nan), -np.inf, complex(0, np.inf)]:
            x = (draws.integers(-2, 3, shape) + 1j * draws.integers(-2, 3, shape)).astype(dtype)
            if special is not None and not (name.startswith("nan") and np.isnan(special)):
                x[draws.random(shape) < 0.2] += special
            for axis in (None, *range(len(shape))):
                want = getattr(np, name)(x, axis=axis)
                f = functools.partial(getattr(lnp, name), axis=axis)
                np.testing.assert_array_equal(np.asarray(f(x)), want)
                np.testing.assert_array_equal(np.asarray(lm.jit(f)(x)), want)


def _products_of_others(data, ids, count, mode):
    """d prod[s] / d data[k], by segment and entry."""
    out = np.zeros((count, *data.shape))
    kept = np.clip(ids, 0, count - 1) if mode == "clip" else ids
    for k, s in np.ndenumerate(kept):
        if 0 <= s < count:
            for rest in np.ndindex(data.shape[ids.ndim :]):
                others = [data[j + rest] for j, i in np.ndenumerate(kept) if i == s and j != k]
                out[(s, *k, *rest)] = np.prod(others)
    return out


@pytest.mark.parametrize("mode", [None, "clip"])
@pytest.mark.parametrize(
    ("ids", "rest"),
    [([0, 2, 0, 1, 0, 2, 7, -1], ()), ([[3, 0, 0], [3, 3, 1]], (2,)), ([0, 0, 0, 0], (2, 2)), ([], (2,))],
)
def test_the_derivative_of_a_product_is_that_of_the_others(ids, rest, mode):
    rng = np.random.default_rng(1)
    ids = np.array(ids, int)
    data = rng.uniform(0.5, 2, (*ids.shape, *rest))
    data[rng.random(data.shape) < 0.4] = 0  # one, several or no zeros among the factors
    want = _products_of_others(data, ids, 4, mode)
    f = lambda x, i: lm.ops.segment_prod(x, i, 4, mode=mode)  # noqa: E731
    got = lm.jacrev(lambda x: f(x, ids).sum(tuple(range(1, 1 + len(rest)))))(lnp.array(data))
    np.testing.assert_allclose(got, want, rtol=1e-12)
    dx = rng.normal(size=data.shape)
    _, tangent = lm.jit(lambda x, i, d: lm.jvp(lambda x: f(x, i), (x,), (d,)))(
        lnp.array(data), ids, lnp.array(dx)
    )
    terms = (want * dx).sum(tuple(range(1, 1 + ids.ndim)))
    np.testing.assert_allclose(tangent, terms, rtol=1e-12, atol=1e-12)
    check_grads(lambda x: f(x, ids), (lnp.array(data),), order=2, atol=1e-4, rtol=1e-4)


def test_products_of_lanes_have_derivatives():
    rng = np.random.default_rng(2)
    data, ids = rng.normal(size=(3, 6)), rng.integers(0, 3, (3, 6))
    data[0, :3] = 0
    slope = lm.grad(lambda x, i: (lm.ops.segment_prod(x, i, 3) ** 2).sum())
    got = lm.vmap(slope)(lnp.array(data), lnp.array(ids))
    np.testing.assert_allclose(
        got, [slope(lnp.array(x), lnp.array(i)) for x, i in zip(data, ids)], rtol=1e-12
    )
    curvature = lm.hessian(lambda x: lm.ops.segment_prod(x, np.zeros(3, int), 1).sum())
    np.testing.assert_allclose(curvature(lnp.array([0.0, 0.0, 2.0])), [[0, 2, 0], [2, 0, 0], [0, 0, 0]])
