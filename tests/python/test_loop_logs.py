"""Gradients of loops of which only the data know how many steps they take, by a log of what the steps leave.

The number of steps is taken from around the lengths of logs and of the parts that sums over steps are made of.
"""

from __future__ import annotations

import re
from typing import Any

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax

RNG = np.random.default_rng(29)
STEPS = [0, 1, 2, 31, 32, 33, 64, 127, 128, 129, 160, 1023, 1151, 1152, 1153, 1300]


def arrays(n: int, dtype: str = "float64") -> tuple[Any, Any]:
    w = RNG.standard_normal((n, n)) / n**0.5
    return lnp.asarray(w, dtype), lnp.asarray(RNG.standard_normal(n), dtype)


def recur(w: Any, x: Any) -> Any:
    return lnp.tanh(w @ x) * 0.5 + x * 0.5


def while_of(w: Any, x: Any, steps: Any) -> Any:
    return lax.while_loop(lambda s: s[1] < steps, lambda s: (recur(w, s[0]), s[1] + 1), (x, lnp.asarray(0)))[
        0
    ]


def scan_of(w: Any, x: Any, steps: int) -> Any:
    return lax.scan(lambda c, _: (recur(w, c), None), x, None, length=steps)[0]


def plan_of(f: Any, *args: Any) -> str:
    return lm.jit(f).lower(*args).compile().as_text()


def loss(x: Any) -> Any:
    return lnp.sum(x * lnp.arange(1.0, x.shape[0] + 1, dtype=x.dtype))


@pytest.mark.parametrize("n", [3, 7, 10, 20, 40])
def test_gradients_are_those_of_a_scan_of_so_many_steps(n: int):
    w, x = arrays(n)
    g = lm.jit(lm.grad(lambda w, x, steps: loss(while_of(w, x, steps)), argnums=(0, 1)))
    for steps in STEPS:
        want = lm.jit(lm.grad(lambda w, x, steps=steps: loss(scan_of(w, x, steps)), argnums=(0, 1)))(w, x)
        for got, expected in zip(g(w, x, lnp.asarray(steps)), want, strict=True):
            np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-10, atol=1e-12)


def test_gradients_of_more_steps_than_the_longest_log_has_rows():
    w, x = arrays(10)
    g = lm.jit(lm.grad(lambda w, x, steps: loss(while_of(w, x, steps)), argnums=(0, 1)))
    for steps in (5000, 12000):
        want = lm.grad(lambda w, x, steps=steps: loss(scan_of(w, x, steps)), argnums=(0, 1))(w, x)
        for got, expected in zip(g(w, x, lnp.asarray(steps)), want, strict=True):
            np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=1e-9, atol=1e-12)


def test_of_a_log_with_steps_that_are_not_finite_the_rest_is_left_out():
    # Rows that no step has written are zeros, and add nothing to sums that are not finite.
    w, x = arrays(10, "float32")
    dw, _ = lm.grad(lambda w, x: loss(while_of(w, x, 3)), argnums=(0, 1))(w.at[0, 0].set(lnp.inf), x)
    want, _ = lm.grad(lambda w, x: loss(scan_of(w, x, 3)), argnums=(0, 1))(w.at[0, 0].set(lnp.inf), x)
    np.testing.assert_array_equal(np.isnan(np.asarray(dw)), np.isnan(np.asarray(want)))


def test_sums_over_steps_are_made_after_the_loop():
    w, x = arrays(30, "float32")
    plan_of(lm.grad(lambda w, x: loss(while_of(w, x, lnp.sum(x > -9)))), w, x)
    text = lm.cache.listing(lm.cache.entries()[0]["id"], "plan")
    assert re.search(r"dot f32\[32,30\] f32\[32,30\]", text) and "dot f32[30] f32[30]," not in text, text
    # Of a state of a few numbers the way back is one kernel, though the matrix is too large to be written in it.
    w, x = arrays(9, "float32")
    text = plan_of(lm.grad(lambda w, x: loss(while_of(w, x, lnp.sum(x > -9)))), w, x)
    assert len(re.findall(r"^step \d+: loop 1 x 1 in steps", text, re.M)) == 2, text


