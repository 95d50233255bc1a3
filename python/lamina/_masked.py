"""`x[mask]` where the mask is not known: inside a jit or vmap.

The number of elements that it selects is not known either, so it is no Tensor. What can be done with it needs no
number: arithmetic, sums, and writing it through the same mask, so that ``z[z > 2] += s`` and ``z[m] = -y[m]`` work in
traced code as they do outside. Everything else raises TypeError with the remedy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from lamina import _core
from lamina._core import Tensor
from lamina._tensor import describe, to_tensor


def unknown_mask(mask: Tensor) -> TypeError:
    """The error for a use of `x[mask]` that needs the number of elements."""
    return TypeError(
        f"a boolean mask {describe(mask)} gives a result whose shape depends on its values, which are "
        "not known inside a jit or vmap.\n"
        "  Use lamina.numpy.where(mask, x, 0) or nonzero(mask, size=n)"
    )


class MaskedElements:
    """The elements of an array at a mask that is not known; see the module.

    `full` has the array's shape: the elements where the mask is set, and elsewhere values of no account that are
    harmless to any arithmetic (1, so that neither they nor their derivatives become infinite).
    """

    __slots__ = ("full", "mask")
    __array_ufunc__ = None  # NumPy arrays leave operators to this class
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, mask: Tensor, full: Tensor) -> None:
        from lamina import numpy as lnp

        self.mask = mask
        self.full = lnp.where(self.spread(full.ndim), full, lnp.ones((), full.dtype))

    def spread(self, ndim: int) -> Tensor:
        """The mask with its dimensions in front of others of size 1."""
        from lamina._indexing import reshape

        return reshape(self.mask, (*self.mask.shape, *[1] * (ndim - self.mask.ndim)))

    def written_to(self, x: Tensor, key_mask: Tensor) -> Tensor:
        """`x` with these elements at `key_mask`, which must be their own mask."""
        from lamina import numpy as lnp
        from lamina._indexing import setitem_value

        if not _core.same_value(key_mask, self.mask):
            raise TypeError(
                f"the elements of one boolean mask {describe(self.mask)} are written through another, "
                f"{describe(key_mask)}: inside a jit or vmap it is not known whether they are as many.\n"
                "  Use one mask for both, or lamina.numpy.where"
            )
        return lnp.where(self.spread(x.ndim), setitem_value(x, ..., self.full), x)

    def _join(self, f: Callable[..., Any], *others: Any, turned: bool = False) -> Any:
        parts = []
        for other in others:
            if isinstance(other, MaskedElements):
                if not _core.same_value(other.mask, self.mask):
                    raise unknown_mask(other.mask)
                other = other.full
            elif to_tensor(other).ndim > self.full.ndim - self.mask.ndim:
                raise unknown_mask(self.mask)
            parts.append(other)
        return MaskedElements(self.mask, f(*parts, self.full) if turned else f(self.full, *parts))

    def astype(self, dtype: Any) -> MaskedElements:
        """The elements converted to `dtype`."""
        return self._join(lambda full: full.astype(dtype))

    @property
    def dtype(self) -> Any:
        """Element type."""
        return self.full.dtype

    def _reduced(self, name: str) -> Tensor:
        from lamina import numpy as lnp

        return getattr(lnp, name)(self.full, where=self.spread(self.full.ndim))

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise unknown_mask(self.mask)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(Tensor, name):
            raise AttributeError(name)
        raise unknown_mask(self.mask)

    def _refuse(self, *args: Any) -> Any:
        raise unknown_mask(self.mask)

    __len__ = __iter__ = __getitem__ = __bool__ = __float__ = __int__ = _refuse


_ARITHMETIC = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
)
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")


def _operators(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    f = getattr(operator, name)
    return lambda self, *others: self._join(f, *others), lambda self, other: self._join(f, other, turned=True)


def _install() -> None:
    for name in (*_ARITHMETIC, *_COMPARISONS, "neg", "abs", "invert"):
        forward, backward = _operators(name)
        setattr(MaskedElements, f"__{name.strip('_')}__", forward)
        if name in _ARITHMETIC:
            setattr(MaskedElements, f"__r{name.strip('_')}__", backward)
    for name in ("sum", "prod", "mean", "any", "all"):

        def reduction(self: MaskedElements, name: str = name) -> Tensor:
            return self._reduced(name)

        reduction.__name__, reduction.__doc__ = name, f"As `lamina.numpy.{name}` of all elements."
        setattr(MaskedElements, name, reduction)


_install()
