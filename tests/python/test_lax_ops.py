"""Elementwise ops.

Shapes, reductions, windows, products and indexing of lamina.lax against NumPy and SciPy.
"""

from __future__ import annotations

import functools

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
import scipy.signal
import scipy.special
from lamina import lax
from lax_support import array, check_gradient, sum_squares, value

RNG = np.random.default_rng(0)

UNARY = {
    "abs": np.abs,
    "acosh": lambda x: np.arccosh(x + 2),
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "cbrt": np.cbrt,
    "ceil": np.ceil,
    "cos": np.cos,
    "digamma": scipy.special.digamma,
    "erf": scipy.special.erf,
    "erf_inv": scipy.special.erfinv,
    "erfc": scipy.special.erfc,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "lgamma": scipy.special.gammaln,
    "log": np.log,
    "log1p": np.log1p,
    "logistic": scipy.special.expit,
    "neg": np.negative,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sign": np.sign,
    "sin": np.sin,
    "sqrt": np.sqrt,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
    "reciprocal": np.reciprocal,
}


@pytest.mark.parametrize("name", UNARY)
def test_unary_ops_agree_with_scipy(name):
    x = RNG.uniform(0.1, 0.9, size=(3, 4))
    given = x + 2 if name == "acosh" else x
    np.testing.assert_allclose(value(getattr(lax, name)(array(given))), UNARY[name](x), rtol=1e-13)


def test_binary_ops_take_numbers_without_rounding_twice():
    x = array([1.0, 2.0], np.float64)
    assert value(lax.mul(x, 0.1)).tolist() == [0.1, 0.2]
    assert value(lax.add(0.1, x)).tolist() == [1.1, 2.1]
    assert value(lax.div(array([7, -7], np.int32), 2)).tolist() == [3, -3]
    assert value(lax.rem(array([7, -7], np.int32), 4)).tolist() == [3, -3]
    assert value(lax.integer_pow(array([2.0, 3.0]), -2)).tolist() == [0.25, 1 / 9]


def test_operands_of_different_types_are_refused_in_words():
    x = array(np.ones(3, np.float32))
    with pytest.raises(TypeError, match=r"float32\[3\] and int32\[3\]"):
        lax.add(x, array(np.ones(3, np.int32)))
    with pytest.raises(TypeError, match=r"float32\[3\] and float32\[4\]"):
        lax.mul(x, array(np.ones(4, np.float32)))


def test_bits_seen_as_wider_and_narrower_types():
    x = np.array([1.5, -2.25], np.float64)
    assert np.array_equal(
        value(lax.bitcast_convert_type(array(x), "uint16")), x.view(np.uint16).reshape(2, 4)
    )
    halves = x.view(np.uint32).reshape(2, 2)
    assert np.array_equal(value(lax.bitcast_convert_type(array(halves), "float64")), x)


def test_selecting_cases():
    which = array([0, 2, 1, 7], np.int32)
    cases = [array(np.full(4, c, np.float32)) for c in (1, 2, 3)]
    assert value(lax.select_n(which, *cases)).tolist() == [1, 3, 2, 3]
    assert value(lax.clamp(0.0, array([-1.0, 0.5, 2.0], np.float32), 1.0)).tolist() == [0, 0.5, 1]
    assert value(lax.conj(array([1 + 2j], np.complex64))).tolist() == [1 - 2j]


def test_moving_elements():
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    t = array(x)
    assert np.array_equal(value(lax.rev(t, (0, 2))), x[::-1, :, ::-1])
    assert np.array_equal(value(lax.transpose(t, (2, 0, 1))), x.transpose(2, 0, 1))
    assert np.array_equal(value(lax.slice_in_dim(t, 1, None, 2, 2)), x[:, :, 1::2])
    assert np.array_equal(value(lax.tile(t, (2, 1, 3))), np.tile(x, (2, 1, 3)))
    assert np.array_equal(value(lax.pad(t, 7, [(1, 0, 0), (0, -1, 0), (0, 0, 1)]))[1:, :, ::2], x[:, :2])
    assert np.array_equal(value(lax.collapse(t, 1, 3)), x.reshape(2, 12))
    assert lax.expand_dims(t, (0, -1)).shape == (1, 2, 3, 4, 1)
    assert [p.shape for p in lax.split(t, (1, 2), 1)] == [(2, 1, 4), (2, 2, 4)]
    assert np.array_equal(value(lax.broadcasted_iota("int32", (2, 3), 1)), [[0, 1, 2]] * 2)
    assert lax.broadcast_shapes((2, 1), (3,), ()) == (2, 3)
    with pytest.raises(ValueError, match="size is 3, not 1"):
        lax.squeeze(t, (1,))


