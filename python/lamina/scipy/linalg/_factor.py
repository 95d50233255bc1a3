"""Factorizations and solutions with the names and defaults of scipy.linalg."""

from __future__ import annotations

from typing import Any

from lamina import _core
from lamina._core import Tensor
from lamina._indexing import broadcast, broadcast_shapes, getitem, reshape
from lamina._tensor import describe, to_tensor
from lamina.lax import linalg as lax_linalg
from lamina.lax.linalg import LinAlgError, adjoint, transposed
from lamina.numpy import linalg
from lamina.numpy._common import iota, promote_inexact
from lamina.numpy._creation import eye, tril, triu
from lamina.numpy._dtypes import finfo
from lamina.numpy._elementwise import conj, sqrt, where
from lamina.numpy._linear import matmul
from lamina.numpy._shape import stack


def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """The triangular factor of Hermitian positive definite matrices: the upper one, or the lower one if `lower`."""
    return linalg.cholesky(a, upper=not lower)


def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Tensor, bool]:
    """(factor, lower), for `cho_solve`; the other triangle is zero."""
    return cholesky(a, lower), lower


def cho_solve(
    c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Tensor:
    """x with a x = b, from the factor of a that `cho_factor` gives."""
    c, lower = c_and_lower
    first = solve_triangular(c, b, "N" if lower else "C", lower)
    return solve_triangular(c, first, "C" if lower else "N", lower)


def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Tensor:
    """x with op(a) x = b for triangular matrices a; trans 0 or "N": a, 1 or "T": a^T, 2 or "C": a^H."""
    names = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
    if trans not in names:
        raise ValueError(f"solve_triangular: trans is 0, 1, 2, 'N', 'T' or 'C', not {trans!r}")
    op = names[trans]
    return _with_matrix(
        a,
        b,
        lambda m, y: lax_linalg.triangular_solve(
            m,
            y,
            left_side=True,
            lower=lower,
            transpose_a=op > 0,
            conjugate_a=op == 2,
            unit_diagonal=unit_diagonal,
        ),
        "solve_triangular",
    )


def _with_matrix(a: Any, b: Any, f: Any, what: str) -> Tensor:
    """f of matrices with equal batches, for a b that is matrices or vectors: vectors where it has their shape."""
    x, y = promote_inexact(a, b)
    size = x.shape[-1] if x.ndim else 0
    matrix = y.ndim > 1 and y.shape[-2] == size and y.shape != x.shape[:-1]
    vector = y.ndim == 1 or (y.ndim == x.ndim - 1 and x.ndim > 2 and not matrix)
    if vector:
        y = reshape(y, (*y.shape, 1))
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise LinAlgError(f"{what} needs square matrices, not {describe(x)}")
    if y.ndim < 2 or y.shape[-2] != x.shape[-1]:
        raise LinAlgError(f"{what}: the sizes of {describe(x)} and {describe(to_tensor(b))} do not fit")
    out = f(*lax_linalg.batched_alike(x, y))
    return reshape(out, out.shape[:-1]) if vector else out


def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Tensor:
    """x with a x = b. assume_a "pos": by Cholesky's factors, of the triangle that `lower` names.

    "gen", "sym", "her" and "diagonal" matrices are solved by LU factors; of the symmetric ones `lower` names the
    triangle that is read.
    """
    kinds = ("gen", "general", "sym", "symmetric", "her", "hermitian", "pos", "positive definite", "diagonal")
    if assume_a not in kinds:
        raise ValueError(f"solve: assume_a is one of {kinds}, not {assume_a!r}")
    if assume_a.startswith("pos"):

        def by_cholesky(m: Tensor, y: Tensor) -> Tensor:
            factor = lax_linalg.cholesky(m if lower else adjoint(m), symmetrize_input=False)
            first = lax_linalg.triangular_solve(factor, y, left_side=True, lower=True)
            return lax_linalg.triangular_solve(
                factor, first, left_side=True, lower=True, transpose_a=True, conjugate_a=True
            )

        return _with_matrix(a, b, by_cholesky, "solve")

    def by_lu(m: Tensor, y: Tensor) -> Tensor:
        if assume_a[:3] in ("sym", "her"):
            other = adjoint if assume_a.startswith("her") else transposed
            half = tril(m, -1) if lower else triu(m, 1)
            m = half + other(half) + m * eye(m.shape[-1], dtype=m.dtype)
        return lax_linalg.linear_solve(m, y)

    return _with_matrix(a, b, by_lu, "solve")


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """The inverse."""
    return linalg.inv(a)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """The determinant."""
    return linalg.det(a)


def pinv(a: Any, rtol: Any = None) -> Tensor:
    """The Moore-Penrose inverse; see lamina.numpy.linalg.pinv."""
    return linalg.pinv(a, rtol)


def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Tensor, Tensor]:
    """(packed factors, pivots) for `lu_solve`."""
    packed, pivots, _ = lax_linalg.lu(a)
    return packed, pivots


