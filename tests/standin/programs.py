"""Small programs written for JAX. Run with ``lamina``: on the stand-in, else on JAX; prints JSON."""

import functools
import json
import sys

if sys.argv[1:] == ["lamina"]:
    import lamina_as_jax

    lamina_as_jax.install()

import jax
import jax.custom_batching
import jax.flatten_util
import jax.numpy as jnp
import jax.scipy.special
import jax.scipy.stats
import numpy as np
import typed_programs
from jax import export, lax
from jax.custom_derivatives import linear_call
from jax.example_libraries import optimizers, stax
from jax.experimental import checkify, sparse
from jax.extend import core, linear_util
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe
from jax.scipy.spatial.transform import Rotation
from typed_programs import raises


def linear_regression():
    x = jax.random.normal(jax.random.PRNGKey(0), (64, 3))
    y = x @ jnp.array([1.0, -2.0, 0.5]) + 0.25

    def loss(params):
        return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)

    @jax.jit
    def step(params):
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params))

    params = {"w": np.zeros(3), "b": 0.0}
    for _ in range(100):
        params = step(params)
    return [params["w"], params["b"]]


def newton():
    def body(carry):
        x, i = carry
        return x - (x**3 - 2) / (3 * x**2), i + 1

    return lax.while_loop(lambda c: jnp.abs(c[0] ** 3 - 2) > 1e-5, body, (1.0, 0))


def pendulum():
    def step(state, _):
        angle, speed = state
        speed = speed - 0.01 * jnp.sin(angle)
        return (angle + 0.01 * speed, speed), angle

    return lax.scan(step, (1.0, 0.0), None, length=50)


def derivatives_by_integers():
    grads = jax.grad(lambda x, n: x**n, (0, 1), allow_int=True)(2.0, 3)
    return [grads[0], grads[1].dtype == jax.dtypes.float0]


def own_derivatives():
    @jax.custom_vjp
    def f(x):
        return jnp.sin(x)

    f.defvjp(lambda x: (f(x), x), lambda x, g: (3 * g * jnp.cos(x),))

    @jax.custom_jvp
    def g(x):
        return jnp.exp(x)

    g.defjvps(lambda t, out, x: 2 * t * out)
    return [jax.grad(f)(0.5), jax.grad(g)(0.5), jax.grad(jax.grad(f))(0.5), jax.jacfwd(g)(0.5)]


def lanes_that_branch():
    return jax.vmap(lambda x: lax.cond(x > 0, jnp.sqrt, lambda v: v * 0, x))(jnp.array([-1.0, 4.0, 9.0]))


class Counter:
    def __init__(self, start):
        self.start = start

    @functools.partial(jax.jit, static_argnums=0)
    def plus(self, x):
        return x + self.start


def methods():
    return [
        Counter(2).plus(np.float64(1.5)),
        jax.jit(lambda x, n: x.reshape(n), static_argnums=1)(np.ones(4), (2, 2)),
    ]


def jacobians():
    def f(x):
        return jnp.stack([x[0] * x[1], jnp.sin(x[1])])

    out, pull = jax.vjp(f, np.array([1.0, 2.0]))
    return [jax.jacfwd(f)(np.array([1.0, 2.0])), jax.jacrev(f)(jnp.array([1.0, 2.0])), out, pull(np.ones(2))]


def scattered():
    x = jnp.zeros((3, 2)).at[jnp.array([0, 2])].add(np.array([[1.0, 2.0], [3.0, 4.0]]))
    return [x, jnp.linalg.norm(x), jax.scipy.special.logsumexp(x), jnp.fft.rfft(x[:, 0]).real]


def containers():
    leaves, treedef = jax.tree_util.tree_flatten({"b": (1, [2.0]), "a": None})
    flat, back = jax.flatten_util.ravel_pytree({"u": jnp.ones(2), "v": jnp.zeros(())})
    paths = bool(int | jax.tree_util.KeyPath)  # a type, as annotations take it
    return [leaves, treedef.num_leaves, flat, back(flat * 2)["u"], paths]


def random_numbers():
    key = jax.random.PRNGKey(7)
    a, b = jax.random.split(key)
    return [jax.random.uniform(a, (3,)), jax.random.randint(b, (3,), 0, 100), jax.random.permutation(key, 5)]


