"""cond, switch, while_loop, fori_loop, scan, map, associative_scan.

Results, captures, derivatives, errors.
"""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax
from lax_support import array, check_gradient, sum_squares, value

C = array(1.3, np.float64)


def test_only_the_chosen_branch_counts_and_outer_values_reach_it():
    x, y = array([1.0, 2.0], np.float32), array([10.0, 20.0], np.float32)
    for pred, want in ((True, [11, 22]), (False, [-9, -18])):
        assert value(lax.cond(pred, lambda a: a + y, lambda a: a - y, x)).tolist() == want
    branches = [lambda a: a, lambda a: a * y, lambda a: a - x]
    for i, want in ((-3, [1, 2]), (1, [10, 40]), (8, [0, 0])):
        assert value(lax.switch(array(i, np.int32), branches, x)).tolist() == want
    assert value(lm.jit(lambda p, a: lax.cond(p, lambda: a + y, lambda: a))(x[0] > 5, x)).tolist() == [1, 2]
    kept = lax.cond(True, lambda: {"a": 1.0, "b": x}, lambda: {"a": array(2.0, np.float64), "b": y})
    assert kept["a"].dtype == "float64" and value(kept["a"]) == 1.0


def test_loops():
    total = lax.while_loop(lambda s: s[0] < 5, lambda s: (s[0] + 1, s[1] * C), (0, array(1.0, np.float64)))[1]
    np.testing.assert_allclose(value(total), 1.3**5)
    bound = array(4, np.int32)
    assert value(lax.while_loop(lambda i: i < bound, lambda i: i + 1, 0)) == 4
    assert value(lax.fori_loop(2, 5, lambda i, s: s * 10 + i, array(0, np.int32))) == 234
    assert value(lax.fori_loop(2, bound, lambda i, s: s * 10 + i, array(0, np.int32))) == 23
    assert value(lax.fori_loop(5, 2, lambda i, s: s + 1, array(7, np.int32))) == 7
    # Bounds of floats count in steps of one from the first.
    assert value(lax.fori_loop(0.5, 3.0, lambda i, s: s + i, 0.0)) == 0.5 + 1.5 + 2.5
    from_its_start = lambda x: lax.fori_loop(x, x + 2.0, lambda i, s: s * x, x)  # noqa: E731
    assert lm.grad(from_its_start)(2.0).item() == lm.jit(lm.grad(from_its_start))(2.0).item() == 12
    for bad in (True, 2j, lnp.ones(2)):
        with pytest.raises(TypeError, match="needs real scalars as bounds"):
            lax.fori_loop(0, lnp.asarray(bad), lambda i, s: s, 0.0)
    promoted = lax.fori_loop(0, 3, lambda i, s: s + array(0.5, np.float64), 0.0)
    assert promoted.dtype == "float64" and value(promoted) == 1.5


def test_a_counter_is_a_number_as_that_of_a_loop_of_python_is():
    def add(i, c):
        return c + i

    for dtype in ("uint8", "int16", "uint32", "int64", "float16", "bfloat16", "float64"):
        start = lnp.array(3, dtype)
        for total in (
            lax.fori_loop(0, 4, add, start),
            lax.fori_loop(0, 4, add, start, checkpoint=2),
            lm.jit(lambda n, c: lax.fori_loop(0, n, add, c))(4, start),
            lm.vmap(lambda n, c: lax.fori_loop(0, n, add, c), in_axes=(0, None))(lnp.full(1, 4), start)[0],
        ):
            assert total.dtype == dtype and total.item() == 9
    assert lax.fori_loop(0, 5, lambda i, c: i, lnp.array(0, "int64")).dtype == "int64"
    assert lax.fori_loop(2**40, 2**40 + 2, add, lnp.array(0, "float64")).item() == 2**41 + 1
    # An array as a bound says what it is.
    seen = []
    lax.fori_loop(0, lnp.array(3, "int8"), lambda i, c: (seen.append((i.dtype, i.weak_type)), c)[1], 0)
    assert seen[-1] == ("int8", False)


