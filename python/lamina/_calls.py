"""Calls that a traced function makes: what runs in the place of each callee, so that nothing it reads is missed."""

from __future__ import annotations

import collections
import functools
import math
import operator
import os
import sys
import types
import weakref
from typing import TYPE_CHECKING, Any

from lamina._core import Tensor
from lamina._later import contextvars, inspect
from lamina._objects import (
    BUILTIN,
    FUNCTION,
    GETTERS,
    METHOD,
    OPEN_MODULES,
    PLAIN,
    is_ours,
    is_tree,
    is_users,
    is_users_type,
    looked_up,
)
from lamina._observed import Observed, derived
from lamina._process_state import note_call, note_kinds
from lamina._read_set import ATTRIBUTE, CONTEXT, ITEM, Unseen
from lamina._rewrite import HOOKS, rewritten

if TYPE_CHECKING:
    from lamina._watch import Watch

# Called as they are: they read nothing of their arguments, or look at the frame that calls them.
_RAW: frozenset[Any] = frozenset(
    (
        callable,
        super,
        globals,
        property,
        staticmethod,
        classmethod,
        object,
        sys._getframe,
        breakpoint,
        delattr,
    )
)
# Called with the elements of sequences that were read, numbers among them as parameters.
_OVER_ELEMENTS: frozenset[Any] = frozenset(
    (
        enumerate,
        zip,
        map,
        filter,
        list,
        tuple,
        reversed,
        iter,
        sum,
        min,
        max,
        any,
        all,
        sorted,
        set,
        frozenset,
    )
)
# Those of them that only hand elements on; map and filter do where they call a watched function.
_HAND_ON: frozenset[Any] = frozenset((enumerate, zip, list, tuple, reversed, iter))
_OF_NUMBERS: frozenset[Any] = frozenset((float, int, abs, round, pow))
_MAKES: frozenset[Any] = frozenset(
    (list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict)
)
_OF_TEXT: frozenset[Any] = frozenset((str, repr, format, print, ascii))
# Methods of containers that change them.
WRITES = frozenset(
    [
        "append",
        "extend",
        "insert",
        "remove",
        "pop",
        "popitem",
        "clear",
        "update",
        "setdefault",
        "add",
        "discard",
        "sort",
        "reverse",
        "appendleft",
        "popleft",
    ]
)


