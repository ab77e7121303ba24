"""Distances of clouds in any dimension, by the network simplex method of POT."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from meanfield.geometry import geodesic_distance
from meanfield.measures import Particles
from meanfield.transport.bracket import Bracket

Array = NDArray[np.float64]

LARGEST = 1 << 26
_MOST_PIVOTS = 10_000_000
_SAME = 1e-15
_EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class BestPlan:
    """The least cost of a plan between two finite measures.

    Attributes
    ----------
    plan : ndarray, shape (n, m)
    lower, upper : float
        Of the cost: that of dual potentials, and that of the plan.
    """

    plan: Array
    lower: float
    upper: float


def cloud_distance(mu: Particles, nu: Particles, p: float) -> Bracket:
    """W_p of n and m tokens: O(n m) memory, and time that grows about like n³.

    The plan found gives the upper bound, and its dual potentials, made feasible by the
    c-transform, the lower one.

    Raises
    ------
    ValueError
        If n m > 2^26, or POT is not installed.
    """
    if _are_equal(mu, nu):
        return Bracket(0.0, 0.0, 0.0)
    farthest, best = cloud_plan(mu, nu, p)
    value = float(farthest * best.upper ** (1.0 / p))
    return Bracket(value, float(farthest * best.lower ** (1.0 / p)), value)


def _are_equal(mu: Particles, nu: Particles) -> bool:
    """Whether the tokens are the same however they are numbered, weights but for rounding."""
    if mu.points.shape != nu.points.shape:
        return False
    here, there = np.lexsort(mu.points.T), np.lexsort(nu.points.T)
    return np.array_equal(mu.points[here], nu.points[there]) and np.allclose(
        mu.weights[here], nu.weights[there], rtol=_SAME, atol=0.0
    )


def cloud_plan(mu: Particles, nu: Particles, p: float) -> tuple[float, BestPlan]:
    """The largest distance r of n and m tokens, and the best plan for the cost (dist/r)^p.

    Raises
    ------
    ValueError
        If n m > 2^26, or POT is not installed.
    """
    n, m = len(mu.points), len(nu.points)
    if n * m > LARGEST:
        raise ValueError(f"mu and nu must have n m <= 2^26 pairs of tokens, got {n} and {m} tokens")
    distances = pair_distances(mu.points, nu.points)
    farthest = max(float(distances.max()), 1e-300)
    return farthest, best_plan(mu.weights, nu.weights, (distances / farthest) ** p)


def best_plan(a: Array, b: Array, costs: Array) -> BestPlan:
    """The plan of least cost between masses a (n,) and b (m,), for costs (n, m) in [0, 1].

    Raises
    ------
    ValueError
        If POT is not installed.
    """
    try:
        import ot
    except ImportError as error:
        raise ValueError(
            f"mu and nu must lie on the circle, be symmetric about one axis, or one be a point, "
            f"unless POT is installed (pip install 'meanfield-attention[transport]'); got tokens "
            f"or cells, {len(a)} and {len(b)} of them"
        ) from error
    plan, log = ot.emd(a, b, costs, log=True, numItermax=_MOST_PIVOTS, check_marginals=False)
    # what a plan leaves undone costs no more than the largest distance; weights have rounding
    undone = max(
        float(np.abs(plan.sum(axis=1) - a).sum()), float(np.abs(plan.sum(axis=0) - b).sum())
    )
    undone = undone if undone > _EPS * (len(a) + len(b)) else 0.0
    upper = min(float(np.sum(plan * costs)) + undone, 1.0)
    v = (costs - np.asarray(log["u"])[:, None]).min(axis=0)
    u = (costs - v).min(axis=1)
    return BestPlan(plan, min(max(float(a @ u + b @ v), 0.0), upper), upper)


def pair_distances(x: Array, y: Array) -> Array:
    """Geodesic distances (n, m), a row at a time since the differences would take d times more."""
    return np.stack([geodesic_distance(point, y) for point in x])
