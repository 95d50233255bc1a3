"""The systems that the benchmark compares, and what it needs to know of each.

A system is loaded in a process of its own (worker.py), so that no thread pool, allocator or import of one weighs on
another. `load` imports it and returns a namespace `lib`; `arrays` makes its arrays of NumPy's; `wait` returns when a
result is there; `numpy` gives a result as a list of NumPy arrays, in the order of its leaves. "before" is an earlier
build of Lamina in another folder, which does what Lamina does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import programs


@dataclass(frozen=True)
class System:
    name: str
    load: Callable[[], SimpleNamespace]
    arrays: Callable[[SimpleNamespace, Iterable[Any]], list[Any]]
    wait: Callable[[SimpleNamespace, Any], None]
    settle: Callable[[SimpleNamespace], None] = lambda lib: None  # waits for compiles in the background
    packages: tuple[str, ...] = ()  # what pip installs for it
    environment: tuple[tuple[str, str], ...] = ()


def leaves(x: Any) -> list[Any]:
    """The arrays and numbers in tuples, lists and dicts, as NumPy arrays."""
    import numpy

    if isinstance(x, dict):
        x = [x[k] for k in sorted(x)]
    if isinstance(x, (tuple, list)):
        return [a for item in x for a in leaves(item)]
    if hasattr(x, "detach"):
        x = x.detach()
        x = x.float() if str(x.dtype) in ("torch.bfloat16", "torch.float16") else x
    if not isinstance(x, numpy.ndarray) and hasattr(x, "numpy"):
        return [numpy.asarray(x.numpy())]
    return [numpy.asarray(x)]


def _jax_like(name: str) -> Callable[[], SimpleNamespace]:
    return lambda: programs.library(name)


def _wait_jax_like(lib: SimpleNamespace, out: Any) -> None:
    if (
        type(out).__module__ != "numpy"
    ):  # such are there, and looking for what they hold takes longer than some calls
        lib.block(out)


def _settle_lamina(lib: SimpleNamespace) -> None:
    import lamina

    if hasattr(lamina.cache, "wait"):  # builds before it was there compile on the caller's thread
        lamina.cache.wait()


def _load_numpy() -> SimpleNamespace:
    import numpy

    return SimpleNamespace(np=numpy)


def _load_torch() -> SimpleNamespace:
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    return SimpleNamespace(torch=torch)


def _load_drjit() -> SimpleNamespace:
    import drjit
    from drjit.llvm import Float, Float64, Int, TensorXf, UInt

    drjit.set_thread_count(len(os.sched_getaffinity(0)))
    return SimpleNamespace(dr=drjit, Float=Float, Float64=Float64, Int=Int, UInt=UInt, Tensor=TensorXf)


def _drjit_array(lib: SimpleNamespace, a: Any) -> Any:
    if a.ndim != 1:
        return lib.Tensor(a)
    return {"f8": lib.Float64, "i4": lib.Int}.get(a.dtype.str[1:], lib.Float)(a)


def _wait_drjit(lib: SimpleNamespace, out: Any) -> None:
    lib.dr.eval(out)
    lib.dr.sync_thread()


def _load_numba() -> SimpleNamespace:
    import numba
    import numpy

    return SimpleNamespace(numba=numba, np=numpy)


def _load_tinygrad() -> SimpleNamespace:
    import tinygrad

    return SimpleNamespace(Tensor=tinygrad.Tensor, jit=tinygrad.TinyJit, dtypes=tinygrad.dtypes)


def _tinygrad_arrays(lib: SimpleNamespace, arrays: Iterable[Any]) -> list[Any]:
    return [lib.Tensor(a).contiguous().realize() for a in arrays]


def _wait_tinygrad(lib: SimpleNamespace, out: Any) -> None:
    from tinygrad.device import Device

    Device[Device.DEFAULT].synchronize()


def _nothing(lib: SimpleNamespace, out: Any) -> None:
    pass


def _as_they_are(lib: SimpleNamespace, arrays: Iterable[Any]) -> list[Any]:
    return list(arrays)


def _np_arrays(lib: SimpleNamespace, arrays: Iterable[Any]) -> list[Any]:
    return [lib.np.asarray(a) for a in arrays]


def _lamina(name: str) -> System:
    return System(name, _jax_like("lamina"), _np_arrays, _wait_jax_like, _settle_lamina, ("numpy",))


SYSTEMS = {
    s.name: s
    for s in (
        _lamina("lamina"),
        _lamina("before"),
        System("jax", _jax_like("jax"), _np_arrays, _wait_jax_like, packages=("jax",)),
        System("numpy", _load_numpy, _as_they_are, _nothing, packages=("numpy",)),
        System(
            "torch",
            _load_torch,
            lambda lib, arrays: [lib.torch.from_numpy(a) for a in arrays],
            _nothing,
            packages=("torch",),
        ),
        System(
            "drjit",
            _load_drjit,
            lambda lib, arrays: [_drjit_array(lib, a) for a in arrays],
            _wait_drjit,
            packages=("drjit",),
        ),
        System("numba", _load_numba, _as_they_are, _nothing, packages=("numba",)),
        System(
            "tinygrad",
            _load_tinygrad,
            _tinygrad_arrays,
            _wait_tinygrad,
            packages=("tinygrad",),
            environment=(("DEV", "CPU"),),
        ),
    )
}
OWN = ("lamina", "before")  # builds of Lamina


def written_for(name: str) -> str:
    """The system whose programs that one runs: both builds of Lamina run the same."""
    return "lamina" if name in OWN else name
