"""Which values of a checkpointed function reverse mode keeps, by policy: seen in what the gradient computes twice."""

import functools

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import checkpoint_policies as policies
from lamina import lax

X = lnp.array([[0.3, -0.2], [0.5, 0.9]])


def _f(x):
    a = lm.checkpoint_name(lnp.sin(x), "a")
    b = lnp.dot(a, x)
    c = lm.checkpoint_name(lnp.cos(b), "c")
    return lnp.exp(lnp.sin(c)).sum()


def _counts(policy):
    text = str(lm.make_trace(lm.value_and_grad(lm.checkpoint(_f, policy=policy)))(X))
    return {op: text.count(f" = {op}") for op in ("sin", "cos", "dot_general", "exp")}


def _again(policy):
    """How often each operation is computed besides what the gradient without a checkpoint does."""
    without = str(lm.make_trace(lm.value_and_grad(_f))(X))
    return {op: n - without.count(f" = {op}") for op, n in _counts(policy).items()}


def _offloading(saved, offloaded):
    return policies.save_and_offload_only_these_names(
        names_which_can_be_saved=saved,
        names_which_can_be_offloaded=offloaded,
        offload_src="device",
        offload_dst="pinned_host",
    )


def test_a_name_is_saved_or_offloaded():
    with pytest.raises(ValueError, match="'a' can be saved or offloaded, not both"):
        _offloading(["a", "b"], ["c", "a"])


@pytest.mark.parametrize(
    ("policy", "again"),
    [
        (None, {"sin": 2, "cos": 1, "dot_general": 1}),
        (policies.nothing_saveable, {"sin": 2, "cos": 1, "dot_general": 1}),
        (policies.everything_saveable, {"sin": 0, "cos": 0, "dot_general": 0}),
        (policies.dots_saveable, {"sin": 2, "cos": 1, "dot_general": 0}),
        (policies.save_only_these_names("a"), {"sin": 1, "cos": 1, "dot_general": 1}),
        (policies.save_only_these_names("a", "c"), {"sin": 1, "cos": 0, "dot_general": 1}),
        (policies.save_any_names_but_these("a"), {"cos": 0}),
        (policies.save_anything_except_these_names("a"), {"sin": 1, "cos": 0, "dot_general": 0}),
        (
            policies.offload_dot_with_no_batch_dims("device", "pinned_host"),
            {"sin": 2, "cos": 1, "dot_general": 0},
        ),
        (_offloading(["a"], ["c"]), {"sin": 1, "cos": 0, "dot_general": 1}),
        (lambda primitive, *_, **params: str(primitive) == "cos", {"cos": 0}),
        (
            policies.save_from_both_policies(
                policies.dots_saveable,
                lambda primitive, x, *_, **params: x.ndim == 2 and str(primitive) == "cos",
            ),
            {"cos": 0, "dot_general": 0},
        ),
        (
            lambda primitive, *types, **params: primitive.name == "sin" and types[0].shape == (2, 2),
            {"sin": 0},
        ),
    ],
)
def test_what_is_computed_again(policy, again):
    found = _again(policy)
    assert {op: found[op] for op in again} == again


@pytest.mark.parametrize(
    "policy",
    [
        policies.dots_saveable,
        policies.save_only_these_names("a", "c"),
        policies.save_anything_except_these_names("a"),
        policies.save_from_both_policies(policies.dots_saveable, policies.save_only_these_names("c")),
        policies.dots_with_no_batch_dims_saveable,
    ],
)
def test_derivatives_are_those_without_a_checkpoint(policy):
    g = lm.checkpoint(_f, policy=policy)
    np.testing.assert_array_equal(g(X).numpy(), _f(X).numpy())
    for d in (
        lm.grad,
        lambda f: lm.jit(lm.grad(f)),
        lm.jacfwd,
        lambda f: lm.grad(lambda x: lm.grad(f)(x).sum()),
    ):
        np.testing.assert_allclose(d(g)(X).numpy(), d(_f)(X).numpy(), rtol=2e-5)
    batch = lnp.stack([X, 2 * X])
    np.testing.assert_allclose(
        lm.vmap(lm.grad(g))(batch).numpy(), lm.vmap(lm.grad(_f))(batch).numpy(), rtol=2e-5
    )


def test_a_name_outside_of_a_checkpoint_and_static_arguments():
    assert lm.checkpoint_name({"x": 1.0}, "n")["x"].tolist() == 1.0
    g = lm.checkpoint(lambda n, x: _f(x) * n, policy=policies.dots_saveable, static_argnums=0)
    np.testing.assert_allclose(lm.grad(g, 1)(2, X).numpy(), 2 * lm.grad(_f)(X).numpy(), rtol=1e-6)


