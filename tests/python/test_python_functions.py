"""Python's own functions of numbers and sequences (round, int, max, sorted, math.floor, ...) inside of `jit`."""

from __future__ import annotations

import math

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest


def convert(f):
    return lm.jit(f, control_flow="convert")


BUILTINS = {
    "round": (lambda x: (round(x), round(-x), round(x, 1)), 2.57),
    "whole": (lambda x: (math.floor(x), math.ceil(x), math.trunc(-x)), 2.25),
    "divmod": (lambda x: (divmod(x, 2), divmod(7, x), abs(-x), pow(x, 2)), 2.5),
    "extremes": (lambda x: (min(x, 1.0), max([x, 1.0, 7.0]), max({"a": x, "b": 1.0}.values())), 2.5),
    "of none": (lambda x: (max([], default=x), max([x], default=0)), 2.5),
    "by key": (lambda x: (max([x, -5.0, 3.0], key=abs), min([x, -x], key=lambda a: a * a)), 2.5),
    "sorted": (lambda x: (sorted([x, 1.0, 3.0]), sorted([x, 1.0, 3.0], reverse=True)), 2.5),
    "sorted by key": (lambda x: sorted([x, -3.0, 1.0, -2.5], key=lambda a: a * a, reverse=True), 2.5),
    "sums": (lambda x: (sum([x, x], 1), math.prod([x, 2]), any(map(bool, [x, 0])), all([x, 0])), 2.5),
    "numbers": (lambda x: (int(x), int(-x), float(x) / 2, bool(x), complex(x), complex(1, x)), 2.75),
    "pairs": (lambda x: [a * b + i for i, (a, b) in enumerate(zip(reversed([x, 1.0]), [2, 3]))], 2.5),
}


@pytest.mark.parametrize("name", BUILTINS)
def test_pythons_own_functions(name):
    f, x = BUILTINS[name]
    want = f(x)
    got = convert(f)(x)
    assert lm.tree.tree_structure(got) == lm.tree.tree_structure(want)
    for a, b in zip(lm.tree.tree_leaves(got), lm.tree.tree_leaves(want), strict=True):
        assert (a.dtype.kind, a.item()) == (np.asarray(b).dtype.kind, pytest.approx(b, rel=1e-6))


def test_whole_numbers_of_traced_ones_need_no_conversion():
    f = lm.jit(lambda x: (round(x), round(x, 1), math.floor(x), math.ceil(x), math.trunc(x)))
    assert [v.item() for v in f(lnp.float64(-2.5))] == [-2, -2.5, -3, -2, -2]
    assert [v.dtype.name for v in f(1.0)] == ["int32", "float32", "int32", "int32", "int32"]
    assert lm.vmap(lambda x: round(x))(lnp.array([0.5, 1.5, -2.6])).tolist() == [0, 2, -3]
    assert (
        lm.grad(lambda x: x * math.floor(x))(2.5).item()
        == lm.jit(lm.grad(lambda x: x * round(x)))(2.4).item()
        == 2
    )
    with pytest.raises(TypeError, match="an integer of one real number"):
        lm.jit(lambda x: math.floor(x))(lnp.ones(3))


def test_numbers_of_64_bits_keep_them():
    for f, x in ((int, 2**40), (int, 2.0**40), (float, 0.1), (complex, 0.1), (math.floor, 2.0**40 + 0.5)):
        wide = lnp.asarray(x, "int64" if type(x) is int else "float64")
        got = convert(lambda x, f=f: f(x))(wide)
        assert got.item() == f(x)
        assert got.weak_type and got.dtype.itemsize == (16 if f is complex else 8)
