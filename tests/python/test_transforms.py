"""jit, grad, vmap, jvp: results against NumPy and finite differences, and what they cost in compiles."""

from __future__ import annotations

import collections
import dataclasses
import functools

import lamina as lm
import lamina.lax as lax
import lamina.numpy as lnp
import numpy as np
import pytest
from device_support import ON_CUDA


def test_jit_compiles_once_per_signature_and_numbers_do_not_split_it():
    @lm.jit
    def scale(x, rate):
        return x * rate + 1.0

    x = lnp.array([1.0, 2.0, 3.0])
    before = lm.cache.stats()["misses"]
    for rate in (0.1, 0.2, 0.3, 5.0):
        np.testing.assert_allclose(scale(x, rate).numpy(), np.float32([1, 2, 3]) * np.float32(rate) + 1)
    assert lm.cache.stats()["misses"] - before == 1
    assert scale.hits == 3
    scale(lnp.ones((2, 2)), 0.1)
    assert repr(scale) == "<jit scale: 2 entries, 3 hits>"


def test_a_new_batch_size_compiles_no_kernel():
    @lm.jit
    def f(x):
        return lnp.sum(lnp.tanh(x) * 2.0, axis=-1)

    lm.cache.wait()  # for kernels that other tests have queued
    lm._core.set_eager_compile(True)
    try:
        f(lnp.ones((7, 33))).numpy()
        compiled = lm.cache.stats()["kernel_compiles"]
        for n in range(8, 20):
            f(lnp.ones((n, 33))).numpy()
        # A grid has other schedules for other sizes, each with code of its own.
        schedules = 2 if ON_CUDA else 0
        assert lm.cache.stats()["kernel_compiles"] <= compiled + schedules
    finally:
        lm._core.set_eager_compile(False)


def test_jit_containers_static_arguments_and_methods():
    @dataclasses.dataclass
    class Point:
        x: object
        y: object

    Pair = collections.namedtuple("Pair", "a b")

    @lm.jit
    def f(p, pair, d, *, flip):
        assert flip in (True, False)
        return Point(p.x + d["k"][0], p.y), Pair(pair.b, pair.a), None

    f = lm.jit(f._f, static_argnames="flip")
    point, pair, none = f(Point(1.0, 2.0), Pair(3.0, 4.0), {"k": [5.0]}, flip=True)
    assert (point.x.item(), point.y.item()) == (6.0, 2.0)
    assert (pair.a.item(), pair.b.item()) == (4.0, 3.0)
    assert none is None

    class Model:
        scale = 3.0

        @lm.jit
        def __call__(self, x):
            return x * self.scale

    assert Model()(lnp.array(2.0)).item() == 6.0


def test_captured_arrays_are_read_not_baked_in():
    w = lnp.array([1.0, 2.0])

    @lm.jit
    def f(x):
        return x * w

    np.testing.assert_array_equal(f(lnp.array([10.0, 10.0])).numpy(), [10, 20])


def test_grad_matches_finite_differences_to_third_order():
    def f(x):
        return lnp.sum(lnp.sin(x) * lnp.exp(x * 0.5) + x**3)

    x = np.array([0.3, -1.2, 2.0])
    with_x = lnp.array(x)
    first = lm.grad(f)(with_x).numpy()
    np.testing.assert_allclose(
        first, np.cos(x) * np.exp(x / 2) + np.sin(x) * np.exp(x / 2) / 2 + 3 * x**2, rtol=1e-12
    )

    def g(s):
        return lnp.sin(s) * lnp.exp(s * 0.5)

    third = lm.grad(lm.grad(lm.grad(g)))(lnp.array(0.7, dtype="float64")).item()
    h = 1e-2
    d = lambda s: np.sin(s) * np.exp(s / 2)  # noqa: E731
    expected = (d(0.7 + 2 * h) - 2 * d(0.7 + h) + 2 * d(0.7 - h) - d(0.7 - 2 * h)) / (2 * h**3)
    assert abs(third - expected) < 1e-3


