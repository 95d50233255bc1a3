"""jit(control_flow="convert"): transforms of converted functions, what stands for what Python does, and messages."""

from __future__ import annotations

import contextlib
import linecache
import traceback
import types

import lamina as lm
import lamina.lax as lax
import lamina.numpy as lnp
import numpy as np
import pytest
from control_flow_grammar import Program
from lamina import _source


def convert(f):
    return lm.jit(f, control_flow="convert")


def caught(kind, f, *args):
    with pytest.raises(kind) as e:
        f(*args)
    return str(e.value)


def piecewise(x):
    if x < 0:
        return 0.0
    if x > 6:
        return 6.0 * x
    return x * x * x


def test_derivatives_and_batches_of_branches():
    f = convert(piecewise)
    points = [-1.0, 2.0, 7.0]
    assert [lm.grad(f)(x).item() for x in points] == [0.0, 12.0, 6.0]
    assert [lm.grad(lm.grad(f))(x).item() for x in points] == [0.0, 12.0, 0.0]
    assert [lm.jvp(f, (x,), (2.0,))[1].item() for x in points] == [0.0, 24.0, 12.0]
    np.testing.assert_array_equal(lm.vmap(f)(lnp.array(points)).numpy(), [0, 8, 42])
    np.testing.assert_array_equal(lm.vmap(lm.grad(f))(lnp.array(points)).numpy(), [0, 12, 6])
    np.testing.assert_array_equal(lm.jit(lm.vmap(lm.grad(f)))(lnp.array(points)).numpy(), [0, 12, 6])


def test_derivatives_and_batches_of_loops():
    @convert
    def horner(x, coefficients):
        total = 0.0
        for c in coefficients:
            if c > 0:
                total = total * x + c
        return total

    c = lnp.array([1.0, -2.0, 3.0] * 12)
    kept = [v for v in c.numpy().tolist() if v > 0]
    x = 0.5
    assert horner(x, c).item() == pytest.approx(np.polyval(kept, x), rel=1e-6)
    assert lm.grad(horner)(x, c).item() == pytest.approx(np.polyval(np.polyder(kept), x), rel=1e-5)
    assert lm.grad(horner, 1)(x, c).numpy()[-1] == 1.0
    text = horner.trace(x, c).as_text()
    assert text.count("scan(") == 1 and "while(" not in text

    @convert
    def steps(x):
        n = 0
        while x > 1:
            x = x / 2
            n += 1
        return x, n

    np.testing.assert_array_equal(lm.vmap(steps)(lnp.array([1.0, 8.0, 100.0]))[1].numpy(), [0, 3, 7])
    assert lm.jvp(lambda v: steps(v)[0], (8.0,), (1.0,))[1].item() == 0.125


def test_gradients_go_through_loops_that_values_end():
    @convert
    def root(a):
        x = a
        while abs(x * x - a) > 1e-5:
            x = 0.5 * (x + a / x)
        return x

    assert lm.grad(root)(2.0).item() == pytest.approx(0.5 / 2**0.5, rel=1e-4)

    @convert
    def horner(x):
        total = 0.0
        for i in range(20):
            if total > 100:
                break
            total = total * x + i
        return total

    assert lm.grad(horner)(2.0).item() == 201.0
    assert lm.vmap(lm.grad(horner))(lnp.array([2.0, 2.0])).numpy().tolist() == [201.0, 201.0]


def test_batches_of_random_programs_are_their_calls():
    arguments = [(0, 0, 0), (3, 5, 2), (50, 2, 9), (-3, 8, 4)]
    batches = 0
    for seed in range(40_000, 40_030):
        f = Program(seed).function(f"<batch {seed}>")
        jitted = convert(f)
        good, want = [], []
        for args in arguments:
            with contextlib.suppress(ValueError, UnboundLocalError):
                want.append([int(x) for x in f(*args)])
                good.append(args)
        if len(good) < 2:
            continue
        got = lm.vmap(jitted)(*(lnp.array(column) for column in zip(*good)))
        rows = np.stack([np.broadcast_to(v.numpy(), (len(good),)) for v in got], 1)
        assert rows.tolist() == want, seed
        batches += 1
    assert batches > 10


def test_functions_given_to_transforms_inside_are_converted():
    @convert
    def f(x):
        def loss(w):
            if w > 1:
                return w**3
            return w

        slope = lm.grad(loss)(x)
        if slope > 5:
            slope = 5.0
        return slope

    assert [f(v).item() for v in (0.5, 1.25, 3.0)] == [1.0, 4.6875, 5.0]

    @convert
    def g(xs):
        def step(total, x):
            if x > 0:
                total = total + x
            return total, total

        return lax.scan(step, 0.0, xs)

    last, all_ = g(lnp.array([1.0, -2.0, 3.0]))
    assert last.item() == 4.0 and all_.numpy().tolist() == [1.0, 1.0, 4.0]


