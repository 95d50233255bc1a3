"""lamina.scipy.stats against scipy.stats: float64, on both sides of the support, and derivatives against differences."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import lamina.scipy.stats as stats
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
}
DISCRETE = {"bernoulli": (0.3,), "binom": (7.0, 0.3), "geom": (0.3,), "nbinom": (4.0, 0.3), "poisson": (2.5,)}


def functions(distribution, names):
    return [
        n for n in names if n not in ("cdf", "sf", "logcdf", "logsf", "ppf") or n in distribution._functions
    ]


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.filterwarnings("ignore")
def test_continuous(name):
    mine, theirs = getattr(stats, name), getattr(reference, name)
    for f in functions(mine, ["logpdf", "pdf", "cdf", "sf", "logcdf", "logsf", "ppf"]):
        x = Q if f == "ppf" else X
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
