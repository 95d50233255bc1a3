"""`checks(nan=, leaks=)`, `debug_nans`, `checking_leaks`, `no_tracing` and `disable_jit`."""

import re

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax
from lamina.experimental import checkify


def log_of(x):
    y = x - 2.0
    z = lnp.log(y)  # the line that is told
    return z * 2.0


LINE = log_of.__code__.co_firstlineno + 2


@pytest.mark.parametrize(
    "wrap", [lambda f: f, lm.jit, lambda f: lm.jit(lm.jit(f))], ids=["plain", "jit", "jit of jit"]
)
def test_a_nan_names_its_operation_and_line(wrap):
    f = wrap(log_of)
    f(1.0)
    with lm.checks(nan="raise"):
        assert float(f(3.0)) == 0.0
        with pytest.raises(
            FloatingPointError, match=rf"encountered in log of \w+\[\] at .*test_debugging.py:{LINE}"
        ):
            np.asarray(f(1.0))
    assert np.isnan(float(f(1.0)))


def test_backward_and_loops():
    with lm.debug_nans():
        with pytest.raises(FloatingPointError, match="encountered in"):
            np.asarray(lm.grad(lambda x: lnp.sqrt(x) * 0.0)(0.0))
        with pytest.raises(FloatingPointError, match=rf"log of \w+\[\] at .*:{LINE}"):
            np.asarray(lm.jit(lambda x: lax.fori_loop(0, 5, lambda i, c: log_of(c), x))(20.0))
        with pytest.raises(FloatingPointError, match=rf"log of .* at .*:{LINE}"):
            np.asarray(lax.while_loop(lambda c: c < 100, lambda c: c + log_of(c), 0.0))
        with pytest.raises(FloatingPointError, match=rf"log of .* at .*:{LINE}"):
            np.asarray(lm.jit(lambda x: lax.cond(x < 5, log_of, lambda v: v, x))(1.0))
        with lm.debug_nans(False):
            assert np.isnan(float(log_of(1.0)))


def test_a_nan_that_only_comes_through_is_none():
    with lm.debug_nans():
        x = lnp.asarray([np.nan, 1.0])
        assert np.isnan(np.asarray(x[::-1])[1])
        assert np.isnan(np.asarray(lnp.concatenate([x, x]))[0])
        np.asarray(lm.jit(lambda v: lnp.where(v > 0, v, 0.0))(lnp.ones(2)))


def test_callbacks_run_once_and_donated_arguments_are_gone():
    calls = []

    def f(x):
        y = lm.pure_callback(lambda v: calls.append(1) or v, x, x)
        return lnp.log(-y)

    with lm.debug_nans():
        np.asarray(
            lm.jit(f)(lnp.float32(1.0))
        )  # the operation is not looked for: the callback would run again
        assert len(calls) == 1
        g = lm.jit(log_of, donate_argnums=0)
        with pytest.raises(FloatingPointError, match="are not donated"):
            np.asarray(g(lnp.asarray(1.0)))


def test_modes_are_checked_and_end():
    with pytest.raises(ValueError, match="nan must be"), lm.checks(nan="warn"):
        pass
    with pytest.raises(ZeroDivisionError), lm.debug_nans():
        raise ZeroDivisionError
    assert np.isnan(float(log_of(1.0)))


def test_jit_off():
    ran = []

    class Model:
        @lm.jit
        def f(self, x, *, k=1):
            ran.append(float(x) if not ran else 0)
            return x + k

    model = Model()
    with lm.disable_jit():
        assert float(model.f(1.0, k=2)) == 3.0
        assert float(model.f(1.0)) == 2.0
        with lm.disable_jit(False), pytest.raises(TypeError):
            ran.clear()
            model.f(5.0)  # traced: its value is not known
    assert ran == []
    ran.append(0)
    assert float(model.f(1.0, k=2)) == 3.0


