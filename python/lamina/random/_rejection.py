"""Distributions drawn by rejection, and those made of them; algorithms and use of keys as in jax.random.

Gamma: Marsaglia and Tsang, "A simple method for generating gamma variables" (ACM TOMS 26, 2000). Poisson: Knuth's
products below 10, else Hoermann's transformed rejection ("The transformed rejection method for generating Poisson
random variables", 1993). Binomial: sums of geometric numbers below 10 expected successes, else Hoermann's BTRS (1993).
Each draws the words that JAX draws and decides as JAX does, up to the last bits of the logarithms.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _core, dtypes, lax
from lamina import numpy as np_
from lamina._core import Tensor
from lamina._custom import custom_jvp
from lamina._tensor import describe, to_tensor
from lamina.lax._base import const
from lamina.numpy._common import compare, ew, full_of, iterate, select
from lamina.random import _philox
from lamina.random._streams import (
    _above_minus_one,
    _check_key,
    _draw,
    _float_name,
    _joined,
    _of_philox,
    _raw_type,
    _scalar,
    _scaled,
    _shape,
    _threefry,
    exponential,
    maxwell,
    normal,
    rademacher,
    split,
    uniform,
)

Words = tuple[Tensor, ...]

# --- streams of many keys at once: one key per element, as arrays of its words ---


def _fork(k: Words, i: int) -> Words:
    """The i-th key of split, of every key."""
    halves = (k[n : n + 2] for n in range(0, len(k), 2))
    return tuple(w for half in halves for w in _threefry(*half, const(0, "uint32"), const(i, "uint32")))


def _uniforms(k: Words, name: str, minval: Any = 0.0) -> Tensor:
    """One uniform number of every key, as `uniform(key, (), ...)` gives it."""
    raw = _raw_type(name)
    drawn = _joined(*_fork(k, 0), raw) if len(k) == 2 else _of_philox(*_philox.first_words(k), raw)
    return _scaled(drawn, name, minval, 1.0)


def _normals(k: Words, name: str) -> Tensor:
    return lax.erf_inv(_uniforms(k, name, _above_minus_one(name))) * const(math.sqrt(2), name)


# --- gamma ---


def _marsaglia_tsang(k: Words, a: Tensor, log_space: bool) -> Tensor:
    """Gamma numbers of parameters a (or their logarithms), one per key."""
    name = a.dtype.name
    third, one = const(1 / 3, name), full_of(1.0, name, a.shape)
    large = compare(a, 1.0, "GE")
    # Below 1: Gamma(a) is distributed as Gamma(a + 1) U^(1 / a).
    d = select(large, a, a + one) - third
    c = third / lax.sqrt(d)

    def undecided(x: Tensor, v: Tensor, u: Tensor, *_: Tensor) -> Tensor:
        squeezed = compare(u, one - const(0.0331, name) * (x * x), "GE")
        exact = compare(lax.log(u), x * const(0.5, name) + d * (one - v + lax.log(v)), "GE")
        return ew("and", squeezed, exact)

    def draw(x: Tensor, v: Tensor, u: Tensor, *k: Tensor) -> list[Tensor]:
        key, x_key, u_key = (_fork(k, i) for i in range(3))

        def again(x: Tensor, v: Tensor, *k: Tensor) -> list[Tensor]:
            x = _normals(_fork(k, 1), name)
            return [x, one + x * c, *_fork(k, 0)]

        start = [one - one, -one, *x_key]
        x, v = iterate(start, lambda x, v, *_: compare(v, 0.0, "LE"), again, 2**31 - 1)[:2]
        return [x * x, v * v * v, _uniforms(u_key, name), *key]

    key, boost_key = _fork(k, 0), _fork(k, 1)
    v = iterate([one - one, one, one + one, *key], undecided, draw, 2**31 - 1)[1]
    if log_space:
        logs = lax.log1p(-_uniforms(boost_key, name))
        boost = select(ew("or", large, compare(logs, 0.0, "EQ")), 0.0, logs * (one / a))
        return lax.log(d) + lax.log(v) + boost
    samples = one - _uniforms(boost_key, name)
    return d * v * select(large, 1.0, ew("power", samples, one / a))


def _gamma_function(log_space: bool) -> Callable[..., Tensor]:
    """Gamma numbers as a differentiable function of their parameters: a number moves so that its rank stays.

    Figurnov, Mohamed, Mnih, "Implicit reparameterization gradients" (NeurIPS 2018).
    """

    @custom_jvp
    def sample(a: Tensor, *k: Tensor) -> Tensor:
        return _marsaglia_tsang(k, a, log_space)

    @sample.defjvp
    def rule(primals: Any, tangents: Any) -> tuple[Tensor, Tensor]:
        from lamina.scipy.special._gamma import random_gamma_slope

        a, out = primals[0], sample(*primals)
        x = lax.exp(out) if log_space else out
        if log_space:
            x = ew("maximum", x, const(float(np_.finfo(x.dtype).tiny), x.dtype))
        slope = random_gamma_slope(a, x)
        return out, tangents[0] * (slope / x if log_space else slope)

    return sample


_gamma_sample, _loggamma_sample = _gamma_function(False), _gamma_function(True)


def _gamma(what: str, sample: Any, key: Any, a: Any, shape: Any, dtype: Any) -> Tensor:
    name = _float_name(what, dtype)
    k, shape = _check_key(key), _draw(what, shape, a)
    alphas = lax.reshape(np_.broadcast_to(_scalar(a, name), shape), (math.prod(shape),))
    keys = split(k, math.prod(shape))
    words = [lax.index_in_dim(keys, i, 1, False) for i in range(k.shape[0])]
    return lax.reshape(sample(alphas, *words), shape)


def gamma(key: Any, a: Any, shape: Sequence[int] | None = None, dtype: Any = float) -> Tensor:
    """Gamma numbers of parameter a and scale 1, differentiable by a."""
    return _gamma("gamma", _gamma_sample, key, a, shape, dtype)


def loggamma(key: Any, a: Any, shape: Sequence[int] | None = None, dtype: Any = float) -> Tensor:
    """Logarithms of gamma numbers, exact where those underflow; differentiable by a."""
    return _gamma("loggamma", _loggamma_sample, key, a, shape, dtype)


def _two(key: Any) -> list[Tensor]:
    keys = split(key)
    return [lax.index_in_dim(keys, i, 0, False) for i in (0, 1)]


def beta(key: Any, a: Any, b: Any, shape: Sequence[int] | None = None, dtype: Any = float) -> Tensor:
    """Beta numbers of parameters a and b."""
    name, shape = _float_name("beta", dtype), _draw("beta", shape, a, b)
    key_a, key_b = _two(key)
    log_a, log_b = loggamma(key_a, a, shape, name), loggamma(key_b, b, shape, name)
    top = lax.max(log_a, log_b)
    part_a, part_b = lax.exp(log_a - top), lax.exp(log_b - top)
    return part_a / (part_a + part_b)


def dirichlet(key: Any, alpha: Any, shape: Sequence[int] | None = None, dtype: Any = float) -> Tensor:
    """Points of the simplex, [*shape, n], with concentrations alpha, [..., n]. ValueError for a scalar alpha."""
    from lamina.nn import softmax

    name, t = _float_name("dirichlet", dtype), to_tensor(alpha)
    if t.ndim < 1:
        raise ValueError("random.dirichlet needs an alpha of at least one dimension")
    batch = t.shape[:-1]
    shape = batch if shape is None else _shape(shape)
    if lax.broadcast_shapes(shape, batch) != shape:
        raise ValueError(f"random.dirichlet: alpha of shape {t.shape} does not broadcast to {shape}")
    return softmax(loggamma(key, t, (*shape, t.shape[-1]), name), -1)


def chisquare(key: Any, df: Any, shape: Sequence[int] | None = None, dtype: Any = float) -> Tensor:
    """Chi-square numbers of df degrees of freedom."""
    name = _float_name("chisquare", dtype)
    return lax.exp(loggamma(key, _scalar(df, name) / 2, shape, name)) * 2


def f(key: Any, dfnum: Any, dfden: Any, shape: Sequence[int] | None = None, dtype: Any = float) -> Tensor:
    """Quotients of chi-square numbers over their degrees of freedom."""
    name, shape = _float_name("f", dtype), _draw("f", shape, dfnum, dfden)
    key_den, key_num = _two(key)
    num, den = _scalar(dfnum, name), _scalar(dfden, name)
    return (chisquare(key_num, num, shape, name) / num) / (chisquare(key_den, den, shape, name) / den)


def t(key: Any, df: Any, shape: Sequence[int] = (), dtype: Any = float) -> Tensor:
    """Student's t numbers of df degrees of freedom."""
    name, shape = _float_name("t", dtype), _draw("t", shape or None, df)
    key_n, key_g = _two(key)
    half = _scalar(df, name) / 2
    return normal(key_n, shape, name) * lax.sqrt(half / gamma(key_g, half, shape, name))


