"""``jax.core``'s descriptions of values: ShapedArray and its like, and what state a trace is in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import lamina as lm
import numpy as np
from lamina import _core, _traces, dtypes
from lamina._core import Tensor
from lamina.ref import Ref

from lamina_as_jax import types64

FLOAT0 = np.dtype([("float0", np.void, 0)])


class Float0(np.ndarray):
    """Zeros without a type: a leaf to ``jax.tree``; to Lamina a container of nothing, so that they go in and out of
    jitted functions.
    """

    met = False  # whether there has been one

    def __new__(cls, shape: Any) -> Float0:
        Float0.met = True
        return np.zeros(shape, FLOAT0).view(cls)


class _Described(type):
    """Lamina has one class for the types of arrays."""

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, (lm.ShapeDtype, AbstractRef))


class AbstractValue(metaclass=_Described):
    """What a value is, without it."""


def unspread(ndim: int) -> Any:
    """The sharding of an array of which no axis is spread over any."""
    from lamina_as_jax import sharding

    return sharding.NamedSharding(sharding.AbstractMesh((), ()), sharding.PartitionSpec(*[None] * ndim))


class ShapedArray(lm.ShapeDtype):
    """Shape and element type of an array; `float0`, the type of derivatives by integers, is one of the types."""

    def __init__(
        self, shape: Any, dtype: Any = None, weak_type: bool = False, *, sharding: Any = None, **where: Any
    ) -> None:
        own = dtype == FLOAT0 or getattr(dtype, "name", "") == "key<fry>"
        super().__init__(shape, "uint32" if own else np.dtype(types64.argument(dtype)), weak_type=weak_type)
        self.dtype = dtype if own else np.dtype(self.dtype.name)
        self.sharding = unspread(len(self.shape)) if sharding is None else sharding

    def to_tangent_aval(self) -> ShapedArray:
        kind = dtypes.name_of(self.dtype) if self.dtype != FLOAT0 else "float0"
        inexact = kind.startswith(("float", "bfloat", "complex")) and kind != "float0"
        return ShapedArray(self.shape, self.dtype if inexact else FLOAT0)

    to_cotangent_aval = to_tangent_aval
    at_least_vspace = to_tangent_aval

    def strip_weak_type(self) -> ShapedArray:
        return self.update(weak_type=False)

    normalize = strip_weak_type

    def __repr__(self) -> str:
        return f"ShapedArray({self.str_short()}{', weak_type=True' * self.weak_type})"

    def __str__(self) -> str:
        return "~" * self.weak_type + self.str_short()

    def str_short(self, short_dtypes: bool = False, **options: Any) -> str:
        return f"{self.dtype.name if self.dtype != FLOAT0 else 'float0'}[{','.join(map(str, self.shape))}]"


def _recorded(described: Any) -> ShapedArray:
    """The type of a value of a trace; tokens are numbers."""
    return ShapedArray((), "int32") if described is None else ShapedArray(described[1], described[0])


_traces._aval = _recorded
Ref.aval = property(lambda r: typeof(r))


class AbstractRef:
    """What a reference is."""

    def __init__(self, inner_aval: ShapedArray) -> None:
        self.inner_aval = inner_aval

    shape = property(lambda self: self.inner_aval.shape)
    dtype = property(lambda self: self.inner_aval.dtype)
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: self.inner_aval.size)
    sharding = property(lambda self: self.inner_aval.sharding)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbstractRef) and self.inner_aval == other.inner_aval

    def __hash__(self) -> int:
        return hash(("Ref", self.inner_aval))

    def __repr__(self) -> str:
        return f"Ref{{{self.inner_aval.str_short()}}}"


def typeof(x: Any) -> Any:
    """The ShapedArray of an array or number, the AbstractRef of a reference. TypeError for other objects."""
    if isinstance(x, (ShapedArray, AbstractRef)):
        return x
    if isinstance(x, (lm.ShapeDtype, lm.Tensor)):
        return ShapedArray(x.shape, x.dtype.name, x.weak_type)
    if hasattr(x, "_impl"):  # keys
        return x.aval
    if isinstance(x, Ref):
        return AbstractRef(ShapedArray(x.shape, x.dtype.name))
    if getattr(x, "dtype", None) == FLOAT0:
        return ShapedArray(x.shape, FLOAT0)
    if not isinstance(x, (np.ndarray, np.generic, bool, int, float, complex)) and not hasattr(
        x, "__jax_array__"
    ):
        raise TypeError(f"a {type(x).__name__} is no array or number: {x!r:.80}")
    like = lm.ShapeDtype.like(types64.argument(x))
    return ShapedArray(like.shape, types64.narrowed(like.dtype.name), like.weak_type)


def valid_jaxtype(x: Any) -> bool:
    try:
        typeof(x)
    except TypeError:
        return False
    return True


def mapped_aval(size: int, axis: int | None, aval: ShapedArray) -> ShapedArray:
    """One lane of it. ValueError where the axis is not of the size."""
    if axis is None:
        return aval
    if aval.shape[axis] != size:
        raise ValueError(f"{aval} has not {size} lanes along axis {axis}")
    return aval.update(shape=aval.shape[:axis] + aval.shape[axis + 1 :])


def unmapped_aval(size: int, axis: int | None, aval: ShapedArray, *others: Any) -> ShapedArray:
    """`size` lanes of it."""
    return aval if axis is None else aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))


class OpaqueTraceState:
    """Which transforms are open: equal while no trace begins or ends."""

    def __init__(self) -> None:
        self._open = (_core.scope_depth(), _core.record_floor())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._open == other._open

    def __hash__(self) -> int:
        return hash(self._open)


def get_opaque_trace_state(convention: str | None = None) -> OpaqueTraceState:
    return OpaqueTraceState()


def trace_state_clean() -> bool:
    """Whether no transform is open."""
    return not _core.any_open_scope()


def jaxpr_as_fn(closed: Any) -> Any:
    return lambda *args: types64.result(closed.evaluate(closed.consts, *map(types64.argument, args)))


class DebugInfo:
    """What messages say of a function, which Lamina reads off the function itself."""

    def __init__(self, traced_for: str, fun: Any, *others: Any) -> None:
        self.traced_for, self.func_src_info = traced_for, getattr(fun, "__qualname__", str(fun))


class Marker:
    """A value without content: equal to any other of its class, and a container of nothing."""

    def __init_subclass__(cls) -> None:
        lm.tree_util.register_pytree_node(cls, lambda _: ((), None), lambda *_: cls())

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return type(self).__name__ + "()"


class Token(Marker):
    """Stands for an order of effects, which Lamina keeps without it."""


def create_token(_: Any = None) -> Token:
    return Token()


def subjaxprs(jaxpr: _traces.Trace) -> Iterator[_traces.Trace]:
    """The traces that its equations have as parameters, not those inside of these."""
    for e in jaxpr.eqns:
        for part in e.params.values():
            yield from (
                x for x in (part if isinstance(part, tuple) else (part,)) if isinstance(x, _traces.Trace)
            )


def check_jaxpr(jaxpr: _traces.Trace) -> None:
    """TypeError where an equation or the result of a trace, or of one inside of it, reads what nothing bound before."""
    known = {id(v) for v in (*jaxpr.constvars, *jaxpr.invars)}
    for inner in subjaxprs(jaxpr):
        check_jaxpr(inner)

    def read(values: Any, what: str) -> None:
        for v in values:
            if not isinstance(v, _traces.Literal) and id(v) not in known:
                raise TypeError(f"{what} reads {v}, which nothing has bound")

    for e in jaxpr.eqns:
        read(e.invars, str(e.primitive))
        known.update(map(id, e.outvars))
    read(jaxpr.outvars, "the result")


CORE: dict[str, Any] = {
    "check_jaxpr": check_jaxpr,
    "subjaxprs": subjaxprs,
    "Token": Token,
    "pytype_aval_mappings": {np.ndarray: typeof},
    "ShapedArray": ShapedArray,
    "AbstractValue": AbstractValue,
    "DebugInfo": DebugInfo,
    "get_aval": typeof,
    "jaxpr_as_fn": jaxpr_as_fn,
    "mapped_aval": mapped_aval,
    "unmapped_aval": unmapped_aval,
    "valid_jaxtype": valid_jaxtype,
    "get_opaque_trace_state": get_opaque_trace_state,
    "Literal": _traces.Literal,
    "Var": _traces.Var,
    "Atom": _traces.Var | _traces.Literal,
    "JaxprEqn": _traces.Equation,
}


class _Differentiated(type):
    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor) and _core.differentiated(x)


class JVPTracer(metaclass=_Differentiated):
    """Arrays that a derivative is open of."""


class CurrentTrace:
    """What interprets operations now: one and the same to whoever compares, of derivatives inside each other too."""

    def __init__(self) -> None:
        self.main = self


CURRENT_TRACE = CurrentTrace()
