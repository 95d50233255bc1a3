"""Several threads: each has its own session, so that what one computes never changes what another is tracing."""

from __future__ import annotations

import ast
import os
import runpy
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax


@pytest.fixture(scope="module")
def elsewhere():
    """Runs a function on another thread, always the same, and gives its result."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda f: pool.submit(f).result(timeout=60)


def read_something():
    """What a thread that serves requests does: records, and needs the value."""
    return np.asarray(lnp.ones(4) + lnp.ones(4))


DERIVATIVES = {
    "grad": lambda f, x: lm.grad(f)(x),
    "jvp": lambda f, x: lm.jvp(f, (x,), (lnp.ones(4),))[1],
    "vjp": lambda f, x: lm.vjp(f, x)[1](lnp.ones(()))[0],
    "hessian": lambda f, x: lm.hessian(f)(x),
    "linearize": lambda f, x: lm.linearize(f, x)[1](lnp.ones(4)),
    "checkpoint": lambda f, x: lm.grad(lm.checkpoint(f))(x),
    "vmap": lambda f, x: lm.vmap(lm.grad(f))(lnp.stack([x, 2 * x])),
    "jit": lambda f, x: lm.jit(lambda x: lm.grad(f)(x))(x),
}


@pytest.mark.parametrize("derivative", DERIVATIVES.values(), ids=DERIVATIVES)
def test_a_derivative_is_whole_while_another_thread_computes(derivative, elsewhere):
    def f(x, meanwhile=lambda: None):
        y = lnp.sin(x) * x
        meanwhile()
        z = y * y
        meanwhile()
        return z.sum()

    x = lnp.arange(4.0) + 0.5
    expected = np.asarray(derivative(f, x))
    assert np.abs(expected).max() > 0
    got = derivative(lambda x: f(x, lambda: elsewhere(read_something)), x)
    np.testing.assert_array_equal(np.asarray(got), expected)


@pytest.mark.parametrize("name", ["grad", "jvp", "vjp", "hessian"])
def test_no_gradient_is_lost_to_a_busy_thread(name):
    def chain(x):
        for _ in range(30):
            x = x * 1.01 + 0.5
        return (x * x).sum()

    derivative = DERIVATIVES[name]
    x = lnp.ones(4)
    expected = np.asarray(derivative(chain, x))
    stop = threading.Event()

    def busy():
        i = 0
        while not stop.is_set():
            np.asarray(lnp.ones(4) + i)
            i += 1

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=busy)
    sys.setswitchinterval(1e-5)
    thread.start()
    try:
        for _ in range(200 if name == "hessian" else 800):
            np.testing.assert_array_equal(np.asarray(derivative(chain, x)), expected)
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()


def test_a_derivative_goes_through_another_thread(elsewhere):
    def f(x):
        y = elsewhere(lambda: lnp.sin(x))
        assert elsewhere(lambda: bool((x > 0).all()))  # computed there; the derivative needs it still
        z = elsewhere(lambda: lax.scan(lambda c, _: (c * y, None), y, None, length=2)[0])
        return (z * elsewhere(lambda: lm.jit(lnp.cos)(x))).sum()

    x = np.linspace(0.2, 0.8, 4)
    expected = 3 * np.sin(x) ** 2 * np.cos(x) ** 2 - np.sin(x) ** 4
    for transformed in (lm.grad(f), lambda x: lm.jvp(f, (x,), (lnp.ones(4),))[1]):
        got = np.asarray(transformed(lnp.asarray(x.astype(np.float32))))
        np.testing.assert_allclose(got, expected if got.shape else expected.sum(), rtol=1e-5)


@pytest.mark.parametrize("read", [np.asarray, memoryview, lambda x: x.tolist()])
def test_a_value_of_a_derivative_does_not_leave_on_another_thread(read, elsewhere):
    def f(x):
        y = x * x
        with pytest.raises(TypeError, match="differentiated"):
            elsewhere(lambda: read(y))
        with pytest.raises(TypeError, match="differentiated"):
            read(elsewhere(lambda: y + 1))
        assert elsewhere(lambda: read(lax.stop_gradient(y))) is not None
        return y.sum()

    np.testing.assert_array_equal(np.asarray(lm.grad(f)(lnp.ones(3))), np.full(3, 2.0))


def test_a_derivative_taken_on_another_thread_within_one(elsewhere):
    def f(x):
        return elsewhere(lambda: lm.grad(lambda v: (v * v * v).sum())(x)).sum()

    x = lnp.arange(4.0)
    np.testing.assert_allclose(np.asarray(lm.grad(f)(x)), 6 * np.arange(4.0))


def test_what_another_thread_makes_is_outside_a_trace(elsewhere):
    world = {"w": lnp.ones(3)}

    @lm.jit
    def f(x):
        if "later" in world:
            world["w"] = world.pop("later")()
        return x * world["w"]

    # Recorded on the other thread within a transform of its own that is younger than the trace.
    world["later"] = lambda: elsewhere(lambda: lm.grad(lambda v: (v * v).sum())(lnp.ones(3) * 2))
    np.testing.assert_array_equal(np.asarray(f(lnp.ones(3))), np.full(3, 4.0))
    assert elsewhere(lambda: float(lnp.ones(2).sum())) == 2.0


def test_pending_values_outlive_their_thread():
    made = []

    def work():
        made.append(lnp.ones(5) * 3)
        made.append(made[0] + made[0])

    for _ in range(3):  # the later threads take over the session of the first
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert [float(x[0]) for x in made] == [3.0, 6.0] * 3


def test_handles_dropped_on_another_thread(elsewhere):
    before = lm.cache.stats()["live_nodes"]
    for _ in range(200):
        x = [lnp.ones(3) + i for i in range(5)]
        elsewhere(x.clear)
    assert lm.cache.stats()["live_nodes"] <= before + 20


def test_a_long_scope_does_not_hold_the_memory_of_other_threads(elsewhere):
    def step(p):
        return p - 0.1 * lm.grad(lambda v: (v * v).sum())(p)

    def train():
        p = lnp.ones(8)
        for _ in range(5):
            p = step(p)
            p.block_until_ready()
        before = lm.cache.stats()["live_nodes"]
        for _ in range(100):
            p = step(p)
            p.block_until_ready()
        return lm.cache.stats()["live_nodes"] - before

    def f(x):
        y = x * x
        assert elsewhere(train) <= 10
        return y.sum()

    np.testing.assert_array_equal(np.asarray(lm.grad(f)(lnp.ones(3))), np.full(3, 2.0))


def test_a_thread_flushes_by_its_own_count(elsewhere):
    """Another thread's reads do not put off the flush of one that never reads."""
    x = lnp.ones(4)
    before = lm.cache.stats()["automatic_flushes"]
    for i in range(9000):
        x = x + 1
        if i % 1000 == 0:
            elsewhere(read_something)
    assert lm.cache.stats()["automatic_flushes"] - before == 2
    assert float(x[0]) == 9001.0


