"""What the array API asks a namespace about itself."""

from __future__ import annotations

from typing import Any

from lamina import _devices, dtypes
from lamina.numpy._common import default_float, default_int
from lamina.numpy._dtypes import isdtype

# The element types that the standard knows.
_STANDARD = (
    "bool",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "float32",
    "float64",
    "complex64",
    "complex128",
)


class Info:
    """Capabilities, devices and element types of lamina.numpy, as the array API asks for them."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean indexing and shapes that depend on data work outside `jit`; dimensions are not limited."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": None}

    def default_device(self) -> Any:
        """The device that arrays are made on when none is named."""
        return _devices.find(None)

    def devices(self) -> list[Any]:
        """Every device."""
        return list(_devices.devices())

    def default_dtypes(self, *, device: Any = None) -> dict[str, dtypes.DType]:
        """The element types that nothing else decides (see `lamina.default_dtypes`), by kind."""
        _devices.find(device)
        return {
            "real floating": dtypes.TABLE[default_float()],
            "complex floating": dtypes.canonical(complex),
            "integral": dtypes.TABLE[default_int()],
            "indexing": dtypes.TABLE["int32"],
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, dtypes.DType]:
        """The standard's element types of a kind, as `isdtype` takes it (None: all), by name."""
        _devices.find(device)
        return {n: dtypes.TABLE[n] for n in _STANDARD if kind is None or isdtype(n, kind)}


def __array_namespace_info__() -> Info:
    """What the namespace can do: an object with `capabilities()`, `devices()`, `default_device()`,
    `default_dtypes()` and `dtypes()`.
    """
    return Info()


__all__ = ["__array_namespace_info__"]
