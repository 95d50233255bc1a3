"""What JAX offers around a program: profiles, events, other processes, packages. There is one process on one device.

Profiles are not written: their scopes open and close. Events of a user's own go to the listeners of that user; Lamina
records none by itself.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import importlib.metadata
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import lamina as lm
import numpy as np
from lamina import numpy as lnp

from lamina_as_jax import sharding, types64

_as_array = types64.wrapped(lnp.asarray)

# --- jax.profiler ---


class _Scope(contextlib.ContextDecorator):
    """A part of a profile with a name."""

    def __init__(self, name: str = "", *others: Any, **options: Any) -> None:
        self.name = name

    def __enter__(self) -> _Scope:
        return self

    def __exit__(self, *error: object) -> None:
        """Nothing is written."""


class TraceAnnotation(_Scope):
    """A range of time."""


class StepTraceAnnotation(TraceAnnotation):
    """A step of training."""


class ProfileOptions:
    """What to record."""


def annotate_function(fun: Any = None, name: str | None = None, **options: Any) -> Any:
    if fun is None:
        return functools.partial(annotate_function, name=name, **options)

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        return fun(*args, **kwargs)

    return call


def _nothing(*args: Any, **kwargs: Any) -> None:
    """Has no effect here."""


class _Profile:
    """Whether one is being taken."""

    started = False


def start_trace(log_dir: Any, *args: Any, **options: Any) -> None:
    if _Profile.started:
        raise RuntimeError("Profile has already been started. Only one profile may be run at a time.")
    _Profile.started = True


def stop_trace() -> None:
    if not _Profile.started:
        raise RuntimeError("No profile started")
    _Profile.started = False


@contextlib.contextmanager
def trace(log_dir: Any, *args: Any, **options: Any) -> Iterator[None]:
    start_trace(log_dir)
    try:
        yield
    finally:
        stop_trace()


def device_memory_profile(backend: str | None = None) -> bytes:
    """Of no arrays."""
    return gzip.compress(b"")


def save_device_memory_profile(filename: Any, backend: str | None = None) -> None:
    with open(filename, "wb") as f:
        f.write(device_memory_profile())


PROFILER: dict[str, Any] = {
    "trace": trace,
    "start_trace": start_trace,
    "stop_trace": stop_trace,
    "device_memory_profile": device_memory_profile,
    "save_device_memory_profile": save_device_memory_profile,
    "start_server": _nothing,
    "stop_server": _nothing,
    "annotate_function": annotate_function,
    "TraceAnnotation": TraceAnnotation,
    "StepTraceAnnotation": StepTraceAnnotation,
    "ProfileOptions": ProfileOptions,
}

# --- jax.monitoring ---

_listeners: dict[str, list[Callable[..., Any]]] = {
    "event": [], "event_duration_secs": [], "event_time_span": [], "scalar": [],
}  # fmt: skip


def _recorder(kind: str) -> Callable[..., None]:
    def record(event: str, *values: Any, **metadata: Any) -> None:
        for listener in list(_listeners[kind]):
            listener(event, *values, **metadata)

    return record


def _clear_listeners() -> None:
    for listeners in _listeners.values():
        listeners.clear()


MONITORING: dict[str, Any] = {
    "record_event": _recorder("event"),
    "record_event_duration_secs": _recorder("event_duration_secs"),
    "record_event_time_span": _recorder("event_time_span"),
    "record_scalar": _recorder("scalar"),
    "register_event_listener": _listeners["event"].append,
    "register_event_duration_secs_listener": _listeners["event_duration_secs"].append,
    "register_event_time_span_listener": _listeners["event_time_span"].append,
    "register_scalar_listener": _listeners["scalar"].append,
    "clear_event_listeners": _clear_listeners,
    "unregister_event_listener": _listeners["event"].remove,
    "unregister_event_duration_listener": _listeners["event_duration_secs"].remove,
    "unregister_event_time_span_listener": _listeners["event_time_span"].remove,
    "unregister_scalar_listener": _listeners["scalar"].remove,
}

# --- other processes: there are none ---


def _refuse_processes(*args: Any, num_processes: int | None = None, **options: Any) -> None:
    """ValueError for more than one process."""
    if num_processes not in (None, 1):
        raise ValueError(f"there is one process, not {num_processes}")


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """NumPy arrays, with an axis of the processes in front unless `tiled`."""
    leaf = lambda x: np.asarray(x) if tiled else np.expand_dims(np.asarray(x), 0)  # noqa: E731
    return lm.tree.map(leaf, in_tree)


def _as_numpy(in_tree: Any, is_source: bool | None = None) -> Any:
    return lm.tree.map(np.asarray, in_tree)


def _unchanged(x: Any, *where: Any, **options: Any) -> Any:
    return x


DISTRIBUTED: dict[str, Any] = {
    "initialize": _refuse_processes,
    "shutdown": _nothing,
    "is_initialized": lambda: False,
}
MULTIHOST: dict[str, Any] = {
    "broadcast_one_to_all": _as_numpy,
    "process_allgather": process_allgather,
    "sync_global_devices": _nothing,
    "assert_equal": _nothing,
    "host_local_array_to_global_array": _unchanged,
    "global_array_to_host_local_array": _unchanged,
    "reached_preemption_sync_point": lambda step: False,
}


def make_array_from_callback(shape: Any, where: Any, data_callback: Any, dtype: Any = None) -> Any:
    """One part: the whole."""
    return _as_array(data_callback((slice(None),) * len(shape)), dtype)


def make_array_from_single_device_arrays(
    shape: Any, where: Any, arrays: Iterable[Any], **options: Any
) -> Any:
    """ValueError for other than one array of the whole shape."""
    (only,) = arrays
    if tuple(only.shape) != tuple(shape):
        raise ValueError(f"the one array has the shape {tuple(only.shape)}, and not {tuple(shape)}")
    return only


def print_environment_info(return_string: bool = False) -> str | None:
    """Versions, devices and the machine, for reports of mistakes: printed, or returned."""
    jax = sys.modules["jax"]
    rows = (
        ("jax", jax.__version__),
        ("jaxlib", jax.__version__),
        ("numpy", np.__version__),
        ("python", sys.version.replace("\n", " ")),
        ("device info", f"{len(jax.devices())} local device: {jax.devices()[0]}"),
        ("process_count", "1"),
        ("platform", platform.uname()),
    )
    text = "\n".join(f"{name}: ".ljust(8) + str(value) for name, value in rows)
    if return_string:
        return text
    print(text)
    return None


PLACES: dict[str, Any] = {
    "print_environment_info": print_environment_info,
    "make_array_from_callback": make_array_from_callback,
    "make_array_from_single_device_arrays": make_array_from_single_device_arrays,
    "make_array_from_process_local_data": lambda where, local_data, global_shape=None: _as_array(local_data),
    "process_indices": lambda backend=None: [0],
    "host_id": lambda backend=None: 0,
    "host_ids": lambda backend=None: [0],
    "host_count": lambda backend=None: 1,
    "reshard": _unchanged,
}


def shard_map(
    f: Any, mesh: Any, in_specs: Any, out_specs: Any, check_rep: bool = True, **options: Any
) -> Any:
    """The older form of `jax.shard_map`."""
    return sharding.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs)


# --- the installed packages ---


class _Package(importlib.metadata.Distribution):
    """What is asked of an installed package: its version."""

    def __init__(self, name: str, version: str) -> None:
        self._text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError(path)


class _Packages:
    """``importlib.metadata`` finds jax and jaxlib, of the version that is stood in for."""

    def __init__(self, version: str) -> None:
        self._version = version

    def find_spec(self, *args: Any) -> None:
        """Imports find the modules themselves."""

    def find_distributions(self, context: Any) -> Iterator[_Package]:
        for name in ("jax", "jaxlib"):
            if context.name in (None, name):
                yield _Package(name, self._version)


def installed(version: str) -> None:
    sys.meta_path.append(_Packages(version))
