"""Typed keys (``jax.random.key``): arrays of keys over Lamina's, which are uint32 words along a last axis.

A key is a leaf in JAX, and of the functions in `jax.tree`. To Lamina it is a container of its words, so that it goes
through every transform; where functions of `jax.numpy` move elements about, they move each word alike.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import sys
from collections.abc import Callable, Iterator
from typing import Any

import lamina as lm
import numpy as np
from lamina import random, ref
from lamina._core import Tensor
from lamina.tree import TreeDef, tree_children

from lamina_as_jax import messages, settings, strictness, types64
from lamina_as_jax.avals import Float0, ShapedArray


class extended(np.generic):
    """The kind of types that are no numbers."""


class prng_key(extended):
    """The kind of the types of typed keys."""


class ExtendedDType:
    """A type of elements of a user's own, of which Lamina has none but that of keys."""


class Generator:
    """How keys of a name look. Those of "unsafe_rbg" draw as those of "rbg" do, and split and fold by their own bits."""

    def __init__(self, name: str, tag: str, size: int) -> None:
        self.name, self.tag, self.key_shape = name, tag, (size,)

    def __repr__(self) -> str:
        return self.tag


_GENERATORS = {
    g.name: g
    for g in (
        Generator("threefry2x32", "fry", 2),
        Generator("rbg", "rbg", 4),
        Generator("unsafe_rbg", "urbg", 4),
    )
}
DEFAULT = _GENERATORS["threefry2x32"]


class KeyDtype(ExtendedDType):
    """The element type of keys."""

    kind, type = "V", prng_key

    def __init__(self, generator: Generator = DEFAULT) -> None:
        self._impl = generator
        self.name, self.itemsize = f"key<{generator.tag}>", 4 * generator.key_shape[0]

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyDtype) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)


DTYPE = KeyDtype()


def generator(impl: Any = None, dtype: Any = None) -> Generator:
    """The one that a caller names, by a string, a type of keys or itself."""
    if impl is not None and dtype is not None:
        raise ValueError("the generator is named twice, by impl and by dtype")
    named = dtype if impl is None else impl
    if named is None:
        named = settings.default_generator()
    if isinstance(named, KeyDtype):
        return named._impl
    if isinstance(named, Generator):
        return named
    if not isinstance(named, str):
        raise TypeError(f"a generator is given by its name, not by a {type(named).__name__}")
    if named not in _GENERATORS:
        raise ValueError(f"there is no generator {named!r}, only {', '.join(_GENERATORS)}")
    return _GENERATORS[named]


class KeyArray:
    """Keys in an array; `_words` has one more axis, of the words of one."""

    weak_type = False

    met = False  # whether there has been one

    def __init__(self, words: Any, impl: Generator = DEFAULT) -> None:
        self._words, self._impl = words, impl
        KeyArray.met = True

    shape = property(lambda self: tuple(self._words.shape[:-1]))
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: self._words.size // self._words.shape[-1])
    dtype = property(lambda self: DTYPE if self._impl is DEFAULT else KeyDtype(self._impl))
    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: self.itemsize * self.size)
    _base_array = property(lambda self: self._words)
    sharding = property(lambda self: self._words.sharding)
    aval = property(lambda self: _described(self))
    at = property(lambda self: _At(self))
    T = property(lambda self: each_word(lm.numpy.transpose)(self))

    def __getitem__(self, index: Any) -> KeyArray:
        if isinstance(index, int) and self.shape:
            return KeyArray(self._words[index], self._impl)
        if not self.shape and isinstance(index, int):
            raise IndexError("Too many indices: keys of no dimensions take no index")
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

    def __hash__(self) -> int:
        raise TypeError("unhashable type: 'PRNGKeyArray'")

    def __repr__(self) -> str:
        if isinstance(self._words, lm.ShapeDtype):
            return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name})"
        return f"Array({self.shape}, dtype={self.dtype.name}) overlaying:\n{self._words}"

    def __getattr__(self, name: str) -> Any:
        if name in _METHODS:
            return functools.partial(each_word(getattr(lm.numpy, name)), self)
        if name in _OF_WORDS:
            return getattr(self._words, name)
        raise AttributeError(f"keys have no attribute {name!r}")

    def reshape(self, *shape: Any) -> KeyArray:
        return each_word(lm.numpy.reshape)(self, shape[0] if len(shape) == 1 else shape)

    def flatten(self) -> KeyArray:
        return self.reshape(-1)

    def astype(self, dtype: Any, copy: bool = False, device: Any = None) -> KeyArray:
        raise NotImplementedError("Cannot call abstract method astype")

    def __bool__(self) -> bool:
        raise TypeError("key array cannot be converted to boolean.")

    def copy(self) -> KeyArray:
        return KeyArray(lm.numpy.copy(self._words), self._impl)

    def block_until_ready(self) -> KeyArray:
        self._words.block_until_ready()
        return self

    @messages.telling
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("a key is no array of NumPy's: its words are jax.random.key_data(key)")


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


