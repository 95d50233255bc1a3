"""Doing the same again keeps nothing: nodes, attributes, entries of the cache and memory stay as they were."""

import gc

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax

X = lnp.arange(4.0) + 1


def scan():
    return lax.scan(lambda c, x: (c + x, c * x), 0.0, X)[1]


def while_loop():
    return lax.while_loop(lambda c: c < 5, lambda c: c + 1, 0)


def cond():
    return lax.cond(X[0] > 0, lambda x: x * 2, lambda x: x + 1, X)


def captured():
    y = X * 2
    return lax.scan(lambda c, x: (c + x + y.sum(), c), 0.0, X)[1]


def checkpoint():
    return lm.checkpoint(lambda x: lnp.sin(x) * 2)(X)


def grad_of_checkpoint():
    return lm.grad(lambda x: lm.checkpoint(lambda y: lnp.sin(lnp.cos(y)).sum())(x))(X)


def grad_of_two_checkpoints():
    @lm.checkpoint
    def layer(x):
        return lnp.tanh(x) * 2

    return lm.grad(lambda x: layer(layer(x)).sum())(X)


def grad_of_scan():
    return lm.grad(lambda x: lax.scan(lambda c, y: (c + y * y, c), 0.0, x)[0])(X)


def vmap_of_scan():
    return lm.vmap(lambda x: lax.scan(lambda c, y: (c + y * x, c), 0.0, X)[0])(X)


def grad_of_cond():
    return lm.grad(lambda x: lax.cond(x.sum() > 0, lambda y: (y * 2).sum(), lambda y: y.sum(), x))(X)


def jvp_of_while():
    return lm.jvp(lambda x: lax.while_loop(lambda c: c.sum() < 50, lambda c: c * 2, x), (X,), (X,))[1]


def fresh_jvp():
    @lm.custom_jvp
    def f(x):
        return x * 2

    f.defjvp(lambda primals, tangents: (f(primals[0]), tangents[0] * 2))
    return lm.grad(lambda x: f(x).sum())(X)


def fresh_vjp():
    @lm.custom_vjp
    def f(x):
        return x * 2

    f.defvjp(lambda x: (f(x), ()), lambda residuals, g: (g * 2,))
    return lm.grad(lambda x: f(x).sum())(X)


def vmap_of_fresh_jvp():
    @lm.custom_jvp
    def f(x):
        return x * 2

    f.defjvp(lambda primals, tangents: (f(primals[0]), tangents[0] * 2))
    return lm.vmap(lm.grad(lambda x: f(x).sum()))(lnp.stack([X, X]))


def fresh_callback():
    return lm.pure_callback(lambda x: x * 2, lm.ShapeDtype((4,), "float32"), X)


PROGRAMS = [
    scan,
    while_loop,
    cond,
    captured,
    checkpoint,
    grad_of_checkpoint,
    grad_of_two_checkpoints,
    grad_of_scan,
    vmap_of_scan,
    grad_of_cond,
    jvp_of_while,
    fresh_jvp,
    fresh_vjp,
    vmap_of_fresh_jvp,
    fresh_callback,
]


def resident_kib():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * 4


def counters():
    gc.collect()
    stats = lm.cache.stats()
    return {
        k: stats[k] for k in ("live_nodes", "live_attributes", "live_bytes", "entries", "misses", "kernels")
    }


def repeat(program, steps):
    for _ in range(steps):
        np.asarray(program())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_the_same_again_leaves_nothing(program):
    repeat(program, 300)
    before = counters()
    repeat(program, 600)
    assert counters() == before


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_memory_stays_constant_over_200_000_steps(program):
    repeat(program, 5_000)
    before, memory = counters(), resident_kib()
    repeat(program, 200_000)
    assert counters() == before
    assert resident_kib() < memory + 4096


def test_a_rule_lives_as_long_as_a_call_of_it():
    def make():
        @lm.custom_jvp
        def f(x):
            return x * 2

        f.defjvp(lambda primals, tangents: (f(primals[0]), tangents[0] * 7))
        return lm.jit(lambda x: f(x).sum())

    g = make()
    gc.collect()
    assert np.asarray(lm.grad(g)(X)).tolist() == [7] * 4
    for _ in range(50):
        make()
    gc.collect()
    assert np.asarray(lm.grad(g)(X)).tolist() == [7] * 4


def test_what_a_dropped_rule_held_is_let_go():
    class Held:
        pass

    import weakref

    def use():
        held = Held()

        @lm.custom_jvp
        def f(x):
            return x * 2

        def rule(primals, tangents):
            assert held
            return f(primals[0]), tangents[0] * 2

        f.defjvp(rule)
        np.asarray(lm.grad(lambda x: f(x).sum())(X))
        return weakref.ref(held)

    refs = [use() for _ in range(40)]
    np.asarray(lm.grad(lambda x: lm.checkpoint(lambda y: y.sum())(x))(X))
    gc.collect()
    alive = sum(r() is not None for r in refs)
    assert alive <= 17, alive  # those that this thread interned last


def test_equal_checkpoints_have_one_key():
    grad_of_checkpoint().numpy()
    misses = lm.cache.stats()["misses"]
    for _ in range(5):
        grad_of_checkpoint().numpy()
    assert lm.cache.stats()["misses"] == misses
