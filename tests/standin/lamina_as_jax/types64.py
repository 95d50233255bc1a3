"""JAX's element types on Lamina: 64-bit types only under ``jax_enable_x64``, NumPy scalars with a type of their own."""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes  # noqa: F401  (NumPy knows bfloat16 and its like by name once it is loaded)
import numpy as np
from lamina import _core, _indexing, _members, dtypes
from lamina._core import Tensor
from lamina._objects import BUILTIN
from lamina._shapes import ShapeDtype
from lamina._tensor import describe as described
from lamina._tensor import to_tensor
from lamina.numpy import _grids

from lamina_as_jax import messages

_NARROW = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}
_PASSED = (Tensor, int, float, complex, bool, str, type(None), types.FunctionType, slice, type(...))


_NUMBERS = (bool, int, float, complex)


class _State:
    x64 = False
    evaluator: Callable[..., Any] | None = None
    looker: Callable[[str, Any], None] | None = None  # at the names and arguments of calls
    rules = 0  # of users that are running
    nan = inf = False  # whether what functions give is looked at for these


def enabled() -> bool:
    return _State.x64


def enable(on: bool) -> None:
    """Sets ``jax_enable_x64``: Lamina's default types follow it."""
    _State.x64 = bool(on)
    usual = ("float64", "int64") if on else ("float32", "int32")
    _core.set_default_types(*usual, wide=False, for_integers=False)


@contextlib.contextmanager
def enable_x64(new_val: bool = True) -> Iterator[None]:
    before = _State.x64
    enable(new_val)
    try:
        yield
    finally:
        enable(before)


def narrowed(name: str) -> str:
    return name if _State.x64 else _NARROW.get(name, name)


def canonical(dtype: Any) -> np.dtype[Any]:
    """An element type as JAX canonicalises it."""
    return np.dtype(narrowed(dtypes.name_of(float if dtype is None else dtype)))


def dtype_of(x: Any) -> np.dtype[Any]:
    """The element type of a value, or that a type or its name stands for."""
    if isinstance(x, (type, str, np.dtype)):
        return canonical(x)
    if isinstance(x, (bool, int, float, complex)):  # or what stands for one that a traced function reads
        return canonical(x.__class__)
    found = getattr(x, "dtype", None)
    return canonical(type(x) if found is None else getattr(found, "name", found))


# --- what enters ---


def _is_dtype(x: Any) -> bool:
    return isinstance(x, np.dtype) or (
        isinstance(x, type) and (issubclass(x, np.generic) or hasattr(x, "dtype"))
    )


def check_keys(x: Any) -> None:
    """ValueError for a dict among containers whose keys have no order, as those of several types."""
    if type(x) is dict:
        _check_order(x)
        x = x.values()
    elif type(x) not in (list, tuple):
        return
    for v in x:
        check_keys(v)


def _check_order(x: dict[Any, Any]) -> None:
    if all(type(k) is str for k in x):
        return
    try:
        sorted(x)
    except TypeError as e:
        raise ValueError(f"Comparator raised exception while sorting pytree dictionary keys: {e}") from None


def argument(x: Any) -> Any:
    """An argument as Lamina shall see it; the object itself where nothing is to be changed."""
    t = type(x)
    if t in _PASSED:
        return x
    if isinstance(x, np.generic):
        if x.dtype.kind in "biufcV" and x.dtype.names is None:
            return np.asarray(x, narrowed(x.dtype.name))
        return x
    if isinstance(x, np.ndarray):
        name = narrowed(x.dtype.name)
        return x if name == x.dtype.name else x.astype(name)
    if isinstance(x, (list, tuple)):
        new = [argument(v) for v in x]
        if t is list and any(isinstance(v, np.generic) for v in x) and any(type(v) in _NUMBERS for v in x):
            return [v if type(v) in _NUMBERS else to_tensor(v) for v in new]  # whose type is that of all
        if all(a is b for a, b in zip(new, x, strict=True)):
            return x
        return t(*new) if hasattr(x, "_fields") else t(new)
    if isinstance(x, dict):
        if t is dict:
            _check_order(x)
        changed = {k: argument(v) for k, v in x.items()}
        if all(changed[k] is x[k] for k in x):
            return x
        if t is dict:
            return changed
        like = copy.copy(x)  # of its class, with what else it holds
        like.update(changed)
        return like
    if _is_dtype(x):
        try:
            name = dtypes.name_of(getattr(x, "dtype", x) if isinstance(x, type) else x)
        except TypeError:
            return x
        return x if narrowed(name) == name and not isinstance(x, type) else np.dtype(narrowed(name))
    return x


