"""Densities on the circle by py-pde, for the benchmark of densities.

Its finite differences of second order in space and its Runge-Kutta stepper; the convolutions with
the kernel are exact, by FFT, so that only the divergence is a difference quotient.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, rfft

import meanfield as mf
from validation._inside import circle_points
from validation.benchmarks.peers_dedalus import kernel
from validation.benchmarks.timing import peer

Array = NDArray[np.float64]


def pde() -> Any:
    """The library, or None where it is not installed."""
    logging.getLogger("pde").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return peer("pde")


class DifferencesRun:
    """A density on the circle at the centres of n cells.

    Parameters
    ----------
    n : int
    dynamics : SA or USA
    differences : {'numba', 'scipy'}
        What takes the differences; the first is the faster one and takes seconds to compile.

    Attributes
    ----------
    points : ndarray, shape (n, 2)
    """

    def __init__(self, n: int, dynamics: mf.SA | mf.USA, differences: str = "numba") -> None:
        library = pde()
        grid = library.CartesianGrid([[0.0, 2.0 * np.pi]], n, periodic=True)
        self.points = circle_points(np.ravel(grid.cell_coords))
        degrees = np.arange(n // 2 + 1)
        slope, potential = kernel(dynamics, 2, degrees)
        pull = 1j * degrees * slope
        gradient = grid.make_operator("gradient", bc="periodic", backend=differences)
        # compiled here, and not in the first run
        gradient(np.zeros(n))

        class Continuity(library.PDEBase):  # type: ignore[misc, name-defined]
            """∂_t f = -∂_θ (f X)."""

            def evolution_rate(self, state: Any, t: float = 0.0) -> Any:
                f = state.data
                modes = rfft(f)
                flux = f * irfft(pull * modes, n)
                if dynamics.normalised:
                    flux /= irfft(potential * modes, n)
                return library.ScalarField(grid, -gradient(flux)[0])

        self._equation, self._grid, self._library = Continuity(), grid, library

    def start(self, law: Any) -> None:
        """Begin at the density of a law."""
        self._start = self._library.ScalarField(self._grid, law.pdf(self.points))

    def run(self, t_end: float, steps: int) -> Array:
        """f at the points after so many equal steps to t_end."""
        found = self._equation.solve(
            self._start,
            t_range=t_end,
            dt=t_end / steps,
            solver="runge-kutta",
            backend="numpy",
            tracker=None,
        )
        return np.asarray(found.data)
