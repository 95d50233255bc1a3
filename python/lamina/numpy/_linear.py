"""Products of arrays: matmul, dot, einsum and the like, all through dot_general."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from lamina import _core, dtypes
from lamina._core import Tensor
from lamina._indexing import broadcast, getitem, reshape
from lamina._tensor import as_type, astype, is_several, to_tensor
from lamina.numpy._common import (
    as_operands,
    broadcast_shapes,
    canonical_axis,
    compare,
    ew,
    op,
    promote,
    promote_inexact,
)
from lamina.numpy._elementwise import conj, multiply
from lamina.numpy._reductions import sum as sum_
from lamina.numpy._shape import (
    concatenate,
    diagonal,
    expand_dims,
    flip,
    moveaxis,
    ravel,
    stack,
    transpose,
    trim_zeros,
)


def dot_general(
    a: Tensor,
    b: Tensor,
    contract: tuple[Sequence[int], Sequence[int]],
    batch: tuple[Sequence[int], Sequence[int]] = ((), ()),
    preferred: Any = None,
    precision: Any = None,
) -> Tensor:
    """The sum over paired dimensions; result: batch, the others of a, the others of b. Promotes.

    `preferred` is the element type of the result, and of the sums if it is not the narrower; `precision` that of
    `lamina.lax.dot_general`.
    """
    a, b = in_preferred(*promote(a, b), preferred)
    a, b = _core.set_weak(a, False), _core.set_weak(b, False)
    boolean = a.dtype.kind == "b"
    if boolean:
        a, b = astype(a, "int32"), astype(b, "int32")
    out = op(
        "dot_general",
        [a, b],
        lhs_batching_dimensions=list(batch[0]),
        rhs_batching_dimensions=list(batch[1]),
        lhs_contracting_dimensions=list(contract[0]),
        rhs_contracting_dimensions=list(contract[1]),
        **_asked(precision, a, b),
    )
    return as_preferred(compare(out, 0, "NE") if boolean else out, preferred)


def _asked(precision: Any, a: Tensor, b: Tensor) -> dict[str, str]:
    """The attribute of a product that says its precision; none without one."""
    if precision is None:
        return {}
    from lamina.lax._precision import written

    return {"precision": written(precision, a.dtype, b.dtype)}


_HELD = {
    "b": "biufc",
    "i": "iufc",
    "u": "iufc",
    "f": "fc",
    "c": "c",
}  # kinds of numbers by the kinds that hold them


def in_preferred(a: Tensor, b: Tensor, preferred: Any) -> tuple[Tensor, Tensor]:
    """Operands of a product whose sums are wanted in a type (None: their own): in it, unless it is the narrower.

    TypeError for a real type of complex operands.
    """
    if preferred is None:
        return a, b
    new, own = dtypes.canonical(preferred), a.dtype
    if own.kind == "c" and new.kind != "c":
        raise TypeError(
            f"preferred_element_type {new.name} would drop the imaginary parts of {own.name}; take `.real`"
        )
    if new.kind not in _HELD[own.kind] or new.itemsize < own.itemsize:
        return a, b
    return as_type(a, new.name), as_type(b, new.name)


def as_preferred(out: Tensor, preferred: Any) -> Tensor:
    """A product in the type that was asked for."""
    return out if preferred is None else astype(out, preferred)


def matmul(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Tensor:
    """The matrix product of the last two dimensions, the others broadcast; 1-d operands are a row and a
    column.

    The result, and the sums if that is not narrower, are of `preferred_element_type`. `precision` is what compilers
    that the program is exported to may do (see `lamina.lax.dot_general`): products here are always full. So in all
    functions of this module. ValueError for 0-d operands or sizes that do not fit.
    """
    x, y = map(to_tensor, as_operands(a, b))
    if x.ndim == 0 or y.ndim == 0:
        raise ValueError(
            f"matmul needs at least one dimension, not shapes {x.shape} and {y.shape}; use multiply"
        )
    inner = y.ndim - 2 if y.ndim > 1 else 0
    if x.shape[-1] != y.shape[inner]:
        raise ValueError(
            f"matmul: the last dimension of {x.shape} has size {x.shape[-1]}, but dimension {inner} "
            f"of {y.shape} has size {y.shape[inner]}"
        )
    if y.ndim <= 2:
        return dot_general(x, y, ([x.ndim - 1], [inner]), ((), ()), preferred_element_type, precision)
    if x.ndim == 1:
        return dot_general(x, y, ([0], [inner]), ((), ()), preferred_element_type, precision)
    lead = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x, y = broadcast(x, (*lead, *x.shape[-2:])), broadcast(y, (*lead, *y.shape[-2:]))
    n = len(lead)
    return dot_general(x, y, ([n + 1], [n]), (range(n), range(n)), preferred_element_type, precision)


def dot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Tensor:
    """The sum over the last dimension of a and the last but one of b; the product where either is 0-d."""
    x, y = map(to_tensor, as_operands(a, b))
    if x.ndim == 0 or y.ndim == 0:
        product = multiply(*in_preferred(*promote(x, y), preferred_element_type))
        return as_preferred(product, preferred_element_type)
    inner = y.ndim - 2 if y.ndim > 1 else 0
    if x.shape[-1] != y.shape[inner]:
        raise ValueError(
            f"dot: shapes {x.shape} and {y.shape} do not fit: {x.shape[-1]} and {y.shape[inner]} differ"
        )
    return dot_general(x, y, ([x.ndim - 1], [inner]), ((), ()), preferred_element_type, precision)


def vdot(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Tensor:
    """The sum of conj(a) * b over the flattened arrays."""
    x, y = as_operands(a, b)
    return dot(ravel(conj(x)), ravel(y), precision=precision, preferred_element_type=preferred_element_type)


def inner(a: Any, b: Any, *, precision: Any = None, preferred_element_type: Any = None) -> Tensor:
    """The sum over the last dimensions of both."""
    x, y = map(to_tensor, as_operands(a, b))
    if x.ndim == 0 or y.ndim == 0:
        product = multiply(*in_preferred(*promote(x, y), preferred_element_type))
        return as_preferred(product, preferred_element_type)
    if x.shape[-1] != y.shape[-1]:
        raise ValueError(f"inner: the last dimensions of {x.shape} and {y.shape} differ")
    return dot_general(x, y, ([x.ndim - 1], [y.ndim - 1]), ((), ()), preferred_element_type, precision)


def outer(a: Any, b: Any, out: Any = None) -> Tensor:
    """All products of the elements of two flattened arrays."""
    x, y = map(ravel, as_operands(a, b))
    return multiply(reshape(x, (x.size, 1)), reshape(y, (1, y.size)))


def vecdot(
    x1: Any, x2: Any, axis: int = -1, *, precision: Any = None, preferred_element_type: Any = None
) -> Tensor:
    """The sum of conj(x1) * x2 along one axis, the others broadcast."""
    a, b = promote(x1, x2)
    return _vector_dot(moveaxis(conj(a), axis, -1), moveaxis(b, axis, -1), preferred_element_type, precision)


def _vector_dot(a: Tensor, b: Tensor, preferred: Any = None, precision: Any = None) -> Tensor:
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"vecdot: vectors of {a.shape[-1]} and {b.shape[-1]} elements")
    shape = broadcast_shapes(a.shape, b.shape)
    n = len(shape) - 1
    a, b = broadcast(a, shape), broadcast(b, shape)
    return dot_general(a, b, ([n], [n]), (range(n), range(n)), preferred, precision)


def matvec(x1: Any, x2: Any) -> Tensor:
    """Matrices times vectors, leading dimensions broadcast."""
    x1, x2 = as_operands(x1, x2)
    r = matmul(x1, expand_dims(x2, -1))
    return reshape(r, r.shape[:-1])


def vecmat(x1: Any, x2: Any) -> Tensor:
    """Conjugated vectors times matrices, leading dimensions broadcast."""
    x1, x2 = as_operands(x1, x2)
    r = matmul(expand_dims(conj(x1), -2), x2)
    return reshape(r, (*r.shape[:-2], r.shape[-1]))


def tensordot(
    a: Any, b: Any, axes: Any = 2, *, precision: Any = None, preferred_element_type: Any = None
) -> Tensor:
    """The sum over the last `axes` dimensions of a and first of b, or over two lists of dimensions."""
    x, y = map(to_tensor, as_operands(a, b))
    if len(axes) != 2 if is_several(axes) else not hasattr(axes, "__index__"):
        raise TypeError(f"tensordot: axes is an integer or a pair of integers or lists, not {axes!r}")
    if not is_several(axes):
        axes = operator.index(axes)
        if axes < 0 or axes > min(x.ndim, y.ndim):
            raise ValueError(
                f"tensordot: {axes} axes cannot be summed over for shapes {x.shape} and {y.shape}"
            )
        left, right = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        if not all(is_several(s) or hasattr(s, "__index__") for s in axes):
            raise TypeError(f"tensordot: each of the two axes is an integer or a list of them, not {axes!r}")
        left, right = (list(s) if is_several(s) else [s] for s in axes)
        if len(left) != len(right):
            raise ValueError(f"tensordot: {len(left)} axes of a and {len(right)} of b are no pairs")
        left, right = [canonical_axis(d, x.ndim) for d in left], [canonical_axis(d, y.ndim) for d in right]
    if any(x.shape[i] != y.shape[j] for i, j in zip(left, right)):
        raise ValueError(f"tensordot: axes {left} of shape {x.shape} and {right} of {y.shape} do not fit")
    return dot_general(x, y, (left, right), ((), ()), preferred_element_type, precision)


def kron(a: Any, b: Any) -> Tensor:
    """The Kronecker product."""
    x, y = map(to_tensor, as_operands(a, b))
    n = max(x.ndim, y.ndim)
    xs, ys = (1,) * (n - x.ndim) + x.shape, (1,) * (n - y.ndim) + y.shape
    product = multiply(
        reshape(x, [v for s in xs for v in (s, 1)]), reshape(y, [v for s in ys for v in (1, s)])
    )
    return reshape(product, [p * q for p, q in zip(xs, ys, strict=False)])


def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Tensor:
    """The sum of a diagonal."""
    return sum_(diagonal(a, offset, axis1, axis2), -1, dtype)


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Tensor:
    """The cross product of vectors of 3 (or 2) elements along an axis."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = promote(a, b)
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ValueError(f"cross needs vectors of 2 or 3 elements, not {x.shape[-1]} and {y.shape[-1]}")
    part = lambda t, i: getitem(t, (Ellipsis, i)) if i < t.shape[-1] else None  # noqa: E731
    x0, x1, x2 = (part(x, i) for i in range(3))
    y0, y1, y2 = (part(y, i) for i in range(3))
    last = x0 * y1 - x1 * y0
    if x2 is None and y2 is None:
        return last
    first = (x1 * y2 if y2 is not None else 0) - (x2 * y1 if x2 is not None else 0)
    second = (x2 * y0 if x2 is not None else 0) - (x0 * y2 if y2 is not None else 0)
    return moveaxis(
        stack([broadcast(to_tensor(v), last.shape) for v in (first, second, last)], -1), -1, axisc
    )


