"""Plan files: a compiled program with its machine code in one file, for processes without a code generator.

``jitted.lower(...).compile().save(path)`` writes one, ``plans.load(path)`` gives a callable with the same bits and no
compile: LLVM is neither needed nor loaded. A file is data, without pickles, and checked before it is used; but the
machine code in it is executed, and its checksum tells of damage, not of who wrote it. Load files that you would run.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import sys
import warnings
from typing import Any

from lamina import _core
from lamina._core import Tensor
from lamina._shapes import ShapeDtype
from lamina._stages import Traced
from lamina._tensor import describe
from lamina._transforms import _argument_paths, _check_argument, _name
from lamina.tree import TreeDef, _registry, tree_flatten, tree_leaves, tree_paths, tree_unflatten

__all__ = ["Plan", "dumps", "load", "loads"]

_FACTORIES = {t.__name__: t for t in (dict, list, set, tuple, int, float, str)}


class Plan:
    """A program from a plan file, called with arrays of the types and the structure that it was saved for."""

    def __init__(self, data: bytes, origin: str = "the plan file") -> None:
        self._plan = _core.LoadedPlan(data)
        self.__name__ = self.name = str(self._plan.name)
        told = _Reading(self._plan.structure, self.name)
        self.in_tree: TreeDef = told.tree("in")
        self.out_tree: TreeDef = told.tree("out")
        self._text = told.text()
        self._program = self._plan.program
        arguments = self._plan.arguments
        self._types = [(tuple(shape), dtype) for dtype, shape, _, _ in arguments]
        self._paths = [path for *_, path, _ in arguments]
        self._given_up = tuple(i for i, a in enumerate(arguments) if a[3])
        if (self.in_tree.num_leaves, self.out_tree.num_leaves) != (
            len(arguments),
            self._plan.num_results + len(self._text),
        ):
            raise ValueError("the plan file is malformed: its structure is not that of its arrays")
        #: Why kernels are compiled or interpreted here after all; empty where the file's machine code serves.
        self.slow: str = self._plan.slow
        if self.slow:
            warnings.warn(f"{origin} runs with the same results but slower: {self.slow}", stacklevel=3)

    @property
    def args_info(self) -> Any:
        """(arguments, keyword arguments) with a ShapeDtype for each array."""
        return tree_unflatten(self.in_tree, [ShapeDtype(*t) for t in self._types])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the saved function gives; arguments that were static when it was saved are left out.

        Raises:
            TypeError: other structure, shapes or element types than those it was saved for, or inside a transform.
        """
        if _core.any_open_scope():
            raise TypeError(
                f"{self.name} comes from a plan file, which holds machine code and no derivative: call it outside "
                "of jit, grad and vmap, or transform the function before it is saved (lm.stablehlo keeps programs that "
                "can be transformed)"
            )
        leaves, treedef = tree_flatten((args, kwargs))
        if treedef != self.in_tree:
            raise TypeError(
                f"{self.name} was saved for arguments of the structure {self.in_tree}, not {treedef}"
            )
        arrays = [self._array(i, x) for i, x in enumerate(leaves)]
        run = self._program
        out = run.call_giving_up(arrays, (), self._given_up) if self._given_up else run(arrays)
        for i, text in self._text:
            out.insert(i, text)
        return tree_unflatten(self.out_tree, out)

    def _array(self, i: int, x: Any) -> Tensor:
        if not isinstance(x, Tensor):
            t = _core.asarray(x)
            x = _check_argument(x, self._paths[i], self) if t is None else t
        shape, dtype = self._types[i]
        if x.shape != shape or str(x.dtype) != dtype:
            raise TypeError(
                f"{self.name} was saved for {describe(ShapeDtype(shape, dtype))} as {self._paths[i]}, not "
                f"{describe(x)}"
            )
        return x

    def as_text(self, form: str = "short") -> str:
        """The program: ``"short"``, ``"canonical"`` or ``"full"``, or a stage as `lamina.cache.listing` gives it."""
        from lamina import cache

        return (
            self._plan.listing(form)
            if form in cache.STAGES
            else self._program.text(form, self.name or "main")
        )

    def summary(self) -> str:
        """What the file holds: arguments, results, kernels and the machines that run them."""
        return self._plan.text + (f"  {self.slow}\n" if self.slow else "")

    def __repr__(self) -> str:
        return f"<plan of {self.name}>"


