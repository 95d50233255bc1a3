"""Results of public functions belong to the caller: writing to one never writes to an argument or another result."""

from __future__ import annotations

import functools
import types
from collections.abc import Collection
from typing import Any

from lamina import _core

# What NumPy returns views for. Here they are copies, and a write to one raises while the Tensor itself lives.
VIEWS = frozenset(
    [
        "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to", "diag", "diagonal",
        "dsplit", "expand_dims", "flip", "fliplr", "flipud", "hsplit", "imag", "ix_", "matrix_transpose", "moveaxis",
        "permute_dims", "ravel", "real", "reshape", "rollaxis", "rot90", "split", "squeeze", "swapaxes", "transpose",
        "trim_zeros", "unstack", "vsplit",
    ]
)  # fmt: skip
# What gives a Tensor back as it is, as in NumPy.
SHARING = frozenset(["asanyarray", "asarray", "ascontiguousarray", "asfarray", "require"])


def own(namespace: dict[str, Any], views: Collection[str] = ()) -> None:
    """Lets the public functions of a module, given by its globals, return Tensors that nobody else holds.

    Called at the end of every module with functions on arrays.
    """
    for name in namespace.get("__all__") or [n for n in namespace if not n.startswith("_")]:
        f = namespace[name]
        if isinstance(f, types.FunctionType) and f.__module__.startswith("lamina.") and name not in SHARING:
            owned = functools.update_wrapper(_core.own_results(f, name in views), f)
            owned.__module__ = namespace["__name__"]
            namespace[name] = owned
