"""lamina.numpy's creation, shape, product and sorting functions against NumPy, and derivatives of some."""

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import _core


def check(got, want, rtol=1e-5):
    if isinstance(want, (list, tuple)):
        assert len(got) == len(want)
        for g, w in zip(got, want, strict=False):
            check(g, w, rtol)
        return
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)


X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)
M = X[0]
V = X[0, 0]


def same(name, *args, **kwargs):
    """The function gives what NumPy's does."""
    check(getattr(lnp, name)(*args, **kwargs), getattr(np, name)(*args, **kwargs))


CALLS = [
    ("arange", 5),
    ("arange", 2, 9, 3),
    ("arange", 1.0, 0.0, -0.25),
    ("arange", 0),
    ("linspace", 0, 1, 7),
    ("linspace", 3, 3, 1),
    ("linspace", 0.0, 1.0, 0),
    ("logspace", 0, 2, 5),
    ("geomspace", 1, 8, 4),
    ("eye", 3),
    ("eye", 3, 4, -1),
    ("identity", 2),
    ("tri", 3, 4, 1),
    ("tril", X, -1),
    ("triu", X, 1),
    ("diag", V, 1),
    ("diag", M, -1),
    ("diagflat", M, 2),
    ("vander", V),
    ("vander", V, 2, True),
    ("meshgrid", V, V[:2]),
    ("indices", (2, 3)),
    ("zeros", (2, 0)),
    ("ones", 3),
    ("full", (2, 3), 7.0),
    ("zeros_like", X),
    ("ones_like", X),
    ("full_like", X, 2),
    ("tril_indices", 4),
    ("triu_indices", 4, 1),
    ("hamming", 6),
    ("hanning", 6),
    ("blackman", 6),
    ("reshape", X, (4, -1)),
    ("reshape", X, (6, 4), "F"),
    ("ravel", X),
    ("transpose", X),
    ("transpose", X, (1, 0, 2)),
    ("swapaxes", X, 0, -1),
    ("moveaxis", X, 0, -1),
    ("moveaxis", X, (0, 1), (2, 0)),
    ("rollaxis", X, 2),
    ("rollaxis", X, 0, 3),
    ("expand_dims", X, (0, -1)),
    ("squeeze", X[:1]),
    ("squeeze", X[:1], 0),
    ("broadcast_to", V, (3, 4)),
    ("atleast_1d", 1.0),
    ("atleast_2d", V),
    ("atleast_3d", V),
    ("atleast_3d", M),
    ("concatenate", [X, X], 1),
    ("concatenate", [X, V], None),
    ("stack", [M, M], 1),
    ("vstack", [V, M]),
    ("hstack", [V, V]),
    ("hstack", [M, M]),
    ("dstack", [M, M]),
    ("column_stack", [V, V]),
    ("append", M, M, 0),
    ("block", [[M, M], [M, M]]),
    ("split", X, 2, 2),
    ("split", X, [1, 3], 2),
    ("array_split", V, 3),
    ("hsplit", M, 2),
    ("vsplit", M, 3),
    ("dsplit", X, 2),
    ("tile", M, 2),
    ("tile", M, (2, 1, 3)),
    ("repeat", M, 2),
    ("repeat", M, 3, 1),
    ("repeat", V, [0, 1, 2, 3], 0),
    ("flip", X),
    ("flip", X, 1),
    ("fliplr", M),
    ("flipud", M),
    ("rot90", M),
    ("rot90", X, 2, (1, 2)),
    ("rot90", X, -1, (0, 2)),
    ("roll", X, 5),
    ("roll", X, (1, -2), (0, 2)),
    ("roll", X, 2, 1),
    ("diagonal", X, 1, 1, 2),
    ("diagonal", X, -1),
    ("resize", V, (3, 3)),
    ("delete", M, 1, 0),
    ("delete", V, [0, -1]),
    ("insert", V, 2, 9.0),
    ("insert", M, 1, V[:3], 1),
    ("insert", M, [0, 2], 5.0, 1),
    ("pad", M, 1),
    ("pad", M, ((1, 2), (0, 3)), "edge"),
    ("pad", M, 2, "reflect"),
    ("pad", M, 2, "symmetric"),
    ("pad", M, 3, "wrap"),
    ("trim_zeros", np.array([0, 0, 1, 2, 0])),
    ("dot", M, M.T),
    ("dot", X, V),
    ("dot", V, V),
    ("matmul", X, M.T),
    ("matmul", M, X.transpose(0, 2, 1)),
    ("matmul", V, X.transpose(0, 2, 1)),
    ("matmul", X, V),
    ("vdot", M, M),
    ("inner", X, M),
    ("outer", V, V),
    ("tensordot", X, X, ([0, 1], [0, 1])),
    ("tensordot", M, M.T, 1),
    ("kron", M, V),
    ("kron", M, M),
    ("trace", X),
    ("trace", M, 1),
    ("cross", M[:, :3], M[:, 1:]),
    ("cross", M[:, :3], M[0, :3]),
    ("convolve", V, V[:2]),
    ("convolve", V[:2], V, "same"),
    ("convolve", V, V[:3], "valid"),
    ("correlate", V, V[:2]),
    ("correlate", V[:2], V, "full"),
    ("correlate", V, V[:3], "same"),
    ("polyval", V, M),
    ("polymul", V, V[:2]),
    ("polyadd", V, V[:2]),
    ("polyder", V),
    ("sort", X),
    ("sort", X, 0),
    ("sort", X, None),
    ("argsort", X, 1),
    ("argsort", X),
    ("lexsort", np.array([[1, 2, 1, 2], [3, 3, 1, 1]])),
    ("searchsorted", np.sort(V), V),
    ("searchsorted", np.array([1, 2, 2, 3]), np.array([0, 2, 3, 9]), "right"),
    ("digitize", V, np.array([-1.0, 0, 1])),
    ("digitize", V, np.array([1.0, 0, -1]), True),
    ("nonzero", M > 0),
    ("flatnonzero", M > 0),
    ("argwhere", M > 0),
    ("extract", M > 0, M),
    ("compress", [True, False, True], M, 0),
    ("take", X, [2, 0, -1], 1),
    ("take", X, 5),
    ("take", M, np.array([[0, 1], [2, 3]])),
    ("take_along_axis", X, np.argsort(X, 1), 1),
    ("bincount", np.array([1, 1, 4])),
    ("bincount", np.array([1, 1, 4]), np.array([0.5, 1, 2]), 7),
    ("histogram", V, 3),
    ("histogram", V, np.array([-1.0, 0, 1]), None, True),
    ("interp", V, np.array([-1.0, 0, 1]), np.array([3.0, 1, 2])),
    ("interp", V, np.array([0.1, 0.5]), np.array([3.0, 1]), None, None, 1.0),
    ("unique", np.array([3, 1, 3, 2])),
    ("unique", np.array([3, 1, 3]), True, True, True),
    ("isin", np.array([1, 2, 3]), [3, 1]),
    ("union1d", np.array([1, 2]), np.array([2, 5])),
    ("intersect1d", np.array([1, 2]), np.array([2, 5])),
    ("setdiff1d", np.array([1, 2]), np.array([2, 5])),
    ("setxor1d", np.array([1, 2]), np.array([2, 5])),
    ("unravel_index", np.array([5, 11]), (3, 4)),
    ("choose", np.array([0, 1, 0]), [[1, 2, 3], [4, 5, 6]]),
    ("apply_along_axis", lambda v: v * v, 1, X),
    ("partition", V, 2),
    ("broadcast_arrays", V, M),
    ("ix_", [0, 1], [2]),
]


