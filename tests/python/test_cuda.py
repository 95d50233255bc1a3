"""CUDA devices from Python: on the stand-in for their driver (tests/jit/cuda_standin), and on a machine without it."""

import ctypes
import os
import textwrap

import pytest
from cuda_support import run

PROGRAM = """
    import lamina as lm
    import lamina.numpy as lnp
    import numpy as np

    first, second = lm.devices("cuda")
    assert first == "cuda" and first.platform == "cuda" and second == "cuda:1"

    def loss(x, w):
        return lnp.mean(lnp.tanh(x @ w) ** 2)

    def step(state, x):
        return state * 0.5 + x, lnp.sort(state)[0]

    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(7, 5)).astype("f4"), rng.normal(size=(5, 3)).astype("f4")
    results = {}
    for name in ("cpu:0", "cuda:0", "cuda:1"):
        a, b = lm.device_put((x, w), name)
        value, slope = lm.jit(lm.value_and_grad(loss, argnums=1))(a, b)
        lanes = lm.vmap(lambda row: lnp.sum(row * row))(a)
        carry, seen = lm.lax.scan(step, b, lnp.ones((6, 5, 3)))
        integers = lnp.cumsum(lm.device_put(np.arange(9), name))[::2]
        values = [value, slope, lanes, carry, seen, integers]
        assert all(v.device == name for v in values), [v.device for v in values]
        results[name] = [np.asarray(v).tobytes() for v in values]
    assert results["cuda:0"] == results["cuda:1"] == results["cpu:0"]

    here, there = lm.device_put(x, first), lm.device_put(x, second)
    try:
        here + there
        raise SystemExit("two devices in one operation")
    except ValueError:
        pass
    assert (here.to_device(second) + there).device == second
    assert first.memory_stats()["bytes_in_use"] > 0
"""


def test_programs_have_the_bits_of_the_host(cuda_standin):
    run(PROGRAM, LAMINA_CUDA_DRIVER=cuda_standin)


def test_the_default_device_may_be_one_of_cuda(cuda_standin):
    program = """
        import lamina.numpy as lnp
        x = lnp.linspace(0.0, 1.0, 1000)
        assert x.device == "cuda:0" and abs(float(lnp.sum(lnp.sin(x))) - 459.697) < 0.1
    """
    run(program, LAMINA_CUDA_DRIVER=cuda_standin, LAMINA_DEFAULT_DEVICE="cuda")


def test_results_lie_where_donated_arguments_lay(cuda_standin):
    program = """
        import lamina as lm
        import lamina.numpy as lnp
        import numpy as np

        bytes = 4 * 512 * 512
        rng = np.random.default_rng(0)
        start = [lm.device_put(rng.normal(size=(512, 512)).astype("f4"), "cuda:0") for _ in range(2)]

        def step(w, m, x):
            m = 0.9 * m + lnp.sin(w)
            return w - 0.01 * m / (1.0 + abs(m)), m, lnp.sum(x) + lnp.cumsum(m, 0)[-1]

        x = lm.device_put(np.ones(3, "f4"), "cuda:0")
        want = lm.jit(step)(*start, x)
        giving = lm.jit(step, donate_argnums=(0, 1))
        got = giving(*(lm.device_put(np.asarray(v), "cuda:0") for v in start), x)
        for a, b in zip(want, got):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
        w, m, _ = got
        del start, want, got
        lm.block_until_ready(w)
        lm._core.reset_peak_bytes()
        held = lm.devices("cuda")[0].memory_stats()["bytes_in_use"]
        w, m, _ = giving(w, m, x)
        lm.block_until_ready(w)
        more = lm.devices("cuda")[0].memory_stats()["peak_bytes_in_use"] - held
        assert more < 1.5 * bytes, more  # the sums
    """
    run(program, LAMINA_CUDA_DRIVER=cuda_standin, LAMINA_DEFAULT_DEVICE="cuda")


