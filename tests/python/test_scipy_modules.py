"""scipy.signal, fft, ndimage, interpolate, integrate and cluster against SciPy (JAX where it differs on purpose):
plain, jit and vmap, gradients against finite differences.
"""

from __future__ import annotations

import re

import jax.numpy as jnp
import jax.scipy.ndimage
import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest
import scipy.cluster.vq
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.ndimage
import scipy.signal
import scipy.stats
from lamina.scipy import cluster, fft, integrate, interpolate, ndimage, optimize, signal, stats
from lamina.scipy.sparse import linalg as sparse_linalg
from lamina.scipy.sparse.linalg import lobpcg_standard

RNG = np.random.default_rng(0)


def agrees(f, want, *args, rtol=1e-9, atol=1e-11):
    """f on arrays, plain and under jit, gives `want`; for real arguments the gradient is that of differences."""
    for g in (f, lm.jit(f)):
        for got, w in zip(lm.tree.leaves(g(*args)), lm.tree.leaves(want), strict=True):
            np.testing.assert_allclose(got.numpy(), w, rtol=rtol, atol=atol)
    if any(a.dtype.kind != "f" for a in args):
        return

    def total(*xs):
        return sum(
            (lnp.abs(v) ** 2 * np.arange(1.0, v.size + 1).reshape(v.shape)).sum()
            for v in lm.tree.leaves(f(*xs))
            if v.dtype.kind in "fc"
        )

    way = [RNG.normal(size=a.shape) for a in args]
    slope = sum((g.numpy() * w).sum() for g, w in zip(lm.grad(total, tuple(range(len(args))))(*args), way))
    h = 1e-6
    up, down = (total(*[a + s * h * w for a, w in zip(args, way)]).item() for s in (1, -1))
    assert slope == pytest.approx((up - down) / (2 * h), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("norm", [None, "backward", "ortho"])
@pytest.mark.parametrize("type", [2, 3])
@pytest.mark.parametrize("name", ["dct", "idct"])
def test_cosine_transforms(name, type, norm):
    x = RNG.normal(size=(3, 7))
    for options in ({}, {"axis": 0}, {"n": 5}, {"n": 9, "axis": 0}):
        want = getattr(scipy.fft, name)(x, type, norm=norm, **options)
        agrees(lambda v, o=options: getattr(fft, name)(v, type, norm=norm, **o), want, x)
    for options in ({}, {"axes": (0,)}, {"s": (4, 5)}, {"s": (4,), "axes": (1,)}):
        want = getattr(scipy.fft, name + "n")(x, type, norm=norm, **options)
        agrees(lambda v, o=options: getattr(fft, name + "n")(v, type, norm=norm, **o), want, x)
    assert getattr(fft, name)(x.astype(np.float32)).dtype == "float32"


def test_cosine_transforms_refuse():
    with pytest.raises(NotImplementedError, match="types 2 and 3"):
        fft.dct(lnp.ones(3), 1)
    with pytest.raises(ValueError, match="norm"):
        fft.dct(lnp.ones(3), norm="forward")


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("method", ["direct", "fft"])
@pytest.mark.parametrize(
    ("a", "b"), [((9,), (4,)), ((4,), (9,)), ((5, 6), (3, 2)), ((3, 4), (5, 6)), ((4, 3, 5), (2, 3, 2))]
)
@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_convolutions(name, a, b, method, mode):
    x, y = RNG.normal(size=a), RNG.normal(size=b)
    want = getattr(scipy.signal, name)(x, y, mode, method)
    agrees(lambda p, q: getattr(signal, name)(p, q, mode, method), want, x, y)
    z = y + 1j * RNG.normal(size=b)
    want = getattr(scipy.signal, name)(x, z, mode, method)
    agrees(lambda p, q: getattr(signal, name)(p, q, mode, method), want, x.astype(complex), z)


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_fftconvolve_along_axes(mode):
    x, y = RNG.normal(size=(3, 8)), RNG.normal(size=(1, 5))
    want = scipy.signal.fftconvolve(x, y, mode, axes=1)
    agrees(lambda p, q: signal.fftconvolve(p, q, mode, axes=1), want, x, y)


@pytest.mark.parametrize("sizes", [(1, 1), (100, 10), (997, 25), (1009, 1000), (37, 1)])
def test_fftconvolve_of_sizes_with_large_factors(sizes):
    x, y = (RNG.normal(size=(2, n)) for n in sizes)
    for mode in ("full", "same", "valid"):
        want = scipy.signal.fftconvolve(x, y, mode, axes=1)
        agrees(lambda p, q, mode=mode: signal.fftconvolve(p, q, mode, axes=1), want, x, y)
    text = lm.jit(lambda p, q: signal.fftconvolve(p, q, axes=1)).lower(x, y).as_text()
    transformed = {int(n) for n in re.findall(r"f64\[2,(\d+)\] custom_call", text)}
    assert len(transformed) == 1 and 30**40 % transformed.pop() == 0  # no factors but 2, 3 and 5


@pytest.mark.parametrize("mode", ["full", "same", "valid"])
@pytest.mark.parametrize("boundary", ["fill", "wrap", "symm"])
@pytest.mark.parametrize("name", ["convolve2d", "correlate2d"])
def test_planes(name, boundary, mode):
    x = RNG.normal(size=(7, 6))
    for shape in ((3, 3), (2, 4)):
        y = RNG.normal(size=shape)
        fill = 0.5 if boundary == "fill" else 0
        want = getattr(scipy.signal, name)(x, y, mode, boundary, fill)
        agrees(lambda p, q, f=fill: getattr(signal, name)(p, q, mode, boundary, f), want, x, y)


def test_convolutions_refuse():
    with pytest.raises(ValueError, match="numbers of dimensions"):
        signal.convolve(lnp.ones(3), lnp.ones((2, 2)))
    with pytest.raises(ValueError, match="mode"):
        signal.convolve(lnp.ones(3), lnp.ones(2), "circular")
    with pytest.raises(ValueError, match="as large as the other"):
        signal.convolve(lnp.ones((3, 2)), lnp.ones((2, 3)), "valid")
    for planes in (signal.convolve2d, signal.correlate2d):
        for mode in ("full", "same", "valid"):
            for n in (2, 4):
                with pytest.raises(ValueError, match=f"{planes.__name__} takes 2-d"):
                    planes(lnp.ones(3), lnp.ones(n), mode)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("bp", [0, 3, [2, 5]])
def test_detrend(axis, bp):
    x = RNG.normal(size=(8, 9)) + np.arange(9)
    agrees(lambda v: signal.detrend(v, axis, bp=bp), scipy.signal.detrend(x, axis, bp=bp), x)
    agrees(lambda v: signal.detrend(v, axis, "constant"), scipy.signal.detrend(x, axis, "constant"), x)
    with pytest.raises(ValueError, match="break points"):
        signal.detrend(x, bp=20)


WINDOWS = [
    "hann",
    "hamming",
    "blackman",
    "boxcar",
    "bartlett",
    "cosine",
    ("kaiser", 5.0),
    ("gaussian", 4.0),
    "array",
]


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_windows(window):
    x = RNG.normal(size=(2, 60))
    if window == "array":
        window = np.arange(1.0, 17)
    want = scipy.signal.stft(x, 10.0, window, 16)
    agrees(lambda v: signal.stft(v, 10.0, window, 16), want, x)
    with pytest.raises(ValueError, match="no window 'round'"):
        signal.stft(x, window="round")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"noverlap": 12},
        {"nfft": 21},
        {"boundary": None, "padded": False},
        {"boundary": "even"},
        {"boundary": "odd"},
        {"boundary": "constant"},
        {"return_onesided": False},
        {"detrend": "linear"},
        {"nperseg": 15, "noverlap": 7},
    ],
    ids=str,
)
def test_short_time_transforms(options):
    x = RNG.normal(size=(2, 61))
    options = {"nperseg": 16, **options}
    agrees(lambda v: signal.stft(v, 2.0, **options), scipy.signal.stft(x, 2.0, **options), x)
    z = x + 1j * RNG.normal(size=x.shape)
    two = {**options, "return_onesided": False}
    agrees(lambda v: signal.stft(v, 2.0, **two), scipy.signal.stft(z, 2.0, **two), z)


