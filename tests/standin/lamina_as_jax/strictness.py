"""What JAX refuses and Lamina takes or does not look at: derivatives of another type, options of XLA's compiler."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import lamina as lm
import numpy as np
from lamina import _core
from lamina._core import Tensor

from lamina_as_jax import messages, settings, types64
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


_KINDS = (Tensor, np.ndarray, np.generic, int, float, complex)


def _known(x: Any) -> bool:
    """Whether it is a plain array or number, and no reference, key or container of the user's own."""
    return isinstance(x, _KINDS)


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


def check_execution() -> None:
    """RuntimeError where a program would run and the option no_execution is on."""
    if settings.asked("jax_no_execution") and not _core.any_open_scope():
        raise RuntimeError(
            "attempting to run a computation under no_execution: trace or lower it (jax.jit(f).lower(...)) instead"
        )


def _same_types(name: str) -> Callable[..., Any]:
    """An operation of `jax.lax` on operands of one element type, numbers included. TypeError where they differ."""
    inner = types64.wrapped(getattr(lm.lax, name))
    told = name.removeprefix("bitwise_")

    @functools.wraps(inner)
    def call(*operands: Any, **options: Any) -> Any:
        dtypes = _types_apart(operands)
        if dtypes:
            raise TypeError(
                f"lax.{told} requires arguments to have the same dtypes, got {', '.join(map(str, dtypes))}. (Tip: "
                f"jnp.{name} is a similar function that does automatic type promotion on inputs)."
            )
        return inner(*operands, **options)

    return call


def check_types(name: str, *operands: Any) -> None:
    """TypeError for operands of several element types."""
    if dtypes := _types_apart(operands):
        raise TypeError(
            f"lax.{name} requires arguments to have the same dtypes, got {', '.join(map(str, dtypes))}."
        )


def _types_apart(operands: Iterable[Any]) -> list[np.dtype[Any]]:
    """The element types of operands, unless they are one."""
    # Not what stands for a number while it is watched what a function reads.
    known = [v for v in operands if _known(v) and issubclass(type(v), _KINDS)]
    dtypes = [_dtype(v) for v in known if getattr(v, "dtype", FLOAT0).kind in "biufcV"]
    return dtypes if len(set(dtypes)) > 1 and FLOAT0 not in dtypes else []


@functools.wraps(lm.lax.pad)
def pad(operand: Any, padding_value: Any, padding_config: Any) -> Any:
    """TypeError for a value of another type."""
    if dtypes := _types_apart((operand, padding_value)):
        raise TypeError(f"pad operand and padding_value must be same dtype: got {dtypes[0]} and {dtypes[1]}.")
    return types64.wrapped(lm.lax.pad)(operand, padding_value, padding_config)


@functools.wraps(lm.lax.concatenate)
def concatenate(operands: Any, dimension: int) -> Any:
    """TypeError for a dimension counted from the last."""
    if dimension < 0:
        shapes = ", ".join(str(np.shape(x)) for x in operands)
        raise TypeError(f"concatenate dimension out of bounds: dimension {dimension} for shapes {shapes}.")
    check_types("concatenate", *operands)
    return types64.wrapped(lm.lax.concatenate)(operands, dimension)


@functools.wraps(lm.lax.rev)
def rev(operand: Any, dimensions: Any) -> Any:
    """TypeError for dimensions that there are not, or that are named twice."""
    rank = len(np.shape(operand))
    if len(set(dimensions)) != len(dimensions):
        raise TypeError(f"rev dimensions must be unique, got {tuple(dimensions)}.")
    if any(d >= rank for d in dimensions):
        raise TypeError(
            f"rev dimensions must all be less than operand ndim, got dimensions {tuple(dimensions)} for operand ndim "
            f"{rank}."
        )
    return types64.wrapped(lm.lax.rev)(operand, dimensions)


@functools.wraps(lm.lax.select_n)
def select_n(which: Any, *cases: Any) -> Any:
    """TypeError for a choice that is no number of a case, and for cases of several types."""
    if _known(which) and _dtype(which).kind not in "biu":
        raise TypeError(f"select `which` must be boolean or integer type, got {_dtype(which)}.")
    check_types("select", *cases)
    return types64.wrapped(lm.lax.select_n)(which, *cases)


