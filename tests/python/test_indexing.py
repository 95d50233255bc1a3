"""Indexing, index assignment and functional updates against NumPy; derivatives; errors."""

import itertools

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import _core, _indexing

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
FULL = slice(None)
KEYS = [
    0,
    -1,
    (0, 1),
    (0, 1, 2),
    slice(None, None, -1),
    (FULL, slice(1, None, 2)),
    (Ellipsis, 0),
    (None, 0),
    (0, None, 1),
    (Ellipsis, None),
    slice(0, 0),
    np.array([0, 1, 1]),
    [0, -1],
    ([0, 1], [1, 2]),
    ([0, 1], FULL, [1, 2]),
    (0, [1, 2]),
    (0, FULL, [1, 2]),
    (FULL, [0, 2], slice(None, None, -2)),
    (np.array([[0], [1]]), np.array([0, 2])),
    X > 5,
    X[:, :, 0] > 3,
    (FULL, np.array([True, False, True])),
    (0, np.array([True, False, True])),
    True,
    False,
    (FULL, slice(3, 0, -1), slice(-3, -1)),
    (FULL, None, [0, 1]),
    ([0], None, [1]),
    (np.array(1),),
    (Ellipsis, np.array([1, 2]), 0),
    np.zeros(0, int),
    [],
    (slice(1, 2), slice(0, 3, 2), slice(3, None, -3)),
    (slice(0, 1), [0, 0, 2]),
    np.array([1, 0], np.uint8),
    (np.int64(1), -1),
    (),
]
PLAIN = [k for k in KEYS if not (isinstance(k, np.ndarray) and k.dtype == bool)]


def traced(f, *args):
    """f recorded inside an open transform, where indices are static."""
    return _core.vjp(lambda p: [f(*p)], [lnp.array(a) for a in args])[:2]


@pytest.mark.parametrize("i", range(len(KEYS)))
def test_read(i):
    key = KEYS[i]
    want = X[key]
    for got in (lnp.array(X)[key], traced(lambda a: a[key], X)[0][0], lm.jit(lambda a: a[key])(X)):
        np.testing.assert_array_equal(np.asarray(got), want)
        assert got.shape == want.shape


@pytest.mark.parametrize("i", range(len(KEYS)))
@pytest.mark.parametrize(
    "kind, ufunc",
    [
        ("set", None),
        ("add", np.add),
        ("multiply", np.multiply),
        ("minimum", np.minimum),
        ("maximum", np.maximum),
    ],
)
def test_write(i, kind, ufunc):
    key = KEYS[i]
    for value in (np.asarray(np.random.default_rng(i).normal(size=X[key].shape), np.float32), np.float32(7)):
        want = X.copy()
        if ufunc is None:
            want[key] = value
        else:
            ufunc.at(want, key, value)
        got = _indexing.update(lnp.array(X), key, value, kind)
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)
        got = lm.jit(lambda a, v: _indexing.update(a, key, v, kind))(X, value)
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6)


@pytest.mark.parametrize("i", range(len(KEYS)))
def test_derivatives(i):
    key = KEYS[i]
    rng = np.random.default_rng(i)
    seed = np.asarray(rng.normal(size=X[key].shape), np.float32)
    (grad,) = traced(lambda a: a[key], X)[1]([lnp.array(seed)])
    want = np.zeros_like(X)
    np.add.at(want, key, seed)
    np.testing.assert_allclose(np.asarray(grad), want, rtol=1e-6)
    seed = rng.normal(size=X.shape).astype(np.float32)
    value = np.zeros(X[key].shape, np.float32)
    to_x, to_v = traced(lambda a, v: a.at[key].add(v), X, value)[1]([lnp.array(seed)])
    np.testing.assert_allclose(np.asarray(to_x), seed)
    np.testing.assert_allclose(np.asarray(to_v), seed[key])
    to_x, _ = traced(lambda a, v: a.at[key].set(v), X, value)[1]([lnp.array(seed)])
    seed[key] = 0
    np.testing.assert_allclose(np.asarray(to_x), seed)


@pytest.mark.parametrize("shape", [(3, 1), (3, 1, 1), (1, 1), (3, 2, 1), (1,), (3,), (), (1, 3)])
def test_whole_numbers_leave_the_dimensions_that_they_do_not_name(shape):
    a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    keys = [(), *((0,) * n for n in range(1, len(shape) + 1)), *([0, -1] if shape else [])]
    for known in (lnp.asarray(a).block_until_ready(), lnp.asarray(a) + 0):
        for key in keys:
            assert known[key].shape == a[key].shape and known[key].tolist() == a[key].tolist()
            written, want = known.copy(), a.copy()
            written[key] = 7.0
            want[key] = 7.0
            assert written.tolist() == want.tolist()
        if shape:
            assert [row.shape for row in known] == [row.shape for row in a]


