"""``jax.sharding`` and what arrays say about devices, for the one device that there is."""

from __future__ import annotations

import collections
import contextlib
import copy
import enum
import functools
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import lamina as lm
import numpy as np
from lamina import _core, _jit
from lamina._core import Tensor
from lamina.tree import tree_children

from lamina_as_jax.avals import CURRENT_TRACE, typeof
from lamina_as_jax.types64 import wrapped


class Memory(types.SimpleNamespace):
    """A kind of memory of the device."""


class Device(types.SimpleNamespace):
    """The one device."""

    def memory_stats(self) -> None:
        """Not told of CPUs."""

    def default_memory(self) -> Memory:
        return Memory(kind="device", device=self)

    def addressable_memories(self) -> list[Memory]:
        return [Memory(kind=kind, device=self) for kind in ("device", "pinned_host", "unpinned_host")]

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"

    def __repr__(self) -> str:
        return f"CpuDevice(id={self.id})"

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __reduce__(self) -> Any:
        return _the_device, ()


def _the_device() -> Device:
    return DEVICE


class Backend(types.SimpleNamespace):
    """What has the devices."""

    def devices(self) -> list[Any]:
        return [DEVICE]

    def device_count(self) -> int:
        return 1

    def live_executables(self) -> list[Any]:
        """The programs that jitted functions keep."""
        return [
            v for f in list(_jit._alive) for vs in f._entries.values() for v in vs for _ in range(v.paths)
        ]


DEVICE = Device(id=0, platform="cpu", device_kind="cpu", process_index=0, local_hardware_id=None)
DEVICE.client = Backend(platform="cpu", platform_version="")


_asked_for: list[None] = []


def asked_for() -> bool:
    """Whether a program has asked for the devices."""
    return bool(_asked_for)


def devices(backend: Any = None, **options: Any) -> list[Any]:
    _asked_for[:] = [None]
    if backend not in (None, "cpu"):
        raise RuntimeError(f"Unknown backend {backend}. Available backends are ['cpu']")
    return [DEVICE]


class _Unconstrained:
    """What stands for an axis that the compiler decides about."""

    def __repr__(self) -> str:
        return "UNCONSTRAINED"

    def __reduce__(self) -> str:
        return "_UNCONSTRAINED"


_UNCONSTRAINED = _Unconstrained()


class PartitionSpec:
    """Which axes of a mesh the axes of an array are spread over."""

    UNCONSTRAINED = _UNCONSTRAINED

    def __init__(self, *partitions: Any, unreduced: Any = frozenset(), reduced: Any = frozenset()) -> None:
        self.partitions = tuple(p[0] if isinstance(p, tuple) and len(p) == 1 else p for p in partitions)
        self.unreduced, self.reduced = frozenset(unreduced), frozenset(reduced)

    def __getitem__(self, index: Any) -> Any:
        return self.partitions[index]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.partitions)

    def __len__(self) -> int:
        return len(self.partitions)

    def __add__(self, other: Any) -> PartitionSpec:
        return self.update(partitions=(*self, *other))

    def __radd__(self, other: Any) -> PartitionSpec:
        return self.update(partitions=(*other, *self))

    def update(self, **changed: Any) -> PartitionSpec:
        return PartitionSpec(
            *changed.get("partitions", self.partitions),
            unreduced=changed.get("unreduced", self.unreduced),
            reduced=changed.get("reduced", self.reduced),
        )

    def count(self, value: Any) -> int:
        return self.partitions.count(value)

    def index(self, value: Any) -> int:
        return self.partitions.index(value)

    def _key(self) -> Any:
        return self.partitions, self.unreduced, self.reduced

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> Any:
        return _partition_spec, self._key()

    def __repr__(self) -> str:
        parts = [*map(repr, self)]
        sets = [f"{n}={set(v)}" for n, v in (("unreduced", self.unreduced), ("reduced", self.reduced)) if v]
        return f"P({', '.join([*parts, *sets])}{',' * (len(parts) == 1 and not sets)})"


