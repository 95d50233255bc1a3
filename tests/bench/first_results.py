"""First results: programs that run in a new process each time, with an empty kernel cache or one that was filled."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tempfile
from dataclasses import dataclass

from systems import written_for
from workload import Target, targets


@dataclass(frozen=True)
class Fresh:
    """`program` is one of programs.FRESH. `part` of its measurements is the row: "seconds" of the first call, "five"
    of the first five calls, "peak" bytes. With `warm` the same process ran before and its disk cache is kept."""

    name: str
    program: str
    targets: tuple[Target, ...] = ()
    part: str = "seconds"
    warm: bool = False
    systems: tuple[str, ...] = ("lamina", "jax")
    rounds: int = 3


def first_results(what: str, program: str, rounds: int = 3) -> list[Fresh]:
    return [
        Fresh(f"{what}, first, cold", program, targets("jax <= 0.1"), rounds=rounds),
        Fresh(f"{what}, five, cold", program, targets("jax <= 0.1"), "five", rounds=rounds),
        Fresh(f"{what}, first, warm disk", program, warm=True, rounds=rounds),
    ]


def with_memory(what: str, program: str) -> list[Fresh]:
    memory = Fresh(f"{what}, memory of five", program, targets("jax <= 1"), "peak")
    return [*first_results(what, program), memory]


FRESH: list[Fresh] = [
    Fresh("import", "import", targets("numpy <= 2"), systems=("lamina", "jax", "numpy")),
    *(row for n in (10, 100, 1000) for row in first_results(f"chain of {n:,}", f"chain{n}")),
    *first_results("chain of 10,000", "chain10000", 1)[:2],
    *with_memory("MLP and Adam", "mlp"),
    *with_memory("LeNet", "lenet"),
    *first_results("1-layer transformer", "transformer1"),
    *with_memory("6-layer transformer", "transformer6"),
    *first_results("hessian", "hessian"),
    *first_results("300-leaf optimizer", "optimizer"),
    Fresh("50 batch sizes, cold", "sizes", targets("jax <= 0.0334")),
    Fresh("50 batch sizes, warm disk", "sizes", warm=True),
]


class Runs:
    """The runs of programs so far: the rows of one program are parts of the same runs."""

    def __init__(self, python: dict[str, list[str]], environment: dict[str, dict[str, str]]) -> None:
        self._python, self._environment = python, environment
        self._done: dict[tuple[str, str, int], dict[str, dict[str, float]]] = {}

    def of(self, fresh: Fresh, system: str, round_: int) -> dict[str, float]:
        """Measurements of one run; with `fresh.warm` of the second in the same cache folder."""
        key = (fresh.program, system, round_)
        if key not in self._done:
            with tempfile.TemporaryDirectory() as kept:
                cold = self._run(fresh.program, system, kept)
                again = written_for(system) in ("lamina", "jax") and any(
                    f.warm for f in FRESH if f.program == fresh.program
                )
                self._done[key] = {
                    "cold": cold,
                    "warm": self._run(fresh.program, system, kept) if again else cold,
                }
        return self._done[key]["warm" if fresh.warm else "cold"]

    def _run(self, program: str, system: str, kept: str) -> dict[str, float]:
        path = str(pathlib.Path(__file__).with_name("programs.py"))
        caches = {
            "LAMINA_CACHE_DIR": kept,
            "JAX_COMPILATION_CACHE_DIR": kept,
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }
        out = subprocess.run(
            [*self._python[system], path, program, written_for(system)],
            env={**os.environ, **self._environment[system], **caches},
            capture_output=True,
            text=True,
            timeout=300,
        )
        if out.returncode:
            raise RuntimeError(f"{program} on {system}: {out.stderr.strip().splitlines()[-1:]}")
        return json.loads(out.stdout.strip().splitlines()[-1])
