"""Upper bounds of W_p from plans between cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.transport.network import best_plan, pair_distances
from meanfield.transport.sphere.cells import Cells

Array = NDArray[np.float64]


def cells_cost(mu: Cells, nu: Cells, p: float) -> float:
    """A bound of ∫ dist^p dπ for the best plan π between measures in cells, 1 <= p <= 2.

    Masses of two cells are paired without regard to where they are in them. The square of the
    distance has second derivatives of at most 2 on a sphere, and first ones that cancel at the
    Riemannian centre of mass, so the mean of dist² is at most its value at the centres plus
    both spreads; for p < 2 by Jensen's inequality. The total masses must be equal.
    """
    squares = pair_distances(mu.centres, nu.centres) ** 2 + mu.spreads[:, None] + nu.spreads
    total = float(mu.masses.sum())
    if total == 0.0:
        return 0.0
    costs = (squares / np.pi**2) ** (0.5 * p)
    plan = best_plan(mu.masses / total, nu.masses / float(nu.masses.sum()), costs)
    return float(total * plan.upper * np.pi**p)
