"""Settings at module level for the tests of reads: the tests change them."""

from __future__ import annotations

import types

import lamina as lm

SETTINGS = {"lr": 2.0}
OPTIONS = types.SimpleNamespace(scale=1.0)
BIAS = 0.5
COUNT = 0
SEEN: list[float] = []


def helper(x):
    return x * BIAS


@lm.jit
def jitted_step(x):
    return x * SETTINGS["lr"] * OPTIONS.scale + helper(x)


def counting(x):
    global COUNT
    COUNT += 1
    SEEN.append(BIAS)
    return x * COUNT
