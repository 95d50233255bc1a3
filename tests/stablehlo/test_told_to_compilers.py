"""What programs say to other compilers and computes the same here: precisions of products, composites."""

from __future__ import annotations

import functools

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from jax_support import run_by_xla, verified
from lamina import lax, stablehlo

A = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
B = np.random.default_rng(1).standard_normal((4, 2)).astype(np.float32)
PRODUCTS = {
    "matmul": lambda p: lambda a, b: lnp.matmul(a, b, precision=p),
    "einsum": lambda p: lambda a, b: lnp.einsum("ij,jk->ki", a, b, precision=p),
    "vmap": lambda p: lm.vmap(lambda a, b: lnp.dot(a, b, precision=p), (0, None)),
    "grad": lambda p: lm.grad(lambda a, b: lnp.sin(lax.dot(a, b, precision=p)).sum(), (0, 1)),
    "linearize": lambda p: lambda a, b: lm.jvp(lambda a: lnp.tensordot(a, b, 1, precision=p), (a,), (a,)),
}


def _text(f, *args):
    return stablehlo.dumps(lm.jit(f).lower(*args))


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize(
    ("precision", "said"),
    [
        ("high", "precision = [HIGH, HIGH]"),
        (("default", lax.Precision.HIGHEST), "precision = [DEFAULT, HIGHEST]"),
        ("BF16_BF16_F32_X3", "bf16, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, "
         "num_primitive_operations = 3"),
        (lax.DotAlgorithm("float32", "float32", "float32"), "algorithm = <lhs_precision_type = f32"),
    ],
)  # fmt: skip
def test_precisions_of_products_are_said_by_the_program_and_its_derivatives(name, precision, said):
    f, plain = PRODUCTS[name](precision), PRODUCTS[name](None)
    text = _text(f, A, B)
    products = [line for line in verified(text).splitlines() if "stablehlo.dot_general" in line]
    assert products and all(said in line for line in products)
    want = [np.asarray(x) for x in lm.tree.tree_leaves(plain(A, B))]
    for again in (f, stablehlo.loads(text)):
        for got, w in zip(lm.tree.tree_leaves(again(A, B)), want, strict=True):
            np.testing.assert_array_equal(np.asarray(got), w)
    # Read again, the program says the same.
    assert said in verified(_text(stablehlo.loads(text), A, B))


def test_precisions_of_convolutions():
    x, w = np.ones((1, 2, 5), np.float32), np.ones((3, 2, 2), np.float32)

    def f(x, w):
        return lax.conv(x, w, (1,), "VALID", precision="highest")

    for g, count in ((f, 1), (lm.grad(lambda x, w: f(x, w).sum(), (0, 1)), 2), (lm.vmap(f, (None, 1)), 1)):
        given = (x, w) if count == 2 or g is f else (x, np.stack([w, w], 1))
        told = verified(_text(g, *given))
        assert told.count("precision = [HIGHEST, HIGHEST]") + told.count("precision HIGHEST") // 2 == count


def test_products_and_numbers_are_written_as_mlir_writes_them():
    text = _text(lambda a, b: (a @ b) * 0.5 + 1 / 3, A, B)
    assert "= stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0] : (tensor<3x4xf32>, " in text
    assert "dense<5.000000e-01>" in text and "dense<3.3333334e-01>" in text
    batched = _text(lnp.matmul, np.ones((2, 3, 4), np.float32), np.ones((2, 4, 2), np.float32))
    assert "batching_dims = [0] x [0], contracting_dims = [2] x [1] :" in batched


def test_programs_without_a_precision_say_none():
    assert "precision" not in _text(lnp.matmul, A, B)
    assert "precision" not in _text(
        functools.partial(lax.dot, precision=lax.DotAlgorithmPreset.DEFAULT), A, B
    )


@pytest.mark.parametrize("wrong", ["foo", 3, ("high",), ("high", "foo"), ("high",) * 3])
def test_what_is_no_precision_is_refused(wrong):
    for f in (lax.dot, lnp.dot, lnp.matmul):
        with pytest.raises(ValueError, match=r"precision is .*lax\.Precision"):
            f(A, B, precision=wrong)


# --- composites ---


@functools.partial(lax.composite, name="my.scaled", version=2)
def scaled(x, y, /, *, k, name=None):
    return x * k + lnp.sin(y), {"y": y}


