"""Small matrices of a batch are computed several at once: each has its own bits, as by itself, and NumPy's values."""

import lamina as lm
import lamina.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

KINDS = ("float32", "float64")
SIZES = (5, 6, 9, 16, 31)


def _bits(x: object) -> np.ndarray:
    a = np.asarray(x)
    if a.dtype.kind == "f":
        a = np.where(np.isnan(a), np.array(np.nan, a.dtype), a)  # which NaN it is, nobody promises
    return a.view(f"uint{8 * a.dtype.itemsize}") if a.dtype.kind == "f" else a


def _batch(kind: str, n: int, count: int, columns: int | None = None) -> np.ndarray:
    return np.random.default_rng(n + count).standard_normal((count, n, columns or n)).astype(kind)


def _check_each(f: object, *operands: np.ndarray) -> list[np.ndarray]:
    whole = lm.tree.leaves(f(*map(jnp.asarray, operands)))
    for i in range(len(operands[0])):
        single = lm.tree.leaves(f(*(jnp.asarray(x[i : i + 1]) for x in operands)))
        for a, b in zip(whole, single, strict=True):
            np.testing.assert_array_equal(_bits(a)[i], _bits(b)[0])
    return [np.asarray(x) for x in whole]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("count", [4, 8, 21])
def test_cholesky(kind: str, n: int, count: int) -> None:
    a = _batch(kind, n, count)
    a = a @ a.transpose(0, 2, 1) + n * np.eye(n, dtype=kind)
    a[1] -= 3 * n * np.eye(n, dtype=kind)  # not positive
    a[2, 0, 0] = np.nan
    (got,) = _check_each(jnp.linalg.cholesky, a)
    assert np.isnan(got[1][np.tril_indices(n)]).all() and np.isnan(got[2][np.tril_indices(n)]).all()
    good = [i for i in range(count) if i not in (1, 2)]
    np.testing.assert_allclose(
        got[good], np.linalg.cholesky(a[good]), rtol=2e-4 if kind == "float32" else 1e-9, atol=1e-6
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("count", [5, 16])
def test_factors_of_lu(kind: str, n: int, count: int) -> None:
    a = _batch(kind, n, count)
    a[0] = 0
    a[1, :, 2] = 0  # a column without pivot
    a[2] = np.eye(n)[::-1]
    a[3, 1, 1] = np.inf
    packed, pivots, order = _check_each(lm.lax.linalg.lu, a)
    for i in (1, 2, 4):
        lower, upper = np.tril(packed[i], -1) + np.eye(n), np.triu(packed[i])
        np.testing.assert_allclose(lower @ upper, a[i][order[i]], atol=1e-4 if kind == "float32" else 1e-12)
    reference = scipy.linalg.lu_factor(a[4].astype("float64"))[1]
    np.testing.assert_array_equal(pivots[4], reference)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", SIZES)
def test_solutions(kind: str, n: int) -> None:
    a, b = _batch(kind, n, 11) + n * np.eye(n, dtype=kind), _batch(kind, n, 11, 3)
    a[1] = 0
    a[2] = a[2][::-1]
    good = [i for i in range(11) if i != 1]
    limit = 2e-4 if kind == "float32" else 1e-11
    (x,) = _check_each(jnp.linalg.solve, a, b)
    np.testing.assert_allclose(x[good], np.linalg.solve(a[good], b[good]), rtol=limit, atol=limit)
    assert not np.isfinite(x[1]).any()
    _check_each(lambda a: jnp.linalg.inv(a), a)
    (slope,) = _check_each(
        lambda a, b: lm.grad(lambda a: jnp.sum(jnp.linalg.solve(a, b)[..., 0] ** 2))(a), a[good], b[good]
    )
    assert np.isfinite(slope).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("unit", [True, False])
def test_triangles(kind: str, lower: bool, unit: bool) -> None:
    a, b = _batch(kind, 7, 10) / 7 + 2 * np.eye(7, dtype=kind), _batch(kind, 7, 10, 2)
    (x,) = _check_each(
        lambda a, b: lm.scipy.linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit), a, b
    )
    for i in range(10):
        want = scipy.linalg.solve_triangular(a[i].astype("float64"), b[i], lower=lower, unit_diagonal=unit)
        np.testing.assert_allclose(x[i], want, rtol=1e-4 if kind == "float32" else 1e-11)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(2, 2), (5, 5), (16, 16), (9, 4), (4, 9), (31, 3)])
@pytest.mark.parametrize("full", [True, False])
def test_singular_values(kind: str, shape: tuple[int, int], full: bool) -> None:
    rows, columns = shape
    a = _batch(kind, rows, 13, columns)
    a[0] = 0
    a[1] = a[1, :, :1] * a[1, :1]  # of rank one
    a[2, 1, 1] = np.nan
    a[3, 0, 0] = np.inf
    a[4] *= np.array(1e-30 if kind == "float32" else 1e-200, kind)
    a[5] *= np.array(1e30 if kind == "float32" else 1e200, kind)
    a[6] = np.eye(rows, columns)[:, ::-1]
    a[7, 0] = -0.0
    u, sizes, v = _check_each(lambda a: jnp.linalg.svd(a, full_matrices=full), a)
    (alone,) = _check_each(lambda a: jnp.linalg.svd(a, compute_uv=False), a)
    np.testing.assert_array_equal(_bits(alone), _bits(sizes))
    assert all(np.isnan(x[i]).all() for x in (u, sizes, v) for i in (2, 3))
    good = [i for i in range(len(a)) if i not in (2, 3)]
    exact = np.linalg.svd(a[good].astype("float64"), full_matrices=full)
    limit = 1e-6 if kind == "float32" else 1e-13
    largest = exact[1].max(-1, keepdims=True) + (exact[1].max(-1, keepdims=True) == 0)
    np.testing.assert_allclose(sizes[good] / largest, exact[1] / largest, atol=limit)
    k = min(shape)
    again = (u[good][..., :k] * (sizes[good] / largest)[:, None]) @ v[good][:, :k]
    np.testing.assert_allclose(again, a[good] / largest[..., None], atol=20 * limit)
    for q in (u[good], v[good].transpose(0, 2, 1)):
        np.testing.assert_allclose(
            q.transpose(0, 2, 1) @ q,
            np.broadcast_to(np.eye(q.shape[2]), (len(good), q.shape[2], q.shape[2])),
            atol=20 * limit,
        )


def test_one_matrix_beside_a_batch_of_right_sides() -> None:
    a, b = _batch("float32", 6, 1)[0] + 6 * np.eye(6, dtype="float32"), _batch("float32", 6, 9, 2)
    x = np.asarray(lm.vmap(lambda b: jnp.linalg.solve(jnp.asarray(a), b))(jnp.asarray(b)))
    np.testing.assert_allclose(x, np.linalg.solve(a[None], b), rtol=1e-4, atol=1e-5)
