"""Every row of table.py: plain code against JAX's values and types, `jit` and `vmap` against plain code in bits,
gradients and second derivatives against JAX's.

A cell is (function, element type, shapes, path). `make test` runs a fixed sample of them, `make test-full` all.
"""

from __future__ import annotations

import functools
import warnings
import zlib

import jax
import jax.numpy as jnp
import lamina as lm
import lamina.numpy as lnp
import lamina.scipy.linalg
import lamina.scipy.special
import numpy as np
import pytest
import table
from jax import lax as jax_lax
from lamina import dtypes, lax, nn, random

OURS = {
    "numpy": lnp,
    "numpy.linalg": lnp.linalg,
    "numpy.fft": lnp.fft,
    "lax": lax,
    "nn": nn,
    "scipy.linalg": lamina.scipy.linalg,
    "scipy.special": lamina.scipy.special,
}
THEIRS = {
    "numpy": jnp,
    "numpy.linalg": jnp.linalg,
    "numpy.fft": jnp.fft,
    "lax": jax_lax,
    "nn": jax.nn,
    "scipy.linalg": jax.scipy.linalg,
    "scipy.special": jax.scipy.special,
}
PATHS = ("plain", "jit", "vmap", "grad", "hessian")
SAMPLE = 40  # one cell of so many runs in `make test`


def _cells():
    for module, rows in table.ROWS.items():
        for row in rows:
            for name in row.names.split():
                for dtype in row.dtypes:
                    for n in range(len(row.shapes)):
                        for path in PATHS:
                            if _applies(row, dtype, n, path):
                                yield module, name, row, dtype, n, path


def _applies(row, dtype, n, path):
    differentiable = dtype in ("float32", "float64")
    return {
        "plain": True,
        "jit": row.jit,
        "vmap": row.vmap,
        "grad": row.order >= 1 and differentiable,
        "hessian": row.order >= 2 and differentiable,
    }[path]


def _parameters():
    for module, name, row, dtype, n, path in _cells():
        shapes = "x".join("_".join(map(str, s)) or "0d" for s in row.shapes[n])
        key = f"{module}.{name}-{dtype}-{shapes}-{path}"
        sampled = zlib.crc32(key.encode()) % SAMPLE == 0
        yield pytest.param(
            module, name, row, dtype, n, path, id=key, marks=() if sampled else pytest.mark.slow
        )


def _arguments(key, row, dtype, n, extra=(), shapes=None):
    rng = np.random.default_rng(zlib.crc32(key.encode()))
    out = []
    for shape in shapes or row.shapes[n]:
        values = rng.uniform(row.low, row.high, (*extra, *shape))
        if dtype == "bool":
            a = values > 0
        elif dtype.startswith("complex"):
            a = (values + 1j * rng.uniform(row.low, row.high, values.shape)).astype(dtype)
        elif dtype == "bfloat16":
            a = values.astype(jnp.bfloat16)
        else:
            a = np.abs(values * 3).astype(dtype) if dtype == "uint8" else values.astype(dtype)
            if dtype == "int32" and row.low > 0:
                a = np.maximum(np.rint(values), 1).astype(dtype)
        out.append(np.asarray(a))
    return out


def _call(module, name, row):
    f = getattr(module, name)
    return f if row.call is None else functools.partial(row.call, f)


