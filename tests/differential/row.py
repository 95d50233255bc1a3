"""What a row of the tables of functions says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

FLOATS = ("float32", "float64", "bfloat16")
# Shapes of the arguments of a call: ordinary, 0-d, empty.
ONE = (((2, 3),), ((),), ((0, 3),))


@dataclass(frozen=True, eq=False)
class Row:
    """`names` share the row. `low` and `high` bound the sampled values; `order` is that of the derivative that is
    compared; `weak` tries Python numbers beside an array."""

    names: str
    call: Callable[..., Any] | None = None
    dtypes: tuple[str, ...] = FLOATS
    shapes: tuple[tuple[tuple[int, ...], ...], ...] = ONE
    low: float = -2.0
    high: float = 2.0
    order: int = 2
    weak: bool = False
    # Last places of the result's type: rounding differs, and sums have another order.
    ulps: float = 16.0
    vmap: bool = True
    jit: bool = True
