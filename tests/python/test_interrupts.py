"""Long runs: Ctrl-C stops them soon, other threads go on meanwhile, and nothing is left broken."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time

import lamina as lm
import lamina.lax as lax
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import _bounds, _core

PRELUDE = """
import os, signal, sys, threading, time
import lamina as lm, lamina.numpy as lnp, lamina.lax as lax

# Started by a shell's background job, a process ignores SIGINT until it says otherwise.
signal.signal(signal.SIGINT, signal.default_int_handler)

def interrupted(run, after=0.5, limit=0.3):
    sent = []
    def send():
        time.sleep(after)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=send).start()
    try:
        run()
    except KeyboardInterrupt:
        late = time.perf_counter() - sent[0]
        assert late < limit, late
        print(f"{late:.3f} s", file=sys.stderr)
    else:
        raise SystemExit("the run was not interrupted")
    assert float(lnp.arange(5.0).sum()) == 10.0
"""

LONG_RUNS = {
    "while": """
        def loop(x):
            return lax.while_loop(lambda c: c[0] < 10**9, lambda c: (c[0] + 1, lnp.sin(c[1])), (0, x))
        f = lm.jit(loop)
        interrupted(lambda: f(lnp.ones(8)))
        interrupted(lambda: f(lnp.ones(8)))
    """,
    "scan": """
        def loop(x):
            return lax.scan(lambda c, _: (lnp.tanh(c @ c), None), x, None, length=10**6)[0]
        x = lnp.ones((64, 64))
        interrupted(lambda: loop(x).block_until_ready())
        interrupted(lambda: loop(x).block_until_ready())
    """,
    "matmuls": """
        x = lnp.ones((3000, 3000)) * 1e-4
        y = x
        for _ in range(200):
            y = y @ x
        interrupted(lambda: y.block_until_ready())
        # What was stopped does not come back with the next value asked for.
        start = time.perf_counter()
        assert float(lnp.ones(3).sum()) == 3.0
        assert time.perf_counter() - start < 0.5
    """,
    "elementwise": """
        x = lnp.arange(20_000_000) * 1e-7  # of equal elements one would do
        for _ in range(40):
            x = lnp.sin(x)
        for _ in range(500):  # a reduction each, so that no kernel holds all
            x = lnp.sin(x + lnp.max(x))
        interrupted(lambda: x.block_until_ready(), after=1.0)
    """,
    "short_first": """
        f = lm.jit(lambda n: lax.while_loop(lambda i: i < n, lambda i: i + 1, 0))
        for _ in range(3):
            assert int(f(10)) == 10
        interrupted(lambda: f(2 * 10**9))
        assert int(f(20)) == 20
    """,
    "lanes": """
        step = lambda n: lax.while_loop(lambda i: i < n, lambda i: i + 1, 0)
        f = lm.jit(lm.vmap(step))
        few = lnp.full((20_000,), 10, "int32")
        for _ in range(3):
            assert int(f(few).sum()) == 200_000
        many = few.at[7].set(2 * 10**9)
        many.block_until_ready()
        interrupted(lambda: f(many).block_until_ready())
        assert int(f(few).sum()) == 200_000
    """,
    "own_handler": """
        class Stop(Exception):
            pass
        def handler(*_):
            raise Stop
        signal.signal(signal.SIGINT, handler)
        threading.Thread(target=lambda: (time.sleep(0.4), os.kill(os.getpid(), signal.SIGINT))).start()
        try:
            lax.while_loop(lambda i: i < 2 * 10**9, lambda i: i + 1, 0).block_until_ready()
        except Stop:
            pass
        else:
            raise SystemExit("not stopped")
    """,
}


# A queue does not stop in the midst of its work: there the wait ends, and the work goes on.
STOPS = pytest.mark.host_only(reason="only a run on the CPU stops within a kernel")


@pytest.mark.parametrize("name", [n if n == "scan" else pytest.param(n, marks=STOPS) for n in LONG_RUNS])
def test_ctrl_c_stops_a_long_run(name):
    program = PRELUDE + textwrap.dedent(LONG_RUNS[name]) + "\nprint('fine')\n"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, env=os.environ
    )
    print(done.stderr)
    assert done.stdout == "fine\n", done.stderr[-2000:]


@pytest.mark.not_on_cuda(reason="there the run is no long one")
@pytest.mark.parametrize("main", [True, False])
def test_another_thread_goes_on_during_a_long_run(main):
    def work():
        y = lax.fori_loop(0, 60, lambda i, y: lnp.tanh(y @ y), lnp.ones((700, 700)))
        y.block_until_ready()

    count, stop = [0], threading.Event()

    def tick():
        while not stop.is_set():
            time.sleep(0.001)
            lnp.ones(3) + count[0]  # records; takes the graph lock
            count[0] += 1

    ticker = threading.Thread(target=tick)
    ticker.start()
    start = time.perf_counter()
    if main:
        work()
    else:
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
    took = time.perf_counter() - start
    seen = count[0]
    stop.set()
    ticker.join()
    assert took > 0.1
    assert seen > 0.1 * took / 0.002


def test_threads_that_force_the_same_and_different_values():
    shared = lnp.sin(lnp.arange(1000.0)) * 2.0
    want = np.sin(np.arange(1000, dtype=np.float32)) * 2
    errors = []

    def work(seed):
        try:
            for i in range(30):
                own = (lnp.arange(100.0) + seed + i).sum()
                assert float(own) == 4950 + 100 * (seed + i)
                np.testing.assert_allclose(shared.numpy(), want, rtol=1e-5)
                np.testing.assert_allclose(float(lm.grad(lambda x: x * x)(float(i))), 2 * i)
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == []


def test_a_failing_callback_on_a_long_run_raises_here():
    def fail(*lanes_and_x):
        raise LookupError("from the callback")

    with pytest.raises(LookupError, match="from the callback"):
        operands = [lm._core.callback_operand(fail), lnp.ones(3)]
        (y,) = lm._core.op(
            "custom_call", operands, call_target_name="python", result_types=[("float32", [3])]
        )
        y.block_until_ready()
    assert float(lnp.ones(3).sum()) == 3.0


@pytest.mark.not_on_cuda(reason="the counter is one thread's, and takes the stand-in for the driver minutes")
def test_a_signal_handler_that_returns_does_not_stop_the_run():
    seen = []
    old = signal.signal(signal.SIGALRM, lambda *_: seen.append(time.perf_counter()))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        n = lax.while_loop(lambda i: i < 1_000_000_000, lambda i: i + 1, 0)
        assert int(n) == 1_000_000_000
        ended = time.perf_counter()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert len(seen) == 1
    assert seen[0] < ended


def after_steps(turns):
    """1.0, after so many steps, between which a run stops wherever it is."""
    return lax.fori_loop(0, turns, lambda i, m: lnp.minimum(m @ m, 1.0), lnp.ones((64, 64)))[0, 0]


def never():
    return after_steps(10**9)  # longer than anybody waits


# Ways for a value to leave, each the first to need it.
LEAVING = {
    "asarray": np.asarray,
    "array": np.array,
    "list": lambda x: np.array([x, x]),
    "dtype": lambda x: np.asarray(x, "float64"),
    "copyto": lambda x: np.copyto(np.zeros(1, np.float32), x),
    "numpy function": lambda x: np.add(np.ones(1, np.float32), np.asarray(x)),
    "numpy": lambda x: x.numpy(),
    "__array__": lambda x: x.__array__(),
    "dlpack": lambda x: np.from_dlpack(x, device="cpu"),
    "memoryview": memoryview,
    "bytes": bytes,
    "frombuffer": np.frombuffer,
    "float": float,
    "int": int,
    "complex": complex,
    "bool": bool,
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "iteration": lambda x: [float(v) for v in x],
    "repr": repr,
    "format": lambda x: f"{x}",
    "html": lambda x: x._repr_html_(),
    "pickle": pickle.dumps,
    "asarray of bfloat16": lambda x: np.asarray(x.astype("bfloat16")),
    "list of bfloat16": lambda x: np.array([x.astype("bfloat16")]),
    "block_until_ready": lambda x: x.block_until_ready(),
}


@pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING)
def test_the_first_exception_comes_through_and_nothing_begins_again(leave):
    class Alarm(Exception):
        pass

    def raises(*_):
        raise Alarm

    float(lnp.ones(1)[0])
    np.asarray(lnp.ones(1, "bfloat16"))  # the first one imports what takes longer than the alarm
    x = never().reshape(1)
    before = lm.cache.stats()["flushes"]
    old = signal.signal(signal.SIGALRM, raises)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Alarm):
            leave(x)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert lm.cache.stats()["flushes"] - before == 1


def test_a_check_of_an_index_is_stopped_too():
    class Alarm(Exception):
        pass

    def raises(*_):
        raise Alarm

    i = never().astype("int32")
    x = lnp.arange(3.0)[i - i]  # whether i is in range is checked before a value is read
    before = lm.cache.stats()["flushes"]
    old = signal.signal(signal.SIGALRM, raises)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Alarm):
            np.asarray(x)
        assert lm.cache.stats()["flushes"] - before == 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        _bounds.pending.checks.clear()
        _core.note_checks(False)


def test_what_was_stopped_can_be_asked_for_again():
    class Alarm(Exception):
        pass

    def raises(*_):
        raise Alarm

    x = after_steps(30_000)
    old = signal.signal(signal.SIGALRM, raises)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Alarm):
            memoryview(x)  # nothing drops the exception here ...
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert float(x.__array__()) == 1.0  # ... so that it does not come back
