"""Modules of the standard library that most programs never need here, imported when they are first used.

They were a fifth of importing Lamina. `from lamina._later import inspect` stands for `import inspect`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any


class _Later:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


if TYPE_CHECKING:
    import ast
    import contextvars
    import dataclasses
    import inspect
    import linecache
    import tokenize
else:
    ast, contextvars, dataclasses = _Later("ast"), _Later("contextvars"), _Later("dataclasses")
    inspect, linecache = _Later("inspect"), _Later("linecache")
    tokenize = _Later("tokenize")

__all__ = ["ast", "contextvars", "dataclasses", "inspect", "linecache", "tokenize"]
