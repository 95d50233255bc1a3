"""Special methods and class entries that a jitted function uses: that they, and what they read, change is seen."""

import dataclasses
import functools
import itertools
import math
import operator

import lamina as lm
import lamina.numpy as lnp
import pytest

LEVEL = 2


class Knob:
    """Each special method tells of a global variable."""

    rate = 2

    def __hash__(self):
        return 1

    def __index__(self):
        return LEVEL

    def __int__(self):
        return LEVEL

    def __float__(self):
        return float(LEVEL)

    def __bool__(self):
        return LEVEL > 2

    def __len__(self):
        return LEVEL

    def __eq__(self, other):
        return other == LEVEL

    def __lt__(self, other):
        return LEVEL < 3

    def __iter__(self):
        return iter(range(LEVEL))

    def __contains__(self, x):
        return x == LEVEL

    def __call__(self, x):
        return x * LEVEL

    def __abs__(self):
        return LEVEL

    def __neg__(self):
        return -LEVEL

    def __add__(self, other):
        return LEVEL + other

    __radd__ = __add__

    def __mul__(self, other):
        return LEVEL * other

    __rmul__ = __matmul__ = __mul__

    def __str__(self):
        return str(LEVEL)

    __repr__ = __str__

    def __getitem__(self, i):
        return LEVEL

    def __enter__(self):
        return LEVEL

    def __exit__(self, *_):
        pass

    def __round__(self):
        return LEVEL


class ByRate(Knob):
    """Each tells of a class attribute, some by way of other methods."""

    rate = 2

    @property
    def doubled(self):
        return type(self).rate * 2

    def half(self):
        return self.doubled // 4

    def __index__(self):
        return self.rate

    def __float__(self):
        return float(self.half() * 2)

    def __bool__(self):
        return type(self).rate > 2

    def __len__(self):
        return ByRate.rate


knob, knobs = Knob(), [Knob(), Knob()]


def entered(k, x):
    with k as value:
        return x * value


USES = {
    "range": lambda k, x: x * len(range(k)),
    "index": lambda k, x: x * [1, 2, 3, 4, 5][k],
    "index of a tensor": lambda k, x: x[k] * x,
    "slice": lambda k, x: x[:k].sum() * x,
    "slices": lambda k, x: lnp.ones((4, 4))[1:, :k].sum() * x,
    "shape": lambda k, x: x * lnp.ones(k).sum(),
    "float": lambda k, x: x * float(k),
    "int": lambda k, x: x * int(k),
    "truth": lambda k, x: x * 2 if k else x * 3,
    "not": lambda k, x: x * 2 if not k else x * 3,
    "any": lambda k, x: x * 2 if any([k]) else x * 3,
    "any of outer": lambda k, x: x * 2 if any(knobs) else x * 3,
    "len": lambda k, x: x * len(k),
    "map": lambda k, x: x * sum(map(float, [k])),
    "map itself": lambda k, x: x * sum(map(k, [1, 2])),
    "filter": lambda k, x: x * (1 + len(list(filter(None, [k])))),
    "equal": lambda k, x: x * 2 if k == 2 else x * 3,
    "in": lambda k, x: x * 2 if 2 in k else x * 3,
    "in list": lambda k, x: x * 2 if 2 in [k] else x * 3,
    "count": lambda k, x: x * (1 + knobs.count(2)),
    "for": lambda k, x: x * sum(v + 1 for v in k),
    "list": lambda k, x: x * len(list(k)),
    "starred": lambda k, x: x * len([*k]),
    "zip": lambda k, x: x * sum(a + b for a, b in zip(k, k)),
    "chain": lambda k, x: x * sum(itertools.chain(k, k)),
    "call": lambda k, x: k(x),
    "abs": lambda k, x: x * abs(k),
    "negative": lambda k, x: x * -k,
    "sum": lambda k, x: x * (k + 1),
    "reflected sum": lambda k, x: x * (1 + k),
    "builtin sum": lambda k, x: x * sum([k], 1),
    "matmul": lambda k, x: x * (k @ 2),
    "format": lambda k, x: x * int(f"{k}"),
    "percent": lambda k, x: x * int("%s" % k),  # noqa: UP031
    "str": lambda k, x: x * int(str(k)),
    "item": lambda k, x: x * k[0],
    "with": entered,
    "round": lambda k, x: x * round(k),
    "operator": lambda k, x: x * operator.index(k),
    "math": lambda k, x: x * math.floor(k),
    "reduce": lambda k, x: x * functools.reduce(lambda a, b: a + float(b), [k], 0.0),
    "sorted": lambda k, x: x * 2 if sorted([k, knobs[0]])[0] is k else x * 3,
}


