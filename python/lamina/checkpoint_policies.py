"""Which values of a checkpointed function reverse mode may keep, for `lamina.checkpoint`; names as in JAX.

A policy is asked of every operation of the function and of its derivative, also in the functions that it calls and in
scans and branches, by its name in `lamina.lax`, the types of its operands and its parameters; and of the values that
`checkpoint_name` names (`primitive` "name"), outside of scans and branches. A function with effects keeps none.
"""

from __future__ import annotations

import functools
import threading
from typing import Any

from lamina import _core, _missing
from lamina._core import Tensor
from lamina._tensor import to_tensor


class Policy:
    """One of the policies, by name; calling it tells whether results of a primitive may be kept."""

    __slots__ = ("_keeps", "name", "names_decide")

    def __init__(self, name: str, keeps: Any, names_decide: bool = False) -> None:
        self.name, self._keeps = name, keeps
        self.names_decide = names_decide  # whether a value with a name is kept by that alone

    def __call__(self, primitive: Any, *_: Any, **params: Any) -> bool:
        return bool(self._keeps(str(primitive), params))

    def __repr__(self) -> str:
        return f"<checkpoint policy {self.name}>"


_STRUCTURE = frozenset(
    ("identity", "constant", "broadcast_in_dim", "reshape")
)  # of which keeping saves nothing
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


def _named(name: str, keeps: Any) -> Policy:
    return Policy(name, lambda primitive, params: keeps(params.get("name")) if primitive == "name" else False)


def save_only_these_names(*names_which_can_be_saved: str) -> Policy:
    """Keeps values that `checkpoint_name` gave one of these names."""
    return _named("save_only_these_names", set(names_which_can_be_saved).__contains__)


def save_any_names_but_these(*names_not_to_save: str) -> Policy:
    """Keeps values with a name, but not these."""
    return _named("save_any_names_but_these", lambda name: name not in names_not_to_save)


def save_anything_except_these_names(*names_not_to_save: str) -> Policy:
    """Keeps all values but those of these names."""
    unnamed = lambda primitive, params: primitive != "name" or params.get("name") not in names_not_to_save  # noqa: E731
    return Policy("save_anything_except_these_names", unnamed, names_decide=True)


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
    from lamina.tree import tree_leaves, tree_map

    if not isinstance(name, str):
        raise TypeError(f"checkpoint_name takes a string as the name, not {name!r:.60}")
    out = tree_map(lambda leaf: leaf if isinstance(leaf, Tensor) else to_tensor(leaf), x)
    if _open.names:
        _open.names[-1] += [(name, leaf) for leaf in tree_leaves(out)]
    return out


class _Open(threading.local):
    """The names given in the checkpointed functions that are being recorded, innermost last."""

    def __init__(self) -> None:
        self.names: list[list[tuple[str, Tensor]]] = []


_open = _Open()


def _asked(policy: Any, op: str, operands: Any, attributes: Any) -> bool:
    from lamina import _traces

    if op in _STRUCTURE:
        return False
    avals = [_traces._aval(t) for t in operands]
    params = {k: _traces._parameter(v) for k, v in attributes.items()}
    return bool(policy(_traces.Primitive(_traces._named(op, avals, params)[0]), *avals, **params))


def of_primitives(policy: Any) -> _core.KeepingPolicy | None:
    """What asks a policy of the operations of a derivative; None for one that is decided by names alone.

    The same for the same policy, if it was used not long ago: equal regions are one program.
    """
    try:
        return _of_primitives(policy)
    except TypeError:  # a policy without a hash
        return _of_primitives.__wrapped__(policy)


@functools.lru_cache(maxsize=64)
def _of_primitives(policy: Any) -> _core.KeepingPolicy | None:
    if getattr(policy, "names_decide", False):
        return None
    return _core.KeepingPolicy(
        lambda nodes: [_asked(policy, op, operands, attributes) for op, operands, attributes, _, _ in nodes]
    )


class Choice:
    """Asks a policy which named values of one checkpointed function to keep, and of all where names decide."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        self.names: list[tuple[str, Tensor]] = []

    def recording(self, f: Any) -> Any:
        """`f`, whose names are noted."""

        def run(leaves: list[Tensor]) -> list[Tensor]:
            _open.names.append(self.names)
            try:
                return f(leaves)
            finally:
                _open.names.pop()

        return run

    def __call__(self, nodes: list[Any]) -> list[bool]:
        from lamina import _traces

        named: dict[int, list[str]] = {}
        for name, value in self.names:
            named.setdefault(_core.value_id(value), []).append(name)
        names_decide = getattr(self.policy, "names_decide", False)
        keep = []
        for op, operands, attributes, described, number in nodes:
            own = _traces._aval(described)
            by_name = [self.policy(_traces.Primitive("name"), own, name=n) for n in named.get(number, ())]
            unnamed = names_decide and not by_name and _asked(self.policy, op, operands, attributes)
            keep.append(unnamed or any(by_name))
        return keep


__getattr__ = _missing.attributes("lamina.checkpoint_policies")