@functools.wraps(lm.lax.select)
def select(pred: Any, on_true: Any, on_false: Any) -> Any:
    check_types("select", on_false, on_true)
    return types64.wrapped(lm.lax.select)(pred, on_true, on_false)


# From what operations start that leave an element as it is: in whatever type.
_IDENTITIES = {"add": 0, "mul": 1, "bitwise_or": 0, "bitwise_xor": 0}


def _with_starts(name: str) -> Callable[..., Any]:
    """Combines arrays from initial values. TypeError for a value of another type."""
    inner = types64.wrapped(getattr(lm.lax, name))
    signature = inspect.signature(inner)

    @functools.wraps(inner)
    def call(*args: Any, **options: Any) -> Any:
        operands, starts, combine, *_ = signature.bind(*args, **options).arguments.values()
        identity = _IDENTITIES.get(getattr(combine, "__name__", "")) if name == "reduce" else None
        for x, start in zip(*map(lm.tree.tree_leaves, (operands, starts))):
            if np.ndim(start) or (type(start) is not Tensor and start == identity):
                continue
            plain = isinstance(start, (int, float, complex)) and not isinstance(start, np.generic)
            fits = plain and _dtype(x).itemsize >= 4 and lm.numpy.result_type(x, start) == _dtype(x)
            if _types_apart((x, start)) and not fits:
                raise TypeError(
                    f"{name} operand dtypes should match corresponding initial value dtypes: {name} got inconsistent "
                    f"dtypes for operands and init_values: got operand dtypes [{_dtype(x)!r}] and init_value dtypes "
                    f"[{_dtype(start)!r}]."
                )
        return inner(*args, **options)

    return call


def _at_indices(name: str, place: int) -> Callable[..., Any]:
    """A slice at indices, which are the argument at a place. TypeError for indices of several types."""
    inner = types64.wrapped(getattr(lm.lax, name))

    @functools.wraps(inner)
    def call(*args: Any, **options: Any) -> Any:
        indices = args[place] if len(args) > place else options.get("start_indices", ())
        if isinstance(indices, (list, tuple)):
            dtypes = [d for d in _types_apart(indices) if d.kind in "iu"]
            numbers = any(type(i) is int for i in indices)  # whose type yields
            if dtypes and not numbers:
                raise TypeError(
                    f"index arguments to {name} must be integers of the same type, got: {', '.join(map(str, dtypes))}"
                )
        check_types(name, *args[:place])
        return inner(*args, **options)

    return call


@functools.wraps(lm.lax.dot)
def dot(lhs: Any, rhs: Any, **options: Any) -> Any:
    """What else it takes, it takes by name."""
    return asking(types64.wrapped(lm.lax.dot))(lhs, rhs, **options)


@functools.wraps(lm.lax.composite)
def composite(decomposition: Any, name: str, version: int = 0) -> Callable[..., Any]:
    """ValueError for arguments that a derivative is open of."""
    inner = types64.wrapped(lm.lax.composite(decomposition, name, version))

    @functools.wraps(decomposition)
    def call(*args: Any, **attributes: Any) -> Any:
        if any(type(x) is Tensor and _core.differentiated(x) for x in lm.tree.tree_leaves(args)):
            raise ValueError(
                "JVP rule for composite not implemented. You can use `jax.custom_jvp` to add support. See "
                "https://docs.jax.dev/en/latest/_autosummary/jax.custom_jvp.html"
            )
        return inner(*args, **attributes)

    return call


def _running(name: str) -> Callable[..., Any]:
    """A running sum or the like: of numbers, along an axis counted from the first."""
    inner = types64.wrapped(getattr(lm.lax, name))

    @functools.wraps(inner)
    def call(operand: Any, axis: int = 0, reverse: bool = False) -> Any:
        if axis < 0:
            raise ValueError(f"axis {axis}: XLA operations do not allow negative axes")
        if _known(operand) and _dtype(operand).kind == "b":
            raise TypeError(f"{name} does not accept dtype bool. Accepted dtypes are subtypes of number.")
        return inner(operand, axis, reverse)

    return call


