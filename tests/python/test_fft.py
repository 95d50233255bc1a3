"""lamina.numpy.fft and lax.fft: values against NumPy, derivatives of both modes and orders, vmap and jit."""

import os
import subprocess
import sys

import lamina as lm
import lamina.numpy as lnp
import numpy as np
import pytest

ff = lnp.fft
LENGTHS = (1, 2, 3, 4, 7, 12, 37, 64, 67, 100, 128, 131, 360)
NORMS = (None, "backward", "ortho", "forward")
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
TWO = ("fft2", "ifft2", "rfft2", "irfft2")
MANY = ("fftn", "ifftn", "rfftn", "irfftn")


def numbers(rng, shape, name):
    a = rng.normal(size=shape)
    return a if name.startswith(("rfft", "ihfft")) else a + 1j * rng.normal(size=shape)


def close(x, want, tolerance=1e-11):
    x = np.asarray(x)
    assert x.shape == want.shape and x.dtype == want.dtype
    np.testing.assert_allclose(x, want, rtol=0, atol=tolerance * max(1.0, np.abs(want).max(initial=0)))


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("n", LENGTHS)
def test_one_axis_gives_numpy_values(n, name):
    rng = np.random.default_rng(n)
    a = numbers(rng, (2, n, 3), name)
    if not (name in ("irfft", "hfft") and n == 1):
        for norm in NORMS:
            close(getattr(ff, name)(a, axis=1, norm=norm), getattr(np.fft, name)(a, axis=1, norm=norm))
    for m in (1, 5, n + 3):
        close(getattr(ff, name)(a, m, 1), getattr(np.fft, name)(a, m, 1))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", [*TWO, *MANY])
def test_several_axes_give_numpy_values(name, norm):
    a = numbers(np.random.default_rng(0), (4, 5, 6), name)
    mine, theirs = getattr(ff, name), getattr(np.fft, name)
    close(mine(a, norm=norm), theirs(a, norm=norm))
    for axes in ((0, 1), (2, 0), (-1, -3)):
        close(mine(a, axes=axes, norm=norm), theirs(a, axes=axes, norm=norm))
        close(mine(a, (3, 7), axes, norm), theirs(a, (3, 7), axes, norm))


def test_element_types():
    for dtype, real, wide in (("float32", "float32", "complex64"), ("float64", "float64", "complex128")):
        x = lnp.ones(8, dtype=dtype)
        assert ff.fft(x).dtype == wide and ff.rfft(x).dtype == wide
        assert ff.irfft(ff.rfft(x)).dtype == real and ff.hfft(x).dtype == real
    for dtype in ("int32", "bool", "float16", "bfloat16"):
        assert ff.fft(lnp.ones(8, dtype=dtype)).dtype == "complex64"
    assert ff.fft(lnp.ones(8, dtype="complex64")).dtype == "complex64"


def test_frequencies_and_shifts():
    for n in (1, 2, 7, 8):
        for d in (1.0, 0.25):
            close(ff.fftfreq(n, d), np.fft.fftfreq(n, d).astype("f4"), 1e-6)
            close(ff.rfftfreq(n, d), np.fft.rfftfreq(n, d).astype("f4"), 1e-6)
    close(ff.fftfreq(7, 0.1, dtype="float64"), np.fft.fftfreq(7, 0.1))
    a = np.arange(60.0).reshape(3, 4, 5)
    for axes in (None, 1, (0, 2), -1):
        np.testing.assert_array_equal(ff.fftshift(a, axes), np.fft.fftshift(a, axes))
        np.testing.assert_array_equal(ff.ifftshift(ff.fftshift(a, axes), axes), a)


# Of radices 2, 3, 4, 5 and others that follow each other in every way, of lines that are rows and columns, and of a
# convolution.
PLANNED = (
    6,
    49,
    64,
    100,
    122,
    128,
    250,
    360,
    500,
    600,
    625,
    750,
    1000,
    1001,
    1024,
    2048,
    2187,
    3600,
    30030,
    67,
)


