"""Programs that make, move and pick elements: constants, shapes, slices, gathers, tuples.

Oracles are NumPy's own movements, or the specification's index formulas written as loops.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from spec_elements import BY_TEXT, Element
from spec_program import Program, function, ints, one_op, programs, region, small, tensor, type_of

I32, I64 = BY_TEXT["i32"], BY_TEXT["i64"]


def patterned(element: Element, shape: Sequence[int], seed: int = 11) -> np.ndarray:
    """Special values and random bit patterns: what is moved must arrive bit for bit."""
    n = int(np.prod(shape))
    return np.resize(element.samples(-99, 99, n, seed), shape) if n else np.zeros(shape, element.dtype)


def moved(op: str, element: Element, x: np.ndarray, want: np.ndarray, attributes: str = "") -> Program:
    return Program(one_op(op, [type_of(x, element)], [type_of(want, element)], attributes), [x], [want])


def shape_operand(values: Sequence[int], name: str, element: Element = I64) -> str:
    t = tensor((len(values),), element)
    return f"  {name} = stablehlo.constant dense<{list(values) if len(values) else ''}> : {t}\n"


# --- constants ---


def scalar_text(x: Any, element: Element) -> str:
    if element.kind == "b":
        return "true" if x else "false"
    if element.kind in "iu":
        return str(int(x))
    if element.kind == "c":
        return f"({scalar_text(x.real, element.part)}, {scalar_text(x.imag, element.part)})"
    bits = np.asarray(x, element.dtype).view(f"u{element.dtype.itemsize}")
    if element.bits < 8:
        return repr(float(x))
    exact = np.isfinite(x) and abs(float(x)) < 1e6 and float(x) == round(float(x), 6)
    return f"{float(x):.8e}" if exact else f"0x{int(bits):0{2 * element.dtype.itemsize}X}"


@programs("constant")
def constant(element: Element) -> Iterator[Program]:
    """A list, a splat, raw bytes, nothing."""
    x = element.specials()[:12].reshape(2, -1) if element.kind != "b" else np.array([[True], [False]])
    listed = "[" + ", ".join("[" + ", ".join(scalar_text(v, element) for v in row) + "]" for row in x) + "]"
    raw = "0x" + (x.tobytes().hex().upper() if element.kind != "b" else "00FF")
    one = patterned(element, (40,))[-3]
    bodies = [
        (listed, x),
        (scalar_text(one, element), np.full((3, 2), one, element.dtype)),
        (scalar_text(one, element), np.asarray(one, element.dtype)),
        ("", np.zeros((0, 4), element.dtype)),
    ]
    if element.bits >= 8:
        bodies.append((f'"{raw}"', x))
    for body, want in bodies:
        t = type_of(want, element)
        yield Program(function([], [t], f"  %r = stablehlo.constant dense<{body}> : {t}"), [], [want])
        generic = f'  %r = "stablehlo.constant"() {{value = dense<{body}> : {t}}} : () -> {t}'
        yield Program(function([], [t], generic), [], [want])


@programs("iota")
def iota(element: Element) -> Iterator[Program]:
    for shape, d in (((5,), 0), ((3, 4), 1), ((4, 1, 2), 0), ((0, 3), 1)):
        index = element.cast(np.indices(shape)[d])
        yield Program(
            one_op("iota", [], [tensor(shape, element)], f"iota_dimension = {d} : i64"), [], [index]
        )


@programs("dynamic_iota")
def dynamic_iota(element: Element) -> Iterator[Program]:
    for shape, d in (((5,), 0), ((3, 4), 1)):
        t = tensor(shape, element)
        body = (
            shape_operand(shape, "%s")
            + f"  %r = stablehlo.dynamic_iota %s, dim = {d} : (tensor<{len(shape)}xi64>) -> {t}"
        )
        yield Program(function([], [t], body), [], [element.cast(np.indices(shape)[d])])


# --- shapes ---


@programs("broadcast_in_dim", "dynamic_broadcast_in_dim")
def broadcast_in_dim(op: str, element: Element) -> Iterator[Program]:
    """result[i...] = operand[j...], j_k = 0 where operand's dimension k is 1, else i[broadcast_dimensions[k]]."""
    for given, dims, shape in (
        ((1, 3), (2, 1), (2, 3, 2)),
        ((), (), (4,)),
        ((3,), (0,), (3, 2)),
        ((1,), (0,), (0,)),
    ):
        x = patterned(element, given)
        want = np.empty(shape, element.dtype)
        for i in np.ndindex(shape):
            want[i] = x[tuple(0 if given[k] == 1 else i[dims[k]] for k in range(len(given)))]
        a, b, listed = type_of(x, element), tensor(shape, element), ints("broadcast_dimensions", list(dims))
        if op == "broadcast_in_dim":
            yield moved(op, element, x, want, listed)
            yield Program(
                function(
                    [a], [b], f"  %r = stablehlo.broadcast_in_dim %a0, dims = {list(dims)} : ({a}) -> {b}"
                ),
                [x],
                [want],
            )
            continue
        body = shape_operand(shape, "%s")
        body += f'  %r = "stablehlo.{op}"(%a0, %s) {{{listed}}} : ({a}, tensor<{len(shape)}xi64>) -> {b}'
        yield Program(function([a], [b], body), [x], [want])


