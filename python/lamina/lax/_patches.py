"""Convolutions by patches, and products of groups of rows: conv_general_dilated_patches, conv_general_dilated_local,
ragged_dot; and platform_dependent.
"""

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


def ragged_dot(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: None = None,
) -> Tensor:
    """Rows of `lhs` [m, k] times the matrix of their group in `rhs` [groups, k, n]: [m, n].

    The first group_sizes[0] rows are the first group, and so on; rows behind the last group give 0. ValueError for
    shapes that do not fit, TypeError for sizes that are no integers.
    """
    from lamina import numpy as lnp

    if group_offset is not None:
        raise NotImplementedError("ragged_dot: group_offset is not supported; slice rhs and group_sizes")
    a, b, sizes = to_tensor(lhs), to_tensor(rhs), to_tensor(group_sizes)
    if a.ndim != 2 or b.ndim != 3 or a.shape[1] != b.shape[1] or sizes.shape != b.shape[:1]:
        raise ValueError(
            f"ragged_dot needs [m, k], [groups, k, n] and [groups], not {describe(a)}, {describe(b)} and "
            f"{describe(sizes)}"
        )
    if sizes.dtype.kind not in "iu":
        raise TypeError(f"ragged_dot: group_sizes are integers, not {describe(sizes)}")
    ends = lnp.cumsum(sizes)
    row = lnp.arange(a.shape[0])[:, None]
    inside = (row >= (ends - sizes)[None]) & (row < ends[None])
    # Each row stands in the columns of its group, beside zeros.
    spread = lnp.where(inside[:, :, None], a[:, None, :], lnp.zeros((), a.dtype))
    return dot_general(
        spread, b, (((1, 2), (0, 1)), ((), ())), precision, preferred_element_type=preferred_element_type
    )


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
