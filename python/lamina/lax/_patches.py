"""Convolutions by patches: conv_general_dilated_patches, conv_general_dilated_local; and platform_dependent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from lamina._core import Tensor
from lamina.lax._base import describe, to_tensor
from lamina.lax._linear import (
    ConvDimensionNumbers,
    Padding,
    conv_dimension_numbers,
    conv_general_dilated,
    dot_general,
)


def _numbers(x: Tensor, dimension_numbers: Any) -> ConvDimensionNumbers:
    return conv_dimension_numbers(x.shape, (1,) * x.ndim, dimension_numbers)


def conv_general_dilated_patches(
    lhs: Any,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Tensor:
    """What a convolution with windows of `filter_shape` multiplies, at each place of its output.

    As `conv_general_dilated`, whose output has one feature per element of the window and channel of `lhs`: those of
    the first channel come first, each in row-major order of the window.
    """
    from lamina import numpy as lnp

    x = to_tensor(lhs)
    numbers = _numbers(x, dimension_numbers)
    if len(filter_shape) != x.ndim - 2:
        raise ValueError(
            f"filter_shape {tuple(filter_shape)} for {x.ndim - 2} spatial dimensions of {describe(x)}"
        )
    n, channels = math.prod(filter_shape), x.shape[numbers.lhs_spec[1]]
    # One kernel for each element of the window, which is 1 there and 0 elsewhere.
    kernels = lnp.tile(lnp.eye(n, dtype=x.dtype), (channels, 1)).reshape((channels * n, 1, *filter_shape))
    kernels = lnp.moveaxis(kernels, tuple(range(x.ndim)), numbers.rhs_spec)
    return conv_general_dilated(
        x,
        kernels,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        numbers,
        channels,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_local(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Padding,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    precision: Any = None,
) -> Tensor:
    """A convolution with kernels of its own at each place of the output.

    `rhs` has, in the places of a kernel's spatial dimensions, those of the output, and as input features those of
    `conv_general_dilated_patches`; the other arguments are those of `conv_general_dilated`.
    """
    from lamina import numpy as lnp

    x, w = to_tensor(lhs), to_tensor(rhs)
    numbers = _numbers(x, dimension_numbers)
    patches = conv_general_dilated_patches(
        x, filter_shape, window_strides, padding, lhs_dilation, rhs_dilation, numbers, precision
    )
    _, out_feature, *places = numbers.out_spec
    pairs = sorted(zip(places, numbers.rhs_spec[2:], strict=True))
    batch = tuple(p for p, _ in pairs), tuple(k for _, k in pairs)
    out = dot_general(patches, w, (((out_feature,), (numbers.rhs_spec[1],)), batch), precision)
    return lnp.moveaxis(out, (-2, -1), numbers.out_spec[:2])


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """The result of the function for the platform ("cpu"), else of `default`. NotImplementedError without either."""
    f = per_platform.get("cpu", default)
    if f is None:
        raise NotImplementedError(
            f"there is no function for 'cpu', only for {', '.join(per_platform) or 'none'}"
        )
    return f(*args)
