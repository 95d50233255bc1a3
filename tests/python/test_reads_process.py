"""Code that is executed from text, weak dictionaries, and what the process tells: seen, or named by `lamina.checks`."""

import abc
import dataclasses
import decimal
import functools
import gc
import io
import json
import logging
import operator
import os
import pathlib
import queue
import sys
import threading
import types
import weakref

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

RATE = 2.0
X = lnp.array([1.0, 2.0])
SCOPE = {"rate": 2.0}


def helper():
    return RATE


def executed(x):
    made = {}
    exec("y = helper() + 1.0", globals(), made)
    return x * made["y"]


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x * eval("RATE"),
        lambda x: x * eval("helper()"),
        lambda x: x * eval(compile("RATE * 2", "text", "eval")),
        lambda x: x * eval("RATE", globals()),
        lambda x: eval("x * RATE"),
        lambda x: eval("k * RATE", {"k": x, "RATE": RATE}),
        executed,
    ],
)
def test_names_in_executed_text(f, monkeypatch):
    jitted = lm.jit(f)
    for rate in (2.0, 3.0, 5.0):
        monkeypatch.setitem(globals(), "RATE", rate)
        np.testing.assert_array_equal(jitted(X), f(X))


def test_executed_text_in_other_scopes():
    free, scope = 2.0, {"rate": 2.0}
    jitted = lm.jit(lambda x: (x * eval("free") * free, x * eval("rate", scope), x * eval("rate", {}, scope)))
    for free, scope["rate"] in ((2.0, 2.0), (3.0, 2.0), (3.0, 5.0)):
        got = [float(y[0]) for y in jitted(X)]
        assert got == [free * free, scope["rate"], scope["rate"]]
    assert "__builtins__" in scope  # as plain eval leaves it


class Held:
    def __init__(self, rate):
        self.rate = rate


def test_weak_dictionaries():
    key, other = Held(1.0), Held(7.0)
    by_key, values = weakref.WeakKeyDictionary({key: 2.0}), weakref.WeakValueDictionary({"a": key})
    reads = [
        lambda x: x * by_key[key],
        lambda x: x * by_key.get(key, 1.0),
        lambda x: x * sum(v for _, v in by_key.items()),
        lambda x: x * len(by_key),
        lambda x: x * (2.0 if other in by_key else 1.0),
        lambda x: x * values["a"].rate,
    ]
    jitted = [lm.jit(f) for f in reads]
    changes = [
        lambda: None,
        lambda: by_key.__setitem__(key, 3.0),
        lambda: by_key.__setitem__(other, 4.0),
        lambda: setattr(key, "rate", 5.0),
        lambda: values.__setitem__("a", other),
    ]
    for change in changes:
        change()
        for f, plain in zip(jitted, reads):
            np.testing.assert_array_equal(f(X), plain(X))
    assert all(len(next(iter(f._entries.values()))) <= 4 for f in jitted)


def test_keywords_of_a_partial_that_are_written():
    scaled = functools.partial(lambda x, rate: x * rate, rate=2.0)
    inner, outer = lm.jit(lambda x: scaled(x)), lm.jit(scaled)
    for rate in (2.0, 3.0):
        scaled.keywords["rate"] = rate
        np.testing.assert_array_equal(inner(X), X * rate)
        np.testing.assert_array_equal(outer(X), X * rate)


LOG = logging.getLogger("lamina.test_reads_process")
THIRD = decimal.Decimal(1)


class ByText:
    size = 2.0

    def __mul__(self, x):
        return getattr(type(self), "".join(["si", "ze"])) * x


