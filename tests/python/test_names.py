"""Names of NumPy arrays and modules: indexed objects, writing functions, views of bits, files, and what is said of
names that are not there.
"""

from __future__ import annotations

import io
import subprocess
import sys

import jax.numpy as jnp
import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

X = np.arange(12, dtype=np.float32).reshape(3, 4)
KEYS = [
    "r_[1:4, 0, [7, 8]]",
    "r_[0:1:5j, 2.0]",
    "r_['0,2', [1, 2, 3], [4, 5, 6]]",
    "r_['0,2,0', [1, 2, 3], [4, 5, 6]]",
    "r_['1,2,0', [1, 2, 3], [4, 5, 6]]",
    "r_['-1', xp.ones((2, 1)), xp.zeros((2, 2))]",
    "c_[xp.array([1, 2, 3]), xp.array([4, 5, 6])]",
    "c_[1:4, 5:8]",
    "c_[xp.ones((2, 2)), xp.zeros(2)]",
    "mgrid[0:2, 0:3]",
    "mgrid[-1:1:5j]",
    "mgrid[0:1:3j, 0:2]",
    "ogrid[0:2, 0:3:0.5]",
]


@pytest.mark.parametrize("key", KEYS)
def test_indexed_objects(key):
    got, want = (eval(f"xp.{key}", {"xp": xp}) for xp in (lnp, np))
    for g, w in zip(got, want) if isinstance(got, list) else [(got, want)]:
        assert g.shape == w.shape
        np.testing.assert_allclose(g.numpy(), w, rtol=1e-6)


def test_keys_as_objects():
    assert lnp.s_[1:3, ...] == np.s_[1:3, ...]
    assert lnp.index_exp[2] == (2,)
    with pytest.raises(ValueError, match="directive"):
        lnp.r_["cr", 1]
    with pytest.raises(ValueError, match="needs its end"):
        lnp.mgrid[3:]


@pytest.mark.parametrize(
    "statement",
    [
        "xp.place(a, a > 3, [1, 2, 3])",
        "xp.place(a, a > 3, xp.array([44], dtype='float32'))",
        "xp.putmask(a, a > 3, a ** 2)",
        "xp.putmask(a, a > 3, [-1, -2])",
        "xp.copyto(a, 5)",
        "xp.copyto(a, [9, 8, 7, 6], where=a > 2)",
        "a.fill(3)",
        "a.flat[3] = 7",
        "a.flat[[1, 5]] = 9",
        "a.flat = 2",
        "a.flat[2:4] = [5, 6]",
    ],
)
def test_writing(statement):
    want = X.copy()
    exec(statement, {"xp": np, "a": want})
    a = lnp.array(X)
    exec(statement, {"xp": lnp, "a": a})
    np.testing.assert_array_equal(a.numpy(), want)

    def traced(a):
        exec(statement, {"xp": lnp, "a": a})
        return a + 0

    np.testing.assert_array_equal(lm.jit(traced)(lnp.array(X)).numpy(), want)
    plain = lm.grad(lambda a: (traced(a) ** 2).sum())(lnp.array(X))
    np.testing.assert_array_equal(
        lm.jit(lm.grad(lambda a: (traced(a) ** 2).sum()))(lnp.array(X)).numpy(), plain.numpy()
    )


def test_writing_without_an_array_of_ones_own():
    a = lnp.array(X)
    out = lnp.putmask(a, a > 3, 0, inplace=False)
    assert out.numpy().max() == 3
    np.testing.assert_array_equal(a.numpy(), X)
    with pytest.raises(TypeError, match="cannot cast"):
        lnp.copyto(lnp.zeros(2, dtype="int32"), lnp.ones(2))
    with pytest.raises(ValueError, match="no values"):
        lnp.place(a, a > 3, [])


TYPES = [
    "uint8",
    "int8",
    "int16",
    "uint32",
    "int32",
    "float16",
    "float32",
    "int64",
    "float64",
    "complex64",
    "complex128",
]


@pytest.mark.parametrize("source", TYPES)
@pytest.mark.parametrize("target", TYPES)
def test_view_is_that_of_numpy(source, target):
    x = (np.arange(32).reshape(2, 16) % 7).astype(source)
    want = x.view(target)
    for got in (lnp.array(x).view(target), lm.jit(lambda a: a.view(target))(x)):
        assert got.dtype == target
        assert got.shape == want.shape
        np.testing.assert_array_equal(got.view("uint8").numpy(), want.view("uint8"))


