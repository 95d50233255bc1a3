"""Fourier transforms of real lines and planes, and pools of images."""

from __future__ import annotations

from collections.abc import Callable
from math import log2, prod
from typing import Any

from programs import numbers
from workload import Workload, workload

GROUP = "signals"
IMAGES = (8, 56, 56, 64)  # channels last


def transform(what: str, shape: tuple[int, ...], f: Callable[[Any, Any], Any]) -> Workload:
    """`f(fft, x)` with a library's module of transforms, as NumPy names them."""
    size = "x".join(map(str, shape))
    return workload(
        f"{what} {size}",
        GROUP,
        lambda: [numbers(*shape)],
        lambda lib, x: f(lib.np.fft, x),
        "best <= 1",
        peers={"numpy": lambda lib, x: f(lib.np.fft, x), "torch": lambda lib, x: f(lib.torch.fft, x)},
        flops=2.5 * prod(shape) * log2(prod(shape)),
    )


def pool(what: str, size: int, stride: int, largest: bool) -> Workload:
    def pooled(lib: Any, x: Any) -> Any:
        start, combine = (-float("inf"), lib.lax.max) if largest else (0.0, lib.lax.add)
        return lib.lax.reduce_window(x, start, combine, (1, size, size, 1), (1, stride, stride, 1), "VALID")

    def torch(lib: Any, x: Any) -> Any:
        functional, planes = lib.torch.nn.functional, x.permute(0, 3, 1, 2)
        y = (
            functional.max_pool2d(planes, size, stride)
            if largest
            else functional.avg_pool2d(planes, size, stride, divisor_override=1)
        )
        return y.permute(0, 2, 3, 1)

    return workload(
        f"{what} of {size}x{size} every {stride}, 8x56x56x64",
        GROUP,
        lambda: [numbers(*IMAGES)],
        pooled,
        "best <= 1",
        peers={"torch": torch},
        bytes=4.0 * prod(IMAGES),
    )


WORKLOADS: list[Workload] = [
    transform("rfft", (1000, 1000), lambda fft, x: fft.rfft(x)),
    transform("rfft", (1 << 18,), lambda fft, x: fft.rfft(x)),
    transform("irfft of rfft", (1000, 1024), lambda fft, x: fft.irfft(fft.rfft(x))),
    transform("fft2", (512, 512), lambda fft, x: fft.fft2(x)),
    pool("maxima", 2, 2, True),
    pool("maxima", 3, 2, True),
    pool("sums", 2, 2, False),
]
