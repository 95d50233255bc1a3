"""Python functions in the middle of programs."""

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax

X = np.array([3.0, 1.0, 2.0], dtype=np.float32)


def sorted_by_numpy(x):
    return lm.pure_callback(np.sort, lm.ShapeDtype(x.shape, x.dtype), x)


@pytest.mark.parametrize("f", [sorted_by_numpy, lm.jit(sorted_by_numpy)], ids=["plain", "jit"])
def test_values_and_what_comes_after(f):
    np.testing.assert_array_equal(np.asarray(f(lnp.asarray(X)) * 2 + 1), np.sort(X) * 2 + 1)


def test_trees_and_keywords():
    def f(a, *, b):
        assert isinstance(a["x"], np.ndarray) and not a["x"].flags.writeable
        return {"sum": a["x"] + b, "count": np.int32(a["x"].size)}

    described = {"sum": lm.ShapeDtype((3,), "float32"), "count": lm.ShapeDtype((), "int32")}
    out = lm.pure_callback(f, described, {"x": lnp.asarray(X)}, b=1.0)
    np.testing.assert_array_equal(np.asarray(out["sum"]), X + 1)
    assert int(out["count"]) == 3


def test_one_call_a_run_and_one_registration():
    calls = []

    def f(x):
        calls.append(x)
        return x

    step = lm.jit(lambda x: lm.pure_callback(f, x, x) + 1)
    for n in range(1, 4):
        step(lnp.asarray(X)).block_until_ready()
        assert len(calls) == n
    before = lm.cache.stats()["misses"]
    for _ in range(3):
        lm.pure_callback(f, X, X).block_until_ready()
    assert lm.cache.stats()["misses"] == before + 1


def test_vmap_calls_once_per_lane():
    shapes = []

    def f(x):
        shapes.append(x.shape)
        return x[::-1]

    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    out = lm.vmap(lambda r: lm.pure_callback(f, lm.ShapeDtype((3,), "float32"), r))(lnp.asarray(x))
    np.testing.assert_array_equal(np.asarray(out), x[:, ::-1])
    assert shapes == [(3,)] * 4


def test_derivatives_come_from_custom_rules_only():
    with pytest.raises(ValueError, match="pure_callback has no derivative"):
        lm.grad(lambda x: lnp.sum(sorted_by_numpy(x)))(lnp.asarray(X))

    @lm.custom_jvp
    def cube(x):
        return lm.pure_callback(lambda a: a**3, lm.ShapeDtype(x.shape, x.dtype), x)

    cube.defjvp(lambda primals, tangents: (cube(primals[0]), 3 * primals[0] ** 2 * tangents[0]))
    np.testing.assert_allclose(np.asarray(lm.grad(lambda x: lnp.sum(cube(x)))(lnp.asarray(X))), 3 * X**2)


def test_in_a_loop():
    def body(i, x):
        return lm.pure_callback(lambda a: a * 2, lm.ShapeDtype((3,), "float32"), x)

    np.testing.assert_array_equal(np.asarray(lax.fori_loop(0, 5, body, lnp.asarray(X))), X * 32)


def test_a_callback_may_use_the_library():
    """Computing in a callback does not start the program again that the callback is part of."""
    calls = []

    def f(x):
        calls.append(1)
        return np.asarray(lnp.sort(lnp.asarray(x)) * 2)

    y = lm.pure_callback(f, lm.ShapeDtype((3,), "float32"), lnp.asarray(X))
    others = y + 1, y * 3
    np.testing.assert_array_equal(np.asarray(y), np.sort(X) * 2)
    np.testing.assert_array_equal(np.asarray(others[1]), np.sort(X) * 6)
    assert len(calls) == 1


def test_bfloat16_stays_itself():
    x = lnp.asarray(X).astype("bfloat16")
    out = lm.pure_callback(lambda a: a, lm.ShapeDtype((3,), "bfloat16"), x)
    assert out.dtype == "bfloat16"
    np.testing.assert_array_equal(np.asarray(out.astype("float32")), X)


