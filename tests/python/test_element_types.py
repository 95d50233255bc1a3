"""Element types of results: sums and quotients of integers, default types, and values that do not fit."""

from __future__ import annotations

import operator
import re
import threading
import warnings

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import _core, lax

INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


# --- sums ---


@pytest.mark.parametrize("dtype", [*INTS, "float32", "float64", "complex64"])
@pytest.mark.parametrize(
    "name", ["sum", "prod", "cumsum", "cumprod", "nansum", "nanprod", "nancumsum", "nancumprod", "trace"]
)
def test_sums_have_numpys_types(name, dtype):
    a = np.arange(1, 10).reshape(3, 3).astype(dtype)
    want = getattr(np, name)(a)
    got = getattr(lnp, name)(lnp.asarray(a))
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.numpy(), want)
    got = lm.jit(getattr(lnp, name))(lnp.asarray(a))
    assert got.dtype == want.dtype
    if name in ("sum", "prod", "cumsum", "cumprod", "trace"):
        assert getattr(lnp.asarray(a), name)().dtype == want.dtype
    if name != "trace":
        assert getattr(lnp, name)(lnp.asarray(a), axis=0).dtype == want.dtype


def test_sums_of_int32_do_not_wrap():
    x = lnp.full(3, 2**30)
    assert x.dtype == "int32"
    assert x.sum().item() == 3 * 2**30
    assert x.prod().item() == np.full(3, 2**30).prod()
    assert x.cumsum().tolist() == [2**30, 2**31, 3 * 2**30]
    assert lnp.cumulative_sum(x).tolist() == [2**30, 2**31, 3 * 2**30]
    assert lnp.trace(lnp.full((2, 2), 2**31 - 1)).item() == 2**32 - 2
    assert lnp.sum(lnp.full(2, 2**32 - 1, dtype="uint32")).item() == 2**33 - 2
    assert x.sum(dtype="int32").item() == 3 * 2**30 - 2**32  # as asked for


def test_booleans_are_counted_in_int32():
    b = lnp.ones((2, 3), dtype="bool")
    for y in (b.sum(), b.cumsum(), lnp.count_nonzero(b), lnp.count_nonzero(lnp.arange(3))):
        assert y.dtype == "int32"


def test_products_of_matrices_keep_the_type():
    x = lnp.ones((2, 2), dtype="int32")
    assert lnp.dot(x, x).dtype == lnp.einsum("ij,jk->ik", x, x).dtype == (x @ x).dtype == "int32"


# --- quotients and other floats of integers ---

FLOATS = {
    "true_divide": lambda m, x: m.true_divide(x, 1),
    "mean": lambda m, x: m.mean(x),
    "var": lambda m, x: m.var(x),
    "std": lambda m, x: m.std(x),
    "median": lambda m, x: m.median(x),
    "average": lambda m, x: m.average(x),
    "average, weighted": lambda m, x: m.average(x, weights=x),
    "sqrt": lambda m, x: m.sqrt(x),
    "exp": lambda m, x: m.exp(x * 0 + 1),
    "log": lambda m, x: m.log(x),
    "arctan2": lambda m, x: m.arctan2(x, 3),
    "hypot": lambda m, x: m.hypot(x, x),
    "linspace": lambda m, x: m.linspace(x[0], x[1], 3),
    "reciprocal": lambda m, x: m.reciprocal(x * 1.0),
    "times a float": lambda m, x: x * 0.5,
    "plus a float": lambda m, x: 0.5 + x,
    "maximum of a float": lambda m, x: m.maximum(x, 0.5),
    "logaddexp": lambda m, x: m.logaddexp(x * 0, 0),
    "interp": lambda m, x: m.interp(x, x, x),
    "gradient": lambda m, x: m.gradient(x),
    "quantile": lambda m, x: m.quantile(x, 0.25),
    "cov": lambda m, x: m.cov(x),
}


@pytest.mark.parametrize("name", FLOATS)
def test_floats_of_64_bit_integers_are_float64(name):
    a = np.array([16777217, 16777219, 2**40 + 1])
    want = FLOATS[name](np, a)
    for dtype in ("int64", "uint64"):
        got = FLOATS[name](lnp, lnp.asarray(a.astype(dtype)))
        assert got.dtype == "float64"
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-14)
    assert FLOATS[name](lnp, lnp.asarray(np.array([3, 5, 9], "int32"))).dtype == "float32"