def test_plain_values_stay_pythons():
    calls = []

    @convert
    def f(x, n=3, name="sum"):
        parts = []
        for i in range(n):
            calls.append(i)
            if name == "sum" and i != 1:
                parts.append(x * i)
        return sum(parts)

    assert f(2.0).item() == 4.0
    assert calls == [0, 1, 2]
    assert "case" not in f.trace(2.0).as_text()


def test_writes_to_arrays_are_seen_where_python_shows_them():
    @convert
    def fill(x, n):
        for i in range(n):
            x[i] = i * 2.0
            if x[i] > 3:
                break
        return x.sum()

    x = lnp.zeros(5)
    assert fill(x, 5).item() == 6.0
    assert x.numpy().tolist() == [0.0, 2.0, 4.0, 0.0, 0.0]

    @convert
    def one_side(x, y):
        alias = x
        if y > 0:
            alias[0] = y
        return x + 0.0

    assert one_side(lnp.zeros(2), 3.0).numpy().tolist() == [3.0, 0.0]
    assert one_side(lnp.zeros(2), -3.0).numpy().tolist() == [0.0, 0.0]


def test_free_numbers_are_parameters_of_branches_and_loops():
    start, limit, count = 2.0, 5.0, 3

    @convert
    def f(x):
        y, k = start, count
        if x > 0:
            y = limit
        while y < 20:
            y = y * 1.5 + start
            k += 1
        return y, k, min(limit, x), limit if x > 0 else start

    def want(x):
        y, k = limit if x > 0 else start, count
        while y < 20:
            y = y * 1.5 + start
            k += 1
        return [y, k, min(limit, x), limit if x > 0 else start]

    def compiled():
        return [e["id"] for e in lm.cache.entries() if e["kind"] == "jit"]

    assert [v.item() for v in f(1.0)] == want(1.0)
    before = compiled()
    start, limit, count = 3.0, 7.0, 4
    for x in (1.0, -1.0):
        got = f(x)
        assert [v.item() for v in got] == want(x)
        assert [v.dtype.name for v in got] == ["float32", "int32", "float32", "float32"]
    assert compiled() == before


def test_lists_are_read_at_traced_indices():
    @convert
    def f(n):
        steps = [0.5, 2.0, -1.0]
        x, i = 1.0, 0
        while i < n:
            x = x * steps[i % 3] + steps[-1]
            i += 1
        return x

    for n in (0, 1, 5):
        x = 1.0
        for i in range(n):
            x = x * [0.5, 2.0, -1.0][i % 3] - 1.0
        assert f(n).item() == x

    @convert
    def g(n):
        return ["a", 1.0][n % 2]

    assert "Make the index a plain integer" in caught(TypeError, g, 1)


def test_types_of_two_sides_are_promoted():
    @convert
    def f(x):
        y = 1
        if x > 0:
            y = x
        return y

    assert f(2.5).item() == 2.5 and f(-1.0).item() == 1.0
    assert f(2.5).dtype == lnp.float32

    @convert
    def g(n):
        total = 0
        while n > 0:
            total = total + 0.5
            n -= 1
        return total

    assert g(3).item() == 1.5


def from_source(source, name):
    """A function of a file that no tool has changed (pytest rewrites `assert` in this one)."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    names: dict[str, object] = {}
    exec(compile(source, name, "exec"), names)
    return names["f"]


ROOT = """\
def f(x):
    if x < 0:
        raise ArithmeticError("negative")
    assert x < 100, "too large"
    return x**0.5
