"""What the special functions share: conversion, derivatives by rule, series."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from lamina import _core
from lamina._core import Tensor
from lamina._custom import _Custom, _Expected
from lamina._indexing import scalar
from lamina._tensor import astype, to_tensor
from lamina.numpy._common import broadcast_all, compare, full_of, promote_inexact, select
from lamina.numpy._common import ew as elementwise
from lamina.tree import TreeDef

# Whether what is computed in float64 is rounded to a narrower type in the end.
_is_short: contextvars.ContextVar[bool] = contextvars.ContextVar("is_short", default=False)
# Operations with a form for such results (hlo/ops.def).
_WITH_SHORT_FORM = frozenset(
    [
        "digamma",
        "erfc",
        "exponential",
        "exponential_minus_one",
        "lgamma",
        "log",
        "log_plus_one",
        "logistic",
        "power",
    ]
)


def is_short() -> bool:
    """Whether the function that is computed is asked for in a type narrower than float64."""
    return _is_short.get()


# Steps of a series or fraction between two looks at what they still change.
TOGETHER = 8


def least_change(eps: float) -> float:
    """The part of a result below which a step of a series changes nothing: `eps`, or what short results leave of it."""
    return 2.0**-44 if is_short() else eps


class short_results:
    """In its block, operations are as exact as results of narrower types need them if `short`."""

    def __init__(self, short: bool) -> None:
        self._short = short

    def __enter__(self) -> None:
        self._token = _is_short.set(self._short)

    def __exit__(self, *error: object) -> None:
        _is_short.reset(self._token)


def ew(name: str, *operands: Any) -> Tensor:
    """An elementwise op with broadcasting and promotion, as exact as the function's result needs it."""
    if name in _WITH_SHORT_FORM and _is_short.get():
        return elementwise(name, *operands, mantissa_bits=23)
    return elementwise(name, *operands)


class Differentiable(_Custom):
    """An elementwise function of float64 arrays of one shape, with its partial derivatives.

    A partial is a function of the arguments that gives an array; None where there is none, which raises
    NotImplementedError when it is needed. Being functions of the same kind, they are differentiated in turn.
    """

    def __init__(self, fun: Callable[..., Tensor], partials: Sequence[Callable[..., Any] | None]) -> None:
        super().__init__(fun)
        self.partials = partials
        self._rules_by_width: dict[bool, dict[Any, Any]] = {False: {}, True: {}}

    def _needs_rule(self) -> None:
        pass

    def _rule_for(
        self, leaves: list[Tensor], treedef: TreeDef, fixed: dict[int, Any]
    ) -> tuple[_core.CustomRule, _Expected]:
        self._rules = self._rules_by_width[is_short()]
        return super()._rule_for(leaves, treedef, fixed)

    def _rule(
        self, leaves: list[Tensor], treedef: TreeDef, fixed: dict[int, Any], expected: _Expected
    ) -> _core.CustomRule:
        short = is_short()

        def rule(x: list[Tensor], tangents: list[Any]) -> tuple[list[Tensor], list[Any]]:
            total = None
            for i, (partial, t) in enumerate(zip(self.partials, tangents)):
                if t is None:
                    continue
                if partial is None:
                    raise NotImplementedError(
                        f"{self.fun.__name__.strip('_')} has no derivative by argument {i}; "
                        "wrap that argument in lamina.lax.stop_gradient if none is meant"
                    )
                term = partial(*x) * t
                total = term if total is None else total + term
            with short_results(short):
                return [self(*x)], [total]

        return _core.CustomRule(True, len(leaves), rule, None)


def differentiable(*partials: Callable[..., Any] | None) -> Callable[[Callable[..., Tensor]], Differentiable]:
    """Decorator: the function with these partial derivatives, one per argument."""
    return lambda fun: Differentiable(fun, partials)