def test_a_loop_of_thousands_of_steps_within_a_kernel(cuda_standin):
    program = """
        import lamina as lm
        import lamina.numpy as lnp
        import numpy as np

        def f(x, n):
            step = lambda s: (s[0] + 1, s[1] * 0.5 + x)
            return lm.lax.while_loop(lambda s: s[0] < n, step, (0, x))[1]

        x, n = np.linspace(0.3, 0.8, 70), np.int32(5000)
        here, there = (lm.jit(f)(*lm.device_put((x, n), name)) for name in ("cpu:0", "cuda:0"))
        assert np.asarray(here).tobytes() == np.asarray(there).tobytes()
        np.testing.assert_allclose(np.asarray(there), 2 * x)
    """
    run(program, LAMINA_CUDA_DRIVER=cuda_standin)


@pytest.mark.machine_code
def test_kernels_run_there_and_are_shown_as_ptx(cuda_standin):
    program = """
        import lamina as lm
        import lamina.numpy as lnp

        f = lm.jit(lambda x: lnp.sum(lnp.tanh(x) * 2.0, axis=1))
        x = lm.device_put(lnp.ones((10, 300)), "cuda")
        compiled = f.lower(x).compile()
        steps = compiled.as_text("steps")
        assert "schedule grid form=half_warp" in steps and "on the host" not in steps, steps
        assert ".visible .entry lamina_kernel" in compiled.as_text("assembly")
        assert "kernel 1 parallel" in compiled.as_text("kernels")
        before = lm.cache.stats()
        compiled(x).block_until_ready()
        compiled(x).block_until_ready()
        after = lm.cache.stats()
        assert after["compiled_runs"] == before["compiled_runs"] + 2
        assert after["kernels"] == before["kernels"] >= 1 and before["kernel_compiles"] >= 1
        steps = lm.jit(lambda x: lnp.tanh(x @ x.T)).lower(x).compile().as_text("steps")
        assert "dot_general as loop" in steps and "on the host" not in steps, steps
    """
    run(program, LAMINA_CUDA_DRIVER=cuda_standin, LAMINA_DEFAULT_DEVICE="cuda")


PRODUCTS = """
    import lamina as lm
    import lamina.numpy as lnp
    import numpy as np

    def loss(weights, x):
        for w, b in weights[:-1]:
            x = lnp.maximum(x @ w + b, 0)
        w, b = weights[-1]
        return lnp.mean((x @ w + b) ** 2)

    def newest_steps():
        return lm.cache.listing(max(e["id"] for e in lm.cache.entries()), "steps")

    rng = np.random.default_rng(0)
    sizes = [128, 160, 96]
    weights = [(rng.normal(size=s).astype("f4"), np.zeros(s[1], "f4")) for s in zip(sizes, sizes[1:])]
    x = rng.normal(size=(96, 128)).astype("f4")
    step = lm.jit(lm.value_and_grad(loss))
    results = {}
    for name in ("cpu:0", "cuda:0"):
        value, slopes = step(lm.device_put(weights, name), lm.device_put(x, name))
        results[name] = [np.asarray(t).tobytes() for t in [value, *(t for layer in slopes for t in layer)]]
    # The stand-in adds in the order of the CPU.
    assert results["cuda:0"] == results["cpu:0"]
    steps = newest_steps()
    # Forward two, backward three, none of them on transposed copies.
    assert steps.count("dot by cublasLt 12.4.2 in f32") == 5, steps
    assert "dot_general as loop" not in steps and "on the host" not in steps, steps

    rows = lm.device_put(rng.normal(size=(4, 64, 100)).astype("f4"), "cuda:0")
    lanes = lm.jit(lm.vmap(lambda a: a @ a.T))
    there = np.asarray(lanes(rows))
    steps = newest_steps()
    assert steps.count("dot by cublasLt") == 1, steps
    assert there.tobytes() == np.asarray(lanes(lm.device_put(rows, "cpu:0"))).tobytes()

    @lm.jit
    def fast(a):
        with lm.numerics("fast"):
            return a @ a

    square = lm.device_put(rng.normal(size=(128, 128)).astype("f4"), "cuda:0")
    exact, found = np.asarray(square) @ np.asarray(square), np.asarray(fast(square))
    assert "in tf32" in newest_steps()
    assert 1e-5 < np.abs(found - exact).max() < 0.1
"""