def a_primitive_of_our_own():
    cube_p = core.Primitive("cube")
    cube_p.def_impl(lambda x, *, scale: scale * x**3)
    cube_p.def_abstract_eval(lambda x, *, scale: jax.core.ShapedArray(x.shape, x.dtype))
    mlir.register_lowering(cube_p, mlir.lower_fun(lambda x, *, scale: scale * x**3, multiple_results=False))

    def jvp(primals, tangents, *, scale):
        (x,), (t,) = primals, tangents
        return cube_p.bind(x, scale=scale), ad.instantiate_zeros(
            t
        ) * 5 * scale * x**2  # 5, to be told from the body's

    ad.primitive_jvps[cube_p] = jvp
    batching.primitive_batchers[cube_p] = lambda x, axes, *, scale: (cube_p.bind(x[0], scale=scale), axes[0])
    f = functools.partial(cube_p.bind, scale=2.0)
    x = jnp.arange(3.0)
    out = [
        f(2.0),
        jax.jit(f)(2.0),
        jax.grad(f)(2.0),
        jax.vmap(f)(x),
        jax.vmap(jax.grad(f))(x),
        jax.jvp(f, (x,), (x,))[1],
    ]
    del batching.primitive_batchers[cube_p], ad.primitive_jvps[cube_p]
    for transform, given in ((jax.grad, 2.0), (jax.vmap, x)):
        try:
            transform(f)(given)
        except NotImplementedError as e:
            out.append("cube" in str(e))
    return out


def a_linear_primitive():
    twice_p = core.Primitive("twice")
    twice_p.multiple_results = True
    impl = lambda x, y: [x + x, y + y]  # noqa: E731
    twice_p.def_impl(impl)
    twice_p.def_abstract_eval(lambda x, y: [x, y])
    mlir.register_lowering(twice_p, mlir.lower_fun(impl, multiple_results=True))
    ad.primitive_jvps[twice_p] = lambda primals, tangents: (
        twice_p.bind(*primals),
        [
            ad.Zero(jax.typeof(p).to_tangent_aval()) if type(t) is ad.Zero else twice_p.bind(t, t)[0]
            for p, t in zip(primals, tangents)
        ],
    )

    def transpose(cotangents, x, y):
        assert ad.is_undefined_primal(x) and ad.is_undefined_primal(y)
        total = sum(7 * ad.instantiate_zeros(c) for c in cotangents)
        return [total, None]

    ad.primitive_transposes[twice_p] = transpose
    return [
        jax.grad(lambda x: twice_p.bind(x, 3.0)[0])(1.0),
        jax.jvp(lambda x: twice_p.bind(x, 3.0), (1.0,), (1.0,)),
    ]


def functions_on_flat_lists():
    @linear_util.transformation_with_aux
    def doubled(extra, *args):
        out = yield [2 * a for a in args], {}
        yield [o + extra for o in out], len(out)

    f, structure = jax.api_util.flatten_fun_nokwargs(
        linear_util.wrap_init(lambda d: {"s": d["a"] + d["b"], "p": d["a"] * d["b"]},
                              debug_info=jax.api_util.debug_info("test", None, ({},), {})),
        jax.tree_util.tree_structure(({"a": 0, "b": 0},)),
    )  # fmt: skip
    f, count = doubled(f, 1.0)
    leaves = f.call_wrapped(2.0, 3.0)
    return [jax.tree_util.tree_unflatten(structure(), leaves)["s"], leaves, count()]


def what_is_known():
    wrapped = linear_util.wrap_init(
        lambda x, y: [x + 1, jnp.ones(2) * 3, y * 2, jax.random.uniform(jax.random.PRNGKey(0))],
        debug_info=jax.api_util.debug_info("test", None, (0, 0), {}),
    )
    unknown = pe.PartialVal.unknown(jax.core.ShapedArray((), jnp.float32))
    with jax.checking_leaks():
        _, out, _ = pe.trace_to_jaxpr_nounits(wrapped, [unknown, pe.PartialVal.known(jnp.float32(4))])
    known = [value for aval, value in out if aval is None]
    return [[aval is None for aval, _ in out], known, [jnp.asarray(known[0]) + 1, jnp.sin(known[-1])]]


