"""Doing the same again keeps nothing: nodes, attributes, entries of the cache and memory stay as they were."""

import gc
import time

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


def fresh_reference():
    @lm.custom_vjp
    def f(r, x):
        return x * 2

    def backward(r, g):
        r[...] = g
        return None, g * 2

    f.defvjp(lambda r, x: (f(r, x), r), backward)
    r = lm.new_ref(X)
    return lm.grad(lambda x: f(r, f(r, x)).sum())(X) + r[...]


def vmap_of_fresh_jvp():
    @lm.custom_jvp
    def f(x):
        return x * 2

    f.defjvp(lambda primals, tangents: (f(primals[0]), tangents[0] * 2))
    return lm.vmap(lm.grad(lambda x: f(x).sum()))(lnp.stack([X, X]))


def fresh_callback():
    return lm.pure_callback(lambda x: x * 2, lm.ShapeDtype((4,), "float32"), X)


def fresh_jacobians():
    return lm.jacfwd(lambda x: lnp.sin(x) * x)(X) + lm.jacrev(lambda x: lnp.cos(x) * x)(X)


def fresh_hessian():
    return lm.hessian(lambda x: (lnp.sin(x) * x).sum())(X)


def fresh_shapes():
    return lnp.zeros(lm.eval_shape(lambda x: lnp.sin(x) * x, X).shape)


def fresh_value_and_grad():
    return lm.value_and_grad(lambda x: ((lnp.sin(x) * x).sum(), x * 2), has_aux=True)(X)[1]


def fresh_linear_functions():
    push = lm.linearize(lambda x: lnp.sin(x) * x, X)[1]
    pull = lm.vjp(lambda x: lnp.cos(x) * x, X)[1]
    return push(X) + pull(X)[0] + lm.linear_transpose(lambda x: x * 3, X)(X)[0]


def fresh_jitted_transforms():
    f = lm.jit(lambda x: lm.vmap(lambda y: y * y)(x).sum())
    return lm.jit(lm.grad(f))(X) + lm.jvp(f, (X,), (X,))[1]


def fresh_closures():
    w = X * 2
    converted, arrays = lm.closure_convert(lambda x: w * x, X)
    text = lm.make_trace(lambda x: lnp.sin(x) * w)(X)
    return converted(X, *arrays) + len(text.eqns)


def fresh_map_of_a_linear_part():
    @lm.custom_vjp
    def f(x):
        return x * 2

    f.defvjp(lambda x: (f(x), x), lambda x, g: (g * x,))
    push = lm.linearize(lambda x: f(x).sum(), X)[1]
    return lm.linear_transpose(lm.vmap(push), lnp.stack([X, X]))(X[:2])[0]


def fresh_second_derivative_of_a_while():
    @lm.custom_jvp
    def f(x):
        return x * 0.5

    f.defjvp(lambda p, t: (p[0] * 0.5, t[0] * 0.5))
    loss = lambda x: lax.while_loop(lambda c: c.sum() > 1, f, x).sum()  # noqa: E731
    return lm.grad(lambda x: (lm.grad(loss)(x) * x).sum())(X)


def fresh_rules_in_lanes():
    @lm.custom_vjp
    def back(x):
        return x * 2

    back.defvjp(lambda x: (back(x), x), lambda x, g: (g * x,))

    @lm.custom_jvp
    def forth(x):
        return x * 2

    forth.defjvp(lambda p, t: (forth(p[0]), t[0] * 2))

    @lm.custom_batching.custom_vmap
    def lanes(x):
        return lnp.sin(x)

    lanes.def_vmap(lambda size, batched, x: (lnp.sin(x) * 2, batched[0]))
    total = lm.vmap(lm.vmap(forth))(lnp.stack([X, X])).sum()
    for f in (back, forth, lanes):
        total += lm.grad(lambda x: lm.vmap(f)(x).sum())(X).sum()  # noqa: B023
    return total + lm.vmap(lm.grad(lanes))(X).sum()


def fresh_policy():
    def layer(c, _):
        return lm.checkpoint_name(lnp.sin(c), "s") * 2, None

    keep = lm.checkpoint_policies.save_only_these_names("s")
    f = lm.checkpoint(lambda x: lax.scan(layer, x, None, length=2)[0].sum(), policy=keep)
    return lm.grad(f)(X)


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
    fresh_reference,
    vmap_of_fresh_jvp,
    fresh_callback,
    fresh_jacobians,
    fresh_hessian,
    fresh_shapes,
    fresh_value_and_grad,
    fresh_linear_functions,
    fresh_jitted_transforms,
    fresh_closures,
    fresh_map_of_a_linear_part,
    fresh_rules_in_lanes,
    fresh_second_derivative_of_a_while,
    fresh_policy,
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


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_no_object_of_python_is_kept(program):
    """Rules and functions that own each other by way of the library, which the collector has to see through."""
    repeat(program, 300)
    gc.collect()
    before = len(gc.get_objects())
    repeat(program, 100)
    gc.collect()
    assert len(gc.get_objects()) < before + 100


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_memory_stays_constant_over_many_steps(program):
    # A device of queues writes down each use of memory: a step takes ten times as long.
    steps = 200_000 if lnp.ones(1).device.platform == "cpu" else 10_000
    repeat(program, 5_000)
    before, memory = counters(), resident_kib()
    repeat(program, steps)
    assert counters() == before
    assert resident_kib() < memory + 4096


def test_values_that_leaked_out_of_ended_traces_do_not_slow_reads():
    """As the frames of an exception hold them, in a notebook until the next one."""
    kept = []

    def fails(x):
        for i in range(300):
            x = lnp.sin(x) + i
        kept.append(x)
        raise ValueError("after much")

    def reads():
        begin = time.thread_time()
        for i in range(200):
            assert (X + i)[0].item() == i + 1
        return time.thread_time() - begin

    reads()
    before = min(reads() for _ in range(3))
    for n in range(40):
        with pytest.raises(ValueError, match="after much"):
            lm.jit(fails)(lnp.ones(n + 1))
    reads()
    assert min(reads() for _ in range(3)) < 10 * before
    with pytest.raises(TypeError, match="that has ended"):
        kept[0].item()


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
