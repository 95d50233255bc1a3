"""Functions and parameters of lax, nn, random and the transforms that JAX's callers name: against JAX's values."""

from __future__ import annotations

import functools
import inspect

import jax
import jax.flatten_util
import jax.numpy as jnp
import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax, nn, random
from lamina.test_util import check_grads as check

RNG = np.random.default_rng(0)
X = RNG.normal(size=(7, 3)).astype(np.float32)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7, 10])
def test_map_in_batches(batch_size):
    f = lambda row: {"a": lnp.sin(row), "b": row.sum()}  # noqa: E731
    for run in (lax.map, lm.jit(lax.map, static_argnames=("f", "batch_size"))):
        got = run(f, X, batch_size=batch_size)
        np.testing.assert_allclose(got["a"].numpy(), np.sin(X), rtol=1e-6)
        np.testing.assert_allclose(got["b"].numpy(), X.sum(1), rtol=1e-5)
    slope = lm.grad(lambda x: (lax.map(lambda r: r**2, x, batch_size=batch_size)).sum())(X)
    np.testing.assert_allclose(slope.numpy(), 2 * X)
    np.testing.assert_array_equal(lax.map(f, X, batch_size=0)["a"].numpy(), got["a"].numpy())
    with pytest.raises(ValueError, match="at least 1 row, not -1"):
        lax.map(f, X, batch_size=-1)
    assert lax.map(lambda r: r, X[:0], batch_size=batch_size).shape == (0, 3)


def test_names_of_arguments():
    assert lax.clamp(min=-0.5, x=X, max=0.5).numpy().max() == 0.5
    assert lax.convert_element_type(operand=X, new_dtype="int32").dtype == "int32"
    assert lax.bitcast_convert_type(operand=X, new_dtype="int32").dtype == "int32"
    assert lax.reduce_precision(operand=X, exponent_bits=8, mantissa_bits=4).shape == X.shape
    assert lax.stack(operands=[X, X]).shape == (2, 7, 3)
    assert lax.fori_loop(0, 3, lambda i, c: c + i, 0, unroll=True).item() == 3
    numbers = (((1,), (1,)), ((), ()))
    np.testing.assert_allclose(
        lax.dot(X, X, dimension_numbers=numbers).numpy(), X @ X.T, rtol=1e-5, atol=1e-6
    )


ATTENTION = {
    "plain": {},
    "causal": {"is_causal": True},
    "window": {"local_window_size": 2},
    "left and right": {"local_window_size": (1, 3)},
    "lengths": {"query_seq_lengths": [3, 6], "key_value_seq_lengths": [5, 2]},
    "all": {"is_causal": True, "local_window_size": (2, 0), "key_value_seq_lengths": [6, 4], "scale": 0.3},
}


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("heads", [4, 2])
def test_attention(name, heads):
    q = RNG.normal(size=(2, 6, 4, 5)).astype(np.float32)
    k, v = (RNG.normal(size=(2, 6, heads, 5)).astype(np.float32) for _ in range(2))

    def call(module, array):
        options = {
            k: array(np.array(v, np.int32)) if "lengths" in k else v for k, v in ATTENTION[name].items()
        }
        return lambda *qkv: module.dot_product_attention(*qkv, **options)

    ours, theirs = call(nn, lnp.array), call(jax.nn, jnp.array)
    want = np.asarray(theirs(q, k, v))
    np.testing.assert_allclose(ours(q, k, v).numpy(), want, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(lm.jit(ours)(q, k, v).numpy(), want, rtol=1e-5, atol=1e-5)
    mine = lm.grad(lambda *a: (ours(*a) ** 2).sum(), (0, 1, 2))(q, k, v)
    for g, w in zip(mine, jax.grad(lambda *a: (theirs(*a) ** 2).sum(), (0, 1, 2))(q, k, v)):
        np.testing.assert_allclose(g.numpy(), w, rtol=1e-4, atol=1e-5)


def test_attention_without_batch_and_with_its_residual():
    q, k, v = (RNG.normal(size=(6, 4, 5)).astype(np.float32) for _ in range(3))
    got, want = (
        nn.dot_product_attention(q, k, v, is_causal=True),
        jax.nn.dot_product_attention(q, k, v, is_causal=True),
    )
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-5)
    out, residual = nn.dot_product_attention(q, k, v, return_residual=True, implementation="xla")
    assert out.shape == (6, 4, 5) and residual.shape == (6, 4)
    logits = np.einsum("qhd,khd->qhk", q, k) / np.sqrt(5)
    np.testing.assert_allclose(residual.numpy(), np.log(np.exp(logits).sum(-1)), rtol=1e-5)
    narrow = [lnp.asarray(x, "bfloat16") for x in (q, k, v)]
    out, residual = nn.dot_product_attention(*narrow, return_residual=True)
    assert out.dtype == residual.dtype == "bfloat16"  # as in JAX


