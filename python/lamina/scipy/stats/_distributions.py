"""Densities and distribution functions; names, parameters and meanings as in scipy.stats.

Computed in float64 and rounded once to the arguments' float type; differentiable by all real arguments.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina.numpy._common import compare, iterate, select
from lamina.scipy.special import _bessel as bessel
from lamina.scipy.special import _convex as convex
from lamina.scipy.special import _error as error
from lamina.scipy.special import _gamma as gammas
from lamina.scipy.special._common import ew, in_float64, is_short, number, safe

_Function = Callable[..., Tensor]


def _log(x: Tensor) -> Tensor:
    return ew("log", x)


def _exp(x: Tensor) -> Tensor:
    return ew("exponential", x)


def _log1p(x: Tensor) -> Tensor:
    return ew("log_plus_one", x)


def _log1p_square(x: Tensor) -> Tensor:
    """log(1 + x^2), also where the square leaves float64, as that of no narrower number does."""
    if is_short():
        return _log1p(ew("multiply", x, x))
    size = ew("abs", x)
    far = compare(size, 1e8, "GT")
    near = _log1p(ew("multiply", *[safe(x, ew("not", far), 1.0)] * 2))
    return select(far, 2.0 * _log(safe(size, far, 1.0)), near)


class _Distribution:
    """Functions of z, x moved and scaled, and of the shape parameters, which are the arguments of `log_density`.

    Where the parameters lie outside `domain`, or the scale is not positive, there is no distribution: NaN. So it is at
    NaN.
    """

    _first: str = "x"
    _last: tuple[str, ...] = ()

    def __init__(
        self, name: str, log_density: _Function, *, domain: _Function | None = None, **functions: _Function
    ) -> None:
        self.__name__, self._log_density, self._functions = name, log_density, functions
        self._domain = domain
        self._shapes = tuple(inspect.signature(log_density).parameters)[1:]
        defaults = [
            inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            for n in (self._first, *self._shapes)
        ]
        for n in self._last:
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            defaults.append(inspect.Parameter(n, kind, default=1.0 if n == "scale" else 0.0))
        self._signature = inspect.Signature(defaults)

    def __repr__(self) -> str:
        return f"lamina.scipy.stats.{self.__name__}"

    def _run(self, f: Callable[..., Tensor], args: Any, kwargs: Any) -> Tensor:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as e:
            raise TypeError(f"{self.__name__}{self._signature}: {e}") from None
        bound.apply_defaults()

        def run(*given: Tensor) -> Tensor:
            return self._where_valid(f(*given), given)

        run.__name__ = self.__name__  # what errors say
        return in_float64(run)(*bound.arguments.values())

    def _where_valid(self, value: Tensor, given: tuple[Tensor, ...]) -> Tensor:
        shapes, loc, scale = self._parameters(given)
        tests = [compare(v, v, "EQ") for v in (given[0], loc)]
        if scale is not None:
            tests.append(compare(scale, 0.0, "GT"))
        if self._domain is not None:
            tests.append(self._domain(*shapes))
        for ok in tests:
            value = select(ok, value, math.nan)
        return value

    def _function(self, name: str) -> _Function:
        if name not in self._functions:
            raise NotImplementedError(
                f"{self.__name__} has no {name}; it has {', '.join(sorted(self._functions))}"
            )
        return self._functions[name]

    def _parameters(self, args: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], Tensor, Any]:
        """(shape parameters, loc, scale), the last None where there is none."""
        shapes = args[1 : 1 + len(self._shapes)]
        loc, *rest = args[1 + len(self._shapes) :]
        return shapes, loc, (rest[0] if rest else None)

    def _split(self, args: tuple[Tensor, ...]) -> tuple[Tensor, tuple[Tensor, ...], Any]:
        """(x as the distribution with loc 0 and scale 1 takes it, shape parameters, scale)."""
        shapes, loc, scale = self._parameters(args)
        z = args[0] - loc
        return (z if scale is None else z / scale), shapes, scale

    def _values(self, name: str, args: Any, kwargs: Any) -> Tensor:
        f = self._function(name)

        def run(*given: Tensor) -> Tensor:
            z, shapes, _ = self._split(given)
            return f(z, *shapes)

        return self._run(run, args, kwargs)

    def cdf(self, *args: Any, **kwargs: Any) -> Tensor:
        """The probability of at most x."""
        return self._values("cdf", args, kwargs)

    def sf(self, *args: Any, **kwargs: Any) -> Tensor:
        """The probability of more than x."""
        return (
            self._values("sf", args, kwargs) if "sf" in self._functions else 1.0 - self.cdf(*args, **kwargs)
        )

    def logcdf(self, *args: Any, **kwargs: Any) -> Tensor:
        """The logarithm of cdf."""
        if "logcdf" in self._functions:
            return self._values("logcdf", args, kwargs)
        return self._log_of(self.cdf, self.sf, args, kwargs)

    def logsf(self, *args: Any, **kwargs: Any) -> Tensor:
        """The logarithm of sf."""
        if "logsf" in self._functions:
            return self._values("logsf", args, kwargs)
        return self._log_of(self.sf, self.cdf, args, kwargs)

    def _log_of(self, f: Any, rest: Any, args: Any, kwargs: Any) -> Tensor:
        """The logarithm of a probability f, from the `rest` to 1, where that is known by itself, beside 1."""
        p = f(*args, **kwargs)
        if "sf" not in self._functions:
            return _log(p)
        near = compare(p, 0.5, "GT")
        return select(near, _log1p(-safe(rest(*args, **kwargs), near, 0.5)), _log(p))


class Continuous(_Distribution):
    """A distribution with a density; every function takes x, the shape parameters, loc=0 and scale=1."""

    _last = ("loc", "scale")

    def logpdf(self, *args: Any, **kwargs: Any) -> Tensor:
        """The logarithm of the density at x, -inf outside the support."""

        def run(*given: Tensor) -> Tensor:
            z, shapes, scale = self._split(given)
            return self._log_density(z, *shapes) - _log(scale)

        return self._run(run, args, kwargs)

    def pdf(self, *args: Any, **kwargs: Any) -> Tensor:
        """The density at x."""

        def run(*given: Tensor) -> Tensor:
            z, shapes, scale = self._split(given)
            return _exp(self._log_density(z, *shapes)) / scale

        return self._run(run, args, kwargs)

    def ppf(self, *args: Any, **kwargs: Any) -> Tensor:
        """The value that is not exceeded with probability x, the inverse of cdf."""
        return self._quantiles("ppf", args, kwargs)

    def isf(self, *args: Any, **kwargs: Any) -> Tensor:
        """The value that is exceeded with probability x, the inverse of sf."""
        return self._quantiles("isf", args, kwargs)

    def _quantiles(self, name: str, args: Any, kwargs: Any) -> Tensor:
        f = self._function(name)

        def run(*given: Tensor) -> Tensor:
            shapes, loc, scale = self._parameters(given)
            quantile = lambda q: f(q, *shapes) * scale + loc  # noqa: E731
            return _inside(_probability(given[0]), given[0], quantile, 0.5, math.nan)

        return self._run(run, args, kwargs)


class Discrete(_Distribution):
    """A distribution on the integers; every function takes k, the parameters and loc=0."""

    _first, _last = "k", ("loc",)

    def logpmf(self, *args: Any, **kwargs: Any) -> Tensor:
        """The logarithm of the probability of k, -inf where it is none."""

        def run(*given: Tensor) -> Tensor:
            z, shapes, _ = self._split(given)
            whole = compare(z, ew("floor", z), "EQ")
            return select(whole, self._log_density(safe(z, whole, 0.0), *shapes), -math.inf)

        return self._run(run, args, kwargs)

    def pmf(self, *args: Any, **kwargs: Any) -> Tensor:
        """The probability of k."""
        return _exp(self.logpmf(*args, **kwargs))

    def entropy(self, *args: Any, **kwargs: Any) -> Tensor:
        """The entropy in units of e, of the parameters; loc changes nothing."""
        f = self._function("entropy")

        def run(*given: Tensor) -> Tensor:
            return f(*given[1 : 1 + len(self._shapes)])

        return self._run(run, (0.0, *args), kwargs)

    def ppf(self, *args: Any, **kwargs: Any) -> Tensor:
        """The least value that is not exceeded with probability x."""
        f = self._function("ppf")

        def run(*given: Tensor) -> Tensor:
            shapes, loc, _ = self._parameters(given)
            quantile = lambda q: f(q, *shapes) + loc  # noqa: E731
            return _inside(_probability(given[0]), given[0], quantile, 0.5, math.nan)

        return self._run(run, args, kwargs)


def _above(*xs: Tensor) -> Tensor:
    """Whether all are positive."""
    return functools.reduce(lambda a, b: ew("and", a, b), [compare(x, 0.0, "GT") for x in xs])


def _probability(p: Tensor, least: str = "GE") -> Tensor:
    return ew("and", compare(p, 0.0, least), compare(p, 1.0, "LE"))


def _count(n: Tensor) -> Tensor:
    return ew("and", compare(n, 0.0, "GE"), compare(n, ew("floor", n), "EQ"))


def _inside(ok: Tensor, z: Tensor, f: Callable[[Tensor], Tensor], instead: float, outside: float) -> Tensor:
    """f(z) where `ok`, else `outside`; `instead` is a harmless z."""
    return select(ok, f(safe(z, ok, instead)), number(outside, z))


def _positive(f: Callable[[Tensor], Tensor], z: Tensor, outside: float = -math.inf) -> Tensor:
    return _inside(compare(z, 0.0, "GE"), z, f, 1.0, outside)


norm = Continuous(
    "norm",
    lambda z: -0.5 * z * z - 0.5 * math.log(2 * math.pi),
    cdf=lambda z: error.ndtr(z),
    sf=lambda z: error.ndtr(-z),
    logcdf=lambda z: error.log_ndtr(z),
    logsf=lambda z: error.log_ndtr(-z),
    ppf=lambda q: error.ndtri(q),
    isf=lambda q: -error.ndtri(q),
)
uniform = Continuous(
    "uniform",
    lambda z: _inside(_probability(z), z, lambda v: v * 0.0, 0.5, -math.inf),
    cdf=lambda z: ew("clamp", number(0, z), z, number(1, z)),
    logsf=lambda z: _log1p(-ew("clamp", number(0, z), z, number(1, z))),
    ppf=lambda q: q,
)
expon = Continuous(
    "expon",
    lambda z: _positive(lambda v: -v, z),
    cdf=lambda z: _positive(lambda v: -ew("exponential_minus_one", -v), z, 0.0),
    sf=lambda z: _positive(lambda v: _exp(-v), z, 1.0),
    logsf=lambda z: _positive(lambda v: -v, z, 0.0),
    ppf=lambda q: -_log1p(-q),
)
gamma = Continuous(
    "gamma",
    lambda z, a: _positive(lambda v: convex.xlogy(a - 1.0, v) - v - gammas.gammaln(a), z),
    cdf=lambda z, a: _positive(lambda v: gammas.gammainc(a, v), z, 0.0),
    sf=lambda z, a: _positive(lambda v: gammas.gammaincc(a, v), z, 1.0),
    domain=lambda a: _above(a),
)
chi2 = Continuous(
    "chi2",
    lambda z, df: _positive(
        lambda v: convex.xlogy(df / 2 - 1.0, v / 2) - v / 2 - gammas.gammaln(df / 2) - math.log(2), z
    ),
    cdf=lambda z, df: _positive(lambda v: gammas.gammainc(df / 2, v / 2), z, 0.0),
    sf=lambda z, df: _positive(lambda v: gammas.gammaincc(df / 2, v / 2), z, 1.0),
    domain=lambda df: _above(df),
)
beta = Continuous(
    "beta",
    lambda z, a, b: _inside(
        _probability(z),
        z,
        lambda v: convex.xlogy(a - 1.0, v) + convex.xlog1py(b - 1.0, -v) - gammas.betaln(a, b),
        0.5,
        -math.inf,
    ),
    cdf=lambda z, a, b: gammas.betainc(a, b, ew("clamp", number(0, z), z, number(1, z))),
    sf=lambda z, a, b: gammas.betainc(b, a, 1.0 - ew("clamp", number(0, z), z, number(1, z))),
    domain=lambda a, b: _above(a, b),
)
laplace = Continuous(
    "laplace",
    lambda z: -ew("abs", z) - math.log(2),
    cdf=lambda z: _laplace_below(z),
    sf=lambda z: _laplace_below(-z),
    logcdf=lambda z: _laplace_log_below(z),
    logsf=lambda z: _laplace_log_below(-z),
    ppf=lambda q: _laplace_quantile(q),
    isf=lambda q: -_laplace_quantile(q),
)


def _laplace_below(z: Tensor) -> Tensor:
    tail = 0.5 * _exp(-ew("abs", z))
    return select(compare(z, 0.0, "LT"), tail, 1.0 - tail)


def _laplace_quantile(q: Tensor) -> Tensor:
    below = compare(q, 0.5, "LT")
    return select(below, _log(2.0 * safe(q, below, 0.25)), -_log(2.0 - 2.0 * safe(q, ew("not", below), 0.75)))


def _laplace_log_below(z: Tensor) -> Tensor:
    return select(compare(z, 0.0, "LT"), z - math.log(2), _log1p(-0.5 * _exp(-ew("abs", z))))


logistic = Continuous(
    "logistic",
    lambda z: convex.log_expit(z) + convex.log_expit(-z),
    cdf=lambda z: convex.expit(z),
    sf=lambda z: convex.expit(-z),
    logcdf=lambda z: convex.log_expit(z),
    logsf=lambda z: convex.log_expit(-z),
    ppf=lambda q: convex.logit(q),
    isf=lambda q: -convex.logit(q),
)
cauchy = Continuous(
    "cauchy",
    lambda z: -_log1p_square(z) - math.log(math.pi),
    cdf=lambda z: _cauchy_above(-z),
    sf=lambda z: _cauchy_above(z),
    ppf=lambda q: _cauchy_quantile(q),
    isf=lambda q: -_cauchy_quantile(q),
)


def _cauchy_above(z: Tensor) -> Tensor:
    """1/2 - atan(z) / pi, without the difference."""
    return ew("atan2", number(1, z), z) / math.pi


def _cauchy_quantile(q: Tensor) -> Tensor:
    """tan(pi (q - 1/2)); near 0 and 1 by the tangent of the tail, which is exact."""
    tail = ew("minimum", ew("abs", q), 1.0 - q)  # a zero's sign is not that of its quotient
    middle = compare(tail, 0.25, "GE")
    inner = ew("tan", math.pi * (safe(q, middle, 0.5) - 0.5))
    outer = 1.0 / ew("tan", math.pi * safe(tail, ew("not", middle), 0.125))
    return select(middle, inner, select(compare(q, 0.5, "LT"), -outer, outer))


def _t_log_density(z: Tensor, df: Tensor) -> Tensor:
    """Of infinite df it is the normal one."""
    normal, some = compare(df, math.inf, "EQ"), safe(df, compare(df, math.inf, "NE"), 1.0)
    out = -0.5 * (some + 1.0) * _log1p_square(z / ew("sqrt", some)) - 0.5 * _log(some)
    out = out - gammas.betaln(0.5 * some, number(0.5, some))
    return select(normal, -0.5 * z * z - 0.5 * math.log(2 * math.pi), out)


def _t_tail(z: Tensor, df: Tensor) -> Tensor:
    """The probability of less than -|z|; of many df by the normal one (Abramowitz, Stegun, 26.7.8)."""
    many, some = compare(df, 1e7, "GT"), safe(df, compare(df, 1e7, "LE"), 1.0)
    out = 0.5 * gammas.betainc(0.5 * some, number(0.5, some), some / (some + z * z))
    as_normal = -ew("abs", z) * (1.0 - 0.25 / df) / ew("sqrt", 1.0 + 0.5 * z * z / df)
    return select(many, error.ndtr(as_normal), out)


t = Continuous(
    "t",
    _t_log_density,
    cdf=lambda z, df: select(compare(z, 0.0, "LT"), _t_tail(z, df), 1.0 - _t_tail(z, df)),
    sf=lambda z, df: select(compare(z, 0.0, "GT"), _t_tail(z, df), 1.0 - _t_tail(z, df)),
    domain=lambda df: _above(df),
)


pareto = Continuous(
    "pareto",
    lambda z, b: _inside(compare(z, 1.0, "GE"), z, lambda v: _log(b) - (b + 1.0) * _log(v), 1.0, -math.inf),
    cdf=lambda z, b: _inside(
        compare(z, 1.0, "GE"), z, lambda v: -ew("exponential_minus_one", -b * _log(v)), 1.0, 0.0
    ),
    sf=lambda z, b: _inside(compare(z, 1.0, "GE"), z, lambda v: _exp(-b * _log(v)), 1.0, 1.0),
    ppf=lambda q, b: _exp(-_log1p(-q) / b),
    domain=lambda b: _above(b),
)
gumbel_r = Continuous(
    "gumbel_r",
    lambda z: -z - _exp(-z),
    cdf=lambda z: _exp(-_exp(-z)),
    logcdf=lambda z: -_exp(-z),
    sf=lambda z: -ew("exponential_minus_one", -_exp(-z)),
    ppf=lambda q: -_log(-_log(q)),
)
gumbel_l = Continuous(
    "gumbel_l",
    lambda z: z - _exp(z),
    cdf=lambda z: -ew("exponential_minus_one", -_exp(z)),
    sf=lambda z: _exp(-_exp(z)),
    logsf=lambda z: -_exp(z),
    ppf=lambda q: _log(-_log1p(-q)),
)
vonmises = Continuous(
    "vonmises",
    # 2 sin(z/2)^2 = 1 - cos(z), without cancellation for a large kappa and a small z.
    lambda z, kappa: (
        -2.0 * kappa * ew("multiply", ew("sine", z / 2), ew("sine", z / 2))
        - _log(bessel.i0e(kappa))
        - math.log(2 * math.pi)
    ),
    domain=lambda kappa: compare(kappa, 0.0, "GE"),
)
wrapcauchy = Continuous(
    "wrapcauchy",
    lambda z, c: _inside(
        ew("and", compare(z, 0.0, "GE"), compare(z, 2 * math.pi, "LE")),
        z,
        lambda v: _log1p(-c * c) - _log(2 * math.pi * (1.0 + c * c - 2.0 * c * ew("cosine", v))),
        0.0,
        -math.inf,
    ),
    domain=lambda c: ew("and", compare(c, 0.0, "GT"), compare(c, 1.0, "LT")),
)
gennorm = Continuous(
    "gennorm",
    lambda z, beta: _log(0.5 * beta) - gammas.gammaln(1.0 / beta) - ew("power", ew("abs", z), beta),
    cdf=lambda z, beta: _gennorm_below(z, beta),
    sf=lambda z, beta: _gennorm_below(-z, beta),
    domain=lambda beta: _above(beta),
)


def _gennorm_below(z: Tensor, beta: Tensor) -> Tensor:
    order, power = 1.0 / beta, ew("power", ew("abs", z), beta)
    tail = 0.5 * gammas.gammaincc(order, power)
    return select(compare(z, 0.0, "LT"), tail, 0.5 + 0.5 * gammas.gammainc(order, power))


truncnorm = Continuous(
    "truncnorm",
    lambda z, a, b: select(
        ew("and", compare(z, a, "GE"), compare(z, b, "LE")),
        -0.5 * z * z - 0.5 * math.log(2 * math.pi) - _log_between(a, b),
        -math.inf,
    ),
    cdf=lambda z, a, b: _exp(_truncated(z, a, b)),
    logcdf=lambda z, a, b: _truncated(z, a, b),
    sf=lambda z, a, b: _exp(_truncated(-z, -b, -a)),
    logsf=lambda z, a, b: _truncated(-z, -b, -a),
    domain=lambda a, b: compare(a, b, "LT"),
)


def _log_between(a: Tensor, b: Tensor) -> Tensor:
    """log(ndtr(b) - ndtr(a)), on the side where both are small."""
    turned = compare(a, 0.0, "GT")
    low, high = select(turned, -b, a), select(turned, -a, b)
    top, bottom = error.log_ndtr(high), error.log_ndtr(low)
    return top + _log1p(-_exp(bottom - top))


def _truncated(z: Tensor, a: Tensor, b: Tensor) -> Tensor:
    inside = ew("and", compare(z, a, "GT"), compare(z, b, "LT"))
    value = _log_between(a, select(inside, z, b)) - _log_between(a, b)
    return select(compare(z, a, "LE"), -math.inf, select(inside, value, 0.0))


bernoulli = Discrete(
    "bernoulli",
    lambda k, p: select(compare(k, 0.0, "EQ"), _log1p(-p), select(compare(k, 1.0, "EQ"), _log(p), -math.inf)),
    cdf=lambda k, p: select(compare(k, 0.0, "LT"), 0.0, select(compare(k, 1.0, "LT"), 1.0 - p, 1.0)),
    ppf=lambda q, p: select(compare(q, 1.0 - p, "GT"), 1.0, q * 0.0),
    domain=lambda p: _probability(p),
)
poisson = Discrete(
    "poisson",
    lambda k, mu: _positive(lambda v: convex.xlogy(v, mu) - gammas.gammaln(v + 1.0) - mu, k),
    cdf=lambda k, mu: _positive(lambda v: gammas.gammaincc(ew("floor", v) + 1.0, mu), k, 0.0),
    sf=lambda k, mu: _positive(lambda v: gammas.gammainc(ew("floor", v) + 1.0, mu), k, 1.0),
    entropy=lambda mu: _poisson_entropy(mu),
    domain=lambda mu: compare(mu, 0.0, "GE"),
)


def _poisson_entropy(mu: Tensor) -> Tensor:
    """A sum over the likely values, or for large mu a series in 1 / mu (Evans, Boersma, SIAM Review 30, 1988)."""
    large = compare(mu, 60.0, "GE")
    none = compare(mu, 0.0, "LE")
    small = safe(mu, ew("not", ew("or", large, none)), 1.0)
    last = small + 12.0 * ew("sqrt", small) + 30.0

    def step(k: Tensor, p: Tensor, log: Tensor, total: Tensor) -> list[Tensor]:
        k = k + 1.0
        log = log + _log(k)
        p = p * small / k
        return [k, p, log, total + p * log]

    zero = number(0, mu)
    state = iterate(
        [zero, _exp(-small), zero, zero], lambda k, p, log, total: compare(k, last, "LT"), step, 400
    )
    summed = small * (1.0 - _log(small)) + state[3]
    far = safe(mu, large, 100.0)
    r = 1.0 / far
    tail = r * (1 / 12 + r * (1 / 24 + r * (19 / 360 + r * (9 / 80 + r * (863 / 2520 + r * (1375 / 1008))))))
    series = 0.5 * _log(2 * math.pi * math.e * far) - tail
    return select(none, 0.0, select(large, series, summed))


geom = Discrete(
    "geom",
    lambda k, p: _inside(
        compare(k, 1.0, "GE"), k, lambda v: convex.xlog1py(v - 1.0, -p) + _log(p), 1.0, -math.inf
    ),
    cdf=lambda k, p: _positive(lambda v: -ew("exponential_minus_one", ew("floor", v) * _log1p(-p)), k, 0.0),
    domain=lambda p: _probability(p, "GT"),
)
binom = Discrete(
    "binom",
    lambda k, n, p: _inside(
        ew("and", compare(k, 0.0, "GE"), compare(k, n, "LE")),
        k,
        lambda v: (
            convex.xlogy(v, p)
            + convex.xlog1py(n - v, -p)
            - _log(n + 1.0)
            - gammas.betaln(ew("maximum", n - v, 0.0) + 1.0, v + 1.0)
        ),
        0.0,
        -math.inf,
    ),
    cdf=lambda k, n, p: _binomial_cdf(ew("floor", k), n, p),
    domain=lambda n, p: ew("and", _count(n), _probability(p)),
)


def _binomial_cdf(k: Tensor, n: Tensor, p: Tensor) -> Tensor:
    inside = ew("and", compare(k, 0.0, "GE"), compare(k, n, "LT"))
    v = safe(k, inside, 0.0)
    value = gammas.betainc(select(inside, n - v, 1.0), v + 1.0, 1.0 - p)
    return select(inside, value, select(compare(k, 0.0, "LT"), 0.0, 1.0))


nbinom = Discrete(
    "nbinom",
    lambda k, n, p: _positive(
        lambda v: (
            gammas.gammaln(v + n)
            - gammas.gammaln(v + 1.0)
            - gammas.gammaln(n)
            + n * _log(p)
            + convex.xlog1py(v, -p)
        ),
        k,
    ),
    cdf=lambda k, n, p: _positive(lambda v: gammas.betainc(n, ew("floor", v) + 1.0, p), k, 0.0),
    domain=lambda n, p: ew("and", _above(n), _probability(p, "GT")),
)


betabinom = Discrete(
    "betabinom",
    lambda k, n, a, b: _inside(
        ew("and", compare(k, 0.0, "GE"), compare(k, n, "LE")),
        k,
        lambda v: (
            gammas.betaln(v + a, ew("maximum", n - v, 0.0) + b)
            - gammas.betaln(a, b)
            - _log(n + 1.0)
            - gammas.betaln(ew("maximum", n - v, 0.0) + 1.0, v + 1.0)
        ),
        0.0,
        -math.inf,
    ),
    domain=lambda n, a, b: ew("and", _count(n), _above(a, b)),
)


class _MultivariateNormal:
    """The normal distribution of vectors."""

    def logpdf(self, x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Tensor:
        """The logarithm of the density at x, [..., n], with mean [..., n] or a number and covariance [..., n, n],

        or a number or scalar array: variances of independent parts. The leading dimensions broadcast.
        """
        from lamina import numpy as lnp
        from lamina.lax.linalg import triangular_solve
        from lamina.numpy._common import promote_inexact

        if allow_singular is not None:
            raise NotImplementedError("multivariate_normal: allow_singular is not supported")
        x, mean, cov = promote_inexact(x, mean, cov)
        if mean.ndim == 0:
            d = x - mean
            return -0.5 * (d * d / cov + math.log(2 * math.pi) + lnp.log(cov))
        n = mean.shape[-1]
        if cov.ndim == 0:
            d = x - mean
            return -0.5 * (lnp.sum(d * d, -1) / cov + n * math.log(2 * math.pi) + n * lnp.log(cov))
        if cov.ndim < 2 or cov.shape[-2:] != (n, n):
            raise ValueError(
                f"multivariate_normal: a mean of shape {mean.shape} needs a covariance of shape (..., {n}, {n}), "
                f"not {cov.shape}"
            )
        factor = lnp.linalg.cholesky(cov)
        d = x - mean
        lead = lnp.broadcast_shapes(d.shape[:-1], factor.shape[:-2])
        factor, d = lnp.broadcast_to(factor, (*lead, n, n)), lnp.broadcast_to(d, (*lead, n))
        y = triangular_solve(factor, d[..., None], left_side=True, lower=True)[..., 0]
        logs = lnp.sum(lnp.log(lnp.diagonal(factor, axis1=-2, axis2=-1)), -1)
        return -0.5 * lnp.sum(y * y, -1) - 0.5 * n * math.log(2 * math.pi) - logs

    def pdf(self, x: Any, mean: Any, cov: Any) -> Tensor:
        """The density at x; see logpdf."""
        return _exp(self.logpdf(x, mean, cov))


class _Dirichlet:
    """Dirichlet's distribution on the simplex."""

    def logpdf(self, x: Any, alpha: Any) -> Tensor:
        """The logarithm of the density at x, [n, ...] (or [n - 1, ...]: without the last part); -inf
        outside.
        """
        from lamina import numpy as lnp

        a, x = to_tensor(alpha), to_tensor(x)
        if a.ndim != 1:
            raise ValueError(f"dirichlet needs a vector of concentrations, not shape {a.shape}")
        if x.shape[0] + 1 == a.shape[0]:
            x = lnp.concatenate([x, 1 - lnp.sum(x, 0, keepdims=True)])
        if x.shape[0] != a.shape[0]:
            raise ValueError(f"dirichlet: x of shape {x.shape} for {a.shape[0]} concentrations")
        a = a.reshape((-1, *[1] * (x.ndim - 1)))
        norm = lnp.sum(gammas.gammaln(a), 0) - gammas.gammaln(lnp.sum(a, 0))
        value = lnp.sum(convex.xlogy(a - 1, x), 0) - norm
        ok = (x >= 0).all(0) & (lnp.abs(lnp.sum(x, 0) - 1) < 1e-6)
        return lnp.where(ok, value, -math.inf)

    def pdf(self, x: Any, alpha: Any) -> Tensor:
        """The density at x; see logpdf."""
        return _exp(self.logpdf(x, alpha))


