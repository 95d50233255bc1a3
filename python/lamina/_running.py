"""Running sums, products and extremes along an axis, as one scan.

The body joins two elements and nothing else, so the scan runs as one plain loop over the array, in the order of the
elements: n operations, with NumPy's rounding.
"""

from __future__ import annotations

from lamina import _core
from lamina._core import Tensor


def running(name: str, x: Tensor, start: Tensor, axis: int, reverse: bool = False) -> Tensor:
    """Each element of x joined by the elementwise op `name` with `start` and all before it along `axis`.

    `start`, a scalar of x's dtype, is neutral: ``running("add", x, zero, 0)`` is a cumulative sum. With `reverse`
    all after it. ValueError from the op if it does not take x's dtype.
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
    totals = _core.op(
        "scan",
        [_core.set_weak(first, False), _core.set_weak(moved, False)],
        body=_core.region(join, [spec, spec]),
        num_carry=1,
        length=x.shape[axis],
        reverse=reverse,
    )[1]
    totals = _core.op("transpose", [totals], permutation=back)[0] if axis else totals
    return _core.set_weak(totals, x.weak_type)
