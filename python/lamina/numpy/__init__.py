"""NumPy's functions on Tensors, with the semantics of jax.numpy: float32 and int32 by default, no views.

`out`, where NumPy's function takes it by name (not the elementwise ones), is written and returned.
"""

import math as _math

from lamina import _missing, _results
from lamina._core import Tensor as ndarray
from lamina._exchange import from_dlpack
from lamina.dtypes import DType as _DType
from lamina.dtypes import is_foreign as _is_foreign
from lamina.numpy import _dtypes
from lamina.numpy._creation import *  # noqa: F403
from lamina.numpy._dtypes import *  # noqa: F403
from lamina.numpy._elementwise import *  # noqa: F403
from lamina.numpy._grids import *  # noqa: F403
from lamina.numpy._histograms import *  # noqa: F403
from lamina.numpy._index_sets import *  # noqa: F403
from lamina.numpy._linear import *  # noqa: F403
from lamina.numpy._namespace import *  # noqa: F403
from lamina.numpy._padding import *  # noqa: F403
from lamina.numpy._polynomials import *  # noqa: F403
from lamina.numpy._positions import *  # noqa: F403
from lamina.numpy._quantiles import *  # noqa: F403
from lamina.numpy._reductions import *  # noqa: F403
from lamina.numpy._sets import *  # noqa: F403
from lamina.numpy._shape import *  # noqa: F403
from lamina.numpy._signal import *  # noqa: F403
from lamina.numpy._sorting import *  # noqa: F403
from lamina.numpy._sorting import select_function as select
from lamina.numpy._text import *  # noqa: F403
from lamina.numpy._ufuncs import *  # noqa: F403
from lamina.numpy._ufuncs import install as _install
from lamina.numpy._vectorize import *  # noqa: F403
from lamina.numpy._writing import *  # noqa: F403

pi, e, inf, nan, euler_gamma = _math.pi, _math.e, _math.inf, _math.nan, 0.57721566490153286
newaxis = None
bool = _dtypes.bool_
__array_api_version__ = "2024.12"

__all__ = ["bool", "e", "euler_gamma", "from_dlpack", "inf", "nan", "ndarray", "newaxis", "pi", "select"]
for _module in [v for k, v in globals().items() if k[:1] == "_" and isinstance(v, type(_dtypes))]:
    if _module.__name__.startswith("lamina.numpy."):  # those whose names were taken over above
        __all__ += getattr(_module, "__all__", ())
__all__.sort()
_results.own(globals(), _results.VIEWS)
_install(globals())
_explained = _missing.attributes("lamina.numpy", ["fft", "linalg"])
# NumPy knows these once the package ml_dtypes is loaded, which the first use of one does: np.dtype(lnp.bfloat16).
_late = {n: t for n, t in vars(_dtypes).items() if isinstance(t, _DType) and _is_foreign(t)}
for _name in _late:
    del globals()[_name]


def __getattr__(name: str) -> object:
    if name not in _late:
        return _explained(name)
    import contextlib

    with contextlib.suppress(ImportError):
        import ml_dtypes  # noqa: F401
    globals().update(_late)
    return _late[name]
