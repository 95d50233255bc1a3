"""lamina.nn against SciPy and differences; initializers by their moments."""

from __future__ import annotations

import subprocess
import sys

import lamina as lm
import numpy as np
import pytest
import scipy.special as sp
from lamina import nn, random
from lax_support import array, check_gradient, sum_squares, value

X = np.random.default_rng(0).normal(size=(3, 4)) * 3
E = {
    "relu": np.maximum(X, 0),
    "relu6": np.clip(X, 0, 6),
    "sigmoid": sp.expit(X),
    "log_sigmoid": sp.log_expit(X),
    "softplus": np.logaddexp(X, 0),
    "soft_sign": X / (1 + abs(X)),
    "silu": X * sp.expit(X),
    "mish": X * np.tanh(np.logaddexp(X, 0)),
    "hard_tanh": np.clip(X, -1, 1),
    "hard_silu": X * np.clip(X + 3, 0, 6) / 6,
    "elu": np.where(X > 0, X, np.expm1(X)),
    "celu": np.where(X > 0, X, np.expm1(X)),
    "leaky_relu": np.where(X > 0, X, 0.01 * X),
    "selu": 1.0507009873554805 * np.where(X > 0, X, 1.6732632423543772 * np.expm1(X)),
    "squareplus": (X + np.sqrt(X**2 + 4)) / 2,
    "softmax": sp.softmax(X, -1),
    "log_softmax": sp.log_softmax(X, -1),
    "logsumexp": sp.logsumexp(X),
    "standardize": (X - X.mean(1, keepdims=True)) / np.sqrt(X.var(1, keepdims=True) + 1e-5),
    "sparse_plus": np.where(X <= -1, 0, np.where(X >= 1, X, (X + 1) ** 2 / 4)),
    "gelu": X * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (X + 0.044715 * X**3))),
    "glu": X[:, :2] * sp.expit(X[:, 2:]),
}


@pytest.mark.parametrize("name", E)
def test_values_and_gradients(name):
    f = getattr(nn, name)
    np.testing.assert_allclose(value(f(array(X))), E[name], rtol=1e-11, atol=1e-13)
    check_gradient(lambda a: sum_squares(f(a)), X[:2])


def test_exact_gelu_and_reductions_along_axes():
    np.testing.assert_allclose(value(nn.gelu(array(X), approximate=False)), X * sp.ndtr(X), rtol=1e-12)
    np.testing.assert_allclose(value(nn.softmax(array(X), (0, 1))), sp.softmax(X), rtol=1e-12)
    got = nn.logsumexp(array(X), 1, keepdims=True, b=array(np.abs(X)))
    np.testing.assert_allclose(value(got), sp.logsumexp(X, 1, b=np.abs(X), keepdims=True), rtol=1e-12)


def test_extreme_inputs_stay_finite():
    big = array([-1e4, 1e4, 0.0], np.float32)
    for f in (nn.softmax, nn.log_softmax, nn.softplus, nn.log_sigmoid, nn.elu, nn.silu, nn.gelu):
        assert np.isfinite(value(f(big))).all(), f.__name__
        assert np.isfinite(value(lm.grad(lambda a, f=f: f(a).sum())(big))).all(), f.__name__
    assert value(nn.logsumexp(array([-np.inf, -np.inf], np.float32))) == -np.inf
    assert value(nn.logsumexp(array([np.inf, 0.0], np.float32))) == np.inf


def test_relu_passes_nan_and_has_derivative_zero_at_zero():
    assert np.isnan(value(nn.relu(array([np.nan], np.float32))))
    assert value(lm.grad(nn.relu)(0.0)) == 0


def test_masked_softmax():
    keep = np.array([True, False, True, True])
    got = value(nn.softmax(array(X), where=array(keep)))
    np.testing.assert_allclose(got[:, keep], sp.softmax(X[:, keep], -1), rtol=1e-12)
    assert (got[:, ~keep] == 0).all()


def test_one_hot():
    got = value(nn.one_hot(array([2, 0, 5, -1], np.int32), 3))
    assert got.tolist() == [[0, 0, 1], [1, 0, 0], [0, 0, 0], [0, 0, 0]]
    assert nn.one_hot(array([2, 0], np.int32), 3, axis=0).shape == (3, 2)
    with pytest.raises(ValueError, match="odd"):
        nn.glu(array(np.ones((2, 3))))


