"""A character transformer on the text of Python's own help pages: attention, layer norm and Adam in plain array code.

Run: python examples/char_transformer.py [--steps N]. Exits with an error unless it predicts held-out text better than
a table of character pairs counted on the training text (computed with NumPy).
"""

from __future__ import annotations

import argparse
import sys
import time

import data
import lamina as lm
import lamina.numpy as lnp
from lamina import lax, nn, random

LAYERS, HEADS, WIDTH, CONTEXT, BATCH = 2, 4, 64, 48, 24
PEAK_RATE, WARM_UP = 4e-3, 30


def init(key, vocabulary):
    """Parameters: embeddings of characters and positions, and per layer attention, two dense layers and two norms."""
    keys = iter(random.split(key, 2 + 4 * LAYERS))

    def matrix(n, m):
        return random.normal(next(keys), (n, m)) * n**-0.5

    def norm():
        return {"scale": lnp.ones(WIDTH), "shift": lnp.zeros(WIDTH)}

    def layer():
        return {
            "norm1": norm(),
            "qkv": matrix(WIDTH, 3 * WIDTH),
            "out": matrix(WIDTH, WIDTH) * 0.5,
            "norm2": norm(),
            "up": {"w": matrix(WIDTH, 4 * WIDTH), "b": lnp.zeros(4 * WIDTH)},
            "down": {"w": matrix(4 * WIDTH, WIDTH) * 0.5, "b": lnp.zeros(WIDTH)},
        }

    return {
        "characters": matrix(vocabulary, WIDTH) * 0.5,
        "positions": matrix(CONTEXT, WIDTH) * 0.5,
        "layers": [layer() for _ in range(LAYERS)],
        "norm": norm(),
    }


def layer_norm(x, p):
    centred = x - lnp.mean(x, axis=-1, keepdims=True)
    variance = lnp.mean(centred * centred, axis=-1, keepdims=True)
    return centred * lax.rsqrt(variance + 1e-5) * p["scale"] + p["shift"]


def attention(x, p):
    """Causal attention; x is (batch, time, width)."""
    batch, time_, width = x.shape
    qkv = lnp.reshape(x @ p["qkv"], (batch, time_, 3, HEADS, width // HEADS))
    q, k, v = (lnp.transpose(qkv[:, :, i], (0, 2, 1, 3)) for i in range(3))
    scores = q @ lnp.swapaxes(k, -1, -2) * (width // HEADS) ** -0.5
    past = lnp.tril(lnp.ones((time_, time_), bool))
    weights = nn.softmax(lnp.where(past, scores, -1e9), axis=-1)
    mixed = lnp.reshape(lnp.transpose(weights @ v, (0, 2, 1, 3)), (batch, time_, width))
    return mixed @ p["out"]


def predict(params, text):
    """Logits of each next character; text is i32 (batch, time)."""
    x = params["characters"][text] + params["positions"][: text.shape[1]]
    for p in params["layers"]:
        x = x + attention(layer_norm(x, p["norm1"]), p)
        h = layer_norm(x, p["norm2"])
        x = x + nn.gelu(h @ p["up"]["w"] + p["up"]["b"]) @ p["down"]["w"] + p["down"]["b"]
    return layer_norm(x, params["norm"]) @ params["characters"].T


def loss(params, text):
    """Mean negative log likelihood, in nats per character, of each character after the first."""
    logits = predict(params, text[:, :-1])
    chosen = lnp.take_along_axis(nn.log_softmax(logits), text[:, 1:, None], axis=-1)
    return -lnp.mean(chosen)


@lm.jit
def step(state, text, rate):
    """One step of Adam."""
    params, mean, square, t = state
    value, grads = lm.value_and_grad(loss)(params, text)
    t = t + 1.0
    mean = lm.tree.tree_map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
    square = lm.tree.tree_map(lambda s, g: 0.99 * s + 0.01 * g * g, square, grads)

    def moved(p, m, s):
        return p - rate * (m / (1 - 0.9**t)) / (lnp.sqrt(s / (1 - 0.99**t)) + 1e-8)

    return (lm.tree.tree_map(moved, params, mean, square), mean, square, t), value


held_out_loss = lm.jit(loss)


def train(steps=300, quiet=False):
    """(held-out loss of the transformer, of the table of pairs, both in nats per character; steps done)."""
    import numpy as np

    train_text, test_text, alphabet = data.help_text()
    params = init(random.key(0), len(alphabet))
    zeros = lm.tree.tree_map(lnp.zeros_like, params)
    state = (params, zeros, zeros, lnp.array(0.0))
    rng = np.random.default_rng(0)
    start = time.perf_counter()
    for i in range(steps):
        at = rng.integers(0, len(train_text) - CONTEXT - 1, BATCH)
        batch = np.stack([train_text[a : a + CONTEXT + 1] for a in at])
        rate = PEAK_RATE * min((i + 1) / WARM_UP, 1 - i / steps)
        state, value = step(state, batch, rate)
        if not quiet and i % 50 == 0:
            print(f"step {i:4d}  loss {float(value):.3f}  {time.perf_counter() - start:.1f} s")
    windows = test_text[: len(test_text) // (CONTEXT + 1) * (CONTEXT + 1)].reshape(-1, CONTEXT + 1)
    windows = windows[: len(windows) // 64 * 64].reshape(-1, 64, CONTEXT + 1)[:8]
    reached = float(np.mean([float(held_out_loss(state[0], w)) for w in windows]))
    return reached, data.pair_table_loss(train_text, windows.ravel(), len(alphabet)), int(state[3].item())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    reached, pairs, _ = train(parser.parse_args().steps)
    print(f"held-out loss: {reached:.3f} nats per character; table of character pairs: {pairs:.3f}")
    print(step)
    print(lm.cache.show(4))
    return 0 if reached < pairs else 1


if __name__ == "__main__":
    sys.exit(main())
