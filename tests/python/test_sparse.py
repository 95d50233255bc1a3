"""Sparse arrays: every operation against NumPy's of the dense form, in every layout, under jit, grad and vmap."""

import itertools

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina.experimental import sparse

RNG = np.random.default_rng(7)


def dense(shape, part=0.5):
    return np.where(RNG.random(shape) < part, RNG.integers(1, 9, shape), 0).astype("f4")


CUBE = dense((2, 3, 4))
LAYOUTS = [(b, d) for b, d in itertools.product(range(4), range(4)) if b + d <= 3]


def cube(n_batch, n_dense):
    return sparse.BCOO.fromdense(CUBE, n_batch=n_batch, n_dense=n_dense)


def padded():
    """Twice in one place, out of order, with padding that holds a number and NaN."""
    data = np.array([3.0, 1, 2, 5, np.nan, 4], "f4")
    indices = np.array([[1, 2], [0, 1], [1, 0], [1, 2], [2, 3], [0, 3]])
    return sparse.BCOO((data, indices), shape=(2, 3)), np.array([[0, 1, 0], [2, 0, 8]], "f4")


def is_dense(x, want, rtol=1e-6):
    x = x.todense() if isinstance(x, sparse.SparseArray) else x
    assert x.shape == np.shape(want)
    np.testing.assert_allclose(x, want, rtol=rtol)


