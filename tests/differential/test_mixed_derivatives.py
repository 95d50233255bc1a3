"""d/dx d/dy f = d/dy d/dx f, for every function of two real arguments, at zeros, ties and ordinary points."""

from __future__ import annotations

import functools

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax, nn
from lamina.scipy import special

MODULES = {"numpy": lnp, "lax": lax, "nn": nn, "scipy.special": special}
POINTS = [(x, y) for x in (-2.0, -0.5, 0.0, 1.0, 2.5) for y in (-1.0, 0.0, 0.5, 2.0)]
X, Y = (np.array(side) for side in zip(*POINTS, strict=True))
# Where the function itself is NaN or infinite, or jumps, its derivatives mean nothing.
OUTSIDE = {
    "numpy": {"pad": "y is a width"},
    "lax": {"igamma": "y < 0", "igammac": "y < 0", "igamma_grad_a": "y < 0", "random_gamma_grad": "y <= 0"},
    "nn": {"celu": "alpha = 0"},
    "scipy.special": {"gammainc": "y < 0", "gammaincc": "y < 0", "poch": "poles"},
}


def functions() -> list[tuple[str, str]]:
    found = []
    for name, module in MODULES.items():
        for n in sorted(set(dir(module)) - set(OUTSIDE.get(name, ()))):
            f = None if n.startswith("_") else getattr(module, n)
            if not callable(f) or isinstance(f, type):
                continue
            try:
                out = f(lnp.array(0.5), lnp.array(0.25))
            except Exception:
                continue  # takes something else
            if isinstance(out, lm.Tensor) and out.shape == () and out.dtype.kind == "f":
                found.append((name, n))
    return found


@pytest.mark.parametrize(("module", "name"), functions())
def test_mixed_derivatives_agree(module, name):
    f = getattr(MODULES[module], name)

    def second(first, then):
        inner = lm.grad(lambda x, y: f(x, y).astype("float64"), first)
        return np.asarray(lm.vmap(lm.grad(inner, then))(X, Y))

    try:
        xy, yx = second(0, 1), second(1, 0)
    except (NotImplementedError, TypeError) as e:
        pytest.skip(str(e).splitlines()[0])  # no derivative by one of them
    both = np.isfinite(xy) & np.isfinite(yx)
    np.testing.assert_allclose(xy[both], yx[both], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("f", "slope"),
    [(special.xlogy, lambda y: 1 / y), (special.xlog1py, lambda y: 1 / (1 + y))],
    ids=["xlogy", "xlog1py"],
)
def test_products_with_logarithms_at_zero(f, slope):
    y = np.array([0.5, 1.5, 3.0])
    for first, then in ((0, 1), (1, 0)):
        mixed = lm.vmap(lm.grad(lm.grad(f, first), then), in_axes=(None, 0))(np.zeros(()), y)
        np.testing.assert_allclose(mixed, slope(y), rtol=1e-12)
    tangent = functools.partial(lm.jvp, f)
    _, twice = lm.jvp(lambda a, b: tangent((a, b), (1.0, 1.0))[1], (0.0, 1.5), (1.0, 1.0))
    np.testing.assert_allclose(twice, 2 * slope(1.5), rtol=1e-6)
