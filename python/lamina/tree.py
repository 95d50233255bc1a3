"""Nested containers of arrays: flatten, unflatten, map.

Containers: tuple, list, dict and defaultdict (by sorted key), OrderedDict, namedtuple, dataclass, None (no leaves), and
types given to `register`. Everything else is a leaf. Nothing here recurses: containers lie up to a million deep in each
other, and the number of leaves is limited by memory only.
"""

from __future__ import annotations

import builtins
import collections
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lamina import _core, _missing
from lamina._core import Tensor
from lamina._later import dataclasses

_registry: dict[
    type, tuple[Callable[[Any], tuple[Iterable[Any], Any]], Callable[[Any, Iterable[Any]], Any]]
] = {}
_keys_of: dict[type, Callable[[Any], Iterable[Any]]] = {}  # of registered types whose children have names


_LEAF = object()
_PLAIN = frozenset((Tensor, int, float, bool, complex, str, bytes))  # types that are leaves at first sight


class TreeDef:
    """The shape of a nested container: its nodes in preorder. Hashable, and equal for equal structures and metadata.

    A structure that has been hashed, as the key of a cache, keeps what its metadata were then.
    """

    __slots__ = ("_hash", "nodes", "num_leaves")

    def __init__(self, nodes: tuple[tuple[type | None, Any, int], ...], num_leaves: int) -> None:
        self.nodes = nodes
        self.num_leaves = num_leaves
        self._hash: int | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TreeDef):
            return False
        try:
            return self.nodes == other.nodes
        except Exception as e:
            raise ValueError(
                "metadata of containers are compared by ==, which has no answer for what is among them here, such as "
                f"an array: make it a child ({e})"
            ) from e

    def __hash__(self) -> int:
        if self._hash is None:
            try:
                self._hash = hash(self.nodes)
            except TypeError:
                self.nodes = tuple(
                    [(cls, _copy_of_containers(meta), arity) for cls, meta, arity in self.nodes]
                )
                self._hash = hash(tuple([(cls, arity) for cls, _, arity in self.nodes]))
        return self._hash

    def __reduce__(self) -> Any:
        return TreeDef, (self.nodes, self.num_leaves)  # without the hash, which is this process's

    def __repr__(self) -> str:
        stack: list[str] = []
        for cls, meta, arity in reversed(self.nodes):
            stack.append(_node_text(cls, meta, [stack.pop() for _ in range(arity)]))
        return f"PyTreeDef({stack.pop()})"

    @property
    def num_nodes(self) -> int:
        """The number of its containers and leaves."""
        return len(self.nodes)

    def compose(self, inner: TreeDef) -> TreeDef:
        """The structure of this one with `inner` in the place of each leaf."""
        nodes = [n for node in self.nodes for n in (inner.nodes if node[0] is None else (node,))]
        return TreeDef(tuple(nodes), self.num_leaves * inner.num_leaves)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The container of these leaves."""
        return tree_unflatten(self, leaves)

    def flatten_up_to(self, x: Any) -> list[Any]:
        """What `x`, which begins with this structure, holds at its leaves. ValueError where it does not."""
        pattern = tree_unflatten(self, [0] * self.num_leaves)
        return _up_to(pattern, x, None, lambda: explain_difference(pattern, x, prefix=True))

    def children(self) -> list[TreeDef]:
        """The structures of the parts of the outermost container; none for a leaf."""
        found = tree_children(tree_unflatten(self, [_LEAF] * self.num_leaves))
        return [] if found is None else [tree_structure(child) for child in found[0]]


def _copy_of_containers(x: Any) -> Any:
    """Dicts, lists and sets that nobody else changes, with the same things in them."""
    if type(x) is dict:
        return {k: _copy_of_containers(v) for k, v in x.items()}
    if type(x) in (list, tuple, set):
        return type(x)(map(_copy_of_containers, x))
    return x


def _node_text(cls: type | None, meta: Any, children: list[str]) -> str:
    """How a structure shows a node: built-in containers as they are written, others with their metadata."""
    inside = ", ".join(children)
    if cls is None:
        return "*"
    if cls is tuple:
        return f"({inside},)" if len(children) == 1 else f"({inside})"
    if cls is list:
        return f"[{inside}]"
    if cls is dict:
        return "{" + ", ".join(f"{k!r}: {c}" for k, c in zip(meta, children)) + "}"
    if cls is type(None):
        return "None"
    if cls not in _registry and hasattr(cls, "_fields"):
        return f"CustomNode(namedtuple[{cls.__name__}], [{inside}])"
    return f"CustomNode({cls.__name__}[{meta}], [{inside}])"


def register(
    cls: type,
    flatten: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten: Callable[[Any, Iterable[Any]], Any],
    keys: Callable[[Any], Iterable[Any]] | None = None,
) -> type:
    """Makes `cls` a container: `flatten(x) -> (children, metadata)`, `unflatten(metadata, children) -> x`.

    Metadata are compared by `==`; jit traces again where they differ. `keys(x)` gives the steps of paths to the
    children (`GetAttrKey("w")`, ...); they are numbered without it. Raises ValueError if the class is registered
    already.
    """
    if cls in _registry or cls in _PLAIN or cls in (tuple, list, dict, type(None)):
        raise ValueError(f"{cls.__name__} is registered already")
    _registry[cls] = (flatten, unflatten)
    if keys is not None:
        _keys_of[cls] = keys
    return cls


def is_open(x: Any) -> bool:
    """Whether an object is a container of its fields though its class was not registered: a dataclass."""
    # As `dataclasses.is_dataclass` asks, whose module most programs never import.
    return hasattr(type(x), "__dataclass_fields__") and not isinstance(x, type)


def open_names(x: Any) -> list[str]:
    """The fields of such a container that are its children."""
    return [f.name for f in dataclasses.fields(x) if not f.metadata.get("static")]


def tree_children(x: Any) -> tuple[list[Any], Any] | None:
    """Children and metadata of a container; None for a leaf."""
    cls = type(x)
    if cls in _PLAIN:
        return None
    if cls is tuple or cls is list:
        return list(x), None
    if cls is dict:
        try:
            keys = sorted(x)
        except TypeError:
            keys = list(x)
        return [x[k] for k in keys], tuple(keys)
    if x is None:
        return [], None
    if cls in _registry:
        pair = _registry[cls][0](x)
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], Iterable):
            raise TypeError(
                f"to flatten a {cls.__name__} its function should return a (children, metadata) pair, not {pair!r:.60}"
            )
        return list(pair[0]), pair[1]
    if cls is collections.OrderedDict:
        return list(x.values()), tuple(x)
    if cls is collections.defaultdict:
        children, keys = tree_children(dict(x)) or ([], ())
        return children, (x.default_factory, keys)
    if isinstance(x, tuple) and hasattr(cls, "_fields"):
        return list(x), None
    if is_open(x):
        names = open_names(x)
        static = tuple(
            (f.name, getattr(x, f.name)) for f in dataclasses.fields(x) if f.metadata.get("static")
        )
        return [getattr(x, n) for n in names], (tuple(names), static)
    return None


def dict_keys(x: Any, meta: Any) -> tuple[Any, ...]:
    """The keys of a dict of any kind, in the order of its children, from its metadata."""
    return meta[1] if type(x) is collections.defaultdict else meta


def _build(cls: type, meta: Any, children: list[Any]) -> Any:
    if cls is tuple:
        return tuple(children)
    if cls is list:
        return children
    if cls is dict:
        return dict(zip(meta, children))
    if cls is type(None):
        return None
    if cls in _registry:
        return _registry[cls][1](meta, children)
    if cls is collections.OrderedDict:
        return collections.OrderedDict(zip(meta, children))
    if cls is collections.defaultdict:
        return collections.defaultdict(meta[0], zip(meta[1], children))
    if hasattr(cls, "_fields"):
        return cls(*children)
    names, static = meta
    x = object.__new__(cls)  # dataclasses come back as they were, without running __init__
    for name, value in (*zip(names, children), *static):
        object.__setattr__(x, name, value)
    return x


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeDef]:
    """Leaves in order, and the structure. RecursionError for a container that holds itself."""
    leaves, nodes = _core.tree_flatten(tree, _PLAIN, tree_children, is_leaf, True)
    return leaves, TreeDef(tuple(nodes), len(leaves))


def tree_unflatten(treedef: TreeDef, leaves: Iterable[Any]) -> Any:
    """The container of this structure with these leaves. ValueError if their number differs."""
    items = list(leaves)
    if not isinstance(treedef, TreeDef):
        raise TypeError(f"a structure is what tree_structure gives, not {treedef!r:.60}")
    if len(items) != treedef.num_leaves:
        raise ValueError(f"the structure has {treedef.num_leaves} leaves, {len(items)} were given")
    stack: list[Any] = []
    for cls, meta, arity in reversed(treedef.nodes):
        if cls is None:
            stack.append(items.pop())
            continue
        children = [stack.pop() for _ in range(arity)]
        stack.append(_build(cls, meta, children))
    return stack.pop()


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """The leaves in order. RecursionError for a container that holds itself."""
    return _core.tree_flatten(tree, _PLAIN, tree_children, is_leaf, False)


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeDef:
    """The structure alone."""
    return tree_flatten(tree, is_leaf)[1]


def _up_to(
    x: Any, other: Any, is_leaf: Callable[[Any], bool] | None, explain: Callable[[], str]
) -> list[Any]:
    """What `other` holds at the leaves of `x`, whose structure it begins with. ValueError with `explain()` if not."""
    out: list[Any] = []
    stack = [(x, other)]
    while stack:
        top, its = stack.pop()
        found = None if is_leaf is not None and is_leaf(top) else tree_children(top)
        if found is None:
            out.append(its)
            continue
        matching = tree_children(its) if type(its) is type(top) else None
        if matching is None or matching[1] != found[1] or len(matching[0]) != len(found[0]):
            raise ValueError(explain())
        stack.extend(reversed(list(zip(found[0], matching[0]))))
    return out


def tree_map(
    f: Callable[..., Any], tree: Any, *rest: Any, is_leaf: Callable[[Any], bool] | None = None
) -> Any:
    """`f` on the leaves of `tree` and on what the others hold in their places; the result has the structure of `tree`.

    The others have the structure of `tree`, or begin with it: `f` gets a container where they go on below a leaf.
    ValueError names where the structures differ.
    """
    leaves, treedef = tree_flatten(tree, is_leaf)

    def explain(i: int) -> str:
        from lamina._source import argument_texts

        texts = argument_texts()[1:]
        named = [texts[0], texts[i + 1]] if len(texts) == 1 + len(rest) else []
        return explain_difference(tree, rest[i], *named, prefix=True)

    others = [_up_to(tree, r, is_leaf, functools.partial(explain, i)) for i, r in enumerate(rest)]
    return tree_unflatten(treedef, [f(*ls) for ls in zip(leaves, *others)])


def reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    initializer: Any = _LEAF,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """`functools.reduce` of `function` over the leaves, from `initializer` if it is given.

    TypeError for no leaves without it.
    """
    start = () if initializer is _LEAF else (initializer,)
    return functools.reduce(function, tree_leaves(tree, is_leaf), *start)


def all(tree: Any, *, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Whether every leaf is true; true for no leaves."""
    return builtins.all(tree_leaves(tree, is_leaf))


def transpose(outer_treedef: TreeDef, inner_treedef: TreeDef | None, pytree_to_transpose: Any) -> Any:
    """A container of structure `outer_treedef` of containers of structure `inner_treedef`, turned inside out.

    `inner_treedef` None: that of the first of them. TypeError where `pytree_to_transpose` has another structure.
    """
    leaves, structure = tree_flatten(pytree_to_transpose)
    for given in (outer_treedef, inner_treedef):
        if given is not None and not isinstance(given, TreeDef):
            raise TypeError(f"a structure is what tree_structure gives, not {given!r:.60}")
    if inner_treedef is None:
        try:
            inner_treedef = tree_structure(next(iter(outer_treedef.flatten_up_to(pytree_to_transpose)), None))
        except ValueError as e:
            raise TypeError(f"Mismatch with the outer structure: {e}") from None
    pattern = tree_unflatten(inner_treedef, [0] * inner_treedef.num_leaves)
    wanted = tree_structure(
        tree_unflatten(outer_treedef, [pattern] * outer_treedef.num_leaves)
    )  # metadata may depend on children
    if structure != wanted:
        raise TypeError(f"Mismatch: the structure is {structure}, not {wanted}")
    columns = [leaves[i :: inner_treedef.num_leaves] for i in range(inner_treedef.num_leaves)]
    return tree_unflatten(inner_treedef, [tree_unflatten(outer_treedef, column) for column in columns])


