"""Numbers keep their bits until their element type is decided, in every function and on every path."""

from __future__ import annotations

import inspect
import math
import pickle

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax

X = [0.3, 1.7, 2.9]
V = 0.1  # float32 holds it to 1.5e-9 only

# How each function of one array and one number is called, where it is not f(x, v).
CALLS = {
    "allclose": lambda np_, x: np_.allclose(x * 0 + V, V, rtol=0, atol=1e-12),
    "amax": lambda np_, x: np_.amax(x * 0.01, initial=V),
    "amin": lambda np_, x: np_.amin(x, initial=V),
    "append": lambda np_, x: np_.append(x, V),
    "arange": lambda np_, x: np_.arange(V, 1.0, 0.3, dtype="float64"),
    "array": lambda np_, x: np_.array(V, dtype="float64"),
    "asarray": lambda np_, x: np_.asarray([V, 2.0], dtype="float64"),
    "array_equal": lambda np_, x: np_.array_equal(x * 0 + V, [V, V, V]),
    "array_equiv": lambda np_, x: np_.array_equiv(x * 0 + V, V),
    "average": lambda np_, x: np_.average(x, weights=[V, 0.2, 0.7]),
    "bincount": lambda np_, x: np_.bincount(np_.array([0, 1, 1]), x * V),
    "block": lambda np_, x: np_.block([x, V]),
    "choose": lambda np_, x: np_.choose(np_.array([0, 1, 0]), [x, V]),
    "clip": lambda np_, x: np_.clip(x, V, 1.1),
    "column_stack": lambda np_, x: np_.column_stack([x, [V, V, V]]),
    "concat": lambda np_, x: np_.concat([x, [V, 0.7]]),
    "concatenate": lambda np_, x: np_.concatenate([x, [V, 0.7]]),
    "convolve": lambda np_, x: np_.convolve(x, [V, 0.7]),
    "correlate": lambda np_, x: np_.correlate(x, [V, 0.7], "full"),
    "cross": lambda np_, x: np_.cross(x, [V, 0.7, 0.2]),
    "diff": lambda np_, x: np_.diff(x, prepend=V, append=0.7),
    "digitize": lambda np_, x: np_.digitize(np_.array([V, 0.7], dtype="float64"), [V, 0.7]),
    "dot": lambda np_, x: np_.dot(x, [V, 0.7, 0.2]),
    "dstack": lambda np_, x: np_.dstack([x, [V, 0.7, 0.2]]),
    "ediff1d": lambda np_, x: np_.ediff1d(x, to_end=V, to_begin=[0.7]),
    "einsum": lambda np_, x: np_.einsum("i,i->", x, [V, 0.7, 0.2]),
    "full": lambda np_, x: np_.full(2, V, dtype="float64"),
    "full_like": lambda np_, x: np_.full_like(x, V),
    "geomspace": lambda np_, x: np_.geomspace(V, 3.3, 5, dtype="float64"),
    "gradient": lambda np_, x: np_.gradient(x, V),
    "histogram": lambda np_, x: np_.histogram(x, [V, 0.3, 1.7, 2.9])[1],
    "histogram2d": lambda np_, x: np_.histogram2d(x, x, bins=[[V, 0.3, 2.9], [V, 2.9]])[1],
    "histogram_bin_edges": lambda np_, x: np_.histogram_bin_edges(x, 3, (V, 3.3)),
    "hstack": lambda np_, x: np_.hstack([x, [V, 0.7]]),
    "intersect1d": lambda np_, x: np_.intersect1d(x, [0.3, V]),
    "isclose": lambda np_, x: np_.isclose(x * 0 + V, V, rtol=0, atol=1e-12),
    "inner": lambda np_, x: np_.inner(x, [V, 0.7, 0.2]),
    "insert": lambda np_, x: np_.insert(x, 1, V),
    "interp": lambda np_, x: np_.interp(V, [0.0, 0.3, 0.7], x),
    "isin": lambda np_, x: np_.isin(np_.array([V], dtype="float64"), [V, 0.7]),
    "kron": lambda np_, x: np_.kron(x, [V, 0.7]),
    "linspace": lambda np_, x: np_.linspace(V, 1.7, 11, dtype="float64"),
    "logspace": lambda np_, x: np_.logspace(V, 1.7, 5, dtype="float64"),
    "matmul": lambda np_, x: np_.matmul(x, [V, 0.7, 0.2]),
    "max": lambda np_, x: np_.max(x * 0.01, initial=V),
    "mean": lambda np_, x: np_.mean([V, 0.7, 0.2], dtype="float64"),
    "min": lambda np_, x: np_.min(x, initial=V),
    "nan_to_num": lambda np_, x: np_.nan_to_num(x * math.nan, nan=V),
    "nanmax": lambda np_, x: np_.nanmax(x * 0.01, initial=V),
    "nanmin": lambda np_, x: np_.nanmin(x, initial=V),
    "nanprod": lambda np_, x: np_.nanprod(x, initial=V),
    "nansum": lambda np_, x: np_.nansum(x, initial=V),
    "nanpercentile": lambda np_, x: np_.nanpercentile(x, 10 * V),
    "nanquantile": lambda np_, x: np_.nanquantile(x, V),
    "outer": lambda np_, x: np_.outer(x, [V, 0.7]),
    "pad": lambda np_, x: np_.pad(x, 1, constant_values=(V, 0.7)),
    "percentile": lambda np_, x: np_.percentile(x, 10 * V),
    "piecewise": lambda np_, x: np_.piecewise(x, [x > 1], [V, 0.7]),
    "polyadd": lambda np_, x: np_.polyadd(x, [V, 0.7]),
    "polydiv": lambda np_, x: np_.polydiv(x, [V, 0.7])[0],
    "polysub": lambda np_, x: np_.polysub(x, [V, 0.7]),
    "polyfit": lambda np_, x: np_.polyfit(x, [V, 0.7, 0.2], 1),
    "polyint": lambda np_, x: np_.polyint(x, 1, V),
    "polymul": lambda np_, x: np_.polymul(x, [V, 0.7]),
    "polyval": lambda np_, x: np_.polyval([V, 0.7], x),
    "prod": lambda np_, x: np_.prod(x, initial=V),
    "quantile": lambda np_, x: np_.quantile(x, V),
    "searchsorted": lambda np_, x: np_.searchsorted(np_.array([V, 0.7], dtype="float64"), V),
    "select": lambda np_, x: np_.select([x > 2, x > 1], [V, x], 0.2),
    "setdiff1d": lambda np_, x: np_.setdiff1d([0.3, V], x),
    "setxor1d": lambda np_, x: np_.setxor1d(x, [0.3, V]),
    "stack": lambda np_, x: np_.stack([x, [V, 0.7, 0.2]]),
    "std": lambda np_, x: np_.std([V, 0.7, 0.2], dtype="float64"),
    "sum": lambda np_, x: np_.sum(x, initial=V),
    "tensordot": lambda np_, x: np_.tensordot(x, [V, 0.7, 0.2], 1),
    "trapezoid": lambda np_, x: np_.trapezoid(x, dx=V),
    "union1d": lambda np_, x: np_.union1d(x, [0.3, V]),
    "var": lambda np_, x: np_.var([V, 0.7, 0.2], dtype="float64"),
    "vdot": lambda np_, x: np_.vdot(x, [V, 0.7, 0.2]),
    "vecdot": lambda np_, x: np_.vecdot(x, [V, 0.7, 0.2]),
    "vstack": lambda np_, x: np_.vstack([x, [V, 0.7, 0.2]]),
    "where": lambda np_, x: np_.where(x > 1, x, V),
}
# Parameters whose numbers are elements, and functions that have one and are not called here, with the reason.
ELEMENTS = {
    "a1", "a2", "append", "ar2", "arrays", "b", "base", "bins", "choicelist", "choices", "constant_values", "dx",
    "end_values", "fill_value", "fp", "funclist", "initial", "left", "max", "nan", "object", "operands", "posinf",
    "prepend", "q", "start", "test_elements", "to_end", "tup", "v", "val", "values", "weights", "x2", "y",
}  # fmt: skip
ELSEWHERE = {
    "argwhere": "indices, filled with an integer",
    "array_split": "a number of parts",
    "asanyarray": "asarray",
    "ascontiguousarray": "asarray",
    "corrcoef": "numbers become rows: cov",
    "cov": "takes samples, which numbers are not",
    "compress": "fills: test_weak_numbers",
    "extract": "fills: test_weak_numbers",
    "einsum_path": "an order of products, of shapes",
    "cumulative_prod": "a number of the array API: cumprod",
    "diag": "its v is the array",
    "diagflat": "its v is the array",
    "fill_diagonal": "writes: test_paths",
    "flatnonzero": "indices, filled with an integer",
    "histogramdd": "histogram2d",
    "iterable": "its y is any object",
    "nonzero": "indices, filled with an integer",
    "promote_types": "types",
    "put": "writes: test_paths",
    "putmask": "writes: test_paths",
    "put_along_axis": "writes: test_paths",
    "rollaxis": "its start is an axis",
    "take": "test_paths",
    "take_along_axis": "test_paths",
    **dict.fromkeys(["unique_all", "unique_counts", "unique_inverse", "unique_values"], "unique"),
    "unique": "fills with one of its elements' type: test_element_types",
}


