"""Steps that work on the same rows run together, block of rows by block (jit/program/row_chain.h)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from device_support import ON_CUDA

ROWS, COLUMNS = 3000, 130


def report(f: Callable[..., Any], *args: Any) -> str:
    """Jits `f`, runs it, and gives the report of its entry."""
    f(*args)
    entry = int(lm.cache.show().splitlines()[1].split()[0])
    return lm.cache.explain(entry)


@pytest.fixture
def x() -> np.ndarray:
    lm.cache.clear()
    return np.random.default_rng(3).standard_normal((ROWS, COLUMNS), dtype=np.float32)


def in_small_parts(f: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    """`f` of a few rows at a time: nothing there is large enough to run in blocks."""
    return np.concatenate([np.asarray(f(lnp.asarray(x[i : i + 60]))) for i in range(0, len(x), 60)])


def normalised(x: Any) -> Any:
    centred = x - lnp.mean(x, axis=-1, keepdims=True)
    return centred / lnp.sqrt(lnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)


def mirrored(x: Any) -> Any:
    """Reads what the chain wrote at other columns of its own row."""
    e = lnp.exp(x)
    total = lnp.sum(e, axis=-1, keepdims=True)
    return lnp.exp(e / total) + (e * total)[:, ::-1]


@pytest.mark.parametrize("f", [lm.nn.softmax, lm.nn.log_softmax, normalised, mirrored])
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_together_have_the_bits_of_few_rows(
    f: Callable[[Any], Any], threads: int, x: np.ndarray
) -> None:
    with lm.threads(threads):
        jitted = lm.jit(f)
        assert "together" in report(jitted, lnp.asarray(x))
        got = np.asarray(jitted(lnp.asarray(x)))
    np.testing.assert_array_equal(got, in_small_parts(f, x))


def test_a_softmax_is_one_chain_that_needs_no_large_temporary(x: np.ndarray) -> None:
    text = report(lm.jit(lm.nn.softmax), lnp.asarray(x))
    assert "steps 0 to 3 together" in text
    held = int(text.split("holds at most ")[1].split(" bytes")[0].replace(",", ""))
    assert held < x.nbytes * (2.2 if ON_CUDA else 1.2)


@pytest.mark.parametrize(
    "f",
    [
        # Rows need other rows of what came before: in the other order, all of them, their columns as rows.
        lambda np_, x: np_.sum(np_.exp(x)[::-1] * np_.max(x, axis=1, keepdims=True), axis=1),
        lambda np_, x: np_.exp(x) / np_.sum(np_.exp(x), axis=0, keepdims=True),
        lambda np_, x: np_.exp(x - np_.max(x)) * np_.sum(x, axis=1, keepdims=True),
        lambda np_, x: np_.sum(np_.exp(np_.exp(x) / np_.sum(np_.exp(x))), axis=1),
    ],
)
def test_rows_that_need_other_rows(f: Callable[[Any, Any], Any], x: np.ndarray) -> None:
    got = lm.jit(lambda x: f(lnp, x))(lnp.asarray(x))
    np.testing.assert_allclose(np.asarray(got), f(np, x.astype(np.float64)), rtol=2e-4, atol=1e-4)


def test_given_up_arguments_are_written_over_row_by_row(x: np.ndarray) -> None:
    jitted = lm.jit(lm.nn.softmax, donate_argnums=0)
    expected = np.asarray(lm.jit(lm.nn.softmax)(lnp.asarray(x)))
    for _ in range(3):
        np.testing.assert_array_equal(np.asarray(jitted(lnp.array(x))), expected)


def test_gradients_run_in_chains(x: np.ndarray) -> None:
    def loss(x: Any) -> Any:
        return -lnp.mean(lm.nn.log_softmax(x)[:, 0])

    got = np.asarray(lm.jit(lm.grad(loss))(lnp.asarray(x)))
    p = np.exp(x.astype(np.float64))
    p /= p.sum(1, keepdims=True)
    p[:, 0] -= 1
    np.testing.assert_allclose(got, p / ROWS, rtol=1e-4, atol=1e-9)


@pytest.mark.skipif(ON_CUDA, reason="matrix routines are the host's")
@pytest.mark.parametrize("threads", [1, 2])
def test_matrices_of_a_batch_go_through_all_routines_together(threads: int) -> None:
    def f(a: Any, y: Any) -> Any:
        factor = lnp.linalg.cholesky(a @ lnp.swapaxes(a, -1, -2) + lnp.eye(9, dtype="float32"))
        return lnp.linalg.solve(factor + a, y) * 2

    rng = np.random.default_rng(5)
    a = rng.standard_normal((3001, 9, 9), dtype=np.float32)
    y = rng.standard_normal((3001, 9, 2), dtype=np.float32)
    lm.cache.clear()
    with lm.threads(threads):
        jitted = lm.jit(f)
        text = report(jitted, lnp.asarray(a), lnp.asarray(y))
        got = np.asarray(jitted(lnp.asarray(a), lnp.asarray(y)))
    assert "together" in text
    together = text.split(" together")[0].rsplit("steps ", 1)[1].split(" to ")
    steps = [line for line in text.splitlines() if line.startswith("step ") and "lamina." in line]
    numbers = [int(line.split()[1].rstrip(":")) for line in steps]
    assert ["lamina.mean_cholesky" in steps[0], "lamina.solve" in steps[-1]] == [True, True]
    assert len(numbers) == 2 and int(together[0]) <= numbers[0] and numbers[-1] <= int(together[1])
    few = [np.asarray(f(lnp.asarray(a[i : i + 7]), lnp.asarray(y[i : i + 7]))) for i in range(0, 3001, 7)]
    np.testing.assert_array_equal(got, np.concatenate(few))


def test_the_rows_of_one_matrix_are_no_batch() -> None:
    rng = np.random.default_rng(6)
    a, x = rng.standard_normal((6, 6)), rng.standard_normal((6, 50_000))
    got = lm.jit(lambda a, x: lnp.linalg.solve(a, a[:, :1] * 2 + 1) * x)(lnp.asarray(a), lnp.asarray(x))
    np.testing.assert_allclose(np.asarray(got), np.linalg.solve(a, a[:, :1] * 2 + 1) * x, rtol=1e-9)
