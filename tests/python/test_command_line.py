"""The command line runs a script and shows its cache."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys

import pytest
from device_support import ON_CUDA

SCRIPT = """
import lamina as lm, lamina.numpy as lnp

@lm.jit
def scaled(x):
    return x * 3.0

for n in (4, 5):
    scaled(lnp.ones((n, 2)))
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return str(path)


def lamina(*arguments):
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    return subprocess.run(
        [sys.executable, "-m", "lamina", *arguments], env=env, capture_output=True, text=True
    )


def test_show_and_json(script):
    out = lamina("cache", "show", script)
    assert out.returncode == 0
    assert "train.py:4 scaled" in out.stdout
    assert "f32[4,2] -> f32[5,2]" in out.stdout
    data = json.loads(lamina("cache", "show", "--json", script).stdout)
    assert {"f32[4,2] -> f32[5,2]" in e["reason"] for e in data["entries"] if e["name"] == "scaled"} == {
        True,
        False,
    }


def test_explain(script):
    out = lamina("cache", "explain", "last", script)
    assert out.returncode == 0
    assert "f32[4,2] -> f32[5,2]" in out.stdout
    assert "multiply" in out.stdout
    wrong = lamina("cache", "explain", "999", script)
    assert wrong.returncode == 1
    assert "no entry" in wrong.stderr


@pytest.mark.machine_code
def test_every_stage_of_an_entry_is_shown(script):
    shown = {
        stage: lamina("cache", "explain", "--stage", stage, "last", script)
        for stage in ("plan", "kernels", "ir", "assembly")
    }
    seen = {stage: out.stdout for stage, out in shown.items()}
    assert "place p0: " in seen["plan"] and "step 0: loop" in seen["plan"] and " writes p" in seen["plan"]
    assert seen["kernels"].startswith("// step 0\nkernel 1 parallel 1 reduce 0")
    kernel, schedule = seen["kernels"].rstrip().rsplit("\n", 1)
    assert kernel.endswith("\nend")
    if ON_CUDA:
        assert schedule.startswith("schedule grid form=elements")
        assert "the PTX is shown, as assembly" in shown["ir"].stderr
        assert ".entry lamina_kernel(" in seen["assembly"]
        return
    assert schedule == "schedule cpu reduce=along"
    assert "define i32 @lamina_kernel" in seen["ir"]
    assert "lamina_kernel:" in seen["assembly"]


def test_kernels_of_loops_and_branches_are_listed_under_their_steps():
    import lamina as lm
    from lamina import lax
    from lamina import numpy as lnp

    def f(x):
        def step(c, _):
            return lax.cond(lnp.sum(c) > 10.0, lambda c: c @ c, lambda c: lnp.sin(c) @ c, c), lnp.max(c)

        return lax.scan(step, x, None, length=3)

    # So many numbers do not fit the registers of one kernel.
    compiled = lm.jit(f).lower(lnp.ones((12, 12))).compile()
    text = compiled.as_text("kernels")
    assert text.count("kernel 1 ") == text.count("// step ") >= 3
    assert "// step 0 / " in text and text.count("\nreduce ") >= 2
    assert compiled.as_text() == compiled.as_text("steps")
    assert compiled.as_text("steps").startswith("step 0: scan of 3")
    (entry,) = (e["id"] for e in lm.cache.entries() if "test_command_line" in e["where"])
    assert lm.cache.listing(entry, "kernels") == text
    with pytest.raises(
        ValueError, match="there is no stage 'llvm'; there are steps, plan, kernels, ir, assembly"
    ):
        lm.cache.listing(entry, "llvm")
    with pytest.raises(KeyError):
        lm.cache.listing(10**9)


@pytest.mark.machine_code
def test_doctor():
    out = lamina("doctor")
    assert out.returncode == 0, out.stdout
    assert "code generator    found" in out.stdout


def findings(fails=False, **variables):
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), LAMINA_DEFAULT_DEVICE="cpu")
    env.update(variables)
    out = subprocess.run([sys.executable, "-m", "lamina", "doctor"], env=env, capture_output=True, text=True)
    assert out.returncode == fails, out.stderr
    return {line[:18].strip(): line[18:] for line in out.stdout.splitlines()}


def test_doctor_says_what_is_missing_and_why():
    nowhere = "/nowhere/library.so"
    found = findings(
        LAMINA_LLVM_PATH=nowhere,
        LAMINA_ONEDNN_PATH=nowhere,
        LAMINA_CUDA_DRIVER=nowhere,
        LAMINA_ISA="baseline",
    )
    for what in "code generator", "oneDNN", "CUDA":
        assert found[what].startswith("missing: ") and nowhere in found[what]
    assert found["instruction set"] == "baseline" and found["arithmetic"] == "works"
    assert "LAMINA_CUDA_DRIVER names" in found["CUDA"]


