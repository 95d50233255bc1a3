"""``jax.example_libraries``: optimizers of containers, and layers as pairs of functions, by their published formulas."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import lamina as lm
from lamina import initializers, lax, nn
from lamina import numpy as lnp

from lamina_as_jax import keys

_random = {n: keys.drawing(getattr(lm.random, n)) for n in ("split", "bernoulli")}
_init = {n: keys.drawing(getattr(initializers, n)()) for n in ("glorot_normal", "normal")}


# --- optimizers ---


class Optimizer(NamedTuple):
    init_fn: Callable[..., Any]
    update_fn: Callable[..., Any]
    params_fn: Callable[..., Any]


class OptimizerState(NamedTuple):
    """One tuple of arrays for each leaf of the parameters."""

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


lm.tree_util.register_pytree_node(
    OptimizerState,
    lambda s: ((s.packed_state,), (s.tree_def, s.subtree_defs)),
    lambda d, x: OptimizerState(x[0], *d),
)


def optimizer(opt_maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    """An optimizer of containers from one of arrays."""

    @functools.wraps(opt_maker)
    def made(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def init_fn(x0: Any) -> OptimizerState:
            leaves, structure = lm.tree_util.tree_flatten(x0)
            states = [lm.tree_util.tree_flatten(init(x)) for x in leaves]
            return OptimizerState([tuple(s) for s, _ in states], structure, tuple(d for _, d in states))

        def of_leaves(state: OptimizerState) -> list[Any]:
            return [d.unflatten(s) for s, d in zip(state.packed_state, state.subtree_defs, strict=True)]

        def update_fn(i: Any, grads: Any, state: OptimizerState) -> OptimizerState:
            given, structure = lm.tree_util.tree_flatten(grads)
            if structure != state.tree_def:
                raise TypeError(
                    f"gradients of the structure {structure} do not belong to parameters of the structure "
                    f"{state.tree_def}"
                )
            new = [update(i, g, s) for g, s in zip(given, of_leaves(state), strict=True)]
            return OptimizerState(
                [tuple(lm.tree_util.tree_leaves(s)) for s in new], state.tree_def, state.subtree_defs
            )

        def params_fn(state: OptimizerState) -> Any:
            return state.tree_def.unflatten([get_params(s) for s in of_leaves(state)])

        return Optimizer(init_fn, update_fn, params_fn)

    return made


def constant(step_size: Any) -> Callable[[Any], Any]:
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Callable[[Any], Any]:
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(
    step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
) -> Callable[[Any], Any]:
    share = (lambda i: lnp.floor(i / decay_steps)) if staircase else (lambda i: i / decay_steps)
    return lambda i: step_size / (1 + decay_rate * share(i))


def polynomial_decay(
    step_size: Any, decay_steps: Any, final_step_size: Any, power: float = 1.0
) -> Callable[[Any], Any]:
    def rate(i: Any) -> Any:
        left = 1 - lnp.minimum(i, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return rate


def piecewise_constant(boundaries: Any, values: Any) -> Callable[[Any], Any]:
    """ValueError for sequences whose lengths do not fit."""
    ends, steps = lnp.array(boundaries), lnp.array(values)
    if not ends.ndim == steps.ndim == 1:
        raise ValueError("piecewise_constant takes two sequences: boundaries and values")
    if ends.shape[0] != steps.shape[0] - 1:
        raise ValueError(
            f"{steps.shape[0]} values have {steps.shape[0] - 1} boundaries between them, not {ends.shape[0]}"
        )
    return lambda i: steps[lnp.sum(lnp.asarray(i) > ends)]


class JoinPoint:
    """The state of one leaf, in its place among the parameters."""

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __iter__(self) -> Any:
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    joins = [
        JoinPoint(d.unflatten(s)) for s, d in zip(opt_state.packed_state, opt_state.subtree_defs, strict=True)
    ]
    return opt_state.tree_def.unflatten(joins)


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    joins, structure = lm.tree_util.tree_flatten(marked_pytree)
    states = [lm.tree_util.tree_flatten(j.subtree) for j in joins]
    return OptimizerState([tuple(s) for s, _ in states], structure, tuple(d for _, d in states))


def make_schedule(given: Any) -> Callable[[Any], Any]:
    """TypeError for what is no function and no number."""
    if callable(given):
        return given
    if lnp.ndim(given) == 0:
        return constant(given)
    raise TypeError(type(given))


@optimizer
def sgd(step_size: Any) -> Any:
    rate = make_schedule(step_size)
    return lambda x: x, lambda i, g, x: x - rate(i) * g, lambda x: x


def _first(state: Any) -> Any:
    return state[0]


@optimizer
def momentum(step_size: Any, mass: float) -> Any:
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, speed = state
        speed = mass * speed + g
        return x - rate(i) * speed, speed

    return lambda x: (x, lnp.zeros_like(x)), update, _first


@optimizer
def nesterov(step_size: Any, mass: float) -> Any:
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, speed = state
        speed = mass * speed + g
        return x - rate(i) * (mass * speed + g), speed

    return lambda x: (x, lnp.zeros_like(x)), update, _first


def _inverse_root(squares: Any) -> Any:
    return lnp.where(squares > 0, 1 / lnp.sqrt(squares), 0.0)


@optimizer
def adagrad(step_size: Any, momentum: float = 0.9) -> Any:
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, mean = state
        squares = squares + lnp.square(g)
        mean = (1 - momentum) * (g * _inverse_root(squares)) + momentum * mean
        return x - rate(i) * mean, squares, mean

    return lambda x: (x, lnp.zeros_like(x), lnp.zeros_like(x)), update, _first


@optimizer
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares = state
        squares = squares * gamma + lnp.square(g) * (1 - gamma)
        return x - rate(i) * g / lnp.sqrt(squares + eps), squares

    return lambda x: (x, lnp.zeros_like(x)), update, _first


@optimizer
def rmsprop_momentum(step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9) -> Any:
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, step = state
        squares = squares * gamma + lnp.square(g) * (1 - gamma)
        step = momentum * step + rate(i) * g / lnp.sqrt(squares + eps)
        return x - step, squares, step

    return lambda x: (x, lnp.zeros_like(x), lnp.zeros_like(x)), update, _first


@optimizer
def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, squares = state
        mean = (1 - b1) * g + b1 * mean
        squares = (1 - b2) * lnp.square(g) + b2 * squares
        fair_mean, fair_squares = (
            v / (1 - lnp.asarray(b, lnp.result_type(g)) ** (i + 1)) for v, b in ((mean, b1), (squares, b2))
        )
        return x - rate(i) * fair_mean / (lnp.sqrt(fair_squares) + eps), mean, squares

    return lambda x: (x, lnp.zeros_like(x), lnp.zeros_like(x)), update, _first


@optimizer
def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    rate = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, most = state
        mean = (1 - b1) * g + b1 * mean
        most = lnp.maximum(b2 * most, lnp.abs(g))
        return (
            x - (rate(i) / (1 - lnp.asarray(b1, lnp.result_type(g)) ** (i + 1))) * mean / (most + eps),
            mean,
            most,
        )

    return lambda x: (x, lnp.zeros_like(x), lnp.zeros_like(x)), update, _first


@optimizer
def sm3(step_size: Any, momentum: float = 0.9) -> Any:
    rate = make_schedule(step_size)

    def along(v: Any, axis: int, ndim: int) -> Any:
        return v.reshape([-1 if n == axis else 1 for n in range(ndim)])

    def update(i: Any, g: Any, state: Any) -> Any:
        given, mean, most = state
        x, mean, g = (lnp.atleast_1d(v) for v in (given, mean, g))
        squares = functools.reduce(
            lnp.minimum, [along(v, n, x.ndim) for n, v in enumerate(most)]
        ) + lnp.square(g)
        mean = (1 - momentum) * (g * _inverse_root(squares)) + momentum * mean
        others = [tuple(m for m in range(x.ndim) if m != n) for n in range(x.ndim)]
        new = (v.reshape(given.shape) for v in (x - rate(i) * mean, mean))
        return *new, [lnp.max(squares, axes) for axes in others]

    def init(x: Any) -> Any:
        x = lnp.asarray(x)
        return x, lnp.zeros_like(x), [lnp.zeros(n, x.dtype) for n in x.shape or (1,)]

    return init, update, _first


def l2_norm(tree: Any) -> Any:
    return lnp.sqrt(sum(lnp.vdot(x, x) for x in lm.tree_util.tree_leaves(tree)))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    norm = l2_norm(grad_tree)
    return lm.tree_util.tree_map(lambda g: lnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


# --- layers: (init_fun(key, input_shape) -> (output_shape, params), apply_fun(params, inputs, **options)) ---


def Dense(out_dim: int, W_init: Any = _init["glorot_normal"], b_init: Any = _init["normal"]) -> Any:
    def init(rng: Any, input_shape: Any) -> Any:
        first, second = _random["split"](rng)
        return (*input_shape[:-1], out_dim), (
            W_init(first, (input_shape[-1], out_dim)),
            b_init(second, (out_dim,)),
        )

    return init, lambda params, inputs, **options: lnp.dot(inputs, params[0]) + params[1]


_SMALL = keys.drawing(initializers.normal(1e-6))


def _convolution(convolve: Callable[..., Any]) -> Callable[..., Any]:
    """A maker of layers that convolve and add a number to each channel."""

    def layer(
        dimension_numbers: Any, out_chan: int, filter_shape: Any, strides: Any = None, padding: Any = "VALID",
        W_init: Any = None, b_init: Any = _SMALL,
    ) -> Any:  # fmt: skip
        lhs, rhs, out = dimension_numbers
        steps = strides or (1,) * len(filter_shape)
        make = W_init or keys.drawing(initializers.glorot_normal(rhs.index("I"), rhs.index("O")))

        def convolved(inputs: Any, kernel: Any) -> Any:
            return convolve(inputs, kernel, steps, padding, dimension_numbers=dimension_numbers)

        def init(rng: Any, input_shape: Any) -> Any:
            sizes = iter(filter_shape)
            channels = {"O": out_chan, "I": input_shape[lhs.index("C")]}
            kernel = tuple(channels[c] if c in channels else next(sizes) for c in rhs)
            first, second = _random["split"](rng)
            params = make(first, kernel), b_init(second, tuple(out_chan if c == "C" else 1 for c in out))
            given = [lm.ShapeDtype([max(n, 1) for n in s], "float32") for s in (input_shape, kernel)]
            shape = lm.eval_shape(convolved, *given).shape
            batch = input_shape[lhs.index("N")]
            return tuple(batch if c == "N" else n for c, n in zip(out, shape, strict=True)), params

        return init, lambda params, inputs, **options: convolved(inputs, params[0]) + params[1]

    return layer


GeneralConv = _convolution(lax.conv_general_dilated)
Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))
GeneralConvTranspose = _convolution(lax.conv_transpose)
Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


def BatchNorm(
    axis: Any = (0, 1, 2), epsilon: float = 1e-5, center: bool = True, scale: bool = True,
    beta_init: Any = initializers.zeros, gamma_init: Any = initializers.ones,
) -> Any:  # fmt: skip
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init(rng: Any, input_shape: Any) -> Any:
        shape = tuple(d for i, d in enumerate(input_shape) if i not in axes)
        first, second = _random["split"](rng)
        return input_shape, (
            keys.drawing(beta_init)(first, shape) if center else (),
            keys.drawing(gamma_init)(second, shape) if scale else (),
        )

    def apply(params: Any, x: Any, **options: Any) -> Any:
        beta, gamma = params
        place = tuple(None if i in axes else slice(None) for i in range(x.ndim))
        z = nn.standardize(x, axes, epsilon=epsilon)
        z = gamma[place] * z if scale else z
        return z + beta[place] if center else z

    return init, apply


def elementwise(fun: Callable[..., Any], **options: Any) -> Any:
    """A layer without parameters."""
    return (lambda rng, input_shape: (input_shape, ())), (
        lambda params, inputs, **more: fun(inputs, **options)
    )


def _pooling(reduce: Callable[..., Any], start: float, scaled: bool = False) -> Callable[..., Any]:
    def layer(window_shape: Any, strides: Any = None, padding: str = "VALID", spec: str = "NHWC") -> Any:
        sizes, steps = iter(window_shape), iter(strides or (1,) * len(window_shape))
        window = tuple(1 if c in "NC" else next(sizes) for c in spec)
        step = tuple(1 if c in "NC" else next(steps) for c in spec)

        def pooled(x: Any) -> Any:
            return lax.reduce_window(x, start, reduce, window, step, padding)

        def apply(params: Any, inputs: Any, **options: Any) -> Any:
            return pooled(inputs) / pooled(lnp.ones_like(inputs)) if scaled else pooled(inputs)

        def init(rng: Any, input_shape: Any) -> Any:
            like = lm.ShapeDtype([max(n, 1) for n in input_shape], "float32")
            shape = lm.eval_shape(pooled, like).shape
            return tuple(a if a < 1 else b for a, b in zip(input_shape, shape, strict=True)), ()

        return init, apply

    return layer


def Dropout(rate: float, mode: str = "train") -> Any:
    def apply(params: Any, inputs: Any, **options: Any) -> Any:
        rng = options.get("rng")
        if rng is None:
            raise ValueError("Dropout draws its mask: give apply_fun a key as rng")
        if mode != "train":
            return inputs
        return lnp.where(_random["bernoulli"](rng, rate, inputs.shape), inputs / rate, 0)

    return (lambda rng, input_shape: (input_shape, ())), apply


def FanOut(num: int) -> Any:
    return (lambda rng, input_shape: ([input_shape] * num, ())), (
        lambda params, inputs, **options: [inputs] * num
    )


def FanInConcat(axis: int = -1) -> Any:
    def init(rng: Any, input_shape: Any) -> Any:
        shape = list(input_shape[0])
        shape[axis] = sum(s[axis] for s in input_shape)
        return tuple(shape), ()

    return init, lambda params, inputs, **options: lnp.concatenate(inputs, axis)


def serial(*layers: Any) -> Any:
    """One layer after another."""

    def init(rng: Any, input_shape: Any) -> Any:
        params = []
        for make, _ in layers:
            rng, own = _random["split"](rng)
            input_shape, made = make(own, input_shape)
            params.append(made)
        return input_shape, params

    def apply(params: Any, inputs: Any, **options: Any) -> Any:
        rng = options.pop("rng", None)
        rngs = _random["split"](rng, len(layers)) if rng is not None else [None] * len(layers)
        for (_, run), own, key in zip(layers, params, rngs, strict=True):
            inputs = run(own, inputs, rng=key, **options)
        return inputs

    return init, apply


def parallel(*layers: Any) -> Any:
    """Layers side by side, each of its own input."""

    def init(rng: Any, input_shape: Sequence[Any]) -> Any:
        rngs = _random["split"](rng, len(layers))
        made = [make(key, shape) for (make, _), key, shape in zip(layers, rngs, input_shape, strict=True)]
        return tuple(s for s, _ in made), tuple(p for _, p in made)

    def apply(params: Any, inputs: Any, **options: Any) -> Any:
        rng = options.pop("rng", None)
        rngs = _random["split"](rng, len(layers)) if rng is not None else [None] * len(layers)
        each = zip(layers, params, inputs, rngs, strict=True)
        return [run(own, x, rng=key, **options) for (_, run), own, x, key in each]

    return init, apply


def shape_dependent(make_layer: Callable[..., Any]) -> Any:
    """The layer that `make_layer` makes of the shape of its input."""
    return (
        lambda rng, input_shape: make_layer(input_shape)[0](rng, input_shape),
        lambda params, inputs, **options: make_layer(inputs.shape)[1](params, inputs, **options),
    )


_OPTIMIZERS = (
    "Optimizer", "OptimizerState", "optimizer", "constant", "exponential_decay", "inverse_time_decay",
    "make_schedule", "sgd", "momentum", "nesterov", "adagrad", "rmsprop", "rmsprop_momentum", "adam", "adamax",
    "sm3", "l2_norm", "clip_grads", "polynomial_decay", "piecewise_constant", "JoinPoint",
    "unpack_optimizer_state", "pack_optimizer_state",
)  # fmt: skip
_LAYERS = (
    "Dense", "GeneralConv", "Conv", "GeneralConvTranspose", "Conv1DTranspose", "ConvTranspose",
    "BatchNorm", "elementwise", "Dropout", "FanOut", "FanInConcat", "serial", "parallel",
    "shape_dependent",
)  # fmt: skip
OPTIMIZERS: dict[str, Any] = {n: globals()[n] for n in _OPTIMIZERS}
STAX: dict[str, Any] = {n: globals()[n] for n in _LAYERS}
STAX.update(
    Tanh=elementwise(lnp.tanh),
    Relu=elementwise(nn.relu),
    Exp=elementwise(lnp.exp),
    LogSoftmax=elementwise(nn.log_softmax, axis=-1),
    Softmax=elementwise(nn.softmax, axis=-1),
    Softplus=elementwise(nn.softplus),
    Sigmoid=elementwise(nn.sigmoid),
    Elu=elementwise(nn.elu),
    LeakyRelu=elementwise(nn.leaky_relu),
    Selu=elementwise(nn.selu),
    Gelu=elementwise(nn.gelu),
    Identity=elementwise(lambda x: x),
    Flatten=(
        lambda rng, shape: ((shape[0], functools.reduce(lambda a, b: a * b, shape[1:], 1)), ()),
        lambda params, inputs, **options: inputs.reshape(inputs.shape[0], -1),
    ),
    FanInSum=(lambda rng, shapes: (shapes[0], ()), lambda params, inputs, **options: sum(inputs)),
    MaxPool=_pooling(lax.max, -float("inf")),
    SumPool=_pooling(lax.add, 0.0),
    AvgPool=_pooling(lax.add, 0.0, scaled=True),
    glorot=initializers.glorot_normal,
    glorot_normal=initializers.glorot_normal,
    randn=initializers.normal,
    ones=initializers.ones,
    zeros=initializers.zeros,
    normal=initializers.normal,
    logsoftmax=nn.log_softmax,
    **{
        n: getattr(nn, n)
        for n in (
            "elu",
            "gelu",
            "leaky_relu",
            "log_softmax",
            "relu",
            "selu",
            "sigmoid",
            "softmax",
            "softplus",
        )
    },
    standardize=nn.standardize,
)
