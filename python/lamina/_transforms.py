"""Function transforms: jit, grad, value_and_grad, vmap, jvp, vjp, Jacobians, checkpoint, eval_shape."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _core
from lamina._core import Tensor
from lamina._tensor import describe, to_tensor
from lamina.tree import TreeDef, tree_flatten, tree_leaves, tree_map, tree_paths, tree_unflatten


def _name(f: Callable[..., Any]) -> str:
    return getattr(f, "__name__", type(f).__name__)


def _where(f: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(f), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else ""


class _Flat:
    """A function on containers as one on flat lists; remembers the structure of its result."""

    def __init__(self, f: Callable[..., Any], treedef: TreeDef, static: dict[Any, Any] | None = None) -> None:
        self.f, self.treedef, self.out_tree = f, treedef, None
        self.static = static or {}

    def __call__(self, leaves: list[Tensor]) -> list[Tensor]:
        args, kwargs = tree_unflatten(self.treedef, leaves)
        args = list(args)
        for key in sorted(k for k in self.static if isinstance(k, int)):
            args.insert(key, self.static[key])
        kwargs = {**kwargs, **{k: v for k, v in self.static.items() if isinstance(k, str)}}
        out, self.out_tree = tree_flatten(self.f(*args, **kwargs))
        return [_result(x, self.f) for x in out]


def _result(x: Any, f: Callable[..., Any]) -> Tensor:
    try:
        return to_tensor(x)
    except TypeError:
        raise TypeError(
            f"{_name(f)} returned {x!r:.60} ({type(x).__name__}), which is not an array"
        ) from None


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
    import re

    found = re.match(r"\[0\]\[(\d+)\](.*)", path)
    if found:
        names = _argument_names(f)
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


class ShapeDtype:
    """Shape and element type without a value."""

    def __init__(self, shape: Sequence[int], dtype: Any) -> None:
        from lamina import dtypes

        self.shape, self.dtype = tuple(shape), dtypes.canonical(dtype)

    def __repr__(self) -> str:
        return f"ShapeDtype({describe(self)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtype) and (self.shape, self.dtype) == (other.shape, other.dtype)


_LEAF = tree_flatten(0)[1]


class _Traced:
    """One specialization of a jitted function."""

    def __init__(self, program: Any, out_tree: TreeDef) -> None:
        self.program, self.out_tree = program, _LEAF if out_tree == _LEAF else out_tree


class Jitted:
    """A function compiled once per signature: structure, shapes and element types of its arguments, static values."""

    def __init__(self, f: Callable[..., Any], static_argnums: Any = (), static_argnames: Any = ()) -> None:
        functools.update_wrapper(self, f)
        self._f = f
        nums = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)
        names = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
        parameters = _argument_names(f)
        self._nums = frozenset(n % len(parameters) if n < 0 and parameters else n for n in nums) | {
            parameters.index(n) for n in names if n in parameters
        }
        self._names = frozenset(names) | {parameters[n] for n in self._nums if n < len(parameters)}
        self._entries: dict[Any, _Traced] = {}
        self._flat_entries: dict[bytes, _Traced] = {}  # of _entries, those for positional tensors
        self.hits = 0

    def _split(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any], dict[Any, Any]]:
        static: dict[Any, Any] = {}
        dynamic = []
        for i, a in enumerate(args):
            if i in self._nums:
                static[i] = a
            else:
                dynamic.append(a)
        kept = {}
        for k, v in kwargs.items():
            if k in self._names:
                static[k] = v
            else:
                kept[k] = v
        return dynamic, kept, static

    def _signature(self, leaves: list[Tensor], treedef: TreeDef, static: dict[Any, Any]) -> Any:
        key = tuple([(x.shape, x.dtype, x.weak_type) for x in leaves])
        try:
            return treedef, key, tuple(sorted(static.items(), key=str)) if static else None
        except TypeError:
            raise TypeError(
                f"static arguments of {_name(self._f)} must be hashable: {static!r:.80}"
            ) from None

    def _trace(self, leaves: list[Any], treedef: TreeDef, static: dict[Any, Any]) -> _Traced:
        flat = _Flat(self._f, treedef, static)
        specs = [(str(x.dtype), list(x.shape), getattr(x, "weak_type", False)) for x in leaves]
        program = _core.Program(flat, specs, _name(self._f), _where(self._f))
        return _Traced(program, flat.out_tree)

    def _entry(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[_Traced, list[Tensor]]:
        static: dict[Any, Any] = {}
        dynamic: Sequence[Any] = args
        if self._nums or self._names:
            dynamic, kwargs, static = self._split(args, kwargs)
        leaves, treedef = _flatten_arguments(self._f, dynamic, kwargs)
        key = self._signature(leaves, treedef, static)
        try:
            entry = self._entries.get(key)
        except TypeError:
            raise TypeError(
                f"static arguments of {_name(self._f)} must be hashable: {static!r:.80}"
            ) from None
        if entry is None:
            entry = self._entries[key] = self._trace(leaves, treedef, static)
        else:
            self.hits += 1
        return entry, leaves

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        # Positional tensors only, the usual hot call: one key, no containers.
        key = None if kwargs or self._nums or self._names else _core.flat_key(args)
        if key is not None:
            entry = self._flat_entries.get(key)
            if entry is not None:
                self.hits += 1
                out = entry.program(args)
                return out[0] if entry.out_tree is _LEAF else tree_unflatten(entry.out_tree, out)
        entry, leaves = self._entry(args, kwargs)
        if key is not None:
            self._flat_entries[key] = entry
        return tree_unflatten(entry.out_tree, entry.program(leaves))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        bound = self.__dict__.setdefault("_bound", {})
        found = bound.get(id(instance))
        if found is None or found[0] is not instance:
            found = (instance, Jitted(functools.partial(self._f, instance)))
            bound[id(instance)] = found
        return found[1]

    def trace(self, *args: Any, **kwargs: Any) -> _Traced:
        """Traces for these arguments without running."""
        return self._entry(args, kwargs)[0]

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The program for these arguments, ready to compile."""
        return Lowered(self._entry(args, kwargs)[0])

    def clear_cache(self) -> None:
        """Forgets every specialization."""
        self._entries.clear()
        self._flat_entries.clear()

    def __repr__(self) -> str:
        return f"<jit {_name(self._f)}: {len(self._entries)} entries, {self.hits} hits>"


