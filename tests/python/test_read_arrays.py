"""Arrays of other libraries that a jitted function reads may be changed in place: the next call sees it."""

from __future__ import annotations

import array
import collections
import functools
import warnings

import lamina as lm
import lamina.numpy as lnp
import ml_dtypes
import numpy as np
import pytest


def traces(f):
    return sum(v.paths for variants in f._entries.values() for v in variants)


def _set(x, value):
    x[...] = value


class Foreign:
    """An array-like without the buffer protocol."""

    def __init__(self, n):
        self.inside = np.ones(n)

    def __array__(self, dtype=None, copy=None):
        return self.inside


# What is read, how the function reads it, how it is changed in place.
ARRAYS = {
    "small": (np.ones(5), lambda a: a, lambda a: _set(a, 2)),
    "large": (np.ones(50_000), lambda a: a, lambda a: _set(a, 2)),
    "one element of a large one": (np.ones((300, 300)), lambda a: a.sum(), lambda a: _set(a[299:, 299:], 2)),
    "columns": (np.ones((6, 3))[::2, 1], lambda a: a, lambda a: _set(a.base, 2)),
    "many columns": (np.ones((5000, 3))[::2, 1], lambda a: a, lambda a: _set(a.base, 2)),
    "reversed": (np.ones(5000)[::-1], lambda a: a, lambda a: _set(a[:1], 2)),
    "column major": (np.ones((90, 80), order="F"), lambda a: a, lambda a: _set(a[7, 5:6], 2)),
    "0-d": (np.ones(()), lambda a: a, lambda a: _set(a, 2)),
    "bfloat16": (np.ones(5, ml_dtypes.bfloat16), lnp.asarray, lambda a: _set(a, 2)),
    "bfloat16 columns": (np.ones((6, 3), ml_dtypes.bfloat16)[::2, 1], lnp.asarray, lambda a: _set(a, 2)),
    "float8, large": (np.ones(9000, ml_dtypes.float8_e4m3fn), lnp.asarray, lambda a: _set(a[8999:], 2)),
    "an element": (np.ones(5000), lambda a: a[3], lambda a: _set(a[3:4], 2)),
    "a sum of NumPy's": (np.ones(5000), lambda a: float(a.sum()), lambda a: _set(a, 2)),
    "objects": (np.array([1.5, 2.5], object), lambda a: a[0], lambda a: a.__setitem__(0, 3.5)),
    "a list in objects": (
        np.array([[1.5], None], object),
        lambda a: a[0][0],
        lambda a: a[0].__setitem__(0, 3.5),
    ),
    "read only through another": (
        np.broadcast_to(np.ones(3), (2, 3)),
        lambda a: a,
        lambda a: _set(a.base, 2),
    ),
    "array.array": (array.array("d", [1.0, 2.0]), lnp.asarray, lambda a: a.__setitem__(0, 3.0)),
    "bytearray": (
        bytearray(b"\1\2"),
        lambda a: lnp.frombuffer(a, dtype="uint8"),
        lambda a: a.__setitem__(0, 3),
    ),
    "a view of memory": (
        memoryview(bytearray(b"\1\2")),
        lambda a: lnp.frombuffer(a, dtype="uint8"),
        lambda a: a.__setitem__(0, 3),
    ),
    "another library's": (Foreign(7), lnp.asarray, lambda a: _set(a.inside, 2)),
    "in a list": ([np.ones(5000)], lambda a: a[0], lambda a: _set(a[0], 2)),
    "in a dict of lists": ({"w": [np.ones(5000)]}, lambda a: a["w"][0], lambda a: _set(a["w"][0], 2)),
    "replaced in a list": ([np.ones(5000)], lambda a: a[0], lambda a: a.__setitem__(0, np.zeros(5000))),
}


def _plain(value):
    return np.asarray(value, dtype="float64").tolist()


@pytest.mark.parametrize("name", ARRAYS)
def test_an_array_changed_in_place_is_seen(name):
    held, read, change = ARRAYS[name]

    def f(x):
        return lnp.asarray(read(held), dtype="float64") * x

    jitted = lm.jit(f)
    before = _plain(jitted(2.0))
    assert before == _plain(f(2.0)) and _plain(jitted(2.0)) == before and traces(jitted) == 1
    change(held)
    after = _plain(jitted(2.0))
    assert after == _plain(f(2.0)) and after != before
    assert _plain(jitted(2.0)) == after and traces(jitted) == 2


def test_old_content_finds_its_old_trace():
    a = np.ones(5000)
    f = lm.jit(lambda x: x * a)
    for value in (1, 2, 1, 2, 1):
        a[:] = value
        assert f(3.0)[4999].item() == 3 * value
    assert traces(f) == 2


