"""Statements that write: what the caller sees is NumPy's, in plain code and under every transform, or an error."""

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
V = np.array([0.5, -1.5, 2.5])

# Statements on a (2 by 3), v (3 elements) and the library xp. Each gives the caller's a and v the values of NumPy.
WRITES = r"""
a[0, 0] = 9.0
a[-1, -1] = 9.0
a[0] = v
a[0] = 0.0
a[-1] = v * 2
a[:, 0] = 7.0
a[:, -1] = v[:2]
a[:, 1:] = 0.0
a[:, ::2] = 1.0
a[::-1] = a * 1.0
a[:, ::-1] = a * 1.0
a[:] = 5.0
a[...] = 5.0
a[:] = v
a[..., 0] = 3.0
a[0, ...] = 3.0
a[0:1] = v
a[0:0] = 9.0
a[1:, 1:] = v[1:]
a[1:, 1:] = v[1:] * a[0, 1:]
a[None] = 2.0
a[[0, 1], [2, 0]] = 8.0
a[[0, 1], [2, 0]] = v[:2]
a[[1, 0]] = a * 1.0
a[:, [2, 0]] = 4.0
a[[0, 0], [1, 1]] = 4.0
a[[-1], [-1]] = 4.0
a[a > 2.25] = 0.0
a[a > 100.0] = 0.0
a[a < 2.25] = -1.0
a[v > 0.0 if False else a > 3.25] = v[0]
a[:, v > 0.0] = 1.0
v[v < 0.0] = 0.0
v[v > 0] *= 2.0
v[v < 0] = -v[v < 0]
a[xp.array([1, 0])] = 3.0
a[xp.array([0, 1]), xp.array([1, 2])] = v[:2]
a[0, xp.array([0, 2])] = v[:2]
a[xp.array([0]), :] = v
v[xp.array(1)] = 6.0
v[xp.argmax(v)] = 0.0
v[xp.argsort(v)] = v * 1.0
a[True] = 1.0
a[False] = 1.0
a[0, True] = 1.0
a[(0, 1)] = 9.0
a[0, 0] += 1.0
a[0, 0] -= v[0]
a[0, 0] *= a[1, 1]
a[0, 0] /= 2.0
a[0, 0] **= 2.0
a[0] += v
a[0] -= v
a[0] *= v
a[0] /= v
a[:, 0] += 1.0
a[:, 1] += a[:, 0]
a[1:] += v
a[...] *= 2.0
a[:] += a
a[[0, 1], [0, 1]] += 1.0
a[[0, 0]] += 1.0
a[a > 2.25] += 1.0
a[a > 2.25] *= v[0]
v[::2] += v[::2]
v[1:] += v[:-1]
v[:-1] -= v[1:]
v[::-1] += v
v[0], v[1] = v[1] * 1.0, v[0] * 1.0
v[0] = v[1] = 4.0
a[0], a[1] = a[1] * 1.0, a[0] * 1.0
v[0] = a[0, 0] * a[1, 1]
v[:] = a[0] + a[1]
v[:] = a.sum(0)
v[:] = xp.cumsum(v)
v[:] = xp.sort(v)
v[0] = v.sum(); v[1] = v.sum()
a[0] = a[0] / a[0].sum()
a[:, 0] = a[:, 1] = 1.0
for i in range(3): v[i] = v[i] * i
for i in range(1, 3): v[i] += v[i - 1]
for i in range(2): a[i] = a[i] * v[i]
for i in range(2): a[i, i] = v[i]
for i in range(2, -1, -1): v[i] = v[i - 2] * 2.0
for i in range(2):\n  for j in range(3): a[i, j] = a[i, j] * v[j]
b = a; b[0, 0] = 9.0
b = a; b[:] = 1.0; a[0] = 2.0
b = [a, v]; b[0][0, 0] = 9.0
b = {"x": v}; b["x"][1] = 9.0
b = a.copy(); b[0, 0] = 9.0
b = a.copy(); a[0, 0] = 9.0; a[1] = b[0]
b = a * 1.0; b[0] = 9.0; v[0] = b.sum()
b = a + 0.0; b[:, 0] = v[:2]; a[:] = b
b = xp.array(a); b[0] = 0.0
b = a.flatten(); b[0] = 9.0; v[0] = b[0]
b = a.astype(a.dtype); b[0] = 0.0
b = xp.zeros(3); b[0] = v[0]; b[1] = v[1] * 2.0; v[:] = b
b = xp.zeros((2, 3)); b[0] = v; b[1] = v * v; a[:] = b
b = xp.ones_like(a); b[:, 1] = a[:, 0]; a[0] = b[1]
b = xp.zeros(4); b[1:] = v; v[:] = b[:3]
b = xp.empty(3); b[:] = 1.0; b[2] = v[0]; v[:] = b
b = a[[0]]; b[0] = 9.0
b = a[a > 2.25]; b[0] = 9.0
b = xp.sort(v); b[0] = 9.0
b = xp.concatenate([v, v]); b[0] = 9.0; v[0] = b[0] + b[3]
b = xp.where(a > 2.25, a, 0.0); b[0] = 9.0
b = xp.arange(6.0).reshape(2, 3); b[0] = v; a[:] = b
b = (a * 2.0).T; b[0] = 1.0; v[:2] = b[1]
b = (a * 2.0)[0]; b[0] = 1.0; v[:] = b
b = (a * 1.0).ravel(); b[1] = v[0]; v[:2] = b[:2]
a[0, 0] = v[0]; v[0] = a[0, 1]
a[0] = v; v[0] = 9.0
xp.fill_diagonal(a, 7.0)
xp.fill_diagonal(a, v[:2])
xp.put(a, [0, 5], [1.0, 2.0])
xp.put(a, [0, -1], v[:2])
xp.put(v, [7, -9], 1.0, mode="clip")
xp.put(v, [7, -9], 1.0, mode="wrap")
xp.put_along_axis(a, xp.array([[1], [0]]), 9.0, 1)
xp.put_along_axis(v, xp.array([2]), v[:1], 0)
(lambda t: t.__setitem__(0, 9.0))(v)
a.fill(3.0)
v.fill(v[0] if False else 2.0)
a.flat = 4.0
a.flat[1] = 4.0
a.flat[[0, -1]] = v[:2]
a.flat[1:3] = 4.0
a.flat[0] += 1.0
xp.copyto(a, 2.0)
xp.copyto(a, v)
xp.copyto(a, v, where=a > 2.25)
xp.copyto(v, a[0])
xp.place(a, a > 2.25, [7.0, 8.0])
xp.place(v, v < 0, a[0])
xp.putmask(a, a > 2.25, a * 2.0)
xp.putmask(v, v < 0, [0.0])
setattr(type("Box", (), {}), "x", v); v[0] = 9.0
v.__setitem__(slice(0, 2), 1.0)
__import__("operator").setitem(v, 0, 5.0)
""".strip().split("\n")

