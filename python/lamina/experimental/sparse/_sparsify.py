"""sparsify: functions of dense arrays, called with sparse ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _equations, _traces, lax
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina._functions import need_function
from lamina._shapes import ShapeDtype
from lamina._tensor import to_tensor
from lamina.ad_checkpoint import checkpoint_name
from lamina.experimental.sparse import _products, _structure
from lamina.experimental.sparse._base import SparseArray
from lamina.tree import tree_flatten, tree_unflatten

_DENSE = "lamina.sparse.todense"  # marks, in a trace, what is to be dense


def todense(arr: Any) -> Tensor:
    """A sparse array with all its elements; a dense one as it is. What it returns is dense inside `sparsify` too."""
    return arr.todense() if isinstance(arr, SparseArray) else checkpoint_name(to_tensor(arr), _DENSE)


# Functions that are 0 at 0; those of the second row are linear.
_AT_ZERO = frozenset(
    (
        *("abs", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "erf", "expm1", "floor", "log1p"),
        *("round_nearest_even", "round_nearest_afz", "sign", "sin", "sinh", "sqrt", "tan", "tanh"),
    )
)
_LINEAR = ("convert_element_type", "imag", "neg", "real", "copy")


def _unary(name: str, m: Any, params: dict[str, Any]) -> Any:
    return _products.of_elements(lambda x: _equations.function(name)(x, **params), m)


def _linear(name: str, m: Any, params: dict[str, Any]) -> Any:
    return m.with_data(_equations.function(name)(m.data, **params))


def _dot(x: Any, y: Any, *, dimension_numbers: Any, preferred_element_type: Any = None, **_: Any) -> Any:
    return _products.bcoo_dot_general(
        x, y, dimension_numbers=dimension_numbers, preferred_element_type=preferred_element_type
    )


def _divided(x: Any, y: Any) -> Any:
    if isinstance(y, SparseArray):
        raise NotImplementedError("a quotient by a sparse array is not finite where that is zero")
    return x / y


def _joined(*arrays: Any, dimension: int = 0) -> Any:
    if not all(isinstance(a, SparseArray) for a in arrays):
        raise NotImplementedError("sparse and dense arrays are not concatenated: make all sparse or dense")
    return _structure.bcoo_concatenate(arrays, dimension=dimension)


def _sliced(x: Any, start_indices: Any = (), limit_indices: Any = (), strides: Any = None) -> Any:
    return _structure.bcoo_slice(
        x, start_indices=start_indices, limit_indices=limit_indices, strides=strides or None
    )


_RULES: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": _divided,
    "dot_general": _dot,
    "concatenate": _joined,
    "slice": _sliced,
    "dynamic_slice": lambda x, *starts, slice_sizes=(): _structure.bcoo_dynamic_slice(x, starts, slice_sizes),
    "broadcast_in_dim": lambda x, shape=(), broadcast_dimensions=(): _structure.bcoo_broadcast_in_dim(
        x, shape=shape, broadcast_dimensions=broadcast_dimensions
    ),
    "reduce_sum": lambda x, axes=(): x.sum(axes),
    "reshape": lambda x, shape=(): x.reshape(tuple(shape)),
    "rev": lambda x, dimensions=(): _structure.bcoo_rev(x, dimensions),
    "transpose": lambda x, permutation=(): x.transpose(permutation),
    "name": lambda x, name="": x.todense() if name == _DENSE else x,
}


def _evaluated(e: _traces.Equation, args: Sequence[Any]) -> Any:
    name = e.primitive.name
    if name == "jit":
        return _run(e.params["jaxpr"], args)
    if name == "cond":
        index, *operands = args
        runs = [lambda *given, t=t: tuple(_run(t, given)) for t in e.params["branches"]]
        return list(lax.switch(index, runs, *operands))
    if name == "while":
        test, body = e.params["cond_jaxpr"], e.params["body_jaxpr"]
        return list(lax.while_loop(lambda c: _run(test, c)[0], lambda c: tuple(_run(body, c)), tuple(args)))
    if name == "scan":
        return _scanned(args, **e.params)
    if not any(isinstance(a, SparseArray) for a in args):
        return _equations.function(name)(*args, **e.params)
    given = [_products.as_bcoo(a) if isinstance(a, SparseArray) else a for a in args]
    if name in _AT_ZERO:
        return _unary(name, given[0], e.params)
    if name in _LINEAR:
        return _linear(name, given[0], e.params)
    if name not in _RULES:
        raise NotImplementedError(
            f"sparse rule for {name} is not implemented because it would result in dense output. If that is meant, "
            "make the argument dense with sparse.todense()"
        )
    return _RULES[name](*given, **e.params)


def _scanned(
    args: Sequence[Any], jaxpr: _traces.Trace, num_carry: int, length: int, reverse: bool = False
) -> list[Any]:
    if any(isinstance(a, SparseArray) for a in args[num_carry:]):
        raise NotImplementedError("scan takes the parts of dense arrays only: give sparse ones as the state")

    def step(state: Any, part: Any) -> Any:
        out = _run(jaxpr, [*state, *part])
        return tuple(out[:num_carry]), tuple(out[num_carry:])

    state, rows = lax.scan(step, tuple(args[:num_carry]), tuple(args[num_carry:]), length, reverse)
    return [*state, *rows]


def _run(trace: _traces.Trace, args: Sequence[Any]) -> list[Any]:
    known = dict(zip(map(id, [*trace.invars, *trace.constvars]), [*args, *trace.consts], strict=True))

    def value(v: Any) -> Any:
        if isinstance(v, _traces.Literal):
            # A number is broadcast to whatever it meets.
            return lnp.asarray(v.val, v.aval.dtype)
        return known[id(v)]

    for e in trace.eqns:
        given = [value(v) for v in e.invars]
        inside = e.primitive.name in ("cond", "jit", "scan", "while")
        if inside or not any(isinstance(g, SparseArray) for g in given):
            given = [lnp.broadcast_to(g, v.aval.shape) if isinstance(v, _traces.Literal) else g
                     for g, v in zip(given, e.invars, strict=True)]  # fmt: skip
        out = _evaluated(e, given)
        out = out if isinstance(out, (list, tuple)) else [out]
        known.update(zip(map(id, e.outvars), out, strict=True))
    return [value(v) for v in trace.outvars]


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """`f`, a function of arrays, called with sparse ones (BCOO, BCSR, ...): what it computes stays sparse.

    It is traced with dense arrays in their place, and run operation by operation. NotImplementedError for an operation
    whose result would be dense (``cos``, ``x + 1``); `todense` inside `f` allows it. `use_tracer` changes nothing.
    """
    need_function(f, "sparsify")

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs), is_leaf=lambda x: isinstance(x, SparseArray))
        places = [i for i, x in enumerate(leaves) if _is_array(x)]
        trees: list[Any] = []

        def of_arrays(*arrays: Any) -> Any:
            full = list(leaves)
            for i, x in zip(places, arrays, strict=True):
                full[i] = x
            given, named = tree_unflatten(tree, full)
            out, structure = tree_flatten(f(*given, **named))
            trees[:] = [structure]
            return out

        given = [leaves[i] if isinstance(leaves[i], SparseArray) else to_tensor(leaves[i]) for i in places]
        trace = _traces.make_trace(of_arrays)(*(ShapeDtype(x.shape, str(x.dtype)) for x in given))
        return tree_unflatten(trees[0], _run(trace, given))

    return call


def _is_array(x: Any) -> bool:
    return hasattr(x, "dtype") or isinstance(x, (int, float, complex))
