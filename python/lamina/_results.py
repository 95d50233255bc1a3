"""Results of public functions belong to the caller: writing to one never writes to an argument or another result.

But `out`, where a function takes one, is what it writes to and returns.
"""

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


def recorded(f: Callable[..., Any]) -> Any:
    """Decorator: as if `f` were among RECORDED."""
    return functools.update_wrapper(_core.own_results(f, False, recorded=True), f)


def _all(*arrays: Any) -> Sequence[Any]:
    return arrays


def _einsum(subscripts: Any, *operands: Any, **_: Any) -> Sequence[Any]:
    from lamina.numpy._linear import einsum_rearranges

    return einsum_rearranges(subscripts, operands)


# And for some arguments: what each result is a view of, None for none.
VIEWED: dict[str, Callable[..., Sequence[Any]]] = {
    "array": lambda a, dtype=None, copy=True, *_, **__: (a if _same(a, dtype) and not copy else None,),
    "astype": lambda x, dtype, *, copy=True, **_: (x if _same(x, dtype) and not copy else None,),
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
    "meshgrid": lambda *xi, copy=True, **_: [None] * len(xi) if copy else xi,
    "nan_to_num": lambda x, copy=True, *_, **__: (None if copy else x,),
    "polyder": lambda p, m=1: (p if m == 0 else None,),
    "polyint": lambda p, m=1, *_, **__: (p if m == 0 else None,),
    "ravel": lambda a, order="C": (None if order == "F" and _ndim(a) > 1 else a,),
}
# What records the same ops for Tensors of the same types, and looks at no element: Python runs it twice. Not what is
# made of constants alone.
RECORDED = frozenset(
    [
        "all", "amax", "amin", "any", "argmax", "argmin", "argsort", "average", "broadcast", "broadcast_in_dim",
        "broadcast_to", "cholesky", "column_stack", "concatenate", "conv", "conv_general_dilated", "convolve",
        "corrcoef", "correlate", "count_nonzero", "cov", "cross", "cummax", "cummin", "cumprod", "cumsum", "det",
        "diagonal", "dot", "dot_general", "dstack", "einsum", "expand_dims", "flip", "fliplr", "flipud", "gelu",
        "glu", "hstack", "inner", "interp", "inv", "kron", "log_softmax", "logsumexp", "matmul", "matrix_power",
        "max", "mean", "median", "min", "moveaxis", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin",
        "nanprod", "nanstd", "nansum", "nanvar", "norm", "one_hot", "outer", "pad", "polyval", "prod", "ptp", "ravel",
        "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum", "relu", "repeat",
        "reshape", "rev", "roll", "rot90", "searchsorted", "sigmoid", "silu", "slice", "slice_in_dim", "softmax",
        "softplus", "solve", "sort", "squeeze", "stack", "standardize", "std", "sum", "swapaxes", "swish",
        "tensordot", "tile", "trace", "transpose", "trapezoid", "tril", "triu", "var", "vdot", "vecdot", "vstack",
    ]
)  # fmt: skip
# And of these every number is an operand: another one is another value, and no other program.
ELEMENTWISE = frozenset(
    [
        "arctan2", "atan2", "celu", "clip", "copysign", "deg2rad", "degrees", "elu", "exp2", "float_power",
        "floor_divide", "fmax", "fmin", "fmod", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "heaviside",
        "hypot", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "leaky_relu", "log10", "log1mexp", "log2",
        "log_sigmoid", "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor", "mish",
        "mod", "nan_to_num", "rad2deg", "radians", "relu6", "remainder", "selu", "sinc", "soft_sign", "sparse_plus",
        "sparse_sigmoid", "squareplus", "trunc",
    ]
)  # fmt: skip
# What gives a Tensor back as it is, as in NumPy.
SHARING = frozenset(["asanyarray", "asarray", "ascontiguousarray", "asfarray", "require"])