def test_scan_stacks_and_carries_containers():
    x = np.arange(6, dtype=np.float64).reshape(3, 2)

    def step(carry, item):
        new = {"sum": carry["sum"] + item["x"] * C, "n": carry["n"] + 1}
        return new, (carry["sum"], item["i"] * 2)

    init = {"sum": array(np.zeros(2)), "n": array(0, np.int32)}
    xs = {"x": array(x), "i": array(np.arange(3, dtype=np.int32))}
    last, (sums, twice) = lax.scan(step, init, xs)
    np.testing.assert_allclose(value(last["sum"]), 1.3 * x.sum(0))
    assert value(last["n"]) == 3 and value(twice).tolist() == [0, 2, 4]
    np.testing.assert_allclose(value(sums), np.vstack([np.zeros((1, 2)), 1.3 * x.cumsum(0)[:2]]))
    backward = lax.scan(lambda s, v: (s + v, s), array(np.zeros(2)), array(x), reverse=True)[1]
    np.testing.assert_allclose(value(backward), [[6, 8], [4, 5], [0, 0]])
    assert value(lax.scan(lambda s, _: (s * 2, s), array(1, np.int32), None, 5)[1]).tolist() == [
        1,
        2,
        4,
        8,
        16,
    ]
    assert lax.scan(lambda s, v: (s, v), 0.0, array(np.zeros((0, 3))))[1].shape == (0, 3)
    assert value(lax.map(lambda r: lax.reduce_max(r), array(x))).tolist() == [1, 3, 5]


def test_loops_inside_loops_capture_from_both():
    y = array([1.0, 2.0, 3.0], np.float64)

    def outer(s, v):
        inner = lax.fori_loop(0, 2, lambda i, t: t + v * C, s)
        return lax.cond(lax.reduce_sum(inner) > 3, lambda: inner - v, lambda: inner), inner

    total, steps = lm.jit(lambda a: lax.scan(outer, array(0.0, np.float64), a))(y)
    s, want = 0.0, []
    for v in (1.0, 2.0, 3.0):
        t = s + 2.6 * v
        want.append(t)
        s = t - v if t > 3 else t
    np.testing.assert_allclose(value(steps), want, rtol=1e-13)
    np.testing.assert_allclose(value(total), s, rtol=1e-13)


def test_associative_scan_of_affine_maps():
    rng = np.random.default_rng(1)
    for n in (1, 2, 3, 8, 13):
        a, b = rng.normal(size=n), rng.normal(size=n)
        got = lax.associative_scan(lambda p, q: (q[0] * p[0], q[0] * p[1] + q[1]), (array(a), array(b)))
        x, want = 0.0, []
        for i in range(n):
            x = a[i] * x + b[i]
            want.append(x)
        np.testing.assert_allclose(value(got[1]), want, rtol=1e-12)


GRADIENTS = {
    "scan": (
        lambda a: lax.scan(lambda s, v: (lax.sin(s * C + v), s), lax.full((2,), 0.5, "float64"), a)[1],
        (4, 2),
    ),
    "captured": (
        lambda a: lax.scan(lambda s, v: (lax.sin(s * a[0] + v), None), lax.full((2,), 0.5, "float64"), a)[0],
        (4, 2),
    ),
    "fori": (lambda a: lax.fori_loop(0, 3, lambda i, s: lax.sin(s) * a, a), (2,)),
    "cond": (lambda a: lax.cond(lax.reduce_sum(a) > 0, lambda v: v * a, lambda v: v + C, a), (3,)),
    "switch": (lambda a: lax.switch(2, [lambda v: v, lambda v: v * C, lambda v: lax.exp(v) * a], a), (3,)),
    "map": (lambda a: lax.map(lambda v: lax.sin(v) * C, a), (3, 2)),
    "associative_scan": (lambda a: lax.associative_scan(lax.mul, a), (5,)),
    "checkpointed": (
        lambda a: lax.scan(
            lm.checkpoint(lambda s, v: (lax.sin(s * C + v), s)), lax.full((2,), 0.5, "float64"), a
        )[1],
        (4, 2),
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_against_differences(name):
    f, shape = GRADIENTS[name]
    check_gradient(lambda a: sum_squares(f(a)), np.random.default_rng(5).normal(size=shape))


def test_while_has_derivatives():
    def power(x):
        return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * x), (array(0, np.int32), x))[1]

    x, one = array(2.0, np.float64), array(1.0, np.float64)
    out, tangent = lm.jvp(power, (x,), (one,))
    assert (value(out), value(tangent)) == (16.0, 32.0)
    assert value(lm.grad(power)(x)) == 32.0