# --- a decision inside jit computes what is pending; the trace stays whole ---


def cubes(w):
    y = w * w
    return y * w


DECIDED = {
    "grad": lambda g, w: lm.grad(lambda w: g(w).sum())(w),
    "jvp": lambda g, w: lm.jvp(g, (w,), (lnp.ones(3),))[1],
    "vjp": lambda g, w: lm.vjp(g, w)[1](lnp.ones(3))[0],
    "linearize": lambda g, w: lm.linearize(g, w)[1](lnp.ones(3)),
    "hessian": lambda g, w: lm.hessian(lambda w: g(w).sum())(w),
    "checkpoint": lambda g, w: lm.grad(lambda w: lm.checkpoint(g)(w).sum())(w),
    "grad of vmap": lambda g, w: lm.grad(lambda w: lm.vmap(g)(lnp.stack([w, w])).sum())(w),
    "vmap of grad": lambda g, w: lm.vmap(lm.grad(lambda w: g(w).sum()))(lnp.stack([w, 2 * w])),
    "nested jit": lambda g, w: lm.grad(lambda w: lm.jit(g)(w).sum())(w),
}


@pytest.mark.parametrize("transform", DECIDED.values(), ids=DECIDED)
@pytest.mark.parametrize("first", ["decided first", "used first"])
def test_a_decision_on_a_pending_argument(transform, first):
    @lm.jit
    def f(x):
        def g(w):
            if first == "used first":
                y = w * w
            if x.sum() > 0:
                return y * w if first == "used first" else cubes(w)
            return w

        return transform(g, lnp.ones(3) * 2)

    expected = np.asarray(transform(cubes, lnp.ones(3) * 2))
    assert np.abs(expected).max() > 0
    for _ in range(2):
        x = lnp.ones(4) + lnp.ones(4)  # pending
        np.testing.assert_array_equal(np.asarray(f(x)), expected)
    np.testing.assert_array_equal(
        np.asarray(f(-(lnp.ones(4) + 1))), np.asarray(transform(lambda w: w, lnp.ones(3) * 2))
    )


