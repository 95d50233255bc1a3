"""checks(types="raise"): element types that differ are an error where they meet, as in JAX's strict promotion."""

from __future__ import annotations

import threading

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import _core, nn

STRONG = ["bool", "int8", "int32", "uint8", "float16", "bfloat16", "float32", "complex64"]
NUMBERS = {int: 2, float: 0.5, complex: 1j}
# Of which arrays a number takes on the type (docs.jax.dev, "Strict dtype promotion").
TAKEN = {int: "iufc", float: "fc", complex: "c"}


@pytest.fixture
def strict():
    with lm.checks(types="raise"):
        yield


def test_arrays_of_one_type_and_numbers_that_take_it_on_meet(strict):
    for dtype in STRONG:
        x = lnp.ones(2, dtype)
        assert lnp.where(x == x, x, x).dtype == dtype
        for kind, number in NUMBERS.items():
            if lnp.dtype(dtype).kind in TAKEN[kind]:
                assert (x * number).dtype == (number + x).dtype == dtype
            else:
                with pytest.raises(TypeError, match=rf"{dtype} .*differ, and lamina.checks.*astype"):
                    lnp.add(x, number)
                with pytest.raises(TypeError, match="of a number"):
                    lnp.add(number, x)


@pytest.mark.parametrize("a", STRONG)
def test_arrays_of_two_types_do_not(strict, a):
    for b in STRONG:
        if b == a:
            continue
        x, y = lnp.ones(2, a), lnp.ones(2, b)
        for f in (
            lnp.add,
            lnp.equal,
            lambda x, y: lnp.concatenate([x, y]),
            lambda x, y: lnp.where(True, x, y),
        ):
            for _ in range(3):  # also where it was recorded before
                with pytest.raises(TypeError, match=rf"element types {a} and {b} differ"):
                    f(x, y)
        with pytest.raises(TypeError, match="differ, and"):
            x + y
        with pytest.raises(TypeError, match="differ, and"):
            lnp.promote_types(a, b)


def test_it_is_asked_where_a_function_is_traced():
    f = lm.jit(lambda x, y: x + y)
    x, y = lnp.ones(2), lnp.arange(2)
    with lm.checks(types="raise"):
        with pytest.raises(TypeError, match="float32 and int32 differ"):
            f(x, y)
        with lm.debug_nans(), pytest.raises(TypeError, match="float32 and int32 differ"):
            x + y  # another check changes nothing
        with lm.checks(types="off"):
            assert (x + y).tolist() == [1.0, 2.0]
        found = []
        other = threading.Thread(target=lambda: found.append((x * y).tolist()))
        other.start()
        other.join()
        assert found == [[0.0, 1.0]]
    assert f(x, y).tolist() == [1.0, 2.0]

    @lm.checks(types="raise")
    def loss(w):
        return (w * lnp.arange(2)).sum()

    with pytest.raises(TypeError, match="float32 and int32 differ"):
        lm.grad(loss)(x)
    with pytest.raises(ValueError, match="types must be 'off' or 'raise'"), lm.checks(types="warn"):
        pass


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "bool", "complex64"])
def test_functions_of_one_array_need_no_other_type(dtype):
    x = lnp.asarray(np.arange(1, 7).reshape(2, 3) % 4, dtype)
    calls = [
        getattr(lnp, n)
        for n in ("sum", "mean", "std", "var", "max", "sort", "cumsum", "exp", "sqrt", "argmax")
    ]
    calls += [
        getattr(lnp, n)
        for n in ("median", "round", "sinc", "angle", "nan_to_num", "diff", "unique", "count_nonzero")
    ]
    calls += [
        lambda x: lnp.linalg.norm(x),
        lambda x: x @ x.T,
        lambda x: x.at[0].set(1),
        lambda x: x[0] / x[1],
    ]
    if dtype != "complex64":
        calls += [nn.softmax, nn.gelu, nn.relu, nn.logsumexp, nn.standardize, lambda x: lnp.quantile(x, 0.3)]
    for f in calls:
        try:
            f(x)
        except (TypeError, ValueError):
            continue  # not of this type at all
        before = _core.set_strict_types(True)
        try:
            f(x)
        finally:
            _core.set_strict_types(before)
