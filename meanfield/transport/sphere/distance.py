"""W_1 and W_2 on S^2 without symmetry."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from meanfield.arguments import shown
from meanfield.measures import AnyMeasure, Density, LineFlowMap, Particles
from meanfield.spaces import Sphere
from meanfield.spaces.sphere.fields import SphereFields
from meanfield.transport.bracket import Bracket
from meanfield.transport.representation import check_mass
from meanfield.transport.sphere.ascent import DualAscent
from meanfield.transport.sphere.beckmann import BeckmannFlow, beckmann_flow
from meanfield.transport.sphere.cells import cells_of
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
            return Bracket(0.0, 0.0, near if p == 1.0 else float(np.sqrt(np.pi * near)))
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
        return Bracket(flow.upper, flow.lower, flow.upper)
    first, second = Spread(_held(mu)), Spread(_held(nu))
    space = Sphere(_LMAX_OF_TOKENS)
    difference = first.moments(space.size) - second.moments(space.size)
    heat = np.exp(-2.0 * space.degrees * (space.degrees + 1.0) / space.size**2)
    flow = _flow(heat * difference, space.size, max(gap, ON_SPHERE[1.0]), space.size)
    # φ is a series, so that moments give its mean under tokens, too
    lower = max(SphereFields(space).inner(flow.potential, difference), 0.0)
    upper = np.inf
    for _, _, _, cells in _ATTEMPTS:
        upper = min(upper, cells_cost(_cells(first, cells), _cells(second, cells), 1.0))
        if lower >= (1.0 - gap) * upper:
            break
    lower = min(lower, upper)
    return Bracket(0.5 * (lower + upper), lower, upper)


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
    lower, upper = 0.0, np.inf
    targets, masses = second.gathered(_MOST_TARGETS)
    ascent = DualAscent(first, targets, masses, _ATTEMPTS[0][0])
    coefficients = np.zeros(len(Sphere(ascent.lmax).degrees), dtype=np.complex128)
    for degree, floor, steps, cells in _ATTEMPTS:
        if degree != ascent.lmax:
            coefficients = Sphere(ascent.lmax).embed(coefficients, Sphere(degree))
            ascent = DualAscent(first, targets, masses, degree)
        between = cells_cost(_cells(first, cells), _cells(second, cells), 2.0)
        upper = min(upper, between)
        coefficients = ascent.climb(coefficients, floor, steps, 0.5 * upper)
        potential = Potential(degree, coefficients)
        at_second = potential.conjugate(second.points)
        dual = first.masses @ potential.values(first.points) + second.masses @ at_second.values
        lower = max(lower, 2.0 * float(dual))
        if first.has_density and second.has_density and not _close(lower, upper, gap):
            by_map = map_cost(first, second, potential, at_second, _CELLS_OF_THE_REST)
            # no plan costs less than the dual functional, unless its quadrature fails
            upper = min(upper, by_map) if by_map >= lower else upper
        if _close(lower, upper, gap):
            break
    low, high = float(np.sqrt(max(min(lower, upper), 0.0))), float(np.sqrt(upper))
    # the dual functional has an error of second order in the potential, plans have one of first
    return Bracket(low, low, high)


def _cells(spread: Spread, most: int) -> Any:
    return cells_of(spread.points, spread.masses, most)


def _close(lower: float, upper: float, gap: float) -> bool:
    """Whether the square roots are within the gap."""
    return bool(np.sqrt(max(lower, 0.0)) >= (1.0 - gap) * np.sqrt(upper))


def _held(measure: AnyMeasure) -> Density | Particles:
    if isinstance(measure, Density | Particles):
        return measure
    if isinstance(measure, LineFlowMap):
        return rings(measure)
    raise ValueError(f"mu and nu must be Density, FlowMap or Particles, got {shown(measure)}")
