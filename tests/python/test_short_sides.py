"""Arrays whose last dimension is short (points, colours, boxes, complex numbers), and columns put side by side.

Kernels write such dimensions out: each of their elements has code of its own, and what alternates in memory is read and
written by vectors. Every value is NumPy's to the last bit, at every length, with and without `jit`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

LENGTHS = (0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 300)
TYPES = ("float32", "float64", "int8", "int16", "int32", "uint8", "bool", "complex64", "complex128")

# Of rows (n, 4) and their columns, in NumPy's words.
MOVES: dict[str, Callable] = {
    "one column": lambda xp, a: a[:, 1],
    "the last one backwards": lambda xp, a: a[::-1, 3],
    "every third row": lambda xp, a: a[::3, 2],
    "every fourth from the end": lambda xp, a: a[::-4, 0],
    "stack of 2": lambda xp, a: xp.stack([a[:, 3], a[:, 0]], -1),
    "stack of 3": lambda xp, a: xp.stack([a[:, 2], a[:, 2], a[:, 0]], -1),
    "stack of 4": lambda xp, a: xp.stack([a[:, 1], a[:, 0], a[:, 3], a[:, 2]], -1),
    "stack of 5": lambda xp, a: xp.stack([a[:, k % 4] for k in (3, 1, 1, 0, 2)], -1),
    "stack of 6": lambda xp, a: xp.stack([a[::-1, k % 4] for k in range(6)], -1),
    "stack of 7": lambda xp, a: xp.stack([a[:, k % 4] for k in range(7, 0, -1)], -1),
    "stack of 8": lambda xp, a: xp.stack([a[:, k % 4] for k in range(8)], -1),
    "one more column": lambda xp, a: xp.concatenate([a[:, :3], xp.ones((a.shape[0], 1), a.dtype)], 1),
    "columns exchanged": lambda xp, a: a[:, ::-1],
    "columns to rows": lambda xp, a: xp.concatenate([a, a], 0).T,
    "rows to columns": lambda xp, a: xp.reshape(a, (4, -1)).T,
    "squares": lambda xp, a: xp.transpose(xp.reshape(a, (-1, 2, 2)), (0, 2, 1)),
    "padded": lambda xp, a: xp.pad(a[:, :2], ((0, 1), (1, 1))),
    "wider": lambda xp, a: xp.broadcast_to(a[:, :1], (a.shape[0], 3)),
    "repeated": lambda xp, a: xp.repeat(a[:, 0], 3),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", MOVES)
def test_moves_of_short_rows(name: str, dtype: str) -> None:
    move = MOVES[name]
    rng = np.random.default_rng(7)
    compiled = lm.jit(lambda a: move(lnp, a))
    for n in LENGTHS:
        a = (rng.standard_normal((n, 4)) * 50 + 1j * rng.standard_normal((n, 4))).astype(np.complex128)
        a = a.real.astype(dtype) if "complex" not in dtype else a.astype(dtype)
        want = np.ascontiguousarray(move(np, a))
        for got in (move(lnp, lnp.asarray(a)), compiled(a)):
            assert np.asarray(got).dtype == want.dtype
            np.testing.assert_array_equal(np.asarray(got), want, err_msg=f"{n} rows")


POINTS: dict[str, Callable] = {
    "grey": lambda xp, a: a[:, 0] * 3 + a[:, 1] * 5 + a[:, 2] * 7,
    "cross": lambda xp, a: xp.cross(a[:, :3], a[::-1, :3]),
    "scaled": lambda xp, a: a[:, :3] * a[0, :3],
    "moved": lambda xp, a: a - a[:, 3:],
    "quaternions": lambda xp, a: xp.stack(
        [a[:, 0] * a[:, 1] - a[:, 2], a[:, 3] - a[:, 1] * 2, a[:, 2] * a[:, 0] + a[:, 1], a[:, 3] * a[:, 3]],
        1,
    ),
    "boxes": lambda xp, a: xp.concatenate([a[:, :2] - a[:, 2:], a[:, :2] + a[:, 2:]], 1),
    "five": lambda xp, a: xp.stack([a[:, k % 4] * k - a[:, 0] for k in range(5)], 1),
    "six of a sum": lambda xp, a: xp.stack([a[:, k % 4] - a[:, 1] for k in range(6)], 1) * 3 + a[:, :1],
    "rows and columns": lambda xp, a: xp.concatenate([a * a, a[:, :3] - 1], 1),
    "two rows": lambda xp, a: xp.concatenate([a[::-1] * 2, a + 1], 1),
    "of eight": lambda xp, a: xp.concatenate([a * 2, a + 1], 1)[:, ::-1] * a[:, :1],
    "of a sum": lambda xp, a: xp.stack([a[:, 0], a[:, 1], a[:, 2]], 1) * 2 + a[:, 1:],
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "complex64"])
@pytest.mark.parametrize("name", POINTS)
def test_arithmetic_of_short_rows(name: str, dtype: str) -> None:
    """Whole numbers, so that the order of NumPy's own complex arithmetic does not show."""
    points = POINTS[name]
    rng = np.random.default_rng(8)
    compiled = lm.jit(lambda a: points(lnp, a))
    for n in LENGTHS[1:]:
        a = rng.integers(-20, 20, (n, 4)).astype(dtype)
        if dtype == "complex64":
            a = (a + 1j * rng.integers(-20, 20, (n, 4))).astype(dtype)
        want = points(np, a)
        for got in (points(lnp, lnp.asarray(a)), compiled(a)):
            np.testing.assert_array_equal(np.asarray(got), want, err_msg=f"{n} rows")


