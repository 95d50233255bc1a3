"""Programs of the specification: how a table writes one, what it is run on, and how its results are judged."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import lamina as lm
import numpy as np
from lamina import _core, stablehlo
from spec_elements import Element
from ulps import error, is_subnormal
from ulps import same as same_bits

Judge = Callable[[np.ndarray, Any], str]


@dataclass
class Program:
    """A module, its arguments, and its results by an oracle outside Lamina."""

    text: str
    inputs: Sequence[np.ndarray]
    want: Sequence[Any]
    judge: Judge | None = None  # exact without one: bits, where any NaN equals any other
    note: str = ""

    def faults(self, results: Sequence[np.ndarray]) -> list[str]:
        if len(results) != len(self.want):
            return [f"{len(results)} results, not {len(self.want)}"]
        judge = self.judge or exact
        return [f"result {i}: {f}" for i, (r, w) in enumerate(zip(results, self.want)) if (f := judge(r, w))]


Maker = Callable[[Element], Iterator[Program]]
MAKERS: dict[str, Maker] = {}


def programs(*ops: str) -> Callable[[Callable[..., Iterator[Program]]], Any]:
    """Registers a generator of programs for an element type; of several operations it gets the name first."""

    def register(make: Callable[..., Iterator[Program]]) -> Any:
        for op in ops:
            MAKERS[op] = make if len(ops) == 1 else (lambda element, op=op: make(op, element))
        return make

    return register


# --- text ---


def tensor(shape: Sequence[int], element: Element | str) -> str:
    text = element if isinstance(element, str) else element.text
    return f"tensor<{''.join(f'{d}x' for d in shape)}{text}>"


def type_of(array: np.ndarray, element: Element | str) -> str:
    return tensor(array.shape, element)


def function(arguments: Sequence[str], results: Sequence[str], body: str, returned: str = "") -> str:
    """``@main`` on %a0, %a1, ...; returns %r or %r#i, or the names of `returned`."""
    names = ", ".join(f"%a{i}: {t}" for i, t in enumerate(arguments))
    if not returned:
        returned = "%r" if len(results) == 1 else ", ".join(f"%r#{i}" for i in range(len(results)))
    types = ", ".join(results)
    return f"func.func @main({names}) -> ({types}) {{\n{body}\n  return {returned} : {types}\n}}\n"


def one_op(
    op: str,
    arguments: Sequence[str],
    results: Sequence[str],
    attributes: str = "",
    regions: Sequence[str] = (),
) -> str:
    """A function of that one operation on all its arguments, in the generic form."""
    names = ", ".join(f"%a{i}" for i in range(len(arguments)))
    count = f":{len(results)}" if len(results) > 1 else ""
    held = f" ({', '.join('{' + r + '}' for r in regions)})" if regions else ""
    listed = f" {{{attributes}}}" if attributes else ""
    types = f"({', '.join(arguments)}) -> ({', '.join(results)})"
    return function(arguments, results, f'  %r{count} = "stablehlo.{op}"({names}){held}{listed} : {types}')


def region(op: str, element: Element, result: str = "") -> str:
    """A region of two scalars that returns one operation of them."""
    t, attributes = tensor((), element), ""
    if op.startswith("compare "):
        op, direction = op.split()
        attributes = f" {{comparison_direction = #stablehlo<comparison_direction {direction}>}}"
    out = result or ("tensor<i1>" if attributes else t)
    return (
        f'^b(%x: {t}, %y: {t}): %z = "stablehlo.{op}"(%x, %y){attributes} : ({t}, {t}) -> {out} '
        f'"stablehlo.return"(%z) : ({out}) -> ()'
    )


def ints(name: str, values: Any) -> str:
    """An attribute of 64-bit integers of any shape."""
    array = np.asarray(values, np.int64)
    shape = "".join(f"{d}x" for d in array.shape)
    if array.size == 0:
        return f"{name} = dense<> : tensor<{shape}i64>"
    return f"{name} = dense<{array.tolist()}> : tensor<{shape}i64>"


