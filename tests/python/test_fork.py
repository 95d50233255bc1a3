"""fork() while another thread works: the child lives, and computes, traces and compiles itself."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.not_on_cuda(reason="a forked child cannot use the devices of its parent")

# A program of its own at every turn.
CHAIN = """
        functions = [lnp.sin, lnp.cos, lnp.tanh]
        def chain(x, i):
            for k in range(12):
                x = functions[(i >> k) % 3](x) + k
            return x
        def work(i):
            np.asarray(lm.jit(lambda x: chain(x, i))(lnp.ones({size})))
    """

# What the thread of the parent does all the time.
WORK = {
    "eager": """
        def work(i):
            np.asarray(lnp.ones(4) + i)
    """,
    "call": """
        f = lm.jit(lambda x: lnp.sin(x) @ x)
        x = lnp.ones((200, 200))
        def work(i):
            np.asarray(f(x))
    """,
    "trace": """
        def loop(v, n):
            return lax.scan(lambda c, _: (c * n, None), v, None, length=2)[0].sum()
        def work(i):
            lm.jit(lambda x: lm.grad(lambda v: loop(v, i))(x)).trace(lnp.ones(3))
    """,
    "compile": CHAIN.replace("{size}", "i % 5 + 1"),
    "queue": CHAIN.replace("{size}", "30000"),
}

SCRIPT = """
    import os, signal, sys, threading, time
    signal.alarm(int(sys.argv[2]))
    import numpy as np, lamina as lm, lamina.lax as lax, lamina.numpy as lnp
    {work}
    lm._core.set_eager_compile({eager})
    stop = threading.Event()
    def busy():
        i = 0
        while not stop.is_set():
            work(i)
            i += 1
    thread = threading.Thread(target=busy)
    work(0)
    thread.start()

    def child():
        x = np.linspace(0.1, 1, 50, dtype=np.float32)
        ok = np.allclose(np.asarray(lnp.exp(lnp.asarray(x)) * 2), np.exp(x) * 2, rtol=1e-5)
        n = os.getpid() % 7 + 2   # a program and a kernel of its own
        g = lm.jit(lm.grad(lambda v: (lnp.tanh(v) ** n).sum()))
        t = np.tanh(x)
        ok &= np.allclose(np.asarray(g(lnp.asarray(x))), n * t ** (n - 1) * (1 - t * t), rtol=1e-3, atol=1e-5)
        a = np.ones((300, 300), np.float32)
        ok &= float(np.asarray(lnp.asarray(a) @ lnp.asarray(a))[0, 0]) == 300.0
        there = []
        other = threading.Thread(target=lambda: there.append(float(lnp.sin(lnp.ones(3)).sum())))
        other.start()
        other.join()
        return bool(ok) and abs(there[0] - 3 * np.sin(1.0)) < 1e-5

    bad = 0
    for i in range(int(sys.argv[1])):
        time.sleep(0.003 * (i % 7))
        pid = os.fork()
        if pid == 0:
            signal.alarm(30)  # ends a child that hangs
            status = 1
            try:
                status = 0 if child() else 2
            finally:
                os._exit(status)
        status = os.waitpid(pid, 0)[1]
        bad += status != 0
        if status:
            print("child", i, "ended with", status, file=sys.stderr)
    stop.set()
    thread.join()
    work(1)
    print("bad", bad)
"""


def children(kind: str, count: int) -> None:
    work = textwrap.indent(textwrap.dedent(WORK[kind]), "    ").strip()
    script = textwrap.dedent(SCRIPT.replace("{work}", work).replace("{eager}", str(kind == "compile")))
    run = subprocess.run(
        [sys.executable, "-c", script, str(count), "280"], capture_output=True, text=True, timeout=300
    )
    assert run.stdout.strip() == "bad 0", run.stdout + run.stderr[-4000:]


@pytest.mark.parametrize("kind", WORK)
def test_children_live(kind):
    children(kind, 10)


@pytest.mark.slow
@pytest.mark.parametrize("kind", WORK)
def test_a_hundred_children_live(kind):
    children(kind, 100)


def test_a_child_of_a_thread_can_be_interrupted():
    """The thread that forked is the child's main thread: signals stop its runs."""
    script = """
        import os, signal, sys, threading, time
        import lamina as lm, lamina.numpy as lnp, lamina.lax as lax
        status = []
        def forks():
            pid = os.fork()
            if pid:
                status.append(os.waitpid(pid, 0)[1])
                return
            code = 1
            def raises(*_):
                raise TimeoutError
            try:
                signal.signal(signal.SIGALRM, raises)
                signal.alarm(1)
                try:
                    x = lax.while_loop(lambda i: i < 10**10, lambda i: i + 1, lnp.asarray(0, "int64"))
                    x.block_until_ready()
                except TimeoutError:
                    code = 0 if float(lnp.ones(3).sum()) == 3.0 else 2
            finally:
                os._exit(code)
        thread = threading.Thread(target=forks)
        thread.start()
        thread.join()
        print(status)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60
    )
    assert run.stdout.strip() == "[0]", run.stdout + run.stderr
