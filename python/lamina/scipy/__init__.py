"""Functions of SciPy on Tensors: `linalg`, `special` and `stats`."""

from lamina import _missing

__all__ = ["linalg", "special", "stats"]
__getattr__ = _missing.attributes("lamina.scipy", __all__)