def test_doctor_says_that_the_default_device_is_missing():
    found = findings(fails=True, LAMINA_DEFAULT_DEVICE="cuda", LAMINA_CUDA_DRIVER="/nowhere/library.so")
    assert found["CUDA"].startswith("missing: ")
    assert found["arithmetic"].startswith("fails: LAMINA_DEFAULT_DEVICE: there is no device 'cuda': ")


def test_doctor_names_the_devices_of_cuda(cuda_standin):
    found = findings(
        LAMINA_CUDA_DRIVER=cuda_standin,
        LAMINA_CUBLASLT=cuda_standin,
        LAMINA_CUDNN=cuda_standin,
        LAMINA_CUFFT=cuda_standin,
        LAMINA_CUSOLVER=cuda_standin,
        LAMINA_CUBLAS=cuda_standin,
        LAMINA_STANDIN_DEVICES="2",
    )
    assert found["CUDA"] == f"found: {cuda_standin}, for CUDA 12.4"
    for device in "cuda:0", "cuda:1":
        assert found[device] == "stand-in, compute capability 9.0, 4 multiprocessors, 1.0 GiB"
    assert found["matrix products"] == f"{cuda_standin}, version 12.4.2"
    assert found["convolutions"] == f"{cuda_standin}, version 9.19.0"
    assert found["transforms (FFT)"] == f"{cuda_standin}, version 11.2.3"
    assert found["factorizations"] == f"{cuda_standin}, version 11.6.2"
    assert found["triangular solves"] == f"{cuda_standin}, version 12.4.2"
    nowhere = "/nowhere/libcublasLt.so"
    found = findings(
        LAMINA_CUDA_DRIVER=cuda_standin,
        LAMINA_CUBLASLT=nowhere,
        LAMINA_CUDNN="",
        LAMINA_CUFFT="",
        LAMINA_CUSOLVER="",
        LAMINA_CUBLAS="",
    )
    assert found["convolutions"] == "our own kernels: LAMINA_CUDNN says that there is none"
    assert found["transforms (FFT)"] == "on the host: LAMINA_CUFFT says that there is none"
    assert found["factorizations"] == "on the host: LAMINA_CUSOLVER says that there is none"
    assert found["triangular solves"] == "on the host: LAMINA_CUBLAS says that there is none"
    assert found["matrix products"] == (
        f"our own kernels: {nowhere}, which LAMINA_CUBLASLT names, cannot be loaded"
    )
    found = findings(LAMINA_CUDA_DRIVER=cuda_standin, LAMINA_STANDIN_INIT="100")
    assert found["CUDA"] == f"missing: the NVIDIA driver {cuda_standin} sees no device"
    found = findings(LAMINA_CUDA_DRIVER=cuda_standin, LAMINA_STANDIN_CAPABILITY="61")
    assert "compute capability is 6.1, and 7.5 is the lowest" in found["CUDA"]


STEPS = """
import lamina as lm, lamina.numpy as lnp
from lamina import _core

_core.set_eager_compile(True)
x = lm.jit(lambda x: lnp.sum(lnp.sin(x) * 2.0 + 1.0))(lnp.arange(1000.0))
print(float(x), lm.cache.stats()["kernel_compiles"], lm.cache.stats()["kernel_loads"])
"""


def with_directory(directory, *command):
    """On the host, whose kernels the files below are."""
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path), LAMINA_CACHE_DIR=str(directory))
    env["LAMINA_DEFAULT_DEVICE"] = "cpu"
    done = subprocess.run([sys.executable, *command], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.machine_code
def test_kernels_are_kept_between_processes(tmp_path):
    directory = tmp_path / "kept"
    first = with_directory(directory, "-c", STEPS).split()
    second = with_directory(directory, "-c", STEPS).split()
    assert first[0] == second[0]
    assert int(first[1]) > 0 and first[2] == "0"
    assert second[1] == "0" and second[2] == first[1]
    assert directory.stat().st_mode & 0o777 == 0o700
    files = list(directory.iterdir())
    assert len(files) == int(first[1])
    assert all(f.stat().st_mode & 0o777 == 0o600 for f in files)


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "harm",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: b"",
        lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
        lambda data: data + b"x",
    ],
    ids=["half", "last byte", "empty", "key", "longer"],
)
def test_harmed_kernels_are_not_used(tmp_path, harm):
    directory = tmp_path / "kept"
    first = with_directory(directory, "-c", STEPS).split()
    for f in directory.iterdir():
        f.write_bytes(harm(f.read_bytes()))
    assert with_directory(directory, "-c", STEPS).split() == first
    assert with_directory(directory, "-c", STEPS).split()[1] == "0"  # made good


