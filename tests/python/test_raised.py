"""What a converted function raises: by its derivatives too, as the exception that it was, and once for each run."""

from __future__ import annotations

import functools
import gc
import weakref

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax


def of_another_argument(x, n):
    if n > 3:
        raise ValueError("too large")
    return n * 1.0


def of_both(x, n):
    if n > 3:
        raise ValueError("too large")
    return n * 1.0 + x


def of_no_derivative(x, n):
    if n > 3:
        raise ValueError("too large")
    return lax.stop_gradient(x) * 2


def in_a_loop(x, n):
    total = x * 0
    for _ in range(3):
        if n > 3:
            raise ValueError("too large")
        total = lax.stop_gradient(total + n)
    return total


PROGRAMS = [of_another_argument, of_both, of_no_derivative, in_a_loop]


def lanes(f, x, n):
    return lm.vmap(f)(lnp.stack([x, x + 1]), lnp.stack([lnp.ones_like(n), n])).sum()


TRANSFORMS = {
    "grad": lambda f: lm.grad(f),
    "value_and_grad": lambda f: lambda x, n: lm.value_and_grad(f)(x, n)[1],
    "vjp": lambda f: lambda x, n: lm.vjp(lambda v: f(v, n), x)[1](lnp.ones_like(x))[0],
    "jvp": lambda f: lambda x, n: lm.jvp(lambda v: f(v, n), (x,), (x,))[1],
    "linearize": lambda f: lambda x, n: lm.linearize(lambda v: f(v, n), x)[1](x),
    "jacfwd": lambda f: lm.jacfwd(f),
    "jacrev": lambda f: lm.jacrev(f),
    "second": lambda f: lm.grad(lm.grad(f)),
    "hessian": lambda f: lm.hessian(f),
    "grad of vmap": lambda f: lm.grad(lambda x, n: lanes(f, x, n)),
    "vmap of grad": lambda f: lambda x, n: lanes(lm.grad(f), x, n),
    "checkpoint": lambda f: lm.grad(lm.checkpoint(f)),
    "beneath more": lambda f: lm.grad(lambda x, n: f(x, n) * 2 + 1),
}


@pytest.mark.parametrize("outer", ["plain", "jit", "converted"])
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_errors_are_not_lost_in_derivatives(f, transform, outer):
    g = TRANSFORMS[transform]
    if outer == "converted":
        g = lm.jit(g(f), control_flow="convert")
    else:
        g = g(lm.jit(f, control_flow="convert"))
        g = lm.jit(g) if outer == "jit" else g
    x = np.float32(1.5)
    assert np.isfinite(np.asarray(g(x, np.float32(2)))).all()
    with pytest.raises(ValueError, match="too large"):
        np.asarray(g(x, np.float32(5)))


def above_nine(x):
    if x > 9:
        raise ValueError("above nine")
    return -(x**3)


@lm.custom_jvp
def ruled(x):
    return above_nine(x)


ruled.defjvp(lambda p, t: (ruled(*p), ruled(*p) * t[0]))


@lm.custom_vjp
def ruled_backwards(x):
    return above_nine(x)


ruled_backwards.defvjp(lambda x: (x, x), lambda x, g: (above_nine(x) * g,))

# Functions that the library makes of a user's, which are jitted as they are.
MADE = {
    "vmap": lm.vmap(above_nine),
    "vmap of vmap": lambda x: lm.vmap(lm.vmap(above_nine))(x[None])[0],
    "vmap of a partial": lm.vmap(functools.partial(above_nine)),
    "vmap of grad": lm.vmap(lm.grad(above_nine)),
    "vmap of hessian": lm.vmap(lm.hessian(above_nine)),
    "vmap of checkpoint": lm.vmap(lm.grad(lm.checkpoint(above_nine))),
    "vmap one by one": lm.vmap(above_nine, strategy="loop"),
    "custom_jvp": lm.vmap(ruled),
    "custom_vjp": lm.vmap(ruled_backwards),
    "grad of custom_jvp": lm.vmap(lm.grad(ruled)),
    "grad of custom_vjp": lm.vmap(lm.grad(ruled_backwards)),
}


EXPECTED = {
    "vmap of grad": [-3, -12],
    "vmap of hessian": [-6, -12],
    "vmap of checkpoint": [-3, -12],
}


@pytest.mark.parametrize("name", MADE)
def test_what_is_raised_inside_of_a_function_of_the_library_goes_with_its_result(name):
    x = lnp.array([1.0, 2.0])
    f = lm.jit(MADE[name], control_flow="convert")
    np.testing.assert_allclose(f(x).numpy(), EXPECTED.get(name, [-1, -8]))
    with pytest.raises(ValueError, match="above nine"):
        np.asarray(f(x * 5))


class Coded(ValueError):
    """Its arguments are not those that it keeps."""

    def __init__(self, code, *, detail=""):
        super().__init__(f"code {code}")
        self.code, self.detail = code, detail


def test_what_is_raised_is_like_the_users_exception_and_another_each_time():
    shared = Coded(7, detail="kept")

    @lm.jit(control_flow="convert")
    def f(x):
        if x < 0:
            raise shared from KeyError("why")
        if x > 9:
            raise FileNotFoundError(2, "none here", "a file")
        return x * 2

    def caught(x):
        with pytest.raises(Exception) as e:
            f(x).item()
        return e.value

    assert f(2.0).item() == 4
    one, two = caught(-1.0), caught(-2.0)
    assert type(one) is Coded and str(one) == "code 7" and (one.code, one.detail) == (7, "kept")
    assert isinstance(one.__cause__, KeyError) and one.__suppress_context__
    assert one is not two and one is not shared and shared.__traceback__ is None
    missing = caught(10.0)
    assert type(missing) is FileNotFoundError and (missing.errno, missing.filename) == (2, "a file")


def test_a_program_that_has_raised_holds_no_frames():
    """They would keep what the caller had, as long as the library remembers the program."""

    class Held:
        pass

    def call():
        held = Held()

        def f(x):
            if x < 0:
                raise ValueError("below zero")
            return x + 1

        try:
            lm.jit(f, control_flow="convert")(-1.0).item()
        except ValueError:
            return weakref.ref(held), weakref.ref(f)
        raise AssertionError

    seen = call()
    gc.collect()
    assert [r() for r in seen] == [None, None]
