"""Assignment through boolean masks in traced code gives what plain code gives, values and derivatives."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

X = np.array([1, 3, 0, 5], np.float32)
Y = lnp.array([2.0, 0.0, 0.0, 7.0])


def add(z, s):
    z[z > 2] += s
    return z


def from_another_array(z, s):
    m = z > 2
    z[m] = Y[m] * 2 - z[m] / s
    return z


def divide_and_fill(z, s):
    z[z > 2] /= s
    z[z < 1] = 7
    return z


def reciprocal_where_not_zero(z, s):
    m = z != 0
    w = z * 0 + s
    w[m] = 1 / z[m]
    return w


def rows(z, s):
    n = lnp.stack([z, z + 1], 1)
    n[z > 2] += s * lnp.arange(2.0)
    return n


def scalar_power(z, s):
    z[z > 0] **= s
    return z


def mean_of_masked(z, s):
    return z[z > 1].mean() * s


def one_mask_written_twice(z, s):
    y = z * s
    z[z > 1] = y[z > 1] + 1
    return z


FUNCTIONS = [
    add,
    one_mask_written_twice,
    from_another_array,
    divide_and_fill,
    reciprocal_where_not_zero,
    rows,
    scalar_power,
    mean_of_masked,
]


@pytest.mark.parametrize("f", FUNCTIONS)
def test_traced_code_gives_what_plain_code_gives(f):
    def fresh(z, s):
        return f(z + 0, s)

    def total(z, s):
        return fresh(z, s).sum()

    want = fresh(lnp.array(X), 2.0).numpy()
    np.testing.assert_allclose(lm.jit(fresh)(X, 2.0).numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(
        lm.vmap(fresh, in_axes=(0, None))(np.stack([X, X]), 2.0)[1].numpy(), want, rtol=1e-6
    )
    plain = lm.grad(total, (0, 1))(X, 2.0)
    assert all(np.isfinite(g.numpy()).all() for g in plain)
    for transformed in (lm.jit(lm.grad(total, (0, 1))), lm.grad(lm.jit(total), (0, 1))):
        for got, g in zip(transformed(X, 2.0), plain):
            np.testing.assert_allclose(got.numpy(), g.numpy(), rtol=1e-6)


def test_numpy_agrees():
    want = X.copy()
    want[want > 2] += 2
    np.testing.assert_array_equal(lm.jit(lambda z: add(z + 0, 2.0))(X).numpy(), want)
    n = lm.jit(lambda z: lnp.where(z > 2, 1, 0) + 0)(X)
    assert n.numpy().tolist() == [0, 1, 0, 1]


def length(z):
    return len(z[z > 1])


def other_mask(z):
    z = z + 0
    z[z > 1] = z[z > 0]
    return z


@pytest.mark.parametrize(
    "f",
    [
        lambda z: z[z > 1],
        lambda z: lnp.exp(z[z > 1]),
        lambda z: z[z > 1].max(),
        lambda z: z[z > 1] + lnp.arange(2.0),
        lambda z: z[z > 1][0],
        lambda z: lnp.ones(2) + z[z > 1].reshape(-1),
        length,
        other_mask,
    ],
)
def test_what_needs_the_number_of_elements_raises(f):
    for run in (lambda: lm.jit(f)(X), lambda: lm.vmap(f)(np.stack([X, X]))):
        with pytest.raises(TypeError, match="inside a jit or vmap"):
            run()


def test_mask_of_a_wrong_shape():
    with pytest.raises(IndexError, match="mask of shape"):
        lm.jit(lambda z: z[lnp.stack([z, z]) > 1])(X)
