"""The Python environment of the benchmark: one folder with every peer in it, made once and then found."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import venv

from systems import SYSTEMS


def wanted(torch: bool) -> list[str]:
    """Names of the packages to install; PyTorch is large and only taken when asked for."""
    names = [p for s in SYSTEMS.values() for p in s.packages if torch or s.name != "torch"]
    return sorted({*names, "rich"})


def python_of(folder: pathlib.Path, torch: bool) -> pathlib.Path:
    """The interpreter of the environment in `folder`, made or completed first. Errors of pip end the run."""
    python, stamp = folder / "bin" / "python", folder / "packages.txt"
    packages = "\n".join([sys.version, *wanted(torch)])
    if not stamp.exists() or stamp.read_text() != packages:
        print(f"bench: making {folder}", file=sys.stderr, flush=True)
        venv.create(folder, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "-q"]
        subprocess.run([*pip, *wanted(torch)], check=True)
        stamp.write_text(packages)
    return python
