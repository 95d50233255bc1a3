"""lamina.scipy.linalg against SciPy; derivatives against finite differences to second order."""

import lamina as lm
import lamina.numpy as lnp
import lamina.scipy.linalg as sl
import numpy as np
import pytest
import scipy.linalg as reference
from test_linalg import adjoint, check_derivatives, close, matrix, positive, real_sum

SIZES = (1, 3, 6, 40)


@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("n", SIZES)
def test_values_are_scipys(n, kind):
    rng = np.random.default_rng(n)
    a, spd, b = matrix(rng, (n, n), kind), positive(rng, (n, n), kind), matrix(rng, (n, 2), kind)
    for lower in (False, True):
        close(sl.cholesky(spd, lower), reference.cholesky(spd, lower))
        close(sl.cho_solve(sl.cho_factor(spd, lower), b), np.linalg.solve(spd, b))
        close(sl.cho_solve(sl.cho_factor(spd, lower), b[:, 0]), np.linalg.solve(spd, b[:, 0]))
        for unit in (False, True):
            for trans in (0, 1, 2, "N", "T", "C"):
                t = a / n + 2 * np.eye(n)
                want = reference.solve_triangular(t, b, trans, lower, unit)
                close(sl.solve_triangular(t, b, trans, lower, unit), want)
        close(sl.solve(spd, b, lower=lower, assume_a="pos"), np.linalg.solve(spd, b), 1e-8)
        close(
            sl.solve(np.tril(spd) if lower else np.triu(spd), b, lower=lower, assume_a="her"),
            np.linalg.solve(spd, b),
            1e-8,
        )
        one = np.tril(spd) if lower else np.triu(spd)
        close(sl.eigh(one, lower=lower, eigvals_only=True), reference.eigvalsh(spd))
        for kind_of in (1, 2, 3):
            other = positive(rng, (n, n), kind)
            w, v = (np.asarray(x) for x in sl.eigh(spd, other, lower=lower, type=kind_of))
            close(w, reference.eigvalsh(spd, other, type=kind_of), 1e-8)
            left = {1: spd @ v, 2: spd @ other @ v, 3: other @ spd @ v}[kind_of]
            close(left, (other @ v if kind_of == 1 else v) * w, 1e-7)
    close(sl.solve(a, b), np.linalg.solve(a, b), 1e-7)
    for trans in (0, 1, 2):
        close(
            sl.lu_solve(sl.lu_factor(a), b, trans), reference.lu_solve(reference.lu_factor(a), b, trans), 1e-7
        )
    for mine, theirs in zip(sl.lu(a), reference.lu(a)):
        close(mine, theirs.astype(mine.dtype.name))
    for mine, theirs in zip(sl.lu(a, permute_l=True), reference.lu(a, permute_l=True)):
        close(mine, theirs)
    assert np.array_equal(sl.lu(a, p_indices=True)[0], reference.lu(a, p_indices=True)[0])
    for output in ("real", "complex"):
        t, z = (np.asarray(x) for x in sl.schur(a, output))
        close(z @ t @ adjoint(z), a + 0 * t)
        assert np.abs(np.tril(t, -2 if output == "real" and kind == "f" else -1)).max(initial=0) < 1e-12
    t, z = (np.asarray(x) for x in sl.rsf2csf(*sl.schur(a)))
    close(z @ t @ adjoint(z), a + 0 * t)
    for mine, theirs in zip(sl.rsf2csf(*reference.schur(a)), reference.rsf2csf(*reference.schur(a))):
        close(mine, theirs)
    h, q = (np.asarray(x) for x in sl.hessenberg(a, calc_q=True))
    close(q @ h @ adjoint(q), a)
    close(adjoint(q) @ q, np.eye(n, dtype=a.dtype))
    close(np.abs(sl.hessenberg(a)), np.abs(reference.hessenberg(a)), 1e-8)
    for side in ("right", "left"):
        for mine, theirs in zip(sl.polar(a, side), reference.polar(a, side)):
            close(mine, theirs)
    x = np.asarray(sl.solve_sylvester(a, spd, b @ adjoint(b)))
    close(a @ x + x @ spd, b @ adjoint(b), 1e-7)
    for scale in (1e-3, 1, 30):
        m = a * scale / np.sqrt(n)
        close(sl.expm(m), reference.expm(m), 1e-9 if scale < 30 else 1e-6)
    close(sl.expm_frechet(a, spd)[1], reference.expm_frechet(a, spd)[1], 1e-8)
    for name in ("cosm", "sinm", "coshm", "sinhm"):
        m = a / np.sqrt(n)
        close(getattr(sl, name)(m), getattr(reference, name)(m))
    w, left, right = (np.asarray(v) for v in sl.eig(a, left=True))
    close(a @ right, right * w, 1e-8)
    close(adjoint(left) @ a, w[:, None] * adjoint(left), 1e-8)
    np.testing.assert_allclose(np.sort(np.abs(sl.eigvals(a))), np.sort(np.abs(w)), atol=1e-8)
    for mine, theirs in zip(sl.lstsq(a[:, :1], b), reference.lstsq(a[:, :1], b)):
        if np.size(theirs):
            close(mine, np.asarray(theirs, np.asarray(mine).dtype))
    close(sl.norm(a, 1), reference.norm(a, 1))
    root = np.asarray(sl.sqrtm(spd))
    close(root @ root, spd + 0j)
    # Of negative eigenvalues either root is one, so only its square is compared.
    root = np.asarray(sl.sqrtm(a))
    close(root @ root, a + 0j, 1e-6)
    if n < 40:
        close(sl.funm(a, lnp.exp), reference.expm(a) + 0j, 1e-7)


