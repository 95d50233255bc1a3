"""custom_jvp, custom_vjp and stop_gradient: user-made derivatives under every transform."""

from __future__ import annotations

import functools

import lamina as lm
import lamina.lax as lax
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina.custom_derivatives import (
    CustomVJPPrimal,
    SymbolicZero,
    custom_vjp_primal_tree_values,
    zero_from_primal,
)


@lm.custom_jvp
def sine(x):
    return lnp.sin(x)


@sine.defjvp
def _(primals, tangents):
    (x,), (t,) = primals, tangents
    return sine(x), 3.0 * lnp.cos(x) * t  # tripled, to be seen


@lm.custom_vjp
def product(x, y):
    return x * y


product.defvjp(lambda x, y: (x * y, (x, y)), lambda res, g: (g * res[1] * 10.0, g * res[0] * 100.0))


def test_custom_jvp_value_and_derivatives():
    assert sine(0.5).item() == pytest.approx(np.sin(0.5))
    assert lm.grad(sine)(0.5).item() == pytest.approx(3 * np.cos(0.5))
    assert lm.jit(lm.grad(sine))(0.5).item() == pytest.approx(3 * np.cos(0.5))
    assert lm.grad(lm.jit(sine))(0.5).item() == pytest.approx(3 * np.cos(0.5))
    y, t = lm.jvp(sine, (0.5,), (2.0,))
    assert (y.item(), t.item()) == (pytest.approx(np.sin(0.5)), pytest.approx(6 * np.cos(0.5)))


def test_custom_jvp_second_order_and_batches():
    # The rule calls sine again, whose value enters 3 cos(x) by the plain cosine only.
    assert lm.grad(lm.grad(sine))(0.5).item() == pytest.approx(-3 * np.sin(0.5), rel=1e-5)
    x = np.linspace(-1, 1, 5, dtype=np.float32)
    np.testing.assert_allclose(lm.vmap(lm.grad(sine))(x).numpy(), 3 * np.cos(x), rtol=1e-6)
    np.testing.assert_allclose(lm.jit(lm.vmap(lm.grad(sine)))(x).numpy(), 3 * np.cos(x), rtol=1e-6)
    total = lm.grad(lambda v: lm.vmap(sine)(v).sum())
    np.testing.assert_allclose(total(x).numpy(), 3 * np.cos(x), rtol=1e-6)
    np.testing.assert_allclose(
        lm.hessian(lambda v: sine(v).sum())(x).numpy(), np.diag(-3 * np.sin(x)), atol=1e-6
    )


def test_custom_jvp_in_loops_with_an_array_from_outside():
    scale = lnp.array([1.0, 2.0, 3.0])

    @lm.custom_jvp
    def f(x):
        return x * scale

    f.defjvp(lambda p, t: (f(p[0]), t[0] * scale * 2.0))

    def loop(x):
        return lax.fori_loop(0, 3, lambda i, c: f(c), x).sum()

    want = (2 * np.float32([1, 2, 3])) ** 3
    np.testing.assert_allclose(lm.grad(loop)(lnp.ones(3)).numpy(), want)
    np.testing.assert_allclose(lm.jit(lm.grad(loop))(lnp.ones(3)).numpy(), want)


def test_defjvps_and_containers():
    @lm.custom_jvp
    def f(p, y):
        return {"out": p["a"] * y, "n": p["b"] + 1}

    f.defjvp(
        lambda primals, tangents: (
            f(*primals),
            {"out": tangents[0]["a"] * primals[1] * 7.0, "n": tangents[0]["b"]},
        )
    )
    p = {"a": lnp.array(2.0), "b": lnp.array(3)}
    g = lm.grad(lambda a: f({"a": a, "b": p["b"]}, 5.0)["out"])(p["a"])
    assert g.item() == 35.0

    @lm.custom_jvp
    def h(x, y):
        return x * y

    h.defjvps(lambda t, out, x, y: t * y * 2.0, None)
    assert lm.grad(h, (0, 1))(3.0, 4.0)[0].item() == 8.0
    assert lm.grad(h, (0, 1))(3.0, 4.0)[1].item() == 0.0


