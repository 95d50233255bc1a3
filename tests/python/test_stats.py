"""lamina.scipy.stats against scipy.stats: float64, on both sides of the support, and derivatives against differences."""

from __future__ import annotations

import jax
import lamina as lm
import lamina.numpy as lnp
import lamina.scipy.stats as stats
import mpmath as mp
import numpy as np
import pytest
import scipy.stats as reference

X = np.array([-3.0, -0.7, 0.0, 0.2, 0.5, 1.0, 1.3, 4.0, 12.0])
Q = np.array([0.01, 0.3, 0.5, 0.99])
CONTINUOUS = {
    "beta": (2.5, 0.7),
    "cauchy": (),
    "chi2": (3.5,),
    "expon": (),
    "gamma": (2.5,),
    "gennorm": (1.5,),
    "gumbel_l": (),
    "gumbel_r": (),
    "laplace": (),
    "logistic": (),
    "norm": (),
    "pareto": (2.5,),
    "t": (3.0,),
    "truncnorm": (-0.5, 1.2),
    "uniform": (),
    "vonmises": (2.5,),
    "wrapcauchy": (0.4,),
}
DISCRETE = {
    "bernoulli": (0.3,),
    "betabinom": (7.0, 2.5, 1.5),
    "binom": (7.0, 0.3),
    "geom": (0.3,),
    "nbinom": (4.0, 0.3),
    "poisson": (2.5,),
}


def functions(distribution, names):
    return [
        n
        for n in names
        if n not in ("cdf", "sf", "logcdf", "logsf", "ppf", "isf") or n in distribution._functions
    ]


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.filterwarnings("ignore")
def test_continuous(name):
    mine, theirs = getattr(stats, name), getattr(reference, name)
    for f in functions(mine, ["logpdf", "pdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"]):
        x = Q if f in ("ppf", "isf") else X
        for extra in ({}, {"loc": 0.3, "scale": 1.7}):
            got = getattr(mine, f)(lnp.array(x), *CONTINUOUS[name], **extra)
            want = getattr(theirs, f)(x, *CONTINUOUS[name], **extra)
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-300, err_msg=f)


@pytest.mark.parametrize("name", DISCRETE)
@pytest.mark.filterwarnings("ignore")
def test_discrete(name):
    mine, theirs = getattr(stats, name), getattr(reference, name)
    k = np.array([-1.0, 0, 0.5, 1, 2, 3, 7, 8, 20])
    for f in functions(mine, ["logpmf", "pmf", "cdf", "sf"]):
        for loc in (0.0, 2.0):
            got = getattr(mine, f)(lnp.array(k), *DISCRETE[name], loc=loc)
            want = getattr(theirs, f)(k, *DISCRETE[name], loc=loc)
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-300, err_msg=f)


@pytest.mark.parametrize("name", ["norm", "gamma", "beta", "t"])
def test_derivatives(name):
    f, arguments = getattr(stats, name).logpdf, [lnp.float64(v) for v in (0.4, *CONTINUOUS[name], 0.1, 1.3)]
    grads = lm.grad(f, tuple(range(len(arguments))))(*arguments)
    for i, g in enumerate(grads):
        up, down = ([a + h * (i == j) for j, a in enumerate(arguments)] for h in (1e-6, -1e-6))
        assert g.item() == pytest.approx((f(*up) - f(*down)).item() / 2e-6, rel=1e-6, abs=1e-8)


def test_multivariate_normal():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(3, 3))
    cov, mean, x = root @ root.T + np.eye(3), rng.normal(size=3), rng.normal(size=(5, 3))
    want = reference.multivariate_normal.logpdf(x, mean, cov)
    got = lm.jit(stats.multivariate_normal.logpdf)(x, mean, cov)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)
    np.testing.assert_allclose(stats.multivariate_normal.pdf(x, mean, cov).numpy(), np.exp(want), rtol=1e-12)
    slope = lm.grad(lambda m: stats.multivariate_normal.logpdf(x, m, cov).sum())(mean)
    np.testing.assert_allclose(slope.numpy(), np.linalg.solve(cov, (x - mean).T).sum(1), rtol=1e-10)
    assert stats.multivariate_normal.logpdf(0.3, 0.1, 2.0).item() == pytest.approx(
        reference.multivariate_normal.logpdf(0.3, 0.1, 2.0), rel=1e-6
    )
    with pytest.raises(ValueError, match=r"\(\.\.\., 3, 3\)"):
        stats.multivariate_normal.logpdf(x, mean, np.eye(2))