def two_operands(name: str) -> bool:
    """Whether the function is called as f(x, v)."""
    f = getattr(lnp, name)
    if name in CALLS or isinstance(f, type) or not callable(f) or name.startswith("_"):
        return False
    try:
        names = list(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        return False
    return names[:2] == ["x1", "x2"] and hasattr(np, name)


def check(got: object, want: object, name: str) -> None:
    for g, w in zip(
        got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True
    ):
        w = np.asarray(w)
        g = lnp.asarray(g)
        if w.dtype.kind == "f":
            assert g.dtype == w.dtype, f"{name}: {g.dtype}"
            np.testing.assert_allclose(g.numpy(), w, rtol=4e-15, atol=1e-300, err_msg=name)
        else:
            np.testing.assert_array_equal(g.numpy(), w, err_msg=name)


FUNCTIONS = sorted(n for n in dir(lnp) if n in CALLS or two_operands(n))


def test_the_table_is_of_functions_that_exist():
    assert [n for n in [*CALLS, *ELSEWHERE] if not hasattr(lnp, n)] == []
    assert len(FUNCTIONS) > 90


def test_every_function_that_takes_numbers_is_called():
    missing = []
    for name in lnp.__all__ if hasattr(lnp, "__all__") else dir(lnp):
        f = getattr(lnp, name)
        if name.startswith("_") or isinstance(f, type) or not callable(f) or hasattr(f, "itemsize"):
            continue
        try:
            parameters = set(inspect.signature(f).parameters)
        except (TypeError, ValueError):
            continue
        if parameters & ELEMENTS and name not in FUNCTIONS and name not in ELSEWHERE:
            missing.append((name, sorted(parameters & ELEMENTS)))
    assert missing == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_numbers_beside_float64(name):
    """A Python float beside a float64 array is that number, as in NumPy; in either place, eager and jitted."""
    x = np.array(X)
    call = CALLS.get(name)
    if call is not None:
        check(call(lnp, lnp.asarray(x)), call(np, x), name)
        return
    f, g = getattr(lnp, name), getattr(np, name)
    if name in (
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "left_shift",
        "right_shift",
        "gcd",
        "lcm",
        "ldexp",
        "bitwise_left_shift",
        "bitwise_right_shift",
    ):
        wide = np.array([2**40, 3, 5])
        number = 3 if "shift" in name or name == "ldexp" else 2**33 + 1
        if name == "ldexp":
            check(f(lnp.asarray(x), 3), g(x, 3), name)
            check(f(V, lnp.arange(3)), g(np.float32(V), np.arange(3, dtype=np.int32)), name)
            return
        check(f(lnp.asarray(wide), number), g(wide, number), name)
        return
    if name in ("matvec", "vecmat"):
        pytest.skip("takes matrices")
    for other in (V, np.float64(V), [V, 0.7, 0.2]):
        check(f(lnp.asarray(x), other), g(x, other), name)
        check(f(other, lnp.asarray(x)), g(other, x), name)
    check(lm.jit(f)(lnp.asarray(x), V), g(x, V), name)
    check(lm.jit(f)(V, lnp.asarray(x)), g(V, x), name)


OPERATORS = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "**": lambda a, b: a**b,
    "<": lambda a, b: a < b,
    "==": lambda a, b: a == b,
}


