"""Functions of complex arguments: values and derivatives (forward, reverse, and forward of reverse) against JAX's, and
finite differences where JAX has none or another branch.

Every public function that JAX has too and that takes complex arrays of one of SHAPES, on the first of them that fits.
`make test` runs a fixed sample, `make test-full` all.
"""

from __future__ import annotations

import warnings
import zlib

import jax
import jax.numpy as jnp
import jax.scipy.special
import lamina as lm
import lamina.numpy as lnp
import lamina.scipy.special as special
import numpy as np
import pytest
from lamina import lax, nn, tree

MODULES = {
    "numpy": (lnp, jnp),
    "numpy.linalg": (lnp.linalg, jnp.linalg),
    "numpy.fft": (lnp.fft, jnp.fft),
    "lax": (lax, jax.lax),
    "nn": (nn, jax.nn),
    "scipy.special": (special, jax.scipy.special),
}
SHAPES = [[(3,)], [(3, 3)], [(3,), (3,)], [(3, 3), (3, 3)], [(3, 3), (3,)], [(3,), (3,), (3,)]]
SAMPLE = 16  # one function of so many runs in `make test`
_SETS = "JAX lets no derivative through: ours is that of picking elements"
_BASIS = "eigenvectors are not unique: tests/python/test_linalg.py"
OTHERWISE = {
    **dict.fromkeys(
        ["numpy.arccosh", "numpy.acosh", "lax.acosh"], "JAX's sign is wrong left of 0: compared below"
    ),
    **dict.fromkeys(["numpy.sign", "lax.sign"], "JAX's derivative is 0: compared below"),
    **dict.fromkeys(
        [f"numpy.{n}" for n in ["setdiff1d", "setxor1d", "union1d", "unique", "unique_values"]], _SETS
    ),
    **dict.fromkeys([f"numpy.linalg.{n}" for n in ["eig", "eigh", "svd", "qr"]], _BASIS),
    "numpy.linalg.cholesky": "the matrices here are not Hermitian",
    "numpy.geomspace": "JAX mixes up the ends of complex ones: tests/python/test_numpy_functions.py",
    "numpy.sort_complex": "JAX sorts along the first axis, NumPy along the last",
    "numpy.histogram": "counts are real numbers, JAX's of complex numbers complex ones",
    "numpy.frombuffer": "reads memory as another type",
    "numpy.roots": "values only: it is computed by NumPy",
}


def _functions():
    for where, (ours, theirs) in MODULES.items():
        for name in ours.__all__:
            f, g = getattr(ours, name), getattr(theirs, name, None)
            if (
                callable(f)
                and g is not None
                and not isinstance(f, type)
                and not hasattr(f, "itemsize")  # an element type
                and f"{where}.{name}" not in OTHERWISE
            ):
                sampled = zlib.crc32(f"{where}.{name}".encode()) % SAMPLE == 0
                yield pytest.param(f, g, id=f"{where}.{name}", marks=() if sampled else pytest.mark.slow)


def _random(rng, shape):
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def _arrays(result, of=np.asarray):
    return [of(x) for x in tree.tree_leaves(result)]


def _case(f, g, rng):
    """Arguments of the first shapes that both libraries take and that give floats."""
    for shapes in SHAPES:
        xs = [_random(rng, s) for s in shapes]
        try:
            want = [np.asarray(w) for w in jax.tree.leaves(g(*map(jnp.array, xs)))]
            got = _arrays(f(*map(lnp.array, xs)))
        except Exception:  # not defined for these, in words: tests/python/test_messages.py
            continue
        if want and all(w.dtype.kind in "fc" for w in want) and len(got) == len(want):
            return xs, want, got
    return None


def _close(got, want, what):
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype, (
            f"{what}: {a.dtype}{a.shape}, not {b.dtype}{b.shape}"
        )
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9, err_msg=what)


@pytest.mark.parametrize(("f", "g"), list(_functions()))
def test_derivatives_are_jaxs(f, g):
    rng = np.random.default_rng(0)
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case = _case(f, g, rng)
        if case is None:
            return
        xs, want, got = case
        _close(got, want, "value")
        ts, us = ([_random(rng, x.shape) for x in xs] for _ in range(2))
        weights = [_random(rng, w.shape) if w.dtype.kind == "c" else rng.normal(size=w.shape) for w in want]

        def ours(*args):
            return tree.tree_leaves(f(*args))

        def theirs(*args):
            return jax.tree.leaves(g(*args))

        mine = [lnp.array(x) for x in xs], [lnp.array(t) for t in ts], [lnp.array(u) for u in us]
        given = [jnp.array(x) for x in xs], [jnp.array(t) for t in ts], [jnp.array(u) for u in us]
        back = lambda *a: lm.vjp(ours, *a)[1]([lnp.array(w) for w in weights])  # noqa: E731
        jax_back = lambda *a: jax.vjp(theirs, *a)[1]([jnp.array(w) for w in weights])  # noqa: E731
        try:
            jax.jvp(theirs, given[0], given[1])
        except Exception:  # JAX has no derivative
            return
        _close(
            _arrays(lm.jvp(ours, tuple(mine[0]), tuple(mine[1]))[1]),
            [np.asarray(t) for t in jax.jvp(theirs, given[0], given[1])[1]],
            "jvp",
        )
        try:
            wanted = jax_back(*given[0]), jax.jvp(jax_back, given[0], given[2])[1]
        except Exception:  # JAX has no reverse mode
            return
        _close(_arrays(back(*mine[0])), [np.asarray(t) for t in wanted[0]], "vjp")
        _close(
            _arrays(lm.jvp(back, tuple(mine[0]), tuple(mine[2]))[1]),
            [np.asarray(t) for t in wanted[1]],
            "jvp of vjp",
        )


def test_sign_turns_with_the_part_of_the_tangent_across_its_argument():
    rng, h = np.random.default_rng(0), 1e-6
    z, t, u = (_random(rng, 5) for _ in range(3))
    got = lm.jvp(lnp.sign, (lnp.array(z),), (lnp.array(t),))[1]
    np.testing.assert_allclose(
        np.asarray(got), (np.sign(z + h * t) - np.sign(z - h * t)) / (2 * h), rtol=1e-8
    )
    ratio = lambda x: x / lnp.abs(x)  # noqa: E731
    for transform in (
        lambda f: lm.vjp(f, lnp.array(z))[1](lnp.array(t))[0],
        lambda f: lm.jvp(lambda x: lm.jvp(f, (x,), (lnp.array(t),))[1], (lnp.array(z),), (lnp.array(u),))[1],
        lambda f: lm.jvp(lambda x: lm.vjp(f, x)[1](lnp.array(t))[0], (lnp.array(z),), (lnp.array(u),))[1],
    ):
        np.testing.assert_allclose(np.asarray(transform(lnp.sign)), np.asarray(transform(ratio)), rtol=1e-12)
    zero = lm.jvp(lnp.sign, (lnp.array(0j),), (lnp.array(1 + 1j),))[1]
    assert zero.item() == 0


def test_acosh_on_both_sides():
    rng, h = np.random.default_rng(0), 1e-6
    z, t = _random(rng, 9), _random(rng, 9)
    assert (z.real < 0).any() and (z.real > 0).any()
    got = lm.jvp(lnp.arccosh, (lnp.array(z),), (lnp.array(t),))[1]
    want = (np.arccosh(z + h * t) - np.arccosh(z - h * t)) / (2 * h)
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-7)
