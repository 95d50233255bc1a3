"""jit: functions traced once per signature, free variables and branch outcomes, and compiled.

An entry of a jitted function belongs to a signature: structure, shapes and element types of the arguments, and static
values. Under it are variants, one per set of free variables that nothing else fits; and under a variant a tree of
branches, with one trace per path that the function took on values of its arguments.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lamina import _checks, _core, _leaks, ref
from lamina._core import Tensor
from lamina._functions import need_function
from lamina._later import inspect
from lamina._marked import places
from lamina._open import entered, innermost
from lamina._read_set import ReadSet
from lamina._shapes import ShapeDtype, is_shape_only, shaped
from lamina._source import expression_at, line_of, named, user_frame
from lamina._stages import Lowered, Traced
from lamina._tensor import describe
from lamina._transforms import _argument_paths, _Flat, _flatten_arguments, _name
from lamina.tree import TreeDef, tree_flatten, tree_leaves, tree_unflatten

_LEAF = tree_flatten(0)[1]
# Caps: decisions along one path, traced paths per variant, variants per signature, signatures per function.
MAX_DECISIONS, MAX_PATHS, MAX_VARIANTS, MAX_ENTRIES = 128, 64, 16, 4096
# Decisions at one place of the source along one path that make it a loop, which is converted if it can be.
MAX_ROUNDS = 32


class _Loops(BaseException):
    """A path decides so often at one place that its loops are to be converted; not for the user's `except`."""


class _Inside(_Loops):
    """A function that is called inside a converted one branches on what only the outer program will know."""


class _Trace:
    """One path of one variant, with its program."""

    __slots__ = ("out_text", "out_tree", "program")

    def __init__(self, program: Any, flat: _Flat) -> None:
        self.program, self.out_text = program, flat.out_text
        self.out_tree = _LEAF if flat.out_tree == _LEAF and not flat.out_text else flat.out_tree

    def result(self, out: list[Tensor]) -> Any:
        if self.out_tree is _LEAF:
            return out[0]
        for i, text in self.out_text:
            out.insert(i, text)
        built = _core.tree_build(self.out_tree.nodes, out)
        return tree_unflatten(self.out_tree, out) if built is None else built


class _WritingTrace(_Trace):
    """One whose function writes to its arguments, or to references: the new values are its last results."""

    __slots__ = ("flat",)

    def __init__(self, program: Any, flat: _Flat) -> None:
        super().__init__(program, flat)
        self.flat = flat
        flat.static = {}  # a method's object among them is not to be kept alive

    def result(self, out: list[Tensor]) -> Any:
        return super().result(out[: len(out) - self.flat.further])


class _Branch:
    """A value of the arguments that the function branched on, and where each outcome led."""

    __slots__ = ("children", "program", "text")

    def __init__(self, program: Any, text: str) -> None:
        self.program, self.text = program, text  # the condition, and its line
        self.children: dict[bool, _Branch | _Trace] = {}


class _Variant:
    __slots__ = ("donated", "paths", "reads", "root", "served")

    def __init__(self, reads: ReadSet, donated: tuple[int, ...] | None) -> None:
        self.reads, self.paths = reads, 0
        self.donated = donated  # numbers of leaves of the arguments; None: not known yet
        self.root: _Branch | _Trace | None = None
        self.served: Any = None  # the only trace as a _core.ReadyTrace, once it is known that it serves calls

    def settled(self) -> None:
        """Serves later calls without Python code, where one trace without writes to arguments takes them all."""
        node = self.root
        if (
            self.served is None
            and type(node) is _Trace
            and self.donated is not None
            and node.out_tree is not None
        ):
            with contextlib.suppress(ValueError):  # a result of an unusual structure
                self.served = _core.ReadyTrace(
                    node.program, node.out_tree.nodes, node.out_text, self.reads.guards, self.donated
                )


class _Tracing(threading.local):
    """The jit traces open on a thread, innermost last; and whether functions are called as they are instead."""

    def __init__(self) -> None:
        self.open: list[_Context] = []
        self.disabled = False


