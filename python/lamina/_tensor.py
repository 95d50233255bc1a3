"""What the Tensor type has beyond its slots: conversions, printing, methods."""

from __future__ import annotations

import collections.abc
import functools
import operator
import os
from collections.abc import Callable
from typing import Any

from lamina import _bounds, _core, _exchange, _interop, _observed, _source, dtypes, tree
from lamina._core import Tensor
from lamina._open import taken

asarray_core = _core.asarray


def recording(op_name: str, kinds: str, direction: str = "") -> Callable[[Any], Any]:
    """Decorator: calls on Tensors of these kinds (and numbers) record `op_name` without running the function."""

    def decorate(f: Any) -> Any:
        return functools.update_wrapper(_core.elementwise_function(op_name, kinds, f, direction), f)

    return decorate


def is_several(x: Any) -> bool:
    """Whether an argument that is one integer or several is several: an array with dimensions, or a sequence of any
    class (what has a length and an order: a tuple, a list, a range, the shapes of other libraries).
    """
    if isinstance(x, (tuple, list)):
        return True
    if hasattr(x, "ndim"):
        return x.ndim > 0
    unordered = isinstance(x, (str, bytes, collections.abc.Mapping, collections.abc.Set))
    return hasattr(type(x), "__len__") and hasattr(type(x), "__iter__") and not unordered


def to_tensor(x: Any, dtype: Any = None) -> Tensor:
    """`x` as a Tensor: a Tensor, number, NumPy array or scalar, a nested list of those, or what has `__jax_array__`
    or `__cuda_array_interface__`, whose elements are copied where they lie.

    Numbers, NumPy scalars among them, are weak and keep their bits. TypeError for anything else; ValueError for a masked
    array, of which no mask would be left.
    """
    t = x if isinstance(x, Tensor) else _core.asarray(x)
    if t is None and isinstance(x, bytearray):
        t = _core.asarray(memoryview(x))
    if t is None and isinstance(x, (list, tuple, range)):
        t = _from_nested(list(x) if isinstance(x, range) else x)
    if t is None and hasattr(x, "__jax_array__") and not isinstance(x, type):
        t = to_tensor(x.__jax_array__())
    if t is None and _exchange.is_on_cuda(x):
        t = _exchange.from_cuda(x, copy=True)
    if t is None and hasattr(x, "__array__"):
        import numpy as np

        if isinstance(x, np.ma.MaskedArray):
            raise ValueError(
                "a masked array's mask would be lost: use its filled() values, or pass data and mask"
            )
        array = np.asarray(x)
        name = array.dtype.name
        if name in dtypes.TABLE and dtypes.is_foreign(name):
            bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
            t = _core.with_dtype_bits(bits, name, list(array.shape))
        elif name in dtypes.TABLE:
            t = _core.asarray(array.astype(array.dtype.newbyteorder("=")))
        if t is None:
            raise TypeError(
                f"an array of {array.dtype} elements cannot become a Tensor, which has numbers or booleans: {x!r:.60}"
            )
    if t is None:
        raise TypeError(f"a Tensor, number or array is needed, not {type(x).__name__}: {x!r:.60}")
    return t if dtype is None else astype(t, dtype)


def _from_nested(x: list[Any] | tuple[Any, ...]) -> Tensor | None:
    """A nested list: through NumPy when it holds numbers only, else by stacking tensors."""
    from lamina import tree

    leaves = tree.tree_leaves(x)
    if any(isinstance(leaf, Tensor) for leaf in leaves):
        return _stacked(x)
    array = _nested(x)
    if array.dtype == object:
        if large := [leaf for leaf in leaves if type(leaf) is int and not -(2**63) <= leaf < 2**64]:
            raise OverflowError(f"the Python integer {large[0]} does not fit 64 bits")
        return _stacked(x) if any(hasattr(leaf, "__jax_array__") for leaf in leaves) else None
    if not all(_core.is_number(leaf) for leaf in leaves):
        return _core.asarray(array)  # with arrays in it, which keep their type
    floating, integer, complex_ = _core.default_types()
    if array.dtype.kind in "iu":
        limits = dtypes.extremes(integer)
        fits = not array.size or (limits[0] <= array.min() and array.max() <= limits[1])
        return _numbers(array, integer if fits else array.dtype.name)
    return _numbers(array, {"f": floating, "c": complex_}.get(array.dtype.kind, array.dtype.name))


