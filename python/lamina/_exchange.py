"""Arrays that cross to other libraries and come from them where they lie: DLPack, and CUDA's array interface."""

from __future__ import annotations

import math
import weakref
from typing import Any

from lamina import _core, dtypes
from lamina._core import Tensor

# DLPack's names: of the host, and the kind of CUDA's devices.
_HOST = (1, 0)
_CUDA = 2
_NO_STREAM = -1


def dlpack_device(self: Tensor) -> tuple[int, int]:
    """The kind and number of the Tensor's device in DLPack. BufferError where DLPack has none for it."""
    here = _core.dlpack_device(self)
    if here is None:
        raise BufferError(
            f"DLPack has no kind of device for {self.device}; memory of the host (dl_device=(1, 0), or device='cpu' "
            "where another library takes the array) is to be had, as a copy"
        )
    return here


def dlpack(
    self: Tensor,
    *,
    stream: int | None = None,
    max_version: Any = None,
    dl_device: Any = None,
    copy: bool | None = None,
) -> Any:
    """A DLPack capsule sharing this Tensor's memory, read-only where the consumer knows version 1.

    On a CUDA device, what is enqueued on `stream` from then on finds the values: a handle, 1 or None for the legacy
    default stream, 2 for the thread's own; for -1 the consumer sees to that. ``dl_device=(1, 0)`` brings the values to
    memory of the host. BufferError where the Tensor is not to be had so.
    """
    here = _core.dlpack_device(self)
    wanted = dlpack_device(self) if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    if wanted not in (here, _HOST):
        raise BufferError(f"a Tensor on {self.device} cannot be exported to DLPack's device {wanted}")
    if wanted != here and copy is False:
        raise BufferError(f"a Tensor on {self.device} comes to the host as a copy: leave out copy=False")
    if here == _HOST and stream is not None:
        raise BufferError("a Tensor in memory of the host has no stream")
    versioned = max_version is not None and max_version[0] >= 1
    return _core.to_dlpack(self, versioned, wanted == _HOST, stream if wanted == here else None, bool(copy))


def from_dlpack(x: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """The array of an object with `__dlpack__` or `__cuda_array_interface__`, sharing its memory where that is dense.

    What others write to it later is then seen here; with ``copy=True`` nothing is shared. An array on a CUDA device
    stays there, as if by `device_put`, and its memory is let go of when nothing reads it any more. On another `device`
    than its own the array is a copy. Raises TypeError for other objects and unknown element types; ValueError where
    there is no such device; BufferError for memory that is of no device here, and where ``copy=False`` takes a copy.

    Example::

        lnp.from_dlpack(np.arange(3.0))   # Tensor([0., 1., 2.], dtype=float64)
    """
    from lamina import _devices

    target = None if device is None else _devices.find(device)
    if not hasattr(x, "__dlpack__"):
        if not is_on_cuda(x):
            raise TypeError(f"from_dlpack needs an object with __dlpack__, not {type(x).__name__}")
        t = from_cuda(x, copy)
        if copy is False and target is not None:
            _refuse_copy(_devices.of(t), target)
        return _devices.placed(t, device)
    asked: dict[str, Any] = {}
    try:
        kind, number = getattr(x, "__dlpack_device__", lambda: _HOST)()
        source, stream = _core.dlpack_source(int(kind), int(number))
        if stream is not None:
            asked["stream"] = stream
    except BufferError:
        if target is None or target.platform != "cpu":
            raise
        source, asked["dl_device"] = "the producer's device", _HOST
    if target is not None and target != source:
        if copy is False:
            _refuse_copy(source, target)
        copy = None
    try:
        capsule = x.__dlpack__(max_version=(1, 0), **asked)
    except TypeError:
        capsule = x.__dlpack__(**asked)
    return _devices.placed(_laid_out(*_core.from_dlpack(capsule, copy)), device)


def _refuse_copy(source: Any, target: Any) -> None:
    if target != source:
        raise BufferError(f"an array on {source} comes to {target} as a copy: leave out copy=False")


def _laid_out(t: Tensor, layout: Any) -> Tensor:
    """The elements of `t` in an array of this (shape, strides, position of the first)."""
    if layout is None:
        return t
    from lamina import numpy as lnp

    shape, strides, first = layout
    at = lnp.asarray(first, "int32" if t.size < 2**31 else "int64")
    for n, stride in zip(shape, strides):
        at = at[..., None] + stride * lnp.arange(n, dtype=at.dtype)
    t = lnp.take(t, at, mode="clip")
    if _core.forceable(t):
        _core.wait_for([t])  # what they write from here on is not read
    return t


def is_on_cuda(x: Any) -> bool:
    """Whether it shows memory of a CUDA device."""
    return not isinstance(x, type) and hasattr(x, "__cuda_array_interface__")


def from_cuda(x: Any, copy: bool | None) -> Tensor:
    """The array that `__cuda_array_interface__` shows; shared or a copy as in `from_dlpack`, whose errors it has."""
    import numpy as np

    shown = x.__cuda_array_interface__
    if shown.get("mask") is not None:
        raise ValueError("a masked array's mask would be lost: pass data and mask")
    dtype = np.dtype(shown["typestr"])
    if dtype.name not in dtypes.TABLE or not dtype.isnative:
        raise TypeError(f"an array of {shown['typestr']} elements cannot become a Tensor")
    shape = [int(n) for n in shown["shape"]]
    strides = shown.get("strides")
    if strides is None:
        strides = [math.prod(shape[d + 1 :]) * dtype.itemsize for d in range(len(shape))]
    if any(s % dtype.itemsize for s in strides):
        raise BufferError(
            f"the strides {tuple(strides)} are no multiples of the {dtype.itemsize} bytes of an element"
        )
    stream = shown.get("stream")
    return _laid_out(
        *_core.take_over(
            _CUDA,
            shown["data"][0],
            dtype.name,
            shape,
            [s // dtype.itemsize for s in strides],
            _NO_STREAM if stream is None else stream,
            x,
            copy,
        )
    )


# What others were shown of Tensors that live: the Tensor's id, with what keeps the memory, by address.
_shown: dict[int, tuple[Any, dict[int, Any]]] = {}


def cuda_array_interface(self: Tensor) -> dict[str, Any]:
    """CUDA's array interface (version 3): the values, read-only, are there on the stream that it names.

    The memory stays while the Tensor lives. AttributeError elsewhere than on a CUDA device, and for element types that
    the interface has no name for.
    """
    import numpy as np

    here = _core.dlpack_device(self)
    if here is None or here[0] != _CUDA:
        raise AttributeError(f"a Tensor on {self.device} is in no memory of CUDA")
    if dtypes.is_foreign(self.dtype):
        raise AttributeError(f"the interface has no name for elements of {self.dtype}; DLPack has")
    address, stream, holder = _core.hand_over(self)
    key = id(self)
    if key not in _shown:
        _shown[key] = (weakref.ref(self, lambda _: _shown.pop(key, None)), {})
    _shown[key][1][address] = holder
    return {
        "shape": self.shape,
        "typestr": np.dtype(self.dtype.name).str,
        "data": (address if self.size else 0, True),
        "strides": None,
        "stream": stream,
        "version": 3,
    }


def install() -> None:
    """Attaches what is above to the Tensor type."""
    Tensor.__dlpack__ = dlpack
    Tensor.__dlpack_device__ = dlpack_device
    Tensor.__cuda_array_interface__ = property(cuda_array_interface)