def test_a_shape_changed_in_place_is_seen():
    a = np.arange(6.0)
    f = lm.jit(lambda x: (a * x).shape[0])
    assert f(1.0) == 6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        a.shape = (3, 2)
    assert f(1.0) == 3


def test_what_a_method_reads_of_its_object():
    class Model:
        def __init__(self):
            self.mean = np.zeros(2000)

        @lm.jit
        def centred(self, x):
            return x - self.mean

    m = Model()
    assert m.centred(1.0)[0].item() == 1
    m.mean += 0.25
    assert m.centred(1.0)[0].item() == 0.75


def test_read_only_arrays_are_told_apart_by_identity_and_found_when_they_open():
    a = np.ones(5000)
    a.flags.writeable = False
    f = lm.jit(lambda x: x * a)
    assert f(1.0)[0].item() == 1 and f(1.0)[0].item() == 1 and traces(f) == 1
    a.flags.writeable = True
    a[:] = 2
    assert f(1.0)[0].item() == 2 and traces(f) == 2


def test_values_that_python_takes_of_narrow_tensors_are_guarded():
    w = lnp.asarray([1.0, 2.0], dtype="bfloat16")
    f = lm.jit(lambda x: x * float(w[0]) if float(w[1]) > 1 else x)
    assert f(3.0).item() == 3
    w[0] = 2.0
    assert f(3.0).item() == 6


# --- arrays that a function holds otherwise than by name ---


def _default():
    a = np.ones(5000)

    def f(x, c=a):
        return x * c

    return f, lambda: _set(a, 2)


def _keyword_default():
    a = np.ones(5)

    def f(x, *, c=a):
        return x * c

    return f, lambda: _set(a, 2)


def _helpers_default():
    a = np.ones(5)

    def helper(x, c=a):
        return x * c

    return lambda x: helper(x), lambda: _set(a, 2)


def _partial():
    a = np.ones(5000)
    return functools.partial(lambda c, x: x * c, a), lambda: _set(a, 2)


def _partial_by_name():
    a = np.ones(5)
    return functools.partial(lambda x, c: x * c, c=a), lambda: _set(a, 2)


def _partial_tensor():
    a = lnp.ones(5)
    return functools.partial(lambda c, x: x * c, a), lambda: a.__setitem__(slice(None), 2.0)


def _tensor_default():
    a = lnp.ones(5)

    def f(x, c=a):
        return x * c

    return f, lambda: a.__setitem__(slice(None), 2.0)


def _masked():
    a = np.ma.array(np.ones(3), mask=[0, 0, 0])
    return lambda x: x * lnp.asarray(a.filled(5.0)), lambda: a.__setitem__(0, np.ma.masked)


def _chain():
    a = collections.ChainMap({"k": 1.0})
    return lambda x: x * a["k"], lambda: a.__setitem__("k", 2.0)


def _user_dict():
    a = collections.UserDict({"k": np.ones(3)})
    return lambda x: x * a["k"], lambda: _set(a["k"], 2)


HELD = [
    _default,
    _keyword_default,
    _helpers_default,
    _partial,
    _partial_by_name,
    _partial_tensor,
    _tensor_default,
    _masked,
    _chain,
    _user_dict,
]


@pytest.mark.parametrize("make", HELD)
def test_what_a_function_holds_is_seen(make):
    f, change = make()
    jitted = lm.jit(f)
    before = _plain(jitted(2.0))
    assert before == _plain(f(2.0)) == _plain(jitted(2.0))
    change()
    assert _plain(jitted(2.0)) == _plain(f(2.0)) != before


def test_a_program_compiled_ahead_of_time_says_that_it_is_stale():
    a, rate = np.ones(5), [0.5]
    compiled = lm.jit(lambda x: x * a * rate[0]).lower(1.0).compile()
    assert _plain(compiled(2.0)) == [1] * 5
    rate[0] = 1.5  # a number is an argument that nobody sees
    assert _plain(compiled(2.0)) == [3] * 5
    a[0] = 7
    with pytest.raises(RuntimeError, match="has changed since it was compiled"):
        compiled(2.0)


def test_an_object_that_refuses_to_be_an_array_is_read_as_any_other():
    class Refuses:
        words = lnp.arange(3.0)

        def __array__(self, dtype=None, copy=None):
            raise TypeError("lies on another device")

    held = Refuses()
    f = lm.jit(lambda x: held.words * x)
    assert np.asarray(f(2.0)).tolist() == [0, 2, 4]
    assert np.asarray(f(3.0)).tolist() == [0, 3, 6]
