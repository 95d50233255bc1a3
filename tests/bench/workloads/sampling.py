"""Random numbers: each system's own generator, so that results are not compared."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from programs import numbers
from workload import Thunk, Workload, program

GROUP = "random"


def drawn(f: Callable[..., Any]) -> Callable[[SimpleNamespace], Thunk]:
    def make(lib: SimpleNamespace) -> Thunk:
        key = lib.random.PRNGKey(0)
        jitted = lib.jit(lambda key: f(lib, key))
        return lambda: jitted(key)

    return make


def by_numpy(f: Callable[[Any], Any]) -> Callable[[SimpleNamespace], Thunk]:
    def make(lib: SimpleNamespace) -> Thunk:
        generator = lib.np.random.default_rng(0)
        return lambda: f(generator)

    return make


def by_torch(f: Callable[[Any], Any]) -> Callable[[SimpleNamespace], Thunk]:
    return lambda lib: lambda: f(lib.torch)


THIRD = "jax <= 0.34"
MILLIONS = (4_000_000,)
WORKLOADS: list[Workload] = [
    program(
        "uniform 4e6",
        GROUP,
        drawn(lambda lib, key: lib.random.uniform(key, MILLIONS)),
        THIRD,
        tolerance=None,
        bytes=16e6,
        peers={
            "numpy": by_numpy(lambda g: g.random(MILLIONS, "f4")),
            "torch": by_torch(lambda t: t.rand(MILLIONS)),
        },
    ),
    program(
        "normal 4e6",
        GROUP,
        drawn(lambda lib, key: lib.random.normal(key, MILLIONS)),
        THIRD,
        tolerance=None,
        bytes=16e6,
        peers={
            "numpy": by_numpy(lambda g: g.standard_normal(MILLIONS, "f4")),
            "torch": by_torch(lambda t: t.randn(MILLIONS)),
        },
    ),
    program(
        "bits 4e6",
        GROUP,
        drawn(lambda lib, key: lib.random.bits(key, MILLIONS)),
        THIRD,
        tolerance=None,
        bytes=16e6,
    ),
    program(
        "permutation of 1e6",
        GROUP,
        drawn(lambda lib, key: lib.random.permutation(key, 1_000_000)),
        THIRD,
        tolerance=None,
        peers={"numpy": by_numpy(lambda g: g.permutation(1_000_000))},
    ),
    program(
        "categorical, 10,000 of 100",
        GROUP,
        drawn(lambda lib, key: lib.random.categorical(key, lib.np.asarray(numbers(10_000, 100)))),
        THIRD,
        tolerance=None,
    ),
]
