"""What right-hand sides of densities have in common: the state."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.measures import Density
from meanfield.measures.density import spectral_tail
from meanfield.spaces import Space

Array = NDArray[np.float64]

# rounding of the values of a density, as a share of its maximum
ROUNDING = 2e-16
# below this share of its maximum a series of G has lost the digits that SA divides by
SMALL = 1e-6


class LostDigitsError(ArithmeticError):
    """What moves a density is made of the rounding of its values."""


class SpectralTendency:
    """Coefficients of a density as a real vector, and what a run asks about them.

    Parameters
    ----------
    density : Density
        Any density on the space.

    Attributes
    ----------
    space : Circle, Sphere or Zonal
    initial_state : ndarray
        The density's coefficients as a real vector.
    """

    def __init__(self, density: Density) -> None:
        self.space = density.space
        self.initial_state = np.array(density.coefficients).view(np.float64)

    def measure(self, state: Array) -> Density:
        """The density of a real vector."""
        return Density.from_coefficients(self.space, self._coefficients(state))

    def tail(self, state: Array) -> float:
        """The spectral tail of a real vector."""
        return spectral_tail(self.space.power(self._coefficients(state)))

    def scale(self, state: Array) -> Array:
        """‖f_{<=k}‖ / sqrt(n), f_{<=k} the part of f up to the entry's degree k, n entries.

        What a tolerance for each entry is relative to: a concentrated density has coefficients
        that grow with the degree, by many powers of ten where d is large, and so do their
        rounding errors; low degrees have neither.
        """
        return norms_up_to_degree(self.space, self._coefficients(state))

    def _coefficients(self, state: Array) -> NDArray[Any]:
        return state.view(self.space.coefficient_type)


def norms_up_to_degree(space: Space, coefficients: NDArray[Any]) -> Array:
    """`SpectralTendency.scale` of coefficients, of many densities where they have an axis more."""
    norms = np.sqrt(np.cumsum(space.power(coefficients), axis=-1)[..., space.degrees])
    reals = coefficients.itemsize // norms.itemsize
    return np.asarray(np.repeat(norms, reals, axis=-1) / np.sqrt(reals * norms.shape[-1]))
