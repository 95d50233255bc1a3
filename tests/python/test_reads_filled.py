"""Entries that a trace finds missing and fills itself: they trace nothing again, and a later change does."""

from __future__ import annotations

import types
import weakref

import lamina as lm
import pytest


class Rule:
    def __init__(self, by):
        self.by = by
        self.parts = [by]

    def __call__(self, x):
        return x * self.by * self.parts[0]


class Lazy:
    shared: Rule | None = None

    def __init__(self):
        self.rule: Rule | None = None


class Weak:
    pass


NOTHING = object()
TABLE: dict = {}
LAZY, KEY, WEAK = Lazy(), Weak(), weakref.WeakKeyDictionary()
KEPT: Rule | None = None


def asked_first(x):
    if "rule" not in TABLE:
        TABLE["rule"] = Rule(2.0)
    return TABLE["rule"](x)


def key_of_parts(x, kind=float):
    if (kind, "rule") not in TABLE:
        TABLE[kind, "rule"] = Rule(2.0)
    return TABLE[kind, "rule"](x)


def got(x):
    rule = TABLE.get("rule")
    if rule is None:
        rule = TABLE["rule"] = Rule(2.0)
    return rule(x)


def got_or_nothing(x):
    rule = TABLE.get("rule", NOTHING)
    if rule is NOTHING:
        rule = TABLE["rule"] = Rule(2.0)
    return rule(x)


def tried(x):
    try:
        rule = TABLE["rule"]
    except KeyError:
        rule = TABLE["rule"] = Rule(2.0)
    return rule(x)


def among_keys(x):
    if "rule" not in list(TABLE):
        TABLE["rule"] = Rule(2.0)
    return TABLE["rule"](x)


def set_once(x):
    if LAZY.rule is None:
        LAZY.rule = Rule(2.0)
    return LAZY.rule(x)


def set_as_text(x):
    if not hasattr(LAZY, "late"):
        object.__setattr__(LAZY, "late", Rule(2.0))
    return getattr(LAZY, "late")(x)  # noqa: B009


def of_the_class(x):
    if Lazy.shared is None:
        Lazy.shared = Rule(2.0)
    return Lazy.shared(x)


def of_the_module(x):
    global KEPT
    if KEPT is None:
        KEPT = Rule(2.0)
    return KEPT(x)


def by_weak_key(x):
    if KEY not in WEAK:
        WEAK[KEY] = Rule(2.0)
    return WEAK[KEY](x)


@lm.jit
def inner(x):
    return asked_first(x)


def in_an_inner_one(x):
    return inner(x) if "other" not in TABLE else x


def _attribute(name):
    return lambda rule: setattr(LAZY, name, rule)


def _item(key="rule"):
    return lambda rule: TABLE.__setitem__(key, rule)


SHAPES = {
    asked_first: _item(),
    key_of_parts: _item((float, "rule")),
    got: _item(),
    got_or_nothing: _item(),
    tried: _item(),
    among_keys: _item(),
    set_once: _attribute("rule"),
    set_as_text: _attribute("late"),
    of_the_class: lambda rule: setattr(Lazy, "shared", rule),
    of_the_module: lambda rule: globals().update(KEPT=rule),
    by_weak_key: lambda rule: WEAK.__setitem__(KEY, rule),
    in_an_inner_one: _item(),
}


@pytest.fixture(autouse=True)
def empty():
    global KEPT
    KEPT = Lazy.shared = LAZY.rule = None
    vars(LAZY).pop("late", None)
    TABLE.clear()
    WEAK.clear()


def counted(f):
    traces = types.SimpleNamespace(n=0)

    def run(x):
        traces.n += 1
        return f(x)

    return lm.jit(run), traces


def rule_of(f):
    held = [*TABLE.values(), *WEAK.values(), *vars(LAZY).values(), Lazy.shared, KEPT]
    (rule,) = [x for x in held if type(x) is Rule]
    return rule


@pytest.mark.parametrize("f", SHAPES, ids=lambda f: f.__name__)
def test_what_a_trace_fills_traces_once(f):
    g, traces = counted(f)
    assert [g(3.0).item() for _ in range(3)] == [12.0] * 3 and traces.n == 1
    h, others = counted(f)  # which finds it
    assert [h(3.0).item() for _ in range(3)] == [12.0] * 3 and others.n == 1
    assert g(3.0).item() == 12.0 and traces.n == 1