def generalized_normal(key: Any, p: Any, shape: Sequence[int] = (), dtype: Any = float) -> Tensor:
    """Numbers of density proportional to exp(-|x|^p)."""
    name = _float_name("generalized_normal", dtype)
    key_g, key_s = _two(key)
    power = 1 / _scalar(p, name)
    size = gamma(key_g, power, shape, name)
    return rademacher(key_s, shape, name) * ew("power", size, np_.broadcast_to(power, size.shape))


def ball(key: Any, d: int, p: Any = 2, shape: Sequence[int] = (), dtype: Any = float) -> Tensor:
    """Uniform points of the unit ball of the p-norm in d dimensions: [*shape, d]."""
    name, shape = _float_name("ball", dtype), _shape(shape)
    key_g, key_e = _two(key)
    g = generalized_normal(key_g, p, (*shape, operator.index(d)), name)
    e = exponential(key_e, shape, name)
    powers = np_.power(lax.abs(g), p)
    norm = np_.power(lax.reduce_sum(powers, (len(shape),)) + e, 1 / p)
    return g / lax.expand_dims(norm, (len(shape),))


# --- continuous ones without rejection ---


def lognormal(key: Any, sigma: Any = 1.0, shape: Sequence[int] | None = None, dtype: Any = float) -> Tensor:
    """exp of normal numbers of standard deviation sigma."""
    name, shape = _float_name("lognormal", dtype), _draw("lognormal", shape, sigma)
    return lax.exp(normal(key, shape, name) * _scalar(sigma, name))


