"""lamina.numpy.linalg and lamina.lax.linalg: values against NumPy, derivatives against finite differences to second
order in both modes, vmap against a loop and jit against plain code bit by bit."""

import functools
import os
import subprocess
import sys

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
import scipy.linalg
from lamina import lax
from lamina.test_util import check_grads

la = lnp.linalg
# Elementwise ops up to 4, own routines up to 64 (of complex matrices, and but for elimination and eigenvalues of
# symmetric ones, up to 31), LAPACK beyond.
SIZES = (1, 2, 3, 4, 5, 9, 40, 66)


def matrix(rng, shape, kind):
    a = rng.normal(size=shape)
    return a + 1j * rng.normal(size=shape) if kind == "c" else a


def adjoint(a):
    return np.swapaxes(np.conj(a), -1, -2)


def positive(rng, shape, kind):
    a = matrix(rng, shape, kind)
    return a @ adjoint(a) + shape[-1] * np.eye(shape[-1])


def close(x, want, tolerance=1e-9):
    x = np.asarray(x)
    assert x.shape == np.shape(want)
    assert x.dtype.kind == np.asarray(want).dtype.kind
    np.testing.assert_allclose(
        x, want, rtol=tolerance, atol=tolerance * max(1.0, np.abs(want).max(initial=0))
    )


@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("n", SIZES)
def test_determinants_that_are_zero_have_no_sign(n, kind):
    a = -np.eye(n, dtype=kind + "8" if kind == "f" else "c16")
    for singular in (0 * a, a * (np.arange(n) != n - 1), a * (np.arange(n) != 0)):
        for x in (la.det(singular), la.slogdet(singular).sign):
            parts = np.atleast_1d(np.asarray(x)).view(np.float64)
            assert (parts == 0).all() and not np.signbit(parts).any()
        assert la.slogdet(singular).logabsdet.item() == -np.inf


@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("outer", [(), (2, 3)])
@pytest.mark.parametrize("n", SIZES)
def test_square_matrices_give_numpy_values(n, outer, kind):
    rng = np.random.default_rng(n)
    a, spd = matrix(rng, (*outer, n, n), kind), positive(rng, (*outer, n, n), kind)
    b = matrix(rng, (*outer, n, 2), kind)
    x, s = lnp.asarray(a), lnp.asarray(spd)
    close(la.cholesky(s), np.linalg.cholesky(spd))
    close(la.cholesky(s, upper=True), adjoint(np.linalg.cholesky(spd)))
    close(la.solve(x, b), np.linalg.solve(a, b), 1e-8)
    close(la.inv(x), np.linalg.inv(a), 1e-8)
    close(la.det(x), np.linalg.det(a))
    for mine, theirs in zip(la.slogdet(x), np.linalg.slogdet(a)):
        close(mine, theirs)
    for mine, theirs in zip(la.qr(x), np.linalg.qr(a)):
        close(mine, theirs)
    w, v = la.eigh(s)
    close(w, np.linalg.eigvalsh(spd))
    close(la.eigvalsh(s), np.linalg.eigvalsh(spd))
    close(s @ v, np.asarray(v) * np.asarray(w)[..., None, :])
    u, sizes, vh = la.svd(x)
    close(sizes, np.linalg.svd(a)[1])
    close(la.svdvals(x), np.linalg.svd(a)[1])
    close((np.asarray(u) * np.asarray(sizes)[..., None, :]) @ np.asarray(vh), a)
    w, v = la.eig(x)
    assert w.dtype == v.dtype == "complex128"
    np.testing.assert_allclose(
        np.sort_complex(np.asarray(w)), np.sort_complex(np.linalg.eigvals(a)), atol=1e-8 * n
    )
    np.testing.assert_allclose(
        np.sort_complex(np.asarray(la.eigvals(x))), np.sort_complex(np.linalg.eigvals(a)), atol=1e-8 * n
    )
    np.testing.assert_allclose(np.asarray(x @ v), np.asarray(v) * np.asarray(w)[..., None, :], atol=1e-8 * n)
    close(la.pinv(x), np.linalg.pinv(a), 1e-7)
    for power in (-2, -1, 0, 1, 3):
        close(la.matrix_power(x, power), np.linalg.matrix_power(a, power), 1e-6)


