"""The names of jax.tree_util, and functions on functions: closure_convert, custom_gradient, linear_transpose, typeof."""

from __future__ import annotations

import collections
import dataclasses
import functools
import pickle

import jax
import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax, tree_util


class Pair:
    def __init__(self, a, b, tag):
        self.a, self.b, self.tag = a, b, tag

    def tree_flatten(self):
        return (self.a, self.b), self.tag

    @classmethod
    def tree_unflatten(cls, tag, children):
        assert isinstance(children, tuple)
        return cls(*children, tag)


def test_classes_become_containers():
    cls = tree_util.register_pytree_node_class(type("Node", (Pair,), {}))
    x = lm.jit(lambda p: cls(p.a * 2, [p.b], p.tag))(cls(1.0, 2.0, "t"))
    assert (x.a.item(), x.b[0].item(), x.tag) == (2, 2, "t")
    assert lm.grad(lambda p: p.a * p.b)(cls(3.0, 2.0, "t")).a.item() == 2
    assert [tree_util.keystr(p) for p, _ in tree_util.tree_leaves_with_path(x)] == [
        "[<flat index 0>]",
        "[<flat index 1>][0]",
    ]
    for built_in in (list, tuple, dict, type(None)):
        with pytest.raises(ValueError, match=f"{built_in.__name__} is registered already"):
            tree_util.register_pytree_node(built_in, lambda x: ((), None), lambda *_: None)
    with pytest.raises(ValueError, match="registered already"):
        tree_util.register_pytree_node_class(cls)


def test_children_with_names():
    class Named(Pair):
        def tree_flatten_with_keys(self):
            return ((tree_util.GetAttrKey("a"), self.a), (tree_util.DictKey("b"), self.b)), self.tag

    tree_util.register_pytree_with_keys_class(Named)
    x = Named(1, {"x": 2}, "t")
    paths = [tree_util.keystr(p) for p, _ in tree_util.tree_flatten_with_path(x)[0]]
    assert paths == [".a", "['b']['x']"]
    doubled = tree_util.tree_map_with_path(lambda p, v: v * len(p), x)
    assert (doubled.a, doubled.b["x"]) == (1, 4)

    class Plain(Pair):
        pass

    tree_util.register_pytree_with_keys(
        Plain,
        lambda x: ([(tree_util.GetAttrKey("b"), x.b)], (x.a, x.tag)),
        lambda m, c: Plain(m[0], c[0], m[1]),
    )
    ((path, leaf),) = tree_util.tree_leaves_with_path(Plain(1, 2, 3))
    assert tree_util.keystr(path) == ".b" and leaf == 2


def test_dataclasses():
    @tree_util.register_dataclass
    @dataclasses.dataclass
    class Layer:
        w: object
        n: int = dataclasses.field(metadata={"static": True}, default=3)

    assert lm.grad(lambda d: d.w**d.n)(Layer(2.0, 4)).w.item() == 32
    assert tree_util.tree_structure(Layer(1, 2)) != tree_util.tree_structure(Layer(1, 3))

    class Free:
        def __init__(self, x, k):
            self.x, self.k = x, k

    tree_util.register_dataclass(Free, ["x"], ["k"])
    out = tree_util.tree_map(lambda v: v + 1, Free(1, "s"))
    assert (out.x, out.k) == (2, "s")
    with pytest.raises(ValueError, match="fields are a, b; named are a"):

        @tree_util.register_dataclass
        @dataclasses.dataclass
        class Unused:
            pass

        tree_util.register_dataclass(dataclasses.make_dataclass("Two", ["a", "b"]), ["a"], [])
    with pytest.raises(TypeError, match="not a dataclass"):
        tree_util.register_dataclass(type("Other", (), {}))


def test_static_objects_and_partial():
    @tree_util.register_static
    @dataclasses.dataclass(frozen=True)
    class Config:
        power: int

    assert tree_util.tree_leaves(Config(2)) == []
    assert lm.jit(lambda c, x: x**c.power)(Config(3), 2.0).item() == 8
    p = tree_util.Partial(lambda a, b, c: a * b + c, 3.0, c=1.0)
    assert p(2.0) == 7 and tree_util.tree_leaves(p) == [3.0, 1.0]
    assert lm.jit(lambda f, x: f(x))(p, 2.0).item() == 7
    assert lm.grad(lambda f: f(2.0))(p).args[0].item() == 2
    wanted = jax.tree_util.tree_leaves(jax.tree_util.Partial(lambda a, b, c: 0, 3.0, c=1.0))
    assert tree_util.tree_leaves(p) == wanted


