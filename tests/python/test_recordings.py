"""Library functions that Python runs twice for arguments of a kind, and that are recorded again from then on."""

from __future__ import annotations

import concurrent.futures

import lamina as lm
import numpy as np
import pytest
from lamina import _results, lax, nn
from lamina import numpy as lnp


def _filled(shape, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "b":
        return rng.random(shape) < 0.5
    if np.dtype(dtype).kind in "iu":
        return rng.integers(0, 9, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def _spd(seed):
    a = _filled((4, 4), seed=seed)
    return a @ a.T + 4 * np.eye(4, dtype=np.float32)


V, M, B, I3 = (6,), (3, 4), "b", "i"


def arrays(spec, seed):
    """The arguments of a row: shapes are arrays of them, "b" and "i" a boolean and an integer matrix, "s" a definite
    one; all else is itself."""
    if isinstance(spec, list):
        return [arrays(s, seed + k) for k, s in enumerate(spec)]
    if spec == "b":
        return lnp.asarray(_filled(M, bool, seed))
    if spec == "i":
        return lnp.asarray(_filled(M, np.int32, seed))
    if spec == "s":
        return lnp.asarray(_spd(seed))
    if isinstance(spec, tuple) and all(type(n) is int for n in spec):
        return lnp.asarray(_filled(spec, seed=seed))
    return spec.value if isinstance(spec, Plain) else spec


class Plain:
    """An argument that looks like a shape, and is none."""

    def __init__(self, value):
        self.value = value


REDUCTIONS = [
    ([M], {}),
    ([M, 0], {}),
    ([M], {"axis": -1, "keepdims": True}),
    ([M, Plain((0, 1))], {}),
    (["i"], {"axis": 1}),
]
RUNNING = [([M, 1], {}), (["i"], {"axis": 0})]
TWO = [([V, V], {})]
REDUCED = [
    "amax", "amin", "count_nonzero", "max", "mean", "min", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum",
    "nanvar", "prod", "ptp", "std", "sum", "var",
]  # fmt: skip
ROWS = {
    "all": [(["b", 0], {}), *REDUCTIONS],
    "any": [(["b", 0], {}), *REDUCTIONS],
    **dict.fromkeys(REDUCED, REDUCTIONS),
    "sum ": [
        ([M], {"where": "b"}),
        ([M], {"dtype": lnp.float64}),
        ([M], {"dtype": "float16"}),
        (["i"], {"initial": 3}),
    ],
    "var ": [([M], {"ddof": 1}), ([M, 0], {"correction": 1})],
    "argmax": REDUCTIONS[:3],
    "argmin": REDUCTIONS[:3],
    "argsort": RUNNING,
    "sort": RUNNING,
    "average": [([M, 0], {}), ([M], {"weights": M})],
    "broadcast": [([V, Plain((2, 3))], {})],
    "broadcast_in_dim": [([V, Plain((2, 6)), Plain((1,))], {})],
    "broadcast_to": [([V, Plain((2, 6))], {})],
    "cholesky": [(["s"], {})],
    "column_stack": [([[V, V]], {})],
    "concatenate": [([[M, M]], {}), ([[M, M], 1], {}), ([[M, "i"]], {"axis": 0})],
    "conv": [([(1, 2, 5, 5), (3, 2, 3, 3), Plain((1, 1)), "SAME"], {})],
    "conv_general_dilated": [
        (
            [(1, 5, 5, 2), (3, 3, 2, 3), Plain((2, 2)), "VALID"],
            {"dimension_numbers": Plain(("NHWC", "HWIO", "NHWC"))},
        )
    ],
    "convolve": [([V, V], {"mode": "same"})],
    "corrcoef": [([M], {})],
    "correlate": [([V, V], {})],
    "cov": [([M], {})],
    "cross": [([(5, 3), (5, 3)], {})],
    "cummax": [([M], {"axis": 1})],
    "cummin": [([M], {"axis": 1})],
    "cumprod": RUNNING,
    "cumsum": RUNNING,
    "nancumprod": RUNNING,
    "nancumsum": RUNNING,
    "det": [(["s"], {})],
    "diagonal": [([M], {"offset": 1})],
    "dot": [*TWO, ([M, (4, 2)], {})],
    "dot_general": [([M, (4, 2), Plain((((1,), (0,)), ((), ())))], {})],
    "dstack": [([[M, M]], {})],
    "einsum": [(["ij,kj->ik", M, M], {})],
    "expand_dims": [([M, 1], {})],
    "flip": [([M, 1], {})],
    "fliplr": [([M], {})],
    "flipud": [([M], {})],
    "gelu": [([V], {}), ([V], {"approximate": True})],
    "glu": [([V], {})],
    "hstack": [([[M, M]], {})],
    "inner": TWO,
    "interp": [([V, Plain(lnp.arange(4.0)), (4,)], {})],
    "inv": [(["s"], {})],
    "kron": [([M, M], {})],
    "log_softmax": [([M, -1], {}), ([M], {"axis": 0})],
    "logsumexp": [([M], {"axis": 0})],
    "matmul": [([M, (4, 2)], {}), ([(2, 3, 4), (4, 5)], {})],
    "matrix_power": [(["s", 3], {})],
    "median": [([M, 0], {})],
    "moveaxis": [([M, 0, 1], {})],
    "norm": [([M], {}), ([M], {"axis": 1}), ([V, 1], {})],
    "one_hot": [(["i", 9], {})],
    "outer": TWO,
    "pad": [([M, 1], {}), ([M, [[0, 1], [2, 0]]], {"mode": "edge"})],
    "polyval": [([V, M], {})],
    "ravel": [([M], {})],
    **{f"reduce_{name}": [([M, Plain((0,))], {})] for name in ("max", "min", "prod", "sum")},
    **{f"reduce_{name}": [(["b", Plain((1,))], {})] for name in ("and", "or")},
    "relu": [([V], {})],
    "repeat": [([M, 2], {"axis": 1})],
    "reshape": [([M, Plain((4, 3))], {}), ([M, -1], {}), ([M, Plain((2, 6))], {"order": "F"})],
    "rev": [([M, Plain((1,))], {})],
    "roll": [([M, 1], {}), ([M, 2], {"axis": 1})],
    "rot90": [([M], {})],
    "searchsorted": [([Plain(lnp.arange(4.0)), V], {}), ([Plain(lnp.arange(4.0)), V], {"side": "right"})],
    "sigmoid": [([V], {})],
    "silu": [([V], {})],
    "slice": [([M, Plain((0, 1)), Plain((2, 3))], {})],
    "slice_in_dim": [([M, 1, 3], {"axis": 1})],
    "softmax": [([M], {}), ([M], {"axis": 0})],
    "softplus": [([V], {})],
    "solve": [(["s", (4, 2)], {})],
    "squeeze": [([(3, 1, 4)], {})],
    "stack": [([[M, M]], {}), ([[M, M], -1], {})],
    "standardize": [([M], {})],
    "swapaxes": [([M, 0, 1], {})],
    "swish": [([V], {})],
    "tensordot": [([M, M], {"axes": 2})],
    "tile": [([M, Plain((2, 1))], {})],
    "trace": [([M], {})],
    "trapezoid": [([M], {}), ([M], {"axis": 0})],
    "transpose": [([M], {}), ([M, Plain((1, 0))], {})],
    "tril": [([M], {"k": 1})],
    "triu": [([M], {})],
    "vdot": TWO,
    "vecdot": TWO,
    "vstack": [([[M, M]], {})],
}
CALLS = [
    pytest.param(name.strip(), args, kwargs, id=f"{name.strip()}{k}")
    for name, rows in ROWS.items()
    for k, (args, kwargs) in enumerate(rows)
]


def found(name):
    for module in (lnp, lnp.linalg, nn, lax):
        if hasattr(f := getattr(module, name, None), "__wrapped__"):
            return f
    raise AssertionError(name)


def replayed():
    return lm._core.cache_stats()["replayed_calls"]


def facts(x):
    return (x.dtype.name, x.shape, x.weak_type, x.numpy().tobytes())


def test_every_such_function_has_a_row():
    assert {name.strip() for name in ROWS} == _results.RECORDED


@pytest.mark.parametrize(("name", "args", "kwargs"), CALLS)
def test_what_is_recorded_again_is_what_the_function_records(name, args, kwargs):
    f = found(name)
    plain = getattr(f, "__wrapped__", f)

    def made(seed):
        return arrays(args, seed), {k: arrays(v, seed) for k, v in kwargs.items()}

    for seed in (1, 2):
        a, k = made(seed)
        f(*a, **k)
    for seed in (3, 4):
        a, k = made(seed)
        before = replayed()
        again = f(*a, **k)
        assert replayed() > before, "Python ran"
        assert facts(again) == facts(plain(*a, **k))


ELEMENTS = {
    "clip": [([M, 0.25, 1], {}), ([M], {"max": 0.5}), ([M, M], {})],
    "celu": [([V], {}), ([V, 0.5], {})],
    "elu": [([V], {}), ([V, 2], {})],
    "leaky_relu": [([V], {}), ([V, 0.2], {})],
    "nan_to_num": [([V], {}), ([V], {"nan": 1.0, "posinf": 2})],
    "squareplus": [([V], {}), ([V, 2.0], {})],
    **dict.fromkeys(
        (
            "arctan2", "atan2", "copysign", "float_power", "floor_divide", "fmax", "fmin", "fmod", "heaviside", "hypot",
            "logaddexp", "logaddexp2", "logical_and", "logical_or", "logical_xor", "mod", "remainder",
        ),
        (([M, M], {}), ([M, 3], {}), ([0.1, M], {}), ([M, -0.3], {}), (["i", "i"], {}), ([M, "i"], {})),
    ),
    **dict.fromkeys(
        (
            "deg2rad", "degrees", "exp2", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "isfinite", "isinf",
            "isnan", "isneginf", "isposinf", "log10", "log1mexp", "log2", "log_sigmoid", "logical_not", "mish",
            "rad2deg", "radians", "relu6", "selu", "sinc", "soft_sign", "sparse_plus", "sparse_sigmoid", "trunc",
        ),
        (([M], {}),),
    ),
}  # fmt: skip


def test_every_elementwise_function_has_a_row():
    assert set(ELEMENTS) == _results.ELEMENTWISE
    assert not _results.ELEMENTWISE & _results.RECORDED


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [pytest.param(n, a, k, id=f"{n}{i}") for n, rows in ELEMENTS.items() for i, (a, k) in enumerate(rows)],
)
def test_numbers_are_operands_of_elementwise_functions(name, args, kwargs, dtype):
    f = found(name)

    def moved(x, seed):
        if type(x) in (int, float):
            return x * (1 + seed / 7) if type(x) is float else x + seed % 3
        return x.astype(dtype) if x.dtype == "float32" else x

    def made(seed):
        return [moved(x, seed) for x in arrays(args, seed)], {k: moved(v, seed) for k, v in kwargs.items()}

    for seed in (1, 2):
        a, k = made(seed)
        f(*a, **k)
    for seed in (3, 4):
        a, k = made(seed)
        before = replayed()
        again = f(*a, **k)
        assert replayed() > before, "Python ran"
        assert facts(again) == facts(f.__wrapped__(*a, **k))


def test_other_numbers_are_no_other_programs():
    x = lnp.ones(5)
    for value in (1, 2, 3):
        lnp.remainder(x, value).block_until_ready()
    misses = lm.cache.stats()["misses"]
    for value in range(4, 12):
        assert lnp.remainder(x * 0 + 20, value).numpy()[0] == 20 % value
    assert lm.cache.stats()["misses"] <= misses + 1


def test_numbers_that_do_not_fit_raise_each_time():
    x = lnp.asarray([1, 2], "int8")
    for _ in range(4):
        assert lnp.remainder(x, 2).numpy().tolist() == [1, 0]
        with pytest.raises(OverflowError):
            lnp.remainder(x, 1000)
        with pytest.raises(OverflowError):
            lnp.hypot(lnp.ones(2, "uint8"), -1).block_until_ready()


@pytest.mark.parametrize("number", [2**62 + 1, -(2**63), 2**63, 2**70, -(2**70)])
def test_large_integers_are_rounded_once(number):
    for dtype in ("float32", "float64"):
        x = lnp.ones(2, dtype)
        for _ in range(4):
            assert lnp.fmax(x * 0 - np.inf, number).numpy()[0] == np.dtype(dtype).type(number)


def test_python_runs_twice_for_each_kind():
    x = lnp.ones((2, 7))
    for argument in ({"axis": 0}, {"axis": 1}, {"axis": 1, "keepdims": True}, {"keepdims": True, "axis": 1}):
        counts = []
        for _ in range(4):
            before = replayed()
            lnp.sum(x, **argument)
            counts.append(replayed() - before)
        assert counts == [0, 0, 1, 1]
    for other in (lnp.ones((2, 8)), lnp.ones((2, 7), "float64")):
        before = replayed()
        lnp.sum(other, axis=0)
        assert replayed() == before


def test_numbers_that_are_no_integers_are_values():
    """A program for each of them would be compiled otherwise."""
    x = lnp.ones(5)
    for value in (0.5, 1.5, 2.5, 3.5):
        before = replayed()
        assert lnp.pad(x, 1, constant_values=value).numpy()[0] == value
        assert replayed() == before
    lnp.pad(x, 1, constant_values=0.5).block_until_ready()
    misses = lm.cache.stats()["misses"]
    for value in np.linspace(4, 5, 7):
        lnp.pad(x, 1, constant_values=float(value)).block_until_ready()
    assert lm.cache.stats()["misses"] == misses


def test_errors_are_raised_each_time():
    x = lnp.ones((3, 4))
    for _ in range(4):
        with pytest.raises(ValueError, match="axis 2 is out of bounds"):
            lnp.sum(x, axis=2)
        with pytest.raises(ValueError, match="last dimension"):
            lnp.matmul(x, x)


def test_values_that_a_function_looks_at_are_looked_at_each_time():
    x = lnp.arange(3)
    for counts in ([1, 2, 3], [3, 0, 1], [0, 0, 2], [1, 1, 1]):
        assert lnp.repeat(x, lnp.asarray(counts)).shape == (sum(counts),)


def test_default_types_are_part_of_the_kind():
    x = lnp.asarray([True, False, True])
    for _ in range(3):
        assert lnp.mean(x).dtype == "float32" and lnp.sum(x).dtype == "int32"
        assert lnp.zeros(2).dtype == "float32"
        with lm.default_dtypes(float="float64", int="int64"):
            assert lnp.mean(x).dtype == "float64" and lnp.sum(x).dtype == "int64"
            assert lnp.zeros(2).dtype == "float64"


def test_numbers_without_a_type_are_taken_as_they_are():
    for value in (0.1, 0.2, 0.3, 0.4):
        weak = lnp.asarray(value) * 3
        for f in (lnp.sum, lnp.cumsum, lnp.reshape):
            args = (weak, (1,)) if f is lnp.reshape else (weak, None)[: 1 + (f is lnp.sum)]
            assert facts(f(*args)) == facts(f.__wrapped__(*args))


def test_transforms_go_through_what_is_recorded_again():
    def f(x):
        return lnp.sum(nn.softmax(x) * lnp.mean(x, axis=0)) + lnp.max(lnp.cumsum(x, axis=1)) * lnp.std(x)

    x = lnp.asarray(_filled((3, 4), np.float64, 5))
    for _ in range(3):
        f(x)
    gradient = lm.grad(f)(x).numpy()
    for i, j in ((0, 0), (1, 2), (2, 3)):
        step = np.zeros((3, 4))
        step[i, j] = 1e-6
        slope = (f(x + step).item() - f(x - step).item()) / 2e-6
        assert abs(slope - gradient[i, j]) < 1e-7
    lanes = lnp.stack([x, 2 * x, -x])
    together = lm.vmap(f)(lanes)
    assert np.allclose(together.numpy(), [f(lane).item() for lane in lanes], rtol=1e-12)
    assert lm.jit(f)(x).item() == f(x).item()
    assert np.allclose(lm.jit(lm.vmap(lm.grad(f)))(lanes).numpy()[0], gradient, rtol=1e-12)


def test_results_are_their_own():
    x = lnp.arange(6.0)
    for _ in range(4):
        y = lnp.reshape(x + 0, (6,))
        z = lnp.squeeze(x)
        z2 = lnp.zeros(3)
        y += 1
        z2 += 1
        with pytest.raises(TypeError, match="another form of a Tensor that is still there"):
            z[0] = 1
    assert x.numpy().tolist() == [0, 1, 2, 3, 4, 5]
    assert lnp.zeros(3).numpy().tolist() == [0, 0, 0]


def test_the_line_is_that_of_the_call():
    x = lnp.asarray([[-1.0, 2.0]])

    def first():
        return lnp.std(lnp.log(x), axis=0)

    def second():
        return lnp.std(lnp.log(x + 1), axis=0)

    for _ in range(3):
        first(), second()
    text = str(lm.make_trace(lambda x: lnp.std(x, axis=0))(x))
    for _ in range(2):
        assert str(lm.make_trace(lambda x: lnp.std(x, axis=0))(x)) == text
    for f in (first, second, first):
        before = replayed()
        y = f()
        assert replayed() > before
        assert lm._core.where_made(y)[1] == f.__code__.co_firstlineno + 1


def test_checks_see_every_call():
    x = lnp.arange(5.0)
    index = lnp.asarray([1, 7])
    for _ in range(4):
        assert x[lnp.asarray([1, 3])].numpy().tolist() == [1, 3]
        with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 5"):
            x[index].numpy()
        with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 5"):
            lnp.take(x, index).numpy()
    pending = lnp.arange(8)
    with pytest.raises(IndexError) as raised:
        x[pending + 0].numpy()
    assert "test_recordings.py" in str(raised.value) and "x[pending + 0]" in str(raised.value)


def test_what_is_recorded_keeps_no_values():
    def work(n):
        x = lnp.zeros(n)
        for f in (nn.sigmoid, nn.softmax, lnp.mean):
            for _ in range(3):
                f(x).block_until_ready()
        lm.grad(lambda x: x.sum())(x).block_until_ready()  # the constants that their derivatives begin with

    work(1)
    before = lm._core.cache_stats()["live_bytes"]
    for n in range(20):
        work(100_000 + n)
    assert lm._core.cache_stats()["live_bytes"] - before < 1_000_000


def test_constants_of_a_recording_are_no_arguments_of_a_derivative():
    """They were found again where the derivative makes the same, and became parameters of what was kept of it."""
    x = lnp.asarray([0.5, 1.0, 2.0], "float64")

    def summed(f):
        return lm.grad(lambda *x: f(*x).sum())

    def along(f):
        return lambda x: lm.jvp(f, (x,), (lnp.ones_like(x),))[1]

    for f, slope in ((lax.abs, 1), (lnp.positive, 1), (nn.identity, 1)):
        reverse = forward = f
        for order in range(3):
            reverse, forward = summed(reverse), along(forward)
            want = [slope if order == 0 else 0] * 3
            assert reverse(x).numpy().tolist() == forward(x).numpy().tolist() == want


def test_threads_share_what_is_recorded():
    def work(first):
        for n in range(first, 900, 3):
            for _ in range(3):
                a = lnp.full(n % 300 + 1, float(n))
                parts = [a, a]
                if lnp.cumprod(lnp.concatenate(parts) * 0 + 1).numpy().sum() != 2 * (n % 300 + 1):
                    return n
        return None

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        assert list(pool.map(work, range(3))) == [None] * 3


def test_kinds_are_bounded():
    nodes = []
    for begin in (0, 600, 1200):
        for n in range(begin, begin + 600):
            for _ in range(2):
                lnp.cumsum(lnp.ones(n + 1))
        nodes.append(lm._core.cache_stats()["live_nodes"])
    assert nodes[2] - nodes[1] < 2000
