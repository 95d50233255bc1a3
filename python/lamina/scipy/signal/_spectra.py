"""Trends, spectra and short-time Fourier transforms, as in scipy.signal.

Spectra are means of windowed segments' periodograms (Welch, "The use of fast Fourier transform for the estimation of
power spectra", 1967). Windows are arrays, or names of `_WINDOWS`, those with a parameter as tuples, ("kaiser", beta),
("gaussian", deviation); all are periodic, as scipy.signal.get_window makes them.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from lamina import numpy as lnp
from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina.numpy._common import canonical_axis, inexact, promote_inexact

__all__ = ["csd", "detrend", "istft", "stft", "welch"]


def _from_middle(m: int) -> Tensor:
    """Distances of m points, one apart, from their middle."""
    return lnp.abs(lnp.arange(m) - (m - 1) / 2)


def _cosines(*weights: float) -> Callable[[int], Tensor]:
    """The sum of cosines of multiples of an angle that goes from -pi to pi."""
    return lambda m: sum(w * lnp.cos(k * lnp.linspace(-math.pi, math.pi, m)) for k, w in enumerate(weights))


def _barthann(m: int) -> Tensor:
    away = _from_middle(m) / (m - 1)
    return 0.62 - 0.48 * away + 0.38 * lnp.cos(2 * math.pi * away)


def _bohman(m: int) -> Tensor:
    away = 2 * _from_middle(m) / (m - 1)
    inner = (1 - away) * lnp.cos(math.pi * away) + lnp.sin(math.pi * away) / math.pi
    return lnp.where((lnp.arange(m) == 0) | (lnp.arange(m) == m - 1), 0, inner)


def _parzen(m: int) -> Tensor:
    away = _from_middle(m) * 2 / m
    near = _from_middle(m) <= (m - 1) / 4
    return lnp.where(near, 1 - 6 * away**2 * (1 - away), 2 * (1 - away) ** 3)


def _tukey(m: int, tapered: float = 0.5) -> Tensor:
    away = 2 * _from_middle(m) / (m - 1)
    if tapered <= 0:
        return lnp.ones(m)
    share = min(tapered, 1.0)
    taper = 0.5 * (1 + lnp.cos(math.pi * (away - 1 + share) / share))
    return lnp.where(away > 1 - share, taper, 1)


# Symmetric windows of M points.
_WINDOWS: dict[str, Callable[..., Tensor]] = {
    "boxcar": lambda m: lnp.ones(m),
    "barthann": _barthann,
    "bartlett": lambda m: lnp.bartlett(m),
    "blackman": lambda m: lnp.blackman(m),
    "blackmanharris": _cosines(0.35875, 0.48829, 0.14128, 0.01168),
    "bohman": _bohman,
    "cosine": lambda m: lnp.sin(math.pi / m * (lnp.arange(m) + 0.5)),
    "exponential": lambda m, center=None, tau=1.0: lnp.exp(
        -lnp.abs(lnp.arange(m) - ((m - 1) / 2 if center is None else center)) / tau
    ),
    "flattop": _cosines(0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
    "hamming": lambda m: lnp.hamming(m),
    "hann": lambda m: lnp.hanning(m),
    "kaiser": lambda m, beta: lnp.kaiser(m, beta),
    "gaussian": lambda m, deviation: lnp.exp(-0.5 * lnp.square(_from_middle(m) / deviation)),
    "nuttall": _cosines(0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "parzen": _parzen,
    "triang": lambda m: 1 - _from_middle(m) * 2 / (m + m % 2),
    "tukey": _tukey,
}
_PADS = {"even": "reflect", "constant": "edge", "zeros": "constant", "odd": "reflect"}


def _window(window: Any, n: int | None, dtype: Any) -> Tensor:
    """The window of n points (of its own where it is an array and n is None)."""
    from lamina.dtypes import default_dtypes

    if isinstance(window, (str, tuple)):
        name, *rest = (window,) if isinstance(window, str) else window
        if name not in _WINDOWS:
            raise ValueError(f"there is no window {name!r}; there is {', '.join(_WINDOWS)}, or give an array")
        if n == 1:
            return lnp.ones(1, dtype)
        with default_dtypes(float="float64"):
            return lnp.astype(_WINDOWS[name](n + 1, *rest)[:n], dtype)
    w = to_tensor(window)
    if w.ndim != 1 or (n is not None and w.size != n):
        raise ValueError(f"a window is 1-d, of {n} points, not of shape {w.shape}")
    return w if w.dtype.kind == "c" else lnp.astype(w, dtype)


def _segments(window: Any, nperseg: int | None, length: int, dtype: Any) -> tuple[Tensor, int]:
    """The window and its length: that of an array, else 256, at most the signal's."""
    if isinstance(window, (str, tuple)):
        n = 256 if nperseg is None else operator.index(nperseg)
        if n < 1:
            raise ValueError(f"nperseg is at least 1, not {n}")
        n = min(n, length)
        return _window(window, n, dtype), n
    w = _window(window, None if nperseg is None else operator.index(nperseg), dtype)
    if w.size > length:
        raise ValueError(f"the window has {w.size} points, the signal {length}")
    return w, w.size


