"""Programs about element types and what is refused; tests/standin/programs.py runs them."""

import collections
import functools
import logging

import jax
import jax.dlpack
import jax.flatten_util
import jax.numpy as jnp
import jax.scipy.interpolate
import jax.scipy.special
import numpy as np
from jax import lax
from jax.experimental import io_callback


def raises(f, *kinds):
    try:
        f()
    except kinds:
        return True
    return False


def types_without_64_bits():
    wide = np.arange(3.0)
    arrays = [
        jnp.asarray(wide),
        jnp.ones(2) * wide[:2],
        wide[:2] * jnp.ones(2),
        jnp.zeros(2, np.int64),
        jnp.float64(1),
    ]
    arrays += [
        jax.jit(lambda x: x)(wide),
        jnp.array([np.float64(1)]),
        jnp.arange(np.int64(3)),
        jnp.full(2, 1, "float64"),
    ]
    return [str(x.dtype) for x in arrays]


def types_with_64_bits():
    with jax.enable_x64(True):
        arrays = [
            jnp.asarray(np.arange(3.0)),
            jnp.arange(3),
            jax.jit(lambda x: x * 2.0)(1.0),
            jnp.float32(1) * 2.0,
        ]
        return [str(x.dtype) for x in arrays]


def numpy_scalars_keep_their_type():
    half = jnp.ones(2, jnp.float16)
    return [str((half * s).dtype) for s in (np.float32(2), np.float64(2), 2.0, np.int32(2))]


def types_as_keys():
    table = {np.dtype("float32"): 1, np.float32: 2}
    return [
        table[jnp.float32],
        jnp.float32 == np.float32,
        jnp.issubdtype(jnp.bfloat16, jnp.floating),
        str(jnp.dtype(jnp.int8)),
    ]


def numbers_that_do_not_fit():
    return [
        raises(lambda: jnp.array([[1, 2**40]]), OverflowError),
        raises(lambda: jnp.array([2**31]), OverflowError),
        jnp.float32("nan"),
    ]


def numbers_of_elements_with_64_bits():
    with jax.enable_x64(True):
        x = jnp.array([3.0, 1.0, 1.0])
        found = [
            jnp.argmax(x),
            x.argsort(),
            *jnp.nonzero(x),
            *jnp.unique(x, return_index=True),
            *jnp.unique(jnp.ones(2, "int32"), return_counts=True),
            jnp.where(True, jnp.int32(1), jnp.int32(2)),
            jax.random.permutation(jax.random.key(0), 3),
            jax.random.permutation(jax.random.key(0), jnp.arange(3, dtype="int32")),
            *jnp.tril_indices(2),
        ]
        return [str(a.dtype) for a in found]


def common_element_types():
    names = ("int64", "float64", "uint32", "int8", "bfloat16", "complex64", int, float, complex, bool)
    common = [str(jnp.promote_types(a, b)) for a in names for b in names]
    narrow = ("int4", "float8_e5m2", "bfloat16", "uint8")
    kinds = [jax.dtypes.scalar_type_of(jnp.ones(1, n)).__name__ for n in narrow]
    return [
        common,
        kinds,
        [jnp.iinfo(n).kind for n in ("int8", "uint32")],
        raises(lambda: jnp.promote_types("int4", "int8"), jax.dtypes.TypePromotionError),
        issubclass(jax.dtypes.TypePromotionError, ValueError),
    ]


def operators_and_their_refusals():
    x = jnp.arange(6.0).reshape(2, 3)
    mixed = [x.T @ np.ones((2, 2)), np.ones((2, 2)) @ x, x @ np.ones((3, 2), np.int64)]
    return [
        [str(m.dtype) for m in mixed],
        [round(jnp.float32(2.5)), round(jnp.float32(2.567), 2), round(jnp.int32(3))],
        [raises(lambda v=v: x.transpose(v), TypeError) for v in (0, 1, (0, 0))],
        raises(lambda: x @ x, TypeError),
        raises(lambda: jnp.arange(3) ** -1, TypeError),
        raises(lambda: -(x > 1), TypeError),
        raises(lambda: jax.jit(lambda v: (v, "text"))(x), TypeError),
        raises(lambda: x.reshape(4), TypeError),
        [isinstance(f.__wrapped__, type(raises)) for f in (jax.jit(raises), jax.vmap(raises))],
        [jax.jit(raises).__wrapped__ is raises, jax.grad(raises).__wrapped__ is raises],
    ]


