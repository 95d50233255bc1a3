"""JAX's phrases for errors, which programs match on, before Lamina's own texts.

A row is a pattern of Lamina's text, JAX's phrase with what the pattern found in it (a function makes the phrases that
are lists), and for some the class that JAX raises where it is another. Lamina's text follows on the next line.
"""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from lamina import _traces

from lamina_as_jax import structures

_F = TypeVar("_F", bound=Callable[..., Any])


class _TypeAndValue(TypeError, ValueError):
    """What is a ValueError to Lamina and a TypeError to JAX, or the other way round."""


class TypePromotionError(ValueError, TypeError):
    """Of element types that have no common one. A ValueError to JAX and a TypeError to Lamina."""


class _TypeAndIndex(TypeError, IndexError):
    """What is an IndexError to one of them and a TypeError to the other."""


def _sizes(text: str) -> str:
    """`3,4` as (3, 4)."""
    sizes = [s.strip() for s in text.split(",") if s]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


def _shape(described: str) -> str:
    """`float32[3,4]` as (3, 4)."""
    return _sizes(described[described.index("[") + 1 : -1])


def _unlike(found: re.Match[str]) -> str:
    """Shapes that cannot be joined: of other numbers of dimensions, or of other sizes."""
    a, b, axis = found.groups()
    if len(re.findall(r"\d+", a)) != len(re.findall(r"\d+", b)):
        return f"Cannot concatenate arrays with different numbers of dimensions: got {a}, {b}."
    return (
        "Cannot concatenate arrays with shapes that differ in dimensions other than the one being concatenated: "
        f"concatenating along dimension {axis} for shapes {a}, {b}."
    )


_SIGNS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "**": "pow", "//": "floor_divide", "%": "rem"}


def _binary(found: re.Match[str]) -> str:
    sign = re.search(r" (\*\*|//|[-+*/%]) ", found["what"])
    name = _SIGNS[sign[1]] if sign else found["what"].rpartition(".")[2].split("(")[0]
    return f"{name} got incompatible shapes for broadcasting: {_shape(found['a'])}, {_shape(found['b'])}."


def _lanes(found: re.Match[str]) -> str:
    lines = []
    sizes = []
    for part in found[1].split("; "):
        size, _, axes = part.removeprefix("size ").partition(": ")
        places = re.findall(r"((?:keyword )?\S[^,\[ ]*(?:\[[^\]]*\])*) (\w+\[[\d,]*\]) axis (-?\d+)", axes)
        if "axis_size=" in axes:
            lines.append(f"the `axis_size` argument was {size}")
        if places:
            sizes.append((size, places))
    sizes.sort(key=lambda s: -len(s[1]))
    every = sum(len(p) for _, p in sizes)
    for size, places in sizes:
        name, described, axis = places[0]
        keyword = name.removeprefix("keyword ")
        given = f"argument {name}" if keyword == name else f"kwargs[{keyword!r}]"
        at = f"axis {axis} of {given} of type {described}"
        if len(places) == 1:
            lines.append(f"one axis had size {size}: {at}")
        else:
            many = "most" if 2 * len(places) > every else "some"
            lines.append(f"{many} axes ({len(places)} of them) had size {size}, e.g. {at}")
    return "vmap got inconsistent sizes for array axes to be mapped:\n" + ";\n".join(
        f"  * {x}" for x in lines
    )


def _no_value(found: re.Match[str]) -> str:
    what, described = found["what"], found["described"]
    if what == "an index":
        return f"The __index__() method was called on traced array with shape {described}."
    if what == "bool()":
        return f"Attempted boolean conversion of traced array with shape {described}."
    if what in ("float()", "int()", "complex()"):
        hint = f"; try using `x.astype({what[:-2]})`"
    elif "NumPy" in what:
        return f"The numpy.ndarray conversion method __array__() was called on traced array with shape {described}."
    else:
        hint = ""
    return f"Abstract tracer value encountered where concrete value is expected: {described}{hint}."


def _no_promotion(found: re.Match[str]) -> str:
    floats = re.search(r"float([48])", found[1] + found[2])
    narrow = f"{floats[1]}-bit floats" if floats else "1-bit, 2-bit and 4-bit integers"
    return (
        f"Input dtypes {(found[1], found[2])} have no available implicit dtype promotion path. To avoid unintended "
        f"promotion, {narrow} do not support implicit promotion. If you'd like your inputs to be promoted to another "
        f"type, you can do so explicitly using e.g. x.astype('{'float32' if floats else 'int32'}')"
    )


def _map_rank(found: re.Match[str]) -> str:
    axis, shape = int(found[1]), found[2]
    rank = len(re.findall(r"\d+", shape))
    return (
        f"vmap was requested to map its argument along axis {axis}, which implies that its rank should be at least "
        f"{axis + 1 if axis >= 0 else -axis}, but is only {rank} (its shape is {shape})"
    )


def _fields(found: re.Match[str]) -> str:
    own, named = (set(x.split(", ")) for x in found.groups())
    what, wrong = ("Missing", own - named) if own - named else ("Unexpected", named - own)
    return f"data_fields and meta_fields must include all dataclass fields. {what} fields: {wrong}"


def _of_branches(found: re.Match[str], a: str, b: str) -> tuple[str, str, str, str]:
    """The branch that JAX names first and what is of it, and the other: `a` is of the one with number 0."""
    return (
        ("true_fun", b, "false_fun", a)
        if found["of"] == "cond"
        else ("branch 0", a, f"branch{found['n']}", b)
    )


def _branch_types(found: re.Match[str]) -> str:
    first, mine, second, its = _of_branches(found, found["a"], found["b"])
    (dtype, _, shape), (other, _, others) = mine.partition("["), its.partition("[")
    wrong = " and ".join(
        ["the dtypes do not match"] * (dtype != other) + ["the shapes do not match"] * (shape != others)
    )
    at = f" at path {found['path']}" if found["path"] else ""
    return (
        f"{found['of']} branches must have equal output types but they differ:\n\nThe output of {first}{at} has type "
        f"{mine} but the corresponding output of {second} has type {its}, so {wrong}."
    )


def _branch_trees(found: re.Match[str]) -> str:
    first, _, second, _ = _of_branches(found, "", "")
    told = structures.of_branches(first, second, turned=found["of"] == "cond")
    return f"{found['of']} branch outputs must have the same pytree structure, but they differ:\n\n{told}"


def _carries(found: re.Match[str]) -> str:
    wrong = re.findall(
        r"carry (?:(\w+)(\S*) )?is (\w+)\[(\S*?)\] going in but (\w+)\[(\S*?)\] coming out", found[1]
    )
    lines = []
    for name, path, mine, shape, its, other in wrong:
        parts = ["the dtypes do not match"] * (mine != its) + ["the shapes do not match"] * (shape != other)
        component = f" component {name}{path}" if path else f" {name}"
        lines.append(
            f"he input carry{component} has type {mine}[{shape}] but the corresponding output carry component has type "
            f"{its}[{other}], so {', and '.join(parts)}"
        )
    text = f"T{lines[0]}" if len(lines) == 1 else ";\n".join(f"  * t{line}" for line in lines)
    return f"function carry input and carry output must have equal types, but they differ:\n\n{text}."


