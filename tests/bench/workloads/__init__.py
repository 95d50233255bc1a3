"""The workloads by group, one file each; importing them loads no system."""

from . import calls, dense, elementwise, loops, movement, reductions, sampling, signals, steps

WORKLOADS = [
    w
    for module in (calls, elementwise, reductions, signals, movement, dense, loops, sampling, steps)
    for w in module.WORKLOADS
]
