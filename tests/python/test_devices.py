"""Devices by name, and what arrays say of them; where programs run."""

import gc
import signal
import subprocess
import sys
import threading

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

FAKE = ["fake:0", "fake:1"]
# The default device, which the environment names.
DEFAULT = lnp.zeros(1).device


def runs():
    """How often programs ran."""
    return sum(entry["runs"] for entry in lm.cache.entries())


def test_devices_have_names():
    (first,) = lm.devices("cpu")
    assert lm.device_count("cpu") == 1 and lm.device_count() == len(lm.devices())
    assert first == "cpu:0" and first == "cpu" and first != "cpu:1" and first != 0
    assert str(first) == "cpu:0" and repr(first) == "Device('cpu:0')" and hash(first) == hash("cpu:0")
    assert (first.platform, first.device_kind, first.id, first.process_index) == ("cpu", "cpu", 0, 0)
    assert lm.devices("fake") == FAKE
    with pytest.raises(ValueError, match="there is no platform 'moon'"):
        lm.devices("moon")


def test_memory_of_a_device():
    for device in lm.devices("cpu") + lm.devices("fake"):
        gc.collect()
        for _ in range(20):  # what earlier tests dropped goes when a wait has seen that its last use ended
            lnp.ones(1, device=device).block_until_ready()
        before = device.memory_stats()["bytes_in_use"]
        x = lnp.ones(1 << 16, device=device).block_until_ready()
        after = device.memory_stats()
        assert after["bytes_in_use"] >= before + 4 * x.size
        assert after["peak_bytes_in_use"] >= after["bytes_in_use"]


@pytest.mark.parametrize("device", ["cpu", "cpu:0", lm.devices("cpu")[0], "fake", "fake:1"])
def test_arrays_are_put_on_a_device(device):
    with lm.default_device(device):
        x = lm.device_put({"a": np.arange(3.0), "b": [2]}, device)
    assert x["a"].device == device and x["a"].devices() == {x["a"].device}
    assert lm.device_get(x)["b"][0] == 2 and list(lm.device_get(x["a"])) == [0, 1, 2]
    assert lnp.ones(2, device=device).to_device(device).device == device


@pytest.mark.parametrize("device", ["moon", "cpu:1", "cpu:x", "", 0])
def test_other_devices_are_refused(device):
    for use in (
        lambda: lm.device_put(np.ones(2), device),
        lambda: lm.default_device(device).__enter__(),
        lambda: lnp.zeros(2, device=device),
        lambda: lnp.ones(2).to_device(device),
    ):
        with pytest.raises(ValueError, match="there is no device"):
            use()


@pytest.mark.parametrize(
    "make",
    [
        lambda d: lnp.array([1, 2], device=d),
        lambda d: lnp.asarray(np.ones(2), device=d),
        lambda d: lnp.zeros(2, device=d),
        lambda d: lnp.ones(2, device=d),
        lambda d: lnp.empty(2, device=d),
        lambda d: lnp.full(2, 3, device=d),
        lambda d: lnp.zeros_like([1, 2], device=d),
        lambda d: lnp.ones_like([1, 2], device=d),
        lambda d: lnp.full_like([1, 2], 3, device=d),
        lambda d: lnp.arange(3, device=d),
        lambda d: lnp.arange(0, 1, dtype=bool, device=d),
        lambda d: lnp.linspace(0, 1, 3, device=d),
        lambda d: lnp.linspace(0, 1, 3, retstep=True, device=d)[0],
        lambda d: lnp.eye(2, device=d),
        lambda d: lnp.fft.fftfreq(3, device=d),
        lambda d: lnp.fft.rfftfreq(3, device=d),
        lambda d: lnp.astype(lnp.ones(2), "int8", device=d),
        lambda d: lnp.ones(2).astype("int8", device=d),
        lambda d: lnp.ones(2).to_device(d),
        lambda d: lnp.from_dlpack(np.ones(2), device=d),
    ],
)
def test_what_makes_arrays_makes_them_on_a_device(make):
    x = make("fake:1")
    assert x.device == "fake:1" and (x + 1).device == "fake:1"
    np.testing.assert_array_equal(x, make("cpu"))


