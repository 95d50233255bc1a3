"""What is promised of the bits of what is recorded."""

import contextlib
from collections.abc import Iterator

from lamina import _core

_MODES = {"same": 0, "fast": 1}


@contextlib.contextmanager
def numerics(mode: str) -> Iterator[None]:
    """How operations recorded inside the block, or inside a function it decorates, are computed.

    ``"same"``, the default: bits depend on the program alone, not on machine, threads, tier or batch.
    ``"fast"``: products and convolutions of float32 and bfloat16 may be summed in the order of a library, oneDNN, which
    is called where it is quicker.
    oneDNN makes its own machine code in pages that stay writable, which Lamina's generator does not.
    Derivatives have the numerics of what they are derivatives of. A jitted function is traced once for each mode
    it is called in. Blocks nest; other threads are not concerned. ValueError for any other mode.

    >>> with lm.numerics("fast"):
    ...     y = lnp.matmul(a, b)
    """
    if mode not in _MODES:
        raise ValueError(f"numerics must be 'same' or 'fast', not {mode!r}")
    saved = _core.numerics()
    _core.set_numerics(_MODES[mode])
    try:
        yield
    finally:
        _core.set_numerics(saved)
