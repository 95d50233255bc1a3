"""Objects that are indexed instead of called: mgrid, ogrid, r_, c_, s_, index_exp."""

from __future__ import annotations

from typing import Any

from lamina import _core
from lamina._core import Tensor
from lamina._tensor import astype, to_tensor
from lamina.numpy._creation import arange, linspace, meshgrid
from lamina.numpy._dtypes import result_type
from lamina.numpy._shape import concatenate, expand_dims, reshape, stack, swapaxes, transpose

__all__ = ["c_", "index_exp", "mgrid", "ogrid", "r_", "s_"]


def _range(key: slice, what: str) -> Tensor:
    """The numbers of start:stop:step; with an imaginary step nj, n numbers with both ends. None without any of them."""
    for part in ("start", "stop", "step"):
        if isinstance(v := getattr(key, part), Tensor) and not _core.forceable(v):
            raise TypeError(f"{what}: the {part} of a slice must be known, since the length depends on it")
    start = 0 if key.start is None else key.start
    step = 1 if key.step is None else key.step
    if key.stop is None and (key.start is not None or key.step is not None):
        raise ValueError(f"{what}: a slice needs its end, as in {what}[0:5]")
    stop = 0 if key.stop is None else key.stop
    if isinstance(step, complex):
        return linspace(start, stop, int(abs(step)))
    return arange(start, stop, step)


class _Grid:
    def __init__(self, name: str, dense: bool) -> None:
        self._name, self._dense = name, dense

    def __repr__(self) -> str:
        return f"lamina.numpy.{self._name}"

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _range(key, self._name)
        axes = [_range(k, self._name) for k in key]
        if not axes:
            return arange(0) if self._dense else []
        grids = meshgrid(*axes, indexing="ij", sparse=not self._dense)
        kind = result_type(*grids)
        return stack(grids) if self._dense else [astype(g, kind) for g in grids]


mgrid = _Grid("mgrid", True)
mgrid.__doc__ = (
    "Dense coordinates: ``mgrid[0:2, 0:3]`` is [2, 2, 3]; a step of nj gives n numbers with both ends."
)
ogrid = _Grid("ogrid", False)
ogrid.__doc__ = (
    "Coordinates of sizes that broadcast, of one type: ``ogrid[0:2, 0:3]`` is a list of [2, 1] and [1, 3]."
)


class _Joined:
    def __init__(self, name: str, axis: int, ndmin: int, trans1d: int, doc: str) -> None:
        self._name, self._options, self.__doc__ = name, (axis, ndmin, trans1d), doc

    def __repr__(self) -> str:
        return f"lamina.numpy.{self._name}"

    def __getitem__(self, key: Any) -> Tensor:
        items = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, trans1d = self._options
        line = ""
        if items and isinstance(items[0], str):
            directive = items.pop(0)
            if directive in ("r", "c"):
                line = directive
            else:
                axis, ndmin, trans1d = self._directive(directive)
        parts = []
        for item in items:
            if isinstance(item, str):
                raise ValueError(f"{self._name}: a directive comes first, not {item!r}")
            if isinstance(item, slice):
                part = _widened(_range(item, self._name), ndmin)
                parts.append(swapaxes(part, -1, trans1d) if ndmin > 1 and trans1d != -1 else part)
                continue
            t = to_tensor(item)
            part = _widened(t, ndmin)
            if trans1d != -1 and 0 < t.ndim < ndmin:
                extra = ndmin - t.ndim
                first = trans1d + extra + 1 if trans1d < 0 else trans1d
                order = list(range(ndmin))
                part = transpose(part, order[:first] + order[extra:] + order[first:extra])
            parts.append(part)
        if not parts:
            raise ValueError(f"{self._name} needs something to join")
        joined = concatenate(parts, axis)
        if line and joined.ndim == 1:  # a matrix in NumPy, which has two dimensions
            return reshape(joined, (1, -1) if line == "r" else (-1, 1))
        return joined

    def _directive(self, text: str) -> tuple[int, int, int]:
        try:
            numbers = [int(n) for n in text.split(",")]
            return (*numbers, *self._options[len(numbers) :])  # type: ignore[return-value]
        except ValueError:
            raise ValueError(
                f"{self._name}: the directive {text!r} is neither 'r' nor 'c' (a row or column of two dimensions), nor "
                "axis, ndmin and trans1d, as in '0,2,1'"
            ) from None


def _widened(t: Tensor, ndmin: int) -> Tensor:
    t = reshape(t, (1,)) if t.ndim == 0 else t
    return expand_dims(t, tuple(range(ndmin - t.ndim))) if t.ndim < ndmin else t


r_ = _Joined(
    "r_", 0, 1, -1, "Slices, numbers and arrays joined along the first axis: ``r_[1:4, 0, [7, 8]]``."
)
c_ = _Joined("c_", -1, 2, 0, "Arrays joined as columns, along the last of two axes: ``c_[a, b]``.")


class _Key:
    def __init__(self, name: str, always_tuple: bool) -> None:
        self._name, self._always_tuple = name, always_tuple

    def __repr__(self) -> str:
        return f"lamina.numpy.{self._name}"

    def __getitem__(self, key: Any) -> Any:
        return (key,) if self._always_tuple and not isinstance(key, tuple) else key


s_ = _Key("s_", False)
s_.__doc__ = "The index that stands in the brackets: ``x[s_[1:3, ...]]``."
index_exp = _Key("index_exp", True)
index_exp.__doc__ = "As `s_`, always a tuple."
