"""``jax.export``: programs as StableHLO text with the containers of their arguments and results, also as bytes.

Shapes are known when a function is traced here: symbolic ones are refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import lamina as lm
import numpy as np
from lamina import _core, tree

from lamina_as_jax import adapters, avals, jitted, keys, types64

_FORMAT = "lamina-export-1"
_VERSION = 10  # of the calling convention


class SafetyCheck(str):
    """A check of what a program asks of another version, which nothing here asks for."""

    __slots__ = ()

    @classmethod
    def platform(cls) -> SafetyCheck:
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> SafetyCheck:
        return cls("custom_call:" + target_name)

    def is_custom_call(self) -> str | None:
        return self.removeprefix("custom_call:") if self.startswith("custom_call:") else None


class Exported:
    """A function as a program: see `export`."""

    nr_devices = 1
    calling_convention_version = _VERSION
    ordered_effects = unordered_effects = ()
    uses_global_constants = False

    def __init__(self, parts: dict[str, Any], slope: Callable[[], Exported] | None) -> None:
        self.fun_name, self.platforms = parts["fun_name"], tuple(parts["platforms"])
        self.in_tree, self.out_tree = parts["in_tree"], parts["out_tree"]
        self.in_avals, self.out_avals = tuple(parts["in_avals"]), tuple(parts["out_avals"])
        self.disabled_safety_checks = tuple(parts.get("disabled_checks", ()))
        self._text, self._slope = parts["text"], slope
        self._loaded = lm.stablehlo.loads(self._text)
        self.in_shardings_hlo = (None,) * len(self.in_avals)
        self.out_shardings_hlo = (None,) * len(self.out_avals)
        self.module_kept_var_idx = tuple(range(len(self.in_avals)))

    def __repr__(self) -> str:
        return f"Exported(fun_name={self.fun_name!r}, in_avals={self.in_avals}, out_avals={self.out_avals})"

    def mlir_module(self) -> str:
        return self._text

    @property
    def mlir_module_serialized(self) -> bytes:
        return self._text.encode()

    def in_shardings_jax(self, mesh: Any) -> tuple[None, ...]:
        return self.in_shardings_hlo

    def out_shardings_jax(self, mesh: Any) -> tuple[None, ...]:
        return self.out_shardings_hlo

    def has_vjp(self) -> bool:
        return self._slope is not None

    def vjp(self) -> Exported:
        """The program of the arguments and the cotangents of the results, that gives those of the arguments."""
        if self._slope is None:
            raise ValueError("No VJP is available")
        return self._slope()

    def call(self, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.tree_flatten((args, kwargs))
        if structure != self.in_tree:
            raise ValueError(
                "The invocation args and kwargs must have the same pytree structure as when the function "
                f"'{self.fun_name}' was exported: {self.in_tree}, not {structure}"
            )
        if "cpu" not in self.platforms:
            raise ValueError(
                f"Function '{self.fun_name}' was exported for platforms '{self.platforms}' but it is used on '('cpu',)'."
            )
        given = [self._argument(i, x) for i, x in enumerate(leaves)]
        run = self._loaded if self.has_vjp() else _without_slope(self._loaded)
        out = run(*given)
        flat = list(out) if isinstance(out, tuple) else [out]
        flat = [_core.set_weak(x, a.weak_type) for x, a in zip(flat, self.out_avals, strict=True)]
        return tree.tree_unflatten(self.out_tree, flat)

    def _argument(self, place: int, x: Any) -> Any:
        wanted = self.in_avals[place]
        x = types64.argument(x)
        dtype = types64.canonical(type(x) if not hasattr(x, "dtype") else x.dtype)
        shape = tuple(np.shape(x))
        path = f"argument {place} of '{self.fun_name}'"
        if len(shape) != len(wanted.shape):
            raise ValueError(f"Rank mismatch for {path}: expected {wanted.shape} and called with {shape}")
        if shape != tuple(wanted.shape):
            raise ValueError(f"Shape mismatch for {path}: expected {wanted.shape} and called with {shape}")
        if dtype != wanted.dtype:
            raise ValueError(f"Dtype mismatch for {path}: expected {wanted.dtype} and called with {dtype}")
        return lm.numpy.asarray(x, wanted.dtype.name)

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """As bytes, with as many derivatives as asked for. ValueError for containers that have no name."""
        return bytearray(json.dumps({"format": _FORMAT, **self._parts(vjp_order)}).encode())

    def _parts(self, vjp_order: int) -> dict[str, Any]:
        slope = self.vjp()._parts(vjp_order - 1) if vjp_order else None
        return {
            "fun_name": self.fun_name,
            "platforms": self.platforms,
            "in_tree": _written(self.in_tree),
            "out_tree": _written(self.out_tree),
            "in_avals": [_described(a) for a in self.in_avals],
            "out_avals": [_described(a) for a in self.out_avals],
            "disabled_checks": self.disabled_safety_checks,
            "text": self._text,
            "vjp": slope,
        }


def _without_slope(f: Callable[..., Any]) -> Callable[..., Any]:
    def refuse(*args: Any) -> Any:
        raise ValueError("No VJP is available: the program was serialized without (vjp_order)")

    run = lm.custom_vjp(f)
    run.defvjp(refuse, refuse)
    return run


def _described(aval: Any) -> Any:
    return [list(aval.shape), aval.dtype.name, bool(aval.weak_type)]


# --- containers by their names ---

_NAMED: dict[str, tuple[type, Any, Any, Any]] = {}


def register_pytree_node_serialization(
    nodetype: Any,
    *,
    serialized_name: str,
    serialize_auxdata: Any,
    deserialize_auxdata: Any,
    from_children: Any = None,
) -> Any:
    """A name for containers of a class; ValueError where it, or the class, has one already."""
    if serialized_name in _NAMED or any(n[0] is nodetype for n in _NAMED.values()):
        raise ValueError(f"Duplicate serialization registration for {nodetype}, as {serialized_name!r}")
    _NAMED[serialized_name] = (nodetype, serialize_auxdata, deserialize_auxdata, from_children)
    return nodetype


def register_namedtuple_serialization(nodetype: Any, *, serialized_name: str) -> Any:
    """A name for a class of tuples with names."""
    if not (isinstance(nodetype, type) and issubclass(nodetype, tuple) and hasattr(nodetype, "_fields")):
        raise ValueError(
            f"Use `jax.export.register_pytree_node_serialization` for {nodetype}: it is no namedtuple"
        )
    return register_pytree_node_serialization(
        nodetype,
        serialized_name=serialized_name,
        serialize_auxdata=lambda data: b"",
        deserialize_auxdata=lambda data: nodetype,
        from_children=lambda data, children: nodetype(*children),
    )


def _written(structure: Any) -> Any:
    """A structure of containers as JSON."""
    return _written_tree(tree.tree_unflatten(structure, [_Leaf()] * structure.num_leaves))


class _Leaf:
    """In the place of an array, the words of a key among them."""

    shape, dtype = (), "uint32"


def _written_tree(x: Any) -> Any:
    if x is None:
        return ["none"]
    if isinstance(x, _Leaf):
        return "*"
    if type(x) in (tuple, list):
        return [type(x).__name__, [_written_tree(v) for v in x]]
    if type(x) is dict and all(isinstance(k, (str, int)) for k in x):
        return ["dict", [[k, _written_tree(v)] for k, v in x.items()]]
    if isinstance(x, keys.KeyArray):
        return ["key", x._impl.name]
    for name, (cls, write, _, _) in _NAMED.items():
        if type(x) is cls:
            children, data = tree.tree_children(x)
            return ["named", name, bytes(write(data)).hex(), [_written_tree(v) for v in children]]
    raise ValueError(
        f"Cannot serialize containers of {type(x)}. Use `export.register_pytree_node_serialization` or "
        "`export.register_namedtuple_serialization` to give them a name"
    )


def _read(text: Any) -> Any:
    return tree.tree_structure(_read_tree(text))


def _read_tree(text: Any) -> Any:
    if text == "*":
        return 0
    kind, *rest = text
    if kind == "none":
        return None
    if kind in ("tuple", "list"):
        return {"tuple": tuple, "list": list}[kind](_read_tree(v) for v in rest[0])
    if kind == "dict":
        return {k: _read_tree(v) for k, v in rest[0]}
    if kind == "key":
        found = keys._GENERATORS[rest[0]]
        return keys.KeyArray(lm.numpy.zeros(found.key_shape, "uint32"), found)
    name, data, children = rest
    if name not in _NAMED:
        raise ValueError(f"Cannot deserialize containers named {name!r}, which are not registered")
    cls, _, read, join = _NAMED[name]
    parts = [_read_tree(v) for v in children]
    if join is not None:
        return join(read(bytes.fromhex(data)), parts)
    return cls.tree_unflatten(read(bytes.fromhex(data)), parts)


# --- functions ---


def export(
    fun_jit: Any,
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[Any] = (),
    override_lowering_rules: Any = None,
) -> Callable[..., Exported]:
    """A function of arguments, or their types, that gives the program of a jitted function of such arguments."""
    if not hasattr(fun_jit, "lower") or not callable(fun_jit):
        raise ValueError(f"Function to be exported must be the result of `jit` but is: {fun_jit}")
    if platforms is not None and (
        isinstance(platforms, str) or not all(isinstance(p, str) for p in platforms)
    ):
        raise TypeError(f"platforms are a sequence of names, not {platforms!r}")

    def of_arguments(*args: Any, **kwargs: Any) -> Exported:
        lowered = fun_jit.lower(*args, **kwargs)
        parts = {
            "fun_name": getattr(fun_jit, "__name__", "fun"),
            "platforms": tuple(platforms or ("cpu",)),
            "in_tree": lowered.in_tree,
            "out_tree": lowered.out_tree,
            "in_avals": [avals.typeof(x) for x in tree.tree_leaves(lowered.in_avals)],
            "out_avals": [avals.typeof(x) for x in tree.tree_leaves(lowered.out_info)],
            "disabled_checks": tuple(disabled_checks),
            "text": lowered.as_text(),
        }
        return _with_slope(parts)

    return of_arguments


def _with_slope(parts: dict[str, Any]) -> Exported:
    def slope() -> Exported:
        run = lm.stablehlo.loads(parts["text"])
        given = [*parts["in_avals"], *parts["out_avals"]]
        count = len(parts["in_avals"])

        def of_all(*arrays: Any) -> Any:
            primals, cotangents = arrays[:count], arrays[count:]
            one = len(cotangents) == 1
            pull = adapters.vjp(run, *primals)[1]
            return tuple(pull(cotangents[0] if one else tuple(cotangents)))

        named = dict(parts, fun_name=parts["fun_name"] + "_vjp")
        made = export(jitted.jit(of_all), platforms=named["platforms"])(
            *(lm.ShapeDtype(a.shape, a.dtype.name) for a in given)
        )
        made.fun_name = named["fun_name"]
        return made

    return Exported(parts, slope)


def deserialize(blob: Any) -> Exported:
    """The program of the bytes of one. ValueError for other bytes."""
    try:
        parts = json.loads(bytes(blob).decode())
    except ValueError:
        parts = {}
    if not isinstance(parts, dict) or parts.get("format") != _FORMAT:
        raise ValueError("these bytes are no program that Exported.serialize gave here")
    return _of_parts(parts)


def _of_parts(parts: dict[str, Any]) -> Exported:
    read = dict(parts, in_tree=_read(parts["in_tree"]), out_tree=_read(parts["out_tree"]))
    for name in ("in_avals", "out_avals"):
        read[name] = [avals.ShapedArray(shape, dtype, weak) for shape, dtype, weak in parts[name]]
    slope = parts.get("vjp")
    return Exported(read, None if slope is None else lambda: _of_parts(slope))


def symbolic_shape(
    shape_spec: str, *, constraints: Sequence[str] = (), scope: Any = None, like: Any = None
) -> Any:
    """Sizes by a text. NotImplementedError for a size that is a name: programs have known shapes."""
    sizes = []
    for part in filter(None, (p.strip() for p in shape_spec.strip("() ").split(","))):
        if part in ("_", "...") and like is not None:
            sizes.append(like[len(sizes)])
        elif part.lstrip("-").isdigit():
            sizes.append(int(part))
        else:
            raise NotImplementedError(
                f"the size {part!r} of {shape_spec!r} is a name, and programs have known shapes"
            )
    return tuple(sizes)


def symbolic_args_specs(args: Any, shapes_specs: Any, **options: Any) -> Any:
    """The types of arguments. NotImplementedError for sizes that are names."""
    leaves, structure = tree.tree_flatten(args)
    specs = [shapes_specs] * len(leaves) if isinstance(shapes_specs, str) or shapes_specs is None else tree.tree_leaves(
        shapes_specs
    )  # fmt: skip
    made = [
        lm.ShapeDtype(
            tuple(np.shape(x)) if s is None else symbolic_shape(s, like=np.shape(x)),
            avals.typeof(x).dtype.name,
        )
        for x, s in zip(leaves, specs, strict=True)
    ]
    return tree.tree_unflatten(structure, made)


NAMES: dict[str, Any] = {
    "DisabledSafetyCheck": SafetyCheck,
    "Exported": Exported,
    "default_export_platform": lambda: "cpu",
    "deserialize": deserialize,
    "export": export,
    "is_symbolic_dim": lambda dim: False,
    "maximum_supported_calling_convention_version": _VERSION,
    "minimum_supported_calling_convention_version": 9,
    "register_namedtuple_serialization": register_namedtuple_serialization,
    "register_pytree_node_serialization": register_pytree_node_serialization,
    "symbolic_args_specs": symbolic_args_specs,
    "symbolic_shape": symbolic_shape,
}
