"""Rotations of three-dimensional space: Rotation and Slerp, as in scipy.spatial.transform.

Rotations are unit quaternions (x, y, z, w) along the last dimension, under transforms like other arrays. Sources:
Markley, "Unit quaternion from rotation matrix" (2008); Bernardes, Viollet, "Quaternion to Euler angles conversion: a
direct, general and computationally efficient method" (2022); Markley et al., "Averaging quaternions" (2007); Shoemake,
"Animating rotation with quaternion curves" (1985).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lamina import _missing
from lamina import numpy as lnp
from lamina import random as draws
from lamina._core import Tensor
from lamina._tensor import to_tensor
from lamina.numpy._common import floating

__all__ = ["Rotation", "Slerp"]

_SMALL = 1e-3  # angles below it go by series, which has their derivative at 0


def _last(x: Any, size: int, what: str) -> Tensor:
    t = floating(x, what)
    if t.ndim < 1 or t.shape[-1] != size:
        raise ValueError(f"{what} takes arrays whose last dimension is {size}, not shape {t.shape}")
    return t


def _length(v: Tensor) -> Tensor:
    """The length along the last dimension, kept; its derivative at 0 is 0."""
    square = lnp.sum(lnp.square(v), -1, keepdims=True)
    zero = square == 0
    return lnp.where(zero, 0.0, lnp.sqrt(lnp.where(zero, 1.0, square)))


def _times(p: Tensor, q: Tensor) -> Tensor:
    """The product of quaternions."""
    pv, pw, qv, qw = p[..., :3], p[..., 3:], q[..., :3], q[..., 3:]
    vector = pw * qv + qw * pv + lnp.cross(*lnp.broadcast_arrays(pv, qv))
    return lnp.concatenate([vector, pw * qw - lnp.sum(pv * qv, -1, keepdims=True)], -1)


def _axes(seq: str) -> tuple[list[int], bool]:
    """Places of the axes, and whether they stay (small letters) instead of turning along (capitals)."""
    fixed = seq == seq.lower()
    if not 1 <= len(seq) <= 3 or set(seq.lower()) - set("xyz") or not (fixed or seq == seq.upper()):
        raise ValueError(f"a sequence of axes is up to three of 'xyz', or of 'XYZ', not {seq!r}")
    if any(a == b for a, b in itertools.pairwise(seq)):
        raise ValueError(f"a sequence of axes does not repeat one at once, as {seq!r} does")
    return ["xyz".index(c) for c in seq.lower()], fixed


@dataclass(frozen=True)
class Rotation:
    """One rotation (quat [4]) or several (quat [n, 4]); a container of its array.

    >>> Rotation.from_euler("z", 90, degrees=True).apply(lnp.array([1., 0., 0.]))
    """

    quat: Tensor

    @classmethod
    def from_quat(cls, quat: Any, *, scalar_first: bool = False) -> Rotation:
        """Of quaternions (x, y, z, w), or (w, x, y, z) with `scalar_first`, of any length but 0."""
        q = _last(quat, 4, "Rotation.from_quat")
        q = lnp.roll(q, -1, -1) if scalar_first else q
        return cls(q / _length(q))

    @classmethod
    def from_matrix(cls, matrix: Any) -> Rotation:
        """Of orthogonal matrices [..., 3, 3] with determinant 1."""
        m = _last(matrix, 3, "Rotation.from_matrix")
        if m.ndim < 2 or m.shape[-2] != 3:
            raise ValueError(f"Rotation.from_matrix takes matrices [..., 3, 3], not shape {m.shape}")
        at = lambda i, j: m[..., i, j]  # noqa: E731
        trace = at(0, 0) + at(1, 1) + at(2, 2)
        forms = []
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            row: dict[int, Tensor] = {
                i: 1 - trace + 2 * at(i, i),
                j: at(j, i) + at(i, j),
                k: at(k, i) + at(i, k),
                3: at(k, j) - at(j, k),
            }
            forms.append(lnp.stack([row[c] for c in range(4)], -1))
        forms.append(
            lnp.stack([at(2, 1) - at(1, 2), at(0, 2) - at(2, 0), at(1, 0) - at(0, 1), 1 + trace], -1)
        )
        best = lnp.argmax(lnp.stack([at(0, 0), at(1, 1), at(2, 2), trace], -1), -1)
        chosen = lnp.take_along_axis(lnp.stack(forms, -2), best[..., None, None], -2)[..., 0, :]
        return cls.from_quat(chosen)

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """Of vectors [..., 3] along the axis, as long as the angle."""
        v = _last(rotvec, 3, "Rotation.from_rotvec")
        v = lnp.deg2rad(v) if degrees else v
        angle = _length(v)
        square = lnp.square(angle)
        small = angle <= _SMALL
        series = 0.5 - square / 48 + square * square / 3840
        safe = lnp.where(small, 1.0, angle)
        return cls(
            lnp.concatenate([lnp.where(small, series, lnp.sin(safe / 2) / safe) * v, lnp.cos(angle / 2)], -1)
        )

    @classmethod
    def from_mrp(cls, mrp: Any) -> Rotation:
        """Of modified Rodrigues parameters [..., 3]: the axis times the tangent of a quarter of the angle."""
        p = _last(mrp, 3, "Rotation.from_mrp")
        square = lnp.sum(lnp.square(p), -1, keepdims=True)
        return cls(lnp.concatenate([2 * p, 1 - square], -1) / (1 + square))

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """Of angles [..., axes] (or one for one axis) about axes of 'xyz', which stay, or of 'XYZ', which turn along."""
        axes, fixed = _axes(seq)
        a = floating(angles, "Rotation.from_euler")
        a = lnp.deg2rad(a) if degrees else a
        a = a[..., None] if len(axes) == 1 and (a.ndim == 0 or a.shape[-1] != 1) else a
        if a.ndim == 0 or a.shape[-1] != len(axes):
            raise ValueError(f"Rotation.from_euler: angles of shape {a.shape} for {len(axes)} axes ({seq!r})")
        out: Tensor | None = None
        for n, axis in enumerate(axes):
            half, zero = a[..., n] / 2, lnp.zeros(a.shape[:-1], a.dtype)
            one = lnp.stack([lnp.sin(half) if d == axis else zero for d in range(3)] + [lnp.cos(half)], -1)
            out = one if out is None else _times(one, out) if fixed else _times(out, one)
        return cls(out)

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """The rotation that leaves everything as it is, or `num` of it."""
        one = lnp.array([0.0, 0.0, 0.0, 1.0], dtype)
        return cls(one if num is None else lnp.tile(one, (num, 1)))

    @classmethod
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """A rotation drawn evenly from all, or `num` of them."""
        return cls.from_quat(draws.normal(random_key, (4,) if num is None else (num, 4)))

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """Several rotations in one object."""
        return cls(lnp.concatenate([lnp.atleast_2d(r.quat) for r in rotations]))

    @property
    def single(self) -> bool:
        """Whether it is one rotation."""
        return self.quat.ndim == 1

    def __len__(self) -> int:
        if self.single:
            raise TypeError("a single rotation has no length")
        return self.quat.shape[0]

    def __getitem__(self, index: Any) -> Rotation:
        if self.single:
            raise TypeError("a single rotation has no items")
        return Rotation(self.quat[index])

    def __mul__(self, other: Rotation) -> Rotation:
        """The rotation by `other`, then by this one."""
        return Rotation.from_quat(_times(self.quat, other.quat))

    def inv(self) -> Rotation:
        """The inverse."""
        return Rotation(lnp.concatenate([-self.quat[..., :3], self.quat[..., 3:]], -1))

    def apply(self, vectors: Any, inverse: bool = False) -> Tensor:
        """Vectors [..., 3] turned, or turned back."""
        m, v = self.as_matrix(), _last(vectors, 3, "Rotation.apply")
        m = lnp.swapaxes(m, -1, -2) if inverse else m
        return lnp.sum(m * v[..., None, :], -1)

    def magnitude(self) -> Tensor:
        """The angle, from 0 to pi."""
        return 2 * lnp.arctan2(_length(self.quat[..., :3])[..., 0], lnp.abs(self.quat[..., 3]))

    def mean(self, weights: Any = None) -> Rotation:
        """The rotation nearest to all in the mean, with weights [n]."""
        n = len(self)
        w = (
            lnp.ones(n, self.quat.dtype)
            if weights is None
            else lnp.astype(to_tensor(weights), self.quat.dtype)
        )
        if w.shape != (n,):
            raise ValueError(f"Rotation.mean: weights of shape {w.shape} for {n} rotations")
        _, vectors = lnp.linalg.eigh((self.quat * w[:, None]).T @ self.quat)
        return Rotation(vectors[:, -1])

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Tensor:
        """Quaternions (x, y, z, w), or (w, x, y, z); `canonical` with w > 0, at 0 with the first other that is not."""
        q = self.quat
        if canonical:
            x, y, z, w = (q[..., d] for d in range(4))
            first = lnp.where(w != 0, w, lnp.where(x != 0, x, lnp.where(y != 0, y, z)))
            q = lnp.where((first < 0)[..., None], -q, q)
        return lnp.roll(q, 1, -1) if scalar_first else q + 0

    def as_matrix(self) -> Tensor:
        """Matrices [..., 3, 3]."""
        x, y, z, w = (self.quat[..., d] for d in range(4))
        rows = [
            [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), y * y - x * x - z * z + w * w, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), z * z - x * x - y * y + w * w],
        ]
        return lnp.stack([lnp.stack(r, -1) for r in rows], -2)

    def as_rotvec(self, degrees: bool = False) -> Tensor:
        """Vectors [..., 3] along the axis, as long as the angle, at most pi."""
        q = lnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        sine = _length(q[..., :3])
        angle = 2 * lnp.arctan2(sine, q[..., 3:])
        square = lnp.square(angle)
        small = angle <= _SMALL
        series = 2 + square / 12 + 7 * square * square / 2880
        out = lnp.where(small, series, angle / lnp.where(small, 1.0, lnp.sin(angle / 2))) * q[..., :3]
        return lnp.rad2deg(out) if degrees else out

    def as_mrp(self) -> Tensor:
        """Modified Rodrigues parameters [..., 3], at most 1 long."""
        q = lnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        return q[..., :3] / (1 + q[..., 3:])

    def as_euler(self, seq: str, degrees: bool = False) -> Tensor:
        """Angles [..., 3] about three axes, as `from_euler` takes them; where they are not unique the last is 0."""
        axes, fixed = _axes(seq)
        if len(axes) != 3:
            raise ValueError(f"Rotation.as_euler needs three axes, not {seq!r}")
        i, j, k = axes if fixed else axes[::-1]
        first, third = (0, 2) if fixed else (2, 0)
        symmetric = i == k
        k = 3 - i - j if symmetric else k
        sign = (i - j) * (j - k) * (k - i) // 2
        q = [self.quat[..., d] for d in range(4)]
        if symmetric:
            a, b, c, d = q[3], q[i], q[j], q[k] * sign
        else:
            a, b, c, d = q[3] - q[j], q[i] + q[k] * sign, q[j] + q[3], q[k] * sign - q[i]
        middle = 2 * lnp.arctan2(lnp.hypot(c, d), lnp.hypot(a, b))
        total, rest = lnp.arctan2(b, a), lnp.arctan2(d, c)
        closed, opened = lnp.abs(middle) <= 1e-7, lnp.abs(middle - math.pi) <= 1e-7
        unique = ~(closed | opened)
        one = lnp.where(closed, 2 * total, (-2 if fixed else 2) * rest)
        angles = [lnp.where(unique, 0.0, one), middle, lnp.zeros_like(middle)]
        angles[first] = lnp.where(unique, total - rest, angles[first])
        angles[third] = lnp.where(unique, total + rest, angles[third])
        if not symmetric:
            angles[third] = angles[third] * sign
            angles[1] = middle - math.pi / 2
        out = lnp.stack(angles, -1)
        out = (out + math.pi) % (2 * math.pi) - math.pi
        return lnp.rad2deg(out) if degrees else out


@dataclass(frozen=True)
class Slerp:
    """Rotations between given ones, along the shortest way at constant speed. Made by `Slerp.init`."""

    times: Tensor
    timedelta: Tensor
    rotations: Rotation
    rotvecs: Tensor

    @classmethod
    def init(cls, times: Any, rotations: Rotation) -> Slerp:
        """Of two or more rotations at increasing times [n]. TypeError and ValueError where they do not fit."""
        if not isinstance(rotations, Rotation):
            raise TypeError(f"Slerp needs a Rotation, not {type(rotations).__name__}")
        if rotations.single or len(rotations) < 2:
            raise ValueError("Slerp needs at least two rotations")
        t = lnp.asarray(times, rotations.quat.dtype)
        if t.shape != (len(rotations),):
            raise ValueError(f"Slerp: times of shape {t.shape} for {len(rotations)} rotations")
        start, end = rotations[:-1], rotations[1:]
        return cls(t, lnp.diff(t), start, (start.inv() * end).as_rotvec())

    def __call__(self, times: Any) -> Rotation:
        """The rotations at times, one or [m]."""
        t = lnp.asarray(times, self.times.dtype)
        if t.ndim > 1:
            raise ValueError(f"Slerp takes a time or a 1-d array of them, not shape {t.shape}")
        at = lnp.clip(lnp.searchsorted(self.times, t) - 1, 0, self.timedelta.shape[0] - 1)
        part = (t - self.times[at]) / self.timedelta[at]
        return Rotation(self.rotations.quat[at]) * Rotation.from_rotvec(self.rotvecs[at] * part[..., None])


__getattr__ = _missing.attributes("lamina.scipy.spatial.transform")
