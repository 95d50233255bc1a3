"""vectorize: a function of core dimensions as one that broadcasts over the others."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection
from typing import Any

from lamina._tensor import to_tensor
from lamina.numpy._shape import expand_dims, squeeze

__all__ = ["vectorize"]

_SIGNATURE = re.compile(r"^\([^()]*\)(,\([^()]*\))*$")


def _core_dimensions(text: str, whole: str) -> list[tuple[str, ...]]:
    if not _SIGNATURE.match(text):
        raise ValueError(f"{whole!r} is not a signature such as '(n,m),(m)->(n)'")
    return [tuple(n for n in part.split(",") if n) for part in re.findall(r"\(([^()]*)\)", text)]


def _checked(
    shape: tuple[int, ...], names: tuple[str, ...], sizes: dict[str, int], what: str, signature: str
) -> None:
    if len(shape) < len(names):
        raise ValueError(f"vectorize {signature}: {what} has shape {shape}, without dimensions for {names}")
    for name, n in zip(names, shape[len(shape) - len(names) :]):
        want = int(name) if name.isdigit() else sizes.setdefault(name, n)
        if n != want:
            raise ValueError(f"vectorize {signature}: {what} has size {n} where {name} is {want}")


def vectorize(
    pyfunc: Callable[..., Any] | None = None,
    *,
    excluded: Collection[int | str] = frozenset(),
    signature: str | None = None,
) -> Callable[..., Any]:
    """`pyfunc` over the broadcast leading dimensions of its arguments, by vmap.

    `signature`: the trailing dimensions that one call takes and gives, as in ``"(n,m),(m)->(n)"``; without it, scalars.
    `excluded`: numbers and names of arguments that pass as they are. The function has the derivatives and the bits of
    a loop, and gives any container of arrays. ValueError where shapes do not fit the signature. Without `pyfunc`: a
    decorator.
    """
    if pyfunc is None:
        return functools.partial(vectorize, excluded=excluded, signature=signature)
    left_out = set(excluded)
    if any(not isinstance(e, (int, str)) or e is True for e in left_out):
        raise TypeError(f"excluded holds numbers and names of arguments, not {left_out}")
    if any(isinstance(e, int) and e < 0 for e in left_out):
        raise ValueError(
            f"excluded={left_out} contains negative numbers: arguments are counted from the first"
        )
    inputs = outputs = None
    if signature is not None:
        text = signature.replace(" ", "")
        before, arrow, after = text.partition("->")
        if not arrow:
            raise ValueError(f"{signature!r} is not a signature such as '(n,m),(m)->(n)'")
        inputs, outputs = _core_dimensions(before, signature), _core_dimensions(after, signature)

    @functools.wraps(pyfunc)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        from lamina._transforms import vmap
        from lamina.lax import broadcast_shapes
        from lamina.tree import tree_map

        passed = {k: v for k, v in kwargs.items() if k in left_out}
        named = [k for k in kwargs if k not in left_out]
        kept = {i: a for i, a in enumerate(args) if i in left_out}
        given = [a for i, a in enumerate(args) if i not in left_out] + [kwargs[k] for k in named]
        if inputs is not None and len(inputs) != len(given):
            raise TypeError(f"vectorize {signature}: {len(given)} arguments, not {len(inputs)}")
        if inputs is not None and any(a is None for a in given):
            none = {i for i, a in enumerate(given) if a is None}
            raise ValueError(f"Cannot pass None at locations {none} with {signature=}")
        # None has no dimensions: it passes as it is.
        present, sizes = [i for i, a in enumerate(given) if a is not None], {}
        ts = [to_tensor(given[i]) for i in present]
        cores = inputs if inputs is not None else [()] * len(ts)
        for i, (t, names) in enumerate(zip(ts, cores)):
            _checked(t.shape, names, sizes, f"argument {i}", str(signature))

        def one(*values: Any) -> Any:
            all_given: list[Any] = [None] * len(given)
            for i, v in zip(present, values):
                all_given[i] = v
            values = tuple(all_given)
            positional = list(values[: len(values) - len(named)])
            for i in sorted(kept):
                positional.insert(i, kept[i])
            out = pyfunc(*positional, **dict(zip(named, values[len(values) - len(named) :])), **passed)
            if outputs is not None:
                results = out if isinstance(out, tuple) else (out,)
                if len(results) != len(outputs):
                    raise TypeError(f"vectorize {signature}: {len(results)} results, not {len(outputs)}")
                for i, (r, names) in enumerate(zip(results, outputs)):
                    shape = to_tensor(r).shape
                    if len(shape) != len(names):
                        raise ValueError(f"vectorize {signature}: result {i} has shape {shape}, not {names}")
                    _checked(shape, names, sizes, f"result {i}", str(signature))
            return out

        loops = [t.shape[: t.ndim - len(names)] for t, names in zip(ts, cores)]
        common = broadcast_shapes(*loops)
        padded = [(1,) * (len(common) - len(loop)) + loop for loop in loops]
        f, single = one, []
        for d in reversed(range(len(common))):
            axes = tuple(None if loop[d] == 1 else 0 for loop in padded)
            if all(a is None for a in axes):
                single.append(d)
            else:
                f = vmap(f, in_axes=axes)
        values = [squeeze(t, tuple(d for d, n in enumerate(loop) if n == 1)) for t, loop in zip(ts, loops)]
        return tree_map(lambda r: expand_dims(to_tensor(r), tuple(single)), f(*values))

    return wrapped