class Lowered:
    """A traced program; `compile()` makes it executable, `as_text()` shows its steps."""

    def __init__(self, traced: _Traced) -> None:
        self._traced = traced
        self.out_tree = traced.out_tree

    def compile(self) -> Lowered:
        self._traced.program.compile()
        return self

    def as_text(self) -> str:
        return _core.cache_steps(self._traced.program.compile())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = [to_tensor(x) for x in tree_leaves((args, kwargs))]
        return tree_unflatten(self.out_tree, self._traced.program(leaves))


def jit(
    f: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> Any:
    """Compiles `f` once per signature and caches it.

    Arrays in nested containers are arguments; `static_argnums` and `static_argnames` mark arguments that choose what
    is computed (hashable). Numbers are arrays too: another learning rate compiles nothing.
    """
    if f is None:
        return lambda g: jit(g, static_argnums=static_argnums, static_argnames=static_argnames)
    if not callable(f):
        raise TypeError(f"jit needs a function, not {type(f).__name__}")
    return Jitted(f, static_argnums, static_argnames)


def _argnums(argnums: int | Sequence[int], args: Sequence[Any], f: Callable[..., Any]) -> tuple[int, ...]:
    nums = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for n in nums:
        if not -len(args) <= n < len(args):
            raise ValueError(
                f"argnums {n} is out of range: {_name(f)} was called with {len(args)} positional arguments"
            )
    return tuple(n % len(args) for n in nums)


def _differentiable(f: Callable[..., Any], args: Sequence[Any], nums: tuple[int, ...]) -> None:
    names = _argument_names(f)
    for n in nums:
        for x, path in zip(tree_leaves(args[n]), tree_paths(args[n])):
            t = to_tensor(x)
            if t.dtype.kind not in "fc":
                name = (names[n] if n < len(names) else f"argument {n}") + path
                raise TypeError(
                    f"grad of {_name(f)} needs float inputs, but {name} is {describe(t)}: "
                    "pass it as an argument that is not differentiated (argnums), or as a float"
                )


def value_and_grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Any:
    """A function giving (f's value, gradients by the arguments in `argnums`).

    `f` returns a scalar float, or (scalar, aux) with `has_aux`. Gradients have the structure of the arguments; one
    for an int `argnums`, a tuple for a sequence.
    """

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        nums = _argnums(argnums, args, f)
        _differentiable(f, args, nums)
        chosen = tuple(args[n] for n in nums)
        leaves, treedef = tree_flatten(chosen)
        aux_tree: list[TreeDef] = []

        def flat(inputs: list[Tensor]) -> list[Tensor]:
            full = list(args)
            for n, value in zip(nums, tree_unflatten(treedef, inputs)):
                full[n] = value
            out = f(*full, **kwargs)
            aux: list[Any] = []
            if has_aux:
                if not isinstance(out, tuple) or len(out) != 2:
                    raise TypeError(f"with has_aux, {_name(f)} must return (value, aux)")
                out, rest = out
                aux, structure = tree_flatten(rest)
                aux_tree.append(structure)
            if out is None:
                raise TypeError(f"{_name(f)} returned None; grad needs a scalar loss (is a return missing?)")
            loss = _result(out, f)
            if loss.shape != () or loss.dtype.kind != "f":
                raise TypeError(
                    f"grad needs a scalar float loss, but {_name(f)} returned {describe(loss)}; "
                    "use .sum() or .mean(), or jacrev for the whole Jacobian"
                )
            return [loss, *(_result(a, f) for a in aux)]

        outputs, pull_back = _core.vjp(flat, [to_tensor(x) for x in leaves])
        one = _one_like(outputs[0])
        grads = pull_back([one, *(_zero_like(a) for a in outputs[1:])])
        result = tree_unflatten(treedef, grads)
        value = (outputs[0], tree_unflatten(aux_tree[0], outputs[1:])) if has_aux else outputs[0]
        return value, (result[0] if isinstance(argnums, int) else result)

    return wrapped


def _filled(x: Tensor, value: float) -> Tensor:
    scalar = _core.elementwise("convert", _core.asarray(value), dtype=str(x.dtype))
    return _core.op("broadcast_in_dim", [scalar], shape=list(x.shape))[0]


def _one_like(x: Tensor) -> Tensor:
    return _filled(x, 1.0)


def _zero_like(x: Tensor) -> Tensor:
    return _filled(x, 0.0)


def grad(f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Any:
    """The gradient function of a scalar function; see `value_and_grad`. With `has_aux`: (gradients, aux)."""
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return wrapped


def vjp(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """(f(*primals), pull_back), where pull_back maps a cotangent of the output to cotangents of the primals."""
    leaves, treedef = _flatten_arguments(f, primals, {})
    flat = _Flat(f, treedef)
    outputs, pull = _core.vjp(flat, leaves)

    def pull_back(cotangent: Any) -> tuple[Any, ...]:
        given, structure = tree_flatten(cotangent)
        if structure != flat.out_tree:
            from lamina.tree import explain_difference

            raise ValueError(
                "the cotangent does not fit the output: "
                + explain_difference(tree_unflatten(flat.out_tree, outputs), cotangent)
            )
        return tree_unflatten(treedef, pull([to_tensor(g) for g in given]))[0]

    return tree_unflatten(flat.out_tree, outputs), pull_back


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """(f(*primals), directional derivative along `tangents`), which have the primals' structure and types."""
    leaves, treedef = _flatten_arguments(f, tuple(primals), {})
    given, structure = _flatten_arguments(f, tuple(tangents), {})
    if structure != treedef:
        from lamina.tree import explain_difference

        raise ValueError(
            "tangents do not fit the primals: " + explain_difference(tuple(primals), tuple(tangents))
        )
    for p, t in zip(leaves, given):
        if p.shape != t.shape:
            raise ValueError(f"a tangent of shape {t.shape} does not fit its primal of shape {p.shape}")
    given = [
        t if t.dtype == p.dtype or p.dtype.kind not in "fc" else t.astype(p.dtype)
        for p, t in zip(leaves, given)
    ]
    flat = _Flat(f, treedef)
    outputs, out_tangents = _core.jvp(flat, leaves, given)
    return tree_unflatten(flat.out_tree, outputs), tree_unflatten(flat.out_tree, out_tangents)


def _axes_of(axes: Any, tree: Any, what: str) -> list[int | None]:
    """One axis per leaf of `tree` from a prefix of its structure."""
    if axes is None or isinstance(axes, int):
        return [axes] * len(tree_leaves(tree))
    if isinstance(axes, (tuple, list)) and isinstance(tree, (tuple, list)):
        if len(axes) != len(tree):
            raise ValueError(f"{what} has {len(axes)} entries for {len(tree)} values")
        return [a for ax, t in zip(axes, tree) for a in _axes_of(ax, t, what)]
    if isinstance(axes, dict) and isinstance(tree, dict):
        return [a for k in sorted(tree) for a in _axes_of(axes.get(k), tree[k], what)]
    raise ValueError(f"{what}={axes!r} does not fit the structure of the values")


def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Any:
    """`f` over a batch axis of its arguments, lane by lane, with the bits of a loop.

    `in_axes`: the axis per argument (None: not batched), a prefix of the arguments' structure; `out_axes` likewise.
    """

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        from lamina import numpy as lnp

        leaves, treedef = _flatten_arguments(f, args, kwargs)
        axes = _axes_of(tuple(in_axes) if isinstance(in_axes, list) else in_axes, args, "in_axes")
        axes += [0] * (len(leaves) - len(axes))  # keyword arguments are batched along axis 0
        sizes = {}
        for i, (x, axis) in enumerate(zip(leaves, axes)):
            if axis is None:
                continue
            path = _argument_path(f, tree_paths((args, kwargs))[i])
            if not -x.ndim <= axis < x.ndim:
                raise ValueError(f"vmap over axis {axis} of {path}, which has shape {x.shape}")
            sizes.setdefault(x.shape[axis], []).append(f"{path} {describe(x)} axis {axis}")
            leaves[i] = lnp.moveaxis(x, axis, 0) if axis % x.ndim else x
        if not sizes:
            raise ValueError(f"vmap of {_name(f)} has nothing to batch over: every in_axes entry is None")
        if len(sizes) > 1:
            odd = sorted(sizes.items(), key=lambda kv: len(kv[1]))
            text = "; ".join(f"size {n}: {', '.join(p)}" for n, p in odd)
            raise ValueError(f"vmap got batch axes of different sizes: {text}")
        flat = _Flat(f, treedef)
        (size,) = sizes
        outputs = _core.vmap(flat, leaves, [a is not None for a in axes], size)
        result = tree_unflatten(flat.out_tree, outputs)
        if out_axes == 0:
            return result
        moved = []
        for x, axis in zip(outputs, _axes_of(out_axes, result, "out_axes")):
            moved.append(x[0] if axis is None else lnp.moveaxis(x, 0, axis))
        return tree_unflatten(flat.out_tree, moved)

    return wrapped


def checkpoint(f: Callable[..., Any]) -> Any:
    """`f` whose intermediate values reverse mode computes again instead of keeping."""

    @functools.wraps(f)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = _flatten_arguments(f, args, kwargs)
        flat = _Flat(f, treedef)
        outputs = _core.checkpoint(flat, leaves)
        return tree_unflatten(flat.out_tree, outputs)

    return wrapped


def jacfwd(f: Callable[..., Any], argnums: int = 0) -> Any:
    """The Jacobian of a function of one array to arrays, column by column: output shape + input shape."""

    @functools.wraps(f)
    def wrapped(*args: Any) -> Any:
        from lamina import numpy as lnp

        x = to_tensor(args[argnums])
        basis = lnp.reshape(lnp.eye(x.size, dtype=x.dtype), (x.size, *x.shape))

        def along(direction: Tensor) -> Any:
            return jvp(lambda y: f(*args[:argnums], y, *args[argnums + 1 :]), (x,), (direction,))[1]

        columns = vmap(along)(basis)
        return tree_map(lambda c: lnp.reshape(lnp.moveaxis(c, 0, -1), (*c.shape[1:], *x.shape)), columns)

    return wrapped


def jacrev(f: Callable[..., Any], argnums: int = 0) -> Any:
    """The Jacobian of a function of one array to one array, row by row: output shape + input shape."""

    @functools.wraps(f)
    def wrapped(*args: Any) -> Any:
        from lamina import numpy as lnp

        x = to_tensor(args[argnums])
        y, pull_back = vjp(lambda z: f(*args[:argnums], z, *args[argnums + 1 :]), x)
        basis = lnp.reshape(lnp.eye(y.size, dtype=y.dtype), (y.size, *y.shape))
        rows = vmap(lambda ct: pull_back(ct)[0])(basis)
        return lnp.reshape(rows, (*y.shape, *x.shape))

    return wrapped


def hessian(f: Callable[..., Any], argnums: int = 0) -> Any:
    """Second derivatives of a scalar function of one array: input shape twice."""
    return jacfwd(grad(f, argnums), argnums)


def eval_shape(f: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Shapes and element types of f's result for arguments given as arrays or ShapeDtype; computes nothing."""
    leaves, treedef = tree_flatten((args, kwargs))
    flat = _Flat(f, treedef)
    specs = []
    for x in leaves:
        t = x if isinstance(x, ShapeDtype) else to_tensor(x)
        specs.append((str(t.dtype), list(t.shape), getattr(t, "weak_type", False)))
    program = _core.Program(flat, specs, _name(f), _where(f))
    return tree_unflatten(flat.out_tree, [ShapeDtype(shape, dtype) for dtype, shape in program.result_types])
