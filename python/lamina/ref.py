"""References to arrays: values that functions change in place, as arguments and inside of loops and branches.

>>> total = lm.new_ref(lnp.zeros(3))
>>> def step(i, carry):
...     total[i % 3] += i
...     return carry
>>> lax.fori_loop(0, 10, step, None)
>>> lm.freeze(total)
Tensor([18., 12., 15.], dtype=float32)

Unlike a Tensor that is written to, a reference may be changed by jitted, differentiated and mapped functions and by
bodies of `lamina.lax` that see it from outside.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from lamina import _core, _missing, _source, tree
from lamina._core import Tensor
from lamina._read_set import ATTRIBUTE
from lamina._tensor import describe, to_tensor

if TYPE_CHECKING:
    from lamina._watch import Watch

__all__ = ["Ref", "addupdate", "empty_ref", "free_ref", "freeze", "get", "new_ref", "set", "swap"]

_CUT = {"f": "biu", "c": "biuf"}  # kinds of elements that values of a kind do not fit into
_UPDATES = ("add", "apply", "divide", "max", "min", "mul", "multiply", "power", "set", "subtract")


class _Body:
    """A body of which is asked what references it uses: which it made itself, and what the others were."""

    def __init__(self) -> None:
        self.made: weakref.WeakSet[Ref] = weakref.WeakSet()
        self.used: dict[Ref, Tensor] = {}

    def begin(self) -> None:
        """Where the body itself is traced, and not what it calls under transforms."""
        self._level = _core.scope_depth(), _core.record_floor()

    def first(self, ref: Ref, held: Tensor) -> Tensor:
        """What a reference that is used for the first time, and holds `held`, holds in the body."""
        return _core.outside_scopes(*self._level, lambda: _cell(held))

    def __enter__(self) -> _Body:
        _state.asked.append(self)
        _state.lending.append(None)
        return self

    def __exit__(self, *_: Any) -> None:
        _state.lending.pop()
        _state.asked.pop()
        for ref, held in self.used.items():
            ref._held = held


class _Form(_Body):
    """The bodies of a loop or branch in one that is only asked what it uses: only the shapes of its results count."""

    def of(self, f: Any) -> Any:
        """A body, each of whose traces finds the references as the form does."""
        if not callable(f):
            return f

        @functools.wraps(f)
        def traced(*args: Any) -> Any:
            self.begin()
            for ref, held in self.used.items():
                ref._held = _cell(held)
            return f(*args)

        return traced


class Inside(BaseException):
    """A function that is traced inside of another uses references: it is to be a part of that. Not for `except`."""


class Jitted(_Body):
    """A jitted function under trace: what references hold is read at each call, what it wrote to them is a result."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch
        self._before: dict[Ref, Tensor] = {}

    def __enter__(self) -> _Body:
        self.begin()
        return super().__enter__()

    def first(self, ref: Ref, held: Tensor) -> Tensor:
        if len(_state.asked) > 1:
            raise Inside
        read = self._watch.reads.below(self._watch.source_of(ref, "<Ref>", weak=True), ATTRIBUTE, "_held")
        self._watch.seen(read, held)
        # Under a transform inside of the function it is as old as the function's arguments.
        inside = _core.outside_scopes(*self._level, lambda: _cell(held))
        self._before[ref] = inside
        return inside

    def written(self) -> Written:
        """At the end: the references that hold something else than at the start."""
        changed = [r for r, inside in self._before.items() if r._held is not inside or _core.written(inside)]
        return Written(changed, list(self._before))


class Lent:
    """A function under a transform: what it wrote to references that are older is a further result.

    On the way out, and on an exception, they hold what they held before.
    """

    def __enter__(self) -> Lent:
        self.made: weakref.WeakSet[Ref] = weakref.WeakSet()
        self._level = _core.scope_depth()
        self._loans: dict[Ref, _core.Loan] = {}
        _state.lending.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        _state.lending.pop()
        for loan in self._loans.values():
            loan.end()

    def lend(self, ref: Ref) -> None:
        """Lets `ref` be written to, unless another trace is open within the function's."""
        if ref not in self.made and ref not in self._loans and _core.scope_depth() == self._level:
            self._loans[ref] = _core.Loan([ref._held])

    def written(self) -> Written:
        """At the end: the references that were written to."""
        return Written([r for r, loan in self._loans.items() if loan.written()], list(self._loans))


