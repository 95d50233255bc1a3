"""Collectives over the axes that vmap names: JAX's values and derivatives, under any nesting."""

import functools
import threading
import types

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax

N = 4


def _spaces():
    jax = pytest.importorskip("jax")
    pytest.importorskip("jax.numpy")

    ours = types.SimpleNamespace(
        **{
            k: getattr(lm, k)
            for k in ("vmap", "grad", "jvp", "jit", "checkpoint", "custom_jvp", "custom_vjp")
        },
        lax=lax,
        numpy=lnp,
    )
    return jax, ours


GROUPS = [[0, 2], [3, 1]]
COLLECTIVES = {
    "psum": lambda m, x: m.lax.psum(x, "i"),
    "pmean": lambda m, x: m.lax.pmean(x, "i"),
    "pmax": lambda m, x: m.lax.pmax(x, "i"),
    "pmin": lambda m, x: m.lax.pmin(x, "i"),
    "ppermute": lambda m, x: m.lax.ppermute(x, "i", [(0, 1), (1, 2), (3, 0), (2, 3)]),
    "pshuffle": lambda m, x: m.lax.pshuffle(x, "i", [2, 0, 3, 1]),
    "all_gather": lambda m, x: m.lax.all_gather(x, "i"),
    "all_gather 1": lambda m, x: m.lax.all_gather(x, "i", axis=1),
    "all_gather tiled": lambda m, x: m.lax.all_gather(x, "i", axis=1, tiled=True),
    "all_to_all": lambda m, x: m.lax.all_to_all(x, "i", 0, 1),
    "all_to_all tiled": lambda m, x: m.lax.all_to_all(x, "i", 0, 1, tiled=True),
    "psum_scatter": lambda m, x: m.lax.psum_scatter(x, "i"),
    "psum_scatter tiled": lambda m, x: m.lax.psum_scatter(x, "i", scatter_dimension=0, tiled=True),
    "pswapaxes": lambda m, x: m.lax.pswapaxes(x, "i", 0),
    "axis_index": lambda m, x: x * m.lax.axis_index("i"),
    "sizes": lambda m, x: x * m.lax.axis_size("i") + m.lax.psum(2, "i"),
}


def _loss(m, f):
    return lambda x: m.numpy.sum(m.numpy.sin(f(m, m.numpy.cos(x))))


def _in_scan(m, f):
    def step(c, x):
        return c + m.numpy.sum(f(m, x * c)), f(m, x)

    return lambda x: m.lax.scan(step, m.numpy.float32(1.0), m.numpy.stack([x, 2 * x]))


def _in_while(m, f):
    def body(c):
        return c[0] + 1, m.numpy.sin(c[1]) + m.numpy.mean(f(m, c[1]))

    return lambda x: m.lax.while_loop(lambda c: c[0] < 3, body, (0, x))


def _in_cond(m, f):
    return lambda x: m.lax.cond(
        m.lax.axis_index("i") < 2, lambda y: m.numpy.sum(f(m, y)), lambda y: m.numpy.sum(y), x
    )


def _with_rule(m, f):
    @m.custom_vjp
    def g(x):
        return m.numpy.sum(f(m, x))

    g.defvjp(
        lambda x: (m.numpy.sum(f(m, x)), x),
        lambda x, ct: (ct * m.lax.psum(x, "i") * (1 + m.lax.axis_index("i")),),
    )
    return g


def _with_jvp_rule(m, f):
    @m.custom_jvp
    def g(x):
        return m.numpy.sum(f(m, x))

    g.defjvp(lambda p, t: (g(*p), m.numpy.sum(m.lax.psum(t[0], "i") * (1 + m.lax.axis_index("i")))))
    return g


