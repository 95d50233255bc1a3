"""Free numbers of jitted functions in every usual place: jit equals plain code bit for bit, also after a change."""

from __future__ import annotations

import math
import types

import lamina as lm
import lamina.lax as lax
import lamina.nn as nn
import lamina.numpy as lnp
import lamina.random as random
import numpy as np
import pytest

N, R = 3, 0.75

USES = {
    "full": lambda x: lnp.full((N,), R) + x[0, 0],
    "arange": lambda x: lnp.arange(N) + x[0, 0],
    "linspace": lambda x: lnp.linspace(R, N, 5) * x[0, 0],
    "ar2": lambda x: lnp.arange(0, R, 0.1) * x[0, 0],
    "eye": lambda x: lnp.eye(N) * x[0, 0],
    "resh": lambda x: lnp.reshape(x[:3], (N, -1)),
    "onehot": lambda x: nn.one_hot(lnp.array([0, 1]), N) * x[0, 0],
    "fori": lambda x: lax.fori_loop(0, N, lambda i, c: c + R, x),
    "scan": lambda x: lax.scan(lambda c, _: (c * R, c), x, None, length=N),
    "sl": lambda x: x[:N],
    "idx": lambda x: x[N],
    "idx2": lambda x: x[:, N],
    "pw": lambda x: x**N,
    "pwr": lambda x: x**R,
    "rpw": lambda x: N**x,
    "rpwr": lambda x: R**x,
    "clip": lambda x: lnp.clip(x, -R, R),
    "where": lambda x: lnp.where(x > R, x, -R),
    "arr": lambda x: lnp.array([R, 1.0, N]) * x[0, 0],
    "arr0": lambda x: lnp.array(R) * x,
    "asar": lambda x: lnp.asarray(R) * x,
    "rng": lambda x: sum(x[i] for i in range(N)),
    "fl": lambda x: x * float(N) / int(R + 1),
    "fdiv": lambda x: x // N + x % R + N // (x + 1) + R % (x + 1),
    "mathf": lambda x: x * math.sqrt(R) + math.log(N),
    "maxf": lambda x: lnp.maximum(x, R) + max(R, 0.5),
    "ax": lambda x: lnp.sum(x, axis=N - 2),
    "neg": lambda x: -R * x + abs(R) * N,
    "cmp": lambda x: (x < R) | (x >= N) | (R < x),  # noqa: SIM300
    "eq": lambda x: x == N,
    "shift": lambda x: x.astype("int32") << N ^ N & 7 | 1,
    "npf": lambda x: x * np.float32(R) * np.sqrt(R),
    "roll": lambda x: lnp.roll(x, N),
    "tile": lambda x: lnp.tile(x, (N, 1)),
    "rep": lambda x: lnp.repeat(x, N),
    "pad": lambda x: lnp.pad(x, N),
    "bc": lambda x: lnp.broadcast_to(x, (N, 4, 6)),
    "at": lambda x: x.at[N].set(R),
    "split": lambda x: lnp.split(x, [N]),
    "iadd": lambda x: x.at[0].add(N * R),
    "f16": lambda x: x.astype("float16") * R,
    "i32": lambda x: x.astype("int32") * N,
    "i32f": lambda x: x.astype("int32") * R,
    "u8": lambda x: x.astype("uint8") + N,
    "f64": lambda x: x.astype("float64") * R + N,
    "cplx": lambda x: x.astype("complex64") * R,
    "dct": lambda x: {"r": R * x},
    "fmt": lambda x: x if f"{R:.2f}" == "0.75" else -x,
    "tern": lambda x: x if R > 0.5 else -x,
    "cond": lambda x: lax.cond(x.sum() > R, lambda: x * N, lambda: x * R),
    "stack": lambda x: lnp.stack([x[0, 0], R]),
    "dot": lambda x: x @ (lnp.ones((6, N)) * R),
    "norm": lambda x: lnp.mean(x, axis=0) / R,
    "rnd": lambda x: random.uniform(random.key(N), (N,), minval=-R, maxval=R),
    "fold": lambda x: random.normal(random.fold_in(random.key(0), N), (2,)),
    "take": lambda x: lnp.take(x, N),
    "divm": lambda x: divmod(x, N),
    "pwn": lambda x: lnp.power(x, N),
    "tri": lambda x: lnp.tril(x, N - 3),
    "cumsum": lambda x: lnp.cumsum(x * R, axis=N - 3 + 1),
    "grad": lambda x: lm.grad(lambda y: (y**N * R).sum())(x),
    "vm": lambda x: lm.vmap(lambda r: r * R + N)(x),
    "lins": lambda x: lnp.linspace(0, 1, N),
    "logs": lambda x: lnp.logspace(0, R, N),
    "hyp": lambda x: lnp.hypot(x, R),
    "at2": lambda x: lnp.arctan2(R, x + 1),
    "la": lambda x: lnp.logaddexp(x, R),
    "isin": lambda x: lnp.isclose(x, R),
    "quant": lambda x: lnp.quantile(x, R),
    "diag": lambda x: lnp.diag(lnp.ones(N) * R),
    "mg": lambda x: lnp.meshgrid(lnp.arange(N), lnp.arange(2)),
    "ind": lambda x: lnp.indices((N, 2)),
    "one": lambda x: lnp.ones(N) * R,
    "z": lambda x: lnp.zeros((N, N)) + x[0, 0],
    "ft": lambda x: x + True * R,
}


def arrays(tree):
    return [np.asarray(leaf) for leaf in lm.tree.tree_leaves(tree)]


@pytest.mark.parametrize("name", USES)
def test_jit_equals_plain_code(name, monkeypatch):
    x = lnp.reshape(lnp.arange(24.0), (4, 6)) / 7
    f = USES[name]
    jitted = lm.jit(f)
    for n, r in ((3, 0.75), (2, 0.25), (3, 0.1), (3, 0.75)):
        monkeypatch.setattr("test_free_numbers.N", n)
        monkeypatch.setattr("test_free_numbers.R", r)
        for want, got in zip(arrays(f(x)), arrays(jitted(x)), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
    assert type(N) is int and type(R) is float


def test_numbers_used_with_tensors_only_trace_once(monkeypatch):
    for f in (
        lambda x: x * R,
        lambda x: R - x / N,
        lambda x: lnp.where(x > R, x, N),
        lambda x: lnp.maximum(x, R),
    ):
        jitted = lm.jit(f)
        for i in range(4):
            monkeypatch.setattr("test_free_numbers.R", 0.1 * i)
            monkeypatch.setattr("test_free_numbers.N", i + 1)
            np.testing.assert_array_equal(jitted(lnp.ones(3)).numpy(), f(lnp.ones(3)).numpy())
        assert repr(jitted) == "<jit <lambda>: 1 entry, 3 hits>"


def test_a_number_made_of_one_that_is_both_read_and_guarded_inside_of_another_function():
    holder = types.SimpleNamespace(number=1.5)

    @lm.jit
    def inner(x):
        scale = holder.number * 2.0
        return x * scale + len(str(scale))

    outer = lm.jit(lambda x: inner(x) * 2)
    for number in (1.5, 0.25, 10.0):
        holder.number = number
        assert outer(1.0).item() == (number * 2 + len(str(number * 2))) * 2
