"""NumPy's linear algebra on Tensors: batched, with derivatives, through vmap and jit.

Matrices are the last two dimensions. Arrays whose shapes do not fit raise LinAlgError (a ValueError). Values never
raise, for they may not be computed yet: as in jax.numpy, a singular matrix gives infinities or NaN and one that is
not positive definite NaN, where NumPy raises. What has a derivative and where: see lamina.lax.linalg.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from lamina import _core, _results
from lamina._core import Tensor
from lamina._indexing import broadcast, getitem, reshape
from lamina._tensor import describe, to_tensor
from lamina.lax import linalg as lax_linalg
from lamina.lax.linalg import LinAlgError, adjoint, transposed
from lamina.numpy import _linear, _reductions, _shape
from lamina.numpy._common import (
    canonical_axes,
    canonical_axis,
    default_int,
    inexact,
    items_of,
    promote,
    promote_inexact,
)
from lamina.numpy._creation import copy, eye
from lamina.numpy._dtypes import finfo
from lamina.numpy._elementwise import abs as abs_
from lamina.numpy._elementwise import imag, real, sqrt, where
from lamina.numpy._linear import matmul, outer, vecdot
from lamina.numpy._shape import matrix_transpose


class EigResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class EighResult(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    Q: Tensor
    R: Tensor


class SVDResult(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


class SlogdetResult(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


# --- factorizations ---


def cholesky(a: Any, *, upper: bool = False, symmetrize_input: bool = True) -> Tensor:
    """L with a = L L^H, lower triangular, or L^H if `upper`; `a` is made Hermitian first if asked for."""
    if upper and not symmetrize_input:
        a = adjoint(to_tensor(a))
    factor = lax_linalg.cholesky(a, symmetrize_input=symmetrize_input)
    return adjoint(factor) if upper else factor


def qr(a: Any, mode: str = "reduced") -> Any:
    """(Q, R) with a = Q R: orthonormal columns and an upper triangle.

    mode "reduced": k = min(m, n) columns; "complete": m columns (see lamina.lax.linalg.qr); "r": only R; "raw": (the
    transposed array of reflections with R, their scales), without derivative.
    """
    if mode == "raw":
        (x,), wanted = lax_linalg.matrices("qr", a)
        packed, scales = _core.matrix_routine("lamina.geqrf", [x])
        return lax_linalg.restored(transposed(packed), wanted), lax_linalg.restored(scales, wanted)
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"qr: mode is 'reduced', 'complete', 'r' or 'raw', not {mode!r}")
    q, r = lax_linalg.qr(a, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


def eigh(a: Any, UPLO: str | None = None, symmetrize_input: bool = True) -> EighResult:
    """(eigenvalues in ascending order, eigenvectors as columns) of Hermitian matrices.

    Without `symmetrize_input` the triangle UPLO ("L" or "U") is read.
    """
    v, w = lax_linalg.eigh(a, lower=_is_lower(UPLO), symmetrize_input=symmetrize_input)
    return EighResult(w, v)


def eigvalsh(a: Any, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Tensor:
    """The eigenvalues of Hermitian matrices in ascending order."""
    return lax_linalg.eigvalsh(a, lower=_is_lower(UPLO), symmetrize_input=symmetrize_input)


def _is_lower(uplo: str | None) -> bool:
    if uplo is not None and (not isinstance(uplo, str) or uplo.upper() not in ("L", "U")):
        raise ValueError(f"UPLO is 'L' or 'U', not {uplo!r}")
    return uplo is None or uplo.upper() == "L"


def eig(a: Any) -> EigResult:
    """(eigenvalues, right eigenvectors as columns), complex, of square matrices."""
    return EigResult(*lax_linalg.eig(a, compute_left_eigenvectors=False))


def eigvals(a: Any) -> Tensor:
    """The eigenvalues, complex, of square matrices."""
    return lax_linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """(U, S, Vh) with a = U S Vh, singular values in descending order, or only S.

    `hermitian` says that a is. `full_matrices` has no derivative for matrices that are not square.
    """
    if not hermitian:
        out = lax_linalg.svd(
            a, full_matrices=full_matrices, compute_uv=compute_uv, subset_by_index=subset_by_index
        )
        return SVDResult(*out) if compute_uv else out
    w, v = eigh(a)
    size = abs_(w)
    order = _sorted_down(size)
    s = _taken(size, order)
    part = slice(None) if subset_by_index is None else slice(*subset_by_index)
    if not compute_uv:
        return getitem(s, (Ellipsis, part))
    u = _taken(v, order)
    signs = _taken(where(w < 0, -1, 1).astype(s.dtype), order)
    vh = adjoint(u * getitem(signs, (Ellipsis, None, slice(None))).astype(u.dtype))
    return SVDResult(
        getitem(u, (Ellipsis, part)), getitem(s, (Ellipsis, part)), getitem(vh, (Ellipsis, part, slice(None)))
    )


def _sorted_down(x: Tensor) -> Tensor:
    from lamina.numpy._sorting import argsort

    return argsort(-x, axis=-1)


def _taken(x: Tensor, order: Tensor) -> Tensor:
    """Elements, or columns, in the order given along the last dimension."""
    from lamina.numpy._sorting import take_along_axis

    if x.ndim > order.ndim:
        order = broadcast(getitem(order, (Ellipsis, None, slice(None))), x.shape)
    return take_along_axis(x, order, -1)


def svdvals(x: Any, /) -> Tensor:
    """Singular values in descending order."""
    return svd(x, compute_uv=False)


# --- solutions ---


def solve(a: Any, b: Any) -> Tensor:
    """x with a x = b, for one vector b or batches of matrices b."""
    x, y = promote_inexact(a, b)
    if y.ndim == 1:
        if x.ndim >= 2 and x.shape[-1] != y.shape[0]:
            raise LinAlgError(f"solve: the sizes of {describe(x)} and {describe(y)} do not fit")
        out = lax_linalg.linear_solve(x, reshape(y, (y.shape[0], 1)))
        return reshape(out, out.shape[:-1])
    return lax_linalg.linear_solve(x, y)


def inv(a: Any) -> Tensor:
    """The inverse."""
    return lax_linalg.inverse(a)


def det(a: Any) -> Tensor:
    """The determinant."""
    return lax_linalg.determinant(a)


def slogdet(a: Any, *, method: str | None = None) -> SlogdetResult:
    """(sign, logarithm of the absolute value) of the determinant: the determinant is sign * exp(logabsdet).

    Both methods, "lu" and "qr", are the LU factorization.
    """
    if method not in (None, "lu", "qr"):
        raise ValueError(f"slogdet: the method is 'lu' or 'qr', not {method!r}")
    return SlogdetResult(*lax_linalg.log_determinant(a))


def _machine_epsilon(x: Tensor) -> float:
    return finfo(x.dtype).eps


def _cutoff(x: Tensor, rtol: Any) -> Any:
    return max(x.shape[-2:], default=0) * _machine_epsilon(x) if rtol is None else rtol


def pinv(a: Any, rtol: Any = None, hermitian: bool = False, *, rcond: Any = None) -> Tensor:
    """The Moore-Penrose inverse; singular values up to rtol times the largest one count as zero.

    The default of `rtol` is max(m, n) times the machine epsilon. The derivative is that at constant rank.
    """
    if rtol is not None and rcond is not None:
        raise ValueError("pinv: only one of rtol and rcond may be specified.")
    (x,), wanted = lax_linalg.matrices("pinv", a)
    limit = to_tensor(_cutoff(x, rcond if rtol is None else rtol))
    limit = limit.astype(real(x).dtype if x.dtype.kind == "c" else x.dtype)
    routine = "pinv_hermitian" if hermitian else "pinv"
    return lax_linalg.restored(_core.linalg(routine, [x, limit])[0], wanted)


def lstsq(
    a: Any, b: Any, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(x, squared residuals, rank, singular values): the shortest x for which |b - a x| is least.

    With `numpy_resid` (not inside jit) residuals are an empty array where a has not full column rank or no more rows
    than columns.
    """
    (x, *_), _ = lax_linalg.matrices("lstsq", a)
    x, y = promote_inexact(x, b)
    if x.ndim != 2 or y.ndim not in (1, 2) or y.shape[0] != x.shape[0]:
        raise LinAlgError(f"lstsq needs a matrix and as many rows of b, not {describe(x)} and {describe(y)}")
    m, n = x.shape
    right = reshape(y, (m, 1)) if y.ndim == 1 else y
    s = svd(x, compute_uv=False)
    cutoff = _cutoff(x, None if rcond is None or rcond < 0 else rcond)
    found = matmul(pinv(x, cutoff), right)
    rank = _reductions.sum(s > cutoff * _reductions.max(s, initial=0), dtype="int32")
    residuals = right - matmul(x, found)
    squares = _reductions.sum(_square_sizes(residuals), 0)
    if numpy_resid and (m <= n or int(rank) < n):
        squares = getitem(squares, slice(0, 0))
    return (reshape(found, (n,)) if y.ndim == 1 else found), squares, rank, s