def promotions_that_options_refuse():
    x, i, half = jnp.ones((2, 3)), jnp.ones(3, jnp.int32), jnp.ones(3, jnp.float16)
    calls = [
        lambda: x + i,
        lambda: i + 1,
        lambda: i + 1.0,
        lambda: half * 2.0,
        lambda: jnp.where(True, x, half),
        lambda: jnp.concatenate([i, half]),
        lambda: x[0].at[0].set(half[0]),
        lambda: x @ half,
        lambda: jnp.select([x > 0], [x], half),
        lambda: jax.nn.softmax(x),
        lambda: jnp.var(half),
        lambda: jax.jit(lambda v: v > 1)(i),
    ]
    with jax.numpy_dtype_promotion("strict"):
        found = [raises(f, jax.dtypes.TypePromotionError) for f in calls]
    calls = [
        lambda: x + x[0],
        lambda: x + 1,
        lambda: jnp.maximum(x, x[0]),
        lambda: jnp.where(x > 0, x, x[0]),
        lambda: x @ x[0],
        lambda: jnp.logical_and(x, x[0]),
        lambda: jnp.cov(x),
    ]
    with jax.numpy_rank_promotion("raise"):
        found += [raises(f, ValueError) for f in calls]
    return [*found, raises(calls[0], ValueError), raises(lambda: x + i, TypeError)]


def types_of_values():
    values = (
        1,
        1.0,
        2j,
        True,
        np.int8(3),
        np.float64(1),
        jnp.ones(2, "bfloat16"),
        float,
        "int64",
        np.dtype("uint8"),
    )
    return [lax.dtype(v).name for v in values]


def types_made_of_integers():
    found = []
    with jax.enable_x64(True):
        jax.scipy.signal.welch(jnp.arange(8.0), nperseg=4)  # which has wider types while it makes its window
        for name in ("bool", "int8", "uint32", "int64"):
            x = jnp.ones(2, name)
            functions = (
                jnp.sin,
                jnp.mean,
                jnp.fft.fft,
                jax.nn.gelu,
                jax.scipy.special.gammaln,
                lambda v: v / v,
            )
            found += [f(x).dtype.name for f in (*functions, lambda v: v / 2, lambda v: v * 2.0)]
        eye = jnp.eye(2, dtype="int32")
        found += [f(eye).dtype.name for f in (jnp.linalg.inv, jnp.linalg.matrix_rank, jax.scipy.linalg.expm)]
        found += [jax.scipy.linalg.hilbert(2).dtype.name]
    return found


def what_operations_refuse():
    x = jnp.ones((2, 3))
    numbers = (((1,), (0,)), ((), ()))
    calls = [
        (TypeError, lambda: lax.clamp(0, x, 1)),
        (TypeError, lambda: lax.pad(x, 0, ((0, 1, 0), (0, 0, 0)))),
        (TypeError, lambda: lax.concatenate([x, x], -1)),
        (ValueError, lambda: lax.cumsum(x, -1)),
        (TypeError, lambda: lax.cumprod(x > 0)),
        (ValueError, lambda: lax.top_k(x + 1j, 1)),
        (ValueError, lambda: lax.approx_max_k(jnp.arange(3), 1)),
        (ValueError, lambda: jax.scipy.special.entr(x + 1j)),
        (TypeError, lambda: jnp.matmul(x, x)),
        (TypeError, lambda: lax.dot_general(x, x, numbers)),
        (ValueError, lambda: lax.dot(x[None], x)),
        (TypeError, lambda: lax.reshape(x, (-1,))),
        (TypeError, lambda: lax.slice(x, (0, 0), (9, 1))),
        (TypeError, lambda: lax.dynamic_slice(x, (0, 0), (9, 1))),
        (TypeError, lambda: lax.transpose(x, (0, 0))),
    ]
    told = []
    for kind, call in calls:
        try:
            call()
            told.append("nothing")
        except (TypeError, ValueError) as e:
            told.append(isinstance(e, kind))
    return told


