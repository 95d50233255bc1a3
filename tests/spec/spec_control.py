"""Programs of branches, loops, calls, random numbers and collectives of the one process that runs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from spec_elements import Element
from spec_movement import patterned
from spec_program import Program, function, one_op, programs, region, small, tensor, type_of

TOKEN = "!stablehlo.token"


def branch_text(op: str, element: Element, shape: tuple[int, ...], index: str, count: int) -> str:
    t = tensor(shape, element)
    regions = ", ".join(f'{{"stablehlo.return"(%a{k + 1}, %a1) : ({t}, {t}) -> ()}}' for k in range(count))
    body = f'  %r:2 = "stablehlo.{op}"(%a0) ({regions}) : ({index}) -> ({t}, {t})'
    return function([index] + [t] * count, [t, t], body)


@programs("if")
def if_(element: Element) -> Iterator[Program]:
    xs = [patterned(element, (3,), k) for k in range(2)]
    for chosen in (True, False):
        text = branch_text("if", element, (3,), "tensor<i1>", 2)
        yield Program(text, [np.array(chosen), *xs], [xs[0 if chosen else 1], xs[0]])


@programs("case")
def case(element: Element) -> Iterator[Program]:
    """An index outside takes the last branch."""
    xs = [patterned(element, (2, 2), k) for k in range(3)]
    for index in (0, 1, 2, -1, 7):
        text = branch_text("case", element, (2, 2), "tensor<i32>", 3)
        yield Program(text, [np.array(index, np.int32), *xs], [xs[index if 0 <= index < 3 else 2], xs[0]])


@programs("while")
def while_(element: Element) -> Iterator[Program]:
    """Adds an array from outside as often as an argument says, also never."""
    x, y = small(np.random.default_rng(51), (3,), element), small(np.random.default_rng(52), (3,), element)
    t, i = type_of(x, element), "tensor<i32>"
    body = (
        "  %one = stablehlo.constant dense<1> : tensor<i32>\n"
        "  %zero = stablehlo.constant dense<0> : tensor<i32>\n"
        f"  %r:2 = stablehlo.while(%k = %zero, %s = %a0) : {i}, {t}\n"
        "   cond {\n"
        f"    %c = stablehlo.compare LT, %k, %a2 : ({i}, {i}) -> tensor<i1>\n"
        "    stablehlo.return %c : tensor<i1>\n"
        "  } do {\n"
        f"    %n = stablehlo.add %k, %one : {i}\n"
        f"    %m = stablehlo.add %s, %a1 : {t}\n"
        f"    stablehlo.return %n, %m : {i}, {t}\n"
        "  }"
    )
    text = function([t, t, i], [t], body, "%r#1")
    for count in (0, 3):
        want = x.copy()
        for _ in range(count):
            want = want | y if element.kind == "b" else element.cast(element.wide(want) + element.wide(y))
        yield Program(text, [x, y, np.array(count, np.int32)], [want])


@programs("composite")
def composite(element: Element) -> Iterator[Program]:
    """Means its decomposition."""
    rng = np.random.default_rng(53)
    x, y = small(rng, (4,), element), small(rng, (4,), element)
    t = type_of(x, element)
    call = (
        '  %r = stablehlo.composite "test.sum" %a0, %a1 {composite_attributes = {n = 1 : i64}, decomposition = @sum, '
        f"version = 1 : i32}} : ({t}, {t}) -> {t}"
    )
    inner = f"func.func private @sum(%x: {t}, %y: {t}) -> {t} {{\n  %z = stablehlo.add %x, %y : {t}\n"
    inner += f"  return %z : {t}\n}}\n"
    yield Program(
        function([t, t], [t], call) + inner,
        [x, y],
        [x | y if element.kind == "b" else element.cast(element.wide(x) + element.wide(y))],
    )


@programs("custom_call")
def custom_call(_: Element | None) -> Iterator[Program]:
    """Its meaning is the implementation's: a sharding of one process changes nothing."""
    x = np.arange(4, dtype=np.float32)
    t = "tensor<4xf32>"
    yield Program(
        one_op("custom_call", [t], [t], 'call_target_name = "Sharding", api_version = 1 : i32'), [x], [x]
    )


