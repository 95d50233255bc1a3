"""Code that runs without hooks while a function is traced: what it may read is guarded by the names that it uses.

Such is code whose source is not to be had, and every special method that an operator or a function of C calls.
"""

from __future__ import annotations

import collections
import contextlib
import dis
import functools
import types
import weakref
from typing import TYPE_CHECKING, Any

from lamina._hooks import Names
from lamina._objects import (
    BUILTIN,
    BY_TEXT,
    FUNCTION,
    METHOD,
    PLAIN,
    finds_by_code,
    is_users,
    is_users_module,
    is_users_type,
    looked_up,
    names_of,
)
from lamina._observed import Observed
from lamina._process_state import known_by
from lamina._read_set import ATTRIBUTE, ITEM, Read, Unseen
from lamina._rewrite import HOOKS

if TYPE_CHECKING:
    from lamina._watch import Watch

# Methods that run when a class is called, or an object ends.
_MAKING = frozenset(("__init__", "__new__", "__post_init__", "__del__"))
# Special methods that neither an operator nor a function of C calls by itself, or that hooks stand for.
_ASKED_BY_NAME = _MAKING | {
    *("__call__", "__getattribute__", "__getattr__", "__setattr__", "__delattr__", "__dir__", "__set_name__"),
    *(
        "__init_subclass__",
        "__class_getitem__",
        "__reduce__",
        "__reduce_ex__",
        "__getstate__",
        "__setstate__",
    ),
    *("__sizeof__", "__subclasshook__", "__copy__", "__deepcopy__", "__getnewargs__"),
}
_OF_TEXT = frozenset(("__repr__", "__str__", "__format__"))
_ENTRIES = (FUNCTION, property, staticmethod, classmethod)


def _told(x: Any) -> Any:
    """An argument of code without hooks: an integer itself, as such code may ask what ``type(x)`` is."""
    return x.use() if type(x) is Observed and isinstance(x.value, int) else x