@pytest.mark.parametrize("device", ["cpu", *FAKE])
def test_memory_that_others_write_to_is_read_anew(device):
    theirs = np.zeros(3, np.float32)
    shared, bound = lnp.from_dlpack(theirs), lnp.ones(3, device=device)
    added = lm.jit(lambda x, y: x + y)
    for i in range(3):
        theirs[i] = i + 1
        assert (shared + bound).tolist() == added(shared, bound).tolist() == (theirs + 1).tolist()
    kept = lm.device_put(shared, device)
    theirs[0] = 7
    assert kept.tolist() == [1, 2, 3] and shared.tolist() == [7, 2, 3]


def test_a_copy_to_a_device_is_refused_where_none_is_allowed():
    for bring in (lnp.from_dlpack, lnp.asarray):
        with pytest.raises((BufferError, ValueError), match="comes to fake:1 as a copy"):
            bring(np.ones(2), device="fake:1", copy=False)
        assert bring(np.ones(2), device="cpu", copy=False).device == "cpu"
    x = lnp.ones(2, device="fake:0")
    assert lnp.asarray(x, device="fake:0", copy=False).device == "fake:0"
    with pytest.raises(ValueError, match="an array on fake:0 comes to fake:1 as a copy"):
        lnp.asarray(x, device="fake:1", copy=False)


def test_what_is_made_of_bound_arrays_is_made_where_they_are():
    w = lm.device_put(np.arange(6.0).reshape(2, 3), "fake:1")
    free = lnp.array([1.0, 2.0])
    y = free @ w
    assert y.device == "fake:1"  # said before it is computed, and afterwards
    y.block_until_ready()
    assert y.device == "fake:1" and (y * 2).sum().device == "fake:1" and free.device == DEFAULT
    np.testing.assert_array_equal(y, [6.0, 9.0, 12.0])
    z = y.to_device("cpu")
    assert (z + 1).device == "cpu" and (z + lnp.ones(3)).device == "cpu"


def test_arrays_on_different_devices_do_not_meet():
    a, b = lnp.ones(3, device="fake:0"), lnp.ones((2, 3), device="fake:1")
    with pytest.raises(
        ValueError,
        match=r"(?s)add.*f32\[.*fake:0 and f32\[.*fake:1.*device_put.*test_devices.py",
    ):
        a + b
    with pytest.raises(ValueError, match="different devices"):
        lnp.concatenate([lnp.ones(2, device="cpu"), a])
    np.testing.assert_array_equal(a + b.to_device("fake:0"), np.full((2, 3), 2))


def test_a_jitted_function_of_arrays_on_different_devices_is_refused():
    a, b = lnp.ones(3, device="fake:0"), lnp.ones((2, 3), device="fake:1")
    traces = []

    @lm.jit
    def product(x, y):
        traces.append(1)
        return x @ y

    kept = lm.jit(lambda x: x + a)
    batch = lm.jit(lambda tree: tree["x"] @ tree["y"][0])
    for _ in range(2):  # first and later calls; one that can be served in between changes nothing
        for what, call in (
            ("product", lambda: product(b, a)),
            ("<lambda>", lambda: kept(b)),
            ("<lambda>", lambda: batch({"x": b, "y": [a]})),
            ("<lambda>", lambda: lm.jit(lambda x, y: x @ y, donate_argnums=0)(b + 0, a)),
        ):
            with pytest.raises(ValueError) as e:
                call()
            said = str(e.value)
            assert said.startswith(
                what + ": its arrays are on different devices: f32[2,3] on fake:1 and "
            ) or (
                said.startswith(what + ": its arrays are on different devices: f32[3] on fake:0 and f32[2,3]")
            ), said
            assert "fake:0" in said and "fake:1" in said and "bring them to one with device_put" in said
            assert "test_devices.py" in said
        np.testing.assert_array_equal(product(b.to_device("fake:0"), a), [3, 3])
    assert len(traces) == 1


