"""Defaults and the order of arguments are those of NumPy, SciPy and JAX: a call means the same in each."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import jax.scipy.special
import jax.scipy.stats
import lamina.numpy as lnp
import lamina.scipy.linalg
import lamina.scipy.special
import numpy as np
import pytest
import scipy.linalg
import scipy.special
from lamina import lax, nn, ops, random

MODULES = {
    "numpy": (lnp, [np, jnp]),
    "numpy.linalg": (lnp.linalg, [np.linalg, jnp.linalg]),
    "numpy.fft": (lnp.fft, [np.fft, jnp.fft]),
    "scipy.special": (lamina.scipy.special, [scipy.special, jax.scipy.special]),
    "scipy.linalg": (lamina.scipy.linalg, [scipy.linalg, jax.scipy.linalg]),
    "lax": (lax, [jax.lax]),
    "lax.linalg": (lax.linalg, [jax.lax.linalg]),
    "nn": (nn, [jax.nn]),
    "ops": (ops, [jax.ops]),
    "random": (random, [jax.random]),
}
_SAME = "the same by another name"
_ALWAYS = "sorts are always stable"
_CAST = "`dtype` is what the caller asks for, as in jax.numpy"
_FILL = "fills with zeros where JAX does"
_LIKE = "NumPy's place of `order`, which has no meaning here; JAX's order"
_ORDER = "JAX's order; NumPy's is kept"
# (function, argument): where a default or place differs on purpose.
# Differences from some versions of the libraries only.
OF_SOME_VERSIONS = {
    ("numpy.polyval", "unroll"): "no number depends on it; None since JAX 0.12",
    ("numpy.take_along_axis", "wrap_negative_indices"): "True since JAX 0.12, which is what None means",
    ("scipy.special.sph_harm_y", "diff_n"): "the third is JAX's; 0 since SciPy 1.18",
    ("scipy.linalg.eigvals", "check_finite"): "fourth in SciPy until 1.17 and in JAX",
    ("scipy.linalg.sqrtm", "blocksize"): "of an algorithm that is not used here; not in SciPy 1.18",
}

REASONS = {
    ("numpy.arange", "step"): _SAME,
    ("numpy.argsort", "stable"): _ALWAYS,
    ("numpy.sort", "stable"): _ALWAYS,
    ("numpy.argwhere", "fill_value"): _FILL,
    ("numpy.flatnonzero", "fill_value"): _FILL,
    ("numpy.nonzero", "fill_value"): _FILL,
    ("numpy.astype", "copy"): "NumPy's",
    ("numpy.einsum", "optimize"): "no number depends on it",
    ("numpy.einsum_path", "optimize"): "JAX's name of NumPy's default",
    **{("numpy." + n, "casting"): _CAST for n in ("concat", "concatenate", "stack", "vstack", "hstack")},
    ("nn.scaled_matmul", "preferred_element_type"): _SAME,
    ("numpy.empty_like", "shape"): _LIKE,
    ("numpy.full_like", "shape"): _LIKE,
    ("numpy.ones_like", "shape"): _LIKE,
    ("numpy.zeros_like", "shape"): _LIKE,
    ("numpy.gradient", "edge_order"): _SAME,
    ("numpy.histogram", "density"): _ORDER,
    ("numpy.histogram", "weights"): _ORDER,
    ("numpy.histogram2d", "density"): _ORDER,
    ("numpy.histogram2d", "weights"): _ORDER,
    ("numpy.histogramdd", "density"): _ORDER,
    ("numpy.histogramdd", "weights"): _ORDER,
    ("numpy.permute_dims", "axes"): "without it, as transpose",
    ("numpy.put", "mode"): "inside jit no index raises",
    ("numpy.take", "mode"): "inside jit no index raises",
    ("numpy.copy", "order"): "there is one",
    ("numpy.vectorize", "excluded"): _SAME,
    ("numpy.vectorize", "pyfunc"): "without it, a decorator with options",
    ("numpy.vecdot", "axis"): _SAME,
    ("numpy.isin", "method"): "no number depends on it",
    ("numpy.searchsorted", "method"): "no number depends on it",
    ("numpy.linalg.eigh", "UPLO"): _SAME,
    ("lax.argmax", "index_dtype"): "may be left out",
    ("lax.argmin", "index_dtype"): "may be left out",
    ("lax.rng_bit_generator", "algorithm"): _SAME,
    ("random.bernoulli", "mode"): "None is 'low'",
    ("random.t", "shape"): _SAME,
    ("scipy.linalg.eigh_tridiagonal", "tol"): "of iterations, which are not made here",
    ("scipy.linalg.expm", "max_squarings"): "a limit; SciPy has none",
    ("scipy.linalg.invpascal", "kind"): _SAME,
    ("scipy.linalg.pascal", "kind"): _SAME,
    ("scipy.linalg.solve", "check_finite"): "JAX's and the older SciPy's place",
    ("scipy.linalg.solve", "assume_a"): _SAME,
    **{
        (f"lax.reduce_{n}", "axes"): "may be left out"
        for n in ("and", "max", "min", "or", "prod", "sum", "xor")
    },
}


def _parameters(f):
    try:
        return inspect.signature(f).parameters
    except (TypeError, ValueError):
        return None


def _plain(default):
    """A default for comparison: what stands for no choice is None."""
    if default is None or default is False or type(default) is object:
        return None
    if "no value" in repr(default) or default is np._NoValue:
        return None
    default = default.item() if isinstance(default, np.generic) else default
    return repr(default) if not isinstance(default, (int, float, str)) else default


def differences(where):
    ours, others = MODULES[where]
    for name in getattr(ours, "__all__", None) or [n for n in vars(ours) if not n.startswith("_")]:
        f = getattr(ours, name)
        mine = (
            _parameters(f) if callable(f) and not isinstance(f, type) and not hasattr(f, "itemsize") else None
        )
        for other in others:
            theirs = _parameters(getattr(other, name, None)) if mine else None
            if theirs is None:
                continue
            for key, p in mine.items():
                if key in theirs and key != "dtype" and _plain(p.default) != _plain(theirs[key].default):
                    yield name, key, f"{p.default!r}, {theirs[key].default!r} in {other.__name__}"
            places = [
                [k for k, p in ps.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
                for ps in (mine, theirs)
            ]
            for i, (a, b) in enumerate(zip(*places)):
                if a != b and a in places[1]:
                    yield name, a, f"argument {i}, which is {b} in {other.__name__}"


@pytest.mark.parametrize("where", MODULES)
def test_defaults_and_places(where):
    found = {(f"{where}.{name}", key): text for name, key, text in differences(where)}
    assert not {k: v for k, v in found.items() if k not in REASONS and k not in OF_SOME_VERSIONS}
    unneeded = {k for k in REASONS if k[0].rpartition(".")[0] == where} - set(found)
    assert not unneeded