def in_float64(f: Callable[..., Any], complex_too: bool = False) -> Callable[..., Any]:
    """Decorator: `f` on arguments broadcast and converted to float64; the result in their common float type.

    So results of narrower types are rounded once. Arguments, by place or name, are numbers or arrays of real numbers;
    TypeError for complex ones, or complex128 instead of float64 if `complex_too`. Other keyword arguments pass as they
    are.
    """
    names = f.__code__.co_varnames[: f.__code__.co_argcount]

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        for name in names[len(args) :] if kwargs else ():
            if name not in kwargs:
                break
            args = (*args, kwargs.pop(name))
        if not args:
            return f(**kwargs)  # a TypeError that names what is missing
        ts = promote_inexact(*args)
        dtype, weak = ts[0].dtype.name, all(t.weak_type for t in ts)
        if ts[0].dtype.kind == "c" and not complex_too:
            raise TypeError(f"{f.__name__} is not defined for {dtype} elements")
        widest = "complex128" if ts[0].dtype.kind == "c" else "float64"
        exact = dtype == "float64"  # numbers keep their bits beside float64
        wide = [
            scalar(float(a), "float64") if exact and type(a) in (int, float) else astype(t, widest)
            for a, t in zip(args, ts)
        ]
        with short_results(is_short() or not exact):
            out = f(*broadcast_all(*wide), **kwargs)
        if isinstance(out, tuple):
            return tuple(_core.set_weak(astype(o, dtype), weak) for o in out)
        return _core.set_weak(astype(out, dtype), weak)

    return wrapped


def in_own_type(f: Callable[[Tensor], Tensor]) -> Callable[[Any], Tensor]:
    """Decorator: `f`, an operation that is as exact in every float type, on the argument in its own float type.

    The argument is a number or an array of real numbers; TypeError for complex ones.
    """

    @functools.wraps(f)
    def wrapped(x: Any) -> Tensor:
        (t,) = promote_inexact(x)
        if t.dtype.kind == "c":
            raise TypeError(f"{f.__name__} is not defined for {t.dtype.name} elements")
        return f(t)

    return wrapped


def of_order(f: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Any, Any], Tensor]:
    """Decorator: `f(n, x)` with n as int32, -1 where it is no natural number, and x as `in_float64` has it.

    There is no derivative by n; NotImplementedError where n is a float array that one is taken by.
    """

    @functools.wraps(f)
    def wrapped(n: Any, x: Any) -> Any:
        order, (x,) = to_tensor(n), promote_inexact(x)
        if x.dtype.kind == "c" or order.dtype.kind == "c":
            raise TypeError(f"{f.__name__} is not defined for complex elements")
        if order.dtype.kind in "bu":  # which -1 does not fit
            order = astype(ew("minimum", order, 2**31 - 1) if order.dtype.itemsize > 2 else order, "int32")
        if order.dtype.kind == "f":
            if _core.differentiated(order):
                raise NotImplementedError(
                    f"{f.__name__} has no derivative by its order, a float array here; "
                    "make it integers (astype) or wrap it in lamina.lax.stop_gradient"
                )
            order = select(compare(order, ew("floor", order), "EQ"), order, -1.0)
        order = astype(ew("maximum", order, -1), "int32")
        with short_results(is_short() or x.dtype.name != "float64"):
            out = f(*broadcast_all(order, astype(x, "float64")))
        return _core.set_weak(astype(out, x.dtype), x.weak_type)

    return wrapped


def number(value: float, like: Tensor) -> Tensor:
    """`value` in the shape of `like`."""
    return full_of(float(value), "float64", like.shape)


def safe(x: Tensor, ok: Tensor, instead: float) -> Tensor:
    """x where `ok`, else a harmless value, for branches that are not taken."""
    return select(ok, x, full_of(float(instead), x.dtype.name, x.shape))


def polynomial(x: Tensor, coefficients: Sequence[float]) -> Tensor:
    """The polynomial with these coefficients, the highest first, by Horner's rule."""
    total = number(coefficients[0], x)
    for c in coefficients[1:]:
        total = total * x + c
    return total


def chebyshev(t: Tensor, coefficients: Sequence[float]) -> Tensor:
    """The sum of Chebyshev polynomials of t in [-1, 1], by Clenshaw's recurrence."""
    doubled, one, two = t * 2.0, number(0, t), number(0, t)
    for c in reversed(coefficients[1:]):
        one, two = doubled * one - two + c, one
    return t * one - two + coefficients[0]


@functools.cache
def in_powers(coefficients: tuple[float, ...], error: float) -> list[float]:
    """The sum of Chebyshev polynomials as powers, the highest first, without the last ones that `error` is more than."""
    rest, n = 0.0, len(coefficients)
    while rest + abs(coefficients[n - 1]) < error:
        n -= 1
        rest += abs(coefficients[n])
    powers, before, here = [Fraction(0)] * n, [Fraction(1)], [Fraction(0), Fraction(1)]
    for c in coefficients[:n]:
        for k, v in enumerate(before):
            powers[k] += Fraction(c) * v
        following = [Fraction(0), *(2 * v for v in here)]
        for k, v in enumerate(before):
            following[k] -= v
        before, here = here, following
    return [float(v) for v in reversed(powers)]
