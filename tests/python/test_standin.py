"""The stand-in for jax that outside test suites are run with: installs in a fresh process, gives JAX's numbers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
STANDIN = ROOT / "tests" / "standin"


def run(*arguments, code=None):
    path = os.pathsep.join([str(ROOT / "python"), str(STANDIN)])
    command = [sys.executable, *(["-c", code] if code else [str(STANDIN / "programs.py"), *arguments])]
    environment = {**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def both():
    return json.loads(run("lamina")), json.loads(run())


def flat(x):
    return [v for part in x for v in flat(part)] if isinstance(x, list) else [x]


def names():
    text = (STANDIN / "programs.py").read_text()
    return [
        line[4:].split("(")[0] for line in text.splitlines() if line.startswith("def ") and "(x)" not in line
    ]


@pytest.mark.parametrize("name", names())
def test_a_program_gives_what_jax_gives(both, name):
    ours, real = flat(both[0][name]), flat(both[1][name])
    assert len(ours) == len(real)
    for a, b in zip(ours, real):
        if isinstance(b, float):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
        else:
            assert a == b


def test_names_that_are_not_there_are_absent():
    code = (
        "import lamina_as_jax; lamina_as_jax.install(); lamina_as_jax.install()\n"
        "import jax, jax.numpy as jnp, jax.nn.initializers, jax.scipy.stats.norm\n"
        "print(hasattr(jnp, 'no_such_name'), hasattr(jax, 'no_such'), isinstance(jnp.ones(2), jax.Array))\n"
        "try:\n    import jax.experimental.mosaic\nexcept ImportError: print('absent')"
    )
    assert run(code=code).split() == ["False", "False", "True", "absent"]


def test_real_jax_loaded_before_is_refused():
    code = (
        "import jax, lamina_as_jax\n"
        "try:\n    lamina_as_jax.install()\nexcept RuntimeError as e: print('imported already' in str(e))"
    )
    assert run(code=code).strip() == "True"


def test_an_error_points_at_the_users_line():
    code = (
        "import lamina_as_jax; lamina_as_jax.install()\nimport jax.numpy as jnp\n"
        "try:\n    jnp.ones(3) + jnp.ones(2)\nexcept Exception as e: print('lamina_as_jax' in str(e))"
    )
    assert run(code=code).strip() == "False"
