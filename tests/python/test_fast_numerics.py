"""`lm.numerics("fast")`: products and convolutions by a library, close to Lamina's own and only where asked for."""

import os
import pathlib
import subprocess
import sys
import threading

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from device_support import ON_CUDA, has_avx512
from lamina import lax

LIBRARY = pathlib.Path(str(lm.__file__)).parent / "liblamina_onednn.so"
needs_library = pytest.mark.skipif(not LIBRARY.exists(), reason="built without oneDNN")
PRODUCT = "dot by cublasLt" if ON_CUDA else "dot by oneDNN"
# The library gets f32 where it is quicker: large products, and convolutions of channels-last images, on AVX-512.
TAKES_F32 = ON_CUDA or has_avx512()
# Of f32 products of `terms` terms, as a part of the sum of their absolute values. TF32 has 11 bits.
ERROR = {"same": lambda terms: terms * 2.0**-24, "fast": lambda terms: terms * 2.0**-24 + ON_CUDA * 2.0**-10}


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def steps_of(f, *xs):
    """The explanation of the one program that a call of jitted `f` makes, and the call's result."""
    known = {e["id"] for e in lm.cache.entries()}
    result = lm.jit(f)(*xs)
    lm.block_until_ready(result)
    (entry,) = [e["id"] for e in lm.cache.entries() if e["id"] not in known and e["kind"] == "jit"]
    return lm.cache.explain(entry), result


def conv(x, w, strides, padding):
    return lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


@needs_library
def test_products_are_the_library_s():
    a, b = numbers(70, 301), numbers(301, 130, seed=1)
    own, exact = steps_of(lambda x, y: x @ y, lnp.asarray(a), lnp.asarray(b))
    with lm.numerics("fast"):
        fast, close = steps_of(lambda x, y: x @ y, lnp.asarray(a), lnp.asarray(b))
    assert "oneDNN" not in own and "tf32" not in own
    assert (PRODUCT in fast) == TAKES_F32 and "f32[70,301] f32[301,130]" in fast
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    assert (np.abs(close.numpy() - wanted) <= ERROR["fast"](301) * scale).all()
    assert (np.abs(exact.numpy() - wanted) <= ERROR["same"](301) * scale).all()