_OF_WORDS = (
    "copy_to_host_async", "devices", "device", "is_fully_addressable", "is_fully_replicated", "is_deleted", "delete",
)  # fmt: skip
_METHODS = ("ravel", "squeeze", "transpose", "swapaxes", "repeat", "take")


def _of_children(impl: Any, children: Any) -> Any:
    """Keys of words; anything else in the place of words stands in the place of the keys, as it does of a leaf."""
    (x,) = children
    return KeyArray(x, impl) if hasattr(x, "shape") and str(getattr(x, "dtype", "")) == "uint32" else x


lm.tree_util.register_pytree_node(KeyArray, lambda k: ((k._words,), k._impl), _of_children)


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
    return ShapedArray(x.shape, x.dtype)


def standing_for(aval: Any) -> Any:
    """What may be given to a transform in the place of an array of this type."""
    if not isinstance(aval.dtype, KeyDtype):
        return aval
    impl = aval.dtype._impl
    return KeyArray(lm.ShapeDtype((*aval.shape, *impl.key_shape), "uint32"), impl)


def _has_keys(args: Any) -> bool:
    return any(isinstance(x, KeyArray) or (isinstance(x, (list, tuple)) and _has_keys(x)) for x in args)


def _first(args: Any) -> KeyArray:
    """The first keys among arguments that hold some."""
    held = next(x for x in args if isinstance(x, KeyArray) or (isinstance(x, (list, tuple)) and _has_keys(x)))
    return held if isinstance(held, KeyArray) else _first(held)


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
        impl = _first(args)._impl
        moved = [f(*(_word(a, n) for a in args), **kwargs) for n in range(impl.key_shape[0])]
        if isinstance(moved[0], (list, tuple)):
            return type(moved[0])(KeyArray(lm.numpy.stack(w, -1), impl) for w in zip(*moved, strict=True))
        return KeyArray(lm.numpy.stack(moved, -1), impl)

    return call


def of_arrays(f: Callable[..., Any], of_key: Callable[[KeyArray], Any]) -> Callable[..., Any]:
    """A function of one array, which is another one of keys."""

    @functools.wraps(f)
    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        return of_key(x) if isinstance(x, KeyArray) else f(x, *args, **kwargs)

    return call


