"""lamina.scipy.special against SciPy and mpmath: values in float64 and float32, derivatives to second order."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import lamina.scipy.special as special
import mpmath as mp
import numpy as np
import pytest
import scipy.special as reference

RNG = np.random.default_rng(0)
POSITIVE = np.concatenate([10 ** RNG.uniform(-8, 2, 120), RNG.uniform(0, 10, 60), [0.5, 1, 2, 10, 11.5]])
REAL = np.concatenate([POSITIVE, -POSITIVE])
UNIT = np.concatenate([RNG.uniform(0, 1, 100), 10 ** RNG.uniform(-20, 0, 60), [0.3, 0.5, 0.7]])
SIZE = len(POSITIVE)
SHAPES = 10 ** RNG.uniform(-3, 3.5, SIZE)
POINTS = 10 ** RNG.uniform(-4, 3.6, SIZE)
LARGE = SHAPES + 2000
NATURAL = RNG.integers(0, 6, SIZE)
CHANCE = np.clip(RNG.uniform(0, 1, SIZE), 0, 1)

# name, arguments, bound on the relative error in float64
VALUES = [
    ("beta", (POSITIVE, POSITIVE[::-1]), 1e-12),
    ("betainc", (10 ** RNG.uniform(-2, 2.5, SIZE), 10 ** RNG.uniform(-2, 2.5, SIZE), CHANCE), 1e-12),
    ("betaln", (POSITIVE * 10, POSITIVE[::-1]), 2e-12),
    ("boxcox", (POSITIVE, REAL[:SIZE] / 50), 4e-15),
    ("boxcox1p", (POSITIVE, REAL[:SIZE] / 50), 4e-15),
    ("comb", (np.arange(40.0).repeat(40), np.tile(np.arange(40.0), 40)), 1e-12),
    ("dawsn", (REAL,), 1e-14),
    ("digamma", (POSITIVE,), 1e-14),
    ("entr", (REAL,), 1e-15),
    ("erf", (REAL,), 1e-15),
    ("erfc", (REAL[np.abs(REAL) < 26],), 1e-13),
    ("erfcinv", (UNIT * 2,), 4e-15),
    ("erfcx", (REAL[np.abs(REAL) < 20],), 1e-13),
    ("erfinv", (UNIT,), 1e-15),
    ("exp1", (POSITIVE,), 3e-14),
    ("expi", (REAL,), 1e-13),
    ("expit", (REAL,), 1e-15),
    ("expn", (NATURAL, POSITIVE), 3e-14),
    ("exprel", (REAL[np.abs(REAL) < 50],), 2e-15),
    ("factorial", (np.arange(30.0),), 4e-15),
    ("gamma", (np.concatenate([REAL, RNG.uniform(-170, 171, 100)]),), 1e-14),
    ("gammainc", (SHAPES, POINTS), 2e-12),
    ("gammainc", (LARGE, LARGE * RNG.uniform(0.9, 1.1, SIZE)), 1e-12),
    ("gammaincc", (SHAPES, POINTS), 2e-12),
    ("gammaincc", (LARGE, LARGE * RNG.uniform(0.9, 1.1, SIZE)), 1e-12),
    ("gammaln", (POSITIVE,), 2e-13),
    ("gammasgn", (REAL,), 0),
    ("huber", (UNIT, REAL[: len(UNIT)]), 1e-15),
    ("i0", (REAL,), 4e-15),
    ("i0e", (REAL,), 4e-15),
    ("i1", (REAL,), 4e-15),
    ("i1e", (REAL,), 4e-15),
    ("kl_div", (UNIT, POSITIVE[: len(UNIT)]), 1e-13),
    ("log_expit", (REAL,), 1e-15),
    ("log_ndtr", (REAL,), 1e-12),
    ("logit", (UNIT,), 2e-15),
    ("ndtr", (REAL[np.abs(REAL) < 30],), 1e-12),
    ("ndtri", (UNIT,), 4e-15),
    ("poch", (POSITIVE[120:180], UNIT[:60]), 4e-14),
    ("polygamma", (NATURAL, RNG.uniform(-5, 30, SIZE)), 1e-13),
    ("rel_entr", (UNIT, POSITIVE[: len(UNIT)]), 1e-13),
    ("rgamma", (REAL,), 1e-14),
    ("sici", (REAL,), 1e-12),
    ("spence", (POSITIVE,), 1e-13),
    ("xlog1py", (UNIT, POSITIVE[: len(UNIT)]), 1e-15),
    ("xlogy", (UNIT, POSITIVE[: len(UNIT)]), 1e-15),
    ("zeta", (1 + POSITIVE[:SIZE], RNG.uniform(0.01, 30, SIZE)), 4e-15),
]


def test_fresnel():
    """Against mpmath: SciPy loses the phase of large arguments."""
    x = np.concatenate([POSITIVE[:60], RNG.uniform(0, 8, 60), [1.4999, 1.5, 1.5001, 300.0, 1e5, 1e10]])
    with mp.workdps(50):
        want = [[float(f(mp.mpf(v))) for v in x] for f in (mp.fresnels, mp.fresnelc)]
    for got, minus, w in zip(special.fresnel(x), special.fresnel(-x), want):
        assert relative_error(got.numpy(), w) <= 2e-15
        np.testing.assert_array_equal(minus.numpy(), -got.numpy())
    ends = np.array([0.0, -0.0, np.inf, -np.inf, np.nan])
    for got, w in zip(special.fresnel(ends), reference.fresnel(ends)):
        np.testing.assert_array_equal(got.numpy(), w)
    for i, (f, g) in enumerate(
        [(np.sin, lambda p: np.pi * 2.2 * np.cos(p)), (np.cos, lambda p: -np.pi * 2.2 * np.sin(p))]
    ):
        one = lambda v, i=i: special.fresnel(v)[i]  # noqa: E731
        p = np.pi * 2.2**2 / 2
        x = lnp.array(np.array(2.2))
        for d in (
            lm.grad(one),
            lm.jit(lm.grad(one)),
            lambda v, o=one: lm.jvp(o, (v,), (lnp.ones_like(v),))[1],
        ):
            assert d(x).item() == pytest.approx(f(p), rel=1e-13)
        assert lm.grad(lm.grad(one))(x).item() == pytest.approx(g(p), rel=1e-13)


def relative_error(got, want):
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    error = np.abs(got - want) / np.maximum(np.abs(want), 1e-290)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    return np.nan_to_num(np.where(same, 0, error), nan=np.inf).max()


# Computed in float32 where the argument is: within 0.75 units in the last place (docs/accuracy.md), so the float64
# value rounded or a neighbour of it.
IN_OWN_TYPE = {"erf", "erfc", "erfinv", "expit"}


@pytest.mark.parametrize(("name", "args", "bound"), VALUES)
def test_values(name, args, bound):
    with np.errstate(all="ignore"):
        want = getattr(reference, name)(*args)
    got = getattr(special, name)(*[lnp.array(a) for a in args])
    pairs = list(zip(got, want)) if isinstance(want, tuple) else [(got, want)]
    for g, w in pairs:
        assert g.dtype == "float64"
        assert relative_error(g.numpy(), w) <= bound
    # float32: the float64 value of the float32 arguments, rounded once (but for IN_OWN_TYPE).
    narrow = [np.asarray(a, np.float32 if a.dtype.kind == "f" else np.int32) for a in args]
    wide = [np.asarray(a, np.float64 if a.dtype.kind == "f" else np.int32) for a in narrow]
    got = getattr(special, name)(*narrow)
    want = getattr(special, name)(*[lnp.array(a) for a in wide])
    for g, w in zip(*[x if isinstance(x, tuple) else (x,) for x in (got, want)]):
        assert g.dtype == "float32"
        if name in IN_OWN_TYPE:
            np.testing.assert_array_max_ulp(g.numpy(), w.astype("float32").numpy(), maxulp=1)
        else:
            np.testing.assert_array_equal(g.numpy(), w.astype("float32").numpy())


SPECIAL_VALUES = np.array([0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, np.inf, -np.inf, np.nan])
EDGES = [
    "dawsn digamma entr erf erfc erfcinv erfcx erfinv exp1 expi expit exprel gamma gammaln gammasgn i0 i0e i1 i1e",
    "log_expit log_ndtr logit ndtr ndtri rgamma spence",
]
# Where SciPy's choice is its own: Gamma(-inf) and its kin have no limit, psi has poles of either sign, and the limit of
# Spence's function at inf is -inf.
OTHER_EDGES = {
    "digamma": [0, 1, 3, 5, 8],
    "gammaln": [8],
    "gamma": [8],
    "gammasgn": [1, 8],
    "rgamma": [8],
    "i1": [7, 8],
    "spence": [7],
}


@pytest.mark.parametrize("name", " ".join(EDGES).split())
def test_edges(name):
    skipped = OTHER_EDGES.get(name, [])
    x = np.delete(SPECIAL_VALUES, skipped)
    with np.errstate(all="ignore"):
        want = getattr(reference, name)(x)
    np.testing.assert_allclose(getattr(special, name)(lnp.array(x)).numpy(), want, rtol=1e-13)


@pytest.mark.parametrize(
    ("name", "pairs"),
    [
        ("xlogy", [(0, 0), (0, 2), (0, np.inf), (0, np.nan), (1, 0)]),
        ("xlog1py", [(0, -1), (0, 2), (1, -1), (0, np.nan)]),
        ("rel_entr", [(0, 0), (0, 1), (1, 0), (-1, 1), (np.nan, 1)]),
        ("kl_div", [(0, 0), (0, 1), (1, 0), (-1, 1), (np.inf, 0), (-1, -np.inf), (0, -np.inf), (np.nan, 1)]),
        ("boxcox", [(0, 0), (np.inf, 0), (0, 1), (0, -1), (1, 0)]),
        ("boxcox1p", [(-1, 0), (np.inf, 0), (-1, 1), (0, 0)]),
        ("gammainc", [(0, 1), (1, 0), (-1, 1), (1, -1), (1, np.inf), (np.inf, 1), (np.nan, 1)]),
        ("gammaincc", [(0, 1), (1, 0), (-1, 1), (1, -1), (1, np.inf), (np.inf, 1), (np.nan, 1)]),
        ("zeta", [(1, 1), (2, 0), (2, -1), (0.5, 1), (2, np.inf)]),
        ("comb", [(5, -1), (3, 5), (5, 0), (0, 0)]),
        ("poch", [(2, 0), (-1.5, 2), (0.5, -0.25), (np.inf, 1.5), (np.inf, -1.5), (np.inf, 0)]),
        ("huber", [(-1, 2), (1, 1), (1, -3)]),
    ],
)
def test_edges_of_two_arguments(name, pairs):
    a, b = np.array(pairs, np.float64).T
    with np.errstate(all="ignore"):
        want = getattr(reference, name)(a, b)
    np.testing.assert_allclose(
        getattr(special, name)(lnp.array(a), lnp.array(b)).numpy(), want, rtol=1e-12, atol=1e-300
    )


def test_values_where_formulas_meet():
    """The ends of the ranges of each formula, and where the result is near 0, against mpmath."""
    tiny, close = np.array([5e-324, 3e-310, 2.3e-308]), np.array([1e-15, 1e-9, 1e-3])
    joins = np.array([-1e154, -30.0, -14.2, -14.1, -1.0, np.nextafter(-1, 0), 0.0, 4.0])
    cases = [
        (
            "logit",
            lambda p: mp.log(p / (1 - p)),
            np.concatenate([tiny, 0.5 - close, 0.5 + close, 1 - close]),
            4e-16,
        ),
        (
            "erfcx",
            lambda x: mp.exp(x * x) * mp.erfc(x),
            np.array([-26.6, -10.1, -1e-9, 9.9, 10.0, 10.1]),
            1e-15,
        ),
        ("log_ndtr", lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2), joins[1:], 2e-15),
    ]
    with mp.workdps(50):
        for name, exact, x, bound in cases:
            got = getattr(special, name)(lnp.array(x)).numpy()
            assert relative_error(got, [float(exact(mp.mpf(float(v)))) for v in x]) <= bound, name
    assert special.log_ndtr(lnp.float64(joins[0])).item() == pytest.approx(-5e307)
    assert special.logit(lnp.float64(-0.0)).item() == -np.inf


GRID = np.arange(-6, 6.5, 0.5)
A, B = (v.ravel() for v in np.meshgrid(np.concatenate([GRID, [-20.5, -20, 20, 30.5, 171]]), GRID))


@pytest.mark.parametrize("name", ["poch", "beta", "betaln"])
def test_poles_of_two_arguments(name):
    with np.errstate(all="ignore"):
        want = getattr(reference, name)(A, B)
    if name == "beta":  # an infinity has SciPy's sign, which is that of how it is reached
        want = np.where(np.isinf(want), np.inf, want)
    got = getattr(special, name)(lnp.array(A), lnp.array(B)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12 * (name == "betaln"))
    assert not np.signbit(got[got == 0]).any()
    assert special.poch(-1.0, 1.0).item() == special.beta(-1.0, 1.0).item() == -1


def test_functions_of_large_arguments():
    large = lnp.array([171.5, 172.0, 1e4, 1e5, 1e10, 1e300])
    np.testing.assert_array_equal(special.gamma(large).numpy()[1:], np.inf)
    np.testing.assert_array_equal(special.rgamma(large).numpy()[1:], 0)
    np.testing.assert_array_equal(special.factorial(large).numpy(), np.inf)
    whole = np.arange(1.0, 18.0)
    np.testing.assert_array_equal(special.gamma(lnp.array(whole)).numpy(), reference.gamma(whole))
    assert special.poch(lnp.float64(1e10), 0.5).item() == pytest.approx(99999.99999875, rel=1e-13)
    for b in (-5.5, -0.5, 0.3):
        got = special.betaln(lnp.float64(1e10), b).item()
        assert got == pytest.approx(reference.betaln(1e10, b), rel=1e-13)


@pytest.mark.parametrize("a", [1e6, 1e8, 1e10, 1e13])
def test_incomplete_gamma_functions_of_large_parameters(a):
    x = a + np.array([-3.0, -1.0, -0.1, 0.0, 0.1, 1.0, 3.0]) * np.sqrt(a)
    for name in ("gammainc", "gammaincc"):
        np.testing.assert_allclose(
            getattr(special, name)(a, lnp.array(x)).numpy(), getattr(reference, name)(a, x), rtol=1e-9
        )
    # SciPy 1.17 loses the tail, which is the normal one there.
    tail = float(mp.ncdf(-5) - (25 - 1) * mp.npdf(5) / (3 * mp.sqrt(a)))
    assert special.gammainc(a, lnp.float64(a - 5 * np.sqrt(a))).item() == pytest.approx(
        tail, rel=1e3 / a + 1e-6
    )


def test_zeros_have_scipys_signs():
    assert not np.signbit(special.entr(lnp.array([0.0, -0.0])).numpy()).any()
    assert not np.signbit(special.spence(1.0).item()) and np.signbit(special.dawsn(-0.0).item())


def test_derivatives_at_the_zeros_of_the_reciprocal_gamma_function():
    points = [0.0, -1.0, -2.0, -5.0, 0.25, 3.0]
    for order in (1, 2):
        got = lm.vmap(differentiated(special.rgamma, [0] * order))(lnp.array(np.array(points))).numpy()
        np.testing.assert_allclose(got, [float(mp.diff(mp.rgamma, p, order)) for p in points], rtol=1e-11)
    z = lnp.array(np.array([-1.0, -1.0, -2.0, 0.5, 1e5]))
    m = lnp.array(np.array([1.0, 2.0, 1.0, 3.0, 0.5]))
    got = lm.vmap(lm.grad(special.poch))(z, m).numpy()
    np.testing.assert_allclose(got[:4], [1, -1, 1, 5.75], rtol=1e-12)
    assert lm.grad(special.poch, 1)(lnp.float64(2.0), 0.0).item() == pytest.approx(reference.digamma(2.0))


def normal_log(x):
    return mp.log(mp.ncdf(x))


DERIVATIVES = {
    "dawsn": (lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), [0.0, 0.3, 2.0, 10.0]),
    "digamma": (mp.digamma, [0.3, 2.5, 20.0]),
    "entr": (lambda x: -x * mp.log(x), [0.3, 2.0]),
    "erf": (mp.erf, [0.0, 0.5, -2.0]),
    "erfc": (mp.erfc, [0.0, 0.5, 5.0]),
    "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x), [0.0, 0.5, -2.0, 3.0, 12.0, 30.0]),
    "erfinv": (mp.erfinv, [0.0, 0.5]),
    "exp1": (mp.e1, [0.3, 2.0]),
    "expi": (mp.ei, [0.3, 2.0, -2.0, 45.0]),
    "expit": (lambda x: 1 / (1 + mp.exp(-x)), [0.0, 2.0]),
    "exprel": (lambda x: (mp.exp(x) - 1) / x, [0.2, 1.0]),
    "gamma": (mp.gamma, [0.3, 2.5, -1.3, 15.2]),
    "gammaln": (lambda x: mp.log(abs(mp.gamma(x))), [0.3, 2.0, 12.0]),
    "i0": (lambda x: mp.besseli(0, x), [0.0, 1.0, 9.0, -3.0]),
    "i0e": (lambda x: mp.exp(-x) * mp.besseli(0, x), [1.0, 9.0]),
    "i1": (lambda x: mp.besseli(1, x), [0.0, 1.0, 9.0, -3.0]),
    "i1e": (lambda x: mp.exp(-x) * mp.besseli(1, x), [1.0, 9.0]),
    "log_expit": (lambda x: -mp.log(1 + mp.exp(-x)), [0.0, 2.0, -20.0]),
    "log_ndtr": (normal_log, [0.0, 2.0, -3.0, -20.0, 8.0]),
    "logit": (lambda x: mp.log(x / (1 - x)), [0.2, 0.5, 0.64]),
    "ndtr": (mp.ncdf, [0.0, 1.0, -3.0]),
    "ndtri": (lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1), [0.5, 0.3, 0.01, 0.99]),
    "spence": (lambda x: mp.polylog(2, 1 - x), [0.2, 1.0, 1.01, 3.0]),
}


def differentiated(f, argnums):
    for k in argnums:
        f = lm.grad(f, k)
    return f


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name):
    function, points = DERIVATIVES[name]
    with mp.workdps(40):
        for order in (1, 2):
            got = lm.jit(lm.vmap(differentiated(getattr(special, name), [0] * order)))(
                lnp.array(np.array(points))
            )
            want = [float(mp.re(mp.diff(function, p, order))) for p in points]
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-11, atol=1e-13)


DERIVATIVES_OF_TWO = {
    "betaln": (lambda a, b: mp.log(mp.beta(a, b)), [(1.5, 2.5), (12.0, 0.3), (20.0, 30.0)]),
    "boxcox": (lambda x, k: (x**k - 1) / k, [(1.5, 2.5), (2.0, -0.3)]),
    "gammainc": (
        lambda a, x: mp.gammainc(a, 0, x, regularized=True),
        [(1.5, 2.5), (12.0, 3.0), (2.0, 8.0), (0.3, 0.1)],
    ),
    "kl_div": (lambda p, q: p * mp.log(p / q) - p + q, [(1.5, 2.5)]),
    "xlog1py": (lambda x, y: x * mp.log(1 + y), [(1.5, 2.5), (0.0, 2.0)]),
    "xlogy": (lambda x, y: x * mp.log(y), [(1.5, 2.5), (0.0, 2.0)]),
    "zeta": (mp.zeta, [(1.5, 2.5), (3.0, 0.2)]),
}


@pytest.mark.parametrize("name", DERIVATIVES_OF_TWO)
def test_derivatives_of_two_arguments(name):
    function, points = DERIVATIVES_OF_TWO[name]
    with mp.workdps(30):
        for argnums in ((0,), (1,), (0, 0), (0, 1), (1, 1)):
            f = lm.vmap(differentiated(getattr(special, name), argnums))
            got = f(*[lnp.array(c) for c in np.array(points).T]).numpy()
            orders = (argnums.count(0), argnums.count(1))
            want = [float(mp.diff(function, p, orders)) for p in points]
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def test_derivatives_of_the_incomplete_beta_function():
    point = (lnp.float64(4.0), lnp.float64(2.0), lnp.float64(0.9))
    want = {(0,): -0.03116784805233976, (1,): 0.12672858167529494, (2,): 1.458, (0, 2): 0.5024843681708893}
    for argnums, value in want.items():
        assert differentiated(special.betainc, argnums)(*point).item() == pytest.approx(value, rel=1e-10)


def test_orders_are_natural_numbers():
    assert np.isnan(special.polygamma(1.5, 2.0).item())
    assert special.polygamma(2, 1.5).item() == pytest.approx(reference.polygamma(2, 1.5), rel=1e-6)
    slope = lm.grad(lambda x: special.polygamma(2, x))(lnp.float64(1.5)).item()
    assert slope == pytest.approx(reference.polygamma(3, 1.5), rel=1e-12)
    with pytest.raises(NotImplementedError, match="no derivative by its order"):
        lm.grad(lambda n: special.polygamma(n, 2.0))(1.0)


def test_bessel_functions_and_numbers():
    got = special.bessel_jn(lnp.array([0.0, 1.0, 5.0]), v=3).numpy()
    want = np.stack([reference.jv(k, [0.0, 1.0, 5.0]) for k in range(4)])
    np.testing.assert_allclose(got, want, atol=1e-7)
    np.testing.assert_allclose(special.bernoulli(10).numpy(), reference.bernoulli(10), rtol=1e-6)
    assert special.multigammaln(5.0, 3).item() == pytest.approx(reference.multigammaln(5.0, 3), rel=1e-6)


def test_edges_of_the_sine_and_cosine_integrals():
    np.testing.assert_allclose(special.sici(SPECIAL_VALUES), reference.sici(SPECIAL_VALUES), rtol=1e-13)


def test_types_and_errors():
    with pytest.raises(TypeError, match=r"beta\(\) got an unexpected keyword argument 'x'"):
        special.beta(x=1, y=1)
    with pytest.raises(TypeError, match="missing 1 required"):
        special.gammaln()
    assert special.gammaln(3).dtype == "float32"
    assert special.erf(lnp.float16(1.0)).dtype == "float16"
    assert special.xlogy(2, lnp.array([1.0, 2.0])).shape == (2,)
    with pytest.raises(TypeError, match="complex"):
        special.digamma(1j)
    with pytest.raises(NotImplementedError, match=r"math\.comb"):
        special.comb(5, 2, exact=True)
    with pytest.raises(ValueError, match="at least 1"):
        special.multigammaln(5.0, 0)


@pytest.mark.parametrize("size", [0.5, 4.0, 30.0])
@pytest.mark.parametrize("name", ["gamma", "loggamma", "wofz", "erfcx"])
def test_complex_arguments(name, size):
    z = size * (RNG.normal(size=300) + 1j * RNG.normal(size=300))
    f, expected = getattr(special, name), getattr(reference, name)(z)
    good = np.isfinite(expected)
    np.testing.assert_allclose(
        f(z).numpy()[good], expected[good], rtol=2e-12, atol=1e-14 * (name == "loggamma")
    )
    assert f(z.astype("c8")).dtype == "complex64"
    z = z[np.abs(z) < 3]
    _, slope = lm.jvp(f, (z,), (np.ones_like(z),))
    h = 1e-5
    finite = (getattr(reference, name)(z + h) - getattr(reference, name)(z - h)) / (2 * h)
    np.testing.assert_allclose(slope, finite, rtol=1e-6, atol=1e-6)


def test_poles_and_the_cut_of_the_complex_gamma_functions():
    assert np.isnan(special.gamma(np.array([0j, -3 + 0j])).numpy()).all()
    near = np.array([-2.5 + 1e-12j, -2.5 - 1e-12j, -0.5 + 0j, complex(-1.5, -0.0)])
    np.testing.assert_allclose(special.loggamma(near), reference.loggamma(near), rtol=1e-12)


HYPERGEOMETRIC = {
    "hyp1f1": [(0.5, 20.0)] * 2 + [(-30.0, 30.0)],
    "hyp2f1": [(0.1, 3.0)] * 3 + [(-4.0, 0.95)],
    "owens_t": [(-6.0, 6.0), (-5.0, 5.0)],
}


@pytest.mark.parametrize("name", HYPERGEOMETRIC)
def test_functions_of_several_parameters(name):
    args = [RNG.uniform(*limits, size=200) for limits in HYPERGEOMETRIC[name]]
    f, of = getattr(special, name), getattr(reference, name)
    np.testing.assert_allclose(f(*args), of(*args), rtol=1e-10, atol=1e-14)
    for i, x in enumerate(args):
        slope = lm.grad(lambda x, i=i: f(*args[:i], x, *args[i + 1 :]).sum())(x)
        h = 1e-6
        ends = [of(*args[:i], x + d, *args[i + 1 :]) for d in (h, -h)]
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * h), rtol=1e-5, atol=1e-6)


def test_special_points_of_the_hypergeometric_functions():
    a = np.array([0, 1, 1, 1, 1, 5, 5, 2.0, 0.45, -2, -2])
    b = np.array([1, 0, 1, 1, 1, 1, 1, 1.0, 0.7, 3, 3])
    c = np.array([1, 1, 0, 1, -1, 3, 3, 5.0, 0.45, -4, -1])
    x = np.array([1, 1, 1, 0, 1, 0.5, 1, 1.0, 1.5, 0.5, 0.5])
    np.testing.assert_allclose(special.hyp2f1(a, b, c, x), reference.hyp2f1(a, b, c, x), rtol=1e-12)
    far = np.array([150.0, -150.0, 500.0, -1000.0])
    np.testing.assert_allclose(special.hyp1f1(1.5, 2.25, far), reference.hyp1f1(1.5, 2.25, far), rtol=1e-11)
    h, a = np.array([0, 0, 1, np.inf, 3.0]), np.array([np.inf, 1, np.inf, 1, -np.inf])
    np.testing.assert_allclose(special.owens_t(h, a), reference.owens_t(h, a), rtol=1e-13)


def test_spherical_harmonics():
    n, m = np.arange(7)[:, None], np.arange(-7, 8)[None]
    for theta, phi in ((0.3, 0.7), (-1.2, 2.0), (2.5, -3.0), (0.0, 1.0)):
        expected = reference.sph_harm_y(n, m, theta, phi)
        np.testing.assert_allclose(special.sph_harm_y(n, m, np.float64(theta), phi), expected, atol=1e-14)
    under_jit = lm.jit(lambda n: special.sph_harm_y(n, 1, 0.5, 0.25, n_max=4))(3)
    np.testing.assert_allclose(under_jit, reference.sph_harm_y(3, 1, 0.5, 0.25), rtol=1e-6)
    with pytest.raises(TypeError, match="n_max"):
        lm.jit(lambda n: special.sph_harm_y(n, 1, 0.5, 0.25))(3)


def test_the_ends_of_the_incomplete_beta_function():
    ends = np.array([0.0, 1.0, np.inf, 0.5])
    a, b, x = np.meshgrid(ends, ends, [0.0, 0.5, 1.0, 1.5, -0.5])
    np.testing.assert_allclose(special.betainc(a, b, x), reference.betainc(a, b, x), rtol=1e-12)


def test_combinations_with_repetition_of_nothing():
    n, k = np.array([0.0, 0.0, 3.0]), np.array([0.0, 4.0, 0.0])
    np.testing.assert_array_equal(special.comb(n, k, repetition=True), [1.0, 0.0, 1.0])


def test_logsumexp_of_a_largest_element_without_weight():
    a, b = np.array([-1000.0, -2.0], "f4"), np.array([1.0, 0.0], "f4")
    assert float(special.logsumexp(a, b=b)) == -1000.0
    by_a, by_b = lm.grad(lambda a, b: special.logsumexp(a, b=b), argnums=(0, 1))(
        np.array([1.0, 3.0]), np.array([2.0, 0.0])
    )
    np.testing.assert_allclose(by_a, [1.0, 0.0])
    np.testing.assert_allclose(by_b, [0.5, np.exp(2.0) / 2])
    big = np.array([0.0, 500.0], "f2")
    assert float(special.logsumexp(big, b=np.array([1.0, 0.0], "f2"))) == 0.0


def test_logsumexp_broadcasts_its_weights_first():
    a, b = np.arange(3.0), RNG.uniform(size=(2, 3))
    for axis in (None, 0, 1, (0, 1)):
        got = special.logsumexp(a, axis, b=b, keepdims=True)
        np.testing.assert_allclose(
            got, reference.logsumexp(np.broadcast_to(a, (2, 3)), axis, b, keepdims=True), rtol=1e-12
        )


def test_riemanns_zeta_is_continued():
    """Against mpmath, values and derivatives; SciPy's loses six digits near the even numbers."""
    x = np.array(
        [0.999, 0.9, 0.5, 0.1, 1e-9, 0, -1e-9, -0.125, -0.5, -1, -2, -3.5, -20.5, -99.99999, -170.5, -258.7]
    )
    with lm.default_dtypes(float="float64"):
        for f in (special.zeta, lm.jit(special.zeta), lm.vmap(special.zeta)):
            np.testing.assert_allclose(f(x), [float(mp.zeta(v)) for v in x], rtol=2e-14)
        assert special.zeta(np.array([-2.0, -200.0, -1e6])).tolist() == [0, 0, 0]
        assert special.zeta(np.array([1.0, -300.5, np.inf])).tolist() == [np.inf, -np.inf, 1]
        assert np.isnan(special.zeta(np.array([np.nan, -np.inf]))).all()
        assert np.isnan(special.zeta(0.5, 1.0)) and np.isnan(
            special.zeta(0.5, 2.0)
        )  # Hurwitz' is not continued
        slope, bend = lm.vmap(lm.grad(special.zeta)), lm.vmap(lm.grad(lm.grad(special.zeta)))
        near = x[2:-3]
        with mp.workdps(30):
            for f, n in ((slope, 1), (bend, 2)):
                want = [float(mp.zeta(v, 1, n)) for v in near]
                np.testing.assert_allclose(f(near), want, rtol=1e-11)
    assert special.zeta(np.float32(0.5)).dtype == "float32"


