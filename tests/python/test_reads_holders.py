"""What dictionaries hold under keys of every kind, and what lies behind Python's own tools, is read anew."""

import datetime
import enum
import fractions
import functools

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest


class Color(enum.Enum):
    RED = "red"


class Order(enum.IntEnum):
    FIRST = 1


class Name(str, enum.Enum):  # noqa: UP042
    W = "w"


class Layer:
    pass


class Point:
    def __init__(self, x):
        self.x = x

    def __hash__(self):
        return hash(self.x)

    def __eq__(self, other):
        return isinstance(other, Point) and self.x == other.x


def function():
    pass


layer = Layer()
KEYS = {
    "enum": Color.RED,
    "integer enum": Order.FIRST,
    "text enum": Name.W,
    "class": Layer,
    "object": layer,
    "object with equals": Point(1),
    "function": function,
    "none": None,
    "tuple": (1, "a"),
    "tuple with an object": (layer, 1),
    "frozen set": frozenset((1,)),
    "NumPy integer": np.int64(3),
    "dtype": np.dtype("float32"),
    "type": float,
    "date": datetime.date(2020, 1, 1),
    "bytes": b"a",
    "fraction": fractions.Fraction(1, 2),
    "float": 1.5,
}
READS = {
    "item": lambda d, k: d[k],
    "get": lambda d, k: d.get(k),
    "values": lambda d, k: sum(d.values()),
    "items": lambda d, k: sum(v for _, v in d.items()),
    "keys": lambda d, k: sum(d[q] for q in d),
    "copy": lambda d, k: dict(d)[k],
    "unpacked": lambda d, k: {**d}[k],
    "max": lambda d, k: max(d.values()),
}
X = lnp.ones(2)


def follows(f, *changes):
    jitted = lm.jit(f)
    for change in (lambda: None, *changes):
        change()
        for _ in range(2):
            assert jitted(X).tolist() == f(X).tolist()
    return jitted


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("kind", KEYS)
def test_numbers_under_keys_of_every_kind(kind, read):
    key, take = KEYS[kind], READS[read]
    held = {key: 2.0}
    follows(lambda x: x * take(held, key), lambda: held.update({key: 3.0}), lambda: held.update({key: 5.0}))


@pytest.mark.parametrize("kind", KEYS)
def test_what_else_lies_under_keys_of_every_kind(kind):
    key = KEYS[kind]
    held = {key: lnp.ones(2)}
    jitted = follows(lambda x: x + held[key], lambda: held.update({key: lnp.arange(2.0)}))
    assert jitted.hits == 3  # a Tensor is a hidden argument: one program
    held = {key: [2.0]}
    follows(lambda x: x * held[key][0], lambda: held[key].__setitem__(0, 3.0))
    held = {key: lambda: 2.0}
    follows(lambda x: x * held[key](), lambda: held.update({key: lambda: 3.0}))
    held = {key: 2.0}
    follows(lambda x: x * 2 if held == {key: 2.0} else x * 3, lambda: held.update({key: 3.0}))
    held = {"inner": {key: 2.0}}
    follows(lambda x: x * held["inner"][key], lambda: held["inner"].update({key: 3.0}))
    held = {}
    follows(lambda x: x * 2 if key in held else x * 3, lambda: held.update({key: 1}), held.clear)


def test_a_key_made_in_the_trace():
    held = {Point(1): 2.0, (1, "a"): 3.0}
    follows(lambda x: x * held[Point(1)], lambda: held.update({Point(1): 7.0}))
    follows(lambda x: x * held[(len(x.shape), "a")], lambda: held.update({(1, "a"): 7.0}))


def test_a_key_that_is_another_object_now():
    held, names = {"a": 2.0, "b": 3.0}, {"key": "a"}
    follows(lambda x: x * held[names["key"]], lambda: names.update(key="b"))
    objects = [Layer(), Layer()]
    table, chosen = {objects[0]: 2.0, objects[1]: 3.0}, [objects[0]]
    follows(lambda x: x * table[chosen[0]], lambda: chosen.__setitem__(0, objects[1]))


class Settings:
    pass


def test_an_attribute_that_was_missing():
    settings = Settings()

    def scale(s):
        try:
            return s.scale
        except AttributeError:
            return 2.0

    follows(
        lambda x: x * scale(settings),
        lambda: setattr(settings, "scale", 3.0),
        lambda: delattr(settings, "scale"),
    )
    follows(
        lambda x: x * scale(Settings),
        lambda: setattr(Settings, "scale", 3.0),
        lambda: delattr(Settings, "scale"),
    )


def test_values_that_are_set_where_there_are_none():
    cache = {}

    def f(x):
        return x * cache.setdefault("scale", 2.0)

    follows(f, lambda: cache.update(scale=3.0), cache.clear)


RATE = 2.0


@functools.singledispatch
def rate_of(x):
    return RATE


@rate_of.register
def _(x: int):
    return RATE * 2


@functools.lru_cache
def kept_rate(n):
    return RATE * n


def with_default(x, by=2.0):
    return x * by


class Meta(type):
    def __call__(cls):
        return RATE

    def __getitem__(cls, i):
        return RATE * i


class Called(metaclass=Meta):
    pass


class Item:
    def __class_getitem__(cls, i):
        return RATE * i


def test_what_pythons_tools_call(monkeypatch):
    def to(rate):
        return lambda: monkeypatch.setitem(globals(), "RATE", rate)

    follows(lambda x: x * rate_of(1) + rate_of("a"), to(3.0), lambda: rate_of.register(str, lambda x: 7.0))
    follows(lambda x: x * Called() + Called[2] + Item[3], to(4.0))
    kept_rate.cache_clear()
    follows(lambda x: x * kept_rate(2), lambda: (to(5.0)(), kept_rate.cache_clear()))


def test_defaults_that_are_replaced(monkeypatch):
    follows(lambda x: with_default(x), lambda: monkeypatch.setattr(with_default, "__defaults__", (3.0,)))


@pytest.mark.parametrize("name", ["issuperset", "isdisjoint", "issubset", "__contains__"])
def test_what_sets_are_asked(name):
    held = {1, 2}
    other = 5 if name == "__contains__" else {1, 2, 5} if name == "issubset" else {5}
    follows(
        lambda x: x * 2 if getattr(held, name)(other) else x * 3, lambda: held.add(5), lambda: held.add(6)
    )
    follows(lambda x: x * len(held.symmetric_difference({1})), lambda: held.add(9))


class Wrapped:
    def __init__(self, value):
        self.value = value


def test_numbers_are_the_same_objects_wherever_they_are_found():
    held = {"rate": 2.5, "count": 1000}

    def f(x):
        found = [held["rate"], held["count"]]
        wrapped = lm.tree.map(Wrapped, held)
        same = [a is b.value for a, b in zip(found, (wrapped["rate"], wrapped["count"]))]
        same += [id(held["rate"]) == id(wrapped["rate"].value)]
        return x * 2 if all(same) and found[0] is not found[1] else x * 3

    follows(f, lambda: held.update(rate=3.5), lambda: held.update(count=2000))


def test_to_ask_whether_a_number_is_none_keeps_the_program():
    settings = Settings()
    settings.rate = 2.5
    jitted = follows(
        lambda x: x if settings.rate is None else x * settings.rate, lambda: setattr(settings, "rate", 3.5)
    )
    assert jitted.hits == 3
