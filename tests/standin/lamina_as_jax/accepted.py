"""Which element types the operations of ``jax.lax`` take: TypeErrors for the others, of which Lamina takes more."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from lamina import dtypes
from lamina._core import Tensor

from lamina_as_jax import types64

_FLOATS, _COMPLEX = ("floating",), ("complexfloating",)
_INEXACT = (*_FLOATS, *_COMPLEX)
_NUMBERS = ("integer", *_INEXACT)
_BITS = ("integer", "bool")
_OF_PARTS = ("float32", "float64")  # which complex numbers are made of

_UNARY: dict[str, tuple[str, ...]] = {
    "abs": (*_INEXACT, "signedinteger"),
    "bitwise_not": _BITS,
    "conj": ("float32", "complexfloating", "float64"),
    **dict.fromkeys(("imag", "real"), _COMPLEX),
    **dict.fromkeys(("clz", "population_count"), ("integer",)),
    **dict.fromkeys(("integer_pow", "neg", "sign", "square"), _NUMBERS),
    **dict.fromkeys(
        (
            *("bessel_i0e", "bessel_i1e", "cbrt", "ceil", "digamma", "erf", "erf_inv", "erfc", "floor"),
            *("is_finite", "lgamma", "round"),
        ),
        _FLOATS,
    ),
    **dict.fromkeys(
        (
            *(
                "acos",
                "acosh",
                "asin",
                "asinh",
                "atan",
                "atanh",
                "cos",
                "cosh",
                "exp",
                "exp2",
                "expm1",
                "log",
            ),
            *("log1p", "logistic", "reciprocal", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh"),
        ),
        _INEXACT,
    ),
}
OF_MATRICES = ("lu", "qr", "svd")
_OF_MORE: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("add", "sub", "mul", "div"), _NUMBERS),
    "rem": ("integer", "floating"),
    **dict.fromkeys(("pow", "atan2"), _INEXACT),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), _BITS),
    **dict.fromkeys(("shift_left", "shift_right_logical", "shift_right_arithmetic"), ("integer",)),
    **dict.fromkeys(("nextafter", "igamma", "igammac", "zeta", "polygamma"), _FLOATS),
    "complex": _OF_PARTS,
    **dict.fromkeys(OF_MATRICES, _INEXACT),
    **dict.fromkeys(("lt", "le", "gt", "ge"), ("integer", "floating", "bool")),
}
_KINDS = {"floating": "f", "complexfloating": "c", "integer": "iu", "signedinteger": "i", "bool": "b"}
_TOLD_AS = {"reciprocal": "integer_pow"}  # others by their name without what says that they are of bits


def _name_of_type(x: Any) -> str | None:
    """The element type of a plain array or number; None for other objects, and for zeros without a type."""
    if type(x) is Tensor or (isinstance(x, (np.ndarray, np.generic)) and x.dtype.names is None):
        return types64.narrowed(x.dtype.name)
    return types64.canonical(type(x)).name if type(x) in (bool, int, float, complex) else None


def _takes(accepted: tuple[str, ...], dtype: str) -> bool:
    return any(dtypes.TABLE[dtype].kind in _KINDS.get(a, "") or dtype == a for a in accepted)


def _check(name: str, operands: tuple[Any, ...]) -> None:
    told = _TOLD_AS.get(name, name.removeprefix("bitwise_"))
    for place, x in enumerate(operands):
        dtype = _name_of_type(x)
        if dtype not in dtypes.TABLE:
            continue
        accepted = _UNARY.get(name) or _OF_MORE[name]
        if name == "pow" and place:
            accepted = _NUMBERS
        at = f" at position {place}" if name in _OF_MORE else ""
        if not _takes(accepted, dtype):
            raise TypeError(
                f"{told} does not accept dtype {dtype}{at}. Accepted dtypes{at} are subtypes of {', '.join(accepted)}."
            )
        if name == "abs" and dtype in ("int2", "int4"):
            raise TypeError(
                f"abs does not accept dtype {dtype}. Narrow integers are for sums, products and conversions."
            )


def _check_powers(x: Any, y: Any) -> None:
    """TypeError for a power of floats of two types."""
    mine, its = _name_of_type(x), _name_of_type(y)
    if None not in (mine, its) and mine != its and dtypes.TABLE[its].kind in "fc":
        raise TypeError(
            "the first argument to pow must have an inexact dtype (float or complex), and the second argument must have "
            f"an inexact or integer dtype, and two inexact dtypes must match, but got {mine} and {its} respectively."
        )


def _check_integer_power(x: Any, y: int) -> None:
    dtype = _name_of_type(x)
    if y < 0 and dtype is not None and dtypes.TABLE[dtype].kind in "iu":
        raise TypeError(
            f"Integers cannot be raised to negative powers, got integer_pow({dtype}{list(np.shape(x))}, {y})"
        )


_FURTHER = {"pow": _check_powers, "integer_pow": _check_integer_power}


def checked(name: str, f: Callable[..., Any]) -> Callable[..., Any]:
    """An operation that refuses element types as JAX's does."""

    @functools.wraps(f)
    def call(*operands: Any, **options: Any) -> Any:
        _check(name, operands[:1] if name in _UNARY or name in OF_MATRICES else operands)
        if name in _FURTHER:
            _FURTHER[name](*operands, **options)
        return f(*operands, **options)

    return call


NAMES = (*_UNARY, *(n for n in _OF_MORE if n not in OF_MATRICES))
