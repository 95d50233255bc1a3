"""Kernels run interpreted while a thread compiles them: what waits, what counts, and how a process ends."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.not_on_cuda(reason="kernels are not interpreted there")

HEAD = """
    import lamina as lm, lamina.numpy as lnp, lamina.lax as lax
    stats = lm.cache.stats
    def chain(n):
        def f(x):
            for i in range(n):
                x = lnp.sin(x) * 1.01 + 0.001 * i if i % 3 else x * 0.9 + 0.01 * i
            return x
        return lm.jit(f)
"""


def run(code: str, **env: str) -> list[str]:
    """What the program prints, in a process of its own with nothing kept on disk."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(HEAD) + textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "LAMINA_CACHE_DIR": "", **env},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.split()


@pytest.mark.machine_code
def test_calls_go_on_interpreted_while_the_thread_compiles():
    out = run("""
        f, x = chain(100), lnp.ones(1000)
        lm.block_until_ready(x)
        first = f(x).tolist()
        print(stats()["kernel_compiles"], stats()["compiled_runs"])
        while stats()["compiled_runs"] == 0:  # nothing but runs makes it urgent
            assert f(x).tolist() == first
        lm.cache.wait()
        before = stats()
        assert f(x).tolist() == first
        print(stats()["kernels_pending"], stats()["interpreted_runs"] - before["interpreted_runs"])
    """)
    assert out == ["0", "0", "0", "0"]


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "program",
    [
        # These take minutes if interpreted to their end.
        "lax.fori_loop(0, 200_000_000, lambda i, c: c * 0.5 + i, 0.0)",
        "lax.while_loop(lambda s: s[0] < 200_000_000, lambda s: (s[0] + 1, s[1] * 0.5), (0, 1.0))",
    ],
)
def test_a_long_run_goes_on_in_code_that_comes_in_its_midst(program):
    out = run(f"""
        lm.block_until_ready({program})
        print(stats()["switched_runs"])
    """)
    assert out == ["1"]


@pytest.mark.machine_code
def test_a_scan_that_writes_over_its_input_is_not_begun_again():
    out = run("""
        import numpy as np
        n = 300_000
        f = lm.jit(lambda x: lax.scan(lambda c, v: (c * 0.5 + v, c + v), 0.0, x * 2.0)[1])
        x = np.random.default_rng(0).standard_normal(n).astype(np.float32)
        a = np.asarray(f(x))
        lm.cache.wait()
        b = np.asarray(f(x))
        print(np.array_equal(a, b))
    """)
    assert out == ["True"]


@pytest.mark.machine_code
def test_compiling_first_is_chosen_in_the_environment():
    out = run(
        "print(float(lnp.sum(lnp.ones(5) + 1.0)), stats()['interpreted_runs'], stats()['kernels_pending'])",
        LAMINA_COMPILE="first",
    )
    assert out == ["10.0", "0", "0"]


@pytest.mark.machine_code
@pytest.mark.parametrize(
    "program, first, nicer",
    [
        ("f, x = chain(100), lnp.ones(1000)\nwhile stats()['kernel_compiles'] == 0: f(x)", "", ["0", "10"]),
        # It takes minutes if interpreted: a compile is worth its price at once.
        ("lm.block_until_ready(lax.fori_loop(0, 200_000_000, lambda i, c: c * 0.5 + i, 0.0))", "", ["0"]),
        ("lm.block_until_ready(chain(100)(lnp.ones(1000)))", "first", ["0"]),
    ],
)
def test_compiles_make_way_for_runs_until_those_have_paid_for_them(program, first, nicer):
    out = run(
        f"""
import os
{program}
lm.cache.wait()
nice = [os.getpriority(os.PRIO_PROCESS, int(t)) for t in os.listdir("/proc/self/task")]
print(*sorted({{n - min(nice) for n in nice}}))
    """,
        LAMINA_COMPILE=first,
    )
    assert out == nicer


@pytest.mark.machine_code
def test_a_process_ends_in_the_midst_of_compiles():
    for n in (40, 80, 120):
        out = run(f"""
            f, x = chain({n}), lnp.ones(300_000)
            lm.block_until_ready(f(x))
            print(stats()["kernels_pending"] + stats()["kernel_compiles"] > 0)
        """)
        assert out == ["True"]


@pytest.mark.machine_code
def test_the_code_of_a_kernel_is_one_mapping_of_memory():
    """A process may have no more than some ten thousand of them."""
    compiles, mappings = run(
        """
        def mappings():
            with open("/proc/self/maps") as f:
                return len(f.readlines())
        x = lnp.ones(1000)
        lnp.sin(x).block_until_ready()
        lm.cache.wait()
        begin, before = stats()["kernel_compiles"], None
        for n in range(1, 61):
            chain(n)(x).block_until_ready()
            if n == 10:
                begin, before = stats()["kernel_compiles"], mappings()
        print(stats()["kernel_compiles"] - begin, mappings() - before)
    """,
        LAMINA_COMPILE="first",
    )
    assert int(compiles) >= 40
    assert int(mappings) <= int(compiles) + 10


@pytest.mark.parametrize("isa", ["", "avx2", "baseline"])
def test_products_of_integers_need_no_vectors_that_the_machine_lacks(isa):
    # what fills their tables is of an instruction set itself: on a processor without it, that ended the process
    out = run(
        """
        for dtype in ("int8", "int16", "int32", "uint32", "int64"):
            x = lnp.arange(12, dtype=dtype).reshape(3, 4) % 5
            print(int((x @ x.T).sum()))
        """,
        **({"LAMINA_ISA": isa} if isa else {}),
        PYTHONWARNINGS="ignore",
    )
    assert out == ["119"] * 5
