"""Calls that a finished trace serves without Python code of the library in between, and what keeps a call from it."""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import inspect
import math
import signal
import threading
import weakref

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

RATE = 0.5
Pair = collections.namedtuple("Pair", ["a", "b"])


def tensor(*values):
    return lnp.array(np.array(values, np.float32))


def direct(f, call):
    """What the call gives, and whether it was served directly."""
    before = f.direct_hits
    out = call()
    return out, f.direct_hits > before


def traces(f):
    return sum(v.paths for variants in f._entries.values() for v in variants)


def test_the_second_call_of_tensors_numbers_and_arrays_is_direct():
    f = lm.jit(lambda x, y: x * y + 1)
    x = tensor(1, 2)
    for y in (tensor(3, 4), 2.0, 3, True, np.float32(2), np.float64(2), np.array([1, 2], np.int32), 2j):
        expected, first = direct(f, lambda y=y: f(x, y))
        again, second = direct(f, lambda y=y: f(x, y))
        assert (first, second) == (False, True), type(y)
        assert again.dtype == expected.dtype and again.weak_type == expected.weak_type
        np.testing.assert_array_equal(again.numpy(), expected.numpy())
    assert f(x, 7.0).tolist() == [8, 15]
    assert f(x, -3).tolist() == [-2, -5]
    before = lm.cache.stats()["direct_calls"]
    f(x, 7.0)
    assert lm.cache.stats()["direct_calls"] == before + 1
    assert f.hits >= f.direct_hits > 8


def test_numbers_keep_their_bits_and_their_type():
    f = lm.jit(lambda x, y: (x / y, y))
    x = tensor(1.0)
    for y in (0.1, 0.0, -0.0, math.inf, math.nan, 1e300, 3, 2**31, 2**40, -(2**31), True):
        for _ in range(2):
            quotient, back = f(x, y)
            plain = x / y
            np.testing.assert_array_equal(quotient.numpy(), plain.numpy())
            assert math.copysign(1, quotient.item()) == math.copysign(1, plain.item()) or math.isnan(y)
            assert back.dtype == lnp.asarray(y).dtype
    doubled = lm.jit(lambda y: lnp.zeros(1, "float64") + y)
    assert doubled(0.1).item() == doubled(0.1).item() == 0.1


def test_keywords_in_any_order_are_direct_and_apart_from_positions():
    f = lm.jit(lambda a, b=0.0, c=0.0: a + 2 * b + 3 * c)
    x, y, z = tensor(1), tensor(10), tensor(100)
    assert f(x, b=y, c=z).item() == 321
    assert direct(f, lambda: f(x, c=z, b=y).item()) == (321, True)
    assert direct(f, lambda: f(x, **{"".join("b"): y, "".join("c"): z}).item()) == (321, True)
    assert direct(f, lambda: f(x, y, z).item()) == (321, False)
    assert direct(f, lambda: f(x, c=z).item()) == (301, False)
    with pytest.raises(TypeError):
        f(x, d=z)


def test_containers_are_direct_in_any_order_of_insertion():
    f = lm.jit(lambda t: {"sum": t["a"][0] + t["b"].a, "rest": [t["b"].b, None, (t["a"][1],)], "tag": "name"})
    one, two, three = (tensor(float(i)) for i in (1, 2, 3))
    t = {"a": [one, two], "b": Pair(three, 4.0)}
    for given, served in ((t, False), (t, True), ({"b": Pair(three, 4.0), "a": [one, two]}, True)):
        out, was = direct(f, lambda given=given: f(given))
        assert was is served
        assert list(out) == ["rest", "sum", "tag"] and out["tag"] == "name"
        assert out["sum"].item() == 4 and out["rest"][0].item() == 4 and out["rest"][2][0].item() == 2
        assert type(out["rest"]) is list and type(out["rest"][2]) is tuple and out["rest"][1] is None
    pair = lm.jit(lambda p: Pair(p.b, p.a))
    for served in (False, True):
        out, was = direct(pair, lambda: pair(Pair(one, two)))
        assert was is served and type(out) is Pair and (out.a.item(), out.b.item()) == (2, 1)
    assert direct(pair, lambda: pair(Pair(one, 2.0)).a.item()) == (2, False)


