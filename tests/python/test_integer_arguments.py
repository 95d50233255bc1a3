"""Counts, sizes, axes and positions: integers of any kind mean the same, and floats are errors, never cut."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax, nn, random

X = lnp.asarray(np.arange(12.0).reshape(3, 4))
KEY = random.PRNGKey(0)

# What makes the argument of an integer -> the call with it.
CALLS = {
    "array_split": lambda w: lnp.array_split(X, w(2), axis=w(1)),
    "at": lambda w: X.at[w(1)].add(1),
    "bincount": lambda w: lnp.bincount(lnp.array([1, 2]), minlength=w(5)),
    "broadcast_to": lambda w: lnp.broadcast_to(X, (w(2), 3, 4)),
    "choice": lambda w: random.choice(KEY, w(5), (3,)),
    "cumsum": lambda w: lnp.cumsum(X, axis=w(1)),
    "delete": lambda w: lnp.delete(X, w(1), axis=w(0)),
    "diag": lambda w: lnp.diag(X, w(1)),
    "diff": lambda w: lnp.diff(X, w(1)),
    "dynamic_slice": lambda w: lax.dynamic_slice(X, (w(1), w(1)), (2, 2)),
    "expand_dims": lambda w: lnp.expand_dims(X, w(0)),
    "eye": lambda w: lnp.eye(w(2), k=w(1)),
    "fft": lambda w: lnp.fft.fft(X, n=w(3), axis=w(0)),
    "fft2": lambda w: lnp.fft.fft2(X, axes=(w(0), w(1))),
    "fftshift": lambda w: lnp.fft.fftshift(X, axes=w(0)),
    "flip": lambda w: lnp.flip(X, w(0)),
    "fold_in": lambda w: random.fold_in(KEY, w(3)),
    "fori_loop": lambda w: lax.fori_loop(w(0), w(3), lambda i, c: c + 1, 0.0),
    "full": lambda w: lnp.full((w(2),), 1.0),
    "getitem": lambda w: X[w(1)],
    "grad": lambda w: lm.grad(lambda a, b: (a * b).sum(), argnums=w(1))(X, X),
    "histogram": lambda w: lnp.histogram(X, w(3)),
    "indices": lambda w: lnp.indices((w(2), w(2))),
    "hanning": lambda w: lnp.hanning(w(4)),
    "insert": lambda w: lnp.insert(X, w(1), 0.0, axis=w(0)),
    "integer_pow": lambda w: lax.integer_pow(X, w(3)),
    "jit": lambda w: lm.jit(lambda a, n: lnp.tile(a, n), static_argnums=w(1))(X, 2),
    "kaiser": lambda w: lnp.kaiser(w(4), 1.0),
    "matrix_power": lambda w: lnp.linalg.matrix_power(lnp.eye(2), w(3)),
    "moveaxis": lambda w: lnp.moveaxis(X, w(0), w(1)),
    "nonzero": lambda w: lnp.nonzero(X, size=w(3)),
    "norm": lambda w: lnp.linalg.norm(X, axis=w(0)),
    "one_hot": lambda w: nn.one_hot(w(1), w(3)),
    "pad": lambda w: lnp.pad(X, w(1)),
    "partition": lambda w: lnp.partition(X, w(1)),
    "permutation": lambda w: random.permutation(KEY, w(5)),
    "polyfit": lambda w: lnp.polyfit(X[0], X[1], w(1)),
    "quantile": lambda w: lnp.quantile(X, 0.5, axis=w(1)),
    "randint": lambda w: random.randint(KEY, (w(2),), w(0), w(5)),
    "repeat": lambda w: lnp.repeat(X, w(2), axis=w(0)),
    "reshape": lambda w: X.reshape((w(2), -1)),
    "resize": lambda w: lnp.resize(X, (w(2), w(2))),
    "roll": lambda w: lnp.roll(X, w(1), axis=w(0)),
    "rot90": lambda w: lnp.rot90(X, w(1)),
    "round": lambda w: lnp.round(X, w(1)),
    "scan": lambda w: lax.scan(lambda c, _: (c + 1, None), 0.0, None, length=w(3))[0],
    "segment_sum": lambda w: lm.ops.segment_sum(X[:, 0], lnp.array([0, 1, 1]), w(3)),
    "slice": lambda w: X[w(0) : w(2)],
    "softmax": lambda w: nn.softmax(X, axis=w(1)),
    "sort": lambda w: lnp.sort(X, axis=w(0)),
    "split": lambda w: lnp.split(X, w(2), axis=w(1)),
    "split_at": lambda w: lnp.split(X, [w(1)]),
    "split_key": lambda w: random.split(KEY, w(3)),
    "squeeze": lambda w: lnp.squeeze(X[None], w(0)),
    "stack": lambda w: lnp.stack([X, X], axis=w(1)),
    "sum": lambda w: X.sum(w(0)),
    "swapaxes": lambda w: X.swapaxes(w(0), w(1)),
    "take": lambda w: lnp.take(X, w(1), axis=w(0)),
    "tensordot": lambda w: lnp.tensordot(X, X.T, axes=w(1)),
    "tile": lambda w: lnp.tile(X, w(2)),
    "top_k": lambda w: lax.top_k(X, w(2)),
    "trace": lambda w: lnp.trace(X, w(1)),
    "tri": lambda w: lnp.tri(w(3), k=w(1)),
    "unique": lambda w: lnp.unique(X, size=w(3)),
    "vander": lambda w: lnp.vander(X[0], w(3)),
    "vmap": lambda w: lm.vmap(lambda r: r.sum(), in_axes=w(1))(X),
}


def leaves(result):
    return [np.asarray(x) for x in (result if isinstance(result, (list, tuple)) else [result])]


@pytest.mark.parametrize("kind", [np.int64, np.uint8, np.asarray, lnp.asarray], ids=lambda k: k.__name__)
@pytest.mark.parametrize("name", CALLS)
def test_integers_of_any_kind_mean_the_same(name, kind):
    want, got = leaves(CALLS[name](int)), leaves(CALLS[name](kind))
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_parts_that_do_not_divide_are_an_error():
    for parts in (2, np.int64(2), lnp.asarray(2)):
        with pytest.raises(ValueError, match="3 does not divide into 2"):
            lnp.split(X, parts)


# Floats where an integer is needed, at which NumPy raises TypeError.
FLOATS = {
    "bincount": lambda: lnp.bincount(lnp.array([1, 2]), minlength=2.5),
    "choice": lambda: random.choice(KEY, 3.5),
    "choose": lambda: lnp.choose(lnp.array([0.5]), [X[0], X[1]]),
    "histogram": lambda: lnp.histogram(X, 2.5),
    "pad": lambda: lnp.pad(X, 1.5),
    "pad of pairs": lambda: lnp.pad(X, ((1.0, 1), (1, 1))),
    "pad of complex": lambda: lnp.pad(X, 1j),
    "packbits": lambda: lnp.packbits(X),
    "permutation": lambda: random.permutation(KEY, 3.5),
    "round": lambda: lnp.round(X, 1.5),
    "trace": lambda: lnp.trace(X, 0.5),
    "diagonal": lambda: lnp.diagonal(X, 0.5),
    "hanning": lambda: lnp.hanning(4.5),
    "kaiser": lambda: lnp.kaiser(4.5, 1.0),
}


@pytest.mark.parametrize("name", FLOATS)
def test_floats_are_not_cut_to_integers(name):
    with pytest.raises(TypeError, match=r"integer|not float"):
        FLOATS[name]()


# Operations that their elements have no meaning for: TypeError, as in NumPy and JAX, with the types in words.
INTEGERS = lnp.array([1, 2])
FLOAT_PAIR = lnp.array([1.0, 2.0])
WRONG_ELEMENTS = {
    "shift_left": lambda: lax.shift_left(FLOAT_PAIR, FLOAT_PAIR),
    "left_shift": lambda: lnp.left_shift(FLOAT_PAIR, 1),
    "bitwise_not": lambda: lax.bitwise_not(FLOAT_PAIR),
    "invert": lambda: ~FLOAT_PAIR,
    "and": lambda: FLOAT_PAIR & FLOAT_PAIR,
    "clz": lambda: lax.clz(FLOAT_PAIR),
    "floor": lambda: lax.floor(INTEGERS),
    "sqrt": lambda: lax.sqrt(INTEGERS),
    "erf": lambda: lax.erf(INTEGERS),
    "complex": lambda: lax.complex(INTEGERS, INTEGERS),
    "rem": lambda: lax.rem(FLOAT_PAIR + 1j, FLOAT_PAIR + 1j),
    "nextafter": lambda: lax.nextafter(INTEGERS, INTEGERS),
    "is_finite": lambda: lax.is_finite(INTEGERS),
    "bitcast": lambda: lax.bitcast_convert_type(INTEGERS > 0, "int32"),
}


@pytest.mark.parametrize("jit", [False, True], ids=["plain", "jit"])
@pytest.mark.parametrize("name", WRONG_ELEMENTS)
def test_wrong_elements_are_type_errors(name, jit):
    f = WRONG_ELEMENTS[name]
    with pytest.raises(TypeError, match=r"elements|dtype|bool|float|int"):
        (lm.jit(f) if jit else f)()