def test_arguments_that_what_is_computed_again_need_not_wait_for():
    def layer(w, x, scale=None):
        out = lnp.sin(x @ w["a"] + w["b"][0])
        return out if scale is None else out * scale

    w, x = {"a": X, "b": [X[0] * 2]}, X * 3

    def waiting(guards, policy=None):
        g = lm.checkpoint(layer, prevent_cse=guards, policy=policy)
        slopes = lm.grad(lambda w, x: g(g_w(w), g(w, x)).sum(), (0, 1))
        want = lm.grad(lambda w, x: layer(g_w(w), layer(w, x)).sum(), (0, 1))(w, x)
        for got, value in zip(map(lm.tree.leaves, (slopes(w, x), want)), map(lm.tree.leaves, (want, want))):
            for a, b in zip(got, value, strict=True):
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5)
        text = lm.stablehlo.dumps(lm.jit(slopes).lower(w, x))
        lines = {line.split("optimization_barrier ")[1] for line in text.splitlines() if "_barrier" in line}
        assert len(lines) == 1
        return lines.pop().split(" : ")[0].count("%")

    g_w = lambda w: {"a": w["a"] * 2, "b": w["b"]}  # noqa: E731
    all_of_them = waiting(True)
    assert waiting(False) == all_of_them == 4  # two of w, x and the cotangent
    assert waiting((False, True)) == waiting([False, True]) == 2
    assert waiting(({"a": False, "b": True}, True)) == waiting(({"a": False, "b": [True]}, True)) == 3
    assert waiting((True, False)) == 3 and waiting((False, False)) == 1
    assert waiting((False, True), policies.dots_saveable) <= waiting(True, policies.dots_saveable)

    for wrong, error in {
        (True,): r"prevent_cse has 1 entries, but layer was called with 2 arguments",
        (True, (True,)): r"prevent_cse\[1\] is \(True,\), which does not fit",
        ((True, True), True): r"prevent_cse\[0\] is \(True, True\), .* a dict of 2",
    }.items():
        with pytest.raises(ValueError, match=error):
            lm.checkpoint(layer, prevent_cse=wrong)(w, x)
    with pytest.raises(TypeError, match="prevent_cse is True, False or a tuple"):
        lm.checkpoint(layer, prevent_cse={"w": True})


def test_static_arguments_by_name():
    def f(n, x, *, kind="sum", scale=1.0):
        assert isinstance(n, int) and isinstance(kind, str)
        return getattr(lnp, kind)(lnp.sin(x) ** n) * scale

    for options in ({"static_argnames": ("n", "kind")}, {"static_argnums": 0, "static_argnames": "kind"}):
        g = lm.checkpoint(f, **options, prevent_cse=(True, False))
        for n, named in ((2, {}), (3, {"kind": "mean", "scale": 2.0})):
            assert g(n, X, **named).item() == f(n, X, **named).item()
            got, want = (lm.grad(functools.partial(h, **named), 1)(n, X).numpy() for h in (g, f))
            np.testing.assert_allclose(got, want, rtol=1e-6)
    g = lm.checkpoint(f, static_argnames=("n", "kind"))
    assert lm.grad(lambda x: g(n=2, x=x))(X).tolist() == lm.grad(lambda x: f(2, x))(X).tolist()
    with pytest.raises(ValueError, match="'other' is no parameter of f"):
        lm.checkpoint(f, static_argnames="other")


def test_in_a_scan():
    step = lm.checkpoint(lambda c, x: (lnp.sin(c @ x), None), policy=policies.dots_saveable)
    plain = lambda c, x: (lnp.sin(c @ x), None)  # noqa: E731
    xs = lnp.stack([X] * 3)
    loss = lambda f: lambda c: lax.scan(f, c, xs)[0].sum()  # noqa: E731
    np.testing.assert_allclose(lm.grad(loss(step))(X).numpy(), lm.grad(loss(plain))(X).numpy(), rtol=2e-5)


def test_effects_run_once():
    seen = []

    def f(x):
        lm.debug.callback(seen.append, x)
        return lnp.sin(lnp.sin(x))

    lm.grad(lm.checkpoint(f, policy=lambda primitive, *_, **__: primitive.name == "sin"))(1.0)
    assert len(seen) == 1


