"""Function transforms: grad, value_and_grad, vmap, jvp, vjp, linearize, linear_transpose, eval_shape."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _core, _leaks, _writes, ref
from lamina._aux import Pair
from lamina._core import Tensor
from lamina._functions import _name, checked_argnums, need_function, places_of
from lamina._later import inspect
from lamina._linear import PullBack, PushForward, Transposed, fitted_tangents
from lamina._shapes import ShapeDtype, is_shape_only, shaped
from lamina._source import line_of, named
from lamina._tensor import describe, to_tensor
from lamina.tree import (
    TreeDef,
    dict_keys,
    tree_children,
    tree_flatten,
    tree_leaves,
    tree_paths,
    tree_structure,
    tree_unflatten,
)


class _Flat:
    """A function on containers as one on flat lists; remembers the structure of its result.

    What it wrote to its arguments follows the results, and `written` says which leaves they are of. Last comes what it
    wrote to references from outside, where `refs` notes them.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        treedef: TreeDef,
        static: dict[Any, Any] | None = None,
        keep_text: bool = False,
        opened: Callable[[list[Tensor]], None] | None = None,
        refs: ref.Jitted | ref.Lent | None = None,
        given: list[Tensor] | None = None,
    ) -> None:
        self.f, self.treedef, self.out_tree = f, treedef, None
        self.outside = _writes.Outside(given or [])
        self.refs, self.written_refs = refs, ref.NONE_WRITTEN
        self.static = static or {}
        self.keep_text, self.opened = keep_text, opened
        self.out_text: list[tuple[int, str | bytes]] = []  # results that are no arrays, by position
        self.written: list[int] = []

    def __call__(self, leaves: list[Tensor]) -> list[Tensor]:
        _leaks.entered()
        if self.opened is not None:
            self.opened(leaves)
        if self.refs is None:
            return self._results(leaves)
        with self.refs:
            results, self.written_refs = self._results(leaves), self.refs.written()
            return [*results, *self.written_refs.values()]

    def _results(self, leaves: list[Tensor]) -> list[Tensor]:
        given = tree_unflatten(self.treedef, leaves)
        args, kwargs = list(given[0]), given[1]
        for key in sorted(k for k in self.static if isinstance(k, int)):
            args.insert(key, self.static[key])
        kwargs = {**kwargs, **{k: v for k, v in self.static.items() if isinstance(k, str)}}
        with self.outside:
            returned = self.f(*args, **kwargs)
            ref.refuse_returned(self.f, returned)
            out, self.out_tree = tree_flatten(returned)
        if self.keep_text:
            self.out_text = [(i, x) for i, x in enumerate(out) if isinstance(x, (str, bytes))]
        try:
            results = [self._result(x) for x in out if not (self.keep_text and isinstance(x, (str, bytes)))]
        except TypeError as e:
            if not hasattr(e, "result"):
                raise
            paths = (p for p, x in zip(tree_paths(returned), out) if x is e.result)
            raise _no_array(e.result, self.f, next(paths, "")) from None
        self.written = _writes.written(
            self.f, self.treedef, leaves, given, functools.partial(_argument_path, self.f)
        )
        return [*results, *(leaves[i] for i in self.written)] if self.written else results

    def _result(self, x: Any) -> Tensor:
        return _result(x, self.f)

    @property
    def further(self) -> int:
        """How many results are what it wrote."""
        return len(self.written) + len(self.written_refs)

    def settled(
        self,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        outputs: list[Any],
        outside: Sequence[Tensor] = (),
    ) -> list[Any]:
        """The function's own results of `outputs`; what it wrote to its arguments, the caller's get.

        `outside`: the Tensors that it reads besides its arguments, where they were not watched.
        """
        n = len(outputs) - self.further
        tree = (tuple(args), kwargs)
        if self.written_refs:
            self.written_refs.check(_name(self.f), tree)
        if self.written:
            _writes.give(
                self.f,
                self.written,
                tree_leaves(tree),
                outputs[n:],
                lambda i: _argument_path(self.f, tree_paths(tree)[i]),
                outside or self.outside.read,
            )
        self.written_refs.give(outputs[n + len(self.written) :])
        return outputs[:n]


