"""Images of another size: resize and scale_and_translate, with the meaning that jax.image gives them.

Every method but "nearest" is a product with one matrix of weights per axis, made from an interpolating kernel: the
triangle, Keys' cubic (R. G. Keys, Cubic convolution interpolation for digital image processing, 1981; its parameter is
-1/2, or -3/4 as in OpenCV), Lanczos' windowed sinc, or the overlap of pixels. Weights are computed in float32, or in the
type of a float64 image or scale.
"""

from __future__ import annotations

import enum
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _results
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina._tensor import as_type, to_tensor
from lamina.numpy._common import canonical_axis, inexact, shape_of

__all__ = ["ResizeMethod", "resize", "scale_and_translate"]


class ResizeMethod(enum.Enum):
    """How an image is sampled; functions take these or their names."""

    NEAREST = 0
    LINEAR = 1
    LANCZOS3 = 2
    LANCZOS5 = 3
    CUBIC = 4
    CUBIC_PYTORCH = 5
    AREA = 6

    @staticmethod
    def from_string(s: str) -> ResizeMethod:
        """The method of a name ("linear", "bilinear", ...). ValueError for another one."""
        if s not in _NAMES:
            raise ValueError(f"there is no resize method {s!r}: use one of {', '.join(_NAMES)}")
        return _NAMES[s]


_NAMES = {
    "nearest": ResizeMethod.NEAREST,
    **dict.fromkeys(("linear", "bilinear", "trilinear", "triangle"), ResizeMethod.LINEAR),
    "lanczos3": ResizeMethod.LANCZOS3,
    "lanczos5": ResizeMethod.LANCZOS5,
    **dict.fromkeys(("cubic", "bicubic", "tricubic"), ResizeMethod.CUBIC),
    **dict.fromkeys(("cubic-pytorch", "bicubic-pytorch"), ResizeMethod.CUBIC_PYTORCH),
    "area": ResizeMethod.AREA,
}


def _triangle(x: Tensor) -> Tensor:
    return lnp.maximum(1 - x, 0)


def _lanczos(radius: int, x: Tensor) -> Tensor:
    return lnp.where(x <= radius, lnp.sinc(x) * lnp.sinc(x / radius), 0)


def _cubic(a: float, x: Tensor) -> Tensor:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return lnp.where(x < 1, near, lnp.where(x < 2, far, 0))


# Of distances, and how far they reach.
_KERNELS: dict[ResizeMethod, tuple[Callable[[Tensor], Tensor], int]] = {
    ResizeMethod.LINEAR: (_triangle, 1),
    ResizeMethod.LANCZOS3: (functools.partial(_lanczos, 3), 3),
    ResizeMethod.LANCZOS5: (functools.partial(_lanczos, 5), 5),
    ResizeMethod.CUBIC: (functools.partial(_cubic, -0.5), 2),
    ResizeMethod.CUBIC_PYTORCH: (functools.partial(_cubic, -0.75), 2),
}


def _weights(
    size: int, made: int, scale: Any, shift: Any, method: ResizeMethod, antialias: bool, dtype: Any
) -> Tensor:
    """What each of `size` pixels of a row gives to each of `made`; columns sum to one, or are zero outside the row."""
    step = 1 / lnp.asarray(scale, dtype)
    start = lnp.arange(made, dtype=dtype) * step - lnp.asarray(shift, dtype) * step
    middle = start + 0.5 * step - 0.5  # the pixel's centre, in the indices of the row
    if method is ResizeMethod.CUBIC_PYTORCH and antialias:
        method = ResizeMethod.CUBIC
    beyond = 0
    if method is ResizeMethod.AREA:
        left = lnp.arange(size, dtype=dtype)[:, None]
        weights = lnp.maximum(lnp.minimum(start + step, left + 1) - lnp.maximum(start, left), 0)
    else:
        kernel, radius = _KERNELS[method]
        beyond = radius if method is ResizeMethod.CUBIC_PYTORCH else 0  # its border repeats the last pixel
        at = lnp.arange(-beyond, size + beyond, dtype=dtype)[:, None]
        width = lnp.maximum(step, 1) if antialias else 1
        weights = kernel(lnp.abs(middle - at) / width)
    if beyond:
        parts = [
            lnp.sum(weights[: beyond + 1], 0, keepdims=True),
            weights[beyond + 1 : -beyond - 1],
            lnp.sum(weights[-beyond - 1 :], 0, keepdims=True),
        ]
        weights = lnp.concatenate(parts) if size > 1 else lnp.sum(weights, 0, keepdims=True)
    total = lnp.sum(weights, 0, keepdims=True)
    some = lnp.abs(total) > 1000 * 2.0**-23
    weights = lnp.where(some, weights / lnp.where(some, total, 1), 0)
    if beyond:
        return weights
    return lnp.where((middle >= -0.5) & (middle <= size - 0.5), weights, 0)