def test_perturbations_are_not_confused():
    # d/dx (x * d/dy (x + y)) = 1 and d/dx (x * d/dy (x y)) = 2x.
    x = lnp.array(3.0)
    assert lm.grad(lambda x: x * lm.grad(lambda y: x + y)(lnp.array(1.0)))(x).item() == 1.0
    assert lm.grad(lambda x: x * lm.grad(lambda y: x * y)(lnp.array(1.0)))(x).item() == 6.0


def test_grad_through_jit_and_jit_through_grad_agree_bit_for_bit():
    def f(w, x):
        return lnp.sum(lnp.tanh(x @ w) ** 2)

    rng = np.random.default_rng(0)
    w, x = (
        lnp.array(rng.standard_normal((5, 4)).astype(np.float32)),
        lnp.array(rng.standard_normal((7, 5)).astype(np.float32)),
    )
    plain = lm.grad(f)(w, x).numpy()
    np.testing.assert_array_equal(lm.jit(lm.grad(f))(w, x).numpy(), plain)
    np.testing.assert_array_equal(lm.grad(lm.jit(f))(w, x).numpy(), plain)


def test_vmap_has_the_bits_of_a_loop():
    def f(w, x):
        return lnp.tanh(w @ x) / (1.0 + lnp.sum(x * x))

    rng = np.random.default_rng(1)
    w = lnp.array(rng.standard_normal((4, 300)).astype(np.float32))
    xs = lnp.array(rng.standard_normal((6, 300)).astype(np.float32))
    batched = lm.vmap(f, in_axes=(None, 0))(w, xs).numpy()
    loop = np.stack([f(w, xs[i]).numpy() for i in range(6)])
    np.testing.assert_array_equal(batched, loop)
    grads = lm.vmap(lm.grad(lambda x: lnp.sum(f(w, x))))(xs).numpy()
    np.testing.assert_array_equal(
        grads, np.stack([lm.grad(lambda x: lnp.sum(f(w, x)))(xs[i]).numpy() for i in range(6)])
    )


