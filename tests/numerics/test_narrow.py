"""Element types of a byte or less: floats against ml_dtypes on every pattern, integers against Python's integers.

Every check runs as machine code, in the interpreting tier and in the evaluator's fold of constants.
"""

from __future__ import annotations

import contextlib

import lamina as lm
import lamina.numpy as lnp
import ml_dtypes
import numpy as np
import pytest
from lamina import _core, dtypes, lax
from ulps import same as same_bits

FLOATS = [n for n, t in dtypes.TABLE.items() if t.kind == "f" and t.itemsize == 1]
INTEGERS = [n for n, t in dtypes.TABLE.items() if t.kind in "iu" and t.bits < 8]


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def numpy_type(name):
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def same(a, b):
    """Equal types, shapes and bits; of integers values: what lies above their width differs."""
    if a.dtype.name in INTEGERS:
        return a.dtype == b.dtype and np.array_equal(a.astype(int), b.astype(int))
    return same_bits(a, b)


def patterns(name):
    """Every value of a type once."""
    return np.arange(2 ** dtypes.TABLE[name].bits, dtype=np.uint8).view(numpy_type(name))


@contextlib.contextmanager
def compiled():
    _core.set_eager_compile(True)
    try:
        yield
    finally:
        _core.set_eager_compile(False)


def everywhere(f, *arrays):
    """f of NumPy arrays: interpreted, compiled, and folded; all must agree."""
    tensors = [lnp.asarray(a) for a in arrays]
    out = f(*tensors).numpy()
    with compiled():
        machine = lm.jit(f)(*tensors).numpy()
    assert same(out, machine)
    closed = lm.jit(lambda: f(*[lnp.asarray(a) for a in arrays]))
    assert same(out, closed().numpy())
    return out


def f32_samples():
    """Special values, halfway points of every format and their neighbours, then random patterns."""
    x = [0.0, np.inf, np.nan, 1e-45, 2.0**-126, 3.4e38, 2.0**-127, 1.5 * 2.0**-127]
    for name in FLOATS:
        v = np.unique(np.abs(patterns(name).astype(np.float64)))
        v = v[np.isfinite(v)]
        top = v[-1] + (v[-1] - v[-2])
        v = np.concatenate([v, [top, 2 * top]])
        x += [*v, *((v[1:] + v[:-1]) / 2)]
    x = np.array(x).astype(np.float32)
    x = np.concatenate([x, np.nextafter(x, np.float32(0)), np.nextafter(x, np.float32(np.inf))])
    random = np.random.default_rng(3).integers(0, 2**32, 1_000_000, dtype=np.uint32).view(np.float32)
    near = np.random.default_rng(4).normal(0, 8, 100_000).astype(np.float32)
    return np.concatenate([x, -x, random, near])


def rounded(x, name):
    """`x` rounded once; NaN where there is none is -0 here, of either sign in ml_dtypes.

    ml_dtypes rounds doubles to float32 first, so they come as float32 with an odd last bit where that is inexact; and
    before 0.7 it rounded up all that lies between the two least numbers of float8_e8m0fnu.
    """
    x = np.asarray(x)
    if x.dtype == np.float64:
        near = x.astype(np.float32)
        back = near.astype(np.float64)
        down = np.where(np.abs(back) > np.abs(x), np.nextafter(near, np.float32(0)), near)
        odd = (down.view(np.uint32) | 1).view(np.float32)
        x = np.where((back == x) | np.isnan(x), near, odd)
    if name == "float8_e8m0fnu":
        x = x.astype(np.float32)
        x = np.where((x > 2.0**-127) & (x < 1.5 * 2.0**-127), np.float32(2.0**-127), x)
    out = x.astype(numpy_type(name))
    if dtypes.TABLE[name].layout[3] == "none":
        out = np.where(np.isnan(x), np.array(-0.0, np.float32).astype(out.dtype), out)
    return out


@pytest.mark.parametrize("name", FLOATS)
def test_every_pattern_is_decoded(name):
    a = patterns(name)
    for to in ("float32", "float64", "float16", "bfloat16"):
        got = everywhere(lambda x, to=to: x.astype(to), a)
        assert same(got, a.astype(np.float32).astype(numpy_type(to)))
    np.testing.assert_array_equal(np.isnan(a.astype(np.float32)), lnp.isnan(lnp.asarray(a)).numpy())


