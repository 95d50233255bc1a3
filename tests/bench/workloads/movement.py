"""Data movement: copies in another order, gathers and scatters, updates in place, sorts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy
from programs import numbers
from workload import Thunk, Workload, program, workload

GROUP = "data movement"
BEST = "best <= 1"


def indices(high: int, n: int) -> Any:
    return numpy.random.default_rng(0).integers(0, high, n).astype(numpy.int32)


def updates_in_place(lib: SimpleNamespace) -> Thunk:
    """1,000 single elements of an array of 100 MB, one after the other."""
    n, places = 25_000_000, [int(i) for i in indices(25_000_000, 1000)]
    if lib.name == "lamina":
        x = lib.np.zeros(n, "float32")

        def run() -> Any:
            for i in places:
                x[i] = 1.0
            return x[places[0]]

        return run
    update = lib.donating(lambda x, i: x.at[i].set(1.0))
    held = [lib.np.zeros(n, "float32")]

    def run_jax() -> Any:
        for i in places:
            held[0] = update(held[0], i)
        return held[0][places[0]]

    return run_jax


def updates_in_place_numpy(lib: SimpleNamespace) -> Thunk:
    x, places = numpy.zeros(25_000_000, numpy.float32), [int(i) for i in indices(25_000_000, 1000)]

    def run() -> Any:
        for i in places:
            x[i] = 1.0
        return x[places[0]]

    return run


WORKLOADS: list[Workload] = [
    workload(
        "transpose 4096x1024",
        GROUP,
        lambda: [numbers(4096, 1024)],
        lambda lib, x: x.T,
        BEST,
        peers={
            "numpy": lambda lib, x: lib.np.ascontiguousarray(x.T),
            "torch": lambda lib, x: x.T.contiguous(),
            "tinygrad": lambda lib, x: x.T.contiguous(),
        },
        bytes=8 * 4096 * 1024,
    ),
    workload(
        "transpose 64x128x32x32 to last",
        GROUP,
        lambda: [numbers(64, 128, 32, 32)],
        lambda lib, x: lib.np.transpose(x, (0, 2, 3, 1)),
        BEST,
        peers={
            "numpy": lambda lib, x: lib.np.ascontiguousarray(x.transpose(0, 2, 3, 1)),
            "torch": lambda lib, x: x.permute(0, 2, 3, 1).contiguous(),
        },
        bytes=8 * 64 * 128 * 1024,
    ),
    workload(
        "concatenate 4 of 1e6",
        GROUP,
        lambda: [numbers(1_000_000, seed=i) for i in range(4)],
        lambda lib, *x: lib.np.concatenate(x),
        BEST,
        peers={"numpy": lambda lib, *x: lib.np.concatenate(x), "torch": lambda lib, *x: lib.torch.cat(x)},
        bytes=32e6,
    ),
    workload(
        "pad 2000x1000 by 8",
        GROUP,
        lambda: [numbers(2000, 1000)],
        lambda lib, x: lib.np.pad(x, 8),
        BEST,
        peers={
            "numpy": lambda lib, x: lib.np.pad(x, 8),
            "torch": lambda lib, x: lib.torch.nn.functional.pad(x, (8, 8, 8, 8)),
        },
        bytes=16e6,
    ),
    workload(
        "gather 1e6 of 1e5",
        GROUP,
        lambda: [numbers(100_000), indices(100_000, 1_000_000)],
        lambda lib, x, i: x[i],
        BEST,
        peers={"numpy": lambda lib, x, i: x[i], "torch": lambda lib, x, i: x[i]},
        bytes=8e6,
    ),
    workload(
        "gather 1e5 rows of 64",
        GROUP,
        lambda: [numbers(50_000, 64), indices(50_000, 100_000)],
        lambda lib, x, i: x[i],
        BEST,
        peers={"numpy": lambda lib, x, i: x[i], "torch": lambda lib, x, i: x[i]},
        bytes=100_000 * 64 * 8,
    ),
    workload(
        "scatter-add 1e6 to 1e5",
        GROUP,
        lambda: [numbers(1_000_000), indices(100_000, 1_000_000)],
        lambda lib, x, i: lib.np.zeros(100_000, "float32").at[i].add(x),
        BEST,
        peers={
            "numpy": lambda lib, x, i: lib.np.bincount(i, x, 100_000),
            "torch": lambda lib, x, i: lib.torch.zeros(100_000).index_add_(0, i, x),
        },
        bytes=8e6,
        tolerance=1e-3,
    ),
    program(
        "1,000 updates in place of 100 MB, each",
        GROUP,
        updates_in_place,
        "seconds <= 1e-6",
        calls=1000,
        parallel=False,
        peers={"numpy": updates_in_place_numpy},
    ),
    workload(
        "sort 1e6 (demand 11)",
        GROUP,
        lambda: [numbers(1_000_000)],
        lambda lib, x: lib.np.sort(x),
        BEST,
        peers={"numpy": lambda lib, x: lib.np.sort(x), "torch": lambda lib, x: lib.torch.sort(x).values},
    ),
    workload(
        "argsort 1e6",
        GROUP,
        lambda: [numbers(1_000_000)],
        lambda lib, x: lib.np.argsort(x),
        BEST,
        peers={"numpy": lambda lib, x: lib.np.argsort(x), "torch": lambda lib, x: lib.torch.argsort(x)},
        share=True,
        tolerance=0.02,
    ),
    workload(
        "top 10 of rows 2000x1000",
        GROUP,
        lambda: [numbers(2000, 1000)],
        lambda lib, x: lib.lax.top_k(x, 10)[0],
        BEST,
        peers={"torch": lambda lib, x: lib.torch.topk(x, 10).values},
    ),
    workload(
        "unique of 1e6, no jit",
        GROUP,
        lambda: [indices(10_000, 1_000_000)],
        lambda lib, x: lib.np.unique(x),
        BEST,
        jit=False,
        peers={"numpy": lambda lib, x: lib.np.unique(x), "torch": lambda lib, x: lib.torch.unique(x)},
    ),
]