@pytest.mark.parametrize("op", OPERATORS)
def test_operators(op):
    f, x = OPERATORS[op], np.array([*X, V])
    t = lnp.asarray(x)
    for v in (V, np.float64(V), lnp.asarray(V)):
        check(f(t, v), f(x, V), op)
        check(f(v, t), f(V, x), op)


def wide(value=1.0):
    return lnp.asarray(np.float64(value).reshape(1) * np.ones(2))


# Each way for a number to come beside a float64 array: what it gives, and what it is exactly.
PATHS = {
    "setitem": (lambda: assigned(lnp.zeros(1, dtype="float64"), 0, V), V),
    "setitem, numpy scalar": (lambda: assigned(lnp.zeros(1, dtype="float64"), 0, np.float64(V)), V),
    "setitem, list": (lambda: assigned(lnp.zeros(2, dtype="float64"), slice(None), [V, V]), V),
    "setitem, mask": (lambda: assigned(wide(), wide() > 0, V), V),
    "at set": (lambda: wide().at[0].set(V), V),
    "at add": (lambda: wide(0).at[0].add(V), V),
    "at subtract": (lambda: wide(0).at[0].subtract(-V), V),
    "at multiply": (lambda: wide().at[0].multiply(V), V),
    "at divide": (lambda: wide().at[0].divide(V), 1 / V),
    "at power": (lambda: wide(2).at[0].power(V), 2**V),
    "at min": (lambda: wide().at[0].min(V), V),
    "at max": (lambda: wide(0).at[0].max(V), V),
    "at get fill": (lambda: wide().at[lnp.array([9])].get(mode="fill", fill_value=V), V),
    "take fill": (lambda: lnp.take(wide(), lnp.array([9]), mode="fill", fill_value=V), V),
    "take_along_axis fill": (
        lambda: lnp.take_along_axis(wide(), lnp.array([9]), 0, mode="fill", fill_value=V),
        V,
    ),
    "pad to an end": (lambda: lnp.pad(wide(), 1, mode="linear_ramp", end_values=V)[0], V),
    "where": (lambda: lnp.where(True, V, wide()), V),
    "where of numbers": (lambda: lnp.where(True, V, 0.2) * wide(), V),
    "number as a Tensor": (lambda: lnp.asarray(V) * wide(), V),
    "number as an array": (lambda: lnp.array(V) * wide(), V),
    "arithmetic of such": (lambda: (lnp.asarray(V) / 3 + 1) * wide(), V / 3 + 1),
    "function of such": (lambda: lnp.exp(V) * wide(), math.exp(V)),
    "power of such": (lambda: lnp.asarray(V) ** 3 * wide(), V**3),
    "moved": (lambda: lnp.reshape(V, (1, 1))[..., 0] * wide(), V),
    "stacked": (lambda: lnp.stack([lnp.asarray(V), lnp.asarray(V)]) * wide(), V),
    "astype": (lambda: lnp.asarray(V).astype("float64"), V),
    "pickled": (lambda: pickle.loads(pickle.dumps(lnp.asarray(V))) * wide(), V),
    "copied": (lambda: lnp.asarray(V).copy() * wide(), V),
    "fill_diagonal": (lambda: lnp.fill_diagonal(lnp.zeros((2, 2), dtype="float64"), V, inplace=False), V),
    "putmask": (lambda: lnp.putmask(wide(), [True, True], V, inplace=False), V),
    "place": (lambda: lnp.place(wide(), [True, True], [V], inplace=False), V),
    "copyto": (lambda: lnp.copyto(wide(), V, inplace=False), V),
    "put_along_axis": (
        lambda: lnp.put_along_axis(wide(), lnp.array([0]), V, 0, inplace=False),
        V,
    ),
    "put": (lambda: lnp.put(wide(), [0], [V], inplace=False), V),
    "jit": (lambda: lm.jit(lambda x, v: x * v)(wide(), V), V),
    "jit, numpy scalar": (lambda: lm.jit(lambda x, v: x * v)(wide(), np.float64(V)), V),
    "jit, container": (lambda: lm.jit(lambda x, c: x * c["v"][0])(wide(), {"v": [V]}), V),
    "jit, arithmetic": (lambda: lm.jit(lambda x, v: x * (v / 3))(wide(), V), V / 3),
    "jit, result": (lambda: lm.jit(lambda v: v / 3)(V) * wide(), V / 3),
    "jit in jit": (lambda: lm.jit(lambda x, v: lm.jit(lambda y, w: y * w)(x, v))(wide(), V), V),
    "vmap": (lambda: lm.vmap(lambda x, v: x * v, in_axes=(0, None))(wide(), V), V),
    "vmap, result": (lambda: lm.vmap(lambda x: 0.1, in_axes=0)(wide()) * wide(), V),
    "jvp": (lambda: lm.jvp(lambda x, v: x * v, (wide(), V), (wide(), V))[0], V),
    "jvp, tangent": (lambda: lm.jvp(lambda v: wide() * v, (1.0,), (V,))[1], V),
    "vjp": (lambda: lm.vjp(lambda x: x * 1.0, wide())[1](wide() * V)[0], V),
    "vjp, number": (lambda: lm.vjp(lambda x, v: x * v, wide(), V)[1](wide())[0], V),
    "linearize": (lambda: lm.linearize(lambda v: wide() * v, 1.0)[1](V), V),
    "grad": (lambda: lm.grad(lambda x, v: (x * v).sum())(wide(), V), V),
    "grad of a number": (lambda: lm.grad(lambda v: (wide() * v * v)[0])(V) * wide(), 2 * V),
    "checkpoint": (lambda: lm.checkpoint(lambda x, v: x * v)(wide(), V), V),
    "cond": (lambda: lax.cond(True, lambda x, v: x * v, lambda x, v: x + v, wide(), V), V),
    "cond, number out": (lambda: lax.cond(True, lambda: V, lambda: 0.2) * wide(), V),
    "switch": (lambda: lax.switch(1, [lambda x, v: x, lambda x, v: x * v], wide(), V), V),
    "while": (
        lambda: lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, c[1], c[2] * c[1]), (0, V, wide()))[
            2
        ],
        V,
    ),
    "while, number out": (
        lambda: lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, c[1] / 3), (0, V))[1] * wide(),
        V / 3,
    ),
    "fori": (lambda: lax.fori_loop(0, 1, lambda i, c: (c[0], c[1] * c[0]), (V, wide()))[1], V),
    "fori, settled": (
        lambda: lax.fori_loop(0, 1, lambda i, c: c + wide() * V, lnp.zeros(2, dtype="float64")),
        V,
    ),
    "fori, number into array": (lambda: lax.fori_loop(0, 1, lambda i, c: V, lnp.float64(0.0)), V),
    "scan": (lambda: lax.scan(lambda c, x: (c, x * c), V, wide())[1], V),
    "scan, number out": (lambda: lax.scan(lambda c, x: (c, c), V, wide())[1] * wide(), V),
    "lax": (lambda: lax.mul(wide(), V), V),
    "lax.full": (lambda: lax.full((2,), V, "float64"), V),
    "lax.select": (lambda: lax.select(True, lnp.asarray(V), lnp.float64(0)), V),
    "nn": (lambda: lm.nn.leaky_relu(-wide(), V), -V),
}