def test_second_derivatives_of_expm_in_float32_lose_nothing():
    """The polynomials of its quotient have coefficients of 6e16, whose third power leaves float32."""
    m = np.random.default_rng(5).normal(size=(3, 3))

    def second(dtype):
        x = lnp.asarray(m, dtype)
        slope = lambda y: (lm.grad(lambda z: (sl.expm(z) * x).sum())(y) * x).sum()  # noqa: E731
        return np.asarray(lm.grad(slope)(x))

    want, h = second("float64"), 1e-4
    np.testing.assert_allclose(second("float32"), want, rtol=2e-5, atol=2e-5 * abs(want).max())

    def directional(y):  # d/dx <expm(x), m> along m
        return (reference.expm_frechet(y, m, compute_expm=False) * m).sum()

    e = np.zeros((3, 3))
    e[1, 2] = h
    difference = (directional(m + e) - directional(m - e)) / (2 * h)
    np.testing.assert_allclose(want[1, 2], difference, rtol=1e-6)


@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (40, 8)])
def test_rectangular_values_are_scipys(shape, kind):
    a = matrix(np.random.default_rng(0), shape, kind)
    for mode in ("full", "economic", "r"):
        for mine, theirs in zip(sl.qr(a, mode=mode), reference.qr(a, mode=mode)):
            if not (mode == "full" and mine.shape[0] == mine.shape[1]):
                close(mine, theirs)
    (packed, scales), r = sl.qr(a, mode="raw")
    (want, want_scales), want_r = reference.qr(a, mode="raw")
    for mine, theirs in zip((packed, scales, r), (want, want_scales, want_r)):
        close(mine, theirs)
    c = matrix(np.random.default_rng(1), (4, shape[0]), kind)
    for mine, theirs in zip(sl.qr_multiply(a, c), reference.qr_multiply(a, c)):
        close(mine, theirs)
    for side in ("right", "left"):
        for mine, theirs in zip(sl.polar(a, side), reference.polar(a, side)):
            close(mine, theirs)
    for mine, theirs in zip(sl.lu(a), reference.lu(a)):
        close(mine, theirs)
    close(sl.svdvals(a), reference.svdvals(a))