def test_batched_control_flow_is_the_loop_of_lanes():
    n = array(np.arange(4, dtype=np.int32))
    steps = lm.vmap(lambda k: lax.while_loop(lambda s: s[0] < k, lambda s: (s[0] + 1, s[1] * 2), (0, 1))[1])(
        n
    )
    assert value(steps).tolist() == [1, 2, 4, 8]
    assert value(lm.vmap(lambda k: lax.cond(k > 1, lambda v: v * 2, lambda v: v - 1, k))(n)).tolist() == [
        -1,
        0,
        4,
        6,
    ]
    scanned = lm.vmap(lambda k: lax.scan(lambda s, v: (s + v * k, s), k, n)[0])(n)
    assert value(scanned).tolist() == [0, 7, 14, 21]


def test_errors_name_the_leaf_and_both_types():
    ints = array(np.arange(3, dtype=np.int32))
    with pytest.raises(TypeError, match=r"carry s\['w'\] is int32\[3\] going in but float32\[3\] coming out"):
        lax.scan(lambda s, v: ({"w": s["w"] * 1.5}, None), {"w": ints}, ints)
    with pytest.raises(ValueError, match=r"length 3: xs\['a'\] .*; length 4: xs\['b'\]"):
        lax.scan(lambda s, v: (s, None), 0.0, {"a": ints, "b": array(np.ones(4))})
    with pytest.raises(ValueError, match="length=5 does not fit"):
        lax.scan(lambda s, v: (s, None), 0.0, ints, 5)
    with pytest.raises(TypeError, match=r"pair \(carry, y\), not float32\[\]"):
        lax.scan(lambda s, v: s, 0.0, ints)
    with pytest.raises(TypeError, match=r"pair \(carry, y\), not dict"):
        lax.scan(lambda s, v: {"s": s}, 0.0, ints)
    with pytest.raises(
        TypeError, match=r"int32\[3\] from false_fun \(<lambda>\) and int32\[\] from true_fun \(<lambda>\)"
    ):
        lax.cond(True, lambda: ints[0], lambda: ints)
    with pytest.raises(TypeError, match=r"int32\[\] from branch 0 \(<lambda>\) and int32\[3\] from branch 2"):
        lax.switch(1, [lambda: ints[0], lambda: ints[1], lambda: ints])
    with pytest.raises(
        TypeError, match=r"branch 0 \(<lambda>\) and branch 1 \(<lambda>\) must return one structure"
    ):
        lax.switch(1, [lambda: ints, lambda: (ints,)])
    for wrong in ((1.0, 1.0), [True]):
        with pytest.raises(TypeError, match=rf"must be a bool or a number, not {type(wrong).__name__}: "):
            lax.cond(wrong, lambda: 1, lambda: 2)
    with pytest.raises(
        TypeError, match=r"structures differ at the top: the carry returned also has 'b', the carry given"
    ):
        lax.scan(lambda s, _: ({"a": s["a"], "b": s["a"]}, None), {"a": 0}, length=1)
    with pytest.raises(TypeError, match="structure"):
        lax.while_loop(lambda s: s[0] < 1, lambda s: (s[0],), (1, 2))
    with pytest.raises(TypeError, match="one bool scalar"):
        lax.while_loop(lambda s: s, lambda s: s, 1)
    with pytest.raises(TypeError, match=r"carry s is int32\[\] going in but float32\[\]"):
        lax.fori_loop(0, 3, lambda i, s: s * 0.5, array(1, np.int32))


def test_what_chooses_and_what_counts_is_named():
    with pytest.raises(
        TypeError, match=r"lax\.cond: the predicate must be a bool or a number, not NoneType: None"
    ):
        lax.cond(None, lambda: 1.0, lambda: 2.0)
    with pytest.raises(TypeError, match=r"lax\.switch: the index must be a bool or a number, not str: 'a'"):
        lax.switch("a", [lambda: 1.0, lambda: 2.0])
    with pytest.raises(TypeError, match=r"lax.cond needs \(pred, .* int is not callable: 3"):
        lax.cond(True, lambda: 1.0, 3)
    with pytest.raises(TypeError, match=r"lax.scan: `length` decides .*int32\[\] .*static_argnums"):
        lm.jit(lambda n: lax.scan(lambda s, _: (s, None), 0.0, None, n))(3)
    with pytest.raises(TypeError, match=r"lax.scan: `unroll` decides .*int32\[\]"):
        lm.jit(lambda n: lax.scan(lambda s, _: (s, None), 0.0, None, 3, unroll=n))(3)


