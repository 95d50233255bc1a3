"""The copy of a function that is traced does what the function does, whatever it is written with."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import itertools
import operator
import random
import sys
import warnings
from collections import OrderedDict, defaultdict, namedtuple
from string import Template

import lamina as lm
import pytest
from lamina import _rewrite
from lamina._read_set import ReadSet
from lamina._rewrite import rewritten
from lamina._watch import Watch

RATE, COUNT, NAMES, TABLE = 0.5, 3, ["a", "b"], {"k": [1, 2], "z": {"y": 2.0}}
Pair = namedtuple("Pair", "x y")


class Box:
    total = 10

    def __init__(self, value=1.5):
        self.value = value
        self.items = [1, 2, 3]
        self.__hidden = 4

    def __getitem__(self, i):
        return self.items[i] * RATE

    def __len__(self):
        return len(self.items)

    def __iter__(self):
        return iter(self.items)

    def __contains__(self, x):
        return x in self.items

    def __eq__(self, other):
        return isinstance(other, Box) and self.value == other.value

    def __hash__(self):
        return hash(self.value)

    def __enter__(self):
        return self.value

    def __exit__(self, *_):
        return False

    @property
    def double(self):
        return self.value * 2

    @functools.cached_property
    def cached(self):
        return self.value * 3

    @classmethod
    def made(cls):
        return cls(COUNT)

    @staticmethod
    def still(x):
        return x + COUNT

    def hidden(self):
        return self.__hidden + self.double


class Child(Box):
    def __init__(self):
        super().__init__(2.5)

    def hidden(self):
        return super().hidden() + __class__.total

    def __getattr__(self, name):
        if name.startswith("dyn_"):
            return len(name) * self.value
        raise AttributeError(name)


BOX, CHILD = Box(), Child()


def control(n=5):
    out = []
    for i in range(n):
        if i == 1:
            continue
        if i > COUNT:
            break
        out.append(i * RATE)
    else:
        out.append("never")
    while n > 0:
        n -= 1
        if not n % 2 and n:
            continue
    else:
        out.append("else")
    return out, n


def errors():
    log = []
    try:
        TABLE["missing"]
    except KeyError as e:
        log.append(e.args)
    else:
        log.append("else")
    finally:
        log.append("finally")
    try:
        BOX.nothing  # noqa: B018
    except AttributeError:
        log.append("attribute")
    try:
        raise ValueError(RATE)
    except (TypeError, ValueError) as e:
        log.append(str(e))
    with contextlib.suppress(ZeroDivisionError):
        log.append(1 / (COUNT - 3))
    try:
        [1][COUNT]
    except IndexError:
        log.append("index")
    return log


def comprehensions():
    x = [i for i in range(COUNT) if i]
    y = {k: v for k, v in TABLE.items() if k in NAMES or k == "k"}
    z = {len(n) for n in NAMES}
    g = sum(i * j for i in x for j in range(i + COUNT) if j != RATE)
    nested = [[c for c in n * COUNT] for n in NAMES]
    i = "kept"
    return x, y, z, g, nested, i, [w for v in TABLE.values() if (w := len(v))], w


def closures():
    count = 0
    fs = []
    for k in range(COUNT):
        fs.append(lambda a, k=k: a * k + RATE)

    def bump(by=COUNT):
        nonlocal count
        count += by
        return count

    bump()
    bump(RATE)
    return [f(2) for f in fs], count, (lambda *a, **k: (a, k))(*NAMES, **{"q": RATE})


def globals_written():
    global COUNT
    before = COUNT
    COUNT += 1
    seen = COUNT
    COUNT = before
    return seen, COUNT, globals()["RATE"], "RATE" in globals()


def classes():
    class Local(Box):
        factor = RATE

        def __init__(self):
            super().__init__(COUNT)
            self.local = [self.factor, RATE]

        def __call__(self, x):
            return x * self.factor + self.double

        def inner(self):
            return [self.factor * i for i in self.items]

    @dataclasses.dataclass
    class Data:
        a: float = RATE
        b: list = dataclasses.field(default_factory=list)

    x = Local()
    return x(2), x.inner(), x.local, Data(), Data(a=COUNT).a, isinstance(x, Box), type(x).__qualname__


def methods():
    return (
        BOX.hidden(),
        CHILD.hidden(),
        BOX.double,
        BOX.cached,
        Box.made().value,
        BOX.still(2),
        BOX[1],
        BOX[0:2] if False else None,
        len(BOX),
        list(BOX),
        2 in BOX,
        CHILD.dyn_name,
        Box() == BOX,
        hash(BOX) == hash(1.5),
        getattr(BOX, "nope", RATE),
        hasattr(CHILD, "dyn_x"),
        hasattr(BOX, "dyn_x"),
        Box.total,
    )


def assignments():
    a, (b, *c), d = 1, NAMES + [RATE], TABLE["k"]  # noqa: RUF005
    first, second = d
    e = f = [RATE]
    box = Box()
    box.value, box.items[0] = RATE, COUNT
    box.value += 1
    box.items[1] *= COUNT
    box.items += [RATE]
    lst = [*NAMES, *range(COUNT)]
    del lst[0]
    x: float = RATE
    dct = {**TABLE, "r": RATE}
    dct["s"] = dct["r"] + 1
    dct["k"] = 0
    return a, b, c, first, second, e is f, box.value, box.items, lst, x, dct, TABLE["k"]


def texts():
    width = 8
    return (
        f"{RATE:>{width}.3f}|{COUNT!r}|{NAMES}|{BOX.value=}",
        "%s %d" % (RATE, COUNT),  # noqa: UP031
        f"{COUNT} {RATE:.2f}",
        Template("$a").substitute(a=RATE),
        ",".join(NAMES),
        str(RATE) + repr(COUNT),
    )


def operators():
    return (
        1 < COUNT < 5,
        not NAMES,
        NAMES and COUNT,
        [] or RATE,
        None if RATE > 1 else COUNT,
        COUNT // 2,
        -RATE,
        ~COUNT,
        COUNT << 1,
        RATE**2,
        divmod(COUNT, 2),
        round(RATE * COUNT, 1),
        abs(-COUNT),
        int(RATE),
        float(COUNT),
        max(RATE, COUNT),
        min(NAMES),
        sum([RATE, COUNT]),
        pow(COUNT, 2, 5),
        COUNT is None,
        RATE == 0.5,
        operator.add(RATE, COUNT),
        {COUNT: "x"}[3],
        NAMES[COUNT - 3],
        NAMES * COUNT,
        "ab"[COUNT - 2],
        complex(RATE, COUNT),
        isinstance(RATE, float),
        type(COUNT).__name__,
        bool(RATE),
        range(COUNT)[1],
    )


def library():
    d = defaultdict(list)
    d["x"].append(RATE)
    return (
        list(map(lambda n: n * COUNT, NAMES)),
        list(filter(None, [0, RATE])),
        sorted(NAMES, key=lambda n: -ord(n)),
        functools.reduce(lambda a, b: a + b * RATE, [1, 2, 3]),
        list(zip(NAMES, itertools.count())),
        dict(zip(NAMES, range(COUNT))),
        list(enumerate(NAMES, COUNT)),
        list(itertools.accumulate([1, 2, RATE])),
        OrderedDict(a=RATE),
        d,
        any(n == "b" for n in NAMES),
        list(reversed(NAMES)),
        Pair(RATE, COUNT)._replace(x=1),
        functools.partial(operator.mul, RATE)(2),
        tuple(NAMES),
        set(NAMES),
        dataclasses.asdict(_Data()),
        vars(BOX)["value"],
        random.Random(COUNT).random(),
        list(TABLE),
        list(TABLE.keys()),
        TABLE.get("none", RATE),
        TABLE["z"]["y"],
    )


@dataclasses.dataclass
class _Data:
    a: int = 1


def generators():
    def count(n):
        for i in range(n):
            got = yield i * RATE
            if got:
                yield got

    def delegated():
        total = yield from count(COUNT)
        return total

    g = count(2)
    return list(delegated()), next(g), g.send("sent"), list(g)


def asynchronous():
    async def work(x):
        await asyncio.sleep(0)
        return x * RATE

    async def main():
        return await asyncio.gather(*[work(i) for i in range(COUNT)])

    return asyncio.run(main())


def managers():
    @contextlib.contextmanager
    def scope(x):
        yield x * RATE

    with scope(2) as a, BOX as b, contextlib.nullcontext(COUNT) as c:
        return a, b, c


def wrapped():
    def twice(f):
        @functools.wraps(f)
        def run(*args, **kwargs):
            return f(*args, **kwargs) + f(*args, **kwargs)

        return run

    @twice
    @functools.lru_cache
    def f(x, /, y=RATE, *, z=COUNT):
        """Doc."""
        return x * y + z

    return f(1), f(2, z=1), f.__name__, f.__doc__


def frames():
    return sys._getframe().f_code.co_name, sorted(locals())


def recursion(n=4):
    return 1 if n <= 1 else n * recursion(n - 1)


def warned():
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        warnings.warn("here", stacklevel=1)
    return len(w)


def matched():
    out = []
    for subject in (RATE, NAMES, {"k": COUNT}, Pair(1, 2), BOX, "text", None):
        match subject:
            case float(x):
                out.append(x)
            case [a, *rest]:
                out.append((a, rest))
            case {"k": v, **others}:
                out.append((v, others))
            case Pair(x=1, y=y):
                out.append(y)
            case Box(value=v) if v > RATE:
                out.append(v)
            case "text" | "other":
                out.append("literal")
            case _:
                out.append("none")
    return out


FUNCTIONS = [
    v for v in list(vars().values()) if getattr(v, "__module__", "") == __name__ and hasattr(v, "__code__")
]


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_the_copy_does_what_the_function_does(f):
    assert rewritten(f.__code__) is not None
    CHILD.__dict__.pop("cached", None)
    want = f()
    with Watch(ReadSet()) as watch:
        got = watch.plain(watch.made(watch.entered(f)()))
        text = repr(got)
    assert text == repr(want)
    assert type(RATE) is float and type(COUNT) is int and BOX.items == [1, 2, 3] and TABLE["k"] == [1, 2]
    assert repr(f()) == repr(want)


def test_a_copy_that_outlives_its_trace_is_plain_code():
    kept = []

    def f(x):
        kept.append(lambda: RATE * BOX.value + len(NAMES) + TABLE["k"][0])
        return x * kept[0]()

    lm.jit(f)(1.0)
    assert kept[0]() == 3.75 and type(kept[0]()) is float


def test_edited_source_is_not_used(tmp_path):
    file = tmp_path / "edited.py"
    text = "R = 2.0\ndef f(x):\n    return x * R\n"
    file.write_text("# one more line\n" + text.replace("*", "+"))
    names = {}
    exec(compile(text, str(file), "exec"), names)
    assert rewritten(names["f"].__code__) is None
    f = lm.jit(names["f"])
    assert f(3.0).item() == 6.0
    names["R"] = 5.0
    assert f(3.0).item() == 15.0


def test_errors_name_the_line_of_the_function():
    def f(x):
        y = x * RATE
        return y + TABLE["none"]

    with pytest.raises(KeyError) as e:
        lm.jit(f)(1.0)
    frame = e.traceback[-1]
    names = [t.name for t in e.traceback]
    assert "f" in names and frame.path.name in ("test_watched_code.py", "_watch.py")
    (mine,) = [t for t in e.traceback if t.name == "f"]
    assert mine.lineno + 1 == f.__code__.co_firstlineno + 2


def test_objects_with_a_lookup_of_their_own_and_no_source():
    names = {"__name__": "of_no_file", "ModuleType": type(sys)}
    exec(
        "class Lazy(ModuleType):\n"
        "    def __getattribute__(self, name):\n"
        "        return 2.0 if name == 'k' else object.__getattribute__(self, name)\n"
        "class Plain:\n"
        "    def __init__(self): self.k = 3.0\n"
        "    def __getattribute__(self, name):\n"
        "        return object.__getattribute__(self, '__dict__')[name] if name == 'k' else None\n",
        names,
    )
    module, plain = names["Lazy"]("lazy"), names["Plain"]()
    assert lm.jit(lambda x: x * module.k + plain.k)(1.0).item() == 5.0


def test_what_can_be_called_is_a_leaf_as_it_is():
    class Meta(type):
        def __call__(cls, *args):
            return super().__call__(*args)

    class OfMeta(metaclass=Meta):
        pass

    class Plain:
        def __call__(self, x):
            return x * 2

    plain, seen = Plain(), []

    def f(x):
        lm.tree.map(seen.append, OfMeta)
        lm.tree.map(lambda c, d: seen.extend((c, d)), plain, OfMeta)
        seen.extend(lm.tree.leaves(plain) + lm.tree_util.tree_leaves(OfMeta))
        return lm.tree.map(plain, [x])[0]

    assert lm.jit(f)(3.0).item() == 6.0
    wanted = [OfMeta, plain, OfMeta, plain, OfMeta]
    assert len(seen) == len(wanted) and all(a is b for a, b in zip(seen, wanted, strict=True))


def test_code_without_source_is_told_integers_themselves():
    names = {"__name__": "of_no_file"}
    exec("def kinds(n, *, m):\n    return type(n) is int, type(m) is bool, n\n", names)
    kinds = names["kinds"]

    class Settings:
        steps, on = 3, True

    def f(x):
        of_int, of_bool, n = kinds(Settings.steps, m=Settings.on)
        return x * n if of_int and of_bool else -x

    g = lm.jit(f)
    assert g(2.0).item() == 6.0
    Settings.steps = 5
    assert g(2.0).item() == 10.0


MARGINS = '''
import functools
from math import (
sqrt,
    floor)
RATE = 2.0
def same(f): return f
@same
@functools.wraps(
    same
)
def decorated(x):
    return x * RATE
def text(x):
    s = """
