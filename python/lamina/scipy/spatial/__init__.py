"""Of scipy.spatial: `transform`."""

from lamina import _missing

__all__ = ["transform"]
__getattr__ = _missing.attributes("lamina.scipy.spatial", __all__)
