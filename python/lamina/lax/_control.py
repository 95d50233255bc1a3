"""Control flow: cond, switch, while_loop, fori_loop, scan, map, associative_scan.

Bodies are traced on abstract values. The core records them from flat lists of arrays (lazy/control.h); what stands
here is how containers become such lists.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _core, _leaks, _writes, ref
from lamina._core import Tensor
from lamina._functions import need_function
from lamina._jit import tracing
from lamina._tensor import describe
from lamina.lax import _plain
from lamina.lax._base import axis_of, to_tensor
from lamina.tree import (
    TreeDef,
    explain_difference,
    tree_children,
    tree_flatten,
    tree_leaves,
    tree_paths,
    tree_unflatten,
)


def _name(f: Any) -> str:
    return getattr(f, "__name__", type(f).__name__)


def _tensors(tree: Any) -> tuple[list[Tensor], TreeDef]:
    leaves, treedef = tree_flatten(tree)
    return [to_tensor(x) for x in leaves], treedef


def _flat(
    f: Callable[..., Any],
    rebuild: Callable[[list[Tensor]], tuple[Any, ...]],
    leaves_of: Callable[[Any], list[Any]] = tree_leaves,
) -> Callable[[list[Tensor]], list[Tensor]]:
    """A function on containers as one on flat lists; `leaves_of` looks at the structure of what it returns."""

    def flat(parameters: list[Tensor]) -> list[Tensor]:
        _leaks.entered()
        given = rebuild(parameters)
        structure = tree_flatten(given)[1]
        result = f(*given)
        ref.refuse_returned(f, result)
        _writes.written(f, structure, parameters, given, lambda path: path)
        _writes.refuse(f, parameters, "the body")
        return [to_tensor(x) for x in leaves_of(result)]

    return flat


def _scalar(what: str, name: str, x: Any) -> Tensor:
    """What a branch is chosen by; TypeError where it is no number."""
    try:
        if isinstance(x, (list, tuple)):
            raise TypeError
        return to_tensor(x)
    except TypeError:
        raise TypeError(
            f"{what}: the {name} must be a bool or a number, not {type(x).__name__}: {x!r:.60}"
        ) from None


def _static(what: str, name: str, x: Any) -> int:
    """A number that decides what is recorded; TypeError where it is not known by then."""
    if isinstance(x, Tensor) and not _core.forceable(x):
        raise TypeError(
            f"{what}: `{name}` decides what is recorded, so it must be an int, and it is {describe(x)} that is being "
            "traced; make it a static argument of the jitted function (static_argnums, static_argnames)"
        )
    return operator.index(x)


def _shown(x: Any) -> str:
    """A value of any kind by its type."""
    try:
        return describe(to_tensor(x))
    except TypeError:
        return type(x).__name__


def _leaf_name(tree: Any) -> Callable[[int], str]:
    return lambda k: tree_paths(tree)[k]


def _carry_name(tree: Any, body: Callable[..., Any], place: int = 0) -> Callable[[int], str]:
    """Of the leaves of a carry, which is the parameter of the body at `place`."""

    def name(k: int) -> str:
        from lamina._transforms import _argument_names

        return " ".join(["", *_argument_names(body)[place : place + 1]]) + tree_paths(tree)[k]

    return name


def _carry_leaves(what: str, f: Any, init: Any, treedef: TreeDef) -> Callable[[Any], list[Any]]:
    """Of what a loop's body returns; TypeError where its structure is another than the carry's."""

    def leaves_of(out: Any) -> list[Any]:
        leaves, structure = tree_flatten(out)
        if structure != treedef:
            raise TypeError(
                f"{what}: {_name(f)} must return a carry of the structure it was given: "
                + explain_difference(init, out, "the carry given", "the carry returned")
            )
        return leaves

    return leaves_of


_NONE_GIVEN = object()


def _operands(what: str, operands: tuple[Any, ...], operand: Any) -> tuple[Any, ...]:
    """JAX's older way to give one operand, by name."""
    if operand is _NONE_GIVEN:
        return operands
    if operands:
        raise TypeError(f"{what} got both operands and operand=: give them one way")
    return (operand,)


