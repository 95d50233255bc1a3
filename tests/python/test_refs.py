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
    texts = []
    assert r[1].tolist() == [0, 0, 0] and (r.shape, str(r.dtype), r.ndim, r.size, len(r)) == (
        (2, 3),
        "int32",
        2,
        6,
        2,
    )
    assert lm.empty_ref(lm.ShapeDtype((2,), "float32"))[...].tolist() == [0.0, 0.0]
    assert repr(lm.new_ref(lnp.arange(3.0))) == "Ref([0., 1., 2.], dtype=float32)"
    lm.jit(lambda x: texts.append(repr(lm.new_ref(x))))(lnp.arange(3.0))
    assert texts == ["Ref(float32[3])"]


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
    write = lambda x: (q.at[0].set(x), x)[1]  # noqa: E731
    with pytest.raises(TypeError, match="made outside the transformed function"):
        lm.make_trace(write)(1.0)
    with pytest.raises(ValueError, match="writes a value per lane to a reference from outside"):
        lm.vmap(lambda x: q.at[0].set(x))(lnp.arange(2.0))
    with pytest.raises(ValueError, match=r"int32 elements is given float32.*which would be cut"):
        lm.new_ref(0)[...] += lnp.float32(1.5)
    with pytest.raises(ValueError, match="cannot be frozen"):
        lm.jit(lambda: lm.freeze(q))()
    with pytest.raises(ValueError, match="<lambda> gets a reference as an argument that it also uses"):
        lm.jit(lambda r: (r.at[0].add(1.0), q.at[0].add(1.0)))(q)
    with pytest.raises(ZeroDivisionError):
        lm.jit(lambda: (q.at[0].set(1.0), 1 // 0))()
    assert q[...].tolist() == [0.0, 0.0]


def test_jitted_functions_read_and_write_references_from_outside():
    total, count, traced = lm.new_ref(lnp.zeros(3)), lm.new_ref(0), []

    @lm.jit
    def add(x):
        traced.append(None)
        total[0] += x
        count[...] += 1
        return total[...] * 2

    assert [add(x).tolist()[0] for x in (1.0, 2.0, 3.0)] == [2.0, 6.0, 12.0]
    total[0] = 10.0  # what is written outside is read
    assert add(1.0).tolist() == [22.0, 0.0, 0.0] and int(count[...]) == 4 and len(traced) == 1

    read = lm.jit(lambda: total[0] + count[...])
    assert float(read()) == 15.0
    add(1.0)
    assert float(read()) == 17.0

    @lm.jit
    def nested(x):
        add(x)
        add(x)
        return read()

    assert float(nested(1.0)) == 21.0 and float(nested(1.0)) == 25.0
    assert total[...].tolist() == [16.0, 0.0, 0.0] and int(count[...]) == 9

    @lm.jit
    def first_seen_inside(x):
        @lm.jit
        def inner(x):
            total[1] += x
            return total[1]

        return inner(x) + inner(x)

    assert float(first_seen_inside(1.0)) == 3.0 and float(first_seen_inside(1.0)) == 7.0

    @lm.jit
    def loop(n):
        def step(i, c):
            total[2] += i
            return c

        lax.fori_loop(0, n, step, None)

    loop(5)
    loop(3)
    assert total[...].tolist() == [16.0, 4.0, 13.0]


def test_references_of_objects_and_branches_in_jitted_functions():
    class Counter:
        def __init__(self):
            self.count = lm.new_ref(0)

        @lm.jit
        def next(self, x):
            self.count[...] += 1
            return self.count[...] * x

    one, other = Counter(), Counter()
    assert [int(one.next(10)) for _ in range(3)] == [10, 20, 30] and int(other.next(10)) == 10
    one.count = lm.new_ref(100)
    assert int(one.next(1)) == 101 and int(other.count[...]) == 1

    positive, negative = lm.new_ref(0.0), lm.new_ref(0.0)

    @lm.jit
    def keep(x):
        if x > 0:
            positive[...] = x
        else:
            negative[...] = x

    for x in (5.0, -7.0, 6.0):
        keep(x)
    assert (float(positive[...]), float(negative[...])) == (6.0, -7.0)
    held = lm.jit(lambda x: lm.grad(lambda x: positive[...] * x * x)(x))
    assert float(held(2.0)) == 24.0
    positive[...] = 1.0
    assert float(held(2.0)) == 4.0
    same = lnp.zeros(2)
    a, b = lm.new_ref(same), lm.new_ref(same)
    both = lm.jit(lambda: a[...] + 2 * b[...])
    assert both().tolist() == [0.0, 0.0]
    b[0] = 1.0
    assert both().tolist() == [2.0, 0.0]


def _adds(x):
    """Writes to what it is given first, and depends on what was written."""
    return lambda q: (q.at[0].add(2.0), x * x * (1 + q[0]))[1]


# Each is given a function of a number that changes a reference from outside.
_TRANSFORMS = {
    "grad": lambda f: lm.grad(f)(3.0),
    "grad of grad": lambda f: lm.grad(lm.grad(f))(3.0),
    "jvp": lambda f: lm.jvp(f, (3.0,), (1.0,))[1],
    "vjp": lambda f: lm.vjp(f, 3.0)[1](1.0)[0],
    "linearize": lambda f: lm.linearize(f, 3.0)[1](1.0),
    "hessian": lambda f: lm.hessian(f)(3.0),
    "vmap": lambda f: lm.vmap(f)(lnp.arange(3.0)).sum(),
    "vmap of grad": lambda f: lm.vmap(lm.grad(f))(lnp.arange(3.0)).sum(),
    "grad of vmap": lambda f: lm.grad(lambda x: lm.vmap(f)(x).sum())(lnp.arange(3.0)).sum(),
    "checkpoint": lambda f: lm.grad(lm.checkpoint(f))(3.0),
    "grad of jit": lambda f: lm.grad(lm.jit(f))(3.0),
}


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("name", _TRANSFORMS)
def test_functions_under_transforms_change_references_from_outside(name, jit):
    ref = lm.new_ref(lnp.zeros(2))
    call = lambda: _TRANSFORMS[name](lambda x: _adds(x)(ref))  # noqa: E731
    call = lm.jit(call) if jit else call
    for count in (1, 2):
        want = _TRANSFORMS[name](lambda x, count=count: x * x * (1 + 2.0 * count))
        np.testing.assert_allclose(call(), want, rtol=1e-6)
        assert ref[...].tolist() == [2.0 * count, 0.0]


@pytest.mark.parametrize("jit", [False, True])
def test_loops_that_change_references_are_differentiated(jit):
    ref = lm.new_ref(0.0)

    def loop(x, body):
        return lax.scan(lambda c, _: (0.1 * body(c), None), x, None, length=3)[0]

    def functional(x):
        for k in (2, 4, 6):
            x = 0.1 * (x * x * (1 + k))
        return x

    def written(x):
        ref[...] += 2.0
        return x * x * (1 + ref[...])

    for body in (written, lm.checkpoint(written)):
        ref[...] = 0.0
        g = lm.grad(lambda x, body=body: loop(x, body))
        np.testing.assert_allclose((lm.jit(g) if jit else g)(1.0), lm.grad(functional)(1.0), rtol=1e-5)
        assert float(ref[...]) == 6.0
    ref[...] = 0.0
    out = lax.scan(lambda c, _: (lm.grad(written)(c), None), 1.0, None, length=2)[0]
    assert float(out) == 2 * 3 * 2 * 5 and float(ref[...]) == 4.0


def test_what_is_written_under_a_derivative_depends_on_outer_ones():
    ref = lm.new_ref(0.0)

    def outer(x):
        def inner(y):
            ref[...] = x * y
            return y * y

        return lm.grad(inner)(x) + ref[...]

    assert float(lm.grad(outer)(3.0)) == 2.0 + 6.0 and float(ref[...]) == 9.0
    with pytest.raises(ZeroDivisionError):
        lm.grad(lambda x: (ref.at[...].set(x), x / (1 // 0))[1])(1.0)
    assert float(ref[...]) == 9.0
    q = lm.new_ref(lnp.zeros(2))
    slope = lm.grad(lambda r, x: (r.at[1].add(x), x * r[1])[1], 1)
    assert float(slope(q, 2.0)) == 4.0 and float(lm.jit(slope)(q, 2.0)) == 2.0 + 4.0
    assert q[...].tolist() == [0.0, 4.0]


@pytest.mark.parametrize("around", [lambda f: f, lm.jit])
def test_scans_over_references(around):
    rows = lm.new_ref(lnp.arange(5.0))

    def step(total, given):
        i, row = given
        row[...] += i
        return total + row[...], row[...] * 10

    total, ys = around(lambda: lax.scan(step, 0.0, (lnp.arange(5.0), rows)))()
    assert float(total) == 20.0 and ys.tolist() == [0.0, 20.0, 40.0, 60.0, 80.0]
    assert rows[...].tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]

    def squares(xs):
        return lax.scan(lambda c, x: (c + x[...] ** 2, None), 0.0, lm.new_ref(xs))[0]

    assert around(lm.grad(squares))(lnp.arange(3.0)).tolist() == [0.0, 2.0, 4.0]


def test_parts_and_references_are_given_to_functions():
    ref = lm.new_ref(lnp.arange(5.0))

    def add(part):
        part[...] = part[...] + 10.0
        return part[0]

    def branch(part):
        return lax.cond(part[0] > 0, add, lambda p: p[0], part)

    def switch(part):
        return lax.switch(1, [lambda p: p[0], add], part)

    for count, run in enumerate((add, lm.jit(add), lm.checkpoint(add), branch, lm.jit(branch), switch), 1):
        assert float(run(ref.at[1:3])) == 1.0 + 10.0 * count
        assert ref[...].tolist() == [0.0, 1.0 + 10.0 * count, 2.0 + 10.0 * count, 3.0, 4.0]
    lm.jit(lambda i: lm.jit(lambda p: p.at[...].set(-1.0))(ref.at[i]))(4)
    lax.cond(True, lambda r: r.at[0].set(7.0), lambda r: None, ref)
    assert ref[0] == 7.0 and ref[4] == -1.0


def test_bodies_that_only_read_are_traced_once():
    ref, traced = lm.new_ref(2.0), []

    def step(c, _):
        traced.append(None)
        return c * ref[...], None

    assert float(lax.scan(step, lnp.float32(1.0), None, length=3)[0]) == 8.0 and len(traced) == 1
    g = lm.grad(lambda x: lax.scan(lambda c, _: lax.scan(step, c, None, length=2), x, None, length=1)[0])
    assert float(g(lnp.float32(1.0))) == 4.0 and len(traced) == 2


@pytest.mark.parametrize(
    "loop",
    [
        lambda c: lax.scan(lambda c, _: (c, None), c, None, length=1),
        lambda c: lax.while_loop(lambda c: False, lambda c: c, c),
        lambda c: lax.fori_loop(0, 2, lambda i, c: c, c),
    ],
)
@pytest.mark.parametrize("carry", [lambda r: r, lambda r: (r, r), lambda r: {"part": r.at[0]}])
def test_a_reference_is_no_carry(loop, carry):
    r = lm.new_ref(lnp.ones(2))
    with pytest.raises(ValueError, match="its first carry holds a reference"):
        loop(carry(r))
    assert r[...].tolist() == [1.0, 1.0]


def test_reads_and_writes_of_a_reference_as_methods():
    r = lm.new_ref(lnp.zeros(3))

    @lm.jit
    def f(r):
        r.addupdate(2.0)
        r.set(5.0, 1)
        return r.swap(7.0, 2), r.get(slice(1, 3))

    before, part = f(r)
    assert before.item() == 2.0 and part.tolist() == [5.0, 7.0] and r.get().tolist() == [2.0, 5.0, 7.0]
    lanes = lm.new_ref(lnp.arange(3.0))
    lm.vmap(lambda r: r.addupdate(1.0))(lanes)
    assert lanes[...].tolist() == [1.0, 2.0, 3.0]


def test_only_references_are_frozen():
    r = lm.new_ref(1.0)
    for x in (lnp.ones(2), 1.0):
        with pytest.raises(TypeError, match="freeze takes a reference"):
            lm.freeze(x)
    with pytest.raises(TypeError, match="is_leaf"):
        lm.tree.map(lm.freeze, [r])
    assert lm.tree.map(lm.freeze, [r], is_leaf=ref.is_ref)[0].item() == 1.0


def _rule_writes_inside(x):
    """The backward rule makes a reference, writes and freezes it."""

    def backward(x, g):
        r = lm.new_ref(g)
        r[...] = r[...] * lnp.cos(x) * 5
        return (lm.freeze(r),)

    f = lm.custom_vjp(lnp.sin)
    f.defvjp(lambda x: (lnp.sin(x), x), backward)
    return f(x).sum()


def _rules_write_outside(x):
    """Both rules write references from outside, whose values are used afterwards."""
    seen, back = lm.new_ref(lnp.zeros_like(x)), lm.new_ref(lnp.zeros_like(x))

    def forward(x):
        seen[...] = x * 3
        return lnp.sin(x), x

    def backward(x, g):
        back[...] = g * 2
        return (g * lnp.cos(x) * 5,)

    f = lm.custom_vjp(lnp.sin)
    f.defvjp(forward, backward)
    slopes = lm.grad(lambda x: f(x).sum())(x)
    return (lm.freeze(seen) * lm.freeze(back) * slopes).sum()


def _checkpoint_writes(x):
    r = lm.new_ref(x)

    def g(y):
        r[...] = lnp.sin(r[...]) * y
        return (y * 2).sum()

    return lm.checkpoint(g)(x) + lm.freeze(r).sum()


@pytest.mark.parametrize(
    ("f", "plain", "slopes"),
    [
        (_rule_writes_inside, lambda x: lnp.sin(x).sum(), lambda x: 5 * lnp.cos(x)),
        (_rules_write_outside, lambda x: (30 * x * lnp.cos(x)).sum(), None),
        (_checkpoint_writes, lambda x: (2 * x + lnp.sin(x) * x).sum(), None),
    ],
)
def test_references_written_in_rules_and_checkpoints(f, plain, slopes):
    x = lnp.array([0.3, 0.2, 0.5])
    slopes = slopes or lm.grad(plain)
    np.testing.assert_allclose(f(x), plain(x), rtol=1e-6)
    for t in (lambda f: f, lm.jit, lambda f: lambda x: lm.vmap(f)(lnp.stack([x, 2 * x]))):
        np.testing.assert_allclose(t(lm.grad(f))(x), t(slopes)(x), rtol=1e-5)
    of_all = lambda x: lm.vmap(f)(lnp.stack([x, 2 * x])).sum()  # noqa: E731
    np.testing.assert_allclose(lm.grad(of_all)(x), slopes(x) + 2 * slopes(2 * x), rtol=1e-5)
    twice = lambda d: lm.grad(lambda x: d(x).sum())(x)  # noqa: E731
    np.testing.assert_allclose(twice(lm.grad(f)), twice(slopes), rtol=1e-5)


# Each calls a traced function, and gives what a part of its result is.
TRACED = {
    "jit": lambda f, x: lm.jit(f)(x),
    "jit in a container": lambda f, x: lm.jit(lambda x: {"a": (x, f(x))})(x),
    "vmap": lambda f, x: lm.vmap(f)(x[:, None]),
    "vjp": lambda f, x: lm.vjp(f, x),
    "jacfwd": lambda f, x: lm.jacfwd(f)(x),
    "aux": lambda f, x: lm.grad(lambda x: (x.sum(), f(x)), has_aux=True)(x),
    "checkpoint": lambda f, x: lm.checkpoint(f)(x),
    "eval_shape": lambda f, x: lm.eval_shape(f, x),
    "scan": lambda f, x: lax.scan(lambda c, x: (c, f(x)), None, x[:, None]),
    "map": lambda f, x: lax.map(f, x[:, None]),
    "while_loop": lambda f, x: lax.while_loop(lambda x: x[0] < 3, f, x),
    "cond": lambda f, x: lax.cond(x[0] > 1, f, f, x),
}


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("name", TRACED)
def test_traced_functions_return_no_references(name, older):
    x = lnp.arange(3.0)
    outside = lm.new_ref(x)

    def made(x):
        r = lm.new_ref(x)
        r[...] = 2 * r[...]
        return r

    def given(x):
        return (outside, x)[0]

    with pytest.raises(ValueError, match=r"returned a reference, Ref\(float32\[.*ref\[\.\.\.\]") as e:
        TRACED[name](given if older else made, x)
    assert "test_refs.py:" in str(e.value)
    np.testing.assert_array_equal(lm.freeze(outside), x)


def test_the_place_of_a_returned_reference_is_named():
    def f(x):
        return {"a": x, "b": [x, lm.new_ref(x)]}

    with pytest.raises(
        ValueError, match=r"f \(.*test_refs\.py:\d+\), which is traced, .* as result\['b'\]\[1\]"
    ):
        lm.jit(f)(lnp.ones(3))
    assert lm.jit(lambda x: lm.freeze(lm.new_ref(x)))(lnp.ones(3)).tolist() == [1, 1, 1]


def test_nested_bodies_that_write_are_traced_a_few_times_only():
    counts = [0, 0, 0, 0]

    def f(x):
        r = lm.new_ref(x)

        def body(depth):
            def step(c, _=None):
                counts[depth] += 1
                if depth == 3:
                    r[...] += c
                    return c + 1, None
                if depth == 1:
                    return lax.cond(c >= 0, lambda c: body(2)(c)[0], lambda c: c, c), None
                if depth == 2:
                    return lax.fori_loop(0, 2, lambda i, c: body(3)(c)[0], c), None
                return lax.scan(body(depth + 1), c, None, length=2)[0], None

            return step

        c, _ = lax.scan(body(0), x[0] * 0, None, length=2)
        return r[...], c

    def plain(x):
        c, r = 0.0, x
        for _ in range(8):
            r, c = r + c, c + 1
        return r, c

    for around in (lambda f: f, lm.jit, lambda f: lambda x: lm.vmap(f)(x[None])):
        got = around(f)(lnp.ones(2))
        want = plain(np.ones(2))
        np.testing.assert_array_equal(np.asarray(got[0]).reshape(-1, 2)[0], want[0])
        assert np.asarray(got[1]).max() == want[1]
        assert max(counts) <= 20, counts  # 30 and more where each body is asked anew
        counts[:] = [0] * 4


def _stashing():
    """x itself, whose cotangent a reference notes: with what it held before, so that the order is seen."""

    @lm.custom_vjp
    def stash(r, x):
        return x

    def backward(r, g):
        r[...] = r[...] * 10 + g
        return None, g

    stash.defvjp(lambda r, x: (x, r), backward)
    return stash


@pytest.mark.parametrize("around", [lambda f: f, lm.jit], ids=["plain", "jit"])
@pytest.mark.parametrize("given", [False, True], ids=["outside", "argument"])
def test_a_backward_rule_writes_to_references_that_are_residuals(around, given):
    stash = _stashing()

    def f(refs, x):
        y = stash(refs["a"], 2 * x)
        y = stash(refs["b"], 3 * y)
        return stash(refs["a"], 5 * y)

    refs = {name: lm.new_ref(lnp.float32(0.0)) for name in "ab"}
    run = around(lm.grad(f, 1)) if given else around(lambda _, x: lm.grad(f, 1)(refs, x))
    for a, b in ((25, 5), (2525, 55)):  # the last call comes first
        assert run(refs if given else None, 1.0).item() == 30
        assert refs["a"][...].item() == a and refs["b"][...].item() == b
    _, pull = lm.vjp(lambda x: f(refs, x), 1.0)
    assert refs["b"][...].item() == 55
    pull(1.0)
    assert refs["b"][...].item() == 555


def test_a_backward_rule_does_not_write_where_nobody_would_see_it():
    stash, r = _stashing(), lm.new_ref(lnp.float32(1.0))
    f = lambda x: lnp.sin(stash(r, x))  # noqa: E731
    for derivative in (
        lambda: lm.grad(lm.jit(f))(1.0),
        lambda: lm.grad(lm.jit(lambda r, x: lnp.sin(stash(r, x))), 1)(r, 1.0),
        lambda: lm.vmap(lm.grad(f))(lnp.ones(2)),
        lambda: lm.grad(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0])(1.0),
        lambda: lm.grad(lm.checkpoint(f))(1.0),
    ):
        with pytest.raises(TypeError, match=r"the backward rule backward .*nobody would see"):
            derivative()
        assert r[...].item() == 1
    # Reading is another matter.
    g = lm.custom_vjp(lambda r, x: x * r[...])
    g.defvjp(lambda r, x: (x * r[...], r), lambda r, g: (None, g * r[...] * 7))
    r[...] = 2.0
    assert lm.grad(lm.jit(lambda x: g(r, x)))(1.0).item() == 14
    assert lm.vmap(lm.grad(lambda x: g(r, x)))(lnp.ones(2)).tolist() == [14, 14]