DERIVATIVES = {
    "cholesky": (lambda x: sl.cholesky(x), positive),
    "cho_solve": (lambda x: sl.cho_solve(sl.cho_factor(x), x[:, :2] ** 2), positive),
    "solve_triangular": (lambda x: sl.solve_triangular(x, x[:2].T, "C"), positive),
    "solve pos": (lambda x: sl.solve(x, x[0], assume_a="pos"), positive),
    "solve sym": (lambda x: sl.solve(x, x[0], assume_a="sym"), positive),
    "lu_solve": (lambda x: sl.lu_solve(sl.lu_factor(x), x[:, 0] ** 2), matrix),
    "lu": (lambda x: sl.lu(x, permute_l=True)[0], matrix),
    "expm": (sl.expm, matrix),
    "expm large": (lambda x: sl.expm(8 * x) / 1e6, matrix),
    "sqrtm": (sl.sqrtm, positive),
    "polar": (lambda x: lnp.concatenate(sl.polar(x)), matrix),
    "sylvester": (lambda x: sl.solve_sylvester(x, x @ x, x**2), positive),
    "eigh generalized": (lambda x: sl.eigh(x, x @ x + lnp.diag(x[0]).real, eigvals_only=True), positive),
    "frechet": (lambda x: sl.expm_frechet(x, x * x, compute_expm=False), matrix),
}


@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("n", [3, 6])
@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_to_second_order(name, n, kind):
    function, make = DERIVATIVES[name]
    x = make(np.random.default_rng(n), (n, n), kind) / np.sqrt(n)
    shape = function(lnp.asarray(x)).shape
    weights = np.random.default_rng(11).normal(size=shape)
    check_derivatives(lambda y: real_sum(function(y), weights), x, 1e-4)


@pytest.mark.parametrize("n", [4, 20])  # the squarings of the larger ones are in a branch
def test_the_exponential_of_batches_and_large_matrices(n):
    rng = np.random.default_rng(0)
    a = rng.normal(size=(3, n, n)) * np.array([1e-8, 1, 50])[:, None, None] * 2 / np.sqrt(n)
    out = sl.expm(a)
    for i in range(3):
        np.testing.assert_array_equal(out[i], sl.expm(a[i]))
    np.testing.assert_array_equal(lm.vmap(sl.expm)(lnp.asarray(a)), out)
    close(sl.expm(lnp.zeros((3, 3))), np.eye(3, dtype="float32"))
    assert np.isnan(np.asarray(sl.expm(a, max_squarings=1))[2]).all()
    turn = np.array([[0, -1e4], [1e4, 0]])
    close(sl.expm(turn), [[np.cos(1e4), -np.sin(1e4)], [np.sin(1e4), np.cos(1e4)]], 1e-9)


def test_derivatives_of_exponentials_of_matrices_of_several_sizes():
    rng = np.random.default_rng(4)
    a = rng.normal(size=(3, 20, 20)) * np.array([1e-3, 1, 20])[:, None, None] / np.sqrt(20)
    w, v = rng.normal(size=(2, 20, 20))

    def slope(x):
        return lm.grad(lambda y: (sl.expm(y) * w).sum())(x)

    first = lm.vmap(slope)(lnp.asarray(a))
    along = lm.jit(lambda x: lm.jvp(slope, (x,), (lnp.asarray(v),))[1])
    for x, g in zip(a, first):
        np.testing.assert_array_equal(g, lm.jit(slope)(lnp.asarray(x)))
        close(g, reference.expm_frechet(x.T, w, compute_expm=False), 1e-8)
        h = 1e-5
        up, down = (reference.expm_frechet((x + s * h * v).T, w, compute_expm=False) for s in (1, -1))
        close(along(lnp.asarray(x)), (up - down) / (2 * h), 1e-5)


