"""What the array API asks a namespace about itself, as JAX answers it."""

from __future__ import annotations

from typing import Any

import numpy as np
from lamina import numpy as lnp

from lamina_as_jax import sharding, types64


class Info:
    """Shapes are known before values, and dimensions are limited."""

    def __init__(self) -> None:
        self._inner = lnp.__array_namespace_info__()

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> None:
        """None stands for it."""

    def devices(self) -> list[Any]:
        return [None, *sharding.devices()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        default = {"real floating": float, "complex floating": complex, "integral": int, "indexing": int}
        return {kind: types64.canonical(number) for kind, number in default.items()}

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        """Those that there are: without ``jax_enable_x64`` none of 64 bits."""
        names = self._inner.dtypes(kind=kind)
        return {n: np.dtype(n) for n in names if types64.narrowed(n) == n}
