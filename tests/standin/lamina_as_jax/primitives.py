"""Operations that users define: Primitive, its rules, and ``jax.interpreters`` that keep them.

A primitive that is bound under a transform is a call of its lowering (or its implementation), with a rule of Lamina's
(`_core.CustomRule`) made of what is registered for its derivative, its transpose and its lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import lamina as lm
from lamina import _core
from lamina._core import Tensor
from lamina._tensor import to_tensor

from lamina_as_jax import types64
from lamina_as_jax.avals import FLOAT0, JVPTracer, typeof

Rules = dict[Any, Callable[..., Any]]
primitive_jvps: Rules = {}
primitive_transposes: Rules = {}
primitive_batchers: Rules = {}
axis_primitive_batchers: Rules = {}
_lowerings: dict[Any, Any] = {}
not_mapped = None


# --- zeros and unknown operands, as rules see them ---


class Zero:
    """A derivative that is zero, by its type alone."""

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    shape = property(lambda self: self.aval.shape)
    dtype = property(lambda self: self.aval.dtype)

    @staticmethod
    def from_primal_value(x: Any) -> Zero:
        return Zero(typeof(x).to_tangent_aval())

    def __repr__(self) -> str:
        return f"Zero({self.aval})"


lm.tree_util.register_pytree_node(Zero, lambda z: ((), z.aval), lambda aval, _: Zero(aval))


class UndefinedPrimal:
    """The operand that a primitive is linear in, to its transpose rule."""

    def __init__(self, aval: Any) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"UndefinedPrimal({self.aval})"


lm.tree_util.register_pytree_node(
    UndefinedPrimal, lambda z: ((), z.aval), lambda aval, _: UndefinedPrimal(aval)
)


def is_undefined_primal(x: Any) -> bool:
    return type(x) is UndefinedPrimal


def instantiate_zeros(x: Any) -> Any:
    if type(x) is not Zero:
        return x
    from lamina_as_jax.adapters import zeros

    return zeros(x.aval.shape, x.aval.dtype)


def add_tangents(x: Any, y: Any) -> Any:
    return y if type(x) is Zero else x if type(y) is Zero else x + y


# --- primitives ---


class Primitive:
    """An operation by name. `bind` runs its implementation, or records it where a transform is open."""

    multiple_results = False
    call_primitive = map_primitive = False

    def __init__(self, name: str) -> None:
        self.name = name
        self._implementation: Callable[..., Any] | None = None
        self.abstract_eval: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return self.name

    def def_impl(self, impl: Callable[..., Any]) -> Callable[..., Any]:
        self._implementation = impl
        return impl

    def impl(self, *args: Any, **params: Any) -> Any:
        if self._implementation is None:
            raise NotImplementedError(f"Evaluation rule for '{self.name}' not implemented: use def_impl")
        return self._implementation(*args, **params)

    def def_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        self.abstract_eval = rule
        return rule

    def def_effectful_abstract_eval(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        self.abstract_eval = lambda *args, **params: rule(*args, **params)[0]
        return rule

    def get_bind_params(self, params: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        return [], dict(params)

    def bind(self, *args: Any, **params: Any) -> Any:
        given = [types64.argument(a) for a in args]
        if not _core.any_open_scope():
            return types64.result(self._listed(self.impl(*map(to_tensor, given), **params), True))
        leaves = [to_tensor(a) for a in given]
        self._check_abstract(leaves, params)
        out = types64.result(_core.call_with_rule(self._recorded(params), leaves, self._rule(leaves, params)))
        return out if self.multiple_results else out[0]

    def _check_abstract(self, leaves: Sequence[Tensor], params: dict[str, Any]) -> None:
        """NotImplementedError where nothing says what is recorded, ValueError where no types of results are said."""
        if self.abstract_eval is None:
            if self._implementation is None and self not in _lowerings:
                differentiated = any(map(_core.differentiated, leaves))
                what = "Differentiation rule" if differentiated else "Abstract evaluation"
                raise NotImplementedError(f"{what} for '{self.name}' not implemented")
            return
        found = self.abstract_eval(*map(typeof, leaves), **params)
        if isinstance(found, (tuple, list)) != self.multiple_results:
            raise ValueError(
                f"{self.name}.abstract_eval() method should return a tuple or a list of the results' types where "
                f"multiple_results is set, and one type where it is not: got {found}"
            )

    def _listed(self, out: Any, as_bound: bool = False) -> Any:
        """What an implementation or a rule returned, as a list of arrays."""
        found = [to_tensor(x) for x in (out if self.multiple_results else [out])]
        return found[0] if as_bound and not self.multiple_results else found

    def _recorded(self, params: dict[str, Any]) -> Callable[..., list[Tensor]]:
        lowering = _lowerings.get(self)
        body = lowering.fun if isinstance(lowering, _Lowered) else self._implementation
        return lambda inputs: self._listed((body or self._absent)(*inputs, **params))

    def _absent(self, *inputs: Any, **params: Any) -> Any:
        """Stands for results of a primitive that has only rules: an error once they are computed as they are."""
        found = self.abstract_eval(*map(typeof, inputs), **params)

        def not_there(*_: Any) -> Any:
            raise NotImplementedError(
                f"MLIR translation rule for primitive '{self.name}' not found for platform cpu: it has no implementation"
            )

        return lm.pure_callback(not_there, found, *inputs)

    def _rule(self, leaves: Sequence[Tensor], params: dict[str, Any]) -> _core.CustomRule:
        avals = [typeof(x) for x in leaves]

        def push(x: list[Tensor], t: list[Any]) -> tuple[list[Tensor], list[Any]]:
            rule = primitive_jvps.get(self)
            if rule is None:
                raise NotImplementedError(f"the primitive {self.name} has no rule for its derivative")
            tangents = [Zero.from_primal_value(p) if d is None else d for p, d in zip(x, t)]
            primals_out, tangents_out = rule(x, tangents, **params)
            results = self._listed(primals_out)
            dots = tangents_out if self.multiple_results else [tangents_out]
            return results, [_fitted(d, p) for p, d in zip(results, dots, strict=True)]

        def pull(x: list[Any], cotangents: list[Any]) -> list[Any]:
            if self not in primitive_transposes:
                raise NotImplementedError(
                    f"Transpose rule (for reverse-mode differentiation) for '{self.name}' not implemented"
                )
            given = [UndefinedPrimal(a) if v is None else v for v, a in zip(x, avals)]
            out = primitive_transposes[self](
                cotangents if self.multiple_results else cotangents[0], *given, **params
            )
            if out is Zero:
                return [None] * len(given)
            return [None if c is None else _fitted(c, a) for c, a in zip(out, avals, strict=True)]

        def batch(size: int, marks: list[bool], x: list[Tensor]) -> tuple[list[Tensor], list[bool]]:
            axes = tuple(0 if m else not_mapped for m in marks)
            if self in axis_primitive_batchers:
                out, lanes = axis_primitive_batchers[self](size, None, None, x, axes, **params)
            elif self in primitive_batchers:
                out, lanes = primitive_batchers[self](x, axes, **params)
            else:
                raise NotImplementedError(f"the primitive {self.name} has no rule for vmap")
            found, lanes = self._listed(out), lanes if self.multiple_results else [lanes]
            return [lm.numpy.moveaxis(v, d, 0) if d else v for v, d in zip(found, lanes, strict=True)], [
                d is not not_mapped for d in lanes
            ]

        return _core.CustomRule(True, len(leaves), push, pull, batch, True)


def _fitted(t: Any, like: Any) -> Any:
    """A tangent as an array of the type of its value; None where it is zero. TypeError for another shape."""
    if type(t) is Zero or t is None or getattr(t, "dtype", None) == FLOAT0:
        return None
    if typeof(like).to_tangent_aval().dtype == FLOAT0:
        return None
    t = to_tensor(types64.argument(t))
    if t.shape != tuple(like.shape):
        raise TypeError(
            f"a rule gave a derivative of shape {t.shape} for a value of shape {tuple(like.shape)}"
        )
    return t if t.dtype == like.dtype.name else t.astype(like.dtype.name)


# --- the rules of interpreters ---


def deflinear(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """A primitive that is linear in all operands; `transpose_rule` is of the cotangent."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        out = primitive.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return out, Zero.from_primal_value(out)
        return out, primitive.bind(*map(instantiate_zeros, tangents), **params)

    primitive_jvps[primitive] = jvp
    primitive_transposes[primitive] = lambda ct, *args, **params: transpose_rule(ct, **params)


