"""A ray-marched picture of a sphere over a plane, lit by the gradient of the distance field, written as PNG."""

from __future__ import annotations

import pathlib
import struct
import zlib

import lamina as lm
import lamina.numpy as lnp
from lamina import lax


def distance(point):
    """Signed distance of one point (3,) to the scene."""
    sphere = lnp.sqrt(lnp.sum((point - lnp.array([0.0, 0.1, 2.5])) ** 2)) - 0.8
    return lnp.minimum(sphere, point[1] + 0.7)


def shade(direction):
    """Brightness 0..1 of the ray from the origin along `direction` (3,)."""
    travelled = lax.fori_loop(0, 48, lambda _, t: t + distance(t * direction), lnp.float32(0.0))
    point = travelled * direction
    normal = lm.grad(distance)(point)
    light = lnp.array([0.4, 0.8, -0.45])
    lit = lnp.maximum(lnp.sum(normal * light), 0.0) * 0.85 + 0.1
    return lnp.where(travelled < 12.0, lit, 0.0)


@lm.jit
def render(directions):
    """Brightness of many rays (n, 3)."""
    return lm.vmap(shade)(directions)


def write_png(path: pathlib.Path, grey) -> None:
    """Writes bytes (height, width) as an 8-bit grey PNG."""
    height, width = grey.shape

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + grey[y].tobytes() for y in range(height))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def main(size: int = 160) -> tuple[float, float]:
    """Renders; returns the brightness of the sphere's lit side and of the sky."""
    import numpy as np

    x, y = np.meshgrid(np.linspace(-1, 1, size), np.linspace(0.8, -0.8, size))
    rays = np.stack([x, y, np.full_like(x, 1.6)], axis=-1).reshape(-1, 3)
    rays = (rays / np.linalg.norm(rays, axis=-1, keepdims=True)).astype(np.float32)
    picture = np.asarray(render(rays)).reshape(size, size)
    path = pathlib.Path(__file__).parent / "out" / "ray_march.png"
    write_png(path, (np.clip(picture, 0, 1) * 255).astype(np.uint8))
    print(
        f"{size}x{size} pixels written to {path.name}; brightest {picture.max():.2f}, sky {picture[0, 0]:.2f}"
    )
    return float(picture[size * 2 // 5, size // 2]), float(picture[0, 0])


if __name__ == "__main__":
    lit, sky = main()
    raise SystemExit(not (lit > 0.5 and sky == 0.0))
