"""Minimization of scalar functions, under transforms too; names and meanings as in jax.scipy.optimize."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lamina import _missing, _results, lax
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina._transforms import value_and_grad
from lamina.scipy.optimize._limited import limited_bfgs
from lamina.scipy.optimize._line_search import search
from lamina.scipy.optimize._outcome import OptimizeResults

__all__ = ["OptimizeResults", "minimize"]


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...] = (),
    *,
    method: str,
    tol: float | None = None,
    options: Mapping[str, Any] | None = None,
) -> OptimizeResults:
    """A local minimum of ``fun(x, *args)`` near `x0`, a 1-d float array, with gradients by `grad`.

    `method` "BFGS": Nocedal, Wright, "Numerical optimization" (2006), algorithm 6.1, with a line search for the strong
    Wolfe conditions (algorithms 3.5 and 3.6). "L-BFGS" keeps the last steps in the place of a matrix (algorithm 7.5),
    and also takes a complex `x0` (the function's value is real).
    Options: `maxiter` (200 per element), `gtol` (`tol`, else 1e-5) and `norm` (infinity): it ends when that norm of the
    gradient is below gtol; of BFGS `line_search_maxiter` (10); of L-BFGS `maxls` (20, the same), `maxcor` (10, the
    steps that are kept) and `ftol`: it ends with status 4 where the value falls by less than that times itself. Works
    under jit and vmap; derivatives go through no iteration: take them by `lax.custom_root` of the gradient.

    >>> minimize(lambda x, a: ((x - a) ** 2).sum(), lnp.zeros(2), (lnp.array([1., 2.]),), method="BFGS").x
    """
    if method.lower() not in ("bfgs", "l-bfgs"):
        raise ValueError(
            f"method is 'BFGS' or 'L-BFGS', not {method!r}; scipy.optimize.minimize takes functions of Tensors too"
        )
    limited = method.lower() == "l-bfgs"
    if not isinstance(args, tuple):
        raise TypeError(f"args is a tuple of further arguments of the function, not {type(args).__name__}")
    start = lnp.asarray(x0)
    start = start + 0.0 if start.dtype.kind in "biu" else start
    if start.ndim != 1 or start.dtype.kind not in ("fc" if limited else "f"):
        raise ValueError(
            f"minimize needs a 1-d float array to start from, not {start.dtype.name}{start.shape}"
        )
    given = {"gtol": 1e-5 if tol is None else tol, **(options or {})}
    if not limited:
        return _bfgs(lambda x: fun(x, *args), start, **given)
    if start.dtype.kind == "f":
        return limited_bfgs(lambda x: fun(x, *args), start, **given)
    n = start.size
    found = limited_bfgs(
        lambda x: fun(lax.complex(x[:n], x[n:]), *args), lnp.concatenate([start.real, start.imag]), **given
    )
    return found._replace(
        x=lax.complex(found.x[:n], found.x[n:]), jac=lax.complex(found.jac[:n], -found.jac[n:])
    )


def _bfgs(
    fun: Callable[[Tensor], Any],
    x: Tensor,
    gtol: float,
    maxiter: int | None = None,
    norm: float = lnp.inf,
    line_search_maxiter: int = 10,
) -> OptimizeResults:
    n = x.size
    most = 200 * n if maxiter is None else maxiter
    both = value_and_grad(fun)
    eye = lnp.eye(n, dtype=x.dtype)

    def done(g: Tensor) -> Tensor:
        return lnp.linalg.norm(g, ord=norm) < gtol

    def step(state: Any) -> Any:
        x, f, g, inverse, before, _, _, k, calls = state
        p = -(inverse @ g)
        found = search(both, x, p, f, g, before, line_search_maxiter)
        s, y = found.step * p, found.gradient - g
        curvature = lnp.vdot(y, s)
        usable = curvature > 0
        rho = lnp.where(usable, 1 / lnp.where(usable, curvature, 1.0), 0.0)
        # The first guess gets the size of what it stands for (equation 6.20), which the update would round away.
        scale = lnp.where((k == 0) & usable, curvature / lnp.where(usable, lnp.vdot(y, y), 1.0), 1.0)
        inverse = inverse * scale
        w = eye - rho * lnp.outer(s, y)
        inverse = lnp.where(usable, w @ inverse @ w.T + rho * lnp.outer(s, s), inverse)
        g = found.gradient
        return x + s, found.value, g, inverse, f, done(g), found.failed, k + 1, calls + found.calls

    def go_on(state: Any) -> Tensor:
        return ~state[5] & ~state[6] & (state[7] < most)

    f, g = both(x)
    # A first step that lowers f by about half the gradient's length (section 3.5).
    init = (x, f, g, eye, f + lnp.linalg.norm(g) / 2, done(g), lnp.array(False), 0, 1)
    x, f, g, inverse, _, converged, failed, k, calls = lax.while_loop(go_on, step, init)
    status = lnp.where(converged, 0, lnp.where(lnp.isfinite(f), lnp.where(failed, 3, 1), -1))
    return OptimizeResults(x, converged & ~failed, status, f, g, inverse, calls, calls, k)


_results.own(globals())
__getattr__ = _missing.attributes("lamina.scipy.optimize")
