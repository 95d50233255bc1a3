"""Effects (debug.print, debug.callback, io_callback): once each, in program order, under every transform."""

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax
from lamina.experimental import io_callback

X = np.array([3.0, 1.0, 2.0], dtype=np.float32)
INT = lm.ShapeDtype((), "int32")


class Log(list):
    """What was seen, in order."""

    def note(self, tag, *values):
        def seen(*arrays):
            self.append((tag, *(np.asarray(a).tolist() for a in arrays)))

        lm.debug.callback(seen, *values)

    def count(self, x=0):
        def seen(_):
            super(Log, self).append("count")
            return np.int32(self.__len__())

        return io_callback(seen, INT, x)


def wrapped(kind, f):
    return {"plain": f, "jit": lm.jit(f), "jit of jit": lm.jit(lm.jit(f)), "checkpoint": lm.checkpoint(f)}[
        kind
    ]


KINDS = ["plain", "jit", "jit of jit", "checkpoint"]


@pytest.mark.parametrize("kind", KINDS)
def test_order_and_number(kind):
    log = Log()

    def f(x):
        log.note("a", x)
        y = x * 2
        log.note("b", y)
        log.note("b", y)  # two equal effects are two
        log.note("c")
        return y

    g = wrapped(kind, f)
    for k in (1.0, 2.0):
        log.clear()
        assert float(g(k)) == 2 * k
        assert log == [("a", k), ("b", 2 * k), ("b", 2 * k), ("c",)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_effect_whose_result_is_not_used_runs(kind):
    log = Log()

    def f(x):
        log.count(x)
        return x

    wrapped(kind, f)(1.0)
    assert log == ["count"]


@pytest.mark.parametrize("kind", ["plain", "jit", "checkpoint"])
@pytest.mark.parametrize("mode", ["grad", "jvp", "vjp", "grad of grad", "jit of grad", "linearize"])
def test_a_derivative_runs_the_forward_pass_once(kind, mode):
    log = Log()

    def f(x):
        log.note("x", x)
        y = lnp.sin(x)
        log.note("y")
        return y * x

    g = wrapped(kind, f)
    run = {
        "grad": lambda: lm.grad(g)(1.5),
        "jvp": lambda: lm.jvp(g, (1.5,), (1.0,)),
        "vjp": lambda: lm.vjp(g, 1.5)[1](1.0),
        "grad of grad": lambda: lm.grad(lm.grad(g))(1.5),
        "jit of grad": lambda: lm.jit(lm.grad(g))(1.5),
        "linearize": lambda: lm.linearize(g, 1.5)[1](1.0),
    }[mode]
    run()
    assert log == [("x", 1.5), ("y",)]


def scan_program(log):
    def step(c, x):
        log.note("c", c)
        c = c * x
        log.note("x", x)
        return c, c + 1

    return lambda x: lax.scan(step, x, lnp.arange(1.0, 4.0))[0]


def fori_program(log):
    def step(i, c):
        log.note("c", c)
        log.note("x", i + 1.0)
        return c * (i + 1)

    return lambda x: lax.fori_loop(0, 3, step, x)


def while_program(log):
    def step(c):
        log.note("c", c[1])
        log.note("x", c[0] + 1.0)
        return c[0] + 1, c[1] * (c[0] + 1)

    return lambda x: lax.while_loop(lambda c: c[0] < 3, step, (0, x))[1]


LOOPS = {"scan": scan_program, "fori": fori_program, "while": while_program}
STEPS = [("c", 2.0), ("x", 1.0), ("c", 2.0), ("x", 2.0), ("c", 4.0), ("x", 3.0)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loop", LOOPS)
def test_loops_run_effects_step_by_step(loop, kind):
    log = Log()
    f = LOOPS[loop](log)

    def whole(x):
        log.note("before", x)
        y = f(x)
        log.note("after", y)
        return y

    assert float(wrapped(kind, whole)(2.0)) == 12.0
    assert log == [("before", 2.0), *STEPS, ("after", 12.0)]


@pytest.mark.parametrize("kind", ["plain", "jit", "checkpoint"])
@pytest.mark.parametrize("loop", ["scan", "fori"])
def test_loops_in_derivatives_run_effects_once(loop, kind):
    log = Log()
    assert float(lm.grad(wrapped(kind, LOOPS[loop](log)))(2.0)) == 6.0
    assert log == STEPS
    log.clear()
    lm.jvp(wrapped(kind, LOOPS[loop](log)), (2.0,), (1.0,))
    assert log == STEPS


def test_a_while_in_forward_mode():
    log = Log()
    lm.jvp(while_program(log), (2.0,), (1.0,))
    assert log == STEPS


@pytest.mark.parametrize("kind", KINDS)
def test_the_test_of_a_while_has_effects(kind):
    log = Log()

    def test(c):
        log.note("test", c)
        return c < 3

    def step(c):
        log.note("step", c)
        return c + 1

    assert int(wrapped(kind, lambda x: lax.while_loop(test, step, x))(1)) == 3
    assert log == [("test", 1), ("step", 1), ("test", 2), ("step", 2), ("test", 3)]


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_branch_taken_has_its_effects(kind):
    log = Log()

    def f(x):
        def low(y):
            log.note("low", y)
            return y

        def high(y):
            log.note("high", y)
            log.note("high", y)
            return -y

        out = lax.cond(x < 2, low, lambda y: lax.switch(1, [low, high], y), x)
        log.note("end")
        return out

    g = wrapped(kind, f)
    g(1.0)
    g(5.0)
    assert log == [("low", 1.0), ("end",), ("high", 5.0), ("high", 5.0), ("end",)]
    log.clear()
    lm.grad(g)(1.0)
    assert log == [("low", 1.0), ("end",)]


@pytest.mark.parametrize("kind", ["plain", "jit", "checkpoint"])
def test_vmap_goes_lane_by_lane(kind):
    log = Log()

    def f(x, y):
        log.note("x", x)
        log.note("y", y)  # the same for all lanes: one effect
        return log.count(x) + 0 * x

    out = lm.vmap(wrapped(kind, f), in_axes=(0, None))(lnp.asarray(X), 7.0)
    assert [e for e in log if e != "count"] == [("x", 3.0), ("x", 1.0), ("x", 2.0), ("y", 7.0)]
    assert log[4:] == ["count"] * 3
    np.testing.assert_array_equal(np.asarray(out), [5, 6, 7])


@pytest.mark.parametrize(
    "order", ["jit of vmap", "vmap of jit", "vmap of vmap", "grad of vmap", "vmap of grad"]
)
def test_vmap_nests(order):
    log = Log()

    def f(x):
        log.note("x", x)
        return x * x

    x = lnp.asarray(X)
    if order == "vmap of vmap":
        lm.vmap(lm.vmap(f))(x.reshape(1, 3))
    elif order == "grad of vmap":
        lm.grad(lambda y: lm.vmap(f)(y).sum())(x)
    else:
        {
            "jit of vmap": lm.jit(lm.vmap(f)),
            "vmap of jit": lm.vmap(lm.jit(f)),
            "vmap of grad": lm.vmap(lm.grad(f)),
        }[order](x)
    assert log == [("x", 3.0), ("x", 1.0), ("x", 2.0)]


def test_lanes_that_go_different_ways_have_the_effects_of_their_own():
    log = Log()

    def f(x):
        def big(y):
            log.note("big", y)
            return y * 2

        return lax.cond(x > 1.5, big, lambda y: y, x)

    np.testing.assert_array_equal(np.asarray(lm.vmap(f)(lnp.asarray(X))), [6, 1, 4])
    assert log == [("big", 3.0), ("big", 2.0)]
    log.clear()

    def count_down(x):
        def step(c):
            log.note("c", c)
            return c - 1

        return lax.while_loop(lambda c: c > 0, step, x)

    def whole(x):
        out = count_down(x)
        log.note("end", x)
        return out

    lm.jit(lm.vmap(whole))(lnp.asarray([2, 0, 1]))
    assert log == [("c", 2), ("c", 1), ("c", 1), ("end", 2), ("end", 0), ("end", 1)]


def test_effects_with_results_are_not_run_again_for_them():
    log = Log()

    def f(x):
        a = log.count(x)
        log.note("later", x)
        return lax.cond(x > 1.5, lambda: log.count(x), lambda: a * 0) + a

    out = lm.vmap(f)(lnp.asarray(X))
    want = ["count"] * 3 + [("later", 3.0), ("later", 1.0), ("later", 2.0)] + ["count"] * 2
    assert log == want
    np.testing.assert_array_equal(np.asarray(out), [1 + 7, 2, 3 + 8])
    assert log == want


def test_vmap_of_a_scan_steps_all_lanes_together():
    log = Log()
    out = lm.vmap(scan_program(log))(lnp.asarray([2.0, 1.0]))
    np.testing.assert_array_equal(np.asarray(out), [12.0, 6.0])
    assert log[:4] == [("c", 2.0), ("c", 1.0), ("x", 1.0), ("c", 2.0)]


def test_results_order_what_follows():
    log = Log()

    def f(x):
        a = log.count(x)
        b = log.count(x)
        return a + 10 * b

    assert int(f(1)) == 21
    assert int(lm.jit(f)(1)) == 3 + 40
    assert int(lax.scan(lambda c, _: (c, f(c)), 0, None, length=2)[1][1]) == 7 + 80


def test_io_callback_has_no_derivative():
    def f(x):
        return io_callback(np.sin, lm.ShapeDtype((), "float32"), x) * x

    for g in (f, lm.jit(f)):
        with pytest.raises(ValueError, match="io_callback has no derivative"):
            lm.grad(g)(1.0)
        with pytest.raises(ValueError, match="io_callback has no derivative"):
            lm.jvp(g, (1.0,), (1.0,))
    calls = []

    def g(x):
        scale = io_callback(
            lambda v: calls.append(1) or np.float32(v), lm.ShapeDtype((), "float32"), lax.stop_gradient(x)
        )
        return scale * x

    assert float(lm.grad(g)(3.0)) == 3.0
    assert float(lm.grad(lm.jit(g))(3.0)) == 3.0
    assert len(calls) == 2


def test_a_checkpoint_does_not_run_an_io_callback_again():
    def f(x):
        scale = io_callback(lambda v: v, lm.ShapeDtype((), "float32"), lax.stop_gradient(x))
        return scale * lnp.sin(x)

    assert float(lm.checkpoint(f)(0.0)) == 0.0
    with pytest.raises(NotImplementedError, match="would run a second time"):
        lm.grad(lm.checkpoint(f))(1.0)


def test_custom_rules_have_the_effects_of_what_runs():
    log = Log()

    @lm.custom_vjp
    def f(x):
        log.note("f", x)
        return x * x

    def forward(x):
        log.note("forward", x)
        return f(x), x

    def backward(x, ct):
        log.note("backward", ct)
        return (2 * x * ct,)

    f.defvjp(forward, backward)
    for g in (f, lm.jit(f)):
        log.clear()
        g(3.0)
        assert log == [("f", 3.0)]
        log.clear()
        assert float(lm.grad(g)(3.0)) == 6.0
        assert log == [("forward", 3.0), ("f", 3.0), ("backward", 1.0)]
        log.clear()
        np.asarray(lm.vmap(lm.grad(g))(lnp.asarray([1.0, 2.0])))
        assert [e for e in log if e[0] != "backward"] == [
            *(("forward", 1.0), ("forward", 2.0)),
            *(("f", 1.0), ("f", 2.0)),
        ]
        assert ("backward", 1.0) in log


def test_effects_of_a_backward_rule_in_a_loop():
    log = Log()

    @lm.custom_vjp
    def f(x):
        return x * x

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (log.note("backward", ct), (2 * x * ct,))[1])
    grad = lm.grad(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0])
    for g in (grad, lm.jit(grad)):
        log.clear()
        assert float(g(2.0)) == 32.0
        assert log == [("backward", 1.0), ("backward", 8.0)]


