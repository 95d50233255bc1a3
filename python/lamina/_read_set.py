"""What a traced function read besides its arguments, asked again at each call.

A read says how to reach a value now: a global or closure variable, an attribute or item of what another read found, and
so on. Numbers and Tensors are hidden arguments of the compiled program, taken anew at each call; of anything else a
guard says what must still hold for the program to serve.
"""

from __future__ import annotations

import collections
import contextlib
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from lamina import _core
from lamina._core import Tensor
from lamina._objects import is_users_type
from lamina._observed import Observed, is_number
from lamina._source import place_of, user_frame

# How a read is reached, and what must hold of what it finds: the numbers of python/reads.cc.
OBJECT, WEAK, CELL, ATTRIBUTE, ITEM, SAME, CONTEXT = range(7)
ANY, IS, TYPE, EQUAL, IS_WEAK, LENGTH, KEYS, ABSENT, METHOD, CONTENT, READ_ONLY, ALIAS, ONE_VALUE, PRESENT = (
    range(14)
)

_MISSING = object()
_LEAVES = (bool, int, float, complex, str, bytes, type(None), type(...), range, slice, type(NotImplemented))


class Read:
    """One thing that was read."""

    __slots__ = (
        "access",
        "at",
        "expected",
        "identity",
        "key",
        "kind",
        "label",
        "number",
        "parent",
        "test",
    )

    def __init__(self, at: int, parent: Read | None, access: int, key: Any, label: str) -> None:
        self.at, self.parent, self.access, self.key, self.label = at, parent, access, key, label
        self.number: Observed | None = None
        self.test, self.expected = ANY, None
        # Of an object of which only is asked what reads below it tell: its class, which another object may share, and
        # whether nevertheless it must be the same one.
        self.kind: type | None = None
        self.identity = False

    def text(self) -> str:
        """As the user would write it: ``self.cfg['lr']``."""
        parts: list[str] = []
        read: Read | None = self
        while read is not None:
            parts.append(read.label)
            read = read.parent
        return "".join(reversed(parts))

    def holder(self) -> Any:
        """Of a read without a parent, what it starts from."""
        return self.key() if self.access == WEAK else self.key

    def found(self) -> Any:
        """What it found; None if that has died."""
        return self.expected() if self.test == IS_WEAK else self.expected

    def row(self) -> tuple[Any, ...]:
        """As python/reads.cc takes it: access, number of the read it starts from, holder or key, test, expected."""
        test, expected = self.test, self.expected
        if self.kind is not None and not self.identity and test in (IS, IS_WEAK):
            test, expected = TYPE, self.kind
        return self.access, self.parent.at if self.parent is not None else -1, self.key, test, expected


def _type_of(t: Tensor) -> tuple[Any, ...]:
    return t.shape, t.dtype, t.weak_type


def _is_leaf(value: Any) -> bool:
    if type(value) in _LEAVES:
        return True
    return type(value).__module__ == "numpy" and hasattr(value, "dtype") and not hasattr(value, "__len__")


def _is_seen_through(value: Any) -> bool:
    """Whether all that traced code asks of an object are reads of their own: of containers and the user's objects."""
    t = type(value)
    return t in (list, dict, tuple, set, collections.deque) or (
        is_users_type(t) and not isinstance(value, (type, types.FunctionType))
    )


def _text(key: Any) -> str:
    """A key as the user would write it; of an object that has a name, that: its own text may be made by any code."""
    if type(key) in _LEAVES:
        return repr(key)
    if type(key) is tuple:
        return ", ".join(map(_text, key))
    return str(getattr(key, "__qualname__", None) or f"<{type(key).__name__}>")


