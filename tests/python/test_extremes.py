"""maximum and minimum beside a number: NaN where either is, and of two zeros the one whose sign says so.

In compiled kernels a number is known, an argument of the kernel, or the same along a row: each has code of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import itertools
import lamina as lm, lamina.numpy as lnp, numpy as np

ODD = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 3e38, 0.5, -0.5, 2.5, -2.5, 7.0, -7.0]

def expected(largest, a, b):
    values = np.where(a > b, a, b) if largest else np.where(a < b, a, b)
    signs = np.signbit(a) & np.signbit(b) if largest else np.signbit(a) | np.signbit(b)
    values = np.where((a == 0) & (b == 0), np.where(signs, -0.0, 0.0), values)
    return np.where(np.isnan(a) | np.isnan(b), np.nan, values)

checked = 0
for dtype, largest in itertools.product(("float32", "float64"), (True, False)):
    x = np.tile(np.array(ODD, dtype), 7)[:101]
    f = lnp.maximum if largest else lnp.minimum
    beside = lm.jit(lambda x, c: f(x, c))
    rows = lm.jit(lambda x, c: f(x[None], c[:, None]))
    for c in np.array(ODD, dtype):
        number = float(c)
        got = {
            "known": lm.jit(lambda x: f(x, number))(x),
            "known, first": lm.jit(lambda x: f(number, x))(x),
            "argument": beside(x, c),
            "row": rows(x, np.array([1, c, 2], dtype))[1],
        }
        want = expected(largest, x, c)
        for way, values in got.items():
            values = np.asarray(values)
            assert values.dtype == dtype
            same = (np.isnan(want) & np.isnan(values)) | (
                (want == values) & (np.signbit(want) == np.signbit(values)))
            assert same.all(), (dtype, largest, number, way, x[~same], values[~same], want[~same])
            checked += 1
assert checked == 4 * 2 * 2 * len(ODD)
"""


@pytest.mark.parametrize("isa", ["baseline", "avx2", "avx512"])
def test_extremes_beside_numbers(isa: str) -> None:
    environment = {**os.environ, "LAMINA_ISA": isa, "LAMINA_COMPILE": "first"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