def triangular(
    key: Any, left: Any, mode: Any, right: Any, shape: Sequence[int] | None = None, dtype: Any = float
) -> Tensor:
    """Numbers of triangular density from left to right with its top at mode."""
    name, shape = _float_name("triangular", dtype), _draw("triangular", shape, left, mode, right)
    lo, top, hi = (np_.broadcast_to(_scalar(v, name), shape) for v in (left, mode, right))
    u = uniform(key, shape, name)
    rising = lo + lax.sqrt(u * (hi - lo) * (top - lo))
    falling = hi - lax.sqrt((1 - u) * (hi - lo) * (hi - top))
    return select(u < (top - lo) / (hi - lo), rising, falling)


def wald(key: Any, mean: Any, shape: Sequence[int] | None = None, dtype: Any = float) -> Tensor:
    """Inverse Gaussian numbers of this mean and scale 1 (Michael, Schucany and Haas, 1976)."""
    name, shape = _float_name("wald", dtype), _draw("wald", shape, mean)
    key_v, key_z = _two(key)
    m = np_.broadcast_to(_scalar(mean, name), shape)
    y, z = lax.square(normal(key_v, shape, name)), uniform(key_z, shape, name)
    square = m * m
    x = m + square * y / 2 - m / 2 * lax.sqrt(4 * m * y + square * (y * y))
    return select(z <= m / (m + x), x, square / x)


def double_sided_maxwell(
    key: Any, loc: Any, scale: Any, shape: Sequence[int] = (), dtype: Any = float
) -> Tensor:
    """Maxwell numbers of random sign, scaled and shifted: [*shape, *the parameters' common shape]."""
    name = _float_name("double_sided_maxwell", dtype)
    common = lax.broadcast_shapes(to_tensor(loc).shape, to_tensor(scale).shape)
    shape = (*(_shape(shape) or common), *common)
    key_m, key_s = _two(key)
    signed = rademacher(key_s, shape, name) * maxwell(key_m, shape, name)
    return signed * _scalar(scale, name) + _scalar(loc, name)


# --- discrete ---


def _parameter(x: Any) -> Tensor:
    v = to_tensor(x)
    return v if v.dtype.kind == "f" else _core.recast(v, _core.inexact_type(v.dtype.name))


def geometric(key: Any, p: Any, shape: Sequence[int] | None = None, dtype: Any = int) -> Tensor:
    """The number of trials up to the first success, of probability p."""
    prob, shape = _parameter(p), _draw("geometric", shape, p)
    u = uniform(key, shape, prob.dtype)
    u = select(compare(u, 0.0, "EQ"), 1.0, u)
    trials = lax.floor(lax.log(u) / lax.log1p(-prob)) + 1
    return lax.convert_element_type(trials, dtype)


