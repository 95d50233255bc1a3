"""Functions that are defined by an equation: custom_root, custom_linear_solve.

Their derivatives come from the equation, not from the iteration that solved it (Krantz, Parks, "The Implicit Function
Theorem", 2003, section 3): of f(x, a) = 0, dx = -(df/dx)^-1 (df/da) da; of A x = b, A dx = db - dA x. What the given
functions use from outside (a) are found by tracing them once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina import _core
from lamina._core import Tensor
from lamina._transforms import jvp, vjp
from lamina.lax._base import describe, to_tensor
from lamina.lax._control import _flat, _name, _tensors
from lamina.tree import (
    TreeDef,
    explain_difference,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)

_Flat = Callable[[Sequence[Tensor]], list[Tensor]]  # a function on lists of arrays
_Spec = tuple[str, list[int], bool]


def _spec(t: Tensor) -> _Spec:
    return str(t.dtype), list(t.shape), t.weak_type


class _Body:
    """A function on containers traced as a region on flat lists; what it used from outside comes behind them."""

    def __init__(
        self, f: Callable[..., Any], specs: list[_Spec], rebuild: Callable[[list[Tensor]], tuple[Any, ...]]
    ) -> None:
        self.tree: TreeDef | None = None

        def leaves_of(result: Any) -> list[Any]:
            leaves, self.tree = tree_flatten(result)
            return leaves

        self.region = _core.region(_flat(f, rebuild, leaves_of), specs, carriers=True)
        self.captured: list[Tensor] = self.region.captured

    def call(self, operands: list[Tensor]) -> list[Tensor]:
        return _core.call_region(self.region, operands)


def _strong(x: Any) -> Tensor:
    return _core.set_weak(to_tensor(x), False)


def _typed(x: Any, like: Any) -> list[Tensor]:
    """The leaves of `x` in the element types of those of `like`: numbers among them get theirs.

    TypeError for another structure or shape.
    """
    leaves, structure = tree_flatten(x)
    if structure != tree_structure(like):
        raise TypeError(
            "a function to be solved is called with another structure than it is solved for: "
            + explain_difference(like, x)
        )
    out = []
    for v, t in zip(map(to_tensor, leaves), map(to_tensor, tree_leaves(like)), strict=True):
        if v.shape != t.shape:
            raise TypeError(
                f"a function to be solved is called with {describe(v)}, and is solved for {describe(t)}"
            )
        out.append(_strong(v if v.dtype == t.dtype else v.astype(t.dtype)))
    return out


def _parts(x: Sequence[Any], sizes: Sequence[int]) -> list[list[Any]]:
    """`x` cut into lists of these lengths; the rest is the last one."""
    out, at = [], 0
    for n in sizes:
        out.append(list(x[at : at + n]))
        at += n
    return [*out, list(x[at:])]


def _pair(result: Any, has_aux: bool, what: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"with has_aux, {what} must return (solution, aux)")
    return result


def _checked(out: Any, like: Any, what: str) -> list[Tensor]:
    """The leaves of `out`. TypeError unless it has the structure and types of `like`."""
    leaves, structure = tree_flatten(out)
    if structure != tree_structure(like):
        raise TypeError(f"{what} must return the structure it is given: " + explain_difference(like, out))
    fitted = []
    for got, want in zip(leaves, tree_leaves(like), strict=True):
        got = to_tensor(got)
        if got.shape != want.shape or got.dtype != want.dtype:
            raise TypeError(f"{what} returned {describe(got)} where {describe(want)} is needed")
        fitted.append(_strong(got))
    return fitted


def _minus(tangents: Sequence[Any], x: Sequence[Tensor], y: Sequence[Any]) -> list[Tensor]:
    """tangents - y, where None is zero, with the types of x."""
    out = []
    for t, like, s in zip(tangents, x, y, strict=True):
        t = _core.elementwise("subtract", like, like) if t is None else t
        out.append(t if s is None else t - s)
    return out


def _along(f: _Flat, x: list[Tensor], t: list[Any]) -> list[Any]:
    """The derivative of f(x) along t, where None is zero; None for all if it is zero."""
    moving = [i for i, d in enumerate(t) if d is not None and x[i].dtype.kind in "fc"]
    if not moving:
        return [None] * len(f(x))

    def of_moving(*values: Tensor) -> list[Tensor]:
        full = list(x)
        for i, v in zip(moving, values, strict=True):
            full[i] = v
        return f(full)

    return jvp(of_moving, [x[i] for i in moving], [t[i] for i in moving])[1]


class _System:
    """A x = b for fixed functions; every array they use is an operand: of A, of either solver, and b."""

    def __init__(self, apply: _Body, like: Any) -> None:
        self.apply_body, self.like = apply, like
        self.a = apply.captured
        self.solvers: list[_Body | None] = [None, None]  # of A x = b and of its transpose

    def apply(self, a: Sequence[Tensor], x: Sequence[Tensor]) -> list[Tensor]:
        return _core.inlined(self.apply_body.region, [*x, *a])

    def apply_transposed(self, a: Sequence[Tensor], y: Sequence[Tensor]) -> list[Tensor]:
        pull = vjp(lambda x: self.apply(a, x), [_core.elementwise("subtract", v, v) for v in y])[1]
        return pull(list(y))[0]

    def trace(
        self, which: int, solver: Callable[..., Any], transposed: bool, has_aux: bool, what: str
    ) -> None:
        n, treedef = len(self.a), tree_structure(self.like)
        apply = self.apply_transposed if transposed else self.apply

        def run(*p: Tensor) -> Any:
            a, b = list(p[:n]), tree_unflatten(treedef, p[n:])

            def matvec(x: Any) -> Any:
                return tree_unflatten(treedef, apply(a, _typed(x, self.like)))

            x, aux = _pair(solver(matvec, b), has_aux, what)
            return _checked(x, self.like, what), aux

        specs = [_spec(_strong(t)) for t in (*self.a, *tree_leaves(self.like))]
        self.solvers[which] = _Body(run, specs, tuple)

    def operands(self) -> list[Tensor]:
        return [*self.a, *(t for s in self.solvers if s is not None for t in s.captured)]

    def solve(self, which: int, operands: Sequence[Tensor], b: Sequence[Tensor]) -> list[Tensor]:
        """The solution, and the further results of the solver."""
        sizes = [len(self.a), *(0 if s is None else len(s.captured) for s in self.solvers)]
        solver = self.solvers[which]

        def run(p: list[Tensor]) -> list[Tensor]:
            a, *own, b = _parts(p, sizes)
            return solver.call([*a, *b, *own[which]])

        def rule(x: list[Tensor], t: list[Any]) -> tuple[list[Tensor], list[Any]]:
            held, b = x[: sum(sizes)], x[sum(sizes) :]
            out = self.solve(which, held, b)
            n = len(b)
            apply = self.apply_transposed if which else self.apply
            moved = _along(lambda a: apply(a, out[:n]), held[: sizes[0]], t[: sizes[0]])
            along = self.solve(which, held, _minus(t[sum(sizes) :], b, moved))
            return out, [*along[:n], *[None] * (len(out) - n)]

        def transpose(x: list[Any], cotangents: list[Any]) -> list[Any]:
            if self.solvers[1 - which] is None:
                raise TypeError(
                    "custom_linear_solve needs transpose_solve, or symmetric=True, for derivatives in reverse mode"
                )
            held, n = x[: sum(sizes)], len(x) - sum(sizes)
            return [*[None] * len(held), *self.solve(1 - which, held, cotangents[:n])[:n]]

        leaves = [_strong(t) for t in (*operands, *b)]
        return _core.call_with_rule(run, leaves, _core.CustomRule(True, len(leaves), rule, transpose))


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
    b = tree_map(_strong, b)
    if any(t.dtype.kind not in "fc" for t in tree_leaves(b)):
        raise TypeError(
            "custom_linear_solve needs float or complex arrays; give b another element type (astype)"
        )
    if not _core.any_open_scope():
        x, aux = _pair(solve(matvec, b), has_aux, _name(solve))
        x = tree_unflatten(tree_structure(b), _checked(x, b, _name(solve)))
        return (x, aux) if has_aux else x
    leaves, treedef = _tensors(b)
    body = _Body(
        lambda *p: _checked(matvec(tree_unflatten(treedef, p)), b, _name(matvec)),
        [_spec(t) for t in leaves],
        tuple,
    )
    system = _System(body, b)
    system.trace(0, solve, False, has_aux, _name(solve))
    if symmetric:
        system.trace(1, solve, False, has_aux, _name(solve))
    elif transpose_solve is not None:
        system.trace(1, transpose_solve, True, has_aux, _name(transpose_solve))
    out = system.solve(0, system.operands(), leaves)
    if not has_aux:
        return tree_unflatten(treedef, out)
    x, aux = tree_unflatten(system.solvers[0].tree, out)
    return tree_unflatten(treedef, x), aux


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
    guess = tree_map(_strong, initial_guess)
    if not _core.any_open_scope():
        x, aux = _pair(solve(f, guess), has_aux, _name(solve))
        x = tree_unflatten(tree_structure(guess), _checked(x, guess, _name(solve)))
        return (x, aux) if has_aux else x
    leaves, treedef = _tensors(guess)
    body = _Body(
        lambda *p: _checked(f(tree_unflatten(treedef, p)), guess, _name(f)), [_spec(t) for t in leaves], tuple
    )
    n, used = len(body.captured), len(leaves)

    def residual(a: Sequence[Tensor], x: Sequence[Tensor]) -> list[Tensor]:
        # Op by op: a call would depend on a tangent as a whole, and its Jacobian could then not be divided by.
        return _core.inlined(body.region, [*x, *a])

    def search(*p: Tensor) -> Any:
        a, start = _parts(p, [n])

        def at(x: Any) -> Any:
            return tree_unflatten(treedef, residual(a, _typed(x, guess)))

        x, aux = _pair(solve(at, tree_unflatten(treedef, start)), has_aux, _name(solve))
        return _checked(x, guess, _name(solve)), aux

    searched = _Body(search, [_spec(_strong(t)) for t in (*body.captured, *leaves)], tuple)

    def root(operands: Sequence[Tensor]) -> list[Tensor]:
        strong = [_strong(t) for t in operands]
        return _core.call_with_rule(searched.call, strong, _core.CustomRule(True, len(strong), rule, None))

    def rule(x: list[Tensor], t: list[Any]) -> tuple[list[Tensor], list[Any]]:
        out = root(x)
        at = out[:used]
        moved = _along(lambda a: residual(a, at), x[:n], t[:n])

        def along(v: Any) -> Any:
            given = [to_tensor(d, p.dtype) for d, p in zip(tree_leaves(v), at, strict=True)]
            return tree_unflatten(treedef, jvp(lambda *p: residual(x[:n], p), at, given)[1])

        pushed = tangent_solve(along, tree_unflatten(treedef, _minus([None] * used, at, moved)))
        return out, [*_checked(pushed, guess, _name(tangent_solve)), *[None] * (len(out) - used)]

    out = root([*body.captured, *leaves, *searched.captured])
    if not has_aux:
        return tree_unflatten(treedef, out)
    leaves_of_x, aux = tree_unflatten(searched.tree, out)
    return tree_unflatten(treedef, leaves_of_x), aux