def _method(method: str | ResizeMethod) -> ResizeMethod:
    if isinstance(method, ResizeMethod):
        return method
    if not isinstance(method, str):
        raise TypeError(f"a resize method is a string or a ResizeMethod, not {method!r}")
    return ResizeMethod.from_string(method)


def _weights_type(*xs: Tensor) -> str:
    return "float64" if any(x.dtype in ("float64", "complex128") for x in xs) else "float32"


def _sampled(
    x: Tensor, shape: Sequence[int], axes: Sequence[int], scale: Any, shift: Any, method: ResizeMethod,
    antialias: bool, precision: Any, dtype: str,
) -> Tensor:  # fmt: skip
    if x.size == 0 and math.prod(shape):
        raise ValueError(f"an image of shape {x.shape} has no pixels to make one of shape {tuple(shape)} of")
    for d, s, t in zip(axes, scale, shift, strict=True):
        if math.prod(shape) == 0:
            return lnp.zeros(shape, x.dtype)
        weights = lnp.astype(_weights(x.shape[d], shape[d], s, t, method, antialias, dtype), x.dtype)
        x = lnp.moveaxis(lnp.tensordot(x, weights, ((d,), (0,)), precision=precision), -1, d)
    return x


def _shapes(image: Any, shape: Any) -> tuple[Tensor, list[int]]:
    x, sizes = to_tensor(image), shape_of(shape)
    if len(sizes) != x.ndim:
        raise ValueError(
            f"shape names the size of every dimension of the image: {tuple(sizes)} has {len(sizes)}, an image of shape "
            f"{x.shape} {x.ndim}"
        )
    return x, sizes


def resize(
    image: Any, shape: Any, method: str | ResizeMethod, antialias: bool = True, precision: Any = None
) -> Tensor:
    """The image in another shape, which names every dimension (batches and channels keep theirs).

    `method`: "nearest", "linear", "cubic", "lanczos3", "lanczos5", "area", or "cubic-pytorch", which differs from
    "cubic" where `antialias` is off. `antialias` widens the kernel of an image that gets smaller. Pixels are squares,
    whose corners meet. In the image's type, integers as floats except for "nearest". Differentiable by the image.
    ValueError for a shape of another rank or an unknown method.
    """
    x, sizes = _shapes(image, shape)
    method = _method(method)
    axes = [d for d in range(x.ndim) if x.shape[d] != sizes[d]]
    if method is ResizeMethod.NEAREST:
        for d in axes:
            if x.shape[d] == 0:
                raise ValueError(
                    f"an image of shape {x.shape} has no pixels to make one of shape {tuple(sizes)} of"
                )
            at = lnp.floor((lnp.arange(sizes[d], dtype="float32") + 0.5) * x.shape[d] / sizes[d])
            x = lnp.take(x, lnp.astype(at, "int32"), axis=d)
        return x
    x = inexact(x)
    scale = [sizes[d] / max(x.shape[d], 1) or 1.0 for d in axes]
    return _sampled(x, sizes, axes, scale, [0.0] * len(axes), method, antialias, precision, _weights_type(x))


def scale_and_translate(
    image: Any,
    shape: Any,
    spatial_dims: Sequence[int],
    scale: Any,
    translation: Any,
    method: str | ResizeMethod,
    antialias: bool = True,
    precision: Any = None,
) -> Tensor:
    """An image of `shape` in which the place p of `image` is at p * scale + translation along each of `spatial_dims`.

    `scale` and `translation` [len(spatial_dims)]; `method` and `antialias` as in `resize`, without "nearest". Places
    count from the corner of the first pixel, whose centre is at 0.5; what comes from outside the image is zero (with
    "cubic-pytorch" without `antialias`: the border goes on). Differentiable by the image, the scale and the translation.
    """
    x, sizes = _shapes(image, shape)
    method = _method(method)
    if method is ResizeMethod.NEAREST:
        raise ValueError('scale_and_translate interpolates: "nearest" is a method of resize only')
    axes = [canonical_axis(d, x.ndim) for d in spatial_dims]
    if len(set(axes)) != len(axes):
        raise ValueError(f"spatial_dims names a dimension twice: {tuple(spatial_dims)}")
    x = inexact(x)
    dtype = _weights_type(x, to_tensor(scale), to_tensor(translation))
    scales, shifts = (as_type(v, dtype) for v in (scale, translation))
    for name, v in (("scale", scales), ("translation", shifts)):
        if v.shape != (len(axes),):
            raise ValueError(
                f"{name} has one number for each of the {len(axes)} spatial_dims, not shape {v.shape}"
            )
    kept = [d for d in range(x.ndim) if d not in axes and sizes[d] != x.shape[d]]
    if kept:
        raise ValueError(
            f"dimension {kept[0]} is none of spatial_dims and keeps its size {x.shape[kept[0]]}, which shape gives as "
            f"{sizes[kept[0]]}"
        )
    each = [[v[n] for n in range(len(axes))] for v in (scales, shifts)]
    return _sampled(x, sizes, axes, *each, method, antialias, precision, dtype)


_results.own(globals())