def what_functions_of_numpy_refuse():
    x, z = jnp.ones((2, 3)), jnp.ones(2, "complex64")

    def told(f):
        try:
            f()
        except (TypeError, ValueError, IndexError, OverflowError, AttributeError) as e:
            kinds = (IndexError, TypeError, OverflowError, ValueError, AttributeError)
            return next(k.__name__ for k in kinds if isinstance(e, k)), str(e).splitlines()[0][:34]
        return "nothing"

    return [
        *[told(lambda v=v: x + v) for v in ([1], (1,), {1}, {})],
        told(lambda: (1,) // x),
        told(lambda: x == [1]),
        told(lambda: jnp.clip(z)),
        told(lambda: jnp.clip(x, max=1j)),
        told(lambda: jnp.fft.fftn(x, axes=[1, 1])),
        told(lambda: jnp.fft.irfft2(x, axes=[0])),
        told(lambda: jnp.tri(3, k=2**40)),
        told(lambda: jnp.tril(x, 2**40)),
        told(lambda: jax.jit(jnp.choose)(jnp.array([0, 1]), [x[:, 0], x[:, 1]])),
        told(lambda: jax.jit(lambda i: jnp.ravel_multi_index((i, i), (2, 2)))(1))[0],
        told(lambda: jax.jit(lambda i: x[0, i:])(1)),
        told(lambda: jax.jit(lambda i: x[:i])(1)),
        told(lambda: jnp.tensordot(x, x, axes=3)),
        *[
            raises(lambda n=n: setattr(jnp.add, n, None), AttributeError)
            for n in ("nin", "nout", "nargs", "identity")
        ],
        (jnp.add.nargs, jnp.negative.nargs, jnp.frompyfunc(lambda a, b: a + b, 2, 1).nargs),
    ]


def integers_out_of_range():
    i = jnp.array([-9, -1, 2, 9])
    return [
        jnp.bincount(i),
        *jnp.unravel_index(i, (2, 2)),
        *jax.jit(lambda v: jnp.unravel_index(v, (2, 2)))(i),
    ]


def types_of_places():
    found = []
    for wide in (False, True):
        with jax.enable_x64(wide):
            x, i = jnp.array([3.0, 1, 2]), jnp.array([2, 1, 2], "int32")
            results = [
                jnp.argmax(x),
                x.argmin(),
                jnp.argsort(i),
                jnp.nonzero(x),
                jnp.where(x),
                jnp.triu_indices(2),
            ]
            results += [
                jnp.unique(i),
                jnp.unique(i, return_counts=True),
                tuple(jnp.unique_all(i)),
                jnp.where(x > 1, i, i),
            ]
            results += [
                jax.scipy.stats.mode(i),
                jax.jit(jnp.argmax)(x),
                lax.argmax(x, 0, "int32"),
                jnp.argmax(i),
            ]
            results += [
                jax.scipy.cluster.vq.vq(x[:, None], x[:2, None]),
                jax.random.categorical(jax.random.key(0), x),
            ]
            found += [[r.dtype.name for r in jax.tree.leaves(v)] for v in results]
    return found


def element_types_of_operations():
    one = "abs acos bessel_i0e cbrt clz conj exp2 floor imag is_finite lgamma neg bitwise_not reciprocal round square"
    two = "add mul div rem max pow atan2 bitwise_and shift_left nextafter complex igamma zeta lt"
    found = []
    for name in ("bool", "uint8", "int32", "float16", "float32", "complex64", "int4"):
        x = jnp.ones(2, name)
        found += [raises(functools.partial(getattr(lax, n), x), TypeError) for n in one.split()]
        found += [raises(functools.partial(getattr(lax, n), x, x), TypeError) for n in two.split()]
    try:
        lax.zeta(jnp.arange(3), 2.0)
    except TypeError as e:
        found.append("zeta does not accept dtype int32 at position 0. Accepted dtypes at" in str(e))
    return found


def refusals_of_loops_and_slices():
    x, upper = jnp.ones((3, 4)), jnp.int32(3)
    step = lambda i, c: c + 1  # noqa: E731
    calls = [
        lambda: lax.dynamic_slice(x, (np.int32(1), np.int16(2)), (2, 2)),
        lambda: lax.dynamic_slice(x, (np.int32(1), 2), (2, 2)),
        lambda: lax.dynamic_update_slice(x, x[:2, :2], (np.int32(1), np.int16(2))),
        lambda: lax.dot(x, x.T, lax.Precision.HIGHEST),
        lambda: lax.dot(x, x.T, precision=lax.Precision.HIGHEST),
        lambda: jax.jit(lambda n: lax.fori_loop(0, n, step, 0.0, unroll=3))(upper),
        lambda: lax.fori_loop(0, upper, step, 0.0, unroll=3),
        lambda: lax.reduce_window(x[0], 0.0, lambda a, b: [a + b], (1,), (1,), "VALID"),
        lambda: lax.split(x, (1, 2), axis=2),
        lambda: lax.squeeze(x[:1], (0, 0)),
        lambda: jax.eval_shape(lambda x: lax.top_k(x, 2), jax.ShapeDtypeStruct((2**31 + 1,), jnp.float32)),
    ]
    return [raises(call, TypeError, ValueError) for call in calls]


def products_of_two_types_in_lax():
    with jax.numpy_dtype_promotion("strict"):
        product = lax.dot(jnp.ones((2, 2)), jnp.ones((2, 2), jnp.bfloat16))
        return [product.dtype.name, raises(lambda: jnp.ones(2) + jnp.ones(2, "int32"), ValueError)]


def types_of_mappings():
    given = collections.OrderedDict(b=np.arange(2.0), a=collections.defaultdict(list, c=np.arange(2)))
    seen = []
    jax.vmap(lambda d: seen.extend([d["b"].dtype.name, d["a"]["c"].dtype.name, list(d)]) or 0.0)(given)
    return seen


def counts_of_traces():
    count = 0

    @jax.jit
    def f(x):
        nonlocal count
        count += 1
        return x @ x

    counts = []
    x = jnp.ones((2, 2))
    for _ in range(3):
        f(x)
        counts.append(count)
    with jax.default_matmul_precision("float32"):
        f(x)
        jax.config.update("jax_numpy_rank_promotion", "warn")
        f(x)
        counts.append(count)
        jax.config.update("jax_numpy_rank_promotion", "allow")
    f(x)
    counts.append(count)
    jax.jit(lambda x: f(f(x)))(x)
    counts += [count, jax.numpy_rank_promotion.get_global(), jax.numpy_rank_promotion.value]
    _, unravel = jax.flatten_util.ravel_pytree((x, x))
    _, again = jax.flatten_util.ravel_pytree((x + 1, x))
    return [*counts, unravel == again, hash(unravel) == hash(again)]


def refusals_of_jitted_functions():
    class Slotted:
        __slots__ = ()

        def __call__(self, x):
            return x + 1

    def given(f, *args, **kwargs):
        return jax.jit(f, static_argnums=1, static_argnames="x")(*args, **kwargs)

    compiled = jax.jit(lambda x: x * 4).lower(1.0).compile()
    is_static = lambda x, y: [isinstance(x, str), isinstance(y, str)].count(True) + 0 * jnp.ones(())  # noqa: E731
    return [
        raises(lambda: jax.jit(Slotted())(3), TypeError),
        raises(lambda: jax.vmap(compiled)(jnp.ones(3)), TypeError),
        raises(lambda: jax.grad(compiled)(1.0), TypeError),
        float(compiled(2.0)),
        float(given(is_static, 2, "y")),
        float(given(is_static, x="x", y=1)),
        raises(lambda: given(is_static, "x", 1), TypeError),
        raises(lambda: given(is_static, 1, y="y"), TypeError),
    ]


def texts_of_structures():
    def scanned(init, step):
        return lambda: lax.scan(lambda c, x: (step(c), None), init, None, length=1)

    x = jnp.array(0.0)
    calls = [
        scanned((1, (2, 3)), lambda c: (0, 0, 0)),
        scanned((x, x), lambda c: [c[0], c[1]]),
        scanned({"a": x}, lambda c: {"a": x, "b": x}),
        scanned(({"a": x},) * 2, lambda c: ({"a": x, "b": x},) * 2),
        scanned({"t": x}, lambda c: {"T": x}),
        lambda: lax.cond(True, lambda: (1, 2), lambda: [1, 2]),
        lambda: lax.cond(True, lambda: {"a": 1}, lambda: {"b": 1}),
        lambda: lax.cond(True, lambda: (1, (2, 3)), lambda: (1, 2)),
        lambda: lax.cond(True, lambda: ((1,), (2, 3)), lambda: ((1, 2), (2, 3, 4))),
        lambda: lax.switch(1, [lambda: (1, 2), lambda: (1, 2, 3)]),
        lambda: lax.while_loop(lambda c: (True, True), lambda c: c, 0.0),
        lambda: lax.while_loop(lambda c: c, lambda c: c, np.float32(0)),
    ]
    told = []
    for call in calls:
        try:
            call()
        except TypeError as e:
            told.append(
                [line for line in str(e).splitlines() if " but " in line and "but they differ" not in line]
            )
    return told


def refusals_of_callbacks_in_lanes():
    def pure(**options):
        return lambda x: jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), jnp.float32), x, **options)

    def effect(**options):
        return lambda x: io_callback(np.sin, jax.ShapeDtypeStruct((), jnp.float32), x, **options)

    lanes = jnp.arange(3.0)
    functions = [
        pure(),
        pure(vmap_method="sequential"),
        pure(vmap_method="broadcast_all"),
        effect(),
        effect(ordered=True),
    ]
    return [raises(lambda f=f: jax.vmap(f)(lanes), NotImplementedError, ValueError) for f in functions]


