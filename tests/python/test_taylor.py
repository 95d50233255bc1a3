"""lamina.experimental.jet, against jax.experimental.jet and closed forms."""

from __future__ import annotations

import jax.experimental.jet
import jax.numpy as jnp
import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina.experimental.jet import jet

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("name", ["sin", "exp", "tanh", "log", "square", "sqrt"])
def test_elementwise(name, scaled):
    x = RNG.uniform(0.5, 2.0, 3).astype("f4")
    terms = [RNG.normal(size=3).astype("f4") for _ in range(3)]
    value, series = jet(getattr(lnp, name), (x,), (terms,), factorial_scaled=scaled)
    want, others = jax.experimental.jet.jet(getattr(jnp, name), (x,), (terms,), factorial_scaled=scaled)
    np.testing.assert_allclose(value, want, rtol=1e-6)
    for a, b in zip(series, others, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)


def test_several_arguments_and_containers():
    a, b = RNG.normal(size=(2, 2)), RNG.normal(size=(2, 2))
    one = np.ones((2, 2))

    def f(p, c):
        return {"product": p["a"] @ p["b"], "sum": (p["a"] + c).sum(), "more": p["a"] > c}

    series = ({"a": [one, 0 * one], "b": [0 * one, one]}, [np.array(1.0), np.array(0.5)])
    value, out = jet(f, ({"a": a, "b": b}, 0.25), series)
    np.testing.assert_allclose(value["product"], a @ b)
    np.testing.assert_allclose(out["product"][0], one @ b)
    np.testing.assert_allclose(out["product"][1], a @ one)
    np.testing.assert_allclose([x.numpy() for x in out["sum"]], [8.0, 2.0])
    assert [x.numpy().tolist() for x in out["more"]] == [[[0, 0], [0, 0]]] * 2


def test_in_transforms():
    def third(x):
        return jet(lambda x: x**4, (x,), ([1.0, 0.0, 0.0],))[1][2]

    np.testing.assert_allclose(lm.jit(third)(2.0), 48.0)
    np.testing.assert_allclose(lm.grad(third)(2.0), 24.0)
    np.testing.assert_allclose(lm.vmap(third)(np.array([1.0, 2.0])), [24.0, 48.0])


def test_a_number_is_a_float_and_an_array_of_integers_stays():
    value, (first, second) = jet(lnp.sin, (2,), ([1, 0],))
    np.testing.assert_allclose([value, first, second], [np.sin(2), np.cos(2), -np.sin(2)], rtol=1e-6)
    taken, (slope,) = jet(
        lambda x, i: x[i], (np.array([1.0, 2.0]), np.array(1)), ([np.array([3.0, 4.0])], [0])
    )
    assert taken == 2 and slope == 4
    for terms in ([1.0], [lnp.ones(2)]):
        with pytest.raises(TypeError, match=r"int64\[2\] has no Taylor series.*make it floats"):
            jet(lnp.sin, (np.array([1, 2]),), (terms,))


def test_errors():
    with pytest.raises(ValueError, match="1 primals and 2 series"):
        jet(lnp.sin, (1.0,), ([1.0], [1.0]))
    with pytest.raises(ValueError, match="same number of terms"):
        jet(lnp.add, (1.0, 2.0), ([1.0], [1.0, 2.0]))
