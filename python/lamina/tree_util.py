"""lamina.tree under the names of jax.tree_util, and its ways to register containers."""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lamina import _missing, tree
from lamina._later import dataclasses
from lamina.tree import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    SequenceKey,
    child_keys,
    keystr,
    tree_children,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)
from lamina.tree import Path as KeyPath
from lamina.tree import TreeDef as PyTreeDef

__all__ = [
    "DictKey",
    "FlattenedIndexKey",
    "GetAttrKey",
    "KeyPath",
    "Partial",
    "PyTreeDef",
    "SequenceKey",
    "all_leaves",
    "flatten_one_level",
    "flatten_one_level_with_keys",
    "is_tree_node",
    "keystr",
    "register_dataclass",
    "register_pytree_node",
    "register_pytree_node_class",
    "register_pytree_with_keys",
    "register_pytree_with_keys_class",
    "register_static",
    "tree_all",
    "tree_broadcast",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_with_path",
    "tree_reduce",
    "tree_reduce_associative",
    "tree_structure",
    "tree_transpose",
    "tree_unflatten",
    "treedef_children",
    "treedef_is_leaf",
    "treedef_tuple",
]

tree_all, tree_reduce, tree_transpose = tree.all, tree.reduce, tree.transpose
tree_broadcast, tree_reduce_associative = tree.broadcast, tree.reduce_associative
tree_flatten_with_path, tree_leaves_with_path = tree.flatten_with_path, tree.leaves_with_path
tree_map_with_path = tree.map_with_path


def register_pytree_node(
    nodetype: type,
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_func: Callable[[Any, Iterable[Any]], Any],
    flatten_with_keys_func: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
) -> None:
    """Makes a class a container: see `lamina.tree.register`.

    `flatten_with_keys_func` gives pairs (key, child) in the place of children, for paths.
    """
    keys = None
    if flatten_with_keys_func is not None:
        pairs = flatten_with_keys_func
        keys = lambda x: [k for k, _ in pairs(x)[0]]  # noqa: E731
    tree.register(nodetype, flatten_func, lambda meta, children: unflatten_func(meta, tuple(children)), keys)


def register_pytree_with_keys(
    nodetype: type,
    flatten_with_keys: Callable[[Any], tuple[Iterable[tuple[Any, Any]], Any]],
    unflatten_func: Callable[[Any, Iterable[Any]], Any],
    flatten_func: Callable[[Any], tuple[Iterable[Any], Any]] | None = None,
) -> None:
    """As `register_pytree_node`, from a function that gives pairs (key, child)."""

    def flatten(x: Any) -> tuple[Iterable[Any], Any]:
        pairs, meta = flatten_with_keys(x)
        return [child for _, child in pairs], meta

    register_pytree_node(nodetype, flatten_func or flatten, unflatten_func, flatten_with_keys)


def register_pytree_node_class(cls: type) -> type:
    """Decorator: makes a class with methods ``tree_flatten(self)`` and ``tree_unflatten(cls, meta, children)`` a
    container.
    """
    register_pytree_node(cls, lambda x: x.tree_flatten(), cls.tree_unflatten)
    return cls


def register_pytree_with_keys_class(cls: type) -> type:
    """Decorator: as `register_pytree_node_class`, with ``tree_flatten_with_keys(self)``, which gives pairs."""
    flatten = (lambda x: x.tree_flatten()) if hasattr(cls, "tree_flatten") else None
    register_pytree_with_keys(cls, lambda x: x.tree_flatten_with_keys(), cls.tree_unflatten, flatten)
    return cls


def register_static(cls: type) -> type:
    """Decorator: makes objects of a class containers without leaves, which choose what is computed.

    They must be hashable and have an equality.
    """
    tree.register(cls, lambda x: ((), x), lambda meta, _: meta)
    return cls


