"""Functions of matrices: exponential, square root and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina import _core
from lamina._core import Tensor
from lamina._indexing import getitem
from lamina._tensor import to_tensor
from lamina.lax import linalg as lax_linalg
from lamina.numpy import linalg
from lamina.numpy._elementwise import imag, real
from lamina.numpy._linear import matmul


def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 32) -> Tensor:
    """The exponential of square matrices, by scaling and squaring (Higham 2005).

    NaN where more than `max_squarings` squarings are needed, beyond a 1-norm of 5.37 * 2^max_squarings.
    `upper_triangular` is a hint without effect.
    """
    (a,), wanted = lax_linalg.matrices("expm", A, square=True)
    return lax_linalg.restored(_core.linalg("expm", [a], max_squarings)[0], wanted)


def expm_frechet(A: Any, E: Any, *, method: str | None = None, compute_expm: bool = True) -> Any:
    """(exponential of A, its derivative at A along E), or only the derivative without `compute_expm`."""
    from lamina._transforms import jvp
    from lamina.numpy._common import promote_inexact

    if method not in (None, "SPS", "blockEnlarge"):
        raise ValueError(f"expm_frechet: the method is None, not {method!r}")
    a, e = promote_inexact(A, E)
    value, change = jvp(expm, (a,), (e,))
    return (value, change) if compute_expm else change


def _turned(A: Any, what: str) -> tuple[Tensor, Tensor, bool]:
    """exp(iA), exp(-iA), and whether A is complex."""
    (a,), _ = lax_linalg.matrices(what, A, square=True)
    return expm(1j * a), expm(-1j * a), a.dtype.kind == "c"


def cosm(A: Any) -> Tensor:
    """The cosine of square matrices."""
    up, down, is_complex = _turned(A, "cosm")
    return (up + down) / 2 if is_complex else real(up)


def sinm(A: Any) -> Tensor:
    """The sine of square matrices."""
    up, down, is_complex = _turned(A, "sinm")
    return (up - down) / 2j if is_complex else imag(up)


def coshm(A: Any) -> Tensor:
    """The hyperbolic cosine of square matrices."""
    return (expm(A) + expm(-to_tensor(A))) / 2


def sinhm(A: Any) -> Tensor:
    """The hyperbolic sine of square matrices."""
    return (expm(A) - expm(-to_tensor(A))) / 2


def sqrtm(A: Any, blocksize: int = 1) -> Tensor:
    """The principal square root of square matrices, always complex (whether it is real depends on values).

    By the Schur form (Bjorck and Hammarling 1983); the derivative solves Sylvester's equation.
    """
    return lax_linalg.principal_root(A)


def funm(A: Any, func: Callable[[Tensor], Tensor], disp: bool = True) -> Any:
    """The function of square matrices that applies `func` to their eigenvalues, complex.

    By eigenvectors: A must have a basis of them, and precision is lost as far as that is ill-conditioned. Without
    `disp` (result, estimated error).
    """
    w, v = linalg.eig(A)
    values = func(w)
    out = matmul(v * getitem(values, (Ellipsis, None, slice(None))), linalg.inv(v))
    if disp:
        return out
    rest = matmul(v * getitem(w, (Ellipsis, None, slice(None))), linalg.inv(v)) - to_tensor(A)
    return out, linalg.norm(rest, 1, (-2, -1)) / linalg.norm(to_tensor(A), 1, (-2, -1))


__all__ = ["coshm", "cosm", "expm", "expm_frechet", "funm", "sinhm", "sinm", "sqrtm"]