@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (40, 20), (20, 40), (1, 4), (4, 1), (6, 2), (2, 6)])
def test_rectangular_matrices_give_numpy_values(shape, kind):
    rng = np.random.default_rng(1)
    a = matrix(rng, shape, kind)
    x, k = lnp.asarray(a), min(shape)
    for mode in ("reduced", "complete"):
        q, r = la.qr(x, mode)
        assert q.shape == np.linalg.qr(a, mode)[0].shape
        close(np.abs(np.asarray(r)), np.abs(np.linalg.qr(a, mode)[1]))
        close(q @ r, a)
        close(adjoint(np.asarray(q)) @ np.asarray(q), np.eye(q.shape[1]).astype(a.dtype))
    close(la.qr(x, "r"), np.linalg.qr(a, "r"))
    for mine, theirs in zip(la.qr(x, "raw"), np.linalg.qr(a, "raw")):
        close(mine, theirs)
    for full in (True, False):
        u, s, vh = (np.asarray(v) for v in la.svd(x, full_matrices=full))
        assert u.shape == np.linalg.svd(a, full)[0].shape and vh.shape == np.linalg.svd(a, full)[2].shape
        close((u[:, :k] * s) @ vh[:k], a)
        close(adjoint(u) @ u, np.eye(u.shape[1]).astype(a.dtype))
        close(vh @ adjoint(vh), np.eye(len(vh)).astype(a.dtype))
    close(la.pinv(x), np.linalg.pinv(a))
    b = matrix(rng, (shape[0], 2), kind)
    for right in (b, b[:, 0]):
        mine = la.lstsq(x, right, numpy_resid=True)
        for got, want in zip(mine, np.linalg.lstsq(a, right, rcond=None)):
            if np.ndim(right) == 2 or np.size(want) != 1 or np.ndim(want) == 0:
                close(got, np.asarray(want, got.dtype))
    assert int(la.matrix_rank(x)) == k


def test_ranks_conditions_and_products_are_numpys():
    rng = np.random.default_rng(2)
    a = rng.normal(size=(4, 4))
    low = np.outer(a[0], a[1])
    assert int(la.matrix_rank(low)) == 1
    assert int(la.matrix_rank(low + low.T, hermitian=True)) == np.linalg.matrix_rank(
        low + low.T, hermitian=True
    )
    assert int(la.matrix_rank(np.zeros((3, 3)))) == 0 and int(la.matrix_rank(a[0])) == 1
    for p in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro"):
        close(la.cond(a, p), np.linalg.cond(a, p), 1e-8)
    assert np.isinf(float(la.cond(lnp.zeros((2, 2)), 1))) and np.isinf(float(la.cond(lnp.zeros((2, 2)))))
    parts = [rng.normal(size=s) for s in ((3,), (3, 5), (5, 2), (2, 7), (7,))]
    close(la.multi_dot(parts), np.linalg.multi_dot(parts))
    close(la.multi_dot(parts[1:4]), np.linalg.multi_dot(parts[1:4]))
    t = rng.normal(size=(4, 6, 8, 3))
    close(la.tensorinv(t, 2), np.linalg.tensorinv(t, 2), 1e-7)
    close(la.tensorsolve(t, t[:, :, 0, 0]), np.linalg.tensorsolve(t, t[:, :, 0, 0]), 1e-7)
    close(la.trace(t), np.linalg.trace(t))
    close(la.diagonal(t, offset=1), np.linalg.diagonal(t, offset=1))
    close(la.outer(a[0], a[1]), np.linalg.outer(a[0], a[1]))
    close(la.cross(a[:, :3], a[:, 1:]), np.linalg.cross(a[:, :3], a[:, 1:]))
    close(la.vecdot(a, a), np.linalg.vecdot(a, a))
    close(la.matrix_transpose(t), np.linalg.matrix_transpose(t))
    close(la.tensordot(a, a, axes=1), np.linalg.tensordot(a, a, axes=1))


@pytest.mark.parametrize("kind", ["f", "c"])
def test_norms_are_numpys(kind):
    rng = np.random.default_rng(3)
    a = matrix(rng, (3, 4, 5), kind)
    for order in (None, 2, 1, 0, 3, 0.5, -1, -2.5, np.inf, -np.inf):
        for keepdims in (False, True):
            close(la.norm(a, order, 1, keepdims), np.linalg.norm(a, order, 1, keepdims))
            close(la.norm(a[0, 0], order), np.linalg.norm(a[0, 0], order))
            ord2 = 2 if order is None else order
            close(
                la.vector_norm(a, axis=(0, 2), ord=ord2, keepdims=keepdims),
                np.linalg.vector_norm(a, axis=(0, 2), ord=ord2, keepdims=keepdims),
            )
    for order in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        for axes in ((0, 1), (2, 0), (-1, -2)):
            for keepdims in (False, True):
                close(la.norm(a, order, axes, keepdims), np.linalg.norm(a, order, axes, keepdims))
        close(la.norm(a[0], order), np.linalg.norm(a[0], order))
        if order is not None:
            close(la.matrix_norm(a, ord=order), np.linalg.matrix_norm(a, ord=order))
    close(la.norm(a), np.linalg.norm(a))
    for bad in ("fro", "x"):
        with pytest.raises(ValueError, match="order"):
            la.norm(a, bad, 1)
    with pytest.raises(ValueError, match="order"):
        la.norm(a, 3, (0, 1))
    with pytest.raises(ValueError, match="same"):
        la.norm(a, None, (1, 1))


def test_the_norm_has_its_derivative():
    np.testing.assert_allclose(np.asarray(lm.grad(la.norm)(lnp.array([3.0, 4.0]))), [0.6, 0.8], rtol=1e-6)
    np.testing.assert_allclose(np.asarray(lm.grad(la.norm)(lnp.zeros(3))), 0)
    z = lnp.array([[1.0, 2.0], [3.0, 5.0]])
    for f in (lambda x: la.norm(x, "nuc"), lambda x: la.norm(x, 2), la.norm):
        assert np.isfinite(np.asarray(lm.grad(f)(z))).all()


