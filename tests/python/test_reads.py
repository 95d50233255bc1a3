"""What a jitted function reads besides its arguments: seen again at each call, and never touched."""

from __future__ import annotations

import argparse
import collections
import contextlib
import dataclasses
import datetime
import enum
import functools
import gc
import json
import math
import pathlib
import sys
import threading
import time
import types
import weakref

import lamina as lm
import lamina.lax as lax
import lamina.numpy as lnp
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import reads_support as rs


def traces(f):
    return sum(v.paths for variants in f._entries.values() for v in variants)


def misses():
    return lm.cache.stats()["misses"]


@pytest.fixture(autouse=True)
def _restore():
    kept = {k: v for k, v in vars(rs).items() if k.isupper()}
    yield
    for k, v in kept.items():
        setattr(rs, k, v)


X = lnp.array([1.0, 2.0])


class Trainer:
    kind = "sgd"
    decay = 0.5

    def __init__(self):
        self.lr = 0.1
        self.mode = "train"
        self.cfg = {"lr": 2.0, "opt": types.SimpleNamespace(lr=3.0, name="adam"), "sizes": [1.0, 2.0]}
        self.w = lnp.array([1.0, 1.0])
        self.layers = [Layer(2.0), Layer(3.0)]
        self.history = []

    @property
    def rate(self):
        return self.lr * 10.0

    def scale(self, x):
        return x * self.lr

    @lm.jit
    def by_rate(self, x):
        return x * self.lr

    @lm.jit
    def by_property(self, x):
        return x * self.rate

    @lm.jit
    def by_item(self, x):
        return x * self.cfg["lr"]

    @lm.jit
    def by_nested(self, x):
        return x * self.cfg["opt"].lr

    @lm.jit
    def by_method(self, x):
        return self.scale(x)

    @lm.jit
    def by_class(self, x):
        return x * self.decay

    @lm.jit
    def by_tensor(self, x):
        return x * self.w

    @lm.jit
    def by_mode(self, x):
        return x * 2.0 if self.mode == "train" else x * 3.0

    @lm.jit
    def by_layers(self, x):
        for layer in self.layers:
            x = layer(x)
        return x

    @lm.jit
    def by_local_names(self, x):
        cfg = self.cfg
        opt = cfg["opt"]
        return x * opt.lr * cfg.get("lr") + cfg.get("missing", 0.0)

    @lm.jit
    def by_sizes(self, x):
        for s in self.cfg["sizes"]:
            x = x * s
        return x * len(self.cfg["sizes"])


class Layer:
    __slots__ = ("__weakref__", "gain")

    def __init__(self, gain):
        self.gain = gain

    def __call__(self, x):
        return x * self.gain


class Inherited(Trainer):
    @lm.jit
    def twice(self, x):
        return super().scale(x) * 2.0


def check(call, plain, changes, retraces=0):
    """After each change the jitted result is that of plain code; numbers compile nothing."""
    jitted = getattr(call, "func", call)
    jitted = getattr(jitted, "__self__", jitted)
    got = call(X)
    np.testing.assert_array_equal(got.numpy(), plain(X).numpy())
    count, before = traces(jitted), misses()
    for change in changes:
        change()
        np.testing.assert_array_equal(call(X).numpy(), plain(X).numpy())
        np.testing.assert_array_equal(call(X).numpy(), plain(X).numpy())
    assert traces(jitted) == count + retraces
    if not retraces:
        assert misses() - before <= len(changes)  # of the plain code, at most


def plain_of(t, name):
    return functools.partial(vars(Trainer)[name].__wrapped__, t)


def set_(o, name, value):
    return lambda: setattr(o, name, value)


def put(o, key, value):
    return lambda: o.__setitem__(key, value)


def test_attributes_of_self():
    t = Trainer()
    Trainer.by_rate.clear_cache()
    check(t.by_rate, plain_of(t, "by_rate"), [set_(t, "lr", v) for v in (0.2, 0.3, -1.0)])
    assert type(t.lr) is float and t.lr == -1.0


