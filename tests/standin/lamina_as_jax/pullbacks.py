"""What `vjp` gives in JAX: a function of cotangents whose kept arrays may be looked at, taken out and given again.

Lamina's pull-back is a container of what it keeps. Here those of the kept arrays that are arguments are told from the
others, and gradients may be added to references instead of being returned.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lamina as lm
import numpy as np
from lamina import _core, ref
from lamina._linear import Linear
from lamina._tensor import to_tensor

from lamina_as_jax import messages
from lamina_as_jax.avals import Marker


class NotNeeded(Marker):
    """In the place of an argument that no gradient depends on."""


class GradValue(Marker):
    """Asks for a gradient as a result."""


class DontWant(Marker):
    """Asks for no gradient."""


class DidntWant(Marker):
    """In the place of a gradient that was not asked for."""


class GradRef(Marker):
    """In the place of a gradient that was added to a reference."""


def _is_leaf(x: Any) -> bool:
    return x is None or isinstance(x, Marker)


def _is_one(x: Any, kept: Any) -> bool:
    """Whether an argument is what is kept, which has a node of its own. Not known of what is being traced."""
    if not (isinstance(x, lm.Tensor) and isinstance(kept, lm.Tensor)):
        return False
    if _core.is_one_value(x, kept):
        return True
    if x.shape != kept.shape or x.dtype != kept.dtype or not (_core.forceable(x) and _core.forceable(kept)):
        return False
    return np.shares_memory(np.asarray(x), np.asarray(kept))


class VJP:
    """A pull-back. `run` calls Lamina's with a cotangent, with JAX's types."""

    def __init__(self, run: Callable[..., Any], linear: Linear, primals: Any) -> None:
        self._run, self._linear, self._primals = run, linear, primals
        self._form: Any = None
        self._places: tuple[int, ...] = ()  # of each kept array: the leaf of the arguments that it is, or -1
        self._arguments: list[Any] = []
        self._opaque: list[Any] = []

    def _apart(self) -> VJP:
        """Itself, its kept arrays told from each other."""
        if self._form is None:
            kept, self._form = self._linear.flatten()
            leaves, treedef = lm.tree.tree_flatten(list(self._primals))
            own = [next((i for i, p in enumerate(leaves) if _is_one(p, k)), -1) for k in kept]
            self._places = tuple(own)
            self._arguments = treedef.unflatten(
                [p if i in own else NotNeeded() for i, p in enumerate(leaves)]
            )
            self._opaque = [k for k, place in zip(kept, own, strict=True) if place < 0]
            self._linear = self._primals = None
        return self

    @property
    def args_res(self) -> list[Any]:
        """The arguments that gradients depend on, each of which may be taken out and given again."""
        return self._apart()._arguments

    @args_res.setter
    def args_res(self, arguments: Any) -> None:
        self._apart()._arguments = list(arguments)

    @property
    def opaque_residuals(self) -> list[Any]:
        """What else is kept."""
        return self._apart()._opaque

    def _whole(self) -> Linear:
        given = lm.tree_util.tree_leaves(self._arguments, is_leaf=_is_leaf)
        rest = iter(self._opaque)
        kept = []
        for place in self._places:
            kept.append(next(rest) if place < 0 else given[place] if place < len(given) else None)
            if kept[-1] is None:
                raise ValueError(f"args_res lacks argument {place}, which the gradients depend on")
        return Linear.unflatten(self._form, kept)

    @messages.telling
    def __call__(self, *cotangents: Any) -> Any:
        return self._run(self._linear if self._form is None else self._whole(), *cotangents)

    def with_refs(self, *places: Any) -> Callable[..., Any]:
        """The function of a cotangent that adds gradients to references, and gives those marked `GradValue`."""

        def call(*cotangents: Any) -> Any:
            found = self(*cotangents)
            if len(places) != len(found):
                raise TypeError(
                    f"with_refs takes {len(found)} places, one for each argument, not {len(places)}"
                )
            return tuple(
                lm.tree_util.tree_map(_placed, p, d, is_leaf=lambda x: ref.is_ref(x) or _is_leaf(x))
                for p, d in zip(places, found, strict=True)
            )

        return call


def _placed(place: Any, gradient: Any) -> Any:
    if ref.is_ref(place):
        ref.addupdate(place, ..., gradient)
        return GradRef()
    return gradient if isinstance(place, GradValue) else DidntWant()


def _parts(x: VJP) -> tuple[Any, Any]:
    x._apart()
    return (x._arguments, x._opaque), (x._run, x._form, x._places)


def _made(meta: Any, children: Any) -> VJP:
    out = object.__new__(VJP)
    out._run, out._form, out._places = meta
    out._linear = out._primals = None
    out._arguments, out._opaque = map(list, children)
    return out


lm.tree_util.register_pytree_node(VJP, _parts, _made)


def as_arrays(primals: Any) -> Any:
    """Arguments with arrays for numbers, so that they are told among what is kept."""
    return lm.tree_util.tree_map(
        lambda x: to_tensor(x) if isinstance(x, (int, float, complex)) else x, primals
    )


NAMES: dict[str, Any] = {c.__name__: c for c in (GradValue, DontWant, DidntWant, GradRef)}