def test_other_containers_are_not_taken_for_those_they_are_like():
    class MyDict(dict):
        pass

    f = lm.jit(lambda t: t["x"] + t["y"])
    x, y = tensor(1), tensor(2)
    assert f({"x": x, "y": y}).item() == f({"x": x, "y": y}).item() == 3
    with pytest.raises(TypeError, match="not an array"):
        f(MyDict(x=x, y=y))
    ordered = collections.OrderedDict(y=y, x=x)
    assert [direct(f, lambda: f(ordered).item()) for _ in range(2)] == [(3, False)] * 2
    assert direct(f, lambda: f({"x": x, "y": y}).item()) == (3, True)
    g = lm.jit(lambda t: t[0] - t[1])
    assert g([x, y]).item() == g([x, y]).item() == -1
    assert direct(g, lambda: g((x, y)).item()) == (-1, False)
    assert direct(g, lambda: g(Pair(x, y)).item()) == (-1, False)
    with pytest.raises(TypeError, match="not an array"):
        g(["x", y])
    with pytest.raises(IndexError):
        g([x])


def test_a_named_tuple_that_becomes_a_container_of_its_own_is_flattened_its_way():
    class Odd(collections.namedtuple("Odd", ["a", "b"])):
        pass

    f = lm.jit(lambda t: (t, t.a - t.b))
    x, y = tensor(1), tensor(5)
    f(Odd(x, y))
    assert direct(f, lambda: f(Odd(x, y))[1].item()) == (-4, True)
    lm.tree.register(Odd, lambda t: ([t.b, t.a], "odd"), lambda _, c: Odd(c[1], c[0]))
    for _ in range(2):
        out, was = direct(f, lambda: f(Odd(x, y)))
        assert not was and out[1].item() == -4 and out[0].a.item() == 1 and type(out[0]) is Odd


def test_shapes_types_and_weakness_choose_the_program():
    f = lm.jit(lambda x: x + 1)
    inputs = [
        tensor(1, 2),
        tensor(1, 2, 3),
        lnp.array([1, 2], dtype="int32"),
        lnp.array([1, 2], dtype="float64"),
        lnp.asarray(2.0),
        lnp.array(2.0, dtype="float32"),
        lnp.array([True, False]),
    ]
    for _ in range(2):
        for x in inputs:
            out = f(x)
            assert out.dtype == (x + 1).dtype and out.shape == x.shape
            assert out.weak_type == (x + 1).weak_type
    assert traces(f) == len(inputs)
    assert all(direct(f, lambda x=x: f(x))[1] for x in inputs)


def test_static_values_are_told_apart_by_type_and_bits():
    f = functools.partial(lm.jit, static_argnums=1, static_argnames="k")(lambda x, n, k=None: x * n)
    x = lnp.array([1, 2], dtype="int32")
    for n in (1, 1.0, True, 0.0, -0.0, math.nan, (1, 2.0)[0:1] and 3):
        for served in (False, True):
            out, was = direct(f, lambda n=n: f(x, n))
            plain = x * n
            assert was is served, n
            assert out.dtype == plain.dtype
            np.testing.assert_array_equal(out.numpy(), plain.numpy())
            np.testing.assert_array_equal(np.signbit(out.numpy()), np.signbit(plain.numpy()))
    # A NaN is one with another of its bits.
    assert direct(f, lambda: f(x, float("nan")))[1]
    count = traces(f)
    for k in (
        (1, 2),
        (1.0, 2),
        (True, 2),
        ("a", None),
        frozenset([1]),
        "text",
        b"text",
        max,
        len,
        Pair,
        None,
    ):
        assert not direct(f, lambda k=k: f(x, 2, k=k))[1]
        assert direct(f, lambda k=k: f(x, 2, k=k))[1], k
    assert traces(f) == count + 11
    assert direct(f, lambda: f(x, 2, k=(1, 2)))[1]


