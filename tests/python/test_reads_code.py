"""What a jitted function reads through other code: helpers, rules, inner jits, arrays, counters, what it writes."""

from __future__ import annotations

import argparse
import ast
import collections
import configparser
import contextlib
import contextvars
import dataclasses
import enum
import functools
import inspect
import json
import os
import pathlib
import sys
import textwrap
import threading
import types
import typing

import lamina as lm
import lamina.lax as lax
import lamina.numpy as lnp
import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import reads_support as rs
from reads_support import X, restored_settings, traces  # noqa: F401 (a fixture)


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


class Level(enum.Enum):
    LOW = 1
    HIGH = 2


def test_members_that_a_jitted_function_looks_up():
    f = lm.jit(lambda x, n: x * Level(n).value if Level(n).name == "HIGH" else -x, static_argnums=1)
    assert [f(3.0, n).item() for n in (1, 2)] == [-3, 6]
    g = lm.jit(lambda x: [x * m.value for m in Level if Level[m.name] is m])
    assert [v.item() for v in g(3.0)] == [3, 6]


@dataclasses.dataclass
class Layer:
    width: int


@dataclasses.dataclass
class Made:
    kind: type
    weight: object


lm.tree_util.register_dataclass(Made, data_fields=["weight"], meta_fields=["kind"])


def test_arguments_that_know_a_dataclass():
    f = lm.jit(lambda made, x: x * made.weight * made.kind(3).width)
    assert f(Made(Layer, lnp.array(2.0)), 5.0).item() == 30


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


def test_a_counter_that_nothing_else_reads_counts_traces():
    count = 0
    held = types.SimpleNamespace(calls=0, of={"step": 0})

    def twice():
        nonlocal count
        count += 1
        count += 1

    @lm.jit
    def inner(x):
        twice()
        held.calls += 1
        held.of["step"] += 1
        return x * 2

    @lm.jit
    def outer(x):
        return inner(inner(inner(x)))

    assert [inner(float(n)).item() for n in range(4)] == [0.0, 2.0, 4.0, 6.0]
    assert [outer(float(n)).item() for n in range(4)] == [0.0, 8.0, 16.0, 24.0]
    assert (count, held.calls, held.of) == (2, 1, {"step": 1}) and traces(inner) == 1
    with lm.checks(), pytest.raises(RuntimeError, match=r"(?s)writes `count` only when it is traced.*calls"):
        inner(1.0)


@pytest.mark.parametrize("read", ["before", "after", "derived", "other"])
def test_a_counter_whose_count_is_read_counts_calls(read):
    count = 0

    @lm.jit
    def step(x):
        nonlocal count
        y = x * count if read == "before" else x * (count + 1) if read == "derived" else x
        count += 1
        if read == "other" and x > 1.5:  # on one path only
            return x * count
        return x * count if read == "after" else y

    wanted = {"before": [0.0, 1.0, 2.0], "after": [1.0, 2.0, 3.0], "derived": [1.0, 2.0, 3.0]}
    if read == "other":
        assert [step(1.0).item() for _ in range(3)] == [1.0] * 3
        before = count
        assert [step(2.0).item() for _ in range(3)] == [2.0 * (before + n) for n in (1, 2, 3)]
    else:
        assert [step(1.0).item() for _ in range(3)] == wanted[read]


def test_code_whose_import_statements_a_hook_replaced_is_watched(tmp_path):
    # As lazy imports do: the compiler calls what an import statement binds in another way than other names.
    file = tmp_path / "lazily.py"
    file.write_text("import lamina.numpy as lnp\nSCALE = 2.0\ndef f(x):\n    return lnp.sin(x) * SCALE\n")
    tree = ast.parse(file.read_text())
    tree.body[0] = ast.copy_location(
        ast.parse("lnp = __import__('sys').modules['lamina.numpy']").body[0], tree
    )
    tree.body[0].lineno = 1
    names = {"__name__": "lazily"}
    exec(compile(ast.fix_missing_locations(tree), str(file), "exec"), names)
    f = lm.jit(names["f"])
    first, names["SCALE"] = f(1.0).item(), 4.0
    assert f(1.0).item() == 2 * first and traces(f) == 1  # a parameter: only of watched code


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


