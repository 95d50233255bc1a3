"""Python control flow on values of arguments inside jit: one trace per path, and what is refused."""

from __future__ import annotations

import lamina as lm
import lamina.lax as lax
import lamina.numpy as lnp
import numpy as np
import pytest


def paths(f):
    return sum(v.paths for variants in f._entries.values() for v in variants)


def caught(kind, f):
    with pytest.raises(kind) as e:
        f()
    return str(e.value)


def test_if_takes_one_trace_per_outcome():
    lm.cache.clear()  # an equal program would be found with the reason of its first call
    calls = []

    @lm.jit
    def f(x):
        calls.append(1)
        return x * 2.0 if x.sum() > 0 else -x

    for value, want in ((1.0, 2.0), (-3.0, 3.0), (5.0, 10.0), (-1.0, 1.0)):
        assert f(lnp.array(value)).item() == want
    assert len(calls) == paths(f) == 2
    misses = lm.cache.stats()["misses"]
    f(lnp.array(8.0)), f(lnp.array(-8.0))
    assert lm.cache.stats()["misses"] == misses
    reasons = [e["reason"] for e in lm.cache.entries()[:8]]
    assert any("x.sum() > 0 is False" in r for r in reasons)


def test_and_or_not_assert_and_chained_conditions():
    @lm.jit
    def f(x, y):
        assert x > -100.0
        if x > 0 and not y > 0:
            return x - y
        elif 0 > x > -10 or y == 5:
            return x * y
        return x + y

    def plain(x, y):
        if x > 0 and not y > 0:
            return x - y
        elif 0 > x > -10 or y == 5:
            return x * y
        return x + y

    for x in (-50.0, -5.0, 0.0, 5.0):
        for y in (-1.0, 0.0, 5.0, 7.0):
            assert f(x, y).item() == plain(x, y)
    with pytest.raises(AssertionError):
        f(-200.0, 1.0)
    assert f(5.0, -1.0).item() == 6.0