def test_structures():
    x = {"a": 1, "b": [2, (3,)]}
    treedef = tree_util.tree_structure(x)
    first, second = tree_util.treedef_children(treedef)
    assert tree_util.treedef_is_leaf(first) and not tree_util.treedef_is_leaf(second)
    assert second == tree_util.tree_structure([0, (0,)])
    assert tree_util.treedef_is_leaf(tree_util.tree_structure(5))
    assert not tree_util.treedef_is_leaf(tree_util.tree_structure(None))
    assert tree_util.treedef_tuple([treedef, first]) == tree_util.tree_structure((x, 0))
    assert treedef.flatten_up_to({"a": [1, 1], "b": [2, (3,)]}) == [[1, 1], 2, 3]
    with pytest.raises(ValueError, match="structures differ"):
        treedef.flatten_up_to({"a": 1})
    spread = tree_util.tree_broadcast({"a": 0, "b": 1}, {"a": [1, 2], "b": (3,)})
    assert spread == {"a": [0, 0], "b": (1,)}
    assert tree_util.all_leaves([1, 2]) and not tree_util.all_leaves([1, [2]])
    assert tree_util.tree_reduce(lambda a, b: a + b, x, 10) == 16 and tree_util.tree_all([True, 1])


def test_a_function_without_what_it_closes_over():
    ones = lnp.ones(2)

    def f(w, taken, scale=ones):
        # What no derivative can be taken by (`scale`, and `w` where nothing is open) is a constant, as in JAX.
        converted, arrays = lm.closure_convert(lambda x: (scale * w * x).sum(), 1.0)
        assert len(arrays) == taken
        return converted(2.0, *arrays)

    w = lnp.array([1.0, 2.0])
    assert f(w, 0).item() == 6 and lm.grad(f)(w, 1).numpy().tolist() == [2, 2]
    assert lm.jit(lambda w: f(w, 1))(w).item() == 6
    assert lm.vmap(lambda w: f(w, 1, 1.0))(lnp.stack([w, w])).numpy().tolist() == [6, 6]
    converted, arrays = lm.closure_convert(lambda d: w.sum() * d["a"], {"a": 1.0})
    with pytest.raises(TypeError, match="other arguments"):
        converted(1.0, *arrays)
    with pytest.raises(TypeError, match=r"shape \(\)"):
        converted({"a": lnp.ones(3)}, *arrays)


def test_custom_gradient_of_two_calls_of_other_shapes():
    @lm.custom_gradient
    def f(x):
        return lnp.sum(x * x), lambda g: 10 * g * x

    a, b = lm.grad(lambda x, y: f(x) + f(y), (0, 1))(lnp.ones(3), 2 * lnp.ones(4))
    assert a.numpy().tolist() == [10] * 3 and b.numpy().tolist() == [20] * 4


def test_custom_gradient():
    @lm.custom_gradient
    def f(x):
        return x**2, lambda g: 10 * g * x

    for d in (lm.grad(f), lm.jit(lm.grad(f))):
        assert d(3.0).item() == 30
    assert f(3.0) == 9
    assert lm.vmap(lm.grad(f))(lnp.array([1.0, 2.0])).numpy().tolist() == [10, 20]

    @lm.custom_gradient
    def g(x, y):
        return {"a": x * y}, lambda c: (c["a"] * y, c["a"] * x + 100)

    assert [v.item() for v in lm.grad(lambda x, y: 2 * g(x, y)["a"], (0, 1))(2.0, 3.0)] == [6, 104]


def test_linear_transpose_and_typeof():
    m = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    back = lm.linear_transpose(lambda x: m @ x, lm.ShapeDtypeStruct((3,), "float32"))
    (got,) = back(lnp.array([1.0, 2.0]))
    np.testing.assert_array_equal(got.numpy(), m.T @ [1, 2])
    (got,) = lm.linear_transpose(lambda d: d["a"] * 2 + d["b"], {"a": 1.0, "b": 1.0})(3.0)
    assert (got["a"].item(), got["b"].item()) == (6, 3)
    assert lm.typeof(m) == lm.ShapeDtypeStruct((2, 3), "float32")
    assert lm.jit(lambda x: x * lm.typeof(x).shape[0])(lnp.ones(3)).numpy().tolist() == [3, 3, 3]


