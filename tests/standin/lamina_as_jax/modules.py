"""Which module of JAX's is made of which of Lamina's."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

import lamina as lm
import numpy as np
from lamina import _traces, flatten_util, lax, nn, random
from lamina import numpy as lnp
from lamina import tree as lamina_tree
from lamina._stages import ArgumentInfo

from lamina_as_jax import (
    accepted,
    adapters,
    array_api,
    avals,
    checking,
    example_libraries,
    exporting,
    extras,
    internals,
    jitted,
    keys,
    linear_util,
    messages,
    numpy_rules,
    primitives,
    pullbacks,
    rnn,
    scalars,
    settings,
    shape_rules,
    sharding,
    stateful,
    strictness,
    surroundings,
    types64,
)

# Called as they are: about types, containers and functions, not about arrays of a type that is to be changed.
_AS_THEY_ARE = frozenset(
    (
        "iinfo",
        "promote_types",
        "can_cast",
        "isdtype",
        "custom_gradient",
        "closure_convert",
        "clear_caches",
        "checkpoint_policies",
        "Partial",
        "ShapeDtypeStruct",
        "named_scope",
        "named_call",
        "block_until_ready",
    )
)
_SCIPY = (
    "cluster", "cluster.vq", "fft", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal",
    "sparse", "sparse.linalg", "spatial", "spatial.transform", "special", "stats",
)  # fmt: skip
_DISTRIBUTIONS = (
    "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma", "gennorm",
    "geom", "gumbel_l", "gumbel_r", "laplace", "logistic", "multinomial", "multivariate_normal", "nbinom",
    "norm", "pareto", "poisson", "t", "truncnorm", "uniform", "vonmises", "wrapcauchy",
)  # fmt: skip
# Operations of JAX's that Lamina records as others: they are told from all that are.
_RECORDED_OTHERWISE = (
    "add_jaxvals", "after_all", "argmax", "argmin", "conj", "copy", "create_token", "cumlogsumexp", "cummax", "cummin",
    "cumprod", "cumsum", "custom_lin", "device_put", "eq_to", "exp2", "igamma", "igamma_grad_a", "igammac",
    "integer_pow", "le_to", "linear_solve", "lt_to", "name", "nextafter", "polygamma", "ppermute", "psum", "pmax",
    "pmin", "random_bits", "random_gamma", "reduce_window_max", "reduce_window_min", "reduce_window_sum", "reduce_xor",
    "regularized_incomplete_beta", "remat", "round", "scatter_add", "scatter_max", "scatter_min", "scatter_mul",
    "scatter_sub", "select_and_gather_add", "select_and_scatter_add", "sharding_constraint", "split", "square",
    "squeeze", "stack", "threefry2x32", "tile", "top_k", "unstack", "zeta", "axis_index", "approx_top_k", "fft", "get",
    "swap", "stage", "cholesky", "eig", "eigh", "lu", "qr", "schur", "svd", "triangular_solve",
)  # fmt: skip
_TRANSFORMS = ("vmap", "jacfwd", "jacrev", "jacobian", "hessian", "checkpoint")
_ADAPTED = (
    *("grad", "value_and_grad", "vjp", "jvp", "linearize", "linear_transpose"),
    *("custom_jvp", "custom_vjp", "closure_convert", "copy_to_host_async", "make_jaxpr", "pure_callback"),
)


_EXTEND_CORE = (
    *(
        "Literal",
        "Var",
        "JaxprEqn",
        "get_opaque_trace_state",
        "valid_jaxtype",
        "mapped_aval",
        "unmapped_aval",
    ),
    *("check_jaxpr", "jaxpr_as_fn", "subjaxprs"),
)


class Module(types.ModuleType):
    """A module of the stand-in: names of its own, then Lamina's."""

    def __init__(
        self, name: str, sources: Sequence[Any], own: dict[str, Any], wrap: Callable[[Any], Any] | None
    ) -> None:
        super().__init__(name, sources[0].__doc__ if sources else None)
        self.__path__: list[str] = []
        self.__dict__.update(own, _lamina=tuple(sources), _wrap=wrap)
        for given, found in own.items():
            if isinstance(found, types.FunctionType) and found.__name__ == "<lambda>":
                found.__name__ = given

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            for source in self.__dict__["_lamina"]:
                found = getattr(source, name, None)
                if found is None or isinstance(found, types.ModuleType):
                    continue
                if getattr(found, "__module__", "").startswith("typing"):
                    continue
                wrap = self.__dict__["_wrap"]
                if (
                    wrap is not None
                    and name not in _AS_THEY_ARE
                    and callable(found)
                    and not isinstance(found, (type, types.GenericAlias))
                ):
                    found = wrap(found)
                    if isinstance(found, types.FunctionType) and found.__name__ != name:
                        found.__name__ = name  # a second name of one function is a function of its own in JAX
                self.__dict__[name] = found
                return found
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *(n for s in self._lamina for n in getattr(s, "__all__", ()))})