class _Decided(_Flat):
    """Of which integers among the results have the type that they show: cotangents of it fit them."""

    def _result(self, x: Any) -> Tensor:
        t = _result(x, self.f)
        decided = t.weak_type and t.dtype.kind in "iu"
        return _core.elementwise("convert", t, dtype=t.dtype.name) if decided else t


class _Described(_Flat):
    """Of which results may be types of arrays in the place of arrays."""

    def _result(self, x: Any) -> Tensor:
        if not is_shape_only(x):
            return _result(x, self.f)
        like = shaped(x)
        from lamina import numpy as lnp

        return _core.set_weak(lnp.zeros(like.shape, like.dtype), like.weak_type)


def _no_array(x: Any, f: Callable[..., Any], path: str = "") -> TypeError:
    """For a result of `f` at `path` that is no array."""
    e = TypeError(
        f"{named(f)} returned {x!r:.60} ({type(x).__name__})"
        f"{f' at {path}' * bool(path)}, which is not an array"
    )
    e.result = x  # type: ignore[attr-defined]
    return e


def _result(x: Any, f: Callable[..., Any]) -> Tensor:
    try:
        return to_tensor(x)
    except TypeError:
        from lamina._masked import MaskedElements, unknown_mask

        if isinstance(x, MaskedElements):
            raise unknown_mask(x.mask) from None
        raise _no_array(x, f) from None


def _check_argument(x: Any, path: str, f: Callable[..., Any]) -> Tensor:
    try:
        return to_tensor(x)
    except TypeError:
        raise TypeError(
            f"{_name(f)} got {x!r:.60} ({type(x).__name__}) for {path}, which is not an array; "
            "mark the argument static (static_argnums or static_argnames) if it chooses what is computed"
        ) from None