def functions_that_are_kept():
    traces = []

    @jax.checkpoint
    def f(x):
        traces.append(1)
        return jnp.sin(x)

    @functools.partial(jax.checkpoint, static_argnums=1)
    def branching(x, scale):
        return x * scale if x > 0 else x

    results = [float(f(float(n))) for n in range(3)]
    return [len(traces), *results, raises(lambda: branching(1.0, 2), TypeError), float(jax.grad(f)(0.5))]


def refusals_of_dicts_without_order():
    mixed = {"a": 1, 2: "b"}
    calls = [
        lambda: jax.tree.leaves(mixed),
        lambda: jax.jit(lambda d: d["a"])({"a": 1.0, 2: 2.0}),
        lambda: jax.tree.leaves([{1: 2, 0: 3}]),
    ]
    visited = []
    leaves, tree = jax.tree_util.tree_flatten({"b": [2, 3], "a": (1, None)})
    tree.walk(lambda parts, data: visited.append([len(parts), data]), visited.append, leaves)
    shown = [["none" if v is None else v for v in x] if isinstance(x, list) else x for x in visited]
    return [[raises(call, TypeError, ValueError) for call in calls], str(shown)]


def refusals_of_types_in_lax():
    x, i, key = jnp.ones((2, 3)), jnp.ones((2, 3), "int32"), jax.random.key(0)
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))
    half = x.astype("float16")
    calls = [
        lambda: lax.reduce(i, 1.0, lax.add, (0,)),
        lambda: lax.reduce(x, 0, lax.add, (0,)),
        lambda: lax.reduce_window(i, 0.0, lax.max, (1, 1), (1, 1), "VALID"),
        lambda: lax.reduce_window(x, 0, lax.add, (1, 1), (1, 1), "VALID"),
        lambda: lax.pow(half, 2.0),
        lambda: lax.pow(x, i),
        lambda: lax.pow(x, True),
        lambda: lax.bitwise_and(i, jnp.int8(1)),
        lambda: lax.shift_left(i.astype("int8"), 1),
        lambda: lax.atan2(x, half),
        lambda: lax.igamma(x, 2),
        lambda: lax.select(x > 0, x, i),
        lambda: lax.select_n(x, x, x),
        lambda: lax.select_n(i, x, x),
        lambda: lax.scatter_add(i, jnp.array([[0]]), jnp.ones((1, 3)), numbers),
        lambda: lax.dynamic_update_slice(i, x[:1, :1], (0, 0)),
        lambda: lax.concatenate([x, i], 0),
        lambda: lax.rev(x, (2,)),
        lambda: lax.rev(x, (0, 0)),
        lambda: lax.linalg.lu(i),
        lambda: lax.linalg.qr(i),
        lambda: lax.integer_pow(i, -1),
        lambda: lax.integer_pow(x, -1),
        lambda: lax.iota(bool, 3),
        lambda: jax.random.bernoulli(key, 2),
        lambda: jax.random.randint(key, (2,), 0, 300, "int8"),
    ]
    told = [raises(call, TypeError) for call in calls]
    told += [raises(lambda: jax.random.randint(key, (2,), 0, 2**40), OverflowError)]
    return [*told, raises(lambda: jax.random.poisson(key, 1.0, (2,), "float32"), ValueError)]


