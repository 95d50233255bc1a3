"""Python functions in the middle of programs: `pure_callback`, `io_callback`, and what `lamina.debug` records."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from lamina import _core, dtypes
from lamina._source import user_frame
from lamina._tensor import astype, numpy, to_tensor
from lamina._transforms import _name
from lamina.tree import explain_difference, tree_flatten, tree_unflatten

# A program that made a constant of a function's operand does not own the function: the last ones stay.
_recent: collections.deque[Any] = collections.deque(maxlen=256)
_KINDS = "buifc"  # a result may be converted to a later kind
# Methods of vmap that hand all lanes to one call; the others call once per lane.
_WHOLE = ("expand_dims", "broadcast_all", "legacy_vectorized")
_METHODS = ("sequential", "sequential_unrolled", *_WHOLE, "refuse")


class WrongResult(RuntimeError, ValueError):
    """A callback's results are not as described: an error of its value to Lamina, one of the program's run to JAX."""


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    vmap_method: str | None = None,
    vectorized: bool | None = None,
    **kwargs: Any,
) -> Any:
    """Calls a Python function on the values of arrays when they are known, inside or outside `jit`.

    `callback` gets `args` and `kwargs` with read-only NumPy arrays for leaves, runs on the thread that runs
    the program, and returns what `result_shape_dtypes` describes: a tree of things with `shape` and `dtype`
    (lm.ShapeDtype, arrays). It must give equal results for equal arguments: it may be called again, or not at
    all where its result is not used (see `io_callback`). It has no derivative: give it one with custom_jvp or
    custom_vjp.

    Under `vmap`, by `vmap_method`: "sequential" (also None) calls once per lane; "expand_dims" and "broadcast_all"
    call once, with the lanes as a first axis of all arguments, of size 1 or repeated where an argument is not
    batched; "legacy_vectorized" (`vectorized=True`) leaves those as they are. Results then have that axis too.
    "refuse": NotImplementedError under `vmap`.
    `sharding` is for devices and changes nothing.

    Raises what the callback raises, where its result is read: what is pending beside it is computed all the same.
    ValueError if its results are not as described.

    >>> lm.pure_callback(np.linalg.det, lm.ShapeDtype((), "float32"), lnp.eye(3))
    Tensor(1., dtype=float32)
    """
    if vectorized:
        vmap_method = "legacy_vectorized"
    if vmap_method is not None and vmap_method not in _METHODS:
        raise ValueError(f"pure_callback: vmap_method is None or one of {_METHODS}, not {vmap_method!r:.60}")
    leaves, treedef = tree_flatten((args, kwargs))
    specs, out_tree = _described("pure_callback", result_shape_dtypes)
    # The function travels as an operand: what is compiled for one serves all that are called with the same types.
    function = operand(_runner(callback, treedef, result_shape_dtypes))
    attrs = {"vmap_method": vmap_method} if vmap_method in (*_WHOLE, "refuse") else {}
    results = _core.op(
        "custom_call",
        [function, *(to_tensor(x) for x in leaves)],
        call_target_name="python",
        result_types=specs,
        **attrs,
    )
    return tree_unflatten(out_tree, results)


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Any = None,
    ordered: bool = False,
    vmap_method: str = "sequential",
    **kwargs: Any,
) -> Any:
    """Calls a Python function for what it does: once each time the program passes there, and in program order.

    As `pure_callback` otherwise. It runs although its result is not used, and equal calls are two. Outside `jit` and
    `vmap` it runs at once. `vmap` calls it lane after lane ("sequential"), or raises NotImplementedError ("refuse"). A
    derivative runs it in the forward pass, once; it has none of its own: ValueError where it depends on what is
    differentiated. All are ordered, so `ordered` changes nothing.
    """
    if vmap_method not in ("sequential", "refuse"):
        raise ValueError(f"io_callback: vmap_method is 'sequential' or 'refuse', not {vmap_method!r:.60}")
    leaves, treedef = tree_flatten((args, kwargs))
    specs, out_tree = _described("io_callback", result_shape_dtypes)
    runner = _runner(callback, treedef, result_shape_dtypes)
    refused = "refuse" if vmap_method == "refuse" else ""
    return tree_unflatten(out_tree, effect(runner, [to_tensor(x) for x in leaves], specs, refused))


def effect(
    run: Callable[..., list[Any]], operands: list[Any], specs: list[Any], vmap_method: str = ""
) -> list[Any]:
    """Records run(operands, types) -> results as an effect."""
    return _core.effect([operand(_behind_token(run)), *operands], specs, vmap_method=vmap_method)


def effects_barrier() -> None:
    """Waits until the effects recorded so far have run, as those outside `jit` and `vmap` always have."""
    _core.run_effects()


def _behind_token(run: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    return lambda operands, types: [operands[0], *run(operands[1:], types[1:])]


def operand(run: Callable[..., list[Any]]) -> Any:
    """What stands for run(operands, types) among the operands of a recorded call."""
    function = _core.callback_operand(_placed(run))
    _recent.append(function)
    return function


def _placed(run: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """`run`, whose errors also tell the line that recorded it."""
    frame = user_frame()
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""

    def placed(operands: list[Any], types: list[Any]) -> list[Any]:
        try:
            return run(operands, types)
        except BaseException as e:
            if place and hasattr(e, "add_note"):
                e.add_note(f"in a host callback recorded at {place}")
            raise

    return placed


def _described(what: str, described: Any) -> tuple[list[tuple[str, list[int]]], Any]:
    """The types of the results, and their structure."""
    wanted, out_tree = tree_flatten(described)
    for w in wanted:
        if not hasattr(w, "shape") or not hasattr(w, "dtype"):
            raise TypeError(
                f"{what}: results are described by things with shape and dtype (lm.ShapeDtype), not {w!r:.60}"
            )
    return [(str(dtypes.name_of(w.dtype)), [int(n) for n in w.shape]) for w in wanted], out_tree


def _runner(callback: Callable[..., Any], treedef: Any, described: Any) -> Callable[..., list[Any]]:
    count = len(tree_flatten(described)[0])

    def run(operands: list[Any], types: list[tuple[str, list[int]]]) -> list[Any]:
        args, kwargs = tree_unflatten(treedef, [numpy(x) for x in operands])
        returned = callback(*args, **kwargs)
        results, _ = tree_flatten(returned)
        if len(results) != count:  # as in JAX: a list may be given for a tuple
            raise WrongResult(
                f"the callback {_name(callback)} returned another structure than was described: "
                f"{explain_difference(described, returned, 'the description', 'the result')}"
            )
        out = []
        for i, (result, (dtype, dims)) in enumerate(zip(results, types)):
            t, shape = to_tensor(result), tuple(dims)
            if t.shape != shape:
                raise WrongResult(
                    f"the callback {_name(callback)} returned shape {t.shape} as result {i} "
                    f"where {shape} was described"
                )
            if _KINDS.index(t.dtype.kind) > _KINDS.index(dtypes.TABLE[dtype].kind):
                raise WrongResult(
                    f"the callback {_name(callback)} returned {t.dtype.name} as result {i} "
                    f"where {dtype} was described"
                )
            out.append(astype(t, dtype))
        return out

    return run
