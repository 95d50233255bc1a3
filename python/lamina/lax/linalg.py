"""Factorizations of matrices and solutions with them, as in jax.lax.linalg.

Matrices are the last two dimensions, everything before them is a batch. Elements are float32, float64, complex64
or complex128; integers become floats, and floats of 16 and fewer bits are computed in float32 and rounded once.
Every function has derivatives of every order in both modes and goes through vmap and jit, unless it says
otherwise. Nothing raises because of an element's value: matrices without such a factor or solution give NaN or
infinities. Eigenvectors and singular vectors have no derivative where their values coincide: it is NaN.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any

from lamina import _core, _results
from lamina._core import Tensor
from lamina._indexing import broadcast, getitem, reshape
from lamina._tensor import astype, describe
from lamina.numpy._common import broadcast_shapes, op, promote_inexact
from lamina.numpy._creation import arange, eye, full, tril, triu
from lamina.numpy._dtypes import finfo
from lamina.numpy._elementwise import absolute, cbrt, conj, minimum, sqrt, where
from lamina.numpy._linear import matmul
from lamina.numpy._shape import concatenate


def transposed(x: Tensor) -> Tensor:
    """`x` with its last two dimensions exchanged."""
    return op("transpose", [x], permutation=[*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


def adjoint(x: Tensor) -> Tensor:
    """The conjugated transpose of the last two dimensions."""
    return transposed(conj(x))


def matrices(what: str, *xs: Any, square: bool = False) -> tuple[list[Tensor], str]:
    """`xs` in one type that routines take, and the element type that results have.

    ValueError unless all are matrices, and square if asked for.
    """
    ts = promote_inexact(*xs)
    for t in ts:
        if t.ndim < 2:
            raise LinAlgError(f"{what} needs arrays of at least 2 dimensions, not {describe(t)}")
        if square and t.shape[-1] != t.shape[-2]:
            raise LinAlgError(f"{what} needs square matrices, not {describe(t)}")
    wanted = ts[0].dtype.name
    narrow = ts[0].dtype.kind == "f" and ts[0].dtype.itemsize < 4
    if narrow:
        ts = [astype(t, "float32") for t in ts]
    return [_core.set_weak(t, False) for t in ts], wanted


class LinAlgError(ValueError):
    """Arrays whose shapes do not fit a function of matrices.

    Values never raise it: an array may not be computed yet, or never be inside jit. A matrix that is singular or
    not positive definite gives infinities or NaN.
    """


def restored(x: Tensor, wanted: str) -> Tensor:
    """A result in the element type asked for, or in its real part's."""
    return astype(x, wanted) if x.dtype.name == "float32" and wanted != "complex64" else x


def _routine(name: str, operands: list[Tensor], full: bool = False) -> list[Tensor]:
    return _core.matrix_routine("lamina." + name, operands, full)


def batched_alike(*ts: Tensor) -> list[Tensor]:
    """Matrices with equal batch dimensions, by broadcasting."""
    lead = broadcast_shapes(*[t.shape[:-2] for t in ts])
    return [broadcast(t, (*lead, *t.shape[-2:])) for t in ts]


def symmetrized(x: Tensor) -> Tensor:
    """(x + x^H) / 2."""
    return (x + adjoint(x)) / 2


def cholesky(x: Any, *, symmetrize_input: bool = True) -> Tensor:
    """The lower triangular factor of Hermitian positive definite matrices: x = L L^H.

    Without `symmetrize_input` only the lower triangle is read. NaN where a matrix is not positive definite.
    """
    (a,), wanted = matrices("cholesky", x, square=True)
    return restored(_core.linalg("cholesky", [symmetrized(a) if symmetrize_input else a])[0], wanted)