def test_static_objects_are_asked_for_equality_and_hash():
    asked = []

    class Config:
        def __init__(self, n):
            self.n = n

        def __hash__(self):
            asked.append("hash")
            return hash(self.n)

        def __eq__(self, other):
            asked.append("eq")
            return isinstance(other, Config) and self.n == other.n

    f = lm.jit(lambda x, c: x * c.n, static_argnums=1)
    x = tensor(1, 2)
    assert f(x, Config(3)).tolist() == [3, 6]
    asked.clear()
    assert direct(f, lambda: f(x, Config(3)).tolist()) == ([3, 6], True)
    assert "hash" in asked and "eq" in asked
    assert direct(f, lambda: f(x, Config(4)).tolist()) == ([4, 8], False)
    changing = Config(3)
    assert direct(f, lambda: f(x, changing).tolist()) == ([3, 6], True)
    changing.n = 5
    assert f(x, changing).tolist() == [5, 10]
    assert f(x, Config(3)).tolist() == [3, 6]

    class Broken(Config):
        def __eq__(self, other):
            raise LookupError("no comparison")

        __hash__ = Config.__hash__

    f(x, Broken(3))
    with pytest.raises(ValueError, match=r"compared by ==, which Broken raises LookupError for") as e:
        f(x, Broken(3))
    assert isinstance(e.value.__cause__, LookupError)
    for bad in ([1], np.ones(2), x, {"a": 1}, (1, [2])):
        with pytest.raises(ValueError, match=r"static arguments of .* must be hashable"):
            f(x, bad)


def test_changed_globals_closures_and_attributes_are_seen():
    global RATE
    scale = 2.0

    class Model:
        def __init__(self):
            self.lr, self.w, self.name = 0.5, tensor(1, 1), "a"

        @lm.jit
        def step(self, x):
            return x * self.lr * RATE * scale + self.w if self.name == "a" else x

        @lm.jit
        def twice(self, x):
            return self.step(x) * 2.0

    m, x = Model(), tensor(4, 8)
    step = Model.step
    RATE = 0.5
    try:
        assert m.step(x).tolist() == m.step(x).tolist() == [3, 5]
        for change, expected in (
            (lambda: setattr(m, "lr", 1.0), [5, 9]),
            (lambda: setattr(m, "w", tensor(0, 0)), [4, 8]),
            (lambda: setattr(m, "w", m.w + 1.0), [5, 9]),
        ):
            change()
            assert direct(step, lambda: m.step(x).tolist()) == (expected, True)
        RATE = 1.0
        assert direct(step, lambda: m.step(x).tolist()) == ([9, 17], True)
        scale = 1.0
        assert direct(step, lambda: m.step(x).tolist()) == ([5, 9], True)
        assert traces(step) == 1
        m.lr = 2  # another type
        assert direct(step, lambda: m.step(x).tolist()) == ([9, 17], False)
        m.lr, m.w = 1.0, lnp.array([1, 1])
        assert direct(step, lambda: m.step(x).tolist()) == ([5, 9], False)
        m.name = "b"
        assert direct(step, lambda: m.step(x).tolist()) == ([4, 8], False)
        # States that came before are found among the variants.
        m.name = "a"
        assert direct(step, lambda: m.step(x).tolist()) == ([5, 9], True)
        m.name = "b"
        assert direct(step, lambda: m.step(x).tolist()) == ([4, 8], True)
        m.name = "a"
        m.twice(x)
        assert direct(Model.twice, lambda: m.twice(x).tolist()) == ([10, 18], True)
        m.lr = 0.0
        assert direct(Model.twice, lambda: m.twice(x).tolist()) == ([2, 2], True)
        assert traces(Model.twice) == 1
    finally:
        RATE = 0.5


def test_numbers_computed_of_numbers_are_computed_again():
    global RATE
    f = lm.jit(lambda x: x * (1.0 - RATE))
    x = tensor(4)
    try:
        assert f(x).item() == f(x).item() == 2
        RATE = 0.25
        assert f(x).item() == 3
        assert direct(f, lambda: f(x).item()) == (3, True)
        used = lm.jit(lambda x: x * 2.0 if RATE > 0.5 else x)
        assert used(x).item() == used(x).item() == 4
        RATE = 0.75
        assert used(x).item() == 8
    finally:
        RATE = 0.5


def test_a_write_in_place_to_what_is_read_is_seen():
    w = tensor(1, 2)
    f = lm.jit(lambda x: x + w)
    x = tensor(1, 1)
    f(x)
    w[0] = 10.0
    assert direct(f, lambda: f(x).tolist()) == ([11, 3], True)
    x[1] = 5.0
    assert direct(f, lambda: f(x).tolist()) == ([11, 7], True)