def test_view_is_a_copy_and_refuses():
    x = lnp.ones(3)
    y = x.view()
    with pytest.raises(TypeError, match="another form"):  # NumPy would change x
        y[0] = 5
    assert x[0].item() == 1 and y is not x
    with pytest.raises(ValueError, match="does not divide"):
        x.view("float64")
    with pytest.raises(TypeError, match="neither 0 nor 1"):
        x.view("bool")
    assert lnp.array([True, False]).view("uint8").numpy().tolist() == [1, 0]


def test_members_of_arrays():
    x = lnp.array(X)
    assert x.tobytes() == X.tobytes() and x.tobytes("F") == X.tobytes("F")
    np.testing.assert_array_equal(x.flatten("F").numpy(), X.flatten("F"))
    np.testing.assert_array_equal(x.reshape(4, 3, order="F").numpy(), X.reshape(4, 3, order="F"))
    np.testing.assert_array_equal(x.ravel("F").numpy(), X.ravel("F"))
    np.testing.assert_array_equal((+x).numpy(), X)
    assert [row[0].item() for row in reversed(x)] == [8, 4, 0]
    assert 5.0 in x and 50.0 not in x
    assert len(x.flat) == 12 and [v.item() for v in x.flat] == list(range(12))
    assert round(lnp.array(2.567), 1).item() == pytest.approx(2.6)
    assert [v.item() for v in divmod(lnp.array(-7), 2)] == [-4, 1]
    assert lnp.astype(x, "int32").dtype == "int32"
    assert lnp.bool == "bool" and np.dtype(lnp.bool) == np.bool_
    y = +x
    y[0, 0] = 9
    assert x[0, 0].item() == 0


def test_numpy_knows_the_element_types():
    """In a process of its own: nothing has loaded ml_dtypes before."""
    code = (
        "import sys, lamina.numpy as lnp\n"
        "assert 'numpy' not in sys.modules\n"
        "import numpy as np\n"
        "print(np.dtype(lnp.bfloat16), np.dtype(lnp.float8_e4m3fn), np.dtype(lnp.int4), np.zeros(2, lnp.bfloat16).dtype)"
    )
    pytest.importorskip("ml_dtypes")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["bfloat16", "float8_e4m3fn", "int4", "bfloat16"], done.stderr
    assert lnp.ones(2, dtype=lnp.bfloat16).dtype == lnp.bfloat16


def test_vectorize():
    f = lnp.vectorize(lambda a, b: a @ b, signature="(n,m),(m)->(n)")
    a, b = np.random.default_rng(0).normal(size=(2, 4, 1, 3, 2)).astype("f"), np.ones((5, 2), "f")
    np.testing.assert_allclose(
        f(a, b).numpy(), np.vectorize(np.matmul, signature="(n,m),(m)->(n)")(a, b), rtol=1e-6
    )
    scalar = lnp.vectorize(lambda x, y: lnp.where(x > y, x, 2 * y))
    np.testing.assert_array_equal(
        scalar(np.arange(3), np.arange(3)[:, None]).numpy(), [[0, 1, 2], [2, 2, 2], [4, 4, 4]]
    )
    assert lnp.vectorize(lambda x, n: x**n, excluded={1})(np.arange(3.0), 2).numpy().tolist() == [0, 1, 4]
    first, second = lnp.vectorize(lambda x, y: (x, y))(np.ones((1, 3)), 2)
    assert first.shape == second.shape == (1, 3)
    assert lm.grad(lambda x: scalar(x, 0.5).sum())(lnp.array([1.0, 0.0])).numpy().tolist() == [1, 0]
    with pytest.raises(ValueError, match="argument 1 has size 3 where m is 2"):
        f(np.ones((3, 2)), np.ones(3))
    with pytest.raises(ValueError, match="not a signature"):
        lnp.vectorize(len, signature="n->m")


