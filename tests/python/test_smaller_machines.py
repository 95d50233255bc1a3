"""A machine with AVX2 alone runs every family of kernels: no code for a larger one is reached, whatever machine
Lamina was built and tested on. Valgrind is that machine; LAMINA_ISA=avx2 only makes a larger one choose as it would."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.skipif(not shutil.which("valgrind"), reason="valgrind is not installed"),
    pytest.mark.not_on_cuda(reason="kernels of the host"),
]

PROGRAM = """
import lamina as lm, lamina.numpy as jnp, numpy as np
from lamina import _core

_core.set_eager_compile(True)
rng = np.random.default_rng(0)
small = rng.integers(0, 3, (40, 40))
for kind in "float32 float64 float16 bfloat16 int8 uint8 int16 int32 int64 complex64".split():
    a = jnp.asarray(small).astype(kind)
    got = np.asarray((a @ a).astype("complex64"))
    assert (got == (small @ small).astype("int8" if kind == "int8" else "int64")).all(), kind
    row = np.asarray((a @ a[0]).astype("complex64"))
    assert (row == (small @ small[0]).astype("int8" if kind == "int8" else "int64")).all(), kind
many = rng.integers(0, 100, 3000)
for kind in "float32 float64 float16 int8 int32 int64".split():
    x = jnp.asarray(many).astype(kind)
    assert (np.asarray(jnp.sort(x)) == np.sort(many)).all(), kind
    assert (np.asarray(jnp.argsort(x)) == np.argsort(many, kind="stable")).all(), kind
    assert (np.asarray(jnp.cumsum(x[:50].astype("int32"))) == np.cumsum(many[:50])).all(), kind

image, filters = np.ones((1, 8, 8, 16), "float32"), np.ones((3, 3, 16, 16), "float32")
for groups in (1, 16):
    got = lm.lax.conv_general_dilated(
        jnp.asarray(image), jnp.asarray(filters[:, :, : 16 // groups]), (1, 1), "VALID",
        dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups,
    )
    assert (np.asarray(got) == 9 * 16 // groups).all()
wave = rng.standard_normal(256).astype("float32")
np.testing.assert_allclose(jnp.fft.fft(jnp.asarray(wave)), np.fft.fft(wave), atol=1e-4)
waves = rng.standard_normal((20, 600))
np.testing.assert_allclose(jnp.fft.irfft(jnp.fft.rfft(jnp.asarray(waves))), waves, atol=1e-12)
np.testing.assert_allclose(jnp.fft.fft(jnp.asarray(waves), axis=0), np.fft.fft(waves, axis=0), atol=1e-12)
matrices = np.eye(6)[None].repeat(9, 0) + 0.1
np.testing.assert_allclose(jnp.linalg.cholesky(jnp.asarray(matrices)), np.linalg.cholesky(matrices), atol=1e-12)
np.testing.assert_allclose(jnp.linalg.inv(jnp.asarray(matrices)), np.linalg.inv(matrices), atol=1e-12)
sizes = jnp.linalg.svd(jnp.asarray(matrices), compute_uv=False)
np.testing.assert_allclose(sizes, np.linalg.svd(matrices, compute_uv=False), atol=1e-12)
assert abs(float(lm.random.normal(lm.random.key(0), (3000,)).mean())) < 0.1

# Generated code.
x = rng.standard_normal((50, 37)).astype("float32")
formula = lm.jit(lambda x: jnp.exp(x).sum(0) + jnp.tanh(x).max(1)[:37])
before = lm.cache.stats()["kernel_compiles"]
np.testing.assert_allclose(formula(jnp.asarray(x)), np.exp(x).sum(0) + np.tanh(x).max(1)[:37], rtol=1e-5)
assert lm.cache.stats()["kernel_compiles"] > before
print("done")
"""


def test_a_machine_with_avx2_alone(tmp_path: Path) -> None:
    done = subprocess.run(
        ["valgrind", "--tool=none", "-q", sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"LAMINA_CACHE_DIR": str(tmp_path), "LAMINA_DEFAULT_DEVICE": "cpu"},
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr[-4000:]