def text(x): pass
at the margin
"""
    return x * RATE + len(s)
def brackets(x):
    y = max(x,
RATE)
    return y + floor(
sqrt(4.0)) * RATE
class Box:
    def method(self, x):
        return (lambda y: y * RATE)(x)
    @property
    def half(self): return RATE / 2
if RATE > 5:
    def chosen(x): return x
else:
    def chosen(x):
        return x * RATE
try:
    pass
finally:
    late = lambda x: x * RATE
one, other = (lambda x: x * RATE), (lambda x: x + RATE)
async def waits(x): return x * RATE
'''


def test_statements_are_found_by_their_margin(tmp_path, monkeypatch):
    """Only a function that stands in no statement of its own costs a look at the whole file."""
    path = tmp_path / "margins_of_statements.py"
    path.write_text(MARGINS + "\n".join(f"def f{i}(x):\n    return x * RATE + {i}\n" for i in range(300)))
    monkeypatch.syspath_prepend(str(tmp_path))
    import margins_of_statements as m

    found = {
        "decorated": m.decorated.__code__,
        "brackets": m.brackets.__code__,
        "text": m.text.__code__,
        "method": m.Box.method.__code__,
        "half": m.Box.half.fget.__code__,
        "one": m.one.__code__,
        "other": m.other.__code__,
        "waits": m.waits.__code__,
        "f7": m.f7.__code__,
        "f299": m.f299.__code__,
    }
    for name, code in found.items():
        assert rewritten(code) is not None, name
    assert "whole" not in vars(_rewrite._files[str(path)])
    for code in (m.chosen.__code__, m.late.__code__):
        assert rewritten(code) is not None
    x = lm.numpy.arange(3.0) + 1
    for f in (m.decorated, m.text, m.brackets, m.Box().method, m.chosen, m.late, m.one, m.other, m.f299):
        g = lm.jit(f) if f is not m.brackets else lm.jit(f, static_argnums=0)
        at = 3.0 if f is m.brackets else x
        before = g(at)
        m.RATE = 7.0  # a copy with hooks sees that it has changed
        after = g(at)
        m.RATE = 2.0
        assert (before != after).all() if f is not m.brackets else before != after, f


def test_imports_are_read_where_the_code_uses_their_names(tmp_path, monkeypatch):
    statements = [
        "import math as numbers_\n",
        "import os.path\n",
        "from json import (\n    dumps,\n)\n",
        "def plain(x):\n    return x * 2\n",
        "def calls(x):\n    return numbers_.floor(x)\n",
        "def joins(x):\n    return os.path.join(dumps(x), 'a')\n",
    ]
    (tmp_path / "imports_of_statements.py").write_text("".join(statements))
    monkeypatch.syspath_prepend(str(tmp_path))
    import imports_of_statements as m

    read: list[str] = []
    parse = _rewrite.parse
    monkeypatch.setattr(_rewrite, "parse", lambda text: (read.append(text.lstrip()), parse(text))[1])
    for f, expected in ((m.plain, [3]), (m.calls, [4, 0]), (m.joins, [5, 1, 2])):
        read.clear()
        assert rewritten(f.__code__) is not None
        assert read == [statements[i] for i in expected]
