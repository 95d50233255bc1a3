"""What the options jax_numpy_dtype_promotion="strict" and jax_numpy_rank_promotion="warn" or "raise" make of calls."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from lamina import dtypes
from lamina._core import Tensor

from lamina_as_jax import types64
from lamina_as_jax.messages import TypePromotionError

_OPERATORS = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "floordiv": "floor_divide",
    "mod": "remainder", "divmod": "divmod", "pow": "power", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift", "lt": "less", "le": "less_equal",
    "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal",
}  # fmt: skip
_OF_ELEMENTS = frozenset(
    (
        *_OPERATORS.values(),
        *(
            "divide",
            "mod",
            "fmod",
            "float_power",
            "maximum",
            "minimum",
            "fmax",
            "fmin",
            "arctan2",
            "atan2",
            "hypot",
        ),
        *(
            "logaddexp",
            "logaddexp2",
            "copysign",
            "nextafter",
            "heaviside",
            "gcd",
            "lcm",
            "isclose",
            "allclose",
            "clip",
        ),
    )
)
_OTHERS = frozenset(
    (
        *(
            "stack",
            "concatenate",
            "concat",
            "hstack",
            "vstack",
            "dstack",
            "column_stack",
            "append",
            "array",
            "where",
        ),
        *(
            "dot",
            "matmul",
            "vdot",
            "inner",
            "outer",
            "tensordot",
            "einsum",
            "cross",
            "kron",
            "vecdot",
            "matvec",
        ),
        *("convolve", "correlate", "select_function", "result_type", "promote_types", "update"),
    )
)
_OF_TRUTH = frozenset(("logical_and", "logical_or", "logical_xor", "ldexp"))  # types are not promoted
# Which arguments are promoted, where they are not the first two.
_PLACES = {
    **dict.fromkeys(
        ("stack", "concatenate", "concat", "hstack", "vstack", "dstack", "column_stack", "array"), slice(1)
    ),
    **dict.fromkeys(("where", "select_function"), slice(1, 3)),
    **dict.fromkeys(("einsum", "result_type"), slice(None)),
    "clip": slice(3),
}
_LADDER = "ifc"  # what numbers of Python's yield to: what is of a kind as high


def _name(name: str) -> str:
    """The function of an operator's name, or the name."""
    plain = name.strip("_")
    if plain == name:
        return name
    return _OPERATORS.get(plain) or _OPERATORS.get(plain.removeprefix("r")) or plain


def _arrays(x: Any) -> Iterator[Any]:
    if isinstance(x, (list, tuple)):
        for v in x:
            yield from _arrays(v)
    elif isinstance(x, (Tensor, np.ndarray, np.generic, bool, int, float, complex)):
        yield x


def _type(x: Any) -> tuple[str, bool]:
    """The element type, and whether it yields."""
    if isinstance(x, (bool, int, float, complex)) and not isinstance(x, np.generic):
        kind = x.__class__  # which what stands for a number while its reads are watched has from that
        return kind.__name__, kind is not bool
    if isinstance(x, (np.ndarray, np.generic)):
        return types64.canonical(x.dtype).name, False
    kinds = {"i": "int", "f": "float", "c": "complex"}
    return (kinds[x.dtype.kind], True) if x.weak_type else (x.dtype.name, False)


def _check_types(arrays: Sequence[Any]) -> None:
    types = dict.fromkeys(map(_type, arrays))
    strong = [name for name, yields in types if not yields]
    weakest = max((_LADDER.index(name[0]) for name, yields in types if yields), default=-1)
    kind = dtypes.TABLE[strong[0]].kind if strong else "c"
    if len(strong) > 1 or weakest > ("b" + _LADDER).index("i" if kind == "u" else kind) - 1:
        shown = tuple(f"<class '{n}'>" if yields or n == "bool" else n for n, yields in types)
        raise TypePromotionError(
            f"Input dtypes {shown} have no available implicit dtype promotion path when "
            "jax_numpy_dtype_promotion=strict. Try explicitly casting inputs to the desired output type, or set "
            "jax_numpy_dtype_promotion=standard."
        )


def _check_ranks(name: str, arrays: Sequence[Any], how: str) -> None:
    shapes = [np.shape(x) for x in arrays]
    if len({len(s) for s in shapes if s}) < 2:
        return
    told = " ".join(map(str, shapes))
    if how == "raise":
        raise ValueError(
            f"Operands could not be broadcast together for {name} on shapes {told} and with the config option "
            "jax_numpy_rank_promotion='raise'."
        )
    warnings.warn(
        f"Following NumPy automatic rank promotion for {name} on shapes {told}. Set the jax_numpy_rank_promotion config "
        "option to 'allow' to disable this warning.",
        stacklevel=5,
    )


def asked(strict: bool, ranks: str) -> None:
    """Sets what is looked at from now on."""

    def check(name: str, args: Sequence[Any]) -> None:
        name = _name(name)
        promotes = name in _OF_ELEMENTS or name in _OTHERS
        if not promotes and name not in _OF_TRUTH:
            return
        arrays = list(_arrays(args[_PLACES.get(name, slice(2))]))
        if strict and promotes and len(arrays) > 1:
            _check_types(arrays)
        if ranks != "allow" and name not in _OTHERS:
            _check_ranks(name, arrays, ranks)

    types64.looked_at_by(check if strict or ranks != "allow" else None)
