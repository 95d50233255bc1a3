"""One system in a process of its own: takes orders as lines of JSON, answers each with a line of JSON.

Run by bench.py as `worker.py SYSTEM THREADS`. It binds itself to that many processors before anything is imported, so
that every system's own choice of threads follows. Orders: prepare (makes a workload, calls it, keeps its result in a
file), time (one round), drop.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
import traceback
from typing import Any


def timed(call: Any, wait: Any, forced: bool, least: float) -> float:
    """Seconds per call: the median over the parts of a round of `least` seconds, as other work may stop a part.

    Results that are not waited for are so between the parts.
    """
    total, batch, parts = 0.0, 1, []
    while not total or total < least:
        begin = time.perf_counter()
        for _ in range(batch):
            out = call()
            if forced:
                wait(out)
        spent = time.perf_counter() - begin
        if not forced:
            wait(out)
        total += spent
        if spent < least / 40:  # the clock and the loop are not to be seen in calls of a microsecond
            batch *= 4
        else:
            parts.append(spent / batch)
    return statistics.median(parts or [spent / batch])


def sampled(array: Any) -> tuple[Any, Any]:
    """The extents without those of one, and at most about a million elements, evenly apart."""
    import numpy

    flat = numpy.ravel(array)
    return numpy.array(numpy.squeeze(array).shape), flat[:: max(1, flat.size >> 20)].astype("float64")


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a system prints is not an answer
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[variable] = str(threads)

    import numpy
    import workloads
    from systems import SYSTEMS, leaves

    system = SYSTEMS[name]
    lib = system.load()
    by_name = {w.name: w for w in workloads.WORKLOADS}
    call, current = None, None

    def wait(out: Any) -> None:
        system.wait(lib, out)

    def prepare(order: dict[str, Any]) -> dict[str, Any]:
        nonlocal call, current
        current = by_name[order["workload"]]
        if name == "jax":
            import jax

            jax.config.update("jax_enable_x64", current.wide)
        call = current.make(name)(lib)
        begin = time.perf_counter()
        out = call()
        wait(out)
        first = time.perf_counter() - begin
        if order["result"]:
            numpy.savez(order["result"], *[part for a in leaves(out) for part in sampled(a)])
        del out
        # Kernels run interpreted until their code is there; two more runs find it and fill caches.
        for _ in range(2):
            system.settle(lib)
            timed(call, wait, current.forced, min(order["warm"], 2 * first))
        system.settle(lib)
        return {"first": first}

    def measure(order: dict[str, Any]) -> dict[str, Any]:
        return {"seconds": timed(call, wait, current.forced, order["least"]) / current.calls}

    def drop(order: dict[str, Any]) -> dict[str, Any]:
        nonlocal call, current
        call = current = None
        gc.collect()
        return {}

    orders = {"prepare": prepare, "time": measure, "drop": drop}
    print(json.dumps({"ready": name}), file=answers, flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = orders[order["do"]](order)
        except Exception as e:
            traceback.print_exc()
            answer = {"error": f"{type(e).__name__}: {' '.join(str(e).split())}"[:300]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
