"""Fourier series at arbitrary points of the circle."""

from __future__ import annotations

from typing import Any

import ducc0
import numpy as np
from numpy.typing import NDArray

from meanfield.arguments import integer

Array = NDArray[np.float64]
Coefficients = NDArray[Any]

_EPSILON = 3e-13  # about the least that the transforms take
_TWO_THREADS_FROM = 20_000
# up to this many exponentials are summed one by one, to the last digit
_DIRECT = 1 << 20
MOST_MODES = (1 << 20) - 1


class CircleAt:
    """Σ_{|k| <= kmax} c_k e^{ikθ} and its adjoint at arbitrary angles, by non-uniform transforms.

    Convention and layout of the coefficients are those of `Circle`: c_k for k = 0 … kmax, c_0 the
    mass, and c_{-k} = conj(c_k). Errors are 1e-14 of the mass in moments and 1e-13 of the largest
    value in values; up to 2^20 pairs of angle and degree, those of rounding only.

    Parameters
    ----------
    kmax : int
        Largest degree, 1 <= kmax < 2^20.

    Attributes
    ----------
    degrees : ndarray of int, shape (kmax + 1,)

    Raises
    ------
    ValueError
        If kmax is out of range.

    Examples
    --------
    >>> CircleAt(2).moments(np.array([np.pi]), np.array([0.5])).real
    array([ 0.5, -0.5,  0.5])
    """

    def __init__(self, kmax: int) -> None:
        self.kmax = integer("kmax", kmax, low=1, high=MOST_MODES)
        self.degrees = np.arange(self.kmax + 1)

    def __repr__(self) -> str:
        return f"CircleAt({self.kmax})"

    def moments(self, angles: Array, masses: Array) -> Coefficients:
        """c_k = Σ_j m_j e^{-ikθ_j}, shape (kmax + 1,), of masses (n,) at angles (n,)."""
        if len(angles) * (self.kmax + 1) <= _DIRECT:
            return np.asarray(np.exp(-1j * np.outer(self.degrees, angles)) @ masses)
        grid = np.empty(2 * self.kmax + 1, dtype=np.complex128)
        ducc0.nufft.nu2u(
            points=masses.astype(np.complex128),
            coord=_near_zero(angles),
            forward=True,
            epsilon=_EPSILON,
            nthreads=_threads(angles),
            out=grid,
        )
        moments = grid[self.kmax :].copy()
        moments[0] = masses.sum()
        return moments

    def values(self, coefficients: Coefficients, angles: Array) -> Array:
        """f, shape (n,), at angles (n,)."""
        if len(angles) * (self.kmax + 1) <= _DIRECT:
            waves = np.exp(1j * np.outer(angles, self.degrees[1:]))
            return np.asarray(coefficients[0].real + 2.0 * (waves @ coefficients[1:]).real)
        grid = np.concatenate([np.conj(coefficients[:0:-1]), coefficients])
        values = ducc0.nufft.u2nu(
            grid=grid,
            coord=_near_zero(angles),
            forward=False,
            epsilon=_EPSILON,
            nthreads=_threads(angles),
        )
        return np.asarray(values.real)

    def power(self, coefficients: Coefficients) -> Array:
        """Σ |c_k|² over the harmonics of each degree, shape (kmax + 1,)."""
        power = 2.0 * (coefficients.real**2 + coefficients.imag**2)
        power[0] *= 0.5
        return np.asarray(power)


def _near_zero(angles: Array) -> Array:
    """The angles in [-π, π], one in each row: there the transforms are most accurate."""
    return np.asarray(np.remainder(angles + np.pi, 2.0 * np.pi) - np.pi)[:, None]


def _threads(angles: Array) -> int:
    """Threads of a transform, fixed by the number of angles so that results repeat."""
    return 2 if len(angles) >= _TWO_THREADS_FROM else 1