def test_custom_jvp_nondiff_arguments_and_keywords():
    calls = []

    @lm.custom_jvp
    def plain(f, x, n=2):
        return f(x) * n

    apply = lm.custom_jvp(plain.fun, nondiff_argnums=(0,))

    @apply.defjvp
    def rule(f, primals, tangents):
        calls.append(f)
        x, n = primals
        return f(x) * n, tangents[0] * 11.0

    assert apply(lnp.exp, 0.0, n=3).item() == 3.0
    assert lm.grad(lambda x: apply(lnp.exp, x, n=3))(1.0).item() == 11.0
    assert calls == [lnp.exp]


def test_custom_vjp_under_transforms():
    both = lm.grad(product, (0, 1))
    assert [g.item() for g in both(3.0, 4.0)] == [40.0, 300.0]
    assert [g.item() for g in lm.jit(both)(3.0, 4.0)] == [40.0, 300.0]
    x, y = np.float32([1, 2, 3]), np.float32([4, 5, 6])
    gx, gy = lm.vmap(both)(x, y)
    np.testing.assert_array_equal(gx.numpy(), y * 10)
    np.testing.assert_array_equal(gy.numpy(), x * 100)
    gx, gy = lm.vmap(both, in_axes=(0, None))(x, 4.0)
    np.testing.assert_array_equal(gx.numpy(), [40.0] * 3)
    # d/dx of 10 g y is none, d/dy is 10.
    assert lm.grad(lambda y: lm.grad(product)(3.0, y))(4.0).item() == 10.0
    with pytest.raises(TypeError, match="custom jvp"):
        lm.jvp(product, (3.0, 4.0), (1.0, 1.0))


def scaled_by_jvp(w, y):
    @lm.custom_jvp
    def f(y):
        return w * y

    f.defjvp(lambda p, t: (w * p[0], 10 * w * t[0]))
    return f(y)


def scaled_by_vjp(w, y):
    @lm.custom_vjp
    def f(y):
        return w * y

    f.defvjp(lambda y: (w * y, (w, w * y)), lambda kept, g: (10 * kept[0] * g,))
    return f(y)


@pytest.mark.parametrize("scaled", [scaled_by_jvp, scaled_by_vjp])
def test_a_rule_sees_what_its_function_uses_of_a_trace(scaled):
    w = lnp.arange(3.0) + 1
    # A lane of a vmap that the derivative is around.
    lanes = lambda y: lm.vmap(lambda v: scaled(v, y))(w)  # noqa: E731
    assert lm.grad(lambda y: lanes(y).sum())(2.0).item() == 60
    assert lm.grad(lambda y: lm.jit(lanes)(y).sum())(2.0).item() == 60
    # What is made of one before the call, and of one of two results.
    made = lambda y: lm.vmap(lambda v: scaled(lax.top_k(lnp.stack([v, v + 1]), 2)[0][0], y))(w)  # noqa: E731
    assert lm.grad(lambda y: made(y).sum())(2.0).item() == 90
    # An argument of a function that was traced before, and an item of a scan.
    jitted = lm.jit(scaled)
    jitted(3.0, 2.0)
    assert lm.grad(jitted, 1)(3.0, 2.0).item() == 30
    looped = lambda y: lax.scan(lambda c, v: (c + scaled(v, y), None), 0.0, w)[0]  # noqa: E731
    assert lm.grad(looped)(2.0).item() == 60
    with pytest.raises(TypeError, match="its rule cannot see it: pass it as an argument"):
        lm.grad(jitted)(3.0, 2.0)
    with pytest.raises(TypeError, match="its rule cannot see it: pass it as an argument"):
        lm.grad(lambda z: lm.vmap(lambda v: scaled(v, 2.0))(w * z).sum())(1.0)
    # Used, and not differentiated.
    assert lm.grad(lambda y: scaled(lax.stop_gradient(y), y))(2.0).item() == 20


def test_custom_vjp_clip_gradient_with_none_cotangents():
    @lm.custom_vjp
    def clip(lo, hi, x):
        return x

    clip.defvjp(lambda lo, hi, x: (x, (lo, hi)), lambda res, g: (None, None, lnp.clip(g, res[0], res[1])))
    grads = lm.grad(lambda x: (clip(-0.5, 0.5, x) * lnp.array([1.0, 0.1, -4.0])).sum())(lnp.ones(3))
    np.testing.assert_allclose(grads.numpy(), [0.5, 0.1, -0.5])


