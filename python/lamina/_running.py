"""Running sums, products and extremes along an axis.

A scan whose body joins two elements and nothing else, so that it runs as one plain loop over the array, in the order of
the elements and with NumPy's rounding. Sums of many elements are an op of their own, made side by side: no more than
5 log16(n) roundings lie between an element and a sum of n.
"""

from __future__ import annotations

from lamina import _core, dtypes
from lamina._core import Tensor
from lamina._indexing import scalar


def running_sum(x: Tensor, axis: int, reverse: bool = False) -> Tensor:
    """The sums of the elements of x up to each along `axis`, with `reverse` from each on, in x's dtype.

    Those of float16 and the like are rounded once. ValueError from the op if x has no numbers.
    """
    terms = _core.op("convert", [x], dtype="float32")[0] if dtypes.sums_in_float32(x.dtype.name) else x
    if x.shape[axis] > _core.SUMS_IN_TURN:
        sums = _core.op("cumsum", [_core.set_weak(terms, False)], dimension=axis, reverse=reverse)[0]
    else:
        # -0 + x is x, of either zero too.
        zero = scalar(-0.0 if terms.dtype.kind in "fc" else 0, terms.dtype.name)
        sums = running("add", terms, zero, axis, reverse)
    if terms is not x:
        sums = _core.op("convert", [sums], dtype=x.dtype.name)[0]
    return _core.set_weak(sums, x.weak_type)


def running(name: str, x: Tensor, start: Tensor, axis: int, reverse: bool = False) -> Tensor:
    """Each element of x joined by the elementwise op `name` with `start` and all before it along `axis`.

    `start`, a scalar of x's dtype, is neutral: ``running("multiply", x, one, 0)`` is a cumulative product. With
    `reverse` all after it. ValueError from the op if it does not take x's dtype.
    """
    order = [axis, *(d for d in range(x.ndim) if d != axis)]
    back = [order.index(d) for d in range(x.ndim)]
    moved = _core.op("transpose", [x], permutation=order)[0] if axis else x
    shape = list(moved.shape[1:])

    def join(p: list[Tensor]) -> list[Tensor]:
        total = _core.elementwise(name, p[0], p[1])
        return [total, total]

    spec = (x.dtype.name, shape, False)
    first = _core.op("broadcast_in_dim", [start], shape=shape, broadcast_dimensions=[])[0] if shape else start
    steps = x.shape[axis]
    given = moved
    # One times inf + 2i is inf + nan i: products of complex numbers begin with the first of them.
    begun = name == "multiply" and x.dtype.kind == "c" and steps > 0
    if begun:
        steps -= 1
        one = _part(moved, steps, steps + 1) if reverse else _part(moved, 0, 1)
        given = _part(moved, 0, steps) if reverse else _part(moved, 1, steps + 1)
        first = _core.op("reshape", [one], shape=shape)[0]
    totals = _core.op(
        "scan",
        [_core.set_weak(first, False), _core.set_weak(given, False)],
        body=_core.region(join, [spec, spec]),
        num_carry=1,
        length=steps,
        reverse=reverse,
    )[1]
    if begun:
        totals = _core.op("concatenate", [totals, one] if reverse else [one, totals], dimension=0)[0]
    totals = _core.op("transpose", [totals], permutation=back)[0] if axis else totals
    return _core.set_weak(totals, x.weak_type)


def _part(x: Tensor, start: int, end: int) -> Tensor:
    """The elements from `start` to `end` of the first dimension."""
    rest = list(x.shape[1:])
    return _core.op(
        "slice",
        [x],
        start_indices=[start, *[0] * len(rest)],
        limit_indices=[end, *rest],
        strides=[1] * x.ndim,
    )[0]