def lent() -> Lent | None:
    """One, where this thread has references."""
    return Lent() if _state.living else None


class Written:
    """The references from outside that a traced function wrote to. Its program holds none of them alive."""

    def __init__(self, written: Sequence[Ref], used: Sequence[Ref]) -> None:
        self._written, self._used = [weakref.ref(r) for r in written], [weakref.ref(r) for r in used]

    def __len__(self) -> int:
        return len(self._written)

    def values(self) -> list[Tensor]:
        """What they hold."""
        return [r()[...] for r in self._written]

    def check(self, name: str, given: Any) -> None:
        """ValueError where one that the function uses is among its arguments: inside they were two."""
        mine = {id(r()) for r in self._used}
        if any(id(x) in mine for x in tree.tree_leaves(given, is_leaf=is_ref)):
            raise ValueError(
                f"{name} gets a reference as an argument that it also uses from outside, which are two inside a traced "
                "function: use one way only"
            )

    def give(self, values: Sequence[Tensor]) -> None:
        """Writes what they hold after a call."""
        _store([r() for r in self._written], values)


NONE_WRITTEN = Written([], [])


class _State(threading.local):
    def __init__(self) -> None:
        self.living: weakref.WeakSet[Ref] = weakref.WeakSet()
        self.asked: list[_Body] = []
        self.lending: list[Lent | _Reading | None] = []  # None: a body whose references are its own


_state = _State()


def _cell(x: Any) -> Tensor:
    """A Tensor of its own."""
    return _core.set_weak(to_tensor(x), False)


