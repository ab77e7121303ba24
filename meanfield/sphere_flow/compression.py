"""Fewer points with the same low moments: what a small cluster may be replaced by."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.geometry import perpendicular

Array = NDArray[np.float64]

_HIGHEST_DEGREE = 16


def compressed(points: Array, masses: Array, scale: float, tol: float) -> tuple[Array, Array]:
    """Some of the points, with masses >= 0 of the same moments up to the degree that tol asks for.

    A kernel e^{<z,y>}, |z| <= β, over a patch of radius ρ has a Taylor remainder of
    (βρ)^{p+1}/(p+1)!, so moments up to degree p suffice where that is below tol (Tchakaloff). A
    patch so small that p = 1 will do becomes a single point at its mean.

    Parameters
    ----------
    points : ndarray, shape (n, 3)
        Unit rows in one patch.
    masses : ndarray, shape (n,)
        Not negative.
    scale : float
        β, or 1 where that is larger.
    tol : float
        Relative error allowed.

    Returns
    -------
    points : ndarray, shape (m, 3)
        m <= (p + 1)(p + 2)/2.
    masses : ndarray, shape (m,)

    Examples
    --------
    >>> points = np.array([[np.sin(a), 0.0, np.cos(a)] for a in (-1e-9, 1e-9)])
    >>> compressed(points, np.ones(2), 1.0, 1e-12)
    (array([[0., 0., 1.]]), array([2.]))
    """
    kept = masses > 0.0
    points, masses = points[kept], masses[kept]
    if len(points) < 2:
        return points, masses
    mean = masses @ points
    centre = mean / np.linalg.norm(mean)
    apart = np.linalg.norm(points - centre, axis=1)
    degree = _degree(points, masses, apart, scale, tol)
    if degree <= 1:
        return centre[None], np.array([masses.sum()])
    first = perpendicular(centre)
    frame = np.stack([first, np.cross(centre, first)], axis=1)
    local = points @ frame / apart.max()
    basis = _polynomials(local, degree)
    if len(points) <= basis.shape[1]:
        return points, masses
    index, found = _recombined(basis, masses)
    return points[index], found


def _degree(points: Array, masses: Array, apart: Array, scale: float, tol: float) -> int:
    """The least p whose remainder Σ m (βρ)^{p+1}/(p+1)! is below tol · Σ m."""
    term = np.ones(len(points))
    total = float(masses.sum())
    for degree in range(_HIGHEST_DEGREE):
        term = term * (scale * apart / (degree + 1))
        if float(masses @ term) <= tol * total:
            return degree
    return _HIGHEST_DEGREE


def _polynomials(local: Array, degree: int) -> Array:
    """Products of Legendre polynomials of total degree <= p at rows (n, 2), shape (n, m)."""
    legendre = np.polynomial.legendre.legvander
    u, v = legendre(local[:, 0], degree), legendre(local[:, 1], degree)
    pairs = [(j, k) for j in range(degree + 1) for k in range(degree + 1 - j)]
    return np.stack([u[:, j] * v[:, k] for j, k in pairs], axis=1)


def _recombined(basis: Array, masses: Array) -> tuple[NDArray[np.intp], Array]:
    """Rows and masses with the same Σ m · basis: groups of rows are thinned out by halves."""
    index, masses = np.arange(len(masses)), masses.copy()
    size = basis.shape[1]
    while len(index) > size:
        groups = np.array_split(np.arange(len(index)), min(len(index), 2 * size))
        starts = np.array([group[0] for group in groups])
        weighted = masses[:, None] * basis[index]
        sums = np.add.reduceat(weighted, starts, axis=0)
        totals = np.add.reduceat(masses, starts)
        factors = _eliminated(sums, totals)
        factor = np.repeat(factors, [len(group) for group in groups])
        masses = masses * factor
        alive = masses > 0.0
        index, masses = index[alive], masses[alive]
    return index, masses


def _eliminated(sums: Array, totals: Array) -> Array:
    """Factors >= 0 of the groups, at most `size` of them not 0, that keep the sum over groups."""
    scaled = sums / totals[:, None]
    current = totals.copy()
    alive = np.arange(len(totals))
    while len(alive) > sums.shape[1]:
        # null vectors of the moments of the groups that are left
        _, _, right = np.linalg.svd(scaled[alive].T)
        null = right[sums.shape[1] :]
        for _ in range(min(len(null), 8)):
            direction = null[0]
            if direction.max() <= 0.0:
                direction = -direction
            positive = direction > 1e-14 * np.abs(direction).max()
            ratios = np.where(positive, current[alive] / np.where(positive, direction, 1.0), np.inf)
            gone = int(np.argmin(ratios))
            current[alive] -= ratios[gone] * direction
            current[alive[gone]] = 0.0
            np.maximum(current, 0.0, out=current)
            if len(null) == 1:
                break
            null = null[1:] - np.outer(null[1:, gone] / direction[gone], direction)
        alive = alive[current[alive] > 0.0]
    return current / totals
