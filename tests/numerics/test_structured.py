"""Every row of the table of structured ops: values, bits on every path, vmap at every axis, derivatives."""

from __future__ import annotations

import functools
import itertools

import lamina as lm
import numpy as np
import pytest
from lamina import _core
from structured_table import CASES, Case, Index
from test_elementwise import check_derivatives, compiled_at_once, random_like, value
from ulps import COMPLEX, FLOATS, HALVES, numpy_dtype, same, to_tensor

ROWS = [pytest.param(c, d, id=f"{c.op}-{c.name}-{d}") for c in CASES for d in c.dtypes]


def data(case: Case, dtype: str, shape: tuple[int, ...], rng) -> np.ndarray:
    size = int(np.prod(shape))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype not in FLOATS + COMPLEX:
        return (rng.permutation(max(size, 1))[:size].reshape(shape) % 100).astype(dtype)
    if case.distinct:
        return ((rng.permutation(size) + 1) / 8 - 2).reshape(shape).astype(numpy_dtype(dtype))
    x = rng.uniform(0.5, 1.5, shape) * rng.choice([-1, 1], shape)
    return (x + 1j * rng.uniform(-1, 1, shape) if dtype in COMPLEX else x).astype(numpy_dtype(dtype))


def draw(case: Case, dtype: str, operand, rng) -> np.ndarray:
    if isinstance(operand, Index):
        return rng.integers(operand.low, operand.high, operand.shape, operand.dtype, endpoint=True)
    return data(case, dtype, operand, rng)


@functools.lru_cache(maxsize=8)
def operands(case: Case, dtype: str) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(5)
    return tuple(draw(case, dtype, o, rng) for o in case.operands)


def run(case: Case, given) -> np.ndarray:
    return value(case.call(*map(to_tensor, given)))


@pytest.mark.parametrize("case, dtype", ROWS)
def test_values(case, dtype):
    given = operands(case, dtype)
    got = run(case, given)
    if case.bound == 0 or got.dtype.kind in "iu":
        with np.errstate(all="ignore"):
            want = np.asarray(case.oracle(*given))
        assert same(got, want.astype(got.dtype))
        return
    wide = np.clongdouble if dtype in COMPLEX else np.longdouble

    def widened(absolute):
        return [x if x.dtype.kind in "iu" else (np.abs(x) if absolute else x).astype(wide) for x in given]

    want, size = np.asarray(case.oracle(*widened(False))), np.abs(np.asarray(case.oracle(*widened(True))))
    eps = {"bfloat16": 2.0**-7, "float16": 2.0**-10}.get(dtype) or np.finfo(dtype).eps
    assert got.shape == want.shape
    assert np.all(np.abs(got.astype(wide) - want) <= case.bound * eps * size + 0), (got, want)


@pytest.mark.parametrize("case, dtype", ROWS)
def test_bits_are_the_same_on_every_path(case, dtype):
    given = operands(case, dtype)
    whole = run(case, given)
    with compiled_at_once():
        assert same(value(lm.jit(case.call)(*map(to_tensor, given))), whole)
    _core.set_compiling(False)
    try:
        assert same(value(lm.jit(case.call)(*map(to_tensor, given))), whole)
    finally:
        _core.set_compiling(True)


@pytest.mark.parametrize(
    "case, dtype",
    [p for p in ROWS if p.values[1] in ("float32", "float16", "int32", "complex64") or not p.values[0].kinds],
)
def test_vmap_has_the_bits_of_a_loop(case, dtype):
    """Each choice of batched operands; each of those along each of its axes, forwards and as jit."""
    rng, size = np.random.default_rng(9), 3
    plain = operands(case, dtype)
    stacks = [np.stack([draw(case, dtype, o, rng) for _ in range(size)]) for o in case.operands]
    for chosen in itertools.product((False, True), repeat=len(plain)):
        if not any(chosen):
            continue
        loop = np.stack(
            [run(case, [s[i] if c else p for s, p, c in zip(stacks, plain, chosen)]) for i in range(size)]
        )
        places = [range(p.ndim + 1) if c else [None] for p, c in zip(plain, chosen)]
        depth = max(len(p) for p in places)
        for k in range(depth):
            axes = tuple(p[k % len(p)] for p in places)
            args = [
                p if a is None else np.ascontiguousarray(np.moveaxis(s, 0, a))
                for s, p, a in zip(stacks, plain, axes)
            ]
            mapped = lm.vmap(case.call, axes)
            assert same(value(mapped(*map(to_tensor, args))), loop), (chosen, axes)
        assert same(value(lm.jit(mapped)(*map(to_tensor, args))), loop), (chosen, axes, "jit")


GRADS = [
    pytest.param(c, d, id=f"{c.op}-{c.name}-{d}")
    for c in CASES
    if c.differentiable
    for d in ("float64", "complex128")
    if d in c.dtypes
]


@pytest.mark.parametrize("case, dtype", GRADS)
def test_derivatives(case, dtype):
    """Both modes and second order, by every data operand at once."""
    rng = np.random.default_rng(2)
    given = operands(case, dtype)
    places = [i for i, o in enumerate(case.operands) if not isinstance(o, Index)]
    x = [given[i] + 0.0 for i in places]

    def f(*args):
        full = [to_tensor(g) for g in given]
        for i, a in zip(places, args):
            full[i] = a
        return case.call(*full)

    check_derivatives(f, x, rng)
    batch = [to_tensor(np.stack([random_like(rng, dtype, p.shape) + p for _ in range(2)])) for p in x]
    if case.distinct or not all(p.size for p in x):
        return
    gradient = lm.grad(lambda *a: lm.numpy.sum(lm.numpy.real(f(*a) * f(*a))), tuple(range(len(x))))
    mapped = lm.vmap(gradient)(*batch)
    for i in range(2):
        for m, g in zip(mapped, gradient(*[b[i] for b in batch])):
            assert same(value(m[i]), value(g))


def test_16_bit_floats_are_tried():
    assert {d for c in CASES for d in c.dtypes} >= set(HALVES)