SAME = [
    "diag_indices_from(xp.ones((3, 3)))",
    "tril_indices_from(xp.ones((3, 4)), 1)",
    "triu_indices_from(xp.ones((3, 4)), -1)",
    "mask_indices(3, xp.triu, 1)",
    "unique_all(xp.array([[3, 1], [1, 2]]))",
    "unique_counts(xp.array([3, 1, 1]))",
    "unique_inverse(xp.array([[3, 1], [1, 2]]))",
    "apply_over_axes(xp.sum, xp.ones((2, 3, 4)), [0, 2])",
    "bartlett(7)",
    "kaiser(7, 3.0)",
    "i0(xp.array([0.0, 1.5, 9.0]))",
    "spacing(xp.array([1.0, -3.0, 1e-3]))",
    "unwrap(xp.array([0.0, 3.0, 6.2, -0.1, 3.3, -2.0]))",
    "unwrap(xp.array([0, 3, 7, 1]), period=4)",
    "packbits(xp.array([1, 0, 1, 1, 0, 0, 1, 0, 1]))",
    "packbits(xp.array([[1, 0, 1], [0, 0, 1]]), axis=0, bitorder='little')",
    "unpackbits(xp.array([178, 5], dtype='uint8'))",
    "unpackbits(xp.array([[178], [5]], dtype='uint8'), axis=1, count=5, bitorder='little')",
    "histogram2d(xp.array([0.1, 0.5, 0.9, 2.0]), xp.array([1.0, 2.0, 1.5, 3.0]), bins=3)",
    "histogram2d(xp.array([0.1, 0.5, 0.9]), xp.array([1.0, 2.0, 1.5]), bins=[2, 3], density=True)",
    "histogramdd(xp.array([[0.1, 1.0, 2.0], [0.5, 2.0, 0.0]]), bins=2, range=[(0, 1), (0, 3), (0, 2)])",
    "polysub(xp.array([1.0, 2.0, 3.0]), xp.array([1.0, 1.0]))",
    "polyint(xp.array([3.0, 2.0, 1.0]), 2, [5.0, 7.0])",
    "poly(xp.array([1.0, 2.0, -3.0]))",
]


@pytest.mark.parametrize("call", SAME)
def test_values_are_those_of_numpy(call):
    got, want = (eval(f"xp.{call}", {"xp": xp}) for xp in (lnp, np))

    def compare(g, w):
        if isinstance(w, (tuple, list)):
            assert len(g) == len(w)
            for a, b in zip(g, w):
                compare(a, b)
        else:
            assert g.shape == np.shape(w)
            np.testing.assert_allclose(g.numpy(), w, rtol=1e-5, atol=1e-6)

    if call.startswith("spacing"):
        want = np.spacing(np.array([1.0, -3.0, 1e-3], np.float32))
    compare(got, want)


def test_polydiv():
    q, r = lnp.polydiv(lnp.array([3.0, 5.0, 2.0]), lnp.array([2.0, 1.0]))
    want = np.polydiv([3.0, 5.0, 2.0], [2.0, 1.0])
    np.testing.assert_allclose(q.numpy(), want[0])
    np.testing.assert_allclose(r.numpy()[-1:], want[1])


def test_polyfit_and_roots():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=12), rng.normal(size=(12, 2))
    for kwargs in ({}, {"w": np.arange(1.0, 13)}, {"cov": True}, {"cov": "unscaled"}):
        for values in (y, y[:, 0]):
            got, want = lnp.polyfit(x, values, 3, **kwargs), np.polyfit(x, values, 3, **kwargs)
            for g, w in zip(got, want) if isinstance(want, tuple) else [(got, want)]:
                np.testing.assert_allclose(g.numpy(), w, rtol=1e-8)
    slope = lm.grad(lambda v: lnp.polyfit(x, v, 2)[0])(y[:, 0])
    np.testing.assert_allclose(slope.numpy(), np.linalg.pinv(np.vander(x, 3))[0], rtol=1e-8)
    for p in ([1.0, -6, 11, -6], [0.0, 2, 3, 0, 0], [5.0], [0.0, 0]):
        got, want = lnp.roots(np.array(p)).numpy(), np.roots(p)
        np.testing.assert_allclose(np.sort_complex(got), np.sort_complex(want.astype(complex)), atol=1e-12)
    assert lnp.roots(np.array([1.0, 0, 1])).numpy() == pytest.approx([1j, -1j])
    with pytest.raises(TypeError, match="strip_zeros"):
        lm.jit(lnp.roots)(np.ones(3))
    np.testing.assert_allclose(lnp.poly(np.diag([1.0, 2])).numpy(), [1, -3, 2])