def test_custom_vjp_nondiff_and_method():
    class Layer:
        @lm.custom_vjp
        def unused(self, x):
            return x

    @lm.custom_vjp
    def nothing(mode, x):
        return x

    scaled = lm.custom_vjp(nothing.fun, nondiff_argnums=(0,))
    scaled.defvjp(lambda mode, x: (x, x), lambda mode, res, g: ({"double": 2.0, "half": 0.5}[mode] * g,))
    assert lm.grad(lambda x: scaled("double", x))(1.0).item() == 2.0
    assert lm.grad(lambda x: scaled("half", x))(1.0).item() == 0.5
    with pytest.raises(AttributeError, match="defvjp"):
        nothing("double", 1.0)
    with pytest.raises(AttributeError, match="defvjp"):
        Layer().unused(1.0)


def test_rules_that_do_not_fit_say_so():
    f = lm.custom_vjp(lambda x, y: x * y)
    f.defvjp(lambda x, y: (x * y, ()), lambda res, g: (g,))
    with pytest.raises(TypeError, match="tuple of 2 cotangents"):
        lm.grad(f)(1.0, 2.0)
    f.defvjp(lambda x, y: (x * y, ()), lambda res, g: (lnp.ones(3), g))
    with pytest.raises(ValueError, match=r"argument 0 .*float32\[3\]"):
        lm.grad(f)(1.0, 2.0)
    f.defvjp(lambda x, y: x * y, lambda res, g: (g, g))
    with pytest.raises(TypeError, match="must return"):
        lm.grad(f)(1.0, 2.0)
    h = lm.custom_jvp(lambda x: x * 2.0)
    h.defjvp(lambda p, t: (p[0] * 2.0, lnp.ones((2, 2))))
    with pytest.raises(TypeError, match=r"float32\[2,2\] where float32\[\]"):
        lm.grad(h)(1.0)


def _in_scan(f):
    return lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]


@pytest.mark.parametrize(
    "around", [lambda f: f, _in_scan, lm.jit, lambda f: lambda x: lm.vmap(f)(x[None])[0]]
)
def test_results_of_rules_are_like_the_function(around):
    @lm.custom_jvp
    def pushed(x):
        return x

    one = lnp.float32(1.0)
    along = lambda: lm.jvp(around(pushed), (one,), (one,))  # noqa: E731
    pushed.defjvp(lambda p, t: ((p[0], p[0]), (t[0], t[0])))
    with pytest.raises(
        TypeError,
        match="the jvp rule <lambda> of pushed returns another structure than the function does, "
        r"\(float32\[\], float32\[\]\) in the place of float32\[\]: ",
    ):
        along()
    pushed.defjvp(lambda p, t: (p[0], [t[0]]))
    with pytest.raises(
        TypeError, match=r"than its results, PyTreeDef\(\[\*\]\) in the place of PyTreeDef\(\*\): "
    ):
        along()
    pushed.defjvp(lambda p, t: (lnp.zeros(3), lnp.zeros(3)))
    with pytest.raises(
        TypeError, match=r"the jvp rule <lambda> of pushed returns float32\[3\] as result, .* float32\[\]"
    ):
        along()
    pushed.defjvp(lambda p, t: (p[0], lnp.zeros(3)))
    with pytest.raises(TypeError, match=r"the jvp rule <lambda> of pushed is float32\[3\] where float32\[\]"):
        along()
    pushed.defjvp(lambda p, t: (p[0], 7 * t[0]))
    assert along()[1].item() == 7.0

    @lm.custom_vjp
    def pulled(x):
        return {"y": x}

    back = lambda: lm.grad(lambda x: around(lambda v: pulled(v)["y"])(x))(one)  # noqa: E731
    pulled.defvjp(lambda x: ({"y": x, "z": x}, None), lambda _, g: (g["y"],))
    with pytest.raises(
        TypeError, match=r"the forward rule <lambda> of pulled returns another structure .*'z'"
    ):
        back()
    pulled.defvjp(lambda x: ({"y": lnp.zeros(3)}, None), lambda _, g: (g["y"].sum(),))
    with pytest.raises(
        TypeError, match=r"the forward rule <lambda> of pulled returns float32\[3\] as result\['y'\]"
    ):
        back()
    pulled.defvjp(lambda x: ({"y": x}, None), lambda _, g: (7 * g["y"],))
    assert back().item() == 7.0


