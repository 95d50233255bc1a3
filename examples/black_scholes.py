"""Black-Scholes prices of European calls, and their Greeks by grad and vmap, checked against closed forms."""

from __future__ import annotations

import math

import lamina as lm
import lamina.numpy as lnp
from lamina import lax


def normal_cdf(x):
    return 0.5 * (1.0 + lax.erf(x / math.sqrt(2.0)))


def call_price(spot, strike, years, rate, volatility):
    """Price of one call; all arguments are scalars."""
    spread = volatility * lnp.sqrt(years)
    d1 = (lnp.log(spot / strike) + (rate + 0.5 * volatility * volatility) * years) / spread
    return spot * normal_cdf(d1) - strike * lnp.exp(-rate * years) * normal_cdf(d1 - spread)


delta = lm.grad(call_price, argnums=0)
vega = lm.grad(call_price, argnums=4)
gamma = lm.grad(delta, argnums=0)


@lm.jit
def book(spots, strikes, years, rate, volatility):
    """Prices and Greeks of many calls at once."""
    each = (0, 0, None, None, None)
    arguments = (spots, strikes, years, rate, volatility)
    return tuple(lm.vmap(f, in_axes=each)(*arguments) for f in (call_price, delta, gamma, vega))


def main() -> float:
    """Prints a small book; returns the largest relative error of a Greek against its closed form."""
    import numpy as np

    spots, strikes = np.linspace(80.0, 120.0, 9), np.full(9, 100.0)
    years, rate, volatility = 0.75, 0.03, 0.2
    exact = (lnp.float64(x) for x in (years, rate, volatility))  # so that derivatives by them are float64 too
    price, d, g, v = (np.asarray(x) for x in book(spots, strikes, *exact))
    spread = volatility * math.sqrt(years)
    d1 = (np.log(spots / strikes) + (rate + 0.5 * volatility**2) * years) / spread
    density = np.exp(-0.5 * d1**2) / math.sqrt(2 * math.pi)
    expected_delta = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in d1])
    print("  spot   price   delta   gamma    vega")
    for row in zip(spots, price, d, g, v):
        print("{:6.1f} {:7.3f} {:7.4f} {:7.4f} {:7.3f}".format(*row))
    errors = [
        np.abs(d / expected_delta - 1).max(),
        np.abs(g / (density / (spots * spread)) - 1).max(),
        np.abs(v / (spots * density * math.sqrt(years)) - 1).max(),
    ]
    print(f"largest relative error of a Greek: {max(errors):.1e}")
    return float(max(errors))


if __name__ == "__main__":
    raise SystemExit(main() > 1e-12)
