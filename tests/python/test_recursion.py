"""Recursion as deep as traced values say, in jit(control_flow="convert")."""

from __future__ import annotations

import lamina as lm
import lamina.lax as lax
import lamina.numpy as lnp
import numpy as np
import pytest


def convert(f):
    return lm.jit(f, control_flow="convert")


def numbers(x):
    return lm.tree.map(lambda v: v.item(), x)


def factorial(n):
    if n <= 1:
        return 1
    return n * factorial(n - 1)


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def ackermann(m, n):
    if m == 0:
        return n + 1
    if n == 0:
        return ackermann(m - 1, 1)
    return ackermann(m - 1, ackermann(m, n - 1))


def even(n):
    return True if n == 0 else odd(n - 1)


def odd(n):
    return False if n == 0 else even(n - 1)


def female(n):
    return 1 if n == 0 else n - male(female(n - 1))


def male(n):
    return 0 if n == 0 else n - female(male(n - 1))


def divisor(a, b):
    return a if b == 0 else divisor(b, a % b)


def moves(n, a, b, c):
    if n == 0:
        return 0
    return moves(n - 1, a, c, b) + 1 + moves(n - 1, c, b, a)


def accumulated(n, product=1):
    return product if n <= 1 else accumulated(n - 1, product * n)


def halving(n, *, scale=2.0):
    return 1.0 if n == 0 else scale * halving(n - 1, scale=scale * 0.5)


def in_a_while(n):
    total, k = 1, 0
    while k < n:
        total = total + in_a_while(k)
        k += 1
    return total


def in_a_for(n):
    total = 1
    for k in range(n):
        if k == 3:
            continue
        if total > 20:
            break
        total = total + in_a_for(k)
    return total


def in_an_unrolled_for(n):
    total = 1
    for k in range(3):
        if n > k:
            total = total + in_an_unrolled_for(n - k - 1)
    return total


def in_a_condition(n):
    k = 0
    while k < 3 and (2 if n <= 1 else in_a_condition(n - 1)) > k:
        k += 1
    return k


def several_results(n):
    if n == 0:
        return {"depth": 0, "pair": (1, 0.5)}
    inner = several_results(n - 1)
    first, second = inner["pair"]
    return {"depth": inner["depth"] + 1, "pair": (first + n, second * 2)}


def with_try_and_finally(n):
    try:
        if n == 0:
            return 0
        return 1 + with_try_and_finally(n - 1)
    finally:
        n = 0