def sinkhorn(c: Any, with_error: bool) -> tuple[Any, Any, Any]:
    k = lnp.exp(-c * c)
    u = lnp.ones(c.shape[0], c.dtype)

    def step(s: Any) -> Any:
        u, v, _, i = s
        v = 1 / (k.T @ u)
        after = 1 / (k @ v)
        return after, v, lnp.max(lnp.abs(after - u)) if with_error else lnp.asarray(1.0, c.dtype), i + 1

    out = lax.while_loop(lambda s: (s[2] > 1e-9) & (s[3] < 40), step, (u, u, lnp.asarray(1.0, c.dtype), 0))
    return out[0], out[1], out[2]


@pytest.mark.parametrize("which", [(0,), (1,), (2,), (0, 1), (0, 2), (0, 1, 2)])
def test_results_without_a_cotangent_take_no_part(which: tuple[int, ...]):
    c = lnp.asarray(RNG.standard_normal((6, 6)) * 0.3)
    weights = lnp.asarray(RNG.standard_normal(6))

    def f(c: Any) -> Any:
        out = sinkhorn(c, True)
        return sum(lnp.sum(out[i] * (weights if i < 2 else 1)) for i in which)

    for g in (lm.grad(f), lm.jit(lm.grad(f))):
        got = np.asarray(g(c))
        d = 1e-6
        for at in [(0, 0), (2, 5), (4, 1)]:
            slope = (float(f(c.at[at].add(d))) - float(f(c.at[at].add(-d)))) / (2 * d)
            np.testing.assert_allclose(got[at], slope, rtol=2e-5, atol=1e-8)


def test_a_measure_of_the_error_costs_the_way_back_nothing():
    c = lnp.asarray(RNG.standard_normal((20, 20)) * 0.3, "float32")
    plans = [plan_of(lm.grad(lambda c, e=e: loss(sinkhorn(c, e)[0])), c) for e in (True, False)]
    back = [re.findall(r"while, (\d+) steps", p) for p in plans]
    assert back[0][2:] == back[1][2:] and len(back[0]) == len(back[1]), back


def test_second_derivatives_and_batches_of_part_of_the_results():
    c = lnp.asarray(RNG.standard_normal((3, 4, 4)) * 0.3)
    v = lnp.asarray(RNG.standard_normal((4, 4)))
    f = lambda c: loss(sinkhorn(c, True)[0])  # noqa: E731
    np.testing.assert_allclose(
        np.asarray(lm.vmap(lm.grad(f))(c)), np.stack([np.asarray(lm.grad(f)(x)) for x in c]), rtol=1e-10
    )
    hvp = lm.jvp(lm.grad(f), (c[0],), (v,))[1]
    d = 1e-6
    slopes = (np.asarray(lm.grad(f)(c[0] + d * v)) - np.asarray(lm.grad(f)(c[0] - d * v))) / (2 * d)
    np.testing.assert_allclose(np.asarray(hvp), slopes, rtol=1e-4, atol=1e-6)
    twice = lm.grad(lambda c: lnp.sum(lm.grad(f)(c) * v))(c[0])
    np.testing.assert_allclose(np.asarray(twice), np.asarray(hvp), rtol=1e-8, atol=1e-10)


def test_of_lanes_that_take_another_branch():
    c = lnp.asarray(RNG.standard_normal((3, 4, 4)) * 0.3)
    slope = lm.grad(lambda c: loss(sinkhorn(c, True)[0]))
    got = lm.vmap(lambda c, p: lax.cond(p, slope, lambda c: c, c))(c, lnp.asarray([True, False, True]))
    want = [np.asarray(slope(x)) if i != 1 else np.asarray(x) for i, x in enumerate(c)]
    np.testing.assert_allclose(np.asarray(got), np.stack(want), rtol=1e-10)


def test_what_no_step_changes_is_not_kept_for_each_of_them():
    # Also where the step makes it, and is a function of its own.
    n, steps = 64, 50
    w, x = arrays(n, "float32")
    step = lm.jit(lambda c, w: lnp.sin(w.T @ c + lnp.exp(w) @ c))
    f = lambda w, x: loss(lax.scan(lambda c, _: (step(c, w), None), x, None, length=steps)[0])  # noqa: E731
    lm.jit(lm.grad(f))(w, x).block_until_ready()
    assert lm.cache.entries()[0]["peak_bytes"] < 8 * n * n * 4