@pytest.mark.parametrize("n", PLANNED)
def test_errors_are_a_few_roundings(n):
    """Root mean squares beside float64, whose own errors are nothing beside float32's."""
    rng = np.random.default_rng(n)
    for lines in (1, 3, 17):
        a = numbers(rng, (lines, n), "fft").astype("complex64")
        half = np.fft.rfft(a.real.astype("float64")).astype("complex64")
        for name, x in (("fft", a), ("ifft", a), ("rfft", a.real), ("irfft", half)):
            length = () if name == "fft" else (n,)
            want = getattr(np.fft, name)(
                x.astype("complex128") if name != "rfft" else x.astype("float64"), *length
            )
            got = np.asarray(getattr(ff, name)(x, *length))
            error = np.sqrt(np.mean(np.abs(got - want) ** 2) / np.mean(np.abs(want) ** 2))
            assert error < 4 * 2.0**-24, (name, lines, error)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("n", PLANNED)
def test_columns_have_the_bits_of_lines(n, dtype):
    rng = np.random.default_rng(n)
    for shape in ((n, 1), (n, 21), (2, n, 70)):
        a = numbers(rng, shape, "fft").astype(dtype)
        for f in (ff.fft, ff.ifft):
            lines = np.asarray(f(np.ascontiguousarray(np.moveaxis(a, -2, -1))))
            assert np.asarray(f(a, axis=-2)).tobytes() == np.moveaxis(lines, -1, -2).tobytes()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("n", PLANNED)
def test_many_lines_have_the_bits_of_one(n, dtype):
    """Whether they fill the vectors that they are transformed in, nearly do, or do not."""
    a = numbers(np.random.default_rng(n), (41, n), "fft").astype(dtype)
    real = np.ascontiguousarray(a.real)
    for f, x in ((ff.fft, a), (ff.ifft, a), (ff.rfft, real), (lambda z: ff.irfft(z, n), a)):
        lines = [np.asarray(f(x[i : i + 1])).tobytes() for i in range(41)]
        for rows in (41, 36, 17, 12):
            assert np.asarray(f(x[:rows])).tobytes() == b"".join(lines[:rows])


DIGESTS = """
import hashlib, numpy as np, lamina.numpy as lnp
digest, rng = hashlib.sha256(), np.random.default_rng(0)
for n in {lengths}:
    for real, both in (("float32", "complex64"), ("float64", "complex128")):
        x = rng.normal(size=(21, n)).astype(real)
        z = (x + 1j * x[::-1]).astype(both)
        for y in (lnp.fft.fft(z), lnp.fft.ifft(z), lnp.fft.rfft(x), lnp.fft.irfft(z, n), lnp.fft.fft(z, axis=0)):
            digest.update(np.asarray(y).tobytes())
print(digest.hexdigest())
"""


def test_every_instruction_set_and_number_of_threads_gives_the_same_bits():
    runs = [{"LAMINA_ISA": isa} for isa in ("baseline", "avx2", "avx512")] + [{"LAMINA_NUM_THREADS": "3"}]
    program = DIGESTS.format(lengths=PLANNED)
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **run},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for run in runs
    }
    assert len(digests) == 1


def test_stablehlo_has_transforms_and_reads_them_back():
    a = numbers(np.random.default_rng(0), (2, 6, 8), "fft").astype("complex64")
    for f, x, kind in (
        (ff.fft, a, "FFT"),
        (ff.ifft, a, "IFFT"),
        (ff.rfft, a.real, "RFFT"),
        (ff.irfft, a, "IRFFT"),
        (lambda x: ff.fft(x, axis=1), a, "FFT"),
    ):
        x = lnp.asarray(x)
        text = lm.stablehlo.dumps(lm.jit(f).lower(x))
        assert f"fft_type {kind}>" in text and "custom_call" not in text
        assert np.asarray(lm.stablehlo.loads(text)(x)).tobytes() == np.asarray(f(x)).tobytes()


