"""Functions with a batched form of their own: when the form is used, and that derivatives of it are right."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax
from lamina.custom_batching import custom_vmap, sequential_vmap


def sine():
    """sin, whose batched form is 10 sin, to be seen, and the calls of that form."""
    calls = []

    @custom_vmap
    def f(x):
        return lnp.sin(x)

    @f.def_vmap
    def rule(size, in_batched, x):
        calls.append((size, in_batched, x.shape))
        return 10 * lnp.sin(x), in_batched[0]

    return f, calls


X = np.array([0.5, -1.0, 2.0], np.float32)


def near(a, b):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=2e-6, atol=1e-6)


def test_the_rule_is_for_lanes_alone():
    f, calls = sine()
    near(f(X), np.sin(X))
    near(lm.jit(f)(X), np.sin(X))
    assert calls == []
    near(lm.vmap(f)(X), 10 * np.sin(X))
    near(lm.jit(lm.vmap(f))(X), 10 * np.sin(X))
    near(lm.vmap(lambda x: f(x) + f(1.0))(X), 10 * np.sin(X) + np.sin(1.0))
    assert set(map(str, calls)) == {"(3, [True], (3,))"}


def test_nested_lanes_call_the_rule_of_the_rule():
    f, calls = sine()
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    near(lm.vmap(lm.vmap(f))(x), 10 * np.sin(x))
    near(lm.vmap(f, in_axes=1, out_axes=1)(x), 10 * np.sin(x))
    assert calls[0][0] == 3 and calls[-1] == (3, [True], (3, 2))


@pytest.mark.parametrize("wrap", [lambda f: f, lm.jit])
def test_derivatives_of_lanes_are_those_of_the_rule(wrap):
    f, _ = sine()
    one = np.ones(3, np.float32)
    value, dot = wrap(lambda x: lm.jvp(lm.vmap(f), (x,), (one,)))(X)
    near(value, 10 * np.sin(X)), near(dot, 10 * np.cos(X))
    value, dot = wrap(lm.vmap(lambda x: lm.jvp(f, (x,), (1.0,))))(X)
    near(value, 10 * np.sin(X)), near(dot, 10 * np.cos(X))
    near(wrap(lm.grad(lambda x: lm.vmap(f)(x).sum()))(X), 10 * np.cos(X))
    near(wrap(lm.grad(f))(0.5), np.cos(0.5))
    near(wrap(lm.vmap(lambda t: lm.jvp(f, (0.5,), (t,))[1]))(X), 10 * np.cos(0.5) * X)


def test_lanes_of_a_reverse_derivative_are_those_of_the_function():
    f, _ = sine()
    near(lm.vmap(lm.grad(f))(X), np.cos(X))
    near(lm.vmap(lm.grad(lm.grad(f)))(X), -np.sin(X))


def test_containers_and_arguments_without_lanes():
    @custom_vmap
    def f(params, x):
        return {"y": params["w"] * x, "n": x.sum()}

    @f.def_vmap
    def rule(size, in_batched, params, x):
        assert in_batched == [{"w": False}, True] and x.shape == (size, 2)
        return {"y": params["w"] * x, "n": lnp.zeros(())}, {"y": True, "n": False}

    x = np.arange(6.0, dtype=np.float32).reshape(3, 2)
    out = lm.vmap(f, in_axes=(None, 0))({"w": 3.0}, x)
    near(out["y"], 3 * x), near(out["n"], np.zeros(3))
    grads = lm.grad(lambda p: lm.vmap(f, in_axes=(None, 0))(p, x)["y"].sum())({"w": 3.0})
    near(grads["w"], x.sum())


def test_inside_loops():
    f, calls = sine()

    def steps(x):
        return lax.fori_loop(0, 2, lambda i, c: f(c), x)

    near(lm.vmap(steps)(X), 10 * np.sin(10 * np.sin(X)))
    out, _ = lax.scan(lambda c, x: (c + lm.vmap(f)(x), None), np.zeros(3, np.float32), np.stack([X, X]))
    near(out, 20 * np.sin(X))
    assert calls


def test_what_a_rule_returns_is_checked():
    f = custom_vmap(lambda x: x * 2)
    with pytest.raises(AttributeError, match="def_vmap"):
        f(1.0)
    f.def_vmap(lambda n, b, x: x)
    with pytest.raises(TypeError, match=r"must return \(out, out_batched\)"):
        lm.vmap(f)(X)
    f.def_vmap(lambda n, b, x: (x, (True, True)))
    with pytest.raises(ValueError, match="another structure"):
        lm.vmap(f)(X)
    f.def_vmap(lambda n, b, x: (x[:2], True))
    with pytest.raises(ValueError, match=r"f32\[2\] where f32\[3\]"):
        lm.vmap(f)(X)
    f.def_vmap(lambda n, b, x: ((x, x), (True, True)))
    with pytest.raises(
        ValueError, match=r"rule <lambda> of <lambda> returns another structure than the function"
    ):
        lm.vmap(f)(X)
    f.def_vmap(lambda n, b, x: ([x], [True]))
    with pytest.raises(ValueError, match="another structure than the function"):
        lm.vmap(f)(X)


def test_one_lane_after_another():
    seen = []

    @sequential_vmap
    def f(x, y):
        seen.append(x.shape)
        return {"s": lnp.sin(x) + y}

    near(lm.vmap(f, in_axes=(0, None))(X, 1.0)["s"], np.sin(X) + 1)
    near(lm.vmap(lm.vmap(f, in_axes=(0, None)), in_axes=(None, 0))(X, X)["s"], np.sin(X)[None] + X[:, None])
    near(lm.vmap(lm.grad(lambda x: f(x, 2.0)["s"]))(X), np.cos(X))
    assert set(seen) == {()}
    along = lambda t: lm.jvp(lambda x: f(x, 2.0)["s"], (0.5,), (t,))[1]  # noqa: E731
    near(lm.vmap(along)(X), np.cos(0.5) * X)


def test_a_result_that_is_the_same_in_all_lanes_may_have_a_tangent_per_lane():
    @lm.custom_jvp
    def f(x):
        return np.zeros(x.shape, np.float32)

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * 3))
    _, dot = lm.jvp(lm.vmap(f), (X,), (X,))
    near(dot, 3 * X)
    near(lm.grad(lambda x: lm.vmap(f)(x).sum())(X), np.full(3, 3.0))
    near(lm.jit(lm.vmap(lm.grad(f)))(X), np.full(3, 3.0))


def test_one_function_with_several_rules():
    @custom_vmap
    @lm.custom_jvp
    def f(x):
        return lnp.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), 3 * tangents[0]))
    f.def_vmap(lambda size, in_batched, x: (10 * lnp.sin(x), in_batched[0]))
    near(lm.vmap(f)(X), 10 * np.sin(X))
    near(lm.grad(f)(0.5), 3.0)
    with pytest.raises(AttributeError, match="custom_vmap function has no attribute 'defvpj'"):
        f.defvpj(None, None)


def test_lanes_of_tangents_alone_leave_the_point_as_it_is():
    seen = []

    @custom_vmap
    def f(x):
        return lnp.sin(x)

    @f.def_vmap
    def rule(size, in_batched, x):
        seen.append((in_batched, x.shape))
        return lnp.cos(x), in_batched[0]

    near(lm.jacfwd(f)(X), -np.diag(np.sin(X)))
    assert seen == [([False], (3,))]


def test_numbers_are_numbers_to_the_rule_too():
    seen = []

    @custom_vmap
    def scaled(x, rate):
        return x * rate

    @scaled.def_vmap
    def _(size, batched, x, rate):
        seen.append((batched, rate.weak_type))
        return x * rate, True

    half = lnp.asarray([1.0, 2.0], "bfloat16")
    out = lm.vmap(scaled, (0, None))(half, 0.5)
    assert out.dtype == "bfloat16" and out.tolist() == [0.5, 1.0]
    assert seen == [([True, False], True)]
    assert lm.vmap(scaled, (0, None))(half, lnp.float32(0.5)).dtype == "float32"
