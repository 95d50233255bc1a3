"""What equations of traces are evaluated by, one at a time: ``eqn.primitive.bind(*values, **eqn.params)``.

The operation is the function of Lamina of its name, given the parameters that the equation has. NotImplementedError for
one that is no function of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from lamina import _core, _equations, _traces, tree
from lamina import numpy as lnp
from lamina._tensor import to_tensor

from lamina_as_jax import types64

_OF_MANY = frozenset(
    (
        "cond",
        "jit",
        "pjit",
        "scan",
        "while",
        "call",
        "closed_call",
        "sort",
        "custom_jvp_call",
        "optimization_barrier",
    )
)


def bind(primitive: _traces.Primitive, *args: Any, **params: Any) -> Any:
    return types64.wrapped(_equations.function(primitive.name))(*args, **params)


# --- implementations that programs put in the place of Lamina's own ---

_replaced: dict[_traces.Primitive, Callable[..., Any]] = {}


class _Own:
    """Lamina's implementation of an operation."""

    def __init__(self, primitive: _traces.Primitive) -> None:
        self.primitive = primitive

    def __call__(self, *args: Any, **params: Any) -> Any:
        return bind(self.primitive, *args, **params)


def _implementation(primitive: _traces.Primitive) -> Callable[..., Any]:
    return _replaced.get(primitive) or _Own(primitive)


def _define(primitive: _traces.Primitive, f: Callable[..., Any]) -> Callable[..., Any]:
    """While an operation has another implementation, what is called outside of traces runs equation by equation."""
    if isinstance(f, _Own) and f.primitive is primitive:
        _replaced.pop(primitive, None)
    else:
        _replaced[primitive] = f
    types64.evaluated_by(_by_equations if _replaced else None)
    return f


def _by_equations(f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """f(*args, **kwargs), whose operations are run by their implementations; what jit compiles is one operation."""
    leaves, treedef = tree.tree_flatten((args, kwargs))
    places = [i for i, x in enumerate(leaves) if isinstance(x, (_core.Tensor, np.ndarray, float, complex))]

    def of_arrays(*arrays: Any) -> Any:
        full = list(leaves)
        for i, x in zip(places, arrays, strict=True):
            full[i] = x
        given, named = treedef.unflatten(full)
        return f(*given, **named)

    trace, described = _traces.make_trace(of_arrays, return_shape=True)(*(leaves[i] for i in places))
    found = _run(trace, [to_tensor(leaves[i]) for i in places])
    return tree.tree_structure(described).unflatten(found)


def _run(trace: _traces.Trace, args: Sequence[Any]) -> list[Any]:
    values = dict(zip(map(id, [*trace.invars, *trace.constvars]), [*args, *trace.consts], strict=True))

    def value(v: Any) -> Any:
        return (
            lnp.full(v.aval.shape, v.val, v.aval.dtype) if isinstance(v, _traces.Literal) else values[id(v)]
        )

    for e in trace.eqns:
        given = [value(v) for v in e.invars]
        if e.primitive.name == "jit" and "instance" in e.params:  # a region that is computed again
            out = _run(e.params["jaxpr"], given)
        elif e.primitive in _replaced:
            out = _replaced[e.primitive](*given, **e.params)
        else:
            out = bind(e.primitive, *given, **e.params)
        values.update(zip(map(id, e.outvars), out if isinstance(out, (list, tuple)) else [out], strict=True))
    return [value(v) for v in trace.outvars]


def install() -> None:
    """Gives the operations of traces what those of JAX have."""
    _traces.Primitive.bind = bind
    _traces.Primitive.impl = property(_implementation)
    _traces.Primitive.def_impl = _define
    _traces.Primitive.multiple_results = property(lambda self: self.name in _OF_MANY)
    _traces.Primitive.get_bind_params = lambda self, params: ([], dict(params))
    _traces.Primitive.call_primitive = _traces.Primitive.map_primitive = False