OPERATIONS = {
    "todense": (lambda m: m.todense(), lambda x: x),
    "sort_indices": (lambda m: m.sort_indices(), lambda x: x),
    "sum_duplicates": (lambda m: m.sum_duplicates(nse=30), lambda x: x),
    "negated": (lambda m: -m, lambda x: -x),
    "times a number": (lambda m: 2 * m, lambda x: 2 * x),
    "times dense": (lambda m: m * (m.todense() + 1), lambda x: x * (x + 1)),
    "times a row": (lambda m: m * np.arange(4.0, dtype="f4"), lambda x: x * np.arange(4)),
    "times more dimensions": (lambda m: m * np.ones((5, 1, 1, 4), "f4"), lambda x: x * np.ones((5, 1, 1, 4))),
    "by dense": (lambda m: m / np.full(4, 3, "f4"), lambda x: x / 3),
    "squared": (lambda m: m**2, lambda x: x**2),
    "abs": (lambda m: abs(-m), np.abs),
    "sum of two": (lambda m: m + cube(0, 0).sort_indices(), lambda x: x + CUBE),
    "difference": (lambda m: m - m.todense() * 3, lambda x: -2 * x),
    "product of two": (lambda m: m * cube(0, 0).sum_duplicates(nse=30), lambda x: x * CUBE),
    "product with a row": (lambda m: m * sparse.BCOO.fromdense(CUBE[0, 1]), lambda x: x * CUBE[0, 1]),
    "astype": (lambda m: m.astype("int32"), lambda x: x.astype(int)),
    "reversed": (lambda m: sparse.bcoo_rev(m, (0, 2)), lambda x: x[::-1, :, ::-1]),
    "part": (lambda m: m[1:, ::2, 1:3], lambda x: x[1:, ::2, 1:3]),
    "backwards": (lambda m: m[:, ::-1, 2:0:-1], lambda x: x[:, ::-1, 2:0:-1]),
    "one": (lambda m: m[1, -1, 2], lambda x: x[1, -1, 2]),
    "row": (lambda m: m[..., 1], lambda x: x[..., 1]),
    "new dimensions": (lambda m: m[None, :, None, ..., None], lambda x: x[None, :, None, ..., None]),
    "rows by number": (lambda m: m[np.array([1, 0, -1])], lambda x: x[[1, 0, -1]]),
    "nothing": (lambda m: m[:0], lambda x: x[:0]),
    "parts": (lambda m: list(m)[1], lambda x: x[1]),
    "dynamic part": (
        lambda m: sparse.bcoo_dynamic_slice(m, (0, lnp.asarray(7), 1), (2, 2, 3)),
        lambda x: x[:, 1:, 1:],
    ),
    "squeezed": (lambda m: sparse.bcoo_squeeze(m[:1, :, :1], dimensions=(0, 2)), lambda x: x[0, :, 0]),
    "more parts": (
        lambda m: sparse.bcoo_broadcast_in_dim(m[:, :1], shape=(2, 2, 5, 4), broadcast_dimensions=(0, 2, 3)),
        lambda x: np.broadcast_to(x[:, None, :1], (2, 2, 5, 4)),
    ),
    "extracted": (lambda m: sparse.bcoo_extract(m, CUBE + 1), lambda x: (CUBE + 1) * (x != 0)),
    **{
        f"sum over {axes}": (lambda m, a=axes: m.sum(a), lambda x, a=axes: x.sum(a))
        for axes in (None, 0, 1, -1, (0, 1), (0, 2), (1, 2), (0, 1, 2))
    },
    **{
        f"joined along {d}": (
            lambda m, d=d: sparse.bcoo_concatenate([m, m * 2, m], dimension=d),
            lambda x, d=d: np.concatenate([x, 2 * x, x], d),
        )
        for d in range(3)
    },
    **{
        f"layout {layout}": (
            lambda m, v=layout: m.update_layout(n_batch=v[0], n_dense=v[1], on_inefficient=None),
            lambda x: x,
        )
        for layout in LAYOUTS
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name, layout):
    f, want = OPERATIONS[name]
    m = cube(*layout)
    if name == "extracted" and (layout[1] or layout[0] == 3):
        return  # parts that are stored hold zeros
    is_dense(f(m), want(CUBE))
    if name != "parts":
        out = lm.jit(f)(m)
        is_dense(out, want(CUBE))
    if layout[0] + layout[1] < 3 and name not in ("extracted", "astype"):

        def total(data):
            out = f(m.with_data(data))
            out = out.todense() if isinstance(out, sparse.SparseArray) else out
            return lnp.sum(out * lnp.arange(out.size, dtype="float32").reshape(out.shape))

        def plain(x):
            return total_dense(want, x)

        slope = m.with_data(lm.grad(total)(m.data)).todense()
        step = 2.0**-4
        for at in itertools.product(*map(range, CUBE.shape)):
            if CUBE[at] or layout[1]:
                e = np.zeros_like(CUBE)
                e[at] = step
                apart = (plain(CUBE + e) - plain(CUBE - e)) / (2 * step)
                if CUBE[at]:
                    np.testing.assert_allclose(slope[at], apart, rtol=1e-4, atol=1e-3)


def total_dense(want, x):
    out = np.asarray(want(x), "f8")
    return (out * np.arange(out.size).reshape(out.shape)).sum()


def test_padding_and_places_that_are_there_twice():
    m, x = padded()
    is_dense(m, x)
    is_dense(m.sort_indices(), x)
    once = m.sum_duplicates()
    assert (
        once.nse == 3
        and once.indices.tolist() == [[0, 1], [1, 0], [1, 2]]
        and once.data.tolist() == [1, 2, 8]
    )
    more = m.sum_duplicates(nse=5)
    assert more.indices[3:].tolist() == [[2, 3], [2, 3]] and more.data[3:].tolist() == [0, 0]
    for f, g in (
        (lambda v: v.T, lambda v: v.T),
        (lambda v: v.sum(0), lambda v: v.sum(0)),
        (lambda v: v.sum(), lambda v: v.sum()),
        (lambda v: v**2, lambda v: v**2),
        (lambda v: v[:, 1:], lambda v: v[:, 1:]),
        (lambda v: v.reshape(3, 2), lambda v: v.reshape(3, 2)),
        (lambda v: v @ np.ones(3, "f4"), lambda v: v.sum(1)),
        (lambda v: np.ones(2, "f4") @ v, lambda v: v.sum(0)),
        (lambda v: v * np.array([1, 2, np.nan], "f4")[[0, 1, 0]], lambda v: v * np.array([1, 2, 1])),
        (lambda v: sparse.bcoo_rev(v, (1,)), lambda v: v[:, ::-1]),
        (lambda v: sparse.bcoo_concatenate([v, v], dimension=1), lambda v: np.concatenate([v, v], 1)),
        (lambda v: v.update_layout(n_batch=1, on_inefficient=None), lambda v: v),
        (lambda v: v.update_layout(n_dense=1, on_inefficient=None), lambda v: v),
        (lambda v: sparse.BCSR.from_bcoo(v), lambda v: v),
        (lambda v: v @ v.T, lambda v: v @ v.T),
    ):
        is_dense(f(m), g(x))
        is_dense(lm.jit(f)(m), g(x))
    zeros = sparse.BCOO((np.array([1.0, -1, 0]), np.array([[0], [0], [1]])), shape=(3,))
    assert zeros.sum_duplicates(remove_zeros=False).nse == 2 and zeros.sum_duplicates().data.tolist() == [0]


PRODUCTS = [
    ((2,), (2,), (), ()),
    ((1, 2), (1, 2), (), ()),
    ((2,), (2,), (0,), (0,)),
    ((1, 2), (1, 2), (0,), (0,)),
    ((), (), (0, 1), (0, 1)),
    ((0,), (0,), (2,), (2,)),
    ((2, 0), (2, 0), (1,), (1,)),
]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dims", PRODUCTS)
def test_products(dims, layout):
    lc, rc, lb, rb = dims
    numbers = ((lc, rc), (lb, rb))
    m, y = cube(*layout), dense((2, 3, 4))
    letters = "abc"
    right = ["def"[d] for d in range(3)]
    for i, j in (*zip(lc, rc), *zip(lb, rb)):
        right[j] = letters[i]
    free = [c for i, c in enumerate(letters) if i not in lc and i not in lb]
    out = [letters[i] for i in lb] + free + [right[d] for d in range(3) if d not in rc and d not in rb]
    want = np.einsum(f"{letters},{''.join(right)}->{''.join(out)}", CUBE, y)

    def f(u, v):
        return sparse.bcoo_dot_general(u, v, dimension_numbers=numbers)

    is_dense(f(m, y), want)
    is_dense(lm.jit(f)(m, y), want)
    both = f(m, sparse.BCOO.fromdense(y))
    assert isinstance(both, sparse.BCOO)
    is_dense(both, want)
    flipped = sparse.bcoo_dot_general(y, m, dimension_numbers=((rc, lc), (rb, lb)))
    is_dense(flipped, lm.lax.dot_general(y, CUBE, ((rc, lc), (rb, lb))))
    slopes = sparse.grad(lambda u, v: lnp.sum(f(u, v) ** 2), (0, 1))(m, y)
    plain = lm.grad(lambda u, v: lnp.sum(lm.lax.dot_general(u, v, numbers) ** 2), (0, 1))(CUBE, y)
    np.testing.assert_allclose(slopes[1], plain[1], rtol=1e-5)
    there = m.with_data(lnp.ones_like(m.data)).todense()
    np.testing.assert_allclose(slopes[0].todense(), plain[0] * there, rtol=1e-5)


def test_what_meets_no_stored_element_is_not_looked_at():
    m, x = sparse.BCOO.fromdense(np.eye(2, dtype="f4")), np.array([1.0, np.inf], "f4")
    np.testing.assert_array_equal(m @ x, [1, np.inf])
    assert np.isnan(np.eye(2, dtype="f4") @ x).any()


@pytest.mark.parametrize("form", [sparse.BCSR, sparse.COO, sparse.CSR, sparse.CSC])
def test_matrices(form):
    x = dense((3, 4))
    for m in (form.fromdense(x), form.fromdense(x, nse=11), form.from_bcoo(sparse.BCOO.fromdense(x))):
        is_dense(m, x)
        is_dense(m @ np.ones(4, "f4"), x.sum(1))
        is_dense(m @ x.T, x @ x.T)
        is_dense(np.ones(3, "f4") @ m, x.sum(0))
        is_dense(2 * m, 2 * x)
        is_dense(-m, -x)
        is_dense(m + m, x + x)
        is_dense(m.sum(0), x.sum(0))
        is_dense(lm.jit(lambda v: v @ lnp.ones(4))(m), x.sum(1))
        slope = sparse.grad(lambda v: lnp.sum((v @ lnp.ones(4)) ** 2))(m)
        is_dense(slope, 2 * x.sum(1, keepdims=True) * (x != 0))
        if form is not sparse.BCSR:
            is_dense(m.T, x.T)
    assert repr(form.fromdense(x)) == f"{form.__name__}(float32[3, 4], nse={np.count_nonzero(x)})"


def test_compressed_rows_are_those_of_scipy():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    x = dense((4, 5))
    want, m = scipy_sparse.csr_matrix(x), sparse.BCSR.fromdense(x)
    for a, b in ((m.data, want.data), (m.indices, want.indices), (m.indptr, want.indptr)):
        np.testing.assert_array_equal(a, b)
    for form in (sparse.BCOO, sparse.BCSR):
        is_dense(form.from_scipy_sparse(want), x)
    batches = sparse.BCSR.fromdense(CUBE, n_batch=1)
    is_dense(batches, CUBE)
    is_dense(batches @ CUBE.transpose(0, 2, 1), CUBE @ CUBE.transpose(0, 2, 1))
    is_dense(sparse.bcsr_concatenate([m, m], dimension=1), np.concatenate([x, x], 1))
    np.testing.assert_array_equal(sparse.bcsr_extract(m.indices, m.indptr, x + 1), (x + 1)[x != 0])
    square = dense((5, 5)) + 20 * np.eye(5, dtype="f4")
    rows = sparse.BCSR.fromdense(square)
    found = sparse.linalg.spsolve(rows.data, rows.indices, rows.indptr, np.ones(5, "f4"))
    np.testing.assert_allclose(found, np.linalg.solve(square, np.ones(5)), rtol=1e-5)


def test_transforms_take_them():
    m = cube(1, 0)
    np.testing.assert_allclose(lm.vmap(lambda v: v.sum())(m), CUBE.sum((1, 2)))
    out = lm.vmap(lambda v: 2 * v)(m)
    assert out.n_batch == 1 and out.shape == CUBE.shape
    is_dense(out, 2 * CUBE)
    is_dense(lm.vmap(lambda v: sparse.BCOO.fromdense(v, nse=12))(CUBE), CUBE)
    found = lm.lax.fori_loop(0, 3, lambda i, v: v * 2, cube(0, 0))
    is_dense(found, 8 * CUBE)
    for jacobian in (sparse.jacfwd, sparse.jacrev):
        rows = jacobian(lambda v: {"r": v @ lnp.arange(4.0)})(sparse.BCOO.fromdense(CUBE[0]))["r"]
        want = np.einsum("ij,k->ijk", np.eye(3), np.arange(4)) * (CUBE[0] != 0)
        assert isinstance(rows, sparse.BCOO)
        is_dense(rows, want)
    value, (slope, number) = sparse.value_and_grad(lambda v, c: c * v.sum(), (0, 1))(cube(0, 0), 3.0)
    assert value == 3 * CUBE.sum() and number == CUBE.sum()
    is_dense(slope, 3 * (CUBE != 0))
    for m in (cube(1, 1), sparse.BCSR.fromdense(CUBE, n_batch=1), sparse.CSR.fromdense(CUBE[0])):
        flags = lm.tree.map(lambda x: x.ndim > 1, m)  # of what is no array, too
        assert lm.tree.structure(flags) == lm.tree.structure(m) and lm.tree.leaves(flags) and repr(flags)
    assert str(lm.tree.structure(cube(0, 0))) != str(lm.tree.structure(cube(1, 0)[:1]))


def test_sparsify():
    m, y = sparse.BCOO.fromdense(CUBE[0]), dense((4, 2))

    def f(x, y):
        return (lnp.sin(x)[1:].T * 2 + 3 * x[1:].T, (x @ y).sum(0), lnp.concatenate([x, -x], 1), y + 1)

    for run in (sparse.sparsify(f), lm.jit(sparse.sparsify(f))):
        out = run(m, y)
        assert [isinstance(v, sparse.BCOO) for v in out] == [True, False, True, False]
        for a, b in zip(out, f(CUBE[0], y)):
            is_dense(a, b, 1e-5)
    assert sparse.sparsify(lambda x: x**3)(m).nse == m.nse
    is_dense(sparse.sparsify(lambda x: lnp.cos(sparse.todense(x)))(m), np.cos(CUBE[0]))
    is_dense(
        sparse.sparsify(lambda x: lm.lax.cond(lnp.sum(x) > 0, lambda v: 2 * v, lambda v: v, x))(m),
        2 * CUBE[0],
    )
    twice = sparse.sparsify(lambda x, k: lm.lax.fori_loop(0, k, lambda i, v: v * 2, x))
    is_dense(twice(m, 3), 8 * CUBE[0])
    sums = sparse.sparsify(lambda x, v: lm.lax.scan(lambda c, row: (c, (c @ row)), x, v)[1])
    is_dense(sums(m, y.T.copy()), y.T @ CUBE[0].T)
    with pytest.raises(NotImplementedError, match=r"sparse rule for cos is not implemented.*sparse.todense"):
        sparse.sparsify(lnp.cos)(m)


def test_solvers_take_them():
    a = dense((6, 6)) + 30 * np.eye(6, dtype="f4")
    a, b = (a + a.T).astype("f8"), np.arange(6.0)
    for solve in (lm.scipy.sparse.linalg.cg, lm.scipy.sparse.linalg.gmres, lm.scipy.sparse.linalg.bicgstab):
        x, _ = solve(sparse.BCOO.fromdense(a), b, tol=1e-10)
        np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-8)


