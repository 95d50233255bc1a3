"""Derivatives that users define: custom_jvp, custom_vjp, custom_gradient; functions without what they close over."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _core, _writes, ref
from lamina._core import Tensor
from lamina._functions import need_function
from lamina._later import inspect
from lamina._open import staged
from lamina._shapes import ShapeDtype
from lamina._tensor import describe, to_tensor
from lamina._transforms import _argument_names, _argument_paths, _Flat, _flatten_arguments, _name
from lamina.custom_derivatives import CustomVJPPrimal, SymbolicZero, zero_from_primal
from lamina.tree import (
    TreeDef,
    explain_difference,
    tree_children,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_paths,
    tree_structure,
    tree_unflatten,
)
from lamina.tree_util import Partial


def _zeros_like(x: Tensor) -> Tensor:
    from lamina import numpy as lnp

    return lnp.zeros(x.shape, x.dtype)


def _fitted(t: Any, like: Tensor, what: str) -> Tensor:
    """`t` as a Tensor of the shape and element type of `like`; TypeError for another shape."""
    t = to_tensor(t)
    if t.shape != like.shape:
        raise TypeError(f"{what} is {describe(t)} where {describe(like)} is needed")
    return t if t.dtype == like.dtype else t.astype(like.dtype)


def _widened(t: Tensor) -> Tensor:
    wide = {"f": "float64", "c": "complex128"}.get(t.dtype.kind)
    return _core.recast(t, wide) if wide and t.weak_type else t


def _as_given(x: Sequence[Tensor], weak: Sequence[bool]) -> list[Tensor]:
    """Values handed to a rule, those weak that the call's were: numbers take on the types that they meet."""
    return [_core.set_weak(t, True) if w else t for t, w in zip(x, weak)]


class _Type:
    """A type in the place of an array, for containers to be shown with."""

    def __init__(self, x: Any) -> None:
        self._text = describe(x)

    def __repr__(self) -> str:
        return self._text


def _types(treedef: TreeDef, leaves: Sequence[Any]) -> str:
    return repr(tree_unflatten(treedef, [_Type(x) for x in leaves]))


class _Expected:
    """What a call of the function gave last, which the rule's results are to be like."""

    __slots__ = ("leaves", "treedef")

    def __init__(self) -> None:
        self.leaves: list[ShapeDtype] | None = None

    def set(self, treedef: TreeDef, outputs: Sequence[Tensor]) -> None:
        self.treedef, self.leaves = treedef, [ShapeDtype(x.shape, x.dtype) for x in outputs]

    def difference(self, out: Any) -> str:
        """Where the structure of `out` leaves the function's, in words."""
        like = tree_unflatten(self.treedef, [0.0] * len(self.leaves or ()))
        return explain_difference(like, out, "the function's", "the rule's")

    def check(self, out: Any, results: Sequence[Tensor], what: str) -> None:
        """TypeError where `out`, with the leaves `results`, has other leaves than the function's."""
        if self.leaves is None:
            return
        if len(results) != len(self.leaves):
            raise TypeError(
                f"{what} another structure than the function does, {_types(tree_structure(out), results)} in the place "
                f"of {_types(self.treedef, self.leaves)}: {self.difference(out)}"
            )
        for i, (x, like) in enumerate(zip(results, self.leaves)):
            if x.shape != like.shape or x.dtype != like.dtype:
                path = tree_paths(out)[i]
                raise TypeError(
                    f"{what} {describe(x)} as result{path}, of which the function gives {describe(like)}"
                )


def _is_traced(x: Any) -> bool:
    return isinstance(x, Tensor) and not _core.forceable(x)


