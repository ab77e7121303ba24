"""Time steps whose error is the largest over the points, not their root mean square."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import DOP853

Array = NDArray[np.float64]

_LOG_DENSITY_SHARE = 100.0
_LITTLE_MASS = 1e-2
_NO_MASS = 1e-15
_LOOSEST_STEP_TOL = 1e-5


def allowed_errors(step_tol: float, smooth_mass: float, count: int, n_nodes: int) -> Array:
    """Of a step: for coordinates of `count` points, nodes first, and log densities at the nodes."""
    # what carries little need not be where it should to the same number of digits
    carried = max(smooth_mass, _NO_MASS)
    loose = max(step_tol, min(_LOOSEST_STEP_TOL, step_tol * _LITTLE_MASS / carried))
    allowed = np.full(3 * count + n_nodes, step_tol)
    allowed[: 3 * n_nodes] = loose
    allowed[3 * count :] = _LOG_DENSITY_SHARE * loose
    return allowed


class LargestErrorDOP853(DOP853):  # type: ignore[misc]
    """The method of Dormand and Prince of order 8(5, 3), accurate at every component.

    A root mean square over 50,000 points hides the few where the field is steep.
    """

    def _estimate_error_norm(self, K: Array, h: float, scale: Array) -> Any:
        fifth = np.abs(K.T @ self.E5) / scale
        third = np.abs(K.T @ self.E3) / scale
        size = np.hypot(fifth, 0.1 * third)
        safe = np.where(size > 0.0, size, 1.0)
        return np.abs(h) * float(np.max(fifth * fifth / safe))
