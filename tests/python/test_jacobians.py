"""Jacobians over containers and several arguments, auxiliary results, complex and integer arguments, against JAX."""

from __future__ import annotations

import lamina as lm
import lamina.lax as lax
import lamina.numpy as lnp
import numpy as np
import pytest

PARAMS = {"w": np.arange(3, dtype=np.float32), "v": np.full((2, 2), 2, np.float32)}
PAIR = (np.ones(2, np.float32), np.float32(3))


@pytest.fixture(scope="module")
def jax():
    return pytest.importorskip("jax")


def model(xp):
    return lambda p, q: {"a": xp.sin(p["w"]) * q[0].sum(), "b": (q[1] * p["v"] ** 2).sum()}


@pytest.mark.parametrize("name", ["jacfwd", "jacrev", "hessian"])
@pytest.mark.parametrize("argnums", [0, 1, (0, 1), (1,)])
@pytest.mark.parametrize("jitted", [False, True])
def test_containers_and_argnums(jax, name, argnums, jitted):
    f = getattr(lm, name)(model(lnp), argnums)
    got = (lm.jit(f) if jitted else f)(PARAMS, PAIR)
    want = getattr(jax, name)(model(jax.numpy), argnums)(PARAMS, PAIR)
    got = jax.tree.map(np.asarray, got)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6), got, want)


def test_keyword_arguments_and_empty_arrays():
    got = lm.jacrev(lambda x, *, k: k * x)(lnp.ones(2), k=3.0)
    np.testing.assert_array_equal(got.numpy(), 3 * np.eye(2))
    assert lm.jacfwd(lambda x: x.sum())(lnp.zeros(0)).shape == (0,)
    assert lm.jacrev(lambda x: x * 2)(lnp.zeros(0)).shape == (0, 0)


def test_holomorphic_derivatives():
    def h(z):
        return z**3 + 1j * z

    z = 1 + 2j
    want, second = 3 * z**2 + 1j, 6 * z
    for f in (lm.grad, lm.jacfwd, lm.jacrev):
        assert f(h, holomorphic=True)(z).item() == pytest.approx(want)
    assert lm.hessian(h, holomorphic=True)(z).item() == pytest.approx(second)
    with pytest.raises(TypeError, match="needs complex inputs"):
        lm.grad(h, holomorphic=True)(1.0)
    with pytest.raises(TypeError, match="holomorphic=True if f is"):
        lm.grad(h)(z)
    with pytest.raises(TypeError, match="pass holomorphic=True"):
        lm.jacfwd(h)(z)
    with pytest.raises(TypeError, match="pass holomorphic=True"):
        lm.jacrev(h)(z)


def test_integer_arguments_have_no_gradient():
    grads = lm.grad(lambda n, x: n * x, (0, 1), allow_int=True)(3, 2.0)
    assert grads[0] is None and grads[1].item() == 3
    rows = lm.jacrev(lambda n, x: n * x, (0, 1), allow_int=True)(3, lnp.ones(2))
    assert rows[0] is None
    np.testing.assert_array_equal(rows[1].numpy(), 3 * np.eye(2))
    with pytest.raises(TypeError, match="n is int32"):
        lm.grad(lambda n: n * 1.0)(3)


def test_auxiliary_results():
    def f(x):
        return x * x, {"k": x + 1}

    value, pull, aux = lm.vjp(f, 3.0, has_aux=True)
    assert (value.item(), pull(1.0)[0].item(), aux["k"].item()) == (9, 6, 4)
    value, tangent, aux = lm.jvp(f, (3.0,), (1.0,), has_aux=True)
    assert (value.item(), tangent.item(), aux["k"].item()) == (9, 6, 4)
    value, push, aux = lm.linearize(f, 3.0, has_aux=True)
    assert (value.item(), push(1.0).item(), aux["k"].item()) == (9, 6, 4)
    for jacobian in (lm.jacfwd, lm.jacrev):
        rows, aux = jacobian(f, has_aux=True)(lnp.arange(2.0))
        np.testing.assert_array_equal(rows.numpy(), np.diag([0, 2]))
        np.testing.assert_array_equal(aux["k"].numpy(), [1, 2])
    second, aux = lm.hessian(f, has_aux=True)(3.0)
    assert second.item() == 2
    with pytest.raises(TypeError, match=r"must return a two-element tuple \(value, aux\), not Tensor"):
        lm.vjp(lambda x: x, 3.0, has_aux=True)
    with pytest.raises(TypeError, match="not a list of 3"):
        lm.vjp(lambda x: [x, x, x], 3.0, has_aux=True)


