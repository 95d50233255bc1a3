"""Random numbers from explicit keys, with the streams of jax.random (Threefry-2x32, partitionable scheme).

A key is a uint32 array of shape [2], or [4] for the generator "rbg". The same key gives the same numbers everywhere: in
eager code, under jit and vmap, on any number of threads. Element i of a result depends on the key and on i only.

Threefry: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC11).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from lamina import _core, dtypes, lax
from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina.lax._base import axis_of, const, describe, ints, like, limit
from lamina.random import _philox

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_MANTISSA = {"float16": (10, 16), "bfloat16": (7, 16), "float32": (23, 32), "float64": (52, 64)}
_ONE_BITS = {"float16": 0x3C00, "bfloat16": 0x3F80, "float32": 0x3F800000, "float64": 0x3FF0000000000000}
_TINY = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126, "float64": 2.0**-1022}


# The generators, and how many words their keys have.
_WORDS = {"threefry2x32": 2, "rbg": 4}


def _words_of(impl: Any) -> int:
    name = "threefry2x32" if impl is None else impl
    if name not in _WORDS:
        raise ValueError(f"there is no generator {impl!r}: keys are of one of {', '.join(_WORDS)}")
    return _WORDS[name]


def key(seed: Any, *, impl: str | None = None) -> Tensor:
    """The key of an integer seed: its high and low 32 bits, uint32[2].

    `impl` is None or "threefry2x32", or "rbg", whose keys have both words twice, uint32[4], and draw their bits from
    Philox: faster, for most distributions. ValueError for others.
    """
    two = _seeded(seed)
    return two if _words_of(impl) == 2 else lax.concatenate([two, two], 0)


def _seeded(seed: Any) -> Tensor:
    if isinstance(seed, int) and not isinstance(seed, bool):
        if not -(2**63) <= seed < 2**64:
            raise OverflowError(f"the seed {seed} does not fit 64 bits")
        high = (seed >> 32) & 0xFFFFFFFF if not -(2**31) <= seed < 2**31 else 0
        return _stack([const(high, "uint32"), const(seed & 0xFFFFFFFF, "uint32")], 0)
    t = to_tensor(seed)
    if t.shape != () or t.dtype.kind not in "iu":
        raise TypeError(f"a seed is an integer scalar, not {describe(t)}")
    return _stack([*_words(t)], 0)


PRNGKey = key


def key_data(keys: Any) -> Tensor:
    """The words of keys: keys are their words here."""
    return _check_key(keys, batch=True)


def key_impl(keys: Any) -> str:
    """The name of the generator that the keys are for."""
    words = _check_key(keys, batch=True).shape[-1]
    return next(name for name, n in _WORDS.items() if n == words)


def wrap_key_data(key_bits_array: Any, *, impl: str | None = None) -> Tensor:
    """Keys of words, uint32[..., 2] for Threefry and uint32[..., 4] for "rbg"."""
    k = _check_key(key_bits_array, batch=True)
    if impl is not None and _words_of(impl) != k.shape[-1]:
        raise ValueError(f"keys of {impl} have {_words_of(impl)} words, not {k.shape[-1]}")
    return k


def _words(t: Tensor) -> tuple[Tensor, Tensor]:
    """High and low 32 bits of integers."""
    if t.dtype.itemsize < 8:
        return const(0, "uint32"), _core.elementwise("convert", t, dtype="uint32")
    wide = _core.elementwise("convert", t, dtype="uint64")
    high = lax.shift_right_logical(wide, const(32, "uint64"))
    return (
        _core.elementwise("convert", high, dtype="uint32"),
        _core.elementwise("convert", wide, dtype="uint32"),
    )


def _stack(parts: Sequence[Tensor], axis: int) -> Tensor:
    return lax.concatenate([lax.expand_dims(p, (axis,)) for p in parts], axis)


def _check_key(k: Any, batch: bool = False) -> Tensor:
    t = to_tensor(k)
    words = t.shape[-1] if t.ndim else 0
    if t.dtype != "uint32" or words not in _WORDS.values() or (t.ndim != 1 and not batch):
        raise TypeError(f"a key is uint32[2], as random.key and random.split make, not {describe(t)}")
    return t


def _halves(k: Tensor) -> list[Tensor]:
    """The Threefry keys that a key is made of."""
    if k.shape[-1] == 2:
        return [k]
    return [lax.slice(k, (2 * i,), (2 * i + 2,)) for i in (0, 1)]


def _shape(shape: Any) -> tuple[int, ...]:
    return tuple(ints(shape))


def _threefry(k0: Tensor, k1: Tensor, x0: Tensor, x1: Tensor) -> tuple[Tensor, Tensor]:
    """The two words of Threefry-2x32 with 20 rounds: key words (scalars), counter words."""
    ew = _core.elementwise
    keys = (k0, k1, k0 ^ k1 ^ const(0x1BD11BDA, "uint32"))
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for group in range(5):
        for r in _ROTATIONS[group % 2]:
            x0 = x0 + x1
            left = ew("shift_left", x1, const(r, "uint32"))
            x1 = (left | ew("shift_right_logical", x1, const(32 - r, "uint32"))) ^ x0
        x0 = x0 + keys[(group + 1) % 3]
        x1 = x1 + (keys[(group + 2) % 3] + const(group + 1, "uint32"))
    return x0, x1


def _counters(shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """High and low words of each element's number in row-major order."""
    if math.prod(shape) < 2**32:
        flat = _core.op("iota", [], dtype="uint32", shape=[math.prod(shape)], iota_dimension=0)[0]
        return const(0, "uint32"), lax.reshape(flat, shape)
    wide = _core.op("iota", [], dtype="uint64", shape=[math.prod(shape)], iota_dimension=0)[0]
    return _words(lax.reshape(wide, shape))


