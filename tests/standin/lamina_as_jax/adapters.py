"""What has another form in Lamina than in JAX: transforms that return functions, integer gradients, errors, types."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import lamina as lm
import ml_dtypes
import numpy as np
from lamina import _core, dtypes
from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina.custom_derivatives import SymbolicZero
from lamina.experimental import jet
from lamina.tree import tree_children

from lamina_as_jax import messages, pullbacks, scalars, sharding, strictness, types64
from lamina_as_jax.avals import FLOAT0, Float0, ShapedArray
from lamina_as_jax.keys import (
    KeyArray,
    KeyDtype,
    array_of_keys,
    drawing,
    drawn_by,
    extended,
    numpy_names,
    prng_key,
)
from lamina_as_jax.types64 import wrapped

lm.tree_util.register_pytree_node(Float0, lambda x: ((), x.shape), lambda shape, _: Float0(shape))


def float0_like(x: Any) -> np.ndarray:
    return Float0(x.shape if hasattr(x, "shape") else np.shape(x))


_zeros = numpy_names()["zeros"]


def zeros(shape: Any, dtype: Any = None, **options: Any) -> Any:
    return np.zeros(shape, FLOAT0) if dtype == FLOAT0 else _zeros(shape, dtype=dtype, **options)


def _filled(derivative: Any, argument: Any) -> Any:
    """JAX's zeros without a type in the place of None, which stands here for the derivative by integers."""
    leaves, treedef = lm.tree.tree_flatten(argument)
    if all(
        getattr(x, "dtype", np.asarray(0.0).dtype).kind in "fc" for x in leaves if hasattr(x, "dtype")
    ) and not any(isinstance(x, (bool, int)) for x in leaves):
        return derivative
    parts = lm.tree_util.tree_structure(derivative, is_leaf=lambda d: d is None)
    if parts.num_leaves != len(leaves):
        return derivative
    given = lm.tree_util.tree_leaves(derivative, is_leaf=lambda d: d is None)
    return treedef.unflatten([float0_like(x) if d is None else d for d, x in zip(given, leaves, strict=True)])


def without_float0(x: Any, zeros: Any = lambda t: np.zeros(t.shape, np.int32)) -> Any:
    """Tangents and cotangents: zeros of the integer type in the place of float0."""

    def leaf(t: Any) -> Any:
        return zeros(t) if getattr(t, "dtype", None) == FLOAT0 else t

    return lm.tree_util.tree_map(leaf, x, is_leaf=lambda t: isinstance(t, Float0))


def making(transform: Callable[..., Any]) -> Callable[..., Any]:
    """A transform whose result is a function (without a function: a decorator)."""

    @messages.telling
    @functools.wraps(transform)
    def make(fun: Any = None, *args: Any, **kwargs: Any) -> Any:
        if fun is None:
            return lambda f: make(f, *args, **kwargs)
        return _documented(transform, fun, wrapped(transform(fun, *args, **kwargs)))

    return make


_DOCUMENTED = {"vmap": "Vectorized version of {}. Takes arguments with an axis more over which it is mapped."}


def _documented(transform: Callable[..., Any], fun: Any, made: Any) -> Any:
    text, doc = _DOCUMENTED.get(transform.__name__), getattr(fun, "__doc__", None)
    if text is not None and doc:
        name = getattr(fun, "__name__", type(fun).__name__)
        made.__doc__ = f"{text.format(name)}\n\nOriginal documentation:\n\n{doc}"
    made.__wrapped__ = fun
    return made


def factory(f: Callable[..., Any]) -> Callable[..., Any]:
    """An initializer, or a function that makes one."""

    @functools.wraps(f)
    def make(*args: Any, **kwargs: Any) -> Any:
        if (args and isinstance(args[0], KeyArray)) or "key" in kwargs:
            return drawing(f)(*args, **kwargs)
        out = wrapped(f)(*args, **kwargs)
        return drawing(out) if callable(out) else out

    return make


def grad(fun: Any, argnums: Any = 0, *args: Any, **kwargs: Any) -> Any:
    return _differentiating(
        lm.grad,
        fun,
        argnums,
        args,
        kwargs,
        lambda out, fill, aux: (fill(out[0]), out[1]) if aux else fill(out),
    )


def value_and_grad(fun: Any, argnums: Any = 0, *args: Any, **kwargs: Any) -> Any:
    return _differentiating(
        lm.value_and_grad, fun, argnums, args, kwargs, lambda out, fill, aux: (out[0], fill(out[1]))
    )


def _differentiating(
    transform: Callable[..., Any], fun: Any, argnums: Any, args: Any, kwargs: Any, place: Callable[..., Any]
) -> Any:
    inner = wrapped(transform(fun, argnums, *args, **kwargs))
    inner.__wrapped__ = fun
    if not (kwargs.get("allow_int") or len(args) > 2):
        return inner
    has_aux = kwargs.get("has_aux", bool(args and args[0]))

    @functools.wraps(inner)
    def call(*arrays: Any, **named: Any) -> Any:
        def fill(g: Any) -> Any:
            if isinstance(argnums, int):
                return _filled(g, arrays[argnums])
            return tuple(_filled(d, arrays[n]) for d, n in zip(g, argnums, strict=True))

        return place(inner(*arrays, **named), fill, has_aux)

    return call


class _Described:
    """Shapes and element types of a container: equal for equal ones, as metadata is."""

    def __init__(self, tree: Any) -> None:
        leaves, self.treedef = lm.tree.tree_flatten(tree)
        self.leaves = tuple(lm.ShapeDtype.like(x) for x in leaves)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and (self.leaves, self.treedef) == (other.leaves, other.treedef)

    def __hash__(self) -> int:
        return hash((self.leaves, self.treedef))

    @property
    def tree(self) -> Any:
        return self.treedef.unflatten(self.leaves)


def _types(linear: Any) -> Any:
    """Shapes and element types of what a linear function takes."""
    return linear.types


class _PulledBack(_Described):
    """Cotangents of primals of these types."""

    def __call__(self, inner: Any, *cotangents: Any) -> Any:
        if len(cotangents) == 1 and strictness.misfits(cotangents[0], _types(inner)):
            raise ValueError("unexpected JAX type: a cotangent is of another type than the result")
        found = types64.result(types64.called(inner, types64.argument(without_float0(cotangents)), {}))
        return tuple(_filled(d, p) for d, p in zip(found, self.tree, strict=True))


class _PushedForward(_Described):
    """Tangents of results of these types."""

    def __init__(self, tree: Any, linear: Any) -> None:
        super().__init__(tree)
        self._linear = linear

    @property
    def args(self) -> tuple[Any, ...]:
        """The recorded program, which JAX keeps here."""
        like = self._linear.given_tree.unflatten([lm.ShapeDtype(*t) for t in self._linear.types])
        return (lm.make_trace(self._linear)(*like),)

    @messages.telling
    def __call__(self, inner: Any, *tangents: Any) -> Any:
        if strictness.misfits(tangents, _types(inner), integers=True):
            raise ValueError(
                "linearized function called on tangent values inconsistent with the original primal values: their types "
                "differ"
            )
        return _pushed(
            self.tree, types64.result(types64.called(inner, types64.argument(without_float0(tangents)), {}))
        )


def vjp(fun: Any, *primals: Any, has_aux: bool = False, **options: Any) -> Any:
    given = pullbacks.as_arrays(types64.argument(primals))
    out = wrapped(lm.vjp)(fun, *given, has_aux=has_aux, **options)
    return (out[0], pullbacks.VJP(_PulledBack(primals), out[1], given), *out[2:])


class _Turned:
    """Cotangents to cotangents, with JAX's types at the boundary."""

    @messages.telling
    def __call__(self, inner: Any, cotangent: Any) -> Any:
        if lm.tree.tree_flatten(cotangent)[1] == inner.given_tree and strictness.misfits(
            cotangent, _types(inner)
        ):
            raise TypeError("the cotangent type does not match that of the result")
        return types64.result(inner(types64.argument(cotangent)))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