def test_parameters_that_jax_has():
    x = array([1.0, 2.0])
    assert value(lax.cond(True, lambda v: v * 2, lambda v: v, operand=x)).tolist() == [2, 4]
    assert value(lax.cond(False, lambda v: 2.0, lambda v: 3.0, operand=None)) == 3.0
    assert value(lax.switch(1, [lambda v: v, lambda v: v + 1], operand=x)).tolist() == [2, 3]
    with pytest.raises(TypeError, match=r"lax\.cond got both operands and operand="):
        lax.cond(True, lambda v: v, lambda v: v, x, operand=x)
    assert value(lax.scan(lambda c, v: (c + v, c), 0.0, x, unroll=True, _split_transpose=True)[0]) == 3.0


@pytest.mark.parametrize(
    "f",
    [
        lambda x: lax.cond(x < 1e-3, lambda: 1e-3, lambda: lnp.sqrt(x)),
        lambda x: lax.cond(x < 1e-3, lambda y: y * 0, lnp.sqrt, x),
        lambda x: lax.switch(
            (x > 0.5).astype("int32"), [lambda y: 2 * y, lambda y: 1 / (y - 0.25), lnp.log], x
        ),
    ],
)
def test_branches_that_a_lane_does_not_take_give_its_derivative_nothing(f):
    x = lnp.array([0.0, 0.25, 1.0, 4.0])
    one_by_one = np.array([float(lm.grad(f)(v)) for v in x])
    assert np.isfinite(one_by_one).all()
    total = lambda y: lm.vmap(f)(y).sum()  # noqa: E731
    for g in (lm.grad(total), lm.jit(lm.grad(total)), lm.vmap(lm.grad(f)), lambda y: lm.jacfwd(total)(y)):
        np.testing.assert_allclose(g(x).numpy(), one_by_one, rtol=1e-6)
    curved = lm.vmap(lm.grad(lm.grad(f)))(x)
    np.testing.assert_allclose(np.diag(lm.hessian(total)(x).numpy()), curved.numpy(), rtol=1e-5)


def test_an_operand_of_cond_may_be_a_container_that_can_be_called():
    @lm.tree_util.register_pytree_node_class
    class Affine:
        def __init__(self, scale):
            self.scale = scale

        def __call__(self, x):
            return x * self.scale

        def tree_flatten(self):
            return (self.scale,), None

        @classmethod
        def tree_unflatten(cls, _, children):
            return cls(*children)

    def use(x, f):
        return f(x) + 1

    def skip(x, f):
        return x - f.scale

    assert [lax.cond(p, use, skip, 3.0, Affine(4.0)).item() for p in (True, False)] == [13.0, -1.0]
    assert lm.jit(lambda p, f: lax.cond(p, use, skip, 3.0, f))(True, Affine(2.0)).item() == 7.0
    # With an operand for each function, the second one may be such a container too.
    assert lax.cond(False, 1.0, lambda x: x, 2.0, lm.tree_util.Partial(lnp.multiply, 5.0)).item() == 10.0


def test_cond_with_an_operand_for_each_function():
    def f(pred, a, b):
        return lax.cond(pred, a, lambda x: x["v"] + 1, b, lambda y: y * 5)

    assert f(True, {"v": 1.0}, 2.0).item() == 2.0 and f(False, {"v": 1.0}, 2.0).item() == 10.0
    assert lm.jit(f)(False, {"v": 1.0}, 2.0).item() == 10.0
    assert lm.vmap(f, (0, None, None))(lnp.array([True, False]), {"v": 1.0}, 2.0).tolist() == [2.0, 10.0]
    assert lm.grad(f, 2)(False, {"v": 1.0}, 2.0).item() == 5.0
    with pytest.raises(TypeError, match="two functions"):
        lax.cond(True, 1.0, lambda x: x, 2.0, 3.0)
