"""The specialization cache as data and text: what was compiled, where, why, what it cost and how often it ran."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from lamina import _core


def stats() -> dict[str, Any]:
    """Counters: entries, hits, misses, compiles, kernel tiers, syncs, memory (bytes), times (ms)."""
    return _core.cache_stats()


def entries() -> list[dict[str, Any]]:
    """One dict per entry, most recently used first."""
    return _core.cache_entries()


def explain(entry: int) -> str:
    """Why entry `entry` was compiled, what it was compared with, its steps and what was not fused.

    KeyError if there is no such entry.
    """
    found = [e for e in entries() if e["id"] == entry]
    if not found:
        raise KeyError(f"there is no cache entry {entry}; there are {sorted(e['id'] for e in entries())}")
    e = found[0]
    lines = [
        f"{e['name'] or 'lazy program'} recorded at {e['where'] or 'an unknown line'}",
        f"  compiled because: {e['reason']}",
    ]
    if e["nearest"] >= 0:
        lines.append(f"  nearest entry: {e['nearest']}")
    lines.append(f"  arguments: {' '.join(e['arguments'][:8])}{' ...' if len(e['arguments']) > 8 else ''}")
    lines.append(
        f"  {e['nodes']} nodes in {e['steps']} steps, compiled in {e['compile_ms']:.2f} ms, "
        f"run {e['runs']} times in {e['run_ms']:.2f} ms"
    )
    lines.append(f"  holds at most {e['peak_bytes']:,} bytes besides its arguments")
    return "\n".join(lines) + "\n" + _core.cache_listing(entry, "steps")


STAGES: tuple[str, ...] = _core.LISTING_STAGES


def listing(entry: int, stage: str = "steps") -> str:
    """What entry `entry` became: a `stage` of its way to machine code, as text.

    "steps": what runs, the fusion groups and why others were not fused; "plan": where values lie, what each step
    reads and writes and which steps it waits for; "kernels": the text of each kernel, once, with the schedule it has
    on this machine; "ir" and "assembly": what LLVM makes of them. KeyError if there is no
    such entry, ValueError if there is no such stage.
    """
    return _core.cache_listing(entry, stage)


def branches(f: Any = None) -> str:
    """The decisions on argument values that a jitted function `f` takes, as a tree of lines, and the paths they lead to.

    Without `f`, of all jitted functions that have decided anything. TypeError if `f` is no jitted function.
    """
    from lamina import _jit

    if f is not None and not isinstance(f, _jit.Jitted):
        raise TypeError(f"cache.branches needs a jitted function, not {type(f).__name__}")
    found = [f] if f is not None else list(_jit._alive)
    return "\n".join(t for t in (g.branches() for g in found) if f is not None or " at " in t)


def clear() -> None:
    """Forgets every entry and the counters, and lets go of kernels that nothing else uses."""
    _core.cache_clear()


def clear_caches() -> None:
    """As `clear`, and every jitted function forgets its traces: the next call of each traces and compiles again."""
    from lamina import _jit

    for f in list(_jit._alive):
        f.clear_cache()
    clear()


def wait() -> None:
    """Returns when no kernel waits for its machine code any more: what is timed after it runs at full speed.

    Kernels begin interpreted, and a thread compiles those that have run long or often enough. With
    LAMINA_COMPILE=first in the environment each is compiled before its first run instead, by its caller.
    """
    while not _core.kernels_settled():
        time.sleep(0.0005)


def disk() -> dict[str, Any]:
    """Machine code kept between processes: its `directory`, `objects`, `bytes`, and why it is `unusable` (or "").

    The directory is $LAMINA_CACHE_DIR (set to nothing: no such cache), else $XDG_CACHE_HOME/lamina, else
    ~/.cache/lamina.
    """
    return _core.disk_cache()


def clear_disk() -> tuple[int, int]:
    """Removes the machine code kept between processes; how many objects and bytes that was."""
    return _core.clear_disk_cache()


def show(limit: int = 40) -> str:
    """A table of the entries, most recently used first."""
    rows = [("id", "kind", "where", "arguments", "runs", "compile", "run", "why")]
    for e in entries()[:limit]:
        where = e["where"].rsplit("/", 1)[-1] + (f" {e['name']}" if e["name"] else "")
        arguments = " ".join(e["arguments"][:2]) + (
            f" +{len(e['arguments']) - 2}" if len(e["arguments"]) > 2 else ""
        )
        rows.append(
            (
                str(e["id"]),
                e["kind"],
                where,
                arguments,
                str(e["runs"]),
                f"{e['compile_ms']:.1f} ms",
                f"{e['run_ms']:.1f} ms",
                e["reason"],
            )
        )
    widths = [max(len(r[c]) for r in rows) for c in range(len(rows[0]))]
    right = {0, 4, 5, 6}
    lines = [
        "  ".join(
            t.rjust(w) if c in right else t.ljust(w) for c, (t, w) in enumerate(zip(r, widths))
        ).rstrip()
        for r in rows
    ]
    s = stats()
    lines.append(
        f"{s['entries']} entries, {s['hits']} hits, {s['misses']} misses, {s['kernel_compiles']} kernels "
        f"compiled in {s['kernel_compile_ms']:.1f} ms, {s['kernels_pending']} waiting, "
        f"{s['code_bytes'] / 1024:.0f} KiB of code"
    )
    return "\n".join(lines)


@contextlib.contextmanager
def threads(n: int) -> Iterator[None]:
    """Limits the threads that computations started inside the block may use (at least 1)."""
    limit = _core.ThreadLimit(int(n))
    try:
        yield
    finally:
        del limit