def _partition_spec(partitions: Any, unreduced: Any, reduced: Any) -> PartitionSpec:
    return PartitionSpec(*partitions, unreduced=unreduced, reduced=reduced)


class DuplicateSpecError(ValueError):
    """An axis of a mesh in two places of one specification."""


class AxisType(enum.Enum):
    """Who decides what is spread over an axis of a mesh."""

    Auto, Explicit, Manual = "auto", "explicit", "manual"


class Mesh:
    """Devices in an array whose axes have names. ValueError for names that do not fit."""

    def __init__(self, devices: Any, axis_names: Any, axis_types: Any = None) -> None:
        self.devices = np.asarray(devices, object)
        self.axis_names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
        if self.devices.ndim != len(self.axis_names):
            raise ValueError(
                "Mesh requires the ndim of its first argument (`devices`) to equal the length of its second argument "
                f"(`axis_names`), but got devices.ndim == {self.devices.ndim} and len(axis_names) == "
                f"{len(self.axis_names)}."
            )
        kinds = (axis_types,) * self.devices.ndim if isinstance(axis_types, AxisType) else axis_types
        self.axis_types = tuple(kinds or (AxisType.Auto,) * self.devices.ndim)
        self.shape = collections.OrderedDict(zip(self.axis_names, self.devices.shape, strict=True))

    size = property(lambda self: self.devices.size)
    empty = property(lambda self: self.devices.ndim == 0 or self.devices.size == 0)
    shape_tuple = property(lambda self: tuple(self.shape.items()))
    axis_sizes = property(lambda self: tuple(self.devices.shape))
    abstract_mesh = property(lambda self: AbstractMesh(self.devices.shape, self.axis_names, self.axis_types))
    are_all_axes_auto = property(lambda self: self._all(AxisType.Auto))
    are_all_axes_explicit = property(lambda self: self._all(AxisType.Explicit))
    are_all_axes_manual = property(lambda self: self._all(AxisType.Manual))

    def _all(self, kind: AxisType) -> bool:
        return all(t == kind for t in self.axis_types)

    def __str__(self) -> str:
        sizes = ", ".join(f"{n!r}: {k}" for n, k in self.shape.items())
        return f"{type(self).__name__}({sizes or '()'}, axis_types={_shown(self.axis_types)})"

    def __repr__(self) -> str:
        return (
            f"Mesh(axis_sizes={tuple(self.shape.values())}, axis_names={self.axis_names}, "
            f"axis_types={_shown(self.axis_types)})"
        )

    def __enter__(self) -> Mesh:
        _entered.append(self)
        return self

    def __exit__(self, *error: object) -> bool:
        _entered.pop()
        return False

    def _key(self) -> Any:
        return self.axis_names, self.devices.shape, tuple(self.devices.flat)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


def _shown(kinds: tuple[AxisType, ...]) -> str:
    return f"({', '.join(k.name for k in kinds)}{',' * (len(kinds) == 1)})"


class AbstractMesh(Mesh):
    """The axes of a mesh without its devices."""

    __repr__ = Mesh.__str__

    def __init__(self, axis_sizes: Any, axis_names: Any, axis_types: Any = None) -> None:
        super().__init__(np.full(tuple(axis_sizes), None, object), axis_names, axis_types)


def get_abstract_mesh() -> AbstractMesh:
    """That of the mesh which is set: of none, unless `set_mesh` is open."""
    mesh = _open_meshes[-1] if _open_meshes else None
    return (
        AbstractMesh((), ())
        if mesh is None
        else AbstractMesh(mesh.devices.shape, mesh.axis_names, mesh.axis_types)
    )


_open_meshes: list[Mesh] = []  # those that are set
_entered: list[Mesh] = []  # those of `with mesh:`


