"""Names below ``jax._src`` and others that are no public part of JAX, which libraries take all the same.

Each is here because a library does not import without it; those that Lamina cannot honour raise when they are used.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import lamina as lm
import numpy as np
from lamina import _traces, tree
from lamina import numpy as lnp
from lamina.ref import Ref

from lamina_as_jax import adapters, avals, jitted, keys, linear_util, primitives, sharding

# --- traceback_util, source_info_util: Lamina's errors point at the user's line by themselves ---

excluded_paths: list[str] = []


def register_exclusion(path: str) -> None:
    excluded_paths.append(path)


def api_boundary(fun: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **kwargs)

    return call


def include_frame(frame: Any) -> bool:
    """Whether a traceback shows a frame: of no excluded file."""
    return frame.f_code.co_filename not in excluded_paths


class Registry:
    """The types that are containers."""

    def __contains__(self, cls: object) -> bool:
        if cls in (keys.KeyArray, Ref):
            return False
        return cls in (dict, list, tuple, type(None)) or cls in tree._registry


def safe_zip(*lists: Any) -> list[tuple[Any, ...]]:
    """ValueError for lists of other lengths."""
    return list(zip(*lists, strict=True))


def wait_for_tokens() -> None:
    lm.effects_barrier()


def supports_inf(dtype: Any) -> bool:
    return bool(np.isinf(np.asarray(np.inf, np.dtype(dtype)).astype(np.float32)))


class Effect:
    """What a primitive does besides computing its results. Lamina has no such list: effects are ordered calls."""


class Trace:
    """What interprets operations while they are called, in JAX; Lamina records them."""

    def __init__(self, *parts: Any) -> None:
        raise NotImplementedError(
            "Lamina has no interpreters of a user's own: make_jaxpr gives what is recorded"
        )


class DropVar:
    """A result that nothing uses: Lamina's traces have none."""


def concrete_or_error(force: Any, val: Any, context: str = "") -> Any:
    """The value, made by `force` (int, bool, ...). TypeError where it is not known."""
    return val if force is None else force(val)


def _no_interpreter(*args: Any, **options: Any) -> Any:
    Trace()


EXTEND_CORE: dict[str, Any] = {
    "Effect": Effect,
    "Effects": frozenset[Effect],
    "no_effects": frozenset(),
    "Trace": Trace,
    "TraceTag": Trace,
    "DropVar": DropVar,
    "DebugInfo": avals.DebugInfo,
    "array_types": {np.ndarray, lm.Tensor},
    "concrete_or_error": concrete_or_error,
    "take_current_trace": _no_interpreter,
    "set_current_trace": _no_interpreter,
    "find_top_trace": lambda _: avals.CURRENT_TRACE,
}
# Subclasses of NumPy's arrays are arrays in Lamina without that they are said to be.
XLA: dict[str, Any] = {"canonicalize_dtype_handlers": {np.ndarray: np.asarray}}

# --- jax.experimental.hijax ---


def _unsupported(what: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{what} is of JAX's own types of values, which Lamina has not")

    return refuse


class HiPrimitive:
    """An operation on values of a user's own type."""

    multiple_results = False

    def __init__(self, name: str) -> None:
        self.name = name

    def bind(self, *args: Any, **params: Any) -> Any:
        _unsupported(f"the operation {self.name}")()


class MutableHiType:
    """A user's own type of values."""


class _Allowed:
    def add_type(self, effect: type) -> None:
        """Effects are allowed everywhere."""


class aval_method:
    """A function of a value, kept by its type."""

    def __init__(self, fun: Any) -> None:
        self.fun = fun


class aval_property:
    """A property of a value, kept by its type."""

    def __init__(self, fget: Any) -> None:
        self.fget = fget


HIJAX: dict[str, Any] = {
    "AbstractValue": avals.AbstractValue,
    "HiPrimitive": HiPrimitive,
    "MutableHiType": MutableHiType,
    "AvalQDD": _unsupported("AvalQDD"),
    "AvalMutableQDD": MutableHiType,
    "Zero": primitives.Zero,
    "instantiate_zeros": primitives.instantiate_zeros,
    "is_undefined_primal": primitives.is_undefined_primal,
    "aval_method": aval_method,
    "aval_property": aval_property,
    "control_flow_allowed_effects": _Allowed(),
    "register_hitype": lambda value_type, describe: None,
}


class Layout:
    """The order of an array's axes in memory, which is always theirs."""

    def __init__(self, major_to_minor: Any = None, tiling: Any = None) -> None:
        self.major_to_minor, self.tiling = major_to_minor, tiling


class Format:
    """A layout and a sharding: there is one of each."""

    def __init__(self, layout: Any = None, sharding: Any = None) -> None:
        self.layout, self.sharding = layout, sharding


TRACEBACK: dict[str, Any] = {
    "api_boundary": api_boundary,
    "include_frame": include_frame,
    "register_exclusion": register_exclusion,
    "_exclude_paths": excluded_paths,
}


def modules(errors: dict[str, Any], dtypes: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Names of modules, and what is in them."""
    core = {**avals.CORE, "Tracer": adapters.Tracer, "trace_state_clean": avals.trace_state_clean}
    core |= EXTEND_CORE | {"Primitive": primitives.Primitive}
    return {
        "jax._src": {},
        "jax._src.core": core,
        "jax._src.traceback_util": TRACEBACK,
        "jax._src.dtypes": {
            **dtypes,
            "ExtendedDType": keys.ExtendedDType,
            "DType": np.dtype,
            "supports_inf": supports_inf,
            "finfo": lnp.finfo,
            "iinfo": lnp.iinfo,
        },
        "jax._src.dispatch": {"wait_for_tokens": wait_for_tokens},
        "jax._src.tree_util": {"_registry": Registry()},
        "jax._src.state": {},
        "jax._src.state.types": {"AbstractRef": avals.AbstractRef},
        "jax._src.ad_util": {**primitives.AD, "stop_gradient_p": _traces.Primitive("stop_gradient")},
        "jax._src.util": {"safe_map": linear_util.safe_map, "safe_zip": safe_zip},
        "jax._src.lib": {},
        "jax._src.lib.mlir": {},
        "jax._src.lib.mlir.dialects": {},
        "jax._src.lib.mlir.dialects.hlo": {},  # what lowerings make: nothing is in it
        "jax._src.lax": {},
        "jax._src.compiler": {},
        "jax._src.interpreters": {},
        "jax._src.interpreters.ad": {**primitives.AD, "CustomVJPException": TypeError},
        "jax._src.pjit": {
            "jit_p": _traces.Primitive("jit"),
            "pjit": jitted.jit,
            "auto_axes": sharding.auto_axes,
        },
        "jax._src.sharding_impls": {**sharding.NAMES, "canonicalize_sharding": lambda where, name="": where},
        "jax._src.typing": {
            "Array": keys.Array,
            "ArrayLike": Any,
            "DType": np.dtype,
            "DTypeLike": Any,
            "Shape": Any,
            "SupportsDType": Any,
        },
        "jax._src.xla_bridge": {
            "_backends": {},
            "backends_are_initialized": lambda: True,
            "get_backend": lambda platform=None: sharding.DEVICE.client,
        },
        "jax.extend.source_info_util": TRACEBACK,
        "jax.experimental.hijax": HIJAX,
        "jax.experimental.layout": {
            "Format": Format,
            "Layout": Layout,
            "with_layout_constraint": lambda x, layouts: x,
        },
        "jax.experimental.mesh_utils": {"create_device_mesh": sharding.create_device_mesh},
    }
