"""Derivatives checked against finite differences: `check_grads`, `check_jvp`, `check_vjp`, with JAX's arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lamina import _transforms, dtypes, tree
from lamina._tensor import to_tensor

__all__ = ["check_grads", "check_jvp", "check_vjp"]

# By bits of the narrowest element type that takes part: the relative and absolute error that is let pass.
_TOLERANCE = {16: 1e-1, 32: 5e-3, 64: 1e-6}
_STEP = {16: 1e-2, 32: 1e-3, 64: 1e-6}


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: float | Mapping[Any, float] | None = None,
    rtol: float | Mapping[Any, float] | None = None,
    eps: float | None = None,
) -> None:
    """Compares derivatives of `f` at `args` with central differences, up to an order, along one direction each.

    `modes` are "fwd" (jvp) and "rev" (vjp). Arguments and results are any containers of float and complex arrays.
    AssertionError where they differ by more than `atol` and `rtol` (which follow from the element types, or are given,
    also by element type), ValueError for other modes.
    """
    if wrong := set(modes) - {"fwd", "rev"}:
        raise ValueError(f"modes are 'fwd' and 'rev', not {sorted(wrong)}")
    args = tuple(tree.map(to_tensor, a) for a in args)
    if "fwd" in modes:
        check_jvp(f, lambda p, t: _transforms.jvp(f, p, t), args, atol, rtol, eps)
        if order > 1:
            tangents = _directions(args)

            def pushed(*xs: Any) -> Any:
                return _transforms.jvp(f, xs, tangents)[1]

            check_grads(pushed, args, order - 1, modes, atol, rtol, eps)
    if "rev" in modes:
        check_vjp(f, lambda *p: _transforms.vjp(f, *p), args, atol, rtol, eps)
        if order > 1:
            cotangents = _directions(f(*args))

            def pulled(*xs: Any) -> Any:
                return _transforms.vjp(f, *xs)[1](cotangents)

            check_grads(pulled, args, order - 1, modes, atol, rtol, eps)


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[[Any, Any], tuple[Any, Any]],
    args: Sequence[Any],
    atol: float | Mapping[Any, float] | None = None,
    rtol: float | Mapping[Any, float] | None = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Compares ``f_jvp(args, tangents)``, a pair of value and tangent, with `f` and central differences."""
    args = tuple(tree.map(to_tensor, a) for a in args)
    tangents = _directions(args)
    value, tangent = f_jvp(args, tangents)
    _close(value, f(*args), args, atol, rtol, err_msg + " value of the jvp")
    _close(tangent, _difference(f, args, tangents, eps), args, atol, rtol, err_msg + " tangent of the jvp")


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., tuple[Any, Any]],
    args: Sequence[Any],
    atol: float | Mapping[Any, float] | None = None,
    rtol: float | Mapping[Any, float] | None = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Compares ``f_vjp(*args)``, a pair of value and pullback, with `f` and central differences by inner products."""
    args = tuple(tree.map(to_tensor, a) for a in args)
    value, pull = f_vjp(*args)
    _close(value, f(*args), args, atol, rtol, err_msg + " value of the vjp")
    tangents, cotangents = _directions(args), _directions(value)
    mine = _inner(tangents, pull(cotangents))
    numeric = _inner(_difference(f, args, tangents, eps), cotangents)
    _close(mine, numeric, args, atol, rtol, err_msg + " inner product with the vjp")


def _directions(like: Any) -> Any:
    """Normal numbers of the same shapes, the same in every run."""
    random = np.random.default_rng(0)

    def draw(x: Any) -> Any:
        x = np.asarray(x)
        if x.dtype.kind not in "fc" and x.dtype.kind != "V":
            return np.zeros(x.shape, x.dtype)
        drawn = random.normal(size=x.shape)
        return np.asarray(drawn + 1j * random.normal(size=x.shape) if x.dtype.kind == "c" else drawn).astype(
            x.dtype
        )

    return tree.map(draw, like)


def _bits(*trees: Any) -> int:
    types = [np.asarray(x).dtype for t in trees for x in tree.tree_leaves(t)]
    sizes = [t.itemsize // (2 if t.kind == "c" else 1) * 8 for t in types if t.kind in "fcV"]
    return max(min(sizes, default=64), 16)


def _difference(f: Callable[..., Any], args: Any, tangents: Any, eps: float | None) -> Any:
    step = eps or _STEP[_bits(args)]

    def moved(by: float) -> Any:
        def move(x: Any, t: Any) -> Any:
            x = np.asarray(x)
            return x if x.dtype.kind in "biu" else np.asarray(x + by * np.asarray(t), x.dtype)

        return f(*tree.map(move, args, tangents))

    def slope(a: Any, b: Any) -> Any:
        if np.asarray(a).dtype.kind in "biu":
            return a
        a, b = _wide(a), _wide(b)
        same = a == b  # infinities do not move
        return (np.where(same, 0, a) - np.where(same, 0, b)) / (2 * step)

    return tree.map(slope, moved(step), moved(-step))


def _wide(x: Any) -> np.ndarray[Any, Any]:
    x = np.asarray(x)
    return x.astype("complex128" if x.dtype.kind == "c" else "float64")


def _inner(a: Any, b: Any) -> Any:
    """The sum of products, without a conjugate, as transposes pair their sides; the real part."""
    sides = (tree.tree_leaves(t, is_leaf=lambda x: x is None) for t in (a, b))
    total = 0.0
    for x, y in zip(*sides, strict=True):
        if x is not None and y is not None:  # the derivative by integers
            total += float(np.real(np.sum(_wide(x) * _wide(y))))
    return np.float64(total)


def _close(got: Any, want: Any, args: Any, atol: Any, rtol: Any, what: str) -> None:
    limits = {n: _limit(t, got, want, args) for n, t in (("atol", atol), ("rtol", rtol))}
    for g, w in zip(tree.tree_leaves(got), tree.tree_leaves(want), strict=True):
        np.testing.assert_allclose(_wide(g), _wide(w), err_msg=what.strip(), **limits)


def _limit(asked: Any, *trees: Any) -> float:
    """An error that is let pass: of a dict by element type, that of the narrowest type that takes part."""
    bits = _bits(*trees)
    if isinstance(asked, dict):
        types = [(np.dtype(dtypes.name_of(t)), limit) for t, limit in asked.items()]
        asked = {_bits(np.zeros((), t)): limit for t, limit in types if t.kind not in "biu"}.get(bits)
    return _TOLERANCE[bits] if asked is None else float(asked)