class Ref:
    """A place for an array of one shape and element type: ``ref[i]`` reads, ``ref[i] = v`` writes, ``ref[...]`` is all.

    ``ref.at[i]`` is a part of it, with `add`, `set`, `multiply`, `min`, `max`, ... that change it there. References are
    containers of one array: jitted and mapped functions take them, and what they write to them the caller's get. So are
    parts. `lamina.lax.scan` over a reference gives its body one to each row. Traced functions do not return them
    (ValueError).

    What a differentiated function writes to a reference from outside is a value: later derivatives do not go through it.
    A mapped one writes what is the same in every lane (ValueError), or takes the reference as a batched argument.
    ValueError for values that the element type would cut.
    """

    __slots__ = ("__weakref__", "_freed", "_held")

    def __init__(self, value: Any) -> None:
        self._held: Tensor = value
        self._freed = False
        _state.living.add(self)
        if _state.asked:
            _state.asked[-1].made.add(self)
        if _state.lending and _state.lending[-1] is not None:
            _state.lending[-1].made.add(self)

    def _tensor(self, written: bool = True) -> Tensor:
        """What it holds: a Tensor to be written to, or only read."""
        if self._freed:
            raise ValueError("this reference has been frozen: use the array that freeze gave")
        if _state.asked:
            body = _state.asked[-1]
            if self not in body.made and self not in body.used:
                inside = body.first(self, self._held)
                body.used[self], self._held = self._held, inside
        if written and _state.lending and _state.lending[-1] is not None:
            _state.lending[-1].lend(self)
        return self._held

    def __getitem__(self, index: Any) -> Tensor:
        return _cell(self._tensor(written=False)[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        held = self._tensor()
        given = to_tensor(value)
        if _CUT.get(given.dtype.kind, "") and held.dtype.kind in _CUT[given.dtype.kind]:
            raise ValueError(
                f"a reference of {held.dtype.name} elements is given {describe(given)}, which would be cut: round it, "
                "take its real part or convert it first (astype)"
            )
        held[index] = value if _core.is_number(value) else given.astype(held.dtype)

    def get(self, idx: Any = ...) -> Tensor:
        """``ref[idx]``."""
        return self[idx]

    def set(self, value: Any, idx: Any = ...) -> None:
        """``ref[idx] = value``."""
        self[idx] = value

    def swap(self, value: Any, idx: Any = ...) -> Tensor:
        """``ref[idx]`` before `value` is written there."""
        return swap(self, idx, value)

    def addupdate(self, x: Any, idx: Any = ...) -> None:
        """Adds `x` to ``ref[idx]``."""
        addupdate(self, idx, x)

    @property
    def at(self) -> _Parts:
        return _Parts(self)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._held.shape

    @property
    def dtype(self) -> Any:
        return self._held.dtype

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: self._held.size)

    def __len__(self) -> int:
        return len(self._held)

    def __repr__(self) -> str:
        if isinstance(self._held, Tensor) and _core.forceable(self._held):
            return "Ref(" + repr(self._held).partition("(")[2]
        return f"Ref({describe(self._held)})"


class _Parts:
    __slots__ = ("of",)

    def __init__(self, of: Any) -> None:
        self.of = of

    def __getitem__(self, index: Any) -> Part:
        return Part(self.of, index)


class Part:
    """A part of a reference, which reads and writes that part."""

    __slots__ = ("index", "of")

    def __init__(self, of: Any, index: Any) -> None:
        self.of, self.index = of, index

    def __getitem__(self, index: Any) -> Tensor:
        return self.of[self.index][index]

    def __setitem__(self, index: Any, value: Any) -> None:
        self.of[self.index] = self.of[self.index].at[index].set(value)

    @property
    def at(self) -> _Parts:
        return _Parts(self)

    shape = property(lambda self: self.of[self.index].shape)
    dtype = property(lambda self: self.of.dtype)
    ndim = property(lambda self: len(self.shape))

    def get(self) -> Tensor:
        return self.of[self.index]

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name not in _UPDATES:
            raise AttributeError(f"a part of a reference has no attribute {name!r}", name=name)

        def update(*args: Any, **kwargs: Any) -> None:
            self.of[...] = getattr(self.of[...].at[self.index], name)(*args, **kwargs)

        return update


tree.register(Ref, lambda r: ((r._tensor(),), None), lambda _, held: Ref(*held))


class _Index:
    """An index without its arrays, which stand apart: equal to an equal one."""

    __slots__ = ("_parts",)

    def __init__(self, index: Any, arrays: list[Any]) -> None:
        items = index if isinstance(index, tuple) else (index,)
        self._parts = isinstance(index, tuple), tuple(self._kept(x, arrays) for x in items)

    @classmethod
    def _kept(cls, x: Any, arrays: list[Any]) -> Any:
        if isinstance(x, slice):
            return "slice", *(cls._kept(part, arrays) for part in (x.start, x.stop, x.step))
        if x is None or x is Ellipsis or isinstance(x, int):
            return "as it is", x
        arrays.append(x)
        return ("array",)

    def of(self, arrays: Iterator[Any]) -> Any:
        is_tuple, items = self._parts
        whole = tuple(self._filled(x, arrays) for x in items)
        return whole if is_tuple else whole[0]

    def _filled(self, kept: Any, arrays: Iterator[Any]) -> Any:
        if kept[0] == "slice":
            return slice(*(self._filled(x, arrays) for x in kept[1:]))
        return next(arrays) if kept[0] == "array" else kept[1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Index) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)


def _of_part(part: Part) -> tuple[tuple[Any, ...], _Index]:
    arrays: list[Any] = []
    index = _Index(part.index, arrays)
    return (part.of, *arrays), index


tree.register(Part, _of_part, lambda index, given: Part(given[0], index.of(iter(given[1:]))))


def is_ref(x: Any) -> bool:
    return isinstance(x, Ref)