def test_errors_name_the_rule_and_both_types():
    @lm.custom_vjp
    def f(x, y):
        return x

    def f_fwd(x, y):
        return x, None

    def f_bwd(_, g):
        return g, lnp.zeros(3)

    f.defvjp(f_fwd, f_bwd)
    with pytest.raises(
        ValueError, match=r"the backward rule f_bwd of f .* argument 1 .*float32\[3\].*float32\[4\]"
    ):
        lm.grad(f)(1.0, lnp.zeros(4))
    with pytest.raises(TypeError, match="the custom_vjp function f: missing a required argument: 'y'"):
        f(1.0)

    @lm.custom_jvp
    def h(x):
        return x

    @h.defjvp
    def h_jvp(primals, tangents):
        return 1.0

    with pytest.raises(TypeError, match=r"the jvp rule h_jvp of h must return .*, not 1\.0"):
        lm.jvp(h, (1.0,), (1.0,))

    @lm.custom_batching.custom_vmap
    def m(x):
        return x

    @m.def_vmap
    def m_lanes(size, batched, x):
        return x, [True, False]

    with pytest.raises(ValueError, match="the vmap rule m_lanes of m says what is batched"):
        lm.vmap(m)(lnp.ones(3))


def test_a_cotangent_may_stand_for_all_leaves_of_an_argument():
    @lm.custom_vjp
    def f(params, x):
        return params["a"] * params["b"][0] * x

    f.defvjp(lambda params, x: (f(params, x), x), lambda x, g: (5 * g, g))
    params = {"a": lnp.float32(2.0), "b": [lnp.float32(3.0)]}
    got, by_x = lm.grad(f, (0, 1))(params, 4.0)
    assert (got["a"].item(), got["b"][0].item(), by_x.item()) == (5.0, 5.0, 1.0)
    f.defvjp(lambda params, x: (f(params, x), None), lambda _, g: ({"a": g, "b": 2 * g}, None))
    got = lm.vmap(lm.grad(f), (None, 0))(params, lnp.ones(2))
    assert got["b"][0].tolist() == [2.0, 2.0]
    f.defvjp(lambda params, x: (f(params, x), None), lambda _, g: (lnp.zeros(2), None))
    with pytest.raises(ValueError, match=r"cotangent of type float32\[2\]"):
        lm.grad(f)(params, 4.0)


def test_a_rule_cannot_see_captured_values_being_differentiated():
    def outer(w):
        f = lm.custom_vjp(lambda x: x * w)
        f.defvjp(lambda x: (x * w, ()), lambda res, g: (g,))
        return f(2.0)

    with pytest.raises(TypeError, match="pass it as an argument"):
        lm.grad(outer)(3.0)


def test_a_rule_that_raises_leaves_nothing_open():
    f = lm.custom_jvp(lambda x: x)

    @f.defjvp
    def rule(p, t):
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        lm.grad(f)(1.0)
    assert lm.grad(sine)(0.5).item() == pytest.approx(3 * np.cos(0.5))


def test_steps_without_jit_compile_once():
    def loss(x):
        return (product(x, x) + sine(x)).sum()

    g = lm.grad(loss)
    g(lnp.ones(3)).numpy()
    misses = lm.cache.stats()["misses"]
    for i in range(5):
        g(lnp.ones(3) * i).numpy()
    assert lm.cache.stats()["misses"] - misses <= 1


def test_stop_gradient():
    def f(x):
        return x * lax.stop_gradient(x)

    assert lm.grad(f)(3.0).item() == 3.0
    assert lm.jit(lm.grad(f))(3.0).item() == 3.0
    assert lm.grad(lm.grad(f))(3.0).item() == 0.0
    assert lm.jvp(f, (3.0,), (1.0,))[1].item() == 3.0
    tree = lax.stop_gradient({"a": lnp.ones(2), "b": (lnp.zeros(1),)})
    assert set(tree) == {"a", "b"}


