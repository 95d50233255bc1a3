"""make_trace: what a function records, as equations that programs and people read (JAX's make_jaxpr)."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from lamina import _core, _leaks
from lamina._core import Tensor
from lamina._functions import need_function
from lamina._shapes import ShapeDtype, shaped
from lamina._tensor import to_tensor
from lamina._transforms import _Flat, _name
from lamina.tree import tree_flatten, tree_unflatten

# Ops whose function in lamina.lax has another name.
_NAMES = {
    "cosine": "cos",
    "convert": "convert_element_type",
    "divide": "div",
    "exponential": "exp",
    "exponential_minus_one": "expm1",
    "bitcast_convert": "bitcast_convert_type",
    "case": "cond",
    "call": "jit",
    "convolution": "conv_general_dilated",
    "count_leading_zeros": "clz",
    "log_plus_one": "log1p",
    "maximum": "max",
    "minimum": "min",
    "multiply": "mul",
    "negate": "neg",
    "popcnt": "population_count",
    "power": "pow",
    "remainder": "rem",
    "reverse": "rev",
    "select": "select_n",
    "sine": "sin",
    "subtract": "sub",
}
_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c"}
OF_RULES = ("custom_jvp_call", "custom_vjp_call")  # functions with derivatives of a user's own
_REDUCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "and": "and",
    "or": "or",
    "xor": "xor",
}


class Primitive:
    """The operation of an equation, by its name in `lamina.lax`."""

    __slots__ = ("name",)
    _made: ClassVar[dict[str, Primitive]] = {}

    def __new__(cls, name: str) -> Primitive:
        made = cls._made.get(name)
        if made is None:
            made = cls._made.setdefault(name, super().__new__(cls))
            made.name = name
        return made

    name: str

    def __repr__(self) -> str:
        return self.name


class Var:
    """A value of a trace; `aval` is its shape and element type."""

    __slots__ = ("aval",)

    def __init__(self, aval: ShapeDtype) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var({_type(self.aval)})"


class Literal:
    """A number that an equation takes; where `aval` has dimensions, for each element."""

    __slots__ = ("aval", "val")

    def __init__(self, val: Any, aval: ShapeDtype) -> None:
        self.val, self.aval = val, aval

    def __repr__(self) -> str:
        return f"{self.val}:{_type(self.aval)}"


class Equation:
    """``outvars = primitive[params] invars``, recorded at `where`, a file and line ("" if unknown)."""

    __slots__ = ("invars", "outvars", "params", "primitive", "where")

    effects = frozenset()  # they are told of whole traces

    def __init__(
        self, primitive: Primitive, invars: list[Any], outvars: list[Var], params: dict[str, Any], where: str
    ) -> None:
        self.primitive, self.invars, self.outvars = primitive, invars, outvars
        self.params, self.where = params, where

    def __str__(self) -> str:
        return "\n".join(_Printer().equation(self, 0))

    __repr__ = __str__


class Trace:
    """A recorded program: `invars`, `constvars` (arrays from outside, `consts`), `eqns`, `outvars`.

    `jaxpr` and `closed_jaxpr` are the trace itself. It prints as text, and ``trace(*arrays)`` runs it, on its
    flat arguments.
    """

    def __init__(
        self, program: Any, consts: Sequence[Tensor] = (), weak: Sequence[bool] = (), effects: bool = False
    ) -> None:
        self._program, self._effects, self.consts = program, effects, list(consts)
        parameters, equations, results = _core.equations(program)
        values: list[Any] = [Var(_aval(t)) for t in parameters]
        count = len(values) - len(self.consts)
        self.invars, self.constvars = values[: count - effects], values[count:]
        self.eqns: list[Equation] = []
        for equation in equations:
            self._read(equation, values)
        self.outvars = [values[i] for i in results[: len(results) - effects]]
        self._asked = list(range(len(self.outvars)))  # which of the program's results these are
        if not effects:
            self.eqns = _needed(self.eqns, self.outvars)
        self.out_avals = [v.aval for v in self.outvars]
        if weak:
            self.out_avals = [a.update(weak_type=w) for a, w in zip(self.out_avals, weak)]

    jaxpr = closed_jaxpr = property(lambda self: self)
    literals = property(lambda self: self.consts)
    in_avals = property(lambda self: [v.aval for v in self.invars])
    effects = property(lambda self: frozenset(("ordered",) * self._effects))

    def _read(self, equation: Any, values: list[Any]) -> None:
        op, operands, attributes, types, file, line = equation
        outs = [Var(_aval(t)) for t in types]
        given = [values[i] for i in operands]
        if op == "constant" and not outs[0].aval.shape:
            values.append(Literal(attributes["value"].item(), outs[0].aval))
            return
        if op == "broadcast_in_dim" and isinstance(given[0], Literal):
            values.append(Literal(given[0].val, outs[0].aval))
            return
        copies = op == "broadcast_in_dim" and given[0].aval.shape == outs[0].aval.shape
        if copies or op == "identity":  # the latter marks what is differentiated
            values.append(given[0])
            return
        values += outs
        params = {k: _parameter(v) for k, v in attributes.items()}
        name, given = _named(op, given, params)
        if name in ("dot_general", "conv_general_dilated"):
            _as_asked(name, params, outs[0].aval)
        self.eqns.append(Equation(Primitive(name), given, outs, params, f"{file}:{line}" if file else ""))

    def __call__(self, *args: Any) -> list[Tensor]:
        return self.evaluate(self.consts, *args)

    def evaluate(self, consts: Sequence[Any], *args: Any) -> list[Tensor]:
        """Runs it with other arrays from outside (its own where `consts` is empty)."""
        consts = consts or self.consts
        for given, wanted, what in (
            (args, self.invars, "takes"),
            (consts, self.constvars, "reads from outside"),
        ):
            if len(given) != len(wanted):
                raise TypeError(f"the trace {what} {len(wanted)} arrays, not {len(given)}")
        token = [_core.last_token()] if self._effects else []
        out = self._program([to_tensor(x) for x in (*args, *token, *consts)])
        if self._effects:
            _core.note_effects(out[-1])
        results = zip((out[i] for i in self._asked), self.out_avals, strict=True)
        return [_core.set_weak(x, True) if aval.weak_type else x for x, aval in results]

    def only(self, asked: Sequence[bool]) -> Trace:
        """The same with those of the results that are asked for, and what they need."""
        out = copy.copy(self)
        for name in ("_asked", "outvars", "out_avals"):
            setattr(out, name, [x for x, a in zip(getattr(self, name), asked, strict=True) if a])
        out.eqns = _needed(self.eqns, out.outvars)
        return out

    def pretty_print(self, **options: Any) -> str:
        """The text; `options` change nothing."""
        return str(self)

    def __str__(self) -> str:
        return "\n".join(_Printer().trace(self, 0))

    __repr__ = __str__


def _as_asked(name: str, params: dict[str, Any], result: ShapeDtype) -> None:
    """What a product asks, as the function of its name in lamina.lax takes it."""
    from lamina.lax._precision import read  # a module that is loaded after this

    if name == "dot_general":
        (lc, rc), (lb, rb) = (
            [tuple(params.pop(f"{side}_{kind}_dimensions", ())) for side in ("lhs", "rhs")]
            for kind in ("contracting", "batching")
        )
        params["dimension_numbers"] = ((lc, rc), (lb, rb))
    params["precision"] = read(params.get("precision"))
    params["preferred_element_type"] = result.dtype


def _needed(equations: Sequence[Equation], results: Sequence[Any]) -> list[Equation]:
    """The equations that the results need, with the results of branches and calls that anything needs."""
    needed, out = {id(v) for v in results}, []
    for e in reversed(equations):
        asked = [id(v) in needed for v in e.outvars]
        if not any(asked):
            continue
        kept = e if all(asked) else _asked_of(e, asked)
        needed.update(map(id, kept.invars))
        out.append(kept)
    return out[::-1]


def _asked_of(e: Equation, asked: list[bool]) -> Equation:
    """An equation with those of its results that are asked for, where its parts can be without the others."""
    name = {"cond": "branches", **dict.fromkeys(OF_RULES, "call_jaxpr")}.get(e.primitive.name, "jaxpr")
    parts = e.params.get(name)
    if e.primitive.name == "scan":
        asked = [True] * e.params["num_carry"] + asked[e.params["num_carry"] :]
    elif e.primitive.name not in ("cond", "jit", *OF_RULES):
        return e
    fewer = tuple(t.only(asked) for t in parts) if isinstance(parts, tuple) else parts.only(asked)
    outvars = [v for v, a in zip(e.outvars, asked, strict=True) if a]
    return Equation(e.primitive, e.invars, outvars, {**e.params, name: fewer}, e.where)


def _aval(described: Any) -> Any:
    return ShapeDtype((), "int32") if described is None else ShapeDtype(described[1], described[0])


def _parameter(value: Any) -> Any:
    if isinstance(value, _core.Program):
        return Trace(value)
    return tuple(Trace(v) for v in value) if _programs(value) else value


def _programs(value: Any) -> bool:
    return isinstance(value, tuple) and bool(value) and isinstance(value[0], _core.Program)


def _named(op: str, given: list[Any], params: dict[str, Any]) -> tuple[str, list[Any]]:
    """The name and operands that an op has in lamina.lax; `params` is changed to fit."""
    if op == "compare":
        return params.pop("direction").lower(), given
    if op == "select":
        return "select_n", [given[0], given[2], given[1]]  # by number: false first
    if op == "while":
        params["cond_jaxpr"], params["body_jaxpr"] = params.pop("cond"), params.pop("body")
    if op in ("scan", "call"):
        params["jaxpr"] = params.pop("body")
        if "rule" in params:
            params["call_jaxpr"] = params.pop("jaxpr")
            return f"custom_{params.pop('rule')}_call", given
        if "call_target_name" in params:
            params["name"], params["version"] = params.pop("call_target_name"), params.pop("index", 0)
            params["attributes"] = params.pop("composite_attributes", "")
            return "composite", given
    if op == "reduce" and len(params["body"].eqns) == 1:
        kind = _REDUCTIONS.get(_OPS.get(params["body"].eqns[0].primitive.name, ""))
        if kind is not None:
            params["axes"] = params.pop("dimensions", ())
            del params["body"]
            return "reduce_" + kind, given[:1]
    if op == "custom_call" and params["call_target_name"].startswith(_core.NAME_TARGET):
        params["name"] = params.pop("call_target_name").removeprefix(_core.NAME_TARGET)
        params.pop("result_types", None)
        return "name", given
    if op == "custom_call" and params.get("call_target_name") == "python":
        return ("io_callback" if params.get("has_side_effect") else "pure_callback"), given[1:]
    return _NAMES.get(op, op), given


_OPS = {_NAMES.get(op, op): op for op in _REDUCTIONS}


def _type(aval: ShapeDtype) -> str:
    name = aval.dtype.name
    kind = name.rstrip("0123456789") if "_" not in name else name
    short = _SHORT.get(kind)
    shown = short + name[len(kind) :] if short else name
    return f"{shown}[{','.join(map(str, aval.shape))}]"


def _letters() -> Iterator[str]:
    for n in itertools.count(1):
        for letters in itertools.product("abcdefghijklmnopqrstuvwxyz", repeat=n):
            yield "".join(letters)


class _Printer:
    """Names values in the order that they are met."""

    _WIDTH = 80

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self.letters = _letters()

    def name(self, v: Any) -> str:
        if isinstance(v, Literal):
            return repr(v)
        if id(v) not in self.names:
            self.names[id(v)] = next(self.letters)
        return self.names[id(v)]

    def bound(self, v: Var) -> str:
        return f"{self.name(v)}:{_type(v.aval)}"

    def trace(self, t: Trace, column: int) -> list[str]:
        """The lines of a trace that starts at a column: one, where it fits."""
        consts, given = (" ".join(map(self.bound, vs)) for vs in (t.constvars, t.invars))
        head = f"{{ lambda {consts}; {given}. let"
        equations = [line for e in t.eqns for line in self.equation(e, column + 4)]
        end = f"in ({', '.join(map(self.name, t.outvars)) + ',' * (len(t.outvars) == 1)}) }}"
        one = f"{head} {'; '.join(equations)} {end}"
        if len(equations) == len(t.eqns) and column + len(one) <= self._WIDTH:
            return [one]
        return [head, *("    " + line for line in equations), "  " + end]

    def equation(self, e: Equation, column: int) -> list[str]:
        lines = [" ".join(map(self.bound, e.outvars)) + f" = {e.primitive}"]
        if any(map(_traces, e.params.values())):
            lines[0] += "["
            for k, v in sorted(e.params.items()):
                if isinstance(v, Trace):
                    first, *rest = self.trace(v, column + len(k) + 3)
                    lines += [f"  {k}={first}", *("  " + line for line in rest)]
                elif _traces(v):
                    lines += [
                        f"  {k}=(",
                        *("    " + line for t in v for line in self.trace(t, column + 4)),
                        "  )",
                    ]
                else:
                    lines.append(f"  {k}={_shown(v)}")
            lines.append("]")
        elif e.params:
            lines[0] += "[" + " ".join(f"{k}={_shown(v)}" for k, v in sorted(e.params.items())) + "]"
        lines[-1] += "".join(" " + self.name(v) for v in e.invars)
        return lines


def _traces(value: Any) -> bool:
    return isinstance(value, Trace) or (
        isinstance(value, tuple) and bool(value) and isinstance(value[0], Trace)
    )


def _shown(value: Any) -> str:
    return f"an array {_type(ShapeDtype.like(value))}" if isinstance(value, Tensor) else str(value)


def make_trace(
    fun: Callable[..., Any],
    static_argnums: int | Sequence[int] = (),
    return_shape: bool = False,
) -> Callable[..., Any]:
    """A function that gives what `fun` records for arguments like its own (arrays or ShapeDtype), as a `Trace`.

    Names of operations are those of `lamina.lax`. Only what the results need is recorded; functions jitted inside are
    equations of their own. With `return_shape`: (trace, shapes and element types of the result). ValueError for
    `static_argnums` out of range.

    >>> print(lm.make_trace(lambda x: lnp.sin(x) * 2)(1.0))
    { lambda ; a:f32[]. let b:f32[] = sin a; c:f32[] = mul b 2.0:f32[] in (c,) }
    """
    need_function(fun, "make_trace")
    static = (static_argnums,) if isinstance(static_argnums, int) else tuple(static_argnums)

    @functools.wraps(fun)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        for n in static:
            if not -len(args) <= n < len(args):
                raise ValueError(
                    f"static_argnums {n} is out of range: {_name(fun)} was called with {len(args)} arguments"
                )
        fixed = {n % len(args): args[n] for n in static}
        leaves, treedef = tree_flatten(([a for i, a in enumerate(args) if i not in fixed], kwargs))
        flat = _Flat(fun, treedef, fixed)
        given = [shaped(x) for x in leaves]
        specs = [(str(x.dtype), list(x.shape), getattr(x, "weak_type", False)) for x in given]
        with _leaks.looking(_name(fun)):
            found = _core.traced(flat, specs)
        trace = Trace(*found)
        for v, x in zip(trace.invars, given, strict=True):
            v.aval = v.aval.update(weak_type=getattr(x, "weak_type", False))
        if not return_shape:
            return trace
        return trace, tree_unflatten(flat.out_tree, trace.out_avals[: flat.out_tree.num_leaves])

    wrapped.__name__ = f"make_trace({_name(fun)})"
    wrapped.__qualname__ = f"make_trace({getattr(fun, '__qualname__', _name(fun))})"
    return wrapped


make_jaxpr = make_trace