@pytest.mark.parametrize("name", FLOATS)
def test_every_pattern_comes_back(name):
    a = patterns(name)
    wide = lnp.asarray(a).astype("float32")
    assert same(wide.astype(name).numpy(), a)
    assert np.array_equal(lnp.asarray(a).numpy().view(np.uint8), a.view(np.uint8))


@pytest.mark.parametrize("name", FLOATS)
def test_float32_is_rounded_once(name):
    x = f32_samples()
    assert same(everywhere(lambda v: v.astype(name), x), rounded(x, name))


@pytest.mark.parametrize("name", FLOATS)
def test_wider_sources_are_rounded_once(name):
    v = np.unique(patterns(name).astype(np.float64))
    v = v[np.isfinite(v)]
    half = (v[1:] + v[:-1]) / 2
    x = np.concatenate(
        [half, np.nextafter(half, -np.inf), np.nextafter(half, np.inf), v, [1e300, -1e300, 1e-300]]
    )
    assert same(everywhere(lambda t: t.astype(name), x), rounded(x, name))
    whole = [
        0,
        1,
        3,
        5,
        7,
        9,
        17,
        19,
        25,
        27,
        31,
        33,
        49,
        232,
        464,
        465,
        61440,
        61441,
        2**24 + 1,
        3 * 2**40,
        3 * 2**40 - 1,
    ]
    for source in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"):
        limits = np.iinfo(source)
        n = np.array([w for w in whole if w <= limits.max] + [limits.max], source)
        if limits.min < 0:
            n = np.concatenate([n, -n, [limits.min]]).astype(source)
        want = np.array([float(rounded(_odd(int(w)), name).astype(np.float32)) for w in n], np.float32)
        got = everywhere(lambda t: t.astype(name), n).astype(np.float32)
        np.testing.assert_array_equal(got, want, err_msg=source)


def _odd(n):
    """A double that rounds as the integer does."""
    d = float(n)
    if int(d) == n:
        return np.float64(d)
    toward = np.nextafter(d, 0.0) if abs(int(d)) > abs(n) else d
    return (np.array(toward).view(np.int64) | 1).view(np.float64)


@pytest.mark.parametrize("name", FLOATS)
def test_halves_are_rounded_once(name):
    for half in (np.float16, ml_dtypes.bfloat16):
        x = np.arange(65536, dtype=np.uint16).view(half)
        assert same(everywhere(lambda t: t.astype(name), x), rounded(x.astype(np.float32), name))


@pytest.mark.parametrize("name", FLOATS)
def test_to_integers_saturates(name):
    a = patterns(name)
    for to in ("int8", "uint8", "int32", "int4", "uint4", "int2", "bool"):
        got = everywhere(lambda x, to=to: x.astype(to), a)
        wide = a.astype(np.float64)
        if to == "bool":
            want = wide != 0
        else:
            low, high = dtypes.extremes(to)
            want = np.clip(np.trunc(np.nan_to_num(wide, nan=0.0)), low, high)
        np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64), err_msg=to)


BINARY = {
    "add": (lax.add, np.add),
    "subtract": (lax.sub, np.subtract),
    "multiply": (lax.mul, np.multiply),
    "divide": (lax.div, np.divide),
    "maximum": (lax.max, np.maximum),
    "minimum": (lax.min, np.minimum),
}
COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater}


def pairs(name):
    a = patterns(name)
    return np.repeat(a, len(a)), np.tile(a, len(a))


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("op", BINARY)
def test_arithmetic_of_every_pair(name, op):
    f, oracle = BINARY[op]
    a, b = pairs(name)
    want = oracle(a.astype(np.float32), b.astype(np.float32))
    if op in ("maximum", "minimum"):  # -0 is below +0
        first = np.signbit(a.astype(np.float32)) == (op == "minimum")
        both_zero = (a.astype(np.float32) == 0) & (b.astype(np.float32) == 0)
        want = np.where(both_zero, np.where(first, a, b).astype(np.float32), want)
    assert same(everywhere(f, a, b), rounded(want, name))


@pytest.mark.parametrize("name", FLOATS + INTEGERS)
@pytest.mark.parametrize("op", COMPARE)
def test_order_of_every_pair(name, op):
    a, b = pairs(name)
    got = everywhere(getattr(lax, op), a, b)
    wide = np.float32 if name in FLOATS else np.int32
    np.testing.assert_array_equal(got, COMPARE[op](a.astype(wide), b.astype(wide)))