@programs("partition_id", "replica_id")
def process(op: str, _: Element | None) -> Iterator[Program]:
    yield Program(one_op(op, [], ["tensor<ui32>"]), [], [np.uint32(0)])


# --- collectives: the process grid holds one process ---

ALONE = "replica_groups = dense<[[0]]> : tensor<1x1xi64>"


@programs(
    "all_gather", "all_reduce", "all_to_all", "reduce_scatter", "collective_broadcast", "collective_permute"
)
def collective(op: str, element: Element) -> Iterator[Program]:
    x = patterned(element, (2, 4))
    t = type_of(x, element)
    attributes = {
        "all_gather": f"all_gather_dim = 1 : i64, {ALONE}",
        "all_reduce": ALONE,
        "all_to_all": f"split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 1 : i64, {ALONE}",
        "reduce_scatter": f"scatter_dimension = 1 : i64, {ALONE}",
        "collective_broadcast": ALONE,
        "collective_permute": "source_target_pairs = dense<[[0, 0]]> : tensor<1x2xi64>",
    }[op]
    regions = [region("add", element)] if op in ("all_reduce", "reduce_scatter") else []
    yield Program(one_op(op, [t], [t], attributes, regions), [x], [x])
    zeros = np.zeros_like(x)
    if op == "collective_permute":
        empty = "source_target_pairs = dense<> : tensor<0x2xi64>"
        yield Program(one_op(op, [t], [t], empty), [x], [zeros])
    if op == "collective_broadcast":
        empty = "replica_groups = dense<> : tensor<0x1xi64>"
        yield Program(one_op(op, [t], [t], empty), [x], [zeros])


# --- random numbers ---


def uniform_judge(low: float, high: float, element: Element):
    """Within [low, high), spread over it."""

    def judge(got: np.ndarray, want: np.ndarray) -> str:
        wide = got.astype(np.float64)
        if got.dtype != element.dtype or got.shape != want.shape:
            return f"{got.dtype}{list(got.shape)}"
        if element.kind == "b":
            return "" if 0.4 < wide.mean() < 0.6 else f"{wide.mean()} of them are true"
        if wide.min() < low or wide.max() > high or (element.bits > 16 and wide.max() >= high):
            return f"from {wide.min()} to {wide.max()}"
        middle, deviation = (wide.mean() - low) / (high - low), wide.std() / (high - low)
        if element.kind in "iu":
            middle = (wide.mean() + 0.5 - low) / (high - low)
        off = 0.1 if element.narrow else 0.03
        return "" if abs(middle - 0.5) < off and abs(deviation - 12**-0.5) < off else f"{middle} {deviation}"

    return judge


def normal_judge(mean: float, deviation: float, off: float):
    def judge(got: np.ndarray, want: np.ndarray) -> str:
        wide = (got.astype(np.float64) - mean) / deviation
        inside = np.mean(np.abs(wide) < 1)
        ok = abs(wide.mean()) < off and abs(wide.std() - 1) < off and abs(inside - 0.6827) < off
        return "" if ok else f"{wide.mean()} {wide.std()} {inside}"

    return judge


def rng_text(element: Element, distribution: str) -> str:
    s, t = tensor((), element), tensor((40, 100), element)
    body = "  %s = stablehlo.constant dense<[40, 100]> : tensor<2xi64>\n"
    body += (
        f'  %r = "stablehlo.rng"(%a0, %a1, %s) {{rng_distribution = #stablehlo<rng_distribution {distribution}>}} : '
        f"({s}, {s}, tensor<2xi64>) -> {t}"
    )
    return function([s, s], [t], body)


@programs("rng")
def rng(element: Element) -> Iterator[Program]:
    """Uniform in [a, b) for all, normal for floats."""
    low, high = (0, 1) if element.kind == "b" else (0, 100) if element.kind == "u" else (-50, 50)
    if element.narrow:
        low, high = (0, 1) if element.kind == "f" else (-element.exact - 1, element.exact)
    if element.narrow and element.kind == "u":
        low = 0
    ends = [np.asarray(v, element.dtype) for v in (low, high)]
    shape = np.empty((40, 100), element.dtype)
    yield Program(rng_text(element, "UNIFORM"), ends, [shape], uniform_judge(low, high, element))
    if element.kind == "f":
        ends = [np.asarray(v, element.dtype) for v in (2, 3)]
        yield Program(
            rng_text(element, "NORMAL"), ends, [shape], normal_judge(2, 3, 0.1 if element.narrow else 0.05)
        )


