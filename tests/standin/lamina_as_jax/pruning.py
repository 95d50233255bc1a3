"""``partial_eval.dce_jaxpr``: a trace without what some of its results need, and the arguments that it still takes."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from lamina import numpy as lnp
from lamina._traces import OF_RULES, Equation, Trace


class Pruned(Trace):
    """A trace of some of the arguments and results of another, which runs it."""

    whole: Trace
    taken: list[bool]

    def evaluate(self, consts: Sequence[Any], *args: Any) -> list[Any]:
        if len(args) != len(self.invars):
            raise TypeError(f"the trace takes {len(self.invars)} arrays, not {len(args)}")
        given = iter(args)
        every = [
            next(given) if taken else lnp.zeros(v.aval.shape, v.aval.dtype)
            for v, taken in zip(self.whole.invars, self.taken, strict=True)
        ]
        out = self.whole.evaluate(consts, *every)
        return [out[i] for i in self._asked]


def dce_jaxpr(
    jaxpr: Trace, used_outputs: Sequence[bool], instantiate: bool | Sequence[bool] = False
) -> tuple[Trace, list[bool]]:
    """(the trace of those results, which of the arguments it takes); `instantiate`: arguments that it takes anyhow."""
    kept = [instantiate] * len(jaxpr.invars) if isinstance(instantiate, bool) else list(instantiate)
    needed = {id(v) for v, used in zip(jaxpr.outvars, used_outputs, strict=True) if used}
    equations = []
    for e in reversed(jaxpr.eqns):
        asked = [id(v) in needed for v in e.outvars]
        if not any(asked) and not jaxpr.effects:
            continue
        fewer = e if jaxpr.effects else _pruned(e, asked)
        needed.update(map(id, fewer.invars))
        equations.append(fewer)
    taken = [id(v) in needed or k for v, k in zip(jaxpr.invars, kept, strict=True)]
    out = copy.copy(jaxpr)
    out.__class__ = Pruned
    out.whole, out.taken = jaxpr, taken
    out.invars = [v for v, t in zip(jaxpr.invars, taken) if t]
    out.outvars = [v for v, used in zip(jaxpr.outvars, used_outputs) if used]
    out.out_avals = [a for a, used in zip(jaxpr.out_avals, used_outputs) if used]
    out._asked = [i for i, used in enumerate(used_outputs) if used]
    out.eqns = equations[::-1]
    return out, taken


def _those(values: Sequence[Any], chosen: Sequence[bool]) -> list[Any]:
    return [v for v, c in zip(values, chosen, strict=True) if c]


def _pruned(e: Equation, asked: list[bool]) -> Equation:
    """An equation of those of its results, where its parts can be without the others."""
    name = e.primitive.name
    if name == "cond":
        return _of_branches(e, asked)
    if name == "scan":
        return _of_steps(e, asked)
    if name in ("jit", "pjit"):
        part, taken = dce_jaxpr(e.params["jaxpr"], asked)
        return _remade(e, asked, taken, jaxpr=part)
    if name in OF_RULES:  # whose rules are of all arguments
        return _remade(e, asked, [True] * len(e.invars), call_jaxpr=e.params["call_jaxpr"].only(asked))
    return e


def _remade(e: Equation, asked: Sequence[bool], taken: Sequence[bool], **params: Any) -> Equation:
    outvars = _those(e.outvars, asked)
    return Equation(e.primitive, _those(e.invars, taken), outvars, {**e.params, **params}, e.where)


def _of_branches(e: Equation, asked: Sequence[bool]) -> Equation:
    branches = e.params["branches"]
    used = [dce_jaxpr(b, asked)[1] for b in branches]
    taken = [any(u) for u in zip(*used)]
    fewer = tuple(dce_jaxpr(b, asked, taken)[0] for b in branches)
    return _remade(e, asked, [True, *taken], branches=fewer)


def _of_steps(e: Equation, asked: Sequence[bool]) -> Equation:
    """A loop whose steps carry what the results asked for need, and what that needs in turn."""
    step, count = e.params["jaxpr"], e.params["num_carry"]
    carried, stacked = list(asked[:count]), list(asked[count:])
    while True:
        _, taken = dce_jaxpr(step, [*carried, *stacked])
        more = [c or t for c, t in zip(carried, taken)]
        if more == carried:
            break
        carried = more
    fewer, taken = dce_jaxpr(step, [*carried, *stacked], [*carried, *taken[count:]])
    return _remade(e, [*carried, *stacked], taken, jaxpr=fewer, num_carry=sum(carried))