def test_a_callback_may_record_and_have_effects_of_its_own():
    log = Log()

    def outer(x):
        y = lnp.sin(lnp.asarray(x)) * 2
        log.note("inner", y > 100)
        log.append(("outer", float(lm.jit(lambda v: v + 1)(x))))

    def f(x):
        lm.debug.callback(outer, x)
        return x + 1

    want = [("inner", False), ("outer", 2.0)]
    for g in (f, lm.jit(f), lm.grad(f)):
        log.clear()
        g(1.0)
        assert log == want
    log.clear()
    lm.vmap(f)(lnp.ones(2))
    assert log == want * 2


@pytest.mark.parametrize("kind", ["plain", "jit", "grad", "vmap", "scan"])
def test_what_a_callback_raises_reaches_the_caller(kind):
    log = Log()

    def fails(x):
        raise LookupError("not here")

    def f(x):
        lm.debug.callback(fails, x)
        log.note("later")
        return x * 1.0

    run = {
        "plain": lambda: f(1.0),
        "jit": lambda: lm.jit(f)(1.0),
        "grad": lambda: lm.grad(f)(1.0),
        "vmap": lambda: lm.vmap(f)(lnp.ones(2)),
        "scan": lambda: lax.scan(lambda c, _: (f(c), None), 1.0, None, length=3),
    }[kind]
    for _ in range(2):
        with pytest.raises(LookupError, match="not here") as caught:
            run()
        assert any("test_effects.py" in n for n in getattr(caught.value, "__notes__", ["test_effects.py"]))
    assert log == []
    log.note("alive")  # nothing of the failure stays
    assert log == [("alive",)]


