"""What vjp and linearize give as containers, and zeros that custom rules are told of without an array."""

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax

X, W = lnp.arange(3.0), lnp.array([2.0, -1.0, 0.5])


def _f(x, w):
    return {"y": lnp.sin(x) * w, "n": lnp.sum(x * x)}


CT = {"y": lnp.array([1.0, 2.0, 3.0]), "n": lnp.float32(0.5)}


def _same(got, want):
    for g, w in zip(lm.tree.tree_leaves(got), lm.tree.tree_leaves(want), strict=True):
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=1e-6)


def _applied(p, *given):
    return p(*given)


def test_a_pull_back_is_an_argument_and_a_result_of_jitted_functions():
    want = lm.vjp(_f, X, W)[1](CT)
    _same(lm.jit(_applied)(lm.vjp(_f, X, W)[1], CT), want)
    made = lm.jit(lambda x, w: lm.vjp(_f, x, w)[1])
    _same(made(X, W)(CT), want)
    _same(lm.jit(lambda p: p(CT))(made(X, W)), want)


def test_points_differ_in_leaves_only():
    traces = []

    @lm.jit
    def apply(p, ct):
        traces.append(1)
        return p(ct)

    for shift in (0.0, 1.0, 2.0):
        pull = lm.vjp(_f, X + shift, W)[1]
        _same(apply(pull, CT), pull(CT))
    assert len(traces) == 1
    a, b = (lm.tree.tree_structure(lm.vjp(f, X, W)[1]) for f in (_f, lambda x, w: _f(2 * x, w)))
    assert a != b


def test_mapped_functions_return_and_take_them():
    g = lambda x: lnp.sin(x) ** 2  # noqa: E731
    pulls = lm.vmap(lambda x: lm.vjp(g, x)[1])(X)
    _same(lm.vmap(lambda p, ct: p(ct)[0])(pulls, W), lm.vmap(lm.grad(g))(X) * W)
    pushes = lm.jit(lm.vmap(lambda x: lm.linearize(g, x)[1]))(X)
    _same(lm.vmap(_applied)(pushes, W), lm.vmap(lm.grad(g))(X) * W)


def test_carried_through_cond_and_differentiated():
    pull = lm.vjp(_f, X, W)[1]
    chosen = lambda p: lax.cond(p > 0, lambda q: q(CT)[0], lambda q: -q(CT)[0], pull)  # noqa: E731
    _same(lm.jit(chosen)(1.0), pull(CT)[0])
    # by the arrays that it keeps
    d = lm.grad(lambda q: lnp.sum(q(CT)[1]))(pull)
    assert lm.tree.tree_structure(d) == lm.tree.tree_structure(pull)


def test_push_forward():
    value, push = lm.linearize(_f, X, W)
    _, want = lm.jvp(_f, (X, W), (W, X))
    _same(push(W, X), want)
    _same(lm.jit(_applied)(push, W, X), want)
    _same(value, _f(X, W))


def test_auxiliary_results_and_integers():
    _, pull, aux = lm.vjp(lambda x, n: (x * n, x + 1), X, 3, has_aux=True)
    for got in (pull(W), lm.jit(_applied)(pull, W)):
        assert got[1] is None
        _same(got[0], 3 * W)
    _same(aux, X + 1)


def test_what_does_not_fit_is_refused():
    pull = lm.vjp(_f, X, W)[1]
    with pytest.raises(TypeError, match="takes one cotangent, of the structure of its value, not 2"):
        pull(CT, CT)
    with pytest.raises(ValueError, match="does not fit the output of _f"):
        pull(CT["y"])
    with pytest.raises(ValueError, match=r"has type float32\[2\] but its value has float32\[3\]"):
        pull({**CT, "y": lnp.ones(2)})
    with pytest.raises(ValueError, match="tangents do not fit"):
        lm.linearize(_f, X, W)[1](X)
    assert repr(lm.vjp(lnp.sin, X)[1]) == "<pullback of sin at (float32[3])>"


# --- symbolic zeros ---

Zero = lm.custom_derivatives.SymbolicZero


def _product(seen):
    @lm.custom_jvp
    def f(x, y):
        return x * y

    def rule(primals, tangents):
        seen.append("".join("0" if type(t) is Zero else "t" for t in tangents))
        (x, y), (tx, ty) = primals, tangents
        parts = [
            p for p in (type(tx) is not Zero and tx * y, type(ty) is not Zero and x * ty) if p is not False
        ]
        return f(x, y), sum(parts[1:], parts[0]) if parts else Zero(x.shape, x.dtype)

    f.defjvp(rule, symbolic_zeros=True)
    return f


@pytest.mark.parametrize("around", [lambda f: f, lm.jit, lambda f: lm.checkpoint(f)])
def test_a_jvp_rule_is_told_what_is_not_differentiated(around):
    seen = []
    f = around(_product(seen))
    assert float(lm.grad(lambda x: f(x, 3.0))(2.0)) == 3.0
    assert set(seen) == {"t0"}
    seen.clear()
    assert float(lm.jvp(lambda y: f(2.0, y), (3.0,), (1.0,))[1]) == 2.0
    assert set(seen) == {"0t"}
    seen.clear()
    assert [float(g) for g in lm.grad(f, (0, 1))(2.0, 5.0)] == [5.0, 2.0]
    assert set(seen) == {"tt"}


