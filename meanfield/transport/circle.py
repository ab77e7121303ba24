"""W_p on the circle: the best of all monotone plans (Delon, Salomon, Sobolevski 2010)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from meanfield.transport.cost import cost, cost_slope
from meanfield.transport.quantiles import Atoms, Quantiles

Array = NDArray[np.float64]

# angles start in [0, 2π) and end below 4π: at these shifts the difference has one sign
_FARTHEST = 2.5


def circle_distance(mu: Quantiles, nu: Quantiles, p: float) -> float:
    """W_p^p = min_s ∫ |Q_mu(u) - Q_nu(u + s)|^p du, convex in s; the root of its derivative.

    W_1 of atoms is the weighted median ∫ |F - G - c| dθ.
    """
    if p == 1.0 and isinstance(mu, Atoms) and isinstance(nu, Atoms):
        return _median_of_atoms(mu, nu)
    return float(cost(mu, nu, best_shift(mu, nu, p), p) ** (1.0 / p))


def best_shift(mu: Quantiles, nu: Quantiles, p: float) -> float:
    """The s of the monotone plan Q_mu(u) to Q_nu(u + s) that costs least."""
    shift = brentq(
        lambda s: cost_slope(mu, nu, s, p), -_FARTHEST, _FARTHEST, xtol=1e-15, maxiter=300
    )
    return float(shift)


def _median_of_atoms(mu: Atoms, nu: Atoms) -> float:
    angles = np.concatenate([mu.angles, nu.angles])
    order = np.argsort(angles, kind="stable")
    steps = np.concatenate([mu.masses, -nu.masses])[order]
    lengths = np.diff(angles[order], append=angles[order[0]] + mu.turn)
    excess = np.cumsum(steps)
    ranked = np.argsort(excess, kind="stable")
    half = np.searchsorted(np.cumsum(lengths[ranked]), 0.5 * mu.turn)
    median = excess[ranked[min(int(half), len(ranked) - 1)]]
    return float(lengths @ np.abs(excess - median))
