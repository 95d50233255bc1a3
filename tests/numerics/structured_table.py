"""Rows of the ops that are not elementwise: calls on stated shapes and what NumPy and SciPy say of them.

Shapes are odd on purpose and include scalars and sizes of zero. Ops that only move elements are compared bit for
bit; sums of products within `bound` times the type's epsilon times the same sum of absolute values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import lamina as lm
import lamina.numpy as lnp
import numpy as np
from lamina import lax
from ulps import KINDS

Shape = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Index:
    """An operand of indices: its shape and the range, both ends included; out of bounds where it exceeds them."""

    shape: Shape
    low: int
    high: int
    dtype: str = "int32"


@dataclass(frozen=True, eq=False)
class Case:
    """`operands` are shapes of data operands, or Index; without data operands there are no `kinds`."""

    op: str
    name: str
    call: Callable[..., Any]
    oracle: Callable[..., Any]
    operands: tuple[Shape | Index, ...]
    kinds: str = "ifc"
    bound: float = 0.0  # 0: exactly the oracle's elements
    differentiable: bool = True
    distinct: bool = False  # no two data elements are near each other, for ops that compare them
    vmap: bool = True

    @property
    def dtypes(self) -> list[str]:
        if not self.kinds:
            return [next(o.dtype for o in self.operands if isinstance(o, Index))]
        return [d for k in self.kinds for d in KINDS[k] if d not in ("int8", "uint8")]


def _windows(x, size, strides, fill):
    """[positions..., window elements] of a padded array."""
    view = np.lib.stride_tricks.sliding_window_view(x, size)
    return view[tuple(slice(None, None, s) for s in strides)].reshape(
        *[len(range(0, n - w + 1, s)) for n, w, s in zip(x.shape, size, strides)], -1
    )


def _conv(x, w, strides, pads, lhs=(1, 1), rhs=(1, 1), groups=1):
    """NCHW by OIHW, by definition."""
    spread = np.zeros((*x.shape[:2], *[max(0, 1 + (n - 1) * d) for n, d in zip(x.shape[2:], lhs)]), x.dtype)
    spread[:, :, :: lhs[0], :: lhs[1]] = x
    x = np.pad(spread, [(0, 0), (0, 0), *pads])
    o, c, kh, kw = w.shape
    rows = range(0, x.shape[2] - (kh - 1) * rhs[0], strides[0])
    columns = range(0, x.shape[3] - (kw - 1) * rhs[1], strides[1])
    out = np.zeros((x.shape[0], o, len(rows), len(columns)), x.dtype)
    for g in range(groups):
        part = w[g * o // groups : (g + 1) * o // groups]
        source = x[:, g * c : (g + 1) * c]
        for i, r in enumerate(rows):
            for j, q in enumerate(columns):
                patch = source[
                    :, :, r : r + (kh - 1) * rhs[0] + 1 : rhs[0], q : q + (kw - 1) * rhs[1] + 1 : rhs[1]
                ]
                out[:, g * o // groups : (g + 1) * o // groups, i, j] = np.einsum(
                    "nchw,ochw->no", patch, part
                )
    return out


def _conv_case(name, x, w, strides=(1, 1), pads=((0, 0), (0, 0)), lhs=(1, 1), rhs=(1, 1), groups=1):
    return Case(
        "convolution",
        name,
        lambda a, b: lax.conv_general_dilated(a, b, strides, pads, lhs, rhs, feature_group_count=groups),
        lambda a, b: _conv(a, b, strides, pads, lhs, rhs, groups),
        (x, w),
        "f",
        bound=6,
    )


def _dot_case(name, a, b, contract, batch, spec, kinds="ifc"):
    return Case(
        "dot_general",
        name,
        lambda x, y: lax.dot_general(x, y, (contract, batch)),
        lambda x, y: np.einsum(spec, x, y),
        (a, b),
        kinds,
        bound=8,
    )


_ROW_GATHER = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
_ROW_SCATTER = lax.ScatterDimensionNumbers(
    update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,)
)


def _gathered(x, i):
    """Clipped rows."""
    return x[np.clip(i[:, 0], 0, x.shape[0] - 1)]


def _scatter(combine):
    """Rows combined in update order; rows out of range are dropped."""

    def f(x, i, u):
        out = x.copy()
        for k, row in zip(i[:, 0], u):
            if 0 <= k < x.shape[0]:
                out[k] = combine(out[k], row)
        return out

    return f


def _scatter_case(name, call, combine, **more):
    return Case(
        "scatter",
        name,
        lambda x, i, u: call(x, i, u, _ROW_SCATTER),
        _scatter(combine),
        ((5, 3), Index((7, 1), -2, 6), (7, 3)),
        **more,
    )


def _start(i, n, size):
    return int(np.clip(i + n if i < 0 else i, 0, n - size))


def _updated(x, u, i):
    out = x.copy()
    s = _start(i, x.shape[0], u.shape[0])
    out[s : s + u.shape[0]] = u
    return out


def _spread_sources(x, source):
    """select_and_scatter with >= and addition, windows 2 x 2 and strides 2 x 2."""
    out = np.zeros_like(x)
    for i in range(source.shape[0]):
        for j in range(source.shape[1]):
            window = x[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
            r, c = np.unravel_index(np.argmax(window), window.shape)
            out[2 * i + r, 2 * j + c] += source[i, j]
    return out


def _padded(x, v):
    out = np.full((2 + 1 + 2 * (x.shape[0] - 1), x.shape[1]), v, x.dtype)
    out[2::2][: x.shape[0]] = x
    return out[:, :-1]


def _reduction(name, call, ufunc, shape, axes, **more):
    return Case(
        "reduce",
        f"{name}-{shape}-{axes}",
        lambda x: call(x, axes),
        lambda x: ufunc(x, axis=axes),
        (shape,),
        **more,
    )


def _nested(op, call, oracle, shapes, **more):
    return Case(op, call.__name__.strip("_"), call, oracle, shapes, **more)


def _loop_doubling(x):
    return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + s[1]), (0, x))[1]


def _scan_sums(x):
    return lax.scan(lambda c, v: (c + v, c * v), x[0], x)[1]


def _numpy_scan(x):
    carry, out = x[0], []
    for v in x:
        out.append(carry * v)
        carry = carry + v
    return np.stack(out)


def _switch(i, x):
    return lax.switch(i, [lambda v: v, lambda v: v + v, lambda v: -v], x)


def _numpy_switch(i, x):
    return [x, x + x, -x][int(np.clip(i, 0, 2))]


def _checkpointed(x):
    return lm.checkpoint(lambda v: v * v + v)(x)


def _barrier(x):
    return lax.optimization_barrier(x + x)


def _cumulative(x):
    return lnp.cumsum(x, axis=0, dtype=x.dtype)


def _bits(x):
    return f"uint{8 * x.dtype.itemsize}"


def _number(n, x):
    return lax.convert_element_type(n, _bits(x))


def _threefry(key, x0, x1):
    """Threefry-2x32 with 20 rounds (Salmon et al., SC11, section 3.3), on Python's integers."""
    mask = (1 << 32) - 1
    ks = [key & mask, key >> 32, 0]
    ks[2] = ks[0] ^ ks[1] ^ 0x1BD11BDA
    turns = ((13, 15, 26, 6), (17, 29, 16, 24))
    x0, x1 = (x0 + ks[0]) & mask, (x1 + ks[1]) & mask
    for i in range(5):
        for turn in turns[i % 2]:
            x0 = (x0 + x1) & mask
            x1 = (((x1 << turn) | (x1 >> (32 - turn))) & mask) ^ x0
        x0, x1 = (x0 + ks[(i + 1) % 3]) & mask, (x1 + ks[(i + 2) % 3] + i + 1) & mask
    return x0, x1