def test_assignment_rebinds():
    x = lnp.array(X)
    y = x
    x[0, 1:] = 5
    x[..., -1] += 1
    want = X.copy()
    want[0, 1:] = 5
    want[..., -1] += 1
    np.testing.assert_array_equal(np.asarray(y), want)


def test_tensor_indices():
    x = lnp.array(X)
    i = lnp.array([0, -1, 9, -9])
    np.testing.assert_array_equal(np.asarray(lm.jit(lambda x, i: x[:, i])(x, i)), X[:, [0, 2, 2, 0]])
    with pytest.raises(IndexError, match="index 9 is out of bounds for axis 1 with size 3"):
        x[:, i]
    np.testing.assert_array_equal(np.asarray(x[lnp.array(1)]), X[1])
    np.testing.assert_array_equal(np.asarray(x[lnp.array(-1), 1:, lnp.array(2)]), X[1, 1:, 2])
    np.testing.assert_array_equal(np.asarray(lm.jit(lambda a, k: a[k, 1])(X, 1)), X[1, 1])
    v = lnp.zeros(3)
    assert lm.jit(lambda v, i: v.at[i].set(1))(v, i).tolist() == [1, 0, 1]
    assert v.at[i].set(1, mode="drop").tolist() == [1, 0, 1]
    assert v.at[i].add(1, mode="clip").tolist() == [2, 0, 2]
    got = lnp.array([1.0, 2, 3]).at[i].get(mode="fill", fill_value=-1)
    assert got.tolist() == [1, 3, -1, -1]
    mask = lnp.array(X) > 5
    np.testing.assert_array_equal(np.asarray(x[mask]), X[X > 5])
    want = np.where(X > 5, 0, X)
    np.testing.assert_array_equal(np.asarray(lm.jit(lambda a: a.at[a > 5].set(0))(X)), want)


def test_unsigned_indices_beyond_every_size_are_out_of_range():
    x = lnp.array([1.0, 2, 3])
    i = lnp.array(np.array([1, 2**63, 2**64 - 1], np.uint64))
    for got in (lm.jit(lambda x, i: x[i])(x, i), lm.vmap(lambda k: x[k])(i)):
        assert got.tolist() == [2, 3, 3]
    assert lm.jit(lambda x, i: x.at[i].add(1))(x, i).tolist() == [1, 3, 3]
    assert x.at[i].get(mode="fill", fill_value=-1).tolist() == [2, -1, -1]
    assert lm.jit(lambda x, k: x[k, None])(x, i[2]).tolist() == [3]


def test_vmapped_indices():
    got = lm.vmap(lambda row, k: row[k])(X[0], np.array([0, 3, 1], np.int32))
    np.testing.assert_array_equal(np.asarray(got), X[0][[0, 1, 2], [0, 3, 1]])
    got = lm.vmap(lambda row, k: row.at[k].set(0))(X[0], np.array([0, 3, 1], np.int32))
    want = X[0].copy()
    want[[0, 1, 2], [0, 3, 1]] = 0
    np.testing.assert_array_equal(np.asarray(got), want)


def test_other_updates():
    x = lnp.array([1.0, 2, 3, 4])
    assert x.at[1:3].subtract(1).tolist() == [1, 1, 2, 4]
    assert x.at[::2].divide(2).tolist() == [0.5, 2, 1.5, 4]
    assert x.at[0].power(3).tolist() == [1, 2, 3, 4]
    assert x.at[[1, 1, 0]].apply(lambda v: -v).tolist() == [-1, 2, 3, 4]  # as np.negative.at
    assert x.at[[0, 3]].min(2).tolist() == [1, 2, 3, 2]
    assert x.at[[0, 3]].max(2).tolist() == [2, 2, 3, 4]
    assert lnp.array([1, 2]).at[0].set(2.7).tolist() == [2, 2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_zeros_and_nans(name, dtype):
    odd = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-42, -1e-42], dtype)
    old, new = (v.ravel() for v in np.meshgrid(odd, odd))
    got = np.asarray(getattr(lnp.asarray(old).at[np.arange(old.size)[::-1]], name)(new[::-1]))
    want = (np.maximum if name == "max" else np.minimum)(old, new)
    signs = (np.logical_and if name == "max" else np.logical_or)(np.signbit(old), np.signbit(new))
    want = np.where((old == 0) & (new == 0), np.where(signs, -0.0, 0.0), want)
    np.testing.assert_array_equal(got, want)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(want)[known])


