"""`vmap(strategy=)`: lanes that take other branches or steps than their neighbours, together or one after the other."""

from __future__ import annotations

import re

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax
from lax_support import array, value

STRATEGIES = ["select", "loop", "auto"]
LANES = 40
MATRIX = np.random.default_rng(7).normal(size=(6, 6)) / 3


def number(x):
    """Few lanes take many more steps than the others: from where x is small."""
    return lax.while_loop(lambda s: s[1] < 30, lambda s: (s[0] * 1.01 + x, s[1] + abs(x)), (x, x * 0))[0]


def vector(x):
    def step(s):
        return lnp.tanh(s[0] @ MATRIX) + 0.1 * x, s[1] + abs(x)

    return lax.while_loop(lambda s: s[1] < 3, step, (lnp.full(16, x).reshape(2, 8)[:, :6], x * 0))[0].sum()


def branch(x):
    return lax.cond(x > 1, lambda v: v * 3, lambda v: lnp.sin(v) - 1, x)


def dear_branch(x):
    def long(v):
        return lax.fori_loop(0, 60, lambda _, m: lnp.tanh(m @ MATRIX + v), lnp.ones((6, 6)) * v).sum()

    return lax.switch(lnp.asarray(x * 2, "int32"), [long, lambda v: -v, lambda v: long(v) * v], x)


def loop_in_branch(x):
    return lax.cond(x > 0.5, number, lambda v: v * v, x)


def branch_in_loop(x):
    def step(s):
        return lax.cond(s[0] > 2, lambda v: v / 3, lambda v: v * 1.5 + x, s[0]), s[1] + x

    return lax.while_loop(lambda s: s[1] < 20, step, (x, x * 0))[0]


def loop_in_loop(x):
    def step(s):
        inner = lax.while_loop(lambda v: v < 9, lambda v: v * 1.3 + x, s[0])
        return inner / 7, s[1] + x

    return lax.while_loop(lambda s: s[1] < 4, step, (x, x * 0))[0]


def scan_of_loops(x):
    return lax.scan(lambda c, y: (number(x + y) / 40 + c, c), x, lnp.arange(3.0))[0]


@lm.custom_jvp
def ruled(x):
    return number(x)


@ruled.defjvp
def _(primals, tangents):
    return ruled(*primals), tangents[0] * number(primals[0]) * 0.5


@lm.custom_vjp
def pulled(x):
    return number(x)


pulled.defvjp(lambda x: (number(x), x), lambda x, ct: (ct * number(x) * 0.5,))

PROGRAMS = {
    "number": number,
    "vector": vector,
    "branch": branch,
    "dear branch": dear_branch,
    "loop in a branch": loop_in_branch,
    "branch in a loop": branch_in_loop,
    "loop in a loop": loop_in_loop,
    "scan of loops": scan_of_loops,
    "call": lm.jit(number),
    "checkpoint": lm.checkpoint(number),
    "custom_jvp": ruled,
    "custom_vjp": pulled,
    "converted": lm.jit(lambda x: plain(x), control_flow="convert"),
}


def plain(x):
    total, n = x, x * 0
    while n < 20:
        if total > 5:
            total = total / 4
        total = total + x
        n = n + x
    return total


def lanes():
    x = np.random.default_rng(3).uniform(0.9, 1.4, LANES)
    x[[4, 19]] = 0.08, 0.21
    return x


