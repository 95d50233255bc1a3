"""What one workload is: how each system does it, what it must read and compute, and what is demanded of its time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from systems import SYSTEMS, written_for

Thunk = Callable[[], Any]
Make = Callable[[SimpleNamespace], Thunk]
Data = Callable[[], Iterable[Any]]
Function = Callable[..., Any]


@dataclass(frozen=True)
class Target:
    """`what` is "best" or a peer (ratio of times), "limit" (share of the machine's), "seconds" or "speedup"."""

    what: str
    at_most: bool
    bound: float

    def __str__(self) -> str:
        return f"{self.what} {'<=' if self.at_most else '>='} {self.bound:g}"

    def met(self, value: float) -> bool:
        return value <= self.bound if self.at_most else value >= self.bound


def targets(text: str) -> tuple[Target, ...]:
    """Of "best <= 1, limit >= 0.9"."""
    found = []
    for part in filter(None, text.split(",")):
        m = re.fullmatch(r"\s*(\w+)\s*(<=|>=)\s*([\d.e+-]+)\s*", part)
        if m is None or m[1] not in {"best", "limit", "seconds", "speedup", *SYSTEMS}:
            raise ValueError(f"no target: {part!r}")
        found.append(Target(m[1], m[2] == "<=", float(m[3])))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Workload:
    """`makes` prepares it for a system and gives the call that is timed; one call does it `calls` times.

    `bytes` and `flops` are the least that any program for it must move and compute. Results of systems agree within
    `tolerance` of their largest element; "share" compares how many elements differ at all, None nothing (random
    numbers). `wide` has 64-bit types switched on where that is an option. `forced`: the call's time includes the
    wait for its result. What is not `parallel` is measured on one thread only.
    """

    name: str
    group: str
    makes: Mapping[str, Make]
    targets: tuple[Target, ...] = ()
    bytes: float = 0
    flops: float = 0
    flop_type: str = "float32"
    tolerance: float | None = 1e-4
    share: bool = False
    wide: bool = False
    forced: bool = True
    calls: int = 1
    parallel: bool = True

    def make(self, system: str) -> Make | None:
        """What prepares it for that system, if anything does."""
        return self.makes.get(written_for(system))


def _traced(data: Data, f: Function, jit: bool) -> dict[str, Make]:
    """Of a function `f(lib, *arrays)` that is the same text for Lamina and JAX."""

    def make(name: str) -> Make:
        def prepared(lib: SimpleNamespace) -> Thunk:
            xs = SYSTEMS[name].arrays(lib, data())
            lib.block(xs)
            g = lib.jit(lambda *x: f(lib, *x)) if jit else lambda *x: f(lib, *x)
            return lambda: g(*xs)

        return prepared

    return {"lamina": make("lamina"), "jax": make("jax")}


def _called(system: str, data: Data, f: Function) -> Make:
    """Of a function `f(lib, *arrays)` of another system; of Numba `f(lib)` is the compiled function of the arrays."""

    def prepared(lib: SimpleNamespace) -> Thunk:
        xs = SYSTEMS[system].arrays(lib, data())
        if system == "numba":
            g = f(lib)
            return lambda: g(*xs)
        if system == "tinygrad":
            jitted = lib.jit(lambda *x: f(lib, *x).realize())
            return lambda: jitted(*xs)
        return lambda: f(lib, *xs)

    return prepared


def workload(
    name: str,
    group: str,
    data: Data,
    f: Function,
    target: str = "",
    *,
    jit: bool = True,
    peers: Mapping[str, Function] | None = None,
    **rest: Any,
) -> Workload:
    """One over arrays: `f(lib, *arrays)` for Lamina and JAX, `peers` the same for other systems by name."""
    makes = _traced(data, f, jit)
    makes.update({system: _called(system, data, g) for system, g in (peers or {}).items()})
    return Workload(name, group, makes, targets(target), **rest)


def program(name: str, group: str, make: Make, target: str = "", **rest: Any) -> Workload:
    """One that makes its own arrays and call, the same text for Lamina and JAX; `peers` has others by name."""
    peers = rest.pop("peers", {})
    return Workload(name, group, {"lamina": make, "jax": make, **peers}, targets(target), **rest)
