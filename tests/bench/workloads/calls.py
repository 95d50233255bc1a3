"""What calls cost besides their work: recording, jitted functions of many small arrays, small values that are read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from programs import numbers, tiny_mlp_sgd
from workload import Make, Thunk, Workload, program, workload


def _small(seed: int = 0) -> Any:
    return numbers(8, seed=seed)


def additions(x: Any, y: Any) -> Thunk:
    """200 of them; what they give is not waited for."""

    def run() -> Any:
        a = x
        for _ in range(200):
            a = a + y
        return a

    return run


def recorded(lib: SimpleNamespace) -> Thunk:
    x, y = lib.np.asarray(_small()), lib.np.asarray(_small(1))
    lib.block([x, y])
    return additions(x, y)


def recorded_drjit(lib: SimpleNamespace) -> Thunk:
    x, y = lib.Float(_small()), lib.Float(_small(1))
    lib.dr.eval(x, y)
    return additions(x, y)


def of_arguments(count: int) -> Make:
    def make(lib: SimpleNamespace) -> Thunk:
        xs = [lib.np.asarray(_small(i)) for i in range(count)]
        f = lib.jit(lambda *xs: xs[0] * 2 + xs[-1])
        return lambda: f(*xs)

    return make


def of_arguments_torch(count: int) -> Make:
    def make(lib: SimpleNamespace) -> Thunk:
        xs = [lib.torch.from_numpy(_small(i)) for i in range(count)]
        return lambda: xs[0] * 2 + xs[-1]

    return make


def dict_of_100(lib: SimpleNamespace) -> Thunk:
    d = {f"leaf{i}": lib.np.asarray(_small(i)) for i in range(100)}
    f = lib.jit(lambda d: {k: v * 2 for k, v in d.items()})
    return lambda: f(d)


def dict_of_100_torch(lib: SimpleNamespace) -> Thunk:
    d = {f"leaf{i}": lib.torch.from_numpy(_small(i)) for i in range(100)}
    return lambda: {k: v * 2 for k, v in d.items()}


def formula(np: Any, x: Any) -> Any:
    """Twenty operations, five of them sines."""
    for _ in range(5):
        x = np.sin(x) * x + 0.5
        x = x * 0.25
    return x


def chain_of_200(np: Any, x: Any) -> Any:
    for _ in range(200):
        x = x * 0.99 + 0.001
    return x


def added_and_read(lib: SimpleNamespace) -> Thunk:
    import numpy

    x, y = lib.np.asarray(_small()), lib.np.asarray(_small(1))
    return lambda: numpy.asarray(x + y)


GROUP = "calls"
QUARTER = "jax <= 0.25, torch <= 1"
WORKLOADS: list[Workload] = [
    program(
        "one op recorded",
        GROUP,
        recorded,
        "drjit <= 1",
        calls=200,
        forced=False,
        parallel=False,
        peers={"drjit": recorded_drjit},
    ),
    *(
        program(
            f"jit call of {n} array{'s' * (n > 1)}",
            GROUP,
            of_arguments(n),
            QUARTER,
            parallel=False,
            peers={"torch": of_arguments_torch(n)},
        )
        for n in (1, 10, 60)
    ),
    program(
        "jit call, dict of 100 to dict of 100",
        GROUP,
        dict_of_100,
        "jax <= 0.1, torch <= 1",
        parallel=False,
        peers={"torch": dict_of_100_torch},
    ),
    workload(
        "20-op formula of 1,000 elements, no jit",
        GROUP,
        lambda: [numbers(1000)],
        lambda lib, x: formula(lib.np, x),
        "jax <= 0.1, torch <= 1",
        jit=False,
        parallel=False,
        peers={"numpy": lambda lib, x: formula(lib.np, x), "torch": lambda lib, x: formula(lib.torch, x)},
    ),
    workload(
        "20-op formula of 1,000 elements, jit",
        GROUP,
        lambda: [numbers(1000)],
        lambda lib, x: formula(lib.np, x),
        "jax <= 1",
        parallel=False,
    ),
    workload(
        "200-op chain of 8 elements, jit",
        GROUP,
        lambda: [_small()],
        lambda lib, x: chain_of_200(lib.np, x),
        "jax <= 0.25",
        parallel=False,
    ),
    program("tiny MLP, SGD step without jit", GROUP, tiny_mlp_sgd(jit=False), "jax <= 0.1", parallel=False),
    program("tiny MLP, SGD step with jit", GROUP, tiny_mlp_sgd(jit=True), "jax <= 0.25", parallel=False),
    program(
        "x + y of 8 elements, read (demand 8)",
        GROUP,
        added_and_read,
        "numpy <= 2",
        parallel=False,
        peers={
            "numpy": lambda lib: (lambda x, y: lambda: x + y)(_small(), _small(1)),
        },
    ),
]