@pytest.mark.not_on_cuda(reason="its kernels ask which column an element is of")
@pytest.mark.parametrize("columns", [2, 5, 6, 8])
def test_each_column_is_computed_for_itself(columns: int) -> None:
    a = np.linspace(1, 2, 50_000, dtype="float32").reshape(-1, 2)
    compiled = (
        lm.jit(lambda a: lnp.stack([a[:, 0] * k + a[:, 1] for k in range(columns)], 1)).lower(a).compile()
    )
    text = compiled.as_text("kernels")
    assert text.count("kernel 1 ") == 1 and text.count(" add ") == columns and " select " not in text


def test_results_over_their_operands() -> None:
    """An operand that is given away may become the result where each row reads its own elements only."""
    own = lm.jit(lambda a: lnp.stack([a[:, 1], a[:, 0] * 2, a[:, 2]], 1), donate_argnums=0)
    others = lm.jit(lambda a: lnp.stack([a[::-1, 1], a[:, 0] * 2, a[:, 2]], 1), donate_argnums=0)
    for n in LENGTHS[1:]:
        a = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
        np.testing.assert_array_equal(
            np.asarray(own(lnp.asarray(a) + 0)), np.stack([a[:, 1], a[:, 0] * 2, a[:, 2]], 1)
        )
        want = np.stack([a[::-1, 1], a[:, 0] * 2, a[:, 2]], 1)
        np.testing.assert_array_equal(np.asarray(others(lnp.asarray(a) + 0)), want)


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int8", "uint32"])
def test_reductions_of_few_columns_have_the_bits_of_each_column_alone(dtype: str) -> None:
    # Rows without gaps are read as one long row, and parts of rows (the first columns) are not.
    reductions = {
        "sum": lambda x, by: lnp.sum(x[:, : by.size], 0),
        "largest": lambda x, by: lnp.max(x[:, : by.size], 0),
        "apart": lambda x, by: lnp.sum((x[:, : by.size] - by) * x[:, : by.size], 0),
    }
    of_vectors = {
        "sum": lambda v, by: lnp.sum(v),
        "largest": lambda v, by: lnp.max(v),
        "apart": lambda v, by: lnp.sum((v - by) * v),
    }
    compiled = {name: lm.jit(f) for name, f in reductions.items()}
    random = np.random.default_rng(3)
    for columns in (1, 2, 5, 8, 17, 33, 64, 65, 70, 130):
        for rows in (63, 64, 512, 1100, 5000):
            x = (random.standard_normal((rows, columns)) * 20).astype(dtype)
            by = (random.standard_normal(columns) * 3).astype(dtype)
            for n in (columns, columns - columns // 3):
                for name, f in compiled.items():
                    got = np.asarray(f(x, by[:n]))
                    lm.cache.wait()
                    np.testing.assert_array_equal(got, np.asarray(f(x, by[:n])))
                    for c in {0, n // 2, n - 1}:
                        alone = of_vectors[name](lnp.asarray(x[:, c].copy()), lnp.asarray(by[c]))
                        assert got[c] == np.asarray(alone), (name, rows, columns, n, c)


# Choices of few elements are written out, in machine code of the set that LAMINA_ISA names.
CHOICES = '''
import itertools, numpy as np, lamina.numpy as lnp
from lamina import jit, lax

def numbers(rng, dtype, rows, count):
    """Few different ones, so that many are equal; rows of nothing but zeros, of the extremes, and with NaN."""
    x = rng.integers(0, 3, (rows, count)).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x[::3] *= -1
        x[1::4] = np.copysign(0, rng.standard_normal(x[1::4].shape))
        x[rng.random(x.shape) < 0.15] = -np.inf
        x[rng.random(x.shape) < 0.15] = np.inf
        x[rng.random(x.shape) < 0.15] = np.nan
        x[rng.random(x.shape) < 0.05] *= -1
        x[2::16], x[5::16], x[8::16] = np.nan, np.inf, -np.inf
    elif dtype != "bool":
        x[2::16], x[5::16] = np.iinfo(dtype).max, np.iinfo(dtype).min
    return x

def picks(largest):
    def first(a, b):
        (v, i), (w, j) = a, b
        nan, other = v != v, w != w
        wins = ((v > w) if largest else (v < w)) | (nan & ~other)
        tie = (v == w) | (nan & other)
        take = wins | (tie & (i < j))
        return lnp.where(take, v, w), lnp.where(take, i, j)
    return first

def picked(row, start, largest):
    """By sorting: a NaN, then the extreme; of equal ones the first; the initial pair after its like."""
    pairs = [*zip(row, range(len(row))), start]
    def order(pair):
        value, place = float(pair[0]), pair[1]
        return (True, -value if largest else value, place) if value == value else (False, 0, place)
    return min(pairs, key=order)

rng = np.random.default_rng(5)
for dtype, count in itertools.product(
    ("float32", "float64", "float16", "int8", "int32", "int64", "uint8", "uint64", "bool"), (1, 2, 3, 4, 5)
):
    x = numbers(rng, dtype, 83, count)
    for largest in (True, False):
        name = "argmax" if largest else "argmin"
        want = getattr(np, name)(x, 1)
        for f in (lambda v, axis: getattr(lnp, name)(v, axis), lambda v, axis: getattr(lax, name)(v, axis, "int32")):
            along, across = jit(lambda v: f(v, 1))(x), jit(lambda v: f(v, 0))(x.T.copy())
            np.testing.assert_array_equal(np.asarray(along), want, err_msg=f"{name} {dtype} {count}")
            np.testing.assert_array_equal(np.asarray(across), want, err_msg=f"{name} {dtype} {count}")

for dtype, count, largest in itertools.product(("float32", "float64", "int32"), (1, 2, 3, 4), (True, False)):
    x = numbers(rng, dtype, 35, count)
    least, most = (-np.inf, np.inf) if dtype != "int32" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    starts = [(least, 2**31 - 1), (most, 2**31 - 1), (least, 0), (most, 0), (least, -1), (most, -1), (1, 1)]
    if dtype != "int32":
        starts.append((np.nan, 1))
    for value, place in starts:
        start = (np.dtype(dtype).type(value), np.int32(place))
        def both(v):
            places = lax.broadcasted_iota("int32", v.shape, 1)
            return lax.reduce((v, places), start, picks(largest), (1,))
        want = [picked(row, start, largest) for row in x]
        values, places = (np.asarray(r) for r in jit(both)(x))
        only_values, only_places = (np.asarray(jit(lambda v: both(v)[k])(x)) for k in (0, 1))
        said = f"{dtype} {count} {largest} {start}"
        assert places.tolist() == only_places.tolist() == [p for _, p in want], said
        bits = np.array([v for v, _ in want], dtype).tobytes()
        assert values.tobytes() == only_values.tobytes() == bits, said
'''


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_choices_of_few_elements(isa: str) -> None:
    environment = {**os.environ, "LAMINA_ISA": isa, "LAMINA_COMPILE": "first", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", CHOICES], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