def test_free_variables_of_rules_are_read_anew():
    factor = 2.0
    table = lnp.array([1.0, 10.0])

    @lm.custom_jvp
    def f(x):
        return x.sum()

    f.defjvp(lambda p, t: (f(p[0]), (t[0] * factor * table).sum()))

    def in_loop(x):
        return lax.fori_loop(0, 2, lambda i, c: c + f(x), 0.0)

    plain, looped = lm.jit(lm.grad(f)), lm.jit(lm.grad(in_loop))
    for factor in (2.0, 3.0, -1.0):
        np.testing.assert_array_equal(plain(lnp.ones(2)).numpy(), [factor, 10 * factor])
        np.testing.assert_array_equal(looped(lnp.ones(2)).numpy(), [2 * factor, 20 * factor])
    table = lnp.array([5.0, 6.0])
    np.testing.assert_array_equal(plain(lnp.ones(2)).numpy(), [-5.0, -6.0])
    np.testing.assert_array_equal(looped(lnp.ones(2)).numpy(), [-10.0, -12.0])
    assert repr(plain).startswith("<jit f: 1 entry,")


def test_arguments_that_are_not_differentiated_by_name():
    @functools.partial(lm.custom_vjp, nondiff_argnames=["power"])
    def f(x, power, shift=1.0):
        return x**power + shift

    f.defvjp(lambda x, power, shift: (f(x, power, shift), x), lambda power, x, g: (g * 10 * power * x, None))
    assert lm.grad(f)(3.0, 2).item() == 60.0
    assert lm.grad(lambda x: f(x, power=2))(3.0).item() == 60.0
    with pytest.raises(ValueError, match=r"'depth' is no parameter of <lambda>\(x\)"):
        lm.custom_jvp(lambda x: x, nondiff_argnames="depth")


def test_keyword_only_arguments_keep_their_defaults():
    @lm.custom_jvp
    def f(x, *, scale=3.0):
        return x * scale

    f.defjvps(lambda t, out, x: 5 * t)
    assert lm.value_and_grad(f)(2.0)[0].item() == 6.0 and lm.grad(f)(2.0).item() == 5.0
    with pytest.raises(TypeError, match=r"keyword-only arguments.*: scale"):
        lm.grad(lambda x: f(x, scale=1.0))(2.0)


def test_symbolic_zeros_stand_for_derivatives_by_integers():
    seen = []

    @lm.custom_jvp
    def f(x, n):
        return x * n, n

    def rule(primals, tangents):
        seen.append(tangents[1])
        (x, n), (t, z) = primals, tangents
        return f(x, n), (t * n, z)

    f.defjvp(rule, symbolic_zeros=True)
    assert lm.grad(lambda x: f(x, 3)[0])(2.0).item() == 3.0
    zero = seen[0]
    assert isinstance(zero, SymbolicZero) and (zero.shape, zero.ndim) == ((), 0) and zero.dtype == "int32"
    assert zero.instantiate().item() == 0


def test_symbolic_zeros_of_a_reverse_rule():
    kinds = []

    @lm.custom_vjp
    def f(x, n):
        return lnp.sin(x), n

    def forward(x, n):
        kinds.append((x.perturbed, n.perturbed))
        return f(x.value, n.value), x.value

    def backward(x, g):
        kinds.append(type(g[1]))
        return g[0] * 2, SymbolicZero((), "int32")

    f.defvjp(forward, backward, symbolic_zeros=True, optimize_remat=True)
    assert lm.grad(lambda x: f(x, 3)[0])(2.0).item() == 2.0
    assert kinds == [(True, False), SymbolicZero]


def test_zeros_and_values_of_rules():
    assert zero_from_primal(lnp.ones(2)).tolist() == [0.0, 0.0]
    assert zero_from_primal(1.0, symbolic_zeros=True).shape == ()
    zeros = zero_from_primal({"a": lnp.ones(2), "b": (1.0, None)}, symbolic_zeros=True)
    assert zeros["a"].shape == (2,) and zeros["b"][0].shape == () and zeros["b"][1] is None
    values = custom_vjp_primal_tree_values(
        {"a": CustomVJPPrimal(1.0, True), "b": [CustomVJPPrimal(2, False)]}
    )
    assert values == {"a": 1.0, "b": [2]}
    assert len(lm.tree.tree_leaves([CustomVJPPrimal(1.0, True)])) == 1  # a user's tree_map sees it whole