def test_a_composite_computes_its_function_under_transforms():
    x, y = np.float32(2), np.array([1.0, 2.0], np.float32)
    plain = lambda x, y: x * 3 + np.sin(y)  # noqa: E731
    out = scaled(x, y, k=3)
    np.testing.assert_allclose(np.asarray(out[0]), plain(x, y), rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(out[1]["y"]), y)
    jitted = lm.jit(lambda x, y: scaled(x, y, k=3)[0])
    np.testing.assert_array_equal(np.asarray(jitted(x, y)), np.asarray(out[0]))
    slopes = lm.jit(lm.grad(lambda x, y: scaled(x, y, k=3)[0].sum(), (0, 1)))(x, y)
    assert slopes[0].item() == 6
    np.testing.assert_allclose(np.asarray(slopes[1]), np.cos(y), rtol=1e-6)
    lanes = lm.vmap(lambda y: scaled(x, y, k=3)[0])(y)
    np.testing.assert_array_equal(np.asarray(lanes), np.asarray(out[0]))
    assert lm.jvp(lambda x: scaled(x, 0.0, k=2)[0], (1.0,), (1.0,))[1].item() == 2


def test_a_composite_is_written_under_its_name_and_read_again():
    x, y = np.float32(2), np.ones(3, np.float32)
    f = functools.partial(scaled, k=3, name='q"x')
    text = _text(f, x, y)
    for again in (text, _text(stablehlo.loads(text), x, y)):
        told = verified(again)
        assert (
            'stablehlo.composite "my.scaled" %arg0, %arg1 {composite_attributes = {k = 3 : i64, name = "q\\22x"}, '
            "decomposition = @my.scaled, version = 2 : i32}"
        ) in told
    assert lm.make_trace(f)(x, y).eqns[0].primitive.name == "composite"
    for got, want in zip(run_by_xla(text, [x, y]), lm.tree.tree_leaves(f(x, y)), strict=True):
        np.testing.assert_allclose(got, np.asarray(want), rtol=1e-6)
    # A derivative or a batch is another operation.
    assert "composite" not in _text(lm.vmap(lambda y: f(x, y)[0]), y)
    assert "composite" not in _text(lm.grad(lambda x: f(x, y)[0].sum()), x)


def test_attributes_of_composites():
    f = lax.composite(lambda x, **_: -x, "a.b.c")
    given = {
        "i": -1,
        "b": True,
        "f": 1.5,
        "inf": float("inf"),
        "n": np.int32(2),
        "one": np.float32(1 / 3),
        "s": "text",
        "t": np.dtype("bfloat16") if hasattr(np, "bfloat16") else np.dtype(np.float64),
        "list": [1, 2.0],
        "dict": {"k": 1},
        "same": np.zeros((2, 2), np.float32),
        "array": np.array([[1, 2], [3, 4]], np.int8),
        "empty": np.zeros(0, np.float64),
        "none": None,
    }
    told = verified(_text(functools.partial(f, **given), np.float32(1)))
    for part in (
        "i = -1 : i64", "b = true", "f = 1.500000e+00 : f64", "inf = 0x7FF0000000000000 : f64", "n = 2 : i32",
        "one = 0.333333343 : f32", 's = "text"', "t = f64", "list = [1, 2.000000e+00]", "dict = {k = 1 : i64}",
        "same = dense<0.000000e+00> : tensor<2x2xf32>", "array = dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>",
        "empty = dense<> : tensor<0xf64>",
    ):  # fmt: skip
        assert part in told
    assert "none" not in told
    for wrong in (object(), lnp.ones(2), 1j, np.array(["a"])):
        with pytest.raises(TypeError, match=r"the composite a\.b\.c has an attribute"):
            f(1.0, wrong=wrong)
    for name in ("tangent", "my op", "my.op-x", "", "3.x", 3):
        with pytest.raises(ValueError, match="my_namespace"):
            lax.composite(lambda x: x, name)


def test_composites_that_share_a_name_keep_their_functions():
    def f(x):
        return sum(lax.composite(lambda x, k=k: x * k, "my.op")(x) for k in (2.0, 3.0))

    text = _text(f, np.float32(1))
    assert verified(text).count("stablehlo.composite") == 2
    assert run_by_xla(text, [np.float32(1)])[0] == f(1.0).item() == stablehlo.loads(text)(1.0).item() == 5


def test_composites_of_other_programs_keep_their_names():
    import jax

    @functools.partial(jax.lax.composite, name="my.other", version=1)
    def other(x, *, k):
        return x + k

    x = np.ones(2, np.float32)
    loaded = stablehlo.loads(jax.jit(lambda x: other(x, k=4)).lower(x).as_text())
    assert loaded(x).tolist() == [5, 5]
    told = verified(_text(loaded, x))
    assert (
        'stablehlo.composite "my.other" %arg0 {composite_attributes = {k = 4 : i64}' in told
        and "version = 1" in told
    )
