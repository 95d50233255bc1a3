"""What all Python tests share."""

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Tests count compiles: what an earlier run left on disk must not change them.
os.environ["LAMINA_CACHE_DIR"] = ""
# What JAX is asked for runs once: most of its time was optimizing that.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    platform = os.environ.get("LAMINA_DEFAULT_DEVICE", "cpu").partition(":")[0]
    for name in {"cpu": [], "cuda": ["host_only", "not_on_cuda"]}.get(platform, ["host_only"]):
        for item in items:
            if marker := item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=marker.kwargs["reason"]))
    about_code = [item for item in items if item.get_closest_marker("machine_code")]
    if not about_code:
        return
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    doctor = subprocess.run(
        [sys.executable, "-m", "lamina", "doctor"], env=env, capture_output=True, text=True
    )
    if missing := [
        line for line in doctor.stdout.splitlines() if line.startswith("code generator    missing")
    ]:
        for item in about_code:
            item.add_marker(pytest.mark.skip(reason=missing[0]))


def pytest_collection_finish() -> None:
    # Thousands of tests and the libraries they compare with are walked by every collection, and tests collect often.
    gc.collect()
    gc.freeze()


def built(path: str, what: str) -> str:
    """What the newest of the build folders has at a path; skips the test where none has it."""
    folders = (Path(__file__).parents[1] / "build").glob("*/")
    found = [folder / path for folder in folders if (folder / path).exists()]
    if not found:
        pytest.skip(f"{what} is not built")
    return str(max(found, key=lambda file: file.stat().st_mtime))


@pytest.fixture(scope="session")
def cuda_standin() -> str:
    """The stand-in for the CUDA driver, which is built with the C++ tests."""
    return built("tests/liblamina_cuda_standin.so", "the stand-in for the CUDA driver")


@pytest.fixture(scope="session")
def lamina_opt() -> str:
    """The program that prints modules and what becomes of them."""
    return built("lamina-opt", "lamina-opt")