@pytest.mark.parametrize(
    "options", [{}, {"noverlap": 12}, {"window": "hamming", "nfft": 32}, {"nperseg": 15}], ids=str
)
def test_inverse_short_time_transforms(options):
    x = RNG.normal(size=(2, 64))
    options = {"nperseg": 16, **options}
    z = scipy.signal.stft(x, 2.0, **options)[2]
    # SciPy's times count the first dimension, whatever it is.
    want = scipy.signal.istft(z, 2.0, **options)[1]
    agrees(lambda v: signal.istft(v, 2.0, **options), (np.arange(want.shape[1]) / 2, want), z)
    _, back = signal.istft(signal.stft(x, 2.0, **options)[2], 2.0, **options)
    np.testing.assert_allclose(back.numpy()[:, :64], x, atol=1e-12)
    swapped = np.moveaxis(z, 0, 2)
    want = (
        np.arange(want.shape[1]) / 2,
        scipy.signal.istft(swapped, 2.0, time_axis=1, freq_axis=0, **options)[1],
    )
    agrees(lambda v: signal.istft(v, 2.0, time_axis=1, freq_axis=0, **options), want, swapped)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"scaling": "spectrum"},
        {"average": "median"},
        {"detrend": False, "window": "boxcar"},
        {"nfft": 33},
        {"axis": 0, "nperseg": 4},
        {"return_onesided": False},
    ],
    ids=str,
)
def test_spectra(options):
    x, y = RNG.normal(size=(6, 70)), RNG.normal(size=(6, 70))
    options = {"nperseg": 16, **options}
    agrees(lambda v: signal.welch(v, 5.0, **options), scipy.signal.welch(x, 5.0, **options), x)
    agrees(lambda v, w: signal.csd(v, w, 5.0, **options), scipy.signal.csd(x, y, 5.0, **options), x, y)
    short = y[:, :50]
    if "axis" not in options:
        agrees(
            lambda v, w: signal.csd(v, w, 5.0, **options),
            scipy.signal.csd(x, short, 5.0, **options),
            x,
            short,
        )


