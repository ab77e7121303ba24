"""Sums of k(x, y) = e^{β(<x,y> - 1)} over masses at nodes, at these nodes, again and again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from meanfield.geometry import circle_angles, polar_angles, project
from meanfield.harmonics import bandwidth, scaled_eigenvalues
from meanfield.kernels import LARGEST_CIRCLE_BETA
from meanfield.line_potential import CircleLine, LineSums, ZonalLine
from meanfield.spaces.sphere.at import Places, SphereAt

Array = NDArray[np.float64]

# a table of so many pairs is kept
_MOST_KEPT = 1 << 24
_BLOCK = 1 << 21
# of a series of G: below this share of the maximum it has lost digits
_SMALL = 1e-3
_TINY = 1e-300


class NodeSums(Protocol):
    """Σ_j k_ij m_j at the nodes themselves."""

    def potential(self, masses: Array) -> Array:
        """G = Σ_j k_ij m_j, shape (n,), of masses m >= 0, shape (n,)."""


class DenseSums:
    """Over all pairs, in any dimension; a table of up to 2^24 pairs is kept.

    Parameters
    ----------
    points : ndarray, shape (n, d)
    beta : float

    Examples
    --------
    >>> sums = DenseSums(np.eye(2), 1.0)
    >>> sums.potential(np.array([0.0, 1.0])).round(6)
    array([0.367879, 1.      ])
    """

    def __init__(self, points: Array, beta: float) -> None:
        self._points, self._beta = points, beta
        n = len(points)
        self._step = max(1, min(n, _BLOCK // n))
        self._table = self._rows(slice(0, n)) if n * n <= _MOST_KEPT else None

    def _rows(self, part: slice) -> Array:
        with np.errstate(under="ignore"):
            exponents = self._points[part] @ (self._beta * self._points).T
            return np.asarray(np.exp(np.minimum(exponents - self._beta, 0.0)))

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        n = len(self._points)
        if self._table is not None:
            yield slice(0, n), self._table
            return
        for start in range(0, n, self._step):
            part = slice(start, min(start + self._step, n))
            yield part, self._rows(part)

    def potential(self, masses: Array) -> Array:
        """G = Σ_j k_ij m_j, shape (n,)."""
        with np.errstate(under="ignore"):
            return np.concatenate([rows @ masses for _, rows in self._blocks()])

    def pull(self, masses: Array) -> tuple[Array, Array]:
        """G (n,) and P_x Σ_j k_ij m_j y_j, shape (n, d), without a node's pull on itself."""
        weighted, pull = masses[:, None] * self._points, np.empty_like(self._points)
        potential = np.empty(len(masses))
        with np.errstate(under="ignore"):
            for part, rows in self._blocks():
                potential[part] = rows @ masses
                others = rows.copy()
                others[np.arange(len(rows)), np.arange(part.start, part.stop)] = 0.0
                pull[part] = others @ weighted
        return potential, project(self._points, pull)


class SphereNodes:
    """Through spherical harmonics on S^2; rows of small G over all pairs.

    Parameters
    ----------
    points : ndarray, shape (n, 3)
    beta : float
    most_pairs : int
        So many terms may be summed one by one, at the smallest G first. The error of a G that is a
        share s < 1e-3 of the largest, and is not among them, is about 1e-15/s.
    """

    def __init__(self, points: Array, beta: float, most_pairs: int = _MOST_KEPT) -> None:
        self._points, self._beta = points, beta
        self._places, self._at = Places.of(points), SphereAt(bandwidth(beta, 3))
        factors = scaled_eigenvalues(beta, 3, self._at.lmax)
        slope = factors / beta if beta > 0.0 else np.eye(1, self._at.lmax + 1, 1)[0] / 3.0
        self._kernel, self._slope = factors[self._at.degrees], slope[self._at.degrees]
        self._most = most_pairs // len(points)
        self._small: NDArray[np.intp] | None = None
        self._rows = np.zeros((0, len(points)))

    def potential(self, masses: Array) -> Array:
        """G = Σ_j k_ij m_j, shape (n,)."""
        return self._potential(self._at.moments(self._places, masses), masses)

    def _potential(self, moments: NDArray[np.complex128], masses: Array) -> Array:
        potential = self._at.values(self._kernel * moments, self._places)
        if self._small is None:
            self._keep_small(potential)
        if len(self._rows):
            with np.errstate(under="ignore"):
                potential[self._small] = self._rows @ masses
        # a sum with errors is at least its own term
        return np.maximum(potential, masses)

    def _keep_small(self, potential: Array) -> None:
        """Keep the rows of the kernel at nodes where the first G is small."""
        small = np.flatnonzero(potential < _SMALL * potential.max())
        self._small = small[np.argsort(potential[small], kind="stable")[: self._most]]
        with np.errstate(under="ignore"):
            exponents = self._points[self._small] @ (self._beta * self._points).T - self._beta
            self._rows = np.exp(np.minimum(exponents, 0.0))

    def pull(self, masses: Array) -> tuple[Array, Array]:
        """G (n,) and P_x Σ_j k_ij m_j y_j, shape (n, 3)."""
        moments = self._at.moments(self._places, masses)
        potential = self._potential(moments, masses)
        pull = self._at.gradient(self._slope * moments, self._places)
        if len(self._rows):
            with np.errstate(under="ignore"):
                pull[self._small] = self._rows @ (masses[:, None] * self._points)
        return np.maximum(potential, _TINY), project(self._points, pull)


class LineNodes(LineSums):
    """Through the cells of a line, at points of the circle."""

    @classmethod
    def on_circle(cls, points: Array, beta: float) -> LineNodes:
        """Those at points (n, 2)."""
        return cls.repeated(CircleLine(beta), circle_angles(points))

    def pull(self, masses: Array) -> tuple[Array, Array]:
        """G (n,) and P_x Σ_j k_ij m_j y_j, shape (n, 2)."""
        potential, slope = self(masses, 2)
        tangents = np.column_stack([-np.sin(self._angles), np.cos(self._angles)])
        return np.maximum(potential, np.maximum(masses, _TINY)), slope[:, None] * tangents


def point_sums(points: Array, beta: float) -> DenseSums | SphereNodes | LineNodes:
    """The sums over masses at points (n, d): in O(n) on the circle and S^2 up to β = 20000.

    Examples
    --------
    >>> point_sums(np.eye(2), 1.0).potential(np.array([0.0, 1.0])).round(6)
    array([0.367879, 1.      ])
    """
    # beyond it tables and moments, unlike blocks of pairs, leave memory
    if beta > LARGEST_CIRCLE_BETA:
        return DenseSums(points, beta)
    if points.shape[1] == 2:
        return LineNodes.on_circle(points, beta)
    return SphereNodes(points, beta) if points.shape[1] == 3 else DenseSums(points, beta)


def latitude_sums(points: Array, axis: Array, beta: float) -> LineSums:
    """The sums over masses that are spread over latitudes about an axis, d >= 3.

    Raises
    ------
    ValueError
        If β > 150.
    """
    return LineSums(ZonalLine(beta, points.shape[1]), polar_angles(points, axis))
