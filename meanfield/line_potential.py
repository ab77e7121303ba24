"""The potential of a measure on a line of angles, from sources gathered into Chebyshev nodes.

Sources in a cell of the line act on everything, near or far, as if they sat at the cell's 16
Chebyshev nodes: a cell is so short that the kernel is a polynomial on it to rounding, relative to
its own size there. So the sum keeps its relative accuracy where the potential is e^{-2β} of its
maximum, which a series of harmonics does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import fft, sparse

from meanfield.kernels import LARGEST_ZONAL_BETA, circle_kernel, zonal_kernel

Array = NDArray[np.float64]
Kernel = Callable[[float, Array, Array], Array]

NODES = 16
# e^{βx} on a cell of this many units of 1/β is a polynomial of 16 terms to 1e-15
_CELL = 3.0
_RELATIVE_UP_TO = 100.0
_TURN = 2.0 * np.pi
# a pair in three tables takes 24 bytes
_MOST_KEPT = 1 << 20

_ORDER = np.arange(NODES)
_CHEBYSHEV = np.cos(np.pi * (_ORDER + 0.5) / NODES)
# ℓ_j(x) = Σ_k T_k(x) LAGRANGE[k, j]
LAGRANGE = np.cos(np.pi * np.outer(_ORDER, _ORDER + 0.5) / NODES) * (2.0 / NODES)
LAGRANGE[0] *= 0.5


class CircleLine:
    """Cells on the circle, and the kernel between their nodes as a block circulant product.

    Above β = 100 the product is taken by Fourier transforms of the cells; its error is then one
    of rounding relative to the largest potential.

    Parameters
    ----------
    beta : float
    kernel : callable, optional
        Tables of the kernel between angles, as `circle_kernel` (the default) gives three.

    Attributes
    ----------
    size : int
        Number of nodes of all cells.
    relative : bool
        Whether each potential is right relative to its own size.
    """

    dim = 2

    def __init__(self, beta: float, kernel: Kernel = circle_kernel) -> None:
        self.beta, self._kernel = beta, kernel
        self._cells = 4 + int(np.ceil(_TURN * beta / _CELL))
        self.size = self._cells * NODES
        self._width = _TURN / self._cells
        self.relative = beta <= _RELATIVE_UP_TO
        local = 0.5 * self._width * _CHEBYSHEV
        sources = np.arange(self._cells)[:, None] * self._width + local
        tables = kernel(beta, local, sources[..., None])
        self._tables = len(tables)
        # source cell and node, then table and target node
        blocks = tables.transpose(1, 2, 0, 3).reshape(self._cells, NODES, self._tables * NODES)
        if self.relative:
            self._around = (np.arange(self._cells)[:, None] + np.arange(self._cells)) % self._cells
            self._blocks = np.ascontiguousarray(blocks.reshape(self.size, -1))
        else:
            self._spectrum = fft.rfft(blocks, axis=0).conj()

    def cells(self, angles: Array) -> tuple[NDArray[np.intp], Array]:
        """The cell of each angle, and its place there in [-1, 1]."""
        turns = angles / _TURN
        scaled = turns - np.floor(turns)
        scaled *= self._cells
        cell = scaled.astype(np.intp)
        np.minimum(cell, self._cells - 1, out=cell)
        scaled -= cell
        scaled *= 2.0
        scaled -= 1.0
        return cell, scaled

    def fields(self, charges: Array, tables: int | None = None) -> Array:
        """The (first) tables summed over charges (size,) at the nodes, shape (size, tables)."""
        tables = self._tables if tables is None else tables
        cells = charges.reshape(self._cells, NODES)
        if self.relative:
            blocks = self._blocks[:, : tables * NODES]
            stacked = cells[self._around].reshape(self._cells, -1) @ blocks
        else:
            modes = fft.rfft(cells, axis=0)[:, None] @ self._spectrum[..., : tables * NODES]
            stacked = fft.irfft(modes[:, 0], n=self._cells, axis=0)
        fields: Array = stacked.reshape(self._cells, tables, NODES).transpose(0, 2, 1)
        return fields.reshape(self.size, tables)

    def kernel(self, targets: Array, sources: Array) -> Array:
        """The tables between angles, shape (number of tables, ...)."""
        return self._kernel(self.beta, targets, sources)


class ZonalLine:
    """Cells on the polar angles [0, π] about an axis of S^{d-1}, d >= 3, and their dense kernel.

    Parameters
    ----------
    beta : float
        At most 150.
    dim : int

    Attributes
    ----------
    size : int
        Number of nodes of all cells.
    relative : bool
        True: each potential is right relative to its own size.

    Raises
    ------
    ValueError
        If beta is too large.
    """

    def __init__(self, beta: float, dim: int) -> None:
        if beta > LARGEST_ZONAL_BETA:
            raise ValueError(
                f"beta must be <= {LARGEST_ZONAL_BETA:g} for sums over latitudes in dim = {dim}, "
                f"got {beta:g}: take Particles"
            )
        self.beta, self.dim, self.relative = beta, dim, True
        self._cells = 3 + int(np.ceil(np.pi * beta / _CELL))
        self.size = self._cells * NODES
        self._width = np.pi / self._cells
        middles = self._width * (np.arange(self._cells) + 0.5)
        nodes = (middles[:, None] + 0.5 * self._width * _CHEBYSHEV).ravel()
        tables = zonal_kernel(beta, dim, nodes[:, None], nodes)
        self._tables = tables.reshape(3 * self.size, self.size)

    def cells(self, angles: Array) -> tuple[NDArray[np.intp], Array]:
        """The cell of each angle, and its place there in [-1, 1]."""
        scaled = np.clip(angles, 0.0, np.pi) / self._width
        cell = np.minimum(scaled.astype(np.intp), self._cells - 1)
        return cell, 2.0 * (scaled - cell) - 1.0

    def fields(self, charges: Array, tables: int = 3) -> Array:
        """K, ∂K/β, ΔK/β (the first of them) summed over charges (size,), shape (size, tables)."""
        summed = self._tables[: tables * self.size] @ charges
        return np.asarray(summed.reshape(tables, self.size).T)

    def kernel(self, targets: Array, sources: Array) -> Array:
        """K, ∂K/β, ΔK/β between polar angles, shape (3, ...)."""
        return zonal_kernel(self.beta, self.dim, targets, sources)


Line = CircleLine | ZonalLine


def line(beta: float, dim: int) -> Line:
    """The cells for angles of the circle (dim 2) or polar angles of S^{dim-1}."""
    return CircleLine(beta) if dim == 2 else ZonalLine(beta, dim)


def interpolation(cells: Line, angles: Array) -> sparse.csr_array:
    """Rows of Lagrange weights (n, size): values at angles from values at the nodes.

    Its transpose gathers masses at angles into charges at the nodes.
    """
    cell, place = cells.cells(angles)
    terms = np.empty((NODES, len(place)))
    chebyshev(place, terms)
    weights = terms.T @ LAGRANGE
    columns = (cell * NODES)[:, None] + _ORDER
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

    def __call__(self, masses: Array, tables: int = 3) -> Array:
        """G, S and L of `LineField` (or the first of them) at the angles, shape (tables, n)."""
        near, count = self._gathered, len(masses)
        sums = np.zeros((tables, count))
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
