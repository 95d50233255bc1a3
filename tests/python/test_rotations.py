"""scipy.spatial.transform against SciPy: forms, products, means, interpolation; jit, vmap and gradients."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
import scipy.spatial.transform as reference
from lamina.scipy.spatial.transform import Rotation, Slerp

RNG = np.random.default_rng(0)
Q = RNG.normal(size=(12, 4))
# Half turns, quarter turns, none, and nearly none.
Q = np.concatenate([Q, np.eye(4), [[0.5, 0.5, 0.5, 0.5], [1e-5, 0, 2e-5, 1], [0, 1, 0, 1], [0, -1, 0, 1]]])
V = RNG.normal(size=(len(Q), 3))


def pair(q=Q):
    return Rotation.from_quat(q), reference.Rotation.from_quat(q)


def close(got, want, **kwargs):
    np.testing.assert_allclose(got.numpy(), want, **{"rtol": 1e-9, "atol": 1e-9, **kwargs})


FORMS = {
    "as_matrix": (),
    "as_quat": (),
    "as_mrp": (),
    "as_rotvec": (),
    "magnitude": (),
}


@pytest.mark.parametrize("name", FORMS)
def test_forms(name):
    ours, theirs = pair()
    close(getattr(ours, name)(), getattr(theirs, name)())
    close(lm.jit(lambda r: getattr(r, name)())(ours), getattr(theirs, name)())
    close(lm.vmap(lambda r: getattr(r, name)())(ours), getattr(theirs, name)())
    close(getattr(ours[3], name)(), getattr(theirs[3], name)())


@pytest.mark.parametrize("seq", ["xyz", "zyx", "ZXZ", "XYZ", "yxy", "YZX"])
def test_euler_angles(seq):
    q = Q[:12]
    ours, theirs = pair(q)
    for degrees in (False, True):
        angles = theirs.as_euler(seq, degrees)
        close(ours.as_euler(seq, degrees), angles)
        back = Rotation.from_euler(seq, angles, degrees)
        close(back.as_matrix(), theirs.as_matrix())
        close(Rotation.from_euler(seq[:2], angles[:, :2], degrees).as_matrix(),
              reference.Rotation.from_euler(seq[:2], angles[:, :2], degrees).as_matrix())  # fmt: skip
    close(
        Rotation.from_euler(seq[0], np.array(0.3)).as_matrix(),
        reference.Rotation.from_euler(seq[0], 0.3).as_matrix(),
    )
    every, _ = pair()  # angles that are not unique: the same rotation
    close(Rotation.from_euler(seq, every.as_euler(seq)).as_matrix(), every.as_matrix(), atol=1e-6)


def test_rotations_of_every_form():
    ours, theirs = pair()
    for name in ("matrix", "rotvec", "mrp"):
        given = getattr(theirs, f"as_{name}")()
        close(getattr(Rotation, f"from_{name}")(given).as_matrix(), theirs.as_matrix(), atol=1e-8)
    close(Rotation.from_rotvec(theirs.as_rotvec(degrees=True), degrees=True).as_matrix(), theirs.as_matrix())
    close(ours.as_rotvec(degrees=True), theirs.as_rotvec(degrees=True))
    close(ours.as_quat(canonical=True), theirs.as_quat(canonical=True))
    close(ours.as_quat(scalar_first=True), np.roll(theirs.as_quat(), 1, -1))
    close(Rotation.from_quat(np.roll(Q, 1, -1), scalar_first=True).as_matrix(), theirs.as_matrix())


def test_products_and_vectors():
    (a, b), (c, d) = pair(), pair(Q[::-1].copy())
    close((a * c).as_matrix(), (b * d).as_matrix())
    close(a.inv().as_matrix(), b.inv().as_matrix())
    close(a.apply(V), b.apply(V))
    close(a.apply(V, inverse=True), b.apply(V, inverse=True))
    close(a[2].apply(V), b[2].apply(V))
    close(a.apply(V[0]), b.apply(V[0]))
    close((a[1] * c).as_matrix(), (b[1] * d).as_matrix())
    mean = a[:12].mean(np.arange(1.0, 13)).as_matrix()
    close(mean, b[:12].mean(np.arange(1.0, 13)).as_matrix(), atol=1e-8)
    assert len(Rotation.concatenate([a, c[0]])) == len(a) + 1
    close(Rotation.identity().apply(V), V, rtol=1e-6)
    assert len(Rotation.identity(3)) == 3 and Rotation.identity().single


def test_drawn_rotations_are_rotations():
    m = Rotation.random(lm.random.key(0), 500).as_matrix().numpy()
    np.testing.assert_allclose(m @ np.swapaxes(m, 1, 2), np.broadcast_to(np.eye(3), m.shape), atol=1e-5)
    assert np.abs(m.mean(0)).max() < 0.1
    assert Rotation.random(lm.random.key(1)).single


def test_rotations_between():
    times = np.array([0.0, 1.0, 2.5, 4.0])
    ours, theirs = pair(Q[:4])
    asked = np.array([0.0, 0.2, 1.0, 1.7, 2.5, 3.9, 4.0])
    made, want = Slerp.init(times, ours), reference.Slerp(times, theirs)
    close(made(asked).as_matrix(), want(asked).as_matrix())
    close(made(1.7).as_matrix(), want(1.7).as_matrix())
    close(lm.jit(lambda s, t: s(t).as_matrix())(made, asked), want(asked).as_matrix())


@pytest.mark.parametrize("name", ["as_matrix", "as_rotvec", "as_mrp", "magnitude"])
def test_derivatives(name):
    """By the rotation vector, whose differences are those of angles; at no rotation too."""
    w = RNG.normal(size=(3, 3))
    for v in (np.array([0.3, -0.2, 0.5]), np.array([1e-4, 0, -2e-4]), np.zeros(3)):
        if name == "magnitude" and np.abs(v).max() < 0.1:
            continue  # a length, which bends too much for the differences

        def f(v):
            out = getattr(Rotation.from_rotvec(v), name)()
            return (
                out * w[tuple(slice(n) for n in out.shape)] if out.ndim == 2 else out * w[0, : out.size]
            ).sum()

        slope = lm.grad(f)(v).numpy()
        h = 1e-6
        want = [(f(v + h * e) - f(v - h * e)).item() / (2 * h) for e in np.eye(3)]
        np.testing.assert_allclose(slope, want, rtol=1e-6, atol=1e-8)


def test_what_is_refused():
    r = Rotation.identity()
    for call, error, match in (
        (lambda: Rotation.from_quat(lnp.ones(3)), ValueError, "last dimension is 4"),
        (lambda: Rotation.from_euler("xq", [1.0, 2.0]), ValueError, "axes"),
        (lambda: Rotation.from_euler("xYz", [1.0, 2.0, 3.0]), ValueError, "axes"),
        (lambda: Rotation.from_euler("xxz", [1.0, 2.0, 3.0]), ValueError, "repeat"),
        (lambda: Rotation.from_euler("xyz", [1.0, 2.0]), ValueError, "for 3 axes"),
        (lambda: r.as_euler("xy"), ValueError, "three axes"),
        (lambda: len(r), TypeError, "single"),
        (lambda: r[0], TypeError, "single"),
        (lambda: Slerp.init([0.0], r), ValueError, "two rotations"),
        (lambda: Slerp.init([0.0, 1.0, 2.0], Rotation.identity(2)), ValueError, "times of shape"),
        (lambda: Slerp.init([0.0, 1.0], 3.0), TypeError, "needs a Rotation"),
        (lambda: Rotation.identity(2).mean(lnp.ones(3)), ValueError, "weights"),
    ):
        with pytest.raises(error, match=match):
            call()