@pytest.mark.parametrize("call", CALLS, ids=[f"{c[0]}{i}" for i, c in enumerate(CALLS)])
def test_as_numpy(call):
    name, *args = call
    if name == "histogram":
        counts, edges = lnp.histogram(*args)
        want = np.histogram(*args)
        check(counts, want[0])
        check(edges, want[1])
    elif name == "apply_along_axis":
        check(lnp.apply_along_axis(*args), np.square(args[-1]))
    elif name == "partition":
        check(lnp.partition(*args), np.sort(args[0]))
    else:
        same(name, *args)


@pytest.mark.parametrize(
    "spec",
    [
        "ij,jk->ik",
        "ij,jk",
        "ij->ji",
        "ii",
        "ii->i",
        "ij->",
        "i,j->ij",
        "ij,ij->ij",
        "bij,bjk->bik",
        "...ij,...jk->...ik",
        "ij,jk,kl->il",
        "ijk,ilk->jl",
        "iij->j",
        "i,i",
        "...i->...",
        "ab,ab,ab->",
        "i,ij,j->",
        "bhqd,bhkd->bhqk",
    ],
)
def test_einsum(spec):
    rng = np.random.default_rng(1)
    terms = spec.split("->")[0].split(",")
    size = {c: 2 + k % 3 for k, c in enumerate(sorted(set(spec) - set("->,.")))}
    arrays = []
    for k, t in enumerate(terms):
        lead = (2, 1, 3)[: 3 - k] if "..." in t else ()
        arrays.append(rng.normal(size=(*lead[-2:], *[size[c] for c in t.replace("...", "")])))
    check(lnp.einsum(spec, *arrays), np.einsum(spec, *arrays), 1e-12)