def test_a_number_of_a_changed_attribute_compiles_nothing():
    t = Trainer()
    Trainer.by_rate.clear_cache()
    t.by_rate(X)
    before = misses()
    for _ in range(5):
        t.lr *= 0.9
        np.testing.assert_array_equal(t.by_rate(X).numpy(), np.float32([1, 2]) * np.float32(t.lr))
    assert misses() == before and traces(Trainer.by_rate) == 1


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("by_property", lambda t: setattr(t, "lr", 7.0)),
        ("by_item", lambda t: t.cfg.update(lr=7.0)),
        ("by_nested", lambda t: setattr(t.cfg["opt"], "lr", 7.0)),
        ("by_nested", lambda t: t.cfg.update(opt=types.SimpleNamespace(lr=8.0, name="adam"))),
        ("by_nested", lambda t: setattr(t, "cfg", {"opt": types.SimpleNamespace(lr=9.0), "lr": 1.0})),
        ("by_method", lambda t: setattr(t, "lr", 7.0)),
        ("by_class", lambda t: setattr(t, "decay", 7.0)),
        ("by_tensor", lambda t: setattr(t, "w", lnp.array([5.0, 6.0]))),
        ("by_tensor", lambda t: t.w.__setitem__(0, 9.0)),
        ("by_layers", lambda t: setattr(t.layers[1], "gain", 7.0)),
        ("by_layers", lambda t: t.layers.reverse()),
        ("by_layers", lambda t: setattr(t, "layers", [Layer(5.0), Layer(6.0)])),
        ("by_local_names", lambda t: setattr(t.cfg["opt"], "lr", 7.0)),
        ("by_local_names", lambda t: t.cfg.update(lr=7.0)),
        ("by_sizes", lambda t: t.cfg["sizes"].__setitem__(1, 7.0)),
    ],
)
def test_a_change_is_seen_without_another_trace(name, change):
    t = Trainer()
    vars(Trainer)[name].clear_cache()
    check(getattr(t, name), plain_of(t, name), [lambda: change(t)])


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("by_mode", lambda t: setattr(t, "mode", "eval")),
        ("by_layers", lambda t: t.layers.append(Layer(5.0))),
        ("by_layers", lambda t: setattr(t, "layers", [Layer(5.0)])),
        ("by_local_names", lambda t: t.cfg.update(missing=4.0)),
        ("by_sizes", lambda t: t.cfg["sizes"].append(3.0)),
        ("by_rate", lambda t: setattr(t, "lr", 3)),
        ("by_rate", lambda t: setattr(t, "lr", lnp.array(3.0))),
        ("by_tensor", lambda t: setattr(t, "w", lnp.array(5.0))),
    ],
)
def test_a_change_of_another_kind_is_one_more_trace(name, change):
    t = Trainer()
    vars(Trainer)[name].clear_cache()
    check(getattr(t, name), plain_of(t, name), [lambda: change(t)], retraces=1)


def test_toggling_a_string_or_flag_back_hits():
    t = Trainer()
    Trainer.by_mode.clear_cache()
    t.by_mode(X)
    for mode in ("eval", "train", "eval", "".join(["tr", "ain"])):
        t.mode = mode
        assert t.by_mode(X)[0].item() == (2.0 if mode == "train" else 3.0)
    assert traces(Trainer.by_mode) == 2


def test_what_is_not_read_costs_no_trace():
    t = Trainer()
    Trainer.by_rate.clear_cache()
    t.by_rate(X)
    t.history.append(1.0)
    t.mode, t.w, t.cfg, t.extra = "other", None, {}, object()
    t.by_rate(X)
    assert traces(Trainer.by_rate) == 1


def test_a_class_attribute_that_changes_or_is_hidden():
    class Model:
        gain = 2.0

        @lm.jit
        def __call__(self, x):
            return x * self.gain

    m = Model()
    assert m(1.0).item() == 2.0
    Model.gain = 3.0
    assert m(1.0).item() == 3.0
    m.gain = 4.0
    assert m(1.0).item() == 4.0
    assert traces(Model.__call__) == 1

    class Sub(Model):
        gain = 10.0

    assert Sub()(1.0).item() == 10.0


