"""What JAX refuses and Lamina takes or does not look at: derivatives of another type, options of XLA's compiler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import lamina as lm
import numpy as np
from lamina._core import Tensor

from lamina_as_jax import types64
from lamina_as_jax.avals import FLOAT0


def _dtype(x: Any) -> np.dtype[Any]:
    found = getattr(x, "dtype", None)
    if found == FLOAT0:
        return FLOAT0
    return types64.canonical(type(x) if found is None else np.dtype(getattr(found, "name", found)))


def _of_derivative(dtype: Any) -> np.dtype[Any]:
    """The element type of tangents and cotangents of values of one."""
    dtype = types64.canonical(getattr(dtype, "name", dtype))
    return dtype if lm.numpy.issubdtype(dtype, np.inexact) else FLOAT0


def _known(x: Any) -> bool:
    """Whether it is a plain array or number, and no reference, key or container of the user's own."""
    return isinstance(x, (Tensor, np.ndarray, np.generic, int, float, complex))


def misfits(derivatives: Any, types: Iterable[tuple[Any, Any]], integers: bool = False) -> bool:
    """Whether a tangent or cotangent is of another type than values of these shapes and types have.

    Those of integers, which nothing depends on, are looked at only if asked for.
    """
    return any(
        _known(d)
        and (integers or _of_derivative(dtype) != FLOAT0)
        and (_dtype(d) != _of_derivative(dtype) or np.shape(d) != tuple(shape))
        for d, (shape, dtype) in zip(lm.tree.tree_leaves(derivatives), types)
    )


def check_tangents(primals: Any, tangents: Any) -> None:
    """TypeError for tangents of another container or element type than the primals, ValueError for another shape."""
    if not (isinstance(primals, (tuple, list)) and isinstance(tangents, (tuple, list))):
        raise TypeError(
            "primal and tangent arguments to jax.jvp must be tuples or lists; found "
            f"{type(primals).__name__} and {type(tangents).__name__}."
        )
    mine, its = map(lm.tree_util.tree_structure, (primals, tangents))
    if mine != its:
        raise TypeError(
            f"primal and tangent arguments to jax.jvp must have the same tree structure, not {mine} and {its}"
        )
    pairs = [
        (p, t) for p, t in zip(*map(lm.tree.tree_leaves, (primals, tangents))) if _known(p) and _known(t)
    ]
    for p, t in pairs:
        if _dtype(t) != _of_derivative(_dtype(p)):
            raise TypeError(
                f"primal and tangent arguments to jax.jvp do not match. Primals of type {_dtype(p)} have tangents of "
                f"type {_of_derivative(_dtype(p))}, not {_dtype(t)}."
            )
        if np.shape(p) != np.shape(t):
            raise ValueError(
                "jvp called with different primal and tangent shapes; "
                f"Got primal shape {np.shape(p)} and tangent shape as {np.shape(t)}"
            )


# Of XLA's options those that are either of two values; others have any.
_SWITCHES = ("xla_embed_ir_in_executable", "xla_dump_hlo_as_proto", "xla_dump_hlo_as_text")
_OPTIONS = ("exec_time_optimization_effort", "memory_fitting_effort", "optimization_level")


def check_compiler_options(options: dict[str, Any] | None) -> None:
    """RuntimeError for a name that is none of XLA's options, or a switch that is neither on nor off."""
    for name, value in (options or {}).items():
        if not name.startswith("xla_") and name not in _OPTIONS:
            raise RuntimeError(f"No such compile option: '{name}'")
        if name in _SWITCHES and str(value).lower() not in ("true", "false", "0", "1"):
            raise RuntimeError(f"While setting option {name}, '{value}' is not a valid bool value.")


def check_donated(args: Sequence[Any], places: Iterable[int]) -> None:
    """RuntimeError for an array that is given up and used by another argument of the same call."""
    leaves = [(i, x) for i, a in enumerate(args) for x in lm.tree.tree_leaves(a) if type(x) is Tensor]
    for place in places:
        given_up = {id(x) for i, x in leaves if i == place}
        if any(id(x) in given_up for i, x in leaves if i != place):
            raise RuntimeError("Attempt to donate a buffer that another argument of the same call uses")