def test_structures_are_composed_and_counted():
    outer, inner = lm.tree.structure({"a": 0, "b": (0, None)}), lm.tree.structure([0, 0])
    assert outer.compose(inner) == lm.tree.structure({"a": [1, 2], "b": ([3, 4], None)})
    assert (outer.num_nodes, outer.num_leaves, outer.compose(inner).num_leaves) == (5, 2, 4)
    assert repr(outer) == "PyTreeDef({'a': *, 'b': (*, None)})"
    assert pickle.loads(pickle.dumps(outer)) == outer


def test_showing_a_structure_makes_no_object_of_the_class():
    class Checked:
        def __init__(self, x):
            assert isinstance(x, int)
            self.x = x

    tree_util.register_pytree_node(Checked, lambda c: ((c.x,), ["meta"]), lambda _, xs: Checked(*xs))
    structure = lm.tree.structure(Checked(1))
    assert repr(structure) == "PyTreeDef(CustomNode(Checked[['meta']], [*]))"
    assert structure == lm.tree.structure(Checked(2))


def test_metadata_without_a_hash_are_compared_and_kept_as_they_were():
    """Objects as containers whose settings are a dict, which they may share and change."""

    class Model:
        def __init__(self, x, settings):
            self.x, self.settings = x, settings

        @lm.jit
        def apply(self, y):
            traced.append(1)
            return self.x * y if self.settings["multiply"] else y

    traced = []
    tree_util.register_pytree_node(
        Model, lambda m: ((m.x,), m.settings), lambda settings, xs: Model(*xs, settings)
    )
    settings = {"multiply": True, "sizes": [1, 2]}
    model = Model(lnp.array(2.0), settings)
    assert [float(model.apply(3.0)) for _ in range(3)] == [6, 6, 6] and len(traced) == 1
    settings["multiply"] = False
    assert [float(model.apply(3.0)) for _ in range(3)] == [3, 3, 3] and len(traced) == 2
    settings["multiply"] = True
    assert float(model.apply(3.0)) == 6 and len(traced) == 2
    settings["sizes"].append(3)
    assert float(model.apply(3.0)) == 6 and len(traced) == 3
    assert hash(lm.tree.structure(model)) == hash(lm.tree.structure(Model(1.0, {"multiply": True})))
    gradient = lm.grad(lambda m: m.apply(3.0))(model)
    assert gradient.x == 3 and gradient.settings == settings
    assert float(lm.jit(lambda m: m)(model).x) == 2
    assert lm.vmap(lambda m: m.apply(3.0))(Model(lnp.arange(2.0), settings)).numpy().tolist() == [0, 3]
    total = lax.scan(lambda m, y: (Model(m.x + m.apply(y), m.settings), None), model, lnp.ones(3))[0]
    assert total.x == 16


def test_a_flatten_function_that_gives_no_pair_is_named():
    class Odd:
        pass

    tree_util.register_pytree_node(Odd, lambda c: 7, lambda _, xs: Odd())
    with pytest.raises(TypeError, match=r"flatten a Odd .* pair, not 7"):
        lm.tree.leaves(Odd())


def test_a_defaultdict_is_a_container_and_stays_one():
    x = collections.defaultdict(list, {"b": 2.0, "a": 1.0})
    y = lm.tree.map(lambda v: v + 1, x)
    assert (
        type(y) is collections.defaultdict and y.default_factory is list and dict(y) == {"a": 2.0, "b": 3.0}
    )
    assert [lm.tree.keystr(p) for p, _ in lm.tree.leaves_with_path(x)] == ["['a']", "['b']"]
    grads = lm.grad(lambda p: p["a"] * p["b"])(x)
    assert type(grads) is collections.defaultdict and grads["a"].item() == 2.0
    out = lm.jit(lm.vmap(lambda p: p["a"] + p["b"], in_axes=({"a": 0, "b": None},)))(
        {"a": lnp.arange(2.0), "b": 1.0}
    )
    assert out.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="has no 'b'"):
        lm.tree.map(lambda p, q: p, x, collections.defaultdict(list, a=1.0))