def test_a_decision_of_an_inner_jit():
    @lm.jit
    def inner(x, w):
        return w * w if x.sum() > 0 else w

    @lm.jit
    def outer(x):
        def g(w):
            y = w * w
            return (inner(x, w) * y).sum() if x.sum() > 0 else y.sum()

        return lm.grad(g)(lnp.ones(3) * 2)

    np.testing.assert_array_equal(np.asarray(outer(lnp.ones(4) + lnp.ones(4))), np.full(3, 32.0))


# --- every cap crossed with several threads ---


def test_caps_are_crossed_by_four_threads():
    """In a process of its own, since what is tested is that it ends."""
    script = """
        import faulthandler, random, sys, threading
        faulthandler.dump_traceback_later(100, exit=True)
        import numpy as np, lamina as lm, lamina.numpy as lnp
        from lamina import _core, _jit
        sys.setswitchinterval(1e-5)
        _core.set_cache_limits(entries=8, entry_bytes=60_000, kernels=4, kernel_bytes=20_000)
        _jit.MAX_ENTRIES, _jit.MAX_VARIANTS = 3, 2
        free = 1.0
        shared = lm.jit(lambda x: lnp.sin(x) * free)
        failures = []

        def eager(i, n):
            x = lnp.ones(n % 7 + 1)
            for k in range(n % 5 + 1):
                x = x * 1.5 if (n >> k) & 1 else lnp.cos(x) + k
            return np.isfinite(np.asarray(x)).all()

        def jitted(i, n):
            x = np.full(n % 23 + 1, 0.5, np.float32)
            return np.allclose(np.asarray(shared(lnp.asarray(x))) / np.sin(x), float(free))

        def derived(i, n):
            scale = float(n % 5)
            got = lm.grad(lm.jit(lambda v: (v ** (n % 6 + 1)).sum() * scale))(lnp.ones(n % 5 + 1))
            return np.allclose(np.asarray(got), scale * (n % 6 + 1))

        def cleared(i, n):
            if n % 10 == 0:
                lm.cache.clear()
            return bool(lm.cache.show()) or True

        def work(i):
            r = random.Random(i)
            try:
                for _ in range(150):
                    n = r.randrange(1 << 16)
                    for f in (eager, jitted, derived, cleared):
                        assert f(i, n), (f.__name__, n)
            except BaseException as e:
                failures.append(e)
                raise

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        assert not failures
        stats = lm.cache.stats()
        print("done")
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=150
    )
    assert run.stdout.strip() == "done", run.stderr[-4000:]


def test_source_is_read_while_other_threads_read_theirs(monkeypatch, tmp_path):
    """CPython 3.11 raises SystemError in ast.parse when another thread comes in its midst."""
    file = tmp_path / "scaled.py"
    file.write_text('scale = {"by": 2.0}\ndef scaled(x):\n    return x * scale["by"]\n')
    names = runpy.run_path(str(file))
    parse, turns = ast.parse, iter(range(100))

    def disturbed(*args, **kwargs):
        if next(turns) % 2 == 0:
            raise SystemError("AST constructor recursion depth mismatch (before=54, after=49)")
        return parse(*args, **kwargs)

    monkeypatch.setattr(ast, "parse", disturbed)
    f = lm.jit(names["scaled"])
    assert f(3.0).item() == 6.0
    f.__wrapped__.__globals__["scale"]["by"] = 5.0  # seen only where the source was
    assert f(3.0).item() == 15.0
    assert next(turns) > 1


SHARED = """
import hashlib, os, sys
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])
import lamina as lm, lamina.numpy as lnp, numpy as np