def dumps(program: Traced) -> bytes:
    """A compiled program as the bytes of a plan file.

    Args:
        program: `jitted.lower(...).compile()`, or an earlier stage, which is compiled. Containers in arguments and
            results are named in the file by module and name of their class; what they hold besides arrays must be data:
            None, booleans, numbers, strings, bytes, and tuples, lists and dicts of these.

    Returns:
        The program with the machine code of all its kernels for this machine (with LAMINA_ISA=avx2 in the environment:
        for machines that have no more than AVX2), and the values of now of what the function reads besides its
        arguments.

    Raises:
        NotImplementedError: the program calls back into this process, writes to its arguments, or takes paths that
            depend on their values.
        TypeError: a container of a class that cannot be found by its name, or that holds something that is not data.
        RuntimeError: there is no code generator.

    Example::

        >>> data = lm.plans.dumps(lm.jit(step).lower(params, x).compile())
    """
    trace, variant, f = program._trace, program._variant, program._jitted._f
    name = _name(f)
    refused = ""
    if hasattr(trace, "flat"):
        refused = "writes to its arguments: let it return the new values"
    elif variant.root is not trace:
        refused = (
            'decides on values of its arguments: jit it with control_flow="convert", or use lamina.lax.cond'
        )
    if refused:
        raise NotImplementedError(f"{name} cannot be saved, because it {refused}")
    program._check_reads()
    paths = _argument_paths(f, program.args_info)
    structure = json.dumps(
        {
            "in": _told(program._treedef, name),
            "out": _told(trace.out_tree, name),
            "text": [[i, _datum(x, name)] for i, x in trace.out_text],
        }
    )
    out = program.out_info
    results = [p for p, x in zip(tree_paths(out), tree_leaves(out)) if not isinstance(x, (str, bytes))]
    given_up = list(variant.donated or ())
    return _core.plan_bytes(trace.program, variant.reads.tensors, name, structure, paths, results, given_up)


def save(program: Traced, path: str | os.PathLike[str]) -> None:
    """Writes `dumps(program)` to `path`, which holds the whole file or what it held before."""
    data = dumps(program)
    temporary = f"{os.fspath(path)}.{os.getpid()}.new"
    try:
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def loads(data: bytes) -> Plan:
    """The program in the bytes of a plan file, as `load`."""
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"a plan file's contents are bytes, not {type(data).__name__}")
    return Plan(bytes(data))


def load(path: str | os.PathLike[str]) -> Plan:
    """The program in a plan file, as a callable; nothing is compiled.

    The machine code in the file will be executed: load files that you would run as programs. Where this machine cannot
    run it, a warning says why, and the program is compiled, or interpreted where there is no code generator, with
    the same results.

    Raises:
        ValueError: it is no plan file, is cut short or damaged, or was written by another version.
        TypeError: a class of the arguments or results is not there: import the module that defines it before.
        OSError: it cannot be read.

    Example::

        >>> step = lm.plans.load("step.plan")
        >>> params, loss = step(params, x)
    """
    with open(path, "rb") as file:
        data = file.read()
    try:
        return Plan(data, os.fspath(path))
    except ValueError as e:
        raise ValueError(f"{os.fspath(path)}: {e}") from None


# --- structures and their metadata as JSON ---


def _datum(x: Any, name: str) -> Any:
    """`x` as JSON that gives it back bit for bit, type for type."""
    if x is None or type(x) in (bool, int, str):
        return x
    if type(x) is float:
        return ["float", x.hex()]
    if type(x) is bytes:
        return ["bytes", x.hex()]
    if type(x) in (tuple, list):
        return [type(x).__name__, [_datum(v, name) for v in x]]
    if type(x) is dict:
        return ["dict", [[_datum(k, name), _datum(v, name)] for k, v in x.items()]]
    raise TypeError(
        f"the structure of {name}'s arguments or results holds {x!r:.60}, a {type(x).__name__}: plan files hold None, "
        "booleans, numbers, strings, bytes, and tuples, lists and dicts of these"
    )


def _told(treedef: TreeDef, name: str) -> list[Any]:
    """The nodes of a structure as JSON: kind, number of children, and what else their kind has."""
    out: list[Any] = []
    for cls, meta, arity in treedef.nodes:
        if cls is None:
            out.append(["leaf", 0])
        elif cls in (tuple, list, type(None)):
            out.append([cls.__name__, arity])
        elif cls in (dict, collections.OrderedDict):
            out.append([cls.__name__, arity, _datum(meta, name)])
        elif cls is collections.defaultdict:
            factory, keys = meta
            known = None if factory is None else factory.__name__
            if factory is not None and _FACTORIES.get(known) is not factory:
                _datum(factory, name)  # raises
            out.append(["defaultdict", arity, _datum(keys, name), known])
        else:
            where = [cls.__module__, cls.__qualname__]
            if _class_at(*where) is not cls:
                raise TypeError(
                    f"{cls.__qualname__} in {name}'s arguments or results cannot be found by its name, "
                    f"{'.'.join(where)}: define it at the top level of a module"
                )
            out.append(["class", arity, *where, _kind_of(cls), _datum(_fields_of(cls, meta), name)])
    return out