def _numpy_bits(state, shape, dtype):
    """Elements i and i + ceil(n / 2) are the words of block i, 64-bit ones a whole block, low word first."""
    size, bits = int(np.prod(shape)), np.dtype(dtype).itemsize * 8
    key, counter = (int(s) for s in state)
    words = []
    for i in range(size if bits == 64 else (size + 1) // 2):
        at = (counter + i) % (1 << 64)
        words.append(_threefry(key, at & ((1 << 32) - 1), at >> 32))
    if bits == 64:
        flat = [low | high << 32 for low, high in words]
    else:
        flat = [w[k] & ((1 << bits) - 1) for k in (0, 1) for w in words]
    return np.array(flat[:size], dtype=dtype).reshape(shape)


def _random_cases():
    return [
        Case(
            "rng_bit_generator",
            f"{dtype}-{'x'.join(map(str, shape)) or 'scalar'}",
            lambda s, shape=shape, dtype=dtype: lax.rng_bit_generator(s, shape, dtype)[1],
            lambda s, shape=shape, dtype=dtype: _numpy_bits(s, shape, dtype),
            (Index((2,), 0, 2**64 - 1, "uint64"),),
            "",
            differentiable=False,
        )
        for dtype in ("uint8", "uint16", "uint32", "uint64")
        for shape in ((), (3,), (4, 5), (0, 2))
    ]


CASES: list[Case] = [
    # Structure
    Case(
        "stop_gradient", "stop", lambda x: lax.stop_gradient(x), lambda x: x, ((3, 2),), differentiable=False
    ),
    _nested("optimization_barrier", _barrier, lambda x: x + x, ((3, 2),)),
    Case(
        "bitcast_convert",
        "round-trip",
        lambda x: lax.bitcast_convert_type(lax.bitcast_convert_type(x, _bits(x)) ^ _number(1, x), x.dtype),
        lambda x: (x.view(_bits(x)) ^ np.array(1, _bits(x))).view(x.dtype),
        ((3, 5),),
        "iuf",
        differentiable=False,
    ),
    # Moving elements
    Case(
        "broadcast_in_dim",
        "middle",
        lambda x: lax.broadcast_in_dim(x, (3, 2, 5), (0, 2)),
        lambda x: np.broadcast_to(x[:, None], (3, 2, 5)),
        ((3, 5),),
        "biufc",
    ),
    Case(
        "broadcast_in_dim",
        "scalar",
        lambda x: lax.broadcast_in_dim(x, (0, 3), ()),
        lambda x: np.full((0, 3), x),
        ((),),
    ),
    Case(
        "concatenate",
        "three",
        lambda a, b, c: lax.concatenate([a, b, c], 1),
        lambda a, b, c: np.concatenate([a, b, c], 1),
        ((3, 2), (3, 0), (3, 5)),
        "biufc",
    ),
    Case(
        "iota",
        "columns",
        lambda x: x + lax.broadcasted_iota(x.dtype, (3, 5), 1),
        lambda x: x + np.arange(5).astype(x.dtype),
        ((3, 5),),
        "iufc",
        bound=1,
    ),
    Case(
        "pad", "interior", lambda x, v: lax.pad(x, v, [(2, 0, 1), (0, -1, 0)]), _padded, ((3, 4), ()), "biufc"
    ),
    Case(
        "reshape",
        "odd",
        lambda x: lax.reshape(x, (5, 3, 1)),
        lambda x: x.reshape(5, 3, 1),
        ((3, 5),),
        "biufc",
    ),
    Case("reshape", "empty", lambda x: lax.reshape(x, (0, 7)), lambda x: x.reshape(0, 7), ((3, 0),)),
    Case("reverse", "both", lambda x: lax.rev(x, (0, 2)), lambda x: x[::-1, :, ::-1], ((3, 2, 5),), "biufc"),
    Case(
        "slice",
        "strided",
        lambda x: lax.slice(x, (1, 0), (7, 5), (2, 3)),
        lambda x: x[1:7:2, 0:5:3],
        ((7, 5),),
        "biufc",
    ),
    Case("slice", "empty", lambda x: lax.slice(x, (2, 0), (2, 5)), lambda x: x[2:2], ((7, 5),)),
    Case(
        "transpose",
        "three",
        lambda x: lax.transpose(x, (2, 0, 1)),
        lambda x: x.transpose(2, 0, 1),
        ((3, 2, 5),),
        "biufc",
    ),
    # Run-time indices
    Case(
        "dynamic_slice",
        "rows",
        lambda x, i: lax.dynamic_slice(x, (i, 1), (3, 2)),
        lambda x, i: x[_start(i, 7, 3) :][:3, 1:3],
        ((7, 4), Index((), -9, 9)),
        "biufc",
    ),
    Case(
        "dynamic_update_slice",
        "rows",
        lambda x, u, i: lax.dynamic_update_slice(x, u, (i, 0)),
        _updated,
        ((7, 4), (3, 4), Index((), -9, 9)),
        "biufc",
    ),
    Case(
        "gather",
        "clip",
        lambda x, i: lax.gather(x, i, _ROW_GATHER, (1, 3), mode="clip"),
        _gathered,
        ((5, 3), Index((7, 1), -2, 6)),
        "biufc",
    ),
    Case(
        "gather",
        "none",
        lambda x, i: lax.gather(x, i, _ROW_GATHER, (1, 3), mode="clip"),
        _gathered,
        ((5, 3), Index((0, 1), -2, 6)),
        "fc",
    ),
    _scatter_case("set", lax.scatter, lambda a, b: b, kinds="biufc"),
    _scatter_case("add", lax.scatter_add, lambda a, b: a + b, bound=8),
    _scatter_case("multiply", lax.scatter_mul, lambda a, b: a * b, bound=16, differentiable=False),
    _scatter_case("minimum", lax.scatter_min, np.minimum, kinds="iuf"),
    _scatter_case("maximum", lax.scatter_max, np.maximum, kinds="iuf"),
    # Reductions
    *[
        _reduction(name, call, ufunc, shape, axes, **more)
        for name, call, ufunc, more in (
            ("sum", lax.reduce_sum, np.sum, {"bound": 16, "kinds": "ifc"}),
            ("prod", lax.reduce_prod, np.prod, {"bound": 20, "kinds": "fc"}),
            ("max", lax.reduce_max, np.max, {"kinds": "iuf", "distinct": True}),
            ("min", lax.reduce_min, np.min, {"kinds": "iuf", "distinct": True}),
        )
        for shape, axes in (((3, 5), (1,)), ((3, 5), (0,)), ((3, 2, 5), (0, 2)), ((17,), (0,)))
    ],
    _reduction("sum", lax.reduce_sum, np.sum, (0, 3), (0,), bound=1),
    _reduction("prod", lax.reduce_prod, np.prod, (3, 0), (1,), bound=1),
    _reduction("sum", lax.reduce_sum, np.sum, (3, 3001), (1,), bound=64, kinds="w", differentiable=False),
    _reduction("and", lax.reduce_and, np.bitwise_and.reduce, (3, 5), (1,), kinds="biu", differentiable=False),
    _reduction("or", lax.reduce_or, np.bitwise_or.reduce, (3, 5), (0,), kinds="biu", differentiable=False),
    _reduction("xor", lax.reduce_xor, np.bitwise_xor.reduce, (3, 5), (1,), kinds="biu", differentiable=False),
    Case(
        "reduce",
        "argmax",
        lambda x: lax.argmax(x, 1),
        lambda x: np.argmax(x, 1).astype("int32"),
        ((3, 7),),
        "iuf",
        differentiable=False,
    ),
    Case(
        "reduce_window",
        "sum",
        lambda x: lax.reduce_window(x, 0, "add", (2, 3), (1, 2)),
        lambda x: _windows(x, (2, 3), (1, 2), 0).sum(-1),
        ((5, 8),),
        "ifc",
        bound=8,
    ),
    Case(
        "reduce_window",
        "max",
        lambda x: lax.max_pool(x, (2, 2)),
        lambda x: _windows(x, (1, 1, 2, 2), (1, 1, 2, 2), 0).max(-1),
        ((1, 2, 5, 6),),
        "f",
        distinct=True,
    ),
    Case("reduce_window", "cumsum", _cumulative, lambda x: np.cumsum(x, 0), ((7, 3),), "ifc", bound=8),
    Case(
        "cumsum",
        "groups",
        lambda x: lax.cumsum(x, 0, reverse=True),
        lambda x: np.cumsum(x[::-1], 0, dtype=x.dtype)[::-1],
        ((70, 2),),
        "ifc",
        bound=64,
    ),
    Case(
        "select_and_scatter",
        "largest",
        lambda x, s: lax.select_and_scatter(x, lax.ge, (2, 2), (2, 2), "VALID", s, 0, lax.add),
        _spread_sources,
        ((5, 6), (2, 3)),
        "f",
        distinct=True,
    ),
    Case("sort", "rows", lambda x: lax.sort(x, 1), lambda x: np.sort(x, 1), ((3, 9),), "iuf", distinct=True),
    Case(
        "sort", "columns", lambda x: lax.sort(x, 0), lambda x: np.sort(x, 0), ((9, 3),), "iuf", distinct=True
    ),
    Case("sort", "empty", lambda x: lax.sort(x, 0), lambda x: np.sort(x, 0), ((0, 3),), "f"),
    # Linear algebra
    _dot_case("matrices", (3, 5), (5, 7), ((1,), (0,)), ((), ()), "ij,jk->ik"),
    _dot_case("transposed", (5, 3), (7, 5), ((0,), (1,)), ((), ()), "ji,kj->ik"),
    _dot_case("batch", (2, 3, 5), (2, 5, 4), ((2,), (1,)), ((0,), (0,)), "bij,bjk->bik"),
    _dot_case("vectors", (17,), (17,), ((0,), (0,)), ((), ()), "i,i->"),
    _dot_case("matrix-vector", (9, 17), (17,), ((1,), (0,)), ((), ()), "ij,j->i"),
    _dot_case("outer", (3,), (5,), ((), ()), ((), ()), "i,j->ij"),
    _dot_case("two", (3, 2, 5), (5, 2, 4), ((1, 2), (1, 0)), ((), ()), "ijk,kjl->il"),
    _dot_case("nothing", (3, 0), (0, 5), ((1,), (0,)), ((), ()), "ij,jk->ik"),
    _dot_case("empty", (0, 3), (3, 5), ((1,), (0,)), ((), ()), "ij,jk->ik"),
    _conv_case("plain", (2, 3, 5, 7), (4, 3, 2, 3)),
    _conv_case("strides", (2, 3, 6, 7), (2, 3, 3, 2), (2, 3), ((1, 0), (2, 1))),
    _conv_case("dilations", (1, 2, 5, 4), (3, 2, 2, 2), (1, 1), ((1, 1), (0, 1)), (2, 1), (1, 2)),
    _conv_case("groups", (2, 4, 5, 5), (6, 2, 3, 3), groups=2),
    # The host and random bits
    Case(
        "custom_call",
        "one result",
        lambda x: lm.pure_callback(lambda a: np.sort(a, -1)[..., ::-1], lm.ShapeDtype(x.shape, x.dtype), x),
        lambda x: np.sort(x, -1)[..., ::-1],
        ((3, 5),),
        "iuf",
        differentiable=False,
    ),
    Case(
        "custom_call",
        "of two results",
        lambda x, y: lm.pure_callback(
            lambda a, b: (a, b + b), (lm.ShapeDtype(x.shape, x.dtype), lm.ShapeDtype(y.shape, y.dtype)), x, y
        )[1],
        lambda x, y: y + y,
        ((3,), (2, 0)),
        "ifc",
        differentiable=False,
    ),
    *_random_cases(),
    # Control flow
    _nested("while", _loop_doubling, lambda x: 8 * x, ((3, 2),), bound=1, differentiable=False),
    _nested("scan", _scan_sums, _numpy_scan, ((5, 3),), bound=32),
    _nested("case", _switch, _numpy_switch, (Index((), -1, 3), (3, 2))),
    _nested("call", _checkpointed, lambda x: x * x + x, ((3, 2),), bound=4),
]

# Ops with no arithmetic of their own.
STRUCTURE = {"parameter", "leaf", "constant", "identity"}
# Between the lanes of a named axis: tests/python/test_named_axes.py.
COLLECTIVE = {"all_gather", "all_reduce", "all_to_all", "collective_permute", "reduce_scatter"}
OPS = {c.op for c in CASES} | STRUCTURE | COLLECTIVE