def test_under_vmap_and_scan():
    seen = []
    f = _product(seen)
    _same(lm.grad(lambda x: lnp.sum(lm.vmap(f, (0, None))(x, 3.0)))(X), lnp.full(3, 3.0))
    assert set(seen) == {"t0"}
    step = lambda c, _: (f(c, 2.0), None)  # noqa: E731
    assert float(lm.grad(lambda x: lax.scan(step, x, None, length=3)[0])(1.5)) == 8.0


def _pair(seen):
    @lm.custom_vjp
    def f(x, y):
        return x * y, x + y

    def forward(x, y):
        seen.append((x.perturbed, y.perturbed))
        return (x.value * y.value, x.value + y.value), (x.value, y.value)

    def backward(kept, cotangents):
        seen.append("".join("0" if type(c) is Zero else "c" for c in cotangents))
        (x, y), (a, b) = kept, (0 if type(c) is Zero else c for c in cotangents)
        return a * y + b, a * x + b

    f.defvjp(forward, backward, symbolic_zeros=True)
    return f


def test_a_vjp_rule_is_told_what_matters():
    seen = []
    f = _pair(seen)
    assert float(lm.grad(lambda x: f(x, 3.0)[0])(2.0)) == 3.0
    assert seen == [(True, False), "c0"]
    seen.clear()
    assert [float(g) for g in lm.grad(lambda x, y: lm.jit(f)(x, y)[1], (0, 1))(2.0, 3.0)] == [1.0, 1.0]
    assert seen == [(True, True), "0c"]
    seen.clear()
    _same(lm.grad(lambda x: lnp.sum(lm.vmap(f, (0, None))(x, 3.0)[0]))(X), lnp.full(3, 3.0))
    assert seen == [(True, False), "c0"]


M, AT = lnp.array([[1.0, 2.0, 0.0], [0.0, 1.0, 3.0]]), lnp.array(1.0)
NOT_LINEAR = {
    "sine": lnp.sin,
    "multiply": lambda x: x * x,
    "floor": lambda x: x + lnp.floor(x),
    "sign": lnp.sign,
    "stop_gradient": lambda x: 2 * lax.stop_gradient(x),
    "abs": lnp.abs,
    "divide": lambda x: 1 / x,
    "compare": lambda x: lnp.where(x > 0, x, 2 * x),
    "convert": lambda x: x.astype("int32").astype("float32"),
    "multiply of a loop": lambda x: lax.fori_loop(0, 3, lambda i, c: c * c, x),
    "floor of a jitted one": lm.jit(lnp.floor),
    "exponential of a branch": lambda x: lax.cond(AT > 0, lnp.exp, lambda v: v, x),
    "while": lambda x: lax.while_loop(lambda c: c < 3, lambda c: c * 2, x),
}


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_only_linear_functions_are_transposed(name):
    op = name.split()[0]
    with pytest.raises(
        TypeError, match=rf"linear_transpose of \S+: {op} of its argument is not linear \(recorded at "
    ):
        lm.linear_transpose(NOT_LINEAR[name], AT)


LINEAR = {
    "affine": (lambda x: 2 * x + 1, 2.0),
    "constant": (lambda x: lnp.float32(3.0), 0.0),
    "product": (lambda x: lnp.sum(M @ (x * lnp.arange(3.0))), 9.0),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: c * (i + 1), x), 6.0),
    "loop around a constant": (
        lambda x: lax.fori_loop(0, 3, lambda i, c: (c[0] * c[1], lnp.sqrt(c[1])), (x, lnp.float32(16.0)))[0],
        128.0,
    ),
    "scan": (lambda x: lax.scan(lambda c, a: (c * 2 + a, c), x, lnp.zeros(3))[0], 8.0),
    "scan with a test": (
        lambda x: lax.scan(lambda c, i: (lnp.where(i < 2, 2 * c, c), None), x, lnp.arange(4))[0],
        4.0,
    ),
    "branch": (lambda x: lax.cond(AT > 0, lambda v: 3 * v, lambda v: v, x), 3.0),
    "checkpoint": (lm.checkpoint(lambda x: 3 * x), 3.0),
    "jit": (lm.jit(lambda x: 3 * x), 3.0),
    "write": (lambda x: lnp.sum(lnp.zeros(4).at[1:3].set(x)), 2.0),
}


@pytest.mark.parametrize("name", LINEAR)
def test_transposes_of_linear_functions(name):
    f, want = LINEAR[name]
    assert lm.linear_transpose(f, AT)(1.0)[0].item() == want
    assert lm.jit(lambda ct: lm.linear_transpose(f, AT)(ct)[0])(1.0).item() == want
