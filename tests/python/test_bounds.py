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
    "dlpack": np.from_dlpack,
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
    with pytest.raises(IndexError, match="index 5"):
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