def test_the_residual_of_attention_is_a_constant():
    q, k, v = (RNG.normal(size=(1, 3, 2, 4)).astype(np.float32) for _ in range(3))

    def total(module):
        def f(q, k):
            out, sums = module.dot_product_attention(q, k, v, return_residual=True)
            return (out * out).sum() + (sums * sums).sum()

        return f

    want = jax.grad(total(jax.nn), (0, 1))(q, k)
    for got in (lm.grad(total(nn), (0, 1))(q, k), lm.jit(lm.grad(total(nn), (0, 1)))(q, k)):
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g.numpy(), w, rtol=1e-4, atol=1e-5)


def test_the_mode_of_draws():
    key = random.key(0)
    for draw in (
        lambda m: random.gumbel(key, (3,), mode=m),
        lambda m: random.bernoulli(key, 0.5, (3,), mode=m),
        lambda m: random.categorical(key, lnp.ones(4), mode=m),
        lambda m: random.choice(key, 5, (3,), mode=m),
    ):
        np.testing.assert_array_equal(draw("low").numpy(), draw(None).numpy())
        with pytest.raises(ValueError, match="'low'"):
            draw("lowest")


def test_checkpoint_with_static_arguments():
    def f(x, n, scale):
        assert isinstance(n, int)
        return lnp.sin(x) ** n * scale

    g = lm.checkpoint(f, static_argnums=(1,), policy=lambda *_, **__: True, prevent_cse=False)
    for h in (g, lm.jit(g, static_argnums=1)):
        np.testing.assert_allclose(h(X, 2, 3.0).numpy(), np.sin(X) ** 2 * 3, rtol=1e-5)
    slope = lm.grad(lambda x: g(x, 2, 3.0).sum())(X)
    np.testing.assert_allclose(slope.numpy(), 6 * np.sin(X) * np.cos(X), rtol=1e-4, atol=1e-6)


def _same(f, *args, rtol=1e-5):
    """Ours and JAX's agree: values, under jit and vmap, and gradients."""
    ours, theirs = (lambda *a: f(lax, *a)), (lambda *a: f(jax.lax, *a))
    want = np.asarray(theirs(*args))
    for g in (ours, lm.jit(ours)):
        np.testing.assert_allclose(g(*args).numpy(), want, rtol=rtol, atol=1e-5)
    lanes = lm.vmap(ours)(*[np.stack([a, a]) for a in args]).numpy()
    np.testing.assert_allclose(lanes[1], want, rtol=rtol, atol=1e-5)
    every = tuple(i for i, a in enumerate(args) if a.dtype.kind == "f")
    mine = lm.grad(lambda *a: (ours(*a) ** 2).sum(), every)(*args)
    for g, w in zip(mine, jax.grad(lambda *a: (theirs(*a) ** 2).sum(), every)(*args)):
        np.testing.assert_allclose(g.numpy(), w, rtol=1e-4, atol=1e-4)


PATCHES = [
    ((2, 3, 7, 6), None, (2, 3), (1, 2), "SAME", {}),
    ((2, 3, 7, 6), None, (2, 3), (2, 1), [(1, 0), (0, 2)], {"rhs_dilation": (1, 2)}),
    ((2, 7, 6, 3), ("NHWC", "HWIO", "NHWC"), (3, 2), (1, 1), [(1, 2), (0, 0)], {"lhs_dilation": (2, 1)}),
    ((7, 2, 3), ("WNC", "OWI", "CNW"), (3,), (2,), "VALID", {}),
]