def _class_at(module: str, qualname: str) -> Any:
    """A class by its name in the modules that are imported; nothing is imported for it."""
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def _kind_of(cls: Any) -> str | None:
    if cls in _registry:
        return "registered"
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return "namedtuple"
    return "dataclass" if dataclasses.is_dataclass(cls) else None


def _fields_of(cls: type, meta: Any) -> Any:
    """What a structure has to say of a node of this class: a named tuple's names, or its metadata."""
    return tuple(cls._fields) if _kind_of(cls) == "namedtuple" else meta  # type: ignore[attr-defined]


class _Reading:
    """The structures of a plan file; anything else in their place is a ValueError."""

    def __init__(self, text: str, name: str) -> None:
        self._name = name
        try:
            self._all = json.loads(text)
        except (ValueError, RecursionError):
            self._all = None
        if not isinstance(self._all, dict):
            raise self._error()

    @staticmethod
    def _error() -> ValueError:
        return ValueError(
            "the plan file is malformed: it does not tell how Python nests its arrays (a file that another language "
            "saved is for that language)"
        )

    def text(self) -> list[tuple[int, str | bytes]]:
        out = []
        for entry in self._list(self._all.get("text")):
            i, x = self._parts(entry, int, object)
            out.append((i, self._value(x)))
        return out

    def tree(self, which: str) -> TreeDef:
        nodes = tuple(self._node(n) for n in self._list(self._all.get(which)))
        # In preorder, every node has its children behind it.
        wanted = 1
        for _, _, arity in nodes:
            if wanted == 0:
                raise self._error()
            wanted += arity - 1
        if wanted != 0:
            raise self._error()
        return TreeDef(nodes, sum(cls is None for cls, _, _ in nodes))

    def _node(self, node: Any) -> tuple[type | None, Any, int]:
        kind, arity = self._parts(self._list(node)[:2], str, int)
        more = node[2:]
        if arity < 0:
            raise self._error()
        if kind == "leaf":
            return None, None, 0
        if kind in ("tuple", "list"):
            return (tuple if kind == "tuple" else list), None, arity
        if kind == "NoneType":
            return type(None), None, 0
        if kind in ("dict", "OrderedDict"):
            (keys,) = self._parts(more, object)
            return (dict if kind == "dict" else collections.OrderedDict), self._keys(keys, arity), arity
        if kind == "defaultdict":
            keys, factory = self._parts(more, object, object)
            if factory is not None and factory not in _FACTORIES:
                raise self._error()
            return collections.defaultdict, (_FACTORIES.get(factory), self._keys(keys, arity)), arity
        if kind == "class":
            return self._class(arity, *self._parts(more, str, str, str, object))
        raise self._error()

    def _class(self, arity: int, module: str, qualname: str, kind: str, told: Any) -> tuple[Any, Any, int]:
        meta = self._value(told)
        cls = _class_at(module, qualname)
        if not isinstance(cls, type) or _kind_of(cls) != kind:
            raise TypeError(
                f"{self._name} takes or gives a {module}.{qualname}, a {kind}, which this process does not have: "
                "import the module that defines it before loading"
            )
        if kind == "namedtuple":
            if tuple(cls._fields) != meta or len(meta) != arity:  # type: ignore[attr-defined]
                raise TypeError(
                    f"{module}.{qualname} has other fields than when {self._name} was saved: {meta}"
                )
            return cls, None, arity
        if kind == "dataclass":
            names, static = meta if isinstance(meta, tuple) and len(meta) == 2 else ((), ())
            known = [f.name for f in dataclasses.fields(cls)]
            if len(names) != arity or sorted([*names, *(k for k, _ in static)]) != sorted(known):
                raise TypeError(
                    f"{module}.{qualname} has other fields than when {self._name} was saved: {meta}"
                )
        return cls, meta, arity

    def _keys(self, told: Any, arity: int) -> tuple[Any, ...]:
        keys = self._value(told)
        if not isinstance(keys, tuple) or len(keys) != arity:
            raise self._error()
        return keys

    def _value(self, x: Any) -> Any:
        if x is None or type(x) in (bool, int, str):
            return x
        kind, told = self._parts(x, str, object)
        try:
            if kind == "float":
                return float.fromhex(told)
            if kind == "bytes":
                return bytes.fromhex(told)
            if kind in ("tuple", "list"):
                values = [self._value(v) for v in self._list(told)]
                return tuple(values) if kind == "tuple" else values
            if kind == "dict":
                return {self._value(k): self._value(v) for k, v in map(self._list, self._list(told))}
        except (TypeError, ValueError, RecursionError):
            pass
        raise self._error()

    def _list(self, x: Any) -> list[Any]:
        if not isinstance(x, list):
            raise self._error()
        return x

    def _parts(self, x: Any, *types: type) -> Any:
        values = self._list(x)
        if len(values) != len(types) or not all(isinstance(v, t) for v, t in zip(values, types)):
            raise self._error()
        return values
