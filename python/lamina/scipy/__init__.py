"""Functions of SciPy on Tensors, as jax.scipy has them."""

from lamina import _missing

__all__ = [
    "cluster",
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
]
__getattr__ = _missing.attributes("lamina.scipy", __all__)
