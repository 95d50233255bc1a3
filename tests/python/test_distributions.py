"""Random distributions drawn by rejection, and those made of them: JAX's numbers for JAX's keys, derivatives by implicit
reparameterization, and moments.
"""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import random

KEY = random.key(42)
SHAPES = np.array([0.01, 0.3, 1, 2.5, 50, 1e4], np.float32)

# name, arguments, relative bound (numbers are functions of the same bits through other logarithms), share of
# elements that may decide otherwise (an integer beside, where a comparison falls within the last bits)
DRAWS = [
    ("gamma", (SHAPES, (100, 6)), 2e-5, 0),
    ("gamma", (2.5,), 2e-5, 0),
    ("loggamma", (SHAPES, (100, 6)), 2e-5, 0),
    ("beta", (SHAPES, SHAPES[::-1].copy(), (50, 6)), 4e-5, 0),
    ("dirichlet", (SHAPES[:4], (30,)), 4e-5, 0),
    ("chisquare", (SHAPES + 1, (30, 6)), 4e-5, 0),
    ("f", (SHAPES + 1, SHAPES + 2), 4e-5, 0),
    ("t", (3.0, (200,)), 4e-5, 0),
    ("generalized_normal", (1.5, (200,)), 4e-5, 0),
    ("ball", (3, 1.5, (50,)), 4e-5, 0),
    ("lognormal", (0.5, (200,)), 1e-6, 0),
    ("triangular", (-1.0, 0.5, 2.0, (200,)), 1e-6, 0),
    ("wald", (2.0, (200,)), 1e-4, 0),
    ("double_sided_maxwell", (1.0, 2.0, (200,)), 2e-5, 0),
    ("geometric", (np.array([0.1, 0.9], np.float32), (200, 2)), 0, 0.01),
    ("poisson", (np.array([0, 0.1, 3, 9.9, 10, 100, np.nan], np.float32), (100, 7)), 0, 0.01),
    (
        "binomial",
        (
            np.array([5, 100, 1000, 20], np.float32),
            np.array([0.3, 0.01, 0.7, 0.95], np.float32),
            (100, 4),
        ),
        0,
        0.01,
    ),
    (
        "binomial",
        (np.array([-1, 5, np.inf, np.nan], np.float32), np.array([0.3, np.nan, 0.7, 0.9], np.float32)),
        0,
        0,
    ),
    ("multinomial", (np.float32(50), np.array([0.1, 0.2, 0.7], np.float32)), 0, 0),
]


@pytest.fixture(scope="module")
def jax():
    return pytest.importorskip("jax")


@pytest.mark.parametrize(("name", "args", "bound", "others"), DRAWS)
def test_numbers_are_those_of_jax(jax, name, args, bound, others):
    got = getattr(random, name)(KEY, *args)
    want = np.asarray(getattr(jax.random, name)(jax.random.PRNGKey(42), *args))
    assert got.dtype == want.dtype.name
    assert got.shape == want.shape
    off = ~np.isclose(got.numpy(), want, rtol=bound, atol=bound, equal_nan=True)
    assert off.mean() <= others


def test_jit_and_vmap_draw_the_same_numbers():
    want = random.gamma(KEY, SHAPES).numpy()
    np.testing.assert_array_equal(lm.jit(random.gamma)(KEY, SHAPES).numpy(), want)
    keys = random.split(KEY, 3)
    lanes = lm.vmap(lambda k: random.gamma(k, 2.5))(keys).numpy()
    np.testing.assert_array_equal(lanes, [random.gamma(k, 2.5).item() for k in keys])
    lanes = lm.vmap(lambda k: random.poisson(k, 30.0))(keys).numpy()
    np.testing.assert_array_equal(lanes, [random.poisson(k, 30.0).item() for k in keys])


@pytest.mark.parametrize("name", ["gamma", "loggamma"])
def test_derivative_by_the_parameter(jax, name):
    a = SHAPES[:5]
    got = lm.grad(lambda v: getattr(random, name)(KEY, v).sum())(a).numpy()
    want = jax.grad(lambda v: getattr(jax.random, name)(jax.random.PRNGKey(42), v).sum())(a)
    np.testing.assert_allclose(got, want, rtol=1e-4)
    # Through what is made of it, in both modes.
    got = lm.grad(lambda v: random.dirichlet(KEY, v)[0])(a[1:]).numpy()
    want = jax.grad(lambda v: jax.random.dirichlet(jax.random.PRNGKey(42), v)[0])(a[1:])
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_element_types(dtype):
    x = random.gamma(KEY, 2.5, (2000,), dtype)
    assert x.dtype == dtype
    assert abs(x.astype("float32").numpy().mean() - 2.5) < 0.15
    p = random.beta(KEY, 2.0, 3.0, (2000,), dtype)
    assert abs(p.astype("float32").numpy().mean() - 0.4) < 0.02