@pytest.mark.parametrize(("shape", "numbers", "window", "strides", "padding", "extra"), PATCHES)
def test_patches_and_local_convolutions(shape, numbers, window, strides, padding, extra):
    x = RNG.normal(size=shape).astype(np.float32)

    def patches(module, x):
        return module.conv_general_dilated_patches(
            x, window, strides, padding, dimension_numbers=numbers, **extra
        )

    _same(patches, x)
    spec = jax.lax.conv_dimension_numbers(shape, (1,) * len(shape), numbers)
    out = patches(jax.lax, x).shape
    kernel = [0] * len(shape)
    kernel[spec.rhs_spec[0]], kernel[spec.rhs_spec[1]] = 4, out[spec.out_spec[1]]
    for k, o in zip(spec.rhs_spec[2:], spec.out_spec[2:]):
        kernel[k] = out[o]
    w = RNG.normal(size=kernel).astype(np.float32)
    _same(
        lambda module, x, w: module.conv_general_dilated_local(
            x, w, strides, padding, window, dimension_numbers=numbers, **extra
        ),
        x,
        w,
    )
    with pytest.raises(ValueError, match="filter_shape"):
        lax.conv_general_dilated_patches(x, (2, 2, 2), strides, padding, dimension_numbers=numbers)


@pytest.mark.parametrize("sizes", [[2, 3, 1], [0, 6, 0], [1, 0, 2], [0, 0, 0]])
def test_rows_times_the_matrix_of_their_group(sizes):
    a, b = RNG.normal(size=(6, 4)).astype(np.float32), RNG.normal(size=(3, 4, 5)).astype(np.float32)
    _same(lambda module, a, b, s: module.ragged_dot(a, b, s), a, b, np.array(sizes, np.int32))


def test_what_ragged_dot_refuses():
    with pytest.raises(ValueError, match="groups"):
        lax.ragged_dot(lnp.ones((2, 3)), lnp.ones((2, 4, 1)), lnp.array([1, 1]))
    with pytest.raises(TypeError, match="integers"):
        lax.ragged_dot(lnp.ones((2, 3)), lnp.ones((2, 3, 1)), lnp.ones(2))


GENERAL = {  # shapes of lhs, rhs and group sizes; contracting and batch dimensions, ragged and group dimensions
    "rows": ((7, 4), (3, 4, 5), (3,), ((1,), (1,)), ((), ()), (0,), (0,)),
    "rows behind others": ((2, 7, 4), (3, 4, 5), (2, 3), ((2,), (1,)), ((), ()), (1,), (0,)),
    "rows before others": ((7, 2, 4), (3, 4, 5), (3,), ((2,), (1,)), ((), ()), (0,), (0,)),
    "rows of batches": ((2, 7, 4), (3, 2, 4, 5), (2, 3), ((2,), (2,)), ((0,), (1,)), (1,), (0,)),
    "rows of batches alike": ((7, 2, 4), (2, 4, 3, 5), (3,), ((2,), (1,)), ((1,), (0,)), (0,), (2,)),
    "sums": ((7, 4), (7, 5), (3,), ((0,), (0,)), ((), ()), (0,), ()),
    "sums of two": ((4, 7, 2), (2, 7, 5), (2, 3), ((2, 1), (0, 1)), ((), ()), (1,), ()),
    "sums of batches": ((2, 7, 4), (2, 7, 5), (2, 3), ((1,), (1,)), ((0,), (0,)), (1,), ()),
    "batches": ((7, 3, 4), (7, 4, 5), (3,), ((2,), (1,)), ((0,), (0,)), (0,), ()),
}


@pytest.mark.parametrize("name", GENERAL)
def test_ragged_products_of_any_dimensions(name):
    lhs, rhs, sizes, contracting, batch, ragged, group = GENERAL[name]
    a, b = RNG.normal(size=lhs).astype(np.float32), RNG.normal(size=rhs).astype(np.float32)
    s = RNG.multinomial(6, np.ones(sizes[-1]) / sizes[-1], size=sizes[:-1]).astype(np.int32)

    def product(module, a, b, s):
        numbers = module.RaggedDotDimensionNumbers((contracting, batch), ragged, group)
        return module.ragged_dot_general(a, b, s, numbers)

    np.testing.assert_allclose(product(lax, a, b, s), product(jax.lax, a, b, s), rtol=1e-4, atol=1e-5)
    # JAX has derivatives of the first kind only.
    check(lambda a, b: lnp.sin(product(lax, a, b, s)).sum(), (a.astype(float), b.astype(float)), order=2)


