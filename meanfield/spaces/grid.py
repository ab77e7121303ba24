"""What the spaces share: records whose tables are made once, by the constructor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np

from meanfield._checks import Record
from meanfield.typing import Array, Coefficients, Integers


def power_by_degree(coefficients: Coefficients, degrees: Integers, n_real: int) -> Array:
    """Σ |f|² over the harmonics of each degree, shape (..., kmax + 1), as of the coefficients.

    The first `n_real` coefficients stand for one harmonic each, of order 0, the others for two.
    """
    squares = coefficients.real**2 + coefficients.imag**2
    squares[..., n_real:] *= 2.0
    if len(degrees) == degrees[-1] + 1:
        return np.asarray(squares)
    return np.asarray(np.bincount(degrees, weights=squares), dtype=np.float64)


class Grid(Record):
    """A space of spectral coefficients and its grid; the subclasses say what each table is."""

    axis: Array | None = None

    size: int
    kmax: int
    exactness: int
    n_real: int
    n_coefficients: int
    weights: Array
    degrees: Integers
    laplacian: Array
    _size_name: str
    _coefficient_type: type[np.generic]

    def _keep(self, **tables: Any) -> None:
        """Take up arguments as they were checked, and tables."""
        vars(self).update(tables)

    def _resized(self, size: int) -> Self:
        """The space of another size."""
        own: Any = self
        found: Self = replace(own, **{self._size_name: size})
        return found

    def _doubled(self) -> Self:
        """The space with twice as many degrees: twice the modes, or the largest degree 2k + 1."""
        return self._resized(2 * self.size + (self.size == self.kmax))

    def _power(self, coefficients: Coefficients) -> Array:
        """Σ |f|² over the harmonics of each degree, (..., kmax + 1), as of the coefficients."""
        return power_by_degree(coefficients, self.degrees, self.n_real)

    def _embed(self, coefficients: Coefficients, space: Any) -> Coefficients:
        """The same function on another space, or in harmonics, of its kind, cut where that ends.

        Shape (..., count), as of the coefficients.
        """
        shape = *coefficients.shape[:-1], len(space.degrees)
        found = np.zeros(shape, dtype=self._coefficient_type)
        # both layouts have the same order once degrees are cut at the smaller
        found[..., space.degrees <= self.kmax] = coefficients[..., self.degrees <= space.kmax]
        return found
