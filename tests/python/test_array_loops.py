"""Loops over small arrays, element by element at computed positions: one kernel, with what plain Python gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from array_loop_support import check, steps
from lamina import lax

RNG = np.random.default_rng(7)


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int16", "int32", "int64", "float16", "float32", "float64"]
)
def test_reads_and_writes_of_one_element(dtype):
    def f(d):
        return lax.fori_loop(0, 300, lambda i, d: d.at[i % 10].set(d[(i * 7) % 10] + d[(i * 3 + 1) % 10]), d)

    def plain(d):
        d = d.copy()
        for i in range(300):
            with np.errstate(over="ignore"):
                d[i % 10] = d[(i * 7) % 10] + d[(i * 3 + 1) % 10]
        return d

    check(
        f, plain, (RNG.integers(0, 2, 10) if dtype == "bool" else RNG.integers(-3, 3, 10) % 7).astype(dtype)
    )


def test_complex_elements():
    def f(d):
        return lax.fori_loop(0, 20, lambda i, d: d.at[(i + 1) % 4].set(d[i % 4] * 1j + d[(i + 2) % 4]), d)

    def plain(d):
        d = d.copy()
        for i in range(20):
            d[(i + 1) % 4] = d[i % 4] * np.complex64(1j) + d[(i + 2) % 4]
        return d

    d = np.array([1, 2j, 3 - 1j, 0], np.complex64)
    np.testing.assert_allclose(np.asarray(lm.jit(f)(d)), plain(d), rtol=1e-5)


def test_positions_outside_drop_writes_and_move_reads():
    moves = np.array([0, 3, -1, 5, -9, 4, 100, -5, 2, -4, 2**31 - 1, -(2**31)], np.int32)

    def f(d, moves):
        def step(i, s):
            d, seen = s
            at = moves[i]
            return d.at[at].add(i + 1), seen.at[i].set(d[at])

        return lax.fori_loop(0, 12, step, (d, lnp.zeros(12, np.float32)))

    def plain(d, moves):
        d, seen = d.copy(), np.zeros(12, np.float32)
        for i, at in enumerate(moves.tolist()):
            at = at + 5 if at < 0 else at
            seen[i] = d[min(max(at, 0), 4)]
            if 0 <= at < 5:
                d[at] += i + 1
        return d, seen

    check(f, plain, np.arange(5, dtype=np.float32), moves)


def test_old_values_are_read_after_new_ones():
    """Every read sees the array of the value that it reads, in whatever order the program names them."""

    def f(a, b):
        def step(i, s):
            a, b, t = s
            k = i % 6
            first = a.at[k].set(t)
            second = first.at[(k + 1) % 6].add(first[k] + a[(k + 1) % 6])
            swapped = b.at[a[k] % 6].set(second[(k + 1) % 6])
            return swapped, second, a[k] - b[k] + first[(k + 2) % 6]

        return lax.fori_loop(0, 40, step, (a, b, lnp.int32(1)))

    def plain(a, b):
        t = np.int32(1)
        for i in range(40):
            k = i % 6
            first = a.copy()
            first[k] = t
            second = first.copy()
            second[(k + 1) % 6] += first[k] + a[(k + 1) % 6]
            swapped = b.copy()
            swapped[a[k] % 6] = second[(k + 1) % 6]
            a, b, t = swapped, second, a[k] - b[k] + first[(k + 2) % 6]
        return a, b, t

    with np.errstate(over="ignore"):
        check(f, plain, RNG.integers(0, 99, 6).astype(np.int32), RNG.integers(0, 99, 6).astype(np.int32))


def test_rotated_arrays():
    def f(a, b, c):
        return lax.fori_loop(0, 5, lambda i, s: (s[1].at[i].set(9), s[2], s[0].at[0].add(s[1][i])), (a, b, c))

    def plain(a, b, c):
        for i in range(5):
            new = b.copy()
            new[i] = 9
            old = a.copy()
            old[0] += b[i]
            a, b, c = new, c, old
        return a, b, c

    check(f, plain, *(RNG.integers(0, 99, 7).astype(np.int32) for _ in range(3)))


@pytest.mark.parametrize("shape", [(4,), (3, 5), (2, 3, 4)])
def test_windows(shape):
    size, last = (2,) * len(shape), shape[-1]

    def f(x, at):
        def step(i, x):
            piece = lax.dynamic_slice(x, [at[i]] * len(shape), size)
            return lax.dynamic_update_slice(x, piece * 2 + i, [at[i] - 1] * len(shape))

        return lax.fori_loop(0, 8, step, x)

    def plain(x, at):
        x = x.copy()
        for i, k in enumerate(at.tolist()):
            read, write = ([min(max(a + n * (a < 0), 0), n - 2) for n in shape] for a in (k, k - 1))
            piece = x[tuple(slice(a, a + 2) for a in read)] * 2 + i
            x[tuple(slice(a, a + 2) for a in write)] = piece
        return x

    check(f, plain, RNG.integers(0, 9, shape).astype(np.int64), RNG.integers(-3, last + 3, 8))


def test_rows_of_small_matrices():
    def f(x, at):
        return lax.fori_loop(0, 6, lambda i, x: x.at[at[i]].add(x[i % 3]), x)

    def plain(x, at):
        x = x.copy()
        for i in range(6):
            k = at[i]
            if 0 <= k < 3:
                x[k] += x[i % 3].copy()
        return x

    check(f, plain, RNG.integers(0, 9, (3, 4)).astype(np.int32), np.array([0, 2, 7, 1, 1, 3], np.int32))


def test_an_edit_distance_cell_by_cell():
    a, b = RNG.integers(0, 3, 17).astype(np.int32), RNG.integers(0, 3, 23).astype(np.int32)

    def f(a, b):
        def row(i, above):
            def cell(j, s):
                row, left = s
                best = lnp.minimum(lnp.minimum(left, above[j + 1]) + 1, above[j] + (a[i] != b[j]))
                return row.at[j + 1].set(best), best

            start = lnp.zeros_like(above).at[0].set(i + 1)
            return lax.fori_loop(0, b.shape[0], cell, (start, i + 1))[0]

        return lax.fori_loop(0, a.shape[0], row, lnp.arange(b.shape[0] + 1))

    def plain(a, b):
        above = np.arange(len(b) + 1, dtype=np.int32)
        for i in range(len(a)):
            row = [i + 1]
            for j in range(len(b)):
                row.append(min(row[j] + 1, above[j + 1] + 1, above[j] + int(a[i] != b[j])))
            above = np.array(row, np.int32)
        return above

    check(f, plain, a, b)


def test_an_insertion_sort():
    def f(x):
        def insert(i, x):
            v = x[i]

            def goes_on(s):
                return (s[0] > 0) & (s[1][lnp.maximum(s[0] - 1, 0)] > v)

            j, x = lax.while_loop(goes_on, lambda s: (s[0] - 1, s[1].at[s[0]].set(s[1][s[0] - 1])), (i, x))
            return x.at[j].set(v)

        return lax.fori_loop(1, x.shape[0], insert, x)

    check(f, np.sort, RNG.standard_normal(40).astype(np.float32))


def test_an_inner_loop_leaves_what_is_needed_later_as_it_was():
    def f(x):
        def outer(i, x):
            inner = lax.fori_loop(0, 4, lambda j, y: y.at[j].add(y[j + 1] + i), x)
            twice = lax.fori_loop(0, 3, lambda j, y: y.at[j + 1].set(y[j] - x[j]), inner)
            return inner.at[0].set(x[0] + twice[2] - inner[1])

        return lax.fori_loop(0, 5, outer, x)

    def plain(x):
        for i in range(5):
            inner = x.copy()
            for j in range(4):
                inner[j] += inner[j + 1] + i
            twice = inner.copy()
            for j in range(3):
                twice[j + 1] = twice[j] - x[j]
            result = inner.copy()
            result[0] = x[0] + twice[2] - inner[1]
            x = result
        return x

    check(f, plain, RNG.integers(0, 9, 6).astype(np.int64))


def test_state_machines_and_stacked_results():
    table, inputs = RNG.integers(0, 5, (5, 3)).astype(np.int32), RNG.integers(0, 3, 50).astype(np.int32)

    def f(table, inputs):
        def step(s, c):
            state, counts = s
            state = table[state, c]
            return (state, counts.at[state].add(1)), (state, counts[:2], c)

        return lax.scan(step, (lnp.int32(0), lnp.zeros(5, np.int32)), inputs)

    def plain(table, inputs):
        state, counts, states, seen = 0, np.zeros(5, np.int32), [], []
        for c in inputs:
            seen.append(counts[:2].copy())
            state = table[state, c]
            counts[state] += 1
            states.append(state)
        return (np.int32(state), counts), (np.array(states), np.array(seen), inputs)

    g = lm.jit(f)
    for _ in range(2):
        (state, counts), (states, seen, same) = g(table, inputs)
        (a, b), (c, d, e) = plain(table, inputs)
        for got, want in zip((state, counts, states, seen, same), (a, b, c, d, e), strict=True):
            np.testing.assert_array_equal(np.asarray(got), want)
        lm.cache.wait()
    assert sum("in steps" in s for s in steps(f, table, inputs)) == 1


def test_a_reversed_scan_over_rows():
    xs = RNG.integers(0, 9, (6, 3)).astype(np.int32)

    def f(xs):
        def step(c, x):
            c = c.at[x[0] % 3].add(x[1])
            return c, lnp.roll(c, 1) * x

        return lax.scan(step, lnp.zeros(3, np.int32), xs, reverse=True)

    def plain(xs):
        c, ys = np.zeros(3, np.int32), np.zeros_like(xs)
        for i in range(5, -1, -1):
            c[xs[i, 0] % 3] += xs[i, 1]
            ys[i] = np.roll(c, 1) * xs[i]
        return c, ys

    check(f, plain, xs)


def test_loops_of_no_steps_and_unread_arrays():
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(lax.fori_loop(0, 0, lambda i, d: d.at[i].set(d[i + 1]), lnp.asarray(x)), x)

    def only_sum(x):
        def step(i, s):
            d, t = s
            return d.at[i].set(d[i] * 2 + t), t + d[(i + 1) % 5]

        return lax.fori_loop(0, 9, step, (x, lnp.float32(0)))[1]

    def plain(x):
        x, t = x.copy(), np.float32(0)
        for i in range(9):
            now = x[(i + 1) % 5]
            if i < 5:
                x[i] = x[i] * 2 + t
            t = t + now
        return t

    check(only_sum, plain, x)


def test_arguments_stay_as_they_are():
    x = lnp.arange(8)

    @lm.jit
    def f(x):
        return lax.fori_loop(0, 8, lambda i, d: d.at[i].set(d[7 - i] + 1), x), x

    for _ in range(3):
        changed, same = f(x)
        np.testing.assert_array_equal(same, np.arange(8))
        np.testing.assert_array_equal(changed, [8, 7, 6, 5, 6, 7, 8, 9])
        lm.cache.wait()


@pytest.mark.machine_code
def test_a_loop_compiles_once_for_all_lengths():
    def f(x, n):
        return lax.while_loop(
            lambda s: s[0] < n, lambda s: (s[0] + 1, s[1].at[s[0] % 3].add(s[1][0])), (0, x)
        )[1]

    def made():
        stats = lm.cache.stats()
        return stats["kernel_compiles"] + stats["kernel_loads"]

    g = lm.jit(f)
    x = np.array([1, 2, 3, 0, 0], np.uint64)
    lm.cache.wait()
    before = made()
    for n in (1000, 2000, 3000):
        want = x.copy()
        with np.errstate(over="ignore"):
            for i in range(n):
                want[i % 3] += want[0]
        np.testing.assert_array_equal(np.asarray(g(x, n)), want)
        lm.cache.wait()
    assert made() - before == 1


def test_large_arrays_and_large_steps_keep_their_steps():
    """What writes whole arrays gains more from vectors; the reason is told."""

    def f(x):
        return lax.fori_loop(0, 5, lambda i, x: lnp.roll(x, 1) + x[i], x)

    text = lm.jit(f).lower(np.ones(5000, np.float32)).compile().as_text()
    assert "writes large arrays as a whole" in text
    assert len([s for s in steps(f, np.ones(8, np.float32)) if "in steps" in s]) == 1
    check(f, lambda x: _rolled(x), np.arange(8, dtype=np.float32))


def _rolled(x: np.ndarray) -> np.ndarray:
    for i in range(5):
        x = np.roll(x, 1) + x[i]
    return x


def test_a_sieve_runs_one_branch():
    n = 60

    def f(prime):
        def outer(i, s):
            def cross_out(s):
                return lax.while_loop(
                    lambda c: c[0] < n, lambda c: (c[0] + i, c[1].at[c[0]].set(False)), (i * i, s)
                )[1]

            return lax.cond(s[i], cross_out, lambda s: s, s)

        return lax.fori_loop(2, 9, outer, prime)

    def plain(prime):
        prime = prime.copy()
        for i in range(2, 9):
            if prime[i]:
                prime[i * i :: i] = False
        return prime

    check(f, plain, np.ones(n, bool))


def test_branches_of_a_switch_give_arrays_and_numbers():
    def f(a, b, moves):
        def step(s, k):
            a, b, t = s
            branches = [
                lambda a, b, t: (a.at[t % 4].add(1), b, t + 1),
                lambda a, b, t: (b, a, a[0] - b[1]),
                lambda a, b, t: (a * 2 + b[t % 4], b.at[1].set(a[2]), t),
                lambda a, b, t: (
                    lax.fori_loop(0, 3, lambda j, a: a.at[j].set(a[j + 1] + t), a),
                    b,
                    lax.fori_loop(0, 3, lambda j, t: t + b[j], t),
                ),
            ]
            return lax.switch(k, branches, a, b, t), t

        return lax.scan(step, (a, b, lnp.int32(1)), moves)

    def plain(a, b, moves):
        a, b, t, ts = a.copy(), b.copy(), np.int32(1), []
        for k in np.clip(moves, 0, 3).tolist():
            ts.append(t)
            a, b = a.copy(), b.copy()
            if k == 0:
                a[t % 4] += 1
                t = t + 1
            elif k == 1:
                a, b, t = b, a, a[0] - b[1]
            elif k == 2:
                old = a
                a = a * 2 + b[t % 4]
                b[1] = old[2]
            else:
                for j in range(3):
                    a[j] = a[j + 1] + t
                t = t + b[:3].sum(dtype=np.int32)
        return (a, b, t), np.array(ts)

    moves = np.array([0, 1, 3, 2, 9, 0, -5, 3, 1, 2, 3, 1], np.int32)
    a, b = np.array([1, 2, 3, 4], np.int32), np.array([5, -6, 7, 8], np.int32)
    with np.errstate(over="ignore"):
        (wa, wb, wt), wts = plain(a, b, moves)
    g = lm.jit(f)
    for _ in range(2):
        (ga, gb, gt), gts = g(a, b, moves)
        for got, want in zip((ga, gb, gt, gts), (wa, wb, wt, wts), strict=True):
            np.testing.assert_array_equal(np.asarray(got), want)
        lm.cache.wait()
    assert sum("in steps" in s for s in steps(f, a, b, moves)) == len(steps(f, a, b, moves)) == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_small_products_and_sums_have_the_bits_of_the_single_ops(dtype):
    def step(c, a):
        c = a @ c * 0.3 + c.T
        total, worst, row = lnp.sum(c), lnp.max(c[1]), lnp.prod(c, axis=0)
        return c.at[0].set(c[0] + row * 0.01 - worst), total

    def f(c, a):
        return lax.scan(lambda c, _: step(c, a), c, None, length=9)

    c, a = RNG.standard_normal((3, 3)).astype(dtype), RNG.standard_normal((3, 3)).astype(dtype)
    want, totals = lnp.asarray(c), []
    for _ in range(9):
        want, total = step(want, a)
        totals.append(np.asarray(total))
    g = lm.jit(f)
    for _ in range(2):
        got, sums = g(c, a)
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
        np.testing.assert_array_equal(np.asarray(sums), np.array(totals))
        lm.cache.wait()
    assert sum("in steps" in s for s in steps(f, c, a)) == len(steps(f, c, a)) == 1


def test_batched_products_and_reductions_along_an_axis():
    def step(x, w):
        y = lnp.einsum("bij,bj->bi", w, x) * 0.5
        return y - lnp.sum(y, axis=1, keepdims=True) + lnp.min(x, axis=0)

    def f(x, w):
        return lax.fori_loop(0, 6, lambda i, x: step(x, w), x)

    x, w = RNG.standard_normal((2, 3)), RNG.standard_normal((2, 3, 3))
    want = lnp.asarray(x)
    for _ in range(6):
        want = step(want, w)
    check(f, lambda *_: np.asarray(want), x, w)


class Here:
    """Arrays and loops of the library."""

    get = staticmethod(lambda a, i: a[i])
    put = staticmethod(lambda a, i, v: a.at[i].set(v))
    add = staticmethod(lambda a, i, v: a.at[i].add(v))
    whole = staticmethod(lambda a, v: lnp.roll(a, 1) + v)
    select = staticmethod(lnp.where)
    loop = staticmethod(lax.fori_loop)
    switch = staticmethod(lax.switch)

    @staticmethod
    def repeat(n, step, s):
        return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, step(c[0], c[1])), (lnp.int32(0), s))[
            1
        ]


class Plain:
    """The same by NumPy, one value after the other."""

    select = staticmethod(lambda c, a, b: a if c else b)

    @staticmethod
    def get(a, i):
        return a[np.clip(i + len(a) * (i < 0), 0, len(a) - 1)]

    @staticmethod
    def put(a, i, v):
        a, i = a.copy(), i + len(a) * (i < 0)
        if 0 <= i < len(a):
            a[i] = v
        return a

    @classmethod
    def add(cls, a, i, v):
        return cls.put(a, i, cls.get(a, i) + v)

    @staticmethod
    def whole(a, v):
        return np.roll(a, 1) + v

    @staticmethod
    def switch(k, branches, s):
        return branches[min(max(int(k), 0), len(branches) - 1)](s)

    @staticmethod
    def loop(low, high, step, s):
        for i in range(low, high):
            s = step(np.int32(i), s)
        return s

    @classmethod
    def repeat(cls, n, step, s):
        return cls.loop(0, int(n), step, s)


def random_program(seed: int) -> Callable[..., Any]:
    """Statements over two arrays and a number, in nested loops: a function of the library and of the state."""
    rng = np.random.default_rng(seed)
    pick = lambda n: int(rng.integers(n))  # noqa: E731

    def statement(depth: int) -> Callable[..., Any]:
        kind, which, other, c = pick(9 if depth else 7), pick(2), pick(2), pick(8) - 2
        if kind == 0:
            return lambda m, i, s: changed(s, which, m.put(s[which], s[2] % 7 - 1, m.get(s[other], i + c)))
        if kind == 1:
            return lambda m, i, s: changed(s, which, m.add(s[which], i * 3 % 8 - 1, s[2] + c))
        if kind == 2:
            return lambda m, i, s: (s[0], s[1], m.get(s[which], s[2] % 9 - 3) - m.get(s[other], i) * c)
        if kind == 3:
            return lambda m, i, s: (s[1], s[0], s[2] + i)
        if kind == 4:
            return lambda m, i, s: changed(s, which, m.whole(s[other], s[2] + c))
        if kind == 5:
            return lambda m, i, s: (
                s[0],
                s[1],
                m.select(m.get(s[which], i) > s[2], m.get(s[other], c), s[2] - 1),
            )
        if kind == 6:
            old = statement(depth)
            # What the state was before counts in what it becomes.
            return lambda m, i, s: mixed(m, s, old(m, i, s), which)
        if kind == 8:
            branches = [block(depth - 1) for _ in range(1 + pick(3))] + [lambda m, i, s: s]
            return lambda m, i, s: m.switch(s[2] % 5, [lambda t, b=b: b(m, i, t) for b in branches], s)
        inner, counted, n = block(depth - 1), pick(3), pick(4)
        if counted:
            return lambda m, i, s: m.loop(0, n, lambda j, t: inner(m, j + i % 2, t), s)
        return lambda m, i, s: m.repeat((s[2] % 4 + 4) % 4, lambda j, t: inner(m, j, t), s)

    def changed(s, which, a):
        return (a, s[1], s[2]) if which == 0 else (s[0], a, s[2])

    def mixed(m, before, after, which):
        return changed(
            after, which, m.put(after[which], 1, m.get(before[which], 2) + m.get(after[1 - which], 0))
        )

    def block(depth: int) -> Callable[..., Any]:
        body = [statement(depth) for _ in range(1 + pick(3))]

        def run(m, i, s):
            for step in body:
                s = step(m, i, s)
            return s

        return run

    body = block(2)
    return lambda m, a, b, t: m.loop(0, 5, lambda i, s: body(m, i, s), (a, b, t))


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_over_arrays(seed):
    program = random_program(seed)
    rng = np.random.default_rng(seed)
    a, b, t = (rng.integers(-9, 99, n).astype(np.int32) for n in ((6,), (6,), ()))
    with np.errstate(over="ignore"):
        check(lambda *s: program(Here, *s), lambda *s: program(Plain, *s), a, b, np.int32(t), kernels=None)


def test_the_way_back_through_writes_of_elements_is_one_kernel_too():
    def f(x):
        write = lambda i, y: y.at[i].set(lnp.sin(y[i - 1]) + y[i])  # noqa: E731
        return lnp.sum(lax.fori_loop(1, 500, write, x))

    x = np.random.default_rng(0).normal(size=500)
    y, slope = x.copy(), np.ones(500)
    for i in range(1, 500):
        y[i] += np.sin(y[i - 1])
    for i in range(499, 0, -1):
        slope[i - 1] += slope[i] * np.cos(y[i - 1])
    np.testing.assert_allclose(np.asarray(lm.jit(lm.grad(f))(lnp.array(x))), slope, rtol=1e-12)
    assert not any("scan" in s for s in steps(lm.grad(f), lnp.array(x)))


def _kalman(q, z):
    """The squared length of the last state, after a scan whose steps solve a small system."""
    f, h = (
        lnp.eye(4, dtype="float64") + 0.1 * lnp.eye(4, k=1, dtype="float64"),
        lnp.eye(2, 4, dtype="float64"),
    )

    def step(s, z):
        x, p = f @ s[0], f @ s[1] @ f.T + q
        gain = lnp.linalg.solve(h @ p @ h.T + lnp.eye(2, dtype="float64"), h @ p).T
        return (x + gain @ (z - h @ x), p - gain @ h @ p), None

    start = lnp.zeros(4, "float64"), lnp.eye(4, dtype="float64")
    return lnp.sum(lax.scan(step, start, z)[0][0] ** 2)


def test_both_ways_through_a_kalman_filter_are_one_kernel_each():
    """Products of products of small matrices: each element is in the code once, however many read it."""
    q, z = 0.1 * np.eye(4) + 0.01, RNG.standard_normal((20, 2))
    g = lm.jit(lm.grad(_kalman, argnums=(0, 1)))
    first = [np.asarray(s) for s in g(q, z)]
    lm.cache.wait()
    for slopes, at, again in zip(first, (q, z), g(q, z), strict=True):
        np.testing.assert_array_equal(np.asarray(again), slopes)
        for index in [(0, 0), (1, 1), (3, 1)]:
            low, high = at.copy(), at.copy()
            low[index] -= 1e-6
            high[index] += 1e-6
            args = [(low, z), (high, z)] if at is q else [(q, low), (q, high)]
            values = [float(_kalman(*a)) for a in args]
            assert abs((values[1] - values[0]) / 2e-6 - slopes[index]) < 1e-6
    lines = steps(lm.grad(_kalman, argnums=(0, 1)), q, z)
    assert sum("in steps" in s for s in lines) == 2
    assert not any("scan of" in s for s in lines)


def test_a_step_that_is_long_when_written_out_is_no_kernel():
    def f(c, n):
        def step(i, c):
            for k in range(n):
                c = c[::-1] * c + k
            return c

        return lax.fori_loop(0, 3, step, c)

    c = np.full(4, 0.1)
    assert sum("in steps" in s for s in steps(lambda c: f(c, 20), c)) == 1
    assert not any("in steps" in s for s in steps(lambda c: f(c, 1000), c))


@pytest.mark.parametrize(("f", "count"), [(lnp.sin, 20), (lambda d: d * 0.9, 100)])
def test_what_vectors_do_at_once_is_not_written_out(f, count):
    """Many maps of 16 elements between two sums are one kernel of vectors, which outruns 16 times as many numbers."""

    def loop(c):
        def step(i, c):
            total = lnp.sum(c) * 0.01
            for _ in range(count):
                c = f(c) + total
            return c

        return lax.fori_loop(0, 9, step, c)

    assert not any("in steps" in s for s in steps(loop, np.full(16, 0.1, np.float32)))


@pytest.mark.parametrize("n", [1, 10, 16])
def test_the_way_back_through_a_loop_until_a_tolerance_is_made_of_kernels(n):
    def root(x):
        near = lambda y: lnp.max(lnp.abs(y * y - x)) > 1e-12  # noqa: E731
        return lnp.sum(lax.while_loop(near, lambda y: y - (y * y - x) / (2 * y), x))

    x = RNG.uniform(0.5, 2, n)
    np.testing.assert_allclose(np.asarray(lm.jit(lm.grad(root))(x)), 0.5 / np.sqrt(x), rtol=1e-9)
    lines = steps(lm.grad(root), x)
    assert any("in steps" in s for s in lines)
    assert not any("while" in s or "scan of" in s for s in lines)