def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Tensor:
    """x with x op(a) = b, or op(a) x = b if `left_side`; one triangle of `a` is read.

    op transposes and conjugates as asked for. A `b` of one dimension less than `a` is vectors, and so is x then.
    """
    a, b = promote_inexact(a, b)
    if b.ndim == a.ndim - 1:
        column = reshape(b, (*b.shape, 1) if left_side else (*b.shape[:-1], 1, *b.shape[-1:]))
        x = triangular_solve(
            a,
            column,
            left_side=left_side,
            lower=lower,
            transpose_a=transpose_a,
            conjugate_a=conjugate_a,
            unit_diagonal=unit_diagonal,
        )
        return reshape(x, b.shape)
    (m, y), wanted = matrices("triangular_solve", a, b)
    if m.shape[-1] != m.shape[-2] or m.shape[:-2] != y.shape[:-2]:
        raise LinAlgError(f"triangular_solve cannot use {describe(m)} with {describe(y)}")
    if y.shape[-2 if left_side else -1] != m.shape[-1]:
        raise LinAlgError(f"triangular_solve: the sizes of {describe(m)} and {describe(y)} do not fit")
    if conjugate_a and not transpose_a:
        m = conj(m)
    out = _core.triangular_solve([m, y], left_side, lower, unit_diagonal, transpose_a, conjugate_a)[0]
    return restored(out, wanted)


def lu(x: Any) -> tuple[Tensor, Tensor, Tensor]:
    """(packed factors, pivots, order of rows) of matrices: x[order] = L U.

    L is the packed lower triangle with ones on its diagonal, U the upper one. Step k swapped rows k and
    pivots[k]; pivots and order are int32.
    """
    (a,), wanted = matrices("lu", x)
    packed, pivots, order = _routine("lu", [a])
    return restored(packed, wanted), pivots, order


def lu_pivots_to_permutation(pivots: Any, permutation_size: int) -> Tensor:
    """The order of `permutation_size` rows that swaps of rows k and pivots[k] make."""
    from lamina._tensor import to_tensor
    from lamina.lax._control import fori_loop
    from lamina.numpy._common import iota
    from lamina.numpy._shape import expand_dims

    p = astype(to_tensor(pivots), "int32")
    if p.shape[-1] > permutation_size:
        raise ValueError(f"{p.shape[-1]} pivots need at least as many rows, not {permutation_size}")
    start = iota("int32", (*p.shape[:-1], permutation_size), p.ndim - 1)

    def swap(k: Tensor, order: Tensor) -> Tensor:
        at = iota("int32", order.shape, order.ndim - 1)
        other = expand_dims(where(iota("int32", p.shape, p.ndim - 1) == k, p, 0).sum(-1, dtype="int32"), -1)
        here = where(at == k, order, 0).sum(-1, keepdims=True, dtype="int32")
        there = where(at == other, order, 0).sum(-1, keepdims=True, dtype="int32")
        return where(at == k, there, where(at == other, here, order))

    return fori_loop(0, p.shape[-1], swap, start)


def qr(
    x: Any, *, pivoting: bool = False, full_matrices: bool = True, use_magma: bool | None = None
) -> tuple[Tensor, ...]:
    """(Q, R) with orthonormal columns in Q and an upper triangular R; with `pivoting` (Q, R, p) for the columns in the
    order p, in which the diagonal of R gets smaller.

    The columns that `full_matrices` adds for more rows than columns are those of the product of reflections that makes
    R, and so is their derivative: NaN where a column was zero below the diagonal already. There is one implementation:
    `use_magma` changes nothing.
    """
    (a,), wanted = matrices("qr", x)
    a, *order = in_column_order(a) if pivoting else (a,)
    q, r = _core.matrix_qr([a], full_matrices)
    return restored(q, wanted), restored(r, wanted), *order


def in_column_order(a: Tensor) -> tuple[Tensor, Tensor]:
    """Matrices with their columns in the order of pivots, and that order: next is the column of which most is left
    beside the columns before it. The order has no derivative.
    """
    from lamina.lax import stop_gradient
    from lamina.numpy._sorting import take_along_axis

    order = over_batch(_column_order, _in_double(stop_gradient(a)))
    return take_along_axis(a, getitem(order, (Ellipsis, None, slice(None))), -1), order


