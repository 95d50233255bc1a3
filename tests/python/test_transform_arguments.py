"""What transforms are given that does not fit: the class of the error, and what it says."""

from __future__ import annotations

import lamina as lm
import lamina.lax as lax
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina.test_util import check_grads

_ONE = lnp.float32(1.0)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("grad", lambda: lm.grad(3)),
        ("grad", lambda: lm.value_and_grad(None)),
        ("vjp", lambda: lm.vjp(3, 1.0)),
        ("jvp", lambda: lm.jvp(3, (1.0,), (1.0,))),
        ("linearize", lambda: lm.linearize(3, 1.0)),
        ("linear_transpose", lambda: lm.linear_transpose(3, 1.0)),
        ("vmap", lambda: lm.vmap(3)),
        ("checkpoint", lambda: lm.checkpoint(3)),
        ("eval_shape", lambda: lm.eval_shape(3, 1.0)),
        ("jacfwd", lambda: lm.jacfwd(3)),
        ("jacrev", lambda: lm.jacrev(3)),
        ("hessian", lambda: lm.hessian(3)),
        ("lax.scan", lambda: lax.scan(3, 0.0, None, length=2)),
        ("lax.map", lambda: lax.map(3, lnp.ones(2))),
        ("lax.fori_loop", lambda: lax.fori_loop(0, 2, 3, 0.0)),
        ("lax.while_loop", lambda: lax.while_loop(3, lambda c: c, 0.0)),
        ("lax.while_loop", lambda: lax.while_loop(lambda c: c < 1, 3, 0.0)),
        ("lax.switch", lambda: lax.switch(0, [lambda: 1.0, 3])),
        ("lax.associative_scan", lambda: lax.associative_scan(3, lnp.ones(2))),
    ],
)
@pytest.mark.parametrize("refs", [False, True], ids=["", "beside references"])
def test_what_is_no_function_is_named(name, call, refs):
    held = [lm.new_ref(0.0)] * refs  # which loops and branches look for
    with pytest.raises(
        TypeError, match=rf"^{name.replace('.', '[.]')} needs a function, and (int|NoneType) is not callable"
    ):
        call()
    del held


@pytest.mark.parametrize("transform", [lm.grad, lm.value_and_grad, lm.jacfwd, lm.jacrev])
def test_argnums_are_integers_in_range_and_named_once(transform):
    def f(x, y):
        return x * y

    assert transform(f, argnums=np.int64(1))(2.0, 3.0) is not None
    for bad in (1.0, "x", (0, "y"), None):
        with pytest.raises(TypeError, match="argnums is"):
            transform(f, argnums=bad)
    with pytest.raises(TypeError, match=r"argnums 2 is out of range: f was called with 2 positional"):
        transform(f, argnums=2)(2.0, 3.0)
    with pytest.raises(TypeError, match=r"argnums 0 is out of range: f was called with 0 positional"):
        transform(f)(x=2.0, y=3.0)
    for twice in ((0, 0), (1, -1)):
        with pytest.raises(ValueError, match="names an argument of f twice"):
            transform(f, argnums=twice)(2.0, 3.0)


def test_argnums_as_numbers_of_numpy_and_lists():
    f = lambda x, y: x * y  # noqa: E731
    assert lm.grad(f, np.int32(1))(2.0, 3.0).item() == 2.0
    assert [g.item() for g in lm.grad(f, [np.int64(0), 1])(2.0, 3.0)] == [3.0, 2.0]
    assert lm.hessian(f, np.int64(0))(2.0, 3.0).item() == 0.0


@pytest.mark.parametrize("container", [lambda x: (x, x), lambda x: [x], lambda x: {"loss": x}])
def test_a_loss_is_no_container(container):
    kind = type(container(1.0)).__name__
    for transform in (lm.grad, lm.value_and_grad):
        with pytest.raises(TypeError, match=rf"returned a {kind}: .* pair \(loss, aux\) with has_aux=True"):
            transform(container)(1.0)
    with pytest.raises(TypeError, match=rf"returned a {kind}"):
        lm.grad(lambda x: (container(x), x), has_aux=True)(1.0)


def test_sizes_of_axes_are_integers():
    assert lm.vmap(lambda: 1.0, axis_size=np.int64(2))().tolist() == [1.0, 1.0]
    with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
        lm.vmap(lambda: 1.0, axis_size="two")()
    with pytest.raises(ValueError, match="negative"):
        lm.vmap(lambda: 1.0, axis_size=-1)()


def test_jvp_takes_tuples_or_lists_of_one_structure():
    double = lambda x: 2 * x  # noqa: E731
    assert lm.jvp(double, [1.0], (3.0,))[1].item() == 6.0
    for primals, tangents, what in (
        (1.0, (1.0,), "primals"),
        ((1.0,), 1.0, "tangents"),
        (_ONE, _ONE, "primals"),
    ):
        with pytest.raises(TypeError, match=f"jvp takes the {what} as a tuple"):
            lm.jvp(double, primals, tangents)
    with pytest.raises(TypeError, match="tangents do not fit the primals"):
        lm.jvp(double, (1.0,), ())
    with pytest.raises(TypeError, match="tangents do not fit the primals"):
        lm.jvp(lambda d: d["a"], ({"a": 1.0},), ({"b": 1.0},))
    with pytest.raises(ValueError, match=r"shape \(2,\) does not fit its primal of shape \(3,\)"):
        lm.jvp(double, (lnp.ones(3),), (lnp.ones(2),))


