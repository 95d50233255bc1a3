"""`checks(nan=)`, `debug_nans` and `disable_jit`."""

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax


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
