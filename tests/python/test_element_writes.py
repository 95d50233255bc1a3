"""x[i] = v and x[i] of arrays that are there: no program where nobody else sees the elements, NumPy's results anyway."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest


def ready(shape: Any, dtype: str) -> tuple[Any, Any]:
    """A Tensor that owns its memory, and NumPy's array of the same elements."""
    values = (np.arange(np.prod(shape)) % 7).reshape(shape).astype(dtype)
    return lnp.array(values).block_until_ready(), values


PREPARE = """
import lamina as lm, lamina.numpy as lnp
def counts():
    stats = lm.cache.stats()
    return stats["recorded"], stats["flushes"]
def since(before):
    now = counts()
    return now[0] - before[0], now[1] - before[1]
"""
WRITES = """
x = lnp.zeros(1000).block_until_ready()
before = counts()
for i in range(1000):
    x[i] = i * 0.5
assert since(before) == (0, 0), since(before)
assert x.tolist() == [i * 0.5 for i in range(1000)]
"""
WRITES_TO_WHAT_WAITS = """
x = lnp.zeros(300) + 1
before = counts()
for i in range(300):
    x[i] = i
assert since(before)[0] < 10 and since(before)[1] == 1, since(before)
assert x.tolist() == list(range(300))
"""
READS = """
x = lnp.arange(150.0).reshape(50, 3).block_until_ready()
before = counts()
read = [x[i, -1] for i in range(50)]
for i in range(50):
    x[i, -1] = -1
assert [float(r) for r in read] == [3.0 * i + 2 for i in range(50)]
assert since(before) == (0, 0), since(before)
"""


