"""Control flow: cond, switch, while_loop, fori_loop, scan, map, associative_scan.

Bodies are traced once, on abstract values. What they use from outside becomes a further operand of the op: an
unchanged carry of a loop, an argument of every branch.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _core, _writes
from lamina._core import Tensor
from lamina.lax._base import axis_of, const, describe, to_tensor
from lamina.tree import (
    TreeDef,
    explain_difference,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_paths,
    tree_unflatten,
)

_Spec = tuple[str, list[int], bool]
_Result = tuple[str, bool]  # element type, weak

# Numbers go through regions with all their bits.
_run = _core.op_with_carriers


def _name(f: Any) -> str:
    return getattr(f, "__name__", type(f).__name__)


def _spec(t: Tensor) -> _Spec:
    return str(t.dtype), list(t.shape), t.weak_type


def _tensors(tree: Any) -> tuple[list[Tensor], TreeDef]:
    leaves, treedef = tree_flatten(tree)
    return [to_tensor(x) for x in leaves], treedef


def _text(dtype: str, shape: Sequence[int]) -> str:
    return f"{dtype}[{','.join([str(n) for n in shape])}]"


class _Body:
    """A function on containers traced as a region on flat lists."""

    def __init__(
        self,
        f: Callable[..., Any],
        specs: list[_Spec],
        rebuild: Callable[[list[Tensor]], tuple[Any, ...]],
        wanted: Sequence[_Result] = (),
    ):
        """`wanted` are types of the first results, which numbers take where they can."""
        self.tree: TreeDef | None = None
        self.example: Any = None

        def flat(parameters: list[Tensor]) -> list[Tensor]:
            given = rebuild(parameters)
            structure = tree_flatten(given)[1]
            self.example = f(*given)
            _writes.written(f, structure, parameters, given, lambda path: path)
            _writes.refuse(f, parameters, "the body")
            leaves, self.tree = tree_flatten(self.example)
            out = [to_tensor(x) for x in leaves]
            return [*[_taking(t, w) for t, w in zip(out, wanted)], *out[len(wanted) :]]

        self.region = _core.region(flat, specs, carriers=True)
        self.captured: list[Tensor] = self.region.captured
        self.types: list[tuple[str, list[int]]] = self.region.result_types
        self.weak: list[bool] = self.region.result_weak
        self.results: list[_Result] = [(t[0], w) for t, w in zip(self.types, self.weak, strict=True)]

    def call(self, operands: list[Tensor]) -> list[Tensor]:
        return _run("call", operands, self.results, body=self.region)


def _captured_specs(bodies: Sequence[_Body]) -> list[_Spec]:
    return [(str(t.dtype), list(t.shape), False) for b in bodies for t in b.captured]


def _result(t: Tensor) -> _Result:
    return str(t.dtype), t.weak_type


def _taking(t: Tensor, wanted: _Result) -> Tensor:
    """A number in the strong type that is wanted, if it takes that beside an array."""
    dtype, weak = wanted
    if weak or not t.weak_type or _core.promote(str(t.dtype), True, dtype, False)[0] != dtype:
        return t
    return to_tensor(t, dtype)


def _check_carry(
    what: str,
    f: Any,
    init: Any,
    leaves: list[Tensor],
    treedef: TreeDef,
    out: Any,
    out_tree: TreeDef | None,
    types: list[tuple[str, list[int]]],
) -> None:
    """TypeError naming the leaf where the carry's type changes."""
    if out_tree != treedef:
        raise TypeError(
            f"{what}: {_name(f)} must return a carry of the structure it was given: "
            + explain_difference(init, out)
        )
    wrong = []
    for path, t, (dtype, shape) in zip(tree_paths(init), leaves, types, strict=False):
        if (str(t.dtype), list(t.shape)) != (dtype, shape):
            wrong.append(f"carry{path} is {describe(t)} going in but {_text(dtype, shape)} coming out")
    if wrong:
        raise TypeError(
            f"{what}: {_name(f)} must return a carry of the type it was given: " + "; ".join(wrong)
        )


def _settle(leaves: list[Tensor], body: _Body) -> list[Tensor] | None:
    """Weak carries that come out with another element type, converted to it; None if there are none."""
    changed = False
    out = []
    for t, (dtype, shape), weak in zip(leaves, body.types, body.weak, strict=False):
        if t.weak_type and (str(t.dtype) != dtype or not weak) and list(t.shape) == shape:
            promoted = _core.promote(str(t.dtype), True, dtype, weak)[0]
            if promoted == dtype:
                t = _core.set_weak(_core.recast(t, dtype), weak)
                changed = True
        out.append(t)
    return out if changed else None


