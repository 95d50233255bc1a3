"""What the caches keep is bounded in bytes as well as in number, and let go of on request."""

import gc
import itertools
import subprocess
import sys
from collections.abc import Iterator

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import _core


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    lm.cache.clear()
    yield
    _core.set_cache_limits()
    lm.cache.clear()


def chain(length: int, scale: float) -> lm.Tensor:
    """A program that no other length or scale shares, and its value."""
    x = lnp.linspace(0.1, 1.0, 7, dtype=np.float64)
    for k in range(length):
        x = lnp.sin(x) * scale if k % 2 else lnp.cumsum(x) / (k + 2)
    return x


def expected(length: int, scale: float) -> np.ndarray:
    x = np.linspace(0.1, 1.0, 7)
    for k in range(length):
        x = np.sin(x) * scale if k % 2 else np.cumsum(x) / (k + 2)
    return x


def bytes_of(length: int) -> int:
    """Of such a program."""
    before = lm.cache.stats()["entry_bytes"]
    np.asarray(chain(length, 1.0))
    return lm.cache.stats()["entry_bytes"] - before


kept = pytest.mark.not_on_cuda(reason="kernels are not kept there beyond their programs")


def test_programs_are_bounded_in_bytes():
    one = bytes_of(20)
    assert one > 0
    _core.set_cache_limits(entry_bytes=4 * one)
    lm.cache.clear()
    for length in (*range(10, 21), *range(10, 21)):
        np.testing.assert_allclose(np.asarray(chain(length, 0.75)), expected(length, 0.75), rtol=1e-12)
        assert lm.cache.stats()["entry_bytes"] <= 4 * one
    stats = lm.cache.stats()
    assert stats["evictions"] > 0
    assert stats["entry_bytes"] == sum(e["bytes"] for e in lm.cache.entries())
    lm.cache.clear()
    assert lm.cache.stats()["entry_bytes"] == 0


def test_a_program_larger_than_the_limit_is_kept_while_it_is_the_newest():
    _core.set_cache_limits(entry_bytes=1)
    f = lm.jit(lambda x: chain(12, 0.5) + x)
    for _ in range(3):
        np.testing.assert_allclose(np.asarray(f(1.0)), expected(12, 0.5) + 1, rtol=1e-12)
    assert lm.cache.stats()["entries"] == 1


def test_nodes_inside_loops_count():
    def f(x, length):
        def body(_, y):
            for k in range(length):
                y = lnp.sin(y) * lnp.float64(0.5 + k)
            return y

        return lm.lax.fori_loop(0, 3, body, x)

    x = lnp.ones(3, np.float64)
    sizes = []
    for length in (2, 40):
        lm.cache.clear()
        np.asarray(lm.jit(lambda x, n=length: f(x, n))(x))
        sizes.append(max(e["bytes"] for e in lm.cache.entries()))
    assert sizes[1] > 3 * sizes[0], sizes


@kept
def test_kernels_that_nothing_uses_are_bounded_in_bytes():
    np.asarray(chain(10, 1.0))
    one = lm.cache.stats()["kernel_bytes"]
    assert one > 0
    _core.set_cache_limits(entries=1, kernel_bytes=one)
    kept = []
    for length in range(3, 40):
        x = lnp.linspace(0.1, 1.0, 7, dtype=np.float64)
        y = np.linspace(0.1, 1.0, 7)
        for k in range(length):  # one kernel each, of another text
            x, y = (lnp.sin(x), np.sin(y)) if k % 3 else (x * x, y * y)
        np.testing.assert_allclose(np.asarray(x), y, rtol=1e-12)
        kept.append(lm.cache.stats()["kernel_bytes"])
    largest = max(b - a for a, b in itertools.pairwise(kept))
    assert max(kept) <= 2 * (one + 2 * largest), (one, kept)


@kept
def test_clear_lets_go_of_kernels():
    f = lm.jit(lambda x: lnp.sin(x) * lnp.exp(x) + lnp.cumsum(x))
    x = lnp.linspace(0.1, 1.0, 9)
    want = np.asarray(f(x))
    before = lm.cache.stats()["kernel_bytes"]
    assert before > 0
    del f
    gc.collect()
    lm.cache.clear()
    assert lm.cache.stats()["kernel_bytes"] < before
    again = lm.jit(lambda x: lnp.sin(x) * lnp.exp(x) + lnp.cumsum(x))
    np.testing.assert_array_equal(np.asarray(again(x)), want)


_GROWTH = """
import gc
import pathlib
import lamina as lm
import lamina.numpy as lnp

def resident():
    pages = pathlib.Path("/proc/self/statm").read_text().split()
    return int(pages[1]) - int(pages[2])  # without the code of LLVM, which is loaded at some time

def program(n):
    def f(x):
        y = x
        for k in range(60):
            y = (lnp.sin, lnp.exp, lnp.tanh, lambda t: t - t.mean(), lambda t: t * 0.5 + x)[(k * n) % 5](y) * 0.5
        return lm.lax.fori_loop(0, 5, lambda i, c: c * 0.9 + y, x).sum()
    return lm.jit(lm.grad(f))

def run(n):
    program(n)(lnp.linspace(0, 1, 100 + n)).tolist()

run(1)
lm.cache.clear()
start = resident()
for n in range(2, 50):
    run(n)
full = resident()
gc.collect()  # of what a jitted function holds, some holds it
lm.cache.clear()
print((full - start) * 4096, (resident() - start) * 4096)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads what Linux tells of a process")
def test_clear_gives_memory_back_to_the_system():
    grown, left = map(int, subprocess.check_output([sys.executable, "-c", _GROWTH], text=True).split())
    assert grown > 8 << 20
    assert left < 0.75 * grown, (grown, left)
