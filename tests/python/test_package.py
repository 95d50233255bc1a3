"""What importing costs, what the cache tool shows, and that the process stays well-behaved."""

from __future__ import annotations

import os
import subprocess
import sys

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest


def run(code: str) -> str:
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    return subprocess.run(
        [sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True
    ).stdout


def test_import_is_light():
    out = run(
        "import time; t = time.process_time(); import lamina; cpu = time.process_time() - t; import sys;"
        "maps = open('/proc/self/maps').read();"
        "print('numpy' in sys.modules, 'liblamina_llvm' in maps, cpu < 0.5)"
    )
    assert out.split() == ["False", "False", "True"]


@pytest.mark.not_on_cuda(reason="kernels are not interpreted there: a program has code from the first run on")
def test_llvm_loads_at_the_first_compile_only():
    out = run(
        "import lamina as lm, lamina.numpy as lnp\n"
        "loaded = lambda: 'liblamina_llvm' in open('/proc/self/maps').read()\n"
        "(lnp.ones(3) + 1).numpy(); a = loaded()\n"
        "lm._core.set_eager_compile(True); (lnp.ones(3) * 3).numpy(); print(a, loaded())"
    )
    assert out.split() == ["False", "True"]


def test_no_page_is_writable_and_executable():
    # In a process of its own: oneDNN, which `fast` numerics load, does not keep to this.
    out = run(
        "import lamina as lm, lamina.numpy as lnp\n"
        "lm._core.set_eager_compile(True); lnp.sin(lnp.ones(5)).numpy()\n"
        "(lnp.ones((90, 90)) @ lnp.ones((90, 90))).numpy()\n"
        "maps = [line.split()[1] for line in open('/proc/self/maps')]\n"
        "print(any('x' in m for m in maps), any('w' in m and 'x' in m for m in maps))"
    )
    assert out.split() == ["True", "False"]


def test_the_first_trace_imports_what_it_needs(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, lamina as lm, lamina.numpy as lnp\n"
        "def f(x):\n    return lnp.sin(x) * {'rate': 2.0}.get('rate')\n"
        "lm.jit(f)(lnp.ones(3))\n"
        "print('lamina._watch' in sys.modules, [m for m in ('contextvars', 'lamina._unhooked') if m in sys.modules])"
    )
    out = run(f"import runpy; runpy.run_path({str(program)!r}, run_name='__main__')")
    assert out.split() == ["True", "[]"]


def test_cache_tells_where_and_why():
    @lm.jit
    def shifted(x):
        return x + 1.0

    shifted(lnp.ones((64, 3)))
    shifted(lnp.ones((17, 3)))
    newest = next(e for e in lm.cache.entries() if e["name"] == "shifted")
    assert "f32[64,3] -> f32[17,3]" in newest["reason"]
    assert "test_package.py" in newest["where"]
    text = lm.cache.explain(newest["id"])
    assert "f32[64,3] -> f32[17,3]" in text and "step 0" in text
    assert "shifted" in lm.cache.show()


def test_results_do_not_depend_on_threads_or_tier():
    rng = np.random.default_rng(0)
    x = lnp.array(rng.standard_normal((300, 700)).astype(np.float32))

    def f(x):
        return lnp.sum(lnp.exp(x) @ x.T, axis=0), lnp.mean(x), lnp.max(lnp.tanh(x), axis=1)

    def bits(compiling, threads):
        lm._core.set_compiling(compiling)
        try:
            with lm.threads(threads):
                return [np.asarray(v).tobytes() for v in lm.jit(lambda y: f(y))(x)]
        finally:
            lm._core.set_compiling(True)

    expected = bits(False, 1)
    assert bits(True, 1) == expected
    assert bits(True, 2) == expected
    assert [np.asarray(v).tobytes() for v in f(x)] == expected


@pytest.mark.not_on_cuda(reason="a forked child cannot use the devices of its parent")
def test_fork_after_use():
    lnp.exp(lnp.ones((600, 600)) @ lnp.ones((600, 600))).numpy()
    pid = os.fork()
    if pid == 0:
        ok = float(lnp.sum(lnp.ones((700, 700)) @ lnp.ones((700, 700))).item()) == 700.0**3
        os._exit(0 if ok else 1)
    assert os.waitpid(pid, 0)[1] == 0
