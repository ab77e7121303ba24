"""W_1 and W_2 on S^2 without symmetry."""

from __future__ import annotations

import numpy as np

from meanfield._checks import shown
from meanfield.functionals.transport.bracket import Bracket, check_order
from meanfield.functionals.transport.clouds import best_plan, pair_distances
from meanfield.functionals.transport.quantiles import check_mass
from meanfield.functionals.transport.sphere_beckmann import beckmann_flow
from meanfield.functionals.transport.sphere_dual import DualAscent, dual
from meanfield.functionals.transport.sphere_masses import Cells, Spread, cells_of, series, spread_of
from meanfield.functionals.transport.sphere_potential import Minima, Potential
from meanfield.measures import AnyMeasure
from meanfield.measures.density import Density
from meanfield.spaces.sphere import Sphere
from meanfield.spaces.sphere_fields import SphereFields
from meanfield.typing import Array, Coefficients


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


# the powers that there are, with the relative gaps asked for where the caller asks for none
ON_SPHERE = {1.0: 2e-3, 2.0: 1e-2}
_FIRST_LMAX, _LARGEST_LMAX = 63, 511
# tokens have moments of all degrees: those of the potential that bounds their W_1
_LMAX_OF_TOKENS = 127
# degree of the potential, least weight, most steps and cells of each attempt at W_2
_ATTEMPTS = ((31, 0.03, 80, 700), (31, 0.01, 120, 2500), (63, 0.01, 150, 4000))
# rows of the lattice on which c-transforms are bounded, the next where one does not do
_ROWS = (64, 128, 256)
# tolerance of c-transforms, over the gap of W_2²
_SHARE = 0.02
_MOST_TARGETS = 8_000
_LARGEST_DENSITY = 1023
_ROUNDING = 1e-13


def sphere_distance(mu: AnyMeasure, nu: AnyMeasure, p: float, gap: float | None) -> Bracket:
    """Bounds of W_1 or W_2 between measures with dim = 3, at best (upper - lower)/upper <= gap.

    W_1 of densities comes from Beckmann's flow. Otherwise the upper bound is a plan between cells
    or, for densities, a potential's map, and the lower one the dual functional of a potential.

    Raises
    ------
    ValueError
        If p is neither 1 nor 2, or POT is needed and not installed.
    """
    if p not in ON_SPHERE:
        raise ValueError(
            f"p must be 1 or 2 for measures on S^2 without a shared axis, unless both are "
            f"Particles with at most 2^26 pairs; got p = {p:g}"
        )
    gap = ON_SPHERE[p] if gap is None else gap
    for measure in mu, nu:
        if (measure.degree or 0) > _LARGEST_DENSITY:
            raise ValueError(
                f"mu and nu must have degrees <= {_LARGEST_DENSITY} on S^2 without a shared axis, "
                f"got {shown(measure)}"
            )
    if isinstance(mu, Density) and isinstance(nu, Density):
        for density in mu, nu:
            check_mass(density, float(density.coefficients[0].real))
        near = _flow_of_rounding(mu, nu)
        if near is not None:
            upper = near if p == 1.0 else float(np.sqrt(np.pi * near))
            return Bracket(0.0, 0.0, upper, proved=True)
        if p == 1.0:
            flow = beckmann_flow(*_difference(mu, nu), gap, _LARGEST_LMAX)
            # flows come nearer than potentials, whose error is first order in the kinks they smooth
            return Bracket(flow.upper, flow.lower, flow.upper, proved=True)
    return (_first_power if p == 1.0 else _second_power)(spread_of(mu), spread_of(nu), gap)


def _difference(mu: Density, nu: Density) -> tuple[Coefficients, int]:
    """Coefficients of mu - nu in the layout of Sphere(lmax), and lmax; both have mass 1."""
    lmax = max(_FIRST_LMAX, mu.degree, nu.degree)
    difference = series(mu, lmax) - series(nu, lmax)
    difference[0] = 0.0
    return difference, lmax