def _branch_operands(
    bodies: list[_Body], specs: list[_Spec], operands: list[Tensor]
) -> tuple[list[Any], list[Tensor]]:
    """Regions that all take the operands and everything any branch captured."""
    if not any(b.captured for b in bodies):
        return [b.region for b in bodies], operands
    extra = _captured_specs(bodies)
    regions, at = [], len(specs)
    for b in bodies:

        def run(p: list[Tensor], b: _Body = b, at: int = at) -> list[Tensor]:
            return b.call([*p[: len(specs)], *p[at : at + len(b.captured)]])

        regions.append(_core.region(run, [*specs, *extra], carriers=True))
        at += len(b.captured)
    return regions, [*operands, *(t for b in bodies for t in b.captured)]


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """branches[index](*operands), with the index limited to the branches; only that branch runs.

    All branches return containers of one structure and one type of leaves; otherwise TypeError naming the
    leaf.
    """
    i = to_tensor(index)
    if i.shape != () or i.dtype.kind not in "iu":
        raise TypeError(f"lax.switch needs an integer scalar as its index, not {describe(i)}")
    if not branches:
        raise ValueError("lax.switch needs at least one branch")
    if len(branches) == 1:
        return tree_map(lambda x: _core.set_weak(x, x.weak_type), tree_map(to_tensor, branches[0](*operands)))
    i = _core.elementwise("clamp", const(0, i.dtype), i, const(len(branches) - 1, i.dtype))
    return _case("lax.switch", _core.elementwise("convert", i, dtype="int32"), list(branches), operands)


def _case(what: str, index: Tensor, branches: list[Callable[..., Any]], operands: Sequence[Any]) -> Any:
    leaves, treedef = _tensors(tuple(operands))
    specs = [_spec(t) for t in leaves]
    bodies = [_Body(f, specs, lambda p: tree_unflatten(treedef, p)) for f in branches]
    first = bodies[0]
    for b, f in zip(bodies[1:], branches[1:], strict=True):
        if b.tree != first.tree:
            raise TypeError(
                f"{what}: {_name(branches[0])} and {_name(f)} must return one structure: "
                + explain_difference(first.example, b.example)
            )
    common = _common_types(what, bodies, branches)
    if any(b.results != common for b in bodies):
        bodies = [_Body(_converted(f, common), specs, lambda p: tree_unflatten(treedef, p)) for f in branches]
    regions, full = _branch_operands(bodies, specs, leaves)
    return tree_unflatten(bodies[0].tree, _run("case", [index, *full], common, branches=regions))


def _common_types(what: str, bodies: list[_Body], branches: list[Any]) -> list[_Result]:
    """The leaves' types of all branches, where weak ones follow the strong ones."""
    common = []
    for k, path in enumerate(tree_paths(bodies[0].example)):
        dtype, weak = bodies[0].types[k][0], bodies[0].weak[k]
        for b, f in zip(bodies[1:], branches[1:], strict=True):
            other, other_weak = b.types[k][0], b.weak[k]
            same = other == dtype or (
                (weak or other_weak) and _core.promote(dtype, weak, other, other_weak)[0] in (dtype, other)
            )
            if b.types[k][1] != bodies[0].types[k][1] or not same:
                raise TypeError(
                    f"{what}: branches must return one type, but result{path} is "
                    f"{_text(*bodies[0].types[k])} from {_name(branches[0])} and "
                    f"{_text(*b.types[k])} from {_name(f)}"
                )
            dtype, weak = _core.promote(dtype, weak, other, other_weak)
        common.append((dtype, weak))
    return common


def _converted(f: Callable[..., Any], types: list[_Result]) -> Callable[..., Any]:
    def wrapped(*args: Any) -> Any:
        leaves, treedef = tree_flatten(f(*args))
        return tree_unflatten(
            treedef,
            [
                _core.recast(to_tensor(x), dtype) if weak else to_tensor(x, dtype)
                for x, (dtype, weak) in zip(leaves, types, strict=True)
            ],
        )

    wrapped.__name__ = _name(f)
    return wrapped


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """true_fun(*operands) if pred else false_fun(*operands); only that one runs.

    `pred` is a scalar, bool or a number (true unless 0). Both return one structure and type; otherwise
    TypeError.
    """
    if not callable(true_fun) or not callable(false_fun):
        raise TypeError("lax.cond needs (pred, true_fun, false_fun, *operands), with two functions")
    p = to_tensor(pred)
    if p.shape != ():
        raise TypeError(f"lax.cond needs a scalar condition, not {describe(p)}; use lax.select for arrays")
    if p.dtype != "bool":
        p = _core.elementwise("compare", p, const(0, p.dtype), direction="NE")
    return _case("lax.cond", _core.elementwise("convert", p, dtype="int32"), [false_fun, true_fun], operands)


