"""``jax.experimental.random``: generators that keep their state in a reference."""

from __future__ import annotations

import operator
from typing import Any

import lamina as lm
import numpy as np
from lamina import _core, random, ref
from lamina import numpy as lnp

from lamina_as_jax import keys, types64

_split, _fold_in = (keys.drawing(getattr(random, n)) for n in ("split", "fold_in"))
_draw = {n: keys.drawing(getattr(random, n)) for n in ("uniform", "normal", "randint")}


def _shape(size: Any, *parameters: Any) -> tuple[int, ...]:
    if size is None:
        return np.broadcast_shapes(*(np.shape(p) for p in parameters))
    if isinstance(size, (int, np.integer)):
        return (operator.index(size),)
    return tuple(map(operator.index, size))


class StatefulPRNG:
    """Random numbers whose keys come from one key and a counter."""

    def __init__(self, _base_key: Any, _counter: Any) -> None:
        if not isinstance(_base_key, keys.KeyArray):
            raise ValueError(f"a generator starts from a key (jax.random.key), not from {_base_key!r:.60}")
        if not isinstance(_counter, ref.Ref):
            raise ValueError(f"a generator counts in a reference to an integer, not in {_counter!r:.60}")
        self._base_key, self._counter = _base_key, _counter

    def key(self, shape: Any = ()) -> Any:
        if self._base_key.shape:
            raise ValueError("a generator that was split draws nothing itself: take one of its parts")
        made = _fold_in(self._base_key, self._counter[...])
        self._counter[...] += 1
        wanted = _shape(shape)
        return _split(made, wanted) if wanted else made

    def random(self, size: Any = None, dtype: Any = float) -> Any:
        return _draw["uniform"](self.key(), _shape(size), dtype=dtype)

    def uniform(self, low: Any = 0, high: Any = 1, size: Any = None, *, dtype: Any = float) -> Any:
        shape = _shape(size, low, high)
        return _draw["uniform"](self.key(), shape, minval=low, maxval=high, dtype=dtype)

    def normal(self, loc: Any = 0, scale: Any = 1, size: Any = None, *, dtype: Any = float) -> Any:
        drawn = _draw["normal"](self.key(), _shape(size, loc, scale), dtype)
        return (lnp.asarray(loc) + lnp.asarray(scale) * drawn).astype(drawn.dtype)

    def integers(self, low: Any, high: Any = None, size: Any = None, *, dtype: Any = int) -> Any:
        if high is None:
            low, high = 0, low
        shape = _shape(size, low, high)
        return _draw["randint"](self.key(), shape, minval=low, maxval=high, dtype=dtype)

    def split(self, num: Any) -> StatefulPRNG:
        return StatefulPRNG(self.key(num), ref.new_ref(types64.result(lnp.zeros(num, int))))

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        return [StatefulPRNG(key, _counter()) for key in self.key(n_children)]


def _counter() -> Any:
    return ref.new_ref(lnp.zeros((), "int32"))


def _made(_: Any, children: Any) -> StatefulPRNG:
    generator = object.__new__(StatefulPRNG)
    generator._base_key, generator._counter = children
    return generator


lm.tree_util.register_pytree_node(StatefulPRNG, lambda g: ((g._base_key, g._counter), None), _made)


def stateful_rng(seed: Any = None, *, impl: Any = None) -> StatefulPRNG:
    if seed is None:
        if _core.any_open_scope():
            raise TypeError(
                "stateful_rng() without a seed asks the system for one, which a traced function cannot: give it a seed"
            )
        seed = np.int64(np.random.SeedSequence().entropy & np.iinfo(np.int64).max)
    return StatefulPRNG(keys.key(seed, impl=impl), _counter())


NAMES: dict[str, Any] = {"StatefulPRNG": StatefulPRNG, "stateful_rng": stateful_rng}
