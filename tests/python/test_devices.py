"""Devices by name, and what arrays say of them."""

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest


def test_devices_have_names():
    (first,) = lm.devices("cpu")
    assert [first] == lm.devices() and lm.device_count() == lm.device_count("cpu") == 1
    assert first == "cpu:0" and first == "cpu" and first != "cpu:1" and first != 0
    assert str(first) == "cpu:0" and repr(first) == "Device('cpu:0')" and hash(first) == hash("cpu:0")
    assert (first.platform, first.device_kind, first.id, first.process_index) == ("cpu", "cpu", 0, 0)
    with pytest.raises(ValueError, match="there is no platform 'moon'"):
        lm.devices("moon")


def test_memory_of_a_device():
    device = lm.devices()[0]
    before = device.memory_stats()["bytes_in_use"]
    x = lnp.ones(1 << 16).block_until_ready()
    after = device.memory_stats()
    assert after["bytes_in_use"] >= before + 4 * x.size
    assert after["peak_bytes_in_use"] >= after["bytes_in_use"]


@pytest.mark.parametrize("device", [None, "cpu", "cpu:0", lm.devices()[0]])
def test_arrays_are_put_on_a_device(device):
    with lm.default_device(device):
        x = lm.device_put({"a": np.arange(3.0), "b": [2]}, device)
    assert x["a"].device == lm.devices()[0] and x["a"].devices() == set(lm.devices())
    assert lm.device_get(x)["b"][0] == 2
    assert lnp.ones(2, device=device).to_device(device or "cpu").device == "cpu:0"


@pytest.mark.parametrize("device", ["moon", "cpu:1", 0])
def test_other_devices_are_refused(device):
    for use in (
        lambda: lm.device_put(np.ones(2), device),
        lambda: lm.default_device(device).__enter__(),
        lambda: lnp.zeros(2, device=device),
        lambda: lnp.ones(2).to_device(device),
    ):
        with pytest.raises(ValueError, match="there is no device"):
            use()


def test_whether_a_value_is_computed():
    x = lnp.arange(4) + lnp.ones(4)
    assert not x.is_ready()
    assert x.block_until_ready().is_ready()
