"""Remainders of floats are exact, as NumPy's fmod is: for quotients of any size, next to whole ones, and at the edges of
a type. So are quotients and remainders of integers by numbers that the program knows."""

import lamina as lm
import lamina.numpy as jnp
import numpy as np
import pytest

COUNT = 20_000


def _edges(kind: str) -> np.ndarray:
    info = np.finfo(kind)
    least = info.smallest_subnormal
    values = [
        0.0,
        1,
        2,
        3,
        0.5,
        info.tiny,
        least,
        3 * least,
        info.max,
        np.inf,
        np.nan,
        1 + info.eps,
        1 - info.eps / 2,
    ]
    return np.concatenate([np.array(values, kind), -np.array(values, kind)])


def _pairs(kind: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    unsigned = f"u{np.dtype(kind).itemsize}"

    def any_bits() -> np.ndarray:
        return rng.integers(0, 2 ** (8 * np.dtype(kind).itemsize), COUNT, dtype=unsigned).view(kind)

    x, y = np.meshgrid(_edges(kind), _edges(kind))
    by = any_bits()
    with np.errstate(all="ignore"):
        whole = by * rng.integers(0, 100 if kind == "float16" else 2**24, COUNT).astype(kind)
        beside = np.nextafter(whole, rng.choice([-np.inf, np.inf], COUNT).astype(kind))
    short = rng.standard_normal(COUNT).astype(kind)
    return (
        np.concatenate([x.ravel(), any_bits(), whole, beside, 1000 * short]),
        np.concatenate([y.ravel(), any_bits(), by, by, short[::-1]]),
    )


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_remainder_is_exact(kind: str) -> None:
    x, y = _pairs(kind)
    with np.errstate(all="ignore"):
        want = np.fmod(x, y)
    got = np.asarray(lm.jit(lm.lax.rem)(jnp.asarray(x), jnp.asarray(y)))
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    number = ~np.isnan(want)
    unsigned = f"u{np.dtype(kind).itemsize}"
    np.testing.assert_array_equal(got.view(unsigned)[number], want.view(unsigned)[number])


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"])
def test_division_by_a_known_number_is_exact(kind: str) -> None:
    info = np.iinfo(kind)
    rng = np.random.default_rng(6)
    near = np.array([info.min, info.min + 1, info.max - 1, info.max], kind)
    divisors = {1, 2, 3, 7, 10, 64, 100, 127, info.max, info.max // 2, info.max - 1, info.max // 3}
    divisors |= {int(d) for d in rng.integers(1, info.max, 6)}
    if info.min < 0:
        divisors |= {-d for d in divisors} | {int(info.min)}
    for divisor in divisors:
        with np.errstate(over="ignore"):  # of the least number by -1
            any_number = rng.integers(info.min, info.max, COUNT, dtype=kind, endpoint=True)
            quotients = any_number // np.array(divisor, kind)
            multiples = quotients * np.array(divisor, kind)  # those that wrap are numbers as well
            one = np.array(1, kind)
            x = np.concatenate([multiples, multiples - one, multiples + one, near])
            by = np.array(divisor, kind)
            want_quotient, want_rest = x // by, x % by
        divide = lm.jit(lambda x, d=divisor: (x // d, x % d))
        quotient, rest = divide(jnp.asarray(x))
        np.testing.assert_array_equal(np.asarray(quotient), want_quotient, err_msg=str(divisor))
        np.testing.assert_array_equal(np.asarray(rest), want_rest, err_msg=str(divisor))