def detrend(
    data: Any, axis: int = -1, type: str = "linear", bp: int | Sequence[int] = 0, overwrite_data: None = None
) -> Tensor:
    """`data` without its mean ("constant"), or without the straight line of least squares ("linear") along an axis.

    With break points `bp` a line between each two of them. ValueError for break points outside.
    """
    if type not in ("constant", "linear"):
        raise ValueError(f"detrend: type is 'linear' or 'constant', not {type!r}")
    x = inexact(data)
    axis = canonical_axis(axis, x.ndim)
    if type == "constant":
        return x - lnp.mean(x, axis, keepdims=True)
    n = x.shape[axis]
    breaks = sorted({0, n, *([bp] if isinstance(bp, int) else map(int, bp))})
    if breaks[0] < 0 or breaks[-1] > n:
        raise ValueError(f"detrend: break points {bp} for {n} elements")
    x = lnp.moveaxis(x, axis, -1)
    real = x.real.dtype
    parts = []
    for start, stop in itertools.pairwise(breaks):
        part = x[..., start:stop]
        t = lnp.arange(stop - start, dtype=real) - (stop - start - 1) / 2
        centred = part - lnp.mean(part, -1, keepdims=True)
        square = float((stop - start) * ((stop - start) ** 2 - 1)) / 12
        slope = lnp.sum(centred * t, -1, keepdims=True) / square if square else 0.0
        parts.append(centred - slope * t)
    return lnp.moveaxis(lnp.concatenate(parts, -1), -1, axis)


def _extended(x: Tensor, n: int, boundary: str | None) -> Tensor:
    """The signal continued by n elements at both ends."""
    if boundary is None or n == 0:
        return x
    if boundary not in _PADS:
        raise ValueError(f"boundary is {', '.join(map(repr, _PADS))} or None, not {boundary!r}")
    if boundary in ("even", "odd") and n > x.shape[-1] - 1:
        raise ValueError(f"a signal of {x.shape[-1]} elements cannot be continued by {n} ({boundary!r})")
    pads = [(0, 0)] * (x.ndim - 1) + [(n, n)]
    out = lnp.pad(x, pads, mode=_PADS[boundary])
    if boundary != "odd":
        return out
    return lnp.concatenate([2 * x[..., :1] - out[..., :n], x, 2 * x[..., -1:] - out[..., -n:]], -1)