# Writes that NumPy would show in another array, or that nobody would see: they raise, everywhere.
REFUSED = """
a[0][1] = 9.0
a[0][:] = 9.0
a[:, 0][1] = 9.0
a[0:1][0] = 9.0
a[:][0] = 9.0
a[...][0] = 9.0
a[None][0] = 9.0
a[0][1:][0] = 9.0
a[0][0] += 1.0
b = a[1]; b[:] = 5.0
b = a[1]; b[0] += 5.0
b = a[:, 0]; b[0] = 5.0
b = a[1:]; b[0] = 5.0
b = a[1:][0]; b[0] = 5.0
b = v[1:]; b[0] = 5.0
b = v[::-1]; b[0] = 5.0
a.T[0] = 1.0
a.mT[0] = 1.0
b = a.T; b[0] = 1.0
a.ravel()[0] = 1.0
a.reshape(-1)[0] = 1.0
b = a.reshape(3, 2); b[0] = 1.0
a.reshape(-1).reshape(3, 2)[0] = 1.0
a.transpose()[0] = 1.0
a.swapaxes(0, 1)[0] = 1.0
a.squeeze()[0] = 1.0
a.real[0] = 1.0
xp.ravel(a)[0] = 1.0
xp.reshape(a, (3, 2))[0] = 1.0
xp.transpose(a)[0] = 1.0
xp.flip(a)[0] = 1.0
xp.expand_dims(v, 0)[0] = 1.0
xp.atleast_2d(v)[0] = 1.0
xp.split(v, 3)[0][0] = 1.0
xp.moveaxis(a, 0, 1)[0] = 1.0
xp.diagonal(a)[0] = 1.0
xp.broadcast_to(v, (2, 3))[0] = 1.0
for row in a: row[0] = 1.0
b, c = a; b[0] = 1.0
b = [r for r in a]; b[0][0] = 1.0
xp.fill_diagonal(a.T, 1.0)
xp.put(a[0], [0], 1.0)
a.T.fill(1.0)
a[0].fill(1.0)
b = a[0]; b.fill(1.0)
a.reshape(-1).flat[0] = 1.0
a[0].flat[0] = 1.0
a.view("int32" if a.dtype == "float32" else "int64")[0] = 1
b = a.view(); b[0] = 1.0
xp.copyto(a[0], 1.0)
xp.copyto(a[:, 1:], 1.0)
xp.place(a[0], [True, False, False], [1.0])
xp.putmask(a.T, True, 1.0)
for row in reversed(a): row[0] = 1.0
xp.fill_diagonal(a[:, :2], 1.0)
a[5] = 1.0
a[0, 7] = 1.0
a[[0, 9]] = 1.0
a[0] = xp.ones(4)
a[0, 0] = v
v[0] = "x"
del v[0]
""".strip().split("\n")

