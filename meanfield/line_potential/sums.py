"""Sums over masses at angles of a line, through the nodes of its cells or one by one."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from meanfield.line_potential.cells import LAGRANGE, NODES, ORDER, CircleLine, Line

Array = NDArray[np.float64]

# a pair in three tables takes 24 bytes
_MOST_KEPT = 1 << 20


def interpolation(cells: Line, angles: Array) -> sparse.csr_array:
    """Rows of Lagrange weights (n, size): values at angles from values at the nodes.

    Its transpose gathers masses at angles into charges at the nodes.
    """
    cell, place = cells.cells(angles)
    terms = np.empty((NODES, len(place)))
    chebyshev(place, terms)
    weights = terms.T @ LAGRANGE
    columns = (cell * NODES)[:, None] + ORDER
    starts = np.arange(0, NODES * len(place) + 1, NODES)
    shape = (len(place), cells.size)
    return sparse.csr_array((weights.ravel(), columns.ravel(), starts), shape=shape)


class LineSums:
    """Sums over masses that sit at angles of a line, at these angles.

    Parameters
    ----------
    cells : CircleLine or ZonalLine
    angles : ndarray, shape (n,)
    gathered : int, optional
        So many of the first masses act through the cells' nodes, the others one by one; default n.
    """

    def __init__(self, cells: Line, angles: Array, gathered: int | None = None) -> None:
        self._cells, self._rows = cells, interpolation(cells, angles)
        self._gathered = len(angles) if gathered is None else gathered
        self._angles, self._places = angles, angles[self._gathered :]
        # K, ∂K/β and ΔK/β of those at all angles, shape (3, n, count)
        few = len(angles) * len(self._places) <= _MOST_KEPT
        self._kept = cells.kernel(angles[:, None], self._places) if few else None

    @classmethod
    def repeated(cls, cells: Line, angles: Array, gathered: int | None = None) -> Self:
        """Those that will be asked for many masses: one by one where that is less work."""
        # a table of pairs costs some ten sums through the cells' nodes for as many angles as these
        few = 2 * len(angles) <= cells.size and len(angles) ** 2 <= _MOST_KEPT
        if few and isinstance(cells, CircleLine):
            return cls(cells, angles, 0)
        many = gathered is not None and len(angles) * (len(angles) - gathered) > _MOST_KEPT
        return cls(cells, angles, None if many else gathered)

    def charges(self, masses: Array) -> Array:
        """All masses (n,) as charges at the nodes of the cells, shape (size,)."""
        return np.asarray(self._rows.T @ masses)

    def __call__(self, masses: Array, tables: int | None = None) -> Array:
        """The (first) tables summed at the angles, shape (tables, n); see `LineField`."""
        tables = self._cells.tables if tables is None else tables
        near, count = self._gathered, len(masses)
        sums = np.zeros((tables, count))
        if not tables:
            return sums
        if near:
            charges = self._rows[:near].T @ masses[:near]
            sums += (self._rows @ self._cells.fields(charges, tables)).T
        if self._kept is not None:
            return np.asarray(sums + self._kept[:tables] @ masses[near:])
        for place, mass in zip(self._places, masses[near:], strict=True):
            sums += mass * self._cells.kernel(self._angles, place)[:tables]
        return sums

    def potential(self, masses: Array) -> Array:
        """G at the angles, shape (n,), of masses (n,) >= 0."""
        potential = self(masses, 1)[0]
        # on the circle K = 1 at a mass itself, and a sum with errors is at least its own term
        on_circle = isinstance(self._cells, CircleLine)
        return np.maximum(potential, masses) if on_circle else np.asarray(potential)


def chebyshev(place: Array, terms: Array) -> None:
    """Write T_k(place), k = 0 … 15, into the rows of `terms`, shape (16, n)."""
    terms[0], terms[1] = 1.0, place
    twice = 2.0 * place
    for k in range(2, NODES):
        np.multiply(twice, terms[k - 1], out=terms[k])
        terms[k] -= terms[k - 2]
