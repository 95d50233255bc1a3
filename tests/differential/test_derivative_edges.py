"""Derivatives to third order at zeros, ties, branch points and infinities (edges_table.py)."""

from __future__ import annotations

import math

import edges_table as table
import jax
import jax.numpy as jnp
import lamina as lm
import lamina.numpy as lnp
import mpmath as mp
import numpy as np
import pytest
from table import ROWS

PARTIALS = [(1, 0), (0, 1), (2, 0), (1, 1), (0, 2), (3, 0), (2, 1), (1, 2), (0, 3)]


def _function(name):
    module, _, function = name.partition(".")
    return getattr(table.MODULES[module], function)


def _called(row, f):
    return f if row.call is None else lambda *x: row.call(f, *x)


def _agree(got, want, row):
    if math.isnan(want) or math.isinf(want):
        return np.array_equal(got, want, equal_nan=True)
    return abs(got - want) <= row.rtol * abs(want) + row.atol


def _at_the_edge(row, x):
    """Derivatives as x is approached from inside the domain: 0, infinite, or what is finite."""
    if math.isinf(x):
        near = mp.mpf("1e18") * (1 if x > 0 else -1)
    else:
        near = mp.mpf(x) + mp.mpf("1e-40") * (1 if x == row.low else -1)
    found = []
    for k, c in enumerate(mp.taylor(row.form, near, row.orders)):
        d = mp.re(c) * mp.factorial(k)
        found.append(float("inf") * mp.sign(d) if abs(d) > 1e7 else 0.0 if abs(d) < 1e-7 else float(d))
    return [float(d) for d in found]


def _wanted(row, x):
    if x in row.kinks:
        return row.kinks[x]
    if x in row.nan_at:
        return [math.nan] * row.orders
    with mp.workdps(120):
        if math.isinf(x) or x in (row.low, row.high):
            wanted = _at_the_edge(row, x)[1:]
        else:
            wanted = [
                float(mp.re(c) * mp.factorial(k))
                for k, c in enumerate(mp.taylor(row.form, mp.mpf(x), row.orders))
            ][1:]
    return wanted


def _summed_grad(f, argnum=0):
    return lm.grad(lambda *x: f(*x).sum(), argnums=argnum)


@pytest.mark.parametrize(
    ("name", "row"), [pytest.param(n, r, id=n) for r in table.UNARY for n in r.names.split()]
)
def test_of_one_number(name, row):
    # Minus zero lies below a domain that starts at 0.
    points = [x for x in row.points if row.low <= x <= row.high and (row.low or math.copysign(1, x) > 0)]
    f = _called(row, _function(name))
    x = lnp.array(np.array(points))
    found, forward = f, f
    for order in range(1, row.orders + 1):
        found = _summed_grad(found)
        forward = (lambda g: lambda x: lm.jvp(g, (x,), (lnp.ones_like(x),))[1])(forward)
        reverse, along = np.asarray(found(x)), np.asarray(forward(x))
        for i, point in enumerate(points):
            want = _wanted(row, point)
            if len(want) < order:
                continue
            # There infinities and zeros are factors: NaN where the row says so or forward, never a wrong number.
            edge = math.isinf(point) or point in (row.low, row.high)
            for mode, got in (("reverse", reverse[i]), ("forward", along[i])):
                undecided = order >= row.nan_from.get(point, 4) or (edge and mode == "forward")
                assert _agree(got, want[order - 1], row) or (undecided and math.isnan(got)), (
                    f"{name} at {point}, order {order}, {mode}: {got}, not {want[order - 1]}"
                )