# In NumPy these change the array for all that hold it; here, as in JAX, the name gets a new one.
REBINDS = ["a += 1.0", "a *= v", "v -= 1.0", "a /= 2.0", "v **= 2.0", "b = a; b += 1.0", "b = v; b *= 2.0"]


def test_there_are_enough_statements():
    assert (
        len(WRITES) >= 120 and len(REFUSED) >= 45 and len(set(WRITES + REFUSED)) == len(WRITES) + len(REFUSED)
    )


def statement(text, xp):
    code = compile(text.replace("\\n", "\n"), "<statement>", "exec")

    def run(a, v):
        exec(code, {"xp": xp, "a": a, "v": v})

    return run


def arrays():
    return lnp.array(A, dtype="float32"), lnp.array(V, dtype="float32")


def same(got, want):
    for x, y in zip(got, want, strict=True):
        np.testing.assert_allclose(np.asarray(x), y, rtol=1e-6)


WA, WV = np.array([[1.0, -2.0, 0.5], [3.0, 1.0, -1.0]]), np.array([2.0, -1.0, 0.5])


def loss(run):
    def f(a, v):
        run(a, v)
        return (a * WA).sum() + (v * WV).sum()

    return f


def slopes(text):
    """NumPy's gradient by central differences."""
    f, step = loss(statement(text, np)), 1e-6
    out = []
    for k, x in enumerate((A, V)):
        g = np.zeros_like(x)
        for at in np.ndindex(x.shape):
            ends = []
            for sign in (1, -1):
                given = [A.copy(), V.copy()]
                given[k][at] += sign * step
                ends.append(f(*given))
            g[at] = (ends[0] - ends[1]) / (2 * step)
        out.append(g)
    return out


def wanted(text):
    a, v = A.copy(), V.copy()
    statement(text, np)(a, v)
    return a, v


@pytest.mark.parametrize("text", WRITES)
def test_plain_jit_and_derivatives_write_what_numpy_writes(text):
    run, want = statement(text, lnp), wanted(text)
    calls = {
        "plain": run,
        "jit": lm.jit(run),
        "grad": lm.grad(loss(run), argnums=(0, 1)),
        "grad by one": lm.grad(loss(run)),
        "jit of grad": lm.jit(lm.grad(loss(run))),
        "grad of jit": lm.grad(lm.jit(loss(run))),
        "vjp": lambda a, v: lm.vjp(loss(run), a, v),
        "jvp": lambda a, v: lm.jvp(loss(run), (a, v), (a * 0, v * 0)),
        "linearize": lambda a, v: lm.linearize(loss(run), a, v),
        "checkpoint": lm.checkpoint(run),
    }
    got = {}
    for name, call in calls.items():
        a, v = arrays()
        try:
            got[name] = call(a, v)
        except (TypeError, ValueError):
            # A mask or an index from values is not known in a trace; nothing was written then.
            assert name not in ("plain", "grad", "grad by one", "vjp", "jvp", "linearize"), name
            same((a, v), (A, V))
            continue
        same((a, v), want)
    for g, w in zip(got["grad"], slopes(text), strict=True):
        np.testing.assert_allclose(np.asarray(g), w, atol=2e-3)


@pytest.mark.parametrize("text", WRITES)
def test_vmap_writes_lane_by_lane(text):
    lanes = [(A, V), (A * 2.0, V + 1.0)]
    a, v = (lnp.array(np.stack(x), dtype="float32") for x in zip(*lanes))
    try:
        lm.vmap(statement(text, lnp))(a, v)
    except (TypeError, ValueError):
        same((a, v), [np.stack(x) for x in zip(*lanes)])
        return
    want = []
    for x, y in lanes:
        x, y = x.copy(), y.copy()
        statement(text, np)(x, y)
        want.append((x, y))
    same((a, v), [np.stack(x) for x in zip(*want)])


