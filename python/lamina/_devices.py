"""Names of JAX about devices and names of parts of programs: there is one device, the CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from lamina._tensor import numpy, to_tensor

NAMES = ("cpu",)


def check(device: Any) -> None:
    """ValueError unless `device` names one that is there; None is any."""
    if device is not None and str(device) not in NAMES:
        raise ValueError(f"there is no device {device!r}; there is {', '.join(map(repr, NAMES))}")


def device_put(x: Any, device: Any = None, **options: Any) -> Any:
    """The arrays of a container as Tensors; the other arguments have no effect."""
    from lamina.tree import tree_map

    return tree_map(lambda leaf: to_tensor(leaf).copy(), x)


def device_get(x: Any) -> Any:
    """The arrays of a container as NumPy arrays. TypeError where a value is not known or has an open derivative."""
    from lamina.tree import tree_map

    return tree_map(lambda leaf: numpy(to_tensor(leaf)), x)


def default_backend() -> str:
    """The kind of device, "cpu"."""
    return "cpu"


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
