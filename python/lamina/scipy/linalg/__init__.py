"""SciPy's linear algebra on Tensors: batched, with derivatives, through vmap and jit.

Arguments that ask SciPy to overwrite or check (`overwrite_a`, `check_finite`, ...) are taken and have no effect.
Shapes that do not fit raise LinAlgError; values never do: see lamina.numpy.linalg. What has no derivative says so.
"""

from lamina import _results
from lamina.lax.linalg import LinAlgError
from lamina.scipy.linalg import _factor, _functions, _special
from lamina.scipy.linalg._factor import *  # noqa: F403
from lamina.scipy.linalg._functions import *  # noqa: F403
from lamina.scipy.linalg._special import *  # noqa: F403

__all__ = ["LinAlgError", *_factor.__all__, *_functions.__all__, *_special.__all__]
__all__.sort()
_results.own(globals())