def much_after_a_branch(n):
    if n < 1:
        a = 1
    elif n % 2 == 0:
        a = much_after_a_branch(n - 1)
    else:
        a = much_after_a_branch(n - 2) + 1
    for k in range(12):
        a = (a * 3 + k * n) % 1009
    if a % 3 == 0 and n > 4:
        a = a + much_after_a_branch(n // 2)
    return a


PROGRAMS = [
    (factorial, [(k,) for k in range(8)]),
    (fibonacci, [(k,) for k in range(12)]),
    (ackermann, [(0, 3), (1, 2), (2, 3), (3, 3)]),
    (even, [(k,) for k in range(5)]),
    (female, [(k,) for k in range(14)]),
    (divisor, [(84, 36), (7, 0), (13, 8)]),
    (moves, [(k, 0, 1, 2) for k in range(6)]),
    (accumulated, [(k,) for k in range(7)]),
    (halving, [(k,) for k in range(5)]),
    (in_a_while, [(k,) for k in range(7)]),
    (in_a_for, [(k,) for k in range(8)]),
    (in_an_unrolled_for, [(k,) for k in range(7)]),
    (in_a_condition, [(k,) for k in range(5)]),
    (several_results, [(k,) for k in range(4)]),
    (with_try_and_finally, [(k,) for k in range(4)]),
    (much_after_a_branch, [(k,) for k in range(12)]),
]


@pytest.mark.parametrize(("f", "arguments"), PROGRAMS, ids=[f.__name__ for f, _ in PROGRAMS])
def test_one_program_gives_what_python_does(f, arguments):
    jitted = convert(f)
    for args in arguments:
        assert numbers(jitted(*args)) == f(*args)
    assert len(jitted._entries) == 1
    lanes = [lnp.array(column) for column in zip(*arguments)]
    rows = lm.tree.map(lambda v: v.numpy(), lm.vmap(jitted)(*lanes))
    for k, args in enumerate(arguments):
        assert lm.tree.map(lambda v, k=k: v[k].item(), rows) == f(*args)


def test_all_depths_are_one_trace():
    jitted = convert(lambda n, x: steps(n, x))
    jitted(3, 0.1)
    before = lm.cache.stats()["misses"]
    for n in range(12):
        jitted(n, 0.2)
    assert jitted.hits == 12
    assert lm.cache.stats()["misses"] == before


def steps(n, x):
    if n == 0:
        return x
    if n % 3 == 0:
        return x * steps(n - 1, lnp.sin(x))
    return steps(n - 1, x) + x * steps(n - 2, x * 0.5) if n > 1 else steps(n - 1, x * x)


def in_numpy(n, x):
    if n == 0:
        return x
    if n % 3 == 0:
        return x * in_numpy(n - 1, np.sin(x))
    return in_numpy(n - 1, x) + x * in_numpy(n - 2, x * 0.5) if n > 1 else in_numpy(n - 1, x * x)


def test_derivatives():
    f, x, h = convert(steps), 0.7, 1e-4
    for n in (0, 1, 4, 7):
        first = (in_numpy(n, x + h) - in_numpy(n, x - h)) / (2 * h)
        second = (in_numpy(n, x + h) - 2 * in_numpy(n, x) + in_numpy(n, x - h)) / h**2
        of_x = lambda v: f(n, v)  # noqa: B023, E731
        assert lm.grad(of_x)(x).item() == pytest.approx(first, rel=1e-5)
        assert lm.jvp(of_x, (x,), (2.0,))[1].item() == pytest.approx(2 * first, rel=1e-5)
        assert lm.vjp(of_x, x)[1](3.0)[0].item() == pytest.approx(3 * first, rel=1e-5)
        assert lm.linearize(of_x, x)[1](1.0).item() == pytest.approx(first, rel=1e-5)
        assert lm.grad(lm.grad(of_x))(x).item() == pytest.approx(second, rel=1e-4, abs=1e-4)
        assert lm.jacfwd(lm.grad(of_x))(x).item() == pytest.approx(second, rel=1e-4, abs=1e-4)
        assert lm.hessian(of_x)(x).item() == pytest.approx(second, rel=1e-4, abs=1e-4)


def test_batches_of_derivatives():
    f = convert(steps)
    n, x = np.array([0, 3, 7, 5, 1]), np.array([0.3, 0.5, 0.7, -0.2, 0.9], "float32")
    want = [lm.grad(f, 1)(int(a), float(b)).item() for a, b in zip(n, x)]
    np.testing.assert_allclose(lm.vmap(lm.grad(f, 1))(lnp.array(n), lnp.array(x)).numpy(), want, rtol=1e-6)
    np.testing.assert_allclose(
        lm.jit(lm.vmap(lm.grad(f, 1)))(lnp.array(n), lnp.array(x)).numpy(), want, rtol=1e-6
    )
    total = lm.grad(lambda v: lnp.sum(lm.vmap(f)(lnp.array(n), v)))(lnp.array(x)).numpy()
    np.testing.assert_allclose(total, want, rtol=1e-6)


VALUES = np.array([1.0, 2.0, 3.0, 4.0, 5.0], "float32")
LEFT, RIGHT = np.array([1, 3, -1, -1, -1]), np.array([2, 4, -1, -1, -1])


def test_trees_in_arrays():
    def total(value, left, right, i):
        if i < 0:
            return 0.0
        return value[i] * (1.0 + total(value, left, right, left[i]) + total(value, left, right, right[i]))

    f = convert(total)
    args = [lnp.array(a) for a in (VALUES, LEFT, RIGHT)]
    assert [f(*args, i).item() for i in range(5)] == [total(VALUES, LEFT, RIGHT, i) for i in range(5)]
    slope = lm.grad(f)(*args, 0).numpy()
    for k in range(5):
        h = np.zeros(5)
        h[k] = 1e-4
        near = [total(VALUES + s * h, LEFT, RIGHT, 0) for s in (1, -1)]
        assert slope[k] == pytest.approx((near[0] - near[1]) / 2e-4, rel=1e-4)

    def best(tree, i):
        found, count = tree["value"][i], 1
        for child in (tree["left"], tree["right"]):
            if child[i] >= 0:
                other, n = best(tree, child[i])
                found, count = max(found, other), count + n
        return found, count

    tree = dict(zip(("value", "left", "right"), args))
    assert numbers(convert(best)(tree, 0)) == (5.0, 5)


def test_gradients_of_many_calls():
    def weighted(n, x):
        return x * (n + 1) if n < 2 else weighted(n - 1, x) + x * weighted(n - 2, x)

    f = convert(weighted)
    for n in (3, 9, 13, 18):
        want = (weighted(n, 0.70001) - weighted(n, 0.69999)) / 2e-5
        assert lm.grad(f, 1)(n, 0.7).item() == pytest.approx(want, rel=1e-4)

    def total(value, i):
        if i >= 200:
            return 0.0
        if i % 3 == 0:
            return value[i] * (1.0 + 0.3 * total(value, 2 * i + 1)) + value[i // 2] * total(value, 2 * i + 2)
        return lnp.sin(value[i]) + total(value, 2 * i + 1) * value[i]

    value = np.cos(np.arange(200.0)).astype("float32")
    slope = lm.grad(convert(total))(lnp.array(value), 0).numpy()
    for k in (0, 1, 4, 9, 31, 95, 150):
        h = np.zeros(200)
        h[k] = 1e-4
        near = [total(np.float64(value) + s * h, 0) for s in (1, -1)]
        assert slope[k] == pytest.approx(float(near[0] - near[1]) / 2e-4, rel=1e-3, abs=1e-4)
    batch = lm.vmap(lm.grad(convert(total)), in_axes=(None, 0))(lnp.array(value), lnp.array([0, 3])).numpy()
    np.testing.assert_allclose(batch[0], slope, rtol=1e-5, atol=1e-6)


def test_adaptive_quadrature():
    def integral(a, b, tolerance):
        middle = 0.5 * (a + b)
        f = lambda x: lnp.sin(x) * x  # noqa: E731
        whole = (b - a) * (f(a) + 4 * f(middle) + f(b)) / 6
        halves = (
            (b - a) * (f(a) + 4 * f((a + middle) / 2) + 2 * f(middle) + 4 * f((b + middle) / 2) + f(b)) / 12
        )
        if abs(whole - halves) < tolerance:
            return halves
        return integral(a, middle, tolerance / 2) + integral(middle, b, tolerance / 2)

    f = convert(integral)
    assert f(0.0, 3.0, 1e-5).item() == pytest.approx(np.sin(3) - 3 * np.cos(3), abs=1e-4)
    assert lm.grad(f, 1)(0.0, 3.0, 1e-5).item() == pytest.approx(3 * np.sin(3), abs=1e-3)


def quicksort(a, low, high):
    if low >= high:
        return a
    pivot, i, j = a[high], low, low
    while j < high:
        if a[j] < pivot:
            x, y = a[i], a[j]
            a = a.at[i].set(y).at[j].set(x)
            i += 1
        j += 1
    x, y = a[i], a[high]
    a = a.at[i].set(y).at[high].set(x)
    a = quicksort(a, low, i - 1)
    return quicksort(a, i + 1, high)


def test_quicksort():
    x = np.array([3.0, 1.0, 2.0, 5.0, 4.0, 0.0], "float32")
    f = convert(quicksort)
    assert f(lnp.array(x), 0, 5).numpy().tolist() == sorted(x.tolist())
    order = np.argsort(x)
    want = np.eye(6, dtype="float32")[order]
    np.testing.assert_array_equal(lm.jacfwd(lambda a: f(a, 0, 5))(lnp.array(x)).numpy(), want)
    np.testing.assert_array_equal(lm.jacrev(lambda a: f(a, 0, 5))(lnp.array(x)).numpy(), want)


def test_writes_in_place():
    def sort(a, low, high):
        if low < high:
            pivot, i, j = a[high], low, low
            while j < high:
                if a[j] < pivot:
                    a[i], a[j] = a[j], a[i]
                    i += 1
                j += 1
            a[i], a[high] = a[high], a[i]
            sort(a, low, i - 1)
            sort(a, i + 1, high)

    @convert
    def copied(a):
        a = a.copy()
        sort(a, 0, 5)
        return a

    assert copied(lnp.array([3.0, 1.0, 2.0, 5.0, 4.0, 0.0])).numpy().tolist() == [0, 1, 2, 3, 4, 5]

    def known(n, table):
        if n < 2:
            return n
        if table[n] >= 0:
            return table[n]
        table[n] = known(n - 1, table) + known(n - 2, table)
        return table[n]

    assert convert(lambda n: known(n, lnp.full(50, -1)))(40).item() == 102334155

    def counted(n):
        calls = 0

        def go(k):
            nonlocal calls
            calls += 1
            return 1 if k < 2 else go(k - 1) + go(k - 2)

        return go(n), calls

    assert numbers(convert(counted)(8)) == counted(8)

    class Counter:
        def __init__(self):
            self.calls, self.deepest = 0, {"depth": 0}

        def walk(self, n, depth):
            self.calls += 1
            self.deepest["depth"] = max(self.deepest["depth"], depth)
            if n > 0:
                self.walk(n - 1, depth + 1)
                self.walk(n - 2, depth + 1)

    def walked(n):
        counter = Counter()
        counter.walk(n, 1)
        return counter.calls, counter.deepest["depth"]

    assert numbers(convert(walked)(5)) == walked(5)


def test_helpers_lambdas_methods_and_decorated_functions():
    def helper(n, w):
        def go(k, x):
            return x if k == 0 else go(k - 1, x * w + n)

        return go(n, 1.0)

    f = convert(helper)
    assert [f(n, 0.5).item() for n in range(5)] == [helper(n, 0.5) for n in range(5)]
    assert lm.grad(f, 1)(4, 0.5).item() == pytest.approx(
        (helper(4, 0.5001) - helper(4, 0.4999)) / 2e-4, rel=1e-3
    )

    def named(n):
        f = lambda k: 1 if k == 0 else k * f(k - 1)  # noqa: E731
        return f(n)

    assert convert(named)(5).item() == 120

    fixed = lambda g: (lambda x: x(x))(lambda x: g(lambda v: x(x)(v)))  # noqa: E731
    assert (
        convert(lambda n: fixed(lambda self: lambda k: 1 if k == 0 else k * self(k - 1))(n))(5).item() == 120
    )

    class Tree:
        def __init__(self, value, left, right):
            self.value, self.left, self.right = value, left, right

        def total(self, i):
            if i < 0:
                return 0.0
            return self.value[i] + self.total(self.left[i]) + self.total(self.right[i])

    assert convert(Tree(*map(lnp.array, (VALUES, LEFT, RIGHT))).total)(0).item() == 15.0

    @convert
    def decorated(n):
        return 1 if n <= 1 else n * decorated(n - 1)

    assert decorated(5).item() == 120

    @convert
    def is_even(n):
        return True if n == 0 else is_odd(n - 1)

    @convert
    def is_odd(n):
        return False if n == 0 else is_even(n - 1)

    assert [is_even(n).item() for n in range(4)] == [True, False, True, False]


def test_types_meet():
    def kinds(x, n):
        return x if n == 0 else kinds(x + 0.5, n - 1)

    assert convert(kinds)(1, 3).item() == 2.5

    def results(n):
        return 1 if n == 0 else results(n - 1) * 1.5

    assert convert(results)(3).item() == 1.5**3

    def counts(n, k=0, far=False):
        return (k, far) if n == 0 else counts(n - 1, k + 1, k > 2)

    assert numbers(convert(counts)(9)) == (9, True)

    def mode(n, way):
        return 0 if n == 0 else mode(n - 1, way) + (1 if way == "one" else 2)

    assert convert(lambda n: (mode(n, "one"), mode(n, "two")))(3)[1].item() == 6


def test_kinds_of_arguments():
    def countdown(n):
        left, total = n, 0

        def go():
            nonlocal left, total
            if left > 0:
                left -= 1
                total += left
                go()

        go()
        return total

    assert convert(countdown)(5).item() == 10

    def star(*xs):
        return xs[0] if xs[1] == 0 else star(xs[0] + xs[1], xs[1] - 1)

    assert convert(lambda a, b: star(a, b))(1, 4).item() == 11

    class State:
        def __init__(self, x, n):
            self.x, self.n = x, n

    def doubled(s):
        return s.x if s.n == 0 else doubled(State(s.x * 2.0, s.n - 1))

    assert convert(lambda x, n: doubled(State(x, n)))(1.5, 3).item() == 12.0

    def horner(c, i, x):
        return c[i] if i == len(c) - 1 else c[i] + x * horner(c, i + 1, x)

    assert convert(lambda i, x: horner([1.0, 2.0, 3.0], i, x))(0, 2.0).item() == 17.0

    def power(a, n):
        if n == 0:
            return lnp.eye(3)
        if n % 2:
            return a @ power(a, n - 1)
        h = power(a, n // 2)
        return h @ h

    a = np.arange(9.0, dtype="float32").reshape(3, 3) / 10
    np.testing.assert_allclose(
        convert(power)(lnp.array(a), 5).numpy(), np.linalg.matrix_power(a, 5), rtol=1e-5
    )
    slope = lm.grad(lambda m: convert(power)(m, 3).sum())(lnp.array(a)).numpy()
    want = lm.grad(lambda m: (m @ m @ m).sum())(lnp.array(a)).numpy()
    np.testing.assert_allclose(slope, want, rtol=1e-5)


def test_depth_that_python_knows_stays_unrolled():
    def f(x, depth):
        if depth == 0:
            return x
        if x > 0:
            return f(x - 1, depth - 1)
        return 2 * f(x + 2, depth - 1)

    jitted = convert(lambda x: f(x, 5))
    assert [jitted(x).item() for x in range(5)] == [f(x, 5) for x in range(5)]
    assert "while" not in jitted.trace(1).as_text()


def test_in_scans_branches_and_loops():
    xs = lnp.arange(6)
    got = convert(lambda xs: lax.scan(lambda c, x: (c + accumulated(x), factorial(x)), 0, xs))(xs)
    assert got[0].item() == 154 and got[1].numpy().tolist() == [1, 1, 2, 6, 24, 120]

    @convert
    def chosen(n, x):
        if x > 0:
            return fibonacci(n)
        total = 0
        while total < 30:
            total += factorial(n)
        return total

    assert [chosen(4, v).item() for v in (1.0, -1.0)] == [3, 48]

    def scanned(xs, n):
        def step(c, x):
            return c + (scanned(xs * x, n - 1) if n > 0 else x), c

        return lax.scan(step, 0.0, xs)[0]

    def plain(xs, n):
        c = 0.0
        for x in xs:
            c = c + (plain(xs * x, n - 1) if n > 0 else x)
        return c

    x = np.array([0.5, 0.3, 0.2])
    f = convert(scanned)
    assert f(lnp.array(x, "float32"), 2).item() == pytest.approx(plain(x, 2), rel=1e-6)
    slope = [(plain(x + 1e-5 * e, 2) - plain(x - 1e-5 * e, 2)) / 2e-5 for e in np.eye(3)]
    np.testing.assert_allclose(lm.grad(f)(lnp.array(x, "float32"), 2).numpy(), slope, rtol=1e-5)

    def rows(x, n):
        if n == 0:
            return lnp.sum(x)
        total = 0.0
        for r in x:
            total = total + r[0] * rows(x * 0.5, n - 1)
        return total

    x = lnp.arange(40.0).reshape(20, 2) / 100
    assert convert(rows)(x, 2).item() == pytest.approx(rows(x, 2).item(), rel=1e-6)


def test_batches_inside():
    def f(x, n):
        if n == 0:
            return x
        return lnp.sum(lm.vmap(f, in_axes=(0, None))(lnp.stack([x, 2 * x]), n - 1))

    assert convert(f)(1.0, 3).item() == 27.0


def test_many_frames():
    def f(x, n):
        return x if n == 0 else lnp.sin(f(x * 1.01, n - 1)) + x

    def plain(x, n):
        for _ in range(n):
            x = x * 1.01
        y = x
        for _ in range(n):
            x = x / 1.01
            y = np.sin(y) + x
        return y

    jitted = convert(f)
    for n in (3, 400):
        np.testing.assert_allclose(jitted(lnp.ones(1000), n).numpy(), plain(np.ones(1000), n), rtol=1e-4)
    slope = lm.grad(lambda x: lnp.sum(jitted(x, 300)))(lnp.ones(1000)).numpy()
    want = (plain(1 + 1e-6, 300) - plain(1 - 1e-6, 300)) / 2e-6
    np.testing.assert_allclose(slope, np.full(1000, want), rtol=1e-3)
    rows = lm.vmap(jitted)(lnp.ones((2, 1000)), lnp.array([3, 300])).numpy()
    np.testing.assert_allclose(rows[:, 7], [plain(1.0, 3), plain(1.0, 300)], rtol=1e-4)


# --- errors ---


def caught(kind, f, *args):
    with pytest.raises(kind) as e:
        f(*args)
    text = str(e.value) + "".join(getattr(e.value, "__notes__", ()))
    assert "test_recursion.py" in text
    return text


def test_too_deep():
    def down(n):
        return 0 if n == 0 else 1 + down(n - 1)

    f = convert(down)
    assert f(900).item() == 900
    assert "down" in caught(RecursionError, f, 5000)
    assert f(5).item() == 5
    assert "down" in caught(RecursionError, lambda: lm.vmap(f)(lnp.array([3, 5000])).numpy())

    def in_lanes(n):
        return 0 if n == 0 else 1 + in_lanes(n + 1)

    caught(RecursionError, convert(in_lanes), 3)


def test_errors_are_raised_from_any_depth():
    def f(n):
        if n < 0:
            raise ValueError("below zero")
        return 1 if n == 0 else n * f(n - 2)

    jitted = convert(f)
    assert jitted(6).item() == 48
    assert "below zero" in caught(ValueError, jitted, 5)
    assert jitted(4).item() == 8

    def first(n):
        if n == 2:
            raise KeyError("two")
        return 0 if n < -(10**6) else 1 + first(n - 1)

    assert "two" in caught(KeyError, convert(first), 7)


def test_refusals():
    def endless(n):
        return endless(n - 1) if n > 0 else endless(n + 1)

    assert "on every path" in caught(TypeError, convert(endless), 4)

    def shrinking(x, n):
        return lnp.sum(x) if n == 0 else shrinking(x[1:], n - 1)

    text = caught(TypeError, convert(shrinking), lnp.arange(40.0), 5)
    assert "`x` is float32[" in text and "shrinking" in text

    def shapes(n):
        if n == 0:
            return lnp.ones(3)
        return lnp.concatenate([shapes(n - 1), lnp.ones(1)])

    assert "float32[3]" in caught(TypeError, convert(shapes), 4)

    def written(x, n):
        x[0] = n
        return x if n == 0 else written(x * 2, n - 1)

    assert "`x`" in caught(TypeError, convert(lambda n: written(lnp.zeros(3), n)), 3)

    def printing(n):
        lm.debug.print("{}", n)
        return 0 if n == 0 else printing(n - 1)

    assert "effects" in caught(NotImplementedError, convert(printing), 3)

    def slope(x, n):
        if n == 0:
            return x
        return lm.grad(lambda y: slope(y, n - 1) * y)(x)

    assert "derivative" in caught(NotImplementedError, convert(slope), 2.0, 2)

    def ruled(x, n):
        @lm.custom_jvp
        def inner(y):
            return ruled(y, n - 1)

        inner.defjvp(lambda p, t: (p[0], t[0]))
        return x if n == 0 else inner(x)

    assert "derivative of its own" in caught(NotImplementedError, convert(ruled), 2.0, 2)

    def growing(n, found):
        if n > 0:
            found.append(n)
            growing(n - 1, found)

    def listed(n):
        found = []
        growing(n, found)
        return lnp.array(found)

    caught(TypeError, convert(listed), 3)