by_text = ByText()
STATES = {
    "geterr": (lambda x: x * (np.geterr()["divide"] == "warn"), lambda m: np.seterr(divide="ignore")),
    "get_printoptions": (
        lambda x: x * np.get_printoptions()["precision"],
        lambda m: np.set_printoptions(precision=3),
    ),
    "decimal numbers": (lambda x: x * float(THIRD / 3), lambda m: setattr(decimal.getcontext(), "prec", 5)),
    "reckons with": (
        lambda x: x * float(decimal.Decimal(1) / decimal.Decimal(3)),
        lambda m: decimal.setcontext(decimal.Context(prec=4)),
    ),
    "isEnabledFor": (lambda x: x * LOG.isEnabledFor(logging.DEBUG), lambda m: LOG.setLevel(logging.DEBUG)),
    "getcwd": (lambda x: x * len(os.getcwd()), lambda m: m.chdir("/")),
    "exists": (lambda x: x * os.path.exists("made"), lambda m: pathlib.Path("made").write_text("")),
    r"Path\.exists": (lambda x: x * pathlib.Path("made").exists(), lambda m: pathlib.Path("made").touch()),
    "isenabled": (lambda x: x * gc.isenabled(), lambda m: gc.disable()),
    r"json\.rate": (lambda x: x * json.rate, lambda m: m.setattr(json, "rate", 3.0)),
    "ByText.*as text": (lambda x: x * (by_text * 1.0), lambda m: m.setattr(ByText, "size", 3.0)),
}


def test_checks_name_files_that_are_read_once(tmp_path):
    file = tmp_path / "rate.txt"
    file.write_text("2.0")
    np.save(tmp_path / "rate.npy", np.array([2.0]))
    reads = {
        r"Path\.read_text": lambda x: x * float(file.read_text()),
        "`open`": lambda x: x * len(open(file).read()),  # noqa: SIM115
        "`load`": lambda x: x * float(np.load(tmp_path / "rate.npy")[0]),
    }
    for told, f in reads.items():
        jitted = lm.jit(f)
        jitted(X)
        with lm.checks(), pytest.raises(RuntimeError, match=f"calls {told.strip('`')}|{told}"):
            jitted(X)


def test_names_asked_for_as_text_in_special_methods(monkeypatch):
    class Own:
        size, other = 2.0, 3.0

        def __init__(self):
            self.rate = 1.0

        def __add__(self, x):
            return self.size * x

        def __sub__(self, x):
            return type(self).__dict__["size"] * x

        def __mul__(self, x):
            return getattr(self, "other") * x  # noqa: B009

        def __truediv__(self, x):
            return vars(self)["rate"] * x

    p = Own()
    reads = [
        lambda x: x * (p + 1.0),
        lambda x: x * (p - 1.0),
        lambda x: x * (p * 1.0),
        lambda x: x * (p / 1.0),
    ]
    reads += [lambda x: x * (Own() + 1.0), lambda x: x * (Own() - 1.0), lambda x: x * (Own() * 1.0)]
    jitted = [lm.jit(f) for f in reads]
    for size, other, rate in ((2.0, 3.0, 1.0), (4.0, 3.0, 1.0), (4.0, 5.0, 1.0), (4.0, 5.0, 6.0)):
        Own.size, Own.other, p.rate = size, other, rate
        for f, plain in zip(jitted, reads):
            np.testing.assert_array_equal(f(X), plain(X))


def test_a_property_runs_once_in_a_trace():
    runs = []

    class Own:
        def __init__(self):
            self.rate = 2.0

        @property
        def scale(self):
            runs.append("property")
            return self.rate

        @functools.cached_property
        def kept(self):
            runs.append("cached")
            return self.rate

    p = Own()
    f = lm.jit(lambda x: x * p.scale * p.kept)
    assert f(X)[0].item() == 4.0
    assert runs == ["property", "cached"]
    p.rate = 3.0
    assert f(X)[0].item() == 6.0  # what is cached stays


def test_an_attribute_that_an_object_gets_later():
    class Own:
        def __getattribute__(self, name):
            return object.__getattribute__(self, name)

    class Plain:
        pass

    for p in (Own(), Plain()):
        f = lm.jit(lambda x: x * (p.rate if hasattr(p, "rate") else 1.0))  # noqa: B023
        assert f(X)[0].item() == 1.0
        p.rate = 3.0
        assert f(X)[0].item() == 3.0


Registered = abc.ABCMeta("Registered", (), {})


class Parent:
    pass


class Settings:
    rate = 2.0

    @property
    def scaled(self):
        return self.rate

    def method(self, more=0.0):
        return self.rate + more