@pytest.mark.machine_code
def test_large_products_are_calls_of_cublaslt(cuda_standin):
    run(PRODUCTS, LAMINA_CUDA_DRIVER=cuda_standin)


BYTES = """
    import os
    import lamina as lm
    import lamina.numpy as lnp
    import numpy as np

    def newest_steps():
        return lm.cache.listing(max(e["id"] for e in lm.cache.entries()), "steps")

    rng = np.random.default_rng(0)
    x, w = (rng.integers(-128, 128, size=(128, 128)).astype("i1") for _ in range(2))
    product = lm.jit(lambda x, w: lnp.matmul(x, w, preferred_element_type="int32"))
    found = np.asarray(product(lm.device_put(x, "cuda:0"), lm.device_put(w, "cuda:0")))
    assert (found == x.astype("i4") @ w.astype("i4")).all()
    assert "dot by cublasLt" in newest_steps() and "s8[128,128] s8[128,128]" in newest_steps()

    # Floats of one byte are multiplied as they are from compute capability 8.9 on.
    a, b = (lm.device_put(lnp.asarray(rng.normal(size=(128, 128))).astype("float8_e4m3fn"), "cuda:0") for _ in range(2))

    @lm.jit
    def fast(x, w):
        with lm.numerics("fast"):
            return lnp.matmul(x, w.T, preferred_element_type="float32")

    found, steps = np.asarray(fast(a, b)), newest_steps()
    want = np.asarray(a.astype("float32")) @ np.asarray(b.astype("float32")).T
    assert np.abs(found - want).max() < 1e-3
    is_new = os.environ["LAMINA_STANDIN_CAPABILITY"] == "90"
    assert "dot by cublasLt" in steps, steps
    assert ("f8e4m3fn[128,128] f8e4m3fn[128,128]" in steps) == is_new, steps
"""


@pytest.mark.machine_code
@pytest.mark.parametrize("capability", ["80", "90"])
def test_products_of_bytes_are_calls_of_cublaslt(cuda_standin, capability):
    run(BYTES, LAMINA_CUDA_DRIVER=cuda_standin, LAMINA_STANDIN_CAPABILITY=capability)


GRAPHS = """
    import lamina as lm
    import lamina.numpy as lnp
    import numpy as np

    def step(weights, x):
        def loss(w):
            return lnp.mean((lnp.tanh(x @ w["a"]) @ w["b"]) ** 2)

        value, slopes = lm.value_and_grad(loss)(weights)
        return {k: weights[k] - 0.1 * slopes[k] for k in weights}, value

    rng = np.random.default_rng(0)
    weights = {"a": rng.normal(size=(24, 16)).astype("f4"), "b": rng.normal(size=(16, 3)).astype("f4")}
    x = rng.normal(size=(40, 24)).astype("f4")

    def train(device, keep, **options):
        jitted = lm.jit(step, **options)
        w, batch, losses = lm.device_put(weights, device), lm.device_put(x, device), []
        for _ in range(12):
            w, value = jitted(w, batch)
            losses.append(value if keep else float(value))
        return [np.asarray(v).tobytes() for v in (*w.values(), *losses)]

    for keep in (False, True):
        for options in ({}, {"donate_argnums": 0}):
            want = train("cpu:0", keep, **options)
            before = lm.cache.stats()
            assert train("cuda:0", keep, **options) == want
            after = lm.cache.stats()
            ran = {k: after[k] - before[k] for k in ("graphs", "graph_runs", "graphs_refused")}
            assert ran["graphs"] <= 8 and ran["graph_runs"] >= 6 and ran["graphs_refused"] == 0, ran
"""


@pytest.mark.machine_code
def test_steps_of_a_training_loop_are_graphs(cuda_standin):
    run(GRAPHS, LAMINA_CUDA_DRIVER=cuda_standin)