def test_vmap_refuses_a_result_without_axis_whose_lanes_differ():
    x = lnp.arange(3.0)
    with pytest.raises(ValueError, match="out_axes is None for result, float32"):
        lm.vmap(lambda v: v * 2, out_axes=None)(x)
    with pytest.raises(ValueError, match=r"result\[1\]\['m'\]"):
        lm.vmap(lambda v: (v * 2, {"m": v}), out_axes=(0, {"m": None}))(x)
    with pytest.raises(ValueError, match="out_axes is None"):
        lm.jit(lm.vmap(lambda v: v, out_axes=None))(x)
    # What no lane changes has no axis, nor what loops and branches of lanes pass on.
    w = lnp.ones((2, 2))

    def steps(w, v, most):
        go, step = lambda c: c[0] < most, lambda c: (c[0] + 1, c[1] @ w, c[2])
        return lax.while_loop(go, step, (0, v, w))[1:]

    rows, same = lm.vmap(steps, in_axes=(None, 0, 0), out_axes=(0, None))(w, lnp.ones((4, 2)), lnp.arange(4))
    assert same.shape == (2, 2)
    np.testing.assert_array_equal(rows.numpy(), np.repeat(2.0 ** np.arange(4)[:, None], 2, 1))
    scanned = lambda v, y: lax.scan(lambda c, _: ((c[0] * v, c[1] + y * 0, y), None), (v, y, y), None, 2)[0]  # noqa: E731
    assert lm.vmap(scanned, in_axes=(0, None), out_axes=(0, None, None))(x, 4.0)[2].item() == 4
    chosen = lambda v, y: lax.cond(v > 1, lambda v, y: (v, y), lambda v, y: (-v, y), v, y)  # noqa: E731
    moved, same = lm.vmap(chosen, in_axes=(0, None), out_axes=(0, None))(x, 4.0)
    np.testing.assert_array_equal(moved.numpy(), [0, -1, 2])
    assert same.item() == 4
    with pytest.raises(ValueError, match="out_axes is None"):
        lm.vmap(lambda v, y: lax.cond(v > 1, lambda y: y, lambda y: -y, y), (0, None), None)(x, 4.0)
    # Through a jitted function too.
    doubled, same = lm.vmap(lambda v: lm.jit(lambda u: (u * 2, lnp.ones(2)))(v), out_axes=(0, None))(x)
    assert doubled.shape == (3,)
    assert same.shape == (2,)


def test_vmap_needs_an_axis_for_every_key():
    tree = {"a": lnp.arange(3.0), "b": lnp.arange(3.0)}
    with pytest.raises(ValueError, match=r"in_axes\[0\] has no entry 'b'"):
        lm.vmap(lambda d: d["a"] + d["b"], in_axes=({"a": 0},))(tree)
    with pytest.raises(ValueError, match=r"in_axes\[0\] has an entry 'c'"):
        lm.vmap(lambda d: d["a"], in_axes=({"a": 0, "b": 0, "c": 0},))(tree)
    with pytest.raises(TypeError, match="no axis"):
        lm.vmap(lambda d: d["a"], in_axes=("a",))(tree)
    with pytest.raises(ValueError, match=r"out_axes has no entry 'b'"):
        lm.vmap(lambda d: d, out_axes={"a": 0})(tree)
    got = lm.vmap(lambda d: d["a"] + d["b"].sum(), in_axes=({"a": np.int64(0), "b": None},))(tree)
    np.testing.assert_array_equal(got.numpy(), [3, 4, 5])


def test_vmap_without_batched_arguments():
    assert lm.vmap(lambda: lnp.ones(2), axis_size=3)().shape == (3, 2)
    with pytest.raises(ValueError, match="different sizes"):
        lm.vmap(lambda v: v, axis_size=4)(lnp.ones(3))
    with pytest.raises(ValueError, match="axis_size"):
        lm.vmap(lambda v: v, in_axes=None)(lnp.ones(3))


def test_jacobians_by_numbers_are_numbers():
    for jacobian in (lm.jacrev, lm.jacfwd):
        assert jacobian(lambda x: x * 2)(1.0).weak_type
        assert not jacobian(lambda x: x * 2)(lnp.float32(1)).weak_type