def test_print(capsys):
    @lm.jit
    def f(x, n):
        lm.debug.print("x = {}, n = {n:03d}, {what}", x, n=n, what="text")
        lm.debug.print("{{}} {0} {0}", x[0])
        return x

    f(lnp.asarray([1.0, 2.5]), 7)
    lm.debug.print("plain {:.2f}", lnp.float32(1.5), ordered=True)
    lm.debug.print("nothing")
    assert capsys.readouterr().out.splitlines() == [
        "x = [1.  2.5], n = 007, text",
        "{} 1.0 1.0",
        "plain 1.50",
        "nothing",
    ]


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "message"),
    [
        (("{}",), {}, IndexError, "out of range"),
        (("{x}",), {}, KeyError, "x"),
        (("x", 1), {}, ValueError, "no field of the format shows the argument 0"),
        (("{}", 1), {"n": 2}, ValueError, "no field of the format shows the argument 'n'"),
        ((3,), {}, TypeError, "needs a format string"),
    ],
)
def test_formats_are_checked_where_they_are_recorded(args, kwargs, error, message):
    with pytest.raises(error, match=message):
        lm.jit(lambda: lm.debug.print(*args, **kwargs))()


def test_callback_as_a_decorator_and_in_two_calls():
    seen = []

    @lm.debug.callback
    def nothing():
        seen.append("now")

    lm.jit(lambda x: lm.debug.callback(ordered=True)(lambda v, ordered: seen.append(float(v)), x, ordered=1))(
        2.0
    )
    assert seen == ["now", 2.0]
    for wrong in (lambda: lm.debug.callback(3), lambda: lm.debug.callback()(3)):
        with pytest.raises(TypeError, match="needs a function"):
            wrong()
    for wrong in (lambda: lm.debug.callback(None, 3), lambda: lm.debug.callback(ordered=True, a=3)):
        with pytest.raises(TypeError, match=r"debug\.callback without its first argument takes options only"):
            wrong()