def same_as_plain(f, x, changes):
    """That the jitted function is the plain one before and after each change, and keeps its program in between."""
    jitted = lm.jit(f)
    for change in (lambda: None, *changes):
        change()
        assert jitted(x).tolist() == f(x).tolist()
        hits = jitted.hits
        assert jitted(x).tolist() == f(x).tolist()
        assert jitted.hits == hits + 1


X = lnp.arange(1.0, 6.0)


@pytest.mark.parametrize("where", ["outside", "in a list", "made", "static"])
@pytest.mark.parametrize("cls", [Knob, ByRate])
@pytest.mark.parametrize("use", USES)
def test_what_special_methods_read(use, cls, where, monkeypatch):
    f, one = USES[use], cls()
    held = [one]

    def in_a_list(x):
        return f(held[0], x)

    g = {"outside": lambda x: f(one, x), "in a list": in_a_list, "made": lambda x: f(cls(), x)}.get(where)
    if g is None:
        jitted = lm.jit(f, static_argnums=0)
        for level in (2, 3, 2):
            monkeypatch.setitem(globals(), "LEVEL", level)
            monkeypatch.setattr(ByRate, "rate", level)
            assert jitted(one, X).tolist() == f(one, X).tolist()
        return

    def to(level):
        monkeypatch.setitem(globals(), "LEVEL", level)
        monkeypatch.setattr(ByRate, "rate", level)

    same_as_plain(g, X, [lambda: to(3), lambda: to(2)])


class Base:
    base = 2

    def inherited(self):
        return 2


class Entries(Base):
    rate, sizes, table = 2, [2], {"a": 2}

    def __hash__(self):
        return 1

    @staticmethod
    def static():
        return 2

    @classmethod
    def of_class(cls):
        return cls.rate

    @property
    def prop(self):
        return 2

    def method(self):
        return 2

    def __len__(self):
        return 2

    def __add__(self, other):
        return 2 + other

    def __call__(self, x):
        return x * 2

    def __getitem__(self, i):
        return 2

    def __iter__(self):
        return iter([2])

    def __enter__(self):
        return 2

    def __exit__(self, *_):
        pass

    def __bool__(self):
        return True

    def __float__(self):
        return 2.0

    def __eq__(self, other):
        return True

    def __contains__(self, x):
        return True

    def __getattr__(self, name):
        return 2


REPLACED = {
    "attribute": (lambda p, x: x * p.rate, "rate", 3),
    "attribute of a base": (lambda p, x: x * p.base, "base", 3),
    "item of a list": (lambda p, x: x * p.sizes[0], "sizes", [3]),
    "item of a dict": (lambda p, x: x * p.table["a"], "table", {"a": 3}),
    "static method": (lambda p, x: x * p.static(), "static", staticmethod(lambda: 3)),
    "class method": (lambda p, x: x * p.of_class(), "of_class", classmethod(lambda cls: 3)),
    "what a class method reads": (lambda p, x: x * p.of_class(), "rate", 3),
    "property": (lambda p, x: x * p.prop, "prop", property(lambda self: 3)),
    "method": (lambda p, x: x * p.method(), "method", lambda self: 3),
    "method of a base": (lambda p, x: x * p.inherited(), "inherited", lambda self: 3),
    "len": (lambda p, x: x * len(p), "__len__", lambda self: 3),
    "sum": (lambda p, x: x * (p + 1), "__add__", lambda self, other: 3 + other),
    "call": (lambda p, x: p(x), "__call__", lambda self, x: x * 3),
    "getitem": (lambda p, x: x * p[0], "__getitem__", lambda self, i: 3),
    "iter": (lambda p, x: x * sum(v for v in p), "__iter__", lambda self: iter([3])),
    "with": (entered, "__enter__", lambda self: 3),
    "truth": (lambda p, x: x * 2 if p else x * 3, "__bool__", lambda self: False),
    "float": (lambda p, x: x * float(p), "__float__", lambda self: 3.0),
    "equal": (lambda p, x: x * 2 if p == 1 else x * 3, "__eq__", lambda self, other: False),
    "in": (lambda p, x: x * 2 if 1 in p else x * 3, "__contains__", lambda self, x: False),
    "getattr": (lambda p, x: x * p.missing, "__getattr__", lambda self, name: 3),
    "attribute that was missing": (lambda p, x: x * p.added, "added", 3),
}


