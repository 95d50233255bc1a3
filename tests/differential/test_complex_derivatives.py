"""Derivatives of functions of complex arguments: finite differences in every direction, and JAX's values."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np


def _random(seed, n=5):
    rng = np.random.default_rng(seed)
    return rng.normal(size=n) + 1j * rng.normal(size=n)


def test_sign_turns_with_the_part_of_the_tangent_across_its_argument():
    # JAX 0.10 has 0 here.
    z, t, h = _random(0), _random(1), 1e-6
    got = lm.jvp(lnp.sign, (lnp.array(z),), (lnp.array(t),))[1]
    np.testing.assert_allclose(
        np.asarray(got), (np.sign(z + h * t) - np.sign(z - h * t)) / (2 * h), rtol=1e-8
    )
    ratio = lambda x: x / lnp.abs(x)  # noqa: E731
    for transform in (
        lambda f: lm.vjp(f, lnp.array(z))[1](lnp.array(t))[0],
        lambda f: lm.jvp(
            lambda x: lm.jvp(f, (x,), (lnp.array(t),))[1], (lnp.array(z),), (lnp.array(t[::-1]),)
        )[1],
        lambda f: lm.jvp(lambda x: lm.vjp(f, x)[1](lnp.array(t))[0], (lnp.array(z),), (lnp.array(t[::-1]),))[
            1
        ],
    ):
        np.testing.assert_allclose(np.asarray(transform(lnp.sign)), np.asarray(transform(ratio)), rtol=1e-12)
    zero = lm.jvp(lnp.sign, (lnp.array(0j),), (lnp.array(1 + 1j),))[1]
    assert zero.item() == 0
