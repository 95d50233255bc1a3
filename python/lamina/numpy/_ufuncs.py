"""NumPy's methods of elementwise functions: `reduce`, `accumulate`, `outer`, `at`, `reduceat`; and `frompyfunc`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from lamina import _core
from lamina._core import Tensor
from lamina._functions import need_function
from lamina._indexing import broadcast, getitem, reshape
from lamina._tensor import as_type, astype, to_tensor
from lamina.numpy import _elementwise as e
from lamina.numpy import _reductions
from lamina.numpy._common import canonical_axes, canonical_axis, compare, default_int, in_place, iota, select
from lamina.numpy._shape import moveaxis

__all__ = ["frompyfunc", "ufunc"]


_NUMBERS = (_reductions.sum, _reductions.prod)


class _HasMethods(type):
    def __instancecheck__(cls, x: object) -> bool:
        return type.__instancecheck__(cls, x) or (callable(x) and type(getattr(x, "nin", None)) is int)


class ufunc(metaclass=_HasMethods):
    """A function of elements, called on arrays that broadcast; `frompyfunc` makes one.

    Its methods are NumPy's. They go through the elements in their order, so that `func` need not be associative.
    `lamina.numpy.add` and its like have them too.
    """

    def __init__(self, func: Callable[..., Any], nin: int, nout: int, *, identity: Any = None) -> None:
        from lamina.numpy._vectorize import vectorize

        if nin < 0 or nout < 1:
            raise ValueError(f"a function of elements has arguments and results, not {nin} and {nout}")
        functools.update_wrapper(self, func)
        self._func, self._counts, self._identity = func, (nin, nout), identity
        self._call: Callable[..., Any] = vectorize(func)
        self._updates = ""
        self._reduces: Callable[..., Tensor] | None = None

    @classmethod
    def _of(cls, f: Callable[..., Any], nin: int, identity: Any, updates: str, reduces: Any) -> ufunc:
        """The methods of a function that works on arrays already."""
        made = cls.__new__(cls)
        made._func, made._counts, made._identity = f, (nin, 1), identity
        made.__name__, made._call, made._updates, made._reduces = f.__name__, f, updates, reduces
        return made

    @property
    def nin(self) -> int:
        """How many arguments it takes."""
        return self._counts[0]

    @property
    def nout(self) -> int:
        """How many results it gives."""
        return self._counts[1]

    @property
    def nargs(self) -> int:
        """Arguments and results."""
        return sum(self._counts)

    @property
    def identity(self) -> Any:
        """What `reduce` gives for no elements; None if nothing."""
        return self._identity

    def __call__(self, *args: Any) -> Any:
        if len(args) != self.nin:
            raise TypeError(f"{self.__name__} takes {self.nin} arguments, not {len(args)}")
        return self._call(*args)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def _parts(self) -> tuple[Any, ...]:
        return self._func, self._counts, self._identity

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r}>"

    def _binary(self, method: str) -> None:
        if self.nin != 2 or self.nout != 1:
            raise ValueError(
                f"{method} needs a function of two arguments with one result, not {self.__name__}"
            )

    def reduce(
        self,
        a: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Tensor:
        """All elements along one or more axes (None: all) joined by the function, from `initial` on.

        ValueError for no elements where neither `initial` nor the identity stands for them.
        """
        self._binary("reduce")
        x = to_tensor(a) if dtype is None else as_type(a, dtype)
        if self._reduces is not None:
            options = {"where": where, "keepdims": keepdims}
            if initial is not None:
                options["initial"] = initial
            if dtype is not None and self._reduces in _NUMBERS:
                options["dtype"] = dtype
            if initial is None or self._reduces not in (_reductions.all, _reductions.any):
                return self._reduces(x, axis, **options)
        axes = canonical_axes(axis, x.ndim)
        shape = x.shape
        mask = None if where is None else self._lined(broadcast(to_tensor(where), shape), axes)
        x = self._lined(x, axes)
        start = self.identity if initial is None and (mask is not None or x.shape[0] == 0) else initial
        if start is None and mask is not None:
            raise ValueError(f"{self.__name__}.reduce with `where` needs `initial`: it has no identity")
        out_ = self._folded(x, start, mask)
        return reshape(out_, [1 if d in axes else n for d, n in enumerate(shape)]) if keepdims else out_

    def _counted(self, a: Any) -> Tensor:
        """An array, of which sums and products are taken in the type of `reduce`: truth values are numbers to them."""
        x = to_tensor(a)
        if self._reduces not in _NUMBERS or x.dtype.kind not in "biu":
            return x
        return astype(x, {"b": default_int(), "i": "int64", "u": "uint64"}[x.dtype.kind])

    def _lined(self, x: Tensor, axes: list[int]) -> Tensor:
        """The axes as the first one, in row-major order."""
        rest = [n for d, n in enumerate(x.shape) if d not in axes]
        return reshape(
            moveaxis(x, axes, list(range(len(axes)))), [math.prod(x.shape[d] for d in axes), *rest]
        )

    def _folded(self, x: Tensor, start: Any, mask: Tensor | None) -> Tensor:
        from lamina import lax

        if start is None and x.shape[0] == 0:
            raise ValueError(f"{self.__name__}.reduce of no elements, without an identity, needs `initial`")
        first = 1 if start is None else 0
        carry = getitem(x, 0) if start is None else broadcast(as_type(start, x.dtype), x.shape[1:])
        if x.shape[0] == first:
            return carry
        carry = astype(carry, self._result_type(x))

        def step(k: Any, c: Tensor) -> Tensor:
            new = astype(self._call(c, getitem(x, k)), c.dtype)
            return new if mask is None else select(getitem(mask, k), new, c)

        return lax.fori_loop(first, x.shape[0], step, carry)

    def _result_type(self, x: Tensor) -> Any:
        from lamina._transforms import eval_shape

        element = _core.set_weak(broadcast(as_type(0, x.dtype), ()), False)
        once = eval_shape(self._call, element, element)
        return eval_shape(self._call, broadcast(as_type(0, once.dtype), ()), element).dtype

    def accumulate(self, a: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Tensor:
        """The results of `reduce` over the first 1, 2, ... elements along an axis."""
        from lamina import lax

        self._binary("accumulate")
        x = self._counted(a) if dtype is None else as_type(a, dtype)
        d = canonical_axis(axis, x.ndim)
        x = moveaxis(x, d, 0)
        if x.shape[0] == 0:
            return moveaxis(x, 0, d)
        x = astype(x, self._result_type(x)) if dtype is None else x

        def step(c: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
            new = astype(self._call(c, v), c.dtype)
            return new, new

        rest = lax.scan(step, getitem(x, 0), getitem(x, slice(1, None)))[1]
        from lamina.numpy._shape import concatenate

        return moveaxis(concatenate([getitem(x, slice(0, 1)), rest], 0), 0, d)

    def outer(self, A: Any, B: Any, /) -> Any:
        """The function of every pair of elements; the shape is that of A and then that of B."""
        if self.nin != 2:
            raise ValueError(f"outer needs a function of two arguments, not {self.__name__}")
        a, b = to_tensor(A), to_tensor(B)
        return self._call(reshape(a, (*a.shape, *[1] * b.ndim)), b)

    def at(self, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Tensor | None:
        """Writes the function of the elements at `indices` (and of `b`), as often as an index stands there.

        With ``inplace=False`` gives a new array instead. TypeError where `b` is missing or too much.
        """
        if inplace:
            return in_place(a, self.at(a, indices, b, inplace=False), f"{self.__name__}.at")
        x = to_tensor(a)
        if self.nout != 1 or self.nin not in (1, 2) or (b is None) != (self.nin == 1):
            raise TypeError(
                f"{self.__name__}.at: a function of {self.nin} arguments takes {self.nin - 1} values"
            )
        if self.nin == 1:
            return x.at[indices].apply(self._call)
        if self._updates:
            return getattr(x.at[indices], self._updates)(b)
        from lamina import lax

        places = getitem(reshape(iota("int32", (x.size,), 0), x.shape), indices)
        values = reshape(broadcast(to_tensor(b), places.shape), (places.size,))
        places = reshape(places, (places.size,))

        def step(k: Any, flat: Tensor) -> Tensor:
            i = getitem(places, k)
            return flat.at[i].set(self._call(getitem(flat, i), getitem(values, k)))

        flat = reshape(x, (x.size,))
        return reshape(lax.fori_loop(0, places.size, step, flat) if places.size else flat, x.shape)

    def reduceat(self, a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Tensor:
        """For each index the result of `reduce` from there to the next index, or the element there if that is not later.

        The last one reaches to the end. IndexError for known indices out of range.
        """
        from lamina import lax

        self._binary("reduceat")
        x = self._counted(a) if dtype is None else as_type(a, dtype)
        d = canonical_axis(axis, x.ndim)
        x, begin = moveaxis(x, d, 0), to_tensor(indices)
        if begin.ndim != 1 or begin.dtype.kind not in "iu":
            raise TypeError(
                f"reduceat needs a 1-d array of integers, not {begin.dtype.name} of shape {begin.shape}"
            )
        n = x.shape[0]
        acc = astype(x[begin], self._result_type(x))
        begin = select(compare(begin, 0, "LT"), begin + n, begin)
        from lamina.numpy._shape import append

        end = append(getitem(begin, slice(1, None)), n)
        rows = [begin.size, *[1] * (x.ndim - 1)]

        def step(k: Any, acc: Tensor) -> Tensor:
            active = e.logical_and(compare(begin, k, "LT"), compare(end, k, "GT"))
            new = astype(self._call(acc, getitem(x, k)), acc.dtype)
            return select(reshape(active, rows), new, acc)

        return moveaxis(lax.fori_loop(1, n, step, acc) if n > 1 else acc, 0, d)


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A function of single elements as a `ufunc` with `nin` arguments and `nout` results."""
    need_function(func, "frompyfunc")
    return ufunc(func, nin, nout, identity=identity)