def typed_keys():
    key = jax.random.key(7)
    keys = jax.random.split(key, 4)
    state = {"key": key, "n": 0}
    mapped = jax.tree.map(jnp.shape, state)

    def step(state, k):
        return {"key": jax.random.fold_in(state["key"], state["n"]), "n": state["n"] + 1}, jax.random.uniform(
            k
        )

    last, drawn = lax.scan(step, state, keys)
    return [
        [
            jnp.issubdtype(keys.dtype, jax.dtypes.prng_key),
            isinstance(key, jax.Array),
            str(key.dtype),
            key.ndim,
        ],
        [
            mapped["key"] == (),
            keys.shape,
            keys[1:3].reshape(2, 1).shape,
            jnp.stack([key, key]).shape,
            len(keys),
        ],
        [jax.random.key_data(last["key"]), drawn, jax.vmap(jax.random.normal)(keys)],
        jax.random.key_data(jax.random.wrap_key_data(jax.random.key_data(keys)))[2],
        jax.jit(jax.random.bits)(keys[0]),
    ]


def rules_of_types_alone():
    @jax.custom_vjp
    def f(x, n):
        return jnp.sin(x) * n

    def forward(x, n):
        marks = jax.tree_util.tree_map(lambda p: p.perturbed, (x, n))
        assert jax.tree_util.tree_leaves(x) == [x]
        assert marks == (True, False)
        return f(x.value, n.value), x.value

    def backward(x, g):
        return (g * jnp.cos(x) * 3, jax.custom_derivatives.SymbolicZero(jax.typeof(x).to_tangent_aval()))

    f.defvjp(forward, backward, symbolic_zeros=True)
    described = jax.eval_shape(lambda x: (x, jax.ShapeDtypeStruct((2, 3), jnp.float32)), 1)
    return [
        jax.grad(f)(0.5, 2.0),
        [described[1].shape, str(described[0].dtype)],
        [jnp.shape(described[1]), str(jnp.result_type(described[1], 1.0)), jnp.size(described[1])],
        [str(jnp.arange(3)), f"{jnp.arange(3)} {jnp.float32(1.5)} {jnp.float32(1.5):.2f}"],
    ]


def layers():
    init, apply = stax.serial(
        stax.Conv(4, (3, 3)),
        stax.Relu,
        stax.ConvTranspose(3, (2, 2)),
        stax.MaxPool((2, 2)),
        stax.Flatten,
        stax.Dense(5),
        stax.LogSoftmax,
    )
    shape, params = init(jax.random.key(1), (2, 8, 8, 1))
    return [list(shape), jax.tree_util.tree_leaves(params), apply(params, jnp.ones((2, 8, 8, 1)))]


def refusals_of_indices_and_dimensions():
    x = jnp.arange(6).reshape(3, 2)
    first = lax.GatherDimensionNumbers((1,), (0,), (0,))
    unsorted = lax.GatherDimensionNumbers((2, 1), (0,), (0,))
    into = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    index = np.zeros((4, 1), np.int32)
    calls = [
        lambda: x[[0, 1]],
        lambda: x[[0, None]],
        lambda: x.at[[0]].get(),
        lambda: x["a"],
        lambda: x[0.5],
        lambda: x[0, 0, 0],
        lambda: x[np.array([True, False])],
        lambda: lax.gather(x, index, first, (1, 2)),
        lambda: lax.gather(x, index, unsorted, (1, 2)),
        lambda: lax.gather(x, index, first, (2, 2)),
        lambda: lax.gather(x, index[:, :0], first, (1, 2)),
        lambda: lax.gather(x, index, lax.GatherDimensionNumbers((1,), (0,), (4,)), (1, 2)),
        lambda: lax.scatter(x, index, jnp.ones((4, 2), int), into),
        lambda: lax.scatter_add(x, index, jnp.ones((4, 3), int), into),
        lambda: lax.scatter(x, index, jnp.ones((3, 2), int), into),
        lambda: lax.scatter(x, index, jnp.ones((4, 2, 1), int), into),
        lambda: lax.broadcast_in_dim(jnp.ones(2), (3,), (0,)),
        lambda: jnp.ones((-1, 1)),
    ]

    def refused(f, kind):
        try:
            return list(np.shape(f()))
        except kind as e:
            return " ".join(str(e).split()[:4])

    return [refused(f, IndexError if 5 <= i < 7 else TypeError) for i, f in enumerate(calls)]