def constrained(x: Any, shardings: Any) -> Any:
    """`x`: there is one device. RuntimeError for a PartitionSpec that is of no mesh."""
    found = lm.tree.tree_leaves(shardings, is_leaf=lambda s: isinstance(s, PartitionSpec))
    if any(isinstance(s, PartitionSpec) for s in found) and not (_open_meshes or _entered):
        raise RuntimeError(
            "with_sharding_constraint requires a non-empty mesh in context if you are passing `PartitionSpec`s to "
            "shardings. You can define a context mesh via `jax.set_mesh(mesh)`."
        )
    return x


class Sharding:
    """Where the parts of an array are: on the one device."""

    memory_kind = "device"
    is_fully_addressable = is_fully_replicated = True
    num_devices = 1
    _device_assignment = (DEVICE,)
    device_set = addressable_devices = property(lambda self: {DEVICE})

    def shard_shape(self, shape: Any) -> tuple[int, ...]:
        return tuple(shape)

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        return isinstance(other, Sharding)

    def with_memory_kind(self, kind: str) -> Sharding:
        changed = copy.copy(self)
        changed.memory_kind = kind
        return changed

    def devices_indices_map(self, shape: Any) -> dict[Any, Any]:
        return {DEVICE: (slice(None),) * len(shape)}

    addressable_devices_indices_map = devices_indices_map

    def _key(self) -> Any:
        return ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self), self._key()))


class SingleDeviceSharding(Sharding):
    def __init__(self, device: Any = DEVICE, *, memory_kind: str | None = None) -> None:
        self._device = device

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self._device!r}, memory_kind={self.memory_kind})"


class NamedSharding(Sharding):
    def __init__(self, mesh: Mesh, spec: Any, *, memory_kind: str | None = None) -> None:
        self.memory_kind = memory_kind or Sharding.memory_kind
        if not isinstance(spec, PartitionSpec):
            raise TypeError(f"a NamedSharding needs a PartitionSpec, not {spec!r}")
        named = [n for axis in spec for n in (axis if isinstance(axis, tuple) else (axis,)) if n is not None]
        for name in named:
            if name is not PartitionSpec.UNCONSTRAINED and name not in mesh.axis_names:
                raise ValueError(f"Resource axis: {name} of {spec} is not found in mesh: {mesh.axis_names}.")
            if named.count(name) > 1 and name is not PartitionSpec.UNCONSTRAINED:
                raise DuplicateSpecError(
                    "A single NamedSharding spec specification can map every mesh axis to at most one positional "
                    f"dimension, but {spec} has duplicate entries for `{name}`"
                )
        self.mesh, self.spec = mesh, spec

    def __repr__(self) -> str:
        return f"NamedSharding(mesh={self.mesh}, spec={self.spec!r}, memory_kind={self.memory_kind})"

    def update(self, **changed: Any) -> NamedSharding:
        return NamedSharding(changed.get("mesh", self.mesh), changed.get("spec", self.spec))

    def _key(self) -> Any:
        return self.mesh, self.spec, self.memory_kind


class Shard(types.SimpleNamespace):
    """The one part of an array."""

    def __repr__(self) -> str:
        return f"Shard(device={self.device!r}, index={self.index}, replica_id={self.replica_id}, data={self.data})"


def make_mesh(axis_shapes: Any, axis_names: Any, axis_types: Any = None, *, devices: Any = None) -> Mesh:
    if int(np.prod(axis_shapes)) != 1:
        raise ValueError(f"Number of devices 1 must be >= the product of mesh_shape {tuple(axis_shapes)}")
    kinds = axis_types or (AxisType.Explicit,) * len(tuple(axis_shapes))
    return Mesh(np.array([DEVICE], object).reshape(tuple(axis_shapes)), axis_names, kinds)


def create_device_mesh(mesh_shape: Any, devices: Any = None, **options: Any) -> np.ndarray:
    return make_mesh(mesh_shape, [f"axis{i}" for i in range(len(mesh_shape))]).devices


