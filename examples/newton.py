"""Newton's method with an ordinary Python `while` outside jit: the values decide when to stop."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp


def newton(f, x, tolerance: float = 1e-12, limit: int = 50):
    """A root of the scalar function `f` near `x`, and the number of steps. RuntimeError if none is found."""
    slope = lm.grad(f)
    steps = 0
    while abs(f(x)) > tolerance:
        x = x - f(x) / slope(x)
        steps += 1
        if steps > limit:
            raise RuntimeError(f"no root within {limit} steps, stopped at {x}")
    return x, steps


def main() -> float:
    """Finds three roots; returns the largest residual."""
    worst = 0.0
    for name, f, start in (
        ("x^2 = 2", lambda x: x * x - 2.0, 1.0),
        ("cos x = x", lambda x: lnp.cos(x) - x, 1.0),
        ("x e^x = 1", lambda x: x * lnp.exp(x) - 1.0, 0.5),
    ):
        x, steps = newton(f, lnp.array(start, dtype="float64"))
        residual = abs(f(x).item())
        worst = max(worst, residual)
        print(f"{name:10s} x = {x.item():.15f} after {steps} steps, residual {residual:.1e}")
    return worst


if __name__ == "__main__":
    raise SystemExit(main() > 1e-12)