LOOPS = {
    "scan": lambda see, x: lm.lax.scan(lambda c, v: (c + v, see(c) * v), x[0], x),
    "reversed scan": lambda see, x: lm.lax.scan(lambda c, v: (c * v, see(c) + v), 1.0, x, reverse=True),
    "scan of a length": lambda see, x: lm.lax.scan(lambda c, _: (see(c) * 2, {"c": c}), x, None, length=3),
    "map": lambda see, x: lm.lax.map(lambda v: see(v) ** 2, x),
    "fori_loop": lambda see, x: lm.lax.fori_loop(1, 3, lambda i, c: see(c) * i, x),
    "while_loop": lambda see, x: lm.lax.while_loop(lambda c: see(c)[0] < 9, lambda c: c * 2 + 1, x),
    "cond": lambda see, x: lm.lax.cond(x[0] > 1, lambda v: see(v), lambda v: see(v) * 2, x),
    "switch": lambda see, x: lm.lax.switch(5, [lambda v: v, lambda v: see(v) + 1], x),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_and_branches_without_jit_see_values(name):
    f, x, seen = LOOPS[name], lnp.arange(1.0, 4.0), []

    def see(v):
        seen.append(v.tolist())
        return v

    want = f(lambda v: v, x)
    with lm.disable_jit():
        got = f(see, x)
        slope = lm.grad(lambda x: sum(lnp.sum(v) for v in lm.tree.leaves(f(lambda v: v, x))))(x)
        lanes = lm.vmap(lambda x: f(lambda v: v, x))(x[None])
    assert seen and lm.tree.structure(got) == lm.tree.structure(want)
    for a, b, c in zip(*map(lm.tree.leaves, (got, want, lanes))):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b)
        np.testing.assert_allclose(c[0], b)
    plain = lm.grad(lambda x: sum(lnp.sum(v) for v in lm.tree.leaves(f(lambda v: v, x))))(x)
    np.testing.assert_allclose(slope, plain)


def test_what_a_derivative_keeps_is_listed(capsys):
    def f(weights, x):
        for w in weights:
            x = lnp.sin(w @ x)
        return x.sum()

    weights = [lm.ShapeDtype((5, 4), "float32"), lnp.ones((6, 5))]
    x = lnp.ones(4)
    listed = lm.ad_checkpoint.saved_residuals(f, weights, x)
    of_arguments = sorted((d.shape, text) for d, text in listed if text.startswith("the argument"))
    assert of_arguments == [
        ((4,), "the argument x"),
        ((5, 4), "the argument weights[0]"),
        ((6, 5), "the argument weights[1]"),
    ]
    made = [d.shape for d, text in listed if text.startswith("made at ") and __file__ in text]
    assert sorted(made) == [(5,), (5,), (6,)]
    kept = lm.ad_checkpoint.saved_residuals(lm.checkpoint(f), weights, x)
    assert sorted(d.shape for d, _ in kept) == [(4,), (5, 4), (6, 5)]
    with_policy = lm.checkpoint(f, policy=lm.checkpoint_policies.dots_saveable)
    kept = lm.ad_checkpoint.saved_residuals(with_policy, weights, x)
    # Also the sum itself, which is a scalar.
    assert sorted(d.shape for d, _ in kept if d.shape) == [(4,), (5,), (5, 4), (6,), (6, 5)]
    lm.ad_checkpoint.print_saved_residuals(lm.checkpoint(f), weights, x)
    assert "float32[5,4]: the argument weights[0]\n" in capsys.readouterr().out
    lm.ad_checkpoint.print_saved_residuals(lambda x: x * 2, 1.0)
    assert capsys.readouterr().out == "the derivative of <lambda> keeps nothing\n"
    with pytest.raises(TypeError, match="saved_residuals"):
        lm.ad_checkpoint.saved_residuals(3)


class Kept:
    value = None


def keeps_in_a_list(kept):
    return lambda x: kept.append([x * 2]) or x


def keeps_in_an_attribute(kept):
    holder = Kept()
    kept.append(holder)

    def f(x):
        holder.value = x * 2
        return x

    return f