def test_dirichlet():
    alpha, x = np.array([1.5, 2.0, 3.0]), np.array([[0.2, 0.1], [0.3, 0.4], [0.5, 0.5]])
    got = stats.dirichlet.logpdf(x, alpha)
    np.testing.assert_allclose(got.numpy(), reference.dirichlet.logpdf(x, alpha), rtol=1e-12)
    np.testing.assert_allclose(
        stats.dirichlet.pdf(x[:2], alpha).numpy(), reference.dirichlet.pdf(x, alpha), rtol=1e-12
    )
    assert stats.dirichlet.logpdf(np.array([0.5, 0.6, 0.1]), alpha).item() == -np.inf


def test_multinomial():
    x, p = np.array([[1, 2, 4], [0, 7, 0], [1, 1, 1]]), np.array([0.2, 0.3, 0.5])
    want = reference.multinomial.logpmf(x, 7, p)
    np.testing.assert_allclose(lm.jit(stats.multinomial.logpmf)(x, 7, p).numpy(), want, rtol=1e-12)
    np.testing.assert_allclose(stats.multinomial.pmf(x, 7, p).numpy(), np.exp(want), rtol=1e-12)
    slope = lm.grad(lambda p: stats.multinomial.logpmf(x[0], 7, p))(p)
    np.testing.assert_allclose(slope.numpy(), x[0] / p, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "f"), [(n, f) for n in CONTINUOUS for f in ("ppf", "isf") if f in getattr(stats, n)._functions]
)
def test_quantiles_at_the_ends_and_outside(name, f):
    q = np.array([-0.1, -0.0, 0.0, 1e-300, 1e-20, 0.25, 0.5, 1.0, 1.1, np.nan])
    for extra in ({}, {"loc": 0.5, "scale": 2.0}):
        got = getattr(getattr(stats, name), f)(lnp.array(q), *CONTINUOUS[name], **extra).numpy()
        want = getattr(getattr(reference, name), f)(q, *CONTINUOUS[name], **extra)
        np.testing.assert_allclose(got, want, rtol=1e-13)
    assert getattr(stats.cauchy, f)(0.5).item() == 0


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_not_a_number_gives_none(name):
    d, shapes = getattr(stats, name), (CONTINUOUS | DISCRETE)[name]
    for f in functions(d, ["logpdf", "pdf", "logpmf", "pmf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf"]):
        if hasattr(d, f):
            assert np.isnan(getattr(d, f)(np.nan, *shapes).item()), f
            assert np.isnan(getattr(d, f)(0.5, *shapes, loc=np.nan).item()), f


def test_bernoulli_ppf():
    q = np.array([0.0, 0.3, 0.7, 0.71, 1.0])
    for loc in (0, 2):
        # SciPy has no value below the support at 0.
        want = reference.bernoulli.ppf(q, 0.3, loc=loc)[1:]
        np.testing.assert_array_equal(stats.bernoulli.ppf(q, 0.3, loc=loc).numpy()[1:], want)
    assert np.isnan(stats.bernoulli.ppf(1.5, 0.3).item())


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("method", ["average", "min", "max", "dense", "ordinal"])
@pytest.mark.parametrize("dtype", ["float64", "int32"])
def test_rankdata(method, axis, dtype):
    x = np.random.default_rng(0).integers(0, 5, (4, 7)).astype(dtype)
    want = reference.rankdata(x, method, axis=axis)
    f = lambda a: stats.rankdata(a, method, axis=axis)  # noqa: E731
    got = f(lnp.array(x))
    assert got.dtype == "float32"
    np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(lm.jit(f)(lnp.array(x)).numpy(), want)
    if axis is None:
        lanes = lm.vmap(f)(lnp.array(x)).numpy()
        np.testing.assert_array_equal(lanes, [reference.rankdata(row, method) for row in x])