def test_names_of_values_made_of_numbers():
    """A number's values are recorded unrounded: the name is of those."""
    named = lambda x: lm.checkpoint_name(lnp.sin(x), "s")  # noqa: E731
    f = lm.checkpoint(lambda x: named(named(x) ** 2), policy=policies.save_only_these_names("s"))
    for x in (1.0, lnp.float32(1.0)):
        program = str(lm.make_trace(lm.linearize(f, x)[1])(1.0))
        assert "cos" in program and " sin " not in program


W = lnp.array([[0.5, -0.3, 0.1], [0.2, 0.4, -0.6], [-0.1, 0.7, 0.3]])


def _layer(w, x):
    return lnp.sin(lnp.dot(lnp.sin(lnp.dot(x, w)), w))


def _scanned(w, x):
    ends, outs = lax.scan(lambda c, s: (_layer(w, c) + s, c * s), x, lnp.arange(4.0))
    return (ends * outs).sum()


def _scanned_backwards(w, x):
    return lax.scan(lambda c, s: (lnp.sin(_layer(w, c)), s), x, lnp.arange(4.0), reverse=True)[0].sum()


def _branched(w, x):
    return lax.cond(x.sum() > 0, lambda x: _layer(w, x), lambda x: lnp.exp(lnp.dot(x, w)), x).sum()


def _called(w, x):
    return lm.jit(_layer)(w, lm.jit(lambda x: lm.jit(_layer)(w, x))(x)).sum()


def _nested(w, x):
    def step(c, s):
        return lax.cond(s > 1, lambda c: _layer(w, c), lambda c: lm.jit(lnp.cos)(lnp.dot(c, w)), c), None

    return lax.scan(step, x, lnp.arange(4.0))[0].sum()


def _with_a_rule(w, x):
    return lax.scan(lambda c, s: (_tripled(lnp.dot(c, w)), s), x, lnp.arange(3.0))[0].sum()


@lm.custom_jvp
def _tripled(x):
    return lnp.sin(x)


_tripled.defjvp(lambda p, t: (lnp.sin(p[0]), 3 * lnp.cos(p[0]) * t[0]))
_INSIDE = (_scanned, _scanned_backwards, _branched, _called, _nested, _with_a_rule)
_COS = lambda primitive, *_, **__: str(primitive) == "cos"  # noqa: E731


