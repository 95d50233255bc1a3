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

from lamina_as_jax import keys, types64


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


_take = keys.each_word(types64.wrapped(lnp.take))
_take_along_axis = types64.wrapped(lnp.take_along_axis)


@functools.wraps(lnp.take_along_axis)
def take_along_axis(
    arr: Any, indices: Any, axis: Any = -1, mode: str | None = None, *args: Any, **options: Any
) -> Any:
    """Fills as `take` does."""
    return _take_along_axis(arr, indices, axis, mode or "fill", *args, **options)


@functools.wraps(lnp.take)
def take(
    a: Any, indices: Any, axis: Any = None, out: Any = None, mode: str | None = None, **options: Any
) -> Any:
    """Fills the places of indices out of range, of which Lamina tells those that it knows.

    IndexError for any of an empty axis.
    """
    count = np.size(a) if axis is None else np.shape(a)[axis]
    return _take(a, indices, axis, out, mode or ("fill" if count else None), **options)


def _diagonal(name: str, place: int) -> Callable[..., Any]:
    """A triangle up to the k-th diagonal, whose number has the type of integers."""
    inner = types64.wrapped(getattr(lnp, name))

    @functools.wraps(inner)
    def call(*args: Any, **kwargs: Any) -> Any:
        k = kwargs.get("k", args[place] if len(args) > place else 0)
        limit = 2 ** (types64.canonical(int).itemsize * 8 - 1)
        if isinstance(k, (int, np.integer)) and not -limit <= k < limit:
            raise OverflowError(f"Python int {k} too large to convert to {types64.canonical(int)}")
        return inner(*args, **kwargs)

    return call


def _raising(name: str, told: str) -> Callable[..., Any]:
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
                f"{told} was jit-compiled with mode='raise'. Use mode='wrap' or mode='clip' instead."
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
    sizes = shape if isinstance(shape, (tuple, list)) else [shape]
    if (
        sizes
        and all(isinstance(n, (int, np.integer)) for n in sizes)
        and lnp.result_type(indices).kind in "iu"
    ):
        size = math.prod(map(int, sizes))
        places = lnp.clip(indices, -size if lnp.result_type(indices).kind == "i" else 0, size - 1)
        indices = lnp.where(places < 0, places + size, places)
    return types64.wrapped(lnp.unravel_index)(indices, shape)


class _OfPython(lnp.ufunc):
    """A function of elements made of one of Python's, which stays that one; results are no arguments of it."""

    @property
    def nargs(self) -> int:
        """How many arguments it takes."""
        return self.nin

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_func" and hasattr(self, "_func"):
            raise AttributeError("a ufunc's function stays as it is")
        super().__setattr__(name, value)


@functools.wraps(lnp.frompyfunc)
def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> _OfPython:
    """See the class."""
    return _OfPython(func, nin, nout, identity=identity)


class _Named:
    """A function of elements under its name, whose numbers cannot be set."""

    def __init__(self, inner: Callable[..., Any]) -> None:
        functools.update_wrapper(self, inner)
        self._inner = inner
        for method in ("reduce", "accumulate", "outer", "at", "reduceat"):
            setattr(self, method, types64.wrapped(self.__dict__[method]))
        self.accumulate = types64.keeping_integers(self.__dict__["accumulate"])

    def __call__(self, *args: Any, out: Any = None, where: Any = None) -> Any:
        for option, value in (("out", out), ("where", where)):
            if value is not None:
                raise NotImplementedError(f"{option} argument of {self!r}")
        return self._inner(*args)

    def __repr__(self) -> str:
        return f"<jnp.ufunc '{self.__name__}'>"  # type: ignore[attr-defined]

    nin = property(lambda self: self.__dict__["nin"], doc="How many arguments it takes.")
    nargs = property(lambda self: self.__dict__["nin"], doc="The same.")
    nout = property(lambda self: self.__dict__["nout"], doc="How many results it gives.")
    identity = property(
        lambda self: self.__dict__["identity"], doc="What `reduce` gives for no elements, or None."
    )
    _func = property(lambda self: self._inner)


def ufuncs() -> dict[str, Any]:
    """Lamina's functions that have the methods of NumPy's."""
    names = [
        n
        for n in lnp.__all__
        if isinstance(getattr(lnp, n), lnp.ufunc) and not isinstance(getattr(lnp, n), type)
    ]
    return {n: _Named(types64.wrapped(getattr(lnp, n))) for n in names}


_RUNNING = ("cumsum", "cumprod", "nancumsum", "nancumprod", "cumulative_prod")

NUMPY: dict[str, Any] = {
    "frompyfunc": frompyfunc,
    **ufuncs(),
    **{n: types64.keeping_integers(types64.wrapped(getattr(lnp, n))) for n in _RUNNING},
    "clip": clip,
    "take": take,
    "take_along_axis": take_along_axis,
    "tri": _diagonal("tri", 2),
    **{n: _diagonal(n, 1) for n in ("tril", "triu")},
    "choose": _raising("choose", "jnp.choose"),
    "ravel_multi_index": _raising("ravel_multi_index", "ravel_multi_index"),
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
