"""XLA's own parser and printer for HLO text."""

from __future__ import annotations

from typing import Any

from jaxlib import _hlo


def full(module: Any) -> str:
    """The module's text as XLA prints it by default, with every constant."""
    options = _hlo.HloPrintOptions()
    options.print_large_constants = True
    return module.to_string(options)


def unoptimized(lowered: Any) -> str:
    return lowered.compiler_ir("hlo").as_hlo_text(print_large_constants=True)


def optimized(lowered: Any) -> str:
    return full(lowered.compile().runtime_executable().hlo_modules()[0])