# --- einsum ---


def einsum(
    subscripts: Any,
    *operands: Any,
    optimize: Any = True,
    out: Any = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Tensor:
    """Einstein summation: ``einsum("ij,jk->ik", a, b)``, with ``...`` for broadcast dimensions.

    Operands are contracted in pairs, at each step the pair with the smallest result. ValueError for
    subscripts that
    do not fit the shapes.
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _interleaved(subscripts, operands)
    terms, result, ts = _parse(subscripts, [to_tensor(x) for x in as_operands(*operands)])
    ts = promote(*ts)
    ts = [in_preferred(t, t, preferred_element_type)[0] for t in ts]
    sizes: dict[str, int] = {}
    for term, t in zip(terms, ts, strict=False):
        for label, n in zip(term, t.shape, strict=False):
            if sizes.get(label, 1) == 1:
                sizes[label] = n
            elif n not in (1, sizes[label]):
                raise ValueError(f"einsum {subscripts!r}: index {label!r} has sizes {sizes[label]} and {n}")
    parts = [_prepare(term, t, sizes) for term, t in zip(terms, ts, strict=False)]
    while len(parts) > 1:
        i, j = _next_pair(parts, result, sizes)
        (left, a), (right, b) = parts[i], parts[j]
        rest = [p for k, p in enumerate(parts) if k not in (i, j)]
        wanted = set(result).union(*[set(labels) for labels, _ in rest])
        rest.append(_contract(left, a, right, b, wanted, precision))
        parts = rest
    labels, t = _summed(*parts[0], set(result))
    missing = [c for c in result if c not in labels]
    if missing:
        raise ValueError(f"einsum {subscripts!r}: index {missing[0]!r} of the result is in no operand")
    t = transpose(t, [labels.index(c) for c in result])
    return as_preferred(broadcast(t, [sizes[c] for c in result]), preferred_element_type)


def einsum_path(subscripts: Any, *operands: Any, optimize: Any = "auto") -> tuple[list[Any], str]:
    """The order of products that NumPy would take for an einsum, and a table of what it costs, as np.einsum_path.

    `einsum` takes the path as `optimize`, and takes its own, which is found in the same way.
    """
    import numpy as np

    if not isinstance(subscripts, str):
        subscripts, operands = _interleaved(subscripts, operands)
    shapes = [np.broadcast_to(np.float32(0), to_tensor(x).shape) for x in operands]
    modes = {"auto": "greedy", "eager": "greedy", "opportunistic": "greedy", "dp": "optimal"}
    order = modes.get(optimize, optimize) if isinstance(optimize, str) else optimize
    return np.einsum_path(subscripts, *shapes, optimize=order)


def einsum_rearranges(subscripts: Any, operands: Sequence[Any]) -> tuple[Any]:
    """The operand of an einsum that only rearranges its elements, in a tuple of one; None if there is none."""
    if not isinstance(subscripts, str):
        subscripts, operands = _interleaved(subscripts, operands)
    if len(operands) != 1 or not isinstance(operands[0], Tensor):
        return (None,)
    (term,), result, _ = _parse(subscripts, [operands[0]])
    return (operands[0] if set(term) == set(result) else None,)


def _interleaved(first: Any, rest: Sequence[Any]) -> tuple[str, list[Any]]:
    """einsum(a, [0, 1], b, [1, 2], [0, 2]) as subscripts."""
    items = [first, *rest]
    operands, lists = items[0 : len(items) - len(items) % 2 : 2], items[1::2]
    name = lambda s: "".join("..." if i is Ellipsis else chr(97 + i) if i < 26 else chr(39 + i) for i in s)  # noqa: E731
    text = ",".join(name(s) for s in lists)
    return (text + "->" + name(items[-1]) if len(items) % 2 else text), operands


def _parse(subscripts: str, ts: list[Tensor]) -> tuple[list[str], str, list[Tensor]]:
    """One label per dimension for each operand and the result; broadcast dimensions get their own."""
    text = subscripts.replace(" ", "")
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    if len(terms) != len(ts):
        raise ValueError(f"einsum {subscripts!r} names {len(terms)} operands, but {len(ts)} were given")
    for part in [*terms, right]:
        letters = part.replace("...", "", 1)
        if not all(c.isascii() and c.isalnum() for c in letters):
            raise ValueError(
                f"einsum {subscripts!r}: indices are letters and digits, with at most one ... per operand"
            )
    wide = 0
    for term, t in zip(terms, ts, strict=False):
        named = len(term.replace("...", ""))
        if named > t.ndim or ("..." not in term and named != t.ndim):
            raise ValueError(
                f"einsum {subscripts!r}: {term!r} names {named} dimensions of an operand of shape {t.shape}"
            )
        if "..." in term:
            wide = max(wide, t.ndim - named)
    dots = "".join(chr(0x100 + i) for i in range(wide))
    full = []
    for term, t in zip(terms, ts, strict=True):
        covered = t.ndim - len(term.replace("...", ""))
        full.append(term.replace("...", dots[wide - covered :]))
    if not arrow:
        once = sorted(c for c in set("".join(full)) - set(dots) if "".join(full).count(c) == 1)
        return full, dots + "".join(once), ts
    result = right.replace("...", dots)
    if len(set(result)) != len(result):
        raise ValueError(f"einsum {subscripts!r}: an index is repeated in the result")
    for c in result:
        if not any(c in term for term in full):
            raise ValueError(f"einsum {subscripts!r}: index {c!r} of the result is in no operand")
    return full, result, ts


def _prepare(term: str, t: Tensor, sizes: dict[str, int]) -> tuple[str, Tensor]:
    """Repeated indices as diagonals; dimensions of size 1 that others have larger left out."""
    keep = [d for d, c in enumerate(term) if t.shape[d] != 1 or sizes[c] == 1]
    t, term = reshape(t, [t.shape[d] for d in keep]), "".join(term[d] for d in keep)
    for c in dict.fromkeys(term):
        while term.count(c) > 1:
            i = term.index(c)
            j = term.index(c, i + 1)
            t = diagonal(t, 0, i, j)
            term = term[:i] + term[i + 1 : j] + term[j + 1 :] + c
    return term, t


def _summed(labels: str, t: Tensor, wanted: set[str]) -> tuple[str, Tensor]:
    gone = [d for d, c in enumerate(labels) if c not in wanted]
    if not gone:
        return labels, t
    return "".join(c for c in labels if c in wanted), sum_(t, tuple(gone), dtype=t.dtype)


def _next_pair(parts: list[tuple[str, Tensor]], result: str, sizes: dict[str, int]) -> tuple[int, int]:
    best, pair = math.inf, (0, 1)
    for i in range(len(parts)):
        for j in range(i + 1, len(parts)):
            others = set(result).union(*[set(p[0]) for k, p in enumerate(parts) if k not in (i, j)])
            cost = math.prod(sizes[c] for c in (set(parts[i][0]) | set(parts[j][0])) & others)
            if cost < best:
                best, pair = cost, (i, j)
    return pair


def _contract(
    left: str, a: Tensor, right: str, b: Tensor, wanted: set[str], precision: Any
) -> tuple[str, Tensor]:
    left, a = _summed(left, a, wanted | set(right))
    right, b = _summed(right, b, wanted | set(left))
    batch = [c for c in left if c in right and c in wanted]
    gone = [c for c in left if c in right and c not in wanted]
    labels = "".join([*batch, *(c for c in left if c not in right), *(c for c in right if c not in left)])
    if not gone:
        # No sum: a product of broadcast arrays.
        def spread(own: str, t: Tensor) -> Tensor:
            t = transpose(t, [own.index(c) for c in labels if c in own])
            rest = iter(t.shape)
            return reshape(t, [next(rest) if c in own else 1 for c in labels])

        return labels, multiply(spread(left, a), spread(right, b))
    at = lambda names, own: [own.index(c) for c in names]  # noqa: E731
    dims = (at(gone, left), at(gone, right)), (at(batch, left), at(batch, right))
    return labels, dot_general(a, b, *dims, precision=precision)


# --- sequences ---


def convolve(
    a: Any, v: Any, mode: str = "full", *, precision: Any = None, preferred_element_type: Any = None
) -> Tensor:
    """The convolution of two 1-d arrays; mode full, same or valid."""
    return _convolve(a, v, mode, True, preferred_element_type, precision)


def correlate(
    a: Any, v: Any, mode: str = "valid", *, precision: Any = None, preferred_element_type: Any = None
) -> Tensor:
    """The correlation of two 1-d arrays (the second conjugated); mode valid, same or full."""
    a, v = as_operands(a, v)
    return _convolve(a, conj(v), mode, False, preferred_element_type, precision)


def _convolve(a: Any, v: Any, mode: str, turn: bool, preferred: Any, precision: Any) -> Tensor:
    x, y = promote_inexact(a, v) if preferred is None else in_preferred(*promote(a, v), preferred)
    if x.ndim != 1 or y.ndim != 1 or 0 in (x.size, y.size):
        raise ValueError(f"needs two 1-d arrays with elements, not shapes {x.shape} and {y.shape}")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"mode must be 'full', 'same' or 'valid', not {mode!r}")
    x, y = _core.set_weak(x, False), _core.set_weak(y, False)
    swapped = x.size < y.size
    if turn:
        long, short = (y, x) if swapped else (x, y)
        kernel = flip(short)
    else:
        long, kernel = (y, x) if swapped else (x, y)
    n, k = long.size, kernel.size
    low, high = {"full": (k - 1, k - 1), "same": (k // 2, k - 1 - k // 2), "valid": (0, 0)}[mode]
    out = op(
        "convolution",
        [reshape(long, (1, 1, n)), reshape(kernel, (1, 1, k))],
        padding=[low, high],
        input_batch_dimension=0,
        input_feature_dimension=1,
        input_spatial_dimensions=[2],
        kernel_output_feature_dimension=0,
        kernel_input_feature_dimension=1,
        kernel_spatial_dimensions=[2],
        output_batch_dimension=0,
        output_feature_dimension=1,
        output_spatial_dimensions=[2],
        feature_group_count=1,
        batch_group_count=1,
        **_asked(precision, x, y),
    )
    out = as_preferred(reshape(out, (out.size,)), preferred)
    return flip(out) if swapped and not turn else out


def polyval(p: Any, x: Any, *, unroll: int = 16) -> Tensor:
    """The polynomial with coefficients along the first dimension of p, highest power first, at x (broadcast).

    `unroll` has no effect: all steps are one program.
    """
    c, t = promote(p, x)
    if c.ndim == 0:
        raise ValueError("polyval needs coefficients of at least one dimension, not a number")
    out = broadcast(to_tensor(0).astype(c.dtype), broadcast_shapes(c.shape[1:], t.shape))
    for i in range(c.shape[0]):
        out = out * t + getitem(c, i)
    return out


def polyadd(a1: Any, a2: Any) -> Tensor:
    """The sum of two polynomials, highest power first."""
    a, b = (ravel(t) if t.ndim == 0 else t for t in promote(a1, a2))
    n = max(a.size, b.size)
    grow = lambda t: concatenate([broadcast(to_tensor(0).astype(t.dtype), (n - t.size,)), t])  # noqa: E731
    return ew("add", grow(a), grow(b))


def polymul(a1: Any, a2: Any, *, trim_leading_zeros: bool = False) -> Tensor:
    """The product of two polynomials, highest power first; with `trim_leading_zeros` of known ones without those."""
    if trim_leading_zeros:
        a1, a2 = (trim_zeros(a, "f") if getattr(a, "size", 2) > 1 else a for a in promote(a1, a2))
    return convolve(a1, a2)


def polyder(p: Any, m: int = 1) -> Tensor:
    """The m-th derivative of a polynomial, highest power first, in floats."""
    (t,), m = promote_inexact(p), operator.index(m)
    if m < 0:
        raise ValueError(f"polyder needs an order that is not negative, not {m}: polyint integrates")
    for _ in range(min(m, t.size)):
        n = t.size
        powers = to_tensor(list(range(n - 1, 0, -1))) if n > 1 else None
        t = (
            multiply(getitem(t, slice(0, n - 1)), powers.astype(t.dtype))
            if n > 1
            else getitem(t, slice(0, 0))
        )
    return t


__all__ = [
    "convolve",
    "correlate",
    "cross",
    "dot",
    "einsum",
    "einsum_path",
    "inner",
    "kron",
    "matmul",
    "matvec",
    "outer",
    "polyadd",
    "polyder",
    "polymul",
    "polyval",
    "tensordot",
    "trace",
    "vdot",
    "vecdot",
    "vecmat",
]