def test_two_instances_are_not_mixed_up():
    a, b = Trainer(), Trainer()
    Trainer.by_rate.clear_cache()
    b.lr = 5.0
    for _ in range(3):
        assert a.by_rate(X)[0].item() == np.float32(a.lr)
        assert b.by_rate(X)[0].item() == np.float32(b.lr)
        a.lr += 1.0
        b.lr += 2.0


def test_super_and_bound_methods_and_partials():
    t = Inherited()
    assert t.twice(X)[1].item() == np.float32(2) * np.float32(0.1) * 2
    t.lr = 5.0
    assert t.twice(X)[1].item() == 20.0
    for f in (lm.jit(t.scale), lm.jit(functools.partial(Trainer.scale, t)), lm.jit(lambda x: t.scale(x))):
        for lr in (1.0, 2.0, 4.0):
            t.lr = lr
            assert f(X)[1].item() == 2 * lr
        assert traces(f) == 1


@dataclasses.dataclass
class Hyper:
    rate: float = 0.5
    name: str = "a"
    steps: int = 2


@dataclasses.dataclass(frozen=True)
class Frozen:
    rate: float = 0.5


def test_hyperparameters_in_a_dataclass():
    hyper = Hyper()
    f = lm.jit(lambda x: x * hyper.rate)
    assert f(1.0).item() == 0.5
    hyper.rate = 0.25
    assert f(1.0).item() == 0.25
    hyper = dataclasses.replace(hyper, rate=2.0)
    assert f(1.0).item() == 2.0
    assert traces(f) == 1
    frozen = Frozen()
    g = lm.jit(lambda x: x * frozen.rate)
    assert g(1.0).item() == 0.5
    frozen = Frozen(4.0)
    assert g(1.0).item() == 4.0
    assert traces(g) == 1
    h = lm.jit(lambda x: sum([x] * hyper.steps))
    assert h(1.0).item() == 2.0
    hyper.steps = 3
    assert h(1.0).item() == 3.0
    assert traces(h) == 2


def test_a_module_of_settings_and_objects_in_globals():
    f = lm.jit(lambda x: x * rs.SETTINGS["lr"] * rs.OPTIONS.scale + rs.helper(x))
    want = lambda x: x * rs.SETTINGS["lr"] * rs.OPTIONS.scale + rs.helper(x)  # noqa: E731
    check(
        f,
        want,
        [
            put(rs.SETTINGS, "lr", 3.0),
            set_(rs.OPTIONS, "scale", 5.0),
            set_(rs, "SETTINGS", {"lr": 9.0}),
            set_(rs, "BIAS", 4.0),
        ],
    )
    rs.OPTIONS.scale = 1.0
    g = rs.jitted_step
    g.clear_cache()
    check(g, g.__wrapped__, [put(rs.SETTINGS, "lr", 4.0), set_(rs, "BIAS", 1.5)])


