"""Optimal plans between tokens, and optimal maps of measures without atoms."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import coo_array

from meanfield._checks import number, shown, unit_rows
from meanfield.functionals.transport.circle import best_shift, sliver
from meanfield.functionals.transport.clouds import cloud_plan
from meanfield.functionals.transport.distance import LARGEST_P, shared_axis
from meanfield.functionals.transport.quantiles import Atoms, Curve, Quantiles, quantiles
from meanfield.measures import AnyMeasure, check_pair
from meanfield.measures.particles import Particles
from meanfield.spaces.geometry import circle_angles, circle_points, perpendicular, polar_angles
from meanfield.typing import Array

# a plan is called optimal if its cost is known to be within this of the least, relative
_OPTIMAL = 1e-9


def transport_plan(mu: Particles, nu: Particles, p: float = 1) -> coo_array:
    """An optimal plan π of W_p between tokens: π[i, j] is the mass that goes from x_i to y_j.

    On the circle a monotone plan with at most n + m + 1 masses, of O((n + m) log(n + m)) work; in
    more dimensions that of POT's network simplex, n m <= 2^26, whose cost is the upper bound of
    `wasserstein`. Where several plans are optimal, one of them.

    Parameters
    ----------
    mu, nu : Particles
        n and m tokens.
    p : float, optional
        1 <= p <= 20.

    Returns
    -------
    scipy.sparse.coo_array, shape (n, m)
        Its rows have the sums `mu.weights`, its columns `nu.weights`.

    Warns
    -----
    RuntimeWarning
        If the cost ∫ dist^p dπ is not known to be within 1e-9 of the least one, relative. The
        warning says how far from it the plan may be.

    Raises
    ------
    ValueError
        If p is out of range, one is no Particles, the dimensions differ, there are too many
        tokens, or POT is needed and not installed.

    Examples
    --------
    >>> mu, nu = Particles([[1.0, 0.0], [0.0, 1.0]]), Particles([[0.0, -1.0]])
    >>> transport_plan(mu, nu).toarray()
    array([[0.5],
           [0.5]])
    """
    p = number("p", p, low=1, high=LARGEST_P)
    check_pair(mu, nu)
    for name, measure in ("mu", mu), ("nu", nu):
        if not isinstance(measure, Particles):
            raise ValueError(f"{name} must be Particles to have a plan, got {shown(measure)}")
    if mu.dim > 2:
        best = cloud_plan(mu, nu, p)[1]
        if best.upper - best.lower > _OPTIMAL * best.upper:
            warnings.warn(
                f"the plan of W_{p:g} may cost up to {best.upper / best.lower - 1.0:.1e} more than "
                f"the best one, relative"
                if best.lower > 0.0
                else f"how far the plan of W_{p:g} is from the best one is not known: bounds of "
                f"the least cost, relative to the plan's, are 0 and 1",
                RuntimeWarning,
                stacklevel=2,
            )
        return best.plan
    first, second = Atoms.on_circle(*mu.quadrature), Atoms.on_circle(*nu.quadrature)
    shape = len(mu.points), len(nu.points)
    return _monotone(first, second, best_shift(first, second, p), shape)


def _monotone(mu: Atoms, nu: Atoms, shift: float, shape: tuple[int, int]) -> coo_array:
    """The plan from Q_mu(u) to Q_nu(u + s), atom by atom."""
    cuts = nu.starts - shift
    cuts = np.unique(np.concatenate([mu.starts, cuts - np.floor(cuts)]))
    # slivers between sums of masses that should be equal
    cuts = cuts[np.append(np.diff(cuts) > sliver(len(cuts)), True)]
    middle = 0.5 * (cuts[1:] + cuts[:-1])
    rows = mu.order[np.searchsorted(mu.starts, middle) - 1]
    ahead = middle + shift
    columns = nu.order[np.searchsorted(nu.starts, ahead - np.floor(ahead)) - 1]
    plan = coo_array((np.diff(cuts), (rows, columns)), shape=shape)
    plan.sum_duplicates()
    return plan


def transport_map(mu: AnyMeasure, nu: AnyMeasure, at: ArrayLike, p: float = 1) -> Array:
    """Where an optimal map of W_p from mu to nu takes points.

    On the circle, or for two measures that are symmetric about one axis: the monotone map
    Q_nu(F_mu(x) + s), on the circle with the shift s of least cost (for p > 1 the only optimal
    map; for p = 1 one of them). To tokens it is a staircase.

    Parameters
    ----------
    mu, nu : Density, FlowMap or Particles
        mu must have a density.
    at : array_like, shape (n, d)
        Unit rows.
    p : float, optional
        1 <= p <= 20.

    Returns
    -------
    ndarray, shape (n, d)

    Raises
    ------
    ValueError
        If p is out of range, the dimensions differ, mu has atoms, the measures share no axis, or
        the points are no unit rows.

    Examples
    --------
    >>> from meanfield.laws import Uniform, VonMisesFisher
    >>> from meanfield.measures import Density
    >>> from meanfield.spaces import Circle
    >>> uniform = Density(Circle(16), Uniform(2))
    >>> transport_map(uniform, uniform, [[0.6, 0.8]], p=2).round(12)
    array([[0.6, 0.8]])
    """
    p = number("p", p, low=1, high=LARGEST_P)
    check_pair(mu, nu)
    points = unit_rows("at", at, mu.dim)
    if mu.dim == 2:
        first, second = quantiles(mu, None), quantiles(nu, None)
        masses = _curve(mu, first).cumulative(circle_angles(points))
        return circle_points(second.quantile(masses + best_shift(first, second, p)))
    axis = shared_axis(mu, nu)
    if axis is None:
        raise ValueError(
            f"mu and nu must lie on the circle or be symmetric about one axis, got {shown(mu)} and "
            f"{shown(nu)}"
        )
    first, second = quantiles(mu, axis), quantiles(nu, axis)
    angles = second.quantile(_curve(mu, first).cumulative(polar_angles(points, axis)))
    across = points - np.outer(points @ axis, axis)
    length = np.linalg.norm(across, axis=1)
    across[length == 0.0] = perpendicular(axis)
    across /= np.where(length == 0.0, 1.0, length)[:, None]
    return np.asarray(np.cos(angles)[:, None] * axis + np.sin(angles)[:, None] * across)


def _curve(measure: AnyMeasure, found: Quantiles) -> Curve:
    if found.is_smooth:
        return found
    raise ValueError(f"mu must have a density to have an optimal map, got {shown(measure)}")