def what_the_array_api_asks():
    info = jnp.__array_namespace_info__()
    return [
        sorted(info.capabilities().items(), key=str),
        info.default_device() is None,
        {k: str(v) for k, v in info.default_dtypes().items()}
        == {
            "real floating": "float32",
            "complex floating": "complex64",
            "integral": "int32",
            "indexing": "int32",
        },
        sorted(info.dtypes(kind=("integral", "bool"))),
        None in info.devices(),
    ]


def numpys_functions_of_arrays():
    x = jnp.array([1.0, 4.0])
    made = [
        np.sqrt(x),
        np.isfinite(x),
        np.add(x, x),
        np.all(np.isfinite(x)),
        np.sum(x),
        np.swapaxes(x[None], 0, 1),
        np.lexsort(x[None]),
        np.arange(2.0, dtype="float32") * x,
        np.arange(2.0, dtype="float32") < x,
        np.float32(2) * x,
        np.stack([x, x]),
    ]
    np.testing.assert_equal(np.all(np.isfinite(x)), True)
    return [[isinstance(m, jax.Array), np.asarray(m).tolist()] for m in made]


def sparse_arrays():
    dense = jnp.array([[0.0, 1.0, 0.0], [2.0, 0.0, 3.0]])
    m = sparse.BCOO.fromdense(dense)
    rows, columns = sparse.BCSR.fromdense(dense), sparse.CSC.fromdense(dense)
    slope = sparse.grad(lambda x: ((x @ jnp.ones(3)) ** 2).sum())(m)
    out = [
        m.T,
        (m * 2 - m).sum_duplicates(),
        m.sum(0),
        m[:, 1:],
        m @ m.T,
        slope,
        rows,
        columns.T,
        sparse.sparsify(jnp.sin)(m),
    ]
    batches = jax.vmap(lambda x: x.sum())(sparse.BCOO.fromdense(dense, n_batch=1))
    shown = [repr(m), str(m.indices.dtype), isinstance(m, sparse.JAXSparse), jax.tree.leaves(m), batches]
    return [[x.nse, x.todense()] for x in out] + shown + [jax.jit(lambda x, y: x @ y)(m, dense.T)]


def exported_programs():
    x = jnp.arange(6.0).reshape(2, 3)
    made = export.export(jax.jit(lambda v, *, w: {"sin": jnp.sin(v) * w["k"], "none": None}))(x, w={"k": x})
    slope = jax.grad(lambda v: made.call(v, w={"k": x})["sin"].sum())
    wrong = [
        raises(lambda: made.call(x[0], w={"k": x}), ValueError),
        raises(lambda: made.call(x.astype(int), w={"k": x}), ValueError),
        raises(lambda: made.call(x, x), ValueError),
        raises(lambda: export.export(lambda v: v), ValueError),
    ]
    one = export.export(jax.jit(jnp.sin), platforms=["cpu"])(jax.ShapeDtypeStruct((3,), "float32"))
    told = [
        one.platforms[0],
        one.nr_devices,
        str(one.in_avals[0]),
        str(one.out_tree),
        "stablehlo.sine" in one.mlir_module(),
    ]
    return [
        made.call(x, w={"k": x})["sin"],
        slope(x),
        wrong,
        told,
        one.vjp().call(x[0], x[1])[0],
        jax.jit(one.call)(x[1]),
    ]


def loops_without_jit():
    seen = []

    def step(c, v):
        seen.append(float(c))
        return c + v, c * v

    with jax.disable_jit():
        out = jax.lax.scan(step, 0.0, jnp.arange(3.0))
        branch = jax.lax.cond(True, lambda v: float(v), lambda v: 2.0, jnp.ones(()))
        last = jax.lax.while_loop(lambda c: float(c) < 3, lambda c: c + 1, 0)
    return [seen, float(out[0]), out[1], float(branch), int(last)]


