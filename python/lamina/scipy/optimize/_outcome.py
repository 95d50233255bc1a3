"""What a minimization gives."""

from __future__ import annotations

from typing import NamedTuple

from lamina._core import Tensor


class OptimizeResults(NamedTuple):
    """What `minimize` found.

    `status`: 0 converged, 1 too many iterations, 3 the line search did not find a step, 4 (L-BFGS)
    the value hardly falls, -1 the value is not finite.
    """

    x: Tensor
    success: Tensor
    status: Tensor
    fun: Tensor
    jac: Tensor
    hess_inv: Tensor | None
    nfev: Tensor
    njev: Tensor
    nit: Tensor