@pytest.mark.parametrize("method", ["__getattribute__", "__getattr__"])
def test_an_object_that_finds_its_attributes_itself_in_code_without_source(method):
    names = {"__name__": "made_by_exec"}
    exec(
        "class Inner: pass\n"
        "class Proxy:\n"
        "    def __init__(self, inner): object.__setattr__(self, 'inner', inner)\n"
        f"    def {method}(self, n): return getattr(object.__getattribute__(self, 'inner'), n)\n"
        "inner = Inner(); inner.scale = 3.0; proxy = Proxy(inner)\n"
        "def f(x): return x * proxy.scale\n",
        names,
    )
    g = lm.jit(names["f"])
    assert g(2.0).item() == 6.0
    names["inner"].scale = 5.0
    assert g(2.0).item() == 10.0


@pytest.mark.parametrize("way", ["__getattr__ in it", "__getattr__ of its class", "__getattribute__"])
def test_a_module_that_finds_its_names_by_code_is_asked_only_for_those_that_are_read(way):
    asked = []
    settings = {"rate": 3.0}

    def find(name):
        asked.append(name)
        if name not in settings:
            raise AttributeError(name)
        return settings[name]

    def find_any(self, name):
        return object.__getattribute__(self, name) if name.startswith("__") else find(name)

    special = way.split()[0]
    cls = type("Module", (types.ModuleType,), {} if "in it" in way else {special: find_any})
    config = cls("config")
    if "in it" in way:
        config.__getattr__ = find
    names = {"__name__": "made_by_exec", "np": np, "config": config, "offset": 1.0}
    exec("def f(x): return x * config.rate + np.size(x) + offset", names)
    g = lm.jit(names["f"])
    assert g(2.0).item() == 8.0
    settings["rate"] = 5.0
    assert g(2.0).item() == 12.0
    assert {n for n in asked if not n.startswith("__")} == {"rate"}


def test_code_that_is_replaced_in_place_is_traced_again():
    """As notebooks do where a module has changed: functions stay, and get the code of the new ones."""

    def helper(x):
        return x * 2.0

    def f(x):
        return helper(x) + 1.0

    class Base:
        def scaled(self, x):
            return x * 2.0

    class Model(Base):
        def scaled(self, x):
            return super().scaled(x) + 1.0

        def __call__(self, x):
            return helper(x)

        @lm.jit
        def jitted(self, x):
            return x * 2.0

    model = Model()
    calls = [lm.jit(f), lm.jit(model.scaled), lm.jit(model), lm.jit(lm.grad(f)), model.jitted]
    assert [float(c(1.0)) for c in calls] == [3.0, 3.0, 2.0, 2.0, 2.0]
    misses = lm.cache.stats()["misses"]
    assert [float(c(1.0)) for c in calls] == [3.0, 3.0, 2.0, 2.0, 2.0]
    assert lm.cache.stats()["misses"] == misses
    helper.__code__ = (lambda x: x * 5.0).__code__
    assert [float(c(1.0)) for c in calls] == [6.0, 3.0, 5.0, 5.0, 2.0]
    Base.scaled = lambda self, x: x * 10.0
    assert float(calls[1](1.0)) == 11.0
    Base.scaled.__code__ = (lambda self, x: x * 20.0).__code__
    assert float(calls[1](1.0)) == 21.0
    f.__code__ = (lambda helper: lambda x: helper(x) * 7.0)(helper).__code__
    assert [float(c(1.0)) for c in (calls[0], calls[3])] == [35.0, 35.0]


def test_functions_made_while_tracing_are_not_guarded():
    def scaled_by(k):
        return lambda x: x * k

    @lm.jit
    def f(x):
        inner = scaled_by(3.0)
        return functools.reduce(lambda a, g: g(a), [inner, lambda y: y + 1.0], x)

    assert float(f(2.0)) == 7.0
    traced = repr(f)
    assert float(f(2.0)) == 7.0 and "1 entry" in traced and "1 entry" in repr(f)


