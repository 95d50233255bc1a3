"""Who may include whom among the source folders, checked on the text of every C++ file."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

ALLOWED = {
    "hlo": {"hlo"},
    "trace": {"trace", "hlo"},
    "cluster": {"cluster", "hlo"},
    "jit": {"jit", "cluster", "hlo"},
    "lazy": {"lazy", "lamina", "jit", "trace", "cluster", "hlo"},
    "python": {"python", "lazy", "lamina", "jit", "trace", "cluster", "hlo"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
CUDA_HEADER = re.compile(r"^(cuda\w*\.h|cuda/|cublas\w*\.h|cudnn\w*\.h|nvJitLink\w*\.h|nvrtc\w*\.h)")
LLVM_HEADER = re.compile(r"^llvm(-c)?/")


def violations(root: Path) -> list[str]:
    """Every forbidden include below `root`, as 'file: header (reason)'."""
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
                elif LLVM_HEADER.match(header) and not name.startswith("jit/cpu/llvm/"):
                    reason = "only jit/cpu/llvm sees LLVM"
                elif CUDA_HEADER.match(header) and not name.startswith("jit/cuda/"):
                    reason = "only jit/cuda sees CUDA"
                elif name.startswith("lazy/include/") and top in {"absl", "llvm", "pybind11"}:
                    reason = f"public headers are free of {top}"
                elif name.startswith("lazy/include/") and top in ALLOWED:
                    reason = "public headers include no internal ones"
                if reason:
                    found.append(f"{name}: {header} ({reason})")
    return found


def test_no_folder_includes_a_folder_to_its_right():
    assert violations(ROOT) == []


def test_a_tree_with_every_kind_of_violation_is_caught(tmp_path):
    cases = {
        "hlo/a.h": '#include "trace/x.h"',
        "trace/a.cc": '#include "cluster/x.h"',
        "cluster/a.cc": '#include "trace/x.h"',
        "jit/a.cc": '#  include "lazy/x.h"',
        "jit/b.cc": '#include "trace/x.h"',
        "jit/cpu/a.cc": "#include <llvm/IR/Module.h>",
        "jit/cpu/b.cc": "#include <cuda.h>",
        "lazy/a.cc": '#include "python/x.h"',
        "lazy/include/lamina/a.h": "#include <absl/status/status.h>",
        "lazy/include/lamina/b.h": "#include <pybind11/pybind11.h>",
        "lazy/include/lamina/c.h": '#include "hlo/x.h"',
    }
    fine = {
        "jit/cpu/llvm/a.cc": "#include <llvm/IR/Module.h>",
        "jit/cuda/a.cc": "#include <cuda.h>",
        "lazy/b.cc": '#include "jit/x.h"\n#include <absl/status/status.h>',
        "python/a.cc": '#include "lamina/tensor.h"',
        "hlo/b.h": "#include <cstdint>",
    }
    for name, text in (cases | fine).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    assert {line.split(":")[0] for line in violations(tmp_path)} == set(cases)
