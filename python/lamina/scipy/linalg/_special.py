"""Matrices with a structure: of Toeplitz, Hilbert, Pascal and others."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from lamina import dtypes
from lamina._core import Tensor
from lamina._indexing import getitem, reshape
from lamina._tensor import describe, to_tensor
from lamina.numpy._common import as_operands, broadcast_shapes, default_float, iota, promote, promote_inexact
from lamina.numpy._creation import array, eye, zeros
from lamina.numpy._elementwise import bitwise_count, conj, sqrt, where
from lamina.numpy._padding import pad
from lamina.numpy._shape import broadcast_to, concatenate, flip, stack

# More rows fill no memory there is; with more of exact integers Python is busy for minutes.
_MOST_ROWS, _MOST_EXACT, _MOST_EXACT_PRODUCTS = 2**24, 1000, 250


def _rows(n: Any, what: str, most: int = _MOST_ROWS, least: int = 0) -> int:
    """A number of rows. ValueError outside least ... most; MemoryError where none would do."""
    n = operator.index(n)
    if n < least:
        raise ValueError(f"{what}: n is at least {least}, not {n}")
    if n > _MOST_ROWS:
        raise MemoryError(f"{what} of {n} rows and columns does not fit in memory")
    if n > most:
        raise ValueError(f"{what} is made of exact integers, with at most {most} rows, not {n}")
    return n


def block_diag(*arrs: Any) -> Tensor:
    """The matrix with the given ones (numbers and vectors are rows) along its diagonal, batches broadcast."""
    ts = promote(*arrs) if arrs else [zeros((1, 0))]
    ts = [reshape(t, (1,) * (2 - t.ndim) + t.shape) if t.ndim < 2 else t for t in ts]
    lead = broadcast_shapes(*[t.shape[:-2] for t in ts])
    width, at, rows = sum(t.shape[-1] for t in ts), 0, []
    for t in ts:
        t = broadcast_to(t, (*lead, *t.shape[-2:]))
        rows.append(pad(t, [(0, 0)] * (t.ndim - 1) + [(at, width - at - t.shape[-1])]))
        at += t.shape[-1]
    return concatenate(rows, -2)


def _by_index(v: Tensor, index: Tensor) -> Tensor:
    """Elements of the last dimension of `v` by a matrix of indices."""
    from lamina.numpy._sorting import take

    return take(v, index, -1)


def _vector(x: Any, what: str) -> Tensor:
    t = to_tensor(x)
    if t.ndim < 1:
        t = reshape(t, (1,))
    if t.shape[-1] == 0 and what not in ("toeplitz", "hankel", "circulant"):
        raise ValueError(f"{what} needs a vector of at least one element, not {describe(t)}")
    return t


def _places(m: int, n: int) -> tuple[Tensor, Tensor]:
    return iota("int32", [m, n], 0), iota("int32", [m, n], 1)


def toeplitz(c: Any, r: Any = None) -> Tensor:
    """The matrix with first column c and first row r (conj(c) if not given) whose diagonals are constant."""
    c, r = (c, r) if r is None else as_operands(c, r)
    column = _vector(c, "toeplitz")
    column, row = promote(column, conj(column) if r is None else _vector(r, "toeplitz"))
    m, n = column.shape[-1], row.shape[-1]
    lead = broadcast_shapes(column.shape[:-1], row.shape[:-1])
    if m == 0 or n == 0:
        return zeros((*lead, m, n), column.dtype)
    column, row = broadcast_to(column, (*lead, m)), broadcast_to(row, (*lead, n))
    line = concatenate([flip(column, -1), getitem(row, (Ellipsis, slice(1, None)))], -1)
    i, j = _places(m, n)
    return _by_index(line, j - i + (m - 1))


def hankel(c: Any, r: Any = None) -> Tensor:
    """The matrix with first column c and last row r (zeros if not given) whose antidiagonals are constant."""
    c, r = (c, r) if r is None else as_operands(c, r)
    column = _vector(c, "hankel")
    column, row = promote(column, column * 0 if r is None else _vector(r, "hankel"))
    lead = broadcast_shapes(column.shape[:-1], row.shape[:-1])
    column, row = (broadcast_to(v, (*lead, v.shape[-1])) for v in (column, row))
    line = concatenate([column, getitem(row, (Ellipsis, slice(1, None)))], -1)
    i, j = _places(column.shape[-1], row.shape[-1])
    return _by_index(line, i + j)


def circulant(c: Any) -> Tensor:
    """The square matrix with first column c whose columns are turned by one place each."""
    v = _vector(c, "circulant")
    n = v.shape[-1]
    i, j = _places(n, n)
    return _by_index(v, (i - j) % max(n, 1))


def companion(a: Any) -> Tensor:
    """The matrix whose eigenvalues are the roots of the polynomial with coefficients a, the highest first."""
    (v,) = promote_inexact(a)
    n = v.shape[-1]
    if v.ndim < 1 or n < 2:
        raise ValueError(f"companion needs at least two coefficients, not {describe(v)}")
    top = -getitem(v, (Ellipsis, slice(1, None))) / getitem(v, (Ellipsis, slice(0, 1)))
    top = reshape(top, (*top.shape[:-1], 1, n - 1))
    below = broadcast_to(eye(n - 2, n - 1, dtype=v.dtype), (*v.shape[:-1], n - 2, n - 1))
    return concatenate([top, below], -2)


def fiedler(a: Any) -> Tensor:
    """The symmetric matrix of |a_i - a_j|."""
    v = to_tensor(a)
    return abs(reshape(v, (*v.shape, 1)) - reshape(v, (*v.shape[:-1], 1, v.shape[-1])))


def fiedler_companion(a: Any) -> Tensor:
    """A pentadiagonal matrix with the eigenvalues of `companion`; the last dimension of `a` holds the coefficients."""
    (v,) = promote_inexact(a)
    if v.ndim < 1:
        raise ValueError(f"fiedler_companion needs coefficients, not {describe(v)}")
    if v.shape[-1] == 0:
        raise ValueError(f"fiedler_companion needs a leading coefficient, and there is none in {describe(v)}")
    n = v.shape[-1] - 1
    if n < 1:
        return zeros((*v.shape[:-1], 0, 0), v.dtype)
    v = v / getitem(v, (Ellipsis, slice(0, 1)))
    if n == 1:
        return reshape(-getitem(v, (Ellipsis, 1)), (*v.shape[:-1], 1, 1))
    # Coefficients stand beside the diagonal, above it in even rows and below it in odd columns; ones two places off.
    coefficient = {(0, 0): 1, **{(i, i + 1): i + 2 for i in range(0, n - 1, 2)}}
    coefficient |= {(j + 1, j): j + 2 for j in range(1, n - 1, 2)}
    ones = {(1, 0), *((i, i + 2) for i in range(0, n - 2, 2)), *((j + 2, j) for j in range(1, n - 2, 2))}
    places = [(i, j) for i in range(n) for j in range(n)]
    terms = [
        -getitem(v, (Ellipsis, coefficient[at]))
        if at in coefficient
        else getitem(v, (Ellipsis, 0)) * (at in ones)
        for at in places
    ]
    return reshape(stack(terms, -1), (*v.shape[:-1], n, n))


def convolution_matrix(a: Any, n: int, mode: str = "full") -> Tensor:
    """The matrix m with m @ v = convolve(a, v, mode) for vectors v of n elements."""
    if to_tensor(a).ndim == 0:
        raise ValueError(f"convolution_matrix needs a vector, not a number: {a!r}")
    v, n = _vector(a, "convolution_matrix"), operator.index(n)
    if n <= 0:
        raise ValueError(f"convolution_matrix: n is at least 1, not {n}")
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"convolution_matrix: mode is 'full', 'same' or 'valid', not {mode!r}")
    m = v.shape[-1]
    i, j = _places(m + n - 1, n)
    at = i - j
    inside = (at >= 0) & (at < m)
    whole = where(inside, _by_index(v, where(inside, at, 0)), 0)
    length = {"full": m + n - 1, "same": max(m, n), "valid": max(m, n) - min(m, n) + 1}[mode]
    first = (m + n - 1 - length) // 2
    return getitem(whole, (Ellipsis, slice(first, first + length), slice(None)))


def dft(n: int, scale: str | None = None, *, dtype: Any = None) -> Tensor:
    """The matrix of the Fourier transform of n elements; scale "sqrtn" or "n": divided by it."""
    if scale not in (None, "sqrtn", "n"):
        raise ValueError(f"dft: scale is None, 'sqrtn' or 'n', not {scale!r}")
    if dtype is not None and dtypes.canonical(dtype).kind != "c":
        raise ValueError(f"dft: dtype is a complex type, not {dtypes.name_of(dtype)}")
    n = _rows(n, "dft")
    divisor = {None: 1.0, "sqrtn": math.sqrt(n), "n": float(n)}[scale]
    roots = array([complex(*_root(k, n)) / divisor for k in range(n)], dtype or complex)
    i, j = (at.astype("int64") for at in _places(n, n))
    return _by_index(roots, i * j % max(n, 1))


def _root(k: int, n: int) -> tuple[float, float]:
    if 4 * k % n == 0:
        return ((1.0, 0.0), (0.0, -1.0), (-1.0, 0.0), (0.0, 1.0))[4 * k // n]
    return math.cos(2 * math.pi * k / n), -math.sin(2 * math.pi * k / n)


def hadamard(n: int, dtype: Any = int) -> Tensor:
    """Sylvester's matrix of ones and minus ones with orthogonal rows, for n a power of two."""
    n = _rows(n, "hadamard", least=1)
    if n & (n - 1):
        raise ValueError(f"hadamard: n is a power of two, not {n}")
    i, j = _places(n, n)
    return (1 - 2 * (bitwise_count(i & j).astype("int32") & 1)).astype(dtype)


