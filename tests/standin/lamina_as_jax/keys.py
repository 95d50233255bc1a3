"""Typed keys (``jax.random.key``): arrays of keys over Lamina's, which are uint32 words along a last axis.

A key is a leaf in JAX, and of the functions in `jax.tree`. To Lamina it is a container of its words, so that it goes
through every transform; where functions of `jax.numpy` move elements about, they move each word alike.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import lamina as lm
import numpy as np
from lamina import random
from lamina._core import Tensor
from lamina.tree import tree_children

from lamina_as_jax import types64
from lamina_as_jax.avals import ShapedArray


class extended(np.generic):
    """The kind of types that are no numbers."""


class prng_key(extended):
    """The kind of the types of typed keys."""


class ExtendedDType:
    """A type of elements of a user's own, of which Lamina has none but that of keys."""


class KeyDtype(ExtendedDType):
    """The element type of keys."""

    name, kind, itemsize, type = "key<fry>", "V", 8, prng_key

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyDtype)

    def __hash__(self) -> int:
        return hash(self.name)


DTYPE = KeyDtype()


class KeyArray:
    """Keys in an array; `_words` has one more axis, of 2."""

    dtype, weak_type, _impl = DTYPE, False, "fry"

    met = False  # whether there has been one

    def __init__(self, words: Any) -> None:
        self._words = words
        KeyArray.met = True

    shape = property(lambda self: tuple(self._words.shape[:-1]))
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: self._words.size // 2)
    itemsize = property(lambda self: 8)
    nbytes = property(lambda self: 8 * self.size)
    sharding = property(lambda self: self._words.sharding)
    aval = property(lambda self: _described(self))
    at = property(lambda self: _At(self))
    T = property(lambda self: each_word(lm.numpy.transpose)(self))

    def __getitem__(self, index: Any) -> KeyArray:
        if isinstance(index, int) and self.shape:
            return KeyArray(self._words[index])
        return each_word(operator.getitem)(self, index)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[KeyArray]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __eq__(self, other: Any) -> Any:
        return (
            lm.numpy.all(self._words == words(other), -1) if isinstance(other, KeyArray) else NotImplemented
        )

    def __ne__(self, other: Any) -> Any:
        return ~(self == other) if isinstance(other, KeyArray) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Array({self.shape}, dtype={DTYPE.name}) overlaying:\n{self._words}"

    def __getattr__(self, name: str) -> Any:
        if name in _METHODS:
            return functools.partial(each_word(getattr(lm.numpy, name)), self)
        if name in ("block_until_ready", "copy_to_host_async", "devices", "is_fully_addressable"):
            return getattr(self._words, name)
        raise AttributeError(f"keys have no attribute {name!r}")

    def reshape(self, *shape: Any) -> KeyArray:
        return each_word(lm.numpy.reshape)(self, shape[0] if len(shape) == 1 else shape)

    def copy(self) -> KeyArray:
        return KeyArray(lm.numpy.copy(self._words))


class _At:
    """Keys with others in the place of some."""

    def __init__(self, keys: KeyArray, index: Any = None) -> None:
        self._keys, self._index = keys, index

    def __getitem__(self, index: Any) -> _At:
        return _At(self._keys, index)

    def set(self, values: KeyArray, **options: Any) -> KeyArray:
        def of_word(x: Any, index: Any, v: Any) -> Any:
            return x.at[index].set(v, **options)

        return each_word(of_word)(self._keys, self._index, values)

    def get(self, **options: Any) -> KeyArray:
        return each_word(lambda x, index: x.at[index].get(**options))(self._keys, self._index)


_METHODS = ("ravel", "squeeze", "transpose", "swapaxes", "repeat", "take")


def _of_children(_: Any, children: Any) -> Any:
    """Keys of words; anything else in the place of words stands in the place of the keys, as it does of a leaf."""
    (x,) = children
    return KeyArray(x) if hasattr(x, "shape") and str(getattr(x, "dtype", "")) == "uint32" else x


lm.tree_util.register_pytree_node(KeyArray, lambda k: ((k._words,), None), _of_children)


class _Array(type):
    """Lamina's arrays, and keys."""

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, (Tensor, KeyArray))

    def __subclasscheck__(cls, c: type) -> bool:
        return issubclass(c, (Tensor, KeyArray))

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(Tensor, name)


class Array(metaclass=_Array):
    """``jax.Array``."""


def words(x: Any) -> Any:
    return x._words if isinstance(x, KeyArray) else x


def _described(x: KeyArray) -> ShapedArray:
    return ShapedArray(x.shape, DTYPE)


def standing_for(aval: Any) -> Any:
    """What may be given to a transform in the place of an array of this type."""
    if aval.dtype != DTYPE:
        return aval
    return KeyArray(lm.ShapeDtype((*aval.shape, 2), "uint32"))


def _has_keys(args: Any) -> bool:
    return any(isinstance(x, KeyArray) or (isinstance(x, (list, tuple)) and _has_keys(x)) for x in args)


def _word(x: Any, n: int) -> Any:
    if isinstance(x, KeyArray):
        return x._words[..., n]
    return type(x)(_word(v, n) for v in x) if isinstance(x, (list, tuple)) and _has_keys(x) else x