@contextlib.contextmanager
def set_mesh(mesh: Any) -> Iterator[Any]:
    _open_meshes.append(mesh)
    try:
        yield mesh
    finally:
        _open_meshes.pop()


_across: list[Any] = []  # functions that run on each device and have not returned


@contextlib.contextmanager
def _on_devices(f: Any) -> Iterator[None]:
    _across.append(f)
    try:
        yield
    finally:
        _across.pop()


def on_each_device() -> bool:
    """Whether what is called runs on each device: in lanes of Lamina's vmap, and in none of a user's."""
    return bool(_across)


def pmap(fun: Callable[..., Any], axis_name: Any = None, **options: Any) -> Callable[..., Any]:
    """One lane, as there is one device. ValueError for more."""
    static = options.get("static_broadcasted_argnums", ())
    static = (static,) if isinstance(static, int) else tuple(static)
    donated = options.get("donate_argnums", ())
    donated = (donated,) if isinstance(donated, int) else tuple(donated)
    in_axes, out_axes = options.get("in_axes", 0), options.get("out_axes", 0)
    made: dict[Any, Any] = {}

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not lm.tree.tree_leaves((args, kwargs)):
            raise ValueError("pmap requires at least one argument with a mapped axis.")
        if any(n >= len(args) for n in static):
            raise ValueError(
                f"pmapped function has static_broadcasted_argnums={static} but was called with only {len(args)} "
                f"positional argument{'s' * (len(args) != 1)}. All static broadcasted arguments must be passed "
                "positionally."
            )
        lanes = {np.shape(x)[0] for i, a in enumerate(args) if i not in static for x in lm.tree.tree_leaves(a)
                 if in_axes == 0 and np.ndim(x)}  # fmt: skip
        if lanes and lanes != {1}:
            raise ValueError(f"pmap runs each of {max(lanes)} lanes on a device of its own, and there is one")
        fixed = {i: a for i, a in enumerate(args) if i in static}

        def of_others(*given: Any, **named: Any) -> Any:
            full = list(given)
            for i in sorted(fixed):
                full.insert(i, fixed[i])
            with _on_devices(fun):
                return fun(*full, **named)

        key = tuple(sorted(fixed.items()))
        if key not in made:
            name = axis_name if axis_name is not None else "<pmap>"
            axes = in_axes
            if isinstance(axes, tuple):
                axes = tuple(a for i, a in enumerate(axes) if i not in static)
            # The number of an argument among those that are not static.
            given_up = [n - sum(s < n for s in static) for n in donated if n not in static]
            made[key] = lm.jit(
                lm.vmap(of_others, axes, out_axes, axis_name=name), donate_argnums=given_up or None
            )
        return wrapped(made[key])(*(a for i, a in enumerate(args) if i not in static), **kwargs)

    return call


def shard_map(
    f: Any = None, /, *, mesh: Any = None, in_specs: Any = None, out_specs: Any = None, **options: Any
) -> Any:
    """One lane along each axis of the mesh, which spreads nothing."""
    if f is None:
        return lambda g: shard_map(g, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)

    @functools.wraps(f)
    def call(*args: Any) -> Any:
        if mesh is None and not _open_meshes:
            raise ValueError(
                "The context mesh cannot be empty. Use `jax.set_mesh(mesh)` to enter into a mesh context"
            )
        axes = (mesh if mesh is not None else _open_meshes[-1]).axis_names
        _check_specs(in_specs, args, axes, "in_specs")

        def run(names: Any) -> Any:
            if not names:
                with _on_devices(f):
                    return f(*args)
            out = lm.vmap(lambda: run(names[1:]), axis_name=names[0], axis_size=1)()
            return lm.tree.map(lambda x: x[0], out)

        out = run(axes)
        _check_specs(out_specs, out, axes, "out_specs")
        return out

    return wrapped(call)


