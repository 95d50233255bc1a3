"""Programs as newcomers write them, with Python's control flow on values: each with arguments that take its paths.

Not a test module: tests look at their source, which must be as written here.
"""

from __future__ import annotations

import contextlib
import math

import lamina.numpy as lnp

PROGRAMS = {}


def program(*arguments):
    """Registers a function with tuples of arguments; lists in them are arrays."""

    def register(f):
        PROGRAMS[f.__name__] = (f, arguments)
        return f

    return register


@program((3.0,), (-2.0,), (0.0,))
def early_return(x):
    if x < 0:
        return -x
    if x == 0:
        return 1.0
    return x * 2


@program((2.0,), (9.0,), (0.25,))
def newton_until_tolerance(a):
    x = a
    while abs(x * x - a) > 1e-4:
        x = 0.5 * (x + a / x)
    return x


@program((2.0, None), (0.0, None), (0.0, 5.0), (3.0, 5.0))
def or_default(x, scale):
    scale = scale or 2.0
    x = x or 1.0
    return x * scale


@program((4,), (0,), (7,))
def nested_loops_with_break(n):
    count = 0
    for i in range(6):
        for j in range(6):
            if i * j > n:
                break
            count += 1
        if count > 20:
            break
    return count


def _power(x, n):
    if n == 0:
        return 1.0
    half = _power(x, n // 2)
    return half * half * (x if n % 2 else 1.0)


@program((2.0,), (-1.5,))
def recursion_of_known_depth(x):
    return _power(x, 5)


@program((1.0,), (-1.0,))
def dictionary_of_arrays(x):
    params = {"w": x * 2.0, "b": 1.0}
    if x > 0:
        params["w"] = params["w"] + 1.0
        params["b"] = 3.0
    else:
        params["b"] = params["b"] - x
    return params


@program((4.0,), (9.0,))
def with_assert(x):
    assert x > 0, "x must be positive"
    return x**0.5


@program((0.0, 2.0), (1.0, 3.0))
def bisection(lo, hi):
    while hi - lo > 1e-3:
        mid = 0.5 * (lo + hi)
        if mid * mid - 2.0 > 0:
            hi = mid
        else:
            lo = mid
    return 0.5 * (lo + hi)


@program((6,), (27,), (1,))
def collatz(n):
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
            steps += 1
        else:
            n = 3 * n + 1
            steps += 1
    return steps


@program((48, 18), (17, 5), (12, 0))
def gcd(a, b):
    while b:
        a, b = b, a % b
    return a


@program(([3.0, 1.0, 2.0, 0.0],), ([1.0, 2.0, 3.0, 4.0],))
def sorting_network(xs):
    v = [xs[0], xs[1], xs[2], xs[3]]
    for i, j in [(0, 1), (2, 3), (0, 2), (1, 3), (1, 2)]:
        if v[i] > v[j]:
            v[i], v[j] = v[j], v[i]
    return lnp.stack(v)


@program(([1.0, 1.0, 2.0, 2.0, 2.0, 3.0],), ([0.0, 0.0, 0.0, 0.0, 0.0, 0.0],))
def longest_run(xs):
    best, run = 1, 1
    for i in range(1, 6):
        if xs[i] == xs[i - 1]:
            run += 1
        else:
            run = 1
        if run > best:
            best = run
    return best


@program(
    ([1.0, 2.0, 6.0, 4.0, 5.0, 3.0],),
)
def moving_window(xs):
    out = lnp.zeros(4)
    for i in range(4):
        total = 0.0
        for j in range(3):
            total += xs[i + j]
        if total > 11:
            total = 11.0
        out[i] = total / 3
    return out


@program((5.0,), (-5.0,), (0.5,))
def clipping(x):
    if x > 1:
        x = 1.0
    elif x < -1:
        x = -1.0
    return x


@program(([3.0, 5.0, 15.0, 4.0],))
def fizzbuzz(xs):
    out = []
    for x in xs:
        if x % 15 == 0:
            out.append(-3.0)
        elif x % 5 == 0:
            out.append(-2.0)
        elif x % 3 == 0:
            out.append(-1.0)
        else:
            out.append(x)
    return lnp.stack([lnp.asarray(o, lnp.float32) for o in out])


@program((1.0,), (10.0,))
def backtracking_line_search(x):
    def loss(v):
        return (v - 3.0) ** 2

    slope = 2 * (x - 3.0)
    t = 4.0
    while loss(x - t * slope) > loss(x) - 0.25 * t * slope * slope:
        t *= 0.5
        if t < 1e-3:
            break
    return x - t * slope


@program((1.0,), (5.0,))
def euler_until_event(height):
    t, v = 0.0, 0.0
    dt = 0.05
    while height > 0:
        v -= 9.81 * dt
        height += v * dt
        t += dt
        if t > 3.0:
            break
    return t, height


@program((2.0,), (-2.0,))
def matching_over_types(x):
    def area(shape):
        match shape:
            case ("circle", r):
                return 3.0 * r * r
            case {"side": s}:
                if s < 0:
                    return 0.0
                return s * s
            case float() | int():
                return float(shape)
        return 0.0

    return area(("circle", x)) + area({"side": x}) + area(2)


@program((0,), (1,), (2,), (7,))
def matching_over_values(op):
    match op:
        case 0:
            return 10.0
        case 1 | 2:
            y = op * 2.0
        case n if n > 5:
            y = -1.0
        case _:
            y = 0.0
    return y + 1


@program(([1.0, -2.0, 3.0, -4.0],))
def accumulating_in_a_dict(xs):
    sums = {"positive": 0.0, "negative": 0.0}
    for x in xs:
        if x > 0:
            sums["positive"] += x
        else:
            sums["negative"] += x
    return sums["positive"] - sums["negative"]


@program((3,), (0,))
def early_continue(n):
    total = 0
    for i in range(8):
        if i % 3 == n % 3:
            continue
        total += i
    return total


@program((5.0,), (50.0,))
def while_else(limit):
    x, n = 1.0, 0
    while n < 5:
        x *= 2
        n += 1
        if x > limit:
            result = x
            break
    else:
        result = -1.0
    return result


@program(([1.0, 2.0, 4.0, 8.0], 4.0), ([1.0, 2.0, 4.0, 8.0], 5.0))
def for_else(xs, wanted):
    for i in range(4):
        if xs[i] == wanted:
            where = i
            break
    else:
        where = -1
    return where


@program((3.0,), (-3.0,))
def try_finally(x):
    log = {"done": 0.0}
    try:
        if x > 0:
            return x + log["done"]
        x = -x
    finally:
        log["done"] = 1.0
    return x + log["done"]


@program((2.0,), (-2.0,))
def with_block(x):
    with contextlib.nullcontext(3.0) as y:
        if x > 0:
            y = y * x
    return y


@program((3.0,), (-3.0,))
def nested_function_with_nonlocal(x):
    count = 0

    def step(v):
        nonlocal count
        if v > 1:
            count += 1
            return v / 2
        return v

    for _ in range(4):
        x = step(x)
    return x, count


@program((0.5,), (3.0,))
def conditional_expressions(x):
    y = x if x > 1 else 1.0
    return (y if y < 2 else 2.0) + (0 if x else 1)


@program((0.5,), (3.0,), (-1.0,))
def chained_comparison(x):
    if 0 < x < 1 or not x >= 0:
        return x
    return 10.0


@program((7.0, 2.0), (1.0, 5.0))
def min_and_max(a, b):
    lo, hi = min(a, b), max(a, b)
    while hi > lo:
        hi -= 1.5
    return int(hi), abs(lo - hi)


@program((3,), (7,), (0,))
def for_over_a_range_of_an_argument(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


class _Counter:
    def __init__(self, start):
        self.value = start
        self.steps = 0

    def advance(self, amount):
        if amount > 2:
            self.value = self.value + amount
        else:
            self.value = self.value - 1
        self.steps += 1

    @property
    def is_large(self):
        return self.value > 8


@program((1.0,), (5.0,))
def object_with_attributes(x):
    c = _Counter(x)
    c.advance(x)
    while not c.is_large:
        c.advance(x + 2.5)
    return c.value, c.steps


@program((5.0,), (-5.0,), (0.5,))
def helper_functions(x):
    def sign(v):
        return 1.0 if v > 0 else -1.0 if v < 0 else 0.0

    def clip(v, lo, hi):
        return max(lo, min(v, hi))

    return sign(x) * clip(abs(x), 1.0, 3.0)


@program((2,), (5,))
def triangle_by_two_whiles(n):
    total, i = 0, 0
    while i < n:
        j = 0
        while j <= i:
            total += j
            j += 1
        i += 1
    return total


@program((10.0,), (0.1,))
def while_true(x):
    n = 0
    while True:
        x = x / 2
        n += 1
        if x < 0.5:
            return n
        if n >= 20:
            break
    return -1


@program(([0.0, 0.0, 3.0, 1.0],), ([0.0, 0.0, 0.0, 0.0],))
def first_nonzero_row(xs):
    for x in xs:
        if x != 0:
            return x
    return 0.0


@program(([1.0, 2.0, 3.0],), ([-1.0, -2.0, 0.0],))
def any_and_all(xs):
    if any(x > 2 for x in xs):
        return 1.0
    if all(x <= 0 for x in xs):
        return -1.0
    return 0.0


@program(([1.0, -2.0, 3.0],))
def comprehension_with_a_choice(xs):
    return lnp.stack([x if x > 0 else 0.1 * x for x in xs])


@program((1.0,), (30.0,))
def state_in_a_tuple(x):
    state = (x, 0)
    while state[0] < 20 and state[1] < 10:
        state = (state[0] * 2, state[1] + 1)
    return state


@program((100,), (17,), (1,))
def primality(n):
    if n < 2:
        return False
    d = 2
    while d * d <= n:
        if n % d == 0:
            return False
        d += 1
    return True


@program(([1.0, 4.0, 2.0, 3.0],))
def insertion_sort_in_place(xs):
    a = xs.copy()
    for i in range(1, 4):
        j = i
        while j > 0 and a[j - 1] > a[j]:
            t = a[j]
            a[j] = a[j - 1]
            a[j - 1] = t
            j -= 1
    return a


@program(([[2.0, 1.0], [1.0, 3.0]],))
def power_iteration(m):
    v = lnp.ones(2)
    last = 0.0
    for _ in range(50):
        w = m @ v
        norm = lnp.sqrt((w * w).sum())
        v = w / norm
        if abs(norm - last) < 1e-5:
            break
        last = norm
    return norm


@program((12,), (255,))
def digits_in_base_two(n):
    ones = 0
    while n > 0:
        ones += n & 1
        n >>= 1
    return ones


@program((0.3,), (-0.3,), (2.0,))
def walrus_in_a_test(x):
    if (y := x * 2) > 1:
        return y
    while (z := y * y) > 1e-3:
        y = z
    return z


@program((0.5,), (1.5,))
def mandelbrot_early_exit(c):
    z = 0.0
    for i in range(20):
        z = z * z + c
        if abs(z) > 2:
            return i
    return 20


@program((5,), (1,), (0,))
def factorial_by_recursion(n):
    return 1 if n <= 1 else n * factorial_by_recursion(n - 1)


@program((7,), (1,))
def fibonacci_by_recursion(n):
    if n < 2:
        return n
    return fibonacci_by_recursion(n - 1) + fibonacci_by_recursion(n - 2)


@program((5.0,), (-1.0,))
def none_until_found(x):
    best = None
    for k in [1.0, 2.0, 3.0]:
        if best is None or abs(x - k) < abs(x - best):
            best = k
    return best


@program((4.0,), (16.0,))
def constants_of_math(x):
    area = 0.0
    while area < x:
        area += math.pi
    return area


@program((2.0,), (-2.0,))
def list_written_or_replaced(x):
    r = [0.0, 1.0, 2.0]
    r[1] = x
    if x > 0:
        r[0] = r[1] * 2
        r[2] = 7.0
    else:
        r = [r[2], r[1], r[0]]
    return r


@program((2.0,), (-2.0,))
def list_of_two_names_written_or_replaced(x):
    r = [x, [x, x]]
    s = r
    if x > 0:
        r[1][0] = 3.0
        r[0] = x * 2
    else:
        r = [x + 1, r[1]]
    return r, s


@program((3.0, 2.0), (-1.0, 4.0), (7.0, 0.5))
def array_written_or_replaced(x, y):
    total = lnp.zeros(3)
    for i in range(5):
        if x > 2:
            total[i % 3] += y
            x -= 1
            if y > 3:
                break
        else:
            total *= 1.5
            total[-1] = x
            x += 1.5
            y = y * 0.9
    return total, x, y


@program((2.0,), (-2.0,), (-5.0,))
def parts_written_or_replaced(x):
    state = {"a": [x, lnp.zeros(2)], "b": (lnp.ones(2), x)}
    if x > 0:
        state["a"][1][0] = 4.0
        state["b"][0][1] = x
    elif x < -3:
        state["a"] = [x * 2, lnp.ones(2)]
    else:
        state = {"a": [x, lnp.full(2, x)], "b": (lnp.zeros(2), x * 3)}
    return state


# By way, the programs that it refuses, and what the message says.
REFUSED = {
    "convert": {},
    "specialize": {
        "min_and_max": "int() needs the value",
        "for_over_a_range_of_an_argument": "an index needs the value",
    },
}
