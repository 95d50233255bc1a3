"""The usual mistakes: the exception a Python programmer expects, in words, with shapes and the user's line."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest


def caught(kind, f):
    with pytest.raises(kind) as e:
        f()
    text = str(e.value)
    assert "lamina/python" not in text and "/lamina/_" not in text
    return text


def test_matmul_names_both_shapes():
    @lm.jit
    def f(x, p):
        return x @ p["w"]

    text = caught(ValueError, lambda: f(lnp.ones((5, 8)), {"w": lnp.ones((9, 2))}))
    assert "8" in text and "9" in text


def test_float_of_a_traced_value():
    text = caught(TypeError, lambda: lm.jit(lambda x: float(x))(lnp.array(1.0)))
    assert "float()" in text


def test_static_index_out_of_range():
    text = caught(IndexError, lambda: lnp.arange(3)[10])
    assert "10" in text and "3" in text


def test_grad_of_a_vector_and_of_an_integer():
    text = caught(TypeError, lambda: lm.grad(lambda x: x * 2.0)(lnp.ones(3)))
    assert "float32[3]" in text and "jacrev" in text
    text = caught(TypeError, lambda: lm.grad(lambda params: params["step"] * 1.0)({"step": 3}))
    assert "params['step']" in text and "int32" in text
    text = caught(TypeError, lambda: lm.grad(lambda x: None)(1.0))
    assert "returned None" in text


def test_vmap_sizes():
    text = caught(ValueError, lambda: lm.vmap(lambda a, b: a + b)(lnp.ones(3), lnp.ones(4)))
    assert "size 3" in text and "size 4" in text


def test_trees_that_differ():
    text = caught(
        ValueError, lambda: lm.tree.tree_map(lambda a, b: a + b, {"w": 1, "b": 2}, {"w": 1, "c": 2})
    )
    assert "'b'" in text and "'c'" in text


def test_arguments_that_are_not_arrays():
    text = caught(TypeError, lambda: lm.jit(lambda x, mode: x)(1.0, "fast"))
    assert "mode" in text and "static" in text


def test_huge_shapes_raise_and_do_not_kill():
    for shape in ((2**62,), (2**40, 2**40), (-1,)):
        caught((ValueError, MemoryError), lambda s=shape: lnp.zeros(s).numpy())


def test_writing_inside_a_transform_to_what_was_made_outside():
    outside = lnp.zeros(3)

    def f(x):
        outside[0] = x
        return x

    assert "outside the transformed function" in caught(TypeError, lambda: lm.grad(f)(1.0))


def test_a_leaked_value_says_so():
    kept = []
    lm.jit(lambda x: kept.append(x * 2.0) or x)(lnp.array(1.0))
    text = caught(TypeError, lambda: kept[0].item())
    assert "jit" in text


def test_failure_inside_a_trace_poisons_nothing():
    def bad(x):
        raise KeyError("mine")

    for transform in (lm.jit, lm.grad, lm.vmap):
        with pytest.raises(KeyError, match="mine"):
            transform(bad)(lnp.ones(3))
    np.testing.assert_array_equal((lnp.ones(3) + 1.0).numpy(), [2, 2, 2])
