"""Jitted functions and programs ahead of time, with JAX's types and refusals at their boundary."""

from __future__ import annotations

import functools
import inspect
import re
import weakref
from collections.abc import Callable
from typing import Any

import lamina as lm
import numpy as np
from lamina import _core, _jit, _open, _transforms
from lamina._core import Tensor

from lamina_as_jax import logs, messages, settings, sharding, strictness, types64
from lamina_as_jax.avals import FLOAT0, Float0
from lamina_as_jax.types64 import wrapped


class Jitted:
    """A jitted function with JAX's types at its boundary."""

    def __init__(
        self,
        make: Callable[[], Any],
        inline: bool = False,
        compiler_options: dict[str, Any] | None = None,
        out_shardings: Any = None,
    ) -> None:
        inner = make()
        functools.update_wrapper(self, inner)
        self.__wrapped__ = inner._f
        self._out_shardings = out_shardings
        self._inline, self._static = inline, inner._static
        self._compiler_options = compiler_options
        # A function of Lamina's for each state of the options under which a trace is another.
        self._make, self._of_options = make, {settings.traced_under(): inner}

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self.__wrapped__)

    @property
    def _inner(self) -> Any:
        options = settings.traced_under()
        found = self._of_options.get(options)
        if found is None:
            found = self._of_options[options] = self._make()
        return found

    def clear_cache(self) -> None:
        for inner in self._of_options.values():
            inner.clear_cache()

    def _cache_size(self) -> int:
        entries = [inner._entries for inner in self._of_options.values()]
        return sum(v.paths for e in entries for variants in e.values() for v in variants)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        strictness.check_compiler_options(self._compiler_options)
        strictness.check_execution()
        weakref.ref(self.__wrapped__)  # TypeError for an object that allows none
        inline = self._inline and _core.any_open_scope()
        out = self._call(_open.entered(self._inner._f) if inline else self._inner, args, kwargs)
        return sharding.placed(out, self._out_shardings)

    @staticmethod
    def _argument(x: Any) -> Any:
        if type(x) is Tensor:
            types64.check_leaked(x)
        if type(x) is np.ndarray and x.dtype == FLOAT0:
            return Float0(x.shape)
        if hasattr(type(x), "__jax_array__") and not hasattr(x, "dtype"):
            raise ValueError(
                "Triggering __jax_array__() during abstractification is no longer supported. Give "
                f"jax.numpy.asarray(x) in the place of x, a {type(x).__name__}."
            )
        return types64.argument(types64.checked_number(x))

    def _placed(self, x: Any, place: int) -> Any:
        """An argument by its place. OverflowError where its number does not fit."""
        try:
            return self._argument(x)
        except OverflowError as e:
            names = _transforms._argument_names(self._inner._f)
            path = names[place] if place < len(names) else f"args[{place}]"
            raise OverflowError(
                "An overflow was encountered while parsing an argument to a jitted computation, whose argument path is "
                f"{path}.\n{e}"
            ) from None

    def __getstate__(self) -> dict[str, Any]:
        f = self._inner._f
        while isinstance(f, functools.partial) and not hasattr(f, "__name__"):
            f = f.func
        return {"function_name": getattr(f, "__name__", repr(f))}

    def _call(self, f: Any, args: Any, kwargs: Any, skipped: int = 0) -> Any:
        if self._inner._donated:
            strictness.check_donated(args, [n - skipped for n in self._inner._donated])
        given = [
            a
            if i + skipped in self._static or i - len(args) in self._static
            else self._placed(a, i + skipped)
            for i, a in enumerate(args)
        ]
        named = {k: v if k in self._static else self._argument(v) for k, v in kwargs.items()}
        try:
            out = types64.checked_result(logs.compiled(lambda: f(*given, **named)))
            self._check_kinds(out)
            return out if types64.keeps_wide(given) else types64.result(out)
        except Exception as e:
            raise messages.told(e) from e.__cause__

    def _check_kinds(self, out: Any) -> None:
        """TypeError for a text among the results, which Lamina gives back as it is."""
        for x in (out,) if type(out) is Tensor else lm.tree.tree_leaves(out):
            if type(x) in (str, bytes):
                code = getattr(self._inner._f, "__code__", None)
                where = f" at {code.co_filename}:{code.co_firstlineno}" if code else ""
                raise TypeError(
                    f"function {_transforms._name(self._inner._f)}{where} traced for jit returned a value of type "
                    f"{type(x)}, which is not a valid JAX type"
                )

    def __repr__(self) -> str:
        try:
            return f"<PjitFunction of {self._inner._f!r}>"
        except Exception:  # of the user's function
            return "<PjitFunction>"

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        bound = self._inner.__get__(instance, owner)
        return lambda *args, **kwargs: self._call(bound, args, kwargs, 1)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._inner, name)
        if name in ("lower", "trace"):
            return lambda *args, **kwargs: Lowered(self._call(found, args, kwargs))
        return wrapped(found) if callable(found) else found