class _Context:
    """A trace in progress: what is needed to decide a branch from the arguments' values."""

    def __init__(
        self,
        f: Callable[..., Any],
        variant: _Variant | None,
        arguments: list[Any],
        outcomes: Sequence[bool] = (),
        paths: Callable[[], Sequence[str]] = list,
        strict: bool = False,
        convert: bool = False,
        rounds: int = MAX_DECISIONS,
    ) -> None:
        # Without a variant the trace serves one call only, and its decisions need no guard.
        self.name, self.variant, self.arguments, self._paths = _name(f), variant, arguments, paths
        self.kind = "jitted function" if variant is not None else "function"
        self.strict, self.convert = strict, convert
        self.known = list(outcomes)  # decisions made when the call looked for its path
        self.made: list[tuple[_Branch, bool]] = []
        self.reasons: list[str] = []
        self.rounds, self.places = rounds, collections.Counter[tuple[str, int]]()
        self.depth, self.floor = _core.scope_depth(), _core.record_floor()
        self.inputs: list[Tensor] = []
        self.stamp = 0

    @property
    def paths(self) -> Sequence[str]:
        """The arguments as the user wrote them, which only decisions ask for."""
        return self._paths()

    def opened(self, inputs: list[Tensor]) -> None:
        self.inputs, self.stamp = inputs, _core.innermost_stamp()


tracing = _Tracing()
_alive: weakref.WeakSet[Jitted] = weakref.WeakSet()

REMEDIES = (
    "  Remedies: lamina.numpy.where(condition, a, b) for values; lamina.lax.cond or lamina.lax.while_loop for "
    "code; or {last}."
)


def decide(x: Tensor) -> bool:
    """The truth of a traced scalar: by branch specialization inside jit, TypeError elsewhere."""
    frame = user_frame()
    condition = expression_at(frame) if frame else ""
    shown = f"`{condition}`" if condition else f"the condition {describe(x)}"
    at = f"\n  {frame.f_code.co_filename}:{frame.f_lineno}: {condition}" if frame else ""
    if not tracing.open:
        raise TypeError(
            f"{shown} has no single truth value here: {describe(x)} depends on an argument of a vmap or of a traced "
            f"loop body{at}\n" + REMEDIES.format(last="move the test outside the function")
        )
    context = tracing.open[-1]
    names = [p for p, used in zip(context.paths, _core.depends_on(x, context.inputs)) if used]
    on = " and ".join(names[:3]) or "an argument"
    f, kind = context.name, context.kind
    if context.convert:
        from lamina._convert.errors import not_converted

        raise not_converted(shown, on, f, at, frame)
    if context.strict:
        raise TypeError(
            f"{shown}{f' ({describe(x)})' * bool(condition)} depends on {on} of the {kind} {f}, and branches are not "
            f'specialized (branches="error"){at}\n'
            + REMEDIES.format(last='jit(..., branches="specialize"), one trace per path taken')
        )
    step = len(context.made)
    if step >= MAX_DECISIONS:
        raise TypeError(
            f"{shown} is the {step + 1}th branch on a value of {on} in one call of the {kind} {f}; at most "
            f"{MAX_DECISIONS} are specialized{at}\n" + REMEDIES.format(last="move the loop outside jit")
        )
    if frame is not None:
        context.places[frame.f_code.co_filename, frame.f_lineno] += 1
        if context.places[frame.f_code.co_filename, frame.f_lineno] > context.rounds:
            raise _Loops
    if context.variant is not None and step < len(context.known):
        branch = context.made[-1][0].children[context.made[-1][1]] if context.made else context.variant.root
        outcome = context.known[step]
    else:
        where = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
        program = _core.close_program(
            [x], context.inputs, context.stamp, f, where, f"decides {condition or 'a branch'}"
        )
        if program is None:
            raise TypeError(
                f"{shown} has no single truth value here: {describe(x)} depends on an argument of a vmap or of a "
                f"traced loop body inside the {kind} {f}{at}\n"
                + REMEDIES.format(last="move the test outside the function")
            )
        if any(not isinstance(a, Tensor) for a in context.arguments):
            raise TypeError(
                f"{shown} depends on {on} of {f}, which is being traced for shapes only: a branch needs values{at}\n"
                + REMEDIES.format(last="trace it with arrays")
            )
        branch = _Branch(program, f"`{condition or 'a branch'}`" + (f" at {where}" if where else ""))
        if context.variant is not None:
            context.variant.reads.bind(program)
            _attach(context.variant, context.made, branch)
        outcome = _outcome(context, branch)
        context.known.append(outcome)
    context.made.append((branch, outcome))
    context.reasons.append(f"{condition or 'branch'} is {outcome}")
    return outcome


