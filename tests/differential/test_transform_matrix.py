"""Every row of table.py with derivatives x {jvp, vjp, jvp of vjp, vmap, vmap of grad, grad of vmap, jit of each} x real
and complex arguments: against JAX's derivatives, a loop over the lanes, and plain code.

`make test` runs a fixed sample, `make test-full` all. What has no cell is in table.py (`order`, `vmap`, `jit`) or here.
"""

from __future__ import annotations

import warnings
import zlib

import jax
import jax.numpy as jnp
import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
import table
from test_differential import OURS, THEIRS, _call, _leaves

SAMPLE = 60  # one cell of so many runs in `make test`
LANES = 3
KINDS = {"real": ("float32", "float64"), "complex": ("complex64", "complex128")}


def _cells():
    for module, rows in table.ROWS.items():
        for row in rows:
            for kind, (listed, dtype) in KINDS.items():
                if row.order < 1 or listed not in row.dtypes:
                    continue
                for name in row.names.split():
                    for n in range(len(row.shapes)):
                        key = f"{module}.{name}-{kind}-{n}"
                        sampled = zlib.crc32(key.encode()) % SAMPLE == 0
                        yield pytest.param(
                            module, name, row, dtype, n, id=key, marks=() if sampled else pytest.mark.slow
                        )


def _numbers(rng, row, dtype, shape):
    x = rng.uniform(row.low, row.high, shape)
    return np.asarray(x + 1j * rng.uniform(row.low, row.high, shape) if dtype.startswith("complex") else x)


def _close(got, want, row, what):
    for a, b in zip(got, want, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert a.shape == b.shape, f"{what}: {a.shape}, not {b.shape}"
        np.testing.assert_allclose(a, b, rtol=1e-9 * row.ulps, atol=1e-9 * row.ulps, err_msg=what)


@pytest.mark.parametrize(("module", "name", "row", "dtype", "n"), list(_cells()))
def test_transforms_of(module, name, row, dtype, n):
    rng = np.random.default_rng(zlib.crc32(f"{module}.{name}.{n}".encode()))
    f, g = _call(OURS[module], name, row), _call(THEIRS[module], name, row)
    xs, ts, us = ([_numbers(rng, row, dtype, s) for s in row.shapes[n]] for _ in range(3))
    batch = [_numbers(rng, row, dtype, (LANES, *s)) for s in row.shapes[n]]
    every = tuple(range(len(xs)))

    def ours(*args):
        return [y for y in map(lnp.asarray, _leaves(f(*args))) if y.dtype.kind in "fc"]

    def theirs(*args):
        return [y for y in map(jnp.asarray, _leaves(g(*args))) if y.dtype.kind in "fc"]

    def both(transform, lib, fun, *args):
        return transform(lib, fun, *[[lib_array(lib)(a) for a in group] for group in args])

    def lib_array(lib):
        return lnp.array if lib is lm else jnp.array

    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        value = ours(*map(lnp.array, xs))
        weights = [_numbers(rng, row, y.dtype.name, y.shape).astype(y.dtype.name) for y in value]

        def jvp(lib, fun, x, t):
            return lib.jvp(lambda *a: fun(*a), tuple(x), tuple(t))[1]

        def vjp(lib, fun, x):
            return lib.vjp(lambda *a: fun(*a), *x)[1]([lib_array(lib)(w) for w in weights])

        def jvp_of_vjp(lib, fun, x, u):
            return lib.jvp(lambda *a: vjp(lib, fun, a), tuple(x), tuple(u))[1]

        forms = [(jvp, (xs, ts)), (vjp, (xs,))] + ([(jvp_of_vjp, (xs, us))] if row.order >= 2 else [])
        for form, args in forms:
            got = both(form, lm, ours, *args)
            _close(got, both(form, jax, theirs, *args), row, form.__name__)
            mine = [[lnp.array(a) for a in group] for group in args]
            if row.jit:
                again = lm.jit(lambda *groups, form=form: form(lm, ours, *groups))(*mine)
                for a, b in zip(again, got, strict=True):
                    np.testing.assert_array_equal(np.asarray(a), np.asarray(b), f"jit of {form.__name__}")
    if not row.vmap:
        return

    def total(*args):
        return sum((y * w).sum().real for y, w in zip(ours(*args), weights, strict=True))

    slope = lm.grad(total, argnums=every)
    lanes = [[lnp.array(np.asarray(b[k])) for b in batch] for k in range(LANES)]
    want = [slope(*x) for x in lanes]
    values = [ours(*x) for x in lanes]
    stacked = [lnp.array(b) for b in batch]
    of_batches = {
        "vmap": (lm.vmap(ours), values),
        "vmap of grad": (lm.vmap(slope), want),
        "grad of vmap": (lm.grad(lambda *x: lm.vmap(total)(*x).sum(), argnums=every), want),
    }
    for what, (transform, singles) in of_batches.items():
        for form in (transform, lm.jit(transform)) if row.jit else (transform,):
            for i, got in enumerate(form(*stacked)):
                _close([np.asarray(got)[k] for k in range(LANES)], [s[i] for s in singles], row, what)
