"""What rules with ``symbolic_zeros=True`` are given: zeros without an array, primals that say what is differentiated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina import _missing
from lamina._core import Tensor
from lamina._tensor import to_tensor


class SymbolicZero:
    """A derivative that is zero, as its shape and element type alone."""

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Sequence[int], dtype: Any) -> None:
        self.shape, self.dtype = tuple(shape), dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return self.instantiate().size

    def instantiate(self) -> Tensor:
        """The zeros as an array."""
        from lamina import numpy as lnp

        return lnp.zeros(self.shape, self.dtype)

    def __repr__(self) -> str:
        return f"SymbolicZero({self.dtype}[{','.join(map(str, self.shape))}])"


class CustomVJPPrimal:
    """An argument of a forward rule: its value, and whether it is differentiated. One leaf of containers."""

    __slots__ = ("perturbed", "value")

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value, self.perturbed = value, perturbed

    def __repr__(self) -> str:
        return f"CustomVJPPrimal({self.value!r}, perturbed={self.perturbed})"


def zero_from_primal(val: Any, symbolic_zeros: bool = False) -> Any:
    """The zero derivative of a value, of each in a container: an array, or a SymbolicZero."""
    from lamina.tree import tree_map

    def zero(x: Any) -> Any:
        t = to_tensor(x)
        symbolic = SymbolicZero(t.shape, t.dtype)
        return symbolic if symbolic_zeros else symbolic.instantiate()

    return tree_map(zero, val)


def linear_call(
    fun: Callable[[Any, Any], Any],
    fun_transpose: Callable[[Any, Any], Any],
    residual_args: Any,
    linear_args: Any,
) -> Any:
    """``fun(residual_args, linear_args)``, linear in its second argument, with ``fun_transpose`` as its transpose.

    In reverse mode ``fun_transpose(residual_args, cotangent)`` gives the cotangents of `linear_args`; the residuals have
    no derivative. Both functions may be used under every transform.

    >>> halve = lambda x: linear_call(lambda r, x: x / r, lambda r, ct: ct / r, 2.0, x)
    """
    from lamina import lax
    from lamina._transforms import eval_shape
    from lamina.tree import tree_map

    given, kept = tree_map(to_tensor, linear_args), tree_map(to_tensor, residual_args)
    types = eval_shape(fun, kept, given)
    no_result = tree_map(lambda t: SymbolicZero(t.shape, t.dtype).instantiate(), types)
    # A linear system on pairs of what goes in and what comes out: its solution takes the one to the other.
    _, out = lax.custom_linear_solve(
        lambda pair: pair,
        (given, no_result),
        lambda _, pair: (zero_from_primal(pair[0]), fun(kept, pair[0])),
        lambda _, pair: (fun_transpose(kept, pair[1]), zero_from_primal(pair[1])),
    )
    return out


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The values of a container of CustomVJPPrimal."""
    from lamina.tree import tree_map

    return tree_map(lambda p: p.value, tree)


__getattr__ = _missing.attributes("lamina.custom_derivatives")
