"""Which values of a checkpointed function reverse mode keeps, by policy: seen in what the gradient computes twice."""

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