def test_print_in_two_calls_and_with_the_options_of_numpy(capfd):
    lm.jit(lambda x: lm.debug.print(ordered=True)("x: {x}", x=x))(42)
    with pytest.raises(TypeError, match=r"debug\.print without its first argument takes options only"):
        lm.debug.print(ordered=True, a=42)
    with pytest.raises(ValueError, match="no field of the format shows the argument 'partitioned'"):
        lm.debug.print()("hello {a}", a=42, partitioned=True)

    @lm.jit
    def f(x):
        with np.printoptions(precision=2, suppress=True):
            lm.debug.print("{}", x)
        lm.debug.print("{}", x)

    x = np.array([1.2345, 2.3456, 1e-7])
    f(x)
    with np.printoptions(precision=2, suppress=True):
        near = str(x)
    assert capfd.readouterr().out.splitlines() == ["x: 42", near, str(x)]


def test_regions_without_a_token_refuse_effects():
    log = Log()

    def combine(a, b):
        log.note("a", a)
        return a + b

    with pytest.raises(NotImplementedError, match="host callback with effects"):
        lax.reduce(lnp.ones(3), 0.0, combine, (0,))


def test_effects_barrier_and_many_runs():
    log = Log()
    step = lm.jit(lambda i: log.note("i", i))
    for i in range(500):
        step(i)
    lm.effects_barrier()
    assert log == [("i", i) for i in range(500)]
    before = lm.cache.stats()["live_nodes"]
    for i in range(500):
        step(i)
        lm.debug.callback(lambda v: None, i)
    assert lm.cache.stats()["live_nodes"] <= before + 600


