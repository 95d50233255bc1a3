"""Distances in units in the last place, and the values every element type is tried on."""

from __future__ import annotations

import ml_dtypes
import numpy as np

BOOL = ("bool",)
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
HALVES = ("float16", "bfloat16")
FLOATS = (*HALVES, "float32", "float64")
COMPLEX = ("complex64", "complex128")
KINDS = {"b": BOOL, "i": SIGNED, "u": UNSIGNED, "f": FLOATS, "w": FLOATS[2:], "c": COMPLEX}

# Stored significand bits with the hidden one, and the exponent of the smallest normal number.
_FORMATS = {"float16": (11, -14), "bfloat16": (8, -126), "float32": (24, -126), "float64": (53, -1022)}
PART = {"complex64": "float32", "complex128": "float64"}


def to_tensor(x):
    """A Tensor of x's element type, which NumPy's scalars, numbers to lamina, have only as arrays."""
    from lamina import _tensor

    return _tensor.to_tensor(np.asarray(x) if isinstance(x, np.generic) else x)


def numpy_dtype(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def largest(name: str) -> np.longdouble:
    """The largest finite value."""
    precision, low = _FORMATS[name]
    return np.ldexp(np.longdouble(2) - np.ldexp(np.longdouble(1), 1 - precision), 1 - low)


def ulp(exact: np.ndarray, name: str) -> np.ndarray:
    """The spacing of `name`'s numbers at `exact`, the spacing of the largest ones beyond them."""
    precision, low = _FORMATS[name]
    exponent = np.frexp(np.abs(exact))[1] - 1
    exponent = np.where(exact == 0, low, np.clip(exponent, low, 1 - low))
    return np.ldexp(np.ones_like(exact), exponent - precision + 1)


def error(got: np.ndarray, exact: np.ndarray, name: str) -> np.ndarray:
    """Errors in ulps of `name`; infinite where NaN, infinity or the sign of an exact zero are wrong.

    An infinity in place of a finite value counts as the number that would follow the largest one, and so does
    every exact value beyond that.
    """
    top = largest(name)
    follower = top + ulp(top.reshape(1), name)[0]
    finite = np.isfinite(exact)
    y = got.astype(np.longdouble)
    overflowed = np.isinf(y) & finite & (np.signbit(y) == np.signbit(exact))
    y = np.where(overflowed, np.copysign(follower, exact), y)
    exact = np.where(finite, np.clip(exact, -follower, follower), exact)
    safe = np.where(finite, exact, 0)
    with np.errstate(invalid="ignore", over="ignore"):
        out = np.where(finite, np.abs(y - safe) / ulp(safe, name), np.where(y == exact, 0, np.inf))
    out = np.where(np.isnan(exact), np.where(np.isnan(y), 0, np.inf), out)
    out = np.where(np.isnan(out), np.inf, out)
    return np.where((exact == 0) & (np.signbit(y) != np.signbit(exact)), np.inf, out)


def is_subnormal(exact: np.ndarray, name: str) -> np.ndarray:
    return np.abs(exact) < np.ldexp(np.longdouble(1), _FORMATS[name][1])


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bits, where any NaN equals any other; part by part for complex numbers."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind == "c":
        return same(a.real, b.real) and same(a.imag, b.imag)
    if a.dtype.kind not in "fV":
        return bool(np.array_equal(a, b))
    bits = np.dtype(f"u{a.dtype.itemsize}")
    nan_a, nan_b = np.isnan(a), np.isnan(b)
    equal = np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)
    return bool(np.array_equal(nan_a, nan_b) and np.all(equal | nan_a))


def specials(name: str) -> np.ndarray:
    """Zeros, infinities, NaN, subnormals, both ends of the range and their neighbours."""
    dtype = numpy_dtype(name)
    if name == "bool":
        return np.array([False, True])
    if dtype.kind in "iu":
        ends = np.iinfo(dtype)
        small = [0, 1, 2, 3, 7, 8, ends.bits - 1, ends.bits, ends.max, ends.max - 1]
        small += (
            [-1, -2, -7, ends.min, ends.min + 1] if dtype.kind == "i" else [ends.max // 2, ends.max // 2 + 1]
        )
        return np.array(small, dtype)
    if name in PART:
        parts = np.array([0, -0.0, 1, -2, np.inf, -np.inf, np.nan], PART[name])
        out = np.empty((len(parts), len(parts)), dtype)
        out.real, out.imag = parts[:, None], parts[None, :]
        return out.ravel()
    precision, low = _FORMATS[name]
    tiny, top = np.ldexp(np.longdouble(1), low), largest(name)
    step = np.ldexp(np.longdouble(1), 1 - precision)
    x = [
        0,
        tiny * step,
        tiny * (1 - step),
        tiny,
        0.5,
        1 - step / 2,
        1,
        1 + step,
        1.5,
        2,
        2.5,
        3,
        88.5,
        710,
        top,
    ]
    x = np.array([*x, top * (1 - step), 1 / step, np.inf], np.longdouble)
    return np.concatenate([x, -x, [np.longdouble(np.nan)]]).astype(dtype)


def samples(name: str, low: float, high: float, n: int, seed: int = 7) -> np.ndarray:
    """Special values, then random bit patterns and uniform numbers between `low` and `high`, n of each."""
    dtype, rng = numpy_dtype(name), np.random.default_rng(seed)
    if name == "bool":
        return np.concatenate([specials(name), rng.integers(0, 2, n).astype(bool)])
    if name in PART:
        z = rng.uniform(low, high, n) + 1j * rng.uniform(low, high, n)
        return np.concatenate([specials(name), z.astype(dtype)])
    patterns = np.frombuffer(rng.bytes(n * dtype.itemsize), dtype)
    if dtype.kind in "iu":
        return np.concatenate([specials(name), patterns, rng.integers(0, 9, n).astype(dtype)])
    inside = rng.uniform(low, high, n)
    near = np.where(rng.random(n) < 0.5, 1, -1) * np.exp2(rng.uniform(-30, 7, n))
    return np.concatenate([specials(name), patterns, inside.astype(dtype), near.astype(dtype)])


def everything(name: str) -> np.ndarray:
    """All 65,536 values of a 16-bit type."""
    return np.arange(65536, dtype=np.uint16).view(numpy_dtype(name))