class ReadSet:
    """What the traces of one variant of a jitted function read: as it was then, and as it is now."""

    def __init__(self) -> None:
        self.reads: list[Read] = []
        self._index: dict[Any, Read] = {}
        self._hidden: list[Observed | Read] = []
        self._derived: dict[Any, Observed] = {}
        self._captured: set[int] = set()  # numbers in _hidden
        self.open = 0  # traces under way
        self.unseen: dict[Any, Unseen] = {}
        # Numbers that traces wrote in one with reading them, as counters of traces are: while nothing else is made of
        # one, another value of it serves as well.
        self.counted: set[Read] = set()
        self.guards = _core.Guards()

    # --- while a function is traced ---

    def root(self, holder: Any, label: str, weak: bool = False) -> Read:
        """The read of an object itself, not kept alive if `weak`, or of a closure cell."""
        access = CELL if isinstance(holder, types.CellType) else OBJECT
        found = self._index.get((access, id(holder)))
        if found is None or found.holder() is not holder:
            key = holder
            if weak:
                with contextlib.suppress(TypeError):
                    access, key = WEAK, weakref.ref(holder)
            # An object that has died had another place: its number is another's now.
            found = self._index[(CELL if access == CELL else OBJECT, id(holder))] = self._new(
                None, access, key, label
            )
        return found

    def _new(self, parent: Read | None, access: int, key: Any, label: str) -> Read:
        read = Read(len(self.reads), parent, access, key, label)
        self.reads.append(read)
        return read

    def below(self, parent: Read, access: int, key: Any) -> Read:
        """The attribute, item or value in this context of what `parent` found; new if it was not read before."""
        at = (parent.at, access, type(key), key)
        found = self._index.get(at)
        if found is None:
            if access == ITEM and parent.label == "":
                label = str(key)  # of a module's names
            else:
                label = (
                    f".{key}" if access == ATTRIBUTE else ".get()" if access == CONTEXT else f"[{_text(key)}]"
                )
            found = self._index[at] = self._new(parent, access, key, label)
        return found

    def also(self, read: Read, test: int, expected: Any) -> None:
        """One more thing that must hold of what `read` found."""
        at = (read.at, SAME, test)
        if at not in self._index:
            more = self._index[at] = self._new(read, SAME, None, "")
            more.test, more.expected = test, expected

    def expect(self, read: Read, value: Any, alias: Read | None = None) -> None:
        """Settles what must hold of a read that found `value`, and whether it is a hidden argument."""
        if alias is not None:
            read.test, read.expected = ALIAS, alias.at
        elif is_number(value):
            read.number = Observed(value, self)
            read.test, read.expected = IS, value
        elif isinstance(value, Tensor):
            read.test, read.expected = IS, value
            self._hidden.append(read)
        elif _is_leaf(value):
            read.test, read.expected = EQUAL, value
        elif isinstance(value, (types.MethodType, _core.BoundJit)):
            parent = read.parent if read.access == ATTRIBUTE else None
            root = parent is not None and parent.access in (OBJECT, WEAK)
            if parent is not None and value.__self__ is (parent.holder() if root else parent.found()):
                read.test, read.expected = METHOD, value.__func__
            elif parent is not None:  # of a class, which is made anew at each look, or of another object
                read.test, read.expected = EQUAL, value
            elif isinstance(value, types.MethodType):
                read.test, read.expected = IS_WEAK, weakref.ref(value)
            else:
                read.test, read.expected = IS, value
        else:
            read.kind = type(value) if _is_seen_through(value) else None
            try:
                read.test, read.expected = IS_WEAK, weakref.ref(value)
            except TypeError:
                read.test, read.expected = IS, value

    def absent(self, read: Read) -> None:
        read.test = ABSENT

    def not_seen(self, key: Any, make: Callable[[], Unseen]) -> None:
        """Keeps something that no guard asks for, once for each key."""
        if key not in self.unseen:
            self.unseen[key] = make()

    def hide(self, number: Observed) -> None:
        self._hidden.append(number)

    def taken(self, x: Tensor) -> None:
        """Python took the value of `x`: the hidden arguments that it is made of are guarded by their values too."""
        for h, beneath in zip(list(self._hidden), _core.depends_on(x, self.now_hidden())):
            if not beneath:
                continue
            if type(h) is Observed:
                h.used = True
            elif (h.at, SAME, CONTENT) not in self._index:
                self.also(h, CONTENT, None)
                self.reads[-1].expected = _core.content_of(h.expected)  # which takes it, too

    def derived(self, f: Callable[..., Any], operands: tuple[Any, ...], plain: bool) -> Any:
        """`f` of numbers, some observed: a number that is observed in turn, or a plain object that is guarded."""
        values = [x.value if type(x) is Observed else x for x in operands]
        try:
            result = f(*values)
        except Exception:
            for x in operands:
                if type(x) is Observed:
                    x.used = True
            raise
        if not self.open:
            return result
        key = (f, *[id(x) if type(x) is Observed else (type(x), repr(x)) for x in operands])
        number = self._derived.get(key)
        if number is None:
            number = self._derived[key] = Observed(result, self, (f, operands))
        if plain or not is_number(result):
            number.used = True
            return result
        return number

    def bind(self, program: Any) -> None:
        """Makes `program` take the hidden Tensors at each call."""
        self._settle()
        found = program.bind_hidden(self.tensors)
        self._captured.update(i for i, captured in enumerate(found) if captured)

    def traced(self) -> None:
        """After a trace: a number that went into it otherwise than as a parameter is guarded by its value.

        So are Tensors that held one value, as a copy does, and thus are one parameter.
        """
        for read in self.reads:
            if read.kind is not None and read.test == IS and not read.identity:
                read.expected = None  # keeps nothing alive
        self._drop_what_is_gone()
        for i, h in enumerate(self._hidden):
            if type(h) is Observed and i not in self._captured:
                h.used = True
        operands = {id(x) for o in self._derived.values() if o.of is not None for x in o.of[1]}
        for read in self.counted:
            if read.number is not None and (read.number.fetched or id(read.number) in operands):
                read.number.used = True
        tensors = [h for i, h in enumerate(self._hidden) if type(h) is Read and i in self._captured]
        for i, h in enumerate(tensors):
            first = next((o for o in tensors[:i] if _core.is_one_value(o.expected, h.expected)), None)
            if first is not None:
                self.also(h, ONE_VALUE, first.at)
        self._settle()

    def _drop_what_is_gone(self) -> None:
        """What was read of an object that nobody holds after the trace is not asked again: it was made in the trace, by
        code that is not watched. What of it went into the program as a parameter stays, and traces again.
        """
        below: dict[int, list[Read]] = {}  # by the number of the read that they start from, a smaller one
        starts: list[int] = []
        for read in self.reads:
            starts.append(read.at if read.parent is None else starts[read.parent.at])
            below.setdefault(starts[-1], []).append(read)
        hidden = {id(h) for h in self._hidden}
        for start, reads in below.items():
            top = self.reads[start]
            if top.access != WEAK or top.holder() is not None:
                continue
            if not any(r.number is not None or id(r) in hidden for r in reads):
                for read in reads:
                    read.test, read.expected = ANY, None

    # --- at each call ---

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The hidden arguments, as at the last call."""
        return self.guards.tensors

    def _settle(self) -> None:
        self.guards.set(
            tuple([x for r in self.reads for x in r.row()]),
            self.now_hidden(),
            tuple(self._parameters()),
        )

    def _parameters(self) -> Iterator[tuple[int, int, Read, Observed | None]]:
        """The reads whose values may change without more ado: their rows, hidden arguments and numbers."""
        places = {id(h): i for i, h in enumerate(self._hidden)}
        for read in self.reads:
            place = places.get(id(read if read.number is None else read.number), -1)
            if read.number is not None:
                if not (read.number.used or self._derived) and (place < 0 or place in self._captured):
                    yield read.at, place, read, read.number
            elif place in self._captured:
                yield read.at, place, read, None

    def holds(self) -> bool:
        """Whether all is as it was at the last call."""
        return self.guards.hold()

    def refresh(self) -> bool:
        """Takes the present values; False if the traces do not serve them."""
        found, failed = self.guards.now(_MISSING)
        changed: dict[int, Any] = {}
        numbers: dict[int, Any] = {}
        for i in failed:
            read, now = self.reads[i], found[i]
            if read.number is not None:
                if type(now) is not type(read.expected) or not is_number(now):
                    return False
                if read.number.used and not _equal(now, read.expected):
                    return False
                numbers[id(read.number)] = now
            elif isinstance(read.expected, Tensor):
                if not isinstance(now, Tensor) or _type_of(now) != _type_of(read.expected):
                    return False
                if not self._is_captured(read):
                    return False  # its value may have become a constant of the program
            else:
                return False
            changed[i] = now
        later = [(o, self._again(o, numbers)) for o in self._derived.values()] if numbers else []
        for o, now in later:
            if type(now) is not type(o.value) or (o.used and not _equal(now, o.value)):
                return False
            if not o.used and not is_number(now):
                return False
        for i, now in changed.items():
            read = self.reads[i]
            read.expected = now
            if read.number is not None:
                read.number.become(now)
        for o, now in later:
            if not _equal(now, o.value):
                o.become(now)
        self._settle()
        return True

    def _again(self, number: Observed, numbers: dict[int, Any]) -> Any:
        assert number.of is not None
        f, operands = number.of
        try:
            now = f(*[numbers.get(id(x), x.value) if type(x) is Observed else x for x in operands])
        except Exception:
            now = _MISSING
        numbers[id(number)] = now
        return now

    def _is_captured(self, read: Read) -> bool:
        return any(h is read and i in self._captured for i, h in enumerate(self._hidden))

    # --- a jitted function called while another is traced ---

    def now(self) -> list[Any]:
        """What each read finds."""
        return self.failing()[0]

    def failing(self) -> tuple[list[Any], list[int]]:
        """What each read finds, and the numbers of those that do not find what they did."""
        if self.open:
            self._settle()
        found, failed = self.guards.now(_MISSING)
        return found, failed

    def now_hidden(self) -> tuple[Tensor, ...]:
        """The hidden arguments so far, while a trace is under way."""
        return tuple([h.leaf() if type(h) is Observed else h.expected for h in self._hidden])

    def hidden(self) -> Iterator[Observed | Read]:
        return iter(self._hidden)

    def derivations(self) -> Iterator[Observed]:
        return iter(self._derived.values())


def _equal(a: Any, b: Any) -> bool:
    return a == b or (a != a and b != b)


class Unseen:
    """Something that a trace used, or did, that no guard asks for again."""

    __slots__ = ("_before", "_fingerprint", "remedy", "text", "where")

    def __init__(self, text: str, remedy: str, fingerprint: Callable[[], Any] | None = None) -> None:
        frame = user_frame()
        self.where = "" if frame is None else "\n" + place_of(frame).shown()
        self.text, self.remedy, self._fingerprint = text, remedy, fingerprint
        self._before = fingerprint() if fingerprint is not None else None

    def has_changed(self) -> bool:
        """Whether it is not as it was; always of what happens once per trace."""
        return self._fingerprint is None or self._fingerprint() != self._before

    def told(self, name: str) -> str:
        return f"{self.text.format(f=name)}{self.where}\n  {self.remedy}"


def too_large(text: str) -> Unseen:
    return Unseen(
        f"`{text}` holds more objects than a call compares; {{f}} may keep old ones",
        "Pass what changes as an argument.",
    )


def foreign_array(text: str, array: Any) -> Unseen:
    """The content of an array that shows its memory to no guard."""
    import numpy as np

    holder = weakref.ref(array)

    def fingerprint() -> bytes | None:
        a = holder()
        try:
            return None if a is None else _core.content_of(np.asarray(a))
        except Exception:  # of the library: what lies on a device, or needs a gradient, refuses
            return None

    return Unseen(
        f"the {type(array).__name__} `{text}` was changed in place since {{f}} was traced, and the compiled program "
        "keeps its old content; it was read at",
        "Make it a lamina array, which is read anew at each call, or pass it as an argument.",
        fingerprint,
    )