def helmert(n: int, full: bool = False) -> Tensor:
    """Helmert's matrix of n columns, without its constant first row unless `full`."""
    n = _rows(n, "helmert", least=1)
    i, j = (at.astype("float64") for at in _places(n, n))
    rows = where(j < i, 1, where(j == i, -i, 0)) / sqrt(i * (i + 1))
    rows = where(i == 0, 1 / math.sqrt(n), rows).astype(default_float())
    return rows if full else rows[1:]


def hilbert(n: int) -> Tensor:
    """The matrix of 1 / (i + j + 1)."""
    n = _rows(n, "hilbert")
    i, j = _places(n, n)
    return 1 / (i + j + 1).astype(default_float())


def _of_integers(rows: Sequence[Sequence[int]]) -> Tensor:
    """The matrix of these numbers as floats, infinite where they are too large."""

    def rounded(x: int) -> float:
        try:
            return float(x)
        except OverflowError:
            return math.inf if x > 0 else -math.inf

    if not rows:
        return zeros((0, 0))
    return array([[rounded(x) for x in row] for row in rows], "float64").astype(default_float())


def invhilbert(n: int) -> Tensor:
    """The inverse of `hilbert`, of integers rounded to floats. ValueError for more than 1000 rows."""
    n, c = _rows(n, "invhilbert", _MOST_EXACT), math.comb
    return _of_integers(
        [
            [
                (-1) ** (i + j) * (i + j + 1) * c(n + i, n - j - 1) * c(n + j, n - i - 1) * c(i + j, i) ** 2
                for j in range(n)
            ]
            for i in range(n)
        ]
    )