@needs_library
@pytest.mark.parametrize(
    "left, right, batch",
    [
        ("ij", "jk", ()),
        ("ji", "jk", ()),
        ("ij", "kj", ()),
        ("bij", "bjk", (3,)),
        ("bij", "bkj", (16,)),
        ("bjhi", "bkhj", ()),  # no single stride: Lamina's own code
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_layouts_types_and_parts(left, right, batch, dtype):
    sizes = {"i": 65, "j": 96, "k": 1030, "b": batch[0] if batch else 2, "h": 3}
    a = lnp.asarray(numbers(*[sizes[c] for c in left])).astype(dtype)
    b = lnp.asarray(numbers(*[sizes[c] for c in right], seed=1)).astype(dtype)
    out = "".join(c for c in "bh" if c in left and c in right) + "ik"
    spec = f"{left},{right}->{out}"
    with lm.numerics("fast"):
        got = lnp.einsum(spec, a, b).astype("float32").numpy()
    wide = [np.asarray(x.astype("float32").numpy(), np.float64) for x in (a, b)]
    wanted = np.einsum(spec, *wide)
    scale = np.einsum(spec, *map(np.abs, wide))
    error = 2.0**-8 if dtype == "bfloat16" else ERROR["fast"](96)
    assert (np.abs(got - wanted) <= error * scale + 1e-30).all()


@needs_library
@pytest.mark.parametrize(
    "strides, padding", [((1, 1), "SAME"), ((2, 2), "VALID"), ((2, 1), ((1, 2), (0, 3)))]
)
def test_convolutions_and_their_gradients(strides, padding):
    x, w = lnp.asarray(numbers(19, 17, 15, 8)), lnp.asarray(numbers(3, 3, 8, 16, seed=1))

    def loss(x, w):
        return lnp.sum(lnp.sin(conv(x, w, strides, padding)))

    own = lm.jit(lm.value_and_grad(loss, argnums=(0, 1)))(x, w)
    with lm.numerics("fast"):
        fast, result = steps_of(lm.value_and_grad(loss, argnums=(0, 1)), x, w)
    assert ("convolution by oneDNN" in fast) == (
        TAKES_F32 and not ON_CUDA
    )  # there it is a kernel, in either mode
    for a, b in zip(lm.tree.tree_leaves(own), lm.tree.tree_leaves(result), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-3, atol=2e-3)


@needs_library
@pytest.mark.not_on_cuda(reason="there large products are the library's whatever their shape")
@pytest.mark.parametrize(
    "left, right",
    [((64, 64), (64, 64)), ((10000, 100), (100, 3)), ((1, 1024), (1024, 1024)), ((2048, 1024), (1024,))],
)
def test_products_that_are_not_quicker_by_the_library_keep_their_bits(left, right):
    a, b = lnp.asarray(numbers(*left)), lnp.asarray(numbers(*right, seed=1))
    own = lm.jit(lambda x, y: x @ y)(a, b).numpy()
    with lm.numerics("fast"):
        fast, result = steps_of(lambda x, y: x @ y, a, b)
    assert "oneDNN" not in fast
    np.testing.assert_array_equal(result.numpy(), own)


@needs_library
@pytest.mark.not_on_cuda(reason="there large convolutions are cuDNN's whatever their order")
@pytest.mark.parametrize(
    "numbers_of_dimensions, image, filters",
    [
        (("NCHW", "OIHW", "NCHW"), (8, 8, 28, 28), (16, 8, 3, 3)),
        (("NHWC", "HWIO", "NHWC"), (8, 28, 28, 64), (1, 1, 64, 64)),
        (("NHWC", "HWIO", "NHWC"), (64, 28, 28, 1), (5, 5, 1, 6)),
        (("NHWC", "HWIO", "NHWC"), (8, 7, 7, 64), (3, 3, 64, 64)),
    ],
)
def test_convolutions_that_are_not_quicker_by_the_library_keep_their_bits(
    numbers_of_dimensions, image, filters
):
    x, w = lnp.asarray(numbers(*image)), lnp.asarray(numbers(*filters, seed=1))

    def f(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=numbers_of_dimensions)

    own = lm.jit(f)(x, w).numpy()
    with lm.numerics("fast"):
        fast, result = steps_of(f, x, w)
    assert "oneDNN" not in fast
    np.testing.assert_array_equal(result.numpy(), own)


@needs_library
def test_a_jitted_function_has_a_trace_for_each_mode():
    a = lnp.asarray(numbers(40, 40))
    traced = []

    @lm.jit
    def f(x):
        traced.append(1)
        return x @ x

    first = f(a).numpy()
    with lm.numerics("fast"):
        f(a).numpy()
        f(a).numpy()
        with lm.numerics("same"):
            np.testing.assert_array_equal(f(a).numpy(), first)
    np.testing.assert_array_equal(f(a).numpy(), first)
    assert len(traced) == 2


@needs_library
def test_the_mode_is_the_derivative_s_and_the_batch_s():
    a = lnp.asarray(numbers(5, 64, 64))
    with lm.numerics("fast"):
        text, _ = steps_of(lm.vmap(lm.grad(lambda x: lnp.sum(lnp.sin(x @ x)))), a)
    assert text.count(PRODUCT) >= 2 * TAKES_F32


def test_other_threads_keep_theirs():
    seen = []
    with lm.numerics("fast"):
        thread = threading.Thread(target=lambda: seen.append(lm._core.numerics()))
        thread.start()
        thread.join()
        assert lm._core.numerics() == 1
    assert seen == [0]
    assert lm._core.numerics() == 0


def test_a_wrong_mode_says_which_there_are():
    with (
        pytest.raises(ValueError, match="numerics must be 'same' or 'fast', not 'quick'"),
        lm.numerics("quick"),
    ):
        pass


def test_it_decorates_and_restores_after_an_error():
    @lm.numerics("fast")
    def f():
        assert lm._core.numerics() == 1
        raise KeyError("x")

    with pytest.raises(KeyError):
        f()
    assert lm._core.numerics() == 0


def test_without_the_library_the_own_code_serves():
    code = (
        "import lamina as lm, lamina.numpy as lnp, numpy as np\n"
        "a = lnp.arange(12.0).reshape(3, 4)\n"
        "with lm.numerics('fast'):\n"
        "    print((a @ a.T).numpy().tolist())\n"
    )
    env = {**os.environ, "LAMINA_ONEDNN_PATH": "/nowhere/liblamina_onednn.so"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    a = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    assert done.stdout.strip() == str((a @ a.T).tolist())


def test_integers_are_not_the_library_s():
    a = lnp.arange(6, dtype="int32").reshape(2, 3)
    with lm.numerics("fast"):
        assert (a @ a.T).numpy().tolist() == [[5, 14], [14, 50]]


def bits_of_products(a, b):
    """The bits of `a @ b` in both modes, which differ where the library has the product."""
    own = lm.jit(lambda x, y: x @ y)(a, b).numpy().tobytes()
    with lm.numerics("fast"):
        fast = lm.jit(lambda x, y: x @ y)(a, b).numpy().tobytes()
    assert (own != fast) == TAKES_F32
    return own, fast


@needs_library
def test_the_mode_is_that_of_the_recording_not_of_the_moment_of_computing():
    a, b = lnp.asarray(numbers(70, 301)), lnp.asarray(numbers(301, 130, seed=1))
    own, fast = bits_of_products(a, b)
    inner = lm.jit(lambda x, y: x @ y)
    recorded = a @ b
    traced = lm.jit(lambda x, y: inner(x, y)).trace(a, b)
    with lm.numerics("fast"):
        assert recorded.numpy().tobytes() == own
        assert traced.lower().compile()(a, b).numpy().tobytes() == own
        recorded = a @ b
        traced = lm.jit(lambda x, y: inner(x, y)).trace(a, b)
    assert recorded.numpy().tobytes() == fast
    assert traced.lower().compile()(a, b).numpy().tobytes() == fast


@needs_library
@pytest.mark.not_on_cuda(reason="programs for CUDA devices are not kept in files")
@pytest.mark.machine_code
def test_plan_files_keep_the_mode():
    a, b = lnp.asarray(numbers(70, 301)), lnp.asarray(numbers(301, 130, seed=1))
    _, fast = bits_of_products(a, b)
    with lm.numerics("fast"):
        traced = lm.jit(lambda x, y: x @ y).trace(a, b)
    assert lm.plans.loads(lm.plans.dumps(traced))(a, b).numpy().tobytes() == fast