def test_a_backward_rule_sees_the_residuals_of_its_own_forward_pass():
    # What is kept depends on what is differentiated, so that passes of one rule keep other things.
    @lm.custom_vjp
    def product(x, y):
        return x * y

    def forward(x, y):
        kept = {}
        if x.perturbed:
            kept["y"] = y.value
        if y.perturbed:
            kept["x"] = x.value
        return x.value * y.value, kept

    def backward(kept, g):
        return g * kept["y"] if "y" in kept else None, g * kept["x"] if "x" in kept else None

    product.defvjp(forward, backward, symbolic_zeros=True)

    def loss(x):
        return product(x, 2.0) + 7 * product(3.0, x) + product(x, x)

    def loop(x):
        return lax.fori_loop(0, 2, lambda i, c: product(product(c, c), 3.0), x)

    assert lm.grad(loss)(5.0) == lm.jit(lm.grad(loss))(5.0) == lm.grad(lm.checkpoint(loss))(5.0) == 33
    assert lm.vmap(lm.grad(loss))(lnp.array([5.0, 1.0])).tolist() == [33, 25]
    assert lm.jacfwd(lm.grad(loss))(5.0) == 2
    assert lm.grad(loop)(0.5) == 13.5
    assert lm.vmap(lm.grad(loop))(lnp.array([0.5, 1.0])).tolist() == [13.5, 108]
    assert lm.grad(lambda x: lax.cond(x > 0, loss, loop, x))(5.0) == 33
    _, pull = lm.vjp(lambda x: (product(x, 2.0), product(3.0, x), product(x, x)), 5.0)
    lm.grad(lambda x: product(2.0, x))(1.0)
    assert pull((1.0, 10.0, 100.0)) == (1032,)
    assert pull((1.0, 0.0, 0.0)) == (2,)


def test_a_backward_rule_sees_what_its_forward_rule_read_of_python():
    kind = ["twice"]

    @lm.custom_vjp
    def same(x):
        return x * 1

    same.defvjp(
        lambda x: (x * 1, {kind[0]: x}),
        lambda kept, g: (g * (2 if "twice" in kept else 3),),
    )
    _, first = lm.vjp(same, 1.0)
    kind[0] = "thrice"
    _, second = lm.vjp(same, 1.0)
    assert (first(1.0), second(1.0), first(1.0)) == ((2,), (3,), (2,))


def test_none_in_any_part_of_a_cotangent_is_zero():
    @lm.custom_vjp
    def f(x):
        return x["a"] * 2

    f.defvjp(lambda x: (f(x), None), lambda _, g: ({"a": g * 7, "b": (None, None), "c": None},))
    grads = lm.grad(f)({"a": 1.0, "b": (2.0, None), "c": [3.0, (4.0,)]})
    assert grads["a"].item() == 7.0 and grads["b"][0].item() == 0.0 and grads["b"][1] is None
    assert [g.item() for g in lm.tree.leaves(grads["c"])] == [0.0, 0.0]
    f.defvjp(lambda x: (f(x), None), lambda _, g: ({"a": [g], "b": None, "c": None},))
    with pytest.raises(TypeError, match=r"another structure than the argument's.*\['a'\]"):
        lm.grad(f)({"a": 1.0, "b": (2.0, None), "c": [3.0, (4.0,)]})