class _Multinomial:
    """How often each of several results comes, of n draws."""

    def logpmf(self, x: Any, n: Any, p: Any) -> Tensor:
        """The logarithm of the probability of the counts x, [..., k], where p, [..., k], are the results' own.

        -inf where the counts do not sum to n.
        """
        from lamina import numpy as lnp
        from lamina.numpy._common import promote_inexact

        total, (x, p, n) = compare(lnp.sum(to_tensor(x), -1), to_tensor(n), "EQ"), promote_inexact(x, p, n)
        value = gammas.gammaln(n + 1.0) + lnp.sum(convex.xlogy(x, p) - gammas.gammaln(x + 1.0), -1)
        return lnp.where(total, value, -math.inf)

    def pmf(self, x: Any, n: Any, p: Any) -> Tensor:
        """The probability of the counts x; see logpmf."""
        return _exp(self.logpmf(x, n, p))


multivariate_normal, dirichlet, multinomial = _MultivariateNormal(), _Dirichlet(), _Multinomial()

__all__ = [
    "bernoulli",
    "beta",
    "betabinom",
    "binom",
    "cauchy",
    "chi2",
    "dirichlet",
    "expon",
    "gamma",
    "gennorm",
    "geom",
    "gumbel_l",
    "gumbel_r",
    "laplace",
    "logistic",
    "multinomial",
    "multivariate_normal",
    "nbinom",
    "norm",
    "pareto",
    "poisson",
    "t",
    "truncnorm",
    "uniform",
    "vonmises",
    "wrapcauchy",
]
