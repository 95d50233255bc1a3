"""What an AttributeError of the library says: what to use in the place of a name that is not there."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

_DEVICES = "there is one device, the CPU: leave it out"
_NUMPY_ONLY = "NumPy's takes Tensors outside transforms, and gives NumPy arrays"
_KEYS = "random numbers come from explicit keys: "

# Names of NumPy, JAX and PyTorch that are not here, by the module that they are asked of.
_INSTEAD: dict[str, dict[str, str]] = {
    "lamina": {
        "live_arrays": "lamina.cache.show tells what is compiled; memory belongs to the Tensors that you hold",
        "pmap": "use lamina.vmap, with an axis_name for collectives: there is one device",
    },
    "lamina.numpy": {
        "asmatrix": "use 2-d arrays and @",
        "bmat": "use lamina.numpy.block",
        "char": "Tensors hold numbers and booleans only",
        "complex256": "the widest complex type is complex128",
        "datetime64": "Tensors hold numbers and booleans only; count seconds or days in int64",
        "errstate": "nothing warns: look for NaN and infinities with lamina.numpy.isfinite",
        "flatiter": "use x.flat",
        "float128": "the widest float is float64",
        "frompyfunc": "use lamina.numpy.vectorize",
        "longdouble": "the widest float is float64",
        "ma": "use lamina.numpy.where with a mask, or the `where` argument of reductions",
        "matrix": "use 2-d arrays and @",
        "memmap": "use lamina.numpy.asarray(numpy.memmap(...))",
        "nditer": "use numpy.nditer on x.numpy()",
        "ndenumerate": "use numpy.ndenumerate on x.numpy()",
        "ndindex": "use numpy.ndindex, which gives tuples of integers",
        "object_": "Tensors hold numbers and booleans only; containers of Tensors are lists and dicts (lamina.tree)",
        "random": "use lamina.random, with explicit keys",
        "real_if_close": "use lamina.numpy.real",
        "row_stack": "use lamina.numpy.vstack",
        "seterr": "nothing warns: look for NaN and infinities with lamina.numpy.isfinite",
        "shares_memory": "no two Tensors share memory that can be written",
        "may_share_memory": "no two Tensors share memory that can be written",
        "str_": "Tensors hold numbers and booleans only",
        "timedelta64": "Tensors hold numbers and booleans only; count seconds or days in int64",
        "ufunc": "functions are plain functions; use lamina.numpy.vectorize to make one of scalars",
    },
    "lamina.random": {
        "default_rng": _KEYS + "key = lamina.random.key(seed)",
        "key_dtype": "keys are uint32 arrays of shape [..., 2]",
        "rand": _KEYS + "use uniform(key, shape)",
        "randn": _KEYS + "use normal(key, shape)",
        "random": _KEYS + "use uniform(key, shape)",
        "random_sample": _KEYS + "use uniform(key, shape)",
        "seed": _KEYS + "key = lamina.random.key(seed)",
        "shuffle": "use permutation(key, x)",
        "standard_normal": "use normal(key, shape)",
        "standard_gamma": "use gamma(key, a, shape)",
        "standard_t": "use t(key, df, shape)",
    },
    "Tensor": {
        "addressable_shards": _DEVICES,
        "backward": "use lamina.grad of a function that gives the loss",
        "clone": "use x.copy()",
        "cpu": "it is on the CPU; x.numpy() is the NumPy array",
        "cuda": _DEVICES,
        "detach": "use lamina.lax.stop_gradient(x)",
        "dim": "use x.ndim",
        "double": "use x.astype('float64')",
        "dump": "use lamina.numpy.save",
        "expand": "use lamina.numpy.broadcast_to(x, shape)",
        "float": "use x.astype('float32')",
        "grad": "use lamina.grad of a function of the array",
        "long": "use x.astype('int64')",
        "numel": "use x.size",
        "partition": "use lamina.numpy.partition(x, kth)",
        "permute": "use x.transpose(axes)",
        "requires_grad": "use lamina.grad of a function of the array",
        "resize": "use lamina.numpy.resize(x, shape)",
        "setflags": "Tensors can always be written; x.numpy() is read-only",
        "sharding": _DEVICES,
        "strides": "Tensors are in row-major order; x.numpy().strides has them",
        "to": "use x.astype(dtype)",
        "tofile": "use x.numpy().tofile(file)",
        "type": "use x.dtype or x.astype(dtype)",
        "unsqueeze": "use lamina.numpy.expand_dims(x, axis)",
    },
}


def explain(asked: str, name: str, names: Iterable[str]) -> str:
    """What to use in the place of `name`: of a row of the table, else what has a name like it; "" for neither."""
    row = _INSTEAD.get(asked, {}).get(name)
    if row:
        return f"; {row}"
    import difflib

    public = [n for n in names if not n.startswith("_")]
    near = difflib.get_close_matches(name, public, n=3, cutoff=0.75)
    if asked == "lamina.numpy" and not near:
        import numpy as np

        if callable(getattr(np, name, None)):
            return f"; {_NUMPY_ONLY} (numpy.{name})"
    return f"; did you mean {' or '.join(near)}?" if near else ""


def attributes(
    module: str, submodules: Collection[str] = (), names: Mapping[str, str] | None = None
) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module: loads `submodules` when they are first used, and explains what is missing.

    `names` are those of single functions that load on first use, and the submodules that they are in.
    """
    single = names or {}

    def missing(name: str) -> Any:
        if name in submodules:
            return importlib.import_module(f"{module}.{name}")
        if name in single:
            return getattr(importlib.import_module(f"{module}.{single[name]}"), name)
        text = ""
        if not name.startswith("__"):
            text = explain(module, name, [*vars(sys.modules[module]), *submodules, *single])
        raise AttributeError(f"module {module!r} has no attribute {name!r}{text}", name=name)

    missing.__name__ = "__getattr__"
    return missing


def of_tensor(self: Any, name: str) -> Any:
    """Tensor's ``__getattr__``."""
    text = "" if name.startswith("__") else explain("Tensor", name, dir(type(self)))
    if not text and not name.startswith("_"):
        from lamina import numpy as lnp

        if callable(vars(lnp).get(name)):
            text = f"; use lamina.numpy.{name}(x)"
    raise AttributeError(f"'Tensor' object has no attribute {name!r}{text}")