def test_structured_matrices_are_scipys():
    rng = np.random.default_rng(0)
    c, r = rng.normal(size=4), rng.normal(size=6)
    for mine, theirs in [
        (sl.toeplitz(c), reference.toeplitz(c)),
        (sl.toeplitz(c, r), reference.toeplitz(c, r)),
        (sl.toeplitz(c + 1j), reference.toeplitz(c + 1j)),
        (sl.hankel(c), reference.hankel(c)),
        (sl.hankel(c, r), reference.hankel(c, r)),
        (sl.circulant(c), reference.circulant(c)),
        (sl.companion(c), reference.companion(c)),
        (sl.fiedler(c), reference.fiedler(c)),
        (sl.leslie(c, c[1:]), reference.leslie(c, c[1:])),
        (sl.block_diag(c, [[1.0]], r[:, None]), reference.block_diag(c, [[1.0]], r[:, None])),
        *[(sl.fiedler_companion(r[:n]), reference.fiedler_companion(r[:n])) for n in (2, 3, 4, 5, 6)],
        *[
            (sl.convolution_matrix(c, n, mode), reference.convolution_matrix(c, n, mode))
            for n in (3, 5)
            for mode in ("full", "same", "valid")
        ],
    ]:
        close(mine, theirs)
    for n in (1, 2, 5):
        close(sl.hilbert(n), reference.hilbert(n).astype("f4"), 1e-6)
        close(sl.invhilbert(n), reference.invhilbert(n).astype("f4"), 1e-6)
        close(sl.helmert(n), reference.helmert(n).astype("f4"), 1e-6)
        close(sl.helmert(n, True), reference.helmert(n, True).astype("f4"), 1e-6)
        for kind in ("symmetric", "lower", "upper"):
            close(sl.pascal(n, kind), reference.pascal(n, kind).astype("f4"))
            close(sl.invpascal(n, kind), reference.invpascal(n, kind).astype("f4"))
        for scale in (None, "n", "sqrtn"):
            close(sl.dft(n, scale), reference.dft(n, scale).astype("c8"), 1e-6)
    for n in (1, 2, 8):
        close(sl.hadamard(n), reference.hadamard(n))


def test_tridiagonal_eigenvalues():
    d, e = np.random.default_rng(0).normal(size=(2, 6))
    hermitian = np.diag(d) + np.diag(e[1:] * 1j, 1) + np.diag(e[1:] * -1j, -1)
    w, v = sl.eigh_tridiagonal(d + 0j, e[1:] * 1j)  # e is above the diagonal
    np.testing.assert_allclose(hermitian @ v.numpy(), v.numpy() * w.numpy(), atol=1e-10)
    w, v = sl.eigh_tridiagonal(d, e[1:])
    close(w, reference.eigh_tridiagonal(d, e[1:])[0])
    close(
        sl.eigh_tridiagonal(d, e[1:], eigvals_only=True, select="i", select_range=(1, 3)), np.asarray(w)[1:4]
    )
    m = np.diag(d) + np.diag(e[1:], 1) + np.diag(e[1:], -1)
    close(m @ np.asarray(v), np.asarray(v) * np.asarray(w))


@pytest.mark.parametrize(("f", "s"), [([1.0], []), ([1.0, 2.0, 3.0], [0.5]), ([1.0, 2.0], []), (1.0, 2.0)])
def test_leslie_refuses_what_scipy_refuses(f, s):
    with pytest.raises(ValueError):
        reference.leslie(np.array(f), np.array(s))
    with pytest.raises(ValueError, match="leslie needs"):
        sl.leslie(np.array(f), np.array(s))
    close(sl.leslie([1.0, 2.0], 0.5), reference.leslie([1.0, 2.0], 0.5))


def test_batches():
    rng = np.random.default_rng(0)
    a = positive(rng, (3, 5, 5), "f")
    b = rng.normal(size=(3, 5))
    for f in (sl.expm, sl.sqrtm, sl.polar, sl.lu, lambda x: sl.schur(x), lambda x: sl.cho_factor(x)[0]):
        batched = f(lnp.asarray(a))
        for i in range(3):
            for x, y in zip(lm.tree.tree_leaves(batched), lm.tree.tree_leaves(f(lnp.asarray(a[i])))):
                np.testing.assert_array_equal(x[i], y)
    out = sl.cho_solve(sl.cho_factor(a), b)
    for i in range(3):
        close(out[i], np.linalg.solve(a[i], b[i]))