@pytest.fixture(scope="module", params=PROGRAMS)
def program(request):
    """A program, its values and slopes lane by lane."""
    f = PROGRAMS[request.param]
    one, slope = lm.jit(f), lm.jit(lm.grad(f))
    x = [array(v) for v in lanes()]
    return request.param, f, np.array([value(one(v)) for v in x]), np.array([value(slope(v)) for v in x])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_values_are_those_of_a_loop(program, strategy):
    _, f, want, _ = program
    x = array(lanes())
    g = lm.vmap(f, strategy=strategy)
    np.testing.assert_array_equal(value(g(x)), want)
    np.testing.assert_array_equal(value(lm.jit(g)(x)), want)
    np.testing.assert_array_equal(value(lm.vmap(lm.jit(f), strategy=strategy)(x)), want)
    rows = lm.vmap(lm.vmap(f, strategy=strategy), strategy=STRATEGIES[STRATEGIES.index(strategy) - 1])
    np.testing.assert_array_equal(value(rows(x.reshape(-1, 4))).ravel(), want)
    rows = lm.vmap(lm.vmap(f), strategy=strategy)
    np.testing.assert_array_equal(value(rows(x.reshape(2, -1))).ravel(), want)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_derivatives_are_those_of_a_loop(program, strategy):
    name, f, _, want = program
    x = array(lanes())

    def check(got):
        np.testing.assert_allclose(value(got), want, rtol=1e-11)

    g = lm.vmap(f, strategy=strategy)
    check(lm.vmap(lm.grad(f), strategy=strategy)(x))
    check(lm.grad(lambda v: g(v).sum())(x))
    check(lm.jit(lm.grad(lambda v: g(v).sum()))(x))
    if name != "custom_vjp":
        check(lm.jvp(g, (x,), (lnp.ones_like(x),))[1])
        check(lm.vmap(lm.jacfwd(f), strategy=strategy)(x))
    check(lm.linear_transpose(lm.linearize(g, x)[1], x)(lnp.ones_like(x))[0])


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", ["number", "vector", "branch", "loop in a branch", "custom_jvp"])
def test_second_derivatives_are_those_of_a_loop(name, strategy):
    f, x = PROGRAMS[name], array(lanes())
    bend = lm.jit(lm.grad(lm.grad(f)))
    want = [value(bend(array(v))) for v in lanes()]
    got = [
        lm.vmap(lm.grad(lm.grad(f)), strategy=strategy)(x),
        lm.grad(lambda v: lm.vmap(lm.grad(f), strategy=strategy)(v).sum())(x),
        lm.grad(lambda v: lm.grad(lambda u: lm.vmap(f, strategy=strategy)(u).sum())(v).sum())(x),
    ]
    for each in got:
        np.testing.assert_allclose(value(each), want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_lane_that_would_never_end_on_the_state_of_another_ends(strategy):
    def f(x):
        return lax.cond(
            x > 0, lambda v: lax.while_loop(lambda u: u < 100, lambda u: u * 2, v), lambda v: v, x
        )

    x = array([-1.0, 3.0, 0.0] * 20)
    g = lm.vmap(f, strategy=strategy)
    for got in (g(x), lm.jit(g)(x)):
        np.testing.assert_array_equal(value(got), [-1, 192, 0] * 20)
    slopes = lm.vmap(lm.grad(f), strategy=strategy)(x), lm.grad(lambda v: g(v).sum())(x)
    for got in slopes:
        np.testing.assert_array_equal(value(got), [1, 64, 1] * 20)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_infinite_slope_of_a_lane_that_stopped_is_not_part_of_its_gradient(strategy):
    def f(x):
        def more(s):
            return (s[0] < 3) & (s[1] > 0)

        return lax.while_loop(more, lambda s: (s[0] + 1, lnp.sqrt(s[1])), (0, x))[1]

    x = array([0.0, 4.0, 16.0] * 5)
    want = [value(lm.grad(f)(v)) for v in x]
    assert want[0] == 1
    g = lm.vmap(f, strategy=strategy)
    for got in (lm.grad(lambda v: g(v).sum())(x), lm.vmap(lm.grad(f), strategy=strategy)(x)):
        np.testing.assert_allclose(value(got), want, rtol=1e-14)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_lanes_that_exchange_values_go_together(strategy):
    def f(x):
        def step(s):
            return s[0] + 1, s[1] + lax.pmax(s[1], "i") * 0.5

        return lax.while_loop(lambda s: s[0] < 3, step, (0, x))[1] + lax.cond(
            x > 1, lambda v: v * 2, lambda v: v, x
        )

    x = array(lanes())
    want = value(lm.vmap(f, axis_name="i")(x))
    np.testing.assert_array_equal(value(lm.vmap(f, axis_name="i", strategy=strategy)(x)), want)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_effects_come_lane_by_lane(strategy):
    seen = []

    def f(x):
        def step(s):
            lm.debug.callback(lambda v: seen.append(float(v)), s, ordered=True)
            return s * 2

        return lax.while_loop(lambda s: s < 8, step, x)

    lm.vmap(f, strategy=strategy)(array([4.0, 1.0, 9.0] + [7.0] * 20))
    lm.effects_barrier()
    assert seen == [4, 1, 2, 4] + [7] * 20


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("count", [0, 1, 11, 12, 13])
def test_any_number_of_lanes(strategy, count):
    x = array(lanes()[:count])
    got = lm.vmap(number, strategy=strategy)(x)
    np.testing.assert_array_equal(value(got), [value(number(v)) for v in x])


def test_one_by_one_is_a_loop_of_branches_and_by_cost_is_both():
    def steps(strategy, f):
        text = lm.jit(lm.vmap(f, strategy=strategy)).lower(array(lanes())).as_text()
        return {op: f" {op}(" in text or f" {op} " in text for op in ("case", "scan", "while", "select")}

    assert not steps("select", branch)["case"] and steps("loop", branch)["case"]
    assert not steps("auto", branch)["case"] and steps("auto", dear_branch)["case"]
    assert not steps("select", number)["scan"] and steps("loop", number)["scan"]
    assert steps("auto", number)["scan"] and steps("auto", number)["select"]


TOGETHER = ["together until the last has ended"]


@pytest.mark.parametrize(
    ("strategy", "f", "count", "how"),
    [
        ("select", number, LANES, TOGETHER),
        ("select", branch_in_loop, LANES, TOGETHER),
        ("loop", number, LANES, ["one by one"]),
        ("loop", branch, LANES, ["one by one"]),
        ("auto", dear_branch, LANES, ["one by one"]),
        ("auto", number, LANES, ["together, in rounds, while many go on", "that are left one by one"]),
        ("auto", vector, LANES, ["together while many go on", "that are left one by one"]),
        ("auto", vector, 3, TOGETHER),
    ],
)
def test_the_report_says_how_lanes_go_on(strategy, f, count, how):
    x = array(np.resize(lanes(), count))
    batched = lm.vmap(f, strategy=strategy)
    for g in (lm.jit(batched), lm.jit(lm.grad(lambda x: batched(x).sum()))):
        g(x)
        report = lm.cache.explain(lm.cache.entries()[0]["id"])
        assert set(re.findall(r": lanes (.*)", report)) == set(how), report


@pytest.mark.parametrize("write", ["scatter", "dynamic_update_slice"])
@pytest.mark.parametrize("loop", ["while", "fori", "scan"])
def test_lanes_that_write_places_of_their_own_go_one_by_one(loop, write):
    def step(i, x):
        if write == "scatter":
            return i * 3 % 100, x.at[i].add(i * 0.5)
        return i * 3 % 100, lax.dynamic_update_index_in_dim(x, i * 0.5, i, 0)

    def filled(start, x):
        if loop == "while":
            return lax.while_loop(lambda c: c[0] != 1, lambda c: step(*c), (start, x))[1]
        if loop == "fori":
            return lax.fori_loop(0, 30, lambda _, c: step(*c), (start, x))[1]
        return lax.scan(lambda c, _: (step(*c), c[0]), (start, x), length=30)[0][1]

    start, x = array([81, 7, 27, 3]), array(np.arange(400, dtype=np.float32).reshape(4, 100))
    got = lm.jit(lm.vmap(filled))(start, x)
    report = lm.cache.explain(lm.cache.entries()[0]["id"])
    assert set(re.findall(r": lanes (.*)", report)) == {"one by one"}, report
    np.testing.assert_array_equal(value(got), [value(filled(*of)) for of in zip(start, x)])


def test_derivatives_of_lanes_that_write_places_of_their_own():
    def f(start, x):
        def step(c, _):
            i, x = c
            return (i * 3 % 50, x.at[i].multiply(lnp.sin(x[i - 1]))), x[i]

        (_, x), seen = lax.scan(step, (start, x), length=20)
        return (x * x).sum() + seen.sum()

    start, x = array([1, 7, 27]), array(np.linspace(-2, 2, 150).reshape(3, 50))
    grads = value(lm.jit(lm.grad(lambda x: lm.vmap(f)(start, x).sum()))(x))
    np.testing.assert_allclose(grads, [value(lm.grad(f, 1)(*of)) for of in zip(start, x)], rtol=1e-12)


def test_the_report_says_of_packed_lanes_that_they_go_back_together():
    batched = lm.vmap(number, strategy="auto")
    told = []
    for g in (batched, lm.grad(lambda x: batched(x).sum())):
        lm.jit(g)(array(np.resize(lanes(), 2500)))
        told.append(set(re.findall(r": lanes (.*)", lm.cache.explain(lm.cache.entries()[0]["id"]))))
    assert told == [{"together, in rounds, while many go on", "that are left packed"}, set(TOGETHER)]


def test_an_unknown_strategy_is_refused():
    with pytest.raises(ValueError, match="strategy is 'fast': it is one of 'select', 'loop', 'auto'"):
        lm.vmap(number, strategy="fast")


def _lanes_of_elements(kind, n=2500):
    rng = np.random.default_rng(3)
    steps = {
        "none": np.zeros(n),
        "all": np.full(n, 300),
        "the last": np.where(np.arange(n) == n - 1, 700, 3),
        "1 in 100": np.where(rng.random(n) < 0.01, 700, 3),
        "many": np.where(rng.random(n) < 0.4, 300, 3),
        "exponential": rng.exponential(150, n),
    }[kind]
    return array(rng.uniform(0.5, 1.5, n)), lnp.array(steps.astype(np.int32))


def _element(x, n):
    return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, lnp.sin(s[1]) + 0.2 * x), (0, x))


