"""Devices, and names of JAX for parts of programs. There is one device, "cpu:0"."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from lamina import _core
from lamina._tensor import numpy, to_tensor


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
        """Bytes that arrays and runs hold now, and the most they ever held."""
        stats = _core.cache_stats()
        return {"bytes_in_use": stats["live_bytes"], "peak_bytes_in_use": stats["peak_bytes"]}

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


_ALL = (Device("cpu", 0),)


def find(device: Any) -> Device:
    """The device that `device` is or names; None is the default one. ValueError where there is none."""
    if device is None:
        return _ALL[0]
    for known in _ALL:
        if known == device:
            return known
    raise ValueError(f"there is no device {device!r}; there is {', '.join(repr(str(d)) for d in _ALL)}")


def devices(backend: str | None = None) -> list[Device]:
    """Every device, of the platform `backend` if it is given. ValueError for a platform that is not there."""
    found = [d for d in _ALL if backend is None or d.platform == backend]
    if not found:
        raise ValueError(f"there is no platform {backend!r}; there is {_ALL[0].platform!r}")
    return found


def device_count(backend: str | None = None) -> int:
    """How many devices there are, as `devices` counts them."""
    return len(devices(backend))


@contextlib.contextmanager
def default_device(device: Any) -> Iterator[None]:
    """A block whose arrays are made on `device`; None stands for the first. ValueError where there is no such device."""
    find(device)
    yield


def device_put(
    x: Any, device: Any = None, *, src: Any = None, donate: Any = False, may_alias: Any = None
) -> Any:
    """The arrays of a container as Tensors of `device`, in memory of their own.

    ValueError where there is no such device. `src`, `donate` and `may_alias` are hints of JAX that change nothing.
    """
    from lamina.tree import tree_map

    find(device)
    return tree_map(lambda leaf: to_tensor(leaf).copy(), x)


def device_get(x: Any) -> Any:
    """The arrays of a container as NumPy arrays; numbers stay what they are.

    TypeError where a value is not known or has an open derivative.
    """
    from lamina.tree import tree_map

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