def test_made_arrays():
    for n, k in itertools.product((3, 4), (-4, -1, 0, 2, 5)):
        is_dense(sparse.eye(n, 4, k), np.eye(n, 4, k))
        is_dense(sparse.eye(n, 4, k, n_batch=1), np.eye(n, 4, k))
        is_dense(sparse.eye(n, 4, k, sparse_format="csr", dtype="int32"), np.eye(n, 4, k, "i4"))
    is_dense(sparse.empty((2, 3), "int32", nse=2), np.zeros((2, 3), int))
    is_dense(sparse.empty((2, 3), sparse_format="csc"), np.zeros((2, 3)))
    key = lm.random.key(3)
    m = sparse.random_bcoo(key, (3, 4, 5), nse=0.5, n_batch=1)
    assert m.nse == 10 and m.n_batch == 1 and len({tuple(i) for i in m.indices[1].tolist()}) == 10
    assert sparse.random_bcoo(key, (3, 4), nse=20, unique_indices=False).nse == 20
    z = np.array([[0, 1j], [2, 0]])
    is_dense(sparse.BCOO.fromdense(z) @ z, z @ z)
    flags = sparse.BCOO.fromdense(z != 0)
    assert flags.dtype == np.bool_ and flags.todense().tolist() == [[False, True], [True, False]]
    sampled = sparse.bcoo_dot_general_sampled(
        CUBE[0], CUBE[1].T, np.array([[0, 2], [2, 1], [3, 3]]), dimension_numbers=(((1,), (0,)), ((), ()))
    )
    product = CUBE[0] @ CUBE[1].T
    np.testing.assert_allclose(sampled, [product[0, 2], product[2, 1], 0])


