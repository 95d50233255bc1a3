"""Elementwise programs: bound by memory where they are light, by arithmetic where they are not."""

from __future__ import annotations

import math
from typing import Any

import numpy
from programs import numbers
from workload import Workload, workload

GROUP = "elementwise"
BOUND = "best <= 1, limit >= 0.9"


def sizes_of(n: int) -> str:
    return f"1e{round(math.log10(n))}"


def positive(*shape: int, kind: str = "float32") -> Any:
    return (numpy.abs(numbers(*shape)) + 0.1).astype(kind)


def saxpy_numba(lib: Any) -> Any:
    np, prange = lib.np, lib.numba.prange

    @lib.numba.njit(parallel=True)
    def f(x, y):
        out = np.empty_like(x)
        for i in prange(x.size):
            out[i] = x[i] * np.float32(2.5) + y[i]
        return out

    return f


def unary_numba(name: str) -> Any:
    def make(lib: Any) -> Any:
        np, prange = lib.np, lib.numba.prange
        g = math.erf if name == "erf" else getattr(np, name)

        @lib.numba.njit(parallel=True)
        def f(x):
            out = np.empty_like(x)
            for i in prange(x.size):
                out[i] = g(x[i])
            return out

        return f

    return make


def saxpy(kind: str, n: int) -> Workload:
    size = numpy.dtype(kind).itemsize
    peers = {
        "numpy": lambda lib, x, y: x * x.dtype.type(2.5) + y,
        "torch": lambda lib, x, y: lib.torch.add(y, x, alpha=2.5),
        "drjit": lambda lib, x, y: lib.dr.fma(x, 2.5, y),
    }
    if kind == "float32":
        peers |= {"numba": saxpy_numba, "tinygrad": lambda lib, x, y: x * 2.5 + y}
    return workload(
        f"saxpy {kind} {sizes_of(n)}",
        GROUP,
        lambda: [numbers(n).astype(kind), numbers(n, seed=1).astype(kind)],
        lambda lib, x, y: x * 2.5 + y,
        BOUND if n >= 100_000 else "best <= 1",
        peers=peers,
        bytes=3 * size * n,
        flops=2 * n,
        flop_type=kind,
        wide=kind == "float64",
    )


def unary(name: str, kind: str = "float32", n: int = 1_000_000) -> Workload:
    drjit = None if name == "erf" and kind == "float64" else lambda lib, x: getattr(lib.dr, name)(x)
    peers: dict[str, Any] = {"torch": lambda lib, x: getattr(lib.torch, name)(x), "numba": unary_numba(name)}
    if drjit:
        peers["drjit"] = drjit
    if name != "erf":
        peers["numpy"] = lambda lib, x: getattr(lib.np, name)(x)
    return workload(
        f"{name} {kind} {sizes_of(n)}",
        GROUP,
        lambda: [positive(n, kind=kind)],
        lambda lib, x: lib.lax.erf(x) if name == "erf" else getattr(lib.np, name)(x),
        "best <= 1",
        peers=peers,
        bytes=2 * numpy.dtype(kind).itemsize * n,
        wide=kind == "float64",
    )


def power() -> Workload:
    return workload(
        "pow float32 1e6",
        GROUP,
        lambda: [positive(1_000_000), numbers(1_000_000, seed=1)],
        lambda lib, x, y: lib.np.power(x, y),
        "best <= 1",
        peers={
            "numpy": lambda lib, x, y: lib.np.power(x, y),
            "torch": lambda lib, x, y: lib.torch.pow(x, y),
            "drjit": lambda lib, x, y: lib.dr.power(x, y),
        },
        bytes=12e6,
    )