def test_methods_are_apart_by_object_and_keep_none_alive():
    class Model:
        def __init__(self, k):
            self.k = k

        @functools.partial(lm.jit, static_argnames="power")
        def f(self, x, power=1):
            return x**power * self.k

    a, b, x = Model(2.0), Model(3.0), tensor(2)
    for m, power, expected in ((a, 1, 4), (b, 1, 6), (a, 2, 8), (b, 2, 12)):
        assert m.f(x, power=power).item() == expected
        assert direct(Model.f, lambda m=m, power=power: m.f(x, power=power).item()) == (expected, True)
    bound = a.f
    assert direct(Model.f, functools.partial(bound, x, power=2))[1]
    assert bound(x, power=2).item() == 8
    assert bound == a.f and bound != b.f and hash(bound) == hash(a.f)
    assert list(inspect.signature(bound).parameters) == ["x", "power"]
    assert bound.__self__ is a and bound.__func__ is Model.f and bound.__name__ == "f"
    gone = weakref.ref(a)
    del a, bound, m
    gc.collect()
    assert gone() is None
    c = Model(5.0)
    assert c.f(x).item() == 10

    @dataclasses.dataclass
    class State:
        w: lm.Tensor

        @lm.jit
        def total(self, x):
            return self.w + x

    assert State(tensor(1)).total(x).item() == State(tensor(1)).total(x).item() == 3


def test_objects_without_weak_references_have_methods():
    class Slotted:
        __slots__ = ("k",)

        @lm.jit
        def f(self, x):
            return x * self.k

    s = Slotted()
    s.k = 2.0
    x = tensor(3)
    assert s.f(x).item() == s.f(x).item() == 6
    s.k = 3.0
    assert s.f(x).item() == 9


def test_modes_and_scopes_are_honoured():
    f = lm.jit(lambda x, y: x / y)
    i = lnp.array([3], dtype="int32")
    x = tensor(3)
    f(x, 2.0), f(i, 2)
    with lm.default_dtypes(float="float64", int="int64"):
        assert not direct(f, lambda: f(x, 2.0))[1]
        assert f(i, 2).dtype == "float64"
    assert direct(f, lambda: f(x, 2.0))[1]
    assert f(i, 2).dtype == "float32"
    with lm.numerics("fast"):
        assert not direct(f, lambda: f(x, 2.0))[1]
    with lm.checks():
        assert not direct(f, lambda: f(x, 2.0))[1]
    assert direct(f, lambda: f(x, 2.0).item()) == (1.5, True)


def test_inside_transforms_calls_are_recorded():
    f = lm.jit(lambda x: x * x)
    x = tensor(3)
    f(x), f(x)
    before = f.direct_hits
    assert lm.grad(lambda x: f(x).sum())(x).item() == 6
    assert lm.vmap(f)(tensor(1, 2, 3)).tolist() == [1, 4, 9]
    assert lm.jit(lambda x: f(x) + 1.0)(x).item() == 10
    assert lm.jvp(f, (x,), (tensor(1),))[1].item() == 6
    assert f.direct_hits == before
    assert direct(f, lambda: f(x).item()) == (9, True)


def test_writes_to_arguments_reach_the_caller_at_every_call():
    @lm.jit
    def f(x):
        x[0] = x[0] + 1.0
        return x.sum()

    x = tensor(0, 0)
    assert [f(x).item() for _ in range(3)] == [1, 2, 3]
    assert x.tolist() == [3, 0] and f.direct_hits == 0


def test_branches_on_values_take_the_path_of_each_call():
    f = lm.jit(lambda x: x * 2.0 if x > 0 else -x)
    assert [f(lnp.float32(v)).item() for v in (1, -1, 2, -2)] == [2, 1, 4, 2]
    assert f.direct_hits == 0


def test_donated_arguments_are_gone():
    f = lm.jit(lambda w, x: w + x, donate_argnums=0)
    x = tensor(1)
    w = f(tensor(0), x)
    for expected in (2, 3, 4):
        old = w
        w, was = direct(f, lambda w=w: f(w, x))
        assert was and w.item() == expected
        with pytest.raises(TypeError, match="donated"):
            old.numpy()
    with pytest.raises(TypeError, match="donated"):
        f(old, x)


def test_results_belong_to_the_caller():
    f = lm.jit(lambda x: (x, x, x + 0.0))
    x = tensor(1, 2)
    f(x)
    (a, b, _), was = direct(f, lambda: f(x))
    assert was and a is not x and a is not b
    a[0] = 9.0
    assert x.tolist() == b.tolist() == [1, 2] and f(x)[0].tolist() == [1, 2]


