"""Another library in the process, with arrays and streams of its own on the stand-in for CUDA's driver.

What it does is asynchronous, as that of any such library is: it waits for nothing but where that is said. Imported by
programs that tests/python/test_exchange.py runs with LAMINA_CUDA_DRIVER.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np

DRIVER = ctypes.CDLL(os.environ["LAMINA_CUDA_DRIVER"])
NON_BLOCKING = 1
Handle = ctypes.c_void_p
Address = ctypes.c_uint64
_kept: list[Any] = []  # what the driver still reads and writes


def call(name: str, *arguments: Any) -> None:
    result = getattr(DRIVER, name)(*arguments)
    assert result == 0, (name, result)


def enter(device: int = 0) -> None:
    """Makes the device's context the thread's current one."""
    context = Handle()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxPushCurrent_v2", context)


class _Control(ctypes.Structure):
    """The members of StandinControl (tests/jit/cuda_standin/control.h) in their order, as far as they are used."""

    _Add = ctypes.CFUNCTYPE(None, Handle, ctypes.c_char_p)
    _fields_ = [
        ("set_seed", ctypes.CFUNCTYPE(None, ctypes.c_uint64)),
        ("set_mistake", ctypes.CFUNCTYPE(None, ctypes.c_int)),
        ("fail", ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_int64, ctypes.c_int)),
        ("fault", ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int)),
        ("add_kernel", Handle),
        ("set_runner", Handle),
        ("set_time", Handle),
        ("drain", ctypes.CFUNCTYPE(None)),
        ("take_violations", ctypes.CFUNCTYPE(None, Handle, _Add)),
    ]


DRIVER.lamina_cuda_standin.restype = ctypes.POINTER(_Control)
CONTROL = DRIVER.lamina_cuda_standin().contents
FORGETS_WAITS = 1
RECORD = 3


def violations() -> list[str]:
    """Runs everything; what was wrong since the last time."""
    found: list[str] = []
    add = _Control._Add(lambda _, text: found.append(text.decode()))
    CONTROL.drain()
    CONTROL.take_violations(None, add)
    return found


class Stream:
    def __init__(self, flags: int = NON_BLOCKING) -> None:
        made = Handle()
        call("cuStreamCreateWithPriority", ctypes.byref(made), flags, 0)
        self.handle: int = made.value or 0

    def waits_for(self, other: int) -> None:
        order(self.handle, other)

    def synchronize(self) -> None:
        call("cuStreamSynchronize", Handle(self.handle))


def order(later: int, earlier: int) -> None:
    """What is enqueued on the stream `later` from now on begins after what is on `earlier` now."""
    event = Handle()
    call("cuEventCreate", ctypes.byref(event), 2)
    call("cuEventRecord", event, Handle(earlier))
    call("cuStreamWaitEvent", Handle(later), event, 0)


def _pinned(bytes: int) -> Any:
    at = Handle()
    call("cuMemHostAlloc", ctypes.byref(at), ctypes.c_size_t(max(bytes, 1)), 1)
    return at


def write(address: int, values: np.ndarray, stream: int) -> None:
    staging = _pinned(values.nbytes)
    ctypes.memmove(staging, np.ascontiguousarray(values).ctypes.data, values.nbytes)
    call("cuMemcpyHtoDAsync_v2", Address(address), staging, ctypes.c_size_t(values.nbytes), Handle(stream))


def read_later(address: int, shape: Any, dtype: Any, stream: int) -> Any:
    """Enqueues a read; called, what gives its result waits for the stream."""
    count, dtype = int(np.prod(shape)), np.dtype(dtype)
    staging = _pinned(count * dtype.itemsize)
    call(
        "cuMemcpyDtoHAsync_v2",
        staging,
        Address(address),
        ctypes.c_size_t(count * dtype.itemsize),
        Handle(stream),
    )

    def result() -> np.ndarray:
        call("cuStreamSynchronize", Handle(stream))
        data = ctypes.string_at(staging, count * dtype.itemsize)
        return np.frombuffer(data, dtype).reshape(shape)

    return result


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_uint64),
        ("kind", ctypes.c_int32),
        ("number", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_Deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Managed(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("owner", ctypes.c_void_p),
        ("deleter", _Deleter),
        ("flags", ctypes.c_uint64),
        ("view", _Tensor),
    ]


_capsule_new = ctypes.pythonapi.PyCapsule_New
_capsule_new.restype, _capsule_new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, Handle]
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype, _capsule_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_capsule_name = ctypes.pythonapi.PyCapsule_SetName
_capsule_name.argtypes = [ctypes.py_object, ctypes.c_char_p]
_NAME, _USED = b"dltensor_versioned", b"used_dltensor_versioned"
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class Array:
    """Memory of its own that a stream of its own writes. `strides` in elements; `skip` elements at the begin."""

    def __init__(self, values: Any, stream: Stream | None = None, *, device: int = 0) -> None:
        whole = np.asarray(values)
        self.stream = stream or Stream()
        self.shape, self.dtype, self.device = whole.shape, whole.dtype, device
        self.strides = [s // whole.itemsize for s in np.ascontiguousarray(whole).strides]
        at = Address()
        call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(max(whole.nbytes, 1)))
        self.begin = self.address = at.value
        self.bytes = whole.nbytes
        self.released = 0
        self.is_ordered = True
        self.on_release: Any = None
        self.write(whole)

    def write(self, values: Any) -> None:
        """All of the memory, whatever part of it the array is."""
        write(self.begin, np.asarray(values, self.dtype), self.stream.handle)

    def free(self) -> None:
        call("cuMemFree_v2", Address(self.begin))

    def part(self, shape: Any, strides: Any, first: int = 0) -> Array:
        """The same memory, seen so."""
        out = object.__new__(Array)
        out.__dict__.update(self.__dict__, shape=tuple(shape), strides=list(strides))
        out.address = self.begin + first * self.dtype.itemsize
        return out

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.device

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None) -> Any:
        assert max_version == (1, 0) and stream not in (0, None)
        if self.is_ordered and stream != -1:
            order(stream, self.stream.handle)

        def deleter(_: Any) -> None:  # on any thread
            self.released += 1
            if self.on_release:
                enter(self.device)
                self.on_release()
                call("cuCtxPopCurrent_v2", ctypes.byref(Handle()))

        ints = ctypes.c_int64 * len(self.shape)
        shape, strides = ints(*self.shape), ints(*self.strides)
        made = _Managed(1, 0, None, _Deleter(deleter), 0)
        made.view = _Tensor(self.address, 2, self.device, len(self.shape), _CODES[self.dtype.kind],
                            self.dtype.itemsize * 8, 1, shape, strides, 0)  # fmt: skip
        _kept.append((made, shape, strides))
        return _capsule_new(ctypes.addressof(made), _NAME, None)


class CudaArray:
    """An `Array` by the array interface only. `stream`: what is said of it."""

    def __init__(self, array: Array, stream: int | None) -> None:
        size = array.dtype.itemsize
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape,
            "typestr": array.dtype.str,
            "data": (array.address, False),
            "strides": tuple(s * size for s in array.strides),
            "stream": stream,
            "version": 3,
        }


class Taken:
    """What was taken of another library by DLPack, and is had until `release`."""

    def __init__(self, capsule: Any) -> None:
        at = _capsule_pointer(capsule, _NAME)
        _capsule_name(capsule, _USED)
        self._managed = _Managed.from_address(at)
        view = self._managed.view
        self.address: int = view.data + view.byte_offset
        self.device = (view.kind, view.number)
        self.shape = tuple(view.shape[d] for d in range(view.ndim))
        self.strides = tuple(view.strides[d] for d in range(view.ndim))
        self.flags: int = self._managed.flags
        kind = next(kind for kind, code in _CODES.items() if code == view.code)
        self.dtype = np.dtype(bool if kind == "b" else f"{kind}{view.bits // 8}")

    def read_later(self, stream: int) -> Any:
        return read_later(self.address, self.shape, self.dtype, stream)

    def release(self) -> None:
        self._managed.deleter(ctypes.addressof(self._managed))
