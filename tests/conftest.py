"""What all Python tests share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Tests count compiles: what an earlier run left on disk must not change them.
os.environ["LAMINA_CACHE_DIR"] = ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not os.environ.get("LAMINA_DEFAULT_DEVICE", "cpu").startswith("cpu"):
        for item in items:
            if marker := item.get_closest_marker("host_only"):
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


@pytest.fixture(scope="session")
def cuda_standin() -> str:
    """The stand-in for the CUDA driver, which is built with the C++ tests."""
    build = Path(__file__).parents[1] / "build"
    built = sorted(
        build.glob("*/tests/liblamina_cuda_standin.so"), key=lambda library: library.stat().st_mtime
    )
    if not built:
        pytest.skip("the C++ tests, and with them the stand-in for the CUDA driver, are not built")
    return str(built[-1])