def test_errors():
    m = sparse.BCOO.fromdense(CUBE[0])
    with pytest.raises(ValueError, match=r"data of shape \(3,\) and indices of shape \(2, 1\)"):
        sparse.BCOO((np.ones(3), np.zeros((2, 1), int)), shape=(3,))
    with pytest.raises(TypeError, match="integers as indices, not float64"):
        sparse.BCOO((np.ones(3), np.zeros((3, 1))), shape=(3,))
    with pytest.raises(ValueError, match="3 batch and 0 dense dimensions are more"):
        sparse.BCOO.fromdense(CUBE[0], n_batch=3)
    with pytest.raises(IndexError, match="index 3 is out of range for dimension 0"):
        m[3]
    with pytest.raises(IndexError, match="3 indices for the 2 dimensions"):
        m[0, 0, 0]
    with pytest.raises(ValueError, match="4 columns need as many rows"):
        m @ np.ones(3)
    with pytest.raises(NotImplementedError, match=r"is dense: add them with todense\(\)"):
        m + 1
    with pytest.raises(NotImplementedError, match="compare them with todense"):
        assert m == m
    with pytest.raises(sparse.SparseEfficiencyError, match="on_inefficient=None allows it"):
        sparse.eye(9).update_layout(n_dense=1)
    with pytest.warns(sparse.SparseEfficiencyWarning, match="stores zeros"):
        sparse.eye(9).update_layout(n_dense=1, on_inefficient="warn")
    with pytest.raises(ValueError, match="cannot reshape"):
        m.reshape(5, 2)
    with pytest.raises(TypeError, match="not known in a trace: give nse"):
        lm.jit(sparse.BCOO.fromdense)(CUBE)
    with pytest.raises(ValueError, match="sparse_format is one of"):
        sparse.eye(3, sparse_format="dia")
    with pytest.raises(ValueError, match="13 elements do not find different places"):
        sparse.random_bcoo(lm.random.key(0), (3, 4), nse=13)
    for f, name in (
        (sparse.bcoo_todense, "BCOO"),
        (sparse.bcsr_todense, "BCSR"),
        (sparse.csr_todense, "CSR"),
    ):
        with pytest.raises(TypeError, match=f"takes a {name}, not a ndarray"):
            f(CUBE)
    with pytest.raises(ValueError, match="must have 2 sparse dimensions"):
        sparse.BCSR.fromdense(CUBE[0], n_batch=1)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 3, 4), (4, 5)),
        ((3, 4), (2, 4, 5)),
        ((4,), (2, 4, 5)),
        ((2, 3, 4), (4,)),
        ((1, 3, 4), (2, 4, 5)),
        ((6, 1, 3, 4), (2, 4, 5)),
    ],
)
def test_matrix_products_broadcast_as_dense_ones_do(left, right):
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 3, s).astype(np.float32) for s in (left, right))
    expected = x @ y
    np.testing.assert_array_equal(sparse.BCOO.fromdense(x) @ lnp.asarray(y), expected)
    np.testing.assert_array_equal(lnp.asarray(x) @ sparse.BCOO.fromdense(y), expected)
    both = sparse.BCOO.fromdense(x) @ sparse.BCOO.fromdense(y)
    np.testing.assert_array_equal(sparse.todense(both), expected)


def test_loops_in_sparsify_start_with_numbers_everywhere():
    m = sparse.BCOO.fromdense(lnp.eye(3) * 2)
    f = lambda m: lm.lax.scan(lambda c, _: (c @ m, c.sum()), lnp.ones((1, 3)), None, length=2)  # noqa: E731
    last, sums = sparse.sparsify(f)(m)
    assert last.tolist() == [[4.0] * 3] and sums.tolist() == [3.0, 6.0]
