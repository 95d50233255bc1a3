"""Lamina beside its peers: the same programs in one run, in alternating rounds, their results compared.

Run: make bench [ONLY=text] [BENCH_TORCH=1 | BEFORE=checkout]. Each system has a process of its own for one processor
and one for all; the rounds of a workload take turns over the systems. Tables go to the screen, everything to
build/bench.json, .md and .svg. Exits with an error when results differ or Lamina fails. With BEFORE, a checkout of an
earlier state that is built, only these two are compared, and rows that seem slower are measured longer.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

HERE = pathlib.Path(__file__).parent
PATIENCE = 120.0  # seconds until a worker that does not answer is given up
ROUNDS = 5
LEAST = 0.04  # seconds a round of one workload takes at least, unless one call takes longer
ENOUGH = 1.5  # seconds of rounds after which no further one is begun
DOUBTED = 25  # rounds after which a row that is slower than before is believed


class Failed(Exception):
    """What a worker said when a workload failed in it, or that it is gone."""


class Worker:
    """A process of worker.py, started when it is first asked, and stopped between answers.

    Idle threads of several systems spin for their next work for tens of milliseconds, on a processor that then is
    missing to whoever's turn it is.
    """

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._command, self._environment = command, environment
        self._process: subprocess.Popen[str] | None = None

    def ask(self, patience: float = PATIENCE, **order: Any) -> dict[str, Any]:
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            self._answer(PATIENCE)
        assert self._process.stdin is not None
        self._process.send_signal(signal.SIGCONT)
        try:
            print(json.dumps(order), file=self._process.stdin, flush=True)
        except BrokenPipeError as e:
            self.stop()
            raise Failed("the process ended") from e
        return self._answer(patience)

    def _answer(self, patience: float) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], patience)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            self.stop()
            raise Failed("the process ended" if ready else f"no answer in {patience:.0f} s")
        self._process.send_signal(signal.SIGSTOP)
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def difference(workload: Any, mine: list[Any], theirs: list[Any]) -> str:
    """In words; nothing when the results agree."""
    import numpy

    if len(mine) != len(theirs):
        return f"{len(mine)} results beside {len(theirs)}"
    for x, y in zip(mine, theirs):
        if x.shape != y.shape:
            return f"results of shapes {x.shape} and {y.shape}"
        if workload.share:
            if numpy.mean(x != y) > workload.tolerance:
                return f"{numpy.mean(x != y):.2%} of the elements differ"
            continue
        scale = float(numpy.max(numpy.abs(y), initial=0)) or 1.0
        if not numpy.allclose(x, y, rtol=workload.tolerance, atol=workload.tolerance * scale):
            return f"results differ by {numpy.max(numpy.abs(x - y)):.3g} where the largest is {scale:.3g}"
    return ""


def prepare(workload: Any, row: Any, workers: dict[str, Worker]) -> dict[str, float]:
    """Makes the workload in each worker and compares what it gives; the seconds of first calls of those that agree."""
    import numpy

    compared, first, results = workload.tolerance is not None, {}, {}
    for name, worker in workers.items():
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/result.npz" if compared else ""
            order = {"workload": workload.name, "result": path, "warm": 0.2}
            try:
                first[name] = worker.ask(do="prepare", **order)["first"]
                if path:
                    with numpy.load(path) as found:
                        results[name] = [found[k] for k in found.files]
            except Failed as e:
                row.failures[name] = str(e)
    reference = results.get("lamina")
    for name, result in results.items() if reference is not None else ():
        what = difference(workload, reference, result)
        if what:
            row.failures[name] = what
            first.pop(name)
    return first


def measure(workload: Any, row: Any, workers: dict[str, Worker], rounds: int) -> None:
    """Fills row.times: rounds in turns, until there are `rounds` or enough time has gone; more while it is in doubt
    whether Lamina was faster before."""
    from report import TOLERATED

    first = prepare(workload, row, workers)
    spent = 0.0
    for i in itertools.count():
        begin = time.perf_counter()
        for name in first:
            if name in row.failures:
                continue
            try:
                seconds = workers[name].ask(do="time", least=LEAST)["seconds"]
                row.times.setdefault(name, []).append(seconds)
            except Failed as e:
                row.failures[name] = str(e)
        spent += time.perf_counter() - begin
        doubted = i < DOUBTED and (row.ratio("before") or 0) > TOLERATED
        enough = spent > ENOUGH * max(1, len(first)) and len(row.times.get("lamina", ())) > 1
        if not doubted and (i + 1 >= rounds or enough):
            break
    for name in first:
        if name not in row.failures:
            workers[name].ask(do="drop")


def limit_of(workload: Any, limits: dict[str, float]) -> float:
    """The least seconds in which the machine could do it; 0 where that is not known."""
    return max(workload.bytes / limits["bytes"], workload.flops / limits[workload.flop_type])


def measure_workloads(
    args: Any, python: dict[str, list[str]], environment: dict[str, dict[str, str]]
) -> list[Any]:
    """The rows of all workloads, on one thread and on all."""
    import workloads
    from report import Row

    processors = len(os.sched_getaffinity(0))
    counts = [1] if processors == 1 else [1, processors]
    chosen = [w for w in workloads.WORKLOADS if args.only.lower() in f"{w.group}: {w.name}".lower()]
    rows: list[Row] = []
    if not chosen:
        return rows
    own_python, own_environment = python["lamina"], environment["lamina"]
    limits = {
        n: json.loads(
            subprocess.run(
                [*own_python, str(HERE / "machine.py"), str(n)],
                env=own_environment,
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        )
        for n in counts
    }
    workers = {
        (name, n): Worker([*python[name], str(HERE / "worker.py"), name, str(n)], environment[name])
        for name in python
        for n in counts
    }
    try:
        for i, w in enumerate(chosen):
            single: Row | None = None
            for n in counts if w.parallel else [1]:
                row = Row(w.name, w.group, n, w.targets, limit_of(w, limits[n]))
                measure(w, row, {name: workers[name, n] for name in python if w.make(name)}, args.rounds)
                if single is not None and "lamina" in row.best and "lamina" in single.best:
                    row.speedup = single.best["lamina"] / row.best["lamina"]
                single = single or row
                rows.append(row)
            print(f"\r{i + 1} of {len(chosen)} workloads, {w.name:50}", end="", file=sys.stderr, flush=True)
    finally:
        for worker in workers.values():
            worker.stop()
    print(file=sys.stderr)
    return rows


def measure_first_results(
    args: Any, python: dict[str, list[str]], environment: dict[str, dict[str, str]]
) -> list[Any]:
    """The rows of programs in new processes."""
    from first_results import FRESH, Runs
    from report import Row
    from systems import written_for

    runs, rows = Runs(python, environment), []
    for f in FRESH:
        if args.only.lower() not in f"first results: {f.name}".lower():
            continue
        memory = f.part == "peak"
        row = Row(
            f.name, "first results", len(os.sched_getaffinity(0)), f.targets, unit="B" if memory else "s"
        )
        values = {}
        for i in range(min(f.rounds, args.rounds)):
            for system in (s for s in python if written_for(s) in f.systems):
                try:
                    out = runs.of(f, system, i)
                    row.times.setdefault(system, []).append(out[f.part])
                    values[system] = out["value"]
                except (RuntimeError, subprocess.TimeoutExpired) as e:
                    row.failures[system] = str(e)
        if len({round(v, 2 - len(str(int(abs(v))))) for v in values.values()}) > 1:
            row.failures["lamina"] = f"results differ: {values}"
        rows.append(row)
        print(f"\r{f.name:60}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return rows


def run(args: Any) -> int:
    import compileall
    import importlib.util

    import lamina
    import report
    from machine import description
    from rich.console import Console
    from rich.table import Table
    from systems import OWN, SYSTEMS

    package = pathlib.Path(lamina.__file__).parent
    before = pathlib.Path(args.before).absolute() / "python" if args.before else None
    for folder in (package, before / "lamina") if before else (package,):
        compileall.compile_dir(str(folder), quiet=1)  # as pip does for the peers
    wanted = OWN if before else [n for n in SYSTEMS if n != "before" and (n != "torch" or args.torch)]
    names = [n for n in wanted if all(importlib.util.find_spec(p) for p in SYSTEMS[n].packages)]
    python = {name: [sys.executable] for name in names}
    environment = {name: {**os.environ, **dict(SYSTEMS[name].environment)} for name in names}
    if before:
        environment["before"]["PYTHONPATH"] = str(before)
    machine = description(tuple(p for s in SYSTEMS.values() for p in s.packages))
    rows = measure_workloads(args, python, environment) + measure_first_results(args, python, environment)
    failures = [f"{r.name}, {r.threads} threads, {s}: {why}" for r in rows for s, why in r.failures.items()]
    sentences = report.closing(rows, failures)
    console = Console(width=200)
    for group, members in report.groups(rows).items():
        peers = report.peers_of(members)
        table = Table(title=group)
        for i, heading in enumerate(report.headings(peers)):
            table.add_column(heading, justify="left" if i == 0 else "right")
        for row in members:
            table.add_row(*report.cells(row, peers))
        console.print(table)
    for sentence in sentences:
        console.print(sentence, markup=False, highlight=False)
    if args.out:
        out = pathlib.Path(args.out)
        out.with_suffix(".json").write_text(json.dumps(report.as_json(rows, machine, sentences), indent=1))
        out.with_suffix(".md").write_text(report.markdown(rows, machine, sentences))
        out.with_suffix(".svg").write_text(report.chart(rows))
    return 1 if any("lamina" in r.failures or "differ" in str(r.failures) for r in rows) else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="only workloads whose group or name contains this")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument(
        "--out", default="", help="files of this name get what was measured: .json, .md, .svg"
    )
    parser.add_argument("--environment", default="", help="a folder for the peers, made when it is not there")
    parser.add_argument(
        "--before", default="", help="a built checkout to compare with, in place of the peers"
    )
    parser.add_argument("--torch", action="store_true", help="PyTorch, too")
    args = parser.parse_args()
    if args.environment:
        from environment import python_of

        python = python_of(pathlib.Path(args.environment), args.torch)
        kept = ["--only", args.only, "--rounds", str(args.rounds), "--out", args.out, "--before", args.before]
        return subprocess.run([str(python), __file__, *kept, *["--torch"] * args.torch]).returncode
    return run(args)


if __name__ == "__main__":
    sys.exit(main())