def assigned(x, key, value):
    x[key] = value
    return x


@pytest.mark.parametrize("name", PATHS)
def test_paths(name):
    f, want = PATHS[name]
    got = f()
    got = got.ravel()[0]
    assert got.dtype == "float64"
    assert got.item() == pytest.approx(want, rel=3e-16, abs=0)


def test_python_integers_keep_64_bits():
    big = lnp.asarray(np.array([2**40]))
    assert (big * lnp.asarray(3)).item() == 3 * 2**40
    assert lm.jit(lambda x, n: x + n * n)(big, 100_000).item() == 2**40 + 10**10
    assert lm.jit(lambda x, n: x * n)(big, 2**20 + 1).item() == 2**40 * (2**20 + 1)
    assert lnp.where(True, 2**53 + 1, lnp.asarray(np.array(1))).item() == 2**53 + 1


def test_weak_numbers_stay_weak_and_of_the_default_type():
    for x in (
        lnp.asarray(V),
        lnp.array(V),
        lnp.exp(V),
        lm.jit(lambda v: v * 2)(V),
        lnp.asarray(np.float64(V)),
    ):
        assert x.dtype == "float32"
        assert x.weak_type
        for dtype in ("bfloat16", "float16", "float32", "float64"):
            assert (lnp.ones(2, dtype=dtype) * x).dtype == dtype
    assert (lnp.array(1.0) * lnp.ones(2, dtype="bfloat16")).dtype == "bfloat16"
    assert not lnp.array(1.0, dtype="float32").weak_type
    assert not lnp.array([1.0]).weak_type