def test_what_ragged_products_refuse():
    a, b, s = lnp.ones((11, 5)), lnp.ones((3, 5, 7)), lnp.ones(3, "int32")

    def product(a, b, s, ragged, group, dims=(((1,), (1,)), ((), ()))):
        return lax.ragged_dot_general(a, b, s, lax.RaggedDotDimensionNumbers(dims, ragged, group))

    for text, args in {
        "exactly one lhs ragged dimension": (a, b, s, (0, 1), (0,)),
        r"nonnegative and less than the number of axes of the lhs value float32\[11,5\]": (
            a,
            b,
            s,
            (2,),
            (0,),
        ),
        "to be distinct from contracting": (a, b, s, (0,), (1,)),
        "exactly one rhs group dimension": (a, lnp.ones((5, 7)), s, (0,), (), (((1,), (0,)), ((), ()))),
        "zero group dimensions in the rhs": (a, b, s, (1,), (0,)),
        r"shape \(3,\), got \(2, 3\)": (a, b, lnp.ones((2, 3), "int32"), (0,), (0,)),
        "size to be 2, got 3": (a, b, s[:2], (0,), (0,)),
        "group_sizes are integers": (a, b, lnp.ones(3), (0,), (0,)),
        "rank of at least 1": (a, b, 3, (0,), (0,)),
    }.items():
        with pytest.raises(TypeError, match=text):
            product(*args)


def test_a_function_for_the_platform():
    assert lax.platform_dependent(3.0, cpu=lambda x: x + 1, tpu=lambda x: x) == 4
    assert lax.platform_dependent(3.0, tpu=lambda x: x, default=lambda x: x * 2) == 6
    with pytest.raises(NotImplementedError, match="only for tpu"):
        lax.platform_dependent(3.0, tpu=lambda x: x)


MODULES = {
    "": (
        *("grad", "value_and_grad", "vjp", "linearize", "vmap", "jacfwd", "jacrev", "hessian"),
        *("make_jaxpr", "eval_shape"),
    ),
    "tree": ("all", "broadcast", "flatten", "leaves", "map", "map_with_path", "reduce", "structure", "transpose"),
    "tree_util": ("keystr", "tree_map", "tree_reduce", "tree_transpose", "tree_leaves_with_path"),
    "lax.linalg": ("eig", "eigh", "svd", "symmetric_product"),
    "numpy.linalg": ("tensordot",),
    "flatten_util": ("ravel_pytree",),
}  # fmt: skip
# About devices, and JAX's own.
LEFT_OUT = {"use_magma", "sum_match", "axis_env", "out_sharding", "reduce_axes", "concrete"}


@pytest.mark.parametrize(("module", "name"), [(m, n) for m, names in MODULES.items() for n in names])
def test_parameters_have_the_names_that_jax_gives_them(module, name):
    def parameters(top):
        parts = [*filter(None, module.split(".")), name]
        signature = inspect.signature(functools.reduce(getattr, parts, top))
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        return {p.name for p in signature.parameters.values() if p.kind in by_name}

    assert parameters(jax) - LEFT_OUT <= parameters(lm)


def test_options_of_decompositions_choose_nothing():
    a = lnp.array([[2.0, 1.0], [1.0, 3.0]])
    for name, option, values in (
        ("eigh", "implementation", lax.linalg.EighImplementation),
        ("svd", "algorithm", lax.linalg.SvdAlgorithm),
        ("eig", "implementation", lax.linalg.EigImplementation),
        ("eig", "use_magma", (None, True)),
        ("qr", "use_magma", (None, False)),
    ):
        routine = getattr(lax.linalg, name)
        for value in values:
            for got, want in zip(routine(a, **{option: value}), routine(a), strict=True):
                np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def test_index_types_and_limits_by_element_type():
    flat = lnp.ravel_multi_index((lnp.array([1, 2]), lnp.array([0, 1])), (3, 4), dtype="uint8")
    assert flat.dtype == "uint8" and flat.tolist() == [4, 9]
    assert X.astype("int32", copy=False).dtype == "int32"
    check(lnp.sin, (lnp.float32(1.0),), 2, rtol={np.float32: 1e-2, np.float64: 1e-6})
    wrong = lm.custom_jvp(lnp.sin)
    wrong.defjvp(lambda p, t: (lnp.sin(p[0]), 1.001 * lnp.cos(p[0]) * t[0]))
    check(wrong, (lnp.float32(1.0),), 1, ("fwd",), atol={"float32": 1e-2}, rtol={"float32": 1e-2})
    with pytest.raises(AssertionError):
        check(wrong, (lnp.float32(1.0),), 1, ("fwd",), atol={"float32": 1e-5}, rtol={"float32": 1e-5})
    assert lm.tree.reduce(lambda a, b: a + b, [1, 2], initializer=10) == 13