def broadcast(prefix_tree: Any, full_tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """A container of the structure of `full_tree`, with the leaves of `prefix_tree`, with which it begins, repeated.

    ValueError where it does not begin with it.
    """
    parts = _up_to(
        prefix_tree, full_tree, is_leaf, lambda: explain_difference(prefix_tree, full_tree, prefix=True)
    )
    repeated = [
        leaf
        for leaf, part in zip(tree_leaves(prefix_tree, is_leaf), parts)
        for _ in tree_leaves(part, is_leaf)
    ]
    return tree_unflatten(tree_structure(full_tree, is_leaf), repeated)


def reduce_associative(
    operation: Callable[[Any, Any], Any],
    tree: Any,
    *,
    identity: Any = _LEAF,
    is_leaf: Callable[[Any], bool] | None = None,
) -> Any:
    """As `reduce`, for an associative `operation`: neighbours are joined, then their results, log2(leaves) deep.

    ``identity`` is the result for no leaves; TypeError for no leaves without it.
    """
    parts = tree_leaves(tree, is_leaf)
    while len(parts) > 1:
        joined = [operation(a, b) for a, b in zip(parts[::2], parts[1::2])]
        parts = joined + parts[len(joined) * 2 :]
    if parts:
        return parts[0]
    if identity is _LEAF:
        raise TypeError("reduce_associative of a container without leaves needs an identity")
    return identity


def static(**options: Any) -> Any:
    """`dataclasses.field` for a field that is metadata of the container, not a child: it chooses what is computed."""
    return dataclasses.field(**{**options, "metadata": {"static": True, **(options.get("metadata") or {})}})


class _Key:
    """A step of a path."""

    __slots__ = ("_of",)
    __match_args__: tuple[str, ...] = ()
    _text = "[{!r}]"

    def __init__(self, of: Any) -> None:
        self._of = of

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._of == other._of

    def __hash__(self) -> int:
        return hash((type(self), self._of))

    def __str__(self) -> str:
        return self._text.format(self._of)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.__match_args__[0]}={self._of!r})"


