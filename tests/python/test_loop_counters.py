"""Counters of loops over arrays: what is known of them, and what is made of them from step to step."""

from __future__ import annotations

import numpy as np
import pytest
from array_loop_support import check, kernel_of
from lamina import lax

RNG = np.random.default_rng(11)


@pytest.mark.not_on_cuda(reason="listings there leave out the kernels of the host")
def test_positions_made_of_a_counter_need_no_tests():
    def f(d):
        return lax.fori_loop(0, 300, lambda i, d: d.at[i % 10].set(d[(i * 7 + 3) % 10] + d[i // 40]), d)

    d = RNG.standard_normal(10)
    text = kernel_of(f, d)
    # One test and one choice for each remainder, which is carried from step to step.
    assert text.count(" lt ") == text.count(" select ") == 2 and " if " not in text and " rem " not in text
    want = d.copy()
    for i in range(300):
        want[i % 10] = want[(i * 7 + 3) % 10] + want[i // 40]
    check(f, lambda d: want, d)


@pytest.mark.not_on_cuda(reason="listings there leave out the kernels of the host")
def test_what_nothing_reads_is_not_carried():
    def f(d):
        def step(i, s):
            d, a, b = s
            return d.at[0].add(d[1] * 0.5), b + i, a * 2

        return lax.fori_loop(0, 30, step, (d, 1, 2))[0]

    text = kernel_of(f, np.array([1.0, 2.0]))
    assert text.count(" carried ") == 2  # the elements of d
    check(f, lambda d: np.array([31.0, 2.0]), np.array([1.0, 2.0]))


@pytest.mark.not_on_cuda(reason="listings there leave out the kernels of the host")
@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
@pytest.mark.parametrize(
    ("start", "stop", "made", "divisions"),
    [
        (0, 120, "i % 7", 0),
        (3, 33, "(7 * i + 5) % 10", 0),
        (2, 50, "(i * 5 + 1) % 5", 0),  # always the same
        (1, 9, "(i * 23 + 4) % 6", 0),  # more than the divisor in a step
        (0, 40, "(i + i + i) % 3 + i % 1", 0),
        (5, 30, "(i * 2 + 1) % 100", 0),  # never reaches the divisor
        (0, 90, "(i * i) % 7", 1),
        (0, 60, "(i // 5) % 7", 1),
        (0, 60, "(i % 9 * 5) % 7", 1),
        (0, 100, "(i * 3) % 7", None),  # of 8 bits, it wraps
        (2, 40, "(50 - i) % 7", 1),  # falls
        (-4, 30, "(i + 4) % 7", 1),  # the counter may be negative
    ],
)
def test_remainders_of_a_counter_are_carried(dtype, start, stop, made, divisions):
    # Of numbers that the program holds: those from outside are its arguments, which it does not know.
    step = f"lambda i, s: s.at[i + 4].set((lambda i: {made})(i.astype('{dtype}')) + s[0] * 0)"
    f = eval(f"lambda seen: lax.fori_loop({start}, {stop}, {step}, seen)", {"lax": lax})
    of = eval(f"lambda i: {made}")
    seen = np.zeros(stop + 4, dtype)
    want = seen.copy()
    with np.errstate(over="ignore"):
        for i in range(start, stop):
            want[i + 4] = of(np.array([i]).astype(dtype))[0]
    check(f, lambda s: want, seen)
    if divisions is not None:
        assert kernel_of(f, seen).count(" rem ") == divisions


@pytest.mark.parametrize(
    ("dtype", "length", "factor", "plus"),
    [
        ("int8", 100, 3, 0),
        ("int32", 12, 1, 0),
        ("int32", 12, 1, -1),
        ("int32", 9, 2, -17),
        ("uint8", 200, 2, 9),
    ],
)
def test_positions_that_may_lie_outside_are_tested(dtype, length, factor, plus):
    """Counters whose multiples wrap, pass the end of the array, or are negative."""

    def f(d, seen):
        def step(i, s):
            d, seen = s
            at = i.astype(dtype) * factor + plus
            return d.at[at].add(1.0), seen.at[i].set(d[at])

        return lax.fori_loop(0, length, step, (d, seen))

    def plain(d, seen):
        d, seen = d.copy(), seen.copy()
        with np.errstate(over="ignore"):
            for i in range(length):
                at = int((np.array([i]).astype(dtype) * np.array(factor, dtype) + np.array(plus, dtype))[0])
                at = at + 10 if at < 0 else at
                seen[i] = d[min(max(at, 0), 9)]
                if 0 <= at < 10:
                    d[at] += 1
        return d, seen

    check(f, plain, RNG.standard_normal(10), np.zeros(length))