UNARY = {
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sin": np.sin,
    "abs": np.abs,
    "neg": np.negative,
    "floor": np.floor,
    "ceil": np.ceil,
    "sign": np.sign,
}


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("op", UNARY)
def test_functions_of_every_value(name, op):
    a = patterns(name)
    want = UNARY[op](a.astype(np.float64))
    if op == "sign":
        want = np.where(a.astype(np.float64) == 0, a.astype(np.float64), want)
    assert same(everywhere(getattr(lax, op), a), rounded(want, name))


def wrap(n, name):
    t = dtypes.TABLE[name]
    n &= 2**t.bits - 1
    return n - 2**t.bits if t.kind == "i" and n >= 2 ** (t.bits - 1) else n


def _quotient(a, b, t):
    return wrap(-1, t) if b == 0 else wrap(int(a / b), t)


def _shift(a, b, t, f):
    width = dtypes.TABLE[t].bits
    b %= 2**width
    return f(a, b, width)


INTEGER = {
    "add": (lax.add, lambda a, b, t: wrap(a + b, t)),
    "sub": (lax.sub, lambda a, b, t: wrap(a - b, t)),
    "mul": (lax.mul, lambda a, b, t: wrap(a * b, t)),
    "div": (lax.div, _quotient),
    "rem": (lax.rem, lambda a, b, t: a if b == 0 else a - int(a / b) * b),
    "max": (lax.max, lambda a, b, t: max(a, b)),
    "min": (lax.min, lambda a, b, t: min(a, b)),
    "and": (lax.bitwise_and, lambda a, b, t: wrap(a & b, t)),
    "or": (lax.bitwise_or, lambda a, b, t: wrap(a | b, t)),
    "xor": (lax.bitwise_xor, lambda a, b, t: wrap(a ^ b, t)),
    "shl": (lax.shift_left, lambda a, b, t: _shift(a, b, t, lambda x, n, w: wrap(x << n, t) if n < w else 0)),
    "shr": (
        lax.shift_right_logical,
        lambda a, b, t: _shift(a, b, t, lambda x, n, w: wrap((x % 2**w) >> n, t) if n < w else 0),
    ),
    "sar": (
        lax.shift_right_arithmetic,
        lambda a, b, t: _shift(
            a, b, t, lambda x, n, w: wrap((x - 2**w if x >= 2 ** (w - 1) else x) >> min(n, w - 1), t)
        ),
    ),
    "pow": (lax.pow, None),
}


@pytest.mark.parametrize("name", INTEGERS)
@pytest.mark.parametrize("op", INTEGER)
def test_integers_of_every_pair(name, op):
    f, oracle = INTEGER[op]
    a, b = pairs(name)
    if oracle is None:
        b = np.where(b.astype(int) < 0, np.array(0, b.dtype), b)
        oracle = lambda x, y, t: wrap(x**y, t)  # noqa: E731
    want = [oracle(int(x), int(y), name) for x, y in zip(a, b)]
    got = everywhere(f, a, b)
    assert got.dtype == numpy_type(name)
    np.testing.assert_array_equal(got.astype(int), want)


@pytest.mark.parametrize("name", INTEGERS)
def test_unary_integers(name):
    a, width = patterns(name), dtypes.TABLE[name].bits
    n = a.astype(int)
    bits = n % 2**width
    cases = {
        lax.neg: [wrap(-int(x), name) for x in n],
        lax.abs: [wrap(abs(int(x)), name) for x in n],
        lax.sign: np.sign(n),
        lax.bitwise_not: [wrap(~int(x), name) for x in n],
        lax.population_count: [wrap(bin(x).count("1"), name) for x in bits],
        lax.clz: [wrap(width - int(x).bit_length(), name) for x in bits],
    }
    for f, want in cases.items():
        if f in (lax.neg, lax.abs) and name.startswith("u") and f is lax.abs:
            continue
        np.testing.assert_array_equal(everywhere(f, a).astype(int), want, err_msg=f.__name__)


