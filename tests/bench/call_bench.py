"""What calls cost besides their work: jitted functions of small arrays, and small values that are read at once.

Run: PYTHONPATH=python .venv/bin/python tests/bench/call_bench.py [--rows TEXT] [--seconds S] [--instructions].
Prints microseconds per call, the least of many rounds in turn, for Lamina, JAX and NumPy; with `--instructions`
also the instructions of one call of Lamina, counted by valgrind, which other work on the machine does not change.
"""

from __future__ import annotations

import argparse
import collections
import functools
import itertools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from programs import Thunk, library

CALLS = 100  # of a round of one row
COUNTED = 400  # calls whose instructions are counted, after as many that are not
_Hundred = collections.namedtuple("_Hundred", [f"leaf{i}" for i in range(100)])

Row = Callable[[SimpleNamespace], Thunk]


def vector(lib: SimpleNamespace, value: float) -> Any:
    import numpy

    return lib.np.asarray(numpy.full(8, value, numpy.float32))


def one_tensor(lib: SimpleNamespace) -> Thunk:
    f, x = lib.jit(lambda a: a * 2.0 + 1.0), vector(lib, 1)
    return lambda: f(x)


def tensor_and_number(lib: SimpleNamespace) -> Thunk:
    f, x = lib.jit(lambda a, b: a * b), vector(lib, 1)
    return lambda: f(x, 0.5)


def keyword(lib: SimpleNamespace) -> Thunk:
    f, x, y = lib.jit(lambda a, b: a * b), vector(lib, 1), vector(lib, 2)
    return lambda: f(x, b=y)


def static_argument(lib: SimpleNamespace) -> Thunk:
    f, x = lib.jit(lambda a, n: a * n, static_argnums=1), vector(lib, 1)
    return lambda: f(x, 3)


def method(lib: SimpleNamespace) -> Thunk:
    jit = lib.jit if lib.name == "lamina" else functools.partial(lib.jit, static_argnums=0)

    class Model:
        def __init__(self) -> None:
            self.lr, self.w = 0.5, vector(lib, 2)

        @jit
        def step(self, x: Any) -> Any:
            return x * self.lr + self.w

    m, x = Model(), vector(lib, 1)
    return lambda: m.step(x)


def method_with_changed_number(lib: SimpleNamespace) -> Thunk:
    """As `method`, with another rate at each call. JAX takes it as an argument: it does not see a change."""

    class Model:
        def __init__(self) -> None:
            self.lr, self.w = 0.5, vector(lib, 2)

    m, x, rates = Model(), vector(lib, 1), itertools.cycle((0.25, 0.5))
    if lib.name == "lamina":
        Model.step = lib.jit(lambda self, x: x * self.lr + self.w)

        def run() -> Any:
            m.lr = next(rates)
            return m.step(x)

        return run
    step = lib.jit(lambda lr, w, x: x * lr + w)
    return lambda: step(next(rates), m.w, x)


def hundred(lib: SimpleNamespace) -> list[Any]:
    return [vector(lib, i) for i in range(100)]


def dict_of_100(lib: SimpleNamespace) -> Thunk:
    f = lib.jit(lambda d: {k: v * 2.0 for k, v in d.items()})
    d = {f"leaf{i}": x for i, x in enumerate(hundred(lib))}
    return lambda: f(d)


def named_tuple_of_100(lib: SimpleNamespace) -> Thunk:
    f = lib.jit(lambda t: _Hundred(*[v * 2.0 for v in t]))
    t = _Hundred(*hundred(lib))
    return lambda: f(t)


def dict_of_100_to_one(lib: SimpleNamespace) -> Thunk:
    f = lib.jit(lambda d: d["leaf0"] + d["leaf99"])
    d = {f"leaf{i}": x for i, x in enumerate(hundred(lib))}
    return lambda: f(d)


def sum_read(lib: SimpleNamespace) -> Thunk:
    import numpy

    x, y = vector(lib, 1), vector(lib, 2)
    return lambda: numpy.asarray(x + y)


def sum_as_float(lib: SimpleNamespace) -> Thunk:
    x, y = vector(lib, 1)[0], vector(lib, 2)[0]
    return lambda: float(x + y)