@pytest.mark.parametrize(
    "call",
    [
        lambda: random.poisson(KEY, 1.0, dtype="float32"),
        lambda: random.gamma(KEY, 1.0, dtype="int32"),
        lambda: random.binomial(KEY, 3, 0.5, dtype="int32"),
    ],
)
def test_wrong_element_types(call):
    with pytest.raises(TypeError):
        call()


def test_wrong_shapes_and_generators():
    with pytest.raises(ValueError, match="at least one dimension"):
        random.dirichlet(KEY, 1.0)
    with pytest.raises(ValueError, match="broadcast"):
        random.gamma(KEY, SHAPES, (3,))
    with pytest.raises(ValueError, match="threefry2x32"):
        random.key(0, impl="mersenne")
    assert random.key_impl(KEY) == "threefry2x32"


COV = np.array([[2, 0.3], [0.3, 1]], np.float32)


@pytest.mark.parametrize("method", ["cholesky", "eigh", "svd"])
def test_multivariate_normal(jax, method):
    mean, key = np.array([1, -2], np.float32), jax.random.PRNGKey(42)
    got = random.multivariate_normal(KEY, mean, COV, (20000,), method=method).numpy()
    np.testing.assert_allclose(np.cov(got.T), COV, atol=0.1)
    np.testing.assert_allclose(got.mean(0), mean, atol=0.1)
    if method == "cholesky":  # the signs of eigenvectors are the algorithm's
        want = jax.random.multivariate_normal(key, mean, COV, (20000,))
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-5)
        slope = lm.grad(lambda c: random.multivariate_normal(KEY, mean, c)[1])(COV)
        want = jax.grad(lambda c: jax.random.multivariate_normal(key, mean, c)[1])(COV)
        np.testing.assert_allclose(slope.numpy(), want, rtol=1e-4, atol=1e-5)
    batch = random.multivariate_normal(KEY, np.zeros((3, 2), np.float32), COV)
    assert batch.shape == (3, 2)
    with pytest.raises(ValueError, match="covariance"):
        random.multivariate_normal(KEY, mean, np.eye(3, dtype=np.float32))


@pytest.mark.parametrize(("n", "m"), [(3, None), (3, 5), (5, 3)])
def test_orthogonal(jax, n, m):
    got = random.orthogonal(KEY, n, (2,), m=m).numpy()
    want = jax.random.orthogonal(jax.random.PRNGKey(42), n, (2,), m=m)
    np.testing.assert_allclose(got, want, atol=1e-5)
    unitary = random.orthogonal(KEY, n, dtype="complex64").numpy()
    np.testing.assert_allclose(unitary @ unitary.conj().T, np.eye(n), atol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", ["uniform", "normal", "truncated_normal", "orthogonal"])
def test_initializers_take_arrays_as_scales(name, dtype):
    make = getattr(lm.nn.initializers, name)
    want = make(0.5, dtype=dtype)(KEY, (3, 3))
    for scale in (lnp.array(0.5, dtype="float32"), lnp.array(0.5, dtype="float64"), np.float32(0.5)):
        got = make(scale, dtype=dtype)(KEY, (3, 3))
        assert got.dtype == dtype and lnp.array_equal(got, want)
    traced = lm.jit(lambda scale: make(scale, dtype=dtype)(KEY, (3, 3)))(0.5)
    assert traced.dtype == dtype and lnp.array_equal(traced, want)


@pytest.mark.parametrize("shape", [(4, 6), (6, 4), (3, 2, 4)])
def test_orthogonal_initializers(jax, shape):
    key = jax.random.PRNGKey(42)
    got = lm.nn.initializers.orthogonal(2.0)(KEY, shape)
    np.testing.assert_allclose(got.numpy(), jax.nn.initializers.orthogonal(2.0)(key, shape), atol=1e-5)
    if len(shape) == 3:
        got = lm.nn.initializers.delta_orthogonal()(KEY, shape)
        np.testing.assert_allclose(got.numpy(), jax.nn.initializers.delta_orthogonal()(key, shape), atol=1e-5)
        with pytest.raises(ValueError, match="3 to 5 dimensions"):
            lm.nn.initializers.delta_orthogonal()(KEY, (4, 6))


@pytest.mark.parametrize(
    "rate", [np.float32([0.1, 3, 9.9, 100, np.nan]), np.array([0.5, 20.0]), np.array([2, 50])]
)
def test_poisson_numbers_do_not_depend_on_the_default_types(rate):
    want = random.poisson(KEY, rate, (40, rate.size), dtype="int32")
    with lm.default_dtypes(float="float64", int="int64"):
        got = random.poisson(KEY, rate, (40, rate.size))
        assert got.dtype == "int64" and np.array_equal(got, want)
