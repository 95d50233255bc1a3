"""XLA's HLO text in and out: what XLA dumps before or after its optimization runs here, what is traced here goes to XLA.

``loads(text)`` gives a callable; it is compiled and cached like a jitted function, and ``grad``, ``vmap`` and ``jit``
go through it. ``dumps(jitted.lower(...))`` writes a traced program.
"""

from __future__ import annotations

from typing import Any

from lamina import _core, stablehlo
from lamina._stages import Traced
from lamina._transforms import _name

__all__ = ["Loaded", "dumps", "loads"]


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


def dumps(program: Traced | stablehlo.Loaded, *, locations: bool = False) -> str:
    """A traced program as HLO text, which XLA's parser (``hlo_module_from_text``) takes.

    Args:
        program: ``jitted.trace(...)``, ``jitted.lower(...)``, a compiled program, or what ``loads`` gave, here or in
            ``lm.stablehlo``.
        locations: write the source lines that operations come from, as ``metadata``.

    Returns:
        A module whose entry takes and returns the arrays in flat order, several results as a tuple. Values that the
        function uses from outside are constants of the module. Operations that XLA has no opcode for are written as
        others, so results may differ in the last bits there.

    Raises:
        NotImplementedError: the program calls back into this process.

    Example::

        >>> text = lm.xla_hlo.dumps(lm.jit(lambda x: x * 2).lower(lnp.ones(3)))
    """
    if isinstance(program, stablehlo.Loaded):
        return _core.xla_hlo_text(program._only(), program.name, locations)
    return _core.xla_hlo_text(program._trace.program, _name(program._jitted._f), locations)
