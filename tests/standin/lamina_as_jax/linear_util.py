"""``jax.extend.linear_util``, ``jax.api_util`` and ``jax.interpreters.partial_eval``: functions on flat lists."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import lamina as lm
from lamina import _core
from lamina._tensor import to_tensor

from lamina_as_jax import keys, pruning, types64
from lamina_as_jax.avals import DebugInfo, ShapedArray, typeof

_flatten = keys.leaves(lm.tree_util.tree_flatten)


class Store:
    """A result that a transformation leaves beside the function's."""

    def __init__(self) -> None:
        self._held: list[Any] = []

    def store(self, value: Any) -> None:
        if self._held:
            raise ValueError("the store holds a value already")
        self._held.append(value)

    def reset(self) -> None:
        self._held.clear()

    @property
    def val(self) -> Any:
        if not self._held:
            raise ValueError("the store holds no value")
        return self._held[0]

    def __bool__(self) -> bool:
        return bool(self._held)


class WrappedFun:
    """A function with the transformations around it, outermost last."""

    def __init__(
        self, f: Callable[..., Any], params: dict[str, Any], call: Callable[..., Any], debug_info: Any
    ) -> None:
        self.f, self.params, self.debug_info, self._call = f, params, debug_info, call

    __name__ = property(lambda self: getattr(self.f, "__name__", "<unnamed function>"))

    def call_wrapped(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def wrap(self, call: Callable[..., Any]) -> WrappedFun:
        return WrappedFun(self.f, self.params, call, self.debug_info)


def wrap_init(
    f: Callable[..., Any], params: dict[str, Any] | None = None, *, debug_info: Any = None
) -> WrappedFun:
    given = dict(params or {})
    return WrappedFun(f, given, lambda *args, **kwargs: f(*args, **{**given, **kwargs}), debug_info)


def _around(
    transformation: Callable[..., Any], fun: WrappedFun, given: tuple[Any, ...]
) -> Callable[..., Any]:
    """A call of a generator that yields (args, kwargs) of the function, is sent its result, and yields its own."""

    def call(*args: Any, **kwargs: Any) -> Any:
        steps = transformation(*given, *args, **kwargs)
        inner_args, inner_kwargs = next(steps)
        out = steps.send(fun.call_wrapped(*inner_args, **inner_kwargs))
        steps.close()
        return out

    return call


def transformation(gen: Callable[..., Any]) -> Callable[..., WrappedFun]:
    @functools.wraps(gen)
    def made(fun: WrappedFun, *given: Any) -> WrappedFun:
        return fun.wrap(_around(gen, fun, given))

    return made


def transformation_with_aux(gen: Callable[..., Any]) -> Callable[..., tuple[WrappedFun, Callable[[], Any]]]:
    @functools.wraps(gen)
    def made(fun: WrappedFun, *given: Any) -> tuple[WrappedFun, Callable[[], Any]]:
        store, inner = Store(), _around(gen, fun, given)

        def call(*args: Any, **kwargs: Any) -> Any:
            out, aux = inner(*args, **kwargs)
            store.reset()
            store.store(aux)
            return out

        return fun.wrap(call), lambda: store.val

    return made


def transformation2(transform: Callable[..., Any]) -> Callable[..., WrappedFun]:
    """Of a function ``transform(f, *given, *args)`` that calls `f` itself."""

    @functools.wraps(transform)
    def made(fun: WrappedFun, *given: Any) -> WrappedFun:
        return fun.wrap(functools.partial(transform, fun.call_wrapped, *given))

    return made


def transformation_with_aux2(transform: Callable[..., Any]) -> Callable[..., Any]:
    """As `transformation2`, of ``transform(f, store, *given, *args)``."""

    @functools.wraps(transform)
    def made(fun: WrappedFun, *given: Any) -> tuple[WrappedFun, Callable[[], Any]]:
        store = Store()

        def call(*args: Any, **kwargs: Any) -> Any:
            store.reset()
            return transform(fun.call_wrapped, store, *given, *args, **kwargs)

        return fun.wrap(call), lambda: store.val

    return made


# --- jax.api_util ---


def debug_info(traced_for: str, fun: Any, args: Any, kwargs: Any, **options: Any) -> DebugInfo:
    return DebugInfo(traced_for, fun)


def flatten_fun(fun: WrappedFun, in_tree: Any) -> tuple[WrappedFun, Callable[[], Any]]:
    """The function of a flat list, of (args, kwargs) with the structure `in_tree`; and the structure of its results."""
    store = Store()

    def call(*leaves: Any) -> list[Any]:
        args, kwargs = lm.tree_util.tree_unflatten(in_tree, leaves)
        out, structure = _flatten(fun.call_wrapped(*args, **kwargs))
        store.reset()
        store.store(structure)
        return out

    return fun.wrap(call), lambda: store.val


def flatten_fun_nokwargs(fun: WrappedFun, in_tree: Any) -> tuple[WrappedFun, Callable[[], Any]]:
    return flatten_fun(fun, lm.tree_util.treedef_tuple((in_tree, lm.tree_util.tree_structure({}))))


def infer_argnums_and_argnames(
    sig: inspect.Signature, argnums: Any, argnames: Any
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The numbers and names of some parameters, where those of one kind, or none, are given."""
    positional = [n for n, p in sig.parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    if argnums is None and argnames is None:
        return (), ()
    if argnums is None:
        argnames = (argnames,) if isinstance(argnames, str) else tuple(argnames)
        return tuple(i for i, n in enumerate(positional) if n in argnames), argnames
    argnums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    if argnames is None:
        return argnums, tuple(positional[i] for i in argnums if -len(positional) <= i < len(positional))
    return argnums, (argnames,) if isinstance(argnames, str) else tuple(argnames)


def flatten_axes(name: str, treedef: Any, axis_tree: Any, **options: Any) -> list[Any]:
    """A tree of axes for each leaf of a structure that it is a prefix of; None is an axis."""
    whole = treedef.unflatten(range(treedef.num_leaves))
    return lm.tree.tree_leaves(
        lm.tree.broadcast(axis_tree, whole, lambda x: x is None), is_leaf=lambda x: x is None
    )


def safe_map(f: Callable[..., Any], *lists: Sequence[Any]) -> list[Any]:
    return [f(*each) for each in zip(*map(list, lists), strict=True)]


API_UTIL: dict[str, Any] = {
    "debug_info": debug_info,
    "infer_argnums_and_argnames": infer_argnums_and_argnames,
    "flatten_axes": flatten_axes,
    "flatten_fun": flatten_fun,
    "flatten_fun_nokwargs": flatten_fun_nokwargs,
    "shaped_abstractify": typeof,
    "safe_map": safe_map,
}
NAMES: dict[str, Any] = {
    "Store": Store,
    "WrappedFun": WrappedFun,
    "wrap_init": wrap_init,
    "transformation": transformation,
    "transformation_with_aux": transformation_with_aux,
    "transformation2": transformation2,
    "transformation_with_aux2": transformation_with_aux2,
}


# --- jax.interpreters.partial_eval ---


class PartialVal(NamedTuple):
    """A value that is known, or the type of one that is not."""

    pv: Any
    const: Any

    @classmethod
    def known(cls, value: Any) -> PartialVal:
        return cls(None, value)

    @classmethod
    def unknown(cls, aval: ShapedArray) -> PartialVal:
        return cls(aval, None)

    def is_known(self) -> bool:
        return self.pv is None

    def get_known(self) -> Any:
        return self.const if self.pv is None else None

    def get_aval(self) -> Any:
        return typeof(self.const) if self.pv is None else self.pv


def trace_to_jaxpr_nounits(
    fun: WrappedFun, pvals: Sequence[PartialVal], instantiate: bool = False
) -> tuple[Any, list[PartialVal], list[Any]]:
    """What of a function's results is known where some arguments are not.

    All that does not depend on those is computed as always. The trace of the others is of the whole function.
    """
    unknown = [p.pv for p in pvals if not p.is_known()]
    found: list[PartialVal] = []

    def run(*given: Any) -> list[Any]:
        rest = iter(given)
        out = fun.call_wrapped(*(p.const if p.is_known() else next(rest) for p in pvals))
        for x in out:
            own = keys.words(x)
            depends = isinstance(own, lm.Tensor) and any(
                _core.depends_on(own, lm.tree_util.tree_leaves(given))
            )
            found.append(PartialVal.unknown(typeof(x)) if depends or instantiate else PartialVal.known(x))
        return [to_tensor(types64.argument(keys.words(x))) for x, p in zip(out, found) if not p.is_known()]

    with lm.checking_leaks(False):  # what is known leaves the trace
        trace = lm.make_trace(run)(*map(keys.standing_for, unknown))
    return trace, [PartialVal(p.pv, _of_this_trace(p.const)) for p in found], trace.consts


def _of_this_trace(x: Any) -> Any:
    """An array that was recorded in a trace that has ended, and is known, for the one that goes on."""
    if isinstance(x, keys.KeyArray):
        return keys.KeyArray(_of_this_trace(x._words), x._impl)
    return _core.copy(x) if isinstance(x, lm.Tensor) else x


def trace_to_jaxpr_dynamic(fun: WrappedFun, in_avals: Sequence[Any], **options: Any) -> tuple[Any, Any, Any]:
    """(trace, types of the results, arrays from outside) of a function of a flat list."""
    trace = lm.make_trace(lambda *args: types64.result(list(fun.call_wrapped(*args))))(*in_avals)
    return trace, trace.out_avals, trace.consts


PARTIAL_EVAL: dict[str, Any] = {
    "dce_jaxpr": pruning.dce_jaxpr,
    "PartialVal": PartialVal,
    "trace_to_jaxpr_nounits": trace_to_jaxpr_nounits,
    "trace_to_jaxpr_dynamic": trace_to_jaxpr_dynamic,
}