def test_reductions():
    x = RNG.normal(size=(3, 4, 5))
    t = array(x)
    np.testing.assert_allclose(value(lax.reduce_sum(t, (0, -1))), x.sum((0, 2)), rtol=1e-13)
    np.testing.assert_allclose(value(lax.reduce_prod(t, (1,))), x.prod(1), rtol=1e-13)
    assert np.array_equal(value(lax.reduce_max(t)), x.max())
    assert np.array_equal(value(lax.reduce_min(t, (2,))), x.min(2))
    bits = RNG.integers(0, 255, size=(3, 5)).astype(np.uint8)
    assert np.array_equal(value(lax.reduce_and(array(bits), (0,))), np.bitwise_and.reduce(bits, 0))
    assert np.array_equal(value(lax.reduce_xor(array(bits), (1,))), np.bitwise_xor.reduce(bits, 1))
    total = lax.reduce((t, t), (0.0, 1.0), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,))
    np.testing.assert_allclose(value(total[1]), x.prod(0), rtol=1e-13)
    with pytest.raises(ValueError, match="from outside"):
        lax.reduce(t, 0.0, lambda a, b: a + b + lax.reduce_sum(t), (0,))


def test_argmax_takes_the_first_and_nan():
    x = np.array([[1, 3, 3, 0], [np.nan, 5, np.nan, 9], [-np.inf] * 4], np.float32)
    assert value(lax.argmax(array(x), 1)).tolist() == [1, 0, 0]
    assert value(lax.argmin(array(x), 1)).tolist() == [3, 0, 0]
    long = np.zeros(1000, np.float32)
    long[[123, 877]] = np.nan
    assert value(lax.argmax(array(long), 0)) == 123


def test_prefix_combinations():
    x = RNG.normal(size=(2, 11))
    np.testing.assert_allclose(value(lax.cumsum(array(x), 1)), x.cumsum(1), rtol=1e-12)
    np.testing.assert_allclose(
        value(lax.cumprod(array(x), 1, True)), x[:, ::-1].cumprod(1)[:, ::-1], rtol=1e-12
    )
    assert np.array_equal(value(lax.cummax(array(x), 1)), np.maximum.accumulate(x, 1))
    want = np.log(np.cumsum(np.exp(x), 1))
    np.testing.assert_allclose(value(lax.cumlogsumexp(array(x), 1)), want, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8", "int64"])
@pytest.mark.parametrize("kind", ["random", "ascending", "descending", "equal", "with ties"])
@pytest.mark.parametrize(("n", "k"), [(33, 1), (257, 12), (256, 32), (1000, 65), (1000, 10), (4097, 500)])
def test_the_greatest_of_long_rows_are_selected_in_order(n, k, kind, dtype):
    x = np.abs(RNG.normal(size=(3, n)) * 50)
    x = {
        "random": x,
        "ascending": np.sort(x, 1),
        "descending": np.sort(x, 1)[:, ::-1],
        "equal": np.ones_like(x),
        "with ties": np.round(x / 30) * 30,
    }[kind].astype(dtype)
    best, where = lax.top_k(array(x), k)
    order = np.argsort(-x.astype("float64"), axis=1, kind="stable")[:, :k]  # of equal ones the first
    np.testing.assert_array_equal(np.asarray(where), order)
    np.testing.assert_array_equal(np.asarray(best), np.take_along_axis(x, order, 1), strict=True)


def test_sorting_puts_nan_last_and_keeps_order():
    x = np.array([3, np.nan, -0.0, 0.0, -np.inf, 3], np.float32)
    keys, order = lax.sort_key_val(array(x), array(np.arange(6, dtype=np.int32)))
    assert value(order).tolist() == [4, 2, 3, 0, 5, 1]
    np.testing.assert_array_equal(value(keys), np.sort(x))
    a, b = np.array([1, 0, 1, 0], np.int32), np.array([5, 6, 4, 5], np.int32)
    assert [value(t).tolist() for t in lax.sort((array(a), array(b)), num_keys=2)] == [
        [0, 0, 1, 1],
        [5, 6, 4, 5],
    ]
    best, where = lax.top_k(array(np.array([1.0, 9.0, 9.0, 3.0], np.float32)), 3)
    assert (value(best).tolist(), value(where).tolist()) == ([9, 9, 3], [1, 2, 3])


def test_products():
    a, b = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 4, 5))
    np.testing.assert_allclose(value(lax.batch_matmul(array(a), array(b))), a @ b, rtol=1e-12)
    np.testing.assert_allclose(value(lax.dot(array(a[0]), array(b[0]))), a[0] @ b[0], rtol=1e-12)
    got = lax.dot_general(array(a), array(b), (((0, 2), (0, 1)), ((), ())))
    np.testing.assert_allclose(value(got), np.einsum("bij,bjk->ik", a, b), rtol=1e-12)
    h = np.full((1, 4096), 1.0, np.float16)
    assert (
        value(lax.dot_general(array(h), array(h.T), (((1,), (0,)), ((), ())), None, "float32")).item() == 4096
    )