def test_containers_by_index_iteration_and_length():
    ends = [0.5, 2.0]
    rates, table, pair = [0.5, 2.0], {"a": 1.0, "b": 2.0}, (3.0, 4.0)
    cases = {
        "index": (lambda x: x * rates[0] + rates[-1], lambda: rates.__setitem__(0, 7.0)),
        "tuple": (lambda x: x * pair[1], None),
        "star": (lambda x: x * math.prod([*rates]), lambda: rates.__setitem__(0, 8.0)),
        "slice": (lambda x: x * sum(rates[:1]), lambda: rates.__setitem__(0, 9.0)),
        "comprehension": (lambda x: sum([x * r for r in rates]), lambda: rates.__setitem__(1, 5.0)),
        "zip": (lambda x: sum(x * r for r, _ in zip(rates, rates)), lambda: rates.__setitem__(1, 6.0)),
        "enumerate": (lambda x: sum(x * r * i for i, r in enumerate(rates)), lambda: rates.append(7.0)),
        "keys": (lambda x: x * len([k for k in table]), lambda: table.update(c=3.0)),
        "items": (lambda x: sum(x * v for _, v in table.items()), lambda: table.update(a=9.0)),
        "values": (lambda x: sum(x * v for v in table.values()), lambda: table.update(b=9.0)),
        "in": (lambda x: x * 2.0 if "z" in table else x, lambda: table.update(z=1.0)),
        "double star": (lambda x: _weighted(x, **{**table}), lambda: table.update(a=4.0)),
        "truth": (lambda x: x if table else x * 0.0, lambda: table.clear()),
        "len": (lambda x: x * len(rates), lambda: rates.append(1.0)),
        "unpack": (lambda x: _unpacked(x, ends), lambda: ends.__setitem__(1, 2.5)),
        "array": (lambda x: lnp.array(rates).sum() * x, lambda: rates.__setitem__(0, 3.5)),
        "iter": (lambda x: x * next(iter(rates)), lambda: rates.__setitem__(0, 3.25)),
        "sorted": (lambda x: x * sorted(rates)[0], lambda: rates.__setitem__(0, -3.5)),
        "plus": (lambda x: x * sum(rates + rates), lambda: rates.__setitem__(0, -4.5)),
        "equal": (lambda x: x * 2.0 if rates == [1.0] else x, lambda: rates.__setitem__(slice(None), [1.0])),
        "text": (lambda x: x * len(f"{rates}"), lambda: rates.append(123.25)),
    }
    for name, (f, change) in cases.items():
        jitted = lm.jit(f)
        for _ in range(2):
            for _ in range(2):
                np.testing.assert_array_equal(jitted(X).numpy(), f(X).numpy(), err_msg=name)
            if change is not None:
                change()
        assert traces(jitted) <= 2, name


def _weighted(x, a, b=1.0, **rest):
    return x * a * b


def _unpacked(x, pair):
    first, second = pair
    return x * first - second


def test_python_arithmetic_on_numbers_stays_a_parameter():
    t = types.SimpleNamespace(lr=0.1, epoch=3, total=10)
    uses = [
        lambda x: x * (t.lr * 0.5),
        lambda x: x * (1.0 - t.lr) ** 2,
        lambda x: x * (t.lr * 0.9**t.epoch),
        lambda x: x * math.sqrt(t.lr),
        lambda x: x * float(t.epoch) / t.total,
        lambda x: x * (0.5 * (1 + math.cos(math.pi * t.epoch / t.total))),
        lambda x: x * max(t.lr, 1e-3),
        lambda x: x * (2.0 if t.epoch < 100 else 3.0),
    ]
    for f in uses:
        t.lr, t.epoch = 0.1, 3
        jitted = lm.jit(f)
        jitted(X)
        before = misses()
        outs = []
        for i in range(4):
            t.lr, t.epoch = 0.1 * 0.7**i, i + 1
            outs.append(jitted(X))
        assert misses() == before and traces(jitted) == 1
        for i, out in enumerate(outs):
            t.lr, t.epoch = 0.1 * 0.7**i, i + 1
            np.testing.assert_array_equal(out.numpy(), f(X).numpy())


def test_a_branch_on_a_number_traces_once_per_outcome():
    t = types.SimpleNamespace(step=0)
    f = lm.jit(lambda x: x * 2.0 if t.step % 3 == 0 else x)
    for t.step in range(9):
        assert f(1.0).item() == (2.0 if t.step % 3 == 0 else 1.0)
    assert traces(f) == 2


