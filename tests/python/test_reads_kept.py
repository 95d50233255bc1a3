"""Tracing what a jitted function reads touches nothing: threads, errors, identity, lifetimes; and what is not seen."""

from __future__ import annotations

import datetime
import functools
import gc
import itertools
import pathlib
import sys
import threading
import time
import types
import weakref

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import reads_support as rs
from reads_support import Hyper, Layer, X, restored_settings, traces  # noqa: F401 (a fixture)


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

    given = itertools.count(1.0)

    @lm.jit
    def takes_the_next(x):
        return x * next(given)

    @lm.jit
    def loops_over_what_is_left(x):
        for value in given:
            return x * value

    @lm.jit
    def makes_its_own(x):
        own = iter([1.0, 2.0])
        return x * next(own) + sum(v for v in own)

    here = "test_reads_kept.py"
    cases = [
        (takes_the_next, "takes elements of `given` only when it is traced"),
        (loops_over_what_is_left, "takes elements of `given` only when it is traced"),
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
    makes_its_own(X)
    with lm.checks():
        makes_its_own(X)
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


def test_methods_that_lie_anywhere_are_traced_once():
    class Model:
        scale = 2.0

        def __init__(self):
            self.shift = 1.0

        def apply(self, x):
            return x * self.scale + self.shift

        @classmethod
        def doubled(cls, x):
            return x * cls.scale

        @lm.jit
        def jitted(self, x):
            return x * 3

    model, other = Model(), Model()
    free, bound = model.apply, model.jitted
    model.stored, other.others, listed, held = model.apply, model.apply, [model.apply], {"f": model.apply}
    ways = {
        "a free variable": lambda x: free(x),
        "its own": lambda x: model.apply(x),
        "of the class": lambda x: model.doubled(x),
        "stored": lambda x: model.stored(x),
        "stored elsewhere": lambda x: other.others(x),
        "in a list": lambda x: listed[0](x),
        "in a dict": lambda x: held["f"](x),
        "jitted": lambda x: bound(x),
    }
    for name, f in ways.items():
        traces = []

        def counted(x, f=f, traces=traces):
            traces.append(1)
            return f(x)

        jitted = lm.jit(counted)
        before = [jitted(3.0).item() for _ in range(3)]
        model.shift = 5.0
        after = jitted(3.0).item()
        model.shift = 1.0
        assert len(traces) == 1, name
        assert (before, after) == ([float(f(3.0))] * 3, before[0] + (4.0 if before[0] == 7.0 else 0.0)), name
    free = other.apply
    other.shift = 2.0
    again = lm.jit(ways["a free variable"])
    assert again(3.0).item() == 8.0
    free = model.apply
    assert again(3.0).item() == 7.0


def test_what_frames_say_is_of_one_call():
    traces = []

    @lm.jit
    def f(x):
        traces.append(1)
        trail, frame = None, sys._getframe()
        while frame is not None:
            trail = types.TracebackType(trail, frame, frame.f_lasti, frame.f_lineno)
            frame = frame.f_back
        return x * 2

    assert [f(1.0).item(), f(2.0).item()] == [2.0, 4.0]
    assert lm.jit(lambda x: f(x))(3.0).item() == 6.0 and f(4.0).item() == 8.0
    assert len(traces) == 1


class Table:
    def __init__(self, keys, functions):
        self.functions = {id(k): f for k, f in zip(keys, functions)}

    def __contains__(self, key):
        return id(key) in self.functions

    def get(self, key, other):
        return self.functions.get(id(key), other)


def unchanged(x):
    return x


def replaced(tree, new):
    table = Table(list(tree.values()), [lambda _, r=r: r for r in new])
    return lm.tree.tree_map(lambda x: table.get(x, unchanged)(x), tree, is_leaf=lambda x: x in table)


def test_functions_made_in_the_trace_are_not_asked_for_after_it():
    traces, model = [], types.SimpleNamespace(by=2.0)

    @lm.jit
    def f(x):
        traces.append(1)
        return model.by * replaced({"a": x, "b": x * 2}, [x + 1, x + 2])["b"]

    assert [f(1.0).item() for _ in range(3)] == [6.0] * 3 and len(traces) == 1
    model.by = 3.0
    assert f(1.0).item() == 9.0
