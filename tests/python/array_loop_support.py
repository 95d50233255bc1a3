"""What tests of loops over arrays ask: the same bits as a plain program, and which kernels the loop becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lamina as lm
import numpy as np


def steps(f: Callable[..., Any], *args: Any) -> list[str]:
    """The steps of the program that `f` becomes."""
    text = lm.jit(f).lower(*args).compile().as_text()
    return [s for s in text.splitlines() if s.startswith("step") and ":" in s]


def check(f: Callable[..., Any], plain: Callable[..., Any], *args: Any, kernels: int | None = 1) -> None:
    """Same bits as the plain program; interpreted, and compiled where this machine does that."""
    want = plain(*args)
    want = want if isinstance(want, tuple) else (want,)
    g = lm.jit(f)
    for _ in range(3):
        got = g(*args)
        for a, b in zip(got if isinstance(got, tuple) else (got,), want, strict=True):
            np.testing.assert_array_equal(np.asarray(a), b)
        lm.cache.wait()
    if kernels is not None:
        in_loops = [s for s in steps(f, *args) if "in steps" in s or "while" in s or "scan of" in s]
        assert len(in_loops) == kernels and all("in steps" in s for s in in_loops), in_loops


def kernel_of(f: Callable[..., Any], *args: Any) -> str:
    lm.cache.clear()
    lm.jit(f)(*args)
    (text,) = [t for e in lm.cache.entries() if "repeat p0" in (t := lm.cache.listing(e["id"], "kernels"))]
    return text