@pytest.mark.parametrize("padding", ["SAME", "VALID", "SAME_LOWER", [(2, 1), (0, 3)]])
def test_convolution_against_scipy(padding):
    x, w = RNG.normal(size=(2, 3, 6, 7)), RNG.normal(size=(4, 3, 3, 2))
    pads = {"SAME": [(1, 1), (0, 1)], "VALID": [(0, 0)] * 2, "SAME_LOWER": [(1, 1), (1, 0)]}.get(
        str(padding), padding
    )
    wide = np.pad(x, [(0, 0), (0, 0), *pads])
    want = np.stack(
        [
            np.stack([sum(scipy.signal.correlate(im[c], k[c], "valid") for c in range(3)) for k in w])
            for im in wide
        ]
    )
    np.testing.assert_allclose(
        value(lax.conv(array(x), array(w), (1, 1), padding)), want, rtol=1e-10, atol=1e-12
    )
    numbers = ("NHWC", "HWIO", "NHWC")
    got = lax.conv_general_dilated(
        array(x.transpose(0, 2, 3, 1)),
        array(w.transpose(2, 3, 1, 0)),
        (1, 1),
        padding,
        dimension_numbers=numbers,
    )
    np.testing.assert_allclose(value(got).transpose(0, 3, 1, 2), want, rtol=1e-10, atol=1e-12)


def test_convolution_errors_are_in_words():
    x, w = array(np.ones((1, 2, 3, 3))), array(np.ones((1, 2, 2, 2)))
    with pytest.raises(ValueError, match="SAME"):
        lax.conv(x, w, (1, 1), "WIDE")
    with pytest.raises(ValueError, match="NHW"):
        lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHW", "HWIO", "NHWC"))
    with pytest.raises(ValueError, match="window_strides"):
        lax.conv(x, w, (1,), "SAME")


def test_transposed_convolution_is_the_transpose():
    x, w = RNG.normal(size=(1, 6, 6, 2)), RNG.normal(size=(3, 3, 2, 4))
    numbers = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_general_dilated(array(x), array(w), (2, 2), "SAME", dimension_numbers=numbers)
    z = RNG.normal(size=y.shape)
    back = lax.conv_transpose(array(z), array(w), (2, 2), "SAME", transpose_kernel=True)
    assert back.shape == x.shape
    np.testing.assert_allclose((value(y) * z).sum(), (value(back) * x).sum(), rtol=1e-12)


