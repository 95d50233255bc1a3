"""Modified Bessel functions of order 0 and 1, and Bessel functions of the first kind.

Chebyshev series in x/4 - 1 on [0, 8] and in 16/x - 1 beyond, fitted with 40 digits; J by Miller's backward
recurrence (NIST DLMF 3.6).
"""

from __future__ import annotations

import math
from typing import Any

from lamina._core import Tensor
from lamina._tensor import astype, to_tensor
from lamina.numpy._common import compare, inexact, select
from lamina.scipy.special._common import (
    chebyshev,
    differentiable,
    ew,
    in_float64,
    in_powers,
    is_short,
    number,
    polynomial,
    safe,
)

_I0_NEAR = [
    0.33839763720473803,
    -0.3046826723431984,
    0.17162090152220877,
    -0.09490109704804764,
    0.04930528423967071,
    -0.02373741480589947,
    0.010546460394594998,
    -0.004324309995050576,
    0.0016394756169413357,
    -0.0005763755745385824,
    0.00018850288509584165,
    -5.754195010082104e-05,
    1.6448448070728896e-05,
    -4.4167383584587505e-06,
    1.1173875391201037e-06,
    -2.670793853940612e-07,
    6.046995022541919e-08,
    -1.300025009986248e-08,
    2.6598237246823866e-09,
    -5.189795601635263e-10,
    9.675809035373237e-11,
    -1.726826291441556e-11,
    2.95505266312964e-12,
    -4.856446783111929e-13,
    7.676185498604936e-14,
    -1.1685332877993451e-14,
    1.715391285555133e-15,
    -2.431279846547955e-16,
    3.3307945188222384e-17,
    -4.4153416464793395e-18,
]
_I0_FAR = [
    0.4022452055070544,
    0.0033691164782556943,
    6.889758346916825e-05,
    2.8913705208347567e-06,
    2.0489185894690638e-07,
    2.266668990498178e-08,
    3.3962320257083865e-09,
    4.94060238822497e-10,
    1.1889147107846439e-11,
    -3.1499165279632416e-11,
    -1.3215811840447713e-11,
    -1.7941785315068062e-12,
    7.180124451383666e-13,
    3.8527783827421426e-13,
    1.54008621752141e-14,
    -4.150569347287222e-14,
    -9.554846698828307e-15,
    3.8116806693526224e-15,
    1.7725601330565263e-15,
    -3.425485619677219e-16,
    -2.8276239805165836e-16,
    3.461222867697461e-17,
    4.46562142029676e-17,
    -4.830504485944182e-18,
    -7.233180487874754e-18,
    9.921475412173699e-19,
]
_I1_NEAR = [
    0.12629359322181682,
    -0.17641651835783406,
    0.1026436586898471,
    -0.05294598120809499,
    0.024726449030626516,
    -0.010564084894626197,
    0.004156422944312888,
    -0.0015135724506312532,
    0.0005122859561685758,
    -0.00016176081582589674,
    4.781565107550054e-05,
    -1.3273163656039436e-05,
    3.4702513081376785e-06,
    -8.568720264695455e-07,
    2.0032947535521353e-07,
    -4.445059128796328e-08,
    9.381537386495773e-09,
    -1.8872497517228294e-09,
    3.625590281552117e-10,
    -6.663489723502027e-11,
    1.1736186298890901e-11,
    -1.9839743977649436e-12,
    3.223793365945575e-13,
    -5.042185504727912e-14,
    7.600684294735408e-15,
    -1.1055969477353862e-15,
    1.5536319577362005e-16,
    -2.111421214358166e-17,
    2.7779141127610464e-18,
    -3.541581772542136e-19,
]
_I1_FAR = [
    0.38928811750914005,
    -0.009761097491361469,
    -0.00011058893876262371,
    -3.882564808877691e-06,
    -2.512236237870209e-07,
    -2.6314688468895196e-08,
    -3.835380385964237e-09,
    -5.589743462196584e-10,
    -1.8974958123505413e-11,
    3.2526035830154884e-11,
    1.4125807436613782e-11,
    2.0356285441470896e-12,
    -7.198551776245908e-13,
    -4.0835511110921974e-13,
    -2.1015418427726643e-14,
    4.272440016711951e-14,
    1.0420276984128802e-14,
    -3.8144030724370075e-15,
    -1.8803547755107825e-15,
    3.3082023109209285e-16,
    2.96262899764595e-16,
    -3.209525921993424e-17,
    -4.6503053684893586e-17,
    4.414348323071708e-18,
    7.517296310842105e-18,
    -9.314178867326884e-19,
]


