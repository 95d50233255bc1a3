"""Arguments that a transformed function writes to.

A transformed function gets Tensors of its own. What it wrote to them is a further result, and the caller's Tensors get
it, as they would from a plain call. Where that has no meaning, and where a container was changed, it raises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina import _core, ref
from lamina._core import Tensor
from lamina._tensor import describe, write
from lamina.tree import TreeDef, explain_difference, tree_flatten, tree_leaves, tree_paths, tree_unflatten


def name_of(f: Callable[..., Any]) -> str:
    return getattr(f, "__name__", type(f).__name__)


def written(
    f: Callable[..., Any], treedef: TreeDef, leaves: list[Any], now: Any, path_of: Callable[[str], str]
) -> list[int]:
    """The numbers of the leaves that `f` wrote to; `now` is the container of them that it was given.

    Raises TypeError where the container itself was changed.
    """
    if not _core.tree_holds(treedef.nodes, leaves, now):
        _check_containers(f, treedef, leaves, now, path_of)
    return [i for i, x in enumerate(leaves) if isinstance(x, Tensor) and _core.written(x)]


def _check_containers(
    f: Callable[..., Any], treedef: TreeDef, leaves: list[Any], now: Any, path_of: Callable[[str], str]
) -> None:
    found, structure = tree_flatten(now)
    if structure != treedef:
        before = tree_unflatten(treedef, leaves)
        raise TypeError(
            f"{name_of(f)} changed a container among its arguments, which the caller would not see: "
            f"{explain_difference(before, now, 'before', 'after')}\n"
            "  Change a copy of it (dict(d), list(l)) and return that."
        )
    for a, b, path in zip(leaves, found, tree_paths(now) if any(map(_is_not, leaves, found)) else ()):
        if a is not b:
            raise TypeError(
                f"{name_of(f)} replaced {path_of(path)}, an item of its argument, which the caller would not see\n"
                "  Change a copy of the container (dict(d), list(l)) and return that, or write to the Tensor "
                f"({path_of(path)}[...] = v)."
            )


def _is_not(a: Any, b: Any) -> bool:
    return a is not b


def refuse(f: Callable[..., Any], leaves: Sequence[Tensor], what: str) -> None:
    """Raises TypeError where `f` wrote to one of its arguments."""
    for x in leaves:
        if _core.written(x):
            file, line, _ = _core.where_made(x)
            raise TypeError(
                f"{what} {name_of(f)} writes to its argument {describe(x)}"
                + (f" (at {file}:{line})" if file else "")
                + ", which nobody would see\n  Write to a copy of it (x = x.copy()) and return that."
            )


def give(
    f: Callable[..., Any],
    numbers: Sequence[int],
    given: Sequence[Any],
    values: Sequence[Tensor],
    path_of: Callable[[int], str],
    outside: Sequence[Tensor] = (),
) -> None:
    """Writes to the caller's leaves with these numbers what `f` wrote to its own.

    Raises TypeError for what is no Tensor, ValueError where one Tensor was given twice or is one of those that `f` reads
    from outside; then nothing is written.
    """
    for i in numbers:
        if not isinstance(given[i], Tensor):
            raise TypeError(
                f"{name_of(f)} writes to its argument {path_of(i)}, which is given as {type(given[i]).__name__}: "
                "give a Tensor (lamina.numpy.array), or write to a copy and return that"
            )
        if any(x is given[i] for x in outside):
            raise ValueError(
                f"{name_of(f)} writes to its argument {path_of(i)}, and reads the same Tensor from outside; they are "
                "two inside a transformed function: give it a copy, or use the argument alone"
            )
        for j, other in enumerate(given):
            if other is given[i] and j != i:
                raise ValueError(
                    f"{name_of(f)} writes to its argument {path_of(i)}, and {path_of(j)} is the same Tensor; they are "
                    "two inside a transformed function: give it a copy"
                )
    for i, value in zip(numbers, values):
        write(given[i], value)


class Outside:
    """While open, sees which of these Tensors the function reads: not as its arguments, which are others inside."""

    def __init__(self, given: list[Tensor]) -> None:
        self.given = given
        self.read: list[Tensor] = []

    def __enter__(self) -> None:
        self.watched = _core.WatchedReads(self.given)

    def __exit__(self, *_: Any) -> None:
        self.read = self.watched.read()
        self.watched.end()


class Lent:
    """Lets a function under an open transform write to these Tensors, which are older.

    `results` are what it wrote; `give` gives the Tensors the values that these became outside. On an exception they
    are as before.
    """

    def __init__(self, given: list[Tensor]) -> None:
        self.given, self.written = given, []

    def __enter__(self) -> Lent:
        self.loan = _core.Loan(self.given)
        return self

    def results(self) -> list[Tensor]:
        self.written: list[int] = self.loan.written()
        return [_core.set_weak(self.given[i], self.given[i].weak_type) for i in self.written]

    def __exit__(self, *_: Any) -> None:
        self.loan.end()

    def give(self, values: Sequence[Tensor]) -> None:
        for i, value in zip(self.written, values):
            write(self.given[i], value)


class _Nothing(Lent):
    """No Tensors."""

    def __enter__(self) -> Lent:
        return self

    def results(self) -> list[Tensor]:
        return []

    def __exit__(self, *_: Any) -> None:
        """Nothing was lent."""


_NOTHING = _Nothing([])


def lent(positional: list[Any], named: dict[str, Any]) -> Lent:
    """The Tensors among these arguments as `Lent`, those of references aside, which are lent when they are used."""
    given = positional
    if named or any(type(x) is not Tensor for x in given):
        given = [x for x in tree_leaves((given, named), is_leaf=ref.is_ref) if isinstance(x, Tensor)]
    if len(given) > 1:
        given = list({id(x): x for x in given}.values())
    return Lent(given) if given else _NOTHING