@pytest.mark.parametrize("text", REFUSED)
def test_a_write_that_would_vanish_raises_everywhere(text):
    run = statement(text, lnp)
    transforms = [
        lambda f: f, lm.jit, lambda f: lm.grad(loss(f)), lm.checkpoint,
        lambda f: lambda a, v: lm.vmap(f)(lnp.stack([a, a]), lnp.stack([v, v])),
        lambda f: lambda a, v: lm.jvp(loss(f), (a, v), (a, v)),
    ]  # fmt: skip
    for transform in transforms:
        a, v = arrays()
        with pytest.raises((TypeError, ValueError, IndexError)):
            transform(run)(a, v)
        same((a, v), (A, V))


@pytest.mark.parametrize("text", REBINDS)
def test_an_augmented_assignment_gives_the_name_a_new_array(text):
    for transform in (lambda f: f, lm.jit, lambda f: lm.grad(loss(f)), lm.checkpoint):
        a, v = arrays()
        transform(statement(text, lnp))(a, v)
        same((a, v), (A, V))


def test_the_error_of_a_vanishing_write_names_the_remedy():
    a = lnp.zeros((2, 2))
    with pytest.raises(TypeError, match=r"x\[0, 1\] = v.*\.copy\(\)"):
        a[0][1] = 9.0
    b = a[0].copy()
    b[1] = 9.0
    assert b.tolist() == [0, 9] and a.tolist() == [[0, 0], [0, 0]]


def test_a_view_whose_array_is_gone_is_an_array_of_its_own():
    b = lnp.arange(6.0).reshape(2, 3)
    b[0, 0] = 9.0
    assert b.tolist() == [[9, 1, 2], [3, 4, 5]]
    a = lnp.zeros((2, 2))
    r = a[0]
    del a
    r[0] = 1.0
    assert r.tolist() == [1, 0]
    x = lnp.zeros(1000)
    for _ in range(900):
        x = x[1:]
    x[0] = 1.0
    assert float(x.sum()) == 1.0


def test_sort_gives_a_copy_as_in_jax():
    v = lnp.array([3.0, 1.0, 2.0])
    assert v.sort().tolist() == [1, 2, 3] and v.tolist() == [3, 1, 2]


def test_a_cell_made_inside_is_written_inside():
    def f(x):
        y = lnp.zeros(2)
        z = y.copy()
        for i in range(2):
            y[i] = x * (i + 1)
            z[i] = y[i]
        return lnp.sum(y * z)

    assert float(lm.grad(f)(3.0)) == 30.0
    assert lm.vmap(f)(lnp.array([1.0, 2.0])).tolist() == [5, 20]
    assert float(lm.jvp(f, (3.0,), (1.0,))[1]) == 30.0
    assert float(lm.jit(lm.grad(f))(3.0)) == 30.0

    def body(i, c):
        y = lnp.zeros(2)
        y[0] = c
        y[1] = y[0] * 2
        return y.sum()

    assert float(lm.lax.fori_loop(0, 2, body, 1.0)) == 9.0
    assert float(lm.grad(lambda c: lm.lax.fori_loop(0, 2, body, c))(1.0)) == 9.0


OUTSIDE = lnp.zeros(2)


@pytest.mark.parametrize("transform", [lm.grad, lm.vmap, lm.checkpoint, lm.jit])
def test_a_write_to_what_was_made_outside_raises_with_the_line(transform):
    z = lnp.zeros(2)

    def f(x):
        z[0] = x
        return x * 2

    with pytest.raises(TypeError, match=r"test_mutation.py") as e:
        transform(f)(lnp.ones(3) if transform is lm.vmap else 1.0)
    assert "outside" in str(e.value) and z.tolist() == [0, 0]


def test_arguments_that_are_no_tensors_or_given_twice():
    def f(x, y):
        x[0] = y[1]
        return x.sum()

    x = lnp.array([1.0, 2.0])
    for transform in (lm.jit, lm.grad, lm.checkpoint, lm.vmap):
        two = np.array([[1.0, 2.0], [3.0, 4.0]]) if transform is lm.vmap else np.array([1.0, 2.0])
        with pytest.raises(TypeError, match="given as ndarray"):
            transform(f)(two, two + 1)
        same_twice = lnp.array(two)
        with pytest.raises(ValueError, match=r"twice|same Tensor"):
            transform(f)(same_twice, same_twice)
    with pytest.raises(ValueError, match=r"per lane to x.*in_axes"):
        lm.vmap(f, in_axes=(None, 0))(x, lnp.ones((3, 2)))
    assert x.tolist() == [1, 2]
    lm.vmap(lambda x, y: (x.__setitem__(0, 7.0), y)[1], in_axes=(None, 0))(x, lnp.ones((3, 2)))
    assert x.tolist() == [7, 2]


