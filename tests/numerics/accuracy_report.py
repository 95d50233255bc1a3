"""Writes docs/accuracy.md: the worst errors that the C++ accuracy tests find. `make accuracy` runs it.

The argument is the program of the C++ tests. f32 is tried on all 2^32 inputs (with LAMINA_ULP_STRIDE=n in the
environment on one in n), against the f64 form of the rule, which is itself compared with 113-bit references on samples;
complex functions are measured by the size of the difference over the size of the exact number.
"""

from __future__ import annotations

import collections
import os
import re
import subprocess
import sys

STRIDE = int(os.environ.get("LAMINA_ULP_STRIDE", "1"))
INPUTS = "all 2^32 inputs" if STRIDE == 1 else f"one in {STRIDE} of the 2^32 inputs"
SAMPLES = 20  # times as many for f32 and f64 as in `make test`
LINE = re.compile(r"^(f64|f32|all|f16|bf16|c128)\s+(\S+)\s+([0-9.]+) at (\S+?),? ")
HEADER = f"""# How exact the functions are

Made by `make accuracy`; the tests in [tests/hlo](../tests/hlo) and [tests/numerics](../tests/numerics) keep bounds near
these numbers in every run. Units in the last place of the exact result; 0.5 is the correctly rounded one.

- **f32**: the worst of {INPUTS}; of samples for functions of two arguments.
- **f64**: the worst of some 100,000 samples a function, special values and neighbours of 1 and 2 among them, against
  113-bit references. lgamma and digamma are measured away from their negative zeros, where the tests hold an absolute
  bound.
- **c128**: |error| / |exact| in units of 2^-53, on 12,000 points; c64 is computed in f64 and each part rounded once.
- **f16, bf16**: of functions of one argument all 65,536 results are the correctly rounded ones.

| function | f32 | f64 | c128 |
|---|---|---|---|
"""


def measured(program: str, tests: str) -> str:
    environment = os.environ | {"LAMINA_ULP_REPORT": "1", "LAMINA_ULP_SAMPLES": str(SAMPLES)}
    return subprocess.run(
        [program, tests], env=environment, check=True, capture_output=True, text=True
    ).stdout


def table(report: str) -> str:
    worst: dict[str, dict[str, float]] = collections.defaultdict(dict)
    for line in report.splitlines():
        if match := LINE.match(line):
            kind, name, error, _ = match.groups()
            worst[name][kind] = float(error)
    rows = []
    for name, by_kind in sorted(worst.items()):
        f32 = by_kind.get("all", by_kind.get("f32"))
        cells = [f32, by_kind.get("f64"), by_kind.get("c128")]
        rows.append(f"| {name} | " + " | ".join("" if c is None else f"{c:.3f}" for c in cells) + " |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    print(HEADER + table(measured(sys.argv[1], "[ulp],[exhaustive]")), end="")