@ref.carrying("switch")
def switch(
    index: Any, branches: Sequence[Callable[..., Any]], *operands: Any, operand: Any = _NONE_GIVEN
) -> Any:
    """branches[index](*operands), with the index limited to the branches; only that branch runs.

    All branches return containers of one structure and one type of leaves; otherwise TypeError naming the
    leaf. `operand` is one operand by name.
    """
    operands = _operands("lax.switch", operands, operand)
    for branch in branches:
        need_function(branch, "lax.switch")
    if tracing.disabled and branches:
        found = _plain.switch(index, branches, operands)
        if found is not NotImplemented:
            return found
    record = functools.partial(_core.switch_case, "lax.switch", _scalar("lax.switch", "index", index))
    names = [f"branch {i} ({_name(f)})" for i, f in enumerate(branches)]
    return _branches("lax.switch", record, list(branches), names, operands)


def _branches(
    what: str,
    record: Callable[..., list[Tensor]],
    branches: list[Callable[..., Any]],
    names: list[str],
    operands: Sequence[Any],
) -> Any:
    """record(flat branches and their names, leaves of the operands, name of a result's leaf), as a container."""
    leaves, treedef = _tensors(tuple(operands))
    first: list[Any] = []  # the first branch's result, and its structure

    def leaves_of(name: str, out: Any) -> list[Any]:
        flat, structure = tree_flatten(out)
        if not first:
            first[:] = [out, structure]
        if structure != first[1]:
            raise TypeError(
                f"{what}: {names[0]} and {name} must return one structure: "
                + explain_difference(first[0], out)
            )
        return flat

    flat = [
        (_flat(f, lambda p: tree_unflatten(treedef, p), functools.partial(leaves_of, name)), name)
        for f, name in zip(branches, names, strict=True)
    ]
    with _leaks.looking(f"a branch of {what}"):
        results = record(flat, leaves, lambda k: tree_paths(first[0])[k])
        first[0] = None  # its values are the branch's
    return tree_unflatten(first[1], results)


@ref.carrying("cond")
def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    *operands: Any,
    operand: Any = _NONE_GIVEN,
) -> Any:
    """true_fun(*operands) if pred else false_fun(*operands); only that one runs.

    `pred` is a scalar, bool or a number (true unless 0). Both return one structure and type; otherwise
    TypeError. `operand` is one operand by name; ``cond(pred, true_operand, true_fun, false_operand, false_fun)`` gives
    each function one of its own. Under vmap with a condition per lane both run, each lane taking its
    own; loops in a branch run for its lanes only.
    """
    operands = _operands("lax.cond", operands, operand)
    both = callable(true_fun) and callable(false_fun)
    if (
        len(operands) == 2
        and callable(false_fun)
        and callable(operands[1])
        and not callable(operands[0])
        and not (both and tree_children(operands[1]) is not None)  # an operand that can be called, too
    ):
        of_true, of_false = false_fun, operands[1]
        operands = (true_fun, operands[0])
        true_fun, false_fun = lambda mine, _: of_true(mine), lambda _, mine: of_false(mine)
    for f in (true_fun, false_fun):
        if not callable(f):
            raise TypeError(
                "lax.cond needs (pred, true_fun, false_fun, *operands), with two functions, and "
                f"{type(f).__name__} is not callable: {f!r:.60}"
            )
    if tracing.disabled:
        scalar = _scalar("lax.cond", "predicate", pred)
        found = _plain.switch(scalar != 0, [false_fun, true_fun], operands)
        if found is not NotImplemented:
            return found
    record = functools.partial(_core.cond, "lax.cond", _scalar("lax.cond", "predicate", pred))
    names = [f"false_fun ({_name(false_fun)})", f"true_fun ({_name(true_fun)})"]
    return _branches("lax.cond", record, [false_fun, true_fun], names, operands)


def _states(what: str, checkpoint: Any) -> int | None:
    """`checkpoint` as the recorded loop has it; TypeError where it is no number of states."""
    if isinstance(checkpoint, str):
        if checkpoint != "sqrt":
            raise TypeError(f"{what}: checkpoint is a number of states or 'sqrt', not {checkpoint!r}")
        return _core.CHECKPOINT_SQRT
    return None if checkpoint is None else operator.index(checkpoint)