SAME_MODES = {
    "constant": "grid-constant",
    "nearest": "nearest",
    "wrap": "grid-wrap",
    "mirror": "mirror",
    "reflect": "reflect",
}


@pytest.mark.parametrize("mode", SAME_MODES)
@pytest.mark.parametrize("order", [0, 1])
def test_map_coordinates(order, mode):
    x = RNG.normal(size=(5, 6))
    places = RNG.uniform(-9, 14, (2, 40))
    f = lambda v, p: ndimage.map_coordinates(v, [p[0], p[1]], order, mode, 0.3)  # noqa: E731
    want = scipy.ndimage.map_coordinates(x, places, order=order, mode=SAME_MODES[mode], cval=0.3)
    agrees(f, want, x, places)
    whole = np.rint(x * 10).astype(np.int32)
    want = jax.scipy.ndimage.map_coordinates(
        jnp.array(whole), list(jnp.array(places, "float32")), order, mode
    )
    got = ndimage.map_coordinates(whole, list(places.astype(np.float32)), order, mode)
    np.testing.assert_array_equal(got.numpy(), want)


def test_map_coordinates_refuses():
    with pytest.raises(ValueError, match="2 arrays of coordinates"):
        ndimage.map_coordinates(lnp.ones((2, 2)), [lnp.ones(1)], 1)
    with pytest.raises(NotImplementedError, match="orders 0 and 1"):
        ndimage.map_coordinates(lnp.ones(2), [lnp.ones(1)], 3)
    with pytest.raises(NotImplementedError, match="modes constant"):
        ndimage.map_coordinates(lnp.ones(2), [lnp.ones(1)], 1, "grid-wrap")