def test_keys_are_made_and_matched_by_their_names():
    paths = [p for p, _ in lm.tree.leaves_with_path({"w": [1, 2]})]
    assert paths[1] == (tree_util.DictKey(key="w"), tree_util.SequenceKey(idx=1))
    match paths[0]:
        case (tree_util.DictKey(name), tree_util.SequenceKey(i)):
            assert (name, i) == ("w", 0)
    assert lm.tree.keystr(paths[1], simple=True, separator="/") == "w/1"
    assert repr(paths[1][0]) == "DictKey(key='w')"


def test_is_leaf_may_look_at_the_path():
    x = {"a": [1, [2, 3]], "b": [4]}
    deep = lambda path, v: len(path) == 2  # noqa: E731
    found = lm.tree.leaves_with_path(x, is_leaf=deep, is_leaf_takes_path=True)
    assert [v for _, v in found] == [1, [2, 3], 4]
    out = lm.tree.map_with_path(lambda path, v: len(path), x, is_leaf=deep, is_leaf_takes_path=True)
    assert out == {"a": [2, 2], "b": [2]}


def test_small_helpers():
    assert lm.tree.broadcast((1, 2), (0, {"a": 0, "b": 0})) == (1, {"a": 2, "b": 2})
    with pytest.raises(ValueError, match="3 items against 2"):
        lm.tree.broadcast((1, 2, 3), (0, 0))
    assert lm.tree.reduce_associative(lambda a, b: f"({a}{b})", list("abcde")) == "(((ab)(cd))e)"
    assert lm.tree.reduce_associative(max, (), identity=0) == 0
    with pytest.raises(TypeError, match="identity"):
        lm.tree.reduce_associative(max, ())
    assert lm.tree.transpose(lm.tree.structure([0, 0]), None, [(1, 2), (3, 4)]) == ([1, 3], [2, 4])
    assert tree_util.flatten_one_level({"b": 1, "a": [2]}) == ([[2], 1], ("a", "b"))
    assert tree_util.flatten_one_level_with_keys([5])[0] == [(tree_util.SequenceKey(0), 5)]
    with pytest.raises(ValueError, match="is a leaf"):
        tree_util.flatten_one_level(3)
    assert tree_util.is_tree_node(dict) and not tree_util.is_tree_node(int)


def test_a_field_that_is_metadata():
    @dataclasses.dataclass
    class Layer:
        w: float
        act: str = lm.tree.static(default="relu")

    assert lm.tree.leaves(Layer(1.0)) == [1.0]
    assert lm.tree.map(lambda v: v * 2, Layer(3.0, "tanh")) == Layer(6.0, "tanh")


def test_a_partial_of_a_partial_keeps_it_as_its_function():
    inner = functools.partial(max, 2)
    p = tree_util.Partial(inner, 3)
    assert p.args == (3,) and p.func == inner and p(1) == 3
    assert p.func == tree_util.Partial(inner, 3).func and hash(p.func) == hash(inner)
    assert (
        lm.jit(lambda f, x: f(x))(tree_util.Partial(functools.partial(lnp.maximum, 2.0)), 1.0).item() == 2.0
    )


def test_differences_name_both_kinds_and_show_what_is_no_array():
    Point = collections.namedtuple("Point", "x y")
    for a, b, text in (
        ([[1]], [7], r"at \[0\]: list against int, 7"),
        ([1], [1, 2], r"the top: 1 items against 2, \[1, 2\]"),
        (Point(1, 2), (1, 2), r"named tuple Point against tuple, \(1, 2\)"),
        ([1], (lnp.ones(2),), r"list against tuple$"),
        ({"a": 1}, {"b": 1}, r"a has it \(its keys: \['a'\]\)"),
    ):
        with pytest.raises(ValueError, match=text):
            lm.tree.map(lambda x, y: x, a, b)


def test_metadata_that_have_no_equality_are_named():
    class Held(Pair):
        pass

    tree_util.register_pytree_node(Held, lambda p: ((p.a, p.b), p.tag), lambda tag, ab: Held(*ab, tag))
    f = lm.jit(lambda p: p.a)
    f(Held(1.0, 2.0, lnp.arange(4)))
    with pytest.raises(
        ValueError, match=r"metadata of containers are compared by ==.*an array: make it a child"
    ):
        f(Held(1.0, 2.0, lnp.arange(4)))
