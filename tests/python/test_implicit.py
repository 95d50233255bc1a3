"""custom_root, custom_linear_solve, iterative solvers and minimize: solutions against NumPy and SciPy, derivatives to
second order against those of lamina.numpy.linalg.solve and of closed forms, in both modes, under jit and vmap.
"""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse.linalg
from lamina import lax
from lamina.scipy.optimize import minimize
from lamina.scipy.sparse import linalg as sparse

RNG = np.random.default_rng(0)
A = RNG.normal(size=(4, 4)) + 4 * np.eye(4)
S = A @ A.T
B = RNG.normal(size=4)


def richardson(matvec, b):
    return lax.fori_loop(0, 400, lambda _, x: x + 0.15 * (b - matvec(x)), lnp.zeros_like(b))


def solved(a, b):
    return lax.custom_linear_solve(lambda x: a @ x, b, richardson, richardson)


def iterative(method, **options):
    return lambda a, b: method(a, b, tol=1e-13, **options)[0]


def cubes(solve):
    return lambda a, b: (solve(a, b) ** 3).sum()


SOLVERS = {
    "custom": (solved, A),
    "cg": (iterative(sparse.cg), S),
    "bicgstab": (iterative(sparse.bicgstab), A),
    "gmres": (iterative(sparse.gmres), A),
    "gmres restarted": (iterative(sparse.gmres, restart=3, maxiter=200), A),
}
DERIVATIVES = {
    "grad": lambda f: lm.grad(f, (0, 1)),
    "jacfwd": lambda f: lm.jacfwd(f, (0, 1)),
    "jit of grad": lambda f: lm.jit(lm.grad(f, (0, 1))),
    "forward over reverse": lambda f: lm.hessian(f, (0, 1)),
    "reverse over reverse": lambda f: lm.jacrev(lm.grad(f, (0, 1)), (0, 1)),
    "forward over forward": lambda f: lm.jacfwd(lm.jacfwd(f, 1), 1),
    "linearize": lambda f: lambda a, b: lm.linearize(f, a, b)[1](0.1 * a, b**2),
}


@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("name", SOLVERS)
def test_derivatives_are_those_of_the_solution(name, derivative):
    solve, a = SOLVERS[name]
    d, a, b = DERIVATIVES[derivative], lnp.array(a), lnp.array(B)
    got, want = (lm.tree.leaves(d(cubes(f))(a, b)) for f in (solve, lnp.linalg.solve))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None)])
@pytest.mark.parametrize("name", ["custom", "gmres"])
def test_lanes_are_solved_together(name, axes):
    solve, a = SOLVERS[name]
    args = (
        a if axes[0] is None else np.stack([a, a.T, a + 0.3]),
        B if axes[1] is None else np.stack([B, 2 * B, B**2]),
    )
    for transform in (lambda f: lm.vmap(lm.grad(f, (0, 1)), axes), lambda f: lm.vmap(f, axes)):
        got, want = (lm.tree.leaves(transform(cubes(f))(*args)) for f in (solve, lnp.linalg.solve))
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-8, atol=1e-9)
    got, want = (
        lm.grad(lambda *a, f=f: lm.vmap(cubes(f), axes)(*a).sum(), (0, 1))(*args)
        for f in (solve, lnp.linalg.solve)
    )
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-8, atol=1e-9)


def test_a_solve_of_containers_with_further_results():
    b = {"x": lnp.ones((2, 2)), "y": lnp.array(3.0)}

    def solve(matvec, b):
        return lm.tree.map(lambda v: v / 2, b), {"calls": 1}

    def f(s):
        out, aux = lax.custom_linear_solve(
            lambda v: lm.tree.map(lambda t: t * s * 2, v),
            b,
            lambda mv, b: (lm.tree.map(lambda v: v / (2 * s), b), {"calls": 1}),
            symmetric=True,
            has_aux=True,
        )
        assert aux["calls"] is not None
        return out["x"].sum() + out["y"]

    x, aux = lax.custom_linear_solve(
        lambda v: lm.tree.map(lambda t: t * 2, v), b, solve, symmetric=True, has_aux=True
    )
    assert x["y"].item() == 1.5 and aux["calls"] == 1
    assert f(1.0).item() == pytest.approx(3.5)
    assert lm.grad(f)(1.0).item() == pytest.approx(-3.5)
    assert lm.grad(lm.grad(f))(1.0).item() == pytest.approx(7.0)