def test_while_on_argument_values_and_its_bound():
    @lm.jit
    def collatz(n):
        steps = 0
        while n != 1:
            n = lnp.where(n % 2 == 0, n // 2, 3 * n + 1)
            steps += 1
        return lnp.asarray(steps)

    assert collatz(6).item() == 8
    assert collatz(7).item() == 16
    assert collatz(6).item() == 8
    assert paths(collatz) == 2
    # Many rounds make it a loop of the program, which serves all numbers of rounds.
    assert collatz(871).item() == 178
    assert collatz(7).item() == 16 and collatz(27).item() == 111
    assert paths(collatz) == 1


def test_a_loop_that_cannot_be_converted_is_specialized_up_to_its_bound():
    @lm.jit
    def halvings(x):
        parts = []
        while x > 1:
            x = x / 2
            parts.append(x)
        return lnp.stack(parts)

    assert halvings(2.0**40).shape == (40,)
    assert halvings(2.0**3).shape == (3,)
    text = caught(TypeError, lambda: halvings(lnp.array(2.0**140, lnp.float64)))
    assert "`x > 1`" in text and "at most 128" in text and "lax.while_loop" in text
    assert halvings(2.0**40).shape == (40,)


def test_recursion_and_helpers():
    def gcd(a, b):
        return a if b == 0 else gcd(b, a % b)

    assert lm.jit(gcd)(48, 18).item() == 6


def test_branches_with_gradients_and_nested_jit():
    @lm.jit
    def inner(x):
        return x * x if x > 1 else 3.0 * x

    assert lm.grad(inner)(2.0).item() == 4.0
    assert lm.grad(inner)(0.5).item() == 3.0
    outer = lm.jit(lambda x: inner(x + 1.0))
    assert outer(1.0).item() == 4.0
    assert outer(-1.0).item() == 0.0
    g = lm.jit(lm.grad(lambda x: x * x if x > 1 else 3.0 * x))
    assert g(2.0).item() == 4.0
    assert g(0.5).item() == 3.0
    assert g(4.0).item() == 8.0
    assert paths(g) == 2


def test_branches_on_free_variables():
    limit = 1.0
    table = lnp.array([1.0, 2.0])

    @lm.jit
    def f(x):
        return x + table if (x * table).sum() > limit else x

    np.testing.assert_array_equal(f(lnp.ones(2)).numpy(), [2, 3])
    limit = 10.0
    np.testing.assert_array_equal(f(lnp.ones(2)).numpy(), [1, 1])
    table = lnp.array([20.0, 2.0])
    np.testing.assert_array_equal(f(lnp.ones(2)).numpy(), [21, 3])


def test_a_path_traced_after_a_number_changed_uses_the_new_number():
    scale, power = 2.0, 2

    @lm.jit
    def f(x):
        if x > 0:
            return x * scale
        return x * scale * (1.0 + scale) + float(power)

    assert f(1.0).item() == 2.0
    scale = 3.0
    assert f(-1.0).item() == -3.0 * 4.0 + 2.0
    assert f(1.0).item() == 3.0
    scale = 2.0
    assert f(-1.0).item() == -2.0 * 3.0 + 2.0
    assert f(1.0).item() == 2.0


def test_too_many_paths_are_refused_with_remedies():
    @lm.jit
    def f(x):
        bits = 0
        for i in range(7):
            if (x >> i) & 1 == 1:
                bits += 1
        return x * bits

    text = ""
    for i in range(100):
        try:
            f(i)
        except TypeError as e:
            text = str(e)
            break
    assert i == 64
    assert "64 different paths" in text and "lax.cond" in text
    assert f(3).item() == 6


def test_strict_mode_and_vmap_say_what_to_do():
    @lm.jit(branches="error")
    def f(x, y):
        if x * 2 > 0:
            return y
        return -y

    text = caught(TypeError, lambda: f(1.0, 2.0))
    first = text.splitlines()[0]
    assert "`x * 2 > 0`" in first and "depends on x" in first and "function f" in first
    assert "test_branches.py" in text and "lamina.numpy.where" in text
    assert "lamina.lax.cond" in text and 'branches="specialize"' in text
    assert len(text.splitlines()) <= 8

    def lane(x):
        return x if x > 0 else -x

    text = caught(TypeError, lambda: lm.vmap(lane)(lnp.ones(3)))
    assert "`x > 0`" in text and "vmap" in text and "where" in text
    text = caught(TypeError, lambda: lm.jit(lm.vmap(lane))(lnp.ones(3)))
    assert "`x > 0`" in text and "vmap" in text
    text = caught(TypeError, lambda: lm.jit(lambda x: lax.fori_loop(0, 3, lambda i, c: lane(c), x))(1.0))
    assert "loop body" in text
    text = caught(TypeError, lambda: lm.jit(lane).lower(lm.ShapeDtype((), "float32")))
    assert "needs values" in text
    assert lm.jit(lane)(-2.0).item() == 2.0


def test_a_failure_after_a_branch_leaves_the_function_usable():
    @lm.jit
    def f(x):
        if x > 0:
            raise LookupError("positive")
        return x

    for _ in range(2):
        with pytest.raises(LookupError):
            f(1.0)
        assert f(-1.0).item() == -1.0


def test_outside_jit_python_branches_just_work():
    x = lnp.array(10.0)
    n = 0
    while x > 1:
        x = x / 2
        n += 1
    assert n == 4
    assert lm.grad(lambda v: v * v if v > 0 else v)(3.0).item() == 6.0


def test_branches_in_functions_with_custom_rules_checkpoints_and_vmap():
    @lm.custom_jvp
    def f(x):
        return x * x if x > 1 else -x

    f.defjvp(lambda p, t: (f(p[0]), t[0] * (p[0] * 2.0 if p[0] > 1 else -1.0)))
    assert [lm.grad(f)(v).item() for v in (3.0, 0.5)] == [6.0, -1.0]
    jitted = lm.jit(lm.grad(f))
    assert [jitted(v).item() for v in (3.0, 0.5, 4.0)] == [6.0, -1.0, 8.0]
    assert lm.jit(f)(3.0).item() == 9.0
    h = lm.jit(lm.grad(lm.checkpoint(lambda x: x * x if x > 1 else -x)))
    assert [h(v).item() for v in (3.0, 0.5, 4.0)] == [6.0, -1.0, 8.0]
    text = caught(TypeError, lambda: lm.vmap(lm.jit(lambda x: x if x > 0 else -x))(lnp.ones(3)))
    assert "vmap" in text
    text = caught(TypeError, lambda: lm.vmap(lm.grad(f))(lnp.ones(3)))
    assert "vmap" in text


def test_threads_trace_and_call_the_same_function():
    import threading

    rate = 2.0

    @lm.jit
    def f(x):
        return x * rate if x.sum() > 0 else x - rate

    errors = []

    def work(seed):
        try:
            for i in range(60):
                x = np.full(1 + (seed + i) % 7, (-1.0) ** i * (i + 1), np.float32)
                np.testing.assert_array_equal(f(x).numpy(), x * 2 if i % 2 == 0 else x - 2)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []
    assert type(rate) is float


def test_derivatives_inside_jit_of_loops_of_many_rounds():
    def halved(x):
        while x > 1:
            x = x / 2
        return x

    g = lm.jit(lm.grad(halved))
    for x in (2.0**40, 2.0**3, 2.0**50):
        assert g(x).item() == 1 / x


def test_the_tree_of_decisions_is_shown():
    @lm.jit
    def f(x):
        if x > 0:
            return x
        if x < -10:
            return -x
        return 0 * x

    f(1.0), f(-20.0), f(-3.0)
    lines = lm.cache.branches(f).splitlines()
    assert "3 entries" in lines[0] and lines[1] == "  (float32[]): 3 paths"
    assert lines[2].startswith("    `x > 0` at ") and "test_branches.py:" in lines[2]
    assert [line.split(" at ")[0].strip() for line in lines[3:]] == [
        "True: a traced path",
        "False: `x < -10`",
        "True: a traced path",
        "False: a traced path",
    ]
    assert lm.cache.branches(f) in lm.cache.branches()
    with pytest.raises(TypeError, match="jitted function"):
        lm.cache.branches(len)


def test_a_compiled_path_refuses_arguments_that_lead_elsewhere():
    f = lm.jit(lambda x: x * 2 if x[0] > 0 else -x)
    compiled = f.lower(lnp.ones(3)).compile()
    other = f.lower(-lnp.ones(3)).compile()
    assert compiled(lnp.ones(3)).numpy().tolist() == [2, 2, 2]
    assert other(-lnp.ones(3)).numpy().tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match="path that other arguments lead to"):
        compiled(-lnp.ones(3))
    with pytest.raises(RuntimeError, match="path that other arguments lead to"):
        other(lnp.ones(3))
    converted = (
        lm.jit(lambda x: x * 2 if x[0] > 0 else -x, control_flow="convert").lower(lnp.ones(3)).compile()
    )
    assert converted(-lnp.ones(3)).numpy().tolist() == [1, 1, 1]