@ref.carrying("while_loop")
def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init_val: Any,
    *,
    checkpoint: int | str | None = None,
) -> Any:
    """body_fun applied to the carry while cond_fun of it is true.

    The carry is any container of arrays whose structure and types body_fun keeps; otherwise TypeError naming
    the leaf.

    Reverse mode keeps the states of `checkpoint` steps at a time (at least 1, else ValueError) and computes those
    between them again: with s of them every step runs at most t + 1 times forward in a loop of (s + t)! / (s! t!)
    steps, so that 64 reach back over 800,000 steps with t = 4. With "sqrt" it keeps between once and six times the
    square root of the number of steps (at least 16), which need not be known before, and every step runs at most
    three times. By default, as many as fit 16 MiB, between 16 and 1024. The schedule is
    Griewank and Walther's ("Algorithm 799: revolve", 2000).
    """
    need_function(cond_fun, "lax.while_loop")
    need_function(body_fun, "lax.while_loop")
    if tracing.disabled:
        found = _plain.while_loop(cond_fun, body_fun, init_val)
        if found is not NotImplemented:
            return found
    leaves, treedef = _tensors(init_val)

    def rebuild(p: list[Tensor]) -> tuple[Any, ...]:
        return (tree_unflatten(treedef, p),)

    step = _flat(body_fun, rebuild, _carry_leaves("lax.while_loop", body_fun, init_val, treedef))
    with _leaks.looking("the body of lax.while_loop"):
        results = _core.while_loop(
            "lax.while_loop",
            (_flat(cond_fun, rebuild), _name(cond_fun)),
            (step, _name(body_fun)),
            leaves,
            _carry_name(init_val, body_fun),
            _states("lax.while_loop", checkpoint),
        )
    return tree_unflatten(treedef, results)


def _static_int(x: Any) -> int | None:
    """The value of a bound if it is known while recording."""
    try:
        return operator.index(x) if not isinstance(x, Tensor) else None
    except TypeError:
        return None


def _check_unroll(what: str, unroll: Any) -> None:
    """TypeError where `unroll` is no integer and no bool, ValueError where it is negative."""
    if unroll is not None and _static(what, "unroll", unroll) < 0:
        raise ValueError(f"{what}: `unroll` must be a number of steps, and not negative: {unroll}")


@ref.carrying("fori_loop")
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
    checkpoint: int | str | None = None,
) -> Any:
    """carry = body_fun(i, carry) for i in lower..upper-1.

    With Python integers as bounds and no `checkpoint` the loop is a scan, of which reverse mode keeps what every
    step needs; otherwise a while_loop, with `checkpoint` as there. Bounds may be floats, and `i` is one then.
    As in a loop of Python, `i` takes the type of what it meets, unless a bound is an array that has a type of its own.
    `unroll` is accepted and has no effect on the result.
    """
    need_function(body_fun, "lax.fori_loop")
    _check_unroll("lax.fori_loop", unroll)
    if tracing.disabled:
        found = _plain.fori_loop(lower, upper, body_fun, init_val)
        if found is not NotImplemented:
            return found
    leaves, treedef = _tensors(init_val)

    def rebuild(p: list[Tensor]) -> tuple[Any, ...]:
        return p[0], tree_unflatten(treedef, p[1:])

    step = _flat(body_fun, rebuild, _carry_leaves("lax.fori_loop", body_fun, init_val, treedef))
    bounds: Any = (_static_int(lower), _static_int(upper))
    if None in bounds:
        bounds = (to_tensor(lower), to_tensor(upper))
    with _leaks.looking("the body of lax.fori_loop"):
        results = _core.fori_loop(
            "lax.fori_loop",
            (step, _name(body_fun)),
            *bounds,
            leaves,
            _carry_name(init_val, body_fun, 1),
            _states("lax.fori_loop", checkpoint),
        )
    return tree_unflatten(treedef, results)


