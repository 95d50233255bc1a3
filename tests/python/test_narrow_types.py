"""Element types of a byte or less in Python: interchange with NumPy and DLPack, promotion, limits, texts."""

import itertools
import pickle

import lamina as lm
import lamina.numpy as lnp
import ml_dtypes
import numpy as np
import pytest
from lamina import dtypes, lax, stablehlo, xla_hlo
from lamina._core import forceable

FLOATS = [n for n, t in dtypes.TABLE.items() if t.kind == "f" and t.itemsize == 1]
INTEGERS = [n for n, t in dtypes.TABLE.items() if t.kind in "iu" and t.bits < 8]
NARROW = FLOATS + INTEGERS


def values(name):
    return np.arange(1, 2 ** dtypes.TABLE[name].bits, 3, dtype=np.uint8).view(getattr(ml_dtypes, name))


def patterns(name):
    return np.arange(2 ** dtypes.TABLE[name].bits, dtype=np.uint8).view(getattr(ml_dtypes, name))


@pytest.mark.parametrize("name", NARROW)
def test_numpy_and_pickle_keep_the_bits(name):
    a = values(name)
    t = lnp.asarray(a)
    assert isinstance(t, lm.Tensor) and t.dtype == name and t.dtype == a.dtype and forceable(t)
    assert t.numpy().dtype == a.dtype and t.nbytes == a.size and t.dtype.itemsize == 1
    np.testing.assert_array_equal(t.numpy().astype(np.float32), a.astype(np.float32))
    back = pickle.loads(pickle.dumps(t))
    assert back.dtype == name and back.numpy().tobytes() == t.numpy().tobytes()
    assert lnp.asarray(a.reshape(-1, 1)[::2]).shape == a.reshape(-1, 1)[::2].shape
    assert getattr(lnp, name) == name and lnp.zeros(2, getattr(lnp, name)).dtype == name
    assert f"dtype={name}" in repr(t)
    assert np.asarray(t).dtype == a.dtype and np.concatenate([np.asarray(t), a]).dtype == a.dtype
    assert not t.numpy().flags.writeable and t.numpy().shape == a.shape
    assert np.asarray(lnp.asarray(a[0])).shape == () and np.asarray(lnp.zeros((0, 3), name)).shape == (0, 3)
    with pytest.raises(BufferError, match=name):
        memoryview(t)
    raw = a.tobytes()
    assert lnp.frombuffer(raw, name).numpy().tobytes() == t.numpy().tobytes()


def test_bits_above_the_width_have_no_meaning():
    raw = np.array([0x0F, 0xF7, 0xF8, 0x38], np.uint8)
    for name, want in (("int4", [-1, 7, -8, -8]), ("uint4", [15, 7, 8, 8]), ("int2", [-1, -1, 0, 0])):
        t = lnp.asarray(raw.view(getattr(ml_dtypes, name)))
        assert t.astype("int32").tolist() == want
        assert (t + 0).astype("int32").tolist() == want
        assert (t == lnp.array(want, name)).tolist() == [True] * 4


@pytest.mark.parametrize("name", NARROW)
def test_dlpack(name):
    t = lnp.asarray(values(name))
    if dtypes.TABLE[name].bits < 8:
        with pytest.raises(TypeError, match="packed in DLPack"):
            lnp.from_dlpack(t, device="cpu")
        return
    back = lnp.from_dlpack(t, device="cpu")
    assert back.dtype == name and back.numpy().tobytes() == t.numpy().tobytes()


@pytest.mark.parametrize("name", FLOATS)
def test_finfo(name):
    got, want = lnp.finfo(name), ml_dtypes.finfo(name)
    for field in ("bits", "nexp", "nmant", "minexp", "maxexp"):
        assert getattr(got, field) == getattr(want, field), field
    for field in ("max", "min", "eps", "tiny", "smallest_normal", "smallest_subnormal"):
        assert getattr(got, field) == float(getattr(want, field)), field


