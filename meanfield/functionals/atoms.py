"""Sums over pairs of points: what measures that sit at points add to a squared distance."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import gammaln

Array = NDArray[np.float64]
Kernel = Callable[[Array], Array]

# points nearer than this are one
_COINCIDING = 1e-12
_BLOCK = 1 << 21
# past this degree N_k (k(k+d-2))^s is as good as its leading terms
_FAR = 1 << 17


def merged(points: Array, masses: Array) -> tuple[Array, Array]:
    """Distinct points (m, d) of n, and the sums of their masses, which may be of either sign."""
    if len(points) == 0:
        return points, masses
    # along a direction in general position, points that coincide are neighbours
    order = np.argsort(points @ np.cos(1.0 + np.arange(points.shape[1]) ** 1.5), kind="stable")
    points, masses = points[order], masses[order]
    new = np.abs(np.diff(points, axis=0)).max(axis=1) > _COINCIDING
    group = np.concatenate([[0], np.cumsum(new)])
    first = np.concatenate([[0], np.flatnonzero(new) + 1])
    return points[first], np.asarray(np.bincount(group, masses), dtype=np.float64)


def pair_sum(points: Array, masses: Array, kernel: Kernel) -> float:
    """Σ_ij m_i m_j kernel(|x_i - x_j|²), in blocks of 2^21 pairs."""
    step = max(1, _BLOCK // max(1, len(points)))
    total = 0.0
    for start in range(0, len(points), step):
        part = slice(start, start + step)
        values = kernel(cdist(points[part], points, "sqeuclidean"))
        total += float(masses[part] @ (values @ masses))
    return total


def attention_kernel(beta: float) -> Kernel:
    """e^{β(<x,y> - 1)} - 1 as a function of |x - y|², right relative to its own size."""
    return lambda squared: np.asarray(np.expm1(-0.5 * beta * squared))


def log_sobolev_terms(dim: int, s: float, k: Array) -> Array:
    """log of N_k (k(k+d-2))^s, k >= 1."""
    d = float(dim)
    log_n = np.log(2 * k + d - 2) + gammaln(k + d - 2) - gammaln(k + 1) - gammaln(d - 1)
    return np.asarray(log_n + s * np.log(k * (k + d - 2)))


def sobolev_tail(dim: int, s: float, kmax: int) -> float:
    """Σ_{k > kmax} N_k (k(k+d-2))^s, for s < -(d-1)/2: one Dirac's power past degree kmax.

    Past degree M = max(2^17, 2 kmax) the terms are u^p, p = d - 2 + 2s, u = k + d/2 - 1, but for a
    factor 1 + O(u^-2), and the midpoint rule turns their sum into an integral: the error is 1e-10
    d² of that remainder.

    Examples
    --------
    >>> sobolev_tail(2, -1.0, 1)  # 2 (π²/6 - 1)
    1.289868133696
    """
    far = max(_FAR, 2 * kmax)
    near = np.exp(log_sobolev_terms(dim, s, np.arange(kmax + 1.0, far + 1.0))).sum()
    start = far + 0.5
    last = np.exp(log_sobolev_terms(dim, s, np.array(start)))
    return float(near + last * (start + 0.5 * dim - 1.0) / -(dim - 1.0 + 2.0 * s))


def sobolev_kernel(dim: int, s: float, kmax: int) -> Kernel:
    """Σ_{1 <= k <= kmax} N_k (k(k+d-2))^s P_k as a function of |x - y|²."""
    terms = np.exp(log_sobolev_terms(dim, s, np.arange(1.0, kmax + 1.0)))

    def kernel(squared: Array) -> Array:
        t = 1.0 - 0.5 * squared
        before, present = np.ones_like(t), t
        total = terms[0] * t
        for k in range(1, kmax):
            after = ((2 * k + dim - 2) * t * present - k * before) / (k + dim - 2)
            before, present = present, after
            total += terms[k] * present
        return np.asarray(total)

    return kernel