def _stacked(x: list[Any] | tuple[Any, ...]) -> Tensor:
    """Its elements joined in the type that they have in common, to which numbers are rounded once."""
    from lamina import numpy as lnp
    from lamina import tree

    leaves, treedef = tree.tree_flatten(x)
    if any(isinstance(leaf, (bool, int, float, complex)) for leaf in leaves):
        leaves = _core.promoted(*[leaf if _core.is_number(leaf) else to_tensor(leaf) for leaf in leaves])
        x = treedef.unflatten(leaves)
    return _core.set_weak(lnp.stack(list(x)), False)


def _nested(x: Any, dtype: Any = None) -> Any:
    """A nested list as a NumPy array. ValueError where it is ragged."""
    import numpy as np

    try:
        return np.array(x, dtype)
    except ValueError as e:
        raise ValueError(f"the nested list is ragged: {e}") from None


def _numbers(array: Any, dtype: str) -> Tensor:
    """A NumPy array of Python's numbers as a Tensor of this type, rounded once."""
    import numpy as np

    if dtypes.is_foreign(dtype):
        return astype(_core.asarray(array), dtype)
    with np.errstate(over="ignore"):
        return _core.asarray(array.astype(dtype))


def as_type(x: Any, dtype: Any) -> Tensor:
    """`x` as a Tensor of an element type that is decided, as for assignment; numbers and lists are rounded once.

    OverflowError for numbers that an integer type does not hold; TypeError for complex elements of a real type.
    """
    name = dtypes.name_of(dtype)
    kind = dtypes.TABLE[name].kind
    if _core.is_number(x):
        if kind == "b":
            return to_tensor(x, name)
        return _core.number(x, name)
    if isinstance(x, (list, tuple)) and not any(isinstance(leaf, Tensor) for leaf in _leaves(x)):
        array = _nested(x)
        if all(_core.is_number(leaf) for leaf in _leaves(x)):
            if array.dtype == object:  # integers of more than 64 bits
                array = _nested(x, "float64")
            _refuse_complex(array.dtype.kind, kind, name)
            low, high = dtypes.extremes(name) if kind in "iu" else (None, None)
            if kind in "iu" and array.size and not (low - 1 < array.min() and array.max() < high + 1):
                raise OverflowError(f"the list holds numbers that do not fit the element type {name}")
            return _numbers(array, name)
    t = to_tensor(x)
    _refuse_complex(t.dtype.kind, kind, name)
    return astype(t, name)


def _leaves(x: Any) -> list[Any]:
    from lamina import tree

    return tree.tree_leaves(x)


def _refuse_complex(kind: str, wanted: str, name: str) -> None:
    if kind == "c" and wanted not in "cb":
        raise TypeError(f"complex elements do not fit the element type {name}: take their real part (x.real)")


def astype(x: Tensor, dtype: Any) -> Tensor:
    """`x` converted to `dtype`; the result's type is strong."""
    name = dtypes.name_of(dtype)
    if name == x.dtype:
        return _core.set_weak(x, False) if x.weak_type else x
    return _core.elementwise("convert", x, dtype=name)


def numpy(x: Tensor) -> Any:
    """The value as a read-only NumPy array sharing memory.

    bfloat16, floats of one byte and integers below 8 bits are those of the package ml_dtypes; where it is not
    installed, float32 and int8 or uint8, copied.
    """
    import numpy as np

    _may_leave(x, "a NumPy array")
    if dtypes.is_foreign(x.dtype):
        try:
            import ml_dtypes

            foreign = getattr(ml_dtypes, x.dtype.name)
        except (ImportError, AttributeError):
            near = {"f": "float32", "i": "int8", "u": "uint8"}[x.dtype.kind]
            return np.asarray(memoryview(astype(x, near)))
        return _core.raw_bits(x).view(foreign)
    return np.asarray(memoryview(x))