@pytest.mark.parametrize("name", INTEGERS)
def test_iinfo(name):
    got, want = lnp.iinfo(name), ml_dtypes.iinfo(name)
    assert (got.bits, got.min, got.max) == (want.bits, want.min, want.max)


def test_promotion_is_that_of_jax():
    jnp = pytest.importorskip("jax.numpy")
    names = [n for n in dtypes.TABLE if hasattr(jnp, n) or n == "bool"]
    named = {n: jnp.dtype(getattr(ml_dtypes, n) if hasattr(ml_dtypes, n) else n) for n in names}
    for a, b in itertools.product(names, names):
        if not {a, b} & set(NARROW):
            continue
        try:
            want = str(jnp.promote_types(named[a], named[b]))
        except ValueError:
            with pytest.raises(TypeError, match="have no common one"):
                lnp.promote_types(a, b)
            continue
        assert lnp.promote_types(a, b) == want, (a, b)


def test_python_numbers_take_the_type():
    for name in FLOATS:
        x = lnp.ones(2, name)
        for y in (x + 1, x * 1.5, True * x):
            assert y.dtype == name
        with pytest.raises(TypeError, match="no common one"):
            x + 1j
        with pytest.raises(TypeError, match="no common one"):
            x + lnp.ones(2, "float32")
    for name in INTEGERS:
        x = lnp.ones(2, name)
        assert (x + 1).dtype == name and (True + x).dtype == name
        with pytest.raises(OverflowError, match="does not fit"):
            x + 16
        with pytest.raises(TypeError, match="astype"):
            x + 1.5
    with pytest.raises(TypeError, match="float8_e5m2 and float8_e4m3fn"):
        lnp.concatenate([lnp.ones(2, "float8_e5m2"), lnp.ones(2, "float8_e4m3fn")])


@pytest.mark.parametrize("casting", ["safe", "same_kind"])
def test_can_cast(casting):
    kinds = {"int4": "i1", "uint4": "u1"}
    assert lnp.can_cast("int4", "int8", casting) and lnp.can_cast("float8_e5m2", "float16", casting)
    assert lnp.can_cast("float8_e4m3fn", "bfloat16", casting) and lnp.can_cast(
        "bool", "float4_e2m1fn", casting
    )
    assert lnp.can_cast("float8_e5m2", "float32", casting) and lnp.can_cast("uint4", "float8_e4m3fn", casting)
    assert not lnp.can_cast("float8_e5m2", "int32", casting) and kinds
    if casting == "safe":
        assert not lnp.can_cast("int8", "int4") and not lnp.can_cast("float16", "float8_e5m2")
        assert not lnp.can_cast("float8_e5m2", "float8_e4m3fn") and not lnp.can_cast("int4", "uint4")


def test_infinities_and_limits_without_infinity():
    for name in FLOATS:
        x = lnp.asarray(values(name))
        wide = x.numpy().astype(np.float32)
        np.testing.assert_array_equal(np.asarray(lnp.isinf(x)), np.isinf(wide))
        np.testing.assert_array_equal(
            np.asarray(lnp.signbit(x)), np.signbit(wide) & ~np.isnan(wide)
        )  # a NaN has no sign
        finite = lnp.asarray(values(name)[np.isfinite(wide)])
        assert float(lnp.max(finite)) == wide[np.isfinite(wide)].max()
        assert float(lnp.nanmin(x)) == np.nanmin(wide)
        if dtypes.TABLE[name].layout[2] <= 1:
            with pytest.raises(TypeError, match="frexp"):
                lnp.frexp(finite)
            continue
        m, e = lnp.frexp(finite)
        np.testing.assert_array_equal(np.ldexp(m.numpy().astype(np.float32), e.numpy()), finite.numpy())


