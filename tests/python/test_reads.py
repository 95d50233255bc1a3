"""What a jitted function reads of objects, containers and numbers besides its arguments: seen again at each call."""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
import sys
import types

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import reads_support as rs
from reads_support import Hyper, Layer, X, restored_settings, traces  # noqa: F401 (a fixture)


def misses():
    return lm.cache.stats()["misses"]


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


class Inherited(Trainer):
    @lm.jit
    def twice(self, x):
        return super().scale(x) * 2.0


def check(call, plain, changes, retraces=0):
    """After each change the jitted result is that of plain code; numbers compile nothing."""
    jitted = getattr(call, "__func__", call)
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


def test_arrays_that_were_one_value_part():
    """A copy is the same value until one of the two is written to; a program must not take one for the other."""
    a = lnp.array([1.0, 2.0, 3.0])
    b, c = a.copy(), a + 0
    holder = {"a": a, "b": b, "c": c}

    @lm.jit
    def inner():
        return holder["a"] * 2 + holder["b"] * 3

    outer = lm.jit(lambda: inner() + holder["c"] + holder["b"])
    want = lambda: 2 * a.numpy() + 4 * b.numpy() + c.numpy()  # noqa: E731
    for change in (None, (a, 10.0), (b, 100.0), (c, 1000.0)):
        if change is not None:
            change[0][0] = change[1]
        np.testing.assert_array_equal(inner(), 2 * a.numpy() + 3 * b.numpy())
        np.testing.assert_array_equal(outer(), want())
    holder["b"] = holder["a"]
    np.testing.assert_array_equal(inner(), 5 * a.numpy())
    holder["b"] = b
    np.testing.assert_array_equal(outer(), want())

    @lm.jit
    def decided():
        return a * 2 if a.sum() > b.sum() else b * 3

    b[...] = a
    np.testing.assert_array_equal(decided(), b.numpy() * 3)
    a[1] = 50.0
    np.testing.assert_array_equal(decided(), a.numpy() * 2)
