"""Equal bins: every element is counted where a search among the edges finds it."""

from __future__ import annotations

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("bins", "ends"),
    [
        (1, (0, 1)),
        (3, (-0.1, 0.7)),
        (64, (-4.0, 4.0)),
        (1000, (2.0, 3.0)),
        (4099, (-1e-3, 5.0)),
        (7, (1e7, 1e7 + 3)),
        (5, (0.0, 1e-38)),
        (5, (-1e31, 1e31)),
    ],
)
def test_equal_bins_are_those_of_their_edges(bins: int, ends: tuple[float, float], dtype: str) -> None:
    edges = np.asarray(lnp.histogram_bin_edges(np.zeros(1, dtype), bins, ends))
    rng = np.random.default_rng(2)
    inside = rng.uniform(*ends, 20_000).astype(dtype)
    beside = [np.nextafter(edges, dtype_end) for dtype_end in np.asarray([-np.inf, np.inf], dtype)]
    special = np.asarray(
        [np.nan, np.inf, -np.inf, 0.0, -0.0, np.finfo(dtype).max, -np.finfo(dtype).max], dtype
    )
    x = np.concatenate([inside, edges, *beside, special]).astype(dtype)
    place = np.searchsorted(edges, x, "right") - 1
    place[x == edges[-1]] = bins - 1
    want = np.bincount(place[(place >= 0) & (place < bins)], minlength=bins)
    for f in (lnp.histogram, lm.jit(lambda x: lnp.histogram(x, bins, ends))):
        got = f(x, bins, ends) if f is lnp.histogram else f(x)
        np.testing.assert_array_equal(np.asarray(got[0]), want)
        np.testing.assert_array_equal(np.asarray(got[1]), edges)


def test_boxes_of_equal_bins_are_those_of_their_edges() -> None:
    points = np.random.default_rng(3).uniform(-1.5, 3.5, (5000, 2))
    points[:3] = [[-1, 0], [1, 3], [np.nan, 1]]
    ranges = [(-1.0, 1.0), (0.0, 3.0)]
    want, edges = np.histogramdd(points[~np.isnan(points).any(1)], (5, 7), ranges)
    for f in (lnp.histogramdd, lm.jit(lnp.histogramdd, static_argnums=(1, 2))):
        got = f(points, (5, 7), tuple(ranges))
        np.testing.assert_array_equal(np.asarray(got[0]), want)
        for ours, theirs in zip(got[1], edges, strict=True):
            np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-15, atol=1e-15)