def test_einsum_other_forms():
    check(lnp.einsum(M, [0, 1], M, [2, 1], [0, 2]), M @ M.T)
    check(lnp.einsum("ij,ij->i", M, M[:1]), np.einsum("ij,ij->i", M, np.broadcast_to(M[:1], M.shape)))
    check(lnp.einsum("...1i,...1j->...ij", M[None], M[None]), (M.T @ M)[None])
    with pytest.raises(ValueError, match="sizes"):
        lnp.einsum("ij,jk->ik", M, M)
    with pytest.raises(ValueError, match="names 2 dimensions"):
        lnp.einsum("ij->i", V)
    with pytest.raises(ValueError, match="in no operand"):
        lnp.einsum("ij->k", M)


def test_sort_special_values():
    v = np.array([3, np.nan, -np.inf, 0.0, -0.0, np.inf, 1], np.float32)
    np.testing.assert_array_equal(np.asarray(lnp.sort(v)), np.sort(v))
    np.testing.assert_array_equal(np.asarray(lnp.argsort(v)), np.argsort(v, kind="stable"))
    z = np.array([1 + 2j, 1 - 1j, 0 + 5j], np.complex64)
    np.testing.assert_array_equal(np.asarray(lnp.sort(z)), np.sort(z))
    i = np.array([3, 1, 2, 1], np.int8)
    np.testing.assert_array_equal(np.asarray(lnp.sort(i, descending=True)), [3, 2, 1, 1])
    np.testing.assert_array_equal(np.asarray(lnp.argsort(i, descending=True)), [0, 2, 1, 3])


def test_default_types():
    assert lnp.array([1, 2]).dtype == "int32" and lnp.array([1.0]).dtype == "float32"
    assert lnp.array(np.arange(3)).dtype == "int64" and lnp.zeros(2).dtype == "float32"
    assert lnp.arange(3).dtype == "int32" and lnp.arange(3.0).dtype == "float32"
    assert lnp.array(0.1, "float64").item() == 0.1 and lnp.array([0.1], "float64").tolist() == [0.1]
    assert lnp.array(2**40, "int64").item() == 2**40
    assert lnp.arange(0, 1, 0.1, dtype="float64").tolist() == np.arange(0, 1, 0.1).tolist()
    assert lnp.array([lnp.ones(2), lnp.zeros(2)]).shape == (2, 2)
    assert (
        lnp.array(1).weak_type and not lnp.array([1]).weak_type
    )  # as in JAX: a number alone yields to arrays
    with pytest.raises(OverflowError, match="does not fit"):
        lnp.array(300, "uint8")


def test_values_inside_a_trace():
    def count(m):
        return lnp.nonzero(m, size=4, fill_value=-1)[0]

    m = np.array([True, False, True])
    np.testing.assert_array_equal(np.asarray(lm.jit(count)(m)), [0, 2, -1, -1])
    np.testing.assert_array_equal(
        np.asarray(lm.jit(lambda x: lnp.bincount(x, length=4))(np.array([1, 3, 1]))), [0, 2, 0, 1]
    )
    r = lm.jit(lambda x: lnp.repeat(x, np.array([1, 0, 2]), total_repeat_length=3))(np.array([5, 6, 7]))
    np.testing.assert_array_equal(np.asarray(r), [5, 7, 7])
    for f in (lnp.nonzero, lnp.unique, lnp.bincount):
        with pytest.raises(TypeError, match="not known inside"):
            lm.jit(f)(np.array([1, 2]))


def test_take_out_of_range():
    i = lnp.array([0, 9, -1])
    np.testing.assert_array_equal(np.asarray(lm.jit(lnp.take)(V, i)), [V[0], np.nan, V[3]])
    np.testing.assert_array_equal(np.asarray(lnp.take(V, i, mode="fill")), [V[0], np.nan, V[3]])
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 4"):
        lnp.take(V, i)
    np.testing.assert_array_equal(np.asarray(lnp.take(V, i, mode="clip")), [V[0], V[3], V[0]])
    np.testing.assert_array_equal(np.asarray(lnp.take(V, i, mode="wrap")), [V[0], V[1], V[3]])
    assert lnp.take(np.array([1, 2], np.int32), i, mode="fill").tolist() == [1, -(2**31), 2]
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 0 with size 4"):
        lnp.take(V, [9])