def deflinear2(primitive: Primitive, transpose_rule: Callable[..., Any]) -> None:
    """As `deflinear`; the rule gets the operands too."""
    deflinear(primitive, lambda ct, **params: None)
    primitive_transposes[primitive] = transpose_rule


def defjvp(primitive: Primitive, *jvps: Callable[..., Any] | None) -> None:
    """The derivative by each operand: ``jvp(tangent, *primals)``; None where there is none."""

    def jvp(primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        out = primitive.bind(*primals, **params)
        total: Any = Zero.from_primal_value(out)
        for rule, t in zip(jvps, tangents, strict=True):
            if rule is not None and type(t) is not Zero:
                total = add_tangents(total, rule(t, *primals, **params))
        return out, total

    primitive_jvps[primitive] = jvp


def defvectorized(primitive: Primitive) -> None:
    """A primitive of one operand whose lanes are elements of it."""
    primitive_batchers[primitive] = lambda x, axes, **params: (primitive.bind(*x, **params), axes[0])


def defbroadcasting(primitive: Primitive) -> None:
    """An elementwise primitive: operands without lanes are repeated."""

    def rule(x: Any, axes: Any, **params: Any) -> tuple[Any, int]:
        size = next(v.shape[a] for v, a in zip(x, axes) if a is not None)
        full = [
            lm.numpy.broadcast_to(v, (size, *v.shape)) if a is None else lm.numpy.moveaxis(v, a, 0)
            for v, a in zip(x, axes)
        ]
        return primitive.bind(*full, **params), 0

    primitive_batchers[primitive] = rule


def moveaxis(x: Any, source: int | None, destination: int) -> Any:
    return x if source is None else lm.numpy.moveaxis(x, source, destination)


def bdim_at_front(x: Any, axis: int | None, size: int) -> Any:
    return lm.numpy.broadcast_to(x, (size, *x.shape)) if axis is None else lm.numpy.moveaxis(x, axis, 0)


class _Lowered:
    """A lowering by a function that is traced."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun


def lower_fun(fun: Callable[..., Any], multiple_results: bool = True) -> _Lowered:
    return _Lowered(fun)


def register_lowering(primitive: Any, rule: Any = None, platform: str | None = None, **options: Any) -> Any:
    """What a recorded primitive computes. One that is no `lower_fun` makes MLIR, of which there is none here: the
    implementation is recorded in its place.
    """
    if rule is None:
        return lambda r: register_lowering(primitive, r, platform)
    if platform in (None, "cpu"):
        _lowerings[primitive] = rule
    return rule


AD: dict[str, Any] = {
    "primitive_jvps": primitive_jvps,
    "primitive_transposes": primitive_transposes,
    "Zero": Zero,
    "UndefinedPrimal": UndefinedPrimal,
    "is_undefined_primal": is_undefined_primal,
    "instantiate_zeros": instantiate_zeros,
    "add_tangents": add_tangents,
    "deflinear": deflinear,
    "deflinear2": deflinear2,
    "defjvp": defjvp,
    "JVPTracer": JVPTracer,
}
BATCHING: dict[str, Any] = {
    "primitive_batchers": primitive_batchers,
    "axis_primitive_batchers": axis_primitive_batchers,
    "not_mapped": not_mapped,
    "NotMapped": type(None),
    "defvectorized": defvectorized,
    "defbroadcasting": defbroadcasting,
    "moveaxis": moveaxis,
    "bdim_at_front": bdim_at_front,
}


class _OfMlir:
    """What describes a lowering to MLIR, of which there is none."""


MLIR: dict[str, Any] = {
    "register_lowering": register_lowering,
    "lower_fun": lower_fun,
    **{n: _OfMlir for n in ("LoweringRuleContext", "LoweringParameters", "ModuleContext", "LoweringRule")},
}