def _series(t: Tensor, coefficients: list[float]) -> Tensor:
    """The Chebyshev series at t."""
    if is_short():
        return polynomial(t, in_powers(tuple(coefficients), 2.0**-43))
    return chebyshev(t, coefficients)


def _i0e_forward(x: Tensor) -> Tensor:
    size = ew("abs", x)
    near = compare(size, 8.0, "LE")
    low = _series(safe(size, near, 1.0) * 0.25 - 1.0, _I0_NEAR)
    y = safe(size, ew("not", near), 16.0)
    return select(near, low, _series(16.0 / y - 1.0, _I0_FAR) / ew("sqrt", y))


def _i1e_forward(x: Tensor) -> Tensor:
    size = ew("abs", x)
    near = compare(size, 8.0, "LE")
    low = _series(safe(size, near, 1.0) * 0.25 - 1.0, _I1_NEAR) * safe(size, near, 1.0)
    y = safe(size, ew("not", near), 16.0)
    out = select(near, low, _series(16.0 / y - 1.0, _I1_FAR) / ew("sqrt", y))
    return select(compare(x, 0.0, "LT"), -out, out)


def _i1_over_x(x: Tensor) -> Tensor:
    """exp(-|x|) I1(x) / x, from the series near 0, so that it has derivatives there."""
    near = compare(ew("abs", x), 1.0, "LT")
    y = safe(x, near, 0.0)
    quarter, total = y * y * 0.25, number(0, x)
    for k in range(12, -1, -1):
        total = total * quarter + 0.5 / (math.factorial(k) * math.factorial(k + 1))
    z = safe(x, ew("not", near), 2.0)
    return select(near, total * ew("exponential", -ew("abs", y)), _i1e(z) / z)


_i0e = differentiable(lambda x: _i1e(x) - ew("sign", x) * _i0e(x))(_i0e_forward)
_i1e = differentiable(lambda x: _i0e(x) - ew("sign", x) * _i1e(x) - _i1_over_x(x))(_i1e_forward)


def _grown(x: Tensor, value: Tensor) -> Tensor:
    """value exp(|x|), with the factor in two halves so that it overflows only where the product does."""
    half = ew("exponential", 0.5 * ew("abs", x))
    return value * half * half


_i0 = differentiable(lambda x: _i1(x))(lambda x: _grown(x, _i0e_forward(x)))
_i1 = differentiable(lambda x: _i0(x) - _grown(x, _i1_over_x(x)))(lambda x: _grown(x, _i1e_forward(x)))


@in_float64
def i0(x: Any) -> Tensor:
    """The modified Bessel function I0."""
    return _i0(x)


@in_float64
def i0e(x: Any) -> Tensor:
    """exp(-|x|) I0(x)."""
    return _i0e(x)


@in_float64
def i1(x: Any) -> Tensor:
    """The modified Bessel function I1."""
    return _i1(x)


@in_float64
def i1e(x: Any) -> Tensor:
    """exp(-|x|) I1(x)."""
    return _i1e(x)


def bessel_jn(z: Any, *, v: int, n_iter: int = 50) -> Tensor:
    """Bessel functions of the first kind J_0(z) ... J_v(z), stacked in front: [v + 1, *shape of z].

    By backward recurrence from order v + `n_iter`, which must lie well above |z|. `v` is a Python integer.
    """
    if v < 0:
        raise ValueError(f"bessel_jn needs an order of at least 0, not {v}")
    from lamina import numpy as lnp

    t = to_tensor(z)
    name = inexact(t).dtype.name
    x = astype(t, "float64")
    zero = compare(x, 0.0, "EQ")
    y = safe(x, ew("not", zero), 1.0)
    above, here, norm, kept = number(0, y), number(1e-280, y), number(0, y), []
    for order in range(v + n_iter, -1, -1):
        if order <= v:
            kept.append(here)
        if order % 2 == 0:
            norm = norm + (here if order == 0 else 2.0 * here)
        above, here = here, (2.0 * order) * here / y - above
    out = lnp.stack([select(zero, 1.0 if k == 0 else 0.0, j / norm) for k, j in enumerate(reversed(kept))])
    return astype(out, name)


__all__ = ["bessel_jn", "i0", "i0e", "i1", "i1e"]
