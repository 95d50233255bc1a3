"""Random numbers from explicit keys, with the streams of jax.random (Threefry-2x32, partitionable scheme).

A key is a uint32 array of shape [2]. The same key gives the same numbers everywhere: in eager code, under jit
and vmap, on any number of threads.
"""

from lamina import _missing, _results
from lamina.random import _matrices, _rejection, _streams
from lamina.random._matrices import *  # noqa: F403
from lamina.random._rejection import *  # noqa: F403
from lamina.random._streams import *  # noqa: F403

__all__ = sorted(_matrices.__all__ + _rejection.__all__ + _streams.__all__)
_results.own(globals())
__getattr__ = _missing.attributes("lamina.random")