class Truncated:
    """What is done about element types of 64 bits that are asked for where there are none: jax_explicit_x64_dtypes."""

    mode = "warn"


def _told_of(x: Any) -> None:
    """UserWarning, or ValueError, for an element type that is asked for and is cut."""
    if _State.x64 or Truncated.mode == "allow" or x in (float, int, complex):
        return
    try:
        name = dtypes.name_of(x)
    except TypeError:
        return
    if name in _NARROW:
        text = f"Explicitly requested dtype {name} is not available, and will be truncated to dtype {_NARROW[name]}."
        if Truncated.mode == "error":
            raise ValueError(text)
        warnings.warn(text + " Set jax_enable_x64 to have it.", stacklevel=4)


def keyword(name: str, x: Any) -> Any:
    if name == "dtype" and x is not None:
        _told_of(x)
    if isinstance(x, str) and name.endswith(("dtype", "element_type")):
        return narrowed(x)
    return argument(x)


# --- what leaves ---


def looked_at(**kinds: bool) -> None:
    for name, on in kinds.items():
        setattr(_State, name, bool(on))


def _looked(x: Tensor) -> Tensor:
    """`x`, computed: FloatingPointError where it has what is looked for."""
    if _core.forceable(x) and not _core.differentiated(x) and not _core.any_open_scope():
        x.block_until_ready()
        if _State.inf and x.dtype.kind in "fc" and np.isinf(np.asarray(x).astype("complex128")).any():
            raise FloatingPointError("invalid value (inf) encountered in a function of arrays")
    return x


def result(x: Any) -> Any:
    """A result with JAX's types: no 64-bit arrays but under x64, NumPy's dtypes for Lamina's."""
    t = type(x)
    if t is Tensor:
        if _State.nan or _State.inf:
            _looked(x)
        name = x.dtype.name
        return (
            x
            if _State.x64 or name not in _NARROW
            else _core.recast(x, _NARROW[name])
            if x.weak_type
            else x.astype(_NARROW[name])
        )
    if t is dtypes.DType:
        return np.dtype(narrowed(x.name))
    if t in (tuple, list):
        new = [result(v) for v in x]
        return x if all(a is b for a, b in zip(new, x, strict=True)) else t(new)
    if t is dict:
        return {k: result(v) for k, v in x.items()}
    return x


def keeps_wide(args: Any) -> bool:
    """Whether there are arrays of 64 bits among arguments though there are none: made under enable_x64, they stay so."""
    return not _State.x64 and any(type(a) is Tensor and a.dtype.name in _NARROW for a in args)


_IDLE = (
    "out_sharding",
    "sharding",
    "accuracy",
)  # where a result is, and how exact: there is one place, and one accuracy


def checked_result(x: Any) -> Any:
    """OverflowError for a number that a jitted function has returned and that the default type does not hold."""
    if type(x) is Tensor and x.weak_type and not x.ndim and x.dtype.name == "int64" and _core.forceable(x):
        checked_number(x.item())
    return x


def checked_number(x: Any) -> Any:
    """OverflowError for an integer that is to become an array by itself, and has more bits than the default type."""
    if type(x) is int and not -(2**31) <= x < 2**31 and not _State.x64:
        raise OverflowError(f"the integer {x} does not fit int32, its type without jax_enable_x64")
    return x


def checked_numbers(x: Any) -> None:
    """OverflowError for an integer among lists that has more bits than the default type."""
    if isinstance(x, (list, tuple)):
        for v in x:
            checked_numbers(v)
    else:
        checked_number(x)


_CONVERTING = ("array", "asarray", "convert_element_type", "full", "full_like")  # integers, to another type


def in_a_rule(f: Callable[..., Any]) -> Callable[..., Any]:
    """A rule of a user's. Lamina calls it when a derivative is taken: it may close over values of an ended trace."""

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        _State.rules += 1
        try:
            return f(*args, **kwargs)
        finally:
            _State.rules -= 1

    return call


def check_leaked(x: Tensor) -> None:
    """TypeError for a value that was made inside a transform that has ended."""
    if not _core.made_in_ended(x) or _State.rules:
        return
    file, line, _ = _core.where_made(x)
    raise TypeError(
        "Encountered an unexpected tracer. A function transformed by JAX had a side effect, allowing for a reference to "
        f"an intermediate value with type {described(x)} to escape the scope of the transformation: save no such values "
        f"in global state. The value was created on line {file}:{line}."
    )


def looked_at_by(looker: Callable[[str, Any], None] | None) -> None:
    """Sets what sees the name and arguments of each call of a user's before it is made."""
    _State.looker = looker


