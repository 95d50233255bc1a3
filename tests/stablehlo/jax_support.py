"""JAX's own parser, verifier and compiler for StableHLO text."""

from __future__ import annotations

from typing import Any

import numpy as np
from jax._src.interpreters import mlir as jax_mlir
from jax.extend.backend import get_backend
from jaxlib import _jax
from jaxlib.mlir import ir


def verified(text: str, generic: bool = False) -> str:
    """The module as JAX prints it, once its verifier has passed it."""
    with jax_mlir.make_ir_context():
        module = ir.Module.parse(text)
        assert module.operation.verify()
        return module.operation.get_asm(print_generic_op_form=generic, enable_debug_info=generic)


def run_by_xla(text: str, args: list[np.ndarray]) -> list[np.ndarray]:
    import jax

    backend = get_backend("cpu")
    devices = _jax.DeviceList(tuple(backend.local_devices()[:1]))
    with jax_mlir.make_ir_context():
        program: Any = ir.Module.parse(text)
        executable = backend.compile_and_load(program, devices, _jax.CompileOptions())
    results = executable.execute_sharded([jax.device_put(a) for a in args])
    return [np.asarray(r[0]) for r in results.disassemble_into_single_device_arrays()]
