"""Polynomials as arrays of coefficients, the highest power first (polyval, polyadd, polymul, polyder: products)."""

from __future__ import annotations

import math
import operator
from typing import Any

from lamina._core import Tensor
from lamina._tensor import as_type
from lamina.numpy._common import inexact, promote, promote_inexact
from lamina.numpy._creation import arange, zeros
from lamina.numpy._elementwise import negative
from lamina.numpy._linear import polyadd, polymul
from lamina.numpy._shape import atleast_1d, concatenate, stack, trim_zeros

_MOST_INTEGRALS = 1000

__all__ = ["poly", "polydiv", "polyfit", "polyint", "polysub", "roots"]


def polysub(a1: Any, a2: Any) -> Tensor:
    """The difference of two polynomials."""
    a, b = promote(a1, a2)
    return polyadd(a, negative(b))


def polyint(p: Any, m: int = 1, k: Any = None) -> Tensor:
    """The m-th integral, with the constants `k` (one, or one per integration, the first for the first); default 0.

    ValueError for a negative m, one above 1000, whose factorial divides everything to 0, or another number of
    constants.
    """
    m = operator.index(m)
    if not 0 <= m <= _MOST_INTEGRALS:
        raise ValueError(f"polyint needs an order from 0 to {_MOST_INTEGRALS}, not {m}")
    t = atleast_1d(inexact(p))
    constants = atleast_1d(as_type(0.0 if k is None else k, t.dtype))
    if constants.size not in (1, m) and m > 0:
        raise ValueError(f"polyint: {constants.size} constants for {m} integrations")
    for i in range(m):
        constant = constants[i if constants.size == m else 0]
        t = concatenate([t / arange(t.size, 0, -1, dtype=t.dtype), atleast_1d(constant)])
    return t


def polydiv(u: Any, v: Any, *, trim_leading_zeros: bool = False) -> tuple[Tensor, Tensor]:
    """(quotient, remainder) of polynomials; the remainder keeps leading zeros, as in jax.numpy, unless told."""
    a, b = map(atleast_1d, promote_inexact(u, v))
    m, n = a.size - 1, b.size - 1
    quotient = zeros((max(m - n + 1, 1),), a.dtype)
    for k in range(m - n + 1):
        d = a[k] / b[0]
        quotient = quotient.at[k].set(d)
        a = a.at[k : k + n + 1].add(-d * b)
    return quotient, trim_zeros(a, "f") if trim_leading_zeros else a


def poly(seq_of_zeros: Any) -> Tensor:
    """The coefficients of the polynomial with these zeros, a 1-d array; or the characteristic one of a square matrix.

    Without zeros it is the number 1.
    """
    t = atleast_1d(inexact(seq_of_zeros))
    if t.shape == (0,):
        return inexact(1.0).astype(t.dtype)
    if t.ndim == 2:
        from lamina.numpy import linalg

        t = linalg.eigvals(t)
    if t.ndim != 1:
        raise ValueError(f"poly needs zeros or a square matrix, not shape {t.shape}")
    out = atleast_1d(inexact(1.0)).astype(t.dtype)
    for i in range(math.prod(t.shape)):
        out = polymul(out, stack([(t[i] * 0 + 1), -t[i]]))
    return out


def polyfit(
    x: Any, y: Any, deg: int, rcond: float | None = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """The coefficients, the highest power first, of the polynomial of degree `deg` that fits y(x) best: [deg + 1(, k)].

    `y` is [n] or [n, k]; `w` weights the residuals. With `full`: (coefficients, residuals, rank, singular values,
    rcond), with `cov`: (coefficients, their covariance). TypeError for arrays of other dimensions.
    """
    from lamina import numpy as lnp

    deg = operator.index(deg)
    xs, ys = promote_inexact(x, y)
    if deg < 0:
        raise ValueError(f"polyfit: expected deg >= 0, not {deg}")
    if xs.ndim != 1 or ys.ndim not in (1, 2) or xs.shape[0] != ys.shape[0]:
        raise TypeError(f"polyfit needs x [n] and y [n] or [n, k], not {xs.shape} and {ys.shape}")
    if rcond is None:
        rcond = xs.size * float(lnp.finfo(xs.dtype).eps)
    lhs, rhs = lnp.vander(xs, deg + 1), ys
    if w is not None:
        weights = inexact(w)
        if weights.shape != xs.shape:
            raise TypeError(f"polyfit: weights of shape {weights.shape} for x of shape {xs.shape}")
        lhs = lhs * weights[:, None]
        rhs = rhs * (weights[:, None] if rhs.ndim == 2 else weights)
    scale = lnp.sqrt((lhs * lhs).sum(0))
    c, residuals, rank, singular = lnp.linalg.lstsq(lhs / scale, rhs, rcond)
    c = c / (scale[:, None] if c.ndim == 2 else scale)
    if full:
        return c, residuals, rank, singular, rcond
    if not cov:
        return c
    base = lnp.linalg.inv(lhs.T @ lhs)
    if cov == "unscaled":
        factor = 1.0
    else:
        if xs.size <= deg + 1:
            raise ValueError(
                f"polyfit: {xs.size} points are too few for the covariance of {deg + 1} coefficients"
            )
        gap = rhs - lhs @ c
        factor = (gap * gap).sum(0) / (xs.size - deg - 1)
    return c, (base[..., None] if rhs.ndim == 2 else base) * factor


def roots(p: Any, *, strip_zeros: bool = True) -> Tensor:
    """The zeros of a polynomial, complex, as the eigenvalues of its companion matrix.

    Leading and trailing zeros are left out (the latter are zeros of the polynomial), for which the values must be
    known (TypeError inside a jit or vmap); without `strip_zeros` there is a NaN at the end for each leading one.
    """
    from lamina import numpy as lnp
    from lamina.numpy._common import host

    t = atleast_1d(inexact(p))
    if t.ndim != 1:
        raise ValueError(f"roots needs a vector of coefficients, not shape {t.shape}")
    trailing = 0
    if strip_zeros:
        nonzero = [i for i, c in enumerate(host(t, "roots without strip_zeros=False", places=True)) if c != 0]
        if not nonzero:
            return zeros((0,), "complex128" if t.dtype in ("float64", "complex128") else "complex64")
        trailing = t.size - 1 - nonzero[-1]
        t = t[nonzero[0] : nonzero[-1] + 1]
    n = t.size - 1
    kind = "complex128" if t.dtype in ("float64", "complex128") else "complex64"
    found = zeros((0,), kind)
    if n > 0 and not strip_zeros:
        leading = lnp.cumprod(t == 0).sum()
        turned = lnp.where(leading > n, lnp.eye(n + 1, dtype=t.dtype)[0], lnp.roll(t, -leading))
        companion = lnp.eye(n, k=-1, dtype=t.dtype).at[0].set(-turned[1:] / turned[0])
        # Behind the others are the zeros that the leading ones make where they come last.
        values = lnp.linalg.eigvals(companion).astype(kind)
        values = values[lnp.argsort(values == 0, stable=True)]
        found = lnp.where(lnp.arange(n) < n - leading, values, complex(math.nan, math.nan))
    elif n > 0:
        companion = lnp.eye(n, k=-1, dtype=t.dtype).at[0].set(-t[1:] / t[0])
        found = lnp.linalg.eigvals(companion).astype(kind)
    return concatenate([found, zeros((trailing,), kind)])