def _results(found: re.Match[str], what: str, further: str, end: str) -> str:
    """Of a custom rule whose results are not the function's: `what` differs."""
    way, rule, function, given, wanted = found.groups()
    backward = way != "jvp"
    named, told, kind = (
        ("VJP fwd rule", "the fwd rule", "vjp") if backward else ("JVP rule", "the JVP rule", "jvp")
    )
    second = (
        " and the second element represents residuals (i.e. values stored from the forward pass for use on the backward "
        "pass)"
    )
    text = (
        f"Custom {named} {rule} for function {function} {_AGAIN} where the first element represents the primal output "
        f"({'equal to' if backward else 'equal in value to'} the output of the custom_{kind}-decorated function "
        f"{function}{'' if backward else further}){second if backward else ''}, but instead {told} output's first "
        f"element had {what}:\n    {given}\nwhile the custom_{kind}-decorated function {function} had output {what}:\n"
        f"    {wanted}{end}"
    )
    return f"{text}\n(got fwd output type {given} which doesn't match the function's)" if backward else text


# Names of Lamina's types in texts, and what JAX calls them.
_OF_TYPES = {
    "pred": "bool",
    **{
        f"{s}{n}": f"{name}{n}"
        for s, name in (("s", "int"), ("u", "uint"), ("f", "float"))
        for n in (4, 8, 16, 32, 64)
    },
    "bf16": "bfloat16",
    "c64": "complex64",
    "c128": "complex128",
}
_Phrase = str | Callable[[re.Match[str]], str]
_AGAIN = r"must produce a pair (list or tuple of length two)"
_ROWS: tuple[tuple[str, _Phrase] | tuple[str, _Phrase, type[Exception]], ...] = (
    # Before what Lamina's text may quote
    (r"^metadata of containers are compared by ==",
     "Exception raised while checking equality of metadata fields of pytree."),
    # Values
    (r"a Tensor, number or array is needed, not Float0|an array of \[\('float0'",
     "float0s do not support any operations by design."),
    (r"^\S+ of \S+ needs \w+ inputs.*?, but \S+ is (.*) \((\w+)\), which is no array",
     r"Argument \1 of type <class '\2'> is not a valid JAX type."),
    (r"a NumPy array of (\S+), which is being differentiated", lambda m:
     f"The numpy.ndarray conversion method __array__() was called on traced array with shape {m[1]}."),
    (r"interior padding (-\d+) of dimension (\d+) is negative",
     r"interior padding in padding_config must be nonnegative, not \1 for dimension \2."),
    (r"^sizes (\([\d, ]*\)) do not add up to the size (\d+) of axis (\d+)", lambda m:
     f"Sum of sizes {sum(map(int, re.findall(r'[0-9]+', m[1])))} must be equal to the size {m[2]} of dimension {m[3]}."),
    (r"negative padding \S+ \S+ of dimension \d+ takes more than its size",
     "Dimension size after padding is not at least 0."),
    (r"^lax\.arg\w+: invalid axis (-?\d+) for operand shape (\(.*?\))", r"Invalid axis \1 for operand shape \2"),
    (r"window sizes, strides and dilations must be at least 1",
     "window_dimensions, window_strides and dilations must have every element be strictly positive.", TypeError),
    (r"^interp needs 1-d xp and fp of one size", "xp and fp must be one-dimensional arrays of equal size"),
    (r"^pad in mode '(\w+)' has no use for (\w+)", r"unsupported keyword arguments for mode '\1': {'\2'}"),
    (r"^the Python integer -?\d+ does not fit 64 bits", "Python int too large to convert to C long."),
    (r"an array of \S+ elements cannot become a Tensor, which has numbers or booleans: ()(.*)",
     r"Argument \2 of type <class 'numpy.ndarray'> is not a valid JAX type."),
    (r"a Tensor, number or array is needed, not (\w+): (.*)",
     r"Argument \2 of type <class '\1'> is not a valid JAX type."),
    (r"(?s)an index needs the value of .*The length of a slice must be known",
     "Slice entries must be static integers. Array slice indices must have static start/stop/step to be used with NumPy "
     "indexing syntax. To index a statically sized array at a dynamic position, try "
     "lax.dynamic_slice/dynamic_update_slice (JAX does not support dynamically sized arrays within JIT compiled "
     "functions).", _TypeAndIndex),
    (r"(?P<what>an index) needs the value of (?P<described>\S+), which is being traced", _no_value, _TypeAndIndex),
    (r"\.(?P<method>tolist|tobytes)\(\)`: a NumPy array needs the value of (?P<described>\S+), which is being traced",
     r"The \g<method>() method was called on traced array with shape \g<described>."),
    (r"(?P<what>\w+\(\)|.*NumPy.*) needs the value of (?P<described>\S+), which is being traced", _no_value),
    (r"(?P<described>\w+\[[\d,]*\])\)? (?:depends on .* and branches are not specialized|has no single truth value|"
     r"depends on an argument of a vmap)", r"Attempted boolean conversion of traced array with shape \g<described>."),
    (r"was traced inside a jit or vmap that has ended|belongs to a jit or vmap trace that has ended",
     "Encountered an unexpected tracer."),
    (r"^Leaked out of the jitted", "Leaked trace DynamicJaxprTrace."),
    (r"^Leaked out of the mapped", "Leaked trace BatchTrace."),
    (r"^Leaked out of", "Leaked trace."),
    (r"^`(?P<what>.*)`: (?P<a>\w+\[[\d,]*\]) and (?P<b>\w+\[[\d,]*\]) do not broadcast", _binary, _TypeAndValue),
    (r"^(\w+): shapes \[([\d, ]*)\] and \[([\d, ]*)\] cannot be broadcast together",
     lambda m: f"{m[1]} got incompatible shapes for broadcasting: {_sizes(m[2])}, {_sizes(m[3])}.", _TypeAndValue),
    (r"^dot: shapes (\(.*?\)) and (\(.*?\)) do not fit",
     r"dot_general requires contracting dimensions to have the same shape, got \1 and \2.", _TypeAndValue),
    (r"^matmul: the last dimension of \(.*?\) has size (\d+), but dimension \d+ of \(.*?\) has size (\d+)"
     r"|^dot_general\(.*?\): contracting dimension \d+ of the left side has size (\d+) but dimension \d+ of the right "
     r"side has size (\d+)",
     lambda m: "dot_general requires contracting dimensions to have the same shape, got "
     f"({m[1] or m[3]},) and ({m[2] or m[4]},).", _TypeAndValue),
    (r"^lax\.dot cannot multiply",
     "jax.lax.dot: dimension_numbers must be specified when not performing simple un-batched products.", _TypeAndValue),
    (r"^reshape\(.*?\): shape \[(.*?)\] has the negative dimension",
     lambda m: f"reshape new_sizes must all be positive, got {_sizes(m[1])}.", _TypeAndValue),
    (r"^(?:dynamic_)?slice\(.*?\): (?:the range|slice size) .* is not within its size",
     "slice slice_sizes must be less than or equal to operand shape", _TypeAndValue),
    (r"^(\(.*?\)) is not a permutation of the \d+ dimensions",
     r"transpose permutation isn't a permutation of operand dimensions, got permutation \1.", _TypeAndValue),
    (r"only an integer scalar can be an index, not", "Only integer scalar arrays can be converted to a scalar index."),
    (r"only a Tensor with one element is a Python number", "Only scalar arrays can be converted to Python scalars."),
    (r"the truth value of a Tensor of shape (\(.*?\)) is ambiguous",
     lambda m: "The truth value of an "
     f"{'empty array' if '0' in re.findall(r'[0-9]+', m[1]) else 'array with more than one element'} is ambiguous."),
    (r"too many indices: the array has (\d+) dimensions?, but (\d+) were indexed",
     r"Too many indices: array is \1-dimensional, but \2 were indexed"),
    (r"index (-?\d+) is out of bounds for axis (\d+) with size 0", "non-empty jnp.take needs elements to take from."),
    (r"index (-?\d+) is out of bounds for axis (\d+) with size (\d+)",
     r"index \1 out of bounds for axis \2 with size \3"),
    (r"an index is an integer, a slice, \.\.\., None, or an integer or boolean array, not str: (.*)",
     r"JAX does not support string indexing; got idx=\1", _TypeAndIndex),
    (r"an index is an integer, a slice, \.\.\., None, or an integer or boolean array, not (\w+): (.*)|"
     r"arrays used as indices must be integer or boolean, not (\w+)",
     lambda m: f"Indexer must have integer or boolean type, got indexer with type {m[1] or m[3]}", _TypeAndIndex),
    (r"^a boolean mask \S+ gives a result whose shape depends on its values",
     "Array boolean indices must be concrete.", _TypeAndIndex),
    # jit
    (r"^donated to \S+ in vain: (.*?)\. No", r"Some donated buffers were not usable: \1."),
    (r"^(jit|vmap|grad|\S+) needs a function, and \S+ is not callable: (.*)", r"\1: Expected a callable value, got \2"),
    (r"^jit needs a function that returns arrays: (\S+) is a generator",
     r"Expected a function, got a generator function: \1"),
    (r"^jit needs a function, not a staticmethod", "staticmethod arguments are not supported"),
    (r"^static arguments are compared by ==", "static arguments should be comparable using __eq__."),
    (r"^static arguments of (\S+) must be hashable", "Non-hashable static arguments are not supported"),
    (r"^a static argument of \S+ cannot be donated", "static_argnames and donate_argnames cannot intersect"),
    (r"^the parameters of (\S+) are not known, so what donate_argnames",
     r"Getting the signature of function \1 failed. Pass donate_argnums instead of donate_argnames."),
    (r"^a masked array's mask would be lost", "numpy masked arrays are not supported"),
    (r"^\S+ got .* \((\w+)\) for (\S+), which is not an array",
     r"Error interpreting argument to the function as an abstract array. The problematic value is of type <class '\1'> "
     r"and was passed to the function at path \2."),
    (r"^\S+ was compiled for arguments of the structure",
     "Function compiled with input pytree does not match the input pytree it was called with"),
    (r"^\S+ was compiled for (\S+) as (\S+), not (\S+)",
     r"Argument types differ from the types for which this computation was compiled. The mismatches are:\n"
     r"Argument '\2' compiled with \1 and called with \3"),
    (r"^(\S+)(?: \((\S+)\))? returned .* \((\w+)\)(?: at (\S+))?, which is not an array",
     lambda m: f"function {m[1]} at {m[2]} returned a value of type <class '{m[3]}'>"
     f"{f' at output component {m[4]}' if m[4] else ''}, which is not a valid JAX type"),
    # Derivatives
    (r"^(?:grad|value_and_grad) needs a scalar (?:complex )?loss, but|^grad needs a scalar float loss, but "
     r"\S+ returned (?!complex)",
     "Gradient only defined for scalar-output functions. The output is none."),
    (r"^grad needs a scalar float loss, but \S+ returned (complex\w+)\[\]",
     r"grad requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got \1."),
    (r"^(\w+) of \S+ needs complex inputs.*, but \S+ is (\w+)",
     r"\1 with holomorphic=True requires inputs with complex dtype, but got \2."),
    (r"^(\w+) of \S+ needs float inputs, but \S+ is ((?:u?int|bool)\w*)",
     r"\1 requires real- or complex-valued inputs (input dtype that is a sub-dtype of np.inexact), but got \2."),
    (r"^(\w+) of \S+ needs float inputs, but \S+ is (complex\w*)",
     r"\1 requires real-valued inputs (input dtype that is a sub-dtype of np.floating), but got \2."),
    (r"^argnums (-?\d+) is out of range: \S+ was called with (\d+)",
     r"differentiating with respect to argnums=\1 requires at least 1 positional arguments to be passed by the caller, "
     r"but got only \2 positional arguments."),
    (r"^linear_transpose of \S+ needs", "linear_transpose only supports inputs and outputs of real or complex types"),
    (r"^tangents do not fit the primals", "primal and tangent arguments to jax.jvp must have the same tree structure."),
    (r"^a tangent of (?:shape|type) .* does not fit its primal",
     "linearized function called on tangent values inconsistent with the original primal values."),
    (r"^jvp takes the (?:primals|tangents) as a tuple",
     "primal and tangent arguments to jax.jvp must be tuples or lists."),
    (r"^the pull-back of (\S+) takes one cotangent, .*, not (\d+)",
     r"The function returned by jax.vjp applied to \1 was called with \2 arguments, so \1 was called with "
     r"\2 arguments."),
    (r"^the cotangent does not fit the output of",
     "unexpected tree structure: the cotangent tree does not match that of the result"),
    (r"^vjp of \S+: a cotangent has type", "unexpected JAX type: the cotangent type does not match that of the result"),
    # vmap
    (r"^vmap got batch axes of different sizes: (.*)", _lanes),
    (r"^vmap over axis (-?\d+) of .*, which has shape (\(.*?\))", _map_rank),
    (r"^vmap of \S+ has nothing to batch over: every in_axes entry is None",
     "vmap must have at least one non-None value in in_axes."),
    (r"^vmap of \S+ has nothing to batch over: .* (\*args=.*, \*\*kwargs=.*), and",
     lambda m: "vmap wrapped function must be passed at least one argument containing an array or axis_size must be "
     f"specified, got empty {m[1].replace(', **', ' and **')}"),
    (r"^(in_axes|out_axes) is .* is no axis: it must be", r"vmap \1 must be an int, None, or a tuple of those."),
    (r"^in_axes is (.*): it is an axis, None, or a tuple",
     r"vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments passed to "
     r"the function, but got \1."),
    (r"^in_axes has (\d+) entries for (\d+) values",
     r"vmap in_axes must be an int, None, or a tuple of entries corresponding to the positional arguments passed to "
     r"the function, but got len(in_axes)=\1, len(args)=\2"),
    (r"^(in_axes|out_axes)\S* (?:is .*, which does not fit|has)",
     r"vmap \1 specification must be a tree prefix of the corresponding value; Mismatch details: different types"),
    (r"^vmap of \S+(?: over axis_name (\S+))?: out_axes is None for",
     lambda m: f"vmap has mapped output (axis_name={m[1]}) but out_axes is None (at vmap out_axes)"),
    # Custom rules
    (r"^no derivative is defined for the (custom_(j)vp|custom_(v)jp) function (\S+): use (\w+)",
     lambda m: f"No {m[5][3:].upper()} defined for {m[1]} function {m[4]} using {m[5]}."),
    (r"^no form under vmap is defined for the custom_vmap function (\S+):",
     r"No batching rule defined for custom_vmap function \1 using def_vmap."),
    (r"^the jvp rule (\S+) of (\S+) must return \(primals_out, tangents_out\), not (.*)",
     rf"Custom JVP rule \1 for function \2 {_AGAIN} representing primal and tangent outputs, but got \3"),
    (r"^the jvp rule (\S+) of (\S+) returned tangents of another structure than its results, (.*?) in the place of "
     r"(.*?): ",
     r"Custom JVP rule \1 for function \2 must produce primal and tangent outputs with equal container "
     r"(pytree) structures, but got \4 and \3 respectively."),
    (r"^the (jvp|forward) rule (\S+) of (\S+) returns another structure than the function does, (.*?) in the place of "
     r"(.*?): ",
     lambda m: _results(
         m, "container/pytree structure", ", and in particular of the same container/pytree structure", "."
     )),
    (r"^the (jvp|forward) rule (\S+) of (\S+) returns (\w+\[\S*\]) as result\S*, of which the function gives (\S+)$",
     lambda m: _results(m, "shapes/dtypes of", ", and in particular with leaves of the same shape/dtype", "")),
    (r"^the jvp rule (\S+) of (\S+) returns", rf"Custom JVP rule \1 for function \2 {_AGAIN}."),
    (r"^a tangent from the jvp rule \S+ of \S+ is (\S+) where (\S+) is needed",
     r"Custom JVP rule must produce primal and tangent outputs with corresponding shapes and dtypes. Expected \2 "
     r"(tangent type of \2) but got \1."),
    (r"^the forward rule (\S+) of (\S+) (?:must return|returns)",
     rf"Custom VJP fwd rule \1 for function \2 {_AGAIN}."),
    (r"^the backward rule (\S+) of (\S+) must return a tuple",
     r"Custom VJP bwd rule \1 for function \2 must produce a tuple of as many cotangents as arguments."),
    (r"^the backward rule (\S+) of (\S+) returned for argument (\d+) a cotangent of type (\S+);",
     r"Custom VJP bwd rule \1 for function \2 must produce: at output[\3] the bwd rule produced an output of type \4. "
     r"Consider just returning a None here."),
    (r"^the backward rule (\S+) of (\S+) returned for argument",
     r"Custom VJP bwd rule \1 for function \2 must produce the containers of the arguments."),
    (r"^a function with a custom vjp has no forward-mode derivative",
     "can't apply forward-mode autodiff (jvp) to a custom_vjp function."),
    (r"^\S+ was converted for",
     "The inputs to the closure produced by closure_convert must match those that it was made for."),
    (r"^the vmap rule (\S+) of (\S+) returns another structure than the function",
     r"structure of output returned by custom vmap rule (\1) does not match that of original custom-vmapped function."),
    (r"^the vmap rule (\S+) of (\S+) says what is batched in another structure",
     r"structure of output value and output batching specification returned by custom vmap rule (\1) do not match."),
    (r"^the (\w+) function (\S+): ((?:missing a required|too many positional|got an unexpected|multiple values).*)",
     r"The input arguments to the \1-decorated function \2 could not be resolved to positional-only arguments. Binding "
     r"failed with the error:\n\3"),
    (r"^(\S+) takes keyword-only arguments, which a (\w+) function cannot: (.*)",
     r"The input arguments to the \2-decorated function \1 could not be resolved to positional-only arguments. Binding "
     r"failed with the error:\nThe following keyword arguments could not be resolved to positions: \3"),
    # Control flow
    (r"^lax\.cond: the predicate must be a bool or a number, not NoneType", "cond predicate is None"),
    (r"^lax\.cond: the predicate must be a bool or a number, not (str|tuple|list): '?(.*?)'?$",
     r"Pred must be a scalar, got \2 of type <class '\1'>."),
    (r"^lax\.cond: the predicate must be a bool or a number, not \w+: (.*)",
     r"Pred type must be either boolean or number, got \1"),
    (r"^lax\.switch: the index must be a bool or a number, not (?:tuple|list): (.*)",
     lambda m: f"Branch index must be scalar, got {m[1]} of shape {np.shape(ast.literal_eval(m[1]))}."),
    (r"^lax\.switch: the index must be a bool or a number, not \w+: '?(.*?)'?$",
     r"Index type must be an integer, got \1."),
    (r"^lax\.switch needs at least one branch", "Empty branch sequence."),
    (r"^lax\.(?P<of>cond|switch): branches must return one type, but result(?P<path>\S*) is (?P<a>\S+) from "
     r"(?:false_fun|branch 0) \(.*?\) and (?P<b>\S+) from (?:true_fun|branch (?P<n>\d+)) ", _branch_types),
    (r"^lax\.(?P<of>cond|switch): (?:false_fun|branch 0) \(.*?\) and (?:true_fun|branch (?P<n>\d+)) \(.*?\) "
     r"must return one structure", _branch_trees),
    (r"^lax\.scan: `length` decides what is recorded",
     "The `length` argument to `scan` expects a concrete `int` value."),
    (r"^lax\.scan: `unroll` decides what is recorded",
     "The `unroll` argument to `scan` expects a concrete `int` or `bool` value."),
    (r"^lax\.scan scans over axis 0, but", "scan got value with no leading axis to scan over."),
    (r"^lax\.scan: length=(\d+) does not fit .* of length (\d+)",
     r"scan got `length` argument of \1 which disagrees with leading axis sizes [\2]."),
    (r"^lax\.(\w+): \S+ must return a carry of the structure it was given", lambda m:
     f"{'scan' if m[1] == 'scan' else 'while_loop'} body function carry input and carry output must have the same "
     f"pytree structure, but they differ:\n\n{structures.of_carry()}"),
    (r"^lax\.\w+: \S+ must return a carry of the type it was given: (.*)", _carries),
    (r"^lax\.scan: \S+ must return a pair \(carry, y\), not (\S+)", r"scan body output must be a pair, got \1."),
    (r"^lax\.while_loop: \S+ must return one bool scalar, not (.*)",
     lambda m: "cond_fun must return a boolean scalar, but got " + (
         f"pytree PyTreeDef(({', '.join('*' * len(m[1].split(', ')))}))." if ", " in m[1] else
         f"output type(s) [ShapedArray({m[1]})].")),
    (r"^there is no function for '(\w+)', only for",
     r"MLIR translation rule for platform_dependent not found for platform \1."),
    # Callbacks
    (r"^io_callback has no derivative", "IO callbacks do not support JVP. IO callbacks do not support transpose."),
    (r"^pure_callback has no derivative", "Pure callbacks do not support JVP."),
    (r"^io_callback with vmap_method='refuse' stands in a vmap", "Cannot `vmap` ordered IO callback.", ValueError),
    (r"^pure_callback with vmap_method='refuse' stands in a vmap",
     "vmap is only supported for callbacks that name a `vmap_method`."),
    (r"^a callback gives no \w+ unless", "result_shape_dtypes cannot specify 64-bit types"),
    # Shapes, axes and types
    (r"^`where` is a boolean mask, not", "jnp.{name}: where must be None or a boolean array.", _TypeAndValue),
    (r"^`initial` is a scalar, not of shape (.*)$", r"initial value must be a scalar. Got array of shape \1"),
    (r"^cumulative sums and products of an array of shape (\(.*\)) need an axis",
     lambda m: "The input must be non-scalar to take a cumulative sum or product." if m[1] == "()" else
     f"The input array has rank {m[1].count(',') + (m[1][-2] != ',')}, however an axis was not specified."),
    (r"^an axis is repeated in (.*)$", r"repeated axis: duplicate value in 'axis': \1"),
    (r"^dimensions (\(.*\)) names an axis twice", r"duplicate value in 'axes' \1: dimensions are not unique"),
    (r"a value of shape (\(.*?\)) cannot be broadcast to (\(.*?\))",
     lambda m: ("Cannot broadcast to shape with fewer dimensions" if m[2].count(",") < m[1].count(",") else
     "Incompatible shapes for broadcasting") + f": {m[1]} and requested shape {m[2]}"),
    (r"^diagonal needs two different axes", "axis1 and axis2 can not be same"),
    (r"^shapes (\(.*\)) do not broadcast together", r"Incompatible shapes for broadcasting: shapes=[\1]"),
    (r"a boolean mask of shape (\(.*?\)) does not match the array's shape (\(.*?\))",
     r"boolean index did not match shape of indexed array: \1 and \2"),
    (r"element types (\w+) and (\w+) have no common one", _no_promotion, TypePromotionError),
    (r"^a shape (?:is an integer or a sequence of integers|needs integers known)",
     "Shapes must be 1D sequences of concrete values of integer type."),
    (r"^a shape has no negative sizes: (.*)",
     r"broadcast_in_dim shape must have every element be nonnegative, got \1.", _TypeAndValue),
    (r"^broadcast_in_dim\(.*\): broadcast_dimensions \S+ has \d+ entries where",
     "broadcast_in_dim broadcast_dimensions must have length equal to operand ndim.", _TypeAndValue),
    (r"^broadcast_in_dim\(\w+\[(.*?)\]\): broadcast_dimensions \S+ must lie in 0\.\.(\d+)",
     lambda m: "broadcast_in_dim target broadcast shape must have equal or higher rank to the operand shape."
     if int(m[2]) < m[1].count(",") else
     "broadcast_in_dim broadcast_dimensions must be a subset of output dimensions.", _TypeAndValue),
    (r"^broadcast_in_dim\(.*\): dimension \d+ of size \d+ cannot be spread",
     "broadcast_in_dim operand dimension sizes must either be 1, or be equal to their corresponding dimensions in the "
     "target broadcast shape", _TypeAndValue),
    (r"^broadcast_in_dim\(.*\): broadcast_dimensions \S+ names dimension",
     "broadcast_in_dim broadcast_dimensions must not contain duplicates.", _TypeAndValue),
    (r"^\w+ (-?\d+) is out of range for an array of rank (\d+)",
     r"axis \1 is out of bounds for array of dimension \2"),
    (r"^lax\.(\w+) combines containers of the structure .*, and its computation returned",
     r"\1 output must have the same tree structure as the operands."),
    (r"^lax\.top_k gives int32 indices", "top_k returns int32 indices, which will overflow for array dimensions of "
     "more than 2**31."),
    (r"^cannot squeeze dimension (\d+) of \w+\[(.*)\]: its size",
     lambda m: f"cannot select an axis to squeeze out which has size not equal to one, got shape={_sizes(m[2])} and "
     f"dimensions=({m[1]},)"),
    (r"^dimensions needs integers known when the program is recorded, not \(None,\)",
     "'NoneType' object cannot be interpreted as an integer"),
    (r"^reduce_window\(.*\): initial value 0 is \w+\[(.*?)\] where",
     lambda m: "reduce_window expected init_values to be scalars but init_values have shapes "
     f"[{_sizes(m[1])}].", _TypeAndValue),
    (r"^padding (\(.*\)) is not \d+ pairs", r"padding argument is no sequence of pairs, got \1"),
    (r"^lax\.pad of \S+ needs", "length of padding_config must equal the number of axes of operand."),
    (r"^sizes \((.*-.*)\) do not add up", r"Sizes passed to split must be nonnegative, got [\1]"),
    (r"^window_strides \S+ needs one entry for each",
     "conv_general_dilated window and window_strides must have the same number of dimensions.", _TypeAndValue),
    (r"(?:^|`: )(\w+)\((\w+)\[.*\): is defined for .* elements, not (\w+)",
     lambda m: f"{_traces._NAMES.get(m[1], m[1])} does not accept dtype {_OF_TYPES.get(m[3], m[3])}."),
    (r"^(arg\w+) of no elements", r"attempt to get \1 of an empty sequence"),
    (r"^the integer (\d+) does not fit (\w+), its type", r"Python int \1 too large to convert to \2"),
    (r"^the Python integer (-?\d+) does not fit the element type (\w+)", r"Python integer \1 out of bounds for \2"),
    (r"^\[\(.*\)\] is not an element type", "JAX only supports number, bool, and string dtypes."),
    (r"^(\d+) is not an element type",
     r"Cannot interpret '\1' as a data type. Did you accidentally write `jax.numpy.{name}{args}` when you meant "
     r"`jax.numpy.{name}({args})`?"),
    (r"^a shape cannot depend on argument",
     "Shapes must be 1D sequences of concrete values of integer type.\nIf using `jit`, try using `static_argnums` or "
     "applying `jit` to smaller subfunctions."),
    (r"^rot90 turns a plane, of which an array of shape (\(.*?\))",
     r"rot90 requires its first argument to have ndim at least two, but got first argument of shape \1"),
    (r"^pad in mode '(\w+)' has no option '(\w+)'", r"unsupported keyword arguments for mode '\1': {\2}"),
    (r"^pad mode '?(.*?)'?; use", r"Unimplemented padding mode '\1' for np.pad."),
    (r"the directive .* is neither 'r' nor 'c'", "could not understand directive."),
    (r"^cov and corrcoef compute in", "{name}: dtype must be a subclass of float or complex."),
    (r"^arange needs known numbers: .* depends on its (\w+)", r"It arose in the jnp.arange argument '\1'."),
    (r"^(mgrid|ogrid|r_|c_): the (\w+) of a slice must be known",
     r"Abstract tracer value encountered where concrete value is expected: slice \2 of jnp.\1"),
    (r"^tensordot: (\d+) axes cannot be summed over for shapes (\(.*?\)) and (\(.*?\))",
     r"Number of tensordot axes (axes \1) exceeds input ranks (\2 and \3)", _TypeAndValue),
    (r"^tensordot: (\d+) axes of a and (\d+) of b",
     r"tensordot requires axes lists to have equal length, got \1 and \2.", _TypeAndValue),
    (r"^tensordot: axes is an integer or a pair",
     "tensordot axes argument must be an int, a pair of ints, or a pair of lists/tuples of ints."),
    (r"^tensordot: each of the two axes",
     "tensordot requires both axes lists to be either ints, tuples or lists."),
    (r"^index -?\d+ is out of bounds for dimension \d+ with size", "invalid entry in coords array"),
    (r"^arange counts along the real numbers",
     "Passing complex start/stop/step to jnp.arange is no longer supported."),
    (r"^(hypot) is not defined for complex", r"jnp.\1 is not well defined for complex-valued inputs.", _TypeAndValue),
    (r"not list: \[.*None.*\]$", "None is not a valid value for jnp.array", _TypeAndValue),
    (r"^take_along_axis needs integer indices, not (\w+)",
     r"take_along_axis indices must be of integer type, got \1"),
    (r"^(?:i?r?|i?h?)fft needs one axis, not (.*): ",
     r"jax.numpy.fft.{name} does not support multiple axes. Please use jax.numpy.fft.{name}n. Got axis = \1."),
    (r"^fftfreq: n is an integer, not (.*)$|^rfftfreq: n is an integer, not (.*)$",
     lambda m: f"The n argument of jax.numpy.fft.{{name}} only takes an int. Got n = {m[1] or m[2]}."),
    (r"^r?fftfreq: d is a number, not (.*)$",
     r"The d argument of jax.numpy.fft.{name} only takes a single value. Got d = \1."),
    (r"^random\.categorical cannot draw", "Number of samples without replacement cannot exceed number of categories."),
    (r"^the norm of vectors has no order (.*)$", r"Invalid order \1 for vector norm."),
    (r"^convolution_matrix: mode is", "mode must be one of 'full', 'same', 'valid'."),
    (r"^helmert: n is at least 1", "n must be a positive integer."),
    (r"^dft: dtype is", "dtype must be a complex floating-point type."),
    (r"the padding value must be", "padding_value must be a scalar of the operand's type."),
    (r"^reduce\(.*initial value \d+ is \S+ where", "reduce found non-scalar initial value."),
    (r"^lax\.reduce has .* initial values of another structure",
     "Operands must have the same tree structure as init_values."),
    (r"input and kernel must have one rank of at least 2",
     "conv_general_dilated lhs and rhs must have the same number of dimensions."),
    (r"^lax\.arg\w+ along axis \d+ of .*, which is empty", "argmin and argmax require non-empty reduced dimension."),
    (r"^lax\.arg\w+: index_dtype is an integer type", "index_dtype must be an integer type."),
    (r"^leslie needs one survival rate less|^leslie .*, not \w+\[(?:.*,)?(?!1\])\d+\] and",
     "Incorrect lengths for f and s."),
    (r"^convolution_matrix needs a vector, not a number", "a must be at least 1-dimensional."),
    (r"^leslie needs birth rates and at least one .* not \w+\[(?:.*,)?1\] and",
     "The length of f along the last axis must be at least 2."),
    (r"^fan-in and fan-out of a kernel of shape \(\d*,?\)", "Can't compute input and output sizes of a 1-dimensional "
     "weights tensor with default in_axis. Must be at least 2D or specify in_axis explicitly."),
    (r"^convolution_matrix needs a vector of", "len(a) must be at least 1."),
    (r"^fiedler_companion needs a leading coefficient", "The length of `a` along the last axis must be nonzero."),
    (r"^hadamard: n is (?:a power of two|at least 1)", "n must be a positive power of 2"),
    (r"^companion needs at least two coefficients", "The length of `a` along the last axis must be at least 2."),
    (r"^convolution_matrix: n is at least 1", "n must be a positive integer."),
    (r"^invpascal: kind is", "Expected kind to be one of 'symmetric', 'lower', 'upper'."),
    (r"^dft: scale is", "scale must be None, 'sqrtn', or 'n'."),
    (r"^(\w+) draws with one key, not with keys of shape (\(.*?\))",
     r"\1 accepts a single key, but was given a key array of shape \2."),
    (r"^lax\.broadcast_shapes: a shape has no negative sizes", "Only non-negative indices are allowed."),
    (r"^(\S+) is not a dataclass: name its data_fields",
     "register_dataclass: data_fields and meta_fields are required when nodetype is not a dataclass. Got nodetype="
     "{first}."),
    # Functions of arrays
    (r"^sici is not defined for complex", "Argument `x` to sici must be real-valued.", _TypeAndValue),
    (r"^(\w+) is not defined for complex\d+ elements", r"\1 does not support complex-valued inputs.", _TypeAndValue),
    (r"^x0 and b have different structures", "x0 and b must have matching tree structure."),
    (r"^map_coordinates has the orders 0 and 1", "jax.scipy.ndimage.map_coordinates currently requires order<=1"),
    (r"^args is a tuple of further arguments of the function, not (.*)",
     r"args argument to minimize must be a tuple, got \1"),
    (r"^vectorize .*: (\d+) arguments, not (\d+)", r"wrong number of positional arguments: expected \1, got \2"),
    (r"^vectorize .*: (\d+) results, not (\d+)",
     r"wrong number of output arguments: expected \1, got \2 (output must be a tuple of as many)"),
    (r"^vectorize .*: result \d+ has size (\d+) where (\w+) is (\d+)",
     r"inconsistent size for core dimension '\2': \1 vs \3"),
    (r"^vectorize .*: result \d+ has shape (\(.*?\)), not (\(.*?\))",
     r"output shape \1 does not match core dimensions \2"),
    (r"^excluded holds numbers and names", "jax.numpy.vectorize can only exclude integer and string arguments"),
    # Random numbers
    (r"^the seed of (\w+) is one integer", r"\1 accepts a scalar seed."),
    (r"^the seed of \w+ is an integer", "PRNG key seed must be an integer."),
    (r"^a generator is given by its name", "unrecognized type for specifying PRNG"),
    (r"^there is no generator", "unrecognized PRNG implementation"),
    (r"^the generator is named twice", "Cannot specify both `impl` and `dtype`"),
    (r"^bits are elements of an unsigned type", "dtype argument to bits must be an unsigned int dtype"),
    (r"^a key is no array of NumPy's", "JAX array with PRNGKey dtype cannot be converted to a NumPy array."),
    (r"^stateful_rng\(\) without a seed", "When used within transformed code, stateful_rng needs a seed."),
    (r"^a generator starts from a key", "Expected base_key to be a typed PRNG key"),
    # Checks and printing
    (r"^debug\.(\w+) without its first argument", r"debug_\1 received unexpected arguments in the two-call form"),
    (r"^debug\.print: no field of the format shows the argument (.*);",
     r"Unused keyword arguments to `jax.debug.print`: [\1]"),
    (r"^random\.normal makes floats of 16 bits or more, not (\w+)",
     r"dtype argument to `normal` must be a float or complex dtype, got \1", ValueError),
    (r"^random\.(\w+) makes floats of 16 bits or more, not (\w+)",
     r"dtype argument to `\1` must be a float dtype, got \2", ValueError),
    (r"^random\.poisson makes integers, not (\w)", r"Invalid integer data type '\1'.", _TypeAndValue),
    (r"^iota\(\): cannot count in pred", "iota does not accept dtype bool. Accepted dtypes are subtypes of integer, "
     "floating, complexfloating.", _TypeAndValue),
    (r"^cannot see the bits of bool", "Attempting to convert an array from bool to a type of more bits.", _TypeAndValue),
    (r"^random\.(\w+) makes integers, not (\w+)", r"\1 only accepts integer dtypes, got \2"),
    (r"^a key is uint32\[2\], as random.key and random.split make, not uint32\[(.*)\]", lambda m:
     f"JAX encountered invalid PRNG key data: expected key_data.shape to end with (2,); got shape={_sizes(m[1])}"),
    (r"^a key is uint32\[2\], as random.key and random.split make, not \w+\[\]",
     "JAX encountered invalid PRNG key data: expected key_data to have ndim, shape, and dtype attributes."),
    (r"^a key is uint32\[2\], as random.key and random.split make, not (\w+)\[",
     r"JAX encountered invalid PRNG key data: expected key_data.dtype = uint32; got dtype=\1"),
    (r"^keys of \w+ are uint32\[\.\.\., (\d)\], not uint32(\(.*\))",
     r"JAX encountered invalid PRNG key data: expected key_data.shape to end with (\1,); got shape=\2"),
    (r"^keys of \w+ are uint32\[\.\.\., \d\], not (\w+)\(",
     r"JAX encountered invalid PRNG key data: expected key_data.dtype = uint32; got dtype=\1"),
    (r"^(split|fold_in) draws with one key, not with keys of shape (\(.*?\))",
     r"\1 accepts a single key, but was given a key array of shape \2 != (). Use jax.vmap for batching."),
    (r"^(\w+) draws with one key, not with keys of shape (\(.*?\))",
     r"\1 accepts a single key, but was given a key array of shape \2 != (). Use jax.vmap for batching."),
    (r"^fold_in takes an integer scalar, not \w+\[(.+)\]", lambda m:
     f"fold_in accepts a scalar, but was given an array of shape {_sizes(m[1])} != (). Use jax.vmap for batching."),
    (r"^random\.choice cannot take (\d+) of (\d+) elements without replacement",
     r"Cannot take a larger sample (size \1) than population (size \2) when 'replace=False'"),
    (r"^random\.choice cannot choose from nothing", "a must be greater than 0 unless no samples are taken"),
    (r"^random\.choice of (\d+) elements needs p of shape \S+, not (\(.*?\))",
     r"p must be None or a 1D vector with the same size as a.shape[axis]. p has shape \2 and a.shape[axis] is \1."),
    (r"^random\.permutation needs an integer or an array", "x must be an integer or at least 1-dimensional"),
    (r"^random\.multivariate_normal: method is one of", "method must be one of {'svd', 'eigh', 'cholesky'}"),
    (r"^random\.multivariate_normal needs .*, not \(\) and",
     "multivariate_normal requires mean.ndim >= 1, got mean.ndim == 0"),
    (r"^random\.multivariate_normal needs .*, not \((?:.*, )?(\d+),?\) and (\(.*?\))",
     r"multivariate_normal requires cov.shape == (..., n, n) for n=\1, but got cov.shape == \2."),
    (r"^random\.dirichlet needs an alpha", "dirichlet requires alpha.ndim >= 1, got alpha.ndim == 0"),
    (r"^random\.gumbel has the modes .*, not '(\w+)'", r"Must provide valid mode for gumbel got: \1"),
    (r"^random\.poisson draws from keys of threefry2x32 only",
     "`poisson` is only implemented for the threefry2x32 RNG", NotImplementedError),
    (r"^random\.\w+: parameters of shape (\(.*?\)) do not broadcast to the shape (\(.*?\))",
     r"Incompatible shapes for broadcasting: shapes=[\2, \1]"),
    (r"^invalid value \((\w+)\) encountered in (\w+)", lambda m:
     f"invalid value ({m[1]}) encountered in {_traces._NAMES.get(m[2], m[2])}"),
    # Axes, operators and element types
    (r"^axes (\(.*?\)) are not a permutation of the \d+ dimensions of \w+\[(.*?)\]", lambda m:
     "transpose permutation isn't a permutation of operand dimensions, got permutation "
     f"{m[1]} for operand shape {_sizes(m[2])}.", _TypeAndValue),
    (r"^(\(.*?\)) is not a permutation of the \d+ dimensions of \w+\[(.*?)\]", lambda m:
     "transpose permutation isn't a permutation of operand dimensions, got permutation "
     f"{m[1]} for operand shape {_sizes(m[2])}.", _TypeAndValue),
    (r"integers to negative integer powers are not allowed", "Integers cannot be raised to negative powers",
     _TypeAndValue),
    (r"(\w+)\[([\d,]*)\] @ \w+\[([\d,]*)\]: (\d+) != (\d+)",
     r"dot_general requires contracting dimensions to have the same shape, got (\4,) and (\5,).", _TypeAndValue),
    (r"^lax\.cond needs a scalar condition, not \w+\[(.*?)\]", lambda m:
     f"Pred must be a scalar, got an array of shape {_sizes(m[1])}."),
    (r"^lax\.switch needs an integer scalar as its index, not (\w+)\[\]",
     r"Index type must be an integer, got an array of \1"),
    (r"^lax\.scan needs `length` where xs holds no arrays",
     "scan got no values to scan over and `length` not provided."),
    (r"^lax\.scan needs xs of one length along axis 0, but got (.*)", lambda m:
     f"scan got values with different leading axis sizes: {', '.join(re.findall(r'length ([0-9]+):', m[1]))}."),
    # Functions that are jitted or differentiated
    (r"^(\w+) (\d+) is out of range: \w+ has (\d+) positional parameters",
     r"Jitted function has \1=(\2,), but only accepts \3 positional arguments."),
    (r"^(\w+) '(\w+)' is no parameter of",
     r"Jitted function has invalid argnames {'\2'} in \1. Function does not take these args."),
    (r"^\w+ returned None; grad needs a scalar loss",
     "Gradient only defined for scalar-output functions. Output was None."),
    (r"^with has_aux, .* must return a two-element tuple",
     "expected function with aux output to return a two-element tuple"),
    (r"the array (\w+)\[([\d,]*)\] was donated or deleted", lambda m:
     f"Array has been deleted with shape={_OF_TYPES.get(m[1], m[1])}[{m[2]}].", RuntimeError),
    (r"^\.mT needs at least two dimensions; this Tensor has shape (\(.*?\))", lambda m:
     f"x must be at least two-dimensional for matrix_transpose; got ndim={len(re.findall(r'[0-9]+', m[1]))}"),
    (r"^a last dimension of \d+ does not divide into", "When changing to a larger dtype, its size must be a divisor of "
     "the total size in bytes of the last axis of the array."),
    (r"^a (?:0-d Tensor cannot be iterated over)|0-d Tensor cannot be iterated over", "iteration over a 0-d array"),
    (r"^len\(\) of a 0-d Tensor", "len() of unsized object"),
    (r"^order must be 'C' or 'F', not 'K'", "Ravel not implemented for order='K'.", NotImplementedError),
    (r"^cannot squeeze axis (-?\d+) of size \d+ out of \w+\[(.*?)\]", lambda m:
     "cannot select an axis to squeeze out which has size not equal to one, got "
     f"shape={_sizes(m[2])} and dimensions=({m[1]},)"),
    (r"^cannot reshape (\w+\[.*?\]) with (\d+) elements to (\(.*?\))", lambda m:
     f"cannot reshape array of shape {_shape(m[1])} (size {m[2]}) into shape {m[3]}", _TypeAndValue),
    (r"^cannot reshape (\w+\[.*?\]) to (\(.*?\)): (\d+) elements do not divide", lambda m:
     f"cannot reshape array of shape {_shape(m[1])} (size {m[3]}) into shape {m[2]} because the product of specified "
     f"axis sizes ({math.prod(int(n) for n in re.findall(r'[0-9]+', m[2].replace('-1', '')))}) does not evenly divide "
     f"{m[3]}", _TypeAndValue),
    (r"^shapes (\(.*?\)) and (\(.*?\)) cannot be concatenated along axis (\d+)", _unlike, _TypeAndValue),
    (r"^cannot reshape \S+ to (\(.*?\)): only one size may be -1",
     r"can only specify one unknown axis size with a `-1` value, got \1", _TypeAndValue),
    (r"^index (-?\d+) out of bounds for axis 0 with size (\d+)$", r"index \1 is out of bounds for size \2"),
    (r"an index can only have a single ellipsis", "an index can only have a single ellipsis ('...')"),
    (r"^unravel takes a vector of (\d+) elements, not \w+\[(.*?)\]", lambda m:
     f"Sum of sizes {m[1]} must be equal to dimension 0 of the operand shape [{m[2]}]"),
    (r"^unravel takes (\w+), as ravel_pytree gave it, not (\w+)\[",
     r"unravel function given array of dtype \2, but expected dtype \1"),
    (r"^the composite \S+ has an attribute that is neither",
     "Note: If you are passing jax arrays as attributes, use numpy arrays instead."),
    # Trees
    (r"^the structure has (\d+) leaves, (\d+) were given", lambda m:
     f"Too few leaves for PyTreeDef; expected {m[1]}, got {m[2]}" if int(m[2]) < int(m[1]) else
     f"Too many leaves for PyTreeDef; expected {m[1]}."),
    (r"^(\w+) is registered already", r"Duplicate custom PyTreeDef type registration for \1."),
    (r"^register_dataclass takes both data_fields and meta_fields, or neither, not (.*) and (.*)$",
     r"register_dataclass: data_fields and meta_fields must both be specified when either is specified. Got "
     r"data_fields=\1 meta_fields=\2."),
    (r"^to flatten a \w+ its function should return a \(children, metadata\) pair, not (\(\d+, \d+\))$",
     r"The to_iterable function for a custom PyTree node should return a (children, aux_data) tuple where "
     r"'children' is "
     r"iterable, got \1", _TypeAndValue),
    (r"^to flatten a \w+ its function should return a \(children, metadata\) pair, not (.*)$",
     r"The to_iterable function for a custom PyTree node should return a (children, aux_data) tuple, got "
     r"\1", _TypeAndValue),
    (r"^an? \w+ is a leaf: it cannot be flattened", "can't tree-flatten type"),
    (r"^register_dataclass of \w+: its fields are (.*); named are (.*)$", _fields),
    (r"^register_dataclass of \w+: data and metadata at once: (.*)$",
     lambda m: "data_fields and meta_fields must not overlap. Overlapping fields: "
     f"{set(m[1].split(', '))}"),
    (r"structures differ at .*?: NoneType against \w+, (.*)$", r"Expected None, got \1. pytree structure error"),
    (r"structures differ at .*?: (list|tuple|dict) against [\w ]+?, (.*)$",
     r"Expected \1, got \2. pytree structure error"),
    (r"structures differ at .*?: named tuple (\w+) against named tuple (\w+)",
     r"Named tuple type mismatch: expected \1, got \2."),
    (r"structures differ at .*?: named tuple \w+ against [\w ]+?, (.*)$", r"Expected named tuple, got \1."),
    (r"structures differ at .*?: container (\w+) against (\w+)", r"Custom node type mismatch: expected \1, got \2."),
    (r"structures differ at .*?: (\d+) items against (\d+), (\[.*)$",
     r"List arity mismatch: \2 != \1; list: \3. pytree structure error"),
    (r"structures differ at .*?: (\d+) items against (\d+), (\(.*)$",
     r"Tuple arity mismatch: \2 != \1; tuple: \3. pytree structure error"),
    (r"structures differ at .*; .*\(its keys: (.*)\)$|structures differ at .*\(its keys: (.*)\)$",
     lambda m: f"Dict key mismatch; expected keys: {m[1] or m[2]}; pytree structure error"),
    (r"^structures differ at", "pytree structure error: different types or metadata"),
)  # fmt: skip