def test_ranks_beside_nan_are_nan():
    x = np.array([[1.0, np.nan, 2.0], [3.0, 1.0, 2.0]])
    np.testing.assert_array_equal(stats.rankdata(x, axis=1).numpy(), reference.rankdata(x, axis=1))
    assert stats.rankdata(np.zeros((0,))).shape == (0,)
    with pytest.raises(ValueError, match="method"):
        stats.rankdata(x, "mean")
    with pytest.raises(NotImplementedError, match="nan_policy"):
        stats.rankdata(x, nan_policy="omit")


_SHAPES = {
    "beta": (1.5, 2.5),
    "gamma": (2.5,),
    "chi2": (3.0,),
    "t": (4.0,),
    "pareto": (2.0,),
    "gennorm": (1.5,),
}
_SHAPES |= {"truncnorm": (-1.0, 2.0), "poisson": (2.5,)}
_SHAPES |= dict.fromkeys(
    ("norm", "expon", "cauchy", "laplace", "logistic", "gumbel_l", "gumbel_r", "uniform"), ()
)


@pytest.mark.parametrize("name", _SHAPES)
@pytest.mark.parametrize("tail", ["logcdf", "logsf"])
def test_logarithms_of_probabilities_beside_one_keep_their_digits(name, tail):
    fixed = getattr(reference, name)(*_SHAPES[name])
    x = np.unique(fixed.ppf([1e-12, 1e-6, 0.01, 0.3, 0.5, 0.51, 0.9, 0.999, 1 - 1e-6, 1 - 1e-9]))
    x = x.astype(np.float32)
    x = x[np.isfinite(getattr(fixed, tail)(x.astype(np.float64)))]
    got = getattr(getattr(stats, name), tail)(x, *map(np.float32, _SHAPES[name]))
    np.testing.assert_allclose(got.numpy(), getattr(fixed, tail)(x.astype(np.float64)), rtol=2e-4)


def test_complex_numbers_are_refused_by_the_name_of_the_distribution():
    with pytest.raises(TypeError, match=r"^norm is not defined for complex64 elements"):
        stats.norm.logpdf(np.ones(2, np.complex64))


