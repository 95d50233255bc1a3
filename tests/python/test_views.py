"""Whatever shares memory in NumPy refuses to be written here, while the array it is a view of lives; copies are written.

Every public function, method and property that NumPy has too is called on the same arrays in both.
"""

from __future__ import annotations

import warnings

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import tree
from test_aliasing import COMMON, FUNCTIONS, LEFT_OUT, ROWS, A, M, V, _leaves, _overwrite

MORE = {
    "einsum": [
        ("ij->ji", A), ("ii->i", M), ("ij", A), ("ji", A), ("...", A), ("...i->i...", A), ("ii", M), ("ij->i", A),
        (A, [0, 1], [1, 0]), (A, [0, 1], [0]), ("iij->ji", np.ones((2, 2, 3), "f4")), ("i,i->i", V, V),
    ],
    "nan_to_num": [(A, False), (A, True), (V,)],
    "array": [(A,)],
    "reshape": [(A, (3, 2)), (A, -1), (A, (2, 3))],
    "broadcast_arrays": [(V, A), (A, V)],
    "diff": [(A, 0), (A, 1), (A, 2)],
    "histogram": [(V, np.array([0.0, 0.5, 1.0], "f4")), (V, 3)],
    "ravel": [(A,), (A, "F"), (A[None], "K")],
    "rot90": [(A, 0), (A, 1), (A, 4)],
    "split": [(V, 3), (V, [1])],
    "atleast_2d": [(V, A), (A, V)],
    "atleast_3d": [(V, A)],
    "squeeze": [(A[None],), (A,)],
    "trim_zeros": [(np.array([0.0, 1.0, 0.0], "f4"),)],
}  # fmt: skip
NUMPYS = {"lamina.numpy": np, "lamina.numpy.linalg": np.linalg, "lamina.numpy.fft": np.fft}
SHARED = {
    name: f
    for name, f in FUNCTIONS.items()
    if hasattr(NUMPYS.get(name.rpartition(".")[0]), name.rpartition(".")[2])
    and name.rpartition(".")[2] not in LEFT_OUT
}
# Where we differ from NumPy on purpose.
REASONS = {
    "choose": "NumPy's third argument is the array to write to",
    "frombuffer": "memory of other libraries is copied, as by array",
    "imag": "of real numbers NumPy gives zeros that cannot be written; here they cannot either, while the array lives",
    **dict.fromkeys(
        ["bool", "bool_", "complex64", "csingle", "float32", "single", "int32", "uint32"],
        "types called as functions convert to arrays of their own",
    ),
}


def _arrays(x):
    if isinstance(x, np.ndarray):
        return [x]
    if isinstance(x, (list, tuple)):
        return [a for part in x for a in _arrays(part)]
    return []


def _given(args, make):
    return tree.tree_map(lambda x: make(x) if isinstance(x, (np.ndarray, np.generic)) else x, list(args))


def compared(ours, theirs, args):
    """What of each result is a view in NumPy, and what refuses to be written here; None where a call fails."""
    mine, given = _given(args, lnp.array), _given(args, lambda x: np.array(x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            want = _arrays(theirs(*given))
            got = _leaves(ours(*mine))
        except Exception:  # arguments that do not fit
            return None
    if len(want) != len(got) or not want:
        return None
    views = [any(np.shares_memory(w, x) for x in _arrays(given)) for w in want]
    return views, [not _overwrite(g) if g.size else v for g, v in zip(got, views)]


@pytest.mark.parametrize("name", SHARED)
def test_functions(name):
    where, _, short = name.rpartition(".")
    theirs = getattr(NUMPYS[where], short)
    for args in [*MORE.get(short, []), *ROWS.get(name, []), *COMMON]:
        found = compared(SHARED[name], theirs, args)
        if found is not None and short not in REASONS:
            assert found[0] == found[1], f"{name}{args}: views in NumPy {found[0]}, refused here {found[1]}"


def test_the_rows_find_views_and_reasons_are_needed():
    views, differ = set(), set()
    for name, f in SHARED.items():
        where, _, short = name.rpartition(".")
        for args in [*MORE.get(short, []), *ROWS.get(name, []), *COMMON]:
            found = compared(f, getattr(NUMPYS[where], short), args)
            if found is not None and any(found[0]):
                views.add(short)
            if found is not None and found[0] != found[1]:
                differ.add(short)
    assert {"einsum", "nan_to_num", "diff", "reshape", "ravel", "transpose", "histogram", "polyder"} <= views
    assert len(views) > 35
    assert differ == set(REASONS)


CALLED = [
    "ravel", "flatten", "copy", "squeeze", "transpose", "view", "conj", "conjugate", "round", "cumsum", "cumprod",
    "diagonal", "argsort", "nonzero",
]  # fmt: skip
# Methods and properties, as functions of the array.
MEMBERS = {
    **{m: (lambda x, m=m: getattr(x, m)) for m in ("T", "mT", "real")},
    **{m: (lambda x, m=m: getattr(x, m)()) for m in CALLED},
    "reshape": lambda x: x.reshape(-1),
    "reshape to a tuple": lambda x: x.reshape((3, 2)),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "clip": lambda x: x.clip(0, 1),
    "repeat": lambda x: x.repeat(2),
    "take": lambda x: x.take([0, 1]),
    "compress": lambda x: x.compress([True, False], 0),
    "astype": lambda x: x.astype("float64"),
    "astype of the same": lambda x: x.astype(x.dtype),
    "view of another type": lambda x: x.view("int32"),
    "x[0]": lambda x: x[0],
    "x[1:]": lambda x: x[1:],
    "x[::-1, None]": lambda x: x[::-1, None],
    "x[...]": lambda x: x[...],
    "x[[0, 1]]": lambda x: x[[0, 1]],
    "x[mask]": lambda x: x[np.array([True, False])],
    "x[0, [1]]": lambda x: x[0, [1]],
    "iteration": lambda x: list(x),
    "reversed": lambda x: list(reversed(x)),
    "unpacking": lambda x: (lambda a, b: [a, b])(*x),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_methods_properties_and_indexing(name):
    found = compared(MEMBERS[name], MEMBERS[name], (A,))
    assert found is not None and found[0] == found[1], found


def test_nan_to_num_without_copy_writes_its_argument():
    x = lnp.array([1.0, np.nan, np.inf])
    y = lnp.nan_to_num(x, copy=False, posinf=7.0)
    assert x.tolist() == [1, 0, 7] and y.tolist() == [1, 0, 7]
    given = np.array([np.nan, 1.0])
    lnp.nan_to_num(given, copy=False)
    assert given.tolist() == [0, 1]
    assert lnp.nan_to_num([np.nan, 2.0], False).tolist() == [0, 2]
    assert lnp.nan_to_num(lnp.array([np.nan]), True, 3.0).tolist() == [3]
    z = lnp.array([1.0, np.nan])
    assert lm.jit(lambda z: lnp.nan_to_num(z, copy=False).sum())(z).item() == 1 and z.tolist() == [1, 0]


def test_each_result_of_several_is_a_view_of_its_own_argument():
    a, v = lnp.array(A), lnp.array(V)
    first, second = lnp.atleast_2d(v, a)
    del v
    first[0, 0] = 5.0  # its array is gone
    with pytest.raises(TypeError, match="another form"):
        second[0, 0] = 5.0
    np.testing.assert_array_equal(np.asarray(a), A)
