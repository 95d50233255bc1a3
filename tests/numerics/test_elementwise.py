"""Every row of the elementwise table, on every element type and path.

Values: special ones against each other and random bit patterns, within the row's bound of the oracle. Bits: lazily,
by jit, interpreted, and vmap against a loop. Derivatives: forward against differences, reverse against forward,
and second order.
"""

from __future__ import annotations

import cmath
import contextlib
import functools
import itertools
import math

import lamina as lm
import mpmath
import numpy as np
import pytest
from elementwise_table import ODD_AT_ZERO, ROWS, Row, convert_oracle
from lamina import _core, lax
from ulps import (
    COMPLEX,
    FLOATS,
    HALVES,
    PART,
    error,
    everything,
    is_subnormal,
    numpy_dtype,
    same,
    samples,
    specials,
    to_tensor,
    ulp,
)

CASES = [pytest.param(row, d, id=f"{row.name}-{d}") for row in ROWS for d in row.dtypes]
COMPLEX_OF = {"float32": "complex64", "float64": "complex128"}


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


@contextlib.contextmanager
def compiled_at_once():
    """Kernels run as machine code from their first run on."""
    _core.set_eager_compile(True)
    try:
        yield
    finally:
        _core.set_eager_compile(False)


def value(t):
    return np.array(to_tensor(t).numpy())


def result_type(row: Row, dtype: str) -> str:
    if row.result == "part":
        return PART.get(dtype, dtype)
    if row.result == "complex":
        return COMPLEX_OF[dtype]
    return row.result or dtype


