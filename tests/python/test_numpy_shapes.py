"""Corners of NumPy's functions of shapes: parts, padding, rolling, insertion, diagonals and joining."""

from __future__ import annotations

import jax.numpy as jnp
import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

X = np.array([1.0, 2.0, 4.0], np.float32)
Y = np.arange(24, dtype=np.float32).reshape(2, 3, 4) ** 2


def test_the_method_compress_takes_the_condition():
    x = np.arange(6).reshape(2, 3)
    for condition, axis in (([True, False, True], 1), ([0, 1], 0), ([True, False, False, True], None)):
        got = lnp.asarray(x).compress(condition, axis)
        np.testing.assert_array_equal(got.numpy(), x.compress(condition, axis))
    inside = lm.jit(lambda x, c: x.compress(c, size=2))(X, np.array([True, False, True]))
    assert inside.tolist() == [1, 4]


def test_trim_zeros_of_more_dimensions():
    m = np.zeros((4, 5, 3), np.float32)
    m[1:3, 2, 1] = 1
    for axis in (None, 0, (1, 2), -1):
        for trim in ("fb", "f", "b"):
            np.testing.assert_array_equal(lnp.trim_zeros(m, trim, axis).numpy(), np.trim_zeros(m, trim, axis))
    assert lnp.trim_zeros(np.zeros(3)).shape == (0,) and lnp.trim_zeros(np.zeros((2, 3))).shape == (0, 0)


PADS = [
    {"mode": "linear_ramp", "end_values": 3},
    {"mode": "linear_ramp", "end_values": ((1, 2),)},
    {"mode": "maximum"},
    {"mode": "minimum", "stat_length": ((1, 2),)},
    {"mode": "mean", "stat_length": 2},
    {"mode": "median"},
    {"mode": "reflect", "reflect_type": "odd"},
    {"mode": "symmetric", "reflect_type": "odd"},
    {"mode": "constant", "constant_values": ((1, 2),)},
]


@pytest.mark.parametrize("options", PADS, ids=lambda o: o["mode"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_pad(options, dtype):
    for x, widths in (
        (X.astype(dtype), (4, 3)),
        (Y[0].astype(dtype), ((1, 7), (5, 1))),
        (X[:1].astype(dtype), 2),
    ):
        want, got = np.pad(x, widths, **options), lnp.pad(x, widths, **options)
        assert got.dtype == dtype
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_pad_by_a_function():
    def ends(vector, widths, axis, kwargs):
        return vector.at[: widths[0]].set(kwargs["value"] + axis).at[len(vector) - widths[1] :].set(-1)

    want = np.asarray(jnp.pad(Y[0], ((1, 2), (2, 1)), ends, value=5))
    np.testing.assert_array_equal(lnp.pad(Y[0], ((1, 2), (2, 1)), ends, value=5).numpy(), want)
    with pytest.raises(TypeError, match="no argument 'values'"):
        lnp.pad(X, 1, values=3)


@pytest.mark.parametrize(
    "mode", ["constant", "empty", "edge", "reflect", "wrap", "linear_ramp", "mean", "median"]
)
def test_pad_takes_no_keyword_of_another_mode(mode):
    for option in ({"constant_values": 3}, {"end_values": 3}, {"stat_length": 2}, {"reflect_type": "odd"}):
        try:
            want = np.pad(X, 1, mode, **option)
        except ValueError:
            with pytest.raises(ValueError, match=f"mode '{mode}' has no use for {next(iter(option))}"):
                lnp.pad(X, 1, mode, **option)
        else:
            np.testing.assert_array_equal(lnp.pad(X, 1, mode, **option).numpy(), want)


@pytest.mark.parametrize(
    "shift, axis", [(np.array([1, 2]), (0, 2)), ((1, 2), 1), (np.array([1, -1]), np.array([0, 1]))]
)
def test_roll_by_arrays(shift, axis):
    np.testing.assert_array_equal(
        lnp.roll(Y, shift, axis).numpy(), np.roll(Y, shift, tuple(np.atleast_1d(axis)))
    )
    inside = lm.jit(lambda s: lnp.roll(Y, s, axis))(np.asarray(shift))
    np.testing.assert_array_equal(inside.numpy(), np.roll(Y, shift, tuple(np.atleast_1d(axis))))


def test_insert_and_delete_at_traced_places():
    insert = lm.jit(lambda a, i, v, axis=None: lnp.insert(a, i, v, axis), static_argnames="axis")
    np.testing.assert_array_equal(insert(X, 1, 9.0).numpy(), np.insert(X, 1, 9.0))
    np.testing.assert_array_equal(insert(X, -1, 9.0).numpy(), np.insert(X, -1, 9.0))
    places = np.array([2, 0, 2])
    np.testing.assert_array_equal(insert(X, places, X).numpy(), np.insert(X, places, X))
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(insert(Y[0], 1, rows, axis=1).numpy(), np.insert(Y[0], 1, rows, axis=1))
    delete = lm.jit(lambda a, i: lnp.delete(a, i, assume_unique_indices=True))
    np.testing.assert_array_equal(delete(X, np.array([0, -1])).numpy(), [2.0])


def test_diagonals_far_outside():
    for k in (2**40, -(2**100), 3, -2):
        np.testing.assert_array_equal(lnp.eye(2, 3, k=k).numpy(), np.zeros((2, 3)))
    assert lnp.linspace(np.ones((2, 2)), 3, 1, retstep=True)[1].shape == ()


def test_joining_by_a_rule_of_casting():
    parts = [np.array([1.5], np.float32), np.array([2], np.int8)]
    for join in (lnp.concatenate, lnp.stack, lnp.vstack, lnp.hstack):
        assert join(parts, dtype="int32", casting="unsafe").dtype == "int32"
        with pytest.raises(TypeError, match="same_kind"):
            join(parts, dtype="int32", casting="same_kind")


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 0), (0, 1, 2)])
def test_orders_of_axes_that_are_none_are_refused_by_the_method_too(axes):
    x = lnp.ones((2, 3))
    for call in (lambda: x.transpose(*axes), lambda: x.transpose(axes), lambda: lnp.transpose(x, axes)):
        with pytest.raises((ValueError, IndexError)):
            call()
    assert x.transpose().shape == x.transpose(None).shape == x.transpose(1, 0).shape == (3, 2)
    assert lnp.ones(3).transpose(0).shape == (3,)
