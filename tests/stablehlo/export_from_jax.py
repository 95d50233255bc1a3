"""Functions of JAX to export: name -> (function, arguments, relative tolerance).

``python export_from_jax.py DIR`` writes each as DIR/name.mlir.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Case = tuple[Callable[..., Any], tuple[Any, ...], float]

_rng = np.random.default_rng(7)
# One rounding of the last place or two: the same formula, other last bits.
CLOSE = 4e-6
# Long sums and products of rounded values.
LOOSE = 2e-4
EXACT = 0.0


def words(text: str) -> list[str]:
    return text.split()


def f32(*shape: int) -> np.ndarray:
    return _rng.standard_normal(shape).astype(np.float32)


def unit(*shape: int) -> np.ndarray:
    return _rng.uniform(0.05, 0.95, shape).astype(np.float32)


def i32(*shape: int, low: int = -9, high: int = 9) -> np.ndarray:
    return _rng.integers(low, high, shape).astype(np.int32)


def c64(*shape: int) -> np.ndarray:
    return (f32(*shape) + 1j * f32(*shape)).astype(np.complex64)


X, Y, P = f32(3, 4), f32(3, 4), unit(3, 4)
V, W = f32(7), f32(7)
SQUARE = f32(5, 5) + 3 * np.eye(5, dtype=np.float32)
POSITIVE = (SQUARE @ SQUARE.T).astype(np.float32)
KEY = np.array([3, 4], np.uint32)


def elementwise() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for name in words(
        "abs ceil cos cosh exp expm1 exp2 floor fabs negative positive rint round sign sin sinh square tan tanh "
        "sqrt log log1p log2 log10 cbrt reciprocal arctan arcsinh deg2rad isfinite isnan isinf signbit nan_to_num "
        "sinc i0 trunc spacing"
    ):
        if hasattr(jnp, name):
            x = P if name in ("sqrt", "log", "log1p", "log2", "log10", "reciprocal") else X
            cases[name] = (getattr(jnp, name), (x,), CLOSE)
    for name in words("arccos arcsin arctanh"):
        cases[name] = (getattr(jnp, name), (P,), CLOSE)
    cases["arccosh"] = (jnp.arccosh, (1 + P,), CLOSE)
    for name in words(
        "add subtract multiply divide maximum minimum power arctan2 hypot logaddexp logaddexp2 fmod mod remainder "
        "floor_divide copysign nextafter fmax fmin heaviside equal not_equal less less_equal greater greater_equal"
    ):
        cases[name] = (getattr(jnp, name), (P, unit(3, 4)), CLOSE)
    for name in words(
        "bitwise_and bitwise_or bitwise_xor left_shift right_shift floor_divide remainder gcd lcm power_int"
    ):
        f = jnp.power if name == "power_int" else getattr(jnp, name)
        cases["i32_" + name] = (f, (i32(3, 4), i32(3, 4, low=1, high=5)), EXACT)
    cases["integer_pow"] = (lambda x: x**5 + x**-2, (P,), CLOSE)
    cases["invert"] = (jnp.invert, (i32(5),), EXACT)
    cases["population_count"] = (lax.population_count, (i32(5),), EXACT)
    cases["mulhi"] = (lax.mulhi, (i32(5) * 2**27, i32(5) * 2**26), EXACT)
    cases["clz"] = (lax.clz, (i32(5),), EXACT)
    cases["clip"] = (lambda x: jnp.clip(x, -0.5, 0.5), (X,), EXACT)
    cases["where"] = (jnp.where, (X > 0, X, Y), EXACT)
    cases["reduce_precision"] = (lambda x: lax.reduce_precision(x, 5, 10), (X,), EXACT)
    cases["rsqrt"] = (lax.rsqrt, (P,), CLOSE)
    cases["logistic"] = (lax.logistic, (X,), CLOSE)
    cases["bf16_chain"] = (lambda x: (x.astype(jnp.bfloat16) * 3 + 1).astype(jnp.float32), (X,), 1e-2)
    cases["f16_exp"] = (lambda x: jnp.exp(x.astype(jnp.float16)), (X,), 2e-3)
    cases["convert_int"] = (lambda x: (x * 10).astype(jnp.int8), (X,), EXACT)
    cases["bitcast"] = (lambda x: lax.bitcast_convert_type(x, jnp.int32), (X,), EXACT)
    cases["bitcast_narrow"] = (lambda x: lax.bitcast_convert_type(x, jnp.uint8), (X,), EXACT)
    cases["bitcast_wide"] = (
        lambda x: lax.bitcast_convert_type(x, jnp.uint32),
        (i32(3, 2).astype(np.uint16),),
        EXACT,
    )
    cases["nan_constants"] = (lambda x: jnp.stack([x * jnp.nan, x + jnp.inf, x * -0.0]), (X,), EXACT)
    for name in words("erf erfc erf_inv lgamma digamma bessel_i1e bessel_i0e"):
        cases[name] = (getattr(lax, name), (P,), 2e-5)
    complex_ops = words(
        "abs exp log sin cos tan tanh sqrt conjugate real imag angle negative square log1p expm1"
    )
    for name in complex_ops:
        cases["c64_" + name] = (getattr(jnp, name), (c64(3, 4),), 2e-5)
    for name in words("arccos arcsin arctan arccosh arcsinh arctanh cosh sinh"):
        cases["c64_" + name] = (
            getattr(jnp, name),
            (np.append(c64(9), [0.5 + 0j, -2 + 0j, 3j]).astype(np.complex64),),
            2e-5,
        )
    cases["c64_arith"] = (lambda a, b: (a * b - a / b) ** 2, (c64(4), c64(4)), 2e-5)
    return cases


def shapes() -> dict[str, Case]:
    big = f32(2, 3, 4)
    return {
        "reshape": (lambda x: x.reshape(4, 3), (X,), EXACT),
        "transpose": (lambda x: x.transpose(2, 0, 1), (big,), EXACT),
        "concatenate": (lambda x, y: jnp.concatenate([x, y], 1), (X, Y), EXACT),
        "stack": (lambda x, y: jnp.stack([x, y]), (X, Y), EXACT),
        "split": (lambda x: jnp.split(x, 2, 1), (X,), EXACT),
        "pad_edge": (lambda x: jnp.pad(x, ((1, 2), (0, 1)), "edge"), (X,), EXACT),
        "pad_reflect": (lambda x: jnp.pad(x, 2, "reflect"), (X,), EXACT),
        "lax_pad": (lambda x: lax.pad(x, np.float32(1), ((1, -1, 2), (0, 3, 0))), (X,), EXACT),
        "flip": (lambda x: jnp.flip(x, 0), (X,), EXACT),
        "roll": (lambda x: jnp.roll(x, 2, 1), (X,), EXACT),
        "rot90": (jnp.rot90, (X,), EXACT),
        "tile": (lambda x: jnp.tile(x, (2, 3)), (X,), EXACT),
        "repeat": (lambda x: jnp.repeat(x, 3, 1), (X,), EXACT),
        "squeeze": (lambda x: jnp.squeeze(x[:1], 0), (X,), EXACT),
        "strided": (lambda x: x[::2, 1::2], (X,), EXACT),
        "negative_stride": (lambda x: x[::-1, ::-2], (X,), EXACT),
        "eye": (lambda x: x @ jnp.eye(4), (X,), EXACT),
        "arange": (lambda x: x + jnp.arange(4.0), (X,), EXACT),
        "linspace": (lambda x: x + jnp.linspace(0.0, 1.0, 4), (X,), CLOSE),
        "tril_triu": (lambda x: (jnp.tril(x), jnp.triu(x, 1)), (SQUARE,), EXACT),
        "diag": (lambda x: jnp.diag(jnp.diag(x)), (SQUARE,), EXACT),
        "meshgrid": (lambda x, y: jnp.meshgrid(x, y), (V, W), EXACT),
        "constant_matrix": (lambda x: x + np.arange(12, dtype=np.float32).reshape(3, 4) / 7, (X,), EXACT),
        "large_constant": (lambda x: x + np.linspace(0, 1, 4096, dtype=np.float32), (f32(4096),), EXACT),
        "bool_constant": (lambda x: jnp.where(np.arange(700) % 3 == 0, x, 0), (f32(700),), EXACT),
        "int_constants": (
            lambda x: x + np.array([[-128], [127], [0]], np.int8),
            (i32(3, 1).astype(np.int8),),
            EXACT,
        ),
        "u32_constant": (
            lambda x: x ^ np.array([0, 2**32 - 1], np.uint32),
            (np.array([1, 2], np.uint32),),
            EXACT,
        ),
        "complex_constant": (lambda x: x * np.array([1 + 2j, -3j], np.complex64), (c64(2),), CLOSE),
        "f16_constant": (lambda x: x * np.array([0.1, -2.5], np.float16), (f32(2).astype(np.float16),), 2e-3),
        "empty": (lambda x: jnp.concatenate([x, jnp.zeros((0, 4))]), (X,), EXACT),
        "tokens": (lambda x: lax.optimization_barrier((x, x + 1)), (X,), EXACT),
        "broadcast_to": (lambda x: jnp.broadcast_to(x[:, None, :], (3, 2, 4)), (X,), EXACT),
    }


def reductions() -> dict[str, Case]:
    cases: dict[str, Case] = {}
    for name in words("sum prod max min mean var std any all argmax argmin nansum nanmax median ptp"):
        for axis in (None, 1):
            cases[f"{name}_{axis}"] = (partial(getattr(jnp, name), axis=axis), (X,), CLOSE)
    for name in words("cumsum cumprod"):
        cases[name] = (partial(getattr(jnp, name), axis=1), (f32(3, 40),), 2e-5)
    for name in words("cumsum cumprod cummax cummin cumlogsumexp"):
        cases["lax_" + name] = (partial(getattr(lax, name), axis=0), (f32(9, 3),), 2e-5)
    cases |= {
        "sort": (lambda x: jnp.sort(x, 0), (X,), EXACT),
        "argsort": (lambda x: jnp.argsort(x, 1), (X,), EXACT),
        "sort_two": (lambda x, y: lax.sort((x, y), num_keys=2), (i32(9), i32(9)), EXACT),
        "top_k": (lambda x: lax.top_k(x, 2), (X,), EXACT),
        "approx_max_k": (lambda x: lax.approx_max_k(x, 2), (X,), EXACT),
        "searchsorted": (lambda x, y: jnp.searchsorted(jnp.sort(x), y), (V, W), EXACT),
        "bincount": (lambda x: jnp.bincount(x, length=9), (i32(20, low=0),), EXACT),
        "histogram": (lambda x: jnp.histogram(x, 5)[0], (V,), EXACT),
        "percentile": (lambda x: jnp.percentile(x, 30.0), (V,), CLOSE),
        "logsumexp": (lambda x: jax.nn.logsumexp(x, 1), (X,), CLOSE),
        "norm": (lambda x: jnp.linalg.norm(x), (X,), CLOSE),
        "reduce_window_sum": (
            lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 2), "SAME"),
            (X,),
            CLOSE,
        ),
        "max_pool": (
            lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID"),
            (f32(4, 6),),
            EXACT,
        ),
        "max_pool_grad": (
            jax.grad(
                lambda x: jnp.sum(lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID") ** 2)
            ),
            (f32(4, 6),),
            CLOSE,
        ),
        "reduce_and": (lambda x: lax.reduce_and(x > 0, (0,)), (X,), EXACT),
        "reduce_xor": (lambda x: lax.reduce_xor(x, (0,)), (i32(5, 3),), EXACT),
        "segment_sum": (lambda x, i: jax.ops.segment_sum(x, i, 4), (f32(10), i32(10, low=0, high=4)), CLOSE),
        "unique": (lambda x: jnp.unique(x, size=5), (i32(12),), EXACT),
        "trapezoid": (jnp.trapezoid, (V,), CLOSE),
        "diff": (jnp.diff, (V,), EXACT),
    }
    return cases


def indexing() -> dict[str, Case]:
    i = i32(5, low=0, high=3)
    return {
        "take": (lambda x, i: x[i], (X, i), EXACT),
        "take_axis1": (lambda x, i: jnp.take(x, i, axis=1), (X, i), EXACT),
        "take_along_axis": (lambda x, i: jnp.take_along_axis(x, i, 1), (X, i32(3, 2, low=0, high=4)), EXACT),
        "two_indices": (lambda x, i: x[i, i], (X, i), EXACT),
        "dynamic_index": (lambda x, k: x[k], (X, np.int32(2)), EXACT),
        "dynamic_slice": (lambda x, k: lax.dynamic_slice(x, (k, 1), (2, 2)), (X, np.int32(9)), EXACT),
        "dynamic_update": (lambda x, k: lax.dynamic_update_slice(x, x[:1], (k, 0)), (X, np.int32(1)), EXACT),
        "at_set": (lambda x, i: x.at[i].set(1.0), (X, np.array([2, 0], np.int32)), EXACT),
        "at_add": (lambda x, i: x.at[i].add(2.0), (X, i), CLOSE),
        "at_mul": (lambda x, i: x.at[i].multiply(2.0), (X, i), CLOSE),
        "at_min": (lambda x, i: x.at[i].min(0.0), (X, i), EXACT),
        "at_max_2d": (lambda x, i: x.at[i, i].max(0.0), (X, i), EXACT),
        "one_hot": (lambda i: jax.nn.one_hot(i, 4), (i,), EXACT),
        "gather_fill": (
            lambda x, i: x.at[i].get(mode="fill", fill_value=-1),
            (V, np.array([9, 1], np.int32)),
            EXACT,
        ),
        "vmap_take": (lambda x, i: jax.vmap(lambda a, k: a[k])(x, i), (X, i32(3, low=0, high=4)), EXACT),
        "vmap_scatter": (
            lambda x, i: jax.vmap(lambda a, k: a.at[k].add(1))(x, i),
            (X, i32(3, low=0, high=4)),
            EXACT,
        ),
        "choose": (
            lambda i, a, b: jnp.choose(i, [a, b], mode="clip"),
            (i32(4, low=0, high=2), f32(4), f32(4)),
            EXACT,
        ),
        "nonzero": (lambda x: jnp.nonzero(x > 0, size=12, fill_value=-1), (X,), EXACT),
        "select_n": (lambda k, x, y: lax.select_n(k > 0, x, y), (X, X, Y), EXACT),
    }


def linear() -> dict[str, Case]:
    image, kernel = f32(2, 9, 9, 3), f32(3, 3, 3, 4)
    conv = lambda x, k, **kw: lax.conv_general_dilated(  # noqa: E731
        x,
        k,
        **{"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": ("NHWC", "HWIO", "NHWC"), **kw},
    )
    return {
        "matmul": (jnp.matmul, (f32(5, 6), f32(6, 7)), CLOSE),
        "vecdot": (jnp.dot, (V, W), CLOSE),
        "matvec": (jnp.dot, (f32(5, 7), V), CLOSE),
        "batched_matmul": (jnp.matmul, (f32(3, 4, 5), f32(3, 5, 2)), CLOSE),
        "einsum": (lambda a, b: jnp.einsum("bij,bkj->bik", a, b), (f32(2, 3, 4), f32(2, 5, 4)), CLOSE),
        "tensordot": (lambda a, b: jnp.tensordot(a, b, 2), (f32(2, 3, 4), f32(3, 4, 5)), CLOSE),
        "outer": (jnp.outer, (V, W), EXACT),
        "int_matmul": (jnp.matmul, (i32(3, 4), i32(4, 2)), EXACT),
        "bf16_matmul": (
            lambda a, b: jnp.matmul(
                a.astype(jnp.bfloat16), b.astype(jnp.bfloat16), preferred_element_type=jnp.float32
            ),
            (f32(5, 6), f32(6, 7)),
            CLOSE,
        ),
        "complex_matmul": (jnp.matmul, (c64(3, 4), c64(4, 2)), CLOSE),
        "conv": (conv, (image, kernel), CLOSE),
        "conv_stride": (
            lambda x, k: conv(x, k, window_strides=(2, 1), padding="VALID"),
            (image, kernel),
            CLOSE,
        ),
        "conv_dilated": (lambda x, k: conv(x, k, rhs_dilation=(2, 2)), (image, kernel), CLOSE),
        "conv_transposed": (
            lambda x, k: lax.conv_transpose(x, k, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")),
            (image, kernel),
            CLOSE,
        ),
        "conv_grouped": (lambda x, k: conv(x, k, feature_group_count=3), (image, f32(3, 3, 1, 6)), CLOSE),
        "conv_nchw": (
            lambda x, k: lax.conv(x, k, (1, 1), "SAME"),
            (f32(2, 3, 8, 8), f32(4, 3, 3, 3)),
            CLOSE,
        ),
        "conv_1d": (lambda x, k: jnp.convolve(x, k), (V, f32(3)), CLOSE),
        "conv_grad": (jax.grad(lambda k, x: jnp.sum(conv(x, k) ** 2)), (kernel, image), LOOSE),
    }


def spectrum(x):
    """Values, and what does not depend on the choice of vectors."""
    values, v = jnp.linalg.eigh(x)
    adjoint = jnp.swapaxes(v, -1, -2).conj()
    return values, (v * values[..., None, :]) @ adjoint, adjoint @ v


def ordered_spectrum(x):
    """Values by real and imaginary part, and how well the vectors belong to them."""
    w, v = jnp.linalg.eig(x)
    return (
        jnp.sort(w.real),
        jnp.sort(jnp.abs(w.imag)),
        jnp.abs(x @ v - v * w) + 1,
        jnp.sum(jnp.abs(v) ** 2, 0),
    )


def left_spectrum(x):
    w, u, _ = lax.linalg.eig(x, compute_left_eigenvectors=True, compute_right_eigenvectors=True)
    adjoint = jnp.swapaxes(u, -1, -2).conj()
    return (
        jnp.sort(w.real, -1),
        jnp.sort(jnp.abs(w.imag), -1),
        jnp.abs(adjoint @ x - w[..., None] * adjoint) + 1,
    )


def schur_parts(x):
    t, q = lax.linalg.schur(x)
    return q @ t @ q.conj().T, q.conj().T @ q, jnp.tril(t, -1), jnp.sort(jnp.diag(t))


def rebuilt(x, full=False):
    """Singular values, the matrix made of them, and how far the vectors are from orthogonal."""
    u, s, v = jnp.linalg.svd(x, full_matrices=full)
    k = s.shape[-1]
    square = lambda a: jnp.swapaxes(a, -1, -2).conj() @ a  # noqa: E731
    return s, (u[..., :, :k] * s[..., None, :]) @ v[..., :k, :], square(u), square(jnp.swapaxes(v, -1, -2))


def factorizations() -> dict[str, Case]:
    return {
        "cholesky": (jnp.linalg.cholesky, (POSITIVE,), LOOSE),
        "solve": (jnp.linalg.solve, (SQUARE, f32(5)), LOOSE),
        "inv": (jnp.linalg.inv, (SQUARE,), LOOSE),
        "det": (jnp.linalg.det, (SQUARE,), LOOSE),
        "slogdet": (jnp.linalg.slogdet, (SQUARE,), LOOSE),
        "triangular_solve": (
            lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True),
            (SQUARE, f32(5, 2)),
            LOOSE,
        ),
        "qr": (jnp.linalg.qr, (SQUARE,), LOOSE),
        "eigvalsh": (jnp.linalg.eigvalsh, (POSITIVE,), LOOSE),
        "eigh": (spectrum, (POSITIVE,), LOOSE),
        "eigh_complex": (spectrum, (c64(6, 6),), LOOSE),
        "eigh_batched": (spectrum, (np.stack([POSITIVE, SQUARE + SQUARE.T]),), LOOSE),
        "eigh_grad": (jax.grad(lambda x: jnp.linalg.eigh(x)[0][-1]), (POSITIVE,), LOOSE),
        "eig": (ordered_spectrum, (f32(6, 6),), LOOSE),
        "eig_complex": (ordered_spectrum, (c64(5, 5),), LOOSE),
        "eig_left": (left_spectrum, (f32(2, 4, 4),), LOOSE),
        "roots": (lambda p: jnp.sort(jnp.abs(jnp.roots(p, strip_zeros=False))), (f32(6),), LOOSE),
        "schur": (schur_parts, (c64(5, 5),), LOOSE),
        "sqrtm": (jax.scipy.linalg.sqrtm, (POSITIVE,), LOOSE),
        "svd_values": (lambda x: jnp.linalg.svd(x, compute_uv=False), (SQUARE,), LOOSE),
        "svd": (rebuilt, (f32(7, 4),), LOOSE),
        "svd_wide": (rebuilt, (f32(2, 3, 5),), LOOSE),
        "svd_full": (partial(rebuilt, full=True), (f32(6, 4),), LOOSE),
        "svd_complex": (rebuilt, (c64(4, 5),), LOOSE),
        "svd_rank_one": (rebuilt, (np.outer(V, W),), LOOSE),
        "pinv": (jnp.linalg.pinv, (f32(6, 4),), LOOSE),
        "lstsq": (lambda a, b: jnp.linalg.lstsq(a, b)[0], (f32(6, 4), f32(6)), LOOSE),
        "matrix_rank": (jnp.linalg.matrix_rank, (np.outer(V, W),), EXACT),
        "cond_number": (jnp.linalg.cond, (SQUARE,), LOOSE),
        "lu": (jax.scipy.linalg.lu, (SQUARE,), LOOSE),
        "cho_solve": (
            lambda a, b: jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(a), True), b),
            (POSITIVE, f32(5)),
            LOOSE,
        ),
        "batched_solve": (jnp.linalg.solve, (np.stack([SQUARE, SQUARE.T]), f32(2, 5, 1)), LOOSE),
        "solve_grad": (jax.grad(lambda a, b: jnp.sum(jnp.linalg.solve(a, b))), (SQUARE, f32(5)), LOOSE),
        "matrix_power": (lambda x: jnp.linalg.matrix_power(x / 4, 3), (SQUARE,), LOOSE),
        "expm": (lambda x: jax.scipy.linalg.expm(x / 4), (SQUARE,), LOOSE),
        "fft": (jnp.fft.fft, (c64(3, 12),), LOOSE),
        "ifft": (jnp.fft.ifft, (c64(3, 7),), LOOSE),
        "rfft": (jnp.fft.rfft, (f32(3, 8),), LOOSE),
        "irfft": (jnp.fft.irfft, (c64(3, 5),), LOOSE),
        "fft2": (jnp.fft.fft2, (c64(4, 6),), LOOSE),
        "rfft2": (jnp.fft.rfft2, (f32(2, 5, 9),), LOOSE),
        "irfftn": (lambda x: jnp.fft.irfftn(x, (4, 5, 7)), (c64(4, 5, 4),), LOOSE),
        "fft_long": (jnp.fft.fft, (c64(2, 4 * 27 * 35),), LOOSE),
        "fft_prime": (jnp.fft.fft, (c64(2, 2 * 127),), LOOSE),
        "fft_grad": (jax.grad(lambda x: jnp.sum(jnp.abs(jnp.fft.rfft(x)) ** 2)), (f32(2, 90),), LOOSE),
        "qr_tall": (lambda x: jnp.linalg.qr(x), (f32(2, 7, 3),), LOOSE),
        "qr_complete": (lambda x: jnp.linalg.qr(x, mode="complete"), (f32(5, 3),), LOOSE),
        "qr_complex": (jnp.linalg.qr, (c64(4, 4),), LOOSE),
        "lu_wide": (jax.scipy.linalg.lu, (f32(3, 6),), LOOSE),
        "lu_tall": (jax.scipy.linalg.lu, (f32(6, 3),), LOOSE),
        "lu_complex": (jax.scipy.linalg.lu, (c64(5, 5),), LOOSE),
        "cholesky_batched": (jnp.linalg.cholesky, (np.stack([POSITIVE, 2 * POSITIVE]),), LOOSE),
        "cholesky_not_positive": (jnp.linalg.cholesky, (-POSITIVE,), LOOSE),
        "solve_right": (
            lambda a, b: lax.linalg.triangular_solve(a, b, left_side=False, transpose_a=True, lower=True),
            (SQUARE, f32(2, 5)),
            LOOSE,
        ),
        "solve_unit_upper": (
            lambda a, b: lax.linalg.triangular_solve(a / 9, b, left_side=True, unit_diagonal=True),
            (SQUARE, f32(5, 2)),
            LOOSE,
        ),
        "singular": (jnp.linalg.inv, (np.zeros((3, 3), np.float32),), LOOSE),
        "lstsq_by_qr": (
            lambda a, b: jax.scipy.linalg.solve_triangular(jnp.linalg.qr(a)[1], jnp.linalg.qr(a)[0].T @ b),
            (f32(7, 3), f32(7)),
            LOOSE,
        ),
    }


def weighted(f: Callable[..., Any]) -> Callable[..., Any]:
    def total(x):
        y = f(x)
        return jnp.sum(y * jnp.arange(1.0, 1 + y.size).reshape(y.shape))

    return total


def networks() -> dict[str, Case]:
    x, w, b = f32(8, 6), f32(6, 3), f32(3)
    cases: dict[str, Case] = {}
    for name in words(
        "relu relu6 gelu silu elu selu celu leaky_relu softplus soft_sign sigmoid log_sigmoid hard_tanh hard_sigmoid "
        "hard_silu softmax log_softmax glu standardize mish squareplus"
    ):
        cases["nn_" + name] = (getattr(jax.nn, name), (X,), 1e-5)
        cases["grad_" + name] = (jax.grad(weighted(getattr(jax.nn, name))), (X,), LOOSE)

    def loss(w, b, x):
        return jnp.mean((jnp.tanh(x @ w + b) - 0.5) ** 2)

    def attention(q, k, v):
        return jax.nn.softmax(q @ jnp.swapaxes(k, -1, -2) / 2.0, -1) @ v

    cases |= {
        "loss_grad": (jax.grad(loss, (0, 1)), (w, b, x), LOOSE),
        "loss_value_and_grad": (jax.value_and_grad(loss), (w, b, x), LOOSE),
        "hessian": (jax.hessian(lambda v: jnp.sum(jnp.sin(v) * v**2)), (V,), LOOSE),
        "jacobian": (jax.jacfwd(lambda v: jnp.cumsum(jnp.exp(v))), (V,), LOOSE),
        "attention": (attention, (f32(2, 4, 8), f32(2, 4, 8), f32(2, 4, 8)), CLOSE),
        "attention_grad": (
            jax.grad(lambda *a: jnp.sum(attention(*a) ** 2), (0, 1, 2)),
            (f32(2, 4, 8), f32(2, 4, 8), f32(2, 4, 8)),
            LOOSE,
        ),
        "dot_product_attention": (jax.nn.dot_product_attention, (f32(2, 4, 2, 8),) * 3, LOOSE),
        "vmap_loss": (jax.vmap(loss, (None, None, 0)), (w, b, x), LOOSE),
        "layer_norm_grad": (
            jax.grad(
                lambda x: jnp.sum(
                    ((x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)) ** 3
                )
            ),
            (X,),
            LOOSE,
        ),
        "cross_entropy": (
            jax.grad(lambda x: -jnp.mean(jax.nn.log_softmax(x)[jnp.arange(3), jnp.array([0, 3, 1])])),
            (X,),
            LOOSE,
        ),
        "checkpoint": (
            jax.grad(lambda x: jnp.sum(jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x))),
            (X,),
            LOOSE,
        ),
        "custom_jvp": (jax.grad(lambda x: jnp.sum(jax.nn.relu(x) ** 2)), (X,), CLOSE),
    }
    return cases


def control() -> dict[str, Case]:
    def scanned(x):
        return lax.scan(lambda c, y: (c * 0.5 + y, jnp.sin(c)), x[0], x)

    def newton(x):
        return lax.fori_loop(0, 8, lambda i, y: 0.5 * (y + x / y), x)

    def collatz(n):
        return lax.while_loop(
            lambda s: s[0] > 1,
            lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1),
            (n, 0),
        )

    return {
        "scan": (scanned, (X,), CLOSE),
        "scan_grad": (jax.grad(lambda x: jnp.sum(scanned(x)[1])), (X,), LOOSE),
        "scan_reverse": (lambda x: lax.scan(lambda c, y: (c + y, c * y), x[0], x, reverse=True), (X,), CLOSE),
        "fori": (newton, (P,), CLOSE),
        "while": (collatz, (np.int32(27),), EXACT),
        "vmap_while": (jax.vmap(collatz), (i32(4, low=2, high=20),), EXACT),
        "cond": (lambda p, x: lax.cond(p > 0, jnp.sin, jnp.cos, x), (np.float32(-1), X), CLOSE),
        "cond_captures": (lambda p, x, y: lax.cond(p, lambda: x + y, lambda: x * y), (np.True_, X, Y), CLOSE),
        "switch": (lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tanh], x), (np.int32(7), X), CLOSE),
        "cond_grad": (
            jax.grad(lambda x: lax.cond(x[0, 0] > 0, lambda: jnp.sum(x**2), lambda: jnp.sum(x**3))),
            (X,),
            CLOSE,
        ),
        "nested_loops": (
            lambda x: lax.fori_loop(0, 3, lambda i, a: lax.fori_loop(0, i, lambda j, b: b * 0.5 + x, a), x),
            (V,),
            CLOSE,
        ),
        "associative_scan": (lambda x: lax.associative_scan(jnp.add, x), (f32(11),), 2e-5),
        "map": (lambda x: lax.map(lambda r: jnp.sum(r) * r, x), (X,), CLOSE),
        "inner_jit": (
            lambda x: jax.jit(lambda y: jax.jit(jnp.sin)(y) + jax.jit(jnp.sin)(2 * y))(x),
            (X,),
            CLOSE,
        ),
        "odeint": (
            lambda x: jax.experimental.ode.odeint(lambda y, t: -y * t, x, jnp.linspace(0.0, 1.0, 3)),
            (V[:2],),
            LOOSE,
        ),
    }


def random() -> dict[str, Case]:
    r = jax.random
    return {
        "random_bits": (lambda k: r.bits(k, (5,)), (KEY,), EXACT),
        "random_split": (lambda k: r.split(k, 3), (KEY,), EXACT),
        "random_fold_in": (lambda k: r.fold_in(k, 7), (KEY,), EXACT),
        "random_uniform": (lambda k: r.uniform(k, (3, 4)), (KEY,), EXACT),
        "random_normal": (lambda k: r.normal(k, (3, 4)), (KEY,), 2e-5),
        "random_randint": (lambda k: r.randint(k, (7,), 0, 100), (KEY,), EXACT),
        "random_bernoulli": (lambda k: r.bernoulli(k, 0.3, (9,)), (KEY,), EXACT),
        "random_permutation": (lambda k: r.permutation(k, 9), (KEY,), EXACT),
        "random_categorical": (lambda k, x: r.categorical(k, x), (KEY, X), EXACT),
        "random_gumbel": (lambda k: r.gumbel(k, (5,)), (KEY,), 2e-5),
        "random_exponential": (lambda k: r.exponential(k, (5,)), (KEY,), 2e-5),
        "random_gamma": (lambda k: r.gamma(k, 2.0, (5,)), (KEY,), 2e-4),
        "random_truncated": (lambda k: r.truncated_normal(k, -1.0, 1.0, (5,)), (KEY,), 2e-4),
        "random_choice": (lambda k: r.choice(k, 5, (3,)), (KEY,), EXACT),
        "random_laplace": (lambda k: r.laplace(k, (5,)), (KEY,), 2e-4),
        "random_dropout": (lambda k, x: jnp.where(r.bernoulli(k, 0.5, x.shape), x * 2, 0), (KEY, X), EXACT),
    }


def scipy() -> dict[str, Case]:
    s = jax.scipy.special
    cases: dict[str, Case] = {}
    for name in words(
        "erf erfc erfinv expit gammaln digamma logit xlogy xlog1py entr i0e i1e i0 i1 ndtr ndtri log_ndtr"
    ):
        two = name in ("xlogy", "xlog1py")
        cases["special_" + name] = (getattr(s, name), (P, unit(3, 4))[: 1 + two], 3e-5)
    cases |= {
        "special_gammainc": (s.gammainc, (1 + P, P), 1e-4),
        "special_betainc": (s.betainc, (1 + P, 1 + P, P), 1e-4),
        "special_zeta": (s.zeta, (2 + P, 1 + P), 1e-4),
        "special_polygamma": (lambda x: s.polygamma(1, x), (1 + P,), 1e-4),
        "special_expi": (s.expi, (P,), 1e-4),
        "stats_norm_logpdf": (jax.scipy.stats.norm.logpdf, (X,), CLOSE),
        "stats_gamma_logpdf": (lambda x: jax.scipy.stats.gamma.logpdf(x, 2.0), (P,), 1e-4),
        "signal_convolve": (lambda x, k: jax.scipy.signal.convolve(x, k, mode="same"), (V, f32(3)), CLOSE),
        "map_coordinates": (
            lambda x: jax.scipy.ndimage.map_coordinates(x, [jnp.array([0.5, 1.2]), jnp.array([0.1, 2.7])], 1),
            (X,),
            CLOSE,
        ),
    }
    return cases


def all_cases() -> dict[str, Case]:
    import jax.experimental.ode  # noqa: F401

    cases: dict[str, Case] = {}
    for family in (
        elementwise,
        shapes,
        reductions,
        indexing,
        linear,
        factorizations,
        networks,
        control,
        random,
        scipy,
    ):
        cases |= family()
    return cases


def export(f: Callable[..., Any], args: tuple[Any, ...]) -> str:
    return jax.export.export(jax.jit(f))(*args).mlir_module()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (f, args, _) in all_cases().items():
        (folder / f"{name}.mlir").write_text(export(f, args))
