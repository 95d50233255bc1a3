"""Threefry's bits with jax_threefry_partitionable off: elements are numbered by halves, not each by itself."""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable
from typing import Any

import lamina as lm
from lamina import lax
from lamina import numpy as lnp
from lamina.random import _streams

from lamina_as_jax import settings


def _words(key: Any, count: int) -> Any:
    """The first words of a key: the two halves of their numbers are the counters."""
    numbers = lnp.arange(count + count % 2, dtype="uint32")
    numbers = lnp.where(numbers < count, numbers, lnp.uint32(0))
    return lnp.concatenate(_streams._threefry(key[0], key[1], *lnp.split(numbers, 2)))[:count]


def _split(key: Any, num: Any = 2) -> Any:
    shape = _streams._shape(num)
    return _words(_streams._check_key(key), 2 * math.prod(shape)).reshape(*shape, 2)


def _bits(key: Any, shape: Any = (), dtype: Any = "uint32") -> Any:
    key, shape = _streams._check_key(key), _streams._shape(shape)
    width, size = 8 * lm.numpy.dtype(dtype).itemsize, math.prod(shape)
    if width == 64:
        high, low = (w.astype("uint64") for w in lnp.split(_words(key, 2 * size), 2))
        return lax.bitwise_or(lax.shift_left(high, lnp.uint64(32)), low).reshape(shape)
    words = _words(key, -(-width * size // 32))
    if width < 32:
        shifts = width * lnp.arange(32 // width, dtype="uint32")
        words = lax.shift_right_logical(*lnp.broadcast_arrays(words[:, None], shifts)).ravel()[:size]
    return words.astype(dtype).reshape(shape)


def _either(f: Callable[..., Any], other: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(f)
    def call(key: Any, *args: Any, **options: Any) -> Any:
        whole = settings.asked("jax_threefry_partitionable") or tuple(getattr(key, "shape", ())) != (2,)
        return (f if whole else other)(key, *args, **options)

    return call


def install() -> None:
    """Has all that draws ask the option."""
    for name, other in (("split", _split), ("bits", _bits)):
        own = inspect.unwrap(getattr(_streams, name))
        for module in [m for n, m in sys.modules.items() if n.startswith("lamina.random")]:
            found = getattr(module, name, None)
            if found is not None and inspect.unwrap(found) is own:
                setattr(module, name, _either(found, other))