def test_arrays_that_are_not_differentiated_may_be_traced():
    @functools.partial(lm.custom_jvp, nondiff_argnums=(0, 2))
    def f(a, x, b):
        return a * x + b

    @f.defjvp
    def rule(a, b, primals, tangents):
        return f(a, primals[0], b), 10 * a * tangents[0]

    lanes = lnp.arange(3.0)
    assert lm.vmap(f, (0, None, 0))(lanes, 2.0, lanes).numpy().tolist() == [0, 3, 6]
    out, dot = lm.jvp(lambda x: lm.vmap(f, (0, None, None))(lanes, x, 1.0), (2.0,), (1.0,))
    assert out.numpy().tolist() == [1, 3, 5] and dot.numpy().tolist() == [0, 10, 20]
    assert lm.jit(lm.grad(f, 1))(3.0, 2.0, 1.0).item() == 30
    assert lm.jit(lm.grad(lambda x, a: f(a, x, 1.0)))(2.0, 3.0).item() == 30
    with pytest.raises(TypeError, match=r"being differentiated|nondiff_argnums"):
        lm.grad(f, 0)(3.0, 2.0, 1.0)  # the rule says nothing of it
    with pytest.raises(TypeError, match="nondiff_argnums"):
        lm.jit(lm.grad(f, 0))(3.0, 2.0, 1.0)


def test_a_symbolic_zero_of_another_shape_is_refused():
    @lm.custom_vjp
    def f(x, y, z):
        return x, y, z

    f.defvjp(
        lambda x, y, z: (f(x.value, y.value, z.value), None),
        lambda _, g: (g[1], g[0], g[2]),
        symbolic_zeros=True,
    )
    with pytest.raises(ValueError, match=r"type float32\[2\]; the argument is float32\[1\]"):
        lm.grad(lambda x, y, z: f(x, y, z)[2].sum())(lnp.ones(1), lnp.ones(2), lnp.ones(3))


@pytest.mark.parametrize(
    "program",
    [
        # A rule that the thread has kept, and lets go of when the interpreter has ended.
        """
def f(x):
    @lm.custom_jvp
    def g(x):
        return lnp.sin(x)
    g.defjvp(lambda x, t: (lnp.sin(x[0]), lnp.cos(x[0]) * t[0]))
    return g(x)
lm.grad(f)(1.0)
""",
        "kept = lm.jit(lambda x: lm.pure_callback(lambda v: v * 2, x, x)); kept(lnp.ones(3)).block_until_ready()",
        "import numpy as np; lm.jit(lambda x: x + lnp.from_dlpack(np.ones(3)))(lnp.ones(3)).tolist()",
    ],
)
def test_processes_end_well(program):
    import subprocess
    import sys

    code = f"import lamina as lm, lamina.numpy as lnp\n{program}"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert out.returncode == 0, out.stderr


def test_rules_may_not_write_to_what_they_are_given():
    def bump(x, *others):
        x[0] = 3.0
        return x

    x = lnp.ones(2)
    f = lm.custom_vjp(lambda x: x * 1)
    f.defvjp(lambda x: (x * 1, x * 2), lambda kept, g: (bump(kept) * g,))
    with pytest.raises(TypeError, match="the backward rule <lambda> writes to its argument"):
        lm.grad(lambda x: f(x).sum())(x)
    f.defvjp(lambda x: (bump(x) * 1, None), lambda kept, g: (g,))
    with pytest.raises(TypeError, match="the forward rule <lambda> writes to its argument"):
        lm.grad(lambda x: f(x).sum())(x)
    h = lm.custom_jvp(lambda x: x * 1)
    h.defjvp(lambda p, t: (p[0] * 1, bump(t[0])))
    with pytest.raises(TypeError, match="the jvp rule <lambda> writes to its argument"):
        lm.jvp(h, (x,), (x + 1,))
    # A copy of its own is its own.
    f.defvjp(lambda x: (bump(x.copy()) * 1, x * 2), lambda kept, g: (bump(kept.copy()) * g,))
    np.testing.assert_array_equal(lm.grad(lambda x: f(x).sum())(x).numpy(), [3, 2])


def test_numbers_among_residuals_stay_known_in_lanes():
    seen = []

    @lm.custom_vjp
    def f(x, y):
        return x * y

    def forward(x, y):
        return x.value * y.value, (x.value, y.value, x.perturbed, y.perturbed, 3)

    def backward(kept, g):
        x, y, of_x, of_y, n = kept
        seen.append((of_x, of_y))  # Python's own
        assert (type(of_x), type(n)) == (bool, int)
        return (g * y * n if of_x else None, g * x * n if of_y else None)

    f.defvjp(forward, backward, symbolic_zeros=True)
    lanes = lm.vmap(f, (0, None))
    assert lm.grad(lambda x: lanes(x, 2.0).sum())(lnp.ones(3)).tolist() == [6.0] * 3
    assert (
        lm.jit(lm.grad(lambda x: lm.vmap(lanes, (0, None))(x, 2.0).sum()))(lnp.ones((2, 3))).tolist()
        == [[6.0] * 3] * 2
    )
    assert seen == [(True, False)] * 2
    assert lm.grad(lambda x, y: lanes(x, y).sum(), (0, 1))(lnp.arange(3.0), 2.0)[1].item() == 9.0


