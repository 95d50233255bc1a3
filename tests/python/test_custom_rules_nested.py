"""What linearize gives of functions with rules of their own, and second derivatives of loops over them."""

import functools
import gc

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax
from lamina.custom_batching import custom_vmap

X, XS, CT = lnp.array(0.7), lnp.array([0.7, 0.3, -0.2]), lnp.array([1.0, -2.0, 0.5])


@lm.custom_vjp
def _double(x):
    return 2 * lnp.sin(x)


_double.defvjp(lambda x: (2 * lnp.sin(x), x), lambda x, g: (3 * g * lnp.cos(x),))  # not 2, to be seen


@lm.custom_jvp
def _product(x, y):
    return x * y


_product.defjvp(lambda p, t: (p[0] * p[1], p[0] * t[1]))  # no derivative by x: second ones are not symmetric


def _scanned(x):
    return lax.scan(lambda c, _: (0.5 * _double(c), None), x, None, length=3)[0]


def _looped(x):
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, 0.5 * _double(c[1])), (0 * x, x))[1]


_FUNCTIONS = {
    "plain": _double,
    "jit": lm.jit(_double),
    "checkpoint": lm.checkpoint(lambda x: _double(lnp.cos(x))),
    "scan": _scanned,
    "while": _looped,
    "cond": lambda x: lax.cond(x > 0, _double, lnp.cos, x),
    "vmap": lambda x: lm.vmap(_double)(lnp.stack([x, 2 * x])).sum(),
}


def _push(f, x):
    return lm.linearize(f, x)[1]


# How the linear part of f at a number is transposed: the slope of each.
_TRANSPOSED = {
    "linear_transpose": lambda f: lm.linear_transpose(_push(f, X), X)(1.0)[0],
    "vjp": lambda f: lm.vjp(_push(f, X), 5.0)[1](1.0)[0],
    "grad": lambda f: lm.grad(_push(f, X))(5.0),
    "jit": lambda f: lm.jit(lambda x, g: lm.linear_transpose(_push(f, x), x)(g)[0])(X, 1.0),
    "of a jitted one": lambda f: lm.linear_transpose(lm.jit(_push(f, X)), X)(1.0)[0],
    "out of jit": lambda f: lm.linear_transpose(lm.jit(lambda x: _push(f, x))(X), X)(1.0)[0],
    "twice": lambda f: lm.linear_transpose(_push(_push(f, X), 5.0), X)(1.0)[0],
    "checkpoint": lambda f: lm.grad(lm.checkpoint(_push(f, X)))(5.0),
    "scan": lambda f: lm.grad(lambda t: lax.scan(lambda c, _: (_push(f, X)(t), None), t, None, length=2)[0])(
        5.0
    ),
    "cond": lambda f: lm.grad(lambda t: lax.cond(t > 0, _push(f, X), _push(f, X), t))(5.0),
}


@pytest.mark.parametrize("how", _TRANSPOSED)
@pytest.mark.parametrize("f", _FUNCTIONS.values(), ids=_FUNCTIONS)
def test_the_linear_part_of_a_custom_vjp_is_transposed(f, how):
    np.testing.assert_allclose(_TRANSPOSED[how](f), lm.grad(f)(X), rtol=1e-6)


