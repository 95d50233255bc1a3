"""What `vjp` and `linearize` give: linear functions that are containers of what they keep of the function.

So they may be results and arguments of jitted and mapped functions. They become a program with the kept arrays as
arguments when they are first taken apart; a plain call needs none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lamina import _core, tree
from lamina._core import Tensor
from lamina._tensor import describe, to_tensor
from lamina.tree import TreeDef, explain_difference, tree_flatten, tree_unflatten

Run = Callable[[list[Tensor]], list[Any]]  # of leaves to leaves; None: there is no derivative


class Form:
    """What two linear functions have in common where they differ in the arrays that they keep only."""

    __slots__ = ("effects", "found", "key", "linear", "program")

    def __init__(self, linear: Linear, program: Any, found: Sequence[bool], effects: bool) -> None:
        self.program, self.found, self.effects = program, tuple(found), effects
        self.linear = linear.without_arrays()
        self.key = (type(linear), _core.program_id(program), self.found, *linear.form())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Form) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return self.linear.name

    def run(self, kept: Sequence[Any]) -> Run:
        def call(given: list[Tensor]) -> list[Any]:
            token = [to_tensor(0)] if self.effects else []
            out = iter(self.program([*given, *token, *map(to_tensor, kept)]))
            return [next(out) if there else None for there in self.found]

        return call


class Linear:
    """A linear function of containers like `given_tree`, with leaves of `types`, to containers like `out_tree`."""

    __slots__ = ("_form", "_kept", "_run", "given_tree", "name", "out_tree", "types")

    def __init__(
        self,
        name: str,
        run: Run | None,
        given_tree: TreeDef,
        types: Sequence[tuple[tuple[int, ...], Any]],
        out_tree: TreeDef,
    ) -> None:
        self.name, self._run = name, run
        self.given_tree, self.types, self.out_tree = given_tree, tuple(types), out_tree
        self._form: Form | None = None
        self._kept: list[Any] = []

    def form(self) -> tuple[Any, ...]:
        return self.given_tree, self.types, self.out_tree

    def without_arrays(self) -> Linear:
        return type(self)(self.name, None, self.given_tree, self.types, self.out_tree)

    def _linear(self, leaves: list[Tensor]) -> Any:
        if self._run is None:
            raise TypeError(f"{self.name} has no arrays: it was taken apart")
        return tree_unflatten(self.out_tree, self._run(leaves))

    def flatten(self) -> tuple[list[Any], Form]:
        if self._form is None:
            found: list[bool] = []

            def run(given: list[Tensor]) -> list[Tensor]:
                out = self._run(given)
                found[:] = [x is not None for x in out]
                return [x for x in out if x is not None]

            specs = [(str(dtype), list(shape), False) for shape, dtype in self.types]
            program, kept, _, effects = _core.traced(run, specs)
            self._form, self._kept = Form(self, program, found, effects), list(kept)
        return self._kept, self._form

    @staticmethod
    def unflatten(form: Form, kept: Iterable[Any]) -> Linear:
        out = form.linear.without_arrays()
        out._form, out._kept = form, list(kept)
        out._run = form.run(out._kept)
        return out

    def __repr__(self) -> str:
        given = ", ".join(f"{dtype}[{','.join(map(str, shape))}]" for shape, dtype in self.types)
        return f"<{type(self).__name__.lower()} of {self.name} at ({given})>"


class PullBack(Linear):
    """From a cotangent of a function's value to cotangents of its arguments, one per argument."""

    __slots__ = ()
    error: type[Exception] = ValueError  # for a cotangent that does not fit the value

    def __call__(self, *cotangents: Any) -> Any:
        if len(cotangents) != 1:
            raise TypeError(
                f"the pull-back of {self.name} takes one cotangent, of the structure of its value, not {len(cotangents)}"
            )
        leaves, structure = tree_flatten(cotangents[0])
        if structure != self.given_tree:
            like = tree_unflatten(self.given_tree, [0] * len(self.types))
            raise self.error(
                f"the cotangent does not fit the output of {self.name}: "
                + explain_difference(like, cotangents[0])
            )
        given = [to_tensor(x) for x in leaves]
        for t, (shape, dtype) in zip(given, self.types, strict=True):
            if t.shape != shape or loses_part(t, dtype):
                raise self.error(
                    f"vjp of {self.name}: a cotangent has type {describe(t)} but its value has {dtype}"
                    f"[{','.join(map(str, shape))}]"
                )
        return self._linear(given)


class Transposed(PullBack):
    """A linear function the other way round: a pull-back whose errors are TypeErrors, as in JAX."""

    __slots__ = ()
    error = TypeError

    @classmethod
    def of(cls, pull_back: PullBack) -> Transposed:
        p = pull_back
        return cls(p.name, p._run, p.given_tree, p.types, p.out_tree)


class PushForward(Linear):
    """From tangents of a function's arguments to the tangent of its value."""

    __slots__ = ()

    def __call__(self, *tangents: Any) -> Any:
        leaves, structure = tree_flatten(tangents)
        if structure != self.given_tree:
            like = tree_unflatten(self.given_tree, [0] * len(self.types))
            raise ValueError("tangents do not fit the primals: " + explain_difference(like, tangents))
        return self._linear(fitted_tangents([to_tensor(t) for t in leaves], self.types))


def loses_part(t: Tensor, dtype: Any) -> bool:
    """Whether a derivative is complex where its value, of element type `dtype`, is real."""
    return bool(t.dtype.kind == "c" and dtype.kind == "f")


def fitted_tangents(
    given: list[Tensor],
    types: Iterable[tuple[tuple[int, ...], Any]],
    kind_error: type[Exception] = ValueError,
) -> list[Tensor]:
    """Tangents in the element types of primals of these types.

    ValueError where a shape does not fit; `kind_error` for a complex tangent of what is real.
    """
    out = []
    for t, (shape, dtype) in zip(given, types):
        if t.shape != shape:
            raise ValueError(f"a tangent of shape {t.shape} does not fit its primal of shape {shape}")
        if loses_part(t, dtype):
            raise kind_error(
                f"a tangent of type {describe(t)} does not fit its primal, which is real: {dtype}"
            )
        out.append(t if t.dtype == dtype or dtype.kind not in "fc" else t.astype(dtype))
    return out


for _cls in (PullBack, PushForward, Transposed):
    tree.register(_cls, Linear.flatten, Linear.unflatten)