@pytest.mark.parametrize("fill", [np.nan, 0.5, None])
@pytest.mark.parametrize("method", ["linear", "nearest"])
def test_regular_grid_interpolator(method, fill):
    grid = (np.array([0.0, 1.0, 2.5, 4.0]), np.array([-1.0, 0.0, 2.0]))
    for rest in ((), (2,)):
        values = RNG.normal(size=(4, 3, *rest))
        points = RNG.uniform(-1.5, 4.5, (20, 2))
        theirs = scipy.interpolate.RegularGridInterpolator(grid, values, method, False, fill)
        if fill is not None:
            points = np.concatenate([points, [[1.0, 0.0], [4.0, 2.0]]])
        want = theirs(points)
        made = interpolate.RegularGridInterpolator(grid, values, method, fill_value=fill)
        np.testing.assert_allclose(made(points).numpy(), want, rtol=1e-12)
        np.testing.assert_allclose(made(tuple(points.T)).numpy(), want, rtol=1e-12)
        np.testing.assert_allclose(lm.jit(lambda f, p: f(p))(made, points).numpy(), want, rtol=1e-12)
        np.testing.assert_allclose(lm.vmap(made)(points).numpy(), want, rtol=1e-12)
        inside = np.clip(points[:20], [0.01, -0.99], [3.99, 1.99])  # no corners, where slopes differ
        agrees(
            lambda v, p: interpolate.RegularGridInterpolator(grid, v, method, fill_value=fill)(p),
            theirs(inside),
            values,
            inside,
        )
    assert interpolate.RegularGridInterpolator(grid[:1], np.arange(4.0))(np.array([0.5])).item() == 0.5


def test_regular_grid_interpolator_refuses():
    with pytest.raises(ValueError, match="axis 0 of the grid"):
        interpolate.RegularGridInterpolator((np.arange(3.0),), np.ones(4))
    with pytest.raises(ValueError, match="methods"):
        interpolate.RegularGridInterpolator((np.arange(3.0),), np.ones(3), "cubic")
    with pytest.raises(NotImplementedError, match="bounds_error"):
        interpolate.RegularGridInterpolator((np.arange(3.0),), np.ones(3), bounds_error=True)
    with pytest.raises(ValueError, match="points of shape"):
        interpolate.RegularGridInterpolator((np.arange(3.0),), np.ones(3))(np.ones((2, 2)))


def test_trapezoid_and_vq():
    y, x = RNG.normal(size=(3, 6)), np.sort(RNG.normal(size=6))
    agrees(lambda v: integrate.trapezoid(v, x), scipy.integrate.trapezoid(y, x), y)
    agrees(lambda v: integrate.trapezoid(v, dx=0.5, axis=0), scipy.integrate.trapezoid(y, dx=0.5, axis=0), y)
    points = RNG.normal(size=(4, 6))
    agrees(lambda a, b: cluster.vq.vq(a, b), scipy.cluster.vq.vq(y, points), y, points)
    agrees(lambda a, b: cluster.vq.vq(a, b), scipy.cluster.vq.vq(y[0], points[0]), y[0], points[0])
    with pytest.raises(ValueError, match="do not fit"):
        cluster.vq.vq(y, points[:, :2])


@pytest.mark.parametrize(
    "window",
    [
        "barthann", "bartlett", "blackman", "blackmanharris", "bohman", "boxcar", "cosine", "exponential", "flattop",
        "hamming", "hann", "nuttall", "parzen", "triang", "tukey", ("exponential", None, 3.0), ("gaussian", 2.0),
        ("kaiser", 3.0), ("tukey", 0.2), ("tukey", 0.0), ("tukey", 1.0),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("n", [1, 2, 7, 16])
def test_windows_of_every_length(window, n):
    x = np.random.default_rng(0).normal(size=64)
    options = {"window": window, "nperseg": n, "scaling": "spectrum", "detrend": False}
    got, want = signal.welch(x, **options), scipy.signal.welch(x, **options)
    np.testing.assert_allclose(got[1], want[1], rtol=1e-9, atol=1e-12)


def test_the_inverse_of_two_sided_transforms():
    z = RNG.normal(size=(16, 5)) + 1j * RNG.normal(size=(16, 5))
    agrees(
        lambda v: signal.istft(v, nperseg=16, input_onesided=False),
        scipy.signal.istft(z, nperseg=16, input_onesided=False),
        z,
    )


@pytest.mark.parametrize("name", ["dct", "idct", "dctn", "idctn"])
def test_cosine_transforms_of_complex_arrays(name):
    z = RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4))
    f, of = getattr(fft, name), getattr(scipy.fft, name)
    np.testing.assert_allclose(f(z), of(z), rtol=1e-12, atol=1e-12)


