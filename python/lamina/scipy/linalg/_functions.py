"""Functions of matrices: exponential, square root and others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lamina._core import Tensor
from lamina._indexing import getitem, reshape
from lamina._tensor import to_tensor
from lamina.lax import linalg as lax_linalg
from lamina.numpy import _reductions, linalg
from lamina.numpy._creation import eye
from lamina.numpy._elementwise import abs as abs_
from lamina.numpy._elementwise import ceil, exp2, imag, log2, maximum, real, where
from lamina.numpy._linear import matmul

# Numerator of the Pade approximant of degree 13, and the 1-norm up to which it is exact to double precision
# (Higham, The scaling and squaring method for the matrix exponential revisited, 2005, table 2.3).
_PADE = (
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
)
_LARGEST = 5.371920351148152


def expm(A: Any, *, upper_triangular: bool = False, max_squarings: int = 32) -> Tensor:
    """The exponential of square matrices, by scaling and squaring (Higham 2005).

    NaN where more than `max_squarings` squarings are needed, beyond a 1-norm of 5.37 * 2^max_squarings.
    `upper_triangular` is a hint without effect.
    """
    from lamina.lax._control import scan
    from lamina.numpy._common import iota

    (a,), wanted = lax_linalg.matrices("expm", A, square=True)
    n = a.shape[-1]
    if n == 0:
        return to_tensor(A)
    identity = eye(n, dtype=a.dtype)
    size = _reductions.max(_reductions.sum(abs_(a), -2), -1)
    finite = size < math.inf
    ratio = where(finite & (size > _LARGEST), size / _LARGEST, 1)
    from lamina.lax._elementwise import stop_gradient

    squarings = stop_gradient(maximum(ceil(log2(ratio)), 0))
    each = lambda v: reshape(v, (*v.shape, 1, 1))  # noqa: E731
    scaled = a * each(exp2(-squarings)).astype(a.dtype)
    b = _PADE
    a2 = matmul(scaled, scaled)
    a4 = matmul(a2, a2)
    a6 = matmul(a4, a2)
    high = matmul(a6, b[13] * a6 + b[11] * a4 + b[9] * a2)
    odd = matmul(scaled, high + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * identity)
    even = (
        matmul(a6, b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * identity
    )
    power = lax_linalg.linear_solve(even - odd, even + odd)

    def squared(x: Tensor, k: Tensor) -> Any:
        more = each(squarings > k.astype(squarings.dtype))
        # Matrices that are done are not squared: what overflows there would make derivatives NaN.
        base = where(more, x, 0)
        return where(more, matmul(base, base), x), None

    if max_squarings > 0:
        power, _ = scan(squared, power, iota("int32", [max_squarings], 0))
    return lax_linalg.restored(where(each(squarings > max_squarings), math.nan, power), wanted)


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