def arrays_of_keys():
    k = jax.random.key(7)
    many = jax.random.split(k, 3)
    arrays = [
        jnp.array([k, k]),
        jnp.full((2,), k),
        lax.slice(many, (1,), (3,)),
        lax.dynamic_slice(many, (1,), (1,)),
        lax.concatenate([many, many], 0),
    ]
    density = jax.scipy.stats.gaussian_kde(jnp.arange(5.0))
    drawn = density.resample(k, (2,))
    return [[str(a.dtype), list(a.shape), jax.random.key_data(a)] for a in arrays] + [drawn]


def containers_of_rotations():
    turns = Rotation.from_rotvec(jnp.array([[0.1, 0.2, 0.3], [0.0, 0.5, 0.0]]))
    back = jax.jit(lambda r: r.inv())(turns)
    return [back.as_quat(), len(jax.tree.leaves(turns))]


def texts_of_places():
    mesh = jax.make_mesh((1,), ("i",))
    spec = jax.sharding.PartitionSpec(("i",), None)
    placed = jax.sharding.NamedSharding(mesh, spec)
    x = jnp.arange(3.0)
    shown = [mesh, spec, jax.sharding.PartitionSpec(), placed, x.sharding, x.addressable_shards[0]]
    told = [jax.sharding.AbstractMesh((2,), ("a",)), jax.typeof(x), jax.typeof(1.0), jax.devices()[0]]
    return [repr(s) for s in shown + told] + [str(s) for s in [mesh, *told]]


def what_stays_as_it_is():
    x = jnp.arange(3.0)

    def write():
        x[0] = 5.0

    with jax.enable_x64(True):
        wide = jnp.ones(2)
    return [raises(write, TypeError), x, str(jax.jit(lambda v: v)(wide).dtype)]


def what_shard_map_refuses():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("i",))
    P = jax.sharding.PartitionSpec

    def call(in_specs, out_specs, *args):
        return raises(
            lambda: jax.shard_map(lambda x: x, mesh=mesh, in_specs=in_specs, out_specs=out_specs)(*args),
            ValueError,
        )

    x = jnp.arange(4.0)
    return [
        call(P("i"), P("i"), x),
        call(P("j"), P("i"), x),
        call(P("i", None), P("i"), x),
        call(P("i"), (P("i"), P("i")), x),
        call((P("i"), P("i")), P("i"), x),
    ]


def texts_of_arrays():
    values = np.linspace(-40, 40, 60) ** 3 / 7
    shapes = [(), (1,), (7,), (9,), (3, 5), (2, 2, 2), (0, 3), (30, 40)]
    arrays = [
        jnp.asarray(np.resize(values, s), t)
        for s in shapes
        for t in ("float32", "int32", "bfloat16", "complex64")
    ]
    weak = [jnp.asarray(1), jnp.asarray(2.5) * 2]
    return [repr(a) for a in arrays + weak] + [str(a) for a in arrays]


def slices_out_of_range():
    numbers = lax.GatherDimensionNumbers((1,), (0,), (0,))
    x, at = jnp.arange(6.0).reshape(3, 2), jnp.array([[1], [9], [-1]])
    return [lax.gather(x, at, numbers, (1, 2), mode=m) for m in (None, "clip", "fill")]


def hints_and_shapes():
    x, four = jnp.arange(6.0).reshape(2, 3), jnp.array([1, 2, 2**32 - 1, 5], dtype="uint32")
    numbers = ("NHWC", "HWIO", "NHWC")
    shapes = [
        lax.conv_general_shape_tuple((2, 7, 6, 3), (3, 2, 3, 4), (2, 2), "SAME", numbers),
        lax.conv_transpose_shape_tuple((2, 7, 6, 3), (3, 2, 3, 4), (2, 2), "SAME", numbers),
        lax.conv_shape_tuple((2, 3, 7, 6), (4, 3, 3, 2), (2, 1), [(1, 1), (0, 0)]),
        lax.reduce_window_shape_tuple((5, 7), (2, 3), (1, 2), ((0, 1), (1, 0))),
    ]
    fwd, bwd = jax.fwd_and_bwd(lambda v, w: v * w, (0, 1))
    named = lax.composite(lambda v, k=1: v * k, "a.b")
    return [
        [int(n) for s in shapes for n in s],
        lax.conv_general_permutations(numbers),
        lax.rng_bit_generator(four, (9,)),
        lax.rng_bit_generator(four, (3, 5), dtype="uint8"),
        lax.dot(x, x.T, precision=lax.DotAlgorithmPreset.F32_F32_F32),
        bwd(fwd(x, x + 1)[1], x),
        named(x, k=3),
    ]


