"""Plan files: what is saved runs elsewhere with the same bits and without LLVM; what is damaged is refused in words."""

from __future__ import annotations

import collections
import dataclasses
import os
import platform
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax, random

pytestmark = [
    pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code is kept for x86-64 only"),
    pytest.mark.not_on_cuda(reason="programs for CUDA devices are not kept in files"),
]

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class State:
    position: Any
    velocity: Any
    unit: str = dataclasses.field(default="m", metadata={"static": True})


class Box:
    """A registered container with data beside its arrays."""

    def __init__(self, inside: Any, label: Any) -> None:
        self.inside, self.label = inside, label


lm.tree.register(Box, lambda b: ((b.inside,), b.label), lambda label, inside: Box(*inside, label))


def f32(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def containers(tree):
    point, state = tree["point"], tree["state"]
    moved = dataclasses.replace(state, position=state.position + state.velocity * point.x)
    return {
        "state": moved,
        "box": Box(point.y + 1.0, ("kept", 1, 2.5, None, b"\x00")),
        "ordered": collections.OrderedDict(b=point.x, a=[(), None, (point.y,)]),
        "default": collections.defaultdict(list, {1: point.x * 2}),
        "text": "as it was",
    }


def newton(a):
    return lax.while_loop(lambda x: lnp.max(lnp.abs(x * x - a)) > 1e-6, lambda x: 0.5 * (x + a / x), a)


def running(xs):
    return lax.scan(lambda c, x: (c * 0.9 + x, lnp.sin(c)), lnp.zeros(4), xs)


SCALE = lm.numpy.array(f32(3, seed=9))
OFFSETS = f32(4, 3, seed=8)


def reads_more(x):
    return x * SCALE + OFFSETS


@lm.custom_jvp
def ruled(x):
    return lnp.log1p(lnp.exp(x))


ruled.defjvp(lambda p, t: (ruled(*p), lnp.tanh(p[0]) * t[0]))


def looped_rule(x):
    return lax.fori_loop(0, 3, lambda i, c: ruled(c), x)


CASES = {
    "elementwise": (lambda x, y: (lnp.exp(x) * y + 1.5, x > y), (f32(50, 7), f32(7, seed=1))),
    "reductions": (lambda x: (lnp.sum(x, axis=0), lnp.max(x, axis=1), lnp.mean(x)), (f32(60, 33),)),
    "dot": (lambda a, b: lnp.tanh(a @ b), (f32(20, 30), f32(30, 10, seed=1))),
    "conv": (
        lambda x, w: lax.conv_general_dilated(x, w, (1, 1), [(1, 1), (1, 1)]),
        (f32(2, 3, 9, 9), f32(4, 3, 3, 3, seed=1)),
    ),
    "gradient": (lm.grad(lambda w, x: lnp.sum(lnp.maximum(x @ w, 0.0) ** 2)), (f32(5, 6), f32(8, 5, seed=1))),
    "while": (newton, (np.abs(f32(6)) + 1,)),
    "scan": (running, (f32(10, 4),)),
    "branch": (lambda p, x: lax.cond(p, lnp.sin, lnp.cos, x), (np.bool_(True), f32(9))),
    "sort": (lambda x: (lnp.sort(x), lnp.argsort(x), lnp.cumsum(x)), (f32(40),)),
    "solve": (lambda a, b: lnp.linalg.solve(a @ a.T + 4 * lnp.eye(5), b), (f32(5, 5), f32(5, seed=1))),
    "random": (lambda k: (random.normal(k, (8,)), random.split(k)), (np.array([3, 4], np.uint32),)),
    "complex": (lambda x: lnp.fft.fft(x), (f32(16),)),
    "wide": (lambda x: lnp.cumsum(x) / 3, (np.arange(7, dtype=np.float64),)),
    "numbers": (lambda x, rate, n: (x * rate, rate * 3, n // 2), (f32(5), 0.1, 7)),
    "constants": (lambda x: x + np.array([np.nan, -0.0, np.inf, 1e-42], np.float32), (f32(4),)),
    "reads": (reads_more, (f32(4, 3),)),
    "rule": (looped_rule, (f32(5),)),
    "nothing": (lambda x: (), (f32(2),)),
    "empty": (lambda x: x + 1, (f32(0, 3),)),
    "same": (lambda x: (x, x, x + 0), (f32(3),)),
    "containers": (
        containers,
        ({"point": Point(f32(3), f32(2, 2)), "state": State(f32(3, seed=1), f32(3, seed=2))},),
    ),
}


def bits(tree: Any) -> list[tuple[str, tuple[int, ...], bytes] | str]:
    out: list[Any] = []
    for x in lm.tree.tree_leaves(tree):
        a = x if isinstance(x, str) else np.asarray(x)
        out.append(a if isinstance(a, str) else (str(a.dtype), a.shape, a.tobytes()))
    return out


# In a process of its own: no code generator, no kernels on disk; its results and counters as JSON-like text.
CHILD = """
import pickle, sys
sys.path.insert(0, {here!r})
import lamina as lm
import test_plans
directory = {directory!r}
made = {{}}
for name, leaves in pickle.load(open(directory + "/arguments", "rb")).items():
    plan = lm.plans.load(f"{{directory}}/{{name}}.plan")
    args, kwargs = lm.tree.tree_unflatten(plan.in_tree, leaves)
    made[name] = plan, [plan(*args, **kwargs) for _ in range(2)]
    for x in lm.tree.tree_leaves(made[name][1]):
        if isinstance(x, lm.Tensor) and not x.weak_type:
            x.block_until_ready()
stats = lm.cache.stats()
out = {{}}
for name, (plan, results) in made.items():
    out[name] = [(test_plans.bits(r), str(lm.tree.tree_structure(r))) for r in results] + [plan.slow]
if lm.default_backend() == "cpu":  # elsewhere a small program rounds the numbers that are read
    stats = lm.cache.stats()
counted = {{k: stats[k] for k in ("kernel_compiles", "kernel_loads", "interpreted_runs", "kernels_adopted")}}
llvm = "llvm" in open("/proc/self/maps").read().lower()
pickle.dump((out, counted, llvm), open(directory + "/results", "wb"))
"""


def in_another_process(directory: Path, code: str = CHILD, **environment: str) -> Any:
    import pickle

    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "LAMINA_LLVM_PATH": str(directory / "no_such_library.so"),
        "LAMINA_CACHE_DIR": "",
        **environment,
    }
    code = textwrap.dedent(code).format(here=str(HERE), directory=str(directory))
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    with open(directory / "results", "rb") as file:
        return pickle.load(file)


def saved(directory: Path, name: str, f: Any, args: Any) -> Any:
    compiled = lm.jit(f).lower(*args).compile()
    compiled.save(directory / f"{name}.plan")
    return compiled(*args)


@pytest.mark.machine_code
def test_programs_run_elsewhere_with_the_same_bits_and_without_llvm(tmp_path):
    import pickle

    wanted, arguments = {}, {}
    for name, (f, args) in CASES.items():
        result = saved(tmp_path, name, f, args)
        wanted[name] = (bits(result), str(lm.tree.tree_structure(result)))
        arguments[name] = lm.tree.tree_leaves((args, {}))
    (tmp_path / "arguments").write_bytes(pickle.dumps(arguments))
    results, counted, llvm = in_another_process(tmp_path)
    for name, (first, second, slow) in results.items():
        assert first == wanted[name], name
        assert second == wanted[name], name
        assert slow == "", name
    assert counted["kernel_compiles"] == counted["kernel_loads"] == counted["interpreted_runs"] == 0
    assert counted["kernels_adopted"] > 20
    assert not llvm
    # A machine that has less: the code is not used, which is said, and the bits are the same.
    results, counted, _ = in_another_process(tmp_path, LAMINA_ISA="baseline", PYTHONWARNINGS="ignore")
    for name, (first, _, slow) in results.items():
        assert first == wanted[name], name
        assert "this processor has no avx" in slow, name
    assert counted["kernels_adopted"] == 0


@pytest.mark.machine_code
def test_the_training_step_of_lenet_runs_elsewhere(tmp_path):
    sys.path.insert(0, str(EXAMPLES))
    try:
        import lenet_mnist
    finally:
        sys.path.remove(str(EXAMPLES))
    import pickle

    params = lenet_mnist.init(random.key(0))
    momentum = lm.tree.tree_map(lambda p: np.zeros(p.shape, np.float32), params)
    labels = np.random.default_rng(1).integers(0, 10, 80)
    args = (params, momentum, f32(80, 1, 28, 28), labels, 0.02)
    compiled = lenet_mnist.step.lower(*args).compile()
    compiled.save(tmp_path / "step.plan")
    wanted = compiled(*args)
    leaves = [x if isinstance(x, float) else np.asarray(x) for x in lm.tree.tree_leaves(args)]
    (tmp_path / "arguments").write_bytes(pickle.dumps({"step": leaves}))
    results, counted, llvm = in_another_process(tmp_path)
    assert results["step"][0][0] == results["step"][1][0] == bits(wanted)
    assert counted["kernel_compiles"] == counted["kernel_loads"] == counted["interpreted_runs"] == 0
    assert counted["kernels_adopted"] > 10 and not llvm


@pytest.mark.machine_code
def test_kernels_refused_for_want_of_a_generator_take_the_code_of_a_file(tmp_path):
    f = lambda x: lnp.cos(x * 1.25) - x  # noqa: E731
    saved(tmp_path, "f", f, (f32(1000),))
    code = """
        import pickle, numpy as np
        import lamina as lm, lamina.numpy as lnp
        x = np.linspace(-1, 1, 1000, dtype=np.float32)
        lm._core.set_eager_compile(True)
        before = np.asarray(lm.jit(lambda x: lnp.cos(x * 1.25) - x)(x))
        interpreted = lm.cache.stats()["interpreted_runs"]
        after = np.asarray(lm.plans.load({directory!r} + "/f.plan")(x))
        same = before.tobytes() == after.tobytes()
        pickle.dump((same, interpreted, lm.cache.stats()["interpreted_runs"]), open({directory!r} + "/results", "wb"))
    """
    same, before, after = in_another_process(tmp_path, code)
    assert same and before == after == 1


def loaded(f: Any, *args: Any, **options: Any) -> Any:
    return lm.plans.loads(lm.plans.dumps(lm.jit(f, **options).lower(*args)))


@pytest.mark.machine_code
def test_donated_arguments_are_given_up():
    step = loaded(lambda w, x: (w + x, lnp.sum(x)), lnp.ones(1000), lnp.ones(1000), donate_argnums=0)
    w, x = lnp.full((1000,), 2.0), lnp.ones(1000)
    w.numpy()
    new, total = step(w, x)
    assert float(new[0]) == 3 and float(total) == 1000 and float(x[0]) == 1
    with pytest.raises(TypeError, match="donated"):
        w.numpy()


@pytest.mark.machine_code
def test_static_arguments_are_part_of_the_program():
    jitted = lm.jit(lambda x, n, *, shift: x * n + shift, static_argnums=1)
    f = lm.plans.loads(lm.plans.dumps(jitted.lower(lnp.ones(3), 4, shift=2.0)))
    assert bits(f(lnp.ones(3), shift=0.5)) == bits(lnp.full((3,), 4.5))


@pytest.mark.machine_code
def test_what_is_read_besides_has_the_value_of_the_moment_it_is_saved():
    class Config:
        rate = 2.0

    config = Config()
    f = lm.jit(lambda x: x * config.rate)
    compiled = f.lower(lnp.ones(3)).compile()
    config.rate = 3.0
    plan = lm.plans.loads(lm.plans.dumps(compiled))
    config.rate = 4.0
    assert bits(plan(lnp.ones(3))) == bits(lnp.full((3,), 3.0))


@pytest.mark.machine_code
def test_arguments_that_do_not_fit_are_named():
    plan = loaded(lambda p, x: p["w"] * x, {"w": lnp.ones(3)}, lnp.ones(3))
    with pytest.raises(TypeError, match=r"saved for float32\[3\] as p\['w'\], not float32\[4\]"):
        plan({"w": lnp.ones(4)}, lnp.ones(3))
    with pytest.raises(TypeError, match=r"as x, not float64\[3\]"):
        plan({"w": lnp.ones(3)}, np.ones(3))
    with pytest.raises(TypeError, match="structure"):
        plan(lnp.ones(3), lnp.ones(3))
    with pytest.raises(TypeError, match="not an array"):
        plan({"w": object()}, lnp.ones(3))
    with pytest.raises(TypeError, match="no derivative"):
        lm.grad(lambda x: lnp.sum(plan({"w": x}, x)))(lnp.ones(3))
    assert "p['w']: f32[3]" in plan.summary() and "machine code for x86_64" in plan.summary()
    assert "multiply" in plan.as_text() and "step 0" in plan.as_text("steps")


def test_what_no_file_can_hold_is_refused_when_it_is_saved():
    x = lnp.ones(3)

    def called(x):
        return lm.pure_callback(lambda v: v, lm.ShapeDtype((3,), "float32"), x)

    def written(x):
        x[0] = 2.0
        return x * 1

    class Local(NamedTuple):
        a: Any

    for f, arguments, kind, says in (
        (called, (x,), NotImplementedError, "calls back into this process"),
        (written, (x,), NotImplementedError, "writes to its arguments"),
        (lambda x: x if x[0] > 0 else -x, (x,), NotImplementedError, "decides on values"),
        (lambda p: p.a, (Local(x),), TypeError, "top level of a module"),
        (lambda b: b.inside, (Box(x, frozenset({1})),), TypeError, "a frozenset: plan files hold"),
    ):
        with pytest.raises(kind, match=says):
            lm.plans.dumps(lm.jit(f).trace(*arguments))


@pytest.mark.machine_code
def test_classes_are_looked_up_and_never_imported():
    point = lm.plans.dumps(lm.jit(lambda p: p.x).trace(Point(lnp.ones(2), lnp.ones(2))))
    module = sys.modules.pop(__name__)
    try:
        with pytest.raises(TypeError, match="import the module that defines it before"):
            lm.plans.loads(point)
    finally:
        sys.modules[__name__] = module
    assert float(lm.plans.loads(point)(Point(lnp.ones(2), lnp.ones(2)))[0]) == 1


@pytest.mark.machine_code
def test_a_file_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    compiled = lm.jit(lambda x: x + 1).lower(lnp.ones(3)).compile()
    path = tmp_path / "f.plan"
    path.write_bytes(b"before")

    def fails(*_: Any) -> None:
        raise OSError("no room")

    with monkeypatch.context() as m:
        m.setattr(os, "replace", fails)
        with pytest.raises(OSError, match="no room"):
            compiled.save(path)
    assert path.read_bytes() == b"before" and len(list(tmp_path.iterdir())) == 1
    compiled.save(path)
    assert float(lm.plans.load(path)(lnp.ones(3))[0]) == 2


# --- damage ---


def damaged(data: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    """One way or another, not what was written."""
    out = bytearray(data)
    n = len(out)
    a, b = sorted(int(i) for i in rng.integers(0, n + 1, 2))
    way = int(rng.integers(8))
    if way == 0:  # a bit
        out[int(rng.integers(n))] ^= 1 << int(rng.integers(8))
    elif way == 1:  # some bytes
        for i in rng.integers(0, n, int(rng.integers(1, 9))):
            out[i] = int(rng.integers(256))
    elif way == 2:  # cut short
        del out[a:]
    elif way == 3:  # a piece is missing
        del out[a:b]
    elif way == 4:  # a piece of another file, where it was or elsewhere
        at = a if rng.integers(2) else int(rng.integers(len(other)))
        out[a:b] = other[at : at + (b - a)]
    elif way == 5:  # zeros
        out[a : min(b, a + 512)] = bytes(min(b, a + 512) - a)
    elif way == 6:  # more than there was
        out += other[a : a + int(rng.integers(1, 64))] or b"\0"
    else:  # its beginning, the end of another
        out[a:] = other[a:]
    return bytes(out)


def refuse_damage(data: bytes, other: bytes, count: int, seed: int) -> collections.Counter:
    rng = np.random.default_rng(seed)
    said: collections.Counter = collections.Counter()
    while said.total() < count:
        bad = damaged(data, other, rng)
        if bad in (data, other):
            continue
        with pytest.raises(ValueError, match="plan file") as e:
            lm.plans.loads(bad)
        said[str(e.value).split(":")[0]] += 1
    return said


def two_files() -> tuple[bytes, bytes]:
    f = lambda w, x: lnp.sum(lnp.tanh(x @ w), axis=0)  # noqa: E731
    g = lambda w, x: lnp.max(x @ w, axis=0)  # noqa: E731
    args = (lnp.ones((4, 5)), lnp.ones((6, 4)))
    return tuple(lm.plans.dumps(lm.jit(h).trace(*args)) for h in (f, g))  # type: ignore[return-value]


@pytest.mark.machine_code
def test_ten_thousand_damaged_files_are_refused():
    first, second = two_files()
    said = refuse_damage(first, second, count=5000, seed=1) + refuse_damage(second, first, count=5000, seed=2)
    assert set(said) == {
        "it is no plan file",
        "the plan file is cut short",
        "the plan file is longer than it was",
        "the plan file is damaged",
        "the plan file was written by another version of Lamina",
    }


@pytest.mark.machine_code
def test_what_is_wrong_with_a_file_is_said_with_its_name(tmp_path):
    data = lm.plans.dumps(lm.jit(lambda x: x + 1).trace(lnp.ones(3)))
    other = bytearray(data)
    other[8:12] = (99).to_bytes(4, "little")  # the format
    for name, content, says in (
        ("empty", b"", "it is no plan file"),
        ("text", b"computation main() {}", "it is no plan file"),
        ("cut", data[:-1], "cut short: it has"),
        ("header", data[:20], "not even a header"),
        ("version", bytes(other), r"its format is 99, this version reads \d+; save the program again"),
        ("damaged", data[:-1] + bytes([data[-1] ^ 1]), "its checksum is not that of its contents"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ValueError, match=says) as e:
            lm.plans.load(path)
        assert str(e.value).startswith(str(path))
    with pytest.raises(FileNotFoundError):
        lm.plans.load(tmp_path / "none")
    with pytest.raises(TypeError, match="bytes, not str"):
        lm.plans.loads("text")


@pytest.mark.machine_code
def test_the_stages_of_a_file_are_those_of_the_program_that_runs(lamina_opt, tmp_path):
    scale = lnp.array([1.0, 2.0, 3.0])
    path = tmp_path / "stages.plan"
    lm.jit(lambda w, x: lnp.sum(lnp.tanh(x @ w) * scale, axis=0)).lower(
        lnp.ones((4, 3)), lnp.ones((6, 4))
    ).compile().save(path)

    def shown(*options: str, of: Path = path) -> str:
        done = subprocess.run([lamina_opt, *options, str(of)], capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else done.stderr

    plan = lm.plans.load(path)
    assert shown("--stage=file") == plan.summary()
    for stage in ("steps", "plan", "kernels"):
        assert shown(f"--stage={stage}") == plan.as_text(stage)
    assert "define i32 @lamina_kernel" in shown("--stage=ir")
    assert "lamina_kernel:" in shown("--stage=assembly")
    program = tmp_path / "program.hlo"
    program.write_text(shown())  # as one that was in no file, and so without machine code
    assert "tanh" in program.read_text()
    assert shown("--stage=plan", of=program) == plan.as_text("plan").replace("compiled", "interpreted")
    assert "tanh" in shown("--passes=simplify", "--stablehlo")
    broken = tmp_path / "broken.plan"
    broken.write_bytes(path.read_bytes()[:-1])
    assert "broken.plan: the plan file is cut short" in shown("--stage=steps", of=broken)
    assert "program.hlo: it is no plan file" in shown("--stage=file", of=program)


@pytest.mark.machine_code
def test_a_file_that_fits_says_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loaded(lambda x: x + 1, lnp.ones(3)).slow == ""
