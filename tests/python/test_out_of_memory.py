"""Where memory runs out, a MemoryError is raised, and what comes after finds everything as it was."""

import os
import subprocess
import sys

import pytest

# The address space is limited to some MiB more than is in use; a lambda of many operations is traced, differentiated
# and batched beneath. Afterwards everything works, and gives what it gave before.
PROGRAM = """
import resource, sys
import lamina as lm, lamina.numpy as lnp

def deep(x):
    for i in range(STEPS):
        x = lnp.sin(x) + x
    return x.sum()

def check():
    f = lambda x: (lnp.cos(x) * 2 + lnp.exp(x)).sum()
    x = lnp.arange(4.0)
    return [float(lm.jit(f)(x)), lm.grad(f)(x).tolist(), lm.vmap(f)(lnp.ones((2, 3))).tolist()]

def in_use():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[0]) * resource.getpagesize()

lm.jit(lambda x: x * 2)(lnp.ones(3)).numpy()
want, x = check(), lnp.ones(3)
import gc
gc.collect()
nodes = lm.cache.stats()["live_nodes"]
resource.setrlimit(resource.RLIMIT_AS, (in_use() + (MIB << 20), resource.RLIM_INFINITY))
raised = "nothing"
try:
    WHAT(deep)(ARGUMENT)
except MemoryError:
    raised = "MemoryError"
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert check() == want
gc.collect()
left = lm.cache.stats()["live_nodes"] - nodes
print(raised, left)
"""


def run(what, mib, steps, argument="x"):
    text = PROGRAM.replace("WHAT", what).replace("MIB", str(mib)).replace("STEPS", str(steps))
    done = subprocess.run(
        [sys.executable, "-c", text.replace("ARGUMENT", argument)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, (what, mib, done.returncode, done.stderr[-2000:])
    raised, left = done.stdout.split()
    return raised, int(left)


@pytest.mark.parametrize("mib", [1, 4, 12, 24])
def test_a_trace_that_runs_out_of_memory_raises(mib):
    raised, left = run("lm.jit", mib, 200_000)
    assert raised == "MemoryError"
    assert left < 100


@pytest.mark.parametrize(
    ("what", "argument"),
    [("lm.grad", "x"), ("lm.jit(lm.grad", "x"), ("lm.vmap", "lnp.ones((3, 2))"), ("", "x")],
    ids=["grad", "jit of grad", "vmap", "plain"],
)
def test_transforms_that_run_out_of_memory_raise(what, argument):
    call = what if what.count("(") == 0 else f"(lambda f: {what}(f)))"
    raised, _ = run(call, 8, 100_000, argument)
    assert raised in ("MemoryError", "nothing")


# LLVM is not called where it would find no memory; the interpreter gives the same bits, and the first run that
# finds memory again is compiled.
COMPILE = """
import resource
import lamina as lm, lamina.numpy as lnp
from lamina import _core

def in_use():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[0]) * resource.getpagesize()

f, x = lm.jit(lambda x: lnp.exp(x) * 2 + x.sum()), lnp.arange(1000.0)
want = f(x).tolist()
_core.set_eager_compile(True)
for loaded in (False, True):
    before = lm.cache.stats()["kernel_compiles"]
    resource.setrlimit(resource.RLIMIT_AS, (in_use() + (40 << 20), resource.RLIM_INFINITY))
    g = lm.jit(lambda x: (lnp.cos if loaded else lnp.exp)(x) * 2 - x.sum())
    short = g(x).tolist()
    assert lm.cache.stats()["kernel_compiles"] == before
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert g(x).tolist() == short
    assert lm.cache.stats()["kernel_compiles"] > before
assert f(x).tolist() == want
print("done")
"""


@pytest.mark.machine_code
def test_a_compile_that_finds_no_memory_is_put_off(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", COMPILE],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"LAMINA_CACHE_DIR": str(tmp_path)},
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-2000:]


@pytest.mark.slow
@pytest.mark.parametrize("mib", range(0, 64))
@pytest.mark.parametrize("what", ["lm.jit", "lm.grad", "lm.vmap"])
def test_every_limit_is_survived(what, mib):
    run(what, mib, 50_000, "lnp.ones((3, 2))" if what == "lm.vmap" else "x")