@functools.lru_cache(maxsize=256)
def _block_region(shape: tuple[int, ...]) -> Any:
    """The region key -> both words of the blocks numbered by the elements of `shape`."""

    def blocks(p: list[Tensor]) -> list[Tensor]:
        k0, k1 = (lax.reshape(lax.slice(p[0], (i,), (i + 1,)), ()) for i in (0, 1))
        return list(_threefry(k0, k1, *_counters(shape)))

    return _core.region(blocks, [("uint32", [2], False)])


def _blocks(k: Tensor, shape: tuple[int, ...]) -> list[Tensor]:
    return _core.op("call", [k], body=_block_region(shape))


def split(key: Any, num: int | Sequence[int] = 2) -> Tensor:
    """New independent keys: uint32[num, 2], or num's shape and 2. The old key is not to be used again."""
    k, shape = _check_key(key), _shape(num)
    return _stack([w for half in _halves(k) for w in _blocks(half, shape)], len(shape))


def fold_in(key: Any, data: Any) -> Tensor:
    """A new key of a key and an integer, such as a step number."""
    k = _check_key(key)
    if isinstance(data, int):
        if not 0 <= data < 2**32:
            raise OverflowError(f"fold_in takes an integer of 32 bits without sign, not {data}")
        low = const(data, "uint32")
    else:
        t = to_tensor(data)
        if t.shape != () or t.dtype.kind not in "iu":
            raise TypeError(f"fold_in takes an integer scalar, not {describe(t)}")
        low = _core.elementwise("convert", t, dtype="uint32")
    return _stack([w for half in _halves(k) for w in _core.op("call", [half, low], body=_fold_region())], 0)


@functools.lru_cache(maxsize=1)
def _fold_region() -> Any:
    def fold(p: list[Tensor]) -> list[Tensor]:
        k0, k1 = (lax.reshape(lax.slice(p[0], (i,), (i + 1,)), ()) for i in (0, 1))
        return list(_threefry(k0, k1, const(0, "uint32"), p[1]))

    return _core.region(fold, [("uint32", [2], False), ("uint32", [], False)])


def clone(key: Any) -> Tensor:
    """The same key, for numbers that are meant to be the same."""
    return _check_key(key)


def bits(key: Any, shape: Sequence[int] = (), dtype: Any = "uint32") -> Tensor:
    """Uniform random bits as unsigned integers."""
    t = dtypes.canonical(dtype)
    if t.kind != "u":
        raise TypeError(f"random.bits makes unsigned integers, not {t.name}")
    k, shape = _check_key(key), _shape(shape)
    if k.shape == (2,):
        return _joined(*_blocks(k, shape), t)
    each = 2 if t.itemsize == 8 else 1
    drawn = _philox.words(k, shape, each)
    return _of_philox(*(lax.index_in_dim(drawn, i, len(shape), False) for i in (0, each - 1)), t)


