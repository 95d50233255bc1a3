"""make_trace: the equations of a function, their names, and that a trace computes what the function does."""

import re

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax

X = lnp.arange(3.0)


def _names(trace):
    return [e.primitive.name for e in trace.eqns]


def test_text():
    assert str(lm.make_trace(lambda x: lnp.sin(x) * 2)(1.0)) == (
        "{ lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = mul b 2.0:f32[] in (c,) }"
    )
    f = lambda p, x: lax.cond(p, lambda x: lnp.sin(x), lambda x: lnp.exp(lnp.cos(x) * 2) + lnp.tanh(x), x)  # noqa: E731
    assert str(lm.make_trace(f)(True, X)).splitlines() == [
        "{ lambda ; a:bool[] b:f32[3]. let",
        "    c:i32[] = convert_element_type[dtype=int32] a",
        "    d:f32[3] = cond[",
        "      branches=(",
        "        { lambda ; e:f32[3]. let",
        "            f:f32[3] = cos e",
        "            g:f32[3] = mul f 2.0:f32[3]",
        "            h:f32[3] = exp g",
        "            i:f32[3] = tanh e",
        "            j:f32[3] = add h i",
        "          in (j,) }",
        "        { lambda ; k:f32[3]. let l:f32[3] = sin k in (l,) }",
        "      )",
        "    ] c b",
        "  in (d,) }",
    ]


def test_equations_have_names_types_parameters_and_lines():
    t = lm.make_jaxpr(lambda x: lnp.sum(lnp.exp(x) @ lnp.ones((3, 2))))(X)
    assert _names(t)[-1] == "reduce_sum" and "dot_general" in _names(t)
    assert t.eqns[-1].params == {"axes": (0,)}
    assert t.eqns[0].outvars[0].aval == lm.ShapeDtype((3,), "float32")
    assert __file__ in t.eqns[0].where
    assert (t.in_avals, t.out_avals) == ([lm.ShapeDtype((3,), "float32")], [lm.ShapeDtype((), "float32")])


def _nested(x):
    def step(c, r):
        return c * r, c + 1

    c, ys = lax.scan(step, x[0], x)
    n = lax.while_loop(lambda i: i < 3, lambda i: i + 1, 0)
    return lax.cond(c > 0, lambda y: y + n, lambda y: y, c), lm.jit(lambda y: y * 3)(ys)


def test_regions_are_traces():
    t = lm.make_trace(_nested)(X)
    assert {"scan", "while", "cond", "jit"} <= set(_names(t))
    by_name = {e.primitive.name: e for e in t.eqns}
    assert _names(by_name["scan"].params["jaxpr"]) == ["mul", "add"]
    assert _names(by_name["while"].params["cond_jaxpr"]) == ["lt"]
    assert ["add" in str(b) for b in by_name["cond"].params["branches"]] == [False, True]
    assert re.search(r"jaxpr={ lambda ; \w:f32\[\] \w:f32\[\]\. let", str(t))


@pytest.mark.parametrize(
    "f",
    [
        _nested,
        lambda x: {"a": lm.grad(lambda y: lnp.sum(lnp.sin(y) ** 2))(x)},
        lm.vmap(lambda r: lnp.where(r > 1, r, -r)),
        lambda x: x + lnp.float32(1) * np.float32(2),
    ],
)
def test_a_trace_computes_what_the_function_does(f):
    t, shapes = lm.make_trace(f, return_shape=True)(X)
    got, want = t(X), lm.tree.tree_leaves(f(X))
    for g, w, s in zip(got, want, lm.tree.tree_leaves(shapes), strict=True):
        np.testing.assert_array_equal(np.asarray(g), np.asarray(w))
        assert (w.shape, w.dtype) == (s.shape, s.dtype)


def test_arrays_from_outside_are_constants_that_may_be_replaced():
    w = lnp.array([1.0, 2.0, 3.0])
    t = lm.make_trace(lambda x: x * w)(X)
    assert len(t.consts) == 1 and len(t.constvars) == 1 and len(t.invars) == 1
    np.testing.assert_array_equal(np.asarray(t.consts[0]), [1, 2, 3])
    np.testing.assert_array_equal(np.asarray(t(X)[0]), [0, 2, 6])
    np.testing.assert_array_equal(np.asarray(t.evaluate([w * 0], X)[0]), [0, 0, 0])


