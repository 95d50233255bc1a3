"""Results belong to the caller: writing to one never changes an argument or another result, nor the reverse."""

import contextlib
import functools
import importlib
import inspect
import re

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from lamina import lax, nn, random, tree


def _modules():
    found = {"lamina.numpy": lnp, "lamina.lax": lax, "lamina.nn": nn, "lamina.random": random}
    for name in (
        "lax.linalg",
        "numpy.linalg",
        "numpy.fft",
        "scipy.linalg",
        "scipy.special",
        "scipy.cluster.vq",
        "scipy.fft",
        "scipy.integrate",
        "scipy.ndimage",
        "scipy.signal",
        "scipy.sparse.linalg",
        "scipy.stats",
        "ops",
        "image",
    ):
        with contextlib.suppress(ImportError):
            found[f"lamina.{name}"] = importlib.import_module(f"lamina.{name}")
    return found


MODULES = _modules()


def _functions():
    for where, module in MODULES.items():
        for name in getattr(module, "__all__", None) or vars(module):
            f = getattr(module, name)
            own = getattr(f, "__module__", "").startswith("lamina")
            if not name.startswith("_") and callable(f) and own and not isinstance(f, type):
                yield f"{where}.{name}", f


FUNCTIONS = dict(_functions())
KEYWORDS = {
    "lamina.lax.platform_dependent": {"cpu": lambda *args: args},
    "lamina.lax.scatter_apply": {"update_shape": (3,)},
    "lamina.scipy.special.bessel_jn": {"v": 2},
}
FUNCTIONS |= {n: functools.partial(FUNCTIONS[n], **k) for n, k in KEYWORDS.items() if n in FUNCTIONS}

A, A2 = np.array([[0.5, 0.25, 0.75], [0.125, 0.5, 0.25]], "f4"), np.full((2, 3), 0.5, "f4")
M, M2 = np.array([[2.0, 0.5], [0.5, 1.0]], "f4"), np.eye(2, dtype="f4")
V, V2 = np.array([0.25, 0.5, 0.75], "f4"), np.array([0.5, 0.25, 0.125], "f4")
IX, I2 = np.array([0, 2, 1], "i4"), np.array([1, 1, 2], "i4")
B, S, N = np.array([True, False, True]), np.float32(0.5), np.int32(1)
C = V.astype("c8")
KEY = np.array([0, 7], "u4")

# Arguments to try, first those that leave nothing to do, which is where a result could be an argument.
COMMON = [
    (A,), (V,), (M,), (IX,), (B,), (C,), (S,), (KEY,), (A, A2), (V, V2), (M, M2), (IX, I2), (B, B), (C, C), (S, V),
    (A, (2, 3)), (A, 0), (V, 0), (V, 1), (A, 1), (M, 0), (IX, 0), (IX, 1), (V, V, V2), (A, A, A2), (B, V, V2),
    ([V, V2],), ([A, A2], 0), (V, IX), (IX, V), (A, IX[:2], 0), (A, 0, 1), (A, (0, 1)), (A, (0,)), (V, "float32"),
    (KEY, V), (KEY, (3,)), (KEY, V, (3,)), (KEY, IX), (2, 3), (3,), ((2, 3),), (0.0, 1.0), ((2, 3), 0.5),
    ("float32", (3,)), ("float32", 0.5), (A, 0.0, 1.0), (A, [B, B], [A, A]), (V, V, V, V),
    (KEY, S, S, (3,)), (V, None, None), (A, ((0, 0), (0, 0))),
]  # fmt: skip