def checks_as_part_of_a_result():
    x = jnp.array([2.0, -1.0, 0.0])

    def of_user(v):
        checkify.check(jnp.all(v > 0), "{v} is not positive", v=v)
        return v

    @jax.custom_vjp
    def with_rule(v):
        checkify.check(v > 0, "not positive")
        return jnp.log(v)

    with_rule.defvjp(lambda v: (with_rule(v), v), lambda v, g: (g / v,))
    programs = [
        (of_user, x),
        (jax.vmap(with_rule), x),
        (jnp.log, x),
        (lambda v: v / v, x),
        (lambda v: v[jnp.array([0, 7])], x),
        (lambda v: lax.dynamic_slice(v, (2,), (2,)), x),
        (lambda v: jnp.maximum(-v, 0).astype(jnp.float16), jnp.array([jnp.nan])),
        (jnp.sum, jnp.array([jnp.inf, -jnp.inf])),
    ]
    found = [checkify.checkify(f, errors=checkify.all_checks)(v)[0].get() for f, v in programs]
    lanes = jax.vmap(checkify.checkify(jnp.log, errors=checkify.nan_checks))(x)[0].get()
    refused = [
        raises(lambda: checkify.check(3, "of a number"), TypeError),
        raises(lambda: checkify.check(x > 0, "of an array"), TypeError),
        raises(lambda: jax.jit(of_user)(x), ValueError),
        raises(lambda: of_user(x), checkify.JaxRuntimeError),
    ]
    return [str(text) for text in [*found, lanes]] + refused


def rules_of_functions_with_integers():
    @jax.custom_vjp
    def counted(x, n):
        return {"y": jnp.sin(x) * n, "n": n + 1, "none": None}

    def back(kept, g):
        assert jax.tree.structure(g) == jax.tree.structure({"y": 0.0, "n": 0, "none": None})
        return g["y"] * jnp.cos(kept), g["n"]

    counted.defvjp(lambda x, n: (counted(x, n), x * n), back)
    slope = lambda x, n: jax.grad(lambda x: counted(x, n)["y"])(x)  # noqa: E731
    lanes = jax.vmap(slope, (0, None))(jnp.array([0.5, 1.0]), 3)
    return [slope(0.5, jnp.int32(2)), jax.jit(slope)(0.5, 2), lanes]


def rows_taken_out_of_range():
    at = jnp.array([1, 7, -1, -9])
    return [jnp.nan_to_num(jnp.take(jnp.arange(6.0).reshape(3, 2), at, axis=0), nan=-1), jnp.take(at, at)]


def keys_of_other_generators():
    key, few = jax.random.key(7, impl="unsafe_rbg"), jax.random.key(3)
    keys = [jax.random.split(key), jax.random.split(key, (2, 3)), jax.random.fold_in(key, 5)]
    described = jax.ShapeDtypeStruct((2,), few.dtype)
    with jax.threefry_partitionable(False):
        by_halves = [jax.random.key_data(jax.random.split(few, 3)), jax.random.bits(few, (5,), "uint8")]
        by_halves += [jax.random.normal(few, (2, 3)), jax.random.permutation(few, 7)]
    return [
        [*by_halves, jax.random.bits(few, (2,))],
        [jax.random.key_data(k) for k in keys],
        repr(described),
        jax.eval_shape(jax.random.split, jax.ShapeDtypeStruct((), few.dtype)).shape,
        bool(jnp.array_equal(few, jax.random.key(3))),
        bool(jnp.array_equal(few, jax.random.key(4))),
        jax.random.key_data(jax.random.split(few, (2, 2)).flatten()),
        raises(lambda: jax.random.uniform(jax.random.split(few)), ValueError),
        raises(lambda: jax.random.uniform(few, (2,), int), ValueError),
        raises(lambda: bool(few), TypeError),
        raises(lambda: few.astype("uint32"), NotImplementedError),
    ]


