"""Names that Lamina needs no form of its own for: shapes before a call, hints to compilers, generators by name."""

from __future__ import annotations

import collections
import contextlib
import enum
import functools
import itertools
import logging
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import lamina as lm
import numpy as np
from lamina import lax, random
from lamina import numpy as lnp
from lamina.random import _philox

from lamina_as_jax import adapters, avals, sharding, types64
from lamina_as_jax.jitted import jit

# --- jax.lax ---


class RandomAlgorithm(enum.Enum):
    """A generator of bits."""

    RNG_DEFAULT, RNG_THREE_FRY, RNG_PHILOX = range(3)


def rng_bit_generator(
    key: Any,
    shape: Sequence[int],
    dtype: Any = np.uint32,
    algorithm: Any = RandomAlgorithm.RNG_DEFAULT,
    **where: Any,
) -> Any:
    """(new state, bits) of a state uint32[4] or uint64[2]; on a CPU the generator is Philox unless named."""
    state = types64.wrapped(lnp.asarray)(key)
    if algorithm is RandomAlgorithm.RNG_THREE_FRY or state.dtype != "uint32":
        return types64.wrapped(lax.rng_bit_generator)(state, shape, dtype=dtype)
    if state.shape != (4,):
        raise TypeError(f"a state is uint32[4] or uint64[2], not {state.dtype}{list(state.shape)}")
    kind = types64.canonical(dtype)
    each = 2 if kind.itemsize == 8 else 1
    drawn = _philox.words(state, tuple(shape), each)
    bits = lax.bitcast_convert_type(drawn, kind.name) if each == 2 else lnp.astype(drawn[..., 0], kind.name)
    blocks = -(-math.prod(shape) * each // 4)
    counter = _philox._after([state[2], state[3]], lnp.asarray(blocks, "uint32"), None)
    return lnp.concatenate([state[:2], lnp.stack(counter)]), bits


def pcast(x: Any, axis_name: Any, *, to: str) -> Any:
    """`x`: an array is the same whatever axes it is said to vary over. ValueError for another word than there are."""
    if to not in ("varying", "unreduced", "reduced"):
        raise ValueError(f"pcast is to 'varying', 'unreduced' or 'reduced', not to {to!r}")
    return x


def _shape_of(f: Callable[..., Any], *shapes: Sequence[int]) -> tuple[int, ...]:
    return tuple(lm.eval_shape(f, *(lm.ShapeDtype(tuple(s), "float32") for s in shapes)).shape)


def conv_general_shape_tuple(
    lhs_shape: Any, rhs_shape: Any, window_strides: Any, padding: Any, dimension_numbers: Any
) -> tuple[int, ...]:
    """The shape of a convolution."""
    return _shape_of(
        lambda x, w: lax.conv_general_dilated(
            x, w, window_strides, padding, dimension_numbers=dimension_numbers
        ),
        lhs_shape,
        rhs_shape,
    )


def conv_shape_tuple(
    lhs_shape: Any, rhs_shape: Any, strides: Any, pads: Any, batch_group_count: int = 1
) -> tuple[int, ...]:
    """The shape of a convolution of arrays whose batch and features come first."""
    return _shape_of(
        lambda x, w: lax.conv_general_dilated(x, w, strides, pads, batch_group_count=batch_group_count),
        lhs_shape,
        rhs_shape,
    )


def conv_transpose_shape_tuple(
    lhs_shape: Any, rhs_shape: Any, window_strides: Any, padding: Any, dimension_numbers: Any
) -> tuple[int, ...]:
    """The shape of a transposed convolution."""
    return _shape_of(
        lambda x, w: lax.conv_transpose(x, w, window_strides, padding, dimension_numbers=dimension_numbers),
        lhs_shape,
        rhs_shape,
    )


def conv_general_permutations(dimension_numbers: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The orders that put batch and features (of the kernel: results and features) first."""
    lhs, rhs, out = dimension_numbers
    spatial = [c for c in rhs if c not in "OI"]

    def order(letters: str, first: str) -> tuple[int, ...]:
        return tuple(letters.index(c) for c in (*first, *spatial))

    return order(lhs, "NC"), order(rhs, "OI"), order(out, "NC")


def reduce_window_shape_tuple(
    operand_shape: Any,
    window_dimensions: Any,
    window_strides: Any,
    padding: Any,
    base_dilation: Any = None,
    window_dilation: Any = None,
) -> tuple[int, ...]:
    """The shape of what windows are reduced to."""
    return _shape_of(
        lambda x: lax.reduce_window(
            x,
            0.0,
            lax.add,
            window_dimensions,
            window_strides,
            padding,
            base_dilation=base_dilation,
            window_dilation=window_dilation,
        ),
        operand_shape,
    )


class GatherScatterMode(lax.GatherScatterMode):
    """Lamina's modes and the one that only code by shardings takes."""

    ONE_HOT = "one_hot"

    @classmethod
    def from_any(cls, mode: str | None) -> str:
        if mode not in (None, "fill", "drop", "clip", "promise_in_bounds", "one_hot"):
            raise ValueError(f"Unknown gather mode {mode!r}")
        return cls.FILL_OR_DROP if mode in (None, "drop") else mode


_drawn = itertools.count()


def rng_uniform(a: Any, b: Any, shape: Sequence[int]) -> Any:
    """Numbers of a generator with a state, which are those of one key in a jitted function."""
    low, high = map(types64.to_tensor, (a, b))
    if low.ndim or high.ndim:
        raise ValueError(
            f"Arguments to rng_uniform must be scalars; got shapes {low.shape} and {high.shape}."
        )
    if low.dtype != high.dtype:
        raise ValueError(
            f"Arguments to rng_uniform must have identical dtypes, got {low.dtype.name} and {high.dtype.name}."
        )
    draw = random.randint if low.dtype.kind in "iu" else random.uniform
    return draw(random.key(next(_drawn)), tuple(shape), minval=low, maxval=high, dtype=low.dtype.name)


LAX: dict[str, Any] = {
    "GatherScatterMode": GatherScatterMode,
    "rng_uniform": rng_uniform,
    "DotDimensionNumbers": tuple[tuple[Sequence[int], Sequence[int]], tuple[Sequence[int], Sequence[int]]],
    "RandomAlgorithm": RandomAlgorithm,
    "ConvGeneralDilatedDimensionNumbers": None | str | lax.ConvDimensionNumbers | tuple[str, str, str],
    "PrecisionLike": None | str | lax.Precision | tuple[str, str] | tuple[lax.Precision, lax.Precision],
    "after_all": lambda *tokens: avals.create_token(),
    "broadcast_like": lambda arr, like_arr: types64.wrapped(lnp.broadcast_to)(arr, np.shape(like_arr)),
    "conv_general_permutations": conv_general_permutations,
    "conv_general_shape_tuple": conv_general_shape_tuple,
    "conv_shape_tuple": conv_shape_tuple,
    "conv_transpose_shape_tuple": conv_transpose_shape_tuple,
    "pcast": pcast,
    "with_sharding_constraint": sharding.constrained,
    "reduce_window_shape_tuple": reduce_window_shape_tuple,
    "rng_bit_generator": rng_bit_generator,
    "stage": types64.wrapped(lnp.asarray),
}

# --- jax ---


def fwd_and_bwd(
    fun: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool = False, jitted: bool = True
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The forward pass, (result, what the backward pass needs[, aux]), and the backward pass of that and a cotangent."""
    one = isinstance(argnums, int)
    nums = [argnums] if one else list(argnums)

    def fwd(*args: Any) -> Any:
        def of_chosen(*chosen: Any) -> Any:
            full = list(args)
            for n, x in zip(nums, chosen, strict=True):
                full[n] = x
            return fun(*full)

        out = adapters.vjp(of_chosen, *(args[n] for n in nums), has_aux=has_aux)
        return out

    def bwd(residuals: Any, cotangents: Any) -> Any:
        found = residuals(cotangents)
        return found[0] if one else tuple(found)

    return (jit(fwd), jit(bwd)) if jitted else (fwd, bwd)


class Space(enum.Enum):
    """A kind of memory: there is one."""

    Device, Host, Any = range(3)


JAX: dict[str, Any] = {"fwd_and_bwd": fwd_and_bwd}


def itemsize_bits(dtype: Any) -> int:
    """The bits of an element."""
    name = types64.canonical(dtype).name
    return (
        int(name.removeprefix("u")[3:])
        if name in ("int2", "uint2", "int4", "uint4")
        else 8 * np.dtype(name).itemsize
    )


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The type of an operation on the arguments; with the flag, and whether it yields to others."""
    found = sys.modules["jax.numpy"].result_type(*args)
    if not return_weak_type_flag:
        return found
    return found, all(lm.numpy._dtypes._type_of(x)[1] and not isinstance(x, np.generic) for x in args)


# --- jax.dlpack ---


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of this element type cross DLPack. TypeError for None."""
    if dtype is None:
        raise TypeError("Expected a string or dtype-like object; got dtype=None")
    return np.dtype(dtype).name in _EXCHANGED


_EXCHANGED = {f"{kind}int{bits}" for kind in ("", "u") for bits in (8, 16, 32, 64)} | {
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "bool")
}

# --- jax.debug ---

_logger = logging.getLogger("jax._src.debugging")


def log(fmt: str | None = None, *args: Any, ordered: bool = False, **kwargs: Any) -> Any:
    """`debug.print` to the log."""
    options = {k: kwargs.pop(k) for k in ("partitioned", "skip_format_check") if k in kwargs}
    if fmt is None:
        return functools.partial(log, ordered=ordered, **options)
    return lm.debug._print(not options.get("skip_format_check"), _logger.info, fmt, *args, **kwargs)


# --- modules of hints ---


@contextlib.contextmanager
def _nothing() -> Iterator[None]:
    yield


def set_xla_metadata(x: Any = None, **metadata: Any) -> Any:
    """`x`, or a scope: what compilers are told changes nothing here."""
    return _nothing() if x is None else x


def scheduling_group(name: str | None = None) -> Callable[[Any], Any]:
    """A decorator that changes nothing: what runs when is up to Lamina."""
    return lambda f: f


class ColocatedPython:
    """A function that runs beside the devices that hold its arguments: here, in this process."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fun)
        self._fun = fun

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._fun(*args, **kwargs)

    def specialize(self, **types: Any) -> ColocatedPython:
        """The same for given types of arguments and results, which change nothing here."""
        return self


def _reduced(x: Any) -> Any:
    """How places of arrays are pickled for another process, which there is none of."""
    raise NotImplementedError(f"there is no other process to send {x!r} to")


MODULES: dict[str, dict[str, Any]] = {
    "jax.experimental.colocated_python": {
        "colocated_cpu_devices": lambda devices: devices,
        "colocated_python": ColocatedPython,
        "colocated_python_class": lambda cls: cls,
    },
    "jax.experimental.colocated_python.serialization": {
        "DeviceList": tuple,
        **{n: _reduced for n in ("_reduce_mesh", "_reduce_device_list", "_reduce_single_device_sharding")},
    },
    "jax.extend.ifrt_programs": {"ifrt_programs": None},
    # Asked for by libraries that only use them with several processes.
    **{
        name: {}
        for name in (
            "jax.experimental.array_serialization",
            "jax.experimental.array_serialization.serialization",
            "jax.experimental.colocated_python.func",
            "jax.interpreters.pxla",
        )
    },
    "jax.memory": {"Space": Space},
    "jax.experimental.compute_on": {"compute_on": lambda compute_type: _nothing()},
    "jax.experimental.scheduling_groups": {"scheduling_group": scheduling_group},
    "jax.experimental.shard_alike": {"shard_alike": lambda x, y: (x, y)},
    "jax.experimental.xla_metadata": {"set_xla_metadata": set_xla_metadata},
}
SHARDING: dict[str, Any] = {
    "AbstractDevice": collections.namedtuple("AbstractDevice", "device_kind num_cores"),
    "get_mesh": lambda: (
        sharding._open_meshes[-1] if sharding._open_meshes else sharding.Mesh(np.empty((), object), ())
    ),
}
