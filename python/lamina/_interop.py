"""Tensors among other libraries and tools: NumPy's protocols, pickle, the array API, notebooks."""

from __future__ import annotations

import math
import operator
from typing import Any

from lamina import _core, dtypes
from lamina._core import Tensor


def find(name: str, module: str) -> Any:
    """This library's function for NumPy's `module`.`name`; None if there is none."""
    from lamina import numpy as lnp

    target: Any = lnp
    for part in module.split(".")[1:]:
        target = getattr(target, part, None)
    f = getattr(target, name, None) if target is not None else None
    return f if callable(f) else None


_REDUCTIONS = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all",
               "logical_or": "any"}  # fmt: skip


def array_ufunc(self: Tensor, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
    """Universal functions of NumPy and SciPy on Tensors: this library's function of the name, else on the values.

    NumPy arrays as `out` are filled.
    """
    from lamina import numpy as lnp

    if method == "__call__" and not kwargs:
        f = vars(lnp).get(ufunc.__name__)
        if f is None:
            from lamina.scipy import special

            f = vars(special).get(ufunc.__name__)
        result = f(*inputs) if callable(f) else None
    elif method == "reduce" and ufunc.__name__ in _REDUCTIONS:
        options = {"axis": 0, **kwargs}
        result = getattr(lnp, _REDUCTIONS[ufunc.__name__])(*inputs, **options)
    else:
        result = None
    if result is None:
        f = getattr(ufunc, method)
        name = ufunc.__name__ + ("" if method == "__call__" else f".{method}")
        return _on_values(f, name, inputs, kwargs if out is None else {**kwargs, "out": out})
    if out is None:
        return result
    return _filled(out, result)


def _filled(out: Any, result: Any) -> Any:
    import numpy as np

    (target,) = out if isinstance(out, tuple) else (out,)
    if isinstance(target, Tensor):
        raise TypeError("a Tensor cannot be the `out` of a NumPy function; use the result")
    np.copyto(target, np.asarray(result), casting="same_kind")
    return target


def array_function(self: Tensor, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """NumPy's other functions: this library's one of the name, else NumPy's on the values, with Tensors as results."""
    f = find(func.__name__, func.__module__ or "numpy")
    if f is not None and "out" not in kwargs:
        return f(*args, **kwargs)
    return _on_values(func, f"{func.__module__ or 'numpy'}.{func.__name__}", args, kwargs)


def _on_values(func: Any, name: str, args: Any, kwargs: Any) -> Any:
    """A function of NumPy arrays on the values, with Tensors as results. TypeError inside a trace or a derivative."""
    import numpy as np

    from lamina.tree import tree_leaves, tree_map

    tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    if not all(_core.forceable(x) for x in tensors):
        raise TypeError(f"{name} has no counterpart here and needs values, but an argument is being traced")
    if any(_core.differentiated(x) for x in tensors):
        from lamina import _source

        frame = _source.user_frame()
        raise TypeError(
            f"{name} has no counterpart here, and an argument is being differentiated: NumPy's result would have no "
            "derivative"
            + ("\n" + _source.place_of(frame).shown() if frame else "")
            + "\n  Write it with lamina.numpy's functions, or take lamina.lax.stop_gradient of the argument, if it "
            "is a constant here."
        )
    given, named = tree_map(
        lambda x: np.asarray(x) if isinstance(x, Tensor) else x, (list(args), dict(kwargs))
    )
    result = func(*given, **named)
    if "out" in kwargs:
        return result
    return tree_map(lambda x: _tensor(x) if isinstance(x, (np.ndarray, np.generic)) else x, result)


def _tensor(x: Any) -> Any:
    t = _core.asarray(x)
    return x if t is None else t


def array_namespace(self: Tensor, *, api_version: str | None = None) -> Any:
    """The module with the array API's functions."""
    from lamina import numpy as lnp

    known = ("2021.12", "2022.12", "2023.12", lnp.__array_api_version__)
    if api_version not in (None, *known):
        raise ValueError(f"the array API version {api_version!r} is not known; known are {', '.join(known)}")
    return lnp


def to_device(self: Tensor, device: Any, /, *, stream: Any = None) -> Tensor:
    """A copy on `device`. ValueError where there is no such device (see `lamina.devices`)."""
    from lamina import _devices

    return _devices.placed(_core.set_weak(self, self.weak_type), device)


def _unpickled(data: bytes, dtype: str, shape: tuple[int, ...], weak: bool) -> Tensor:
    if not weak:
        return _core.with_dtype_bits(data, dtype, list(shape))
    wide = _core.wide_type(dtype)
    return _core.recast(_core.set_weak(_core.with_dtype_bits(data, wide, list(shape)), True), dtype)


def reduce(self: Tensor) -> Any:
    """Pickles as bytes and types: every element type, without NumPy. Numbers keep their bits."""
    if self.weak_type:
        wide = _core.recast(self, _core.wide_type(self.dtype))
        return _unpickled, (memoryview(wide).tobytes(), str(self.dtype), self.shape, True)
    bits = _core.raw_bits(self) if dtypes.is_foreign(self.dtype) else memoryview(self)
    return _unpickled, (bits.tobytes(), str(self.dtype), self.shape, False)


def html(self: Tensor) -> str:
    """For notebooks: type, size, statistics and values."""
    import html as escape

    from lamina._tensor import describe, numpy

    head = f"<b>Tensor</b> {describe(self)}"
    if not _core.forceable(self):
        return f"<div>{head}, being traced</div>"
    if _core.differentiated(self):
        return f"<div>{head}, being differentiated<pre>{escape.escape(repr(self))}</pre></div>"
    import numpy as np

    values = numpy(self)
    rows = [("elements", f"{self.size:,}"), ("bytes", f"{self.nbytes:,}")]
    if self.size and self.dtype.kind in "fiu":
        wide = values.astype(np.float64)
        finite = wide[np.isfinite(wide)]
        if finite.size:
            rows += [
                ("min", f"{finite.min():.6g}"),
                ("mean", f"{finite.mean():.6g}"),
                ("max", f"{finite.max():.6g}"),
            ]
        if finite.size != wide.size:
            rows.append(("not finite", f"{wide.size - finite.size:,}"))
    cells = "".join(f"<tr><th>{k}</th><td>{v}</td></tr>" for k, v in rows)
    text = escape.escape(np.array2string(values, separator=", ", threshold=100, edgeitems=3))
    return f"<div>{head}<table>{cells}</table><pre>{text}</pre></div>"


def rounded(self: Tensor, ndigits: int | None = None) -> Any:
    from lamina import numpy as lnp

    if ndigits is None and self.ndim == 0 and self.dtype.kind in "fiu":
        return _whole(round, self)
    return lnp.round(self, operator.index(ndigits or 0))


def _whole(f: Any, x: Tensor) -> Any:
    """round, math.floor and their like of a number: an integer, of a traced one an array of it.

    It is piecewise constant, so that it may leave a derivative.
    """
    if _core.forceable(x):
        return f(_core.value_of(x).item())
    from lamina import numpy as lnp
    from lamina._tensor import describe

    if x.size != 1 or x.dtype.kind == "c":
        raise TypeError(f"{f.__name__} makes an integer of one real number, not of {describe(x)}")
    return as_integer(getattr(lnp, f.__name__)(x).reshape(()))


def as_integer(x: Tensor) -> Tensor:
    """A whole number as Python's integers are among arrays: weak, and int32 where that holds the type's digits."""
    from lamina._tensor import astype

    wide = x.dtype.itemsize == 8 or x.dtype == "uint32"
    name = x.dtype.name if x.dtype == "uint64" else "int64" if wide else "int32"
    return _core.set_weak(astype(x, name), True)


def matrix_transpose(self: Tensor) -> Tensor:
    from lamina import numpy as lnp

    if self.ndim < 2:
        raise ValueError(f".mT needs at least two dimensions; this Tensor has shape {self.shape}")
    return lnp.swapaxes(self, -1, -2)


def install() -> None:
    """Attaches what is above to the Tensor type."""
    from lamina import _devices

    Tensor.__array_ufunc__ = array_ufunc
    Tensor.__array_function__ = array_function
    Tensor.__array_namespace__ = array_namespace
    Tensor.__reduce__ = reduce
    Tensor.__round__ = rounded
    for f in (math.floor, math.ceil, math.trunc):
        setattr(Tensor, f"__{f.__name__}__", lambda self, f=f: _whole(f, self))
    Tensor._repr_html_ = html
    Tensor.to_device = to_device
    Tensor.device = property(_devices.of)
    Tensor.devices = lambda self: {self.device}
    Tensor.is_ready = lambda self: _core.is_ready(self)
    Tensor.mT = property(matrix_transpose)
