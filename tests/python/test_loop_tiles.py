"""Reverse mode of loops whose steps compute element by element: tile by tile, with the log of a tile at hand."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax
from lax_support import array, value

# Few elements, below a tile, one more than a tile, several and a part, of two dimensions.
SHAPES = [(4,), (3, 7), (128,), (1001,), (2750,), (7, 411)]
# None, those at which a longer log is taken, and more than the longest one has.
STEPS = [0, 1, 3, 4, 6, 20, 33, 128, 129, 300]


def logistic(x, r, n):
    """`n` steps of a map that stays between 0 and 1, with a number that changes beside the array."""

    def step(s):
        y, k, weight = s
        return r * y * (1 - y) + weight * lnp.sin(x), k + 1, weight * 0.5

    return lax.while_loop(lambda s: s[1] < n, step, (x, 0, 0.1))[0]


def slopes(x, r, n):
    """d logistic / dx and / dr of each element, by NumPy."""
    y, dx, dr, weight = x.copy(), np.ones_like(x), np.zeros_like(x), 0.1
    for _ in range(n):
        by_y = r * (1 - 2 * y)
        dx, dr = by_y * dx + weight * np.cos(x), by_y * dr + y * (1 - y)
        y = r * y * (1 - y) + weight * np.sin(x)
        weight *= 0.5
    return y, dx, dr


def problem(shape):
    rng = np.random.default_rng(5)
    return rng.uniform(0.2, 0.4, shape), rng.uniform(1.2, 1.8, shape)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients_of_elements_are_numpys(shape):
    x, r = problem(shape)
    g = lm.jit(lm.grad(lambda x, r, n: lnp.sum(logistic(x, r, n) ** 2), argnums=(0, 1)))
    for n in STEPS:
        y, dx, dr = slopes(x, r, n)
        got = g(array(x), array(r), n)
        np.testing.assert_allclose(value(got[0]), 2 * y * dx, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(value(got[1]), 2 * y * dr, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("elements", [4, 10, 60])
def test_few_elements_go_back_in_few_kernels(elements):
    """The log of a number of steps that only the data know is not written by a program for each step."""
    x, r = problem((elements,))
    g = lm.jit(lm.grad(lambda x, r, n: lnp.sum(logistic(x, r, n))))
    x, r = array(x), array(r)
    for n in (100, 100, 7):
        before = lm.cache.stats()
        g(x, r, n).block_until_ready()
        after = lm.cache.stats()
        assert sum(after[k] - before[k] for k in ("interpreted_runs", "compiled_runs")) <= 16


@pytest.mark.parametrize("loop", ["fori", "scan"])
@pytest.mark.parametrize("n", [11, 20, 33, 128, 129, 300])
def test_logs_have_as_many_rows_as_a_known_number_of_steps(loop, n):
    x, r = problem((60_000,))

    def known(x, r):
        def step(s):
            return r * s[0] * (1 - s[0]) + s[1] * lnp.sin(x), s[1] * 0.5

        start = x, lnp.float64(0.1)
        if loop == "fori":
            return lax.fori_loop(0, n, lambda _, s: step(s), start)[0]
        return lax.scan(lambda s, _: (step(s), None), start, None, length=n)[0][0]

    def loss(x, r):
        return lnp.sum(known(x, r) ** 2)

    y, dx, dr = slopes(x, r, n)
    got = lm.jit(lm.grad(loss, argnums=(0, 1)))(array(x), array(r))
    np.testing.assert_allclose(value(got[0]), 2 * y * dx, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(value(got[1]), 2 * y * dr, rtol=1e-10, atol=1e-12)
    text = str(lm.make_trace(lm.grad(loss))(array(x), array(r)))
    assert (f"length={n}\n" in text, "cond[" in text) == (n <= 128, n > 128), text
    # Batches too.
    lanes = [array(v.reshape(3, -1)) for v in (x, r)]
    wide = lm.jit(lm.vmap(lm.grad(loss, argnums=(0, 1))))(*lanes)
    np.testing.assert_allclose(value(wide[0]).reshape(-1), 2 * y * dx, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(value(wide[1]).reshape(-1), 2 * y * dr, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_elements_of_other_types(dtype):
    x = np.random.default_rng(2).uniform(0.2, 0.4, 3001).astype(dtype)
    if dtype == "complex128":
        x = x + 0.1j * x[::-1]

    def f(x, n):
        y = lax.while_loop(lambda s: s[1] < n, lambda s: (s[0] * s[0] + 0.1 * x, s[1] + 1), (x, 0))[0]
        return lnp.sum(lnp.real(y * y))

    small = np.array(x[:100])  # without tiles
    want = value(lm.grad(f)(array(small), 9))
    np.testing.assert_array_equal(value(lm.jit(lm.grad(f))(array(x), 9))[:100], want)


def newton(a):
    """Cube roots of `a`, until all of them are there."""

    def cond(x):
        return lnp.max(lnp.abs(x * x * x - a)) > 1e-9

    return lax.while_loop(cond, lambda x: x - (x * x * x - a) / (3 * x * x), lnp.ones_like(a) * 2)


def test_all_elements_decide_when_a_loop_ends():
    a = np.random.default_rng(1).uniform(1, 20, 4321)
    got = lm.jit(lm.grad(lambda a: lnp.sum(newton(a))))(array(a))
    np.testing.assert_allclose(value(got), a ** (-2 / 3) / 3, rtol=1e-9)


def test_second_derivatives_of_elements():
    x, r = (array(v) for v in problem((1500,)))
    f = lambda x: lnp.sum(logistic(x, r, 7) ** 2)  # noqa: E731
    v = array(np.random.default_rng(3).normal(size=1500))
    step = 1e-5
    want = (value(lm.grad(f)(x + step * v)) - value(lm.grad(f)(x - step * v))) / (2 * step)
    scale = np.abs(want).max()
    for product in (
        lambda x: lm.jvp(lm.grad(f), (x,), (v,))[1],
        lm.grad(lambda x: lnp.vdot(lm.grad(f)(x), v)),
        lm.grad(lambda x: lm.jvp(f, (x,), (v,))[1]),
    ):
        np.testing.assert_allclose(value(lm.jit(product)(x)), want, atol=1e-7 * scale)


def root(a):
    """Each lane takes steps of its own."""
    return lax.while_loop(lambda x: lnp.abs(x * x - a) > 1e-10 * a, lambda x: 0.5 * (x + a / x), a)


@pytest.mark.parametrize("strategy", ["select", "auto"])
def test_lanes_that_end_apart(strategy):
    a = np.random.default_rng(8).uniform(0.01, 1e4, 2345)
    lanes = lm.vmap(root, strategy=strategy)
    want = np.array([value(lm.grad(root)(array(v))) for v in a[:40]])
    both = lm.jit(lm.grad(lambda a: lnp.sum(lanes(a))))(array(a))
    each = lm.jit(lm.vmap(lm.grad(root), strategy=strategy))(array(a))
    for got in (both, each):
        np.testing.assert_allclose(value(got)[:40], want, rtol=1e-13)
        np.testing.assert_allclose(value(got), 0.5 / np.sqrt(a), rtol=1e-8)


def test_a_lane_that_stopped_has_no_infinite_slope():
    def steps(x):
        return lax.while_loop(
            lambda s: s[1] < 3, lambda s: (lnp.sqrt(s[0]), s[1] + 1 + 9 * (s[0] < 1)), (x, 0.0)
        )[0]

    # The root of 0, which a lane that ended before it would have an infinite slope at.
    x = np.concatenate([np.linspace(1.5, 3, 200), [0.25]])
    want = np.where(x < 1, 0.5 * x**-0.5, x ** (1 / 8 - 1) / 8)
    got = lm.jit(lm.grad(lambda x: lnp.sum(lm.vmap(steps)(x))))(array(x))
    np.testing.assert_allclose(value(got), want, rtol=1e-12)


def test_memory_does_not_grow_with_the_elements_times_the_steps():
    n = 200_000
    x, r = (array(v) for v in problem((n,)))
    g = lm.jit(lm.grad(lambda x, n: lnp.sum(logistic(x, r, n))))
    value(g(x, 100))
    peak = lm.cache.entries()[0]["peak_bytes"]
    assert peak < 12 * 8 * n + (40 << 20), peak


@pytest.mark.parametrize("loop", ["scan", "while"])
def test_logs_that_leave_the_caches_are_made_tile_by_tile(loop):
    def f(x):
        if loop == "scan":
            return lax.scan(lambda c, _: (c * (1 - 0.1 * c) + 0.01, None), x, None, length=50)[0].sum()
        step = lambda s: (s[0] + 1, s[1] * (1 - 0.1 * s[1]) + 0.01)  # noqa: E731
        return lax.while_loop(lambda s: s[0] < 50, step, (0, x))[1].sum()

    x = np.random.default_rng(1).uniform(0.5, 1.5, 4000)
    y, slope = x.copy(), np.ones_like(x)
    for _ in range(50):
        y, slope = y * (1 - 0.1 * y) + 0.01, slope * (1 - 0.2 * y)
    np.testing.assert_allclose(value(lm.jit(lm.grad(f))(array(x))), slope, rtol=1e-12)
    assert lm.cache.entries()[0]["peak_bytes"] < 1 << 20  # 50 rows of 4000 are 1.6 MB


@pytest.mark.parametrize(
    ("goes_on", "step", "start"),
    [
        (lambda k: k < 20, lambda k: k + 1, 0),
        (lambda k: lnp.greater(40, k), lambda k: 2 + k, 0),
        (lambda k: k >= lm.jit(lambda one: one)(lnp.int64(1)), lm.jit(lambda k: k - 1), 20),
    ],
    ids=["up", "by two", "down, by calls"],
)
def test_steps_are_counted_where_the_functions_read_values_of_their_surroundings(goes_on, step, start):
    def f(x):
        root = lambda s: (step(s[0]), s[1] - (s[1] * s[1] - x) / (2 * s[1]))  # noqa: E731
        return lax.while_loop(lambda s: goes_on(s[0]), root, (start, x))[1].sum()

    x = array(np.linspace(0.5, 1.5, 7))
    text = str(lm.make_trace(lm.grad(f))(x))
    assert "length=20\n" in text and "while[" not in text, text
    np.testing.assert_allclose(
        value(lm.jit(lm.grad(f))(x)), 0.5 / np.sqrt(np.linspace(0.5, 1.5, 7)), rtol=1e-12
    )


def test_the_loop_runs_once_before_it_is_undone():
    m = array(np.random.default_rng(4).normal(size=(60, 60)) / 30)

    def f(x):
        return lnp.sum(lax.while_loop(lambda v: lnp.sum(v * v) > 1e-6, lambda v: lnp.tanh(m @ v), x) ** 2)

    x = array(np.random.default_rng(4).normal(size=60))
    g = lm.jit(lm.grad(f))
    value(g(x))
    steps = lm.cache.listing(lm.cache.entries()[0]["id"], "steps").split("memory:")[0]
    # The first steps, which fill a log, and those that are left; then the way back through the latter, if there are
    # any, and through the log.
    forward, back = steps.split(": case of 2")
    assert (forward.count(": while"), back.count(": while")) == (2, 1), steps
    v = np.random.default_rng(6).normal(size=60)
    slope = (value(f(x + 1e-6 * array(v))) - value(f(x - 1e-6 * array(v)))) / 2e-6
    np.testing.assert_allclose(value(g(x)) @ v, slope, rtol=1e-6)


@pytest.mark.parametrize("n", [3, 60, 200, 3000])
def test_logs_of_every_length(n):
    """Steps of products leave a log, which is made longer when it is full, and then taken by parts."""
    rng = np.random.default_rng(9)
    m, x = rng.normal(size=(40, 40)) / 8, rng.normal(size=40)

    def f(m, x, n):
        y = lax.while_loop(lambda s: s[1] < n, lambda s: (lnp.tanh(m @ s[0]) + 0.1 * x, s[1] + 1), (x, 0))[0]
        return lnp.sum(y * y)

    y, ys = x, []
    for _ in range(n):
        ys.append(y)
        y = np.tanh(m @ y) + 0.1 * x
    ct, dm, dx = 2 * y, np.zeros_like(m), np.zeros_like(x)
    for before in reversed(ys):
        dx += 0.1 * ct
        inner = ct * (1 - np.tanh(m @ before) ** 2)
        dm += np.outer(inner, before)
        ct = m.T @ inner
    got = lm.jit(lm.grad(f, argnums=(0, 1)))(array(m), array(x), n)
    np.testing.assert_allclose(value(got[0]), dm, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(value(got[1]), dx + ct, rtol=1e-9, atol=1e-12)


def test_a_slice_of_one_number_makes_no_array():
    def f(at):
        return lax.dynamic_slice(lnp.full(100_000, 2.0), (at,), (10,))

    got = lm.jit(f)(5)
    np.testing.assert_array_equal(value(got), np.full(10, 2.0))
    listing = lm.cache.listing(lm.cache.entries()[0]["id"], "steps")
    assert "100000" not in listing, listing


def test_an_outer_product_is_part_of_the_kernel_that_uses_it():
    rng = np.random.default_rng(0)
    total = rng.normal(size=(300, 200))
    x, y = rng.normal(size=300), rng.normal(size=200)
    x[:3], y[:2] = (-0.0, np.inf, np.nan), (-0.0, 0.0)
    got = lm.jit(lambda t, x, y: t + lnp.outer(x, y) + lnp.tensordot(x, y, 0))(*map(array, (total, x, y)))
    np.testing.assert_array_equal(value(got), total + np.outer(x, y) + np.outer(x, y))
    steps = lm.cache.listing(lm.cache.entries()[0]["id"], "steps").split("memory:")[0]
    assert steps.count("step ") == 1, steps
    rows, columns = rng.normal(size=(2, 5, 3)), rng.normal(size=(2, 5, 4))
    batch = lm.jit(lambda a, b: lax.dot_general(a, b, (((), ()), ((0, 1), (0, 1)))))(
        array(rows), array(columns)
    )
    np.testing.assert_array_equal(value(batch), rows[..., None] * columns[..., None, :])
