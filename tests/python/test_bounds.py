"""Indices out of range: IndexError outside jit, when they are known; JAX's rule inside."""

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

N = 4


def computed(*values):
    x = lnp.array(np.array(values, np.int32))
    x.block_until_ready()
    return x


def pending(*values):
    return computed(*values) * 1 + 0


def number(make, value):
    return make(value)[0]


def _add(x, i):
    x[i] += 1.0
    return x


# Each with the index made by `make`; axis 0 of 4 elements, or as noted.
READS = {
    "x[i]": lambda x, make, i: x[make(i)],
    "x[0-d]": lambda x, make, i: x[number(make, i)],
    "x[i, 0] of a column": lambda x, make, i: x[:, None][make(i), 0],
    "x[..., i]": lambda x, make, i: x[..., make(i)],
    "x[j, i]": lambda x, make, i: lnp.stack([x, x])[make(0), make(i)],
    "x[1:][i]": lambda x, make, i: x[1:][make(i - 1 if i > 0 else i + 1)],
    "take": lambda x, make, i: lnp.take(x, make(i)),
    "take 0-d": lambda x, make, i: lnp.take(x, number(make, i)),
    "take along": lambda x, make, i: lnp.take(x[:, None], make(i), axis=0),
    "take_along_axis": lambda x, make, i: lnp.take_along_axis(x, make(i), 0),
    "x.take": lambda x, make, i: x.take(make(i)),
    "at.get": lambda x, make, i: x.at[make(i)].get(),
    "at.set": lambda x, make, i: x.at[make(i)].set(1.0),
    "at.add": lambda x, make, i: x.at[make(i)].add(1.0),
    "at.multiply": lambda x, make, i: x.at[make(i)].multiply(2.0),
    "at.min": lambda x, make, i: x.at[make(i)].min(0.0),
    "x[i] = v": lambda x, make, i: x.__setitem__(make(i), 1.0) or x,
    "x[0-d] = v": lambda x, make, i: x.__setitem__(number(make, i), 1.0) or x,
    "x[i] += v": lambda x, make, i: _add(x, make(i)),
    "put": lambda x, make, i: lnp.put(x, make(i), 1.0) or x,
    "put_along_axis": lambda x, make, i: lnp.put_along_axis(x, make(i), 1.0, 0) or x,
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("make", [computed, pending])
def test_concrete_indices_raise(name, make):
    f = READS[name]
    for i in (9, N, -N - 1):
        with pytest.raises(IndexError, match=r"index -?\d+ is out of bounds for axis \d with size \d"):
            np.asarray(f(lnp.arange(4.0), make, i))
    for i in (0, N - 1, -1 if "j, i" not in name else 1):
        np.asarray(f(lnp.arange(4.0), make, i))


READERS = {
    "asarray": np.asarray,
    "tolist": lambda x: x.tolist(),
    "float": lambda x: float(x[0]),
    "item": lambda x: x[0].item(),
    "bool": lambda x: bool(x[0]),
    "repr": repr,
    "print": lambda x: f"{x}",
    "memoryview": memoryview,
    "dlpack": lambda x: np.from_dlpack(x, device="cpu"),
    "block": lambda x: x.block_until_ready(),
    "another value": lambda x: lnp.ones(3).tolist(),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_pending_index_raises_at_the_next_read(reader):
    y = lnp.arange(4.0)[pending(9)]
    with pytest.raises(IndexError, match="index 9") as e:
        READERS[reader](y)
    assert "test_bounds.py" in str(e.value)
    if reader == "memoryview":  # whose error a caller may hide, so that it comes again
        with pytest.raises(IndexError):
            lnp.ones(3).tolist()
    lnp.ones(3).tolist()


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "make",
    [lambda i: lnp.unravel_index(i, (2, 2))[0], lambda i: lnp.ravel_multi_index((pending(1), i), (2, 2))],
    ids=["unravel_index", "ravel_multi_index"],
)
def test_a_pending_flat_index_raises_at_the_next_read_and_no_more(reader, make):
    y = make(pending(9))
    with pytest.raises(ValueError, match="index 9"):
        READERS[reader](y if reader not in ("float", "item", "bool") else lnp.stack([y]))
    if reader == "memoryview":
        with pytest.raises(ValueError, match="index 9"):
            np.asarray(lnp.ones(3))
    for _ in range(2):
        assert np.asarray(lnp.ones(3) + 1).tolist() == [2.0, 2.0, 2.0]


def test_many_pending_indices_are_checked_without_a_read():
    x = lnp.arange(4.0)
    with pytest.raises(IndexError, match="index 7"):
        for _ in range(200):
            x = x[pending(0, 1, 2, 7)]
    lnp.ones(3).tolist()


def test_inside_jit_and_vmap_it_is_jaxs_rule():
    x, i = lnp.arange(4.0), lnp.array([1, 9, -9])
    assert lm.jit(lambda x, i: x[i])(x, i).tolist() == [1, 3, 0]
    assert lm.vmap(lambda i: x[i])(i).tolist() == [1, 3, 0]
    got = lm.jit(lnp.take)(x, i).tolist()
    assert got[0] == 1 and np.isnan(got[1:]).all()
    assert lm.jit(lambda x, i: x.at[i].set(7.0))(x, i).tolist() == [0, 7, 2, 3]


def test_derivatives_check_too():
    x, i = lnp.arange(4.0), lnp.array([9])
    with pytest.raises(IndexError, match="index 9"):
        lm.grad(lambda x: x[i].sum())(x)


def test_a_mode_that_is_asked_for_is_followed():
    x, i = lnp.arange(4.0), lnp.array([9])
    assert lnp.take(x, i, mode="clip").tolist() == [3] and lnp.take(x, i, mode="wrap").tolist() == [1]
    assert np.isnan(np.asarray(lnp.take(x, i, mode="fill"))).all()
    assert x.at[i].get(mode="fill", fill_value=-1).tolist() == [-1]
    assert x.at[i].set(1.0, mode="drop").tolist() == [0, 1, 2, 3]
    assert x.at[i].add(1.0, mode="clip").tolist() == [0, 1, 2, 4]
    assert lm.lax.dynamic_slice(x, (lnp.array(9),), (2,)).tolist() == [2, 3]
    with pytest.raises(ValueError, match=r"none of 0\.\.1"):  # NumPy's kind
        lnp.choose(lnp.array([0, 5]), [lnp.zeros(2), lnp.ones(2)])
    assert lnp.choose(lnp.array([0, 5]), [lnp.zeros(2), lnp.ones(2)], mode="clip").tolist() == [0, 1]


def test_lists_numbers_and_numpy_arrays_raise_at_once():
    x = lnp.arange(4.0)
    for i in (9, [9], np.array([9]), np.int64(9), (9,)):
        with pytest.raises(IndexError):
            x[i]
        with pytest.raises(IndexError):
            x[i] = 1.0
        with pytest.raises(IndexError):
            lm.jit(lambda x, i=i: x[i])(x)


# --- lamina.checks(index=...) ---


def _written(i):
    y = lnp.zeros(4)
    y[i] = 5.0
    return y


# Functions of one index, allowed from -4 to 3; those of `take_along_axis` and kin take a vector of them.
CHECKED = {
    "x[i]": lambda i: lnp.arange(4.0)[i],
    "x[i, j]": lambda i: lnp.ones((3, 4))[1, i],
    "x[mask, i]": lambda i: lnp.ones((4, 3))[i, lnp.array([0, 1])],
    "x[i] = v": _written,
    "x.at[i].add": lambda i: lnp.arange(4.0).at[i].add(1.0),
    "take": lambda i: lnp.take(lnp.arange(4.0), i),
    "take of an axis": lambda i: lnp.take(lnp.ones((3, 4)), i, axis=1),
    "take_along_axis": lambda i: lnp.take_along_axis(lnp.arange(4.0), i.reshape(1), 0),
    "put_along_axis": lambda i: lnp.put_along_axis(
        lnp.arange(4.0), i.reshape(1), lnp.ones(1), 0, inplace=False
    ),
    "put": lambda i: lnp.put(lnp.arange(4.0), i, 2.0, inplace=False),
}


def _paths():
    yield "jit", lambda f: lm.jit(f)
    yield "vmap", lambda f: lambda i: lm.vmap(f)(lnp.stack([lnp.zeros_like(i), i]))
    yield "jit of vmap", lambda f: lambda i: lm.jit(lm.vmap(f))(lnp.stack([lnp.zeros_like(i), i]))
    yield "jit of grad", lambda f: lm.jit(lambda i: lm.grad(lambda s: (f(i) * s).sum())(2.0))
    yield "fori_loop", lambda f: lambda i: lm.lax.fori_loop(0, 2, lambda k, s: s + f(i + 0 * k).sum(), 0.0)
    yield "scan in jit", lambda f: lm.jit(lambda i: lm.lax.scan(lambda c, k: (c, f(k)), 0, i[None])[1])
    yield "cond in jit", lambda f: lm.jit(lambda i: lm.lax.cond(i > -99, lambda: f(i).sum(), lambda: 0.0))
    yield "inner jit", lambda f: lm.jit(lambda i: lm.jit(f)(i))


@pytest.mark.parametrize("path", dict(_paths()))
@pytest.mark.parametrize("name", CHECKED)
def test_checks_name_index_size_and_line_inside_traces(name, path):
    f = dict(_paths())[path](CHECKED[name])
    want = np.asarray(f(lnp.array(3)))
    np.asarray(f(lnp.array(7)))  # JAX's rule, without a word
    with lm.checks():
        np.testing.assert_array_equal(np.asarray(f(lnp.array(3))), want)
        np.asarray(f(lnp.array(-4)))
        for wrong in (4, 7, -5):
            with pytest.raises(
                IndexError, match=rf"index {wrong} is out of bounds for axis \d with size 4\n.*test_bounds"
            ):
                np.asarray(f(lnp.array(wrong)))
    np.asarray(f(lnp.array(7)))


@pytest.mark.parametrize("name", ["read", "written"])
def test_an_index_is_checked_where_the_result_does_not_depend_on_it(name):
    """The element of an array of one, or of equal ones, is known without the index."""
    read = {"one": lambda i: lnp.array([2.0])[i], "equal": lambda i: lnp.full((4, 3), 2.0)[i, 0]}
    written = {"one": lambda i: lnp.zeros(1).at[i].set(2.0)}
    with lm.checks():
        for f in {"read": read, "written": written}[name].values():
            compiled = lm.jit(f)
            assert np.asarray(compiled(lnp.array(0))).item() == 2
            with pytest.raises(IndexError, match="index 4 is out of bounds for axis 0 with size"):
                np.asarray(compiled(lnp.array(4)))


def test_checks_warn_instead_or_not_at_all():
    f = lm.jit(lambda x, i: x[i] + 1)
    x = lnp.arange(4.0)
    with lm.checks(index="warn"), pytest.warns(UserWarning, match="index 9 is out of bounds") as told:
        assert f(x, 9).item() == 4
    assert told[0].filename == __file__
    with lm.checks(index="off"):
        assert f(x, 9).item() == 4
    with pytest.raises(ValueError, match="index must be 'off', 'warn' or 'raise'"), lm.checks(index="yes"):
        pass


def test_checks_follow_a_mode_that_is_asked_for():
    x, i = lnp.arange(4.0), lnp.array([9])
    with lm.checks():
        assert lm.jit(lambda x, i: lnp.take(x, i, mode="clip"))(x, i).tolist() == [3]
        assert lm.jit(lambda x, i: x.at[i].set(1.0, mode="drop"))(x, i).tolist() == [0, 1, 2, 3]
        assert lm.jit(lambda x, i: lm.lax.dynamic_slice(x, i, (2,)))(x, i).tolist() == [2, 3]


def test_derivatives_of_checked_programs_are_those_of_others():
    x, i = lnp.array([1.0, 2.0, 3.0]), lnp.array([2, 0, 2])

    def f(x, i):
        return (x[i] ** 3).sum()

    want = [np.asarray(lm.jit(t(f))(x, i)) for t in (lm.grad, lm.hessian, lm.jacfwd)]
    with lm.checks():
        for t, w in zip((lm.grad, lm.hessian, lm.jacfwd), want):
            np.testing.assert_array_equal(np.asarray(lm.jit(t(f))(x, i)), w)


# --- flat indices ---

FLAT = [
    (5, (2, 3)),
    (6, (2, 3)),
    (-1, (2, 3)),
    ([0, 5], (2, 3)),
    ([0, 6], (2, 3)),
    ([[1], [7]], 8),
    (0, ()),
    ([], (2, 3)),
    (1.5, (2,)),
    (2**33, (2**20, 2**20)),
]


@pytest.mark.parametrize(("index", "shape"), FLAT, ids=str)
def test_unravel_index_refuses_what_numpy_refuses(index, shape):
    given = np.asarray(index, dtype=None if index != [] else int)
    try:
        want = np.unravel_index(given, shape)
    except (ValueError, TypeError) as e:
        with pytest.raises(type(e)):
            lnp.unravel_index(lnp.asarray(given), shape)
        return
    got = lnp.unravel_index(lnp.asarray(given), shape)
    assert [np.asarray(g).tolist() for g in got] == [np.asarray(w).tolist() for w in want]
    jitted = lm.jit(lambda i: lnp.unravel_index(i, shape))(lnp.asarray(given))
    assert [np.asarray(g).tolist() for g in jitted] == [np.asarray(w).tolist() for w in want]


def test_unravel_index_with_traced_sizes_is_jaxs():
    jax = pytest.importorskip("jax")
    for index in (np.arange(-9, 10, dtype=np.int32), np.arange(9, dtype=np.uint8)):
        got = lm.jit(lambda i, s: lnp.unravel_index(i, s))(index, (2, 4))
        want = jax.jit(lambda i, s: jax.numpy.unravel_index(i, s))(index, (2, 4))
        for g, w in zip(got, want, strict=True):
            assert g.tolist() == w.tolist() and g.dtype == index.dtype.name
    lanes = lm.vmap(lambda i, n: lnp.unravel_index(i, (n, 4)))(np.arange(6), np.arange(2, 8))
    assert [x.tolist() for x in lanes] == [[0, 0, 0, 0, 1, 1], [0, 1, 2, 3, 0, 1]]


def test_unravel_index_inside_jit_is_jaxs():
    jax = pytest.importorskip("jax")
    index = np.arange(-9, 10)
    got = lm.jit(lambda i: lnp.unravel_index(i, (2, 3)))(lnp.asarray(index))
    want = jax.jit(lambda i: jax.numpy.unravel_index(i, (2, 3)))(index)
    assert [g.tolist() for g in got] == [w.tolist() for w in want]


RAVELLED = [
    (([1, 0], [2, 1]), (2, 3), {}),
    (([1, 2], [2, 1]), (2, 3), {}),
    (([1, 0], [2, -1]), (2, 3), {}),
    (([5, -1], [2, 7]), (2, 3), {"mode": "wrap"}),
    (([5, -1], [2, 7]), (2, 3), {"mode": "clip"}),
    (([5, -1], [2, 7]), (2, 3), {"mode": ("clip", "wrap")}),
    (([5, -1], [2, 7]), (2, 3), {"mode": ("clip", "raise")}),
    (([1, 0], [2, 1]), (2, 3), {"order": "F"}),
    (([1, 0], [2, 1]), (2, 3), {"order": "K"}),
    (([1, 0], [2, 1]), (2, 3), {"mode": "nearest"}),
    (([1, 0],), (2, 3), {}),
    (([1, 0], [2, 1], [0, 0]), (2, 3), {}),
    ((3, 1), (4, 5), {}),
    (([1.0], [2]), (2, 3), {}),
    (([2**20 - 1], [2**20 - 1]), (2**20, 2**20), {}),
]


@pytest.mark.parametrize(("index", "dims", "options"), RAVELLED, ids=str)
def test_ravel_multi_index_refuses_what_numpy_refuses(index, dims, options):
    try:
        want = np.ravel_multi_index(index, dims, **options)
    except (ValueError, TypeError) as e:
        with pytest.raises(type(e)):
            np.asarray(lnp.ravel_multi_index(index, dims, **options))
        return
    assert np.asarray(lnp.ravel_multi_index(index, dims, **options)).tolist() == want.tolist()