def _telling(f: Any) -> Any:
    """A function of the stand-in's own, with JAX's phrases in its errors."""
    return messages.telling(f) if isinstance(f, types.FunctionType) else f


def _put(
    name: str, sources: Sequence[Any] = (), own: dict[str, Any] | None = None, wrap: Any = types64.wrapped
) -> Module:
    told = {k: _telling(f) for k, f in (own or {}).items()}
    module = Module(name, sources, told, wrap)
    sys.modules[name] = module
    parent, _, last = name.rpartition(".")
    if parent:
        sys.modules[parent].__dict__[last] = module
    return module


def _maybe(name: str) -> list[Any]:
    """Lamina's module of a name, if it is there."""
    try:
        return [importlib.import_module(name)]
    except ModuleNotFoundError:
        return []


def _some(module: Any, names: Sequence[str]) -> dict[str, Any]:
    """Those of the names that a module has."""
    return {n: getattr(module, n) for n in names if hasattr(module, n)}


def install() -> None:
    """Registers them all."""
    _jax()
    _numpy()
    _put(
        "jax.lax",
        [lax],
        {
            "dtype": types64.dtype_of,
            "index_take": adapters.index_take,
            "fori_loop": adapters.fori_loop,
            "create_token": avals.create_token,
            "AccuracyMode": adapters.AccuracyMode,
            **shape_rules.NAMES,
            **strictness.products(lax),
            **_lax(),
            **_primitives(),
        },
    )
    linalg = (
        "cholesky",
        "eig",
        "eigh",
        "lu",
        "qr",
        "schur",
        "svd",
        "triangular_solve",
        "tridiagonal",
        "householder_product",
    )
    checked = {n: accepted.checked(n, types64.wrapped(getattr(lax.linalg, n))) for n in accepted.OF_MATRICES}
    _put("jax.lax.linalg", [lax.linalg], {**checked, **{f"{n}_p": _traces.Primitive(n) for n in linalg}})
    _put("jax.version", own={n: getattr(sys.modules["jax"], n) for n in ("__version__", "__version_info__")})
    _put("jax.nn", [nn])
    _put("jax.nn.initializers", _maybe("lamina.initializers"), wrap=adapters.factory)
    _put("jax.random", [random], keys.RANDOM, wrap=keys.drawing)
    _put("jax.ops", _maybe("lamina.ops"))
    _put("jax.scipy", [lm.scipy])
    for name in _SCIPY:
        _put("jax.scipy." + name, _maybe("lamina.scipy." + name))
    sys.modules["jax.scipy.signal"].__dict__["istft"] = adapters.istft
    sys.modules["jax.scipy.optimize"].__dict__["minimize"] = adapters.minimize
    sys.modules["jax.scipy.interpolate"].RegularGridInterpolator = adapters.RegularGridInterpolator
    for name in _DISTRIBUTIONS:
        if hasattr(lm.scipy.stats, name):
            _put("jax.scipy.stats." + name, [getattr(lm.scipy.stats, name)])
    own = {"default_registry": keys.Registry(), "KeyEntry": Any, **keys.tree_names(lm.tree_util)}
    _put("jax.tree_util", [lm.tree_util], own, wrap=messages.telling)
    _put("jax.tree", [lamina_tree], keys.tree_names(lamina_tree), wrap=messages.telling)
    flatten_util._Unravel.__call__ = messages.telling(flatten_util._Unravel.__call__)
    _put("jax.flatten_util", [flatten_util])
    _types()
    _functions()


def _lax() -> dict[str, Any]:
    """Functions of ``jax.lax`` that are not Lamina's as they are."""
    own = {**strictness.LAX, **extras.LAX, **keys.lax_names()}
    for name in accepted.NAMES:
        own[name] = accepted.checked(name, own.get(name) or types64.wrapped(getattr(lax, name)))
    return own


def _jax() -> None:
    own = {
        "__version__": "0.10.2",
        "__version_info__": (0, 10, 2),
        "config": settings.Config(),
        **settings.SCOPES,
        "jit": jitted.jit,
        **_some(adapters, _ADAPTED),
        "Device": sharding.Device,
        "devices": sharding.devices,
        "local_devices": sharding.devices,
        **{
            n: getattr(sharding, n)
            for n in ("NamedSharding", "Shard", "make_mesh", "pmap", "set_mesh", "shard_map")
        },
        "P": sharding.PartitionSpec,
        **{n: getattr(sharding, n) for n in sharding.MAKING},
        "device_count": lambda backend=None: 1,
        "local_device_count": lambda backend=None: 1,
        "process_index": lambda backend=None: 0,
        "process_count": lambda backend=None: 1,
        "float0": adapters.FLOAT0,
        "device_put": adapters.putting,
        "disable_jit": lm.disable_jit,
        "typeof": avals.typeof,
        "Array": keys.Array,
        "ShapeDtypeStruct": keys.ShapeDtypeStruct,
        **surroundings.PLACES,
        **extras.JAX,
    }
    own["checkpoint_policies"] = lm.checkpoint_policies
    for name in _TRANSFORMS:
        own[name] = adapters.making(getattr(adapters, name, getattr(lm, name)))
    own["remat"] = own["checkpoint"]
    _put("jax", [lm], own)