def black_scholes(exp: Any, log: Any, sqrt: Any, erf: Any) -> Any:
    def price(spot: Any, strike: Any, years: Any) -> Any:
        rate, volatility = 0.02, 0.3
        root = sqrt(years)
        d1 = (log(spot / strike) + (rate + volatility * volatility / 2) * years) / (volatility * root)
        d2 = d1 - volatility * root
        n1, n2 = 0.5 + 0.5 * erf(d1 * 0.70710678), 0.5 + 0.5 * erf(d2 * 0.70710678)
        call = spot * n1 - strike * exp(-rate * years) * n2
        return call, call - spot + strike * exp(-rate * years)

    return price


def black_scholes_numba(lib: Any) -> Any:
    np, prange, f32 = lib.np, lib.numba.prange, lib.np.float32
    price = lib.numba.njit(black_scholes(math.exp, math.log, math.sqrt, math.erf))

    @lib.numba.njit(parallel=True)
    def f(spot, strike, years):
        call, put = np.empty_like(spot), np.empty_like(spot)
        for i in prange(spot.size):
            c, p = price(spot[i], strike[i], years[i])
            call[i], put[i] = f32(c), f32(p)
        return call, put

    return f


def options(n: int) -> Workload:
    return workload(
        f"Black-Scholes {sizes_of(n)}",
        GROUP,
        lambda: [50 + 10 * positive(n), 50 + 10 * positive(n), positive(n)],
        lambda lib, *a: black_scholes(lib.np.exp, lib.np.log, lib.np.sqrt, lib.lax.erf)(*a),
        "best <= 1",
        peers={
            "torch": lambda lib, *a: black_scholes(
                lib.torch.exp, lib.torch.log, lib.torch.sqrt, lib.torch.erf
            )(*a),
            "drjit": lambda lib, *a: black_scholes(lib.dr.exp, lib.dr.log, lib.dr.sqrt, lib.dr.erf)(*a),
            "numba": black_scholes_numba,
        },
        bytes=20 * n,
        tolerance=1e-3,
    )


def gelu() -> Workload:
    return workload(
        "GELU (tanh) 1e7",
        GROUP,
        lambda: [numbers(10_000_000)],
        lambda lib, x: lib.nn.gelu(x),
        "best <= 1",
        peers={
            "torch": lambda lib, x: lib.torch.nn.functional.gelu(x, approximate="tanh"),
            "drjit": lambda lib, x: 0.5 * x * (1 + lib.dr.tanh(0.7978845608 * (x + 0.044715 * x * x * x))),
        },
        bytes=80e6,
    )


WORKLOADS: list[Workload] = [
    *(saxpy("float32", 10**k) for k in (3, 5, 7, 8)),
    *(saxpy("float64", 10**k) for k in (5, 7)),
    *(unary(name) for name in ("exp", "log", "sin", "tanh", "erf")),
    *(unary(name, "float64") for name in ("exp", "log", "sin", "tanh")),
    unary("exp", n=10_000_000),
    power(),
    options(100_000),
    options(10_000_000),
    gelu(),
    workload(
        "x + y.T, 2048x2048",
        GROUP,
        lambda: [numbers(2048, 2048), numbers(2048, 2048, seed=1)],
        lambda lib, x, y: x + y.T,
        "best <= 1",
        peers={"numpy": lambda lib, x, y: x + y.T, "torch": lambda lib, x, y: x + y.T},
        bytes=12 * 2048**2,
    ),
    workload(
        "x * row + column, 4096x1024",
        GROUP,
        lambda: [numbers(4096, 1024), numbers(1024, seed=1), numbers(4096, 1, seed=2)],
        lambda lib, x, r, c: x * r + c,
        BOUND,
        peers={"numpy": lambda lib, x, r, c: x * r + c, "torch": lambda lib, x, r, c: x * r + c},
        bytes=8 * 4096 * 1024,
    ),
    workload(
        "x[::2] * 2 + 1 of 1e7",
        GROUP,
        lambda: [numbers(10_000_000)],
        lambda lib, x: x[::2] * 2 + 1,
        "best <= 1",
        peers={"numpy": lambda lib, x: x[::2] * 2 + 1, "torch": lambda lib, x: x[::2] * 2 + 1},
        bytes=60e6,
    ),
]