def test_derivatives_of_real_values_are_not_complex():
    double = lambda x: 2 * x  # noqa: E731
    _, pull_back = lm.vjp(double, _ONE)
    _, push_forward = lm.linearize(double, _ONE)
    with pytest.raises(ValueError, match=r"complex64\[\] but its value has float32"):
        pull_back(1j)
    with pytest.raises(ValueError, match=r"complex64\[\] does not fit its primal, which is real"):
        push_forward(1j)
    with pytest.raises(TypeError, match=r"complex64\[\] does not fit its primal, which is real"):
        lm.jvp(double, (_ONE,), (1j,))
    # Real ones of complex values, and of other widths, are fitted.
    _, pull_back = lm.vjp(double, lnp.complex64(1.0))
    assert pull_back(1.0)[0].item() == 2.0
    assert lm.jvp(double, (_ONE,), (np.float64(3.0),))[1].dtype == "float32"


def test_transposes_refuse_with_type_errors():
    with pytest.raises(TypeError, match=r"needs real or complex primals, not int32\[\]"):
        lm.linear_transpose(lambda x: 2 * x, 1)
    pair = lm.linear_transpose(lambda x: [x, x], 1.0)
    with pytest.raises(TypeError, match="does not fit the output"):
        pair(1.0)
    with pytest.raises(TypeError, match=r"has type float32\[\] but its value has float32\[2\]"):
        lm.linear_transpose(lambda x: lnp.stack([x, x]), 1.0)(1.0)
    with pytest.raises(TypeError, match="complex64"):
        lm.linear_transpose(lambda x: x, 1.0)(1j)
    # And they pass through jitted functions and vmap as other pull-backs do.
    through = lm.jit(lambda t, c: t(c)[0])(pair, [1.0, 2.0])
    assert through.item() == 3.0
    with pytest.raises(TypeError, match="does not fit the output"):
        lm.jit(lambda t: t)(pair)(1.0)


def test_unroll_is_a_number_of_steps():
    step = lambda c, x: (c + x, c)  # noqa: E731
    for unroll in (True, False, 0, 2, np.int64(3)):
        assert lax.scan(step, 0.0, lnp.ones(3), unroll=unroll)[0].item() == 3.0
    for loop in (
        lambda u: lax.scan(step, 0.0, lnp.ones(3), unroll=u),
        lambda u: lax.fori_loop(0, 3, lambda i, c: c, 0.0, unroll=u),
    ):
        with pytest.raises(ValueError, match="`unroll` must be a number of steps, and not negative: -1"):
            loop(-1)
        for bad in (1.5, "many"):
            with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
                loop(bad)
        with pytest.raises(TypeError, match=r"`unroll` decides .* int32"):
            lm.jit(loop)(2)


def test_shapes_to_broadcast_are_shapes():
    assert lax.broadcast_shapes((2, 1), (3,)) == (2, 3)
    with pytest.raises(TypeError, match="no negative sizes"):
        lax.broadcast_shapes((-1,))


def test_arrays_of_several_elements_are_no_numbers():
    x = lnp.ones(10)
    for convert in (float, int, complex):
        with pytest.raises(TypeError, match="only a Tensor with one element"):
            convert(x)
    with pytest.raises(ValueError, match="only a Tensor with one element"):  # as in NumPy
        x.item()


def test_check_grads_keeps_the_type_of_an_array_without_dimensions():
    pad = lambda x: lax.pad(x, np.array(0, np.float16), [])  # noqa: E731
    check_grads(pad, (np.array(1.5, np.float16),), 2, eps=1.0)


@pytest.mark.parametrize("bad", [object(), "text", np.array(["text"])])
@pytest.mark.parametrize("transform", [lm.grad, lm.value_and_grad, lm.jacfwd, lm.jacrev, lm.hessian])
def test_a_leaf_that_is_no_array_is_named(transform, bad):
    def f(a, p):
        return a * p["w"][1]

    with pytest.raises(TypeError, match=r"needs float inputs, but p\['w'\]\[1\] is .*, which is no array"):
        transform(f, argnums=1)(1.0, {"w": [2.0, bad]})


def test_vmap_hands_numbers_that_are_not_batched_on_as_they_are():
    x = lnp.ones((3, 4))
    static = lm.jit(lambda n, x: x.reshape(n, -1), static_argnums=0)
    assert lm.vmap(static, (None, 0))(2, x).shape == (3, 2, 2)
    assert lm.vmap(lm.vmap(static, (None, 0)), (None, 0))(2, x[None]).shape == (1, 3, 2, 2)
    seen = []
    out = lm.vmap(lambda p, x: (seen.append(p), x * p["rate"])[1], (None, 0))({"rate": 0.5, "n": 3}, x)
    assert seen == [{"rate": 0.5, "n": 3}] and {k: type(v) for k, v in seen[0].items()} == {
        "rate": float,
        "n": int,
    }
    assert out.tolist() == [[0.5] * 4] * 3
    assert lm.vmap(lambda n, x: n, (None, 0), None)(3, x).item() == 3
    assert lm.vmap(lm.grad(lambda a, x: (a * x).sum()), (None, 0))(2.0, x).tolist() == [4.0] * 3
    assert lm.grad(lambda a: lm.vmap(lambda a, x: a * x, (None, 0))(a, x).sum())(2.0).item() == 12.0
