"""One row per public function: how to call it in either library, on what, and how near the results must be.

A row's `call` gets the module (ours or the oracle's) and the arguments. The oracle is JAX's module of the same name:
with 64-bit types only where an argument has them, since ours never cuts them. `INTENDED` lists where we differ on
purpose, `NOT_YET` what has no row and why.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import structured_rows
from row import FLOATS, Row

REALS = ("float32", "float64", "int32")
INTEGERS = ("int32", "uint8")
ANY = ("float32", "float64", "bfloat16", "int32", "bool")
COMPLEX = (*FLOATS, "complex64")
# Shapes of two arguments that are broadcast against each other.
TWO = (((2, 3), (2, 3)), ((), (3,)), ((2, 1), (1, 3)), ((0, 3), (3,)))
ROW = (((2, 3),), ((1, 4),))


def _axis(f: Any, x: Any) -> Any:
    return f(x, -1)


NUMPY = [
    Row(
        "exp exp2 expm1 sin cos tanh sinh cosh arctan atan arcsinh asinh square", dtypes=(*REALS, "bfloat16")
    ),
    Row("tan", low=-1.2, high=1.2, ulps=64),
    Row("log log2 log10 sqrt log1p cbrt reciprocal", dtypes=(*FLOATS, "int32"), low=0.6, high=4.0),
    Row("arcsin arccos asin acos arctanh atanh", low=-0.7, high=0.7),
    Row("arccosh acosh", low=1.5, high=4.0, ulps=64),
    Row("sinc", ulps=64),
    Row(
        "negative absolute abs positive",
        dtypes=("float32", "float64", "bfloat16", "int32", "complex64"),
        order=1,
    ),
    Row("fabs degrees rad2deg radians deg2rad", dtypes=(*FLOATS, "int32")),
    Row("sign floor ceil trunc rint", dtypes=FLOATS, order=1),
    Row("round around", dtypes=FLOATS, order=0),
    Row("conj conjugate real imag", dtypes=("float32", "complex64"), order=0),
    Row("isnan isinf isfinite isposinf isneginf signbit", dtypes=FLOATS, order=0),
    Row("isreal iscomplex", dtypes=("float32", "complex64"), order=0),
    Row("logical_not", dtypes=ANY, order=0),
    Row("invert bitwise_not bitwise_invert", dtypes=(*INTEGERS, "bool"), order=0),
    Row("nan_to_num", dtypes=FLOATS, order=1),
    Row("modf frexp", dtypes=("float32", "float64"), order=0),
    Row(
        "add subtract multiply",
        dtypes=("float32", "float64", "bfloat16", "int32", "complex64"),
        shapes=TWO,
        weak=True,
    ),
    Row("divide true_divide", dtypes=(*FLOATS, "int32"), shapes=TWO, low=0.6, high=3.0, weak=True),
    Row("maximum minimum fmax fmin", dtypes=(*FLOATS, "int32"), shapes=TWO, weak=True),
    Row("power pow float_power", shapes=TWO, low=0.6, high=2.0, dtypes=("float32", "float64"), ulps=64),
    Row(
        "arctan2 atan2 hypot logaddexp logaddexp2",
        shapes=TWO,
        dtypes=("float32", "float64"),
        low=0.3,
        ulps=64,
    ),
    Row("remainder mod fmod", shapes=TWO, dtypes=("float32", "float64"), low=0.6, high=3.0, order=1),
    Row("floor_divide", shapes=TWO, dtypes=("float32", "float64", "int32"), low=1.0, high=3.0, order=0),
    Row("copysign heaviside", shapes=TWO, dtypes=("float32", "float64"), order=1),
    Row("nextafter", shapes=TWO, dtypes=("float32", "float64"), order=0),
    Row("ldexp", lambda f, x: f(x, 3), dtypes=("float32", "float64")),
    Row(
        "equal not_equal less less_equal greater greater_equal", dtypes=REALS, shapes=TWO, order=0, weak=True
    ),
    Row("logical_and logical_or logical_xor", dtypes=ANY, shapes=TWO, order=0),
    Row("bitwise_and bitwise_or bitwise_xor", dtypes=(*INTEGERS, "bool"), shapes=TWO, order=0),
    Row(
        "left_shift right_shift bitwise_left_shift bitwise_right_shift",
        dtypes=INTEGERS,
        shapes=TWO,
        order=0,
        low=1.0,
    ),
    Row("gcd lcm", dtypes=("int32",), shapes=TWO, order=0, low=1, high=9),
    Row("isclose", dtypes=("float32",), shapes=TWO, order=0),
    Row(
        "allclose array_equal array_equiv",
        dtypes=("float32",),
        shapes=TWO[:1],
        order=0,
        vmap=False,
        jit=False,
    ),
    Row("sum mean", dtypes=("float32", "float64", "bfloat16"), ulps=64),
    Row("prod", dtypes=("float32", "float64"), ulps=64),
    Row("sum mean max min var std prod any all ptp argmax argmin", _axis, shapes=ROW, ulps=256, order=0),
    Row("max min amax amin ptp", shapes=ROW, dtypes=("float32", "float64")),
    Row("var std", shapes=ROW, dtypes=("float32", "float64"), ulps=256),
    Row("argmax argmin any all count_nonzero", shapes=ROW, dtypes=("float32", "int32"), order=0),
    Row("median", shapes=ROW, dtypes=("float32", "float64")),
    Row("average", shapes=ROW, dtypes=("float32", "float64"), ulps=64),
    Row("quantile", lambda f, x: f(x, 0.3), shapes=ROW, dtypes=("float32", "float64"), ulps=64),
    Row("percentile", lambda f, x: f(x, 30.0), shapes=ROW, dtypes=("float32", "float64"), ulps=64),
    Row("nansum nanmean nanprod nanmax nanmin", shapes=ROW, dtypes=("float32", "float64"), ulps=64),
    Row("nanvar nanstd nanmedian", shapes=ROW, dtypes=("float32", "float64"), ulps=256),
    Row("nanargmax nanargmin", shapes=ROW, dtypes=("float32",), order=0, jit=False, vmap=False),
    Row("nanquantile", lambda f, x: f(x, 0.3), shapes=ROW, dtypes=("float32", "float64"), ulps=64),
    Row("nanpercentile", lambda f, x: f(x, 30.0), shapes=ROW, dtypes=("float32", "float64"), ulps=64),
    Row("cumsum cumprod nancumsum nancumprod", _axis, shapes=ROW, ulps=64),
    Row("cumulative_sum cumulative_prod", lambda f, x: f(x, axis=-1), shapes=ROW, ulps=64),
    Row("diff", shapes=ROW),
    Row("ediff1d", shapes=ROW, order=1),
    Row("trapezoid", shapes=ROW, dtypes=("float32", "float64"), ulps=64),
    Row("gradient", lambda f, x: f(x, axis=1), shapes=ROW, dtypes=("float32", "float64")),
    Row("cov", shapes=ROW[:1], dtypes=("float32", "float64"), ulps=256),
    Row("sort", shapes=ROW, dtypes=("float32", "float64", "int32")),
    Row("argsort", shapes=ROW, dtypes=("float32", "int32"), order=0),
    Row("partition argpartition", lambda f, x: f(x, 1)[..., 1], shapes=ROW[:1], dtypes=("float32",), order=0),
    Row("ravel transpose matrix_transpose flip fliplr flipud", shapes=ROW, dtypes=COMPLEX),
    Row("squeeze atleast_1d atleast_2d atleast_3d copy array asarray", dtypes=COMPLEX),
    Row("expand_dims", lambda f, x: f(x, 0)),
    Row("permute_dims", lambda f, x: f(x, (1, 0)), shapes=ROW, dtypes=COMPLEX),
    Row("reshape", lambda f, x: f(x, (-1, 1)), shapes=ROW),
    Row("swapaxes moveaxis", lambda f, x: f(x, 0, 1), shapes=ROW),
    Row("rollaxis", lambda f, x: f(x, 1), shapes=ROW),
    Row("roll repeat tile", lambda f, x: f(x, 2), shapes=ROW),
    Row("rot90 tril triu trace diagonal", shapes=ROW),
    Row("diag diagflat vander", shapes=(((3,),),), dtypes=("float32", "float64"), low=0.5),
    Row("broadcast_to", lambda f, x: f(x, (4, 2, 3)), shapes=ROW[:1]),
    Row("pad", lambda f, x: f(x, 1), shapes=ROW),
    Row("clip", lambda f, x: f(x, -1, 1), dtypes=(*FLOATS, "int32")),
    Row("where", lambda f, x, y: f(x > 0, x, y), shapes=TWO),
    Row(
        "concatenate concat stack vstack hstack dstack column_stack",
        lambda f, x, y: f([x, y]),
        shapes=TWO[:1],
    ),
    Row("append", lambda f, x, y: f(x, y), shapes=TWO[:1]),
    Row("split array_split", lambda f, x: f(x, 2), shapes=(((4, 3),),), dtypes=("float32",)),
    Row("take", lambda f, x: f(x, 1, axis=1), shapes=ROW),
    Row("insert", lambda f, x: f(x, 1, 2.0, axis=1), shapes=ROW),
    Row("delete", lambda f, x: f(x, 1, axis=1), shapes=ROW),
    Row("dot inner matmul vecdot vdot", shapes=(((3,), (3,)),), dtypes=("float32", "float64"), ulps=256),
    Row("outer kron cross", shapes=(((3,), (3,)),), dtypes=("float32", "float64"), ulps=256),
    Row("matmul dot", shapes=(((2, 3), (3, 4)), ((0, 3), (3, 4))), dtypes=("float32", "float64"), ulps=256),
    Row("matvec", shapes=(((2, 3), (3,)),), dtypes=("float32", "float64"), ulps=256),
    Row("vecmat", shapes=(((2,), (2, 3)),), dtypes=("float32", "float64"), ulps=256),
    Row("tensordot", lambda f, x, y: f(x, y, 1), shapes=(((2, 3), (3, 2)),), dtypes=("float32",), ulps=256),
    Row(
        "einsum",
        lambda f, x, y: f("ij,jk->ki", x, y),
        shapes=(((2, 3), (3, 2)),),
        dtypes=("float32",),
        ulps=256,
    ),
    Row("convolve correlate polymul", shapes=(((4,), (3,)),), dtypes=("float32", "float64"), ulps=256),
    Row("polyadd", shapes=(((4,), (3,)),), dtypes=("float32", "float64")),
    Row("polyder", shapes=(((4,),),), dtypes=("float32",)),
    Row("polyval", lambda f, p, x: f(p, x), shapes=(((3,), (2,)),), dtypes=("float32", "float64"), ulps=64),
    Row("ones_like zeros_like", dtypes=ANY, order=0),
    Row("full_like", lambda f, x: f(x, 2), dtypes=ANY, order=0),
    Row("searchsorted digitize", lambda f, x: f(x, x), shapes=(((1,),),), dtypes=("float32",), order=0),
    Row("angle bitwise_count", dtypes=("int32",), order=0),
    Row("corrcoef", shapes=ROW[:1], dtypes=("float32", "float64"), ulps=4096),
    Row("divmod", shapes=TWO, dtypes=("float32", "int32"), low=1.0, high=3.0, order=0),
    Row("meshgrid broadcast_arrays", lambda f, x, y: f(x, y), shapes=(((3,), (1,)),), dtypes=("float32",)),
    Row("hsplit vsplit", lambda f, x: f(x, 2), shapes=(((2, 4),),), dtypes=("float32",)),
    Row("dsplit", lambda f, x: f(x, 2), shapes=(((1, 2, 4),),), dtypes=("float32",)),
    Row("unstack", shapes=ROW[:1], dtypes=("float32",), order=0),
    Row(
        "interp",
        lambda f, x, y: f(x, np.array([-1.0, 0.0, 1.0], np.float32), y),
        shapes=(((4,), (3,)),),
        dtypes=("float32",),
        order=1,
        ulps=64,
    ),
    Row("select", lambda f, x, y: f([x > 1, y > 0], [x, y]), shapes=TWO[:1], dtypes=("float32",)),
    Row("take_along_axis", lambda f, x: f(x, np.array([[1], [0]]), 1), shapes=ROW[:1], dtypes=("float32",)),
    Row("compress", lambda f, x: f(np.array([True, False]), x, axis=0), shapes=ROW[:1], dtypes=("float32",)),
    Row(
        "flatnonzero argwhere nonzero unique",
        shapes=ROW[:1],
        dtypes=("float32",),
        order=0,
        vmap=False,
        jit=False,
    ),
    Row("isin", lambda f, x: f(x, x), shapes=ROW[:1], dtypes=("int32",), order=0),
    Row("ones zeros", lambda f: f((2, 3)), shapes=((),), dtypes=("float32",), order=0, vmap=False),
    Row("full", lambda f: f((2, 3), 0.5), shapes=((),), dtypes=("float32",), order=0, vmap=False),
    Row(
        "arange eye identity tri hamming hanning blackman",
        lambda f: f(5),
        shapes=((),),
        dtypes=("float32",),
        order=0,
        vmap=False,
    ),
    Row(
        "linspace logspace", lambda f: f(0.0, 1.0, 5), shapes=((),), dtypes=("float32",), order=0, vmap=False
    ),
    Row("geomspace", lambda f: f(1.0, 8.0, 4), shapes=((),), dtypes=("float32",), order=0, vmap=False),
    Row("indices", lambda f: f((2, 3)), shapes=((),), dtypes=("float32",), order=0, vmap=False),
    Row(
        "tril_indices triu_indices diag_indices",
        lambda f: f(3),
        shapes=((),),
        dtypes=("float32",),
        order=0,
        vmap=False,
    ),
    Row("bartlett", lambda f: f(5), shapes=((),), dtypes=("float32",), order=0, vmap=False),
    Row("kaiser", lambda f: f(5, 3.0), shapes=((),), dtypes=("float32",), order=0, vmap=False, ulps=64),
    Row("tril_indices_from triu_indices_from", shapes=(((3, 3),),), dtypes=("float32",), order=0, vmap=False),
    Row("diag_indices_from", shapes=(((3, 3),),), dtypes=("float32",), order=0, vmap=False),
    Row("i0", dtypes=("float32", "float64"), ulps=64),
    Row("spacing", dtypes=("float32",), low=0.1, order=0),
    Row("polyint", shapes=(((3,),),), dtypes=("float32", "float64")),
    Row("polysub", shapes=(((4,), (3,)),), dtypes=("float32", "float64")),
    Row("polydiv", shapes=(((4,), (2,)),), dtypes=("float32", "float64"), low=0.6, order=0, ulps=256),
    Row("packbits unpackbits", shapes=(((2, 8),),), dtypes=("uint8",), order=0),
    Row("unwrap", shapes=(((5,),),), dtypes=("float32", "float64"), order=1, ulps=64),
    Row(
        "unique_counts unique_inverse unique_all",
        shapes=ROW[:1],
        dtypes=("float32",),
        order=0,
        vmap=False,
        jit=False,
    ),
]
LAX = [
    Row("exp expm1 sin cos tanh sinh cosh atan asinh logistic erf erfc square"),
    Row("exp2", dtypes=("float32", "float64")),
    Row("tan", low=-1.2, high=1.2, ulps=64),
    Row("log log1p sqrt rsqrt cbrt reciprocal lgamma digamma", low=0.6, high=4.0, ulps=1024),
    Row("asin acos atanh erf_inv", low=-0.7, high=0.7, ulps=256),
    Row("acosh", low=1.5, high=4.0, ulps=64),
    Row("neg abs", dtypes=(*FLOATS, "int32", "complex64"), order=1),
    Row("sign floor ceil round is_finite", order=0),
    Row("real imag conj", dtypes=("complex64",), order=0),
    Row("bitwise_not population_count clz", dtypes=INTEGERS, order=0),
    Row("add sub mul max min", shapes=TWO[:1], dtypes=(*FLOATS, "int32")),
    Row("div", shapes=TWO[:1], low=0.6),
    Row("rem", shapes=TWO[:1], low=0.6, order=1),
    Row("pow atan2", shapes=TWO[:1], dtypes=("float32", "float64"), low=0.6, ulps=64),
    Row("nextafter", shapes=TWO[:1], dtypes=("float32", "float64"), order=0),
    Row("complex", shapes=TWO[:1], dtypes=("float32",), order=0),
    Row("eq ne lt le gt ge", shapes=TWO[:1], dtypes=REALS, order=0),
    Row("bitwise_and bitwise_or bitwise_xor", shapes=TWO[:1], dtypes=INTEGERS, order=0),
    Row(
        "shift_left shift_right_logical shift_right_arithmetic",
        shapes=TWO[:1],
        dtypes=INTEGERS,
        low=1,
        order=0,
    ),
    Row("integer_pow", lambda f, x: f(x, 3)),
    Row("clamp", lambda f, x: f(-1.0, x, 1.0), dtypes=("float32",)),
    Row("select", lambda f, x, y: f(x > 0, x, y), shapes=TWO[:1]),
    Row("cumsum cumprod cummax cummin cumlogsumexp", shapes=ROW, dtypes=("float32", "float64"), ulps=256),
    Row("sort", shapes=ROW, dtypes=("float32", "float64", "int32")),
    Row("argmax argmin", lambda f, x: f(x, 1, "int32"), shapes=ROW, dtypes=("float32",), order=0),
    Row(
        "reduce_max reduce_min reduce_sum reduce_prod",
        lambda f, x: f(x, (0,)),
        shapes=ROW,
        dtypes=("float32",),
        ulps=64,
    ),
    Row("reduce_and reduce_or reduce_xor", lambda f, x: f(x, (0,)), shapes=ROW, dtypes=INTEGERS, order=0),
    Row("rev expand_dims", lambda f, x: f(x, (0,)), shapes=ROW),
    Row("transpose", lambda f, x: f(x, (1, 0)), shapes=ROW),
    Row("reshape", lambda f, x: f(x, (x.size,)), shapes=ROW),
    Row("squeeze", lambda f, x: f(x, (0,)), shapes=ROW[1:]),
    Row("broadcast", lambda f, x: f(x, (2,)), shapes=ROW),
    Row("dot", shapes=(((2, 3), (3, 2)),), dtypes=("float32", "float64"), ulps=256),
    Row("stop_gradient", order=1),
    Row("iota", lambda f: f("int32", 4), shapes=((),), dtypes=("float32",), order=0, vmap=False),
    Row("full", lambda f: f((2, 3), 0.5), shapes=((),), dtypes=("float32",), order=0, vmap=False),
    Row("slice", lambda f, x: f(x, (0, 1), (2, 3)), shapes=ROW[:1], dtypes=("float32",)),
    Row("slice_in_dim", lambda f, x: f(x, 1, 3, axis=1), shapes=ROW, dtypes=("float32",)),
    Row("dynamic_slice_in_dim", lambda f, x: f(x, 1, 2, axis=1), shapes=ROW, dtypes=("float32",)),
    Row("dynamic_slice", lambda f, x: f(x, (0, 1), (1, 2)), shapes=ROW, dtypes=("float32",)),
    Row("dynamic_index_in_dim index_in_dim", lambda f, x: f(x, 1, axis=1), shapes=ROW, dtypes=("float32",)),
    Row(
        "dynamic_update_slice",
        lambda f, x, y: f(x, y, (0, 1)),
        shapes=(((2, 3), (1, 2)),),
        dtypes=("float32",),
    ),
    Row("pad", lambda f, x: f(x, 0.0 * x[0, 0], ((1, 0, 0), (0, 1, 1))), shapes=ROW, dtypes=("float32",)),
    Row("split", lambda f, x: f(x, (1, 2), 1), shapes=ROW[:1], dtypes=("float32",)),
    Row("concatenate", lambda f, x, y: f([x, y], 0), shapes=TWO[:1], dtypes=("float32",)),
    Row("collapse", lambda f, x: f(x, 0, 2), shapes=ROW, dtypes=("float32",)),
    Row(
        "convert_element_type",
        lambda f, x: f(x, "float32"),
        shapes=ROW,
        dtypes=("float32", "int32", "bfloat16"),
    ),
    Row("reduce_precision", lambda f, x: f(x, 5, 10), shapes=ROW, dtypes=("float32",), order=1),
    Row("select_n", lambda f, x, y: f(x > 0, x, y), shapes=TWO[:1], dtypes=("float32",)),
    Row("top_k", lambda f, x: f(x, 2), shapes=ROW, dtypes=("float32",), order=0),
    Row("tile", lambda f, x: f(x, (2, 1)), shapes=ROW, dtypes=("float32",)),
    Row("broadcast_in_dim", lambda f, x: f(x, (2, 2, 3), (1, 2)), shapes=ROW[:1], dtypes=("float32",)),
    Row("full_like", lambda f, x: f(x, 2.0), dtypes=("float32",), order=0),
    Row("optimization_barrier", dtypes=("float32",)),
    Row("bessel_i0e bessel_i1e", low=0.5, high=4.0, dtypes=("float32", "float64"), order=1, ulps=256),
    Row(
        "igamma igammac", shapes=TWO[:1], low=0.6, high=3.0, dtypes=("float32", "float64"), order=0, ulps=1024
    ),
    Row(
        "igamma_grad_a random_gamma_grad",
        shapes=TWO[:1],
        low=0.6,
        high=3.0,
        dtypes=("float64",),
        order=0,
        ulps=1e5,
    ),
    Row(
        "zeta", lambda f, x: f(x + 2, x), low=0.6, high=3.0, dtypes=("float32", "float64"), order=0, ulps=1024
    ),
    Row(
        "polygamma",
        lambda f, x: f(x * 0 + 1, x),
        low=0.6,
        high=3.0,
        dtypes=("float32", "float64"),
        order=0,
        ulps=1024,
    ),
    Row(
        "betainc",
        lambda f, x: f(x, x + 1, x / 4),
        low=0.6,
        high=3.0,
        dtypes=("float32", "float64"),
        order=0,
        ulps=1024,
    ),
    Row("mulhi", dtypes=("int32", "uint8"), shapes=TWO[:1], order=0),
    Row("batch_matmul", shapes=(((2, 2, 3), (2, 3, 2)),), dtypes=("float32",), ulps=256),
]
NN = [
    Row(
        "relu relu6 sigmoid softplus log_sigmoid silu swish mish soft_sign tanh hard_tanh hard_sigmoid",
        ulps=64,
    ),
    Row(
        "hard_silu hard_swish elu celu selu leaky_relu gelu squareplus sparse_plus sparse_sigmoid identity",
        ulps=64,
    ),
    Row("softmax log_softmax logsumexp logmeanexp", shapes=ROW, dtypes=("float32", "float64"), ulps=256),
    Row("standardize", shapes=ROW[:1], dtypes=("float32", "float64"), ulps=4096),
    Row("log1mexp", low=0.5, high=4.0, dtypes=("float32", "float64"), ulps=64),
    Row("glu", shapes=(((2, 4),),), dtypes=("float32", "float64"), ulps=64),
    Row("one_hot", lambda f, x: f(x, 3), dtypes=("int32",), order=0),
]
ROWS = {**structured_rows.ROWS, "numpy": NUMPY, "lax": LAX + structured_rows.LAX, "nn": NN}

# (function, element type): where our result type is not JAX's, on purpose.
INTENDED_TYPES: dict[tuple[str, str], str] = {
    ("numpy.argmax", "float64"): "positions are int32, whatever the elements are",
    ("numpy.argmin", "float64"): "positions are int32, whatever the elements are",
}


def _because(reason: str, names: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), reason)


ELSEWHERE = "its arguments are functions or several structures: tests/python compares it with JAX"
NOT_YET: dict[str, dict[str, str]] = {
    "numpy": {
        **_because(
            "about text and files",
            "array_repr array_str get_printoptions set_printoptions printoptions load save savez "
            "fromfile fromiter fromstring",
        ),
        **_because("predicate of Python objects", "iterable"),
        **_because("tests/python compares it with NumPy", "poly polyfit roots astype"),
        **_because(
            ELSEWHERE,
            "apply_along_axis apply_over_axes vectorize frompyfunc mask_indices copyto place putmask fromfunction "
            "piecewise block choose put put_along_axis fill_diagonal",
        ),
        **_because(
            "about types and shapes, no array out",
            "can_cast isdtype issubdtype promote_types result_type ndim shape size __array_namespace_info__ "
            "dtype broadcast_shapes iscomplexobj isrealobj isscalar einsum_path",
        ),
        **_because(
            "the result's shape depends on values",
            "extract intersect1d setdiff1d setxor1d trim_zeros union1d unique_values",
        ),
        **_because("uninitialized in NumPy", "empty empty_like"),
        **_because("reads memory of others", "from_dlpack frombuffer"),
        **_because("not in JAX: twins of trunc and asarray", "fix asanyarray ascontiguousarray"),
        **_because(
            "tests/python/test_numpy_functions.py compares it with NumPy",
            "bincount histogram histogram2d histogramdd histogram_bin_edges ix_ "
            "lexsort ravel_multi_index resize sort_complex unravel_index",
        ),
    },
    "lax": {
        **_because(
            "tests/python/test_named_axes.py compares it with JAX inside vmap",
            "all_gather all_to_all axis_index axis_size pbroadcast pmax pmean pmin ppermute pshuffle psum psum_scatter "
            "pswapaxes",
        ),
        **_because(
            ELSEWHERE,
            "associative_scan cond fori_loop map reduce reduce_window scan select_and_scatter switch "
            "custom_linear_solve custom_root platform_dependent "
            "while_loop scatter_sub scatter scatter_add scatter_apply scatter_max scatter_min scatter_mul gather",
        ),
        **_because(
            "tests/python/test_lax_ops.py compares it with JAX",
            "avg_pool bitcast_convert_type broadcasted_iota approx_max_k approx_min_k stack unstack max_pool "
            "conv_dimension_numbers conv_general_dilated_local conv_general_dilated_patches ragged_dot "
            "ragged_dot_general conv_with_general_padding padtype_to_pads",
        ),
        **_because("tests/python/test_jax_parameters.py compares it with JAX", "scaled_dot"),
        **_because(
            "no counterpart in jax.lax",
            "broadcast_shapes is_nan broadcast_to_rank dtype empty with_sharding_constraint",
        ),
        **_because(
            "tests/stablehlo/test_told_to_compilers.py and tests/python/test_lax_names.py",
            "composite dce_sink shape_as_value",
        ),
        **_because("bits of its own", "rng_bit_generator"),
        **_because("numpy.fft, which its own tests compare with NumPy", "fft"),
    },
    "random": {
        **_because("makes or reads keys", "PRNGKey clone fold_in key key_data key_impl split wrap_key_data"),
        **_because(
            "tests/python/test_random.py compares it with JAX",
            "ball binomial bits categorical choice dirichlet multinomial permutation poisson randint "
            "multivariate_normal orthogonal",
        ),
    },
    "numpy.linalg": _because("tests/python/test_linalg.py compares it with NumPy", "eig matrix_rank"),
    "numpy.fft": {},
    "scipy.linalg": _because(
        "tests/python/test_scipy_linalg.py compares it with SciPy",
        "cho_factor cho_solve circulant companion convolution_matrix coshm cosm dft eig eigh_tridiagonal eigvals "
        "eigvalsh fiedler fiedler_companion hadamard hankel helmert hessenberg hilbert invhilbert invpascal leslie "
        "lstsq lu_solve norm pascal pinv qr_multiply rsf2csf schur sinhm sinm solve_sylvester svdvals",
    ),
    "scipy.special": _because(
        "tests/python/test_special.py compares it with SciPy and mpmath",
        "bernoulli bessel_jn boxcox boxcox1p comb dawsn erfcinv erfcx exprel fresnel gammasgn huber hyp1f1 hyp2f1 "
        "log_expit lpmn lpmn_values owens_t psi rgamma sici sinc sph_harm_y wofz",
    ),
    "nn": {
        **_because("tests/python/test_nn.py compares it with products and softmax", "dot_product_attention"),
        **_because("tests/python/test_jax_parameters.py compares it with products", "scaled_matmul"),
    },
}
