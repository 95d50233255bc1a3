"""Functions of SciPy on Tensors: `special` and `stats`."""

from lamina import _missing

__all__ = ["special", "stats"]
__getattr__ = _missing.attributes("lamina.scipy", __all__)
