"""Who may include whom among the source folders and the rooms of jit/, checked on the text of every C++ file."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

ALLOWED = {
    "hlo": {"hlo"},
    "trace": {"trace", "hlo"},
    "cluster": {"cluster", "hlo"},
    "jit": {"jit", "trace", "cluster", "hlo"},
    "lazy": {"lazy", "lamina", "jit", "trace", "cluster", "hlo"},
    "python": {"python", "lazy", "lamina", "jit", "trace", "cluster", "hlo"},
}
# The rooms of jit/: what each sees of the others. Nobody but the tools sees a device's room, and the fake
# device, which has the CPU do its work.
ROOMS = {
    "kernel": {"kernel"},
    "client": {"client"},
    "codegen": {"codegen", "kernel", "client"},
    "program": {"program", "kernel", "client"},
    "cpu": {"cpu", "program", "codegen", "kernel", "client"},
    "cuda": {"cuda", "program", "codegen", "kernel", "client"},
    "fake": {"fake", "cpu", "program", "kernel", "client"},
    "tools": {"tools", "cpu", "cuda", "fake", "program", "codegen", "kernel", "client"},
}
# Beside the rooms lies the list of the clients there are.
CLIENTS = re.compile(r"^jit/((client|cpu|cuda|fake)/client|client/exchange)\.h$")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
CUDA_HEADER = re.compile(r"^(cuda\w*\.h|cuda/|cublas\w*\.h|cudnn\w*\.h|nvJitLink\w*\.h|nvrtc\w*\.h)")
LLVM_HEADER = re.compile(r"^llvm(-c)?/")
# Emission of what instructions mean knows no schedule of a device; the engines pick one.
SCHEDULE = re.compile(r"^jit/codegen/(cpu|grid)_")
ENGINES = {"cpu": "jit/codegen/orc.", "grid": ("jit/codegen/nvptx.", "jit/codegen/ir_gate.")}


def wrong_room(name: str, header: str) -> str | None:
    """Why the file `name` may not include `header`, if the rooms of jit/ forbid it."""
    here, there = name.split("/"), header.split("/")
    if here[0] == "jit" and there[0] == "trace" and here[1] != "tools":
        return "of jit/ only the tools see trace"
    if here[0] != "jit" or there[0] != "jit":
        return None
    if name == "jit/clients.cc":
        return None if CLIENTS.match(header) else "jit/clients.cc sees the clients only"
    if len(here) == 2 or here[1] not in ROOMS:
        return "every file of jit/ lies in a room"
    if there[1] not in ROOMS[here[1]]:
        return f"jit/{here[1]} may not include jit/{there[1]}"
    own, other = SCHEDULE.match(name), SCHEDULE.match(header)
    engine = name.startswith(ENGINES[other[1]]) if other else True
    if other and not engine and (own is None or own[1] != other[1]):
        return f"only the {other[1]}'s schedules and the engine see them"
    return None


def violations(root: Path) -> list[tuple[str, str, str]]:
    """Every forbidden include below `root`: file, header and reason."""
    found = []
    for folder, allowed in ALLOWED.items():
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in {".cc", ".h", ".def", ".inc"}:
                continue
            name = path.relative_to(root).as_posix()
            for _, header in INCLUDE.findall(path.read_text()):
                top = header.split("/")[0]
                reason = None
                if "/" in header and top in ALLOWED and top not in allowed:
                    reason = f"{folder} may not include {top}"
                elif LLVM_HEADER.match(header) and not name.startswith("jit/codegen/"):
                    reason = "only jit/codegen sees LLVM"
                elif CUDA_HEADER.match(header) and not name.startswith("jit/cuda/"):
                    reason = "only jit/cuda sees CUDA"
                elif name.startswith("lazy/include/") and top in {"absl", "llvm", "pybind11"}:
                    reason = f"public headers are free of {top}"
                elif name.startswith("lazy/include/") and top in ALLOWED:
                    reason = "public headers include no internal ones"
                reason = reason or wrong_room(name, header)
                if reason:
                    found.append((name, header, reason))
    return found


def test_no_folder_includes_a_folder_to_its_right():
    assert violations(ROOT) == []


def test_a_tree_with_every_kind_of_violation_is_caught(tmp_path):
    cases = {
        "hlo/a.h": '#include "trace/x.h"',
        "trace/a.cc": '#include "cluster/x.h"',
        "cluster/a.cc": '#include "trace/x.h"',
        "jit/kernel/a.cc": '#  include "lazy/x.h"',
        "jit/kernel/b.cc": '#include "trace/x.h"',
        "jit/kernel/c.cc": '#include "jit/codegen/x.h"',
        "jit/codegen/section.h": '#include "jit/codegen/cpu_lanes.h"',
        "jit/codegen/grid_rows.cc": '#include "jit/codegen/cpu_rows.h"',
        "jit/codegen/nvptx.h": '#include "jit/codegen/cpu_schedule.h"',
        "jit/client/a.h": '#include "jit/program/x.h"',
        "jit/program/a.h": '#include "jit/cpu/x.h"',
        "jit/cuda/b.h": '#include "jit/cpu/x.h"',
        "jit/a.cc": '#include "jit/client/x.h"',
        "jit/clients.cc": '#include "jit/cpu/client.h"\n#include "jit/program/x.h"',
        "jit/cpu/a.cc": "#include <llvm/IR/Module.h>",
        "jit/cpu/b.cc": "#include <cuda.h>",
        "lazy/a.cc": '#include "python/x.h"',
        "lazy/include/lamina/a.h": "#include <absl/status/status.h>",
        "lazy/include/lamina/b.h": "#include <pybind11/pybind11.h>",
        "lazy/include/lamina/c.h": '#include "hlo/x.h"',
    }
    fine = {
        "jit/codegen/a.cc": "#include <llvm/IR/Module.h>",
        "jit/codegen/cpu_rows.cc": '#include "jit/codegen/cpu_lanes.h"\n#include "jit/codegen/section.h"',
        "jit/codegen/orc.cc": '#include "jit/codegen/cpu_schedule.h"',
        "jit/codegen/nvptx.cc": '#include "jit/codegen/grid_schedule.h"',
        "jit/cuda/a.cc": "#include <cuda.h>",
        "jit/cpu/c.cc": '#include "jit/program/x.h"',
        "lazy/b.cc": '#include "jit/x.h"\n#include <absl/status/status.h>',
        "python/a.cc": '#include "lamina/tensor.h"',
        "hlo/b.h": "#include <cstdint>",
    }
    for name, text in (cases | fine).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert {name for name, _, _ in violations(tmp_path)} == set(cases)
