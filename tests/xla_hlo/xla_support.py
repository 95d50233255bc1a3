"""XLA's own parser, printer and translator for HLO text."""

from __future__ import annotations

from typing import Any

from jax._src.interpreters import mlir as jax_mlir
from jaxlib import _hlo, _jax
from jaxlib.mlir import ir


def full(module: Any) -> str:
    """The module's text as XLA prints it by default, with every constant."""
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    return module.to_string(options)


def unoptimized(lowered: Any) -> str:
    return lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)


def optimized(lowered: Any) -> str:
    return full(lowered.compile().runtime_executable().hlo_modules()[0])


def short(module: Any) -> str:
    """Without %, metadata, types of operands and layouts: what XLA prints to be parsed again."""
    options = _hlo.HloPrintOptions.short_parsable()
    options.print_large_constants = True
    return module.to_string(options)


def parsed(text: str) -> Any:
    """The module as XLA's own parser reads it."""
    return _hlo.hlo_module_from_text(text)


def stablehlo_of(text: str) -> str:
    """The program as StableHLO, translated by XLA, for XLA's compiler."""
    serialized = parsed(text).as_serialized_hlo_module_proto()
    bytecode = _jax.mlir.hlo_to_stablehlo(serialized)
    with jax_mlir.make_ir_context():
        return str(ir.Module.parse(bytecode))