def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any) -> Any:
    """body_fun applied to the carry while cond_fun of it is true.

    The carry is any container of arrays whose structure and types body_fun keeps; otherwise TypeError naming
    the leaf. Forward mode differentiates it; reverse mode needs a known number of steps: fori_loop or scan.
    """
    leaves, treedef = _tensors(init_val)

    def rebuild(p: list[Tensor]) -> tuple[Any, ...]:
        return (tree_unflatten(treedef, p),)

    def traced() -> _Body:
        return _Body(body_fun, [_spec(t) for t in leaves], rebuild, [_result(t) for t in leaves])

    body = traced()
    if body.tree == treedef and (settled := _settle(leaves, body)) is not None:
        leaves = settled
        body = traced()
    _check_carry("lax.while_loop", body_fun, init_val, leaves, treedef, body.example, body.tree, body.types)
    specs = [_spec(t) for t in leaves]
    test = _Body(cond_fun, specs, rebuild)
    if test.types != [("bool", [])]:
        got = ", ".join(_text(*t) for t in test.types) or "nothing"
        raise TypeError(f"lax.while_loop: {_name(cond_fun)} must return one bool scalar, not {got}")
    if not body.captured and not test.captured:
        return tree_unflatten(
            treedef, _run("while", leaves, [_result(t) for t in leaves], cond=test.region, body=body.region)
        )
    n, first = len(specs), len(specs) + len(test.captured)
    full = [*specs, *_captured_specs([test, body])]
    go = _core.region(lambda p: test.call(p[:first]), full, carriers=True)
    step = _core.region(lambda p: [*body.call([*p[:n], *p[first:]]), *p[n:]], full, carriers=True)
    operands = [*leaves, *test.captured, *body.captured]
    results = _run("while", operands, [_result(t) for t in operands], cond=go, body=step)
    return tree_unflatten(treedef, results[:n])


def _static_int(x: Any) -> int | None:
    """The value of a bound if it is known while recording."""
    try:
        return operator.index(x) if not isinstance(x, Tensor) else None
    except TypeError:
        return None


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """carry = body_fun(i, carry) for i in lower..upper-1.

    With Python integers as bounds the loop is a scan, which reverse mode differentiates; otherwise a
    while_loop. `unroll` is accepted and has no effect on the result.
    """
    lo, hi = _static_int(lower), _static_int(upper)
    if lo is not None and hi is not None:
        dtype = "int32" if lo >= -(2**31) and hi < 2**31 else "int64"

        def step(state: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], None]:
            i, carry = state
            return (i + 1, body_fun(i, carry)), None

        step.__name__ = _name(body_fun)
        return scan(step, (const(lo, dtype), init_val), None, max(hi - lo, 0), _what="lax.fori_loop")[0][1]
    start, stop = to_tensor(lower), to_tensor(upper)
    for t in (start, stop):
        if t.shape != () or t.dtype.kind not in "iu":
            raise TypeError(f"lax.fori_loop needs integer scalars as bounds, not {describe(t)}")
    dtype = _core.promote(str(start.dtype), start.weak_type, str(stop.dtype), stop.weak_type)[0]
    start, stop = to_tensor(start, dtype), to_tensor(stop, dtype)
    return while_loop(
        lambda c: c[0] < c[1], lambda c: (c[0] + 1, c[1], body_fun(c[0], c[2])), (start, stop, init_val)
    )[2]