@programs("reshape")
def reshape(element: Element) -> Iterator[Program]:
    for given, shape in (((2, 3), (3, 2)), ((4,), (2, 1, 2)), ((1, 1), ()), ((0, 5), (5, 0))):
        x = patterned(element, given)
        yield moved("reshape", element, x, x.reshape(shape))


@programs("dynamic_reshape")
def dynamic_reshape(element: Element) -> Iterator[Program]:
    for given, shape in (((2, 3), (3, 2)), ((4,), (2, 1, 2)), ((0, 5), (5, 0))):
        x = patterned(element, given)
        a, b = type_of(x, element), tensor(shape, element)
        body = shape_operand(shape, "%s")
        body += f"  %r = stablehlo.dynamic_reshape %a0, %s : ({a}, tensor<{len(shape)}xi64>) -> {b}"
        yield Program(function([a], [b], body), [x], [x.reshape(shape)])


@programs("transpose")
def transpose(element: Element) -> Iterator[Program]:
    for given, order in (((2, 3), (1, 0)), ((2, 3, 4), (2, 0, 1)), ((5,), (0,)), ((), ()), ((0, 2), (1, 0))):
        x = patterned(element, given)
        yield moved("transpose", element, x, x.transpose(order), ints("permutation", list(order)))


@programs("reverse")
def reverse(element: Element) -> Iterator[Program]:
    for given, dims in (((3, 4), (1,)), ((3, 4), (0, 1)), ((2, 3), ()), ((0, 2), (0,))):
        x = patterned(element, given)
        yield moved("reverse", element, x, np.flip(x, dims), ints("dimensions", list(dims)))


@programs("concatenate")
def concatenate(element: Element) -> Iterator[Program]:
    for given, d in (([(3, 2), (1, 2)], 0), ([(2, 1), (2, 0), (2, 3)], 1), ([(4,)], 0)):
        xs = [patterned(element, s, i) for i, s in enumerate(given)]
        want = np.concatenate(xs, d)
        text = one_op(
            "concatenate",
            [type_of(x, element) for x in xs],
            [type_of(want, element)],
            f"dimension = {d} : i64",
        )
        yield Program(text, xs, [want])


@programs("slice")
def slice_(element: Element) -> Iterator[Program]:
    cases = (
        ((3, 4), (1, 0), (3, 4), (1, 2)),
        ((7,), (2,), (7,), (3,)),
        ((5,), (2,), (2,), (1,)),
        ((), (), (), ()),
    )
    for given, start, limit, stride in cases:
        x = patterned(element, given)
        want = x[tuple(slice(a, b, s) for a, b, s in zip(start, limit, stride))]
        listed = ", ".join(
            ints(n, list(v))
            for n, v in (("start_indices", start), ("limit_indices", limit), ("strides", stride))
        )
        yield moved("slice", element, x, want, listed)
        ranges = ", ".join(f"{a}:{b}:{s}" for a, b, s in zip(start, limit, stride))
        a, b = type_of(x, element), type_of(want, element)
        yield Program(
            function([a], [b], f"  %r = stablehlo.slice %a0 [{ranges}] : ({a}) -> {b}"), [x], [want]
        )


@programs("real_dynamic_slice")
def real_dynamic_slice(element: Element) -> Iterator[Program]:
    x = patterned(element, (4, 5))
    want = x[1:4:2, 0:5:3]
    a, b, n = type_of(x, element), type_of(want, element), "tensor<2xi64>"
    body = shape_operand((1, 0), "%s") + shape_operand((4, 5), "%l") + shape_operand((2, 3), "%d")
    body += f'  %r = "stablehlo.real_dynamic_slice"(%a0, %s, %l, %d) : ({a}, {n}, {n}, {n}) -> {b}'
    yield Program(function([a], [b], body), [x], [want])