def lu_solve(
    lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True
) -> Tensor:
    """x with op(a) x = b, from the factors of a that `lu_factor` gives; trans 0: a, 1: a^T, 2: a^H."""
    if trans not in (0, 1, 2):
        raise ValueError(f"lu_solve: trans is 0, 1 or 2, not {trans!r}")
    packed, pivots = lu_and_piv
    order = lax_linalg.lu_pivots_to_permutation(pivots, to_tensor(packed).shape[-2])

    def substituted(m: Tensor, y: Tensor) -> Tensor:
        chosen = _permutation(order, y.dtype.name)
        kind = {"left_side": True, "transpose_a": trans > 0, "conjugate_a": trans == 2}
        unit = {"lower": True, "unit_diagonal": True}
        if trans == 0:
            y = lax_linalg.triangular_solve(m, matmul(chosen, y), **kind, **unit)
            return lax_linalg.triangular_solve(m, y, **kind)
        y = lax_linalg.triangular_solve(m, y, **kind)
        return matmul(transposed(chosen), lax_linalg.triangular_solve(m, y, **kind, **unit))

    return _with_matrix(packed, b, substituted, "lu_solve")


def _permutation(order: Tensor, dtype: Any) -> Tensor:
    """The matrix P with (P x)[i] = x[order[i]]."""
    n = order.shape[-1]
    return (reshape(order, (*order.shape, 1)) == iota("int32", [n, n], 1)).astype(dtype)


def lu(
    a: Any,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
) -> Any:
    """(P, L, U) with a = P L U, or (P L, U) if `permute_l`; P as an order of rows if `p_indices`."""
    from lamina.numpy._sorting import argsort

    packed, _, order = lax_linalg.lu(a)
    m, n = packed.shape[-2:]
    k = min(m, n)
    lower = tril(getitem(packed, (Ellipsis, slice(0, k))), -1) + eye(m, k, dtype=packed.dtype)
    upper = triu(getitem(packed, (Ellipsis, slice(0, k), slice(None))))
    if p_indices and not permute_l:
        return argsort(order, axis=-1).astype("int32"), lower, upper
    p = transposed(_permutation(order, (packed.real if packed.dtype.kind == "c" else packed).dtype.name))
    return (matmul(p, lower), upper) if permute_l else (p, lower, upper)


def qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """(Q, R) with a = Q R; mode "full", "economic" (k = min(m, n) columns) or "r": only (R,).

    "raw": ((reflections, scales), R), without derivative.
    With `pivoting` the order p of the columns stands last: a[:, p] = Q R, in which the diagonal of R gets smaller.
    """
    if pivoting:
        (x,), wanted = lax_linalg.matrices("qr", a)
        ordered, order = lax_linalg.in_column_order(x)
        return *qr(lax_linalg.restored(ordered, wanted), mode=mode), order
    if mode == "raw":
        (x,), _ = lax_linalg.matrices("qr", a)
        packed, scales = _core.matrix_routine("lamina.geqrf", [x])
        return (packed, scales), triu(getitem(packed, (Ellipsis, slice(0, min(x.shape[-2:])), slice(None))))
    if mode not in ("full", "economic", "r"):
        raise ValueError(f"qr: mode is 'full', 'economic', 'r' or 'raw', not {mode!r}")
    if mode == "r":
        x = to_tensor(a)
        r = lax_linalg.qr(x, full_matrices=False)[1]
        missing = x.shape[-2] - r.shape[-2]
        if missing > 0:
            from lamina.numpy._padding import pad

            r = pad(r, [(0, 0)] * (r.ndim - 2) + [(0, missing), (0, 0)])
        return (r,)
    return lax_linalg.qr(a, full_matrices=mode == "full")


