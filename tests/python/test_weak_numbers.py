"""A number beside float64 arrays is that number, to the last bit, and beside float32 arrays takes their type: in every
public function, for every argument, by place and by name, eager and jitted.

The calls are made from the rows of test_aliasing: each array, number or list of them among the arguments becomes a 0-d
(or 1-d) array of known type, and where that works the same call with a Python number, a NumPy scalar and a list must
give the same. (What these calls give with arrays, tests/differential compares with JAX.)
"""

from __future__ import annotations

import inspect
import warnings

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax, tree
from test_aliasing import COMMON, FUNCTIONS, ROWS

V, W = 0.1, 0.7  # float32 holds neither
LEFT_OUT = {
    "asarray": "gives the number itself",
    "asanyarray": "gives the number itself",
    "ascontiguousarray": "gives the number itself",
    "array": "gives the number itself",
    **dict.fromkeys(["load", "save", "savez"], "about files"),
}


# Functions with an argument whose own type is its result's, since no array beside it is its operand.
_EACH = "each result is made of one argument"
_PLACES = "the arrays beside it say where, how often or which"
_ORDERS = "the order or dimension gives no type"
ALONE = {
    **dict.fromkeys(
        [
            "numpy." + n
            for n in ["atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "ix_", "meshgrid"]
        ],
        _EACH,
    ),
    **dict.fromkeys(
        ["numpy." + n for n in ["choose", "compress", "extract", "insert", "piecewise"]], _PLACES
    ),
    **dict.fromkeys(
        ["numpy." + n for n in ["histogram", "histogram2d", "histogramdd"]], "counts are sums of weights"
    ),
    **dict.fromkeys(["lax.scan", "lax.sort_key_val", "lax.select_n"], _EACH),
    **dict.fromkeys(["lax.polygamma", "scipy.special.polygamma", "scipy.special.expn"], _ORDERS),
    "scipy.special.multigammaln": _ORDERS,
    "scipy.linalg.cho_factor": "gives `lower` back",
    "scipy.fft.dctn": _PLACES,
    "scipy.fft.idctn": _PLACES,
    "scipy.ndimage.map_coordinates": _PLACES,
    "lax.with_sharding_constraint": _EACH,
}


def _is_float(x):
    return isinstance(x, float) or (isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind == "f")


def _others(args, dtype):
    """The arguments with their floats in one type."""
    cast = lambda x: lnp.array(np.asarray(x, dtype)) if _is_float(x) else x  # noqa: E731
    keep = lambda x: lnp.array(x) if isinstance(x, (np.ndarray, np.generic)) else x  # noqa: E731
    return tree.tree_map(lambda x: keep(cast(x)), list(args))


def _leaves(f, args, kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [x for x in tree.tree_leaves(f(*args, **kwargs)) if isinstance(x, lm.Tensor)]


def _tried(f, args, kwargs):
    try:
        leaves = _leaves(f, args, kwargs)
        [np.asarray(x) for x in leaves]
        return leaves
    except Exception:  # no place for an array of this shape
        return None


def _shaped(f):
    try:
        return inspect.signature(f).parameters
    except (TypeError, ValueError):
        return {}


def _places(f, args):
    """(arguments, keywords, place or name) where a number may stand."""
    for i, x in enumerate(args):
        if _is_float(x) or (isinstance(x, (list, tuple)) and len(x) and all(map(_is_float, x))):
            yield i, {}
    given = list(_shaped(f))[: len(args)]
    for name, p in _shaped(f).items():
        if (
            name not in given
            and p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
            and name not in ("dtype", "out")
        ):
            yield name, {}


def _with(args, place, value):
    if isinstance(place, str):
        return args, {place: value}
    return [value if i == place else x for i, x in enumerate(args)], {}


def _compare(got, want, dtype, what):
    assert len(got) == len(want), what
    for g, w in zip(got, want):
        assert g.dtype == w.dtype, f"{what}: {g.dtype}, with an array {w.dtype}"
        g, w = np.asarray(g), np.asarray(w)
        if dtype == "float64" or g.dtype.kind not in "fc":
            np.testing.assert_array_equal(g, w, err_msg=what)
        else:
            np.testing.assert_allclose(g, w, rtol=2e-6, atol=1e-30, err_msg=what)


def _value_of(args, place):
    """A number, or a list where the row has a vector."""
    x = None if isinstance(place, str) else args[place]
    return [V, W, 0.3][: len(x)] if isinstance(x, np.ndarray) and x.ndim == 1 else V


def cases(f, name, dtype):
    """(what, numbers to try, arguments with a hole, place, result with an array of `dtype` in it)."""
    seen, found = set(), 0
    for row in [*ROWS.get(name, []), *COMMON]:
        for place, _ in _places(f, row):
            others = _others(row, dtype)
            for value in (V, _value_of(row, place)):
                if isinstance(value, list) and (place, "list") in seen:
                    continue
                if not any(
                    _is_float(x) for i, a in enumerate(row) if i != place for x in tree.tree_leaves(a)
                ):
                    continue
                array = lnp.array(np.asarray(value, dtype))
                want = _tried(f, *_with(others, place, array))
                if not want or not any(x.dtype.kind in "fcb" for x in want):
                    continue
                seen.add((place, "list" if isinstance(value, list) else "number"))
                yield f"{name}, {place}", value, others, place, want
                found += 1
        if found > 6:
            return


def _at(f, others, place):
    """`f` of the number alone; its other arguments are read from outside."""
    return lambda number: f(*[number if i == place else x for i, x in enumerate(others)])


def _jits(f, others, place):
    try:
        lm.jit(_at(f, others, place)).eval_shape(lnp.array(V, dtype="float64"))
        return True
    except Exception:  # the shape or the code depends on the value
        return False


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n.rpartition(".")[2] not in LEFT_OUT])
def test_numbers_beside_arrays(name):
    f = FUNCTIONS[name]
    if name.removeprefix("lamina.") in ALONE:
        return
    for dtype in ("float64", "float32"):
        for what, value, others, place, want in cases(f, name, dtype):
            scalar = [np.float64(v) for v in value] if isinstance(value, list) else np.float64(value)
            for number in (value, scalar):
                args, kwargs = _with(others, place, number)
                what = f"{what} = {number!r} beside {dtype}"
                try:
                    got = _leaves(f, args, kwargs)
                except (TypeError, ValueError):  # in words: an option, or lists in lax
                    continue
                _compare(got, want, dtype, what)
                if isinstance(number, float) and not isinstance(place, str) and _jits(f, others, place):
                    _compare(
                        _leaves(lm.jit(_at(f, others, place)), [number], {}), got, "float64", "jit of " + what
                    )


def test_arrays_of_one_number_are_as_weak_as_it():
    """full(n, 0.5) takes the type of what it meets, as the number would; a type that is named is not weak."""
    half = lnp.ones(3, "bfloat16")
    assert (lnp.full(3, 0.5) * half).dtype == "bfloat16" and lnp.full(3, 0.5).dtype == "float32"
    assert (lnp.full(3, 0.5, "float32") * half).dtype == "float32"
    assert (lnp.full(3, lnp.ones(())) * half).dtype == "float32"
    assert (lnp.where(lnp.isnan(half), lnp.full(3, lnp.nan), half)).dtype == "bfloat16"
    for f in (lnp.zeros_like, lnp.ones_like, lambda x, **k: lnp.full_like(x, 2, **k)):
        weak = f(lnp.full(3, 0.5))
        assert weak.weak_type and (weak * half).dtype == "bfloat16"
        assert not f(half).weak_type and not f(lnp.full(3, 0.5), dtype="float32").weak_type
    assert (
        lax.scan(lambda c, _: (c * lnp.ones(3), None), lnp.full(3, 0.5), None, length=2)[0].dtype == "float32"
    )
