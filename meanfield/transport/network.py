"""Distances of clouds in any dimension, by the network simplex method of POT."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.geometry import geodesic_distance
from meanfield.measures import Particles
from meanfield.transport.bracket import Bracket

Array = NDArray[np.float64]

_LARGEST = 1 << 26
_MOST_PIVOTS = 10_000_000


def cloud_distance(mu: Particles, nu: Particles, p: float) -> Bracket:
    """W_p of n and m tokens: O(n m) memory, and time that grows about like n³.

    The plan found gives the upper bound, and its dual potentials, made feasible by the
    c-transform, the lower one.

    Raises
    ------
    ValueError
        If n m > 2^26, or POT is not installed.
    """
    try:
        import ot
    except ImportError as error:
        raise ValueError(
            f"mu and nu must lie on the circle, or one be a point, unless POT is installed "
            f"(pip install 'meanfield-attention[transport]'), got {mu!r} and {nu!r}"
        ) from error
    n, m = len(mu.points), len(nu.points)
    if n * m > _LARGEST:
        raise ValueError(f"mu and nu must have n m <= 2^26 pairs of tokens, got {n} and {m} tokens")
    # in units of the largest distance, so that no p overflows
    costs = (_distances(mu.points, nu.points) / np.pi) ** p
    plan, log = ot.emd(
        mu.weights, nu.weights, costs, log=True, numItermax=_MOST_PIVOTS, check_marginals=False
    )
    # what a plan leaves undone costs no more than the largest distance
    undone = max(
        float(np.abs(plan.sum(axis=1) - mu.weights).sum()),
        float(np.abs(plan.sum(axis=0) - nu.weights).sum()),
    )
    upper = min(float(np.sum(plan * costs)) + undone, 1.0)
    v = (costs - np.asarray(log["u"])[:, None]).min(axis=0)
    u = (costs - v).min(axis=1)
    lower = min(max(float(mu.weights @ u + nu.weights @ v), 0.0), upper)
    value = float(np.pi * upper ** (1.0 / p))
    return Bracket(value, float(np.pi * lower ** (1.0 / p)), value)


def _distances(x: Array, y: Array) -> Array:
    """Geodesic distances (n, m), a row at a time since the differences would take d times more."""
    return np.stack([geodesic_distance(point, y) for point in x])
