"""Random programs whose arrays lie on several devices have the bits of the CPU."""

import threading

import lamina as lm
import lamina.lax as lax
import lamina.numpy as lnp
import numpy as np
import pytest

PLACES = ["fake:0", "fake:1", "cpu:0"]
FREE = lnp.arange(16, dtype="float32").reshape(4, 4) / 16  # goes wherever it is wanted


def bounded(x):
    return lnp.tanh(lnp.nan_to_num(x))


@lm.jit
def scanned(x, y):
    carry, rows = lax.scan(lambda c, row: (lnp.tanh(c @ y + row), c.sum(axis=0)), x, y)
    return carry + rows


@lm.jit
def until(x, y):
    def step(s):
        i, v = s
        return i + 1, v * 0.75 + y * 0.01

    count, v = lax.while_loop(lambda s: (lnp.abs(s[1]).sum() > 2) & (s[0] < 20), step, (0, x))
    return v + count * FREE


@lm.jit
def branched(x, y):
    picked = lax.cond(x.sum() > y.sum(), lambda a, b: a @ b, lambda a, b: a - b.T, x, y)
    return lax.switch(lnp.abs(x[0, 0] * 7).astype("int32") % 3, [lnp.sin, lax.cumsum, lnp.sort], picked)


@lm.custom_vjp
def clipped(x, y):
    return lnp.maximum(x, y)


clipped.defvjp(lambda x, y: (lnp.maximum(x, y), (x, y)), lambda kept, g: (g * kept[1], g - kept[0]))


def updated(x, y):
    z = x.copy()
    z[1] = y[2]
    z[:, lnp.argsort(y[0])] += 0.5
    return z


def called_back(x, y):
    return lm.pure_callback(
        lambda a, b: np.asarray(a) * 2 - np.asarray(b), lm.ShapeDtypeStruct((4, 4), "float32"), x, y
    )


given_up = lm.jit(lambda x, y: (x * 2 - y, x.sum()), donate_argnums=0)

STEPS = [
    lambda x, y: x @ y + FREE,
    lambda x, y: lnp.sort(x, axis=0) - lnp.take_along_axis(y, lnp.argsort(x, axis=1), axis=1),
    lambda x, y: x.at[lnp.abs(y * 9).astype("int32") % 4, lnp.arange(4)].add(y),
    lambda x, y: lax.dynamic_update_slice(x, y[:2], ((y[0, 0] * 5).astype("int32"), 0)),
    lambda x, y: scanned(x, y),
    lambda x, y: until(x, y),
    lambda x, y: branched(x, y),
    lambda x, y: lm.grad(lambda z: scanned(z, y).sum() + clipped(z, y).sum())(x),
    lambda x, y: lm.vmap(lambda r, s: until(r * FREE, s), in_axes=(0, 1))(x, y).sum(axis=0),
    lambda x, y: lnp.linalg.solve(x + 8 * lnp.eye(4), y),
    lambda x, y: lnp.fft.ifft(lnp.fft.fft(x) * lnp.fft.fft(y)).real,
    lambda x, y: lm.random.normal(lm.random.key(lnp.abs(x[0, 0] * 100).astype("uint32")), (4, 4)) * y,
    lambda x, y: (x.astype("bfloat16") * y.astype("float16")).astype("float32"),
    lambda x, y: (lax.bitcast_convert_type(x, "int32") ^ lax.bitcast_convert_type(y, "int32")) % 1000 / 1000,
    lambda x, y: lax.map(lambda row: row * y.sum() + lnp.cumsum(row), x),
    lambda x, y: updated(x, y),
    lambda x, y: called_back(x, y),
    lambda x, y: given_up(x + 0, y)[0],
    lambda x, y: lnp.where(x > y, x, lnp.flip(y, 0)) * x.mean(),
    lambda x, y: x * float(y[1, 1]) + int(lnp.argmax(y)),
    lambda x, y: x + np.asarray(y).T,
    lambda x, y: lnp.concatenate([x[:1], y[1:3], lax.top_k(x, 4)[0][:1]]) if bool((x > 0).any()) else -x,
    lambda x, y: lm.jvp(lm.checkpoint(lambda z: bounded(z @ y) @ z), (x,), (y,))[1],
    lambda x, y: lnp.convolve(x.reshape(-1), y[0], mode="same").reshape(4, 4),
]


def run(seed, on_devices):
    """The bytes of all values that a program makes, which is the same with and without devices."""
    rng = np.random.default_rng(seed)
    values = [lnp.asarray(rng.standard_normal((4, 4)).astype(np.float32)) for _ in range(3)]
    for _ in range(25):
        step, place = STEPS[rng.integers(len(STEPS))], PLACES[rng.integers(3)]
        i, j, waits = rng.integers(len(values)), rng.integers(len(values)), rng.random() < 0.1
        x, y = values[i], values[j]
        if on_devices:
            x, y = lm.device_put((x, y), place)
        z = bounded(step(x, y))
        assert not on_devices or z.device == place
        values.append(z.block_until_ready() if waits else z)
        if rng.random() < 0.2:
            del values[rng.integers(len(values))]  # its memory is used again
    return [v.tobytes() for v in lm.device_get(values)]


@pytest.mark.parametrize("seed", range(12))
def test_random_programs_have_the_bits_of_the_cpu(seed):
    with lm.default_device("cpu:0"):
        want = run(seed, False)
    with lm.default_device(PLACES[seed % 3]):
        assert run(seed, True) == want


def test_threads_share_devices():
    with lm.default_device("cpu:0"):
        want = [run(100 + i, False) for i in range(3)]
    got = [None] * 3

    def work(i):
        got[i] = run(100 + i, True)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == want
