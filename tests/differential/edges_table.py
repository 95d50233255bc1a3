"""Where derivatives go wrong: one row per differentiable function, with its mathematical form in mpmath.

A row's points are zeros of both signs, ties, branch points, large values and infinities. Where the function is
smooth the wanted derivatives are mpmath's; at the ends of its domain and at infinities they are the limits from
inside; at a kink they are the convention that the row states (JAX's where it has one).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax.lax as jlax
import jax.nn as jnn
import jax.numpy as jnp
import lamina.numpy as lnp
import mpmath as mp
import numpy as np
from lamina import lax, nn

INF = float("inf")
NAN = float("nan")
USUAL = (0.0, -0.0, 1e-9, -1e-9, 0.5, -0.5, 1.0, -1.0, 2.5, -2.5, 19.0, -19.0, 40.0, -40.0, INF, -INF)
MODULES = {"numpy": lnp, "lax": lax, "nn": nn}


@dataclass(frozen=True, eq=False)
class Unary:
    """A function of one number. `kinks` gives (f', f'', f''') where there is no derivative by the convention
    `because`; `limits` the same where the limit is known better than by going near."""

    names: str  # module.name, space-separated: aliases and twins
    form: Callable[[Any], Any]
    points: tuple[float, ...] = USUAL
    low: float = -INF
    high: float = INF
    kinks: dict[float, tuple[float, ...]] = field(default_factory=dict)
    because: str = ""
    call: Callable[..., Any] | None = None  # the function with further arguments; takes it and x
    orders: int = 3
    rtol: float = 1e-12
    atol: float = 1e-15
    nan_at: tuple[float, ...] = ()  # where no limit exists
    # Order from which infinities (or the ends of the domain) give NaN, never a wrong number, for the limit: there
    # the factors are infinity and 0, as they are in JAX.
    nan_from: dict[float, int] = field(default_factory=dict)


def _gelu(x):
    return x * (1 + mp.tanh(mp.sqrt(2 / mp.pi) * (x + mp.mpf(0.044715) * x**3))) / 2


def _piece(*cases: Any) -> Callable[[Any], Any]:
    """The first form whose condition holds: (condition, form), ..., form."""

    def f(x: Any) -> Any:
        for condition, form in cases[:-1]:
            if condition(x):
                return form(x)
        return cases[-1](x)

    return f


def _elu(names: str, alpha: float | None, width: float = 1.0) -> Unary:
    """x above 0, alpha * (exp(x / width) - 1) below, called with `alpha` unless that is None and 1."""
    height = alpha or 1.0
    return Unary(
        names,
        _piece((lambda x: x > 0, lambda x: x), lambda x: height * mp.expm1(x / width)),
        call=None if alpha is None else lambda f, x: f(x, alpha),
        kinks={0.0: tuple(height / width**n for n in (1, 2, 3))},
        because="from below",
    )


_zero = lambda x: x * 0  # noqa: E731
_softplus = lambda x: mp.log1p(mp.exp(x)) if x < 0 else x + mp.log1p(mp.exp(-x))  # noqa: E731
ALPHA, SCALE = mp.mpf("1.6732632423543772"), mp.mpf("1.0507009873554805")

FLAT = "steps have derivative 0, at the steps too"
BOTH_FROM_2 = {INF: 2, -INF: 2}
BOTH_FROM_1 = {INF: 1, -INF: 1}
UNARY = [
    Unary("numpy.exp lax.exp", mp.exp),
    Unary("numpy.exp2 lax.exp2", lambda x: mp.mpf(2) ** x),
    Unary("numpy.expm1 lax.expm1", mp.expm1),
    Unary("numpy.log lax.log", mp.log, low=0),
    Unary("numpy.log2", lambda x: mp.log(x, 2), low=0),
    Unary("numpy.log10", mp.log10, low=0),
    Unary("numpy.log1p lax.log1p", mp.log1p, low=-1),
    Unary("numpy.sin lax.sin", mp.sin, nan_at=(INF, -INF)),
    Unary("numpy.cos lax.cos", mp.cos, nan_at=(INF, -INF)),
    Unary("numpy.tan lax.tan", mp.tan, nan_at=(INF, -INF)),
    Unary("numpy.arcsin numpy.asin lax.asin", mp.asin, low=-1, high=1),
    Unary("numpy.arccos numpy.acos lax.acos", mp.acos, low=-1, high=1),
    Unary("numpy.arctan numpy.atan lax.atan", mp.atan, nan_from=BOTH_FROM_2),
    Unary("numpy.sinh lax.sinh", mp.sinh),
    Unary("numpy.cosh lax.cosh", mp.cosh),
    Unary("numpy.tanh lax.tanh nn.tanh", mp.tanh),
    Unary("numpy.arcsinh numpy.asinh lax.asinh", mp.asinh, nan_from=BOTH_FROM_2),
    Unary("numpy.arccosh numpy.acosh lax.acosh", mp.acosh, low=1),
    Unary("numpy.arctanh numpy.atanh lax.atanh", mp.atanh, low=-1, high=1, nan_from={1.0: 2, -1.0: 2}),
    Unary("numpy.sqrt lax.sqrt", mp.sqrt, low=0),
    Unary("lax.rsqrt", lambda x: 1 / mp.sqrt(x), low=0),
    Unary(
        "numpy.cbrt lax.cbrt",
        lambda x: mp.sign(x) * mp.cbrt(abs(x)),
        points=(0.0, 1e-9, -1e-9, 1.0, -2.5, INF, -INF),
        kinks={0.0: (INF, -INF, INF)},
        because="from above",
    ),
    Unary("numpy.square lax.square", lambda x: x * x),
    Unary(
        "numpy.i0",
        lambda x: mp.besseli(0, x),
        points=(0.0, -0.0, 1e-9, 1.0, -1.0, 2.5, 8.0, 19.0),
        rtol=1e-10,
    ),
    Unary("numpy.reciprocal lax.reciprocal", lambda x: 1 / x, points=USUAL[2:]),
    Unary("numpy.sinc", mp.sincpi, nan_at=(INF, -INF)),
    Unary(
        "numpy.absolute numpy.abs numpy.fabs lax.abs",
        abs,
        kinks={0.0: (1, 0, 0)},
        because="JAX's: from above",
    ),
    Unary("numpy.positive nn.identity", lambda x: x),
    Unary("numpy.negative lax.neg", lambda x: -x),
    Unary("numpy.degrees numpy.rad2deg", mp.degrees),
    Unary("numpy.radians numpy.deg2rad", mp.radians),
    Unary("lax.erf", mp.erf, nan_from=BOTH_FROM_2),
    Unary("lax.erfc", mp.erfc, nan_from=BOTH_FROM_2),
    Unary("lax.erf_inv", mp.erfinv, low=-1, high=1, points=(0.0, -0.0, 1e-9, 0.5, -0.5, 0.99, 1.0, -1.0)),
    Unary("lax.lgamma", lambda x: mp.re(mp.loggamma(x)), points=(1e-9, 0.5, 1.0, 2.0, -0.5, -1.5, 2.5, 40.0)),
    Unary("lax.digamma", mp.digamma, points=(1e-9, 0.5, 1.0, 2.0, -0.5, -1.5, 2.5, 40.0)),
    Unary("lax.logistic nn.sigmoid", lambda x: 1 / (1 + mp.exp(-x))),
    Unary(
        "nn.log1mexp", lambda x: mp.log(1 - mp.exp(-x)), points=(1e-9, 0.5, 0.6931, 0.7, 2.5, 19.0), rtol=1e-9
    ),
    Unary("nn.softplus", _softplus),
    Unary("nn.log_sigmoid", lambda x: -_softplus(-x)),
    Unary("nn.silu nn.swish", lambda x: x / (1 + mp.exp(-x)), nan_from=BOTH_FROM_1),
    Unary("nn.mish", lambda x: x * mp.tanh(_softplus(x)), atol=1e-14, nan_from=BOTH_FROM_1),
    Unary("nn.gelu", _gelu, nan_from=BOTH_FROM_1),
    Unary(
        "nn.gelu", lambda x: x * mp.ncdf(x), call=lambda f, x: f(x, approximate=False), nan_from=BOTH_FROM_1
    ),
    Unary(
        "nn.soft_sign",
        lambda x: x / (1 + abs(x)),
        kinks={0.0: (1, -2, 6)},
        because="from above, as |x|",
        nan_from=BOTH_FROM_1,
    ),
    Unary("nn.relu", _piece((lambda x: x > 0, lambda x: x), _zero), kinks={0.0: (0, 0, 0)}, because="0 at 0"),
    Unary(
        "nn.relu6",
        _piece((lambda x: x <= 0, _zero), (lambda x: x < 6, lambda x: x), lambda x: 6 + 0 * x),
        points=(*USUAL, 6.0),
        kinks={0.0: (0, 0, 0), 6.0: (0, 0, 0)},
        because="0 at both ends",
    ),
    Unary(
        "nn.hard_tanh",
        _piece((lambda x: x < -1, lambda x: -1 + 0 * x), (lambda x: x > 1, lambda x: 1 + 0 * x), lambda x: x),
        kinks={1.0: (1, 0, 0), -1.0: (1, 0, 0)},
        because="JAX's: 1 at both ends",
    ),
    Unary(
        "nn.hard_sigmoid",
        _piece((lambda x: x <= -3, _zero), (lambda x: x < 3, lambda x: (x + 3) / 6), lambda x: 1 + 0 * x),
        points=(*USUAL, 3.0, -3.0),
        kinks={3.0: (0, 0, 0), -3.0: (0, 0, 0)},
        because="relu6's ends",
    ),
    Unary(
        "nn.hard_silu nn.hard_swish",
        _piece((lambda x: x <= -3, _zero), (lambda x: x < 3, lambda x: x * (x + 3) / 6), lambda x: x),
        points=(*USUAL, 3.0, -3.0),
        kinks={3.0: (1, 0, 0), -3.0: (0, 0, 0)},
        because="relu6's ends",
    ),
    _elu("nn.elu nn.celu", None),
    _elu("nn.elu", 2.0),
    _elu("nn.celu", 2.0, width=2.0),
    Unary(
        "nn.selu",
        _piece((lambda x: x > 0, lambda x: SCALE * x), lambda x: SCALE * ALPHA * mp.expm1(x)),
        kinks={0.0: (float(SCALE * ALPHA),) * 3},
        because="from below",
    ),
    Unary(
        "nn.leaky_relu",
        _piece((lambda x: x >= 0, lambda x: x), lambda x: x * mp.mpf(0.01)),
        kinks={0.0: (1, 0, 0)},
        because="from above",
    ),
    Unary("nn.squareplus", lambda x: (x + mp.sqrt(x * x + 4)) / 2, nan_from=BOTH_FROM_1),
    Unary(
        "nn.sparse_plus",
        _piece((lambda x: x <= -1, _zero), (lambda x: x < 1, lambda x: (x + 1) ** 2 / 4), lambda x: x),
        kinks={1.0: (1, 0, 0), -1.0: (0, 0, 0)},
        because="the second derivative is that from outside",
    ),
    Unary(
        "nn.sparse_sigmoid",
        _piece((lambda x: x <= -1, _zero), (lambda x: x < 1, lambda x: (x + 1) / 2), lambda x: 1 + 0 * x),
        kinks={1.0: (0.25, 0, 0), -1.0: (0.25, 0, 0)},
        because="half of the slope, which is 1/2, at the ties of max and min",
    ),
    Unary(
        "numpy.floor numpy.ceil numpy.trunc numpy.fix numpy.round numpy.around numpy.rint numpy.sign lax.floor "
        "lax.ceil lax.round lax.sign",
        _zero,
        points=(0.0, -0.0, 0.5, -0.5, 1.0, 2.5, INF, -INF),
        kinks={x: (0, 0, 0) for x in (0.0, 0.5, -0.5, 1.0, 2.5, INF, -INF)},
        because=FLAT,
    ),
]


@dataclass(frozen=True, eq=False)
class Binary:
    """A function of two numbers. `kinks` gives (fx, fy, fxx, fxy, fyy, fxxx, fxxy, fxyy, fyyy), or fewer."""

    names: str
    form: Callable[[Any, Any], Any]
    points: tuple[tuple[float, float], ...]
    kinks: dict[tuple[float, float], tuple[float, ...]] = field(default_factory=dict)
    because: str = ""
    call: Callable[..., Any] | None = None
    orders: int = 3
    rtol: float = 1e-12
    atol: float = 1e-15


PAIRS = ((1.0, 2.0), (2.0, 1.0), (3.0, 3.0), (-2.0, 3.0), (0.0, 1.0), (1.0, 0.0), (-1.0, 0.0), (0.0, -1.0))
TIES = (0.5, 0.5, 0, 0, 0, 0, 0, 0, 0)
BINARY = [
    Binary("numpy.add lax.add", lambda x, y: x + y, (*PAIRS, (0.0, 0.0))),
    Binary("numpy.subtract lax.sub", lambda x, y: x - y, (*PAIRS, (0.0, 0.0))),
    Binary("numpy.multiply lax.mul", lambda x, y: x * y, (*PAIRS, (0.0, 0.0))),
    Binary("numpy.divide numpy.true_divide lax.div", lambda x, y: x / y, tuple(p for p in PAIRS if p[1])),
    Binary(
        "numpy.maximum numpy.fmax lax.max",
        max,
        PAIRS,
        kinks={(3.0, 3.0): TIES, (0.0, 0.0): TIES},
        because="a tie is shared",
    ),
    Binary(
        "numpy.minimum numpy.fmin lax.min",
        min,
        PAIRS,
        kinks={(3.0, 3.0): TIES, (0.0, 0.0): TIES},
        because="a tie is shared",
    ),
    Binary(
        "numpy.logaddexp",
        lambda x, y: mp.log(mp.exp(x) + mp.exp(y)),
        (*PAIRS, (0.0, 0.0), (0.0, -0.0), (700.0, 700.0), (-800.0, -800.0), (30.0, -30.0)),
        kinks={
            (-INF, -INF): TIES,
            (INF, INF): TIES,
            (INF, -INF): (1, 0, 0, 0, 0, 0, 0, 0, 0),
            (0.0, -INF): (1, 0, 0, 0, 0, 0, 0, 0, 0),
            (-INF, 2.0): (0, 1, 0, 0, 0, 0, 0, 0, 0),
            (INF, 2.0): (1, 0, 0, 0, 0, 0, 0, 0, 0),
        },
        because="the limits; equal infinities share",
    ),
    Binary(
        "numpy.logaddexp2",
        lambda x, y: mp.log(mp.mpf(2) ** x + mp.mpf(2) ** y, 2),
        (*PAIRS, (0.0, 0.0), (0.0, -0.0), (700.0, 700.0), (-800.0, -800.0), (30.0, -30.0)),
        kinks={
            (-INF, -INF): TIES,
            (INF, INF): TIES,
            (INF, -INF): (1, 0, 0, 0, 0, 0, 0, 0, 0),
            (0.0, -INF): (1, 0, 0, 0, 0, 0, 0, 0, 0),
        },
        because="the limits; equal infinities share",
    ),
    Binary(
        "numpy.hypot",
        lambda x, y: mp.sqrt(x * x + y * y),
        (*PAIRS, (-3.0, 3.0), (-3.0, -3.0), (1e200, 1e200), (-0.0, 2.0)),
        kinks={(0.0, 0.0): TIES, (INF, 1.0): (1, 0, 0, 0, 0), (2.0, -INF): (0, -1, 0, 0, 0)},
        because="as the larger absolute value",
    ),
    Binary(
        "numpy.arctan2 numpy.atan2 lax.atan2",
        mp.atan2,
        ((1.0, 2.0), (0.0, 1.0), (1.0, 0.0), (-1.0, 0.0), (-0.0, 1.0), (3.0, -2.0)),
        kinks={(0.0, -1.0): (-1, 0, 0, -1, 0), (0.0, 0.0): (NAN, NAN)},
        because="the cut has no derivative of its own; at the origin there is none",
        orders=3,
    ),
    Binary(
        "numpy.power numpy.pow numpy.float_power lax.pow",
        lambda x, y: mp.power(x, y),
        ((2.0, 3.0), (2.0, 0.0), (2.0, 1.0), (2.0, -1.0), (0.5, 0.5), (1.0, 5.0), (1e-9, 2.0)),
        kinks={
            (0.0, 0.0): (0, 0, 0),
            (0.0, 1.0): (1, 0, 0),
            (0.0, 2.0): (0, 0, 2, 0, 0, 0),
            (0.0, 3.0): (0, 0, 0, 0, 0, 6),
            (0.0, 0.5): (INF, 0, -INF),
            (-2.0, 2.0): (-4, NAN, 2),
            (-2.0, 3.0): (12, NAN, -12),
        },
        because="0 by the exponent where the base is 0; none where it is negative",
    ),
    Binary(
        "numpy.copysign",
        lambda x, y: abs(x) * (1 if y >= 0 else -1),
        tuple(p for p in PAIRS if p[0] and p[1]),
        kinks={(0.0, 1.0): (1, 0, 0, 0, 0), (1.0, 0.0): (1, 0, 0, 0, 0), (0.0, -1.0): (-1, 0, 0, 0, 0)},
        because="|x| from above",
    ),
    Binary(
        "numpy.remainder numpy.mod",
        lambda x, y: x - y * mp.floor(x / y),
        ((5.0, 3.0), (-5.0, 3.0), (5.0, -3.0), (0.5, 0.75)),
        kinks={(4.0, 2.0): (1, -2, 0, 0, 0), (-4.0, 2.0): (1, 2, 0, 0, 0), (0.0, 2.0): (1, 0, 0, 0, 0)},
        because="at a jump, the side the value is on",
    ),
    Binary(
        "numpy.fmod lax.rem",
        lambda x, y: x - y * (mp.floor(x / y) if x / y >= 0 else mp.ceil(x / y)),
        ((5.0, 3.0), (-5.0, 3.0), (5.0, -3.0), (0.5, 0.75)),
        kinks={(4.0, 2.0): (1, -2, 0, 0, 0), (-4.0, 2.0): (1, 2, 0, 0, 0), (0.0, 2.0): (1, 0, 0, 0, 0)},
        because="at a jump, the side the value is on",
    ),
    Binary(
        "numpy.floor_divide numpy.heaviside numpy.nextafter lax.nextafter",
        lambda x, y: x * 0 + y * 0,
        ((5.0, 3.0), (-5.0, 3.0), (4.0, 2.0), (2.5, 0.75)),
        because=FLAT,
        orders=2,
    ),
]


# --- functions of arrays, compared with JAX ---

ARRAYS = {
    "zeros": (0.0, 0.0, 0.0),
    "some zeros": (0.0, 0.0, 3.0),
    "one zero": (0.0, 2.0, 3.0),
    "a tie": (1.0, 3.0, 3.0),
    "all equal": (2.0, 2.0, 2.0),
    "both signs": (-1.0, 0.0, 1.0),
    "minus infinity": (-INF, 1.0, 2.0),
    "all minus infinity": (-INF, -INF, -INF),
    "infinity": (INF, 1.0, 2.0),
}
INFINITE = frozenset({"minus infinity", "all minus infinity", "infinity"})


@dataclass(frozen=True, eq=False)
class OfArray:
    """A function of an array, called alike in both libraries: `call(module, x)`. `without` names the points where
    `because` says why JAX is not followed."""

    names: str
    call: Callable[[Any, Any], Any] | None = None
    without: frozenset[str] = frozenset()
    because: str = ""
    orders: int = 3


JAX_MODULES = {"numpy": jnp, "lax": jlax, "nn": jnn}
THREE = "an infinite factor times a vanishing one, in another order"
ZERO_POWER = "x**0 differentiates to NaN at 0 in JAX"
OF_ARRAY = [
    OfArray(
        "numpy.sum numpy.mean numpy.cumsum numpy.cumulative_sum numpy.average numpy.trapezoid numpy.diff"
    ),
    OfArray("numpy.max numpy.min numpy.amax numpy.amin numpy.nanmax numpy.nanmin numpy.ptp"),
    OfArray("numpy.nansum numpy.nanmean numpy.nancumsum numpy.nan_to_num numpy.gradient"),
    OfArray(
        "numpy.prod numpy.nanprod numpy.cumprod numpy.nancumprod numpy.cumulative_prod lax.cumprod",
        without=INFINITE,
        because=THREE,
    ),
    OfArray("numpy.var numpy.std numpy.nanvar numpy.nanstd numpy.cov"),
    OfArray("numpy.median numpy.nanmedian numpy.sort lax.sort lax.cumsum"),
    OfArray(
        "lax.cummax lax.cummin", without=INFINITE, because="the start of the scan is a tie with infinity"
    ),
    OfArray(
        "numpy.quantile numpy.percentile numpy.nanquantile numpy.nanpercentile",
        lambda f, x: f(x, 0.4),
        without=frozenset({"all minus infinity"}),
        because="equal infinities give the derivative to one",
    ),
    OfArray("nn.softmax nn.log_softmax nn.logsumexp nn.logmeanexp"),
    OfArray(
        "nn.standardize", orders=2, because="JAX's third derivative where all are equal is half of what it is"
    ),
    OfArray("lax.cumlogsumexp", without=INFINITE, because="JAX's is NaN or not that of the value"),
    OfArray("numpy.clip", lambda f, x: f(x, -1.0, 3.0)),
    OfArray(
        "lax.clamp", lambda f, x: f(x * 0 - 1.0, x, x * 0 + 3.0), without=INFINITE, because="0 times infinity"
    ),
    OfArray("lax.integer_pow", lambda f, x: f(x, 3)),
    OfArray("numpy.where", lambda f, x: f(x > 0, x, x * x)),
    OfArray("lax.select_n", lambda f, x: f(x > 0, x, x * x)),
    OfArray("lax.select", lambda f, x: f(x > 0, x, x * x)),
    OfArray(
        "numpy.modf numpy.frexp", lambda f, x: f(x)[0], without=INFINITE, because="constant at infinities"
    ),
    OfArray("numpy.divmod", lambda f, x: f(x, 2.0)[1]),
    OfArray("numpy.polyval", lambda f, x: f(x, 2.0)),
    OfArray("numpy.angle"),
    OfArray(
        "numpy.vander",
        lambda f, x: f(x, 3),
        without=frozenset({"zeros", "some zeros", "one zero", "both signs"}),
        because=ZERO_POWER,
    ),
    OfArray(
        "numpy.ldexp",
        lambda f, x: f(x, np.array([1, 2, 3])),
        without=frozenset(ARRAYS) - {"a tie", "all equal"},
        because="JAX returns zeros and infinities themselves, with the derivative 1",
    ),
    OfArray("lax.top_k", lambda f, x: f(x, 2)[0]),
    OfArray("lax.reduce_max lax.reduce_min lax.reduce_sum", lambda f, x: f(x, (0,))),
    OfArray("lax.reduce_prod", lambda f, x: f(x, (0,)), without=INFINITE, because=THREE),
    OfArray(
        "numpy.interp",
        lambda f, x: f(x, np.array([0.0, 1.5, 3.5]), np.array([0.0, 3.0, 1.0])),
    ),
]

# Functions with derivatives that have no row above, and why.
EDGELESS = {
    "of whole matrices, whose edges (equal eigenvalues, lost rank) tests/python/test_linalg.py looks at": """
        numpy.linalg.cholesky numpy.linalg.cond numpy.linalg.eigh numpy.linalg.eigvals numpy.linalg.eigvalsh
        numpy.linalg.inv numpy.linalg.lstsq numpy.linalg.matrix_norm numpy.linalg.matrix_power numpy.linalg.norm
        numpy.linalg.pinv numpy.linalg.qr numpy.linalg.slogdet numpy.linalg.solve numpy.linalg.svd
        numpy.linalg.svdvals numpy.linalg.tensorinv numpy.linalg.tensorsolve numpy.linalg.vector_norm
        scipy.linalg.cholesky scipy.linalg.eigh scipy.linalg.expm scipy.linalg.expm_frechet scipy.linalg.inv
        scipy.linalg.lu scipy.linalg.lu_factor scipy.linalg.qr scipy.linalg.solve scipy.linalg.solve_triangular
        scipy.linalg.svd""",
    "of SciPy's names: tests/python/test_special.py looks at their edges": """
        scipy.special.beta scipy.special.betaln scipy.special.digamma scipy.special.entr scipy.special.erf
        scipy.special.erfc scipy.special.erfinv scipy.special.exp1 scipy.special.expi scipy.special.expit
        scipy.special.expn scipy.special.gamma scipy.special.gammainc scipy.special.gammaincc
        scipy.special.gammaln scipy.special.i0 scipy.special.i0e scipy.special.i1 scipy.special.i1e
        scipy.special.kl_div scipy.special.log_ndtr scipy.special.log_softmax scipy.special.loggamma
        scipy.special.logit scipy.special.logsumexp scipy.special.multigammaln scipy.special.ndtr
        scipy.special.ndtri scipy.special.poch scipy.special.polygamma scipy.special.rel_entr
        scipy.special.softmax scipy.special.xlog1py scipy.special.xlogy""",
    "they move elements, or add them: linear": """
        numpy.append numpy.array numpy.array_split numpy.asarray numpy.atleast_1d numpy.atleast_2d numpy.atleast_3d
        numpy.broadcast_arrays numpy.broadcast_to numpy.column_stack numpy.compress numpy.concat numpy.concatenate
        numpy.copy numpy.delete numpy.diag numpy.diagflat numpy.diagonal numpy.dsplit numpy.dstack numpy.ediff1d
        numpy.expand_dims numpy.flip numpy.fliplr numpy.flipud numpy.hsplit numpy.hstack numpy.insert
        numpy.matrix_transpose numpy.meshgrid numpy.moveaxis numpy.pad numpy.permute_dims numpy.polyadd numpy.polyder
        numpy.polyint numpy.polysub numpy.ravel numpy.repeat numpy.reshape numpy.roll numpy.rollaxis numpy.rot90
        numpy.select numpy.split numpy.squeeze numpy.stack numpy.swapaxes numpy.take numpy.take_along_axis numpy.tile
        numpy.trace numpy.transpose numpy.tril numpy.triu numpy.vsplit numpy.vstack
        lax.broadcast lax.broadcast_in_dim lax.collapse lax.concatenate lax.convert_element_type
        lax.dynamic_index_in_dim lax.dynamic_slice lax.dynamic_slice_in_dim lax.dynamic_update_slice lax.expand_dims
        lax.index_in_dim lax.optimization_barrier lax.pad lax.reduce_precision lax.reshape lax.rev lax.slice
        lax.slice_in_dim lax.split lax.squeeze lax.stop_gradient lax.tile lax.transpose
        lax.dynamic_update_index_in_dim lax.dynamic_update_slice_in_dim lax.sort_key_val numpy.fft.fft
        numpy.fft.fft2 numpy.fft.fftn numpy.fft.fftshift numpy.fft.hfft numpy.fft.ifft numpy.fft.ifft2
        numpy.fft.ifftn numpy.fft.ifftshift numpy.fft.ihfft numpy.fft.irfft numpy.fft.irfft2 numpy.fft.irfftn
        numpy.fft.rfft numpy.fft.rfft2 numpy.fft.rfftn numpy.linalg.diagonal numpy.linalg.matrix_transpose
        numpy.linalg.trace scipy.linalg.block_diag scipy.linalg.toeplitz""",
    "sums of products: polynomials without a special point": """
        numpy.convolve numpy.correlate numpy.cross numpy.dot numpy.einsum numpy.inner numpy.kron numpy.matmul
        numpy.matvec numpy.outer numpy.polymul numpy.tensordot numpy.vdot numpy.vecdot numpy.vecmat lax.batch_matmul
        lax.dot
        lax.conv lax.conv_general_dilated lax.conv_transpose lax.dot_general numpy.linalg.cross numpy.linalg.det
        numpy.linalg.matmul numpy.linalg.multi_dot numpy.linalg.outer numpy.linalg.tensordot numpy.linalg.vecdot
        scipy.linalg.det""",
    "a product with sigmoid, which has a row": "nn.glu",
    "Bessel functions that have no point but 0, where tests/python checks them": "lax.bessel_i0e lax.bessel_i1e",
    "adds multiples of the period, which are constants": "numpy.unwrap",
    "a quotient by standard deviations, which have a row": "numpy.corrcoef",
}