def test_values_that_python_takes_of_a_tensor_are_guarded():
    t = types.SimpleNamespace(w=lnp.array([1.0, 2.0]), n=2)
    uses = [
        lambda x: x * t.w if t.w.sum() > 0 else x - t.w,
        lambda x: x * t.w * float(t.w[0]),
        lambda x: x * t.w * np.asarray(t.w)[1],
        lambda x: x * t.w * t.w.tolist()[0],
        lambda x: x * t.w * len(f"{t.w}"),
        lambda x: x * lnp.array(t.n) * (2.0 if lnp.array(t.n) > 5 else 1.0),
    ]
    for f in uses:
        t.w, t.n = lnp.array([1.0, 2.0]), 2
        jitted = lm.jit(f)
        for change in (
            lambda: None,
            lambda: setattr(t, "w", lnp.array([-3.5, 0.5])),
            lambda: t.w.__setitem__(0, 7.25),
            lambda: setattr(t, "n", 8),
        ):
            change()
            np.testing.assert_array_equal(jitted(X).numpy(), f(X).numpy())


def test_helpers_reached_in_every_way():
    t = types.SimpleNamespace(a=2.0)

    def helper(x):
        return x * t.a

    class Callable:
        def __call__(self, x):
            return helper(x)

        @staticmethod
        def still(x):
            return helper(x)

        @classmethod
        def of_class(cls, x):
            return helper(x)

        def __getitem__(self, x):
            return helper(x)

        def __len__(self):
            return int(t.a)

    @functools.wraps(helper)
    def wrapped(*args):
        return helper(*args)

    @contextlib.contextmanager
    def scope():
        yield t.a

    def gen(n):
        for _ in range(n):
            yield t.a

    def under_scope(x):
        with scope() as a:
            return x * a

    def with_default(x, h=helper):
        return h(x)

    def recursive(x, n=2):
        return x * t.a if n == 0 else recursive(x, n - 1)

    table = {"f": helper}
    obj = Callable()
    g = lm.grad(lambda x: (x * t.a).sum())
    inner = lm.jit(helper)
    vmapped = lm.vmap(helper)
    partial = functools.partial(helper)
    uses = {
        "object": lambda x: obj(x),
        "static": lambda x: obj.still(x),
        "class": lambda x: Callable.of_class(x),
        "getitem": lambda x: obj[x],
        "len": lambda x: x * len(obj),
        "made inside": lambda x: Callable()(x),
        "wrapped": lambda x: wrapped(x),
        "context": under_scope,
        "generator": lambda x: sum(x * a for a in gen(2)),
        "map": lambda x: sum(map(helper, [x, x])),
        "reduce": lambda x: functools.reduce(lambda a, b: a + helper(b), [x, x], x),
        "default": with_default,
        "recursive": recursive,
        "dispatch": lambda x: table["f"](x),
        "dispatch get": lambda x: table.get("f")(x),
        "grad": lambda x: g(x),
        "grad inside": lambda x: lm.grad(lambda y: helper(y).sum())(x),
        "jit": lambda x: inner(x),
        "jit inside": lambda x: lm.jit(helper)(x),
        "vmap": lambda x: vmapped(x),
        "vmap inside": lambda x: lm.vmap(helper)(x),
        "partial": lambda x: partial(x),
        "scan": lambda x: lax.scan(lambda c, _: (helper(c), None), x, None, length=2)[0],
        "fori": lambda x: lax.fori_loop(0, 2, lambda i, c: helper(c), x),
        "cond": lambda x: lax.cond(x.sum() > 0, helper, lambda y: y, x),
        "tree": lambda x: lm.tree.map(helper, {"a": x})["a"],
        "nested def": lambda x: (lambda y: (lambda z: helper(z))(y))(x),
        "checkpoint": lambda x: lm.checkpoint(helper)(x),
        "getattr": lambda x: x * getattr(t, "a"),  # noqa: B009
        "getattr default": lambda x: x * getattr(t, "none", t.a),
        "vars": lambda x: x * vars(t)["a"],
    }
    for name, f in uses.items():
        t.a = 2.0
        jitted = lm.jit(f)
        want = lm.jit(lambda x: x)
        for a in (2.0, 3.0, 5.0):
            t.a = a
            np.testing.assert_array_equal(jitted(X).numpy(), np.asarray(f(X)), err_msg=name)
        assert want(1.0).item() == 1.0


