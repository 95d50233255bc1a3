"""Products whose rows come in groups of sizes that are data: ragged_dot, ragged_dot_general."""

from __future__ import annotations

from typing import Any, NamedTuple

from lamina._core import Tensor
from lamina.lax._base import describe, to_tensor
from lamina.lax._linear import dot_general


class RaggedDotDimensionNumbers(NamedTuple):
    """The dimensions of a ragged product.

    `dot_dimension_numbers` are those of `dot_general`; one of the dimensions of `lhs` is in groups, and where that is
    neither summed over nor a batch, one of `rhs` counts them.
    """

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Any
    rhs_group_dimensions: Any


class _Dims:
    """Dimension numbers, checked for arrays of these shapes. TypeError for what does not fit."""

    def __init__(self, lhs: Tensor, rhs: Tensor, numbers: RaggedDotDimensionNumbers) -> None:
        dots, ragged, groups = numbers
        (lc, rc), (lb, rb) = dots
        self.contracting = tuple(lc), tuple(rc)
        self.batch = tuple(lb), tuple(rb)
        if len(ragged) != 1:
            raise TypeError(
                f"ragged_dot_general expects exactly one lhs ragged dimension, not {tuple(ragged)}"
            )
        self.ragged = ragged[0]
        for side, of, dims in (
            ("lhs ragged", lhs, (self.ragged,)),
            ("rhs group", rhs, groups),
            ("lhs contracting", lhs, lc),
            ("rhs contracting", rhs, rc),
            ("lhs batch", lhs, lb),
            ("rhs batch", rhs, rb),
        ):
            if not all(0 <= d < of.ndim for d in dims):
                raise TypeError(
                    f"ragged_dot_general requires {side} dimension numbers to be nonnegative and less than the number "
                    f"of axes of the {side[:3]} value {describe(of)}, not {tuple(dims)}"
                )
        if set(groups) & {*rc, *rb}:
            raise TypeError(
                "ragged_dot_general requires rhs group dimension numbers to be distinct from contracting and batch "
                f"dimensions, not {tuple(groups)} beside {(*rc, *rb)}"
            )
        free = [d for d in range(lhs.ndim) if d not in lc and d not in lb]
        if self.ragged in free:
            if len(groups) != 1:
                raise TypeError(
                    "ragged_dot_general requires exactly one rhs group dimension when lhs ragged dimension is "
                    f"noncontracting, not {tuple(groups)}"
                )
            self.outer = (*lb, *free[: free.index(self.ragged)])
        else:
            if groups:
                raise TypeError(
                    "ragged_dot_general requires zero group dimensions in the rhs when lhs ragged dimension is "
                    f"contracting or batch, not {tuple(groups)}"
                )
            inner = lb if self.ragged in lb else lc
            before = tuple(inner[: list(inner).index(self.ragged)])
            self.outer = before if self.ragged in lb else (*lb, *before)
        self.group = groups[0] if groups else None


def ragged_dot_general(
    lhs: Any,
    rhs: Any,
    group_sizes: Any,
    ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: Any = None,
    preferred_element_type: Any = None,
    group_offset: None = None,
) -> Tensor:
    """Products like `dot_general`, of which one dimension of `lhs` stands in groups one behind the other.

    `group_sizes` [..., g] says how long the groups are, along the dimensions of `lhs` before the ragged one (batch
    dimensions, and those of its kind), or for all of these alike in the shape [g].

    - The ragged dimension is neither summed over nor a batch: each of its rows is multiplied with the part of `rhs` of
      its group, and rows behind the last group give 0. The result is that of `dot_general` without `rhs`'s group
      dimension.
    - It is summed over: the sums are over each group, and the result has the groups in front.
    - It is a batch dimension: `dot_general`.

    TypeError for dimensions and shapes that do not fit, or sizes that are no integers.
    """
    from lamina import numpy as lnp

    if group_offset is not None:
        raise NotImplementedError("ragged_dot: group_offset is not supported; slice rhs and group_sizes")
    a, b, sizes = to_tensor(lhs), to_tensor(rhs), to_tensor(group_sizes)
    d = _Dims(a, b, ragged_dot_dimension_numbers)
    if sizes.dtype.kind not in "iu":
        raise TypeError(
            f"ragged_dot_general requires that group_sizes are integers, not {describe(sizes)}: convert them with astype"
        )
    if sizes.ndim == 0:
        raise TypeError("expected group_sizes to have rank of at least 1, got a number")
    count = sizes.shape[-1]
    wanted = (*(a.shape[o] for o in d.outer), count)
    if sizes.ndim > 1 and sizes.shape != wanted:
        raise TypeError(f"expected group_sizes to have shape {wanted}, got {sizes.shape}")
    if d.group is not None and b.shape[d.group] != count:
        raise TypeError(f"expected rhs group dimension size to be {count}, got {b.shape[d.group]}")
    (lc, rc), lb = d.contracting, d.batch[0]
    if d.ragged in lb:
        return dot_general(a, b, (d.contracting, d.batch), precision, preferred_element_type)
    spread = _spread(a, sizes, d)
    if d.group is None:  # sums over each group, which stands behind the free dimensions of lhs
        out = dot_general(spread, b, (d.contracting, d.batch), precision, preferred_element_type)
        return lnp.moveaxis(out, a.ndim - len(lc), 0)
    numbers = (((*lc, a.ndim), (*rc, d.group)), d.batch)
    return dot_general(spread, b, numbers, precision, preferred_element_type)


def _spread(a: Tensor, sizes: Tensor, d: _Dims) -> Tensor:
    """`a` with the groups as a last dimension: each row stands at its own, beside zeros."""
    from lamina import numpy as lnp

    sizes = lnp.broadcast_to(sizes, (*(a.shape[o] for o in d.outer), sizes.shape[-1]))
    ends = lnp.cumsum(sizes, axis=-1)
    row = lnp.arange(a.shape[d.ragged])[:, None]
    inside = (row >= (ends - sizes)[..., None, :]) & (row < ends[..., None, :])  # [outer..., ragged, g]
    placed = (*d.outer, d.ragged)
    order = sorted(range(len(placed)), key=placed.__getitem__)
    inside = lnp.transpose(inside, (*order, len(placed)))
    shape = [n if i in placed else 1 for i, n in enumerate(a.shape)]
    inside = lnp.reshape(inside, (*shape, sizes.shape[-1]))
    return lnp.where(inside, a[..., None], lnp.zeros((), a.dtype))


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
    a, b, sizes = to_tensor(lhs), to_tensor(rhs), to_tensor(group_sizes)
    if a.ndim != 2 or b.ndim != 3 or a.shape[1] != b.shape[1] or sizes.shape != b.shape[:1]:
        raise ValueError(
            f"ragged_dot needs [m, k], [groups, k, n] and [groups], not {describe(a)}, {describe(b)} and "
            f"{describe(sizes)}"
        )
    numbers = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
    return ragged_dot_general(a, b, sizes, numbers, precision, preferred_element_type, group_offset)
