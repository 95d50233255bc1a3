"""What the lanes of a named axis exchange: psum, all_gather, ppermute, ..., as in jax.lax.

The name is that of a `lamina.vmap(..., axis_name=)` around the call, or a tuple of names, which counts their lanes in
row-major order. Containers of arrays are exchanged leaf by leaf. NameError for a name that no open vmap has.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from lamina import _core
from lamina._axes import bound, key, names
from lamina._core import Tensor
from lamina.lax._base import axis_of, describe, to_tensor
from lamina.tree import tree_map

Groups = Sequence[Sequence[int]] | None


def _groups(what: str, axis_name: Any, groups: Groups) -> dict[str, Any]:
    """The attributes of `axis_index_groups`. ValueError unless each lane is in one group and all are of one size."""
    if groups is None:
        return {}
    every = names(axis_name)
    if len(every) != 1:
        raise ValueError(f"{what}: axis_index_groups is for one axis, not {axis_name!r}")
    size, _ = bound(every[0])
    lists = [[operator.index(i) for i in g] for g in groups]
    if sorted(i for g in lists for i in g) != list(range(size)):
        raise ValueError(
            f"{what}: axis_index_groups must name each of the {size} lanes of axis {every[0]!r} once, not {lists}"
        )
    if len({len(g) for g in lists}) > 1:
        raise ValueError(f"{what}: axis_index_groups must be of one size, not {lists}")
    return {"replica_groups": [i for g in lists for i in g], "group_size": len(lists[0])} if size else {}


def _record(op: str, x: Tensor, name: Any, **attrs: Any) -> Tensor:
    size, lane = bound(name)
    return _core.op(op, [x, lane], axis_name=key(name), axis_size=size, **attrs)[0]


def axis_size(axis_name: Any) -> int:
    """The number of lanes of an axis, of a tuple of axes the product."""
    return math.prod(bound(n)[0] for n in names(axis_name))


def axis_index(axis_name: Any) -> Tensor:
    """This lane's number along an axis, int32; of a tuple of axes in row-major order."""
    index: Tensor | None = None
    for name in names(axis_name):
        size, lane = bound(name)
        index = lane if index is None else index * size + lane
    if index is None:
        raise ValueError("axis_index needs the name of an axis")
    return index


def _number_of_lanes(axis_name: Any, grouped: dict[str, Any]) -> int:
    return grouped.get("group_size") or axis_size(axis_name)


def _is_constant(x: Any) -> bool:
    return not isinstance(x, Tensor) and (_core.is_number(x) or type(x).__module__ == "numpy")


def _reduced(what: str, reduction: str, x: Any, axis_name: Any, groups: Groups) -> Any:
    attrs = {"reduction": reduction, **_groups(what, axis_name, groups)}
    for name in names(axis_name):
        bound(name)

    def one(leaf: Any) -> Tensor:
        t = to_tensor(leaf)
        if t.dtype.kind == "b" and reduction == "add":
            t = t.astype("int32")
        for name in names(axis_name):
            t = _record("all_reduce", t, name, **attrs)
        return t

    return tree_map(one, x)


def psum(x: Any, axis_name: Any, *, axis_index_groups: Groups = None) -> Any:
    """The sum over all lanes; booleans are counted. A number is multiplied by the axis' size: psum(1, "i") is it."""
    grouped = _groups("psum", axis_name, axis_index_groups)
    lanes = _number_of_lanes(axis_name, grouped)
    return tree_map(
        lambda leaf: (
            leaf * lanes
            if _is_constant(leaf)
            else _reduced("psum", "add", leaf, axis_name, axis_index_groups)
        ),
        x,
    )


def pmean(x: Any, axis_name: Any, *, axis_index_groups: Groups = None) -> Any:
    """The mean over all lanes."""
    lanes = _number_of_lanes(axis_name, _groups("pmean", axis_name, axis_index_groups))
    return tree_map(lambda s: s / lanes, psum(x, axis_name, axis_index_groups=axis_index_groups))


def pmax(x: Any, axis_name: Any, *, axis_index_groups: Groups = None) -> Any:
    """The largest over all lanes. Its derivative is shared by the lanes that have it."""
    return _reduced("pmax", "maximum", x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: Any, *, axis_index_groups: Groups = None) -> Any:
    """The smallest over all lanes. Its derivative is shared by the lanes that have it."""
    return _reduced("pmin", "minimum", x, axis_name, axis_index_groups)


def _merged(x: Tensor, axis: int, count: int = 2) -> Tensor:
    """`count` axes from `axis` on as one."""
    return x.reshape((*x.shape[:axis], math.prod(x.shape[axis : axis + count]), *x.shape[axis + count :]))


