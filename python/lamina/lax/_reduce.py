"""Reductions, prefix sums, sorting."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _core, dtypes
from lamina._core import Tensor
from lamina._running import running, running_sum
from lamina._smooth import log_add_exp, principal_log
from lamina.lax import _elementwise as ew
from lamina.lax._base import axes_of, axis_of, const, describe, joined, limit, monoid, op, to_tensor
from lamina.lax._control import associative_scan
from lamina.lax._shape import broadcasted_iota, slice_in_dim
from lamina.tree import TreeDef, tree_flatten, tree_unflatten

_MONOIDS = {"add": 0, "multiply": 1, "maximum": -1, "minimum": 1, "or": 0, "and": 1}


def _initial(name: str, dtype: str) -> Tensor:
    """The neutral element of a monoid op."""
    if name in ("maximum", "minimum"):
        return limit(dtype, _MONOIDS[name])
    if name == "and":
        return const(True, dtype) if dtype == "bool" else op("not", const(0, dtype))
    return const(_MONOIDS[name], dtype)


def reduce_monoid(name: str, x: Any, axes: Sequence[int] | None) -> Tensor:
    """x reduced by a named op along axes."""
    t = to_tensor(x)
    if t.dtype == "bool" and name in ("add", "multiply"):
        raise TypeError(
            f"lax.reduce_{'sum' if name == 'add' else 'prod'} does not take bool; convert {describe(t)} first"
        )
    dims = axes_of(axes, t.ndim)
    if not dims:
        return t
    dtype = str(t.dtype)
    return op("reduce", t, _initial(name, dtype), dimensions=dims, body=monoid(name, dtype))


def reduce_sum(operand: Any, axes: Sequence[int] | None = None) -> Tensor:
    """Sum along axes (all by default)."""
    return reduce_monoid("add", operand, axes)


def reduce_prod(operand: Any, axes: Sequence[int] | None = None) -> Tensor:
    """Product along axes."""
    return reduce_monoid("multiply", operand, axes)


def reduce_max(operand: Any, axes: Sequence[int] | None = None) -> Tensor:
    """Maximum along axes.

    NaN if there is one, minus infinity (the smallest integer) if there are no elements.
    """
    return reduce_monoid("maximum", operand, axes)


def reduce_min(operand: Any, axes: Sequence[int] | None = None) -> Tensor:
    """Minimum along axes."""
    return reduce_monoid("minimum", operand, axes)


def reduce_and(operand: Any, axes: Sequence[int] | None = None) -> Tensor:
    """Bitwise (of bools: logical) and along axes."""
    return reduce_monoid("and", operand, axes)


def reduce_or(operand: Any, axes: Sequence[int] | None = None) -> Tensor:
    """Bitwise (of bools: logical) or along axes."""
    return reduce_monoid("or", operand, axes)


def reduce_xor(operand: Any, axes: Sequence[int] | None = None) -> Tensor:
    """Bitwise exclusive or along axes."""
    t = to_tensor(operand)
    dims = axes_of(axes, t.ndim)
    dtype = str(t.dtype)
    return op("reduce", t, const(0, dtype), dimensions=dims, body=monoid("xor", dtype))


def scalar_region(what: str, f: Callable[..., Any], types: list[tuple[str, list[int], bool]], n: int) -> Any:
    """f(containers of n scalars...) as a region on scalars; ValueError if it uses Tensors from outside."""
    from lamina.tree import tree_leaves

    region = _core.region(lambda p: [to_tensor(x) for x in tree_leaves(f(p))], types)
    if region.captured:
        raise ValueError(
            f"the computation of lax.{what} uses {describe(region.captured[0])} from outside; "
            "it can only use its arguments and numbers"
        )
    if n and len(region.result_types) != n:
        raise TypeError(
            f"the computation of lax.{what} returns {len(region.result_types)} values where {n} are needed"
        )
    return region


def operands_and_inits(
    what: str, operands: Any, init_values: Any
) -> tuple[list[Tensor], list[Tensor], TreeDef]:
    """The arrays to combine and their initial values, in their element types, and the structure of both.

    ValueError where the structures differ or there is nothing to combine.
    """
    leaves, treedef = tree_flatten(operands)
    inits, init_tree = tree_flatten(init_values)
    if treedef != init_tree or not leaves:
        raise ValueError(
            f"lax.{what} has {len(leaves)} arrays and {len(inits)} initial values"
            + " of another structure" * bool(leaves)
        )
    arrays = [to_tensor(x) for x in leaves]
    starts = [joined(v, a.dtype) for v, a in zip(inits, arrays, strict=True)]
    starts = [
        _core.elementwise("convert", s, dtype=str(a.dtype)) if s.weak_type and s.dtype != a.dtype else s
        for s, a in zip(starts, arrays, strict=True)
    ]
    return arrays, starts, treedef


def combining(
    what: str, computation: Callable[[Any, Any], Any] | str, arrays: Sequence[Tensor], treedef: TreeDef
) -> Any:
    """The region of an associative computation on scalars of the arrays' types, in a container.

    ValueError where its results are in another.
    """
    n = len(arrays)
    if isinstance(computation, str):
        if n != 1:
            raise ValueError("a named computation reduces one array")
        return monoid(computation, str(arrays[0].dtype))

    def combined(p: list[Any]) -> Any:
        out = computation(tree_unflatten(treedef, p[:n]), tree_unflatten(treedef, p[n:]))
        if tree_flatten(out)[1] != treedef:
            raise ValueError(
                f"lax.{what} combines containers of the structure {treedef}, and its computation returned "
                f"{tree_flatten(out)[1]}"
            )
        return out

    return scalar_region(
        what,
        combined,
        [(str(a.dtype), [], False) for a in arrays] * 2,
        n,
    )


def reduce(
    operands: Any, init_values: Any, computation: Callable[[Any, Any], Any] | str, dimensions: Sequence[int]
) -> Any:
    """Arrays of one shape combined along `dimensions` by an associative computation on scalars.

    `operands` and `init_values` are containers of one structure; `computation(a, b)` takes and returns that
    structure. A name ("add", "maximum", ...) stands for the op.
    """
    arrays, starts, treedef = operands_and_inits("reduce", operands, init_values)
    body = combining("reduce", computation, arrays, treedef)
    dims = axes_of(dimensions, arrays[0].ndim, "dimensions")
    return tree_unflatten(treedef, _core.op("reduce", [*arrays, *starts], dimensions=dims, body=body))


def _arg_region(dtype: str, index_dtype: str, direction: str) -> Any:
    """(value, index) pairs: the better value wins, NaN best of all, then the lower index."""

    def better(p: list[Tensor]) -> list[Tensor]:
        x, i, y, j = p
        wins = _core.elementwise("compare", x, y, direction=direction)
        tie = _core.elementwise("compare", x, y, direction="EQ")
        if dtypes.canonical(dtype).kind == "f":
            x_nan, y_nan = ew.is_nan(x), ew.is_nan(y)
            wins = wins | (x_nan & ~y_nan)
            tie = tie | (x_nan & y_nan)
        first = wins | (tie & (i < j))
        return [_core.elementwise("select", first, x, y), _core.elementwise("select", first, i, j)]

    return _core.region(better, [(dtype, [], False), (index_dtype, [], False)] * 2)


def _arg_extreme(what: str, operand: Any, axis: int, index_dtype: Any, direction: str) -> Tensor:
    t = ew.stop_gradient(to_tensor(operand))
    if not 0 <= operator.index(axis) < t.ndim:
        raise ValueError(
            f"lax.{what}: invalid axis {axis} for operand shape {t.shape}: axes count from 0 here; lamina.numpy.{what} "
            "takes negative ones"
        )
    axis = operator.index(axis)
    if t.shape[axis] == 0:
        raise ValueError(f"lax.{what} along axis {axis} of {describe(t)}, which is empty")
    index = dtypes.name_of(index_dtype)
    if dtypes.TABLE[index].kind not in "iu":
        raise TypeError(f"lax.{what}: index_dtype is an integer type, not {index}")
    if t.dtype == "bool":
        t = ew.convert_element_type(t, "uint8")
    start = limit(t.dtype, -1 if direction == "GT" else 1)
    return _core.op(
        "reduce",
        [t, broadcasted_iota(index, t.shape, axis), start, const(0, index)],
        dimensions=[axis],
        body=_arg_region(str(t.dtype), index, direction),
    )[1]


def argmax(operand: Any, axis: int, index_dtype: Any = "int32") -> Tensor:
    """Index of the first largest element along an axis; NaN counts as largest. ValueError for an axis that is not
    counted from the front, TypeError for an index_dtype that is no integer type."""
    return _arg_extreme("argmax", operand, axis, index_dtype, "GT")


def argmin(operand: Any, axis: int, index_dtype: Any = "int32") -> Tensor:
    """Index of the first smallest element along an axis; NaN counts as smallest. Errors as for `argmax`."""
    return _arg_extreme("argmin", operand, axis, index_dtype, "LT")


def _running(name: str, operand: Any, axis: int, reverse: bool) -> Tensor:
    t = to_tensor(operand)
    axis = axis_of(axis, t.ndim)
    return running(name, t, _initial(name, str(t.dtype)), axis, reverse)


def cumsum(operand: Any, axis: int = 0, reverse: bool = False) -> Tensor:
    """Sums of the elements up to each along an axis (from the end with `reverse`)."""
    t = to_tensor(operand)
    return running_sum(t, axis_of(axis, t.ndim), reverse)


def cumprod(operand: Any, axis: int = 0, reverse: bool = False) -> Tensor:
    """Products of the elements up to each along an axis."""
    return _running("multiply", operand, axis, reverse)


def cummax(operand: Any, axis: int = 0, reverse: bool = False) -> Tensor:
    """Maxima of the elements up to each along an axis."""
    return _running("maximum", operand, axis, reverse)


def cummin(operand: Any, axis: int = 0, reverse: bool = False) -> Tensor:
    """Minima of the elements up to each along an axis."""
    return _running("minimum", operand, axis, reverse)


def cumlogsumexp(operand: Any, axis: int = 0, reverse: bool = False) -> Tensor:
    """log of the sum of exp of the elements up to each along an axis; of complex numbers the principal value."""
    t = to_tensor(operand)
    return associative_scan(log_add_exp, principal_log(t) if t.dtype.kind == "c" else t, reverse, axis)


def _before(x: Tensor, y: Tensor, descending: bool = False) -> tuple[Tensor, Tensor]:
    """(x sorts before y, x and y sort as equal).

    NaN after all others, complex numbers by real, then imaginary part.
    """
    if x.dtype.kind == "c":
        lt, tie = _before(ew.real(x), ew.real(y), descending)
        lt2, tie2 = _before(ew.imag(x), ew.imag(y), descending)
        return lt | (tie & lt2), tie & tie2
    lt = _core.elementwise("compare", x, y, direction="GT" if descending else "LT")
    tie = _core.elementwise("compare", x, y, direction="EQ")
    if x.dtype.kind == "f":
        x_nan, y_nan = ew.is_nan(x), ew.is_nan(y)
        lt = lt | ((x_nan & ~y_nan) if descending else (y_nan & ~x_nan))
        tie = tie | (x_nan & y_nan)
    return lt, tie


def sort_region(dtypes_: Sequence[str], num_keys: int, descending: bool = False) -> Any:
    """The comparator of the first num_keys operands, one after the other."""

    def compare(p: list[Tensor]) -> list[Tensor]:
        result, tie = _before(p[0], p[1], descending)
        for k in range(1, num_keys):
            lt, same = _before(p[2 * k], p[2 * k + 1], descending)
            result, tie = result | (tie & lt), tie & same
        return [result]

    return _core.region(compare, [(d, [], False) for d in dtypes_ for _ in range(2)])


def sort(operand: Any, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> Any:
    """Sorted along a dimension, NaN last; a tuple of arrays is ordered by its first num_keys."""
    many = isinstance(operand, (tuple, list))
    arrays = [to_tensor(x) for x in operand] if many else [to_tensor(operand)]
    if not arrays or not 1 <= num_keys <= len(arrays):
        raise ValueError(f"lax.sort of {len(arrays)} arrays cannot have {num_keys} keys")
    for a in arrays[1:]:
        if a.shape != arrays[0].shape:
            raise ValueError(
                f"lax.sort needs arrays of one shape, not {describe(arrays[0])} and {describe(a)}"
            )
    d = axis_of(dimension, arrays[0].ndim, "dimension")
    body = sort_region([str(a.dtype) for a in arrays], num_keys)
    results = _core.op("sort", arrays, dimension=d, is_stable=is_stable, body=body)
    return tuple(results) if many else results[0]


def sort_key_val(
    keys: Any, values: Any, dimension: int = -1, is_stable: bool = True
) -> tuple[Tensor, Tensor]:
    """keys sorted, and values in the same order."""
    return sort((keys, values), dimension, is_stable)


def top_k(operand: Any, k: int, *, axis: int = -1) -> tuple[Tensor, Tensor]:
    """The k largest elements along an axis in descending order, and their int32 indices.

    NaN counts as largest.
    """
    t = to_tensor(operand)
    axis = axis_of(axis, t.ndim)
    if not 0 <= k <= t.shape[axis]:
        raise ValueError(
            f"lax.top_k: k={k} does not fit the size {t.shape[axis]} of axis {axis} of {describe(t)}"
        )
    if t.shape[axis] > 2**31:
        raise ValueError(
            f"lax.top_k gives int32 indices, which do not reach the end of axis {axis} of {describe(t)}"
        )
    index = broadcasted_iota("int32", t.shape, axis)
    body = sort_region([str(t.dtype), "int32"], 1, descending=True)
    results = _core.op("sort", [t, index], dimension=axis, is_stable=True, body=body)
    return slice_in_dim(results[0], 0, k, 1, axis), slice_in_dim(results[1], 0, k, 1, axis)
