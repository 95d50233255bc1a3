"""Reductions over the first axis, where rows lie without gaps or are parts of longer ones.

What an element becomes does not depend on how the rows lie: every value is that of the same reduction along the last
axis of the array turned round, to the last bit.
"""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

ROWS = (1, 2, 63, 64, 130, 192, 257, 515)
COLUMNS = (1, 8, 33, 100, 128, 129, 300)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32"])
@pytest.mark.parametrize("name", ["sum", "max", "min"])
def test_columns_as_rows(name: str, dtype: str) -> None:
    reduce = getattr(lnp, name)
    down = lm.jit(lambda x, w: reduce(x * w + w, 0))
    along = lm.jit(lambda x, w: reduce(x * w[:, None] + w[:, None], 1))
    part = lm.jit(lambda x: reduce(x[:, 1:], 0))
    part_along = lm.jit(lambda x: reduce(x[1:], 1))
    rng = np.random.default_rng(11)
    for rows in ROWS:
        for columns in COLUMNS:
            x = (rng.standard_normal((rows, columns)) * 3).astype(dtype)
            x[:, 0] = -0.0
            w = (rng.standard_normal(columns) * 2).astype(dtype)
            turned = np.ascontiguousarray(x.T)
            message = f"{rows} x {columns}"
            assert np.asarray(down(x, w)).tobytes() == np.asarray(along(turned, w)).tobytes(), message
            if columns > 1:
                assert np.asarray(part(x)).tobytes() == np.asarray(part_along(turned)).tobytes(), message
