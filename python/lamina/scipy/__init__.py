"""Functions of SciPy on Tensors: `special` and `stats`."""

import importlib

__all__ = ["special", "stats"]


def __getattr__(name: str) -> object:
    if name in __all__:
        return importlib.import_module(f"lamina.scipy.{name}")
    raise AttributeError(f"module 'lamina.scipy' has no attribute {name!r}; it has {', '.join(__all__)}")