def refuse_returned(f: Callable[..., Any], returned: Any) -> None:
    """ValueError where what `f` returned to be traced holds references: its results would be copies of theirs."""
    if not _state.living or not any(map(is_ref, tree.tree_leaves(returned, is_leaf=is_ref))):
        return
    path, found = next((p, x) for p, x in tree.leaves_with_path(returned, is_ref) if is_ref(x))
    line = _source.line_of(f)
    if not line or line.startswith(_source.PACKAGE):
        frame = _source.user_frame()
        where = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
        who = f"a function that is traced at {where}"
    else:
        who = f"{_source.named(f)}, which is traced,"
    raise ValueError(
        f"{who} returned a reference, Ref({describe(found._held)}), as result{tree.keystr(path)}: that would be a "
        "copy, which no write reaches; return what it holds (ref[...], or lm.freeze(ref) of one that the function made)"
    )


def new_ref(init_val: Any, *, memory_space: Any = None, kind: Any = None) -> Ref:
    """A reference to a copy of an array or number. `memory_space` and `kind` change nothing."""
    return Ref(_cell(init_val))


def empty_ref(ty: Any, memory_space: Any = None) -> Ref:
    """A reference of the shape and element type of `ty`, holding zeros."""
    from lamina import numpy as lnp

    return Ref(lnp.zeros(ty.shape, ty.dtype))


def freeze(ref: Ref) -> Tensor:
    """What a reference holds, as an array; the reference cannot be used any more (ValueError).

    TypeError for anything else, as the array of a reference that was a part of a container.
    """
    if not isinstance(ref, Ref):
        raise TypeError(
            f"freeze takes a reference, not {type(ref).__name__}: functions of containers (lamina.tree.map) see the "
            "array of a reference unless is_leaf tells that it is a leaf"
        )
    if _state.asked and ref not in _state.asked[-1].made:
        raise ValueError(
            "a reference that was made outside of a traced function cannot be frozen in it: read it (ref[...])"
        )
    value = ref[...]
    ref._freed = True
    return value


def free_ref(ref: Ref) -> None:
    """Ends the use of a reference."""
    freeze(ref)


def get(ref: Any, idx: Any = ...) -> Tensor:
    """``ref[idx]``."""
    return ref[idx]


def set(ref: Any, idx: Any, value: Any) -> None:
    """``ref[idx] = value``."""
    ref[idx] = value


def swap(ref: Any, idx: Any, value: Any) -> Tensor:
    """``ref[idx]`` before `value` is written there."""
    before = ref[idx]
    ref[idx] = value
    return before


def addupdate(ref: Any, idx: Any, x: Any) -> None:
    """Adds `x` to ``ref[idx]``."""
    ref.at[idx].add(x)


# --- bodies of loops and branches that use references from outside ---


def _carried(run: Callable[..., Any], *bodies: tuple[Any, ...]) -> tuple[list[Ref], Any]:
    """(references from outside that bodies use, None) where they write to some; else ([], run(*functions)).

    Each is a function and what stands for its arguments. `run` traces them once: most only read. What is inside of a
    body that is only asked for its references is traced once too, so that nested loops are not traced again and again.
    """
    functions = [f for f, *_ in bodies]
    if _state.asked and type(_state.asked[-1]) in (_Body, _Form):
        with _Form() as form:
            out = run(*map(form.of, functions))
        for r in form.used:
            r._tensor()
        return [], out
    codes = [f.__code__ for f, *_ in bodies if hasattr(f, "__code__")]
    if not any(c in _writers for c in codes):
        reading = _Reading()
        _state.lending.append(reading)
        try:
            return [], run(*functions)
        except _Writes as e:
            if e.args[0] is not reading:
                raise
            _writers.update(codes)
        finally:
            _state.lending.pop()
    refs = _used_by(bodies)
    return refs, None if refs else run(*functions)


class _Writes(BaseException):
    """A body that was taken to read only writes to a reference. Not for `except`."""


class _Reading:
    """Bodies that are taken to read references from outside, but not to write to them."""

    def __init__(self) -> None:
        self.made: weakref.WeakSet[Ref] = weakref.WeakSet()

    def lend(self, ref: Ref) -> None:
        if ref not in self.made:
            raise _Writes(self)


_writers: weakref.WeakSet[Any] = weakref.WeakSet()  # code of bodies that wrote to references from outside