@pytest.mark.parametrize("padding", ["SAME", "VALID", [(1, 2), (0, 1)]])
def test_padding_of_transposed_convolutions_is_that_of_the_forward_one(padding):
    x, w = RNG.normal(size=(1, 5, 4, 2)).astype("f4"), RNG.normal(size=(3, 2, 2, 4)).astype("f4")
    got = lax.conv_transpose(x, w, (2, 3), padding, use_consistent_padding=True)
    want = jax.lax.conv_transpose(x, w, (2, 3), padding, use_consistent_padding=True)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-5)


def test_start_indices_that_do_not_count_from_the_end():
    start = lnp.array([-2, -1])
    for flags in (False, (True, False), [False, True], True):
        got = lax.dynamic_slice(X, start, (2, 1), allow_negative_indices=flags)
        want = jax.lax.dynamic_slice(X, jnp.array([-2, -1]), (2, 1), allow_negative_indices=flags)
        np.testing.assert_array_equal(got.numpy(), want)
    row = lax.dynamic_index_in_dim(X, lnp.array(-1), allow_negative_indices=False)
    np.testing.assert_array_equal(row.numpy(), X[:1])
    written = lax.dynamic_update_index_in_dim(X, 0 * X[0], lnp.array(-1), 0, allow_negative_indices=False)
    assert written[0].tolist() == [0, 0, 0] and written[-1].tolist() == X[-1].tolist()
    with pytest.raises(ValueError, match="the start index -1 is out of bounds for a dimension of size 7"):
        lax.dynamic_slice_in_dim(X, -1, 1, allow_negative_indices=False)
    with pytest.raises(ValueError, match="has 1 entries, but float32\\[7,3\\] has 2 dimensions"):
        lax.dynamic_slice(X, (0, 0), (1, 1), allow_negative_indices=[True])


def test_running_logarithms_of_sums_of_complex_numbers():
    z = RNG.normal(size=(6, 4)) + 9j * RNG.normal(size=(6, 4))  # of several turns
    want = np.log(np.cumsum(np.exp(z), 0))
    np.testing.assert_allclose(lax.cumlogsumexp(z).numpy(), want, rtol=1e-10)
    np.testing.assert_allclose(lax.cumlogsumexp(z[::-1], reverse=True).numpy(), want[::-1], rtol=1e-10)


def test_integers_choose_as_bools_do():
    which = np.array([[0, 1, 1]] * 7, np.int32)
    np.testing.assert_array_equal(lax.select(which, X, -X).numpy(), np.where(which, X, -X))


@pytest.mark.parametrize("dtype", [None, "float32"])
def test_products_with_scales(dtype):
    a, b = (RNG.integers(-4, 5, s).astype("f4") for s in ((2, 3, 8), (2, 8, 4)))
    scales = {
        "lhs_scale": 2.0 ** RNG.integers(-2, 3, (2, 3, 2)),
        "rhs_scale": 2.0 ** RNG.integers(-2, 3, (2, 4, 4)),
    }
    scales = {k: v.astype("f4") for k, v in scales.items()}
    for given in ({}, {"rhs_scale": scales["rhs_scale"]}, scales):
        got = lax.scaled_dot(a, b, **given, preferred_element_type=dtype)
        want = jax.lax.scaled_dot(a, b, **given, preferred_element_type=dtype)
        assert got.dtype == want.dtype
        np.testing.assert_allclose(
            got.astype("float32").numpy(), want.astype("float32"), rtol=1e-2 if dtype is None else 1e-5
        )
    with pytest.raises(TypeError, match="does not fit float32\\[2,3,8\\]"):
        lax.scaled_dot(a, b, lhs_scale=scales["lhs_scale"][:, :2])
    with pytest.raises(TypeError, match="rank of at least 2"):
        lax.scaled_dot(a[0, 0], b[0, :, 0])
    rows, row_scales = b.transpose(0, 2, 1), scales["rhs_scale"].transpose(0, 2, 1)
    got = lm.nn.scaled_matmul(a, rows, scales["lhs_scale"], row_scales)  # JAX has no program of it for CPUs
    wide = np.repeat(scales["lhs_scale"], 4, -1) * a, np.repeat(row_scales, 2, -1) * rows
    assert got.dtype == "float32"
    np.testing.assert_allclose(got.numpy(), np.einsum("bmk,bnk->bmn", *wide), rtol=1e-5)
    with pytest.raises(TypeError, match=r"arrays \(B, M, K\) and \(B, N, K\), not float32\[3,8\]"):
        lm.nn.scaled_matmul(a[0], rows, scales["lhs_scale"], row_scales)
