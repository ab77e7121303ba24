"""Kantorovich's dual functional of a potential on S^2, from below."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meanfield.measures import Density
from meanfield.spaces import Sphere
from meanfield.spaces.sphere.fields import SphereFields
from meanfield.spaces.sphere.lattice import Hats, Lattice, hats
from meanfield.transport.sphere.potential import Potential
from meanfield.transport.sphere.spread import Spread, series

Array = NDArray[np.float64]

# the largest dist²/2, so that a c-transform has no two values farther apart
_RANGE = 0.5 * np.pi**2
# masses under hats that are left with a value below all, over the tolerance of the functional
_LEFT = 1e-2
_ROUNDING = 1e-12


class Dual(NamedTuple):
    """∫ φ dmu + ∫ ψ dnu, ψ the c-transform of φ: a lower bound, and an estimate."""

    lower: float
    estimate: float


def dual(mu: Spread, nu: Spread, potential: Potential, tolerance: float, rows: int) -> Dual:
    """The dual functional of a potential, whose bound nothing is missing from.

    ∫ φ dmu is a product of series, or a sum over tokens. ψ is bounded from below by branch and
    bound, at nu's tokens or at the corners of a lattice of so many rows. Between the corners it has
    a minorant: second derivatives of ψ are at most those of dist²/2, so that it lies above its
    linear interpolation but for their half times (θ - θ_i)(θ_{i+1} - θ) along a meridian, where
    they are at most 1, and the like along a parallel. The minorant is integrated exactly against
    nu's series. Mass below 0 that nu's or mu's series has counts with the largest difference.

    Parameters
    ----------
    mu, nu : Spread
    potential : Potential
    tolerance : float
        Of the c-transform.
    rows : int
    """
    mean = _mean(mu, potential)
    lost = mu.negative * 2.0 * potential.bounds.highest + 2.0 * nu.negative * _RANGE
    lost += _ROUNDING * (1.0 + potential.bounds.highest)
    if isinstance(nu.measure, Density):
        lower, estimate = _under_hats(nu.measure, potential, tolerance, rows)
    else:
        conjugate = potential.conjugate(nu.points, tolerance)
        lower = float(nu.masses @ conjugate.lower)
        estimate = float(nu.masses @ conjugate.upper)
    return Dual(mean + lower - lost, mean + estimate)


def _mean(mu: Spread, potential: Potential) -> float:
    """∫ φ dmu."""
    if not isinstance(mu.measure, Density):
        return float(mu.masses @ potential.values(mu.points))
    lmax = max(potential.lmax, mu.measure.space.kmax)
    own, space = series(mu.measure, lmax), Sphere(lmax)
    wide = Sphere(potential.lmax).embed(potential.coefficients, space)
    return SphereFields(space).inner(own, wide) / float(own[0].real)


def _under_hats(
    measure: Density, potential: Potential, tolerance: float, rows: int
) -> tuple[float, float]:
    """A lower bound and an estimate of ∫ ψ over a density."""
    lmax = measure.space.kmax
    own = series(measure, lmax)
    while rows <= lmax + 1:
        rows *= 2
    lattice = Lattice(rows)
    found = hats(lattice, own, lmax)
    masses, mass = found.masses, float(own[0].real)
    order = np.argsort(np.abs(masses))
    left = np.zeros(len(masses), dtype=np.bool_)
    left[order] = np.cumsum(np.abs(masses[order])) < _LEFT * tolerance
    bounds = potential.bounds
    conjugate = potential.conjugate(lattice.corners[~left], tolerance)
    # where it is left, any bounds of the least slack will do: -max φ, and -φ at the point itself
    lower, upper = np.full(len(masses), -bounds.top), np.full(len(masses), bounds.highest)
    lower[~left], upper[~left] = conjugate.lower, conjugate.upper
    middle = float(masses @ upper) / mass
    below = np.where(masses > 0.0, lower, upper) - middle
    lost = _between(lattice, found, potential, upper) + found.error * _RANGE
    estimate = middle - _second_differences(lattice, masses, upper) / mass
    return middle + (float(masses @ below) - lost) / mass, estimate


def _between(lattice: Lattice, found: Hats, potential: Potential, upper: Array) -> float:
    """By how much interpolation between the corners exceeds ∫ ψ at most.

    Along a parallel second derivatives of ψ are at most sin²θ + |∇ψ| sin θ |cos θ|, and |∇ψ| is the
    distance from the least slack, dist²/2 = ψ + φ. Along any circle, as the source of y turns with
    it, they are at most those of -φ along a circle.
    """
    bounds, step = potential.bounds, lattice.step
    turning = bounds.sharpest + 0.5 * bounds.steepest
    sines, cosines = np.sin(lattice.edges), np.abs(np.cos(lattice.edges))
    of_rows = np.maximum.reduceat(upper, np.r_[0, 1 + lattice.n_lon * np.arange(lattice.n)])
    highest = of_rows + np.pi * 0.5 * step * sines + bounds.top
    far = np.minimum(np.sqrt(2.0 * np.maximum(highest, 0.0)), np.pi)
    across = np.minimum(sines**2 + far * sines * cosines, turning)
    along = min(1.0, turning)
    # the mean of (φ - φ_j)(φ_{j+1} - φ)/2 over a cell is Δ²/12, of each harmonic of order < n_lon
    of_parallels = step**2 / 12.0 * float(np.maximum(found.of_rows, 0.0) @ across)
    return along * found.between + of_parallels


def _second_differences(lattice: Lattice, masses: Array, upper: Array) -> float:
    """What linear interpolation lacks, from the second differences of ψ, but beside the poles."""
    shape = lattice.n - 1, lattice.n_lon
    values, weights = upper[1:-1].reshape(shape), masses[1:-1].reshape(shape)
    along = values[2:] - 2.0 * values[1:-1] + values[:-2]
    across = np.roll(values, 1, axis=1) - 2.0 * values + np.roll(values, -1, axis=1)
    return float(np.sum(weights[1:-1] * along) + np.sum(weights * across)) / 12.0
