"""Tensors among other libraries: NumPy's protocols, DLPack, pickle, printing, the array API."""

from __future__ import annotations

import copy
import gc
import math
import pickle

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
import scipy.optimize
import scipy.special

X = np.float32([1.0, 2.0, 3.0])
ALL = [np.dtype(code).name for code in "?bhilBHILefdFD"]


def is_tensor(t, want, dtype=None):
    assert isinstance(t, lm.Tensor)
    np.testing.assert_allclose(t.numpy(), want, rtol=1e-6)
    assert dtype is None or t.dtype == dtype


@pytest.mark.parametrize("dtype", [*ALL, "bfloat16"])
def test_pickle_and_copy_keep_type_and_bits(dtype):
    t = lnp.array([0, 1, 3], dtype)
    for u in (pickle.loads(pickle.dumps(t)), copy.copy(t), copy.deepcopy({"a": t})["a"]):
        assert u.dtype == t.dtype and u.shape == (3,) and u is not t
        assert u.numpy().tobytes() == t.numpy().tobytes()
    u = copy.copy(t)
    u[0] = 1
    assert (t.real if dtype.startswith("c") else t).astype("float32").tolist() == (
        [0, 1, 1] if dtype == "bool" else [0, 1, 3]
    )
    assert pickle.loads(pickle.dumps(lnp.asarray(2.0))).weak_type
    assert pickle.loads(pickle.dumps(lnp.zeros((0, 4)))).shape == (0, 4)


def test_numpy_functions_keep_the_type():
    x = lnp.array(X)
    is_tensor(np.sin(x), np.sin(X), "float32")
    is_tensor(np.add(x, X), X + X)
    is_tensor(np.concatenate([x, X]), np.concatenate([X, X]))
    is_tensor(np.stack([x, x], axis=1), np.stack([X, X], axis=1))
    is_tensor(np.mean(x), X.mean())
    is_tensor(np.add.reduce(x), X.sum())
    is_tensor(np.maximum.reduce(lnp.array([X, -X]), axis=0), X)
    is_tensor(np.einsum("i,i->", x, x), 14.0)
    is_tensor(np.where(x > 1, x, 0.0), [0, 2, 3])
    # No counterpart here: NumPy's own, with Tensors as results.
    is_tensor(np.linalg.norm(x), np.linalg.norm(X))
    is_tensor(np.linalg.solve(np.eye(3), x), X)
    counts, edges = np.histogram(x)
    is_tensor(counts, np.histogram(X)[0])
    is_tensor(edges, np.histogram(X)[1])
    f = lm.jit(lambda v: np.tanh(v) + np.sum(np.stack([v, v])))
    is_tensor(f(x), np.tanh(X) + 12)
    with pytest.raises(TypeError, match="being traced"):
        lm.jit(lambda v: np.real_if_close(v))(x)


def test_functions_of_scipy():
    x = lnp.array(X)
    is_tensor(scipy.special.gammaln(x + 1), scipy.special.gammaln(X + 1), "float32")
    got = lm.grad(lambda v: scipy.special.erf(v).sum())(x)
    np.testing.assert_allclose(got.numpy(), 2 / np.sqrt(np.pi) * np.exp(-(X**2)), rtol=1e-6)
    # No counterpart here: SciPy's own on the values, or an error where they are not known or have a derivative.
    is_tensor(scipy.special.jv(0, x), scipy.special.jv(0, X))
    is_tensor(np.add.outer(x, x), np.add.outer(X, X))
    is_tensor(np.add(x, x, dtype="float64"), X + X, "float64")
    with pytest.raises(TypeError, match="jv has no counterpart"):
        lm.jit(lambda v: scipy.special.jv(0, v))(x)
    with pytest.raises(TypeError, match="being differentiated"):
        lm.grad(lambda v: scipy.special.jv(0, v).sum())(x)