class _Spectrum:
    """Windowed Fourier transforms of segments: what stft, csd and welch share. Signals have time last."""

    def __init__(
        self,
        dtype: Any,
        length: int,
        fs: Any,
        window: Any,
        nperseg: int | None,
        noverlap: int | None,
        nfft: int | None,
        detrend_by: Any,
        onesided: bool,
        scaling: str,
    ) -> None:
        real = lnp.finfo(dtype).dtype
        self.window, self.n = _segments(window, nperseg, length, real)
        self.overlap = self.n // 2 if noverlap is None else operator.index(noverlap)
        self.nfft = self.n if nfft is None else operator.index(nfft)
        if self.nfft < self.n:
            raise ValueError(f"nfft ({self.nfft}) is less than a segment's length ({self.n})")
        if not 0 <= self.overlap < self.n:
            raise ValueError(f"noverlap ({self.overlap}) is not below a segment's length ({self.n})")
        self.step = self.n - self.overlap
        self.onesided = onesided and lnp.dtype(dtype).kind != "c" and self.window.dtype.kind != "c"
        self.detrend_by = detrend_by
        if scaling == "density":
            self.scale = 1 / (fs * lnp.sum(lnp.square(lnp.abs(self.window))))
        elif scaling == "spectrum":
            self.scale = 1 / lnp.square(lnp.abs(lnp.sum(self.window)))
        else:
            raise ValueError(f"scaling is 'density' or 'spectrum', not {scaling!r}")
        frequencies = lnp.fft.rfftfreq if self.onesided else lnp.fft.fftfreq
        self.frequencies = frequencies(self.nfft, dtype=real) * fs

    def transforms(self, x: Tensor) -> Tensor:
        """[..., frequency, segment] of a signal [..., time]."""
        starts = lnp.arange(0, x.shape[-1] - self.n + 1, self.step)
        segments = x[..., starts[:, None] + lnp.arange(self.n)]
        if isinstance(self.detrend_by, str):
            segments = detrend(segments, type=self.detrend_by)
        elif callable(self.detrend_by):
            segments = self.detrend_by(segments)
        elif self.detrend_by:
            raise ValueError(f"detrend is a type, a function or False, not {self.detrend_by!r}")
        f = lnp.fft.rfft if self.onesided else lnp.fft.fft
        return lnp.swapaxes(f(segments * self.window, self.nfft), -1, -2)

    def times(self, length: int, fs: Any) -> Tensor:
        """The middles of the segments."""
        starts = lnp.arange(0, length - self.n + 1, self.step, dtype=self.frequencies.dtype)
        return (starts + self.n / 2) / fs


