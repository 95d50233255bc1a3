"""What a converted function raises is raised by its derivatives too, also where they are zero whatever it computes."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax


def of_another_argument(x, n):
    if n > 3:
        raise ValueError("too large")
    return n * 1.0


def of_both(x, n):
    if n > 3:
        raise ValueError("too large")
    return n * 1.0 + x


def of_no_derivative(x, n):
    if n > 3:
        raise ValueError("too large")
    return lax.stop_gradient(x) * 2


def in_a_loop(x, n):
    total = x * 0
    for _ in range(3):
        if n > 3:
            raise ValueError("too large")
        total = lax.stop_gradient(total + n)
    return total


PROGRAMS = [of_another_argument, of_both, of_no_derivative, in_a_loop]


def lanes(f, x, n):
    return lm.vmap(f)(lnp.stack([x, x + 1]), lnp.stack([lnp.ones_like(n), n])).sum()


TRANSFORMS = {
    "grad": lambda f: lm.grad(f),
    "value_and_grad": lambda f: lambda x, n: lm.value_and_grad(f)(x, n)[1],
    "vjp": lambda f: lambda x, n: lm.vjp(lambda v: f(v, n), x)[1](lnp.ones_like(x))[0],
    "jvp": lambda f: lambda x, n: lm.jvp(lambda v: f(v, n), (x,), (x,))[1],
    "linearize": lambda f: lambda x, n: lm.linearize(lambda v: f(v, n), x)[1](x),
    "jacfwd": lambda f: lm.jacfwd(f),
    "jacrev": lambda f: lm.jacrev(f),
    "second": lambda f: lm.grad(lm.grad(f)),
    "hessian": lambda f: lm.hessian(f),
    "grad of vmap": lambda f: lm.grad(lambda x, n: lanes(f, x, n)),
    "vmap of grad": lambda f: lambda x, n: lanes(lm.grad(f), x, n),
    "checkpoint": lambda f: lm.grad(lm.checkpoint(f)),
    "beneath more": lambda f: lm.grad(lambda x, n: f(x, n) * 2 + 1),
}


@pytest.mark.parametrize("outer", ["plain", "jit", "converted"])
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_errors_are_not_lost_in_derivatives(f, transform, outer):
    g = TRANSFORMS[transform]
    if outer == "converted":
        g = lm.jit(g(f), control_flow="convert")
    else:
        g = g(lm.jit(f, control_flow="convert"))
        g = lm.jit(g) if outer == "jit" else g
    x = np.float32(1.5)
    assert np.isfinite(np.asarray(g(x, np.float32(2)))).all()
    with pytest.raises(ValueError, match="too large"):
        np.asarray(g(x, np.float32(5)))