# How a collective is called, on x of shape (N, N, 3); the axis "i" has N lanes.
TRANSFORMS = {
    "vmap": lambda m, f, x: m.vmap(lambda r: f(m, r), axis_name="i")(x),
    "vmap 1": lambda m, f, x: m.vmap(lambda r: f(m, r), 1, 1, axis_name="i")(x),
    "jit of vmap": lambda m, f, x: m.jit(m.vmap(lambda r: f(m, r), axis_name="i"))(x),
    "vmap of jit": lambda m, f, x: m.vmap(m.jit(lambda r: f(m, r)), axis_name="i")(x),
    "grad of vmap": lambda m, f, x: m.grad(lambda y: m.numpy.sum(m.vmap(_loss(m, f), axis_name="i")(y)))(x),
    "vmap of grad": lambda m, f, x: m.vmap(m.grad(_loss(m, f)), axis_name="i")(x),
    "vmap of grad of jit": lambda m, f, x: m.vmap(m.grad(m.jit(_loss(m, f))), axis_name="i")(x),
    "vmap of grad of checkpoint": lambda m, f, x: m.vmap(m.grad(m.checkpoint(_loss(m, f))), axis_name="i")(x),
    "jvp": lambda m, f, x: m.vmap(lambda r: m.jvp(lambda y: f(m, y), (r,), (m.numpy.cos(r),)), axis_name="i")(
        x
    ),
    "another axis inside": lambda m, f, x: m.vmap(m.vmap(lambda r: f(m, r), axis_name="j"), axis_name="i")(
        m.numpy.stack([x, x + 1], 1)
    ),
    "another axis outside": lambda m, f, x: m.vmap(m.vmap(lambda r: f(m, r), axis_name="i"), axis_name="j")(
        m.numpy.stack([x, x + 1])
    ),
    "hidden": lambda m, f, x: m.vmap(m.vmap(lambda r: f(m, r), axis_name="i"), axis_name="i")(
        m.numpy.stack([x, x + 1])
    ),
    "not batched": lambda m, f, x: m.vmap(lambda k: f(m, x[0]) * k, axis_name="i")(m.numpy.arange(4.0)),
    "scan": lambda m, f, x: m.vmap(_in_scan(m, f), axis_name="i")(x),
    "grad of scan": lambda m, f, x: m.vmap(m.grad(lambda r: _in_scan(m, f)(r)[0]), axis_name="i")(x),
    "while": lambda m, f, x: m.vmap(_in_while(m, f), axis_name="i")(x),
    "cond": lambda m, f, x: m.vmap(_in_cond(m, f), axis_name="i")(x),
    "grad of cond": lambda m, f, x: m.vmap(m.grad(_in_cond(m, f)), axis_name="i")(x),
    "vmap of grad of custom_vjp": lambda m, f, x: m.vmap(m.grad(_with_rule(m, f)), axis_name="i")(x),
    "grad of vmap of custom_vjp": lambda m, f, x: m.grad(
        lambda y: m.numpy.sum(m.vmap(_with_rule(m, f), axis_name="i")(y))
    )(x),
    "grad of vmap of custom_jvp": lambda m, f, x: m.grad(
        lambda y: m.numpy.sum(m.vmap(_with_jvp_rule(m, f), axis_name="i")(y))
    )(x),
}
# JAX has no derivative of these, and a wrong one of the last.
ONLY_OURS = {(t, c) for t in TRANSFORMS for c in ("pmax", "pmin") if "grad" in t or t == "jvp"}
ONLY_OURS |= {("vmap of grad", "all_to_all")}
# One of each kind; the others are alike in everything but what they exchange.
EVERYWHERE = ("psum", "all_gather tiled", "axis_index", "ppermute")


ALL = ("vmap", "vmap of grad", "grad of vmap")
CASES = [
    (t, c)
    for t in TRANSFORMS
    for c in COLLECTIVES
    if (t, c) not in ONLY_OURS and (t in ALL or c in EVERYWHERE)
]


def _input():
    return np.random.default_rng(1).normal(size=(N, N, 3)).astype(np.float32)


@functools.cache
def _of_jax(transform):
    """JAX's results of a transform of all collectives, from one program: one compilation for all of them."""
    theirs, _ = _spaces()

    @theirs.jit
    def every(x):
        return {c: TRANSFORMS[t](theirs, COLLECTIVES[c], x) for t, c in CASES if t == transform}

    return every(theirs.numpy.asarray(_input()))


@pytest.mark.parametrize(("transform", "collective"), CASES)
def test_values_and_derivatives_are_those_of_jax(transform, collective):
    theirs, ours = _spaces()
    want = theirs.tree.leaves(_of_jax(transform)[collective])
    got = lm.tree.tree_leaves(TRANSFORMS[transform](ours, COLLECTIVES[collective], lnp.asarray(_input())))
    assert len(want) == len(got)
    for w, g in zip(want, got):
        assert w.shape == g.shape and str(w.dtype) == str(g.dtype)
        np.testing.assert_allclose(np.asarray(g), np.asarray(w), rtol=2e-5, atol=2e-5)


