"""Three models written for JAX: a trainer's step, a convolutional classifier, a transformer block with its gradient."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

_rng = np.random.default_rng(11)


def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (scale * _rng.standard_normal(shape)).astype(np.float32)


def mlp_trainer() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """One Adam step of a three-layer perceptron on a batch of labelled rows."""
    sizes = (64, 128, 128, 10)
    params = [(normal(a, b, scale=a**-0.5), np.zeros(b, np.float32)) for a, b in itertools.pairwise(sizes)]
    zeros = jax.tree.map(np.zeros_like, params)

    def loss(params, x, y):
        for w, b in params[:-1]:
            x = jax.nn.relu(x @ w + b)
        w, b = params[-1]
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(x @ w + b) * jax.nn.one_hot(y, 10), -1))

    def step(params, m, v, t, x, y, rate):
        value, grads = jax.value_and_grad(loss)(params, x, y)
        m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
        v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, v, grads)
        scale = rate * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        params = jax.tree.map(lambda p, a, b: p - scale * a / (jnp.sqrt(b) + 1e-8), params, m, v)
        return value, params, m, v

    y = _rng.integers(0, 10, 32).astype(np.int32)
    return step, (params, zeros, zeros, np.float32(1), normal(32, 64), y, np.float32(0.01))


def convolutional_classifier() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Loss and gradient of two convolutions with pooling, batch normalization, dropout and a dense layer."""
    params = {
        "c1": normal(3, 3, 1, 8, scale=0.3),
        "c2": normal(3, 3, 8, 16, scale=0.1),
        "scale": np.ones(16, np.float32),
        "shift": np.zeros(16, np.float32),
        "w": normal(7 * 7 * 16, 10, scale=0.05),
    }

    def conv(x, k):
        return lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def pool(x):
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def loss(p, x, y, key):
        x = pool(jax.nn.relu(conv(x, p["c1"])))
        x = conv(x, p["c2"])
        mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
        x = pool(jax.nn.gelu((x - mean) * lax.rsqrt(var + 1e-5) * p["scale"] + p["shift"]))
        keep = jax.random.bernoulli(key, 0.8, x.shape)
        x = jnp.where(keep, x / 0.8, 0.0).reshape(x.shape[0], -1)
        logits = x @ p["w"]
        return jnp.mean(jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, y[:, None], 1)[:, 0])

    y = _rng.integers(0, 10, 4).astype(np.int32)
    return jax.value_and_grad(loss), (params, normal(4, 28, 28, 1), y, np.array([0, 42], np.uint32))


def transformer_block() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Value and gradient of a causal language model: embedding, two blocks under scan and remat, tied logits."""
    vocabulary, width, heads, length, layers = 50, 32, 4, 12, 2
    layer = {
        "qkv": normal(layers, width, 3 * width, scale=width**-0.5),
        "out": normal(layers, width, width, scale=width**-0.5),
        "up": normal(layers, width, 4 * width, scale=width**-0.5),
        "down": normal(layers, 4 * width, width, scale=(4 * width) ** -0.5),
        "n1": np.ones((layers, width), np.float32),
        "n2": np.ones((layers, width), np.float32),
    }
    params = {
        "embed": normal(vocabulary, width, scale=0.3),
        "place": normal(length, width, scale=0.3),
        "layer": layer,
    }

    def norm(x, scale):
        return x * lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale

    def block(x, p):
        h = norm(x, p["n1"]) @ p["qkv"]
        q, k, v = (t.reshape(*t.shape[:-1], heads, -1).swapaxes(1, 2) for t in jnp.split(h, 3, -1))
        scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * (width // heads) ** -0.5
        scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
        mixed = jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, -1), v)
        x = x + mixed.swapaxes(1, 2).reshape(x.shape) @ p["out"]
        return x + jax.nn.silu(norm(x, p["n2"]) @ p["up"]) @ p["down"]

    def loss(params, tokens):
        x = params["embed"][tokens] + params["place"]
        x, _ = lax.scan(lambda x, p: (jax.checkpoint(block)(x, p), None), x, params["layer"])
        logits = x[:, :-1] @ params["embed"].T
        target = tokens[:, 1:]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), target[..., None], -1))

    return jax.value_and_grad(loss), (params, _rng.integers(0, vocabulary, (3, length)).astype(np.int32))


MODELS = {f.__name__: f for f in (mlp_trainer, convolutional_classifier, transformer_block)}
