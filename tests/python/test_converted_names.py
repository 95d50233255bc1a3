"""jit(control_flow="convert"): objects that have several names, and writes that one of them would miss."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest


def convert(f):
    return lm.jit(f, control_flow="convert")


def caught(kind, f, *args):
    with pytest.raises(kind) as e:
        f(*args)
    return str(e.value)


def loop_writes_and_rebinds(x):
    a = lnp.zeros(3)
    b = a
    while x > 0:
        a[0] = x
        a = a + 1
        x = x - 1
    return a, b


def chosen_list_is_written(x):
    a, b = [1.0], [2.0]
    c = a
    if x > 0:
        a = b
    a[0] = 7.0
    return a[0], b[0], c[0]


def names_of_one_new_list(x):
    if x > 0:
        r = [x]
        s = r
    else:
        r = [x * 2]
        s = r
    r[0] = 5.0
    return r, s


def names_of_one_array_of_a_loop(x):
    a = lnp.zeros(2)
    b = a
    while x > 0:
        a = a + 1
        b = a
        x = x - 1
    a[0] = 7.0
    return a, b


def parts_of_one_container(x):
    a = lnp.zeros(2)
    r = {"p": a, "q": a}
    if x > 0:
        r = {"p": a, "q": a}
    else:
        a[1] = 2.0
    r["p"][0] = 4.0
    return r


def part_of_a_container_and_a_name(x):
    a = lnp.zeros(2)
    r = [a]
    if x > 9:
        r = [a + 1]
    r[0][0], x = 4.0, x
    return r, a


def argument_or_new(x, y):
    if y > 0:
        x = x * 2
    x[0] = 1.0
    return x


@pytest.mark.parametrize(
    ("f", "args"),
    [
        (loop_writes_and_rebinds, (3.0,)),
        (chosen_list_is_written, (1.0,)),
        (names_of_one_new_list, (1.0,)),
        (names_of_one_array_of_a_loop, (2.0,)),
        (parts_of_one_container, (1.0,)),
        (part_of_a_container_and_a_name, (1.0,)),
        (argument_or_new, (lnp.zeros(2), 1.0)),
    ],
)
def test_a_write_that_another_name_would_miss_is_refused(f, args):
    text = caught(TypeError, convert(f), *args)
    assert "opy" in text and "test_converted_names.py:" in text


def test_writes_to_what_only_one_name_holds():
    @convert
    def f(x):
        a = lnp.zeros(3)
        while x > 0:
            a = a + x
            x = x - 1
        a[0] = 9.0
        state = {"w": a, "n": 0}
        if x < -0.5:
            state = {"w": a * 2, "n": 1}
        state["n"] += 1
        return state

    for x in (3.0, 2.25):
        want = 6.0 if x == 3.0 else 3.75
        got = f(x)
        assert got["w"].numpy().tolist() == ([9.0, want, want] if x == 3.0 else [18.0, 2 * want, 2 * want])
        assert got["n"].item() == (1 if x == 3.0 else 2)

    @convert
    def swap(x):
        a, b = [1.0], [2.0]
        if x > 0:
            b[0] = x
            a[0] += 1.0
        return a, b

    assert [v[0].item() for v in swap(3.0)] == [2.0, 3.0]


def below_zero(x):
    if x < 0:
        raise ValueError("below zero")
    return x * x, lnp.stack([x, 2 * x])


first, second = lambda x: convert(below_zero)(x)[0], lambda x: convert(below_zero)(x)[1]
UNDER_TRANSFORMS = {
    "jvp": lambda x: lm.jvp(first, (x,), (1.0,))[1],
    "jvp of a later result": lambda x: lm.jvp(second, (x,), (1.0,))[1],
    "vjp": lambda x: lm.vjp(first, x)[1](1.0)[0],
    "linearize": lambda x: lm.linearize(second, x)[1](1.0),
    "grad": lm.grad(first),
    "grad of a later result": lm.grad(lambda x: second(x).sum()),
    "value_and_grad": lambda x: lm.value_and_grad(first)(x)[1],
    "jacfwd": lm.jacfwd(second),
    "jacrev": lm.jacrev(second),
    "hessian": lm.hessian(first),
    "checkpoint": lm.grad(lm.checkpoint(first)),
    "inside": convert(lambda x: lm.grad(lambda y: below_zero(y)[0])(x)),
    "forward inside": convert(lambda x: lm.jvp(lambda y: below_zero(y)[1], (x,), (1.0,))[1]),
    "a later result": second,
}


@pytest.mark.parametrize("name", UNDER_TRANSFORMS)
def test_errors_hold_under_transforms(name):
    f = UNDER_TRANSFORMS[name]
    for g in (f, lm.jit(f)):
        assert np.isfinite(g(2.0).numpy()).all()
        with pytest.raises(ValueError, match="below zero"):
            g(-2.0).numpy()
    for g in (lm.vmap(f), lm.jit(lm.vmap(f))):
        assert np.isfinite(g(lnp.array([2.0, 3.0])).numpy()).all()
        with pytest.raises(ValueError, match="below zero"):
            g(lnp.array([2.0, -3.0])).numpy()
