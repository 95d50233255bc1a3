"""What blocks of the user's code may change: variables, containers, attributes and Tensors that are written in place.

A `Heap` is everything of that kind that some functions can reach. It is compared with what it was before a block ran,
and put back.
"""

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable, Iterable
from typing import Any

from lamina import _core
from lamina._convert.errors import refusal
from lamina._convert.signals import MISSING, Maybe
from lamina._core import Tensor
from lamina._objects import FUNCTION, METHOD, PLAIN, is_users, is_users_type, names_of

_MOST = 20_000  # objects that are looked at
HIDDEN = "__lamina"  # how names begin that are not the user's
_NUMBERS = PLAIN - {Tensor}
_CONTAINERS = (list, dict, set, collections.deque)


class Place:
    """Somewhere a value stands: a variable's cell, an item of a container, an attribute, or a Tensor's own value."""

    __slots__ = ("holder", "key", "kind", "name")

    def __init__(self, kind: str, holder: Any, key: Any, name: str) -> None:
        self.kind, self.holder, self.key, self.name = kind, holder, key, name

    def at(self) -> tuple[str, int, Any]:
        return self.kind, id(self.holder), self.key

    def read(self) -> Any:
        if self.kind == "cell":
            return _of_cell(self.holder)
        if self.kind == "tensor":
            return _core.set_weak(self.holder, self.holder.weak_type)
        return contents(self.holder).get(self.key, MISSING)

    def write(self, value: Any) -> None:
        if self.kind == "cell":
            if value is MISSING:
                if _of_cell(self.holder) is not MISSING:
                    del self.holder.cell_contents
            else:
                self.holder.cell_contents = value
        elif self.kind == "tensor":
            from lamina._tensor import write

            write(self.holder, value)
        elif isinstance(self.holder, (list, dict, collections.deque)):
            if value is MISSING:
                del self.holder[self.key]
            elif not isinstance(self.holder, dict) and self.key == len(self.holder):
                self.holder.append(value)
            else:
                self.holder[self.key] = value
        elif isinstance(self.holder, set):
            (self.holder.discard if value is MISSING else self.holder.add)(self.key)
        elif value is MISSING:
            object.__delattr__(self.holder, self.key)
        else:
            object.__setattr__(self.holder, self.key, value)


def _of_cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def contents(x: Any) -> dict[Any, Any]:
    """What a container or an object holds, by key or name."""
    if isinstance(x, dict):
        return dict(x)
    if isinstance(x, (list, collections.deque)):
        return dict(enumerate(x))
    if isinstance(x, set):
        return dict.fromkeys(x, None)
    out = dict(getattr(x, "__dict__", ()))
    for c in type(x).__mro__:
        slots = c.__dict__.get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else slots:
            value = getattr(x, name, MISSING) if name not in ("__dict__", "__weakref__") else MISSING
            if value is not MISSING:
                out[name] = value
    return out


def holds(x: Any, before: dict[Any, Any]) -> bool:
    """Whether a container holds the very things that it held before."""
    now = contents(x)
    return now.keys() == before.keys() and all(now[k] is v for k, v in before.items())


def _put_back(x: Any, before: dict[Any, Any]) -> None:
    if holds(x, before):
        return
    now = contents(x)
    if isinstance(x, dict):
        x.clear()
        x.update(before)
    elif isinstance(x, list):
        x[:] = before.values()
    elif isinstance(x, collections.deque):
        x.clear()
        x.extend(before.values())
    elif isinstance(x, set):
        x.clear()
        x.update(before)
    else:
        for k in now.keys() - before.keys():
            object.__delattr__(x, k)
        for k, v in before.items():
            if now.get(k, MISSING) is not v:
                object.__setattr__(x, k, v)