@pytest.mark.parametrize("n", [6, 67, 600])
@pytest.mark.parametrize("name", ONE)
def test_derivatives(name, n):
    """The transforms are linear: their derivative is themselves, and reverse mode its transpose."""
    rng = np.random.default_rng(0)
    f = getattr(ff, name)
    x, t = (lnp.asarray(numbers(rng, (n,), name)) for _ in range(2))
    change = lm.jvp(f, (x,), (t,))[1]
    close(change, np.asarray(f(t)), 1e-10)
    value, back = lm.vjp(f, x)
    ct = rng.normal(size=value.shape)
    if value.dtype.kind == "c":
        ct = ct + 1j * rng.normal(size=value.shape)
    (g,) = back(lnp.asarray(ct))
    left, right = np.sum(np.asarray(g) * np.asarray(t)), np.sum(ct * np.asarray(change))
    np.testing.assert_allclose(np.real(left), np.real(right), rtol=1e-9, atol=1e-9)
    power = lambda v: lnp.sum(lnp.abs(f(v)) ** 4)  # noqa: E731
    first = lambda v: lm.jvp(power, (v,), (t,))[1]  # noqa: E731
    h = 1e-6
    slope = (float(power(x + h * t)) - float(power(x - h * t))) / (2 * h)
    np.testing.assert_allclose(float(first(x)), slope, rtol=1e-6)
    bend = (float(first(x + h * t)) - float(first(x - h * t))) / (2 * h)
    np.testing.assert_allclose(float(lm.jvp(first, (x,), (t,))[1]), bend, rtol=1e-5)
    (g,) = lm.vjp(first, x)[1](lnp.ones((), dtype="float64"))
    np.testing.assert_allclose(np.real(np.sum(np.asarray(g) * np.asarray(t))), bend, rtol=1e-5)


@pytest.mark.parametrize("n", [5, 67, 128])
def test_vmap_is_a_loop_and_jit_is_plain_code_bit_by_bit(n):
    x = lnp.asarray(np.random.default_rng(0).normal(size=(3, n)).astype("float32"))
    for f in (ff.fft, ff.rfft, lambda v: ff.irfft(ff.rfft(v), n), ff.ifft):
        loop = [np.asarray(f(y)).tobytes() for y in x]
        for batched in (lm.vmap(f)(x), lm.jit(lm.vmap(f))(x), f(x)):
            assert [np.asarray(batched)[i].tobytes() for i in range(3)] == loop
        assert np.asarray(lm.jit(f)(x[0])).tobytes() == loop[0]


def test_not_a_number_stays_one_and_lanes_are_apart():
    x = np.ones((2, 67))
    x[0, 3] = np.nan
    y = np.asarray(ff.fft(x))
    assert np.isnan(y[0]).all() and np.isfinite(y[1]).all()


def test_lax_fft():
    from lamina import lax

    a = np.random.default_rng(0).normal(size=(3, 4, 6))
    close(lax.fft(lnp.asarray(a + 0j), "FFT", (4, 6)), np.fft.fft2(a))
    close(lax.fft(lnp.asarray(a), lax.FftType.RFFT, 6), np.fft.rfft(a))
    close(lax.fft(lnp.asarray(np.fft.rfft(a)), lax.FftType.IRFFT, [6]), a)


def test_what_does_not_fit_raises():
    x = lnp.ones((3, 4))
    for f, error, word in [
        (lambda: ff.fft(x, 0), ValueError, "at least 1"),
        (lambda: ff.fft(x, norm="odd"), ValueError, "norm"),
        (lambda: ff.fft(x, axis=2), ValueError, "axis"),
        (lambda: ff.fftn(x, (1, 2, 3), (0, 1)), ValueError, "axes"),
        (lambda: ff.fftn(lnp.ones(5), (3, 5)), ValueError, "fftn: 2 sizes for 1 dimensions"),
        (lambda: ff.rfft(x + 1j), TypeError, "real"),
        (lambda: ff.fft(lnp.zeros((3, 0))), ValueError, "at least 1"),
        (lambda: ff.fft(1.0), ValueError, "dimension"),
        (lambda: lm.lax.fft(x, "FFT", 4), ValueError, "FFT"),
    ]:
        with pytest.raises(error, match=word):
            f()


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_several_axes_of_a_transform_along_one_are_refused(name):
    for axis in ([0, 1], (1,)):
        with pytest.raises(
            ValueError, match=rf"{name} needs one axis, not .*: {name}n transforms along several"
        ):
            getattr(lnp.fft, name)(np.ones((2, 3)), axis=axis)


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_of_lists_are_refused(name):
    f = getattr(lnp.fft, name)
    with pytest.raises(ValueError, match=rf"{name}: n is an integer, not \[0, 1\]"):
        f([0, 1])
    with pytest.raises(ValueError, match=rf"{name}: d is a number, not \[0.5, 1\]"):
        f(10, d=[0.5, 1])
    np.testing.assert_allclose(f(10, d=np.float32(0.5)), getattr(np.fft, name)(10, 0.5), rtol=1e-6)