@pytest.mark.parametrize("name", NARROW)
def test_texts_come_back(name):
    constant = patterns(name)

    def f(x):
        return lnp.concatenate([x[::-1], lnp.asarray(constant)]), x.astype("float32") + 1

    given = lnp.asarray(values(name))
    traced = lm.jit(f)
    want = [y.numpy() for y in traced(given)]
    text = stablehlo.dumps(traced.lower(given))
    mlir = {"int": "i", "uint": "ui"}
    kind = next((k for k in ("uint", "int") if name.startswith(k)), None)
    spelled = mlir[kind] + name[len(kind) :] if kind else "f" + name[5:].upper().replace("_", "")
    assert f"x{spelled}>" in text
    for loaded in (stablehlo.loads(text), xla_hlo.loads(xla_hlo.dumps(stablehlo.loads(text)))):
        for got, w in zip(loaded(given), want):
            assert got.numpy().dtype == w.dtype
            np.testing.assert_array_equal(got.numpy().astype(np.float32), w.astype(np.float32))


def test_stablehlo_spellings():
    module = stablehlo.loads(
        """func.func @main(%x: tensor<4xi4>, %y: tensor<2xf8E4M3FN>) -> (tensor<4xsi4>, tensor<2xf8E4M3FN>) {
          %c = stablehlo.constant dense<"0x010F0807"> : tensor<4xi4>
          %d = stablehlo.constant dense<[0x7F, -4.48E+2]> : tensor<2xf8E4M3FN>
          %0 = stablehlo.add %x, %c : tensor<4xi4>
          %1 = stablehlo.maximum %y, %d : tensor<2xf8E4M3FN>
          return %0, %1 : tensor<4xi4>, tensor<2xf8E4M3FN>
        }"""
    )
    a, b = module(lnp.array([7, 0, 0, 1], "int4"), lnp.array([1, 2], "float8_e4m3fn"))
    assert a.astype("int32").tolist() == [-8, -1, -8, -8]
    assert np.isnan(float(b[0])) and float(b[1]) == 2
    for bad in ("dense<8> : tensor<i4>", "dense<0x100> : tensor<f8E5M2>", "dense<-1> : tensor<ui4>"):
        kind = bad.split(" : ")[1]
        with pytest.raises(ValueError, match="is no number of type"):
            stablehlo.loads(
                f"func.func @main() -> {kind} {{ %0 = stablehlo.constant {bad}\n return %0 : {kind} }}"
            )


def test_products_of_two_formats_in_a_wider_one():
    a, b = lnp.array([[1, 2], [3, 448]], "float8_e4m3fn"), lnp.array([[1, 0.25], [3, 57344]], "float8_e5m2")
    got = lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type="float32")
    want = a.numpy().astype(np.float32) @ b.numpy().astype(np.float32)
    assert got.dtype == "float32"
    np.testing.assert_array_equal(got.numpy(), want)
    i = lnp.array([[7, -8], [3, 4]], "int4")
    assert lax.dot_general(i, i, (((1,), (0,)), ((), ())), preferred_element_type="int32").tolist() == [
        [25, -88],
        [33, -8],
    ]
    with pytest.raises(TypeError, match="have no common one"):
        lax.dot_general(a, b, (((1,), (0,)), ((), ())))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("result", ["int32", "uint32", "int64", None])
def test_products_of_bytes(dtype, result):
    """They are read as bytes whatever the sums are, and sums wrap as the result's type does."""
    r = np.random.default_rng(5)
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    for m, k, n in [(1, 1, 1), (3, 7, 5), (70, 301, 33), (2, 40_000, 17), (40, 0, 3)]:
        a, b = (r.integers(low, high, shape, endpoint=True).astype(dtype) for shape in ((m, k), (k, n)))
        a[:, : k // 2] = low if dtype == "int8" else high
        want = (a.astype(np.int64) @ b.astype(np.int64)).astype(result or dtype)
        f = lm.jit(lambda a, b: lm.lax.dot(a, b, preferred_element_type=result))
        got = f(a, b)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(
            lm.lax.dot(lnp.asarray(a), lnp.asarray(b), preferred_element_type=result), want
        )
    if result in ("int32", "uint32") and "cpu" in str(got.device):
        assert "dot s8" in lm.cache.listing(lm.cache.entries()[0]["id"], "plan").replace("u8", "s8")
