"""Sorts against NumPy's stable ones: bits of the values, places, patterns and sizes at which other ways are taken."""

import functools

import lamina as lm
import lamina.numpy as jnp
import numpy as np
import pytest

KINDS = ("float32", "float64", "int32", "int64", "uint32", "uint64", "int8", "uint16", "float16", "bool")
NEGATIVE_NAN = np.array([0xFFC00000], "uint32").view("float32")[0]


def _bits(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(f"uint{8 * x.dtype.itemsize}")


def _draw(kind: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    r = np.random.default_rng(seed)
    if kind == "bool":
        return r.integers(0, 2, shape).astype(bool)
    if kind.startswith("float"):
        return (r.standard_normal(shape) * 100).astype(kind)
    info = np.iinfo(kind)
    return r.integers(info.min, info.max, shape, dtype=kind, endpoint=True)


def _check(x: np.ndarray, axis: int = -1) -> None:
    order = np.argsort(x, axis=axis, kind="stable")
    got, places = lm.jit(lambda a: (jnp.sort(a, axis=axis), jnp.argsort(a, axis=axis)))(jnp.asarray(x))
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(_bits(np.asarray(got)), _bits(np.take_along_axis(x, order, axis)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 40, 41, 100, 257, 1000, 9000])
def test_lines_of_any_length(kind: str, length: int) -> None:
    _check(_draw(kind, (3, length)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(50, 3), (100, 16), (7, 5, 33), (3000, 2), (20000, 3)])
def test_lines_across_memory(kind: str, shape: tuple[int, ...]) -> None:
    _check(_draw(kind, shape), axis=0)
    if len(shape) > 2:
        _check(_draw(kind, shape), axis=1)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("length", [9, 500, 10000])
def test_values_that_are_equal_and_differ_in_their_bits(kind: str, length: int) -> None:
    r = np.random.default_rng(length)
    zeros = r.choice(np.array([0.0, -0.0, 1.0, -1.0], kind), length)
    _check(zeros)
    nans = zeros.copy()
    nans[r.integers(0, length, length // 4)] = np.nan
    _check(nans)
    nans[r.integers(0, length, length // 4)] = NEGATIVE_NAN
    nans[0], nans[-1] = NEGATIVE_NAN, np.nan
    _check(nans)
    _check(np.where(np.isnan(nans), nans, np.inf).astype(kind))


@pytest.mark.parametrize("length", [1000, 300_000])
def test_long_keys_that_share_their_first_bits(length: int) -> None:
    # Keys of 64 bits and places together have more than 64.
    r = np.random.default_rng(1)
    few = r.integers(0, 5, length) * 2**60
    _check(few + r.integers(0, 3, length))
    _check(few.astype("int64") - 2**62 + r.integers(0, 2**20, length))
    _check(1 + r.integers(0, 50, length) * 2.0**-52)
    _check(np.where(r.random(length) < 0.5, 1.0, -1.0) * (1 + r.integers(0, 3, length) * 2.0**-52))


@pytest.mark.parametrize("kind", ["float32", "int64"])
def test_many_elements_on_any_number_of_threads(kind: str) -> None:
    x = _draw(kind, (400_001,))
    _check(x)
    _check(np.sort(x))
    _check(np.sort(x)[::-1].copy())
    _check((x % 7).astype(kind))


@pytest.mark.parametrize("length", [1, 30, 700, 200_000])
def test_several_keys(length: int) -> None:
    r = np.random.default_rng(2)
    keys = [
        r.integers(0, 4, length),
        r.choice(np.array([0.0, -0.0, 2.5, np.nan]), length),
        r.integers(-9, 9, length),
    ]
    np.testing.assert_array_equal(
        lm.jit(lambda *k: jnp.lexsort(k))(*map(jnp.asarray, keys)), np.lexsort(keys)
    )


@pytest.mark.parametrize("kind", ["float32", "float64", "int32"])
def test_descending_is_stable(kind: str) -> None:
    x = (_draw(kind, (5000,)) % 9).astype(kind)
    got = lm.jit(functools.partial(jnp.argsort, descending=True))(jnp.asarray(x))
    np.testing.assert_array_equal(got, np.argsort(-x.astype("float64"), kind="stable"))
    np.testing.assert_array_equal(
        lm.jit(functools.partial(jnp.sort, descending=True))(jnp.asarray(x)), np.sort(x)[::-1]
    )
