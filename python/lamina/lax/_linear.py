"""Products and convolutions."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

from lamina import _core
from lamina._core import Tensor
from lamina.lax._base import axes_of, describe, ints, op, to_tensor
from lamina.lax._elementwise import convert_element_type, mul
from lamina.lax._precision import written
from lamina.lax._shape import broadcast_in_dim
from lamina.lax._window import Padding, dilate, pads_of
from lamina.numpy._common import promote
from lamina.numpy._linear import as_preferred, in_preferred


class ConvDimensionNumbers(NamedTuple):
    """Places of (batch, feature, spatial...) in the input and output, (out, in, spatial...) in the kernel."""

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


class FftType(enum.Enum):
    """The kinds of `fft`."""

    FFT = "FFT"
    IFFT = "IFFT"
    RFFT = "RFFT"
    IRFFT = "IRFFT"


def fft(x: Any, fft_type: FftType | str, fft_lengths: int | Sequence[int]) -> Tensor:
    """The Fourier transform over the last 1 to 3 dimensions, of any lengths; over none, a complex array as it is.

    RFFT takes real arrays and gives the first n // 2 + 1 elements of the last dimension; IRFFT undoes it. IFFT and
    IRFFT are divided by the number of elements. Products with matrices of roots of unity up to 64 elements, split
    by factors (Cooley and Tukey 1965) or as a convolution (Bluestein 1970) above.
    """
    if not isinstance(fft_type, (str, FftType)):
        raise TypeError(f"a kind of transform is an FftType or its name, not {fft_type!r}")
    kind = fft_type if isinstance(fft_type, str) else fft_type.name
    t, lengths = to_tensor(x), ints(fft_lengths, "fft_lengths")
    if not lengths and kind.upper() in ("FFT", "IFFT") and t.dtype.kind == "c":
        return broadcast_in_dim(t, t.shape, range(t.ndim))
    return _core.fft([t], kind.upper(), lengths)[0]


def _same_types(what: str, lhs: Any, rhs: Any, preferred: Any, mixed: bool = False) -> tuple[Tensor, Tensor]:
    """Both operands in the preferred type, or one common type; floats of one byte, and if `mixed` all, may differ."""
    a, b = to_tensor(lhs), to_tensor(rhs)
    small = preferred is not None and all(t.dtype.kind == "f" and t.dtype.itemsize == 1 for t in (a, b))
    if a.dtype != b.dtype and not small:
        if not (mixed or a.weak_type or b.weak_type):
            raise TypeError(f"lax.{what} needs one element type, not {describe(a)} and {describe(b)}")
        a, b = promote(lhs, rhs)
    return in_preferred(a, b, preferred)


def dot_general(
    lhs: Any, rhs: Any, dimension_numbers: Any, precision: Any = None, preferred_element_type: Any = None
) -> Tensor:
    """Products summed over contracting dimensions, side by side over batch dimensions. Promotes.

    `dimension_numbers` is ((lhs contracting, rhs contracting), (lhs batch, rhs batch)). The result has the
    batch, the other left and the other right dimensions. The result is of `preferred_element_type`, and so are the sums
    unless it is narrower than the operands. `precision` is what compilers that the program is exported to may do
    (`lax.Precision`, `lax.DotAlgorithm`): products here are always full. ValueError for what is none.
    """
    a, b = _same_types("dot_general", lhs, rhs, preferred_element_type, mixed=True)
    (lc, rc), (lb, rb) = dimension_numbers
    boolean = a.dtype.kind == "b" and b.dtype.kind == "b"
    if boolean:  # whether any product is True
        a, b = convert_element_type(a, "int32"), convert_element_type(b, "int32")
    out = op(
        "dot_general",
        a,
        b,
        lhs_contracting_dimensions=axes_of(lc, a.ndim, "lhs contracting dimensions"),
        rhs_contracting_dimensions=axes_of(rc, b.ndim, "rhs contracting dimensions"),
        lhs_batching_dimensions=axes_of(lb, a.ndim, "lhs batch dimensions"),
        rhs_batching_dimensions=axes_of(rb, b.ndim, "rhs batch dimensions"),
        precision=written(precision, a.dtype, b.dtype),
    )
    return as_preferred(convert_element_type(out, "bool") if boolean else out, preferred_element_type)


def dot(
    lhs: Any,
    rhs: Any,
    precision: Any = None,
    preferred_element_type: Any = None,
    *,
    dimension_numbers: Any = None,
) -> Tensor:
    """Vector and matrix products: the last dimension of lhs with the first of rhs; else as `dot_general`."""
    if dimension_numbers is not None:
        return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)
    a, b = to_tensor(lhs), to_tensor(rhs)
    if not 1 <= a.ndim <= 2 or not 1 <= b.ndim <= 2 or a.shape[-1] != b.shape[0]:
        raise TypeError(f"lax.dot cannot multiply {describe(a)} and {describe(b)}")
    return dot_general(lhs, rhs, (((a.ndim - 1,), (0,)), ((), ())), precision, preferred_element_type)


def scaled_dot(
    lhs: Any,
    rhs: Any,
    *,
    lhs_scale: Any = None,
    rhs_scale: Any = None,
    dimension_numbers: Any = None,
    preferred_element_type: Any = None,
) -> Tensor:
    """`dot_general` of operands times their scales, in `preferred_element_type` (bfloat16 unless told).

    A scale has its operand's shape, but along contracting dimensions one element for a block of the operand's, all of
    one size. Dimensions are those of a product of matrices unless told, all before the last two side by side.
    """
    a, b = to_tensor(lhs), to_tensor(rhs)
    if dimension_numbers is None:
        if a.ndim < 2 or b.ndim != a.ndim:
            raise TypeError(
                f"lax.scaled_dot needs two arrays of one rank of at least 2, not {describe(a)} and {describe(b)}; or "
                "give dimension_numbers"
            )
        side_by_side = tuple(range(a.ndim - 2))
        dimension_numbers = (((a.ndim - 1,), (a.ndim - 2,)), (side_by_side, side_by_side))
    (lc, rc), _ = dimension_numbers
    dtype = "bfloat16" if preferred_element_type is None else preferred_element_type
    a, b = (_scaled(t, s, c, dtype) for t, s, c in ((a, lhs_scale, lc), (b, rhs_scale, rc)))
    return dot_general(a, b, dimension_numbers, None, dtype)


def _scaled(x: Tensor, scale: Any, contracting: Sequence[int], dtype: Any) -> Tensor:
    """x times its scale, repeated along contracting dimensions."""
    from lamina.numpy import repeat

    wide = convert_element_type(x, dtype)
    if scale is None:
        return wide
    s = to_tensor(scale)
    along = axes_of(contracting, x.ndim, "contracting dimensions")
    blocks = s.ndim == x.ndim and all(
        (m > 0 and n % m == 0) if axis in along else n == m
        for axis, (n, m) in enumerate(zip(x.shape, s.shape))
    )
    if not blocks:
        raise TypeError(
            f"lax.scaled_dot: a scale {describe(s)} does not fit {describe(x)}: it has its shape, or divides it along "
            f"the contracting dimensions {tuple(along)}"
        )
    s = convert_element_type(s, dtype)
    for axis in along:
        s = repeat(s, x.shape[axis] // s.shape[axis], axis)
    return mul(wide, s)


def batch_matmul(lhs: Any, rhs: Any, precision: Any = None) -> Tensor:
    """Matrix products over equal leading dimensions."""
    a, b = to_tensor(lhs), to_tensor(rhs)
    if a.ndim < 2 or a.ndim != b.ndim:
        raise TypeError(
            f"lax.batch_matmul needs two arrays of one rank of at least 2, not {describe(a)} "
            f"and {describe(b)}"
        )
    batch = tuple(range(a.ndim - 2))
    return dot_general(a, b, (((a.ndim - 1,), (b.ndim - 2,)), (batch, batch)), precision)


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Any
) -> ConvDimensionNumbers:
    """Places of the dimensions from strings such as ("NHWC", "HWIO", "NHWC"); None is NC.../OI.../NC...."""
    if isinstance(dimension_numbers, ConvDimensionNumbers):
        return dimension_numbers
    rank = len(lhs_shape)
    if len(rhs_shape) != rank:
        raise ValueError(
            f"a convolution of shapes {tuple(lhs_shape)} and {tuple(rhs_shape)} needs equal ranks"
        )
    if dimension_numbers is None:
        plain = tuple(range(rank))
        return ConvDimensionNumbers(plain, plain, plain)
    try:
        lhs, rhs, out = dimension_numbers
    except (TypeError, ValueError):
        raise TypeError(f"dimension_numbers must be three strings, not {dimension_numbers!r}") from None
    for text, letters in ((lhs, "NC"), (rhs, "OI"), (out, "NC")):
        if (
            not isinstance(text, str)
            or len(text) != rank
            or len(set(text)) != rank
            or not set(letters) <= set(text)
        ):
            raise ValueError(
                f"dimension_numbers {dimension_numbers!r}: {text!r} needs {rank} different letters, "
                f"among them {letters[0]} and {letters[1]}"
            )
    order = [c for c in rhs if c not in "OI"]
    if {*lhs} - {*"NC"} != {*order} or {*out} - {*"NC"} != {*order}:
        raise ValueError(f"dimension_numbers {dimension_numbers!r} name different spatial dimensions")

    def places(text: str, letters: str) -> tuple[int, ...]:
        return tuple(text.index(c) for c in [*letters, *order])

    return ConvDimensionNumbers(places(lhs, "NC"), places(rhs, "OI"), places(out, "NC"))


def _permuted(shape: Sequence[int], spec: Sequence[int]) -> list[int]:
    return [shape[i] for i in spec]


def conv_general_dilated(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Tensor:
    """Convolution (no flip of the kernel) over any number of spatial dimensions.

    `padding`: "SAME", "SAME_LOWER", "VALID" or (low, high) per spatial dimension. `dimension_numbers`: see
    `conv_dimension_numbers`. `lhs_dilation` spreads the input (transposed convolution), `rhs_dilation` the
    kernel.
    """
    x, w = _same_types("conv_general_dilated", lhs, rhs, preferred_element_type)
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    spatial = x.ndim - 2
    strides = ints(window_strides, "window_strides")
    base = [1] * spatial if lhs_dilation is None else ints(lhs_dilation, "lhs_dilation")
    hole = [1] * spatial if rhs_dilation is None else ints(rhs_dilation, "rhs_dilation")
    for what, v in (("window_strides", strides), ("lhs_dilation", base), ("rhs_dilation", hole)):
        if len(v) != spatial:
            raise ValueError(
                f"{what} {v} needs one entry for each of {spatial} spatial dimensions of {describe(x)}"
            )
    if isinstance(padding, str):
        size = [dilate(n, d) for n, d in zip(_permuted(x.shape, numbers.lhs_spec)[2:], base, strict=True)]
        window = [dilate(n, d) for n, d in zip(_permuted(w.shape, numbers.rhs_spec)[2:], hole, strict=True)]
        pads = pads_of(padding, size, window, strides)
    else:
        pads = pads_of(padding, [0] * spatial, [], [])
    (xb, xf, *xs), (wo, wi, *ws), (ob, of, *os) = numbers
    out = op(
        "convolution",
        x,
        w,
        window_strides=strides,
        padding=pads,
        lhs_dilation=base,
        rhs_dilation=hole,
        input_batch_dimension=xb,
        input_feature_dimension=xf,
        input_spatial_dimensions=xs,
        kernel_output_feature_dimension=wo,
        kernel_input_feature_dimension=wi,
        kernel_spatial_dimensions=ws,
        output_batch_dimension=ob,
        output_feature_dimension=of,
        output_spatial_dimensions=os,
        feature_group_count=feature_group_count,
        batch_group_count=batch_group_count,
        precision=written(precision, x.dtype, w.dtype),
    )
    return as_preferred(out, preferred_element_type)


def conv(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Padding,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Tensor:
    """Convolution of NC... with OI... ."""
    return conv_general_dilated(
        lhs, rhs, window_strides, padding, precision=precision, preferred_element_type=preferred_element_type
    )


def conv_with_general_padding(
    lhs: Any,
    rhs: Any,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Tensor:
    """Convolution of NC... with OI..., with padding and dilations."""
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def _transpose_pads(k: int, s: int, padding: str | Sequence[int]) -> tuple[int, int]:
    """Padding of the spread input that makes its result as large as the input of the forward convolution."""
    if not isinstance(padding, str):
        low, high = ints(padding, "padding")
        return k - 1 - low, k - 1 - high
    if padding.upper() == "SAME":
        total = k + s - 2
        low = k - 1 if s > k - 1 else -(-total // 2)
    elif padding.upper() == "VALID":
        total, low = k + s - 2 + max(k - s, 0), k - 1
    else:
        raise ValueError(f"padding {padding!r} is not SAME, VALID or (low, high) pairs")
    return low, total - low


def conv_transpose(
    lhs: Any,
    rhs: Any,
    strides: Sequence[int],
    padding: Padding,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Tensor:
    """Fractionally strided convolution.

    With `transpose_kernel` the transpose of the convolution with that kernel. A padding that is named is that of the
    forward convolution; pairs are that of the transposed one, or with `use_consistent_padding` of the forward one too.

    Dimension numbers are NHWC, HWIO, NHWC (and alike for other ranks) if not given.
    """
    from lamina.lax._shape import rev

    x, w = to_tensor(lhs), to_tensor(rhs)
    if dimension_numbers is None:
        letters = "DHW"[-(x.ndim - 2) :] if 1 <= x.ndim - 2 <= 3 else ""
        dimension_numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    numbers = conv_dimension_numbers(x.shape, w.shape, dimension_numbers)
    hole = [1] * (x.ndim - 2) if rhs_dilation is None else ints(rhs_dilation, "rhs_dilation")
    extents = [dilate(w.shape[d], h) for d, h in zip(numbers.rhs_spec[2:], hole, strict=True)]
    pads = padding
    if use_consistent_padding or isinstance(padding, str):
        given = [padding] * len(extents) if isinstance(padding, str) else padding
        pads = [_transpose_pads(k, s, p) for k, s, p in zip(extents, strides, given, strict=True)]
    if transpose_kernel:
        w = rev(w, numbers.rhs_spec[2:])
        o, i, *rest = numbers.rhs_spec
        numbers = ConvDimensionNumbers(numbers.lhs_spec, (i, o, *rest), numbers.out_spec)
    return conv_general_dilated(
        x,
        w,
        [1] * (x.ndim - 2),
        pads,
        strides,
        hole,
        numbers,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )
