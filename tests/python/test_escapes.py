"""Values that leave a transformed function: every way out under every transform raises or is right."""

import cmath
import copy
import ctypes
import io
import json
import math
import operator
import pickle
import statistics
import struct

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax

X = 1.25


def _capsule(x):
    return float(np.from_dlpack(x, device="cpu"))


def _saved(x):
    file = io.BytesIO()
    np.save(file, x)
    file.seek(0)
    return float(np.load(file))


def _filled(x):
    out = np.zeros(())
    np.copyto(out, x)
    return float(out)


def _written(x):
    out = np.zeros(2)
    out[0] = x
    return float(out[0])


def _reduced(x):
    return float(pickle.loads(pickle.dumps(x)))


# Ways to a number, and from there back into arrays: a derivative that goes through one is lost.
WAYS = {
    "float": float,
    "complex": lambda x: complex(x).real,
    "item": lambda x: x.item(),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: float(x.numpy()),
    "__array__": lambda x: float(x.__array__()),
    "asarray": lambda x: float(np.asarray(x)),
    "array": lambda x: float(np.array(x)),
    "array of a list": lambda x: float(np.array([x, x])[0]),
    "sum of a list": lambda x: float(np.sum([x, 0 * x])),
    "dlpack": _capsule,
    "memoryview": lambda x: memoryview(x)[()],
    "tobytes": lambda x: struct.unpack("f", memoryview(x).tobytes())[0],
    "bytes": lambda x: struct.unpack("f", bytes(x))[0],
    "ctypes": lambda x: ctypes.c_float.from_buffer_copy(x).value,
    "pickle": _reduced,
    "save": _saved,
    "copyto": _filled,
    "assigned": _written,
    "full": lambda x: float(np.full(1, x)[0]),
    "float64": lambda x: float(np.float64(x)),
    "format": lambda x: float(f"{x:.9g}"),
    "percent": lambda x: float("%.9g" % x),  # noqa: UP031
    "math": lambda x: math.sqrt(x) ** 2,
    "cmath": lambda x: (cmath.sqrt(x) ** 2).real,
    "fsum": lambda x: math.fsum([x]),
    "mean": lambda x: statistics.mean([x.item()]),
    "json": lambda x: json.loads(json.dumps(x.tolist())),
    "random": lambda x: float(np.random.default_rng(0).normal(x, 0.0)),
    "norm": lambda x: float(np.linalg.norm(np.atleast_1d(x))),
    "frombuffer": lambda x: float(np.frombuffer(x, np.float32)[0]),
    "repr": lambda x: float(repr(x)[7 : repr(x).index(",")]),
    "str": lambda x: float(str(x)[7 : str(x).index(",")]),
    "html": lambda x: float(x._repr_html_().split("<pre>")[1].split("<")[0]),
    "stdlib round": lambda x: float(operator.pos(x.item())),
    "x.tobytes": lambda x: struct.unpack("f", x.tobytes())[0],
    "array_repr": lambda x: float(lnp.array_repr(x).split("(")[1].split(",")[0]),
    "array_str": lambda x: float(lnp.array_str(x)),
    "array_str of NumPy": lambda x: float(np.array_str(x)),
    "array2string of NumPy": lambda x: float(np.array2string(x)),
    "item of flat": lambda x: next(iter(x.flat)).item(),
    "deepcopy": lambda x: float(copy.deepcopy(x)),
}


def through(way):
    """x * number(x), whose derivative is 2 x; one that loses a part gives x."""
    return lambda x: x * way(x)


def _body(f):
    return lambda x: lax.fori_loop(0, 1, lambda i, c: f(c), x)


def _scan(f):
    return lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]


def _while(f):
    return lambda x: lax.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, f(c[1])), (0, x))[1]


def _custom_jvp(f):
    g = lm.custom_jvp(f)
    g.defjvp(lambda p, t: (g(*p), f(p[0]) * t[0]))
    return g


def _custom_vjp(f):
    g = lm.custom_vjp(f)
    g.defvjp(lambda x: (f(x), x), lambda r, ct: (f(r) * ct,))
    return g


def _basis(f):
    return lambda x: lm.jacfwd(lambda v: lnp.stack([f(v[0]), v[1]]))(lnp.stack([x, x]))[0, 0]