def test_more_sizes_than_dimensions_are_refused():
    with pytest.raises(ValueError, match="at most one size per dimension"):
        fft.dctn(np.ones((1, 3)), s=(2, 3, 4))


def test_the_entropy_of_poisson():
    mu = np.array([-1.0, 0.0, 0.01, 0.5, 5.0, 59.0, 60.0, 61.0, 1e3])
    np.testing.assert_allclose(stats.poisson.entropy(mu), scipy.stats.poisson.entropy(mu), rtol=1e-11)
    np.testing.assert_allclose(
        stats.poisson.entropy(3.0, 2.0), scipy.stats.poisson.entropy(3.0, 2.0), rtol=1e-6
    )
    for m in (2.0, 80.0):
        h = 1e-5
        slope = (scipy.stats.poisson.entropy(m + h) - scipy.stats.poisson.entropy(m - h)) / (2 * h)
        np.testing.assert_allclose(lm.grad(stats.poisson.entropy)(np.float64(m)), slope, rtol=1e-6)


@pytest.mark.parametrize(("n", "k"), [(60, 4), (100, 10)])
def test_the_largest_eigenvalues(n, k):
    a = RNG.normal(size=(n, n))
    a = a @ a.T
    guess = RNG.normal(size=(n, k))
    for operator in (a, lambda v: a @ v):
        values, vectors, steps = lobpcg_standard(operator, guess, m=300)
        assert 1 < int(steps) < 300
        np.testing.assert_allclose(values, np.linalg.eigvalsh(a)[::-1][:k], rtol=1e-9)
        np.testing.assert_allclose(a @ vectors.numpy(), vectors.numpy() * values.numpy(), atol=1e-6 * n)
        np.testing.assert_allclose(vectors.numpy().T @ vectors.numpy(), np.eye(k), atol=1e-9)
    under_jit = lm.jit(lambda a, x: lobpcg_standard(a, x, m=5)[0])(a, guess)
    np.testing.assert_allclose(under_jit, lobpcg_standard(a, guess, m=5)[0])


def test_eigenvalues_refuse():
    with pytest.raises(ValueError, match="search dim > 0"):
        lobpcg_standard(np.eye(9), np.ones((9, 0)))
    with pytest.raises(ValueError, match=r"A must be \(9, 9\)"):
        lobpcg_standard(np.eye(8), np.ones((9, 1)))
    with pytest.raises(ValueError, match="search dim \\* 5 < matrix dim"):
        lobpcg_standard(np.eye(9), np.ones((9, 2)))
    with pytest.raises(ValueError, match="same dtypes"):
        lobpcg_standard(lambda v: v.astype("float16"), np.ones((9, 1), "f4"))


def test_solutions_of_numbers_are_numbers():
    for solve in (sparse_linalg.cg, sparse_linalg.bicgstab, sparse_linalg.gmres):
        assert solve(lambda x: 2 * x, 1.0)[0].weak_type
        assert not solve(lambda x: 2 * x, lnp.ones(()))[0].weak_type


def test_a_quadratic_of_a_large_scale_is_minimized():
    found = optimize.minimize(lambda x: ((1e4 * x) ** 2).mean(), lnp.ones(2), method="BFGS")
    np.testing.assert_allclose(found.x, 0.0, atol=1e-6)
    assert bool(found.success)


def _rosenbrock(x):
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


