"""Every row of table.py with a dimension of no elements, where functions take that: the same under `jit`, and what
is refused is refused in words."""

from __future__ import annotations

import zlib

import lamina as lm
import numpy as np
import pytest
import table
from test_differential import OURS, SAMPLE, _arguments, _call, _leaves


def _without(shapes, dim):
    return tuple(tuple(0 if d == dim else d for d in shape) for shape in shapes)


def _parameters():
    for module, rows in table.ROWS.items():
        for row in rows:
            for name in row.names.split():
                for dtype in row.dtypes:
                    for shapes in row.shapes:
                        dims = {d for shape in shapes for d in shape if d > 0}
                        for empty in sorted({_without(shapes, d) for d in dims}):
                            key = f"{module}.{name}-{dtype}-{empty}"
                            sampled = zlib.crc32(key.encode()) % (SAMPLE // 4) == 0
                            marks = () if sampled else pytest.mark.slow
                            yield pytest.param(module, name, row, dtype, empty, id=key, marks=marks)


def _outcome(f, arguments):
    """Arrays, or the class and the first line of what was raised."""
    try:
        return [np.asarray(x) for x in _leaves(f(*arguments))]
    except (
        ValueError,
        TypeError,
        IndexError,
        NotImplementedError,
        ZeroDivisionError,
        OverflowError,
    ) as error:
        assert str(error)
        return type(error)


@pytest.mark.parametrize(("module", "name", "row", "dtype", "shapes"), list(_parameters()))
def test_arrays_of_no_elements(module, name, row, dtype, shapes):
    arguments = [lm.numpy.asarray(x) for x in _arguments(name, row, dtype, 0, shapes=shapes)]
    f = _call(OURS[module], name, row)
    plain = _outcome(f, arguments)
    if not row.jit:
        return
    under_jit = _outcome(lm.jit(f), arguments)
    if isinstance(plain, type):
        assert under_jit is plain
        return
    for a, b in zip(plain, under_jit, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
