"""Programs of JAX on element types of a byte or less: read from StableHLO and from XLA's text, written, and the same
values as XLA's.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import lamina as lm
import lamina.numpy as lnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax_support import verified
from lamina import dtypes, stablehlo, xla_hlo

FLOATS = [n for n, t in dtypes.TABLE.items() if t.kind == "f" and t.itemsize == 1 and "float6" not in n]
INTEGERS = ["int4", "uint4"]  # XLA aborts on concatenations of int2


def operands(name):
    """Two arrays [6, 5] of small values that every type holds, zeros aside for scales."""
    rng = np.random.default_rng(len(name))
    top = 2 if name == "int2" else 3
    low = 1 if name == "float8_e8m0fnu" or dtypes.TABLE[name].kind == "u" else -top
    dtype = getattr(ml_dtypes, name)
    return tuple(rng.integers(low, top, (6, 5)).astype(np.float32).astype(dtype) for _ in range(2))


COMMON = {
    "add": lax.add,
    "multiply": lax.mul,
    "maximum": jnp.maximum,
    "select": lambda x, y: jnp.where(x > y, x, y),
    "compare": lambda x, y: (x == y, x <= y),
    "to_f32": lambda x, y: x.astype(jnp.float32),
    "to_int8": lambda x, y: y.astype(jnp.int8),
    "from_f32": lambda x, y: (x.astype(jnp.float32) * 0.75).astype(y.dtype),
    "transposed": lambda x, y: x.T[1:4, ::2],
    "concatenated": lambda x, y: jnp.concatenate([x, y], 1),
    "padded": lambda x, y: lax.pad(x, y[0, 0], ((1, 2, 1), (0, -1, 0))),
    "gathered": lambda x, y: x[jnp.array([5, 0, 5])],
    "sorted": lambda x, y: lax.sort(x, dimension=1),
    "largest": lambda x, y: lax.reduce_max(x, (1,)),
    "constant": lambda x, y: lax.max(x, np.asarray(operands(str(x.dtype))[1])),
}
FLOAT = {
    "subtract": lax.sub,
    "divide": lax.div,
    "negate": lambda x, y: -x,
    "sqrt": lambda x, y: jnp.sqrt(abs(x)),
    "matmul_f32": lambda x, y: lax.dot(x, y.T, preferred_element_type=jnp.float32),
}
INTEGER = {
    "subtract": lax.sub,
    "and": lambda x, y: x & y,
    "xor": lambda x, y: x ^ y,
    "not": lambda x, y: ~x,
    "shift": lambda x, y: lax.shift_left(x, y & 3),
}
CASES = [
    (n, c)
    for n in FLOATS + INTEGERS
    for c in (COMMON | (FLOAT if n in FLOATS else INTEGER))
    if c != "matmul_f32" or dtypes.TABLE[n].bits == 8  # XLA refuses those of fewer bits
]


def flat(out):
    return out if isinstance(out, tuple) else (out,)


def check(got, want):
    for g, w in zip(flat(got), flat(want), strict=True):
        g, w = g.numpy(), np.asarray(w)
        assert g.dtype == w.dtype and g.shape == w.shape
        np.testing.assert_array_equal(g.astype(np.float32), w.astype(np.float32))


@functools.cache
def lowered(name, case):
    f = (COMMON | (FLOAT if name in FLOATS else INTEGER))[case]
    return jax.jit(f, keep_unused=True).lower(*operands(name))


@pytest.mark.parametrize(("name", "case"), CASES, ids=["-".join(c) for c in CASES])
def test_agrees_with_jax(name, case):
    x, y = operands(name)
    low = lowered(name, case)
    loaded = stablehlo.loads(low.as_text())
    got = loaded(x, y)
    check(got, low.compile()(x, y))
    written = stablehlo.dumps(loaded)
    assert verified(written)
    for again in (stablehlo.loads(written), xla_hlo.loads(xla_hlo.dumps(loaded))):
        for a, b in zip(flat(again(x, y)), flat(got), strict=True):
            np.testing.assert_array_equal(a.numpy().astype(np.float32), b.numpy().astype(np.float32))


@pytest.mark.parametrize("name", FLOATS)
def test_gradients_through_conversions_are_those_of_jax(name):
    x = np.array([0.7, 1.3, 2.6, 5.0], np.float32)
    weight = np.array([1.0, 0.3, 2.7, 100.0], np.float32)

    def loss(np_):
        return lambda v: ((v.astype(name).astype("float32") ** 2) * np_.asarray(weight)).sum()

    want = jax.grad(loss(jnp))(x)
    np.testing.assert_array_equal(lm.grad(loss(lnp))(lnp.asarray(x)).numpy(), np.asarray(want))


@pytest.mark.parametrize("name", [n for n in FLOATS if dtypes.TABLE[n].bits == 8])
def test_arrays_go_to_jax_and_back_without_numpy(name):
    x = operands(name)[0]
    there = jnp.from_dlpack(lnp.asarray(x, device="cpu"))
    assert str(there.dtype) == name
    back = lnp.from_dlpack(there)
    assert back.dtype == name and back.numpy().tobytes() == x.tobytes()