_conv = (np.ones((1, 1, 4), "f4"), np.ones((1, 1, 2), "f4"))
_scatter = (V, IX[:, None], V2, lax.ScatterDimensionNumbers((), (0,), (0,)))
# Where those do not fit, or miss the case that matters.
ROWS = {
    "lamina.numpy.apply_along_axis": [(lambda v: v, 0, A)],
    "lamina.numpy.astype": [(V, "float32")],
    "lamina.numpy.clip": [(V, None, None)],
    "lamina.numpy.choose": [(IX, [V, V2, V])],
    "lamina.numpy.compress": [(B, V)],
    "lamina.numpy.dsplit": [(np.ones((2, 2, 2), "f4"), 1)],
    "lamina.numpy.einsum": [("ij->ij", A), ("ij,ij->i", A, A2)],
    "lamina.numpy.fromfunction": [(lambda i: i, (3,))],
    "lamina.numpy.frombuffer": [(b"abcd", "uint8")],
    "lamina.numpy.meshgrid": [(V,), (V, V2)],
    "lamina.numpy.pad": [(V, 0)],
    "lamina.numpy.piecewise": [(V, [B], [lambda v: v, 0.0])],
    "lamina.numpy.roll": [(V, 0)],
    "lamina.numpy.select": [([B], [V], V2)],
    "lamina.numpy.insert": [(V, 1, 0.5)],
    "lamina.numpy.ravel_multi_index": [((IX, I2), (3, 3))],
    "lamina.numpy.put": [(V, IX, V2, None)],
    "lamina.numpy.put_along_axis": [(V, IX, V2, 0)],
    "lamina.lax.associative_scan": [(lambda a, b: a, V), (lambda a, b: a, V[:1])],
    "lamina.lax.batch_matmul": [(np.ones((2, 2, 2), "f4"), np.ones((2, 2, 2), "f4"))],
    "lamina.lax.cond": [(True, lambda v: v, lambda v: v, V)],
    "lamina.lax.custom_linear_solve": [(lambda x: x, V, lambda f, b: b)],
    "lamina.lax.custom_root": [(lambda x: x, V, lambda f, x: x, lambda g, y: y)],
    "lamina.lax.conv": [(*_conv, (1,), "VALID")],
    "lamina.lax.conv_general_dilated": [(*_conv, (1,), "VALID")],
    "lamina.lax.conv_general_dilated_patches": [(_conv[0], (2,), (1,), "VALID")],
    "lamina.lax.conv_general_dilated_local": [(_conv[0], np.ones((1, 2, 3), "f4"), (1,), "VALID", (2,))],
    "lamina.lax.ragged_dot": [(A, np.ones((2, 3, 1), "f4"), np.array([1, 1]))],
    "lamina.lax.ragged_dot_general": [
        (
            A,
            np.ones((2, 3, 1), "f4"),
            np.array([1, 1]),
            lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,)),
        )
    ],
    "lamina.lax.conv_transpose": [(np.ones((1, 4, 1), "f4"), np.ones((2, 1, 1), "f4"), (1,), "VALID")],
    "lamina.lax.conv_with_general_padding": [(*_conv, (1,), [(0, 0)], None, None)],
    "lamina.lax.dot_general": [(A, A2, (((1,), (1,)), ((), ())))],
    "lamina.lax.dynamic_slice": [(V, (0,), (3,))],
    "lamina.lax.dynamic_slice_in_dim": [(V, 0, 3)],
    "lamina.lax.dynamic_update_index_in_dim": [(V, V2[:1], 0, 0)],
    "lamina.lax.dynamic_update_slice": [(V, V2, (0,))],
    "lamina.lax.dynamic_update_slice_in_dim": [(V, V2, 0, 0)],
    "lamina.lax.fft": [(C, "FFT", 3)],
    "lamina.lax.fori_loop": [(0, 0, lambda i, c: c, V), (0, 1, lambda i, c: c, V)],
    "lamina.lax.linalg.cholesky_update": [(M, np.ones(2, "f4"))],
    "lamina.lax.linalg.lu_pivots_to_permutation": [(IX, 3)],
    "lamina.lax.linalg.tridiagonal_solve": [(V, V, V, np.ones((3, 2), "f4"))],
    "lamina.lax.map": [(lambda v: v, A)],
    "lamina.lax.pad": [(V, S, [(0, 0, 0)])],
    "lamina.lax.reduce_window": [(V, S, lax.add, (1,), (1,), "VALID")],
    "lamina.lax.scan": [(lambda c, x: (c, x), V, A), (lambda c, x: (c, c), V, None, 1)],
    "lamina.lax.slice": [(V, (0,), (3,))],
    "lamina.lax.switch": [(0, [lambda v: v], V), (0, [lambda v: v, lambda v: v], V)],
    "lamina.lax.transpose": [(V, (0,))],
    "lamina.lax.tile": [(V, (1,))],
    "lamina.lax.while_loop": [(lambda c: False, lambda c: c, V)],
    "lamina.lax.avg_pool": [(np.ones((1, 1, 4), "f4"), (1,))],
    "lamina.lax.broadcast_in_dim": [(V, (3,), (0,))],
    "lamina.lax.broadcasted_iota": [("int32", (3,), 0)],
    "lamina.lax.gather": [(V, IX[:, None], lax.GatherDimensionNumbers((), (0,), (0,)), (1,))],
    "lamina.lax.max_pool": [(np.ones((1, 1, 4), "f4"), (1,))],
    "lamina.lax.reduce": [(V, S, "add", (0,)), (V, S, "add", ())],
    "lamina.lax.reduce_precision": [(V, 8, 23)],
    "lamina.lax.rng_bit_generator": [(np.array([0, 7], "u8"), (3,))],
    **{f"lamina.lax.scatter{kind}": [_scatter] for kind in ("", "_add", "_max", "_min", "_mul", "_sub")},
    "lamina.lax.empty": [((3,), "float32")],
    "lamina.lax.scatter_apply": [(V, IX[:, None], lambda v: v, _scatter[3])],
    "lamina.lax.select_and_scatter": [(V, lax.ge, (1,), (1,), "VALID", V2, S, lax.add)],
    "lamina.lax.squeeze": [(A[:1], (0,)), (V, ())],
    "lamina.scipy.special.lpmn": [(1, 1, V)],
    "lamina.scipy.special.lpmn_values": [(0, 0, V, False), (1, 1, V, True)],
    "lamina.random.fold_in": [(KEY, 1)],
    "lamina.random.randint": [(KEY, (3,), 0, 5)],
    "lamina.numpy.apply_over_axes": [(lnp.sum, A, 0)],
    "lamina.numpy.mask_indices": [(3, lnp.triu)],
    "lamina.numpy.unpackbits": [(np.ones(3, "u1"),)],
    "lamina.numpy.polyfit": [(np.arange(3.0), V, 1)],
    "lamina.random.multivariate_normal": [(KEY, np.zeros(2, "f4"), np.eye(2, dtype="f4"))],
    "lamina.random.orthogonal": [(KEY, 3)],
    "lamina.random.ball": [(KEY, 3)],
    "lamina.random.multinomial": [(KEY, 5.0, lnp.array([0.5, 0.5]))],
    "lamina.scipy.ndimage.map_coordinates": [(V, [V], 0), (V, [V], 1), (np.float32(2), [], 1)],
    "lamina.scipy.sparse.linalg.lobpcg_standard": [(np.diag(np.arange(9.0)), np.ones((9, 1)), 2)],
    "lamina.image.resize": [(A, (2, 3), "linear"), (A, (4, 3), "cubic"), (A, (2, 3), "nearest")],
    "lamina.image.scale_and_translate": [
        (A, (2, 3), (), (), (), "linear"),
        (A, (2, 3), (0,), V2[:1], V[:1], "cubic"),
    ],
    "lamina.scipy.signal.istft": [(np.ones((3, 4), "c8"),)],
    "lamina.scipy.linalg.cho_solve": [((M, False), M2)],
    "lamina.scipy.linalg.funm": [(M, lnp.exp)],
    "lamina.scipy.linalg.hadamard": [(2,)],
    "lamina.scipy.linalg.lu_solve": [((M, IX[:2] * 0), M2)],
    "lamina.scipy.linalg.solve_sylvester": [(M, M, M2)],
    "lamina.nn.scaled_matmul": [tuple(np.ones((1, 2, n), "f4") for n in (4, 4, 2, 2))],
    "lamina.nn.dot_product_attention": [tuple(np.ones((1, 2, 1, 2), "f4") for _ in range(3))],
    "lamina.scipy.special.sph_harm_y": [(np.array([2, 3], "i4"), np.array([1, -1], "i4"), V[:2], V[:2])],
}

