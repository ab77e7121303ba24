"""Kantorovich's dual functional on S^2: its value from below, and its ascent."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from meanfield.functionals.transport import sphere_potential
from meanfield.functionals.transport.bracket import ROUNDING
from meanfield.functionals.transport.sphere_masses import DensitySpread, Spread, series
from meanfield.measures.density import Density
from meanfield.spaces.geometry import exponential
from meanfield.spaces.lattice import Hats, Lattice, hats
from meanfield.spaces.sphere import Sphere
from meanfield.spaces.sphere_fields import Places, SphereAt, SphereFields
from meanfield.typing import Array, Coefficients

# the largest dist²/2, so that a c-transform has no two values farther apart
_RANGE = 0.5 * np.pi**2
# masses under hats that are left with a value below all, over the tolerance of the functional
_LEFT = 1e-2


class Dual(NamedTuple):
    """∫ φ dmu + ∫ ψ dnu, ψ the c-transform of φ: a lower bound, and an estimate."""

    lower: float
    estimate: float


def dual(
    mu: Spread, nu: Spread, potential: sphere_potential.Potential, tolerance: float, rows: int
) -> Dual:
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
    mean = mu.mean(potential)
    lost = mu.negative * 2.0 * potential.bounds.highest + 2.0 * nu.negative * _RANGE
    lost += ROUNDING * (1.0 + potential.bounds.highest)
    if isinstance(nu, DensitySpread):
        lower, estimate = _under_hats(nu.series, potential, tolerance, rows)
    else:
        conjugate = potential.conjugate(nu.points, tolerance)
        lower = float(nu.masses @ conjugate.lower)
        estimate = float(nu.masses @ conjugate.upper)
    return Dual(mean + lower - lost, mean + estimate)


def _under_hats(
    measure: Density, potential: sphere_potential.Potential, tolerance: float, rows: int
) -> tuple[float, float]:
    """A lower bound and an estimate of ∫ ψ over a density."""
    lmax = measure.degree
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


def _between(
    lattice: Lattice, found: Hats, potential: sphere_potential.Potential, upper: Array
) -> float:
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


_SEARCH_LMAX = 31
_BLOCK = 256
_MEMORY = 15
_SHORTENED, _MOST_CUTS, _ENOUGH = 0.4, 6, 1e-4
_LOOK_BACK = 10
_STALLED = 3e-5
_SOLVER_STEPS, _SOLVER_TOLERANCE = 12, 1e-4


class DualAscent:
    """Potentials of degree lmax that ascend, by L-BFGS with the Laplacian weighted by mu.

    The derivative of D is mu - T#nu with T(y) where the c-transform ψ(y) takes its minimum, and its
    second derivative is about -div(mu ∇): steps are solutions of weighted Poisson equations, as the
    back-and-forth method (Jacobs and Léger 2020) has them for a constant weight.

    Parameters
    ----------
    mu, nu : Spread
    targets, masses : ndarray, shapes (n, 3) and (n,)
        nu, coarse enough for a table of n times the search grid.
    lmax : int
    """

    def __init__(self, mu: Spread, targets: Array, masses: Array, lmax: int) -> None:
        order = sphere_potential.RingSearch.order(targets)
        self._targets, self._masses, self.lmax = targets[order], masses[order], lmax
        space = self._space = Sphere(lmax)
        self._moments = mu.moments(lmax)
        self._fields, self._at = SphereFields(space), SphereAt(lmax)
        eigenvalues = space.degrees * (space.degrees + 1.0)
        self._inverse = np.where(eigenvalues > 0.0, 1.0 / np.maximum(eigenvalues, 1.0), 0.0)
        smooth = np.exp(-2.0 * eigenvalues / lmax**2) * self._moments
        self._weight = np.maximum(space.synthesis(smooth), 0.0)
        self._search = Sphere(max(_SEARCH_LMAX, lmax))
        self._search_fields = SphereFields(self._search, lmax)
        self._frame = self._search.frame(np.arange(len(self._search.weights)))
        self._rings = sphere_potential.RingSearch(self._search, self._targets)
        self._costs = _cost_table(self._targets, self._search.points)

    def climb(
        self, start: Coefficients, floor: float, most_steps: int, goal: float
    ) -> Coefficients:
        """From a potential to a better one; the weight is at least `floor` of its largest value.

        Ends where D reaches the goal, no longer grows, or after so many steps.
        """
        weight = np.maximum(self._weight, floor * self._weight.max())
        place, (height, slope) = start, self._dual(start)
        changes: deque[tuple[Coefficients, Coefficients]] = deque(maxlen=_MEMORY)
        heights = [height]
        for _ in range(most_steps):
            direction = self._direction(slope, changes, weight)
            moved = self._line_search(place, height, slope, direction)
            if moved is None:
                break
            step, height, new_slope = moved
            change = slope - new_slope
            if self._fields.inner(step, change) > 0.0:
                changes.append((step, change))
            place, slope = place + step, new_slope
            heights.append(height)
            before = heights[-min(_LOOK_BACK, len(heights))]
            if height >= goal or (
                len(heights) > _LOOK_BACK and height - before < _STALLED * height
            ):
                break
        return place

    def _line_search(
        self, place: Coefficients, height: float, slope: Coefficients, direction: Coefficients
    ) -> tuple[Coefficients, float, Coefficients] | None:
        """Step, height and slope there; None where no step ascends."""
        expected, length = self._fields.inner(direction, slope), 1.0
        for _ in range(_MOST_CUTS):
            new_height, new_slope = self._dual(place + length * direction)
            if new_height > height + _ENOUGH * length * expected:
                return length * direction, new_height, new_slope
            length *= _SHORTENED
        return None

    def _dual(self, potential: Coefficients) -> tuple[float, Coefficients]:
        """D and its derivative, with the c-transform to second order from the search grid."""
        fields, frame = self._search_fields, self._frame
        values = fields.values(potential)
        nearest = self._least(values.astype(np.float32))
        gradient, hessian = fields.gradient(potential), fields.hessian(potential)
        at, sources = frame[:, nearest], self._search.points[nearest]
        inner = np.clip(np.einsum("jk,jk->j", sources, self._targets), -1.0, 1.0)
        towards = np.einsum("ijk,jk->ij", at, self._targets)
        distance = np.arctan2(np.hypot(towards[0], towards[1]), inner)
        towards *= distance / np.maximum(np.hypot(towards[0], towards[1]), 1e-300)
        slack = sphere_potential.Slack(towards, gradient[:, nearest], hessian[:, nearest])
        step = slack.step(np.pi / len(self._search.colatitudes))
        conjugate = 0.5 * distance**2 - values[nearest] + np.minimum(slack.change(step), 0.0)
        moved = exponential(sources, np.einsum("ij,ijk->jk", step, at))
        slope = self._moments - self._at.moments(Places.of(moved), self._masses)
        slope[0] = 0.0
        return self._fields.inner(potential, self._moments) + float(self._masses @ conjugate), slope

    def _least(self, values: NDArray[np.float32]) -> NDArray[np.intp]:
        nearest = np.empty(len(self._targets), dtype=np.intp)
        for rows, columns in self._rings.parts(values):
            slack = self._costs[rows, columns] - values[columns]
            nearest[rows] = columns.start + slack.argmin(axis=1)
        return nearest

    def _direction(
        self, slope: Coefficients, changes: deque[tuple[Coefficients, Coefficients]], weight: Array
    ) -> Coefficients:
        """L-BFGS, two loops around the weighted Poisson equation."""
        inner = self._fields.inner
        rest, shares = slope.copy(), []
        for step, change in reversed(changes):
            share = inner(step, rest) / inner(step, change)
            rest -= share * change
            shares.append(share)
        direction = self._poisson(rest, weight)
        for (step, change), share in zip(changes, reversed(shares), strict=True):
            direction += step * (share - inner(change, direction) / inner(step, change))
        return direction

    def _poisson(self, source: Coefficients, weight: Array) -> Coefficients:
        """-div(weight ∇ x) = source by a few steps of conjugate gradients."""
        x, rest = np.zeros_like(source), source.copy()
        ahead = self._inverse * rest
        along = ahead.copy()
        size = first = self._fields.inner(rest, ahead)
        for _ in range(_SOLVER_STEPS):
            image = self._fields.weak_divergence(weight * self._fields.gradient(along))
            image[0] = 0.0
            length = size / self._fields.inner(along, image)
            x += length * along
            rest -= length * image
            ahead = self._inverse * rest
            new_size = self._fields.inner(rest, ahead)
            if new_size < _SOLVER_TOLERANCE * first:
                break
            along = ahead + (new_size / size) * along
            size = new_size
        return x


def _cost_table(targets: Array, sources: Array) -> NDArray[np.float32]:
    """dist²/2 of all pairs in single precision."""
    table = np.empty((len(targets), len(sources)), dtype=np.float32)
    columns = sources.astype(np.float32).T.copy()
    for first in range(0, len(targets), _BLOCK):
        rows = table[first : first + _BLOCK]
        np.matmul(targets[first : first + _BLOCK].astype(np.float32), columns, out=rows)
        sphere_potential.half_square_of_distance(rows)
    return table