def test_narrow_types_are_rounded_once():
    # Between float32 and bfloat16: rounding twice gives the even neighbour.
    v = 1.0 + 2**-8 + 2**-30
    assert (lnp.asarray(v) * lnp.ones((), dtype="bfloat16")).item() == 1 + 2**-7
    assert lm.jit(lambda x, v: x * v)(lnp.ones((), dtype="bfloat16"), v).item() == 1 + 2**-7


def test_eager_jit_and_vmap_agree_bit_for_bit():
    def f(x, v):
        w = lnp.sin(v) / 3 + lnp.hypot(v, 2.0)
        return x * w, w

    for dtype in ("float64", "float32", "bfloat16"):
        x = lnp.asarray([0.3, 0.7]).astype(dtype)
        a, b = f(x, V), lm.jit(f)(x, V)
        c = lm.vmap(f, in_axes=(0, None))(x, V)
        for p, q, r in zip(a, b, c, strict=True):
            assert p.dtype == q.dtype == r.dtype
            assert p.astype("float64").tolist() == q.astype("float64").tolist()
            assert lnp.broadcast_to(p, r.shape).astype("float64").tolist() == r.astype("float64").tolist()


def test_a_number_does_not_split_keys():
    f = lm.jit(lambda x, v: x * v)
    x = wide()
    f(x, 0.1)
    before = lm.cache.stats()["entries"] if hasattr(lm.cache, "stats") else None
    for v in (0.2, 0.3, np.float64(0.4), 7.25):
        assert f(x, v).tolist() == [v, v]
    assert "1 entry" in repr(f)
    assert before is None or lm.cache.stats()["entries"] == before