def _flow_of_rounding(mu: Density, nu: Density) -> float | None:
    """(∫|∇Δ^{-1}ρ|² dσ)^{1/2} >= W_1 >= W_2²/π, where that is rounding of the coefficients."""
    difference, lmax = _difference(mu, nu)
    power, degrees = Sphere(lmax).power(difference), np.arange(1, lmax + 1)
    length = float(np.sqrt(np.sum(power[1:] / (degrees * (degrees + 1.0)))))
    return length if length <= _ROUNDING else None


def _first_power(first: Spread, second: Spread, gap: float) -> Bracket:
    space = Sphere(_LMAX_OF_TOKENS)
    difference = first.moments(space.size) - second.moments(space.size)
    difference[0] = 0.0
    heat = np.exp(-2.0 * space.degrees * (space.degrees + 1.0) / space.size**2)
    flow = beckmann_flow(heat * difference, space.size, max(gap, ON_SPHERE[1.0]), space.size)
    # φ is a series, so that moments give its mean under tokens, too
    lower = SphereFields(space).inner(flow.potential, difference)
    lower = max(lower - _ROUNDING - 2.0 * np.pi * (first.negative + second.negative), 0.0)
    upper = np.inf
    for _, _, _, cells in _ATTEMPTS:
        upper = min(upper, _between_cells(first, second, cells, 1.0))
        if lower >= (1.0 - gap) * upper:
            break
    check_order(lower, upper)
    return Bracket(0.5 * (lower + upper), lower, upper, proved=True)


def _second_power(first: Spread, second: Spread, gap: float) -> Bracket:
    # the potential of the more concentrated measure has fewer kinks
    if first.concentration < second.concentration:
        first, second = second, first
    # all of them bound or estimate W_2²
    lower, best, upper, by_map = 0.0, 0.0, np.inf, np.inf
    both_have_densities = first.has_density and second.has_density
    targets, masses = second.gathered(_MOST_TARGETS)
    ascent = DualAscent(first, targets, masses, _ATTEMPTS[0][0])
    coefficients = np.zeros(len(Sphere(ascent.lmax).degrees), dtype=np.complex128)
    for degree, floor, steps, cells in _ATTEMPTS:
        if degree != ascent.lmax:
            coefficients = Sphere(ascent.lmax).embed(coefficients, Sphere(degree))
            ascent = DualAscent(first, targets, masses, degree)
        upper = min(upper, _between_cells(first, second, cells, 2.0))
        coefficients = ascent.climb(coefficients, floor, steps, 0.5 * upper)
        potential = Potential(degree, coefficients)
        for rows in _ROWS:
            found = dual(first, second, potential, _SHARE * gap * upper, rows)
            lower, best = max(lower, 2.0 * found.lower), max(best, 2.0 * found.estimate)
            check_order(lower, upper)
            if rows == _ROWS[0] and not _close(best, upper, gap) and both_have_densities:
                by_map = min(by_map, _by_map(first, second, potential, cells, lower))
            # finer rows bring the bound nearer to the estimate
            near = min(upper, by_map)
            if _close(lower, near, gap) or not (second.has_density and _close(best, near, gap)):
                break
        if _close(lower, min(upper, by_map), gap):
            break
    proved = upper <= by_map or _close(lower, upper, gap)
    low, high = (float(np.sqrt(max(end, 0.0))) for end in (lower, upper if proved else by_map))
    # the dual functional has an error of second order in the potential, plans have one of first
    return Bracket(float(np.clip(np.sqrt(max(best, 0.0)), low, high)), low, high, proved)


def _by_map(first: Spread, second: Spread, potential: Potential, cells: int, lower: float) -> float:
    """W_2² by a potential's map; no plan costs less than the dual, unless its quadrature fails."""
    at_second = potential.minima(second.points)
    cost = map_cost(first, second, potential, at_second, cells)
    return cost if cost >= lower else np.inf


def _between_cells(first: Spread, second: Spread, most: int, p: float) -> float:
    """A bound of W_p^p from above: what a plan between cells costs, and mass that is elsewhere."""
    cost = cells_cost(first.cells(most), second.cells(most), p)
    return float((1.0 + _ROUNDING) * cost + (first.lost + second.lost) * np.pi**p)


def _close(lower: float, upper: float, gap: float) -> bool:
    """Whether the square roots are within the gap."""
    return bool(np.sqrt(max(lower, 0.0)) >= (1.0 - gap) * np.sqrt(upper))
