"""Lamina: array programs recorded lazily, transformed, clustered and compiled.

``import lamina as lm``, ``import lamina.numpy as lnp``. Importing loads neither NumPy nor LLVM.
"""

from lamina import _missing, _tensor, cache, checkpoint_policies, custom_derivatives, tree
from lamina._callback import effects_barrier, io_callback, pure_callback
from lamina._checkpoint import checkpoint
from lamina._checks import checking_leaks, checks, debug_nans, no_tracing
from lamina._core import Tensor
from lamina._custom import closure_convert, custom_gradient, custom_jvp, custom_vjp
from lamina._devices import (
    Device,
    default_backend,
    default_device,
    device_count,
    device_get,
    device_put,
    devices,
    ensure_compile_time_eval,
    named_call,
    named_scope,
)
from lamina._jacobian import hessian, jacfwd, jacrev
from lamina._jit import Jitted, disable_jit, jit
from lamina._numerics import numerics
from lamina._shapes import ShapeDtype, typeof
from lamina._tensor import block_until_ready
from lamina._transforms import (
    eval_shape,
    grad,
    jvp,
    linear_transpose,
    linearize,
    value_and_grad,
    vjp,
    vmap,
)
from lamina.cache import threads
from lamina.checkpoint_policies import checkpoint_name
from lamina.dtypes import default_dtypes

ShapeDtypeStruct, jacobian, remat = ShapeDtype, jacrev, checkpoint
clear_caches = cache.clear_caches
Array = Tensor  # the name that annotations such as jaxtyping's use
_tensor.install()
__version__ = "0.1.0"

__all__ = [
    "Array",
    "Device",
    "Jitted",
    "Ref",
    "ShapeDtype",
    "ShapeDtypeStruct",
    "Tensor",
    "ad_checkpoint",
    "block_until_ready",
    "cache",
    "checking_leaks",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "checks",
    "clear_caches",
    "closure_convert",
    "custom_derivatives",
    "custom_gradient",
    "custom_jvp",
    "custom_vjp",
    "debug",
    "debug_nans",
    "default_backend",
    "default_device",
    "default_dtypes",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "disable_jit",
    "effects_barrier",
    "empty_ref",
    "ensure_compile_time_eval",
    "eval_shape",
    "free_ref",
    "freeze",
    "grad",
    "hessian",
    "io_callback",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jit",
    "jvp",
    "linear_transpose",
    "linearize",
    "make_jaxpr",
    "make_trace",
    "named_call",
    "named_scope",
    "new_ref",
    "no_tracing",
    "numerics",
    "profile",
    "pure_callback",
    "remat",
    "threads",
    "tree",
    "typeof",
    "value_and_grad",
    "vjp",
    "vmap",
]

# Sub-packages load on first use, so that importing stays quick, and so does what reads traces.
__getattr__ = _missing.attributes(
    "lamina",
    (
        "ad_checkpoint",
        "custom_batching",
        "debug",
        "experimental",
        "flatten_util",
        "image",
        "numpy",
        "lax",
        "nn",
        "ops",
        "plans",
        "random",
        "ref",
        "scipy",
        "stablehlo",
        "tree_util",
        "xla_hlo",
    ),
    {
        **dict.fromkeys(("make_jaxpr", "make_trace"), "_traces"),
        **dict.fromkeys(("Ref", "empty_ref", "free_ref", "freeze", "new_ref"), "ref"),
        "profile": "_profile",
    },
)
