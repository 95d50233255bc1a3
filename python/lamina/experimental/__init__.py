"""What jax.experimental has and is here: `io_callback`, and the modules `checkify`, `jet`, `ode` and `sparse`."""

from lamina import _missing
from lamina._callback import io_callback

__all__ = ["io_callback"]
__getattr__ = _missing.attributes("lamina.experimental", ("checkify", "jet", "ode", "sparse"))
