"""What XLA dumps, before and after its optimization, runs here and agrees with JAX."""

from __future__ import annotations

import export_from_jax
import jax
import numpy as np
import pytest
from lamina import xla_hlo
from test_exported import assert_agrees, results
from xla_support import optimized, unoptimized

CASES = export_from_jax.all_cases()
NAMES = list(CASES)


@pytest.mark.parametrize("name", NAMES)
def test_agrees_with_jax(name):
    f, args, tolerance = CASES[name]
    lowered = jax.jit(f).lower(*args)
    flat = [np.asarray(a) for a in jax.tree.leaves(args)]
    want = [np.asarray(x) for x in jax.tree.leaves(lowered.compile()(*args))]
    dump = optimized if NAMES.index(name) % 3 == 0 else unoptimized
    assert_agrees(results(xla_hlo.loads(dump(lowered))(*flat)), want, tolerance)