settings, stream, jobs, ready = Settings(), io.StringIO("2.0"), queue.Queue(), threading.Event()
STATES |= {
    r"StringIO\.getvalue": (lambda x: x * len(stream.getvalue()), lambda m: stream.write("more than that")),
    r"Queue\.qsize": (lambda x: x * jobs.qsize(), lambda m: jobs.put(1)),
    r"Event\.is_set": (lambda x: x * ready.is_set(), lambda m: ready.set()),
    "__subclasses__": (
        lambda x: x * len(Parent.__subclasses__()),
        lambda m: m.setattr(Parent, "kept", type("Child", (Parent,), {}), raising=False),
    ),
    "a Settings is a Registered": (
        lambda x: x * isinstance(settings, Registered),
        lambda m: Registered.register(Settings),
    ),
}


@pytest.fixture
def process_state(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(json, "rate", 2.0, raising=False)
    context, level = decimal.getcontext().copy(), LOG.level
    with np.errstate(divide="warn"), np.printoptions(precision=8):
        yield monkeypatch
    decimal.setcontext(context)
    LOG.setLevel(level)
    gc.enable()


@pytest.mark.parametrize("told", STATES)
def test_checks_name_a_state_that_has_changed(told, process_state):
    f, change = STATES[told]
    jitted = lm.jit(f)
    before = jitted(X)
    with lm.checks():
        np.testing.assert_array_equal(jitted(X), before)  # nothing is told while it is as it was
        change(process_state)
        with pytest.raises(RuntimeError, match=rf"(?s){told}.*test_reads_process\.py:\d+"):
            jitted(X)


@dataclasses.dataclass
class WithDefault:
    rate: float = 2.0


made_by_hand = types.ModuleType("made_by_hand")
made_by_hand.rate, made_by_hand.Layer = 2.0, type("Layer", (), {"rate": 2.0, "__module__": "made_by_hand"})


def imports_inside(x):
    from made_by_hand import rate as mine

    return x * mine


READS = {
    "attrgetter": lambda x: x * operator.attrgetter("rate")(settings),
    "attrgetter of two": lambda x: x * sum(operator.attrgetter("rate", "scaled")(settings)),
    "methodcaller": lambda x: x * operator.methodcaller("method")(settings),
    "methodcaller with arguments": lambda x: x * operator.methodcaller("method", more=1.0)(settings),
    "map of a methodcaller": lambda x: x * sum(map(operator.methodcaller("method", 1.0), [settings])),
    "sorted by an attrgetter": lambda x: (
        x * sorted([settings, types.SimpleNamespace(rate=2.5)], key=operator.attrgetter("rate"))[0].rate
    ),
    "itemgetter": lambda x: x * operator.itemgetter("rate")(SCOPE),
    "class of a dataclass": lambda x: x * WithDefault().rate,
    "module made by hand": lambda x: x * sys.modules["made_by_hand"].rate,
    "class of such a module": lambda x: x * made_by_hand.Layer().rate,
    "import": imports_inside,
    "isinstance": lambda x: x * 2 if isinstance(1.0, settings.kinds) else x,
    "issubclass": lambda x: x * 2 if issubclass(float, settings.kinds) else x,
    "names of an object": lambda x: x * len([name for name in dir(settings) if not name.startswith("_")]),
    "text of an object": lambda x: x * len(repr(settings.plain)),
}


@pytest.mark.parametrize("name", READS)
def test_reads_by_other_ways(name, monkeypatch):
    f = READS[name]
    monkeypatch.setitem(sys.modules, "made_by_hand", made_by_hand)
    monkeypatch.setattr(Settings, "kinds", (int,), raising=False)
    monkeypatch.setattr(Settings, "plain", types.SimpleNamespace(rate=2.0), raising=False)
    jitted = lm.jit(f)
    before = jitted(X)
    np.testing.assert_array_equal(before, f(X))
    monkeypatch.setattr(Settings, "rate", 3.0)
    monkeypatch.setitem(SCOPE, "rate", 3.0)
    monkeypatch.setattr(WithDefault.__init__, "__defaults__", (3.0,))
    monkeypatch.setattr(made_by_hand, "rate", 3.0)
    monkeypatch.setattr(made_by_hand.Layer, "rate", 3.0)
    monkeypatch.setattr(Settings, "kinds", (int, float))
    monkeypatch.setattr(settings, "added", 1.0, raising=False)
    monkeypatch.setattr(Settings.plain, "added", 1.0, raising=False)
    np.testing.assert_array_equal(jitted(X), f(X))
    assert not np.array_equal(jitted(X), before)
    hits = jitted.hits
    jitted(X)
    assert jitted.hits == hits + 1