def test_custom_rules_effects_and_static_arguments():
    @lm.custom_jvp
    def f(x):
        return x + 1

    f.defjvp(lambda p, t: (f(*p), t[0]))
    t = lm.make_trace(f)(X)
    assert _names(t) == ["custom_jvp_call"] and _names(t.eqns[0].params["call_jaxpr"]) == ["add"]
    pair = lm.custom_vjp(lambda x: (lnp.sin(x), lnp.cos(x)))
    pair.defvjp(lambda x: (pair(x), x), lambda x, g: (g[0] + g[1],))
    t = lm.make_trace(lambda x: pair(x)[1])(X)
    assert _names(t) == ["custom_vjp_call"] and _names(t.eqns[0].params["call_jaxpr"]) == ["cos"]
    seen = []
    t = lm.make_trace(lambda x: (lm.debug.callback(seen.append, x), x * 2)[1])(X)
    assert t.effects and not seen and len(t.out_avals) == 1
    np.testing.assert_array_equal(np.asarray(t(X)[0]), [0, 2, 4])
    assert len(seen) == 1
    static = lm.make_trace(lambda n, x: x[:n], static_argnums=0)(2, X)
    assert static.out_avals[0].shape == (2,)


def test_weak_results_are_told():
    t = lm.make_trace(lambda x, y: (x * 2, y + 1))(1.0, X)
    assert [a.weak_type for a in t.out_avals] == [True, False]
    assert [a.weak_type for a in t.in_avals] == [True, False]
    assert [x.weak_type for x in t(1.0, X)] == [True, False]  # as those of the function
    assert lm.eval_shape(lambda x: x * 2, 1.0).weak_type


def test_what_does_not_fit_is_refused():
    with pytest.raises(TypeError, match="make_trace needs a function, and int is not callable: 3"):
        lm.make_trace(3)
    with pytest.raises(ValueError, match="static_argnums 1 is out of range"):
        lm.make_trace(lambda x: x, static_argnums=1)(X)
    t = lm.make_trace(lambda x: x + 1)(X)
    with pytest.raises(TypeError, match="takes 1 arrays, not 2"):
        t(X, X)


def test_stages_give_their_trace_texts_and_donated_arguments():
    lowered = lm.jit(lambda x, y: x + y, donate_argnums=1).lower(X, X)
    assert _names(lowered.jaxpr) == ["add"]
    assert "stablehlo.add" in lowered.as_text("stablehlo") and "HloModule" in lowered.as_text("hlo")
    (a, b), _ = lowered.args_info
    assert not a.donated and b.donated


def test_branches_and_loops_hold_what_their_results_need():
    """Of a derivative of a cond, not the value; of a scan, not what it stacks for nobody."""

    def both(c):
        return lnp.sin(c), lnp.cos(c)

    def f(x):
        chosen = lax.cond(x > 0, both, lambda c: (lnp.tan(c), lnp.exp(c)), x)[0]
        called = lm.jit(lambda v: (lnp.tanh(v), lnp.log(v)))(x)[1]
        total, _ = lax.scan(lambda c, _: (c + 1, lnp.sqrt(c)), x, None, length=3)
        return chosen + called + total

    t = lm.make_trace(f)(np.float32(1))
    text = str(t)
    assert all(f" {n} " in text for n in ("sin", "tan", "log"))
    assert not any(f" {n} " in text for n in ("cos", "exp", "tanh", "sqrt"))
    (chosen,) = (e for e in t.eqns if e.primitive.name == "cond")
    assert [len(b.outvars) for b in chosen.params["branches"]] == [1, 1] == [len(chosen.outvars)] * 2
    assert chosen.params["branches"][0](2.0)[0].item() == pytest.approx(np.tan(2.0))
    np.testing.assert_allclose(t(1.0)[0].item(), f(1.0).item(), rtol=1e-6)
    slope = lm.linearize(lm.checkpoint(lambda x: lax.cond(x > 0, lnp.sin, lambda v: v, x)), np.float32(4))[1]
    text = str(lm.make_trace(slope)(np.float32(1)))
    assert " cos " in text and " sin " not in text
    # What has effects stays whole.
    t = lm.make_trace(lambda x: lax.cond(x > 0, lambda: lm.debug.print("{}", x), lambda: None))(np.float32(1))
    assert [e.primitive.name for e in t.eqns][-1] == "cond"