def test_what_a_callback_raises_reaches_the_reader():
    def fails(x):
        raise LookupError("not here")

    y = lm.pure_callback(fails, lm.ShapeDtype((3,), "float32"), lnp.asarray(X))
    for _ in range(2):
        with pytest.raises(LookupError, match="not here"):
            np.asarray(y)
    assert float(lnp.ones(3).sum()) == 3.0


def failing(x):
    raise LookupError("not here")


F3 = lm.ShapeDtype((3,), "float32")


def test_a_value_that_fails_leaves_the_others_alone():
    x = lnp.asarray(X)
    y = lm.pure_callback(failing, F3, x)
    z, w = x + 1, x * 2
    np.testing.assert_array_equal(np.asarray(z), X + 1)
    for read in (np.asarray, lm.block_until_ready, lambda y: (y + 1).tolist(), lambda y: lm.jit(lnp.sin)(y)):
        with pytest.raises(LookupError, match="not here"):
            read(y)
    np.testing.assert_array_equal(np.asarray(w), X * 2)
    both = lm.block_until_ready([x - 1, w])
    np.testing.assert_array_equal(np.asarray(both[0]), X - 1)
    with pytest.raises(LookupError, match="not here"):
        lm.block_until_ready([x - 2, y])


def test_a_checked_index_fails_where_its_value_is_read():
    x = lnp.asarray(X)
    with lm.checks(index="raise"):
        y = lm.vmap(lambda i: x[i])(lnp.asarray([3]) * 2 + 1)
    np.testing.assert_array_equal(np.asarray(x * 3), X * 3)
    for _ in range(2):
        with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 3"):
            np.asarray(y)


def test_effects_run_once_beside_a_value_that_fails():
    x = lnp.asarray(X)
    y, z = lm.pure_callback(failing, F3, x), x + 1
    seen = []
    lm.debug.callback(lambda v: seen.append(v.tolist()), z)
    got = lm.io_callback(lambda v: (seen.append("io"), v)[1], F3, z)
    lm.effects_barrier()
    assert seen == [(X + 1).tolist(), "io"] and got.tolist() == (X + 1).tolist()
    with pytest.raises(LookupError, match="not here"):
        np.asarray(y)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_callback_stops_whoever_reads(kind):
    def stops(x):
        raise kind

    x = lnp.asarray(X)
    y = lm.pure_callback(stops, F3, x)
    z = x + 1
    with pytest.raises(kind):
        np.asarray(z)
    np.testing.assert_array_equal(np.asarray(z), X + 1)
    with pytest.raises(kind):
        lm.jit(lambda x: lm.pure_callback(stops, F3, x))(x)
    del y


def test_recording_goes_on_beside_a_value_that_fails_but_not_from_it():
    x = lnp.asarray(X)
    y, total = lm.pure_callback(failing, F3, x), x
    for _ in range(9000):  # more than is recorded without computing
        total = total + 1
    np.testing.assert_array_equal(np.asarray(total), X + 9000)

    def goes_on(y):
        for _ in range(20000):
            y = y * 1.5

    with pytest.raises(LookupError, match="not here"):
        goes_on(y)
    assert float(lnp.ones(3).sum()) == 3.0


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.zeros(4, np.float32), r"returned shape \(4,\) as result 0 where \(3,\) was described"),
        (np.zeros(3, np.complex64), "returned complex64 as result 0 where float32 was described"),
        ((X, X), "another structure than was described"),
    ],
)
def test_results_must_be_as_described(returned, message):
    y = lm.pure_callback(lambda x: returned, lm.ShapeDtype((3,), "float32"), lnp.asarray(X))
    with pytest.raises(ValueError, match=message) as caught:
        np.asarray(y)
    assert isinstance(caught.value, RuntimeError)  # as JAX has it