def test_sem_of_an_axis_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="axis 2 is out of bounds"):
        stats.sem(lnp.ones(3), axis=2)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_mode_and_sem(axis, keepdims):
    x = np.random.default_rng(1).integers(0, 4, (6, 5)).astype(np.float64)
    want = reference.mode(x, axis=axis, keepdims=keepdims)
    for f in (stats.mode, lm.jit(stats.mode, static_argnames=("axis", "keepdims"))):
        got = f(x, axis=axis, keepdims=keepdims)
        np.testing.assert_array_equal(got.mode.numpy(), want.mode)
        np.testing.assert_array_equal(got.count.numpy(), want.count)
    want = reference.sem(x, axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(stats.sem(x, axis=axis, keepdims=keepdims).numpy(), want, rtol=1e-12)
    x[1, 2] = np.nan
    want = reference.sem(x, axis=axis, nan_policy="omit")
    np.testing.assert_allclose(stats.sem(x, axis=axis, nan_policy="omit").numpy(), want, rtol=1e-12)
    assert np.isnan(stats.sem(x, axis=axis).numpy()).any()


@pytest.mark.parametrize("bandwidth", [None, "scott", "silverman", 0.4, lambda kde: 0.7])
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_gaussian_kde(bandwidth, d, weighted):
    rng = np.random.default_rng(0)
    x, points = rng.normal(size=(d, 20)), rng.normal(size=(d, 6))
    weights = rng.uniform(0.5, 2, 20) if weighted else None
    mine, theirs = (m.gaussian_kde(x, bandwidth, weights) for m in (stats, reference))
    for name in ("pdf", "evaluate", "logpdf", "__call__"):
        want = getattr(theirs, name)(points)
        np.testing.assert_allclose(getattr(mine, name)(points).numpy(), want, rtol=1e-10)
    np.testing.assert_allclose(mine.covariance.numpy(), theirs.covariance, rtol=1e-10)
    mean, cov = np.full(d, 0.2), 0.5 * np.eye(d)
    np.testing.assert_allclose(
        mine.integrate_gaussian(mean, cov).item(), theirs.integrate_gaussian(mean, cov), rtol=1e-10
    )
    others = [m.gaussian_kde(points, 0.5) for m in (stats, reference)]
    np.testing.assert_allclose(
        mine.integrate_kde(others[0]).item(), theirs.integrate_kde(others[1]), rtol=1e-10
    )
    if d == 1:
        want = theirs.integrate_box_1d(-0.3, 1.2)
        np.testing.assert_allclose(mine.integrate_box_1d(-0.3, 1.2).item(), want, rtol=1e-10)
    np.testing.assert_allclose(
        lm.jit(lambda k, p: k.logpdf(p))(mine, points).numpy(), theirs.logpdf(points), rtol=1e-10
    )


def test_gaussian_kde_draws_the_numbers_of_jax_and_has_derivatives():
    x = np.random.default_rng(0).normal(size=(2, 20)).astype(np.float32)
    got = stats.gaussian_kde(x).resample(lm.random.key(3), (5,))
    want = jax.scipy.stats.gaussian_kde(x).resample(jax.random.key(3), (5,))
    np.testing.assert_allclose(got.numpy(), want, rtol=2e-5, atol=1e-6)
    point = np.array([[0.1], [0.2]])
    slope = lm.grad(lambda p: stats.gaussian_kde(x.astype(float)).logpdf(p)[0])(point)
    for i in range(2):
        h = np.zeros((2, 1))
        h[i] = 1e-5
        kde = reference.gaussian_kde(x.astype(float))
        assert slope[i, 0].item() == pytest.approx(
            (kde.logpdf(point + h) - kde.logpdf(point - h))[0] / 2e-5, rel=1e-6
        )
    with pytest.raises(ValueError, match="weights have shape"):
        stats.gaussian_kde(x, weights=np.ones(3))
    with pytest.raises(ValueError, match="bw_method"):
        stats.gaussian_kde(x, "wide")
    with pytest.raises(ValueError, match="dimensions"):
        stats.gaussian_kde(x).pdf(np.zeros((3, 4)))


def test_types_and_errors():
    assert stats.norm.logpdf(1).dtype == "float32"
    assert stats.norm.cdf(lnp.float16(1)).dtype == "float16"
    assert lm.vmap(stats.norm.pdf)(lnp.arange(3.0)).shape == (3,)
    with pytest.raises(TypeError, match=r"gamma\(x, a, loc=0\.0, scale=1\.0\)"):
        stats.gamma.pdf(1.0)
    with pytest.raises(NotImplementedError, match="has no ppf"):
        stats.gamma.ppf(0.5, 2.0)
    with pytest.raises(AttributeError, match="did you mean norm"):
        getattr(stats, "nrom")  # noqa: B009


SHAPES = {
    "gamma": 1, "chi2": 1, "beta": 2, "t": 1, "pareto": 1, "vonmises": 1, "gennorm": 1, "truncnorm": 2, "norm": 0,
    "expon": 0, "laplace": 0, "logistic": 0, "cauchy": 0, "uniform": 0, "gumbel_r": 0, "gumbel_l": 0, "wrapcauchy": 1,
    "bernoulli": 1, "poisson": 1, "geom": 1, "binom": 2, "nbinom": 2, "betabinom": 3,
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_parameters_without_a_distribution_give_nan(name):
    """Half of the parameters drawn are outside their domain; SciPy decides which."""
    random = np.random.default_rng(0)
    mine, theirs = getattr(stats, name), getattr(reference, name)
    whole = hasattr(mine, "pmf")
    x = random.normal(size=150) * (3 if whole else 1.5)
    shapes = [random.normal(size=150) * 1.5 for _ in range(SHAPES[name])]
    if whole:
        x = np.round(x)
    if name in ("binom", "betabinom"):
        shapes[0] = np.round(shapes[0] * 3)
    rest = [np.zeros(150)] if whole else [np.zeros(150), random.normal(size=150)]
    for f in (["pmf", "logpmf"] if whole else ["pdf", "logpdf"]) + ["cdf", "sf", "logcdf", "logsf"]:
        try:
            got = np.asarray(getattr(mine, f)(x, *shapes, *rest))
        except NotImplementedError:
            continue
        want = getattr(theirs, f)(x, *shapes, *rest)
        if f == "logcdf" and whole:  # SciPy's is 0 above the support of a distribution that does not exist
            want = np.where(np.isnan(theirs.cdf(x, *shapes, *rest)), np.nan, want)
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-12, err_msg=f)


def test_students_distribution_of_many_degrees_becomes_the_normal_one():
    """Against mpmath."""
    mp.mp.dps = 50
    z = np.array([-8.0, -1.1, 0.4, 2.5])
    with lm.default_dtypes(float="float64"):
        for df in (1e3, 1e6, 9e6, 2e7, 1e15):
            n = mp.mpf(df)
            tail = [mp.betainc(n / 2, 0.5, 0, n / (n + v**2), regularized=True) / 2 for v in map(mp.mpf, z)]
            below = [float(t if v < 0 else 1 - t) for t, v in zip(tail, z)]
            for f in (stats.t.cdf, lm.jit(stats.t.cdf)):
                np.testing.assert_allclose(f(z, df), below, rtol=2e-9)
            np.testing.assert_allclose(stats.t.sf(-z, df), below, rtol=2e-9)
        for f in ("logpdf", "pdf", "cdf", "sf"):
            got, want = getattr(stats.t, f)(z, np.inf), getattr(reference.norm, f)(z)
            np.testing.assert_allclose(got, want, rtol=1e-12)
        slope = lm.vmap(lm.grad(lambda z: stats.t.logpdf(z, np.inf)))(z)
        np.testing.assert_allclose(slope, -z, rtol=1e-14)


def test_tails_beyond_the_square_root_of_the_largest_float():
    far = np.array([1e200, -1e200, 1e20, -1e20])
    with lm.default_dtypes(float="float64"):
        want = -2 * np.log(np.abs(far)) - np.log(np.pi)
        np.testing.assert_allclose(stats.cauchy.logpdf(far), want, rtol=1e-15)
        np.testing.assert_allclose(stats.cauchy.sf(far[2]), 1e-20 / np.pi, rtol=1e-15)
        np.testing.assert_allclose(stats.cauchy.cdf(far[3]), 1e-20 / np.pi, rtol=1e-15)
        np.testing.assert_allclose(lm.vmap(lm.grad(stats.cauchy.logpdf))(far), -2 / far, rtol=1e-14)
        log_t = np.log(6 * np.sqrt(3) / np.pi) - 4 * np.log(1e200)  # 6 sqrt(3) / (pi (3 + z^2)^2)
        np.testing.assert_allclose(stats.t.logpdf(far[:2], 3.0), log_t, rtol=1e-14)


def test_quantiles_of_laplace():
    q = np.array([0.0, 1e-300, 0.2, 0.5, 0.9, 1.0, -0.1, np.nan])
    with lm.default_dtypes(float="float64"):
        np.testing.assert_allclose(
            stats.laplace.ppf(q, 1.0, 2.0), reference.laplace.ppf(q, 1.0, 2.0), rtol=1e-14
        )
        np.testing.assert_allclose(lm.vmap(lm.grad(stats.laplace.ppf))(q[2:5]), [5.0, 2.0, 10.0], rtol=1e-14)


def test_what_a_gaussian_kde_does_not_do():
    kde = stats.gaussian_kde(np.arange(5.0))
    with pytest.raises(NotImplementedError, match="integrate_box_1d"):
        kde.integrate_box([0.0], [1.0])
    with pytest.raises(NotImplementedError, match="make another one"):
        kde.set_bandwidth(0.5)