@pytest.mark.parametrize("f", SHAPES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("change", ["replaced", "attribute", "deep"])
def test_a_later_change_of_it_is_noticed(f, change):
    g, _ = counted(f)
    assert g(3.0).item() == 12.0
    if change == "replaced":
        SHAPES[f](Rule(3.0))
    elif change == "attribute":
        rule_of(f).by = 4.5
    else:
        rule_of(f).parts[0] = 4.5
    assert g(3.0).item() == 27.0
    rule_of(f).by = rule_of(f).parts[0] = 1.0
    assert g(3.0).item() == 3.0


@pytest.mark.parametrize("f", [asked_first, got, tried, set_once, by_weak_key], ids=lambda f: f.__name__)
def test_what_is_taken_away_is_filled_again(f):
    g, traces = counted(f)
    g(3.0)
    first = rule_of(f)
    empty_again = {set_once: lambda: setattr(LAZY, "rule", None), by_weak_key: WEAK.clear}
    empty_again.get(f, TABLE.clear)()
    assert g(3.0).item() == 12.0 and traces.n == 2 and rule_of(f) is not first


def test_other_entries_of_a_table_change_nothing():
    g, traces = counted(asked_first)
    g(3.0)
    TABLE["other"] = 1.0
    assert g(3.0).item() == 12.0 and traces.n == 1

    def other(x):
        if "more" not in TABLE:
            TABLE["more"] = Rule(1.0)
        return asked_first(x)

    h, others = counted(other)
    assert [h(3.0).item() for _ in range(2)] == [12.0] * 2 and others.n == 1
    assert g(3.0).item() == 12.0 and traces.n == 1


COUNTS: dict = {}


def count_from_nothing(x):
    COUNTS["n"] = COUNTS.get("n", 0) + 1
    return x * COUNTS["n"]


def count_from_a_test(x):
    n = COUNTS["n"] if "n" in COUNTS else 0  # noqa: SIM401
    COUNTS["n"] = n + 1
    return x * (n + 1)


def state_from_a_default(x):
    n, names = COUNTS.get("n", (0, ()))
    COUNTS["n"] = (n + 1, (*names, "call"))
    return x * (n + 1)


def state_of_an_array(x):
    state = COUNTS.get("n")
    if state is None:
        state = lm.numpy.zeros(())
    COUNTS["n"] = state + 1
    return x * COUNTS["n"]


def flag(x):
    if COUNTS.get("n") is None:
        COUNTS["n"] = True
        return x
    return x * 2


def flag_that_was_false(x):
    if not LAZY.late:
        LAZY.late = True
        return x
    return x * 2


@pytest.mark.parametrize(
    "f",
    [
        count_from_nothing,
        count_from_a_test,
        state_from_a_default,
        state_of_an_array,
        flag,
        flag_that_was_false,
    ],
    ids=lambda f: f.__name__,
)
def test_what_goes_on_from_call_to_call_goes_on(f):
    COUNTS.clear()
    LAZY.late = False
    plain = [f(2.0) for _ in range(2)]
    COUNTS.clear()
    LAZY.late = False
    g = lm.jit(f)
    assert [g(2.0).item() for _ in range(2)] == [float(v) for v in plain] == [2.0, 4.0]


def test_what_another_wrote_while_it_was_traced_is_noticed():
    def other():
        TABLE["rule"] = Rule(5.0)

    def f(x):
        rule = TABLE.get("rule")
        write()
        return x if rule is None else rule(x)

    import threading

    def write():
        t = threading.Thread(target=other)
        t.start()
        t.join()

    g = lm.jit(f)
    assert g(1.0).item() == 1.0
    assert g(1.0).item() == 25.0


def test_a_table_that_goes_away_in_the_trace_traces_again():
    held = types.SimpleNamespace(of={"old": Rule(2.0)})
    traced = []

    def f(x):
        traced.append(1)
        names = list(held.of) if hasattr(held, "of") else []
        if names:
            held.kept = Rule(3.0)
            del held.of
            return x
        return held.kept(x)

    g = lm.jit(f)
    assert [g(1.0).item() for _ in range(3)] == [1.0, 9.0, 9.0] and len(traced) == 2
