"""Lamina on a CUDA device beside JAX and PyTorch on the same one: a line of JSON for each program, a table at the end.

Run in a checkout whose module is built, on a machine that has the peers:
  PYTHONPATH=python python3 tests/gpu/peers.py [--only TEXT] [--systems lamina,jax,torch] [--seconds N]

Times are per call, in microseconds: `wall` of calls that follow each other without waiting, the best of three rounds,
and `host`, what the caller's thread takes of that. Float32 products are float32 in all systems (no TF32). Programs
begin with equal numbers; results are compared with the first system's, in units of the largest number there.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("LAMINA_DEFAULT_DEVICE", "cuda")
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))

import programs

ROUND_SECONDS = 0.15


@dataclass(frozen=True)
class Row:
    """`build(lib)` gives the function for Lamina and JAX, `torch(torch)` the one for PyTorch, where there is one."""

    name: str
    build: Callable[[SimpleNamespace], Callable[..., Any]]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "float32"
    torch: Callable[[Any], Callable[..., Any]] | None = None
    moved: float = 0.0  # bytes that must be, in all
    flops: float = 0.0
    scale: float = 1.0
    inside: int = 1  # steps that a call is made of, by which times are divided


def _softmax_torch(t: Any) -> Callable[..., Any]:
    return lambda x: t.softmax(x, -1)


def _layer_norm(lib: SimpleNamespace) -> Callable[..., Any]:
    np, lax = lib.np, lib.lax

    def f(x, scale, shift):
        wide = x.astype("float32")
        centred = wide - np.mean(wide, axis=-1, keepdims=True)
        variance = np.mean(centred * centred, axis=-1, keepdims=True)
        return (centred * lax.rsqrt(variance + 1e-5) * scale + shift).astype(x.dtype)

    return f


def _cross_entropy(lib: SimpleNamespace) -> Callable[..., Any]:
    np, nn = lib.np, lib.nn

    def f(x):
        logits = nn.log_softmax(x.astype("float32"))
        return -np.mean(logits[:, 7])

    return f


def _attention(lib: SimpleNamespace) -> Callable[..., Any]:
    np, nn = lib.np, lib.nn

    def f(q, k, v):
        scores = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
        return nn.softmax(scores, axis=-1) @ v

    return f


def _conv(stride: int, pad: int) -> Callable[[SimpleNamespace], Callable[..., Any]]:
    return lambda lib: lambda x, w: lib.lax.conv_general_dilated(x, w, (stride, stride), [(pad, pad)] * 2)


def _conv_grads(lib: SimpleNamespace) -> Callable[..., Any]:
    def f(x, w):
        y = lib.lax.conv_general_dilated(x, w, (1, 1), [(1, 1), (1, 1)])
        return lib.np.sum(y * y)

    return lib.grad(f, argnums=(0, 1))


def _torch_conv_grads(t: Any) -> Callable[..., Any]:
    def f(x, w):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = t.nn.functional.conv2d(x, w, padding=1)
        return t.autograd.grad((y * y).sum(), (x, w))

    return f


def _while(lib: SimpleNamespace, steps: int) -> Callable[..., Any]:
    def f(x):
        return lib.lax.while_loop(
            lambda s: s[0] < steps, lambda s: (s[0] + 1, s[1] * 0.999 + lib.np.max(s[1]) * 1e-3), (0, x)
        )[1]

    return f


def _ten_ops(lib: SimpleNamespace) -> Callable[..., Any]:
    np = lib.np
    return lambda x: (x * x + 2.0) * (np.maximum(x * 3.0, 1.0) - np.minimum(x + 5.0, 7.0))


def _torch_ten_ops(t: Any) -> Callable[..., Any]:
    return lambda x: (x * x + 2.0) * ((x * 3.0).clamp(min=1.0) - (x + 5.0).clamp(max=7.0))


M = 1 << 20


def _rows() -> list[Row]:
    out: list[Row] = []

    def add(name: str, build: Any, *shapes: tuple[int, ...], **rest: Any) -> None:
        out.append(Row(name, build, shapes, **rest))

    f4, b2 = 256 * M * 2, 128 * M * 2 * 2
    add("add f32", lambda lib: lambda x: x + x, (64 * M,), torch=lambda t: lambda x: x + x, moved=f4)
    add("ten ops f32", _ten_ops, (64 * M,), torch=_torch_ten_ops, moved=f4)
    add("tanh f32", lambda lib: lib.np.tanh, (64 * M,), torch=lambda t: t.tanh, moved=f4)
    add("exp f32", lambda lib: lib.np.exp, (64 * M,), torch=lambda t: t.exp, moved=f4)
    add("sin f32", lambda lib: lib.np.sin, (64 * M,), torch=lambda t: t.sin, moved=f4)
    add(
        "gelu f32",
        lambda lib: lib.nn.gelu,
        (64 * M,),
        moved=f4,
        torch=lambda t: lambda x: t.nn.functional.gelu(x, approximate="tanh"),
    )
    add(
        "silu bf16",
        lambda lib: lib.nn.silu,
        (128 * M,),
        dtype="bfloat16",
        moved=b2,
        torch=lambda t: t.nn.functional.silu,
    )
    add(
        "gelu bf16",
        lambda lib: lib.nn.gelu,
        (128 * M,),
        dtype="bfloat16",
        moved=b2,
        torch=lambda t: lambda x: t.nn.functional.gelu(x, approximate="tanh"),
    )
    add("sum f32", lambda lib: lib.np.sum, (64 * M,), torch=lambda t: t.sum, moved=f4 / 2)
    add(
        "variance f32",
        lambda lib: lib.np.var,
        (64 * M,),
        moved=f4 / 2,
        torch=lambda t: lambda x: t.var(x, correction=0),
    )
    add("argmax f32", lambda lib: lib.np.argmax, (64 * M,), torch=lambda t: t.argmax, moved=f4 / 2)
    add(
        "sum of rows f32",
        lambda lib: lambda x: lib.np.sum(x, axis=1),
        (64 * 1024, 1024),
        moved=f4 / 2,
        torch=lambda t: lambda x: x.sum(1),
    )
    add(
        "sum of columns f32",
        lambda lib: lambda x: lib.np.sum(x, axis=0),
        (64 * 1024, 1024),
        moved=f4 / 2,
        torch=lambda t: lambda x: x.sum(0),
    )
    for n, m in ((64 * 1024, 1024), (8 * 1024, 8 * 1024), (2 * 1024, 32 * 1024)):
        size = n * m
        add(f"softmax f32 {m}", lambda lib: lib.nn.softmax, (n, m), torch=_softmax_torch, moved=8 * size)
        add(
            f"softmax bf16 {m}",
            lambda lib: lib.nn.softmax,
            (n, m),
            dtype="bfloat16",
            torch=_softmax_torch,
            moved=4 * size,
        )
        add(
            f"layer norm bf16 {m}",
            _layer_norm,
            (n, m),
            (m,),
            (m,),
            dtype="bfloat16",
            moved=4 * size,
            torch=lambda t: lambda x, a, b: t.nn.functional.layer_norm(x, (x.shape[-1],), a, b, 1e-5),
        )
        add(
            f"cross entropy bf16 {m}",
            _cross_entropy,
            (n, m),
            dtype="bfloat16",
            moved=2 * size,
            torch=lambda t: lambda x: -t.log_softmax(x.float(), -1)[:, 7].mean(),
        )
    add(
        "transpose f32",
        lambda lib: lambda x: lib.np.copy(x.T),
        (64 * 1024, 1024),
        moved=f4,
        torch=lambda t: lambda x: x.T.contiguous(),
    )
    add(
        "transpose bf16",
        lambda lib: lambda x: lib.np.copy(x.T),
        (128 * 1024, 1024),
        dtype="bfloat16",
        moved=b2,
        torch=lambda t: lambda x: x.T.contiguous(),
    )
    add(
        "product f32 2048",
        lambda lib: lambda x, y: x @ y,
        (2048, 2048),
        (2048, 2048),
        flops=2 * 2048.0**3,
        torch=lambda t: lambda x, y: x @ y,
    )
    add(
        "product bf16 8192",
        lambda lib: lambda x, y: x @ y,
        (8192, 8192),
        (8192, 8192),
        flops=2 * 8192.0**3,
        dtype="bfloat16",
        torch=lambda t: lambda x, y: x @ y,
    )
    add(
        "gelu(x @ w + b) bf16 8192",
        lambda lib: lambda x, y, b: lib.nn.gelu(x @ y + b),
        (8192, 8192),
        (8192, 8192),
        (8192,),
        flops=2 * 8192.0**3,
        dtype="bfloat16",
        scale=0.1,
        torch=lambda t: (
            lambda x, y, b: t.nn.functional.gelu(t.nn.functional.linear(x, y.T, b), approximate="tanh")
        ),
    )
    add(
        "256 products bf16 512",
        lambda lib: lambda x, y: x @ y,
        (256, 512, 512),
        (256, 512, 512),
        flops=256 * 2 * 512.0**3,
        dtype="bfloat16",
        torch=lambda t: lambda x, y: x @ y,
    )
    add(
        "attention bf16 1024x128",
        _attention,
        *[(128, 1024, 128)] * 3,
        flops=4 * 128 * 1024.0**2 * 128,
        dtype="bfloat16",
        torch=lambda t: lambda q, k, v: t.nn.functional.scaled_dot_product_attention(q, k, v),
    )
    for dtype in ("float32", "bfloat16"):
        add(
            f"conv 3x3 64 {dtype}",
            _conv(1, 1),
            (64, 64, 56, 56),
            (64, 64, 3, 3),
            dtype=dtype,
            scale=0.1,
            flops=2.0 * 64 * 64 * 64 * 9 * 56 * 56,
            torch=lambda t: lambda x, w: t.nn.functional.conv2d(x, w, padding=1),
        )
        add(
            f"conv 3x3 64 gradients {dtype}",
            _conv_grads,
            (64, 64, 56, 56),
            (64, 64, 3, 3),
            dtype=dtype,
            scale=0.1,
            flops=6.0 * 64 * 64 * 64 * 9 * 56 * 56,
            torch=_torch_conv_grads,
        )
    add("while of 1000 steps, 64", lambda lib: _while(lib, 1000), (64,), inside=1000)
    add("while of 1000 steps, 1e6", lambda lib: _while(lib, 1000), (M,), inside=1000)
    add("sort f32 1e6", lambda lib: lib.np.sort, (M,), torch=lambda t: lambda x: t.sort(x)[0])
    add("sort f32 16e6", lambda lib: lib.np.sort, (16 * M,), torch=lambda t: lambda x: t.sort(x)[0])
    add(
        "cumsum f32 16e6",
        lambda lib: lib.np.cumsum,
        (16 * M,),
        torch=lambda t: lambda x: t.cumsum(x, 0),
        moved=128 * M,
    )
    add("launch", lambda lib: lambda x: x + x, (64,), torch=lambda t: lambda x: x + x)
    return out


def _whole_programs(lib: SimpleNamespace) -> dict[str, Callable[[], Any]]:
    """Steps of training, each with what the one before left."""
    out: dict[str, Callable[[], Any]] = {}

    def stepping(name: str, made: tuple[Callable[..., Any], list[Any]], keeps: int) -> None:
        step, arguments = made
        arguments = list(lib.tree_map(lib.np.asarray, arguments))

        def run() -> Any:
            results = step(*arguments)
            arguments[:keeps] = results[:keeps]
            return results

        out[name] = run

    stepping("LeNet step, batch 80", programs.lenet(lib), 2)
    out["MLP and Adam step"] = programs.mlp_adam(lib)
    return out


def _timed(call: Callable[[], Any], wait: Callable[[Any], None], end: float) -> dict[str, float]:
    """The first result of all, and calls that follow each other."""
    begin = time.perf_counter()
    wait(call())
    first = time.perf_counter() - begin
    for _ in range(3):  # graphs are made, tiers change
        wait(call())
    begin = time.perf_counter()
    wait(call())
    one = max(time.perf_counter() - begin, 1e-6)
    times = max(1, min(2000, math.ceil(ROUND_SECONDS / one)))
    best = host = math.inf
    for _ in range(3):
        begin = time.perf_counter()
        for _ in range(times):
            last = call()
        called = time.perf_counter() - begin
        wait(last)
        best, host = min(best, (time.perf_counter() - begin) / times), min(host, called / times)
        if time.perf_counter() > end:
            break
    return {"first_ms": first * 1e3, "wall": best * 1e6, "host": host * 1e6}


class JaxLike:
    def __init__(self, name: str):
        if name == "jax":
            import jax

            jax.config.update("jax_default_matmul_precision", "highest")
        self.name, self.lib = name, programs.library(name)

    def arrays(self, values: list[Any], dtype: str) -> list[Any]:
        return [self.lib.np.asarray(v).astype(dtype) for v in values]

    def function(self, row: Row) -> Callable[..., Any] | None:
        return self.lib.jit(row.build(self.lib))

    def wait(self, x: Any) -> None:
        self.lib.block(x)

    def numbers(self, x: Any) -> Any:
        import numpy

        return [numpy.asarray(a.astype("float32")) for a in (x if isinstance(x, (tuple, list)) else [x])]


class Torch:
    def __init__(self, compiles: bool):
        import torch

        self.name, self.torch, self.compiles = "torch.compile" if compiles else "torch", torch, compiles

    def arrays(self, values: list[Any], dtype: str) -> list[Any]:
        return [self.torch.from_numpy(v).cuda().to(getattr(self.torch, dtype)) for v in values]

    def function(self, row: Row) -> Callable[..., Any] | None:
        f = row.torch(self.torch) if row.torch else None
        return self.torch.compile(f) if f and self.compiles else f

    def wait(self, x: Any) -> None:
        self.torch.cuda.synchronize()

    def numbers(self, x: Any) -> Any:
        return [a.float().cpu().numpy() for a in (x if isinstance(x, (tuple, list)) else [x])]


SYSTEMS: dict[str, Callable[[], Any]] = {
    "lamina": lambda: JaxLike("lamina"),
    "jax": lambda: JaxLike("jax"),
    "torch": lambda: Torch(False),
    "torch.compile": lambda: Torch(True),
}


def _apart(numbers: list[Any], first: list[Any]) -> float:
    import numpy

    worst = 0.0
    for a, b in zip(numbers, first, strict=True):
        a, b = a.ravel()[: 1 << 22], b.ravel()[: 1 << 22]
        worst = max(worst, float(numpy.max(numpy.abs(a - b)) / max(float(numpy.max(numpy.abs(b))), 1e-30)))
    return worst


def _measure_row(row: Row, systems: list[Any], end: float) -> dict[str, Any]:
    values = [programs.numbers(*s, seed=i, scale=row.scale) for i, s in enumerate(row.shapes)]
    found: dict[str, Any] = {"name": row.name}
    first: list[Any] | None = None
    for system in systems:
        try:
            f = system.function(row)
            if f is None:
                continue
            arrays = system.arrays(values, row.dtype)
            times = _timed(lambda f=f, arrays=arrays: f(*arrays), system.wait, end)
            numbers = system.numbers(f(*arrays))
        except Exception as e:
            found[system.name] = {"error": f"{type(e).__name__}: {e}"[:300]}
            continue
        if first is None:
            first = numbers
        times["wall"] /= row.inside
        times["apart"] = _apart(numbers, first)
        if row.moved:
            times["gb_s"] = row.moved / times["wall"] * 1e-3
        if row.flops:
            times["tflops"] = row.flops / times["wall"] * 1e-6
        found[system.name] = {k: float(f"{v:.4g}") for k, v in times.items()}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help="rows whose name has one of these texts, divided by '|'")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--seconds", type=float, default=500, help="after which no row begins")
    parser.add_argument("--out", help="file for the lines of JSON")
    options = parser.parse_args()
    end = time.perf_counter() + options.seconds
    systems = [SYSTEMS[name]() for name in options.systems.split(",")]
    wanted = options.only.split("|")
    rows: list[dict[str, Any]] = []

    def say(found: dict[str, Any]) -> None:
        rows.append(found)
        print(json.dumps(found), flush=True)
        if options.out:
            Path(options.out).write_text("\n".join(map(json.dumps, rows)) + "\n")

    for row in _rows():
        if any(w in row.name for w in wanted) and time.perf_counter() < end:
            say(_measure_row(row, systems, end))
    whole: dict[str, dict[str, Any]] = {}
    for system in systems:
        if not isinstance(system, JaxLike):
            continue
        for name, run in _whole_programs(system.lib).items():
            if not any(w in name for w in wanted) or time.perf_counter() > end:
                continue
            try:
                times = {k: float(f"{v:.4g}") for k, v in _timed(run, system.wait, end).items()}
            except Exception as e:
                times = {"error": f"{type(e).__name__}: {e}"[:300]}
            whole.setdefault(name, {"name": name})[system.name] = times
    for found in whole.values():
        say(found)

    print(f"{'us':32}" + "".join(f"{s.name:>24}" for s in systems))
    for found in rows:
        line = f"{found['name']:32}"
        for s in systems:
            t = found.get(s.name, {})
            line += f"{t['wall']:14.1f} {t['host']:9.1f}" if "wall" in t else f"{'error' if t else '-':>24}"
        print(line)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