class Calls:
    """Chooses what a watched function calls."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def callee(self, f: Any) -> Any:
        """What the traced function calls in the place of `f`."""
        t = type(f)
        if t is FUNCTION:
            if is_users(f.__code__.co_filename):
                return self.watch.entered(f)
            if f in _RAW or (f.__name__ == "currentframe" and f is inspect.currentframe):
                return f
            if f is os.getenv:
                self.watch.noted(os.environ)
            if isinstance(getattr(f, "registry", None), types.MappingProxyType) and hasattr(f, "dispatch"):
                return functools.partial(self._dispatched, f)
            return self._ours(f) if is_ours(f) else self._foreign(self.watch.entered(f), f)
        if t is METHOD:
            inner = f.__func__
            if isinstance(inner, FUNCTION):
                if is_users(inner.__code__.co_filename):
                    return self.watch.entered(f)
                if is_ours(inner):
                    return self._ours(f)
                self._opaque(f.__self__)
                if any(t.__module__ in OPEN_MODULES for t in type(f.__self__).__mro__):
                    self.watch.noted(f.__self__)
                return self._foreign(self.watch.entered(f), f)
            return self._foreign(f, f)
        if isinstance(f, type):
            return self._class(f)
        if f is object.__setattr__:
            return functools.partial(self._setattr, f)
        if t is BUILTIN or t is types.MethodDescriptorType or t is types.MethodWrapperType:
            return self._builtin(f)
        if is_ours(t):
            return (
                self._ours(f) if t.__module__ == "lamina" else f
            )  # of C code; a jitted function or custom rule
        if t is functools._lru_cache_wrapper:
            self.watch.unhooked.note_called(f.__wrapped__)  # it runs without hooks: its results are kept
        if t is functools.partial:
            self.watch.held(f)
            inner = self.callee(f.func)
            return functools.partial(inner, *f.args, **f.keywords)
        watched = self.watch.entered(f)
        if watched is not f:
            return watched
        self._opaque(f)
        return self._foreign(f, f)

    def _opaque(self, x: Any) -> None:
        """An object of an installed package is asked to do something: what it reads of itself is not seen."""
        if not hasattr(x, "__dict__") or isinstance(x, type) or type(x).__module__ in sys.stdlib_module_names:
            return
        try:
            holder = weakref.ref(x)
        except TypeError:
            return
        text = self.watch.text(x)
        self.watch.reads.not_seen(
            ("asks", id(x)),
            lambda: Unseen(
                f"{{f}} asks `{text}`, whose class {type(x).__module__}.{type(x).__qualname__} is not watched, and its "
                "attributes have changed since",
                "Pass what changes as an argument.",
                lambda: _attributes(holder()),
            ),
        )

    def _given(self, a: Any) -> Any:
        """An argument of the library's functions, which know parameters."""
        t = type(a)
        if t in PLAIN:
            return a
        if t in (FUNCTION, METHOD, functools.partial):
            inner = self.watch.entered(a)
            staging = self.watch.staging
            return inner if staging is None else staging.framed(staging.recursions.watched(a, inner))
        if isinstance(a, (list, tuple, dict)) or is_tree(a):
            return self.watch.noted_leaves(a)
        if any(hasattr(t, n) for n in ("__index__", "__float__", "__array__")):
            return self.watch.noted(a)
        return self.watch.entered(a)

    def _ours(self, f: Any) -> Any:
        if getattr(f, "__name__", "") in ("jit", "pure_callback"):
            return f

        def call(*args: Any, **kwargs: Any) -> Any:
            return inner(*[self._given(a) for a in args], **{k: self._given(v) for k, v in kwargs.items()})

        def call_on_trees(*args: Any, **kwargs: Any) -> Any:
            trees = [self._given(a) if i < functions else self._tree(a) for i, a in enumerate(args)]
            return inner(*trees, **{k: self._tree(v) for k, v in kwargs.items()})

        inner = self.watch.entered(f)
        if getattr(f, "__module__", "") not in ("lamina.tree", "lamina.tree_util"):
            return call
        functions = int(any(part in f.__name__ for part in ("map", "reduce")))
        return call_on_trees

    def _tree(self, a: Any) -> Any:
        """An argument of a function of containers: a class or an object that can be called is a leaf as it is."""
        known = type(a) in PLAIN or type(a) in (FUNCTION, METHOD, functools.partial)
        return self._given(a) if known else self.watch.noted_leaves(a)

    def _foreign(self, f: Any, named: Any, over: bool = False) -> Any:
        """A call of code that is not watched."""
        calls = named is map or named is filter
        asks = over and named not in _HAND_ON
        makes = (isinstance(named, type) and named in _MAKES) or named is sorted
        makes_text = isinstance(named, (type, BUILTIN)) and named in _OF_TEXT

        def given(a: Any, asked: bool) -> Any:
            t = type(a)
            if t is Tensor:
                return a
            if t in (FUNCTION, METHOD, functools.partial, *GETTERS):
                return self.watch.entered(a)
            if over:
                a = self.watch.iterated(a)
                for x in a if asked and isinstance(a, (list, tuple)) else ():
                    if is_users_type(type(x)):
                        self.watch.noted(x)
                return a
            a = self.watch.plain(a)
            return self.watch.shown(a) if makes_text else self.watch.noted(a)

        def call(*args: Any, **kwargs: Any) -> Any:
            if self.watch.closed:
                return f(*args, **kwargs)
            if calls and args and is_users_type(type(args[0])):
                args = (self.watch.entered(args[0]), *args[1:])
            asked = asks and not (calls and args and type(args[0]) in (FUNCTION, METHOD, *GETTERS))
            args = tuple([given(a, asked) for a in args])
            kwargs = {k: given(v, asked) for k, v in kwargs.items()}
            note_call(self.watch.reads, f, named, args, kwargs)
            out = f(*args, **kwargs)
            return self.watch.made(out) if makes else out

        return call

    def _class(self, c: type) -> Any:
        if c in _RAW:
            return c
        if c is range or c is slice:  # which take parameters
            return lambda *a: c(*[self.watch.noted(x) for x in a])
        if c is type:
            return lambda *a: type(*[x.value if type(x) is Observed else x for x in a])
        if c in _OF_NUMBERS:
            return self._number(c)
        if c in _OVER_ELEMENTS:
            return self._foreign(c, c, over=True)
        if c is dict:
            return lambda *a, **k: self.watch.made(dict(*[self.watch.mapping(x) for x in a], **k))
        if not is_users_type(c) or issubclass(c, BaseException):
            return c if is_ours(c) else self._foreign(c, c)
        init = looked_up(c, "__init__")
        watched = type(c).__call__ is type.__call__ and isinstance(init, FUNCTION)
        own = self.watch.method_of(type(c), "__call__")
        if own is not None:
            return METHOD(self.watch.entered(own), c)
        if not watched or not is_users(init.__code__.co_filename) or rewritten(init.__code__) is None:
            if isinstance(init, FUNCTION) and is_users(init.__code__.co_filename):
                self.watch.constructor(init)
            return lambda *a, **k: self.watch.made(c(*a, **k))

        def make(*args: Any, **kwargs: Any) -> Any:
            x = object.__new__(c) if c.__new__ is object.__new__ else c.__new__(c, *args, **kwargs)
            if isinstance(x, c):
                self.watch.made(x)
                self.watch.entered(init)(x, *args, **kwargs)
            return x

        return make

    def _number(self, f: Any) -> Any:
        other = self._foreign(f, f)

        def call(*args: Any, **kwargs: Any) -> Any:
            if not kwargs and any(type(a) is Observed for a in args):
                return derived(f, *args)
            return other(*args, **kwargs)

        return call

    def _builtin(self, f: Any) -> Any:
        owner = getattr(f, "__self__", None)
        if owner is not None and not isinstance(owner, types.ModuleType):
            return self._bound(f, owner, f.__name__)
        if f in _RAW:
            return f
        if f is locals:
            return lambda: {k: v for k, v in sys._getframe(1).f_locals.items() if k != HOOKS}
        if f is isinstance or f is issubclass:
            return functools.partial(self._of_kinds, f)
        if f is eval or f is exec:
            return functools.partial(self._of_source, f)
        if f is id or f is hash:
            return lambda x: f(self.watch.itself(x))
        if f is len:
            return self._length
        if f is getattr:
            return self._getattr
        if f is next:
            return lambda x, *default: next(self.watch.iterated(x), *default)
        if f is hasattr:
            return self._hasattr
        if f is setattr:
            return functools.partial(self._setattr, f)
        if f in _OVER_ELEMENTS:
            return self._foreign(f, f, over=True)
        if f in _OF_NUMBERS or (f.__module__ == "math" and f is not math.fsum):
            return self._number(f)
        return self._foreign(f, f)

    def _of_source(self, f: Any, source: Any, /, *scope: Any, **closure: Any) -> Any:
        """``eval`` or ``exec``, where it is written: what the names in the source say is guarded."""
        if not scope:
            caller = sys._getframe(1)
            here = caller.f_locals  # from Python 3.13 on a view of the frame; plain eval is given a copy, too
            scope = (caller.f_globals, here if isinstance(here, dict) else dict(here))
        names, *inner = scope
        if isinstance(source, (str, bytes)):
            source = compile(source, "<string>", f.__name__)
        self.watch.unhooked.note_executed(source, names, *inner)
        return f(source, names, *inner, **closure)

    def _of_kinds(self, f: Any, x: Any, kinds: Any, /) -> bool:
        """``isinstance`` or ``issubclass`` of one class or of a tuple of them, which may have been read."""
        if type(kinds) is not type:  # a class that answers as all do
            note_kinds(self.watch.reads, f, x, self.watch.noted(kinds))
        return f(x, kinds)

    def _length(self, x: Any) -> int:
        own = self.watch.method_of(type(x), "__len__")
        return len(self.watch.truth(x)) if own is None else self.watch.entered(own)(x)

    def _getattr(self, x: Any, name: str, *default: Any) -> Any:
        try:
            return self.watch.attribute(x, name)
        except AttributeError:
            if not default:
                raise
            self._stands_in(x, ATTRIBUTE, name, default[0])
            return default[0]

    def _stands_in(self, x: Any, access: int, key: Any, default: Any) -> None:
        """A default is taken for what `x` lacks: what the trace then writes there may go on from it."""
        if default is None or type(default) is object or type(x) in PLAIN or self.watch.is_made(x):
            return
        key = self.watch.plain(key)
        self.watch.stood_in.add(self.watch.reads.below(self.watch.source_of(x), access, key).at)

    def _setattr(self, f: Any, x: Any, name: str, value: Any) -> None:
        f(x, name, value if self.watch.is_made(x) else self.watch.wrote(value))

    def _hasattr(self, x: Any, name: str) -> bool:
        missing = object()
        return self._getattr(x, name, missing) is not missing

    def _bound(self, f: Any, owner: Any, name: str) -> Any:
        """A method of an object of C code."""
        if isinstance(owner, type) or (type(owner) in PLAIN and type(owner) is not str):
            return f if is_ours(type(owner)) or type(owner) is Tensor else self._foreign(f, f)
        made = self.watch.is_made(owner)
        if isinstance(owner, dict):
            if made:
                return f
            if name == "get":
                return functools.partial(self._dict_get, owner)
            if name == "setdefault":
                return functools.partial(self._dict_setdefault, owner)
            if name == "items":
                return lambda: [(k, self.watch.item(owner, k)) for k in self.watch.keyed(owner)]
            if name == "values":
                return lambda: [self.watch.item(owner, k) for k in self.watch.keyed(owner)]
            if name == "keys":
                self.watch.keyed(owner)
                return f
            if name == "copy":
                return lambda: self.watch.made(type(owner)(self.watch.mapping(owner)))
        elif made and isinstance(owner, (list, set, collections.deque)):
            return f
        elif name == "get" and not made and isinstance(owner, contextvars.ContextVar):
            return functools.partial(self._context_get, owner)
        if name in WRITES and not made and isinstance(owner, (dict, list, set, collections.deque)):
            self.watch.writes(f"{self.watch.text(owner)}.{name}(...)")
        if name not in WRITES or name == "pop":
            self.watch.noted(owner)
        return self._foreign(f, f)

    def getter(self, f: Any) -> Any:
        """An ``operator.attrgetter``, ``itemgetter`` or ``methodcaller`` whose reads are seen."""
        make, given = f.__reduce__()
        if type(f) is operator.methodcaller:
            name, *args = (*make.args, *given) if isinstance(make, functools.partial) else given
            keywords = getattr(make, "keywords", {})
            return lambda x: self.callee(self.watch.attribute(x, name))(*args, **keywords)
        if type(f) is operator.attrgetter:
            reads = [
                lambda x, path=path: functools.reduce(self.watch.attribute, path.split("."), x)
                for path in given
            ]
        else:
            reads = [lambda x, key=key: self.watch.item(x, key) for key in given]
        return lambda x: reads[0](x) if len(reads) == 1 else tuple([read(x) for read in reads])

    def _context_get(self, x: contextvars.ContextVar[Any], *default: Any) -> Any:
        read = self.watch.reads.below(self.watch.source_of(x), CONTEXT, None)
        try:
            return self.watch.seen(read, x.get())
        except LookupError:
            self.watch.reads.absent(read)
            return x.get(*default)

    def _dispatched(self, f: Any, *args: Any, **kwargs: Any) -> Any:
        """A call of a single-dispatch function, whose table of types may grow."""
        self.watch.noted(inspect.getclosurevars(f.dispatch).nonlocals["registry"])
        chosen = f.dispatch(type(args[0].value if type(args[0]) is Observed else args[0]))
        return self.callee(chosen)(*args, **kwargs)

    def _dict_get(self, x: dict[Any, Any], key: Any, default: Any = None) -> Any:
        try:
            return self.watch.item(x, key)
        except KeyError:
            self._stands_in(x, ITEM, key, default)
            return default

    def _dict_setdefault(self, x: dict[Any, Any], key: Any, default: Any = None) -> Any:
        if key in x:
            return self.watch.item(x, key)
        self.watch.writes(f"{self.watch.text(x)}.setdefault(...)")
        x.setdefault(self.watch.plain(key), self.watch.plain(default))
        return self.watch.item(x, key)


def _attributes(x: Any) -> Any:
    """What an object's attributes are now: values that are plain, and which objects the others are."""
    return {
        k: v if type(v) in PLAIN and type(v) is not Tensor else id(v)
        for k, v in getattr(x, "__dict__", {}).items()
    }