def poisson(key: Any, lam: Any, shape: Sequence[int] | None = None, dtype: Any = int) -> Tensor:
    """Poisson numbers of mean lam, integers; -1 for NaN."""
    k, shape = _check_key(key), _draw("poisson", shape, lam)
    if k.shape != (2,):
        raise NotImplementedError(
            "random.poisson draws from keys of threefry2x32 only; make one of this key's first words: key[:2]"
        )
    name = dtypes.canonical(dtype)
    if name.kind not in "iu":
        raise TypeError(f"random.poisson makes integers, not {name.name}")
    rate = np_.broadcast_to(_scalar(lam, "float32"), shape)
    few = ew("or", compare(rate, rate, "NE"), compare(rate, 10.0, "LT"))
    low = _knuth(k, select(few, rate, 0.0), name.name)
    high = _transformed_poisson(k, select(few, 1e5, rate), name.name)
    return select(compare(rate, 0.0, "EQ"), lax.full_like(low, 0), select(few, low, high))


def _repeat(
    state: list[Tensor], go_on: Callable[..., Tensor], step: Callable[..., list[Tensor]]
) -> list[Tensor]:
    return lax.while_loop(lambda s: go_on(*s), lambda s: step(*s), state)


def _knuth(key: Tensor, rate: Tensor, name: str) -> Tensor:
    shape = rate.shape

    def step(k: Tensor, rng: Tensor, total: Tensor) -> list[Tensor]:
        rng, fresh = _two(rng)
        k = select(compare(total, -rate, "GT"), k + 1, k)
        return [k, rng, total + lax.log(uniform(fresh, shape, "float32"))]

    start = [full_of(0, name, shape), key, full_of(0.0, "float32", shape)]
    return _repeat(start, lambda k, rng, total: compare(total, -rate, "GT").any(), step)[0] - 1


def _transformed_poisson(key: Tensor, rate: Tensor, name: str) -> Tensor:
    shape = rate.shape
    b = 0.931 + 2.53 * lax.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)
    log_rate = lax.log(rate)

    def step(out: Tensor, accepted: Tensor, rng: Tensor) -> list[Tensor]:
        keys = split(rng, 3)
        rng, key_u, key_v = (lax.index_in_dim(keys, i, 0, False) for i in range(3))
        u, v = uniform(key_u, shape, "float32") - 0.5, uniform(key_v, shape, "float32")
        us = 0.5 - lax.abs(u)
        k = lax.floor((2 * a / us + b) * u + rate + 0.43)
        s = lax.log(v * inverse_alpha / (a / (us * us) + b))
        bound = -rate + k * log_rate - lax.lgamma(k + 1)
        reject = (k < 0) | ((us < 0.013) & (v > us))
        accept = ((us >= 0.07) & (v <= v_r)) | (~reject & (s <= bound))
        return [select(accept, k, out), accepted | accept, rng]

    start = [full_of(-1.0, "float32", shape), full_of(False, "bool", shape), key]
    out = _repeat(start, lambda out, accepted, rng: (~accepted).any(), step)[0]
    return lax.convert_element_type(out, name)


def binomial(key: Any, n: Any, p: Any, shape: Sequence[int] | None = None, dtype: Any = float) -> Tensor:
    """The number of successes of n trials of probability p, a float; NaN for NaN or a negative n or p."""
    name = _float_name("binomial", dtype)
    k, prob = _check_key(key), _parameter(p)
    shape = _draw("binomial", shape, n, p)
    count = np_.broadcast_to(lax.convert_element_type(to_tensor(n), prob.dtype), shape)
    prob = np_.broadcast_to(prob, shape)
    low = compare(prob, 0.5, "LT")
    q = select(low, prob, 1 - prob)
    bad_count = ew("or", np_.isnan(count), compare(count, 0.0, "LT"))
    infinite = np_.isinf(count)
    bad_p = ew("or", np_.isnan(q), compare(q, 0.0, "LT"))
    q = select(bad_p, 0.01, q)
    few = ew("or", bad_count, compare(count * q, 10.0, "LE"))
    count = lax.floor(count)
    inverted = _geometric_sums(k, select(few, count, 0.0), q, name)
    rejected = _btrs(k, select(few, 1e4, count), select(few, 0.5, q), name)
    out = select(few, inverted, rejected)
    bad = ew("or", bad_p, bad_count)
    out = select(bad, math.nan, out)
    out = select(ew("and", infinite, ew("not", bad)), math.inf, out)
    plain = ew("or", ew("or", low, bad_count), ew("or", np_.isnan(q), infinite))
    return select(plain, out, lax.convert_element_type(count, name) - out)