def _used_by(bodies: Sequence[tuple[Any, ...]]) -> list[Ref]:
    """The references from outside that they read or write. Empty where one is no function, as the form itself says."""
    from lamina._transforms import eval_shape

    if not all(callable(f) for f, *_ in bodies):
        return []
    used: dict[Ref, Tensor] = {}
    for f, *args in bodies:
        with _Body() as body:
            eval_shape(functools.partial(_asked, body, f), *args)
        used |= body.used
    return list(used)


def _asked(body: _Body, f: Callable[..., Any], *args: Any) -> None:
    body.begin()
    f(*args)


def _on_values(refs: Sequence[Ref], f: Callable[..., Any], values: Sequence[Any], *args: Any) -> Any:
    """([what the references hold after it], f(*args)), where they hold `values` before."""
    saved = [r._held for r in refs]
    for r, v in zip(refs, values):
        r._held = _cell(v)
    _state.lending.append(None)
    try:
        out = f(*args)
        refuse_returned(f, out)
        return [_cell(r._held) for r in refs], out
    finally:
        _state.lending.pop()
        for r, held in zip(refs, saved):
            r._held = held


def _store(refs: Sequence[Ref], values: Sequence[Any]) -> None:
    for r, v in zip(refs, values):
        r[...] = v


def under_trace() -> bool:
    """Whether references that are used here are noted by a function or body under trace."""
    return bool(_state.asked)


def living() -> bool:
    """Whether this thread has references."""
    return bool(_state.living)