@pytest.mark.parametrize(
    "code", [WRITES, WRITES_TO_WHAT_WAITS, READS], ids=["writes", "of what waits", "reads"]
)
def test_nothing_is_recorded(code: str) -> None:
    # In a process of its own: where another device exists, copies to it may be under way.
    env = {k: v for k, v in os.environ.items() if k != "LAMINA_DEFAULT_DEVICE"}
    done = subprocess.run([sys.executable, "-c", PREPARE + code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64"]
)
def test_elements_and_rows_of_each_type(dtype: str) -> None:
    x, y = ready((4, 3, 5), dtype)
    value: Any = dtype == "bool" or (1.3 if dtype.startswith("float") else 3)
    for key in [(1, 2, 3), (-1, -3, 0), 2, (3, 1), (0, 0, 0)]:
        x[key] = value
        y[key] = value
        np.testing.assert_array_equal(np.asarray(x), y)
        np.testing.assert_array_equal(np.asarray(x[key]), y[key])
        assert x.dtype == dtype and x[key].dtype == dtype


def test_narrow_and_complex_elements() -> None:
    x = lnp.zeros(4, "bfloat16") + 1
    x.block_until_ready()
    x[2] = 1.00390625  # half way between two: to even
    assert x.tolist() == [1, 1, 1, 1] and str(x.dtype) == "bfloat16"
    z = lnp.zeros(3, "complex64").block_until_ready()
    z[1], z[2] = 2 - 1j, 3
    assert z.tolist() == [0, 2 - 1j, 3]


def test_whoever_had_the_elements_keeps_them() -> None:
    x, y = ready((6,), "float32")
    held = {
        "a pending sum": x + 0,
        "a copy": x.copy(),
        "another form": lnp.asarray(x) * 1,
        "NumPy's view": np.asarray(x),
        "a part": x[2:5],
        "an element": x[3],
        "a container": [x + 1],
    }
    expected = {
        "a pending sum": y, "a copy": y, "another form": y, "NumPy's view": y, "a part": y[2:5], "an element": y[3],
        "a container": [y + 1],
    }  # fmt: skip
    expected = {k: np.array(v) for k, v in expected.items()}
    for i in range(6):
        x[i] = 100 + i
    for name, value in held.items():
        np.testing.assert_array_equal(
            np.asarray(value).reshape(expected[name].shape), expected[name], err_msg=name
        )
    assert x.tolist() == [100, 101, 102, 103, 104, 105]


def test_a_view_of_memory_that_is_still_there_is_not_written_to() -> None:
    x = lnp.zeros(5).block_until_ready()
    view = memoryview(np.asarray(x))
    x[0] = 7.0
    assert view[0] == 0 and float(x[0]) == 7
    source = np.arange(4.0)
    y = lnp.from_dlpack(source)
    y[1] = 9.0
    assert source.tolist() == [0, 1, 2, 3] and y.tolist() == [0, 9, 2, 3]


def test_jitted_functions_see_what_was_written() -> None:
    x = lnp.zeros(3).block_until_ready()

    @lm.jit
    def total() -> Any:
        return x.sum()

    @lm.jit
    def double(v: Any) -> Any:
        return v * 2

    for i in range(3):
        assert float(total()) == i
        twice = double(x)
        x[i] = 1.0
        x[i] = 1.0
        assert float(total()) == i + 1
        assert twice.sum() == 2 * i


def test_names_of_one_tensor_see_its_writes() -> None:
    x = lnp.zeros(3).block_until_ready()
    same, kept = x, [x]
    x[1] = 4.0
    assert same.tolist() == kept[0].tolist() == [0, 4, 0]


def test_writes_inside_transforms_are_part_of_them() -> None:
    def f(v: Any) -> Any:
        w = lnp.zeros(3)
        w[0] = v * 2
        w[1] = 5.0
        w[2] = w[0] * v
        return w.sum()

    assert float(lm.grad(f)(3.0)) == pytest.approx(2 + 4 * 3)
    assert lm.vmap(f)(lnp.array([1.0, 2.0])).tolist() == [9, 17]
    assert float(lm.jit(f)(2.0)) == 17
    outer = lnp.zeros(3).block_until_ready()
    with pytest.raises(TypeError, match="made outside"):
        lm.jit(lambda v: outer.__setitem__(0, 1.0))(1.0)
    assert outer.tolist() == [0, 0, 0]


def test_what_is_refused_stays_as_it_was() -> None:
    x, y = ready((4,), "int32")
    for key, value, error in [
        (4, 1, IndexError),
        (-5, 1, IndexError),
        ((0, 0), 1, IndexError),
        (1, 2**40, OverflowError),
        (1, [1, 2], ValueError),
    ]:
        with pytest.raises(error):
            x[key] = value
        np.testing.assert_array_equal(np.asarray(x), y)
    part = x[1:]
    with pytest.raises(TypeError, match="part or another form"):
        part[0] = 5
    assert x.tolist() == y.tolist()


def test_weak_arrays_keep_their_numbers() -> None:
    x = lnp.asarray(0.1)
    x[()] = 0.2
    assert (x * lnp.ones((), "float64")).item() == pytest.approx(0.2, abs=1e-7)


def test_donated_arrays_are_not_written() -> None:
    x = lnp.zeros(3).block_until_ready()
    lm.jit(lambda v: v + 1, donate_argnums=0)(x)
    with pytest.raises(TypeError, match="donated"):
        x[0] = 1.0
        x.block_until_ready()


@pytest.mark.parametrize("seed", range(20))
def test_random_writes_and_reads(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = ready((5, 4), "float32")
    held: list[tuple[Any, Any]] = []
    for _ in range(60):
        i, j = (int(v) for v in rng.integers(-4, 4, 2))
        match int(rng.integers(0, 8)):
            case 0:
                x[i, j], y[i, j] = 2.5, 2.5
            case 1:
                x[i], y[i] = j, j
            case 2:
                held.append((x + 1, y + 1))
            case 3:
                held.append((x[i, j], y[i, j].copy()))
            case 4:
                x[i, j], y[i, j] = x[j, i], y[j, i]
            case 5:
                held.append((np.asarray(x), y.copy()))
            case 6:
                x[i], y[i] = x[j] * 2, y[j] * 2
            case _:
                x, y = x * 1, y * 1
    held.append((x, y))
    for ours, theirs in held:
        np.testing.assert_array_equal(np.asarray(ours), theirs)
