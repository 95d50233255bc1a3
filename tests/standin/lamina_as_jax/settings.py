"""``jax.config`` and the context managers of the same meaning. Options that Lamina has not are absent."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import lamina as lm
from lamina import _core, _jit

from lamina_as_jax import promotions, sharding, types64

# Options of one value: what Lamina does. Setting another raises.
_FIXED = {
    "jax_softmax_custom_jvp": True,
    "jax_platforms": "cpu",
    "jax_platform_name": "cpu",
}

# Options that may be set and are remembered. They say how much JAX checks, prints or keeps, or how it computes what has
# one way here.
_REMEMBERED: dict[str, Any] = {
    "jax_numpy_dtype_promotion": "standard",
    "jax_numpy_rank_promotion": "allow",
    "jax_num_cpu_devices": 1,
    "jax_default_matmul_precision": None,
    "jax_explicit_x64_dtypes": "warn",
    "jax_debug_nans": False,
    "jax_debug_infs": False,
    "jax_default_prng_impl": "threefry2x32",
    "jax_explain_cache_misses": False,
    "jax_log_compiles": False,
    "jax_enable_checks": False,
    "jax_use_direct_linearize": True,
    "jax_disable_bwd_checks": False,
    "jax_remat3": False,
    "jax_use_simplified_jaxpr_constants": False,
    "jax_traceback_filtering": "auto",
    "jax_no_tracing": False,
    "jax_no_execution": False,
    "jax_allow_f16_reductions": True,
    "jax_threefry_partitionable": True,
    "jax_debug_key_reuse": False,
    "jax_random_seed_offset": 0,
    "jax_array_garbage_collection_guard": None,
    "jax_transfer_guard": None,
    "jax_persistent_cache_min_compile_time_secs": 1.0,
    "jax_persistent_cache_min_entry_size_bytes": 0,
    "jax_compilation_cache_dir": None,
    "jax_enable_compilation_cache": True,
    "jax_legacy_prng_key": "allow",
    "jax_enable_custom_prng": False,
    "jax_default_device": None,
    "jax_use_shardy_partitioner": True,
    "jax_optimization_level": "UNKNOWN",
    "jax_disable_most_optimizations": False,
    "jax_include_full_tracebacks_in_locations": True,
    "jax_traceback_in_locations_limit": 100,
    "jax_raise_persistent_cache_errors": False,
    "jax_persistent_cache_enable_xla_caches": "xla_gpu_per_fusion_autotune_cache_dir",
    "jax_compilation_cache_max_size": -1,
    "jax_compilation_cache_include_metadata_in_key": False,
    "jax_captured_constants_warn_bytes": 2_000_000_000,
    "jax_captured_constants_report_frames": 0,
    "jax_log_checkpoint_residuals": False,
    "jax_logging_level": "NOTSET",
    "jax_debug_log_modules": "",
    "jax_cpu_enable_async_dispatch": True,
    "jax_cpu_collectives_implementation": "gloo",
    "jax_distributed_debug": False,
    "jax_enable_pgle": False,
    "jax_pprint_use_color": True,
    "jax_tracer_error_num_traceback_frames": 5,
    "jax_compiler_enable_remat_pass": True,
    "jax_mutable_array_checks": True,
    "jax_cuda_visible_devices": "all",
    "jax_rocm_visible_devices": "all",
    "jax_dump_ir_to": "",
}

# Options that are scopes of Lamina's, kept open on the thread that sets them while they are on.
_SCOPED: dict[str, Any] = {"jax_disable_jit": lm.disable_jit, "jax_check_tracer_leaks": lm.checking_leaks}
_kept: dict[str, Any] = {}


def _is_on(option: str) -> bool:
    return _jit.tracing.disabled if option == "jax_disable_jit" else option in _kept


def _keep_open(option: str, on: bool) -> None:
    if option in _kept:
        _kept.pop(option).__exit__(None, None, None)
    if on:
        _kept[option] = _SCOPED[option]()
        _kept[option].__enter__()


class _Scopes(threading.local):
    """The options of the scopes that are open on a thread."""

    def __init__(self) -> None:
        self.options: dict[str, Any] = {}


_inside = _Scopes()


def _now(option: str) -> Any:
    """An option as the innermost scope of it has it, or the whole process."""
    return _inside.options.get(option, _REMEMBERED[option])


# What options that are words may be.
_WORDS = {
    "jax_numpy_dtype_promotion": ("standard", "strict"),
    "jax_numpy_rank_promotion": ("allow", "warn", "raise"),
    "jax_default_prng_impl": ("threefry2x32", "rbg", "unsafe_rbg"),
    "jax_transfer_guard": (None, "allow", "log", "disallow", "log_explicit", "disallow_explicit"),
    "jax_array_garbage_collection_guard": (None, "allow", "log", "fatal"),
    "jax_legacy_prng_key": ("allow", "warn", "error"),
    "jax_default_matmul_precision": (
        *(None, "default", "high", "highest", "bfloat16", "tensorfloat32", "float32", "fastest"),
        *("BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6", "BF16_BF16_F32_X9", "BF16_BF16_BF16"),
        *("TF32_TF32_F32", "TF32_TF32_F32_X3", "F16_F16_F16", "F16_F16_F32", "F32_F32_F32", "F64_F64_F64"),
        *("ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY"),
        *("ANY_F8_ANY_F8_ANY_FAST_ACCUM",),
    ),
}


def _checked(option: str, value: Any) -> Any:
    """The value; ValueError for a word that the option does not know."""
    if option in _WORDS and str(getattr(value, "value", value)) not in map(str, _WORDS[option]):
        raise ValueError(
            f"new enum value must be None or in {[w for w in _WORDS[option] if w]}, got {value} of type {type(value)}."
        )
    return value


def _promotions(changed: str) -> None:
    """Has calls looked at as the options of promotion say, if one of them has changed."""
    if changed in ("jax_numpy_dtype_promotion", "jax_numpy_rank_promotion"):
        strict = str(_now("jax_numpy_dtype_promotion")) == "strict"
        promotions.asked(strict, str(_now("jax_numpy_rank_promotion")))


class Config:
    """Options as attributes; AttributeError for those that are not there."""

    def __getattr__(self, name: str) -> Any:
        if name in ("jax_enable_x64", "x64_enabled"):
            return types64.enabled()
        if name in _FIXED:
            return _FIXED[name]
        if name in _REMEMBERED:
            return _now(name)
        if name in _SCOPED:
            return _is_on(name)
        raise AttributeError(f"'Config' object has no attribute '{name}'")

    @property
    def values(self) -> dict[str, Any]:
        """All options."""
        scoped = {name: _is_on(name) for name in _SCOPED}
        return {"jax_enable_x64": types64.enabled(), **_FIXED, **scoped, **_REMEMBERED, **_inside.options}

    def _read(self, name: str) -> Any:
        """An option as the whole process has it."""
        return _REMEMBERED[name] if name in _REMEMBERED else getattr(self, name)

    def update(self, name: str, value: Any) -> None:
        if name == "jax_enable_x64":
            types64.enable(value)
        elif name in _SCOPED:
            _keep_open(name, bool(value))
        elif name in _REMEMBERED:
            if name == "jax_num_cpu_devices" and value != _REMEMBERED[name] and sharding.asked_for():
                raise RuntimeError(
                    "jax_num_cpu_devices config should be updated before backends are initialized"
                )
            _REMEMBERED[name] = _checked(name, value)
            _promotions(name)
            if name == "jax_debug_nans":
                _core.set_nan_checks(bool(value))
                types64.looked_at(nan=bool(value))
            elif name == "jax_explicit_x64_dtypes":
                types64.Truncated.mode = str(getattr(value, "value", value))
            elif name == "jax_debug_infs":
                types64.looked_at(inf=bool(value))
        elif name not in _FIXED:
            raise AttributeError(f"Unrecognized config option: {name}")
        elif _FIXED[name] != value:
            raise ValueError(f"{name} is {_FIXED[name]!r} in Lamina, and cannot be {value!r}")

    def read(self, name: str) -> Any:
        return getattr(self, name)

    def parse_flags_with_absl(self) -> None:
        """There are no flags."""

    config_with_absl = parse_flags_with_absl


@contextlib.contextmanager
def accepted(new_val: Any = True) -> Iterator[None]:
    """A scope whose request Lamina always meets, or leaves unchecked: README.md says which."""
    yield


class Remembered:
    """An option that is remembered: called with a value, the scope in which it has that."""

    def __init__(self, option: str) -> None:
        self._option, self.__name__ = option, option.removeprefix("jax_")

    @contextlib.contextmanager
    def __call__(self, new_val: Any = True) -> Iterator[None]:
        option, outer = self._option, dict(_inside.options)
        _inside.options[option] = _checked(option, new_val)
        _promotions(option)
        try:
            yield
        finally:
            _inside.options.pop(option)
            if option in outer:
                _inside.options[option] = outer[option]
            _promotions(option)

    @property
    def value(self) -> Any:
        return _now(self._option)

    def get_global(self) -> Any:
        return _REMEMBERED[self._option]

    def set_global(self, value: Any) -> None:
        Config().update(self._option, value)


# Those that change what is traced.
_TRACED = (
    "jax_numpy_dtype_promotion", "jax_numpy_rank_promotion", "jax_default_matmul_precision", "jax_default_prng_impl",
    "jax_threefry_partitionable", "jax_random_seed_offset", "jax_enable_custom_prng",
)  # fmt: skip


def traced_under() -> tuple[Any, ...]:
    """The present values of the options under which a trace is another."""
    return (types64.enabled(), *map(_now, _TRACED))


def asked(option: str) -> bool:
    """Whether an option that is remembered is on."""
    return bool(_now(option))


def seed_offset() -> int:
    """What is added to the seeds of keys."""
    return _now("jax_random_seed_offset")


def default_precision() -> Any:
    return _now("jax_default_matmul_precision")


class UserContext:
    """A value that programs set in scopes, one for all threads. A jitted function that reads it does so at each call."""

    def __init__(self, default_value: Any = None) -> None:
        self.value = self._global = default_value

    def get_global(self) -> Any:
        return self._global

    def set_global(self, value: Any) -> None:
        self.value = self._global = value

    @contextlib.contextmanager
    def __call__(self, new_val: Any) -> Iterator[None]:
        before, self.value = self.value, new_val
        try:
            yield
        finally:
            self.value = before


def default_generator() -> str:
    return _now("jax_default_prng_impl")


@contextlib.contextmanager
def debug_nans(new_val: bool = True) -> Iterator[None]:
    """Lamina's, which the option says is on while it is."""
    before, _REMEMBERED["jax_debug_nans"] = _REMEMBERED["jax_debug_nans"], new_val
    try:
        with lm.debug_nans(new_val):
            types64.looked_at(nan=new_val)
            yield
    finally:
        _REMEMBERED["jax_debug_nans"] = before
        types64.looked_at(nan=before)


