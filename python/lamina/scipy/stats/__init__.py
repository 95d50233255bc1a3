"""Statistics, as in scipy.stats: distributions as objects with logpdf, pdf, cdf, sf, ppf (or logpmf, pmf), functions of
samples, kernel density estimation.
"""

from lamina import _missing, _results
from lamina.scipy.stats import _distributions, _kde, _samples
from lamina.scipy.stats._distributions import *  # noqa: F403
from lamina.scipy.stats._kde import *  # noqa: F403
from lamina.scipy.stats._samples import *  # noqa: F403

__all__ = sorted(_distributions.__all__ + _kde.__all__ + _samples.__all__)
_results.own(globals())
__getattr__ = _missing.attributes("lamina.scipy.stats")