def _answer(branch: _Branch, arguments: Sequence[Any], hidden: tuple[Tensor, ...]) -> bool:
    holds = branch.program(arguments, hidden)[0]
    if tracing.open and tracing.open[-1].convert and not _core.forceable(holds):
        raise _Inside
    return bool(holds)


def _outcome(context: _Context, branch: _Branch) -> bool:
    popped = tracing.open.pop()
    hidden = context.variant.reads.tensors if context.variant is not None else ()
    try:
        return _core.outside_scopes(
            context.depth, context.floor, lambda: _answer(branch, context.arguments, hidden)
        )
    finally:
        tracing.open.append(popped)


@contextlib.contextmanager
def deciding(
    f: Callable[..., Any], arguments: list[Any], paths: Callable[[], Sequence[str]]
) -> Iterator[_Context]:
    """Lets `f`, traced for one call with these arguments, branch on their values."""
    context = _Context(f, None, arguments, paths=paths)
    tracing.open.append(context)
    try:
        yield context
    finally:
        tracing.open.pop()


def _hidden(variant: _Variant) -> tuple[Tensor, ...]:
    """The hidden arguments of a call; inside another trace, that function's."""
    outer = innermost()
    return variant.reads.tensors if outer is None else outer.adopt(variant.reads)


def _attach(variant: _Variant, made: list[tuple[_Branch, bool]], node: _Branch | _Trace) -> None:
    if made:
        made[-1][0].children[made[-1][1]] = node
    else:
        variant.root = node


class _Self:
    """The object that a jitted method is called on: a static argument by identity, not kept alive."""

    __slots__ = ("_deaths", "_hash", "ref")

    def __init__(self, instance: Any) -> None:
        try:
            self.ref: Callable[[], Any] = weakref.ref(instance)
        except TypeError:
            self.ref = lambda: instance
        self._hash = id(instance)
        self._deaths: list[Any] = []

    def on_death(self, f: Callable[[Any], Any]) -> None:
        with contextlib.suppress(TypeError):
            self._deaths.append(weakref.ref(self.ref(), f))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Self) and self.ref() is not None and self.ref() is other.ref()


