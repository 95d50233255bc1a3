"""What kind of device the tests run on; what differs on one is asked here."""

from __future__ import annotations

import os
from pathlib import Path

import lamina as lm

ON_CUDA = lm.devices()[0].platform == "cuda"


def has_avx512() -> bool:
    """Whether kernels are compiled for AVX-512 here."""
    cpu = Path("/proc/cpuinfo")
    flags = cpu.read_text().split() if cpu.exists() else []
    parts = {"avx512f", "avx512bw", "avx512dq", "avx512vl"}
    allowed = os.environ.get("LAMINA_ISA", "avx512") == "avx512" and not ON_CUDA
    return allowed and parts.issubset(flags)
