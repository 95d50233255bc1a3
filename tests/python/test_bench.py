"""The benchmark's own parts: targets, what is judged, what is printed. It is measured by hand (make bench)."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time
import types

import numpy as np
import pytest

FOLDER = pathlib.Path(__file__).parents[1] / "bench"
CORE = pathlib.Path(__file__).parents[2] / "python"


@pytest.fixture
def bench(monkeypatch):
    """The modules bench, report and workload of tests/bench."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import bench
    import report
    import workload
    import workloads

    yield types.SimpleNamespace(bench=bench, report=report, workload=workload, all=workloads.WORKLOADS)
    for name in list(sys.modules):
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(FOLDER)):
            del sys.modules[name]


def test_every_workload_is_measured_on_lamina_and_a_peer(bench):
    names = [w.name for w in bench.all]
    assert len(set(names)) == len(names) > 100
    assert all("lamina" in w.makes and len(w.makes) > 1 for w in bench.all)
    assert all(w.targets for w in bench.all)


def test_targets_are_held_against_the_least_of_the_rounds(bench):
    row = bench.report.Row(
        "r", "g", 2, bench.workload.targets("best <= 1, jax <= 0.5, limit >= 0.9"), limit=0.5
    )
    row.times = {"lamina": [2.0, 1.0], "jax": [4.0, 3.0], "numpy": [0.5]}
    judged = [(str(t), value, met) for t, value, met in row.judged()]
    assert judged == [("best <= 1", 2.0, False), ("jax <= 0.5", 1 / 3, True), ("limit >= 0.9", 0.5, False)]
    assert row.spread() == 1.5
    memory = bench.report.Row("m", "g", 2, bench.workload.targets("jax <= 1"))
    memory.times = {"lamina": [0.0, 4096.0, 4096.0], "jax": [8192.0]}
    assert memory.spread() == 1.0 and memory.judged()[0][1:] == (0.0, True)
    sentences = bench.report.closing([row], ["one"])
    assert sentences[0] == "1 of 3 targets met." and sentences[-1] == "Failed: one"
    assert "| r | 2 | 1 s | 0.33 | 2.00 | 50% |" in bench.report.markdown([row], MACHINE, sentences)
    assert bench.report.as_json([row], MACHINE, sentences)["rows"][0]["least"]["lamina"] == 1.0
    assert bench.report.chart([row]).count("<rect") == 1
    with pytest.raises(ValueError, match="no target"):
        bench.workload.targets("best is 1")


MACHINE = {
    "processor": "p",
    "processors": 2,
    "instructions": "avx2",
    "date": "d",
    "load": 0.0,
    "versions": {"lamina": "1"},
}


def test_results_that_differ_are_told(bench):
    w = types.SimpleNamespace(share=False, tolerance=1e-3)
    a = np.array([1.0, 2.0])
    assert bench.bench.difference(w, [a], [a + 1e-6]) == ""
    assert "differ by 0.1" in bench.bench.difference(w, [a], [a + 0.1])
    assert "shapes" in bench.bench.difference(w, [a], [np.ones(3)])
    assert "2 results" in bench.bench.difference(w, [a, a], [a])
    share = types.SimpleNamespace(share=True, tolerance=0.4)
    assert "50.00%" in bench.bench.difference(share, [a], [np.array([1.0, 5.0])])


def test_a_worker_answers_and_says_what_failed(bench, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(CORE)}
    worker = bench.bench.Worker([sys.executable, str(FOLDER / "worker.py"), "lamina", "1"], environment)
    try:
        order = {
            "workload": "saxpy float32 1e3",
            "result": str(tmp_path / "r.npz"),
            "type": "float64",
            "warm": 0,
        }
        assert worker.ask(do="prepare", **order)["first"] > 0
        with np.load(tmp_path / "r.npz") as found:
            assert found["arr_0"].tolist() == [1000] and found["arr_1"].shape == (1000,)
        assert worker.ask(do="time", least=0.001)["seconds"] > 0
        with pytest.raises(bench.bench.Failed, match="KeyError"):
            worker.ask(do="prepare", workload="none of this name", result="", warm=0)
    finally:
        worker.stop()


SPINNER = """
import os, sys, threading

def spin():
    while True:
        pass

threading.Thread(target=spin, daemon=True).start()
print('{}', flush=True)
for line in sys.stdin:
    print('{"process": %d}' % os.getpid(), flush=True)
"""


def test_a_worker_takes_no_processor_between_answers(bench):
    worker = bench.bench.Worker([sys.executable, "-c", SPINNER], dict(os.environ))
    try:
        for _ in range(2):
            process = worker.ask(do="time")["process"]
            ticks = []
            for _ in range(2):
                time.sleep(0.1)
                fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
                ticks.append((int(fields[11]), int(fields[12])))  # in user and in system mode
            assert fields[0] == "T" and ticks[0] == ticks[1]
    finally:
        worker.stop()


def test_the_benchmark_runs_from_end_to_end(tmp_path):
    out = tmp_path / "out"
    only = ["--only", "saxpy float32 1e3", "--rounds", "1", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, str(FOLDER / "bench.py"), *only],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(CORE)},
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "saxpy float32 1e3" in out.with_suffix(".md").read_text()