def padded(x: np.ndarray, value: np.ndarray, low: Any, high: Any, interior: Any) -> np.ndarray:
    """Index i of the operand goes to low + i (interior + 1); what falls outside is lost."""
    shape = [lo + hi + max(n - 1, 0) * k + n for n, lo, hi, k in zip(x.shape, low, high, interior)]
    out = np.full(shape, value, x.dtype)
    for i in np.ndindex(x.shape):
        at = tuple(lo + j * (k + 1) for j, lo, k in zip(i, low, interior))
        if all(0 <= p < n for p, n in zip(at, shape)):
            out[at] = x[i]
    return out


PADS = (
    ((2, 3), (0, 1), (2, 1), (1, 2)),
    ((4,), (-1,), (2,), (0,)),
    ((5,), (-2,), (-1,), (1,)),
    ((0,), (2,), (1,), (3,)),
)


@programs("pad", "dynamic_pad")
def pad(op: str, element: Element) -> Iterator[Program]:
    for given, low, high, interior in PADS:
        x, value = patterned(element, given), np.asarray(patterned(element, (9,))[-1])
        want = padded(x, value, low, high, interior)
        arguments, out = [type_of(x, element), tensor((), element)], type_of(want, element)
        lists = list(
            zip(("edge_padding_low", "edge_padding_high", "interior_padding"), (low, high, interior))
        )
        if op == "pad":
            text = one_op(op, arguments, [out], ", ".join(ints(n, list(v)) for n, v in lists))
        else:
            n = f"tensor<{len(given)}xi64>"
            body = "".join(shape_operand(v, f"%p{i}") for i, (_, v) in enumerate(lists))
            types = f"({', '.join(arguments)}, {n}, {n}, {n}) -> {out}"
            text = function(
                arguments, [out], body + f"  %r = stablehlo.dynamic_pad %a0, %a1, %p0, %p1, %p2 : {types}"
            )
        yield Program(text, [x, value], [want])


@programs("get_dimension_size")
def get_dimension_size(element: Element) -> Iterator[Program]:
    x = patterned(element, (3, 0, 7))
    for d in range(3):
        text = one_op("get_dimension_size", [type_of(x, element)], ["tensor<i32>"], f"dimension = {d} : i64")
        yield Program(text, [x], [np.int32(x.shape[d])])


@programs("set_dimension_size")
def set_dimension_size(element: Element) -> Iterator[Program]:
    """To the size it has, and to less: the elements that are left."""
    for size in (4, 2):
        x = patterned(element, (2, 4))
        a, b = type_of(x, element), tensor((2, size), element)
        body = f"  %s = stablehlo.constant dense<{size}> : tensor<i32>\n"
        body += f'  %r = "stablehlo.set_dimension_size"(%a0, %s) {{dimension = 1 : i64}} : ({a}, tensor<i32>) -> {b}'
        yield Program(function([a], [b], body), [x], [x[:, :size]])


# --- places known at run time ---


STARTS = ((0, 0), (1, 2), (-3, 99), (2, -1))


@programs("dynamic_slice")
def dynamic_slice(element: Element) -> Iterator[Program]:
    """Starts are moved into the operand."""
    x, size = patterned(element, (3, 5)), (2, 3)
    text = one_op(
        "dynamic_slice",
        [type_of(x, element), "tensor<i64>", "tensor<i64>"],
        [tensor(size, element)],
        ints("slice_sizes", size),
    )
    for start in STARTS:
        r, c = (min(max(s, 0), n - k) for s, n, k in zip(start, x.shape, size))
        yield Program(text, [x, *map(np.int64, start)], [x[r : r + 2, c : c + 3]])


@programs("dynamic_update_slice")
def dynamic_update_slice(element: Element) -> Iterator[Program]:
    x, y = patterned(element, (3, 5)), patterned(element, (2, 3), 5)
    a, b = type_of(x, element), type_of(y, element)
    text = one_op("dynamic_update_slice", [a, b, "tensor<i32>", "tensor<i32>"], [a])
    for start in STARTS:
        r, c = (min(max(s, 0), n - k) for s, n, k in zip(start, x.shape, y.shape))
        want = x.copy()
        want[r : r + 2, c : c + 3] = y
        yield Program(text, [x, y, *map(np.int32, start)], [want])


