"""Products in scans with weights that no step changes: before the loop, after it, and their sums by one product."""

from __future__ import annotations

import re

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax
from lax_support import array, value

STEPS, BATCH, WIDE, DEEP = 9, 3, 16, 24


def recurrent(c, x, w, u):
    return lnp.tanh(c @ w + x @ u)


def gated(c, x, w, u):
    z = 1 / (1 + lnp.exp(-(c @ w + x @ u)))
    return (1 - z) * c + z * lnp.tanh((z * c) @ w + x @ u)


def weights_first(c, x, w, u):
    return lnp.sin(w.T @ c.T + u.T @ x.T).T


def with_other_uses(c, x, w, u):
    return lnp.cos(c @ w + x @ u) * lnp.sum(u) + w[0]


def scan(step, reverse=False):
    def f(w, u, xs, c):
        def one(c, x):
            after = step(c, x, w, u)
            return after, after @ u.T

        c, ys = lax.scan(one, c, xs, reverse=reverse)
        return c, ys

    return f


def unrolled(step, reverse=False):
    def f(w, u, xs, c):
        ys = [None] * STEPS
        for t in reversed(range(STEPS)) if reverse else range(STEPS):
            c = step(c, xs[t], w, u)
            ys[t] = c @ u.T
        return c, lnp.stack(ys)

    return f


def operands(batch, dtype="float64"):
    r = np.random.default_rng(5)
    shapes = (WIDE, WIDE), (DEEP, WIDE), (STEPS, *batch, DEEP), (*batch, WIDE)
    return [array((r.normal(size=s) / 4).astype(dtype)) for s in shapes]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("batch", [(BATCH,), ()], ids=["rows", "one row"])
@pytest.mark.parametrize("step", [recurrent, gated, weights_first, with_other_uses])
def test_results_have_the_bits_of_the_unrolled_loop_and_slopes_its_values(step, batch, reverse):
    a = operands(batch)

    def loss(f):
        def g(*a):
            c, ys = f(step, reverse)(*a)
            return lnp.sum(c * c) + lnp.sum(lnp.sin(ys))

        return g

    for got, want in zip(lm.jit(scan(step, reverse))(*a), lm.jit(unrolled(step, reverse))(*a), strict=True):
        np.testing.assert_array_equal(value(got), value(want))
    grads = [lm.jit(lm.grad(loss(f), argnums=(0, 1, 2, 3))) for f in (scan, unrolled)]
    eager = lm.grad(loss(scan), argnums=(0, 1, 2, 3))(*a)
    for got, plain, want in zip(grads[0](*a), eager, grads[1](*a), strict=True):
        np.testing.assert_array_equal(value(got), value(plain))
        np.testing.assert_allclose(value(got), value(want), rtol=1e-11, atol=1e-12)


def test_only_the_product_with_the_state_is_left_in_each_loop():
    a = operands((BATCH,), "float32")
    g = lm.jit(lm.grad(lambda *a: lnp.sum(scan(recurrent)(*a)[1] ** 2), argnums=(0, 1, 2, 3)))
    lm.block_until_ready(g(*a))
    steps = lm.cache.listing(lm.cache.entries()[0]["id"], "steps").split("memory:")[0]
    loops = re.findall(r"scan of 9, (\d+) steps", steps)
    # The product with the state and the rest of a step; before and after: of xs by u, of ys, and of the way back by
    # and through each of these two and, through alone, w.
    assert (loops, len(re.findall(": dot[_ ]", steps))) == (["2", "2"], 7), steps


@pytest.mark.parametrize("doubled", [False, True])
def test_a_sum_that_each_step_reads_is_made_in_the_loop(doubled):
    """The cotangent of the state is what a step adds a product to, and what the cotangents of xs are."""
    _, _, _, c = operands((BATCH,))
    r = np.random.default_rng(8)
    xs, ws = array(r.normal(size=(STEPS, BATCH, WIDE))), array(r.normal(size=(STEPS, WIDE, WIDE)))

    def one(c, x, w):
        after = c + x + x if doubled else c + x
        return after, after @ w

    def scanned(ws, xs, c):
        return lnp.sum(lnp.sin(lax.scan(lambda c, x: one(c, *x), c, (xs, ws))[1]))

    def unrolled(ws, xs, c):
        total = 0.0
        for t in range(STEPS):
            c, y = one(c, xs[t], ws[t])
            total = total + lnp.sum(lnp.sin(y))
        return total

    grads = [lm.grad(f, argnums=(0, 1, 2))(ws, xs, c) for f in (scanned, unrolled)]
    for got, want in zip(*grads, strict=True):
        np.testing.assert_allclose(value(got), value(want), rtol=1e-11, atol=1e-12)


def test_sums_of_sums_without_end_are_not_gone_through():
    x, w = array(np.ones(WIDE) / 4), array(np.eye(WIDE) / 2)

    def one(c, _):
        for _ in range(40):
            c = c + c
        return c / 2**40 @ w, None

    slope = lm.grad(lambda x: lnp.sum(lax.scan(one, x, None, length=3)[0]))(x)
    np.testing.assert_allclose(value(slope), np.full(WIDE, 0.125))


def test_second_derivatives_and_batches():
    w, u, xs, c = operands(())
    f = scan(gated)

    def loss(w, v):
        return lnp.sum(f(w, u, xs, c)[0] * v)

    v = array(np.random.default_rng(6).normal(size=(4, WIDE)))
    slopes = value(lm.jit(lm.vmap(lm.grad(loss), (None, 0)))(w, v))
    for lane in range(4):
        np.testing.assert_allclose(slopes[lane], value(lm.grad(loss)(w, v[lane])), rtol=1e-11, atol=1e-13)
    along = array(np.random.default_rng(7).normal(size=(WIDE, WIDE)))
    twice = value(lm.jit(lm.grad(lambda w: lnp.sum(lm.grad(loss)(w, v[0]) * along)))(w))
    by = 1e-5
    up, down = (value(lm.grad(loss)(w + s * by * along, v[0])) for s in (1, -1))
    np.testing.assert_allclose(twice, (up - down) / (2 * by), rtol=1e-5, atol=1e-8)