@pytest.mark.machine_code
def test_without_cublaslt_our_kernels_multiply(cuda_standin):
    program = """
        import lamina as lm
        import lamina.numpy as lnp

        x = lm.device_put(lnp.ones((128, 128)), "cuda")
        lm.jit(lambda x: x @ x)(x).block_until_ready()
        steps = lm.cache.listing(max(e["id"] for e in lm.cache.entries()), "steps")
        assert "dot_general as loop" in steps, steps
        assert "without cublasLt: LAMINA_CUBLASLT says that there is none" in steps, steps
    """
    run(program, LAMINA_CUDA_DRIVER=cuda_standin, LAMINA_CUBLASLT="")


@pytest.mark.machine_code
def test_fourier_transforms_by_a_library(cuda_standin):
    program = """
        import lamina as lm
        import lamina.numpy as lnp
        import numpy as np

        rng = np.random.default_rng(0)
        x = rng.normal(size=(3, 20, 18)).astype("f4")
        z = (x + 1j * rng.normal(size=x.shape)).astype("c8")
        for name, a, options in [
            ("fft", z, {}), ("ifft", z, dict(axis=1)), ("rfft", x, dict(n=17)), ("irfft", z, dict(norm="ortho")),
            ("fft2", z, {}), ("ifftn", z, {}), ("rfft2", x, {}), ("irfftn", z, {}), ("fft", z, dict(n=67)),
        ]:
            call = lm.jit(lambda v: getattr(lnp.fft, name)(v, **options))
            there = call(lm.device_put(a, "cuda:0"))
            assert there.device == "cuda:0"
            want = getattr(np.fft, name)(a.astype("c16" if a.dtype.kind == "c" else "f8"), **options)
            np.testing.assert_allclose(np.asarray(there), want, rtol=1e-5, atol=2e-5 * np.abs(want).max())
            steps = lm.cache.listing(max(e["id"] for e in lm.cache.entries()), "steps")
            called = dict(fft2="fft2", rfft2="rfft2", ifftn="ifft3").get(name, "fft")
            assert f"{called} by cuFFT 11.2.3" in steps and "on the host" not in steps, steps
            assert called == "fft" or steps.count("cuFFT") == 1, steps

        def power(v):
            return lnp.sum(lnp.abs(lnp.fft.rfft(v)) ** 2)

        slope = lm.jit(lm.grad(power))
        here, there = (np.asarray(slope(lm.device_put(x, d))) for d in ("cpu:0", "cuda:0"))
        np.testing.assert_allclose(there, here, rtol=1e-5, atol=1e-4)
        steps = lm.cache.listing(max(e["id"] for e in lm.cache.entries()), "steps")
        assert "on the host" not in steps, steps
    """
    run(program, LAMINA_CUDA_DRIVER=cuda_standin)


@pytest.mark.machine_code
def test_fourier_transforms_without_a_library(cuda_standin):
    program = """
        import lamina as lm
        import lamina.numpy as lnp
        import numpy as np

        z = np.arange(24).reshape(2, 12).astype("c8")
        there = lm.jit(lnp.fft.fft)(lm.device_put(z, "cuda:0"))
        np.testing.assert_allclose(np.asarray(there), np.fft.fft(z), rtol=1e-5, atol=1e-4)
        steps = lm.cache.listing(max(e["id"] for e in lm.cache.entries()), "steps")
        assert "on the host: no form for it on CUDA, without cuFFT: LAMINA_CUFFT says" in steps, steps
    """
    run(program, LAMINA_CUDA_DRIVER=cuda_standin, LAMINA_CUFFT="")