def _lanes(f, x, **kwargs):
    return np.asarray(lm.vmap(f, axis_name="i", **kwargs)(lnp.asarray(x)))


@pytest.mark.parametrize("reduction", ["pmax", "pmin"])
def test_derivative_of_the_largest_is_shared(reduction):
    x = np.array([3.0, 1.0, 3.0, -2.0], np.float32)
    best = x.max() if reduction == "pmax" else x.min()
    for order in (
        lambda f: lm.vmap(lm.grad(f), axis_name="i"),
        lambda f: lm.grad(lambda y: lnp.sum(lm.vmap(f, axis_name="i")(y))),
    ):
        got = order(lambda r: getattr(lax, reduction)(r, "i"))(lnp.asarray(x))
        np.testing.assert_allclose(np.asarray(got), 4.0 * (x == best) / (x == best).sum())


@pytest.mark.parametrize(
    ("f", "matrix"),
    [
        (
            lambda x: lax.ppermute(x, "i", [(0, 1), (1, 2), (3, 0)]),
            np.eye(4)[[3, 0, 1, 0]] * [[1], [1], [1], [0]],
        ),
        (lambda x: lax.pbroadcast(x, "i", 2), np.eye(4)[[2, 2, 2, 2]]),
        (lambda x: lax.all_to_all(x, "i", 0, 0), None),
    ],
)
def test_linear_exchanges_and_their_transposes(f, matrix):
    """JAX refuses the first two under vmap, and transposes the third wrongly where the axes differ."""
    x = np.random.default_rng(4).normal(size=(4, 4, 2)).astype(np.float32)
    want = np.swapaxes(x, 0, 1) if matrix is None else np.tensordot(matrix, x, 1)
    np.testing.assert_allclose(_lanes(f, x), want, rtol=1e-6)
    back = lambda ct: ct.swapaxes(0, 1) if matrix is None else np.tensordot(matrix.T, ct, 1)  # noqa: E731
    pulled = lm.vmap(lambda r: lm.vjp(f, r)[1](r)[0], axis_name="i")(lnp.asarray(x))
    np.testing.assert_allclose(np.asarray(pulled), back(x), rtol=1e-6)
    (pulled,) = lm.vjp(lm.vmap(f, axis_name="i"), lnp.asarray(x))[1](lnp.asarray(x))
    np.testing.assert_allclose(np.asarray(pulled), back(x), rtol=1e-6)


GROUPED = {
    "psum": (lambda x: lax.psum(x, "i", axis_index_groups=GROUPS), lambda g, k: g.sum(0)),
    "pmean": (lambda x: lax.pmean(x, "i", axis_index_groups=GROUPS), lambda g, k: g.mean(0)),
    "pmax": (lambda x: lax.pmax(x, "i", axis_index_groups=GROUPS), lambda g, k: g.max(0)),
    "pmin": (lambda x: lax.pmin(x, "i", axis_index_groups=GROUPS), lambda g, k: g.min(0)),
    "all_gather": (lambda x: lax.all_gather(x, "i", axis_index_groups=GROUPS), lambda g, k: g),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "i", axis_index_groups=GROUPS), lambda g, k: g.sum(0)[k]),
    "all_to_all": (lambda x: lax.all_to_all(x, "i", 0, 0, axis_index_groups=GROUPS), lambda g, k: g[:, k]),
}


@pytest.mark.parametrize("name", GROUPED)
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_groups_of_lanes_are_by_themselves(name, dtype):
    x = np.random.default_rng(2).integers(-9, 9, (4, 2, 3)).astype(dtype)
    f, expected = GROUPED[name]
    got = _lanes(f, x)
    for group in GROUPS:
        for k, lane in enumerate(group):
            np.testing.assert_allclose(got[lane], expected(x[group], k), rtol=1e-6)
    if dtype == "float32" and name not in ("pmax", "pmin"):  # linear: <f(x), y> = <x, f'(y)>
        ours = lm.vmap(f, axis_name="i")
        y = np.random.default_rng(3).normal(size=got.shape).astype(np.float32)
        (back,) = lm.vjp(ours, lnp.asarray(x))[1](lnp.asarray(y))
        np.testing.assert_allclose(np.sum(np.asarray(back) * x), np.sum(y * got), rtol=1e-4)