def sum_as_list(lib: SimpleNamespace) -> Thunk:
    x, y = vector(lib, 1), vector(lib, 2)
    return lambda: (x + y).tolist()


ROWS: dict[str, Row] = {
    "jit of one tensor": one_tensor,
    "jit of a tensor and a number": tensor_and_number,
    "jit with a keyword": keyword,
    "jit with a static argument": static_argument,
    "jitted method": method,
    "jitted method, lr changes": method_with_changed_number,
    "jit of a dict of 100 leaves": dict_of_100,
    "jit of a namedtuple of 100": named_tuple_of_100,
    "jit of a dict of 100 to one": dict_of_100_to_one,
    "x + y as a NumPy array": sum_read,
    "x + y as a float": sum_as_float,
    "x + y as a list": sum_as_list,
}
WITHOUT_NUMPY = frozenset(name for name in ROWS if name.startswith("jit"))


def numpy_library() -> SimpleNamespace:
    import numpy

    return SimpleNamespace(name="numpy", np=numpy)


def times(rows: dict[str, Row], seconds: float) -> dict[str, dict[str, float]]:
    """Microseconds per call of each row by library: the least of rounds that take turns."""
    libraries = [library("lamina"), library("jax"), numpy_library()]
    thunks = {
        name: {lib.name: make(lib) for lib in libraries if lib.name != "numpy" or name not in WITHOUT_NUMPY}
        for name, make in rows.items()
    }
    out: dict[str, dict[str, float]] = {}
    for name, calls in thunks.items():
        best = dict.fromkeys(calls, float("inf"))
        for call in calls.values():
            for _ in range(3 * CALLS):
                call()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for which, call in calls.items():
                for _ in range(CALLS):  # what another library left in the caches is not of these calls
                    call()
                begin = time.perf_counter_ns()
                for _ in range(CALLS):
                    call()
                best[which] = min(best[which], (time.perf_counter_ns() - begin) / CALLS / 1e3)
        out[name] = best
    return out


def run_counted(names: list[str]) -> None:
    """Runs the rows under valgrind: it dumps its counts where the recursion limit is set."""
    lib, limit = library("lamina"), sys.getrecursionlimit()
    for name in names:
        call = ROWS[name](lib)
        for _ in range(COUNTED):
            call()
        sys.setrecursionlimit(limit)
        for _ in range(COUNTED):
            call()
        sys.setrecursionlimit(limit)


def instructions(names: list[str]) -> dict[str, float]:
    """Instructions of one call of each row of Lamina; nothing where there is no valgrind."""
    if shutil.which("valgrind") is None:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(
            [
                "valgrind",
                "--tool=callgrind",
                "--dump-before=Py_SetRecursionLimit",
                f"--callgrind-out-file={folder}/counts",
                sys.executable,
                __file__,
                "--counted",
                json.dumps(names),
            ],
            check=True,
            capture_output=True,
            env={**os.environ, "LAMINA_ISA": "avx2", "PYTHONHASHSEED": "0"},
        )
        totals = []
        for i in range(1, 2 * len(names) + 1):
            text = (pathlib.Path(folder) / f"counts.{i}").read_text()
            found = re.search(r"^totals: (\d+)", text, re.MULTILINE)
            assert found is not None
            totals.append(int(found[1]))
    return {name: totals[2 * i + 1] / COUNTED for i, name in enumerate(names)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="", help="only rows whose name has this text")
    parser.add_argument("--seconds", type=float, default=0.5, help="per row")
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--counted", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.counted:
        run_counted(json.loads(options.counted))
        return
    rows = {name: make for name, make in ROWS.items() if options.rows in name}
    found = times(rows, options.seconds)
    counts = instructions(list(rows)) if options.instructions else {}
    print(f"{'':30}{'Lamina':>10}{'JAX':>10}{'NumPy':>10}{'instructions':>15}   (us per call)")
    for name, by in found.items():
        cells = "".join(f"{by[lib]:10.2f}" if lib in by else f"{'':10}" for lib in ("lamina", "jax", "numpy"))
        print(f"{name:30}{cells}" + (f"{counts[name]:15,.0f}" if name in counts else ""))


if __name__ == "__main__":
    main()