def test_a_jitted_function_runs_where_its_arguments_are():
    traces = []

    @lm.jit
    def f(x, scale):
        traces.append(1)
        return {"y": lnp.sin(x) * scale, "n": lnp.arange(3)}

    x = np.linspace(0, 1, 5, dtype=np.float32)
    expected = np.asarray(f(x, 2.0)["y"])
    for device in [*FAKE, "cpu"]:
        for _ in range(2):
            out = f(lm.device_put(x, device), 2.0)
            assert out["y"].device == out["n"].device == device
            assert np.asarray(out["y"]).tobytes() == expected.tobytes()
    assert len(traces) == 1


@pytest.mark.parametrize("device", ["cpu", *FAKE, None])
def test_calls_are_served_directly_on_every_device(device):
    scale = lnp.full(3, 2.0).block_until_ready()  # free: comes along once
    f = lm.jit(lambda x, tree, n: {"y": x * tree["k"] + n * scale})
    x = lnp.arange(3.0) if device is None else lnp.arange(3.0, device=device)
    tree = {"k": x + 1}
    lm.device_get((x, tree))
    first = f(x, tree, 0.5)["y"]
    f(x, tree, 0.5)
    before = lm.cache.stats()
    for _ in range(3):
        out = f(x, tree, 0.5)["y"]
        assert out.device == (DEFAULT if device is None else device)
        assert out.tobytes() == first.tobytes()
    after = lm.cache.stats()
    for counter in ("direct_calls", "ready_calls"):
        assert after[counter] == before[counter] + 3
    assert after["misses"] == before["misses"]


@pytest.mark.parametrize("device", ["cpu", *FAKE])
@pytest.mark.parametrize("bound", ["argument", "captured", "default"])
def test_a_lowered_program_is_compiled_where_it_runs(device, bound):
    scale = lnp.full(7, 2.0, device=device if bound == "captured" else None)
    f = lm.jit(lambda x: lnp.cos(x) * scale - x)
    x = lnp.arange(7.0, device=device) if bound == "argument" else lnp.arange(7.0)
    with lm.default_device(device if bound == "default" else None):
        lowered = f.lower(x)
    compiled = lowered.compile()
    lm.device_get((x, scale))
    misses = lm.cache.stats()["misses"]
    with lm.default_device(device if bound == "default" else None):
        out = compiled(x)
        assert out.device == device and out.tobytes() == f(x).tobytes()
    assert lm.cache.stats()["misses"] == misses


def test_no_program_of_one_device_serves_another():
    f = lm.jit(lambda x: lnp.cumsum(x) * 2)
    expected = f(lnp.arange(4.0)).tobytes()
    places = [*FAKE, "cpu:0"]
    for _ in range(3):
        for place in places:
            x = lnp.arange(4.0, device=place).block_until_ready()
            out = f(x)
            assert out.device == place and out.tobytes() == expected
            one = x + 1  # a program of one op, which is found by that
            assert one.device == place and one.tolist() == [1, 2, 3, 4] and one.device == place
    ran = [e for e in lm.cache.entries() if e["kind"] == "jit" and e["where"].startswith(__file__)]
    by_device = {e["device"]: e for e in ran if e["runs"] >= 3 and "f32[4]" in e["arguments"]}
    assert set(by_device) >= set(places)


def test_an_operation_read_at_once_is_found_without_a_graph():
    for place in [*FAKE, "cpu:0"]:
        x = lnp.arange(4.0, device=place).block_until_ready()
        for _ in range(2):
            (x * x).tolist()
        before = lm.cache.stats()
        for _ in range(5):
            assert (x * x).tolist() == [0, 1, 4, 9]
        after = lm.cache.stats()
        assert (after["hits"], after["misses"]) == (before["hits"] + 5, before["misses"])