def scan(
    f: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    *,
    _what: str = "lax.scan",
) -> tuple[Any, Any]:
    """(carry, y) = f(carry, x) for the elements x of xs along axis 0; returns (last carry, stacked ys).

    Containers of arrays as carry, xs and ys. ValueError if the lengths of xs differ; TypeError naming the
    leaf and both types if the carry's type changes. `unroll` is accepted and has no effect on the result.
    """
    if not callable(f):
        raise TypeError(f"{_what} needs a function, not {type(f).__name__}")
    carry, carry_tree = _tensors(init)
    items, items_tree = _tensors(xs)
    length = _scan_length(_what, xs, items, length)
    n = len(carry)
    slices: list[_Spec] = [(str(t.dtype), list(t.shape[1:]), t.weak_type) for t in items]

    def rebuild(p: list[Tensor]) -> tuple[Any, ...]:
        return tree_unflatten(carry_tree, p[:n]), tree_unflatten(items_tree, p[n:])

    trees: list[TreeDef] = []
    outs: list[Any] = []

    def flat(c: Any, x: Any) -> list[Any]:
        result = f(c, x)
        if not isinstance(result, tuple) or len(result) != 2:
            raise TypeError(f"{_what}: {_name(f)} must return a pair (carry, y), not {type(result).__name__}")
        new, out_tree = tree_flatten(result[0])
        ys, ys_tree = tree_flatten(result[1])
        trees[:], outs[:] = [out_tree, ys_tree], [result[0]]
        return [*new, *ys]

    flat.__name__ = _name(f)

    def traced() -> _Body:
        return _Body(flat, [*[_spec(t) for t in carry], *slices], rebuild, [_result(t) for t in carry])

    body = traced()
    if trees[0] == carry_tree and (settled := _settle(carry, body)) is not None:
        carry = settled
        body = traced()
    if _what == "lax.fori_loop":  # the counter in front of the user's carry is not the user's
        _check_carry(
            _what,
            f,
            init[1],
            carry[1:],
            tree_flatten(init[1])[1],
            outs[0][1],
            tree_flatten(outs[0][1])[1],
            body.types[1:],
        )
    else:
        _check_carry(_what, f, init, carry, carry_tree, outs[0], trees[0], body.types)
    region, operands, extra = body.region, [*carry, *items], len(body.captured)
    if extra:
        specs = [*[_spec(t) for t in carry], *_captured_specs([body]), *slices]

        def step(p: list[Tensor]) -> list[Tensor]:
            results = body.call([*p[:n], *p[n + extra :], *p[n : n + extra]])
            return [*results[:n], *p[n : n + extra], *results[n:]]

        region, operands = _core.region(step, specs, carriers=True), [*carry, *body.captured, *items]
    types = [*[_result(t) for t in operands[: n + extra]], *body.results[n:]]
    results = _run(
        "scan", operands, types, body=region, num_carry=n + extra, length=length, reverse=bool(reverse)
    )
    return tree_unflatten(carry_tree, results[:n]), tree_unflatten(trees[1], results[n + extra :])


def _scan_length(what: str, xs: Any, items: list[Tensor], length: int | None) -> int:
    lengths: dict[int, str] = {}
    for path, t in zip(tree_paths(xs), items, strict=True):
        if t.ndim == 0:
            raise ValueError(f"{what} scans over axis 0, but xs{path} is the scalar {describe(t)}")
        lengths.setdefault(t.shape[0], f"xs{path} {describe(t)}")
    if len(lengths) > 1:
        raise ValueError(
            f"{what} needs xs of one length along axis 0, but got "
            + "; ".join(f"length {n}: {p}" for n, p in lengths.items())
        )
    if length is None:
        if not lengths:
            raise ValueError(f"{what} needs `length` where xs holds no arrays")
        return next(iter(lengths))
    length = operator.index(length)
    if length < 0:
        raise ValueError(f"{what}: length {length} is negative")
    if lengths and length not in lengths:
        n, p = next(iter(lengths.items()))
        raise ValueError(f"{what}: length={length} does not fit {p} of length {n}")
    return length


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """f of every element of xs along axis 0, one after the other, or `batch_size` at a time by vmap; stacked.

    ValueError for a batch_size below 1.
    """
    if batch_size is None:
        return scan(lambda _, x: (None, f(x)), None, xs)[1]
    if batch_size < 1:
        raise ValueError(f"lax.map: batch_size is at least 1, not {batch_size}")
    from lamina._transforms import vmap
    from lamina.lax._shape import concatenate, reshape, slice_in_dim

    leaves, treedef = _tensors(xs)
    if not leaves or any(t.ndim == 0 for t in leaves):
        raise ValueError("lax.map with batch_size needs arrays of at least one dimension")
    n = leaves[0].shape[0]
    whole = n - n % batch_size
    parts = []
    if whole:
        rows = [
            reshape(slice_in_dim(t, 0, whole), (whole // batch_size, batch_size, *t.shape[1:]))
            for t in leaves
        ]
        done = scan(lambda _, x: (None, vmap(f)(x)), None, tree_unflatten(treedef, rows))[1]
        parts.append(tree_map(lambda y: reshape(y, (whole, *y.shape[2:])), done))
    if n - whole or not parts:
        parts.append(vmap(f)(tree_unflatten(treedef, [slice_in_dim(t, whole, n) for t in leaves])))
    return parts[0] if len(parts) == 1 else tree_map(lambda a, b: concatenate([a, b], 0), *parts)


def associative_scan(fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0) -> Any:
    """All prefixes of elems along `axis`, combined by the associative fn, in log2(size) steps.

    fn maps two containers like elems to one, element by element along the axis. `reverse` gives suffixes.
    """
    from lamina.lax._shape import concatenate, expand_dims, reshape, rev, slice_in_dim

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
        n = odd.shape[a]
        pairs = concatenate(
            [expand_dims(slice_in_dim(even, 0, n, 1, a), (a + 1,)), expand_dims(odd, (a + 1,))], a + 1
        )
        joined = reshape(pairs, [*odd.shape[:a], 2 * n, *odd.shape[a + 1 :]])
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
