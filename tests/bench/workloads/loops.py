"""Loops over little: what each turn costs besides its arithmetic; and small linear algebra in batches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy
from programs import numbers
from workload import Workload, workload

GROUP = "loops"
FIFTH = "jax <= 0.2, numba <= 1"


def fori(lib: Any, x: Any) -> Any:
    return lib.lax.fori_loop(0, 10_000, lambda i, c: c * 0.999 + 0.001, x)


def fori_numba(lib: SimpleNamespace) -> Any:
    np = lib.np
    f32 = np.float32

    @lib.numba.njit
    def f(x):
        c = x.copy()
        for _ in range(10_000):
            for j in range(c.size):
                c[j] = c[j] * f32(0.999) + f32(0.001)
        return c

    return f


def collatz(lib: Any, n: Any) -> Any:
    """Steps of each number until 1, one number after the other."""

    def steps(n: Any) -> Any:
        def body(s: Any) -> Any:
            n, k = s
            return lib.np.where(n % 2 == 0, n // 2, 3 * n + 1), k + 1

        return lib.lax.while_loop(lambda s: s[0] != 1, body, (n, lib.np.int32(0)))[1]

    return lib.lax.map(steps, n)


def collatz_numba(lib: SimpleNamespace) -> Any:
    np = lib.np

    @lib.numba.njit
    def f(ns):
        out = np.empty_like(ns)
        for i in range(ns.size):
            n, k = ns[i], 0
            while n != 1:
                n = n // 2 if n % 2 == 0 else 3 * n + 1
                k += 1
            out[i] = k
        return out

    return f


def carry3x3(lib: Any, m: Any) -> Any:
    """10,000 products of 3x3 matrices of f64, each step normalised (demand 1)."""

    def step(c: Any, _: Any) -> Any:
        c = c @ m
        return c / lib.np.sqrt(lib.np.sum(c * c)), None

    return lib.lax.scan(step, m, None, length=10_000)[0]


def carry3x3_numba(lib: SimpleNamespace) -> Any:
    np = lib.np

    @lib.numba.njit
    def f(m):
        c = m.copy()
        for _ in range(10_000):
            d = np.zeros((3, 3))
            total = 0.0
            for i in range(3):
                for j in range(3):
                    for k in range(3):
                        d[i, j] += c[i, k] * m[k, j]
                    total += d[i, j] * d[i, j]
            c = d / np.sqrt(total)
        return c

    return f


def rnn_loss(lib: Any, w: Any, u: Any, xs: Any) -> Any:
    def cell(h: Any, x: Any) -> Any:
        h = lib.np.tanh(h @ w + x @ u)
        return h, None

    return lib.np.sum(lib.lax.scan(cell, xs[0] * 0.0, xs)[0] ** 2)


def rnn_data() -> list[Any]:
    return [numbers(32, 32, scale=0.1), numbers(32, 32, seed=1, scale=0.1), numbers(200, 8, 32, seed=2)]


def mandelbrot(lib: Any, re: Any, im: Any) -> Any:
    """50 steps on each point, counting those still inside."""

    def body(s: Any) -> Any:
        i, x, y, n = s
        xx, yy = x * x, y * y
        inside = xx + yy < 4
        x2 = lib.np.where(inside, xx - yy + re, x)
        y2 = lib.np.where(inside, 2 * x * y + im, y)
        return i + 1, x2, y2, n + inside.astype("int32")

    zero = re * 0
    return lib.lax.while_loop(lambda s: s[0] < 50, body, (0, zero, zero, zero.astype("int32")))[3]


def mandelbrot_numba(lib: SimpleNamespace) -> Any:
    np, prange = lib.np, lib.numba.prange
    f32 = np.float32

    @lib.numba.njit(parallel=True)
    def f(re, im):
        out = np.zeros(re.size, np.int32)
        for i in prange(re.size):
            x, y, n = f32(0), f32(0), 0
            for _ in range(50):
                xx, yy = x * x, y * y
                if xx + yy >= f32(4):
                    break
                x, y, n = xx - yy + re[i], f32(2) * x * y + im[i], n + 1
            out[i] = n
        return out

    return f


def plane() -> list[Any]:
    side = numpy.linspace(-2, 1, 1000, dtype=numpy.float32)
    return [numpy.tile(side, 1000), numpy.repeat(side, 1000)]


def nbody(lib: Any, p: Any, v: Any) -> Any:
    def step(s: Any, _: Any) -> Any:
        p, v = s
        d = p[None] - p[:, None]
        inverse = (lib.np.sum(d * d, -1) + 1e-2) ** -1.5
        v = v + 1e-3 * lib.np.sum(d * inverse[..., None], 1)
        return (p + 1e-3 * v, v), None

    return lib.lax.scan(step, (p, v), None, length=20)[0][0]


def nbody_numba(lib: SimpleNamespace) -> Any:
    prange = lib.numba.prange
    np = lib.np

    @lib.numba.njit(parallel=True, fastmath=True)
    def f(p, v):
        p, v, n = p.copy(), v.copy(), p.shape[0]
        for _ in range(20):
            for i in prange(n):
                a = b = c = np.float32(0)
                for j in range(n):
                    x, y, z = p[j, 0] - p[i, 0], p[j, 1] - p[i, 1], p[j, 2] - p[i, 2]
                    s = x * x + y * y + z * z + np.float32(1e-2)
                    w = np.float32(1) / (s * np.sqrt(s))
                    a, b, c = a + x * w, b + y * w, c + z * w
                v[i, 0] += np.float32(1e-3) * a
                v[i, 1] += np.float32(1e-3) * b
                v[i, 2] += np.float32(1e-3) * c
            p = p + np.float32(1e-3) * v
        return p

    return f


def orbit(lib: Any, y: Any) -> Any:
    """10,000 Runge-Kutta steps of a pendulum."""

    def rate(y: Any) -> Any:
        return lib.np.stack([y[1], -lib.np.sin(y[0])])

    def step(_: Any, y: Any) -> Any:
        h = 1e-3
        a = rate(y)
        b = rate(y + h / 2 * a)
        c = rate(y + h / 2 * b)
        return y + h / 6 * (a + 2 * b + 2 * c + rate(y + h * c))

    return lib.lax.fori_loop(0, 10_000, step, y)


def orbit_numba(lib: SimpleNamespace) -> Any:
    np = lib.np
    import math

    @lib.numba.njit
    def f(y):
        p, q, h = y[0], y[1], np.float32(1e-3)
        two, six = np.float32(2), np.float32(6)
        for _ in range(10_000):
            a, b = q, -math.sin(p)
            c, d = q + h / two * b, -math.sin(p + h / two * a)
            e, g = q + h / two * d, -math.sin(p + h / two * c)
            k, m = q + h * g, -math.sin(p + h * e)
            p, q = p + h / six * (a + two * c + two * e + k), q + h / six * (b + two * d + two * g + m)
        return np.array([p, q])

    return f


def newton(lib: Any, a: Any) -> Any:
    """Cube roots, each lane until it has them."""

    def root(a: Any) -> Any:
        def body(s: Any) -> Any:
            x, _ = s
            y = x - (x * x * x - a) / (3 * x * x)
            return y, lib.np.abs(y - x)

        return lib.lax.while_loop(lambda s: s[1] > 1e-5 * lib.np.abs(s[0]), body, (a * 0 + 2.0, a * 0 + 1.0))[
            0
        ]

    return lib.vmap(root)(a)


def newton_numba(lib: SimpleNamespace) -> Any:
    np, prange = lib.np, lib.numba.prange
    f32 = np.float32

    @lib.numba.njit(parallel=True)
    def f(a):
        out = np.empty_like(a)
        for i in prange(a.size):
            x, d = f32(2), f32(1)
            while d > f32(1e-5) * abs(x):
                y = x - (x * x * x - a[i]) / (f32(3) * x * x)
                d, x = abs(y - x), y
            out[i] = x
        return out

    return f


def reads_and_writes(lib: Any, d: Any) -> Any:
    return lib.lax.fori_loop(0, 20_000, lambda i, d: d.at[i % 100].set(d[(i * 7) % 100] + 1), d)


def reads_and_writes_numba(lib: SimpleNamespace) -> Any:
    np = lib.np

    @lib.numba.njit
    def f(d):
        d = d.copy()
        for i in range(20_000):
            d[i % 100] = d[(i * 7) % 100] + np.float32(1)
        return d

    return f


def symmetric(n: int, side: int) -> Any:
    a = numbers(n, side, side)
    return (a @ a.transpose(0, 2, 1) + 2 * side * numpy.eye(side, dtype="f4")).astype("f4")


def batched(name: str, side: int, count: int, f: Any, peers: Any, target: str) -> Workload:
    return workload(
        f"{name} {count:,} of {side}x{side} (demand 23)",
        GROUP,
        lambda: [symmetric(count, side), numbers(count, side, 1, seed=1)],
        f,
        target,
        peers=peers,
        tolerance=1e-2,
    )


WORKLOADS: list[Workload] = [
    workload(
        "fori of 10,000 on 8 numbers",
        GROUP,
        lambda: [numbers(8)],
        fori,
        FIFTH,
        parallel=False,
        peers={"numba": fori_numba},
    ),
    workload(
        "Collatz of 1,000 numbers in turn",
        GROUP,
        lambda: [numpy.arange(1, 1001, dtype=numpy.int32)],
        collatz,
        FIFTH,
        parallel=False,
        peers={"numba": collatz_numba},
    ),
    workload(
        "scan of a 3x3 f64 carry, 10,000 (demand 1)",
        GROUP,
        lambda: [numbers(3, 3).astype("f8")],
        carry3x3,
        FIFTH,
        wide=True,
        parallel=False,
        peers={"numba": carry3x3_numba},
    ),
    workload("RNN scan of 200", GROUP, rnn_data, rnn_loss, "jax <= 0.4"),
    workload(
        "RNN scan of 200, gradient (demand 1)",
        GROUP,
        rnn_data,
        lambda lib, *a: lib.grad(lambda *a: rnn_loss(lib, *a), (0, 1))(*a),
        "jax <= 0.4",
        tolerance=1e-2,
    ),
    workload(
        "Mandelbrot 1e6 x 50",
        GROUP,
        plane,
        mandelbrot,
        FIFTH,
        share=True,
        tolerance=1e-3,
        peers={"numba": mandelbrot_numba},
    ),
    workload(
        "N-body, 500 bodies, 20 steps",
        GROUP,
        lambda: [numbers(500, 3), numbers(500, 3, seed=1)],
        nbody,
        FIFTH,
        tolerance=1e-2,
        peers={"numba": nbody_numba},
    ),
    workload(
        "pendulum, RK4, 10,000 steps",
        GROUP,
        lambda: [numpy.array([1.0, 0.0], "f4")],
        orbit,
        FIFTH,
        parallel=False,
        tolerance=1e-2,
        peers={"numba": orbit_numba},
    ),
    workload(
        "Newton per lane, 1e5",
        GROUP,
        lambda: [numpy.abs(numbers(100_000)) + 0.1],
        newton,
        FIFTH,
        tolerance=1e-3,
        peers={"numba": newton_numba},
    ),
    workload(
        "20,000 reads and writes of an array of 100",
        GROUP,
        lambda: [numbers(100)],
        reads_and_writes,
        FIFTH,
        parallel=False,
        peers={"numba": reads_and_writes_numba},
    ),
    batched(
        "solve",
        3,
        86_000,
        lambda lib, a, b: lib.np.linalg.solve(a, b),
        {
            "numpy": lambda lib, a, b: lib.np.linalg.solve(a, b),
            "torch": lambda lib, a, b: lib.torch.linalg.solve(a, b),
        },
        "jax <= 0.2, best <= 1",
    ),
    batched(
        "solve",
        6,
        20_000,
        lambda lib, a, b: lib.np.linalg.solve(a, b),
        {"numpy": lambda lib, a, b: lib.np.linalg.solve(a, b)},
        "jax <= 0.2, best <= 1",
    ),
    batched(
        "Cholesky",
        16,
        5_000,
        lambda lib, a, b: lib.np.linalg.cholesky(a),
        {"numpy": lambda lib, a, b: lib.np.linalg.cholesky(a)},
        "jax <= 0.2, best <= 1",
    ),
    batched(
        "eigenvalues",
        16,
        1_000,
        lambda lib, a, b: lib.np.linalg.eigvalsh(a),
        {"numpy": lambda lib, a, b: lib.np.linalg.eigvalsh(a)},
        "best <= 1",
    ),
    batched(
        "eigenvectors",
        16,
        1_000,
        lambda lib, a, b: abs(lib.np.linalg.eigh(a)[1]),
        {"numpy": lambda lib, a, b: abs(lib.np.linalg.eigh(a)[1])},
        "best <= 1",
    ),
]