def _numpy() -> None:
    own = {**strictness.products(lnp), **scalars.table(), **keys.numpy_names(), "finfo": adapters.finfo}
    own.update(numpy_rules.NUMPY)
    own["einsum"] = strictness.asking(adapters.einsum)
    own["einsum_path"] = adapters.einsum_path
    own.update(vectorize=adapters.making(lnp.vectorize))
    own.update(asarray=adapters.making_arrays(lnp.asarray), array=adapters.making_arrays(lnp.array))
    own.update(dtype=np.dtype, issubdtype=adapters.issubdtype, ndarray=keys.Array, zeros=adapters.zeros)
    own.update(
        _some(
            np,
            (
                "set_printoptions",
                "get_printoptions",
                "printoptions",
                "array_repr",
                "array_str",
                "save",
                "savez",
            ),
        )
    )
    own.update({n: getattr(lnp, n) for n in ("pi", "e", "inf", "nan", "euler_gamma")}, newaxis=None)
    own.update(promote_types=scalars.promote_types)
    own.update(__array_api_version__=lnp.__array_api_version__)
    own.update(__array_namespace_info__=array_api.Info)
    _put("jax.numpy", [lnp], own)
    _put("jax.numpy.linalg", [lnp.linalg])
    _put("jax.numpy.fft", [lnp.fft], numpy_rules.FFT)


def _primitives() -> dict[str, Any]:
    """What equations of traces are told by, under JAX's names (sin_p)."""
    names = {_traces._NAMES.get(op, op) for op in lm._core.op_names()} | set(_RECORDED_OTHERWISE)
    names |= {f"reduce_{kind}" for kind in _traces._REDUCTIONS.values()} | {
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
    }
    return {name + "_p": _traces.Primitive(name) for name in names}


def _types() -> None:
    table = scalars.table()
    own = {
        "float0": adapters.FLOAT0,
        "bfloat16": np.dtype("bfloat16").type,
        "canonicalize_dtype": lambda dtype, allow_extended_dtype=False: types64.canonical(dtype),
        "issubdtype": adapters.issubdtype,
        "TypePromotionError": messages.TypePromotionError,
        "extended": keys.extended,
        "itemsize_bits": extras.itemsize_bits,
        "result_type": extras.result_type,
        "prng_key": keys.prng_key,
        "scalar_type_of": scalars.python_type,
    }
    own |= {n: table[n] for n in ("int4", "uint4")}
    _put("jax.dtypes", [lnp], own)
    scalar = bool | int | float | complex
    _put("jax.typing", own={"ArrayLike": lm.Tensor | np.ndarray | np.generic | scalar, "DTypeLike": Any})
    _put("jax.errors", own=adapters.ERRORS)
    _put("jax.ad", own=pullbacks.NAMES)
    core = {**avals.CORE, "Tracer": adapters.Tracer}
    core |= {
        n: internals.EXTEND_CORE[n] for n in ("Effect", "Effects", "Trace", "concrete_or_error", "no_effects")
    }
    core |= {"ensure_compile_time_eval": lm.ensure_compile_time_eval, "eval_jaxpr": adapters.eval_jaxpr}
    _put("jax.core", own=core)
    parts = {n: avals.CORE[n] for n in _EXTEND_CORE}
    parts |= {"ClosedJaxpr": _traces.Trace, "Jaxpr": _traces.Trace, "jaxpr_as_fun": avals.jaxpr_as_fn}
    parts |= internals.EXTEND_CORE
    _put("jax.extend")
    _put("jax.extend.core", own={**parts, "Primitive": primitives.Primitive})
    calls = {
        n: _traces.Primitive(n[:-2]) for n in ("call_p", "closed_call_p", "jit_p", "pjit_p", "xla_pmap_p")
    }
    _put("jax.extend.core.primitives", own={**_primitives(), **calls})
    _put("jax.extend.linear_util", own=linear_util.NAMES)
    _put("jax.api_util", own=linear_util.API_UTIL)
    backend = {"get_backend": lambda platform=None: sharding.DEVICE.client}
    _put("jax.extend.backend", own=backend)
    _put("jax.lib", own={"__version__": sys.modules["jax"].__version__})
    _put("jax.lib.xla_bridge", own=backend)
    _put("jax.interpreters")
    for name, names in (
        ("ad", primitives.AD),
        ("batching", primitives.BATCHING),
        ("mlir", primitives.MLIR),
        ("partial_eval", linear_util.PARTIAL_EVAL),
        ("xla", internals.XLA),
    ):
        _put("jax.interpreters." + name, own=names)
    _put("jax.sharding", own={**sharding.NAMES, **extras.SHARDING})
    stages = {"Compiled": jitted.Lowered, "Lowered": jitted.Lowered, "Traced": jitted.Lowered}
    _put(
        "jax.stages",
        own={
            **stages,
            "Wrapped": jitted.Jitted,
            "ArgInfo": ArgumentInfo,
            "CompilerOptions": dict[str, Any],
        },
    )
    _put(
        "jax.dlpack",
        own={
            "from_dlpack": types64.wrapped(lnp.from_dlpack),
            "is_supported_dtype": extras.is_supported_dtype,
        },
    )


