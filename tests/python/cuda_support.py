"""Programs on the stand-in for CUDA's driver (tests/jit/cuda_standin), each in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap


def run(program: str, **variables: str) -> str:
    """What the program prints, with these environment variables."""
    # The stand-in for the driver is that for the libraries, too.
    library = variables.get("LAMINA_CUDA_DRIVER", "")
    env = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
    env.update({f"LAMINA_{name}": library for name in ("CUBLAS", "CUBLASLT", "CUDNN", "CUFFT", "CUSOLVER")})
    env.update(variables)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