def test_files_and_print(tmp_path):
    file = io.BytesIO()
    lnp.save(file, lnp.array(X))
    file.seek(0)
    np.testing.assert_array_equal(lnp.load(file).numpy(), X)
    file = io.BytesIO()
    lnp.savez(file, lnp.ones(2), b=lnp.zeros(3))
    file.seek(0)
    found = lnp.load(file)
    assert found["arr_0"].shape == (2,) and found["b"].shape == (3,)
    with pytest.raises(TypeError, match="astype"):
        lnp.save(io.BytesIO(), lnp.ones(2, dtype="float8_e4m3fn"))
    assert lnp.fromstring("1 2 3", int, sep=" ").numpy().tolist() == [1, 2, 3]
    assert lnp.fromiter((k * k for k in range(4)), "float32", 3).numpy().tolist() == [0, 1, 4]
    X.tofile(tmp_path / "x")
    np.testing.assert_array_equal(lnp.fromfile(tmp_path / "x", "float32", offset=4).numpy(), X.ravel()[1:])
    with pytest.raises(TypeError, match="astype"):
        lnp.fromiter([1.0], "bfloat16")
    with lnp.printoptions(precision=2):
        assert "3.14" in repr(lnp.array(3.14159)) and "3.1415" not in repr(lnp.array(3.14159))
    assert lnp.array_str(lnp.arange(3)) == "[0 1 2]"


@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 3)])
def test_files_of_bfloat16(shape):
    given = lm.random.normal(lm.random.key(0), shape, "bfloat16")
    file = io.BytesIO()
    lnp.save(file, given)
    file.seek(0)
    found = lnp.load(file)
    assert found.dtype == "bfloat16" and found.shape == shape
    np.testing.assert_array_equal(found.astype("float32").numpy(), given.astype("float32").numpy())
    file = io.BytesIO()
    lnp.savez(file, w=given, n=lnp.arange(2))
    file.seek(0)
    found = lnp.load(file)
    assert found["w"].dtype == "bfloat16" and found["n"].dtype == "int32"
    np.testing.assert_array_equal(found["w"].astype("float32").numpy(), given.astype("float32").numpy())


def test_files_of_bfloat16_by_ml_dtypes(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    given = np.array([1.5, -2.25, np.inf, 3e38]).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", given)
    np.testing.assert_array_equal(lnp.load(tmp_path / "x.npy").astype("float32").numpy(), given.astype("f4"))


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("lnp.meen", "did you mean mean"),
        ("lnp.matrix", "use 2-d arrays"),
        ("lnp.busday_count", "outside transforms"),
        ("lm.nn.rellu", "did you mean relu"),
        ("lm.random.seed", "lamina.random.key"),
        ("lm.pmap", "lamina.vmap"),
        ("lm.jitt", "did you mean jit"),
        ("lm.ops.segment_summ", "segment_sum"),
        ("lm.scipy.special.gamain", "gammainc"),
        ("lm.tree.mapp", "did you mean map"),
        ("lm.nn.initializers.glorot_unifrom", "glorot_uniform"),
        ("lnp.ones(2).detach", "stop_gradient"),
        ("lnp.ones(2).summ", "did you mean sum"),
        ("lnp.ones(2).sin", r"lamina\.numpy\.sin"),
    ],
)
def test_missing_names_say_what_to_use(text, answer):
    with pytest.raises(AttributeError, match=answer):
        eval(text)


def test_names_that_jax_has():
    """How much of JAX's modules there is; what is left is primitives, sharding, and what the table of names explains."""
    jax = pytest.importorskip("jax")

    least = {"numpy": 0.93, "nn": 0.88, "random": 0.9, "scipy.special": 0.78, "ops": 1.0}
    for module, share in least.items():
        mine, theirs = lm, jax
        for part in module.split("."):
            mine, theirs = getattr(mine, part), getattr(theirs, part)
        names = [n for n in dir(theirs) if not n.startswith("_")]
        assert sum(hasattr(mine, n) for n in names) >= share * len(names), module


def test_vectorize_passes_none():
    f = lnp.vectorize(lambda x, y: x if y is None else x + y)
    np.testing.assert_array_equal(f(np.arange(3), None).numpy(), np.arange(3))
    np.testing.assert_array_equal(f(np.arange(3), 2).numpy(), np.arange(3) + 2)
    with pytest.raises(ValueError, match=r"None at locations \{1\}"):
        lnp.vectorize(lambda x, y: x, signature="(n),(n)->(n)")(np.arange(3), None)