def test_options_that_are_wrong_say_so():
    x = lnp.eye(3)
    for f, word in [
        (lambda: sl.solve(x, x, assume_a="odd"), "assume_a"),
        (lambda: sl.solve_triangular(x, x, "X"), "trans"),
        (lambda: sl.lu_solve(sl.lu_factor(x), x, 3), "trans"),
        (lambda: sl.schur(x, "odd"), "output"),
        (lambda: sl.polar(x, "top"), "side"),
        (lambda: sl.hadamard(3), "power of two"),
        (lambda: sl.expm(lnp.ones((2, 3))), "square"),
        (lambda: sl.solve(lnp.ones((2, 3)), x), "square"),
    ]:
        with pytest.raises(ValueError, match=word):
            f()


def test_complex_schur_forms_broadcast():
    random = np.random.default_rng(0)
    t, z = random.normal(size=(3, 4, 4)), random.normal(size=(4, 4))
    mine = [np.asarray(x) for x in sl.rsf2csf(t, z)]
    for i in range(3):
        for got, want in zip(mine, reference.rsf2csf(t[i], z)):
            np.testing.assert_allclose(got[i], want, rtol=1e-9, atol=1e-12)
    with pytest.raises(ValueError, match=r"of one size, not \(3, 4, 4\) and \(3, 3\)"):
        sl.rsf2csf(t, z[:3, :3])


@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (7, 4), (3, 6)])
def test_pivoted_qr_is_scipys(shape, kind):
    a = matrix(np.random.default_rng(shape[0]), shape, kind)
    for mode in ("full", "economic", "r"):
        for got, want in zip(
            sl.qr(a, mode=mode, pivoting=True), reference.qr(a, mode=mode, pivoting=True), strict=True
        ):
            close(got, want)
    (packed, scales), r, order = sl.qr(a, mode="raw", pivoting=True)
    (packed2, scales2), r2, order2 = reference.qr(a, mode="raw", pivoting=True)
    for got, want in ((packed, packed2), (scales, scales2), (r, r2), (order, order2)):
        close(got, want)
    c = matrix(np.random.default_rng(1), (2, shape[0]), kind)
    for got, want in zip(
        sl.qr_multiply(a, c, pivoting=True), reference.qr_multiply(a, c, pivoting=True), strict=True
    ):
        close(got, want)
    q, r, order = lm.vmap(lambda a: lm.lax.linalg.qr(a, pivoting=True))(np.stack([a, a[:, ::-1]]))
    for i, one in enumerate((a, a[:, ::-1])):
        close(np.asarray(q)[i] @ np.asarray(r)[i], one[:, np.asarray(order)[i]])
        assert (np.diff(np.abs(np.diagonal(np.asarray(r)[i]))) <= 1e-12).all()


def test_pivoted_qr_has_derivatives_and_takes_matrices_of_less_rank():
    a = matrix(np.random.default_rng(0), (4, 3), "f")

    def itself(a):
        q, r, order = sl.qr(a, mode="economic", pivoting=True)
        return (q @ r)[:, lnp.argsort(order)]

    close(lm.jvp(itself, (a,), (2 * a,))[1], 2 * a)
    for low in (np.zeros((3, 3)), np.outer([1.0, 2.0, 2.0], [3.0, 4.0, 5.0])):
        q, r, order = sl.qr(low, pivoting=True)
        close(np.asarray(q) @ np.asarray(r), low[:, np.asarray(order)])


