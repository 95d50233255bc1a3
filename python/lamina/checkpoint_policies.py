"""Which values of a checkpointed function reverse mode may keep, for `lamina.checkpoint`; names as in JAX.

A policy permits, it does not promise: `everything_saveable` keeps all (there is no checkpoint then); under every other
one all values are computed again, which is what `nothing_saveable` asks for.
"""

from __future__ import annotations

from typing import Any

from lamina import _missing
from lamina._core import Tensor
from lamina._tensor import to_tensor


class Policy:
    """One of the policies, by name; calling it tells whether results of a primitive may be kept."""

    __slots__ = ("_keeps", "name")

    def __init__(self, name: str, keeps: Any) -> None:
        self.name, self._keeps = name, keeps

    def __call__(self, primitive: Any, *_: Any, **params: Any) -> bool:
        return bool(self._keeps(str(primitive), params))

    def __repr__(self) -> str:
        return f"<checkpoint policy {self.name}>"


_DOTS = ("dot", "dot_general", "convolution", "conv_general_dilated")
everything_saveable = Policy("everything_saveable", lambda primitive, params: True)
nothing_saveable = Policy("nothing_saveable", lambda primitive, params: False)
dots_saveable = Policy("dots_saveable", lambda primitive, params: primitive in _DOTS)
checkpoint_dots = dots_saveable
dots_with_no_batch_dims_saveable = Policy(
    "dots_with_no_batch_dims_saveable",
    lambda primitive, params: primitive in _DOTS and not any(params.get("dimension_numbers", ((), ()))[1]),
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
    return Policy("save_anything_except_these_names", unnamed)


def save_from_both_policies(policy_1: Any, policy_2: Any) -> Policy:
    """Keeps what one of two policies keeps."""
    both = lambda primitive, params: policy_1(primitive, **params) or policy_2(primitive, **params)  # noqa: E731
    return Policy("save_from_both_policies", both)


def checkpoint_name(x: Any, name: str) -> Any:
    """`x`, a container of arrays, under a name for policies; the values stay."""
    from lamina.tree import tree_map

    if not isinstance(name, str):
        raise TypeError(f"checkpoint_name takes a string as the name, not {name!r:.60}")
    return tree_map(lambda leaf: leaf if isinstance(leaf, Tensor) else to_tensor(leaf), x)


__getattr__ = _missing.attributes("lamina.checkpoint_policies")