"""


def test_raise_and_assert_come_when_the_program_runs():
    root = convert(from_source(ROOT, "<root>"))
    assert root(4.0).item() == 2.0
    assert caught(ArithmeticError, root, -1.0) == "negative"
    assert caught(AssertionError, root, 400.0) == "too large"
    assert lm.grad(root)(4.0).item() == 0.25
    assert root(9.0).item() == 3.0
    with pytest.raises(ArithmeticError):
        lm.vmap(root)(lnp.array([1.0, -1.0])).numpy()

    @convert
    def last(x):
        while x > 0:
            x = x - 1
            if x > 5:
                raise LookupError("far")
        return x

    assert last(3.5).item() == -0.5
    assert caught(LookupError, last, 50.0) == "far"


def finally_raises(a, b):
    if a > 5:
        raise TypeError("before")
    try:
        if b > 0:
            raise ValueError("try")
        b += 1
    finally:
        if a > 2:
            raise KeyError("finally")
        b += 2
    if b < -1:
        raise IndexError("after")
    return a + b


def finally_in_a_loop(a, b):
    for i in range(3):
        try:
            if b == i:
                raise ValueError("try")
            if a == i:
                break
        finally:
            if b > 1:
                a += 1
    return a


def finally_in_finally(a, b):
    try:
        try:
            if a > 0:
                raise ValueError("inner")
        finally:
            if b > 0:
                raise KeyError("inner finally")
    finally:
        if a < -5:
            raise TypeError("finally")
    return a


def finally_without_a_value(a, b):
    if b > 0:
        c = b
    try:
        if a > 0:
            raise ValueError("try")
    finally:
        a += c
    return a


@pytest.mark.parametrize(
    "f",
    [finally_raises, finally_in_a_loop, finally_in_finally, finally_without_a_value],
    ids=lambda f: f.__name__,
)
def test_what_a_finally_raises_comes_in_the_place_of_what_its_try_raised(f):
    def outcome(g, *args):
        try:
            return int(g(*args))
        except Exception as e:
            return type(e), e.args if type(e) is not UnboundLocalError else ()

    converted = convert(f)
    for a in (-7, -1, 0, 1, 3, 6):
        for b in (-4, -1, 0, 1, 2):
            assert outcome(converted, a, b) == outcome(f, a, b), (a, b)


def test_what_a_side_does_before_it_raises_is_undone():
    def f(n):
        for k in range(n % 5):
            z, n = n, z - k  # noqa: F821
        return k, z

    assert "'z'" in caught(UnboundLocalError, convert(f), 3)
    assert "'k'" in caught(UnboundLocalError, convert(f), 0)

    def g(x):
        seen = [0.0]

        def note(v):
            seen[0] = seen[0] + v
            return v

        inside = 0 < note(x) < note(2 * x) < note(3.0)
        return inside, seen[0]

    for x in (-1.0, 1.0, 2.0):
        assert [v.item() for v in convert(g)(x)] == list(g(x))


def test_an_endless_loop_ends_by_what_leaves_it():
    def f(x):
        while True:
            while True:
                x = x - 1
                if x < 3:
                    return x
                if x < 5:
                    break
            x = x - 0.5

    for x in (10.0, 6.25, 0.0):
        assert convert(f)(x).item() == f(x)


def test_a_variable_without_a_value_raises_only_where_it_is_used():
    @convert
    def f(x):
        if x > 0:
            y = 2 * x
        if x > 1:
            return y
        return x

    assert f(3.0).item() == 6.0 and f(-1.0).item() == -1.0

    @convert
    def g(x):
        while x > 1:
            half = x / 2
            x = half
        return half

    assert g(8.0).item() == 1.0
    assert "'half'" in caught(UnboundLocalError, g, 0.5)


LINES = """\
def f(x):
    total = 0.0
    while x > 0:
        if x > 5:
            total = total + undefined_name
        x = x - 1
    return total