@pytest.mark.machine_code
def test_factorizations_by_a_library(cuda_standin):
    program = """
        import lamina as lm
        import lamina.numpy as lnp
        import numpy as np

        rng = np.random.default_rng(0)
        r = rng.normal(size=(3, 12, 12))
        a = (r @ r.swapaxes(1, 2) + 12 * np.eye(12)).astype("f4")

        def steps_and_results(f, x):
            call = lm.jit(f)
            there = lm.tree.tree_leaves(call(lm.device_put(x, "cuda:0")))
            assert all(t.device == "cuda:0" for t in there)
            return lm.cache.listing(max(e["id"] for e in lm.cache.entries()), "steps"), map(np.asarray, there)

        steps, (factor,) = steps_and_results(lnp.linalg.cholesky, a)
        assert "cholesky by cuSOLVER 11.6.2 in f64, 3 of 12 rows" in steps and "on the host" not in steps, steps
        np.testing.assert_allclose(factor, np.linalg.cholesky(a.astype("f8")), rtol=1e-6, atol=1e-6)

        steps, (values, vectors) = steps_and_results(lnp.linalg.eigh, a)
        assert "eigh by cuSOLVER" in steps and "on the host" not in steps, steps
        np.testing.assert_allclose(values, np.linalg.eigh(a.astype("f8"))[0], rtol=1e-6)
        np.testing.assert_allclose(vectors * values[:, None] @ vectors.swapaxes(1, 2), a, atol=1e-4)

        a[1] -= 40 * np.eye(12, dtype="f4")
        steps, (factor,) = steps_and_results(lnp.linalg.cholesky, a)
        assert np.isnan(factor[1]).any() and np.isfinite(factor[[0, 2]]).all()

        def size(m):
            return lnp.sum(lnp.log(lnp.diagonal(lnp.linalg.cholesky(m), axis1=1, axis2=2)))

        steps, (slope,) = steps_and_results(lm.grad(size), a[[0, 2]])
        assert "by cuSOLVER" in steps, steps
        np.testing.assert_allclose(slope, np.linalg.inv(a[[0, 2]].astype("f8")) / 2, rtol=1e-4, atol=1e-6)
    """
    run(program, LAMINA_CUDA_DRIVER=cuda_standin)


@pytest.mark.machine_code
def test_systems_and_determinants_by_a_library(cuda_standin):
    program = """
        import lamina as lm
        import lamina.numpy as lnp
        import lamina.scipy.linalg as lsl
        import numpy as np

        rng = np.random.default_rng(0)
        a, b = rng.normal(size=(3, 12, 12)), rng.normal(size=(3, 12, 4))

        def there(f, *xs):
            out = lm.tree.tree_leaves(lm.jit(f)(*[lm.device_put(x, "cuda:0") for x in xs]))
            steps = lm.cache.listing(max(e["id"] for e in lm.cache.entries()), "steps")
            assert "on the host" not in steps, steps
            return steps, [np.asarray(x) for x in out]

        steps, (x,) = there(lnp.linalg.solve, a, b)
        assert "solve by cuSOLVER 11.6.2 in f64, 3 of 12 rows" in steps, steps
        np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-9)
        steps, (x,) = there(lnp.linalg.inv, a)
        np.testing.assert_allclose(x, np.linalg.inv(a), rtol=1e-9)
        steps, (x,) = there(lnp.linalg.det, a)
        assert "lu by cuSOLVER" in steps and "det of factors" in steps, steps
        np.testing.assert_allclose(x, np.linalg.det(a), rtol=1e-9)
        steps, (sign, log) = there(lnp.linalg.slogdet, a)
        np.testing.assert_allclose(sign, np.linalg.slogdet(a)[0])
        np.testing.assert_allclose(log, np.linalg.slogdet(a)[1], rtol=1e-9)
        steps, (p, l, u) = there(lsl.lu, a[0, :7])
        np.testing.assert_allclose(p @ l @ u, a[0, :7], atol=1e-12)

        # With derivatives in both modes, and one matrix for several systems.
        steps, (slope,) = there(lm.grad(lambda m: lnp.linalg.slogdet(m)[1]), a[0])
        np.testing.assert_allclose(slope, np.linalg.inv(a[0]).T, rtol=1e-8)
        steps, (slope,) = there(lm.grad(lambda m: lnp.sum(lnp.linalg.solve(m, b[0]))), a[0])
        ones = np.ones((12, 4))
        want = -np.linalg.solve(a[0].T, ones) @ np.linalg.solve(a[0], b[0]).T
        np.testing.assert_allclose(slope, want, rtol=1e-7)
        steps, (x,) = there(lm.vmap(lnp.linalg.solve, (None, 0)), a[0], b)
        np.testing.assert_allclose(x, np.linalg.solve(a[:1], b), rtol=1e-9)
    """
    run(program, LAMINA_CUDA_DRIVER=cuda_standin)