@programs("rng_bit_generator")
def rng_bit_generator(element: Element) -> Iterator[Program]:
    """The same bits for the same state, others for the next; half of all bits are set."""
    state = np.array([0x0123456789ABCDEF, 42], np.uint64)
    for algorithm in ("DEFAULT", "THREE_FRY"):
        shape = (16, 33)
        types = ["tensor<2xui64>", tensor(shape, element)]
        attributes = f"rng_algorithm = #stablehlo<rng_algorithm {algorithm}>"
        body = "".join(
            f'  %{n}:2 = "stablehlo.rng_bit_generator"(%{a}) {{{attributes}}} : ({types[0]}) -> ({", ".join(types)})\n'
            for n, a in (("p", "a0"), ("q", "p#0"), ("s", "a0"))
        )
        text = function([types[0]], [types[0], *[types[1]] * 3], body, "%p#0, %p#1, %q#1, %s#1")
        first: list[np.ndarray] = []

        def judge(got: np.ndarray, want: object, first: list[np.ndarray] = first, shape=shape) -> str:
            if want == "state":
                first.clear()
                return "" if not np.array_equal(got, state) else "the state stays"
            bits = np.unpackbits(np.ascontiguousarray(got).view(np.uint8))
            if element.narrow:  # above its width an element has no bits of its own
                bits = bits.reshape(-1, 8)[:, 8 - element.bits :]
            if got.shape != shape or abs(bits.mean() - 0.5) > 0.05:
                return f"{got.shape}, {bits.mean()} of the bits are set"
            first.append(bits)
            same = np.array_equal(bits, first[0])
            return "" if same == (want != "next") else "the streams of two states"

        yield Program(text, [state], ["state", "first", "next", "first"], judge, note=algorithm)
    yield from philox_programs(element)


def philox(counter: int, key: int) -> list[int]:
    """The block of a counter of 128 bits: Philox-4x32 with 10 rounds, as published."""
    mask = 0xFFFFFFFF
    c, k = [counter >> s & mask for s in (0, 32, 64, 96)], [key & mask, key >> 32]
    for _ in range(10):
        first, second = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [second >> 32 ^ c[1] ^ k[0], second & mask, first >> 32 ^ c[3] ^ k[1], first & mask]
        k = [(k[0] + 0x9E3779B9) & mask, (k[1] + 0xBB67AE85) & mask]
    return c


def philox_programs(element: Element) -> Iterator[Program]:
    """A key and a counter whose lower half overflows; of a short state the key is the upper half too."""
    key, low = 0x0123456789ABCDEF, (1 << 64) - 2
    for words, high in ((2, key), (3, (1 << 64) - 1)):
        for shape in ((3, 5), (), (0,)):
            n = int(np.prod(shape))
            blocks = -(-n * max(element.bits // 32, 1) // 4)
            counters = [(low + (high << 64) + i) % (1 << 128) for i in range(blocks)]
            stream = np.array([w for c in counters for w in philox(c, key)], np.uint32)
            if element.bits == 64:
                stream = stream.view(np.uint64)
            bits = stream[:n].astype(f"u{element.dtype.itemsize}")
            if element.narrow:
                bits &= (1 << element.bits) - 1
            whole = element.narrow and element.kind in "iu"
            bits = (element.cast(bits) if whole else bits.view(element.dtype)).reshape(shape)
            after = low + (high << 64) + blocks
            state = np.array([key, low, high][:words], np.uint64)
            next_state = np.array([key, after % (1 << 64), (after >> 64) % (1 << 64)][:words], np.uint64)
            types = [f"tensor<{words}xui64>", tensor(shape, element)]
            text = one_op(
                "rng_bit_generator", types[:1], types, "rng_algorithm = #stablehlo<rng_algorithm PHILOX>"
            )
            yield Program(text, [state], [next_state, bits], note=f"PHILOX u64[{words}] {shape}")