@pytest.mark.parametrize("f", _INSIDE, ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "policy",
    [policies.dots_saveable, _COS, lambda *_, **__: True, policies.everything_saveable],
    ids=["dots", "cos", "all", "everything"],
)
def test_derivatives_of_loops_branches_and_calls(f, policy):
    g, x = lm.checkpoint(f, policy=policy), lnp.array([0.3, -0.2, 0.5])
    assert g(W, x).item() == f(W, x).item()
    for d in (
        lm.grad,
        lambda f: lm.jit(lm.grad(f)),
        lambda f: lm.grad(f, 1),
        lm.jacfwd,
        lambda f: lm.grad(lambda w, x: (lm.grad(f)(w, x) * w).sum()),
        lambda f: lambda w, x: lm.vmap(lm.grad(f), (None, 0))(w, lnp.stack([x, -x, 2 * x])),
        lambda f: lambda w, x: lm.grad(lambda w: lm.vmap(f, (None, 0))(w, lnp.stack([x, -x])).sum())(w),
    ):
        np.testing.assert_allclose(d(g)(W, x).numpy(), d(f)(W, x).numpy(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize(
    ("f", "policy", "left"),
    [
        # Of each step two products forward, which are kept, and two back for each (the first of a branch needs one).
        (_scanned, policies.dots_saveable, {"dot_general": 4, "sin": 2, "cos": 2}),
        (_branched, policies.dots_saveable, {"dot_general": 4}),
        (_called, policies.dots_saveable, {"dot_general": 7, "sin": 3, "cos": 4}),
        (_scanned, _COS, {"cos": 0}),
        (_branched, _COS, {"cos": 0, "exp": 1}),
        (_called, _COS, {"cos": 0}),
        (_with_a_rule, _COS, {"cos": 0}),
        (_called, lambda *_, **__: True, {"cos": 0, "sin": 0, "dot_general": 7}),
        (_scanned, lambda *_, **__: True, {"cos": 0, "sin": 0, "dot_general": 4}),
    ],
)
def test_policies_reach_into_loops_branches_and_calls(f, policy, left):
    x = lnp.array([0.3, -0.2, 0.5])
    y, pull = lm.vjp(lambda w: lm.checkpoint(f, policy=policy)(w, x), W)
    text = str(lm.make_trace(pull)(y))
    assert {op: text.count(f" = {op}") for op in left} == left


def test_what_is_kept_of_a_scan_is_kept_as_one_array_per_value():
    x = lnp.array([0.3, -0.2, 0.5])
    held = []
    policy = lambda primitive, *_, **__: held.append(str(primitive)) or str(primitive) == "dot_general"  # noqa: E731
    lm.grad(lm.checkpoint(_scanned, policy=policy))(W, x)
    assert held.count("dot_general") == 2 and "sin" in held and "cos" in held


def test_arguments_are_arrays_under_every_policy():
    for policy in (None, policies.everything_saveable, policies.dots_saveable):
        assert lm.checkpoint(lambda x: x.sum() * 2, policy=policy)(3.0).item() == 6


def _named_layer(c):
    a = lm.checkpoint_name(lnp.sin(c), "a")
    b = lm.checkpoint_name(lnp.cos(a), "b")
    return lnp.exp(lnp.sin(b))


def _named_branch(c, i):
    return lax.cond(i > 0, _named_layer, lambda c: lm.checkpoint_name(lnp.tanh(c), "b"), c), None


def _of_a_batch(f):
    return lambda x: lm.vmap(f)(lnp.stack([x, 2 * x]))


_NAMED = {
    "plain": lambda x: _named_layer(x).sum(),
    "scan": lambda x: lax.scan(lambda c, _: (_named_layer(c), None), x, None, length=3)[0].sum(),
    "outputs": lambda x: lax.scan(lambda c, _: (_named_layer(c), c), x, None, length=3)[1].sum(),
    "fori_loop": lambda x: lax.fori_loop(0, 3, lambda _, c: _named_layer(c), x).sum(),
    "cond": lambda x: lax.cond(
        x.sum() > 0, _named_layer, lambda x: lm.checkpoint_name(lnp.tanh(x), "b"), x
    ).sum(),
    "cond in scan": lambda x: lax.scan(_named_branch, x, lnp.arange(3))[0].sum(),
    "jit": lambda x: lm.jit(_named_layer)(x).sum(),
    "vmap": lambda x: lm.vmap(_named_layer)(x).sum(),
}


@pytest.mark.parametrize(
    ("policy", "sin", "cos", "kept"),
    [  # The pull-back's operations, as JAX has them, of which sin(sin) and cos(cos) are one more each.
        (None, 3, 3, 1),
        (policies.save_only_these_names("a"), 2, 3, 2),
        (policies.save_only_these_names("b"), 3, 2, 2),
        (policies.save_only_these_names("a", "b"), 2, 2, 3),
        (policies.save_any_names_but_these("a"), 3, 2, 2),
    ],
    ids=["none", "a", "b", "a and b", "not a"],
)
@pytest.mark.parametrize("where", _NAMED)
def test_names_are_kept_inside_loops_branches_calls_and_batches(where, policy, sin, cos, kept):
    f, x = _NAMED[where], lnp.array([0.3, -0.2, 0.5])
    g = lm.checkpoint(f, policy=policy)
    y, pull = lm.vjp(g, x)
    text = str(lm.make_trace(pull)(y))
    assert (text.count(" = sin"), text.count(" = cos")) == (sin, cos)
    assert g(x).item() == f(x).item()
    for d in (
        lm.grad,
        lambda f: lm.jit(lm.grad(f)),
        lm.jacfwd,
        lm.hessian,
        lambda f: _of_a_batch(lm.grad(f)),
    ):
        np.testing.assert_allclose(d(g)(x).numpy(), d(f)(x).numpy(), rtol=2e-5, atol=1e-6)
    if where == "plain":
        saved = [described.shape for described, _ in lm.ad_checkpoint.saved_residuals(g, x)]
        assert saved.count((3,)) == kept


def test_a_name_is_the_value_outside_of_checkpoints():
    x = lnp.array([0.3, -0.2, 0.5])
    named = lambda x: lm.checkpoint_name(lnp.sin(x), "s") * x  # noqa: E731
    plain = lambda x: lnp.sin(x) * x  # noqa: E731
    for t in (lambda f: f, lm.jit, lm.vmap, lambda f: lm.grad(lambda x: f(x).sum()), lm.jacfwd):
        np.testing.assert_array_equal(t(named)(x).numpy(), t(plain)(x).numpy())
    assert str(lm.make_trace(named)(x).eqns[1].primitive) == "name"
    assert lm.make_trace(named)(x).eqns[1].params == {"name": "s"}
