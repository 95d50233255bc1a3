"""Rows as those of table.py, of modules of structured functions: factorizations, transforms, special functions,
windows. What is only known up to a sign or a phase is compared in a form that has none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from row import Row

MATRIX = ("float32", "float64", "complex64")
SQUARE = (((3, 3),), ((2, 3, 3),), ((1, 1),))
VECTORS = (((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (2, 3, 2)))


def adjoint(x: Any) -> Any:
    return x.conj().swapaxes(-1, -2)


def eye(x: Any, scale: float) -> Any:
    return scale * np.eye(x.shape[-1], dtype="float32")


def definite(x: Any) -> Any:
    """Hermitian, with eigenvalues of 2 and more, far from each other."""
    return x @ adjoint(x) + eye(x, 2.0) * np.arange(1, x.shape[-1] + 1, dtype="float32")


def regular(x: Any) -> Any:
    return x + eye(x, 6.0)


def hermitian(x: Any) -> Any:
    return x + adjoint(x) + eye(x, 9.0) * np.arange(x.shape[-1], dtype="float32")


def lower(x: Any) -> Any:
    return regular(x) * np.tri(x.shape[-1], dtype="float32")


def _eigh(f: Any, x: Any) -> Any:
    w, v = f(hermitian(x))
    return w, (v * np.arange(1, x.shape[-1] + 1, dtype="float32")) @ adjoint(v)


def _svd(f: Any, x: Any) -> Any:
    u, s, v = f(x, full_matrices=False)
    k = s.shape[-1]
    return s, (u * np.arange(1, k + 1, dtype="float32")) @ v


def _qr(f: Any, x: Any) -> Any:
    q, r = f(x)
    return q @ adjoint(q) * 0.5, abs(r) ** 2


def _eigvals(f: Any, x: Any) -> Any:
    w = f(hermitian(x) + 0.1 * x)
    return (w**2).sum(-1), w.sum(-1)


LINALG = [
    Row("cholesky", lambda f, x: f(definite(x)), shapes=SQUARE, dtypes=MATRIX, ulps=1024),
    Row("inv det", lambda f, x: f(regular(x)), shapes=SQUARE, dtypes=MATRIX, ulps=4096),
    Row("slogdet", lambda f, x: f(regular(x)), shapes=SQUARE, dtypes=("float32", "float64"), ulps=1024),
    Row("solve", lambda f, a, b: f(regular(a), b), shapes=VECTORS[1:], dtypes=MATRIX, ulps=1024),
    Row("eigh", _eigh, shapes=SQUARE, dtypes=MATRIX, ulps=4096),
    Row("eigvalsh", lambda f, x: f(hermitian(x)), shapes=SQUARE, dtypes=MATRIX, ulps=4096),
    Row("eigvals", _eigvals, shapes=SQUARE, dtypes=MATRIX, order=1, ulps=4096),
    Row("svd", _svd, shapes=(((3, 2),), ((2, 3),), ((2, 3, 3),)), dtypes=MATRIX, ulps=2**14),
    Row("svdvals", shapes=(((3, 2),), ((2, 2, 3),)), dtypes=MATRIX, ulps=2**14),
    Row("qr", _qr, shapes=(((3, 3),), ((4, 2),), ((2, 3, 2),)), dtypes=MATRIX, ulps=4096),
    Row("pinv", shapes=(((3, 2),), ((2, 4),), ((2, 3, 2),)), dtypes=MATRIX, ulps=2**14),
    Row(
        "lstsq",
        lambda f, a, b: f(a, b)[0],
        shapes=(((4, 2), (4,)), ((4, 2), (4, 3))),
        dtypes=MATRIX,
        ulps=2**14,
    ),
    Row("matrix_power", lambda f, x: f(regular(x), 3), shapes=SQUARE, dtypes=MATRIX, ulps=1024),
    Row("matrix_power", lambda f, x: f(regular(x), -2), shapes=SQUARE, dtypes=MATRIX, ulps=1024),
    Row("matrix_norm vector_norm norm", shapes=(((3, 3),), ((2, 3),)), dtypes=MATRIX, ulps=256),
    Row("norm", lambda f, x: f(x, "nuc"), shapes=(((3, 2),),), dtypes=("float32", "float64"), ulps=2**14),
    Row("norm", lambda f, x: f(x, 2), shapes=(((3, 2),),), dtypes=("float32", "float64"), ulps=2**14),
    Row("norm", lambda f, x: f(x, 3, -1), shapes=(((3, 2),),), dtypes=MATRIX, ulps=256),
    Row("cond", lambda f, x: f(regular(x)), shapes=SQUARE[:2], dtypes=("float32", "float64"), ulps=2**14),
    Row(
        "multi_dot",
        lambda f, x, y, z: f([x, y, z]),
        shapes=(((2, 3), (3, 4), (4, 2)),),
        dtypes=MATRIX,
        ulps=256,
    ),
    Row(
        "tensorinv",
        lambda f, x: f(regular(x).reshape(2, 2, 4), ind=2),
        shapes=(((4, 4),),),
        dtypes=MATRIX,
        ulps=1024,
    ),
    Row(
        "tensorsolve",
        lambda f, a, b: f(regular(a).reshape(2, 2, 2, 2), b.reshape(2, 2)),
        shapes=(((4, 4), (4,)),),
        dtypes=MATRIX,
        ulps=1024,
    ),
    Row("trace diagonal", shapes=SQUARE, dtypes=MATRIX),
    Row("matrix_transpose", shapes=SQUARE, dtypes=MATRIX),
    Row("outer", shapes=(((3,), (2,)),), dtypes=MATRIX),
    Row("cross vecdot", shapes=(((2, 3), (2, 3)),), dtypes=MATRIX, ulps=64),
    Row("matmul", shapes=(((2, 3, 3), (2, 3, 2)),), dtypes=MATRIX, ulps=64),
    Row("tensordot", lambda f, x, y: f(x, y, axes=1), shapes=(((2, 3), (3, 2)),), dtypes=MATRIX, ulps=64),
]

SCIPY_LINALG = [
    Row("cholesky", lambda f, x: f(definite(x), lower=True), shapes=SQUARE, dtypes=MATRIX, ulps=1024),
    Row("inv det", lambda f, x: f(regular(x)), shapes=SQUARE[::2], dtypes=MATRIX, ulps=4096),
    # Complex ones are right here (finite differences) and wrong in JAX 0.10.
    Row(
        "solve",
        lambda f, a, b: f(definite(a), b, assume_a="pos"),
        shapes=VECTORS[:2],
        dtypes=("float32", "float64"),
        ulps=4096,
    ),
    Row("solve", lambda f, a, b: f(regular(a), b), shapes=VECTORS[:2], dtypes=MATRIX, ulps=1024),
    Row(
        "solve_triangular",
        lambda f, a, b: f(lower(a), b, lower=True),
        shapes=VECTORS[:2],
        dtypes=MATRIX,
        ulps=1024,
    ),
    Row(
        "solve_triangular",
        lambda f, a, b: f(lower(a), b, trans="C", lower=True),
        shapes=VECTORS[:2],
        dtypes=MATRIX,
        ulps=1024,
    ),
    Row("eigh", _eigh, shapes=SQUARE[:1], dtypes=MATRIX, ulps=4096),
    Row("svd", _svd, shapes=(((3, 2),),), dtypes=MATRIX, ulps=2**14),
    Row("expm", lambda f, x: f(0.5 * x), shapes=SQUARE, dtypes=MATRIX, ulps=4096),
    Row(
        "expm_frechet",
        lambda f, x, e: f(0.5 * x, e),
        shapes=(((3, 3), (3, 3)),),
        dtypes=("float32", "float64"),
        ulps=4096,
    ),
    Row("lu", lambda f, x: f(regular(x)), shapes=SQUARE[::2], dtypes=MATRIX, ulps=1024),
    Row("lu_factor", lambda f, x: f(regular(x))[0], shapes=SQUARE, dtypes=MATRIX, ulps=1024),
    Row(
        "qr",
        lambda f, x: _qr(lambda a: f(a, mode="economic"), x),
        shapes=(((4, 2),),),
        dtypes=MATRIX,
        ulps=4096,
    ),
    Row("block_diag", shapes=(((2, 3), (1, 2)),), dtypes=MATRIX),
    Row("toeplitz", shapes=(((3,), (4,)),), dtypes=("float32", "float64")),
    Row(
        "sqrtm",
        lambda f, x: f(definite(x)),
        shapes=(((3, 3),),),
        dtypes=("float32", "float64"),
        order=0,
        vmap=False,
        ulps=2**14,
    ),
    Row("polar", shapes=(((3, 3),),), dtypes=("float32", "float64"), order=0, ulps=2**14),
    Row(
        "funm",
        lambda f, x: f(definite(x), lambda y: y**0.5),
        shapes=(((3, 3),),),
        dtypes=("float32", "float64"),
        order=0,
        vmap=False,
        jit=False,
        ulps=2**14,
    ),
]

LENGTHS = (((4,),), ((2, 5),), ((1,),))
PLANES = (((3, 4),), ((2, 3, 5),))
FFT = [
    Row("fft ifft", shapes=LENGTHS, dtypes=MATRIX, ulps=256),
    Row("fft ifft", lambda f, x: f(x, 6, 0, "ortho"), shapes=LENGTHS, dtypes=MATRIX, ulps=256),
    Row("rfft ihfft", shapes=LENGTHS, dtypes=("float32", "float64"), ulps=256),
    Row("irfft hfft", lambda f, x: f(x, 5), shapes=LENGTHS[:2], dtypes=("complex64",), ulps=256),
    Row(
        "irfft hfft",
        lambda f, x: f(x, 6),
        shapes=LENGTHS[:2],
        dtypes=("complex64", "float32", "float64"),
        ulps=256,
    ),
    Row("fft2 ifft2 fftn ifftn", shapes=PLANES, dtypes=MATRIX, ulps=256),
    Row("rfft2 rfftn", shapes=PLANES, dtypes=("float32", "float64"), ulps=256),
    Row("irfft2 irfftn", shapes=PLANES, dtypes=("complex64",), ulps=256),
    Row("fftshift ifftshift", shapes=LENGTHS, dtypes=MATRIX),
    Row("fftfreq rfftfreq", lambda f: f(5, 0.5), shapes=((),), dtypes=("float32",), order=0, vmap=False),
]

POSITIVE: dict[str, Any] = {"low": 0.3, "high": 3.0, "dtypes": ("float32", "float64"), "ulps": 4096}
PAIRS = (((2, 3), (2, 3)), ((3,), ()))
SPECIAL = [
    Row("erf erfc i0 i0e i1 i1e expit ndtr log_ndtr", dtypes=("float32", "float64"), ulps=1024),
    Row("erfinv", dtypes=("float32", "float64"), low=-0.9, high=0.9, ulps=1024),
    Row("logit ndtri", dtypes=("float32", "float64"), low=0.1, high=0.9, ulps=1024),
    Row("digamma gammaln gamma loggamma entr", **POSITIVE),
    # JAX does not differentiate these twice.
    Row("exp1", **{**POSITIVE, "order": 1}),
    Row("expn", lambda f, x: f(2, x), **{**POSITIVE, "order": 1}),
    Row("expi", low=0.5, high=3.0, dtypes=("float32", "float64"), ulps=4096),
    Row("factorial spence", **{**POSITIVE, "order": 0}),
    Row("polygamma", lambda f, x: f(1, x), **POSITIVE),
    Row("multigammaln", lambda f, x: f(x + 2.0, 2), **POSITIVE),
    Row("beta betaln xlogy xlog1py kl_div rel_entr", shapes=PAIRS, **POSITIVE),
    Row("zeta", lambda f, x, q: f(x + 2.0, q), shapes=PAIRS, **{**POSITIVE, "order": 0}),
    Row("poch", shapes=PAIRS, **{**POSITIVE, "order": 1}),
    Row("gammainc gammaincc", shapes=PAIRS, **{**POSITIVE, "order": 1, "ulps": 2**14}),
    Row(
        "betainc",
        lambda f, a, b, x: f(a, b, x / 4.0),
        shapes=(((3,), (3,), (3,)),),
        **{**POSITIVE, "order": 0},
    ),
    Row("logsumexp softmax log_softmax", shapes=(((2, 3),),), dtypes=("float32", "float64"), ulps=256),
    Row(
        "logsumexp",
        lambda f, x, b: f(x, 1, b),
        shapes=(((2, 3), (2, 3)),),
        low=0.3,
        high=2.0,
        dtypes=("float32", "float64"),
        ulps=256,
    ),
]

# Of images in channels last order of dimensions: two of four by five elements.
CONVOLUTION = (((2, 3, 4, 5), (4, 3, 2, 3)),)


def _lanes(f: Any, x: Any, w: Any) -> Any:
    return f(x, w, (1, 2), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))


LAX = [
    Row("conv", lambda f, x, w: f(x, w, (1, 1), "VALID"), shapes=CONVOLUTION, dtypes=MATRIX, ulps=256),
    Row("conv_general_dilated", _lanes, shapes=CONVOLUTION, dtypes=MATRIX, ulps=256),
    Row(
        "conv_general_dilated",
        lambda f, x, w: f(
            x, w, (2, 1), [(1, 2), (0, 1)], (2, 1), (1, 2), ("NHWC", "HWIO", "NHWC"), feature_group_count=2
        ),
        shapes=(((1, 3, 4, 4), (2, 2, 2, 4)),),
        dtypes=MATRIX,
        ulps=256,
    ),
    Row(
        "conv_general_dilated",
        lambda f, x, w: f(x, w, (1,), "SAME", batch_group_count=2),
        shapes=(((4, 3, 5), (2, 3, 3)),),
        dtypes=("float32", "float64"),
        ulps=256,
    ),
    Row(
        "conv_transpose",
        lambda f, x, w: f(x, w, (2,), "SAME"),
        shapes=(((1, 4, 3), (2, 3, 2)),),
        dtypes=("float32", "float64"),
        ulps=256,
    ),
    Row(
        "dot_general",
        lambda f, x, y: f(x, y, (((2,), (1,)), ((0,), (2,)))),
        shapes=(((2, 3, 4), (5, 4, 2)),),
        dtypes=MATRIX,
        ulps=64,
    ),
    Row("dynamic_update_slice", lambda f, x, y: f(x, y, (1, 2)), shapes=(((3, 4), (2, 2)),), dtypes=MATRIX),
    Row(
        "dynamic_update_slice_in_dim",
        lambda f, x, y: f(x, y, 1, 1),
        shapes=(((3, 4), (3, 2)),),
        dtypes=MATRIX,
    ),
    Row(
        "dynamic_update_index_in_dim", lambda f, x, y: f(x, y, 1, 1), shapes=(((3, 4), (3,)),), dtypes=MATRIX
    ),
    Row("sort_key_val", shapes=(((5,), (5,)),), dtypes=("float32", "float64")),
]

ROWS = {
    "numpy.linalg": LINALG,
    "numpy.fft": FFT,
    "scipy.linalg": SCIPY_LINALG,
    "scipy.special": SPECIAL,
}