def test_one_program_for_all_batches():
    x = lnp.array(np.arange(40, dtype=np.float32).reshape(20, 2))
    lm.block_until_ready(x)
    before = _core.cache_stats()["misses"]
    for k in range(10):
        np.testing.assert_array_equal(np.asarray(x[2 * k : 2 * k + 2]), np.asarray(x)[2 * k : 2 * k + 2])
    assert _core.cache_stats()["misses"] - before <= 2


UPDATES = {
    "set": lambda old, new: new,
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}
VALUES = {
    "float32": (2.5, 3, True, np.float32(7.0), np.arange(4, dtype=np.float32), 1e300, np.float64(0.1)),
    "float16": (2.5, 3, np.arange(4, dtype=np.float16), np.float32(0.1)),
    "int32": (3, True, 2.5, np.arange(4, dtype=np.int32), np.int64(5), 2**40),
    "uint8": (3, -1, 300, np.arange(4, dtype=np.uint8)),
    "bool": (True, 1, 0, 0.5, np.array([True, False, True, False])),
    "complex64": (2.5, 1j, np.arange(4, dtype=np.complex64)),
}


@pytest.mark.parametrize("dtype", VALUES)
@pytest.mark.parametrize("kind", UPDATES)
def test_updates_at_numbers_and_slices_take_what_others_take(dtype, kind):
    """A key that is looked at in C++, and the same elements by one that is not, give the same or the same error."""
    x = lnp.asarray((X % 5).astype(dtype))
    keys = [
        (0, 1, 2),
        -1,
        (1, slice(0, 2)),
        (Ellipsis, 3),
        (FULL, None, 1),
        (FULL, slice(None, None, -1)),
        (0, slice(2, 2)),
    ]
    for key, value in itertools.product(
        keys, [*VALUES[dtype], lnp.ones((2, 1, 4), dtype), lnp.ones((5,), dtype)]
    ):
        value = lnp.asarray(value) if isinstance(value, np.ndarray) else value

        def outcome(options, key=key, value=value):
            try:
                out = getattr(x.at[key], kind)(value, **options)
            except (TypeError, ValueError, OverflowError) as e:
                return type(e), str(e)
            return out.dtype, out.weak_type, np.asarray(out).tobytes()

        assert outcome({}) == outcome({"mode": "promise_in_bounds"}), (key, value)


@pytest.mark.parametrize("kind", UPDATES)
def test_one_program_for_updates_at_all_places(kind):
    want, x = np.array(X), lnp.array(X)

    def update(k):
        nonlocal x
        key = (k % 2, slice(k % 3, k % 3 + 1))
        x = getattr(x.at[key], kind)(k * 0.5)
        want[key] = UPDATES[kind](want[key], np.float32(k * 0.5))
        return lm.block_until_ready(x)

    update(0)
    before = _core.cache_stats()["misses"]
    for k in range(1, 7):
        update(k)
    assert _core.cache_stats()["misses"] == before
    np.testing.assert_array_equal(x, want)


def test_an_update_leaves_the_array_and_the_value_as_they_are():
    x, v = lnp.array(X), lnp.ones((2, 3, 4))
    whole, one = x.at[...].set(v), x.at[0, 0, 0].set(9)
    whole[0, 0, 0], one[0, 0, 1] = 5, 6
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(v, np.ones((2, 3, 4)))


@pytest.mark.parametrize(
    "key, kind, words",
    [
        (5, IndexError, "index 5 is out of bounds for axis 0 with size 2"),
        ((0, -4), IndexError, "index -4 is out of bounds for axis 1 with size 3"),
        ((0, 0, 0, 0), IndexError, "3 dimensions, but 4 were indexed"),
        ([0, 9], IndexError, "index 9 .* axis 0 with size 2"),
        ("a", IndexError, "not str"),
        (1.5, IndexError, "not float"),
        ((Ellipsis, Ellipsis), IndexError, "single ellipsis"),
        (np.ones((2, 2), bool), IndexError, "mask of shape"),
        (([0, 1], [0, 1, 2]), IndexError, "do not broadcast"),
        (slice(None, None, 0), ValueError, "step cannot be zero"),
        (np.array([0.5]), IndexError, "integer or boolean"),
    ],
)
def test_errors(key, kind, words):
    with pytest.raises(kind, match=words):
        lnp.array(X)[key]
    with pytest.raises(kind, match=words):
        lnp.array(X).at[key].set(0)


