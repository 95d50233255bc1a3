"""Reductions over each axis, normalisations with their gradients, running sums, histograms and segments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy
from programs import numbers
from workload import Workload, workload

GROUP = "reductions"
AXES: tuple[tuple[str, tuple[int, ...], int | None], ...] = (
    ("axis 0 of 2000x1000", (2000, 1000), 0),
    ("axis 1 of 2000x1000", (2000, 1000), 1),
    ("axis 1 of 100x200x100", (100, 200, 100), 1),
    ("all of 1e7", (10_000_000,), None),
)


def reduced(name: str, which: tuple[str, tuple[int, ...], int | None], target: str) -> Workload:
    place, shape, axis = which
    short = {"max": "amax"}.get(name, name)
    kept = () if axis is None else (axis,)

    def torch(lib: Any, x: Any) -> Any:
        if axis is None:
            return getattr(lib.torch, name)(x)
        if name == "var":
            return lib.torch.var(x, axis, correction=0)
        return getattr(lib.torch, short)(x, axis)

    peers: dict[str, Any] = {"numpy": lambda lib, x: getattr(lib.np, name)(x, *kept)}
    if name != "var" or axis is not None:
        peers["torch"] = torch
    if axis is None and name in ("sum", "max"):
        peers["drjit"] = lambda lib, x: getattr(lib.dr, name)(x)
    if name in ("sum", "max"):
        peers["tinygrad"] = lambda lib, x: getattr(x, name)(*kept)
    return workload(
        f"{name}, {place}",
        GROUP,
        lambda: [numbers(*shape)],
        lambda lib, x: getattr(lib.np, name)(x, *kept),
        target,
        peers=peers,
        bytes=4 * float(numpy.prod(shape)),
        tolerance=1e-3,
    )


def rows(
    name: str,
    f: Callable[..., Any],
    peers: Mapping[str, Any],
    target: str = "best <= 1",
    shape: tuple[int, ...] = (2000, 1000),
    moved: float = 8,
    tolerance: float = 1e-3,
) -> Workload:
    """Over the rows of a matrix of f32; `moved` bytes read and written for each element."""
    size = "x".join(map(str, shape))
    return workload(
        f"{name} {size}",
        GROUP,
        lambda: [numbers(*shape)],
        f,
        target,
        peers=peers,
        bytes=moved * float(numpy.prod(shape)),
        tolerance=tolerance,
    )


def softmax_numpy(lib: Any, x: Any) -> Any:
    e = lib.np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(np: Any, x: Any) -> Any:
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)


def backward(f: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of the sum of squares of f."""
    return lambda lib, x: lib.grad(lambda x: lib.np.sum(f(lib, x) ** 2))(x)


def backward_torch(f: Callable[..., Any]) -> Callable[..., Any]:
    def run(lib: Any, x: Any) -> Any:
        x = x.detach().requires_grad_()
        (f(lib, x) ** 2).sum().backward()
        return x.grad

    return run


def softmax_torch(lib: Any, x: Any) -> Any:
    return lib.torch.softmax(x, -1)


def norm_torch(lib: Any, x: Any) -> Any:
    return lib.torch.nn.functional.layer_norm(x, x.shape[-1:])


def segments() -> list[Any]:
    index = numpy.sort(numpy.random.default_rng(0).integers(0, 10_000, 1_000_000)).astype(numpy.int32)
    return [numbers(1_000_000), index]


def segment_sum(lib: Any, x: Any, i: Any) -> Any:
    return lib.np.zeros(10_000, "float32").at[i].add(x)


def histogram(lib: Any, x: Any) -> Any:
    return lib.np.histogram(x, bins=64, range=(-4.0, 4.0))[0]


WORKLOADS: list[Workload] = [
    *(reduced("sum", a, "best <= 1") for a in AXES),
    *(reduced("max", a, "best <= 1") for a in (AXES[0], AXES[1], AXES[3])),
    *(reduced("var", a, "best <= 1") for a in (AXES[0], AXES[1])),
    *(reduced("mean", a, "best <= 1") for a in (AXES[1],)),
    rows(
        "argmax of rows",
        lambda lib, x: lib.np.argmax(x, 1),
        {"numpy": lambda lib, x: x.argmax(1), "torch": lambda lib, x: x.argmax(1)},
        "numpy <= 1, jax <= 0.2",
        moved=4,
    ),
    rows(
        "argmax of short rows",
        lambda lib, x: lib.np.argmax(x, 1),
        {"numpy": lambda lib, x: x.argmax(1), "torch": lambda lib, x: x.argmax(1)},
        "numpy <= 1, jax <= 0.2",
        (500_000, 3),
        4,
    ),
    rows(
        "norm of rows",
        lambda lib, x: lib.np.linalg.norm(x, axis=1),
        {"numpy": lambda lib, x: lib.np.linalg.norm(x, axis=1)},
        moved=4,
    ),
    rows(
        "logsumexp of rows",
        lambda lib, x: lib.np.log(lib.np.sum(lib.np.exp(x - lib.np.max(x, 1, keepdims=True)), 1)),
        {"torch": lambda lib, x: lib.torch.logsumexp(x - x.amax(1, keepdim=True), 1)},
        moved=4,
    ),
    rows(
        "sum of tall narrow axis 0",
        lambda lib, x: lib.np.sum(x, 0),
        {"numpy": lambda lib, x: x.sum(0), "torch": lambda lib, x: x.sum(0)},
        shape=(1_000_000, 8),
        moved=4,
    ),
    rows(
        "softmax",
        lambda lib, x: lib.nn.softmax(x),
        {"numpy": softmax_numpy, "torch": softmax_torch, "tinygrad": lambda lib, x: x.softmax()},
    ),
    rows(
        "softmax, gradient",
        backward(lambda lib, x: lib.nn.softmax(x)),
        {"torch": backward_torch(softmax_torch)},
    ),
    rows("layer norm", lambda lib, x: layer_norm(lib.np, x), {"torch": norm_torch}),
    rows(
        "layer norm, gradient",
        lambda lib, x: lib.grad(lambda x: lib.np.sum(lib.np.sin(layer_norm(lib.np, x))))(x),
        {},
    ),
    rows(
        "cumsum (demand 11)",
        lambda lib, x: lib.np.cumsum(x),
        {"numpy": lambda lib, x: x.cumsum(), "torch": lambda lib, x: x.cumsum(0)},
        "best <= 1, jax <= 0.2",
        (1_000_000,),
        tolerance=1e-2,
    ),
    rows(
        "cumsum along rows",
        lambda lib, x: lib.np.cumsum(x, 1),
        {"numpy": lambda lib, x: x.cumsum(1), "torch": lambda lib, x: x.cumsum(1)},
        "best <= 1, jax <= 0.2",
    ),
    rows(
        "cumprod",
        lambda lib, x: lib.np.cumprod(x * 0.0 + 1.00001),
        {"numpy": lambda lib, x: (x * numpy.float32(0) + numpy.float32(1.00001)).cumprod()},
        shape=(1_000_000,),
        tolerance=1e-2,
    ),
    rows(
        "histogram",
        histogram,
        {"numpy": histogram},
        shape=(1_000_000,),
        moved=4,
    ),
    workload(
        "segment sum 1e6 to 1e4 (demand 11)",
        GROUP,
        segments,
        segment_sum,
        "best <= 1",
        peers={
            "numpy": lambda lib, x, i: lib.np.bincount(i, x, 10_000),
            "torch": lambda lib, x, i: lib.torch.zeros(10_000).index_add_(0, i, x),
        },
        bytes=8e6,
        tolerance=1e-3,
    ),
]
