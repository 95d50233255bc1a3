"""Loops over small vectors and matrices are one kernel, and give the bits of their steps made one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax

RNG = np.random.default_rng(11)
Body = Callable[..., Any]


def loops_of(f: Callable[..., Any], *args: Any) -> list[str]:
    text = lm.jit(f).lower(*args).compile().as_text()
    steps = [s for s in text.splitlines() if s.startswith("step") and ":" in s]
    return [s for s in steps if "in steps" in s or "while" in s or "scan of" in s]


def is_one_kernel(f: Callable[..., Any], *args: Any) -> bool:
    loops = loops_of(f, *args)
    return len(loops) == 1 and "in steps" in loops[0]


def leaves(x: Any) -> list[np.ndarray]:
    return [np.asarray(v) for v in (x if isinstance(x, tuple) else (x,))]


def same(got: Any, want: Any) -> None:
    for a, b in zip(leaves(got), leaves(want), strict=True):
        np.testing.assert_array_equal(a, b)


def runs(f: Callable[..., Any], *args: Any) -> list[Any]:
    """Interpreted, and compiled where this machine does that."""
    g = lm.jit(f)
    out = []
    for _ in range(3):
        out.append(g(*args))
        lm.cache.wait()
    return out


def rotation(a: Any) -> Any:
    return lnp.stack([lnp.stack([lnp.cos(a), -lnp.sin(a)]), lnp.stack([lnp.sin(a), lnp.cos(a)])])


def kalman(i: Any, x: Any, p: Any) -> Any:
    a = np.array([[1, 0.1], [0, 1]], x.dtype)
    x, p = a @ x, a @ p @ a.T + np.asarray(0.01 * np.eye(2), x.dtype)
    gain = p[:, 0] / (p[0, 0] + 0.1)
    return x + gain * (1.0 - x[0]), p - lnp.outer(gain, p[0])


VECTOR: dict[str, Body] = {
    "stack": lambda i, y: lnp.stack([y[1], -lnp.sin(y[0]), y[2] * 0.5]),
    "concatenate": lambda i, y: lnp.concatenate([y[1:] * 0.5, y[:1] + 1]),
    "roll": lambda i, y: lnp.roll(y, 1) * 0.9,
    "reverse": lambda i, y: y[::-1] * 0.9,
    "pad": lambda i, y: lnp.pad(y[:2], (1, 0)) * 0.9 + 1,
    "update": lambda i, y: y.at[0].set(y[1] * 0.5).at[1:].add(0.25),
    "matvec": lambda i, y: np.asarray(RNG_MATRIX, y.dtype) @ y,
    "norm": lambda i, y: y / lnp.linalg.norm(y) + 0.1,
    "maximum": lambda i, y: y * 0.5 - lnp.max(y),
    "position": lambda i, y: y * 0.9 + lnp.argmax(y),
    "softmax": lambda i, y: lnp.exp(y - lnp.max(y)) / lnp.sum(lnp.exp(y - lnp.max(y))),
    "branch": lambda i, y: lax.cond(y[0] > 0, lambda y: y * 0.5 - 1, lambda y: y[::-1] + 0.7, y),
    "inner loop": lambda i, y: lax.fori_loop(0, 3, lambda j, z: lnp.roll(z, 1) * 0.5 + j * y[0], y),
    "matrix of a step": lambda i, y: lnp.concatenate([rotation(y[2]) @ y[:2], y[2:] * 0.9]),
}
MATRIX: dict[str, Body] = {
    "matmul": lambda i, m: (m @ np.asarray(RNG_MATRIX, m.dtype)) * 0.5,
    "normalised": lambda i, m: (lambda c: c / lnp.sqrt(lnp.sum(c * c)))(m @ np.asarray(RNG_MATRIX, m.dtype)),
    "by its transpose": lambda i, m: (m.T @ m) * 0.3,
    "sums": lambda i, m: m * 0.5 + lnp.sum(m, 0) * 0.1 - lnp.mean(m, 1, keepdims=True),
    "flat": lambda i, m: (m.reshape(9)[::-1] * 0.9).reshape(3, 3),
    "row": lambda i, m: m.at[1].set(m[0] * 0.5),
    "determinant": lambda i, m: m * 0.5 + lnp.linalg.det(m),
}
RNG_MATRIX = RNG.standard_normal((3, 3)) * 0.4
FORMS = [
    pytest.param(body, shape, id=name)
    for table, shape in ((VECTOR, (3,)), (MATRIX, (3, 3)))
    for name, body in table.items()
]
STEPS = 6


def loop(body: Body) -> Callable[[Any], Any]:
    return lambda s: lax.fori_loop(0, STEPS, body, s)


def one_by_one(body: Body, s: Any) -> Any:
    step = lm.jit(body)
    for i in range(STEPS):
        s = step(np.int32(i), s)
    return s


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("body", "shape"), FORMS)
def test_one_kernel_gives_the_bits_of_its_steps(body: Body, shape: tuple[int, ...], dtype: str):
    s = lnp.asarray(RNG.standard_normal(shape).astype(dtype))
    want = one_by_one(body, s)
    for got in runs(loop(body), s):
        same(got, want)
    assert is_one_kernel(loop(body), s)


@pytest.mark.parametrize(("body", "shape"), FORMS)
def test_a_batch_is_one_kernel_over_its_lanes(body: Body, shape: tuple[int, ...]):
    s = RNG.standard_normal((37, *shape)).astype("float32")
    f = loop(body)
    want = np.stack([np.asarray(lm.jit(f)(x)) for x in s])
    for got in runs(lm.vmap(f), s):
        same(got, want)
    assert is_one_kernel(lm.vmap(f), s)


@pytest.mark.parametrize(("body", "shape"), FORMS)
def test_gradients_are_those_of_the_steps(body: Body, shape: tuple[int, ...]):
    s = lnp.asarray(RNG.standard_normal(shape))
    weights = RNG.standard_normal(shape)

    def unrolled(s: Any) -> Any:
        for i in range(STEPS):
            s = body(np.int32(i), s)
        return lnp.sum(s * weights)

    gradient = lm.grad(lambda s: lnp.sum(loop(body)(s) * weights))
    for got in runs(gradient, s):
        np.testing.assert_allclose(np.asarray(got), np.asarray(lm.grad(unrolled)(s)), rtol=1e-9, atol=1e-12)
    assert all("in steps" in s for s in loops_of(gradient, s))


def test_several_arrays_of_several_shapes():
    s = (lnp.asarray(np.array([0.3, -0.2], "float32")), lnp.asarray(np.eye(2, dtype="float32")))
    f = loop(lambda i, s: kalman(i, *s))
    want = s
    step = lm.jit(lambda s: kalman(0, *s))
    for _ in range(STEPS):
        want = step(want)
    for got in runs(f, s):
        same(got, want)
    assert is_one_kernel(f, s)
    lanes = tuple(np.stack([np.asarray(x) * (1 + k) for k in range(21)]) for x in s)
    for got in runs(lm.vmap(f), lanes):
        same(
            got,
            tuple(np.stack(x) for x in zip(*(leaves(f(s)) for s in zip(*lanes, strict=True)), strict=True)),
        )
    assert is_one_kernel(lm.vmap(f), lanes)


@pytest.mark.parametrize("lanes", [1, 5, 200])
@pytest.mark.parametrize("leading", [True, False])
def test_lanes_lead_or_trail(lanes: int, leading: bool):
    """A program for many pendulums as users write it: their numbers in the rows or in the columns of one array."""
    axis = 1 if leading else 0
    y = RNG.standard_normal((lanes, 2) if leading else (2, lanes)).astype("float32")

    def body(i: Any, y: Any) -> Any:
        angle, speed = (y[:, 0], y[:, 1]) if leading else (y[0], y[1])
        return y + 0.01 * lnp.stack([speed, -lnp.sin(angle)], axis)

    want = one_by_one(body, y)
    for got in runs(loop(body), y):
        same(got, want)
    assert is_one_kernel(loop(body), y)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "int64", "float16", "bfloat16", "complex64"])
def test_other_element_types(dtype: str):
    def body(i: Any, y: Any) -> Any:
        return lnp.concatenate([y[1:], lnp.where(i % 2 == 0, y[:1], y[1:2])])

    s = lnp.asarray(RNG.integers(0, 2, 3)).astype(dtype)
    for got in runs(loop(body), s):
        assert np.asarray(got).tobytes() == np.asarray(one_by_one(body, s)).tobytes()
    assert is_one_kernel(loop(body), s)


@pytest.mark.parametrize("dtype", ["int16", "int32", "uint8", "int64"])
def test_products_of_integers_wrap(dtype: str):
    m = np.array([[3, 1], [7, 2]], dtype)
    want = m.copy()
    with np.errstate(over="ignore"):
        for _ in range(40):
            want = want @ m

    def f(s: Any) -> Any:
        return lax.fori_loop(0, 40, lambda i, s: s @ m, s)

    for got in runs(f, m):
        same(got, want)
    assert is_one_kernel(f, m)


def test_while_and_scan():
    def grows(s: Any) -> Any:
        return lax.while_loop(lambda s: lnp.sum(s * s) < 50, lambda s: s[::-1] * 1.25 + 0.125, s)

    def walks(s: Any) -> Any:
        def step(s: Any, x: Any) -> Any:
            s = lnp.stack([s[1] + x[0], s[0] * 0.5 - x[1]])
            return s, (s, lnp.sum(s), lnp.outer(s, x))

        last, seen = lax.scan(step, s[:2], xs)
        return last, *seen

    s = np.array([0.5, -0.25, 1.0, 2.0])
    xs = RNG.standard_normal((9, 2))
    want = s
    while np.sum(want * want) < 50:
        want = want[::-1] * 1.25 + 0.125
    for got in runs(grows, s):
        same(got, want)
    at, seen = s[:2], []
    for x in xs:
        at = np.array([at[1] + x[0], at[0] * 0.5 - x[1]])
        seen.append((at, at[0] + at[1], np.outer(at, x)))
    for got in runs(walks, s):
        same(got, (at, *(np.stack(x) for x in zip(*seen, strict=True))))
    assert is_one_kernel(grows, s)
    assert is_one_kernel(walks, s)


def test_lanes_of_a_while_stop_by_themselves():
    def f(s: Any) -> Any:
        return lax.while_loop(lambda s: lnp.sum(s) < 10, lambda s: lnp.stack([s[1], s[0] + 1.5]), s)

    def plain(s: np.ndarray) -> np.ndarray:
        while s[0] + s[1] < 10:
            s = np.array([s[1], s[0] + 1.5])
        return s

    s = RNG.uniform(-20, 12, (53, 2))
    for got in runs(lm.vmap(f), s):
        same(got, np.stack([plain(x) for x in s]))
    assert is_one_kernel(lm.vmap(f), s)


def test_elements_written_at_computed_positions():
    def f(s: Any) -> Any:
        return lax.fori_loop(0, 20, lambda i, s: s.at[(i * 2) % 3].set(s[0] * 0.5 + i), s)

    want = np.array([0.5, -1.0, 2.0])
    s = want.copy()
    for i in range(20):
        want[(i * 2) % 3] = want[0] * 0.5 + i
    for got in runs(f, s):
        same(got, want)
    assert is_one_kernel(f, s)


@pytest.mark.parametrize("extra", ["f64[65]", "f64[9,9]"])
def test_larger_states_are_no_such_kernels(extra: str):
    """An element of code for each element of the state: there are bounds."""
    shape = (65,) if extra == "f64[65]" else (9, 9)

    def f(s: Any) -> Any:
        return lax.fori_loop(0, 5, lambda i, s: lnp.roll(s, 1) * 0.5, s)

    s = RNG.standard_normal(shape)
    want = s
    for _ in range(5):
        want = np.roll(want, 1) * 0.5
    for got in runs(f, s):
        same(got, want)
    assert (
        sum(
            int(s.split(" instructions")[0].split()[-1].split("+")[0]) for s in loops_of(f, s) if "instr" in s
        )
        < 200
    )


def test_long_programs_of_shared_values_stay_small():
    """Each value is computed once per element, however many places read it: stages of stages are no products."""

    def rate(y: Any) -> Any:
        return lnp.stack([y[1], -lnp.sin(y[0])])

    def step(i: Any, y: Any) -> Any:
        a = rate(y)
        b = rate(y + 0.05 * a)
        c = rate(y + 0.05 * b)
        return y + 0.1 / 6 * (a + 2 * b + 2 * c + rate(y + 0.1 * c))

    y = np.array([1.0, 0.0], "float32")
    (loop_step,) = loops_of(loop(step), y)
    assert int(loop_step.split(" instructions")[0].split()[-1].split("+")[0]) < 1000
    same(lm.jit(loop(step))(y), one_by_one(step, lnp.asarray(y)))