def test_pooling():
    x = RNG.normal(size=(1, 2, 4, 6))
    blocks = x.reshape(1, 2, 2, 2, 3, 2)
    assert np.array_equal(value(lax.max_pool(array(x), (2, 2))), blocks.max((3, 5)))
    np.testing.assert_allclose(value(lax.avg_pool(array(x), (2, 2))), blocks.mean((3, 5)), rtol=1e-13)
    edge = lax.avg_pool(array(np.ones((1, 1, 3, 3))), (2, 2), (1, 1), "SAME", count_include_pad=False)
    assert np.array_equal(value(edge), np.ones((1, 1, 3, 3)))
    got = lax.reduce_window(array(x[0, 0]), 0.0, lax.add, (2, 2), window_dilation=(2, 3))
    want = x[0, 0][:2, :3] + x[0, 0][2:, :3] + x[0, 0][:2, 3:] + x[0, 0][2:, 3:]
    np.testing.assert_allclose(value(got), want, rtol=1e-13)
    scattered = lax.select_and_scatter(
        array(x[0, 0]), lax.ge, (2, 2), (2, 2), "VALID", array(np.ones((2, 3))), 0.0, lax.add
    )
    assert value(scattered).sum() == 6
    assert (
        value(scattered).astype(bool) == (x[0, 0] == np.kron(blocks[0, 0].max((1, 3)), np.ones((2, 2))))
    ).all()


def test_run_time_indices():
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    t = array(x)
    assert np.array_equal(value(lax.dynamic_slice(t, (3, -2), (2, 2))), x[2:, 1:])
    assert np.array_equal(value(lax.dynamic_index_in_dim(t, array(2, np.int32), 0, False)), x[2])
    assert np.array_equal(
        value(lax.dynamic_update_index_in_dim(t, array([9.0] * 4, np.float32), 1, 1))[:, 1], [9] * 4
    )
    idx = array([[2], [0], [9]], np.int32)
    numbers = lax.GatherDimensionNumbers((1,), (0,), (0,))
    assert np.array_equal(value(lax.gather(t, idx, numbers, (1, 3), mode="clip")), x[[2, 0, 3]])
    filled = value(lax.gather(t, idx, numbers, (1, 3)))
    assert np.array_equal(filled[:2], x[[2, 0]]) and np.isnan(filled[2]).all()
    into = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    up = array(np.ones((3, 3), np.float32))
    assert value(lax.scatter_add(t, idx, up, into)).sum() == x.sum() + 6
    assert value(lax.scatter_add(t, idx, up, into, mode="clip")).sum() == x.sum() + 9
    assert np.array_equal(value(lax.scatter(t, idx, up, into))[[0, 2]], np.ones((2, 3)))
    assert np.array_equal(value(lax.scatter_max(t, idx, up * 5, into))[2], [6, 7, 8])
    doubled = lax.scatter_apply(t, idx, lambda v: v * 2, into, update_shape=(3, 3))
    assert np.array_equal(value(doubled)[[0, 2]], 2 * x[[0, 2]])
    with pytest.raises(ValueError, match="mode"):
        lax.gather(t, idx, numbers, (1, 3), mode="wrap")


@pytest.mark.parametrize("kind", ["int32", "int8", "uint8", "int64", "uint64"])
@pytest.mark.parametrize("starts", [[0, 3, 9, 2], [4, 4, 1, 0]])
def test_updates_whose_windows_stick_out_are_dropped_whole(starts, kind):
    rng = np.random.default_rng(5)
    x, u = rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=(4, 2, 2)).astype(np.float32)
    if not kind.startswith("u"):
        starts = [*starts[:3], -1]
    idx = np.array(starts, kind)[:, None]
    numbers = lax.ScatterDimensionNumbers((1, 2), (), (0,))
    joined = {
        lax.scatter: lambda old, new: new,
        lax.scatter_add: np.add,
        lax.scatter_sub: np.subtract,
        lax.scatter_mul: np.multiply,
        lax.scatter_max: np.maximum,
    }
    for scatter, join in joined.items():
        want, fits = x.copy(), [0 <= k <= 3 for k in starts]
        for k, part in zip(np.array(starts)[fits], u[fits], strict=True):
            want[k : k + 2, :2] = join(want[k : k + 2, :2], part)
        call = functools.partial(scatter, dimension_numbers=numbers)
        for f in (call, lm.jit(call), lambda *a, f=call: lm.vmap(f)(*(v[None] for v in a))[0]):
            np.testing.assert_allclose(value(f(array(x), array(idx), array(u))), want, rtol=1e-6)