def register_dataclass(
    nodetype: type | None = None,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Any:
    """Makes a class a container of its `data_fields`, with `meta_fields` as metadata; also a decorator.

    Of a dataclass both may be left out: the fields marked ``static`` in their metadata are the metadata then.
    (Dataclasses are containers without this.) An object is made again by calling the class with its fields as keywords;
    `drop_fields` get their defaults. TypeError where fields are not named; ValueError where they are not the
    dataclass's, or are named twice, and for a class registered already.
    """
    if nodetype is None:
        return functools.partial(
            register_dataclass, data_fields=data_fields, meta_fields=meta_fields, drop_fields=drop_fields
        )
    if data_fields is None or meta_fields is None:
        if (data_fields, meta_fields) != (None, None):
            raise TypeError(
                f"register_dataclass takes both data_fields and meta_fields, or neither, not {data_fields!r} and "
                f"{meta_fields!r}"
            )
        if not dataclasses.is_dataclass(nodetype):
            raise TypeError(f"{nodetype.__name__} is not a dataclass: name its data_fields and meta_fields")
        fields = [f for f in dataclasses.fields(nodetype) if f.init and f.name not in drop_fields]
        meta_fields = [f.name for f in fields if f.metadata.get("static")]
        data_fields = [f.name for f in fields if not f.metadata.get("static")]
    elif dataclasses.is_dataclass(nodetype):
        wanted = {f.name for f in dataclasses.fields(nodetype) if f.init} - set(drop_fields)
        named = {*data_fields, *meta_fields}
        if wanted != named:
            raise ValueError(
                f"register_dataclass of {nodetype.__name__}: its fields are {', '.join(sorted(wanted))}; named are "
                f"{', '.join(sorted(named))}"
            )
    data, meta = tuple(data_fields), tuple(meta_fields)
    if both := sorted({*data} & {*meta}):
        raise ValueError(
            f"register_dataclass of {nodetype.__name__}: data and metadata at once: {', '.join(both)}"
        )

    def flatten(x: Any) -> tuple[list[Any], Any]:
        return [getattr(x, n) for n in data], tuple(getattr(x, n) for n in meta)

    def unflatten(values: Any, children: Iterable[Any]) -> Any:
        return nodetype(**dict(zip(meta, values)), **dict(zip(data, children)))

    tree.register(nodetype, flatten, unflatten, lambda x: [GetAttrKey(n) for n in data])
    return nodetype


class _Kept:
    """A functools.partial as a function of its own, which another partial does not merge with."""

    __slots__ = ("partial",)

    def __init__(self, partial: functools.partial[Any]) -> None:
        self.partial = partial

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.partial(*args, **kwargs)

    def __eq__(self, other: object) -> bool:
        return self.partial == (other.partial if isinstance(other, _Kept) else other)

    def __hash__(self) -> int:
        return hash(self.partial)

    def __repr__(self) -> str:
        return repr(self.partial)


class Partial(functools.partial):
    """A functools.partial that is a container of its arguments; the function is metadata.

    Of another functools.partial it holds that one as its function.
    """

    def __new__(cls, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Partial:
        inner = _Kept(func) if isinstance(func, functools.partial) and not isinstance(func, Partial) else func
        return super().__new__(cls, inner, *args, **kwargs)


register_pytree_node(
    Partial,
    lambda p: ((p.args, p.keywords), p.func),
    lambda func, children: Partial(func, *children[0], **children[1]),
)


def all_leaves(iterable: Iterable[Any], is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether none of the items is a container."""
    return all(tree.tree_children(x) is None or (is_leaf is not None and is_leaf(x)) for x in iterable)


def is_tree_node(typ: type) -> bool:
    """Whether objects of a type are containers."""
    builtin = (tuple, list, dict, type(None), collections.OrderedDict, collections.defaultdict)
    named = issubclass(typ, tuple) and hasattr(typ, "_fields")
    return typ in builtin or typ in tree._registry or named or dataclasses.is_dataclass(typ)


def flatten_one_level(tree: Any) -> tuple[list[Any], Any]:
    """The children of the outermost container and its metadata. ValueError for a leaf."""
    found = tree_children(tree)
    if found is None:
        raise ValueError(f"a {type(tree).__name__} is a leaf: it cannot be flattened")
    return found


def flatten_one_level_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
    """As `flatten_one_level`, with pairs (key, child)."""
    children, meta = flatten_one_level(tree)
    return list(zip(child_keys(tree, len(children), meta), children)), meta


def treedef_children(treedef: PyTreeDef) -> list[PyTreeDef]:
    """The structures of the parts of the outermost container. TypeError for what is no structure."""
    return _structure(treedef).children()


def treedef_is_leaf(treedef: PyTreeDef) -> bool:
    """Whether it is the structure of a leaf. TypeError for what is no structure."""
    return _structure(treedef).num_leaves == 1 and not treedef.children()


def treedef_tuple(treedefs: Iterable[PyTreeDef]) -> PyTreeDef:
    """The structure of a tuple of containers of these structures."""
    return tree_structure(tuple(t.unflatten([0] * t.num_leaves) for t in map(_structure, treedefs)))


def _structure(treedef: Any) -> PyTreeDef:
    if not isinstance(treedef, PyTreeDef):
        raise TypeError(f"a structure is what tree_structure gives, not {treedef!r:.60}")
    return treedef


__getattr__ = _missing.attributes("lamina.tree_util")