def test_attention_is_softmax_of_products():
    rng = np.random.default_rng(2)
    q, k, v = rng.normal(size=(2, 5, 4, 8)), rng.normal(size=(2, 5, 2, 8)), rng.normal(size=(2, 5, 2, 8))
    got = value(nn.dot_product_attention(array(q), array(k), array(v), is_causal=True))
    k, v = np.repeat(k, 2, 2), np.repeat(v, 2, 2)
    logits = np.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(8)
    logits = np.where(np.tril(np.ones((5, 5), bool)), logits, -np.inf)
    np.testing.assert_allclose(got, np.einsum("bhqk,bkhd->bqhd", sp.softmax(logits, -1), v), rtol=1e-10)


@pytest.mark.parametrize(
    ("name", "variance"),
    [
        ("glorot_uniform", 2 / 500),
        ("glorot_normal", 2 / 500),
        ("he_normal", 2 / 200),
        ("he_uniform", 2 / 200),
        ("lecun_normal", 1 / 200),
        ("lecun_uniform", 1 / 200),
    ],
)
def test_initializers_have_their_variance(name, variance):
    w = value(getattr(nn.initializers, name)()(random.key(0), (200, 300)))
    assert abs(w.mean()) < 4 * np.sqrt(variance / w.size)
    assert abs(w.var() / variance - 1) < 0.03
    conv = getattr(nn.initializers, name)()(random.key(0), (5, 5, 8, 300), "bfloat16")
    assert conv.dtype == "bfloat16" and conv.shape == (5, 5, 8, 300)


def test_initializers_are_imported_as_a_module():
    names = subprocess.run(
        [sys.executable, "-c", "import lamina.nn.initializers as i; print(i.glorot_uniform.__name__)"],
        capture_output=True,
        text=True,
    )
    assert names.stdout.strip() == "glorot_uniform", names.stderr


def test_standardize_by_either_algorithm():
    x = np.array([1e6, 1e6 + 1, 1e6 + 2], np.float32)
    want = (x.astype(float) - x.mean(dtype=float)) / np.sqrt(x.var(dtype=float) + 1e-5)
    for algorithm in ("fast", "stable"):
        for f in (nn.standardize, lm.jit(nn.standardize, static_argnames="algorithm")):
            np.testing.assert_allclose(value(f(x, algorithm=algorithm)), want, rtol=1e-5)
    with pytest.raises(ValueError, match="algorithm is 'fast' or 'stable', not 'other'"):
        nn.standardize(x, algorithm="other")


def test_other_initializers():
    key = random.key(1)
    assert value(nn.initializers.zeros(key, (2, 3))).tolist() == [[0] * 3] * 2
    assert value(nn.initializers.constant(2.5)(key, (2,))).tolist() == [2.5, 2.5]
    assert abs(value(nn.initializers.normal(0.5)(key, (10000,))).std() - 0.5) < 0.02
    with pytest.raises(ValueError, match="rank at least 2"):
        nn.initializers.he_normal()(key, (3,))
    with pytest.raises(ValueError, match="fan_in"):
        nn.initializers.variance_scaling(1.0, "fan", "normal")


def test_rectified_integers():
    assert nn.relu(np.array([True, False])).dtype == "int32"
    assert nn.relu6(np.array([-1, 3, 9], np.int32)).dtype == "float32"
    assert nn.relu6(np.array([-1, 3, 9], np.int32)).tolist() == [0, 3, 6]


def test_what_attention_refuses():
    q = np.ones((2, 3, 1, 4), np.float32)
    for options, message in (
        ({"implementation": "fast"}, "'xla', 'cudnn' and None, not 'fast'"),
        ({"mask": np.ones((2, 1, 3, 3), np.float32)}, "the mask of attention is of bools"),
        ({"query_seq_lengths": np.array([3])}, "query_seq_lengths has one length for each of 2 batches"),
    ):
        with pytest.raises(ValueError, match=message):
            nn.dot_product_attention(q, q, q, **options)
    with pytest.raises(ValueError, match="one element type"):
        nn.dot_product_attention(q, q, q.astype(np.float16))


def test_relus_at_nan():
    for f in (nn.relu, nn.relu6):
        value, slope = lm.value_and_grad(f)(float("nan"))
        assert np.isnan(value.item()) and slope.item() == 0.0
    values, pull = lm.vjp(nn.relu, lm.numpy.array([np.nan, -1.0, 0.0, 2.0]))
    np.testing.assert_array_equal(values, [np.nan, 0.0, 0.0, 2.0])
    np.testing.assert_array_equal(pull(lm.numpy.ones(4))[0], [0.0, 0.0, 0.0, 1.0])
