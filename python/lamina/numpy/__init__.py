"""NumPy's functions on Tensors, with the semantics of jax.numpy: float32 and int32 by default, no views, no
`out`.
"""

import math as _math

from lamina import _results
from lamina._core import Tensor as ndarray
from lamina._interop import from_dlpack
from lamina.numpy import _creation, _dtypes, _elementwise, _linear, _reductions, _shape, _sorting
from lamina.numpy._creation import *  # noqa: F403
from lamina.numpy._dtypes import *  # noqa: F403
from lamina.numpy._elementwise import *  # noqa: F403
from lamina.numpy._linear import *  # noqa: F403
from lamina.numpy._reductions import *  # noqa: F403
from lamina.numpy._shape import *  # noqa: F403
from lamina.numpy._sorting import *  # noqa: F403
from lamina.numpy._sorting import select_function as select

pi, e, inf, nan, euler_gamma = _math.pi, _math.e, _math.inf, _math.nan, 0.57721566490153286
newaxis = None
__array_api_version__ = "2023.12"

__all__ = ["e", "euler_gamma", "from_dlpack", "inf", "nan", "ndarray", "newaxis", "pi", "select"]
for _module in (_creation, _dtypes, _elementwise, _linear, _reductions, _shape, _sorting):
    __all__ += _module.__all__
__all__.sort()
_results.own(globals(), _results.VIEWS)
