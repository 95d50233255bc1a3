"""lamina.random: the streams of jax.random (0.10, default settings), and what makes them usable.

The expected numbers were made by JAX with key 42 on a CPU. Bits, integers, choices and unit uniforms agree
exactly; functions of them (logarithms, erf_inv) to a few units in the last place.
"""

from __future__ import annotations

import jax
import lamina as lm
import numpy as np
import pytest
from lamina import lax, random
from lax_support import array, value

KEY = random.key(42)
GRID = np.arange(12, dtype=np.int32).reshape(4, 3)
P = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
LOGITS = np.array([[0.1, 2, 0.3], [1, 0, -1]], np.float32)

EXACT = {
    "key": (lambda: random.PRNGKey(42), [0, 42]),
    "keyneg": (lambda: random.key(-5), [0, 4294967291]),
    "split": (
        lambda: random.split(KEY, 3),
        [[1832780943, 270669613], [64467757, 2916123636], [2465931498, 255383827]],
    ),
    "splitnd": (
        lambda: random.split(KEY, (2, 2)),
        [
            [[1832780943, 270669613], [64467757, 2916123636]],
            [[2465931498, 255383827], [3134548294, 894150801]],
        ],
    ),
    "fold": (lambda: random.fold_in(KEY, 7), [2547012911, 1371500959]),
    "bitsuint8": (lambda: random.bits(KEY, (5,), "uint8"), [162, 217, 249, 215, 21]),
    "bitsuint16": (lambda: random.bits(KEY, (5,), "uint16"), [5026, 12505, 63993, 49623, 29461]),
    "bits2d": (
        lambda: random.bits(KEY, (2, 3)),
        [[2098992034, 2919706841, 2646866425], [2409546199, 1935504149, 2516274904]],
    ),
    "u": (
        lambda: random.uniform(KEY, (5,)),
        [0.48870956897735596, 0.6797971725463867, 0.6162714958190918, 0.5610160827636719, 0.4506446123123169],
    ),
    "us": (lambda: random.uniform(KEY), 0.48870956897735596),
    "uf16": (
        lambda: random.uniform(KEY, (5,), "float16"),
        [0.076171875, 0.1904296875, 0.9755859375, 0.7568359375, 0.44921875],
    ),
    "ubf16": (
        lambda: random.uniform(KEY, (5,), "bfloat16").astype("float32"),
        [0.6328125, 0.84375, 0.96875, 0.8359375, 0.078125],
    ),
    "ri": (lambda: random.randint(KEY, (6,), -10, 1000), [424, 784, 561, 579, 269, 629]),
    "ri8": (lambda: random.randint(KEY, (6,), 0, 256, "uint8"), [196, 18, 183, 193, 141, 107]),
    "riempty": (lambda: random.randint(KEY, (3,), 5, 5), [5, 5, 5]),
    "rifull": (
        lambda: random.randint(KEY, (4,), -(2**31), 2**31 - 1),
        [977810628, 1236381714, -1367112521, -1019495231],
    ),
    "ber": (
        lambda: random.bernoulli(KEY, 0.3, (10,)),
        [False, False, False, False, False, False, True, False, False, False],
    ),
    "rad": (lambda: random.rademacher(KEY, (8,)), [1, -1, -1, -1, 1, -1, 1, -1]),
    "perm": (lambda: random.permutation(KEY, 10), [7, 4, 2, 5, 3, 6, 8, 9, 0, 1]),
    "perm2": (lambda: random.permutation(KEY, array(GRID)), [[6, 7, 8], [9, 10, 11], [0, 1, 2], [3, 4, 5]]),
    "permi": (
        lambda: random.permutation(KEY, array(GRID), 1, independent=True),
        [[2, 0, 1], [4, 5, 3], [7, 6, 8], [10, 11, 9]],
    ),
    "ch": (lambda: random.choice(KEY, 10, (5,)), [4, 4, 1, 9, 9]),
    "chn": (lambda: random.choice(KEY, 10, (5,), replace=False), [7, 4, 2, 5, 3]),
    "chp": (lambda: random.choice(KEY, 4, (8,), p=array(P)), [2, 2, 2, 2, 2, 2, 3, 1]),
    "chpn": (lambda: random.choice(KEY, 4, (3,), replace=False, p=array(P)), [3, 2, 1]),
    "cha": (
        lambda: random.choice(KEY, array(GRID), (2, 2)),
        [[[0, 1, 2], [6, 7, 8]], [[9, 10, 11], [3, 4, 5]]],
    ),
    "chan": (lambda: random.choice(KEY, array(GRID), (2,), replace=False), [[6, 7, 8], [9, 10, 11]]),
    "cat": (lambda: random.categorical(KEY, array(LOGITS)), [1, 0]),
    "cat0": (lambda: random.categorical(KEY, array(LOGITS), axis=0), [1, 0, 0]),
    "catsh": (lambda: random.categorical(KEY, array(LOGITS), shape=(4, 2)), [[1, 0], [1, 0], [1, 0], [1, 0]]),
}