def random_sparse_arrays():
    key = jax.random.key(0)
    made = [
        sparse.random_bcoo(key, (3, 4), nse=0.5),
        sparse.random_bcoo(key, (3, 4), nse=2, n_batch=1, sorted_indices=True),
        sparse.random_bcoo(key, (3, 4, 2), nse=3, n_dense=1, unique_indices=False),
    ]
    return [[m.data, m.indices] for m in made]


def places_of_arrays():
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("a",))
    P = jax.P
    by_a = jax.NamedSharding(mesh, P("a"))
    doubled = jax.jit(lambda x: (x * 2, x.sum()), out_shardings=(by_a, None))(jnp.ones(4))
    with mesh:
        inside = lax.with_sharding_constraint(jnp.ones(2), P("a"))
    specs = [P("a") + P("b"), P(("a", "b"), None), P(P.UNCONSTRAINED), P(None, unreduced={"a"}), P()]
    return [
        doubled[0].sharding == by_a,
        inside,
        [repr(s) for s in specs],
        isinstance(P(), tuple),
        P("a") == ("a",),
        [mesh.abstract_mesh.axis_names == ("a",), jnp.ones(3).on_device_size_in_bytes()],
        raises(lambda: lax.with_sharding_constraint(jnp.ones(2), P("a")), RuntimeError),
        raises(lambda: jax.device_put(jnp.float32(1), by_a), ValueError),
        raises(lambda: jax.NamedSharding(mesh, P("b")), ValueError),
        raises(lambda: jnp.ones(2).flat, NotImplementedError),
        raises(jax.profiler.stop_trace, RuntimeError),
        raises(lambda: jax.config.update("jax_none", 1), AttributeError),
        raises(lambda: jax.config.update("jax_default_matmul_precision", "none"), ValueError),
    ]


def linear_functions_with_transposes():
    def scaled(x):
        return linear_call(lambda r, v: r * v.sum(), lambda r, ct: 7 * r * ct * jnp.ones(3), 2.0, x)

    x = jnp.arange(3.0)
    return [scaled(x), jax.grad(scaled)(x), jax.jvp(scaled, (x,), (x,))]


def refusals_of_loops_and_branches():
    x = jnp.arange(3.0)
    return [
        _message(lambda: lax.cond(x > 0, lambda: 1, lambda: 2))[:25],
        _message(lambda: lax.switch(1.0, [lambda: 1, lambda: 2]))[:25],
        _message(lambda: lax.scan(lambda c, y: (c, y), 0, None)),
        _message(lambda: lax.scan(lambda c, y: (c, y), 0, (x, jnp.ones(4)))),
        str(jax.new_ref(x).aval),
        repr(jax.new_ref(x)),
    ]


def _message(f):
    try:
        f()
    except Exception as e:
        return str(e).split("\n")[0]
    return ""


def traces_as_text():
    x = jnp.arange(3.0)
    traces = [
        jax.make_jaxpr(lambda v: jnp.sin(v) + 1.0)(1.0),
        jax.make_jaxpr(lambda v, w: jnp.sin(v) * jnp.cos(w) + jnp.tanh(v) - w)(x, x),
        jax.make_jaxpr(lambda v: (v, {"k": v}))(x),
        jax.make_jaxpr(lambda v: v + x)(x),
    ]
    avals = [str(v) for t in traces for v in (*t.in_avals, *t.out_avals)]
    compiled = jax.jit(lambda v: v * 2).lower(x).compile()
    return [
        [str(t) for t in traces],
        avals,
        str(jax.make_jaxpr(jnp.sin, return_shape=True)(x)[1]),
        [len(compiled.input_shardings[0]), str(compiled.output_shardings)],
        len(traces[0].eqns[0].effects),
    ]


def paths_of_einsums():
    a, b, c = (jnp.ones(s) for s in ((3, 4), (4, 5), (5, 2)))
    path = jnp.einsum_path("ij,jk,kl->il", a, b, c)[0]
    return [list(map(list, path)), jnp.einsum("ij,jk->ik", a, b, _dot_general=lax.dot_general)]