class _Static:
    """A static argument as part of a key: 1, 1.0 and True are three."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Static):
            return False
        try:
            return _core.same_static(self.value, other.value)
        except Exception as e:
            raise ValueError(
                f"static arguments are compared by ==, which {type(self.value).__name__} raises {type(e).__name__} for: "
                "give it an __eq__ that tells equal ones, or none"
            ) from e


class Jitted(_core.JitCalls):
    """A function compiled once per signature: structure, shapes and element types of its arguments, static values."""

    def __init__(
        self,
        f: Callable[..., Any],
        static_argnums: Any = None,
        static_argnames: Any = None,
        donate_argnums: Any = None,
        donate_argnames: Any = None,
        branches: str = "specialize",
        control_flow: str = "trace",
    ) -> None:
        functools.update_wrapper(self, f)
        for name in self.__dict__.keys() & _METHODS:  # attributes of a callable object, which may be named so
            del self.__dict__[name]
        self._f = f
        self._nums, self._names = places(f, static_argnums, static_argnames, "static")
        self._donated, self._donated_names = places(f, donate_argnums, donate_argnames, "donate")
        if self._nums & self._donated:
            raise ValueError(f"a static argument of {_name(f)} cannot be donated: it is not an array")
        if branches not in ("specialize", "error"):
            raise ValueError(f"branches is 'specialize' or 'error', not {branches!r}")
        if control_flow not in ("trace", "convert"):
            raise ValueError(f"control_flow is 'trace' or 'convert', not {control_flow!r}")
        self._branches, self._convert = branches, control_flow == "convert"
        self._rounds = MAX_ROUNDS
        # As they count in the arguments of a call, and in those of a method besides its object.
        self._static = frozenset((*self._nums, *self._names))
        self._static_on = frozenset((*(n - 1 for n in self._nums), *self._names))
        self._gives_up = bool(self._donated or self._donated_names)
        self._entries: dict[Any, list[_Variant]] = {}
        self._instances: dict[int, _Self] = {}
        _alive.add(self)

    def converted(self) -> Any:
        """The function, if it is traced in the same way wherever it is called: converted, all its arguments arrays."""
        return self._f if self._convert and not self._static and not self._gives_up else None

    # --- finding the trace of a call ---

    def _split(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any], dict[Any, Any]]:
        static: dict[Any, Any] = {}
        dynamic = []
        for i, a in enumerate(args):
            if i in self._nums or type(a) is _Self:
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

    def _variants(
        self, leaves: list[Any], treedef: TreeDef, static: dict[Any, Any], index: str
    ) -> list[_Variant]:
        """The variants of a signature, traced with checks of indices or without (`index`: _checks.index_mode())."""
        types = tuple([(x.shape, x.dtype, getattr(x, "weak_type", False)) for x in leaves])
        fixed = tuple([(k, _Static(static[k])) for k in sorted(static, key=str)]) if static else None
        key = (treedef, types, fixed, _core.recording_mode(), index)
        try:
            found = self._entries.get(key)
        except TypeError:
            raise ValueError(
                f"static arguments of {_name(self._f)} must be hashable: {static!r:.80}"
            ) from None
        if found is None:
            while len(self._entries) >= MAX_ENTRIES and key not in self._entries:
                # A list first: an instance that dies takes its entries out at any time.
                self._entries.pop(next(iter(list(self._entries)), None), None)
                self._forget_calls()
            found = self._entries.setdefault(key, [])
            for value in static.values():
                if type(value) is _Self:
                    value.on_death(lambda _: self._entries.pop(key, None))
        return found

    def _arguments(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], shapes: bool = False
    ) -> tuple[list[Any], TreeDef, dict[Any, Any]]:
        static: dict[Any, Any] = {}
        dynamic: Sequence[Any] = args
        if self._nums or self._names or (args and type(args[0]) is _Self):
            dynamic, kwargs, static = self._split(args, kwargs)
        if shapes:
            given, treedef = tree_flatten((tuple(dynamic), kwargs))
            if any(map(is_shape_only, given)):
                return [shaped(x) for x in given], treedef, static
        leaves, treedef = _flatten_arguments(self._f, dynamic, kwargs)
        return leaves, treedef, static

    def _variant(self, variants: list[_Variant]) -> _Variant:
        """The variant whose reads are as they are now, first in the list; a new one, not in it yet, if there is none."""
        for i, v in enumerate(list(variants)):
            if v.reads.holds() or v.reads.refresh():
                if i:
                    variants[:] = [v, *(other for other in variants if other is not v)]
                return v
        return _Variant(ReadSet(), None if self._gives_up else ())

    @staticmethod
    def _keep(variants: list[_Variant], variant: _Variant) -> None:
        """Puts a variant that has been traced where calls find it."""
        if variant not in variants:
            variants[:] = [variant, *variants[: MAX_VARIANTS - 1]]

    @staticmethod
    def _reached(variant: _Variant, leaves: Sequence[Any]) -> tuple[_Trace | None, list[bool]]:
        """The trace that these arguments lead to, if there is one yet, and the outcomes on the way."""
        node, outcomes = variant.root, []
        while type(node) is _Branch:
            outcome = _answer(node, leaves, _hidden(variant))
            outcomes.append(outcome)
            node = node.children.get(outcome)
        return node, outcomes

    def _path(self, variant: _Variant, leaves: list[Any], treedef: TreeDef, static: dict[Any, Any]) -> _Trace:
        """The trace for the outcomes that these arguments lead to."""
        try:
            node, outcomes = self._reached(variant, leaves)
        except _Inside:
            node, outcomes = None, []
        if node is not None:
            self.hits += 1
            if _checks.is_open():
                _checks.report(_name(self._f), variant.reads.unseen.values())
            return node
        _checks.may_trace(_name(self._f), leaves, [k[1] for k, v in list(self._entries.items()) if v])
        with _leaks.looking(f"the jitted function {_name(self._f)}"):
            return self._trace(variant, leaves, treedef, static, outcomes)

    def _trace(
        self,
        variant: _Variant,
        leaves: list[Any],
        treedef: TreeDef,
        static: dict[Any, Any],
        outcomes: list[bool],
    ) -> _Trace:
        if variant.paths >= MAX_PATHS:
            raise TypeError(
                f"the jitted function {_name(self._f)} took {MAX_PATHS} different paths through its branches on "
                "argument values for one signature; no more are specialized\n"
                + REMEDIES.format(last="move the branches outside jit")
            )
        if self._convert:
            return self._traced(variant, leaves, treedef, static, outcomes, True)
        try:
            return self._traced(variant, leaves, treedef, static, outcomes, False)
        except _Loops as reason:
            inside = type(reason) is _Inside
        try:
            trace = self._traced(variant, leaves, treedef, static, [], True)
        except Exception:
            if inside:
                raise
            # What is not to be converted, or has no derivative as a loop; an error of the user comes again.
            self._rounds = MAX_DECISIONS
            return self._traced(variant, leaves, treedef, static, outcomes, False)
        variant.root, variant.paths = trace, 1  # which serves all paths
        return trace

    def _traced(
        self,
        variant: _Variant,
        leaves: list[Any],
        treedef: TreeDef,
        static: dict[Any, Any],
        outcomes: list[bool],
        convert: bool,
    ) -> _Trace:
        instance = next((v.ref() for v in static.values() if type(v) is _Self), None)
        static = {k: v.ref() if type(v) is _Self else v for k, v in static.items()}
        example = tree_unflatten(treedef, leaves)
        paths = functools.partial(_argument_paths, self._f, example)
        context = _Context(
            self._f, variant, leaves, outcomes, paths, self._branches == "error", convert, self._rounds
        )
        from lamina._watch import Watch  # which the first trace needs, not the import

        watch = Watch(variant.reads, instance, convert)
        flat = _Flat(
            watch.outermost(self._f, static.values()),
            treedef,
            static,
            keep_text=True,
            opened=context.opened,
            refs=ref.Jitted(watch) if ref.living() else None,
        )
        specs = [(str(x.dtype), list(x.shape), getattr(x, "weak_type", False)) for x in leaves]
        tracing.open.append(context)
        try:
            with watch:
                program = _core.Program(flat, specs, _name(self._f), line_of(self._f))
                watch.over()
        finally:
            tracing.open.pop()
        variant.reads.bind(program)
        variant.reads.traced()
        if context.reasons:
            program.set_reason("branch: " + ", ".join(context.reasons[-3:]))
        trace = (_WritingTrace if flat.further else _Trace)(program, flat)
        _attach(variant, context.made, trace)
        variant.paths += 1
        return trace

    # --- calling ---

    # A call like an earlier one is served by the base class (python/jitted.cc), with what `_general` tells it.

    def _general(self, args: tuple[Any, ...], kwargs: dict[str, Any], on: _Self | None = None) -> Any:
        if tracing.disabled:
            return self._f(*(args if on is None else (on.ref(), *args)), **kwargs)
        if not ref.under_trace():
            return self._called(args, kwargs, on)
        try:
            return self._called(args, kwargs, on)
        except ref.Inside:
            return entered(self._f)(*(args if on is None else (on.ref(), *args)), **kwargs)

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any], on: _Self | None) -> Any:
        given = args if on is None else (on, *args)
        leaves, treedef, static = self._arguments(given, kwargs)
        index = _checks.index_mode()
        if (
            index != "off"
        ):  # this call may trace again: what the program that serves without has missed is told
            usual = self._variant(self._variants(leaves, treedef, static, "off"))
            _checks.report(_name(self._f), usual.reads.unseen.values())
        variants = self._variants(leaves, treedef, static, index)
        variant = self._variant(variants)
        trace = self._path(variant, leaves, treedef, static)
        self._keep(variants, variant)
        out = self._run(trace, variant, given, kwargs, treedef, leaves)
        variant.settled()
        if variant.served is not None and index == "off":
            static, instance = (self._static, ()) if on is None else (self._static_on, (on.ref(),))
            self.remember(args, kwargs, treedef.nodes, static, variants, *instance)
        return out

    def _general_on(self, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call as a method of `instance`."""
        on = self._instances.get(id(instance))
        if on is None or on.ref() is not instance:
            on = _Self(instance)
            on.on_death(functools.partial(self._forget_instance, id(instance)))
            self._instances[id(instance)] = on
        return self._general(args, kwargs, on)

    @staticmethod
    def _is_container(x: Any) -> bool:
        return tree_flatten(x)[1] != _LEAF

    def _run(
        self,
        trace: _Trace,
        variant: _Variant,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        treedef: TreeDef,
        leaves: Sequence[Any],
    ) -> Any:
        if self._gives_up and variant.donated is None:
            variant.donated = self._donated_leaves(args, treedef)
            if not _core.any_open_scope():
                given_up = [leaves[i] for i in variant.donated]
                _checks.tell_of_unused(_name(self._f), given_up, trace.program.result_types)
        hidden = () if self._gives_up else _hidden(variant)
        out = self._run_giving_up(trace, variant, leaves) if self._gives_up else trace.program(leaves, hidden)
        if type(trace) is _WritingTrace:
            dynamic, kept, _ = self._split(args, kwargs)
            trace.flat.settled(dynamic, kept, out, variant.reads.tensors)
        return trace.result(out)

    def _run_giving_up(self, trace: _Trace, variant: _Variant, leaves: Sequence[Any]) -> list[Tensor]:
        if _core.any_open_scope():  # recorded, not run: the outer call owns its arguments
            return trace.program(leaves, _hidden(variant))
        return trace.program.call_giving_up(leaves, variant.reads.tensors, variant.donated)

    def _donated_leaves(self, args: tuple[Any, ...], treedef: TreeDef) -> tuple[int, ...]:
        """The numbers of the leaves of donated arguments; `treedef` is that of (arguments not static, keywords)."""
        dynamic, kwargs = tree_unflatten(treedef, range(treedef.num_leaves))
        places = [i for i, a in enumerate(args) if i not in self._nums and type(a) is not _Self]
        given = [x for i, x in zip(places, dynamic, strict=True) if i in self._donated]
        return tuple(tree_leaves([given, *(v for k, v in kwargs.items() if k in self._donated_names)]))

    def branches(self) -> str:
        """The paths that were traced, by signature, and the decisions that lead to them."""
        lines = [f"{named(self._f)}: {self!r}"]
        for (_, types, *_), variants in list(self._entries.items()):
            text = ", ".join(describe(ShapeDtype(shape, dtype)) for shape, dtype, _ in types)
            for variant in variants:
                lines.append(f"  ({text}): {variant.paths} path{'s' * (variant.paths != 1)}")
                stack: list[tuple[int, str, Any]] = [(2, "", variant.root)]
                while stack:
                    depth, outcome, node = stack.pop()
                    what = node.text if type(node) is _Branch else "a traced path"
                    lines.append("  " * depth + outcome + what)
                    if type(node) is _Branch:
                        stack.extend((depth + 1, f"{k}: ", v) for k, v in sorted(node.children.items()))
        return "\n".join(lines)

    # --- ahead of time ---

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Traces for these arguments, arrays or ShapeDtype, without running or compiling."""
        leaves, treedef, static = self._arguments(args, kwargs, shapes=True)
        variants = self._variants(leaves, treedef, static, _checks.index_mode())
        variant = self._variant(variants)
        trace = self._path(variant, leaves, treedef, static)
        self._keep(variants, variant)
        if variant.donated is None:
            variant.donated = self._donated_leaves(args, treedef)
        return Traced(self, variant, trace, leaves, treedef)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The program for these arguments, arrays or ShapeDtype, ready to compile."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """Shapes and element types of the result; computes nothing."""
        return self.trace(*args, **kwargs).out_info

    def clear_cache(self) -> None:
        """Forgets every specialization."""
        self._entries.clear()
        self._forget_calls()

    def _forget_calls(self) -> None:
        self.forget()
        self._instances.clear()

    def _forget_instance(self, address: int, _: Any = None) -> None:
        self._instances.pop(address, None)
        self.forget(address)

    def __reduce__(self) -> str:
        # By reference, as functions are: the name leads to this object again.
        return getattr(self, "__qualname__", _name(self._f))

    def __repr__(self) -> str:
        count = sum(v.paths for variants in list(self._entries.values()) for v in variants)
        return f"<jit {_name(self._f)}: {count} {'entry' if count == 1 else 'entries'}, {self.hits} hits>"


_METHODS = frozenset(n for n in dir(Jitted) if not n.startswith("__"))


def _signature_of_bound(bound: Any) -> Any:
    whole = inspect.signature(bound.__func__)
    return whole.replace(parameters=list(whole.parameters.values())[1:])


_core.BoundJit.__signature__ = property(_signature_of_bound)


@contextlib.contextmanager
def disable_jit(disable: bool = True) -> Iterator[None]:
    """Jitted functions called inside the block, or inside a function it decorates, run as the plain functions they are.

    Each line runs at each call, so that a debugger stops in it and values can be printed. Blocks nest, with False
    jitting again; other threads are not concerned. Loops and branches of `lamina.lax` are Python's, where what they
    depend on is known: their bodies see values too.
    """
    saved, tracing.disabled = tracing.disabled, disable
    _core.add_check_scopes(1)  # calls that finished traces serve ask here first
    try:
        yield
    finally:
        _core.add_check_scopes(-1)
        tracing.disabled = saved


def jit(
    f: Callable[..., Any] | None = None,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    branches: str = "specialize",
    control_flow: str = "trace",
) -> Any:
    """Compiles `f` once per signature and caches it.

    Arrays in nested containers are arguments; `static_argnums` and `static_argnames` mark arguments that choose what
    is computed (hashable), however they are passed. Numbers are arrays too: another
    learning rate compiles nothing.

    What `f` and the functions it calls read besides their arguments, they read anew at each call: globals, closure
    variables, attributes (``self.lr``) and items (``cfg["lr"]``), however deep. Numbers and Tensors among them, and
    Python's arithmetic on such numbers, are arguments that you do not see; a change of anything else traces again,
    once for each state. NumPy arrays among them are compared by their content, in a pass over their memory at each call
    (read-only ones are not; lamina's arrays need none). To see the reads, a copy of the function is traced; your
    functions and objects stay as they are. What they write they write when they are traced, not at each call: a
    counter (``count += 1``) of which nothing else is made counts traces, and an entry that was missing or None and that
    the trace fills, as a table of objects made before, traces again only when it changes later.

    `donate_argnums` and `donate_argnames`: the caller gives these arrays up; results of their size are written over
    them where nothing else holds them, and using them again raises TypeError with the line that donated them. (Where
    a call fails, those that have not been written over stay.)

    Where `f` writes to an argument (``x[0] = v``), the caller's Tensor gets the written value, as a plain call would
    give it; it raises for an array that is no Tensor, for one given twice, and where `f` changes a container.

    Python's ``if``, ``while``, ``and`` and ``assert`` on values of arguments work: each path taken is traced once
    (``branches="error"`` refuses them instead). With ``control_flow="convert"`` their source is converted: one program
    holds all paths, and loops run in it (docs/control_flow.md).

    Example::

        @lm.jit
        def step(w, x, rate):
            return w - rate * lm.grad(loss)(w, x)
    """
    if f is None:
        return lambda g: jit(
            g,
            static_argnums=static_argnums,
            static_argnames=static_argnames,
            donate_argnums=donate_argnums,
            donate_argnames=donate_argnames,
            branches=branches,
            control_flow=control_flow,
        )
    if isinstance(f, staticmethod):
        raise TypeError(
            f"jit needs a function, not a staticmethod: write @staticmethod above the jit of {_name(f)}"
        )
    need_function(f, "jit")
    if inspect.isgeneratorfunction(f):
        raise TypeError(f"jit needs a function that returns arrays: {_name(f)} is a generator function")
    return Jitted(f, static_argnums, static_argnames, donate_argnums, donate_argnames, branches, control_flow)