def _functions() -> None:
    jax = sys.modules["jax"]
    _put(
        "jax.custom_derivatives",
        [lm.custom_derivatives, lm],
        {
            **_some(jax, ("custom_jvp", "custom_vjp", "custom_gradient", "closure_convert")),
            **{f"custom_{kind}_call_p": _traces.Primitive(f"custom_{kind}_call") for kind in ("jvp", "vjp")},
        },
    )
    _put("jax.custom_batching", [lm.custom_batching], {"custom_vmap": adapters.custom_vmap}, wrap=None)
    own = _some(jax, ("checkpoint", "remat", "checkpoint_policies", "checkpoint_name"))
    _put("jax.ad_checkpoint", _maybe("lamina.ad_checkpoint"), own, wrap=None)
    own = {"ref": {"AbstractRef": avals.AbstractRef}, "debug": {**adapters.DEBUG, "log": extras.log}}
    for name in ("jax.debug", "jax.image", "jax.ref"):
        sources = _maybe(name.replace("jax", "lamina", 1))
        if sources:
            _put(name, sources, own.get(name.removeprefix("jax.")))
    _put("jax.test_util", _maybe("lamina.test_util"))
    _put("jax.export", own=exporting.NAMES)
    _put("jax.profiler", own=surroundings.PROFILER)
    _put("jax.monitoring", own=surroundings.MONITORING)
    _put("jax.distributed", own=surroundings.DISTRIBUTED)
    _put("jax.experimental", own={"io_callback": adapters.io_callback})
    _put("jax.experimental.multihost_utils", own=surroundings.MULTIHOST)
    _put("jax.experimental.shard_map", own={"shard_map": surroundings.shard_map})
    _put("jax.experimental.random", own=stateful.NAMES)
    _put("jax.experimental.rnn", own=rnn.NAMES)
    _put("jax.experimental.pjit", own={"pjit": jitted.jit})
    _put("jax.experimental.checkify", _maybe("lamina.experimental.checkify"), checking.NAMES)
    _put("jax.experimental.ode", _maybe("lamina.experimental.ode"))
    _put("jax.experimental.jet", own=adapters.JET)
    sparse = importlib.import_module("lamina.experimental.sparse")
    own = {"JAXSparse": sparse.SparseArray, "random_bcoo": keys.drawing(sparse.random_bcoo)}
    _put("jax.experimental.sparse", [sparse], own)
    _put("jax.experimental.sparse.linalg", [sparse.linalg])
    _put("jax.example_libraries")
    _put("jax.example_libraries.optimizers", own=example_libraries.OPTIMIZERS)
    _put("jax.example_libraries.stax", own=example_libraries.STAX)
    for name, own in extras.MODULES.items():
        _put(name, own=own)
    for name, own in internals.modules(adapters.ERRORS, vars(sys.modules["jax.dtypes"])).items():
        _put(name, own={k: v for k, v in own.items() if not k.startswith("__")})
    jax = sys.modules["jax"]
    for module, last, found in (
        ("jax._src", "api", jax),
        ("jax._src.lax", "lax", sys.modules["jax.lax"]),
        *(("jax._src", n, sys.modules["jax." + n]) for n in ("flatten_util", "api_util", "scipy")),
        ("jax._src.scipy", "special", sys.modules["jax.scipy.special"]),
    ):
        sys.modules[module].__dict__[last] = sys.modules[f"{module}.{last}"] = found
    _put("jaxlib", own={"__version__": jax.__version__})
    for name, own in (
        ("version", {"__version__": jax.__version__}),
        ("_jax", {"PjitFunction": jitted.Jitted, "Device": sharding.Device, "Client": sharding.Backend}),
        ("xla_client", {"Device": sharding.Device, "Client": sharding.Backend}),
    ):
        _put("jaxlib." + name, own=own)
    sys.modules["jax._src"].checkify = sys.modules["jax.experimental.checkify"]
