"""The command line runs a script and shows its cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import lamina as lm, lamina.numpy as lnp

@lm.jit
def scaled(x):
    return x * 3.0

for n in (4, 5):
    scaled(lnp.ones((n, 2)))
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return str(path)


def lamina(*arguments):
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    return subprocess.run(
        [sys.executable, "-m", "lamina", *arguments], env=env, capture_output=True, text=True
    )


def test_show_and_json(script):
    out = lamina("cache", "show", script)
    assert out.returncode == 0
    assert "train.py:4 scaled" in out.stdout
    assert "f32[4,2] -> f32[5,2]" in out.stdout
    data = json.loads(lamina("cache", "show", "--json", script).stdout)
    assert {"f32[4,2] -> f32[5,2]" in e["reason"] for e in data["entries"] if e["name"] == "scaled"} == {
        True,
        False,
    }


def test_explain(script):
    out = lamina("cache", "explain", "last", script)
    assert out.returncode == 0
    assert "f32[4,2] -> f32[5,2]" in out.stdout
    assert "multiply" in out.stdout
    wrong = lamina("cache", "explain", "999", script)
    assert wrong.returncode == 1
    assert "no entry" in wrong.stderr


def test_doctor():
    out = lamina("doctor")
    assert out.returncode == 0, out.stdout
    assert "code generator    found" in out.stdout