@ref.carrying("scan")
def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Any, Any]:
    """(carry, y) = f(carry, x) for the elements x of xs along axis 0; returns (last carry, stacked ys).

    Containers of arrays as carry, xs and ys. ValueError if the lengths of xs differ; TypeError naming the
    leaf and both types if the carry's type changes. `unroll` and `_split_transpose` change no result and nothing else.
    """
    need_function(f, "lax.scan")
    _check_unroll("lax.scan", unroll)
    if tracing.disabled:
        found = _plain.scan(f, init, xs, length, reverse)
        if found is not NotImplemented:
            return found
    carry, carry_tree = _tensors(init)
    items, items_tree = _tensors(xs)
    n = len(carry)
    carry_leaves = _carry_leaves("lax.scan", f, init, carry_tree)
    trees: list[TreeDef] = []  # of the ys

    def rebuild(p: list[Tensor]) -> tuple[Any, ...]:
        return tree_unflatten(carry_tree, p[:n]), tree_unflatten(items_tree, p[n:])

    def leaves_of(result: Any) -> list[Any]:
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(f"lax.scan: {_name(f)} must return a pair (carry, y), not {_shown(result)}")
        ys, structure = tree_flatten(result[1])
        trees[:] = [structure]
        return [*carry_leaves(result[0]), *ys]

    with _leaks.looking("the body of lax.scan"):
        results = _core.scan(
            "lax.scan",
            (_flat(f, rebuild, leaves_of), _name(f)),
            carry,
            items,
            None if length is None else _static("lax.scan", "length", length),
            bool(reverse),
            _carry_name(init, f),
            _leaf_name(xs),
        )
    return tree_unflatten(carry_tree, results[:n]), tree_unflatten(trees[0], results[n:])


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """f of every element of xs along axis 0, one after the other, or `batch_size` at a time by vmap; stacked.

    ValueError for a negative batch_size (0 is as None), and where the lengths of xs differ.
    """
    need_function(f, "lax.map")
    if not batch_size:
        return scan(lambda _, x: (None, f(x)), None, xs)[1]
    from lamina._transforms import vmap

    leaves, treedef = _tensors(xs)
    rows = lambda p: tree_unflatten(treedef, p)  # noqa: E731
    trees: list[TreeDef] = []

    def flat(out: Any) -> list[Tensor]:
        results, structure = tree_flatten(out)
        trees[:] = [structure]
        return results

    results = _core.in_batches(
        "lax.map",
        lambda p: flat(scan(lambda _, x: (None, vmap(f)(x)), None, rows(p))[1]),
        lambda p: flat(vmap(f)(rows(p))),
        leaves,
        _leaf_name(xs),
        operator.index(batch_size),
    )
    return tree_unflatten(trees[0], results)


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """All prefixes of elems along `axis`, combined by the associative fn, in log2(size) steps.

    fn maps two containers like elems to one, element by element along the axis. `reverse` gives suffixes.
    """
    from lamina.lax._shape import concatenate, reshape, rev, slice_in_dim

    need_function(fn, "lax.associative_scan")
    leaves, treedef = _tensors(elems)
    if not leaves:
        return elems
    axes = [axis_of(axis, t.ndim) for t in leaves]
    sizes = {t.shape[a] for t, a in zip(leaves, axes, strict=True)}
    if len(sizes) != 1:
        raise ValueError(
            f"lax.associative_scan needs arrays of one size along axis {axis}, not {sorted(sizes)}"
        )

    def part(xs: list[Tensor], start: int, stop: int | None, step: int = 1) -> list[Tensor]:
        return [slice_in_dim(x, start, stop, step, a) for x, a in zip(xs, axes, strict=True)]

    def combine(xs: list[Tensor], ys: list[Tensor]) -> list[Tensor]:
        out = fn(tree_unflatten(treedef, xs), tree_unflatten(treedef, ys))
        return [to_tensor(x) for x in tree_leaves(out)]

    def alternate(even: Tensor, odd: Tensor, a: int) -> Tensor:
        n, before, after = odd.shape[a], odd.shape[:a], odd.shape[a + 1 :]
        # As columns: kernels put few of them side by side.
        pairs = concatenate(
            [reshape(x, [*before, n, math.prod(after)]) for x in (slice_in_dim(even, 0, n, 1, a), odd)], a + 1
        )
        joined = reshape(pairs, [*before, 2 * n, *after])
        return joined if even.shape[a] == n else concatenate([joined, slice_in_dim(even, n, n + 1, 1, a)], a)

    def prefixes(xs: list[Tensor]) -> list[Tensor]:
        size = xs[0].shape[axes[0]]
        if size < 2:
            return [_core.set_weak(x, x.weak_type) for x in xs]
        odd = prefixes(combine(part(xs, 0, size - 1, 2), part(xs, 1, None, 2)))
        if size == 2:
            rest = part(xs, 0, 1)
        else:
            known = part(odd, 0, -1) if size % 2 == 0 else odd
            rest = combine(known, part(xs, 2, None, 2))
            rest = [
                concatenate([slice_in_dim(x, 0, 1, 1, a), r], a)
                for x, r, a in zip(xs, rest, axes, strict=True)
            ]
        return [alternate(e, o, a) for e, o, a in zip(rest, odd, axes, strict=True)]

    if reverse:
        leaves = [rev(x, (a,)) for x, a in zip(leaves, axes, strict=True)]
    results = prefixes(leaves)
    if reverse:
        results = [rev(x, (a,)) for x, a in zip(results, axes, strict=True)]
    return tree_unflatten(treedef, results)