@pytest.mark.parametrize("mode", ["clip", "fill", "promise_in_bounds"])
def test_slices_need_not_fit_where_none_is_read(mode):
    none = np.zeros((0, 1), np.int32)
    rows = lax.GatherDimensionNumbers((1,), (0,), (0,))

    def taken(x, i=none):
        return lax.gather(x, i, rows, (1, 2), mode=mode)

    empty = np.zeros((0, 2), np.float32)
    assert taken(empty).shape == lm.jit(taken)(empty).shape == (0, 2) and taken(empty).dtype == "float32"
    assert lm.vmap(taken)(np.zeros((3, 0, 2))).shape == (3, 0, 2)
    assert lm.grad(lambda x: taken(x).sum())(empty).shape == (0, 2)
    assert taken(np.ones((3, 1))).shape == (0, 2)  # nor the other dimensions
    with pytest.raises(ValueError, match="slice size 1 of dimension 0 is not within its size 0"):
        taken(empty, np.zeros((1, 1), np.int32))
    with pytest.raises(ValueError, match="must have slice size 1, not 3"):
        lax.gather(empty, none, rows, (3, 2), mode=mode)


def test_random_bits_move_the_state_on():
    state = array(np.array([7, 0], np.uint64))
    after, first = lax.rng_bit_generator(state, (4,))
    _, second = lax.rng_bit_generator(after, (4,))
    _, both = lax.rng_bit_generator(state, (4,))
    assert np.array_equal(value(first), value(both)) and not np.array_equal(value(first), value(second))


def test_a_state_of_random_bits_may_be_given_in_halves():
    whole = np.array([7, 2**40 + 3], np.uint64)
    state, bits = lax.rng_bit_generator(array(whole), (4,))
    halves, again = lax.rng_bit_generator(array(whole.view(np.uint32)), (4,))
    assert halves.dtype == np.uint32 and np.array_equal(value(halves).view(np.uint64), value(state))
    assert np.array_equal(value(bits), value(again))
    states, many = lm.vmap(lambda s: lax.rng_bit_generator(s, (4,)))(
        array(np.stack([whole.view(np.uint32)] * 2))
    )
    assert states.shape == (2, 4) and np.array_equal(value(many)[1], value(bits))
    with pytest.raises(ValueError, match=r"a state is uint32\[4\] or uint64\[2\]"):
        lax.rng_bit_generator(array(whole.view(np.uint32)[:2]), (4,))


def test_functions_of_weak_numbers_are_weak():
    for f, x in ((lax.exp2, 2.0), (lax.reciprocal, 2.0), (lax.conj, 2.0), (lax.conj, 2j), (lax.square, 2.0)):
        assert f(x).weak_type, f
    assert lax.exp2(np.float16(3)).item() == 8.0
    for f in (lax.exp2, lax.reciprocal):
        half = array(np.array([3.0], np.float16))
        assert f(half).dtype == np.float16 and not f(half).weak_type


