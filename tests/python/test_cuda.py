"""CUDA devices from Python: on the stand-in for their driver (tests/jit/cuda_standin), and on a machine without it."""

import ctypes
import os
import subprocess
import sys
import textwrap

import pytest

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


def run(program, **variables):
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), **variables)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_programs_have_the_bits_of_the_host(cuda_standin):
    run(PROGRAM, LAMINA_CUDA_DRIVER=cuda_standin)


def test_the_default_device_may_be_one_of_cuda(cuda_standin):
    program = """
        import lamina.numpy as lnp
        x = lnp.linspace(0.0, 1.0, 1000)
        assert x.device == "cuda:0" and abs(float(lnp.sum(lnp.sin(x))) - 459.697) < 0.1
    """
    run(program, LAMINA_CUDA_DRIVER=cuda_standin, LAMINA_DEFAULT_DEVICE="cuda")


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
        steps = lm.jit(lambda x: lnp.tanh(x @ x.T)).lower(x).compile().as_text("steps")
        assert "dot_general as loop" in steps and "on the host" not in steps, steps
    """
    run(program, LAMINA_CUDA_DRIVER=cuda_standin, LAMINA_DEFAULT_DEVICE="cuda")


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
    out = run(program, LAMINA_CUDA_DRIVER="/nowhere/libcuda.so.1").splitlines()
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