def small(rng: np.random.Generator, shape: Sequence[int], element: Element, top: int = 3) -> np.ndarray:
    """Small whole numbers, whose sums and products of a few are exact in every element type."""
    if element.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if element.name == "float8_e8m0fnu":
        return (2.0 ** rng.integers(0, 2, shape)).astype(element.dtype)
    if element.narrow:
        top = 1
    low = 0 if element.kind == "u" else -top
    whole = rng.integers(low, top + 1, shape)
    if element.kind == "c":
        whole = whole + 1j * rng.integers(low, top + 1, shape)
    return element.cast(np.asarray(whole))


# --- judging ---


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal types, shapes and bits, where any NaN equals any other; of narrow integers values."""
    if a.dtype.name in ("int2", "int4", "uint2", "uint4") and a.dtype == b.dtype:
        return np.array_equal(a.astype(int), b.astype(int))
    return same_bits(a, b)


def exact(got: np.ndarray, want: np.ndarray) -> str:
    want = np.asarray(want)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    if same(got, want):
        return ""
    wrong = np.flatnonzero([not same(g, w) for g, w in zip(got.ravel(), want.ravel())])
    return "; ".join(f"[{i}] is {got.ravel()[i]!r}, not {want.ravel()[i]!r}" for i in wrong[:4])


def equal(got: np.ndarray, want: np.ndarray) -> str:
    """As `exact`, where zeros of either sign are equal."""
    zero = lambda x: np.where(x == np.zeros((), x.dtype), np.zeros((), x.dtype), x)  # noqa: E731
    return exact(zero(got), zero(np.asarray(want)))


def within(name: str, bound: float, cancels: float = 0.0) -> Judge:
    """Floats within `bound` ulps of the exact values; f32's subnormal results within 1."""

    def judge(got: np.ndarray, want: np.ndarray) -> str:
        allowed = np.where(is_subnormal(want, name) & (name == "float32"), max(bound, 1.0), bound) + 1e-4
        errors = error(got, want, name) / allowed
        worst = int(np.argmax(errors)) if errors.size else 0
        if errors.size == 0 or errors.flat[worst] <= 1:
            return ""
        return f"[{worst}] is {got.flat[worst]!r}, exactly {want.flat[worst]!r}"

    return judge


def near(tolerance: float) -> Judge:
    """At most `tolerance` from the exact value, relative to the largest of them; NaN and infinities in place."""

    def judge(got: np.ndarray, want: Any) -> str:
        wide = np.clongdouble if got.dtype.kind == "c" else np.longdouble
        got = (got if got.dtype.kind in "fc" else got.astype(np.float64)).astype(wide)
        want = np.asarray(want).astype(wide)
        if got.shape != want.shape:
            return f"shape {got.shape}, not {want.shape}"
        finite = np.isfinite(want)
        if not np.array_equal(np.isnan(got), np.isnan(want)) or not np.array_equal(np.isfinite(got), finite):
            return f"NaN or infinity in another place: {got.ravel()[:8]}, not {want.ravel()[:8]}"
        size = np.max(np.abs(want[finite]), initial=0.0)
        off = float(np.max(np.abs(got[finite] - want[finite]), initial=0.0))
        return "" if off <= tolerance * max(float(size), 1e-30) else f"{off} off of {float(size)}"

    return judge


# --- running ---


def arrays(results: Any) -> list[np.ndarray]:
    return [np.array(r.numpy()) for r in (results if isinstance(results, tuple) else (results,))]


def run(program: Program) -> tuple[list[str], bool]:
    """What is wrong with the program's results on the evaluator and as machine code; whether kernels ran.

    Where no machine code can be made, they are interpreted.
    """
    loaded = stablehlo.loads(program.text)
    evaluated = arrays(loaded.evaluate(*program.inputs))
    faults = [f"evaluator: {f}" for f in program.faults(evaluated)]
    _core.set_eager_compile(True)
    try:
        before = lm.cache.stats()
        compiled = arrays(loaded(*program.inputs))
        after = lm.cache.stats()
    finally:
        _core.set_eager_compile(False)
    faults += [f"compiled: {f}" for f in program.faults(compiled)]
    if not all(same(a, b) for a, b in zip(evaluated, compiled)):
        faults.append("the evaluator and kernels differ in bits")
    ran = {kind: after[kind] - before[kind] for kind in ("compiled_runs", "interpreted_runs")}
    if _core.code_generator_missing():
        return faults, ran["interpreted_runs"] > 0
    if ran["interpreted_runs"]:
        faults.append("a kernel was interpreted")
    return faults, ran["compiled_runs"] > 0
