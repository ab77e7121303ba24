"""An estimate of W_2 from above, between densities on S^2 from a potential's map."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from meanfield.transport.sphere.cells import cells_of
from meanfield.transport.sphere.potential import Minima, Potential
from meanfield.transport.sphere.spread import Spread
from meanfield.transport.sphere.upper import cells_cost

Array = NDArray[np.float64]

# slack of a point at its own target, of rounding
_IN_CONTACT = 1e-8


def map_cost(mu: Spread, nu: Spread, potential: Potential, at_nu: Minima, cells: int) -> float:
    """An estimate of ∫ dist² dπ for the plan of S(x) = exp_x(-∇φ(x)) and its inverse T.

    By the change of variables, S takes the mass min(f, g(S) |det DS|) of mu to nu's points; what
    is left of both goes by a plan between cells. It is computed twice, by quadrature over
    mu's points and over nu's, and widened by what the two differ, in cost and in the mass that is
    left. That is no proof: it may miss what both quadratures miss.

    Parameters
    ----------
    mu, nu : Spread
        With densities f and g.
    potential : Potential
    at_nu : Minima
        Of its slacks towards nu's points.
    cells : int
        Cells of what is left.
    """
    moved_mu, distance_mu = _kept_by_mu(mu, nu, potential)
    moved_nu = nu.masses * _kept_by_nu(mu, nu, at_nu)
    left_mu, left_nu = mu.masses - moved_mu, nu.masses - moved_nu
    left = 0.0
    if left_mu.any() and left_nu.any():
        first, second = cells_of(mu.points, left_mu, cells), cells_of(nu.points, left_nu, cells)
        left = cells_cost(first, second, 2.0) / float(left_mu.sum())
    by_mu = float(moved_mu @ distance_mu**2 + left * left_mu.sum())
    by_nu = float(moved_nu @ at_nu.slack.distance**2 + left * left_nu.sum())
    unsure = abs(by_mu - by_nu) + 2.0 * left * abs(float(left_mu.sum() - left_nu.sum()))
    return max(by_mu, by_nu) + unsure


def _kept_by_nu(mu: Spread, nu: Spread, at_nu: Minima) -> Array:
    """min(1, f(T y) / (g(y) |det DS(T y)|)), the share of nu's mass at y that S brings there."""
    slack = at_nu.slack
    brought = nu.density(nu.points) * slack.jacobian
    safe = np.where(at_nu.found & (brought > 0.0), brought, np.inf)
    return np.asarray(np.minimum(mu.density(at_nu.sources) / safe, 1.0))


def _kept_by_mu(mu: Spread, nu: Spread, potential: Potential) -> tuple[Array, Array]:
    """Masses at mu's points that S takes to nu's, and how far."""
    targets, slack = potential.map(mu.points)
    density = mu.density(mu.points)
    brought = nu.density(targets) * slack.jacobian
    share = np.minimum(brought / np.maximum(density, 1e-300), 1.0)
    share[(slack.least_curvature <= 0.0) | (slack.distance >= np.pi)] = 0.0
    # S may bring mass of two places to one: only that of the least slack counts
    some = np.flatnonzero(share > 0.0)
    own = 0.5 * slack.distance[some] ** 2 - potential.values(mu.points[some])
    share[some[own - potential.minima(targets[some]).values > _IN_CONTACT]] = 0.0
    return mu.masses * share, slack.distance
