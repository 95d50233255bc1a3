"""checkify as JAX's: what it refuses, and its texts."""

from __future__ import annotations

from typing import Any

import lamina as lm
import numpy as np
from lamina import _core
from lamina._core import Tensor
from lamina.experimental import checkify as ours

_STAGED = (
    "Cannot abstractly evaluate a checkify.check which was not functionalized. This probably means you tried to stage "
    "(jit/scan/pmap/...) a `check` without functionalizing it through `checkify.checkify`."
)


def _told(text: str, place: str) -> str:
    """JAX's text, which names no place."""
    ends = {"nan": ".", "out": ". "}
    return text + ends.get(text[:3], "")


def check(pred: Any, msg: str, *fmt_args: Any, debug: bool = False, **fmt_kwargs: Any) -> None:
    if type(pred) is not bool and not (
        isinstance(pred, Tensor) and pred.shape == () and pred.dtype == "bool"
    ):
        shown = f"JitTracer({pred.dtype}{list(pred.shape)})" if isinstance(pred, Tensor) else pred
        name = "debug_check" if debug else "check"
        raise TypeError(f"{name} takes a scalar pred as argument, got {shown}")
    for x in lm.tree.tree_leaves((fmt_args, fmt_kwargs)):
        if not isinstance(x, (Tensor, np.ndarray)):
            raise TypeError(
                "Formatting arguments to checkify.check need to be PyTrees of arrays, but got "
                f"{x!r} of type {type(x)}."
            )
    if not debug and not ours._looking.depth and _core.inside_jit():
        raise ValueError(_STAGED)
    ours.check(pred, msg, *fmt_args, debug=debug, **fmt_kwargs)


def debug_check(pred: Any, msg: str, *fmt_args: Any, **fmt_kwargs: Any) -> None:
    check(pred, msg, *fmt_args, debug=True, **fmt_kwargs)


def install() -> None:
    ours._told = _told


NAMES = {"check": check, "debug_check": debug_check, "Error": ours.Error, "init_error": ours.init_error()}