WITHOUT_LLVM = """
import hashlib
import numpy as np
import lamina as lm, lamina.numpy as lnp

def f(w, x):
    y = lnp.tanh(x @ w) + lnp.sin(x).sum(axis=0)
    return lnp.mean(y * y), lnp.argmax(y, axis=1), lnp.sort(lnp.exp(-y), axis=0)

r = np.random.default_rng(0)
w, x = (r.standard_normal(s).astype(np.float32) for s in ((40, 40), (300, 40)))
out = lm.tree.tree_leaves((lm.jit(lm.value_and_grad(lambda w, x: f(w, x)[0]))(w, x), lm.jit(f)(w, x)))
bits = hashlib.sha256(b"".join(np.asarray(o).tobytes() for o in out)).hexdigest()
s = lm.cache.stats()
print(bits, s["kernel_compiles"], s["kernel_loads"], s["interpreted_runs"], "llvm" in open("/proc/self/maps").read())
"""


@pytest.mark.machine_code
@pytest.mark.skipif(platform.machine() != "x86_64", reason="elsewhere the code generator links what is kept")
def test_kept_kernels_run_without_llvm(tmp_path, monkeypatch):
    monkeypatch.setenv("LAMINA_COMPILE", "first")
    monkeypatch.delenv("LAMINA_ISA", raising=False)
    directory = tmp_path / "kept"
    cold = with_directory(directory, "-c", WITHOUT_LLVM).split()
    warm = with_directory(directory, "-c", WITHOUT_LLVM).split()
    assert int(cold[1]) > 3 and cold[2:] == ["0", "0", "True"]
    assert warm == [cold[0], "0", cold[1], "0", "False"]
    # A machine that has less is another machine.
    monkeypatch.setenv("LAMINA_ISA", "avx2")
    assert with_directory(directory, "-c", WITHOUT_LLVM).split() == cold
    assert with_directory(directory, "-c", WITHOUT_LLVM).split() == warm


@pytest.mark.machine_code
def test_what_others_can_write_is_not_used(tmp_path):
    directory = tmp_path / "kept"
    first = with_directory(directory, "-c", STEPS).split()
    directory.chmod(0o777)
    assert with_directory(directory, "-c", STEPS).split() == first
    assert "can be written" in with_directory(directory, "-m", "lamina", "doctor")
    directory.chmod(0o700)
    for f in directory.iterdir():
        f.chmod(0o666)
    assert with_directory(directory, "-c", STEPS).split() == first
    (tmp_path / "file").write_text("")
    assert with_directory(tmp_path / "file", "-c", STEPS).split() == first


@pytest.mark.machine_code
def test_clear_removes_kept_kernels(tmp_path):
    directory = tmp_path / "kept"
    count = with_directory(directory, "-c", STEPS).split()[1]
    (directory / "else.txt").write_text("stays")
    assert f": {count} kernels" in with_directory(directory, "-m", "lamina", "doctor")
    count = len(list(directory.glob("*.kernel")))  # with those of the doctor
    assert f"removed {count} kernels" in with_directory(directory, "-m", "lamina", "cache", "clear")
    assert [f.name for f in directory.iterdir()] == ["else.txt"]
    assert "removed 0 kernels" in with_directory(directory, "-m", "lamina", "cache", "clear")


@pytest.mark.not_on_cuda(reason="programs for CUDA devices are not kept in files")
@pytest.mark.machine_code
def test_a_plan_file_is_shown(tmp_path):
    import lamina as lm
    import lamina.numpy as lnp

    path = tmp_path / "f.plan"
    lm.jit(lambda w: lnp.tanh(w) + 1).lower(lnp.ones(5)).compile().save(path)
    out = lamina("plan", str(path))
    assert out.returncode == 0, out.stderr
    assert "argument w: f32[5]" in out.stdout and "1 kernels in" in out.stdout
    assert "tanh(p0)" in lamina("plan", "--stage", "program", str(path)).stdout
    assert "step 0: loop" in lamina("plan", "--stage", "steps", str(path)).stdout
    path.write_bytes(path.read_bytes()[:-3])
    out = lamina("plan", str(path))
    assert out.returncode == 1 and "f.plan: the plan file is cut short" in out.stderr