def _array(x: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    try:
        _core.raise_stopped(x)
    except BaseException as e:
        _bounds.told(e)
        raise
    if _bounds.pending.checks:
        _bounds.run_pending()
    a = numpy(x)
    if dtype is not None and a.dtype != dtype:
        return a.astype(dtype)
    return a.copy() if copy else a


def _item(x: Tensor, what: str = "item()") -> Any:
    if x.size != 1:
        error = ValueError if what == "item()" else TypeError  # as in NumPy
        raise error(f"only a Tensor with one element is a Python number; this one has shape {x.shape}")
    _may_leave(x, what)
    return numpy(x).reshape(()).item()


def _item_at(x: Tensor, at: Any) -> Any:
    """The element at a place as a Python number."""
    from lamina import _indexing

    places = at if isinstance(at, tuple) else (at,)
    if len(places) == 1:  # of the elements in their order, however many dimensions they have
        at = places[0]
    elif len(places) != x.ndim:
        raise ValueError(f"item() takes one index for each of {x.ndim} dimensions, not {len(at)}")
    places = tuple(map(operator.index, places))
    return _item(_indexing.getitem(x if isinstance(at, tuple) else _indexing.reshape(x, (x.size,)), places))


def describe(x: Tensor) -> str:
    return f"{x.dtype.name}[{','.join(map(str, x.shape))}]"


def _needs_value(x: Tensor, what: str) -> None:
    if _bounds.pending.checks:
        _bounds.run_pending()
    if not _core.forceable(x):
        frame = _source.user_frame()
        place = _source.place_of(frame) if frame else None
        text = f"`{place.expression}`: " if place and place.text else ""
        at = "\n" + place.shown() if place else ""
        why = _core.why_unknown(x)
        if "leaked" in why:
            made, where = _source.origin(x), _source.holders(x)
            raise TypeError(
                f"{text}{describe(x)} was traced inside a jit or vmap that has ended; it leaked out of it\n"
                f"  {made or 'its argument'}{', leaked into ' + where if where else ''}{at}\n"
                "  Return it from the traced function instead."
            )
        if "donated" in why:
            raise TypeError(f"{text}{why}{at}")
        from_ = _source.origin(x)
        raise TypeError(
            f"{text}{what} needs the value of {describe(x)}, which is being traced\n"
            f"  it is {_source.argument_of(x) or 'computed from an argument of a jit or vmap'}"
            f"{', ' + from_ if from_.startswith('made') else ''}{at}\n"
            "  Keep it an array (x.astype, lamina.numpy functions), return it and convert outside, or make the "
            "argument static."
        )


def _may_leave(x: Tensor, what: str) -> None:
    """Raises TypeError where the value is not known, or an open derivative depends on it and would be lost."""
    _needs_value(x, what)
    if not _core.differentiated(x):
        return
    frame = _source.user_frame()
    place = _source.place_of(frame) if frame else None
    text = f"`{place.expression}`: " if place and place.text else ""
    origin = _source.origin(x)
    counterpart = _source.counterpart(frame, place.expression) if frame and place else ""
    raise TypeError(
        f"{text}{what} of {describe(x)}, which is being differentiated: what is computed from it outside of lamina "
        "would have no derivative"
        + (f"\n  it is {origin}" if origin else "")
        + ("\n" + place.shown() if place else "")
        + "\n  "
        + (f"Use {counterpart}" if counterpart else "Keep it a Tensor and use lamina.numpy's functions")
        + "; or take lamina.lax.stop_gradient of it, if it is a constant here; or return it with has_aux=True."
    )


def _escape(x: Tensor) -> None:
    _may_leave(x, "the memory")


def _bool(x: Tensor) -> bool:
    if x.size != 1:
        raise ValueError(f"the truth value of a Tensor of shape {x.shape} is ambiguous; use .any() or .all()")
    if not _core.forceable(x):
        if _core.any_open_scope():
            from lamina import _jit

            return _jit.decide(x)
        _needs_value(x, "bool()")
    taken(x)
    return bool(_item(_core.value_of(x)))


def _float(x: Tensor) -> float:
    return float(_item(x, "float()"))


def _int(x: Tensor) -> int:
    _needs_value(x, "int()")
    taken(x)
    return int(_item(_core.value_of(x), "int()"))  # piecewise constant: its derivative is zero


def _index(x: Tensor) -> int:
    if x.dtype.kind not in "iu" or x.ndim != 0:
        raise TypeError(f"only an integer scalar can be an index, not {describe(x)}")
    _needs_value(x, "an index")
    taken(x)
    return int(_item(x))


def _repr(x: Tensor) -> str:
    if not _core.forceable(x):
        if "was donated or deleted" in _core.why_unknown(x):
            return f"<donated {describe(x)}>"
        file, line, _ = _core.where_made(x)
        at = f" from {os.path.basename(file)}:{line}" if file else ""
        return f"<traced {describe(x)}{at}>"
    import numpy as np

    prefix = "Tensor("
    if _core.differentiated(x):
        prefix = f"<differentiated {describe(x)} = "
        return np.array2string(numpy(_core.value_of(x)), separator=", ", prefix=prefix).join((prefix, ">"))
    text = np.array2string(numpy(x), separator=", ", prefix=prefix, threshold=1000)
    shape = f", shape={x.shape}" if x.size > 1000 or x.size == 0 else ""
    return f"Tensor({text}{shape}, dtype={x.dtype.name})"


def _format(x: Tensor, spec: str) -> str:
    if not spec:
        return str(x)
    if x.ndim == 0:
        return format(_item(x, f"format {spec!r}"), spec)
    text = _repr(x)
    try:
        return format(text, spec)
    except ValueError:
        raise TypeError(
            f"a Tensor of shape {x.shape} has no format {spec!r}, which is one of single numbers: format its elements, "
            "or round them first (x.round(2))"
        ) from None


def _iter(x: Tensor) -> Any:
    if x.ndim == 0:
        raise TypeError("a 0-d Tensor cannot be iterated over")
    return (x[i] for i in range(x.shape[0]))  # one at a time: there may be millions


def _getitem(x: Tensor, key: Any) -> Tensor:
    from lamina import _indexing

    return _indexing.getitem(x, key, checked=True)


def _setitem(x: Tensor, key: Any, value: Any) -> None:
    from lamina import _indexing

    write(x, _indexing.setitem_value(x, key, value))


def write(x: Tensor, value: Tensor) -> None:
    """Gives the Tensor object `x` the value of another, as ``x[...] = v`` does.

    Raises TypeError where others would not see it: `x` is older than the innermost open transform, or NumPy would
    have it share elements with a Tensor that is alive.
    """
    if _core.made_outside(x):
        frame, (file, line, _) = _source.user_frame(), _core.where_made(x)
        at = f" (at {file}:{line})" if file else ""
        place = "\n" + _source.place_of(frame).shown() if frame else ""
        raise TypeError(
            f"a write to {describe(x)}, which was made outside the transformed function{at}{place}\n"
            "  Make a copy inside first (x = x.copy()), pass it as an argument, or return the new value."
        )
    if _core.views_living(x):
        frame = _source.user_frame()
        place = _source.place_of(frame).shown() if frame else ""
        raise TypeError(
            f"a write to {describe(x)}, which is a part or another form of a Tensor that is still there: NumPy would "
            f"change that one too, here it would not be seen\n{place}\n"
            "  Write to the Tensor itself, with one index (x[0, 1] = v), or take a .copy() if it is to be another."
        )
    _core.rebind(x, value)


def _numpy_call(name: str) -> Any:
    def call(a: Any, b: Any) -> Any:
        from lamina import numpy as lnp

        for x in (a, b):
            if not isinstance(x, Tensor) and _core.asarray(x) is None:
                return NotImplemented
        return getattr(lnp, name)(a, b)

    return call


def _computed(x: Any) -> Any:
    from lamina import tree

    _core.wait_for(tree.tree_leaves(x))
    _bounds.run_pending()
    return x


def block_until_ready(x: Any) -> Any:
    """Computes every Tensor in `x` (any container) now; returns `x`."""
    return x.block_until_ready() if type(x) is Tensor else _computed(x)


_METHODS = [
    "sum",
    "mean",
    "max",
    "min",
    "prod",
    "var",
    "std",
    "argmax",
    "argmin",
    "any",
    "all",
    "cumsum",
    "cumprod",
    "ravel",
    "squeeze",
    "swapaxes",
    "dot",
    "clip",
    "round",
    "argsort",
    "sort",
    "take",
    "repeat",
    "diagonal",
    "trace",
    "nonzero",
    "argpartition",
    "choose",
    "ptp",
    "searchsorted",
]


def _forward(name: str) -> Any:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        from lamina import numpy as lnp

        return getattr(lnp, name)(self, *args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"As `lamina.numpy.{name}`."
    return method


def _reshape(self: Tensor, *shape: Any, order: str = "C", copy: bool | None = None) -> Tensor:
    from lamina import numpy as lnp

    return lnp.reshape(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)


def _compress(self: Tensor, condition: Any, axis: int | None = None, **options: Any) -> Tensor:
    """The slices along `axis` where the condition is non-zero, as `lamina.numpy.compress`."""
    from lamina import numpy as lnp

    return lnp.compress(condition, self, axis, **options)


def _transpose(self: Tensor, *axes: Any) -> Tensor:
    from lamina import numpy as lnp

    given = axes if len(axes) != 1 or type(axes[0]) is int else axes[0]
    return lnp.transpose(self, given or None)


def _astype(self: Tensor, dtype: Any, copy: bool = True, device: Any = None) -> Tensor:
    """A copy converted to `dtype` (None: the default float); the result's type is strong. Warns where imaginary
    parts are dropped.

    `copy` changes nothing; the copy is put on `device`.
    """
    dtype = float if dtype is None else dtype
    if self.dtype.kind == "c" and dtypes.canonical(dtype).kind not in "cb":
        import warnings

        import numpy as np

        text = "astype drops the imaginary part; use x.real to say so"
        warnings.warn(text, np.exceptions.ComplexWarning, stacklevel=2)
    from lamina import _devices

    out = astype(self, dtype)
    return _devices.placed(_copy(out) if out is self else out, device)


def _copy(self: Tensor) -> Tensor:
    """A Tensor of its own with the same value."""
    return _core.copy(self)


def _at(self: Tensor) -> Any:
    from lamina import _indexing

    return _indexing.At(self, checked=True)


def install() -> None:
    """Attaches the methods and hooks; called once when the package is imported."""
    from lamina import _members

    _source.install_hook()
    _core.set_hooks(
        {
            "explain": _source.explain,
            "escape": _escape,
            "taken": taken,
            "before_read": _bounds.run_pending,
            "observed": _observed.Observed,
            "containers": tree._registry,
            "package_path": os.path.dirname(os.path.abspath(__file__)) + os.sep,
            "dtype": dtypes.TABLE.__getitem__,
            "repr": _repr,
            "iter": _iter,
            "bool": _bool,
            "float": _float,
            "int": _int,
            "index": _index,
            "item": _item,
            "item_at": _item_at,
            "tolist": lambda x: numpy(x).tolist(),
            "block_until_ready": _computed,
            "getitem": _getitem,
            "setitem": _setitem,
            "true_divide": _numpy_call("true_divide"),
            "floor_divide": _numpy_call("floor_divide"),
            "remainder": _numpy_call("remainder"),
            "divmod": _numpy_call("divmod"),
            "matmul": _numpy_call("matmul"),
            "power": _numpy_call("power"),
            "right_shift": _numpy_call("right_shift"),
        }
    )
    for name in _METHODS:
        setattr(Tensor, name, _forward(name))
    Tensor.reshape = _reshape
    Tensor.transpose = _transpose
    Tensor.compress = _compress
    Tensor.T = property(_transpose)
    Tensor.at = property(_at)
    Tensor.real = property(_forward("real"))
    Tensor.imag = property(_forward("imag"))
    Tensor.astype = _astype
    Tensor.numpy = numpy
    Tensor.copy = _copy
    Tensor.nbytes = property(lambda self: self.size * self.dtype.itemsize)
    Tensor.itemsize = property(lambda self: self.dtype.itemsize)
    Tensor.__array__ = _array
    Tensor.__format__ = _format
    Tensor.__complex__ = lambda self: complex(_item(self, "complex()"))
    Tensor.__copy__ = Tensor.copy
    Tensor.__deepcopy__ = lambda self, memo: Tensor.copy(self)
    _interop.install()
    _exchange.install()
    _members.install()