W = RNG.normal(size=(4, 2, 2, 2))
INDEX = np.array([[2], [0], [9]], np.int32)
GRADIENTS = {
    "conv": (lambda a: lax.conv(a, array(W), (1, 2), "SAME"), (1, 2, 4, 5)),
    "conv by kernel": (lambda a: lax.conv(array(W), a, (1, 1), "SAME"), (3, 2, 2, 2)),
    "grouped conv": (
        lambda a: lax.conv_general_dilated(
            a,
            array(W.reshape(8, 1, 2, 2)[:4]),
            (1, 1),
            [(1, 1), (0, 1)],
            (1, 2),
            (2, 1),
            feature_group_count=2,
        ),
        (1, 2, 3, 4),
    ),
    "max_pool": (lambda a: lax.max_pool(a, (2, 2)), (1, 2, 4, 4)),
    "overlapping max_pool": (lambda a: lax.max_pool(a, (3, 3), (1, 1), "SAME"), (1, 1, 4, 4)),
    "avg_pool": (lambda a: lax.avg_pool(a, (2, 2), (1, 1), "SAME", count_include_pad=False), (1, 2, 3, 3)),
    "cumprod": (lambda a: lax.cumprod(a, 0), (5, 2)),
    "cumlogsumexp": (lambda a: lax.cumlogsumexp(a, 0, True), (6,)),
    "sort": (lambda a: lax.mul(lax.sort(a), array(np.arange(10.0).reshape(2, 5))), (2, 5)),
    "top_k": (lambda a: lax.top_k(a, 2)[0], (2, 5)),
    "reduce_prod": (lambda a: lax.reduce_prod(a, (1,)), (2, 4)),
    "gather": (
        lambda a: lax.gather(
            a, array(INDEX), lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 3), fill_value=0
        ),
        (4, 3),
    ),
    "scatter_add": (
        lambda a: lax.scatter_add(
            array(np.ones((4, 3))), array(INDEX), a, lax.ScatterDimensionNumbers((1,), (0,), (0,))
        ),
        (3, 3),
    ),
    "scatter_add of windows that stick out": (
        lambda a: lax.scatter_add(
            a[:4], array(INDEX + 1), a[4:].reshape(3, 2, 2), lax.ScatterDimensionNumbers((1, 2), (), (0,))
        ),
        (8, 3),
    ),
    "dynamic_update_slice": (lambda a: lax.dynamic_update_slice(a, array(np.ones((2, 2))), (1, -2)), (4, 3)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_against_differences(name):
    f, shape = GRADIENTS[name]
    check_gradient(lambda a: sum_squares(f(a)), np.random.default_rng(3).normal(size=shape))


def test_windows_of_several_arrays():
    """The greatest of every window, and where it stands: of tuples and dicts, with derivatives, lanes and jit."""
    x, where = np.array([1.0, 3.0, 2.0, 5.0, 4.0, 0.0], np.float32), np.arange(6, dtype=np.int32)

    def greater(a, b):
        better = a["x"] >= b["x"]
        return {k: lnp.where(better, a[k], b[k]) for k in a}

    def pooled(x, where):
        start = {"x": lnp.float32(-np.inf), "at": -1}
        return lax.reduce_window({"x": x, "at": where}, start, greater, (2,), (2,))

    for f in (pooled, lm.jit(pooled)):
        out = f(x, where)
        assert out["x"].tolist() == [3.0, 5.0, 4.0] and out["at"].tolist() == [1, 3, 4]
        assert out["at"].dtype == "int32"
    out = lm.vmap(pooled, (0, None))(np.stack([x, -x]), where)
    assert out["at"].tolist() == [[1, 3, 4], [0, 2, 5]]
    assert lm.grad(lambda x: pooled(x, where)["x"].sum())(x).tolist() == [0, 1, 0, 1, 1, 0]
    with pytest.raises(ValueError, match="2 arrays and 1 initial values of another structure"):
        lax.reduce_window((x, where), (0.0,), greater, (2,))
    with pytest.raises(ValueError, match="a named computation reduces one array"):
        lax.reduce_window((x, x), (0.0, 0.0), "add", (2,))
    with pytest.raises(
        ValueError, match=r"lax\.reduce_window combines containers .* and its computation returned"
    ):
        lax.reduce_window((x, where), (0.0, 0), lambda a, b: list(a), (2,))
    with pytest.raises(ValueError, match="0 arrays and 0 initial values"):
        lax.reduce((), (), greater, (0,))


def test_fourier_transforms_over_no_dimensions():
    z = np.array([1 + 2j, 3j], np.complex64)
    got = lax.fft(z, "FFT", ())
    np.testing.assert_array_equal(got.numpy(), z)
    given = lnp.asarray(z)
    lax.fft(given, lax.FftType.IFFT, ())[0] = 9.0
    np.testing.assert_array_equal(given.numpy(), z)
    for kind, x in (("RFFT", z.real), ("FFT", z.real)):
        with pytest.raises((ValueError, TypeError)):
            lax.fft(x, kind, ()).numpy()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_the_upper_half_of_products(dtype):
    info, rng = np.iinfo(dtype), np.random.default_rng(0)
    ends = np.array([info.min, info.max, 0, 1, info.max - 1], dtype)
    x = np.concatenate(
        [np.repeat(ends, 5), rng.integers(info.min, info.max, 100, dtype=dtype, endpoint=True)]
    )
    y = np.concatenate([np.tile(ends, 5), rng.integers(info.min, info.max, 100, dtype=dtype, endpoint=True)])
    want = [(int(a) * int(b)) >> info.bits for a, b in zip(x, y, strict=True)]
    assert [int(v) for v in lax.mulhi(x, y).numpy()] == want
    with pytest.raises(TypeError, match="two integers of one type"):
        lax.mulhi(np.float32(1), np.float32(2))


def test_products_of_another_type():
    x = np.array([200, 3], np.uint8)
    np.testing.assert_array_equal(lax.mul(x, x, out_dtype=np.int32).numpy(), [40000, 9])
    assert lax.mul(x, x, out_dtype="float32").dtype == "float32"


def test_an_integer_of_any_size_becomes_a_float():
    for name in ("float32", "float64", "complex64"):
        for n in (2**100, -(2**70), 3):
            assert lax.convert_element_type(n, name).item() == np.asarray(float(n), name).item()
    with pytest.raises(OverflowError, match="does not fit"):
        lax.convert_element_type(2**100, "int32")


def test_conjugates_of_real_numbers_have_no_imaginary_part():
    got = value(lax.conj(array(np.array([np.inf, -0.0, 2.0], np.float32))))
    np.testing.assert_array_equal(got, np.array([np.inf, 0, 2], np.complex64))


@pytest.mark.parametrize("padding", ["VALID", ((1, 2),)])
def test_derivatives_of_windows_combine_in_the_order_of_the_windows(padding):
    # A difference is no associative operation: which element comes first, and the initial value last, is seen.
    def differences(x, start=1.5):
        return lax.reduce_window(x, start, lambda a, b: a - b, (2,), (1,), padding)

    x, t = lnp.array([5.0, 3.0, 2.0, 7.0]), lnp.array([1.0, -2.0, 0.5, 4.0])
    changed = (differences(x + 0.5 * t) - differences(x - 0.5 * t)).tolist()
    assert lm.jvp(differences, (x,), (t,))[1].tolist() == changed
    slopes = lm.jvp(lambda start: differences(x, start), (1.5,), (1.0,))[1]
    assert slopes.tolist() == (differences(x, 2.0) - differences(x, 1.0)).tolist()
    assert lnp.vdot(lm.grad(lambda x: differences(x).sum())(x), t).item() == pytest.approx(sum(changed))


def test_sizes_of_windows_are_integers_of_python():
    shape = np.array([7, 8])
    pads = lax.padtype_to_pads(shape, np.array([2, 3]), np.array([1, 2]), "SAME")
    assert pads == [(0, 1), (0, 1)] and all(type(n) is int for pair in pads for n in pair)


def test_top_k_refuses_more_elements_than_int32_tells():
    with pytest.raises(ValueError, match="gives int32 indices"):
        lm.eval_shape(lambda x: lax.top_k(x, 3), lm.ShapeDtype((2**31 + 1,), "float32"))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "uint8"])
@pytest.mark.parametrize("n", [40, 257, 1000, 1025, 3000])
def test_first_of_long_lines(n, dtype):
    rng = np.random.default_rng(n)
    x = (rng.normal(size=(7, n)) * 50).astype(dtype)
    x[1] = 3  # the first ones win
    x[2] = np.sort(x[2])
    x[3] = x[3] // 30  # many are equal
    if np.dtype(dtype).kind == "f":
        x[4, ::3], x[4, 1::3] = 0.0, -0.0  # equal, too
        x[5, 5], x[5, -1], x[5, 7] = np.nan, np.nan, np.inf
        x[6] = -np.inf
    wide = x.astype(np.float64)
    order = np.argsort(-np.where(np.isnan(wide), np.inf, wide), axis=1, kind="stable")
    if np.dtype(dtype).kind == "f":  # NaN is above infinity
        order[5, :3] = [5, n - 1, 7]
    for k in (0, 1, 5, 32, 33):
        values, indices = lax.top_k(x, k)
        np.testing.assert_array_equal(np.asarray(indices), order[:, :k])
        np.testing.assert_array_equal(np.asarray(values), np.take_along_axis(x, order[:, :k], 1))
