"""lamina.numpy.linalg on batches of small matrices, which are solved side by side: the bits of each matrix alone."""

import os
import subprocess
import sys

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
import scipy.linalg

la = lnp.linalg


def of_all_kinds(rng, n, dtype):
    """Nineteen matrices: they fill vectors of lanes twice, and a third one in part."""
    a = rng.normal(size=(19, n, n))
    a[1] = np.diag(np.arange(n) - 2.0)
    a[2] = 0
    a[3, :, n // 2] = 0
    a[4:6] = rng.integers(-1, 2, (2, n, n))  # pivots of equal size
    a[6, n - 1, 0] = np.nan
    a[7, n - 1, n - 1] = np.inf
    a[8] *= 1e-30
    a[9] = np.tril(np.triu(a[9], -1), 1)
    a[10] = -np.zeros((n, n))
    a[11] = 1
    a[12:] = a[12:] @ a[12:].transpose(0, 2, 1) + np.eye(n)
    return a.astype(dtype)


def triangular(lower, unit, transposed):
    return lambda x, y: lm.lax.linalg.triangular_solve(
        x, y, left_side=True, lower=lower, unit_diagonal=unit, transpose_a=transposed
    )


BATCHED = {
    "cholesky": lambda x, y: lm.lax.linalg.cholesky(x, symmetrize_input=False),
    "lu": lambda x, y: lm.lax.linalg.lu(x),
    "solve": la.solve,
    "solve_transposed": lambda x, y: lm.vjp(lambda v: la.solve(x, v), y)[1](y),
    "inv": lambda x, y: la.inv(x),
    "det": lambda x, y: la.det(x),
    "slogdet": lambda x, y: la.slogdet(x),
    "lower": triangular(True, False, False),
    "upper": triangular(False, False, False),
    "unit_lower": triangular(True, True, True),
    "unit_upper": triangular(False, True, False),
    "eigh": lambda x, y: la.eigh(x, symmetrize_input=False),
    "eigvalsh": lambda x, y: la.eigvalsh(x, symmetrize_input=False),
    "qr": lambda x, y: la.qr(x),
    "svd": lambda x, y: la.svd(x),
    "svdvals": lambda x, y: la.svdvals(x),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", BATCHED)
def test_batches_of_empty_matrices_are_those_of_each_alone(name, dtype):
    x, y = lnp.zeros((19, 0, 0), dtype), lnp.zeros((19, 0, 3), dtype)
    got = lm.tree.leaves(BATCHED[name](x, y))
    for of_batch, of_one in zip(got, lm.tree.leaves(BATCHED[name](x[0], y[0])), strict=True):
        np.testing.assert_array_equal(of_batch, np.stack([of_one] * 19))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("n", "columns"), [(3, 3), (5, 1), (7, 9), (8, 2), (16, 6), (31, 4), (32, 3), (48, 1), (49, 70), (64, 5)]
)
@pytest.mark.parametrize("name", BATCHED)
def test_matrices_side_by_side_have_the_bits_of_each_alone(name, n, columns, dtype):
    rng = np.random.default_rng(n)
    f = lm.jit(BATCHED[name])
    x, y = of_all_kinds(rng, n, dtype), rng.normal(size=(19, n, columns)).astype(dtype)
    together = [np.asarray(part) for part in lm.tree.tree_leaves(f(lnp.asarray(x), lnp.asarray(y)))]
    for i in range(len(x)):
        alone = lm.tree.tree_leaves(f(lnp.asarray(x[i : i + 1]), lnp.asarray(y[i : i + 1])))
        for part, one in zip(together, alone, strict=True):
            one = np.asarray(one)
            np.testing.assert_array_equal(part[i : i + 1], one)
            numbers = ~np.isnan(one)
            np.testing.assert_array_equal(
                np.signbit(part[i : i + 1].astype("f8"))[numbers], np.signbit(one.astype("f8"))[numbers]
            )


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize(("n", "columns"), [(5, 1), (8, 2), (16, 6), (31, 4), (40, 3), (64, 65), (70, 3)])
def test_systems_solved_by_one_call_have_the_bits_of_factors_and_substitution(n, columns, dtype):
    rng = np.random.default_rng(n)
    x, y = of_all_kinds(rng, n, dtype), rng.normal(size=(19, n, columns)).astype(dtype)
    at_once = lm.jit(la.solve)
    with_factors = lm.jit(lambda x, y: (la.solve(x, y), lm.lax.linalg.lu(x)))
    for part in (slice(0, 19), slice(12, 13)):
        a, b = lnp.asarray(x[part]), lnp.asarray(y[part])
        np.testing.assert_array_equal(np.asarray(at_once(a, b)), np.asarray(with_factors(a, b)[0]))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [5, 8, 16, 31, 40, 70])
def test_factors_of_means_by_one_call_have_the_bits_of_those_of_stored_means(n, dtype):
    rng = np.random.default_rng(n)
    x = of_all_kinds(rng, n, dtype)
    x[13] += rng.normal(size=(n, n)) / 100  # not quite symmetric
    x[14] *= np.finfo(dtype).max / 1.5 / x[14].max()
    x[15] *= np.finfo(dtype).tiny
    at_once = lm.jit(la.cholesky)
    with_mean = lm.jit(lambda x: (la.cholesky(x), (x + x.mT) / 2))
    for part in (slice(0, 19), slice(13, 14)):
        a = lnp.asarray(x[part])
        np.testing.assert_array_equal(np.asarray(at_once(a)), np.asarray(with_mean(a)[0]))


@pytest.mark.parametrize("n", [5, 8, 21, 32, 64])
def test_many_factors_side_by_side_are_those_of_lapack(n):
    a = np.random.default_rng(n).normal(size=(21, n, n))
    packed, pivots, order = (np.asarray(part) for part in lm.lax.linalg.lu(lnp.asarray(a)))
    for i in range(len(a)):
        want, want_pivots = scipy.linalg.lu_factor(a[i])
        np.testing.assert_array_equal(pivots[i], want_pivots)
        np.testing.assert_allclose(packed[i], want, rtol=1e-9, atol=1e-12)
        lower = np.tril(packed[i], -1) + np.eye(n)
        np.testing.assert_allclose(lower @ np.triu(packed[i]), a[i][order[i]], rtol=0, atol=1e-13)


DIGESTS = """
import hashlib
import numpy as np
import lamina as lm
import lamina.numpy as lnp

la = lnp.linalg
digest = hashlib.sha256()
rng = np.random.default_rng(0)
for n in (5, 16, 31, 32, 47, 64):
    for dtype in ("float32", "float64"):
        x = rng.normal(size=(19, n, n))
        y = lnp.asarray((x @ x.transpose(0, 2, 1) + np.eye(n)).astype(dtype))
        x = lnp.asarray(x.astype(dtype))
        results = la.cholesky(y), la.solve(x, y[..., :3]), la.inv(x), la.slogdet(x), la.eigh(y)
        for part in lm.tree.tree_leaves(results):
            digest.update(np.asarray(part).tobytes())
print(digest.hexdigest())
"""


def test_every_instruction_set_has_the_same_bits():
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGESTS],
            env={**os.environ, "LAMINA_ISA": isa, "PYTHONWARNINGS": "ignore"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for isa in ("baseline", "avx2", "avx512")
    }
    assert len(digests) == 1