def stft(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int = 256,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = False,
    return_onesided: bool = True,
    boundary: str | None = "zeros",
    padded: bool = True,
    axis: int = -1,
) -> tuple[Tensor, Tensor, Tensor]:
    """(frequencies, times, transforms of the segments), whose frequencies lie along `axis` and times last.

    Segments of `nperseg` elements, `noverlap` (half unless told) shared by neighbours, times the window, are transformed
    with zeros up to `nfft`. `boundary` continues the signal by half a segment ("zeros", "even", "odd", "constant"),
    `padded` by zeros to a whole number of segments. Real signals have frequencies from 0 on unless `return_onesided` is
    False.
    """
    t = inexact(x)
    axis = canonical_axis(axis, t.ndim)
    t = lnp.moveaxis(t, axis, -1)
    if t.size == 0:
        nothing = lnp.zeros(lnp.shape(x), lnp.finfo(t.dtype).dtype)
        return nothing, nothing, lnp.astype(nothing, lnp.result_type(t, "complex64"))
    made = _Spectrum(
        t.dtype, t.shape[-1], fs, window, nperseg, noverlap, nfft, detrend, return_onesided, "spectrum"
    )
    t = _extended(t, made.n // 2, boundary)
    if padded:
        more = (-(t.shape[-1] - made.n) % made.step) % made.n
        t = lnp.pad(t, [(0, 0)] * (t.ndim - 1) + [(0, more)])
    out = made.transforms(t) * lnp.sqrt(made.scale)
    times = made.times(t.shape[-1], fs)
    if boundary is not None:
        times = times - made.n / 2 / fs
    return made.frequencies, times, lnp.moveaxis(out, -2, axis)


def csd(
    x: Any,
    y: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Tensor, Tensor]:
    """(frequencies, cross spectral density of two signals), which lies along `axis`; the shorter is filled with zeros.

    The mean (or "median", without its bias) over segments as in `stft`. `scaling` is "density" (per frequency) or
    "spectrum". With `y` None that of x with itself, which is real. Of nothing there is nothing.
    """
    a, b = promote_inexact(x, x if y is None else y)
    axis = canonical_axis(axis, a.ndim)
    if a.ndim != b.ndim:
        raise ValueError(
            f"csd: signals of shapes {a.shape} and {b.shape} have different numbers of dimensions"
        )
    a, b = lnp.moveaxis(a, axis, -1), lnp.moveaxis(b, axis, -1)
    if a.size == 0 or b.size == 0:
        shape = (*lnp.broadcast_shapes(a.shape[:-1], b.shape[:-1]), min(a.shape[-1], b.shape[-1]))
        nothing = lnp.moveaxis(lnp.zeros(shape, lnp.finfo(a.dtype).dtype), -1, axis)
        return nothing, nothing if y is None else lnp.astype(nothing, lnp.result_type(a, "complex64"))
    n = max(a.shape[-1], b.shape[-1])
    a, b = (lnp.pad(t, [(0, 0)] * (t.ndim - 1) + [(0, n - t.shape[-1])]) for t in (a, b))
    made = _Spectrum(a.dtype, n, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling)
    first = made.transforms(a)
    power = lnp.conj(first) * (first if y is None else made.transforms(b)) * made.scale
    if made.onesided:
        # Frequencies that stand for their negative ones too.
        k = lnp.arange(power.shape[-2])
        both = (k > 0) & ((k < power.shape[-2] - 1) | (made.nfft % 2 == 1))
        power = power * lnp.where(both, 2.0, 1.0)[:, None]
    if y is None:
        power = lnp.real(power)
    if average == "mean":
        power = lnp.mean(power, -1)
    elif average == "median":
        count = power.shape[-1]
        bias = 1 + sum(1 / (i + 1) - 1 / i for i in range(2, count + 1 - (count % 2 == 0), 2))
        real, imaginary = lnp.median(lnp.real(power), -1), lnp.median(lnp.imag(power), -1)
        power = (real if y is None else real + 1j * imaginary) / bias
    else:
        raise ValueError(f"average is 'mean' or 'median', not {average!r}")
    return made.frequencies, lnp.moveaxis(power, -1, axis)


def welch(
    x: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    detrend: Any = "constant",
    return_onesided: bool = True,
    scaling: str = "density",
    axis: int = -1,
    average: str = "mean",
) -> tuple[Tensor, Tensor]:
    """(frequencies, power spectral density of a signal): `csd` of it with itself."""
    return csd(x, None, fs, window, nperseg, noverlap, nfft, detrend, return_onesided, scaling, axis, average)


def _added(frames: Tensor, step: int) -> Tensor:
    """The sum of frames [..., frame, time] laid `step` apart."""
    count, n = frames.shape[-2:]
    length = n + (count - 1) * step
    places = (lnp.arange(count) * step)[:, None] + lnp.arange(n)
    return lnp.zeros((*frames.shape[:-2], length), frames.dtype).at[..., places].add(frames)


def istft(
    Zxx: Any,
    fs: Any = 1.0,
    window: Any = "hann",
    nperseg: int | None = None,
    noverlap: int | None = None,
    nfft: int | None = None,
    input_onesided: bool = True,
    boundary: bool = True,
    time_axis: int = -1,
    freq_axis: int = -2,
) -> tuple[Tensor, Tensor]:
    """(times, the signal of which `stft` made Zxx): the least squares solution by overlapping and adding.

    Griffin, Lim, "Signal estimation from modified short-time Fourier transform" (1984). `boundary` says that the signal
    was continued at its ends. ValueError for lengths that do not fit.
    """
    z = to_tensor(Zxx)
    if z.ndim < 2:
        raise ValueError(f"istft needs frequencies and times, not shape {z.shape}")
    time, freq = canonical_axis(time_axis, z.ndim), canonical_axis(freq_axis, z.ndim)
    if time == freq:
        raise ValueError("istft: time_axis and freq_axis are the same")
    z = lnp.moveaxis(z, (freq, time), (-1, -2))  # [..., segment, frequency]
    whole = 2 * (z.shape[-1] - 1) if input_onesided else z.shape[-1]
    n = whole if nperseg is None else operator.index(nperseg)
    size = operator.index(nfft) if nfft is not None else whole + (input_onesided and n == whole + 1)
    overlap = n // 2 if noverlap is None else operator.index(noverlap)
    if n < 1 or size < n:
        raise ValueError(f"istft: segments of {n} elements and transforms of {size}")
    if not 0 <= overlap < n:
        raise ValueError(f"istft: noverlap ({overlap}) is not below a segment's length ({n})")
    f = lnp.fft.irfft if input_onesided else lnp.fft.ifft
    frames = f(z, size)[..., :n]
    w = _window(window, n, lnp.finfo(frames.dtype).dtype)
    x = _added(frames * lnp.sum(w) * w, n - overlap)
    norm = _added(lnp.broadcast_to(w * w, (z.shape[-2], n)), n - overlap)
    if boundary and n > 1:
        inside = slice(n // 2, -(n // 2))
        x, norm = x[..., inside], norm[inside]
    x = x / lnp.where(lnp.real(norm) > 1e-10, norm, 1.0)
    times = lnp.arange(x.shape[-1], dtype=lnp.finfo(norm.dtype).dtype) / fs
    if x.ndim > 1:
        x = lnp.moveaxis(x, -1, time - (freq < time))
    return times, x