class Unhooked:
    """Guards what code without hooks reads."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        # Functions whose names are guarded, as code without hooks may call them; objects and classes, with the names of
        # such code.
        self._called: set[Any] = set()
        self._special: dict[tuple[type, bool], frozenset[str]] = {}
        self._below: dict[tuple[type, frozenset[str]], frozenset[str]] = {}
        self._names: dict[int, Names] = {}

    def write_back(self) -> None:
        for names in self._names.values():
            names.write_back()

    def copy_of(self, f: types.FunctionType) -> Any:
        """A copy that finds observed numbers under its names; of objects all is guarded that has a name it uses."""
        watch = self.watch
        names = self._names.get(id(f.__globals__))
        if names is None:
            names = self._names[id(f.__globals__)] = Names(watch, f.__globals__)
        used = names_of(f.__code__)
        names.used |= used
        names.codes.append(f.__code__)
        written = {i.argval for i in dis.get_instructions(f.__code__) if i.opname == "STORE_DEREF"}
        cells = []
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
            try:
                value = cell.cell_contents
            except ValueError:
                cells.append(cell)
                continue
            new = self.named(watch.reads.root(cell, name), value, used)
            if type(new) is Observed and name in written:
                new = new.use()
            cells.append(cell if new is value else types.CellType(new))
        for value in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()):
            if type(value) not in PLAIN:
                self.note_used(value, used)
        copy = types.FunctionType(f.__code__, names, f.__name__, f.__defaults__, tuple(cells))
        copy.__kwdefaults__, copy.__qualname__ = f.__kwdefaults__, f.__qualname__

        @functools.wraps(f)
        def call(*args: Any, **kwargs: Any) -> Any:
            for a in () if watch.closed else (*args, *kwargs.values()):
                if type(a) not in PLAIN and not watch.is_made(a):
                    self.note_used(a, used)
            return copy(*map(_told, args), **{k: _told(v) for k, v in kwargs.items()})

        return call

    def named(self, read: Read, value: Any, used: set[str]) -> Any:
        """What code without hooks gets for a name."""
        value = self.watch.seen(read, value)
        if type(value) in PLAIN:
            return value
        self.note_used(value, used)
        return self.watch.entered(value) if type(value) in (FUNCTION, METHOD, functools.partial) else value

    def special(self, x: Any, shown: bool = False) -> None:
        """Guards what the special methods of an object of the user read besides what it holds, and what they are.

        Operators and functions of C call them; those that make its text only where it is `shown`.
        """
        t = type(x)
        names = self._special.get((t, shown))
        if names is None:
            special = _special_names(t) & _OF_TEXT if shown else _special_names(t) - _OF_TEXT - _ASKED_BY_NAME
            names = self._special[t, shown] = self._of_class(t, special, frozenset())
        self._reached(x, names)

    def _reached(self, x: Any, names: frozenset[str]) -> None:
        """Follows code with these names, which its class has, to the methods of the objects that `x` holds."""
        if not names or (id(x), names) in self._called:
            return
        self._called.add((id(x), names))
        self.watch.kept.append(x)
        for value in getattr(x, "__dict__", {}).values():
            t = type(value)
            if t not in PLAIN and is_users_type(t):
                found = self._below.get((t, names))
                if found is None:
                    found = self._below[t, names] = self._of_class(t, set(), names)
                self._reached(value, found)

    def _of_class(self, t: type, special: set[str], used: frozenset[str]) -> frozenset[str]:
        """As `_followed`, with what else the class gives these names."""
        names = self._followed(t, special, set(used))
        for name in sorted(names - special):
            if not isinstance(looked_up(t, name), (type(None), *_ENTRIES)):
                self.watch.of_class(t, name)
        return frozenset(names)

    def note_used(self, x: Any, used: set[str]) -> None:
        """Guards what code with these names may read of `x`."""
        t = type(x)
        if isinstance(x, (list, tuple, dict, set, collections.deque)):
            self.watch.note(x)
            return
        is_module = issubclass(t, types.ModuleType)
        if is_module and not is_users_module(x):
            return
        self.watch.same(x)
        is_class = isinstance(x, type)
        if isinstance(x, (FUNCTION, METHOD, BUILTIN)) or not (
            is_module or is_users_type(x if is_class else t)
        ):
            return
        holder = x if is_class else t
        # And what methods and properties with these names read, and those that Python calls.
        special = _special_names(holder)
        names = self._followed(holder, special if is_class else special - _MAKING, used)
        if is_module and finds_by_code(x):
            names = used | (names & vars(x).keys())
        self._attributes(x, holder, names)

    def _followed(self, holder: type, special: set[str], used: set[str]) -> set[str]:
        """These names and those that the methods and properties use which they name; what these are is guarded."""
        names, left = set(used), used | special
        asked_for = set(left)
        while left:
            name = left.pop()
            inside = looked_up(holder, name)
            method = getattr(inside, "fget", getattr(inside, "__func__", inside))
            if isinstance(method, FUNCTION) and is_users(method.__code__.co_filename):
                self.watch.of_class(holder, name)
                self.note_called(method)
                more = names_of(method.__code__)
                if more & BY_TEXT:
                    self._asks_by_text(holder, method.__qualname__)
                names |= more
                left |= more - asked_for
                asked_for |= more
        return names

    def _asks_by_text(self, holder: type, method: str) -> None:
        """The names that a method makes are not known: what else its class holds is only looked at by `checks`."""
        if not is_users_type(holder):
            return
        known = weakref.ref(holder)
        self.watch.reads.not_seen(
            ("by text", holder),
            lambda: Unseen(
                f"{{f}} runs `{method}`, which asks for attributes by their names as text, and the class "
                f"{holder.__qualname__} has others since",
                "Write the attribute's name (`self.rate`), or pass what changes as an argument.",
                lambda: _entries_of(known()),
            ),
        )

    def _attributes(self, x: Any, holder: type, names: set[str]) -> None:
        """Guards the attributes of `x` with these names."""
        watch = self.watch
        # Attributes that its own code finds are read by value: following that code would ask this object again.
        asked = any(isinstance(looked_up(type(x), n), FUNCTION) for n in ("__getattribute__", "__getattr__"))
        for name in sorted(names):
            if isinstance(looked_up(holder, name), _ENTRIES):
                continue
            with contextlib.suppress(AttributeError):
                value = getattr(x, name)
                if asked:
                    read = watch.reads.below(watch.source_of(x), ATTRIBUTE, name)
                    watch.note(watch.seen(read, value))
                else:
                    value = watch.attribute(x, name)
                    if isinstance(value, FUNCTION):  # of a module
                        self.note_called(value)
                    elif isinstance(value, type) or is_users_type(type(value)):
                        self._note_below(value, names)
                    watch.note(value)

    def _note_below(self, x: Any, names: set[str]) -> None:
        asked_of = (id(x), frozenset(names))
        if asked_of not in self._called:
            self._called.add(asked_of)
            self.note_used(x, names)

    def note_called(self, f: types.FunctionType) -> None:
        """Guards what the names of a function say that code without hooks may call."""
        if id(f) in self._called or not is_users(f.__code__.co_filename):
            return
        self._called.add(id(f))
        self.watch.kept.append(f)
        used = names_of(f.__code__)
        self._names_say(used, f.__globals__, dict(zip(f.__code__.co_freevars, f.__closure__ or ())))

    def note_executed(self, code: types.CodeType, names: Any, local: Any = None) -> None:
        """Guards what names say in code that ``eval`` or ``exec`` runs."""
        used = names_of(code)
        hooks = local.get(HOOKS) if isinstance(local, dict) else None
        self._names_say(used, names, {} if hooks is None else hooks.cells)
        if hooks is None and isinstance(local, dict):
            self._names_say(used, local, {})

    def _names_say(self, used: set[str], names: dict[str, Any], cells: dict[str, types.CellType]) -> None:
        watch = self.watch
        found = []
        if not watch.is_made(names):
            found = [
                (watch.reads.below(watch.reads.root(names, ""), ITEM, name), names[name])
                for name in sorted(used & names.keys())
                if not isinstance(names[name], (BUILTIN, types.ModuleType))
            ]
        for name, cell in cells.items():
            with contextlib.suppress(ValueError):
                found.append((watch.reads.root(cell, name), cell.cell_contents))
        for read, value in found:
            value = watch.seen(read, value)
            value = getattr(value, "__func__", getattr(value, "func", value))
            if type(value) is Observed:
                value.use()
            elif isinstance(value, FUNCTION):
                self.note_called(value)
            elif type(value) not in PLAIN:
                self._note_below(value, used)


def _entries_of(t: type | None) -> Any:
    """What a class and those it derives from hold now."""
    return [
        (c.__name__, [(k, known_by(v)) for k, v in c.__dict__.items() if not k.startswith("__")])
        for c in (t.__mro__ if t is not None else ())
    ]


def _special_names(t: type) -> set[str]:
    return {n for c in t.__mro__ for n in vars(c) if n.startswith("__")}