# What gives no Tensors of its own, or is meant to share.
COLLECTIVES = [
    *(
        "all_gather",
        "all_to_all",
        "axis_index",
        "axis_size",
        "pbroadcast",
        "pmax",
        "pmean",
        "pmin",
        "ppermute",
    ),
    *("pshuffle", "psum", "psum_scatter", "pswapaxes"),
]
LEFT_OUT = {
    "composite": "gives a function",
    "frompyfunc": "gives a function",
    **dict.fromkeys(COLLECTIVES, "stands inside vmap, whose results are new"),
    "get_printoptions": "gives no Tensor",
    "load": "reads a file",
    "save": "writes a file",
    "savez": "writes a file",
    "fromfile": "reads a file",
    "fromiter": "takes numbers",
    "fromstring": "reads text",
    "asarray": "gives a Tensor itself",
    "asanyarray": "gives a Tensor itself",
    "ascontiguousarray": "gives a Tensor itself",
    "from_dlpack": "shares the memory it is given, read-only",
    "can_cast": "about element types",
    "conv_dimension_numbers": "about dimensions",
    "dtype": "about element types",
    "isdtype": "about element types",
    "issubdtype": "about element types",
    "padtype_to_pads": "about dimensions",
    "promote_types": "about element types",
}


def _tensors(args):
    return tree.tree_map(lambda x: lnp.array(x) if isinstance(x, (np.ndarray, np.generic)) else x, list(args))