def _same(x: Any, dtype: Any) -> bool:
    from lamina.dtypes import name_of

    return isinstance(x, Tensor) and (dtype is None or x.dtype == name_of(dtype))


def _ndim(x: Any) -> int:
    return x.ndim if isinstance(x, Tensor) else -1


def _kind(x: Any) -> str:
    return x.dtype.kind if isinstance(x, Tensor) else ""


# A Tensor of the value of the second argument, as a view of the first.
seen_as = _core.own_results(lambda viewed, result: result, True)


def _viewing(f: Any, name: str, viewed: Callable[..., Sequence[Any]]) -> Any:
    owned = _core.own_results(f, False, name in RECORDED, name in ELEMENTWISE)

    def called(*args: Any, **kwargs: Any) -> Any:
        result = owned(*args, **kwargs)
        many = isinstance(result, (tuple, list))
        marked = [
            seen_as(x, r) if isinstance(x, Tensor) else r
            for x, r in zip(viewed(*args, **kwargs), result if many else [result], strict=True)
        ]
        return type(result)(marked) if many else marked[0]

    return called


def _writing_out(owned: Any, f: Any) -> Any:
    """`f` with an argument `out`: the Tensor or NumPy array that the result is written to, and that is returned."""
    code = f.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    place = names.index("out") if "out" in names[: code.co_argcount] else 1 << 30
    typed = "dtype" in names

    def called(*args: Any, **kwargs: Any) -> Any:
        if len(args) <= place and "out" not in kwargs:
            return owned(*args, **kwargs)
        out = args[place] if len(args) > place else kwargs.pop("out")
        args = (*args[:place], None, *args[place + 1 :]) if len(args) > place else args
        if out is None:
            return owned(*args, **kwargs)
        if typed and "dtype" not in kwargs and len(args) <= names.index("dtype"):
            kwargs["dtype"] = _wider(args[0] if args else kwargs[names[0]], out)
        return _written(out, owned(*args, **kwargs), f.__name__)

    return called


def _wider(a: Any, out: Any) -> Any:
    """The type that a reduction is computed in for `out`: its own where that holds more."""
    from lamina import numpy as lnp

    return (
        out.dtype
        if hasattr(out, "dtype") and lnp.promote_types(lnp.asarray(a).dtype, out.dtype) == out.dtype
        else None
    )


def _written(out: Any, result: Tensor, name: str) -> Any:
    from lamina import numpy as lnp
    from lamina.numpy._common import in_place

    if not hasattr(out, "dtype") or not hasattr(out, "shape"):
        raise TypeError(f"{name}: out must be an array, not {type(out).__name__}")
    if out.shape != result.shape:
        raise ValueError(f"{name}: out has shape {out.shape}, the result {result.shape}")
    if not lnp.can_cast(result.dtype, out.dtype, "same_kind"):
        raise TypeError(f"{name}: a {result.dtype.name} result cannot be written to out of {out.dtype}")
    in_place(out, lnp.astype(result, out.dtype), name)
    return out


def own(namespace: dict[str, Any], views: Collection[str] = ()) -> None:
    """Lets the public functions of a module, given by its globals, return Tensors that nobody else holds.

    Called at the end of every module with functions on arrays. `views` names those whose results are views in NumPy,
    among them any of VIEWED.
    """
    for name in namespace.get("__all__") or [n for n in namespace if not n.startswith("_")]:
        f = namespace[name]
        if isinstance(f, types.FunctionType) and f.__module__.startswith("lamina.") and name not in SHARING:
            sometimes = VIEWED.get(name) if views else None
            made = (
                _core.own_results(f, name in views, name in RECORDED, name in ELEMENTWISE)
                if sometimes is None
                else _viewing(f, name, sometimes)
            )
            if "out" in f.__code__.co_varnames[: f.__code__.co_argcount + f.__code__.co_kwonlyargcount]:
                made = _writing_out(made, f)
            owned = functools.update_wrapper(made, f)
            owned.__module__ = namespace["__name__"]
            namespace[name] = owned