def test_puts():
    want = M.copy()
    np.put_along_axis(want, np.array([[1], [0], [3]]), 7, 1)
    check(lnp.put_along_axis(M, np.array([[1], [0], [3]]), 7, 1, inplace=False), want)
    want = M.copy()
    np.put(want, [0, 5], [1, 2])
    check(lnp.put(M, [0, 5], [1, 2], inplace=False), want)
    want = M.copy()
    np.fill_diagonal(want, 3)
    check(lnp.fill_diagonal(M, 3, inplace=False), want)


DERIVATIVES = {
    "sum": lambda x: lnp.sum(x * x, 0),
    "mean": lambda x: lnp.mean(x, -1) ** 2,
    "var": lambda x: lnp.var(x, 0),
    "std": lambda x: lnp.std(x, 1),
    "prod": lambda x: lnp.prod(x, 1),
    "max": lambda x: lnp.max(x, 1),
    "cumsum": lambda x: lnp.cumsum(x * x, 1),
    "cumprod": lambda x: lnp.cumprod(x, 0),
    "sort": lambda x: lnp.sort(x, 1) ** 2,
    "median": lambda x: lnp.median(x, 1),
    "einsum": lambda x: lnp.einsum("ij,kj->ik", x, x),
    "take": lambda x: lnp.take(x, lnp.array([0, 1, 1]), 1) ** 2,
    "roll": lambda x: lnp.roll(x, 1, 1) * x,
    "take_along": lambda x: lnp.take_along_axis(x, lnp.array([[0, 1], [2, 2], [1, 0]]), 1) ** 2,
    "pad": lambda x: lnp.pad(x, 1, "reflect") ** 2,
    "where": lambda x: lnp.where(x > 0, x * x, x),
    "sinc": lnp.sinc,
    "hypot": lambda x: lnp.hypot(x, 2.0),
    "logaddexp": lambda x: lnp.logaddexp(x, x.T[:3, :3].sum()),
    "power": lambda x: x**3 + lnp.abs(x) ** 1.5,
    "interp": lambda x: lnp.interp(x, lnp.arange(-5.0, 5), lnp.arange(10.0) ** 2),
    "matmul": lambda x: x @ x.T,
    "tril": lambda x: lnp.tril(x) * x,
    "clip": lambda x: lnp.clip(x, -0.5, 0.5) * x,
    "convolve": lambda x: lnp.convolve(x[0], x[1]),
    "repeat": lambda x: lnp.repeat(x, 2, 0) ** 2,
    "diag": lambda x: lnp.diag(x[0]) ** 2,
    "trace": lambda x: lnp.trace(x) ** 2,
    "kron": lambda x: lnp.kron(x, x),
    "gradient": lambda x: lnp.gradient(x, axis=0),
    "remainder": lambda x: lnp.remainder(x, 0.7),
    "cov": lnp.cov,
    "stack": lambda x: lnp.stack([x, x * x], 1),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivative(name):
    f = DERIVATIVES[name]
    x = np.random.default_rng(3).normal(size=(3, 4))
    outs, back, _ = _core.vjp(lambda p: [f(p[0])], [lnp.array(x)])
    y = np.asarray(outs[0])
    ct = np.random.default_rng(4).normal(size=y.shape)
    (grad,) = back([lnp.array(ct)])
    d = np.random.default_rng(5).normal(size=x.shape)
    h = 1e-6
    slope = (np.asarray(f(lnp.array(x + h * d))) - np.asarray(f(lnp.array(x - h * d)))) / (2 * h)
    np.testing.assert_allclose((np.asarray(grad) * d).sum(), (slope * ct).sum(), rtol=1e-5, atol=1e-6)


def test_errors_in_words():
    for call, kind, words in [
        (lambda: lnp.matmul(M, M), ValueError, "has size 4"),
        (lambda: lnp.reshape(X, (5, 5)), ValueError, "24 elements"),
        (lambda: lnp.concatenate([M, X]), ValueError, "cannot be concatenated"),
        (lambda: lnp.stack([]), ValueError, "at least one"),
        (lambda: lnp.squeeze(X, 1), ValueError, "cannot squeeze axis 1 of size 3"),
        (lambda: lnp.split(V, 3), ValueError, "does not divide"),
        (lambda: lnp.broadcast_to(V, (4, 3)), ValueError, "cannot be broadcast"),
        (lambda: lnp.transpose(X, (0, 0, 1)), ValueError, "permutation"),
        (lambda: lnp.arange(0, 1, 0), ValueError, "step"),
        (lambda: lnp.zeros(-1), ValueError, "negative"),
        (lambda: lnp.take_along_axis(X, np.zeros(3), 0), TypeError, "integer"),
        (lambda: lnp.array("abc"), TypeError, "needed"),
    ]:
        with pytest.raises(kind, match=words):
            call()


@pytest.mark.parametrize("size", [2, 5, 9])
@pytest.mark.parametrize("jitted", [False, True])
def test_unique_of_a_given_size(size, jitted):
    x = np.array([[3.0, 1.0, np.nan], [1.0, -2.0, np.nan], [3.0, 3.0, -2.0]], np.float32)  # -2, 1, 3, NaN

    def f(x):
        return lnp.unique(x, True, True, True, size=size, fill_value=7)

    values, first, inverse, counts = map(np.asarray, (lm.jit(f) if jitted else f)(lnp.array(x)))
    want, want_first, want_inverse, want_counts = np.unique(x, True, True, True)
    k = min(size, 4)
    np.testing.assert_array_equal(values, [*want[:k], *[7] * (size - k)])
    np.testing.assert_array_equal(first, [*want_first[:k], *[want_first[0]] * (size - k)])
    np.testing.assert_array_equal(counts, [*want_counts[:k], *[0] * (size - k)])
    np.testing.assert_array_equal(inverse, want_inverse.reshape(x.shape))
    assert np.asarray(lnp.unique(x, size=6))[5] == -2


@pytest.mark.parametrize("size", [1, 3, 6])
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_unique_slices_of_a_given_size(size, axis, dtype):
    x = np.random.default_rng(0).integers(0, 2, (5, 4, 2)).astype(dtype)

    @lm.jit
    def f(x):
        return lnp.unique(x, True, True, True, axis=axis, size=size, fill_value=7)

    values, first, inverse, counts = map(np.asarray, f(x))
    want, want_first, want_inverse, want_counts = np.unique(x, True, True, True, axis=axis)
    k = min(size, len(want_first))
    np.testing.assert_array_equal(np.take(values, range(k), axis), np.take(want, range(k), axis))
    assert (np.take(values, range(k, size), axis) == 7).all()
    np.testing.assert_array_equal(first, [*want_first[:k], *[want_first[0]] * (size - k)])
    np.testing.assert_array_equal(counts, [*want_counts[:k], *[0] * (size - k)])
    np.testing.assert_array_equal(inverse, want_inverse.ravel())


@pytest.mark.parametrize("name", ["setdiff1d", "setxor1d"])
def test_sets_of_a_given_size_take_what_is_said_to_be_unique_as_numpy_does(name):
    random = np.random.default_rng(0)
    for _ in range(20):
        a, b = (random.permutation(9)[:n].astype(np.int16) for n in random.integers(1, 6, 2))
        if name == "setxor1d":
            a = np.append(a, a[:1])  # not so: NumPy drops what is there twice
        want = getattr(np, name)(a, b, assume_unique=True)
        got = getattr(lnp, name)(a, b, assume_unique=True, size=12, fill_value=-1)
        np.testing.assert_array_equal(got, [*want, *[-1] * (12 - len(want))])


def test_a_difference_of_sets_has_the_type_of_the_first():
    a, b = np.int32([3, 1, 2]), np.float32([1.0, 2.5])
    for options in ({}, {"size": 2}):
        got = lnp.setdiff1d(a, b, **options)
        assert got.dtype == "int32"
        np.testing.assert_array_equal(got, np.setdiff1d(a, b))


@pytest.mark.parametrize(
    "name", ["sum", "prod", "max", "min", "mean", "var", "std", "nansum", "nanmax", "nanmean", "any"]
)
def test_what_masks_a_reduction_is_boolean_and_what_starts_it_a_scalar(name):
    x, options = lnp.ones((2, 3)), {"initial": 0} if name in ("max", "min", "nanmax") else {}
    f = getattr(lnp, name)
    for mask in (np.ones((2, 3), int), np.ones(3, np.float32), lnp.ones(3)):
        with pytest.raises(TypeError, match=r"`where` is a boolean mask, not (int|float)"):
            f(x, where=mask, **options)
    assert np.isfinite(f(x, where=np.array([True, False, True]), **options))
    if name in ("sum", "prod", "max", "min"):
        with pytest.raises(ValueError, match=r"`initial` is a scalar, not of shape \(3,\)"):
            f(x, axis=0, initial=lnp.ones(3))


def test_the_index_type_of_an_extremum_is_an_integer_type():
    with pytest.raises(TypeError, match=r"lax\.argmax: index_dtype is an integer type, not float32"):
        lm.lax.argmax(lnp.ones(3), 0, "float32")
