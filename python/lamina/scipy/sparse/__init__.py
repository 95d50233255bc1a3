"""Of scipy.sparse: `linalg`, the iterative solvers."""

from lamina import _missing

__all__ = ["linalg"]
__getattr__ = _missing.attributes("lamina.scipy.sparse", __all__)
