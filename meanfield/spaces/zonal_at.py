"""Gegenbauer series of any degree at arbitrary latitudes about an axis."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.arguments import integer
from meanfield.harmonics import multiplicities

Array = NDArray[np.float64]
Coefficients = NDArray[Any]


class ZonalAt:
    """Moments of measures on circles of latitude against p_k = sqrt(N_k) P_k, as in `Zonal`.

    Parameters
    ----------
    axis : ndarray, shape (d,)
        Unit vector.
    kmax : int
        Largest degree.

    Attributes
    ----------
    axis : ndarray, shape (d,)
    dim : int
    degrees : ndarray of int, shape (kmax + 1,)

    Raises
    ------
    ValueError
        If N_kmax leaves double precision.

    Examples
    --------
    >>> ZonalAt(np.array([0.0, 0.0, 1.0]), 1).moments(np.ones(1), np.ones(1))  # 1, sqrt(3)
    array([1.        , 1.73205081])
    """

    def __init__(self, axis: Array, kmax: int) -> None:
        self.axis, self.dim = axis, axis.size
        self.kmax = integer("kmax", kmax, low=1)
        self.degrees = np.arange(self.kmax + 1)
        self._norms = np.sqrt(multiplicities(self.dim, self.kmax))

    def __repr__(self) -> str:
        return f"ZonalAt(dim={self.dim}, kmax={self.kmax})"

    def moments(self, cosines: Array, masses: Array) -> Array:
        """c_k = Σ_j m_j p_k(t_j), shape (kmax + 1,), of masses (n,) at t = <x, axis>, shape (n,).

        The polynomials are never held at once: O(n) memory.
        """
        moments = np.empty(self.kmax + 1)
        d, before, present = self.dim, np.ones(len(cosines)), cosines
        moments[0], moments[1] = masses.sum(), masses @ cosines
        for k in range(1, self.kmax):
            after = ((2 * k + d - 2) * cosines * present - k * before) / (k + d - 2)
            before, present = present, after
            moments[k + 1] = masses @ present
        return np.asarray(moments * self._norms)

    def power(self, coefficients: Coefficients) -> Array:
        """c_k² of each degree, shape (kmax + 1,)."""
        return np.asarray(coefficients**2)
