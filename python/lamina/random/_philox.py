"""The bits of keys of the generator "rbg", uint32[..., 4]: XLA's RngBitGenerator on a CPU, Philox-4x32 with 10 rounds.

Philox: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC11). The first two words of a key are Philox's
key; the counter of 128 bits starts with the last two words of the key below the first two. A block gives four words.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from lamina import _core, lax
from lamina._core import Tensor
from lamina.lax._base import const

_FACTORS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)


def _product(a: Tensor, factor: int) -> tuple[Tensor, Tensor]:
    """High and low words of a product."""
    wide = _core.elementwise("convert", a, dtype="uint64") * const(factor, "uint64")
    high = lax.shift_right_logical(wide, const(32, "uint64"))
    return (
        _core.elementwise("convert", high, dtype="uint32"),
        _core.elementwise("convert", wide, dtype="uint32"),
    )


def _philox(counter: list[Tensor], key: list[Tensor]) -> list[Tensor]:
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = _product(c0, _FACTORS[0])
        high1, low1 = _product(c2, _FACTORS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + const(_STEPS[0], "uint32"), k1 + const(_STEPS[1], "uint32")
    return [c0, c1, c2, c3]


def _start(key: Sequence[Tensor]) -> list[Tensor]:
    """The counter of a key's first block, lowest word first."""
    return [*key[2:], *key[:2]]


def first_words(key: Sequence[Tensor]) -> list[Tensor]:
    """The first two words that every one of many keys gives, which are arrays of four words."""
    return _philox(_start(key), list(key[:2]))[:2]


def _after(words: list[Tensor], low: Tensor, high: Tensor | None) -> list[Tensor]:
    """A counter of four words, lowest first, with a number of blocks (of two words) added."""
    out, carry = [], low
    for w in words:
        total = w + carry
        out.append(total)
        carry = _core.elementwise("convert", total < carry, dtype="uint32")
        if high is not None:
            carry, high = carry + high, None  # the second word of a number of blocks is far from the greatest
    return out


def _numbers(count: int) -> tuple[Tensor, Tensor | None]:
    """0..count-1 as low and high words."""
    if count <= 2**32:
        return _core.op("iota", [], dtype="uint32", shape=[count], iota_dimension=0)[0], None
    wide = _core.op("iota", [], dtype="uint64", shape=[count], iota_dimension=0)[0]
    high = lax.shift_right_logical(wide, const(32, "uint64"))
    return (
        _core.elementwise("convert", wide, dtype="uint32"),
        _core.elementwise("convert", high, dtype="uint32"),
    )


@functools.lru_cache(maxsize=256)
def _region(count: int) -> Any:
    """The region key -> `count` words."""

    def drawn(p: list[Tensor]) -> list[Tensor]:
        key = [lax.reshape(lax.slice(p[0], (i,), (i + 1,)), ()) for i in range(4)]
        blocks = -(-count // 4)
        made = _philox(_after(_start(key), *_numbers(blocks)), key[:2])
        flat = lax.reshape(lax.concatenate([lax.reshape(m, (blocks, 1)) for m in made], 1), (4 * blocks,))
        return [lax.slice(flat, (0,), (count,))]

    return _core.region(drawn, [("uint32", [4], False)])


def words(key: Tensor, shape: tuple[int, ...], each: int) -> Tensor:
    """Random words [*shape, each] of a key."""
    count = math.prod(shape) * each
    (flat,) = _core.op("call", [key], body=_region(count))
    return lax.reshape(flat, (*shape, each))