@pytest.mark.parametrize(
    ("dtype", "routine"), [("f4", "ssytrd"), ("f8", "dsytrd"), ("c8", "chetrd"), ("c16", "zhetrd")]
)
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_tridiagonal_is_lapacks(n, lower, dtype, routine):
    rng = np.random.default_rng(n)
    a = np.stack([matrix(rng, (n, n), np.dtype(dtype).kind).astype(dtype) for _ in range(2)])
    got = lm.lax.linalg.tridiagonal(a, lower=lower)
    tolerance = 1e-4 if dtype in ("f4", "c8") else 1e-10
    for i in range(2):
        want = getattr(reference.lapack, routine)(a[i], lower=lower)
        for g, w in zip(got, want[:4], strict=True):
            assert g.dtype == w.dtype
            np.testing.assert_allclose(np.asarray(g)[i], w, rtol=tolerance, atol=tolerance)


def test_special_matrices_of_batches_and_of_nothing():
    rng = np.random.default_rng(0)
    c, r = rng.normal(size=(2, 5)), rng.normal(size=(1, 3))
    for n in (2, 3, 5):
        close(sl.fiedler_companion(c[:, :n]), np.stack([reference.fiedler_companion(x) for x in c[:, :n]]))
    assert sl.fiedler_companion(c[:, :1]).shape == (2, 0, 0) and sl.fiedler_companion(c[0, :1]).shape == (
        0,
        0,
    )
    with pytest.raises(ValueError, match="needs a leading coefficient"):
        sl.fiedler_companion(c[:, :0])
    with pytest.raises(ValueError, match="needs a vector, not a number"):
        sl.convolution_matrix(2.0, 3)
    close(sl.hankel(c, r), np.stack([reference.hankel(x, r[0]) for x in c]))
    close(sl.hankel(c[0], np.stack([r[0], r[0]])), np.stack([reference.hankel(c[0], r[0])] * 2))
    none = np.zeros(0)
    assert sl.hankel(none).shape == sl.circulant(none).shape == (0, 0)
    assert sl.hankel(c[0], none).shape == (5, 0)
    for n in (0, -1, -5):
        with pytest.raises(ValueError, match=f"n is at least 1, not {n}"):
            sl.helmert(n)


def test_a_matrix_of_roots_is_complex():
    with pytest.raises(ValueError, match="dft: dtype is a complex type, not float32"):
        sl.dft(4, dtype="float32")
    assert sl.dft(4, dtype="complex128").dtype == np.complex128


@pytest.mark.parametrize("n", [3, 6])
def test_hessenberg_forms_are_lapacks(n):
    rng = np.random.default_rng(n)
    for a in (rng.normal(size=(n, n)), rng.normal(size=(n, n)) + 1j * rng.normal(size=(n, n))):
        for got, want in zip(sl.hessenberg(a, calc_q=True), reference.hessenberg(a, calc_q=True)):
            close(got, want, 1e-10)


def test_arguments_that_name_nothing():
    a = np.eye(3)
    with pytest.raises(ValueError, match="polar: method is 'qdwh' or 'svd'"):
        sl.polar(a, method="newton")
    with pytest.raises(ValueError, match="solve_sylvester: method is 'schur' or 'eigen'"):
        sl.solve_sylvester(a, a, a, method="newton")
    with pytest.raises(ValueError, match="select is 'a' or 'i'"):
        sl.eigh_tridiagonal(np.ones(3), np.ones(2), select="x")
    with pytest.raises(ValueError, match="needs a select_range"):
        sl.eigh_tridiagonal(np.ones(3), np.ones(2), select="i")


def test_matrices_of_the_default_types():
    with lm.default_dtypes(float="float64", int="int64"):
        assert sl.hadamard(2).dtype == lnp.linalg.matrix_rank(np.eye(2)).dtype == "int64"
        assert lnp.linalg.matrix_rank(np.ones(2)).dtype == "int64" and sl.dft(3).dtype == "complex128"
    assert sl.hadamard(2).dtype == lnp.linalg.matrix_rank(np.eye(2)).dtype == "int32"
    assert sl.dft(3).dtype == "complex64"