def test_vmap_puts_the_written_back_along_its_axis():
    def f(x, y):
        x[0] = y * 2
        return x.sum()

    x = lnp.arange(6.0).reshape(2, 3)
    assert lm.vmap(f, in_axes=(1, 0))(x, lnp.array([1.0, 2.0, 3.0])).tolist() == [5, 8, 11]
    assert x.tolist() == [[2, 4, 6], [3, 4, 5]]


def test_buffers_beside_the_differentiated_argument():
    def f(w, stats):
        stats["mean"][0] = stats["mean"][0] * 0.5 + w
        return w * w

    for transform in (lm.grad, lambda f: lm.jit(lm.grad(f)), lambda f: lm.grad(lm.jit(f))):
        stats = {"mean": lnp.array([1.0, 2.0])}
        assert float(transform(f)(3.0, stats)) == 6.0
        assert stats["mean"].tolist() == [3.5, 2.0]

    def fails(w, stats):
        stats["mean"][0] = 9.0
        raise RuntimeError

    stats = {"mean": lnp.array([1.0, 2.0])}
    with pytest.raises(RuntimeError):
        lm.grad(fails)(3.0, stats)
    assert stats["mean"].tolist() == [1, 2]


def test_the_outer_call_sees_the_inner_write():
    def inner(x):
        x[0] = x[1] * 3
        return x.sum()

    for chain in ((lm.jit, lm.jit), (lm.checkpoint, lm.jit), (lm.jit, lm.checkpoint)):
        x = lnp.array([1.0, 2.0])
        f = inner
        for transform in chain:
            f = transform(f)
        assert float(f(x)) == 8.0 and x.tolist() == [6, 2]
    x = lnp.array([1.0, 2.0])
    assert lm.grad(lm.jit(inner))(x).tolist() == [0, 4] and x.tolist() == [6, 2]
    for _ in range(3):  # a cached call writes again
        x = lnp.array([1.0, 2.0])
        f = lm.jit(inner)
        f(x)
        x = lnp.array([5.0, 6.0])
        f(x)
        assert x.tolist() == [18, 6]


CONTAINERS = {
    "replaced": lambda d: d.__setitem__("w", d["w"] * 2),
    "added": lambda d: d.__setitem__("new", d["w"]),
    "removed": lambda d: d.pop("w"),
    "list": lambda d: d["l"].append(d["w"]),
    "item of a list": lambda d: d["l"].__setitem__(0, d["w"]),
    "augmented": lambda d: d.__setitem__("w", d["w"] + 1),
}


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_changed_container_raises_with_its_path(name):
    def f(d):
        w = d["w"]
        CONTAINERS[name](d)
        return w.sum()

    for transform in (lm.jit, lm.grad, lm.vmap, lm.checkpoint, lambda f: lambda d: lm.vjp(f, d)):
        two = lnp.ones((2, 2)) if transform is lm.vmap else lnp.ones(2)
        given = {"w": two, "l": [two]}
        with pytest.raises(TypeError, match=r"changed a container|replaced d\['"):
            transform(f)(given)
        assert list(given) == ["w", "l"] and given["w"] is two and len(given["l"]) == 1


def _loops():
    lax = lm.lax

    def write(c, *_):
        c[0] = 1.0
        return c

    yield "fori", lambda x: lax.fori_loop(0, 2, lambda i, c: write(c), x)
    yield "while", lambda x: lax.while_loop(lambda c: c[0] < 1, write, x)
    yield "scan", lambda x: lax.scan(lambda c, _: (write(c), None), x, None, length=2)
    yield "scan of slices", lambda x: lax.scan(lambda c, y: (c, write(y)), 0.0, lnp.stack([x, x]))
    yield "cond", lambda x: lax.cond(True, write, lambda c: c, x)
    yield "switch", lambda x: lax.switch(0, [write, lambda c: c], x)
    yield "map", lambda x: lax.map(write, lnp.stack([x, x]))


@pytest.mark.parametrize("name", dict(_loops()))
def test_bodies_that_write_to_their_arguments_raise(name):
    x = lnp.zeros(2)
    for transform in (lambda f: f, lm.jit):
        with pytest.raises(TypeError, match=r"writes to its argument.*\n.*copy"):
            transform(dict(_loops())[name])(x)
    assert x.tolist() == [0, 0]