class _Custom:
    """What custom_jvp and custom_vjp share: arguments, and one rule per structure and types of them."""

    takes_traced = False  # whether arguments that are not differentiated may be of a traced function

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None:
        need_function(fun, type(self).__name__)
        functools.update_wrapper(self, fun, updated=())
        self.fun = fun
        nums = (nondiff_argnums,) if isinstance(nondiff_argnums, int) else tuple(nondiff_argnums)
        names = (nondiff_argnames,) if isinstance(nondiff_argnames, str) else tuple(nondiff_argnames)
        parameters = _argument_names(fun) if names else []
        for name in names:
            if name not in parameters:
                raise ValueError(
                    f"nondiff_argnames {name!r} is no parameter of {_name(fun)}({', '.join(parameters)})"
                )
        self.nondiff_argnums = (*nums, *(n for n in map(parameters.index, names) if n not in nums))
        self.symbolic_zeros = False
        self._rules: dict[Any, tuple[_core.CustomRule, _Expected, Any]] = {}

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name in ("defjvp", "defjvps", "defvjp", "def_vmap"):  # of a function with several rules
            return getattr(self.fun, name)
        raise AttributeError(f"a {type(self).__name__} function has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {_name(self.fun)}>"

    def _needs_rule(self) -> None:
        raise NotImplementedError

    def _rule(
        self, leaves: list[Tensor], treedef: TreeDef, fixed: dict[int, Any], expected: _Expected
    ) -> _core.CustomRule:
        raise NotImplementedError

    def _with_arguments(self, traced: frozenset[int], fixed: dict[int, Any]) -> _Custom:
        raise NotImplementedError

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        try:
            signature = inspect.signature(self.fun)
        except (TypeError, ValueError):
            signature = None
        if signature is None:
            if kwargs:
                raise TypeError(f"{_name(self.fun)} has no signature to place keyword arguments by")
            return args
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as e:
            raise TypeError(f"the {type(self).__name__} function {_name(self.fun)}: {e}") from None
        bound.apply_defaults()  # arguments that follow one without a value have no place before
        by_name = [name for name in bound.kwargs if name in kwargs]
        if by_name:
            raise TypeError(
                f"{_name(self.fun)} takes keyword-only arguments, which a {type(self).__name__} function cannot: "
                + ", ".join(by_name)
            )
        return bound.args  # keyword-only ones have their defaults

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._needs_rule()
        args = self._positional(args, kwargs)
        if not _core.any_open_scope():
            return self.fun(*args)
        fixed = {n % len(args): args[n] for n in self.nondiff_argnums if -len(args) <= n < len(args)}
        traced = [n for n, v in fixed.items() if any(_is_traced(leaf) for leaf in tree_leaves(v))]
        for n in traced:
            for leaf in tree_leaves(fixed[n]):
                if isinstance(leaf, Tensor) and (not self.takes_traced or _core.differentiated(leaf)):
                    raise TypeError(
                        f"argument {n} of the {type(self).__name__} function {_name(self.fun)} is in nondiff_argnums, "
                        f"but it is {describe(leaf)} of a traced function; make it an ordinary argument, and give "
                        "it a zero (or None) derivative"
                    )
        if traced:
            return self._with_arguments(frozenset(traced), fixed)(*args)
        leaves, treedef = _flatten_arguments(self.fun, [a for i, a in enumerate(args) if i not in fixed], {})
        if any(t.dtype.name in ("float64", "complex128") and not t.weak_type for t in leaves):
            # The rule sees what the function sees: numbers beside 64-bit arrays get their type here.
            leaves = [_widened(t) for t in leaves]
        from lamina import _jit

        rule, expected = self._rule_of_call(args, leaves, treedef, fixed)
        paths = functools.partial(_argument_paths, self.fun, tree_unflatten(treedef, leaves))
        with _jit.deciding(self.fun, leaves, paths) as context:
            flat = _Flat(staged(self.fun), treedef, fixed, opened=context.opened)

            def run(inputs: list[Tensor]) -> list[Tensor]:
                out = flat(inputs)
                expected.set(flat.out_tree, out)
                _writes.refuse(self.fun, inputs, f"the {type(self).__name__} function")
                return out

            outputs = _core.call_with_rule(run, leaves, rule)
        return tree_unflatten(flat.out_tree, outputs)

    def _rule_of_call(
        self, args: tuple[Any, ...], leaves: list[Tensor], treedef: TreeDef, fixed: dict[int, Any]
    ) -> tuple[_core.CustomRule, _Expected]:
        return self._rule_for(leaves, treedef, fixed)

    def _rule_for(
        self, leaves: list[Tensor], treedef: TreeDef, fixed: dict[int, Any]
    ) -> tuple[_core.CustomRule, _Expected]:
        # One rule per structure, types and fixed arguments.
        types = tuple([(x.shape, x.dtype, x.weak_type) for x in leaves])
        try:
            key: Any = (treedef, types, tuple(sorted(fixed.items())))
            hash(key)
        except TypeError:
            key = (treedef, types, tuple((n, id(v)) for n, v in sorted(fixed.items())))
        found = self._rules.get(key)
        if found is None:
            # The fixed arguments are kept, so that an id stays theirs.
            expected = _Expected()
            rule = self._rule(leaves, treedef, fixed, expected)
            found = self._rules[key] = (rule, expected, fixed)
        return found[:2]

    def _with_fixed(self, fixed: dict[int, Any], values: Sequence[Any]) -> list[Any]:
        full = list(values)
        for n in sorted(fixed):
            full.insert(n, fixed[n])
        return full


class custom_jvp(_Custom):
    """A function with a forward derivative of its own; reverse mode is made from it.

    ``nondiff_argnums`` marks arguments that are not differentiated; they come first in the rule. Arrays among them may
    be arguments of a jitted or mapped function.

    Example::

        @lm.custom_jvp
        def f(x, y):
            return lnp.sin(x) * y

        @f.defjvp
        def f_jvp(primals, tangents):
            x, y = primals
            x_dot, y_dot = tangents
            return f(x, y), lnp.cos(x) * x_dot * y + lnp.sin(x) * y_dot

    Raises AttributeError when called before `defjvp`, TypeError or ValueError if the rule's outputs do not fit.
    """

    jvp: Callable[..., Any] | None = None
    takes_traced = True

    def __init__(
        self,
        fun: Callable[..., Any],
        nondiff_argnums: int | Sequence[int] = (),
        nondiff_argnames: str | Sequence[str] = (),
    ) -> None:
        super().__init__(fun, nondiff_argnums, nondiff_argnames)
        self._with_more: dict[Any, custom_jvp] = {}

    def defjvp(self, jvp: Callable[..., Any], symbolic_zeros: bool = False) -> Callable[..., Any]:
        """Sets the rule: ``jvp(*nondiff, primals, tangents) -> (primals_out, tangents_out)``; returns it.

        With `symbolic_zeros`, the tangents of arguments that are not differentiated, and of integers, are SymbolicZero
        (`lamina.custom_derivatives`), and the rule may return it; otherwise they are arrays of zeros.
        """
        self.jvp, self.symbolic_zeros = jvp, symbolic_zeros
        self._rules.clear()
        self._with_more.clear()
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Sets the rule from one function per argument, ``jvp_i(t_i, primal_out, *primals)``; None: no dependence.

        Raises TypeError with nondiff_argnums, which need `defjvp`.
        """
        if self.nondiff_argnums:
            raise TypeError("defjvps cannot be used with nondiff_argnums; use defjvp")

        def jvp(primals: tuple[Any, ...], tangents: tuple[Any, ...]) -> tuple[Any, Any]:
            out = self(*primals)
            parts = [j(t, out, *primals) for j, t in zip(jvps, tangents) if j is not None]
            leaves, treedef = tree_flatten(out)
            totals: list[Any] = [_zeros_like(to_tensor(x)) for x in leaves]
            for part in parts:
                totals = [a + b for a, b in zip(totals, tree_leaves(part))]
            return out, tree_unflatten(treedef, totals)

        self.defjvp(jvp)

    def _needs_rule(self) -> None:
        if self.jvp is None:
            raise AttributeError(
                f"no derivative is defined for the custom_jvp function {_name(self.fun)}: use defjvp"
            )

    def _with_arguments(self, traced: frozenset[int], fixed: dict[int, Any]) -> _Custom:
        """The same function, of which those of the arguments `fixed` that are `traced` are ordinary ones."""
        numbers = tuple(sorted(fixed))
        found = self._with_more.get((traced, numbers))
        if found is not None:
            return found
        jvp = self.jvp

        def rule(*given: Any) -> Any:
            kept, (primals, tangents) = iter(given[:-2]), given[-2:]
            count = len(given) - 2 + len(primals)
            places = [n for n in range(count) if n in traced or n not in numbers]
            among = dict(zip(places, primals, strict=True))
            nondiff = [among[n] if n in traced else next(kept) for n in numbers]
            own = [i for i, n in enumerate(places) if n not in traced]
            return staged(jvp)(*nondiff, tuple(primals[i] for i in own), tuple(tangents[i] for i in own))

        made = custom_jvp(self.fun, tuple(n for n in numbers if n not in traced))
        made.defjvp(rule, self.symbolic_zeros)
        self._with_more[traced, numbers] = made
        return made

    def _rule(
        self, leaves: list[Tensor], treedef: TreeDef, fixed: dict[int, Any], expected: _Expected
    ) -> _core.CustomRule:
        jvp, name, nondiff = self.jvp, _name(self.fun), [fixed[n] for n in sorted(fixed)]
        symbolic, own = self.symbolic_zeros, _name(self.jvp)
        weak = [x.weak_type for x in leaves]

        def rule(x: list[Tensor], t: list[Any]) -> tuple[list[Tensor], list[Any]]:
            x = _as_given(x, weak)
            tangents = [zero_from_primal(p, symbolic) if d is None else d for p, d in zip(x, t)]
            out = staged(jvp)(*nondiff, tree_unflatten(treedef, x)[0], tree_unflatten(treedef, tangents)[0])
            _writes.refuse(jvp, [*x, *(d for d in t if d is not None)], "the jvp rule")
            if not isinstance(out, (tuple, list)) or len(out) != 2:
                raise TypeError(
                    f"the jvp rule {own} of {name} must return (primals_out, tangents_out), not {out!s:.60}"
                )
            primals, structure = tree_flatten(out[0])
            dots, dot_structure = tree_flatten(out[1])
            if structure != dot_structure:
                raise TypeError(
                    f"the jvp rule {own} of {name} returned tangents of another structure than its results, "
                    f"{dot_structure} in the place of {structure}: " + explain_difference(out[0], out[1])
                )
            results = [to_tensor(p) for p in primals]
            expected.check(out[0], results, f"the jvp rule {own} of {name} returns")
            return results, [
                _fitted(d, p, f"a tangent from the jvp rule {own} of {name}")
                if p.dtype.kind in "fc" and not isinstance(d, SymbolicZero)
                else None
                for p, d in zip(results, dots)
            ]

        return _core.CustomRule(True, len(leaves), rule, None, None, symbolic)


def _parts(indices: Any, cotangent: Any, what: str) -> list[tuple[int, Any]]:
    """The parts of a cotangent by the numbers of the leaves.

    In the place of any part of it, None is zero, and an array is that of every leaf there, as in JAX.
    """
    out, stack = [], [(indices, cotangent)]
    while stack:
        wanted, given = stack.pop()
        if given is None:
            continue
        mine, its = tree_children(wanted), tree_children(given)
        if its is None and mine is not None:  # one cotangent for all leaves
            out.extend((leaf, given) for leaf in tree_leaves(wanted))
            continue
        if (mine is None) != (its is None) or (mine and its and len(mine[0]) != len(its[0])):
            raise TypeError(
                f"{what} another structure than the argument's: {explain_difference(indices, cotangent)}"
            )
        if mine and its:
            stack.extend(zip(mine[0], its[0]))
        else:
            out.append((wanted, given))
    return out


class _Pass:
    """What the backward rule has to know of a forward pass besides arrays."""

    __slots__ = ("callers", "kinds", "plain", "trees", "weak")

    def __init__(
        self,
        trees: tuple[TreeDef, TreeDef],
        kinds: list[tuple[tuple[int, ...], Any]],
        weak: list[bool],
        plain: dict[int, type],
        callers: dict[int, ref.Ref | None],
    ) -> None:
        self.trees = trees  # of the results and the residuals
        self.kinds = kinds  # of the results
        self.weak = weak  # which residuals are
        self.plain = plain  # residuals that are bools or integers of Python, which rules branch on
        self.callers = callers  # whose the residuals that are references are, by number

    def is_like(self, other: _Pass) -> bool:
        return (
            self.plain == other.plain
            and self.kinds == other.kinds
            and self.weak == other.weak
            and {i: id(r) for i, r in self.callers.items()} == {i: id(r) for i, r in other.callers.items()}
            and self.trees == other.trees
        )


class custom_vjp(_Custom):
    """A function with a reverse derivative of its own.

    ``nondiff_argnums`` marks arguments that are not differentiated: `fwd` takes all arguments in their order, `bwd`
    takes these first.

    Example::

        @lm.custom_vjp
        def clip_gradient(lo, hi, x):
            return x

        clip_gradient.defvjp(
            lambda lo, hi, x: (x, (lo, hi)),
            lambda res, g: (None, None, lnp.clip(g, res[0], res[1])),
        )

    Raises AttributeError when called before `defvjp`, TypeError or ValueError if the rule's outputs do not fit.
    """

    fwd: Callable[..., Any] | None = None
    bwd: Callable[..., Any] | None = None

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Sets ``fwd(*args) -> (out, residuals)`` and ``bwd(*nondiff, residuals, cotangent) -> cotangents``.

        `bwd` returns one cotangent per differentiated argument, with that argument's structure or a prefix of it; None
        is zero. With `symbolic_zeros`, `fwd` gets arguments as CustomVJPPrimal (`lamina.custom_derivatives`), which say
        whether they are differentiated, and `bwd` gets SymbolicZero as the cotangents of results that do not matter,
        and of integers.
        References among the arguments may be residuals, and `bwd` write to them, in the order of the backward pass: the
        caller's get it. TypeError where the function was called by a loop, a mapped function, or a jitted one that the
        derivative is of.
        `optimize_remat` changes nothing: residuals that are not used are not kept.
        """
        self.fwd, self.bwd, self.symbolic_zeros = fwd, bwd, symbolic_zeros
        self._rules.clear()

    def _rule_of_call(
        self, args: tuple[Any, ...], leaves: list[Tensor], treedef: TreeDef, fixed: dict[int, Any]
    ) -> tuple[_core.CustomRule, _Expected]:
        """Of a call with references among its arguments, a rule of its own."""
        if ref.living():
            given = tree_leaves([a for i, a in enumerate(args) if i not in fixed], is_leaf=ref.is_ref)
            references = {i: x for i, x in enumerate(given) if ref.is_ref(x)}
            if references:
                expected = _Expected()
                return self._rule(leaves, treedef, fixed, expected, references), expected
        return self._rule_for(leaves, treedef, fixed)

    def _needs_rule(self) -> None:
        if self.fwd is None or self.bwd is None:
            raise AttributeError(
                f"no derivative is defined for the custom_vjp function {_name(self.fun)}: use defvjp"
            )

    def _rule(
        self,
        leaves: list[Tensor],
        treedef: TreeDef,
        fixed: dict[int, Any],
        expected: _Expected,
        references: dict[int, ref.Ref] | None = None,
    ) -> _core.CustomRule:
        fwd, bwd, name = self.fwd, self.bwd, _name(self.fun)
        forward_rule, backward_rule = (
            f"the {way} rule {_name(f)} of {name}" for way, f in (("forward", fwd), ("backward", bwd))
        )
        nondiff, symbolic = [fixed[n] for n in sorted(fixed)], self.symbolic_zeros
        traces = _core.open_traces() if references else []
        mapped = any(lanes for _, lanes in traces)
        shapes, weak = [(x.shape, x.dtype) for x in leaves], [x.weak_type for x in leaves]
        first: list[
            _Pass
        ] = []  # most rules have passes of one kind: what is unlike the first goes with its arrays

        def forward(
            x: list[Tensor], perturbed: list[bool]
        ) -> tuple[list[Tensor], list[Tensor], _Pass | None]:
            x = _as_given(x, weak)
            given = [CustomVJPPrimal(t, p) for t, p in zip(x, perturbed)] if symbolic else x
            out = staged(fwd)(*self._with_fixed(fixed, tree_unflatten(treedef, given)[0]))
            _writes.refuse(fwd, x, "the forward rule")
            if not isinstance(out, (tuple, list)) or len(out) != 2:
                raise TypeError(f"{forward_rule} must return (out, residuals), not {out!s:.60}")
            results, out_tree = tree_flatten(out[0])
            residuals, residual_tree = tree_flatten(out[1])
            callers: dict[int, ref.Ref | None] = {}
            if references:
                marked, residual_tree = tree_flatten(
                    out[1], is_leaf=ref.is_ref
                )  # each reference has one leaf
                of = {id(x[i]): r for i, r in references.items()}
                callers = {i: of.get(id(r._held)) for i, r in enumerate(marked) if ref.is_ref(r)}
            plain = {i: type(r) for i, r in enumerate(residuals) if type(r) in (bool, int)}
            tensors = [to_tensor(r) for r in results]
            expected.check(out[0], tensors, f"{forward_rule} returns")
            kept = [to_tensor(r) for r in residuals]
            made = _Pass(
                (out_tree, residual_tree),
                [(r.shape, r.dtype) for r in tensors],
                [r.weak_type for r in kept],
                plain,
                callers,
            )
            if not first:
                first.append(made)
            usual = made.is_like(first[0])
            return tensors, kept, None if usual else made

        def backward(of: _Pass | None, residuals: list[Tensor], cotangents: list[Any]) -> list[Any]:
            done = of or first[0]
            plain, callers = done.plain, done.callers
            residuals = _as_given(residuals, done.weak)
            if symbolic:
                cotangents = [SymbolicZero(*k) if c is None else c for c, k in zip(cotangents, done.kinds)]
            kept = [
                plain[i](x.item()) if i in plain and _core.forceable(x) else x
                for i, x in enumerate(residuals)
            ]
            # In a trace that has ended since, and per lane, they are copies, which may not be written to.
            reached = bool(callers) and not mapped and set(traces) <= set(_core.open_traces())
            for i, r in callers.items():
                kept[i] = r if r is not None and reached else ref.Ref(kept[i])
            before = [(r, r[...]) for r in callers.values() if r is not None and reached and not traces]
            given = staged(bwd)(
                *nondiff, tree_unflatten(done.trees[1], kept), tree_unflatten(done.trees[0], cotangents)
            )
            _writes.refuse(
                bwd, [*residuals, *(c for c in cotangents if isinstance(c, Tensor))], "the backward rule"
            )
            for r, value in before:
                if not _core.forceable(r._held):  # of a part that is computed again
                    r[...] = value
                    raise TypeError(
                        f"{backward_rule} writes to a reference inside of lamina.checkpoint, where nobody would see it: "
                        "call the function outside of the checkpointed one"
                    )
            wanted = tree_unflatten(treedef, list(range(len(shapes))))[0]
            if not isinstance(given, (tuple, list)) or len(given) != len(wanted):
                count = len(given) if isinstance(given, (tuple, list)) else type(given).__name__
                raise TypeError(
                    f"{backward_rule} must return a tuple of {len(wanted)} cotangents, one per "
                    f"differentiated argument, not {count}"
                )
            out: list[Any] = [None] * len(shapes)
            for argument, (indices, cotangent) in enumerate(zip(wanted, given)):
                for i, part in _parts(
                    indices, cotangent, f"{backward_rule} returned for argument {argument}"
                ):
                    shape, dtype = shapes[i]
                    if dtype.kind not in "fc":
                        continue
                    t = part if isinstance(part, SymbolicZero) else to_tensor(part)
                    if t.shape != shape:
                        raise ValueError(
                            f"{backward_rule} returned for argument {argument} a cotangent of type "
                            f"{describe(t)}; the argument is {describe(ShapeDtype(shape, dtype))}"
                        )
                    if isinstance(t, SymbolicZero):
                        continue
                    out[i] = t if t.dtype == dtype else t.astype(dtype)
            return out

        return _core.CustomRule(False, len(leaves), forward, backward, None, symbolic)


def closure_convert(fun: Callable[..., Any], *example_args: Any) -> tuple[Callable[..., Any], list[Tensor]]:
    """(converted, arrays) with fun(*args) = converted(*args, *arrays), where the arrays are those that `fun` uses from
    outside and that a derivative may be taken by: of real or complex elements, differentiated or of a traced function.

    So a custom rule can take derivatives by them. `fun` is traced once, on arguments like `example_args`.

    >>> converted, arrays = lm.closure_convert(lambda x: w * x, 1.0)
    """
    return _converted(fun, example_args, lambda t: t.dtype.kind in "fc" and _depends(t))


def _depends(x: Tensor) -> bool:
    return _is_traced(x) or _core.differentiated(x)


def _converted(
    fun: Callable[..., Any], example_args: tuple[Any, ...], taken: Callable[[Tensor], bool]
) -> tuple[Callable[..., Any], list[Tensor]]:
    """As `closure_convert`, of those arrays from outside that are `taken`."""
    from lamina.lax._control import _flat

    leaves, treedef = tree_flatten(example_args)
    like = [_core.set_weak(to_tensor(x), False) for x in leaves]
    results: list[TreeDef] = []

    def leaves_of(result: Any) -> list[Any]:
        found, structure = tree_flatten(result)
        results[:] = [structure]
        return found

    body = _core.region(
        _flat(fun, lambda p: tree_unflatten(treedef, p), leaves_of),
        [(str(t.dtype), list(t.shape), t.weak_type) for t in like],
        carriers=True,
    )
    from_outside: list[Tensor] = body.captured
    marks = [taken(t) for t in from_outside]
    count = sum(marks)

    def converted(*args: Any) -> Any:
        own, arrays = args[: len(args) - count], iter(args[len(args) - count :])
        given, structure = tree_flatten(own)
        if structure != treedef:
            raise TypeError(
                f"{_name(fun)} was converted for other arguments: " + explain_difference(example_args, own)
            )
        fitted = [to_tensor(x, t.dtype) for x, t in zip(given, like, strict=True)]
        for x, t in zip(fitted, like, strict=True):
            if x.shape != t.shape:
                raise TypeError(
                    f"{_name(fun)} was converted for an argument of shape {t.shape}, not {describe(x)}"
                )
        captured = [to_tensor(next(arrays)) if m else x for m, x in zip(marks, from_outside)]
        return tree_unflatten(results[0], _core.call_region(body, [*fitted, *captured]))

    return converted, [x for m, x in zip(marks, from_outside) if m]


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function with a reverse derivative of its own, from one that returns (value, rule).

    ``rule(cotangent)`` gives the cotangent of the argument, or a tuple of them for several.

    >>> @lm.custom_gradient
    ... def clipped(x):
    ...     return x, lambda g: lnp.clip(g, -1, 1)
    """

    @functools.wraps(fun)
    def value(*args: Any) -> Any:
        return fun(*args)[0]

    def forward(*args: Any) -> Any:
        out, rule = fun(*args)
        # Nothing depends on integers: they have no cotangent.
        like = tree_map(lambda x: x if to_tensor(x).dtype.kind in "fc" else None, out)
        converted, arrays = _converted(rule, (like,), lambda t: True)
        return out, Partial(lambda kept, cotangent: converted(cotangent, *kept), arrays)

    def backward(rule: Any, cotangent: Any) -> Any:
        found = rule(cotangent)
        return found if isinstance(found, tuple) else (found,)

    made = custom_vjp(value)
    made.defvjp(forward, backward)
    return made
