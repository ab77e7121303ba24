"""Sums over masses at angles of a line, through the nodes of its cells or one by one."""

from __future__ import annotations

from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from meanfield.line_potential.cells import LAGRANGE, NODES, ORDER, CircleLine, Line

Array = NDArray[np.float64]

# a pair in three tables takes 24 bytes
_MOST_KEPT = 1 << 20
# angles at a time
_BLOCK = 1 << 14


class Interpolation:
    """Between angles of a line and the 16 nodes of the cell that each is in, by Lagrange weights.

    Parameters
    ----------
    cells : CircleLine or DenseLine
    angles : ndarray, shape (n,)
    """

    def __init__(self, cells: Line, angles: Array) -> None:
        self._cell, place = cells.cells(angles)
        terms = np.empty((NODES, len(place)))
        chebyshev(place, terms)
        self._weights, self._size = terms.T @ LAGRANGE, cells.size

    def charges(self, masses: Array) -> Array:
        """Masses at the first angles as charges at the nodes, shape (size,)."""
        count = len(masses)
        nodes = self._cell[:count, None] * NODES + ORDER
        shares = self._weights[:count] * masses[:, None]
        charges = np.bincount(nodes.ravel(), shares.ravel(), self._size)
        return np.asarray(charges, dtype=np.float64)

    def values(self, fields: Array) -> Array:
        """Values (tables, n) at the angles of what has values (size, tables) at the nodes."""
        # the nodes of a cell side by side
        cells = np.ascontiguousarray(fields.reshape(-1, NODES, fields.shape[1]).swapaxes(1, 2))
        values = np.empty((fields.shape[1], len(self._cell)))
        for start in range(0, len(self._cell), _BLOCK):
            part = slice(start, start + _BLOCK)
            near = cells.take(self._cell[part], axis=0)
            values[:, part] = np.einsum("ij,ifj->fi", self._weights[part], near)
        return values


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
        self._cells, self._nodes = cells, Interpolation(cells, angles)
        self._gathered = len(angles) if gathered is None else gathered
        self._angles, self._places = angles, angles[self._gathered :]

    @cached_property
    def _kept(self) -> Array | None:
        """K, ∂K/β and ΔK/β of those places at all angles, shape (3, n, count)."""
        few = len(self._angles) * len(self._places) <= _MOST_KEPT
        return self._cells.kernel(self._angles[:, None], self._places) if few else None

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
        return self._nodes.charges(masses)

    def __call__(self, masses: Array, tables: int | None = None) -> Array:
        """The (first) tables summed at the angles, shape (tables, n); see `LineField`."""
        tables = self._cells.tables if tables is None else tables
        near, count = self._gathered, len(masses)
        sums = np.zeros((tables, count))
        if not tables:
            return sums
        if near:
            charges = self._nodes.charges(masses[:near])
            sums += self._nodes.values(self._cells.fields(charges, tables))
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