def test_donated_arguments_of_another_device():
    step = lm.jit(lambda x: x + 1, donate_argnums=0)
    x = lnp.zeros(1000, device="fake:0")
    for _ in range(5):
        x = step(x)
    assert x.device == "fake:0" and float(x[0]) == 5


def test_gradients_are_where_their_arguments_are():
    w = lm.device_put(np.arange(3.0, dtype=np.float32), "fake:0")
    value, slope = lm.value_and_grad(lambda w: lnp.sum(lnp.exp(w) * lnp.arange(3)))(w)
    assert value.device == slope.device == "fake:0"
    np.testing.assert_allclose(slope, np.exp(np.arange(3)) * np.arange(3), rtol=1e-6)
    rows = lm.vmap(lambda v: v @ w)(lnp.eye(3))
    assert rows.device == "fake:0"
    np.testing.assert_array_equal(rows, [0, 1, 2])
    loops = lm.lax.fori_loop(0, 5, lambda i, v: v + w, w)
    assert loops.device == "fake:0" and list(np.asarray(loops)) == [0, 6, 12]
    seen = lm.lax.while_loop(lambda v: v.sum() < 20, lambda v: v + w, w)
    assert list(np.asarray(seen)) == [0, 7, 14]


def test_a_traced_value_does_not_move():
    def f(x):
        return (x * 2).to_device("fake:1").sum()

    for transformed in (lm.jit(f), lm.grad(f), lm.vmap(f)):
        with pytest.raises(NotImplementedError, match="cannot be moved to fake:1"):
            transformed(lnp.ones((2, 2)) if transformed is not lm.grad else lnp.ones(2))


def test_free_numbers_are_on_the_default_device():
    with lm.default_device("fake:1"):
        numbers = [lnp.ones(()), lnp.array(1.5), lnp.asarray(3), lnp.float32(2), lm.device_put(True)]
        assert {x.device for x in numbers} == {"fake:1"}
        assert {(x + 1).device for x in numbers} == {"fake:1"}
        assert lnp.array(1.5, device="cpu").device == "cpu"
        assert lnp.from_dlpack(np.array(2.5)).device == "cpu"
    with lm.default_device("cpu"):
        assert {x.device for x in numbers} == {"cpu:0"}


def test_default_devices_nest_and_belong_to_threads():
    pending = lnp.arange(3) + 1
    with lm.default_device("fake:1"):
        assert pending.device == DEFAULT
        x = lnp.arange(3) * 2
        made = lnp.array([1.0, 2.0])
        with lm.default_device("fake:0"):
            y = lnp.arange(3) * 3
        assert lm.devices() == FAKE and lm.default_backend() == "fake"
        elsewhere = []
        thread = threading.Thread(target=lambda: elsewhere.append(lnp.ones(2).device))
        thread.start()
        thread.join()
    assert (x.device, y.device, made.device) == ("fake:1", "fake:0", "fake:1")
    assert elsewhere[0] == DEFAULT
    # None of them is bound: they go where they are wanted.
    np.testing.assert_array_equal(x + y + pending, [1, 7, 13])
    assert (x + lnp.ones(3, device="cpu")).device == "cpu"


def test_values_of_another_device_are_waited_for():
    x = lnp.ones((64, 64), device="fake:0")
    for _ in range(20):
        x = x @ x / 64
    assert not x.is_ready()
    assert x.block_until_ready().is_ready() and x.device == "fake:0"
    assert float(x[3, 4]) == 1.0