def test_products_say_what_was_asked():
    a, b = np.ones((2, 3, 4), np.float32), np.ones((2, 4, 5), np.float16)
    (*_, e) = lm.make_trace(lambda a, b: lnp.matmul(a, b, precision=("high", "highest")))(a, b).eqns
    assert e.primitive.name == "dot_general" and e.params == {
        "dimension_numbers": (((2,), (1,)), ((0,), (0,))),
        "precision": (lax.Precision.HIGH, lax.Precision.HIGHEST),
        "preferred_element_type": "float32",
    }
    (e,) = lm.make_trace(lambda x: lnp.dot(x, x, precision="BF16_BF16_F32_X6"))(X).eqns
    assert e.params["precision"] == lax.DotAlgorithm("bf16", "bf16", "f32", 1, 1, 6, False)
    (e,) = lm.make_trace(lambda x: lnp.dot(x, x))(X).eqns
    assert e.params["precision"] is None
    (*_, e) = lm.make_trace(lambda x: lnp.convolve(x, x, precision="high"))(X).eqns[:-1]
    assert e.params["precision"] == (lax.Precision.HIGH,) * 2
    # The parameters are arguments of the function of that name.
    (e,) = lm.make_trace(lambda a, b: lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,)))))(
        a, a.swapaxes(1, 2)
    ).eqns
    assert getattr(lax, e.primitive.name)(a, a.swapaxes(1, 2), **e.params).shape == (2, 3, 3)


def test_traces_of_no_operations():
    t = lm.make_trace(lambda x: (lax.broadcast(x, ()), 1.0))(X)
    assert str(t) == "{ lambda ; a:f32[3]. let  in (a, 1.0:f32[]) }"


def test_shapes_without_values():
    s = lm.ShapeDtype.like(X)
    assert s == lm.ShapeDtype((3,), "float32") and len(s) == 3 and s.str_short() == "float32[3]"
    assert s.update(shape=(2,)) == lm.ShapeDtype((2,), "float32")
    assert lm.ShapeDtype.like(1.0).weak_type and lm.ShapeDtype.like(1.0) != lm.ShapeDtype((), "float32")
    assert lm.typeof(X) == s
    with pytest.raises(ValueError, match="element type"):
        lm.ShapeDtype((3,), None)
    with pytest.raises(TypeError, match="unsized"):
        len(lm.ShapeDtype((), "int32"))


def test_a_barrier_is_written_in_its_short_form_and_read_again():
    @lm.checkpoint
    def layer(w, x):
        return lnp.sin(w @ x)

    def slopes(w, x):
        return lm.grad(lambda w, x: (layer(w, layer(w, x)) ** 2).sum(), (0, 1))(w, x)

    w, x = lnp.arange(9.0).reshape(3, 3) / 9, lnp.ones(3)
    text = lm.jit(slopes).lower(w, x).as_text("stablehlo")
    # Names and types of all operands, as other operations with results of their operands' types have them.
    barriers = re.findall(r"%\d+(?::(\d))? = stablehlo.optimization_barrier ([^:]*) : ([^\n]*)", text)
    assert barriers and '"stablehlo.optimization_barrier"' not in text
    for count, operands, types in barriers:
        assert len(operands.split(", ")) == types.count("tensor<") == int(count or 1)
    for ours, again in zip(slopes(w, x), lm.stablehlo.loads(text)(w, x)):
        assert lnp.array_equal(ours, again)
    one = lm.jit(lambda x: lax.optimization_barrier(x) + 1).lower(x).as_text("stablehlo")
    assert "stablehlo.optimization_barrier %arg0 : tensor<3xf32>" in one
    assert lm.stablehlo.loads(one)(x).tolist() == [2.0] * 3


def test_reductions_and_effects_are_told_by_their_names():
    def f(x):
        lm.io_callback(lambda x: None, None, x)
        return lm.pure_callback(lambda x: x, x, lm.lax.reduce(x, 0, lm.lax.bitwise_xor, (0,)))

    names = [e.primitive.name for e in lm.make_trace(f)(lnp.arange(3)).eqns]
    assert sorted(names) == ["io_callback", "pure_callback", "reduce_xor"]