def _divided(what: str, x: Tensor, axis: int, lanes: int, tiled: bool) -> Tensor:
    """`x` with an axis of size `lanes` at `axis`; what is left of a tiled one follows. ValueError if it does not fit."""
    size = x.shape[axis]
    if tiled and lanes and size % lanes == 0:
        return x.reshape((*x.shape[:axis], lanes, size // lanes, *x.shape[axis + 1 :]))
    if tiled or size != lanes:
        raise ValueError(
            f"{what} divides axis {axis} of {describe(x)} among {lanes} lanes: its size must be "
            + ("a multiple of that" if tiled else "that, or any multiple with tiled=True")
        )
    return x


def _split_names(x: Tensor, axis: int, axis_name: Any) -> Tensor:
    """The axis of size `lanes` as one for each name."""
    sizes = [bound(n)[0] for n in names(axis_name)]
    return x.reshape((*x.shape[:axis], *sizes, *x.shape[axis + 1 :])) if len(sizes) > 1 else x


def all_gather(
    x: Any,
    axis_name: Any,
    *,
    axis_index_groups: Groups = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> Any:
    """The values of all lanes along a new axis at `axis`, or one behind the other along it (`tiled`).

    `to` is for meshes and changes nothing here.
    """
    grouped = _groups("all_gather", axis_name, axis_index_groups)

    def one(leaf: Any) -> Tensor:
        t = to_tensor(leaf)
        at = axis_of(axis, t.ndim if tiled else t.ndim + 1)
        every = names(axis_name)
        for name in reversed(every):
            t = _record("all_gather", t, name, dimension=at, **grouped)
        count = len(every) + bool(tiled)
        return _merged(t, at, count) if count > 1 else t

    return tree_map(one, x)


def psum_scatter(
    x: Any,
    axis_name: Any,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> Any:
    """Of the sum over all lanes this lane's part along `scatter_dimension`, which goes, or is shorter (`tiled`)."""
    grouped = _groups("psum_scatter", axis_name, axis_index_groups)
    lanes = _number_of_lanes(axis_name, grouped)

    def one(leaf: Any) -> Tensor:
        t = to_tensor(leaf)
        at = axis_of(scatter_dimension, t.ndim)
        t = _split_names(_divided("psum_scatter", t, at, lanes, tiled), at, axis_name)
        for name in names(axis_name):
            t = _record("reduce_scatter", t, name, dimension=at, **grouped)
        return t

    return tree_map(one, x)


def all_to_all(
    x: Any,
    axis_name: Any,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> Any:
    """Each lane sends its parts along `split_axis`, one to each lane, which has them along `concat_axis`.

    The split axis goes and a new one comes; with `tiled` it is shorter, and the other longer, instead.
    """
    grouped = _groups("all_to_all", axis_name, axis_index_groups)
    lanes = _number_of_lanes(axis_name, grouped)

    def one(leaf: Any) -> Tensor:
        t = to_tensor(leaf)
        split, concat = axis_of(split_axis, t.ndim, "split_axis"), axis_of(concat_axis, t.ndim, "concat_axis")
        t = _split_names(_divided("all_to_all", t, split, lanes, tiled), split, axis_name)
        every = names(axis_name)
        if len(every) == 1:
            t = _record("all_to_all", t, every[0], split_dimension=split, concat_dimension=concat, **grouped)
            return _merged(t, concat) if tiled else t
        # What is received comes to the front, one axis for each name, then to its place.
        for k, name in enumerate(every):
            t = _record("all_to_all", t, name, split_dimension=split + k, concat_dimension=k, **grouped)
        t = _merged(t, 0, len(every))
        order = list(range(1, t.ndim))
        order.insert(concat, 0)
        t = t.transpose(order)
        return _merged(t, concat) if tiled else t

    return tree_map(one, x)


def pswapaxes(x: Any, axis_name: Any, axis: int, *, axis_index_groups: Groups = None) -> Any:
    """The named axis and the array's `axis` exchanged, which have one size."""
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def _each(what: str, x: Any, axis_name: Any, sources: list[int]) -> Any:
    """In each lane the value of the lane `sources` names, zeros for -1."""
    every = names(axis_name)

    def one(leaf: Any) -> Tensor:
        t = to_tensor(leaf)
        if len(every) == 1:
            return _record("collective_permute", t, every[0], sources=sources)
        from lamina import numpy as lnp

        source = lnp.asarray(sources, dtype="int32")[axis_index(axis_name)]
        taken = all_gather(t, axis_name)[source]
        return lnp.where(source >= 0, taken, lnp.zeros_like(taken))

    return tree_map(one, x)


def ppermute(x: Any, axis_name: Any, perm: Sequence[tuple[int, int]]) -> Any:
    """Values sent from lane to lane by pairs (from, to); zeros where none arrives.

    ValueError for a lane out of range, and one that sends or receives twice.
    """
    lanes = axis_size(axis_name)
    pairs = [(operator.index(a), operator.index(b)) for a, b in perm]
    for which, side in (("from", [a for a, _ in pairs]), ("to", [b for _, b in pairs])):
        if len(set(side)) != len(side) or any(not 0 <= i < lanes for i in side):
            raise ValueError(
                f"ppermute sources and destinations must be unique lanes of the {lanes} of axis {axis_name!r}; "
                f"those that values go {which} are {side}"
            )
    sources = [-1] * lanes
    for a, b in pairs:
        sources[b] = a
    return _each("ppermute", x, axis_name, sources)


def pshuffle(x: Any, axis_name: Any, perm: Sequence[int]) -> Any:
    """In lane i the value of lane perm[i]. ValueError unless `perm` names each lane once."""
    lanes = axis_size(axis_name)
    sources = [operator.index(i) for i in perm]
    if sorted(sources) != list(range(lanes)):
        raise ValueError(
            f"pshuffle needs a permutation of the {lanes} lanes of axis {axis_name!r}, not {perm}"
        )
    return _each("pshuffle", x, axis_name, sources)


def pbroadcast(x: Any, axis_name: Any, source: int) -> Any:
    """In every lane the value of lane `source`."""
    lanes, at = axis_size(axis_name), operator.index(source)
    if not 0 <= at < lanes:
        raise ValueError(f"pbroadcast: axis {axis_name!r} has {lanes} lanes; there is no lane {source}")
    take: Callable[[Any], Tensor] = lambda leaf: all_gather(leaf, axis_name)[at]  # noqa: E731
    return tree_map(take, x)