def refusals_of_derivatives_of_composites():
    square = lax.composite(lambda x: x**2, "my.square")
    return [float(square(3.0)), raises(lambda: jax.grad(square)(3.0), ValueError)]


def types_of_methods_of_element_functions():
    i, small = jnp.arange(1, 7).reshape(2, 3), jnp.arange(4, dtype="int8")
    out = [jnp.add.reduce(i, axis=1), jnp.multiply.reduce(i, axis=None), jnp.add.reduce(small)]
    out += [
        jnp.add.accumulate(i, axis=1),
        jnp.maximum.accumulate(small),
        jnp.add.reduceat(i[0], jnp.array([0, 2])),
    ]
    out += [jnp.subtract.outer(small, i[0]), jnp.add.at(i[0], jnp.array([0, 0]), 1, inplace=False)]
    told = [raises(lambda: jnp.add(i, i, out=i), NotImplementedError)]
    told += [raises(lambda: jnp.add(i, i, where=i > 1), NotImplementedError)]
    return [[[str(x.dtype), x] for x in out], told, jnp.add(i, 1, out=None, where=None)]


def types_that_are_named_by_place():
    key = jax.random.key(3)
    draws = [jax.random.uniform(key, (3,), t) for t in ("float64", "float32")]
    draws += [jax.random.normal(key, (3,), "float64"), jax.random.gumbel(key, (2,), "float64")]
    return [[str(x.dtype), x] for x in draws] + [raises(lambda: jnp.ones(3).at[1.0].mul(2.0), TypeError)]