@pytest.mark.parametrize("kind", ["none", "all", "the last", "1 in 100", "many", "exponential"])
def test_many_elements_are_packed_again_and_have_the_bits_of_a_loop(kind):
    x, n = _lanes_of_elements(kind)
    want = lm.jit(lm.vmap(_element, strategy="loop"))(x, n)
    for f in (lm.vmap(_element, strategy="auto"), lm.jit(lm.vmap(_element, strategy="auto"))):
        got = f(x, n)
        np.testing.assert_array_equal(value(got[0]), value(n))
        np.testing.assert_array_equal(value(got[1]), value(want[1]))

    def loss(x, strategy):
        return lm.vmap(lambda x, n: _element(x, n)[1], strategy=strategy)(x, n).sum()

    auto, select = (lm.jit(lm.grad(lambda x, s=s: loss(x, s))) for s in ("auto", "select"))
    np.testing.assert_array_equal(value(auto(x)), value(select(x)))
    each = lm.jit(lm.vmap(lm.grad(lambda x, n: _element(x, n)[1]), strategy="auto"))
    np.testing.assert_allclose(value(each(x, n)), value(auto(x)), rtol=1e-12)


def test_packed_elements_inside_of_other_lanes_and_branches():
    x, n = _lanes_of_elements("1 in 100", 1100)
    inner = lm.vmap(lambda x, n: _element(x, n)[1], strategy="auto")

    def f(scale, x):
        return lax.cond(scale > 1, lambda x: inner(x * scale, n), lambda x: x, x)

    scales = array(np.array([0.5, 1.5, 2.0]))
    want = np.stack([value(f(s, x)) for s in scales])
    for outer in ("select", "loop", "auto"):
        got = lm.jit(lm.vmap(f, in_axes=(0, None), strategy=outer))(scales, x)
        np.testing.assert_array_equal(value(got), want)
    up = lm.jvp(lambda x: inner(x, n), (x,), (lnp.ones_like(x),))[1]
    np.testing.assert_allclose(value(up), value(lm.grad(lambda x: inner(x, n).sum())(x)), rtol=1e-10)