def _geometric_sums(key: Tensor, count: Tensor, prob: Tensor, name: str) -> Tensor:
    shape, log_rest = prob.shape, lax.log1p(-prob)

    def step(trials: Tensor, total: Tensor, rng: Tensor) -> list[Tensor]:
        fresh, rng = _two(rng)
        trials = select(total <= count, trials + 1, trials)
        gaps = lax.ceil(lax.log(uniform(fresh, shape, prob.dtype)) / log_rest)
        return [trials, total + gaps, rng]

    start = [full_of(0.0, prob.dtype.name, shape), full_of(0.0, prob.dtype.name, shape), key]
    out = _repeat(start, lambda trials, total, rng: (total <= count).any(), step)[0]
    return lax.convert_element_type(out - 1, name)


# The remainder of Stirling's formula for log(k!), k = 0 ... 9.
_TAIL = [
    math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi))
    for k in range(10)
]


def _stirling_tail(k: Tensor) -> Tensor:
    square = (k + 1) * (k + 1)
    out = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
    whole = lax.floor(k)
    for i, value in enumerate(_TAIL):
        out = select(compare(whole, float(i), "EQ"), const(value, k.dtype), out)
    return out


def _btrs(key: Tensor, count: Tensor, prob: Tensor, name: str) -> Tensor:
    shape = prob.shape
    deviation = lax.sqrt(count * prob * (1 - prob))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * prob
    c = count * prob + 0.5
    v_r = 0.92 - 4.2 / b
    r = prob / (1 - prob)
    alpha = (2.83 + 5.1 / b) * deviation
    m = lax.floor((count + 1) * prob)

    def step(out: Tensor, accepted: Tensor, rng: Tensor) -> list[Tensor]:
        keys = split(rng, 3)
        rng, key_u, key_v = (lax.index_in_dim(keys, i, 0, False) for i in range(3))
        u, v = uniform(key_u, shape, prob.dtype) - 0.5, uniform(key_v, shape, prob.dtype)
        us = 0.5 - lax.abs(u)
        k = lax.floor((2 * a / us + b) * u + c)
        reject = (k < 0) | (k > count)
        bound = (
            (m + 0.5) * lax.log((m + 1) / (r * (count - m + 1)))
            + (count + 1) * lax.log((count - m + 1) / (count - k + 1))
            + (k + 0.5) * lax.log(r * (count - k + 1) / (k + 1))
            + _stirling_tail(m)
            + _stirling_tail(count - m)
            - _stirling_tail(k)
            - _stirling_tail(count - k)
        )
        steep = lax.log(v * alpha / (a / (us * us) + b))
        accept = ((us >= 0.07) & (v <= v_r)) | (~reject & (steep <= bound))
        return [select(accept, k, out), accepted | accept, rng]

    start = [full_of(-1.0, prob.dtype.name, shape), full_of(False, "bool", shape), key]
    out = _repeat(start, lambda out, accepted, rng: (~accepted).any(), step)[0]
    return lax.convert_element_type(out, name)


def multinomial(
    key: Any, n: Any, p: Any, *, shape: Sequence[int] | None = None, dtype: Any = float, unroll: Any = 1
) -> Tensor:
    """How often each of the outcomes of probabilities p, [..., k], comes in n trials: [..., k], floats.

    `shape`: of the result; default that of p. `unroll` is JAX's hint and changes nothing.
    """
    name, prob = _float_name("multinomial", dtype), _parameter(p)
    if prob.ndim < 1:
        raise ValueError(f"random.multinomial needs probabilities along an axis, not {describe(prob)}")
    shape = prob.shape if shape is None else _shape(shape)
    rest = np_.broadcast_to(lax.convert_element_type(to_tensor(n), prob.dtype), shape[:-1])
    prob = np_.broadcast_to(prob, shape)
    axis, kinds = len(shape) - 1, shape[-1]
    left = lax.cumsum(prob, axis, reverse=True)
    ratios = prob / select(compare(left, 0.0, "EQ"), 1.0, left)
    keys, counts = split(key, kinds), []
    for i in range(kinds):
        ratio = lax.clamp(
            const(0, prob.dtype), lax.index_in_dim(ratios, i, axis, False), const(1, prob.dtype)
        )
        counts.append(binomial(lax.index_in_dim(keys, i, 0, False), rest, ratio, dtype=prob.dtype))
        rest = rest - counts[-1]
    return lax.convert_element_type(np_.stack(counts, -1), name)


__all__ = [
    "ball",
    "beta",
    "binomial",
    "chisquare",
    "dirichlet",
    "double_sided_maxwell",
    "f",
    "gamma",
    "generalized_normal",
    "geometric",
    "loggamma",
    "lognormal",
    "multinomial",
    "poisson",
    "t",
    "triangular",
    "wald",
]