@functools.cache
def _rows() -> list[tuple[re.Pattern[str], _Phrase, type[Exception] | None]]:
    return [(re.compile(row[0]), row[1], row[2] if len(row) > 2 else None) for row in _ROWS]


def told(e: Exception, name: str = "", args: Sequence[Any] = ()) -> Exception:
    """`e` with JAX's phrase before its text, or an error of JAX's class that has both; `e` itself without a row.

    `name` is that of the function that raised it, called with `args`.
    """
    text = e.args[0] if len(e.args) == 1 else None
    if type(text) is not str or hasattr(e, "_told"):
        return e
    for pattern, phrase, kind in _rows():
        found = pattern.search(text)
        if found is None:
            continue
        first = phrase(found) if callable(phrase) else found.expand(phrase)
        first = first.replace("{name}", name)
        if "{args}" in first:  # only then: to show an array computes it, which may be what has failed
            first = first.replace("{args}", f"({', '.join(map(repr, args))})")
        if "{first}" in first:
            first = first.replace("{first}", repr(args[0]) if args else "")
        if "not a valid JAX type" in first and len(args) > 1:
            name_of_type = found[1] or "ndarray"
            places = [i for i, a in enumerate(args) if type(a).__name__ == name_of_type]
            if places:
                first += (
                    f"\nError interpreting argument to {name} as a JAX value. The problematic value is of type "
                    f"{type(args[places[0]])} and was passed to {name} at position {places[0]}."
                )
        if text.startswith(first):
            break
        if kind is None or isinstance(e, kind):
            e.args = (f"{first}\n{text}",)
        else:
            e = kind(f"{first}\n{text}").with_traceback(e.__traceback__)
        break
    e._told = True  # type: ignore[attr-defined]
    return e


def telling(f: _F) -> _F:
    """`f`, whose errors are told."""

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return f(*args, **kwargs)
        except Exception as e:
            raise told(e, getattr(f, "__name__", ""), args) from e.__cause__

    return call  # type: ignore[return-value]
