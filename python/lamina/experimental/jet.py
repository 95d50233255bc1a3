"""Taylor-mode derivatives: what a function does to the Taylor series of its arguments, as jax.experimental.jet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _core, _results, tree
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina._tensor import describe, to_tensor
from lamina._transforms import jvp
from lamina.numpy._common import inexact, known

__all__ = ["jet"]


def _moved(primal: Any, terms: Sequence[Any], t: Tensor, scaled: bool) -> Any:
    """A primal's place on its curve. Arrays of integers and booleans stay where they are: TypeError if they move."""
    x = to_tensor(primal)
    if x.dtype.kind not in "fc":
        if all((n := known(term)) is not None and not n.any() for term in terms):
            return x
        if not _core.is_number(primal):
            raise TypeError(
                f"jet: a primal of {describe(x)} has no Taylor series, and its own is not zero; make it floats (astype)"
            )
        x = inexact(x)
    step = lnp.astype(t, x.dtype)
    power = step
    for k, term in enumerate(terms, 1):
        c = lnp.broadcast_to(lnp.astype(to_tensor(term), x.dtype), x.shape)
        x = x + c * (power / (math.factorial(k) if scaled else 1))
        power = power * step
    return x


def jet(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    series: Sequence[Any],
    *,
    factorial_scaled: bool = True,
) -> tuple[Any, Any]:
    """`fun(*primals)`, and the derivatives of `fun` along the curve that `series` gives.

    `series` has one entry per primal: for an array a list of as many arrays of its shape as there are orders, for a
    container one of such lists. The k-th is the k-th derivative by t of that argument at t = 0, and so is the k-th of
    each list in the second result, which has the structure of `fun`'s result (without `factorial_scaled`, both
    are coefficients of the Taylor series: the derivative divided by k!). Zeros for results of integers and booleans.
    Made of nested forward modes, so every operation has it; the work grows with the square of the order or faster.
    ValueError where the numbers of orders differ, or primals and series do; TypeError for a series of integers, but a
    Python number counts as a float.

    >>> y, (first, second) = jet(lnp.sin, (x,), ([1.0, 0.0],))
    """
    if len(primals) != len(series):
        raise ValueError(f"jet got {len(primals)} primals and {len(series)} series: one for each")
    leaves, treedef = tree.tree_flatten(tuple(primals))
    lists = treedef.flatten_up_to(tuple(series))
    orders = {len(s) for s in lists}
    if len(orders) != 1:
        raise ValueError(f"every series of jet has the same number of terms, not {sorted(orders)}")
    order = orders.pop()
    outs: list[Any] = []  # the structure of the result, which the last run has filled in

    def values(t: Tensor) -> tuple[list[Any], ...]:
        moved = [_moved(x, s, t, factorial_scaled) for x, s in zip(leaves, lists, strict=True)]
        found, outs[:] = _flat(fun(*treedef.unflatten(moved)))
        return (found,)

    def one_more(lower: Callable[[Tensor], Any], k: int) -> Callable[[Tensor], Any]:
        def derived(t: Tensor) -> tuple[list[Any], ...]:
            known, slopes = jvp(lower, (t,), (lnp.ones((), t.dtype),))
            scale = 1 if factorial_scaled else k
            return (*known, [_slope(x, d, scale) for x, d in zip(known[-1], slopes[-1], strict=True)])

        return derived

    curve = values
    for k in range(1, order + 1):
        curve = one_more(curve, k)
    wide = any(getattr(x, "dtype", None) in ("float64", "complex128") for x in leaves)
    first, *terms = curve(lnp.zeros((), "float64" if wide else "float32"))
    out = outs[0]
    of_each = [list(of) for of in zip(*terms, strict=True)] if terms else [[] for _ in first]
    return out.unflatten(first), out.unflatten(of_each)


def _flat(x: Any) -> tuple[list[Any], list[Any]]:
    leaves, treedef = tree.tree_flatten(x)
    return [to_tensor(leaf) for leaf in leaves], [treedef]


def _slope(x: Tensor, slope: Any, scale: int) -> Tensor:
    return lnp.zeros(x.shape, "float32") if x.dtype.kind not in "fc" or slope is None else slope / scale


_results.own(globals())
