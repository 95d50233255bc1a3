"""Parameters of functions that are asked for less often: sizes of sets, weights, where, known means."""

from __future__ import annotations

import jax.numpy as jnp
import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 5))
W = RNG.integers(0, 4, (4, 5)).astype(float)
MASK = RNG.normal(size=(4, 5)) > -0.5
HOLES = X.copy()
HOLES[1, 2] = np.nan
HOLES[0] = np.nan
A, B = np.array([4, 1, 2, 2, 7, 3], np.int32), np.array([3, 9, 4, 4], np.int32)


@pytest.mark.parametrize("fill", [None, -5])
@pytest.mark.parametrize("size", [1, 3, 6, 9])
@pytest.mark.parametrize("name", ["intersect1d", "setdiff1d", "setxor1d", "union1d"])
def test_sets_of_a_given_size(name, size, fill):
    f = lambda a, b: getattr(lnp, name)(a, b, size=size, fill_value=fill)  # noqa: E731
    want = np.asarray(getattr(jnp, name)(A, B, size=size, fill_value=fill))
    np.testing.assert_array_equal(f(A, B).numpy(), want)
    np.testing.assert_array_equal(lm.jit(f)(A, B).numpy(), want)
    lanes = lm.vmap(f)(np.stack([A, A + 1]), np.stack([B, B + 1])).numpy()
    np.testing.assert_array_equal(lanes[0], want)


def test_places_of_what_both_have():
    for got, want in zip(
        lnp.intersect1d(A, B, return_indices=True), np.intersect1d(A, B, return_indices=True)
    ):
        np.testing.assert_array_equal(got.numpy(), want)
    f = lambda a, b: lnp.intersect1d(a, b, return_indices=True, size=4)  # noqa: E731
    for got, want in zip(lm.jit(f)(A, B), jnp.intersect1d(A, B, return_indices=True, size=4)):
        np.testing.assert_array_equal(got.numpy(), want)


@pytest.mark.parametrize("name", ["unique_values", "unique_counts", "unique_inverse"])
def test_unique_elements_of_a_given_size(name):
    got = lm.jit(lambda a: getattr(lnp, name)(a, size=8, fill_value=0))(A)
    want = getattr(jnp, name)(A, size=8, fill_value=0)
    for g, w in zip(lm.tree.leaves(got), want if isinstance(want, tuple) else [want], strict=True):
        np.testing.assert_array_equal(g.numpy(), w)


def test_slices_of_a_given_number():
    c = np.array([0, 1, 1, 0, 1])
    got = lm.jit(lambda c, x: lnp.compress(c, x, axis=1, size=4, fill_value=9.0))(c, X)
    np.testing.assert_array_equal(got.numpy(), np.concatenate([X[:, c > 0], np.full((4, 1), 9.0)], 1))
    filled = lnp.compress(c, X, axis=1, size=4, fill_value=0.1)  # of all 53 bits
    assert filled[0, 3].item() == 0.1 and lnp.intersect1d(X[0], X[1], size=1, fill_value=0.1).item() == 0.1
    assert lnp.extract(c, X[0], size=2).numpy().tolist() == X[0, [1, 2]].tolist()
    i, j = lm.jit(lambda: lnp.mask_indices(3, lnp.triu, 1, size=4))()
    assert i.numpy().tolist() == [0, 0, 1, 0] and j.numpy().tolist() == [1, 2, 2, 0]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(("axis", "weights"), [(None, W), (0, W), (1, W), (1, W[0]), ((0, 1), W)])
def test_weighted_quantiles(axis, weights, keepdims):
    q = np.array([0, 0.1, 0.25, 0.5, 0.77, 1.0])
    kwargs = {"axis": axis, "method": "inverted_cdf", "weights": weights, "keepdims": keepdims}
    want = np.quantile(X, q, **kwargs)
    for f, scale in (
        (lnp.quantile, 1),
        (lnp.nanquantile, 1),
        (lnp.percentile, 100),
        (lnp.nanpercentile, 100),
    ):
        np.testing.assert_array_equal(f(X, q * scale, **kwargs).numpy(), want)
    with pytest.raises(ValueError, match="inverted_cdf"):
        lnp.quantile(X, 0.5, weights=W)
    with pytest.raises(ValueError, match="weights have shape"):
        lnp.quantile(X, 0.5, 1, method="inverted_cdf", weights=W[:2])