Jitted.__module__ = "lamina.jitted"  # of the library, for the watch over what a traced function calls


@messages.telling
def jit(
    fun: Any = None, /, *, static_argnums: Any = None, static_argnames: Any = None, **options: Any
) -> Any:
    if fun is None:
        return lambda f: jit(f, static_argnums=static_argnums, static_argnames=static_argnames, **options)
    inline = bool(options.pop("inline", False))
    for name in (
        "keep_unused",
        "device",
        "backend",
        "in_shardings",
    ):
        options.pop(name, None)  # where and how, not what is computed
    compiler_options = options.pop("compiler_options", None)
    out_shardings = options.pop("out_shardings", None)
    options = {k: v for k, v in options.items() if v is not None}

    def make() -> Any:
        # JAX refuses branches on traced values: programs ask for that error.
        made = lm.jit(
            fun, static_argnums=static_argnums, static_argnames=static_argnames, branches="error", **options
        )
        if static_argnums is not None and static_argnames is not None:
            _mark_as_given(made, static_argnums, static_argnames)
        return made

    return Jitted(make, inline, compiler_options, out_shardings)


def _mark_as_given(jitted: Any, nums: Any, names: Any) -> None:
    """Has an argument be static only if it is passed as it was marked, as in JAX where both ways are used."""
    count = len(_transforms._argument_names(jitted._f))
    numbers = [n % count if n < 0 else n for n in ((nums,) if isinstance(nums, int) else nums)]
    jitted._nums, jitted._names = frozenset(numbers), frozenset((names,) if isinstance(names, str) else names)
    jitted._static = frozenset((*numbers, *jitted._names))
    jitted._static_on = frozenset((*(n - 1 for n in numbers), *jitted._names))


class _Program(str):
    """A program's text, as the objects that JAX gives show it."""

    def as_hlo_text(self) -> str:
        return str(self)


class Lowered:
    """A program ahead of time, whose texts JAX names by dialects."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._inner, name)

    def lower(self, **options: Any) -> Lowered:
        return Lowered(self._inner.lower())

    def compile(self, compiler_options: Any = None, **options: Any) -> Lowered:
        strictness.check_compiler_options(compiler_options)
        return Lowered(self._inner.compile())

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        text = self._inner.as_text(dialect or "stablehlo")
        if dialect in (None, "stablehlo"):  # for the one device, as JAX's programs say
            one = "attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32}"
            return re.sub(r"^(module @\S+) \{", rf"\1 {one} {{", text, count=1)
        return text

    def compiler_ir(self, dialect: str | None = None) -> Any:
        return _Program(self.as_text(dialect))

    @property
    def fun_name(self) -> str:
        return _transforms._name(self._inner._jitted._f)

    @property
    def input_shardings(self) -> Any:
        return lm.tree.map(lambda _: sharding.SingleDeviceSharding(), self._inner.in_avals)

    @property
    def output_shardings(self) -> Any:
        return lm.tree.map(lambda _: sharding.SingleDeviceSharding(), self._inner.out_info)

    def runtime_executable(self) -> Any:
        """What runs, which JAX promises nothing about."""
        return self._inner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for x in lm.tree.tree_leaves((args, kwargs)):
            if type(x) is Tensor and (_core.differentiated(x) or not _core.forceable(x)):
                raise TypeError(
                    "Cannot apply JAX transformations to a function lowered and compiled for a particular signature. "
                    f"Detected argument of Tracer type {_kind_of_tracer(x)}."
                )
        return wrapped(self._inner)(*args, **kwargs)


def _kind_of_tracer(x: Tensor) -> str:
    """The class that a traced value has in JAX."""
    if _core.differentiated(x):
        return "JVPTracer"
    return "DynamicJaxprTracer" if _jit.tracing.open else "BatchTracer"
