"""Functions that are defined by an equation: custom_root, custom_linear_solve.

Their derivatives are lazy/implicit.h's; what stands here is how containers become lists of arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lamina import _core
from lamina._core import Tensor
from lamina.lax._base import to_tensor
from lamina.lax._control import _flat, _name
from lamina.tree import TreeDef, explain_difference, tree_flatten, tree_map, tree_unflatten


def _strong(x: Any) -> Tensor:
    return _core.set_weak(to_tensor(x), False)


class _Unknown:
    """The container that an equation is solved for, and its functions as ones of flat lists."""

    def __init__(self, like: Any) -> None:
        self.like = tree_map(_strong, like)
        self.leaves, self.treedef = tree_flatten(self.like)
        self.aux: TreeDef | None = None

    def filled(self, leaves: list[Tensor]) -> Any:
        return tree_unflatten(self.treedef, leaves)

    def _rebuild(self, leaves: list[Tensor]) -> tuple[Any, ...]:
        return (self.filled(leaves),)

    def _leaves(self, x: Any, what: str) -> list[Tensor]:
        """Of what has the container's structure; otherwise TypeError."""
        leaves, structure = tree_flatten(x)
        if structure != self.treedef:
            raise TypeError(what + explain_difference(self.like, x))
        return [to_tensor(v) for v in leaves]

    def function(self, f: Callable[[Any], Any]) -> tuple[Callable[..., Any], str]:
        what = f"{_name(f)} must return the structure it is given: "
        return _flat(f, self._rebuild, lambda y: self._leaves(y, what)), _name(f)

    def solver(self, solve: Callable[..., Any], has_aux: bool = False) -> tuple[Callable[..., Any], str]:
        """(f, given) -> the solution, then what `solve` gives besides."""
        name = _name(solve)

        def leaves_of(found: Any) -> list[Tensor]:
            x, more = found, []
            if has_aux:
                if not isinstance(found, tuple) or len(found) != 2:
                    raise TypeError(f"with has_aux, {name} must return (solution, aux)")
                x, (more, structure) = found[0], tree_flatten(found[1])
                self.aux = structure if self.aux is None else self.aux  # the first solver's
            return [*self._leaves(x, f"{name} must return the structure it is given: "), *more]

        def run(f: Callable[[list[Tensor]], list[Tensor]], given: list[Tensor]) -> list[Tensor]:
            def of_tree(x: Any) -> Any:
                what = "a function to be solved is called with another structure than it is solved for: "
                return self.filled(f(self._leaves(x, what)))

            return _flat(lambda start: solve(of_tree, start), self._rebuild, leaves_of)(given)

        return run, name

    def result(self, found: list[Tensor], has_aux: bool) -> Any:
        n = len(self.leaves)
        x = self.filled(found[:n])
        return (x, tree_unflatten(self.aux, found[n:])) if has_aux else x


def custom_linear_solve(
    matvec: Callable[[Any], Any],
    b: Any,
    solve: Callable[..., Any],
    transpose_solve: Callable[..., Any] | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """x with matvec(x) = b, as ``solve(matvec, b)`` finds it, with the derivatives of the exact solution.

    `matvec` is linear; `b` and x are containers of float arrays of one structure. In reverse mode the transposed system
    is solved by ``transpose_solve(vecmat, b)``, or by `solve` if the system is `symmetric`; TypeError with neither.
    With `has_aux` both return (x, aux), and so does this; aux has no derivative. Derivatives of every order, by b and
    by all that `matvec` uses; what only `solve` uses (a preconditioner, a first guess) has none.

    >>> A = lnp.array([[3., 1.], [1., 2.]])
    >>> lm.lax.custom_linear_solve(lambda x: A @ x, lnp.ones(2), lambda mv, b: lnp.linalg.solve(A, b), symmetric=True)
    """
    unknown = _Unknown(b)
    found = _core.custom_linear_solve(
        unknown.function(matvec),
        unknown.leaves,
        unknown.solver(solve, has_aux),
        None if transpose_solve is None else unknown.solver(transpose_solve, has_aux),
        bool(symmetric),
    )
    return unknown.result(found, has_aux)


def custom_root(
    f: Callable[[Any], Any],
    initial_guess: Any,
    solve: Callable[..., Any],
    tangent_solve: Callable[..., Any],
    has_aux: bool = False,
) -> Any:
    """x with f(x) = 0, as ``solve(f, initial_guess)`` finds it, with the derivatives of the exact root.

    x and f(x) have the structure and types of `initial_guess`. ``tangent_solve(g, y)`` gives v with g(v) = y, where g is
    the derivative of f at the root, a linear function: ``lambda g, y: y / g(1.0)`` for numbers, else usually by
    `custom_linear_solve`. With `has_aux`, `solve` returns (x, aux), and so does this; aux has no derivative.
    Derivatives of every order in both modes, by all that `f` uses from outside; none by the guess.

    >>> def root(a):   # x^3 = a, by Newton's method
    ...     f = lambda x: x**3 - a
    ...     newton = lambda f, x: lm.lax.fori_loop(0, 30, lambda i, x: x - f(x) / (3 * x**2), x)
    ...     return lm.lax.custom_root(f, 1.0, newton, lambda g, y: y / g(1.0))
    >>> lm.grad(root)(8.0)   # 1 / (3 x^2)
    """
    unknown = _Unknown(initial_guess)
    found = _core.custom_root(
        unknown.function(f),
        unknown.leaves,
        unknown.solver(solve, has_aux),
        unknown.solver(tangent_solve),
    )
    return unknown.result(found, has_aux)
