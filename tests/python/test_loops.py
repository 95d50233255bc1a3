"""Loops whose number of steps only the data say: batches that end, and reverse mode."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax
from lax_support import array, check_gradient, value

F64 = np.float64


def double_up(x):
    return lax.while_loop(lambda v: v < 100, lambda v: v * 2, x)


@lm.custom_jvp
def ruled(x):
    return double_up(x)


@ruled.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    y = double_up(x)
    return y, t * y / lnp.where(x > 0, x, 1.0)  # other lanes come here too


@lm.custom_vjp
def pulled(x):
    return double_up(x)


pulled.defvjp(lambda x: (double_up(x), x), lambda x, ct: (ct * double_up(x) / lnp.where(x > 0, x, 1.0),))


def scanned(x):
    return lax.scan(lambda c, _: (double_up(c) / 50, None), x, None, 3)[0]


def in_a_loop(x):
    return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, double_up(s[1]) / 20), (0, x))[1]


def in_a_condition(x):
    return lax.while_loop(lambda v: double_up(v) < 150, lambda v: v * 1.1, x)


FORMS = {
    "while": double_up,
    "call": lm.jit(double_up),
    "branch": lambda x: lax.cond(x < 5, double_up, lambda v: v, x),
    "scan": scanned,
    "loop": in_a_loop,
    "condition": in_a_condition,
    "checkpoint": lm.checkpoint(double_up),
    "custom_jvp": ruled,
    "custom_vjp": pulled,
}


@pytest.mark.parametrize("name", FORMS)
def test_a_lane_outside_a_branch_does_not_run_its_loops(name):
    f = FORMS[name]

    def g(x):
        return lax.cond(x > 0, f, lambda v: v, x)

    def first(x):  # as the first branch, and as the last of three
        return lax.switch(lnp.where(x > 0, 0, 1), [f, lambda v: v, lambda v: -v], x)

    x = np.array([-1.0, 3.0, 0.0, 7.0])
    lanes = array(x)
    want = [value(g(array(v))) for v in x]
    slopes = [value(lm.grad(g)(array(v))) for v in x]
    np.testing.assert_array_equal(value(lm.vmap(g)(lanes)), want)
    np.testing.assert_array_equal(value(lm.vmap(first)(lanes)), want)
    np.testing.assert_array_equal(value(lm.jit(lm.vmap(g))(lanes)), want)
    np.testing.assert_array_equal(value(lm.vmap(lm.vmap(g))(lanes.reshape(2, 2))).ravel(), want)
    np.testing.assert_allclose(value(lm.vmap(lm.grad(g))(lanes)), slopes, rtol=1e-12)
    np.testing.assert_allclose(value(lm.grad(lambda v: lm.vmap(g)(v).sum())(lanes)), slopes, rtol=1e-12)
    if name != "custom_vjp":
        tangent = lm.jvp(lm.vmap(g), (lanes,), (lnp.ones_like(lanes),))[1]
        np.testing.assert_allclose(value(tangent), slopes, rtol=1e-12)


def test_a_lane_that_stopped_does_not_run_the_loops_inside():
    def f(x):
        # Where x passes 100 the inner loop would not come to an end.
        def step(v):
            return lax.while_loop(lambda w: w != 8 * v, lambda w: w * 2, v)

        def odd(v):
            return lax.while_loop(lambda w: lnp.floor(w) != w, lambda w: w + 0.25, step(v)) + 0.5

        return lax.while_loop(lambda v: v < 100, odd, x)

    x = np.array([1.0, 30.0, 200.0, -0.25 + 100])
    np.testing.assert_array_equal(value(lm.vmap(f)(array(x))), [value(f(array(v))) for v in x])


# --- reverse mode ---


def newton(a):
    return lax.while_loop(lambda x: abs(x * x - a) > 1e-12, lambda x: 0.5 * (x + a / x), 0.5 * a + 0.3)


def sinkhorn(cost):
    kernel = lnp.exp(-3 * cost)
    n = cost.shape[0]

    def step(s):
        _, v, _ = s
        u = 1 / (n * (kernel @ v))
        v = 1 / (n * (kernel.T @ u))
        return u, v, lnp.abs(u * (kernel @ v) - 1 / n).max()

    u, v, _ = lax.while_loop(
        lambda s: s[2] > 1e-9, step, (lnp.ones(n, F64), lnp.ones(n, F64), lnp.array(1.0, F64))
    )
    return (u[:, None] * kernel * v[None] * cost).sum()


def adaptive_ode(p):
    """Of x'' = -p0 sin x - p1 x', steps of Heun's method whose size follows the error estimate."""

    def slope(y):
        return lnp.stack([y[1], -p[0] * lnp.sin(y[0]) - p[1] * y[1]])

    def step(s):
        t, h, y = s
        h = lnp.minimum(h, 2.0 - t)
        k1 = slope(y)
        k2 = slope(y + h * k1)
        error = lnp.abs(h / 2 * (k2 - k1)).max()
        good = error < 1e-3
        y = lnp.where(good, y + h / 2 * (k1 + k2), y)
        t = lnp.where(good, t + h, t)
        return t, h * lnp.clip(0.9 * (1e-3 / (error + 1e-30)) ** 0.5, 0.3, 3.0), y

    start = (lnp.array(0.0, F64), lnp.array(0.1, F64), lnp.stack([p[2], p[0] * 0]))
    return lax.while_loop(lambda s: s[0] < 2.0 - 1e-12, step, start)[2].sum()


def fixed_point(w):
    def go_on(s):
        return lnp.abs(s[0] - s[1]).max() > 1e-12

    def step(s):
        return lnp.tanh(w @ s[0] + 0.3), s[0]

    return (lax.while_loop(go_on, step, (lnp.zeros(3, F64), lnp.ones(3, F64)))[0] ** 2).sum()


def traced_bounds(x):
    n = lnp.array(7, np.int32)
    return lax.fori_loop(n - 5, n, lambda i, s: lnp.sin(s * x) + i * x, x).sum()


def nested(x):
    def inner(v):
        return lax.while_loop(lambda w: (w * w).sum() < 9, lambda w: 1.3 * w + 0.1 * x, v)

    def outer(s):
        return s[0] + 1, inner(lnp.sin(s[1])) + s[1] * x

    return lax.while_loop(lambda s: s[0] < 3, outer, (lnp.array(0), x))[1].sum()


def in_scan(x):
    def step(c, v):
        c = lax.while_loop(lambda w: (w * w).sum() < 4, lambda w: 1.5 * w + 0.1 * v, c * 0.5)
        return c, c * v

    last, ys = lax.scan(step, x, lnp.stack([x, 2 * x, lnp.cos(x)]))
    return last.sum() + ys.sum()


def in_branch(x):
    return lax.cond(
        x.sum() > 0,
        lambda v: lax.while_loop(lambda w: (w * w).sum() < 50, lambda w: w * 1.5 + v, v).sum(),
        lambda v: (v * v).sum(),
        x,
    )


R = np.random.default_rng(3)
PROGRAMS = {
    "newton": (newton, np.array(2.3)),
    "sinkhorn": (sinkhorn, R.uniform(size=(3, 3))),
    "adaptive_ode": (adaptive_ode, np.array([2.0, 0.3, 1.1])),
    "fixed_point": (fixed_point, 0.3 * R.normal(size=(3, 3))),
    "traced_bounds": (traced_bounds, np.array([0.4, 0.7])),
    "nested": (nested, np.array([0.4, 0.7])),
    "in_scan": (in_scan, np.array([0.4, 0.7])),
    "in_branch": (in_branch, np.array([0.4, 0.7])),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_through_loops_of_unknown_length(name):
    f, at = PROGRAMS[name]
    x = array(at)
    check_gradient(f, at, tol=1e-6)
    grad = value(lm.grad(f)(x))
    np.testing.assert_array_equal(value(lm.jit(lm.grad(f))(x)), grad)
    np.testing.assert_allclose(value(lm.jacfwd(f)(x)), grad, rtol=1e-9, atol=1e-12)
    # Lanes that stop at different steps.
    lanes = np.stack([at, at * 0.9, at * 1.2])
    batch, one_by_one = array(lanes), np.stack([value(lm.grad(f)(array(v))) for v in lanes])
    np.testing.assert_allclose(value(lm.vmap(lm.grad(f))(batch)), one_by_one, rtol=1e-9, atol=1e-12)
    total = lm.grad(lambda v: lm.vmap(f)(v).sum())(batch)
    np.testing.assert_allclose(value(total), one_by_one, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["newton", "fixed_point", "traced_bounds", "nested", "in_scan", "in_branch"])
def test_second_derivatives_through_loops_of_unknown_length(name):
    f, at = PROGRAMS[name]
    x = array(at)
    direction = array(np.random.default_rng(4).normal(size=at.shape))
    eps = 1e-5
    up, down = (value(lm.grad(f)(array(at + s * eps * value(direction)))) for s in (1, -1))
    want = (up - down) / (2 * eps)

    def along(v):
        return (lm.grad(f)(v) * direction).sum()

    def check(got):
        np.testing.assert_allclose(value(got), want, rtol=1e-5, atol=1e-7)

    check(lm.grad(along)(x))  # reverse over reverse
    check(lm.jit(lm.grad(along))(x))
    check(lm.jvp(lm.grad(f), (x,), (direction,))[1])  # forward over reverse
    check(lm.grad(lambda v: lm.jvp(f, (v,), (direction,))[1])(x))  # reverse over forward
    check(lm.vmap(lm.grad(along))(x[None])[0])
    check(lm.grad(lambda v: lm.vmap(along)(v).sum())(x[None])[0])
    if at.ndim == 1:
        check(lm.jacrev(lm.jacrev(f))(x) @ direction)
        check(lm.hessian(f)(x) @ direction)


def test_a_lane_that_stopped_has_its_derivative_where_a_further_step_would_have_none():
    def f(x):
        def step(s):
            h = lnp.minimum(x - s[0], 0.3)
            return s[0] + h, s[1] + x * lnp.sqrt(h)  # whose slope at h = 0 is infinite

        return lax.while_loop(lambda s: s[0] < x - 1e-9, step, (x * 0, x))[1]

    x = np.array([0.5, 1.7, -1.0, 0.2])
    want = [value(lm.grad(f)(array(v))) for v in x]
    np.testing.assert_allclose(value(lm.vmap(lm.grad(f))(array(x))), want, rtol=1e-12)
    np.testing.assert_allclose(value(lm.vmap(lm.jacfwd(f))(array(x))), want, rtol=1e-12)


def test_third_derivative():
    def cube_root(a):
        return lax.while_loop(lambda x: abs(x**3 - a) > 1e-13, lambda x: (2 * x + a / x**2) / 3, a)

    third = lm.grad(lm.grad(lm.grad(cube_root)))(array(2.0, F64))
    np.testing.assert_allclose(value(third), 10 / 27 * 2 ** (-8 / 3), rtol=1e-6)


def test_derivatives_by_several_arguments_of_one_loop():
    """The second derivative is by what the first one is not by."""

    def f(x, theta):
        return lax.while_loop(lambda v: v < 50, lambda v: theta * v + lnp.sin(theta), x)

    x, theta = array(1.1, F64), array(1.7, F64)
    mixed = lm.grad(lm.grad(f), 1)(x, theta)
    np.testing.assert_allclose(value(mixed), value(lm.grad(lm.grad(f, 1))(x, theta)), rtol=1e-12)
    eps = 1e-6
    up, down = (lm.grad(f)(x, array(1.7 + s * eps, F64)).item() for s in (1, -1))
    np.testing.assert_allclose(value(mixed), (up - down) / (2 * eps), rtol=1e-7)


@pytest.mark.parametrize("slots", [1, 2, 3, 7, 40, "sqrt"])
@pytest.mark.parametrize("steps", [0, 1, 2, 5, 23])
def test_any_number_of_states_gives_one_gradient(slots, steps):
    def f(x, n, **options):
        return lax.while_loop(
            lambda s: s[0] < n, lambda s: (s[0] + 1, lnp.sin(1.3 * s[1]) + x), (0, x), **options
        )[1].sum()

    x, n = array(np.array([0.3, 0.8])), array(steps, np.int32)
    want = value(lm.grad(f)(x, n))
    got = lm.grad(lambda v: f(v, n, checkpoint=slots))(x)
    np.testing.assert_array_equal(value(got), want)

    def counted(v):
        return lax.fori_loop(0, steps, lambda _, s: lnp.sin(1.3 * s) + v, v, checkpoint=slots).sum()

    np.testing.assert_array_equal(value(lm.grad(counted)(x)), want)
    check_gradient(lambda v: f(v, n, checkpoint=slots), value(x))


@pytest.mark.parametrize(
    ("size", "steps"),
    [(300, n) for n in (63, 64, 65, 66, 67, 1026)] + [(2, n) for n in (64, 300, 1024, 1025, 1026, 1500)],
)
def test_states_are_kept_until_there_are_too_many(size, steps):
    # Of large states 64 at first, 1024 at most: what comes after is computed again.
    def body(s, x):
        return lnp.sin(1.3 * s) + x

    def dynamic(x, n):
        return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, body(s[1], x)), (0, x))[1].sum()

    def known(x):
        return lax.fori_loop(0, steps, lambda _, s: body(s, x), x).sum()

    x = array(np.linspace(0.3, 0.8, size))
    got = lm.jit(lm.value_and_grad(dynamic))(x, array(steps, np.int32))
    want = lm.value_and_grad(known)(x)
    np.testing.assert_array_equal(value(got[0]), value(want[0]))
    np.testing.assert_allclose(value(got[1]), value(want[1]), rtol=1e-13)
    if size == 2:
        second = lm.jit(lm.hessian(dynamic))(x, array(steps, np.int32))
        np.testing.assert_allclose(value(second), value(lm.hessian(known)(x)), rtol=1e-10, atol=1e-12)


def test_memory_is_bounded_by_the_states_kept():
    def f(x, n, slots):
        step = lambda s: (s[0] + 1, s[1] * (1 - 1e-5) + 1e-6 * lnp.sin(s[1]))  # noqa: E731
        return lax.while_loop(lambda s: s[0] < n, step, (0, x), checkpoint=slots)[1].sum()

    x = array(np.linspace(0.1, 1, 128))
    grad = lm.jit(lm.grad(lambda v, n: f(v, n, 64)))
    got = value(grad(x, array(30_000, np.int32)))
    state = 128 * 8
    entry = max(lm.cache.entries(), key=lambda e: e["id"])
    assert 64 * state < entry["peak_bytes"] < 100 * state
    factor = 1 - 1e-5 + 1e-6 * np.cos(value(x))
    assert (np.abs(got - factor**30_000) < 0.01).all()


@pytest.mark.parametrize("steps", [0, 1, 1024, 1025, 5120, 5121, 9216, 9217, 20_000])
def test_what_little_steps_leave_is_kept_and_part_of_it_found_again(steps):
    def body(x, v):
        return lnp.sin(v) * x + 0.5 * v

    def dynamic(x, n):
        return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, body(x, s[1])), (0, x))[1]

    def known(x):
        return lax.scan(lambda v, _: (body(x, v), None), x, None, length=steps)[0]

    x, n = array(0.7, F64), array(steps, np.int32)
    got, want = lm.jit(lm.value_and_grad(dynamic))(x, n), lm.value_and_grad(known)(x)
    np.testing.assert_array_equal(value(got[0]), value(want[0]))
    np.testing.assert_allclose(value(got[1]), value(want[1]), rtol=1e-12)
    if steps < 10_000:
        second = lm.jit(lm.grad(lm.grad(dynamic)))(x, n)
        np.testing.assert_allclose(value(second), value(lm.grad(lm.grad(known))(x)), rtol=1e-9)


def test_a_loop_around_loops_adds_to_the_program_of_their_derivatives_and_does_not_multiply_it():
    def nested(depth, v, x):
        if depth == 0:
            return lnp.sin(v * 1.1) * 0.9 + 0.1 * x
        more, step = lambda s: (s[0] < 3) & (s[1] < 5), lambda s: (s[0] + 1, nested(depth - 1, s[1], x))
        return lax.while_loop(more, step, (0, v))[1]

    def lines(depth):
        second = lm.jit(lm.grad(lm.grad(lambda x: nested(depth, x, x))))
        return second.trace(array(0.7, F64)).as_text("full").count("\n")

    sizes = [lines(depth) for depth in (2, 3, 4)]
    assert sizes[1] - sizes[0] < 400 and sizes[2] - sizes[1] < 400, sizes


long = pytest.mark.host_only(reason="devices of queues write down each use of memory: minutes")


@pytest.mark.parametrize(
    "steps", [16, 17, 18, 153, 154, *(pytest.param(n, marks=long) for n in (2145, 2146, 40_000))]
)
def test_states_by_the_root_of_the_steps(steps):
    def f(x, n, step, checkpoint):
        body = lambda s: (step(s[0]), s[1] * (1 - 1e-5) + 1e-6 * lnp.sin(s[1]))  # noqa: E731
        return lax.while_loop(lambda s: s[0] < n, body, (0, x), checkpoint=checkpoint)[1].sum()

    x, n, plain = array(np.linspace(0.1, 1, 512)), array(steps, np.int32), lambda i: i + 1
    grad = lm.jit(lm.grad(lambda x, n: f(x, n, plain, "sqrt")))
    got = grad(x, n).block_until_ready()
    lm._core.reset_peak_bytes()
    before = lm.cache.stats()["live_bytes"]
    grad(x, n).block_until_ready()
    # Kept states, those at hand, and what the classes of the allocator's blocks round up.
    assert (lm.cache.stats()["peak_bytes"] - before) / (512 * 8) < 40 + 8 * steps**0.5
    if steps < 3000:
        want = lm.grad(lambda x: f(x, n, plain, 4000))(x)
        np.testing.assert_array_equal(value(got), value(want))

    calls = []

    def tick(i):
        calls.append(int(i))
        return i + 1

    if steps < 500:
        counted = lambda i: lm.pure_callback(tick, lm.ShapeDtype((), "int32"), i)  # noqa: E731
        lm.jit(lm.grad(lambda x: f(x, n, counted, "sqrt")))(x).block_until_ready()
        assert len(calls) >= steps and max(calls.count(i) for i in range(steps)) <= 3


@pytest.mark.parametrize("batch", [1, 3])
def test_states_by_the_root_of_the_steps_under_transforms(batch):
    def f(x, n, **options):
        return lax.while_loop(
            lambda s: s[0] < n, lambda s: (s[0] + 1, lnp.sin(1.3 * s[1]) + x), (0, x), **options
        )[1].sum()

    x, n = (
        array(np.linspace(0.1, 0.7, 2 * batch).reshape(batch, 2)),
        array(np.array([200, 3, 20][:batch]), np.int32),
    )
    rooted = lambda x, n: f(x, n, checkpoint="sqrt")  # noqa: E731
    for derived in (lm.grad, lm.hessian):
        want = lm.vmap(derived(f))(x, n)
        np.testing.assert_allclose(value(lm.jit(lm.vmap(derived(rooted)))(x, n)), value(want), rtol=1e-10)
        of_lanes = derived(lambda x: lm.vmap(rooted)(x, n).sum())(x)
        np.testing.assert_allclose(
            value(of_lanes), value(derived(lambda x: lm.vmap(f)(x, n).sum())(x)), rtol=1e-10
        )


def test_refusals_of_loops():
    x = array(2.0, F64)
    for slots in (0, -3):
        with pytest.raises(ValueError, match=rf"lax\.while_loop: checkpoint is .* at least 1, not {slots}"):
            lax.while_loop(lambda v: v < 9, lambda v: v * 2, x, checkpoint=slots)
    with pytest.raises(ValueError, match=r"lax\.fori_loop: checkpoint"):
        lax.fori_loop(0, 3, lambda _, v: v * 2, x, checkpoint=0)
    with pytest.raises(
        TypeError, match=r"lax\.while_loop: checkpoint is a number of states or 'sqrt', not 'all'"
    ):
        lax.while_loop(lambda v: v < 9, lambda v: v * 2, x, checkpoint="all")
