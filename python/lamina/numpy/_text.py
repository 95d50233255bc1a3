"""Arrays in files, text and print: load, save, fromfile, set_printoptions and kin, with NumPy's formats."""

from __future__ import annotations

from typing import Any

from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina.lax._elementwise import bitcast_convert_type

__all__ = [
    "array_repr",
    "array_str",
    "fromfile",
    "fromiter",
    "fromstring",
    "get_printoptions",
    "load",
    "printoptions",
    "save",
    "savez",
    "set_printoptions",
]

_BFLOAT16 = "V2"  # NumPy's name of two bytes without a type


def load(file: Any, mmap_mode: str | None = None, allow_pickle: bool = False) -> Any:
    """The array of an .npy file, or a dict of those of an .npz file.

    Elements of two bytes without a type are bfloat16, as `save` and JAX write it. Pickled objects are refused
    (ValueError), also with `allow_pickle`. `mmap_mode` is NumPy's; the array is a copy.
    """
    import numpy as np

    found = np.load(file, mmap_mode, allow_pickle=False)
    if isinstance(found, np.ndarray):
        return _typed(found)
    with found:
        return {name: _typed(found[name]) for name in found.files}


def _typed(array: Any) -> Tensor:
    if array.dtype != _BFLOAT16:
        return to_tensor(array)
    return bitcast_convert_type(to_tensor(array.view("uint16")), "bfloat16")


def fromfile(file: Any, dtype: Any = float, count: int = -1, sep: str = "", offset: int = 0) -> Tensor:
    """A 1-d array of a file of numbers: their bytes, or text with `sep` between them."""
    import numpy as np

    return to_tensor(np.fromfile(file, _of_numpy(dtype), count, sep, offset=offset))


def fromiter(iter: Any, dtype: Any, count: int = -1) -> Tensor:
    """A 1-d array of the numbers that an iterable gives, at most `count`."""
    import numpy as np

    return to_tensor(np.fromiter(iter, _of_numpy(dtype), count))


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Tensor:
    """A 1-d array of a text of numbers with `sep` between them."""
    import numpy as np

    return to_tensor(np.fromstring(string, _of_numpy(dtype), count, sep=sep))


def _of_numpy(dtype: Any) -> Any:
    """NumPy's type of an element type; TypeError for those that it has from ml_dtypes only."""
    import numpy as np

    from lamina import dtypes

    name = dtypes.name_of(dtype)
    if dtypes.is_foreign(name):
        raise TypeError(f"NumPy reads no {name}; read another type and convert it with astype")
    return dtype if isinstance(dtype, np.dtype) else name  # one may have the other byte order


def save(file: Any, arr: Any) -> None:
    """Writes an array to an .npy file, bfloat16 as elements of two bytes without a type, which `load` knows.

    TypeError for other element types that NumPy's format lacks: convert them first.
    """
    import numpy as np

    np.save(file, _plain(arr), allow_pickle=False)


def savez(file: Any, *args: Any, **kwds: Any) -> None:
    """Writes arrays to an .npz file: positional ones as arr_0, arr_1, ..., others by their names."""
    import numpy as np

    named = {f"arr_{i}": a for i, a in enumerate(args)}
    if both := sorted(named.keys() & kwds.keys()):
        raise ValueError(f"savez: the name {both[0]} is taken by a positional array")
    np.savez(file, **{k: _plain(a) for k, a in {**named, **kwds}.items()})


def _plain(x: Any) -> Any:
    from lamina import dtypes

    t: Tensor = to_tensor(x)
    if t.dtype == "bfloat16":
        return bitcast_convert_type(t, "uint16").numpy().view(_BFLOAT16)
    if dtypes.is_foreign(t.dtype):
        raise TypeError(
            f".npy files have no {t.dtype.name}; convert it, for example with x.astype('float32')"
        )
    return t.numpy()


def set_printoptions(*args: Any, **kwargs: Any) -> None:
    """How arrays are printed: NumPy's own options, which hold for Tensors too."""
    import numpy as np

    np.set_printoptions(*args, **kwargs)


def get_printoptions() -> dict[str, Any]:
    """NumPy's options of printing."""
    import numpy as np

    return np.get_printoptions()


def printoptions(*args: Any, **kwargs: Any) -> Any:
    """As `set_printoptions`, for a with block."""
    import numpy as np

    return np.printoptions(*args, **kwargs)


def array_repr(arr: Any, *args: Any, **kwargs: Any) -> str:
    """NumPy's text of the value."""
    import numpy as np

    return np.array_repr(to_tensor(arr).numpy(), *args, **kwargs)


def array_str(a: Any, *args: Any, **kwargs: Any) -> str:
    """NumPy's short text of the value."""
    import numpy as np

    return np.array_str(to_tensor(a).numpy(), *args, **kwargs)