# Each calls a function of one vector, which it may write to, and gives its value.
CALLS = {
    "jit": lambda f: lm.jit(f),
    "grad": lambda f: lambda x: lm.value_and_grad(f)(x)[0],
    "grad_of_jit": lambda f: lambda x: lm.value_and_grad(lm.jit(f))(x)[0],
    "grad_inside": lambda f: lm.jit(lambda x: lm.value_and_grad(f)(x)[0]),
    "vjp": lambda f: lambda x: lm.vjp(f, x)[0],
    "jvp": lambda f: lambda x: lm.jvp(f, (x,), (x * 1.0,))[0],
    "linearize": lambda f: lambda x: lm.linearize(f, x)[0],
    "checkpoint": lambda f: lm.checkpoint(f),
    "vmap": lambda f: lm.vmap(f, in_axes=None, out_axes=None, axis_size=2),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_argument_that_is_written_and_read_from_outside_too_is_an_error(name):
    weights = lnp.array([1.0, 2.0])

    def f(x):
        x[0] = 5.0
        return weights[0] + x[0]

    call = CALLS[name](f)
    for _ in range(2):
        with pytest.raises(
            ValueError, match=r"writes to its argument .*, and reads the same Tensor from outside"
        ):
            call(weights)
    assert weights.tolist() == [1.0, 2.0]
    other = lnp.zeros(2)
    assert float(call(other)) == 6.0
    assert other.tolist() == [5.0, 0.0] and weights.tolist() == [1.0, 2.0]
    # What is only read, or only written, is no error.
    assert float(CALLS[name](lambda x: (x * weights).sum())(weights)) == 5.0

    def g(x):
        x[0] = 5.0
        return x.sum()

    assert float(CALLS[name](g)(weights)) == 7.0
    assert weights.tolist() == [5.0, 2.0]


def test_what_another_thread_reads_is_not_what_the_function_reads():
    weights = lnp.array([1.0, 2.0])

    def f(x):
        x[0] = 5.0
        reader = threading.Thread(target=lambda: weights.tolist())
        reader.start()
        reader.join()
        return x.sum()

    value, grad = lm.value_and_grad(f)(weights)
    assert float(value) == 7.0 and grad.tolist() == [0.0, 1.0] and weights.tolist() == [5.0, 2.0]


def test_context_variables_are_read_at_each_call():
    scale = contextvars.ContextVar("scale", default=2.0)
    unset = contextvars.ContextVar("unset")
    usual = types.SimpleNamespace(rate=1.0)
    settings = contextvars.ContextVar("settings", default=usual)

    @lm.jit
    def f(x):
        return x * scale.get()

    @lm.jit
    def g(x):
        try:
            return x * unset.get()
        except LookupError:
            return unset.get(x + 10)

    @lm.jit
    def h(x):
        return x * settings.get().rate

    assert [f(1.0).item(), g(1.0).item(), h(1.0).item()] == [2.0, 11.0, 1.0]
    token = scale.set(5.0)
    unset.set(7.0)
    usual.rate = 3.0
    assert [f(1.0).item(), g(1.0).item(), h(1.0).item()] == [5.0, 7.0, 3.0]
    settings.set(types.SimpleNamespace(rate=9.0))
    scale.reset(token)
    assert [f(1.0).item(), h(1.0).item()] == [2.0, 9.0]
    assert "1 entry, 2 hits" in repr(f)
    # Each context has its own, and so has each thread.
    assert contextvars.Context().run(lambda: (f(1.0).item(), g(1.0).item(), h(1.0).item())) == (
        2.0,
        11.0,
        3.0,
    )
    found = []
    thread = threading.Thread(target=lambda: found.append((g(1.0).item(), h(1.0).item())))
    thread.start()
    thread.join()
    assert found == [(11.0, 3.0)] and g(1.0).item() == 7.0


class Schedule:
    rate = 2.0
    steps: typing.ClassVar = [3.0]

    def __init__(self):
        self.initial = Schedule.rate

    @staticmethod
    def static():
        return Schedule.rate

    def method(self):
        return Schedule.steps[0]

    def __private(self):
        return Schedule.rate * Schedule.__factor

    __factor = 1.0

    def private(self):
        return self.__private()

    @property
    def value(self):
        return Schedule.rate

    def change(self, to):
        Schedule.rate = Schedule.steps[0] = Schedule.__factor = to


class Warmup(Schedule):
    def method(self):
        return super().method() + Warmup.rate

    class Inner:
        @staticmethod
        def rate():
            return Warmup.rate


SCHEDULES = {
    "static": "Schedule.static()",
    "by the instance": "schedule.static()",
    "method": "schedule.method()",
    "made": "Schedule().initial",
    "private": "schedule.private()",
    "property": "schedule.value",
    "super": "warmup.method()",
    "inherited": "Warmup.static()",
    "nested": "Warmup.Inner.rate()",
}


@pytest.mark.parametrize("with_source", [True, False])
@pytest.mark.parametrize("name", SCHEDULES)
def test_methods_that_name_their_own_class_see_it_change(name, with_source, tmp_path):
    classes = "".join(inspect.getsource(c) for c in (Schedule, Warmup))
    text = f"import typing\n{classes}\ndef f(x):\n    return x * {SCHEDULES[name]}\n"
    file = tmp_path / "schedules.py"
    if with_source:
        file.write_text(text)
    names = {"__name__": "__main__"}
    exec(compile(text, str(file), "exec"), names)
    names |= {"schedule": names["Schedule"](), "warmup": names["Warmup"]()}
    jitted = lm.jit(names["f"])
    for to in (2.0, 0.5, 2.0, 4.0):
        names["schedule"].change(to)
        assert [jitted(1.0).item(), jitted(3.0).item()] == [names["f"](1.0), names["f"](3.0)]


def test_what_code_without_source_calls_is_read_at_each_call():
    names = {}
    exec(
        textwrap.dedent(
            """
            import functools
            SCALE, TABLE = 2.0, {"k": 1.0}

            def scaled(x):
                return x * SCALE + TABLE["k"]

            def logged(f):
                def inner(*args):
                    return f(*args)
                return inner

            class Model:
                def __call__(self, x):
                    return self.apply(x)

                @logged
                def apply(self, x):
                    return scaled(x)

            def f(x, model=Model()):
                return model(x)
            """
        ),
        names,
    )
    f = lm.jit(names["f"])
    assert f(1.0).item() == 3.0
    names["SCALE"] = 5.0
    assert f(1.0).item() == 6.0
    names["TABLE"]["k"] = 0.0
    assert f(1.0).item() == 5.0
    names["scaled"] = lambda x: x - 1.0
    assert f(1.0).item() == 0.0


def test_of_code_without_source_what_it_does_not_ask_for_is_not_guarded():
    names = {"__name__": "__main__"}
    exec(
        textwrap.dedent(
            """
            class Model:
                def __init__(self):
                    self.scale, self.calls, self.losses = 2.0, 0, []

                def __call__(self, x):
                    return x * self.scale

            model = Model()

            def f(x):
                return model(x)
            """
        ),
        names,
    )
    f, model = lm.jit(names["f"]), names["model"]
    for i in range(4):
        assert f(1.0).item() == 2.0
        model.calls += 1
        model.losses.append(float(i))
    assert "1 entry, 3 hits" in repr(f)
    model.scale = 3.0
    assert f(1.0).item() == 3.0


def test_containers_of_the_standard_library_are_read_at_each_call(monkeypatch):
    kept = {"rate": 2.0}
    proxy, own = types.MappingProxyType(kept), collections.UserDict(rate=2.0)
    config = configparser.ConfigParser()
    config["train"] = {"rate": "2.0"}
    monkeypatch.setenv("LAMINA_TEST_RATE", "2.0")
    reads = {
        "proxy": lambda x: x * proxy["rate"],
        "proxy get": lambda x: x * proxy.get("rate"),
        "UserDict": lambda x: x * own["rate"],
        "UserDict get": lambda x: x * own.get("rate", 0.0),
        "UserDict copy": lambda x: x * own.copy()["rate"],
        "environ": lambda x: x * float(os.environ["LAMINA_TEST_RATE"]),
        "getenv": lambda x: x * float(os.getenv("LAMINA_TEST_RATE")),
        "config": lambda x: x * config.getfloat("train", "rate"),
    }
    jitted = {name: lm.jit(f) for name, f in reads.items()}
    assert {name: f(1.0).item() for name, f in jitted.items()} == dict.fromkeys(reads, 2.0)
    kept["rate"] = own["rate"] = 5.0
    monkeypatch.setenv("LAMINA_TEST_RATE", "5.0")
    config.set("train", "rate", "5.0")
    assert {name: f(1.0).item() for name, f in jitted.items()} == dict.fromkeys(reads, 5.0)
    assert {name: "2 entries" in repr(f) for name, f in jitted.items() if "UserDict" not in name} == {
        name: True for name in reads if "UserDict" not in name
    }
