"""Constants of a byte or less: what is written passes XLA's parser, and what XLA prints is read, pattern by pattern."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import ml_dtypes
import numpy as np
import pytest
from lamina import dtypes, xla_hlo
from xla_support import full, parsed, short

NARROW = [
    n
    for n, t in dtypes.TABLE.items()
    if t.itemsize == 1 and n not in ("bool", "int8", "uint8") and "float6" not in n  # XLA has no float6
]


@pytest.mark.parametrize("name", NARROW)
def test_every_pattern_survives_xla(name):
    a = np.arange(2 ** dtypes.TABLE[name].bits, dtype=np.uint8).view(getattr(ml_dtypes, name))
    module = parsed(xla_hlo.dumps(lm.jit(lambda: lnp.asarray(a)).lower()))
    for text in (full(module), short(module)):
        got = xla_hlo.loads(text)().numpy()
        assert got.dtype == a.dtype
        g, w = got.astype(np.float32), a.astype(np.float32)
        np.testing.assert_array_equal(g, w)
        numbers = ~np.isnan(w)
        np.testing.assert_array_equal(np.signbit(g[numbers]), np.signbit(w[numbers]))
