"""Devices, and names of JAX for parts of programs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from lamina import _core
from lamina._tensor import Tensor, numpy, to_tensor


class Device:
    """Where arrays lie and programs run: an item of `devices()`.

    It equals its name, "cpu:0", and the first of a platform the name of that, "cpu".
    """

    __slots__ = ("_id", "_platform")

    process_index = 0

    def __init__(self, platform: str, number: int) -> None:
        self._platform = platform
        self._id = number

    @property
    def platform(self) -> str:
        """The kind of device, "cpu"."""
        return self._platform

    device_kind = platform

    @property
    def id(self) -> int:
        """Its number among the devices of its kind."""
        return self._id

    def memory_stats(self) -> dict[str, int]:
        """Bytes that arrays and runs hold on it now, and the most they ever held."""
        live, peak = _core.device_memory(str(self))
        return {"bytes_in_use": live, "peak_bytes_in_use": peak}

    def __str__(self) -> str:
        return f"{self._platform}:{self._id}"

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (Device, str)):
            return NotImplemented
        return str(other) == str(self) or (self._id == 0 and str(other) == self._platform)

    def __hash__(self) -> int:
        return hash(str(self))


def _of_name(name: str) -> Device:
    platform, _, number = name.partition(":")
    return Device(platform, int(number))


def find(device: Any) -> Device:
    """The device that `device` is or names; None is the default one. ValueError where there is none."""
    if device is None:
        return _of_name(_core.default_device())
    if not isinstance(device, (Device, str)):
        raise ValueError(
            f"there is no device {device!r}: devices are the items of lamina.devices(), or their names"
        )
    return _of_name(_core.device_name(str(device)))


def of(x: Tensor) -> Device:
    """Where the Tensor's value lies, or will be computed."""
    return _of_name(_core.device_of(x))


def placed(x: Tensor, device: Any) -> Tensor:
    """The Tensor, put on `device` to stay there; itself for None. Errors as `device_put`."""
    return x if device is None else _core.put_on(x, str(find(device)))


def devices(backend: str | None = None) -> list[Device]:
    """Every device of the platform `backend`, or of the default device's. ValueError for one that is not there."""
    platform = default_backend() if backend is None else backend
    try:
        return [_of_name(name) for name in _core.device_names(platform)]
    except ValueError as e:
        raise ValueError(f"there is no platform {platform!r}: {e}") from None


def device_count(backend: str | None = None) -> int:
    """How many devices there are, as `devices` counts them."""
    return len(devices(backend))


@contextlib.contextmanager
def default_device(device: Any) -> Iterator[None]:
    """A block whose arrays are made on `device`, where nothing else says where; None stands for the usual one.

    For this thread. The usual one is "cpu:0", or what the environment variable LAMINA_DEFAULT_DEVICE names. What was
    recorded before is computed at entry, what is recorded in the block at its end. ValueError where there is no such
    device.
    """
    before = _core.set_default_device(None if device is None else str(find(device)))
    try:
        yield
    finally:
        _core.set_default_device(before)


def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None
) -> Any:
    """The arrays of a container as Tensors of `device`, which stay there: what is made of them is computed there.

    None leaves them where they are. Operations on Tensors that were put on different devices are ValueErrors. ValueError
    where there is no such device, NotImplementedError where an open transform depends on a value that would have to
    move. `src`, `donate` and `may_alias` are hints of JAX that change nothing.
    """
    from lamina.tree import tree_map

    if device is not None:
        find(device)
    return tree_map(lambda leaf: placed(to_tensor(leaf).copy(), device), x)


def device_get(x: Any) -> Any:
    """The arrays of a container as NumPy arrays; numbers stay what they are.

    TypeError where a value is not known or has an open derivative.
    """
    from lamina.tree import tree_leaves, tree_map

    _core.fetch([leaf for leaf in tree_leaves(x) if isinstance(leaf, Tensor) and _core.forceable(leaf)])
    return tree_map(lambda leaf: leaf if _core.is_number(leaf) else numpy(to_tensor(leaf)), x)


def default_backend() -> str:
    """The platform of the default device, "cpu"."""
    return find(None).platform


def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """`fun` itself: programs are shown with their lines."""
    return fun


@contextlib.contextmanager
def named_scope(name: str) -> Iterator[None]:
    """A block or function with a name, which changes nothing: programs are shown with their lines."""
    yield


@contextlib.contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """A block whose values are computed while a function is traced, as all are that depend on no argument of it."""
    yield
