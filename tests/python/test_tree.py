"""Containers of arrays: prefixes, paths and vectors, held against JAX's."""

from __future__ import annotations

import collections
import dataclasses
import random

import jax
import jax.flatten_util
import jax.numpy as jnp
import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina.flatten_util import ravel_pytree

Pair = collections.namedtuple("Pair", "a b")
TREES = [
    {"w": 1, "b": [2, (3, None)], "c": {"x": 4}},
    [1, (2, Pair(3, {"k": 4}))],
    collections.OrderedDict(z=1, a=[2, 3]),
    5,
    (),
    None,
]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_paths_are_those_of_jax(tree):
    want, _ = jax.tree_util.tree_flatten_with_path(tree)
    got, structure = lm.tree.flatten_with_path(tree)
    assert [lm.tree.keystr(p) for p, _ in got] == [jax.tree_util.keystr(p) for p, _ in want]
    assert [x for _, x in got] == [x for _, x in want]
    assert structure == lm.tree.structure(tree) and lm.tree.leaves_with_path(tree) == got
    for (mine, _), (its, _) in zip(got, want, strict=True):
        assert [type(k).__name__ for k in mine] == [type(k).__name__ for k in its]
    text = lm.tree.map_with_path(lambda p, x: f"{lm.tree.keystr(p)}={x}", tree)
    assert text == jax.tree_util.tree_map_with_path(lambda p, x: f"{jax.tree_util.keystr(p)}={x}", tree)


def test_paths_of_dataclasses_and_registered_classes():
    @dataclasses.dataclass
    class State:
        w: int
        rest: list

    class Box:
        def __init__(self, *items):
            self.items = items

    lm.tree.register(Box, lambda b: (b.items, None), lambda _, items: Box(*items))
    paths = [lm.tree.keystr(p) for p, _ in lm.tree.leaves_with_path(State(1, [Box(2, 3)]))]
    assert paths == [".w", ".rest[0][<flat index 0>]", ".rest[0][<flat index 1>]"]


def test_map_takes_containers_that_go_on_below_the_leaves():
    for x, rest in [
        ({"a": 1, "b": 2}, ({"a": [3, 4], "b": {"c": 5}},)),
        ([1, (2, 3)], ([[4], ({"k": 5}, 6)], [7, ((), None)])),
        (1, ({"any": 2},)),
    ]:
        f = lambda *ls: repr(ls)  # noqa: E731
        assert lm.tree.map(f, x, *rest) == jax.tree.map(f, x, *rest)
        assert lm.tree.map_with_path(lambda p, *ls: repr(ls), x, *rest) == jax.tree.map(f, x, *rest)
    is_leaf = lambda x: isinstance(x, tuple)  # noqa: E731
    assert lm.tree.map(lambda a, b: (a, b), [(1, 2), 3], [4, 5], is_leaf=is_leaf) == [((1, 2), 4), (3, 5)]


def test_map_names_where_the_structures_differ():
    for x, other, text in [
        ({"a": 1}, {"b": 1}, "no 'a'"),
        ({"a": [1, 2]}, {"a": [1]}, r"at \['a'\]: 2 items against 1"),
        ([1, [2]], [1, 2], "list against int"),
        ((1, 2), [1, 2], "tuple against list"),
    ]:
        with pytest.raises(ValueError, match=text):
            lm.tree.map(lambda *_: 0, x, other)
        with pytest.raises(ValueError):
            jax.tree.map(lambda *_: 0, x, other)


