"""What every field answers at its places, and what an energy gains by it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meanfield.typing import Array

_NOTHING = np.empty(0)


class Rates(NamedTuple):
    """X, div X and the gradient of an energy at n places.

    Attributes
    ----------
    velocity : ndarray, shape (n,), (n, d) or (c, n)
        X along a line of angles, in R^d, or its components along the c tangents of a grid.
    divergence : ndarray, shape (n,)
        div X; empty in fields of densities and tokens, whose runs do not ask for it.
    energy_gradient : ndarray, of the velocity's shape
        ∇ δE/δmu of the dynamics' energy in units of e^{log_unit}; empty where it has none.
    """

    velocity: Array
    divergence: Array = _NOTHING
    energy_gradient: Array = _NOTHING

    def energy_rate(self, masses: Array, axis: int = -1) -> float:
        """dE/dt = ∫ <∇ δE/δmu, X> dmu of masses (n,) at the places, 0 where there is no energy.

        Components are along an axis, the first one on a grid.

        Examples
        --------
        >>> Rates(np.array([2.0, 1.0]), energy_gradient=np.ones(2)).energy_rate(np.ones(2))
        3.0
        """
        gradient = self.energy_gradient
        if not gradient.size:
            return 0.0
        gains = gradient * self.velocity
        return float(masses @ (gains if gains.ndim == 1 else gains.sum(axis=axis)))