def _largest(name: str, refused: str, error: str) -> Callable[..., Any]:
    """The largest or least elements and their places, in a list."""
    inner = types64.wrapped(getattr(lm.lax, name))

    @functools.wraps(inner)
    def call(operand: Any, *args: Any, **options: Any) -> list[Any]:
        if _known(operand) and _dtype(operand).kind in refused:
            raise ValueError(error)
        return list(inner(operand, *args, **options))

    return call


@functools.wraps(lm.lax.reduce_sum)
def reduce_sum(operand: Any, axes: Any, **options: Any) -> Any:
    """ValueError for sums of 16-bit floats where the option allow_f16_reductions is off."""
    dtype, shape = _dtype(operand), np.shape(operand)
    if (
        not settings.asked("jax_allow_f16_reductions")
        and dtype.name in ("float16", "bfloat16")
        and any(shape[a] > 1 for a in axes)
    ):
        raise ValueError(
            f"reduce_sum of {dtype.name} is not allowed (allow_f16_reductions is off): convert to float32 first"
        )
    return types64.wrapped(lm.lax.reduce_sum)(operand, axes, **options)


def asking(f: Callable[..., Any]) -> Callable[..., Any]:
    """A product, which asks the default precision where there is one."""
    by_place = [n for n, p in inspect.signature(f).parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    place = by_place.index("precision") if "precision" in by_place else sys.maxsize

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        default = settings.default_precision()
        if default is not None and len(args) <= place and kwargs.get("precision") is None:
            kwargs["precision"] = default
        return f(*args, **kwargs)

    return call


def products(module: Any) -> dict[str, Callable[..., Any]]:
    """The functions of a module of Lamina's that take a precision."""
    found = {n: getattr(module, n) for n in getattr(module, "__all__", dir(module))}
    return {
        n: asking(types64.wrapped(f))
        for n, f in found.items()
        if callable(f) and not isinstance(f, type) and "precision" in _parameters(f)
    }


def _parameters(f: Any) -> Any:
    try:
        return inspect.signature(f).parameters
    except (ValueError, TypeError):
        return ()


def operators() -> None:
    """The operator @ is a product as well."""
    plain, matmul = Tensor.__matmul__, asking(types64.wrapped(lm.numpy.matmul))

    def product(x: Any, y: Any) -> Any:
        return plain(x, y) if settings.default_precision() is None else matmul(x, y)

    Tensor.__matmul__ = messages.telling(product)


_OF_ONE_TYPE = (
    "add", "sub", "mul", "div", "rem", "max", "min", "eq", "ne", "ge", "gt", "le", "lt", "bitwise_and", "bitwise_or",
    "bitwise_xor", "shift_left", "shift_right_logical", "shift_right_arithmetic", "atan2", "nextafter", "complex",
    "igamma", "igammac", "zeta", "polygamma",
)  # fmt: skip
LAX: dict[str, Any] = {
    **{n: _same_types(n) for n in _OF_ONE_TYPE},
    "reduce_sum": reduce_sum,
    "clamp": _same_types("clamp"),
    "pad": pad,
    "concatenate": concatenate,
    "dynamic_slice": _at_indices("dynamic_slice", 1),
    "dynamic_update_slice": _at_indices("dynamic_update_slice", 2),
    "dot": dot,
    "rev": rev,
    "select": select,
    "select_n": select_n,
    "reduce": _with_starts("reduce"),
    "reduce_window": _with_starts("reduce_window"),
    "composite": composite,
    **{n: _running(n) for n in ("cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")},
    "top_k": _largest("top_k", "c", "top_k is not compatible with complex inputs."),
    **{n: _largest(n, "biuc", "operand must be a floating type") for n in ("approx_max_k", "approx_min_k")},
}


def check_donated(args: Sequence[Any], places: Iterable[int]) -> None:
    """RuntimeError for an array that is given up and used by another argument of the same call."""
    leaves = [(i, x) for i, a in enumerate(args) for x in lm.tree.tree_leaves(a) if type(x) is Tensor]
    for place in places:
        given_up = {id(x) for i, x in leaves if i == place}
        if any(id(x) in given_up for i, x in leaves if i != place):
            raise RuntimeError("Attempt to donate a buffer that another argument of the same call uses")
