"""Python functions in the middle of programs: `pure_callback`."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from lamina import _core, dtypes
from lamina._tensor import astype, numpy, to_tensor
from lamina._transforms import _name
from lamina.tree import explain_difference, tree_flatten, tree_unflatten

# A program that made a constant of a function's operand does not own the function: the last ones stay.
_recent: collections.deque[Any] = collections.deque(maxlen=256)
_KINDS = "buifc"  # a result may be converted to a later kind


def pure_callback(callback: Callable[..., Any], result_shape_dtypes: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls a Python function on the values of arrays when they are known, inside or outside `jit`.

    `callback` gets `args` and `kwargs` with read-only NumPy arrays for leaves, runs on the thread that runs
    the program, and returns what `result_shape_dtypes` describes: a tree of things with `shape` and `dtype`
    (lm.ShapeDtype, arrays). It must give equal results for equal arguments: it may be called again, or not at
    all where its result is not used. `vmap` calls it once per lane. It has no derivative: give it one with
    custom_jvp or custom_vjp.

    Raises what the callback raises; ValueError if its results are not as described.

    >>> lm.pure_callback(np.linalg.det, lm.ShapeDtype((), "float32"), lnp.eye(3))
    Tensor(1., dtype=float32)
    """
    leaves, treedef = tree_flatten((args, kwargs))
    wanted, out_tree = tree_flatten(result_shape_dtypes)
    for w in wanted:
        if not hasattr(w, "shape") or not hasattr(w, "dtype"):
            raise TypeError(
                f"pure_callback: results are described by things with shape and dtype "
                f"(lm.ShapeDtype), not {w!r:.60}"
            )
    specs = tuple((str(dtypes.name_of(w.dtype)), tuple(int(n) for n in w.shape)) for w in wanted)
    # The function travels as an operand: what is compiled for one serves all that are called with the same types.
    function = _core.callback_operand(_runner(callback, treedef, result_shape_dtypes, specs))
    _recent.append(function)
    results = _core.op(
        "custom_call",
        [function, *(to_tensor(x) for x in leaves)],
        call_target_name="python",
        result_types=[(dtype, list(shape)) for dtype, shape in specs],
    )
    return tree_unflatten(out_tree, results)


def _runner(callback: Callable[..., Any], treedef: Any, described: Any, specs: Any) -> Callable[..., Any]:
    out_tree = tree_flatten(described)[1]

    def run(operands: list[Any]) -> list[Any]:
        args, kwargs = tree_unflatten(treedef, [numpy(x) for x in operands])
        returned = callback(*args, **kwargs)
        results, tree = tree_flatten(returned)
        if tree != out_tree:
            raise ValueError(
                f"the callback {_name(callback)} returned another structure than was described: "
                f"{explain_difference(described, returned, 'the description', 'the result')}"
            )
        out = []
        for i, (result, (dtype, shape)) in enumerate(zip(results, specs)):
            t = to_tensor(result)
            if t.shape != shape:
                raise ValueError(
                    f"the callback {_name(callback)} returned shape {t.shape} as result {i} "
                    f"where {shape} was described"
                )
            if _KINDS.index(t.dtype.kind) > _KINDS.index(dtypes.TABLE[dtype].kind):
                raise ValueError(
                    f"the callback {_name(callback)} returned {t.dtype.name} as result {i} "
                    f"where {dtype} was described"
                )
            out.append(astype(t, dtype))
        return out

    return run