def _in_double(a: Tensor) -> Tensor:
    return astype(a, "complex128" if a.dtype.kind == "c" else "float64")


def over_batch(f: Callable[[Tensor], Any], a: Tensor) -> Any:
    """`f` of each matrix."""
    from lamina._transforms import vmap

    for _ in range(a.ndim - 2):
        f = vmap(f)
    return f(a)


def _column_order(a: Tensor) -> Tensor:
    from lamina import numpy as lnp
    from lamina.lax._control import fori_loop

    places = lnp.arange(a.shape[1], dtype="int32")

    def step(k: Any, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        left, order = state
        squares = where(places < k, -1.0, lnp.sum(lnp.abs(left) ** 2, 0))
        best = lnp.argmax(squares)
        turned = where(places == k, best, where(places == best, k, places))
        left, order = lnp.take(left, turned, 1), lnp.take(order, turned)
        column = lnp.take(left, k, 1)
        most = lnp.max(squares)
        shares = lnp.matmul(conj(column), left) / where(most > 0, most, 1.0)
        return where(places > k, left - lnp.outer(column, shares), left), order

    return fori_loop(0, min(a.shape), step, (a, places))[1]


def _reflections(a: Tensor, taus: Tensor) -> tuple[Tensor, Tensor]:
    """V and T with H_1 ... H_k = 1 - V T V^H (Schreiber and Van Loan 1989): T = (1 + D S)^-1 D for D of the scales
    and S of the strict upper triangle of V^H V.
    """
    m, k = a.shape[-2], taus.shape[-1]
    v = tril(getitem(a, (Ellipsis, slice(0, k))), -1) + eye(m, k, dtype=a.dtype)
    scales = reshape(taus, (*taus.shape, 1))
    identity = eye(k, dtype=a.dtype)
    t = triangular_solve(
        identity + scales * triu(matmul(adjoint(v), v), 1),
        scales * identity,
        left_side=True,
        unit_diagonal=True,
    )
    return v, t


def householder_product(a: Any, taus: Any) -> Tensor:
    """The first columns of the product of reflections that `a` (below its diagonal) and `taus` hold."""
    x, scales = promote_inexact(a, taus)
    v, t = _reflections(x, scales)
    n = x.shape[-1]
    top = adjoint(getitem(v, (Ellipsis, slice(0, n), slice(None))))
    return eye(x.shape[-2], n, dtype=x.dtype) - matmul(v, matmul(t, top))


def ormqr(a: Any, taus: Any, c: Any, *, left: bool = True, transpose: bool = False) -> Tensor:
    """Q c, or c Q if not `left`, for the square Q of reflections; Q^H if `transpose`."""
    x, scales, y = promote_inexact(a, taus, c)
    v, t = _reflections(x, scales)
    if transpose:
        t = adjoint(t)
    if left:
        return y - matmul(v, matmul(t, matmul(adjoint(v), y)))
    return y - matmul(matmul(matmul(y, v), t), adjoint(v))


def eigh(
    x: Any,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    implementation: EighImplementation | None = None,
) -> tuple[Tensor, Tensor]:
    """(eigenvectors as columns, eigenvalues in ascending order) of Hermitian matrices.

    Without `symmetrize_input` one triangle is read, the lower one if `lower`. Values are always sorted. There is one
    implementation, LAPACK's: `implementation` changes nothing.
    """
    (a,), wanted = matrices("eigh", x, square=True)
    v, w = _routine("eigh", [_one_triangle(a, lower, symmetrize_input)])
    if subset_by_index is not None:
        part = slice(*subset_by_index)
        v, w = getitem(v, (Ellipsis, part)), getitem(w, (Ellipsis, part))
    return restored(v, wanted), restored(w, wanted)


class EigImplementation(enum.Enum):
    """How `eig` could be computed elsewhere; here always by LAPACK."""

    CUSOLVER = "cusolver"
    MAGMA = "magma"
    LAPACK = "lapack"


class EighImplementation(enum.Enum):
    """How `eigh` could be computed elsewhere; here always by LAPACK."""

    QR = "qr"
    JACOBI = "jacobi"
    QDWH = "qdwh"


class SvdAlgorithm(enum.Enum):
    """How `svd` could be computed elsewhere; here always by LAPACK."""

    DEFAULT = "default"
    QR = "QR"
    JACOBI = "Jacobi"
    POLAR = "polar"
    DIVIDE_AND_CONQUER = "divide_and_conquer"


def _one_triangle(a: Tensor, lower: bool, symmetrize: bool) -> Tensor:
    return symmetrized(a) if symmetrize else a if lower else adjoint(a)


def eigvalsh(x: Any, *, lower: bool = True, symmetrize_input: bool = True) -> Tensor:
    """The eigenvalues of Hermitian matrices in ascending order."""
    (a,), wanted = matrices("eigvalsh", x, square=True)
    return restored(_routine("eigvalsh", [_one_triangle(a, lower, symmetrize_input)])[0], wanted)


def eig(
    x: Any,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
    use_magma: bool | None = None,
    implementation: EigImplementation | None = None,
) -> list[Tensor]:
    """[eigenvalues, left eigenvectors, right eigenvectors] of square matrices, as asked for; all complex.

    Vectors are columns of unit length whose largest entry is real; their derivatives keep that, and are always there.
    There is one implementation, LAPACK's: `use_magma` and `implementation` change nothing.
    """
    (a,), _ = matrices("eig", x, square=True)
    if not compute_left_eigenvectors and not compute_right_eigenvectors:
        return _routine("eigvals", [a])
    w, left, right = _routine("eig", [a])
    return [
        w,
        *([left] if compute_left_eigenvectors else []),
        *([right] if compute_right_eigenvectors else []),
    ]


def svd(
    x: Any,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
    algorithm: SvdAlgorithm | None = None,
) -> Any:
    """(U, singular values in descending order, V^H), or only the values without `compute_uv`.

    No derivative with `full_matrices` for matrices that are not square: the added vectors are not determined. There is
    one algorithm, LAPACK's: `algorithm` changes nothing.
    """
    (a,), wanted = matrices("svd", x)
    part = slice(None) if subset_by_index is None else slice(*subset_by_index)
    if not compute_uv:
        return restored(getitem(_routine("svdvals", [a])[0], (Ellipsis, part)), wanted)
    s, u, vh = _routine("svd", [a], full_matrices)
    if subset_by_index is not None:
        u, s = getitem(u, (Ellipsis, part)), getitem(s, (Ellipsis, part))
        vh = getitem(vh, (Ellipsis, part, slice(None)))
    return restored(u, wanted), restored(s, wanted), restored(vh, wanted)


def schur(
    x: Any,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Callable[..., Any] | None = None,
) -> Any:
    """(T, Q) with x = Q T Q^H and T triangular; of real matrices T has blocks of 2 x 2 on its diagonal.

    Only T without `compute_schur_vectors`. No derivative. The form of real matrices needs LAPACK on the machine.
    """
    if sort_eig_vals or select_callable is not None:
        raise NotImplementedError("sorted Schur forms are not supported")
    (a,), wanted = matrices("schur", x, square=True)
    t, q = _routine("schur", [a])
    return (restored(t, wanted), restored(q, wanted)) if compute_schur_vectors else restored(t, wanted)


def hessenberg(a: Any) -> tuple[Tensor, Tensor]:
    """(H and reflections, scales) with a = Q H Q^H: H is the upper triangle and the first subdiagonal.

    Q is 1 beside the `householder_product` of the reflections, which stand below, and their scales. No derivative.
    """
    (x,), wanted = matrices("hessenberg", a, square=True)
    packed, scales = _routine("hessenberg", [x])
    return restored(packed, wanted), restored(getitem(scales, (Ellipsis, slice(0, -1))), wanted)


def qdwh(
    x: Any,
    *,
    is_hermitian: bool = False,
    max_iterations: int | None = None,
    eps: float | None = None,
    dynamic_shape: tuple[Any, Any] | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(U, H, iterations, whether they converged) with x = U H, U of orthonormal columns and H positive.

    By Halley's iteration with weights (Nakatsukasa, Bai and Gygi 2010), for one matrix of full rank with at least as
    many rows as columns. It ends when U changes by less than (4 eps)^(1/3) of its size, or after `max_iterations`. What
    lies outside `dynamic_shape` counts as 0. Whether x is hermitian changes nothing.
    """
    from lamina.lax import while_loop

    (a,), wanted = matrices("qdwh", x)
    m, n = a.shape[-2:]
    if a.ndim != 2 or m < n:
        raise ValueError(f"qdwh needs one matrix with at least as many rows as columns, not {describe(a)}")
    if dynamic_shape is not None:
        rows, columns = (arange(k) < size for k, size in zip((m, n), dynamic_shape))
        a = where(reshape(rows, (m, 1)) & columns, a, 0)
    unit = float(finfo(wanted).eps) if eps is None else eps
    most = 10 if max_iterations is None else max_iterations
    identity = eye(n, dtype=a.dtype)
    sizes = absolute(a)
    bound = sqrt(sizes.sum(0).max() * sizes.sum(1).max())

    def going(state: Any) -> Tensor:
        _, least, done, steady = state
        return (done < most) & ~(steady & (absolute(least - 1) < 5 * unit))

    def step(state: Any) -> Any:
        u, least, done, _ = state
        square = least * least
        d = cbrt(4 * (1 - square) / (square * square))
        root = sqrt(1 + d)
        first = root + sqrt(8 - 4 * d + 8 * (2 - square) / (square * root)) / 2
        second = (first - 1) ** 2 / 4
        third = first + second - 1
        # The weights span more than float32 has digits for; what they multiply does not.
        ratio, size = second / third, sqrt(third)
        old, rest, scale = (astype(v, sizes.dtype) for v in (ratio, (first - ratio) / size, size))
        q, _ = qr(concatenate([scale * u, identity], 0), full_matrices=False)
        new = old * u + rest * matmul(getitem(q, slice(0, m)), adjoint(getitem(q, slice(m, None))))
        least = minimum(least * (first + second * square) / (1 + third * square), 1.0)
        change = sqrt((absolute(new - u) ** 2).sum())
        return new, least, done + 1, change < (4 * unit) ** (1 / 3) * sqrt((absolute(new) ** 2).sum())

    start = (a / where(bound > 0, bound, 1), full((), unit, "float64"), full((), 0, "int32"), full((), False))
    u, least, done, steady = while_loop(going, step, start)
    h = matmul(adjoint(u), a)
    h = (h + adjoint(h)) / 2
    return restored(u, wanted), restored(h, wanted), done, steady & (absolute(least - 1) < 5 * unit)


def determinant(x: Any) -> Tensor:
    """The determinant of square matrices."""
    (a,), wanted = matrices("det", x, square=True)
    return restored(_core.linalg("determinant", [a])[0], wanted)


def log_determinant(x: Any) -> tuple[Tensor, Tensor]:
    """(sign, logarithm of the size) of the determinant of square matrices."""
    (a,), wanted = matrices("slogdet", x, square=True)
    sign, log = _core.linalg("log_determinant", [a])
    return restored(sign, wanted), restored(log, wanted)


def inverse(x: Any) -> Tensor:
    """The inverse of square matrices."""
    (a,), wanted = matrices("inv", x, square=True)
    return restored(_core.linalg("inverse", [a])[0], wanted)


def linear_solve(a: Any, b: Any) -> Tensor:
    """x with a x = b for square matrices a and matrices b, batches broadcast."""
    (m, y), wanted = matrices("solve", a, b)
    if m.shape[-1] != m.shape[-2]:
        raise LinAlgError(f"solve needs square matrices, not {describe(m)}")
    if y.shape[-2] != m.shape[-1]:
        raise LinAlgError(f"solve: the sizes of {describe(m)} and {describe(y)} do not fit")
    return restored(_core.linalg("solve", batched_alike(m, y))[0], wanted)


def sylvester(a: Any, b: Any, c: Any) -> Tensor:
    """x with a x + x b = c."""
    (x, y, z), wanted = matrices("solve_sylvester", a, b, c)
    if (*z.shape[-2:],) != (x.shape[-1], y.shape[-1]):
        raise LinAlgError(f"solve_sylvester: {describe(x)}, {describe(y)} and {describe(z)} do not fit")
    return restored(_routine("sylvester", batched_alike(x, y, z))[0], wanted)


def principal_root(x: Any) -> Tensor:
    """The principal square root of square matrices, complex."""
    (a,), _ = matrices("sqrtm", x, square=True)
    return _routine("sqrtm", [a])[0]


def tridiagonal(a: Any, *, lower: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Hermitian matrices by reflections as tridiagonal ones: (packed, d, e, taus).

    `d` and `e` are the diagonals of Q^H a Q; below them (above, if not `lower`, as the triangle that is read) `packed`
    holds the vectors of the reflections that Q is the product of, and `taus` their scales, as LAPACK does.
    """
    from lamina.numpy._shape import flip

    (x,), wanted = matrices("tridiagonal", a, square=True)
    turned = (lambda t, *axes: t) if lower else (lambda t, *axes: flip(t, axes))
    packed, d, e, taus = over_batch(_tridiagonal, turned(_in_double(x), -2, -1))
    part = "float32" if wanted in ("complex64", "float32") else "float64" if x.dtype.itemsize > 4 else wanted
    return (
        astype(turned(packed, -2, -1), wanted),
        astype(turned(d, -1), part),
        astype(turned(e, -1), part),
        astype(turned(taus, -1), wanted),
    )


def _tridiagonal(a: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Of the lower triangle of one matrix."""
    from lamina import numpy as lnp
    from lamina.lax._control import fori_loop

    n = a.shape[0]
    places = lnp.arange(n, dtype="int32")
    below = tril(a, -1)
    whole = below + adjoint(below) + lnp.diag(lnp.real(lnp.diagonal(a)))

    def step(k: Any, state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        whole, packed, e, taus = state
        column = lnp.take(whole, k, 1)
        first, rest = lnp.take(column, k + 1), where(places > k + 1, column, 0)
        size = lnp.sum(lnp.abs(rest) ** 2)
        done = (size == 0) & (lnp.imag(first) == 0)
        found = -lnp.copysign(lnp.sqrt(lnp.abs(first) ** 2 + size), lnp.real(first))
        found = where(done, lnp.real(first), found)
        tau = where(done, 0, (found - first) / where(done, 1, found))
        v = where(places == k + 1, 1, rest / where(done, 1, first - found))
        whole = whole - conj(tau) * lnp.outer(v, lnp.matmul(conj(v), whole))
        whole = whole - tau * lnp.outer(lnp.matmul(whole, v), conj(v))
        kept = where(places > k + 1, v, where(places == k + 1, found, lnp.take(packed, k, 1)))
        return whole, packed.at[:, k].set(kept), e.at[k].set(found), taus.at[k].set(tau)

    few = max(n - 1, 0)
    state = (whole, a, lnp.zeros((few,), "float64"), lnp.zeros((few,), a.dtype))
    whole, packed, e, taus = fori_loop(0, few, step, state) if few else state
    d = lnp.real(lnp.diagonal(whole))
    return where(eye(n, dtype="bool"), lnp.diag(d), packed), d, e, taus


def tridiagonal_solve(dl: Any, d: Any, du: Any, b: Any, *, perturb_singular: bool = False) -> Tensor:
    """x with a x = b for tridiagonal matrices a of diagonals dl, d, du, all of n elements; dl[0] and du[-1] are not
    used. Of two neighbouring rows the one with the larger element is the pivot.

    With `perturb_singular`, pivots are at least eps times the largest element of their matrix, so that x is finite.
    """
    from lamina import numpy as lnp
    from lamina.lax._control import scan
    from lamina.numpy._shape import moveaxis

    low, mid, up, y = promote_inexact(dl, d, du, b)
    n = mid.shape[-1]
    if y.ndim < 2 or y.shape[-2] != n or low.shape != mid.shape or up.shape != mid.shape:
        raise LinAlgError(f"tridiagonal_solve: {describe(mid)} and {describe(y)} do not fit")
    if n == 0:
        return y
    least = None
    if perturb_singular:
        info = lnp.finfo(mid.dtype)
        largest = lnp.max(lnp.abs(lnp.stack([low, mid, up])), (0, -1))
        least = lnp.maximum(largest * info.eps, info.tiny)
    front = lambda x, axis: moveaxis(x, axis, 0)  # noqa: E731
    column = lambda x: reshape(x, (*x.shape, 1))  # noqa: E731
    low, mid, up, y = front(low, -1), front(mid, -1), front(up, -1), front(y, -2)
    last = reshape(lnp.arange(n) == n - 1, (n, *[1] * (up.ndim - 1)))
    up = where(last, 0, up)

    def pivot(p: Tensor) -> Tensor:
        if least is None:
            return p
        near = where(p == 0, least, lnp.sign(p) * least)
        return where(lnp.abs(p) < least, near, p)

    def down(above: Any, row: Any) -> Any:
        """Of two rows, from the column of the upper one's diagonal on: the pivot's, and what is left of the other."""
        p, q, f = above
        a, c, e, g = row
        swap = lnp.abs(a) > lnp.abs(p)
        # The upper row is p, q, 0 and the lower one a, c, e.
        top = (pivot(where(swap, a, p)), where(swap, c, q), where(swap, e, 0), where(column(swap), g, f))
        share = where(swap, p, a) / top[0]
        rest = where(swap, q, c) - share * top[1], where(swap, 0, e) - share * top[2]
        return (*rest, where(column(swap), f, g) - column(share) * top[3]), top

    (p, _, f), rows = scan(down, (mid[0], up[0], y[0]), (low[1:], mid[1:], up[1:], y[1:]))

    def back(following: Any, row: Any) -> Any:
        next_, second = following
        p, q, r, f = row
        x = (f - column(q) * next_ - column(r) * second) / column(p)
        return (x, next_), x

    x = f / column(pivot(p))
    _, before = scan(back, (x, x * 0), rows, reverse=True)
    return moveaxis(lnp.concatenate([before, x[None]]), 0, -2)


def symmetric_product(
    a_matrix: Any, c_matrix: Any, *, alpha: float = 1.0, beta: float = 0.0, symmetrize_output: bool = False
) -> Tensor:
    """alpha a a^T + beta c. The whole of it is computed, so `symmetrize_output` changes nothing for a symmetric c."""
    x, y = promote_inexact(a_matrix, c_matrix)
    return alpha * matmul(x, transposed(x)) + beta * y


def cholesky_update(r_matrix: Any, w_vector: Any) -> Tensor:
    """The upper factor of r^T r + w w^T, from the upper factor r."""
    r, w = promote_inexact(r_matrix, w_vector)
    return transposed(cholesky(matmul(transposed(r), r) + reshape(w, (w.size, 1)) * reshape(w, (1, w.size))))


__all__ = [
    "EigImplementation",
    "EighImplementation",
    "SvdAlgorithm",
    "cholesky",
    "cholesky_update",
    "eig",
    "eigh",
    "hessenberg",
    "householder_product",
    "lu",
    "lu_pivots_to_permutation",
    "ormqr",
    "qdwh",
    "qr",
    "schur",
    "svd",
    "symmetric_product",
    "triangular_solve",
    "tridiagonal",
    "tridiagonal_solve",
]
_results.own(globals())
