"""Reductions over the first axis, where rows lie without gaps or are parts of longer ones.

What an element becomes does not depend on how the rows lie: every value is that of the same reduction along the last
axis of the array turned round, to the last bit.
"""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

ROWS = (1, 2, 63, 64, 130, 192, 257, 515)
COLUMNS = (1, 8, 33, 100, 128, 129, 300)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32"])
@pytest.mark.parametrize("name", ["sum", "max", "min"])
def test_columns_as_rows(name: str, dtype: str) -> None:
    reduce = getattr(lnp, name)
    down = lm.jit(lambda x, w: reduce(x * w + w, 0))
    along = lm.jit(lambda x, w: reduce(x * w[:, None] + w[:, None], 1))
    part = lm.jit(lambda x: reduce(x[:, 1:], 0))
    part_along = lm.jit(lambda x: reduce(x[1:], 1))
    rng = np.random.default_rng(11)
    for rows in ROWS:
        for columns in COLUMNS:
            x = (rng.standard_normal((rows, columns)) * 3).astype(dtype)
            x[:, 0] = -0.0
            w = (rng.standard_normal(columns) * 2).astype(dtype)
            turned = np.ascontiguousarray(x.T)
            message = f"{rows} x {columns}"
            assert np.asarray(down(x, w)).tobytes() == np.asarray(along(turned, w)).tobytes(), message
            if columns > 1:
                assert np.asarray(part(x)).tobytes() == np.asarray(part_along(turned)).tobytes(), message


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_zeros_and_nans(name: str, dtype: str) -> None:
    """NaN where there is one; of zeros alone the greatest is +0 where there is one, and the smallest -0."""
    reduce = getattr(lnp, name)
    along, down = lm.jit(lambda x: reduce(x, 1)), lm.jit(lambda x: reduce(x, 0))
    rng = np.random.default_rng(5)
    for length in (1, 7, 31, 33, 50, 64, 65, 100, 159, 300, 1000, 17_000):
        count = 40
        rare, usual = (0.0, -0.0) if name == "max" else (-0.0, 0.0)
        x = np.full((count, length), usual, dtype)
        places = rng.integers(0, length, count)
        x[np.arange(0, 10), places[:10]] = rare
        x[np.arange(10, 20), places[10:20]] = np.nan
        x[20:30] = rng.standard_normal((10, length))
        x[np.arange(25, 30), places[25:30]] = np.nan
        x[30:35] = -np.abs(x[20:25]) if name == "max" else np.abs(x[20:25])
        x[np.arange(30, 35), places[30:35]] = usual
        want = getattr(np, name)(x, 1)
        zeros = want == 0
        signs = np.signbit(x).all(1) if name == "max" else (np.signbit(x) & (x == 0)).any(1)
        want[zeros] = np.where(signs[zeros], -0.0, 0.0)
        for got in (along(x), down(np.ascontiguousarray(x.T)), down(np.tile(x.T, (1, 8)))[:count]):
            np.testing.assert_array_equal(np.asarray(got), want, err_msg=f"{length} elements")
            assert np.array_equal(np.signbit(np.asarray(got)[zeros]), np.signbit(want[zeros])), length


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32"])
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_wide_rows(name: str, dtype: str) -> None:
    """Blocks of columns of any width, of rows without gaps and with some, in one and in several chunks."""
    reduce = lm.jit(lambda x: getattr(lnp, name)(x, 0))
    rng = np.random.default_rng(8)
    for rows, columns in ((1, 5000), (7, 2049), (8, 4100), (9, 8191), (37, 511), (64, 3000), (17_000, 600)):
        x = (rng.standard_normal((rows, columns)) * 100).astype(dtype)
        if dtype.startswith("float"):
            x[rng.integers(0, rows, 20), rng.integers(0, columns, 20)] = np.nan
        for part in (x, x[:, 3:], x[:, : columns // 2]):
            for threads in (1, 3):
                with lm.cache.threads(threads):
                    got = np.asarray(reduce(part))
                np.testing.assert_array_equal(got, getattr(np, name)(part, 0), err_msg=f"{rows} x {columns}")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64"])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_first_of_several_places(name: str, dtype: str) -> None:
    choose = getattr(lnp, name)
    along = lm.jit(lambda x: choose(x, 1))
    rng = np.random.default_rng(5)
    for length in (8, 31, 32, 33, 64, 100, 127, 160, 1000, 2048, 2049, 5000):
        x = rng.integers(-3, 4, (60, length)).astype(dtype)
        extreme = 5 if name == "argmax" else -5
        x[np.arange(40), rng.integers(0, length, 40)] = extreme
        x[np.arange(20), rng.integers(0, length, 20)] = extreme
        if dtype.startswith("float"):
            x[np.arange(10, 30), rng.integers(0, length, 20)] = np.nan
            x[np.arange(5, 15), rng.integers(0, length, 10)] = np.nan
            x[50:] = np.where(x[50:] > 0, 0.0, -0.0)
        np.testing.assert_array_equal(
            np.asarray(along(x)), getattr(np, name)(x, 1), err_msg=f"{length} elements"
        )


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_matrices_of_few_columns(dtype: str) -> None:
    """Several are reduced together: each is what it is alone, and what its rows are along the other axis."""
    down, along = lm.jit(lambda x: lnp.sum(x, 1)), lm.jit(lambda x: lnp.sum(x, 2))
    alone = lm.jit(lambda x: lnp.sum(x, 0))
    rng = np.random.default_rng(3)
    for count, rows, columns in ((11, 1500, 8), (4, 600, 15), (9, 16_385, 4), (5, 17_000, 7)):
        x = (rng.standard_normal((count, rows, columns)) * 100).astype(dtype)
        message = f"{count} of {rows} x {columns}"
        for _ in range(2):  # interpreted first, then compiled
            got = np.asarray(down(x))
            assert got.tobytes() == np.asarray(along(np.ascontiguousarray(x.swapaxes(1, 2)))).tobytes(), (
                message
            )
            for one, sums in zip(x, got, strict=True):
                assert np.asarray(alone(one)).tobytes() == sums.tobytes(), message
            lm.cache.wait()


@pytest.mark.machine_code
@pytest.mark.parametrize("columns", [3, 100])
def test_a_reduction_stores_what_is_read(columns: int) -> None:
    """The place of an extreme alone, without its value."""
    x = np.random.default_rng(0).standard_normal((500, columns)).astype("float32")

    compiled = lm.jit(lambda x: lnp.argmax(x, 1)).lower(x).compile()
    np.testing.assert_array_equal(compiled(x), x.argmax(1))
    assert compiled.as_text("kernels").count(" out\n") == 1