def test_several_names_count_in_row_major_order():
    x = np.arange(2 * 3 * 6, dtype=np.float32).reshape(2, 3, 6)
    flat = x.reshape(6, 6)
    cases = {
        "index": (lambda r: lax.axis_index(("i", "j")), np.arange(6)),
        "size": (lambda r: r[0] * 0 + lax.axis_size(("i", "j")), np.full(6, 6)),
        "psum": (lambda r: lax.psum(r, ("i", "j")), np.tile(flat.sum(0), (6, 1))),
        "pmax": (lambda r: lax.pmax(r, ["j", "i"]), np.tile(flat.max(0), (6, 1))),
        "all_gather": (lambda r: lax.all_gather(r, ("i", "j")), np.tile(flat, (6, 1, 1))),
        "psum_scatter": (lambda r: lax.psum_scatter(r, ("i", "j")), flat.sum(0)),
        "tiled": (lambda r: lax.psum_scatter(r, ("i", "j"), tiled=True)[0], flat.sum(0)),
        "all_to_all": (lambda r: lax.all_to_all(r, ("i", "j"), 0, 0), flat.T),
        "ppermute": (
            lambda r: lax.ppermute(r, ("i", "j"), [(5, 0), (2, 4)]),
            np.stack([flat[5], 0 * flat[0], 0 * flat[0], 0 * flat[0], flat[2], 0 * flat[0]]),
        ),
        "pbroadcast": (lambda r: lax.pbroadcast(r, ("i", "j"), 4), np.tile(flat[4], (6, 1))),
    }
    for name, (f, want) in cases.items():
        got = np.asarray(lm.vmap(lm.vmap(f, axis_name="j"), axis_name="i")(lnp.asarray(x)))
        np.testing.assert_array_equal(got.reshape(np.shape(want)), want, err_msg=name)


def test_containers_numbers_and_booleans():
    def f(x):
        tree = lax.psum({"a": x, "b": (x > 1, 3)}, "i")
        assert type(lax.psum(1, "i")) is int and lax.psum(1, "i") == 3
        assert tree["b"][1] == 9 and tree["b"][0].dtype == "int32"
        return tree["a"] + tree["b"][0]

    np.testing.assert_array_equal(_lanes(f, np.arange(3.0)), [4.0] * 3)


def test_results_that_no_lane_owns_need_no_axis():
    out = lm.vmap(lambda x: (lax.psum(x, "i"), lax.all_gather(x, "i")), out_axes=None, axis_name="i")(
        lnp.arange(3.0)
    )
    assert float(out[0]) == 3.0 and out[1].shape == (3,)


def test_an_axis_of_a_size_alone_and_of_no_lanes():
    assert lm.vmap(lambda: lax.axis_index("i"), axis_name="i", axis_size=3)().tolist() == [0, 1, 2]
    assert lm.vmap(lambda x: lax.psum(x, "i"), axis_name="i")(lnp.zeros((0, 2))).shape == (0, 2)


def test_one_jitted_function_under_axes_of_one_name():
    traces = []

    @lm.jit
    def f(x):
        traces.append(1)
        return x - lax.pmean(x, "i") + lax.axis_index("i")

    for shift in (0.0, 5.0):  # the second call is served by the first's trace, on its own lanes
        x = np.array([1.0, 3.0], np.float32) + shift
        np.testing.assert_allclose(_lanes(f, x), [-1.0, 2.0])
    assert len(traces) == 1
    np.testing.assert_allclose(_lanes(f, np.array([1.0, 3.0, 5.0], np.float32)), [-2.0, 1.0, 4.0])
    assert len(traces) == 2
    with pytest.raises(NameError, match="unbound axis name: i"):
        f(lnp.float32(1.0))


