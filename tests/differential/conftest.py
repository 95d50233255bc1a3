"""Each of these tests compiles programs of its own, here and in JAX, which nobody needs once it has ended."""

import jax
import lamina as lm
import pytest

KEPT = 500  # tests whose programs are kept: a part of them is asked for again by the next ones

_ended = 0


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """All of a run's would be gigabytes in each process."""
    global _ended
    _ended += 1
    if _ended % KEPT == 0:
        lm.cache.clear()
        jax.clear_caches()
