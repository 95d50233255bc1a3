"""Special functions, elementwise with broadcasting; names and meanings as in scipy.special.

Arguments are real numbers (those of gamma, loggamma, erfcx and wofz complex ones too). They are computed in float64 and
rounded once to the arguments' element type (float32 for integers), and have derivatives of every order, by rule, in both
modes.
"""

from lamina import _missing, _results
from lamina.scipy.special import (
    _bessel,
    _complex,
    _convex,
    _error,
    _exponential,
    _fresnel,
    _gamma,
    _hypergeometric,
    _legendre,
)
from lamina.scipy.special._bessel import *  # noqa: F403
from lamina.scipy.special._complex import *  # noqa: F403
from lamina.scipy.special._convex import *  # noqa: F403
from lamina.scipy.special._error import *  # noqa: F403
from lamina.scipy.special._exponential import *  # noqa: F403
from lamina.scipy.special._fresnel import *  # noqa: F403
from lamina.scipy.special._gamma import *  # noqa: F403
from lamina.scipy.special._hypergeometric import *  # noqa: F403
from lamina.scipy.special._legendre import *  # noqa: F403

__all__: list[str] = []
for _module in (
    _bessel,
    _complex,
    _convex,
    _error,
    _exponential,
    _fresnel,
    _gamma,
    _hypergeometric,
    _legendre,
):
    __all__ += _module.__all__
__all__.sort()
_results.own(globals())
__getattr__ = _missing.attributes("lamina.scipy.special")
