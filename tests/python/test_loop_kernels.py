"""Loops whose steps compute element by element: one kernel, with the results of a plain loop."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from device_support import has_avx512
from lamina import lax


def steps(f: Callable[..., Any], *args: Any) -> list[str]:
    """The steps of the program that `f` becomes."""
    return [
        s
        for s in lm.jit(f).lower(*args).compile().as_text().splitlines()
        if s.startswith("step") and ":" in s
    ]


def is_one_kernel(f: Callable[..., Any], *args: Any) -> bool:
    lines = steps(f, *args)
    return len(lines) == 1 and "in steps" in lines[0]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8"])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (17, 3)])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 6])
def test_scan(dtype, shape, reverse, length):
    rng = np.random.default_rng(0)
    start, xs = rng.integers(0, 9, shape).astype(dtype), rng.integers(0, 9, (length, *shape)).astype(dtype)

    def f(start, xs):
        def step(carry, x):
            n, c = carry
            c = c * 3 + x
            return (n + 1, c), (c - x, n)

        return lax.scan(step, (0, start), xs, reverse=reverse)

    (n, c), (ys, ns) = lm.jit(f)(start, xs)
    want, stacked = start.copy(), [None] * length
    for i in range(length)[:: -1 if reverse else 1]:
        want = (want * np.asarray(3, dtype) + xs[i]).astype(dtype)
        stacked[i] = want - xs[i]
    np.testing.assert_array_equal(c, want)
    assert int(n) == length and ys.dtype == dtype
    np.testing.assert_array_equal(ys, np.reshape(stacked, (length, *shape)).astype(dtype))
    np.testing.assert_array_equal(ns, np.arange(length)[:: -1 if reverse else 1])
    if length == 6:
        assert is_one_kernel(f, start, xs)


@pytest.mark.machine_code
def test_while_of_scalars_is_one_compiled_kernel():
    def f(n, x):
        return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 1.0001 + 0.5), (0, x))

    g = lm.jit(f)
    lm.cache.wait()
    before = lm.cache.stats()
    i, x = g(1000, np.float32(1))
    float(x)
    lm.cache.wait()
    after = lm.cache.stats()
    assert (
        after["kernel_compiles"] + after["kernel_loads"] - before["kernel_compiles"] - before["kernel_loads"]
        == 1
    )
    assert len(steps(f, 1000, np.float32(1))) == 1
    want = 1.0  # numbers keep all their bits in the loop
    for _ in range(1000):
        want = want * 1.0001 + 0.5
    assert int(i) == 1000 and np.asarray(x) == np.float32(want)
    i, x = g(0, np.float32(3))
    assert int(i) == 0 and float(x) == 3


def test_nested_loops_and_captured_arrays():
    a, w = np.float64([0.5, 1.5, -2]), np.float64([[1, 2, 3], [4, 5, 6]])

    def f(a, w, n):
        def outer(i, s):
            inner = lax.fori_loop(0, n, lambda j, t: lnp.sin(t) + w[1, ::-1] * j, s)
            return lax.while_loop(lambda u: u[0] < i, lambda u: (u[0] + 2, u[1] * 0.5 + w[0, 2]), (0, inner))[
                1
            ]

        return lax.fori_loop(0, 5, outer, a)

    want = a
    for i in range(5):
        for j in range(4):
            want = np.sin(want) + w[1, ::-1] * j
        for _ in range(0, i, 2):
            want = want * 0.5 + w[0, 2]
    np.testing.assert_allclose(lm.jit(f)(a, w, 4), want, rtol=1e-14)
    assert any("in steps" in s for s in steps(f, a, w, 4))
    assert not any("while" in s or "scan" in s for s in steps(f, a, w, 4))


@pytest.mark.parametrize("reverse", [False, True])
def test_gradient_through_a_scan(reverse):
    rng = np.random.default_rng(1)
    x, xs = rng.normal(size=4), rng.normal(size=(7, 4))

    def f(x, xs):
        def step(c, a):
            c = lnp.tanh(c * a) + 0.1 * a
            return c, c * c

        last, ys = lax.scan(step, x, xs, reverse=reverse)
        return (last * 3).sum() + ys.sum()

    grads = lm.jit(lm.grad(f, argnums=(0, 1)))(x, xs)
    h = 1e-6
    for k, (at, grad) in enumerate(zip((x, xs), grads, strict=True)):
        for i in np.ndindex(at.shape):
            moved = [[x.copy(), xs.copy()] for _ in range(2)]
            moved[0][k][i] += h
            moved[1][k][i] -= h
            np.testing.assert_allclose(
                grad[i], (float(f(*moved[0])) - float(f(*moved[1]))) / (2 * h), rtol=1e-6
            )
    kernels = steps(lm.grad(f, argnums=(0, 1)), x, xs)
    assert sum("in steps" in s for s in kernels) == 2
    assert not any("scan" in s for s in kernels)


@pytest.mark.parametrize("count", [1, 5, 64, 1001])
def test_lanes_of_a_batched_while_stop_by_themselves(count):
    rng = np.random.default_rng(2)
    c = rng.uniform(-2, 2, (count, 2)).astype(np.float32)

    def escape(c):
        def go_on(s):
            return (s[2] < 40) & (s[0] * s[0] + s[1] * s[1] < 4)

        def step(s):
            x, y, n = s
            return x * x - y * y + c[0], 2 * x * y + c[1], n + 1

        return lax.while_loop(go_on, step, (np.float32(0), np.float32(0), 0))

    x, y, n = lm.jit(lm.vmap(escape))(c)
    for k in range(count):
        u = v = np.float32(0)
        i = 0
        while i < 40 and u * u + v * v < 4:
            u, v, i = u * u - v * v + c[k, 0], 2 * u * v + c[k, 1], i + 1
        assert (x[k], y[k], n[k]) == (u, v, i)
    text = steps(lm.vmap(escape), c)
    assert "in steps" in text[-1] and not any("while" in s for s in text)


def test_halves_and_complex_carries_are_those_of_single_steps():
    rng = np.random.default_rng(3)
    z = (rng.normal(size=9) + 1j * rng.normal(size=9)).astype(np.complex64)
    h = rng.normal(size=9).astype(np.float16)

    def step(_, s):
        z, h, ok = s
        return z * z - 0.5j, h * h - h, ok ^ (h > 0)

    got = lm.jit(lambda z, h: lax.fori_loop(0, 6, step, (z, h, h > 1)))(z, h)
    want = lnp.asarray(z), lnp.asarray(h), lnp.asarray(h) > 1
    for i in range(6):
        want = step(i, want)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b)


def test_steps_that_need_other_elements_and_arrays_without_elements():
    x = np.arange(6, dtype=np.float32)
    got = lax.fori_loop(0, 3, lambda i, s: s[::-1] + s.sum(), x)
    want = x
    for _ in range(3):
        want = want[::-1] + want.sum()
    np.testing.assert_array_equal(got, want)
    n, empty = lax.fori_loop(0, 3, lambda i, s: (s[0] + i, s[1] * 2), (0, np.zeros((0, 2), np.float32)))
    assert int(n) == 3 and empty.shape == (0, 2)


def test_branches_in_steps():
    w = np.float32([3, 1, 2])

    def f(x, n):
        def step(s):
            i, x, y = s
            x = lax.cond(i % 3 == 0, lambda x: x + w[::-1], lambda x: x * 2, x)
            y = lax.switch(i - 1, [lambda x, y: x - y, lambda x, y: y, lambda x, y: y + i], x, y)
            return i + 1, x, y

        return lax.while_loop(lambda s: s[0] < n, step, (0, x, x))

    x = y = np.float32([1, 2, 3])
    for i in range(6):
        x = x + w[::-1] if i % 3 == 0 else x * 2
        y = [x - y, y, y + i][min(max(i - 1, 0), 2)]
    start = np.float32([1, 2, 3])
    for got, want in zip(lm.jit(f)(start, 6)[1:], (x, y), strict=True):
        np.testing.assert_array_equal(got, want)
    assert not any("while" in s for s in steps(f, start, 6))


def test_results_do_not_disturb_the_operands():
    x = lnp.arange(1000.0)
    y = x + 1
    f = lm.jit(lambda n, y: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] * 2), (0, y)))
    for n in (0, 1, 3):
        i, z = f(n, y)
        assert int(i) == n
        np.testing.assert_array_equal(z, (np.arange(1000) + 1) * 2**n)
    np.testing.assert_array_equal(y, np.arange(1000) + 1)


# --- results too large for the caches, which are stored past them ---


def kernels(f: Callable[..., Any], *args: Any) -> str:
    return lm.jit(f).lower(*args).compile().as_text("kernels")


@pytest.mark.machine_code
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("float32", (9_000_001,)),
        ("float32", (2_999, 3_001)),  # rows that begin at every address
        ("float32", (70, 128 * 1024)),
        ("float64", (4_200_003,)),
        ("uint8", (33_600_005,)),
    ],
)
def test_large_results_are_stored_past_the_caches(dtype, shape):
    x = (np.arange(np.prod(shape)) % 101).astype(dtype).reshape(shape)

    def f(x, y):
        return x * 2 + y, x - y

    assert (" streams\n" in kernels(f, x, x)) == (lm.devices()[0].platform != "cuda")
    jitted = lm.jit(f)
    for _ in range(2):  # interpreted first, then compiled
        total, difference = jitted(x, x[::-1])
        np.testing.assert_array_equal(total, x * np.asarray(2, dtype) + x[::-1])
        np.testing.assert_array_equal(difference, x - x[::-1])
        lm.cache.wait()


@pytest.mark.machine_code
def test_whole_vectors_of_bodies_that_are_always_masked_are_stored_past_the_caches():
    x = np.linspace(-3, 3, 5_000_001, dtype="float32")
    on_cpu = lm.devices()[0].platform != "cuda"
    compiled = lm.jit(lnp.exp).lower(x).compile()
    assert ("!nontemporal" in compiled.as_text("ir")) == on_cpu


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_avx512_scales_by_powers_of_two_and_tells_kinds_of_numbers_in_one_instruction(dtype):
    x = np.ones(1000, dtype)
    for f, instruction in ((lnp.exp, "scalef"), (lnp.log, "fpclass")):
        assert (instruction in lm.jit(f).lower(x).compile().as_text("assembly")) == has_avx512()


@pytest.mark.machine_code
def test_large_results_over_their_operand_and_their_readers():
    x = (np.arange(9_000_001) % 101).astype("float32")
    jitted = lm.jit(lambda x: x * 0.5 + 1.0, donate_argnums=0)
    held, want = lnp.array(x), x
    for _ in range(4):
        held, want = jitted(held), want * np.float32(0.5) + np.float32(1)
        lm.cache.wait()
        assert float(lnp.max(held)) == want.max()
    np.testing.assert_array_equal(held, want)


@pytest.mark.machine_code
def test_smaller_results_and_those_of_long_bodies_stay_in_the_caches():
    def long(x):
        for _ in range(20):
            x = lnp.sin(x) * 1.5 + x
        return x

    small, large = np.ones(1_000_000, "float32"), np.ones(9_000_000, "float32")
    assert " streams" not in kernels(lambda x: x * 2 + 1, small)
    assert " streams" not in kernels(long, large)
    assert " streams" not in kernels(lambda x: x.reshape(3000, 3000).T + 1, large)


@pytest.mark.machine_code
@pytest.mark.parametrize("shape", [(100_000,), (3, 1001)])
def test_whole_vectors_of_long_bodies_move_by_plain_instructions(shape):
    # Some processors fetch nothing ahead of masked loads: a long body out of the caches took five times as long.
    x = np.linspace(-3, 3, int(np.prod(shape)), dtype="float32").reshape(shape)
    compiled = lm.jit(lambda x: lnp.exp(x) * x + lnp.exp(-x)).lower(x).compile()
    ir = compiled.as_text("ir")
    for kind, plain in (("load", r"= load <\d+ x float>"), ("store", r"  store <\d+ x float>")):
        assert len(re.findall(plain, ir)) >= len(re.findall(rf"call .*@llvm\.masked\.{kind}", ir))


@pytest.mark.machine_code
@pytest.mark.parametrize("columns", [1, 5, 8, 15, 16, 17, 40])
def test_short_rows_take_short_vectors(columns):
    x = np.linspace(-3, 3, 100 * columns, dtype="float32").reshape(100, columns)
    by = np.linspace(1, 2, 100, dtype="float32")

    def f(x, by):
        return lnp.exp(x * by[:, None]) + lnp.exp(-x)

    on_cpu = lm.devices()[0].platform != "cuda"
    limit = {8: "lanes=8\n", 5: "lanes=16\n", 15: "lanes=16\n", 16: "lanes=16\n"}.get(columns)
    assert ("lanes=" in kernels(f, x, by)) == (limit is not None and on_cpu)
    assert limit is None or not on_cpu or limit in kernels(f, x, by)
    jitted = lm.jit(f)
    first = np.asarray(jitted(x, by))  # interpreted, unless the disk has it
    lm.cache.wait()
    np.testing.assert_array_equal(jitted(x, by), first)
    np.testing.assert_allclose(first, np.exp(x * by[:, None]) + np.exp(-x), rtol=1e-6)


@pytest.mark.machine_code
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [3, 4, 9])
def test_quotients_by_one_divisor_are_made_four_at_a_time(dtype, count):
    length = 2000

    def step(xs):
        size = abs(xs[0]) + xs[-1] * xs[-1]
        return tuple(x / size - np.dtype(dtype).type(i) for i, x in enumerate(xs))

    start = np.random.default_rng(count).standard_normal(count).astype(dtype)
    f = lm.jit(lambda *xs: lax.fori_loop(0, length, lambda _, xs: step(xs), xs))
    arrays, want = [lnp.asarray(x, dtype) for x in start], tuple(start)
    for _ in range(length):
        want = step(want)
    for _ in range(20):  # interpreted first, then compiled
        np.testing.assert_array_equal(np.stack(f(*arrays)), np.asarray(want, dtype))
    lm.cache.wait()
    np.testing.assert_array_equal(np.stack(f(*arrays)), np.asarray(want, dtype))
    code = f.lower(*arrays).compile().as_text("ir")
    kind = {"float32": "float", "float64": "double"}[dtype]
    at_once = count // 4 if lm.devices()[0].platform != "cuda" else 0
    assert code.count(f"fdiv <4 x {kind}>") == at_once
    assert code.count(f"fdiv {kind}") == count - 4 * at_once
