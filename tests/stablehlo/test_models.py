"""Whole models exported by JAX run here: losses and every gradient agree, and they survive the round trip."""

from __future__ import annotations

import export_from_jax
import jax
import numpy as np
import pytest
from jax_support import verified
from lamina import stablehlo
from models import MODELS
from test_exported import assert_agrees, results


@pytest.mark.parametrize("name", MODELS)
def test_model(name):
    f, args = MODELS[name]()
    flat = [np.asarray(a) for a in jax.tree.leaves(args)]
    want = [np.asarray(x) for x in jax.tree.leaves(jax.jit(f)(*args))]
    loaded = stablehlo.loads(export_from_jax.export(f, args))
    assert_agrees(results(loaded(*flat)), want, 1e-4)
    again = stablehlo.loads(verified(stablehlo.dumps(loaded)))
    assert again.as_text("canonical") == loaded.as_text("canonical")


def test_training_goes_down():
    """Thirty steps of the exported trainer, fed back to itself, as JAX takes them."""
    step, args = MODELS["mlp_trainer"]()
    loaded = stablehlo.loads(export_from_jax.export(step, args))
    state, (x, y, rate) = jax.tree.leaves(args[:3]), args[4:]
    params, m, v = args[:3]
    losses, expected = [], []
    for t in range(1, 31):
        out = loaded(*state, np.float32(t), x, y, rate)
        losses.append(float(out[0]))
        state = list(out[1:])
        value, params, m, v = jax.jit(step)(params, m, v, np.float32(t), x, y, rate)
        expected.append(float(value))
    assert losses[-1] < 0.1 * losses[0]
    np.testing.assert_allclose(losses, expected, rtol=2e-3)