def tensorsolve(a: Any, b: Any, axes: Sequence[int] | None = None) -> Tensor:
    """x with tensordot(a, x, x.ndim) = b; `axes` of a go to its end first."""
    x, y = to_tensor(a), to_tensor(b)
    if axes is not None:
        moved = [canonical_axis(d, x.ndim) for d in axes]
        x = _shape.transpose(x, [*(d for d in range(x.ndim) if d not in moved), *moved])
    shape = x.shape[y.ndim :]
    size = math.prod(shape)
    if x.shape[: y.ndim] != y.shape or size != y.size:
        raise LinAlgError(f"tensorsolve cannot solve with {describe(x)} and {describe(y)}")
    return reshape(solve(reshape(x, (size, size)), _shape.ravel(y)), shape)


def tensorinv(a: Any, ind: int = 2) -> Tensor:
    """The inverse of the map that tensordot(a, x, a.ndim - ind) is."""
    x = to_tensor(a)
    if ind <= 0:
        raise ValueError(f"tensorinv: ind is at least 1, not {ind}")
    left, right = x.shape[:ind], x.shape[ind:]
    if math.prod(left) != math.prod(right):
        raise LinAlgError(f"tensorinv: the first {ind} dimensions of {describe(x)} have not the others' size")
    return reshape(inv(reshape(x, (math.prod(left), math.prod(right)))), (*right, *left))


