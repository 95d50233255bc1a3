"""What all Python tests share."""

import os
import subprocess
import sys

import pytest

# Tests count compiles: what an earlier run left on disk must not change them.
os.environ["LAMINA_CACHE_DIR"] = ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
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