def _of_philox(low: Tensor, high: Tensor, t: dtypes.DType) -> Tensor:
    """Unsigned integers of words of Philox, of which those of up to 32 bits take one."""
    return _joined(high, low, t) if t.itemsize == 8 else _core.elementwise("convert", low, dtype=str(t))


def _joined(high: Tensor, low: Tensor, t: dtypes.DType) -> Tensor:
    """Unsigned integers of both words of blocks."""
    if t.itemsize == 8:
        wide = _core.elementwise("convert", high, dtype="uint64")
        wide = lax.shift_left(wide, const(32, "uint64"))
        return wide | _core.elementwise("convert", low, dtype="uint64")
    mixed = high ^ low
    return mixed if t.itemsize == 4 else _core.elementwise("convert", mixed, dtype=str(t))


def _float_name(what: str, dtype: Any) -> str:
    name = dtypes.name_of(dtype)
    if name not in _MANTISSA:
        raise TypeError(f"random.{what} makes floats of 16 bits or more, not {name}")
    return name


def _draw(what: str, shape: Any, *parameters: Any) -> tuple[int, ...]:
    """The shape of a result: given, or the parameters' common shape, which must broadcast to it."""
    common = lax.broadcast_shapes(*(to_tensor(p).shape for p in parameters))
    if shape is None:
        return common
    shape = _shape(shape)
    lead = len(shape) - len(common)
    if lead < 0 or any(n not in (1, m) for n, m in zip(common, shape[lead:], strict=True)):
        raise ValueError(f"random.{what}: parameters of shape {common} do not broadcast to the shape {shape}")
    return shape


def _scalar(x: Any, name: str) -> Tensor:
    """A parameter in the result's element type."""
    return const(x, name) if isinstance(x, (int, float)) else lax.convert_element_type(x, name)


def uniform(
    key: Any, shape: Sequence[int] = (), dtype: Any = float, minval: Any = 0.0, maxval: Any = 1.0
) -> Tensor:
    """Uniform floats in [minval, maxval), as many distinct values as the mantissa has."""
    name = _float_name("uniform", dtype)
    shape = _draw("uniform", shape, minval, maxval)
    return _scaled(bits(key, shape, _raw_type(name)), name, minval, maxval)


def _raw_type(name: str) -> dtypes.DType:
    """The unsigned integers that floats of a type are made of."""
    mantissa, width = _MANTISSA[name]
    return dtypes.TABLE["uint8" if mantissa < 8 else f"uint{width}"]


def _scaled(raw: Tensor, name: str, minval: Any, maxval: Any) -> Tensor:
    """Random bits as uniform floats in [minval, maxval)."""
    mantissa, width = _MANTISSA[name]
    unsigned, drawn = f"uint{width}", raw.dtype.bits
    if drawn != width:
        raw = _core.elementwise("convert", raw, dtype=unsigned)
    raw = _core.elementwise("shift_right_logical", raw, const(drawn - mantissa, unsigned))
    raw = raw | const(_ONE_BITS[name], unsigned)
    unit = _core.elementwise("bitcast_convert", raw, dtype=name) - const(1, name)
    lo, hi = _scalar(minval, name), _scalar(maxval, name)
    return _core.elementwise("maximum", lo, unit * (hi - lo) + lo)


