"""What JAX logs of jitted functions: that they are traced and compiled, and under explain_cache_misses why."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any

import lamina as lm
from lamina import _checks, _jit
from lamina._shapes import ShapeDtype
from lamina._traces import _type
from lamina._transforms import _argument_path, _name
from lamina.tree import tree_paths, tree_unflatten

from lamina_as_jax import messages, settings

_logger = logging.getLogger("jax")


def _level() -> int:
    """What is told of compilation: as warnings where the option says so, else to those who look for errors in JAX."""
    return logging.WARNING if settings.asked("jax_log_compiles") else logging.DEBUG


def traced(trace: Callable[..., Any]) -> Callable[..., Any]:
    """Lamina's function that traces a jitted one, telling of it."""

    @functools.wraps(trace)
    def call(jitted: Any, variant: Any, leaves: Any, treedef: Any, *others: Any) -> Any:
        if settings.asked("jax_explain_cache_misses") and jitted._entries:
            why = _why(jitted, leaves, treedef)
            if why:
                _logger.warning("TRACING CACHE MISS for %s: %s", _name(jitted._f), why)
        start = time.perf_counter()
        out = trace(jitted, variant, leaves, treedef, *others)
        if _logger.isEnabledFor(_level()):
            took = time.perf_counter() - start
            _logger.log(_level(), "Finished tracing %s for jit in %.9f sec", _name(jitted._f), took)
        return out

    return call


def _why(jitted: Any, leaves: Any, treedef: Any) -> str:
    """How the arguments differ from those of an earlier trace; empty without one."""
    earlier = [key for key, variants in jitted._entries.items() if variants]
    if not earlier:
        return ""
    of_tree = [types for tree, types, *_ in earlier if tree == treedef]
    if not of_tree:
        return f"different input pytree: now {treedef} and before {earlier[-1][0]}"
    before = [ShapeDtype(shape, dtype) for shape, dtype, _ in of_tree[-1]]
    paths = [_argument_path(jitted._f, p) for p in tree_paths(tree_unflatten(treedef, leaves))]
    changed = [
        f"at {path}, now {_type(ShapeDtype.like(x))} and before {_type(y)}"
        for path, x, y in zip(paths, leaves, before, strict=True)
        if (x.shape, x.dtype) != (y.shape, y.dtype)
    ]
    return "different input types: " + "; ".join(changed) if changed else ""


def compiled(call: Callable[[], Any]) -> Any:
    """A call of a jitted function, telling what it compiled."""
    level = _level()
    if not _logger.isEnabledFor(level):
        return call()
    before = {e["id"] for e in lm.cache.entries()}
    out = call()
    for e in lm.cache.entries():
        if e["name"] and e["id"] not in before:
            types = ", ".join(e["arguments"])
            _logger.log(level, "Compiling jit(%s) with global shapes and types [%s].", e["name"], types)
            seconds = e["compile_ms"] / 1e3
            _logger.log(level, "Finished XLA compilation of jit(%s) in %.9f sec", e["name"], seconds)
    return out


def _telling(warn: Callable[[str], None]) -> Callable[[str], None]:
    """Lamina's function that warns, with JAX's phrases."""
    return lambda text: warn(str(messages.told(UserWarning(text))))


def install() -> None:
    _checks.warn = _telling(_checks.warn)
    _jit.Jitted._trace = traced(_jit.Jitted._trace)
