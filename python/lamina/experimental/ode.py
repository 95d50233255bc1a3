"""Solutions of ordinary differential equations: odeint, with the meaning that jax.experimental.ode gives it.

The method is Dormand and Prince's of order 5(4) with its continuous extension of order 4, and the choice of the first
and of every further step, from E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I, sections
II.4 to II.6.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from lamina import _results, lax
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina._transforms import vmap
from lamina.flatten_util import ravel_pytree
from lamina.numpy._common import inexact

__all__ = ["odeint"]

# When a stage is, what it takes of the stages before it, and what they give to the error and the extension. The last
# stage is at the end of the step, which is where the next one begins.
_TIMES = (0.2, 0.3, 0.8, 8 / 9, 1.0, 1.0)
_STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
_ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)
_EXTENSION = (
    -12715105075 / 11282082432,
    0.0,
    87487479700 / 32700410799,
    -10690763975 / 1880347072,
    701980252875 / 199316789632,
    -1453857185 / 822651844,
    69997945 / 29380423,
)


def _sum(weights: Any, stages: list[Tensor]) -> Tensor:
    return sum(w * k for w, k in zip(weights, stages, strict=True) if w)  # type: ignore[return-value]


def _norm(x: Tensor) -> Tensor:
    """The root of the mean of squares."""
    return lnp.sqrt(lnp.mean(lnp.square(lnp.abs(x))))


def _first_step(f: Any, t0: Tensor, y0: Tensor, f0: Tensor, rtol: float, atol: float) -> Tensor:
    scale = atol + lnp.abs(y0) * rtol
    size, slope = _norm(y0 / scale), _norm(f0 / scale)
    tiny = (size < 1e-5) | (slope < 1e-5)
    guess = lnp.where(tiny, 1e-6, 0.01 * size / lnp.where(tiny, 1.0, slope))
    bend = _norm((f(y0 + guess * f0, t0 + lnp.astype(guess, t0.dtype)) - f0) / scale) / guess
    most = lnp.maximum(slope, bend)
    flat = most <= 1e-15
    chosen = lnp.where(flat, lnp.maximum(1e-6, guess * 1e-3), (0.01 / lnp.where(flat, 1.0, most)) ** (1 / 5))
    return lnp.minimum(100 * guess, chosen)


def odeint(
    func: Callable[..., Any],
    y0: Any,
    t: Any,
    *args: Any,
    rtol: float = 1.4e-8,
    atol: float = 1.4e-8,
    mxstep: float = math.inf,
    hmax: float = math.inf,
) -> Any:
    """The solution of dy/dt = `func(y, t, *args)` with y(t[0]) = `y0` at the times `t` [n], which increase, or decrease.

    `y0` and what `func` returns are an array or a container of them; every array of the result has a leading dimension
    of n. Steps are chosen so that the estimated error stays below `atol + rtol * |y|`, or are as short as
    the type of `t` tells times apart; they are at most `hmax` long, and `mxstep` many between two times. Times that are
    not reached, since a step fails or the solution has no finite value there, or which turn back, give NaN.
    Derivatives by `y0`, `t`, `args` and what `func` reads, forwards and in reverse, go through the steps taken, whose
    sizes count as constants. TypeError for times that are no floats, ValueError where they are not 1-d.
    """
    times = to_tensor(t)
    if times.dtype.kind != "f":
        raise TypeError(f"odeint needs times t of floats, not {times.dtype.name}: give 0.0 for 0")
    if times.ndim != 1 or not times.size:
        raise ValueError(f"odeint needs a 1-d array of times t, not shape {times.shape}")
    start, unravel = ravel_pytree(y0)
    start = inexact(start)
    real = lnp.real(start).dtype
    spacing = 2 * float(lnp.finfo(times.dtype.name).eps)

    # Steps go forwards: times that decrease are those of the equation with the other sign, counted backwards.
    ahead = lax.stop_gradient(lnp.where(times[-1] < times[0], -1, 1))
    sense = lnp.astype(ahead, times.dtype)
    times = sense * times

    def slope(y: Tensor, at: Tensor) -> Tensor:
        out = ravel_pytree(func(unravel(y), sense * at, *args))[0]
        if out.shape != y.shape:
            raise ValueError(f"odeint's func gives {out.size} numbers for a state of {y.size}")
        return lnp.astype(out, y.dtype) * lnp.astype(ahead, real)

    def one_step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        count, y, f, at, step, *_ = state
        h = lnp.astype(step, real)
        stages = [f]
        for when, weights in zip(_TIMES, _STAGES, strict=True):
            after = y + h * _sum(weights, stages)
            stages.append(slope(after, at + when * step))
        allowed = atol + rtol * lnp.maximum(lnp.abs(y), lnp.abs(after))
        ratio = lax.stop_gradient(_norm(h * _sum(_ERROR, stages) / allowed))
        known, least = lnp.isfinite(ratio), spacing * lnp.abs(at)
        good = (ratio <= 1) | (known & (step <= least))
        wanted = 0.9 * lnp.where(known & (ratio > 0), ratio, 1.0) ** -0.2
        factor = lnp.where(ratio == 0, 10.0, lnp.clip(wanted, lnp.where(ratio <= 1, 1.0, 0.2), 10.0))
        following = step * lnp.astype(lnp.where(known, factor, 0.2), step.dtype)
        following = lnp.clip(lnp.maximum(following, least), 0.0, hmax)
        following = lnp.where(known | (step > least), following, 0)  # there is no way on
        change = after - y
        bow = h * f - change
        extension = lnp.stack([y, change, bow, change - h * stages[-1] - bow, h * _sum(_EXTENSION, stages)])
        new = (after, stages[-1], at + step, following, at, extension)
        kept = (y, f, at, following, *state[5:])
        return (count + 1, *(lnp.where(good, a, b) for a, b in zip(new, kept, strict=True)))

    def until(carry: tuple[Any, ...], target: Tensor) -> tuple[Any, Tensor]:
        def going_on(state: tuple[Any, ...]) -> Tensor:
            return (state[3] < target) & (state[4] > 0) & (state[0] < mxstep)

        _, *carry = lax.while_loop(going_on, one_step, (lnp.zeros((), "int32"), *carry))
        _, _, at, _, before, (y, change, bow, bend, rest) = carry
        moved = at > before
        part = lnp.where(moved, (target - before) / lnp.where(moved, at - before, 1), 0)
        part = lnp.astype(part, real)
        found = y + part * (change + (1 - part) * (bow + part * (bend + (1 - part) * rest)))
        return tuple(carry), lnp.where((before <= target) & (target <= at), found, math.nan)

    first = slope(start, times[0])
    step = lax.stop_gradient(_first_step(slope, times[0], start, first, rtol, atol))
    step = lnp.clip(lnp.astype(step, times.dtype), 0.0, hmax)
    none = lnp.zeros_like(start)
    carry = (start, first, times[0], step, times[0], lnp.stack([start, none, none, none, none]))
    _, later = lax.scan(until, carry, times[1:])
    return vmap(unravel)(lnp.concatenate([start[None], later]))


_results.own(globals())