def carrying(form: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Has a function of `lamina.lax` carry the references that its bodies use. `form` is the function's name."""

    def decorate(plain: Callable[..., Any]) -> Callable[..., Any]:
        with_refs = functools.partial(_FORMS[form], plain)

        @functools.wraps(plain)
        def call(*args: Any, **kwargs: Any) -> Any:
            return (with_refs if _state.living else plain)(*args, **kwargs)

        return call

    return decorate


def _by_themselves(f: Any, operands: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """`f` and its operands without references and parts of them among these: it sees those from outside."""
    leaves, treedef = tree.tree_flatten(operands, is_leaf=_is_place)
    if not callable(f) or not any(map(_is_place, leaves)):
        return f, operands

    @functools.wraps(f)
    def of_arrays(*arrays: Any) -> Any:
        rest = iter(arrays)
        return f(*tree.tree_unflatten(treedef, [x if _is_place(x) else next(rest) for x in leaves]))

    return of_arrays, tuple(x for x in leaves if not _is_place(x))


def _is_place(x: Any) -> bool:
    return isinstance(x, (Ref, Part))


def _rows_of(plain: Callable[..., Any], f: Any, init: Any, xs: Any, args: Any, kwargs: Any) -> Any:
    """A scan over references: each step gets one to a row, and what it writes there is written to the whole."""
    leaves, treedef = tree.tree_flatten(xs, is_leaf=is_ref)
    wholes = [x for x in leaves if is_ref(x)]

    def body(carry: Any, rows: Any) -> Any:
        given = [Ref(_cell(row)) if is_ref(x) else row for x, row in zip(leaves, rows, strict=True)]
        carry, y = f(carry, tree.tree_unflatten(treedef, given))
        return carry, (y, [r[...] for x, r in zip(leaves, given, strict=True) if is_ref(x)])

    values = [x[...] if is_ref(x) else x for x in leaves]
    out, (ys, written) = _scan(plain, body, init, values, *args, **kwargs)
    _store(wholes, written)
    return out, ys


def _check_carry(form: str, init: Any) -> None:
    """ValueError where the carry of a loop holds references."""
    if any(map(_is_place, tree.tree_leaves(init, is_leaf=_is_place))):
        raise ValueError(
            f"lax.{form} carries arrays, and its first carry holds a reference: use the reference in the body under "
            "its name, or carry what it holds (ref[...])"
        )


def _scan(plain: Callable[..., Any], f: Any, init: Any, xs: Any = None, *args: Any, **kwargs: Any) -> Any:
    from lamina._shapes import ShapeDtype

    def row(x: Any) -> ShapeDtype:
        t = to_tensor(x)
        return ShapeDtype(t.shape[1:], t.dtype)

    _check_carry("scan", init)
    if any(map(is_ref, tree.tree_leaves(xs, is_leaf=is_ref))):
        return _rows_of(plain, f, init, xs, args, kwargs)
    refs, out = _carried(lambda f: plain(f, init, xs, *args, **kwargs), (f, init, tree.tree_map(row, xs)))
    if not refs:
        return out

    def body(carry: Any, x: Any) -> Any:
        values, (own, y) = _on_values(refs, f, carry[0], carry[1], x)
        return (values, own), y

    (values, out), ys = plain(body, ([r[...] for r in refs], init), xs, *args, **kwargs)
    _store(refs, values)
    return out, ys


def _while(plain: Callable[..., Any], cond_fun: Any, body_fun: Any, init_val: Any, **kwargs: Any) -> Any:
    _check_carry("while_loop", init_val)
    whole = lambda test, step: plain(test, step, init_val, **kwargs)  # noqa: E731
    refs, out = _carried(whole, (cond_fun, init_val), (body_fun, init_val))
    if not refs:
        return out
    values, out = plain(
        lambda c: _on_values(refs, cond_fun, c[0], c[1])[1],
        lambda c: _on_values(refs, body_fun, c[0], c[1]),
        ([r[...] for r in refs], init_val),
        **kwargs,
    )
    _store(refs, values)
    return out


def _fori(
    plain: Callable[..., Any], lower: Any, upper: Any, body_fun: Any, init_val: Any, **kwargs: Any
) -> Any:
    _check_carry("fori_loop", init_val)
    whole = lambda step: plain(lower, upper, step, init_val, **kwargs)  # noqa: E731
    refs, out = _carried(whole, (body_fun, lower, init_val))
    if not refs:
        return out
    start = ([r[...] for r in refs], init_val)
    step = lambda i, c: _on_values(refs, body_fun, c[0], i, c[1])  # noqa: E731
    values, out = plain(lower, upper, step, start, **kwargs)
    _store(refs, values)
    return out


def _branching(refs: Sequence[Ref], branches: Sequence[Any]) -> list[Any]:
    return [functools.partial(_on_values, refs, f) for f in branches]


def _switch(plain: Callable[..., Any], index: Any, branches: Any, *operands: Any, **kwargs: Any) -> Any:
    if not isinstance(branches, (list, tuple)):
        return plain(index, branches, *operands, **kwargs)
    given = (*operands, *kwargs.values())
    if any(map(_is_place, tree.tree_leaves(given, is_leaf=_is_place))):
        of_arrays = [_by_themselves(f, given) for f in branches]
        return _switch(plain, index, [f for f, _ in of_arrays], *of_arrays[0][1])
    whole = lambda *branches: plain(index, list(branches), *operands, **kwargs)  # noqa: E731
    refs, out = _carried(whole, *((f, *given) for f in branches))
    if not refs:
        return out
    values, out = plain(index, _branching(refs, branches), [r[...] for r in refs], *given)
    _store(refs, values)
    return out


def _cond(plain: Callable[..., Any], pred: Any, *args: Any, **kwargs: Any) -> Any:
    if not (len(args) >= 2 and callable(args[0]) and callable(args[1])) or kwargs.keys() - {"operand"}:
        return plain(pred, *args, **kwargs)
    given = (*args[2:], *kwargs.values())
    if any(map(_is_place, tree.tree_leaves(given, is_leaf=_is_place))):
        of_arrays = [_by_themselves(f, given) for f in args[:2]]
        return _cond(plain, pred, of_arrays[0][0], of_arrays[1][0], *of_arrays[0][1])
    refs, out = _carried(
        lambda *both: plain(pred, *both, *args[2:], **kwargs), *((f, *given) for f in args[:2])
    )
    if not refs:
        return out
    values, out = plain(pred, *_branching(refs, args[:2]), [r[...] for r in refs], *given)
    _store(refs, values)
    return out


_FORMS = {"scan": _scan, "while_loop": _while, "fori_loop": _fori, "switch": _switch, "cond": _cond}

__getattr__ = _missing.attributes("lamina.ref")
