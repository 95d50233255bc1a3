"""Programs of reductions, windows, sorting and map. Values are small whole numbers: sums are exact in any order."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
from spec_elements import BY_TEXT, ELEMENTS, Element
from spec_elementwise import greatest, least, less
from spec_movement import padded
from spec_program import (
    Program,
    equal,
    function,
    ints,
    near,
    one_op,
    programs,
    region,
    small,
    tensor,
    type_of,
)

S32 = BY_TEXT["i32"]


def add(a: Any, b: Any) -> Any:
    return a | b if np.asarray(a).dtype == bool else a + b


def multiply(a: Any, b: Any) -> Any:
    return a & b if np.asarray(a).dtype == bool else a * b


def maximum(a: Any, b: Any) -> Any:
    if np.asarray(a).dtype.kind == "c":
        return greatest(a, b)
    return a | b if np.asarray(a).dtype == bool else np.maximum(a, b)


def minimum(a: Any, b: Any) -> Any:
    if np.asarray(a).dtype.kind == "c":
        return least(a, b)
    return a & b if np.asarray(a).dtype == bool else np.minimum(a, b)


OF_DTYPE = {e.dtype: e for e in ELEMENTS}
BODIES: dict[str, Callable[[Any, Any], Any]] = {
    "add": add,
    "multiply": multiply,
    "maximum": maximum,
    "minimum": minimum,
}
LOGIC: dict[str, Callable[[Any, Any], Any]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def bodies(element: Element) -> dict[str, Callable[[Any, Any], Any]]:
    if element.narrow:
        return {name: BODIES[name] for name in ("add", "minimum")}
    return BODIES | LOGIC if element.kind in "biu" else BODIES


def reduced(
    x: np.ndarray, init: np.ndarray, dims: tuple[int, ...], f: Callable[[Any, Any], Any]
) -> np.ndarray:
    element = OF_DTYPE[x.dtype]
    x, init = element.wide(x), element.wide(init)
    kept = [d for d in range(x.ndim) if d not in dims]
    flat = x.transpose(*kept, *dims).reshape([x.shape[d] for d in kept] + [-1])
    out = np.full(flat.shape[:-1], init, x.dtype)
    for k in range(flat.shape[-1]):
        out = np.asarray(f(out, flat[..., k]), x.dtype)
    return element.cast(out)


SHAPES: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
    ((3, 4), (1,)),
    ((3, 0), (1,)),
    ((2, 3, 2), (0, 2)),
    ((5,), (0,)),
    ((2, 3), ()),
    ((), ()),
)


@programs("reduce")
def reduce(element: Element) -> Iterator[Program]:
    """Each body over some, all and no dimensions, over nothing at all, and two arrays at once."""
    rng = np.random.default_rng(31)
    s = tensor((), element)
    for name, f in bodies(element).items():
        for shape, dims in SHAPES if name == "add" and not element.narrow else SHAPES[:2]:
            x, init = small(rng, shape, element), np.asarray(small(rng, (), element))
            want = reduced(x, init, dims, f)
            a, out = type_of(x, element), type_of(want, element)
            text = one_op("reduce", [a, s], [out], ints("dimensions", list(dims)), [region(name, element)])
            yield Program(text, [x, init], [want], equal, f"{name} {shape}")
        if name != "add":
            continue
        pretty = (
            f"  %r = stablehlo.reduce(%a0 init: %a1) applies stablehlo.{name} across dimensions = [0] : "
            f"({tensor((6,), element)}, {s}) -> {s}"
        )
        x, init = small(rng, (6,), element), np.asarray(small(rng, (), element))
        yield Program(
            function([tensor((6,), element), s], [s], pretty), [x, init], [reduced(x, init, (0,), f)], equal
        )
    x, y = small(rng, (4, 3), element), small(rng, (4, 3), S32)
    i, j = np.asarray(small(rng, (), element)), np.asarray(np.int32(1))
    a, b = type_of(x, element), type_of(y, S32)
    two = (
        f"^b(%p: {s}, %q: tensor<i32>, %u: {s}, %v: tensor<i32>): "
        f'%m = "stablehlo.add"(%p, %u) : ({s}, {s}) -> {s} '
        f'%n = "stablehlo.multiply"(%q, %v) : (tensor<i32>, tensor<i32>) -> tensor<i32> '
        f'"stablehlo.return"(%m, %n) : ({s}, tensor<i32>) -> ()'
    )
    text = one_op(
        "reduce",
        [a, b, s, "tensor<i32>"],
        [tensor((3,), element), "tensor<3xi32>"],
        ints("dimensions", [0]),
        [two],
    )
    want = [reduced(x, i, (0,), add), reduced(y, j, (0,), multiply)]
    yield Program(text, [x, y, i, j], want)


def windows(x: np.ndarray, fill: Any, w: dict[str, Any]) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Each place of the result with the elements of its window."""
    pads = np.asarray(w["padding"])
    whole = padded(x, fill, pads[:, 0], pads[:, 1], np.asarray(w["base_dilations"]) - 1)
    size, stride, dilation = w["window_dimensions"], w["window_strides"], w["window_dilations"]
    extent = [(k - 1) * d + 1 for k, d in zip(size, dilation)]
    shape = [0 if n < e else (n - e) // s + 1 for n, e, s in zip(whole.shape, extent, stride)]
    for i in np.ndindex(*shape):
        at = tuple(slice(p * s, p * s + e, d) for p, s, e, d in zip(i, stride, extent, dilation))
        yield i, whole[at]


WINDOWS = (
    dict(
        window_dimensions=[2, 1],
        window_strides=[2, 1],
        base_dilations=[1, 1],
        window_dilations=[1, 1],
        padding=[[0, 1], [0, 0]],
    ),
    dict(
        window_dimensions=[2, 3],
        window_strides=[1, 2],
        base_dilations=[2, 1],
        window_dilations=[2, 1],
        padding=[[2, 1], [1, 1]],
    ),
    dict(
        window_dimensions=[1, 2],
        window_strides=[1, 1],
        base_dilations=[1, 1],
        window_dilations=[1, 1],
        padding=[[0, 0], [-1, 0]],
    ),
)


def neutral(name: str, element: Element) -> np.ndarray:
    """The initial value that changes nothing."""
    if name == "add":
        return np.zeros((), element.dtype)
    if element.kind == "b":
        return np.array(name == "minimum")
    if element.kind in "iu":
        ends = ml_dtypes.iinfo(element.dtype)
        return np.asarray(ends.max if name == "minimum" else ends.min, element.dtype)
    end = np.inf if name == "minimum" else -np.inf
    return element.cast(np.asarray(end * (1 + 1j) if element.kind == "c" else end))


def window_program(
    x: np.ndarray, init: np.ndarray, name: str, w: dict[str, Any], element: Element
) -> Program:
    """Padding is read as the neutral value: it does not count."""
    made = dict(windows(element.wide(x), element.wide(neutral(name, element)), w))
    whole = np.empty(tuple(np.max(list(made), axis=0) + 1), element.wide(x).dtype)
    for i, window in made.items():
        whole[i] = functools.reduce(BODIES[name], window.ravel(), element.wide(init))
    want = element.cast(whole)
    text = one_op(
        "reduce_window",
        [type_of(x, element), tensor((), element)],
        [type_of(want, element)],
        ", ".join(ints(k, v) for k, v in w.items()),
        [region(name, element)],
    )
    return Program(text, [x, init], [want], note=f"{name} {w}")


@programs("reduce_window")
def reduce_window(element: Element) -> Iterator[Program]:
    """Padded with neutral initial values (test_spec.py says what others do), and any initial value."""
    rng = np.random.default_rng(32)
    for name in ("add", "maximum", "minimum"):
        for w in WINDOWS:
            yield window_program(small(rng, (4, 5), element), neutral(name, element), name, w, element)
        init = np.asarray(small(rng, (), element))
        yield window_program(small(rng, (4, 5), element), init, name, WINDOWS[2], element)


@programs("select_and_scatter")
def select_and_scatter(element: Element) -> Iterator[Program]:
    """Of every window the element that is selected gets the source's; the first of equal ones."""
    rng = np.random.default_rng(33)
    for padding, source_shape in (([[0, 1], [0, 0]], (2, 2)), ([[0, 0], [0, 0]], (2, 2))):
        x = small(rng, (4, 2), element)
        source, init = small(rng, source_shape, element), np.asarray(small(rng, (), element))
        given = element.wide(x)
        want = np.full(x.shape, element.wide(init), given.dtype)
        for i in np.ndindex(source_shape):
            places = [(i[0] * 2 + k - padding[0][0], i[1]) for k in range(2 if padding[0][1] == 0 else 3)]
            best = None
            for p in places:
                if 0 <= p[0] < 4 and (best is None or not at_least(given[best], given[p])):
                    best = p
            want[best] = add(want[best], element.wide(source)[i])
        want = element.cast(want)
        size = [3, 1] if padding[0][1] else [2, 1]
        text = one_op(
            "select_and_scatter",
            [type_of(x, element), type_of(source, element), tensor((), element)],
            [type_of(x, element)],
            ", ".join(
                [ints("window_dimensions", size), ints("window_strides", [2, 1]), ints("padding", padding)]
            ),
            [region("compare GE", element), region("add", element)],
        )
        yield Program(text, [x, source, init], [want])


def at_least(a: Any, b: Any) -> bool:
    return not bool(less(a, b) if np.asarray(a).dtype.kind == "c" else a < b)


@programs("sort")
def sort(element: Element) -> Iterator[Program]:
    """Stable by one key along each dimension, with a payload."""
    rng = np.random.default_rng(34)
    for shape, d in (((4, 3), 0), ((2, 6), 1), ((7,), -1), ((0,), 0)):
        x = small(rng, shape, element)
        places = np.indices(shape)[d].astype(np.int32) if shape != (0,) else np.zeros(0, np.int32)
        wide = element.wide(x)
        for direction in ("LT", "GT"):
            key = (
                np.lexsort((wide.imag, wide.real), axis=d)
                if element.kind == "c"
                else np.argsort(wide, axis=d, kind="stable")
            )
            if direction == "GT":
                turned = np.flip(wide, d)
                key = (
                    np.lexsort((turned.imag, turned.real), axis=d)
                    if element.kind == "c"
                    else np.argsort(turned, axis=d, kind="stable")
                )
                key = np.flip(x.shape[d] - 1 - key, d)
            want = [np.take_along_axis(x, key, d), np.take_along_axis(places, key, d)]
            a, b, s, i = type_of(x, element), type_of(places, S32), tensor((), element), "tensor<i32>"
            body = (
                f"^b(%x: {s}, %y: {s}, %p: {i}, %q: {i}): "
                f'%z = "stablehlo.compare"(%x, %y) '
                f"{{comparison_direction = #stablehlo<comparison_direction {direction}>}} : "
                f'({s}, {s}) -> tensor<i1> "stablehlo.return"(%z) : (tensor<i1>) -> ()'
            )
            text = one_op("sort", [a, b], [a, b], f"dimension = {d} : i64, is_stable = true", [body])
            yield Program(text, [x, places], want, note=f"{shape} {direction}")


@programs("map")
def map_(element: Element) -> Iterator[Program]:
    rng = np.random.default_rng(35)
    for shape in ((3, 4), (), (0, 2)):
        x, y = small(rng, shape, element), small(rng, shape, element)
        t, s = type_of(x, element), tensor((), element)
        body = (
            f'^b(%x: {s}, %y: {s}): %p = "stablehlo.multiply"(%x, %y) : ({s}, {s}) -> {s} '
            f'%q = "stablehlo.add"(%p, %x) : ({s}, {s}) -> {s} "stablehlo.return"(%q) : ({s}) -> ()'
        )
        text = one_op("map", [t, t], [t], ints("dimensions", list(range(len(shape)))), [body])
        yield Program(
            text, [x, y], [element.cast(add(multiply(element.wide(x), element.wide(y)), element.wide(x)))]
        )


# --- batch normalization: the specification's decompositions, in double precision or wider ---


def spread(v: np.ndarray, shape: tuple[int, ...], feature: int) -> np.ndarray:
    return v.reshape([-1 if d == feature else 1 for d in range(len(shape))]) + np.zeros(shape)


@programs("batch_norm_inference", "batch_norm_training", "batch_norm_grad")
def batch_norm(op: str, element: Element) -> Iterator[Program]:
    rng = np.random.default_rng(36)
    cases = (((4, 3, 2), 1), ((2, 5), 1), ((3, 4), 0))
    for shape, feature in cases[:1] if element.narrow else cases:
        n = shape[feature]
        x, bar = (rng.uniform(-2, 2, shape).astype(element.dtype) for _ in range(2))
        scale, offset, mean = (rng.uniform(-1, 1, n).astype(element.dtype) for _ in range(3))
        variance = rng.uniform(0.5, 2, n).astype(element.dtype)
        X, B, S, O, M, V = (v.astype(np.longdouble) for v in (x, bar, scale, offset, mean, variance))  # noqa: E741
        others = tuple(d for d in range(len(shape)) if d != feature)
        epsilon, count = np.float32(0.015625), X.size // n

        def normalized(m, v):
            return (X - spread(m, shape, feature)) / np.sqrt(spread(v, shape, feature) + epsilon)  # noqa: B023

        big, one = type_of(x, element), tensor((n,), element)
        attributes = f"epsilon = 0.015625 : f32, feature_index = {feature} : i64"
        if op == "batch_norm_inference":
            inputs, types, out = [x, scale, offset, mean, variance], [big] + [one] * 4, [big]
            want = [normalized(M, V) * spread(S, shape, feature) + spread(O, shape, feature)]
        elif op == "batch_norm_training":
            inputs, types, out = [x, scale, offset], [big, one, one], [big, one, one]
            m = X.mean(others)
            v = ((X - spread(m, shape, feature)) ** 2).mean(others)
            want = [normalized(m, v) * spread(S, shape, feature) + spread(O, shape, feature), m, v]
        else:
            inputs, types, out = [x, scale, mean, variance, bar], [big, one, one, one, big], [big, one, one]
            centered, stretch = X - spread(M, shape, feature), spread(V, shape, feature) + epsilon
            total = spread(B.sum(others), shape, feature)
            along = spread((B * centered).sum(others), shape, feature)
            grad = spread(S, shape, feature) / np.sqrt(stretch) / count
            want = [
                grad * (B * count - total - along * centered / stretch),
                (B * normalized(M, V)).sum(others),
                B.sum(others),
            ]
        judged = near((2 if element.narrow else 30) * element.eps)
        yield Program(one_op(op, types, out, attributes), inputs, want, judged)