# name: (number of arguments, identity, the update of `at`, the reduction)
_ROWS: dict[str, tuple[int, Any, str, Any]] = {
    "add": (2, 0, "add", _reductions.sum),
    "subtract": (2, None, "subtract", None),
    "multiply": (2, 1, "multiply", _reductions.prod),
    "negative": (1, None, "", None),
    "maximum": (2, None, "max", _reductions.max),
    "minimum": (2, None, "min", _reductions.min),
    "logical_and": (2, True, "", _reductions.all),
    "logical_or": (2, False, "", _reductions.any),
    "logical_xor": (2, False, "", None),
    "bitwise_and": (2, -1, "", None),
    "bitwise_or": (2, 0, "", None),
    "bitwise_xor": (2, 0, "", None),
    "logaddexp": (2, -math.inf, "", None),
    "logaddexp2": (2, -math.inf, "", None),
}


def install(namespace: dict[str, Any]) -> None:
    """Gives the functions of a namespace their methods."""
    for name, row in _ROWS.items():
        f = namespace[name]
        methods = ufunc._of(f, *row)
        for attribute in (
            "reduce",
            "accumulate",
            "outer",
            "at",
            "reduceat",
            "nin",
            "nout",
            "nargs",
            "identity",
        ):
            setattr(f, attribute, getattr(methods, attribute))
