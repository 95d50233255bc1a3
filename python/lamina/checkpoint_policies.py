"""Which values of a checkpointed function reverse mode may keep, for `lamina.checkpoint`; names as in JAX.

A policy is asked of every operation of the function and of its derivative, also in the functions that it calls and in
scans and branches, by its name in `lamina.lax`, the types of its operands and its parameters; of what `checkpoint_name`
names as an operation "name" with the parameter `name`. A function with effects keeps none.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from lamina import _core, _missing
from lamina._core import Tensor
from lamina._tensor import to_tensor


class Policy:
    """One of the policies, by name; calling it tells whether results of a primitive may be kept."""

    __slots__ = ("_keeps", "_names", "name", "names_decide")

    def __init__(
        self, name: str, keeps: Any, names_decide: bool = False, names: tuple[str, ...] | None = None
    ) -> None:
        self.name, self._keeps, self._names = name, keeps, names
        self.names_decide = names_decide  # whether a value with a name is kept by that alone

    def __call__(self, primitive: Any, *_: Any, **params: Any) -> bool:
        return bool(self._keeps(str(primitive), params))

    def __eq__(self, other: object) -> bool:  # those of the same names are one, and their regions one program
        if self is other or not isinstance(other, Policy) or self._names is None:
            return self is other
        return (self.name, self._names) == (other.name, other._names)

    def __hash__(self) -> int:
        return id(self) if self._names is None else hash((self.name, self._names))

    def __repr__(self) -> str:
        return f"<checkpoint policy {self.name}>"


_DOTS = ("dot", "dot_general", "convolution", "conv_general_dilated")


def _batched(params: Any) -> bool:
    """Whether a dot has batch dimensions, by its parameters here or in JAX."""
    return bool(params.get("lhs_batching_dimensions")) or any(params.get("dimension_numbers", ((), ()))[1])


everything_saveable = Policy("everything_saveable", lambda primitive, params: True)
nothing_saveable = Policy("nothing_saveable", lambda primitive, params: False)
dots_saveable = Policy("dots_saveable", lambda primitive, params: primitive in _DOTS)
checkpoint_dots = dots_saveable
dots_with_no_batch_dims_saveable = Policy(
    "dots_with_no_batch_dims_saveable",
    lambda primitive, params: primitive in _DOTS and not _batched(params),
)
checkpoint_dots_with_no_batch_dims = dots_with_no_batch_dims_saveable


def _named(name: str, keeps: Any, names: tuple[str, ...]) -> Policy:
    of_name = lambda primitive, params: keeps(params.get("name")) if primitive == "name" else False  # noqa: E731
    return Policy(name, of_name, names=names)


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Keeps values that `checkpoint_name` gave one of these names."""
    return _named(
        "save_only_these_names", set(names_which_can_be_saved).__contains__, names_which_can_be_saved
    )


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Keeps values with a name, but not these."""
    return _named("save_any_names_but_these", lambda name: name not in names_not_to_save, names_not_to_save)


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Keeps all values but those of these names."""
    unnamed = lambda primitive, params: primitive != "name" or params.get("name") not in names_not_to_save  # noqa: E731
    return Policy("save_anything_except_these_names", unnamed, True, names_not_to_save)


def save_and_offload_only_these_names(
    *,
    names_which_can_be_saved: Iterable[str],
    names_which_can_be_offloaded: Iterable[str],
    offload_src: str,
    offload_dst: str,
) -> Policy:
    """Keeps values of all these names, where they were computed: nothing is moved to another memory.

    ValueError for a name in both.
    """
    saved, offloaded = tuple(names_which_can_be_saved), tuple(names_which_can_be_offloaded)
    if both := sorted({*saved} & {*offloaded}):
        raise ValueError(
            f"save_and_offload_only_these_names: {', '.join(map(repr, both))} can be saved or offloaded, not both: "
            "leave it out of one"
        )
    return save_only_these_names(*saved, *offloaded)


def offload_dot_with_no_batch_dims(offload_src: str, offload_dst: str) -> Policy:
    """`dots_with_no_batch_dims_saveable`: what is kept stays where it was computed."""
    return dots_with_no_batch_dims_saveable


class _Either(Policy):
    """What one of two policies keeps."""

    __slots__ = ("policies",)

    def __init__(self, *policies: Any) -> None:
        super().__init__("save_from_both_policies", None)
        self.policies = policies

    def __call__(self, primitive: Any, *types: Any, **params: Any) -> bool:
        return any(bool(p(primitive, *types, **params)) for p in self.policies)


def save_from_both_policies(policy_1: Any, policy_2: Any) -> Policy:
    """Keeps what one of two policies keeps."""
    return _Either(policy_1, policy_2)


def checkpoint_name(x: Any, name: str) -> Any:
    """`x`, a container of arrays, under a name for the policy of the checkpoint around it; the values stay."""
    from lamina.tree import tree_map

    if not isinstance(name, str):
        raise TypeError(f"checkpoint_name takes a string as the name, not {name!r:.60}")
    return tree_map(lambda leaf: _core.named(leaf if isinstance(leaf, Tensor) else to_tensor(leaf), name), x)


def _asked(policy: Any, op: str, operands: Any, attributes: Any) -> bool:
    from lamina import _traces

    avals = [_traces._aval(t) for t in operands]
    params = {k: _traces._parameter(v) for k, v in attributes.items()}
    return bool(policy(_traces.Primitive(_traces._named(op, avals, params)[0]), *avals, **params))


def _kept(policy: Any, nodes: list[Any]) -> list[bool]:
    """Which of the nodes a policy keeps."""
    return [_asked(policy, op, operands, attributes) for op, operands, attributes in nodes]


def of_primitives(policy: Any) -> _core.KeepingPolicy:
    """What asks a policy of the operations of a derivative.

    The same for the same policy, if it was used not long ago: equal regions are one program.
    """
    try:
        return _of_primitives(policy)
    except TypeError:  # a policy without a hash
        return _of_primitives.__wrapped__(policy)


@functools.lru_cache(maxsize=64)
def _of_primitives(policy: Any) -> _core.KeepingPolicy:
    return _core.KeepingPolicy(functools.partial(_kept, policy), getattr(policy, "names_decide", False))


__getattr__ = _missing.attributes("lamina.checkpoint_policies")