def test_quantiles_that_are_elements():
    for axis in (None, 0, 1):
        q = np.array([0, 0.3, 0.5, 1.0])
        want = np.quantile(X, q, axis, method="inverted_cdf")
        np.testing.assert_array_equal(lnp.quantile(X, q, axis, method="inverted_cdf").numpy(), want)
    got = lnp.nanquantile(HOLES, 0.4, axis=1, method="inverted_cdf", weights=W[0] + 1).numpy()
    kept = ~np.isnan(HOLES[1])
    assert np.isnan(got[0])
    assert got[1] == np.quantile(HOLES[1][kept], 0.4, method="inverted_cdf", weights=(W[0] + 1)[kept])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("name", ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin"])
def test_elements_chosen_beside_nan(name, axis):
    extra = {"initial": 0.5} if name in ("nanmax", "nanmin", "nansum", "nanprod") else {}
    want = getattr(np, name)(HOLES, axis=axis, where=MASK, **extra)
    f = lambda x, m: getattr(lnp, name)(x, axis=axis, where=m, **extra)  # noqa: E731
    np.testing.assert_allclose(f(HOLES, MASK).numpy(), want)
    np.testing.assert_allclose(lm.jit(f)(HOLES, MASK).numpy(), want)


def test_extremes_of_nothing_but_nan():
    assert np.isnan(lnp.nanmax(HOLES, axis=1).numpy()).tolist() == [True, False, False, False]
    assert np.isnan(lnp.nanmin(HOLES, where=np.zeros_like(MASK)).item())


@pytest.mark.parametrize("name", ["var", "std", "nanvar", "nanstd"])
def test_a_known_mean(name):
    x = HOLES[1:] if name.startswith("nan") else X
    mean = lnp.nanmean(x, axis=1, keepdims=True)
    want = getattr(np, name)(x, axis=1)
    np.testing.assert_allclose(getattr(lnp, name)(x, axis=1, mean=mean).numpy(), want)


@pytest.mark.parametrize(
    "weights",
    [
        {"fweights": np.array([1, 2, 3, 0, 1])},
        {"aweights": W[1] + 0.5},
        {"fweights": np.array([1, 2, 3, 0, 1]), "aweights": W[1] + 0.5},
    ],
)
@pytest.mark.parametrize("extra", [{}, {"ddof": 0}, {"bias": True}])
def test_weighted_covariances(weights, extra):
    np.testing.assert_allclose(lnp.cov(X, **weights, **extra).numpy(), np.cov(X, **weights, **extra))
    with pytest.raises(ValueError, match="weights have shape"):
        lnp.cov(X, aweights=np.ones(3))


class Sizes:
    """A shape of another library: a sequence that is neither a tuple nor a list."""

    def __init__(self, *sizes):
        self.sizes = sizes

    def __len__(self):
        return len(self.sizes)

    def __iter__(self):
        return iter(self.sizes)


CUBE = RNG.normal(size=(2, 3, 4))


@pytest.mark.parametrize(
    ("ours", "wanted"),
    [
        (lambda: lnp.expand_dims(CUBE, range(2)), CUBE[None, None]),
        (lambda: lnp.sum(CUBE, range(2)), CUBE.sum((0, 1))),
        (lambda: lnp.median(CUBE, Sizes(0, 2)), np.median(CUBE, (0, 2))),
        (lambda: lnp.roll(CUBE, Sizes(1, 2), range(2)), np.roll(CUBE, (1, 2), (0, 1))),
        (lambda: lnp.tensordot(CUBE, CUBE, (range(3), range(3))), np.tensordot(CUBE, CUBE, 3)),
        (lambda: lnp.linalg.norm(CUBE, axis=range(1, 3)), np.linalg.norm(CUBE, axis=(1, 2))),
        (lambda: lnp.average(CUBE, Sizes(0, 1), weights=CUBE[..., 0] ** 2),
         np.average(CUBE, (0, 1), CUBE[..., 0] ** 2)),
        (lambda: lnp.zeros(Sizes(2, 3)), np.zeros((2, 3))),
        (lambda: lnp.reshape(CUBE, Sizes(6, 4)), CUBE.reshape(6, 4)),
        (lambda: lnp.split(CUBE, range(1, 2), 1)[1], CUBE[:, 1:]),
    ],
)  # fmt: skip
def test_sequences_of_any_class_are_shapes_and_axes(ours, wanted):
    found = ours().numpy()
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [{2, 3}, {2: 1}, "23", np.ones((2, 2), int)])
def test_what_has_no_order_is_no_shape(shape):
    with pytest.raises(TypeError, match="a shape is an integer or a sequence"):
        lnp.zeros(shape)


def test_places_are_filled_with_what_is_told():
    x = np.array([[0, 3], [5, 0]])
    assert lnp.where(x, size=3, fill_value=-1)[0].tolist() == [0, 1, -1]
    rows, columns = lnp.nonzero(x, size=4, fill_value=(7, 8))
    assert rows.tolist() == [0, 1, 7, 7] and columns.tolist() == [1, 0, 8, 8]
    with pytest.raises(ValueError, match="fill_value has 3 entries for 2 dimensions"):
        lnp.nonzero(x, size=4, fill_value=(7, 8, 9))


def test_arrays_lie_by_rows():
    x = np.arange(4.0)
    for order in ("K", "A", "C", None):
        assert (
            lnp.array(x, order=order).shape == lnp.asarray(x, None, order).shape == lnp.copy(x, order).shape
        )
    assert lnp.array(x, None, True, "K", 2).shape == (1, 4)
    for f in (lnp.array, lnp.asarray, lnp.copy):
        with pytest.raises(NotImplementedError, match="arrays lie by rows"):
            f(x, order="F")


def test_names_that_numpy_gives():
    assert lnp.round(a=1.26, decimals=1).item() == pytest.approx(1.3)
    assert lnp.empty_like(prototype=np.ones(2, "f4")).shape == (2,)
    assert lnp.unique(np.array([2, 1, 2]), sorted=False).tolist() == [1, 2]
