"""What the Tensor type has beyond its slots: conversions, printing, methods."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from lamina import _core, _interop, _read_set, _source, dtypes
from lamina._core import Tensor

asarray_core = _core.asarray


def recording(op_name: str, kinds: str, direction: str = "") -> Callable[[Any], Any]:
    """Decorator: calls on Tensors of these kinds (and numbers) record `op_name` without running the function."""

    def decorate(f: Any) -> Any:
        return functools.update_wrapper(_core.elementwise_function(op_name, kinds, f, direction), f)

    return decorate


def to_tensor(x: Any, dtype: Any = None) -> Tensor:
    """`x` as a Tensor: a Tensor, number, NumPy array or scalar, or a nested list of those.

    Raises TypeError for anything else.
    """
    t = x if isinstance(x, Tensor) else _core.asarray(x)
    if t is None and isinstance(x, (list, tuple)):
        t = _from_nested(x)
    if t is None and hasattr(x, "__array__"):
        import numpy as np

        array = np.asarray(x)
        name = array.dtype.name
        if name in dtypes.TABLE and dtypes.is_foreign(name):
            bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")
            t = _core.with_dtype_bits(bits, name, list(array.shape))
        else:
            t = _core.asarray(array)
    if t is None:
        raise TypeError(f"a Tensor, number or array is needed, not {type(x).__name__}: {x!r:.60}")
    return t if dtype is None else astype(t, dtype)


def _from_nested(x: list[Any] | tuple[Any, ...]) -> Tensor | None:
    """A nested list: through NumPy when it holds numbers only, else by stacking tensors."""
    from lamina import tree

    leaves = tree.tree_leaves(x)
    if any(isinstance(leaf, Tensor) for leaf in leaves):
        from lamina import numpy as lnp

        return lnp.stack([to_tensor(item) for item in x])
    import numpy as np

    try:
        array = np.array(x)
    except ValueError as e:
        raise ValueError(f"the nested list is ragged: {e}") from None
    if array.dtype == object:
        return None
    narrow = {"float64": np.float32, "int64": np.int32, "complex128": np.complex64}
    if array.dtype.name in narrow and not any(isinstance(leaf, np.generic) for leaf in leaves):
        fits = array.dtype.kind != "i" or (np.abs(array) < 2**31).all()
        array = array.astype(narrow[array.dtype.name]) if fits else array
    return _core.asarray(array)


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

    _needs_value(x, "a NumPy array")
    if dtypes.is_foreign(x.dtype):
        try:
            import ml_dtypes

            return np.asarray(memoryview(x)).view(getattr(ml_dtypes, x.dtype.name))
        except (ImportError, AttributeError):
            near = {"f": "float32", "i": "int8", "u": "uint8"}[x.dtype.kind]
            return np.asarray(memoryview(astype(x, near)))
    return np.asarray(memoryview(x))


def _array(x: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    a = numpy(x)
    if dtype is not None and a.dtype != dtype:
        return a.astype(dtype)
    return a.copy() if copy else a


def _item(x: Tensor) -> Any:
    if x.size != 1:
        raise ValueError(f"only a Tensor with one element is a Python number; this one has shape {x.shape}")
    return numpy(x).reshape(()).item()


def describe(x: Tensor) -> str:
    return f"{x.dtype.name}[{','.join(map(str, x.shape))}]"


def _needs_value(x: Tensor, what: str) -> None:
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


def _bool(x: Tensor) -> bool:
    if x.size != 1:
        raise ValueError(f"the truth value of a Tensor of shape {x.shape} is ambiguous; use .any() or .all()")
    if not _core.forceable(x):
        if _core.any_open_scope():
            from lamina import _jit

            return _jit.decide(x)
        _needs_value(x, "bool()")
    return bool(_item(x))


def _float(x: Tensor) -> float:
    _needs_value(x, "float()")
    return float(_item(x))


def _int(x: Tensor) -> int:
    _needs_value(x, "int()")
    return int(_item(x))


def _index(x: Tensor) -> int:
    if x.dtype.kind not in "iu" or x.ndim != 0:
        raise TypeError(f"only an integer scalar can be an index, not {describe(x)}")
    _needs_value(x, "an index")
    return int(_item(x))


def _repr(x: Tensor) -> str:
    if not _core.forceable(x):
        if "was donated" in _core.why_unknown(x):
            return f"<donated {describe(x)}>"
        file, line, _ = _core.where_made(x)
        at = f" from {os.path.basename(file)}:{line}" if file else ""
        return f"<traced {describe(x)}{at}>"
    import numpy as np

    text = np.array2string(numpy(x), separator=", ", prefix="Tensor(", threshold=1000)
    shape = f", shape={x.shape}" if x.size > 1000 or x.size == 0 else ""
    return f"Tensor({text}{shape}, dtype={x.dtype.name})"


def _format(x: Tensor, spec: str) -> str:
    return format(_item(x), spec) if x.ndim == 0 and spec else format(_repr(x), spec)


def _iter(x: Tensor) -> Any:
    if x.ndim == 0:
        raise TypeError("a 0-d Tensor cannot be iterated over")
    return iter([x[i] for i in range(x.shape[0])])


def _getitem(x: Tensor, key: Any) -> Tensor:
    from lamina import _indexing

    return _indexing.getitem(x, key)


def _setitem(x: Tensor, key: Any, value: Any) -> None:
    from lamina import _indexing

    if _core.stamp(x) < _core.innermost_stamp():
        file, line, _ = _core.where_made(x)
        raise TypeError(
            f"x[...] = v writes to a Tensor made outside the transformed function (at {file}:{line}); "
            "copy it inside first, or return the new value"
        )
    _core.rebind(x, _indexing.setitem_value(x, key, value))


def _numpy_call(name: str) -> Any:
    def call(a: Any, b: Any) -> Any:
        from lamina import numpy as lnp

        for x in (a, b):
            if not isinstance(x, Tensor) and _core.asarray(x) is None:
                return NotImplemented
        return getattr(lnp, name)(a, b)

    return call


def block_until_ready(x: Any) -> Any:
    """Computes every Tensor in `x` (any container) now; returns `x`."""
    from lamina import tree

    _core.force([leaf for leaf in tree.tree_leaves(x) if isinstance(leaf, Tensor)])
    return x


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
    "conj",
    "argsort",
    "sort",
    "take",
    "repeat",
    "diagonal",
    "trace",
    "nonzero",
    "argpartition",
    "choose",
    "compress",
    "conjugate",
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


def _reshape(self: Tensor, *shape: Any) -> Tensor:
    from lamina import numpy as lnp

    return lnp.reshape(self, shape[0] if len(shape) == 1 else shape)


def _transpose(self: Tensor, *axes: Any) -> Tensor:
    from lamina import numpy as lnp

    return lnp.transpose(self, (axes[0] if len(axes) == 1 else axes) or None)


def _at(self: Tensor) -> Any:
    from lamina import _indexing

    return _indexing.At(self)


def install() -> None:
    """Attaches the methods and hooks; called once when the package is imported."""
    _source.install_hook()
    _core.set_hooks(
        {
            "explain": _source.explain,
            "observed": _read_set.Observed,
            "package_path": os.path.dirname(os.path.abspath(__file__)) + os.sep,
            "dtype": dtypes.TABLE.__getitem__,
            "repr": _repr,
            "iter": _iter,
            "bool": _bool,
            "float": _float,
            "int": _int,
            "index": _index,
            "getitem": _getitem,
            "setitem": _setitem,
            "true_divide": _numpy_call("true_divide"),
            "floor_divide": _numpy_call("floor_divide"),
            "remainder": _numpy_call("remainder"),
            "divmod": _numpy_call("divmod"),
            "matmul": _numpy_call("matmul"),
            "power": _numpy_call("power"),
        }
    )
    for name in _METHODS:
        setattr(Tensor, name, _forward(name))
    Tensor.reshape = _reshape
    Tensor.transpose = _transpose
    Tensor.T = property(_transpose)
    Tensor.at = property(_at)
    Tensor.real = property(lambda self: _core.elementwise("real", self) if self.dtype.kind == "c" else self)
    Tensor.imag = property(lambda self: _core.elementwise("imag", self))
    Tensor.flatten = lambda self: _reshape(self, -1)
    Tensor.astype = astype
    Tensor.item = _item
    Tensor.tolist = lambda self: numpy(self).tolist()
    Tensor.numpy = numpy
    Tensor.copy = lambda self: _core.set_weak(self, self.weak_type)
    Tensor.block_until_ready = block_until_ready
    Tensor.nbytes = property(lambda self: self.size * self.dtype.itemsize)
    Tensor.itemsize = property(lambda self: self.dtype.itemsize)
    Tensor.__array__ = _array
    Tensor.__format__ = _format
    Tensor.__complex__ = lambda self: complex(_item(self))
    Tensor.__copy__ = Tensor.copy
    Tensor.__deepcopy__ = lambda self, memo: Tensor.copy(self)
    _interop.install()
