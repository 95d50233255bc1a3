"""Programs that are measured as a whole, each written once over the modules of Lamina or JAX.

`python programs.py NAME LIBRARY` runs one of FRESH in this process and prints its measurements as JSON.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

Thunk = Callable[[], Any]


def library(name: str) -> SimpleNamespace:
    """The modules of `lamina` or `jax` under common names."""
    if name == "lamina":
        import lamina as lib
        import lamina.numpy as np
        from lamina import lax, nn, random

        tree_map, block = lib.tree.tree_map, lib.block_until_ready
    else:
        import jax as lib
        import jax.numpy as np
        from jax import lax, nn, random

        tree_map, block = lib.tree.map, lib.block_until_ready
    return SimpleNamespace(
        name=name,
        np=np,
        lax=lax,
        nn=nn,
        random=random,
        jit=lib.jit,
        donating=lambda f: lib.jit(f, donate_argnums=0),
        grad=lib.grad,
        value_and_grad=lib.value_and_grad,
        vmap=lib.vmap,
        hessian=lib.hessian,
        tree_map=tree_map,
        block=block,
    )


def numbers(*shape: int, seed: int = 0, scale: float = 1.0) -> Any:
    """Normal float32 numbers as a NumPy array; those of large arrays repeat after four million."""
    import math

    import numpy

    size = math.prod(shape)
    some = numpy.random.default_rng(seed).standard_normal(min(size, 1 << 22), "f4") * numpy.float32(scale)
    return numpy.resize(some, shape)


# --- models ---


def lenet(lib: SimpleNamespace) -> tuple[Callable[..., Any], list[Any]]:
    """The step (parameters, momentum, images, labels, rate) and its first arguments."""
    import numpy

    np, lax, nn = lib.np, lib.lax, lib.nn
    shapes = {"c1": (6, 1, 5, 5), "c2": (16, 6, 5, 5), "d1": (400, 120), "d2": (120, 84), "d3": (84, 10)}
    params = {
        n: {
            "w": np.asarray(numbers(*s, seed=i, scale=0.05)),
            "b": np.zeros((s[0], 1, 1) if len(s) == 4 else (s[1],), "float32"),
        }
        for i, (n, s) in enumerate(shapes.items())
    }

    def conv(x, p, padding):
        return lax.conv_general_dilated(x, p["w"], (1, 1), padding) + p["b"]

    def pool(x):
        n, c, h, w = x.shape
        return np.max(np.reshape(x, (n, c, h // 2, 2, w // 2, 2)), axis=(3, 5))

    def predict(p, x):
        x = pool(nn.relu(conv(x, p["c1"], [(2, 2), (2, 2)])))
        x = pool(nn.relu(conv(x, p["c2"], [(0, 0), (0, 0)])))
        x = np.reshape(x, (x.shape[0], 400))
        x = nn.relu(x @ p["d1"]["w"] + p["d1"]["b"])
        x = nn.relu(x @ p["d2"]["w"] + p["d2"]["b"])
        return x @ p["d3"]["w"] + p["d3"]["b"]

    def loss(p, x, y):
        return -np.mean(np.sum(nn.log_softmax(predict(p, x)) * nn.one_hot(y, 10), axis=-1))

    def step(p, m, x, y, rate):
        value, g = lib.value_and_grad(loss)(p, x, y)
        m = lib.tree_map(lambda m, g: 0.9 * m + g, m, g)
        return lib.tree_map(lambda p, m: p - rate * m, p, m), m, value

    labels = numpy.random.default_rng(1).integers(0, 10, 80).astype(numpy.int32)
    momentum = lib.tree_map(np.zeros_like, params)
    return lib.jit(step), [params, momentum, numbers(80, 1, 28, 28, seed=9), labels, 0.01]


def mlp_adam(lib: SimpleNamespace, sizes: tuple[int, ...] = (256, 512, 512, 10)) -> Thunk:
    """One Adam step of a perceptron on a batch of 128."""
    np = lib.np
    params = [
        (np.asarray(numbers(a, b, seed=a + b, scale=0.05)), np.zeros((b,), "float32"))
        for a, b in itertools.pairwise(sizes)
    ]
    x, y = np.asarray(numbers(128, sizes[0])), np.asarray(numbers(128, sizes[-1], seed=1))

    def loss(p):
        h = x
        for w, b in p[:-1]:
            h = np.tanh(h @ w + b)
        return np.mean((h @ p[-1][0] + p[-1][1] - y) ** 2)

    step = lib.jit(lambda p, m, v: adam(lib, p, m, v, lib.grad(loss)(p)))
    zeros = lib.tree_map(np.zeros_like, params)
    return lambda: step(params, zeros, zeros)[0][0][0]


def adam(lib: SimpleNamespace, p: Any, m: Any, v: Any, g: Any) -> tuple[Any, Any, Any]:
    m = lib.tree_map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = lib.tree_map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
    return lib.tree_map(lambda p, m, v: p - 1e-3 * m / (lib.np.sqrt(v) + 1e-8), p, m, v), m, v


def optimizer_of_300(lib: SimpleNamespace) -> Thunk:
    """One Adam step of 300 arrays of 15 shapes."""
    leaves = [lib.np.asarray(numbers(4 + i % 15, 8, seed=i)) for i in range(300)]
    zeros = [lib.np.zeros_like(x) for x in leaves]
    step = lib.jit(lambda p, m, v, g: adam(lib, p, m, v, g))
    return lambda: lib.np.sum(step(leaves, zeros, zeros, leaves)[0][299])


def hessian_of_rosenbrock(lib: SimpleNamespace) -> Thunk:
    x = lib.np.asarray(numbers(12))
    f = lib.jit(lib.hessian(lambda x: lib.np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)))
    return lambda: lib.np.sum(f(x))


def tiny_mlp_sgd(jit: bool) -> Callable[[SimpleNamespace], Thunk]:
    """One step of gradient descent of a 4-16-1 perceptron on a batch of 32."""

    def make(lib: SimpleNamespace) -> Thunk:
        np = lib.np
        params = [np.asarray(numbers(4, 16)), np.zeros(16, "float32"), np.asarray(numbers(16, 1, seed=1))]
        x, y = np.asarray(numbers(32, 4, seed=2)), np.asarray(numbers(32, 1, seed=3))

        def loss(p):
            return np.mean((np.tanh(x @ p[0] + p[1]) @ p[2] - y) ** 2)

        def step(p):
            return [a - 0.1 * d for a, d in zip(p, lib.grad(loss)(p))]

        f = lib.jit(step) if jit else step
        return lambda: f(params)

    return make


def transformer(
    lib: SimpleNamespace, layers: int = 6, width: int = 64, length: int = 32
) -> tuple[Callable[..., Any], list[Any]]:
    """The gradient step of a causal transformer of 4 heads, batch 4."""
    np, nn = lib.np, lib.nn
    heads = 4

    def block(i):
        return {
            "qkv": np.asarray(numbers(width, 3 * width, seed=4 * i, scale=0.05)),
            "out": np.asarray(numbers(width, width, seed=4 * i + 1, scale=0.05)),
            "up": np.asarray(numbers(width, 4 * width, seed=4 * i + 2, scale=0.05)),
            "down": np.asarray(numbers(4 * width, width, seed=4 * i + 3, scale=0.05)),
        }

    params = [block(i) for i in range(layers)]
    mask = np.asarray(numbers(length, length) * 0 + 1)

    def norm(x):
        centred = x - np.mean(x, axis=-1, keepdims=True)
        return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)

    def apply(p, x):
        n = x.shape[0]
        parts = np.reshape(norm(x) @ p["qkv"], (n, length, 3, heads, width // heads))
        q, k, v = (np.transpose(parts[:, :, j], (0, 2, 1, 3)) for j in range(3))
        scores = q @ np.transpose(k, (0, 1, 3, 2)) * (width // heads) ** -0.5 + np.log(np.tril(mask) + 1e-9)
        mixed = np.transpose(nn.softmax(scores) @ v, (0, 2, 1, 3))
        x = x + np.reshape(mixed, (n, length, width)) @ p["out"]
        return x + nn.gelu(norm(x) @ p["up"]) @ p["down"]

    def loss(ps, x):
        for p in ps:
            x = apply(p, x)
        return np.mean(x * x)

    def step(ps, x):
        value, g = lib.value_and_grad(loss)(ps, x)
        return lib.tree_map(lambda p, d: p - 0.01 * d, ps, g), value

    return lib.jit(step), [params, numbers(4, length, width, seed=99)]


# --- measured in fresh processes ---


def _first_calls(make: Callable[[SimpleNamespace], Thunk]) -> Callable[[str], dict[str, float]]:
    """A program that makes its call with a library and times the first call and the sum of the first five: compiles
    that moved into later calls are seen there.

    `peak` is by how many bytes of its own the process grew at most, from before `make`: where the first compile is one
    of the arguments', the compiler belongs to the program all the same.
    """

    def run(name: str) -> dict[str, float]:
        lib = library(name)
        with open("/proc/self/clear_refs", "w") as kernel:
            kernel.write("5")  # the peak begins anew, at what the process holds now (proc_pid_clear_refs(5))
        before = _peak_bytes()
        call = make(lib)
        times = []
        for _ in range(5):
            start = time.perf_counter()
            value = float(call())
            times.append(time.perf_counter() - start)
        return {"seconds": times[0], "five": sum(times), "value": value, "peak": _peak_bytes() - before}

    return run


def _peak_bytes() -> float:
    """Of this program alone (what getrusage says begins with the size of the process that started it), without the
    pages of files: the system maps more or fewer pages of a library around one that is used, by how it holds the file.
    """
    with open("/proc/self/status") as lines:
        kilobytes = {
            name: float(rest.split()[0])
            for name, _, rest in (line.partition(":") for line in lines)
            if rest.endswith("kB\n")
        }
    return (kilobytes["VmHWM"] - kilobytes["RssFile"]) * 1024


def chain(lib: SimpleNamespace, length: int) -> Thunk:
    """Unrolled operations one after the other, each with a number of its own."""
    x = lib.np.ones(1000, "float32")
    lib.block(x)

    def f(x: Any) -> Any:
        for i in range(length):
            x = lib.np.sin(x) * 1.01 + 0.001 * i if i % 3 else x * 0.9 + 0.01 * i
        return lib.np.sum(x)

    jitted = lib.jit(f)
    return lambda: jitted(x)


def _mlp_call(lib: SimpleNamespace) -> Thunk:
    step = mlp_adam(lib)
    return lambda: step()[0, 0]


def _lenet_call(lib: SimpleNamespace) -> Thunk:
    step, args = lenet(lib)
    lib.block(args[:2])
    return lambda: step(*args)[2]


def _transformer_call(lib: SimpleNamespace, layers: int) -> Thunk:
    step, args = transformer(lib, layers)
    lib.block(args[0])
    return lambda: step(*args)[1]


def _fresh_sizes(name: str) -> dict[str, float]:
    """50 batch sizes of one jitted function."""
    lib = library(name)
    w = lib.np.asarray(numbers(30, 30, seed=3))
    f = lib.jit(lambda x: lib.np.sum(lib.np.tanh(x @ w) * 2 + 1))
    start, total = time.perf_counter(), 0.0
    for n in range(2, 52):
        total += float(f(numbers(n, 30)))
    return {"seconds": time.perf_counter() - start, "value": total}


def _fresh_import(name: str) -> dict[str, float]:
    """Processor time of importing the package and its numpy module."""
    start = time.process_time()
    if name == "lamina":
        import lamina.numpy  # noqa: F401
    elif name == "jax":
        import jax.numpy  # noqa: F401
    else:
        import numpy  # noqa: F401
    return {"seconds": time.process_time() - start, "value": 0.0}


FRESH = {
    "import": _fresh_import,
    **{f"chain{n}": _first_calls(partial(chain, length=n)) for n in (10, 100, 1000, 10_000)},
    "mlp": _first_calls(_mlp_call),
    "lenet": _first_calls(_lenet_call),
    "sizes": _fresh_sizes,
    **{f"transformer{n}": _first_calls(partial(_transformer_call, layers=n)) for n in (1, 6)},
    "hessian": _first_calls(hessian_of_rosenbrock),
    "optimizer": _first_calls(optimizer_of_300),
}

if __name__ == "__main__":
    print(json.dumps(FRESH[sys.argv[1]](sys.argv[2])))
