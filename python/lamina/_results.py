"""Results of public functions belong to the caller: writing to one never writes to an argument or another result."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Collection, Sequence
from typing import Any

from lamina import _core
from lamina._core import Tensor

# What NumPy returns views for. Here they are copies, and a write to one raises while the Tensor itself lives.
VIEWS = frozenset(
    [
        "array_split", "broadcast_to", "diagonal", "dsplit", "expand_dims", "flip", "fliplr", "flipud", "hsplit",
        "imag", "matrix_transpose", "moveaxis", "permute_dims", "real", "reshape", "rollaxis", "rot90",
        "split", "squeeze", "swapaxes", "transpose", "trim_zeros", "unstack", "vsplit",
    ]
)  # fmt: skip


def _all(*arrays: Any) -> Sequence[Any]:
    return arrays


def _einsum(subscripts: Any, *operands: Any, **_: Any) -> Sequence[Any]:
    from lamina.numpy._linear import einsum_rearranges

    return einsum_rearranges(subscripts, operands)


# And for some arguments: what each result is a view of, None for none.
VIEWED: dict[str, Callable[..., Sequence[Any]]] = {
    "atleast_1d": _all,
    "atleast_2d": _all,
    "atleast_3d": _all,
    "broadcast_arrays": _all,
    "diag": lambda v, k=0: (v if _ndim(v) == 2 else None,),
    "diff": lambda a, n=1, *_, **__: (a if n == 0 else None,),
    "einsum": _einsum,
    "histogram": lambda a, bins=10, *_, **__: (None, bins),
    "histogram_bin_edges": lambda a, bins=10, *_, **__: (bins,),
    "ix_": lambda *arrays: [None if _kind(x) == "b" else x for x in arrays],
    "nan_to_num": lambda x, copy=True, *_, **__: (None if copy else x,),
    "polyder": lambda p, m=1: (p if m == 0 else None,),
    "polyint": lambda p, m=1, *_, **__: (p if m == 0 else None,),
    "ravel": lambda a, order="C": (None if order == "F" and _ndim(a) > 1 else a,),
}
# What gives a Tensor back as it is, as in NumPy.
SHARING = frozenset(["asanyarray", "asarray", "ascontiguousarray", "asfarray", "require"])


def _ndim(x: Any) -> int:
    return x.ndim if isinstance(x, Tensor) else -1


def _kind(x: Any) -> str:
    return x.dtype.kind if isinstance(x, Tensor) else ""


# A Tensor of the value of the second argument, as a view of the first.
seen_as = _core.own_results(lambda viewed, result: result, True)


def _viewing(f: Any, viewed: Callable[..., Sequence[Any]]) -> Any:
    owned = _core.own_results(f, False)

    def called(*args: Any, **kwargs: Any) -> Any:
        result = owned(*args, **kwargs)
        many = isinstance(result, (tuple, list))
        marked = [
            seen_as(x, r) if isinstance(x, Tensor) else r
            for x, r in zip(viewed(*args, **kwargs), result if many else [result], strict=True)
        ]
        return type(result)(marked) if many else marked[0]

    return called


def own(namespace: dict[str, Any], views: Collection[str] = ()) -> None:
    """Lets the public functions of a module, given by its globals, return Tensors that nobody else holds.

    Called at the end of every module with functions on arrays. `views` names those whose results are views in NumPy,
    among them any of VIEWED.
    """
    for name in namespace.get("__all__") or [n for n in namespace if not n.startswith("_")]:
        f = namespace[name]
        if isinstance(f, types.FunctionType) and f.__module__.startswith("lamina.") and name not in SHARING:
            sometimes = VIEWED.get(name) if views else None
            made = _core.own_results(f, name in views) if sometimes is None else _viewing(f, sometimes)
            owned = functools.update_wrapper(made, f)
            owned.__module__ = namespace["__name__"]
            namespace[name] = owned
