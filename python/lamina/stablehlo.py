"""StableHLO programs in and out: what JAX and other tools export runs here, what is traced here runs elsewhere.

``loads(text)`` gives a callable; it is compiled and cached like a jitted function, and ``grad``, ``vmap`` and ``jit``
go through it. ``dumps(jitted.lower(...))`` writes a traced program.
"""

from __future__ import annotations

from typing import Any

from lamina import _core
from lamina._stages import Traced
from lamina._tensor import to_tensor
from lamina._transforms import _name

__all__ = ["Loaded", "dumps", "loads"]


class Loaded:
    """A function of a StableHLO module, called with arrays (flat, one per array of its arguments)."""

    _notation = "StableHLO"

    def __init__(self, text: str, entry: str | None = None) -> None:
        if not isinstance(text, str):
            hint = (
                "; of bytecode give the text, in JAX exported.mlir_module()"
                if isinstance(text, bytes)
                else ""
            )
            raise TypeError(f"a module is {self._notation} text, a str, not {type(text).__name__}{hint}")
        self._module = self._parse(text)
        self.name: str = self._module.entry() if entry is None else entry
        if self.name not in self._module.functions():
            raise ValueError(
                f"the module has no function @{self.name}, only {', '.join(self._module.functions())}"
            )
        self._types: list[tuple[str, list[int]]] = self._module.argument_types(self.name)
        self._programs: dict[Any, Any] = {}
        if all(-1 not in shape for _, shape in self._types):
            self._program(tuple((dtype, tuple(shape)) for dtype, shape in self._types))

    @staticmethod
    def _parse(text: str) -> Any:
        return _core.StableHloModule(text)

    def _program(self, types: tuple[tuple[str, tuple[int, ...]], ...]) -> Any:
        program = self._programs.get(types)
        if program is None:
            program = self._module.program(self.name, [(d, list(s)) for d, s in types])
            self._programs[types] = program
        return program

    def __call__(self, *args: Any) -> Any:
        """The result, or a tuple of results if there is not exactly one."""
        program, arrays = self._bind(args)
        results = program(arrays)
        return results[0] if len(results) == 1 else tuple(results)

    def evaluate(self, *args: Any) -> Any:
        """What a call gives, by the plain definition of every operation: slow, without kernels or machine code.

        Args:
            args: arrays of the declared types, as for a call.

        Returns:
            The result, or a tuple of results if there is not exactly one, bit for bit those of a call.

        Raises:
            TypeError: the arguments are not those the function declares.

        Example::

            >>> f = lm.stablehlo.loads(text)
            >>> assert (f(x) == f.evaluate(x)).all()
        """
        program, arrays = self._bind(args)
        results = _core.evaluate(program, arrays)
        return results[0] if len(results) == 1 else tuple(results)

    def _bind(self, args: tuple[Any, ...]) -> tuple[Any, list[Any]]:
        """The program for the types of these arguments, and the arguments as Tensors."""
        if len(args) != len(self._types):
            raise TypeError(f"@{self.name} takes {len(self._types)} arrays, not {len(args)}")
        arrays = []
        for i, (x, (dtype, shape)) in enumerate(zip(args, self._types)):
            array = to_tensor(x, dtype) if _core.is_number(x) else to_tensor(x)
            fits = len(array.shape) == len(shape) and all(s in (-1, n) for s, n in zip(shape, array.shape))
            if str(array.dtype) != dtype or not fits:
                wanted = f"{dtype}[{','.join('?' if s < 0 else str(s) for s in shape)}]"
                raise TypeError(
                    f"argument {i} of @{self.name} must be {wanted}, not "
                    f"{array.dtype}[{','.join(map(str, array.shape))}]"
                )
            arrays.append(array)
        types = tuple((dtype, tuple(x.shape)) for x, (dtype, _) in zip(arrays, self._types))
        return self._program(types), arrays

    def as_text(self, form: str = "short") -> str:
        """The program in Lamina's text form: ``"short"``, ``"canonical"`` or ``"full"``."""
        return self._only().text(form, self.name)

    def _only(self) -> Any:
        if len(self._programs) != 1:
            raise ValueError(f"@{self.name} takes its shapes from its arguments; call it exactly once before")
        return next(iter(self._programs.values()))

    def __repr__(self) -> str:
        return f"<{self._notation} function @{self.name}>"


def loads(text: str, entry: str | None = None) -> Loaded:
    """The function ``entry`` of a StableHLO module in text form, as a callable.

    Args:
        text: the module, in the pretty or the generic form, as ``jax.export`` and ``lower().as_text()`` give it.
        entry: the function's name; without it ``main``, or the only public function.

    Returns:
        A callable on arrays of the declared types; dimensions declared ``?`` are taken from the arguments, and a
        quantized array is the array of its stored integers.

    Raises:
        TypeError: the module is not a str.
        ValueError: the text is not StableHLO, or breaks its rules; the message starts with ``line:column``.
        NotImplementedError: an operation or element type that is not supported.

    Example::

        >>> f = lm.stablehlo.loads(jax.jit(g).lower(x).as_text())
        >>> f(x)
    """
    return Loaded(text, entry)


def dumps(program: Traced | Loaded, *, locations: bool = False) -> str:
    """A traced program as StableHLO text, which parses and verifies with the StableHLO dialect.

    Args:
        program: ``jitted.trace(...)``, ``jitted.lower(...)``, a compiled program, or what ``loads`` gave.
        locations: write the source lines that operations come from.

    Returns:
        A module whose public function ``main`` takes and returns the arrays in flat order. Values that the function
        uses from outside are constants of the module.

    Raises:
        NotImplementedError: the program calls back into this process.

    Example::

        >>> text = lm.stablehlo.dumps(lm.jit(lambda x: x * 2).lower(lnp.ones(3)))
    """
    if isinstance(program, Loaded):
        return _core.stablehlo_text(program._only(), program.name, locations)
    return _core.stablehlo_text(program._trace.program, _name(program._jitted._f), locations)