@pytest.mark.parametrize("options", [{}, {"maxcor": 3}, {"norm": 2}])
def test_limited_memory(options):
    start = np.full(8, -0.5)
    found = lm.jit(lambda x: optimize.minimize(_rosenbrock, x, method="L-BFGS", tol=1e-8, options=options))(
        start
    )
    assert bool(found.success) and int(found.nit) < 200
    np.testing.assert_allclose(found.x, 1.0, rtol=1e-6)
    np.testing.assert_allclose(found.jac, 0.0, atol=1e-4)
    cut = optimize.minimize(_rosenbrock, start, method="L-BFGS", options={"maxiter": 2})
    assert int(cut.status) == 1 and int(cut.nit) == 2 and not bool(cut.success)
    lanes = lm.vmap(lambda x: optimize.minimize(_rosenbrock, x, method="L-BFGS", tol=1e-8).x)
    np.testing.assert_allclose(lanes(np.stack([start, start + 0.3])), 1.0, rtol=1e-5)


def test_limited_memory_of_complex_arguments():
    to = np.array([1.0, 2.0 - 3.0j, -5.0j])
    found = optimize.minimize(lambda z: (lnp.abs(z - to) ** 2).sum(), np.zeros(3, complex), method="L-BFGS")
    np.testing.assert_allclose(found.x, to, atol=1e-6)
    first = optimize.minimize(
        lambda z: (lnp.abs(z - to) ** 2).sum(), np.zeros(3, complex), method="L-BFGS", options={"maxiter": 0}
    )
    slope = lm.grad(lambda z: (lnp.abs(z - to) ** 2).sum())(np.zeros(3, complex))
    np.testing.assert_allclose(first.jac, slope)


def test_grids_may_fall():
    up, values, points = (
        np.array([-1.0, 0.5, 2.0, 4.0]),
        RNG.normal(size=(4, 3)),
        np.array([[0.1, 2.7], [3.3, 1.25], [9.0, 1.6]]),
    )
    for method in ("linear", "nearest"):
        for fill in (0.5, None):
            grid = (up[::-1], np.array([3, 2, 1]))
            theirs = scipy.interpolate.RegularGridInterpolator(grid, values, method, False, fill)

            def mine(v, p, grid=grid, method=method, fill=fill):
                return interpolate.RegularGridInterpolator(grid, v, method, fill_value=fill)(p)

            agrees(mine, theirs(points), values, points)
            between = np.array([[3.0, 1.5], [1.25, 2.5]])
            np.testing.assert_allclose(mine(values, between), theirs(between), rtol=1e-14)


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [None, np.nan, -1.0])
def test_values_between_grid_points_at_nan_are_nan(method, fill):
    grid = (np.arange(4.0), np.arange(3.0) ** 2)
    values = np.random.default_rng(0).normal(size=(4, 3, 2))
    x = np.array([[np.nan, 1.0], [1.2, np.nan], [np.nan, 9.0], [0.5, 1.2], [9.0, 1.0]])
    options = {"method": method, "bounds_error": False, "fill_value": fill}
    want = scipy.interpolate.RegularGridInterpolator(grid, values, **options)(x)
    got = lm.jit(lambda x: interpolate.RegularGridInterpolator(grid, values, **options)(x))(x)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12)


def test_the_nearest_point_itself_is_no_distance_away():
    points = RNG.normal(size=(3, 2))
    slopes = lm.grad(lambda x, p: cluster.vq.vq(x, p)[1].sum(), (0, 1))(points, points)
    assert all((np.asarray(s) == 0).all() for s in slopes)
    agrees(lambda x: cluster.vq.vq(x, points)[1], scipy.cluster.vq.vq(points + 0.1, points)[1], points + 0.1)


COMPLEX = RNG.normal(size=(3, 4, 5)) + 1j * RNG.normal(size=(3, 4, 5))


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_fourier_transforms_of_lines(name):
    x = COMPLEX.real if name in ("rfft", "ihfft") else COMPLEX
    for args in ((), (7,), (3, 1), (None, 0, "ortho"), (4, -2, "forward")):
        agrees(lambda x, args=args: getattr(fft, name)(x, *args), getattr(scipy.fft, name)(x, *args), x)