def test_a_rule_reads_what_it_made_inside_of_a_loop():
    @lm.custom_vjp
    def f(x):
        return x * 2.0

    def backward(_, g):
        made = lnp.arange(3.0) + 1
        assert made[1].item() == 2.0  # has a value from here on
        return (g * (made * 2)[2],)

    f.defvjp(lambda x: (f(x), None), backward)

    def loop(x):
        return lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0]

    assert lm.grad(loop)(1.0).item() == 216.0
    assert lm.jit(lm.grad(lambda x: lm.vmap(loop)(x).sum()))(lnp.ones(2)).tolist() == [216.0] * 2


def test_a_backward_rule_runs_for_a_cotangent_that_another_rule_gives_as_none():
    @lm.custom_vjp
    def kept(x):
        return x * 2

    kept.defvjp(lambda x: (x * 2, None), lambda _, g: (7.0 + 0 * g,))  # what is no derivative: a new state

    @lm.custom_vjp
    def product(x, y):
        return x * y

    product.defvjp(lambda x, y: (x * y, x), lambda x, g: (None, g * x))

    def f(x):
        return product(kept(x), x)

    assert lm.grad(lambda x: product(kept(x), 3.0))(2.0).item() == 7.0
    assert lm.grad(f)(2.0).item() == lm.jit(lm.grad(f))(2.0).item() == 11.0
    assert lm.vmap(lm.grad(f))(lnp.ones(2)).tolist() == [9.0, 9.0]
    assert lm.grad(lambda x: lax.stop_gradient(kept(x)) * x)(2.0).item() == 4.0
    assert lm.grad(lambda x: lnp.floor(kept(x)) + x)(2.0).item() == 1.0


def test_a_gradient_of_ones_own_beside_integer_results():
    @lm.custom_gradient
    def rounded(x):
        return (x, lnp.round(x).astype("int32")), lambda g: lnp.asarray(3.0) * g[0]

    def loss(x):
        y, i = rounded(x)
        y_fixed, i_fixed = lm.lax.stop_gradient((y, i))
        assert type(y_fixed) is type(i_fixed)
        return lnp.sum(rounded(y)[0] * i)

    x = np.array([1.0, 2.2, 3.7])
    np.testing.assert_allclose(lm.grad(loss)(x), 9 * np.round(x))


def test_linear_calls_have_the_transpose_that_they_are_given():
    linear_call = lm.custom_derivatives.linear_call
    x = {"a": lnp.arange(3.0), "b": lnp.asarray(2.0)}

    def f(x):
        return linear_call(
            lambda r, x: {"sum": r[0] * x["a"].sum() + x["b"]},
            lambda r, ct: {"a": 7 * r[0] * ct["sum"] * lnp.ones(3), "b": ct["sum"]},
            (2.0,),
            x,
        )["sum"]

    for wrap in (lambda f: f, lm.jit):
        assert float(wrap(f)(x)) == 8.0
        slopes = wrap(lm.grad(f))(x)
        assert slopes["a"].tolist() == [14.0] * 3 and float(slopes["b"]) == 1.0
        value, tangent = lm.jvp(wrap(f), (x,), (x,))
        assert float(value) == float(tangent) == 8.0
    lanes = lm.vmap(lm.grad(lambda x: linear_call(lambda r, x: r * x, lambda r, ct: 9 * r * ct, 3.0, x)))
    assert lanes(lnp.arange(2.0)).tolist() == [27.0, 27.0]
    assert (
        float(
            lm.grad(lambda r: linear_call(lambda r, x: r * x, lambda r, ct: r * ct, r, lnp.asarray(3.0)))(2.0)
        )
        == 0.0
    )