def keeps_in_a_variable(kept):
    last = None

    def f(x):
        nonlocal last
        last = x * 2
        return x

    kept.append(f)
    return f


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda f: lm.jit(f)(1.0), "the jitted function"),
        (lambda f: lm.vmap(f)(lnp.ones(3)), "the mapped function"),
        (lambda f: lax.scan(lambda c, _: (f(c), None), 1.0, None, length=2), "the body of lax.scan"),
        (lambda f: lax.while_loop(lambda c: c < 1, f, 1.0), "the body of lax.while_loop"),
        (lambda f: lax.fori_loop(0, 3, lambda i, c: f(c), 1.0), "the body of lax.fori_loop"),
        (lambda f: lax.cond(True, f, lambda x: x, 1.0), "a branch of lax.cond"),
        (lambda f: lm.eval_shape(f, 1.0), "<lambda>|f"),
        (lambda f: lm.make_trace(f)(1.0), "<lambda>|f"),
        (lambda f: lm.jit(lambda x: lm.vmap(f)(lnp.ones(2)) + x)(1.0), "the mapped function"),
    ],
)
@pytest.mark.parametrize(
    ("keeper", "where"),
    [
        (keeps_in_a_list, "item 0 of a list"),
        (keeps_in_an_attribute, "value"),
        (keeps_in_a_variable, "a variable of a function around it"),
    ],
)
def test_a_value_that_is_kept_after_its_trace_is_told(call, what, keeper, where):
    call(keeper([]))  # without the check nothing is looked at
    kept = []
    line = keeper.__code__.co_firstlineno
    with lm.checking_leaks(), pytest.raises(RuntimeError) as told:
        call(keeper(kept))
    text = str(told.value)
    assert re.match(f"Leaked out of ({what})", text) and where in text and "float32[" in text
    made = re.search(r"test_debugging.py:(\d+)", text)
    assert made and line < int(made[1]) <= line + 6
    with lm.checks(reads="off", leaks="raise"), lm.checking_leaks(False):
        call(keeper(kept))


def checks_and_takes(x, i):
    checkify.check(i < 3, "at {i}", i=i)
    return x[i]


def test_what_a_trace_keeps_only_while_it_lasts_is_no_leak():
    seen = []

    def f(x):
        rows = [x + i for i in range(3)]
        table = {"sum": sum(rows), "own": (rows,)}
        table["itself"] = table  # only the collector takes it
        slope = lm.grad(lambda z: lax.cond(z > 0, lnp.sin, lnp.cos, z * x))(x)
        value, pull = lm.vjp(lambda z: lax.fori_loop(0, 3, lambda i, c: c * z, z), x)
        lanes = lm.vmap(lambda y: y * x)(lnp.ones(3)).sum()
        inner = lm.jit(lambda z: lm.checkpoint(lnp.sin)(z) + x)(slope)
        return table["sum"] + pull(value)[0] + lanes + inner

    want = f(lnp.asarray(0.5)).item()
    with lm.checks(leaks="raise"):
        for g in (f, lm.jit(f), lm.jit(f, control_flow="convert")):
            seen.append(g(0.5))
        lm.jit(lm.grad(f))(0.5)
        looped = lm.jit(lambda x: lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, c[1] * x), (0, x)))
        assert (
            looped(3.0)[1].item() == 27.0
        )  # a watched function keeps what its loops' bodies give while it lasts
        checked = checkify.checkify(lm.jit(checks_and_takes), checkify.all_checks)
        assert checked(lnp.arange(3.0), 1)[0].get() is None
        assert "5" in checked(lnp.arange(3.0), 5)[0].get()
        assert lm.vmap(lm.jit(f))(lnp.full(2, 0.5)).shape == (2,)
    np.testing.assert_allclose([x.item() for x in seen], want, rtol=1e-6)


def test_inside_no_tracing_only_finished_traces_serve():
    scale = [2.0, "unit"]

    @lm.jit
    def f(x, y=0.0):
        if x.sum() < 0:
            return y
        return x * scale[0] + len(scale[1])

    x = lnp.ones(2)
    with lm.no_tracing(), pytest.raises(RuntimeError, match="it has not been so far"):
        f(x)
    f(x)
    with lm.no_tracing():
        scale[0] = 5.0
        assert f(x * 2).tolist() == [14.0, 14.0]
        with pytest.raises(RuntimeError, match=r"f\(float32\[3\]\).*so far it was for \(float32\[2\]\)"):
            f(lnp.ones(3))
        for again in (lambda: f(-x, x), lambda: scale.__setitem__(1, "other") or f(x)):
            with pytest.raises(RuntimeError, match="no_tracing"):
                again()
        with lm.no_tracing(False):
            f(lnp.ones(3))
        assert f(lnp.ones(3)).shape == (3,)
    scale[1] = "unit"
    assert f(x).tolist() == [9.0, 9.0] and f(-x, x).tolist() == [1.0, 1.0]