def options_that_are_set():
    as_plain = jax.jit(lambda x: float(x) + 1)
    jax.config.update("jax_disable_jit", True)
    plain_calls = [jax.config.jax_disable_jit, as_plain(jnp.float32(1.0))]
    jax.config.update("jax_disable_jit", False)
    jitted = [jax.config.jax_disable_jit, raises(lambda: as_plain(jnp.float32(1.0)), TypeError)]
    jax.config.update("jax_random_seed_offset", 5)
    keys = [jax.random.PRNGKey(0), jax.random.key_data(jax.random.key(-3)), jax.jit(jax.random.PRNGKey)(1)]
    jax.config.update("jax_random_seed_offset", 0)
    keys.append(jax.jit(jax.random.PRNGKey)(1))
    with jax.enable_custom_prng(True):
        typed = jnp.issubdtype(jax.random.PRNGKey(0).dtype, jax.dtypes.prng_key)
    jax.config.update("jax_default_device", jax.devices()[0])
    jax.config.update("jax_default_device", None)
    return [plain_calls, jitted, keys, typed]


def arguments_that_say_nothing_new():
    taken = [jax.linear_transpose(lambda x: 2 * x, 1.0, reduce_axes=())(3.0)]
    taken += [lax.full((2,), 1.0, sharding=None), lax.full_like(jnp.ones(2), 3.0, sharding=None)]
    hinted = [n for n in ("PrecisionLike", "ConvGeneralDilatedDimensionNumbers") if hasattr(lax, n)]
    added = jax.custom_batching.custom_vmap(lambda x, y: x + y)
    added.def_vmap(lambda size, batched, x, y: (x + y, True))
    return [taken, hinted, added(1.0, 2.0).shape, added(1.0, 2.0)]


def optimizers_of_numbers():
    out = []
    for make in (optimizers.sgd, optimizers.adam, optimizers.adamax, optimizers.rmsprop):
        init, update, get = make(0.1)
        state = init({"a": 1.0, "b": jnp.ones(2)})
        for i in range(3):
            state = update(i, {"a": 0.5, "b": jnp.arange(2.0)}, state)
        out.append([jnp.round(x, 5) for x in jax.tree.leaves(get(state))])
    return out


def small_corners():
    seen = []
    jax.jit(
        lambda x: jax.debug.callback(
            lambda v, k: seen.append([isinstance(a, jax.Array) for a in (v, k)]), x, k=2 * x
        )
    )(jnp.ones(3))
    jax.effects_barrier()
    drawn = lax.rng_uniform(jnp.int32(2), jnp.int32(9), (50,))
    # Of what else is mapped over only the structure of the first is looked at.
    mixed = jax.tree.map(lambda a, b: a + b[("z", 1)], {"a": 1}, {"a": {"s": 0, ("z", 1): 2}})["a"]
    relus = [jax.nn.relu, jax.nn.relu6]
    return [
        seen,
        [
            str(drawn.dtype),
            bool(jnp.all((drawn >= 2) & (drawn < 9))),
            lax.rng_uniform(0.0, 1.0, (2, 3)).shape,
        ],
        [raises(lambda: lax.rng_uniform(jnp.zeros(2), jnp.ones(2), (3,)), ValueError)],
        mixed,
        [[jax.grad(f)(v) for v in (jnp.nan, 0.0, 1.0)] for f in relus],
        [bool(jnp.isnan(f(jnp.nan))) for f in relus],
        [
            jax.random.PRNGKey(True),
            lax.GatherScatterMode.from_any("one_hot") == lax.GatherScatterMode.ONE_HOT,
        ],
        [lax.GatherScatterMode.from_any(None) == lax.GatherScatterMode.FILL_OR_DROP],
        [
            raises(lambda f=f: jax.linear_transpose(f, 1.0)(1.0), NotImplementedError)
            for f in (jnp.sin, jnp.floor)
        ],
    ]


PROGRAMS = [
    f
    for module in (sys.modules[__name__], typed_programs)
    for f in list(vars(module).values())
    if callable(f)
    and f is not raises
    and getattr(f, "__module__", "") == module.__name__
    and f.__name__[0] != "_"
]


def plain(x):
    if isinstance(x, (list, tuple)):
        return [plain(v) for v in x]
    return x if isinstance(x, (bool, int, float, str)) else np.asarray(x).tolist()


if __name__ == "__main__":
    print(json.dumps({f.__name__: plain(f()) for f in PROGRAMS if not isinstance(f, type)}))