def test_quotients_of_64_bit_integers_are_exact():
    x = lnp.asarray(np.array([16777217]))
    assert (x / 1).item() == 16777217.0
    assert (1 / x).item() == 1 / 16777217
    assert (x / x).dtype == "float64"
    assert (x / lnp.ones(1, dtype="int32")).dtype == "float64"
    assert (x / lnp.ones(1)).dtype == "float32"  # the float array says so
    assert lm.jit(lambda a, b: a / b)(x, 1).item() == 16777217.0
    assert lnp.true_divide(lnp.arange(3), 2).dtype == "float32"


# --- what does not fit ---


def put(x, key, value):
    x[key] = value


@pytest.mark.parametrize("dtype", INTS)
def test_integers_that_do_not_fit_are_refused(dtype):
    info = np.iinfo(dtype)
    x = lnp.zeros(3, dtype=dtype)
    for n in (info.max + 1, info.min - 1):
        ways = [
            lambda n=n: x + n,
            lambda n=n: put(x, 0, n),
            lambda n=n: put(x, slice(None), n),
            lambda n=n: put(x, x == 0, n),
            lambda n=n: put(x, slice(None), [n, 0, 0]),
            lambda n=n: x.at[0].set(n),
            lambda n=n: x.at[0].add(n),
            lambda n=n: x.at[0].subtract(n),
            lambda n=n: x.at[0].multiply(n),
            lambda n=n: x.at[0].max(n),
            lambda n=n: x.at[lnp.array([9])].get(mode="fill", fill_value=n),
            lambda n=n: lnp.full(2, n, dtype=dtype),
            lambda n=n: lnp.full_like(x, n),
            lambda n=n: lnp.array(n, dtype=dtype),
            lambda n=n: lnp.array([n], dtype=dtype),
            lambda n=n: lnp.asarray([[n]], dtype=dtype),
            lambda n=n: lnp.pad(x, 1, constant_values=n),
            lambda n=n: lnp.where(x == 0, x, n),
            lambda n=n: lnp.maximum(x, n),
            lambda n=n: lnp.append(x, n),
            lambda n=n: lnp.insert(x, 0, n),
            lambda n=n: lnp.put(x, 0, n, inplace=False),
            lambda n=n: lnp.take(x, lnp.array([9]), mode="fill", fill_value=n),
            lambda n=n: lnp.sum(x, dtype=dtype, initial=n),
            lambda n=n: lnp.max(x, initial=n),
            lambda n=n: lnp.piecewise(x, [x == 0], [n]),
            lambda n=n: lnp.select([x == 0], [x], n),
            lambda n=n: lax.full((2,), n, dtype),
            lambda n=n: lax.add(x, n),
            lambda n=n: lm.jit(lambda y: y.at[0].set(n))(x),
        ]
        for i, f in enumerate(ways):
            with pytest.raises(OverflowError):
                f()
                pytest.fail(f"way {i} took {n}")
        assert x.tolist() == [0, 0, 0]
    x[0] = info.max
    x[1] = info.min
    assert x.tolist() == [info.max, info.min, 0]


def test_floats_that_integers_do_not_hold_are_refused():
    x = lnp.zeros(2, dtype="int8")
    for value in (300.0, float("inf"), float("nan"), -1e30, [300.0, 1.0], np.float64(300)):
        with pytest.raises(OverflowError):
            x[:] = value
    x[0] = 1.9
    x[1] = -1.9
    assert x.tolist() == [1, -1]


def test_imaginary_parts_are_not_dropped():
    for dtype in ("float32", "float64", "int32", "bfloat16"):
        x = lnp.zeros(3, dtype=dtype)
        z = lnp.array([1j, 2, 3])
        ways = [
            lambda x=x: put(x, 0, 1j),
            lambda x=x: put(x, slice(None), [1j, 0, 0]),
            lambda x=x: put(x, slice(None), np.array([1j, 0, 0])),
            lambda x=x, z=z: put(x, slice(None), z),
            lambda x=x: put(x, 0, np.complex64(1j)),
            lambda x=x: x.at[0].set(1j),
            lambda x=x: x.at[0].add(1j),
            lambda x=x, z=z: x.at[:].multiply(z),
            lambda x=x: lnp.full_like(x, 1j),
            lambda x=x: lnp.full(2, 1j, dtype=x.dtype),
            lambda x=x: lnp.array(1j, dtype=x.dtype),
            lambda x=x: lnp.array([1j], dtype=x.dtype),
            lambda x=x: lnp.pad(x, 1, constant_values=1j),
            lambda x=x: lnp.insert(x, 0, 1j),
            lambda x=x: lnp.put(x, 0, 1j, inplace=False),
            lambda x=x: lnp.sum(x, initial=1j),
            lambda x=x: lnp.piecewise(x, [x == 0], [1j]),
        ]
        for i, f in enumerate(ways):
            with pytest.raises(TypeError):
                f()
                pytest.fail(f"way {i}")
        assert x.tolist() == [0, 0, 0]


