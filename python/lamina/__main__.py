"""The command line: `python -m lamina profile SCRIPT`, `... cache show|explain|branches ... SCRIPT`,
`... cache clear`, `... plan FILE`, `... doctor`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import types
from collections.abc import Sequence


def _run(script: str, arguments: Sequence[str]) -> None:
    """Runs a script as `python SCRIPT ...` does: as __main__, with its arguments and its folder on the path."""
    with open(script, "rb") as file:
        code = compile(file.read(), script, "exec")
    sys.argv = [script, *arguments]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(script))
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=script, __builtins__=__builtins__, __cached__=None)
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def _profile(options: argparse.Namespace) -> int:
    from lamina import _core
    from lamina._profile import profile

    status = 0
    try:
        with open(options.script, "rb"):
            pass
    except OSError as e:
        print(f"lamina profile: {e}", file=sys.stderr)
        return 2
    if options.perf:
        _core.write_perf_map()
    with profile() as report:
        try:
            _run(options.script, options.arguments)
        except SystemExit as e:
            status = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
            if status == 1 and not isinstance(e.code, int):
                print(e.code, file=sys.stderr)
        except BaseException as e:  # the script's end, told as Python tells it
            trace = e.__traceback__
            while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
                trace = trace.tb_next
            sys.excepthook(type(e), e, trace)
            status = 130 if isinstance(e, KeyboardInterrupt) else 1
    print(report.table(options.top))
    if options.trace:
        report.save(options.trace)
    if options.json:
        report.save_json(options.json)
    return status


def _cache(options: argparse.Namespace) -> int:
    from lamina import cache

    if options.action == "clear":
        objects, size = cache.clear_disk()
        print(f"removed {objects} kernels, {size:,} bytes, from {cache.disk()['directory'] or 'nowhere'}")
        return 0
    # A script may end with its own exit; the cache it filled is what was asked for.
    with contextlib.suppress(SystemExit):
        _run(options.script, options.arguments)
    if options.action == "show":
        print(
            json.dumps({"entries": cache.entries(), "stats": cache.stats()}) if options.json else cache.show()
        )
        return 0
    if options.action == "branches":
        print(cache.branches() or "no function decides on values of its arguments")
        return 0
    entries = cache.entries()
    if options.entry == "last":
        chosen = max((e["id"] for e in entries), default=None)
    elif options.entry.isdigit():
        chosen = int(options.entry)
    else:
        chosen = next((e["id"] for e in entries if e["where"].endswith(options.entry)), None)
    if chosen is None or all(e["id"] != chosen for e in entries):
        known = ", ".join(str(e["id"]) for e in entries)
        print(f"there is no entry {options.entry!r}; there are {known or 'none'}", file=sys.stderr)
        return 1
    print(cache.explain(chosen) if options.stage == "steps" else cache.listing(chosen, options.stage))
    return 0


def _plan(options: argparse.Namespace) -> int:
    import warnings

    from lamina import plans

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the summary says it
        try:
            plan = plans.load(options.file)
        except (OSError, TypeError, ValueError) as e:
            print(e, file=sys.stderr)
            return 1
    print(
        plan.as_text("full" if options.stage == "program" else options.stage)
        if options.stage
        else plan.summary(),
        end="",
    )
    return 0


def _doctor(_: argparse.Namespace) -> int:
    from lamina import _core

    disk = _core.disk_cache()  # before this program adds to it
    _core.set_eager_compile(True)
    from lamina import numpy as lnp

    try:
        ok = float(lnp.sum(lnp.ones(3) + 1.0)) == 6.0
        arithmetic = "works" if ok else "is wrong"
    except (MemoryError, RuntimeError, ValueError) as e:  # of a default device that is not there, say
        ok, arithmetic = False, f"fails: {str(e).splitlines()[0]}"
    missing = _core.code_generator_missing()
    kept = disk["unusable"] or f"{disk['directory']}: {disk['objects']} kernels, {disk['bytes']:,} bytes"
    for what, found in (
        ("threads", _core.available_threads()),
        ("code generator", f"missing: {missing}" if missing else "found"),
        ("kept on disk", kept),
        *_core.findings(),
        ("arithmetic", arithmetic),
    ):
        print(f"{what:<18}{found}")
    return 0 if ok else 1


def main() -> int:
    from lamina.cache import STAGES

    parser = argparse.ArgumentParser(prog="lamina", description="Lamina's command line.")
    commands = parser.add_subparsers(dest="command", required=True)
    profiled = commands.add_parser("profile", help="run a script; where its time goes, by line")
    profiled.add_argument("--top", type=int, metavar="N", help="the N longest lines only")
    profiled.add_argument("--trace", metavar="FILE", help="what each thread did when, for ui.perfetto.dev")
    profiled.add_argument("--json", metavar="FILE", help="the table, and a row for each step, as JSON")
    profiled.add_argument(
        "--perf", action="store_true", help="names of generated code for perf, in /tmp/perf-PID.map"
    )
    profiled.add_argument("script")
    profiled.add_argument("arguments", nargs=argparse.REMAINDER)
    cache = commands.add_parser("cache", help="what was compiled, and the kernels kept on disk")
    actions = cache.add_subparsers(dest="action", required=True)
    show = actions.add_parser("show", help="run a script; a table of its specializations")
    show.add_argument("--json", action="store_true", help="the same data as JSON")
    explain = actions.add_parser("explain", help="run a script; why one entry was compiled")
    branches = actions.add_parser("branches", help="run a script; what its functions decide on values")
    actions.add_parser("clear", help="remove the kernels kept on disk")
    explain.add_argument(
        "--stage",
        default="steps",
        choices=STAGES,
        help="what the entry became, on its way to machine code",
    )
    explain.add_argument("entry", help="its id, its FILE:LINE, or 'last'")
    for action in (show, explain, branches):
        action.add_argument("script")
        action.add_argument("arguments", nargs=argparse.REMAINDER)
    plan = commands.add_parser("plan", help="what a plan file holds")
    plan.add_argument(
        "--stage", choices=("program", *STAGES), help="its program, or a stage of it on this machine"
    )
    plan.add_argument("file")
    commands.add_parser("doctor", help="what was found on this machine")
    options = parser.parse_args()
    return {"profile": _profile, "cache": _cache, "plan": _plan, "doctor": _doctor}[options.command](options)


if __name__ == "__main__":
    sys.exit(main())