@pytest.mark.parametrize(
    "scalar", [np.float64(2.0), np.sqrt(4.0), np.float32(2.0), np.float16(2), np.longdouble(2)]
)
def test_numpy_floats_are_numbers(scalar):
    for x in (lnp.ones(2), lnp.ones(2, dtype="bfloat16"), lnp.ones(2, dtype="float64")):
        for y in (
            x / scalar,
            scalar * x,
            x**scalar,
            lnp.maximum(x, scalar),
            lm.jit(lambda a, b: a - b)(x, scalar),
            lnp.where(True, x, scalar),
            lnp.append(x, scalar),
            x.at[0].set(scalar),
        ):
            assert y.dtype == x.dtype
    assert lnp.array([scalar, 1.0]).dtype == "float32"
    assert lnp.full(2, scalar).dtype == "float32"
    if scalar.dtype != np.longdouble:
        assert lnp.asarray(np.asarray(scalar)).dtype == scalar.dtype


def test_numpy_integers_and_others_are_numbers():
    x = lnp.ones(2, dtype="int8")
    for scalar in (np.int64(2), np.uint8(2), np.int32(2)):
        assert (x + scalar).dtype == "int8"
        assert (scalar * x).dtype == "int8"
        assert (lnp.ones(2) * scalar).dtype == "float32"
        assert (lnp.ones(2) ** scalar).dtype == "float32"
    assert (lnp.ones(2) * np.complex128(1j)).dtype == "complex64"
    assert lnp.asarray(np.bool_(True)).dtype == "bool"
    with pytest.raises(OverflowError):
        x + np.int64(300)
    assert (lnp.ones(2) * np.asarray(2.0)).dtype == "float64"  # an array, if of no dimensions
    assert np.float64(2) * lnp.asarray(np.ones(2)) is not None
    ml_dtypes = pytest.importorskip("ml_dtypes")
    assert (lnp.ones(2) * ml_dtypes.bfloat16(2)).dtype == "float32"


def test_float64_scalar_times_tensor_is_a_tensor():
    y = np.float64(2.0) * lnp.ones(2)
    assert isinstance(y, lm.Tensor)
    assert y.dtype == "float32"


def test_exported_programs_take_numbers_in_the_default_type():
    text = lm.stablehlo.dumps(lm.jit(lambda x, v: x * v).lower(lnp.ones(2), V))
    assert "f64" not in text
    assert "%arg1: tensor<f32>" in text
    text = lm.stablehlo.dumps(lm.jit(lambda x, v: (x * v, v * 2)).lower(lnp.ones(2), V))
    results = lm.stablehlo.loads(text)(lnp.ones(2), lnp.float32(V))
    assert [r.dtype for r in results] == ["float32", "float32"]
    assert results[1].item() == np.float32(2 * np.float32(V))