@pytest.mark.parametrize("name", INTEGERS)
def test_integer_conversions(name):
    wide = np.array([-300, -129, -9, -8, -3, -1, 0, 1, 2, 3, 5, 7, 8, 15, 16, 200, 2**31 - 1], np.int64)
    want = [wrap(int(x), name) for x in wide]
    for source in ("int64", "int32", "int16"):
        got = everywhere(lambda v: v.astype(name), wide.astype(source))
        np.testing.assert_array_equal(got.astype(int), [wrap(int(x), name) for x in wide.astype(source)])
    low, high = dtypes.extremes(name)
    x = np.array([-9.7, -2.5, -0.9, 0.9, 1.5, 3.99, 7.9, 9.7, 100, np.inf, -np.inf, np.nan], np.float32)
    for source in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e5m2):
        v = x.astype(source)
        exact = np.clip(np.trunc(np.nan_to_num(v.astype(np.float64), nan=0)), low, high)
        np.testing.assert_array_equal(everywhere(lambda t: t.astype(name), v).astype(int), exact)
    a = patterns(name)
    for to in ("int32", "float32", "bfloat16", "float8_e5m2", "complex64", "bool", "uint8", "int8"):
        got = everywhere(lambda t, to=to: t.astype(to), a)
        want = a.astype(int).astype(np.int8).astype(numpy_type(to)) if to != "uint8" else a.astype(int) % 256
        np.testing.assert_array_equal(
            got.astype(np.complex64), np.asarray(want).astype(np.complex64), err_msg=to
        )


@pytest.mark.parametrize("name", FLOATS + INTEGERS)
def test_movement(name):
    rng = np.random.default_rng(5)
    a = rng.choice(patterns(name)[1:7], (6, 10))
    fill = a[0, 0]
    cases = {
        "reshape": (lambda x: x.reshape(10, 6), a.reshape(10, 6)),
        "transpose": (lambda x: x.T, a.T),
        "slice": (lambda x: x[1:5:2, ::-3], a[1:5:2, ::-3]),
        "gather": (lambda x: x[lnp.array([4, 0, 4])], a[[4, 0, 4]]),
        "concatenate": (lambda x: lnp.concatenate([x, x], 1), np.concatenate([a, a], 1)),
        "broadcast": (lambda x: lnp.broadcast_to(x[0], (3, 10)), np.broadcast_to(a[0], (3, 10))),
        "where": (
            lambda x: lnp.where(lnp.asarray(a.astype(np.float32) > 1), x, x[::-1]),
            np.where(a.astype(np.float32) > 1, a, a[::-1]),
        ),
        "pad": (lambda x: lnp.pad(x, 1, constant_values=x[0, 0]), None),
        "set": (lambda x: x.at[2].set(x[0]), np.concatenate([a[:2], a[:1], a[3:]])),
    }
    padded = np.full((8, 12), fill)
    padded[1:-1, 1:-1] = a
    for what, (f, want) in cases.items():
        assert same(everywhere(f, a), padded if want is None else want), what


@pytest.mark.parametrize("name", FLOATS + INTEGERS)
def test_sort_and_extremes(name):
    rng = np.random.default_rng(6)
    values = patterns(name)
    wide = np.float32 if name in FLOATS else np.int32
    values = values[np.isfinite(values.astype(np.float32)) & (values.astype(np.float32) != 0)]
    a = rng.choice(values, (5, 300))
    order = np.argsort(a.astype(wide), axis=1, kind="stable")
    assert same(everywhere(lambda x: lnp.sort(x, axis=1), a), np.take_along_axis(a, order, 1))
    np.testing.assert_array_equal(everywhere(lambda x: lnp.argsort(x, axis=1), a), order)
    for f, oracle in ((lnp.max, np.max), (lnp.min, np.min)):
        np.testing.assert_array_equal(
            everywhere(lambda x, f=f: f(x, axis=1), a).astype(wide), oracle(a.astype(wide), 1)
        )
    np.testing.assert_array_equal(
        everywhere(lambda x: lnp.argmax(x, axis=1), a), np.argmax(a.astype(wide), 1)
    )


@pytest.mark.parametrize("name", FLOATS + INTEGERS)
def test_sums_and_products(name):
    rng = np.random.default_rng(7)
    a = rng.integers(0, 2, (3, 8)).astype(np.float32).astype(numpy_type(name))
    if name == "float8_e8m0fnu":
        a = np.ones((3, 8), np.float32).astype(numpy_type(name))
    total = a.astype(np.float32).sum(1)
    got = everywhere(lambda x: lnp.sum(x, axis=1), a)
    want = rounded(total, name) if name in FLOATS else total.astype(int)
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))
    b = a.T.copy()
    got = everywhere(lnp.matmul, a, b)
    exact = a.astype(np.float32) @ b.astype(np.float32)
    want = (
        rounded(exact, name).astype(np.float32)
        if name in FLOATS
        else [[wrap(int(v), name) for v in r] for r in exact]
    )
    assert got.dtype == numpy_type(name)
    np.testing.assert_array_equal(got.astype(np.float32), want)