@pytest.mark.machine_code
def test_triangular_systems_by_a_library(cuda_standin):
    program = """
        import lamina as lm
        import lamina.numpy as lnp
        import lamina.scipy.linalg as lsl
        import numpy as np

        rng = np.random.default_rng(0)
        r = rng.normal(size=(12, 12))
        a, b = r @ r.T + 12 * np.eye(12), rng.normal(size=(12, 4))
        c = np.linalg.cholesky(a)

        def there(f, *xs):
            out = lm.jit(f)(*[lm.device_put(x, "cuda:0") for x in xs])
            steps = lm.cache.listing(max(e["id"] for e in lm.cache.entries()), "steps")
            assert "by cuBLAS 12.4.2 in f64" in steps and "on the host" not in steps, steps
            return np.asarray(out)

        x = there(lambda m, y: lsl.solve_triangular(m, y, lower=True), c, b)
        np.testing.assert_allclose(x, np.linalg.solve(c, b), rtol=1e-9)
        x = there(lambda m, y: lsl.solve_triangular(m, y, lower=True, trans=1), c, b)
        np.testing.assert_allclose(x, np.linalg.solve(c.T, b), rtol=1e-9)
        x = there(lambda m, y: lsl.solve_triangular(m, y, lower=True, unit_diagonal=True), c / np.diag(c), b)
        np.testing.assert_allclose(x, np.linalg.solve(c / np.diag(c), b), rtol=1e-9)
        x = there(lambda m, y: lsl.cho_solve((m, True), y), c, b)
        np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-9)
        f = lm.grad(lambda m, y: lnp.sum(lsl.solve_triangular(m, y, lower=True)), 1)
        np.testing.assert_allclose(there(f, c, b), np.linalg.solve(c.T, np.ones((12, 4))), rtol=1e-9)
        x = there(lm.vmap(lambda m, y: lsl.solve_triangular(m, y, lower=True), (None, 1)), c, b)
        np.testing.assert_allclose(x.T, np.linalg.solve(c, b), rtol=1e-9)
    """
    run(program, LAMINA_CUDA_DRIVER=cuda_standin)


@pytest.mark.machine_code
def test_orthogonal_factors_by_a_library(cuda_standin):
    program = """
        import lamina as lm
        import lamina.numpy as lnp
        import numpy as np

        rng = np.random.default_rng(0)
        a = rng.normal(size=(2, 9, 6)) + 1j * rng.normal(size=(2, 9, 6))

        def there(f, x):
            out = lm.tree.tree_leaves(lm.jit(f)(lm.device_put(x, "cuda:0")))
            steps = lm.cache.listing(max(e["id"] for e in lm.cache.entries()), "steps")
            assert "by cuSOLVER 11.6.2 in f64, 2 of" in steps and "on the host" not in steps, steps
            return [np.asarray(x) for x in out]

        for x in (a, a.real, a.swapaxes(1, 2), a.real.swapaxes(1, 2)):
            q, r = there(lnp.linalg.qr, x)
            np.testing.assert_allclose(q @ r, x, atol=1e-12)
            for full in (False, True):
                u, s, v = there(lambda m: lnp.linalg.svd(m, full_matrices=full), x)
                np.testing.assert_allclose(s, np.linalg.svd(x)[1], rtol=1e-12)
                np.testing.assert_allclose(u[:, :, :6] * s[:, None] @ v[:, :6], x, atol=1e-12)
                assert u.shape == np.linalg.svd(x, full)[0].shape and v.shape == np.linalg.svd(x, full)[2].shape
            (s,) = there(lambda m: lnp.linalg.svd(m, compute_uv=False), x)
            np.testing.assert_allclose(s, np.linalg.svd(x)[1], rtol=1e-12)
    """
    run(program, LAMINA_CUDA_DRIVER=cuda_standin)