def test_jacobians_and_hessian():
    def f(x):
        return lnp.stack([x[0] * x[1], lnp.sin(x[2]) * x[0]])

    x = np.array([1.5, -2.0, 0.5])
    expected = np.array([[x[1], x[0], 0], [np.sin(x[2]), 0, np.cos(x[2]) * x[0]]])
    np.testing.assert_allclose(lm.jacfwd(f)(lnp.array(x)).numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(lm.jacrev(f)(lnp.array(x)).numpy(), expected, rtol=1e-12)
    h = lm.hessian(lambda v: lnp.sum(v**3))(lnp.array(x)).numpy()
    np.testing.assert_allclose(h, np.diag(6 * x), rtol=1e-12)


def test_checkpoint_keeps_values_and_gradients():
    def f(x):
        return lnp.sum(lnp.sin(lnp.exp(lnp.sin(x))))

    x = lnp.array([0.1, 0.2, 0.3])
    np.testing.assert_array_equal(lm.grad(lm.checkpoint(f))(x).numpy(), lm.grad(f)(x).numpy())


def test_jvp_and_vjp_satisfy_the_inner_product_identity():
    def f(x, y):
        return {"a": lnp.sin(x) * y, "b": lnp.sum(x)}

    rng = np.random.default_rng(2)
    x, y, u, v = (lnp.array(rng.standard_normal(4)) for _ in range(4))
    _, tangent = lm.jvp(f, (x, y), (u, v))
    _, pull_back = lm.vjp(f, x, y)
    ct = {"a": lnp.array(rng.standard_normal(4)), "b": lnp.array(0.7, dtype="float64")}
    gx, gy = pull_back(ct)
    left = lnp.sum(tangent["a"] * ct["a"]) + tangent["b"] * ct["b"]
    right = lnp.sum(gx * u) + lnp.sum(gy * v)
    assert abs(left.item() - right.item()) < 1e-12


def test_eval_shape_computes_nothing():
    before = lm.cache.stats()["misses"]
    out = lm.eval_shape(lambda x: x @ x.T, lm.ShapeDtype((1000000, 3), "float32"))
    assert out == lm.ShapeDtype((1000000, 1000000), "float32")
    assert lm.cache.stats()["misses"] == before


def test_types_of_arrays_stand_for_arrays():
    like = lm.ShapeDtype((2, 3), "float16")
    out = lm.eval_shape(lambda x: {"a": like, "b": (x, like)}, 1)
    assert out["a"] == out["b"][1] == like and out["b"][0].weak_type
    assert (
        lnp.shape(like) == (2, 3) and lnp.ndim(like) == 2 and lnp.size(like) == 6 and lnp.size(like, 1) == 3
    )
    assert lnp.result_type(like, 1.0) == "float16" and lnp.result_type(like, lnp.float32) == "float32"
    assert lnp.iscomplexobj(lm.ShapeDtype((), "complex64")) and lnp.isrealobj(like)
    with pytest.raises(TypeError, match="is not an array"):
        lm.jit(lambda: like)()


def test_a_million_additions_without_a_read_stay_bounded():
    x = lnp.zeros(())
    x.numpy()
    before = lm.cache.stats()["live_nodes"]
    for _ in range(50_000):
        x = x + 1.0
    assert lm.cache.stats()["live_nodes"] - before < 20_000
    assert x.item() == 50_000.0


@pytest.mark.parametrize("n", [20_000])
def test_long_chains_differentiate(n):
    def f(x):
        for _ in range(n):
            x = x * 0.9999
        return x

    assert abs(lm.grad(f)(lnp.array(1.0)).item() - 0.9999**n) < 1e-3


def test_linearize_pushes_many_tangents_forward():
    calls = []

    def f(x, p):
        calls.append(1)
        return {"y": lnp.sin(x) * p["s"], "n": lnp.sum(x)}

    x, p = lnp.arange(3.0), {"s": lnp.array(2.0), "k": lnp.array(3)}
    out, push = lm.linearize(f, x, p)
    assert len(calls) == 1
    np.testing.assert_array_equal(np.asarray(out["y"]), np.asarray(lnp.sin(x) * 2.0))
    for t in (lnp.ones(3), lnp.array([0.0, 1.0, -2.0])):
        tangent = {"s": lnp.array(0.5), "k": lnp.array(0)}
        got, want = push(t, tangent), lm.jvp(f, (x, p), (t, tangent))[1]
        for name in ("y", "n"):
            np.testing.assert_allclose(np.asarray(got[name]), np.asarray(want[name]), rtol=1e-6)
    assert len(calls) == 3  # two of them jvp's own
    second = lm.grad(lambda a: lnp.sum(lm.linearize(lnp.sin, a)[1](lnp.ones(3))))(x)
    np.testing.assert_allclose(np.asarray(second), -np.sin(np.arange(3.0)), rtol=1e-6, atol=1e-7)
    rows = lm.jit(lambda a: lm.vmap(lm.linearize(lnp.cos, a)[1])(lnp.eye(3)))(x)
    np.testing.assert_allclose(np.asarray(rows), np.diag(-np.sin(np.arange(3.0))), rtol=1e-6, atol=1e-7)
    with pytest.raises(ValueError, match="does not fit its primal"):
        push(lnp.ones(4), p)
    with pytest.raises(ValueError, match="tangents do not fit"):
        push(lnp.ones(3))


def test_tree_functions_have_short_names():
    params = {"w": (1.0, 2.0), "b": [3.0]}
    assert lm.tree.map(lambda a: a * 2, params) == {"w": (2.0, 4.0), "b": [6.0]}
    leaves, structure = lm.tree.flatten(params)
    assert leaves == lm.tree.leaves(params) == [3.0, 1.0, 2.0]
    assert structure == lm.tree.structure(params) and lm.tree.unflatten(structure, leaves) == params
    assert lm.tree.reduce(lambda a, b: a + b, params) == 6.0
    assert lm.tree.reduce(lambda a, b: a + b, [], 5) == 5
    assert lm.tree.all([True, {"x": 1}]) and not lm.tree.all([True, 0]) and lm.tree.all([])
    outer, inner = lm.tree.structure([0, 0, 0]), lm.tree.structure({"a": 0, "b": (0,)})
    rows = [{"a": i, "b": (10 * i,)} for i in range(3)]
    assert lm.tree.transpose(outer, inner, rows) == {"a": [0, 1, 2], "b": ([0, 10, 20],)}
    with pytest.raises(TypeError, match="the structure is"):
        lm.tree.transpose(inner, outer, rows)
    with pytest.raises(TypeError):
        lm.tree.reduce(lambda a, b: a + b, [])


def test_third_reverse_derivative_of_a_normalised_element():
    import mpmath

    def f(x):
        return (x / lnp.broadcast_to(lnp.sqrt(x[0] * x[1]), (3,)))[0]

    def along_first(g):
        return lambda x: lm.grad(g)(x)[0]

    third = along_first(along_first(along_first(f)))
    x = lnp.array(np.array([1.0, 3.0, 3.0]))
    want = float(mpmath.diff(lambda a: a / mpmath.sqrt(a * 3), 1, 3))
    for g in (third, lm.jit(third)):
        np.testing.assert_allclose(float(g(x)), want, rtol=1e-12)


@pytest.mark.parametrize(
    "policy",
    [
        None,
        lm.checkpoint_policies.everything_saveable,
        lm.checkpoint_policies.nothing_saveable,
        lm.checkpoint_policies.dots_saveable,
        lm.checkpoint_policies.dots_with_no_batch_dims_saveable,
        lm.checkpoint_policies.save_only_these_names("h"),
        lm.checkpoint_policies.save_any_names_but_these("h"),
        lm.checkpoint_policies.save_anything_except_these_names("h"),
        lm.checkpoint_policies.save_from_both_policies(
            lm.checkpoint_policies.dots_saveable, lm.checkpoint_policies.save_only_these_names("h")
        ),
    ],
    ids=str,
)
def test_policies_of_checkpoints_change_no_number(policy):
    w = lnp.array([[0.5, -1.0], [2.0, 0.25]])

    def f(x, scale=1.0):
        hidden = lm.checkpoint_name({"h": lnp.tanh(w @ x)}, "h")["h"]
        return (lnp.sin(hidden) * scale).sum()

    x = lnp.array([0.3, -0.7])
    g = lm.checkpoint(f, policy=policy)
    assert lm.grad(g)(x, scale=2.0).tolist() == lm.grad(f)(x, scale=2.0).tolist()
    assert lm.jit(lm.grad(lm.grad(lambda a: g(x * a))))(1.5).shape == ()


def test_what_policies_keep():
    policies = lm.checkpoint_policies
    assert policies.everything_saveable("add") and not policies.nothing_saveable("add")
    assert policies.dots_saveable("dot_general") and not policies.dots_saveable("add")
    assert policies.dots_with_no_batch_dims_saveable(
        "dot_general", dimension_numbers=(((1,), (0,)), ((), ()))
    )
    assert not policies.dots_with_no_batch_dims_saveable(
        "dot_general", dimension_numbers=(((2,), (1,)), ((0,), (0,)))
    )
    assert policies.save_only_these_names("a")("name", name="a") and not policies.save_only_these_names("a")(
        "add"
    )
    assert policies.save_any_names_but_these("a")("name", name="b")
    assert not policies.save_anything_except_these_names("a")("name", name="a")
    with pytest.raises(TypeError, match="string"):
        lm.checkpoint_name(1.0, 3)


def test_shapes_are_asked_of_anything_that_has_them():
    class Spec:
        shape, dtype = (3, 2), np.dtype("float16")

    out = lm.eval_shape(lambda s: {"y": s.sum(0) * 2.0}, Spec())["y"]
    assert (out.shape, out.dtype, out.ndim, out.size) == ((2,), "float16", 1, 2)
    assert {out: 1}[lm.ShapeDtype((2,), "float16")] == 1
    assert lm.linear_transpose(lambda v: v * 2, Spec())(lnp.ones((3, 2), "float16"))[0].shape == (3, 2)
    assert lm.jit(lambda v: v + 1).lower(Spec()).out_info.shape == (3, 2)


class _Setting:
    def __init__(self, value):
        self.value = value


_AUX = {
    "name": "adam",
    "step": 3,
    "rate": lnp.float32(2.0),
    "setting": _Setting(1),
    "shape": (None, "x"),
    "f": len,
}


@pytest.mark.parametrize(
    ("transform", "place"),
    [
        (lambda f: lm.grad(f, has_aux=True)(3.0), 1),
        (lambda f: lm.value_and_grad(f, has_aux=True)(3.0)[0], 1),
        (lambda f: lm.vjp(f, 3.0, has_aux=True), 2),
        (lambda f: lm.jvp(f, (3.0,), (1.0,), has_aux=True), 2),
        (lambda f: lm.linearize(f, 3.0, has_aux=True), 2),
        (lambda f: lm.jacfwd(f, has_aux=True)(3.0), 1),
        (lambda f: lm.jacrev(f, has_aux=True)(3.0), 1),
        (lambda f: lm.hessian(f, has_aux=True)(3.0), 1),
    ],
)
def test_aux_holds_arrays_and_what_is_none(transform, place):
    aux = transform(lambda x: (x * x, {**_AUX, "double": 2 * x}))[place]
    assert aux["double"].item() == 6.0 and aux["step"].item() == 3 and aux["rate"].item() == 2.0
    assert all(aux[k] is _AUX[k] for k in ("name", "setting", "f")) and aux["shape"] == (None, "x")
    slotted = type("Slotted", (), {"__slots__": ("held",)})()

    def holding(x):
        slotted.held = {"a": [x]}
        return x, slotted

    elements = np.empty(1, object)
    for leaking in (
        lambda x: (x, _Setting(x)),
        holding,
        lambda x: (x, lambda: x),
        lambda x: (x, functools.partial(len, x)),
        lambda x: (x, _Setting(x).__init__),
        lambda x: (elements.__setitem__(0, x), (x, elements))[1],
    ):
        with pytest.raises(TypeError, match="which is not an array"):
            transform(leaking)
    # Inside of jit, and of itself.
    f = lm.jit(lambda v: transform(lambda x: (x * v, {"v": v + 1, "name": "inner"}))[place]["v"])
    assert f(1.0).item() == 2.0
    twice = transform(lambda x: lm.grad(lambda y: (y**3, {"y": y, "n": "in"}), has_aux=True)(x))[place]
    assert (twice["y"].item(), twice["n"]) == (3.0, "in")


def test_objects_that_turn_into_arrays():
    class Wrapped:
        def __init__(self, value):
            self.value = value

        def __jax_array__(self):
            return lnp.asarray(self.value) * 2

    x = Wrapped([1.0, 2.0])
    assert lnp.sin(x).tolist() == lnp.sin(lnp.array([2.0, 4.0])).tolist()
    assert lnp.add(x, 1).tolist() == [3.0, 5.0] and lm.jit(lnp.sum)(x).item() == 6.0
    assert lm.grad(lambda v: (v * v).sum())(x).tolist() == [4.0, 8.0]
    assert lnp.array([x, (x, x)[0]]).tolist() == [[2.0, 4.0], [2.0, 4.0]] and lnp.stack((x, x)).shape == (
        2,
        2,
    )
    assert lnp.result_type(x) == "float32" and lnp.result_type(x, lnp.int8(1)) == "float32"
    with pytest.raises(TypeError, match="a Tensor, number or array is needed"):
        lnp.array([[object()], [1.0]])


def test_operators_take_objects_that_turn_into_arrays():
    class Wrapped:
        def __init__(self, value):
            self.value = value

        def __jax_array__(self):
            return self.value

        def _cannot(self, other):
            return NotImplemented

        __radd__ = __rmatmul__ = __eq__ = __gt__ = __rtruediv__ = __rpow__ = _cannot
        __hash__ = None

    x, two, array = lnp.ones(2), Wrapped(2.0), Wrapped(np.array([2.0, 4.0], np.float32))
    assert (x + two).tolist() == [3.0, 3.0] and (x + array).tolist() == [3.0, 5.0]
    assert (array + x).tolist() == [3.0, 5.0]  # by the Tensor's reflected operator
    assert (
        (x @ array).item() == 6.0 and (x / array).tolist() == [0.5, 0.25] and (x**two).tolist() == [1.0, 1.0]
    )
    assert (x == two).tolist() == [False, False] and (x != two).tolist() == [True, True]
    assert (x < array).tolist() == [True, True] and divmod(x, two)[1].tolist() == [1.0, 1.0]
    assert (lnp.int8(3) + Wrapped(2)).dtype == "int8" and (lnp.float16(1) * two).dtype == "float16"
    assert lm.grad(lambda v: (v * array).sum())(x).tolist() == [2.0, 4.0]

    class Failing:
        def __jax_array__(self):
            raise RuntimeError("no array in it")

    for operation in (lambda: x + Failing(), lambda: x == Failing(), lambda: x @ Failing()):
        with pytest.raises(RuntimeError, match="no array in it"):
            operation()


def test_a_donated_array_says_so():
    x = lnp.arange(4.0) * 1
    assert not x.is_deleted()
    lm.jit(lambda v: v + 1, donate_argnums=0)(x)
    assert x.is_deleted()


def test_a_deleted_array_says_so_and_frees_its_memory():
    x = (lnp.arange(1 << 20, dtype="float32") * 3).block_until_ready()
    y, before = x[:2].block_until_ready(), lm.cache.stats()["live_bytes"]
    x.delete()
    assert x.is_deleted() and lm.cache.stats()["live_bytes"] == before - (4 << 20)
    x.delete()
    assert x.shape == (1 << 20,) and y.tolist() == [0.0, 3.0]
    for use in (lambda: x.tolist(), lambda: (x + 1).tolist(), lambda: lm.jit(lnp.sum)(x)):
        with pytest.raises(TypeError, match=r"was donated or deleted at .*test_transforms\.py"):
            use()
    with pytest.raises(TypeError, match=r"delete\(\) needs the value of float32"):
        lm.jit(lambda v: v.delete())(1.0)


def test_a_boolean_is_no_axis():
    with pytest.raises(TypeError, match=r"in_axes.*True"):
        lm.vmap(lambda x, y: x + y, in_axes=(0, True))(lnp.ones((2, 2)), lnp.ones((2, 2)))


def test_no_lanes_take_from_no_lanes():
    x, at = lnp.zeros((0, 4, 3)), lnp.zeros((0, 2), "int32")
    assert lm.vmap(lambda v, i: v[i])(x, at).shape == (0, 2, 3)
    assert lm.jit(lm.vmap(lm.grad(lambda v, i: v[i].sum())))(x, at).shape == (0, 4, 3)


def test_vmap_names_paths_only_where_it_refuses(monkeypatch):
    """Naming every leaf made it quadratic in their number."""
    from lamina import _transforms

    calls = []
    paths = _transforms.tree_paths
    monkeypatch.setattr(_transforms, "tree_paths", lambda *a: calls.append(1) or paths(*a))
    leaves = [lnp.ones((4, 3)) for _ in range(50)]
    assert len(lm.vmap(lambda t: [v * 2 for v in t])(leaves)) == 50
    assert not calls
    with pytest.raises(ValueError, match=r"size 4: t\[0\] .*; size 5: t\[1\]"):
        lm.vmap(lambda t: t)([lnp.ones(4), lnp.ones(5)])


def test_what_a_traced_program_takes_and_gives():
    traced = lm.jit(lambda x, n, *, scale: {"y": [x * scale] * n}, static_argnums=1).trace(
        lnp.ones((2, 3)), 2, scale=2.0
    )
    (args, kwargs) = traced.args_info
    assert args == (lm.ShapeDtype((2, 3), "float32"),) and kwargs["scale"].shape == ()
    assert traced.in_tree == lm.tree.structure(((0,), {"scale": 0}))
    assert traced.lower().out_tree == lm.tree.structure({"y": [0, 0]})
    assert traced.out_info["y"][1] == lm.ShapeDtype((2, 3), "float32")


def test_results_of_vjp_are_cotangents_of_themselves():
    def f(c, xs):
        return lax.scan(lambda c, x: (c * x, [x, 0, 0.5]), c, xs)

    out, pull = lm.vjp(f, lnp.asarray(2.0), lnp.ones(2))
    assert [v.dtype.name for v in out[1]] == ["float32", "int32", "float32"]
    c, xs = pull(out)
    assert c.item() == 2.0 and xs.tolist() == [5.0, 5.0]


def test_numbers_of_a_carry_take_the_types_of_each_other():
    def shifted(last):
        step = lambda c, _: ((c[1], c[2], c[3], 0.0), None)  # noqa: E731
        return lax.scan(step, (0.0, 1.0, 2.0, last), lnp.zeros(2))[0]

    assert [x.item() for x in shifted(lnp.float32(3.0))] == [2.0, 3.0, 0.0, 0.0]
    assert lm.vmap(shifted)(lnp.array([3.0, 4.0]))[1].tolist() == [3.0, 4.0]


def test_jit_switched_off():
    seen = []

    @lm.jit
    def f(x):
        seen.append(lm.jit(lambda v: v * 2)(x).tolist())
        return x + 1

    class Model:
        scale = 3.0

        @lm.jit
        def __call__(self, x):
            seen.append(x.item())
            return x * self.scale

    x, model = lnp.ones(2), Model()
    with lm.disable_jit():
        assert f(x).tolist() == f(x).tolist() == [2.0, 2.0]
        assert model(lnp.float32(2.0)).item() == 6.0
        with lm.disable_jit(False), pytest.raises(TypeError, match="tolist"):
            f(x)
    assert seen == [[2.0, 2.0], [2.0, 2.0], 2.0]


def test_vmap_hands_on_what_is_no_array():
    assert lm.vmap(lambda f, x: f(x), (None, 0))(lambda x: x + 1, lnp.arange(3)).numpy().tolist() == [1, 2, 3]
    options = {"n": 2.0, "mode": "up"}
    f = lambda o, x, *, y: (o["n"] * x if o["mode"] == "up" else x) + y  # noqa: E731
    assert lm.vmap(f, (None, 0))(options, lnp.arange(2.0), y=lnp.ones(2)).numpy().tolist() == [1, 3]
    with pytest.raises(TypeError, match="not an array"):
        lm.vmap(f)(options, lnp.arange(2.0), y=lnp.ones(2))


def test_what_is_no_axis_is_refused_at_once():
    for axes in (1.5, True, (0, "x"), {"a": 0}):
        with pytest.raises(TypeError, match="axis"):
            lm.vmap(lambda x: x, in_axes=axes)
    with pytest.raises(TypeError, match="no axis"):
        lm.vmap(lambda x: x, out_axes=(lnp.ones(2),))


def test_a_transposed_function_leaves_a_jitted_one():
    turned = lm.jit(lambda x: lm.linear_transpose(lambda t: x * t, 1.0))(3.0)
    assert lm.jit(lambda t, y: t(y))(turned, 2.0)[0].item() == 6


def test_a_gradient_that_was_derived_before_is_looked_up():
    """Outside of all transforms: content decides, not the function; what a rule or a branch adds is seen anew."""

    def closure(scale):
        def loss(x):
            return lnp.sum(lnp.tanh(lnp.sin(x * scale)) ** 3)

        return loss

    x, scales = lnp.linspace(0.0, 1.0, 5), [lnp.array(2.0), lnp.array(3.0), lnp.array(4.0)]
    for _ in range(3):  # what library functions record is kept from their second call on
        lm.grad(closure(scales[0]))(x)
    gradients = []
    before = lm._core.cache_stats()["live_nodes"]
    for scale in scales:
        gradients.append(lm.grad(closure(scale))(x))
    # Each is one call of the derivative, not the operations of one.
    assert lm._core.cache_stats()["live_nodes"] - before <= 3 * 2
    for g, scale in zip(gradients, scales, strict=True):
        u = np.sin(x.numpy() * scale.item())
        want = 3 * np.tanh(u) ** 2 / np.cosh(u) ** 2 * np.cos(x.numpy() * scale.item()) * scale.item()
        np.testing.assert_allclose(g.numpy(), want, rtol=2e-6, atol=1e-6)


def test_looked_up_gradients_see_what_changed():
    rate = [2.0]

    @lm.custom_jvp
    def f(x):
        return x * x

    f.defjvp(lambda p, t: (f(*p), rate[0] * t[0]))
    assert lm.grad(lambda x: f(x) * 3)(lnp.array(1.0)).item() == 6
    rate[0] = 5.0
    assert lm.grad(lambda x: f(x) * 3)(lnp.array(1.0)).item() == 15  # a rule runs at each call
    g = lm.grad(lambda x: x**3 if x > 0 else -x)
    assert [g(v).item() for v in (2.0, -2.0, 3.0, -1.0)] == [12, -1, 27, -1]
    w = lnp.array([1.0, 2.0])
    h = lambda x: lnp.sum(x * w)  # noqa: E731
    assert lm.grad(h)(w).tolist() == [1, 2]
    w = w + 1
    assert lm.grad(h)(w).tolist() == [2, 3]
    assert lm.grad(lambda x: lnp.sum(x * x))(w).tolist() == [
        4,
        6,
    ]  # where the same array is the argument alone
    value, (a, b) = lm.value_and_grad(lambda x, y: x * y + x, (0, 1))(2.0, 5.0)
    assert (value.item(), a.item(), b.item()) == (12, 6, 2)
    assert lm.grad(lambda i, x: x * i, (0, 1), allow_int=True)(3, 2.0)[0] is None
    for k in (2.0, 3.0):
        out = lm.grad(lambda x, k=k: x * k, has_aux=False)(lnp.array(1.0))
        assert out.item() == k
        _, aux = lm.grad(lambda x, k=k: (x * k, x + k), has_aux=True)(lnp.array(1.0))
        assert aux.item() == 1 + k


# Calls over x of shape (lanes, 3, 2), v (lanes, 3) and i (lanes,).
NO_LANES = {
    "dynamic_slice": lambda x, v, i: lax.dynamic_slice(x, (i, 0), (1, 2)),
    "dynamic_slice in grad": lambda x, v, i: lm.grad(lambda x: lax.dynamic_slice(x, (i, 0), (1, 2)).sum())(x),
    "dynamic_update_slice": lambda x, v, i: lax.dynamic_update_slice(x, lnp.ones((1, 2)), (i, 0)),
    "item": lambda x, v, i: x[i],
    "items": lambda x, v, i: x[lnp.stack([i, i])],
    "item of an array": lambda x, v, i: lnp.ones((3, 2))[i],
    "update": lambda x, v, i: x.at[i].add(1.0),
    "take_along_axis": lambda x, v, i: lnp.take_along_axis(v, lnp.argsort(v), 0),
    "while_loop": lambda x, v, i: lax.while_loop(lambda s: s.sum() < 10, lambda s: s + 1, v),
    "fori_loop": lambda x, v, i: lax.fori_loop(0, i, lambda k, c: c + 1, v),
    "scan": lambda x, v, i: lax.scan(lambda c, y: (c + y, c), 0.0, v),
    "cond": lambda x, v, i: lax.cond(i > 0, lambda v: v + 1, lambda v: v * 2, v),
    "switch": lambda x, v, i: lax.switch(i, [lambda v: v + 1, lambda v: v * 2], v),
    "solve": lambda x, v, i: lnp.linalg.solve(x @ x.T + lnp.eye(3), v),
    "svd": lambda x, v, i: lnp.linalg.svd(x),
    "fft": lambda x, v, i: lnp.fft.fft(v),
    "top_k": lambda x, v, i: lax.top_k(v, 2),
    "segment_sum": lambda x, v, i: lm.ops.segment_sum(v, lnp.array([0, 1, 0]), 2),
    "hessian": lambda x, v, i: lm.hessian(lambda v: (v**3).sum())(v),
    "histogram": lambda x, v, i: lnp.histogram(v, 4, (0, 1)),
    "callback": lambda x, v, i: lm.pure_callback(lambda a: a, v, v, vmap_method="sequential"),
}


@pytest.mark.parametrize("jit", [False, True], ids=["plain", "jit"])
@pytest.mark.parametrize("name", NO_LANES)
def test_vmap_of_no_lanes(name, jit):
    mapped = lm.jit(lm.vmap(NO_LANES[name])) if jit else lm.vmap(NO_LANES[name])

    def lanes(n):
        out = mapped(lnp.ones((n, 3, 2)), lnp.ones((n, 3)), lnp.zeros((n,), dtype="int32"))
        assert all(r.shape[0] == n for r in lm.tree.tree_leaves(out))
        return [(r.shape[1:], r.dtype) for r in lm.tree.tree_leaves(out)]

    assert lanes(0) == lanes(2) != []