@pytest.mark.parametrize(
    ("name", "row"), [pytest.param(n, r, id=n) for r in table.BINARY for n in r.names.split()]
)
def test_of_two_numbers(name, row):
    points = [*row.points, *(p for p in row.kinks if p not in row.points)]
    x, y = (lnp.array(np.array(column)) for column in zip(*points))
    f = _called(row, _function(name))
    for k, (i, j) in enumerate(PARTIALS):
        if i + j > row.orders:
            continue
        g = f
        for argnum in [0] * i + [1] * j:
            g = _summed_grad(g, argnum)
        got = np.asarray(g(x, y))
        for p, point in enumerate(points):
            if point in row.kinks:
                if k >= len(row.kinks[point]):
                    continue
                want = row.kinks[point][k]
            else:
                with mp.workdps(700 if max(map(abs, point)) > 1e100 else 80):
                    want = float(mp.re(mp.diff(row.form, tuple(map(mp.mpf, point)), (i, j))))
            assert _agree(got[p], want, row), f"{name} at {point}, d{i}x d{j}y: {got[p]}, not {want}"


DIRECTION = np.linspace(0.3, 1.1, 3)


def _along(grad, f, order, direction):
    """The gradient of the derivative of order - 1 along a direction."""
    for _ in range(order - 1):
        f = (lambda g: lambda x: (g(x) * direction).sum())(grad(f))
    return grad(f)


@pytest.mark.parametrize(
    ("name", "row"), [pytest.param(n, r, id=n) for r in table.OF_ARRAY for n in r.names.split()]
)
@pytest.mark.parametrize(
    "order", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow)]
)
def test_of_arrays(name, row, order):
    if order > row.orders:
        pytest.skip(row.because)
    kinds = [k for k in table.ARRAYS if k not in row.without]
    points = np.array([table.ARRAYS[k] for k in kinds])
    module, _, function = name.partition(".")

    def weighed(f, array):
        def total(x):
            r = row.call(f, x) if row.call else f(x)
            return (r * array(np.arange(1.0, 1 + r.size).reshape(r.shape))).sum()

        return total

    mine = _along(lm.grad, weighed(_function(name), lnp.array), order, lnp.array(DIRECTION))
    with jax.enable_x64(True):
        theirs = _along(
            jax.grad,
            weighed(getattr(table.JAX_MODULES[module], function), jnp.array),
            order,
            jnp.array(DIRECTION),
        )
        want = np.asarray(jax.vmap(theirs)(jnp.array(points)))
    for kind, x, w in zip(kinds, points, want):
        np.testing.assert_allclose(
            np.asarray(mine(lnp.array(x))),
            w,
            rtol=1e-9,
            atol=1e-11,
            err_msg=f"{name} of {kind}, order {order}",
        )


def test_a_logistic_hessian_at_zero_is_a_quarter_of_the_squares():
    x = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.25]])
    rows = lnp.array(x)
    loss = lambda w: lm.nn.softplus(rows @ w).sum()  # noqa: E731
    zero = lnp.zeros(2, "float64")
    for k in range(2):
        got = lm.grad(lambda w, k=k: lm.grad(loss)(w)[k])(zero)
        np.testing.assert_allclose(np.asarray(got), (x.T @ x / 4)[k], rtol=1e-14)


def test_the_slope_of_an_angle_neither_overflows_nor_vanishes():
    for scale in (1e-200, 1e200):
        x = lnp.array(scale, "float64")
        got = [lm.grad(lnp.arctan2, argnums=i)(x, 2 * x).item() * scale for i in (0, 1)]
        np.testing.assert_allclose(got, [0.4, -0.2], rtol=1e-14)


def test_every_function_with_a_derivative_has_a_row_or_a_reason():
    rowed = {n for row in (*table.UNARY, *table.BINARY, *table.OF_ARRAY) for n in row.names.split()}
    excused = {n for names in table.EDGELESS.values() for n in names.split()}
    differentiable = {
        f"{module}.{n}"
        for module, rows in ROWS.items()
        for row in rows
        if row.order
        for n in row.names.split()
    }
    missing = sorted(differentiable - rowed - excused)
    assert not missing, (
        f"derivatives at the edges are not checked of {missing}: give each a row in "
        "tests/differential/edges_table.py, or a reason in EDGELESS there"
    )
    assert not rowed & excused
