"""Functions with a batched form of their own: custom_vmap, sequential_vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina import _core, _missing
from lamina._core import Tensor
from lamina._custom import _as_given, _Custom, _Expected
from lamina._open import staged
from lamina._tensor import to_tensor
from lamina._transforms import _name
from lamina.tree import TreeDef, explain_difference, tree_flatten, tree_map, tree_unflatten


class custom_vmap(_Custom):
    """A function whose form under `lamina.vmap` its user writes.

    Derivatives of that form are the form's: of lanes, and forward ones in lanes. A reverse derivative of the function
    alone is made from the function, and so are its lanes.

    Example::

        @custom_vmap
        def solve(a, b):
            return lnp.linalg.solve(a, b)

        @solve.def_vmap
        def solve_lanes(axis_size, in_batched, a, b):
            a_batched, b_batched = in_batched
            return my_batched_solve(a, b), True

    Raises AttributeError when called before `def_vmap`, TypeError or ValueError if the results of the rule do not fit.
    """

    vmap_rule: Callable[..., Any] | None = None

    def __init__(self, fun: Callable[..., Any]) -> None:
        super().__init__(fun)

    def def_vmap(self, vmap_rule: Callable[..., Any]) -> Callable[..., Any]:
        """Sets the rule ``vmap_rule(axis_size, in_batched, *args) -> (out, out_batched)``; returns it.

        `in_batched` has the structure of the arguments, `out_batched` that of `out`; their leaves say which arrays hold
        the lanes, always along axis 0.
        """
        self.vmap_rule = vmap_rule
        self._rules.clear()
        return vmap_rule

    def _needs_rule(self) -> None:
        if self.vmap_rule is None:
            raise AttributeError(
                f"no form under vmap is defined for the custom_vmap function {_name(self.fun)}: use def_vmap"
            )

    def _rule(
        self, leaves: list[Tensor], treedef: TreeDef, fixed: dict[int, Any], expected: _Expected
    ) -> _core.CustomRule:
        weak = [x.weak_type for x in leaves]

        def run(x: list[Tensor]) -> list[Tensor]:
            x = _as_given(x, weak)
            return [to_tensor(r) for r in tree_flatten(staged(self.fun)(*tree_unflatten(treedef, x)[0]))[0]]

        def lanes(size: int, batched: list[bool], x: list[Tensor]) -> tuple[list[Tensor], list[bool]]:
            x, marks = _as_given(x, weak), list(tree_unflatten(treedef, batched)[0])
            out, out_batched = self._lanes(size, marks, tree_unflatten(treedef, x)[0], expected)
            return [to_tensor(r) for r in tree_flatten(out)[0]], [
                bool(m) for m in tree_flatten(out_batched)[0]
            ]

        return _core.CustomRule.in_lanes(len(leaves), run, lanes)

    def _lanes(self, size: int, in_batched: list[Any], args: Any, expected: _Expected) -> tuple[Any, Any]:
        """What the rule returns, checked."""
        pair = staged(self.vmap_rule)(size, in_batched, *args)
        rule = f"the vmap rule {_name(self.vmap_rule)} of {_name(self.fun)}"
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(f"{rule} must return (out, out_batched), not {pair!r:.60}")
        out, out_batched = pair
        if tree_flatten(out)[1] != tree_flatten(out_batched)[1]:
            raise ValueError(
                f"{rule} says what is batched in another structure than its results: "
                + explain_difference(out, out_batched)
            )
        structure = tree_flatten(out)[1]
        if expected.leaves is not None and structure != expected.treedef:
            raise ValueError(
                f"{rule} returns another structure than the function does: {expected.difference(out)}"
            )
        return out, out_batched


def sequential_vmap(f: Callable[..., Any]) -> custom_vmap:
    """`f`, of which `lamina.vmap` runs one lane after another, as `lamina.lax.map` does: for what needs room."""
    made = custom_vmap(f)

    @made.def_vmap
    def one_by_one(axis_size: int, in_batched: Any, *args: Any) -> Any:
        from lamina import lax

        leaves, treedef = tree_flatten(args)
        marks = tree_flatten(tuple(in_batched))[0]

        if not any(marks):  # lanes of tangents at one point
            out = f(*args)
            return out, tree_map(lambda _: False, out)

        def lane(given: list[Any]) -> Any:
            own = iter(given)
            return made(*tree_unflatten(treedef, [next(own) if m else x for m, x in zip(marks, leaves)]))

        out = lax.map(lane, [x for m, x in zip(marks, leaves) if m])
        return out, tree_map(lambda _: True, out)

    return made


__getattr__ = _missing.attributes("lamina.custom_batching")