r = np.random.default_rng(0)
x, y = r.standard_normal(1_500_001).astype(np.float32), r.standard_normal((200_003, 7)).astype(np.float32)
z = r.standard_normal((3, 5, 300, 301)).astype(np.float32)
programs = {
    "sum": lambda: x_.sum(),
    "mean of squares": lambda: lnp.mean((x_ - 1) ** 2),
    "largest": lambda: x_.max(),
    "where": lambda: lnp.argmin(x_[::-1]),
    "variance": lambda: x_.var(),
    "weighted by position": lambda: lnp.sum(x_ * lnp.arange(x.size)),
    "of halves": lambda: x_.astype("float16").sum(),
    "of complex numbers": lambda: lnp.sum(x_ * (1 + 2j)),
    "any": lambda: lnp.any(x_ > 7),
    "columns": lambda: y_.sum(0),
    "channels": lambda: z_.sum((0, 2, 3)),
    "rows": lambda: lnp.max(y_.T, 1),
    "eigenvectors": lambda: lnp.linalg.eigh(w_)[1],
    "factors": lambda: lnp.linalg.cholesky(w_ @ w_.mT + 9 * lnp.eye(17)),
    "singular values": lambda: lnp.linalg.svd(w_, compute_uv=False),
    "bytes": lambda: lnp.matmul(b_, b_.T),
    "vectors": lambda: lnp.matmul(z_[0, 0], z_[1, 0, 0]),
}
w = r.standard_normal((40, 17, 17)).astype(np.float32)
b = r.integers(-128, 127, (300, 301)).astype(np.int8)
x_, y_, z_, w_, b_ = (lnp.asarray(a) for a in (x, y, z, w, b))
for name, f in programs.items():
    g = lm.jit(f)
    runs = []
    for _ in range(3):  # interpreted, and from code
        runs.append(np.asarray(g()).tobytes())
        lm.cache.wait()
    assert len(set(runs)) == 1, name
    print(name, hashlib.sha256(runs[0]).hexdigest())
texts = [lm.cache.listing(e["id"], "plan") for e in lm.cache.entries()]
print("shared", sum(", then loop" in text for text in texts))
"""


def test_threads_share_work_without_a_change_of_bits(tmp_path):
    (tmp_path / "shared.py").write_text(SHARED)
    alone, together = (
        subprocess.run(
            [sys.executable, str(tmp_path / "shared.py"), threads],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for threads in ("1", "2")
    )
    assert alone == together  # plans as well: they are saved, and run where there are more threads or fewer
    assert int(together[-1].split()[1]) >= 9


WORKERS = """
import os
import lamina as lm, lamina.numpy as np
x = np.arange(4_000_000, dtype="float32")
before = len(os.listdir("/proc/self/task"))
np.sin(x).block_until_ready()
print(len(os.listdir("/proc/self/task")) - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_the_environment_sets_how_many_threads_compute():
    alone, four = (
        subprocess.run(
            [sys.executable, "-c", WORKERS],
            env={
                **os.environ,
                "LAMINA_NUM_THREADS": n,
                "LAMINA_DEFAULT_DEVICE": "cpu",
                "LAMINA_COMPILE": "first",
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for n in ("1", "4")
    )
    assert int(four) - int(alone) == 3


@pytest.mark.parametrize("setting", ["", "none", "0", "-2", "1.5", "99999999999"])
def test_a_number_of_threads_that_is_none_sets_nothing(setting):
    program = "from lamina import _core; print(_core.available_threads())"
    runs = [
        subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
        for env in (
            {k: v for k, v in os.environ.items() if k != "LAMINA_NUM_THREADS"},
            {**os.environ, "LAMINA_NUM_THREADS": setting},
        )
    ]
    assert runs[0].stdout == runs[1].stdout