@contextlib.contextmanager
def debug_infs(new_val: bool = True) -> Iterator[None]:
    """Looks at what functions of arrays give to users."""
    before, _REMEMBERED["jax_debug_infs"] = _REMEMBERED["jax_debug_infs"], new_val
    types64.looked_at(inf=new_val)
    try:
        yield
    finally:
        _REMEMBERED["jax_debug_infs"] = before
        types64.looked_at(inf=before)


SCOPES: dict[str, Any] = {"debug_nans": debug_nans, "debug_infs": debug_infs}
for _option in (
    "default_prng_impl",
    "explain_cache_misses",
    "log_compiles",
    "no_execution",
    "allow_f16_reductions",
    "default_matmul_precision",
    "numpy_dtype_promotion",
    "numpy_rank_promotion",
    "debug_key_reuse",
    "threefry_partitionable",
    "transfer_guard",
    "legacy_prng_key",
    "enable_custom_prng",
    "array_garbage_collection_guard",
):
    SCOPES[_option] = Remembered("jax_" + _option)
SCOPES["checking_leaks"] = SCOPES["check_tracer_leaks"] = lm.checking_leaks
SCOPES["no_tracing"] = lm.no_tracing
SCOPES["make_user_context"] = UserContext
SCOPES["enable_x64"] = types64.enable_x64
_ACCEPTED = (
    *(
        "enable_checks",
        "remove_size_one_mesh_axis_from_type",
        "default_device",
        "softmax_custom_jvp",
        "thread_guard",
    ),
    *(f"transfer_guard_{way}" for way in ("host_to_device", "device_to_device", "device_to_host")),
)
SCOPES.update({n: accepted for n in _ACCEPTED})