def test_custom_rules_and_inner_jits_see_changes():
    t = types.SimpleNamespace(a=2.0, mode="x")

    @lm.custom_jvp
    def f(x):
        return x * t.a

    @f.defjvp
    def _(primals, tangents):
        return f(primals[0]), tangents[0] * t.a * 10.0

    g = lm.jit(lm.grad(f))
    for a in (2.0, 3.0):
        t.a = a
        assert g(1.0).item() == a * 10.0
    inner = lm.jit(lambda x: x * (t.a * 2.0) if t.mode == "x" else -x)
    outer = lm.jit(lambda x: inner(x) + t.a)
    for a in (2.0, 3.0, 4.0):
        t.a = a
        assert outer(1.0).item() == 3 * a
    assert traces(outer) == 1
    t.mode = "y"
    assert outer(1.0).item() == t.a - 1.0
    t.mode = "x"
    assert outer(1.0).item() == 3 * t.a
    assert traces(outer) == 2


def test_numpy_arrays_enums_namespaces_and_namedtuples():
    class Mode(enum.Enum):
        A = 1
        B = 2

    Point = collections.namedtuple("Point", "x y")
    t = argparse.Namespace(
        a=np.array([1.0, 2.0], np.float32), mode=Mode.A, p=Point(1.0, 2.0), s=np.float32(2)
    )
    f = lm.jit(lambda x: x * t.a)
    assert f(X).tolist() == [1.0, 4.0]
    t.a[0] = 5.0
    assert f(X).tolist() == [5.0, 4.0]
    t.a = np.array([0.0, 0.0], np.float32)
    assert f(X).tolist() == [0.0, 0.0]
    g = lm.jit(lambda x: x * 2.0 if t.mode is Mode.A else x)
    assert g(1.0).item() == 2.0
    t.mode = Mode.B
    assert g(1.0).item() == 1.0
    h = lm.jit(lambda x: x * t.p.x + t.p[1])
    assert h(1.0).item() == 3.0
    t.p = Point(5.0, 6.0)
    assert h(1.0).item() == 11.0
    assert traces(h) == 1
    k = lm.jit(lambda x: x * t.s)
    assert k(1.0).item() == 2.0
    t.s = np.float32(3)
    assert k(1.0).item() == 3.0


def test_a_counter_in_a_closure():
    def make():
        count = 0

        @lm.jit
        def step(x):
            nonlocal count
            count += 1
            return x * count

        return step, lambda: count

    step, count = make()
    assert [step(1.0).item() for _ in range(4)] == [1.0, 2.0, 3.0, 4.0]
    assert count() == 4 and type(count()) is int


def test_writes_inside_reach_the_real_globals_and_objects():
    rs.COUNT, rs.SEEN = 0, []
    f = lm.jit(rs.counting)
    assert f(1.0).item() == 1.0
    assert rs.COUNT == 1 and rs.SEEN == [rs.BIAS] and type(rs.SEEN[0]) is float
    t = types.SimpleNamespace(lr=0.5, last=None, table={})

    def keeps(x):
        t.last = t.lr
        t.table["lr"] = t.lr
        t.table["all"] = [t.lr, {"deep": t.lr}]
        return x * t.lr

    lm.jit(keeps)(1.0)
    assert type(t.last) is float and json.loads(json.dumps(t.table)) == {
        "lr": 0.5,
        "all": [0.5, {"deep": 0.5}],
    }


def test_numbers_go_to_other_code_as_numbers():
    t = types.SimpleNamespace(lr=0.5, n=3)

    def f(x):
        text = json.dumps({"lr": t.lr, "n": [t.n]})
        assert type(t.lr) is float and isinstance(t.n, int)
        held = np.float64(t.lr)
        return x * len(text) * held

    g = lm.jit(f)
    for lr in (0.5, 0.125):
        t.lr = lr
        assert g(1.0).item() == len(json.dumps({"lr": lr, "n": [3]})) * lr