def test_minimize_of_scipy():
    def rosenbrock(v):
        return lnp.square(1 - v[0]) + 100 * lnp.square(v[1] - v[0] ** 2)

    start = np.array([-1.0, 2.0])
    for function in (rosenbrock, lm.jit(rosenbrock)):
        found = scipy.optimize.minimize(function, start, jac=lm.grad(function))
        np.testing.assert_allclose(found.x, [1, 1], rtol=1e-4)
        found = scipy.optimize.minimize(
            lm.value_and_grad(function), start, jac=True, hess=lm.hessian(function), method="Newton-CG"
        )
        np.testing.assert_allclose(found.x, [1, 1], rtol=1e-3)


def test_operators_with_numpy_arrays_on_the_left():
    x = lnp.array(X)
    is_tensor(X + x, X + X, "float32")
    is_tensor(np.ones(3) * x, X, "float64")
    is_tensor(np.ones((2, 3), np.float32) @ x, [6, 6])
    is_tensor(np.float32(2) - x, 2 - X)
    is_tensor(x < X, [False] * 3, "bool")
    is_tensor(np.float64(2) ** x, 2**X)  # a scalar takes the array's type, as Python's 2.0 does
    a = X.copy()
    a += x
    np.testing.assert_array_equal(a, X + X)
    assert type(a) is np.ndarray
    with pytest.raises(TypeError, match="out"):
        np.add(X, X, out=x)


@pytest.mark.parametrize("dtype", [d for d in ALL])
def test_dlpack_both_ways_without_a_copy(dtype):
    t = lnp.array([[0, 1, 1], [1, 0, 1]], dtype)
    a = np.from_dlpack(t, device="cpu")
    assert a.dtype == dtype and not a.flags.writeable
    np.testing.assert_array_equal(a, t.numpy())
    assert a.__array_interface__["data"][0] == np.asarray(t).__array_interface__["data"][0]
    del t
    gc.collect()
    assert a.shape == (2, 3) and a[0, 1] == 1
    source = np.array([[1, 0], [0, 1], [1, 1]], dtype)
    u = lnp.from_dlpack(source)
    assert u.dtype == dtype
    np.testing.assert_array_equal(u.numpy(), source)
    source[0, 0] = 0
    assert u[0, 0].item() == 0  # shared
    v = lnp.from_dlpack(source, copy=True)
    source[0, 0] = 1
    assert v[0, 0].item() == 0
    np.testing.assert_array_equal(lnp.from_dlpack(source.T).numpy(), source.T)
    np.testing.assert_array_equal(lnp.from_dlpack(source[::2, ::-1]).numpy(), source[::2, ::-1])


@pytest.mark.parametrize(
    "copy",
    [
        lambda x: x.copy(),
        lambda x: x.flatten(),
        lambda x: x.astype("float32"),
        lambda x: lm.device_put(x),
        lambda x: lm.device_put(x, "cpu"),
        lnp.copy,
        lnp.array,
        lambda x: lnp.asarray(x, copy=True),
    ],
)
def test_copies_share_no_memory(copy):
    theirs = np.zeros(4, np.float32)
    t = copy(lnp.from_dlpack(theirs))
    theirs[0] = 5
    assert t.tolist() == [0, 0, 0, 0]


def test_dlpack_ownership_and_refusals():
    a = np.arange(1000.0)
    t = lnp.from_dlpack(a)
    kept = t + 0.0
    del a
    gc.collect()
    assert t.sum().item() == kept.sum().item() == 499500
    capsule = t.__dlpack__()
    del t, capsule  # never consumed
    gc.collect()
    for bad in (3, "text", [1, 2]):
        with pytest.raises(TypeError, match="__dlpack__"):
            lnp.from_dlpack(bad)
    with pytest.raises(BufferError, match="stream"):
        lnp.ones(3, device="cpu").__dlpack__(stream=1)
    with pytest.raises(BufferError, match="device"):
        lnp.ones(3, device="cpu").__dlpack__(dl_device=(2, 0))
    with pytest.raises(ValueError, match="capsule"):
        used = lnp.ones(3, device="cpu").__dlpack__()
        lm._core.from_dlpack(used, False)
        lm._core.from_dlpack(used, False)
    with pytest.raises(TypeError, match="traced"):
        lm.jit(lambda x: np.from_dlpack(x, device="cpu").sum())(X)
    assert lnp.from_dlpack(np.zeros((0, 3))).shape == (0, 3)
    assert lnp.from_dlpack(np.array(2.5)).item() == 2.5
    assert lnp.from_dlpack(lnp.ones(2, "bfloat16"), device="cpu").dtype == "bfloat16"


