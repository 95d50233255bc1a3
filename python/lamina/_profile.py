"""Where a program's time goes, by the user's lines: ``with lamina.profile() as p: ...; print(p)``."""

from __future__ import annotations

import json
import linecache
import os
import site
import sys
import sysconfig
from dataclasses import dataclass
from typing import Any

from lamina import _core
from lamina._source import PACKAGE

OUTSIDE = "(Python outside Lamina)"
UNKNOWN = "(no line known)"


@dataclass(frozen=True)
class Line:
    """What a line of the user's program cost, with all that Lamina did for it."""

    file: str  # empty: not known
    line: int
    source: str
    ms: float  # of the profile's thread
    parts: dict[
        str, float
    ]  # the same by what was done: call, trace, plan, compile, run, step, launch, wait...
    elsewhere_ms: float  # of other threads meanwhile
    calls: int  # of Lamina, by this line
    runs: int  # of steps that do some of its operations
    bytes: int  # that these steps read and wrote for it, at least
    flops: int
    share: float | None  # what its bytes and flops take at the machine's limits, as a part of `ms`

    @property
    def place(self) -> str:
        """``file.py:12``, as a path from here where the file lies below."""
        return f"{_shown(self.file)}:{self.line}" if self.file else UNKNOWN


@dataclass(frozen=True)
class Step:
    """One step of a program: a kernel, a routine, a loop around others."""

    what: str
    device: str
    lines: tuple[tuple[str, int], ...]  # whose operations it does, the most costly first
    runs: int
    ms: float
    bytes: int  # of all runs
    flops: int
    share: float | None  # as Line.share, of its own time


def _shown(file: str) -> str:
    try:
        path = os.path.relpath(file)
    except (OSError, ValueError):  # no current folder, or another drive
        return file
    return file if path.startswith(os.pardir) else path


def _owners() -> None:
    """Tells whose the code of files is: the library's, that of whoever calls it, the user's."""
    paths = sysconfig.get_paths()
    users = {paths["purelib"], paths["platlib"], *site.getsitepackages(), site.getusersitepackages()}
    callers = {paths["stdlib"] + os.sep, paths["platstdlib"] + os.sep, "<frozen "}
    callers |= {PACKAGE + "_profile.py", PACKAGE + "__main__.py"}
    callers |= {os.path.join(folder, "numpy") + os.sep for folder in users}
    _core.set_code_owners([PACKAGE], sorted(callers), sorted(folder + os.sep for folder in users))


def _share(limit_ns: float, ms: float) -> float | None:
    return limit_ns / 1e6 / ms if limit_ns > 0 and ms > 0 else None