@pytest.mark.parametrize("axis", [-1, -2, 0, 1])
def test_unique_along_axes(axis):
    x = np.array([[1, 2, 1, 3], [4, 5, 4, 6], [1, 2, 1, 3]])
    ours = lnp.unique(x, True, True, True, axis)
    theirs = np.unique(x, True, True, True, axis)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)
    with pytest.raises(ValueError, match="out of bounds"):
        lnp.unique(x, axis=2)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_unique_of_nan_in_narrow_types(dtype):
    x = lnp.array([2.0, np.nan, -1.0, np.nan, 0.5, -1.0], dtype)
    np.testing.assert_array_equal(lnp.unique(x).astype("float32").numpy(), [-1.0, 0.5, 2.0, np.nan])
    two = lnp.unique(x, equal_nan=False).astype("float32").numpy()
    np.testing.assert_array_equal(two, [-1.0, 0.5, 2.0, np.nan, np.nan])


def test_unique_of_a_size_fills_positions_with_the_first():
    values, places, counts = lnp.unique(np.array([7, 5, 7]), True, False, True, size=4)
    np.testing.assert_array_equal(values.numpy(), [5, 7, 5, 5])
    np.testing.assert_array_equal(places.numpy(), [1, 0, 1, 1])
    np.testing.assert_array_equal(counts.numpy(), [1, 2, 0, 0])


def test_the_path_of_an_einsum():
    arrays = [np.ones(s) for s in ((2, 2), (2, 5), (5, 2))]
    for optimize in ("greedy", "optimal"):
        ours = lnp.einsum_path("ij,jk,kl->il", *arrays, optimize=optimize)
        theirs = np.einsum_path("ij,jk,kl->il", *arrays, optimize=optimize)
        assert ours[0] == theirs[0]
    path = lnp.einsum_path(*[v for p in zip(arrays, [[0, 1], [1, 2], [2, 3]]) for v in p], [0, 3])[0]
    got = lnp.einsum("ij,jk,kl->il", *arrays, optimize=path)
    np.testing.assert_allclose(got.numpy(), np.einsum("ij,jk,kl->il", *arrays))


def test_what_stands_for_arrays_as_indices():
    class Wrapped:
        def __jax_array__(self):
            return lnp.array([2, 0])

    np.testing.assert_array_equal(lnp.take(np.arange(3) * 10, Wrapped()).numpy(), [20, 0])
    assert not lnp.isscalar(Wrapped())
    assert lnp.expand_dims(np.ones(3), range(2)).shape == (1, 1, 3)


def test_sizes_along_several_axes_and_fills_of_none():
    x = np.zeros((2, 3, 4))
    assert lnp.size(x, (0, 2)) == 8 and lnp.size(x, -1) == 4 and lnp.size(x) == 24
    with pytest.raises(ValueError, match="repeated"):
        lnp.size(x, (0, 0))
    mask = np.array([False, True])
    for f in (lnp.flatnonzero, lnp.argwhere, lambda a, **k: lnp.nonzero(a, **k)[0]):
        np.testing.assert_array_equal(f(mask, size=3, fill_value=None).numpy().ravel(), [1, 0, 0])


def test_vectorized_functions_give_any_container():
    x = np.arange(3.0)
    for a, b in ((x, x[:, None]), (x[None], 2.0)):
        pair, named = lnp.vectorize(lambda u, v: ([u, v], {"sum": u + v}))(a, b)
        want = np.broadcast_arrays(a, b)
        assert isinstance(pair, list)
        for got, one in zip(pair, want):
            np.testing.assert_array_equal(got.numpy(), one)
        np.testing.assert_array_equal(named["sum"].numpy(), a + b)
    with pytest.raises(ValueError, match="counted from the first"):
        lnp.vectorize(lambda u, v: u, excluded={-1})


def test_polynomials_as_jax_has_them():
    assert lnp.polyder(np.array([1, 2, 3], np.int32)).dtype == "float32"
    for p in ([0.0, 1, 2], [0.0, 0, 1, -3, 0], [1.0, -3, 2], [0.0, 0, 0]):
        got = lm.jit(lambda q: lnp.roots(q, strip_zeros=False))(np.array(p)).numpy()
        want = np.asarray(jnp.roots(jnp.array(p), strip_zeros=False))
        np.testing.assert_allclose(np.sort_complex(got), np.sort_complex(want), rtol=1e-6)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    with pytest.raises(ValueError, match="expected deg >= 0"):
        lnp.polyfit(np.arange(3.0), np.arange(3.0), -1)