def slice_start(
    index: np.ndarray, vector: int, batch: Sequence[int], rank: int, mapped: Sequence[int], batching: Any
) -> list[int]:
    """Where in the operand the slice of a batch index begins; `batching` pairs the operand's and the index's dims."""
    at: list[Any] = list(batch)
    if vector < index.ndim:
        at.insert(vector, slice(None))
    start = np.atleast_1d(index[tuple(at)])
    full = [0] * rank
    for s, k in enumerate(mapped):
        full[k] = int(start[s])
    for k, at_dim in batching:
        full[k] = batch[at_dim - (1 if at_dim > vector else 0)]
    return full


def add_offsets(full: list[int], offsets: Sequence[int], dropped: Sequence[int]) -> tuple[int, ...]:
    """`full` with the offsets added to the dimensions that are not dropped."""
    rest = iter(offsets)
    return tuple(n if k in dropped else n + next(rest) for k, n in enumerate(full))


def gathered(x: np.ndarray, start_indices: np.ndarray, d: dict[str, Any], sizes: Sequence[int]) -> np.ndarray:
    """The specification's formula; starts are moved so that their slice lies in the operand."""
    vector = d["index_vector_dim"]
    batch_shape = [n for k, n in enumerate(start_indices.shape) if k != vector]
    dropped = d["collapsed_slice_dims"] + d["operand_batching_dims"]
    batching = list(zip(d["operand_batching_dims"], d["start_indices_batching_dims"]))
    kept = [n for k, n in enumerate(sizes) if k not in dropped]
    rank = len(batch_shape) + len(kept)
    batch_dims = [k for k in range(rank) if k not in d["offset_dims"]]
    shape = [0] * rank
    for k, n in zip(batch_dims, batch_shape):
        shape[k] = n
    for k, n in zip(d["offset_dims"], kept):
        shape[k] = n
    out = np.empty(shape, x.dtype)
    for i in np.ndindex(*shape):
        batch = [i[k] for k in batch_dims]
        full = slice_start(start_indices, vector, batch, x.ndim, d["start_index_map"], batching)
        for k in d["start_index_map"]:
            full[k] = min(max(full[k], 0), x.shape[k] - sizes[k])
        out[i] = x[add_offsets(full, [i[k] for k in d["offset_dims"]], dropped)]
    return out


# operand, indices, offset_dims, collapsed, operand batching, indices batching, map, vector dim, sizes
GATHERS = (
    ((4, 5), [[1], [3], [9], [-2]], [1], [0], [], [], [0], 1, [1, 5]),
    ((4, 5), [[0, 1], [2, 4]], [0, 2], [], [], [], [1, 0], 0, [2, 3]),
    ((6,), [2, 0, 5], [], [0], [], [], [0], 1, [1]),
    ((3, 4), [[[0], [3]], [[1], [1]], [[2], [0]]], [], [1], [0], [0], [1], 2, [1, 1]),
)


def gather_attributes(case: Any) -> tuple[dict[str, Any], str]:
    d = dict(
        zip(
            [
                "offset_dims",
                "collapsed_slice_dims",
                "operand_batching_dims",
                "start_indices_batching_dims",
                "start_index_map",
                "index_vector_dim",
            ],
            case[2:8],
        )
    )
    listed = ", ".join(f"{k} = {v}" for k, v in d.items() if v != [])
    return d, f"dimension_numbers = #stablehlo.gather<{listed}>, indices_are_sorted = false"


@programs("gather", "dynamic_gather")
def gather(op: str, element: Element) -> Iterator[Program]:
    for case in GATHERS:
        x, index = patterned(element, case[0]), np.array(case[1], np.int32)
        d, attributes = gather_attributes(case)
        want = gathered(x, index, d, case[8])
        arguments, out = [type_of(x, element), type_of(index, I32)], type_of(want, element)
        if op == "gather":
            text = one_op(op, arguments, [out], attributes + ", " + ints("slice_sizes", case[8]))
        else:
            types = f"({', '.join(arguments)}, tensor<{x.ndim}xi64>) -> {out}"
            call = f'  %r = "stablehlo.dynamic_gather"(%a0, %a1, %s) {{{attributes}}} : {types}'
            text = function(arguments, [out], shape_operand(case[8], "%s") + call)
        yield Program(text, [x, index], [want])