"""


def test_tracebacks_have_the_users_lines():
    name = "<lines of converted code>"
    f = from_source(LINES, name)
    with pytest.raises(NameError) as e:
        convert(f)(3.0)
    frames = [(f.lineno, f.name) for f in traceback.extract_tb(e.tb) if f.filename == name]
    assert frames[-1] == (5, "f")
    assert {name for _, name in frames} == {"f"}


def test_functions_that_do_not_ask_for_it_are_as_they_were():
    from lamina import _rewrite

    def f(x):
        if x > 0:
            return x
        return -x

    assert lm.jit(f)(-2.0).item() == 2.0
    assert (id(f.__code__), False) in _rewrite._codes and (id(f.__code__), True) not in _rewrite._codes


# --- messages ---


def grows(x):
    out = []
    while x > 1:
        out.append(x)
        x = x / 2
    return out


def new_key(x):
    d = {"b": x}
    if x > 0:
        d["a"] = x
    return d


def other_shape(x):
    y = lnp.ones(3)
    if x > 0:
        y = lnp.ones(4)
    return y


def shape_in_a_loop(x):
    y = lnp.ones(1)
    while x > 0:
        y = lnp.concatenate([y, y])
        x = x - 1
    return y


def strings(x):
    return "positive" if x > 0 else "negative"


def no_return(x):
    if x > 0:
        return x


def generator(x):
    def g():
        if x > 0:
            yield x

    return list(g())


def filtered(x):
    return [v for v in (x, 2 * x) if v > 0]


def handled(x):
    try:
        if x < 0:
            raise ValueError("negative")
        y = x
    except ValueError:
        y = 0.0
    return y


def length(n):
    return sum([i for i in range(n)])


def advanced(x):
    it = iter([1.0, 2.0, 3.0])
    if x > 0:
        x = next(it)
    return x + next(it)


def found(x):
    best = None
    while x > 1:
        best = x
        x = x / 2
    return best


def dropped(x):
    try:
        if x > 0:
            raise ValueError("dropped")
    finally:
        if x > 2:
            return 2 * x  # noqa: B012
    return x


REFUSALS = {
    dropped: ("`return`", "in `finally` drops what is raised", "Leave after"),
    grows: ("out[0]", "container cannot grow", "largest size"),
    new_key: ("d['a']", "one side of a branch", "Add it before"),
    other_shape: ("`y`", "float32[4] on one side and float32[3] on the other", "before the branch"),
    shape_in_a_loop: ("`y`", "float32[1] before the body", "float32[2] after it", "another name"),
    strings: ("'positive' on one side and 'negative' on the other", "Give both sides arrays"),
    no_return: ("on one path and nothing on another", "add a `return`"),
    generator: ("`x > 0` depends on x of generator", "g is a generator", "plain function"),
    filtered: ("condition of a comprehension", "where"),
    handled: ("raise ValueError", "the handler cannot run", "Test before"),
    length: ("comprehension", "no length", "static_argnums"),
    advanced: ("iterator (`it`)", "Take its elements before"),
    found: ("`best`", "None before the body", "before the loop"),
}


@pytest.mark.parametrize("f", REFUSALS, ids=lambda f: f.__name__)
def test_what_cannot_be_converted_is_named_with_its_line_and_a_remedy(f):
    text = caught(TypeError, convert(f), 3)
    lines = range(f.__code__.co_firstlineno, f.__code__.co_firstlineno + 10)
    assert any(f"test_converted_control_flow.py:{n}" in text for n in lines), text
    assert all(part in text for part in REFUSALS[f]), text
    assert len(text.splitlines()) <= 6


def test_jitted_functions_are_converted_where_a_converted_one_calls_them():
    def cut(x):
        if x > 100:
            return x
        return -(x**3)

    @lm.jit
    def halvings(x):
        n = 0
        while x > 1:
            x = x / 2
            n += 1
        return n

    class Scale:
        def __init__(self):
            self.factor = 2.0

        @lm.jit
        def __call__(self, x, k=1):
            if x > k:
                return x * self.factor
            return x

    scale, plain = Scale(), lm.jit(cut)
    assert convert(lambda x: scale(x))(3.0) == 6 and convert(lambda x: scale(x, k=5))(3.0) == 3
    assert convert(lambda x: halvings(x) + 1)(8.0) == 4
    assert [plain(v).item() for v in (2.0, 200.0)] == [-8, 200]  # a path for each
    for _ in range(2):
        inside = convert(lambda x: plain(x) + 1)
        assert [inside(v).item() for v in (2.0, 200.0)] == [-7, 201]
        assert convert(lm.vmap(lm.grad(plain)))(lnp.array([2.0, 200.0])).tolist() == [-12, 1]
        assert [plain(v).item() for v in (2.0, 200.0)] == [-8, 200]

    kept = lm.jit(lambda x: [y for y in [x, x] if y > 0])
    text = caught(TypeError, lambda: convert(lambda x: kept(x))(3.0))
    assert "condition of a comprehension" in text
    strict = lm.jit(cut, branches="error")
    assert 'branches="error"' in caught(TypeError, lambda: convert(lambda x: strict(x))(3.0))


def test_no_more_than_the_function_is_read_for_an_error(monkeypatch):
    """From Python 3.12 on conditions of comprehensions have no frame of their own: theirs is told by its place."""
    read = []
    parse = _source.parse
    monkeypatch.setattr(_source, "parse", lambda text, *mode: read.append(text) or parse(text, *mode))

    def kept(xs):
        return [x for x in xs if x > 0]

    line = kept.__code__.co_firstlineno + 1
    text = linecache.getline(__file__, line)
    for part, expected in (("x > 0", True), ("[x for", False)):
        begin = text.index(part)
        place = (line, line, begin, begin + len(part))
        monkeypatch.setattr(_source, "_positions", lambda frame, place=place: place)
        frame = types.SimpleNamespace(f_code=kept.__code__)
        assert _source.filters_a_comprehension(frame) is expected
    assert [len(text.splitlines()) for text in read] == [3, 3]


def test_the_way_is_named_in_words():
    text = caught(ValueError, lambda: lm.jit(lambda x: x, control_flow="autograph"))
    assert "'trace' or 'convert'" in text
