"""L-BFGS: Nocedal, Wright, "Numerical optimization" (2006), algorithms 7.4 (the two loops) and 7.5."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina import lax
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina._transforms import value_and_grad
from lamina.scipy.optimize._line_search import search
from lamina.scipy.optimize._outcome import OptimizeResults


def _direction(g: Tensor, steps: Tensor, changes: Tensor, rhos: Tensor, scale: Tensor) -> Tensor:
    """Minus the inverse Hessian of the kept steps, the latest last, times the gradient. Rows that are zero are none."""
    size = steps.shape[0]
    weights: list[Any] = [None] * size
    q = g
    for i in reversed(range(size)):
        weights[i] = rhos[i] * lnp.vdot(steps[i], q)
        q = q - weights[i] * changes[i]
    q = q * scale
    for i in range(size):
        q = q + steps[i] * (weights[i] - rhos[i] * lnp.vdot(changes[i], q))
    return -q


def limited_bfgs(
    fun: Callable[[Tensor], Any],
    x: Tensor,
    gtol: float,
    maxiter: int | None = None,
    norm: float = lnp.inf,
    maxcor: int = 10,
    ftol: float = 2.220446049250313e-09,
    maxls: int = 20,
) -> OptimizeResults:
    """A minimum of a function of a 1-d real array; the options are described at `minimize`."""
    most = 200 * x.size if maxiter is None else maxiter
    both = value_and_grad(fun)

    def done(g: Tensor) -> Tensor:
        return lnp.linalg.norm(g, ord=norm) < gtol

    def step(state: Any) -> Any:
        x, f, g, before, steps, changes, rhos, scale, _, _, _, k, calls = state
        p = _direction(g, steps, changes, rhos, scale)
        found = search(both, x, p, f, g, before, maxls)
        s, y = found.step * p, found.gradient - g
        curvature = lnp.vdot(y, s)
        usable = curvature > 0
        rho = lnp.where(usable, 1 / lnp.where(usable, curvature, 1.0), 0.0)
        length = lnp.vdot(y, y)
        scale = lnp.where(usable, curvature / lnp.where(usable, length, 1.0), scale)
        kept = [
            lnp.where(usable, lnp.concatenate([old[1:], new[None]]), old)
            for old, new in ((steps, s), (changes, y), (rhos, rho))
        ]
        still = f - found.value <= ftol * lnp.maximum(lnp.abs(f), lnp.abs(found.value))
        new = (x + s, found.value, found.gradient, f, *kept, scale)
        g = found.gradient
        return *new, done(g), found.failed, still & ~done(g), k + 1, calls + found.calls

    def go_on(state: Any) -> Tensor:
        return ~state[8] & ~state[9] & ~state[10] & (state[11] < most)

    f, g = both(x)
    none = lnp.zeros((maxcor, x.size), x.dtype)
    no = lnp.array(False)
    init = (
        *(x, f, g, f + lnp.linalg.norm(g) / 2, none, none, lnp.zeros((maxcor,), x.dtype)),
        *(lnp.ones((), x.dtype), done(g), no, no, 0, 1),
    )
    out = lax.while_loop(go_on, step, init)
    x, f, g = out[:3]
    converged, failed, still, k, calls = out[8:]
    status = lnp.where(converged, 0, lnp.where(still, 4, lnp.where(failed, 3, 1)))
    status = lnp.where(converged | lnp.isfinite(f), status, -1)
    return OptimizeResults(x, converged | (still & ~failed), status, f, g, None, calls, calls, k)
