"""What the copies of functions that are traced call and find in the place of what they read."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lamina._core import Tensor
from lamina._objects import BUILTIN, FUNCTION, PLAIN, asked_of, finds_by_code, is_ours
from lamina._observed import Observed
from lamina._read_set import ITEM

if TYPE_CHECKING:
    from lamina._watch import Watch


class Names(dict[str, Any]):
    """The global names of a function that is copied without its source: the real ones, with observed numbers."""

    def __init__(self, watch: Watch, real: dict[str, Any]) -> None:
        super().__init__(real)
        self.watch, self.real, self.before, self.used = watch, real, dict(real), set[str]()
        self.codes: list[types.CodeType] = []

    def __getitem__(self, name: str) -> Any:
        mine = dict.get(self, name, self)
        if mine is not self.before.get(name, self):
            return mine  # written by the copy
        value, w = self.real[name], self.watch
        if w.closed or isinstance(value, BUILTIN):
            return value
        if isinstance(value, types.ModuleType):
            asked = finds_by_code(value)
            w.unhooked.note_used(
                value, set().union(*(asked_of(c, name) for c in self.codes)) if asked else self.used
            )
            return value
        return w.unhooked.named(w.reads.below(w.reads.root(self.real, ""), ITEM, name), value, self.used)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self.real else default

    def __setitem__(self, name: str, value: Any) -> None:
        self.real[name] = self.watch.plain(value)

    def write_back(self) -> None:
        """Takes what the copy wrote to its globals to the real ones."""
        for name, value in dict.items(self):
            if value is not self.before.get(name, self):
                self.real[name] = self.watch.plain(value)
                self.before[name] = value


class Hooks:
    """What the rewritten code calls; once the trace is over, each hook does what the plain code did."""

    __slots__ = ("cells", "names", "watch")

    def __init__(self, watch: Watch, names: dict[str, Any], cells: dict[str, types.CellType]) -> None:
        self.watch, self.names, self.cells = watch, names, cells

    def global_(self, name: str, value: Any) -> Any:
        w = self.watch
        if w.closed or name not in self.names:
            return value
        if isinstance(value, (types.ModuleType, BUILTIN)):
            return value
        if isinstance(value, FUNCTION) and is_ours(value) and "<locals>" not in value.__qualname__:
            return value  # the library's own
        return w.seen(w.reads.below(w.reads.root(self.names, ""), ITEM, name), value)

    def free(self, name: str, value: Any) -> Any:
        w = self.watch
        if w.closed:
            return value
        return w.seen(w.reads.root(self.cells[name], name), value)

    def attribute(self, x: Any, name: str) -> Any:
        w = self.watch
        return getattr(x, name) if w.closed else w.attribute(x, name)

    def imported(self, module: str, level: int, name: str, value: Any) -> Any:
        """`value`, which an import statement inside the function took from a module."""
        w = self.watch
        if w.closed or isinstance(value, types.ModuleType):
            return value
        from importlib.util import resolve_name  # which few functions need

        full = resolve_name("." * level + module, self.names.get("__package__"))
        return w.attribute(sys.modules[full], name) if full in sys.modules else value

    def item(self, x: Any, key: Any) -> Any:
        w = self.watch
        return x[key] if w.closed else w.item(x, key)

    def same(self, x: Any) -> Any:
        w = self.watch
        return x if w.closed else w.same(x)

    def itself(self, x: Any) -> Any:
        w = self.watch
        return x if w.closed else w.itself(x)

    def callee(self, f: Any) -> Any:
        w = self.watch
        return f if w.closed else w.calls.callee(f)

    def noted(self, x: Any) -> Any:
        w = self.watch
        return x if w.closed or type(x) in PLAIN else w.noted(x)

    def shown(self, x: Any) -> Any:
        w = self.watch
        return x if w.closed or type(x) in PLAIN else w.shown(x)

    def truth(self, x: Any) -> Any:
        w = self.watch
        return x if w.closed or type(x) in PLAIN else w.truth(x)

    def keyed(self, x: Any, *key: Any) -> Any:
        w = self.watch
        return x if w.closed or type(x) in PLAIN else w.keyed(x, *key)

    def iterated(self, x: Any) -> Any:
        w = self.watch
        return x if w.closed or type(x) in PLAIN else w.iterated(x)

    unpacked = iterated

    def mapping(self, x: Any) -> Any:
        w = self.watch
        return x if w.closed else w.mapping(x)

    def fresh(self, x: Any) -> Any:
        w = self.watch
        return x if w.closed else w.made(x)

    def stored(self, value: Any, target: Any, text: str) -> Any:
        """`value`, about to be written to `text`, which lies in `target` if that is known."""
        w = self.watch
        if w.closed or w.is_made(target) or type(target) is Tensor:
            return value
        if text:
            w.writes(text)
        return w.wrote(value)

    def counted(self, name: str, value: Any) -> None:
        """A name that is not local is about to be read and written in one."""
        read = self.free if name in self.cells else self.global_
        self._counts(lambda: read(name, value))

    def updated(self, x: Any, name: str) -> Any:
        """`x`, whose attribute is about to be read and written in one."""
        w = self.watch
        if not w.closed and not w.is_made(x) and type(x) is not Tensor:
            self._counts(lambda: w.attribute(x, name))
        return x

    def updated_item(self, x: Any, *key: Any) -> Any:
        """`x`, an item of which is about to be read and written in one."""
        w = self.watch
        if not w.closed and not w.is_made(x) and type(x) is not Tensor:
            self._counts(lambda: w.item(x, key[0]) if key else w.noted(x))
        return x

    def _counts(self, read: Callable[[], Any]) -> None:
        w = self.watch
        w.counting += 1
        try:
            found = read()
        finally:
            w.counting -= 1
        if type(found) is not Observed:
            self.noted(found)