@pytest.mark.machine_code
def test_factorizations_without_a_library(cuda_standin):
    program = """
        import lamina as lm
        import lamina.numpy as lnp
        import numpy as np

        a = lm.device_put(np.diag(np.arange(1.0, 9.0)), "cuda:0")
        assert np.allclose(np.asarray(lm.jit(lnp.linalg.cholesky)(a)), np.diag(np.arange(1.0, 9.0) ** 0.5))
        steps = lm.cache.listing(max(e["id"] for e in lm.cache.entries()), "steps")
        assert "on the host: no form for it on CUDA, without cuSOLVER: LAMINA_CUSOLVER says" in steps, steps
    """
    run(program, LAMINA_CUDA_DRIVER=cuda_standin, LAMINA_CUSOLVER="")


@pytest.mark.parametrize(("example", "bound"), [("black_scholes", 1e-12), ("newton", 1e-12), ("nbody", 1e-3)])
def test_examples_run_there(example, bound, cuda_standin):
    examples = os.path.join(os.path.dirname(__file__), "..", "..", "examples")
    program = f"""
        import sys
        sys.path.insert(0, {examples!r})
        import {example}, lamina as lm
        assert {example}.main() < {bound}
        assert lm.devices()[0].memory_stats()["peak_bytes_in_use"] > 0
    """
    run(program, LAMINA_CUDA_DRIVER=cuda_standin, LAMINA_DEFAULT_DEVICE="cuda")


TRAINING = {
    "lenet_mnist": """
        params = example.init(random.key(0))
        images, labels = rng.random((32, 1, 28, 28), "f4"), np.arange(32, dtype="i4") % 10
        state = (params, lm.tree.tree_map(lnp.zeros_like, params))
        def train(state):
            *state, value = example.step(*state, images, labels, 0.02)
            return tuple(state), value
    """,
    "char_transformer": """
        params = example.init(random.key(0), 30)
        zeros = lm.tree.tree_map(lnp.zeros_like, params)
        state, text = (params, zeros, zeros, lnp.array(0.0)), rng.integers(0, 30, (3, example.CONTEXT + 1))
        def train(state):
            return example.step(state, text, 0.003)
    """,
}


@pytest.mark.machine_code
@pytest.mark.parametrize("example", TRAINING)
def test_examples_train_there_with_the_bits_of_the_host(example, cuda_standin):
    examples = os.path.join(os.path.dirname(__file__), "..", "..", "examples")
    begin = f"""
        import sys
        sys.path.insert(0, {examples!r})
        import {example} as example
        import lamina as lm
        import lamina.numpy as lnp
        import numpy as np
        from lamina import random

        rng = np.random.default_rng(0)
    """
    end = """
        results = {}
        for device in ("cpu:0", "cuda:0"):
            now = lm.device_put(state, device)
            for _ in range(2):
                now, value = train(now)
            assert value.device == device
            leaves = [value, *lm.tree.tree_leaves(now)]
            results[device] = [np.asarray(leaf).tobytes() for leaf in leaves]
        assert results["cpu:0"] == results["cuda:0"]
        steps = "".join(lm.cache.listing(e["id"], "steps") for e in lm.cache.entries() if "cublasLt" in
                        lm.cache.listing(e["id"], "steps"))
        assert "dot by cublasLt" in steps and "on the host" not in steps, steps
    """
    text = "".join(textwrap.dedent(part) for part in (begin, TRAINING[example], end))
    run(text, LAMINA_CUDA_DRIVER=cuda_standin)


def test_a_forked_child_gets_an_error(cuda_standin):
    program = """
        import os
        import lamina as lm
        import lamina.numpy as lnp

        x = lm.device_put(lnp.arange(5.0), "cuda").block_until_ready()
        child = os.fork()
        if child == 0:
            try:
                print((x + 1).tolist())
            except Exception as e:
                os._exit(0 if "cuda:0 was lost: a process forked" in str(e) else 1)
            os._exit(2)
        assert os.waitpid(child, 0)[1] == 0
        assert x.tolist() == [0, 1, 2, 3, 4]
    """
    run(program, LAMINA_CUDA_DRIVER=cuda_standin)


