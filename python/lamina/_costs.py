"""Operations and bytes of a recorded program, counted from its equations."""

from __future__ import annotations

import math
from typing import Any

from lamina import dtypes

# What moves or makes values and computes none.
_FREE = frozenset(
    [
        "bitcast_convert_type", "broadcast_in_dim", "concatenate", "constant", "convert_element_type", "copy",
        "dynamic_slice", "dynamic_update_slice", "expand_dims", "gather", "iota", "pad", "reshape", "rev", "slice",
        "squeeze", "stop_gradient", "transpose",
    ]
)  # fmt: skip


def _bytes(aval: Any) -> int:
    return math.prod(aval.shape) * dtypes.TABLE[str(aval.dtype)].itemsize


def _flops(equation: Any) -> float:
    name, operands = equation.primitive.name, [v.aval for v in equation.invars]
    results = sum(math.prod(v.aval.shape) for v in equation.outvars)
    if name in _FREE:
        return 0
    if name == "dot_general":
        (contracted, _), _ = equation.params["dimension_numbers"]
        return 2 * results * math.prod(operands[0].shape[d] for d in contracted)
    if name == "conv_general_dilated":
        # Of the kernel, the axis that is neither spatial nor summed over gives the features of the result.
        summed = (
            equation.params["kernel_input_feature_dimension"],
            *equation.params["kernel_spatial_dimensions"],
        )
        return 2 * results * math.prod(operands[1].shape[d] for d in summed)
    if name.startswith("reduce"):
        return sum(math.prod(a.shape) for a in operands)
    return results


def of_trace(trace: Any) -> dict[str, float]:
    """The costs of a `lamina.make_trace`: loops by their length, of branches the dearest."""
    total = {"flops": 0.0, "bytes accessed": 0.0}
    for equation in trace.eqns:
        regions = _regions(equation)
        if not regions:
            total["flops"] += _flops(equation)
            total["bytes accessed"] += sum(_bytes(v.aval) for v in (*equation.invars, *equation.outvars))
            continue
        inner = [of_trace(r) for r in regions]
        rounds = equation.params.get("length", 1) or 1
        for key in total:
            each = [c[key] for c in inner]
            total[key] += rounds * (max(each) if "branches" in equation.params else sum(each))
    return total


def _regions(equation: Any) -> list[Any]:
    """The programs that a loop, a branch or a call runs; those of reductions are their elements' business."""
    name = equation.primitive.name
    if name not in ("scan", "while", "cond", "jit") and not name.startswith("custom_"):
        return []
    found: list[Any] = []
    for value in equation.params.values():
        found += [v for v in (value if isinstance(value, (tuple, list)) else (value,)) if hasattr(v, "eqns")]
    return found