def test_what_does_not_fit_is_refused():
    with pytest.raises(TypeError, match="needs transpose_solve"):
        lm.grad(lambda b: lax.custom_linear_solve(lambda x: 2 * x, b, lambda mv, b: b / 2).sum())(lnp.ones(2))
    with pytest.raises(TypeError, match=r"returned float32\[2\] where float32\[3\] is needed"):
        lax.custom_linear_solve(lambda x: 2 * x, lnp.ones(3), lambda mv, b: b[:2])
    with pytest.raises(TypeError, match="structure"):
        lax.custom_linear_solve(lambda x: 2 * x, lnp.ones(3), lambda mv, b: [b])
    with pytest.raises(TypeError, match="float or complex"):
        lax.custom_linear_solve(lambda x: 2 * x, lnp.arange(3), lambda mv, b: b)
    with pytest.raises(ValueError, match="square matrix"):
        sparse.cg(lnp.ones((2, 3)), lnp.ones(2))
    with pytest.raises(ValueError, match="different structures"):
        sparse.cg(lambda v: v, lnp.ones(2), [lnp.ones(2)])
    with pytest.raises(ValueError, match="solve_method"):
        sparse.gmres(lnp.eye(2), lnp.ones(2), solve_method="fast")


def cube_root(a):
    def newton(f, x):
        return lax.fori_loop(0, 40, lambda _, x: x - f(x) / (3 * x**2), x)

    return lax.custom_root(lambda x: x**3 - a, lnp.ones_like(a), newton, lambda g, y: y / g(lnp.ones_like(a)))


def test_a_root_has_derivatives_of_every_order():
    derivatives = [lambda a: a ** (1 / 3), lambda a: a ** (-2 / 3) / 3, lambda a: -2 / 9 * a ** (-5 / 3)]
    derivatives.append(lambda a: 10 / 27 * a ** (-8 / 3))
    a, f = np.float64(8.0), cube_root
    for d in derivatives:
        x = lnp.array(np.array(a))
        assert f(x).item() == pytest.approx(d(a), rel=1e-12)
        assert lm.jit(f)(x).item() == pytest.approx(d(a), rel=1e-12)
        np.testing.assert_allclose(
            lm.vmap(f)(lnp.array([a, 2 * a, 1.0], "float64")).numpy(),
            d(np.array([a, 2 * a, 1.0])),
            rtol=1e-12,
        )
        f = lm.grad(f)
    forward = cube_root
    for _ in range(3):
        forward = lambda x, g=forward: lm.jvp(g, (x,), (lnp.ones_like(x),))[1]  # noqa: E731
    assert forward(lnp.array(np.array(a))).item() == pytest.approx(derivatives[3](a), rel=1e-12)
    push = lm.linearize(cube_root, lnp.array(np.array(a)))[1]
    assert push(2.0).item() == pytest.approx(2 * derivatives[1](a))


def test_a_solver_of_plain_numbers():
    """Its points and its solution are numbers without a decided type."""

    def bisect(f, _):
        def step(bounds):
            low, high = bounds
            middle = 0.5 * (low + high)
            above = f(middle) > 0
            return lnp.where(above, low, middle), lnp.where(above, middle, high)

        return lax.fori_loop(0, 40, lambda i, b: step(b), (0.0, 100.0))[0]

    root = lambda a: lax.custom_root(lambda y: y**2 - a**3, 1.0, bisect, lambda g, y: y / g(1.0))  # noqa: E731
    for f in (root, lm.jit(root), lambda a: lm.vmap(root)(lnp.stack([a, a]))[0]):
        assert f(5.0).item() == pytest.approx(5**1.5, rel=1e-6)
        assert lm.grad(f)(5.0).item() == pytest.approx(1.5 * 5**0.5, rel=1e-6)
    twice = lambda f, b: b / f(1.0)  # noqa: E731
    half = lambda a: lax.custom_linear_solve(lambda x: a * x, 3.0, twice, twice)  # noqa: E731
    assert half(2.0).item() == 1.5
    assert lm.grad(half)(2.0).item() == pytest.approx(-0.75)
    with pytest.raises(TypeError, match=r"is called with float32\[2\], and is solved for float32\[\]"):
        lm.jit(lambda: lax.custom_root(lambda y: y - 2, 1.0, lambda f, x: f(lnp.ones(2)).sum(), twice))()