def test_another_thread_sees_plain_numbers_only():
    t = types.SimpleNamespace(lr=0.5)
    seen, stop = set(), threading.Event()

    def watch():
        while not stop.is_set():
            seen.add(type(t.lr))
            seen.add(type(rs.BIAS))

    other = threading.Thread(target=watch)
    other.start()
    try:
        for _ in range(20):
            lm.jit(lambda x: (x * t.lr + rs.BIAS).sum())(X)
    finally:
        stop.set()
        other.join()
    assert seen == {float}


def test_threads_trace_at_the_same_time():
    t = types.SimpleNamespace(lr=0.5)
    inside = threading.Barrier(2, timeout=20)

    def f(x):
        inside.wait()
        return x * t.lr

    out = []
    threads = [threading.Thread(target=lambda: out.append(lm.jit(f)(2.0).item())) for _ in range(2)]
    for th in threads:
        th.start()
    for th in threads:
        th.join()
    assert out == [1.0, 1.0]


def test_an_error_in_a_trace_leaves_everything_as_before():
    t = types.SimpleNamespace(lr=0.5, fail=True)

    @lm.jit
    def f(x):
        y = x * t.lr
        if t.fail:
            raise LookupError(t.lr)
        return y

    with pytest.raises(LookupError) as e:
        f(2.0)
    assert type(e.value.args[0]) is float
    assert vars(t) == {"lr": 0.5, "fail": True} and type(t.lr) is float
    assert traces(f) == 0
    t.fail = False
    assert f(2.0).item() == 1.0


def test_functions_keep_their_identity():
    def helper(x):
        return x * 2.0

    names = {helper: "helper"}

    @lm.jit
    def f(x):
        return helper(x) if names[helper] == "helper" and helper.__name__ == "helper" else -x

    assert f(1.0).item() == 2.0


def test_objects_are_not_kept_alive():
    class Model:
        def __init__(self):
            self.w = lnp.ones(2)
            self.child = types.SimpleNamespace(a=2.0, cfg={"b": 3.0})
            self.me = self

        @lm.jit
        def __call__(self, x):
            return x * self.w * self.child.a * self.child.cfg["b"] * self.me.child.a

    m = Model()
    assert m(1.0)[0].item() == 12.0
    gone = weakref.ref(m)
    del m
    gc.collect()
    assert gone() is None


def test_a_fresh_closure_of_the_same_numbers_is_right():
    def make(rate):
        return lm.jit(lambda x: x * rate)

    assert [make(r)(1.0).item() for r in (1.0, 2.0, 3.0)] == [1.0, 2.0, 3.0]


def test_private_names_and_slots():
    class Private:
        __slots__ = ("__rate", "n")

        def __init__(self):
            self.__rate, self.n = 2.0, 1.0

        def set(self, rate):
            self.__rate = rate

        @lm.jit
        def f(self, x):
            return x * self.__rate * self.n

    p = Private()
    assert p.f(1.0).item() == 2.0
    p.set(3.0)
    assert p.f(1.0).item() == 3.0
    p.n = 2.0
    assert p.f(1.0).item() == 6.0
    assert traces(Private.f) == 1


def test_code_without_source_is_observed_by_its_names():
    names = {"lnp": lnp, "T": types.SimpleNamespace(a=2.0), "R": 3.0, "D": {"k": 1.0}}
    exec("def f(x):\n    return x * T.a * R + D['k']\n", names)
    f = lm.jit(names["f"])
    assert f(1.0).item() == 7.0
    names["R"] = 4.0
    assert f(1.0).item() == 9.0
    names["T"].a = 1.0
    assert f(1.0).item() == 5.0
    names["D"]["k"] = 2.0
    assert f(1.0).item() == 6.0
    assert type(names["R"]) is float


class Noisy:
    def __init__(self):
        self.last, self.log = 0.0, []
        self.rng = np.random.default_rng(0)