def _leaves(x):
    return [leaf for leaf in tree.tree_leaves(x) if isinstance(leaf, lm.Tensor)]


def _overwrite(x):
    """Whether another value was written to `x`; a part of a living Tensor refuses."""
    new = ~x if x.dtype.kind == "b" else x + 1
    try:
        x[...] = new.astype(x.dtype)
    except TypeError as e:
        assert "another form" in str(e), e
        return False
    return True


def _called(f, args):
    """(arguments, result) of a call that works with fresh Tensors, or None."""
    given = _tensors(args)
    try:
        result = f(*given)
        _values(_leaves(result))  # on other devices wrong numbers among arguments are found by then
        return given, result
    except Exception:  # arguments that do not fit
        return None


def _most_arguments(f):
    """How many come before `out`, which is what a function returns that is given one."""
    try:
        names = list(inspect.signature(f).parameters)
    except (TypeError, ValueError):
        return 99
    return names.index("out") if "out" in names else 99


def _rows(name, f):
    found = []
    for args in [*ROWS.get(name, []), *COMMON]:
        if len(args) > _most_arguments(f):
            continue
        made = _called(f, args)
        if made is not None and (_leaves(made[1]) or made[1] is None):
            found.append(args)
        if len(found) >= 4 + len(ROWS.get(name, [])):
            break
    return found


def _kept(before, now, what):
    for a, b in zip(before, now, strict=True):
        assert np.asarray(b).tobytes() == a.tobytes(), what


def _values(tensors):
    return [np.array(x) for x in tensors]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_and_arguments_never_share(name):
    f = FUNCTIONS[name]
    if name.rpartition(".")[2] in LEFT_OUT:
        return
    rows = _rows(name, f)
    if not rows:  # none but what gives numbers and names
        assert any(_called(f, args) for args in COMMON), f"{name} needs a row of arguments"
    for args in rows:
        made = _called(f, args)
        if made[1] is None:
            continue
        given, results = _leaves(made[0]), _leaves(made[1])
        assert len({id(x) for x in results}) == len(results), f"{name}: one Tensor twice among the results"
        assert not {id(x) for x in given} & {id(x) for x in results}, f"{name}: an argument among the results"
        arguments = _values(given)
        for k, r in enumerate(results):
            others = _values([x for x in results if x is not r])
            _overwrite(r)
            _kept(arguments, given, f"{name}: result {k} writes an argument")
            _kept(others, [x for x in results if x is not r], f"{name}: result {k} writes another")
        kept = _values(results)
        for x in given:
            _overwrite(x)
        _kept(kept, results, f"{name}: an argument writes a result")


