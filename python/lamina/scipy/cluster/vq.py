"""Of scipy.cluster.vq: vq, which finds the nearest of some points."""

from __future__ import annotations

from typing import Any

from lamina import _missing, _results
from lamina import numpy as lnp
from lamina._core import Tensor
from lamina.numpy._common import promote_inexact

__all__ = ["vq"]


def vq(obs: Any, code_book: Any, check_finite: bool = True) -> tuple[Tensor, Tensor]:
    """(index of the nearest point of `code_book`, distance to it) of each observation: int32 [n] and float [n].

    Observations are [n, dimensions], or [n] for numbers, and points [m, dimensions], or [m]. Of several nearest ones it
    is the first. ValueError where they do not fit.
    """
    x, points = promote_inexact(obs, code_book)
    if x.ndim != points.ndim or x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[1] != points.shape[1]):
        raise ValueError(f"vq: observations of shape {x.shape} and points of shape {points.shape} do not fit")
    if x.ndim == 1:
        x, points = x[:, None], points[:, None]
    squares = lnp.sum(lnp.square(lnp.abs(x[:, None, :] - points[None])), -1)
    nearest = lnp.argmin(squares, axis=-1)
    # Norms, whose derivative is 0 at the point itself.
    return nearest, lnp.linalg.norm(x - points[nearest], axis=-1)


_results.own(globals())
__getattr__ = _missing.attributes("lamina.scipy.cluster.vq")
