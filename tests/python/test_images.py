"""lamina.image against jax.image, and what neither may give silently."""

from __future__ import annotations

import jax
import lamina as lm
import numpy as np
import pytest
from lamina import image

RNG = np.random.default_rng(0)
X = RNG.random((2, 7, 9, 3)).astype("f4")
METHODS = ["nearest", "linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5", "area"]


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("method", METHODS)
def test_resize(method, antialias):
    for shape in [(2, 5, 20, 3), (2, 14, 4, 3), (2, 1, 30, 3), (2, 7, 9, 3), (0, 7, 9, 3)]:
        want = jax.image.resize(X, shape, method, antialias)
        np.testing.assert_allclose(image.resize(X, shape, method, antialias), want, rtol=2e-5, atol=2e-6)
    jitted = lm.jit(lambda x: image.resize(x, (2, 5, 20, 3), method, antialias))
    np.testing.assert_array_equal(jitted(X), image.resize(X, (2, 5, 20, 3), method, antialias))


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("method", METHODS[1:])
def test_scale_and_translate(method, antialias):
    scale, shift = np.array([0.7, 1.4], "f4"), np.array([0.3, -1.2], "f4")
    args = (X, (2, 6, 8, 3), (1, -2), scale, shift, method, antialias)
    want = jax.image.scale_and_translate(*args)
    np.testing.assert_allclose(image.scale_and_translate(*args), want, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("method", METHODS[1:])
def test_derivatives(method):
    x = RNG.random((5, 6))
    scale, shift = np.array([1.3, 0.83]), np.array([0.13, 0.41])

    def loss(x, scale, shift):
        return (image.scale_and_translate(x, (4, 7), (0, 1), scale, shift, method) ** 2).sum()

    slopes = lm.grad(loss, argnums=(0, 1, 2))(x, scale, shift)
    for i, d in enumerate((x, scale, shift)):
        v, h = RNG.normal(size=d.shape), 1e-6
        ends = []
        for sign in (h, -h):
            moved = [x, scale, shift]
            moved[i] = d + sign * v
            ends.append(float(loss(*moved)))
        np.testing.assert_allclose(
            (slopes[i].numpy() * v).sum(), (ends[0] - ends[1]) / (2 * h), rtol=1e-5, atol=1e-6
        )


def test_types():
    whole = np.arange(6, dtype="i4").reshape(2, 3)
    assert image.resize(whole, (4, 3), "linear").dtype == "float32"
    assert image.resize(whole, (4, 3), "nearest").dtype == "int32"
    assert image.resize(X.astype("f8"), (2, 3, 3, 3), "cubic").dtype == "float64"
    ones = image.resize(np.ones((5, 3)), (9, 7), "lanczos3").numpy()
    np.testing.assert_allclose(ones, 1, rtol=1e-14)  # weights of a float64 image are float64
    z = X[0, :, :, 0] * (1 + 2j)
    want = image.resize(X[0, :, :, 0], (3, 4), "cubic").numpy() * (1 + 2j)
    np.testing.assert_allclose(image.resize(z, (3, 4), image.ResizeMethod.CUBIC), want, rtol=1e-5)


def test_errors():
    with pytest.raises(ValueError, match="every dimension"):
        image.resize(X, (3, 3), "linear")
    with pytest.raises(ValueError, match="no resize method 'sharp'"):
        image.resize(X, X.shape, "sharp")
    with pytest.raises(TypeError, match="ResizeMethod, not 3"):
        image.resize(X, X.shape, 3)
    with pytest.raises(ValueError, match="no pixels"):
        image.resize(np.ones((0, 3)), (2, 3), "linear")
    with pytest.raises(ValueError, match="no pixels"):
        image.resize(np.ones((0, 3)), (2, 3), "nearest")
    with pytest.raises(TypeError, match="shape"):
        image.resize(X, (2, 7.5, 9, 3), "linear")
    good = (X, (2, 6, 9, 3), (1,), np.ones(1), np.zeros(1))
    with pytest.raises(ValueError, match="resize only"):
        image.scale_and_translate(*good, "nearest")
    with pytest.raises(ValueError, match="one number for each of the 1"):
        image.scale_and_translate(*good[:3], np.ones(2), np.zeros(1), "linear")
    with pytest.raises(ValueError, match="keeps its size 9"):
        image.scale_and_translate(X, (2, 6, 8, 3), *good[2:], "linear")
    with pytest.raises(ValueError, match="twice"):
        image.scale_and_translate(X, (2, 6, 9, 3), (1, -3), np.ones(2), np.zeros(2), "linear")
