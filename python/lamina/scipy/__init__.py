"""Functions of SciPy on Tensors, as jax.scipy has them."""

from lamina import _missing

__all__ = ["linalg", "optimize", "sparse", "special", "stats"]
__getattr__ = _missing.attributes("lamina.scipy", __all__)
