"""Probability distributions, as in scipy.stats: objects with logpdf, pdf, cdf, sf, ppf (or logpmf, pmf)."""

from lamina import _missing
from lamina.scipy.stats import _distributions
from lamina.scipy.stats._distributions import *  # noqa: F403

__all__ = _distributions.__all__
__getattr__ = _missing.attributes("lamina.scipy.stats")
