"""``jax.numpy.float32`` and its like: classes that name an element type, equal to NumPy's, and make arrays."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from lamina import dtypes
from lamina import numpy as lnp
from lamina._core import Tensor

from lamina_as_jax import types64

# Of integers of one bit, where this version of ml_dtypes has them.
ONE_BIT = tuple(n for n in ("int1", "uint1") if hasattr(ml_dtypes, n))


class _Meta(type):
    dtype: np.dtype[Any]

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __eq__(cls, other: object) -> bool:
        return (
            cls is other or cls.dtype.type == other or (isinstance(other, _Meta) and cls.dtype == other.dtype)
        )

    def __call__(cls, x: Any = 0) -> Any:
        if isinstance(x, str):
            x = cls.dtype.type(x)
        return lnp.asarray(types64.argument(x), dtype=types64.narrowed(cls.dtype.name))

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, cls.dtype.type) or (
            isinstance(x, Tensor) and x.ndim == 0 and x.dtype == cls.dtype.name
        )


_PYTHON = {"b": bool, "i": int, "u": int, "f": float, "c": complex}
_WIDE = {narrow: wide for wide, narrow in types64._NARROW.items()}


def python_type(x: Any) -> type:
    """The type of Python's whose numbers are like the elements."""
    return _PYTHON[dtypes.TABLE[lnp.asarray(x).dtype.name].kind]


def promote_types(a: Any, b: Any) -> np.dtype[Any]:
    """As Lamina's. Python's types are of 64 bits where they are not another's; without those, types stay of 32."""
    name = lnp.promote_types(a, b).name
    others = [dtypes.name_of(t) for t in (a, b) if t not in (int, float, complex)]
    if len(others) == 2:
        wide = any(o in types64._NARROW for o in others)
        return np.dtype(name if wide else types64.narrowed(name))
    kinds = {dtypes.TABLE[o].kind for o in others}
    if kinds & {dtypes.TABLE[name].kind, "f", "c"} or (kinds == {"u"} and dtypes.TABLE[name].kind == "u"):
        return np.dtype(name)
    return np.dtype(_WIDE.get(name, name))


def table() -> dict[str, Any]:
    """The types of jax.numpy by name."""
    made = {}
    for name in dtypes.TABLE:
        made[name] = _Meta(name, (), {"dtype": np.dtype(name), "__module__": "jax.numpy"})
    for name in ONE_BIT:  # names only: Lamina has no elements of one bit
        made[name] = _Meta(name, (), {"dtype": np.dtype(getattr(ml_dtypes, name)), "__module__": "jax.numpy"})
    out = {n: t for n, t in made.items() if n != "bool"}
    out.update(bool_=made["bool"], bool=made["bool"])
    short = {
        "int_": "int64",
        "uint": "uint64",
        "float_": "float64",
        "complex_": "complex128",
        "single": "float32",
    }
    short.update(double="float64", csingle="complex64", cdouble="complex128")
    out.update({n: made[t] for n, t in short.items()})
    kinds = ("generic", "number", "integer", "signedinteger", "unsignedinteger")
    kinds = (*kinds, "inexact", "floating", "complexfloating", "character", "flexible", "object_")
    out.update({n: getattr(np, n) for n in kinds}, ComplexWarning=np.exceptions.ComplexWarning)
    return out