@pytest.mark.parametrize("name", ["axis", ("a", 1), 7, None.__class__])
def test_names_are_hashable(name):
    if isinstance(name, tuple):
        with pytest.raises(NameError, match="unbound axis name: a"):
            _ = lm.vmap(lambda x: lax.psum(x, name), axis_name=name)(lnp.ones(2))
        return
    assert lm.vmap(lambda x: lax.psum(x, name), axis_name=name)(lnp.ones(2)).tolist() == [2.0, 2.0]


def test_an_unbound_name_says_what_is_bound():
    with pytest.raises(
        NameError, match=r"unbound axis name: k at .*test_named_axes.py:\d+; bound here: 'i' of size 2"
    ):
        lm.vmap(lambda x: lax.psum(x, "k"), axis_name="i")(lnp.ones(2))
    with pytest.raises(NameError, match="no vmap with an axis_name is open"):
        lax.axis_index("i")
    with pytest.raises(NameError):  # nothing stays bound behind a failure
        lax.axis_size("i")


def test_threads_have_their_own_axes():
    seen = []

    def other():
        try:
            lax.axis_size("i")
        except NameError:
            seen.append("unbound")

    def f(x):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return lax.psum(x, "i")

    assert _lanes(f, np.ones(2, np.float32)).tolist() == [2.0, 2.0]
    assert seen == ["unbound"]


@pytest.mark.parametrize(
    ("f", "error", "message"),
    [
        (lambda x: lax.ppermute(x, "i", [(0, 1), (0, 2)]), ValueError, "must be unique lanes of the 3"),
        (lambda x: lax.ppermute(x, "i", [(0, 3)]), ValueError, "must be unique lanes of the 3"),
        (lambda x: lax.pshuffle(x, "i", [0, 1]), ValueError, "needs a permutation of the 3 lanes"),
        (lambda x: lax.pbroadcast(x, "i", 3), ValueError, "there is no lane 3"),
        (lambda x: lax.psum_scatter(x, "i"), ValueError, "divides axis 0 of float32.4. among 3 lanes"),
        (lambda x: lax.all_to_all(x, "i", 0, 0, tiled=True), ValueError, "must be a multiple of that"),
        (lambda x: lax.all_gather(x, "i", axis=2), ValueError, "axis 2 is out of range"),
        (lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1]]), ValueError, "each of the 3 lanes"),
        (lambda x: lax.psum(x, "i", axis_index_groups=[[0, 1], [2]]), ValueError, "must be of one size"),
        (lambda x: lax.psum(x, ("i", "i"), axis_index_groups=[[0]]), ValueError, "is for one axis"),
        (lambda x: lax.axis_index([]), ValueError, "needs the name of an axis"),
        (lambda x: lax.psum(x, {}), TypeError, "an axis name is hashable"),
    ],
)
def test_what_does_not_fit_is_refused(f, error, message):
    with pytest.raises(error, match=message):
        lm.vmap(f, axis_name="i")(lnp.ones((3, 4)))


@pytest.mark.parametrize("kind", ["plain", "custom_jvp", "custom_vjp", "jit", "checkpoint"])
def test_what_no_lane_tells_apart_stays_so(kind):
    """A function of what is not mapped, whose result is that of all lanes together."""

    def f(x):
        return lax.psum(lnp.sin(x), "i")

    g = f
    if kind == "custom_jvp":
        g = lm.custom_jvp(f)
        g.defjvp(lambda p, t: (f(*p), lax.psum(lnp.cos(p[0]) * t[0], "i")))
    elif kind == "custom_vjp":
        g = lm.custom_vjp(f)
        g.defvjp(lambda x: (f(x), x), lambda x, ct: (lax.psum(lnp.cos(x) * ct, "i"),))
    elif kind != "plain":
        g = getattr(lm, kind)(f)

    def all_lanes(x):
        return lm.vmap(lambda _, x: g(x), (0, None), out_axes=None, axis_name="i", axis_size=4)(
            lnp.arange(4), x
        )

    np.testing.assert_allclose(np.asarray(all_lanes(2.0)), 4 * np.sin(2.0), rtol=1e-6)
    if kind != "custom_vjp":
        np.testing.assert_allclose(
            np.asarray(lm.jvp(all_lanes, (2.0,), (1.0,))[1]), 4 * np.cos(2.0), rtol=1e-6
        )
        np.testing.assert_allclose(np.asarray(lm.grad(all_lanes)(2.0)), 4 * np.cos(2.0), rtol=1e-6)