def test_specialized_branches_run_effects_once():
    log = Log()

    @lm.jit
    def f(x):
        log.note("x", x)
        if x > 0:
            log.note("positive")
            return x
        log.note("negative")
        return -x

    for value, word in ((1.0, "positive"), (-1.0, "negative"), (2.0, "positive")):
        log.clear()
        f(value)
        assert log == [("x", value), (word,)]


def test_a_value_asked_for_in_a_derivative_does_not_repeat_effects():
    log = Log()

    def inner(x):
        log.note("x", x)
        return x * x

    def f(x):
        y = lm.jit(inner)(x)
        z = lax.scan(lambda c, _: (inner(c), None), y, None, length=1)[0]
        return z if z > 1 else -z

    assert float(lm.grad(f)(2.0)) == 32.0
    assert log == [("x", 2.0), ("x", 4.0)]


def test_effects_cannot_be_written_in_another_language():
    """The token behind the results was taken for a result without a type: the process died."""

    @lm.jit
    def f(x):
        lm.io_callback(lambda v: None, None, x)
        return x + 1

    traced = f.trace(lnp.ones(2))
    for form in ("hlo", "stablehlo"):
        with pytest.raises(NotImplementedError, match="belongs to this process"):
            traced.as_text(form)


@pytest.mark.parametrize(
    "use",
    [
        lambda h: h(1.0),
        lambda h: lm.jit(h)(1.0),
        lambda h: lm.grad(h)(1.0),
        lambda h: lm.jit(lm.grad(lm.checkpoint(h)))(1.0),
        lambda h: lm.jit(lm.vmap(h))(lnp.arange(3.0)),
        lambda h: lm.jit(lambda x: lax.scan(lambda c, _: (h(c), None), x, None, length=2)[0])(1.0),
        lambda h: lm.jit(lambda x: lax.cond(x > 0, h, lambda y: y, x) + h(x))(1.0),
        lambda h: lm.make_trace(lambda x: h(x) * 2)(1.0)(2.0)[0],
    ],
)
def test_effects_of_a_trace_run_where_it_is_evaluated(use):
    seen = []

    def f(x):
        lm.debug.callback(lambda v: seen.append(float(v)), x)
        return lnp.sin(x)

    def among_others(g):
        def around(x):
            lm.debug.callback(lambda v: seen.append("before"), x)
            out = g(x)
            lm.debug.callback(lambda v: seen.append("after"), x)
            return out

        return around

    trace = lm.make_trace(f)(1.0)
    got = []
    for g in (f, lambda x: trace(x)[0]):
        for h in (g, among_others(g)):
            out = use(h).tolist()
            lm.effects_barrier()
            got.append((out, seen[:]))
            seen.clear()
    # Numbers are computed in float64 and rounded, what the trace takes in float32: within 0.75 units in the last place.
    for (out, effects), (again, effects_again) in zip(got[:2], got[2:], strict=True):
        np.testing.assert_allclose(again, out, rtol=1.2e-7)
        assert effects == effects_again and effects
