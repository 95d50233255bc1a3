"""An N-body system integrated by leapfrog in one `scan`; energy must be conserved."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
from lamina import lax


def acceleration(position, mass):
    """Gravity on each body: positions (n, 3), masses (n,), softened by 0.05."""
    apart = position[None, :, :] - position[:, None, :]
    distance2 = lnp.sum(apart * apart, axis=-1) + 0.05**2
    return lnp.sum(apart * (mass[None, :, None] * distance2[:, :, None] ** -1.5), axis=1)


def energy(position, velocity, mass):
    apart = position[None, :, :] - position[:, None, :]
    distance = lnp.sqrt(lnp.sum(apart * apart, axis=-1) + 0.05**2)
    pairs = lnp.sum(mass[:, None] * mass[None, :] / distance) - lnp.sum(mass * mass / 0.05)
    return 0.5 * lnp.sum(mass * lnp.sum(velocity * velocity, axis=-1)) - 0.5 * pairs


@lm.jit
def simulate(position, velocity, mass, step):
    """500 leapfrog steps; the final state and the energy after each."""

    def leap(state, _):
        x, v = state
        v = v + 0.5 * step * acceleration(x, mass)
        x = x + step * v
        v = v + 0.5 * step * acceleration(x, mass)
        return (x, v), energy(x, v, mass)

    return lax.scan(leap, (position, velocity), None, length=500)


def main() -> float:
    """Runs 24 bodies; returns the relative drift of the energy."""
    import numpy as np

    rng = np.random.default_rng(7)
    position, mass = rng.standard_normal((24, 3)), rng.uniform(0.5, 1.5, 24) / 24
    velocity = 0.3 * rng.standard_normal((24, 3))
    (_, _), energies = simulate(position, velocity, mass, np.float64(0.002))
    values = np.asarray(energies)
    drift = float(abs(values[-1] / values[0] - 1))
    print(f"energy {values[0]:.6f} -> {values[-1]:.6f} after {len(values)} steps, relative drift {drift:.1e}")
    return drift


if __name__ == "__main__":
    raise SystemExit(main() > 1e-3)
