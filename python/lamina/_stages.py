"""The stages of a jitted function ahead of time: traced, lowered, compiled."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lamina import _core, _costs, cache, dtypes
from lamina._core import Tensor
from lamina._shapes import ShapeDtype
from lamina._tensor import describe
from lamina._transforms import _argument_path, _name
from lamina.tree import TreeDef, tree_flatten, tree_paths, tree_unflatten

if TYPE_CHECKING:
    from lamina._jit import Jitted, _Trace, _Variant
    from lamina._traces import Trace


class ArgumentInfo(ShapeDtype):
    """Shape and element type of an argument, and whether it is donated."""

    def __init__(self, shape: Sequence[int], dtype: Any, *, donated: bool = False, **others: Any) -> None:
        super().__init__(shape, dtype, **others)
        self.donated = donated


class Traced:
    """A traced program: `as_text()` shows it, `lower()` goes on."""

    def __init__(
        self, jitted: Jitted, variant: _Variant, trace: _Trace, leaves: list[Any], treedef: TreeDef
    ) -> None:
        self._jitted, self._variant, self._trace, self._treedef = jitted, variant, trace, treedef
        self._types = [(x.shape, x.dtype) for x in leaves]
        self._weak = [bool(getattr(x, "weak_type", False)) for x in leaves]
        self._device = trace.program.device_for([x for x in leaves if isinstance(x, Tensor)])

    @property
    def out_info(self) -> Any:
        """The result's structure with a ShapeDtype for each array."""
        types = self._trace.program.result_types
        out: list[Any] = [ShapeDtype(shape, dtype, weak_type=weak) for dtype, shape, weak in types]
        return self._trace.result(out)

    @property
    def args_info(self) -> Any:
        """(arguments, keyword arguments), static ones left out, with an ArgumentInfo for each array."""
        given = self._variant.donated or ()
        types = [
            ArgumentInfo(*t, donated=i in given, weak_type=weak)
            for i, (t, weak) in enumerate(zip(self._types, self._weak, strict=True))
        ]
        return tree_unflatten(self._treedef, types)

    @property
    def in_avals(self) -> Any:
        """(arguments, keyword arguments), static ones left out, with a ShapeDtype for each array."""
        types = [ShapeDtype(*t, weak_type=weak) for t, weak in zip(self._types, self._weak, strict=True)]
        return tree_unflatten(self._treedef, types)

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The numbers of the leaves of (arguments, keyword arguments) that a call gives up."""
        return tuple(self._variant.donated or ())

    def cost_analysis(self) -> dict[str, float]:
        """What one call costs by its recorded operations, before any are joined: `flops`, and `bytes accessed`.

        Products and convolutions count two operations per multiplied pair, others one per element of their results.
        Loops count `length` rounds where that is known, else one; of branches the dearest counts.
        """
        return _costs.of_trace(self.jaxpr)

    @property
    def jaxpr(self) -> Trace:
        """The recorded program as `lamina.make_trace` gives it."""
        from lamina._traces import Trace

        return Trace(*_core.parts(self._trace.program))

    @property
    def in_tree(self) -> TreeDef:
        """The structure of (arguments, keyword arguments), static ones left out."""
        return self._treedef

    @property
    def out_tree(self) -> TreeDef:
        """The structure of the result."""
        return tree_flatten(self.out_info)[1]

    def as_text(self, form: str = "short") -> str:
        """The recorded program: ``"short"``, ``"canonical"`` (parses again) or ``"full"`` (with source lines).

        Or in another language: ``"stablehlo"`` or ``"hlo"``, as `lamina.stablehlo.dumps` and `lamina.xla_hlo.dumps`.
        """
        if form in ("stablehlo", "hlo"):
            from lamina import stablehlo, xla_hlo

            return (stablehlo if form == "stablehlo" else xla_hlo).dumps(self)
        return self._trace.program.text(form, _name(self._jitted._f))

    def _check_reads(self) -> None:
        """RuntimeError where what the function reads besides its arguments is not what it was when it was traced."""
        if not (self._variant.reads.holds() or self._variant.reads.refresh()):
            raise RuntimeError(
                f"what {_name(self._jitted._f)} reads besides its arguments has changed since it was compiled: compile "
                "it again, or call the jitted function"
            )

    def lower(self) -> Lowered:
        return Lowered(
            self._jitted, self._variant, self._trace, self._types, self._weak, self._device, self._treedef
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__.lower()} {_name(self._jitted._f)}>"


class Lowered(Traced):
    """A program ready to compile."""

    def __init__(
        self,
        jitted: Jitted,
        variant: _Variant,
        trace: _Trace,
        types: list[Any],
        weak: list[bool],
        device: str,
        treedef: TreeDef,
    ) -> None:
        self._jitted, self._variant, self._trace, self._treedef = jitted, variant, trace, treedef
        self._types, self._weak, self._device = types, weak, device

    def compile(self) -> Compiled:
        """Compiles now; the result is called with arrays of these types."""
        return Compiled(
            self._jitted, self._variant, self._trace, self._types, self._weak, self._device, self._treedef
        )


class Compiled(Lowered):
    """A compiled program, called without looking for a signature: the types of its arguments must be the ones it has."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._id = self._trace.program.compile(self._device)

    def as_text(self, form: str = "steps") -> str:
        """A stage of the executable, as `lamina.cache.listing` gives it; other forms: the program's."""
        return cache.listing(self._id, form) if form in cache.STAGES else super().as_text(form)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the program with its machine code to a plan file, which `lamina.plans.load` calls without compiling.

        What it holds and what it raises: `lamina.plans.dumps`. `path` holds the whole file or what it held before.
        """
        from lamina import plans

        plans.save(self, path)

    def memory_analysis(self) -> dict[str, int]:
        """Bytes of `arguments`, and `peak`: what a run holds at most at one time besides them, results included.

        Known before any run. Working memory of single steps does not count; results written over operands make
        it less.
        """
        (entry,) = (e for e in _core.cache_entries() if e["id"] == self._id)
        sizes = (math.prod(shape) * dtypes.TABLE[str(dtype)].itemsize for shape, dtype in self._types)
        return {"arguments": sum(sizes), "peak": entry["peak_bytes"]}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, treedef, _ = self._jitted._arguments(args, kwargs)
        if treedef != self._treedef:
            raise TypeError(
                f"{_name(self._jitted._f)} was compiled for arguments of the structure {self._treedef}, not {treedef}"
            )
        paths = tree_paths(tree_unflatten(treedef, leaves))
        for x, (shape, dtype), path in zip(leaves, self._types, paths):
            if x.shape != shape or x.dtype != dtype:
                raise TypeError(
                    f"{_name(self._jitted._f)} was compiled for {describe(ShapeDtype(shape, dtype))} as "
                    f"{_argument_path(self._jitted._f, path)}, not {describe(x)}"
                )
        self._check_reads()
        if self._jitted._reached(self._variant, leaves)[0] is not self._trace:
            raise RuntimeError(
                f"{_name(self._jitted._f)} was compiled for the path that other arguments lead to: it decides on their "
                'values. Compile it for these, call the jitted function, or jit it with control_flow="convert"'
            )
        return self._jitted._run(self._trace, self._variant, args, kwargs, treedef, leaves)