def _probe(f, fixed):
    """Calls f, overwrites its results, and gives back the arguments as they are then."""

    def run(*arrays):
        for r in _leaves(f(*fixed(arrays))):
            _overwrite(r)
        return [x * 1 if x.dtype.kind in "fc" else x for x in arrays]

    return run


def _paths():
    yield "jit", lambda run: lm.jit(run)
    yield "checkpoint", lambda run: lm.checkpoint(run)
    yield "jvp", lambda run: lambda *a: lm.jvp(run, a, tuple(lnp.zeros_like(x) for x in a))[0]
    yield (
        "vmap",
        lambda run: lambda *a: [x[0] for x in lm.vmap(run)(*[lnp.stack([x, x]) for x in a])],
    )  # both lanes are the arguments


@pytest.mark.parametrize("path", dict(_paths()))
def test_inside_transforms_as_well(path):
    transform, worked = dict(_paths())[path], 0
    for name, f in FUNCTIONS.items():
        if name.rpartition(".")[2] in LEFT_OUT or f in (lnp.put, lnp.fill_diagonal, lnp.put_along_axis):
            continue
        for args in [*ROWS.get(name, []), *COMMON[:12]][:4]:
            if _called(f, args) is None:
                continue
            leaves, treedef = tree.tree_flatten(_tensors(args))
            at = [i for i, x in enumerate(leaves) if isinstance(x, lm.Tensor)]
            if not at:
                continue

            def fixed(arrays, leaves=leaves, at=at, treedef=treedef):
                full = list(leaves)
                for i, x in zip(at, arrays):
                    full[i] = x
                return tree.tree_unflatten(treedef, full)

            arrays = [leaves[i] for i in at]
            try:
                got = transform(_probe(f, fixed))(*arrays)
            except (TypeError, ValueError, NotImplementedError, IndexError, RuntimeError) as e:
                assert "writes" not in str(e), (
                    name,
                    e,
                )  # not made for this path; a write must not be the reason
                continue
            _kept(_values(arrays), got, f"{name} under {path}")
            worked += 1
            break
    assert worked > 300


METHODS = {
    "astype": ("float32",), "flatten": (), "copy": (), "reshape": ((3,),), "ravel": (), "squeeze": (), "transpose": (),
    "clip": (None, None), "round": (), "conj": (), "conjugate": (), "to_device": ("cpu",), "__getitem__": (slice(None),),
    "__copy__": (), "__deepcopy__": ({},), "__round__": (0,), "repeat": (1,), "sort": (), "swapaxes": (0, 0),
    "__abs__": (), "__pow__": (1,), "__mul__": (1,), "__add__": (0,), "take": (IX,), "cumsum": (),
    "compress": (np.ones(3, bool),),
}  # fmt: skip


@pytest.mark.parametrize("name", METHODS)
def test_methods_give_tensors_of_their_own(name):
    x = lnp.array(V)
    y = getattr(x, name)(*METHODS[name])
    assert y is not x
    _overwrite(y)
    np.testing.assert_array_equal(np.asarray(x), V)
    kept = np.array(y)
    x[0] = 9.0
    np.testing.assert_array_equal(np.asarray(y), kept)


def test_properties_give_tensors_of_their_own():
    for name in ("T", "real", "mT"):
        x = lnp.array(M)
        y = getattr(x, name)
        kept = np.array(y)
        assert y is not x and not _overwrite(y), name
        x[0] = 9.0
        np.testing.assert_array_equal(np.asarray(y), kept)


def test_updates_of_at_never_give_their_operands():
    x, v = lnp.array(V), lnp.array(V2)
    for y in (x.at[:].set(v), x.at[[]].set(1.0), x.at[:].add(0), x.at[...].get(), x.at[:].apply(lambda t: t)):
        assert y is not x and y is not v
        y[0] = 7.0
    np.testing.assert_array_equal(np.asarray(x), V)
    np.testing.assert_array_equal(np.asarray(v), V2)
    x[:] = v
    x[0] = 7.0
    np.testing.assert_array_equal(np.asarray(v), V2)


