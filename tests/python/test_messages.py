"""The twelve usual mistakes: what was done as the user wrote it, where its parts come from, and what to do instead."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest


def told(kind, f):
    with pytest.raises(kind) as e:
        f()
    text = str(e.value)
    assert len(text.splitlines()) <= 8
    return text


def frames(f):
    """File names of the traceback of the error that f raises."""
    try:
        f()
    except Exception as e:
        trace, out = e.__traceback__, []
        while trace:
            out.append(trace.tb_frame.f_code.co_filename)
            trace = trace.tb_next
        return out
    raise AssertionError("nothing was raised")


def line_of(function, text):
    code = function.__code__
    import linecache

    for n in range(code.co_firstlineno, code.co_firstlineno + 40):
        if text in linecache.getline(code.co_filename, n):
            return n
    raise AssertionError(text)


def test_1_shapes_that_do_not_broadcast():
    w = lnp.ones(4)

    def f():
        x = lnp.ones(3)
        return x + w

    text = told(ValueError, f)
    lines = text.splitlines()
    assert lines[0] == "`x + w`: float32[3] and float32[4] do not broadcast: axis -1 is 3 against 4"
    assert f"x: made at {__file__}:{line_of(f, 'x = lnp')}" in lines[1]
    assert "w: made at" in lines[1]
    assert f"{__file__}:{line_of(f, 'x + w')}: return x + w" in lines[2]
    assert lines[3].index("^^^^^") == lines[2].index("x + w")
    assert "w[:3]?" in lines[4]
    assert frames(f) == [__file__, __file__]
    text = told(ValueError, lambda: lnp.ones((3, 4)) * lnp.ones(3))
    assert "axis -1 is 4 against 3" in text and "lnp.ones(3)[:, None]?" in text
    text = told(ValueError, lambda: lnp.ones((3, 4)) - lnp.ones((4, 3)))
    assert "lnp.ones((4, 3)).T?" in text


def test_2_matmul_deep_in_jit_names_the_argument():
    @lm.jit
    def f(x, params):
        p = params[1]
        return x @ p["w"]

    text = told(ValueError, lambda: f(lnp.ones((5, 8)), [0, {"w": lnp.ones((9, 2))}]))
    assert text.splitlines()[0] == '`x @ p["w"]`: float32[5,8] @ float32[9,2]: 8 != 9'
    assert "p['w']: argument params[1]['w'] of the jitted function f" in text
    assert 'return x @ p["w"]' in text and "^^^^" in text
    x, w = lnp.ones((5, 8)), lnp.ones((2, 8))
    assert "w.T?" in told(ValueError, lambda: x @ w)


def test_3_branches_work_and_strict_mode_gives_three_remedies():
    def f(x):
        return x if x > 0 else -x

    assert lm.jit(f)(-2.0).item() == 2.0
    text = told(TypeError, lambda: lm.jit(f, branches="error")(1.0))
    assert "`x > 0`" in text and "depends on x" in text
    assert "where" in text and "cond" in text and "specialize" in text


def test_4_assignment_works_also_in_jit_and_grad():
    @lm.jit
    def f(x):
        x[0] = 7.0
        return x

    x = lnp.zeros(3)
    np.testing.assert_array_equal(f(x).numpy(), [7, 0, 0])
    np.testing.assert_array_equal(x.numpy(), [7, 0, 0])  # as a plain call would leave it

    def loss(x):
        y = x * 2.0
        y[1] = 0.0
        return y.sum()

    np.testing.assert_array_equal(lm.grad(loss)(lnp.ones(3)).numpy(), [2, 0, 2])


def test_5_numpy_functions_dispatch_and_float_says_what_forced_it():
    assert isinstance(lm.jit(lambda x: np.sin(x))(lnp.ones(2)), lm.Tensor)
    text = told(TypeError, lambda: lm.jit(lambda x: float(x * 2) + 1)(1.0))
    assert text.startswith("`float(x * 2)`: float() needs the value of float32[]")
    assert "static" in text and "^^^^" in text
    text = told(TypeError, lambda: lm.jit(lambda x: np.asarray(x))(1.0))
    assert "a NumPy array" in text and "argument x" in text
    text = told(TypeError, lambda: lm.jit(lambda x: range(x))(3))
    assert "an index" in text and "argument x" in text


def test_6_a_static_index_out_of_bounds_raises_at_once():
    v = lnp.arange(3)
    text = told(IndexError, lambda: v[10])
    assert text.startswith("`v[10]`: index 10 is out of bounds for axis 0 with size 3")
    assert "v: int32[3]" in text and "test_messages.py" in text
    assert set(frames(lambda: v[10])) == {__file__}


def test_7_and_8_gradients_of_vectors_and_integers():
    def loss(w):
        return w * 2

    text = told(TypeError, lambda: lm.grad(loss)(lnp.ones(3)))
    assert "loss returned float32[3]" in text and f":{line_of(loss, 'w * 2')}" in text
    assert ".sum()" in text and "jacrev" in text
    text = told(TypeError, lambda: lm.grad(lambda params: params["step"] * 1.0)({"step": 3}))
    assert "params['step'] is int32[]" in text and "3.0" in text


def test_9_vmap_sizes_name_each_axis_odd_one_first():
    text = told(
        ValueError,
        lambda: lm.vmap(lambda a, b, c: a["k"] + b)({"k": lnp.ones(3)}, lnp.ones(4), lnp.ones(4)),
    )
    assert text.index("a['k']") < text.index(" b ") < text.index(" c ")
    assert "size 3" in text and "size 4" in text and "axis 0" in text


def test_10_a_leak_names_where_it_was_made_and_what_holds_it():
    leak = []

    @lm.jit
    def f(x):
        y = x * 2
        leak.append(y)
        return y

    f(1.0)
    text = told(TypeError, lambda: float(leak[0]))
    assert "leaked" in text and f"made at {__file__}" in text and "leaked into `leak` (list)" in text
    assert "Return it" in text
    assert len(text.splitlines()) <= 5


def test_11_a_shape_from_a_value():
    text = told(TypeError, lambda: lm.jit(lambda n: lnp.zeros(n))(3))
    assert "argument n of the jitted function" in text and "static" in text


def test_12_trees_that_differ():
    params, grads = {"w": 1, "b": 2}, {"w": 1, "c": 2}
    text = told(ValueError, lambda: lm.tree.tree_map(lambda a, b: a + b, params, grads))
    assert "grads has no 'b', has 'c' (did you mean 'b'?); params has it" in text
    nested = {"net": {"w": 1}}
    text = told(ValueError, lambda: lm.tree.tree_map(lambda a, b: a, nested, {"net": {}}))
    assert "['net']" in text and "'w'" in text


def test_printed_tracebacks_hold_no_internal_frames():
    program = textwrap.dedent(
        """
        import lamina as lm, lamina.numpy as lnp
        @lm.jit
        def f(x):
            return lnp.concatenate([x, lnp.ones((2, 2))])
        lm.vmap(lm.grad(lambda v: f(v).sum()))(lnp.ones((2, 3)))
        """
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 1
    assert f"lamina{os.sep}_" not in done.stderr and f"lamina{os.sep}numpy" not in done.stderr
    assert done.stderr.count('File "<string>"') == 3
    full = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "LAMINA_TRACEBACK": "full"},
    )
    assert "_transforms.py" in full.stderr


def test_an_error_of_the_users_own_passes_unchanged():
    class Odd:
        def __index__(self):
            raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        lnp.arange(3)[Odd()]


def test_a_format_of_single_numbers_is_refused_for_arrays_of_them():
    assert f"{lnp.array(3.14159):.2f}" == "3.14"
    x = lnp.arange(3)
    assert f"{x:>40}" == f"{x!r:>40}" and f"{x}" == str(x)
    text = told(TypeError, lambda: f"{x:.2f}")
    assert "shape (3,)" in text and "'.2f'" in text and "x.round(2)" in text