def to_device(x: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """The array on the one device, or by a sharding."""
    if stream is not None:
        raise NotImplementedError("stream argument of array.to_device()")
    return put(x, device) if isinstance(device, Sharding) else x


def _no_flat(x: Tensor) -> Any:
    raise NotImplementedError(
        "JAX Arrays do not implement the arr.flat property: consider arr.flatten() instead."
    )


def _check_specs(specs: Any, values: Any, axes: tuple[str, ...], what: str) -> None:
    """ValueError for specs that are no prefix of values, name no axis of the mesh or more dimensions than there are."""
    if specs is None:
        return
    if not isinstance(specs, PartitionSpec):
        parts, mine = tree_children(specs), tree_children(values)
        if parts is None or mine is None or len(parts[0]) != len(mine[0]):
            raise ValueError(f"shard_map {what} {specs!r} is no prefix of the structure of what it tells of")
        for spec, value in zip(parts[0], mine[0], strict=True):
            _check_specs(spec, value, axes, what)
        return
    for name in (n for part in specs for n in (part if isinstance(part, tuple) else (part,))):
        if name is not None and name not in axes:
            raise ValueError(
                f"shard_map {what} argument must refer to an axis marked as manual ({axes}), but: {what} refers to "
                f"{name!r}"
            )
    for x in lm.tree.tree_leaves(values):
        if np.ndim(x) < len(specs):
            raise ValueError(
                f"shard_map was given an {what} entry {specs!r} which is too long to be compatible with the "
                f"corresponding value of shape {np.shape(x)}"
            )


def auto_axes(fun: Any = None, /, **options: Any) -> Any:
    """The function: there is no axis that is spread over any."""
    return (lambda f: f) if fun is None else fun


def make_array_from_callback(shape: Any, sharding: Any, data_callback: Any, **options: Any) -> Any:
    """The whole array: there is one part."""
    made = data_callback((slice(None),) * len(tuple(shape)))
    return made if hasattr(made, "_words") else wrapped(lm.numpy.asarray)(made)


def make_array_from_single_device_arrays(shape: Any, sharding: Any, arrays: Any, **options: Any) -> Any:
    if not isinstance(arrays, (list, tuple)):
        raise TypeError(f"arrays come as a list or tuple, not as a {type(arrays).__name__}")
    if len(arrays) != 1:
        raise ValueError(f"there is one device, but {len(arrays)} arrays were given")
    if tuple(arrays[0].shape) != tuple(shape):
        raise ValueError(f"an array of shape {tuple(arrays[0].shape)} is no array of shape {tuple(shape)}")
    return arrays[0]


def make_array_from_process_local_data(sharding: Any, local_data: Any, global_shape: Any = None) -> Any:
    """Of a container, one array for each of its own; ValueError for a global shape that the data does not fill."""
    leaves, structure = lm.tree.tree_flatten(local_data)
    one = global_shape is None or all(n is None or isinstance(n, int) for n in global_shape)
    shapes = [global_shape] * len(leaves) if one else structure.flatten_up_to(global_shape)
    return structure.unflatten([_whole(x, s) for x, s in zip(leaves, shapes, strict=True)])


def _whole(local_data: Any, global_shape: Any) -> Any:
    data = wrapped(lm.numpy.asarray)(local_data)
    wanted = tuple(data.shape) if global_shape is None else tuple(global_shape)
    if len(wanted) != data.ndim:
        raise ValueError(f"data of {data.ndim} dimensions is no part of an array of shape {wanted}")
    if any(w is not None and w != n for w, n in zip(wanted, data.shape, strict=True)):
        raise ValueError(f"data of shape {tuple(data.shape)} is not all of an array of shape {wanted}")
    return data


MAKING = (
    "make_array_from_callback",
    "make_array_from_single_device_arrays",
    "make_array_from_process_local_data",
)
NAMES: dict[str, Any] = {
    "auto_axes": auto_axes,
    "explicit_axes": auto_axes,
    "use_abstract_mesh": set_mesh,
    "Sharding": Sharding,
    "NamedSharding": NamedSharding,
    "SingleDeviceSharding": SingleDeviceSharding,
    "make_single_device_sharding": SingleDeviceSharding,
    "PartitionSpec": PartitionSpec,
    "Mesh": Mesh,
    "set_mesh": set_mesh,
    "use_mesh": set_mesh,
    "AbstractMesh": AbstractMesh,
    "get_abstract_mesh": get_abstract_mesh,
    "reshard": lambda x, sharding: x,
    "AxisType": AxisType,
}


def _sharding(x: Tensor) -> Any:
    if _core.any_open_scope() and not _core.forceable(x):
        raise AttributeError
    known = _placed.get(id(x))
    return known[1] if known is not None and known[0]() is x else SingleDeviceSharding()


_placed: dict[int, tuple[Any, Any]] = {}  # arrays that were put by a sharding, and that, by their addresses


def put(x: Tensor, sharding: Any) -> Tensor:
    """The array by a sharding, which it tells from now on: itself where it does already."""
    if isinstance(sharding, NamedSharding) and len(sharding.spec) > x.ndim:
        raise ValueError(
            f"One of device_put args is incompatible with its sharding annotation {sharding!r}: it has {x.ndim} "
            f"dimensions, and the specification {len(sharding.spec)}"
        )
    if x.sharding == sharding:
        return x
    x = lm.device_put(x)
    address = id(x)
    _placed[address] = weakref.ref(x, lambda _: _placed.pop(address, None)), sharding
    return x


def placed(out: Any, shardings: Any) -> Any:
    """Results by the shardings that a jitted function gives them; inside of traces as they are."""
    if shardings is None or _core.any_open_scope():
        return out

    def part(sharding: Any, values: Any) -> Any:
        if not isinstance(sharding, Sharding):
            return values
        return lm.tree.map(lambda x: put(x, sharding) if type(x) is Tensor else x, values)

    return lm.tree.map(
        part, shardings, out, is_leaf=lambda s: s is None or isinstance(s, (Sharding, PartitionSpec))
    )


def _absent(of_tensor: Callable[[Tensor, str], Any]) -> Callable[[Tensor, str], Any]:
    """What looks for names that arrays have not, and is asked where a property raises too."""

    def find(x: Tensor, name: str) -> Any:
        if name == "sharding":
            raise AttributeError(
                "a traced array has no sharding of its own: jax.typeof(x).sharding is that of its type"
            )
        return of_tensor(x, name)

    return find


def install() -> None:
    """What JAX's arrays say about devices."""
    Tensor.aval = property(typeof)
    Tensor._trace = property(lambda x: CURRENT_TRACE)
    Tensor.sharding = property(_sharding)
    Tensor.__getattr__ = _absent(Tensor.__getattr__)
    Tensor.device = property(lambda x: DEVICE)
    Tensor.devices = lambda x: {DEVICE}
    Tensor.committed = Tensor._committed = property(lambda x: False)
    Tensor.is_fully_addressable = Tensor.is_fully_replicated = property(lambda x: True)
    Tensor.addressable_shards = Tensor.global_shards = property(
        lambda x: [Shard(data=x, device=DEVICE, index=(slice(None),) * x.ndim, replica_id=0)]
    )
    Tensor.addressable_data = lambda x, index: x
    Tensor.unsafe_buffer_pointer = lambda x: np.asarray(x).__array_interface__["data"][0]
    Tensor.copy_to_host_async = lambda x: None
    Tensor.on_device_size_in_bytes = lambda x: x.nbytes
    Tensor.to_device = to_device
    Tensor.flat = property(_no_flat)
    Tensor.traceback = property(lambda x: None)
    Tensor.__array_priority__ = 100
