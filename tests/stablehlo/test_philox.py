"""Random bits of PHILOX are those of XLA."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from jax_support import run_by_xla
from lamina import stablehlo


@pytest.mark.parametrize("element", ["ui8", "ui16", "ui32", "ui64", "i32", "f32"])
@pytest.mark.parametrize("words", [2, 3])
def test_philox_agrees_with_xla(element, words):
    types = f"tensor<{words}xui64>, tensor<5x7x{element}>"
    text = (
        f"func.func @main(%a: tensor<{words}xui64>) -> ({types}) {{\n"
        '  %r:2 = "stablehlo.rng_bit_generator"(%a) {rng_algorithm = #stablehlo<rng_algorithm PHILOX>} : '
        f"(tensor<{words}xui64>) -> ({types})\n  return %r#0, %r#1 : {types}\n}}"
    )
    state = np.array([77, (1 << 64) - 3, 5][:words], np.uint64)
    with jax.enable_x64(True):
        want = run_by_xla(text, [state])
    got = [r.numpy() for r in stablehlo.loads(text)(state)]
    for a, b in zip(got, want):
        assert a.shape == b.shape and a.tobytes() == b.tobytes()  # XLA calls all bits unsigned