@pytest.mark.parametrize(
    "leaves",
    [
        {"w": np.ones((2, 3), np.float32), "b": [np.arange(3, dtype=np.float32), np.float32(7)]},
        {"w": np.ones((2, 2), np.float32), "n": np.arange(3, dtype=np.int32)},
        [np.ones((0, 2), np.float32), np.ones(1, np.float16)],
        [],
    ],
    ids=lambda x: str(jax.tree.map(lambda a: a.dtype.name, x)),
)
def test_ravel_pytree_is_that_of_jax(leaves):
    want, _ = jax.flatten_util.ravel_pytree(jax.tree.map(jnp.asarray, leaves))
    flat, unravel = ravel_pytree(lm.tree.map(lnp.asarray, leaves))
    assert flat.dtype == want.dtype and flat.shape == want.shape
    np.testing.assert_array_equal(flat.numpy(), want)
    back = unravel(flat)
    for a, b in zip(lm.tree.leaves(back), jax.tree.leaves(leaves), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(a.numpy(), b)
    with pytest.raises(ValueError, match="elements"):
        unravel(lnp.zeros(flat.size + 1, flat.dtype))
    if len({a.dtype for a in lm.tree.leaves(back)}) > 1:
        with pytest.raises(TypeError, match="as ravel_pytree gave it"):
            unravel(lnp.zeros(flat.shape, "int8"))
    else:  # of one type: the type of the vector, so that masks and complex directions fit
        assert {a.dtype.name for a in lm.tree.leaves(unravel(lnp.zeros(flat.shape, "int8")))} <= {"int8"}


def test_ravel_pytree_under_transforms():
    params = {"w": lnp.array([[1.0, 2.0]]), "b": lnp.array(3.0)}
    flat, unravel = ravel_pytree(params)

    def loss(v):
        p = unravel(v)
        return (p["w"] ** 2).sum() * p["b"]

    assert lm.grad(loss)(flat).tolist() == [5.0, 6.0, 12.0]
    assert lm.jit(lm.grad(loss))(flat).tolist() == [5.0, 6.0, 12.0]
    rows = lm.vmap(lambda v: ravel_pytree(unravel(v))[0])(lnp.stack([flat, 2 * flat]))
    assert rows.tolist() == [[3.0, 1.0, 2.0], [6.0, 2.0, 4.0]]


def test_a_container_that_holds_itself_is_named():
    inside: list = []
    inside.append({"again": inside})
    for f in (lm.tree.leaves, lm.tree.structure, lm.block_until_ready, lm.jit(lambda x: 1.0)):
        with pytest.raises(RecursionError, match=r"a (list|dict) holds itself"):
            f(inside)


def test_containers_may_lie_deep_in_each_other():
    x = lnp.ones(2)
    for _ in range(100_000):
        x = [x]
    (leaf,), structure = lm.tree.flatten(x)
    assert leaf.tolist() == [1.0, 1.0] and structure.num_nodes == 100_001


def test_keys_without_an_order_stay_in_that_of_the_dict():
    assert lm.tree.leaves({"b": 1, 2: 3, "a": 4}) == [1, 3, 4]
    assert lm.tree.leaves({"b": 1, "a": 4, "c": {}}) == [4, 1]


def random_container(draw: random.Random, depth: int, leaf):
    kind = draw.randrange(8) if depth > 0 else 0
    children = [random_container(draw, depth - 1, leaf) for _ in range(draw.randrange(4) if kind > 2 else 0)]
    if kind < 2:
        return leaf()
    if kind == 2:
        return None
    if kind == 3:
        return Pair(random_container(draw, depth - 1, leaf), children)
    if kind in (4, 5):
        return {key: child for key, child in zip(draw.sample("zyxab", 5), children, strict=False)}
    return children if kind == 6 else tuple(children)


@pytest.mark.parametrize("seed", range(100))
def test_random_containers_come_back_as_they_were(seed):
    draw = random.Random(seed)
    tree = random_container(draw, 5, lambda: draw.randrange(1000))
    leaves, structure = lm.tree.flatten(tree)
    assert leaves == jax.tree_util.tree_leaves(tree)
    assert repr(lm.tree.unflatten(structure, leaves)) == repr(jax.tree_util.tree_map(lambda x: x, tree))

    arrays = lm.tree.map(lnp.asarray, tree)
    add_one = lm.jit(lambda t: lm.tree.map(lambda x: x + 1, t))
    for _ in range(4):  # traced, then answered without Python
        out = lm.tree.map(int, add_one(arrays))
    assert out == lm.tree.map(lambda x: x + 1, tree) and lm.tree.structure(out) == structure


def test_what_functions_of_the_user_raise_on_the_way_comes_out():
    class Key:
        def __lt__(self, other):
            raise OSError("no order today")

    with pytest.raises(OSError, match="no order today"):
        lm.tree.leaves({Key(): 1, Key(): 2})
    with pytest.raises(ZeroDivisionError):
        lm.tree.flatten([1, [2]], is_leaf=lambda x: 1 // (x == 2))
    assert lm.tree.leaves([(1, 2), [3]], is_leaf=lambda x: [x] if isinstance(x, tuple) else []) == [(1, 2), 3]


def test_waiting_for_a_container_waits_for_every_array_in_it():
    made = {"a": [lnp.ones(3) + 1], "b": Pair(lnp.zeros(2) - 1, None), "c": "text", "d": np.ones(2)}
    assert lm.block_until_ready(made) is made
    assert made["a"][0].is_ready() and made["b"].a.is_ready()


def test_functions_that_unravel_equal_containers_are_one_static_argument():
    traced = []

    def run(flat, unravel):
        traced.append(flat.shape)
        return unravel(flat + 1)

    jitted = lm.jit(run, static_argnums=1)
    given = [{"a": lnp.arange(2), "b": lnp.ones((2, 2))}, {"a": lnp.arange(1, 3), "b": lnp.zeros((2, 2))}]
    results = [jitted(*ravel_pytree(tree)) for tree in given]
    assert len(traced) == 1 and results[1]["a"].tolist() == [2, 3]
    unravels = [ravel_pytree(tree)[1] for tree in (*given, [lnp.ones(6)])]
    assert unravels[0] == unravels[1] != unravels[2] and hash(unravels[0]) == hash(unravels[1])
