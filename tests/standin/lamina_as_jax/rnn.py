"""``jax.experimental.rnn``: recurrent layers whose weights lie in one array, by their published formulas.

The array holds, for every layer and direction, the weights of the input and of the state, then all biases; each is the
matrices of the gates (input, forget, cell, output) on top of each other.
"""

from __future__ import annotations

import math
from typing import Any

import lamina as lm
import numpy as np
from lamina import lax, nn
from lamina import numpy as lnp

from lamina_as_jax import keys
from lamina_as_jax.types64 import wrapped


def _shapes(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> list[tuple[int, ...]]:
    """Of the weights of input and state of every layer, and of as many pairs of biases."""
    directions = 2 if bidirectional else 1
    count, wide = num_layers * directions, 4 * hidden_size
    weights = [
        (wide, n)
        for i in range(count)
        for n in (input_size if i < directions else directions * hidden_size, hidden_size)
    ]
    return weights + [(wide,)] * (2 * count)


def get_num_params_in_lstm(input_size: int, hidden_size: int, num_layers: int, bidirectional: bool) -> int:
    return sum(math.prod(s) for s in _shapes(input_size, hidden_size, num_layers, bidirectional))


def init_lstm_weight(
    rng: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Any:
    n, k = (
        get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional),
        1 / np.sqrt(hidden_size),
    )
    return keys.drawing(lm.random.uniform)(rng, (n,), "float32", -k, k)


def unpack_lstm_weights(
    weights: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> tuple[dict[int, Any], ...]:
    shapes = _shapes(input_size, hidden_size, num_layers, bidirectional)
    ends = np.cumsum([0, *(math.prod(s) for s in shapes)]).tolist()
    parts = [weights[a:b].reshape(s) for a, b, s in zip(ends[:-1], ends[1:], shapes, strict=True)]
    half = len(parts) // 2
    sides = (parts[:half:2], parts[1:half:2], parts[half::2], parts[half + 1 :: 2])
    return tuple(dict(enumerate(side)) for side in sides)


def _turned(x: Any, lengths: Any) -> Any:
    """Each sequence backwards, in the first places that it has."""
    steps = x.shape[0]
    return lm.vmap(lambda s, n: lnp.roll(s, n, axis=0), in_axes=(1, 0), out_axes=1)(x, steps - lengths)[::-1]


def lstm_ref(
    x: Any, h_0: Any, c_0: Any, W_ih: Any, W_hh: Any, b_ih: Any, b_hh: Any, seq_lengths: Any,
    input_size: int, hidden_size: int, num_layers: int, dropout: float, bidirectional: bool,
) -> tuple[Any, Any, Any]:  # fmt: skip
    if seq_lengths.dtype != np.int32:
        raise NotImplementedError(f"seq_lengths are int32, not {seq_lengths.dtype}")
    if dropout:
        raise NotImplementedError("there is no dropout: its mask would be that of another library")
    steps, lanes = x.shape[1], lnp.arange(x.shape[0])
    inside = seq_lengths[None] > lnp.arange(steps, dtype="int32")[:, None]

    def layer(n: int, sequence: Any) -> tuple[Any, Any, Any]:
        def cell(carry: Any, v: Any) -> Any:
            h, c = carry
            i, f, g, o = lnp.split(v @ W_ih[n].T + b_ih[n] + h @ W_hh[n].T + b_hh[n], 4, axis=-1)
            c = nn.sigmoid(f) * c + nn.sigmoid(i) * lnp.tanh(g)
            h = nn.sigmoid(o) * lnp.tanh(c)
            return (h, c), (h, c)

        hs, cs = lax.scan(cell, (h_0[n], c_0[n]), sequence)[1]
        return lnp.where(inside[..., None], hs, 0), hs[seq_lengths - 1, lanes], cs[seq_lengths - 1, lanes]

    sequence, last = lnp.transpose(x, (1, 0, 2)), []
    for n in range(num_layers):
        if not bidirectional:
            sequence, *ends = layer(n, sequence)
            last.append(ends)
            continue
        there, *ends = layer(2 * n, sequence)
        back, *others = layer(2 * n + 1, _turned(sequence, seq_lengths))
        sequence = lnp.concatenate([there, _turned(back, seq_lengths)], -1)
        last += [ends, others]
    h, c = (lnp.stack(side) for side in zip(*last, strict=True))
    return lnp.transpose(sequence, (1, 0, 2)), h, c


def lstm(
    x: Any, h_0: Any, c_0: Any, weights: Any, seq_lengths: Any, input_size: int, hidden_size: int, num_layers: int,
    dropout: float, bidirectional: bool, precision: Any = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    sizes = (input_size, hidden_size, num_layers, bidirectional)
    parts = unpack_lstm_weights(weights, *sizes)
    return lstm_ref(x, h_0, c_0, *parts, seq_lengths, *sizes[:3], dropout, bidirectional)


NAMES: dict[str, Any] = {
    f.__name__: wrapped(f)
    for f in (get_num_params_in_lstm, init_lstm_weight, unpack_lstm_weights, lstm_ref, lstm)
}
NAMES["init_lstm_weight"] = init_lstm_weight
