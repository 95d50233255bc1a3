"""Every operation of the StableHLO specification, on every element type it allows, on the evaluator and compiled."""

from __future__ import annotations

import lamina as lm
import numpy as np
import pytest
import spec_control
import spec_elementwise
import spec_linear
import spec_movement
import spec_reductions
from lamina import stablehlo
from spec_elements import BY_TEXT, Element, of_kinds
from spec_program import MAKERS, run
from spec_table import ABSENT, OPS, REFUSED, WITHOUT_KERNELS

TABLES = (spec_control, spec_elementwise, spec_linear, spec_movement, spec_reductions)


def cells(op: str) -> list[Element | None]:
    """The element types that the operation allows; None stands for an operation without any."""
    return [None] if OPS[op] == "-" else list(of_kinds(OPS[op]))


def reason(op: str, element: Element | None) -> str:
    """Why the cell has no program."""
    if op in REFUSED:
        return REFUSED[op]
    return "" if element is None else ABSENT.get((op, element.text)) or ABSENT.get((op, element.kind), "")


@pytest.mark.parametrize("op", MAKERS)
def test_programs(op):
    """Each cell has a program; all results are the oracle's; evaluator and machine code agree in bits."""
    faults, compiled, count = [], False, 0
    with np.errstate(all="ignore"):
        for element in cells(op):
            if reason(op, element):
                continue
            before = count
            for program in MAKERS[op](element):
                count += 1
                try:
                    found, ran = run(program)
                except Exception as e:
                    found, ran = [f"{type(e).__name__}: {e}"], False
                compiled |= ran
                faults += [f"{op} {element.text if element else ''} {program.note}: {f}" for f in found]
            assert count > before, f"{op} has no program for {element}"
    assert not faults, f"{len(faults)} faults of {count} programs:\n" + "\n".join(faults[:40])
    assert compiled or op in WITHOUT_KERNELS
    if lm.devices()[0].platform != "cuda":  # which has kernels for more of them
        assert not (compiled and op in WITHOUT_KERNELS)


@pytest.mark.parametrize("op", REFUSED)
def test_refused(op):
    token = "!stablehlo.token"
    operands, results = {
        "infeed": ("(%t)", f"({token}) -> (tensor<2xf32>, {token})"),
        "outfeed": ("(%x, %t)", f"(tensor<2xf32>, {token}) -> {token}"),
        "send": ("(%x, %t)", f"(tensor<2xf32>, {token}) -> {token}"),
        "recv": ("(%t)", f"({token}) -> (tensor<2xf32>, {token})"),
    }[op]
    text = (
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
        f'%t = "stablehlo.after_all"() : () -> {token}\n'
        f'%r:{results.count(",") + 1} = "stablehlo.{op}"{operands} : {results}\n'
        "return %x : tensor<2xf32>\n}"
    )
    with pytest.raises(NotImplementedError, match=rf"^3:\d+: the operation stablehlo.{op} is not supported"):
        stablehlo.loads(text)


def test_padding_of_windows_does_not_count():
    """The specification pads with the initial value, XLA leaves padding out: here JAX's programs have JAX's results."""
    float32 = BY_TEXT["f32"]
    x, init = np.arange(1, 21, dtype=np.float32).reshape(4, 5), np.float32(5)
    for w in spec_reductions.WINDOWS:
        faults, _ = run(spec_reductions.window_program(x, init, "add", w, float32))
        assert not faults


def test_every_operation_is_settled():
    """Each operation has programs or a reason, and no table speaks of one that the specification does not have."""
    settled = set(MAKERS) | set(REFUSED) | {"uniform_quantize", "uniform_dequantize"}  # test_quantized.py
    assert set(OPS) - settled == set()
    assert settled - set(OPS) == set()
    assert not set(MAKERS) & set(REFUSED)
    assert {op for op, _ in ABSENT} <= set(OPS)
    assert set(WITHOUT_KERNELS) <= set(MAKERS)
    assert all(of_kinds(kinds) for kinds in OPS.values() if kinds != "-")