class SequenceKey(_Key):
    """A step of a path: the item `idx` of a list or tuple."""

    __slots__ = ()
    __match_args__ = ("idx",)
    idx = property(lambda self: self._of)

    def __init__(self, idx: int) -> None:
        super().__init__(idx)


class DictKey(_Key):
    """A step of a path: the value that a dict has for `key`."""

    __slots__ = ()
    __match_args__ = ("key",)
    key = property(lambda self: self._of)

    def __init__(self, key: Any) -> None:
        super().__init__(key)


class GetAttrKey(_Key):
    """A step of a path: the field `name` of a named tuple or dataclass."""

    __slots__ = ()
    __match_args__ = ("name",)
    _text = ".{}"
    name = property(lambda self: self._of)

    def __init__(self, name: str) -> None:
        super().__init__(name)


class FlattenedIndexKey(_Key):
    """A step of a path: the child number `key` of a registered container."""

    __slots__ = ()
    __match_args__ = ("key",)
    _text = "[<flat index {}>]"
    key = property(lambda self: self._of)

    def __init__(self, key: int) -> None:
        super().__init__(key)


Path = tuple[Any, ...]


def keystr(keys: Path, *, simple: bool = False, separator: str = "") -> str:
    """A path as it would be written: ``['w'][0].bias``.

    `separator` stands between the steps; `simple` leaves out brackets, quotes and dots: ``w/0/bias`` with "/".
    """
    return separator.join(str(k._of if simple and isinstance(k, _Key) else k) for k in keys)


def flatten_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[Path, Any]], TreeDef]:
    """Pairs (path, leaf) in order, and the structure. A path is a tuple of keys; `keystr` writes it.

    With `is_leaf_takes_path`, `is_leaf` is called with path and value.
    """
    pairs: list[tuple[Path, Any]] = []
    nodes: list[tuple[type | None, Any, int]] = []
    stack: list[tuple[Any, Path]] = [(tree, ())]
    while stack:
        top, path = stack.pop()
        ends = is_leaf is not None and (is_leaf(path, top) if is_leaf_takes_path else is_leaf(top))
        found = None if ends else tree_children(top)
        if found is None:
            nodes.append((None, None, 0))
            pairs.append((path, top))
            continue
        children, meta = found
        nodes.append((type(top), meta, len(children)))
        stack.extend(
            (c, (*path, k)) for c, k in reversed(list(zip(children, child_keys(top, len(children), meta))))
        )
    return pairs, TreeDef(tuple(nodes), len(pairs))