@pytest.mark.parametrize("name", FLOATS)
def test_derivatives_pass_through_conversions(name):
    x = np.array([1.1, 2.0, 0.6], np.float32)

    def f(v):
        return (v.astype(name).astype("float32") * lnp.array([1.0, 2.0, 4.0])).sum()

    np.testing.assert_array_equal(np.array(lm.grad(f)(lnp.asarray(x))), [1.0, 2.0, 4.0])


def test_bitcasts_see_the_bits():
    a = np.arange(256, dtype=np.uint8)
    for name in FLOATS:
        if dtypes.TABLE[name].bits == 8:
            got = everywhere(lambda x, n=name: lax.bitcast_convert_type(x, n), a)
            assert np.array_equal(got.view(np.uint8), a)
            back = everywhere(lambda x: lax.bitcast_convert_type(x, "int8"), a.view(numpy_type(name)))
            nan = np.isnan(a.view(numpy_type(name)).astype(np.float32))  # which shows as one pattern
            assert np.array_equal(back.view(np.uint8)[~nan], a[~nan])
            assert len(set(back.view(np.uint8)[nan].tolist())) == 1 and nan[back.view(np.uint8)[nan]].all()
    split = everywhere(lambda x: lax.bitcast_convert_type(x, "int4"), a)
    assert split.shape == (256, 2)
    np.testing.assert_array_equal(split[:, 0].astype(int) % 16, a % 16)
    np.testing.assert_array_equal(split[:, 1].astype(int) % 16, a // 16)
    joined = everywhere(lambda x: lax.bitcast_convert_type(lax.bitcast_convert_type(x, "uint4"), "uint8"), a)
    np.testing.assert_array_equal(joined, a)
    fours = everywhere(lambda x: lax.bitcast_convert_type(x, "float4_e2m1fn"), patterns("int4"))
    np.testing.assert_array_equal(fours.view(np.uint8) % 16, np.arange(16))


@pytest.mark.parametrize("name", FLOATS + INTEGERS)
def test_steps_and_batches_keep_the_type(name):
    """Scans, vmap and running sums of integers round or wrap after every step, whatever runs them."""
    t, rng = dtypes.TABLE[name], np.random.default_rng(8)
    a = rng.integers(1 if t.kind == "u" or name == "float8_e8m0fnu" else -1, 2, (4, 30)).astype(np.float32)
    a = a.astype(numpy_type(name))

    def step(total, row):
        return total + row, total * row

    def by_hand(x, y, f):
        wide = f(x.astype(np.float32), y.astype(np.float32))
        if t.kind == "f":
            return rounded(wide, name)
        return np.array([wrap(int(v), name) for v in wide], np.int8).astype(x.dtype)

    total, products = a[0], []
    for row in a:
        products.append(by_hand(total, row, np.multiply))
        total = by_hand(total, row, np.add)
    assert same(everywhere(lambda x: lax.scan(step, x[0], x)[0], a), total)
    assert same(everywhere(lambda x: lax.scan(step, x[0], x)[1], a), np.array(products))
    assert same(
        everywhere(lm.vmap(lambda r: r * r + r), a),
        by_hand(by_hand(a.ravel(), a.ravel(), np.multiply), a.ravel(), np.add).reshape(a.shape),
    )
    if name != "float8_e8m0fnu":  # no 0 to begin with
        # Running sums of floats are made in float32 and rounded once.
        if t.kind == "f":
            sums = rounded(np.cumsum(a.astype(np.float32), 1), name)
        else:
            sums = [a[:, 0]]
            for column in a.T[1:]:
                sums.append(by_hand(sums[-1], column, np.add))
            sums = np.array(sums).T
        assert same(everywhere(lambda x: lax.cumsum(x, 1), a), sums)
        added = a.copy()
        for k in (1, 1, 3):
            added[:, k] = by_hand(added[:, k], a[:, 5], np.add)
        assert same(everywhere(lambda x: x.at[:, lnp.array([1, 1, 3])].add(x[:, 5:6]), a), added)