def each_word(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that moves elements about, of keys: each word moves alike."""

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not _has_keys(args):
            return f(*args, **kwargs)
        kwargs.pop("dtype", None)
        return KeyArray(lm.numpy.stack([f(*(_word(a, n) for a in args), **kwargs) for n in (0, 1)], -1))

    return call


def of_arrays(f: Callable[..., Any], of_key: Callable[[KeyArray], Any]) -> Callable[..., Any]:
    """A function of one array, which is another one of keys."""

    @functools.wraps(f)
    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        return of_key(x) if isinstance(x, KeyArray) else f(x, *args, **kwargs)

    return call


def leaves(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of containers with the parameter `is_leaf`, to which keys are leaves."""
    parameters = inspect.signature(f).parameters
    place = list(parameters).index("is_leaf")
    if parameters["is_leaf"].kind is inspect.Parameter.KEYWORD_ONLY:
        place = sys.maxsize

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        if KeyArray.met:
            also = args[place] if len(args) > place else kwargs.pop("is_leaf", None)

            def is_leaf(*x: Any) -> bool:
                return isinstance(x[-1], KeyArray) or (also is not None and also(*x))

            args = (*args[:place], *((is_leaf,) if len(args) > place else ()), *args[place + 1 :])
            kwargs = kwargs if len(args) > place else {**kwargs, "is_leaf": is_leaf}
        return f(*args, **kwargs)

    return call


def tree_names(module: Any) -> dict[str, Any]:
    own = {}
    for name in dir(module):
        f = getattr(module, name)
        if (
            not name.startswith("_")
            and inspect.isfunction(f)
            and "is_leaf" in inspect.signature(f).parameters
        ):
            own[name] = leaves(f)
    return own


class Registry:
    """The containers that there are, as an object."""

    def flatten_one_level(self, tree: Any) -> Any:
        """(children, data) of a container; None of a leaf."""
        return None if isinstance(tree, KeyArray) else tree_children(tree)


# --- jax.random ---

_MAKE_KEYS = ("split", "fold_in", "clone")


def drawing(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of `jax.random`: takes keys of both kinds; new keys are of the kind of the old."""
    for_words = types64.wrapped(f)
    makes = getattr(f, "__name__", "") in _MAKE_KEYS

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        typed = _has_keys(args[:1]) or isinstance(kwargs.get("key"), KeyArray)
        if typed and args and isinstance(args[0], KeyArray) and args[0].shape and f.__name__ != "clone":
            raise ValueError(
                f"{f.__name__} accepts a single key, but was given a key array of shape {args[0].shape}. "
                "Use jax.vmap for batching."
            )
        if "key" in kwargs:
            kwargs["key"] = words(kwargs["key"])
        out = (
            for_words(*map(words, args[:1]), *args[1:], **kwargs)
            if not _has_keys(args[1:])
            else _moved(f, args, kwargs)
        )
        return KeyArray(out) if makes and typed else out

    return call


def _moved(f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """permutation and choice of keys: by number."""
    numbers = types64.wrapped(f)(words(args[0]), len(args[1]), *args[2:], **kwargs)
    return args[1][numbers]


def key(seed: Any, *, impl: Any = None) -> KeyArray:
    return KeyArray(types64.wrapped(random.key)(seed, impl=impl))


def wrap_key_data(key_bits_array: Any, *, impl: Any = None) -> KeyArray:
    return KeyArray(types64.wrapped(random.wrap_key_data)(key_bits_array, impl=impl))


RANDOM: dict[str, Any] = {
    "key": key,
    "wrap_key_data": wrap_key_data,
    "key_data": lambda keys: random.key_data(words(keys)),
    "key_impl": lambda keys: random.key_impl(words(keys)),
}
_STRUCTURAL = (
    *(
        "stack",
        "concatenate",
        "reshape",
        "where",
        "expand_dims",
        "squeeze",
        "ravel",
        "broadcast_to",
        "moveaxis",
    ),
    *(
        "swapaxes",
        "transpose",
        "take",
        "repeat",
        "tile",
        "flip",
        "roll",
        "atleast_1d",
        "copy",
        "hstack",
        "vstack",
    ),
)


def numpy_names() -> dict[str, Any]:
    """The functions of `jax.numpy` that take keys."""
    own = {n: each_word(types64.wrapped(getattr(lm.numpy, n))) for n in _STRUCTURAL}
    own |= {n: of_arrays(_of_anything(n), operator.attrgetter(n)) for n in ("shape", "ndim", "size")}
    own |= {
        n: _compared(types64.wrapped(getattr(lm.numpy, n)), op)
        for n, op in (("equal", operator.eq), ("not_equal", operator.ne))
    }
    own |= {
        n: of_arrays(types64.wrapped(getattr(lm.numpy, n)), lambda key: False)
        for n in ("iscomplexobj", "isrealobj")
    }
    own["result_type"] = _result_type
    return own


def _of_anything(name: str) -> Callable[..., Any]:
    """shape, ndim or size, which JAX tells of objects that are no arrays too: those of NumPy's array of the object."""
    of_arrays = types64.wrapped(getattr(lm.numpy, name))

    @functools.wraps(of_arrays)
    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(np, name)(a) if a is None else of_arrays(a, *args, **kwargs)

    return call


def _compared(f: Callable[..., Any], of_keys: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda x, y: of_keys(x, y) if isinstance(x, KeyArray) else f(x, y)


def _result_type(*args: Any) -> Any:
    if _has_keys(args) or DTYPE in [x for x in args if isinstance(x, KeyDtype)]:
        return DTYPE
    return types64.wrapped(lm.numpy.result_type)(*args)


LAX = (
    "select",
    "dynamic_index_in_dim",
    "index_in_dim",
    "slice_in_dim",
    "squeeze",
    "expand_dims",
    "reshape",
    "broadcast",
)


def lax_names() -> dict[str, Any]:
    return {n: each_word(types64.wrapped(getattr(lm.lax, n))) for n in LAX if hasattr(lm.lax, n)}
