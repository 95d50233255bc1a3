"""Operations that compilers may know by a name, and what keeps a value in a program: composite, dce_sink."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from typing import Any

from lamina import _core, dtypes
from lamina._core import Tensor
from lamina._functions import _name, need_function
from lamina.lax._precision import _type as _float_type

_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*([.][a-zA-Z0-9_$]+)+")
_INTEGER = re.compile(r"(u?)int(\d+)")


def _type(dtype: Any) -> str:
    """An element type as StableHLO writes it."""
    name = dtypes.canonical(dtype).name
    if found := _INTEGER.fullmatch(name):
        return ("ui" if found[1] else "i") + found[2]
    return "i1" if name == "bool" else _float_type(name)


def _number(x: Any, kind: str, width: int) -> str:
    """An element as MLIR writes it: all bits of it, and those of what is no number in hexadecimal."""
    if kind == "b":
        return "true" if x else "false"
    if kind in "iu":
        return str(int(x))
    import numpy as np

    if not math.isfinite(x):
        of_width = np.dtype(f"f{width}").type(x).view(f"u{width}")
        return f"0x{int(of_width):0{2 * width}X}"
    short = f"{float(x):.6e}"
    exact = np.dtype(f"f{width}").type(short) == x
    return short if exact else f"{float(x):.{9 if width == 4 else 17}g}"


def _array(x: Any) -> str:
    kind = x.dtype.kind
    if kind not in "biuf" or (kind == "f" and x.dtype.itemsize not in (2, 4, 8)):
        raise TypeError(f"an array of {x.dtype} elements")
    texts = [_number(e, kind, x.dtype.itemsize) for e in x.ravel()]
    if x.ndim == 0:
        return f"{texts[0]} : {_type(x.dtype)}"

    def nested(shape: tuple[int, ...], parts: list[str]) -> str:
        if not shape:
            return parts[0]
        step = len(parts) // shape[0]
        return (
            "["
            + ", ".join(nested(shape[1:], parts[i * step : (i + 1) * step]) for i in range(shape[0]))
            + "]"
        )

    inside = "" if not texts else texts[0] if len(set(texts)) == 1 else nested(x.shape, texts)
    return f"dense<{inside}> : tensor<{''.join(f'{n}x' for n in x.shape)}{_type(x.dtype)}>"


def _text(x: Any, alone: bool = True) -> str:
    """An attribute in StableHLO's text. TypeError for what is none."""
    import numpy as np

    if isinstance(x, (bool, np.bool_)):
        return "true" if x else "false"
    if isinstance(x, int):
        return f"{x} : i64" if alone else str(x)
    if isinstance(x, float):
        return _number(x, "f", 8) + " : f64" * alone
    if isinstance(x, str):
        return '"' + "".join(f"\\{ord(c):02X}" if c in '"\\' or c < " " else c for c in x) + '"'
    if (
        isinstance(x, np.dtype)
        or (isinstance(x, type) and issubclass(x, np.generic))
        or isinstance(x, dtypes.DType)
    ):
        return _type(x)
    if isinstance(x, (np.ndarray, np.generic)):
        return _array(np.asarray(x))
    if isinstance(x, (tuple, list)):
        return "[" + ", ".join(_text(e, False) for e in x) + "]"
    if isinstance(x, dict):
        return _dictionary(x)
    raise TypeError(f"{x!r:.60} ({type(x).__name__})")


def _dictionary(given: dict[str, Any]) -> str:
    return "{" + ", ".join(f"{k} = {_text(v)}" for k, v in sorted(given.items())) + "}"


def composite(decomposition: Callable[..., Any], name: str, version: int = 0) -> Callable[..., Any]:
    """`decomposition` as one operation that compilers may know by its name, version and attributes.

    Positional arguments (containers of arrays) are what the operation takes, keyword arguments its attributes: numbers,
    strings, element types, NumPy's arrays, and lists and dictionaries of those; None is left out. In exported programs
    it is a ``stablehlo.composite`` of the function; here it computes what the function does, and derivatives and batches
    are those of the function. ValueError for a name that is not of the form "namespace.operation".

    >>> @functools.partial(lax.composite, name="my.softmax")
    ... def softmax(x, /, *, axis):
    ...     return lm.nn.softmax(x, axis)
    """
    from lamina._tensor import to_tensor
    from lamina._transforms import _Flat
    from lamina.tree import tree_flatten, tree_unflatten

    need_function(decomposition, "composite")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"a composite is named as in 'my_namespace.my_op', not {name!r}")

    @functools.wraps(decomposition)
    def call(*args: Any, **attributes: Any) -> Any:
        given = {k: v for k, v in attributes.items() if v is not None}
        try:
            text = _dictionary(given) if given else ""
        except TypeError as e:
            raise TypeError(
                f"the composite {name} has an attribute that is neither a number, a string, an element type, an array "
                f"of NumPy's nor a list or dictionary of those: {e}. What is computed is passed by position; if you are "
                "passing a Tensor as an attribute, use a NumPy array instead"
            ) from None
        leaves, treedef = tree_flatten((args, {}))
        arrays = [_core.set_weak(to_tensor(x), False) for x in leaves]
        flat = _Flat(functools.partial(decomposition, **attributes), treedef)
        out = _core.composite(flat, arrays, name, version, text)
        return tree_unflatten(flat.out_tree, flat.settled(args, {}, out))

    call.__name__ = getattr(call, "__name__", _name(decomposition))
    return call


def dce_sink(val: Any, *, prevent_mlir_dce: bool = False) -> None:
    """Marks `val`, any container of arrays, as used.

    With `prevent_mlir_dce` it is computed in every run of the program, though no result needs it; without, compilers
    leave it out, and so does Lamina.
    """
    from lamina._callback import io_callback
    from lamina._tensor import to_tensor
    from lamina.tree import tree_map

    arrays = tree_map(to_tensor, val)
    if prevent_mlir_dce:
        io_callback(_nothing, None, arrays)


def _nothing(_: Any) -> None:
    pass


def shape_as_value(shape: Any) -> Tensor:
    """A shape as an int32 vector."""
    from lamina import numpy as lnp
    from lamina.lax._base import ints

    return lnp.asarray(ints(shape), dtype="int32")