def test_bernoulli_numbers_beyond_floats_are_infinite():
    with lm.default_dtypes(float="float64"):
        b = special.bernoulli(263).numpy()
    want = [float(mp.bernoulli(n)) for n in range(259)]
    np.testing.assert_array_equal(b[:259], [-0.5 if n == 1 else v for n, v in enumerate(want)])
    assert b[259:].tolist() == [0, -np.inf, 0, np.inf, 0]
    assert special.bernoulli(40)[-1].item() == np.float32(-261082718496449122051 / 13530)


def test_riemanns_zeta_is_the_default():
    x = np.array([2.0, 3.5, 40.0, 1.0])
    for f in (special.zeta, lm.jit(special.zeta)):
        np.testing.assert_allclose(f(x), reference.zeta(x), rtol=1e-14)
        assert f(2.0) == f(2.0, 1.0)
    np.testing.assert_allclose(lm.grad(special.zeta)(3.0), -0.19812624288563685, rtol=1e-6)


def test_associated_legendre_functions():
    z, top = np.array([-1.0, -0.7, 0.0, 0.3, 0.99, 1.0]), 6
    want, slopes = (
        np.moveaxis(v, (0, 1), (1, 0)) for v in reference.assoc_legendre_p_all(top, top, z, diff_n=1)
    )
    values, derivatives = special.lpmn(top, top, z)
    inner = slice(1, -1)
    np.testing.assert_allclose(values, want[: top + 1], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(derivatives[..., inner], slopes[: top + 1, :, inner], rtol=1e-11, atol=1e-11)
    ends = derivatives[0][:, [0, -1]]
    n = np.arange(top + 1)
    np.testing.assert_allclose(ends, np.stack([(-1.0) ** (n + 1), n**0], -1) * (n * (n + 1) / 2)[:, None])
    for f in (special.lpmn_values, lm.jit(special.lpmn_values, static_argnums=(0, 1, 3))):
        factors = special.lpmn_values(top, top, z, True) / np.where(values == 0, 1, values)
        for m, k in ((0, 0), (1, 3), (4, 6)):
            norm = np.sqrt(
                (2 * k + 1) / (4 * np.pi) * reference.factorial(k - m) / reference.factorial(k + m)
            )
            np.testing.assert_allclose(factors[m, k, 3], norm, rtol=1e-12)
        turned = reference.sph_harm_y(n[None], n[:, None], np.arccos(0.3), 0.0).real
        np.testing.assert_allclose(f(top, top, z, True)[..., 3], np.triu(turned), atol=1e-12)
    assert special.lpmn(2, 2, np.float32([0.5]))[1].dtype == np.float32
    slope = lm.grad(lambda v: special.lpmn_values(3, 3, v, False)[1, 3].sum())(z[inner])
    np.testing.assert_allclose(slope, derivatives[1, 3, inner], rtol=1e-12)
    with pytest.raises(NotImplementedError, match="m=2 and n=3"):
        special.lpmn(2, 3, z)
    with pytest.raises(ValueError, match="1-d array of places"):
        special.lpmn_values(2, 2, 0.5, False)


def test_series_that_lose_their_digits_or_do_not_end_are_nan():
    with lm.default_dtypes(float="float64"):
        lost = [(100.0, 3.0, -40.0), (-54.0, 12.0, 58.0), (59.5, 10.4, -35.5)]
        assert all(np.isnan(special.hyp1f1(*p)) for p in lost)
        assert all(np.isnan(lm.grad(special.hyp1f1, 2)(*p)) for p in lost)
        endless = [(1.0, 1.0, 2.0, -1e7), (0.5, 0.5, 1.0, 1 - 1e-7)]
        assert all(np.isnan(special.hyp2f1(*p)) for p in endless)
        near = np.array([0.9, 0.99, 0.999, 0.9999, -100.0, -5000.0])
        want = [float(mp.hyp2f1(0.5, 1.5, 2.5, v)) for v in near]
        np.testing.assert_allclose(special.hyp2f1(0.5, 1.5, 2.5, near), want, rtol=1e-10)
        roots = np.array([0.26356031971814091, 12.640800844275783])  # of Laguerre's polynomial of degree 5
        np.testing.assert_allclose(special.hyp1f1(-5.0, 1.0, roots), 0, atol=1e-12)


def test_logits_of_float32_are_the_nearest_numbers():
    half = np.float32(0.5)
    near = [half, np.nextafter(half, np.float32(1)), np.nextafter(half, np.float32(0)), np.float32(1e-45)]
    x = np.concatenate([UNIT, 1 - UNIT, near]).astype("float32")
    x = x[(x > 0) & (x < 1)]
    with mp.workdps(40):
        want = np.array([float(mp.log(mp.mpf(float(v)) / (1 - mp.mpf(float(v))))) for v in x]).astype(
            "float32"
        )
    np.testing.assert_array_equal(special.logit(x), want)
    edges = lnp.asarray([0.0, 1.0], dtype="float32")
    assert special.logit(edges).tolist() == [-np.inf, np.inf]
    assert lm.grad(lambda v: special.logit(v).sum())(edges).tolist() == [np.inf, np.inf]
    assert special.logit(lnp.asarray([0.25], dtype="bfloat16")).dtype == "bfloat16"


def test_the_order_of_a_series_that_is_not_needed():
    x = np.array([-30.0, -3.0, 2.0])
    np.testing.assert_array_equal(special.log_ndtr(x, 1).numpy(), special.log_ndtr(x).numpy())
    for order, error in ((-1, ValueError), (31, ValueError), (2.5, TypeError)):
        with pytest.raises(error, match="series_order is"):
            special.log_ndtr(x, series_order=order)


def test_derivatives_at_poles_and_ends():
    slope = lm.grad(special.digamma)
    for dtype in ("float32", "float64"):
        poles = lnp.array([-1.0, -2.0, -1000.0, -1e15, 0.0], dtype)
        assert lm.vmap(slope)(poles).tolist() == [np.inf] * 5
    assert slope(lnp.float64(-2.5)).item() == pytest.approx(9.539246644989124, rel=1e-13)
    assert slope(lnp.float64(-2 - 2.0**-20)).item() == pytest.approx(
        float(mp.psi(1, -2 - mp.mpf(2) ** -20)), rel=1e-10
    )
    for name, sign in (("gammainc", 1), ("gammaincc", -1)):
        assert sign * lm.grad(getattr(special, name), 1)(2.5, np.inf).item() == 0
    at_0 = lm.grad(special.factorial)(lnp.float64(0.0)).item()
    assert at_0 == pytest.approx(-np.euler_gamma, rel=1e-13)


@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
def test_products_with_logarithms_of_complex_numbers(name):
    x, y = np.array([1 + 2j, 0, 0.5j, -3 - 1j, 0]), np.array([2 + 1j, 0, 1j, -1.5, -1])
    f = getattr(special, name)
    np.testing.assert_allclose(f(x, y).numpy(), getattr(reference, name)(x, y), rtol=1e-13)
    np.testing.assert_allclose(f(x.real, y).numpy(), getattr(reference, name)(x.real, y), rtol=1e-13)
    assert f(x.astype("c8"), 2.0).dtype == "complex64"
    log = {"xlogy": np.log, "xlog1py": np.log1p}[name]
    slope = lm.grad(lambda v: f(v, y[0]).real)(lnp.complex128(x[0]))
    assert slope.item() == pytest.approx(log(y[0]), rel=1e-13)


def test_logits_of_complex_numbers():
    z = np.array([0.3 + 0.2j, -1 + 2j])
    np.testing.assert_allclose(special.logit(z).numpy(), np.log(z / (1 - z)), rtol=1e-13)
    np.testing.assert_allclose(special.expit(special.logit(z)).numpy(), z, rtol=1e-13)


def test_orders_without_a_sign():
    for dtype in ("uint8", "uint32", "uint64", "bool"):
        got = special.polygamma(lnp.array([1, 0], dtype), lnp.float64([2.0, 3.0]))
        np.testing.assert_allclose(got.numpy(), reference.polygamma([1, 0], [2.0, 3.0]), rtol=1e-13)


NARROW = {
    "gammainc": (special.gammainc, lambda a, x: mp.gammainc(a, 0, x, regularized=True)),
    "gammaincc": (special.gammaincc, lambda a, x: mp.gammainc(a, x, regularized=True)),
    "betaln": (special.betaln, lambda a, b: mp.log(mp.beta(a, b))),
    "log_ndtr": (lambda x, y: special.log_ndtr(x - y), lambda x, y: mp.log(mp.ncdf(x - y))),
    "i1e": (lambda x, y: special.i1e(x * y), lambda x, y: mp.besseli(1, x * y) * mp.exp(-x * y)),
}


@pytest.mark.parametrize("name", NARROW)
def test_narrow_results_are_nearly_rounded_once(name):
    """float32 results of the shorter forms, against mpmath, where they are not small themselves."""
    f, exact = NARROW[name]
    # Products and differences of these are exact.
    a, b = ((RNG.integers(1, 1 << 12, 300) / 2**k).astype(np.float32) for k in (8, 9))
    got = f(lnp.array(a), lnp.array(b)).numpy().astype(np.float64)
    want = [exact(mp.mpf(float(p)), mp.mpf(float(q))) for p, q in zip(a, b)]
    rounding = np.array([float(abs(g - w) / max(abs(w), mp.mpf("1e-3"))) for g, w in zip(got.tolist(), want)])
    assert rounding.max() <= 0.501 * 2.0**-23
    # The value beside a derivative is the same one.
    value = lm.jvp(lambda p: f(p, lnp.array(b)), (lnp.array(a),), (lnp.ones_like(lnp.array(a)),))[0]
    np.testing.assert_array_equal(value.numpy(), got.astype(np.float32))


def test_parameters_that_elements_share():
    """A parameter that is an argument gives the bits of one that is a number, and of one for each element."""
    from lamina.scipy import stats

    x = lnp.array(RNG.uniform(0.1, 0.9, 5000).astype(np.float32))
    for f in (lambda v, a: stats.t.logpdf(v, a), lambda v, a: stats.beta.logpdf(v, a, 2.0), special.gammainc):
        a = lnp.array(np.float32(3.5))
        got = lm.jit(f)(x, a).numpy()
        np.testing.assert_array_equal(got, lm.jit(lambda v, f=f: f(v, 3.5))(x).numpy())
        np.testing.assert_array_equal(got, lm.jit(f)(x, lnp.full(x.shape, a)).numpy())


def test_programs_of_narrow_results_are_written_and_read():
    """As StableHLO knows their steps: none says how many bits its result is on the way to."""
    x = lnp.array(RNG.uniform(0.1, 3, 500).astype(np.float32))
    f = lm.jit(lambda v: special.log_ndtr(v) - special.i0e(v))
    text = lm.stablehlo.dumps(f.lower(x))
    assert "stablehlo.log " in text and "mantissa_bits" not in text
    np.testing.assert_array_max_ulp(lm.stablehlo.loads(text)(x).numpy(), f(x).numpy(), maxulp=1)
