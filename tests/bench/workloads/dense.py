"""Products and convolutions of every size and element type."""

from __future__ import annotations

from typing import Any

import numpy
from programs import numbers
from workload import Workload, workload

GROUP = "dense"
NEAR_BEST = "best <= 1.053"  # 0.95 of the speed of the best library


def matmul(n: int, kind: str = "float32", target: str = NEAR_BEST) -> Workload:
    peers: dict[str, Any] = {}
    if kind in ("float32", "float64"):
        peers = {"numpy": lambda lib, x, y: x @ y, "torch": lambda lib, x, y: x @ y}
    row = "" if peers else " (demand 38)"
    return _product(f"matmul {kind} {n}{row}", (n, n), (n, n), kind, target, peers, 2.0 * n**3)


def _product(
    name: str,
    a: tuple[int, ...],
    b: tuple[int, ...],
    kind: str,
    target: str,
    peers: dict[str, Any],
    flops: float,
) -> Workload:
    half = kind in ("bfloat16", "float16")
    stored = {"bfloat16": "float32", "float16": "float32"}.get(kind, kind)

    def data() -> list[Any]:
        if kind == "int8":
            return [(numbers(*s, seed=i) * 20).astype(numpy.int8) for i, s in enumerate((a, b))]
        return [numbers(*s, seed=i, scale=0.1).astype(stored) for i, s in enumerate((a, b))]

    def f(lib: Any, x: Any, y: Any) -> Any:
        if half:
            return lib.np.matmul(x.astype(kind), y.astype(kind)).astype("float32")
        if kind == "int8":
            return lib.lax.dot(x, y, preferred_element_type="int32")
        return lib.np.matmul(x, y)

    return workload(
        name,
        GROUP,
        data,
        f,
        target,
        peers=peers,
        flops=flops,
        flop_type="float64" if kind == "float64" else "float32",
        wide=kind == "float64",
        tolerance=2e-2 if half else 1e-3,
    )


def skinny(a: tuple[int, ...], b: tuple[int, ...], flops: float) -> Workload:
    size = " by ".join("x".join(map(str, s)) for s in (a, b))
    peers = {"numpy": lambda lib, x, y: x @ y, "torch": lambda lib, x, y: x @ y}
    return _product(f"matmul {size}", a, b, "float32", NEAR_BEST, peers, flops)


def dense_layer(lib: Any, x: Any, w: Any, b: Any) -> Any:
    return lib.nn.relu(x @ w + b)


def convolved(lib: Any, x: Any, w: Any, stride: int, groups: int) -> Any:
    return lib.lax.conv_general_dilated(x, w, (stride, stride), "SAME", feature_group_count=groups)


def convolution(
    what: str,
    images: tuple[int, ...],
    kernel: tuple[int, ...],
    stride: int = 1,
    groups: int = 1,
    gradients: bool = False,
) -> Workload:
    side = images[2] // stride
    flops = 2.0 * images[0] * kernel[0] * side * side * kernel[1] * kernel[2] * kernel[3]

    def f(lib: Any, x: Any, w: Any) -> Any:
        if not gradients:
            return convolved(lib, x, w, stride, groups)
        return lib.grad(lambda x, w: lib.np.sum(convolved(lib, x, w, stride, groups) ** 2), (0, 1))(x, w)

    def torch(lib: Any, x: Any, w: Any) -> Any:
        pad = kernel[2] // 2
        if not gradients:
            return lib.torch.nn.functional.conv2d(x, w, None, stride, pad, 1, groups)
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        (lib.torch.nn.functional.conv2d(x, w, None, stride, pad, 1, groups) ** 2).sum().backward()
        return x.grad, w.grad

    same_sides = stride == 1  # PyTorch pads both sides alike, SAME the later one more
    return workload(
        f"conv {what}{', with gradients' if gradients else ''}",
        GROUP,
        lambda: [numbers(*images), numbers(*kernel, seed=1, scale=0.05)],
        f,
        "best <= 1.053, jax <= 0.67",
        peers={"torch": torch} if same_sides else {},
        flops=flops * (3 if gradients else 1),
        tolerance=1e-3,
    )


WORKLOADS: list[Workload] = [
    *(matmul(n, target="best <= 1.053, jax <= 0.67") for n in (16, 64)),
    *(matmul(n) for n in (256, 1024, 2048, 4096)),
    matmul(1024, "float64"),
    *(matmul(1024, kind, "jax <= 1") for kind in ("bfloat16", "float16", "int8")),
    skinny((64, 2048), (2048, 64), 2.0 * 64 * 2048 * 64),
    skinny((2048, 64), (64, 2048), 2.0 * 2048 * 64 * 2048),
    skinny((128, 784), (784, 1024), 2.0 * 128 * 784 * 1024),
    skinny((4096, 8, 8), (4096, 8, 8), 2.0 * 4096 * 8**3),
    skinny((64, 128, 64), (64, 64, 128), 2.0 * 64 * 128 * 64 * 128),
    workload(
        "matvec 4096x4096",
        GROUP,
        lambda: [numbers(4096, 4096), numbers(4096, seed=1)],
        lambda lib, x, y: x @ y,
        "best <= 1, limit >= 0.9",
        peers={"numpy": lambda lib, x, y: x @ y, "torch": lambda lib, x, y: x @ y},
        bytes=4 * 4096**2,
        tolerance=1e-3,
    ),
    workload(
        "relu(x @ w + b), 512x1024x1024",
        GROUP,
        lambda: [numbers(512, 1024), numbers(1024, 1024, seed=1, scale=0.05), numbers(1024, seed=2)],
        dense_layer,
        NEAR_BEST,
        peers={
            "numpy": lambda lib, x, w, b: lib.np.maximum(x @ w + b, 0),
            "torch": lambda lib, x, w, b: lib.torch.relu(lib.torch.addmm(b, x, w)),
        },
        flops=2.0 * 512 * 1024 * 1024,
        tolerance=1e-3,
    ),
    convolution("3x3, 64 channels, 56x56, batch 8", (8, 64, 56, 56), (64, 64, 3, 3)),
    convolution("3x3, 64 channels, 56x56, batch 8", (8, 64, 56, 56), (64, 64, 3, 3), gradients=True),
    convolution("1x1, 256 to 64, 56x56, batch 8", (8, 256, 56, 56), (64, 256, 1, 1)),
    convolution("3x3, 512 channels, 7x7, batch 8", (8, 512, 7, 7), (512, 512, 3, 3)),
    convolution("depthwise 3x3, 128 channels, 28x28, batch 8", (8, 128, 28, 28), (128, 1, 3, 3), groups=128),
    convolution("3x3 stride 2, 64 channels, 56x56, batch 8", (8, 64, 56, 56), (64, 64, 3, 3), stride=2),
    convolution("3x3 in 4 groups, 64 channels, 28x28, batch 8", (8, 64, 28, 28), (64, 16, 3, 3), groups=4),
]