def _rows(f):
    return lambda x: lm.jacrev(lambda v: lnp.stack([f(v[0]), v[1]]))(lnp.stack([x, x]))[0, 0]


# Transforms of f(x) = x * number(x) at X, with the right answer.
SQUARE, SLOPE, CURVATURE = X * X, 2 * X, 2.0
TRANSFORMS = {
    "plain": (lambda f: f, SQUARE),
    "grad": (lm.grad, SLOPE),
    "value_and_grad": (lambda f: lambda x: lm.value_and_grad(f)(x)[1], SLOPE),
    "vjp": (lambda f: lambda x: lm.vjp(f, x)[1](lnp.ones(()))[0], SLOPE),
    "jvp": (lambda f: lambda x: lm.jvp(f, (x,), (1.0,))[1], SLOPE),
    "linearize": (lambda f: lambda x: lm.linearize(f, x)[1](1.0), SLOPE),
    "hessian": (lm.hessian, CURVATURE),
    "jacfwd": (_basis, SLOPE),
    "jacrev": (_rows, SLOPE),
    "vmap": (lambda f: lambda x: lm.vmap(f)(lnp.stack([x, x]))[1], SQUARE),
    "jit": (lm.jit, SQUARE),
    "checkpoint": (lm.checkpoint, SQUARE),
    "cond": (lambda f: lambda x: lax.cond(x > 0, f, f, x), SQUARE),
    "fori": (_body, SQUARE),
    "scan": (_scan, SQUARE),
    "while": (_while, SQUARE),
    "custom_jvp": (_custom_jvp, SQUARE),
    "custom_vjp": (_custom_vjp, SQUARE),
    "grad(grad)": (lambda f: lm.grad(lm.grad(f)), CURVATURE),
    "grad(jit)": (lambda f: lm.grad(lm.jit(f)), SLOPE),
    "jit(grad)": (lambda f: lm.jit(lm.grad(f)), SLOPE),
    "vmap(grad)": (lambda f: lambda x: lm.vmap(lm.grad(f))(lnp.stack([x, x]))[1], SLOPE),
    "grad(vmap)": (lambda f: lm.grad(lambda x: lm.vmap(f)(lnp.stack([x, 0 * x]))[0]), SLOPE),
    "jvp(grad)": (lambda f: lambda x: lm.jvp(lm.grad(f), (x,), (1.0,))[1], CURVATURE),
    "grad(checkpoint)": (lambda f: lm.grad(lm.checkpoint(f)), SLOPE),
    "grad(scan)": (lambda f: lm.grad(_scan(f)), SLOPE),
    "grad(cond)": (lambda f: lm.grad(lambda x: lax.cond(x > 0, f, f, x)), SLOPE),
    "jvp(while)": (lambda f: lambda x: lm.jvp(_while(f), (x,), (1.0,))[1], SLOPE),
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_every_way_out_raises_or_is_right(transform):
    apply, want = TRANSFORMS[transform]
    for name, way in WAYS.items():
        try:
            got = apply(through(way))(lnp.array(X, dtype="float32"))
        except (TypeError, ValueError, IndexError, BufferError):  # the text of a tracer is no number
            assert transform != "plain", name
            continue
        assert np.asarray(got) == pytest.approx(want, rel=1e-5), name


@pytest.mark.parametrize("name", WAYS)
def test_a_derivative_is_told_and_not_lost(name):
    # Of all ways only the printed forms are no TypeErrors: they are text, and say that they are no plain numbers.
    kinds = (TypeError, BufferError) if name not in ("repr", "str", "html") else (ValueError, IndexError)
    with pytest.raises(kinds):
        lm.grad(through(WAYS[name]))(X)


def test_the_error_names_the_line_and_the_remedies():
    with pytest.raises(TypeError) as e:
        lm.grad(lambda x: x * math.exp(x))(1.0)
    text = str(e.value)
    assert "math.exp(x)" in text and "lamina.numpy.exp instead of math.exp" in text
    assert "stop_gradient" in text and "test_escapes.py" in text
    with pytest.raises(TypeError, match=r"lamina\.numpy\.sum instead of np\.sum"):
        lm.grad(lambda x: np.sum([x, 2 * x]))(3.0)


def test_what_no_derivative_depends_on_leaves_freely():
    def f(x, n):
        fixed = lax.stop_gradient(x)
        assert float(fixed) == 3.0 and fixed.item() == 3.0 and np.asarray(fixed) == 3.0
        assert n.item() == 2 and int(x) == 3 and round(x) == 3 and bool(x) and x > 2.0
        assert (math.floor(x + 0.5), math.ceil(x), math.trunc(x)) == (3, 3, 3)
        assert (x > 2.0).item() is True and np.asarray(lnp.argmax(lnp.stack([x, 0 * x]))) == 0
        assert (
            lnp.array([1.0, 2.0]).tolist() == [1.0, 2.0] and float(lnp.sum((x > 0).astype("float32"))) == 1.0
        )
        return x**2 * float(fixed) * n

    assert float(lm.grad(f)(3.0, lnp.array(2.0))) == 36.0
    assert float(lm.value_and_grad(f)(3.0, lnp.array(2.0))[0]) == 54.0  # afterwards everything leaves


def test_control_flow_on_values_stays():
    def f(x):
        while x > 1.0:
            x = x / 2
        return x * x if bool(x) and x < 10.0 else x

    assert float(lm.grad(f)(8.0)) == pytest.approx(2 * 1.0 / 8)


def test_printing_shows_what_it_is(capsys):
    def f(x):
        print(x)
        print(f"{x}")
        return lnp.sum(x * x)

    lm.grad(f)(lnp.array([3.0, 4.0]))
    assert capsys.readouterr().out == "<differentiated float32[2] = [3., 4.]>\n" * 2


def test_the_right_functions_give_the_right_derivative():
    assert float(lm.grad(lambda x: x * lnp.exp(x))(1.0)) == pytest.approx(2 * math.e, rel=1e-6)
    assert float(lm.grad(lambda x: np.sum(lnp.stack([x, 2 * x])))(3.0)) == 3.0
    assert float(lm.grad(lambda x: np.exp(x))(1.0)) == pytest.approx(math.e, rel=1e-6)


def test_functions_that_look_at_values_take_elements_where_they_stand():
    x = lnp.array([3.0, 1.0, 3.0, 0.0])
    np.testing.assert_array_equal(
        lm.grad(lambda x: lnp.sum(lnp.unique(x) * lnp.array([1.0, 2.0, 3.0])))(x), [3, 2, 0, 1]
    )
    np.testing.assert_array_equal(lm.grad(lambda x: lnp.sum(lnp.trim_zeros(x) ** 2))(x), [6, 2, 6, 0])
    np.testing.assert_array_equal(lm.grad(lambda x: lnp.sum(x[x > 2] ** 2))(x), [6, 0, 6, 0])
    np.testing.assert_array_equal(lm.grad(lambda x: lnp.sum(x[lnp.nonzero(x)] ** 2))(x), [6, 2, 6, 0])


SETS = {
    "union1d": [6, 2, 4, 10],
    "intersect1d": [6, 0, 4, 0],
    "setdiff1d": [0, 2, 0, 10],
    "setxor1d": [0, 2, 0, 10],
    "unique_values": [6, 2, 4, 10],
    "unique": [6, 2, 4, 10],
}


@pytest.mark.parametrize("name", SETS)
def test_functions_on_sets_keep_the_derivative(name):
    x, y = lnp.array([3.0, 1.0, 2.0, 5.0]), lnp.array([9.0, 2.0, 3.0])
    others = () if "unique" in name else (y,)
    got = lm.grad(lambda x: lnp.sum(getattr(lnp, name)(x, *others) ** 2))(x)
    np.testing.assert_array_equal(got, SETS[name])
    want = getattr(np, name)(np.array([np.nan, 3, 1, 3]), *(np.array([3.0, 8, 8]),) * len(others))
    got = getattr(lnp, name)(lnp.array([np.nan, 3, 1, 3]), *(lnp.array([3.0, 8, 8]),) * len(others))
    np.testing.assert_array_equal(got, want)


def test_a_callback_has_no_derivative_and_says_so():
    f = lambda x: lm.pure_callback(np.exp, lm.ShapeDtype((), "float32"), x)  # noqa: E731
    with pytest.raises(ValueError, match="pure_callback has no derivative"):
        float(lm.grad(f)(1.0))
