"""Names of jax.lax and jax that programs use beside the ops, against JAX."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax

A, X = np.array([0.5, 2, 30], np.float32), np.array([0.1, 3, 25], np.float32)


@pytest.fixture(scope="module")
def jax():
    return pytest.importorskip("jax")


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("igamma", (A, X)),
        ("igammac", (A, X)),
        ("igamma_grad_a", (A, X)),
        ("random_gamma_grad", (A, X)),
        ("betainc", (A, A[::-1].copy(), np.array([0.1, 0.5, 0.9], np.float32))),
        ("polygamma", (np.array([0, 1, 3], np.float32), X)),
        ("zeta", (A + 1, X)),
        ("bessel_i0e", (X,)),
        ("bessel_i1e", (X,)),
        ("broadcast_to_rank", (A, 3)),
        ("empty", ((2, 3), "float32")),
        ("unstack", (np.ones((2, 3), np.float32), 1)),
        ("approx_max_k", (A, 2)),
        ("approx_min_k", (A, 2)),
    ],
)
def test_values(jax, name, args):
    got, want = getattr(lax, name)(*args), getattr(jax.lax, name)(*args)
    for g, w in zip(got, want, strict=True) if isinstance(want, (tuple, list)) else [(got, want)]:
        assert g.shape == w.shape and g.dtype == w.dtype.name
        np.testing.assert_allclose(g.numpy(), w, rtol=1e-4, atol=1e-6)


def test_operands_are_checked():
    with pytest.raises(TypeError, match="one element type"):
        lax.igamma(A, X.astype("float64"))
    with pytest.raises(TypeError, match="one rank"):
        lax.igamma(A, np.ones((2, 3), np.float32))
    with pytest.raises(ValueError, match="at least one array"):
        lax.stack([])


def test_what_lax_refuses_as_jax_does(jax):
    for name in ("argmax", "argmin"):
        for axis in (-1, 2):
            with pytest.raises(
                ValueError, match=rf"lax\.{name}: invalid axis {axis} for operand shape \(2, 3\)"
            ):
                getattr(lax, name)(np.ones((2, 3)), axis, "int32")
        assert getattr(lax, name)(np.ones((2, 3)), np.int64(1)).shape == (2,)
    for name in ("lt", "le", "gt", "ge"):
        for a, b in ((1j, 2j), (np.ones(2, np.complex64), 1.0)):
            with pytest.raises(TypeError, match=f"{name} does not accept dtype complex64"):
                getattr(lax, name)(a, b)
            with pytest.raises(TypeError):
                getattr(jax.lax, name)(a, b)
    assert lnp.less(1j, 2j)  # as NumPy compares them


def test_shapes_as_values_and_sinks():
    for shape in ((), (2,), (2, 3)):
        got = lax.shape_as_value(shape)
        assert got.tolist() == list(shape) and got.dtype == "int32"

    def f(x):
        lax.dce_sink({"a": x + 1})
        lax.dce_sink(lnp.sin(x), prevent_mlir_dce=True)
        return x

    for g in (f, lm.jit(f), lm.vmap(f), lm.grad(lambda x: f(x).sum())):
        assert g(lnp.ones(3)).shape == (3,)
    text = str(lm.make_trace(f)(1.0))
    assert "add" not in text and "sin" in text


def test_small_names(jax):
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    got = lax.scatter_sub(lnp.zeros(3), np.array([[1], [1]]), lnp.array([2.0, 3.0]), numbers)
    assert got.numpy().tolist() == [0, -5, 0]
    assert lax.stack([lnp.ones(2), lnp.zeros(2)], -1).shape == (2, 2)
    assert lax.dtype(1.0) == "float32"
    assert lax.dot(A, X, precision=lax.Precision.HIGHEST).item() == pytest.approx(float(A @ X))
    np.testing.assert_array_equal(lax.with_sharding_constraint(A, None), A)
    x = np.array([1e-6, 0.5, 1.0, 30.0], np.float32)
    np.testing.assert_allclose(lm.nn.log1mexp(x).numpy(), jax.nn.log1mexp(x), rtol=1e-6)


def test_names_of_jax():
    assert lm.remat is lm.checkpoint and lm.jacobian is lm.jacrev
    spec = lm.eval_shape(lambda v: v @ v, lm.ShapeDtypeStruct((2, 2), "float32"))
    assert spec.shape == (2, 2)
    tree = {"a": lnp.ones(2), "b": [np.zeros(3)]}
    assert lm.device_put(tree)["b"][0].shape == (3,)
    assert isinstance(lm.device_get(tree)["a"], np.ndarray)
    with pytest.raises(TypeError):
        lm.grad(lambda v: lm.device_get(v).sum())(lnp.ones(2))
    assert lm.default_backend() == lm.devices()[0].platform
    with lm.default_device("cpu"):
        assert lm.default_backend() == "cpu" == lm.devices()[0].platform
    with lm.named_scope("block"):
        pass

    @lm.named_scope("f")
    def f(v):
        return v + 1

    assert f(1) == 2
    y = lm.device_put(tree["a"])
    y[0] = 7
    assert tree["a"][0].item() == 1