@pytest.mark.parametrize("name", ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"])
def test_fourier_transforms_of_several_dimensions(name):
    x = COMPLEX.real if name.startswith("rfft") else COMPLEX
    for args in ((), ((2, 7),), ((3, 4), (0, 1), "ortho"), (None, (1,), "forward")):
        agrees(lambda x, args=args: getattr(fft, name)(x, *args), getattr(scipy.fft, name)(x, *args), x)


def test_frequencies_and_their_order():
    with lm.default_dtypes(float="float64"):
        for n in (4, 5):
            np.testing.assert_array_equal(fft.fftfreq(n, 0.5), scipy.fft.fftfreq(n, 0.5))
            np.testing.assert_array_equal(fft.rfftfreq(n, 0.5), scipy.fft.rfftfreq(n, 0.5))
    agrees(fft.fftshift, scipy.fft.fftshift(COMPLEX.real), COMPLEX.real)
    agrees(lambda x: fft.ifftshift(x, 1), scipy.fft.ifftshift(COMPLEX.real, 1), COMPLEX.real)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8])
@pytest.mark.parametrize("name", ["simpson", "cumulative_trapezoid"])
def test_rules_for_sampled_values(name, count):
    y = RNG.normal(size=(count, 3))
    places = np.cumsum(RNG.uniform(0.5, 2.0, size=(count, 3)), 0)
    mine, theirs = getattr(integrate, name), getattr(scipy.integrate, name)
    for options in (
        {"axis": 0},
        {"axis": -2, "dx": 0.3},
        {"x": places, "axis": 0},
        {"x": places[:, 1], "axis": 0},
    ):
        agrees(lambda y, o=options: mine(y, **o), theirs(y, **options), y)
    agrees(lambda y, x: mine(y, x, axis=0), theirs(y, places, axis=0), y, places)
    if name == "cumulative_trapezoid":
        agrees(lambda y: mine(y, axis=0, initial=0), theirs(y, axis=0, initial=0), y)
    for bad in ({"x": np.zeros(9)}, {"dx": np.ones(3)}):
        with pytest.raises(ValueError, match=f"{name}: "):
            mine(y, axis=0, **bad)
    with pytest.raises(ValueError, match="at least one value"):
        mine(np.zeros((2, 0)))


def test_nothing_is_convolved_to_nothing():
    for a, b in (([], [1.0, 2.0]), ([1.0], []), (np.zeros((0, 3)), np.ones((3, 3)))):
        assert signal.fftconvolve(a, b).shape == scipy.signal.fftconvolve(a, b).shape == (0,)


def test_sizes_and_axes_of_cosine_transforms_may_be_numbers():
    x = np.arange(12.0).reshape(3, 4)
    np.testing.assert_allclose(fft.dctn(x, s=2, axes=1).numpy(), scipy.fft.dctn(x, s=2, axes=1), rtol=1e-12)
    np.testing.assert_allclose(fft.idctn(x, axes=0).numpy(), scipy.fft.idctn(x, axes=0), rtol=1e-12)


def test_nothing_has_no_spectrum():
    x = np.ones((2, 0), np.float32)
    for name in ("welch", "stft"):
        got = getattr(signal, name)(x)
        assert [g.shape for g in got] == [(2, 0)] * len(got)
        assert got[-1].dtype == ("float32" if name == "welch" else "complex64")
    f, p = signal.csd(x, np.ones((2, 8), np.float32))
    assert f.shape == p.shape == (2, 0) and p.dtype == "complex64"


def test_what_is_no_operator_is_refused():
    for solve in (sparse_linalg.cg, sparse_linalg.gmres, sparse_linalg.bicgstab):
        with pytest.raises(TypeError, match="a square matrix or a function that applies one, not str"):
            solve("A", np.ones(2))
        with pytest.raises(ValueError, match="A gives 2 elements for 3"):
            solve(lambda v: v[:2], np.ones(3))
        with pytest.raises(ValueError, match="M gives 4 elements for 3"):
            solve(lambda v: 2 * v, np.ones(3), M=lambda v: lnp.append(v, 1.0))
