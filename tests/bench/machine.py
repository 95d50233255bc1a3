"""What the machine can do at most, measured by NumPy in the same run, and what it is called.

Run as `machine.py THREADS` it prints, for that many processors, bytes per second (the best of copying and of summing
arrays much larger than the caches) and operations per second by element type (products of 2048 x 2048 matrices).
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import pathlib
import platform
import sys
import time
from collections.abc import Callable
from typing import Any

ELEMENTS = 32_000_000


def _best(f: Callable[[], Any], rounds: int = 5) -> float:
    least = float("inf")
    for _ in range(rounds):
        begin = time.perf_counter()
        f()
        least = min(least, time.perf_counter() - begin)
    return least


def limits(threads: int) -> dict[str, float]:
    """Of `threads` processors; each moves a part of its own, as one call of NumPy uses one thread only."""
    from concurrent.futures import ThreadPoolExecutor

    import numpy

    x, y = numpy.ones(ELEMENTS, numpy.float32), numpy.zeros(ELEMENTS, numpy.float32)
    parts = list(zip(numpy.array_split(x, threads), numpy.array_split(y, threads)))
    with ThreadPoolExecutor(threads) as pool:
        copied = _best(lambda: list(pool.map(lambda p: numpy.copyto(p[1], p[0]), parts)))
        read = _best(lambda: list(pool.map(lambda p: numpy.dot(p[0], p[0]), parts)))
    out = {"bytes": max(2 * x.nbytes / copied, x.nbytes / read)}
    for kind in ("float32", "float64"):
        a = numpy.ones((2048, 2048), kind)
        out[kind] = 2 * 2048.0**3 / _best(functools.partial(numpy.matmul, a, a), 3)
    return out


def description(packages: tuple[str, ...]) -> dict[str, Any]:
    """Processor, instruction set, system, date and versions."""
    import lamina

    cpu = pathlib.Path("/proc/cpuinfo").read_text() if os.path.exists("/proc/cpuinfo") else ""
    named = [line.split(":", 1)[1].strip() for line in cpu.splitlines() if line.startswith("model name")]
    flags = next((line for line in cpu.splitlines() if line.startswith("flags")), "").split()
    widest = next((f for f in ("amx_tile", "avx512f", "avx2") if f in flags), "baseline")
    versions = {"lamina": lamina.__version__}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "processor": named[0] if named else platform.processor(),
        "processors": len(os.sched_getaffinity(0)),
        "instructions": widest,
        "system": platform.platform(),
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
        "load": os.getloadavg()[0],
        "versions": versions,
    }


if __name__ == "__main__":
    count = int(sys.argv[1])
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = str(count)
    print(json.dumps(limits(count)))
