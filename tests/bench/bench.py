"""Lamina beside JAX and NumPy: the same programs in one run, in alternating rounds, their results compared.

Run: make bench, or PYTHONPATH=python .venv/bin/python tests/bench/bench.py [--rows TEXT] [--rounds N].
Times are the least of the rounds; ratios are Lamina's time over the peer's, so less than 1 is faster, with the
median over the rounds beside it. Exits with an error when results differ.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import lamina
import numpy
import programs
from programs import Thunk, library, numbers
from rich.console import Console
from rich.table import Table

LIBRARIES = ("lamina", "jax")
QUIET = 0.1  # seconds before a round: threads of the library before it may still spin for work
ENOUGH = 0.05  # seconds a round of one row takes at least, unless one call takes longer


@dataclass(eq=False)
class Row:
    """`make(lib)` gives the call to time; `floor` is what is demanded, judged by `met(lamina, jax)`."""

    name: str
    make: Callable[[SimpleNamespace], Thunk]
    numpy: Callable[[], Thunk] | None = None
    calls: int = 1  # operations per call: the time is divided by it
    floor: str = ""
    met: Callable[[float, float], bool] | None = None
    tolerance: float = 1e-4
    forced: bool = True  # the call's time includes waiting for its result
    fresh: str = ""  # a program of programs.FRESH, in a new process each time
    five: bool = False  # of a fresh one: the sum of its first five calls, else the first
    warm: bool = False  # of a fresh one: the same process ran once before, and what it kept on disk is there
    times: dict[str, list[float]] = field(default_factory=dict)


def unary(f: Callable[..., Any], *arrays: Any) -> Callable[[SimpleNamespace], Thunk]:
    """Rows that call jit(f(lib, *arrays))."""

    def make(lib: SimpleNamespace) -> Thunk:
        tensors = [lib.np.asarray(a) for a in arrays]
        jitted = lib.jit(lambda *x: f(lib, *x))
        return lambda: jitted(*tensors)

    return make


def unjitted(f: Callable[..., Any], array: Any) -> Callable[[SimpleNamespace], Thunk]:
    """Rows that call f(lib.np, array) operation by operation."""

    def make(lib: SimpleNamespace) -> Thunk:
        x = lib.np.asarray(array)
        return lambda: f(lib.np, x)

    return make


def plain(f: Callable[..., Any], *arrays: Any) -> Callable[[], Thunk]:
    return lambda: lambda: f(*arrays)


def arithmetic(np: Any, x: Any) -> Any:
    """Twenty operations, none dear."""
    for _ in range(5):
        x = (x * x + 0.5) * 0.25 - x
    return x


def formula(np: Any, x: Any) -> Any:
    """Twenty operations, five of them sines."""
    for _ in range(5):
        x = np.sin(x) * x + 0.5
        x = x * 0.25
    return x


def recorded(lib: SimpleNamespace) -> Thunk:
    x, y = lib.np.ones(8), lib.np.ones(8)
    lib.block([x, y])

    def run() -> Any:
        a = x
        for _ in range(200):
            a = a + y
        return a

    return run


def leaves(count: int) -> Callable[[SimpleNamespace], Thunk]:
    def make(lib: SimpleNamespace) -> Thunk:
        xs = [lib.np.asarray(numbers(8, seed=i)) for i in range(count)]
        f = lib.jit(lambda xs: [x * 2 + 1 for x in xs])

        def run() -> Any:
            return f(xs)

        return run

    return make


def lenet_step(lib: SimpleNamespace) -> Thunk:
    step, args = programs.lenet(lib)
    return lambda: step(*args)[2]


def transformer_step(lib: SimpleNamespace) -> Thunk:
    step, args = programs.transformer(lib)
    return lambda: step(*args)[1]


def softmax(lib: Any, x: Any) -> Any:
    return lib.nn.softmax(x)


def layer_norm(lib: Any, x: Any) -> Any:
    centred = x - lib.np.mean(x, axis=-1, keepdims=True)
    return centred / lib.np.sqrt(lib.np.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)


def conv(lib: Any, x: Any, w: Any) -> Any:
    return lib.lax.conv_general_dilated(x, w, (1, 1), "SAME")


def conv_backward(lib: Any, x: Any, w: Any) -> Any:
    return lib.grad(lambda x, w: lib.np.sum(conv(lib, x, w) ** 2), (0, 1))(x, w)


def tiny_scan(lib: Any, x: Any) -> Any:
    return lib.lax.scan(lambda c, _: (c * 0.999 + 0.001, None), x, None, length=10000)[0]


def mandelbrot(lib: Any, re: Any, im: Any) -> Any:
    """50 steps on a million points, counting those still inside."""

    def body(s: Any) -> Any:
        i, x, y, n = s
        xx, yy = x * x, y * y
        inside = xx + yy < 4
        x2 = lib.np.where(inside, xx - yy + re, x)
        y2 = lib.np.where(inside, 2 * x * y + im, y)
        return i + 1, x2, y2, n + inside.astype("int32")

    zero = re * 0
    return lib.lax.while_loop(lambda s: s[0] < 50, body, (0, zero, zero, zero.astype("int32")))[3]


def first_results(what: str, program: str) -> list[Row]:
    """Its first call, the sum of its first five, and the first where the disk has what an earlier process kept."""
    return [
        Row(f"{what}, first, cold", library, fresh=program, floor="<= 1/10", met=lambda a, b: a <= b / 10),
        Row(f"{what}, five, cold", library, fresh=program, five=True),
        Row(f"{what}, first, warm disk", library, fresh=program, warm=True),
    ]


def _softmax(x: Any) -> Any:
    e = numpy.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def all_rows() -> list[Row]:
    big, wide, long = numbers(1_000_000), numbers(2000, 1000), numbers(10_000_000)
    long2, images, kernel = numbers(10_000_000, seed=1), numbers(16, 16, 32, 32), numbers(32, 16, 3, 3)
    batch, tall = numbers(4096, 8, 8), numbers(4096, 1024)
    index = numpy.random.default_rng(0).integers(0, 100_000, 1_000_000).astype(numpy.int32)
    table = numbers(100_000)
    side = numpy.linspace(-2, 1, 1000, dtype=numpy.float32)
    re, im = numpy.tile(side, 1000), numpy.repeat(side, 1000)
    rows = [
        Row("import, CPU time", library, fresh="import", floor="<= 50 ms", met=lambda a, _: a <= 0.05),
        Row(
            "one op recorded / dispatched",
            recorded,
            calls=200,
            forced=False,
            floor="<= 120 ns",
            met=lambda a, _: a <= 120e-9,
        ),
        Row(
            "cached jit call, 2 leaves", leaves(2), forced=False, floor="<= 1/2", met=lambda a, b: a <= b / 2
        ),
        Row(
            "cached jit call, 100 leaves",
            leaves(100),
            forced=False,
            floor="<= 1/2",
            met=lambda a, b: a <= b / 2,
        ),
        *first_results("chain of 100", "chain100"),
        *first_results("chain of 300", "chain300"),
        *first_results("chain of 1,000", "chain1000"),
        *first_results("MLP and Adam", "mlp"),
        *first_results("LeNet", "lenet"),
        Row("LeNet, step", lenet_step, floor="<= 1", met=lambda a, b: a <= b),
        Row("50 batch sizes, cold", library, fresh="sizes", floor="<= 1/10", met=lambda a, b: a <= b / 10),
        Row("50 batch sizes, warm disk", library, fresh="sizes", warm=True),
        Row(
            "20-op formula 1e6, no jit",
            unjitted(formula, big),
            plain(formula, numpy, big),
            floor="<= 1/5",
            met=lambda a, b: a <= b / 5,
        ),
        Row(
            "20-op arithmetic 1e6, no jit",
            unjitted(arithmetic, big),
            plain(arithmetic, numpy, big),
            floor="<= 1/5",
            met=lambda a, b: a <= b / 5,
        ),
        Row("20-op formula 1e6, jit", unary(lambda lib, x: formula(lib.np, x), big)),
        Row(
            "saxpy 1e7",
            unary(lambda lib, x, y: x * 2.5 + y, long, long2),
            plain(lambda x, y: x * 2.5 + y, long, long2),
        ),
        Row("sum of rows 2000x1000", unary(lambda lib, x: lib.np.sum(x, 1), wide), plain(numpy.sum, wide, 1)),
        Row(
            "sum of columns 2000x1000",
            unary(lambda lib, x: lib.np.sum(x, 0), wide),
            plain(numpy.sum, wide, 0),
        ),
        Row(
            "sum of all 1e7",
            unary(lambda lib, x: lib.np.sum(x), long),
            plain(numpy.sum, long),
            tolerance=1e-3,
        ),
        Row("max of rows 2000x1000", unary(lambda lib, x: lib.np.max(x, 1), wide), plain(numpy.max, wide, 1)),
        Row(
            "transposed copy 4096x1024",
            unary(lambda lib, x: x.T, tall),
            plain(lambda x: numpy.ascontiguousarray(x.T), tall),
        ),
        Row(
            "transposed, plus one 4096x1024",
            unary(lambda lib, x: x.T + 1, tall),
            plain(lambda x: numpy.ascontiguousarray(x.T) + 1, tall),
        ),
        Row("softmax 2000x1000", unary(softmax, wide), plain(_softmax, wide)),
        Row("layer norm 2000x1000", unary(layer_norm, wide)),
        Row("conv 3x3, 16x16x32x32 to 32", unary(conv, images, kernel)),
        Row("conv forward and backward", unary(conv_backward, images, kernel), tolerance=1e-3),
        Row("sort 1e6", unary(lambda lib, x: lib.np.sort(x), big), plain(numpy.sort, big)),
        Row("argsort 1e6", unary(lambda lib, x: lib.np.argsort(x), big), plain(numpy.argsort, big)),
        Row(
            "argmax of rows 2000x1000",
            unary(lambda lib, x: lib.np.argmax(x, 1), wide),
            plain(numpy.argmax, wide, 1),
        ),
        Row("top 10 of rows 2000x1000", unary(lambda lib, x: lib.lax.top_k(x, 10), wide)),
        Row("top 100 of 1e6", unary(lambda lib, x: lib.lax.top_k(x, 100), big)),
        Row("argmax 1e6", unary(lambda lib, x: lib.np.argmax(x), big), plain(numpy.argmax, big)),
        Row(
            "cumsum 1e6",
            unary(lambda lib, x: lib.np.cumsum(x), big),
            plain(numpy.cumsum, big),
            tolerance=1e-2,
        ),
        Row(
            "gather 1e6 of 1e5",
            unary(lambda lib, x, i: x[i], table, index),
            plain(lambda x, i: x[i], table, index),
        ),
        Row("scatter-add 1e6 to 1e5", unary(lambda lib, x, i, u: x.at[i].add(u), table, index, big)),
        Row("MLP, gradient and Adam step", programs.mlp_adam),
        Row("scan of 10,000 tiny steps", unary(tiny_scan, numbers(8))),
        Row("Mandelbrot 1e6 x 50", unary(mandelbrot, re, im), tolerance=1e-3),
        Row(
            "vmap of 4096 8x8 matmuls",
            unary(lambda lib, x: lib.vmap(lambda a: a @ a)(x), batch),
            plain(lambda x: x @ x, batch),
        ),
        *first_results("6-layer transformer", "transformer"),
        Row("6-layer transformer, step", transformer_step),
    ]
    for n in (64, 256, 1024, 2048):
        m = numbers(n, n)
        rows.append(
            Row(f"matmul {n}", unary(lambda lib, x: x @ x, m), plain(lambda x: x @ x, m), tolerance=1e-3)
        )
    return rows


def compile_package() -> None:
    """Byte code for the tree that is measured, as pip makes it for the peers when it installs them."""
    compileall.compile_dir(str(pathlib.Path(lamina.__file__).parent), quiet=1)


def in_fresh_process(program: str, name: str, warm: bool) -> dict[str, float]:
    """One run in a new process with an empty kernel cache; the second of two with `warm`."""
    path = str(pathlib.Path(__file__).with_name("programs.py"))
    with tempfile.TemporaryDirectory() as kept:
        directories = {"LAMINA_CACHE_DIR": kept, "JAX_COMPILATION_CACHE_DIR": kept}
        always = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        for _ in range(2 if warm else 1):
            out = subprocess.run(
                [sys.executable, path, program, name],
                env={**os.environ, **directories, **always},
                capture_output=True,
                text=True,
                check=True,
            )
    return json.loads(out.stdout.strip().splitlines()[-1])


def timed(call: Thunk, block: Callable[[Any], Any], forced: bool) -> float:
    """Seconds per call over a round; results of calls that are not waited for are waited for outside."""
    time.sleep(QUIET)
    block(call())
    total, count = 0.0, 0
    while total < ENOUGH:
        start = time.perf_counter()
        out = call()
        if forced:
            block(out)
        total += time.perf_counter() - start
        count += 1
        if not forced:
            block(out)
    return total / count


def flat(x: Any) -> list[numpy.ndarray]:
    if isinstance(x, (tuple, list)):
        return [a for item in x for a in flat(item)]
    return [numpy.asarray(x)]


def compare(row: Row, a: Any, b: Any) -> None:
    for x, y in zip(flat(a), flat(b), strict=True):
        scale = float(numpy.max(numpy.abs(y), initial=0)) or 1.0
        if row.name.startswith("Mandelbrot"):  # points on the border may fall either way
            assert numpy.mean(x != y) < row.tolerance, f"{row.name}: results differ"
        elif not numpy.allclose(x, y, rtol=row.tolerance, atol=row.tolerance * scale):
            raise AssertionError(f"{row.name}: results differ by {numpy.max(numpy.abs(x - y))}")


def measure(row: Row, rounds: int) -> None:
    """Fills row.times, one entry per library and round."""
    if row.fresh:
        names = (*LIBRARIES, "numpy") if row.fresh == "import" else LIBRARIES
        for _ in range(min(rounds, 3)):
            values = {}
            for name in names:
                out = in_fresh_process(row.fresh, name, row.warm)
                row.times.setdefault(name, []).append(out["five" if row.five else "seconds"])
                values[name] = out["value"]
            compare(row, values["lamina"], values["jax"])
        return
    libs = {name: library(name) for name in LIBRARIES}
    calls = {name: row.make(lib) for name, lib in libs.items()}
    blocks = {name: lib.block for name, lib in libs.items()}
    if row.numpy:
        calls["numpy"], blocks["numpy"] = row.numpy(), lambda x: x
    results = {name: blocks[name](call()) for name, call in calls.items()}
    compare(row, results["lamina"], results["jax"])
    # The first round warms up, as Lamina's kernels run interpreted for a while; of slow calls it counts.
    first = {name: timed(call, blocks[name], row.forced) / row.calls for name, call in calls.items()}
    lamina.cache.wait()
    row.times = (
        {name: [t] for name, t in first.items()} if max(first.values()) > 1 else {n: [] for n in first}
    )
    for _ in range(0 if max(first.values()) > 1 else rounds):
        for name, call in calls.items():
            row.times[name].append(timed(call, blocks[name], row.forced) / row.calls)


def onednn(path: str) -> dict[str, float]:
    """Sizes of square products to Lamina's speed over oneDNN's, one thread each, from tests/bench/dot_bench.cc."""
    if not path or not os.path.exists(path):
        return {}
    text = subprocess.run([path], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in text.splitlines():
        m = re.match(r"\s*(\d+) x (\d+) x (\d+)\s+[\d.]+\s+[\d.]+\s+[\d.]+\s+([\d.]+)", line)
        if m and m[1] == m[2] == m[3]:
            found[m[1]] = float(m[4])
    return found


def text_of(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def summary(row: Row) -> dict[str, Any]:
    best = {name: min(t) for name, t in row.times.items()}
    out: dict[str, Any] = {"name": row.name, "seconds": best, "rounds": row.times, "floor": row.floor}
    for peer in best:
        if peer != "lamina":
            pairs = [a / b for a, b in zip(row.times["lamina"], row.times[peer])]
            out["ratio_" + peer] = {"least": best["lamina"] / best[peer], "median": statistics.median(pairs)}
    out["met"] = row.met(best["lamina"], best["jax"]) if row.met else None
    return out


def table_of(rows: list[dict[str, Any]]) -> Table:
    table = Table(title="Lamina beside JAX and NumPy (ratio below 1: Lamina is faster)")
    table.add_column("what")
    for title in ("Lamina", "JAX", "NumPy", "/ JAX", "median", "/ NumPy", "floor", "met"):
        table.add_column(title, justify="right")
    for r in rows:
        s, jax, np = r["seconds"], r.get("ratio_jax"), r.get("ratio_numpy")
        met = {None: "", True: "[green]yes[/]", False: "[red]no[/]"}[r["met"]]
        table.add_row(
            r["name"],
            *[text_of(s[n]) if n in s else "" for n in ("lamina", "jax", "numpy")],
            f"{jax['least']:.2f}" if jax else "",
            f"{jax['median']:.2f}" if jax else "",
            f"{np['least']:.2f}" if np else "",
            r["floor"],
            met,
        )
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="", help="only rows whose name contains this")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", default="", help="write everything measured to this file")
    parser.add_argument("--dot-bench", default="", help="the C++ program that compares with oneDNN")
    args = parser.parse_args()
    console, done, failures = Console(width=130), [], []
    compile_package()
    for row in all_rows():
        if args.rows.lower() not in row.name.lower():
            continue
        try:
            measure(row, args.rounds)
            done.append(summary(row))
        except Exception as e:
            failures.append(f"{row.name}: {type(e).__name__}: {e}")
        print(f"\r{len(done)} rows, {row.name:40}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    console.print(table_of(done))
    speeds = onednn(args.dot_bench)
    for n, ratio in speeds.items():
        met = "" if n != "1024" else "   floor 0.85: " + ("met" if ratio >= 0.85 else "not met")
        console.print(f"matmul {n}: {ratio:.2f} of oneDNN's speed, one thread{met}")
    for failure in failures:
        console.print("failed:", failure, style="red", markup=False)
    if args.json:
        pathlib.Path(args.json).write_text(
            json.dumps({"rows": done, "onednn": speeds, "failures": failures}, indent=1)
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
