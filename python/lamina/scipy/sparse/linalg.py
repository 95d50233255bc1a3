"""Iterative solvers of linear systems A x = b: cg, bicgstab, gmres; names and meanings as in jax.scipy.sparse.linalg.

`lobpcg_standard` gives eigenvalues, as that of jax.experimental.sparse.linalg.

`A` is a square 2-d array or a linear function of containers like `b`, a container of float or complex arrays of any
shapes; x has b's structure. `x0` is the first guess (zero), `M` an approximate inverse of `A`, as an array or function.
The iteration ends when norm(b - A x) <= max(tol norm(b), atol), or after `maxiter` steps (10 times the number of
elements unless told). Derivatives are those of the exact solution (`lax.custom_linear_solve`), as good as the solves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina import _core, _missing, _results, lax
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina.flatten_util import ravel_pytree
from lamina.scipy.sparse._eigenvalues import lobpcg_standard
from lamina.tree import explain_difference, tree_map, tree_structure

__all__ = ["bicgstab", "cg", "gmres", "lobpcg_standard"]

_Map = Callable[[Tensor], Tensor]


def _linear_map(A: Any, unravel: Callable[[Tensor], Any], what: str) -> _Map:
    """`A` as a function of one flat array."""
    if callable(A):

        def apply(v: Tensor) -> Tensor:
            out = ravel_pytree(A(unravel(v)))[0]
            if out.shape != v.shape:
                raise ValueError(
                    f"{what} gives {out.size} elements for {v.size}; it maps arrays like b to such arrays"
                )
            return out

        return apply
    if len(getattr(A, "shape", ())) != 2 or A.shape[0] != A.shape[1]:
        shaped = hasattr(A, "shape")
        given, error = (f"shape {A.shape}", ValueError) if shaped else (type(A).__name__, TypeError)
        raise error(f"{what} is a square matrix or a function that applies one, not {given}")
    return lambda v: ravel_pytree(A @ unravel(v))[0]


def _norm2(x: Tensor) -> Tensor:
    return lnp.vdot(x, x).real


class _Problem:
    """The system on flat arrays."""

    def __init__(self, A: Any, b: Any, x0: Any, M: Any, tol: Any, atol: Any, maxiter: int | None) -> None:
        self.weak = tree_map(lambda t: to_tensor(t).weak_type, b)  # of numbers, whose solutions are numbers
        b = tree_map(lambda t: lnp.asarray(t) + 0.0, b)
        self.b, self.unravel = ravel_pytree(b)
        if x0 is None:
            self.x0 = lnp.zeros_like(self.b)
        else:
            if tree_structure(x0) != tree_structure(b):
                raise ValueError("x0 and b have different structures: " + explain_difference(b, x0))
            self.x0 = lnp.astype(ravel_pytree(x0)[0], self.b.dtype)
            if self.x0.shape != self.b.shape:
                raise ValueError(f"x0 has {self.x0.size} elements where b has {self.b.size}")
        self.apply = _linear_map(A, self.unravel, "A")
        self.precondition = (lambda v: v) if M is None else _linear_map(M, self.unravel, "M")
        self.tol, self.atol = tol, atol
        self.maxiter = 10 * self.b.size if maxiter is None else maxiter

    def solved(self, step: Callable[[_Map, Tensor], Tensor], symmetric: bool = False) -> Any:
        x = self.unravel(lax.custom_linear_solve(self.apply, self.b, step, step, symmetric=symmetric))
        return tree_map(_core.set_weak, x, self.weak)

    def bound(self, b: Tensor) -> Tensor:
        """The norm of a residual that is small enough."""
        return lnp.maximum(self.tol * lnp.sqrt(_norm2(b)), self.atol)


def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """(x, None) for a Hermitian positive definite `A`, by conjugate gradients.

    Hestenes, Stiefel, "Methods of conjugate gradients for solving linear systems" (1952); with `M`, which must be
    Hermitian positive definite too, algorithm 9.1 of Saad, "Iterative methods for sparse linear systems" (2003).
    """
    p = _Problem(A, b, x0, M, tol, atol, maxiter)

    def solve(apply: _Map, b: Tensor) -> Tensor:
        enough = lnp.square(p.bound(b))

        def step(state: Any) -> Any:
            x, r, d, rz, k = state
            q = apply(d)
            alpha = rz / lnp.vdot(d, q).real
            r = r - alpha * q
            z = p.precondition(r)
            new = lnp.vdot(r, z).real
            return x + alpha * d, r, z + (new / rz) * d, new, k + 1

        r = b - apply(p.x0)
        z = p.precondition(r)
        start = (p.x0, r, z, lnp.vdot(r, z).real, 0)
        return lax.while_loop(lambda s: (_norm2(s[1]) > enough) & (s[4] < p.maxiter), step, start)[0]

    return p.solved(solve, symmetric=p.b.dtype.kind != "c"), None


def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,
) -> tuple[Any, None]:
    """(x, None) for any regular `A`, by stabilized biconjugate gradients.

    Van der Vorst, "Bi-CGSTAB: a fast and smoothly converging variant of Bi-CG" (1992), with `M` from the right. It ends
    early where the recurrence breaks down.
    """
    p = _Problem(A, b, x0, M, tol, atol, maxiter)

    def solve(apply: _Map, b: Tensor) -> Tensor:
        enough = lnp.square(p.bound(b))

        def step(state: Any) -> Any:
            x, r, shadow, d, q, rho, alpha, omega, k, _ = state
            new = lnp.vdot(shadow, r)
            d = r + (new / rho * alpha / omega) * (d - omega * q)
            d_hat = p.precondition(d)
            q = apply(d_hat)
            alpha = new / lnp.vdot(shadow, q)
            s = r - alpha * q
            early = _norm2(s) < enough
            s_hat = p.precondition(s)
            t = apply(s_hat)
            omega = lnp.where(early, 1.0, lnp.vdot(t, s) / lnp.vdot(t, t))
            x = x + alpha * d_hat + lnp.where(early, 0.0, omega) * s_hat
            r = lnp.where(early, s, s - omega * t)
            broken = (new == 0) | (alpha == 0) | (omega == 0)
            return x, r, shadow, d, q, new, alpha, omega, k + 1, broken

        r = b - apply(p.x0)
        one = lnp.ones((), b.dtype)
        start = (p.x0, r, r, lnp.zeros_like(r), lnp.zeros_like(r), one, one, one, 0, False)
        go_on = lambda s: (_norm2(s[1]) > enough) & (s[8] < p.maxiter) & ~s[9]  # noqa: E731
        return lax.while_loop(go_on, step, start)[0]

    return p.solved(solve), None


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,
    solve_method: str = "batched",
) -> tuple[Any, Tensor]:
    """(x, info) for any regular `A`, by generalized minimal residuals; info is 0, or -1 if x is not finite.

    Saad, Schultz, "GMRES: a generalized minimal residual algorithm" (1986), with `M` from the left, started anew after
    `restart` vectors; `maxiter` counts these starts. The basis is orthogonalized twice by classical Gram-Schmidt and the
    least squares problem solved by QR at the end of each start, for either `solve_method` ("batched", "incremental").
    """
    if solve_method not in ("batched", "incremental"):
        raise ValueError(f"solve_method is 'batched' or 'incremental', not {solve_method!r}")
    p = _Problem(A, b, x0, M, tol, atol, maxiter)
    m = max(1, min(restart, p.b.size))

    def cycle(apply: _Map, b: Tensor, x: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        eps = lnp.finfo(b.dtype).eps
        beta = lnp.sqrt(_norm2(r))
        first = lnp.where(beta > 0, r / lnp.where(beta > 0, beta, 1.0), 0.0)
        basis = lnp.zeros((m + 1, b.size), b.dtype).at[0].set(first)

        def arnoldi(k: Any, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
            basis, h = state
            w = p.precondition(apply(basis[k]))
            size = lnp.sqrt(_norm2(w))
            overlap = lnp.conj(basis) @ w
            w = w - overlap @ basis
            again = lnp.conj(basis) @ w
            w = w - again @ basis
            rest = lnp.sqrt(_norm2(w))
            more = rest > eps * size  # else the space is invariant, and the solution in it
            rest = lnp.where(more, rest, 0.0)
            column = (overlap + again).at[k + 1].set(lnp.astype(rest, b.dtype))
            # A column of no vector is a unit vector, which keeps the small problem regular.
            known = lnp.any(basis[k] != 0)
            column = lnp.where(known, column, lnp.eye(m + 1, dtype=b.dtype)[k])
            w = lnp.where(more, w / lnp.where(more, rest, 1.0), 0.0)
            return basis.at[k + 1].set(w), h.at[:, k].set(column)

        basis, h = lax.fori_loop(0, m, arnoldi, (basis, lnp.zeros((m + 1, m), b.dtype)))
        q, upper = lnp.linalg.qr(h)
        y = lnp.linalg.solve(upper, lnp.conj(q[0]) * beta)
        x = x + y @ basis[:-1]
        return x, p.precondition(b - apply(x))

    def solve(apply: _Map, b: Tensor) -> Tensor:
        size, scale = lnp.sqrt(_norm2(b)), lnp.sqrt(_norm2(p.precondition(b)))
        # The preconditioned residual is measured on the preconditioned scale.
        enough = p.bound(b) * lnp.where(size > 0, scale / lnp.where(size > 0, size, 1.0), 1.0)

        def step(state: Any) -> Any:
            x, r, k = state
            return *cycle(apply, b, x, r), k + 1

        start = (p.x0, p.precondition(b - apply(p.x0)), 0)
        go_on = lambda s: (lnp.sqrt(_norm2(s[1])) > enough) & (s[2] < p.maxiter)  # noqa: E731
        return lax.while_loop(go_on, step, start)[0]

    x = p.solved(solve)
    return x, lnp.where(lnp.all(lnp.isfinite(to_tensor(ravel_pytree(x)[0]))), 0, -1)


_results.own(globals())
__getattr__ = _missing.attributes("lamina.scipy.sparse.linalg")