def qr_multiply(
    a: Any,
    c: Any,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Tensor, ...]:
    """(c Q, R), or (Q c, R) for mode "left", with the Q of k columns; of its conjugate if `conjugate`. With `pivoting`
    also the order of the columns, as in `qr`.
    """
    if mode not in ("left", "right"):
        raise ValueError(f"qr_multiply: mode is 'left' or 'right', not {mode!r}")
    q, r, *order = qr(a, mode="economic", pivoting=pivoting)
    q = conj(q) if conjugate else q
    (y,) = promote_inexact(c)
    return (matmul(q, y) if mode == "left" else matmul(y, q)), r, *order


def svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """(U, s, V^H), or only the singular values without `compute_uv`; see lamina.numpy.linalg.svd."""
    return lax_linalg.svd(a, full_matrices=full_matrices, compute_uv=compute_uv)


def svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """Singular values in descending order."""
    return linalg.svdvals(a)


def eig(
    a: Any,
    b: Any = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """Eigenvalues, complex, and as asked for left and right eigenvectors as columns: (w, vl, vr)."""
    if b is not None:
        raise NotImplementedError(
            "eig of two matrices is not supported; for a regular b use eig(solve(b, a))"
        )
    out = lax_linalg.eig(a, compute_left_eigenvectors=left, compute_right_eigenvectors=right)
    return tuple(out) if len(out) > 1 else out[0]


def eigvals(a: Any, b: Any = None, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """The eigenvalues, complex."""
    return eig(a, b, right=False)


def lstsq(
    a: Any,
    b: Any,
    cond: float | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: str | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(x, squared residuals, rank, singular values): see lamina.numpy.linalg.lstsq."""
    return linalg.lstsq(a, b, cond)


def norm(
    a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True
) -> Tensor:
    """The norm of vectors or matrices; see lamina.numpy.linalg.norm."""
    return linalg.norm(a, ord, axis, keepdims)


def eigh(
    a: Any,
    b: Any = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """(eigenvalues, eigenvectors) of Hermitian matrices, of which one triangle is read; or only the values.

    With positive definite `b` those of a v = w b v (type 1), a b v = w v (2) or b a v = w v (3).
    """
    if eigvals is not None:
        raise NotImplementedError("eigh: choose from all eigenvalues by indexing")
    if type not in (1, 2, 3):
        raise ValueError(f"eigh: type is 1, 2 or 3, not {type!r}")
    x = to_tensor(a)
    if b is None:
        if eigvals_only:
            return lax_linalg.eigvalsh(x, lower=lower, symmetrize_input=False)
        v, w = lax_linalg.eigh(x, lower=lower, symmetrize_input=False)
        return w, v
    x, y = promote_inexact(a, b)
    one = lambda m: m if lower else adjoint(m)  # noqa: E731
    factor = lax_linalg.cholesky(one(y), symmetrize_input=False)
    whole = tril(one(x), -1)
    whole = whole + adjoint(whole) + one(x) * eye(x.shape[-1], dtype=x.dtype)
    if type == 1:
        half = lax_linalg.triangular_solve(factor, whole, left_side=True, lower=True)
        c = lax_linalg.triangular_solve(factor, half, lower=True, transpose_a=True, conjugate_a=True)
    else:
        c = matmul(adjoint(factor), matmul(whole, factor))
    if eigvals_only:
        return lax_linalg.eigvalsh(c)
    v, w = lax_linalg.eigh(c)
    if type == 3:
        return w, matmul(factor, v)
    back = {"left_side": True, "lower": True, "transpose_a": True, "conjugate_a": True}
    return w, lax_linalg.triangular_solve(factor, v, **back)


def eigvalsh(a: Any, b: Any = None, lower: bool = True) -> Tensor:
    """The eigenvalues that `eigh` gives."""
    return eigh(a, b, lower, eigvals_only=True)


def eigh_tridiagonal(
    d: Any,
    e: Any,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: Any = None,
    tol: float | None = None,
    key: Any = None,
) -> Any:
    """(eigenvalues, eigenvectors) of the symmetric matrix with diagonal d and off-diagonal e; or only the values.

    Of complex numbers the matrix is Hermitian: the real parts of d count, and e stands above the diagonal.
    select "a": all; "i": those with the indices select_range, both ends included.
    """
    x, y = promote_inexact(d, e)
    n = x.shape[-1]
    if x.ndim < 1 or y.shape != (*x.shape[:-1], max(n - 1, 0)):
        raise LinAlgError(f"eigh_tridiagonal: {describe(x)} and {describe(y)} are no two diagonals")
    if select not in ("a", "i", "v"):
        raise ValueError(f"eigh_tridiagonal: select is 'a' or 'i', not {select!r}")
    if select == "v":
        raise NotImplementedError(
            "eigh_tridiagonal: how many values lie in a range is not known in advance; select 'i'"
        )
    if select == "i" and select_range is None:
        raise ValueError("eigh_tridiagonal: select 'i' needs a select_range of the first and the last index")
    a = _diagonal(x, 0, n) + _diagonal(y, 1, n) + _diagonal(conj(y), -1, n)
    part = slice(None) if select == "a" else slice(int(select_range[0]), int(select_range[1]) + 1)
    if eigvals_only:
        return getitem(lax_linalg.eigvalsh(a, symmetrize_input=False), (Ellipsis, part))
    v, w = lax_linalg.eigh(a, symmetrize_input=False)
    return getitem(w, (Ellipsis, part)), getitem(v, (Ellipsis, part))


def _diagonal(v: Tensor, k: int, n: int) -> Tensor:
    """Matrices of n rows with v on diagonal k, zero elsewhere."""
    from lamina.numpy._elementwise import where
    from lamina.numpy._padding import pad

    missing = n - v.shape[-1]
    wide = pad(v, [(0, 0)] * (v.ndim - 1) + [(missing, 0) if k < 0 else (0, missing)])
    on = iota("int32", [n, n], 1) - iota("int32", [n, n], 0) == k
    return where(on, reshape(wide, (*wide.shape, 1)), 0)


def schur(a: Any, output: str = "real") -> tuple[Tensor, Tensor]:
    """(T, Z) with a = Z T Z^H; output "real" of real matrices: with blocks of 2 x 2, else triangular, complex.

    No derivative. The real form needs LAPACK on the machine.
    """
    if output not in ("real", "r", "complex", "c"):
        raise ValueError(f"schur: output is 'real' or 'complex', not {output!r}")
    (x,) = promote_inexact(a)
    if output.startswith("c"):
        x = _complex(x)
    return lax_linalg.schur(x)


def _complex(x: Tensor) -> Tensor:
    return x if x.dtype.kind == "c" else x.astype("complex128" if x.dtype.name == "float64" else "complex64")


def rsf2csf(T: Any, Z: Any, check_finite: bool = True) -> tuple[Tensor, Tensor]:
    """The triangular complex Schur form from the real one: Z T Z^H stays. Leading dimensions broadcast.

    One rotation for each element below the diagonal, from the last one up, as in SciPy. ValueError for matrices that
    are not square or of two sizes.
    """
    t, z = (_complex(x) for x in promote_inexact(T, Z))
    n = t.shape[-1] if t.ndim else 0
    if t.shape[-2:] != (n, n) or z.shape[-2:] != (n, n):
        raise ValueError(f"rsf2csf: T and Z are square, of one size, not {t.shape} and {z.shape}")
    lead = broadcast_shapes(t.shape[:-2], z.shape[:-2])
    t, z = broadcast(t, (*lead, n, n)), broadcast(z, (*lead, n, n))
    eps = finfo(t.dtype).eps
    for m in range(n - 1, 0, -1):
        low, two, rest = t[..., m, m - 1], slice(m - 1, m + 1), slice(m - 1, None)
        corner, last = t[..., m - 1, m - 1], t[..., m, m]
        shift = linalg.eigvals(t[..., two, two])[..., 0] - last
        turns = abs(low) > eps * (abs(corner) + abs(last))
        size = where(turns, sqrt(abs(shift) ** 2 + abs(low) ** 2), 1.0)
        c, s = where(turns, shift / size, 1.0), where(turns, low / size, 0.0)
        g = stack([stack([conj(c), s], -1), stack([-s, c], -1)], -2)
        t = t.at[..., two, rest].set(matmul(g, t[..., two, rest]))
        t = t.at[..., : m + 1, two].set(matmul(t[..., : m + 1, two], adjoint(g)))
        z = z.at[..., two].set(matmul(z[..., two], adjoint(g)))
        t = t.at[..., m, m - 1].set(0)
    return t, z


def hessenberg(a: Any, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """H, zero below its first subdiagonal, or (H, Q) with a = Q H Q^H if `calc_q`. No derivative."""
    packed, scales = lax_linalg.hessenberg(a)
    h = triu(packed, -1)
    if not calc_q:
        return h
    n = h.shape[-1]
    q = broadcast(eye(n, dtype=h.dtype), h.shape)
    if n > 1:
        inner = lax_linalg.householder_product(packed[..., 1:, :-1], scales)
        q = q.at[..., 1:, 1:].set(inner)
    return h, q


def polar(
    a: Any,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Tensor, Tensor]:
    """(U, P) with a = U P for side "right", a = P U for "left": U with orthonormal columns or rows, P positive.

    By singular values; the derivative solves Sylvester's equation (Higham, Functions of Matrices, section 8.9) and
    needs full rank.
    """
    if side not in ("right", "left"):
        raise ValueError(f"polar: side is 'right' or 'left', not {side!r}")
    if method not in ("qdwh", "svd"):
        raise ValueError(f"polar: method is 'qdwh' or 'svd', not {method!r}")
    (x,), wanted = lax_linalg.matrices("polar", a)
    tall = x if side == "right" else adjoint(x)
    # A positive factor of deficient rank has only the derivative of the singular vectors.
    u, p = (_polar_rule() if tall.shape[-2] >= tall.shape[-1] else _polar)(tall)
    if side == "left":
        u = adjoint(u)
    return lax_linalg.restored(u, wanted), lax_linalg.restored(p, wanted)


def _polar(a: Tensor) -> tuple[Tensor, Tensor]:
    u, s, vh = lax_linalg.svd(a, full_matrices=False)
    return matmul(u, vh), matmul(adjoint(vh) * getitem(s, (Ellipsis, None, slice(None))).astype(a.dtype), vh)


_polar_with_derivative: Any = None


def _polar_rule() -> Any:
    global _polar_with_derivative
    if _polar_with_derivative is None:
        from lamina._custom import custom_jvp

        rule = custom_jvp(_polar)

        @rule.defjvp
        def polar_jvp(primals: Any, tangents: Any) -> Any:
            (a,), (da,) = primals, tangents
            u, p = rule(a)
            uh = adjoint(u)
            across = matmul(uh, da)
            turn = lax_linalg.sylvester(p, p, across - adjoint(across))
            beyond = da - matmul(u, across)
            du = matmul(u, turn) + adjoint(lax_linalg.linear_solve(p, adjoint(beyond)))
            return (u, p), (du, across - matmul(turn, p))

        _polar_with_derivative = rule
    return _polar_with_derivative


def solve_sylvester(A: Any, B: Any, C: Any, *, method: str = "schur", tol: float = 1e-8) -> Tensor:
    """X with A X + X B = C, by Schur forms, whichever of the methods "schur" and "eigen" is asked for."""
    if method not in ("schur", "eigen"):
        raise ValueError(f"solve_sylvester: method is 'schur' or 'eigen', not {method!r}")
    return lax_linalg.sylvester(A, B, C)


__all__ = [
    "cho_factor",
    "cho_solve",
    "cholesky",
    "det",
    "eig",
    "eigh",
    "eigh_tridiagonal",
    "eigvals",
    "eigvalsh",
    "hessenberg",
    "inv",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "norm",
    "pinv",
    "polar",
    "qr",
    "qr_multiply",
    "rsf2csf",
    "schur",
    "solve",
    "solve_sylvester",
    "solve_triangular",
    "svd",
    "svdvals",
]