def scattered(
    x: np.ndarray, index: np.ndarray, updates: np.ndarray, d: dict[str, Any], combine: Any
) -> np.ndarray:
    """The specification's formula, in the order of the updates; updates that fall outside are dropped."""
    out, vector = x.copy(), d["index_vector_dim"]
    dropped = d["inserted_window_dims"] + d["input_batching_dims"]
    batching = list(zip(d["input_batching_dims"], d["scatter_indices_batching_dims"]))
    scatter_dims = [k for k in range(updates.ndim) if k not in d["update_window_dims"]]
    for i in np.ndindex(updates.shape):
        batch = [i[k] for k in scatter_dims]
        full = slice_start(index, vector, batch, x.ndim, d["scatter_dims_to_operand_dims"], batching)
        place = add_offsets(full, [i[k] for k in d["update_window_dims"]], dropped)
        if all(0 <= p < n for p, n in zip(place, x.shape)):
            out[place] = combine(out[place], updates[i])
    return out


# operand, indices, updates, update_window_dims, inserted, input batching, indices batching, to operand, vector dim
SCATTERS = (
    ((4, 3), [[1], [3], [1]], (3, 3), [1], [0], [], [], [0], 1),
    ((6,), [0, 5, 0, 2], (4,), [], [0], [], [], [0], 1),
    ((4, 5), [[0, 2], [1, 3]], (2, 2, 2), [1, 2], [], [], [], [0, 1], 0),
    ((3, 4), [[[0]], [[3]], [[1]]], (3, 1), [], [1], [0], [0], [1], 2),
)


@programs("scatter")
def scatter(element: Element) -> Iterator[Program]:
    """Added, and replaced; indices outside drop their update whole."""
    rng = np.random.default_rng(21)
    names = [
        "update_window_dims",
        "inserted_window_dims",
        "input_batching_dims",
        "scatter_indices_batching_dims",
        "scatter_dims_to_operand_dims",
        "index_vector_dim",
    ]
    for case, op in itertools.product(SCATTERS, ("add", "replace")):
        x, index = small(rng, case[0], element), np.array(case[1], np.int32)
        updates = small(rng, case[2], element)
        d = dict(zip(names, case[3:]))
        listed = ", ".join(f"{k} = {v}" for k, v in d.items() if v != [])
        if op == "replace":
            combine = lambda a, b: b  # noqa: E731
        elif element.kind == "b":
            combine = lambda a, b: a | b  # noqa: E731
        else:
            combine = lambda a, b: element.cast(element.wide(a) + element.wide(b))  # noqa: E731
        want = scattered(x, index, updates, d, combine)
        body = region("add", element)
        if op == "replace":
            t = tensor((), element)
            body = f'^b(%x: {t}, %y: {t}): "stablehlo.return"(%y) : ({t}) -> ()'
        text = one_op(
            "scatter",
            [type_of(x, element), type_of(index, I32), type_of(updates, element)],
            [type_of(want, element)],
            f"scatter_dimension_numbers = #stablehlo.scatter<{listed}>, indices_are_sorted = false, "
            "unique_indices = false",
            [body],
        )
        yield Program(text, [x, index, updates], [want], note=op)


# --- tuples and values that are only passed on ---


@programs("tuple", "get_tuple_element")
def tuples(op: str, element: Element) -> Iterator[Program]:
    """A tuple within a tuple, taken apart again."""
    x, y = patterned(element, (2, 2)), np.array([7, 8], np.int32)
    a, b = type_of(x, element), "tensor<2xi32>"
    inner, outer = f"tuple<{a}, {b}>", f"tuple<{b}, tuple<{a}, {b}>>"
    body = (
        f'  %i = "stablehlo.tuple"(%a0, %a1) : ({a}, {b}) -> {inner}\n'
        f'  %o = "stablehlo.tuple"(%a1, %i) : ({b}, {inner}) -> {outer}\n'
        f'  %j = "stablehlo.get_tuple_element"(%o) {{index = 1 : i32}} : ({outer}) -> {inner}\n'
        f"  %r = stablehlo.get_tuple_element %j[0] : ({inner}) -> {a}"
    )
    yield Program(function([a, b], [a], body), [x, y], [x])


@programs("optimization_barrier")
def optimization_barrier(element: Element) -> Iterator[Program]:
    x, y = patterned(element, (3,)), patterned(element, (2, 2), 4)
    types = [type_of(x, element), type_of(y, element)]
    yield Program(one_op("optimization_barrier", types, types), [x, y], [x, y])


@programs("after_all")
def after_all(_: Element | None) -> Iterator[Program]:
    token, t = "!stablehlo.token", "tensor<2xf32>"
    body = (
        f'  %t = "stablehlo.after_all"() : () -> {token}\n'
        f'  %u = "stablehlo.after_all"(%t, %t) : ({token}, {token}) -> {token}'
    )
    x = np.array([1, 2], np.float32)
    yield Program(function([t], [t], body, "%a0"), [x], [x])