def local_class(base):
    """A class as a function makes it, which no module knows."""

    class Local(base):
        locals().update({k: v for k, v in vars(base).items() if k not in ("__dict__", "__weakref__")})
        __qualname__ = "local_class.<locals>.Local"

    return Local


@pytest.mark.parametrize("owner", ["module's", "local", "local base"])
@pytest.mark.parametrize("where", ["outside", "made", "static"])
@pytest.mark.parametrize("entry", REPLACED)
def test_entries_of_classes_that_are_replaced(entry, where, owner, monkeypatch):
    f, name, value = REPLACED[entry]
    holder = Entries if owner == "module's" else local_class(Entries)
    cls = type("Child", (holder,), {"__qualname__": "f.<locals>.Child"}) if owner == "local base" else holder
    one = cls()
    if where == "static":
        jitted = lm.jit(f, static_argnums=0)
        assert jitted(one, X).tolist() == f(one, X).tolist()
        monkeypatch.setattr(holder, name, value, raising=False)
        assert jitted(one, X).tolist() == f(one, X).tolist()
        return
    g = (lambda x: f(one, x)) if where == "outside" else (lambda x: f(cls(), x))
    same_as_plain(g, X, [lambda: monkeypatch.setattr(holder, name, value, raising=False), monkeypatch.undo])


def test_an_attribute_that_the_class_found_is_set_on_the_object():
    one = Entries()
    same_as_plain(
        lambda x: x * one.later, X, [lambda: setattr(one, "later", 5), lambda: delattr(one, "later")]
    )


class Dual:
    """Numbers with a derivative, as users write them: made in the trace by the hundred."""

    scale = 1.0

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __add__(self, other):
        return Dual(self.a + other.a, self.b + other.b)

    def __mul__(self, other):
        return Dual(self.a * other.a, Dual.scale * (self.a * other.b + self.b * other.a))


def test_arithmetic_of_objects_of_the_user():
    one = Dual(2.0, 1.0)

    def f(x):
        y = Dual(x, 1.0)
        for _ in range(5):
            y = y * one + Dual(x, 0.0)
        return y.a + y.b

    def slower():
        Dual.scale = 0.5

    def back():
        Dual.scale = 1.0

    same_as_plain(f, X, [slower, lambda: setattr(one, "a", 3.0), back])


class Listed:
    """What asks its class for its entries, of which each look makes another view."""

    size = 2

    def __eq__(self, other):
        return type(self).__dict__["size"] == other

    def __hash__(self):
        return hash(type(self).__dict__.get("size"))

    def __repr__(self):
        return f"{type(self).__name__}({Listed.__dict__['size']})"


def test_entries_asked_of_a_class_keep_the_program():
    one = Listed()
    same_as_plain(lambda x: x * 2 if one == 2 else x * 3, X, [])
    same_as_plain(lambda x: x * len(f"{one}{one!r}") if {one: 2}[one] == 2 else x, X, [])


class Callable:
    __hash__ = None

    def __call__(self, x):
        return x


def test_objects_without_a_hash_are_called():
    same_as_plain(lambda x: Callable()(x) + 1, X, [])


class Box:
    def __init__(self, **parts):
        self.__dict__.update(parts)

    def __bool__(self):
        return True


second_box = Box(value=2)
first_box = Box(part=second_box)


class OfBoxes:
    def __float__(self):
        return float(first_box.part.value + second_box.value)


def test_an_object_that_special_methods_reach_by_two_ways(monkeypatch):
    one = OfBoxes()
    same_as_plain(
        lambda x: x * float(one),
        X,
        [
            lambda: monkeypatch.setattr(second_box, "value", 5),
            lambda: monkeypatch.setitem(globals(), "second_box", Box(value=7)),
            lambda: monkeypatch.setattr(first_box, "part", Box(value=9)),
        ],
    )


def test_the_class_of_an_argument_that_is_local(monkeypatch):
    @dataclasses.dataclass
    class Pair:
        a: object

        scale = 2.0

        @property
        def scaled(self):
            return self.a * self.scale

        def __mul__(self, x):
            return self.a * x

    pair = Pair(X)
    same_as_plain(
        lambda p: p.scaled + p * 2.0,
        pair,
        [
            lambda: monkeypatch.setattr(Pair, "scale", 3.0),
            lambda: monkeypatch.setattr(Pair, "scaled", property(lambda self: self.a)),
            lambda: monkeypatch.setattr(Pair, "__mul__", lambda self, x: self.a * x * 2.0),
        ],
    )
