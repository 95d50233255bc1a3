"""What the tests of lax, nn and random share."""

from __future__ import annotations

import lamina as lm
import numpy as np
from lamina import lax
from lamina._tensor import to_tensor


def array(x, dtype=None):
    """A Tensor of NumPy data."""
    return to_tensor(np.asarray(x, dtype))


def value(t):
    """A Tensor as a NumPy array."""
    return np.array(to_tensor(t).numpy())


def sum_squares(x):
    """A scalar whose derivative by every element differs."""
    return lax.reduce_sum(x * x)


def check_gradient(f, x, eps=1e-6, tol=1e-5):
    """grad(f) against central differences, in float64."""
    x = np.asarray(x, np.float64)
    want = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        up, down = x.copy(), x.copy()
        up[i] += eps
        down[i] -= eps
        want[i] = (f(array(up)).item() - f(array(down)).item()) / (2 * eps)
    got = value(lm.grad(f)(array(x)))
    np.testing.assert_allclose(got, want, rtol=tol, atol=1e-6)
