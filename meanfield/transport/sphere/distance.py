"""W_1 and W_2 on S^2 without symmetry."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.arguments import shown
from meanfield.measures import AnyMeasure, Density, LineFlowMap, Particles
from meanfield.spaces import Sphere
from meanfield.spaces.sphere.fields import SphereFields
from meanfield.transport.bracket import Bracket, check_order
from meanfield.transport.representation import check_mass
from meanfield.transport.sphere.ascent import DualAscent
from meanfield.transport.sphere.beckmann import BeckmannFlow, beckmann_flow
from meanfield.transport.sphere.dual import dual
from meanfield.transport.sphere.maps import map_cost
from meanfield.transport.sphere.potential import Potential
from meanfield.transport.sphere.spread import Spread, rings, series
from meanfield.transport.sphere.upper import cells_cost

Array = NDArray[np.float64]
Coefficients = NDArray[Any]

# the powers that there are, with the relative gaps asked for where the caller asks for none
ON_SPHERE = {1.0: 2e-3, 2.0: 1e-2}
_FIRST_LMAX, _LARGEST_LMAX = 63, 511
# tokens have moments of all degrees: those of the potential that bounds their W_1
_LMAX_OF_TOKENS = 127
# degree of the potential, least weight, most steps and cells of each attempt at W_2
_ATTEMPTS = ((31, 0.03, 80, 700), (31, 0.01, 120, 2500), (63, 0.01, 150, 4000))
_CELLS_OF_THE_REST = 800
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
        if isinstance(measure, Density) and measure.space.kmax > _LARGEST_DENSITY:
            raise ValueError(
                f"mu and nu must have degrees <= {_LARGEST_DENSITY} on S^2 without a shared axis, "
                f"got {shown(measure)}"
            )
    if isinstance(mu, Density) and isinstance(nu, Density):
        for density in mu, nu:
            check_mass(density, float(density.coefficients[0].real))
        near = _flow_of_rounding(mu, nu)
        if near is not None:
            return Bracket(
                0.0, 0.0, near if p == 1.0 else float(np.sqrt(np.pi * near)), proved=True
            )
    return (_first_power if p == 1.0 else _second_power)(mu, nu, gap)


def _flow_of_rounding(mu: Density, nu: Density) -> float | None:
    """(∫|∇Δ^{-1}ρ|² dσ)^{1/2} >= W_1 >= W_2²/π, where that is rounding of the coefficients."""
    space = Sphere(max(_FIRST_LMAX, mu.space.kmax, nu.space.kmax))
    power = space.power(series(mu, space.size) - series(nu, space.size))
    degrees = np.arange(1, space.size + 1)
    # the first coefficient is the mass, which counts as 1
    length = float(np.sqrt(np.sum(power[1:] / (degrees * (degrees + 1.0)))))
    return length if length <= _ROUNDING else None


def _first_power(mu: AnyMeasure, nu: AnyMeasure, gap: float) -> Bracket:
    if isinstance(mu, Density) and isinstance(nu, Density):
        lmax = max(_FIRST_LMAX, mu.space.kmax, nu.space.kmax)
        difference = series(mu, lmax) - series(nu, lmax)
        flow = _flow(difference, lmax, gap)
        # flows come nearer than potentials, whose error is first order in the kinks they smooth
        return Bracket(flow.upper, flow.lower, flow.upper, proved=True)
    first, second = Spread(_held(mu)), Spread(_held(nu))
    space = Sphere(_LMAX_OF_TOKENS)
    difference = first.moments(space.size) - second.moments(space.size)
    heat = np.exp(-2.0 * space.degrees * (space.degrees + 1.0) / space.size**2)
    flow = _flow(heat * difference, space.size, max(gap, ON_SPHERE[1.0]), space.size)
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


def _flow(
    difference: Coefficients, lmax: int, gap: float, largest: int = _LARGEST_LMAX
) -> BeckmannFlow:
    difference[0] = 0.0
    return beckmann_flow(difference, lmax, gap, largest)


def _second_power(mu: AnyMeasure, nu: AnyMeasure, gap: float) -> Bracket:
    first, second = Spread(_held(mu)), Spread(_held(nu))
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
                by_map = min(by_map, _by_map(first, second, potential, lower))
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


def _by_map(first: Spread, second: Spread, potential: Potential, lower: float) -> float:
    """W_2² by a potential's map; no plan costs less than the dual, unless its quadrature fails."""
    at_second = potential.minima(second.points)
    cost = map_cost(first, second, potential, at_second, _CELLS_OF_THE_REST)
    return cost if cost >= lower else np.inf


def _between_cells(first: Spread, second: Spread, most: int, p: float) -> float:
    """A bound of W_p^p from above: what a plan between cells costs, and mass that is elsewhere."""
    cost = cells_cost(first.cells(most), second.cells(most), p)
    return float((1.0 + _ROUNDING) * cost + (first.lost + second.lost) * np.pi**p)


def _close(lower: float, upper: float, gap: float) -> bool:
    """Whether the square roots are within the gap."""
    return bool(np.sqrt(max(lower, 0.0)) >= (1.0 - gap) * np.sqrt(upper))


def _held(measure: AnyMeasure) -> Density | Particles:
    if isinstance(measure, Density | Particles):
        return measure
    if isinstance(measure, LineFlowMap):
        return rings(measure)
    raise ValueError(f"mu and nu must be Density, FlowMap or Particles, got {shown(measure)}")
