"""What a function with has_aux returns beside its value: containers of arrays, and of anything that holds none."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from lamina import ref
from lamina._core import Tensor
from lamina._functions import _name
from lamina._tensor import to_tensor
from lamina.tree import TreeDef, tree_flatten, tree_leaves, tree_unflatten


class Pair:
    """A function that returns (value, aux) as one that returns (value, arrays of aux).

    What else is in aux (strings, settings, functions) passes by the transform: `aux` puts it back in its place, as it
    was in the latest call.
    """

    def __init__(self, f: Callable[..., Any]) -> None:
        functools.update_wrapper(self, f, updated=())
        self._f = f
        self._treedef: TreeDef | None = None
        self._kept: dict[int, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, list[Any]]:
        out = self._f(*args, **kwargs)
        if not isinstance(out, tuple) or len(out) != 2:
            got = (
                f"a {type(out).__name__} of {len(out)}"
                if isinstance(out, (tuple, list))
                else type(out).__name__
            )
            raise TypeError(
                f"with has_aux, {_name(self._f)} must return a two-element tuple (value, aux), not {got}"
            )
        ref.refuse_returned(self._f, out)
        leaves, self._treedef = tree_flatten(out[1])
        self._kept, arrays = {}, []
        for i, x in enumerate(leaves):
            try:
                arrays.append(to_tensor(x))
            except TypeError:
                if _holds_arrays(x):  # which would leak: what takes the arrays says so
                    arrays.append(x)
                else:
                    self._kept[i] = x
        return out[0], arrays

    def aux(self, arrays: Iterable[Any]) -> Any:
        """The container that the function returned, with these arrays in it."""
        given = iter(arrays)
        n = self._treedef.num_leaves
        return tree_unflatten(
            self._treedef, [self._kept[i] if i in self._kept else next(given) for i in range(n)]
        )


def _holds_arrays(x: Any) -> bool:
    """Whether an object has arrays among its attributes or elements, or a function in its closure."""
    from lamina._masked import MaskedElements

    held = (Tensor, MaskedElements)
    return isinstance(x, held) or any(isinstance(leaf, held) for v in _parts(x) for leaf in tree_leaves(v))


def _parts(x: Any) -> Iterator[Any]:
    if getattr(getattr(x, "dtype", None), "hasobject", False):
        yield list(x.flat)
    if isinstance(x, functools.partial):
        yield from (x.args, x.keywords)
    if isinstance(x, types.MethodType):
        yield from _parts(x.__self__)
        x = x.__func__
    if isinstance(x, type):
        return
    yield from getattr(x, "__dict__", {}).values()
    for cls in type(x).__mro__:
        names: str | Sequence[str] = cls.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            yield getattr(x, name, None)
    for cell in getattr(x, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not bound yet
            continue