@pytest.mark.parametrize("jit", [lambda f: f, lm.jit], ids=["plain", "jit"])
@pytest.mark.parametrize("f", _FUNCTIONS.values(), ids=_FUNCTIONS)
def test_the_linear_part_of_a_custom_vjp_is_batched(f, jit):
    slopes = lm.vmap(lm.grad(f))(XS)
    given = {
        "tangents": (lambda t: lm.vmap(_push(f, X))(t), CT * lm.grad(f)(X)),
        "function": (_push(lm.vmap(f), XS), CT * slopes),
        "points and tangents": (lambda t: lm.vmap(lambda x, t: _push(f, x)(t))(XS, t), CT * slopes),
    }
    for push, want in given.values():
        np.testing.assert_allclose(
            jit(lambda g, push=push: lm.linear_transpose(push, XS)(g)[0])(CT), want, rtol=1e-6
        )
    of_all = lambda t: lm.vmap(lambda x, t: _push(f, x)(t), (0, None))(XS, t)  # noqa: E731
    np.testing.assert_allclose(
        jit(lambda g: lm.vjp(of_all, 1.0)[1](g)[0])(CT), (CT * slopes).sum(), rtol=1e-5
    )
    nested = lambda t: lm.vmap(lm.vmap(_push(f, X)))(t)  # noqa: E731
    grid = lnp.stack([CT, 2 * CT])
    np.testing.assert_allclose(
        jit(lambda g: lm.linear_transpose(nested, grid)(g)[0])(grid), grid * lm.grad(f)(X), rtol=1e-6
    )


@pytest.mark.parametrize("how", [lambda f: f, lm.jit, lambda f: lambda t: lm.vmap(f)(lnp.stack([t, t]))])
@pytest.mark.parametrize("f", _FUNCTIONS.values(), ids=_FUNCTIONS)
def test_the_linear_part_of_a_custom_vjp_has_no_value(f, how):
    with pytest.raises(
        TypeError, match=r"custom vjp has no forward-mode derivative.*test_custom_rules_nested\.py"
    ):
        how(_push(f, X))(X).numpy()
    assert lm.eval_shape(_push(f, X), X).shape == ()


def _step(x, y):
    return 0.5 * lnp.sin(_product(x, y)) + x, y * x


def _in_python(v):
    x, y = v[0], v[1]
    for _ in range(3):
        x, y = _step(x, y)
    return x + y * y


def _in_while(v, **options):
    go, step = lambda c: c[0] < 3, lambda c: (c[0] + 1, *_step(c[1], c[2]))
    _, x, y = lax.while_loop(go, step, (0 * v[0], v[0], v[1]), **options)
    return x + y * y


@pytest.mark.parametrize("options", [{}, {"checkpoint": 1}, {"checkpoint": 2}], ids=str)
def test_second_derivatives_through_a_while_loop_follow_the_rule(options):
    v = lnp.array([0.7, 0.4])
    for second in (
        lambda f: lm.jacrev(lm.grad(f)),
        lambda f: lm.jacfwd(lm.grad(f)),
        lambda f: lm.jacrev(lm.jacfwd(f)),
        lm.hessian,
        lambda f: lm.jit(lm.hessian(f)),
        lambda f: lambda v: lm.vmap(lm.jacrev(lm.grad(f)))(lnp.stack([v, 2 * v])),
        lambda f: lambda v: lm.grad(lambda v: lm.vmap(lm.grad(f))(lnp.stack([v, v * v])).sum())(v),
        lambda f: lm.grad(lambda v: lm.grad(lambda v: lm.grad(f)(v).sum())(v).sum()),
    ):
        got = second(lambda v: _in_while(v, **options))(v)
        np.testing.assert_allclose(got, second(_in_python)(v), rtol=2e-5)


def test_second_derivatives_through_a_while_loop_over_a_custom_vjp():
    in_python = lambda x: 0.5 * _double(0.5 * _double(0.5 * _double(x)))  # noqa: E731
    for second in (
        lambda f: lm.grad(lm.grad(f))(X),
        lambda f: lm.jacrev(lm.jacrev(f))(X),
        lambda f: lm.vmap(lm.grad(lm.grad(f)))(XS),
        lambda f: lm.grad(lm.grad(lm.grad(f)))(X),
        lambda f: lm.jvp(lm.grad(f), (X,), (1.0,))[1],
    ):
        np.testing.assert_allclose(second(_looped), second(in_python), rtol=2e-5)


def _local_vjp(x, z):
    @lm.custom_vjp
    def f(y):
        return x * y

    f.defvjp(lambda y: (x * y, x), lambda x, g: (5 * x * g,))
    return f(z)


def _local_jvp(x, z):
    @lm.custom_jvp
    def f(y):
        return x * y

    f.defjvp(lambda p, t: (x * p[0], 5 * x * t[0]))
    return f(z)