def matrix_power(a: Any, n: int) -> Tensor:
    """a times itself n times; of the inverse for negative n."""
    x = to_tensor(a)
    n = operator.index(n)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise LinAlgError(f"matrix_power needs square matrices, not {describe(x)}")
    if n == 0:
        return broadcast(eye(x.shape[-1], dtype=x.dtype), x.shape)
    if n < 0:
        x, n = inv(x), -n
    out = None
    while n:
        if n & 1:
            out = x if out is None else matmul(out, x)
        n >>= 1
        if n:
            x = matmul(x, x)
    assert out is not None
    return copy(out) if out is a else out


def multi_dot(arrays: Sequence[Any], *, precision: Any = None) -> Tensor:
    """The product of matrices in the order with the fewest multiplications; the ends may be vectors."""
    xs = [to_tensor(x) for x in arrays]
    if len(xs) < 2:
        raise ValueError(f"multi_dot needs at least two arrays, not {len(xs)}")
    product = functools.partial(matmul, precision=precision)
    first, last = xs[0].ndim, xs[-1].ndim
    if first == 1:
        xs[0] = reshape(xs[0], (1, xs[0].size))
    if last == 1:
        xs[-1] = reshape(xs[-1], (xs[-1].size, 1))
    for x, y in itertools.pairwise(xs):
        if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[0]:
            raise LinAlgError(f"multi_dot cannot multiply {describe(x)} and {describe(y)}")
    sizes = [xs[0].shape[0], *(x.shape[1] for x in xs)]
    count = len(xs)
    cost = [[0.0] * count for _ in range(count)]
    split = [[0] * count for _ in range(count)]
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            cost[i][j], split[i][j] = min(
                (cost[i][k] + cost[k + 1][j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )

    def joined(i: int, j: int) -> Tensor:
        return xs[i] if i == j else product(joined(i, split[i][j]), joined(split[i][j] + 1, j))

    out = joined(0, count - 1)
    shape = [n for n, gone in zip(out.shape, (first == 1, last == 1)) if not gone]
    return reshape(out, shape)


# --- norms and what follows from singular values ---


def _square_sizes(x: Tensor) -> Tensor:
    return real(x) * real(x) + imag(x) * imag(x) if x.dtype.kind == "c" else x * x


def _root(x: Tensor) -> Tensor:
    """The square root, with derivative 0 at 0: that of a norm, of which 0 is a subgradient."""
    zero = x == 0
    return where(zero, 0, sqrt(where(zero, 1, x)))


def _sum(x: Tensor, axes: Sequence[int] | int, keepdims: bool) -> Tensor:
    return _reductions.sum(x, tuple(axes) if not isinstance(axes, int) else axes, keepdims=keepdims)


def _of_nothing(x: Tensor) -> float | None:
    """What the largest of sizes starts from: 0 where there may be none."""
    return None if x.size else 0.0


def _vector(x: Tensor, order: Any, axes: list[int], keepdims: bool) -> Tensor:
    if order is None or order == 2:
        return _root(_sum(_square_sizes(x), axes, keepdims))
    size = abs_(x)
    if isinstance(order, str):
        raise ValueError(f"the norm of vectors has no order {order!r}")
    if order == math.inf:
        return _reductions.max(size, tuple(axes), keepdims=keepdims, initial=_of_nothing(x))
    if order == -math.inf:
        return _reductions.min(size, tuple(axes), keepdims=keepdims)
    if order == 0:
        return _sum((x != 0).astype(size.dtype), axes, keepdims)
    if order == 1:
        return _sum(size, axes, keepdims)
    # Zeros add nothing, and have derivative 0 where powers of them have none.
    zero = (size == 0) & (order > 0)
    total = _sum(where(zero, 0, where(zero, 1, size) ** order), axes, keepdims)
    none = (total == 0) & (order > 0)
    return where(none, 0, where(none, 1, total) ** (1 / order))


def _matrix(x: Tensor, order: Any, rows: int, columns: int, keepdims: bool) -> Tensor:
    if order is None or order in ("f", "fro"):
        return _root(_sum(_square_sizes(x), (rows, columns), keepdims))
    if order in (1, -1, math.inf, -math.inf):
        added = rows if order in (1, -1) else columns
        sums = _sum(abs_(x), added, True)
        if order > 0:
            out = _reductions.max(sums, (rows, columns), keepdims=True, initial=_of_nothing(x))
        else:
            out = _reductions.min(sums, (rows, columns), keepdims=True)
    elif order in (2, -2, "nuc"):
        s = svdvals(_shape.moveaxis(x, (rows, columns), (-2, -1)))
        if order == 2:
            out = _reductions.max(s, -1, initial=_of_nothing(x))
        else:
            out = (_reductions.min if order == -2 else _reductions.sum)(s, -1)
        out = reshape(out, [1 if d in (rows, columns) else n for d, n in enumerate(x.shape)])
    else:
        raise ValueError(f"the norm of matrices has no order {order!r}")
    return out if keepdims else _shape.squeeze(out, (rows, columns))


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The norm of vectors (one axis) or matrices (two axes); of all elements without axis and order.

    Orders of vectors: any number, inf, -inf, 0; of matrices: "fro", "nuc", 1, -1, 2, -2, inf, -inf. The
    derivative of the 2-norm and of "fro" at zero is taken as 0.
    """
    t = _core.set_weak(inexact(x), False)
    if axis is None:
        if ord is None:
            return _vector(t, 2, list(range(t.ndim)), keepdims)
        if t.ndim not in (1, 2):
            raise ValueError(f"norm: of {describe(t)} an axis (or two) is needed to have order {ord!r}")
        axis = tuple(range(t.ndim))
    axes = [canonical_axis(d, t.ndim) for d in items_of(axis)]
    if len(axes) == 1:
        return _vector(t, ord, axes, keepdims)
    if len(axes) != 2:
        raise ValueError(f"norm: axis {axis} is not one axis or two")
    if axes[0] == axes[1]:
        raise ValueError(f"norm: the axes {tuple(axis)} are the same")
    return _matrix(t, ord, axes[0], axes[1], keepdims)


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Tensor:
    """The norm over one or more axes, or all, taken as one vector."""
    t = _core.set_weak(inexact(x), False)
    return _vector(t, ord, canonical_axes(axis, t.ndim), keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """The norm of matrices; see `norm`."""
    return norm(x, ord, (-2, -1), keepdims)


def cond(x: Any, p: Any = None) -> Tensor:
    """The condition number in the norm p; None: of singular values. Infinite for singular matrices."""
    (t,), _ = lax_linalg.matrices("cond", x, square=p not in (None, 2, -2))
    if t.size == 0 and 0 in t.shape[-2:]:
        raise LinAlgError(f"cond is not defined for {describe(t)}")
    if p in (None, 2, -2):
        s = svdvals(t)
        first, last = getitem(s, (Ellipsis, 0)), getitem(s, (Ellipsis, -1))
        out = last / first if p == -2 else first / last
    else:
        out = norm(t, p, (-2, -1)) * norm(inv(t), p, (-2, -1))
    known = _reductions.any(t != t, (-2, -1))
    return where((out != out) & ~known, math.inf, out)


def matrix_rank(M: Any, rtol: Any = None, *, hermitian: bool = False, tol: Any = None) -> Tensor:
    """How many singular values exceed rtol times the largest one, or `tol`."""
    if rtol is not None and tol is not None:
        raise ValueError("matrix_rank: only one of tol or rtol may be specified.")
    t = to_tensor(M)
    if t.ndim < 2:
        return _reductions.any(t != 0).astype(default_int())
    (x,), _ = lax_linalg.matrices("matrix_rank", t)
    s = abs_(eigvalsh(x)) if hermitian else svdvals(x)
    if tol is None:
        largest = _reductions.max(s, -1, keepdims=True, initial=0)
        tol = getitem(to_tensor(_cutoff(x, rtol)), (Ellipsis, None)) * largest
    else:
        tol = getitem(to_tensor(tol), (Ellipsis, None))
    return _reductions.sum(s > tol, -1, dtype=default_int())


# --- products, as the array API has them ---


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of a diagonal of the last two dimensions."""
    return _linear.trace(x, offset, -2, -1, dtype)


def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """A diagonal of the last two dimensions."""
    return _shape.diagonal(x, offset, -2, -1)


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of 3 elements, the other dimensions broadcast."""
    a, b = promote(x1, x2)
    if a.shape[canonical_axis(axis, a.ndim)] != 3 or b.shape[canonical_axis(axis, b.ndim)] != 3:
        raise ValueError(f"linalg.cross needs vectors of 3 elements, not {describe(a)} and {describe(b)}")
    return _linear.cross(a, b, axis=axis)


def tensordot(
    x1: Any, x2: Any, /, *, axes: Any = 2, precision: Any = None, preferred_element_type: Any = None
) -> Tensor:
    """The sum over pairs of dimensions; see lamina.numpy.tensordot."""
    return _linear.tensordot(x1, x2, axes, precision=precision, preferred_element_type=preferred_element_type)


__all__ = [
    "EigResult",
    "EighResult",
    "LinAlgError",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]
_results.own(globals(), _results.VIEWS)
