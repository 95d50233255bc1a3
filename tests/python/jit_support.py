"""Functions at module level for the tests of jit: their globals are changed by the tests."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp

RATE = 0.5
POWER = 2
OFFSET = lnp.array([1.0, 2.0])
MODE = ("double",)


def helper(x):
    return x * RATE


@lm.jit
def step(x):
    return helper(x) + OFFSET


@lm.jit
def powered(x):
    total = x
    for _ in range(POWER):
        total = total * x
    return total


@lm.jit
def moded(x):
    return x * 2.0 if MODE[0] == "double" else x * 3.0


@lm.jit
def outer(x):
    return step(x) * 1.0


@lm.jit
def half_precise(x):
    return x * (1.0 - RATE)