# --- derivatives ---


def apart(rng, shape, kind):
    """A matrix with singular values that are well apart."""
    u, s, vh = np.linalg.svd(matrix(rng, shape, kind), full_matrices=False)
    return (u * np.arange(1, s.shape[-1] + 1)) @ vh


def real_sum(x, weights):
    """A real number that depends on all of x."""
    x = lnp.asarray(x)
    if x.dtype.kind == "c":
        return lnp.sum(lnp.real(x) * weights + lnp.imag(x) * np.cos(weights))
    return lnp.sum(x * weights)


def hermitian_part(x):
    return (x + lnp.conj(lnp.swapaxes(x, -1, -2))) / 2


def projectors(v):
    """The vectors of v without their phases."""
    return lnp.einsum("ij,kj->jik", v, lnp.conj(v))


# name -> (function of matrices, maker); functions of vectors are of what no phase changes.
DERIVATIVES = {
    "cholesky": (la.cholesky, positive),
    "cholesky upper": (lambda x: la.cholesky(x, upper=True), positive),
    "solve": (lambda x: la.solve(x, x[:, :2] * 2 + 1), matrix),
    "solve vector": (lambda x: la.solve(x, x[0]), matrix),
    "inv": (la.inv, matrix),
    "det": (la.det, matrix),
    "slogdet": (lambda x: la.slogdet(x)[1], matrix),
    "sign": (lambda x: la.slogdet(x)[0], matrix),
    "qr": (lambda x: lnp.concatenate(la.qr(x), 0), matrix),
    "eigvalsh": (la.eigvalsh, positive),
    "eigh": (lambda x: la.eigh(x)[0], positive),
    "eigh vectors": (lambda x: projectors(la.eigh(x)[1]), positive),
    "svdvals": (la.svdvals, apart),
    "svd left": (lambda x: projectors(la.svd(x, full_matrices=False)[0]), apart),
    "svd right": (lambda x: projectors(adjoint_of(la.svd(x, full_matrices=False)[2])), apart),
    "svd": (lambda x: sandwich(*la.svd(x, full_matrices=False)), apart),
    "pinv": (la.pinv, apart),
    "lstsq": (lambda x: la.lstsq(x, x[:, :2] ** 2)[0], apart),
    "eigvals": (lambda x: lnp.sum(la.eigvals(x) ** 3), matrix),
    "eig": (lambda x: eig_function(*la.eig(x)), matrix),
    "matrix_power": (lambda x: la.matrix_power(x, 3), matrix),
    "norm": (la.norm, matrix),
    "norm 3": (lambda x: la.norm(x, 3, 0), matrix),
    "norm nuc": (lambda x: la.norm(x, "nuc"), apart),
    "norm 2": (lambda x: la.norm(x, 2), apart),
    "cond": (la.cond, apart),
    "lu": (lambda x: lm.lax.linalg.lu(x)[0], matrix),
    "triangular": (lambda x: lm.lax.linalg.triangular_solve(x, x[:2], lower=True, transpose_a=True), matrix),
    "triangular unit": (
        lambda x: lm.lax.linalg.triangular_solve(x, x[:, :2], left_side=True, unit_diagonal=True),
        matrix,
    ),
}


def adjoint_of(x):
    return lnp.conj(lnp.swapaxes(x, -1, -2))


def sandwich(u, s, vh):
    """A function of a matrix through its singular values, with another one applied to them."""
    return (u * lnp.exp(s / 4).astype(u.dtype)) @ vh


def eig_function(w, v):
    return (v * lnp.exp(w / 4)) @ la.inv(v)


def check_derivatives(f, x, tolerance=2e-5):
    """First and second derivatives of a real function of one array, forward and reverse, along random directions."""
    rng = np.random.default_rng(7)
    kind = "c" if np.iscomplexobj(x) else "f"
    t, s = matrix(rng, x.shape, kind), matrix(rng, x.shape, kind)
    step = 1e-5

    def along(g, at, d):
        ahead, behind = (np.asarray(g(lnp.asarray(at + h * d))) for h in (step, -step))
        return (ahead - behind) / (2 * step)

    first = lambda y: lm.jvp(f, (y,), (lnp.asarray(t),))[1]  # noqa: E731
    close(first(lnp.asarray(x)), along(f, x, t), tolerance)
    value, back = lm.vjp(f, lnp.asarray(x))
    (ct,) = back(lnp.ones_like(value))
    close(lnp.sum(lnp.real(ct * t)), along(f, x, t), tolerance)
    close(lm.jvp(first, (lnp.asarray(x),), (lnp.asarray(s),))[1], along(first, x, s), tolerance)
    _, back = lm.vjp(first, lnp.asarray(x))
    (ct,) = back(lnp.ones_like(value))
    close(lnp.sum(lnp.real(ct * s)), along(first, x, s), tolerance)