def shapes_that_cannot_be_joined():
    x, calls = jnp.ones((2, 3)), []
    calls += [
        lambda: jnp.concatenate([x, x[:, :1]]),
        lambda: jnp.append(x, x[0], axis=0),
        lambda: jnp.block([[x], [1]]),
    ]
    calls += [lambda: x.reshape(4, -1), lambda: jnp.reshape(x, (-1, 5))]
    return [raises(call, TypeError) for call in calls]


def types_of_running_sums():
    out = []
    for t in ("int8", "uint8", "int16", "uint32", "bool", "float16"):
        x = jnp.ones((2, 3), t)
        out += [f(x, axis=1) for f in (jnp.cumsum, jnp.cumprod, jnp.nancumsum, jnp.nancumprod)]
        out += [f(x, axis=1) for f in (jnp.cumulative_sum, jnp.cumulative_prod, jnp.add.accumulate)]
        out += [x.cumsum(1), x.cumprod(1, None), x.cumsum(1, "int32"), jnp.cumsum(x, dtype="float32")]
    out.append(jnp.cumsum(jnp.array([100, 100], "int8")))
    return [[str(x.dtype), x] for x in out]


def metadata_of_nodes():
    trees = [{"b": 1, "a": (2, None)}, (1,), [], None, 3, collections.OrderedDict(z=1, a=2)]
    return [str(jax.tree.structure(t).node_data()) for t in trees]


def types_that_yield():
    args = [(1.0,), (1, 2.0), (jnp.ones(2), 1.0), (jnp.asarray(1.0),), (np.float32(1), 2), ("int8", 1)]
    told = [jax.dtypes.result_type(*a, return_weak_type_flag=True) for a in args]
    exchanged = [jax.dlpack.is_supported_dtype(t) for t in (bool, "bfloat16", "complex64", "int4", "U3")]
    return [[[str(t), weak] for t, weak in told], exchanged]


def lines_that_are_logged():
    logger, lines = logging.getLogger("jax._src.debugging"), []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append([record.levelname, record.getMessage()])
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    jax.jit(lambda x: jax.debug.log("x is {} of {n}", x, n=3))(jnp.arange(2))
    jax.effects_barrier()
    logger.removeHandler(handler)
    logger.setLevel(level)
    return [lines, raises(lambda: jax.debug.log("x", 1.0), ValueError)]


def values_at_one_point_of_a_grid():
    grid = (jnp.arange(3.0), jnp.arange(2.0))
    f = jax.scipy.interpolate.RegularGridInterpolator(grid, jnp.arange(6.0).reshape(3, 2), bounds_error=False)
    out = [f(jnp.array([0.5, 0.25])), jax.vmap(f)(jnp.array([[0.5, 0.25], [1.5, 1.0]]))]
    return [[list(x.shape), x] for x in out]
