"""Watching what a function reads while it is traced.

A copy of the function runs (`_rewrite`), whose reads of what is not local come here. The user's functions, objects and
modules stay as they are; another thread sees nothing of it. Functions that the copy calls are copied likewise.
"""

from __future__ import annotations

import collections
import functools
import itertools
import types
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from lamina import _core
from lamina._calls import Calls
from lamina._core import Tensor
from lamina._hooks import Hooks
from lamina._objects import (
    BUILTIN,
    FUNCTION,
    GETTERS,
    METHOD,
    OPEN_MODULES,
    PLAIN,
    SEQUENCES,
    copy_with,
    count_as_users,
    is_native,
    is_ours,
    is_read_only,
    is_users,
    is_users_module,
    is_users_type,
    lasts,
    looked_up,
    never_changes,
)
from lamina._observed import Observed
from lamina._open import open_here
from lamina._process_state import note_decimal, note_module_value
from lamina._read_set import (
    ABSENT,
    ANY,
    ATTRIBUTE,
    CELL,
    CONTENT,
    EQUAL,
    ITEM,
    KEYS,
    LENGTH,
    ONE_VALUE,
    PRESENT,
    READ_ONLY,
    WEAK,
    Read,
    ReadSet,
    Unseen,
    foreign_array,
    too_large,
)
from lamina._rewrite import has_hooks, rewritten
from lamina.tree import is_open, open_names

if TYPE_CHECKING:
    from lamina._unhooked import Unhooked

_MAX_NOTED = 4096  # reads of one object that is passed on whole