def _argument_names(f: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        return []


def _argument_path(f: Callable[..., Any], path: str) -> str:
    """`[0][1]['w']` of (args, kwargs) as the user wrote it: ``params['w']``."""
    return _as_written(_argument_names(f), path)


def _argument_paths(f: Callable[..., Any], arguments: Any) -> list[str]:
    """The paths of all leaves of (args, kwargs) as the user wrote them."""
    names = _argument_names(f)
    return [_as_written(names, path) for path in tree_paths(arguments)]


def _as_written(names: Sequence[str], path: str) -> str:
    import re

    found = re.match(r"\[0\]\[(\d+)\](.*)", path)
    if found:
        i = int(found[1])
        return (names[i] if i < len(names) else f"argument {i}") + found[2]
    found = re.match(r"\[1\]\['(\w+)'\](.*)", path)
    return found[1] + found[2] if found else path


def _flatten_arguments(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[list[Tensor], TreeDef]:
    leaves, treedef = tree_flatten((tuple(args), kwargs))
    out = []
    for i, x in enumerate(leaves):
        if isinstance(x, Tensor):
            out.append(x)
            continue
        t = _core.asarray(x)
        if t is None:
            t = _check_argument(x, _argument_path(f, tree_paths((tuple(args), kwargs))[i]), f)
        out.append(t)
    return out, treedef


def _kinds(what: str, holomorphic: bool, allow_int: bool = False) -> tuple[str, str]:
    """The kinds of elements that a transform's arguments may have (letters of dtype.kind), and that in words."""
    if holomorphic:
        return "c", "complex inputs (it is called with holomorphic=True)"
    if what == "jacfwd":  # forward mode has one derivative for both parts of a complex number
        return "f", "float inputs"
    return ("fciub" if allow_int else "fc"), "float inputs"


def _check_dtypes(
    f: Callable[..., Any],
    args: Sequence[Any],
    nums: tuple[int, ...],
    what: str,
    holomorphic: bool,
    allow_int: bool = False,
) -> None:
    """TypeError naming the first leaf of the arguments `nums` of which there is no derivative."""
    kinds, needed = _kinds(what, holomorphic, allow_int)
    for n in nums:
        for i, x in enumerate((args[n],) if type(args[n]) is Tensor else tree_leaves(args[n])):
            t = _core.asarray(x)
            if t is None or t.dtype.kind not in kinds:
                name = _argument_path(f, f"[0][{n}]{tree_paths(args[n])[i]}")
                is_what = (
                    describe(t) if t is not None else f"{x!r:.60} ({type(x).__name__}), which is no array"
                )
                remedy = _REMEDY[kinds if t is not None else _KIND_OF_ALL]
                raise TypeError(f"{what} of {_name(f)} needs {needed}, but {name} is {is_what}: {remedy}")


_KIND_OF_ALL = "fciub"
_REMEDY = {
    "fc": "pass it as an argument that is not differentiated (argnums), or as a float such as 3.0",
    "c": "pass a complex array (astype), or leave out holomorphic=True",
    "f": "pass holomorphic=True for a function that is holomorphic, or its real and imaginary parts",
    _KIND_OF_ALL: "pass it as an argument that is not differentiated (argnums)",
}


_ONE_LEAF = tree_structure((0.0,))


def value_and_grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Any:
    """A function giving (f's value, gradients by the arguments in `argnums`).

    `fun` returns a scalar float, or (scalar, aux) with `has_aux`, where aux is a container of arrays and of what holds
    none (strings, settings). Gradients have the structure of the arguments; one
    for an int `argnums`, a tuple for a sequence. With `holomorphic`, arguments and value are complex, and the
    gradient is the complex derivative. With `allow_int`, an integer or boolean argument may be named: its gradient
    is None, as there is none.

    A number that leaves `fun`'s arrays would lose its derivative: float(), item(), NumPy and printing to a number raise
    TypeError for what depends on a differentiated argument (comparisons, bool() and int() do not). What `fun` writes
    to its arguments, the caller's Tensors get.
    """
    need_function(fun, "grad")
    argnums = checked_argnums(argnums)
    kinds, loss_kind = _kinds("grad", holomorphic, allow_int)[0], "c" if holomorphic else "f"

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        f = Pair(fun) if has_aux else fun
        if type(argnums) is int and 0 <= argnums < len(args):
            nums: tuple[int, ...] = (argnums,)
            chosen: tuple[Any, ...] = (args[argnums],)
        else:
            nums = places_of(argnums, args, fun)
            chosen = tuple([args[n] for n in nums])
        alone = len(chosen) == 1 and type(chosen[0]) is Tensor  # the usual case, without a walk
        if not alone or chosen[0].dtype.kind not in kinds:
            _check_dtypes(fun, args, nums, "grad", holomorphic, allow_int)
        leaves, treedef = (list(chosen), _ONE_LEAF) if alone else tree_flatten(chosen)

        def chosen_path(path: str) -> str:
            at, _, rest = path[1:].partition("]")
            return _argument_path(fun, f"[0][{nums[int(at)]}]{rest}")

        written: list[int] = []
        outside = _writes.Outside([x for x in leaves if isinstance(x, Tensor)])
        lent = _writes.lent([a for i, a in enumerate(args) if i not in nums] if len(args) > 1 else [], kwargs)
        refs, written_refs = ref.lent(), ref.NONE_WRITTEN

        def flat(inputs: list[Tensor]) -> list[Tensor]:
            nonlocal written_refs
            full = list(args)
            values = tuple(inputs) if alone else tree_unflatten(treedef, inputs)
            for n, value in zip(nums, values):
                full[n] = value
            with outside, lent, refs or contextlib.nullcontext():
                out = f(*full, **kwargs)
                others = lent.results()
                if refs is not None:
                    written_refs = refs.written()
                    others += written_refs.values()
            if not alone or _core.written(inputs[0]):
                written[:] = _writes.written(fun, treedef, inputs, values, chosen_path)
            aux: list[Any] = []
            if has_aux:
                out, aux = out
            if out is None:
                raise TypeError(
                    f"{_name(fun)} returned None; grad needs a scalar loss (is a return missing?)"
                )
            if isinstance(out, (tuple, list, dict)):
                raise TypeError(
                    f"grad needs a scalar loss, but {_name(fun)} returned a {type(out).__name__}: return the loss "
                    "alone, or a pair (loss, aux) with has_aux=True"
                )
            loss = _result(out, fun)
            if loss.shape != () or loss.dtype.kind != loss_kind:
                file, line, _ = _core.where_made(loss)
                made = f" made at {file}:{line}" if file else ""
                if loss.shape == () and loss.dtype.kind == "c":
                    remedy = "return its real part or modulus, or pass holomorphic=True if f is holomorphic"
                elif holomorphic and loss.shape == ():
                    remedy = "with holomorphic=True the value is complex"
                else:
                    remedy = "use .sum() or .mean(), or jacrev for the whole Jacobian"
                raise TypeError(
                    f"grad needs a scalar {'complex' if holomorphic else 'float'} loss, but {_name(fun)} returned "
                    f"{describe(loss)}{made}; {remedy}"
                )
            return [loss, *(_result(a, fun) for a in aux), *(inputs[i] for i in written), *others]

        outputs, grads = _core.value_and_grad(flat, leaves if alone else [to_tensor(x) for x in leaves])
        result = grads if alone else tree_unflatten(treedef, grads)
        if written or lent.written or written_refs:
            further = len(written) + len(lent.written) + len(written_refs)
            values = outputs[len(outputs) - further :]
            del outputs[len(outputs) - further :]
            if any(leaves[i] is x for i in written for x in lent.given):
                raise ValueError(f"{_name(fun)} writes to a Tensor that is given to it twice: give it a copy")
            _writes.give(
                fun, written, leaves, values, lambda i: chosen_path(tree_paths(chosen)[i]), outside.read
            )
            lent.give(values[len(written) :])
            written_refs.give(values[len(written) + len(lent.written) :])
        value = (outputs[0], f.aux(outputs[1:])) if has_aux else outputs[0]
        return value, (result[0] if isinstance(argnums, int) else tuple(result))

    return wrapped


def _zero_like(x: Tensor) -> Tensor:
    scalar = _core.elementwise("convert", _core.asarray(0.0), dtype=str(x.dtype))
    return _core.op("broadcast_in_dim", [scalar], shape=list(x.shape))[0]


def grad(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Any:
    """The gradient function of a scalar function; see `value_and_grad`. With `has_aux`: (gradients, aux)."""
    both = value_and_grad(fun, argnums, has_aux, holomorphic, allow_int)

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return wrapped


def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(f(*primals), pull_back), where pull_back maps a cotangent of the output to cotangents of the primals.

    With `has_aux`, `fun` returns (value, aux) and the result is (value, pull_back, aux). The cotangent of an integer
    primal is None. `pull_back` is a container of the arrays that it keeps: jitted and mapped functions may return and
    take it.
    """
    need_function(fun, "vjp")
    return _pulled_back(fun, primals, has_aux)


def _pulled_back(fun: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool, linear: str = "") -> Any:
    """As `vjp`; with `linear`, the name of what needs it, TypeError where `fun` is not linear."""
    leaves, treedef = _flatten_arguments(fun, primals, {})
    f = Pair(fun) if has_aux else fun
    flat = _Decided(f, treedef, given=leaves, refs=ref.lent())
    everything, pull, _ = _core.vjp(flat, leaves, linear)
    out = tree_unflatten(flat.out_tree, flat.settled(primals, {}, everything))
    value, aux = out if has_aux else (out, None)
    value_leaves, value_tree = tree_flatten(value)
    idle = everything[len(value_leaves) :]

    def run(given: list[Tensor]) -> list[Any]:
        return pull([*given, *map(_zero_like, idle)])

    primal_tree = tree_structure(primals)
    pull_back = PullBack(_name(fun), run, value_tree, [(x.shape, x.dtype) for x in value_leaves], primal_tree)
    return (value, pull_back, f.aux(aux)) if has_aux else (value, pull_back)


def _tangents(
    f: Callable[..., Any],
    primals: tuple[Any, ...],
    leaves: list[Tensor],
    treedef: Any,
    tangents: tuple[Any, ...],
) -> list[Tensor]:
    """The leaves of `tangents`, of the types of the primals' leaves.

    TypeError where their structure or kind is another, ValueError where a shape is.
    """
    given, structure = _flatten_arguments(f, tangents, {})
    if structure != treedef:
        from lamina.tree import explain_difference

        raise TypeError("tangents do not fit the primals: " + explain_difference(primals, tangents))
    return fitted_tangents(given, [(p.shape, p.dtype) for p in leaves], TypeError)


def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(f(*primals), push_forward), where push_forward maps tangents of the primals to the tangent of the output.

    It is linear, and what of `fun` depends on the primals alone is computed once, for however many tangents. With
    `has_aux`, `fun` returns (value, aux) and the result is (value, push_forward, aux).
    """
    need_function(fun, "linearize")
    leaves, treedef = _flatten_arguments(fun, primals, {})
    f = Pair(fun) if has_aux else fun
    flat = _Decided(f, treedef, given=leaves, refs=ref.lent())
    outputs, _, push = _core.vjp(flat, leaves)
    outputs = flat.settled(primals, {}, outputs)

    out = tree_unflatten(flat.out_tree, outputs)
    value_tree = tree_structure(out[0]) if has_aux else flat.out_tree

    def run(given: list[Tensor]) -> list[Any]:
        return push(given)[: value_tree.num_leaves]

    push_forward = PushForward(
        _name(fun), run, tree_structure(primals), [(x.shape, x.dtype) for x in leaves], value_tree
    )
    return (out[0], push_forward, f.aux(out[1])) if has_aux else (out, push_forward)


def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """(f(*primals), directional derivative along `tangents`), which have the primals' structure and types.

    With `has_aux`, `fun` returns (value, aux) and the result is (value, derivative, aux). TypeError for primals and
    tangents that are no tuples or lists, of another structure than each other or complex where the primal is real;
    ValueError for shapes that differ.
    """
    need_function(fun, "jvp")
    for what, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (tuple, list)):
            raise TypeError(
                f"jvp takes the {what} as a tuple with one entry per argument, not {type(given).__name__}: "
                f"{given!r:.60}"
            )
    leaves, treedef = _flatten_arguments(fun, tuple(primals), {})
    given = _tangents(fun, tuple(primals), leaves, treedef, tuple(tangents))
    f = Pair(fun) if has_aux else fun
    flat = _Flat(f, treedef, given=leaves, refs=ref.lent())
    outputs, out_tangents = _core.jvp(flat, leaves, given)
    outputs = flat.settled(primals, {}, outputs)
    out = tree_unflatten(flat.out_tree, outputs)
    derivative = tree_unflatten(flat.out_tree, out_tangents[: len(outputs)])
    return (out[0], derivative[0], f.aux(out[1])) if has_aux else (out, derivative)


def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Callable[[Any], tuple[Any, ...]]:
    """The transpose of a linear function, from cotangents of its result to those of its arguments.

    `primals` give shapes and element types, as arrays or ShapeDtype: TypeError where none is real or complex, and where
    `fun` is not linear, with the line (constants that it adds are left out). TypeError for a cotangent that does not fit
    f's result.
    """
    from lamina import numpy as lnp

    need_function(fun, "linear_transpose")
    leaves, treedef = tree_flatten(primals)
    like = [shaped(x) for x in leaves]
    if like and not any(x.dtype.kind in "fc" for x in like):
        raise TypeError(
            f"linear_transpose of {_name(fun)} needs real or complex primals, not "
            f"{', '.join(describe(x) for x in like)}: give them as floats"
        )
    zeros = [_core.set_weak(lnp.zeros(x.shape, x.dtype), getattr(x, "weak_type", False)) for x in like]
    linear = f"linear_transpose of {_name(fun)}"
    return Transposed.of(_pulled_back(fun, tree_unflatten(treedef, zeros), False, linear)[1])


def _axes_of(axes: Any, tree: Any, what: str) -> list[int | None]:
    """One axis per leaf of `tree` from a prefix of its structure; `what` names the prefix.

    ValueError where it does not fit, with the path.
    """
    if axes is None:
        return [None] * len(tree_leaves(tree))
    if isinstance(axes, bool):
        raise TypeError(
            f"{what} is {axes}, which is no axis: it must be an integer, None, or a container of those"
        )
    if not isinstance(axes, (tuple, list, dict)) and hasattr(axes, "__index__"):
        return [operator.index(axes)] * len(tree_leaves(tree))
    mine, theirs = tree_children(axes), tree_children(tree)
    sequences = isinstance(axes, (tuple, list)) and isinstance(tree, (tuple, list))
    if mine is None or theirs is None or not (sequences or type(axes) is type(tree)):
        raise ValueError(
            f"{what} is {axes!r:.60}, which does not fit the structure of its value, a {type(tree).__name__}: "
            "it is an axis, None, or a container like the value's"
        )
    if isinstance(axes, dict):
        for k in tree:
            if k not in axes:
                raise ValueError(
                    f"{what} has no entry {k!r}, which the value has; None is for what is not batched"
                )
        for k in axes:
            if k not in tree:
                raise ValueError(f"{what} has an entry {k!r}, which the value has not")
        return [
            a
            for k, t in zip(dict_keys(tree, theirs[1]), theirs[0])
            for a in _axes_of(axes[k], t, f"{what}[{k!r}]")
        ]
    if len(mine[0]) != len(theirs[0]):
        raise ValueError(f"{what} has {len(mine[0])} entries for {len(theirs[0])} values")
    return [a for i, (x, t) in enumerate(zip(mine[0], theirs[0])) for a in _axes_of(x, t, f"{what}[{i}]")]


def _check_axes(axes: Any, what: str) -> None:
    """TypeError for what is no axis among `axes`."""
    for axis in () if type(axes) is int else tree_leaves(axes):
        integer = axis.ndim == 0 and axis.dtype.kind in "iu" if isinstance(axis, Tensor) else None
        if integer is False or isinstance(axis, bool) or not hasattr(axis, "__index__"):
            raise TypeError(
                f"{what} is {axes!r:.60}, and {axis!r:.40} is no axis: it must be an int, None, or a container of those"
            )


def _passed_by(axes: Sequence[int | None], leaves: Sequence[Any]) -> set[int]:
    """The places of the leaves that are not batched and are no arrays: functions, strings, objects."""
    out = set()
    for i, (axis, x) in enumerate(zip(axes, leaves)):
        if axis is None and not isinstance(x, Tensor) and _core.asarray(x) is None:
            try:
                to_tensor(x)
            except TypeError:
                out.add(i)
    return out


def _around(
    fun: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    axes: Sequence[int | None],
    passed: set[int],
    transform: Callable[..., Any],
    *options: Any,
) -> Any:
    """`transform` of `fun` as a function of its arrays alone; the leaves `passed` reach it as they are."""
    leaves, treedef = tree_flatten(args)

    @functools.wraps(fun)
    def of_arrays(arrays: list[Any], named: dict[str, Any]) -> Any:
        given = iter(arrays)
        full = tree_unflatten(treedef, [x if i in passed else next(given) for i, x in enumerate(leaves)])
        return fun(*full, **named)

    kept = [i for i in range(len(leaves)) if i not in passed]
    of_kept = [axes[i] for i in kept]
    return transform(of_arrays, (of_kept, 0), *options)([leaves[i] for i in kept], kwargs)


# As trace::LaneStrategy counts them.
_STRATEGIES = ("select", "loop", "auto")


def vmap(
    fun: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_name: Any = None,
    axis_size: int | None = None,
    spmd_axis_name: Any = None,
    *,
    strategy: str = "select",
) -> Any:
    """`fun` over a batch axis of its arguments, lane by lane, with the bits of a loop.

    `in_axes`: the axis per argument (None: not batched; what is no array then, a number, a function or a string,
    reaches `fun` as it is), a prefix of the arguments' structure; `out_axes` likewise, where None is for a result that
    is the same for every lane (ValueError where it is not). `axis_size`: the number of lanes, needed only where no
    argument is batched. What `fun` writes to a batched argument, the caller's Tensor gets along that axis; ValueError
    for a value per lane written to one that is not batched.

    `axis_name`, hashable, names the axis for the collectives of `lamina.lax` (psum, all_gather, axis_index, ...) in what
    `fun` calls; an inner axis of the same name hides it. `spmd_axis_name` names axes of a mesh that the batch is spread
    over: on one device it changes nothing.

    `strategy` says how lanes go on that take different branches or different numbers of steps; the bits are the same.
    "select": together, all branches run and steps are taken until the last lane has ended. "loop": one after the other,
    each through its own branch and steps. "auto": by cost, loops together while enough lanes take steps and then those
    that are left one after the other, branches one after the other where much is saved. It is for this axis: a `vmap`
    inside has its own.
    """
    from lamina import _axes

    need_function(fun, "vmap")
    _check_axes(in_axes, "in_axes")
    _check_axes(out_axes, "out_axes")
    if not (in_axes is None or hasattr(in_axes, "__index__") or isinstance(in_axes, (tuple, list))):
        raise TypeError(
            f"in_axes is {in_axes!r:.60}: it is an axis, None, or a tuple with an entry for each positional argument"
        )
    if strategy not in _STRATEGIES:
        raise ValueError(f"strategy is {strategy!r:.60}: it is one of {', '.join(map(repr, _STRATEGIES))}")
    name = None if axis_name is None else _axes.key(axis_name)
    named = "" if axis_name is None else f" over axis_name {axis_name}"
    if spmd_axis_name is not None:
        for one in spmd_axis_name if isinstance(spmd_axis_name, tuple) else (spmd_axis_name,):
            _axes.key(one)

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        from lamina import numpy as lnp

        axes = _axes_of(tuple(in_axes) if isinstance(in_axes, list) else in_axes, args, "in_axes")
        if None in axes:
            given = tree_leaves(args)
            numbers = {
                i for i, (axis, x) in enumerate(zip(axes, given)) if axis is None and _core.is_number(x)
            }
            passed = _passed_by(axes, given) | numbers
            if passed:
                again = functools.partial(vmap, strategy=strategy)
                return _around(fun, args, kwargs, axes, passed, again, out_axes, axis_name, axis_size)
        leaves, treedef = _flatten_arguments(fun, args, kwargs)
        axes += [0] * (len(leaves) - len(axes))  # keyword arguments are batched along axis 0
        sizes = set() if axis_size is None else {operator.index(axis_size)}

        def path(i: int) -> str:
            found = tree_paths((args, kwargs))[i]
            return ("keyword " if found.startswith("[1]") else "") + _argument_path(fun, found)

        given = list(leaves)
        for i, (x, axis) in enumerate(zip(given, axes)):
            if axis is None:
                continue
            shape = x.shape
            if not -len(shape) <= axis < len(shape):
                raise ValueError(f"vmap over axis {axis} of {path(i)}, which has shape {shape}")
            sizes.add(shape[axis])
            if axis % len(shape):
                leaves[i] = lnp.moveaxis(x, axis, 0)
        if not sizes:
            without = (
                "every in_axes entry is None"
                if axes
                else f"there is no array in *args={args}, **kwargs={kwargs}"
            )
            raise ValueError(
                f"vmap of {_name(fun)} has nothing to batch over: {without}, and there is no axis_size"
            )
        if len(sizes) > 1:
            of: dict[int, list[str]] = {} if axis_size is None else {axis_size: [f"axis_size={axis_size}"]}
            for i, (x, axis) in enumerate(zip(given, axes)):
                if axis is not None:
                    of.setdefault(x.shape[axis], []).append(f"{path(i)} {describe(x)} axis {axis}")
            odd = sorted(of.items(), key=lambda kv: len(kv[1]))
            text = "; ".join(f"size {n}: {', '.join(p)}" for n, p in odd)
            raise ValueError(f"vmap got batch axes of different sizes: {text}")
        flat = _Flat(fun, treedef, given=given, refs=ref.lent())
        (size,) = sizes
        with _leaks.looking(f"the mapped function {_name(fun)}"):
            batched, number = [a is not None for a in axes], _STRATEGIES.index(strategy)
            outputs, differs = _core.vmap(flat, leaves, batched, size, name or "", number)
        if flat.further:
            n = len(outputs) - flat.further
            for k in range(n + len(flat.written), len(outputs)):
                if differs[k]:
                    raise ValueError(
                        f"{_name(fun)} writes a value per lane to a reference from outside: give it to the mapped "
                        "function as a batched argument, or write what is the same in every lane"
                    )
                outputs[k] = outputs[k][0]
            for k, i in enumerate(flat.written, n):
                axis = axes[i]
                if axis is None and differs[k]:
                    raise ValueError(
                        f"{_name(fun)} writes a value per lane to {path(i)}, which is not batched (in_axes is None): "
                        "batch it, or write to a copy and return that"
                    )
                outputs[k] = outputs[k][0] if axis is None else lnp.moveaxis(outputs[k], 0, axis)
            outputs = flat.settled(args, kwargs, outputs)
        result = tree_unflatten(flat.out_tree, outputs)
        if type(out_axes) is int and out_axes == 0:
            return result
        moved = []
        for i, (x, axis) in enumerate(zip(outputs, _axes_of(out_axes, result, "out_axes"))):
            if axis is not None:
                moved.append(lnp.moveaxis(x, 0, axis) if axis else x)
                continue
            if differs[i]:
                raise ValueError(
                    f"vmap of {_name(fun)}{named}: out_axes is None for result{tree_paths(result)[i]}, {describe(x)} "
                    "over all lanes, which depends on a batched argument; give it an axis, or join its lanes outside "
                    "(.mean(0))"
                )
            moved.append(x[0])
        return tree_unflatten(flat.out_tree, moved)

    return wrapped


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Shapes and element types of f's result for arguments given as arrays or ShapeDtype; computes nothing.

    Anything with attributes `shape` and `dtype` may stand for an array, also among the results.
    """
    need_function(fun, "eval_shape")
    leaves, treedef = tree_flatten((args, kwargs))
    flat = _Described(fun, treedef)
    specs = []
    for x in leaves:
        t = shaped(x)
        specs.append((str(t.dtype), list(t.shape), getattr(t, "weak_type", False)))
    with _leaks.looking(_name(fun)):
        program = _core.Program(flat, specs, _name(fun), line_of(fun))
    types = program.result_types[: len(program.result_types) - len(flat.written)]
    described = [ShapeDtype(shape, dtype, weak_type=weak) for dtype, shape, weak in types]
    return tree_unflatten(flat.out_tree, described)