def test_pending_and_failing_arguments():
    f = lm.jit(lambda x, y: x + y)
    x = tensor(1, 2)
    f(x, x)
    assert direct(f, lambda: f(x * 2.0, x + 1.0).tolist()) == ([4, 7], True)
    traced = []
    lm.jit(lambda y: traced.append(y) or y)(x)
    with pytest.raises(TypeError, match=r"leaked|traced"):
        f(traced[0], x)


def test_an_error_of_a_callback_names_the_users_line():
    def refuse(v):
        if v[0] > 5:
            raise LookupError("too large")
        return np.asarray(v)

    f = lm.jit(lambda x: lm.pure_callback(refuse, lm.ShapeDtype((2,), "float32"), x))
    f(tensor(1, 2)), f(tensor(1, 2))
    with pytest.raises(LookupError, match="too large") as e:
        f(tensor(6, 7))
    assert any(entry.path.name == "test_direct_calls.py" for entry in e.traceback)
    assert direct(f, lambda: f(tensor(1, 2)).tolist()) == ([1, 2], True)


def test_results_tell_the_line_of_the_call():
    f = lm.jit(lambda x: x + 1.0)
    x = tensor(1)
    f(x)
    y = f(x)
    here = test_results_tell_the_line_of_the_call.__code__.co_firstlineno
    file, line, _ = lm._core.where_made(y)
    assert file == __file__ and line == here + 4


def test_what_is_read_may_call_the_function_again_or_forget_it():
    class Config:
        depth = 0

        @property
        def k(self):
            self.depth += 1
            if self.depth in (5, 6):
                f.clear_cache()
            if self.depth in (8, 9):
                f(x)
            return 2.0

    c, x = Config(), tensor(1)
    f = lm.jit(lambda x: x * c.k)
    assert [f(x).item() for _ in range(12)] == [2] * 12


def test_functions_that_nobody_holds_are_collected():
    def make():
        big = tensor(*range(64))

        @lm.jit
        def f(x, n=3):
            return x + big if n else f(x, n - 1)

        f(big), f(big)
        assert f.direct_hits == 1
        return weakref.ref(f), weakref.ref(big)

    gone = make()
    gc.collect()
    assert [r() for r in gone] == [None, None]


def test_what_a_function_reads_goes_with_it():
    big = tensor(*range(64))
    f = lm.jit((lambda held: lambda x: x + held)(big))
    f(big), f(big)
    gone = weakref.ref(big)
    gc.disable()  # without waiting for the collector
    try:
        del f, big
        assert gone() is None
    finally:
        gc.enable()


def test_many_signatures_are_served_and_the_oldest_forgotten():
    f = lm.jit(lambda x: x + 1.0)
    inputs = [lnp.zeros(n) for n in range(1, 81)]
    for x in inputs:
        f(x)
    for x in reversed(inputs[40:]):
        assert direct(f, lambda x=x: f(x).shape) == (x.shape, True)
    assert direct(f, lambda: f(inputs[0]).tolist()) == ([1], False)
    f.clear_cache()
    assert direct(f, lambda: f(inputs[50]).shape) == ((51,), False)


def test_threads_call_one_function():
    f = lm.jit(lambda t, n: {k: v * n for k, v in t.items()})
    t = {"a": tensor(1, 2), "b": tensor(3)}
    wrong = []

    def run(n):
        for i in range(300):
            out = f(t, float(n + i % 3))
            if out["a"].tolist() != [n + i % 3, 2 * (n + i % 3)] or out["b"].item() != 3 * (n + i % 3):
                wrong.append((n, i))

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and f.direct_hits > 600


def test_a_signal_stops_a_loop_of_direct_calls():
    f = lm.jit(lambda x: x + 1.0)
    x = tensor(1)
    f(x)

    class Stop(Exception):
        pass

    def handler(*_):
        raise Stop

    previous = signal.signal(signal.SIGALRM, handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Stop):
            while True:
                f(x)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert direct(f, lambda: f(x).item()) == (2, True)


def test_what_a_function_wears_stays():
    @lm.jit
    def f(x):
        """Adds one."""
        return x + 1.0

    assert f.__name__ == "f" and f.__doc__ == "Adds one." and callable(f) and f.__wrapped__
    assert repr(f) == "<jit f: 0 entries, 0 hits>"
    f(tensor(1)), f(tensor(1))
    assert repr(f) == "<jit f: 1 entry, 1 hits>"
    assert isinstance(f, lm.Jitted)

    class Model:
        g = f

    assert Model.g is f


