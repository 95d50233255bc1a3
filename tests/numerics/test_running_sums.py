"""Running sums: the order of their additions, the same on every path, and their error.

Up to 64 elements are added one after the other, more as hlo/reference_cumsum.h says.
"""

import math

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax

GROUP, IN_TURN = 16, 64
LENGTHS = [0, 1, 2, 17, 64, 65, 79, 80, 81, 255, 256, 257, 4095, 4097, 70_000, 400_000]


def in_order(x):
    """The sums of a line, in its element type."""
    return np.cumsum(x) if len(x) <= IN_TURN else in_groups(x)


def in_groups(x):
    sums = x.copy()
    for start in range(0, len(x), GROUP):
        group = sums[start : start + GROUP]
        distance = 1
        while distance < len(group):
            group[distance:] = group[:-distance] + group[distance:]
            distance *= 2
    totals = sums[GROUP - 1 : -1 : GROUP]
    if len(totals):
        before = in_groups(totals)
        for g, total in enumerate(before):
            start = (g + 1) * GROUP
            sums[start : start + GROUP] = total + sums[start : start + GROUP]
    return sums


def numbers(shape, dtype, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)
    return (
        (x + 1j * rng.standard_normal(shape)).astype(dtype)
        if np.dtype(dtype).kind == "c"
        else x.astype(dtype)
    )


def same(got, want):
    got = np.asarray(got)
    assert got.dtype == want.dtype
    assert got.tobytes() == np.ascontiguousarray(want).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("n", LENGTHS)
def test_additions_have_one_order(n, dtype):
    x = numbers(n, dtype)
    want = in_order(x)
    t = lnp.asarray(x)
    same(lnp.cumsum(t), want)
    same(lax.cumsum(t), want)
    same(lm.jit(lnp.cumsum)(t), want)
    same(lax.cumsum(t, reverse=True), in_order(x[::-1])[::-1])
    same(lm.jvp(lnp.cumsum, (t,), (t,))[1], want)
    same(lm.vjp(lnp.cumsum, t)[1](t)[0], in_order(x[::-1])[::-1])


@pytest.mark.parametrize("shape", [(3, 300), (300, 3), (2, 300, 9), (70, 40), (17, 130)])
def test_lines_do_not_depend_on_how_they_lie(shape):
    x = numbers(shape, "float32")
    for axis in range(len(shape)):
        same(lnp.cumsum(lnp.asarray(x), axis), np.apply_along_axis(in_order, axis, x))
    # Nor on the batch.
    rows = lm.vmap(lnp.cumsum)(lnp.asarray(x).reshape(shape[0], -1))
    same(rows, np.stack([in_order(r) for r in x.reshape(shape[0], -1)]))


def test_threads_give_the_bits_of_one():
    x = lnp.asarray(numbers(10**6, "float32"))
    with lm.cache.threads(1):
        one = np.asarray(lnp.cumsum(x))
    for count in (2, 3, 7):
        with lm.cache.threads(count):
            same(lnp.cumsum(x + 0), one)


def test_sums_are_close_where_one_after_the_other_are_not():
    """All of a size: steps of the largest sums would drop bits of every element."""
    x = np.random.default_rng(5).random(10**6, dtype=np.float32)
    got = np.asarray(lnp.cumsum(lnp.asarray(x))).astype(np.float64)
    unit = 2.0**-24
    for n in (10, 1000, 65_536, 999_999, 10**6):
        exact = math.fsum(x[:n].astype(np.float64))
        assert abs(got[n - 1] - exact) <= 2 * unit * exact


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int64", "uint64"])
def test_integers_wrap_around(dtype):
    x = np.arange(1, 5000).astype(dtype) * np.asarray(37).astype(dtype)
    same(lax.cumsum(lnp.asarray(x)), np.cumsum(x, dtype=dtype))
    same(lax.cumsum(lnp.asarray(x), reverse=True), np.cumsum(x[::-1], dtype=dtype)[::-1])


def test_zeros_and_special_numbers():
    x = np.array([-0.0, -0.0, 0.0, -0.0] + 60 * [1.0] + [np.inf, 1.0, -np.inf] + 20 * [2.0], "float32")
    got = np.asarray(lnp.cumsum(lnp.asarray(x)))
    assert np.signbit(got[:2]).all() and not np.signbit(got[2:4]).any()
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got, np.cumsum(x))


def test_halves_are_rounded_once():
    x = lnp.full(3000, 1.0, dtype="bfloat16")
    # One after the other they would stay at 256.
    assert float(lnp.cumsum(x)[-1]) == 3008.0 == float(lax.cumsum(x)[-1])
    few = lnp.full(60, 257.0, dtype="float32").astype("bfloat16")
    assert float(lax.cumsum(few)[-1]) == 60 * 256
