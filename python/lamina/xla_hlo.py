"""XLA's HLO text in: what XLA dumps before or after its optimization runs here.

``loads(text)`` gives a callable; it is compiled and cached like a jitted function, and ``grad``, ``vmap`` and ``jit``
go through it.
"""

from __future__ import annotations

from typing import Any

from lamina import _core, stablehlo

__all__ = ["Loaded", "loads"]


class Loaded(stablehlo.Loaded):
    """A computation of a module in XLA's text, called with arrays (flat, one per array of its arguments)."""

    _notation = "HLO"

    @staticmethod
    def _parse(text: str) -> Any:
        return _core.xla_hlo_module(text)


def loads(text: str, entry: str | None = None) -> Loaded:
    """The entry, or the computation ``entry``, of a module in XLA's HLO text, as a callable.

    Args:
        text: the module, as ``--xla_dump_to`` writes it, ``lower().compiler_ir("hlo").as_hlo_text(True)`` or
            ``lower().compile().as_text()`` give it. Constants must be printed in full.
        entry: the computation's name; without it the one marked ``ENTRY``.

    Returns:
        A callable on arrays of the declared types; a tuple is its elements one after the other.

    Raises:
        TypeError: the module is not a str.
        ValueError: the text is not HLO, or breaks its rules; the message starts with ``line:column``.
        NotImplementedError: an opcode or element type that is not supported.

    Example::

        >>> f = lm.xla_hlo.loads(jax.jit(g).lower(x).compiler_ir("hlo").as_hlo_text(print_large_constants=True))
        >>> f(x)
    """
    return Loaded(text, entry)
