"""What the tests of reads share: settings at module level, which they change, and objects that jitted code reads."""

from __future__ import annotations

import dataclasses
import sys
import types

import lamina as lm
import lamina.numpy as lnp
import pytest

SETTINGS = {"lr": 2.0}
OPTIONS = types.SimpleNamespace(scale=1.0)
BIAS = 0.5
COUNT = 0
SEEN: list[float] = []


def helper(x):
    return x * BIAS


@lm.jit
def jitted_step(x):
    return x * SETTINGS["lr"] * OPTIONS.scale + helper(x)


def counting(x):
    global COUNT
    COUNT += 1
    SEEN.append(BIAS)
    return x * COUNT


@pytest.fixture(autouse=True)
def restored_settings():
    this = sys.modules[__name__]
    kept = {k: v for k, v in vars(this).items() if k.isupper()}
    yield
    for k, v in kept.items():
        setattr(this, k, v)


X = lnp.array([1.0, 2.0])


def traces(f):
    return sum(v.paths for variants in f._entries.values() for v in variants)


class Layer:
    __slots__ = ("__weakref__", "gain")

    def __init__(self, gain):
        self.gain = gain

    def __call__(self, x):
        return x * self.gain


@dataclasses.dataclass
class Hyper:
    rate: float = 0.5
    name: str = "a"
    steps: int = 2
