"""What NumPy arrays have besides functions: flat, fill, view, tobytes, unary plus, membership, orders of elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lamina import _core, _missing, dtypes
from lamina._core import Tensor
from lamina._results import seen_as
from lamina._tensor import _needs_value, numpy, write


class Flat:
    """The elements of a Tensor in row-major order, to be read, written (``x.flat[i] = v``) and iterated over."""

    __slots__ = ("_x",)

    def __init__(self, x: Tensor) -> None:
        self._x = x

    def __len__(self) -> int:
        return self._x.size

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._x.reshape(-1))

    def __getitem__(self, key: Any) -> Tensor:
        return self._x.reshape(-1)[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        from lamina import _indexing

        x = self._x
        flat = _indexing.setitem_value(x.reshape(-1), key, value)
        write(x, _indexing.reshape(flat, x.shape))

    def copy(self) -> Tensor:
        """The elements as a 1-d Tensor."""
        return self._x.reshape(-1).copy()


def _is_deleted(self: Tensor) -> bool:
    """Whether the array was given up: deleted, or donated to a jitted function that has written over it."""
    return not _core.forceable(self) and "was donated or deleted" in _core.why_unknown(self)


def _delete(self: Tensor) -> None:
    """Gives the value up: its memory is free once no other Tensor or array has it. Reading it is a TypeError then.

    TypeError for what is being traced.
    """
    if not _is_deleted(self):
        _needs_value(self, "delete()")
        _core.give_up(self)


def _fill(self: Tensor, value: Any) -> None:
    """Writes a scalar everywhere."""
    self[...] = value


def _view(self: Tensor, dtype: Any = None) -> Tensor:
    """The same bits as another element type; the last dimension grows or shrinks with the width, as in NumPy.

    A copy, and writing to it raises while `self` lives. TypeError where the types have no common bits, ValueError
    where the last dimension does not divide.
    """
    from lamina import lax
    from lamina import numpy as lnp

    if dtype is None or dtypes.canonical(dtype) == self.dtype:
        return self.copy()
    target = dtypes.canonical(dtype)
    if self.dtype.kind == "b":
        return _view(self.astype("uint8"), target)
    if target.kind == "b":
        raise TypeError(
            f"{self.dtype.name} elements cannot be seen as bool: their bytes may be neither 0 nor 1"
        )
    if self.dtype.kind == "c":
        parts = lnp.stack([self.real, self.imag], -1)
        return _view(lnp.reshape(parts, (*self.shape[:-1], -1) if self.ndim else (2,)), target)
    if target.kind == "c":
        part = "float32" if target == "complex64" else "float64"
        if self.ndim == 0:
            raise ValueError("a 0-d array cannot be seen as wider elements")
        floats = _view(self, part)
        if floats.shape[-1] % 2:
            raise ValueError(
                f"a last dimension of {self.shape[-1]} does not divide into {target.name} elements"
            )
        pairs = lnp.reshape(floats, (*floats.shape[:-1], -1, 2))
        return lax.complex(pairs[..., 0], pairs[..., 1])
    have, want = (8 if t.bits == 6 else t.bits for t in (dtypes.canonical(self.dtype), target))
    if have == want:
        return lax.bitcast_convert_type(self, target)
    if self.ndim == 0:
        raise ValueError(
            f"a 0-d array of {self.dtype.name} cannot be seen as {target.name}: the widths differ"
        )
    if have > want:
        return lnp.reshape(lax.bitcast_convert_type(self, target), (*self.shape[:-1], -1))
    n = want // have
    if self.shape[-1] % n:
        raise ValueError(f"a last dimension of {self.shape[-1]} does not divide into {target.name} elements")
    return lax.bitcast_convert_type(lnp.reshape(self, (*self.shape[:-1], self.shape[-1] // n, n)), target)


def _tobytes(self: Tensor, order: str = "C") -> bytes:
    """The elements' bytes in row-major (C) or column-major (F) order."""
    return numpy(self).tobytes(order)


def _byteswap(self: Tensor, inplace: bool = False) -> Tensor:
    """The array with the bytes of each element in the other order; with `inplace` written to it, too."""
    from lamina import lax
    from lamina.numpy._common import in_place

    part = {8: 4, 16: 8}[self.dtype.itemsize] if self.dtype.kind == "c" else self.dtype.itemsize
    if part == 1:
        swapped = self.copy()
    elif self.dtype.kind == "c":
        swapped = lax.complex(*(_byteswap(x) for x in (self.real, self.imag)))
    else:
        octets = lax.bitcast_convert_type(self, "uint8")
        swapped = lax.bitcast_convert_type(lax.rev(octets, (octets.ndim - 1,)), self.dtype)
    if inplace:
        in_place(self, swapped, "byteswap")
    return swapped


def _reversed(self: Tensor) -> Iterator[Tensor]:
    return iter(self[::-1])


def _contains(self: Tensor, item: Any) -> bool:
    same = self == item
    return bool(same.any()) if isinstance(same, Tensor) else bool(same)


def _flatten(self: Tensor, order: str = "C") -> Tensor:
    """The elements in one dimension, in row-major (C) or column-major (F) order."""
    from lamina import numpy as lnp

    return lnp.ravel(self, order).copy()


def _conjugate(self: Tensor) -> Tensor:
    """The complex conjugate; of real elements a view of them."""
    from lamina import numpy as lnp

    conjugate = lnp.conjugate(self)
    return conjugate if self.dtype.kind == "c" else seen_as(self, conjugate)


def _positive(self: Tensor) -> Tensor:
    from lamina import numpy as lnp

    return lnp.positive(self)


def install() -> None:
    """Attaches them to the type; called once when the package is imported."""
    viewed = _core.own_results(_view, True)
    Tensor.is_deleted, Tensor.delete = _is_deleted, _delete
    Tensor.flat = property(Flat, lambda self, value: Flat(self).__setitem__(slice(None), value))
    Tensor.fill = _fill
    Tensor.view = lambda self, dtype=None: viewed(self, dtype)
    Tensor.tobytes = _tobytes
    Tensor.byteswap = _byteswap
    Tensor.flatten = _flatten
    Tensor.conj = Tensor.conjugate = _conjugate
    Tensor.__reversed__ = _reversed
    Tensor.__contains__ = _contains
    Tensor.__pos__ = _positive
    Tensor.__getattr__ = _missing.of_tensor