def test_without_a_driver_one_sentence_says_so():
    program = """
        import lamina as lm
        import lamina.numpy as lnp

        float(lnp.sum(lnp.ones(3)))
        assert "libcuda" not in open("/proc/self/maps").read()
        assert lm.devices("cpu") == ["cpu:0"]
        for ask in (lambda: lm.device_put(lnp.ones(2), "cuda"), lambda: lnp.ones(2, device="cuda:1")):
            try:
                ask()
            except ValueError as e:
                print(str(e).splitlines()[0])
    """
    out = run(program, LAMINA_CUDA_DRIVER="/nowhere/libcuda.so.1", LAMINA_DEFAULT_DEVICE="cpu").splitlines()
    reason = "the CUDA driver that LAMINA_CUDA_DRIVER names cannot be loaded: /nowhere/libcuda.so.1: "
    assert [line.split(reason)[0] for line in out] == [
        f"there is no device '{d}': " for d in ("cuda", "cuda:1")
    ]


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.mark.skipif(has_driver(), reason="the machine has a driver")
def test_a_machine_without_a_driver():
    program = """
        import lamina as lm
        try:
            lm.device_put(1.0, "cuda")
        except ValueError as e:
            print(str(e).splitlines()[0])
    """
    out = run(program, LAMINA_CUDA_DRIVER="")
    assert out == "there is no device 'cuda': no NVIDIA driver: libcuda.so.1 was not found\n"


def test_attention_is_one_call_of_cudnn(cuda_standin):
    program = """
        import lamina as lm
        import lamina.numpy as lnp
        import numpy as np
        from lamina import nn

        def by_hand(q, k, v):
            scores = lnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=lnp.float32) / 8
            weights = nn.softmax(scores, axis=-1).astype(q.dtype)
            return lnp.einsum("bhqk,bkhd->bqhd", weights, v)

        def of_matrices(q, k, v):
            q, k, v = (lnp.swapaxes(x, 1, 2) for x in (q, k, v))
            scores = q @ lnp.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
            past = lnp.tril(lnp.ones((128, 128), bool))
            return nn.softmax(lnp.where(past, scores, -1e9), axis=-1) @ v

        def causal(q, k, v):
            return nn.dot_product_attention(q, k, v, is_causal=True)

        def biased(q, k, v):
            bias = lnp.sin(lnp.arange(2 * 128 * 128.0)).reshape(2, 1, 128, 128)
            return nn.dot_product_attention(q, k, v, bias=bias, scale=0.25)

        def lanes(q, k, v):
            return lm.vmap(nn.dot_product_attention)(*(lnp.stack([x, x + x]) for x in (q, k, v)))

        def slopes(q, k, v):
            return lm.grad(lambda q: nn.dot_product_attention(q, k, v).astype(lnp.float32).sum())(q)

        rng = np.random.default_rng(0)
        q, k, v = (lnp.asarray(rng.normal(size=(2, 128, 4, 64))).astype(lnp.bfloat16) for _ in range(3))

        def check(f, calls):
            compiled = lm.jit(f).lower(q, k, v).compile()
            steps = compiled.as_text("steps")
            assert steps.count("attention by cuDNN") == calls, steps
            assert calls == 0 or "dot" not in steps, steps
            got = np.asarray(compiled(q, k, v).astype(lnp.float32))
            want = np.asarray(lm.jit(f)(*lm.device_put((q, k, v), "cpu:0")).astype(lnp.float32))
            assert np.abs(got - want).max() <= 2**-5, np.abs(got - want).max()

        for f in (nn.dot_product_attention, by_hand, causal, biased, lanes):
            check(f, 1)
        check(slopes, 0)
        check(of_matrices, 0)
        with lm.numerics("fast"):
            check(of_matrices, 1)
    """
    run(program, LAMINA_CUDA_DRIVER=cuda_standin, LAMINA_DEFAULT_DEVICE="cuda")