def child_keys(x: Any, count: int, meta: Any) -> list[Any]:
    """The steps to the children of a container."""
    if type(x) in _keys_of:
        return list(_keys_of[type(x)](x))
    if type(x) in _registry:
        return [FlattenedIndexKey(i) for i in range(count)]
    if isinstance(x, dict):
        return [DictKey(k) for k in dict_keys(x, meta)]
    if isinstance(x, tuple) and hasattr(type(x), "_fields"):
        return [GetAttrKey(n) for n in type(x)._fields]
    if is_open(x):
        return [GetAttrKey(n) for n in meta[0]]
    return [SequenceKey(i) for i in range(count)]


def leaves_with_path(
    tree: Any, is_leaf: Callable[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> list[tuple[Path, Any]]:
    """Pairs (path, leaf) in order; `is_leaf` as in `flatten_with_path`."""
    return flatten_with_path(tree, is_leaf, is_leaf_takes_path)[0]


def map_with_path(
    f: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[..., bool] | None = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    """As `tree_map`, of a function that gets the path of the leaf first; `is_leaf` as in `flatten_with_path`.

    >>> lm.tree.map_with_path(lambda path, w: w if lm.tree.keystr(path) == "['bias']" else w * decay, params)
    """
    pairs, structure = flatten_with_path(tree, is_leaf, is_leaf_takes_path)
    others = [structure.flatten_up_to(r) for r in rest]
    return tree_unflatten(structure, [f(path, leaf, *its) for (path, leaf), *its in zip(pairs, *others)])


def tree_paths(x: Any) -> list[str]:
    """For each leaf, how to reach it: ``['w'][0].bias``."""
    return [keystr(path) for path, _ in leaves_with_path(x)]


def _kind(x: Any) -> str:
    """The type of a container or leaf for messages."""
    t = type(x)
    if t in (list, tuple, dict, type(None)) or tree_children(x) is None:
        return t.__name__
    return f"named tuple {t.__name__}" if hasattr(t, "_fields") else f"container {t.__name__}"


def _shown(x: Any) -> str:
    """What stands in a place, where showing it reads no array."""
    plain = {int, float, complex, bool, str, bytes, type(None)}
    if {type(leaf) for leaf in tree_leaves(x)} <= plain:
        return f", {x!r:.60}"
    return ""


def _keys(keys: Sequence[Any]) -> str:
    return f" (its keys: {list(keys)!r:.60})"


def explain_difference(
    a: Any, b: Any, first: str = "the first", second: str = "the second", prefix: bool = False
) -> str:
    """In words, the first place where two structures differ; `first` and `second` name them.

    With `prefix` the second may go on where the first has leaves.
    """
    import difflib

    stack = [(a, b, "")]
    while stack:
        x, y, path = stack.pop()
        cx, cy = tree_children(x), tree_children(y)
        at = path or "the top"
        here = f"{second}{path}"
        if cx is None and (cy is None or prefix):
            continue
        if cx is None or cy is None or type(x) is not type(y):
            return f"structures differ at {at}: {_kind(x)} against {_kind(y)}{_shown(y)}"
        mine, its = (dict_keys(x, cx[1]), dict_keys(y, cy[1])) if isinstance(x, dict) else ((), ())
        if mine != its:
            for k in mine:
                if k not in y:
                    near = difflib.get_close_matches(
                        str(k), [str(o) for o in its if o not in x], n=1, cutoff=0.0
                    )
                    hint = f", has {near[0]!r} (did you mean {k!r}?)" if near else ""
                    return f"structures differ at {at}: {here} has no {k!r}{hint}; {first}{path} has it{_keys(mine)}"
            extra = [k for k in its if k not in x]
            return (
                f"structures differ at {at}: {here} also has {extra[0]!r}, {first}{path} has not{_keys(mine)}"
            )
        if len(cx[0]) != len(cy[0]):
            return f"structures differ at {at}: {len(cx[0])} items against {len(cy[0])}{_shown(y)}"
        if cx[1] != cy[1]:
            return f"structures differ at {at}: static fields {cx[1]!r} against {cy[1]!r}"
        names = [f"[{k!r}]" for k in mine] if isinstance(x, dict) else [f"[{i}]" for i in range(len(cx[0]))]
        stack.extend((p, q, path + n) for p, q, n in reversed(list(zip(cx[0], cy[0], names))))
    return "structures are equal"


# Their names within this module, as in ``lm.tree.map(f, params)``.
flatten, unflatten, leaves, structure, map = (
    tree_flatten,
    tree_unflatten,
    tree_leaves,
    tree_structure,
    tree_map,
)

__getattr__ = _missing.attributes("lamina.tree")
