"""Programs about element types and what is refused; tests/standin/programs.py runs them."""

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
from jax import lax


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