def leaves(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of containers with the parameter `is_leaf`, to which keys, references and float0 are leaves."""
    parameters = inspect.signature(f).parameters
    place = list(parameters).index("is_leaf")
    if parameters["is_leaf"].kind is inspect.Parameter.KEYWORD_ONLY:
        place = sys.maxsize

    # Of the others that a function is mapped over only what corresponds to the first is looked at.
    maps = "map" in f.__name__

    @messages.telling
    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        for x in args[:2] if maps else args:
            types64.check_keys(x)
        if KeyArray.met or Float0.met or ref.living():
            also = args[place] if len(args) > place else kwargs.pop("is_leaf", None)

            def is_leaf(*x: Any) -> bool:
                return isinstance(x[-1], (KeyArray, Float0, ref.Ref)) or (also is not None and also(*x))

            args = (*args[:place], *((is_leaf,) if len(args) > place else ()), *args[place + 1 :])
            kwargs = kwargs if len(args) > place else {**kwargs, "is_leaf": is_leaf}
        return f(*args, **kwargs)

    return call


for _name in ("flatten_up_to", "unflatten"):
    setattr(TreeDef, _name, messages.telling(getattr(TreeDef, _name)))


def _walk(
    treedef: TreeDef, f_node: Callable[[Any, Any], Any], f_leaf: Callable[[Any], Any] | None, leaves: Any
) -> Any:
    """What `f_node` makes of what it and `f_leaf` made of the parts, from the leaves on."""
    given, nodes = iter(leaves), iter(treedef.nodes)

    def visit() -> Any:
        kind, data, count = next(nodes)
        if kind is None:
            leaf = next(given)
            return leaf if f_leaf is None else f_leaf(leaf)
        parts = tuple([visit() for _ in range(count)])
        return f_node(parts, list(data) if kind is dict else data)

    return visit()


def _node_data(treedef: TreeDef) -> tuple[type, Any] | None:
    """The outermost container's class and metadata; None for a leaf."""
    kind, data, _ = treedef.nodes[0]
    return None if kind is None else (kind, list(data) if kind is dict else data)


TreeDef.walk = _walk
TreeDef.node_data = _node_data


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
        return None if isinstance(tree, (KeyArray, Float0)) else tree_children(tree)


# --- jax.random ---

_MAKE_KEYS = ("split", "fold_in", "clone")


def drawing(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of `jax.random`: takes keys of both kinds; new keys are of the kind of the old."""
    for_words = types64.wrapped(f)
    makes = getattr(f, "__name__", "") in _MAKE_KEYS

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = args[0] if args else kwargs.get("key")
        typed = isinstance(given, KeyArray)
        batch = given.shape if typed else getattr(given, "shape", ())[:-1]
        if batch and getattr(words(given), "dtype", None) == "uint32":
            raise ValueError(
                f"{f.__name__} draws with one key, not with keys of shape {batch}: map it over them"
            )
        if "key" in kwargs:
            kwargs["key"] = words(kwargs["key"])
        unsafe = typed and given._impl.name == "unsafe_rbg" and _UNSAFE.get(getattr(f, "__name__", ""))
        if unsafe:
            return unsafe(given, *args[1:], **{k: v for k, v in kwargs.items() if k != "key"})
        out = (
            for_words(*map(words, args[:1]), *args[1:], **kwargs)
            if not _has_keys(args[1:])
            else _moved(f, args, kwargs)
        )
        return KeyArray(out, given._impl) if makes and typed else out

    return messages.telling(call)


def _unsafe_split(keys: KeyArray, num: Any = 2) -> KeyArray:
    """Every tenth block of the key's own bits."""
    shape = (num,) if isinstance(num, int) else tuple(num)
    drawn = _block_bits(keys._words, 10 * math.prod(shape))[::10]
    return KeyArray(drawn.reshape(*shape, 4), keys._impl)


def _unsafe_fold_in(keys: KeyArray, data: Any) -> KeyArray:
    """The key, changed by bits of a key from the data."""
    seeded = _seeded("fold_in", lm.numpy.asarray(data).astype("uint32"), keys._impl)
    return KeyArray(keys._words ^ _block_bits(seeded, 10)[-1], keys._impl)


def _block_bits(state: Any, blocks: int) -> Any:
    return lm.random._philox.words(state, (blocks, 4), 1)[..., 0]


_UNSAFE = {"split": _unsafe_split, "fold_in": _unsafe_fold_in}


def _moved(f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """permutation and choice of keys: by number."""
    numbers = types64.wrapped(f)(words(args[0]), len(args[1]), *args[2:], **kwargs)
    return args[1][numbers]


def _seeded(name: str, seed: Any, impl: Generator) -> Any:
    """The words of a key: the two of Threefry's key, which the others have twice."""
    if isinstance(seed, KeyArray) or np.ndim(seed):
        raise TypeError(f"the seed of {name} is one integer, not an array of shape {np.shape(seed)}")
    if not isinstance(seed, (int, np.integer)) and getattr(seed, "dtype", np.dtype(float)).kind not in "iu":
        raise TypeError(f"the seed of {name} is an integer, not {seed!r}")
    if isinstance(seed, bool):
        seed = int(seed)
    if settings.seed_offset():
        seed = seed + settings.seed_offset()
    if type(seed) is int and -(2**63) <= seed < 2**63 and not types64.enabled():
        seed &= 0xFFFFFFFF
    elif type(seed) is int and seed >= 2**63:
        raise OverflowError(f"the seed {seed} does not fit 64 bits")
    two = types64.wrapped(random.key)(seed)
    return two if impl is DEFAULT else lm.numpy.concatenate([two, two])


def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    kind = generator(impl, dtype)
    return KeyArray(_seeded("key", seed, kind), kind)


def PRNGKey(seed: Any, *, impl: Any = None) -> Any:
    if settings.asked("jax_enable_custom_prng"):
        return key(seed, impl=impl)
    return _seeded("PRNGKey", seed, generator(impl))


def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> KeyArray:
    kind = generator(impl, dtype)
    data = types64.wrapped(lm.numpy.asarray)(key_bits_array)
    if data.dtype != "uint32" or data.shape[-1:] != kind.key_shape:
        raise TypeError(
            f"keys of {kind.name} are uint32[..., {kind.key_shape[0]}], not {data.dtype}{data.shape}"
        )
    return KeyArray(data, kind)


def clone(keys: Any) -> Any:
    return keys.copy() if isinstance(keys, KeyArray) else lm.numpy.copy(keys)


def choice(keys: Any, a: Any, shape: Any = (), *args: Any, **options: Any) -> Any:
    if not isinstance(shape, (list, tuple)):
        raise TypeError(f"choice takes a shape as a tuple, not {shape!r}")
    return drawing(random.choice)(keys, a, shape, *args, **options)


def bits(keys: Any, shape: Any = (), dtype: Any = None, **options: Any) -> Any:
    if dtype is not None and np.dtype(dtype).kind != "u":
        raise ValueError(f"bits are elements of an unsigned type, not of {dtype}")
    return drawing(random.bits)(keys, shape, **({} if dtype is None else {"dtype": dtype}), **options)


@functools.wraps(random.randint)
def randint(key: Any, shape: Any, minval: Any, maxval: Any, *args: Any, **kwargs: Any) -> Any:
    """OverflowError for bounds that the default integers do not hold."""
    held = np.iinfo(types64.canonical(int))
    for name, bound in (("minval", minval), ("maxval", maxval)):
        if type(bound) is int and not held.min <= bound <= held.max:
            raise OverflowError(
                "An overflow was encountered while parsing an argument to a jitted computation, whose argument path is "
                f"{name}. Got <class 'int'> with value {bound}"
            )
    return _randint(key, shape, minval, maxval, *args, **kwargs)


@functools.wraps(random.bernoulli)
def bernoulli(key: Any, p: Any = 0.5, *args: Any, **kwargs: Any) -> Any:
    """TypeError for a probability that is an integer."""
    dtype = types64.dtype_of(p)
    if not lm.numpy.issubdtype(dtype, np.floating):
        raise TypeError(f"bernoulli probability `p` must have a floating dtype, got {dtype}.")
    return _bernoulli(key, p, *args, **kwargs)


_randint, _bernoulli = drawing(random.randint), drawing(random.bernoulli)
RANDOM: dict[str, Any] = {
    "randint": randint,
    "bernoulli": bernoulli,
    "key": key,
    "PRNGKey": PRNGKey,
    "bits": bits,
    "clone": clone,
    "choice": choice,
    "key_dtype": lambda impl=None: KeyDtype(generator(impl)),
    "wrap_key_data": wrap_key_data,
    "key_data": lambda keys: keys._words if isinstance(keys, KeyArray) else random.key_data(keys),
    "key_impl": lambda keys: keys._impl.name if isinstance(keys, KeyArray) else random.key_impl(keys),
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
        "broadcast_arrays",
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
    own["append"] = _append
    own["array_equal"] = _array_equal
    own |= {f"{n}_like": _filled_like(n) for n in ("empty", "zeros", "ones", "full")}
    own |= {n: _filled(n) for n in ("empty", "zeros", "ones", "full")}
    for name, f in own.items():
        f.__name__ = name
    return own


def _of_anything(name: str) -> Callable[..., Any]:
    """shape, ndim or size, which JAX tells of objects that are no arrays too: those of NumPy's array of the object."""
    of_arrays = types64.wrapped(getattr(lm.numpy, name))

    @functools.wraps(of_arrays)
    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(np, name)(a) if a is None else of_arrays(a, *args, **kwargs)

    return call


def _append(arr: Any, values: Any, axis: int | None = None) -> Any:
    if not _has_keys((arr, values)):
        return types64.wrapped(lm.numpy.append)(arr, values, axis)
    join = each_word(lm.numpy.append)
    return join(arr, values, axis)


def _array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> Any:
    if not _has_keys((a1, a2)):
        return types64.wrapped(lm.numpy.array_equal)(a1, a2, equal_nan)
    alike = isinstance(a1, KeyArray) and isinstance(a2, KeyArray) and a1.dtype == a2.dtype
    return types64.wrapped(lm.numpy.array_equal)(words(a1), words(a2)) if alike else lm.numpy.asarray(False)


_FILLS = {"empty": 0, "zeros": 0, "ones": 1}


def _keys_of(shape: Any, impl: Generator, fill: Any) -> KeyArray:
    """One key everywhere, or keys whose words are all one number."""
    shape = (shape,) if isinstance(shape, int) else tuple(shape)
    each = fill._words if isinstance(fill, KeyArray) else lm.numpy.full(impl.key_shape, fill, "uint32")
    return KeyArray(lm.numpy.broadcast_to(each, (*shape, *impl.key_shape)).copy(), impl)


def _filled_like(name: str) -> Callable[..., Any]:
    plain = types64.wrapped(getattr(lm.numpy, name + "_like"))

    @functools.wraps(plain)
    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(a, KeyArray) or kwargs.get("dtype") is not None:
            return plain(a, *args, **kwargs)
        fill = _FILLS.get(name, args[0] if args else kwargs.get("fill_value"))
        return _keys_of(kwargs.get("shape") or a.shape, a._impl, fill)

    return call


class _Described(type(lm.ShapeDtypeStruct)):
    """Makes descriptions of arrays of keys too."""

    def __call__(cls, shape: Any, dtype: Any, *args: Any, **options: Any) -> Any:
        if isinstance(dtype, KeyDtype):
            return KeyArray(lm.ShapeDtype((*shape, *dtype._impl.key_shape), "uint32"), dtype._impl)
        return lm.ShapeDtypeStruct(shape, dtype, *args, **options)

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(words(x), lm.ShapeDtypeStruct)


class ShapeDtypeStruct(lm.ShapeDtypeStruct, metaclass=_Described):
    """``jax.ShapeDtypeStruct``."""


def _filled(name: str) -> Callable[..., Any]:
    plain = types64.wrapped(getattr(lm.numpy, name))

    @functools.wraps(plain)
    def call(shape: Any, *args: Any, **kwargs: Any) -> Any:
        place = 1 if name == "full" else 0
        dtype = kwargs.get("dtype", args[place] if len(args) > place else None)
        fill = _FILLS.get(name, args[0] if args else kwargs.get("fill_value"))
        if isinstance(fill, KeyArray) and dtype is None:
            dtype = fill.dtype
        if not isinstance(dtype, KeyDtype):
            return plain(shape, *args, **kwargs)
        return _keys_of(shape, dtype._impl, fill)

    return call


def _compared(f: Callable[..., Any], of_keys: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return lambda x, y: of_keys(x, y) if isinstance(x, KeyArray) else f(x, y)


def _result_type(*args: Any) -> Any:
    if _has_keys(args) or DTYPE in [x for x in args if isinstance(x, KeyDtype)]:
        return DTYPE
    return types64.wrapped(lm.numpy.result_type)(*args)


LAX = (
    "broadcast_in_dim",
    "concatenate",
    "dynamic_slice",
    "dynamic_update_slice",
    "rev",
    "select",
    "select_n",
    "slice",
    "transpose",
    "dynamic_index_in_dim",
    "index_in_dim",
    "slice_in_dim",
    "squeeze",
    "expand_dims",
    "reshape",
    "broadcast",
    "dynamic_slice_in_dim",
    "dynamic_update_slice_in_dim",
)


def array_of_keys(x: Any) -> Any:
    """Lists of keys as keys with a dimension for each depth; other objects as they are."""
    if isinstance(x, (list, tuple)) and x and _has_keys(x):
        return each_word(lm.numpy.stack)([array_of_keys(v) for v in x])
    return x


def drawn_by(method: Callable[..., Any], place: int) -> Callable[..., Any]:
    """A method that draws with the key among its arguments at `place`."""

    @functools.wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        named = {k: words(v) for k, v in kwargs.items()}
        return method(*(words(a) if i == place else a for i, a in enumerate(args)), **named)

    return call


def lax_names() -> dict[str, Any]:
    strict = strictness.LAX
    return {
        n: each_word(strict.get(n) or types64.wrapped(getattr(lm.lax, n))) for n in LAX if hasattr(lm.lax, n)
    }
