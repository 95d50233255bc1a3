"""Tests and measurements of CUDA devices on a machine that has one, from the bundle of `make gpu-bundle`.

python3 run.py [STAGE ...]: all of `facts`, `correctness`, `speed`, `memcheck` and `profile`, or those named. Each ends
within ten minutes; what it found is in results.json from the moment it is known, and in a table at the end.
`--driver PATH` names another driver than the machine's.
"""

import argparse
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIMIT = 600.0
LIBRARIES = {
    "LAMINA_NVJITLINK": "libnvJitLink.so.1*",
    "LAMINA_CUBLAS": "libcublas.so.1*",
    "LAMINA_CUBLASLT": "libcublasLt.so.1*",
    "LAMINA_CUDNN": "libcudnn.so.9",
    "LAMINA_CUFFT": "libcufft.so.1*",
    "LAMINA_CUSOLVER": "libcusolver.so.1*",
}
# Filters of the test program, each a run of its own: one that ends the process leaves the others.
TESTS = (
    "[cuda_calls]",
    "[cuda_graphs_anywhere]",
    "[native]",
    "[executable]~[smith]~[.]",
    "[cuda_programs]",
    "[cuda_library]",
)


class Results:
    """What is known so far, on disk."""

    def __init__(self) -> None:
        self.found: dict[str, dict] = {}
        self.file = HERE / "results.json"

    def add(self, stage: str, name: str, value: object) -> None:
        self.found.setdefault(stage, {})[name] = value
        self.file.write_text(json.dumps(self.found, indent=1))
        print(
            f"{stage}: {name}: {value if isinstance(value, (str, int, float)) else json.dumps(value)}",
            flush=True,
        )


def environment(driver: str | None) -> dict[str, str]:
    known = dict(
        os.environ,
        LAMINA_CUDA_DRIVER=driver or "libcuda.so.1",
        LAMINA_TESTS_LLVM=str(HERE / "liblamina_llvm.so"),
        LD_LIBRARY_PATH=os.pathsep.join([str(HERE / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]),
    )
    for place in (*Path("/usr/local").glob("cuda*/lib64"), *Path("/usr/local").glob("cuda*/lib")):
        for variable, name in LIBRARIES.items():
            for library in sorted(place.glob(name)):
                known.setdefault(variable, str(library))
    for variable in LIBRARIES:
        known.setdefault(variable, "")
    return known


def run(command: list[str], env: dict[str, str], limit: float) -> tuple[int, str, float]:
    begin = time.monotonic()
    try:
        done = subprocess.run(
            command, env=env, cwd=HERE, capture_output=True, text=True, timeout=max(limit, 1.0)
        )
        status, said = done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired as e:
        status, said = 124, (e.stdout or b"").decode(errors="replace")
    return status, said, time.monotonic() - begin


def facts(results: Results, env: dict[str, str]) -> None:
    if shutil.which("nvidia-smi"):
        query = "name,driver_version,memory.total,clocks.max.sm,clocks.max.mem,power.limit"
        status, said, _ = run(["nvidia-smi", f"--query-gpu={query}", "--format=csv"], env, 60)
        results.add("facts", "nvidia-smi", said.strip() if status == 0 else f"status {status}")
    status, said, _ = run(["./cuda_bench", "--small", "--only", "launch"], env, 120)
    results.add("facts", "device", said.strip().splitlines()[0] if said.strip() else f"status {status}")


def correctness(results: Results, env: dict[str, str]) -> None:
    end = time.monotonic() + LIMIT
    for tests in TESTS:
        status, said, seconds = run(["./lamina_tests", tests, "-d", "yes"], env, end - time.monotonic())
        tail = said.strip().splitlines()[-40:]
        found = {"status": status, "seconds": round(seconds, 1), "last": tail[-1] if tail else ""}
        if status:
            found["output"] = "\n".join(tail)
        results.add("correctness", tests, found)


def speed(results: Results, env: dict[str, str]) -> None:
    _, said, _ = run(["./cuda_bench"], env, LIMIT)
    for line in said.splitlines():
        if line.startswith('{"name"'):
            row = json.loads(line)
            results.add("speed", row.pop("name"), row)


def memcheck(results: Results, env: dict[str, str]) -> None:
    tool = shutil.which("compute-sanitizer")
    if not tool:
        results.add("memcheck", "compute-sanitizer", "is not there")
        return
    end = time.monotonic() + LIMIT
    for kind in ("memcheck", "racecheck", "initcheck", "synccheck"):
        command = [tool, "--tool", kind, "--error-exitcode", "9", "./lamina_tests", "[cuda_calls]"]
        status, said, seconds = run(command, env, min(end - time.monotonic(), LIMIT / 3))
        found = {"status": status, "seconds": round(seconds, 1)}
        if status:
            found["output"] = said[-4000:]
        results.add("memcheck", kind, found)


def profile(results: Results, env: dict[str, str]) -> None:
    tool = shutil.which("ncu")
    rows = results.found.get("speed", {})
    slow = sorted((r["gigabytes_per_second"], n) for n, r in rows.items() if "gigabytes_per_second" in r)
    if not tool or not slow:
        results.add("profile", "ncu", "is not there" if not tool else "speed comes first")
        return
    for _, name in slow[:3]:
        command = [tool, "--launch-count", "1", "--launch-skip", "3", "./cuda_bench", "--only", name]
        _, said, _ = run(command, env, LIMIT / 3)
        results.add("profile", name, said[-6000:])


STAGES = {f.__name__: f for f in (facts, correctness, speed, memcheck, profile)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stages", nargs="*", choices=[*STAGES, []], help="all of them")
    parser.add_argument("--driver", help="another driver than libcuda.so.1")
    options = parser.parse_args()
    results, env = Results(), environment(options.driver)
    for name in options.stages or STAGES:
        STAGES[name](results, env)
    print()
    for name, row in results.found.get("speed", {}).items():
        print(
            f"{name:24} {row.get('microseconds', 0):12.1f} us {row.get('gigabytes_per_second', 0):9.1f} GB/s"
        )
    failed = [n for n, r in results.found.get("correctness", {}).items() if r["status"]]
    print(f"{len(failed)} of {len(results.found.get('correctness', {}))} test runs failed", *failed)
    return bool(failed)


if __name__ == "__main__":
    raise SystemExit(main())
