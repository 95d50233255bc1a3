"""Signals: convolution, correlation, trends, spectra, short-time Fourier transforms; names as in scipy.signal."""

from lamina import _missing, _results
from lamina.scipy.signal import _convolution, _spectra
from lamina.scipy.signal._convolution import *  # noqa: F403
from lamina.scipy.signal._spectra import *  # noqa: F403

__all__ = sorted(_convolution.__all__ + _spectra.__all__)
_results.own(globals())
__getattr__ = _missing.attributes("lamina.scipy.signal")
