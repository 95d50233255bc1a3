"""What equations of traces are evaluated by, one at a time: ``eqn.primitive.bind(*values, **eqn.params)``.

The operation is the function of Lamina of its name, given the parameters that the equation has. NotImplementedError for
one that is no function of arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina import _traces, lax
from lamina import numpy as lnp

from lamina_as_jax import types64

_OF_MANY = frozenset(
    ("cond", "jit", "pjit", "scan", "while", "call", "closed_call", "sort", "custom_jvp_call")
)


def _dot_general(x: Any, y: Any, **params: Any) -> Any:
    if "dimension_numbers" in params:
        return lax.dot_general(x, y, **params)
    contracted, batch = (
        tuple(tuple(params.pop(f"{side}_{kind}_dimensions", ())) for side in ("lhs", "rhs"))
        for kind in ("contracting", "batching")
    )
    return lax.dot_general(x, y, (contracted, batch), **params)


def _choice(index: Any, *operands: Any, branches: Any) -> list[Any]:
    runs = [lambda *args, b=b: tuple(b.evaluate(b.consts, *args)) for b in branches]
    return list(lax.switch(index, runs, *operands))


def _jitted(*args: Any, jaxpr: Any, **options: Any) -> list[Any]:
    return jaxpr.evaluate(jaxpr.consts, *args)


_OTHERWISE: dict[str, Callable[..., Any]] = {
    "add_jaxvals": lax.add,
    "argmax": lambda x, axes, index_dtype: lax.argmax(x, axes[0], index_dtype),
    "argmin": lambda x, axes, index_dtype: lax.argmin(x, axes[0], index_dtype),
    "cond": _choice,
    "convert_element_type": lambda x, dtype=None, **options: lax.convert_element_type(
        x, options.get("new_dtype", dtype)
    ),
    "copy": lnp.copy,
    "dot_general": _dot_general,
    "integer_pow": lambda x, y: lax.integer_pow(x, y),
    "jit": _jitted,
    "not": lnp.bitwise_not,
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


def bind(primitive: _traces.Primitive, *args: Any, **params: Any) -> Any:
    name = primitive.name
    f = _OTHERWISE.get(name) or getattr(lax, name, None) or getattr(lax.linalg, name, None)
    if f is None:
        raise NotImplementedError(f"the operation {name} is evaluated with the trace that it is part of")
    return types64.wrapped(f)(*args, **params)


def install() -> None:
    """Gives the operations of traces what those of JAX have."""
    _traces.Primitive.bind = bind
    _traces.Primitive.multiple_results = property(lambda self: self.name in _OF_MANY)
    _traces.Primitive.get_bind_params = lambda self, params: ([], dict(params))
    _traces.Primitive.call_primitive = _traces.Primitive.map_primitive = False