def _local_lanes(x, z):
    w = z * 1

    @custom_vmap
    def f(y):
        return y * w

    f.def_vmap(lambda n, batched, y: (y * w, True))
    return f(x)


@pytest.mark.parametrize(("f", "slope"), [(_local_vjp, 15), (_local_jvp, 15), (_local_lanes, 3)])
@pytest.mark.parametrize("around", [lambda f: f, lm.jit, lm.checkpoint], ids=["plain", "jit", "checkpoint"])
def test_rules_of_functions_that_are_gone_live_as_long_as_their_calls(f, slope, around):
    """They close over what is traced, and only the recorded call leads to them when the collector comes."""
    total = around(lambda z: lm.vmap(lambda x: f(x, z))(lnp.arange(3.0)).sum())
    _, pull = lm.vjp(total, 3.0)
    gc.collect()
    assert pull(1.0)[0].item() == slope
    trace = lm.make_trace(total)(1.0)
    gc.collect()
    assert lm.grad(lambda z: trace(z)[0])(2.0).item() == slope


@functools.partial(lm.custom_vjp, nondiff_argnums=(0,))
def monomial(n, x, factor):
    return x**n * factor["k"]


monomial.defvjp(
    lambda n, x, factor: (monomial(n, x, factor), (x, factor)),
    lambda n, kept, g: (g * n * kept[0] ** (n - 1) * kept[1]["k"], None),
)


def test_numbers_are_numbers_to_rules_too():
    # beside an array of 16 bits a number takes on its type: a rule that computed in 32 bits did not fit the function
    half = {"k": lnp.float16(3)}
    assert lm.grad(monomial, 1)(2, 1.0, half).item() == 6.0
    assert lm.jit(lm.grad(monomial, 1), static_argnums=0)(2, 1.0, half).item() == 6.0

    seen = []

    @lm.custom_vjp
    def scaled(x, y):
        return x * y

    def backward(kept, g):
        x, y = kept
        seen.append((x.weak_type, (x * y).dtype.name))
        return g * y, g * x

    scaled.defvjp(lambda x, y: (x * y, (x, y)), backward)
    assert lm.grad(scaled, 1)(2.0, lnp.float16(3)).dtype == "float16"
    lm.grad(scaled, 1)(lnp.float32(2), lnp.ones((), "float32"))  # the same shapes, and no number among them
    assert seen == [(True, "float16"), (False, "float32")]

    forward = lm.custom_jvp(lambda x, y: x * y)
    forward.defjvp(lambda p, t: (p[0] * p[1], p[0] * t[1]))
    y, dy = lm.jvp(forward, (2.0, lnp.asarray(3, "bfloat16")), (1.0, lnp.asarray(1, "bfloat16")))
    assert (y.item(), dy.item(), y.dtype.name, dy.dtype.name) == (6.0, 2.0, "bfloat16", "bfloat16")


def test_arguments_after_one_left_out_are_given_by_name():
    @lm.custom_vjp
    def volume(x, y=2.0, z=3.0):
        return x * y * z

    volume.defvjp(
        lambda x, y, z: (x * y * z, (x, y, z)),
        lambda kept, g: (g * kept[1] * kept[2], g * kept[0] * kept[2], g * kept[0] * kept[1]),
    )
    assert float(volume(1.0, z=4.0)) == 8.0
    assert lm.grad(lambda x, z: volume(x, z=z), (0, 1))(5.0, 7.0) == (14.0, 10.0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'w'"):
        volume(1.0, w=2.0)


def test_a_rule_with_another_type_of_results_is_told():
    wrong = lm.custom_jvp(lambda x: x)
    wrong.defjvp(lambda p, t: (p[0].astype("float16"), t[0]))
    with pytest.raises(
        TypeError, match=r"the jvp rule .* returns float16\[\] .* the function gives float32\[\]"
    ):
        lm.jvp(wrong, (lnp.float32(1),), (lnp.float32(1),))
