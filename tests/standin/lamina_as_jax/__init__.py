"""Lamina under the names of JAX, so that programs and test files written for JAX can be run on it.

``install()`` puts modules ``jax``, ``jax.numpy``, ``jax.lax``, ... into ``sys.modules``. A name is Lamina's own object
of that name, called through one wrapper (`types64`) that gives JAX's element types: 64-bit types exist only while
``jax_enable_x64`` is on, and NumPy's scalars are not weak. Names that Lamina has not are absent here too.

For tests only. README.md beside this package lists where Lamina differs on purpose.
"""

from __future__ import annotations

import gc
import os
import sys
import types


def install() -> None:
    """Registers the modules; once per process. RuntimeError where the real JAX is loaded already."""
    if "jax" in sys.modules:
        if not hasattr(sys.modules["jax"], "_lamina"):
            raise RuntimeError("jax is imported already: install lamina_as_jax before it")
        return
    import lamina._writes
    import lamina.tree

    from lamina_as_jax import (
        adapters,
        checking,
        equations,
        logs,
        modules,
        sharding,
        strictness,
        structures,
        surroundings,
        threefry,
        types64,
    )

    adapters.register_containers()
    lamina.tree.is_open = lambda x: False  # dataclasses are leaves in JAX
    # What a function does to containers among its arguments, it does to copies in JAX.
    lamina._writes._check_containers = lambda *changed: None
    _count_as_library()
    types64.install()
    sharding.install()
    equations.install()
    strictness.operators()
    threefry.install()
    checking.install()
    structures.install()
    logs.install()
    adapters.symbolic_zeros()
    adapters.shown_types()
    modules.install()
    surroundings.installed(sys.modules["jax"].__version__)


def _count_as_library() -> None:
    """Gives the package's functions file names of the library: errors point outside of it, and jit does not watch it."""
    import lamina

    own = os.path.dirname(os.path.abspath(__file__)) + os.sep
    library = os.path.join(os.path.dirname(os.path.abspath(lamina.__file__)), "as_jax")

    def renamed(code: types.CodeType) -> types.CodeType:
        inner = tuple(renamed(c) if isinstance(c, types.CodeType) else c for c in code.co_consts)
        file = os.path.join(library, os.path.basename(code.co_filename))
        return code.replace(co_filename=file, co_consts=inner)

    # All there are by now, those that decorators have made included, which no module holds under a name.
    for f in gc.get_objects():
        if type(f) is types.FunctionType and f.__code__.co_filename.startswith(own):
            f.__code__ = renamed(f.__code__)