class Heap:
    """What functions reach: their variables, those of functions in them, containers and objects of the user."""

    def __init__(self, functions: Iterable[Callable[..., Any]]) -> None:
        self.cells: dict[int, tuple[types.CellType, str]] = {}
        self.globals: dict[tuple[int, str], tuple[dict[str, Any], str]] = {}
        self.holders: dict[int, Any] = {}
        self.names: dict[int, str] = {}
        self.tensors: dict[int, Tensor] = {}
        self.iterators: dict[int, Any] = {}
        self._visited: set[int] = set()
        stack: list[tuple[Any, str]] = [(f, "") for f in functions if f is not None]
        while stack and len(self._visited) < _MOST:
            self._visit(*stack.pop(), stack)

    def _visit(self, x: Any, name: str, stack: list[tuple[Any, str]]) -> None:
        t = type(x)
        if t is Tensor:
            if id(x) not in self.tensors:
                self.tensors[id(x)] = x
                self.names[id(x)] = name
            return
        if t in PLAIN or id(x) in self._visited:
            return
        self._visited.add(id(x))
        if t is FUNCTION:
            if is_users(x.__code__.co_filename):
                self._function(x, stack)
        elif t is METHOD:
            stack += [(x.__self__, "self"), (x.__func__, "")]
        elif t is functools.partial:
            stack += [(x.func, ""), (x.args, name), (x.keywords, name)]
        elif t is Maybe:
            stack.append((x.value, name))
        elif isinstance(x, (tuple, frozenset)):
            stack.extend((v, f"{name}[{i}]") for i, v in enumerate(x))
        elif isinstance(x, (types.GeneratorType, *_ITERATORS)):
            self.iterators[id(x)] = x
            self.names[id(x)] = name
        elif isinstance(x, _CONTAINERS) or (is_users_type(t) and not isinstance(x, (type, types.ModuleType))):
            self.holders[id(x)] = x
            self.names[id(x)] = name
            stack.extend((v, part(x, name, k)) for k, v in contents(x).items() if type(v) not in _NUMBERS)

    def _function(self, f: Any, stack: list[tuple[Any, str]]) -> None:
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
            if name == "__lamina__" or id(cell) in self.cells:
                continue
            self.cells[id(cell)] = cell, name
            value = _of_cell(cell)
            if value is not MISSING:
                stack.append((value, name))
        for name in names_of(f.__code__):
            if name in f.__globals__ and not isinstance(f.__globals__[name], types.ModuleType):
                self.globals[id(f.__globals__), name] = f.__globals__, name
                stack.append((f.__globals__[name], name))

    def state(self) -> State:
        return State(self)


def part(x: Any, name: str, key: Any) -> str:
    return f"{name}[{key!r}]" if isinstance(x, _CONTAINERS) else f"{name}.{key}"


_ITERATORS = tuple(type(iter(x)) for x in ([], (), "", range(0), {}, {}.values(), {}.items(), set()))
_ITERATORS += (zip, enumerate, map, filter, reversed)


def _progress(x: Any) -> Any:
    if isinstance(x, types.GeneratorType):
        return x.gi_frame.f_lasti if x.gi_frame is not None else None
    try:
        return repr(x.__reduce__()[2:]) if isinstance(x, _ITERATORS[:4]) else repr(x.__reduce__()[1:])
    except TypeError:
        return None


class State:
    """A heap as it is when this is made."""

    def __init__(self, heap: Heap) -> None:
        self.heap = heap
        self.cells = {i: _of_cell(c) for i, (c, _) in heap.cells.items()}
        self.globals = {i: g.get(name, MISSING) for i, (g, name) in heap.globals.items()}
        self.holders = {i: contents(x) for i, x in heap.holders.items()}
        self.progress = {i: _progress(x) for i, x in heap.iterators.items()}

    def changes(self) -> list[tuple[Place, Any, Any]]:
        """Where the heap is another now: (place, value before, value now), without Tensors written in place."""
        out = []
        for i, (cell, name) in self.heap.cells.items():
            now = _of_cell(cell)
            if now is not self.cells[i] and not name.startswith(HIDDEN):
                out.append((Place("cell", cell, None, name), self.cells[i], now))
        for i, (names, name) in self.heap.globals.items():
            now = names.get(name, MISSING)
            if now is not self.globals[i]:
                out.append((Place("item", names, name, name), self.globals[i], now))
        for i, x in self.heap.holders.items():
            before, now = self.holders[i], contents(x)
            for k in {**before, **now}:
                a, b = before.get(k, MISSING), now.get(k, MISSING)
                if a is not b:
                    out.append((Place("item", x, k, part(x, self.heap.names[i], k)), a, b))
        for i, x in self.heap.iterators.items():
            if _progress(x) != self.progress[i]:
                raise refusal(
                    f"an iterator (`{self.heap.names[i]}`) is advanced under a traced test: it cannot be "
                    "advanced on one side only",
                    "Take its elements before the branch, or index the container.",
                )
        return out

    def put_back(self) -> None:
        for i, (cell, _) in self.heap.cells.items():
            if _of_cell(cell) is not self.cells[i]:
                Place("cell", cell, None, "").write(self.cells[i])
        for i, (names, name) in self.heap.globals.items():
            if names.get(name, MISSING) is not self.globals[i]:
                Place("item", names, name, "").write(self.globals[i])
        for i, x in self.heap.holders.items():
            _put_back(x, self.holders[i])
