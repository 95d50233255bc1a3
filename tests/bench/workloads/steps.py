"""Whole steps of training and simulation, with the memory they hold."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import programs
from programs import numbers
from workload import Make, Thunk, Workload, program, workload

GROUP = "whole steps"
AHEAD = "best <= 1"


def stepped(make: Any, result: int) -> Make:
    """Calls of a step (programs.py) with its first arguments; its `result` is compared."""

    def prepared(lib: SimpleNamespace) -> Thunk:
        step, args = make(lib)
        return lambda: step(*args)[result]

    return prepared


def rnn_gradient(lib: Any, w: Any, u: Any, out: Any, x: Any, y: Any) -> Any:
    """Of a recurrent network over characters, 32 sequences of 64, 128 units, 64 characters."""

    def loss(w: Any, u: Any, out: Any) -> Any:
        def cell(h: Any, i: Any) -> Any:
            h = lib.np.tanh(h @ w + u[i])
            return h, h

        hs = lib.lax.scan(cell, lib.np.zeros((32, 128), "float32"), x)[1]
        scores = lib.nn.log_softmax(hs @ out)
        return -lib.np.mean(lib.np.take_along_axis(scores, y[..., None], -1))

    return lib.value_and_grad(loss, (0, 1, 2))(w, u, out)


def characters() -> list[Any]:
    import numpy

    text = numpy.random.default_rng(0).integers(0, 64, (65, 32)).astype(numpy.int32)
    weights = [
        numbers(128, 128, scale=0.05),
        numbers(64, 128, seed=1, scale=0.05),
        numbers(128, 64, seed=2, scale=0.05),
    ]
    return [*weights, text[:-1], text[1:]]


def resnet_block(lib: Any, x: Any, a: Any, b: Any) -> Any:
    """The gradient of a block of two convolutions with normalisation over a batch of 8 images 64x56x56."""

    def normal(x: Any) -> Any:
        centred = x - lib.np.mean(x, axis=(0, 2, 3), keepdims=True)
        return centred / lib.np.sqrt(lib.np.mean(centred * centred, axis=(0, 2, 3), keepdims=True) + 1e-5)

    def conv(x: Any, w: Any) -> Any:
        return lib.lax.conv_general_dilated(x, w, (1, 1), "SAME")

    def loss(a: Any, b: Any) -> Any:
        y = lib.nn.relu(normal(conv(x, a)))
        return lib.np.mean(lib.nn.relu(x + normal(conv(y, b))) ** 2)

    return lib.grad(loss, (0, 1))(a, b)


def kalman(lib: Any, ys: Any) -> Any:
    """1,000 steps of a filter of four states and two measurements."""
    np = lib.np
    eye = np.eye(4, dtype="float32")
    f = eye + 0.1 * np.eye(4, k=2, dtype="float32")
    h = np.eye(2, 4, dtype="float32")

    def step(s: Any, y: Any) -> Any:
        x, p = s
        x, p = f @ x, f @ p @ f.T + 0.01 * eye
        k = np.linalg.solve(h @ p @ h.T + 0.1 * np.eye(2, dtype="float32"), h @ p).T
        x = x + k @ (y - h @ x)
        return (x, (eye - k @ h) @ p), x

    return lib.lax.scan(step, (np.zeros(4, "float32"), eye), ys)[1]


def mixture(lib: Any, x: Any, means: Any) -> Any:
    """Ten rounds of expectation and maximisation of 8 round Gaussians in 4 dimensions."""
    np = lib.np

    def one(m: Any, _: Any) -> Any:
        d = np.sum((x[:, None] - m[None]) ** 2, -1)
        r = lib.nn.softmax(-0.5 * d, axis=1)
        return (r.T @ x) / np.sum(r, 0)[:, None], None

    return lib.lax.scan(one, means, None, length=10)[0]


def greeks(lib: Any, spot: Any, years: Any) -> Any:
    """Price and its derivatives by spot and time of 1e5 options."""
    np = lib.np

    def price(s: Any, t: Any) -> Any:
        root = 0.3 * np.sqrt(t)
        d1 = (np.log(s / 100.0) + 0.065 * t) / root
        n1, n2 = (0.5 + 0.5 * lib.lax.erf(d * 0.70710678) for d in (d1, d1 - root))
        return s * n1 - 100.0 * np.exp(-0.02 * t) * n2

    return lib.vmap(lib.value_and_grad(price, (0, 1)))(spot, years)


def greeks_data() -> list[Any]:
    return [abs(numbers(100_000)) * 20 + 80, abs(numbers(100_000, seed=1)) + 0.1]


WORKLOADS: list[Workload] = [
    program("MLP 256-512-512-10, Adam", GROUP, programs.mlp_adam, AHEAD, tolerance=1e-3),
    program(
        "MLP 784-1024-1024-10, Adam, batch 128",
        GROUP,
        lambda lib: programs.mlp_adam(lib, (784, 1024, 1024, 10)),
        AHEAD,
        tolerance=1e-3,
    ),
    program("LeNet, batch 80", GROUP, stepped(programs.lenet, 2), AHEAD),
    program("transformer, 6 layers, d 64", GROUP, stepped(programs.transformer, 1), AHEAD, tolerance=1e-3),
    program(
        "transformer, 6 layers, d 256, 4x128 tokens",
        GROUP,
        stepped(lambda lib: programs.transformer(lib, 6, 256, 128), 1),
        AHEAD,
        tolerance=1e-3,
    ),
    workload("char-RNN, gradient", GROUP, characters, rnn_gradient, AHEAD, tolerance=1e-2),
    workload(
        "ResNet block, gradient",
        GROUP,
        lambda: [numbers(8, 64, 56, 56), *(numbers(64, 64, 3, 3, seed=i, scale=0.05) for i in (1, 2))],
        resnet_block,
        AHEAD,
        tolerance=1e-2,
        flops=6 * 2.0 * 8 * 64 * 56 * 56 * 64 * 9,
    ),
    workload("Kalman filter, 1,000 steps", GROUP, lambda: [numbers(1000, 2)], kalman, AHEAD, tolerance=1e-2),
    workload(
        "Gaussian mixture, 1e5 points, 10 rounds",
        GROUP,
        lambda: [numbers(100_000, 4), numbers(8, 4, seed=1)],
        mixture,
        AHEAD,
        tolerance=1e-2,
    ),
    workload("Black-Scholes Greeks 1e5", GROUP, greeks_data, greeks, AHEAD, tolerance=1e-2),
]
