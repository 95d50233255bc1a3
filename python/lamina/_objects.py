"""What kind of object or function it is: the user's, the library's, or of neither."""

from __future__ import annotations

import functools
import operator
import os
import sys
import types
from typing import Any

from lamina import _core, tree
from lamina._core import Tensor
from lamina._observed import Observed

_LIBRARY = (
    os.path.dirname(os.path.abspath(__file__)) + os.sep,
    os.path.dirname(os.__file__) + os.sep,
)
FUNCTION, METHOD, BUILTIN = types.FunctionType, types.MethodType, types.BuiltinFunctionType
# Values that nothing can be read of: passed on as they are. A frame tells of the call that traces, which is another one
# each time.
PLAIN: frozenset[type] = frozenset(
    (
        *(Tensor, bool, int, float, complex, str, bytes, type(None), range, slice, type(...), Observed),
        *(types.FrameType, types.TracebackType),
    )
)
SEQUENCES = (list, tuple)
GETTERS = (operator.attrgetter, operator.itemgetter, operator.methodcaller)
_HEAP_TYPE = 1 << 9  # CPython's flag of classes made at run time
# Of Python's own, in whose objects (UserDict, os.environ, ConfigParser, WeakKeyDictionary) the user keeps values.
OPEN_MODULES = frozenset(("collections", "os", "configparser", "weakref"))


# Names in code by which it asks for attributes and names that are texts.
BY_TEXT = frozenset(("__dict__", "getattr", "hasattr", "vars", "attrgetter", "globals", "eval", "exec"))


# Installed packages that have jitted functions of their own: their code is watched as the user's is.
_packages: set[str] = set()


def count_as_users(f: Any) -> None:
    """Watches the code of the package that `f` comes from, wherever that is installed."""
    name = (getattr(f, "__module__", None) or type(f).__module__).partition(".")[0]
    file = getattr(sys.modules.get(name), "__file__", None)
    if file is not None and name != "lamina" and not is_users(file) and "-packages" in file:
        _packages.add(os.path.dirname(file) + os.sep if os.path.basename(file) == "__init__.py" else file)


def is_users(path: str | None) -> bool:
    """Whether a file holds code of the user: not this library's, nor Python's, nor an installed package's."""
    if path is None or path.startswith("<frozen "):  # as Python's os and collections.abc are
        return False
    if "site-packages" in path or "dist-packages" in path:
        return any(path.startswith(p) for p in _packages)
    return not path.startswith(_LIBRARY)


def is_users_module(m: Any) -> bool:
    """Whether a module is the user's: from such a file or folder, or made by hand as a notebook's is."""
    file = getattr(m, "__file__", None)
    if file is not None:
        return is_users(file)
    return getattr(m, "__spec__", None) is None or any(
        is_users(p + os.sep) for p in getattr(m, "__path__", ())
    )


def is_users_type(t: type) -> bool:
    """Whether a class is the user's, or as open as one."""
    if t is types.SimpleNamespace or t.__module__ == "__main__":
        return True
    if t.__module__ == "builtins":  # so are classes of code that is executed in a dict without a name
        return "__dict__" in t.__dict__ and bool(t.__flags__ & _HEAP_TYPE)
    module = sys.modules.get(t.__module__)
    return module is None or is_users_module(module)


def is_ours(f: Any) -> bool:
    module = getattr(f, "__module__", None) or ""
    return module == "lamina" or module.startswith("lamina.")


def looked_up(t: type, name: str) -> Any:
    """What a class gives a name, itself and not bound; None if nothing."""
    for c in t.__mro__:
        if name in c.__dict__:
            return c.__dict__[name]
    return None


def is_tree(x: Any) -> bool:
    return tree.is_open(x) or type(x) in tree._registry


@functools.lru_cache(maxsize=4096)
def names_of(code: types.CodeType) -> set[str]:
    """The names of globals and attributes that code uses, and the functions inside it; as text too, if it asks so."""
    names = set(code.co_names)
    by_text = not names.isdisjoint(BY_TEXT)
    for c in code.co_consts:
        if isinstance(c, types.CodeType):
            names |= names_of(c)
        elif by_text and isinstance(c, str) and c.isidentifier():
            names.add(c)
    return names


@functools.lru_cache(maxsize=4096)
def asked_of(code: types.CodeType, name: str) -> set[str]:
    """The names that code, and the functions inside it, may ask of what it finds under a name."""
    if not names_of(code).isdisjoint(BY_TEXT):
        return names_of(code)
    import dis

    found: set[str] = set()
    before = None
    for i in dis.get_instructions(code):
        if before in ("LOAD_GLOBAL", "LOAD_NAME") and i.opname in ("LOAD_ATTR", "LOAD_METHOD", "PUSH_NULL"):
            if i.opname == "PUSH_NULL":
                continue
            found.add(i.argval)
        elif before in ("LOAD_GLOBAL", "LOAD_NAME"):
            return names_of(code)  # which goes on under another name
        before = i.opname if i.argval == name else None
    return found.union(*(asked_of(c, name) for c in code.co_consts if isinstance(c, types.CodeType)))


def finds_by_code(module: types.ModuleType) -> bool:
    """Whether a module finds its names, or those that it lacks, by code, which may warn, count or load a library."""
    t = type(module)
    return (
        "__getattr__" in vars(module)
        or looked_up(t, "__getattr__") is not None
        or looked_up(t, "__getattribute__") is not looked_up(types.ModuleType, "__getattribute__")
    )


def is_native(value: Any) -> bool:
    """Whether it is a function of C code, which is made anew at each look."""
    if isinstance(value, METHOD):
        return not isinstance(value.__func__, FUNCTION)
    return isinstance(
        value, (BUILTIN, types.MethodWrapperType, types.MethodDescriptorType, types.WrapperDescriptorType)
    )


def lasts(x: Any, name: str, value: Any) -> bool:
    """Whether an attribute is the same at each look, as a class's ``__dict__`` is not; of methods guards know."""
    return isinstance(value, METHOD) or getattr(x, name) is value


def never_changes(t: type) -> bool:
    return t in PLAIN or t.__module__.partition(".")[0] in ("jax", "jaxlib")


def is_read_only(array: Any) -> bool:
    """Whether nobody who keeps to its flags can write an array's memory: neither through it nor what it is a view of."""
    while hasattr(array, "base"):
        if not _core.is_read_only(array):
            return False
        array = array.base
    return array is None or _core.is_read_only(array)


def copy_with(f: types.FunctionType, code: types.CodeType, closure: tuple[types.CellType, ...]) -> Any:
    """A copy of the function that runs other code, with other cells."""
    copy = types.FunctionType(code, f.__globals__, f.__name__, f.__defaults__, closure)
    copy.__kwdefaults__, copy.__qualname__, copy.__module__ = f.__kwdefaults__, f.__qualname__, f.__module__
    copy.__doc__ = f.__doc__
    copy.__dict__.update(f.__dict__)
    return copy