class Profile:
    """What `profile` gives: a context manager, and the report once it has ended."""

    def __init__(self) -> None:
        self._open: Any = None
        self._report: Any = None

    def __enter__(self) -> Profile:
        if self._open is not None or self._report is not None:
            raise RuntimeError("a profile is of one block: call lamina.profile() again for another")
        _owners()
        if sys.version_info >= (3, 12) and (other := sys.monitoring.get_tool(sys.monitoring.PROFILER_ID)):
            # Python would let both begin, and the other one would miss what is called meanwhile.
            raise RuntimeError(
                f"another profiler, {other}, is at work: end it before a profile of lamina begins"
            )
        self._open = _core.Profile()
        return self

    def __exit__(self, *_: Any) -> None:
        report = self._open.end()
        self._open, self._report = None, report

    def _ended(self) -> Any:
        if self._report is None:
            raise RuntimeError("a profile is read after its block: it has not ended yet")
        return self._report

    @property
    def wall_ms(self) -> float:
        """From the beginning to the end of the block."""
        return float(self._ended().wall_ms)

    @property
    def outside_ms(self) -> float:
        """Of it, what this thread spent in code that is not Lamina's."""
        return float(self._ended().outside_ms)

    @property
    def limits(self) -> dict[str, Any]:
        """Measured on this machine: bytes and floating-point operations per second, on so many threads."""
        return dict(self._ended().limits)

    @property
    def spans(self) -> int:
        """How many spans its trace has; beyond 400,000 they count in the sums only."""
        return int(self._ended().spans)

    @property
    def lines(self) -> list[Line]:
        """A row per line, the longest first. Their `ms`, with `outside_ms`, add up to `wall_ms`."""
        out = []
        for row in self._ended().lines:
            ms = sum(row["parts"].values())
            source = linecache.getline(row["file"], row["line"]).strip() if row["file"] else ""
            out.append(
                Line(
                    row["file"],
                    row["line"],
                    source,
                    ms,
                    row["parts"],
                    row["elsewhere_ms"],
                    row["calls"],
                    row["runs"],
                    row["bytes"],
                    row["flops"],
                    _share(row["limit_ns"], ms),
                )
            )
        return sorted(out, key=lambda line: -line.ms)

    @property
    def steps(self) -> list[Step]:
        """A row per step of a program and the lines that it stands for, the longest first."""
        return [
            Step(
                row["what"],
                row["device"],
                tuple(row["lines"]),
                row["runs"],
                row["ms"],
                row["bytes"],
                row["flops"],
                _share(row["limit_ns"], row["ms"]),
            )
            for row in self._ended().steps
        ]

    def table(self, top: int | None = None) -> str:
        """The rows as text; with `top`, the first so many and the sum of the others."""
        wall = self.wall_ms
        lines = [x for x in self.lines if x.ms or x.calls or x.runs]
        out = [f"{'ms':>10} {'%':>5} {'calls':>8} {'runs':>8} {'bytes':>9} {'flops':>9} {'limit':>6}  line"]

        def row(ms: float, what: str, *counts: Any) -> None:
            calls, runs, moved, flops, share = counts or (0, 0, 0, 0, None)
            cells = (
                f"{ms:10.3f} {100 * ms / wall if wall else 0:5.1f} {calls or '':>8} {runs or '':>8} "
                f"{_units(moved):>9} {_units(flops):>9} {'' if share is None else f'{share:.0%}':>6}"
            )
            out.append(f"{cells}  {what}")

        shown = lines if top is None else lines[:top]
        for x in shown:
            what = f"{x.place}: {x.source}" if x.source else x.place
            row(x.ms, what, x.calls, x.runs, x.bytes, x.flops, x.share)
        if rest := lines[len(shown) :]:
            sums = [sum(getattr(x, name) for x in rest) for name in ("calls", "runs", "bytes", "flops")]
            row(sum(x.ms for x in rest), f"({len(rest)} further lines)", *sums, None)
        row(self.outside_ms, OUTSIDE)
        out.append(f"{wall:10.3f} 100.0  wall time of the profiled thread")
        elsewhere = sum(x.elsewhere_ms for x in self.lines)
        if elsewhere > 0:
            out.append(f"{elsewhere:10.3f}        on other threads meanwhile")
        limits = self.limits
        out.append(
            f"limit: {_units(limits['bytes_per_s'])}B/s of memory, {_units(limits['flops_per_s'])}flop/s in float32, "
            f"measured on {limits['threads']} threads"
        )
        if dropped := self._ended().spans_dropped:
            out.append(f"the trace has {self.spans:,} spans, and lacks {dropped:,} further ones")
        return "\n".join(out)

    def __str__(self) -> str:
        return self.table()

    def as_dict(self) -> dict[str, Any]:
        """All of it but the trace, for JSON."""
        return {
            "wall_ms": self.wall_ms,
            "outside_ms": self.outside_ms,
            "limits": self.limits,
            "lines": [vars(line) for line in self.lines],
            "steps": [vars(step) for step in self.steps],
        }

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the trace, for ui.perfetto.dev or chrome://tracing: what each thread did when."""
        with open(path, "wb") as file:
            file.write(self._ended().trace())

    def save_json(self, path: str | os.PathLike[str]) -> None:
        """Writes `as_dict` as JSON."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.as_dict(), file)


def _units(n: float) -> str:
    if n == 0:
        return ""
    for unit in ("", "k", "M", "G"):
        if n < 999.5:
            return f"{n:.0f}{unit and ' ' + unit}" if n >= 99.5 or not unit else f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} T"


def profile() -> Profile:
    """Profiles what this thread does in a block: ``with lamina.profile() as p: ...``, then ``print(p)``, ``p.lines``.

    Time is divided among the lines that called Lamina and those whose operations ran; the rest is Python's.
    Blocks may nest, each with a report of its own. RuntimeError where another profiler, such as cProfile, is at work
    on the thread.
    """
    return Profile()
