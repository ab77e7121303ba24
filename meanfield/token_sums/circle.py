"""Sums over tokens on the circle, gathered into the cells of a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from meanfield.arguments import tell_apart
from meanfield.geometry import circle_angles
from meanfield.line_potential import LAGRANGE, NODES, CircleLine, DenseLine, chebyshev

Array = NDArray[np.float64]
# which angles, their cells, and T_k at their places there, shape (16, n)
Block = tuple[slice, NDArray[np.intp], Array]

# angles at a time, so that their Chebyshev polynomials stay in the cache
_BLOCK = 1 << 14


class CellSums:
    """Sums over tokens through the nodes of the cells of a line.

    Parameters
    ----------
    line : CircleLine or DenseLine
    """

    def __init__(self, line: CircleLine | DenseLine) -> None:
        self._line = line
        self._cells = line.size // NODES

    def _blocks(self, angles: Array) -> Iterator[Block]:
        """Cells and Chebyshev polynomials of some angles at a time; the next block overwrites."""
        terms = np.empty((NODES, min(_BLOCK, len(angles))))
        for start in range(0, len(angles), _BLOCK):
            part = slice(start, start + _BLOCK)
            cell, place = self._line.cells(angles[part])
            block = terms[:, : len(place)]
            chebyshev(place, block)
            yield part, cell, block

    def _charges(self, blocks: Iterable[Block], masses: Array) -> Array:
        moments = np.zeros((NODES, self._cells))
        for part, cell, terms in blocks:
            for moment, term in zip(moments, terms, strict=True):
                moment += np.bincount(cell, term * masses[part], self._cells)
        return (moments.T @ LAGRANGE).ravel()

    def _series(self, fields: Array, blocks: Iterable[Block], count: int) -> Array:
        """Values (tables, count) of the tables at the nodes, shape (size, tables), in blocks."""
        cells = fields.reshape(self._cells, NODES, -1)
        series = np.ascontiguousarray(np.einsum("kj,cjf->fkc", LAGRANGE, cells))
        values, buffer = np.zeros((len(series), count)), np.empty(min(_BLOCK, count))
        for part, cell, terms in blocks:
            product = buffer[: len(cell)]
            for value, coefficients in zip(values[:, part], series, strict=True):
                for coefficient, term in zip(coefficients, terms, strict=True):
                    np.take(coefficient, cell, out=product, mode="clip")
                    product *= term
                    value += product
        return values


class CircleSums(CellSums):
    """log G(βx) and ∇ log G(βx), G(z) = Σ_j m_j e^{<z,y_j>}, for tokens on the circle.

    Masses are gathered into Chebyshev moments of the cells of a `CircleLine`, and the potential of
    the cells is a Chebyshev series in each: relative to G itself, errors are about 1e-14, however
    far a point is from all tokens.

    Parameters
    ----------
    beta : float
        At most 100.

    Examples
    --------
    >>> sums = CircleSums(1.0)
    >>> points = np.array([[1.0, 0.0]])
    >>> log_g, mean = sums.log_moment(points, np.ones(1), np.array([[0.0, 1.0]]))
    >>> log_g.round(12) + 0.0, mean.round(12) + 0.0
    (array([0.]), array([[1., 0.]]))
    """

    largest_beta = 100.0

    def __init__(self, beta: float) -> None:
        self.beta = beta
        super().__init__(CircleLine(beta, _kernel))

    def log_moment(self, points: Array, masses: Array, at: Array) -> tuple[Array, Array]:
        """log G(βx), shape (m,), and ∇ log G(βx), shape (m, 2), at unit rows `at` (m, 2)."""
        fields = self._line.fields(self._charges(self._blocks(circle_angles(points)), masses))
        potential, along, across = self._series(fields, self._blocks(circle_angles(at)), len(at))
        mean = (across / potential)[:, None] * at
        mean += (along / potential)[:, None] * np.column_stack([-at[:, 1], at[:, 0]])
        return np.log(potential) + self.beta, mean

    def potential_and_slope(self, angles: Array, masses: Array) -> tuple[Array, Array]:
        """e^{-β} G and e^{-β} <∇G, tangent> at βx for the tokens themselves, shape (n,) each."""
        # a single block serves both ways
        once = list(self._blocks(angles)) if len(angles) <= _BLOCK else None
        fields = self._line.fields(self._charges(once or self._blocks(angles), masses))[:, :2]
        potential, slope = self._series(fields, once or self._blocks(angles), len(angles))
        return potential, slope


class CircleScoreSums(CellSums):
    """log G(Mx) and ∇ log G(Mx), G(z) = Σ_j m_j e^{<z,y_j>}, for tokens on the circle.

    As `CircleSums`, with a dense product between the cells: errors are about 1e-14 relative to G
    itself.

    Parameters
    ----------
    matrix : ndarray, shape (2, 2)
        M, |M|_2 <= 100.

    Raises
    ------
    ValueError
        If |M|_2 > 100.

    Examples
    --------
    >>> sums = CircleScoreSums(np.diag([1.0, 2.0]))
    >>> points = np.array([[0.0, 1.0]])
    >>> log_g, mean = sums.log_moment(points, np.ones(1), points)
    >>> log_g.round(12), mean.round(12) + 0.0
    (array([2.]), array([[0., 1.]]))
    """

    largest_score = 100.0

    def __init__(self, matrix: Array) -> None:
        self._score = float(np.linalg.norm(matrix, 2))
        if self._score > self.largest_score:
            got, largest = tell_apart(self._score, self.largest_score)
            raise ValueError(f"matrix must have |M| <= {largest} on cells, got {got}")
        super().__init__(DenseLine(2, self._score, partial(_scores, matrix, self._score)))

    def log_moment(self, points: Array, masses: Array, at: Array) -> tuple[Array, Array]:
        """log G(Mx), shape (m,), and ∇ log G(Mx), shape (m, 2), at unit rows `at` (m, 2)."""
        fields = self._line.fields(self._charges(self._blocks(circle_angles(points)), masses))
        potential, *parts = self._series(fields, self._blocks(circle_angles(at)), len(at))
        return np.log(potential) + self._score, np.stack(parts, axis=1) / potential[:, None]

    # all digits are there, however small G is
    quick = log_moment


def _scores(matrix: Array, unit: float, targets: Array, sources: Array) -> Array:
    """e^{<Mx,y>} and its products with y, x and y at angles, in units of e^{unit}: G and ∇G."""
    y = np.stack([np.cos(sources), np.sin(sources)])
    z = np.tensordot(matrix, np.stack([np.cos(targets), np.sin(targets)]), axes=1)
    with np.errstate(under="ignore"):
        kernel = np.exp(z[0] * y[0] + z[1] * y[1] - unit)
        return np.stack([kernel, kernel * y[0], kernel * y[1]])


def _kernel(beta: float, targets: Array, sources: Array) -> Array:
    """K = e^{β(cos a - 1)}, -sin(a) K and cos(a) K for a = target - source: G, and ∇G in parts."""
    apart = targets - sources
    half = np.sin(0.5 * apart)
    with np.errstate(under="ignore"):
        kernel = np.exp(-2.0 * beta * half * half)
        return np.stack([kernel, -np.sin(apart) * kernel, np.cos(apart) * kernel])