def test_results_may_be_in_another_container_than_described():
    described = (lm.ShapeDtype((), "float32"), lm.ShapeDtype((3,), "float32"))
    a, b = lm.pure_callback(lambda x: [x.sum(), x], described, lnp.asarray(X))
    assert float(a) == pytest.approx(float(X.sum())) and b.numpy().tolist() == X.tolist()


def test_a_description_needs_shape_and_dtype():
    with pytest.raises(TypeError, match="shape and dtype"):
        lm.pure_callback(np.sort, "float32", X)


@pytest.mark.parametrize(
    ("method", "shapes"),
    [
        ("sequential", [((3,), ())] * 4),
        ("sequential_unrolled", [((3,), ())] * 4),
        ("expand_dims", [((4, 3), (1,))]),
        ("broadcast_all", [((4, 3), (4,))]),
        ("legacy_vectorized", [((4, 3), ())]),
    ],
)
def test_vmap_by_the_method_that_is_asked_for(method, shapes):
    seen = []

    def f(x, y):
        seen.append((x.shape, y.shape))
        if method == "expand_dims":
            y = y.reshape(-1, 1)
        return x + (y[:, None] if method == "broadcast_all" else y)

    def g(x, y):
        return lm.pure_callback(f, lm.ShapeDtype((3,), "float32"), x, y, vmap_method=method)

    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    for h in (lm.vmap(g, (0, None)), lm.jit(lm.vmap(g, (0, None)))):
        seen.clear()
        np.testing.assert_array_equal(np.asarray(h(lnp.asarray(x), 5.0)), x + 5)
        assert seen == shapes


def test_methods_of_vmap_nest_and_have_names():
    seen = []

    def f(x, y):
        seen.append((x.shape, y.shape))
        return x * y

    def g(x, y):
        return lm.pure_callback(f, lm.ShapeDtype((), "float32"), x, y, vmap_method="expand_dims")

    x, y = np.arange(2, dtype=np.float32), np.arange(3, dtype=np.float32)
    out = lm.vmap(lm.vmap(g, (None, 0)), (0, None))(lnp.asarray(x), lnp.asarray(y))
    np.testing.assert_array_equal(np.asarray(out), np.outer(x, y))
    assert seen == [((2, 1), (1, 3))]
    seen.clear()
    lm.vmap(lambda a: lm.pure_callback(np.sin, lm.ShapeDtype((), "float32"), a, vectorized=True))(
        lnp.asarray(y)
    )
    with pytest.raises(ValueError, match="vmap_method is None or one of"):
        lm.pure_callback(np.sin, X, X, vmap_method="parallel")
    with pytest.raises(ValueError, match="vmap_method is 'sequential' or 'refuse'"):
        lm.io_callback(np.sin, X, X, vmap_method="parallel")


def test_callbacks_that_refuse_lanes():
    def pure(x):
        return lm.pure_callback(np.sin, lm.ShapeDtype((), "float32"), x, vmap_method="refuse")

    def effect(x):
        return lm.io_callback(np.sin, lm.ShapeDtype((), "float32"), x, vmap_method="refuse")

    for f, name in ((pure, "pure_callback"), (effect, "io_callback")):
        assert f(0.5).item() == lm.jit(f)(0.5).item() == np.sin(np.float32(0.5))
        for transformed in (lm.vmap(f), lm.jit(lm.vmap(f)), lm.vmap(lm.jit(f))):
            with pytest.raises(
                NotImplementedError, match=f"{name} with vmap_method='refuse' stands in a vmap"
            ):
                transformed(lnp.arange(3.0))


def test_a_callback_computes_outside_of_what_is_being_recorded():
    """A value asked for inside a vmap runs its callback, which is no part of the vmap."""
    out = lm.vmap(
        lambda x: (
            x
            + float(
                lm.pure_callback(lambda a: np.float32(float(lnp.sum(lnp.asarray(a)))), X[0], lnp.asarray(X))
            )
        )
    )(lnp.ones(2))
    np.testing.assert_array_equal(np.asarray(out), [7.0, 7.0])
