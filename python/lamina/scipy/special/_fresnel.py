"""Fresnel's integrals.

Power series near 0 (NIST DLMF 7.6.4, 7.6.6); else the auxiliary functions f and g (DLMF 7.5.3, 7.5.4), of whose
integrals (DLMF 7.7.10, 7.7.11, with t = v^2 / x^2) the trapezoidal sum with this step is exact to rounding (Trefethen,
Weideman, "The exponentially convergent trapezoidal rule", 2014: the Gaussian gives exp(-2 pi / h^2), the poles
exp(-sqrt(2) pi x / h)).
"""

from __future__ import annotations

import math
from typing import Any

from lamina._core import Tensor
from lamina.numpy._common import compare, select
from lamina.scipy.special._common import (
    Differentiable,
    differentiable,
    ew,
    in_float64,
    number,
    polynomial,
    safe,
)

_NEAR = 1.5
_STEP, _NODES = 0.18, 29
_TERMS = 18


def _square(x: Tensor) -> tuple[Tensor, Tensor]:
    """x^2 as a sum of two numbers, by Dekker's product, for an x of which 2^27 times is finite."""
    big = x * 134217729.0
    high = big - (big - x)
    low = x - high
    square = x * x
    return square, ((high * high - square) + 2.0 * high * low) + low * low


def _turn(x: Tensor) -> Tensor:
    """pi x^2 / 2, less whole turns."""
    square, rest = _square(x)
    return 0.5 * math.pi * (ew("remainder", square, number(4.0, x)) + rest)


# Their derivatives are pi x times the other's.
_sine: Differentiable = differentiable(lambda x: math.pi * x * _cosine(x))(lambda x: ew("sine", _turn(x)))
_cosine: Differentiable = differentiable(lambda x: -math.pi * x * _sine(x))(lambda x: ew("cosine", _turn(x)))


def _series(first: int) -> list[float]:
    """Coefficients of x^(4k + 2 first + 1), the highest first, of S (1) or C (0)."""
    terms = []
    for k in range(_TERMS):
        n = 2 * k + first
        terms.append((-1) ** k * (math.pi / 2) ** n / (math.factorial(n) * (2 * n + 1)))
    return terms[::-1]


def _forward(x: Tensor, sine: bool) -> Tensor:
    size = ew("abs", x)
    near, huge = compare(size, _NEAR, "LT"), compare(size, 1e15, "GT")
    v = safe(size, near, 0.0)
    fourth = v * v * v * v
    inner = polynomial(fourth, _series(sine)) * (v * v * v if sine else v)
    z = safe(size, ew("not", ew("or", near, huge)), 2.0)
    f, g = number(0, x), number(0, x)
    inverse = 1.0 / (z * z)
    for n in range(_NODES):
        s = (n * _STEP) ** 2
        weight = math.exp(-0.5 * math.pi * s) * (1.0 if n else 0.5)
        below = weight / (s * s * inverse * inverse + 1.0)
        f = f + below
        g = g + below * (s * inverse)
    scale = _STEP * math.sqrt(2) / (math.pi * z)
    f, g = f * scale, g * scale
    a, b = ew("sine", _turn(z)), ew("cosine", _turn(z))
    outer = 0.5 - f * b - g * a if sine else 0.5 + f * a - g * b
    out = select(huge, 0.5, select(near, inner, outer))
    out = select(compare(x, x, "NE"), x, out)
    return select(compare(x, 0.0, "LT"), -out, out)


_fresnel_s = differentiable(lambda x: _sine(x))(lambda x: _forward(x, True))
_fresnel_c = differentiable(lambda x: _cosine(x))(lambda x: _forward(x, False))


@in_float64
def fresnel(x: Any) -> tuple[Tensor, Tensor]:
    """(S, C): the integrals of sin(pi t^2 / 2) and cos(pi t^2 / 2) from 0 to x."""
    return _fresnel_s(x), _fresnel_c(x)


__all__ = ["fresnel"]
