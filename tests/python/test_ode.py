"""lamina.experimental.ode against SciPy, finite differences and closed forms."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
import scipy.integrate
from lamina.experimental.ode import odeint

TIMES = np.linspace(0.0, 1.0, 6)


def _pendulum(xp):
    return lambda y, t, m, g: xp.stack([y[1], -m * y[1] - g * xp.sin(y[0])])


def _expected(y0, times, *args):
    return scipy.integrate.odeint(_pendulum(np), y0, times, args, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_values(dtype):
    given = [np.asarray(v, dtype) for v in ([3.0, 0.5], TIMES, 0.25, 9.8)]
    got = odeint(_pendulum(lnp), *given)
    assert got.dtype == given[0].dtype and got.shape == (6, 2)
    tolerance = 2e-5 if dtype == "f4" else 1e-6
    np.testing.assert_allclose(got, _expected([3.0, 0.5], TIMES, 0.25, 9.8), rtol=tolerance, atol=tolerance)


def test_derivatives():
    y0, times, m = np.array([3.0, 0.5]), TIMES.copy(), np.array(0.25)
    weights = np.random.default_rng(0).normal(size=(6, 2))

    def loss(y0, times, m):
        return (odeint(_pendulum(lnp), y0, times, m, 9.8) * weights).sum()

    def oracle(y0, times, m):
        return (_expected(y0, times, float(m), 9.8) * weights).sum()

    slopes = lm.grad(loss, argnums=(0, 1, 2))(y0, times, m)
    forwards = lm.jacfwd(loss, argnums=(0, 1, 2))(y0, times, m)
    h, args = 1e-5, (y0, times, m)
    for i, slope in enumerate(slopes):
        np.testing.assert_allclose(slope, forwards[i], rtol=1e-8, atol=1e-8)
        for place in np.ndindex(args[i].shape):
            ends = []
            for sign in (h, -h):
                moved = [a.copy() for a in args]
                moved[i][place] += sign
                ends.append(oracle(*moved))
            np.testing.assert_allclose(
                slope.numpy()[place], (ends[0] - ends[1]) / (2 * h), rtol=1e-4, atol=1e-4
            )


def test_containers_closures_and_transforms():
    def decay(y, t):
        return {"a": -y["a"], "b": [-2.0 * y["b"][0]]}

    start = {"a": np.array(1.0), "b": [np.ones((2, 3))]}
    out = lm.jit(lambda y: odeint(decay, y, TIMES))(start)
    np.testing.assert_allclose(out["a"], np.exp(-TIMES), rtol=1e-7)
    np.testing.assert_allclose(out["b"][0][:, 1, 2], np.exp(-2 * TIMES), rtol=1e-7)

    def last(k):
        return odeint(lambda y, t: -k * y, 1.0, TIMES)[-1]

    rates = np.array([0.5, 1.0, 3.0])
    np.testing.assert_allclose(lm.vmap(last)(rates), np.exp(-rates), rtol=1e-6)
    np.testing.assert_allclose(lm.vmap(lm.grad(last))(rates), -np.exp(-rates), rtol=1e-5)
    turned = odeint(lambda y, t: 1j * y, np.array(1.0 + 0j), TIMES)
    np.testing.assert_allclose(turned, np.exp(1j * TIMES), rtol=1e-7)


def test_jumps_and_longest_steps():
    def push(y, t):
        return lnp.where(t <= 2.0, 1.0, lnp.where((t >= 5.0) & (t <= 7.0), -1.0, 0.0))

    out = odeint(push, np.float32(0.0), np.array([0.0, 5.0, 10.0], "f4"), hmax=1.0)
    np.testing.assert_allclose(out, [0.0, 2.0, 0.0], atol=1e-4)


def test_what_is_not_reached_is_nan():
    grown = odeint(lambda y, t: y * y, np.array(1.0), np.array([0.0, 0.5, 2.0])).numpy()
    np.testing.assert_allclose(grown[:2], [1.0, 2.0], rtol=1e-6)
    assert np.isnan(grown[2])
    assert np.isnan(odeint(lambda y, t: y * np.nan, np.array(1.0), TIMES).numpy()[1:]).all()
    short = odeint(lambda y, t: -y, np.array(1.0), np.array([0.0, 100.0]), mxstep=3).numpy()
    assert np.isnan(short[1])


def test_times_that_decrease():
    def slope(y, t):
        return -y * t

    start, times = np.array([1.0, 2.0]), np.linspace(1.0, -1.0, 5)
    want = start * np.exp((1 - times**2) / 2)[:, None]
    for run in (odeint, lm.jit(odeint, static_argnums=0)):
        np.testing.assert_allclose(run(slope, start, times), want, rtol=1e-7)
    by_times = lm.grad(lambda t: odeint(slope, start, t)[-1].sum())(times)
    np.testing.assert_allclose(by_times, [3.0, 0, 0, 0, 3.0], rtol=1e-5, atol=1e-9)
    there = odeint(slope, start, times)[-1]
    np.testing.assert_allclose(odeint(slope, there, times[::-1])[-1], start, rtol=1e-6)


def test_times_that_turn_back_are_nan():
    out = odeint(lambda y, t: -y, np.array(1.0), np.array([0.0, 2.0, 0.5, 3.0])).numpy()
    np.testing.assert_allclose(out, np.exp([0.0, -2.0, np.nan, -3.0]), rtol=1e-6)


def test_errors():
    with pytest.raises(TypeError, match="times t of floats, not int64"):
        odeint(lambda y, t: y, 1.0, np.arange(3))
    with pytest.raises(ValueError, match="1-d array of times"):
        odeint(lambda y, t: y, 1.0, np.ones((2, 2)))
    with pytest.raises(ValueError, match="2 numbers for a state of 1"):
        odeint(lambda y, t: lnp.ones(2), 1.0, TIMES)