@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("n", [3, 6])
@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_to_second_order(name, n, kind):
    function, make = DERIVATIVES[name]
    if kind == "f" and name == "sign":
        return
    if kind == "c" and name == "norm 3":
        pytest.skip("a real function of real arrays is enough")
    rng = np.random.default_rng(n)
    x = make(rng, (n, n), kind)
    shape = function(lnp.asarray(x)).shape
    weights = np.random.default_rng(11).normal(size=shape)
    check_derivatives(lambda y: real_sum(function(y), weights), x)


@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5)])
@pytest.mark.parametrize("name", ["qr", "svdvals", "svd left", "svd right", "svd", "pinv", "lstsq", "lu"])
def test_derivatives_of_rectangular_matrices(name, shape, kind):
    function, make = DERIVATIVES[name]
    if name == "qr":
        function = lambda x: lnp.concatenate([lnp.ravel(v) for v in la.qr(x)])  # noqa: E731
    x = make(np.random.default_rng(5), shape, kind)
    weights = np.random.default_rng(11).normal(size=function(lnp.asarray(x)).shape)
    check_derivatives(lambda y: real_sum(function(y), weights), x)


@pytest.mark.parametrize("n", [2, 3, 4, 6, 33])
def test_the_determinant_has_its_derivative_at_singular_matrices(n):
    rng = np.random.default_rng(n)
    a = rng.normal(size=(n, n)) / np.sqrt(n)
    a[-1] = a[0] if n > 2 else 0
    cofactors = np.array(
        [
            [(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(n)]
            for i in range(n)
        ]
    )
    close(lm.grad(la.det)(lnp.asarray(a)), cofactors, 1e-10)


@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("shape", [(5, 3), (4, 1), (40, 33), (2, 4, 2), (3, 5), (4, 4)])
def test_complete_qr_has_derivatives(shape, kind):
    rng = np.random.default_rng(3)
    a, t = matrix(rng, shape, kind), matrix(rng, shape, kind)
    f = lambda x: la.qr(x, "complete")  # noqa: E731
    step = 1e-6
    (q, r), (dq, dr) = lm.jvp(f, (a,), (t,))
    after, before = f(a + step * t), f(a - step * t)
    for slope, high, low in zip((dq, dr), after, before, strict=True):
        np.testing.assert_allclose(
            np.asarray(slope), (np.asarray(high) - np.asarray(low)) / (2 * step), rtol=1e-6, atol=2e-8
        )
    np.testing.assert_allclose(np.asarray(dq @ r + q @ dr), t, atol=1e-12)
    turn = adjoint(np.asarray(q)) @ np.asarray(dq)
    np.testing.assert_allclose(turn, -adjoint(turn), atol=1e-12)
    if a.size < 30:
        w = rng.normal(size=q.shape)
        loss = lambda x: (lnp.abs(f(x)[0]) * w).sum() + lnp.abs(f(x)[1]).sum()  # noqa: E731
        check_grads(loss, (a,), order=2, modes=["fwd", "rev"])


def test_what_has_no_derivative_says_why():
    x = lnp.asarray(np.random.default_rng(0).normal(size=(5, 3)))
    with pytest.raises(NotImplementedError, match="full_matrices=False"):
        lm.grad(lambda y: la.svd(y)[0].sum())(x)


def test_symmetric_problems_give_symmetric_gradients():
    spd = lnp.asarray(positive(np.random.default_rng(0), (5, 5), "f"))
    for f in (lambda x: la.cholesky(x).sum(), lambda x: la.eigvalsh(x)[0]):
        g = np.asarray(lm.grad(f)(spd))
        np.testing.assert_allclose(g, g.T, atol=1e-12)


# --- paths ---

PATHS = {
    "cholesky": lambda x: la.cholesky(x @ adjoint_of(x) + 1e-3 * lnp.eye(x.shape[-1], dtype=x.dtype)),
    "solve": lambda x: la.solve(x, x[:, :2]),
    "inv": la.inv,
    "det": la.det,
    "slogdet": la.slogdet,
    "qr": la.qr,
    "eigh": lambda x: la.eigh(hermitian_part(x)),
    "svd": la.svd,
    "eig": la.eig,
    "pinv": la.pinv,
    "lu": lm.lax.linalg.lu,
}


def bits(tree):
    return [np.asarray(x).tobytes() for x in lm.tree.tree_leaves(tree)]


def lanes(tree, count):
    """The bits of each lane of a batched result."""
    return [[np.asarray(x)[i].tobytes() for x in lm.tree.tree_leaves(tree)] for i in range(count)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("n", [3, 6, 34])
@pytest.mark.parametrize("name", PATHS)
def test_vmap_is_a_loop_and_jit_is_plain_code_bit_by_bit(name, n, dtype):
    f = PATHS[name]
    x = lnp.asarray(matrix(np.random.default_rng(n), (3, n, n), dtype[0]).astype(dtype))
    loop = [bits(f(y)) for y in x]
    assert lanes(lm.vmap(f)(x), 3) == loop
    assert lanes(lm.jit(lm.vmap(f))(x), 3) == loop
    jitted = lm.jit(f)
    assert [bits(jitted(y)) for y in x] == loop


def test_vmap_over_one_operand_is_a_loop():
    rng = np.random.default_rng(0)
    for n in (3, 6):
        a, b = lnp.asarray(rng.normal(size=(4, n, n))), lnp.asarray(rng.normal(size=(4, n)))
        for f in (la.solve, lm.grad(lambda x, y: la.solve(x, y).sum(), argnums=(0, 1))):
            for axes in ((None, 0), (0, None)):
                out = lm.vmap(f, in_axes=axes)(a[0] if axes[0] is None else a, b[0] if axes[1] is None else b)
                for i in range(4):
                    want = f(a[0] if axes[0] is None else a[i], b[0] if axes[1] is None else b[i])
                    assert lanes(out, 4)[i] == bits(want)


@pytest.mark.parametrize("n", [3, 6])
def test_gradients_under_vmap_and_jit(n):
    x = lnp.asarray(np.random.default_rng(0).normal(size=(3, n, n)))
    for name in ("solve", "cholesky", "det", "eigh", "svd", "qr"):
        f = PATHS[name]
        total = lambda y: sum(lnp.sum(lnp.real(v)) for v in lm.tree.tree_leaves(f(y)))  # noqa: B023, E731
        g = lm.grad(total)
        loop = [bits(g(y)) for y in x]
        assert [bits(v) for v in lm.vmap(g)(x)] == loop
        assert [bits(v) for v in lm.jit(lm.vmap(g))(x)] == loop


# --- edges ---


def test_empty_and_single_matrices():
    e = lnp.zeros((0, 0))
    for f in (la.inv, la.cholesky, la.pinv, lambda x: la.solve(x, lnp.zeros((0, 2))), la.eigvals, la.svdvals):
        assert np.asarray(f(e)).size == 0
    assert float(la.det(e)) == 1
    assert [float(v) for v in la.slogdet(e)] == [1, 0]
    assert la.eigh(e)[1].shape == (0, 0) and la.qr(lnp.zeros((3, 0)))[0].shape == (3, 0)
    assert la.svd(lnp.zeros((3, 0)))[0].shape == (3, 3) and la.svd(lnp.zeros((0, 3)))[2].shape == (3, 3)
    assert la.inv(lnp.zeros((0, 3, 3))).shape == (0, 3, 3) and la.inv(lnp.zeros((0, 9, 9))).shape == (0, 9, 9)
    assert float(la.norm(lnp.zeros(0))) == 0
    assert la.svdvals(lnp.zeros((0, 7, 5))).shape == (0, 5)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("n", [2, 6, 40])
def test_not_a_number_stays_one(n, bad):
    a = np.eye(n)
    a[0, 0] = bad
    x = lnp.asarray(a)
    for f in (la.svdvals, la.eigvals, la.eigvalsh, la.pinv):
        assert np.isnan(np.asarray(f(x))).any()
    if np.isnan(bad):
        for f in (la.cholesky, la.inv, la.det, lambda y: la.solve(y, lnp.ones(n)), lambda y: la.qr(y)[1]):
            assert np.isnan(np.asarray(f(x))).any()
    lanes = np.asarray(la.inv(lnp.stack([x, lnp.eye(n, dtype="float64")])))
    np.testing.assert_array_equal(lanes[1], np.eye(n))


@pytest.mark.parametrize("kind", ["float64", "complex128"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("n", [2, 6, 40])
def test_cholesky_factors_of_what_has_none_as_it_is_not_finite(n, bad, kind):
    for place in ((n - 1, 0), (n // 2, n // 2), (n - 1, n - 1))[: 3 if np.isnan(bad) else 1]:
        a = (2 * n * np.eye(n) + 1).astype(kind)
        a[place] = bad
        factor = np.asarray(la.cholesky(lnp.asarray(a), symmetrize_input=False))
        assert np.isnan(factor[np.tril_indices(n)]).all()


@pytest.mark.parametrize("n", [2, 6, 40])
def test_matrices_without_a_factor_or_solution(n):
    assert np.isnan(np.asarray(la.cholesky(-lnp.eye(n)))[np.tril_indices(n)]).all()
    zero = lnp.zeros((n, n))
    assert float(la.det(zero)) == 0
    assert [float(v) for v in la.slogdet(zero)] == [0, -np.inf]
    assert not np.isfinite(np.asarray(la.inv(zero))).any()


@pytest.mark.parametrize("scale", [1e-200, 1e200])
@pytest.mark.parametrize("n", [3, 8, 40])
def test_large_and_small_numbers(n, scale):
    a = np.random.default_rng(0).normal(size=(n, n))
    x = lnp.asarray(a * scale)
    close(la.svdvals(x) / scale, np.linalg.svd(a)[1], 1e-10)
    close(la.eigvalsh(x) / scale, np.linalg.eigvalsh((a + a.T) / 2), 1e-10)
    close(la.qr(x)[1] / scale, np.linalg.qr(a)[1], 1e-10)
    close(la.inv(x) * scale, np.linalg.inv(a), 1e-7)


def test_element_types():
    i = lnp.array([[2, 1], [1, 3]])
    assert la.inv(i).dtype == "float32" and la.det(i).dtype == "float32"
    h = lnp.eye(6, dtype="float16") * 2
    for f in (la.inv, la.cholesky, la.det, la.svdvals, la.eigvalsh, la.pinv):
        assert f(h).dtype == "float16"
    assert la.eigvals(i).dtype == "complex64"
    assert la.norm(lnp.array([3, 4])).dtype == "float32"


def test_shapes_that_do_not_fit_raise():
    x = lnp.ones((2, 3))
    for f in (
        la.inv,
        la.det,
        la.cholesky,
        la.eigh,
        la.eig,
        lambda v: la.solve(v, v),
        lambda v: la.matrix_power(v, 2),
    ):
        with pytest.raises(la.LinAlgError, match="square"):
            f(x)
    for f in (la.inv, la.qr, la.svd):
        with pytest.raises(ValueError, match="2 dimensions"):
            f(lnp.ones(3))
    with pytest.raises(ValueError, match="fit"):
        la.solve(lnp.eye(3), lnp.ones((2, 2)))
    with pytest.raises(ValueError, match="mode"):
        la.qr(x, "full")
    with pytest.raises(ValueError, match="UPLO"):
        la.eigh(lnp.eye(2), "X")


def test_householder_products():
    rng = np.random.default_rng(0)
    import scipy.linalg

    a = rng.normal(size=(6, 4))
    (packed, taus), _ = scipy.linalg.qr(a, mode="raw")
    q = lm.lax.linalg.householder_product(packed, taus)
    close(q, scipy.linalg.qr(a, mode="economic")[0])
    full = scipy.linalg.qr(a)[0]
    c = rng.normal(size=(6, 6))
    close(lm.lax.linalg.ormqr(packed, taus, c), full @ c)
    close(lm.lax.linalg.ormqr(packed, taus, c, left=False, transpose=True), c @ full.T)


def test_pivots_and_orders():
    a = np.random.default_rng(0).normal(size=(3, 6, 6))
    packed, pivots, order = lm.lax.linalg.lu(a)
    assert np.array_equal(lm.lax.linalg.lu_pivots_to_permutation(pivots, 6), order)
    lower = np.tril(np.asarray(packed), -1) + np.eye(6)
    taken = np.take_along_axis(a, np.asarray(order)[..., None], 1)
    np.testing.assert_allclose(lower @ np.triu(np.asarray(packed)), taken, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_a_singular_tridiagonal_system_may_be_perturbed(dtype):
    zero, one = np.zeros((2, 3), dtype), np.ones((2, 3), dtype)
    b = np.ones((2, 3, 1), dtype)
    d = np.stack([one[0] * 0, np.array([2, 3, 4], dtype)])
    solve = lm.lax.linalg.tridiagonal_solve
    assert not np.isfinite(solve(zero, d, zero, b)[0]).any()
    x = solve(zero, d, zero, b, perturb_singular=True)
    assert np.isfinite(x).all()
    np.testing.assert_array_equal(x[1], solve(zero, d, zero, b)[1])


def test_triangular_systems_of_vectors_and_of_matrices_for_every_system():
    rng = np.random.default_rng(0)
    a = np.tril(rng.normal(size=(3, 4, 4))) + 5 * np.eye(4)
    b, v = rng.normal(size=(4, 2)), rng.normal(size=(3, 4))
    close(
        lm.scipy.linalg.solve_triangular(a, b, lower=True), np.linalg.solve(a, np.broadcast_to(b, (3, 4, 2)))
    )
    close(lm.scipy.linalg.solve_triangular(a, v, lower=True), np.linalg.solve(a, v[..., None])[..., 0])
    solve = functools.partial(lm.lax.linalg.triangular_solve, lower=True)
    close(solve(a, v, left_side=True), np.linalg.solve(a, v[..., None])[..., 0])
    close(solve(a, v), np.linalg.solve(np.swapaxes(a, -1, -2), v[..., None])[..., 0])
    close(solve(a[0], v[0]), np.linalg.solve(a[0].T, v[0]))


def test_tridiagonal_systems():
    rng = np.random.default_rng(0)
    dl, d, du = rng.normal(size=(3, 2, 7))
    d = d + 5
    b = rng.normal(size=(2, 7, 3))
    x = lm.lax.linalg.tridiagonal_solve(dl, d, du, b)
    for i in range(2):
        m = np.diag(d[i]) + np.diag(dl[i, 1:], -1) + np.diag(du[i, :-1], 1)
        np.testing.assert_allclose(m @ np.asarray(x)[i], b[i], atol=1e-12)


@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("n", [1, 2, 3, 30])
def test_tridiagonal_systems_that_need_pivots(n, kind):
    rng = np.random.default_rng(n)
    dl, d, du = (matrix(rng, (2, n), kind) for _ in range(3))
    d[:, : n // 2] = 0
    b = matrix(rng, (2, n, 3), kind)
    x = np.asarray(lm.lax.linalg.tridiagonal_solve(dl, d, du, b))
    for i in range(2):
        m = np.diag(d[i]) + np.diag(dl[i, 1:], -1) + np.diag(du[i, :-1], 1)
        np.testing.assert_allclose(x[i], np.linalg.solve(m, b[i]), rtol=1e-8, atol=1e-8)


def test_a_tridiagonal_system_whose_elimination_meets_zero():
    dl, d, du = np.array([[0, 2, -2, 3], [1, 4, 1, -1], [2, -1, 1, 0]], np.float32)
    b = np.array([[1], [2], [3], [4]], np.float32)
    for perturb in (False, True):
        x = lm.lax.linalg.tridiagonal_solve(dl, d, du, b, perturb_singular=perturb)
        np.testing.assert_allclose(x, [[8], [-3.5], [0], [-4]], rtol=1e-6)


def test_tolerances_are_given_once():
    with pytest.raises(ValueError, match=r"matrix_rank: only one of tol or rtol may be specified"):
        lnp.linalg.matrix_rank(np.eye(3), rtol=0.1, tol=0.1)
    with pytest.raises(ValueError, match=r"pinv: only one of rtol and rcond may be specified"):
        lnp.linalg.pinv(np.eye(3), rtol=0.1, rcond=0.1)
    for got, want in zip(
        lnp.linalg.slogdet(-2 * np.eye(3), method="qr"), np.linalg.slogdet(-2 * np.eye(3)), strict=True
    ):
        np.testing.assert_allclose(got, want)


def test_products_and_updates():
    rng = np.random.default_rng(0)
    a, w = rng.normal(size=(4, 4)), rng.normal(size=4)
    close(lm.lax.linalg.symmetric_product(a, a, alpha=2.0, beta=3.0), 2 * a @ a.T + 3 * a)
    r = np.linalg.cholesky(a @ a.T + np.eye(4)).T
    close(lm.lax.linalg.cholesky_update(r, w), np.linalg.cholesky(r.T @ r + np.outer(w, w)).T)


def test_machines_without_lapack_have_the_same_functions():
    code = """
import numpy as np, lamina.numpy as lnp, lamina.scipy.linalg as sl
la, rng = lnp.linalg, np.random.default_rng(0)
for a in (rng.normal(size=(40, 40)), rng.normal(size=(40, 40)) + 1j * rng.normal(size=(40, 40))):
    s = a @ a.conj().T + 40 * np.eye(40)
    for x, y in [
        (la.cholesky(s), np.linalg.cholesky(s)), (la.inv(a), np.linalg.inv(a)), (la.qr(a)[0], np.linalg.qr(a)[0]),
        (la.eigvalsh(s), np.linalg.eigvalsh(s)), (la.svdvals(a), np.linalg.svd(a)[1]), (la.det(a), np.linalg.det(a)),
    ]:
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)
    gaps = np.abs(np.asarray(la.eigvals(a))[:, None] - np.linalg.eigvals(a))
    assert gaps.min(0).max() < 1e-10 and gaps.min(1).max() < 1e-10
    t, z = (np.asarray(v) for v in sl.schur(a, "complex"))
    np.testing.assert_allclose(z @ t @ z.conj().T, a, atol=1e-10)
try:
    np.asarray(sl.schur(np.eye(3))[0])
except NotImplementedError as e:
    assert "complex" in str(e)
else:
    raise AssertionError("a real Schur form out of nothing")
"""
    env = {**os.environ, "LAMINA_LAPACK": ""}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_programs_with_routines_are_written_and_read():
    x = np.random.default_rng(0).normal(size=(6, 6))
    f = lambda v: (la.inv(v), la.svdvals(v), la.qr(v)[0])  # noqa: E731
    text = lm.stablehlo.dumps(lm.jit(f).lower(lnp.asarray(x)))
    g = lm.stablehlo.loads(text)
    assert bits(g(lnp.asarray(x))) == bits(f(lnp.asarray(x)))
    grad = lm.grad(lambda v: g(v)[0].sum())(lnp.asarray(x))
    assert bits(grad) == bits(lm.grad(lambda v: la.inv(v).sum())(lnp.asarray(x)))


def test_tolerances_of_pinv_belong_to_the_trailing_batch_axes():
    rng = np.random.default_rng(3)
    a = rng.normal(size=(2, 3, 4, 4))
    a[..., 3, :] = a[..., 2, :] * (1 + 1e-3)
    rtol = np.array([1e-12, 0.3, 1e-2])
    for limit in (rtol, rtol[:1], np.tile(rtol, (2, 1)), rtol[:, None][:1]):
        got = np.asarray(lnp.linalg.pinv(lnp.asarray(a), lnp.asarray(limit)))
        want = np.stack(
            [
                [np.linalg.pinv(a[i, j], np.broadcast_to(limit, (2, 3))[i, j]) for j in range(3)]
                for i in range(2)
            ]
        )
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-9)
    for shape, limit in (((3, 4), (4,)), ((3, 4), (1,)), ((2, 3, 4, 4), (2,)), ((2, 4, 4), (1, 2))):
        with pytest.raises(ValueError, match=r"pinv: a tolerance of type .* is not one for each matrix of"):
            lnp.linalg.pinv(lnp.ones(shape), lnp.ones(limit))


@pytest.mark.parametrize("shape", [(150_000, 2), (2, 150_000)])
def test_the_derivative_of_a_long_pseudoinverse_makes_no_square_matrix(shape):
    a = np.random.default_rng(0).normal(size=shape)
    da = np.random.default_rng(1).normal(size=shape)
    value, slope = lm.jvp(lnp.linalg.pinv, (a,), (da,))  # a square of the long side would be 180 GB
    np.testing.assert_allclose(value, np.linalg.pinv(a), rtol=1e-8, atol=1e-12)
    h = 1e-4
    finite = (np.linalg.pinv(a + h * da) - np.linalg.pinv(a - h * da)) / (2 * h)
    np.testing.assert_allclose(slope, finite, rtol=1e-5, atol=1e-10)


HERMITIAN = {
    "random": lambda a, n: a,
    "graded": lambda a, n: a * 10.0 ** -np.arange(n) * 10.0 ** -np.arange(n)[:, None],
    "clustered": lambda a, n: (
        (q := np.linalg.qr(a)[0]) @ np.diag(1 + 1e-10 * np.maximum(np.arange(n) - n // 2, 0)) @ q.conj().T
    ),
    "of zeros": lambda a, n: a * 0,
    "diagonal": lambda a, n: np.diag(np.diag(a)),
    "of rank 1": lambda a, n: a[:, :1] @ a[:, :1].conj().T,
    "tiny": lambda a, n: a * 1e-300,
    "huge": lambda a, n: a * 1e300,
}


@pytest.mark.parametrize("kind", HERMITIAN)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_small_hermitian_matrices_have_the_eigenvalues_of_lapack(kind, dtype):
    r = np.random.default_rng(3)
    for n in (*range(1, 33), 48, 64):
        a = r.standard_normal((n, n)).astype(dtype)
        if dtype == "complex128":
            a += 1j * r.standard_normal((n, n))
        a = HERMITIAN[kind](a + a.conj().T, n)
        a = (a + a.conj().T) / 2
        x = lnp.asarray(a)
        values, vectors = (np.asarray(part) for part in lnp.linalg.eigh(x))
        want = np.linalg.eigvalsh(a)
        bound = 3e-14 * np.abs(want).max()
        np.testing.assert_allclose(values, want, rtol=0, atol=bound)
        np.testing.assert_allclose(lnp.linalg.eigvalsh(x), want, rtol=0, atol=bound)
        np.testing.assert_allclose(a @ vectors, vectors * values, rtol=0, atol=bound)
        np.testing.assert_allclose(vectors.conj().T @ vectors, np.eye(n), rtol=0, atol=3e-14)


@pytest.mark.parametrize("kind", ["f", "c"])
def test_reflections_of_a_hessenberg_form(kind):
    a = matrix(np.random.default_rng(0), (2, 5, 5), kind)
    packed, scales = lax.linalg.hessenberg(a)
    for one, h, tau in zip(a, np.asarray(packed), np.asarray(scales)):
        want, want_tau, _ = scipy.linalg.lapack.get_lapack_funcs("gehrd", [one])(one)
        close(h, want)
        close(tau, want_tau)


@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (1, 1)])
def test_polar_decomposition_by_iteration(shape, kind):
    a = matrix(np.random.default_rng(0), shape, kind)
    u, h, count, good = lax.linalg.qdwh(a)
    want_u, want_h = scipy.linalg.polar(a)
    close(u, want_u, 1e-10)
    close(h, want_h, 1e-10)
    assert good.item() and 1 <= count.item() <= 8
    narrow = a.astype("complex64" if kind == "c" else "float32")
    u, h, _, good = lax.linalg.qdwh(narrow)
    assert good.item() and u.dtype == h.dtype == narrow.dtype.name
    close(u, want_u, 1e-5)
    close(h, want_h, 1e-5)
    _, _, count, good = lax.linalg.qdwh(a, max_iterations=1)
    assert count.item() == 1 and not good.item()
    padded = np.ones((7, 6), a.dtype)
    padded[: shape[0], : shape[1]] = a
    inner = lax.linalg.qdwh(padded, dynamic_shape=shape)[0]
    close(inner[: shape[0], : shape[1]], want_u, 1e-10)
    with pytest.raises(ValueError, match="at least as many rows as columns"):
        lax.linalg.qdwh(np.ones((2, 3)))


def test_residuals_of_matrices_without_full_rank():
    b = np.array([1.0, 2.0, 4.0])
    for a in (np.ones((3, 2)), np.arange(12.0).reshape(3, 4)):
        _, squares, rank, _ = la.lstsq(a, b)
        close(squares, [((b - a @ np.linalg.lstsq(a, b, rcond=None)[0]) ** 2).sum()], 1e-9)
        assert rank.item() < a.shape[1] and la.lstsq(a, b, numpy_resid=True)[1].shape == (0,)
