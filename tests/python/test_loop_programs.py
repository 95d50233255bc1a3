"""Random programs with control flow, in every direction against what does not share its code.

Reverse mode against forward mode and differences, batches against a loop over the lanes, jit against eager runs.
Every program is a function of a vector of three float64 numbers, made of a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax
from lax_support import array, value

Fn = Callable[[lm.Tensor, lm.Tensor], lm.Tensor]  # (state, what the whole program is given) -> state


class Programs:
    """Statements are functions of the state and of the program's argument, which they may capture."""

    def __init__(self, seed: int, deepest: int = 3) -> None:
        self.random, self.deepest = random.Random(seed), deepest
        self.text: list[str] = []

    def number(self, low: float, high: float) -> float:
        return round(self.random.uniform(low, high), 3)

    def note(self, depth: int, text: str) -> None:
        self.text.append("  " * depth + text)

    def block(self, depth: int, length: int) -> Fn:
        steps = [self.statement(depth) for _ in range(length)]

        def run(v: lm.Tensor, x: lm.Tensor) -> lm.Tensor:
            for step in steps:
                v = step(v, x)
            return v

        return run

    def statement(self, depth: int) -> Fn:
        kinds = [self.elementwise, self.mixing]
        if depth < self.deepest:
            kinds += [
                self.cond,
                self.switch,
                self.while_loop,
                self.while_loop,
                self.fori,
                self.scan,
                self.checkpoint,
            ]
        return self.random.choice(kinds)(depth)

    # Values stay within (-2, 2), so that a program is no longer than its text.
    def elementwise(self, depth: int) -> Fn:
        a, b, c = self.number(-1.5, 1.5), self.number(-1, 1), self.random.random() < 0.4
        name, f = self.random.choice([("sin", lnp.sin), ("tanh", lnp.tanh), ("cos", lnp.cos)])
        self.note(depth, f"v = {name}({a} v + {b}{' x' if c else ''})")
        return lambda v, x: f(a * v + (b * x if c else b))

    def mixing(self, depth: int) -> Fn:
        m = np.array([[self.number(-0.6, 0.6) for _ in range(3)] for _ in range(3)])
        kind = self.random.choice(["matmul", "roll", "index", "cumsum"])
        self.note(depth, f"v = {kind}(v)")
        table = {
            "matmul": lambda v, x: array(m) @ v,
            "roll": lambda v, x: 0.9 * lnp.roll(v, 1) * x,
            "index": lambda v, x: v.at[1].set(v[0] * v[2]),
            "cumsum": lambda v, x: 0.5 * lnp.cumsum(v),
        }
        f = table[kind]
        return lambda v, x: lnp.clip(f(v, x), -2.0, 2.0)

    def predicate(self) -> Callable[[lm.Tensor], lm.Tensor]:
        a, i = self.number(-0.5, 0.5), self.random.randrange(3)
        return self.random.choice([lambda v: v[i] > a, lambda v: v.sum() < a, lambda v: (v * v).sum() > 0.7])

    def count(self) -> Callable[[lm.Tensor], lm.Tensor]:
        """A number of steps below 4 that depends on the state."""
        i = self.random.randrange(3)
        return lambda v: lnp.minimum(lnp.floor(abs(v[i]) * 3), 3.0).astype(np.int32)

    def cond(self, depth: int) -> Fn:
        self.note(depth, "if ...:")
        p, yes = self.predicate(), self.block(depth + 1, self.random.randint(1, 2))
        self.note(depth, "else:")
        no = self.block(depth + 1, self.random.randint(0, 2))
        return lambda v, x: lax.cond(p(v), lambda w: yes(w, x), lambda w: no(w, x), v)

    def switch(self, depth: int) -> Fn:
        self.note(depth, "switch:")
        index, branches = self.count(), [self.block(depth + 1, 1) for _ in range(3)]
        return lambda v, x: lax.switch(index(v), [lambda w, b=b: b(w, x) for b in branches], v)

    def while_loop(self, depth: int) -> Fn:
        self.note(depth, "while ...:")
        p, count, body = self.predicate(), self.count(), self.block(depth + 1, self.random.randint(1, 2))
        slots = self.random.choice([None, None, 1, 2])
        counted, extra = self.random.random() < 0.5, self.random.choice([0, 3])

        def run(v: lm.Tensor, x: lm.Tensor) -> lm.Tensor:
            steps = count(v) + extra

            def go_on(s: tuple[lm.Tensor, lm.Tensor]) -> lm.Tensor:
                return s[0] < steps if counted else (s[0] < 5) & p(s[1])

            return lax.while_loop(go_on, lambda s: (s[0] + 1, body(s[1], x)), (0, v), checkpoint=slots)[1]

        return run

    def fori(self, depth: int) -> Fn:
        self.note(depth, "for i in range(n):")
        count, body, known = self.count(), self.block(depth + 1, 1), self.random.random() < 0.4

        def run(v: lm.Tensor, x: lm.Tensor) -> lm.Tensor:
            return lax.fori_loop(0, 3 if known else count(v), lambda i, s: body(s, x) * (1 - 0.1 * i), v)

        return run

    def scan(self, depth: int) -> Fn:
        self.note(depth, "scan:")
        body, reverse = self.block(depth + 1, 1), self.random.random() < 0.5

        def run(v: lm.Tensor, x: lm.Tensor) -> lm.Tensor:
            def step(c: lm.Tensor, s: lm.Tensor) -> tuple[lm.Tensor, lm.Tensor]:
                c = body(0.7 * c + 0.3 * s, x)
                return c, c[0] * s

            last, ys = lax.scan(step, v, x, reverse=reverse)
            return 0.5 * last + 0.3 * ys.sum(0)

        return run

    def checkpoint(self, depth: int) -> Fn:
        self.note(depth, "checkpoint:")
        body = self.block(depth + 1, 1)
        return lambda v, x: lm.checkpoint(lambda w: body(w, x))(v)