def evaluated_by(evaluator: Callable[..., Any] | None) -> None:
    """Sets what functions are called through outside of traces; None: as they are."""
    _State.evaluator = evaluator


def called(f: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    evaluator = _State.evaluator
    if evaluator is None or _core.any_open_scope():
        return f(*args, **kwargs)
    _State.evaluator = None
    try:
        return evaluator(f, args, kwargs)
    finally:
        _State.evaluator = evaluator


# Functions that give places and counts, which are default integers: which of their results.
_ALL, _BEHIND = slice(0, None), slice(1, None)
_PLACES = {
    **dict.fromkeys(
        ("argmax", "argmin", "argsort", "argwhere", "categorical", "flatnonzero", "lexsort"), _ALL
    ),
    **dict.fromkeys(("nanargmax", "nanargmin", "nonzero", "tril_indices", "triu_indices"), _ALL),
    **dict.fromkeys(("tril_indices_from", "triu_indices_from", "diag_indices", "diag_indices_from"), _ALL),
    **dict.fromkeys(("argpartition", "mask_indices"), _ALL),
    **dict.fromkeys(
        ("intersect1d", "mode", "unique", "unique_all", "unique_counts", "unique_inverse"), _BEHIND
    ),
    "vq": slice(0, 1),
}


def _of_places(f: Any) -> slice | None:
    """Which results of `f` are default integers; not of `lax`, which is told their type."""
    name = getattr(f, "__name__", "")
    if name in _PLACES and not str(getattr(f, "__module__", "")).startswith("lamina.lax"):
        return _PLACES[name]
    return None


def _widened(out: Any, which: slice) -> Any:
    def wide(x: Any) -> Any:
        narrow = type(x) is Tensor and x.dtype.name == "int32"
        return _core.elementwise("convert", x, dtype="int64") if narrow else x

    if not isinstance(out, tuple):
        return out if which.start else wide(out)
    numbers = range(len(out))[which]
    parts = [wide(x) if i in numbers else x for i, x in enumerate(out)]
    return type(out)(*parts) if hasattr(out, "_fields") else tuple(parts)


def wrapped(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` with JAX's types at its boundary."""

    places = _of_places(f)
    promotes = not str(getattr(f, "__module__", "")).startswith("lamina.lax")
    converts = getattr(f, "__name__", "") in _CONVERTING
    asks_for_type = getattr(f, "__name__", "").strip("_") == "astype"

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        if asks_for_type and len(args) > 1:
            _told_of(args[1])
        if _State.looker is not None and promotes:
            _State.looker(getattr(f, "__name__", ""), args)
        for a in args:
            if type(a) is Tensor:
                check_leaked(a)
            if type(a) is int and not -(2**63) <= a < 2**64 and not converts:
                raise OverflowError(f"Python int {a} too large to convert to an integer of 64 bits")
        for name in _IDLE:
            kwargs.pop(name, None)
        if "device" in kwargs and not isinstance(kwargs["device"], str):
            kwargs.pop("device")  # or a sharding: there is one
        try:
            given, named = (
                [narrowed(a) if type(a) is str else argument(a) for a in args],
                {k: keyword(k, v) for k, v in kwargs.items()},
            )
            out = f(*given, **named) if _State.evaluator is None else called(f, given, named)
        except Exception as e:
            raise messages.told(e, getattr(f, "__name__", ""), args) from e.__cause__
        if _State.x64 and places is not None:
            out = _widened(out, places)
        elif _State.x64 and type(out) is tuple and getattr(f, "__name__", "") == "where":
            out = _widened(out, _ALL)  # of a condition alone
        kept = not _State.x64 and type(out) is Tensor and out.dtype.name in _NARROW
        if kept and any(type(a) is Tensor and a.dtype.name == out.dtype.name for a in args):
            return out
        return result(out)

    return call


def keeping_integers(f: Callable[..., Any]) -> Callable[..., Any]:
    """A running sum or product ``f(x, axis, dtype, ...)``: of integers in their own type unless told."""

    @functools.wraps(f)
    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        told = kwargs.get("dtype", args[1] if len(args) > 1 else None)
        if told is None and hasattr(x, "dtype") and dtype_of(x).kind in "iu":
            if len(args) > 1:
                args = (args[0], dtype_of(x), *args[2:])
            else:
                kwargs["dtype"] = dtype_of(x)
        return f(x, *args, **kwargs)

    return call


# --- the methods and operators of arrays ---


# Modules of Lamina that call for the user's code: what watches what it calls.
_ON_BEHALF = frozenset(
    f"lamina._{name}"
    for name in (
        *("calls", "hooks", "members", "objects", "observed", "open", "read_set", "rewrite", "running"),
        *("unhooked", "watch"),
    )
)


def _asked_by_lamina() -> bool:
    """Whether the caller of the method that asks is Lamina, and not code that Lamina calls for."""
    frame = sys._getframe(2)
    name = frame.f_globals.get("__name__", "")
    while name in _ON_BEHALF and frame.f_back is not None:
        frame = frame.f_back
        name = frame.f_globals.get("__name__", "")
    return name.startswith("lamina.")


def _method(f: Callable[..., Any]) -> Callable[..., Any]:
    """As `wrapped`, for users: what Lamina's own modules compute in 64 bits stays in them."""
    for_users = wrapped(f)

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        return (f if _asked_by_lamina() else for_users)(*args, **kwargs)

    return call


_OPERATORS = {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "divmod": "divmod", "pow": "**",
    "matmul": "@", "and": "&", "or": "|", "xor": "^", "lshift": "<<", "rshift": ">>",
}  # fmt: skip
_READ = (
    "__array__",
    "__bool__",
    "__index__",
    "__int__",
    "__float__",
    "__complex__",
    "item",
    "tolist",
    "block_until_ready",
)
_COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def _operator(f: Callable[..., Any], sign: str, reflected: bool) -> Callable[..., Any]:
    """As `_method`, for operators. TypeError for a container beside the array; a class of a user's own may take both."""
    for_users = wrapped(f)

    @functools.wraps(f)
    def call(x: Tensor, other: Any, *modulus: Any) -> Any:
        if _asked_by_lamina():
            return f(x, other, *modulus)
        if type(other) in (list, tuple, set, dict):
            names = ["ArrayImpl", type(other).__name__]
            left, right = reversed(names) if reflected else names
            raise TypeError(f"unsupported operand type(s) for {sign}: '{left}' and '{right}'")
        return for_users(x, other, *modulus)

    return call


def _of_scalar(f: Callable[..., Any]) -> Callable[..., Any]:
    """The number of an array of no dimensions. TypeError for others, of one element too."""

    @functools.wraps(f)
    def call(x: Tensor) -> Any:
        if x.ndim:
            raise TypeError(
                f"Only scalar arrays can be converted to Python scalars; got {x.ndim} dimensions."
            )
        return f(x)

    return call


def _updating(f: Callable[..., Any]) -> Callable[..., Any]:
    """An update of elements, at whose array and values is looked as at those of other calls."""

    @functools.wraps(f)
    def call(at: Any, *args: Any, **kwargs: Any) -> Any:
        if _State.looker is not None and args and not _asked_by_lamina():
            _State.looker("update", (at._x, args[0]))
        return f(at, *args, **kwargs)

    return call


def _rounded(f: Callable[..., Any]) -> Callable[..., Any]:
    """``round(x)``: an array of integers, where Lamina's is a number of Python's."""

    @functools.wraps(f)
    def call(x: Tensor, ndigits: int | None = None) -> Any:
        if ndigits is not None or _asked_by_lamina():
            return f(x, ndigits)
        return x.round() if x.dtype.kind in "iub" else x.round().astype(narrowed("int64"))

    return call


def _indexed(f: Callable[..., Any]) -> Callable[..., Any]:
    """Elements at an index. TypeError for a list in its place."""
    told = messages.telling(f)

    @functools.wraps(f)
    def call(x: Tensor, key: Any) -> Any:
        if isinstance(key, list) and key and not _asked_by_lamina():
            nested = any(not isinstance(k, (int, np.generic)) for k in key)
            raise TypeError(
                "Using a non-tuple sequence for multidimensional indexing is not allowed; use "
                f"`arr[{'tuple' if nested else 'array'}(seq)]` instead of `arr[seq]`."
            )
        return told(x, key)

    return call


def _fixed(f: Callable[..., Any]) -> Callable[..., Any]:
    """TypeError for a write to an array by a user: JAX's arrays stay what they are."""

    @functools.wraps(f)
    def call(x: Tensor, key: Any, value: Any) -> None:
        if _asked_by_lamina():
            return f(x, key, value)
        raise TypeError(
            "JAX arrays are immutable and do not support in-place item assignment. Instead of x[idx] = y, use "
            "x = x.at[idx].set(y) or another .at[] method"
        )

    return call


def _as_numpys(x: Any) -> Any:
    if type(x) in (list, tuple):
        return type(x)(map(_as_numpys, x))
    return np.asarray(x) if type(x) is Tensor else x


def _numpys_ufunc(of_lamina: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's functions of elements give NumPy's arrays, as all do; operators beside NumPy's arrays are JAX's."""

    def call(x: Tensor, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if any(isinstance(i, (np.ndarray, np.generic)) for i in inputs):
            return of_lamina(x, ufunc, method, *inputs, **options)
        return getattr(ufunc, method)(*map(_as_numpys, inputs), **options)

    return call


def _numpys_function(x: Tensor, f: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """What NumPy's function does with any object: it asks for the method of its name, or makes an array of it."""
    inner = f._implementation
    if isinstance(inner, BUILTIN):
        args, kwargs = map(_as_numpys, args), {k: _as_numpys(v) for k, v in kwargs.items()}
    return inner(*args, **kwargs)


def _show_dtypes() -> None:
    """``x.dtype`` is a dtype of NumPy's, which equals Lamina's and, unlike it, has NumPy's class and hash."""
    own = Tensor.dtype.__get__

    def of_tensor(x: Tensor) -> Any:
        found = own(x)
        return found if _asked_by_lamina() else np.dtype(found.name)

    def of_described(x: Any) -> Any:
        found = x.__dict__["dtype"]
        return np.dtype(found.name) if type(found) is dtypes.DType and not _asked_by_lamina() else found

    Tensor.dtype = property(of_tensor)
    ShapeDtype.dtype = property(of_described, lambda x, dtype: x.__dict__.update(dtype=dtype))


def _shown_array(x: Tensor) -> str:
    """As JAX shows an array: the type behind the elements, at a distance where the line is full."""
    kind = f"dtype={x.dtype.name}{', weak_type=True' * x.weak_type})"
    if not x.size:
        return f"Array([], shape={x.shape}, {kind}"
    width, start = np.get_printoptions()["linewidth"], "Array("
    text = np.array2string(np.asarray(x), prefix=start, suffix=",", separator=", ", max_line_width=width)
    full = len(text) - text.rfind("\n") + len(kind) + 2 > width
    return f"{start}{text},{' ' * len(start) if full else ' '}{kind}"


def install() -> None:
    """Gives the methods of arrays the same types."""
    enable(_State.x64)
    Tensor.__array_ufunc__ = _numpys_ufunc(_method(Tensor.__array_ufunc__))
    Tensor.__array_function__ = _numpys_function
    signs = {f"__{p}{n}__": (s, p == "r") for n, s in _OPERATORS.items() for p in ("", "r")}
    signs |= {f"__{n}__": (s, False) for n, s in _COMPARISONS.items()}
    names = [*signs, "__neg__", "__pos__", "__invert__", "__abs__"]
    names += [
        n for n, v in vars(Tensor).items() if not n.startswith("_") and isinstance(v, types.FunctionType)
    ]
    for name in names:
        method = getattr(Tensor, name, None)
        if method is not None:
            setattr(Tensor, name, _operator(method, *signs[name]) if name in signs else _method(method))
    for name in ("cumsum", "cumprod"):
        setattr(Tensor, name, keeping_integers(getattr(Tensor, name)))
    for name in ("__int__", "__float__", "__complex__"):
        setattr(Tensor, name, _of_scalar(getattr(Tensor, name)))
    Tensor.__getitem__ = _indexed(Tensor.__getitem__)
    _indexing.At.__getitem__ = _indexed(_indexing.At.__getitem__)
    Tensor.__setitem__ = _fixed(Tensor.__setitem__)
    for name in (
        "get",
        "set",
        "add",
        "subtract",
        "multiply",
        "mul",
        "divide",
        "power",
        "min",
        "max",
        "apply",
    ):
        setattr(_indexing.AtKey, name, messages.telling(_updating(getattr(_indexing.AtKey, name))))
    for kind in (_grids._Grid, _grids._Joined):
        kind.__getitem__ = messages.telling(kind.__getitem__)
    for name in _READ:
        setattr(Tensor, name, messages.telling(getattr(Tensor, name)))
    Tensor.__round__ = _rounded(Tensor.__round__)
    _show_dtypes()
    shown = Tensor.__repr__
    known = lambda x: _core.forceable(x) and not _core.differentiated(x)  # noqa: E731

    def as_array(x: Tensor) -> str:
        if _members._is_deleted(x):
            raise RuntimeError(f"Array has been deleted with shape={x.dtype.name}{list(x.shape)}.")
        return _shown_array(x) if known(x) else shown(x).replace("Tensor(", "Array(", 1)

    Tensor.__repr__ = as_array
    Tensor.__str__ = lambda x: str(np.asarray(x)) if known(x) else repr(x)
    # A class whose == is set anew has no hash unless told.
    Tensor.__hash__ = None