def test_astype_warns_where_it_drops_imaginary_parts():
    z = lnp.array([1j, 2])
    with pytest.warns(np.exceptions.ComplexWarning, match="imaginary"):
        assert z.astype("float32").tolist() == [0, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert z.real.tolist() == [0, 2]
        z.astype("complex128")
        z.astype("bool")


def test_clip_takes_bounds_beyond_the_type():
    x = lnp.asarray(np.array([-100, 100], "int8"))
    assert lnp.clip(x, -1000, 50).tolist() == [-100, 50]
    assert lnp.clip(x, 0, 1000).tolist() == [0, 100]


# --- default types ---

MAKERS = {
    "zeros": lambda: lnp.zeros(2),
    "ones": lambda: lnp.ones(2),
    "empty": lambda: lnp.empty(2),
    "full": lambda: lnp.full(2, 0.1),
    "eye": lambda: lnp.eye(2),
    "identity": lambda: lnp.identity(2),
    "tri": lambda: lnp.tri(2),
    "array": lambda: lnp.array([0.1, 0.2]),
    "nested": lambda: lnp.array([[0.1], [1]]),
    "asarray": lambda: lnp.asarray(0.1),
    "arange": lambda: lnp.arange(0.0, 1.0, 0.25),
    "linspace": lambda: lnp.linspace(0, 1, 11),
    "logspace": lambda: lnp.logspace(0, 1, 11),
    "geomspace": lambda: lnp.geomspace(1, 2, 3),
    "hanning": lambda: lnp.hanning(5),
    "division": lambda: lnp.arange(3) / 2,
    "mean": lambda: lnp.arange(3).mean(),
    "sqrt": lambda: lnp.sqrt(2),
    "times": lambda: lnp.arange(3) * 0.1,
    "uniform": lambda: lm.random.uniform(lm.random.key(0), (2,)),
    "normal": lambda: lm.random.normal(lm.random.key(0), (2,)),
    "gumbel": lambda: lm.random.gumbel(lm.random.key(0), (2,)),
    "initializer": lambda: (
        lm.nn.initializers.ones(lm.random.key(0), (2,)) if hasattr(lm.nn, "initializers") else lnp.ones(2)
    ),
    "one_hot": lambda: lm.nn.one_hot(lnp.arange(3), 3),
    "dtype=float": lambda: lnp.zeros(2, dtype=float),
    "softmax of integers": lambda: lm.nn.softmax(lnp.arange(3)),
    "jit": lambda: lm.jit(lambda: lnp.ones(2) * 0.1)(),
    "fromfunction": lambda: lnp.fromfunction(lambda i: i, (2,)),
}
INTEGER_MAKERS = {
    "arange": lambda: lnp.arange(3),
    "array": lambda: lnp.array([1, 2]),
    "asarray": lambda: lnp.asarray(1),
    "full": lambda: lnp.full(2, 1),
    "indices": lambda: lnp.indices((2,)),
    "randint": lambda: lm.random.randint(lm.random.key(0), (2,), 0, 9),
    "count": lambda: lnp.ones(3, dtype="bool").sum(),
    "bincount": lambda: lnp.bincount(lnp.array([1, 2])),
    "dtype=int": lambda: lnp.zeros(2, dtype=int),
}


@pytest.mark.parametrize("name", MAKERS)
def test_default_floats(name):
    make = MAKERS[name]
    assert make().dtype == "float32"
    for dtype in ("float64", "bfloat16", "float16"):
        if name in ("logspace", "geomspace") and dtype != "float64":
            continue
        with lm.default_dtypes(float=dtype):
            assert make().dtype == dtype
    assert make().dtype == "float32"


@pytest.mark.parametrize("name", INTEGER_MAKERS)
def test_default_integers(name):
    make = INTEGER_MAKERS[name]
    assert make().dtype == "int32"
    with lm.default_dtypes(int="int64"):
        assert make().dtype == "int64"
    assert make().dtype == "int32"


def test_default_types_give_numpys_values():
    with lm.default_dtypes(float="float64"):
        assert lnp.array([0.1]).tolist() == [0.1]
        assert lnp.linspace(0, 1, 11).tolist() == pytest.approx(np.linspace(0, 1, 11).tolist(), rel=2e-16)
        assert (lnp.ones(1) * 0.1).item() == 0.1
        assert lnp.array([1j * 0.1]).dtype == "complex128"
        assert lm.grad(lambda x: x * x * x)(0.1).item() == pytest.approx(0.03, rel=1e-15)
    assert lnp.ones(1).dtype == "float32"


def test_arrays_keep_their_types_under_default_types():
    x = lnp.ones(2)
    with lm.default_dtypes(float="float64"):
        assert (x * 0.1).dtype == "float32"
        assert (x + x).dtype == "float32"
        assert (lnp.ones(2, dtype="bfloat16") * 2.0).dtype == "bfloat16"


def test_jit_traces_once_for_each_default_type():
    f = lm.jit(lambda x: x * lnp.ones(2))
    x = lnp.ones(2, dtype="int32")
    assert f(x).dtype == "float32"
    with lm.default_dtypes(float="float64"):
        assert f(x).dtype == "float64"
        assert f(x).dtype == "float64"
    assert f(x).dtype == "float32"
    assert "2 entries" in repr(f)


def test_default_types_nest_belong_to_a_thread_and_are_restored():
    seen = []
    with lm.default_dtypes(float="float64"):
        with lm.default_dtypes(int="int64"):
            assert lnp.ones(1).dtype == "float64"
            assert lnp.arange(1).dtype == "int64"
        assert lnp.arange(1).dtype == "int32"
        thread = threading.Thread(target=lambda: seen.append(lnp.ones(1).dtype))
        thread.start()
        thread.join()
        with pytest.raises(ValueError, match="inside"), lm.default_dtypes(float="float16"):
            raise ValueError("inside")
        assert lnp.ones(1).dtype == "float64"

    @lm.default_dtypes(float="float64")
    def decorated():
        return lnp.ones(1).dtype

    assert decorated() == decorated() == "float64"
    assert seen == ["float32"]
    assert lnp.ones(1).dtype == "float32"


@pytest.mark.parametrize(
    "bad",
    [
        {"float": "int32"},
        {"int": "float32"},
        {"float": "float8_e4m3fn"},
        {"int": "int4"},
        {"float": "complex64"},
        {"int": "uint32"},
        {"float": "nonsense"},
    ],
)
def test_default_types_of_another_kind_are_refused(bad):
    with pytest.raises(TypeError), lm.default_dtypes(**bad):
        pass
    assert lnp.ones(1).dtype == "float32"


@pytest.mark.parametrize(
    "name", ["bool", "int8", "uint32", "float16", "float32", "complex64", "bfloat16", "int4"]
)
def test_what_numpy_says_of_a_type(name):
    t = lnp.zeros(2, name).dtype
    assert t.type.__name__.rstrip("_") == name and np.dtype(t.type).itemsize == t.itemsize
    assert (t.names, t.char, t.num) == (None, np.dtype(t.type).char, np.dtype(t.type).num)
    assert t.type(1) == 1
    with pytest.raises(AttributeError, match="an element type has no attribute 'nothing'"):
        _ = t.nothing


def test_complex_is_told_of_arrays_and_of_element_types():
    for x in (
        lnp.complex64,
        np.dtype("complex128"),
        np.complex64,
        complex,
        1j,
        [1j],
        lnp.ones(2, "complex64"),
    ):
        assert lnp.iscomplexobj(x) and not lnp.isrealobj(x)
    for x in (lnp.float32, np.dtype("int8"), bool, 1.0, [1], lnp.ones(2)):
        assert lnp.isrealobj(x) and not lnp.iscomplexobj(x)
    with pytest.raises(TypeError, match="not an element type"):
        lnp.iscomplexobj("nothing")


def test_nothing_has_no_common_type():
    assert _core.promoted() == []


# --- what becomes a Tensor ---


@pytest.mark.parametrize("code", [*"?bhilqBHILQefdFD", "b1", "i1", "u2", "f4", "<f8", "=i4", "|u1", "c8"])
def test_numpys_names_of_types(code):
    assert lnp.asarray([1, 2], dtype=code).dtype == np.dtype(code)
    assert lnp.ones(2).astype(code).dtype == np.dtype(code)


@pytest.mark.parametrize(
    "name", ["half", "single", "double", "byte", "ushort", "longlong", "ulonglong", "intc"]
)
def test_numpys_types_of_c(name):
    for given in (name, getattr(np, name)):
        assert lnp.zeros(2, given).dtype == np.dtype(name)


@pytest.mark.parametrize("given", [">f4", "S3", "datetime64", "longdouble", np.longdouble, object, "f3"])
def test_types_that_are_none_of_ours(given):
    with pytest.raises(TypeError, match="is not an element type"):
        lnp.zeros(2, given)


@pytest.mark.parametrize("code", ["i2", "u4", "i8", "f2", "f4", "f8", "c8", "c16"])
def test_arrays_of_the_other_byte_order(code, tmp_path):
    own = np.array([[1, 2, -3], [4, 500, 6]]).astype(code)
    other = own.astype(own.dtype.newbyteorder())
    for got in (
        lnp.asarray(other),
        lnp.add(other, 0),
        lm.jit(lambda x: x)(other),
        lnp.zeros(3, code) + other,
    ):
        assert got.dtype == own.dtype
        np.testing.assert_array_equal(got.numpy(), own)
    np.testing.assert_array_equal(lnp.frombuffer(other.tobytes(), other.dtype).numpy(), own.ravel())
    other.tofile(tmp_path / "numbers")
    np.testing.assert_array_equal(lnp.fromfile(tmp_path / "numbers", other.dtype).numpy(), own.ravel())


def test_ranges_are_arrays():
    got = lnp.asarray(range(2, 8, 3))
    assert got.dtype == "int32" and got.tolist() == [2, 5]
    assert lnp.asarray(range(0)).shape == (0,) and lnp.add(range(3), 1).tolist() == [1, 2, 3]
    assert lnp.asarray(range(2**40, 2**40 + 2)).dtype == "int64"


@pytest.mark.parametrize(
    "value",
    [np.datetime64("2020-01-01"), np.timedelta64(1, "s"), np.str_("a"), np.bytes_(b"ab"), np.void(b"ab")],
)
def test_scalars_of_numpy_that_are_no_numbers(value):
    for call in (lambda: lnp.asarray(value), lambda: lnp.add(np.ones(8), value)):
        with pytest.raises(TypeError, match="Tensor"):
            call()
    with pytest.raises(TypeError):
        lnp.ones(8) + value


@pytest.mark.parametrize(
    "array",
    [
        np.array([1, None]),
        np.array(["a"]),
        np.zeros(2, [("a", "i4")]),
        np.zeros(2, "M8[D]"),
        np.zeros(2, np.longdouble),
    ],
)
def test_arrays_without_numbers_say_what_they_hold(array):
    with pytest.raises(TypeError, match=f"an array of {re.escape(str(array.dtype))} elements"):
        lnp.asarray(array)


def test_integers_beyond_64_bits_in_lists():
    assert lnp.asarray([2**63]).dtype == "uint64"
    with pytest.raises(OverflowError, match="18446744073709551616 does not fit 64 bits"):
        lnp.asarray([[1], [2**64]])


@pytest.mark.parametrize("signed", ["int8", "int16", "int32", "int64"])
def test_uint64_beside_a_signed_type_is_float64(signed):
    big, one = np.array([2**53 + 2], np.uint64), np.array([1], signed)
    assert lnp.promote_types("uint64", signed) == lnp.result_type(one, big) == "float64"
    calls = {
        "add": lambda m: m.add(big, one),
        "maximum": lambda m: m.maximum(one, big),
        "where": lambda m: m.where(one > 0, big, one),
        "concatenate": lambda m: m.concatenate([big, one]),
        "matmul": lambda m: m.matmul(big, one),
    }
    for name, call in calls.items():
        got, want = call(lnp), call(np)
        assert got.dtype == want.dtype == "float64", name
        np.testing.assert_array_equal(got.numpy(), want)
    assert lm.jit(lnp.add)(big, one).dtype == "float64"
    assert (lnp.asarray(big) + one + lnp.ones(1)).dtype == "float32"  # weak: the float array says so


_OF_WEAK = {
    "set": lambda x: x.at[0].set(lnp.float16(2)),
    "add at places": lambda x: x.at[lnp.array([0, 0])].add(1),
    "subtract": lambda x: x.at[0].subtract(1),
    "sort": lnp.sort,
    "heaviside": lambda x: lnp.heaviside(x, 0.5),
    "barrier": lambda x: lax.optimization_barrier((x, 1))[0],
    **{
        n: getattr(lm.nn, n)
        for n in ("relu", "relu6", "elu", "selu", "hard_tanh", "hard_swish", "sparse_plus")
    },
}


@pytest.mark.parametrize("name", _OF_WEAK)
def test_arrays_of_numbers_stay_weak(name):
    # so that beside an array of 16 bits they are of 16 bits, as in JAX
    f = _OF_WEAK[name]
    weak = lnp.full((3,), 1.5)
    assert weak.weak_type
    for g in (f, lm.jit(f)):
        assert (g(weak) * lnp.ones(3, "bfloat16")).dtype == "bfloat16"
        assert (g(lnp.full((3,), 1.5, "float32")) * lnp.ones(3, "bfloat16")).dtype == "float32"


def test_full_arrays_of_lax_are_weak_where_the_number_is():
    types = [lax.full((2,), 1), lax.full((2,), 1, "int32"), lax.full((2,), lnp.float32(1))]
    assert [x.weak_type for x in types] == [True, False, False]


def test_an_interpolation_has_the_type_of_its_values():
    # integers among them become floats of the default type, whatever the points are
    for points in (1, 1.5, lnp.float16(1.5)):
        y = lnp.interp(points, lnp.arange(3), lnp.arange(3))
        assert (y.dtype, y.weak_type, y.item()) == (
            "float32",
            False,
            points if isinstance(points, (int, float)) else 1.5,
        )
    half = lnp.arange(3, dtype="float16")
    assert lnp.interp(lnp.float16(1.5), half, half).dtype == "float16"


_OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<": operator.lt,
    ">=": operator.ge,
}