def _leaves(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _array(x):
    a = np.asarray(x)
    return a.astype(np.float32) if a.dtype == jnp.bfloat16 else a


def _close(got, want, ulps, dtype, what):
    got, want = _array(got), _array(want)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
    if want.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    eps = {"bfloat16": 2.0**-8, "float64": 2.0**-52, "complex128": 2.0**-52}.get(dtype, 2.0**-23)
    np.testing.assert_allclose(got, want, rtol=ulps * eps, atol=ulps * eps, err_msg=what)


def _same_bits(got, want, what):
    got, want = _array(got), _array(want)
    assert got.dtype == want.dtype and got.shape == want.shape, f"{what}: {got.dtype}{got.shape}"
    same = np.array_equal(got, want, equal_nan=got.dtype.kind in "fc")
    signs = got.dtype.kind != "f" or np.array_equal(np.signbit(got), np.signbit(want))
    assert same and signs, f"{what}: {got}, not {want}"


def _weighed(f, array):
    """The results' sum with a weight of its own for each element: a scalar that tells elements apart."""

    def total(*xs):
        t = 0.0
        for r in _leaves(f(*xs)):
            s = (r * array(np.arange(1.0, 1 + r.size).reshape(r.shape).astype(r.dtype))).sum()
            t = t + (s.real + 0.5 * s.imag if s.dtype.kind == "c" else s)
        return t

    return total


def _along(grad, f, n):
    """The gradient of the derivative along the direction that is 1/2 everywhere."""

    def slope(*xs):
        return sum([(g * 0.5).sum() for g in grad(f, argnums=tuple(range(n)))(*xs)])

    return slope


@pytest.mark.parametrize(("module", "name", "row", "dtype", "n", "path"), _parameters())
def test_cell(module, name, row, dtype, n, path):
    what = f"{module}.{name}"
    arguments = _arguments(what + dtype + str(n), row, dtype, n)
    ours = _call(OURS[module], name, row)
    mine = [lnp.array(a) for a in arguments]
    if path == "jit":
        for got, want in zip(_leaves(lm.jit(ours)(*mine)), _leaves(ours(*mine)), strict=True):
            assert lnp.asarray(got).dtype == lnp.asarray(want).dtype
            _same_bits(got, want, what)
        return
    if path == "vmap":
        lanes = _arguments(what + dtype + str(n), row, dtype, n, extra=(2,))
        batched = _leaves(lm.vmap(ours)(*[lnp.array(a) for a in lanes]))
        for lane in range(2):
            single = _leaves(ours(*[lnp.array(np.asarray(a[lane])) for a in lanes]))
            for got, want in zip(batched, single, strict=True):
                _same_bits(_array(got)[lane], want, what)
        return
    theirs = _call(THEIRS[module], name, row)
    with jax.enable_x64(dtype == "float64"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = [jnp.array(a) for a in arguments]
        if path == "plain":
            for got, want in zip(_leaves(ours(*mine)), _leaves(theirs(*given)), strict=True):
                if (what, dtype) not in table.INTENDED_TYPES:
                    assert str(lnp.asarray(got).dtype) == str(jnp.asarray(want).dtype), what
                _close(got, want, row.ulps, dtype, what)
            return
        f, g = _weighed(ours, lnp.array), _weighed(theirs, jnp.array)
        if path == "hessian":
            f, g = _along(lm.grad, f, len(mine)), _along(jax.grad, g, len(mine))
        every = tuple(range(len(mine)))
        for got, want in zip(
            lm.grad(f, argnums=every)(*mine), jax.grad(g, argnums=every)(*given), strict=True
        ):
            _close(got, want, 64 * row.ulps, dtype, f"{path} of {what}")


WEAK = [
    (m, name, row) for m, rows in table.ROWS.items() for row in rows if row.weak for name in row.names.split()
]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("number", [0.1, 2])
@pytest.mark.parametrize(("module", "name", "row"), [pytest.param(*w, id=f"{w[0]}.{w[1]}") for w in WEAK])
def test_a_number_beside_an_array_takes_its_type(module, name, row, number, dtype):
    ours, theirs = getattr(OURS[module], name), getattr(THEIRS[module], name)
    a = _arguments(name, row, dtype, 0)[0]
    with jax.enable_x64(dtype == "float64"):
        for mine, given in (
            ((lnp.array(a), number), (jnp.array(a), number)),
            ((number, lnp.array(a)), (number, jnp.array(a))),
        ):
            got, want = ours(*mine), theirs(*given)
            assert str(got.dtype) == str(want.dtype)
            _close(got, want, 2, dtype, name)


# Draws of lamina.random and their further arguments; the bits are JAX's where these functions are exact.
DRAWS = {
    "bernoulli": (0.3,),
    "beta": (1.5, 2.0),
    "cauchy": (),
    "chisquare": (3.0,),
    "double_sided_maxwell": (0.5, 2.0),
    "exponential": (),
    "f": (2.0, 3.0),
    "gamma": (2.0,),
    "generalized_normal": (2.0,),
    "geometric": (0.3,),
    "gumbel": (),
    "laplace": (),
    "loggamma": (2.0,),
    "logistic": (),
    "lognormal": (0.5,),
    "maxwell": (),
    "normal": (),
    "pareto": (2.0,),
    "rademacher": (),
    "rayleigh": (1.5,),
    "t": (3.0,),
    "triangular": (0.0, 0.25, 1.0),
    "truncated_normal": (-1.0, 2.0),
    "uniform": (),
    "wald": (1.5,),
    "weibull_min": (1.0, 2.0),
}


@pytest.mark.parametrize("shape", [(), (0, 2), (3, 2)], ids=str)
@pytest.mark.parametrize("name", DRAWS)
def test_draws(name, shape):
    extra = DRAWS[name]

    def draw(module):
        f = getattr(module, name)
        return lambda key: f(key, *extra, shape)

    ours, keys = draw(random), random.split(random.key(7), 3)
    got = ours(random.key(7))
    _close(got, draw(jax.random)(jax.random.key(7)), 64, "float32", name)
    _same_bits(lm.jit(ours)(random.key(7)), got, name)
    lanes = lm.vmap(ours)(keys)
    for k in range(3):
        _same_bits(_array(lanes)[k], ours(keys[k]), name)


def test_shapes_that_do_not_broadcast_are_refused_as_numpy_does():
    for row in table.NUMPY:
        if row.shapes is not table.TWO or row.call is not None:
            continue
        for name in row.names.split():
            dtype = row.dtypes[0]
            with pytest.raises((ValueError, TypeError)):
                np.asarray(getattr(lnp, name)(lnp.ones((2, 3), dtype), lnp.ones((4,), dtype)))


@pytest.mark.parametrize(
    "name", ["sum", "max", "mean", "argmax", "cumsum", "sort", "flip", "median", "diff", "std"]
)
def test_axes_out_of_range_are_refused_as_numpy_does(name):
    with pytest.raises(Exception) as numpys:
        getattr(np, name)(np.ones((2, 3)), axis=5)
    wanted = tuple(c for c in type(numpys.value).__mro__ if c in (ValueError, IndexError, TypeError))
    with pytest.raises(wanted):
        getattr(lnp, name)(lnp.ones((2, 3)), axis=5)


def test_every_public_function_has_a_row_or_a_reason():
    ours = OURS | {"random": random}
    for module in ours:
        rowed = {name for row in table.ROWS.get(module, ()) for name in row.names.split()}
        rowed |= set(DRAWS) if module == "random" else set()
        excused = table.NOT_YET[module]
        public = {
            n
            for n in ours[module].__all__
            if callable(getattr(ours[module], n))
            and not isinstance(getattr(ours[module], n), (type, dtypes.DType, type(lnp.floating)))
        }
        missing = sorted(public - rowed - set(excused))
        assert not missing, (
            f"lamina.{module} has functions that the differential harness does not call: {missing}; give each a row in "
            "tests/differential/table.py, or a reason in NOT_YET there"
        )
        both = sorted(rowed & set(excused)) + sorted(set(excused) - public)
        assert not both, f"NOT_YET of {module} names what has a row or does not exist: {both}"