def test_numbers_and_lists_of_values_are_those_of_numpy():
    cases = [
        np.array([1.5, -0.0, np.nan, np.inf], np.float32),
        np.array([[1, 2], [3, 4]], np.float64),
        np.array([[True], [False]]),
        np.array(7, np.int8),
        np.array(-7.75, np.float32),
        np.array(True),
        np.array([2**63 + 1], np.uint64),
        np.array([-(2**62)], np.int64),
        np.array([1 + 2j, -3.5j], np.complex64),
        np.array(1 - 2j),
        np.zeros((2, 0, 3), np.float32),
        np.array([1.5, 2], np.float16),
    ]
    for a in cases:
        x = lnp.array(a)
        assert repr(x.tolist()) == repr(a.tolist())
        if a.size == 1:
            assert repr(x.item()) == repr(a.item()) and type(x.item()) is type(a.item())
            assert bool(x) is bool(a)
            if a.dtype.kind != "c" and a.ndim == 0:
                assert int(x) == int(a) and float(x) == float(a)
    assert repr(float(lnp.array(np.float32(0.1)))) == repr(float(np.float32(0.1)))
    assert (x := lnp.ones(3) * 2.0).block_until_ready() is x and lm._core.is_computed(x)
    assert [1, 2, 3][lnp.array(1, dtype="int32")] == 2
    for wrong, error in (
        (lambda: float(lnp.ones(2)), TypeError),
        (lambda: lnp.ones(2).item(), ValueError),
        (lambda: bool(lnp.ones(2)), ValueError),
        (lambda: int(lnp.array(np.nan)), ValueError),
        (lambda: int(lnp.array(np.inf)), OverflowError),
        (lambda: [1, 2][lnp.array(1.0)], TypeError),
        (lambda: [1, 2][lnp.array([1], dtype="int32")], TypeError),
        (lambda: lm.grad(lambda v: float(v) * v)(lnp.float32(1)), TypeError),
        (lambda: lm.jit(lambda v: v.item())(lnp.float32(1)), TypeError),
        (lambda: lnp.arange(3)[lnp.array(5)].item(), IndexError),
    ):
        with pytest.raises(error):
            wrong()


def test_single_ops_read_at_once_are_those_of_numpy():
    a, b = np.array([1, 2, 3], np.float32), np.array([4, -5, 6], np.float32)
    x, y = tensor(*a), tensor(*b)
    for _ in range(3):
        np.testing.assert_array_equal((x + y).numpy(), a + b)
        np.testing.assert_array_equal((y + x).numpy(), a + b)
        np.testing.assert_array_equal((x - y).numpy(), a - b)
        np.testing.assert_array_equal((y - x).numpy(), b - a)
        np.testing.assert_array_equal((x - x).numpy(), a - a)
        np.testing.assert_array_equal((x > y).numpy(), a > b)
        np.testing.assert_array_equal(x.astype("int32").numpy(), a.astype(np.int32))
        np.testing.assert_array_equal(x.astype("float64").numpy(), a.astype(np.float64))
        np.testing.assert_array_equal(lnp.where(x > y, x, y).numpy(), np.where(a > b, a, b))
        np.testing.assert_array_equal((x + 2.0).numpy(), a + np.float32(2))
        np.testing.assert_array_equal((x + y * 2).numpy(), a + b * 2)
        assert (x + y).sum().item() == (a + b).sum()
        pending = x * y
        np.testing.assert_array_equal((x + y).numpy(), a + b)
        np.testing.assert_array_equal(pending.numpy(), a * b)
        x[0], a[0] = x[0] + 1.0, a[0] + 1
    (x + y).numpy()
    stats = lm.cache.stats()
    for _ in range(5):
        (x + y).numpy()
    after = lm.cache.stats()
    assert after["hits"] == stats["hits"] + 5 and after["flushes"] == stats["flushes"] + 5
    assert after["misses"] == stats["misses"]
    lm.cache.clear()
    (x + y).numpy()
    assert lm.cache.stats()["misses"] == 1
    assert lm.grad(lambda v: (v * y).sum())(x).tolist() == b.tolist()
