"""Quantized types in NumPy: the specification's formulas on arrays of stored integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from spec_elements import BY_TEXT, Element


@dataclass(frozen=True)
class Quantized:
    """A quantized element type; several scales only along `dimension`."""

    storage: Element = BY_TEXT["i8"]
    expressed: Element = BY_TEXT["f32"]
    scales: tuple[float, ...] = (0.5,)
    zero_points: tuple[int, ...] = (0,)
    dimension: int | None = None
    bounds: tuple[int, int] | None = None

    @property
    def dtype(self) -> np.dtype:
        return self.storage.dtype

    @property
    def least(self) -> int:
        return self.bounds[0] if self.bounds else int(ml_dtypes.iinfo(self.dtype).min)

    @property
    def greatest(self) -> int:
        return self.bounds[1] if self.bounds else int(ml_dtypes.iinfo(self.dtype).max)

    @property
    def text(self) -> str:
        """As a StableHLO element type; a zero point of 0 is left out."""
        bounds = f"<{self.least}:{self.greatest}>" if self.bounds else ""
        storage = self.storage.text.replace("ui", "u")
        listed = ", ".join(f"{s!r}:{z}" if z else repr(s) for s, z in zip(self.scales, self.zero_points))
        axis = "" if self.dimension is None else f":{self.dimension}"
        listed = listed if self.dimension is None else f"{{{listed}}}"
        return f"!quant.uniform<{storage}{bounds}:{self.expressed.text}{axis}, {listed}>"

    def tensor(self, shape: Sequence[int]) -> str:
        return f"tensor<{''.join(f'{d}x' for d in shape)}{self.text}>"

    def _spread(self, values: Sequence[Any], ndim: int, dtype: Any) -> np.ndarray:
        listed = np.array(values, dtype)
        if self.dimension is None:
            return listed[0]
        return listed.reshape([-1 if d == self.dimension else 1 for d in range(ndim)])

    def numbers(self, stored: np.ndarray) -> np.ndarray:
        """(i - zero_point) * scale in the expressed type."""
        difference = stored.astype(np.int64) - self._spread(self.zero_points, stored.ndim, np.int64)
        return difference.astype(self.expressed.dtype) * self._spread(
            self.scales, stored.ndim, self.expressed.dtype
        )

    def stored(self, numbers: np.ndarray) -> np.ndarray:
        """x / scale + zero_point, clamped to the bounds and rounded to even, each step in the expressed type."""
        expressed = self.expressed.dtype
        x = np.asarray(numbers, expressed) / self._spread(self.scales, np.ndim(numbers), expressed)
        x = x + self._spread(self.zero_points, np.ndim(numbers), np.int64).astype(expressed)
        x = np.rint(np.clip(x, expressed.type(self.least), expressed.type(self.greatest)).astype(expressed))
        whole = np.nan_to_num(x.astype(np.float64), nan=0.0)
        return np.clip(whole, self.least, self.greatest).astype(np.int64).astype(self.dtype)

    def random(self, rng: np.random.Generator, shape: Sequence[int]) -> np.ndarray:
        """Stored integers of the whole range, the bounds among them."""
        out = np.asarray(rng.integers(self.least, self.greatest, shape, np.int64, endpoint=True))
        if out.size > 2:
            out.flat[0], out.flat[1] = self.least, self.greatest
        return out.astype(self.dtype)

    def apply(
        self, f: Callable[..., Any], stored: Sequence[np.ndarray], kinds: Sequence[Quantized]
    ) -> np.ndarray:
        """The operation on the numbers, stored as this type."""
        return self.stored(f(*(k.numbers(x) for k, x in zip(kinds, stored))))