def randint(key: Any, shape: Sequence[int], minval: Any, maxval: Any, dtype: Any = int) -> Tensor:
    """Uniform integers in [minval, maxval); minval where that is empty."""
    t = dtypes.canonical(dtype)
    if t.kind not in "iu":
        raise TypeError(f"random.randint makes integers, not {t.name}")
    if t.bits < 32:  # drawn in 32 bits, for less bias
        least, most = _limits(t)
        lo, hi = (_clipped(v, least, m) for v, m in ((minval, most), (maxval, most + 1)))
        return _core.elementwise("convert", randint(key, shape, lo, hi, "int32"), dtype=str(t))
    k, shape = _check_key(key), _draw("randint", shape, minval, maxval)
    unsigned = f"uint{t.bits}"
    past = isinstance(maxval, int) and maxval > _limits(t)[1]
    lo, hi = _bound(minval, t), _bound(maxval, t)
    first, second = (lax.index_in_dim(split(k), i, 0, False) for i in (0, 1))
    high, low = bits(first, shape, unsigned), bits(second, shape, unsigned)
    one = const(1, unsigned)
    span = _core.elementwise("convert", hi - lo, dtype=unsigned)
    empty = hi <= lo
    span = _core.elementwise("select", empty, one, span)
    if past:
        span = _core.elementwise("select", empty, span, span + one)
    half = _core.elementwise("remainder", const(1 << (t.bits // 2), unsigned), span)
    factor = _core.elementwise("remainder", half * half, span)
    offset = _core.elementwise("remainder", high, span) * factor + _core.elementwise("remainder", low, span)
    offset = _core.elementwise("remainder", offset, span)
    return lo + _core.elementwise("convert", offset, dtype=str(t))


def _clipped(x: Any, least: int, most: int) -> Any:
    """A bound of integers of fewer than 32 bits, limited to `most`, which may be one more than the greatest."""
    if isinstance(x, int):
        return min(max(x, least), most)
    wide = _bound(x, dtypes.TABLE["int32"])
    return _core.elementwise("clamp", const(least, "int32"), wide, const(most, "int32"))


def _limits(t: dtypes.DType) -> tuple[int, int]:
    width = t.bits
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if t.kind == "i" else (0, (1 << width) - 1)


def _bound(x: Any, t: dtypes.DType) -> Tensor:
    """A bound limited to the values of an integer type."""
    least, most = _limits(t)
    if isinstance(x, int):
        x = min(max(x, least), most)
        return const(x if x < 2**63 else x - 2**64, t)
    v = to_tensor(x)
    if v.dtype.kind not in "iu":
        v = _core.elementwise("convert", v, dtype="int32")
    if v.dtype == t:
        return v
    own_least, own_most = _limits(v.dtype)
    v = _core.elementwise(
        "clamp",
        const(max(least, own_least), v.dtype),
        v,
        const(most, v.dtype) if most < own_most else limit(v.dtype, 1),
    )
    return _core.elementwise("convert", v, dtype=str(t))


def normal(key: Any, shape: Sequence[int] = (), dtype: Any = float) -> Tensor:
    """Standard normal numbers: sqrt(2) erf_inv(u), u uniform in (-1, 1).

    Complex: both parts of variance 1/2.
    """
    name = dtypes.name_of(dtype)
    if name in ("complex64", "complex128"):
        part = "float32" if name == "complex64" else "float64"
        keys = split(key)
        re, im = (normal(lax.index_in_dim(keys, i, 0, False), shape, part) for i in (0, 1))
        root = const(math.sqrt(2), part)
        return lax.complex(_core.elementwise("divide", re, root), _core.elementwise("divide", im, root))
    _float_name("normal", name)
    u = uniform(key, shape, name, _above_minus_one(name), 1.0)
    return lax.erf_inv(u) * const(math.sqrt(2), name)


def _above_minus_one(name: str) -> float:
    """The smallest float above -1."""
    return -1.0 + 2.0 ** -(_MANTISSA[name][0] + 1)


def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Sequence[int] | None = None, dtype: Any = float
) -> Tensor:
    """Standard normal numbers given that they lie in (lower, upper)."""
    name = _float_name("truncated_normal", dtype)
    shape = _draw("truncated_normal", shape, lower, upper)
    root = const(math.sqrt(2), name)
    lo, hi = _scalar(lower, name), _scalar(upper, name)
    a, b = (lax.erf(_core.elementwise("divide", v, root)) for v in (lo, hi))
    drawn = lax.erf_inv(uniform(key, shape, name, a, b)) * root
    inf = const(math.inf, name)
    least = _core.elementwise("next_after", lax.stop_gradient(lo), inf)
    most = _core.elementwise("next_after", lax.stop_gradient(hi), -inf)
    return _core.elementwise("minimum", most, _core.elementwise("maximum", least, drawn))


def _bits_mode(mode: str | None, what: str) -> str:
    if mode not in (None, "low", "high", "highest"):
        raise ValueError(f"random.{what} has the modes 'low', 'high' and 'highest', not {mode!r}")
    return mode or "low"


def bernoulli(key: Any, p: Any = 0.5, shape: Sequence[int] | None = None, mode: str | None = None) -> Tensor:
    """True with probability p. With mode "high" also where p is below the spacing of uniform numbers."""
    if mode not in (None, "low", "high"):
        raise ValueError(f"random.bernoulli has the modes 'low' and 'high', not {mode!r}")
    t = to_tensor(p)
    if t.dtype.kind != "f":
        t = _core.recast(t, _core.inexact_type(t.dtype.name))
    name, shape = t.dtype.name, _draw("bernoulli", shape, t)
    if mode != "high":
        return uniform(key, shape, name) < t
    drawn = uniform(key, (2, *shape), name)
    first, second = (lax.index_in_dim(drawn, i, 0, False) for i in (0, 1))
    return second * const(2.0 ** -_MANTISSA[name][0], name) < t - first


def rademacher(key: Any, shape: Sequence[int] = (), dtype: Any = int) -> Tensor:
    """-1 or 1."""
    drawn = lax.convert_element_type(bernoulli(key, 0.5, shape), dtype)
    return lax.convert_element_type(drawn * 2 - 1, dtype)


def exponential(key: Any, shape: Sequence[int] = (), dtype: Any = float) -> Tensor:
    """Exponential numbers of rate 1."""
    return -lax.log1p(-uniform(key, shape, _float_name("exponential", dtype)))


def gumbel(key: Any, shape: Sequence[int] = (), dtype: Any = float, mode: str | None = None) -> Tensor:
    """Standard Gumbel numbers. The modes "high" and "highest" draw twice the bits, for the tail of large numbers."""
    mode, name, shape = _bits_mode(mode, "gumbel"), _float_name("gumbel", dtype), _shape(shape)
    if mode == "low":
        return -lax.log(-lax.log(uniform(key, shape, name, _TINY[name], 1.0)))
    if mode == "highest" and name == "float32":
        drawn = bits(key, (2, *shape), "uint32")
        return _gumbel_of_bits(*(lax.index_in_dim(drawn, i, 0, False) for i in (0, 1)))
    drawn = uniform(key, (2, *shape), name)
    high, low = (lax.index_in_dim(drawn, i, 0, False) for i in (0, 1))
    fine = high + low * const(2.0 ** -_MANTISSA[name][0], name) + const(_TINY[name], name)
    return -lax.log(-lax.log1p(-_core.elementwise("select", high >= const(0.5, name), high, fine)))


def _gumbel_of_bits(high: Tensor, low: Tensor) -> Tensor:
    """Of 64 bits, which are a fraction u: of u or of 1 - u, whichever is less than a half, none of its bits is lost."""
    ew = _core.elementwise
    small = high < const(1 << 31, "uint32")
    ends = low == const(0, "uint32")
    opposite = ew("not", high) + ew("convert", ends, dtype="uint32"), ew("not", low) + const(1, "uint32")
    x = _unit_float(*(ew("select", small, a, b) for a, b in zip((high, low), opposite, strict=True)))
    return -lax.log(-ew("select", small, lax.log1p(-x), lax.log(x)))


def _unit_float(high: Tensor, low: Tensor) -> Tensor:
    """The fraction of 64 bits, rounded down to a float32."""
    ew = _core.elementwise
    wide = ew("convert", high, dtype="uint64")
    wide = lax.shift_left(wide, const(32, "uint64")) | ew("convert", low, dtype="uint64")
    zeros = ew("count_leading_zeros", wide)
    mantissa = lax.shift_right_logical(lax.shift_left(wide, zeros), const(40, "uint64"))
    bits32 = ew("convert", mantissa, dtype="uint32") & const(0x7FFFFF, "uint32")
    exponent = lax.shift_left(
        const(126, "uint32") - ew("convert", zeros, dtype="uint32"), const(23, "uint32")
    )
    return ew("bitcast_convert", exponent | bits32, dtype="float32")


def laplace(key: Any, shape: Sequence[int] = (), dtype: Any = float) -> Tensor:
    """Standard Laplace numbers."""
    name = _float_name("laplace", dtype)
    u = uniform(key, shape, name, _above_minus_one(name), 1.0)
    return lax.sign(u) * lax.log1p(-lax.abs(u))


def logistic(key: Any, shape: Sequence[int] = (), dtype: Any = float) -> Tensor:
    """Standard logistic numbers."""
    name = _float_name("logistic", dtype)
    u = uniform(key, shape, name, _TINY[name], 1.0)
    return lax.log(u) - lax.log1p(-u)


def cauchy(key: Any, shape: Sequence[int] = (), dtype: Any = float) -> Tensor:
    """Standard Cauchy numbers."""
    name = _float_name("cauchy", dtype)
    u = uniform(key, shape, name, 2.0 ** -_MANTISSA[name][0], 1.0)
    return lax.tan((u - const(0.5, name)) * const(math.pi, name))


def pareto(key: Any, b: Any, shape: Sequence[int] | None = None, dtype: Any = float) -> Tensor:
    """Pareto numbers of shape parameter b, at least 1."""
    name = _float_name("pareto", dtype)
    drawn = exponential(key, _draw("pareto", shape, b), name)
    return lax.exp(_core.elementwise("divide", drawn, _scalar(b, name)))


def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Sequence[int] = (), dtype: Any = float
) -> Tensor:
    """Weibull numbers."""
    name = _float_name("weibull_min", dtype)
    e = exponential(key, _draw("weibull_min", shape, scale, concentration), name)
    power = lax.reciprocal(_scalar(concentration, name))
    return _core.elementwise("power", e, power) * _scalar(scale, name)


def rayleigh(key: Any, scale: Any, shape: Sequence[int] | None = None, dtype: Any = float) -> Tensor:
    """Rayleigh numbers."""
    name = _float_name("rayleigh", dtype)
    u = uniform(key, _draw("rayleigh", shape, scale), name)
    return _scalar(scale, name) * lax.sqrt(lax.log(u) * -2)


def maxwell(key: Any, shape: Sequence[int] = (), dtype: Any = float) -> Tensor:
    """Lengths of vectors of three standard normal numbers."""
    shape = _shape(shape)
    drawn = normal(key, (*shape, 3), _float_name("maxwell", dtype))
    return lax.sqrt(lax.reduce_sum(lax.square(drawn), (len(shape),)))


def _shuffled(k: Tensor, x: Tensor, axis: int) -> Tensor:
    """x sorted by fresh random keys, as often as ties ask for."""
    rounds = math.ceil(3 * math.log(max(1, x.size)) / math.log(2**32 - 1))
    for _ in range(rounds):
        keys = split(k)
        k, fresh = (lax.index_in_dim(keys, i, 0, False) for i in (0, 1))
        x = lax.sort_key_val(bits(fresh, x.shape), x, axis)[1]
    return x


def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Tensor:
    """0..x-1 (for an int), or the slices of an array along an axis, in random order.

    With `independent` every line along the axis has an order of its own. ValueError for an axis that there is not.
    """
    from lamina.numpy import arange

    k, t = _check_key(key), _count_or_array(x, "permutation")
    axis = axis_of(axis, 1 if isinstance(t, int) else t.ndim)
    if isinstance(t, int):
        return _shuffled(k, arange(max(t, 0)), 0)
    if independent or t.ndim == 1 or not t.size:
        return _shuffled(k, t, axis)
    return _take(t, _shuffled(k, lax.iota("int32", t.shape[axis]), 0), axis)


def _count_or_array(x: Any, name: str) -> int | Tensor:
    """An integer scalar of any kind as an int, which stands for range(x), anything else as an array."""
    t = x if isinstance(x, int) else to_tensor(x)
    if isinstance(t, int) or t.ndim > 0:
        return t
    if t.dtype.kind not in "iu":
        raise TypeError(f"random.{name} needs an integer or an array, not {describe(t)}")
    return int(t)


def _take(t: Tensor, index: Tensor, axis: int) -> Tensor:
    """Slices of t along an axis at the positions of an index array, in place of the axis."""
    sizes = [1 if d == axis else n for d, n in enumerate(t.shape)]
    offset = [d if d < axis else d + index.ndim - 1 for d in range(t.ndim) if d != axis]
    numbers = lax.GatherDimensionNumbers(tuple(offset), (axis,), (axis,))
    return lax.gather(t, lax.expand_dims(index, (index.ndim,)), numbers, sizes, mode="clip")


def choice(
    key: Any,
    a: Any,
    shape: Sequence[int] = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: str | None = None,
) -> Tensor:
    """Elements of range(a) (for an int) or of an array along an axis, with or without replacement.

    `p`: probabilities per element, uniform if None. ValueError if there are too few elements.
    """
    mode = _bits_mode(mode, "choice")
    k, shape = _check_key(key), _shape(shape)
    given, draws = _count_or_array(a, "choice"), math.prod(shape)
    array = None if isinstance(given, int) else given
    axis = 0 if array is None else axis_of(axis, array.ndim)
    n = given if array is None else array.shape[axis]
    if n <= 0 and draws > 0:
        raise ValueError("random.choice cannot choose from nothing")
    if not replace and draws > n:
        raise ValueError(f"random.choice cannot take {draws} of {n} elements without replacement")
    if p is None and replace:
        index = randint(k, shape, 0, n)
    elif p is None:
        order = _shuffled(k, lax.iota("int32", n), 0) if array is None or array.ndim > 1 else None
        if order is None:
            return lax.reshape(lax.slice_in_dim(_shuffled(k, array, 0), 0, draws), shape)
        index = lax.reshape(lax.slice_in_dim(order, 0, draws), shape)
    else:
        index = _weighted(k, _probabilities(p, n), shape, replace, mode)
    return index if array is None else _take(array, index, axis)


def _probabilities(p: Any, n: int) -> Tensor:
    t = to_tensor(p)
    if t.shape != (n,):
        raise ValueError(f"random.choice of {n} elements needs p of shape ({n},), not {t.shape}")
    return t if t.dtype.kind == "f" else _core.recast(t, _core.inexact_type(t.dtype.name))


def _weighted(k: Tensor, p: Tensor, shape: tuple[int, ...], replace: bool, mode: str) -> Tensor:
    """Indices with probabilities p."""
    n = p.shape[0]
    if not replace:
        order = lax.top_k(gumbel(k, (n,), p.dtype, mode) + lax.log(p), math.prod(shape))[1]
        return lax.reshape(order, shape)
    total = lax.cumsum(p)
    drawn = lax.index_in_dim(total, n - 1, 0, False) * (like(p, 1) - uniform(k, shape, p.dtype))
    return _count_below(total, drawn)


def _count_below(edges: Tensor, x: Tensor) -> Tensor:
    """For each element of x, the first place in ascending edges that is not below it, by bisection."""
    n = edges.shape[0]
    lo = lax.full(x.shape, 0, "int32")
    hi = lax.full(x.shape, n, "int32")
    for _ in range(n.bit_length()):
        middle = lax.shift_right_logical(lo + hi, const(1, "int32"))
        at = _take(edges, lax.min(middle, like(middle, n - 1)), 0)
        right = (at < x) & (lo < hi)
        lo, hi = (
            _core.elementwise("select", right, middle + 1, lo),
            _core.elementwise("select", right, hi, middle),
        )
    return lo


def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Sequence[int] | None = None,
    replace: bool = True,
    mode: str | None = None,
) -> Tensor:
    """Indices with probabilities softmax(logits) along an axis.

    `shape` ends with the logits' shape without that axis; what stands in front are independent draws.
    """
    mode = _bits_mode(mode, "categorical")
    t = to_tensor(logits)
    axis = axis_of(axis, t.ndim)
    batch = tuple(n for d, n in enumerate(t.shape) if d != axis)
    shape = batch if shape is None else _shape(shape)
    lead = len(shape) - len(batch)
    if lead < 0 or lax.broadcast_shapes(shape, batch) != shape:
        raise ValueError(
            f"random.categorical: logits {t.shape} without axis {axis} do not broadcast to shape {shape}"
        )
    prefix = shape[:lead]
    if replace:
        inner = list(shape[lead:])
        inner.insert(axis, t.shape[axis])
        noise = gumbel(key, (*prefix, *inner), t.dtype, mode)
        return lax.argmax(noise + t, axis + lead)
    noise = t + gumbel(key, t.shape, t.dtype, mode)
    draws = math.prod(prefix)
    if draws > t.shape[axis]:
        raise ValueError(f"random.categorical cannot draw {draws} of {t.shape[axis]} without replacement")
    best = lax.top_k(noise, draws, axis=axis)[1]
    order = [axis, *(d for d in range(t.ndim) if d != axis)]
    return lax.reshape(lax.transpose(best, order), (*prefix, *batch))


__all__ = [
    n
    for n, v in list(globals().items())
    if not n.startswith("_") and callable(v) and getattr(v, "__module__", "") == __name__
]