def linear_transpose(fun: Any, *primals: Any, reduce_axes: Any = ()) -> Any:
    if reduce_axes:
        raise NotImplementedError("linear_transpose does not take reduce_axes any more")
    given = [types64.argument(p) for p in primals]
    try:
        turned = lm.linear_transpose(fun, *given)
    except TypeError as e:
        found = re.search(r": (\w+) of its argument is not linear", str(e))
        if found is None:
            raise
        phrase = f"Transpose rule (for reverse-mode differentiation) for '{found[1]}' not implemented"
        raise NotImplementedError(f"{phrase}\n{e}") from e
    return lm.tree_util.Partial(_Turned(), turned)


def _pushed(value: Any, derivative: Any) -> Any:
    """Tangents of results: `float0` for those of integers."""
    # Not by NumPy's kinds, of which bfloat16 has none.
    leaf = lambda x, t: t if lm.numpy.issubdtype(x.dtype, np.inexact) else float0_like(x)  # noqa: E731
    return lm.tree.map(leaf, value, derivative)


def jvp(fun: Any, primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    strictness.check_tangents(primals, tangents)
    out = wrapped(lm.jvp)(fun, primals, without_float0(tangents), has_aux=has_aux)
    return (out[0], _pushed(out[0], out[1]), *out[2:])


def linearize(fun: Any, *primals: Any, **options: Any) -> Any:
    out = wrapped(lm.linearize)(fun, *primals, **options)
    return (out[0], lm.tree_util.Partial(_PushedForward(out[0], out[1]), out[1]), *out[2:])


def _calling_back(f: Callable[..., Any]) -> Callable[..., Any]:
    """pure_callback or io_callback. ValueError for results of a type that there is not without jax_enable_x64.

    Under vmap those refuse that name no method, or are ordered.
    """

    @functools.wraps(f)
    def call(callback: Any, result_shape_dtypes: Any, *args: Any, **kwargs: Any) -> Any:
        for x in lm.tree.tree_leaves(result_shape_dtypes):
            if not hasattr(x, "__array__") and types64.canonical(x.dtype) != x.dtype:
                raise ValueError(f"a callback gives no {x.dtype} unless jax_enable_x64 is set")
        unnamed = kwargs.get("vmap_method") is None and not kwargs.get("vectorized")
        refused = kwargs.get("ordered") if f is lm.io_callback else unnamed
        if refused and not sharding.on_each_device():
            kwargs["vmap_method"] = "refuse"
        return wrapped(f)(_failing_as_jax(callback, f.__name__), result_shape_dtypes, *args, **kwargs)

    return call


def _failing_as_jax(callback: Any, name: str) -> Any:
    """A callback whose errors are logged, and of JAX's one class for them."""

    @functools.wraps(callback, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return callback(*args, **kwargs)
        except Exception as e:
            logging.getLogger("jax").error("jax.%s failed", name, exc_info=True)
            if isinstance(e, (RuntimeError, FloatingPointError)):
                raise
            raise RuntimeError(f"{type(e).__name__}: {e}") from e

    return call


pure_callback, io_callback = _calling_back(lm.pure_callback), _calling_back(lm.io_callback)


def make_jaxpr(fun: Any, static_argnums: Any = (), axis_env: Any = None, return_shape: bool = False) -> Any:
    traced = wrapped(lm.make_trace(fun, static_argnums, return_shape))
    for name in ("__name__", "__qualname__"):
        setattr(traced, name, getattr(traced, name).replace("make_trace", "make_jaxpr"))
    traced.__module__ = "jax"
    if not return_shape:
        return traced

    @functools.wraps(traced)
    def with_shapes(*args: Any, **kwargs: Any) -> Any:
        trace, types = traced(*args, **kwargs)
        described = lambda t: lm.ShapeDtypeStruct(t.shape, t.dtype, weak_type=t.weak_type)  # noqa: E731
        return trace, lm.tree.map(described, types)

    return with_shapes


def eval_jaxpr(jaxpr: Any, consts: Any, *args: Any) -> list[Any]:
    return types64.result(jaxpr.evaluate(consts, *map(types64.argument, args)))


@functools.wraps(lm.checkpoint)
def checkpoint(fun: Any, *, static_argnums: Any = (), **options: Any) -> Any:
    """Outside of transforms traced once for each signature, as jitted functions are: branches on values are errors."""
    kept = lm.checkpoint(fun, static_argnums=static_argnums, **options)
    numbers = static_argnums if isinstance(static_argnums, int) else tuple(static_argnums) or None
    jitted = lm.jit(kept, static_argnums=numbers, branches="error")

    @functools.wraps(kept)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (kept if _core.any_open_scope() else jitted)(*args, **kwargs)

    return call


@messages.telling
def closure_convert(fun: Any, *example_args: Any) -> tuple[Any, list[Tensor]]:
    converted, arrays = lm.closure_convert(fun, *example_args)
    return messages.telling(converted), arrays


class custom_jvp(lm.custom_jvp):
    def defjvp(self, jvp: Any, symbolic_zeros: bool = False) -> Any:
        super().defjvp(types64.in_a_rule(jvp), symbolic_zeros)
        return jvp

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return wrapped(super().__call__)(*args, **kwargs)


class _Residuals:
    """What a forward rule keeps, and the shapes of those of its results that are integers; None for others."""

    def __init__(self, kept: Any, integers: tuple[Any, ...]) -> None:
        self.kept, self.integers = kept, integers


lm.tree_util.register_pytree_node(
    _Residuals, lambda r: ((r.kept,), r.integers), lambda integers, kept: _Residuals(*kept, integers)
)


def _shape_of_integers(x: Any) -> tuple[int, ...] | None:
    if x is None or lm.numpy.issubdtype(getattr(x, "dtype", type(x)), np.inexact):
        return None
    return np.shape(x)


def _telling_integers(fwd: Any) -> Any:
    """A forward rule that tells the backward rule which results are integers."""

    @functools.wraps(fwd)
    def call(*args: Any, **kwargs: Any) -> Any:
        returned = fwd(*args, **kwargs)
        if type(returned) is not tuple or len(returned) != 2:
            return returned
        integers = tuple(
            map(_shape_of_integers, lm.tree.tree_leaves(returned[0], is_leaf=lambda x: x is None))
        )
        return returned if set(integers) <= {None} else (returned[0], _Residuals(returned[1], integers))

    return call


def _given_float0(bwd: Any) -> Any:
    """A backward rule with `float0` for the cotangents of integers."""

    @functools.wraps(bwd)
    def call(*args: Any) -> Any:
        *fixed, kept, cotangents = args
        if isinstance(kept, _Residuals):
            leaves, treedef = lm.tree.tree_flatten(cotangents, is_leaf=lambda c: c is None)
            whole = [c if n is None else Float0(n) for c, n in zip(leaves, kept.integers, strict=True)]
            kept, cotangents = kept.kept, treedef.unflatten(whole)
        return without_float0(bwd(*fixed, kept, cotangents), lambda t: None)

    return call


class custom_vjp(lm.custom_vjp):
    def defvjp(self, fwd: Any, bwd: Any, symbolic_zeros: bool = False, **options: Any) -> None:
        if not symbolic_zeros:
            fwd, bwd = _telling_integers(fwd), _given_float0(bwd)
        super().defvjp(types64.in_a_rule(fwd), types64.in_a_rule(bwd), symbolic_zeros, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return wrapped(super().__call__)(*args, **kwargs)


class custom_vmap(lm.custom_batching.custom_vmap):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        out = wrapped(super().__call__)(*args, **kwargs)
        number = (bool, int, float, complex)  # of which JAX makes arrays
        return lm.tree.map(lambda x: to_tensor(x) if type(x) in number else x, out)


def _shown(x: Any) -> str:
    weak = ", weak_type=True" if x.weak_type else ""
    return f"ShapeDtypeStruct(shape={x.shape}, dtype={np.dtype(x.dtype.name).name}{weak})"


def shown_types() -> None:
    """As JAX writes them."""
    lm.ShapeDtype.__repr__ = _shown


def symbolic_zeros() -> None:
    """JAX makes them of a type."""
    make = SymbolicZero.__init__

    def init(self: Any, aval: Any, *dtype: Any) -> None:
        make(self, *((aval, *dtype) if dtype else (aval.shape, aval.dtype)))

    SymbolicZero.__init__ = init
    SymbolicZero.aval = property(lambda self: ShapedArray(self.shape, self.dtype))


def minimize(*args: Any, method: str, **kwargs: Any) -> Any:
    name = "l-bfgs-experimental-do-not-rely-on-this"
    return wrapped(lm.scipy.optimize.minimize)(*args, method="L-BFGS" if method == name else method, **kwargs)


def fori_loop(lower: Any, upper: Any, *args: Any, **kwargs: Any) -> Any:
    """TypeError for bounds of two types, ValueError for steps in one where their number is not known."""
    types = [np.dtype(getattr(x.dtype, "name", x.dtype)) for x in (lower, upper) if hasattr(x, "dtype")]
    weak = any(getattr(x, "weak_type", False) for x in (lower, upper))
    if len(types) == 2 and types[0] != types[1] and not weak:
        raise TypeError(
            f"lower and upper arguments to fori_loop must have equal types, got {types[0].name} and {types[1].name}"
        )
    unroll = kwargs.get("unroll", args[2] if len(args) > 2 else None)
    if unroll not in (None, False, 1) and not all(_is_known(x) for x in (lower, upper)):
        raise ValueError("Can only use `unroll` in `fori_loop` if the loop bounds are statically known.")
    return wrapped(lm.lax.fori_loop)(lower, upper, *args, **kwargs)


def _is_known(x: Any) -> bool:
    """Whether it is a number, or an array whose value is known."""
    return type(x) is not Tensor or _core.forceable(x)


class RegularGridInterpolator(lm.scipy.interpolate.RegularGridInterpolator):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*map(types64.argument, args), **{k: types64.argument(v) for k, v in kwargs.items()})

    def __call__(self, xi: Any, *args: Any, **kwargs: Any) -> Any:
        """One point of several dimensions gives one value, [1, ...], where Lamina's has no such dimension."""
        one = not isinstance(xi, tuple) and len(self.grid) > 1 and lm.numpy.ndim(xi) == 1
        return wrapped(super().__call__)(lm.numpy.asarray(xi)[None] if one else xi, *args, **kwargs)


def register_containers() -> None:
    """Lamina's own dataclasses, which stay containers."""
    turns = lm.scipy.spatial.transform
    for cls in (RegularGridInterpolator, lm.scipy.stats.gaussian_kde, turns.Rotation, turns.Slerp):
        fields = dataclasses.fields(cls)
        static = [f.name for f in fields if f.metadata.get("static")]
        arrays = [f.name for f in fields if f.name not in static]

        def parts(x: Any, arrays: Any = arrays, static: Any = static) -> Any:
            return [getattr(x, n) for n in arrays], tuple(getattr(x, n) for n in static)

        def made(meta: Any, children: Any, cls: Any = cls, names: Any = (*arrays, *static)) -> Any:
            x = object.__new__(cls)
            for n, v in zip(names, (*children, *meta), strict=True):
                object.__setattr__(x, n, v)
            return x

        lm.tree_util.register_pytree_node(cls, parts, made)
    lm.scipy.stats.gaussian_kde.resample = drawn_by(lm.scipy.stats.gaussian_kde.resample, 1)
    turns.Rotation.random = staticmethod(drawn_by(turns.Rotation.random, 0))


class _Traced(type):
    def __instancecheck__(cls, x: object) -> bool:
        x = x._words if isinstance(x, KeyArray) else x
        return isinstance(x, Tensor) and (
            not _core.forceable(x) or _core.differentiated(x) or _core.made_in_ended(x)
        )


class Tracer(metaclass=_Traced):
    """Arrays whose value is not known, that a derivative is open of, or that a trace has left behind."""


def _of_two_bits(x: Any) -> Any:
    """The type that integers of one bit are like, and any other as it is."""
    name = x if isinstance(x, str) else getattr(getattr(x, "dtype", x), "name", getattr(x, "__name__", ""))
    return np.dtype(name.replace("1", "2")) if name in scalars.ONE_BIT else x


def issubdtype(a: Any, b: Any) -> bool:
    """As NumPy's; the types that NumPy lacks are of their kinds."""
    if isinstance(a, KeyDtype):
        return b in (prng_key, extended, np.generic) or a == b
    try:
        a, b = map(_of_two_bits, (a, b))
        mine = a if isinstance(a, type) and issubclass(a, np.generic) else np.dtype(a)
        kind = b if isinstance(b, type) and issubclass(b, np.generic) else getattr(b, "dtype", b)
        foreign = isinstance(mine, np.dtype) and mine.name in dtypes.TABLE and dtypes.is_foreign(mine)
        if foreign and isinstance(kind, type) and mine.type is not kind:
            return bool(lm.numpy.issubdtype(mine, kind))
        return bool(np.issubdtype(mine, kind))
    except TypeError:
        return False


def making_arrays(f: Callable[..., Any]) -> Callable[..., Any]:
    """asarray, device_put: of a number, an array of the default type unless told."""

    @functools.wraps(f)
    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        x = array_of_keys(x)
        if isinstance(x, KeyArray):
            return x
        if not (args or kwargs.get("dtype")):
            types64.checked_numbers(x)
        return wrapped(f)(x, *args, **kwargs)

    return call


def putting(x: Any, device: Any = None, src: Any = None, **options: Any) -> Any:
    """device_put: where an array is to lie is no argument of an array's type."""
    if isinstance(x, KeyArray):
        return x
    lm.tree.map(types64.checked_number, x)
    return wrapped(functools.partial(device_put, device=device, **options))(x)


def finfo(dtype: Any) -> Any:
    """As NumPy's, whose numbers have the type."""
    kept = dtype if isinstance(dtype, type) else getattr(dtype, "dtype", dtype)
    return ml_dtypes.finfo(types64.canonical(kept))


def einsum(*operands: Any, _dot_general: Any = None, **options: Any) -> Any:
    """NotImplementedError with a product of the user's own."""
    if _dot_general is not None and inspect.unwrap(_dot_general) is not inspect.unwrap(lm.lax.dot_general):
        raise NotImplementedError("einsum computes its products itself: it takes no function for them")
    return wrapped(lm.numpy.einsum)(*operands, **options)


def einsum_path(*args: Any, **options: Any) -> tuple[list[tuple[int, ...]], str]:
    """The products alone, without the name that NumPy writes before them."""
    path, table = wrapped(lm.numpy.einsum_path)(*args, **options)
    return path[1:], table


def istft(*args: Any, **kwargs: Any) -> Any:
    """With as many times as the first dimension of the result has, as in JAX."""
    times, x = wrapped(lm.scipy.signal.istft)(*args, **kwargs)
    step = times[1] if times.size > 1 else 1.0
    return step * lm.numpy.arange(x.shape[0], dtype=times.dtype), x


def index_take(src: Any, idxs: Any, axes: Any) -> Any:
    """Elements at indices along axes, which go first; those out of range are the first or last."""
    moved = lm.numpy.moveaxis(src, axes, range(len(axes)))
    within = tuple(lm.numpy.clip(i, 0, n - 1) for i, n in zip(idxs, moved.shape))
    return wrapped(lm.numpy.asarray)(moved[within])


def _misfits(prefix: Any, x: Any, path: str) -> Iterator[str]:
    """Where a container of places is none for a value."""
    mine, its = tree_children(prefix), tree_children(x)
    if prefix is None or mine is None:
        return
    if type(prefix) is not type(x) or len(mine[0]) != len(its[0]):
        yield f"  at {path or 'the top'}: different types or lengths, {type(prefix).__name__} and {type(x).__name__}"
        return
    keys = x if isinstance(x, dict) else range(len(mine[0]))
    for key, a, b in zip(keys, mine[0], its[0], strict=True):
        yield from _misfits(a, b, f"{path}[{key!r}]")


def device_put(x: Any, device: Any = None, **options: Any) -> Any:
    """All shardings are of the one device. ValueError for what is none."""
    for place in lm.tree.tree_leaves(device):
        if isinstance(place, (str, int, float)):
            raise ValueError(f"Received invalid value: {place!r} is no device and no sharding")
    found = list(_misfits(device, x, ""))
    if found:
        raise ValueError(
            "device_put device specification must be a tree prefix of the corresponding value; Mismatch details "
            f"({len(found)} found):\n" + "\n".join(found)
        )
    if options.get("may_alias") and options.get("donate"):
        raise ValueError("may_alias and donate cannot be True at the same time.")
    if options.get("may_alias") is False:
        return lm.numpy.copy(x)
    if isinstance(device, sharding.Sharding) and not _core.any_open_scope():
        return lm.tree.map(lambda leaf: sharding.put(lm.numpy.asarray(leaf), device), x)
    return x if type(x) is Tensor and not options.get("donate") else lm.device_put(x)


def copy_to_host_async(x: Any) -> Any:
    """There is one memory."""
    for leaf in lm.tree.tree_leaves(x):
        start = getattr(leaf, "copy_to_host_async", None)
        if start is not None:
            start()
    return x


class AccuracyMode(enum.Enum):
    """How exact elementwise functions are asked to be: they have one accuracy."""

    HIGHEST, DEFAULT = range(2)


class _ZeroSeries:
    """A series of zeros, where a function's caller gives none."""


JET: dict[str, Any] = {
    "jet": wrapped(jet.jet),
    "fact": lambda n: lm.numpy.exp(lm.lax.lgamma(n + 1.0)),
    "zero_series": _ZeroSeries(),
}


def inspect_array_sharding(value: Any, *, callback: Callable[[Any], None]) -> None:
    """Calls with where the array is, once it is there."""
    lm.debug.callback(lambda _: callback(sharding.SingleDeviceSharding()), value)


def stop_here(**options: Any) -> None:
    """Python's debugger, when what is traced runs."""
    lm.debug.callback(breakpoint)


def debug_callback(
    callback: Any, *args: Any, ordered: bool = False, partitioned: bool = False, **kwargs: Any
) -> None:
    """As Lamina's, with arrays of JAX's kind for the callback."""

    @functools.wraps(callback, updated=())
    def call(*args: Any, **kwargs: Any) -> None:
        callback(*lm.tree.map(lm.numpy.asarray, args), **lm.tree.map(lm.numpy.asarray, kwargs))

    wrapped(lm.debug.callback)(call, *args, ordered=ordered, partitioned=partitioned, **kwargs)


DEBUG: dict[str, Any] = {
    "callback": debug_callback,
    "inspect_array_sharding": inspect_array_sharding,
    "breakpoint": stop_here,
}
ERRORS: dict[str, Any] = {
    "ConcretizationTypeError": TypeError,
    "TracerArrayConversionError": TypeError,
    "TracerBoolConversionError": TypeError,
    "TracerIntegerConversionError": TypeError,
    "UnexpectedTracerError": TypeError,
    "NonConcreteBooleanIndexError": IndexError,
    "KeyReuseError": RuntimeError,
    "JAXTypeError": TypeError,
    "JAXIndexError": IndexError,
    "JaxprTypeError": TypeError,
    "InconclusiveDimensionOperation": TypeError,
    "JaxRuntimeError": RuntimeError,
}