CLOSE = {
    "n": (
        lambda: random.normal(KEY, (2000,)),
        [-0.028304616, 0.46713185, 0.29570296, 0.15354592, -0.12403282, 0.21692315],
    ),
    "nf16": (
        lambda: random.normal(KEY, (6,), "float16"),
        [-1.4296875, -0.87548828, 1.9746094, 0.69677734, -0.1270752, -0.50195312],
    ),
    "tn": (
        lambda: random.truncated_normal(KEY, -2.0, 2.0, (500,)),
        [-0.027016498, 0.44438082, 0.28187707, 0.14650805, -0.1183623, 0.20690748],
    ),
    "gumbel": (
        lambda: random.gumbel(KEY, (500,)),
        [0.33409339, 0.95201945, 0.72553056, 0.54817152, 0.22680496, 0.62611592],
    ),
    "exponential": (
        lambda: random.exponential(KEY, (500,)),
        [0.67081749, 1.1388006, 0.95782, 0.82329249, 0.59900969, 0.88156533],
    ),
    "laplace": (
        lambda: random.laplace(KEY, (500,)),
        [0.022839652, -0.44565356, -0.26467291, -0.13014539, 0.10392901, -0.18841822],
    ),
    "logistic": (
        lambda: random.logistic(KEY, (500,)),
        [-0.045169413, 0.7528398, 0.47375232, 0.24528676, -0.19806653, 0.34690088],
    ),
    "cauchy": (
        lambda: random.cauchy(KEY, (500,)),
        [-0.035484631, 0.63372612, 0.38244057, 0.1940707, -0.15630901, 0.27649516],
    ),
    "maxwell": (
        lambda: random.maxwell(KEY, (500,)),
        [0.55358249, 0.29328507, 1.708603, 1.5084578, 1.8060526, 1.0890285],
    ),
    "par": (
        lambda: random.pareto(KEY, 2.0, (9,)),
        [1.3985119, 1.7672069, 1.6143138, 1.5093005, 1.3491906, 1.5539229],
    ),
    "wei": (
        lambda: random.weibull_min(KEY, 2.0, 1.5, (9,)),
        [1.5326145, 2.1810308, 1.943357, 1.7568423, 1.4211913, 1.8387936],
    ),
    "ray": (
        lambda: random.rayleigh(KEY, 2.0, (9,)),
        [2.3933022, 1.7571814, 1.9678774, 2.1503594, 2.5251951, 2.0681672],
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_exact_streams(name):
    f, want = EXACT[name]
    assert value(f()).tolist() == want


@pytest.mark.parametrize("name", CLOSE)
def test_functions_of_the_streams(name):
    f, want = CLOSE[name]
    got = value(f())
    tolerance = 2e-3 if got.dtype == np.float16 else 1e-5
    np.testing.assert_allclose(got.ravel()[: len(want)], want, rtol=tolerance)


def test_the_same_numbers_under_jit_vmap_and_scan():
    keys = random.split(KEY, 3)
    want = np.stack([value(random.normal(keys[i], (4,))) for i in range(3)])
    assert np.array_equal(value(lm.vmap(lambda k: random.normal(k, (4,)))(keys)), want)
    assert np.array_equal(value(lm.jit(lambda k: random.normal(k, (4,)))(keys[1])), want[1])
    assert np.array_equal(value(lax.map(lambda k: random.normal(k, (4,)), keys)), want)
    shuffled = value(lm.jit(lambda k: random.permutation(k, 50))(KEY))
    assert np.array_equal(shuffled, value(random.permutation(KEY, 50))) and sorted(shuffled) == list(
        range(50)
    )


def test_element_i_depends_on_the_key_and_i_only():
    assert np.array_equal(value(random.bits(KEY, (100,)))[:10], value(random.bits(KEY, (10,))))
    assert np.array_equal(value(random.bits(KEY, (4, 5))).ravel(), value(random.bits(KEY, (20,))))


def test_wide_types():
    words = value(random.bits(KEY, (3,), "uint64"))
    assert np.array_equal(
        (words >> np.uint64(32)) ^ (words & np.uint64(0xFFFFFFFF)), value(random.bits(KEY, (3,)))
    )
    u = random.uniform(KEY, (1000,), "float64", -1.0, 3.0)
    assert u.dtype == "float64" and value(u).min() >= -1 and value(u).max() < 3
    assert value(random.randint(KEY, (4,), 0, 2**40, "int64")).max() > 2**32
    assert value(random.key(2**40 + 3)).tolist() == [256, 3]
    assert random.normal(KEY, (2,), "complex64").dtype == "complex64"


def test_moments():
    n = 100_000
    x = value(random.normal(KEY, (n,)))
    assert abs(x.mean()) < 0.015 and abs(x.var() - 1) < 0.02 and abs((x**4).mean() - 3) < 0.1
    e = value(random.exponential(KEY, (n,)))
    assert abs(e.mean() - 1) < 0.015
    counts = np.bincount(value(random.choice(KEY, 4, (n,), p=array(P))), minlength=4) / n
    np.testing.assert_allclose(counts, P, atol=0.006)
    counts = np.bincount(value(random.categorical(KEY, array(np.log(P)), shape=(n,))), minlength=4) / n
    np.testing.assert_allclose(counts, P, atol=0.006)
    cut = value(random.truncated_normal(KEY, -0.5, 1.0, (n,)))
    assert cut.min() > -0.5 and cut.max() < 1.0


def test_parameters_broadcast_and_are_differentiable():
    lo = array([0.0, 10.0], np.float32)
    u = value(random.uniform(KEY, (5, 2), minval=lo, maxval=lo + 1))
    assert (u[:, 0] < 1).all() and (u[:, 1] >= 10).all()
    r = value(random.randint(KEY, (100, 2), array([0, 50], np.int32), array([3, 60], np.int32)))
    assert r[:, 0].max() == 2 and r[:, 1].min() == 50
    g = lm.grad(lambda s: (random.normal(KEY, (3,)) * s).sum())(2.0)
    np.testing.assert_allclose(value(g), value(random.normal(KEY, (3,))).sum(), rtol=1e-6)


def test_errors_are_in_words():
    with pytest.raises(TypeError, match=r"a key is uint32\[2\]"):
        random.uniform(array([1, 2], np.int32))
    with pytest.raises(TypeError, match="of 16 bits or more, not int32"):
        random.normal(KEY, (2,), "int32")
    with pytest.raises(TypeError, match="makes integers, not float32"):
        random.randint(KEY, (2,), 0, 3, "float32")
    with pytest.raises(ValueError, match="cannot take 5 of 4"):
        random.choice(KEY, 4, (5,), replace=False)
    with pytest.raises(ValueError, match="do not broadcast to the shape"):
        random.uniform(KEY, (3,), minval=array(np.zeros(2, np.float32)))
    with pytest.raises(OverflowError, match="64 bits"):
        random.key(2**64)


def _jax_key(words):
    return jax.random.wrap_key_data(np.asarray(words), impl="rbg" if words.shape[-1] == 4 else None)


@pytest.mark.parametrize("words", [[0, 7, 0, 7], [5, 6, 0xFFFFFFFE, 0xFFFFFFFF], [1, 2, 3, 4]])
def test_keys_of_the_generator_rbg(words):
    key = np.array(words, np.uint32)
    theirs = _jax_key(key)
    for dtype in ("uint8", "uint16", "uint32"):
        for shape in ((), (11,), (3, 5)):
            np.testing.assert_array_equal(
                value(random.bits(key, shape, dtype)), jax.random.bits(theirs, shape, dtype)
            )
    with jax.enable_x64(True):
        wide = np.asarray(jax.random.bits(theirs, (5,), "uint64"))
    np.testing.assert_array_equal(value(random.bits(key, (5,), "uint64")), wide)
    np.testing.assert_array_equal(
        value(random.split(key, (2, 3))), jax.random.key_data(jax.random.split(theirs, (2, 3)))
    )
    np.testing.assert_array_equal(
        value(random.fold_in(key, 9)), jax.random.key_data(jax.random.fold_in(theirs, 9))
    )
    np.testing.assert_array_equal(value(random.permutation(key, 20)), jax.random.permutation(theirs, 20))
    np.testing.assert_allclose(value(random.normal(key, (6,))), jax.random.normal(theirs, (6,)), rtol=1e-6)
    for name, *parameters in (
        ("gamma", np.array([0.3, 2.0, 50.0], np.float32)),
        ("loggamma", np.array([0.01, 2.0], np.float32)),
        ("beta", 2.0, 3.0),
        ("dirichlet", np.array([1.0, 2.0], np.float32)),
        ("t", 3.0),
        ("ball", 3),
        ("binomial", np.array([10.0, 500.0], np.float32), 0.3),
        ("multinomial", 10.0, np.array([0.3, 0.7], np.float32)),
    ):
        ours = value(getattr(random, name)(key, *parameters))
        np.testing.assert_allclose(ours, getattr(jax.random, name)(theirs, *parameters), rtol=5e-6)
    with jax.enable_x64(True):
        wide = np.asarray(jax.random.gamma(theirs, np.array([0.3, 2.0]), dtype="float64"))
    np.testing.assert_allclose(
        value(random.gamma(key, np.array([0.3, 2.0]), dtype="float64")), wide, rtol=1e-12
    )


def test_names_and_limits_of_generators():
    key = random.key(42, impl="rbg")
    np.testing.assert_array_equal(value(key), [0, 42, 0, 42])
    assert random.key_impl(key) == "rbg" and random.key_impl(KEY) == "threefry2x32"
    assert random.wrap_key_data(key, impl="rbg").shape == (4,)
    with pytest.raises(ValueError, match="have 2 words, not 4"):
        random.wrap_key_data(key, impl="threefry2x32")
    with pytest.raises(ValueError, match="no generator 'philox'"):
        random.key(0, impl="philox")
    with pytest.raises(NotImplementedError, match="threefry2x32 only"):
        random.poisson(key, 2.0)
    drawn = lm.vmap(lambda k: random.uniform(k, (3,)))(random.split(key, 4))
    each = np.stack([value(random.uniform(k, (3,))) for k in random.split(key, 4)])
    np.testing.assert_array_equal(value(drawn), each)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_narrow_integers_are_drawn_from_32_bits(dtype):
    low = 3 if dtype[0] == "u" else -3
    for bounds in (
        (low, 100),
        (-1000, 100000),
        (np.int32(low), np.int32(90)),
        (0, 2 ** (8 * np.dtype(dtype).itemsize)),
    ):
        ours = value(random.randint(KEY, (200,), *bounds, dtype))
        np.testing.assert_array_equal(ours, jax.random.randint(_jax_key(KEY), (200,), *bounds, dtype))
    counts = np.bincount(value(random.randint(KEY, (200_000,), 0, 100, dtype)), minlength=100)
    assert abs(counts - 2000).max() < 300  # of 8 bits some are drawn half as often again as others


@pytest.mark.parametrize("mode", ["high", "highest"])
def test_modes_of_more_bits(mode):
    theirs = _jax_key(KEY)
    np.testing.assert_allclose(
        value(random.gumbel(KEY, (2000,), mode=mode)),
        jax.random.gumbel(theirs, (2000,), mode=mode),
        rtol=2e-6,
        atol=1e-6,
    )
    np.testing.assert_array_equal(
        value(random.categorical(KEY, LOGITS, shape=(50, 2), mode=mode)),
        jax.random.categorical(theirs, LOGITS, shape=(50, 2), mode=mode),
    )
    p = np.full(5, 0.2, np.float32)
    np.testing.assert_array_equal(
        value(random.choice(KEY, 5, (3,), False, p, mode=mode)),
        jax.random.choice(theirs, 5, (3,), False, p, mode=mode),
    )
    if mode == "high":
        np.testing.assert_array_equal(
            value(random.bernoulli(KEY, 0.3, (500,), mode=mode)),
            jax.random.bernoulli(theirs, 0.3, (500,), mode=mode),
        )


def test_permutations_of_ranges():
    for n in (10, -3, 0):
        for axis in (0, -1):
            assert sorted(random.permutation(KEY, n, axis=axis).tolist()) == list(range(n))
    for x, axis in ((10, 3), (10, -2), (np.ones((2, 2)), 2)):
        with pytest.raises(ValueError, match=f"axis {axis} is out of range"):
            random.permutation(KEY, x, axis=axis)
    for shape, axis in (((0, 3), 0), ((0, 3), 1), ((2, 0), 0), ((0,), 0)):
        assert random.permutation(KEY, np.zeros(shape), axis=axis).shape == shape


def test_permutations_of_a_number_are_of_the_default_integer():
    key = lm.random.key(0)
    with lm.default_dtypes(int="int64"):
        wide = lm.random.permutation(key, 9)
    narrow = lm.random.permutation(key, 9)
    assert wide.dtype == "int64" and narrow.dtype == "int32" and wide.tolist() == narrow.tolist()