def check_program(seed: int, length: int = 3, deepest: int = 3) -> None:
    made = Programs(seed, deepest)
    body = made.block(0, length)

    def f(x: lm.Tensor) -> lm.Tensor:
        return (body(lnp.sin(x), x) * lnp.array([1.0, 0.7, -0.4], np.float64)).sum()

    rng = np.random.default_rng(seed)
    lanes = rng.normal(size=(3, 3))
    x, batch, along = array(lanes[0]), array(lanes), array(rng.normal(size=3))
    what = f"seed {seed}:\n" + "\n".join(made.text)

    def same(got: object, want: object, tol: float = 1e-9) -> None:
        np.testing.assert_allclose(got, want, rtol=tol, atol=tol, err_msg=what)

    out, forward = lm.jvp(f, (x,), (along,))
    np.testing.assert_array_equal(value(lm.jit(f)(x)), value(out), err_msg=what)
    grads = np.stack([value(lm.grad(f)(array(v))) for v in lanes])
    same((grads[0] * value(along)).sum(), value(forward))
    same(value(lm.jit(lm.grad(f))(x)), grads[0])
    np.testing.assert_array_equal(value(lm.vmap(f)(batch)), [value(f(array(v))) for v in lanes], err_msg=what)
    same(value(lm.vmap(lm.grad(f))(batch)), grads)
    same(value(lm.grad(lambda v: lm.vmap(f)(v).sum())(batch)), grads)

    # Differences, where two widths of them agree: no branch changes between.
    def difference(eps: float) -> float:
        up, down = (f(array(lanes[0] + s * eps * value(along))).item() for s in (1, -1))
        return (up - down) / (2 * eps)

    wide, narrow = difference(1e-5), difference(1e-6)
    if abs(wide - narrow) < 1e-6 * max(1, abs(wide)):
        same(value(forward), narrow, 1e-5)

    if seed % 4 == 0:

        def curved(v: lm.Tensor) -> lm.Tensor:
            return (lm.grad(f)(v) * along).sum()

        second = value(lm.grad(curved)(x))
        same(value(lm.jvp(lm.grad(f), (x,), (along,))[1]), second, 1e-8)
        same(value(lm.vmap(lm.grad(curved))(batch)[0]), second, 1e-8)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_programs_with_control_flow(first):
    for seed in range(first, first + 20):
        check_program(seed)


# Small ones are many in the time of a large one.
@pytest.mark.slow
@pytest.mark.programs
@pytest.mark.parametrize("first", range(10_000, 11_500, 50))
def test_small_random_programs_with_control_flow(first):
    for seed in range(first, first + 50):
        check_program(seed, length=1 + seed % 2, deepest=2)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 6000, 100))
def test_many_random_programs_with_control_flow(first):
    for seed in range(first, first + 100):
        check_program(seed)
