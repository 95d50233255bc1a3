"""Python control flow in jitted functions: newcomers' programs and random ones, in both ways, against plain Python."""

from __future__ import annotations

import control_flow_programs as programs
import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
from control_flow_grammar import Program
from lamina import tree

WAYS = {"specialize": {}, "convert": {"control_flow": "convert"}}


def given(argument):
    return lnp.array(argument) if isinstance(argument, list) else argument


def agree(got, want, name):
    a, b = tree.tree_flatten(got), tree.tree_flatten(want)
    assert a[1] == b[1], (got, want)
    for x, y in zip(a[0], b[0]):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=2e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("name", programs.PROGRAMS)
@pytest.mark.parametrize("way", WAYS)
def test_a_program_gives_what_plain_python_gives(name, way):
    f, arguments = programs.PROGRAMS[name]
    jitted = lm.jit(f, **WAYS[way])
    if name in programs.REFUSED[way]:
        with pytest.raises(TypeError) as e:
            jitted(*map(given, arguments[0]))
        text = str(e.value)
        assert programs.REFUSED[way][name] in text and "control_flow_programs.py:" in text
        return
    for args in arguments:
        agree(jitted(*map(given, args)), f(*map(given, args)), f"{name}{args}")


def test_there_are_enough_of_them():
    assert len(programs.PROGRAMS) - max(map(len, programs.REFUSED.values())) >= 40


def test_converted_programs_are_one_program_for_all_arguments():
    for name in ("newton_until_tolerance", "collatz", "bisection", "nested_loops_with_break", "while_else"):
        f, arguments = programs.PROGRAMS[name]
        jitted = lm.jit(f, control_flow="convert")
        jitted(*map(given, arguments[0]))
        misses = lm.cache.stats()["misses"]
        for args in arguments[1:]:
            jitted(*map(given, args))
        assert lm.cache.stats()["misses"] == misses, name


# --- random programs ---

ARGUMENTS = [(0, 0, 0), (3, 5, 2), (50, 2, 9), (-3, 8, 4)]


def outcome(f, args):
    """What a call gives, or how it fails."""
    try:
        return [int(x) for x in f(*args)]
    except ValueError as e:
        return f"ValueError {e}"
    except UnboundLocalError:
        return "UnboundLocalError"


def fits(seed, recursive=False, **options):
    p = Program(seed, ranges="control_flow" in options, recursive=recursive)
    f = p.function(f"<random program {seed}>")
    jitted = lm.jit(f, **options)
    for args in ARGUMENTS:
        assert outcome(jitted, args) == outcome(f, args), f"seed {seed}, {args}:\n{p.source}"


@pytest.mark.parametrize("block", range(10))
def test_random_programs_converted(block):
    for seed in range(block * 12, block * 12 + 12):
        fits(seed, control_flow="convert")


def test_random_recursive_programs():
    for seed in range(60_000, 60_025):
        fits(seed, recursive=True, control_flow="convert")


def test_random_programs_specialized():
    for seed in range(7000, 7030):
        fits(seed)


@pytest.mark.slow
@pytest.mark.programs
@pytest.mark.parametrize("first", range(10_000, 13_000, 50))
def test_many_random_programs_converted(first):
    for seed in range(first, first + 50):
        fits(seed, control_flow="convert")


@pytest.mark.slow
@pytest.mark.programs
@pytest.mark.parametrize("first", range(70_000, 71_000, 50))
def test_many_random_recursive_programs(first):
    for seed in range(first, first + 50):
        fits(seed, recursive=True, control_flow="convert")


@pytest.mark.slow
@pytest.mark.programs
@pytest.mark.parametrize("first", range(20_000, 20_500, 50))
def test_many_random_programs_specialized(first):
    for seed in range(first, first + 50):
        fits(seed)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(13_000, 15_000, 100))
def test_more_random_programs_converted(first):
    for seed in range(first, first + 100):
        fits(seed, control_flow="convert")
