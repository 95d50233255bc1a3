"""Functions of `jax.numpy` that refuse what Lamina and NumPy take, or take what those refuse."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import lamina as lm
import numpy as np
from lamina import _core
from lamina import numpy as lnp
from lamina._core import Tensor

from lamina_as_jax import types64


@functools.wraps(lnp.clip)
def clip(arr: Any, /, min: Any = None, max: Any = None) -> Any:
    """ValueError for complex numbers, which NumPy orders by their real parts."""
    if any(lnp.result_type(v).kind == "c" for v in (arr, min, max) if v is not None):
        raise ValueError(
            "Clip received a complex value either through the input or the min/max keywords. Complex values have no "
            "ordering and cannot be clipped. Please convert to real values or arrays by taking the real or imaginary "
            "components"
        )
    return types64.wrapped(lnp.clip)(arr, min, max)


def _diagonal(name: str, place: int) -> Callable[..., Any]:
    """A triangle up to the k-th diagonal, whose number has the type of integers."""
    inner = types64.wrapped(getattr(lnp, name))

    @functools.wraps(inner)
    def call(*args: Any, **kwargs: Any) -> Any:
        k = kwargs.get("k", args[place] if len(args) > place else 0)
        limit = 2 ** (types64.canonical(int).itemsize * 8 - 1)
        if isinstance(k, (int, np.integer)) and not -limit <= k < limit:
            raise OverflowError(f"Python integer {k} out of bounds for {types64.canonical(int)}")
        return inner(*args, **kwargs)

    return call


def _raising(name: str) -> Callable[..., Any]:
    """A function of indices with the mode "raise", which needs to know them."""
    inner = types64.wrapped(getattr(lnp, name))

    @functools.wraps(inner)
    def call(*args: Any, **kwargs: Any) -> Any:
        by_place = args[3:] if name == "choose" else args[2:]
        mode = kwargs.get("mode", by_place[0] if by_place else "raise")
        indices = [x for x in lm.tree.tree_leaves(args[:1]) if type(x) is Tensor]
        if mode == "raise" and not all(map(_core.forceable, indices)):
            raise TypeError(
                "Abstract tracer value encountered where concrete value is expected. The error occurred because "
                f"jnp.{name} was jit-compiled with mode='raise'. Use mode='wrap' or mode='clip' instead."
            )
        return inner(*args, **kwargs)

    return call


@functools.wraps(lnp.bincount)
def bincount(x: Any, *args: Any, **kwargs: Any) -> Any:
    """Negative integers count as zeros."""
    counted = types64.wrapped(lnp.bincount)
    if lnp.result_type(x).kind == "i" and not isinstance(x, (list, tuple)):
        x = lnp.maximum(x, 0)
    return counted(x, *args, **kwargs)


@functools.wraps(lnp.unravel_index)
def unravel_index(indices: Any, shape: Any) -> Any:
    """Known indices out of range are the nearest one, and negative ones count from the end."""
    sizes = np.atleast_1d(shape) if isinstance(shape, (int, tuple, list)) else ()
    if len(sizes) and all(isinstance(n, np.integer) for n in sizes) and lnp.result_type(indices).kind in "iu":
        size = math.prod(map(int, sizes))
        places = lnp.clip(indices, -size if lnp.result_type(indices).kind == "i" else 0, size - 1)
        indices = lnp.where(places < 0, places + size, places)
    return types64.wrapped(lnp.unravel_index)(indices, shape)


NUMPY: dict[str, Any] = {
    "clip": clip,
    "tri": _diagonal("tri", 2),
    **{n: _diagonal(n, 1) for n in ("tril", "triu")},
    **{n: _raising(n) for n in ("choose", "ravel_multi_index")},
    "bincount": bincount,
    "unravel_index": unravel_index,
}


def _along_many(name: str) -> Callable[..., Any]:
    """A Fourier transform along several axes, each once: two of them where that is in its name."""
    inner = types64.wrapped(getattr(lnp.fft, name))

    @functools.wraps(inner)
    def call(a: Any, s: Any = None, axes: Sequence[int] | None = None, norm: str | None = None) -> Any:
        if axes is None:
            return inner(a, s, norm=norm)
        if name.endswith("2") and len(axes) != 2:
            raise ValueError(f"jax.numpy.fft.{name} only supports 2 axes. Got axes = {axes}.")
        rank = np.ndim(a)
        if len({operator.index(d) % rank if -rank <= d < rank else d for d in axes}) != len(axes):
            raise ValueError(f"jax.numpy.fft.{name} does not support repeated axes. Got axes {axes}.")
        return inner(a, s, axes, norm)

    return call


FFT = {
    name: _along_many(name)
    for name in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")
}