@pytest.mark.parametrize("sign", _OPERATORS)
@pytest.mark.parametrize("dtype", INTS)
def test_operators_on_integers_are_numpys_to_the_top_bit(dtype, sign):
    f, info = _OPERATORS[sign], np.iinfo(dtype)
    a = np.array([info.min, info.min + 1, 0, 1, 5, info.max // 2 + 3, info.max - 1, info.max], dtype)
    b = np.array([3, 1, 2, 7, 5, 4, 6, 1], dtype)
    x, y = lnp.asarray(a), lnp.asarray(b)
    with np.errstate(over="ignore"):
        for got, want in (
            (f(x, y), f(a, b)),
            (f(x, 3), f(a, 3)),
            (f(100, y), f(100, b)),
            (f(x, y[0]), f(a, b[0])),
            (lm.jit(f)(x, y), f(a, b)),
            (lm.jit(lambda x: f(x, 3))(x), f(a, 3)),
            (lm.vmap(f)(x, y), f(a, b)),
        ):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got.numpy(), want)


def test_shifts_of_unsigned_beside_signed_integers_and_of_booleans():
    a, b = np.array([250, 3], np.uint8), np.array([1, 2], np.int16)
    for f in (lambda a, b: a >> b, lambda a, b: b >> a % 3, lambda a, b: (a > 5) >> b):
        np.testing.assert_array_equal(f(lnp.asarray(a), lnp.asarray(b)).numpy(), f(a, b))
    np.testing.assert_array_equal((lnp.asarray(a) >> b).numpy(), a >> b)
    np.testing.assert_array_equal((a >> lnp.asarray(b)).numpy(), a >> b)
    x = lnp.asarray(a)
    x >>= 1
    assert x.tolist() == [125, 1]
    with pytest.raises(TypeError):
        lnp.ones(2) >> 1
    with pytest.raises(TypeError):
        lnp.asarray(a) >> "1"


def test_pythons_types_of_numbers_yield_to_others():
    assert lnp.promote_types(int, "int8") == "int8" and lnp.promote_types("uint32", int) == "uint32"
    assert (
        lnp.promote_types(float, "bfloat16") == "bfloat16"
        and lnp.promote_types(complex, "float32") == "complex64"
    )
    assert lnp.promote_types(int, float) == "float32" and lnp.promote_types(bool, "int8") == "int8"
    assert (lnp.iinfo("int8").kind, lnp.iinfo("uint16").kind) == ("i", "u")