def test_checks_name_what_is_not_seen():
    n = Noisy()

    @lm.jit
    def writes(x):
        n.last = 3.0
        return x

    @lm.jit
    def appends(x):
        n.log.append(1.0)
        return x

    @lm.jit
    def draws(x):
        return x * n.rng.normal()

    @lm.jit
    def asks_the_time(x):
        return x * time.time()

    here = "test_reads.py"
    cases = [
        (writes, r"writes writes `n\.last` only when it is traced"),
        (appends, r"`n\.log\.append"),
        (draws, r"calls `.*normal` only when it is traced"),
        (asks_the_time, r"calls `time` only"),
    ]
    for f, text in cases:
        f(X)
        with lm.checks(), pytest.raises(RuntimeError, match=rf"(?s){text}.*{here}:\d+"):
            f(X)
        with lm.checks(reads="warn"), pytest.warns(UserWarning, match=text):
            f(X)
        with lm.checks(reads="off"):
            f(X)
    with pytest.raises(ValueError, match="'off', 'warn' or 'raise'"), lm.checks(reads="yes"):
        pass
    now = lm.jit(lambda x: x * datetime.datetime.now().year)
    now(X)
    with lm.checks(), pytest.raises(RuntimeError, match=r"calls `datetime\.now`"):
        now(X)
    quiet = lm.jit(lambda x: x * n.last)
    with lm.checks():
        quiet(X)
        n.last = 4.0
        assert quiet(X)[0].item() == 4.0


def test_containers_and_objects_that_are_replaced_alike_trace_once():
    class Net:
        def __init__(self, k):
            self.params = {"w": lnp.array([k, 1.0]), "b": [lnp.array(k), k]}
            self.layers = (Layer(k), Layer(k + 1.0))
            self.opt = Hyper(rate=k)

        def loss(self, params, x):
            total = (params["w"] * x).sum() ** 2 * params["b"][0]
            for layer in self.layers:
                total = layer(total)
            return total * self.opt.rate

        @lm.jit
        def grad(self, x):
            return lm.grad(self.loss)(self.params, x)["w"]

        @lm.jit
        def value(self, x):
            params = self.params
            return self.loss(params, x)

    net = Net(1.0)
    for k in (1.0, 2.0, 3.0):
        other = Net(k)
        net.params = {"w": other.params["w"], "b": [other.params["b"][0], 1.0]}
        net.layers, net.opt = other.layers, other.opt
        want = lm.grad(net.loss)(net.params, X)["w"]
        np.testing.assert_array_equal(net.grad(X).numpy(), want.numpy())
        np.testing.assert_array_equal(net.value(X).numpy(), net.loss(net.params, X).numpy())
    assert traces(Net.grad) == traces(Net.value) == 1


def test_which_object_it_is_matters_where_it_is_asked():
    first, second = Hyper(1.0), Hyper(1.0)
    t = types.SimpleNamespace(opt=first)
    table = {id(first): 2.0, id(second): 3.0}
    for f in (
        lambda x: x * 2.0 if t.opt is first else x * 3.0,
        lambda x: x * table[id(t.opt)],
        lambda x: x * (2.0 if [t.opt].index(t.opt) == 0 and t.opt is first else 3.0),
    ):
        jitted = lm.jit(f)
        for t.opt in (first, second, first):
            assert jitted(1.0).item() == (2.0 if t.opt is first else 3.0)


def test_functions_and_jitted_functions_that_are_replaced():
    t = types.SimpleNamespace(act=lambda x: x * 2.0, inner=lm.jit(lambda x: x + 1.0))
    f = lm.jit(lambda x: t.act(t.inner(x)))
    assert f(1.0).item() == 4.0
    t.act = lambda x: x * 3.0
    assert f(1.0).item() == 6.0
    t.inner = lm.jit(lambda x: x + 2.0)
    assert f(1.0).item() == 9.0
    t.act = functools.partial(lambda a, x: x * a, 5.0)
    assert f(1.0).item() == 15.0
    t.act = functools.partial(lambda a, x: x * a, 6.0)
    assert f(1.0).item() == 18.0
