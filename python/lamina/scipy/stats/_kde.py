"""Kernel density estimation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lamina import numpy as lnp
from lamina import random
from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina.numpy._common import floating, promote_inexact
from lamina.scipy.linalg import cho_factor, cho_solve
from lamina.scipy.special import logsumexp, ndtr

__all__ = ["gaussian_kde"]


@dataclass(frozen=True, init=False)
class gaussian_kde:
    """The density of which `dataset` is a sample, as a mean of normal densities around its points.

    dataset: real, [dimensions, points] or [points]; `weights`: [points]. The bandwidth `bw_method` is "scott" (the
    default), "silverman", a number, or a function of this object. Scott, "Multivariate density estimation" (1992),
    section 6.3. It is a container of its arrays `dataset`, `weights`, `neff` (the effective number of points),
    `covariance` and `inv_cov` (of one kernel), so that it passes through transforms. ValueError for fewer than two
    elements, or weights that do not fit.
    """

    neff: Tensor
    dataset: Tensor
    weights: Tensor
    covariance: Tensor
    inv_cov: Tensor

    def __init__(
        self, dataset: Any, bw_method: str | float | Callable[[Any], Any] | None = None, weights: Any = None
    ) -> None:
        points = floating(lnp.atleast_2d(to_tensor(dataset)), "gaussian_kde")
        if points.size < 2:
            raise ValueError(f"gaussian_kde needs more than one element, not shape {points.shape}")
        d, n = points.shape
        if weights is None:
            weights = lnp.full(n, 1.0 / n, points.dtype)
        else:
            points, weights = promote_inexact(points, lnp.atleast_1d(to_tensor(weights)))
            if weights.shape != (n,):
                raise ValueError(f"gaussian_kde: weights have shape {weights.shape} for {n} points")
            weights = weights / lnp.sum(weights)
        self._set(dataset=points, weights=weights, neff=1 / lnp.sum(lnp.square(weights)))
        if bw_method is None or (isinstance(bw_method, str) and bw_method == "scott"):
            factor: Any = self.neff ** (-1.0 / (d + 4))
        elif isinstance(bw_method, str) and bw_method == "silverman":
            factor = (self.neff * (d + 2) / 4.0) ** (-1.0 / (d + 4))
        elif callable(bw_method):
            factor = bw_method(self)
        elif lnp.isscalar(bw_method) and not isinstance(bw_method, (str, bytes)):
            factor = bw_method
        else:
            raise ValueError(
                f"gaussian_kde: bw_method is 'scott', 'silverman', a number or a function, not {bw_method!r}"
            )
        spread = lnp.atleast_2d(lnp.cov(points, rowvar=True, bias=False, aweights=weights))
        self._set(covariance=spread * factor**2, inv_cov=lnp.linalg.inv(spread) / factor**2)

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of points."""
        return self.dataset.shape[1]

    def _exponents(self, points: Any) -> Tensor:
        """Logarithms of the kernels' densities, [asked points, points of the sample]."""
        x = floating(lnp.atleast_2d(to_tensor(points)), "gaussian_kde")
        if x.shape[0] != self.d:
            if x.shape != (1, self.d):
                raise ValueError(f"points have {x.shape[0]} dimensions, the sample has {self.d}")
            x = lnp.reshape(x, (self.d, 1))
        root = lnp.linalg.cholesky(self.inv_cov)
        off = lnp.swapaxes(x, 0, 1)[:, None, :] @ root - (lnp.swapaxes(self.dataset, 0, 1) @ root)[None]
        norm = lnp.sum(lnp.log(lnp.diagonal(root))) - 0.5 * self.d * math.log(2 * math.pi)
        return norm - 0.5 * lnp.sum(lnp.square(off), -1)

    def evaluate(self, points: Any) -> Tensor:
        """The density at points [dimensions, m]: [m]."""
        return lnp.exp(self._exponents(points)) @ self.weights

    def __call__(self, points: Any) -> Tensor:
        return self.evaluate(points)

    def pdf(self, x: Any) -> Tensor:
        """The density at x; see evaluate."""
        return self.evaluate(x)

    def logpdf(self, x: Any) -> Tensor:
        """The logarithm of the density at x, without underflow; see evaluate."""
        return logsumexp(self._exponents(x), axis=-1, b=self.weights)

    def _overlap(self, means: Tensor, cov: Tensor) -> Tensor:
        """The integrals of the density times normal densities around means [dimensions, m]: [m]."""
        factor = cho_factor(self.covariance + cov)
        norm = math.sqrt(2 * math.pi) ** self.d * lnp.prod(lnp.diagonal(factor[0]))
        off = self.dataset[:, None, :] - means[:, :, None]
        solved = cho_solve(factor, lnp.reshape(off, (self.d, -1)))
        powers = 0.5 * lnp.sum(off * lnp.reshape(solved, off.shape), 0)
        return lnp.exp(-powers) @ self.weights / norm

    def integrate_gaussian(self, mean: Any, cov: Any) -> Tensor:
        """The integral of the density times a normal one with this mean [dimensions] and covariance."""
        mean, cov = lnp.atleast_1d(lnp.squeeze(to_tensor(mean))), lnp.atleast_2d(to_tensor(cov))
        if mean.shape != (self.d,) or cov.shape != (self.d, self.d):
            raise ValueError(
                f"a mean of shape {mean.shape} and a covariance of {cov.shape} in {self.d} dimensions"
            )
        return self._overlap(mean[:, None], cov)[0]

    def integrate_box_1d(self, low: Any, high: Any) -> Tensor:
        """The probability of a value between two numbers, in one dimension."""
        if self.d != 1:
            raise ValueError(f"integrate_box_1d is for one dimension, not {self.d}")
        if lnp.ndim(low) or lnp.ndim(high):
            raise ValueError("integrate_box_1d: the ends are numbers")
        sigma, points = lnp.sqrt(self.covariance[0, 0]), self.dataset[0]
        return lnp.sum(self.weights * (ndtr((high - points) / sigma) - ndtr((low - points) / sigma)))

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Tensor:
        """Not there: of more than one dimension it needs a numerical integration."""
        raise NotImplementedError(
            "gaussian_kde has no integrate_box; integrate_box_1d integrates in one dimension"
        )

    def set_bandwidth(self, bw_method: Any = None) -> None:
        """Not there: an estimate does not change."""
        raise NotImplementedError(
            "the bandwidth of a gaussian_kde cannot be changed; make another one with bw_method"
        )

    def integrate_kde(self, other: gaussian_kde) -> Tensor:
        """The integral of the product of two such densities."""
        if other.d != self.d:
            raise ValueError(f"the densities have {self.d} and {other.d} dimensions")
        return lnp.sum(self._overlap(other.dataset, other.covariance) * other.weights)

    def resample(self, key: Any, shape: Sequence[int] = ()) -> Tensor:
        """Points drawn from the density: [dimensions, *shape]."""
        which, noise = random.split(key)
        chosen = random.choice(which, self.n, tuple(shape), p=self.weights)
        zero = lnp.zeros(self.d, self.covariance.dtype)
        off = random.multivariate_normal(noise, zero, self.covariance, tuple(shape), self.dataset.dtype)
        return self.dataset[:, chosen] + lnp.transpose(off)