def test_array_namespace_devices_and_transposes():
    x = lnp.ones((2, 3))
    xp = x.__array_namespace__()
    assert xp is lnp and x.__array_namespace__(api_version="2022.12") is lnp
    with pytest.raises(ValueError, match="2030"):
        x.__array_namespace__(api_version="2030.01")
    assert x.to_device(x.device) is not x and x.to_device(x.device).device == x.device
    assert x.to_device("cpu").device == "cpu"
    with pytest.raises(ValueError, match="abacus"):
        x.to_device("abacus")
    assert x.mT.shape == (3, 2)
    with pytest.raises(ValueError, match="two dimensions"):
        lnp.ones(3).mT  # noqa: B018
    assert lm.Array is lm.Tensor


def test_printing():
    assert repr(lnp.array([0.0, 1.0])) == "Tensor([0., 1.], dtype=float32)"
    assert "shape=(2000,)" in repr(lnp.ones(2000)) and "..." in repr(lnp.ones(2000))
    assert f"{lnp.array(1.23456):.3f} {lnp.array(7):>4}" == "1.235    7"
    with pytest.raises((TypeError, ValueError)):
        f"{lnp.ones(3):.3f}"
    seen = []
    lm.jit(lambda x: seen.append((repr(x), x._repr_html_())) or x * 1.0)(lnp.ones((64, 10)))
    assert seen[0][0].startswith("<traced float32[64,10]") and "being traced" in seen[0][1]
    page = lnp.array([1.0, 5.0, np.nan])._repr_html_()
    assert "float32[3]" in page and "<th>max</th><td>5</td>" in page and "not finite" in page
    assert "&lt;" not in page
    assert "float32[0]" in lnp.zeros(0)._repr_html_()


def test_element_types_and_python_numbers():
    x = lnp.array(X)
    assert x.dtype == np.float32 and x.dtype == "float32" and np.float32 == x.dtype and x.dtype != np.float64
    assert np.zeros(2, x.dtype).dtype == np.float32 and np.dtype(x.dtype) == np.float32
    s = lnp.array(2.5)
    assert (float(s), int(s), bool(s), complex(s), math.sqrt(s), round(s)) == (2.5, 2, True, 2.5, 2.5**0.5, 2)
    is_tensor(round(lnp.array([1.26, 2.34]), 1), [1.3, 2.3])
    assert [10, 20, 30][lnp.asarray(1)] == 20
    assert 2.0 in x and sorted(x)[0].item() == 1.0 and sum(x).item() == 6.0 and max(x).item() == 3.0
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    assert lnp.array(X.astype(np.float64)).dtype == "float64"


def test_masked_arrays_are_refused():
    x = np.ma.array([1.0, 2.0, 3.0], mask=[True, False, True])
    for f in (
        lnp.asarray,
        lnp.sin,
        lm.jit(lnp.sin),
        lm.vmap(lnp.sin),
        lambda x: lm.tree.map(lnp.add, [x], [x]),
    ):
        with pytest.raises(ValueError, match="mask would be lost"):
            f(x)
    assert lnp.asarray(x.filled(0)).tolist() == [0, 2, 0]


def test_device_get_leaves_numbers_alone():
    array, number = lm.device_get([lnp.ones(2), 2])
    assert type(array) is np.ndarray and type(number) is int