class Watch:
    """A trace in progress: what was read, by which way each object was reached, and which were made in it."""

    def __init__(self, reads: ReadSet, root: Any = None, convert: bool = False) -> None:
        self.reads, self.closed, self.calls = reads, False, Calls(self)
        self._unhooked: Unhooked | None = None
        self.staging: Any = None  # where control flow is converted
        if convert:
            from lamina._convert.staging import Staging

            self.staging = Staging()
        self._sources: dict[int, Read] = {}
        self.kept: list[Any] = []  # whose ids are in use here
        self._outer_types: set[int] = set()  # classes of objects that were there before the trace
        self._made: set[int] = set()
        self._lasting: set[int] = set()  # functions that are there before and after the trace
        self._copies: dict[int, Any] = {}
        self.stamp = 1 << 62  # of what the trace makes; known when it is under way
        self._first: dict[int, Any] = {}  # by the number of a read, what it found first in this trace
        self.counting = 0  # while something is read only to be written in one
        self.written: set[int] = set()  # ids of values that were written outside
        self.stood_in: set[int] = set()  # numbers of reads that found nothing, which a default stood in for
        if root is not None:
            self.source_of(root, "self", weak=True)

    def __enter__(self) -> Watch:
        open_here.watches.append(self)
        self.reads.open += 1
        return self

    def __exit__(self, *_: Any) -> None:
        open_here.watches.pop()
        self.reads.open -= 1
        self.closed = True
        if self._unhooked is not None:
            self._unhooked.write_back()
            self._unhooked = None
        self._sources, self.kept, self._copies, self._first = {}, [], {}, {}
        self._outer_types.clear()
        # With its function goes what it read, without waiting for the collector: arrays of any size are among it.
        del self.calls

    @property
    def unhooked(self) -> Unhooked:
        if self._unhooked is None:
            from lamina._unhooked import Unhooked  # which few traces need

            self._unhooked = Unhooked(self)
        return self._unhooked

    # --- reads ---

    def source_of(self, x: Any, label: str = "", weak: bool = False) -> Read:
        found = self._sources.get(id(x))
        if found is None:
            self.kept.append(x)
            self._outer_types.add(id(type(x)))
            found = self._sources[id(x)] = self.reads.root(x, label or f"<{type(x).__name__}>", weak)
        return found

    def made(self, x: Any) -> Any:
        """`x`, an object made while tracing: reading it tells nothing of the world outside."""
        self.kept.append(x)
        self._made.add(id(x))
        return x

    def is_made(self, x: Any) -> bool:
        """Whether an object was made in the trace: it was seen to be, or it holds what only the trace has."""
        if id(x) in self._made:
            return True
        if id(x) in self._sources or type(x) in PLAIN or not self.holds_traced(x):
            return False
        self.made(x)
        return True

    def holds_traced(self, x: Any) -> bool:
        stack, left = [x], 64
        while stack and left:
            left -= 1
            x = stack.pop()
            if type(x) is Tensor:
                if self._is_traced(x):
                    return True
            elif type(x) in (list, tuple):
                stack.extend(x[:64])
            elif type(x) is dict:
                stack.extend(itertools.islice(x.values(), 64))
            elif is_users_type(type(x)) and left == 63:
                stack.extend(getattr(x, "__dict__", {}).values())
        return False

    def _is_traced(self, x: Tensor) -> bool:
        return _core.made_in(x) >= self.stamp or not _core.forceable(x)

    def seen(self, read: Read, value: Any) -> Any:
        """What the traced function gets for a read that found `value`."""
        at = read.at
        if at not in self._first:
            if type(value) is Tensor and self._is_traced(value):
                return value  # made in the trace and written to the object: no state of before it
            self._first[at] = value
            self._settle(read, value)
        if read.number is None:
            return value
        if self.counting:
            self.reads.counted.add(read)
        if self._first[at] is not value:  # written in the trace
            if not self.counting and read in self.reads.counted:
                read.number.used = True
            return value
        return read.number

    def _settle(self, read: Read, value: Any) -> None:
        known = self._sources.get(id(value)) if type(value) not in PLAIN else None
        if read.test == ANY:
            # Reads are asked again in their order: what a later one finds is not known yet, and must be the same one.
            later = known is not None and known.at > read.at
            self.reads.expect(read, value, known if known is not read and not later else None)
            read.identity |= later
        elif read.kind is not None and read.found() is not value:
            self.reads.expect(read, value)  # another object of its class, since an earlier path was traced
        if known is None and type(value) not in PLAIN:
            self.kept.append(value)
            self._outer_types.add(id(type(value)))
            self._sources[id(value)] = read
            self._memory(read, value)
            if type(value).__module__ == "decimal":
                note_decimal(self.reads)

    def _memory(self, read: Read, value: Any) -> None:
        """Guards the content of an array of another library, which may be written in place."""
        if type(value) is Tensor or never_changes(type(value)):
            return
        content = _core.content_of(value)
        if content is None:
            if hasattr(type(value), "__array__"):
                self.reads.not_seen(read.at, lambda: foreign_array(read.text(), value))
        elif is_read_only(value):
            self.reads.also(read, READ_ONLY, None)
        else:
            self.reads.also(read, CONTENT, content)
            if hasattr(value, "_mask"):  # of a masked array
                self.seen(self.reads.below(read, ATTRIBUTE, "_mask"), value._mask)
            if getattr(getattr(value, "dtype", None), "hasobject", False):
                self.noted(value.ravel().tolist())  # and held: no other object gets the place of one

    def attribute(self, x: Any, name: str) -> Any:
        """``x.name``, as the traced function sees it."""
        if type(x) in PLAIN:
            return getattr(x, name)
        try:
            return self._attribute(x, type(x), name)
        except AttributeError:
            if not self.is_made(x):
                self.reads.absent(self.reads.below(self.source_of(x), ATTRIBUTE, name))
            raise

    def _attribute(self, x: Any, t: type, name: str) -> Any:
        if issubclass(t, types.ModuleType):  # also one that loads its names when they are asked for
            value = getattr(x, name)
            if is_users_module(x) and not isinstance(value, types.ModuleType):
                return self.seen(self.reads.below(self.source_of(x, x.__name__), ATTRIBUTE, name), value)
            note_module_value(self.reads, x, name, value)
            return value
        if isinstance(x, type) or is_ours(t):
            value = getattr(x, name)
            if isinstance(x, type) and is_users_type(x) and not is_native(value) and lasts(x, name, value):
                return self.seen(self.reads.below(self.source_of(x, x.__name__), ATTRIBUTE, name), value)
            return value
        if t is super:
            return self._of_super(x, name)
        inside = looked_up(t, name)
        if (
            type(inside) is property
            and isinstance(inside.fget, FUNCTION)
            and is_users(inside.fget.__code__.co_filename)
        ):
            self.of_class(t, name)
            return self.entered(inside.fget)(x)
        if type(inside) is functools.cached_property and name not in getattr(x, "__dict__", {}):
            return self._computed_once(inside, x, name)
        own = self.of_class(t, "__getattribute__")
        if isinstance(own, FUNCTION):
            return self.entered(own)(x, name)
        try:
            value = t.__getattribute__(x, name)
        except AttributeError:
            other = self.of_class(t, "__getattr__")
            if not isinstance(other, FUNCTION):
                raise
            self._finds(x, t, name)
            return self.entered(other)(x, name)
        if is_native(value):
            return value
        if self.is_made(x):
            return (
                value
                if inside is None or name in getattr(x, "__dict__", ())
                else self._of_made(t, name, value)
            )
        return self.seen(self.reads.below(self.source_of(x), ATTRIBUTE, name), value)

    def _finds(self, x: Any, t: type, name: str) -> None:
        """Guards that it still is the class that finds an attribute for an object."""
        if hasattr(x, "__dict__") and not self.is_made(x):
            names = self.reads.below(self.source_of(x), ATTRIBUTE, "__dict__")
            self.reads.absent(self.reads.below(names, ITEM, name))
        if is_users_type(t) and self._outlives(t):
            self.reads.absent(self.reads.below(self.source_of(t, t.__name__), ATTRIBUTE, name))

    def of_class(self, t: type, name: str) -> Any:
        """What a class gives a name, as ``looked_up``; that a class of the user still does is guarded, with numbers."""
        inside = looked_up(t, name)
        if inside is None or is_native(inside) or not hasattr(t, name):  # as the properties of enumerations
            return inside
        if is_users_type(t) and self._outlives(t):
            value = getattr(t, name)
            if lasts(t, name, value):
                found = self.seen(self.reads.below(self.source_of(t, t.__name__), ATTRIBUTE, name), value)
                if type(found) is Observed:
                    found.use()
        return inside

    def _outlives(self, t: type) -> bool:
        """Whether a class was there before the trace."""
        return id(t) in self._outer_types or id(t) in self._sources or "<locals>" not in t.__qualname__

    def method_of(self, t: type, name: str) -> types.FunctionType | None:
        """The function of the user that a class gives a name, guarded as by `of_class`; None if it gives no such."""
        inside = self.of_class(t, name)
        inside = getattr(inside, "__func__", inside)
        return inside if isinstance(inside, FUNCTION) and is_users(inside.__code__.co_filename) else None

    def _of_made(self, t: type, name: str, value: Any) -> Any:
        """An attribute that an object of class `t` made in the trace has of its class."""
        if looked_up(t, name) is value and self._outlives(t):
            return self.attribute(t, name)  # a number in it is observed
        self.of_class(t, name)
        return value

    def _of_super(self, x: Any, name: str) -> Any:
        bases = x.__self_class__.__mro__
        for cls in bases[bases.index(x.__thisclass__) + 1 :]:
            if name in cls.__dict__:
                f = cls.__dict__[name]
                if isinstance(f, FUNCTION) and is_users_type(cls):
                    self.seen(self.reads.below(self.source_of(cls, cls.__name__), ATTRIBUTE, name), f)
                break
        return getattr(x, name)

    def _computed_once(self, inside: Any, x: Any, name: str) -> Any:
        value = self.entered(inside.func)(x)
        if name not in x.__dict__:
            x.__dict__[name] = self.plain(value)
        return value

    def item(self, x: Any, key: Any) -> Any:
        """``x[key]``, as the traced function sees it."""
        t = type(x)
        for part in key if type(key) is tuple else (key,):
            if type(part) not in PLAIN and is_users_type(type(part)):
                self.noted(part)  # what its __index__ or __hash__ reads
        if t is Tensor or t in PLAIN:
            return x[key]
        if isinstance(x, type):
            return self._class_item(x, t, key)
        own = self.method_of(t, "__getitem__")
        if own is not None:
            return self.entered(own)(x, key)
        if self.is_made(x):
            return x[key]
        is_dict = isinstance(x, dict)
        if not is_dict and not isinstance(x, SEQUENCES):
            self.noted(x)
            return x[key]
        if isinstance(looked_up(t, "__getitem__"), FUNCTION):  # Python's own, of a class of the user
            return x[key]
        if not is_dict:
            if not hasattr(key, "__index__"):
                self.noted(x)
                return x[key]
            key = key.__index__()
        elif type(key) is Observed or type(key) is tuple:
            key = self.plain(key)
        if type(key) not in PLAIN:
            self.same(key)
            if any(self.is_made(k) for k in (key if type(key) is tuple else (key,))):
                self.noted(x)
                return x[key]
        read = self.reads.below(self.source_of(x), ITEM, key)
        try:
            value = x[key]
        except LookupError:
            if read.at not in self._first:
                self.reads.absent(read)
            raise
        return self.seen(read, value)

    def _class_item(self, x: type, meta: type, key: Any) -> Any:
        own = self.method_of(meta, "__getitem__") or self.method_of(x, "__class_getitem__")
        return x[key] if own is None else self.entered(own)(x, key)

    # --- whole values ---

    def keyed(self, x: Any, *key: Any) -> Any:
        """`x` of whose keys something is asked: whether `key` is one of them, if that is told."""
        if (
            isinstance(x, dict)
            and not self.is_made(x)
            and not isinstance(looked_up(type(x), "__contains__"), FUNCTION)
        ):
            if not (key and self._asked_for(x, self.plain(key[0]))):
                self.reads.also(self.source_of(x), KEYS, tuple(x))
            return x
        return self.noted(x)

    def _asked_for(self, x: dict[Any, Any], key: Any) -> bool:
        """Guards whether `key` has an entry; False where the keys themselves are to be guarded."""
        for k in key if type(key) is tuple else (key,):
            if type(k) in PLAIN and type(k) is not Tensor:
                continue
            if (
                type(k).__eq__ is not object.__eq__
                or type(k).__hash__ is not object.__hash__
                or self.is_made(k)
            ):
                return False
            self.same(k)
        read = self.reads.below(self.source_of(x), ITEM, key)
        if key in x:
            self.reads.also(read, PRESENT, None)
        elif read.at not in self._first:
            self.reads.absent(read)
        return True

    def truth(self, x: Any) -> Any:
        """`x` of which only is asked whether it is empty."""
        t = type(x)
        if t in PLAIN or (self.is_made(x) and not is_users_type(t)):
            return x
        if looked_up(t, "__bool__") is None and isinstance(x, (list, dict, set, collections.deque)):
            self.reads.also(self.source_of(x), LENGTH, len(x))
        elif t is not tuple and (hasattr(t, "__bool__") or hasattr(t, "__len__")):
            return self.noted(x)
        return x

    def noted(self, x: Any) -> Any:
        """`x` that goes whole to code that is not watched: all that it holds is guarded."""
        if type(x) not in PLAIN:
            self.note(x)
        return x

    def shown(self, x: Any) -> Any:
        """`x` of which a text is made."""
        for part in x if isinstance(x, SEQUENCES) else x.values() if isinstance(x, dict) else (x,):
            if is_users_type(type(part)):
                self.unhooked.special(part, shown=True)
        return self.noted(x)

    def same(self, x: Any) -> Any:
        """`x` of which is asked which object it is."""
        read = self._sources.get(id(x))
        if read is not None:
            read.identity = True
        return x

    def itself(self, x: Any) -> Any:
        """`x`, to be told from other objects: of a number that is observed, the number."""
        return x.use() if type(x) is Observed else self.same(x)

    def note(self, top: Any) -> None:
        stack, visited, count = [top], set(), 0
        while stack:
            x = stack.pop()
            if type(x) is Observed:
                x.use()
                continue
            if type(x) in PLAIN or id(x) in visited:
                continue
            visited.add(id(x))
            if count > _MAX_NOTED:
                self.reads.not_seen(id(top), lambda: too_large(self.text(top)))
                return
            if is_users_type(type(x)):
                self.unhooked.special(x)
            children = self._content(x)
            count += len(children)
            stack.extend(children)

    def text(self, x: Any) -> str:
        read = self._sources.get(id(x))
        return read.text() if read is not None else f"a {type(x).__name__}"

    def _content(self, x: Any) -> list[Any]:
        """What an object holds, each part guarded unless the object was made in the trace."""
        outside = not self.is_made(x)
        if isinstance(x, SEQUENCES) or type(x) is collections.deque:
            if not outside or (isinstance(x, tuple) and id(x) not in self._sources):
                return list(x)
            source = self.source_of(x)
            self.reads.also(source, LENGTH, len(x))
            return [self.seen(self.reads.below(source, ITEM, i), v) for i, v in enumerate(x)]
        if isinstance(x, dict):
            if not outside:
                return list(x.values())
            source = self.source_of(x)
            self.reads.also(source, KEYS, tuple(x))
            return [self.seen(self.reads.below(source, ITEM, k), v) for k, v in x.items()]
        if isinstance(x, (set, frozenset)):
            if outside and isinstance(x, set):
                self.reads.also(self.source_of(x), EQUAL, type(x)(x))
            return []
        t = type(x)
        if t is types.MappingProxyType:
            if outside and all(type(v) in PLAIN and type(v) is not Tensor for v in x.values()):
                self.reads.also(self.source_of(x), EQUAL, types.MappingProxyType(dict(x)))
                return []
            return list(x.values())
        if outside and t.__module__ in OPEN_MODULES and hasattr(x, "__dict__"):
            source = self.source_of(x)
            return [self.seen(self.reads.below(source, ATTRIBUTE, n), v) for n, v in x.__dict__.items()]
        if t.__module__ == "numpy" or isinstance(x, (type, FUNCTION, METHOD, BUILTIN, types.ModuleType)):
            return []
        if not is_users_type(t) or not outside:
            return []
        self.same(x)
        source = self.source_of(x)
        names = list(getattr(x, "__dict__", ()))
        if hasattr(x, "__dict__"):
            self.reads.also(self.reads.below(source, ATTRIBUTE, "__dict__"), KEYS, tuple(names))
        for c in t.__mro__:
            slots = c.__dict__.get("__slots__", ())
            names += [slots] if isinstance(slots, str) else list(slots)
        out = []
        for name in names:
            try:
                value = object.__getattribute__(x, name)
            except AttributeError:
                continue
            out.append(self.seen(self.reads.below(source, ATTRIBUTE, name), value))
        return out

    def iterated(self, x: Any) -> Any:
        """`x` to take elements of."""
        t = type(x)
        if t in PLAIN or (self.is_made(x) and not is_users_type(t)):
            return x
        if t is dict:
            return self.keyed(x)
        if id(x) in self._sources and hasattr(t, "__next__"):
            text = self.text(x)
            self.reads.not_seen(
                ("next", id(x)),
                lambda: Unseen(
                    f"{{f}} takes elements of `{text}` only when it is traced; this call takes those that it gave then",
                    "Take them outside and pass them as arguments.",
                ),
            )
            return x
        if not isinstance(x, SEQUENCES) or (t is tuple and id(x) not in self._sources):
            return self.noted(x)
        if looked_up(t, "__iter__") not in (list.__iter__, tuple.__iter__):
            return self.noted(x)
        return self._content(x)

    def unpacked(self, x: Any) -> Any:
        return self.iterated(x)

    def mapping(self, x: Any) -> Any:
        """`x` to take all keywords of."""
        if type(x) is not dict or self.is_made(x):
            return self.noted(x)
        self.keyed(x)
        return {k: self.item(x, k) for k in x}

    def plain(self, x: Any) -> Any:
        """`x` without parameters in it, as it goes where they must not: to objects and code from outside the trace."""
        if type(x) is Observed:
            return x.use()
        if type(x) in PLAIN:
            return x
        if type(x) is tuple:
            items = [self.plain(v) for v in x]
            return tuple(items) if any(a is not b for a, b in zip(items, x)) else x
        if self.is_made(x):
            if type(x) is list:
                x[:] = [self.plain(v) for v in x]
            elif type(x) is dict:
                for k in list(x):
                    if type(x[k]) is not Tensor:
                        x[k] = self.plain(x[k])
            elif hasattr(x, "__dict__") and not isinstance(x, FUNCTION):
                for k, v in list(x.__dict__.items()):
                    if type(v) is Observed:
                        x.__dict__[k] = v.use()
        return x

    def writes(self, target: str) -> None:
        """Something outside is written by the traced function."""
        self.reads.not_seen(
            ("writes", target),
            lambda: Unseen(
                f"{{f}} writes `{target}` only when it is traced; this call did not",
                "Return the new value and write it outside the jitted function.",
            ),
        )

    def wrote(self, value: Any) -> Any:
        """What is written outside in the place of `value`."""
        value = self.plain(value)
        for watch in open_here.watches:
            watch.kept.append(value)
            watch.written.add(id(value))
        return value

    def over(self) -> None:
        """The function has been traced: what it filled is looked at."""
        if self.written:
            from lamina._filled import take  # which few traces need

            take(self)

    def now_outside(self, read: Read, value: Any) -> None:
        """Guards a value that the trace left where `read` found nothing, with all that it holds."""
        self._made.clear()  # what the trace made is there before the next one
        read.test, read.expected = ANY, None
        self._first.pop(read.at, None)
        self.seen(read, value)
        self.note(value)

    def arguments(self, args: Iterable[Any]) -> None:
        """Containers of arguments, built for this trace."""
        stack = list(args)
        while stack:
            x = stack.pop()
            if type(x) in PLAIN or id(x) in self._made:
                continue
            self.made(x)
            self._outer_types.add(id(type(x)))
            if isinstance(x, SEQUENCES):
                stack.extend(x)
            elif isinstance(x, dict):
                stack.extend(x.values())
            elif is_open(x):
                stack.extend(getattr(x, name) for name in open_names(x))

    # --- calls ---

    def outermost(self, f: Any, static: Iterable[Any]) -> Any:
        """The function to trace in the place of `f`; arguments that are not `static` were made for the trace."""
        static = list(static)
        given = {id(x) for x in static}
        self._outer_types.update(id(type(x)) for x in static)
        count_as_users(f)

        def run(*args: Any, **kwargs: Any) -> Any:
            self.stamp = _core.innermost_stamp()
            self.arguments(x for x in (*args, *kwargs.values()) if id(x) not in given)
            if self.staging is None:
                return self.noted_leaves(inner(*args, **kwargs))
            return self.noted_leaves(self.staging.result(lambda: inner(*args, **kwargs)))

        plain = getattr(f, "func", f)
        self._lasting.add(id(getattr(plain, "__func__", plain)))
        inner = self.calls.callee(f)
        if self.staging is not None:
            inner = self.staging.recursions.watched(f, inner)
        run.__name__ = getattr(f, "__name__", type(f).__name__)
        run.__wrapped__ = f  # type: ignore[attr-defined]  # whose parameters messages name
        return run

    def entered(self, f: Any) -> Any:
        """What to call in the place of `f`."""
        t = type(f)
        if t is METHOD:
            if looked_up(type(f.__self__), getattr(f.__func__, "__name__", "")) is f.__func__:
                self._lasting.add(id(f.__func__))
            inner = self.entered(f.__func__)
            return f if inner is f.__func__ else METHOD(inner, f.__self__)
        if t is not FUNCTION:
            if t is functools.partial:
                self.held(f)
                inner = self.entered(f.func)
                return f if inner is f.func else functools.partial(inner, *f.args, **f.keywords)
            if t in GETTERS:
                return self.calls.getter(f)
            call = self.method_of(t, "__call__")
            return f if call is None else METHOD(self.entered(call), f)
        if has_hooks(f.__code__):
            return f
        found = self._copies.get(id(f))
        if found is None:
            self.kept.append(f)
            self.held(f)
            if self._lasts(f):
                self._code(f)
            self._copies[id(f)] = f  # while its cells are looked at, which may hold it
            found = self._watched(f) if is_users(f.__code__.co_filename) else self._around(f)
            self._copies[id(f)] = found
        return found

    def constructor(self, init: types.FunctionType) -> None:
        """Guards a class's ``__init__`` that runs without hooks, as a dataclass's: its code and defaults."""
        self._lasting.add(id(init))
        self.entered(init)

    def held(self, f: Any) -> None:
        """Arrays among the defaults of a function, and the arguments that a partial holds, are read in each call; so are
        all keywords of a partial, which may be written to.
        """
        partial = type(f) is functools.partial
        for name in ("args", "keywords") if partial else ("__defaults__", "__kwdefaults__"):
            values = getattr(f, name)
            every = name == "keywords" and not self.is_made(f)
            for key, x in values.items() if isinstance(values, dict) else enumerate(values or ()):
                if not every and type(x) is not Tensor and (type(x) in PLAIN or _core.content_of(x) is None):
                    continue
                read = self.reads.below(self.source_of(f, "", weak=True), ATTRIBUTE, name)
                if read.test == ANY:
                    self.reads.expect(read, values)
                found = self.seen(self.reads.below(read, ITEM, key), x)
                if type(found) is Observed:
                    found.use()
            if every:
                read = self.reads.below(self.source_of(f, "", weak=True), ATTRIBUTE, name)
                self.reads.also(read, KEYS, tuple(values))

    def _lasts(self, f: types.FunctionType) -> bool:
        return id(f) in self._lasting or id(f) in self._sources

    def _code(self, f: types.FunctionType) -> None:
        """Guards a function's code and defaults, which may be replaced in place, as notebooks do where a module has
        changed.
        """
        source = self.source_of(f, f.__name__, weak=True)
        self.seen(self.reads.below(source, ATTRIBUTE, "__code__"), f.__code__)
        for name in ("__defaults__", "__kwdefaults__"):
            values = getattr(f, name)
            if values:
                read = self.reads.below(source, ATTRIBUTE, name)
                if read.test == ANY:
                    self.reads.expect(read, values)
                read.identity = True

    def _watched(self, f: types.FunctionType) -> Any:
        code = rewritten(f.__code__, self.staging is not None)
        if code is None:
            return self.unhooked.copy_of(f)
        cells = dict(zip(f.__code__.co_freevars, f.__closure__ or ()))
        hooks = types.CellType(self._hooks(f.__globals__, cells))
        return copy_with(f, code, tuple(cells.get(n, hooks) for n in code.co_freevars))

    def _hooks(self, names: dict[str, Any], cells: dict[str, types.CellType]) -> Hooks:
        if self.staging is None:
            return Hooks(self, names, cells)
        from lamina._convert.hooks import Converted

        return Converted(self, names, cells, self.staging)

    def _around(self, f: types.FunctionType) -> Any:
        """A library's function around functions of the user, as a decorator makes it: around their copies."""
        cells = f.__closure__ or ()
        ours = f.__globals__.get("__name__", "").startswith(
            "lamina."
        )  # its __module__ is that of what it wraps
        new = [self._cell(c, self._lasts(f), ours) for c in cells]
        return f if all(a is b for a, b in zip(cells, new)) else copy_with(f, f.__code__, tuple(new))

    def _cell(self, cell: types.CellType, lasting: bool, transforms: bool) -> types.CellType:
        try:
            inner = cell.cell_contents
        except ValueError:
            return cell
        if type(inner) not in (FUNCTION, METHOD, functools.partial):
            return cell
        if lasting:
            self._lasting.add(id(getattr(inner, "__func__", inner)))
        copy = self.entered(inner)
        if transforms and self.staging is not None:
            copy = self.staging.framed(self.staging.recursions.watched(inner, copy))
        return cell if copy is inner else types.CellType(copy)

    def noted_leaves(self, x: Any) -> Any:
        """A container for the library: its content is guarded; numbers in it are taken as they are."""
        if self.is_made(x) or (type(x) is tuple and id(x) not in self._sources):
            for v in x.values() if isinstance(x, dict) else x if isinstance(x, SEQUENCES) else ():
                if type(v) not in PLAIN:
                    self.noted_leaves(v)
            return x
        return self.noted(x)

    # --- a jitted function called inside ---

    def adopt(self, reads: ReadSet) -> tuple[Tensor, ...]:
        """Makes what a jitted function called in this trace reads a part of it; its hidden arguments for this call."""
        if reads is self.reads:
            return reads.now_hidden()  # it calls itself
        mine: dict[int, Any] = {}
        now = reads.now()
        for r in reads.reads:
            if r.parent is None:
                holder = r.holder()
                found = self._sources.get(id(holder)) or self.reads.root(holder, r.label, r.access == WEAK)
                if r.access != CELL:
                    self._sources.setdefault(id(holder), found)
                    self.kept.append(holder)
            elif r.test == ONE_VALUE:
                continue  # asked when this trace is done
            elif r.key is None:
                found = mine[id(r.parent)]
                self.reads.also(found, r.test, r.expected)
            else:
                found = self.reads.below(mine[id(r.parent)], r.access, r.key)
            if r.test == ABSENT:
                self.reads.absent(found)
            elif r.key is not None and r.test != ANY:
                self.seen(found, now[r.at])
                found.identity |= r.identity
            mine[id(r)] = found
            if r.number is not None:
                number = found.number
                if number is None:  # written in this trace
                    number = Observed(r.expected, self.reads)
                mine[id(r.number)] = number
                number.used |= r.number.used
        for o in reads.derivations():
            f, operands = o.of  # type: ignore[misc]
            out = self.reads.derived(f, tuple(mine.get(id(x), x) for x in operands), False)
            if type(out) is Observed:  # a guarded number may be a hidden argument too
                out.used |= o.used
            mine[id(o)] = out
        return tuple(mine[id(h)].tensor if type(h) is Observed else h.expected for h in reads.hidden())
