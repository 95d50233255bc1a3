"""What an equation of a trace computes, as a function: that of `lamina.lax` of its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina import lax
from lamina import numpy as lnp


def _choice(index: Any, *operands: Any, branches: Any) -> list[Any]:
    runs = [lambda *args, b=b: tuple(b.evaluate(b.consts, *args)) for b in branches]
    return list(lax.switch(index, runs, *operands))


def _jitted(*args: Any, jaxpr: Any, **options: Any) -> list[Any]:
    return jaxpr.evaluate(jaxpr.consts, *args)


# What has another form there.
_OTHERWISE: dict[str, Callable[..., Any]] = {
    "add_jaxvals": lax.add,
    "argmax": lambda x, axes, index_dtype: lax.argmax(x, axes[0], index_dtype),
    "argmin": lambda x, axes, index_dtype: lax.argmin(x, axes[0], index_dtype),
    "cond": _choice,
    "convert_element_type": lambda x, dtype=None, **options: lax.convert_element_type(
        x, options.get("new_dtype", dtype)
    ),
    "copy": lnp.copy,
    "integer_pow": lambda x, y: lax.integer_pow(x, y),
    "jit": _jitted,
    "not": lnp.bitwise_not,
    "optimization_barrier": lambda *arrays, **options: list(lax.optimization_barrier(arrays)),
    "and": lnp.bitwise_and,
    "or": lnp.bitwise_or,
    "xor": lnp.bitwise_xor,
    "pjit": _jitted,
    "reshape": lambda x, shape=(), **options: lax.reshape(x, options.get("new_sizes", shape)),
    "reduce_and": lambda x, axes: lnp.all(x, axes),
    "reduce_max": lambda x, axes: lnp.max(x, axes),
    "reduce_min": lambda x, axes: lnp.min(x, axes),
    "reduce_or": lambda x, axes: lnp.any(x, axes),
    "reduce_prod": lambda x, axes: lnp.prod(x, axes),
    "reduce_sum": lambda x, axes: lnp.sum(x, axes),
}


def function(name: str) -> Callable[..., Any]:
    """The function of the operation `name`, which takes the operands and the parameters that an equation has.

    NotImplementedError for one that is no function of arrays alone.
    """
    f = _OTHERWISE.get(name) or getattr(lax, name, None) or getattr(lax.linalg, name, None)
    if f is None:
        raise NotImplementedError(f"the operation {name} is evaluated with the trace that it is part of")
    return f