def test_errors_of_values_and_traces():
    with pytest.raises(ValueError, match=r"\(3,\).*\(2, 4\)"):
        lnp.array(X).at[:, 0].set(np.zeros(3))
    with pytest.raises(TypeError, match="depends on its values"):
        lm.jit(lambda a: a[a > 5])(X)
    with pytest.raises(ValueError, match="mode"):
        lnp.array(X).at[0].set(1, mode="no")


@pytest.mark.parametrize("shape", [(0,), (0, 4), (3, 0), (0, 0), (0, 5), (2,), (3, 3), (0, 4, 1)], ids=str)
def test_masks_of_no_elements_are_numpys(shape):
    x, mask = np.arange(12.0).reshape(3, 4), np.zeros(shape, bool)
    try:
        want = x[mask]
    except IndexError:
        with pytest.raises(IndexError, match=r"boolean mask|indices"):
            lnp.array(x)[lnp.array(mask)]
    else:
        np.testing.assert_array_equal(lnp.array(x)[lnp.array(mask)], want)


def test_elements_are_read_one_at_a_time_and_as_they_are_then():
    x = lnp.zeros(3_000_000)
    assert [v.item() for v in itertools.islice(x, 2)] == [0.0, 0.0]
    x = lnp.zeros((3, 2))
    rows = iter(x)
    assert next(rows).tolist() == [0.0, 0.0]
    x[1] = 5.0
    assert [r.tolist() for r in rows] == [[5.0, 5.0], [0.0, 0.0]]  # as NumPy's
    with pytest.raises(TypeError, match="0-d"):
        iter(lnp.float32(1))


@pytest.mark.parametrize("index_type", ["int64", "int8", "uint8"])
@pytest.mark.parametrize("op", ["set", "add"])
@pytest.mark.parametrize(
    ("shape", "indices"),
    [
        ((5,), [3]),
        ((5,), [7]),  # outside
        ((5,), [0, 4, 0, 9, 2]),  # the same twice, and outside
        ((300,), [100, 120, 100]),  # more than the narrow types count to
        ((4, 3), [1]),  # rows
        ((4, 3), [2, 2, 7, 0]),
        ((0,), [0, 1]),
        ((4, 3), [[1, 2]]),  # elements
        ((4, 3), [[1, 2], [3, 3], [1, 2], [0, 0]]),
    ],
)
@pytest.mark.parametrize("jit", [False, True])
def test_slopes_of_writes_are_those_of_what_stays(shape, indices, op, index_type, jit):
    """What is written, of equal places last, has the slope of its place; what is under it has none."""
    at = np.array(indices, index_type)
    key = tuple(lnp.array(i) for i in at.T) if at.ndim == 2 else lnp.array(at[0] if len(at) == 1 else at)
    rest = shape[at.ndim if at.ndim == 2 else 1 :]
    count = () if at.ndim == 1 and len(at) == 1 else (len(at),)
    random = np.random.default_rng(3)
    x, v, weight = (random.normal(size=s) for s in (shape, (*count, *rest), shape))

    def f(x, v):
        return lnp.sum(getattr(x.at[key], op)(v, mode="drop") * lnp.array(weight))

    g = lm.grad(f, argnums=(0, 1))
    of_x, of_v = (lm.jit(g) if jit else g)(lnp.array(x), lnp.array(v))
    places = [tuple(i) if at.ndim == 2 else (i,) for i in at.tolist()]
    inside = [all(i < n for i, n in zip(p, shape, strict=False)) for p in places]
    want_x, want_v = weight.copy(), np.zeros((len(at), *rest))
    for k, place in enumerate(places):
        if not inside[k]:
            continue
        if op == "add" or place not in places[k + 1 :]:
            want_v[k] = weight[place]
        if op == "set":
            want_x[place] = 0
    np.testing.assert_array_equal(np.asarray(of_x), want_x)
    np.testing.assert_array_equal(np.asarray(of_v), want_v.reshape(v.shape))


@pytest.mark.parametrize("lanes", [0, 2])
def test_derivatives_of_writes_without_lanes_or_elements(lanes):
    places = np.zeros((lanes, 2), int)
    for method in ("add", "set", "max"):

        def written(d, at, method=method):
            return getattr(lnp.zeros(3).at[at], method)(d)

        def total(d, f=written):
            return lnp.sum(lm.vmap(f)(d, places))

        assert lm.grad(total)(np.ones((lanes, 2))).shape == (lanes, 2)
    outside = lm.grad(lambda d: lnp.sum(lnp.zeros(0).at[lnp.asarray([0, 3])].add(d, mode="drop")))
    np.testing.assert_array_equal(outside(np.ones(2)), [0, 0])