TRANSFORMED = {
    "jit": lambda x: lm.jit(lambda x: [x, x])(x),
    "jit of a dict": lambda x: lm.jit(lambda x: {"a": x, "b": x})(x),
    "vmap": lambda x: lm.vmap(lambda x: (x, x))(x),
    "value_and_grad": lambda x: lm.value_and_grad(lambda x: (x.sum(), (x, x)), has_aux=True)(x),
    "vjp": lambda x: lm.vjp(lambda x: x, x)[0],
    "pull_back": lambda x: lm.vjp(lambda x: x, x)[1](x),
    "jvp": lambda x: lm.jvp(lambda x: (x, x), (x,), (x,)),
    "linearize": lambda x: lm.linearize(lambda x: x, x)[1](x),
    "checkpoint": lambda x: lm.checkpoint(lambda x: (x, x))(x),
    "custom_jvp in grad": lambda x: lm.grad(lambda x: lm.custom_jvp(lambda y: y).fun(x).sum())(x),
    "cond": lambda x: lax.cond(True, lambda x: (x, x), lambda x: (x, x), x),
    "scan": lambda x: lax.scan(lambda c, y: (c, y), x, x),
    "while": lambda x: lax.while_loop(lambda c: False, lambda c: c, (x, x)),
    "fori": lambda x: lax.fori_loop(0, 0, lambda i, c: c, x),
    "stop_gradient": lax.stop_gradient,
    "stop_gradient of a tree": lambda x: lax.stop_gradient([x, x]),
    "pure_callback": lambda x: lm.pure_callback(lambda v: v, lm.ShapeDtype((3,), "float32"), x),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_results_of_transforms_never_share(name):
    x = lnp.array(V)
    results = _leaves(TRANSFORMED[name](x))
    for k, r in enumerate(results):
        others = [y for y in results if y is not r]
        kept = _values(others)
        assert r is not x
        r[...] = 9.0
        np.testing.assert_array_equal(np.asarray(x), V)
        _kept(kept, others, f"result {k}")
    x[...] = 5.0
    for r in results:
        assert (np.asarray(r) == 9.0).all()


def test_asarray_and_the_object_itself_share():
    x = lnp.array(V)
    y, z = lnp.asarray(x), tree.tree_map(lambda t: t, [x])[0]
    y[0] = 7.0
    assert x is y is z and float(x[0]) == 7.0


def test_public_functions_keep_their_signatures():
    assert list(inspect.signature(lnp.reshape).parameters)[:2] == ["a", "shape"]
    assert lnp.reshape.__doc__ and lnp.reshape.__name__ == "reshape"
    import pickle

    assert pickle.loads(pickle.dumps(lnp.reshape)) is lnp.reshape


@pytest.mark.parametrize(
    ("f", "steps"),
    [
        (lambda a: a.reshape(2, 3), 0),
        (lambda a: (a + 1).reshape(2, 3), 1),
        (lambda a: (lnp.exp(a).reshape(2, 3), lnp.exp(a) * 2), 1),
        (lambda a: lnp.exp(a).reshape(1, 6) @ np.ones((6, 4), a.dtype), 2),
        (lambda a: lnp.sin(lnp.exp(a).reshape(2, 3).T), 1),
    ],
    ids=["alone", "result", "one of two", "before a product", "within"],
)
def test_a_reshape_copies_nothing_and_shares_nothing(f, steps):
    x = lnp.asarray(np.linspace(0.1, 1, 6, dtype=np.float32))
    text = lm.jit(f).lower(x).compile().as_text()
    assert len(re.findall(r"^step \d+: ", text, re.M)) == steps, text
    g = lm.jit(f)
    first, second = lm.tree.leaves(g(x)), lm.tree.leaves(g(x))
    kept = [np.array(r) for r in second]
    for r in first:
        r[0] = -7.0
    x[0] = -9.0
    for r, k in zip(second, kept, strict=True):
        np.testing.assert_array_equal(np.asarray(r), k)
    np.testing.assert_array_equal(np.asarray(x[1:]), np.linspace(0.1, 1, 6, dtype=np.float32)[1:])
