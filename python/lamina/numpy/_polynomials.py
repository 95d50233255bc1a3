"""Polynomials as arrays of coefficients, the highest power first (polyval, polyadd, polymul, polyder: products)."""

from __future__ import annotations

import math
from typing import Any

from lamina._core import Tensor
from lamina.numpy._common import inexact, promote, promote_inexact
from lamina.numpy._creation import zeros
from lamina.numpy._elementwise import negative
from lamina.numpy._linear import polyadd, polymul
from lamina.numpy._shape import atleast_1d, concatenate, stack

__all__ = ["poly", "polydiv", "polyint", "polysub"]


def polysub(a1: Any, a2: Any) -> Tensor:
    """The difference of two polynomials."""
    a, b = promote(a1, a2)
    return polyadd(a, negative(b))


def polyint(p: Any, m: int = 1, k: Any = None) -> Tensor:
    """The m-th integral, with the constants `k` (one, or one per integration, the first for the first); default 0.

    ValueError for a negative m or another number of constants.
    """
    if m < 0:
        raise ValueError(f"polyint needs an order that is not negative, not {m}")
    (t,) = (atleast_1d(inexact(p)),)
    constants = atleast_1d(0.0 if k is None else k)
    if constants.size not in (1, m) and m > 0:
        raise ValueError(f"polyint: {constants.size} constants for {m} integrations")
    for i in range(m):
        powers = stack([t[j] / (t.size - j) for j in range(t.size)]) if t.size else t
        constant = constants[i if constants.size == m else 0]
        t = concatenate([powers, atleast_1d(constant).astype(t.dtype)])
    return t


def polydiv(u: Any, v: Any) -> tuple[Tensor, Tensor]:
    """(quotient, remainder) of polynomials; the remainder keeps leading zeros, as in jax.numpy."""
    a, b = promote_inexact(atleast_1d(u), atleast_1d(v))
    m, n = a.size - 1, b.size - 1
    quotient = zeros((max(m - n + 1, 1),), a.dtype)
    for k in range(m - n + 1):
        d = a[k] / b[0]
        quotient = quotient.at[k].set(d)
        a = a.at[k : k + n + 1].add(-d * b)
    return quotient, a


def poly(seq_of_zeros: Any) -> Tensor:
    """The coefficients of the polynomial with these zeros, a 1-d array; of 2-d arrays NotImplementedError."""
    t = atleast_1d(inexact(seq_of_zeros))
    if t.ndim != 1:
        raise NotImplementedError("poly of a matrix: take linalg.eigvals of it first")
    out = atleast_1d(inexact(1.0)).astype(t.dtype)
    for i in range(math.prod(t.shape)):
        out = polymul(out, stack([(t[i] * 0 + 1), -t[i]]))
    return out