@functools.lru_cache(maxsize=64)
def operands(row: Row, dtype: str) -> tuple[np.ndarray, ...]:
    """Samples of one operand; of several, all pairs or triples of special values, then samples."""
    n = 100 if row.mpmath else 1500
    if row.arity == 1:
        return (
            everything(dtype) if dtype in HALVES and not row.mpmath else samples(dtype, row.low, row.high, n),
        )
    given = [samples(dtype, row.low, row.high, n, seed) for seed in range(row.arity)]
    special = specials(dtype)
    if row.arity == 3 or dtype in COMPLEX:
        special = special[:: max(1, len(special) // 16)]
    pairs = np.array(list(itertools.product(range(len(special)), repeat=row.arity)))
    return tuple(np.concatenate([special[pairs[:, i]], given[i]]) for i in range(row.arity))


@functools.lru_cache(maxsize=64)
def results(row: Row, dtype: str) -> np.ndarray:
    return value(row.call(*map(to_tensor, operands(row, dtype))))


def wide(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind == "c":
        return x.astype(np.clongdouble)
    return x.astype(np.longdouble) if x.dtype.kind not in "biu" else x


def exact_mpmath(row: Row, *columns: np.ndarray) -> np.ndarray:
    """The oracle's longdouble values, element by element with 30 digits."""
    out = []
    with mpmath.workdps(40):
        for x in zip(*columns):
            if any(np.isnan(v) for v in x):
                out.append(np.longdouble("nan"))
                continue
            if x[0] == 0 and row.op in ODD_AT_ZERO:
                out.append(ODD_AT_ZERO[row.op](np.longdouble(x[0])))
                continue
            y = row.oracle(*(mpmath.mpf(float(v)) for v in x))
            out.append(np.longdouble(mpmath.nstr(y, 25)))
    return np.array(out)


def check_within(row: Row, dtype: str, got: np.ndarray, exact: np.ndarray, given: tuple[np.ndarray, ...]):
    name = result_type(row, dtype)
    bound = row.bounds[name] + 1e-4  # the oracle's own error
    if got.dtype.kind == "c":
        check_complex(row, name, got, exact, given)
        return
    allowed = np.where(is_subnormal(exact, name) & (name == "float32"), max(bound, 1.0), bound)
    if row.cancels and name == "float64":
        negative = np.isfinite(exact) & (given[0] < 0)
        allowed = np.where(
            negative, np.maximum(allowed, row.cancels / ulp(np.where(negative, exact, 1), name)), allowed
        )
    errors = error(got, exact, name)
    worst = int(np.argmax(errors / allowed))
    at = tuple(x[worst] for x in given)
    assert errors[worst] <= allowed[worst], (
        f"{row.name} {dtype} at {at}: {got[worst]!r}, exactly {exact[worst]!r}, {errors[worst]:.4f} ulps"
    )


def check_complex(row: Row, name: str, got: np.ndarray, exact: np.ndarray, given: tuple[np.ndarray, ...]):
    """Normwise where exact parts and operands are finite and neither overflows nor underflows."""
    part = PART[name]
    finite = np.isfinite(exact) & np.logical_and.reduce([np.isfinite(x) for x in given])
    size = np.abs(np.where(finite, exact, 1))
    finite &= (size < np.finfo(part).max / 4) & (size > np.finfo(part).tiny)
    unit = size * np.finfo(part).eps / 2
    distance = np.abs(got.astype(np.clongdouble) - np.where(finite, exact, 0)) / unit
    distance = np.where(finite, np.where(np.isnan(distance), np.inf, distance), 0)
    worst = int(np.argmax(distance))
    at = tuple(x[worst] for x in given)
    assert distance[worst] <= 2 * row.bounds[name], (
        f"{row.name} {name} at {at}: {got[worst]!r}, exactly {exact[worst]!r}, {distance[worst]:.3f} half ulps"
    )


@pytest.mark.parametrize("row, dtype", CASES)
def test_values(row, dtype):
    given, got, name = operands(row, dtype), results(row, dtype), result_type(row, dtype)
    assert got.dtype == numpy_dtype(name)
    if row.op == "convert":
        assert same(got, convert_oracle(given[0], name))
    elif row.mpmath:
        check_within(row, dtype, got, exact_mpmath(row, *given), given)
    elif row.native or name == "bool" or got.dtype.kind in "iu":
        want = np.asarray(row.oracle(*given))
        wrong = (
            np.flatnonzero(~(np.isnan(got) & np.isnan(want)) & (got != want))
            if got.dtype.kind not in "biu"
            else (np.flatnonzero(got != want))
        )
        assert same(got, want), (
            row.name,
            [(*tuple(x[i] for x in given), got[i], want[i]) for i in wrong[:5]],
        )
    else:
        check_within(row, dtype, got, np.asarray(row.oracle(*map(wide, given))), given)


@pytest.mark.parametrize("row, dtype", CASES)
def test_bits_are_the_same_on_every_path(row, dtype):
    """Lazy, jit, interpreted, shorter arrays, scalars, and vmap of each choice of operands against a loop."""
    some = max(1, len(operands(row, dtype)[0]) // 70)
    given = [np.ascontiguousarray(x[::some][:69]) for x in operands(row, dtype)]
    whole = results(row, dtype)[::some][:69]
    tensors = [to_tensor(x) for x in given]
    with compiled_at_once():
        assert same(value(lm.jit(row.call)(*tensors)), whole)
    _core.set_compiling(False)
    try:
        assert same(value(row.call(*[to_tensor(x[:67]) for x in given])), whole[:67])
    finally:
        _core.set_compiling(True)
    one = [to_tensor(x[5]) for x in given]
    assert same(value(row.call(*one)), whole[5])
    grids = [to_tensor(x.reshape(3, 23)) for x in given]
    assert same(value(lm.vmap(row.call)(*grids)), whole.reshape(3, 23))
    for batched in itertools.product((True, False), repeat=row.arity):
        if all(batched) or not any(batched):
            continue
        args = [g if b else g[0] for g, b in zip(grids, batched)]
        loop = [value(row.call(*[g[i] if b else g for g, b in zip(args, batched)])) for i in range(3)]
        axes = tuple(0 if b else None for b in batched)
        assert same(value(lm.vmap(row.call, axes)(*args)), np.stack(loop))
        columns = tuple(1 if b else None for b in batched)
        turned = [to_tensor(np.ascontiguousarray(value(a).T)) if b else a for a, b in zip(args, batched)]
        assert same(value(lm.vmap(row.call, columns)(*turned)), np.stack(loop))


@pytest.mark.parametrize("exponent", [2, 3])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_powers_of_whole_numbers(dtype, exponent):
    """Those that are elements are exact. Many lie halfway between two: in 16 bits they go to the even one."""
    most = {"float16": 2048, "bfloat16": 256, "float32": {2: 4097, 3: 257}[exponent]}
    x = np.arange(1, most[dtype]).astype(numpy_dtype(dtype))
    want = (x.astype(np.float64) ** exponent).astype(x.dtype)  # exact in f64
    got = value(lax.pow(to_tensor(x), to_tensor(np.full_like(x, exponent))))
    assert same(got, want)


# C17 Annex G (which cmath follows but for these, where a later correction of it holds).
CORRECTED = {
    "acosh": lambda z: z.real == 0 and np.isnan(z.imag),
    "tan": lambda z: np.isnan(z.real) and z.imag == 0,
    "tanh": lambda z: z.real == 0 and np.isnan(z.imag),
}
CMATH = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "exp",
    "log",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]


def like_cmath(x: complex, got: complex, want: complex) -> bool:
    """Equal NaNs, infinities and zeros, signs included unless a part of either is NaN; else near."""
    free = np.isnan(x) or np.isnan(want)  # Annex G leaves signs beside a NaN open
    for a, b in ((got.real, want.real), (got.imag, want.imag)):
        if np.isnan(b) or np.isinf(b) or b == 0:
            equal = np.isnan(a) if np.isnan(b) else abs(a) == abs(b)
            if not equal or not (np.isnan(b) or free or np.signbit(a) == np.signbit(b)):
                return False
        elif not np.isclose(a, b, rtol=1e-6 if got.dtype == np.complex64 else 1e-14, atol=0):
            return False
    return True


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("name", CMATH)
def test_complex_special_values(name, dtype):
    """Zeros, infinities, NaN and branch cuts are those of C's Annex G."""
    parts = [0.0, -0.0, 1.0, -1.0, 2.5, -0.5, math.inf, -math.inf, math.nan]
    z = np.array([complex(a, b) for a in parts for b in parts], dtype)
    tried = 0
    for x, got in zip(z, value(getattr(lax, name)(to_tensor(z)))):
        try:
            want = getattr(cmath, name)(complex(x))
        except ValueError:  # a pole, or what Annex G calls invalid: no value to compare with
            continue
        if name in CORRECTED and CORRECTED[name](x):
            continue
        tried += 1
        assert like_cmath(x, got, want), f"{name}({x}) is {got}, not {want}"
    assert tried > 60


GRADS = [
    pytest.param(row, d, id=f"{row.name}-{d}")
    for row in ROWS
    if row.grad
    for d in (["float64"] if "f" in row.grad_kinds else [])
    + (["complex128"] if "c" in row.grad_kinds else [])
]


def dot(a, b):
    """The real inner product without conjugation, jvp's and vjp's pairing."""
    return float(np.sum(value(a) * value(b)).real)


def difference(f, x, t, step=2e-3):
    """The derivative of `f` at `x` along `t` by a five-point stencil."""
    at = [value(f(*[to_tensor(p + k * step * q) for p, q in zip(x, t)])) for k in (-2, -1, 1, 2)]
    return (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step)


def random_like(rng, dtype, shape, low=-1.0, high=1.0):
    x = rng.uniform(low, high, shape)
    return x + 1j * rng.uniform(0.1, 0.6, shape) if dtype in COMPLEX else x


def check_derivatives(f, x, rng, rtol=1e-8):
    """jvp against differences, vjp against jvp, and the jvp of the vjp against differences of the vjp."""
    tangents = [random_like(rng, str(p.dtype), p.shape) for p in x]
    xs, ts = [to_tensor(p) for p in x], [to_tensor(t) for t in tangents]
    out, along = lm.jvp(f, tuple(xs), tuple(ts))
    scale = max(1.0, float(np.max(np.abs(value(out)), initial=0)))
    np.testing.assert_allclose(value(along), difference(f, x, tangents), rtol=rtol, atol=rtol * scale)
    assert same(value(out), value(f(*xs)))
    primal, pullback = lm.vjp(f, *xs)
    weight = random_like(rng, str(value(primal).dtype), primal.shape)
    back = pullback(to_tensor(weight))
    forward = dot(along, to_tensor(weight))
    reverse = sum(dot(b, t) for b, t in zip(back, ts))
    assert abs(forward - reverse) <= 1e-11 * (1 + abs(forward) + scale * primal.size)

    def pulled(*args):
        return lm.vjp(f, *args)[1](to_tensor(weight))

    _, second = lm.jvp(pulled, tuple(xs), tuple(ts))
    for i, got in enumerate(second):
        want = difference(lambda *a, i=i: pulled(*a)[i], x, tangents)
        np.testing.assert_allclose(value(got), want, rtol=20 * rtol, atol=20 * rtol * scale)


@pytest.mark.parametrize("row, dtype", GRADS)
def test_derivatives(row, dtype):
    rng = np.random.default_rng(3)
    low, high = row.grad
    x = [random_like(rng, dtype, (5,), low + 0.01, high - 0.01) for _ in range(row.arity)]
    if row.op == "clamp":
        x = [np.full(5, -1.0), np.array([-1.5, -0.5, 0.2, 0.7, 1.5]), np.full(5, 1.0)]
    if row.op == "remainder":
        x[0] = x[0] * 5 + 0.07
    check_derivatives(row.call, x, rng)


def test_every_elementwise_op_has_a_row():
    import structured_table

    covered = {row.op for row in ROWS} | structured_table.OPS
    assert set(_core.op_names()) - covered == set()
    assert covered - set(_core.op_names()) == set()


def test_every_float_type_is_tried():
    assert {d for row in ROWS for d in row.dtypes} >= set(FLOATS) | set(COMPLEX)


@pytest.mark.not_on_cuda(reason="kernels are not interpreted there")
@pytest.mark.machine_code
def test_machine_code_and_interpreter_are_both_tried():
    """The two tiers that the tests of bits compare really are two."""
    x = to_tensor(np.arange(7.0))
    with compiled_at_once():
        before = lm.cache.stats()["kernel_compiles"]
        value(lm.jit(lambda v: v * 3 + v)(x))
        assert lm.cache.stats()["kernel_compiles"] == before + 1
    _core.set_compiling(False)
    try:
        value(lm.jit(lambda v: v * 3 - v)(x))
        assert lm.cache.stats()["kernel_compiles"] == before + 1
    finally:
        _core.set_compiling(True)
