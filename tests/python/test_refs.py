"""References to arrays: as arguments, and used by bodies of loops and branches that see them from outside."""

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax, ref


def _total(loop):
    total, last = lm.new_ref(lnp.zeros(3)), lm.new_ref(0)
    loop(total, last)
    return lm.freeze(total), lm.freeze(last)


def _fori(total, last):
    def step(i, c):
        total[i % 3] += i
        last[...] = i
        return c

    lax.fori_loop(0, 10, step, None)


def _scan(total, last):
    def step(c, i):
        total.at[i % 3].add(i)
        last[...] = i
        return c + 1, i

    carry, ys = lax.scan(step, 0, lnp.arange(10))
    assert int(carry) == 10 and ys.shape == (10,)


def _while(total, last):
    def step(i):
        ref.addupdate(total, i % 3, i)
        last[...] = i
        return i + 1

    assert int(lax.while_loop(lambda i: (i < 10) & (last[...] < 9), step, 0)) == 10


def _branches(total, last):
    def step(i, c):
        def one():
            total[0] += i

        def other(k):
            total.at[k % 3].add(i)

        lax.cond(i % 3 == 0, one, lambda: None)
        lax.switch(i % 3, [lambda k: None, other, other], i)
        last[...] = i
        return c

    lax.fori_loop(0, 10, step, None)


@pytest.mark.parametrize("loop", [_fori, _scan, _while, _branches])
@pytest.mark.parametrize("around", [lambda f: f, lm.jit])
def test_bodies_change_what_they_see_from_outside(loop, around):
    total, last = around(lambda: _total(loop))()
    assert total.tolist() == [18.0, 12.0, 15.0] and int(last) == 9


def test_loops_in_loops_and_references_made_inside():
    def f(x):
        outer = lm.new_ref(x)

        def step(c, _):
            inner = lm.new_ref(outer[...])
            lax.fori_loop(0, 3, lambda i, d: (inner.at[...].add(1.0), outer.at[...].add(1.0), d)[-1], None)
            return c + inner[...], None

        return lax.scan(step, x * 0, None, length=2)[0], outer[...]

    for run in (f, lm.jit(f)):
        assert [float(v) for v in run(lnp.float32(1.0))] == [4.0 + 7.0, 7.0]


def test_derivatives_and_lanes():
    def f(x):
        r = lm.new_ref(x)

        def step(i, c):
            r[...] = lnp.sin(r[...]) * (i + 1)
            return c

        lax.fori_loop(0, 3, step, None)
        return r[...]

    plain = lambda x: lnp.sin(lnp.sin(lnp.sin(x)) * 2) * 3  # noqa: E731
    x = lnp.array([0.3, 0.9])
    np.testing.assert_allclose(lm.vmap(f)(x).numpy(), plain(x).numpy(), rtol=1e-6)
    got, want = lm.vmap(lm.grad(f))(x), lm.vmap(lm.grad(plain))(x)
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-5)


def test_as_arguments():
    r = lm.new_ref(lnp.arange(3.0))

    def f(r, x):
        r[0] = x
        return r[...].sum()

    assert float(lm.jit(f)(r, 5.0)) == 8.0 and r[...].tolist() == [5.0, 1.0, 2.0]
    assert float(lm.jit(f)(r, 7.0)) == 10.0 and r[0].tolist() == 7.0
    out = lm.vmap(lambda q, x: f(q, x), in_axes=(0, 0))(s := lm.new_ref(lnp.ones((2, 3))), lnp.arange(2.0))
    assert out.tolist() == [2.0, 3.0] and s[...].tolist() == [[0.0, 1.0, 1.0], [1.0, 1.0, 1.0]]


def test_parts_and_functions():
    r = lm.new_ref(lnp.arange(6).reshape(2, 3))
    r.at[0].at[1].set(10)
    r.at[1][0] = 20
    r.at[:, 2].multiply(2)
    assert r[...].tolist() == [[0, 10, 4], [20, 4, 10]] and r.at[0].shape == (3,)
    assert ref.swap(r, (0, 0), 7).item() == 0 and ref.get(r, (0, 0)).item() == 7
    ref.set(r, 1, 0)
    assert r[1].tolist() == [0, 0, 0] and (r.shape, str(r.dtype), r.ndim, r.size, len(r)) == (
        (2, 3),
        "int32",
        2,
        6,
        2,
    )
    assert lm.empty_ref(lm.ShapeDtype((2,), "float32"))[...].tolist() == [0.0, 0.0]
    assert repr(r) == "Ref(int32[2,3])"


def test_copies_and_types_are_kept():
    x = lnp.arange(3.0)
    r = lm.new_ref(x)
    before = r[...]
    r[...] = lnp.arange(3) + 1
    assert x.tolist() == before.tolist() == [0.0, 1.0, 2.0] and r.dtype == "float32"


def test_what_cannot_be():
    r = lm.new_ref(lnp.zeros(2))
    lm.freeze(r)
    with pytest.raises(ValueError, match="has been frozen"):
        r[0]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = lm.new_ref(1).at[...].nothing
    q = lm.new_ref(lnp.zeros(2))
    with pytest.raises(TypeError, match="made outside the transformed function"):
        lm.jit(lambda: q.__setitem__(0, 1.0))()
    assert q[...].tolist() == [0.0, 0.0]
