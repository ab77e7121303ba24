"""The potential of a measure on a line of angles, from sources gathered into Chebyshev nodes.

Sources in a cell of the line act on everything, near or far, as if they sat at the cell's 16
Chebyshev nodes: a cell is so short that the kernel is a polynomial on it to rounding, relative to
its own size there. So the sum keeps its relative accuracy where the potential is e^{-2β} of its
maximum, which a series of harmonics does not.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from meanfield.arguments import tell_apart
from meanfield.kernels import LARGEST_CIRCLE_BETA, LARGEST_ZONAL_BETA, circle_kernel, zonal_kernel

Array = NDArray[np.float64]
Kernel = Callable[[float, Array, Array], Array]

NODES = 16
ORDER = np.arange(NODES)
# e^{βx} on a cell of this many units of 1/β is a polynomial of 16 terms to 1e-15
_CELL = 3.0
_RELATIVE_UP_TO = 100.0
_TURN = 2.0 * np.pi

_CHEBYSHEV = np.cos(np.pi * (ORDER + 0.5) / NODES)
# ℓ_j(x) = Σ_k T_k(x) LAGRANGE[k, j]
LAGRANGE = np.cos(np.pi * np.outer(ORDER, ORDER + 0.5) / NODES) * (2.0 / NODES)
LAGRANGE[0] *= 0.5


def node_count(dim: int, reach: float) -> int:
    """The nodes of all cells on the circle (dim 2), or on polar angles, for e^{reach · x}.

    Examples
    --------
    >>> node_count(2, 9.0) // NODES, node_count(3, 9.0) // NODES
    (23, 13)
    """
    cells = (4 if dim == 2 else 3) + int(np.ceil(_length(dim) * reach / _CELL))
    return cells * NODES


def _length(dim: int) -> float:
    return _TURN if dim == 2 else float(np.pi)


class CircleLine:
    """Cells on the circle, and the kernel between their nodes as a block circulant product.

    Above β = 100 the product is taken by Fourier transforms of the cells; its error is then one
    of rounding relative to the largest potential.

    Parameters
    ----------
    beta : float
        At most 20000.
    kernel : callable, optional
        Tables of the kernel between angles, as `circle_kernel` (the default) gives three.

    Attributes
    ----------
    size : int
        Number of nodes of all cells.
    tables : int
        Number of tables.
    relative : bool
        Whether each potential is right relative to its own size.

    Raises
    ------
    ValueError
        If beta is too large.
    """

    dim = 2

    def __init__(self, beta: float, kernel: Kernel = circle_kernel) -> None:
        if beta > LARGEST_CIRCLE_BETA:
            raise ValueError(
                f"beta, or kmax of an interaction, must be <= {LARGEST_CIRCLE_BETA:g} for sums "
                f"over the circle, whose tables take 51 kB of memory for each unit of it, got "
                f"{tell_apart(beta, LARGEST_CIRCLE_BETA)[0]}: take Particles with sums='direct'"
            )
        self.beta, self._kernel = beta, kernel
        self.size = node_count(self.dim, beta)
        self._cells = self.size // NODES
        self._width = _TURN / self._cells
        self.relative = beta <= _RELATIVE_UP_TO
        local = 0.5 * self._width * _CHEBYSHEV
        sources = np.arange(self._cells)[:, None] * self._width + local
        tables = kernel(beta, local, sources[..., None])
        self.tables = len(tables)
        # source cell and node, then table and target node
        blocks = tables.transpose(1, 2, 0, 3).reshape(self._cells, NODES, self.tables * NODES)
        if self.relative:
            self._around = (np.arange(self._cells)[:, None] + np.arange(self._cells)) % self._cells
            self._blocks = np.ascontiguousarray(blocks.reshape(self.size, -1))
        else:
            self._spectrum = fft.rfft(blocks, axis=0).conj()

    def nodes(self) -> Array:
        """The angles of the nodes, shape (size,)."""
        middles = (np.arange(self._cells) + 0.5) * self._width
        return np.asarray((middles[:, None] + 0.5 * self._width * _CHEBYSHEV).ravel())

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
        tables = self.tables if tables is None else tables
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


class DenseLine:
    """Cells on the circle or on the polar angles of S^{d-1}, and any kernel between their nodes.

    Parameters
    ----------
    dim : int
        2 for the circle.
    reach : float
        The tables may vary like e^{reach · x} along the line.
    kernel : callable
        The tables between angles of targets and of sources, shape (number of tables, ...).

    Attributes
    ----------
    size : int
        Number of nodes of all cells.
    tables : int
        Number of tables.
    relative : bool
        True: each sum of positive terms is right relative to its own size.
    """

    relative = True

    def __init__(
        self, dim: int, reach: float, kernel: Callable[[Array, Array], Array] | None = None
    ) -> None:
        self.dim = dim
        self.size = node_count(dim, reach)
        self._cells = self.size // NODES
        self._width = _length(dim) / self._cells
        self._kernel = kernel or _no_kernel
        middles = self._width * (np.arange(self._cells) + 0.5)
        nodes = (middles[:, None] + 0.5 * self._width * _CHEBYSHEV).ravel()
        tables = self._kernel(nodes[:, None], nodes)
        self.tables = len(tables)
        self._tables = tables.reshape(-1, self.size)

    def cells(self, angles: Array) -> tuple[NDArray[np.intp], Array]:
        """The cell of each angle, and its place there in [-1, 1]."""
        inside = np.mod(angles, _TURN) if self.dim == 2 else np.clip(angles, 0.0, np.pi)
        scaled = inside / self._width
        cell = np.minimum(scaled.astype(np.intp), self._cells - 1)
        return cell, 2.0 * (scaled - cell) - 1.0

    def fields(self, charges: Array, tables: int | None = None) -> Array:
        """The (first) tables summed over charges (size,) at the nodes, shape (size, tables)."""
        kept = self._tables if tables is None else self._tables[: tables * self.size]
        return np.asarray((kept @ charges).reshape(-1, self.size).T)

    def kernel(self, targets: Array, sources: Array) -> Array:
        """The tables between angles, shape (number of tables, ...)."""
        return self._kernel(targets, sources)


class ZonalLine(DenseLine):
    """Cells on the polar angles [0, π] about an axis of S^{d-1}, and K, ∂K/β, ΔK/β between them.

    Parameters
    ----------
    beta : float
        At most 150.
    dim : int
        d >= 3.

    Raises
    ------
    ValueError
        If beta is too large.
    """

    def __init__(self, beta: float, dim: int) -> None:
        if beta > LARGEST_ZONAL_BETA:
            raise ValueError(
                f"beta must be <= {LARGEST_ZONAL_BETA:g} for sums over latitudes in dim = {dim}, "
                f"got {tell_apart(beta, LARGEST_ZONAL_BETA)[0]}: take Particles"
            )
        self.beta = beta
        super().__init__(dim, beta, partial(zonal_kernel, beta, dim))


def _no_kernel(targets: Array, sources: Array) -> Array:
    """No tables: what needs no sums."""
    return np.zeros((0, *np.broadcast_shapes(targets.shape, sources.shape)))


Line = CircleLine | DenseLine


def line(beta: float, dim: int) -> Line:
    """The cells for angles of the circle (dim 2) or polar angles of S^{dim-1}."""
    return CircleLine(beta) if dim == 2 else ZonalLine(beta, dim)
