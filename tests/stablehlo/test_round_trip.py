"""What is written passes JAX's parser and verifier, reads back equal, and XLA computes the same from it."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from jax_support import run_by_xla, verified
from lamina import lax, nn, stablehlo
from test_exported import CASES, assert_agrees, exported, results

CAPTURED = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize("name", CASES)
def test_exported_functions_survive(name):
    loaded = stablehlo.loads(exported(name))
    text = stablehlo.dumps(loaded)
    canonical = loaded.as_text("canonical")
    # Factorizations are made of scans, which are written as loops; transforms of columns as those of lines.
    if " scan(" in canonical or "fft_columns" in canonical:
        canonical = stablehlo.loads(text).as_text("canonical")
    for form in (text, verified(text), verified(text, generic=True)):
        assert stablehlo.loads(form).as_text("canonical") == canonical


def counted(x):
    return lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * 0.5 + x), (0, x))


def scanned(x):
    return lax.scan(lambda c, y: (c * 0.5 + y, lnp.sin(c)), x[0], x)


TRACED = {
    "arithmetic": lambda x: lnp.tanh(x) * 2 + lnp.where(x > 0, x, -x),
    "captured": lambda x: x @ lnp.asarray(CAPTURED).T,
    "reductions": lambda x: (lnp.sum(x, 0), lnp.max(x), lnp.argmax(x, 1), lnp.cumsum(x, 1)),
    "indexing": lambda x: x[lnp.array([2, 0])].at[0].add(1.0),
    "softmax_grad": lm.grad(lambda x: lnp.sum(nn.softmax(x) ** 2)),
    "while": counted,
    "scan": scanned,
    "scan_grad": lm.grad(lambda x: lnp.sum(scanned(x)[1])),
    "cond": lambda x: lax.cond(x[0, 0] > 0, lnp.sin, lnp.cos, x),
    "sort": lambda x: (lnp.sort(x, 1), lnp.argsort(x, 0)),
    "running_sums": lambda x: (
        lnp.cumsum(lnp.tile(x, (30, 1)), 0),
        lax.cumsum(lnp.tile(x, (1, 30)), 1, reverse=True),
    ),
    "vmap": lm.vmap(lambda r: lnp.dot(r, r)),
    "special": lambda x: (nn.gelu(x), lax.erf(x), lax.lgamma(1 + x * x)),
    "inner_jit": lambda x: lm.jit(lnp.sin)(x) + lm.jit(lnp.sin)(2 * x),
    "fourier": lambda x: (lnp.fft.fft2(x), lnp.fft.irfft(lnp.fft.rfft(x)), lnp.fft.ifft(x, axis=0)),
    "integers": lambda x: (x * 7).astype("int32") // 3 % 2,
}


@pytest.mark.parametrize("name", TRACED)
def test_traced_functions_run_elsewhere(name):
    x = np.random.default_rng(3).standard_normal((3, 4)).astype(np.float32)
    lowered = lm.jit(TRACED[name]).lower(x)
    text = stablehlo.dumps(lowered)
    verified(text)
    want = [np.asarray(v) for v in lm.tree.tree_leaves(lm.jit(TRACED[name])(x))]
    assert_agrees(run_by_xla(text, [x]), want, 2e-5)
    assert_agrees(results(stablehlo.loads(text)(x)), want, 0.0)


def test_locations_are_written_on_request():
    lowered = lm.jit(lambda x: lnp.sin(x) * 0.8125 + 77.0).lower(CAPTURED)  # like no other program
    assert "test_round_trip.py" in stablehlo.dumps(lowered, locations=True)
    assert "test_round_trip.py" not in stablehlo.dumps(lowered)
    assert "test_round_trip.py" in stablehlo.loads(stablehlo.dumps(lowered, locations=True)).as_text("full")


def test_a_loaded_function_is_transformed():
    text = stablehlo.dumps(lm.jit(lambda x: lnp.sum(lnp.sin(x) ** 2)).lower(CAPTURED))
    f = stablehlo.loads(text)
    got = np.asarray(lm.grad(f)(lnp.asarray(CAPTURED)))
    np.testing.assert_allclose(got, np.sin(2 * CAPTURED), rtol=1e-5, atol=1e-6)
    stacked = np.stack([CAPTURED, 2 * CAPTURED])
    np.testing.assert_array_equal(np.asarray(lm.vmap(f)(stacked)), [np.asarray(f(c)) for c in stacked])
    compiles = lambda: len(lm.cache.entries())  # noqa: E731
    before = compiles()
    f(CAPTURED)
    assert compiles() == before


def test_shapes_come_from_the_arguments():
    import jax
    import jax.numpy as jnp

    n, m = jax.export.symbolic_shape("n, m")
    exported = jax.export.export(
        jax.jit(lambda x: jnp.sum(x.reshape(-1, 2), 0) + jnp.arange(x.shape[0]).sum())
    )(jax.ShapeDtypeStruct((n, 2 * m), np.float32))
    f = stablehlo.loads(exported.mlir_module())
    for shape in ((3, 4), (5, 2)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(
            np.asarray(f(x)), x.reshape(-1, 2).sum(0) + sum(range(shape[0])), rtol=1e-5
        )


def test_mistakes_raise():
    with pytest.raises(ValueError, match=r"^1:1: expected a function"):
        stablehlo.loads("hello")
    with pytest.raises(NotImplementedError, match=r"2:4: the operation stablehlo.infeed is not supported"):
        stablehlo.loads('func.func @main() {\n   "stablehlo.infeed"() : () -> ()\nreturn }')
    f = stablehlo.loads(stablehlo.dumps(lm.jit(lambda x: x + 1).lower(CAPTURED)))
    with pytest.raises(TypeError, match=r"argument 0 of @main must be float32\[3,4\], not int32\[2\]"):
        f(np.array([1, 2], np.int32))
    with pytest.raises(TypeError, match="takes 1 arrays, not 2"):
        f(CAPTURED, CAPTURED)
    with pytest.raises(ValueError, match="no function @other, only main"):
        stablehlo.loads(stablehlo.dumps(f), entry="other")