def test_a_root_of_several_unknowns():
    """Where the gradient of a convex function is zero; its derivative is that of the minimum."""

    def minimum(a, b):
        f = lm.grad(lambda x: 0.5 * x @ (a @ x) - b @ x + 0.25 * (x**4).sum())

        def newton(f, x):
            return lax.fori_loop(0, 30, lambda _, x: x - lnp.linalg.solve(lm.jacfwd(f)(x), f(x)), x)

        def tangent(g, y):
            return lnp.linalg.solve(lm.jacfwd(g)(y), y)

        return lax.custom_root(f, lnp.zeros_like(b), newton, tangent)

    x = minimum(S, B).numpy()
    np.testing.assert_allclose(S @ x + x**3, B, atol=1e-12)
    jacobian = lm.jacrev(minimum, 1)(S, B).numpy()
    np.testing.assert_allclose(jacobian, np.linalg.inv(S + np.diag(3 * x**2)), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(lm.jacfwd(minimum, 1)(S, B).numpy(), jacobian, rtol=1e-9, atol=1e-12)
    root, aux = lax.custom_root(
        lambda x: x - 2, 0.0, lambda f, x: (x - f(x), {"steps": 1}), lambda g, y: y, has_aux=True
    )
    assert root.item() == 2 and aux["steps"] == 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
@pytest.mark.parametrize("name", ["cg", "bicgstab", "gmres"])
def test_iterative_solvers_find_the_solution(name, dtype):
    a = (S if name == "cg" else A).astype(dtype)
    if dtype == "complex128":
        turned = A + 1j * RNG.normal(size=A.shape)
        a = turned @ turned.conj().T if name == "cg" else turned
    b, tol = B.astype(dtype), 1e-5 if dtype == "float32" else 1e-11
    for extra in ({}, {"M": np.diag(1 / np.diag(a))}, {"x0": np.ones_like(b)}):
        for operator in (lnp.array(a), lambda v: lnp.array(a) @ v):
            x, info = getattr(sparse, name)(operator, lnp.array(b), tol=tol, **extra)
            assert x.dtype == dtype and (info is None or info.item() == 0)
            np.testing.assert_allclose(x.numpy(), np.linalg.solve(a, b), rtol=0, atol=20 * tol)
    assert not getattr(sparse, name)(lnp.array(a), lnp.zeros_like(b))[0].numpy().any()


def test_cg_takes_the_steps_of_scipy():
    """One step each, so that the iterates themselves are compared."""
    for steps in (1, 2, 3):
        want, _ = scipy.sparse.linalg.cg(S, B, rtol=1e-14, maxiter=steps)
        got, _ = sparse.cg(lnp.array(S), lnp.array(B), tol=1e-14, maxiter=steps)
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-10)


def test_linear_maps_of_containers():
    tree = {"a": lnp.ones((2, 3)), "b": lnp.array(4.0)}
    for method in (sparse.cg, sparse.bicgstab, sparse.gmres):
        x, _ = method(lambda t: lm.tree.map(lambda v: 2 * v, t), tree)
        assert x["a"].shape == (2, 3) and x["b"].item() == pytest.approx(2.0)


def test_a_rule_that_calls_its_own_linear_function():
    """Its transpose is another function, which must not be given the rule."""
    m = np.array([[1.0, 2.0], [3.0, 4.0]])

    @lm.custom_jvp
    def f(x):
        return m @ x

    f.defjvp(lambda p, t: (f(p[0]), f(t[0])))
    x = np.array([1.0, 2.0])
    got, want = (
        lm.jacrev(lm.grad(lambda x, g=g: (g(x) ** 3).sum()))(x).numpy() for g in (f, lambda x: m @ x)
    )
    np.testing.assert_allclose(got, want)


def test_linearize_of_a_rule_that_uses_the_point():
    @lm.custom_jvp
    def f(x, y):
        return x * y

    f.defjvp(lambda p, t: (f(*p), f(p[0], t[1]) + lm.jvp(lambda x: x * p[1], (p[0],), (t[0],))[1]))
    assert lm.linearize(f, 3.0, 2.0)[1](1.0, 5.0).item() == 17


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def himmelblau(x):
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


def matyas(x):
    return 0.26 * (x[0] ** 2 + x[1] ** 2) - 0.48 * x[0] * x[1]


@pytest.mark.parametrize(
    ("f", "start"),
    [
        (rosenbrock, np.zeros(2)),
        (rosenbrock, np.array([-1.2, 1.0, 0.3, 2.0, -0.5])),
        (himmelblau, np.ones(2)),
        (matyas, np.ones(2)),
    ],
)
def test_minimize_finds_the_minimum_of_scipy(f, start):
    want = scipy.optimize.minimize(f, start, method="BFGS", options={"gtol": 1e-7})
    for run in (minimize, lm.jit(minimize, static_argnames=("fun", "method"))):
        got = run(f, lnp.array(start), method="BFGS", tol=1e-7)
        assert got.success.item() and got.status.item() == 0
        assert np.abs(got.jac.numpy()).max() < 1e-7
        np.testing.assert_allclose(got.x.numpy(), want.x, atol=2e-5)
        assert got.nfev.item() <= 2 * want.nfev and got.nit.item() <= 2 * want.nit


def test_minimize_of_lanes_and_what_it_refuses():
    starts = lnp.array([[0.0, 0.0], [1.0, 2.0], [-1.0, 1.5]])
    np.testing.assert_allclose(
        lm.vmap(lambda x: minimize(rosenbrock, x, method="BFGS").x)(starts).numpy(),
        np.ones((3, 2)),
        atol=1e-2,
    )
    stopped = minimize(rosenbrock, lnp.zeros(2), method="BFGS", options={"maxiter": 2})
    assert stopped.status.item() == 1 and not stopped.success.item() and stopped.nit.item() == 2
    with pytest.raises(ValueError, match="'BFGS'"):
        minimize(rosenbrock, lnp.zeros(2), method="Powell")
    with pytest.raises(ValueError, match="1-d float array"):
        minimize(rosenbrock, lnp.zeros((2, 2)), method="BFGS")
    with pytest.raises(TypeError, match="args is a tuple"):
        minimize(rosenbrock, lnp.zeros(2), 3.0, method="BFGS")