def _triangle(n: int, kind: str | None, what: str, signed: bool) -> Tensor:
    n = _rows(n, what, _MOST_EXACT_PRODUCTS if signed else _MOST_EXACT)
    if kind not in (None, "symmetric", "lower", "upper"):
        raise ValueError(f"{what}: kind is 'symmetric', 'lower' or 'upper', not {kind!r}")
    low = [[math.comb(i, j) * ((-1) ** (i + j) if signed else 1) for j in range(n)] for i in range(n)]
    up = [list(column) for column in zip(*low)]
    if kind in ("lower", "upper"):
        return _of_integers(low if kind == "lower" else up)
    if not signed:
        return _of_integers([[math.comb(i + j, i) for j in range(n)] for i in range(n)])
    return _of_integers([[sum(x * y for x, y in zip(row, column)) for column in up] for row in up])


def pascal(n: int, kind: str | None = None) -> Tensor:
    """Pascal's matrix of binomial coefficients, as floats: symmetric, or its lower or upper triangle.

    ValueError for more than 1000 rows.
    """
    return _triangle(n, kind, "pascal", False)


def invpascal(n: int, kind: str | None = None) -> Tensor:
    """The inverse of `pascal`. ValueError for more than 250 rows."""
    return _triangle(n, kind, "invpascal", True)


def leslie(f: Any, s: Any) -> Tensor:
    """The matrix of a population with birth rates f and survival rates s.

    ValueError unless there is one birth rate more, and a survival rate.
    """
    births, survivals = (reshape(x, (1,)) if x.ndim == 0 else x for x in promote_inexact(f, s))
    if survivals.shape[-1] == 0:
        raise ValueError(
            f"leslie needs birth rates and at least one survival rate, not {describe(births)} and {describe(survivals)}"
        )
    n = births.shape[-1]
    if survivals.shape[-1] != n - 1:
        raise ValueError(
            f"leslie needs one survival rate less than birth rates, not {n} and {survivals.shape[-1]}"
        )
    i, j = _places(n, n)
    below = pad(survivals, [(0, 0)] * (survivals.ndim - 1) + [(0, 1)])
    first = reshape(births, (*births.shape[:-1], 1, n))
    return where(i == 0, first, where(i == j + 1, reshape(below, (*below.shape[:-1], 1, n)), 0))


__all__ = [
    "block_diag",
    "circulant",
    "companion",
    "convolution_matrix",
    "dft",
    "fiedler",
    "fiedler_companion",
    "hadamard",
    "hankel",
    "helmert",
    "hilbert",
    "invhilbert",
    "invpascal",
    "leslie",
    "pascal",
    "toeplitz",
]
