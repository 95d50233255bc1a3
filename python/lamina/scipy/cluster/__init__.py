"""Of scipy.cluster: `vq`."""

from lamina import _missing

__all__ = ["vq"]
__getattr__ = _missing.attributes("lamina.scipy.cluster", __all__)