def test_a_wait_for_another_device_can_be_stopped():
    class Alarm(Exception):
        pass

    def raises(*_):
        raise Alarm

    x = lnp.ones((300, 300), device="fake:0")
    for _ in range(300):
        x = lnp.minimum(x @ x, 1.0)
    old = signal.signal(signal.SIGALRM, raises)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Alarm):
            x.block_until_ready()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert float(x[0, 0]) == 1.0  # what was waited for comes


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_over_several_devices_give_the_cpus_bits(seed):
    rng = np.random.default_rng(seed)
    start = [rng.standard_normal((4, 4)).astype(np.float32) for _ in range(3)]
    square = lm.jit(lambda x: x @ x / 4)
    steps = [
        lambda x, y: x + y,
        lambda x, y: lnp.sin(x) * y,
        lambda x, y: x @ y / 4,
        lambda x, y: lnp.where(x > y, x, -y),
        lambda x, y: square(x) - y.sum(axis=0),
        lambda x, y: lm.grad(lambda z: lnp.sum(lnp.tanh(z) * y))(x),
        lambda x, y: lm.vmap(lambda row: lnp.cumsum(row) * 0.5)(x) + y.T,
    ]
    chosen = [(rng.integers(len(steps)), rng.integers(100), rng.integers(100)) for _ in range(30)]
    places = [str(rng.choice([*FAKE, "cpu:0"])) for _ in chosen]

    def run(on_devices: bool) -> list[bytes]:
        values = [lnp.asarray(v) for v in start]
        for (step, i, j), place in zip(chosen, places, strict=True):
            x, y = values[i % len(values)], values[j % len(values)]
            if on_devices:
                x, y = lm.device_put((x, y), place)
            values.append(steps[step](x, y))
            if on_devices:
                assert values[-1].device == place
        return [v.tobytes() for v in lm.device_get(values)]

    assert run(True) == run(False)


def test_numbers_keep_their_bits_on_the_way():
    tenth = lm.device_put(lnp.array(0.1), "fake:0")
    assert tenth.weak_type and (tenth * lnp.ones(1, dtype="float64")).item() == 0.1
    assert lm.device_put(0.1, "fake:0").weak_type == lnp.array(0.1).weak_type


@pytest.mark.parametrize("device", ["cpu", *FAKE, None])
def test_a_number_is_read_without_a_program(device):
    put = (lambda x: x) if device is None else lambda x: lm.device_put(x, device)
    f = lm.jit(lambda v, n: (v * n, n + 1))
    v = put(lnp.ones(3))
    for number, plus_one in ((0.1, np.float32(1.1)), (3, 4), (1j, 1 + 1j)):
        made = put(lnp.asarray(number))
        _, after = f(v, number)
        lm.device_get(v)
        before = runs()
        assert made.item() == np.asarray(number).astype(made.dtype).item()
        assert after.weak_type and after.item() == plus_one and after.tolist() == after.item()
        assert after.device == (DEFAULT if device is None else device)
        assert runs() == before
        assert (after * lnp.ones(1, dtype="complex128")).item() == number + 1  # which has all its bits


def test_effects_of_programs_on_other_devices(capfd):
    x = lnp.arange(3, device="fake:0")
    seen = []
    lm.jit(lambda x: lm.debug.callback(lambda v: seen.append(v.tolist()), x * 2))(x)
    lm.effects_barrier()
    assert seen == [[0, 2, 4]]


def test_whether_a_value_is_computed():
    x = lnp.arange(4) + lnp.ones(4)
    assert not x.is_ready()
    assert x.block_until_ready().is_ready()


def run(code: str, device: str) -> subprocess.CompletedProcess[str]:
    import os

    env = {**os.environ, "LAMINA_DEFAULT_DEVICE": device}
    return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120)


def test_the_environment_names_the_default_device():
    code = (
        "import lamina as lm, lamina.numpy as lnp\n"
        "x = lnp.arange(5.)\n"
        "y = lm.jit(lm.grad(lambda x: lnp.sum(x ** 3)))(x)\n"
        "print(x.device, y.device, lm.devices(), y.tolist())\n"
    )
    out = run(code, "fake:1")
    assert out.returncode == 0, out.stderr
    assert out.stdout.split("\n")[0] == (
        "fake:1 fake:1 [Device('fake:0'), Device('fake:1')] [0.0, 3.0, 12.0, 27.0, 48.0]"
    )
    wrong = run("import lamina.numpy as lnp; lnp.ones(3).tolist()", "moon")
    assert wrong.returncode == 1 and "LAMINA_DEFAULT_DEVICE: there is no device 'moon'" in wrong.stderr
